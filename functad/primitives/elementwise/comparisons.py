"""Comparisons, logic, rounding and bit operations: functions with derivative zero wherever it exists."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of
from functad.primitives import batching
from functad.primitives.elementwise.arithmetic import to_integer, to_multiple
from functad.primitives.entry import Primitive, Samples
from functad.primitives.kinds import broadcasting_samples, composite, constant, elementwise
from functad.primitives.operands import as_operand, refuse_out

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

FLOOR_DIVIDE = _step(np.floor_divide, _floor_divide, cost=20.0, jumps=to_multiple)
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
    linear_by=lambda params: (),
)  # fmt: skip
NEXTAFTER = elementwise(
    np.nextafter, lambda g: g, None, complex=False, domain=((-2.0, 2.0), (2.5, 3.0)),
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
