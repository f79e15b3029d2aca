"""What JAX computes each primitive with: one row for each, in tables that the families fill.

A row is a function of the operands and the parameters of an equation, as the primitive's own is, after a `Call` that says what
the list knows of them. It computes with `jax.numpy` and `jax.lax`; where it answers `NotImplemented`, and for primitives
without a row, NumPy computes the equation on the host.
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
    """What a list knows of an equation.

    Attributes:
        primitive: what is called.
        given: the specs of the operands.
        results: those of the results.
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
        """The kind of the first operand's dtype."""
        return self.given[0].dtype.kind

    def cast(self, *values: Any) -> list[Any]:
        """Return operands in the dtype of the first result."""
        return [cast(value, self.dtype) for value in values]


Row: TypeAlias = Callable[..., Any]
"""From a `Call`, the operands and the parameters to the results."""

ROWS: dict[Any, Row] = {}
"""The rows, by the primitive, or by the function or the name of primitives that are made when they are needed."""

FAMILIES = (
    *("elementwise", "comparisons", "reductions", "arranging", "indexing", "products", "degenerate"),
    *("control", "loop_derivative", "special", "own_code"),
)
"""The modules that fill the table."""


def row(*functions: Any) -> Callable[[Row], Row]:
    """Enter a row for some functions of NumPy, primitives, or names."""

    def entered(made: Row) -> Row:
        for function in functions:
            primitive = function if isinstance(function, Primitive) else vocabulary.find(function)
            ROWS[primitive if isinstance(primitive, Primitive) else function] = made
        return made

    return entered


@functools.cache
def _enter_families() -> None:
    """Fill the table; the modules import this one."""
    for name in FAMILIES:
        import_module(f"functad.backends.xla.{name}")


def row_of(primitive: Primitive) -> Row | None:
    """Return the row of a primitive; `None` if NumPy computes it."""
    _enter_families()
    found = ROWS.get(primitive) or ROWS.get(primitive.name)
    return ROWS.get(primitive.function) if found is None and primitive.function.__hash__ is not None else found
