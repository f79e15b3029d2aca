"""Linear systems: `solve` and solvers for structured matrices, and Sylvester and Lyapunov equations.

LAPACK's specialised solvers solve banded systems and Sylvester equations. Their derivatives in both modes are solutions of
equations of the same kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.kinds import general
from functad.primitives.linalg.solve import (
    adjoint,
    completed,
    conjugate,
    inexact,
    internal,
    regular,
    same_inexact,
    solve_by_substitution,
)
from functad.scipy.matrices.checks import finite, square

_STRUCTURES = {
    "general": "gen", "positive definite": "pos", "symmetric": "sym", "hermitian": "her", "banded": "gen", None: "gen",
}  # fmt: skip

_INVERTED = (None, "general", "gen", "diagonal", "upper triangular", "lower triangular", "pos", "sym", "her")
"""The structures that SciPy's `inv` takes."""


def _read(a: Any, structure: str, lower: bool) -> Any:
    """Return the matrix that LAPACK solves for `a`; a structure selects the elements that LAPACK reads."""
    if structure in ("her", "pos"):
        return completed(a if lower else adjoint(a))
    if structure == "sym":
        return np.tril(a) + np.tril(a, -1).mT if lower else np.triu(a) + np.triu(a, 1).mT
    bands = {
        "gen": None,
        "diagonal": (0, 0),
        "tridiagonal": (-1, 1),
        "upper triangular": (0, None),
        "lower triangular": (None, 0),
    }
    if structure not in bands:
        raise ValueError(f"{structure} is not a recognized matrix structure")
    low, high = bands[structure] or (None, None)
    a = a if low is None else np.triu(a, low)
    return a if high is None else np.tril(a, high)


@of_tensors("scipy.linalg")
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """Return the solution of `a x = b`, or with `transposed` of `a^T x = b`."""
    a, b = square(a, check_finite), finite(b, check_finite)
    structure = _STRUCTURES.get(assume_a, assume_a) or "gen"
    if transposed and dtype_of(a).kind == "c":
        raise NotImplementedError("scipy.linalg.solve can currently not solve a^T x = b or a^H x = b for complex matrices.")
    a = _read(a, structure, lower)
    if structure == "pos":
        return _by_cholesky(np.linalg.cholesky(a), b)
    return np.linalg.solve(a.mT if transposed else a, b)


def _by_cholesky(left: Any, b: Any) -> Any:
    """Return the solution of `l l^H x = b`."""
    return solve_by_substitution(adjoint(left), solve_by_substitution(left, b, lower=True), lower=False)


@of_tensors("scipy.linalg")
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Any:
    """Return the inverse of square matrices."""
    if assume_a not in _INVERTED:
        raise ValueError(f"{assume_a} is not a structure that inv takes: choose one of {', '.join(map(str, _INVERTED))}")
    structure = _STRUCTURES.get(assume_a, assume_a) or "gen"
    return np.linalg.inv(_read(square(a, check_finite), structure, lower))


@of_tensors("scipy.linalg")
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the solution of `a x = b`, reading one triangle of `a` only."""
    a, b = square(a, check_finite), finite(b, check_finite)
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if unit_diagonal:
        a = (np.tril if lower else np.triu)(a, -1 if lower else 1) + np.eye(shape_of(a)[-1], dtype=dtype_of(a))
    lower = bool(lower) == (trans == 0)
    return solve_by_substitution(a if trans == 0 else a.mT if trans == 1 else adjoint(a), b, lower=lower)


@of_tensors("scipy.linalg")
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return the solution of `a x = b`, given the result of `cho_factor` for `a`."""
    c, lower = c_and_lower
    c, b = square(c, check_finite), finite(b, check_finite)
    return _by_cholesky(np.tril(c) if lower else adjoint(np.triu(c)), b)


# Bands


def _band(n: int, below: int, above: int) -> tuple[Any, Any, Any]:
    """Return row and column in diagonal ordered form for each element of a square matrix, and a mask of the bands."""
    i, j = np.ogrid[:n, :n]
    return np.clip(above + i - j, 0, below + above), np.broadcast_to(j, (n, n)), (j - i <= above) & (i - j <= below)


def from_bands(ab: Any, below: int, above: int) -> Any:
    """Return the matrix whose diagonals are the rows of `ab`."""
    rows, columns, inside = _band(shape_of(ab)[-1], below, above)
    return np.where(inside, ab[..., rows, columns], 0)


def hermitian_from_bands(ab: Any, lower: bool) -> Any:
    """Return the Hermitian matrix with the diagonals `ab` of one triangle."""
    count = shape_of(ab)[-2] - 1
    return completed(from_bands(ab, count, 0) if lower else adjoint(from_bands(ab, 0, count)))


def _turned(ab: Any, below: int, above: int) -> Any:
    """Return the diagonals of the transposed matrix."""
    n = shape_of(ab)[-1]
    row, column = np.ogrid[: below + above + 1, :n]
    place = column + row - below  # the row in the transposed matrix
    inside = (place >= 0) & (place < n)
    return np.where(inside, ab[..., below + above - row, np.clip(place, 0, n - 1)], 0)


def _by_bands(g: Any, out: Any, below: int, above: int) -> Any:
    """Return the elements of `g out^T` inside the bands, as diagonals."""
    n = shape_of(out)[-2]
    row, column = np.ogrid[: below + above + 1, :n]
    place = column + row - above
    inside = (place >= 0) & (place < n)
    return np.where(inside, (g[..., np.clip(place, 0, n - 1), :] * out[..., None, :, :]).sum(-1), 0)


def _banded_product(ab: Any, x: Any, below: int, above: int) -> Any:
    """Return the product of the matrix with diagonals `ab` and columns `x`, without forming the matrix."""
    n, total = shape_of(x)[-2], 0.0 * x
    for k in range(-min(below, n - 1), min(above, n - 1) + 1):
        part = slice(max(k, 0), max(k, 0) + n - abs(k))
        product = ab[..., above - k, part][..., None] * x[..., part, :]
        total = total + np.pad(product, (*((0, 0),) * (len(shape_of(x)) - 2), (max(-k, 0), max(k, 0)), (0, 0)))
    return total


def _banded_vjp(g: Any, ab: Any, out: Any, below: int, above: int, definite: bool) -> tuple[Any, Any]:
    """`a^-T g` for the right-hand side, by the solver for the transposed bands, and the bands of `-a^-T g out^T`."""
    right = banded(_turned(ab, below, above), g, below=above, above=below, definite=definite)
    return -_by_bands(right, out, below, above), right


def _banded_by_bands(t: Any, ab: Any, out: Any, below: int, above: int, definite: bool) -> Any:
    """`-a^-1 t x`, with t inside the bands."""
    return -_banded_by_columns(_banded_product(t, out, below, above), ab, below, above, definite)


def _banded_by_columns(t: Any, ab: Any, below: int, above: int, definite: bool) -> Any:
    """`a^-1 t`."""
    return banded(ab, t, below=below, above=above, definite=definite)


def _banded_samples(array: Any) -> Any:
    ab = array(3, 4) + np.array([[0], [6], [0]], array().dtype)
    return [((ab, array(4, 2)), {"below": 1, "above": 1, "definite": False})]


@internal(
    general,
    _banded_vjp,
    jvps=(_banded_by_bands, _banded_by_columns),
    joint=True,
    spec=lambda ab, b, **params: same_inexact(b, ab),
    samples=_banded_samples,
    doc="d(a^-1 b) = a^-1 (db - da a^-1 b), where da is in the bands",
    linear_by=lambda params: (1,),
)
def banded(ab: Any, b: Any, *, below: int, above: int, definite: bool) -> Any:
    """Return the solution for matrices given by all their diagonals; `b` has columns."""
    found = [_solved_bands(ab[place], b[place], below, above, definite) for place in np.ndindex(b.shape[:-2])]
    return np.array(found).reshape(b.shape)


def _solved_bands(ab: Any, b: Any, below: int, above: int, definite: bool) -> Any:
    if definite:
        return scipy.linalg.solveh_banded(ab[: above + 1], b)
    return scipy.linalg.solve_banded((below, above), ab, b)


def _solve_bands(ab: Any, b: Any, below: int, above: int, definite: bool) -> Any:
    if shape_of(ab)[-1] != shape_of(b)[0 if len(shape_of(b)) == 1 else -2]:
        raise ValueError(f"shapes of ab {shape_of(ab)} and b {shape_of(b)} are not compatible.")
    columns = b[:, None] if len(shape_of(b)) == 1 else b
    batch = np.broadcast_shapes(shape_of(ab)[:-2], shape_of(columns)[:-2])
    ab = np.broadcast_to(ab, (*batch, *shape_of(ab)[-2:]))
    x = banded(ab, np.broadcast_to(columns, (*batch, *shape_of(columns)[-2:])), below=below, above=above, definite=definite)
    return x[..., 0] if len(shape_of(b)) == 1 else x


@of_tensors("scipy.linalg")
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Return the solution of `a x = b`, where `ab` has the diagonals of `a`."""
    below, above = map(int, l_and_u)
    ab, b = finite(ab, check_finite), finite(b, check_finite)
    if below + above + 1 != shape_of(ab)[-2]:
        raise ValueError(f"invalid values for the number of lower and upper diagonals: {below} + {above} + 1 is not {len(ab)}")
    return _solve_bands(ab, b, below, above, False)


@of_tensors("scipy.linalg")
def solveh_banded(
    ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True
) -> Any:
    """Return the solution of `a x = b`, where `ab` has the diagonals of one triangle of a positive definite matrix."""
    ab, b = finite(ab, check_finite), finite(b, check_finite)
    count = shape_of(ab)[-2] - 1
    half = ab if lower else conjugate(_turned(np.concatenate((ab, 0 * ab[..., 1:, :]), -2), count, count))[..., count:, :]
    full = np.concatenate((0 * half[..., 1:, :], half[..., :1, :].real, half[..., 1:, :]), -2)
    other = np.concatenate((0 * half[..., 1:, :], 0 * half[..., :1, :], half[..., 1:, :]), -2)
    return _solve_bands(full + conjugate(_turned(other, count, count)), b, count, count, True)


# Matrix equations


def _sylvester_vjp(g: Any, a: Any, b: Any, out: Any) -> tuple[Any, Any, Any]:
    """`-y x^T`, `-x^T y` and y, the solution of `a^T y + y b^T = g`."""
    y = sylvester(a.mT, b.mT, g)
    return -(y @ out.mT), -(out.mT @ y), y


def _sylvester_jvp(t: Any, a: Any, b: Any) -> Any:
    return sylvester(a, b, t)


@internal(
    general,
    _sylvester_vjp,
    jvps=(
        lambda t, a, b, out: -_sylvester_jvp(t @ out, a, b),
        lambda t, a, b, out: -_sylvester_jvp(out @ t, a, b),
        lambda t, a, b: _sylvester_jvp(t, a, b),
    ),
    joint=True,
    spec=lambda a, b, q: same_inexact(q, a, b),
    samples=lambda array: [((regular(array, 3, 3), regular(array, 2, 2), array(3, 2)), {})],
    doc="a dx + dx b = dq - da x - x db",
    linear_by=lambda params: (2,),
)
def sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution of `a x + x b = q`, for stacks of matrices."""
    batch, dtype = q.shape[:-2], np.result_type(inexact(a.dtype), b.dtype, q.dtype)
    a, b, q = (x.astype(dtype, copy=False) for x in (a, b, q))  # SciPy is wrong if only q is complex
    a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    found = [scipy.linalg.solve_sylvester(a[place], b[place], q[place]) for place in np.ndindex(batch)]
    return np.array(found).reshape(q.shape)


@of_tensors("scipy.linalg")
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution of `a x + x b = q`."""
    a, b, q = finite(a, False), finite(b, False), finite(q, False)
    batch = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2], shape_of(q)[:-2])
    return sylvester(*[np.broadcast_to(x, (*batch, *shape_of(x)[-2:])) for x in (a, b, q)])


@of_tensors("scipy.linalg", "solve_continuous_lyapunov", "solve_lyapunov")
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Return the solution of `a x + x a^H = q`."""
    a, q = square(a), square(q)
    if shape_of(a) != shape_of(q):
        raise ValueError("Matrix a and q should have the same shape.")
    return solve_sylvester(a, adjoint(a), q)


# Toeplitz and related matrices


@of_tensors("scipy.linalg")
def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the matrix with constant diagonals, first column `c` and first row `r`."""
    c = np.atleast_1d(finite(c, False))
    r = conjugate(c) if r is None else np.atleast_1d(finite(r, False))
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    batch = np.broadcast_shapes(shape_of(c)[:-1], shape_of(r)[:-1])
    c, r = np.broadcast_to(c, (*batch, m)), np.broadcast_to(r, (*batch, n))
    return np.concatenate((c[..., ::-1], r[..., 1:]), -1)[..., np.arange(n) + np.arange(m - 1, -1, -1)[:, None]]


@of_tensors("scipy.linalg")
def hankel(c: Any, r: Any = None) -> Any:
    """Return the matrix with constant antidiagonals, first column `c` and last row `r`."""
    c = finite(c, False).ravel()
    r = np.zeros(shape_of(c), dtype_of(c)) if r is None else finite(r, False).ravel()
    return np.concatenate((c, r[1:]))[np.arange(len(r)) + np.arange(len(c))[:, None]]


@of_tensors("scipy.linalg")
def circulant(c: Any) -> Any:
    """Return the matrix with first column `c`, each further column being the previous one rotated by one."""
    c = np.atleast_1d(c)
    places = np.arange(shape_of(c)[-1])
    return c[..., places[:, None] - places]


@of_tensors("scipy.linalg")
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """Return the solution of `t x = b` for the Toeplitz matrix with the column c and the row r."""
    c, r = c_or_cr if type(c_or_cr) is tuple else (c_or_cr, conjugate(finite(c_or_cr, False)))
    c, r, b = finite(c, check_finite).ravel(), finite(r, check_finite).ravel(), finite(b, check_finite)
    if shape_of(c) != shape_of(r) or shape_of(b)[0] != shape_of(c)[0]:
        raise ValueError(f"solve_toeplitz of a column {shape_of(c)}, a row {shape_of(r)} and b {shape_of(b)}")
    return np.linalg.solve(toeplitz(c, r), b)


@of_tensors("scipy.linalg")
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None) -> Any:
    """Return the product of the Toeplitz matrix with column c and row r, and a vector or columns."""
    c, r = c_or_cr if type(c_or_cr) is tuple else (c_or_cr, None)
    matrix, x = toeplitz(finite(c, check_finite).ravel(), None if r is None else finite(r, check_finite).ravel()), finite(x)
    if shape_of(matrix)[1] != shape_of(x)[0]:
        raise ValueError(f"Incompatible dimensions: {shape_of(matrix)} and {shape_of(x)}")
    return matrix @ x


@of_tensors("scipy.linalg")
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Return the matrix whose product with a vector of length `n` is `np.convolve(a, v, mode)`."""
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    a = finite(a, False)
    length = shape_of(a)[-1]
    places = np.arange(length + n - 1)[:, None] - np.arange(n)
    whole = np.where((places >= 0) & (places < length), a[..., np.clip(places, 0, length - 1)], 0)
    trim = min(n, length) - 1
    before = {"full": 0, "same": trim // 2, "valid": trim}[mode]
    after = {"full": 0, "same": trim - trim // 2, "valid": trim}[mode]
    return whole[..., before : length + n - 1 - after, :]
