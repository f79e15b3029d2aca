"""Complex functions with NumPy's results.

XLA's complex formulas differ from NumPy's on branch cuts, at signed zeros, and at infinities and NaN. NumPy follows Annex G of
the C standard (ISO/IEC 9899). Most functions here take XLA's value in one quadrant, restore the signs by symmetry, and replace
the values that Annex G lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends.xla.engine import jnp, lax

_LOG_2, _LOG2_E, _LOG10_E = float(np.log(2.0)), float(np.log2(np.e)), float(np.log10(np.e))


# Order


def _less(x: Any, y: Any) -> Any:
    """Return `x < y` in lexicographic order. A NaN in an imaginary part gives `False` unless the real parts are equal."""
    known = ~(jnp.isnan(x.imag) | jnp.isnan(y.imag))
    return ((x.real < y.real) & known) | ((x.real == y.real) & (x.imag < y.imag))


def _less_equal(x: Any, y: Any) -> Any:
    known = ~(jnp.isnan(x.imag) | jnp.isnan(y.imag))
    return ((x.real < y.real) & known) | ((x.real == y.real) & (x.imag <= y.imag))


def _maximum(x: Any, y: Any) -> Any:
    return jnp.where((x != x) | _less_equal(y, x), x, y)


def _minimum(x: Any, y: Any) -> Any:
    return jnp.where((x != x) | _less_equal(x, y), x, y)


def _fmax(x: Any, y: Any) -> Any:
    return jnp.where((y != y) | _less_equal(y, x), x, y)


def _fmin(x: Any, y: Any) -> Any:
    return jnp.where((y != y) | _less_equal(x, y), x, y)


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


def _of_conjugate(z: Any, function: Callable[[Any], Any]) -> Any:
    """Return `function(z)` from its values in the upper half plane: `f(conj(z))` is `conj(f(z))`."""
    found = function(lax.complex(z.real, abs(z.imag)))
    return lax.complex(found.real, _with_sign(found.imag, jnp.signbit(z.imag)))


def _of_quadrant(z: Any, function: Callable[[Any], Any]) -> Any:
    """Return `function(z)` from its values in the first quadrant: the function is odd, and real on the real axis."""
    found = function(lax.complex(abs(z.real), abs(z.imag)))
    return lax.complex(_with_sign(found.real, jnp.signbit(z.real)), _with_sign(found.imag, jnp.signbit(z.imag)))


def _turned(z: Any, function: Callable[[Any], Any]) -> Any:
    """Return `i function(-i z)`, which gives `sin` from `sinh`, `tan` from `tanh`, and so on."""
    found = function(lax.complex(z.imag, -z.real))
    return lax.complex(-found.imag, found.real)


def _is_infinite(z: Any) -> Any:
    return jnp.isinf(z.real) | jnp.isinf(z.imag)


def _scaled(z: Any, factor: float) -> Any:
    """Return both parts times a real number."""
    return lax.complex(z.real * factor, z.imag * factor)


# Sizes, roots and logarithms


def _absolute(z: Any) -> Any:
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


def _sqrt(z: Any) -> Any:
    def above(z: Any) -> Any:
        x, y, found = z.real, z.imag, jnp.sqrt(z)
        real = jnp.where(jnp.isinf(y) | (x == np.inf), np.inf, found.real)
        imag = jnp.where(jnp.isinf(y) | (x == -np.inf), np.inf, found.imag)
        return lax.complex(real, imag)

    return _of_conjugate(z, above)


def _log(z: Any) -> Any:
    found = jnp.log(z)
    return lax.complex(jnp.where(_is_infinite(z), np.inf, found.real), found.imag)


def _log2(z: Any) -> Any:
    return _scaled(_log(z), _LOG2_E)


def _log10(z: Any) -> Any:
    return _scaled(_log(z), _LOG10_E)


def _log1p(z: Any) -> Any:
    """Return `log(1 + z)` by NumPy's formula, or by XLA's near zero, where NumPy's formula loses digits."""
    x, y = z.real + 1, z.imag
    plain = lax.complex(jnp.log(_absolute(lax.complex(x, y))), jnp.arctan2(y, x))
    return jnp.where(jnp.abs(z) < 0.5, jnp.log1p(z), plain)


# Exponentials


def _exp(z: Any) -> Any:
    x, y, found = z.real, z.imag, jnp.exp(z)
    lost = jnp.isinf(x) & ~jnp.isfinite(y)
    real = jnp.where(lost, jnp.exp(x), found.real)
    imag = jnp.where(y == 0, y, jnp.where(lost & (x < 0), jnp.copysign(jnp.zeros_like(y), y), found.imag))
    return lax.complex(real, imag)


def _exp2(z: Any) -> Any:
    return _exp(_scaled(z, _LOG_2))


def _expm1(z: Any) -> Any:
    """Return `exp(z) - 1` by NumPy's formula."""
    x, y = z.real, z.imag
    half = jnp.sin(y / 2)
    return lax.complex(jnp.expm1(x) * jnp.cos(y) - 2 * half * half, jnp.exp(x) * jnp.sin(y))


def _product_of_large(x: Any, hyperbolic: Any, circular: Any) -> Any:
    """Return `hyperbolic * circular` for `hyperbolic` = `sinh(x)` or `cosh(x)`, which may overflow before the product."""
    half = jnp.exp(abs(x) / 2)
    large = half * (half / 2 * circular)
    return jnp.where(jnp.isinf(hyperbolic), _with_sign(large, hyperbolic < 0), hyperbolic * circular)


def _sinh(z: Any) -> Any:
    x, y = z.real, z.imag
    sine, cosine = jnp.sin(y), jnp.cos(y)
    lost = ~jnp.isfinite(y)
    real = jnp.where(lost & ((x == 0) | jnp.isinf(x)), jnp.where(x == 0, x, np.inf), _product_of_large(x, jnp.sinh(x), cosine))
    imag = jnp.where(y == 0, y, _product_of_large(x, jnp.cosh(x), sine))
    return lax.complex(real, imag)


def _cosh(z: Any) -> Any:
    x, y = z.real, z.imag
    sine, cosine = jnp.sin(y), jnp.cos(y)
    lost = ~jnp.isfinite(y)
    real = jnp.where(lost & jnp.isinf(x), np.inf, _product_of_large(x, jnp.cosh(x), cosine))
    flips = (jnp.signbit(x) & ~jnp.isnan(x)) ^ jnp.signbit(y)
    zero = _with_sign(jnp.zeros_like(x), flips & ~lost)
    imag = jnp.where((y == 0) | ((x == 0) & lost), zero, _product_of_large(x, jnp.sinh(x), sine))
    return lax.complex(real, imag)


def _tanh(z: Any) -> Any:
    def first(z: Any) -> Any:
        found = jnp.tanh(z)
        return lax.complex(jnp.where((z.real == 0) & ~jnp.isfinite(z.imag), 0, found.real), found.imag)

    return _of_quadrant(z, first)


# Inverse functions


def _arcsinh(z: Any) -> Any:
    def first(z: Any) -> Any:
        x, y, found = z.real, z.imag, jnp.arcsinh(z)
        real = jnp.where(jnp.isnan(x) & jnp.isfinite(y), np.nan, found.real)
        return lax.complex(real, jnp.where(jnp.isnan(x) & (y == 0), y, found.imag))

    return _of_quadrant(z, first)


def _arccos(z: Any) -> Any:
    def above(z: Any) -> Any:
        x, y, found = z.real, z.imag, jnp.arccos(z)
        real = jnp.where(jnp.isnan(y) & (x == 0), np.pi / 2, found.real)
        return lax.complex(real, jnp.where(jnp.isnan(y) & jnp.isfinite(x), np.nan, found.imag))

    return _of_conjugate(z, above)


def _arccosh(z: Any) -> Any:
    def above(z: Any) -> Any:
        x, y, found = z.real, z.imag, jnp.arccosh(z)
        real = jnp.where(jnp.isnan(y) & jnp.isfinite(x), np.nan, found.real)
        return lax.complex(real, jnp.where(jnp.isnan(y) & (x == 0), np.pi / 2, found.imag))

    return _of_conjugate(z, above)


def _arctanh(z: Any) -> Any:
    def first(z: Any) -> Any:
        x, y, found = z.real, z.imag, jnp.arctanh(z)
        near = (x == 1) & (y < np.finfo(x.dtype).eps) & (y > 0)  # XLA squares the imaginary part
        real = jnp.where(near, 0.5 * (_LOG_2 - jnp.log(y)), found.real)
        real = jnp.where(jnp.isnan(y), jnp.where((x == 0) | jnp.isinf(x), 0, np.nan), real)
        imag = jnp.where(jnp.isnan(y) | (jnp.isnan(x) & ~jnp.isinf(y)), np.nan, found.imag)
        return lax.complex(real, imag)

    return _of_quadrant(z, first)


# Quotients and powers


def divided(x: Any, y: Any) -> Any:
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


def inverse(x: Any) -> Any:
    """Return the reciprocal. NumPy's algorithm for reciprocals differs from its quotient at infinities."""
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


def _by_products(x: Any, n: int) -> Any:
    """Return the power of an integral exponent with NumPy's sequence of products."""
    count = abs(n)
    if n in (1, 2, 3):
        return x if n == 1 else times(x, x) if n == 2 else times(x, times(x, x))
    found, square, one = None, x, jnp.ones_like(x)
    while count:
        if count & 1:
            found = times(one if found is None else found, square)
        count >>= 1
        square = times(square, square) if count else square
    return divided(lax.optimization_barrier(one), found) if n < 0 else found


def _by_products_of_each(x: Any, n: Any) -> Any:
    """Return the powers for a real array `n` of integral exponents below `_LEAST_BY_LOGARITHM`."""
    count, one = jnp.abs(n).astype(np.int32), jnp.ones_like(x)
    found, square = one, x
    for bit in range(_LEAST_BY_LOGARITHM.bit_length()):
        found = jnp.where((count >> bit) & 1 == 1, times(found, square), found)
        square = times(square, square)
    found = jnp.where(n < 0, divided(lax.optimization_barrier(one), found), found)
    small = [_by_products(x, each) for each in (1, 2, 3)]
    return jnp.where(n == 1, small[0], jnp.where(n == 2, small[1], jnp.where(n == 3, small[2], found)))


def _by_logarithm(x: Any, y: Any) -> Any:
    return _exp(_times_of_c(y, _log(x)))


def power(x: Any, y: Any, known: complex | None) -> Any:
    """Return `x**y` by NumPy's method. `known` is the exponent if it is a constant number, else `None`."""
    if known == 0:
        return jnp.ones_like(x * y)
    if known is None:
        is_integral = (y.imag == 0) & (y.real == jnp.floor(y.real)) & (abs(y.real) < _LEAST_BY_LOGARITHM)
        found = jnp.where(is_integral, _by_products_of_each(x, jnp.where(is_integral, y.real, 1)), _by_logarithm(x, y))
    elif known.imag == 0 and known.real.is_integer() and abs(known.real) < _LEAST_BY_LOGARITHM:
        found = _by_products(x, int(known.real))
    else:
        found = _by_logarithm(x, y)
    of_zero = jnp.where(y.real > 0, jnp.zeros((), x.dtype), jnp.asarray(complex(np.nan, np.nan), x.dtype))
    return jnp.where(y == 0, jnp.ones((), x.dtype), jnp.where(x == 0, of_zero, found))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "less": _less,
    "less_equal": _less_equal,
    "greater": lambda x, y: _less(y, x),
    "greater_equal": lambda x, y: _less_equal(y, x),
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _fmax,
    "fmin": _fmin,
    "absolute": _absolute,
    "sign": _sign,
    "sqrt": _sqrt,
    "log": _log,
    "log2": _log2,
    "log10": _log10,
    "log1p": _log1p,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": lambda z: _turned(z, _sinh),
    "cos": lambda z: _cosh(lax.complex(-z.imag, z.real)),
    "tan": lambda z: _turned(z, _tanh),
    "arcsinh": _arcsinh,
    "arcsin": lambda z: _turned(z, _arcsinh),
    "arccos": _arccos,
    "arccosh": _arccosh,
    "arctanh": _arctanh,
    "arctan": lambda z: _turned(z, _arctanh),
    "multiply": times,
    "square": lambda z: times(z, z),
    "reciprocal": inverse,
}
"""Maps a NumPy name to a complex function with NumPy's results, where JAX's own results differ."""
