"""Expression lists for one chunk, with the number of rows as a symbol until a chunk is given.

A value of a list is either whole, the same for every chunk, or cut along one axis like the chunks. The length of that axis
is a multiple of the number of rows: an array of `n` rows and 3 columns, flattened, has an axis of length `3 n`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import ArraySpec
from functad.immutable import Immutable, assign
from functad.transforms.lists import trace


class Along(NamedTuple):
    """How a value is cut.

    Attributes:
        axis: the axis of the cut.
        factor: the number of elements for each row along `axis`.
    """

    axis: int
    factor: int = 1


class Rows(Immutable):
    """The length of a cut axis in the parameters of an equation: `factor` times the number of rows."""

    __slots__ = ("factor",)

    factor: int

    def __init__(self, factor: int = 1) -> None:
        assign(self, "factor", factor)

    def __repr__(self) -> str:
        return "rows" if self.factor == 1 else f"{self.factor} rows"


class Counting(Immutable):
    """A placeholder constant: the numbers 0, 1, ... of the rows of a chunk."""

    __slots__ = ("dtype",)

    dtype: np.dtype[Any]

    def __init__(self, dtype: np.dtype[Any]) -> None:
        assign(self, "dtype", dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """A placeholder; the length is not known."""
        return (0,)


class Window(NamedTuple):
    """An input that is a part of the columns of an array.

    Attributes:
        width: the number of columns of the array.
        columns: the number of the only column, or the first column and the end.
    """

    width: int
    columns: int | tuple[int, int]

    @property
    def selection(self) -> tuple[Any, ...]:
        """The index that reads the part."""
        return slice(None), self.columns if isinstance(self.columns, int) else slice(*self.columns)


class Template(NamedTuple):
    """An expression list for chunks of any number of rows.

    Attributes:
        expressions: the list, with `Rows` in its parameters and `Counting` in its constants.
        alongs: how its inputs are cut.
    """

    expressions: Expressions
    alongs: tuple[Along | None, ...]

    def of_rows(self, rows: int, windows: Mapping[int, Window] | None = None) -> Expressions:
        """Return the list for a chunk of `rows` rows.

        Args:
            rows: the number of rows.
            windows: the inputs that are parts of the columns of other arrays, which the list takes in their place.
        """
        own, windows = self.expressions, windows or {}
        specs = [cut_spec(spec, along, rows) for spec, along in zip(own.specs, self.alongs, strict=False)]
        for i, part in windows.items():
            specs[i] = ArraySpec((specs[i].shape[0], part.width), specs[i].dtype)

        def chunk(*leaves: Any) -> tuple[Any, ...]:
            values: dict[int, Any] = dict(enumerate(leaves))
            values |= {i: values[i][part.selection] for i, part in windows.items()}

            def value_of(source: Any) -> Any:
                if not isinstance(source, Constant):
                    return values[source]
                return np.arange(rows, dtype=source.value.dtype) if isinstance(source.value, Counting) else source.value

            for equation in own.equations:
                params = {name: filled(value, rows) for name, value in equation.params.items()}
                out = equation.primitive(*map(value_of, equation.inputs), **params)
                values.update(zip(equation.outputs, out if equation.primitive.multiple else (out,), strict=True))
            return tuple(map(value_of, own.outputs))

        return trace("jit", chunk, specs).replace(inputs=own.inputs)


def cut_spec(spec: ArraySpec, along: Along | None, rows: int) -> ArraySpec:
    """Return the spec of a value in a chunk of `rows` rows."""
    if along is None:
        return spec
    shape = list(spec.shape)
    shape[along.axis] = along.factor * rows
    return ArraySpec(tuple(shape), spec.dtype)


def filled(param: Any, rows: int) -> Any:
    """Return a parameter for a chunk of `rows` rows."""
    if isinstance(param, Rows):
        return param.factor * rows
    if isinstance(param, Template):
        return param.of_rows(rows)
    if type(param) is tuple:
        return tuple([filled(part, rows) for part in param])
    return param
