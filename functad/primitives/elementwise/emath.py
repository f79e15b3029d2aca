"""`np.emath`: functions that return complex numbers if real arguments are outside the real domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of
from functad.primitives.arranging.reshape import Calls
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Samples
from functad.primitives.kinds import composite
from functad.primitives.operands import concrete
from functad.primitives.signals.differences import array_of

_DOC = "that of the function of numpy, complex where a number lies outside its real domain"
_SHORT = "fbhBH"


def _negative(x: Any) -> Any:
    return x < 0


def _beyond_one(x: Any) -> Any:
    return np.absolute(x) > 1


def _extended(x: Any, outside: Callable[[Any], Any], name: str) -> Any:
    """Return `x` as an array, converted to complex if it is real and has elements outside the domain."""
    x = array_of(x)
    dtype = dtype_of(x)
    if dtype.kind == "c" or not np.any(outside(concrete(x, f"np.emath.{name}"))):
        return x
    return astype(x, np.complex64 if dtype.char in _SHORT else np.complex128)


def _enter(function: Any, plain: Any, outside: Callable[[Any], Any], samples: Samples) -> None:
    @composite(function, samples=samples, value_dependent=True, doc=_DOC)
    def extended(x: Any) -> Any:
        return plain(_extended(x, outside, plain.__name__))


def _signs(array: Any) -> Calls:
    return [((array(3),), {}), ((array(2, low=0.5),), {}), ((-array(low=0.5),), {}), ((array(0),), {})]


def _around_one(array: Any) -> Calls:
    return [((array(2, low=0.1, high=0.9),), {}), ((array(2, low=1.2),), {}), ((array(low=0.1, high=0.9),), {})]


_enter(np.emath.sqrt, np.sqrt, _negative, _signs)
_enter(np.emath.log, np.log, _negative, _signs)
_enter(np.emath.log2, np.log2, _negative, _signs)
_enter(np.emath.log10, np.log10, _negative, _signs)
_enter(np.emath.arcsin, np.arcsin, _beyond_one, _around_one)
_enter(np.emath.arccos, np.arccos, _beyond_one, _around_one)
_enter(np.emath.arctanh, np.arctanh, _beyond_one, _around_one)


def _two(array: Any) -> Calls:
    return [
        ((array(low=1.5), array(3)), {}),
        ((array(2, low=1.5), array(2, low=0.5)), {}),
        ((2, array(2)), {}),
        ((array(low=1.5), 3.0), {}),
    ]


@composite(np.emath.logn, samples=_two, value_dependent=True, doc=_DOC)
def _logn(n: Any, x: Any) -> Any:
    return np.log(_extended(x, _negative, "logn")) / np.log(_extended(n, _negative, "logn"))


@composite(
    np.emath.power,
    samples=lambda array: [
        ((array(3), array()), {}),
        ((array(2, low=0.5), array(2)), {}),
        ((array(2), 2), {}),
        ((array(2, low=0.5), -2), {}),
        ((2, array(2)), {}),
    ],
    value_dependent=True,
    doc=_DOC,
)
def _power(x: Any, p: Any) -> Any:
    p = array_of(p)
    if dtype_of(p).kind in "iu" and np.any(_negative(concrete(p, "np.emath.power"))):
        p = p * 1.0
    x = _extended(x, _negative, "power")
    # Up to NumPy 2.1, an array of shape () does not take part in the dtype promotion of `x ** p`, but does in `np.power(x, p)`.
    dtype = np.result_type(dtype_of(x), dtype_of(p))
    return np.power(astype(x, dtype, copy=False), astype(p, dtype, copy=False))
