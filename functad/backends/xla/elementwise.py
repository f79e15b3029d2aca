"""Elementwise functions: ufuncs, comparisons, predicates, selections and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.backends.xla import complex_numbers
from functad.backends.xla.engine import cast, converted_to, jax, jnp, lax
from functad.backends.xla.replay import Call, alike, booleans, converted, loop_of, of_loop, of_result, row, unchanged
from functad.primitives.elementwise.conversion import ASTYPE, ASTYPE_INTEGER, COPY
from functad.primitives.elementwise.special import FREXP_EXPONENT
from functad.primitives.linalg import degenerate
from functad.transforms.grad import STOP

# Functions with the same name in JAX


@row(
    np.add, np.subtract, np.multiply, np.divide, np.positive, np.square,
    np.absolute, np.fabs, np.sign, np.maximum, np.minimum, np.fmax, np.fmin, np.exp, np.exp2, np.expm1, np.log, np.log2,
    np.log10, np.log1p, np.sqrt, np.cbrt, np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh,
    np.arcsinh, np.arccosh, np.arctanh, np.conjugate, np.logaddexp, np.logaddexp2, np.hypot, np.arctan2, np.copysign,
    np.deg2rad, np.radians, np.rad2deg, np.degrees, np.nextafter, np.floor, np.ceil, np.trunc,
    np.rint, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.bitwise_count,
)  # fmt: skip
def _ufunc(call: Call, *values: Any) -> Any:
    values = tuple(converted(of_loop, call, values))
    of_complex = complex_numbers.FUNCTIONS.get(call.name) if values[0].dtype.kind == "c" else None
    return (of_complex or getattr(jnp, call.name))(*values)


row(np.negative, np.sinc, np.i0)(alike(of_result))
row(np.logical_and, np.logical_or, np.logical_xor, np.logical_not)(alike(booleans))
row(np.real, np.imag)(alike(unchanged))
row(np.isfinite, np.isinf, np.isnan, np.isposinf, np.isneginf, np.iscomplex, np.isreal)(alike(unchanged))


# Functions that JAX computes in another way


@row(np.spacing)
def _spacing(call: Call, x: Any) -> Any:
    """Compute a spacing. NumPy's spacing of `-0.0` is positive, JAX's negative."""
    (x,) = converted(of_loop, call, (x,))
    return jnp.spacing(jnp.where(x == 0, jnp.zeros((), x.dtype), x))


@row(np.reciprocal)
def _reciprocal(call: Call, x: Any) -> Any:
    """Return `1 / x`. The reciprocal of integer 0 depends on NumPy's machine code, so NumPy computes it at compile time."""
    (x,) = converted(of_loop, call, (x,))
    if call.dtype.kind not in "iu":
        return 1 / x if call.dtype.kind != "c" else complex_numbers.FUNCTIONS["reciprocal"](x)
    with np.errstate(all="ignore"):
        of_zero = np.reciprocal(np.zeros((), call.dtype))
    is_unit = (x == 1) | (x == -1) if call.dtype.kind == "i" else x == 1
    return jnp.where(x == 0, of_zero, jnp.where(is_unit, x, jnp.zeros((), call.dtype)))


@row(np.floor_divide, np.remainder, np.fmod)
def _quotient_or_rest(call: Call, *values: Any) -> Any:
    """Compute a floor division or remainder. Integer division by zero gives zero, as in NumPy."""
    x, y = converted(of_loop, call, values)
    function = getattr(jnp, call.name)
    if y.dtype.kind not in "iu":
        return function(x, y)
    return jnp.where(y == 0, jnp.zeros((), x.dtype), function(x, jnp.where(y == 0, jnp.ones((), y.dtype), y)))


@row(np.gcd, np.lcm)
def _common(call: Call, *values: Any) -> Any:
    """Compute `gcd` or `lcm` of unsigned absolute values: for the smallest signed integer JAX's loop never ends."""
    x, y = converted(of_loop, call, values)
    if call.dtype.kind == "i":
        x, y = [lax.bitcast_convert_type(jnp.abs(value), np.dtype(f"u{call.dtype.itemsize}")) for value in (x, y)]
    found = jnp.gcd(x, y)
    if call.name == "lcm":
        found = jnp.where(found == 0, found, x // jnp.where(found == 0, jnp.ones_like(found), found) * y)
    return lax.bitcast_convert_type(found, call.dtype)


@row(np.power, np.float_power)
def _power(call: Call, x: Any, y: Any) -> Any:
    """Compute a power. NumPy's `**` calls other functions for the exponents -1, 2 and 0.5."""
    dtypes = loop_of(call.primitive.function, call.given)
    base, exponent = cast(x, dtypes[0]), cast(y, dtypes[1])
    known = None if isinstance(y, jax.Array) or np.ndim(y) else complex(y)
    if base.dtype.kind == "c":
        if known is not None and known in (-1, 2, 0.5) and not np.iscomplexobj(y):
            return complex_numbers.FUNCTIONS[{-1: "reciprocal", 2: "square", 0.5: "sqrt"}[known.real]](base)
        return complex_numbers.power(base, exponent, known)
    if known is not None and known.real.is_integer() and abs(known) <= 32 and not (base.dtype.kind in "iu" and known.real < 0):
        return lax.integer_pow(base, int(known.real))
    return jnp.sqrt(base) if known == 0.5 else jnp.power(base, exponent)


@row(np.left_shift, np.right_shift)
def _shift(call: Call, *values: Any) -> Any:
    """Compute a shift. As in NumPy, a shift by the bit width or more gives 0, or -1 for a right shift of a negative number."""
    x, y = converted(of_loop, call, values)
    outside = (y >= x.dtype.itemsize * 8) | (y < 0)
    inside = jnp.where(outside, jnp.zeros((), y.dtype), y)
    if call.name == "left_shift":
        return jnp.where(outside, jnp.zeros((), x.dtype), x << inside)
    filled = cast(-cast(x < 0, np.int32), x.dtype) if x.dtype.kind == "i" else jnp.zeros((), x.dtype)
    return jnp.where(outside, filled, x >> inside)


@row(np.ldexp)
def _ldexp(call: Call, x: Any, y: Any) -> Any:
    """Compute `ldexp`. Exponents beyond int32 are clipped, which gives the same overflow or underflow."""
    y = cast(y, call.given[1].dtype)
    if not np.can_cast(y.dtype, np.int32):
        y = jnp.clip(y, -10000, 10000)
    return jnp.ldexp(cast(x, call.dtype), cast(y, np.int32))


@row(FREXP_EXPONENT)
def _exponent(call: Call, x: Any) -> Any:
    return jnp.frexp(cast(x, loop_of(np.frexp, call.given)[0]))[1]


@row(np.round)
def _round(call: Call, a: Any, *, decimals: int) -> Any:
    return jnp.round(cast(a, call.dtype), decimals) if call.dtype.kind in "fc" or decimals >= 0 else NotImplemented


# Comparisons


@row(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
def _comparison(call: Call, x: Any, y: Any) -> Any:
    """Compare integers by value, including Python integers outside the range of the other dtype."""
    dtypes = unchanged(call)
    if any(dtype.kind not in "biu" for dtype in dtypes):
        return _ufunc(call, x, y)
    if np.uint64 in dtypes and any(dtype.kind == "i" for dtype in dtypes):
        return NotImplemented  # no dtype of XLA holds both
    common = np.result_type(*dtypes)
    return getattr(jnp, call.name)(cast(x, common), cast(y, common))


@row(np.signbit)
def _signbit(call: Call, x: Any) -> Any:
    """Compute a sign bit. JAX refuses integers."""
    x = cast(x, call.given[0].dtype)
    return jnp.signbit(x) if call.kind == "f" else x < 0 if call.kind == "i" else NotImplemented


# Selections, conversions and copies


@row(np.clip)
def _clip(call: Call, *values: Any) -> Any:
    a, low, high = call.cast(*values)
    return jnp.minimum(jnp.maximum(a, low), high) if call.dtype.kind != "c" else complex_numbers.clipped(a, low, high)


@row(np.where)
def _where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(cast(condition, np.bool_), *call.cast(x, y))


@row(ASTYPE, ASTYPE_INTEGER)
def _astype(call: Call, a: Any, *, dtype: Any) -> Any:
    return converted_to(cast(a, call.given[0].dtype), dtype)


@row(COPY, STOP, degenerate.frozen, degenerate.forwards, degenerate.straight, degenerate.FIXED)
def _first(call: Call, a: Any, *others: Any, **params: Any) -> Any:
    """Return the first operand of functions that differ from the identity only in their derivatives or in memory."""
    return cast(a, call.dtype)
