"""Rows of the table of rewrites, traced into patterns, and where in a list a pattern is found.

A row is two NumPy functions that compute the same. The first is traced once; what comes out is a tree of primitives, which is
looked for in lists. The second is traced for each kind of arguments that is met, so that dtypes, and what is weak, are those of
NumPy; a rewrite whose result would have another shape or dtype is left.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.entry import Primitive
from functad.transforms.lists import trace

_FLOAT = np.dtype(np.float64)


class Row(NamedTuple):
    """One rewrite: two functions that compute the same, and what may differ all the same.

    Attributes:
        before: what is looked for. Arguments are arrays, those whose names begin with `c` constant numbers, those with `k`
            constant arrays.
        after: what takes its place. It may also ask for `out`, the spec of the result, and for `params`, those of the
            equations found, in order.
        changes: what may be another than before; empty if nothing is, bit for bit.
        error: how much the result may change, in units of its last place; `None` for sums that are taken in another order,
            whose error is relative to the sum of absolute values.
        where: whether the row holds for constants, and specs of other arrays, given by the names of the arguments; it may ask
            for `out`.
        kinds: of dtypes for which it holds.
        once: what is looked for is computed for this alone; it would not be saved otherwise.
        free: parameters may be any others than those of `before`.
        mixed: arguments and results may differ in their dtypes.
        scalars: the constants are scalars; an array of one number does not fit.
        fused: it helps also where a backend computes several operations in one pass.
        more: so many equations more than before are still cheaper.
        shapes: of the arguments by name, for tracing and for tests, where they are not all of one shape.
    """

    before: Callable[..., Any]
    after: Callable[..., Any]
    changes: str = ""
    error: float | None = 0.0
    where: Callable[..., Any] | None = None
    kinds: str = "fiu"
    once: bool = False
    free: bool = False
    mixed: bool = False
    scalars: bool = False
    fused: bool = True
    more: int = 0
    shapes: Mapping[str, tuple[int, ...]] = {}


class Node(NamedTuple):
    """A primitive with its inputs: nodes, names of arguments, and constants.

    Attributes:
        primitive: what is called.
        params: its parameters; `None` if these may be any.
        inputs: a `Node`, a name, or a `Constant` each.
    """

    primitive: Primitive
    params: Mapping[str, Any] | None
    inputs: tuple[Any, ...]


class Pattern(NamedTuple):
    """One way in which what a row looks for may stand in a list.

    Attributes:
        row: the row.
        root: the tree.
        names: of the arguments.
        wants: which of `out` and `params` the second function asks for.
        checks_out: the condition asks for `out`.
    """

    row: Row
    root: Node
    names: tuple[str, ...]
    wants: tuple[str, ...]
    checks_out: bool


class Found(NamedTuple):
    """A place where a pattern fits.

    Attributes:
        given: the sources by the names of the arguments.
        equations: those found, with the outermost last.
    """

    given: dict[str, Any]
    equations: list[Equation]


def patterns_of(row: Row) -> Iterator[Pattern]:
    """Yield the patterns of a row: with the inputs of commutative operations in both orders."""
    names = tuple(inspect.signature(row.before).parameters)
    wants = tuple([name for name in inspect.signature(row.after).parameters if name in ("out", "params")])
    checks_out = row.where is not None and "out" in inspect.signature(row.where).parameters
    specs = [ArraySpec(() if n.startswith("c") else row.shapes.get(n, (2, 3)), _FLOAT) for n in names]
    expressions = trace("simplify", row.before, specs)
    for root in _trees(expressions, expressions.outputs[0], names, row.free):
        yield Pattern(row, root, names, wants, checks_out)


def _trees(expressions: Expressions, source: Any, names: Sequence[str], free: bool) -> list[Any]:
    """Return the trees that compute a source."""
    if type(source) is Constant:
        return [source]
    if source < len(names):
        return [names[source]]
    [equation] = [e for e in expressions.equations if source in e.outputs]
    choices = [_trees(expressions, s, names, free) for s in equation.inputs]
    params = None if free else equation.params
    orders: list[tuple[Any, ...]] = list(itertools.product(*choices))
    if commutes(equation.primitive):
        orders += [order[::-1] for order in orders]
    unique = {repr(order): order for order in orders}
    return [Node(equation.primitive, params, order) for order in unique.values()]


def is_constant(name: str) -> bool:
    """Say whether an argument of a row stands for a constant."""
    return name.startswith(("c", "k"))


def commutes(primitive: Primitive) -> bool:
    """Say whether the two inputs of a primitive can be exchanged."""
    return primitive.ufunc is np.add or primitive.ufunc is np.multiply


def match(node: Node, equation: Equation, made: Mapping[int, Equation], number_of: Callable[[Any], Any]) -> Found | None:
    """Return where a pattern fits an equation; `None` if it does not.

    Args:
        node: the tree of the pattern.
        equation: the outermost one.
        made: equations with one result, by its slot.
        number_of: the number that all elements of a constant are; `None` if they differ.
    """
    found = Found({}, [])
    return found if _fits(node, equation, made, number_of, found) else None


def _fits(node: Node, equation: Equation, made: Any, number_of: Any, found: Found) -> bool:
    if equation.primitive is not node.primitive or len(equation.inputs) != len(node.inputs):
        return False
    if node.params is not None and node.params != equation.params:
        return False
    for part, source in zip(node.inputs, equation.inputs, strict=True):
        kind = type(part)
        if kind is str:
            if not _binds(part, source, number_of, found.given):
                return False
        elif kind is Constant:
            number = number_of(source)
            if number is None or not _same_number(number, part.value):
                return False
        else:
            inner = made.get(source) if type(source) is int else None
            if inner is None or not _fits(part, inner, made, number_of, found):
                return False
    found.equations.append(equation)
    return True


def _binds(name: str, source: Any, number_of: Any, given: dict[str, Any]) -> bool:
    if name.startswith("c"):
        source = number_of(source)
        if source is None:
            return False
    elif name.startswith("k") and (type(source) is not Constant or type(source.value) is not np.ndarray):
        return False
    if name not in given:
        given[name] = source
        return True
    known = given[name]
    return type(known) is int and known == source


def _same_number(a: Any, b: Any) -> bool:
    """Say whether two numbers are equal, zeros in their sign too."""
    kind = np.asarray(a).dtype.kind
    return kind != "c" and bool(a == b) and (b != 0 or bool(np.signbit(float(a)) == np.signbit(float(b))))


class Index:
    """Patterns by the primitive that they begin with and by what makes its inputs, so that few are tried for each equation."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.by_root: dict[Any, list[Pattern]] = {}
        for row in rows:
            for pattern in patterns_of(row):
                self.by_root.setdefault(pattern.root.primitive, []).append(pattern)
        self.by_inputs: dict[Any, list[Pattern]] = {}

    def candidates(
        self, equation: Equation, made: Mapping[int, Equation], number_of: Callable[[Any], Any]
    ) -> Sequence[Pattern]:
        """Return the patterns that fit an equation and what makes its inputs, as far as primitives and numbers tell."""
        patterns = self.by_root.get(equation.primitive)
        if patterns is None:
            return ()
        kinds: list[Any] = [equation.primitive]
        for s in equation.inputs:
            if type(s) is int:
                kinds.append(maker.primitive if (maker := made.get(s)) else None)
            else:
                number = number_of(s)
                kinds.append(Constant if number is None else float(number) if _is_listed(number) else _OTHER)
        key = tuple(kinds)
        known = self.by_inputs.get(key)
        if known is None:
            known = self.by_inputs[key] = [p for p in patterns if all(map(_may_be, p.root.inputs, kinds[1:]))]
        return known


_OTHER = "another number"
_LISTED = frozenset([-1, 0, 0.5, 1, 2, 3, 4])
"""The numbers that patterns have in them."""


def _is_listed(number: Any) -> bool:
    return not isinstance(number, (complex, np.complexfloating)) and number in _LISTED


def _may_be(part: Any, kind: Any) -> bool:
    if type(part) is Node:
        return part.primitive is kind
    number = type(kind) is float or kind is _OTHER
    if type(part) is Constant:
        return type(kind) is float and part.value == kind
    return number if part.startswith("c") else True
