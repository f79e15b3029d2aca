"""Ufuncs and other elementwise functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.xla import complex_numbers
from functad.backends.xla.engine import cast, converted_to, jax, jnp, lax
from functad.backends.xla.table import Call, row
from functad.expressions.spec import ArraySpec
from functad.primitives.elementwise import special
from functad.primitives.elementwise.complex_numbers import COMPLEX_SIGN
from functad.primitives.elementwise.conversion import ASTYPE, ASTYPE_INTEGER, COPY
from functad.primitives.elementwise.selection import AT_LEAST, AT_MOST, DROPPED, KEPT
from functad.primitives.reductions.statistics import ROOT
from functad.primitives.safe import MENDED, PRODUCT, QUOTIENT
from functad.transforms.grad import STOP

_WEAK = {"i": int, "f": float, "c": complex}


def loop_of(ufunc: np.ufunc, given: Sequence[ArraySpec]) -> tuple[np.dtype[Any], ...]:
    """Return NumPy's dtypes for the converted operands and the results of a ufunc."""
    kinds = [_WEAK.get(spec.dtype.kind, spec.dtype) if spec.weak else spec.dtype for spec in given]
    return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))


def converted(call: Call, values: Sequence[Any], ufunc: np.ufunc | None = None) -> list[Any]:
    """Return operands in the dtypes of the loop of NumPy's ufunc."""
    dtypes = loop_of(ufunc or call.primitive.function, call.given)
    return [cast(value, dtype) for value, dtype in zip(values, dtypes, strict=False)]


# Functions with the same name in JAX

_ALIKE = (
    np.add, np.subtract, np.multiply, np.positive, np.square, np.fmod,
    np.absolute, np.fabs, np.maximum, np.minimum, np.fmax, np.fmin, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10,
    np.log1p, np.sqrt, np.cbrt, np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh,
    np.arcsinh, np.arccosh, np.arctanh, np.conjugate, np.logaddexp, np.logaddexp2, np.hypot, np.arctan2, np.copysign,
    np.deg2rad, np.radians, np.rad2deg, np.degrees, np.nextafter, np.floor, np.ceil, np.trunc,
    np.rint, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.bitwise_count,
)  # fmt: skip


@row(*_ALIKE, ROOT)
def _ufunc(call: Call, *values: Any) -> Any:
    ufunc: np.ufunc = call.primitive.function
    values = tuple(converted(call, values))
    if values[0].dtype.kind == "c":
        of_complex = complex_numbers.FUNCTIONS.get(ufunc.__name__)
        if of_complex is not None:
            return of_complex(*values)
    return getattr(jnp, ufunc.__name__)(*values)


@row(np.sign, np.spacing, COMPLEX_SIGN)
def _sign_or_spacing(call: Call, x: Any) -> Any:
    """Compute a sign or a spacing. NumPy's spacing of `-0.0` is positive, JAX's negative. The page names the sign of `-0.0`."""
    name = call.primitive.function.__name__
    (x,) = converted(call, (x,))
    if x.dtype.kind == "c":
        return complex_numbers.FUNCTIONS[name](x)
    return jnp.spacing(jnp.where(x == 0, jnp.zeros((), x.dtype), x)) if name == "spacing" else jnp.sign(x)


@row(np.negative)
def _negative(call: Call, x: Any) -> Any:
    return -cast(x, call.dtype)


# Functions with conventions of NumPy that XLA does not share


def divided(x: Any, y: Any) -> Any:
    """Return the quotient of two arrays of one floating-point dtype."""
    return x / y if x.dtype.kind != "c" else complex_numbers.divided(x, y)


@row(np.divide)
def _divide(call: Call, *values: Any) -> Any:
    return divided(*converted(call, values))


@row(np.reciprocal)
def _reciprocal(call: Call, x: Any) -> Any:
    """Return `1 / x`. The reciprocal of integer 0 depends on NumPy's machine code, so NumPy computes it at compile time."""
    (x,) = converted(call, (x,))
    if call.dtype.kind not in "iu":
        return 1 / x if call.dtype.kind != "c" else complex_numbers.inverse(x)
    with np.errstate(all="ignore"):
        of_zero = np.reciprocal(np.zeros((), call.dtype))
    is_unit = (x == 1) | (x == -1) if call.dtype.kind == "i" else x == 1
    return jnp.where(x == 0, of_zero, jnp.where(is_unit, x, jnp.zeros((), call.dtype)))


@row(np.floor_divide, np.remainder, np.fmod)
def _quotient_or_rest(call: Call, *values: Any) -> Any:
    """Compute a floor division or remainder. Integer division by zero gives zero, as in NumPy."""
    ufunc: np.ufunc = call.primitive.function
    x, y = converted(call, values)
    function = getattr(jnp, ufunc.__name__)
    if y.dtype.kind not in "iu":
        return function(x, y)
    return jnp.where(y == 0, jnp.zeros((), x.dtype), function(x, jnp.where(y == 0, jnp.ones((), y.dtype), y)))


@row(np.gcd, np.lcm)
def _common(call: Call, *values: Any) -> Any:
    """Compute `gcd` or `lcm` of unsigned absolute values: for the smallest signed integer JAX's loop never ends."""
    values = tuple(converted(call, values))
    unsigned = np.dtype(f"u{call.dtype.itemsize}")
    if call.dtype.kind == "i":
        x, y = [lax.bitcast_convert_type(jnp.abs(value), unsigned) for value in values]
    else:
        x, y = values
    found = jnp.gcd(x, y)
    if call.primitive.function is np.lcm:
        found = jnp.where(found == 0, found, x // jnp.where(found == 0, jnp.ones_like(found), found) * y)
    return lax.bitcast_convert_type(found, call.dtype)


@row(np.power, np.float_power)
def _power(call: Call, x: Any, y: Any) -> Any:
    dtypes = loop_of(call.primitive.function, call.given)
    base = cast(x, dtypes[0])
    known = None if isinstance(y, jax.Array) or np.ndim(y) or np.iscomplexobj(y) else float(y)
    if base.dtype.kind == "c":
        return _complex_power(base, y, known, dtypes[1])
    if known is not None and known.is_integer() and abs(known) <= 32 and not (base.dtype.kind in "iu" and known < 0):
        return lax.integer_pow(base, int(known))
    if known == 0.5:
        return jnp.sqrt(base)  # as NumPy does
    return jnp.power(base, cast(y, dtypes[1]))


def _complex_power(base: Any, y: Any, known: float | None, dtype: np.dtype[Any]) -> Any:
    """Return a complex power. For the exponents -1, 2 and 0.5, NumPy's `**` calls other functions."""
    if known == -1:
        return complex_numbers.inverse(base)
    if known == 2:
        return complex_numbers.times(base, base)
    if known == 0.5:
        return complex_numbers.FUNCTIONS["sqrt"](base)
    constant = None if isinstance(y, jax.Array) or np.ndim(y) else complex(y)
    return complex_numbers.power(base, cast(y, dtype), constant)


@row(np.heaviside)
def _heaviside(call: Call, x: Any, y: Any) -> Any:
    x, y = call.cast(x, y)
    return jnp.where(x == 0, y, jnp.where(x != x, x, cast(x > 0, call.dtype)))


@row(np.left_shift, np.right_shift)
def _shift(call: Call, *values: Any) -> Any:
    """Compute a shift. As in NumPy, a shift by the bit width or more gives 0, or -1 for a right shift of a negative number."""
    x, y = converted(call, values)
    bits = x.dtype.itemsize * 8
    outside = (y >= bits) | (y < 0)
    inside = jnp.where(outside, jnp.zeros((), y.dtype), y)
    if call.primitive.function is np.left_shift:
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


@row(np.sinc, np.i0)
def _by_name(call: Call, x: Any) -> Any:
    return getattr(jnp, call.primitive.function.__name__)(cast(x, call.dtype))


@row(special.FREXP_EXPONENT)
def _exponent(call: Call, x: Any) -> Any:
    return jnp.frexp(cast(x, loop_of(np.frexp, call.given)[0]))[1]


@row(special.MODF_FRACTION)
def _fraction(call: Call, x: Any) -> Any:
    x = cast(x, call.dtype)
    return jnp.copysign(jnp.where(jnp.isinf(x), jnp.zeros((), call.dtype), jnp.modf(x)[0]), x)


@row(np.fix)
def _fix(call: Call, x: Any) -> Any:
    return jnp.trunc(cast(x, call.dtype))


@row(np.round)
def _round(call: Call, a: Any, *, decimals: int) -> Any:
    return jnp.round(cast(a, call.dtype), decimals) if call.dtype.kind in "fc" or decimals >= 0 else NotImplemented


# Bounds and choices


@row(AT_LEAST, AT_MOST)
def _bound(call: Call, a: Any, bound: Any) -> Any:
    name = "maximum" if call.primitive is AT_LEAST else "minimum"
    return (complex_numbers.FUNCTIONS[name] if call.dtype.kind == "c" else getattr(jnp, name))(*call.cast(a, bound))


@row(np.clip)
def _clip(call: Call, a: Any, low: Any, high: Any) -> Any:
    a, low, high = call.cast(a, low, high)
    return jnp.minimum(jnp.maximum(a, low), high) if call.dtype.kind != "c" else complex_numbers.clipped(a, low, high)


@row(np.where)
def _where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(cast(condition, np.bool_), *call.cast(x, y))


@row(KEPT, DROPPED)
def _kept(call: Call, g: Any, mask: Any) -> Any:
    g, mask = cast(g, call.dtype), cast(mask, np.bool_)
    zero = jnp.zeros((), call.dtype)
    return jnp.where(mask, g, zero) if call.primitive is KEPT else jnp.where(mask, zero, g)


# Products and quotients that are zero for an exact zero


def zero_wins(x: Any, y: Any) -> Any:
    """Return `x * y`, and zero where a factor is exactly zero."""
    product = x * y if x.dtype.kind != "c" else complex_numbers.times(x, y)
    return jnp.where((x == 0) | (y == 0), jnp.zeros((), x.dtype), product)


@row(PRODUCT)
def _product(call: Call, x: Any, y: Any) -> Any:
    return zero_wins(*call.cast(x, y))


@row(QUOTIENT)
def _quotient(call: Call, x: Any, y: Any) -> Any:
    x, y = call.cast(x, y)
    return jnp.where(x == 0, jnp.zeros((), call.dtype), divided(x, y))


@row(MENDED)
def _mended(call: Call, x: Any, y: Any) -> Any:
    if np.broadcast_shapes(*[spec.shape for spec in call.given]) != call.shape:
        return NotImplemented
    x, y = cast(x, call.dtype), cast(y, call.given[1].dtype)
    return jnp.where((y == 0) & (x != x), jnp.zeros((), call.dtype), x)


@row(special.SOFTMAX_FIRST)
def _softmax_first(call: Call, x: Any, y: Any) -> Any:
    x, y = call.cast(x, y)
    difference = jnp.where(x == y, jnp.zeros((), call.dtype), y - x)
    return 1 / (jnp.exp(difference) + 1)


# Conversions, copies and parts


@row(ASTYPE, ASTYPE_INTEGER)
def _astype(call: Call, a: Any, *, dtype: Any) -> Any:
    return converted_to(cast(a, call.given[0].dtype), dtype)


@row(COPY)
def _copy(call: Call, a: Any, *, order: str = "K") -> Any:
    return cast(a, call.dtype)


@row(STOP)
def _stopped(call: Call, x: Any) -> Any:
    return cast(x, call.dtype)


@row(np.real)
def _real(call: Call, val: Any) -> Any:
    return jnp.real(cast(val, call.given[0].dtype))


@row(np.imag)
def _imag(call: Call, val: Any) -> Any:
    return jnp.imag(cast(val, call.given[0].dtype))
