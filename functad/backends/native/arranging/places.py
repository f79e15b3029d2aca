"""Lowering of reads, writes and additions at index arrays, which are known at compile time or only at run time.

NumPy raises an error for an index out of bounds. Native code reads another element instead and calls `Code.refuse`: its results
are discarded, and NumPy computes the whole list and raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.native.arranging.pieces import around, clear, few, is_there, totals, write_pieces
from functad.backends.native.arranging.scans import loops
from functad.backends.native.arrays import Array, Memory, Shape, c_strides, place_of
from functad.backends.native.lowering import Lowered, Own, Pointwise, View, row
from functad.backends.native.plan import FEW, TINY
from functad.backends.native.views import axes_of
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code
from functad.loops.values import Value, where
from functad.primitives.elementwise.selection import CHOOSE
from functad.primitives.indexing.index_map import AxisMap, IndexMap, is_basic
from functad.primitives.indexing.place import PLACE, PLACE_ADD
from functad.primitives.indexing.read import ADD_PIECE, GATHER, GETITEM, fill
from functad.primitives.indexing.sort import PICKED, PLACED, REORDERED, RESTORED
from functad.primitives.indexing.write import ADD_TO, WRITE, part
from functad.primitives.linalg.einsum import SPREAD


def _write_at(writer: Any, chosen: IndexMap, piece: Array, arrays: Sequence[Array], target: Memory) -> None:
    """Write a piece to the elements of `target` that a map selects, one element after the other."""
    code = Code(fused=writer.code.fused, outer=writer.code)
    piece = _trimmed(piece, len(chosen.shape)).broadcast(chosen.shape)
    with loops(code, chosen.shape) as index:
        target.put(code, place_of(code, index, chosen, arrays), piece.at(code, index))
    writer.module.call(writer.code, code)


def _trimmed(array: Array, ndim: int) -> Array:
    """Return an array without the leading axes of length 1 in excess of `ndim`."""
    extra = len(array.shape) - ndim
    return array.reshaped(array.shape[extra:]) if extra > 0 else array


def _chosen(equation: Equation, whole: Shape, given: Sequence[ArraySpec], first: int) -> IndexMap | None:
    """Return the map of the template of an equation with index arrays from input `first` on; `None` if it is out of bounds."""
    try:
        arrays = _known(equation.inputs[first:], given[first:])
        return IndexMap.of(whole, fill(equation.params["template"], arrays)).affine()
    except IndexError:
        return None


# Reading


def _known(sources: Sequence[Any], given: Sequence[ArraySpec]) -> tuple[Any, ...]:
    """Return the value of each constant index array, and the spec of each other one."""
    return tuple([np.asarray(s.value) if isinstance(s, Constant) else g for s, g in zip(sources, given, strict=True)])


@row(GETITEM)
def _getitem(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    index = equation.params["index"]
    if not is_basic(index):
        return few(equation, given, results[0]) if results[0].size <= FEW else None
    chosen = IndexMap.of(given[0].shape, index)
    return View(lambda arrays: arrays[0].selected(chosen))


@row(GATHER)
def _gather(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return _read(_chosen(equation, given[0].shape, given, 1))


def _read(chosen: IndexMap | None) -> View | None:
    if chosen is None:
        return None
    cost = 2.0 * sum(axis.array is not None for axis in chosen.axes)
    return View(lambda arrays: arrays[0].selected(chosen, arrays[1:]), cost=cost)


def _rows_of(equation: Equation, given: Sequence[ArraySpec], whole: Shape, axis: int) -> IndexMap | None:
    """Return the map of an index array as in `np.take_along_axis`; `None` if it is out of bounds or broadcasts."""
    [indices] = _known(equation.inputs[1:2], given[1:2])
    try:
        return IndexMap.along_axis(whole, indices, axis % len(whole)).affine() if indices.ndim == len(whole) else None
    except IndexError:
        return None


@row(PICKED, REORDERED)
def _picked(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return _read(_rows_of(equation, given, given[0].shape, equation.params.get("axis", -1)))


# Adding to zeros


def _added(chosen: IndexMap | None, given: Sequence[ArraySpec]) -> Lowered | None:
    """Lower the addition of a piece to zeros."""
    if chosen is None or chosen.size != given[0].size:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        clear(writer, out)
        _write_at(writer, chosen, operands[0], operands[1:], totals(out))

    return Own(write, stored=[given[0].size > TINY, *[False] * (len(given) - 1)])


@row(ADD_PIECE)
def _add_piece(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return _added(_chosen(equation, results[0].shape, given, 1), given)


@row(PLACED)
def _placed(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return _added(_rows_of(equation, given, results[0].shape, -1), given)


@row(RESTORED)
def _restored(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    chosen = _rows_of(equation, given, results[0].shape, equation.params["axis"])
    if chosen is None:
        return None
    return Own(lambda writer, operands, outs: _write_at(writer, chosen, operands[0], operands[1:], outs[0]))


@row(SPREAD)
def _spread(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    target = axes_of(equation.params["subscripts"], results[0].shape)
    if target is None or target.shape != given[0].shape:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        clear(writer, outs[0])
        writer.copy(operands[0], outs[0].part(target))

    return Own(write, stored=given[0].size > TINY, gaps=True)


# Writing and adding to elements


def _view_of(shape: Shape, path: Any) -> IndexMap | None:
    """Return the map from a path of views to the elements of an array in C order; `None` if a step of the path copies."""
    model = np.empty(shape, np.int8)
    view = part(model, path)
    if not np.may_share_memory(view, model):
        return None
    offset = view.__array_interface__["data"][0] - model.__array_interface__["data"][0]
    return IndexMap((model.size,), view.shape, (AxisMap(offset, dict(enumerate(view.strides))),))


def _target(view: IndexMap, out: Memory) -> Memory:
    """Return the memory of a view of an array."""
    flat = out.reshaped(view.whole)
    assert isinstance(flat, Memory)
    return flat.part(view)


@row(WRITE, ADD_TO)
def _write(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    path, index, adds = equation.params["path"], equation.params["index"], equation.primitive.adds
    if not adds and results[0].size <= FEW:
        return few(equation, given, results[0])
    view = _view_of(given[0].shape, path) if is_basic(index) else None
    if view is None:
        return None
    chosen = IndexMap.of(view.shape, index)
    whole = None if adds else _box_of(given[0].shape, view, chosen)

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        early = whole is not None and is_there(writer, equation.inputs[1], whole)
        if operands[0] is not out and early:
            assert whole is not None
            for part in around(whole):
                writer.copy(operands[0].selected(part), out.part(part))
        elif operands[0] is not out:
            write_pieces(writer, [(equation.inputs[0], out)])
        if not early:
            into = _target(view, totals(out) if adds else out).part(chosen)
            writer.copy(_trimmed(operands[1], len(chosen.shape)).broadcast(chosen.shape), into)

    return Own(write, stored=[False, given[1].size > TINY], updates=True, parts=(None, whole))


def _box_of(shape: Shape, view: IndexMap, chosen: IndexMap) -> IndexMap | None:
    """Return the map of a part of a view of an array, if the part consists of neighbouring elements along each axis."""
    offset, strides = chosen.layout(view.layout((1,))[1])
    axes, rest, start = [], dict(enumerate(strides)), offset + view.axes[0].offset
    for axis, stride in enumerate(c_strides(shape)):
        first, start = divmod(start, stride)
        steps = {j: 1 for j, step in rest.items() if step == stride and chosen.shape[j] != 1}
        if len(steps) > 1 or any(first + chosen.shape[j] > shape[axis] for j in steps):
            return None
        rest = {j: step for j, step in rest.items() if j not in steps}
        axes.append(AxisMap(first, steps))
    found = IndexMap(shape, chosen.shape, tuple(axes))
    return found if all(chosen.shape[j] == 1 for j in rest) and chosen.size else None


@row(PLACE, PLACE_ADD)
def _place(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    adds, view = equation.primitive.adds, _view_of(given[0].shape, equation.params["path"])
    chosen = None if view is None else _chosen(equation, view.shape, given, 2)
    if view is None or chosen is None:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        write_pieces(writer, [(equation.inputs[0], out)])
        _write_at(writer, chosen, operands[1], operands[2:], _target(view, totals(out) if adds else out))

    return Own(write, stored=[False, given[1].size > TINY, *[False] * (len(given) - 2)])


# Choosing


@row(CHOOSE)
def _choose(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind, mode, count = KINDS[results[0].dtype], equation.params["mode"], len(given) - 1

    def formula(code: Code, place: Value, *choices: Value) -> Value:
        if mode == "raise":
            code.refuse((place < 0) | (place >= count))
        elif mode == "wrap":
            rest = code.emit("rem", "i64", place, place.like(count))
            place = where(rest < 0, rest + count, rest)
        found = choices[0]
        for i in range(1, count):
            chosen = place >= i if i == count - 1 else place.equals(i)
            found = where(chosen, choices[i], found)
        return found

    return Pointwise(["i64", *[kind] * count], kind, formula, 2.0 + count)
