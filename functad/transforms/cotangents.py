"""Batches of seeds: many tangents or cotangents take one pass over the records.

Many tangents or cotangents, such as the rows of an identity matrix, take one pass over the records.
The function runs once, on concrete values, so boolean masks and branches on values work. Only tangents or cotangents are
batched. A Jacobian costs one pass over the records per chunk of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.errors import InputError
from functad.expressions.observers import checker
from functad.expressions.spec import inexact, shape_of
from functad.places import here, name_of
from functad.primitives.operands import all_examples
from functad.tracing.batch import BatchRecorder
from functad.tracing.trace import Recorded, Recorder

if TYPE_CHECKING:
    pass


_ndarray = np.ndarray


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
    recorder: Recorder,
    value: Any,
    walk: Callable[[Any], Sequence[Any]],
    chunk_size: int | None,
    width: int,
    factor: complex = 1,
    *,
    diagonal: bool = False,
) -> list[Any]:
    """Run a pass for the rows of an identity matrix and stack its results; return an empty list if there are no rows.

    Args:
        recorder: the trace.
        value: an array or number with one element per row.
        walk: the pass: a function of one row, in the shape of `value`, that returns arrays, or `None` for zero.
        chunk_size: the number of rows per pass, or `None` for as many as fit into `MEMORY`.
        width: the size of the largest value of the pass.
        factor: multiplies the rows.
        diagonal: return only the diagonal of each result, which has the size of `value`.
    """
    parts = []
    for part in chunks(size_of(value), chunk_size, width):
        rows = identity_rows(value, part)
        found = in_batch(recorder.transform, recorder.function, rows if factor == 1 else factor * rows, walk)
        if diagonal:
            own = np.arange(len(rows)), np.arange(part.start, part.stop)
            found = [None if array is None else array.reshape(len(rows), size_of(value))[own] for array in found]
        parts.append(found)
    return [joined(column) for column in zip(*parts, strict=True)]


def joined(parts: Sequence[Any]) -> Any:
    """Return the concatenated rows of several chunks; `None` if all chunks are `None`."""
    if all(part is None for part in parts):
        return None
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
