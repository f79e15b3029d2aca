"""Jacobians of a tape: one backward pass computes many rows, with the seeds as a batch.

The seeds come from `functad.transforms.walks.cotangents`, in chunks that bound the memory. An outer tape or transform records
the backward pass once for all rows of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.eager.tape.request import Answer, checked_conj, finished, gradients_of, leaves_of, zero_wanted
from functad.eager.tape.slice import TapeSlice
from functad.errors import AbstractValueError, LoopWarning, SourceError
from functad.expressions.observers import checker
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, warn
from functad.primitives.operands import all_examples
from functad.tracing.traces.base import Recorded, resolve
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.walks.cotangents import chunks, identity_rows, in_batch, joined, size_of, widest
from functad.transforms.walks.forward import unfit
from functad.transforms.walks.reverse import pull_back


def check_chunk_size(number: Any) -> None:
    """Check the `chunk_size` argument.

    Raises:
        ValueError: `number` is neither `None` nor a positive integer.
    """
    if number is not None and (not isinstance(number, (int, np.integer)) or number < 1):
        raise ValueError(f"chunk_size is {number!r}, at {here()}: it must be at least 1, or None.")


class _Rows:
    """The backward passes for many seeds of one target.

    Args:
        tape: the tape.
        method: the user's call, for messages.
        target: the target and its expression in the user's argument, for messages.
        sources: the sources.
        chunk_size: the largest number of seeds in one backward pass.
        conj: as for `gradients_of`.
    """

    def __init__(
        self,
        tape: TapeSlice,
        method: str,
        target: tuple[Any, str],
        sources: Sequence[Any],
        chunk_size: int | None,
        conj: bool,
    ) -> None:
        recorder = tape.recorder
        assert recorder is not None
        self.tape = tape
        self.method = method
        self.target = target
        self.sources = sources
        self.conj = conj
        self.fallible = recorder.fallible
        self.debugs = recorder.debugs
        self.chunk_size = 1 if self.debugs else chunk_size  # `debug_nans` finds the origin of a NaN for one cotangent at a time
        self.width = widest(recorder, target[0], *sources)

    def parts(self, count: int) -> Sequence[slice]:
        """Return the chunks of `count` seeds."""
        return list(chunks(count, self.chunk_size, self.width))

    def pulled(self, seeds: Any, *, last: bool) -> list[Any]:
        """Return, for each source, the cotangents for `seeds`, along a new first axis; `None` without a path.

        A gradient function of the user may need the value of its cotangent, which a batch cannot give. Then each seed gets
        its own backward pass.
        """
        left = len(seeds)

        def walk(seed: Any) -> list[Any]:
            nonlocal left
            left -= 1
            done = isinstance(seed, Recorded) or not left  # a few seeds get one pass each, without a batch
            return gradients_of(self.tape, [self.target], [seed], self.sources, last=last and done, conj=self.conj)

        try:
            found = in_batch(self.method, self.tape, seeds, walk)
        except AbstractValueError:
            if not self.fallible or len(seeds) == 1:
                raise
            rows = [in_batch(self.method, self.tape, seeds[i : i + 1], walk) for i in range(len(seeds))]
            warn(
                LoopWarning(
                    f"{self.method} walks once for each of {len(seeds)} rows, at {here()}: a gradient function on the way asks "
                    f"for the value of its cotangent. Write it with NumPy functions, np.where in place of `if`."
                )
            )
            found = [
                self._stacked(column, [1] * len(rows), source)
                for column, source in zip(_columns(rows), self.sources, strict=True)
            ]
        return [None if part is None else resolve(part) for part in found]

    def all(self, seeds_at: Callable[[slice], Any], count: int, *, last: bool = True) -> list[Any]:
        """Return, for each source, the cotangents for all seeds: `(count, *source.shape)`; `None` without a path."""
        parts = self.parts(count)
        found = [self.pulled(seeds_at(part), last=last and part is parts[-1]) for part in parts]
        lengths = [part.stop - part.start for part in parts]
        return [self._stacked(column, lengths, source) for column, source in zip(_columns(found), self.sources, strict=True)]

    def transposable(self) -> bool:
        """Return `True` if `columns` is possible: all values are real, and no rule or watch needs single cotangents."""
        real = all(dtype_of(value).kind == "f" for value in (self.target[0], *self.sources))
        return real and not (self.fallible or self.debugs) and checker() is None

    def columns(self) -> list[Any]:
        """Return the Jacobian for each source, computed column by column; `None` without a path.

        A backward pass is linear in its seed, so its transpose gives columns: one pass is recorded and pulled back, as in
        `functad.transforms.linear`.
        """
        target = self.target[0]
        recorder = ReverseRecorder(self.method, self.tape)
        seed = recorder.enter(np.zeros(shape_of(target), dtype_of(target))[()])
        walked = gradients_of(self.tape, [self.target], [seed], self.sources, last=True, conj=self.conj)
        recorder.close()
        result = []
        for g, source in zip(walked, self.sources, strict=True):
            if not isinstance(g, Recorded) or g.recorder is not recorder:
                shape = (*shape_of(target), *shape_of(source))
                result.append(None if g is None else np.zeros(shape, dtype_of(source)))
                continue

            def walk(t: Any, g: Recorded = g) -> list[Any]:
                cotangents: list[Any] = [None] * len(recorder.equations)
                cotangents[g.slot] = unfit(t, g)
                return pull_back(recorder.equations, cotangents, recorder.inputs, consume=False)

            parts = list(chunks(size_of(source), self.chunk_size, self.width))
            found = [in_batch(self.method, self.tape, identity_rows(source, part), walk)[0] for part in parts]
            joint = self._stacked(found, [part.stop - part.start for part in parts], target)
            result.append(None if joint is None else np.moveaxis(resolve(joint), 0, -1))
        return result

    def _stacked(self, parts: Sequence[Any], lengths: Sequence[int], source: Any) -> Any:
        """Return the rows of several chunks as one array, with zeros for chunks without a path; `None` if no chunk has one."""
        if all(part is None for part in parts):
            return None
        shape, dtype = shape_of(source), dtype_of(source)
        filled = [np.zeros((n, *shape), dtype) if part is None else part for part, n in zip(parts, lengths, strict=True)]
        return joined(filled)


def _columns(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


def jacobian_asked(target: Any, sources: Any, unconnected: Any, chunk_size: int | None, conj: bool) -> Answer:
    """Check the arguments of `GradientTape.jacobian`, and return the function that computes the result for a tape."""
    zero, conj = zero_wanted(unconnected), checked_conj(conj)
    check_chunk_size(chunk_size)
    targets, given = leaves_of(target, "target")
    if given.kind is not None:
        raise SourceError(f"jacobian() needs one Tensor as its target, not a {type(target).__name__}, at {here()}.")
    pairs, structure = leaves_of(sources, "sources")
    asked = [source for source, _ in pairs]

    def answer(tape: TapeSlice) -> Any:
        shape, size = shape_of(target), math.prod(shape_of(target))
        if not size:
            return structure.unflatten([_zeros((*shape, *shape_of(source)), source) for source in asked])
        rows = _Rows(tape, "jacobian()", targets[0], asked, chunk_size, conj)
        if size > 2 * sum(map(size_of, asked)) and rows.transposable():
            found = rows.columns()
        else:
            found = rows.all(lambda part: identity_rows(target, part), size)
        return structure.unflatten(
            [_shaped(g, (*shape, *shape_of(source)), source, zero) for g, source in zip(found, asked, strict=True)]
        )

    return answer


def batch_jacobian_asked(target: Any, source: Any, unconnected: Any, check: bool, chunk_size: int | None, conj: bool) -> Answer:
    """Check the arguments of `GradientTape.batch_jacobian`, and return the function that computes the result for a tape."""
    zero, conj = zero_wanted(unconnected), checked_conj(conj)
    check_chunk_size(chunk_size)
    targets, structure = leaves_of(target, "target")
    _, own = leaves_of(source, "source")
    if structure.kind is not None or own.kind is not None:
        raise SourceError(f"batch_jacobian() needs one Tensor as target and one as source, at {here()}.")
    given, wanted = shape_of(target), shape_of(source)
    if len(given) < 2 or len(wanted) < 2 or given[0] != wanted[0]:
        raise ValueError(
            f"batch_jacobian() of a target of shape {given} by a source of shape {wanted}, at {here()}: both need at least "
            f"two axes, the first ones equally long."
        )

    def answer(tape: TapeSlice) -> Any:
        whole, size = (*given, *wanted[1:]), math.prod(given[1:])
        if not math.prod(given):
            return _zeros(whole, source)

        def ones_for(part: slice) -> Any:
            """Return seeds that are 1 at the same element of every target row, 0 elsewhere."""
            seeds = np.zeros((part.stop - part.start, given[0], size), dtype_of(target))
            seeds[np.arange(len(seeds)), :, np.arange(part.start, part.stop)] = 1
            return seeds.reshape((-1, *given))

        rows = _Rows(tape, "batch_jacobian()", targets[0], [source], chunk_size, conj)
        (found,) = rows.all(ones_for, size, last=not check)
        if found is not None:
            found = np.moveaxis(found, 0, 1)
            if check:
                _compare(rows, size)
        return _shaped(found, whole, source, zero)

    return answer


def _compare(rows: _Rows, size: int) -> None:
    """Check that each target row, with `size` elements, depends on its own source row only.

    Raises:
        ValueError: a row depends on other rows.
    """
    target, (source,) = rows.target[0], rows.sources
    for part in rows.parts(math.prod(shape_of(target))):
        (found,) = rows.pulled(identity_rows(target, part), last=False)
        if found is None:
            continue
        own = np.arange(part.start, part.stop) // size
        reached = _not_zero(found, 1 + len(shape_of(source)))
        reached[np.arange(len(own)), own] = False
        if reached.any():
            raise ValueError(
                f"batch_jacobian(check=True) at {here()}: row {own[reached.any(1)][0]} of the target depends on other rows "
                f"of the source. Use jacobian()."
            )


def _not_zero(found: Any, ndim: int) -> Any:
    """Return a mask over the first two axes: `True` where any value, in any example of a batch, is not zero.

    Raises:
        AbstractValueError: the trace has no values.
    """
    held = all_examples(found)
    if isinstance(held, ArraySpec):
        found.recorder.concrete_value(found, "batch_jacobian(check=True)")
    outer = np.ndim(held) - ndim
    return (np.asarray(held) != 0).any(axis=(*range(outer), *range(outer + 2, np.ndim(held))))


def _zeros(shape: tuple[int, ...], source: Any) -> Any:
    return finished(None, ArraySpec(shape, dtype_of(source)), True)


def _shaped(found: Any, shape: tuple[int, ...], source: Any, zero: bool) -> Any:
    """Return all rows as a Tensor with the given shape and the dtype of the source; without a path, `None` or zeros."""
    if found is not None and shape_of(found) != shape:
        found = found.reshape(shape)
    return finished(found, ArraySpec(shape, dtype_of(source)), zero)
