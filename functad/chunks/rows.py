"""Lists for one chunk: what depends on its number of rows stands in them as such until a chunk is there.

The values of a list are whole, the same for every chunk, or they are cut along one axis as the chunks are. The axis is as long
as the chunk has rows, or a multiple of it: to flatten an array of `n` rows and 3 columns gives an axis of `3 n`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import ArraySpec
from functad.immutable import Immutable, assign
from functad.tracing.traces.abstract import AbstractRecorder
from functad.transforms.abstract import listed


class Along(NamedTuple):
    """How a value is cut.

    Attributes:
        axis: along which.
        factor: how many of its elements belong to a row.
    """

    axis: int
    factor: int = 1


class Rows(Immutable):
    """The length of an axis that is cut, among the parameters of an equation: so many times the number of rows."""

    __slots__ = ("factor",)

    factor: int

    def __init__(self, factor: int = 1) -> None:
        assign(self, "factor", factor)

    def __repr__(self) -> str:
        return "rows" if self.factor == 1 else f"{self.factor} rows"


class Counting(Immutable):
    """The numbers of the rows of a chunk, 0, 1, ..., in place of a constant."""

    __slots__ = ("dtype",)

    dtype: np.dtype[Any]

    def __init__(self, dtype: np.dtype[Any]) -> None:
        assign(self, "dtype", dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a length that is not known."""
        return (0,)


class Template(NamedTuple):
    """A list for chunks of any number of rows.

    Attributes:
        expressions: the list, with `Rows` among its parameters and `Counting` among its constants.
        alongs: how its inputs are cut.
    """

    expressions: Expressions
    alongs: tuple[Along | None, ...]

    def of_rows(self, rows: int) -> Expressions:
        """Return the list for a chunk of so many rows."""
        own = self.expressions
        specs = [cut_spec(spec, along, rows) for spec, along in zip(own.specs, self.alongs, strict=False)]

        def chunk(*leaves: Any) -> tuple[Any, ...]:
            values: dict[int, Any] = dict(enumerate(leaves))

            def value_of(source: Any) -> Any:
                if not isinstance(source, Constant):
                    return values[source]
                return np.arange(rows, dtype=source.value.dtype) if isinstance(source.value, Counting) else source.value

            for equation in own.equations:
                params = {name: filled(value, rows) for name, value in equation.params.items()}
                out = equation.primitive(*map(value_of, equation.inputs), **params)
                values.update(zip(equation.outputs, out if equation.primitive.multiple else (out,), strict=True))
            return tuple(map(value_of, own.outputs))

        found = listed(AbstractRecorder("jit", chunk), chunk, tuple(specs), {})[0]
        return found.replace(inputs=own.inputs)


def cut_spec(spec: ArraySpec, along: Along | None, rows: int) -> ArraySpec:
    """Return the spec of a value in a chunk of so many rows."""
    if along is None:
        return spec
    shape = list(spec.shape)
    shape[along.axis] = along.factor * rows
    return ArraySpec(tuple(shape), spec.dtype)


def filled(param: Any, rows: int) -> Any:
    """Return a parameter for a chunk of so many rows."""
    if isinstance(param, Rows):
        return param.factor * rows
    if isinstance(param, Template):
        return param.of_rows(rows)
    if type(param) is tuple:
        return tuple([filled(part, rows) for part in param])
    return param
