"""The larger and the smaller of two: `maximum`, `minimum`, `fmax`, `fmin` and `clip`.

Each keeps the mask of what was not chosen, and where there are ties, that of these; see `functad.primitives.indexing.choose`.
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
    """Return where two arrays are equal, or `None` if it is known that they are so nowhere."""
    equal = x == y
    known = known_array(equal)
    if known is not None:
        return equal if np.count_nonzero(known) else None  # a quarter of the time of `any`
    return None if issubclass(type(equal), (bool, np.bool_)) and not equal else equal


def _unless(g: Any, lost: Any, ties: Any) -> Any:
    """Return the cotangent where an argument was chosen: zero where it lost, and half of it at a tie."""
    if ties is not None:
        g = np.where(ties, g * 0.5, g)
    return dropped(g, lost)


# Masks are made by np.less and not by `<`, which Python's complex numbers lack.


def _less_or_nan(x: Any, y: Any) -> Any:
    return np.less(x, y) | (x != x)  # only a NaN differs from itself


def _greater_or_nan(x: Any, y: Any) -> Any:
    return np.greater(x, y) | (x != x)


def _beside_rows(function: np.ufunc) -> Callable[[Any, Any], Any]:
    """Return a function that does the same, but does it to a row of equal numbers where it meets a large array and a number.

    With a number NumPy takes one element at a time: 52 us for 65,536 float32, and 25 with a row (for float64 both take 50).
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
    """Return a ufunc and its shape rule for a first argument that is made an array, as `np.clip` does: a number is not weak.

    Args:
        ufunc: computes the result.
        clipped: the same as a call of `ndarray.clip`, which takes Python integers beyond the dtype as bounds.
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
    """Enter `clip` with one bound: an extremum, but at a tie the derivative of `a` passes and is not shared."""
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
CLIP_UFUNC: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined] # what the method of arrays calls

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
    """`np.clip`, and the ufunc of that name, of which the method of arrays makes use."""
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
    """Return bounds for integers of a dtype: `np.clip` ignores a Python integer that no element can pass.

    A Python integer whose value is not known yet goes to `np.clip` with both bounds, which compares it with the dtype.
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
)


Composite(
    CLIP_UFUNC,
    clip,
    samples=lambda array: [((array(3), -0.5, array(3)), {}), ((array(2), array(), 0.5), {})],
    doc="as clip",
    name="umath.clip",  # apart from np.clip, which has the same name
)
