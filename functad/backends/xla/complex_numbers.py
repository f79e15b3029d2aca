"""Complex functions with NumPy's results.

XLA's complex formulas differ from NumPy's on branch cuts, at signed zeros, and at infinities and NaN. NumPy follows Annex G of
the C standard (ISO/IEC 9899). Most functions here take XLA's value in one quadrant, restore the signs by symmetry, and replace
the values that Annex G lists.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functad.backends.xla.engine import jnp, lax

_Function: TypeAlias = Callable[[Any], Any]

_LOG_2, _LOG2_E, _LOG10_E = float(np.log(2.0)), float(np.log2(np.e)), float(np.log10(np.e))


# Order


def _ordered(of_imaginary_parts: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a comparison in lexicographic order. A NaN in an imaginary part gives `False` unless the real parts are equal."""

    def compared(x: Any, y: Any) -> Any:
        known = ~(jnp.isnan(x.imag) | jnp.isnan(y.imag))
        return ((x.real < y.real) & known) | ((x.real == y.real) & of_imaginary_parts(x.imag, y.imag))

    return compared


_less, _less_equal = _ordered(operator.lt), _ordered(operator.le)


def clipped(a: Any, low: Any, high: Any) -> Any:
    """Return `a` clipped to two bounds. `np.clip` and `np.maximum` order numbers with one NaN part differently."""

    def less(x: Any, y: Any) -> Any:
        return jnp.where(x.real == y.real, x.imag < y.imag, x.real < y.real)

    a = jnp.where((a != a) | less(low, a), a, low)
    return jnp.where((a != a) | less(a, high), a, high)


def extreme(a: Any, axes: Sequence[int], *, largest: bool, keepdims: bool) -> Any:
    """Return the first largest or smallest element along axes, or the first element with a NaN."""
    behind = tuple(range(-len(axes), 0))
    moved = jnp.moveaxis(a, axes, behind)
    rows = moved.reshape(*moved.shape[: moved.ndim - len(axes)], -1)
    extremum = jnp.max if largest else jnp.min
    edge = -np.inf if largest else np.inf
    is_nan = rows != rows
    real = jnp.where(is_nan, edge, rows.real)
    in_front = real == extremum(real, axis=-1, keepdims=True)
    imag = jnp.where(in_front & ~is_nan, rows.imag, edge)
    is_first = in_front & ~is_nan & (imag == extremum(imag, axis=-1, keepdims=True))
    place = jnp.argmax(jnp.where(jnp.any(is_nan, axis=-1, keepdims=True), is_nan, is_first), axis=-1, keepdims=True)
    found = jnp.take_along_axis(rows, place, -1, mode="promise_in_bounds")[..., 0]
    return jnp.expand_dims(found, axes) if keepdims else found


# Symmetry


def _with_sign(x: Any, flips: Any) -> Any:
    return jnp.where(flips, -x, x)


def _of_conjugate(above: _Function) -> _Function:
    """Return a function from its values in the upper half plane: `f(conj(z))` is `conj(f(z))`."""

    def whole(z: Any) -> Any:
        found = above(lax.complex(z.real, abs(z.imag)))
        return lax.complex(found.real, _with_sign(found.imag, jnp.signbit(z.imag)))

    return whole


def _of_quadrant(first: _Function) -> _Function:
    """Return a function from its values in the first quadrant: the function is odd, and real on the real axis."""

    def whole(z: Any) -> Any:
        found = first(lax.complex(abs(z.real), abs(z.imag)))
        return lax.complex(_with_sign(found.real, jnp.signbit(z.real)), _with_sign(found.imag, jnp.signbit(z.imag)))

    return whole


def _turned(function: _Function) -> _Function:
    """Return the function `i function(-i z)`, which gives `sin` from `sinh`, `tan` from `tanh`, and so on."""

    def turned(z: Any) -> Any:
        found = function(lax.complex(z.imag, -z.real))
        return lax.complex(-found.imag, found.real)

    return turned


def _is_infinite(z: Any) -> Any:
    return jnp.isinf(z.real) | jnp.isinf(z.imag)


def _scaled(z: Any, factor: float) -> Any:
    """Return both parts times a real number."""
    return lax.complex(z.real * factor, z.imag * factor)


# Sizes, roots and logarithms


def _absolute(z: Any) -> Any:
    """Return `abs(z)`. JAX gives NaN for an infinity beside a NaN."""
    return jnp.where(_is_infinite(z), np.inf, jnp.abs(z))


def _sign(z: Any) -> Any:
    """Return `z / abs(z)` as in NumPy: a single infinite part determines the result."""
    x, y = z.real, z.imag
    size = _absolute(z)
    both = jnp.isinf(x) & jnp.isinf(y)
    real = jnp.where(jnp.isinf(y), 0, jnp.where(jnp.isinf(x), jnp.sign(x), x / size))
    imag = jnp.where(jnp.isinf(x), 0, jnp.where(jnp.isinf(y), jnp.sign(y), y / size))
    is_nan, is_zero = both | jnp.isnan(size), size == 0
    real, imag = [jnp.where(is_nan, np.nan, jnp.where(is_zero, 0, part)) for part in (real, imag)]
    return lax.complex(real, imag)


@_of_conjugate
def _sqrt(z: Any) -> Any:
    """Return the square root. JAX gives NaN for an infinity beside a NaN."""
    x, y, found = z.real, z.imag, jnp.sqrt(z)
    real = jnp.where(jnp.isinf(y) | (x == np.inf), np.inf, found.real)
    imag = jnp.where(jnp.isinf(y) | (x == -np.inf), np.inf, found.imag)
    return lax.complex(real, imag)


def _log(z: Any) -> Any:
    """Return the logarithm. JAX gives NaN for an infinity beside a NaN."""
    found = jnp.log(z)
    return lax.complex(jnp.where(_is_infinite(z), np.inf, found.real), found.imag)


def _log1p(z: Any) -> Any:
    """Return `log(1 + z)` by NumPy's formula, or by XLA's near zero, where NumPy's formula loses digits."""
    x, y = z.real + 1, z.imag
    plain = lax.complex(jnp.log(_absolute(lax.complex(x, y))), jnp.arctan2(y, x))
    return jnp.where(jnp.abs(z) < 0.5, jnp.log1p(z), plain)


# Exponentials


def _exp(z: Any) -> Any:
    """Return the exponential. JAX gives NaN for `inf + inf i`, and loses signs of zeros."""
    x, y, found = z.real, z.imag, jnp.exp(z)
    lost = jnp.isinf(x) & ~jnp.isfinite(y)
    real = jnp.where(lost, jnp.exp(x), found.real)
    imag = jnp.where(y == 0, y, jnp.where(lost & (x < 0), jnp.copysign(jnp.zeros_like(y), y), found.imag))
    return lax.complex(real, imag)


def _expm1(z: Any) -> Any:
    """Return `exp(z) - 1` by NumPy's formula. JAX loses signs of zeros."""
    x, y = z.real, z.imag
    half = jnp.sin(y / 2)
    return lax.complex(jnp.expm1(x) * jnp.cos(y) - 2 * half * half, jnp.exp(x) * jnp.sin(y))


def _product_of_large(x: Any, hyperbolic: Any, circular: Any) -> Any:
    """Return `hyperbolic * circular` for `hyperbolic` = `sinh(x)` or `cosh(x)`, which may overflow before the product."""
    half = jnp.exp(abs(x) / 2)
    large = half * (half / 2 * circular)
    return jnp.where(jnp.isinf(hyperbolic), _with_sign(large, hyperbolic < 0), hyperbolic * circular)


def _sinh(z: Any) -> Any:
    """Return `sinh(z)`. JAX loses signs of zeros, and gives NaN for `nan + 0i`."""
    x, y = z.real, z.imag
    sine, cosine = jnp.sin(y), jnp.cos(y)
    lost = ~jnp.isfinite(y)
    real = jnp.where(lost & ((x == 0) | jnp.isinf(x)), jnp.where(x == 0, x, np.inf), _product_of_large(x, jnp.sinh(x), cosine))
    imag = jnp.where(y == 0, y, _product_of_large(x, jnp.cosh(x), sine))
    return lax.complex(real, imag)


def _cosh(z: Any) -> Any:
    """Return `cosh(z)`. JAX loses signs of zeros, and gives NaN for `inf + inf i`."""
    x, y = z.real, z.imag
    sine, cosine = jnp.sin(y), jnp.cos(y)
    lost = ~jnp.isfinite(y)
    real = jnp.where(lost & jnp.isinf(x), np.inf, _product_of_large(x, jnp.cosh(x), cosine))
    flips = (jnp.signbit(x) & ~jnp.isnan(x)) ^ jnp.signbit(y)
    zero = _with_sign(jnp.zeros_like(x), flips & ~lost)
    imag = jnp.where((y == 0) | ((x == 0) & lost), zero, _product_of_large(x, jnp.sinh(x), sine))
    return lax.complex(real, imag)


@_of_quadrant
def _tanh(z: Any) -> Any:
    """Return `tanh(z)`. JAX gives NaN as the real part of `tanh(inf i)`."""
    found = jnp.tanh(z)
    return lax.complex(jnp.where((z.real == 0) & ~jnp.isfinite(z.imag), 0, found.real), found.imag)


# Inverse functions


@_of_quadrant
def _arcsinh(z: Any) -> Any:
    """Return `arcsinh(z)`. JAX gives numbers for some NaN, and NaN for others that Annex G lists."""
    x, y, found = z.real, z.imag, jnp.arcsinh(z)
    real = jnp.where(jnp.isnan(x) & jnp.isfinite(y), np.nan, found.real)
    return lax.complex(real, jnp.where(jnp.isnan(x) & (y == 0), y, found.imag))


@_of_conjugate
def _arccos(z: Any) -> Any:
    """Return `arccos(z)`. JAX gives NaN for the real part of `arccos(nan i)`."""
    x, y, found = z.real, z.imag, jnp.arccos(z)
    real = jnp.where(jnp.isnan(y) & (x == 0), np.pi / 2, found.real)
    return lax.complex(real, jnp.where(jnp.isnan(y) & jnp.isfinite(x), np.nan, found.imag))


@_of_conjugate
def _arccosh(z: Any) -> Any:
    """Return `arccosh(z)`. JAX gives NaN for the imaginary part of `arccosh(nan i)`."""
    x, y, found = z.real, z.imag, jnp.arccosh(z)
    real = jnp.where(jnp.isnan(y) & jnp.isfinite(x), np.nan, found.real)
    return lax.complex(real, jnp.where(jnp.isnan(y) & (x == 0), np.pi / 2, found.imag))


@_of_quadrant
def _arctanh(z: Any) -> Any:
    """Return `arctanh(z)`. JAX gives numbers for some NaN, and an infinity next to 1."""
    x, y, found = z.real, z.imag, jnp.arctanh(z)
    near = (x == 1) & (y < np.finfo(x.dtype).eps) & (y > 0)  # XLA squares the imaginary part
    real = jnp.where(near, 0.5 * (_LOG_2 - jnp.log(y)), found.real)
    real = jnp.where(jnp.isnan(y), jnp.where((x == 0) | jnp.isinf(x), 0, np.nan), real)
    imag = jnp.where(jnp.isnan(y) | (jnp.isnan(x) & ~jnp.isinf(y)), np.nan, found.imag)
    return lax.complex(real, imag)


# Quotients and powers


def _divided(x: Any, y: Any) -> Any:
    """Return the quotient by Smith's method (Communications of the ACM 5, 1962), as in NumPy."""
    is_real = abs(y.real) >= abs(y.imag)  # the real part is larger; false for a NaN
    large, small = jnp.where(is_real, y.real, y.imag), jnp.where(is_real, y.imag, y.real)
    is_zero = is_real & (large == 0)
    ratio = small / jnp.where(is_zero, 1, large)
    scale = 1 / (large + small * ratio)
    real = jnp.where(is_real, x.real + x.imag * ratio, x.real * ratio + x.imag)
    imag = jnp.where(is_real, x.imag - x.real * ratio, x.imag * ratio - x.real)
    real = jnp.where(is_zero, x.real / abs(large), real * scale)
    return lax.complex(real, jnp.where(is_zero, x.imag / abs(large), imag * scale))


def _inverse(x: Any) -> Any:
    """Return the reciprocal. NumPy's algorithm for reciprocals differs from its quotient, and from JAX's, at infinities."""
    is_real = abs(x.imag) <= abs(x.real)
    large, small = jnp.where(is_real, x.real, x.imag), jnp.where(is_real, x.imag, x.real)
    ratio = small / large
    divisor = large + small * ratio
    return lax.complex(jnp.where(is_real, 1, ratio) / divisor, -jnp.where(is_real, ratio, 1) / divisor)


def times(x: Any, y: Any) -> Any:
    """Return the plain product without corrections for infinities, as in NumPy. XLA simplifies complex products."""
    return lax.complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _times_of_c(x: Any, y: Any) -> Any:
    """Return the product as in C: a product with an infinite factor is infinite (Annex G.5.1)."""
    plain = times(x, y)

    def boxed(part: Any, whole: Any) -> Any:
        """Return 1 or 0 with the sign of `part` if the number is infinite, else `part`."""
        return jnp.where(_is_infinite(whole), jnp.copysign(jnp.isinf(part).astype(part.dtype), part), part)

    def without_nan(part: Any, other: Any) -> Any:
        return jnp.where(jnp.isnan(part) & other, jnp.copysign(jnp.zeros_like(part), part), part)

    x_infinite, y_infinite = _is_infinite(x), _is_infinite(y)
    terms = (x.real * y.real, x.imag * y.imag, x.real * y.imag, x.imag * y.real)
    overflows = functools.reduce(lambda a, b: a | b, map(jnp.isinf, terms)) & ~x_infinite & ~y_infinite
    a, b = [without_nan(boxed(part, x), y_infinite | overflows) for part in (x.real, x.imag)]
    c, d = [without_nan(boxed(part, y), x_infinite | overflows) for part in (y.real, y.imag)]
    again = jnp.isnan(plain.real) & jnp.isnan(plain.imag) & (x_infinite | y_infinite | overflows)
    real, imag = jnp.where(again, np.inf * (a * c - b * d), plain.real), jnp.where(again, np.inf * (a * d + b * c), plain.imag)
    return lax.complex(real, imag)


_LEAST_BY_LOGARITHM = 100
"""Exponent from which NumPy uses logarithms; smaller integral exponents use products."""


def _by_products(x: Any, n: Any) -> Any:
    """Return the powers of integral exponents below `_LEAST_BY_LOGARITHM` with NumPy's sequences of products."""
    is_known = type(n) is int
    choose = (lambda condition, a, b: a if condition else b) if is_known else jnp.where
    count, one = abs(n) if is_known else jnp.abs(n).astype(np.int32), jnp.ones_like(x)
    found, square = one, x
    for bit in range((count if is_known else _LEAST_BY_LOGARITHM).bit_length()):
        found = choose((count >> bit) & 1 == 1, times(found, square), found)
        square = times(square, square)
    found = choose(n < 0, _divided(lax.optimization_barrier(one), found), found)
    for m, small in ((1, x), (2, times(x, x)), (3, times(x, times(x, x)))):
        found = choose(n == m, small, found)
    return found


def power(x: Any, y: Any, known: complex | None) -> Any:
    """Return `x**y` by NumPy's method. `known` is the exponent if it is a constant number, else `None`."""
    if known is None:
        is_integral = (y.imag == 0) & (y.real == jnp.floor(y.real)) & (abs(y.real) < _LEAST_BY_LOGARITHM)
        by_products = _by_products(x, jnp.where(is_integral, y.real, 1))
        found = jnp.where(is_integral, by_products, _exp(_times_of_c(y, _log(x))))
    elif known.imag == 0 and known.real.is_integer() and abs(known.real) < _LEAST_BY_LOGARITHM:
        found = _by_products(x, int(known.real))
    else:
        found = _exp(_times_of_c(y, _log(x)))
    of_zero = jnp.where(y.real > 0, jnp.zeros((), x.dtype), jnp.asarray(complex(np.nan, np.nan), x.dtype))
    return jnp.where(y == 0, jnp.ones((), x.dtype), jnp.where(x == 0, of_zero, found))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absolute": _absolute, "sign": _sign, "sqrt": _sqrt, "log": _log, "log1p": _log1p, "exp": _exp, "expm1": _expm1,
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "arcsinh": _arcsinh, "arccosh": _arccosh, "arctanh": _arctanh,
    "sin": _turned(_sinh), "tan": _turned(_tanh), "arcsin": _turned(_arcsinh), "arctan": _turned(_arctanh), "arccos": _arccos,
    "cos": lambda z: _cosh(lax.complex(-z.imag, z.real)),
    "log2": lambda z: _scaled(_log(z), _LOG2_E),
    "log10": lambda z: _scaled(_log(z), _LOG10_E),
    "exp2": lambda z: _exp(_scaled(z, _LOG_2)),
    "less": _less,
    "less_equal": _less_equal,
    "greater": lambda x, y: _less(y, x),
    "greater_equal": lambda x, y: _less_equal(y, x),
    "maximum": lambda x, y: jnp.where((x != x) | _less_equal(y, x), x, y),
    "minimum": lambda x, y: jnp.where((x != x) | _less_equal(x, y), x, y),
    "fmax": lambda x, y: jnp.where((y != y) | _less_equal(y, x), x, y),
    "fmin": lambda x, y: jnp.where((y != y) | _less_equal(x, y), x, y),
    "multiply": times,
    "divide": _divided,
    "reciprocal": _inverse,
    "square": lambda z: times(z, z),
}  # fmt: skip
"""Maps a NumPy name to a complex function with NumPy's results, where JAX's own results differ."""
