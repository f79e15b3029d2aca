"""Elementwise extremes and bounds: `maximum`, `minimum`, `fmax`, `fmin` and `clip`.

The residuals are masks: one of the elements that lost, and one of the ties if there are any. The rules apply the masks with
the functions of `functad.primitives.indexing.choose`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, spec_of
from functad.primitives.entry import Composite, Primitive
from functad.primitives.indexing.choose import dropped, kept
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.operands import as_operand, known_array, refuse_foreign, refuse_out, strong

_ndarray = np.ndarray

_LARGE, _LONG = 1 << 13, 64
_FLOAT32 = np.dtype(np.float32)


def _ties(x: Any, y: Any) -> Any:
    """Return the mask of equal elements, or `None` if all elements are known to differ."""
    equal = x == y
    known = known_array(equal)
    if known is not None:
        return equal if np.count_nonzero(known) else None  # `any` takes four times as long
    return None if issubclass(type(equal), (bool, np.bool_)) and not equal else equal


def _unless(g: Any, lost: Any, ties: Any) -> Any:
    """Return the cotangent of an argument: `g` where it was chosen, half of `g` at a tie, zero where it lost."""
    if ties is not None:
        g = np.where(ties, g * 0.5, g)
    return dropped(g, lost)


# The masks use np.less instead of `<`, because Python's complex numbers have no `<`.


def _less_or_nan(x: Any, y: Any) -> Any:
    return np.less(x, y) | (x != x)  # only a NaN differs from itself


def _greater_or_nan(x: Any, y: Any) -> Any:
    return np.greater(x, y) | (x != x)


def _beside_rows(function: np.ufunc) -> Callable[[Any, Any], Any]:
    """Return `function`, with a Python number replaced by a row of equal elements if the array is large and float32.

    NumPy does not vectorise the call with a number: 65,536 float32 take 52 us with a number and 25 us with a row
    (float64: 50 us with both).
    """

    def compute(x: Any, y: Any) -> Any:
        number = type(y) is int or type(y) is float
        if number and type(x) is _ndarray and x.dtype is _FLOAT32 and x.size >= _LARGE and x.shape[-1] >= _LONG:
            y = np.full(x.shape[-1], y, x.dtype)
        return function(x, y)

    return compute


def _enter_extremum(function: np.ufunc, x_lost: Any, y_lost: Any, doc: str) -> Primitive:
    return elementwise(
        function,
        lambda g, x_lost, ties: _unless(g, x_lost, ties),
        lambda g, y_lost, ties: _unless(g, y_lost, ties),
        operator=_beside_rows(function),
        spec=ufunc_spec(function, keeps_weak=False),
        derived={"x_lost": x_lost, "y_lost": y_lost, "ties": _ties},
        doc=doc,
        curvature="none",
        exact=True,
        kinks=np.subtract,
        passes_nan=(0, 1) if function in (np.maximum, np.minimum) else (),
    )


MAXIMUM = _enter_extremum(np.maximum, np.less, np.greater, "the derivative of the larger; half of each at a tie, both at a NaN")
MINIMUM = _enter_extremum(
    np.minimum, np.greater, np.less, "the derivative of the smaller; half of each at a tie, both at a NaN"
)
FMAX = _enter_extremum(
    np.fmax,
    _less_or_nan,
    lambda x, y: _less_or_nan(y, x),
    "the derivative of the larger, or of what is not NaN; half of each at a tie",
)
FMIN = _enter_extremum(
    np.fmin,
    _greater_or_nan,
    lambda x, y: _greater_or_nan(y, x),
    "the derivative of the smaller, or of what is not NaN; half of each at a tie",
)


# clip


def _as_array_first(ufunc: np.ufunc, clipped: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., ArraySpec]]:
    """Return a bound function and its shape rule. Like `np.clip`, both treat a number in the first argument as an array.

    Args:
        ufunc: the ufunc that computes the result.
        clipped: the same computation with `ndarray.clip`, which accepts Python integers outside the dtype as bounds.
    """
    rule = ufunc_spec(ufunc, keeps_weak=False)

    def compute(a: Any, *bounds: Any) -> Any:
        if type(a) in PYTHON_SCALARS:
            a = np.asarray(a)[()]  # uint64 for a Python integer beyond int64
        if int in map(type, bounds) and issubclass(type(a), (_ndarray, np.generic)) and a.dtype.kind in "iu":
            return clipped(a, *bounds)
        return ufunc(a, *bounds)

    def spec(a: Any, *bounds: Any) -> ArraySpec:
        given = spec_of(a)
        found: ArraySpec = rule(ArraySpec(given.shape, given.dtype), *bounds)
        return found

    return compute, spec


def _enter_bound(name: str, extremum: np.ufunc, clipped: Callable[..., Any], lost: Any, doc: str) -> Primitive:
    """Register `clip` with one bound: an extremum, except that at a tie `a` gets the whole cotangent."""
    compute, spec = _as_array_first(extremum, clipped)
    return elementwise(
        extremum,
        lambda g, lost: dropped(g, lost),
        lambda g, lost: kept(g, lost),
        name=name,
        operator=compute,
        names=("a", "bound"),
        derived={"lost": lost},
        spec=spec,
        internal=True,
        doc=doc,
        curvature="none",
        exact=True,
        kinks=np.subtract,
    )


AT_LEAST = _enter_bound(
    "at_least",
    np.maximum,
    lambda a, bound: a.clip(bound, None),
    np.less,
    "clip with a lower bound; the derivative passes at the bound",
)
AT_MOST = _enter_bound(
    "at_most",
    np.minimum,
    lambda a, bound: a.clip(None, bound),
    np.greater,
    "clip with an upper bound; the derivative passes at the bound",
)


_HAS_MIN = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
CLIP_UFUNC: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined] # called by `ndarray.clip`

_clip, _clip_spec = _as_array_first(CLIP_UFUNC, lambda a, low, high: a.clip(low, high))


def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
    casting: Any = None,
) -> Any:
    """Return the result of `np.clip`, or of the ufunc `clip` that `ndarray.clip` calls."""
    refuse_out(out, "clip")
    low, high = as_operand(a_min if min is None else min), as_operand(a_max if max is None else max)
    refuse_foreign("clip", a, low, high)
    a = strong(as_operand(a))
    if dtype is not None:
        a = a.astype(dtype)
    low, high = _without_bounds_beyond(dtype_of(a), low, high)
    if low is None:
        return +a if high is None else AT_MOST(a, high)
    return AT_LEAST(a, low) if high is None else CLIP(a, low, high)


def _without_bounds_beyond(dtype: np.dtype[Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Return the bounds, without Python integers that no element of an integer `dtype` can pass; `np.clip` ignores them.

    If a bound is a Python integer of unknown value, the limit of the dtype replaces a missing second bound: with two bounds,
    `np.clip` compares the integer with the dtype.
    """
    if dtype.kind not in "iu" or not (_is_python_integer(low) or _is_python_integer(high)):
        return low, high
    limits = np.iinfo(dtype)
    if type(low) is int and low <= limits.min:
        low = None
    if type(high) is int and high >= limits.max:
        high = None
    if high is None and type(low) is not int and _is_python_integer(low):
        return low, int(limits.max)
    if low is None and type(high) is not int and _is_python_integer(high):
        return int(limits.min), high
    return low, high


def _is_python_integer(bound: Any) -> bool:
    if type(bound) is int:
        return True
    spec = getattr(bound, "spec", None)
    return isinstance(spec, ArraySpec) and spec.weak and spec.dtype.kind == "i"


CLIP = elementwise(
    np.clip,
    lambda g, outside: dropped(g, outside),
    lambda g, below: kept(g, below),
    lambda g, above: kept(g, above),
    operator=_clip,
    names=("a", "min", "max"),
    derived={
        "outside": lambda a, low, high: np.less(a, low) | np.greater(a, high),
        "below": lambda a, low, high: np.less(a, low) & np.less_equal(low, high),
        "above": lambda a, low, high: np.greater(a, high) | np.greater(low, high),
    },
    spec=_clip_spec,
    samples=lambda array: [
        ((array(5), -0.5, 0.5), {}),
        ((array(5), array(5, low=-1.5, high=-0.2), array(5, low=0.2, high=1.5)), {}),
        ((array(2, 3), array(3, low=-1.0, high=0.0), 0.5), {}),
        ((array(), array(2, low=-1.0, high=0.0), array(2, 1, low=0.0, high=1.0)), {}),
        ((array(3), None, 0.5), {}),
        ((array(3),), {"a_min": -0.5, "a_max": None}),
        ((array(3), array(3, low=0.5, high=1.0), array(3, low=-1.0, high=-0.5)), {}),  # the upper bound wins
        ((array(0, 2), 0, 1), {}),
        *([((array(3),), {"min": -0.5}), ((array(3),), {"min": -0.5, "max": 0.5})] if _HAS_MIN else []),
    ],
    doc="passes between the bounds and at them; a bound that is returned gets the derivative",
    front=clip,
    curvature="none",
    exact=True,
    kinks=lambda a, *bounds: np.min([np.abs(a - bound) for bound in np.broadcast_arrays(*bounds)], axis=0),
)


Composite(
    CLIP_UFUNC,
    clip,
    samples=lambda array: [((array(3), -0.5, array(3)), {}), ((array(2), array(), 0.5), {})],
    doc="as clip",
    name="umath.clip",  # np.clip has the name "clip"
)
