"""The lowering table: one row per primitive. The modules of the families fill the table.

A row is a function of a `Call` (the specs of an equation), the operands and the parameters. It computes with `jax.numpy` and
`jax.lax`. NumPy computes an equation on the host if the row returns `NotImplemented` or the primitive has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functad.backends.xla.engine import cast
from functad.expressions.spec import ArraySpec
from functad.primitives.entry import Primitive
from functad.primitives.table import Table


class Call(NamedTuple):
    """The primitive of an equation with the specs of operands and results.

    Attributes:
        primitive: the primitive.
        given: the specs of the operands.
        results: the specs of the results.
    """

    primitive: Primitive
    given: Sequence[ArraySpec]
    results: Sequence[ArraySpec]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first result."""
        return self.results[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.results[0].shape

    @property
    def kind(self) -> str:
        """The kind of the dtype of the first operand."""
        return self.given[0].dtype.kind

    def cast(self, *values: Any) -> list[Any]:
        """Return operands in the dtype of the first result."""
        return [cast(value, self.dtype) for value in values]


Row: TypeAlias = Callable[..., Any]
"""A function from a `Call`, the operands and the parameters to the results."""

ROWS: Table[Row] = Table(
    "functad.backends.xla",
    (
        *("elementwise", "comparisons", "reductions", "arranging", "indexing", "products", "degenerate"),
        *("control", "loop_derivative", "special", "own_code"),
    ),
)
row: Callable[..., Callable[[Row], Row]] = ROWS.add
row_of: Callable[[Primitive], Row | None] = ROWS.find
