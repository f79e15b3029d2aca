"""The text of one LLVM module: functions, constant tables, elementary functions and declarations, without duplicates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from functad.backends.llvm.module import Machine, host
from functad.backends.native.plan import TINY, Plan
from functad.emitters.llvm import Text, joined
from functad.expressions.expressions import Expressions
from functad.loops.build import KINDS, Code
from functad.loops.elementary.table import Definition, called
from functad.loops.ir import Function, Table
from functad.loops.merge import merged
from functad.loops.reductions import lowered
from functad.loops.schedule import scheduled
from functad.loops.values import Value
from functad.process import context_variable, setting

LONGEST_INLINED = 250
"""Longer loops are not inlined: the time to optimise a function grows faster than its length."""
INLINED_TOGETHER = 2_000
"""The maximum number of inlined lines of loops in a module; further loops are called, with the same run time. For a truss of
2300 operations, assembled bar by bar, with 915 loops of 280 kinds, this reduced the compile time from 10.8 s to 1.5 s."""

WHOLE_VECTORS = """\
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.vectorize.predicate.enable", i1 true}
"""
"""The loop metadata `!0`: a masked vector computes the remaining elements, instead of a scalar loop."""


_AFTER: ContextVar[Callable[[Function], object] | None] = context_variable("after each function", default=None)


def after_each_function(call: Callable[[Function], object] | None) -> AbstractContextManager[None]:
    """Call a function with each function of the loop IR that is added to a module, for tests; `None` for no function."""
    return setting(_AFTER, call)


class ModuleText:
    """The parts of a module.

    Args:
        machine: the target of the compilation. Default: this processor.
        alone: `True` for a module that calls no function of Python, NumPy or functad, and runs on one thread.
        most: arrays of up to this many elements are values of the function, one per element.

    Attributes:
        prefix: the beginning of the names of functions and tables, which differs from names of the user.
        functions: the functions.
        definitions: the elementary functions that they call.
        called: the name and type of the elementary functions that are compiled separately, by symbol.
        tables: the constant tables.
        support: the texts of functions that are not in the loop IR, by symbol.
        imported: the names of functions of other libraries that the module calls.
        workspace: returns the address of memory of a given size from the caller; `None` if the caller provides none.
    """

    def __init__(self, machine: Machine | None = None, *, alone: bool = False, most: int = TINY) -> None:
        self.machine = host() if machine is None else machine
        self.alone, self.most = alone, most
        self.prefix = "functad." if alone else ""
        self.functions: list[Function] = []
        self._texts: list[Text] = []
        self.definitions: dict[str, Definition] = {}
        self.called: dict[str, tuple[str, str]] = {}
        self.tables: dict[str, Table] = {}
        self.support: dict[str, str] = {}
        self.imported: set[str] = set()
        self.workspace: Callable[[int], Value] | None = None
        self._tables: dict[Any, str] = {}
        self._parts: dict[Function, tuple[str, int]] = {}
        self._inlined = 0
        self._plans: dict[int, tuple[Plan, Expressions]] = {}

    def plan_of(self, expressions: Expressions) -> Plan:
        """Return the plan of an inner list, from a cache."""
        known = self._plans.get(id(expressions))
        if known is None:
            known = self._plans[id(expressions)] = Plan(expressions, most=self.most), expressions
        return known[0]

    def add(self, code: Code, function: Function) -> int:
        """Add a function to the module, and return the number of its lines."""
        if (after := _AFTER.get()) is not None:
            after(function)
        text = Text(function)
        self.functions.append(function)
        self._texts.append(text)
        self.definitions |= code.definitions
        self.called |= code.called
        return len(text.lines)

    def call(self, outer: Code, inner: Code, *, inline: bool = True) -> None:
        """Call an anonymous function; add it to the module unless an equal function exists.

        Args:
            outer: the caller.
            inner: the function to call.
            inline: `True` if a short function may be inlined.
        """
        parameters = [(v.kind, v.name) for v in inner.captured.values()]
        if (after := _AFTER.get()) is not None:
            after(inner.function("", parameters, local=True))
        lowered(inner)
        function = scheduled(inner.function("", parameters, local=True))
        known = self._parts.get(function)
        if known is None:
            name = f"@{self.prefix}part{len(self.functions)}"
            known = self._parts[function] = name, self.add(inner, function._replace(name=name))
        name, length = known
        inlined = inline and length <= LONGEST_INLINED and self._inlined + length <= INLINED_TOGETHER
        self._inlined += length if inlined else 0
        given = [(v.kind, own) for own, v in inner.captured.items()]
        outer.run(name, *given, inline="always" if inlined else "never")

    def table(self, code: Code, values: np.ndarray[Any, Any]) -> Value:
        """Return the address of a table of constants in the module."""
        kind = KINDS[values.dtype]
        key = kind, values.shape, values.tobytes()
        if key not in self._tables:
            name = self._tables[key] = f"@{self.prefix}table{len(self._tables)}"
            self.tables[name] = Table(name, kind, tuple(values.ravel().tolist()))
        return Value(code, self._tables[key], "ptr")

    def text(self) -> str:
        """Return the whole module, with merged functions."""
        functions = merged(self.functions)
        if functions is not self.functions:
            self.functions, self._texts = list(functions), list(map(Text, functions))
            if (after := _AFTER.get()) is not None:
                for function in functions:
                    after(function)
        needed = {symbol for text in self._texts for symbol in text.needs}
        own = {symbol: each for symbol, each in self.definitions.items() if symbol in needed}
        definitions = {**(self._with_called() if self.alone else {}), **own}
        tables = [*self.tables.values(), *[table for own in definitions.values() for table in own.tables]]
        texts = [*map(_emitted, definitions.values()), *self._texts]
        loops = WHOLE_VECTORS if self.machine.masked else "!0 = distinct !{!0}"
        return f"{joined(texts, tables, self.support)}\n{loops}"

    def _with_called(self) -> dict[str, Definition]:
        """Return the elementary functions that other modules share, as functions of this module."""
        parts = [part for own in self.called.values() for part in called(*own, fused=self.machine.fused)]
        return {part.function.name: Definition(part.function._replace(local=True), part.tables) for part in parts}


@cache
def _emitted(own: Definition) -> Text:
    """Return the text of an elementary function."""
    return Text(own.function)
