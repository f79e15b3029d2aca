"""Maximum, minimum, their positions (`argmax`, `argmin`) and their difference (`ptp`).

The elements equal to an extreme get equal shares of its cotangent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import Params, Values, Which, along_axes, elementwise, flat
from functad.primitives.entry import Primitive
from functad.primitives.indexing.choose import kept
from functad.primitives.kinds import composite, constant, general, shaped_as_argument
from functad.primitives.operands import as_operand, known_array, refuse_out, stored
from functad.primitives.reductions.sums import (
    Axes,
    count,
    expand,
    masked,
    number_like,
    over,
    reduce_all,
    reduced_shape,
    reduced_spec,
    reduction_samples,
)
from functad.primitives.safe import has_nan

_NoValue = np._NoValue
_ndarray = np.ndarray
_BOOL, _INTP = np.dtype(np.bool_), np.dtype(np.intp)
_FEW = 1 << 11
"""The maximum size for a masked copy. In larger arrays, branch mispredictions cost the masked copy 6 ns per element."""


def _selected(a: Any, out: Any) -> Any:
    """Return the mask of elements equal to the extreme `out`; for a NaN extreme, the mask of NaNs."""
    equal = np.equal(a, out)
    return equal | ((a != a) & (out != out)) if type(out) in PYTHON_SCALARS or has_nan(out) else equal


def _selected_samples(array: Any) -> Calls:
    a = array(2, 3)
    return [((a, a.max(1, keepdims=True)), {}), ((a, a.max()), {})]


SELECTED = constant(
    _selected,
    spec=shaped_as_argument(_BOOL),
    samples=_selected_samples,
    internal=True,
    doc="the result is boolean",
    batch=elementwise,
)


def _extreme_vjp(g: Any, a: Any, out: Any, axis: Axes, keepdims: bool) -> Any:
    """Return equal shares of `g` at the selected elements, and exact zeros elsewhere, even if `g` is infinite."""
    shape = shape_of(a)
    place = expand(out, shape, axis, keepdims)
    share = expand(g, shape, axis, keepdims)
    plain = type(a) is type(place) is _ndarray  # fast path: needs neither the primitive nor `known_array`
    hit = _selected(a, place) if plain else SELECTED(a, place)
    known = hit if plain else known_array(hit)
    if known is None or np.count_nonzero(known) * count(shape, axis) != known.size:
        share = share / _ties(hit, dtype_of(out), axis)  # skipped if there are no ties, the usual case
    if plain and hit.size <= _FEW and type(share) is _ndarray:
        ct = np.zeros(shape, share.dtype)
        np.copyto(ct, share, where=hit)
        return ct
    return kept(share, hit)


def _extreme_jvp(t: Any, a: Any, out: Any, axis: Axes, keepdims: bool) -> Any:
    hit = SELECTED(a, expand(out, shape_of(a), axis, keepdims))
    total = np.where(hit, t, 0.0).sum(axis, keepdims=True) / _ties(hit, dtype_of(out), axis)
    return total if keepdims else total.reshape(reduced_shape(shape_of(a), axis, keepdims=False))


def _ties(hit: Any, dtype: Any, axis: Axes) -> Any:
    """Return the number of elements equal to each extreme, in the dtype of the division."""
    return hit.sum(axis, dtype, keepdims=True)


def _lead(a: Any, axis: Axes) -> Any:
    """Return the difference between the two largest elements along axes; infinity for a single element."""
    axes = range(np.ndim(a)) if axis is None else np.atleast_1d(axis)
    rows = np.moveaxis(a, axes, range(len(axes)))
    rows = -np.sort(-rows.reshape(-1, *rows.shape[len(axes) :]), axis=0)
    return rows[0] - rows[1] if len(rows) > 1 else np.full(rows.shape[1:], np.inf)


def enter_extreme(function: Any, ufunc: np.ufunc, samples: Any, doc: str) -> Primitive:
    """Register `np.max`, `np.min` or a NaN-skipping variant. The rules are the same: a NaN does not equal another result."""
    reduce: Callable[..., Any] = ufunc.reduce
    largest = ufunc in (np.maximum, np.fmax)
    worst = -np.inf if largest else np.inf

    def compute(a: Any, *, axis: Axes, keepdims: bool) -> Any:
        return reduce(a, axis, None, None, keepdims) if type(a) in PLAIN else function(a, axis=axis, keepdims=keepdims)

    def spec(a: Any, *, axis: Axes, keepdims: bool) -> ArraySpec:
        own = spec_of(a)
        if count(own.shape, axis) == 0 and own.size == 0 and 0 not in reduced_shape(own.shape, axis, keepdims=False):
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        return ArraySpec(reduced_shape(own.shape, axis, keepdims), own.dtype)

    def front(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _NoValue, where: Any = True
    ) -> Any:
        if out is not None:
            return stored(out, function, a, axis, keepdims=keepdims, initial=initial, where=where)
        if axis is None and keepdims is False and initial is _NoValue and where is True:
            return reduce_all(entry, a)
        a = as_operand(a)
        params = over(a, axis, keepdims)
        if initial is _NoValue or initial is None:
            if where is not True and where is not _NoValue:
                raise ValueError(f"reduction operation '{ufunc.__name__}' has no identity, so where= needs initial= too")
            return entry(a, **params)
        initial = number_like(initial, a)
        a = masked(a, where, worst if dtype_of(a).kind == "f" else initial)
        if count(shape_of(a), params["axis"]) == 0:
            return np.broadcast_to(initial, reduced_shape(shape_of(a), **params)).copy()[()]
        return ufunc(entry(a, **params), initial)

    front.__name__ = function.__name__
    entry = general(
        function,
        _extreme_vjp,
        jvps=(_extreme_jvp,),
        compute=compute,
        spec=spec,
        samples=samples(dtype=False, empty=False, initial=-0.75 if largest else 0.75),
        doc=doc,
        front=front,
        batch=along_axes,
        ordered=True,
        dependence="reduction",
        curvature="none",
        reduces=ufunc,
        exact=True,
        kinks=lambda a, *, axis, keepdims: _lead(a if largest else -a, axis),
    )
    return entry


MAX = enter_extreme(np.max, np.maximum, reduction_samples, "the derivative of the largest element; equal ones share it")
MIN = enter_extreme(np.min, np.minimum, reduction_samples, "the derivative of the smallest element; equal ones share it")
for _alias, _entry in ((np.amax, MAX), (np.amin, MIN)):
    composite(_alias, samples=reduction_samples(dtype=False, masks=False, empty=False), doc=_entry.doc, reduces=_entry.reduces)(
        _entry.front
    )


@composite(
    np.ptp,
    samples=reduction_samples(dtype=False, masks=False, empty=False),
    doc="that of the largest less that of the smallest element; 0 if all are equal",
)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Return the result of `np.ptp`."""
    refuse_out(out, "ptp")
    params = over(a, axis, keepdims)
    return MAX(a, **params) - MIN(a, **params)


# Positions


def enter_position(function: Any, *samples: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]) -> Primitive:
    """Register `np.argmax` or a similar function; each function in `samples` returns one more sample call."""

    def compute(a: Any, *, axis: Axes, keepdims: bool) -> Any:
        return function(a, None if axis is None else axis[0], keepdims=keepdims)

    def front(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        refuse_out(out, entry.name)
        a = as_operand(a)
        return entry(a, **over(a, axis, keepdims))

    entry = constant(
        function,
        compute=compute,
        spec=reduced_spec(lambda own: _INTP),
        samples=lambda array: [
            ((array(3),), {}),
            ((array(2, 3),), {"axis": -1}),
            ((array(2, 3), 0), {"keepdims": True}),
            ((array(2, 3),), {"keepdims": True}),
            ((array(),), {}),
            *[sample(array) for sample in samples],
        ],
        doc="positions have no derivative",
        front=front,
        batch=_position_batch,
    )
    return entry


def _position_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    (a,), axis, keepdims = values, params["axis"], params["keepdims"]
    if axis is not None:
        return primitive(a, axis=(axis[0] + 1,), keepdims=keepdims)
    found = primitive(flat(a), axis=(1,), keepdims=False)
    return found.reshape((size,) + (1,) * (len(shape_of(a)) - 1)) if keepdims else found


ARGMAX = enter_position(np.argmax)
ARGMIN = enter_position(np.argmin)
