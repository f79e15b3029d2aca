"""The lowering table: one row per primitive. The modules of the families fill the table.

A row is a function of a `Call` (the specs of an equation), the operands and the parameters. It computes with `jax.numpy` and
`jax.lax`. NumPy computes an equation on the host if the row returns `NotImplemented` or the primitive has no row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functad.backends.xla.engine import cast
from functad.expressions.spec import ArraySpec
from functad.primitives import vocabulary
from functad.primitives.entry import Primitive


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

ROWS: dict[Any, Row] = {}
"""Maps a primitive to its row. For primitives that are created on demand, the key is their function or name."""

FAMILIES = (
    *("elementwise", "comparisons", "reductions", "arranging", "indexing", "products", "degenerate"),
    *("control", "loop_derivative", "special", "own_code"),
)
"""The modules that fill the table."""


def row(*functions: Any) -> Callable[[Row], Row]:
    """Return a decorator that adds a row for NumPy functions, primitives or names."""

    def entered(made: Row) -> Row:
        for function in functions:
            primitive = function if isinstance(function, Primitive) else vocabulary.find(function)
            ROWS[primitive if isinstance(primitive, Primitive) else function] = made
        return made

    return entered


@functools.cache
def _enter_families() -> None:
    """Import the families, which fill the table. Late, because they import this module."""
    for name in FAMILIES:
        import_module(f"functad.backends.xla.{name}")


def row_of(primitive: Primitive) -> Row | None:
    """Return the row of a primitive; `None` if NumPy computes it."""
    _enter_families()
    found = ROWS.get(primitive) or ROWS.get(primitive.name)
    return ROWS.get(primitive.function) if found is None and primitive.function.__hash__ is not None else found
