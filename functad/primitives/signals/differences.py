"""Differences and sums on grids: `diff`, `gradient`, `trapezoid`; the cross product."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.pad import PAD
from functad.primitives.arranging.reshape import Calls, ravel
from functad.primitives.batching import along_axis, on_last_axes
from functad.primitives.elementwise.conversion import astype, laid_out_like
from functad.primitives.entry import Primitive
from functad.primitives.kinds import composite, linear, multilinear
from functad.primitives.operands import as_operand, strong

_NoValue = np._NoValue


def _part(axis: int, *bounds: int | None) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, slice(*bounds))


def array_of(value: Any) -> Any:
    """Return a list or number as an array with a strong dtype; an array or Tensor unchanged."""
    value = strong(as_operand(value))
    return value if hasattr(value, "dtype") else np.asarray(value)


# Differences


def _diff(a: Any, *, n: int, axis: int) -> Any:
    ahead, behind = _part(axis, 1, None), _part(axis, None, -1)
    for _ in range(n):
        a = a[ahead] != a[behind] if dtype_of(a).kind == "b" else a[ahead] - a[behind]
    return a


def _diff_vjp(g: Any, a_shape: tuple[int, ...], n: int, axis: int) -> Any:
    """The n-th differences of `g` padded with zeros, times `(-1)^n`."""
    length = shape_of(g)[axis]
    width = n if length else a_shape[axis]  # an empty result: the cotangent is zero
    g = PAD(g, widths=tuple([(width if length else 0, width) if i == axis else (0, 0) for i in range(len(a_shape))]))
    if not length:
        return g
    g = DIFF(g, n=n, axis=axis)
    return -g if n % 2 else g


def _diff_spec(a: Any, *, n: int, axis: int) -> ArraySpec:
    own = spec_of(a)
    return ArraySpec((*own.shape[:axis], max(own.shape[axis] - n, 0), *own.shape[axis + 1 :]), own.dtype)


def _diff_samples(array: Any) -> Calls:
    return [
        ((array(4),), {}),
        ((array(2, 3),), {}),
        ((array(4, 2), 2, 0), {}),
        ((array(2, 5, 1),), {"n": 3, "axis": -2}),
        ((array(3), 0), {}),
        ((array(2, 2), 2), {}),
        ((array(1), 3), {}),
        ((array(0, 3), 1, 0), {}),
        ((array(3),), {"prepend": array(), "append": array(2)}),
        ((array(2, 3),), {"axis": 0, "prepend": 1.5, "append": array(1, 3)}),
        ((np.arange(3),), {"append": array(2)}),
    ]


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NoValue, append: Any = _NoValue) -> Any:
    """`np.diff`."""
    n = operator.index(n)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = as_operand(a)
    shape = shape_of(a)
    if not shape:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, len(shape))
    parts = [a]
    if prepend is not _NoValue:
        parts.insert(0, _at_the_end(prepend, shape, axis))
    if append is not _NoValue:
        parts.append(_at_the_end(append, shape, axis))
    return DIFF(a if len(parts) == 1 else concatenate(parts, axis), n=n, axis=axis)


DIFF: Primitive = linear(
    np.diff,
    _diff_vjp,
    compute=_diff,
    spec=_diff_spec,
    samples=_diff_samples,
    doc="linear; minus the differences of the cotangent, with zeros at both ends",
    batch=along_axis,
    ordered=True,
    front=diff,
    dependence="differences",
    decomposition=True,
)


def _at_the_end(value: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return `prepend` or `append` of `diff` as a piece of the array; a number is broadcast to all rows."""
    value = array_of(value)
    return value if shape_of(value) else np.broadcast_to(value, (*shape[:axis], 1, *shape[axis + 1 :]))


@composite(
    np.ediff1d,
    samples=lambda array: [
        ((array(4),), {}),
        ((array(2, 3),), {"to_end": array()}),
        ((array(3), array(2), array(1, 2)), {}),
        ((array(3),), {"to_begin": 1.0}),
        ((array(1), array(2)), {}),
        ((array(),), {}),
        ((array(0),), {}),
    ],
    doc="linear: the differences of the elements, and what is put before and behind",
)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    flat = ravel(strong(as_operand(ary)))
    dtype = dtype_of(flat)
    if dtype.kind == "b":
        raise TypeError("np.ediff1d subtracts, and NumPy does not subtract booleans. Use np.diff, or x.astype(int).")
    parts = [DIFF(flat, n=1, axis=0)]
    for name, place, value in (("to_begin", 0, to_begin), ("to_end", 2, to_end)):
        if value is not None:
            given = array_of(value)
            if not np.can_cast(dtype_of(given), dtype, "same_kind"):
                raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
            parts.insert(place, astype(ravel(given), dtype, copy=False))
    return concatenate(parts) if len(parts) > 1 else parts[0]


# Derivatives on a grid


def _gradient_samples(array: Any) -> Calls:
    def steps(n: int) -> Any:
        """Return increasing coordinates."""
        return np.cumsum(np.real(array(n, low=0.5)))

    return [
        ((array(4),), {}),
        ((array(4), 0.5), {}),
        ((array(3), array(low=0.5)), {"edge_order": 2}),
        ((array(4), steps(4)), {}),
        ((array(4), steps(4)), {"edge_order": 2}),
        ((array(3), np.array([0.0, 1.0, 2.0])), {"edge_order": 2}),
        ((array(2, 3),), {}),
        ((array(3, 2), 2.0, np.array([0, 3])), {}),
        ((array(3, 3), steps(3), array(low=0.5)), {"edge_order": 2}),
        ((array(2, 3),), {"axis": -1}),
        ((array(2, 3), steps(3)), {"axis": (1,)}),
        ((array(2, 3, 2), 0.5), {"axis": (2, 0)}),
        ((array(2),), {}),
    ]


@composite(np.gradient, samples=_gradient_samples, doc="linear in the values; in the spacing as the quotients are")
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = strong(as_operand(f))
    ndim = len(shape_of(f))
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if dtype_of(f).kind in "iu":
        f = astype(f, np.float64)
    elif dtype_of(f).kind == "b" and axes:
        np.subtract(np.True_, np.True_)  # NumPy raises for differences of booleans
    spacings: list[Any] = list(map(as_operand, varargs))
    if not spacings:
        spacings = [1.0] * len(axes)
    elif len(spacings) == 1 and not shape_of(spacings[0]):
        spacings *= len(axes)
    elif len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    else:
        spacings = [_steps(spacing, shape_of(f)[i]) for spacing, i in zip(spacings, axes, strict=True)]
    results = [_slope(f, spacing, i, edge_order) for spacing, i in zip(spacings, axes, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _steps(spacing: Any, length: int) -> Any:
    """Return the distances between the given coordinates; a number, the equal distance, unchanged."""
    shape = shape_of(spacing)
    if not shape:
        return spacing
    if len(shape) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if shape[0] != length:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if dtype_of(spacing).kind in "iu":
        spacing = astype(spacing, np.float64)
    return DIFF(spacing, n=1, axis=0)


def _slope(f: Any, h: Any, axis: int, edge_order: int) -> Any:
    """Return the derivative along an axis: central differences inside, one-sided differences of `edge_order` at both edges."""
    shape = shape_of(f)
    if shape[axis] < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
        )
    at = [f[_part(axis, i, i + 1 or None)] for i in (0, 1, -2, -1)]
    equal = not shape_of(h)
    if not equal:
        h = h.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    first, last = (h, h) if equal else (h[:1], h[-1:])
    low, inner, high = f[_part(axis, None, -2)], f[_part(axis, 1, -1)], f[_part(axis, 2, None)]
    if equal:
        middle = (high - low) / (2.0 * h)
    else:
        before, after = h[:-1], h[1:]
        both = before + after
        middle = (
            low * (-after / (before * both)) + inner * ((after - before) / (before * after)) + high * (before / (after * both))
        )
    if edge_order == 1:
        begin, end = (at[1] - at[0]) / first, (at[3] - at[2]) / last
    else:
        second, last_but_one = (h, h) if equal else (h[1:2], h[-2:-1])
        begin = _edge_slope(at[0], at[1], f[_part(axis, 2, 3)], first, second)
        end = -_edge_slope(at[3], at[2], f[_part(axis, -3, -2)], last, last_but_one)
    parts = [begin, middle, end]
    if shape[axis] < 4:  # one row has no memory order; an abstract trace knows the order of this empty part
        parts.append(f[_part(axis, 0, 0)])
    return laid_out_like(astype(concatenate(parts, axis), dtype_of(f), copy=False), f)


def _edge_slope(f0: Any, f1: Any, f2: Any, h1: Any, h2: Any) -> Any:
    """Return the slope, at the first point, of the parabola through three points with distances `h1` and `h2`."""
    both = h1 + h2
    return f1 * (both / (h1 * h2)) - f0 * ((h1 + both) / (h1 * both)) - f2 * (h1 / (h2 * both))


# Integrals on a grid


@composite(
    np.trapezoid,
    samples=lambda array: [
        ((array(4),), {}),
        ((array(4), array(4)), {}),
        ((array(2, 3),), {"dx": array()}),
        ((array(2, 3),), {"x": array(2), "axis": 0}),
        ((array(3, 2, 2),), {"x": array(3, 1), "axis": 0}),
        ((array(2, 3), array(2, 3)), {}),
        ((array(2, 3), np.arange(3)), {"axis": -1}),
        ((array(3, 2), None, 0.5, 0), {}),
        ((array(1),), {}),
        ((np.arange(3), array(3)), {}),
    ],
    doc="linear in the values and in the coordinates",
)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = as_operand(y)
    ndim = len(shape_of(y))
    own = normalize_axis_index(axis, ndim)
    step = dx
    if x is not None:
        x = as_operand(x)
        flat = len(shape_of(x)) == 1
        step = diff(x).reshape((-1,) + (1,) * (ndim - own - 1)) if flat else diff(x, axis=axis)
    return (step * (y[_part(own, 1, None)] + y[_part(own, None, -1)]) / 2.0).sum(axis)


# The cross product


def _cross_spec(a: Any, b: Any) -> ArraySpec:
    one, other = spec_of(a), spec_of(b)
    return ArraySpec(np.broadcast_shapes(one.shape, other.shape), np.result_type(one.dtype, other.dtype))


def _cross_samples(array: Any) -> Calls:
    return [
        ((array(3), array(3)), {}),
        ((array(2, 3), array(3)), {}),
        ((array(2, 1, 3), array(2, 3)), {}),
        ((array(3, 2), array(3, 2)), {"axis": 0}),
        ((array(3, 2), array(2, 3), 0, -1), {}),
        ((array(2, 3), array(2, 3)), {"axisc": 0}),
        ((array(0, 3), array(3)), {}),
        ((array(3), [1.0, 2.0, 3.0]), {}),
    ]


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    """`np.cross`."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _vectors(as_operand(a), axisa, "axisa"), _vectors(as_operand(b), axisb, "axisb")
    lengths = shape_of(a)[-1], shape_of(b)[-1]
    if not set(lengths) <= {2, 3}:
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    if lengths == (2, 2):
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    out = CROSS(_in_space(a), _in_space(b))
    ndim = len(shape_of(out))
    axisc = normalize_axis_index(axisc, ndim, "axisc")
    return out if axisc == ndim - 1 else np.moveaxis(out, -1, axisc)


CROSS: Primitive = multilinear(
    np.cross,
    lambda g, b: CROSS(b, g),
    lambda g, a: CROSS(g, a),
    compute=lambda a, b: np.cross(a, b),
    spec=_cross_spec,
    samples=_cross_samples,
    broadcasts=True,
    doc="d(a x b) = da x b + a x db",
    batch=on_last_axes(1, 1),
    front=cross,
    dependence="cross",
)


def _vectors(a: Any, axis: int, name: str) -> Any:
    """Return an array with the axis of its vectors moved to the end."""
    ndim = len(shape_of(a))
    if not ndim:
        raise ValueError("At least one array has zero dimension")
    axis = normalize_axis_index(axis, ndim, name)
    return a if axis == ndim - 1 else np.moveaxis(a, axis, -1)


def _in_space(a: Any) -> Any:
    """Return vectors of length 2 padded to length 3 with a zero."""
    shape = shape_of(a)
    return a if shape[-1] == 3 else PAD(a, widths=((0, 0),) * (len(shape) - 1) + ((0, 1),))


@composite(
    np.linalg.cross,
    samples=lambda array: [((array(3), array(2, 3)), {}), ((array(3, 2), array(3, 2)), {"axis": 0})],
    doc="as cross",
)
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x1, x2 = as_operand(x1), as_operand(x2)
    lengths = shape_of(x1)[axis], shape_of(x2)[axis]
    if lengths != (3, 3):
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {lengths[0]} and {lengths[1]} "
            f"dimensional instead."
        )
    return cross(x1, x2, axis=axis)
