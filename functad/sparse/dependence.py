"""Propagation of dependence sets through a primitive, from the elements of its arguments to the elements of its results.

The `dependence` of a primitive, or else its kind, selects the rule. Rules do not read values, so results hold for all values of
the same shapes: zero coefficients and every branch of `np.where` and `np.max` count. Without a rule, a result depends on all
dependences of the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, shape_of
from functad.primitives.elementwise.complex_numbers import IMAG, REAL
from functad.primitives.entry import Primitive
from functad.primitives.indexing.place import PLACE, PLACE_ADD
from functad.primitives.indexing.read import fill
from functad.primitives.indexing.write import part as part_at
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import Contraction
from functad.primitives.operands import innermost
from functad.sparse.sets import Array, Sets, distinct

Shape = tuple[int, ...]


@dataclass(slots=True)
class Call:
    """One call of a primitive, with the sets of its arguments.

    Attributes:
        primitive: the primitive.
        sets: the table of sets.
        given: for each array argument the set ids of its elements; `None` for an argument without a derivative.
        values: the arguments. Rules read their shapes and the arrays of an index.
        params: the parameters.
        shapes: the shapes of the results.
    """

    primitive: Primitive
    sets: Sets
    given: Sequence[Array | None]
    values: Sequence[Any]
    params: dict[str, Any]
    shapes: Sequence[Shape]

    def of(self, position: int) -> Array:
        """Return the set ids of an argument; empty sets for an argument without a derivative."""
        found = self.given[position]
        return np.zeros(shape_of(self.values[position]), np.int64) if found is None else found


Rule = Callable[[Call], Any]


def passed(call: Call) -> list[Array]:
    """Return the set ids of the elements of each result."""
    primitive = call.primitive
    rule = RULES.get(primitive.dependence or primitive.kind)
    found = NotImplemented if rule is None else rule(call)
    if found is NotImplemented:
        found = _everything(call)
    several = found if primitive.multiple else (found,)
    return [np.broadcast_to(sets, shape) for sets, shape in zip(several, call.shapes, strict=True)]


def _everything(call: Call) -> Any:
    """Return the union of all sets of the arguments, the fallback without a rule."""
    parts = [distinct(sets) for sets in call.given if sets is not None]
    whole = call.sets.union_all(np.concatenate(parts))
    return tuple([whole] * len(call.shapes)) if call.primitive.multiple else whole


def _elementwise(call: Call) -> Array:
    """Return the union over the broadcast arguments."""
    parts = [sets for sets in call.given if sets is not None]
    total = np.broadcast_to(parts[0], call.shapes[0])
    for part in parts[1:]:
        total = call.sets.union(total, part)
    return total


def _moved(call: Call) -> Any:
    """Move the set ids like the elements."""
    arrays = []
    for i, value in enumerate(call.values):
        if call.given[i] is None and not call.primitive.differentiable(i):
            if isinstance(value, ArraySpec):
                return NotImplemented  # depends on an index without a value
            arrays.append(value)
        else:
            arrays.append(call.of(i))
    return call.primitive.compute(*arrays, **call.params)


def _same(call: Call) -> Array:
    return call.of(0)


def _lower(call: Call) -> Array:
    return np.tril(call.of(0))


# Along axes


def reduced(sets: Sets, a: Array, axes: Sequence[int] | None) -> Array:
    """Return the unions over some axes, which are removed; `None` means all axes."""
    if axes is None:
        return sets.union_all(a)
    axes = [axis % a.ndim for axis in axes]
    kept = [axis for axis in range(a.ndim) if axis not in axes]
    shape = tuple([a.shape[axis] for axis in kept])
    count = math.prod(shape)
    width = math.prod([a.shape[axis] for axis in axes])
    if width == 1:
        return a.reshape(shape)
    flat = a.transpose((*kept, *axes)).ravel()
    return sets.union_groups(np.repeat(np.arange(count), width), flat, count).reshape(shape)


def _axes(call: Call) -> Sequence[int] | None:
    axis = call.params["axis"]
    return (axis,) if isinstance(axis, int) else axis


def _reduction(call: Call) -> Array:
    return reduced(call.sets, call.of(0), _axes(call)).reshape(call.shapes[0])


def _throughout(call: Call) -> Array:
    """Return the unions along the axes: each result depends on all elements."""
    a, axes = call.of(0), _axes(call)
    kept = [1 if axes is None or axis in axes else n for axis, n in enumerate(a.shape)]
    return reduced(call.sets, a, axes).reshape(kept)


def _throughout_last(call: Call) -> Array:
    return reduced(call.sets, call.of(0), (-1,))[..., None]


def scanned(sets: Sets, a: Array, axis: int, *, reverse: bool, exclusive: bool) -> Array:
    """Return the cumulative unions along an axis, with or without the current element."""
    rows = np.moveaxis(a, axis, 0)
    rows = rows[::-1] if reverse else rows
    out = np.zeros_like(rows)
    total = np.zeros(rows.shape[1:], np.int64)
    for i, row in enumerate(rows):
        if exclusive:
            out[i] = total
        total = sets.union(total, row)
        if not exclusive:
            out[i] = total
    return np.moveaxis(out[::-1] if reverse else out, 0, axis)


def _scan(call: Call) -> Array:
    params = call.params
    return scanned(call.sets, call.of(0), params["axis"], reverse=params.get("reverse", False), exclusive=False)


def _exclusive_scan(call: Call) -> Array:
    both = _elementwise(call)
    return scanned(call.sets, both, call.params["axis"], reverse=call.params["reverse"], exclusive=True)


def _diff(call: Call) -> Array:
    a, axis = np.moveaxis(call.of(0), call.params["axis"], 0), call.params["axis"]
    for _ in range(call.params["n"]):
        a = call.sets.union(a[1:], a[:-1])
    return np.moveaxis(a, 0, axis)


# Sums of products


def contraction(call: Call) -> Contraction:
    """Return the letters of a product."""
    found = contraction_of(call.primitive, call.params, [len(shape_of(value)) for value in call.values])
    assert found is not None
    return found


def aligned(a: Array, term: str, order: str) -> Array:
    """Return an operand with the axes `order`: with diagonals read, and with length 1 for each axis that is missing."""
    has = "".join([letter for letter in order if letter in term])
    a = np.einsum(f"{term}->{has}", a)
    return a.reshape([a.shape[has.index(letter)] if letter in has else 1 for letter in order])


def contracted(call: Call) -> Array:
    """Return the unions over the contracted axes, then over the operands."""
    terms, result = contraction(call)
    total = np.zeros((1,) * len(result), np.int64)
    for term, given in zip(terms, call.given, strict=True):
        if given is not None:
            gone = "".join([letter for letter in dict.fromkeys(term) if letter not in result])
            a = aligned(given, term, result + gone)
            total = call.sets.union(total, reduced(call.sets, a, range(len(result), a.ndim)))
    return total


AHEAD, BEHIND = np.array([1, 2, 0]), np.array([2, 0, 1])


def _cross(call: Call) -> Array:
    a, b = call.of(0), call.of(1)
    if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        return _everything(call)  # type: ignore[no-any-return]
    parts = [x[..., order] for x in (a, b) for order in (AHEAD, BEHIND)]
    total = parts[0]
    for part in parts[1:]:
        total = call.sets.union(total, part)
    return total


def convolution_pairs(call: Call) -> tuple[Array, Array, Array]:
    """Return for each product in a convolution the index of its sum and of its two factors."""
    n, m = (shape_of(value)[0] for value in call.values)
    i, j = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(m), indexing="ij"))
    (length,) = call.shapes[0]
    first = {"full": 0, "same": (min(n, m) - 1) // 2, "valid": min(n, m) - 1}[call.params["mode"]]
    place = i + j - first
    inside = (place >= 0) & (place < length)
    return place[inside], i[inside], j[inside]


def _convolve(call: Call) -> Array:
    place, i, j = convolution_pairs(call)
    factors = np.concatenate([call.of(0)[i], call.of(1)[j]])
    return call.sets.union_groups(np.concatenate([place, place]), factors, call.shapes[0][0])


# Writing


def _places(shape: Shape) -> Array:
    return np.arange(math.prod(shape)).reshape(shape)


def _added(call: Call, groups: list[Array], parts: list[Array]) -> Array:
    count = math.prod(call.shapes[0])
    flat = [np.broadcast_to(part, group.shape).ravel() for part, group in zip(parts, groups, strict=True)]
    groups = [group.ravel() for group in groups]
    return call.sets.union_groups(np.concatenate(groups), np.concatenate(flat), count).reshape(call.shapes[0])


def _scatter(call: Call) -> Array:
    places = _places(call.shapes[0])
    return _added(call, [places[index] for index in call.params["indices"]], [call.of(i) for i in range(len(call.given))])


def _add_piece(call: Call) -> Any:
    if any(isinstance(value, ArraySpec) for value in call.values[1:]):
        return NotImplemented
    places = _places(call.shapes[0])
    index = fill(call.params["template"], tuple(call.values[1:]))
    return _added(call, [places[index]], [call.of(0)])


def _sparse_product(call: Call) -> Array:
    """Return the union of the rows that each row of the matrix multiplies."""
    (rows, columns), sets = call.params["matrix"].places, call.of(0)
    width = math.prod(sets.shape[1:])
    groups = rows.astype(np.int64)[:, None] * width + np.arange(width)
    found = sets.reshape(len(sets), width)[columns]
    return call.sets.union_groups(groups.ravel(), found.ravel(), math.prod(call.shapes[0])).reshape(call.shapes[0])


def _write(call: Call) -> Array:
    """Return the sets after a write: replaced, or united if the write adds or writes only a real or imaginary part."""
    path, shape = call.params["path"], call.shapes[0]
    if call.primitive in (PLACE, PLACE_ADD):
        if any(innermost(value) is not value or isinstance(value, ArraySpec) for value in call.values[2:]):
            return call.sets.union(call.of(0), call.sets.union_all(call.of(1)))  # unknown index: any element may change
        index = fill(call.params["template"], tuple(call.values[2:]))
    else:
        index = call.params["index"]
    parts = [step for step in path if step.primitive not in (REAL, IMAG)]
    places = part_at(_places(shape), tuple(parts))[index]
    a, v = call.of(0), call.of(1)
    v = v.reshape(v.shape[max(0, v.ndim - np.ndim(places)) :])  # leading axes of length 1 may be more than the target has
    if len(parts) < len(path) or call.primitive.adds:
        return _added(call, [_places(shape), np.asarray(places)], [a, v])
    out = a.flatten()
    out[places] = v
    return out.reshape(shape)


# Linear algebra: each element of a result depends on all elements of its matrix


def _matrix(call: Call) -> Any:
    a = call.of(0)
    batch = reduced(call.sets, a, (-2, -1))
    found = [batch.reshape(batch.shape + (1,) * (len(shape) - batch.ndim)) for shape in call.shapes]
    return tuple(found) if call.primitive.multiple else found[0]


def _solve(call: Call) -> Array:
    matrices = reduced(call.sets, call.of(0), (-2, -1))[..., None, None]
    columns = reduced(call.sets, call.of(1), (-2,))[..., None, :]
    return call.sets.union(matrices, columns)


def _vander(call: Call) -> Array:
    return call.of(0)[..., None]


def _chosen(call: Call) -> Array:
    total = np.zeros(call.shapes[0], np.int64)
    for part in call.given[1:]:
        if part is not None:
            total = call.sets.union(total, part)
    return total


RULES: dict[str, Rule] = {
    "elementwise": _elementwise,
    "moved": _moved,  # moves elements, and may add zeros
    "same": _same,
    "reduction": _reduction,
    "axes": _throughout,
    "last axis": _throughout_last,
    "new last axis": _vander,
    "scan": _scan,
    "exclusive scan": _exclusive_scan,
    "differences": _diff,
    **dict.fromkeys(("matmul", "dot", "outer", "sum of products", "einsum"), contracted),
    "sparse product": _sparse_product,
    "cross": _cross,
    "convolution": _convolve,
    "scatter": _scatter,
    "piece": _add_piece,
    "write": _write,
    "chosen": _chosen,
    "lower": _lower,
    "matrix": _matrix,
    "solve": _solve,
}
"""The rules by `dependence`. Sorted positions depend on values, so a result that uses them depends on the whole axis."""
