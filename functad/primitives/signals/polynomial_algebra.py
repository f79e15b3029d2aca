"""The algebra of polynomials: sums, products, quotients, roots, and least-squares fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.spec import dtype_of, shape_of, spec_of
from functad.places import here, warn
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.reshape import Calls, atleast
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Primitive
from functad.primitives.kinds import composite, general
from functad.primitives.operands import as_operand, concrete, innermost, is_traced
from functad.primitives.signals.differences import array_of
from functad.primitives.signals.polynomials import polyval, vander

# Sums, products, quotients


def _coefficients(a: Any, name: str) -> Any:
    """Return coefficients as an array with one axis."""
    if isinstance(a, np.poly1d):
        raise TypeError(f"np.{name}: coefficients under a trace cannot be combined with a poly1d; pass its coefficients")
    return atleast(array_of(a), 1)


def _aligned(a1: Any, a2: Any, name: str) -> tuple[Any, Any]:
    """Return two polynomials with the same number of coefficients; the shorter one starts with zeros."""
    a1, a2 = _coefficients(a1, name), _coefficients(a2, name)
    missing = len(a2) - len(a1)
    if missing > 0:
        a1 = concatenate((np.zeros(missing, dtype_of(a1)), a1))
    elif missing < 0:
        a2 = concatenate((np.zeros(-missing, dtype_of(a2)), a2))
    return a1, a2


def _two(array: Any) -> Calls:
    return [
        ((array(3), array(3)), {}),
        ((array(2), array(4)), {}),
        ((array(3), array()), {}),
        (([1.0, 2.0, 3.0], array(2)), {}),
        ((array(1), array(1)), {}),
    ]


@composite(np.polyadd, samples=_two, doc="linear in both; the cotangents of the lower powers")
def _polyadd(a1: Any, a2: Any) -> Any:
    a1, a2 = _aligned(a1, a2, "polyadd")
    return a1 + a2


@composite(np.polysub, samples=_two, doc="linear in both; the cotangents of the lower powers")
def _polysub(a1: Any, a2: Any) -> Any:
    a1, a2 = _aligned(a1, a2, "polysub")
    return a1 - a2


def _without_leading_zeros(c: Any, name: str) -> Any:
    """Return the coefficients from the first nonzero one, as `np.poly1d` does."""
    c = _coefficients(c, name)
    value = concrete(c, f"np.{name}")
    if type(value) is not np.ndarray:  # an array of another library keeps leading zeros
        return c
    found = np.flatnonzero(value)
    return c[int(found[0]) if found.size else -1 :]


@composite(np.polymul, samples=_two, value_dependent=True, doc="a convolution of the coefficients")
def _polymul(a1: Any, a2: Any) -> Any:
    return np.convolve(_without_leading_zeros(a1, "polymul"), _without_leading_zeros(a2, "polymul"))


def _division_samples(array: Any) -> Calls:
    """Return samples with a power of two as first divisor coefficient: the remainder has exact zeros, also in float32."""

    def divisor(n: int) -> Any:
        return np.concatenate([[2], array(n)]).astype(array().dtype)

    return [
        ((array(4), divisor(1)), {}),
        ((array(5), divisor(2)), {}),
        ((array(2), divisor(2)), {}),
        ((array(3), divisor(0)), {}),
        (([1.0, 2.0, 3.0], divisor(2)), {}),
    ]


@composite(
    np.polydiv,
    samples=_division_samples,
    value_dependent=True,
    doc="that of the long division, step by step",
)
def _polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    u, v = _coefficients(u, "polydiv") + 0.0, _coefficients(v, "polydiv") + 0.0
    dtype = np.result_type(dtype_of(u), dtype_of(v))
    divisor = len(v)
    scale = 1.0 / v[0]
    rest = astype(u, dtype, copy=False)
    quotient = []
    for k in range(len(u) - divisor + 1):
        factor = scale * rest[k]
        quotient.append(factor)
        rest = concatenate((rest[:k], rest[k : k + divisor] - factor * v, rest[k + divisor :]))
    values, first = concrete(rest, "np.polydiv"), 0
    while first < len(values) - 1 and np.allclose(values[first], 0, rtol=1e-14):
        first += 1
    return astype(np.stack(quotient), dtype, copy=False) if quotient else np.zeros(1, dtype), rest[first:]


# Roots


def _of_matrix(a: Any) -> Any:
    """Return the characteristic polynomial of a matrix by the method of Faddeev and LeVerrier.

    It needs no eigenvalues. The derivatives of equal eigenvalues are infinite; the derivatives of the polynomial are finite.
    """
    a = a if dtype_of(a).kind == "c" else astype(a, np.result_type(dtype_of(a), np.float32), copy=False)
    product, coefficients = a, [np.ones((), dtype_of(a))]
    identity = np.eye(len(a), dtype=dtype_of(a))
    for k in range(1, len(a) + 1):
        coefficients.append(product.trace() / -k)
        product = a @ (product + coefficients[-1] * identity)
    return np.stack(coefficients)


@composite(
    np.poly,
    samples=lambda array: [((array(*shape),), {}) for shape in ((3,), (1,), (0,), (3, 3), (1, 1))],
    value_dependent=True,
    doc="a product of linear factors; of a matrix, by the traces of its powers",
)
def _poly(seq_of_zeros: Any) -> Any:
    zeros = atleast(array_of(seq_of_zeros), 1)
    shape = shape_of(zeros)
    if len(shape) == 2 and shape[0] == shape[1] != 0:
        return _of_matrix(zeros)
    if len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if shape == (0,):
        return 1.0
    zeros = astype(zeros, np.mintypecode(dtype_of(zeros).char), copy=False)
    one = np.ones(1, dtype_of(zeros))
    out = one
    for i in range(len(zeros)):
        out = np.convolve(out, concatenate((one, -zeros[i : i + 1])))
    if dtype_of(zeros).kind != "c":
        return out
    values = concrete(zeros, "np.poly")
    real = np.array_equal(np.sort(values), np.sort(values.conj()))  # the zeros come in conjugate pairs
    return out.real if real else out


def _roots_vjp(g: Any, p: Any, out: Any) -> Any:
    """`-sum_i g[i] r[i]^(n - k) / p'(r[i])` for coefficient k, from `p(r) = 0`."""
    slope = polyval(p[:-1] * np.arange(len(p) - 1, 0, -1), out)
    return -(g / slope) @ vander(out, len(p))


def _roots_jvp(t: Any, p: Any, out: Any) -> Any:
    """`-sum_k t[k] r[i]^(n - k) / p'(r[i])`."""
    slope = polyval(p[:-1] * np.arange(len(p) - 1, 0, -1), out)
    return -(vander(out, len(p)) @ t) / slope


def _roots_spec(p: Any) -> Any:
    raise AbstractValueError(
        f"np.roots of a Tensor without a value, {spec_of(p)}, at {here()}: whether the result is complex, and how long "
        f"it is, depends on values, and an abstract trace has none. Trace with concrete values (grad, vjp, jvp)."
    )


def _roots_front(p: Any) -> Any:
    p = atleast(as_operand(p), 1)
    if len(shape_of(p)) != 1:
        raise ValueError("Input must be a rank-1 array.")
    value = concrete(p, "np.roots") if is_traced(p) else p
    first = np.flatnonzero(value)[:1]
    if not len(first):
        return np.array([])
    p = p[int(first[0]) :]  # NumPy does not return the roots at infinity of leading zeros
    return ROOTS(p) if len(p) > 1 else np.array([])


ROOTS: Primitive = general(
    np.roots,
    _roots_vjp,
    jvps=(_roots_jvp,),
    compute=lambda p: np.roots(p),
    spec=_roots_spec,
    samples=lambda array: [
        ((array(3, low=0.5),), {}),
        ((array(4),), {}),
        ((np.array([1, 1, -1]) * array(3, low=0.5),), {}),
        ((array(2),), {}),
    ],
    doc="dr = -dp(r) / p'(r), for roots that occur once",
    value_dependent=True,
    front=_roots_front,
)


# Least-squares fits


def _fit_samples(array: Any) -> Calls:
    x, weights = np.real(array(6)), np.real(array(6, low=0.5))
    return [
        ((x, array(6), 2), {}),
        ((x, array(6, 2), 1), {}),
        ((x, array(6), 2), {"w": weights}),
        ((x, array(6, 2), 1), {"w": weights, "cov": "unscaled"}),
        ((x, np.real(array(6)), 1), {"cov": True}),
        ((x, np.real(array(6, 2)), 1), {"full": True}),
        ((x[:3], array(3), 2), {"full": True}),
        (([0, 1, 2, 3], array(4), 0), {}),
    ]


@composite(
    np.polyfit,
    samples=_fit_samples,
    value_dependent=True,
    doc="linear in y, that of the pseudo-inverse in x and in the weights; the rank is constant",
)
def _polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: bool | str = False) -> Any:
    order = int(deg) + 1
    x, y = array_of(x) + 0.0, array_of(y) + 0.0
    w = None if w is None else array_of(w) + 0.0
    _check_data(x, y, deg, w)
    rcond = len(x) * np.finfo(dtype_of(x)).eps if rcond is None else rcond
    lhs, rhs = vander(x, order), y
    if w is not None:
        lhs = lhs * w[:, None]
        rhs = rhs * (w[:, None] if len(shape_of(y)) == 2 else w)
    scale = np.sqrt((lhs * lhs).sum(0))
    lhs = lhs / scale
    c = np.linalg.pinv(lhs, rcond) @ rhs
    rank = int(np.linalg.matrix_rank(concrete(lhs, "np.polyfit"), rtol=rcond))
    residuals = _residuals(lhs, rhs, c, rank)
    c = (c.T / scale).T
    if full:
        singular = np.linalg.svd(lhs, compute_uv=False)
        return c, residuals, np.int32(rank), singular, rcond
    if rank != order:
        warn(np.exceptions.RankWarning("Polyfit may be poorly conditioned"))
    if not cov:
        return c
    base = np.linalg.inv(lhs.T @ lhs) / np.outer(scale, scale)
    if cov != "unscaled":
        if len(x) <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (len(x) - order)
        return c, base * factor if len(shape_of(y)) == 1 else base[:, :, None] * factor
    return c, base if len(shape_of(y)) == 1 else base[:, :, None]


def _check_data(x: Any, y: Any, deg: Any, w: Any) -> None:
    """Raise NumPy's errors for invalid arguments of `polyfit`."""
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if len(shape_of(x)) != 1:
        raise TypeError("expected 1D vector for x")
    if shape_of(x) == (0,):
        raise TypeError("expected non-empty vector for x")
    if len(shape_of(y)) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if len(x) != len(y):
        raise TypeError("expected x and y to have same length")
    if w is not None and len(shape_of(w)) != 1:
        raise TypeError("expected a 1-d array for weights")
    if w is not None and len(w) != len(y):
        raise TypeError("expected w and y to have the same length")


def _residuals(lhs: Any, rhs: Any, c: Any, rank: int) -> Any:
    """Return the sums of squared residuals of a fit; empty if the rank is deficient or there are no spare rows."""
    rows, columns = shape_of(lhs)
    if rank < columns or rows <= columns:
        return np.zeros(0, dtype_of(np.real(innermost(c))))
    rest = rhs - lhs @ c
    squares = rest.real**2 + rest.imag**2 if dtype_of(rest).kind == "c" else rest * rest
    return atleast(squares.sum(0), 1)
