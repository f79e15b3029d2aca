"""The text of one LLVM module: functions, constant tables, elementary functions and declarations, without duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.backends.llvm.elementary import Definition, joined
from functad.backends.llvm.module import host
from functad.backends.llvm.values import Value, literal
from functad.backends.native.code import KINDS, Code
from functad.backends.native.plan import Plan
from functad.expressions.expressions import Expressions

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


class ModuleText:
    """The parts of a module.

    Attributes:
        functions: the texts of the functions.
        definitions: the elementary functions that they call.
        called: the name and type of the elementary functions that are compiled separately, by symbol.
        declarations: the declarations of intrinsics and the constant tables.
        imported: the names of functions of other libraries that the module calls.
        workspace: returns the address of memory of a given size from the caller; `None` if the caller provides none.
    """

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.definitions: dict[str, Definition] = {}
        self.called: dict[str, tuple[str, str]] = {}
        self.declarations: dict[str, None] = {}
        self.imported: set[str] = set()
        self.workspace: Callable[[int], Value] | None = None
        self._tables: dict[Any, str] = {}
        self._parts: dict[str, str] = {}
        self._inlined = 0
        self._plans: dict[int, tuple[Plan, Expressions]] = {}

    def plan_of(self, expressions: Expressions) -> Plan:
        """Return the plan of an inner list, from a cache."""
        known = self._plans.get(id(expressions))
        if known is None:
            known = self._plans[id(expressions)] = Plan(expressions), expressions
        return known[0]

    def function(self, code: Code, head: str) -> None:
        """Add a function to the module."""
        self.functions.append(code.text(head))
        self.definitions |= code.definitions
        self.called |= code.called
        self.declarations |= code.declarations

    def call(self, outer: Code, inner: Code, *, inline: bool = True) -> None:
        """Call an anonymous function; add it to the module unless a function with the same text exists.

        Args:
            outer: the caller.
            inner: the function to call.
            inline: `True` if a short function may be inlined.
        """
        given = [Value(outer, own, "") for own in inner.captured]
        parameters = ", ".join(f"{v.kind}{' noalias' if v.kind == 'ptr' else ''} {v.name}" for v in inner.captured.values())
        arguments = ", ".join(f"{v.kind} {own.name}" for own, v in zip(given, inner.captured.values(), strict=True))
        text = inner.text(f"({parameters}) nounwind")
        name = self._parts.get(text)
        if name is None:
            name = self._parts[text] = f"@part{len(self.functions)}"
            self.function(inner, f"define internal void {name}({parameters}) nounwind")
        length = len(inner.lines)
        inlined = inline and length <= LONGEST_INLINED and self._inlined + length <= INLINED_TOGETHER
        self._inlined += length if inlined else 0
        outer.do(f"call void {name}({arguments}) {'alwaysinline' if inlined else 'noinline'}")

    def table(self, code: Code, values: np.ndarray[Any, Any]) -> Value:
        """Return the address of a table of constants in the module."""
        kind = KINDS[values.dtype]
        key = kind, values.shape, values.tobytes()
        if key not in self._tables:
            stored = "i8" if kind == "i1" else kind
            name = self._tables[key] = f"@table{len(self._tables)}"
            entries = ", ".join(f"{stored} {literal(v.item(), kind)}" for v in values.ravel())
            self.declarations[f"{name} = internal unnamed_addr constant [{values.size} x {stored}] [{entries}], align 64"] = (
                None
            )
        return Value(code, self._tables[key], "ptr")

    def text(self) -> str:
        """Return the whole module."""
        parts = joined(list(self.definitions.values()))
        known = set(parts.splitlines())
        declarations = [line for line in self.declarations if line not in known]
        loops = WHOLE_VECTORS if host().masked else "!0 = distinct !{!0}"
        return "\n".join([*declarations, parts, *self.functions, loops])
