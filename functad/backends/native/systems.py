"""Linear systems, inverses, determinants and Cholesky factors, of matrices and of stacks of matrices.

Small matrices are unrolled: NumPy calls LAPACK for each matrix of a stack, which takes a microsecond for three rows. Unrolled
code takes some tens of nanoseconds. Elimination uses partial pivoting, like LAPACK. For larger matrices, native code calls
LAPACK. If a pivot is zero, negligible or NaN, NumPy computes the list, and raises the error if the matrix is singular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from functad.backends.factors import LU_FACTOR, LU_SOLVE, NONZERO
from functad.backends.native.arrays import Array, Formula, Memory, aligned
from functad.backends.native.lowering import Lowered, Own, Pointwise, row
from functad.backends.native.products.blas import eliminate, factorise, solve
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.ir import REALS
from functad.loops.values import Value, where
from functad.primitives.linalg.decompositions import CHOLESKY
from functad.primitives.linalg.determinants import DET, SLOGDET, cofactors, inverse
from functad.primitives.linalg.lapack import routines
from functad.primitives.linalg.solve import INV, SOLVE

LARGEST = 8
"""Matrices of up to this many rows are unrolled."""

MOST = 640
"""The maximum number of unrolled products for one system."""

NOTHING = 64.0
"""Pivots of up to this many machine epsilons times the largest element are negligible."""

Rows = list[list[Value]]
"""The elements of a matrix."""

Compute = Callable[["Small", Sequence[Rows]], Sequence[Rows]]
"""Maps the elements of the operands to the elements of the results. A number is a 1 x 1 matrix."""


class Small:
    """The unrolled code for one matrix of a stack.

    Attributes:
        code: the function.
        kind: the type of the elements.
        odd: the flag that NumPy must compute the list.
        looks: `True` if code sets the flag.
    """

    def __init__(self, code: Code, kind: str) -> None:
        self.code, self.kind = code, kind
        self.looks = False
        self.odd = code.allocate("i1", 1)
        code.store(self.odd, 0, code.constant(0, "i1"))

    def unless(self, fine: Value) -> None:
        """Set the flag that NumPy must compute unless `fine` is true."""
        self.looks = True
        self.code.store(self.odd, 0, self.code.load(self.odd, 0, "i1") | ~fine)

    def number(self, x: float) -> Value:
        """Return a constant."""
        return self.code.constant(x, self.kind)

    def magnitude(self, x: Value) -> Value:
        """Return the absolute value."""
        return self.code.elementary("absolute", x)

    def eliminated(self, a: Rows, b: Rows) -> tuple[Rows, Rows, Value]:
        """Eliminate `a x = b` to `u x = y`; return `u`, `y` and the sign of the row permutation."""
        a, b = [list(line) for line in a], [list(line) for line in b]
        n, sign = len(a), self.number(1.0)
        largest = self.number(0.0)
        for x in (x for line in a for x in line):
            size = self.magnitude(x)
            largest = where(size > largest, size, largest)
        least = largest * (NOTHING * float(np.finfo(np.float64 if self.kind == "double" else np.float32).eps))
        for j in range(n):
            for i in range(j + 1, n):
                better = self.magnitude(a[i][j]) > self.magnitude(a[j][j])
                sign = where(better, -sign, sign)
                for lines in (a, b):
                    upper, lower = lines[j], lines[i]
                    lines[j] = [where(better, y, x) for x, y in zip(upper, lower, strict=True)]
                    lines[i] = [where(better, x, y) for x, y in zip(upper, lower, strict=True)]
            self.unless(self.magnitude(a[j][j]) > least)
            for i in range(j + 1, n):
                factor = a[i][j] / a[j][j]
                a[i] = [*a[i][: j + 1], *[x - factor * y for x, y in zip(a[i][j + 1 :], a[j][j + 1 :], strict=True)]]
                b[i] = [x - factor * y for x, y in zip(b[i], b[j], strict=True)]
        return a, b, sign

    def solved(self, a: Rows, b: Rows) -> Rows:
        """Return the solution of a system."""
        u, y, _ = self.eliminated(a, b)
        return self.substituted(u, y, lower=False)

    def substituted(self, a: Rows, b: Rows, *, lower: bool) -> Rows:
        """Return the solution of a triangular system."""
        n = len(a)
        found: dict[int, list[Value]] = {}
        for i in range(n) if lower else reversed(range(n)):
            line = b[i]
            for j in range(i) if lower else range(i + 1, n):
                line = [x - a[i][j] * y for x, y in zip(line, found[j], strict=True)]
            found[i] = [x / a[i][i] for x in line]
        return [found[i] for i in range(n)]

    def inverted(self, a: Rows) -> Rows:
        """Return the inverse of `a`."""
        return self.solved(a, [[self.number(float(i == j)) for j in range(len(a))] for i in range(len(a))])

    def determinant(self, a: Rows) -> Value:
        """Return the determinant of `a`."""
        u, _, result = self.eliminated(a, [[] for _ in a])
        for i in range(len(a)):
            result = result * u[i][i]
        return result

    def logarithm(self, a: Rows) -> tuple[Value, Value]:
        """Return the sign and the logarithm of the absolute value of the determinant."""
        u, _, sign = self.eliminated(a, [[] for _ in a])
        total = self.number(0.0)
        for i in range(len(a)):
            sign = where(u[i][i] < 0, -sign, sign)
            total = total + self.code.elementary("log", self.magnitude(u[i][i]))
        return sign, total

    def norm(self, a: Rows) -> Value:
        """Return the Frobenius norm."""
        total = self.number(0.0)
        for x in (x for line in a for x in line):
            total = total + x * x
        return self.code.elementary("sqrt", total)

    def factor(self, a: Rows) -> Rows:
        """Return the lower Cholesky factor."""
        n, zero = len(a), self.number(0.0)
        found = [[zero] * n for _ in range(n)]
        for j in range(n):
            rest = a[j][j]
            for k in range(j):
                rest = rest - found[j][k] * found[j][k]
            self.unless(rest > 0)
            found[j][j] = self.code.elementary("sqrt", rest)
            for i in range(j + 1, n):
                x = a[i][j]
                for k in range(j):
                    x = x - found[i][k] * found[j][k]
                found[i][j] = x / found[j][j]
        return found


def is_small(rows: int, columns: int) -> bool:
    """Return `True` if systems with `rows` equations and `columns` right-hand sides are unrolled."""
    return rows <= LARGEST and rows * rows * (rows + columns) <= MOST


def written_out(compute: Compute, axes: Sequence[int]) -> Own:
    """Return the lowering of a computation on each matrix of a stack.

    Args:
        compute: the computation.
        axes: for each result, the number of trailing axes that belong to one matrix.
    """

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        outer: Code = writer.code
        code = Code(fused=outer.fused, outer=outer)
        small = Small(code, outs[0].kind)
        batch = outs[0].shape[: len(outs[0].shape) - axes[0]]
        with ExitStack() as stack:
            index = [stack.enter_context(code.loop(0, n, straight=axis + 1 == len(batch))) for axis, n in enumerate(batch)]
            given = [_read(code, array, index, outs[0].kind) for array in operands]
            for out, found in zip(outs, compute(small, given), strict=True):
                for i, line in enumerate(found):
                    for j, x in enumerate(line):
                        place: list[Index] = [*index, i, j]
                        out.put(code, place[: len(out.shape)], x)
        if small.looks:
            code.refuse(code.load(small.odd, 0, "i1"))
        writer.module.call(outer, code)

    return Own(write, stored=True, views=True, cost=1000.0)


def _read(code: Code, array: Array, index: Sequence[Index], kind: str) -> Rows:
    """Return the elements of the matrix at `index` of a stack."""
    own = aligned(index, array.shape[:-2])
    rows, columns = array.shape[-2:]
    return [[code.cast(array.at(code, [*own, i, j]), kind) for j in range(columns)] for i in range(rows)]


# Calls of LAPACK


def chosen(array: Array, choose: Callable[[Code, Value, Index], Value]) -> Array:
    """Return `choose`, applied to each element of a matrix and its distance from the diagonal."""

    def element(code: Code, index: Sequence[Index]) -> Value:
        return choose(code, array.at(code, index), code.linear(index[-2:], [-1, 1]))

    return Formula(array.shape, array.kind, element)


def _lower(code: Code, x: Value, distance: Index) -> Value:
    """Return an element of the lower triangle."""
    zero = code.constant(0.0, x.kind)
    return where(distance <= 0, x, zero) if isinstance(distance, Value) else x if distance <= 0 else zero


def refuse_zeros(code: Code, a: Memory) -> None:
    """Write loops that refuse matrices with a zero on the diagonal."""
    with _over(code, a.shape[:-1]) as index:
        code.refuse(a.at(code, [*index, index[-1]]).equals(0.0))


@contextmanager
def _over(code: Code, shape: Sequence[int]) -> Iterator[list[Index]]:
    """Write nested loops, and yield their indices."""
    with ExitStack() as stack:
        yield [stack.enter_context(code.loop(0, n)) for n in shape]


def _part(code: Code, array: Array, index: Sequence[Index], axes: int) -> Value:
    """Return the address of the last `axes` axes of an array in memory at `index` of a stack."""
    assert isinstance(array, Memory)
    own = [*aligned(index, array.shape[: len(array.shape) - axes]), *[0] * axes]
    place = array.place(code, own)
    return code.place(code.own(array.pointer), code.own(place) if isinstance(place, Value) else place, array.kind)


def _turned(array: Array) -> Array:
    """Return the transposed matrices."""
    shape = (*array.shape[:-2], array.shape[-1], array.shape[-2])
    if isinstance(array, Memory):
        return array.view(shape, (*array.strides[:-2], array.strides[-1], array.strides[-2]))
    return Formula(shape, array.kind, lambda code, index: array.at(code, [*index[:-2], index[-1], index[-2]]))


def _spread(array: Array, batch: Sequence[int]) -> Array:
    """Return matrices, broadcast to a stack."""
    shape = (*batch, *array.shape[-2:])
    if array.shape == shape:
        return array
    return Formula(shape, array.kind, lambda code, index: array.at(code, aligned(index, array.shape)))


def _write_cholesky(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
    """Write the Cholesky factors of matrices."""
    [a], [out], code = operands, outs, writer.code
    n, negligible = out.shape[-1], NOTHING * float(np.finfo(np.float64 if out.kind == "double" else np.float32).eps)
    writer.copy(chosen(a, _lower), out)
    by_lapack = not writer.module.alone and routines() is not None
    if not by_lapack:
        _factor_by_loops(writer, out)
    with _over(code, out.shape[:-2]) as index:
        if by_lapack:
            code.refuse(~factorise(writer.module, code, out.kind, n, _part(code, out, index, 2)).equals(0))
        with code.loop(0, n) as i:
            pivot, whole = out.at(code, [*index, i, i]), code.cast(a.at(code, [*index, i, i]), out.kind)
            code.refuse(~(pivot * pivot > whole * negligible))


def _factor_by_loops(writer: Any, out: Memory) -> None:
    """Write loops that replace lower triangles by Cholesky factors."""
    code = Code(fused=writer.code.fused, outer=writer.code)

    def subtract(index: Sequence[Index], i: Index, j: Index) -> None:
        with code.loop(0, j) as k:
            x, y, z = [
                code.load(code.own(out.pointer), out.place(code, [*index, *at]), out.kind) for at in ((i, j), (i, k), (j, k))
            ]
            out.put(code, [*index, i, j], x - y * z)

    with _over(code, out.shape[:-1]) as [*index, i]:
        row = i
        with code.loop(0, row) as j:
            subtract(index, row, j)
            x, y = [code.load(code.own(out.pointer), out.place(code, [*index, at, j]), out.kind) for at in (row, j)]
            out.put(code, [*index, row, j], x / y)
        subtract(index, row, row)
        pivot = code.load(code.own(out.pointer), out.place(code, [*index, row, row]), out.kind)
        out.put(code, [*index, row, row], code.elementary("sqrt", pivot))
    writer.module.call(writer.code, code)


def _write_factors(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
    """Write the LU factors of matrices."""
    [a], [out, exchanges], code = operands, outs, writer.code
    writer.copy(_turned(a), out)  # LAPACK's columns are the rows of `out`
    with _over(code, out.shape[:-2]) as index:
        eliminate(writer.module, code, out.kind, out.shape[-1], _part(code, out, index, 2), _part(code, exchanges, index, 1))


def _write_solutions(writer: Any, operands: Sequence[Array], outs: Sequence[Memory], turned: bool) -> None:
    """Write the solutions of systems, given the LU factors."""
    [lu, exchanges, b], [out], code = operands, outs, writer.code
    *batch, n, columns = out.shape
    b = _spread(b, batch)
    refuse_zeros(code, lu)  # type: ignore[arg-type]
    found = (
        out.view((*batch, columns, n), (*out.strides[:-2], n, 1))
        if columns == 1
        else writer.buffer((*batch, columns, n), out.kind)
    )
    writer.copy(_turned(b), found)
    with _over(code, batch) as index:
        factors = _part(code, lu, index, 2), _part(code, exchanges, index, 1)
        solve(writer.module, code, out.kind, (n, columns), factors, _part(code, found, index, 2), turned=turned)
    if columns != 1:
        writer.copy(_turned(found), out)


def is_factorised(matrix: ArraySpec, columns: int, uses: int) -> bool:
    """Return `True` if native code solves a system by LU factors: the matrix is too large for unrolled code."""
    return KINDS.get(matrix.dtype) in REALS and not is_small(matrix.shape[-1], columns)


@row(LU_FACTOR)
def _factors(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return Own(_write_factors, stored=True, views=True)


@row(LU_SOLVE)
def _solutions(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return Own(partial(_write_solutions, turned=equation.params["turned"]), stored=True, views=True)


@row(NONZERO)
def _nonzero(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    def formula(code: Code, x: Value) -> Value:
        code.refuse(x.equals(0.0))
        return x

    kind = KINDS[given[0].dtype]
    return Pointwise((kind,), kind, formula)


def _is_real(results: Sequence[ArraySpec]) -> bool:
    return all(KINDS.get(spec.dtype) in REALS for spec in results)


@row(SOLVE)
def _solve(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if not _is_real(results) or not is_small(*results[0].shape[-2:]):
        return None
    return written_out(lambda small, arrays: [small.solved(arrays[0], arrays[1])], [2])


@row(INV, inverse, cofactors, CHOLESKY)
def _square(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    n, primitive = results[0].shape[-1], equation.primitive
    if not _is_real(results):
        return None
    if not is_small(n, 0 if primitive is CHOLESKY else n):
        return Own(_write_cholesky, stored=True, views=True) if primitive is CHOLESKY else None

    def compute(small: Small, arrays: Sequence[Rows]) -> Sequence[Rows]:
        [a] = arrays
        if primitive is CHOLESKY:
            return [small.factor(a)]
        found = small.inverted(a)
        if primitive is inverse and equation.params["limit"] != np.inf:
            small.unless(small.norm(a) * small.norm(found) < equation.params["limit"])
        if primitive is cofactors:
            det = small.determinant(a)
            small.unless(small.magnitude(det) > 0)  # it may underflow
            return [[[det * found[j][i] for j in range(n)] for i in range(n)]]
        return [found]

    return written_out(compute, [2])


@row(DET, SLOGDET)
def _determinant(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if not _is_real(results) or not is_small(given[0].shape[-1], 0):
        return None
    if equation.primitive is DET:
        return written_out(lambda small, arrays: [[[small.determinant(arrays[0])]]], [0])
    return written_out(lambda small, arrays: [[[x]] for x in small.logarithm(arrays[0])], [0, 0])
