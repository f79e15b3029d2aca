"""Systems of equations: `solve` and those for matrices of a known form, and the equations of Sylvester and Lyapunov.

What has a solver of its own is solved by that, in both modes, and differentiated as the solution of a linear system.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import dtype_of, shape_of
from functad.implicit.linear_solve import custom_linear_solve
from functad.primitives.linalg.solve import adjoint, completed, conjugate
from functad.scipy.matrices.checks import finite, square

_STRUCTURES = {
    "general": "gen", "positive definite": "pos", "symmetric": "sym", "hermitian": "her", "banded": "gen", None: "gen",
}  # fmt: skip


def _read(a: Any, structure: str, lower: bool) -> Any:
    """Return the matrix that LAPACK takes for `a`, of which it reads the elements that a structure has."""
    if structure in ("her", "pos"):
        return completed(a if lower else adjoint(a))
    if structure == "sym":
        return np.tril(a) + np.tril(a, -1).mT if lower else np.triu(a) + np.triu(a, 1).mT
    bands = {"gen": None, "diagonal": (0, 0), "tridiagonal": (-1, 1), "upper triangular": (0, None), "lower triangular": (None, 0)}
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
    """The solution of `a x = b`, or with `transposed` of `a^T x = b`."""
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
    return np.linalg.solve(adjoint(left), np.linalg.solve(left, b))


@of_tensors("scipy.linalg")
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Any:
    """The inverse of square matrices."""
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
    """The solution of `a x = b`, where only one triangle of `a` is read."""
    a, b = square(a, check_finite), finite(b, check_finite)
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    a = (np.tril if lower else np.triu)(a, int(unit_diagonal) * (-1 if lower else 1))
    if unit_diagonal:
        a = a + np.eye(shape_of(a)[-1], dtype=dtype_of(a))
    return np.linalg.solve(a if trans == 0 else a.mT if trans == 1 else adjoint(a), b)


@of_tensors("scipy.linalg")
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution of `a x = b`, given what `cho_factor` makes of a."""
    c, lower = c_and_lower
    c, b = square(c, check_finite), finite(b, check_finite)
    return _by_cholesky(np.tril(c) if lower else adjoint(np.triu(c)), b)


# Bands


def _band(n: int, below: int, above: int) -> tuple[Any, Any, Any]:
    """Return where each element of a square matrix stands in its diagonal ordered form, and which are in the bands."""
    i, j = np.ogrid[:n, :n]
    return np.clip(above + i - j, 0, below + above), np.broadcast_to(j, (n, n)), (j - i <= above) & (i - j <= below)


def from_bands(ab: Any, below: int, above: int) -> Any:
    """Return the matrix with the given diagonals, which stand in the rows of `ab`."""
    rows, columns, inside = _band(shape_of(ab)[-1], below, above)
    return np.where(inside, ab[..., rows, columns], 0)


def hermitian_from_bands(ab: Any, lower: bool) -> Any:
    """Return the Hermitian matrix of which `ab` has the diagonals in one triangle."""
    count = shape_of(ab)[-2] - 1
    return completed(from_bands(ab, count, 0) if lower else adjoint(from_bands(ab, 0, count)))


def _product(ab: Any, x: Any, below: int, above: int) -> Any:
    """Return the product of the matrix with the diagonals `ab` and columns `x`."""
    n, total = shape_of(ab)[-1], 0
    for k in range(-min(below, n - 1), min(above, n - 1) + 1):
        width = n - abs(k)
        part = ab[above - k, max(k, 0) : max(k, 0) + width][:, None] * x[max(k, 0) : max(k, 0) + width]
        total = total + np.pad(part, ((max(-k, 0), max(k, 0)), (0, 0)))
    return total


def _turned(ab: Any, below: int, above: int) -> Any:
    """Return the diagonals of the transposed matrix."""
    n, out = ab.shape[-1], np.zeros_like(ab)
    for k in range(-min(below, n - 1), min(above, n - 1) + 1):
        width = n - abs(k)
        out[below + k, max(-k, 0) : max(-k, 0) + width] = ab[above - k, max(k, 0) : max(k, 0) + width]
    return out


def _columns(b: Any) -> Any:
    return b[:, None] if len(shape_of(b)) == 1 else b


@of_tensors("scipy.linalg")
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The solution of `a x = b`, where `ab` has the diagonals of a."""
    below, above = map(int, l_and_u)
    ab, b = finite(ab, check_finite), finite(b, check_finite)
    if below + above + 1 != shape_of(ab)[-2]:
        raise ValueError(f"invalid values for the number of lower and upper diagonals: {below} + {above} + 1 is not {len(ab)}")
    if len(shape_of(ab)) > 2 or len(shape_of(b)) > 2:
        return np.linalg.solve(from_bands(ab, below, above), b)
    if shape_of(ab)[-1] != shape_of(b)[0]:
        raise ValueError(f"shapes of ab {shape_of(ab)} and b {shape_of(b)} are not compatible.")
    x = custom_linear_solve(
        lambda x, ab: _product(ab, x, below, above),
        _columns(b),
        lambda _, b, ab: scipy.linalg.solve_banded((below, above), ab, b),
        lambda _, b, ab: scipy.linalg.solve_banded((above, below), _turned(ab, below, above), b),
        params=(ab,),
    )
    return x.reshape(shape_of(b))


@of_tensors("scipy.linalg")
def solveh_banded(
    ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False, check_finite: bool = True
) -> Any:
    """The solution of `a x = b`, where `ab` has the diagonals of a positive definite matrix in one triangle."""
    ab, b = finite(ab, check_finite), finite(b, check_finite)
    if len(shape_of(ab)) > 2 or len(shape_of(b)) > 2:
        return np.linalg.solve(hermitian_from_bands(ab, lower), b)
    count = shape_of(ab)[0] - 1

    def product(x: Any, ab: Any) -> Any:
        if not lower:  # the diagonals below are the conjugates of those above
            turned = np.stack([np.concatenate((conjugate(ab[count - k])[k:], np.zeros(k))) for k in range(count + 1)])
        else:
            turned = ab
        main = _product(turned[:1].real, x, 0, 0)
        rows = [np.concatenate((np.zeros(k), conjugate(turned[k])[: shape_of(ab)[1] - k])) for k in range(count, 0, -1)]
        if not rows:
            return main
        below = np.concatenate((np.zeros((1, shape_of(ab)[1])), turned[1:]))
        above = np.concatenate((np.stack(rows), np.zeros((1, shape_of(ab)[1]))))
        return main + _product(below, x, count, 0) + _product(above, x, 0, count)

    def solved(_: Any, b: Any, ab: Any) -> Any:
        return scipy.linalg.solveh_banded(ab, b, lower=lower)

    x = custom_linear_solve(product, _columns(b), solved, symmetric=True, params=(ab,))
    return x.reshape(shape_of(b))


# Equations for matrices


@of_tensors("scipy.linalg")
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The solution of `a x + x b = q`; also for stacks of such equations."""
    if max(map(len, map(shape_of, (a, b, q)))) > 2:
        return _sylvester_stack(a, b, q)
    return custom_linear_solve(
        lambda x, a, b: a @ x + x @ b,
        q,
        lambda _, q, a, b: scipy.linalg.solve_sylvester(a, b, q),
        lambda _, q, a, b: scipy.linalg.solve_sylvester(a.T, b.T, q),
        params=(a, b),
    )


def _sylvester_stack(a: Any, b: Any, q: Any) -> Any:
    """Return the solutions for stacks of matrices, by systems for all elements of each."""
    m, n = shape_of(q)[-2:]
    left = a[..., :, None, :, None] * np.eye(n)[:, None, :] + np.eye(m)[:, None, :, None] * b.mT[..., None, :, None, :]
    system = left.reshape((*shape_of(left)[:-4], m * n, m * n))
    return np.linalg.solve(system, q.reshape((*shape_of(q)[:-2], m * n, 1))).reshape(shape_of(q))


@of_tensors("scipy.linalg", "solve_continuous_lyapunov", "solve_lyapunov")
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The solution of `a x + x a^H = q`."""
    a, q = square(a), square(q)
    if shape_of(a) != shape_of(q):
        raise ValueError("Matrix a and q should have the same shape.")
    return solve_sylvester(a, adjoint(a), q)


# Toeplitz matrices and their kin


@of_tensors("scipy.linalg")
def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with the first column `c` and the first row `r`, whose diagonals are constant."""
    c = np.atleast_1d(c)
    r = conjugate(c) if r is None else np.atleast_1d(r)
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    batch = np.broadcast_shapes(shape_of(c)[:-1], shape_of(r)[:-1])
    c, r = np.broadcast_to(c, (*batch, m)), np.broadcast_to(r, (*batch, n))
    return np.concatenate((c[..., ::-1], r[..., 1:]), -1)[..., np.arange(n) + np.arange(m - 1, -1, -1)[:, None]]


@of_tensors("scipy.linalg")
def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with the first column `c` and the last row `r`, whose antidiagonals are constant."""
    c = finite(c, False).ravel()
    r = np.zeros(shape_of(c), dtype_of(c)) if r is None else finite(r, False).ravel()
    return np.concatenate((c, r[1:]))[np.arange(len(r)) + np.arange(len(c))[:, None]]


@of_tensors("scipy.linalg")
def circulant(c: Any) -> Any:
    """The matrix with the first column `c`, each of whose columns is the one before, turned by one."""
    c = np.atleast_1d(c)
    places = np.arange(shape_of(c)[-1])
    return c[..., places[:, None] - places]


@of_tensors("scipy.linalg")
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """The solution of `t x = b` for the Toeplitz matrix with the column c and the row r."""
    c, r = c_or_cr if type(c_or_cr) is tuple else (c_or_cr, conjugate(finite(c_or_cr, False)))
    c, r, b = finite(c, check_finite).ravel(), finite(r, check_finite).ravel(), finite(b, check_finite)
    if shape_of(c) != shape_of(r) or shape_of(b)[0] != shape_of(c)[0]:
        raise ValueError(f"solve_toeplitz of a column {shape_of(c)}, a row {shape_of(r)} and b {shape_of(b)}")
    return custom_linear_solve(
        lambda x, c, r: toeplitz(c, r) @ x,
        b,
        lambda _, b, c, r: scipy.linalg.solve_toeplitz((c, r), b),
        lambda _, b, c, r: scipy.linalg.solve_toeplitz((np.concatenate((c[:1], r[1:])), c), b),
        params=(c, r),
    )
