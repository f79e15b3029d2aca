"""Rules that propagate chunk axes through an equation, one for each family of primitives.

A rule takes a `Call` and returns `Found`: either the results are cut too, or each chunk computes a part of a total, such as a
sum. A rule returns `None` if a chunk of the result depends on other chunks, as in a sort over the rows. Most families are
identified by their batching rules: a function that repeats for each batch example also repeats for each row of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from functad.chunks.rows import Along, Counting, Rows, cut_spec
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives import batching
from functad.primitives.entry import Primitive
from functad.primitives.table import Table

_NONE: Mapping[int, Any] = MappingProxyType({})


class Call(NamedTuple):
    """An equation with some arguments that are cut into chunks.

    Attributes:
        primitive: the primitive.
        given: the specs of the arguments at their full shapes; constants as they are.
        alongs: for each argument, how it is cut; `None` if it is whole.
        params: the parameters.
        results: the specs of the results.
        rows: the number of rows in all chunks.
    """

    primitive: Primitive
    given: Sequence[Any]
    alongs: Sequence[Along | None]
    params: Mapping[str, Any]
    results: Sequence[ArraySpec]
    rows: int

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The full shapes of the arguments."""
        return [shape_of(a) for a in self.given]

    def along(self, length: int, axis: int) -> Along | None:
        """Return how an axis of `length` elements is cut; `None` if `length` is not a multiple of the number of rows."""
        return None if length % self.rows else Along(axis, length // self.rows)


class Found(NamedTuple):
    """The result of a rule.

    Attributes:
        outs: how each result is cut; `None` for a part of a total.
        cuts: how whole arguments must be cut, by position.
        params: the parameters that change in a chunk.
        combine: the function that combines two parts of a total; `None` if the results are cut.
        constants: replacements for constant arguments, by position.
    """

    outs: tuple[Along | None, ...]
    cuts: Mapping[int, Along] = _NONE
    params: Mapping[str, Any] = MappingProxyType({})
    combine: Any = None
    constants: Mapping[int, Any] = _NONE


Rule = Callable[[Call], Found | None]

RULES: Table[Rule] = Table("functad.chunks", ("arranging", "control", "indexing", "products", "reductions"))
"""Rules of primitives in families without a rule."""

rule: Callable[..., Callable[[Rule], Rule]] = RULES.add


def found_for(call: Call) -> Found | None:
    """Apply the rule of the primitive; return `None` if a chunk of a result depends on other chunks."""
    own = _rule_of(call.primitive)
    found = None if own is None else own(call)
    if found is None or found.combine is not None or None not in found.outs:
        return found
    return None


def _rule_of(primitive: Primitive) -> Rule | None:
    own = RULES.find(primitive)
    return own or PATTERNS.get(batching.elementwise if primitive.kind == "elementwise" else batching.rule_of(primitive))


def follow(call: Call, cuts: Mapping[int, Along] = _NONE) -> Found | None:
    """Return the row axis of each result, for a function that repeats for each row: the axis that grows with one more row."""
    grown = []
    for i, (given, along) in enumerate(zip(call.given, call.alongs, strict=True)):
        own = along or cuts.get(i)
        grown.append(given if own is None else cut_spec(spec_of(given), own, call.rows + 1))
    try:
        found = call.primitive.spec(*grown, **call.params)
    except (ValueError, TypeError, IndexError):
        return None
    outs = []
    for before, after in zip(call.results, found if call.primitive.multiple else (found,), strict=True):
        axes = [i for i, (m, n) in enumerate(zip(before.shape, after.shape, strict=True)) if m != n]
        if len(axes) != 1:
            return None
        outs.append(Along(axes[0], after.shape[axes[0]] - before.shape[axes[0]]))
    return Found(tuple(outs), cuts)


def alike(call: Call, place: int) -> dict[int, Along] | None:
    """Return the cuts of whole arguments at axis `place` (negative); `None` if an argument cannot be cut there."""
    cuts = {}
    for i, (shape, along) in enumerate(zip(call.shapes, call.alongs, strict=True)):
        if along is None and len(shape) >= -place and shape[place] != 1:
            own = call.along(shape[place], len(shape) + place)
            if own is None:
                return None
            cuts[i] = own
    return cuts


def the_place(call: Call, core: Sequence[int] = ()) -> int | None:
    """Return the axis along which all arguments are cut, as a negative number; `None` if the arguments differ.

    Args:
        call: the equation.
        core: for each argument, the number of trailing axes that do not count.
    """
    places = {
        along.axis - len(shape) + (core[i] if core else 0)
        for i, (shape, along) in enumerate(zip(call.shapes, call.alongs, strict=True))
        if along is not None
    }
    place = places.pop()
    return None if places or place >= 0 else place


def elementwise(call: Call) -> Found | None:
    """Apply the rule of functions that broadcast."""
    place = the_place(call)
    cuts = None if place is None else alike(call, place)
    shape = np.broadcast_shapes(*call.shapes)
    if cuts is None or any(result.shape != shape for result in call.results):
        return None
    own = call.along(shape[place], len(shape) + place)  # type: ignore[index,operator]
    return None if own is None else Found((own,) * len(call.results), cuts)


def along_axis(call: Call) -> Found | None:
    """Apply the rule of functions along one axis, the parameter `axis`, for arrays of equal `ndim`."""
    axis, shapes = call.params["axis"], [shape for shape in call.shapes if shape]
    place = the_place(call)
    if axis is None or place is None or len(set(map(len, shapes))) != 1:
        return None
    ndim = len(shapes[0])
    if ndim + place == (axis if axis >= 0 else axis + ndim) and not _stacks(call, ndim):
        return None
    cuts = alike(call, place)
    return None if cuts is None else follow(call, cuts)


def _stacks(call: Call, ndim: int) -> bool:
    """Return `True` if the function adds a new axis to its results."""
    return all(len(result.shape) > ndim for result in call.results)


def stacked(call: Call) -> Found | None:
    """Apply the rule of functions on the last one or two axes that repeat over the leading axes, shared by all arguments."""
    axes = {along.axis for along in call.alongs if along is not None}
    axis = axes.pop()
    shapes = [shape for shape in call.shapes if shape]
    if axes or any(axis > len(shape) - 3 for shape in shapes):
        return None
    cuts = {}
    for i, (shape, along) in enumerate(zip(call.shapes, call.alongs, strict=True)):
        if along is None and shape:
            own = call.along(shape[axis], axis)
            if own is None:
                return None
            cuts[i] = own
    return follow(call, cuts)


PATTERNS: dict[Any, Rule] = {
    batching.elementwise: elementwise,
    batching.along_axis: along_axis,
    batching.stacked: stacked,
}
"""Rules of families, by batching rule."""


__all__ = [
    "PATTERNS",
    "RULES",
    "Along",
    "Call",
    "Counting",
    "Found",
    "Rows",
    "alike",
    "along_axis",
    "elementwise",
    "follow",
    "found_for",
    "rule",
    "the_place",
]
