"""Matrix products, linear systems, decompositions and Fourier transforms.

Products use the full precision of their dtype, unless the user sets `jax_default_matmul_precision`. NumPy computes empty
matrices, and half precision, which LAPACK lacks. Errors of NumPy become NaN or infinities.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from functad.backends.factors import LU_FACTOR, LU_SOLVE
from functad.backends.routines import GRAM
from functad.backends.xla import complex_numbers
from functad.backends.xla.engine import cast, jax, jnp, lax
from functad.backends.xla.replay import Call, Row, converted, row
from functad.primitives.linalg.products import SUM_OF_PRODUCTS
from functad.primitives.linalg.solve import TRIANGULAR_SOLVE
from functad.primitives.linalg.sparse_products import SPARSE_MATMUL, ConstantMatrix


def _precision() -> Any:
    return None if jax.config.jax_default_matmul_precision else "highest"


@row(np.matmul, np.dot)
def _matmul(call: Call, a: Any, b: Any) -> Any:
    return getattr(jnp, call.name)(*call.cast(a, b), precision=_precision()) if call.dtype.kind != "b" else NotImplemented


@row(np.einsum)
def _einsum(call: Call, *operands: Any, subscripts: str, optimize: Any) -> Any:
    return jnp.einsum(subscripts, *call.cast(*operands), precision=_precision())


@row(SUM_OF_PRODUCTS)
def _sum_of_products(call: Call, a: Any, b: Any) -> Any:
    return jnp.einsum("...i,...i->...", *call.cast(a, b), precision=_precision())


@row(SPARSE_MATMUL)
def _sparse_matmul(call: Call, x: Any, *, matrix: ConstantMatrix) -> Any:
    """Multiply each entry of the matrix by its row of `x`, and add the products by rows."""
    rows, columns = matrix.places
    x = cast(x, call.dtype)
    entries = matrix.matrix[rows, columns] if type(matrix.matrix) is np.ndarray else matrix.matrix.tocoo().data
    entries = np.asarray(entries, call.dtype).reshape(-1, *(1,) * (x.ndim - 1))
    at = jnp.zeros(call.shape, call.dtype).at[rows]
    return (at.max if call.dtype == np.bool_ else at.add)(entries * x[columns], mode="promise_in_bounds")


@row(np.convolve)
def _convolve(call: Call, a: Any, v: Any, *, mode: str) -> Any:
    a, v = call.cast(a, v)
    if call.dtype.kind != "f" or a.ndim > 1:
        return NotImplemented
    return jnp.convolve(a, v, mode=mode, precision=_precision())


# Linear algebra


def _is_numpys(call: Call) -> bool:
    """Return `True` if NumPy computes an equation: empty matrices, and half precision."""
    return call.is_empty or call.dtype == np.float16


def _wide(call: Call) -> list[Any]:
    """Return the dtype of LAPACK's routine for each operand."""
    return [np.result_type(*[spec.dtype for spec in call.given], call.dtype)] * len(call.given)


def _by_name(**options: Any) -> Row:
    """Return the row of functions of `jax.numpy.linalg`."""

    def row_by_name(call: Call, *arrays: Any, **params: Any) -> Any:
        if _is_numpys(call):
            return NotImplemented
        params = {{"uplo": "UPLO"}.get(key, key): value for key, value in params.items() if key != "full"}
        return getattr(jnp.linalg, call.name)(*converted(_wide, call, arrays), **params, **options)

    return row_by_name


row(np.linalg.inv, np.linalg.solve, np.linalg.qr, np.linalg.svdvals)(_by_name())
row(np.linalg.cholesky, np.linalg.eigh, np.linalg.eigvalsh)(_by_name(symmetrize_input=False))
row(np.linalg.svd)(_by_name(full_matrices=False))  # NumPy's function of the entry omits the extra columns too


@row(np.linalg.det)
def _det(call: Call, a: Any) -> Any:
    """Compute `det` by sign and logarithm, as NumPy does. JAX expands up to three rows, and infinities become NaN."""
    found = _slogdet(call, a)
    if found is NotImplemented:
        return found
    sign, size = found[0], jnp.exp(found[1])
    return sign * size if sign.dtype.kind == "f" else lax.complex(sign.real * size, sign.imag * size)


@row(np.linalg.slogdet)
def _slogdet(call: Call, a: Any) -> Any:
    """Compute `slogdet` by the pivots, as NumPy does: a NaN counts as a positive pivot. JAX gives NaN as the sign."""
    if _is_numpys(call):
        return NotImplemented
    lu, places, _ = lax.linalg.lu(*converted(_wide, call, (a,)))
    pivots = jnp.diagonal(lu, axis1=-2, axis2=-1)
    swaps = jnp.sum(places != np.arange(pivots.shape[-1]), axis=-1)
    is_singular = jnp.any(pivots == 0, axis=-1)
    if pivots.dtype.kind == "c":
        size = complex_numbers.FUNCTIONS["absolute"](pivots)
        units = lax.complex(pivots.real / size, pivots.imag / size)
        sign = jnp.prod(units, axis=-1) * jnp.where(swaps % 2 == 1, -1, 1).astype(units.dtype)
    else:
        size = abs(pivots)
        sign = jnp.where((swaps + jnp.sum(pivots < 0, axis=-1)) % 2 == 1, -1.0, 1.0).astype(pivots.dtype)
    logarithm = jnp.sum(jnp.log(size), axis=-1)
    return jnp.where(is_singular, 0, sign), jnp.where(is_singular, -np.inf, logarithm)


@row(GRAM)
def _gram(call: Call, x: Any, w: Any) -> Any:
    return jnp.matmul(x.T * w, x, precision=_precision())


@row(TRIANGULAR_SOLVE)
def _triangular_solve(call: Call, a: Any, b: Any, *, lower: bool) -> Any:
    if _is_numpys(call):
        return NotImplemented
    a, b = (jnp.broadcast_to(x, (*call.shape[:-2], *x.shape[-2:])) for x in call.cast(a, b))
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=lower)


@row(LU_FACTOR)
def _lu_factor(call: Call, a: Any, *, integer: Any) -> Any:
    lu, exchanges, _ = lax.linalg.lu(cast(a, call.dtype))
    return lu.mT, exchanges + 1


@row(LU_SOLVE)
def _lu_solve(call: Call, lu: Any, exchanges: Any, b: Any, *, turned: bool) -> Any:
    """Solve by two substitutions. `lu` is transposed."""
    lu, b = (jnp.broadcast_to(x, (*call.shape[:-2], *x.shape[-2:])) for x in (lu, cast(b, call.dtype)))
    order = lax.linalg.lu_pivots_to_permutation(exchanges - 1, lu.shape[-1])
    order = jnp.broadcast_to(order, lu.shape[:-1])[..., None]
    substitute = functools.partial(lax.linalg.triangular_solve, left_side=True)
    if turned:
        x = substitute(lu, b, lower=True)
        return jnp.take_along_axis(substitute(lu, x, unit_diagonal=True), jnp.argsort(order, -2), -2)
    x = substitute(lu, jnp.take_along_axis(b, order, -2), transpose_a=True, unit_diagonal=True)
    return substitute(lu, x, lower=True, transpose_a=True)


@row(np.linalg.pinv)
def _pinv(call: Call, a: Any, rcond: Any) -> Any:
    return NotImplemented if _is_numpys(call) else jnp.linalg.pinv(cast(a, call.dtype), cast(rcond, np.finfo(call.dtype).dtype))


@row(np.linalg.eig)
def _eig(call: Call, a: Any) -> Any:
    """Compute `eig`. On other devices than the CPU, NumPy computes it on the host."""
    if call.is_empty or call.dtype.kind != "c" or jax.default_backend() != "cpu":
        return NotImplemented
    return jnp.linalg.eig(cast(a, np.result_type(call.given[0].dtype, np.float32)))


# Fourier transforms


@row(np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)
def _transform(call: Call, a: Any, *, n: int, axis: int, norm: str) -> Any:
    if call.given[0].dtype == np.float16 or call.is_empty:
        return NotImplemented
    real = np.float32 if call.dtype in (np.complex64, np.float32) else np.float64
    a = cast(a, real if call.name == "rfft" else np.result_type(real, np.complex64))
    return getattr(jnp.fft, call.name)(a, n, axis, norm)
