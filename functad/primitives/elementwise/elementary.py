"""Elementary ufuncs: arithmetic, exponentials, trigonometric functions, comparisons, rounding and bit operations.

The rules multiply constant factors after `product` and `quotient`. NumPy then multiplies in place, with a single temporary.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of
from functad.primitives import batching
from functad.primitives.entry import INLINE, Primitive, Samples
from functad.primitives.kinds import broadcasting_samples, composite, constant, elementwise
from functad.primitives.operands import as_operand, refuse_out
from functad.primitives.safe import product, quotient

_AWAY_FROM_ZERO = (0.5, 2.0)
_BOOL = np.dtype(np.bool_)


def _divide(x: Any, y: Any) -> Any:
    try:
        return x / y
    except ZeroDivisionError:  # two Python numbers: return infinity or NaN, like NumPy
        return np.true_divide(x, y).item()


def _power(x: Any, y: Any) -> Any:
    if type(x) in (int, float) and type(y) in (int, float) and not (type(x) is int is type(y) and y >= 0):
        return np.float_power(x, y).item()  # Python would return a complex number or raise
    if type(x) is np.ndarray and x.dtype is _BOOL:  # `x**2` calls np.square, which returns int8
        return np.power(x, y)
    return x**y


def _remainder(x: Any, y: Any) -> Any:
    try:
        return x % y
    except ZeroDivisionError:
        return np.remainder(x, y).item()


def to_integer(x: Any) -> Any:
    """Return the distance to the nearest integer."""
    return x - np.rint(x)


def to_multiple(x: Any, y: Any) -> Any:
    """Return the distance of `x` to the nearest multiple of `y`."""
    return to_integer(x / y) * y


def unchanged(g: Any) -> Any:
    """Return `g` unchanged: the rule of a sum, for a cotangent or a tangent."""
    return g


_BOTH: dict[str, Any] = {"curvature": "none", "passes_nan": (0, 1)}
ADD = elementwise(np.add, unchanged, unchanged, operator=operator.add, doc="d(x + y) = dx + dy", **_BOTH)
SUBTRACT = elementwise(np.subtract, unchanged, lambda g: -g, operator=operator.sub, doc="d(x - y) = dx - dy", **_BOTH)
MULTIPLY = elementwise(
    np.multiply,
    lambda g, y: g * y,
    lambda g, x: g * x,
    operator=operator.mul,
    doc="d(x y) = y dx + x dy",
    curvature="product",
    passes_nan=(0, 1),
)
INLINE[unchanged] = "{0}"
INLINE.update({rule: "{0} * {1}" for rule in MULTIPLY.vjps if callable(rule)})
DIVIDE = elementwise(
    np.divide,
    lambda g, y: quotient(g, y),
    lambda g, y, out: -product(g, _divide(out, y)),
    operator=_divide,
    python=operator.truediv,
    domain=((-2.0, 2.0), _AWAY_FROM_ZERO),
    doc="d(x / y) = dx / y - x / y^2 dy; zero where the cotangent is exactly zero",
    curvature="quotient",
    passes_nan=(0, 1),
    cost=4.0,
)
NEGATIVE = elementwise(np.negative, lambda g: -g, operator=operator.neg, doc="d(-x) = -dx", curvature="none", exact=True)
POSITIVE = elementwise(np.positive, lambda g: g, operator=operator.pos, doc="d(+x) = dx", curvature="none", exact=True)


def _power_base(g: Any, x: Any, y: Any) -> Any:
    """Return `y x^(y-1) g`. An exact zero of `y` wins over `0^(-1)`: the derivative of `x ** 0` is 0 everywhere."""
    if type(y) is int or type(y) is float:
        if y == 2:
            return (x + x) * g  # a third faster than 2 * x on small arrays; NumPy multiplies in place on large ones
        return g * y if y in {0, 1} else product(g, y * _power(x, y - 1))
    return product(g, product(y, _power(x, y - 1)))


def _power_exponent(g: Any, x: Any, out: Any) -> Any:
    """Return `x^y log(x) g`, with `log(1)` at x = 0, because `0^y` is constant except for a jump at y = 0."""
    base = x + (x == 0)
    if type(x) in (int, float, complex):  # keep the logarithm a Python number, so that a float32 result keeps its dtype
        return product(g, product(out, np.log(base).item()))
    return product(g, product(out, np.log(base)))


POWER = elementwise(
    np.power,
    _power_base,
    _power_exponent,
    operator=_power,
    python=operator.pow,
    domain=(_AWAY_FROM_ZERO, (-2.0, 2.0)),
    raises=lambda specs, params: ((1,), "integers") if all(spec.dtype.kind in "iu" for spec in specs) else None,
    doc="d(x^y) = y x^(y-1) dx + x^y log(x) dy; at x = 0 the second term is 0",
)
FLOAT_POWER = elementwise(
    np.float_power,
    _power_base,
    _power_exponent,
    domain=(_AWAY_FROM_ZERO, (-2.0, 2.0)),
    python=math.pow,
    doc="as power, in double precision at least",
)
SQUARE = elementwise(np.square, lambda g, x: (x + x) * g, python=lambda x: x * x, doc="d(x^2) = 2 x dx", finite=True, cost=1.0)
RECIPROCAL = elementwise(
    np.reciprocal,
    lambda g, out: -product(product(g, out), out),
    domain=(_AWAY_FROM_ZERO,),
    doc="d(1/x) = -dx / x^2; zero where the cotangent is exactly zero",
    cost=4.0,
)
REMAINDER = elementwise(
    np.remainder,
    lambda g: g,
    lambda g, x, y: -product(g, np.floor_divide(x, y)),
    operator=_remainder,
    python=operator.mod,
    domain=((-2.0, 2.0), (2.5, 3.0)),
    complex=False,
    doc="d(x mod y) = dx - floor(x / y) dy",
    finite=False,
    linear_by=lambda params: (),
    curvature="none",
    cost=20.0,
    jumps=to_multiple,
)
FMOD = elementwise(
    np.fmod,
    lambda g: g,
    lambda g, x, y, out: -product(g, np.rint((x - out) / y)),  # trunc(x / y) can be off by one if x / y was rounded
    domain=((-2.0, 2.0), (0.5, 0.7)),
    complex=False,
    python=math.fmod,
    doc="d fmod(x, y) = dx - trunc(x / y) dy",
    finite=False,
    linear_by=lambda params: (),
    curvature="none",
    cost=20.0,
    exact=True,
    jumps=to_multiple,
)
ABSOLUTE = elementwise(
    np.absolute,
    lambda g, x: g * np.sign(x).conj(),
    operator=abs,
    doc="d|x| = Re(conj(x) dx) / |x|; 0 at x = 0",
    curvature="none of reals",
    exact=True,
    kinks=lambda x: x,
)
FABS = elementwise(
    np.fabs,
    lambda g, x: g * np.sign(x),
    python=math.fabs,
    complex=False,
    doc="d|x| = sign(x) dx; 0 at x = 0",
    curvature="none",
    exact=True,
    kinks=lambda x: x,
)


_POSITIVE = ((0.5, 2.0),)
_UNIT = ((-0.8, 0.8),)
_LOG_2 = math.log(2.0)
_LOG_10 = math.log(10.0)

EXP = elementwise(np.exp, lambda g, out: product(g, out), python=math.exp, doc="d exp(x) = exp(x) dx")
EXP2 = elementwise(np.exp2, lambda g, out: product(g, out) * _LOG_2, python=math.exp2, doc="d 2^x = 2^x log(2) dx")
EXPM1 = elementwise(np.expm1, lambda g, out: product(g, out + 1), python=math.expm1, doc="d expm1(x) = exp(x) dx")
LOG = elementwise(np.log, lambda g, x: quotient(g, x), python=math.log, domain=_POSITIVE, doc="d log(x) = dx / x")
LOG2 = elementwise(
    np.log2, lambda g, x: quotient(g, x) / _LOG_2, python=math.log2, domain=_POSITIVE, doc="d log2(x) = dx / (x log 2)"
)
LOG10 = elementwise(
    np.log10, lambda g, x: quotient(g, x) / _LOG_10, python=math.log10, domain=_POSITIVE, doc="d log10(x) = dx / (x log 10)"
)
LOG1P = elementwise(
    np.log1p, lambda g, x: quotient(g, 1 + x), python=math.log1p, domain=_POSITIVE, doc="d log1p(x) = dx / (1 + x)"
)
SQRT = elementwise(
    np.sqrt,
    lambda g, out: quotient(g, out) * 0.5,
    python=math.sqrt,
    domain=_POSITIVE,
    doc="d sqrt(x) = dx / (2 sqrt(x))",
    cost=5.0,
)
CBRT = elementwise(
    np.cbrt,
    lambda g, out: quotient(g, out * out) / 3,
    python=math.cbrt,
    domain=_POSITIVE,
    complex=False,
    doc="d cbrt(x) = dx / (3 cbrt(x)^2)",
)

SIN = elementwise(np.sin, lambda g, x: g * np.cos(x), python=math.sin, doc="d sin(x) = cos(x) dx", finite=True)
COS = elementwise(np.cos, lambda g, x: -(g * np.sin(x)), python=math.cos, doc="d cos(x) = -sin(x) dx", finite=True)
TAN = elementwise(
    np.tan, lambda g, out: product(g, 1 + out * out), python=math.tan, domain=((-1.2, 1.2),), doc="d tan(x) = (1 + tan(x)^2) dx"
)


def _root_to_one(x: Any) -> Any:
    """Return `sqrt(1 - x^2)`. The product of 1 - x and 1 + x loses no digits near 1.

    On a branch cut, the sign of a zero imaginary part selects the side. `1 - x` and the product would lose this sign.
    """
    if dtype_of(x).kind == "c":
        return np.sqrt(-(x - 1)) * np.sqrt(1 + x)
    return np.sqrt((1 - x) * (1 + x))


ARCSIN = elementwise(
    np.arcsin,
    lambda g, x: quotient(g, _root_to_one(x)),
    python=math.asin,
    domain=_UNIT,
    doc="d arcsin(x) = dx / sqrt(1 - x^2)",
)
ARCCOS = elementwise(
    np.arccos,
    lambda g, x: -quotient(g, _root_to_one(x)),
    python=math.acos,
    domain=_UNIT,
    doc="d arccos(x) = -dx / sqrt(1 - x^2)",
)
ARCTAN = elementwise(
    np.arctan, lambda g, x: quotient(g, 1 + x * x), python=math.atan, doc="d arctan(x) = dx / (1 + x^2)", finite=True
)
SINH = elementwise(np.sinh, lambda g, x: product(g, np.cosh(x)), python=math.sinh, doc="d sinh(x) = cosh(x) dx")
COSH = elementwise(np.cosh, lambda g, x: product(g, np.sinh(x)), python=math.cosh, doc="d cosh(x) = sinh(x) dx")
# In this order NumPy reuses one temporary: 1.1 ms for 1e6 float64. g * (1 - out * out) takes 3.9 ms.
TANH = elementwise(
    np.tanh, lambda g, out: -((out * out - 1) * g), python=math.tanh, doc="d tanh(x) = (1 - tanh(x)^2) dx", finite=True
)
ARCSINH = elementwise(
    np.arcsinh,
    lambda g, x: quotient(g, np.sqrt(x * x + 1)),
    python=math.asinh,
    doc="d arcsinh(x) = dx / sqrt(x^2 + 1)",
    finite=True,
)
ARCCOSH = elementwise(
    np.arccosh,
    lambda g, x: quotient(quotient(g, np.sqrt(x - 1)), np.sqrt(x + 1)),
    python=math.acosh,
    domain=((1.5, 3.0),),
    doc="d arccosh(x) = dx / (sqrt(x - 1) sqrt(x + 1))",
)
ARCTANH = elementwise(
    np.arctanh,
    lambda g, x: quotient(g, (1 - x) * (1 + x)),
    python=math.atanh,
    domain=_UNIT,
    doc="d arctanh(x) = dx / (1 - x^2)",
)


_ONE = broadcasting_samples(((-2.0, 2.0),))
_TWO = broadcasting_samples(((-2.0, 2.0), (0.5, 2.0)))
_LOGICAL = "the result is boolean"
_STEP = "piecewise constant: the derivative is 0"


BOOLEAN: set[str] = set()
"""Names of the ufuncs with a boolean result. Programs also call these ufuncs only to check values, and discard the result."""


def _logical(function: np.ufunc, shortcut: Any = None, **traits: Any) -> Primitive:
    BOOLEAN.add(function.__name__)
    return constant(function, doc=_LOGICAL, operator=shortcut, samples=_ONE if function.nin == 1 else _TWO, **traits)


def _step(function: np.ufunc, shortcut: Any = None, **traits: Any) -> Primitive:
    samples = _ONE if function.nin == 1 else _TWO
    return constant(function, doc=_STEP, operator=shortcut, samples=samples, complex=False, **traits)


def _to_half(x: Any, *, decimals: int = 0) -> Any:
    """Return the distance to the nearest number halfway between two numbers with some decimals."""
    unit = 10.0**-decimals
    return (0.5 - np.abs(to_integer(x / unit))) * unit


def _floor_divide(x: Any, y: Any) -> Any:
    try:
        return x // y
    except ZeroDivisionError:  # two Python numbers: return infinity or NaN, like NumPy
        return np.floor_divide(x, y).item()


def _of_integers(function: np.ufunc, shortcut: Any = None, **traits: Any) -> Primitive:
    samples: Samples = lambda array: [((np.array([1, 2, 6]),) * function.nin, {})]  # noqa: E731
    doc = "integers have no derivative"
    return constant(function, doc=doc, operator=shortcut, samples=samples, complex=False, **traits)


LESS = _logical(np.less, operator.lt, jumps=np.subtract)
LESS_EQUAL = _logical(np.less_equal, operator.le, jumps=np.subtract)
GREATER = _logical(np.greater, operator.gt, jumps=np.subtract)
GREATER_EQUAL = _logical(np.greater_equal, operator.ge, jumps=np.subtract)
EQUAL = _logical(np.equal, operator.eq)
NOT_EQUAL = _logical(np.not_equal, operator.ne)
_function: np.ufunc
for _function in (
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.isfinite, np.isinf, np.isnan,
):  # fmt: skip
    _logical(_function)
_step(np.signbit, jumps=lambda x: x)


def _enter_infinity(function: Any) -> None:
    def front(x: Any, out: Any = None) -> Any:
        refuse_out(out, entry.name)
        return entry(as_operand(x))

    entry = constant(function, doc=_LOGICAL, samples=_ONE, complex=False, front=front, batch=batching.elementwise)


_enter_infinity(np.isposinf)
_enter_infinity(np.isneginf)

FLOOR_DIVIDE = _step(np.floor_divide, _floor_divide, python=operator.floordiv, cost=20.0, jumps=to_multiple)
for _function in (np.floor, np.ceil, np.trunc):
    _step(_function, jumps=to_integer)
_step(np.rint, jumps=_to_half)


def round_to(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Return the result of `np.round`."""
    refuse_out(out, "round")
    return ROUND(a, decimals=int(decimals))


ROUND = constant(
    np.round,
    samples=lambda array: [((array(3),), {}), ((array(2, 2), 1), {}), ((array(),), {"decimals": 2})],
    doc=_STEP,
    front=round_to,
    batch=batching.elementwise,
    jumps=_to_half,
)
composite(np.around, samples=lambda array: [((array(3), 1), {})], doc="as round")(round_to)


ROUND_NUMBER = constant(
    round,
    compute=lambda a, *, decimals: round(a, decimals) if type(a) in PYTHON_SCALARS else np.round(a, decimals or 0),
    spec=lambda a, *, decimals: ArraySpec((), np.dtype(np.int64) if decimals is None else dtype_of(a), weak=True),
    samples=lambda array: [((array(),), {"decimals": 1})],
    doc=_STEP,
    name="round of a Python number",
    internal=True,
    batch=batching.elementwise,
)

constant(np.spacing, doc=_STEP, samples=_ONE, complex=False)


HEAVISIDE = elementwise(
    np.heaviside, None, lambda g, x: g * (x == 0), complex=False,
    samples=lambda array: [  # only integers contain zeros: finite differences have no derivative to match there
        ((array(3), array(3)), {}), ((array(2, 1), array(3)), {}), ((np.array([0, 1, 0], np.int8), array(3)), {}),
    ],
    doc="d heaviside(x, h) = dh where x is 0, else 0: the step of x is cut",
    cost=1.0,
    exact=True,
    jumps=lambda x, h: x,
    decomposition=lambda x, h: np.where(x == 0, h, np.where(x != x, x, x > 0)),
    linear_by=lambda params: (),
)  # fmt: skip
NEXTAFTER = elementwise(
    np.nextafter, lambda g: g, None, python=math.nextafter, complex=False, domain=((-2.0, 2.0), (2.5, 3.0)),
    doc="d nextafter(x, y) = dx: the neighbour of x moves with it",
    exact=True,
    linear_by=lambda params: (),
)  # fmt: skip

BITWISE_AND = _of_integers(np.bitwise_and, operator.and_)
BITWISE_OR = _of_integers(np.bitwise_or, operator.or_)
BITWISE_XOR = _of_integers(np.bitwise_xor, operator.xor)
LEFT_SHIFT = _of_integers(np.left_shift, operator.lshift)
RIGHT_SHIFT = _of_integers(np.right_shift, operator.rshift)
INVERT = _of_integers(np.invert, operator.invert)
_of_integers(np.gcd, cost=20.0)
_of_integers(np.lcm, cost=20.0)
_of_integers(np.bitwise_count)

constant(
    np.isnat,
    doc="dates have no derivative",
    samples=lambda array: [((np.array(["2020-02-29", "NaT"], "datetime64[D]"),), {})],
    complex=False,
)
