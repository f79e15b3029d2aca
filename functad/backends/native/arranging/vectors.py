"""Lowering of cross products: each element is computed on demand from four elements of the operands."""

from __future__ import annotations

from collections.abc import Sequence

from functad.backends.llvm.values import Value, where
from functad.backends.native.arrays import Array, Formula, aligned
from functad.backends.native.code import KINDS, REALS, Code, Index
from functad.backends.native.lowering import Lowered, View, row
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.primitives.signals.differences import CROSS


def _neighbours(axis: Index) -> tuple[Index, Index]:
    """Return the two other axes of space in cyclic order."""
    if isinstance(axis, Value):
        return where(axis.equals(2), axis.like(0), axis + 1), where(axis.equals(0), axis.like(2), axis - 1)
    return (axis + 1) % 3, (axis + 2) % 3


@row(CROSS)
def _cross(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    shape, kind = results[0].shape, KINDS[results[0].dtype]
    if kind not in REALS or any(spec.shape[-1:] != (3,) for spec in (*given, *results)):
        return None

    def made(arrays: Sequence[Array]) -> Array:
        def element(code: Code, index: Sequence[Index]) -> Value:
            def at(array: Array, axis: Index) -> Value:
                return code.cast(array.at(code, aligned([*index[:-1], axis], array.shape)), kind)

            a, b = arrays
            second, third = _neighbours(index[-1])
            return at(a, second) * at(b, third) - at(a, third) * at(b, second)

        return Formula(shape, kind, element)

    return View(made, cost=3.0)
