"""Many tangents or cotangents in one walk: the rows of an identity matrix as the seeds of a batch, in chunks that fit.

The function runs once, on concrete values; only what is pushed or pulled through its records is batched. So boolean masks and
branches on values work inside of it, and a Jacobian costs one walk over the records for each chunk of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functad.errors import InputError
from functad.expressions.spec import inexact, shape_of
from functad.places import here, name_of
from functad.tracing.traces.base import WATCHER, Recorded, Recorder
from functad.tracing.traces.batch import BatchRecorder, lowest

MEMORY = 1 << 22
"""So many numbers, at most, are held for the largest value of a walk: 32 MiB of float64 (measured: larger is no faster)."""

FEW = 4
"""So many seeds take less time one after the other: plain walks write in place, and records are not wrapped."""


def size_of(value: Any) -> int:
    """Return the number of elements of an array, Tensor or scalar."""
    return math.prod(shape_of(value))


def check_chunk_size(transform: str, function: object, chunk_size: int | None) -> None:
    """Raise unless a number of seeds, or of examples, that are walked with at a time is one.

    Raises:
        InputError: it is not.
    """
    if chunk_size is not None and (not hasattr(chunk_size, "__index__") or chunk_size < 1):
        raise InputError(
            f"{transform} of {name_of(function)}, at {here()}: chunk_size is {chunk_size!r}; it must be an integer, at least 1."
        )


def chunks(count: int, chunk_size: int | None, width: int) -> Iterator[slice]:
    """Yield the parts in which `count` seeds are walked with; by default so many that values of `width` elements fit."""
    step = max(1, min(count, MEMORY // max(width, 1))) if chunk_size is None else chunk_size
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def identity_rows(value: Any, part: slice) -> Any:
    """Return some rows of the identity matrix over the elements of a value, each with its shape: `(rows, *shape)`."""
    rows = part.stop - part.start
    seeds = np.zeros((rows, size_of(value)), inexact(value))
    seeds[np.arange(rows), np.arange(part.start, part.stop)] = 1
    return seeds.reshape((rows, *shape_of(value)))


def in_batch(transform: str, function: object, seeds: Any, walk: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """Run a walk for a batch of seeds, and stack its results along a new first axis; `None` where it gives nothing.

    Args:
        transform: names the transform for messages.
        function: the function that it is applied to.
        seeds: the seeds, along the first axis.
        walk: takes one seed, returns arrays.
    """
    size = shape_of(seeds)[0]
    if 0 < size <= FEW or (size and WATCHER.get() is not None):  # `debug_nans` looks at what arrives for each seed
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
) -> list[Any]:
    """Run a walk for the rows of the identity matrix, and stack its results; nothing if there are no rows.

    Args:
        recorder: the trace that is walked through.
        value: of its elements the identity is.
        walk: takes one row, with the shape of the value, and returns arrays, or `None` for zero.
        chunk_size: so many rows at a time.
        width: how many numbers a walk holds, if it is not given.
        factor: of the rows.
    """
    parts = []
    for part in chunks(size_of(value), chunk_size, width):
        rows = identity_rows(value, part)
        parts.append(in_batch(recorder.transform, recorder.function, rows if factor == 1 else factor * rows, walk))
    return [joined(column) for column in zip(*parts, strict=True)]


def joined(parts: Sequence[Any]) -> Any:
    """Return the rows of several chunks as one array; `None` if all are."""
    if all(part is None for part in parts):
        return None
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def widest(recorder: Recorder, *leaves: Any) -> int:
    """Return the size of the largest value that a trace keeps, or that is among some others.

    Of a Tensor that stands for the examples of a `vmap` around the trace, all of them count.
    """
    sizes = [size_of(lowest(leaf)) for leaf in leaves]
    for equation in recorder.equations:
        if equation is not None:
            saved = equation[2]
            for value in saved if type(saved) is tuple else (saved,):
                if type(value) is np.ndarray:
                    sizes.append(value.size)
                elif isinstance(value, Recorded):
                    sizes.append(size_of(lowest(value)))
                elif type(value) is tuple:
                    sizes += [size_of(lowest(part)) for part in value if issubclass(type(part), (np.ndarray, Recorded))]
    return max(sizes, default=1)
