"""Random lines about scalars: Python numbers beside NumPy scalars, precisions, truth values and type checks."""

from __future__ import annotations

import numpy as np

from functad.testing.programs.drafts import Draft, Impossible, broadcasts, line, listed, statement, table

NUMBERS = listed("""
    2.0; 0.5; 3; True; np.float64(0.5); np.float32(1.5); np.int64(2); np.array(0.5); 1j; np.bool_(True)
""")
"""Constants of all types."""

UNARY = listed("""
    abs; absolute; negative; positive; square; sqrt; exp; sin; floor; sign; squeeze; transpose; ravel; real; imag; conj
    isfinite; atleast_1d; sum; mean; max; min; prod; cumsum; copy; nan_to_num; ndim; size; real_if_close; angle; fabs
    reciprocal; std; var; median; any; all; round; zeros_like; ones_like; argmax; sort; diff; flip; expm1; log1p; cbrt
    signbit; trunc; rint; degrees; spacing; isnan; i0; sinc; ptp
""")
BINARY = listed("""
    add; subtract; multiply; divide; power; maximum; minimum; fmax; hypot; arctan2; copysign; logaddexp; heaviside; fmod
    float_power; dot; inner; outer; vdot; matmul; logical_and; greater; less; equal; not_equal; remainder; true_divide
    floor_divide; kron; isclose; allclose; nextafter
""")
STEEP = ("sqrt", "cbrt", "power", "float_power", "**")
"""Functions with an infinite derivative at 0; times a derivative of 0, reverse mode gives NaN."""

ORDERING = ("sort", "median")
"""Functions without derivative at equal elements."""

TESTS = """
    isinstance({a}, float); isinstance({a}, np.ndarray); isinstance({a}, np.floating); isinstance({a}, np.generic)
    isinstance({a}, (int, float)); isinstance({a}, __import__('numbers').Number)
    isinstance({a}, __import__('numbers').Real); np.isscalar({a}); np.ndim({a}) == 0; hasattr({a}, '__len__')
    np.isrealobj({a}); np.result_type({a}, np.float32) == np.float32; isinstance({a}, np.float64); callable({a})
    isinstance({a}, __import__('collections').abc.Sequence); isinstance({a}, bool)
    np.issubdtype(np.asarray({a}, like={a}).dtype, np.float32); {a} > 0.1; bool(np.all({a} > 0.1))
"""
"""Conditions of branches."""


@line("numbers")
def unary(d: Draft) -> str:
    """Return a NumPy function of a number of any type."""
    a, name = d.operand(), d.one(UNARY)
    _check(d, name, a)
    return f"np.{name}({a})"


@line("numbers")
def binary(d: Draft) -> str:
    """Return an operator or a NumPy function of a value and a constant of any type, or of two values."""
    a = d.operand()
    b = d.one(NUMBERS) if d.choose(2) else d.operand(lambda value: broadcasts(value, d.space[a]))
    if a == b:  # `x % x` is discontinuous
        return d.way("{a} + {a}; np.multiply({a}, {a})", a=a)
    left, right = (a, b) if d.choose(2) else (b, a)
    name = d.one(BINARY) if d.choose(2) else d.one(["+", "*", "-", "/", "**", "%", "//"])
    if name in ("/", "%", "//") and np.min(np.abs(d.value(right))) < 0.3:  # may jump within the step of a difference
        raise Impossible
    _check(d, name, left, right)
    return f"np.{name}({left}, {right})" if name.isidentifier() else f"{left} {name} {right}"


def _check(d: Draft, name: str, a: str, b: str = "") -> None:
    """Reject a function at arguments without a finite derivative.

    Raises:
        Impossible: the slope is infinite, a negative base has a variable exponent, or elements are equal.
    """
    base = d.value(a)
    if name in STEEP and (np.min(np.abs(base), initial=1.0) < 1e-2 or (b in d.names and np.min(base, initial=1.0) < 0)):
        raise Impossible
    if name in ORDERING and d.ties(a):
        raise Impossible


table("numbers", Draft.operand)("""
    {a}.astype(np.float32); {a} * np.ones(2, np.float32); {a}[()]; np.float32(2) * {a}; round({a}, 1) + {a}
    np.stack([{a}, {b}]); np.result_type({a}, {b}).type(0.5) * {a}; np.array([0.5, 1.5], {a}.dtype) * {a}
    sum([{a}, {b}]); max({a}, {b}); pow({a}, 2); abs({a}); -{a}; divmod({a}, 1)[1]; {a}.item() * {b}
    np.full(2, 0.5) * {a}; np.linspace({a}, 1.0, 3); np.concatenate([np.ravel({a}), np.ravel({b})])
    np.where({a} > 0, {a}, {2.0|0.5|3|True|np.float64(0.5)|np.float32(1.5)|np.int64(2)}); np.interp({a}, [0, 1], [2, 3])
    np.clip({a}, {2.0|0.5|3}, None)
    np.full_like({a}, 0.5) + {b}; np.asarray({a}, like={a}); np.float64(0.5) ** {a}; {a}.real; {a}.imag + {b}
""")


@line("numbers")
def branch(d: Draft) -> str:
    """Return a branch on the type or size of a value."""
    a = d.operand(lambda value: np.ndim(value) > 0 or not isinstance(value, np.ndarray))  # a list treats () as a number
    return d.way("({v} * 2.0 if {test} else {v} * 0.5)", test=d.way(TESTS, a=a))


@line("numbers")
def counted(d: Draft) -> str:
    """Return truth values as numbers, as conditions, or combined."""
    m = d.one(d.masks[::-1])
    ways = """
        np.where({a}, {b}, {b} ** 2); np.where(~{a}, {b}, 0.5); np.where({a} & {other}, {b}, -{b}); {b} * {a}
        ({a} + {other}) * {b}; np.where({a} ^ {other}, 1.0, {b}); np.where(np.logical_not({a}), {b}, 2); {a} * 0.5 + {b}
        np.sum({a}) * {b}; np.mean({a}) * {b}; {b} ** {a}; np.select([{a}, {other}], [{b}, 2.0], 0); np.add({a}, {b})
        np.add({a}, {other}) * {b}; ({a} | {other}).astype(float) * {b}; ({a} == {other}) * {b}; {b}[{a}]; -({a} * {b})
    """
    return d.way(ways, a=m, other=d.one([name for name in d.masks if broadcasts(d.space[name], d.space[m])]))


@statement("numbers", 2)
def compared(d: Draft) -> None:
    """Bind one or several truth values."""
    a = d.operand()
    ways = """
        {a} < {b}; {b} >= {a}; np.abs({a}) < {b}; np.greater({a}, {b}); np.isfinite({a}); {a} != {b}; {a} == {a}
        ({a} < {b}) & ({a} > -1); ~({a} < {b}); np.logical_or({a} < {b}, {a} > 1); np.subtract({a}, 1) < 0
        np.isclose({a}, {b})
    """
    text = d.way(ways, a=a, b=d.way("0.1; 1; 0; {b}", a=a))
    value = d.value(text)
    if not isinstance(value, (bool, np.bool_, np.ndarray)):
        raise Impossible
    d.bind("m", text, value, "numbers", d.masks)
