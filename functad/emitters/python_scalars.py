"""The text of functions of the loop IR as Python code on numbers, without NumPy.

Buffers are lists. A buffer whose positions are all known becomes one variable for each element. Short loops are unrolled, and
calls of other functions of the loop IR are inlined. Python raises an exception for some operations that give an infinity or
NaN, such as a division by zero.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functad.loops.ir import (
    REALS,
    Allocate,
    Barrier,
    Call,
    For,
    Function,
    If,
    Load,
    Node,
    Op,
    Store,
    is_name,
    number_of,
    operands_of,
    walk,
)

_UNROLLED = 8
"""The largest number of iterations of an unrolled loop. An outermost loop is not unrolled."""

_WIDEST = 60
"""The largest length of an expression that is nested in another expression."""

_FORMS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}",
    "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}",
    "select": "{1} if {0} else {2}", "freeze": "{}", "copy": "{}",
}  # fmt: skip
_OF_REALS = {"div": "{} / {}", "fmuladd": "{} * {} + {}", "fabs": "abs({})", "convert": "float({})"}
_OF_INTEGERS = {"udiv": "{} // {}", "urem": "{} % {}", "convert": "int({})"}
_OF_BOOLEANS = {"and": "{} and {}", "or": "{} or {}", "xor": "{} != {}"}
_BY_KIND = {"double": _FORMS | _OF_REALS, "i64": _FORMS | _OF_INTEGERS, "i1": _FORMS | _OF_BOOLEANS}
_OF_MATH: dict[str, Callable[..., float]] = {"sqrt": math.sqrt, "rem": math.fmod, "copysign": math.copysign}
_KNOWN: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "udiv": operator.floordiv,
    "urem": operator.mod,
}


class NotPythonError(Exception):
    """A function has an operation without text on Python numbers."""


class Text:
    """The lines of a function.

    Args:
        function: the function. Its parameters are buffers.
        parts: the functions that it calls, by symbol.
        called: returns the function of `math` that computes an elementary function, by its symbol; `None` if its formula does.
        prefix: the prefix of all names.

    Attributes:
        lines: the lines of the body.
        functions: the functions of `math` that the lines call, by their names there.

    Raises:
        NotPythonError: an operation has no text.
    """

    def __init__(self, function: Function, parts: Mapping[str, Function], called: Callable[[str], Any], prefix: str) -> None:
        self.parts, self.called, self.prefix = parts, called, prefix
        self.functions: dict[str, Callable[..., float]] = {}
        self._lists: set[str] = set()
        for _ in range(2):  # the first run finds the buffers that must be lists
            self.lines: list[str] = []
            self._indent = ""
            self._counts = Counter[str]()
            env = {name: f"{prefix}_{name[1:]}" for _, name in function.parameters}
            self._inputs = {f"{prefix}_{name[1:]}" for _, name in function.parameters if name.startswith("%a")}
            self._body(function.body, env, ())

    def is_list(self, buffer: str) -> bool:
        """Return `True` if a parameter is a list; else each of its elements is a variable."""
        return f"{self.prefix}_{buffer}" in self._lists

    def _new(self, letter: str = "n") -> str:
        self._counts[letter] += 1
        return f"{self.prefix}_{letter}{self._counts[letter]}"

    def _line(self, text: str) -> None:
        self.lines.append(self._indent + text)

    def _body(self, body: Sequence[Node], env: dict[str, str], results: Sequence[str]) -> None:
        """Write the nodes of a body; names in `results` are read behind it."""
        uses = _uses(body, results)
        tail = len(body)
        while tail and isinstance(body[tail - 1], (Op, Store)):
            tail -= 1
        changed = {name: i for i, node in enumerate(body[:tail]) for name in _changed(node)}
        for i, node in enumerate(body[:tail]):
            if isinstance(node, Store):
                self._line(" = ".join(self._stored(node, env)))
            elif isinstance(node, Load):
                self._load(node, env, uses[node.result], changed.get(node.buffer, -1) < i)
            else:
                self._node(node, env, uses)
        places, values = list[str](), list[str]()
        for node in body[tail:]:  # stores of values computed before: the last lines, variables together
            if not isinstance(node, Store):
                self._node(node, env, uses)
                continue
            place, value = self._stored(node, env)
            if place.endswith("]"):
                self._line(f"{place} = {value}")
            elif place in places:
                values[places.index(place)] = value
            elif place != value:
                places.append(place)
                values.append(value)
        if places:
            self._line(f"{', '.join(places)} = {', '.join(values)}")

    def _node(self, node: Node, env: dict[str, str], uses: Counter[str]) -> None:
        """Write a node other than a load or a store."""
        if isinstance(node, Op):
            if uses[node.result]:
                self._bind(node.result, self._operation(node, env), env, uses[node.result])
        elif isinstance(node, Allocate):
            env[node.result] = name = self._new("m")
            if name in self._lists:
                self._line(f"{name} = [0.0] * {node.length}")
        elif isinstance(node, Call):
            if uses[node.result] or not node.pure:
                self._call(node, env, uses)
        elif isinstance(node, For):
            self._for(node, env)
        elif isinstance(node, If):
            self._nested(f"if {self._text(node.condition, 'i1', env)}:", node.body, env)
        elif not isinstance(node, Barrier):
            raise NotPythonError(node)

    def _nested(self, head: str, body: Sequence[Node], env: dict[str, str]) -> None:
        self._line(head)
        start, around = len(self.lines), self._indent
        self._indent += "    "
        self._body(body, env, ())
        if len(self.lines) == start:
            self._line("pass")
        self._indent = around

    def _bind(self, name: str, text: str, env: dict[str, str], uses: int) -> None:
        """Let a name have a text: a short expression that is read once, or a variable."""
        if not _is_atom(text) and (uses > 1 or len(text) > _WIDEST):
            variable = self._new()
            self._line(f"{variable} = {text}")
            text = variable
        env[name] = text

    def _text(self, operand: str, kind: str, env: Mapping[str, str]) -> str:
        if is_name(operand):
            return env[operand]
        if kind not in REALS:
            return str(operand == "1") if kind == "i1" else operand
        number = number_of(operand, kind)
        return repr(number) if math.isfinite(number) else f"float('{number}')"

    def _operation(self, node: Op, env: Mapping[str, str]) -> str:
        kinds = [kind for kind, _ in operands_of(node)]
        given = [self._text(text, kind, env) for text, kind in zip(node.operands, kinds, strict=True)]
        if node.kind == "i64" and node.name in _KNOWN and all(map(_is_integer, given)):
            return str(_KNOWN[node.name](*map(int, given)))
        if node.name == "convert" and node.kind == "double" and _is_integer(given[0]):
            return repr(float(given[0]))
        if node.name == "unordered" and given[0] == given[1]:
            return f"{_within(given[0])} != {_within(given[0])}"
        if not {*kinds, node.kind} <= _BY_KIND.keys() or (node.name == "convert" and node.of == "double"):
            raise NotPythonError(node)
        if node.name in _OF_MATH and node.kind == "double":
            return self._of_math(_OF_MATH[node.name], given)
        form = _BY_KIND[node.kind].get(node.name)
        if form is None:
            raise NotPythonError(node)
        return form.format(*map(_within, given))

    def _of_math(self, function: Callable[..., float], given: Sequence[str]) -> str:
        name = f"math_{function.__name__}"
        self.functions[name] = function
        return f"{name}({', '.join(given)})"

    def _place(self, buffer: str, position: str, env: Mapping[str, str]) -> str:
        """Return the text of an element: a variable, or an item of a list."""
        own, index = env[buffer], self._text(position, "i64", env)
        if not _is_integer(index):
            self._lists.add(own)
        return f"{own}[{index}]" if own in self._lists or not _is_integer(index) else f"{own}_{index}"

    def _stored(self, node: Store, env: Mapping[str, str]) -> tuple[str, str]:
        """Return the text of the element that a store changes, and of the value."""
        if node.kind not in _BY_KIND:
            raise NotPythonError(node)
        return self._place(node.buffer, node.position, env), self._text(node.value, node.kind, env)

    def _load(self, node: Load, env: dict[str, str], uses: int, is_last: bool) -> None:
        """Let the result of a load have a text: the place of the element if it is not changed before its readers."""
        if node.kind not in _BY_KIND or node.buffer not in env:
            raise NotPythonError(node)
        place, constant = self._place(node.buffer, node.position, env), env[node.buffer] in self._inputs
        if uses and not (constant and uses == 1) and not (place.isidentifier() and (constant or is_last)):
            variable = self._new()
            self._line(f"{variable} = {place}")
            place = variable
        env[node.result] = place

    def _call(self, node: Call, env: dict[str, str], uses: Counter[str]) -> None:
        given = [self._text(operand, kind, env) for kind, operand in node.operands]
        function = self.called(node.function) if node.pure else None
        if function is not None:
            self._bind(node.result, self._of_math(function, given), env, uses[node.result])
            return
        part = self.parts.get(node.function)
        if part is None:
            raise NotPythonError(node)
        inner = dict[str, str]()
        for (_, parameter), text in zip(part.parameters, given, strict=True):
            self._bind(parameter, text, inner, 2)
        self._body(part.body, inner, () if part.result is None else (part.result[1],))
        if part.result is not None:
            self._bind(node.result, self._text(part.result[1], part.result[0], inner), env, uses[node.result])

    def _for(self, node: For, env: dict[str, str]) -> None:
        first, stop = self._text(node.first, "i64", env), self._text(node.stop, "i64", env)
        if _is_integer(first) and _is_integer(stop):
            indices = range(int(first), int(stop), node.step)
            if len(indices) <= _UNROLLED and self._indent:
                for i in indices:
                    env[node.variable] = str(i)
                    self._body(node.body, env, ())
                return
        env[node.variable] = name = self._new("i")
        step = f", {node.step}" if node.step != 1 else ""
        bounds = f"{first}, {stop}{step}" if first != "0" or step else stop
        self._nested(f"for {name} in range({bounds}):", node.body, env)


def _uses(body: Sequence[Node], results: Sequence[str]) -> Counter[str]:
    """Return how often the nodes of a body read each name, without reads for unused results. A nested body counts twice."""
    uses = Counter(results)
    for node in reversed(body):
        if isinstance(node, (Op, Load)) or (isinstance(node, Call) and node.pure):
            if uses[node.result]:
                uses.update([name for _, name in operands_of(node)])
            continue
        for inner in walk([node]):
            names = [name for _, name in operands_of(inner)]
            uses.update(names if isinstance(node, Store) else names * 2)
    return uses


def _changed(node: Node) -> list[str]:
    """Return the names of the buffers that a node may change."""
    if isinstance(node, Store):
        return [node.buffer]
    if isinstance(node, Call):
        return [name for kind, name in node.operands if kind == "ptr"]
    return [name for inner in node.body for name in _changed(inner)] if isinstance(node, (For, If)) else []


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _is_atom(text: str) -> bool:
    return text.isidentifier() or _NUMBER.fullmatch(text) is not None


_NUMBER = re.compile(r"-?[\d.]+(e[-+]?\d+)?|True|False")


def _within(text: str) -> str:
    """Return the text in parentheses if another expression needs them around it."""
    return text if text.isidentifier() or re.fullmatch(r"[\d.]+(e[-+]?\d+)?|\w+\([^()]*\)|\w+\[\w+\]", text) else f"({text})"
