"""Rules for reading and writing by index: whole rows, a separate table for each row, or one table for all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.chunks.arranging import with_rows
from functad.chunks.rules import Along, Call, Counting, Found, follow, rule
from functad.expressions.spec import shape_of, spec_of
from functad.primitives.indexing.index_map import IndexMap, indexed_shape
from functad.primitives.indexing.read import ADD_PIECE, GATHER, GETITEM, SCATTER, fill
from functad.primitives.indexing.sort import DIGITIZE, SEARCHSORTED

Shape = tuple[int, ...]


def _longer(shape: Shape, along: Along) -> Shape:
    return (*shape[: along.axis], shape[along.axis] + along.factor, *shape[along.axis + 1 :])


def _axis_read(shape: Shape, along: Along, index: Any) -> Along | None:
    """Return the row axis in the result of an index; `None` if the index does not read all rows in order."""
    try:
        few, more = IndexMap.of(shape, index), IndexMap.of(_longer(shape, along), index)
    except (IndexError, ValueError):
        return None
    axis = few.along(along.axis)
    return None if axis is None or more.along(along.axis) != axis else Along(axis, along.factor)


def _axis_written(shape: Shape, piece: Along, piece_shape: Shape, index: Any) -> Along | None:
    """Return the row axis of an array that a cut piece is written to; `None` if it does not write all rows in order."""
    found = IndexMap.of(shape, index)
    if found.shape != piece_shape:  # the piece is broadcast
        return None
    axes = [Along(axis, piece.factor) for axis in range(len(shape)) if found.along(axis) == piece.axis]
    return next((own for own in axes if _axis_read(shape, own, index) == piece), None)


@rule(GETITEM)
def _getitem(call: Call) -> Found | None:
    (along,), (shape,) = call.alongs, call.shapes
    assert along is not None
    own = _axis_read(shape, along, call.params["index"])
    return None if own is None else Found((own,))


@rule(SCATTER)
def _scatter(call: Call) -> Found | None:
    shape, found, cuts = call.params["shape"], set(), {}
    for along, own, index in zip(call.alongs, call.shapes, call.params["indices"], strict=True):
        found.add(None if along is None else _axis_written(shape, along, own, index))
    place = next(iter(found - {None}), None)
    if place is None or len(found - {None}) > 1:
        return None
    for i, (along, own, index) in enumerate(zip(call.alongs, call.shapes, call.params["indices"], strict=True)):
        if along is None:
            cut = _axis_read(shape, place, index)
            if cut is None or indexed_shape(shape, index) != own:
                return None
            cuts[i] = cut
        elif _axis_written(shape, along, own, index) != place:
            return None
    return Found((place,), cuts, {"shape": with_rows(shape, place)})


def _counts(a: Any, length: int) -> bool:
    """Return `True` if an index is the constant 0, 1, ..., `length - 1`, which reads the rows in order."""
    plain = type(a) is np.ndarray and a.ndim == 1 and len(a) == length > 0 and a.dtype.kind in "iu"
    return plain and bool(np.array_equal(a, np.arange(length)))


def _row_by_row(call: Call, shape: Shape) -> dict[int, Any] | None:
    """Return the replacement of the row index if each row reads or writes only its own elements, otherwise `None`.

    Args:
        call: the equation; its arguments after the first are the index arrays.
        shape: the shape of the table.
    """
    template = call.params["template"]
    if template[0] != "i" or any(part != "i" for part in template[1:] if part is not None and type(part) is not int):
        return None
    if not _counts(call.given[1], shape[0]):
        return None
    for a, along in zip(call.given[2:], call.alongs[2:], strict=True):
        if len(shape_of(a)) > 1 or (along is not None and along != Along(0)):
            return None
    return {1: Counting(call.given[1].dtype)}


@rule(GATHER)
def _gather(call: Call) -> Found | None:
    """Apply the rule for a read from a separate table for each row, from one table for all rows, or of whole rows."""
    table, shape, template = call.alongs[0], call.shapes[0], call.params["template"]
    cuts = _cut_indices(call)
    if cuts is None:
        return None
    if table is None:
        return follow(call, cuts)
    if table == Along(0) and shape[0] == call.rows and (own := _row_by_row(call, shape)) is not None:
        cuts = {i: cut for i, cut in cuts.items() if i != 1}
        return Found((Along(0),), cuts, constants=own)
    if any(call.alongs[1:]):
        return None
    place = _axis_read(shape, table, fill(template, tuple(map(spec_of, call.given[1:]))))
    return None if place is None else Found((place,))


@rule(ADD_PIECE)
def _add_piece(call: Call) -> Found | None:
    """Apply the rule for additions to a separate table for each row, to one table for all rows (a total), or of whole rows."""
    shape, template = call.params["shape"], call.params["template"]
    index = fill(template, tuple(map(spec_of, call.given[1:])))
    cuts = _cut_indices(call)
    if cuts is None:
        return None
    if shape and shape[0] == call.rows and (own := _row_by_row(call, shape)) is not None:
        if call.alongs[0] is None:
            cuts[0] = Along(0)
        cuts = {i: cut for i, cut in cuts.items() if i != 1}
        place = Along(0)
        return Found((place,), cuts, {"shape": with_rows(shape, place)}, constants=own)
    if not any(call.alongs[1:]):
        (along, own_shape) = call.alongs[0], call.shapes[0]
        written = None if along is None else _axis_written(shape, along, own_shape, index)
        return None if written is None else Found((written,), params={"shape": with_rows(shape, written)})
    read = _follow_indices(call, shape, index, cuts)
    if read is None or (call.alongs[0] is not None and call.alongs[0] != read) or indexed_shape(shape, index) != call.shapes[0]:
        return None
    if call.alongs[0] is None:
        cuts[0] = read
    return Found((None,), cuts, combine=np.add)


def _cut_indices(call: Call) -> dict[int, Along] | None:
    """Return the cuts of whole index arrays that match the cut ones (they broadcast); `None` if the cut ones differ."""
    given = [(len(shape), along) for shape, along in zip(call.shapes[1:], call.alongs[1:], strict=True)]
    places = {along.axis - ndim for ndim, along in given if along is not None}
    if len(places) > 1:
        return None
    cuts: dict[int, Along] = {}
    for place in places:
        for i, shape in enumerate(call.shapes):
            if i and call.alongs[i] is None and len(shape) >= -place and shape[place] != 1:
                own = call.along(shape[place], len(shape) + place)
                if own is None:
                    return None
                cuts[i] = own
    return cuts


def _follow_indices(call: Call, shape: Shape, index: Any, cuts: dict[int, Along]) -> Along | None:
    """Return the row axis in the result of an index, given the row axes of its arrays."""
    grown = []
    for i, a in enumerate(call.given[1:], 1):
        own, spec = call.alongs[i] or cuts.get(i), spec_of(a)
        grown.append(spec if own is None else type(spec)(_longer(spec.shape, own), spec.dtype))
    few, more = indexed_shape(shape, index), indexed_shape(shape, fill(call.params["template"], tuple(grown)))
    axes = [i for i, (m, n) in enumerate(zip(few, more, strict=True)) if m != n]
    return Along(axes[0], more[axes[0]] - few[axes[0]]) if len(axes) == 1 else None


@rule(SEARCHSORTED, DIGITIZE)
def _search(call: Call) -> Found | None:
    """Apply the rule for a search for values in an array that is the same for all rows."""
    which = 1 if call.primitive is SEARCHSORTED else 0
    others = [along for i, along in enumerate(call.alongs) if i != which]
    return None if any(others) else follow(call)
