"""Patterns of peephole rewrites: rows of the table, their traced trees, and the search for them in a list.

A row is two NumPy functions with the same results. The first function is traced once into a tree of primitives, the pattern.
The second function is traced for each kind of arguments found, so that dtypes and weak types follow NumPy. A rewrite that
would change the shape or dtype of the result is not applied.
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
    """One rewrite: two functions with the same results, and the differences that are allowed.

    Attributes:
        before: the function to search for. Arguments are arrays. A name that begins with `c` is a constant number, a name
            that begins with `k` is a constant array.
        after: the replacement. It may also take `out`, the spec of the result, and `params`, the parameters of the matched
            equations, in order.
        changes: the differences that are allowed, in words; empty if results are equal bit for bit.
        error: the maximal change of the result, in units in the last place. `None` for reordered sums: their error is relative
            to the sum of absolute values.
        where: returns `True` if the row is valid for the constants, and for the specs of the other arrays, which it takes by
            the names of the arguments. It may also take `out`.
        kinds: the kinds of dtypes for which the row is valid.
        once: the row applies only if the matched inner results have no other reader. Otherwise it would save nothing.
        free: `True` if the matched equations may have any parameters.
        mixed: `True` if the dtypes of arguments and results may differ.
        scalars: `True` if constants must be scalars; a constant array with equal elements does not match.
        fused: `True` if the row also helps backends that fuse operations.
        more: the number of additional equations at which the replacement is still cheaper.
        shapes: the shapes of arguments by name, for tracing and for tests. Default: all arguments have one shape.
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
    """A call of a primitive in a pattern.

    Attributes:
        primitive: the primitive.
        params: the parameters; `None` matches any parameters.
        inputs: each is a `Node`, the name of an argument, or a `Constant`.
    """

    primitive: Primitive
    params: Mapping[str, Any] | None
    inputs: tuple[Any, ...]


class Pattern(NamedTuple):
    """One tree of primitives that a row matches.

    Attributes:
        row: the row.
        root: the root of the tree.
        names: the names of the arguments.
        wants: the names among `out` and `params` that `row.after` takes.
        checks_out: `True` if `row.where` takes `out`.
    """

    row: Row
    root: Node
    names: tuple[str, ...]
    wants: tuple[str, ...]
    checks_out: bool


class Found(NamedTuple):
    """A match of a pattern.

    Attributes:
        given: the source of each argument, by name.
        equations: the matched equations, with the outermost last.
    """

    given: dict[str, Any]
    equations: list[Equation]


def patterns_of(row: Row) -> Iterator[Pattern]:
    """Yield the patterns of a row. Commutative operations give patterns with both orders of inputs."""
    names = tuple(inspect.signature(row.before).parameters)
    wants = tuple([name for name in inspect.signature(row.after).parameters if name in ("out", "params")])
    checks_out = row.where is not None and "out" in inspect.signature(row.where).parameters
    specs = [ArraySpec(() if n.startswith("c") else row.shapes.get(n, (2, 3)), _FLOAT) for n in names]
    expressions = trace("simplify", row.before, specs)
    for root in _trees(expressions, expressions.outputs[0], names, row.free):
        yield Pattern(row, root, names, wants, checks_out)


def _trees(expressions: Expressions, source: Any, names: Sequence[str], free: bool) -> list[Any]:
    """Return the trees that compute a source, one for each order of commutative inputs."""
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
    """Return `True` if an argument of a row is a constant."""
    return name.startswith(("c", "k"))


def commutes(primitive: Primitive) -> bool:
    """Return `True` if the two inputs of a primitive may be swapped."""
    return primitive.ufunc is np.add or primitive.ufunc is np.multiply


def match(node: Node, equation: Equation, made: Mapping[int, Equation], number_of: Callable[[Any], Any]) -> Found | None:
    """Return the match of a pattern at an equation, or `None`.

    Args:
        node: the root of the pattern.
        equation: the equation to compare with the root.
        made: the equations with one result, by the slot of the result.
        number_of: returns the common value of all elements of a constant source, or `None` if there is none.
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
    """Return `True` if two real numbers are equal, including the sign of a zero."""
    kind = np.asarray(a).dtype.kind
    return kind != "c" and bool(a == b) and (b != 0 or bool(np.signbit(float(a)) == np.signbit(float(b))))


class Index:
    """Patterns, indexed by the root primitive and the producers of its inputs, so that few are tried per equation."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.by_root: dict[Any, list[Pattern]] = {}
        for row in rows:
            for pattern in patterns_of(row):
                self.by_root.setdefault(pattern.root.primitive, []).append(pattern)
        self.by_inputs: dict[Any, list[Pattern]] = {}

    def candidates(
        self, equation: Equation, made: Mapping[int, Equation], number_of: Callable[[Any], Any]
    ) -> Sequence[Pattern]:
        """Return the patterns that may match an equation, judged by the primitives and numbers of its inputs."""
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
"""The numbers that occur in patterns."""


def _is_listed(number: Any) -> bool:
    return not isinstance(number, (complex, np.complexfloating)) and number in _LISTED


def _may_be(part: Any, kind: Any) -> bool:
    if type(part) is Node:
        return part.primitive is kind
    number = type(kind) is float or kind is _OTHER
    if type(part) is Constant:
        return type(kind) is float and part.value == kind
    return number if part.startswith("c") else True
