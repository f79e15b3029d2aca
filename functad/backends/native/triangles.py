"""Triangles of matrices, and systems of equations whose matrix is a Cholesky factor: BLAS solves them by substitution.

A factor has no zero on its diagonal, else there is none; so that native code, which cannot raise, need not look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from functad.backends.llvm.values import Value, where
from functad.backends.native.arrays import Array, Formula, Memory, aligned
from functad.backends.native.code import KINDS, REALS, Code, Index
from functad.backends.native.lowering import Lowered, Own, View, row
from functad.backends.native.products.blas import Matrix, routines, substitute
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.entry import ENTRIES
from functad.primitives.linalg.decompositions import CHOLESKY
from functad.primitives.linalg.solve import SOLVE, lower_half

TRIL, TRIU = ENTRIES[np.tril], ENTRIES[np.triu]


class TriangularSolve:
    """The primitive of a system of equations whose matrix is known to be triangular.

    Attributes:
        name: in lists.
    """

    multiple = False
    inner = None
    owner = None
    views = None
    function = None
    lists = ""
    name = "triangular_solve"


TRIANGULAR_SOLVE: Any = TriangularSolve()


class Factors:
    """Knows which values of a list are Cholesky factors, perhaps transposed.

    Attributes:
        is_lower: by slot, whether a factor is the lower triangle.
    """

    def __init__(self) -> None:
        self.is_lower: dict[int, bool] = {}

    def note(self, equation: Equation) -> None:
        """Note what an equation's result is."""
        source = equation.inputs[0] if equation.inputs else None
        if equation.primitive is CHOLESKY:
            self.is_lower[equation.outputs[0]] = True
        elif equation.primitive is TRANSPOSE and source in self.is_lower:
            axes = equation.params["axes"]
            if axes is not None and [*axes[:-2]] == [*range(len(axes) - 2)] and axes[-1] < axes[-2]:
                self.is_lower[equation.outputs[0]] = not self.is_lower[source]

    def is_whole(self, equation: Equation) -> bool:
        """Say whether an equation takes that triangle of a factor outside of which it is zero."""
        [source, *_] = equation.inputs or (None,)
        lower = self.is_lower.get(source)  # type: ignore[arg-type]
        k = equation.params.get("k", 0)
        return (equation.primitive is TRIL and lower is True and k >= 0) or (
            equation.primitive is TRIU and lower is False and k <= 0
        )

    def by_substitution(self, equation: Equation, spec: ArraySpec) -> Equation:
        """Return the equation that solves a system by substitution, if its matrix is a factor, else the equation itself.

        Args:
            equation: an equation.
            spec: of its result.
        """
        if equation.primitive is not SOLVE or equation.inputs[0] not in self.is_lower:
            return equation
        if routines() is None or KINDS.get(spec.dtype) not in REALS or not spec.size:
            return equation
        lower = self.is_lower[equation.inputs[0]]
        return Equation(TRIANGULAR_SOLVE, equation.inputs, {"lower": lower}, equation.outputs)


@row(TRIANGULAR_SOLVE)
def _solved(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    lower = equation.params["lower"]

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        a, b = operands
        [out] = outs
        code: Code = writer.code
        if not isinstance(a, Memory) or a.kind != out.kind or not _is_readable(a):
            copied = writer.buffer(a.shape, out.kind)
            writer.copy(a, copied)
            a = copied
        batch = out.shape[:-2]
        spread = Formula(out.shape, b.kind, lambda code, index: b.at(code, aligned(index, b.shape)))
        writer.copy(b if b.shape == out.shape else spread, out)
        with ExitStack() as stack:
            index = [stack.enter_context(code.loop(0, n)) for n in batch]
            place = a.place(code, [*aligned(index, a.shape[:-2]), 0, 0])
            pointers = [
                code.place(code.own(array.pointer), code.own(at) if isinstance(at, Value) else at, array.kind)
                for array, at in ((a, place), (out, out.place(code, [*index, 0, 0])))
            ]
            rows, columns = a.strides[-2:]
            matrix = Matrix(pointers[0], rows) if columns == 1 else Matrix(pointers[0], columns, turned=True)
            sizes = out.shape[-2], out.shape[-1]
            name = substitute(code, out.kind, sizes, matrix, Matrix(pointers[1], out.strides[-2]), lower=lower)
        writer.module.imported.add(name)

    return Own(write, stored=True, views=True)


def _is_readable(a: Memory) -> bool:
    """Say whether BLAS can read a square matrix where it is."""
    n, (rows, columns) = a.shape[-1], a.strides[-2:]
    return (columns == 1 and rows >= n) or (rows == 1 and columns >= n)


def _chosen(array: Array, choose: Callable[[Code, Value, Index], Value]) -> Array:
    """Return a formula of each element of a matrix and its distance from the diagonal."""

    def element(code: Code, index: Sequence[Index]) -> Value:
        return choose(code, array.at(code, index), code.linear(index[-2:], [-1, 1]))

    return Formula(array.shape, array.kind, element)


@row(TRIL, TRIU)
def _triangle(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    k, lower = int(equation.params["k"]), equation.primitive is TRIL

    def choose(code: Code, x: Value, distance: Index) -> Value:
        zero = code.constant(0.0 if x.is_real else 0, x.kind)
        if isinstance(distance, Value):
            return where(distance <= k if lower else distance >= k, x, zero)
        return x if (distance <= k if lower else distance >= k) else zero

    return View(lambda arrays: _chosen(arrays[0], choose))


@row(lower_half)
def _lower_half(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    def choose(code: Code, x: Value, distance: Index) -> Value:
        zero = code.constant(0.0, x.kind)
        if isinstance(distance, Value):
            return where(distance < 0, x, where(distance.equals(0), x * 0.5, zero))
        return x if distance < 0 else zero if distance else x * 0.5

    return View(lambda arrays: _chosen(arrays[0], choose)) if KINDS[given[0].dtype] in REALS else None
