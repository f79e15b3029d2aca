"""Seeds and cotangents: zeros, sums of cotangents in a backward pass, and batches of seeds.

**Sums.** The pass owns a buffer that it made by adding two cotangents, or that a rule made. Further cotangents are added to
such a buffer in place (value and gradient of `sum(tanh(a x + b) exp(-x x))` for 1e6 float64: 32 ms instead of 36). The
cotangent of an indexed read is added to the indexed elements in place. A loop that reads an array element by element
therefore takes time linear in its length.

**Batches of seeds.** Many tangents or cotangents, such as the rows of an identity matrix, take one pass over the records.
The function runs once, on concrete values, so boolean masks and branches on values work. Only tangents or cotangents are
batched. A Jacobian costs one pass over the records per chunk of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.errors import InputError
from functad.expressions.records import checker
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, inexact, shape_of
from functad.places import here, name_of
from functad.primitives.indexing.index_parts import add_at
from functad.primitives.indexing.read import SCATTER
from functad.primitives.operands import all_examples, innermost, zeros_for
from functad.tracing.batch import BatchRecorder
from functad.tracing.trace import Recorded, Recorder

if TYPE_CHECKING:
    from functad.transforms.row_slices import RowSlices


_ndarray = np.ndarray


class Scattered:
    """A partial cotangent: `whole` (or zero if `None`), plus `pieces` to be added at `indices`.

    Plain pieces are added to `whole` at once. Pieces that are Tensors of an outer trace are collected and recorded as one
    operation, so that second derivatives also take time linear in the number of pieces.
    """

    __slots__ = ("dtype", "indices", "pieces", "shape", "whole")

    def __init__(self, shape: tuple[int, ...], dtype: Any, whole: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.whole = whole
        self.indices: list[Any] = []
        self.pieces: list[Any] = []

    def values(self) -> list[Any]:
        """Return `whole` and the pieces."""
        return [self.whole, *self.pieces]

    def total(self) -> Any:
        """Return the full cotangent."""
        if not self.pieces:
            return self.whole
        total = SCATTER(*self.pieces, indices=tuple(self.indices), shape=self.shape, dtype=self.dtype)
        return total if self.whole is None else self.whole + total


class RowSum:
    """The cotangent of a table in a backward pass with `sparse=True`: a sum of rows, if the function reads rows only."""

    __slots__ = ("_parts", "_settled")

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, tuple[int, ...]]] = []
        self._settled = 0

    def settle(self) -> None:
        """Keep the pieces found so far, at the end of a pass."""
        self._settled = len(self._parts)

    def forget(self) -> None:
        """Drop the pieces found since the last `settle`, before a pass is repeated."""
        del self._parts[self._settled :]

    def values(self) -> list[Any]:
        """Return the cotangents of the rows."""
        return [piece for _, piece, _ in self._parts]

    def takes(self, index: Any, piece: Any, shape: tuple[int, ...]) -> bool:
        """Add the cotangent of a read at `index` if the index selects rows; return `True` if it does."""
        if type(index) is tuple and len(index) == 1:
            index = index[0]
        if not shape or not (type(index) is int or (type(index) is _ndarray and index.dtype.kind in "iu")):
            return False
        self._parts.append((index, piece, shape))
        return True

    def total(self) -> RowSlices | None:
        """Return the sum as `RowSlices`; `None` if no row was read."""
        from functad.transforms.row_slices import RowSlices  # noqa: PLC0415 - few programs ask for them

        if not self._parts:
            return None
        shape = self._parts[0][2]
        indices = np.concatenate([np.ravel(index).astype(np.intp) % max(shape[0], 1) for index, _, _ in self._parts])
        pieces = [piece.reshape((np.size(index), *shape[1:])) for index, piece, _ in self._parts]
        return RowSlices(indices, np.concatenate(pieces), shape)

    def __add__(self, other: Any) -> Any:
        """Return the sum with a dense cotangent: a new array that the pass owns, or a Tensor."""
        total = self.total()
        if total is not None:
            return total.dense() + other
        return np.copy(other) if type(other) is _ndarray else other


def zero_tangent(value: Any) -> Any:
    """Return a zero tangent or cotangent of a value."""
    shape, dtype = shape_of(value), inexact(value)
    if (inner := foreign(value)) is not None:
        return zeros_for(shape, dtype, inner)
    return np.zeros(shape, dtype) if shape else dtype.type(0)


def foreign(value: Any) -> Any:
    """Return the innermost value if it is an array of another library, otherwise `None`."""
    if type(value) in PLAIN or type(value) is RowSum:
        return None
    inner = innermost(value)
    if hasattr(type(inner), "__functad_read__"):
        return None
    return None if type(inner) in PLAIN or issubclass(type(inner), (np.ndarray, np.generic, ArraySpec)) else inner


def take(cotangents: list[Any], index: int) -> Any:
    """Remove a cotangent from the list and return it; `None` means zero."""
    g, cotangents[index] = cotangents[index], None
    return g.total() if type(g) is Scattered else g


def accumulate(cotangents: list[Any], owned: bytearray, slot: int, ct: Any, fresh: bool = False) -> None:
    """Add `ct` to the cotangent of a slot, in place if the pass owns the buffer of the slot.

    Args:
        cotangents: the cotangents by slot.
        owned: by slot, 1 if the pass owns the buffer.
        slot: the slot.
        ct: the cotangent to add.
        fresh: `ct` has no other references, so the pass may own it.
    """
    held = cotangents[slot]
    if held is None:
        cotangents[slot] = ct
        owned[slot] = fresh and type(ct) is _ndarray
    elif type(held) is Scattered:
        if owned[slot] and type(ct) is _ndarray:
            held.whole += ct
            return
        held.whole = ct if held.whole is None else held.whole + ct
        owned[slot] = type(held.whole) is _ndarray and held.whole is not ct
    elif owned[slot] and type(ct) is _ndarray:
        held += ct
        cotangents[slot] = held  # `+=` on a Tensor of a tape makes a new Tensor
    else:
        total = held + ct
        cotangents[slot] = total
        owned[slot] = type(total) is _ndarray


def add_piece(cotangents: list[Any], owned: bytearray, slot: int, g: Any, residuals: tuple[Any, ...]) -> None:
    """Add the cotangent of an indexed read to the indexed elements of a slot's cotangent."""
    held = cotangents[slot]
    if owned[slot] and type(held) is Scattered and type(g) in PLAIN:
        add_at(held.whole, residuals[0], g)
        return
    index, shape, dtype = residuals
    if type(held) is RowSum:
        if held.takes(index, g, shape):
            return
        total = held.total()
        held = cotangents[slot] = None if total is None else total.dense()
    if type(held) is not Scattered:
        held = cotangents[slot] = Scattered(shape, dtype, held)
    if isinstance(held.whole, Recorded) and owned[slot]:
        add_at(held.whole, index, g)
        return
    if isinstance(g, Recorded) or isinstance(held.whole, Recorded):
        held.indices.append(index)
        held.pieces.append(g)
        return
    if not owned[slot]:
        if type(held.whole) is _ndarray:
            held.whole = held.whole.copy()
        else:  # `None`, or a scalar, which is immutable
            zeros = np.zeros(shape, dtype) if type(g) in PLAIN else zeros_for(shape, dtype, g)
            if held.whole is not None:
                zeros[...] += held.whole  # `+` of two arrays of shape () would give a scalar
            held.whole = zeros
        owned[slot] = True
    add_at(held.whole, index, g)


MEMORY = 1 << 22
"""Maximal number of elements of a batched value: 32 MiB of float64 (measured: larger is no faster)."""


FEW = 4
"""Up to this many seeds run one by one, which is faster: plain passes write in place, and records are not wrapped."""


def size_of(value: Any) -> int:
    """Return the number of elements of an array, Tensor or scalar."""
    return math.prod(shape_of(value))


def check_chunk_size(transform: str, function: object, chunk_size: int | None) -> None:
    """Check the number of seeds or examples per pass.

    Raises:
        InputError: `chunk_size` is not a positive integer or `None`.
    """
    if chunk_size is not None and (not hasattr(chunk_size, "__index__") or chunk_size < 1):
        raise InputError(
            f"{transform} of {name_of(function)}, at {here()}: chunk_size is {chunk_size!r}; it must be an integer, at least 1."
        )


def chunks(count: int, chunk_size: int | None, width: int) -> Iterator[slice]:
    """Yield a slice of `count` seeds per pass; the default size keeps values of `width` elements per seed within `MEMORY`."""
    step = max(1, min(count, MEMORY // max(width, 1))) if chunk_size is None else chunk_size
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def identity_rows(value: Any, part: slice) -> Any:
    """Return rows `part` of the identity matrix over the elements of a value, with shape `(rows, *value.shape)`."""
    rows = part.stop - part.start
    seeds = np.zeros((rows, size_of(value)), inexact(value))
    seeds[np.arange(rows), np.arange(part.start, part.stop)] = 1
    return seeds.reshape((rows, *shape_of(value)))


def in_batch(transform: str, function: object, seeds: Any, walk: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """Run a pass for a batch of seeds and stack its results along a new first axis; `None` for a result that is always zero.

    Args:
        transform: the name of the transform, for messages.
        function: the transformed function, for messages.
        seeds: the seeds, along the first axis.
        walk: the pass: a function of one seed that returns arrays, or `None` for zero.
    """
    size = shape_of(seeds)[0]
    if 0 < size <= FEW or (size and checker() is not None):  # `debug_nans` checks the values of each seed
        rows = [walk(seed) for seed in seeds]
        return [None if all(row is None for row in column) else _stacked(column) for column in zip(*rows, strict=True)]
    recorder = BatchRecorder(transform, function, size)
    found = []
    for out in walk(recorder.batch(seeds)):
        array = recorder.array(out)
        if array is None and out is not None:
            array = np.broadcast_to(out, (size, *shape_of(out)))
        found.append(array)
    recorder.close()
    return found


def _stacked(column: Sequence[Any]) -> Any:
    known = next(row for row in column if row is not None)
    return np.stack([np.zeros_like(known) if row is None else row for row in column])


def of_identity(
    of: Any,
    value: Any,
    walk: Callable[[Any], Sequence[Any]],
    chunk_size: int | None,
    width: int,
    factor: complex = 1,
) -> list[Any]:
    """Run a pass for the rows of an identity matrix and stack its results; return an empty list if there are no rows.

    Args:
        of: an object with the names `transform` and `function`, for messages: a trace, for example.
        value: an array, a number or a spec with one element per row.
        walk: the pass: a function of one row, in the shape of `value`, that returns arrays, or `None` for zero.
        chunk_size: the number of rows per pass, or `None` for as many as fit into `MEMORY`.
        width: the size of the largest value of the pass.
        factor: multiplies the rows.
    """
    parts, counts = [], []
    for part in chunks(size_of(value), chunk_size, width):
        rows = identity_rows(value, part)
        parts.append(in_batch(of.transform, of.function, rows if factor == 1 else factor * rows, walk))
        counts.append(len(rows))
    return [_joined(column, counts) for column in zip(*parts, strict=True)]


def _joined(parts: Sequence[Any], counts: Sequence[int]) -> Any:
    """Return the concatenated rows of several chunks, with zeros for a chunk that is `None`; `None` if all are."""
    known = next((part for part in parts if part is not None), None)
    if known is None or len(parts) == 1:
        return known
    shape, dtype = shape_of(known)[1:], dtype_of(known)
    return np.concatenate([np.zeros((n, *shape), dtype) if p is None else p for p, n in zip(parts, counts, strict=True)])


def widest(recorder: Recorder, *leaves: Any) -> int:
    """Return the size of the largest value among `leaves` and the residuals of a trace; a batch counts with all examples."""
    sizes = [size_of(all_examples(leaf)) for leaf in leaves]
    for record in recorder.records:
        if record is not None:
            residuals = record[2]
            for value in residuals if type(residuals) is tuple else (residuals,):
                if type(value) is np.ndarray:
                    sizes.append(value.size)
                elif isinstance(value, Recorded):
                    sizes.append(size_of(all_examples(value)))
                elif type(value) is tuple:
                    sizes += [size_of(all_examples(part)) for part in value if issubclass(type(part), (np.ndarray, Recorded))]
    return max(sizes, default=1)
