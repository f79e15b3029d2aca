"""Reductions over axes: sums, means, products, truth values, extremes and their positions.

The parameter `axis` of a primitive is `None` for all axes, or a tuple of nonnegative axes. The functions implement `where=`,
`initial=` and `dtype=` with `np.where`, operators and casts around the primitive. The elements equal to an extreme get equal
shares of its cotangent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, Calls
from functad.primitives.batching import Params, Values, Which, along_axes, along_axis, elementwise, flat
from functad.primitives.elementwise.conversion import astype
from functad.primitives.elementwise.selection import kept
from functad.primitives.entry import Primitive
from functad.primitives.kinds import composite, constant, general, linear, shaped_as_argument
from functad.primitives.operands import as_operand, known_array, refuse_out, stored
from functad.primitives.reductions.scans import EXCLUSIVE, summed_dtype
from functad.primitives.safe import careful_product, has_nan

Shape = tuple[int, ...]
Axes = tuple[int, ...] | None

_NoValue = np._NoValue
_ndarray = np.ndarray
_FLOAT64 = np.dtype(np.float64)
_BOOL, _INTP = np.dtype(np.bool_), np.dtype(np.intp)

_add_reduce: Callable[..., Any] = np.add.reduce
_multiply_reduce: Callable[..., Any] = np.multiply.reduce


# Axes and shapes


def reduced_axes(axis: Any, ndim: int) -> Axes:
    """Return the reduced axes, sorted and nonnegative; `None` if all axes are reduced."""
    if axis is None:
        return None
    if type(axis) is int and -ndim <= axis < ndim:
        return None if ndim == 1 else (axis % ndim,)
    if ndim == 0 and type(axis) is int and axis in (0, -1):  # NumPy allows these axes of a scalar
        return None
    axes = tuple(sorted(normalize_axis_tuple(axis, ndim)))
    return None if len(axes) == ndim else axes


def reduced_shape(shape: Shape, axis: Axes, keepdims: bool) -> Shape:
    """Return the shape of the result of a reduction."""
    if axis is None:
        return (1,) * len(shape) if keepdims else ()
    if keepdims:
        return tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axis])


def over(a: Any, axis: Any, keepdims: Any) -> dict[str, Any]:
    """Return the parameters of a reduction of `a`, from the `axis` and `keepdims` of NumPy's function."""
    return {"axis": reduced_axes(axis, len(shape_of(a))), "keepdims": keepdims is not _NoValue and bool(keepdims)}


def reduced_spec(dtype: Callable[[np.dtype[Any]], Any]) -> Callable[..., ArraySpec]:
    """Return the shape rule of a reduction; `dtype` maps the dtype of the array to the dtype of the result."""

    def spec(a: Any, *, axis: Any, keepdims: bool, **params: Any) -> ArraySpec:
        own = spec_of(a)
        return ArraySpec(reduced_shape(own.shape, (axis,) if type(axis) is int else axis, keepdims), dtype(own.dtype))

    return spec


def count(shape: Shape, axis: Axes) -> int:
    """Return the number of elements reduced to each result."""
    return math.prod(shape) if axis is None else math.prod([shape[i] for i in axis])


def expand(g: Any, shape: Shape, axis: Axes, keepdims: bool) -> Any:
    """Return a reduced array with its reduced axes restored at length 1, so it broadcasts to `shape`."""
    if keepdims or axis is None:
        return g
    if len(axis) == 1:
        (i,) = axis
        return g.reshape((*shape[:i], 1, *shape[i + 1 :]))
    return g.reshape(reduced_shape(shape, axis, keepdims=True))


def spread(g: Any, shape: Shape, axis: Axes, keepdims: bool) -> Any:
    """Return a reduced array broadcast to the shape before the reduction: the transpose of a sum."""
    kind = type(g)
    if kind is np.float64 and 0 not in shape:
        return _ndarray(shape, _FLOAT64, g, 0, (0,) * len(shape))  # read-only, like the number
    if kind is _ndarray and g.flags.c_contiguous:
        strides = _strides_of_spread(shape, axis, g.itemsize)
        if strides is not None:
            out: Any = _ndarray(shape, g.dtype, g, 0, strides)
            out.setflags(write=False)
            return out
    g = expand(g, shape, axis, keepdims)
    return BROADCAST_TO.compute(g, shape=shape) if type(g) in PLAIN else BROADCAST_TO(g, shape=shape)


@lru_cache(maxsize=1024)
def _strides_of_spread(shape: Shape, axis: Axes, itemsize: int) -> Shape | None:
    """Return the strides that broadcast a contiguous reduced array to `shape`; `None` if `shape` is empty."""
    strides = []
    for i in reversed(range(len(shape))):
        reduced = axis is None or i in axis
        strides.append(0 if reduced else itemsize)
        itemsize *= 1 if reduced else shape[i]
    return tuple(reversed(strides)) if itemsize and 0 not in shape else None


def masked(a: Any, where: Any, fill: Any) -> Any:
    """Return `a` with `fill` wherever `where` is false.

    Raises:
        ValueError: `where` does not broadcast to the shape of `a`.
    """
    if where is True or where is _NoValue:
        return a
    out = np.where(where, a, fill)
    if shape_of(out) != shape_of(a):
        raise ValueError(f"where= of shape {np.shape(where)} does not broadcast to {shape_of(a)}, the shape of the array")
    return out


def number_like(value: Any, out: Any) -> Any:
    """Return `initial=` in the dtype of the result."""
    dtype = dtype_of(out)
    return astype(value, dtype, copy=False) if hasattr(value, "astype") else dtype.type(value)


def reduction_samples(*, dtype: bool = True, masks: bool = True, empty: bool = True, initial: Any = None) -> Any:
    """Return calls of a reduction with every form of axis and every supported keyword."""
    mask = np.array([[True, False, True], [False, True, True]])

    def samples(array: Any) -> Calls:
        wider = np.result_type(array().dtype, np.float64)
        calls: Calls = [
            ((array(3),), {}),
            ((array(2, 3),), {}),
            ((array(2, 3), 0), {}),
            ((array(2, 3),), {"axis": -1, "keepdims": True}),
            ((array(2, 2, 3),), {"axis": (0, -1)}),
            ((array(2, 3),), {"keepdims": True}),
            ((array(2, 3),), {"axis": ()}),
            ((array(),), {}),
            ((array(0, 2),), {"axis": 1}),
        ]
        if empty:
            calls += [((array(0),), {}), ((array(2, 0),), {"axis": 1})]
        if dtype:
            calls += [((array(2, 3),), {"axis": 0, "dtype": wider})]
        keywords = {} if initial is None else {"initial": initial}
        if keywords:
            calls += [((array(2, 3),), {"axis": 0, **keywords}), ((array(2, 0),), {"axis": 1, **keywords})]
        if masks:
            calls += [((array(2, 3),), {"where": mask, **keywords})]
            calls += [((array(2, 3),), {"axis": 1, "where": mask[:, :1] | mask[:, 2:], "keepdims": True, **keywords})]
        return calls

    return samples


_WHOLE = {"axis": None, "keepdims": False}


def reduce_all(entry: Primitive, a: Any) -> Any:
    """Call a reduction over all axes, the most common case. Calling the trace of a Tensor directly saves 1 us."""
    dispatch = getattr(type(a), "__functad_dispatch__", None)
    return entry.compute(a, **_WHOLE) if dispatch is None else dispatch(entry, (a,), _WHOLE)


# Sum and mean


def summed(a: Any, axis: Axes, keepdims: bool) -> Any:
    """Return the sum. For NumPy arrays the ufunc saves the 1.5 us that `np.sum` spends in Python."""
    return _add_reduce(a, axis, None, None, keepdims) if type(a) in PLAIN else np.sum(a, axis=axis, keepdims=keepdims)


def sum(  # noqa: A001 # NumPy's name
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NoValue,
    where: Any = True,
) -> Any:
    """Return the result of `np.sum`."""
    if out is not None or dtype is not None or where is not True:
        if out is not None:
            return stored(out, np.sum, a, axis, dtype, keepdims=keepdims, initial=initial, where=where)
        a = masked(a if dtype is None else astype(a, dtype, copy=False), where, 0)
    axes = None if axis is None else reduced_axes(axis, len(shape_of(a)))
    if axes is None and keepdims is False:
        result = reduce_all(SUM, a)
    else:
        result = SUM(a, axis=axes, keepdims=keepdims is not _NoValue and bool(keepdims))
    result = result if dtype is None else astype(result, dtype, copy=False)  # SUM widens small integers
    return result if initial is _NoValue else result + number_like(initial, result)


SUM: Primitive = linear(
    np.sum,
    lambda g, a_layout, axis, keepdims: spread(g, a_layout, axis, keepdims),
    compute=lambda a, *, axis, keepdims: (
        _add_reduce(a, axis, None, None, keepdims) if type(a) in PLAIN else np.sum(a, axis=axis, keepdims=keepdims)
    ),
    spec=reduced_spec(summed_dtype),
    samples=reduction_samples(initial=1.5),
    doc="linear; the cotangent is broadcast",
    front=sum,
    reduces=np.add,
    batch=along_axes,
    ordered=True,
    jvps=(lambda t, a_layout, axis, keepdims: SUM(t, axis=axis, keepdims=keepdims),),
    dependence="reduction",
)


# NumPy sums other dtypes in a wider dtype. Dtypes with non-native byte order are not in this set.
_SUMMED_AS_THEY_ARE = frozenset(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))


@lru_cache
def mean_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the mean of an array with the given dtype."""
    return np.mean(np.zeros(1, dtype)).dtype


def _mean(a: Any, *, axis: Axes, keepdims: bool) -> Any:
    """Return the mean. `np.mean` spends 4 us in Python for every size."""
    if axis is None and type(a) is _ndarray and a.dtype is _FLOAT64 and a.size:
        return _add_reduce(a, None, None, None, keepdims) / a.size
    if type(a) not in PLAIN or dtype_of(a) not in _SUMMED_AS_THEY_ARE:
        return np.mean(a, axis=axis, keepdims=keepdims)
    return _add_reduce(a, axis, None, None, keepdims) / count(shape_of(a), axis)


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """Return the result of `np.mean`."""
    if out is not None or dtype is not None:
        if out is not None:
            return stored(out, np.mean, a, axis, dtype, keepdims=keepdims, where=where)
        if np.dtype(dtype).kind in "biu":
            return _integer_mean(a, axis, dtype, keepdims, where)
        a = astype(a, dtype, copy=False)
    if axis is None and keepdims is False and where is True:
        return reduce_all(MEAN, a)
    params = over(a, axis, keepdims)
    if where is True:
        return MEAN(a, **params)
    if dtype_of(a).kind in "biu":
        a = astype(a, np.float64)
    return SUM(masked(a, where, 0), **params) / number_of(where, a, **params)


def _sum_over_count(a: Any, *, axis: Axes, keepdims: bool) -> Any:
    dtype = mean_dtype(dtype_of(a))
    wide = astype(a, np.float32 if dtype == np.float16 else dtype, copy=False)  # NumPy sums float16 in float32
    return astype(SUM(wide, axis=axis, keepdims=keepdims) / count(shape_of(a), axis), dtype, copy=False)


# A primitive instead of a sum and a division, because nearly every loss function calls it.
MEAN: Primitive = linear(
    np.mean,
    lambda g, a_layout, axis, keepdims: spread(g / count(a_layout, axis), a_layout, axis, keepdims),
    compute=_mean,
    decomposition=_sum_over_count,
    spec=reduced_spec(mean_dtype),
    samples=reduction_samples(empty=False),
    doc="linear; the cotangent is divided by the number of elements and broadcast",
    front=mean,
    batch=along_axes,
    ordered=True,
    zero_d=False,
    fresh=True,
    jvps=(lambda t, a_layout, axis, keepdims: MEAN(t, axis=axis, keepdims=keepdims),),
    dependence="reduction",
)


def _integer_mean(a: Any, axis: Any, dtype: Any, keepdims: Any, where: Any) -> Any:
    """Return a mean with an integer dtype: as in NumPy, the elements and the quotient are truncated."""
    total = sum(a, axis, dtype, keepdims=keepdims, where=where)
    number = sum(np.broadcast_to(as_operand(where), shape_of(a)), axis, keepdims=keepdims)
    return astype(total / number, dtype)


def number_of(where: Any, a: Any, axis: Axes, keepdims: bool) -> Any:
    """Return the number of elements that a mask selects for each result, in the real dtype of `a`."""
    mask = np.broadcast_to(as_operand(where), shape_of(a))
    real: Any = dtype_of(a).type(0).real.dtype if dtype_of(a).kind in "fc" else _FLOAT64
    return SUM(mask.astype(real), axis=axis, keepdims=keepdims)


# Product


def others(a: Any, axis: int) -> Any:
    """Return for each element the product of all other elements along an axis."""
    return careful_product(EXCLUSIVE(a, axis=axis, reverse=False), EXCLUSIVE(a, axis=axis, reverse=True))


def _prod_samples(array: Any) -> Calls:
    zeros = np.array([True, False, True])
    return [
        *reduction_samples(initial=1.5)(array),
        ((array(3) * zeros,), {}),
        ((array(3) * zeros * zeros[[1, 0, 2]],), {}),
        ((array(2, 3) * zeros, 1), {}),
    ]


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NoValue,
    where: Any = True,
) -> Any:
    """Return the result of `np.prod`. Several axes are merged into one before the primitive is called."""
    if out is not None:
        return stored(out, np.prod, a, axis, dtype, keepdims=keepdims, initial=initial, where=where)
    a = masked(a if dtype is None else astype(a, dtype, copy=False), where, 1)
    shape = shape_of(a)
    axes, keepdims = reduced_axes(axis, len(shape)), keepdims is not _NoValue and bool(keepdims)
    if axes is not None and len(axes) == 1:
        result = PROD(a, axis=axes[0], keepdims=keepdims)
    else:
        if axes is not None:
            kept = tuple([i for i in range(len(shape)) if i not in axes])
            a = np.transpose(a, (*kept, *axes))
        if axes is not None or len(shape) != 1:
            a = RESHAPE(a, shape=(*reduced_shape(shape, axes, keepdims=False), count(shape, axes)))
        result = PROD(a, axis=len(shape_of(a)) - 1, keepdims=False)
        if keepdims:
            result = RESHAPE(result, shape=reduced_shape(shape, axes, keepdims=True))
    result = result if dtype is None else astype(result, dtype, copy=False)
    return result if initial is _NoValue else result * number_like(initial, result)


PROD = general(
    np.prod,
    lambda g, a, axis, keepdims: careful_product(expand(g, shape_of(a), (axis,), keepdims), others(a, axis)),
    jvps=(lambda t, a, axis, keepdims: careful_product(t, others(a, axis)).sum(axis, keepdims=keepdims),),
    compute=lambda a, *, axis, keepdims: (
        _multiply_reduce(a, axis, None, None, keepdims) if type(a) in PLAIN else np.prod(a, axis=axis, keepdims=keepdims)
    ),
    spec=reduced_spec(summed_dtype),
    samples=_prod_samples,
    doc="each factor's derivative is the product of the others; zeros are no exception",
    front=prod,
    reduces=np.multiply,
    batch=along_axis,
    ordered=True,
    curvature="factors",
    dependence="reduction",
)


# Truth


def _enter_truth(function: Any, ufunc: np.ufunc) -> Primitive:
    """Register `np.any` or `np.all`."""
    reduce = ufunc.reduce

    def front(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        refuse_out(out, entry.name)
        if where is not True:
            a = masked(a != 0, where, function is np.all)
        return entry(a, **over(a, axis, keepdims))

    def truth(a: Any, *, axis: Any, keepdims: bool) -> Any:
        if type(a) in PLAIN:
            return reduce(a, axis=axis, dtype=bool, keepdims=keepdims)  # without dtype, an integer beyond int64 is returned
        return function(a, axis=axis, keepdims=keepdims)

    entry = constant(
        function,
        compute=truth,
        spec=reduced_spec(lambda own: _BOOL),
        samples=reduction_samples(dtype=False),
        doc="the result is boolean",
        front=front,
        reduces=ufunc,
        batch=along_axes,
    )
    return entry


ANY = _enter_truth(np.any, np.logical_or)
ALL = _enter_truth(np.all, np.logical_and)


COUNT_NONZERO: Primitive = constant(
    np.count_nonzero,
    spec=reduced_spec(lambda own: _INTP),
    samples=reduction_samples(dtype=False, masks=False),
    doc="a number of elements has no derivative",
    front=lambda a, axis=None, *, keepdims=False: COUNT_NONZERO(a, **over(a, axis, keepdims)),
    reduces=np.add,
    decomposition=lambda a, *, axis, keepdims: np.sum(a != 0, axis, keepdims=keepdims),
    batch=along_axes,
)


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
    decomposition=True,
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
