"""`scipy.linalg`: LAPACK's functions, by the rules of `numpy.linalg` where they exist, and by their own rules otherwise.

All functions accept SciPy's arguments. The arguments `overwrite_*` and the choice of a driver have no effect on Tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors, outside_traces, plain_value, refuse
from functad.expressions.spec import dtype_of, shape_of
from functad.scipy.matrices import decompositions, eigenvalues, equations, functions, riccati  # noqa: F401 - registers rules
from functad.scipy.matrices.checks import finite, square


@of_tensors("scipy.linalg")
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinants of square matrices, in double precision."""
    a = square(a, check_finite)
    return np.linalg.det(a.astype(np.result_type(dtype_of(a), np.float64)))


@of_tensors("scipy.linalg")
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Return the norm of a vector or a matrix."""
    a = finite(a, check_finite)
    if axis is None and ord is None:
        a, whole = a.ravel(), (1,) * len(shape_of(a))
        return np.linalg.norm(a).reshape(whole) if keepdims else np.linalg.norm(a)
    return np.linalg.norm(a, ord, axis, keepdims)


@of_tensors("scipy.linalg")
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> Any:
    """Return the least-squares solution of `a x = b`, the sums of squared residuals, and rank and singular values of `a`."""
    if lapack_driver not in (None, "gelsd", "gelsy", "gelss"):
        raise ValueError(f'LAPACK driver "{lapack_driver}" is not found')
    a, b = finite(a, check_finite), finite(b, check_finite)
    eps = np.finfo(np.result_type(dtype_of(a), dtype_of(b), np.float32)).eps
    x, residuals, rank, s = np.linalg.lstsq(a, b, float(eps) if cond is None else cond)
    if lapack_driver == "gelsy":
        return x, np.zeros(0), rank, None
    return x, residuals if len(shape_of(b)) == 2 else residuals.reshape(()) if len(residuals) else residuals, rank, s


@of_tensors("scipy.linalg")
def clarkson_woodruff_transform(input_matrix: Any, sketch_size: int, rng: Any = None, *, seed: Any = None) -> Any:
    """Return the product with a random sparse matrix, which shortens the columns."""
    rows = shape_of(input_matrix)[-2]
    plain = np.eye(rows)
    rng = rng if seed is None else seed
    return outside_traces(scipy.linalg.clarkson_woodruff_transform, plain, sketch_size, rng) @ input_matrix


def _enter_test(name: str) -> None:
    original = getattr(scipy.linalg, name)

    def test(a: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a property of the form of a matrix, computed on plain values."""
        return outside_traces(original, plain_value(a), *args, **kwargs)

    of_tensors("scipy.linalg", name)(test)


for _name in ("bandwidth", "issymmetric", "ishermitian"):
    _enter_test(_name)

_BLOCKS = "a change of the matrix may change the form of its blocks; use eig, or eigh of a Hermitian matrix"
_UPDATES = "what it updates has no derivative rule; use qr of the whole matrix"

REFUSED: dict[str, str] = {
    "qz": _BLOCKS,
    "ordqz": _BLOCKS,
    "rsf2csf": _BLOCKS,
    "ldl": "a change of the matrix may change which blocks it takes together; use cholesky, lu or eigh",
    "hessenberg": "its vectors have no derivative rule; use eig, or a function of the matrix itself",
    "cossin": "its vectors have no derivative rule; use svd of the blocks",
    "qr_delete": _UPDATES,
    "qr_insert": _UPDATES,
    "qr_update": _UPDATES,
    "matrix_balance": "it scales by powers of 2, which it finds by trying; pass it plain values, and scale by the result",
    "schur(complex)": "Its vectors are determined but for phases, and its blocks change their form: use eig, or eigh if it is "
    "Hermitian",
    "eig(left=True)": "Use the rows of inv(v), which are the left vectors apart from their lengths",
    "eig(b)": "Use eig(solve(b, a)), or eigh for Hermitian matrices",
}
"""Functions of `scipy.linalg` that reject Tensors, and the reasons."""

refuse("scipy.linalg", {name: reason for name, reason in REFUSED.items() if name.isidentifier()})
