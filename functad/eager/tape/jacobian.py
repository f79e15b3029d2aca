"""Jacobians of a tape: one backward pass computes many rows, with the seeds as a batch.

The seeds come from `functad.transforms.calling.seeds`, in chunks that bound the memory. An outer tape or transform records
the backward pass once for all rows of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from functad.eager.tape.request import Request, check_option, finished, gradients_of
from functad.errors import AbstractValueError, LoopWarning, SourceError
from functad.expressions.observers import checker
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, warn
from functad.primitives.operands import all_examples
from functad.tracing.traces.base import resolve
from functad.transforms.calling.seeds import chunks, identity_rows, in_batch, joined, size_of, widest
from functad.transforms.linear import Pushforward


class JacobianRequest(Request):
    """A request for a Jacobian: a backward pass for many seeds of one target.

    Attributes:
        transform, function, values: the method, the tape and the target, as in a `Pullback`.
        chunk_size: the largest number of seeds in one backward pass.
    """

    def __init__(
        self, tape: Any, method: str, target: Any, sources: Any, unconnected: Any, conj: Any, chunk_size: int | None
    ) -> None:
        super().__init__(tape, target, sources, unconnected, conj)
        if not isinstance(chunk_size, (int, np.integer)) or chunk_size < 1:
            check_option("chunk_size", chunk_size, (None,), "it must be at least 1, or None")
        if self.given.kind is not None:
            raise SourceError(f"{method} needs one Tensor as its target, not a {type(target).__name__}, at {here()}.")
        self.transform, self.function, self.values = method, tape, [target]
        self.target, self.chunk_size = target, chunk_size

    def jacobian(self) -> Any:
        """Return the Jacobians, in the structure of the sources."""
        target, sources = self.target, self.sources
        size = size_of(target)
        if not size:
            self.zero, found = True, [None] * len(sources)
        elif size > 2 * sum(map(size_of, sources)) and self._transposable():
            found = self._columns()
        else:
            found = self._rows(lambda part: identity_rows(target, part), size)
        return self.structure.unflatten(
            [self._shaped(g, (*shape_of(target), *shape_of(s)), s) for g, s in zip(found, sources, strict=True)]
        )

    def check_batch(self) -> None:
        """Check that target and source are two Tensors with equally many rows.

        Raises:
            SourceError: there is more than one source.
            ValueError: the shapes do not fit.
        """
        if self.structure.kind is not None:
            raise SourceError(f"batch_jacobian() needs one Tensor as its source, at {here()}.")
        given, wanted = shape_of(self.target), shape_of(self.sources[0])
        if len(given) < 2 or len(wanted) < 2 or given[0] != wanted[0]:
            raise ValueError(
                f"batch_jacobian() of a target of shape {given} by a source of shape {wanted}, at {here()}: both need at "
                f"least two axes, the first ones equally long."
            )

    def batch_jacobian(self, *, check: bool) -> Any:
        """Return the Jacobian of each target row; with `check`, check that the rows are independent."""
        target, (source,) = self.target, self.sources
        given = shape_of(target)
        size = math.prod(given[1:])

        def ones_for(part: slice) -> Any:
            """Return seeds that are 1 at the same element of every target row, 0 elsewhere."""
            seeds = np.zeros((part.stop - part.start, given[0], size), dtype_of(target))
            seeds[np.arange(len(seeds)), :, np.arange(part.start, part.stop)] = 1
            return seeds.reshape((-1, *given))

        found = None
        if not math.prod(given):
            self.zero = True
        elif (rows := self._rows(ones_for, size)[0]) is not None:
            found = np.moveaxis(rows, 0, 1)
            if check:
                self._compare(size)
        return self._shaped(found, (*given, *shape_of(source)[1:]), source)

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the sources for a seed of the target; `None` without a path."""
        return gradients_of(self.tape, self.targets, seeds, self.sources, conj=self.conj)

    @cached_property
    def _width(self) -> int:
        """The size of the largest value of a backward pass."""
        return widest(self.tape.recorder, self.target, *self.sources)

    def _parts(self, count: int) -> Iterable[slice]:
        """Return the chunks of `count` seeds; `debug_nans` finds the origin of a NaN for one cotangent at a time."""
        return chunks(count, self.chunk_size if self.tape.recorder.watch is None else 1, self._width)

    def _rows(self, seeds_at: Callable[[slice], Any], count: int) -> list[Any]:
        """Return, for each source, the cotangents for all seeds: `(count, *source.shape)`; `None` without a path."""
        blocks = [block for part in self._parts(count) for block in self._pulled(seeds_at(part))]
        return [_joined([(n, found[i]) for n, found in blocks], source) for i, source in enumerate(self.sources)]

    def _pulled(self, seeds: Any) -> list[tuple[int, list[Any]]]:
        """Return blocks of cotangents, each with its number of seeds.

        A gradient function of the user may need the value of its cotangent, which a batch cannot give. Then each seed gets
        its own backward pass and block.
        """

        def walk(seed: Any) -> list[Any]:
            return self.leaves([seed])

        try:
            return [(len(seeds), in_batch(self.transform, self.tape, seeds, walk))]
        except AbstractValueError:
            if not self.tape.recorder.fallible or len(seeds) == 1:
                raise
            rows = [(1, in_batch(self.transform, self.tape, seeds[i : i + 1], walk)) for i in range(len(seeds))]
            warn(
                LoopWarning(
                    f"{self.transform} walks once for each of {len(seeds)} rows, at {here()}: a gradient function on the way "
                    f"asks for the value of its cotangent. Write it with NumPy functions, np.where in place of `if`."
                )
            )
            return rows

    def _transposable(self) -> bool:
        """Return `True` if `_columns` is possible: all values are real, and no rule or watch needs single cotangents."""
        real = all(dtype_of(value).kind == "f" for value in (self.target, *self.sources))
        return real and not self.tape.recorder.fallible and self.tape.recorder.watch is None and checker() is None

    def _columns(self) -> list[Any]:
        """Return the Jacobian for each source, computed column by column from one backward pass; `None` without a path."""
        push = Pushforward(self)  # type: ignore[arg-type] # it needs only the attributes of the class
        result = []
        for i, source in enumerate(self.sources):

            def walk(t: Any, i: int = i) -> list[Any]:
                return push.leaves([t if j == i else None for j in range(len(self.sources))])

            blocks = []
            for part in self._parts(size_of(source)):
                (tangents,) = in_batch(self.transform, self.tape, identity_rows(source, part), walk)
                blocks.append((part.stop - part.start, tangents))
            columns = _joined(blocks, self.target)
            if columns is None and push.found[i] is not None:  # a rule returned a constant
                columns = np.zeros((size_of(source), *shape_of(self.target)), dtype_of(source))
            result.append(None if columns is None else np.moveaxis(columns, 0, -1))
        return result

    def _compare(self, size: int) -> None:
        """Check that each target row, with `size` elements, depends on its own source row only.

        Raises:
            ValueError: a row depends on other rows.
        """
        target, (source,) = self.target, self.sources
        (found,) = self._rows(lambda part: identity_rows(target, part), size_of(target))
        own = np.arange(size_of(target)) // size
        reached = _not_zero(found, 1 + len(shape_of(source)))
        reached[np.arange(len(own)), own] = False
        if reached.any():
            raise ValueError(
                f"batch_jacobian(check=True) at {here()}: row {own[reached.any(1)][0]} of the target depends on other rows of "
                f"the source. Use jacobian()."
            )

    def _shaped(self, found: Any, shape: tuple[int, ...], source: Any) -> Any:
        """Return all rows as a Tensor with the given shape and the dtype of the source; without a path, `None` or zeros."""
        if found is not None and shape_of(found) != shape:
            found = found.reshape(shape)
        return finished(found, ArraySpec(shape, dtype_of(source)), self.zero)


def _joined(blocks: Sequence[tuple[int, Any]], source: Any) -> Any:
    """Return the rows of several blocks as one array, with zeros for blocks without a path; `None` if no block has one."""
    if all(rows is None for _, rows in blocks):
        return None
    shape, dtype = shape_of(source), dtype_of(source)
    return joined([np.zeros((n, *shape), dtype) if rows is None else resolve(rows) for n, rows in blocks])


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
