"""`scipy.ndimage`: compiled filters as NumPy functions that write to an output buffer, as SciPy's functions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage as _original

from functad.adoption.creation import zeros
from functad.adoption.scipy_functions import of_tensors
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import as_operand
from functad.scipy._resampling import CONSTANT, GRID_CONSTANT, GRID_WRAP, MIRROR, ND_IMAGE, NEAREST, REFLECT, WRAP, into_output

_PADDING = {NEAREST: "edge", WRAP: "wrap", GRID_WRAP: "wrap", REFLECT: "symmetric", MIRROR: "reflect"}


def _extended(x: Any, axis: int, width: tuple[int, int], mode: int, cval: Any) -> Any:
    """Return an array padded before and after along an axis; `mode` selects the values."""
    if mode in (CONSTANT, GRID_CONSTANT):
        widths = [(0, 0)] * len(shape_of(x))
        widths[axis] = width
        return np.pad(x, widths, constant_values=cval)
    places = np.pad(np.arange(shape_of(x)[axis]), width, _PADDING[mode])  # type: ignore[call-overload]
    return np.take(x, places, axis)


def _before(size: int, origin: int) -> int:
    return size // 2 + origin


@of_tensors(ND_IMAGE)
def correlate1d(input: Any, weights: Any, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    """Write the correlation with a vector along an axis to `output`."""
    size = shape_of(weights)[0]
    before = _before(size, origin)
    x = _extended(input, axis, (before, size - 1 - before), mode, cval)
    output[...] = sliding_window_view(x, size, axis) @ weights


@of_tensors(ND_IMAGE)
def uniform_filter1d(input: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    """Write the mean of the neighbours of each element along an axis to `output`."""
    correlate1d(input, np.full(size, 1 / size), axis, output, mode, cval, origin)


@of_tensors(ND_IMAGE)
def correlate(input: Any, weights: Any, output: Any, mode: int, cval: Any, origins: Any) -> None:
    """Write the correlation with an array of the same number of axes to `output`."""
    x, sizes = input, shape_of(weights)
    for axis, (size, origin) in enumerate(zip(sizes, origins, strict=True)):
        before = _before(size, int(origin))
        x = _extended(x, axis, (before, size - 1 - before), mode, cval)
    out: Any = 0.0
    for place in np.ndindex(*sizes):
        out = out + x[tuple([slice(i, i + n) for i, n in zip(place, shape_of(input), strict=True)])] * weights[place]
    output[...] = out


def _around(x: Any, footprint: Any, mode: int, cval: Any, origins: Any) -> Any:
    """Return the footprint neighbours of each element, along an additional last axis."""
    shape = shape_of(x)
    for axis, (size, origin) in enumerate(zip(footprint.shape, origins, strict=True)):
        before = _before(size, int(origin))
        x = _extended(x, axis, (before, size - 1 - before), mode, cval)
    return sliding_window_view(x, footprint.shape)[(*[slice(None)] * len(shape), footprint)]


@of_tensors(ND_IMAGE)
@into_output
def min_or_max_filter1d(input: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int, minimum: int) -> Any:
    """Return the minimum or maximum of the neighbours of each element along an axis; ties share the derivative."""
    before = _before(size, origin)
    x = sliding_window_view(_extended(input, axis, (before, size - 1 - before), mode, cval), size, axis)
    return np.min(x, -1) if minimum else np.max(x, -1)


@of_tensors(ND_IMAGE)
@into_output
def min_or_max_filter(
    input: Any, footprint: Any, structure: Any, output: Any, mode: int, cval: Any, origins: Any, minimum: int
) -> Any:
    """Return the minimum or maximum over a footprint, after subtraction or addition of a structure."""
    x = _around(input, footprint, mode, cval, origins)
    if structure is not None:
        x = x - structure[footprint] if minimum else x + structure[footprint]
    return np.min(x, -1) if minimum else np.max(x, -1)


@of_tensors(ND_IMAGE)
@into_output
def rank_filter(input: Any, rank: int, footprint: Any, output: Any, mode: int, cval: Any, origins: Any) -> Any:
    """Return the element of a given rank in each footprint."""
    return np.sort(_around(input, footprint, mode, cval, origins), -1)[..., rank]


@of_tensors("scipy.ndimage._rank_filter_1d", "rank_filter")
def _rank_filter_1d(input: Any, rank: int, size: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    """Write the element of a given rank in each neighbourhood of one axis to `output`."""
    output[...] = np.sort(_around(input, np.ones(size, bool), mode, cval, [origin]), -1)[..., rank]


@of_tensors(ND_IMAGE, within=True)
@into_output
def generic_filter1d(
    input: Any, function: Any, filter_size: int, axis: int, output: Any, mode: int, cval: Any, origin: int,
    extra_arguments: Any = (), extra_keywords: Any = None,
) -> Any:  # fmt: skip
    """Return the lines that a user function writes, given each padded input line."""
    before = _before(filter_size, origin)
    lines = np.moveaxis(_extended(input, axis, (before, filter_size - 1 - before), mode, cval), axis, -1)
    shape = (*shape_of(lines)[:-1], shape_of(input)[axis])
    written = []
    for place in np.ndindex(shape[:-1]):
        line = zeros(shape[-1])
        function(lines[place], line, *(extra_arguments or ()), **(extra_keywords or {}))
        written.append(line)
    return np.moveaxis(np.stack(written).reshape(shape), -1, axis)


@of_tensors(ND_IMAGE, within=True)
@into_output
def generic_filter(
    input: Any, function: Any, footprint: Any, output: Any, mode: int, cval: Any, origins: Any,
    extra_arguments: Any = (), extra_keywords: Any = None,
) -> Any:  # fmt: skip
    """Return the values of a user function for the elements in each footprint."""
    x = _around(input, footprint, mode, cval, origins)
    shape = shape_of(input)
    found = [function(x[place], *(extra_arguments or ()), **(extra_keywords or {})) for place in np.ndindex(*shape)]
    return np.stack([as_operand(value) for value in found]).reshape(shape)


def _frequencies(shape: tuple[int, ...], axis: int, n: int) -> list[Any]:
    """Return the frequencies along each axis; `axis` has half a spectrum of `n` elements if `n >= 0`."""
    found = [np.arange(m) / n if k == axis and n >= 0 else np.fft.fftfreq(m) for k, m in enumerate(shape)]
    return [f.reshape(-1, *[1] * (len(shape) - 1 - k)) for k, f in enumerate(found)]


@of_tensors(ND_IMAGE)
@into_output
def fourier_filter(input: Any, sizes: Any, n: int, axis: int, output: Any, kind: int) -> Any:
    """Return a spectrum times the transform of a Gaussian or a box."""
    if kind == 2:
        raise UnsupportedError(f"scipy.ndimage.fourier_ellipsoid of a Tensor, at {here()}: {_ELLIPSOID}.")
    out = input
    for k, f in enumerate(_frequencies(shape_of(input), axis, n)):
        out = out * (np.exp(-2 * (np.pi * sizes[k] * f) ** 2) if kind == 0 else np.sinc(sizes[k] * f))
    return out


@of_tensors(ND_IMAGE)
@into_output
def fourier_shift(input: Any, shifts: Any, n: int, axis: int, output: Any) -> Any:
    """Return a spectrum times the transform of a shift."""
    turns = sum(shifts[k] * f for k, f in enumerate(_frequencies(shape_of(input), axis, n)))
    return input * np.exp(-2j * np.pi * turns)


@of_tensors("scipy.ndimage._filters")
def _gaussian_kernel1d(sigma: Any, order: int, radius: int) -> Any:
    """Return a sampled Gaussian or its derivative: `q` times the Gaussian, where `q' - q x / sigma^2` gives the next order."""
    x = np.arange(-radius, radius + 1)
    phi = np.exp(-0.5 / (sigma * sigma) * x**2)
    phi = phi / phi.sum()
    q: Any = np.eye(order + 1)[0]
    by_x, slope = np.eye(order + 1, k=-1), np.diag(np.arange(1.0, order + 1), 1)
    for _ in range(order):
        q = slope @ q - by_x @ q / (sigma * sigma)
    return (x[:, None] ** np.arange(order + 1)) @ q * phi


def _whole(name: str) -> Callable[..., Any]:
    """Return SciPy's function, with its Python code adopted; plain arguments run outside all traces."""
    original = getattr(_original, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return called


for _name in _original.__all__:
    of_tensors("scipy.ndimage", _name, within=True)(_whole(_name))

_ELLIPSOID = "that of a ball is compiled; multiply by what it should be"

REFUSED: dict[str, str] = {"fourier_ellipsoid": _ELLIPSOID}
"""Functions that reject Tensors, and the reasons."""
