"""Spline interpolation of images for `map_coordinates`, `affine_transform`, `zoom`, `shift` and `rotate` of `scipy.ndimage`.

A value is a sum over the B-splines around a point, weighted by the coefficients of `spline_filter1d` (M. Unser, A. Aldroubi
and M. Eden, "B-spline signal processing", 1993). The value is linear in the image and differentiable with respect to the
point. At a knot the derivative belongs to the right piece; at the end of the image it belongs to the inner piece.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import LowLevelCallable
from scipy.ndimage import _nd_image as compiled

from functad.adoption.arrays import has_tensors
from functad.adoption.scipy_functions import of_tensors, plain_value
from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.arranging.reshape import Calls, same_spec
from functad.primitives.batching import along_axis
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import get_item
from functad.primitives.kinds import linear
from functad.primitives.operands import is_traced
from functad.transforms.grad import stop_gradient

ND_IMAGE = "scipy.ndimage._nd_image"
NEAREST, WRAP, REFLECT, MIRROR, CONSTANT, GRID_WRAP, GRID_CONSTANT = range(7)


def into_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that returns an array into one that writes to its argument `output`, of any dtype."""
    names = list(inspect.signature(function).parameters)
    place = names.index("output")
    original = getattr(compiled, function.__name__)

    @functools.wraps(function)
    def called(*args: Any) -> None:
        output, others = args[place], (*args[:place], *args[place + 1 :])
        dtype = dtype_of(output)
        if type(args[1]) is not LowLevelCallable and (has_tensors(others) or callable(args[1])):
            values = function(*args)
            if dtype.kind in "iu":  # C adds a half away from zero and truncates; the derivative is zero
                output[...] = np.trunc(plain_value(values) + np.where(plain_value(values) > 0, 0.5, -0.5))
                return
            if is_traced(values) and not is_traced(output):
                raise UnsupportedError(
                    f"scipy.ndimage of a Tensor with an array as output=, at {here()}, which cannot take one. Leave it out, or "
                    f"give a dtype, and take the result."
                )
            output[...] = values
        else:  # only `output` can hold Tensors
            values = np.empty(shape_of(output), dtype)
            original(*args[:place], values, *args[place + 1 :])
            output[...] = values

    return called


# Coefficients

_FEW = 32


def _filtered(x: Any, *, order: int, axis: int, mode: int) -> Any:
    if x.dtype.kind == "c":
        real, imaginary = (_filtered(part, order=order, axis=axis, mode=mode) for part in (x.real, x.imag))
        return real + 1j * imaginary
    output = np.empty(x.shape)
    compiled.spline_filter1d(x, order, axis % x.ndim, output, mode)
    return output.astype(x.dtype, copy=False)


def _filter_transposed(g: Any, order: int, axis: int, mode: int) -> Any:
    """Apply the transposed filter: the filter itself, with other weights where a mirror mode counts the end elements once.

    SciPy's filter deviates from this for a few reflected elements; the transposed matrix is then applied instead.
    """
    axis %= len(shape_of(g))
    n = shape_of(g)[axis]
    if mode in (NEAREST, REFLECT) and n <= _FEW:
        matrix = _filtered(np.eye(n), order=order, axis=0, mode=mode)
        return np.moveaxis(np.moveaxis(g, axis, -1) @ matrix, -1, axis)
    counts = np.ones(n, dtype_of(g))
    if mode not in (NEAREST, REFLECT, GRID_WRAP):
        counts[1:-1] = 2
    counts = np.expand_dims(counts, tuple(range(1, len(shape_of(g)) - axis)))
    return counts * SPLINE_FILTER(g / counts, order=order, axis=axis, mode=mode)


def _filter_samples(array: Any) -> Calls:
    return [
        ((array(*shape),), {"order": order, "axis": axis, "mode": mode})
        for shape, axis, order, mode in (
            ((5,), 0, 3, MIRROR), ((2, 4), 1, 2, REFLECT), ((4, 2), 0, 5, WRAP), ((33,), -1, 4, NEAREST), ((1,), 0, 3, MIRROR),
            ((4,), 0, 5, GRID_WRAP),
        )
    ]  # fmt: skip


SPLINE_FILTER: Primitive = linear(
    _filtered,
    _filter_transposed,
    name="spline_filter1d",
    internal=True,
    spec=same_spec,
    samples=_filter_samples,
    doc="linear; the transpose is the filter itself, but for weights at the ends that are mirrored",
    batch=along_axis,
)


@of_tensors(ND_IMAGE)
@into_output
def spline_filter1d(input: Any, order: int, axis: int, output: Any, mode: int) -> Any:
    """Return the spline coefficients along an axis."""
    return SPLINE_FILTER(input * 1.0, order=order, axis=axis, mode=mode)


# Interpolated values


def _moved_inside(x: Any, n: int, mode: int) -> Any:
    """Return coordinates moved into an image that `mode` extends, or -1 where the extension is constant.

    Args:
        x: coordinates along an axis.
        n: the length of the axis.
        mode: `MIRROR`, `REFLECT`, `WRAP`, `GRID_WRAP`, `CONSTANT` or `NEAREST`.
    """
    below, above = x < 0, x > n - 1
    if mode == CONSTANT:
        return np.where(below | above, -1.0, x)
    if mode == NEAREST:
        return np.where(below, 0.0, np.where(above, n - 1.0, x))
    if n <= 1:
        return np.where(below | above, 0.0, x)
    if mode in (WRAP, GRID_WRAP):
        period, first = (n - 1, 0) if mode == WRAP else (n, -1)
        return np.where(
            below,
            x + period * (np.trunc((first - x) / period) + 1),
            np.where(above, x - period * np.trunc(x / period), x),
        )
    period, extra = (2 * n - 2, 0) if mode == MIRROR else (2 * n, 1)
    low = np.where(below & (x < -period * extra), period * np.trunc(-x / period) + x, x)
    high = x - period * np.trunc(x / period)
    inner = np.where((low > -1e-15) & (extra == 1), -1.0, -low - extra)
    low = np.where(low <= 1 - n if mode == MIRROR else low < -n, low + period, inner)
    return np.where(below, low, np.where(above, np.where(high >= n, period - high - extra, high), x))


@functools.cache
def _pieces(order: int) -> Any:
    """Return the polynomials of the B-splines that are nonzero between two knots: coefficients, lowest power first.

    They follow from de Boor's recurrence for integer knots.
    """
    x = np.polynomial.Polynomial([0.0, 1.0])
    splines = [np.polynomial.Polynomial([1.0])]
    for p in range(1, order + 1):
        before = [0.0 * x, *splines, 0.0 * x]
        splines = [(x + (p - j)) / p * before[j] + (1 + j - x) / p * before[j + 1] for j in range(p + 1)]
    return np.array([np.resize(np.append(s.coef, np.zeros(order + 1)), order + 1) for s in splines]).T


class _Around:
    """The B-splines around points along one axis.

    Attributes:
        numbers: the indices of their coefficients, along an additional last axis.
        weights: their values, along an additional last axis; `None` where each point takes the nearest value.
        inside: a mask of the points inside the image; `None` if all points are.
        beyond: a mask of the coefficients in the constant region outside the image; `None` if there are none.
    """

    def __init__(self, x: Any, n: int, order: int, mode: int, padded: int) -> None:
        x = x + 1.0 * padded
        self.inside = self.beyond = self.weights = None
        if mode not in (GRID_CONSTANT, NEAREST):
            x = _moved_inside(x, n, mode)
            self.inside = stop_gradient(x) > -1
            x = np.where(self.inside, x, 0.0)  # NaN counts as outside
        shifted = x if order % 2 else x + 0.5
        left = np.floor(stop_gradient(shifted))
        if order == 1 and n > 1 and mode in (NEAREST, CONSTANT, WRAP):
            left = left - (stop_gradient(x) == n - 1)  # at the end, take the inner slope
        if order:
            pieces, u = _pieces(order), (shifted - left)[..., None]
            weights = pieces[order]
            for k in range(order - 1, -1, -1):
                weights = weights * u + pieces[k]
            self.weights = weights
        numbers = (left - order // 2)[..., None] + np.arange(order + 1.0)
        if mode == GRID_CONSTANT:
            self.beyond = (numbers < 0) | (numbers > n - 1)
            numbers = np.where(self.beyond, 0.0, numbers)
        else:
            numbers = np.trunc(_moved_inside(numbers, n, MIRROR if mode in (CONSTANT, WRAP) else mode))
        self.numbers = numbers.astype(np.int64)


def _all_inside(axes: Sequence[_Around]) -> Any:
    inside: Any = True
    for around in axes:
        if around.inside is not None:
            inside = inside & around.inside
    return inside


def _constant_outside(values: Any, axes: Sequence[_Around], cval: Any) -> Any:
    inside = _all_inside(axes)
    return values if inside is True else np.where(inside, values, cval)


@functools.cache
def _shift_first() -> bool:
    """Return `True` if SciPy adds coordinates to the offset first: the rounding decides if a point is just inside the image."""
    for a, b in itertools.product(np.arange(-9, 10) / 10, repeat=2):
        c = -round(a + 2 * b, 1)
        if ((c + a) + 2 * b < 0) != ((a + 2 * b) + c < 0):
            found = np.empty((2, 3))
            matrix, offset = np.array([[a, b], [0.0, 0.0]]), np.array([c, 0.0])
            compiled.geometric_transform(np.ones((2, 2)), None, None, matrix, offset, found, 0, CONSTANT, 0.0, 0, None, None)
            return bool((found[1, 2] == 0) == ((c + a) + 2 * b < 0))
    return True


def _affine(matrix: Any, shift: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the image coordinates of all points of an output array, one array for each image axis."""
    points = np.indices(shape, dtype=float)
    places = []
    for row, offset in zip(matrix, shift, strict=True):
        place = offset if _shift_first() else 0.0
        for factor, coordinate in zip(row, points, strict=True):
            place = place + coordinate * factor
        places.append(place if _shift_first() else place + offset)
    return places


def _mapped(mapping: Callable[..., Any], shape: tuple[int, ...], args: Any, kwargs: Any) -> list[Any]:
    """Return the image coordinates from a user function, which is called for each point."""
    found = [mapping(place, *(args or ()), **(kwargs or {})) for place in np.ndindex(*shape)]
    columns = [np.stack([np.asarray(x) if not has_tensors((x,)) else x for x in column]) for column in zip(*found, strict=True)]
    return [column.reshape(shape) for column in columns]


@of_tensors(ND_IMAGE, within=True)
@into_output
def geometric_transform(
    input: Any, mapping: Any, coordinates: Any, matrix: Any, shift: Any, output: Any,
    order: int, mode: int, cval: Any, nprepad: int = 0, extra_arguments: Any = (), extra_keywords: Any = None,
) -> Any:  # fmt: skip
    """Return the image values at points given by a function, by an array, or by a matrix and an offset."""
    shape = shape_of(output)
    if mapping is not None:
        if not callable(mapping):
            raise UnsupportedError(
                f"scipy.ndimage.geometric_transform of a Tensor with a compiled mapping, at {here()}: it takes no Tensors, "
                f"and has no derivative. Write it in Python."
            )
        places = _mapped(mapping, shape, extra_arguments, extra_keywords)
    else:
        places = list(coordinates) if coordinates is not None else _affine(matrix, shift, shape)
    axes = [_Around(x, n, order, mode, nprepad) for x, n in zip(places, shape_of(input), strict=True)]
    places = [_along(around.numbers, d, len(axes)) for d, around in enumerate(axes)]
    numbers = functools.reduce(lambda flat, pair: flat * pair[1] + pair[0], zip(places, shape_of(input), strict=True), 0)
    values = get_item(input.reshape(-1), numbers)
    if mode == GRID_CONSTANT:
        outside = functools.reduce(np.logical_or, [_along(a.beyond, d, len(axes)) for d, a in enumerate(axes)])
        values = np.where(outside, cval, values)
    for d, around in reversed(list(enumerate(axes))):
        weights = around.weights
        values = values[..., 0] if weights is None else np.sum(values * _along(weights, d, d + 1), -1)
    return _constant_outside(values, axes, cval)


def _along(x: Any, axis: int, count: int) -> Any:
    """Reshape an array so that its last axis becomes axis `axis` of `count` trailing axes; the others have length 1."""
    shape = shape_of(x)
    return x.reshape(*shape[:-1], *[1] * axis, shape[-1], *[1] * (count - 1 - axis))


@of_tensors(ND_IMAGE)
@into_output
def zoom_shift(
    input: Any, zoom: Any, shift: Any, output: Any, order: int, mode: int, cval: Any, nprepad: int = 0, grid_mode: Any = False
) -> Any:
    """Return the image values on the grid `x = zoom (k + shift)`, computed one axis after the other."""
    axes, shape = [], shape_of(output)
    values = input
    for d, (n, m) in enumerate(zip(shape_of(input), shape, strict=True)):
        x: Any = np.arange(float(m))
        if shift is not None:
            x = x + shift[d]
        if zoom is not None:
            x = (x + 0.5) * zoom[d] - 0.5 if grid_mode else x * zoom[d]
        around = _Around(x, n, order, mode, nprepad)
        taken = get_item(np.moveaxis(values, d, -1), (..., around.numbers))
        if around.beyond is not None:
            taken = np.where(around.beyond, cval, taken)
        values = np.moveaxis(taken[..., 0] if around.weights is None else np.sum(taken * around.weights, -1), -1, d)
        if around.inside is not None:
            around.inside = around.inside.reshape(m, *[1] * (len(shape) - 1 - d))
        axes.append(around)
    return _constant_outside(values, axes, cval)
