"""Matrix products, linear systems, decompositions and Fourier transforms.

Products use the full precision of their dtype, unless the user sets `jax_default_matmul_precision`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.backends.routines import GRAM, TRIANGULAR_SOLVE
from functad.backends.xla import complex_numbers
from functad.backends.xla.engine import cast, jax, jnp, lax
from functad.backends.xla.table import Call, row
from functad.primitives.linalg import degenerate, determinants, eigen, singular_values
from functad.primitives.linalg import solve as solving
from functad.primitives.linalg.least_squares import least_squares
from functad.primitives.linalg.products import OUTER, SUM_OF_PRODUCTS
from functad.primitives.linalg.sparse_products import SPARSE_MATMUL, ConstantMatrix
from functad.primitives.signals.fourier import WEIGHED


def _precision() -> Any:
    return None if jax.config.jax_default_matmul_precision else "highest"


@row(np.matmul, np.dot)
def _matmul(call: Call, a: Any, b: Any) -> Any:
    if call.dtype.kind == "b":
        return NotImplemented
    return getattr(jnp, call.primitive.function.__name__)(*call.cast(a, b), precision=_precision())


@row(np.einsum)
def _einsum(call: Call, *operands: Any, subscripts: str, optimize: Any) -> Any:
    return jnp.einsum(subscripts, *call.cast(*operands), precision=_precision())


@row(OUTER)
def _outer(call: Call, a: Any, b: Any) -> Any:
    a, b = call.cast(a, b)
    return a[:, None] * b


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


@row(np.cross)
def _cross(call: Call, a: Any, b: Any) -> Any:
    return jnp.cross(*call.cast(a, b))


@row(np.convolve)
def _convolve(call: Call, a: Any, v: Any, *, mode: str) -> Any:
    a, v = call.cast(a, v)
    if call.dtype.kind != "f" or a.ndim > 1:
        return NotImplemented
    return jnp.convolve(a, v, mode=mode, precision=_precision())


# Linear algebra: NumPy computes empty matrices, and half precision, which LAPACK lacks


def _by_name(call: Call, *arrays: Any, **options: Any) -> Any:
    if any(0 in spec.shape for spec in call.given) or call.dtype == np.float16:
        return NotImplemented
    wide = np.result_type(*[spec.dtype for spec in call.given], call.dtype)
    return getattr(jnp.linalg, call.primitive.function.__name__)(*[cast(a, wide) for a in arrays], **options)


@row(np.linalg.inv)
def _of_a_matrix(call: Call, a: Any) -> Any:
    return _by_name(call, a)


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
    if 0 in call.given[0].shape or call.dtype == np.float16:
        return NotImplemented
    lu, places, _ = lax.linalg.lu(cast(a, np.result_type(call.given[0].dtype, call.dtype)))
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


@row(np.linalg.cholesky)
def _cholesky(call: Call, a: Any) -> Any:
    """Compute Cholesky factors. A matrix that is not positive definite gives NaN, where NumPy raises."""
    return _by_name(call, a, symmetrize_input=False)


@row(GRAM)
def _gram(call: Call, x: Any, w: Any) -> Any:
    return jnp.matmul(x.T * w, x, precision=_precision())


@row(TRIANGULAR_SOLVE)
def _triangular_solve(call: Call, a: Any, b: Any, *, lower: bool) -> Any:
    a, b = (jnp.broadcast_to(x, (*call.shape[:-2], *x.shape[-2:])) for x in call.cast(a, b))
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=lower)


@row(np.linalg.solve)
def _solve(call: Call, a: Any, b: Any) -> Any:
    """Solve systems. A singular matrix gives infinities or NaN, where NumPy raises."""
    return _by_name(call, a, b)


@row(np.linalg.pinv)
def _pinv(call: Call, a: Any, rcond: Any) -> Any:
    if any(0 in spec.shape for spec in call.given) or call.dtype == np.float16:
        return NotImplemented
    return jnp.linalg.pinv(cast(a, call.dtype), cast(rcond, np.finfo(call.dtype).dtype))


@row(np.linalg.qr)
def _qr(call: Call, a: Any) -> Any:
    return _by_name(call, a)


@row(np.linalg.eigh)
def _eigh(call: Call, a: Any, *, uplo: str) -> Any:
    return _by_name(call, a, UPLO=uplo, symmetrize_input=False)


@row(np.linalg.eigvalsh)
def _eigvalsh(call: Call, a: Any) -> Any:
    return _by_name(call, a, symmetrize_input=False)


@row(singular_values.SVD)
def _svd(call: Call, a: Any, *, full: bool) -> Any:
    """Compute the reduced decomposition: the NumPy function also omits the extra columns of a full decomposition."""
    return _by_name(call, a, full_matrices=False)


@row(singular_values.SVDVALS)
def _svdvals(call: Call, a: Any) -> Any:
    if 0 in call.given[0].shape:
        return NotImplemented
    return jnp.linalg.svd(cast(a, np.result_type(call.given[0].dtype, call.dtype)), compute_uv=False)


@row(solving.lower_half)
def _lower_half(call: Call, a: Any) -> Any:
    a = cast(a, call.dtype)
    return jnp.tril(a) * (1 - 0.5 * jnp.eye(a.shape[-1], dtype=call.dtype))


@row(solving.rank_of)
def _rank_of(call: Call, a: Any, p: Any) -> Any:
    common = np.result_type(*[spec.dtype for spec in call.given])
    trace = jnp.einsum("...ij,...ji->...", cast(a, common), cast(p, common), precision=_precision())
    return jnp.rint(trace.real)[..., None, None]


@row(determinants.inverse)
def _inverse(call: Call, a: Any, *, of: str, limit: float) -> Any:
    """Invert matrices. For a finite limit NumPy computes the inverse, and raises if the condition number exceeds the limit."""
    if limit != np.inf or 0 in call.shape:
        return NotImplemented
    return jnp.linalg.inv(cast(a, call.dtype))


# Ties of eigenvalues and singular values


def tied(w: Any) -> Any:
    """Return the mask of pairs of eigenvalues that are equal up to rounding."""
    n = w.shape[-1]
    size = jnp.max(abs(w), axis=-1, initial=0)[..., None, None]
    return abs(w[..., :, None] - w[..., None, :]) <= 16 * n * np.finfo(w.dtype).eps * size


@row(degenerate.tied)
def _tied(call: Call, w: Any) -> Any:
    return tied(cast(w, call.given[0].dtype))


@row(degenerate.zero)
def _zero(call: Call, s: Any) -> Any:
    s = cast(s, call.given[0].dtype)
    return s <= 16 * s.shape[-1] * np.finfo(s.dtype).eps * jnp.max(s, axis=-1, keepdims=True, initial=0)


@row(degenerate.frozen, degenerate.forwards, degenerate.straight, degenerate.FIXED)
def _as_it_is(call: Call, a: Any, *others: Any, **params: Any) -> Any:
    return cast(a, call.dtype)


@row(singular_values.weights)
def _weights(call: Call, s: Any, *, which: str) -> Any:
    zero = _zero(call, s)
    if which == "sum":
        return ~zero
    chosen = _tied(call, s)[..., 0 if which == "max" else -1, :] & ~zero
    return cast(chosen, call.dtype) / cast(jnp.maximum(chosen.sum(-1, keepdims=True), 1), call.dtype)


@row(np.linalg.eig)
def _eig(call: Call, a: Any) -> Any:
    """Compute `eig`. On other devices than the CPU, NumPy computes it on the host."""
    if 0 in call.shape or call.dtype.kind != "c" or jax.default_backend() != "cpu":
        return NotImplemented
    return jnp.linalg.eig(cast(a, np.result_type(call.given[0].dtype, np.float32)))


@row(eigen.largest)
def _largest(call: Call, v: Any) -> Any:
    v = cast(v, call.given[0].dtype)
    if not v.size:
        return abs(v)
    sizes = jnp.where(v.imag == 0, abs(v), -1.0) if v.dtype.kind == "c" else abs(v)
    return jnp.arange(v.shape[-2])[:, None] == jnp.argmax(sizes, axis=-2, keepdims=True)


@row(eigen.eigenvalue_cotangent)
def _eigenvalue_cotangent(call: Call, a: Any, weights: Any) -> Any:
    if 0 in call.shape:
        return NotImplemented
    a, weights = call.cast(a, weights)
    v = jnp.linalg.eigh(0.5 * (a + a.conj().mT), symmetrize_input=False)[1]
    return jnp.matmul(v.conj() * weights[..., None, :], v.mT, precision=_precision())


@row(singular_values.singular_cotangent)
def _singular_cotangent(call: Call, a: Any, weights: Any, *, linear: bool) -> Any:
    if 0 in call.shape:
        return NotImplemented
    a, weights = call.cast(a, weights)
    u, _, vh = jnp.linalg.svd(a, full_matrices=False)
    return jnp.matmul(u.conj() * weights[..., None, :], vh.conj(), precision=_precision())


@row(singular_values.singular_sum)
def _singular_sum(call: Call, a: Any, *, which: str) -> Any:
    if 0 in call.given[0].shape:
        return NotImplemented
    s = jnp.linalg.svd(cast(a, np.result_type(call.given[0].dtype, call.dtype)), compute_uv=False)
    return getattr(jnp, which)(s, axis=-1)


@row(determinants.cofactors)
def _cofactors(call: Call, a: Any) -> Any:
    """Compute cofactors by the inverse, or by singular values if any matrix is singular, as the NumPy function does."""
    if 0 in call.shape:
        return NotImplemented

    def by_inverse(a: Any) -> Any:
        return jnp.linalg.det(a)[..., None, None] * jnp.linalg.inv(a).mT

    def by_singular_values(a: Any) -> Any:
        u, s, vh = jnp.linalg.svd(a)
        one = jnp.ones_like(s[..., :1])
        before = lax.cumprod(jnp.concatenate((one, s[..., :-1]), -1), s.ndim - 1)
        behind = lax.cumprod(jnp.concatenate((s[..., 1:], one), -1), s.ndim - 1, reverse=True)
        both = jnp.matmul(u.conj() * (before * behind)[..., None, :], vh.conj(), precision=_precision())
        return jnp.linalg.det(jnp.matmul(u, vh, precision=_precision()))[..., None, None] * both

    a = cast(a, call.dtype)
    return lax.cond(jnp.all(jnp.linalg.det(a) != 0), by_inverse, by_singular_values, a)


@row(least_squares)
def _least_squares(call: Call, a: Any, b: Any, *, rcond: float) -> Any:
    if any(0 in spec.shape for spec in call.given):
        return NotImplemented
    a, b = call.cast(a, b)
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    kept = s > rcond * s[0]
    inverse = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0)[:, None]
    return jnp.matmul(vh.conj().T, inverse * jnp.matmul(u.conj().T, b, precision=_precision()), precision=_precision())


# Fourier transforms


@row(np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)
def _transform(call: Call, a: Any, *, n: int, axis: int, norm: str) -> Any:
    name = call.primitive.function.__name__
    if call.given[0].dtype == np.float16 or 0 in (*call.shape, *call.given[0].shape):
        return NotImplemented
    real = np.float32 if call.dtype in (np.complex64, np.float32) else np.float64
    a = cast(a, real if name == "rfft" else np.result_type(real, np.complex64))
    return getattr(jnp.fft, name)(a, n, axis, norm)


@row(WEIGHED)
def _weighed(call: Call, a: Any, *, factor: float, n: int, axis: int) -> Any:
    out = jnp.conj(cast(a, call.dtype))
    places = np.arange(out.shape[axis])
    factors = np.where((places >= 1) & (places < (n + 1) // 2), factor, 1).astype(np.finfo(call.dtype).dtype)
    return out * factors.reshape((-1, *(1,) * (out.ndim - axis - 1)))
