"""Comparisons, logic, rounding and bit operations: functions whose derivative is zero wherever it exists."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.primitives import batching
from functad.primitives.kinds import broadcasting_samples, composite, constant, elementwise
from functad.primitives.operands import as_operand, refuse_out
from functad.primitives.primitive import Primitive, Samples

_ONE = broadcasting_samples(((-2.0, 2.0),))
_TWO = broadcasting_samples(((-2.0, 2.0), (0.5, 2.0)))
_INTEGER = "integers have no derivative"
_LOGICAL = "the result is boolean"
_STEP = "piecewise constant: the derivative is 0"


def _integer_samples(count: int) -> Samples:
    def samples(array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(tuple(np.array([1, 2, 6]) for _ in range(count)), {})]

    return samples


BOOLEAN: set[str] = set()
"""The names of those whose result is boolean: programs call them to check values too, and nothing comes of the result."""


def _enter(function: np.ufunc, doc: str, shortcut: Any = None, *, integers: bool = False) -> Primitive:
    if doc == _LOGICAL:
        BOOLEAN.add(function.__name__)
    samples = _integer_samples(function.nin) if integers else (_ONE if function.nin == 1 else _TWO)
    return constant(function, doc=doc, operator=shortcut, samples=samples, complex=doc == _LOGICAL)


LESS = _enter(np.less, _LOGICAL, operator.lt)
LESS_EQUAL = _enter(np.less_equal, _LOGICAL, operator.le)
GREATER = _enter(np.greater, _LOGICAL, operator.gt)
GREATER_EQUAL = _enter(np.greater_equal, _LOGICAL, operator.ge)
EQUAL = _enter(np.equal, _LOGICAL, operator.eq)
NOT_EQUAL = _enter(np.not_equal, _LOGICAL, operator.ne)
_function: np.ufunc
for _function in (
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.isfinite, np.isinf, np.isnan,
):  # fmt: skip
    _enter(_function, _LOGICAL)
_enter(np.signbit, _STEP)


def _enter_infinity(function: Any) -> None:
    entry = constant(function, doc=_LOGICAL, samples=_ONE, complex=False)

    def front(x: Any, out: Any = None) -> Any:
        refuse_out(out, entry.name)
        return entry(as_operand(x))

    entry.front = front
    entry.batch = batching.elementwise


_enter_infinity(np.isposinf)
_enter_infinity(np.isneginf)

FLOOR_DIVIDE = _enter(np.floor_divide, _STEP)
for _function in (np.floor, np.ceil, np.trunc, np.rint):
    _enter(_function, _STEP)


def _round(a: Any, *, decimals: int) -> Any:
    return np.round(a, decimals)


def round_to(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """`np.round`."""
    refuse_out(out, "round")
    return ROUND(a, decimals=int(decimals))


ROUND = constant(
    np.round,
    compute=_round,
    samples=lambda array: [((array(3),), {}), ((array(2, 2), 1), {}), ((array(),), {"decimals": 2})],
    doc=_STEP,
)
ROUND.front = round_to
ROUND.batch = batching.elementwise
composite(np.around, samples=lambda array: [((array(3), 1), {})], doc="as round")(round_to)

constant(np.spacing, doc=_STEP, samples=_ONE, complex=False)
constant(np.heaviside, doc=_STEP, samples=_TWO, complex=False)
elementwise(
    np.nextafter, lambda g: g, None, complex=False, domain=((-2.0, 2.0), (2.5, 3.0)),
    doc="d nextafter(x, y) = dx: the neighbour of x moves with it",
)  # fmt: skip

BITWISE_AND = _enter(np.bitwise_and, _INTEGER, operator.and_, integers=True)
BITWISE_OR = _enter(np.bitwise_or, _INTEGER, operator.or_, integers=True)
BITWISE_XOR = _enter(np.bitwise_xor, _INTEGER, operator.xor, integers=True)
LEFT_SHIFT = _enter(np.left_shift, _INTEGER, operator.lshift, integers=True)
RIGHT_SHIFT = _enter(np.right_shift, _INTEGER, operator.rshift, integers=True)
INVERT = _enter(np.invert, _INTEGER, operator.invert, integers=True)
for _function in (np.gcd, np.lcm, np.bitwise_count):
    _enter(_function, _INTEGER, integers=True)

constant(
    np.isnat,
    doc="dates have no derivative",
    samples=lambda array: [((np.array(["2020-02-29", "NaT"], "datetime64[D]"),), {})],
    complex=False,
)
