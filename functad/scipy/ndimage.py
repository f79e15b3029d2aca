"""`scipy.ndimage`: its compiled filters, over NumPy, which write into an array that is made for them, as SciPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage as _original

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import shape_of
from functad.scipy._resampling import CONSTANT, MIRROR, ND_IMAGE, NEAREST, REFLECT, WRAP

_PADDING = {NEAREST: "edge", WRAP: "wrap", REFLECT: "symmetric", MIRROR: "reflect"}


def _extended(x: Any, axis: int, width: tuple[int, int], mode: int, cval: Any) -> Any:
    """Return an array with more elements before and after those along an axis, as a mode says."""
    if mode == CONSTANT:
        widths = [(0, 0)] * len(shape_of(x))
        widths[axis] = width
        return np.pad(x, widths, constant_values=cval)
    places = np.pad(np.arange(shape_of(x)[axis]), width, _PADDING[mode])  # type: ignore[call-overload]
    return np.take(x, places, axis)


def _before(size: int, origin: int) -> int:
    return size // 2 + origin


@of_tensors(ND_IMAGE)
def correlate1d(input: Any, weights: Any, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    """Correlation with a vector along an axis."""
    size = shape_of(weights)[0]
    before = _before(size, origin)
    x = _extended(input, axis, (before, size - 1 - before), mode, cval)
    output[...] = sliding_window_view(x, size, axis) @ weights


@of_tensors(ND_IMAGE)
def uniform_filter1d(input: Any, size: int, axis: int, output: Any, mode: int, cval: Any, origin: int) -> None:
    """The mean of the elements around each along an axis."""
    correlate1d(input, np.full(size, 1 / size), axis, output, mode, cval, origin)


@of_tensors(ND_IMAGE)
def correlate(input: Any, weights: Any, output: Any, mode: int, cval: Any, origins: Any) -> None:
    """Correlation with an array of as many axes."""
    x, sizes = input, shape_of(weights)
    for axis, (size, origin) in enumerate(zip(sizes, origins, strict=True)):
        before = _before(size, int(origin))
        x = _extended(x, axis, (before, size - 1 - before), mode, cval)
    out: Any = 0.0
    for place in np.ndindex(*sizes):
        out = out + x[tuple([slice(i, i + n) for i, n in zip(place, shape_of(input), strict=True)])] * weights[place]
    output[...] = out


@of_tensors("scipy.ndimage._filters")
def _gaussian_kernel1d(sigma: Any, order: int, radius: int) -> Any:
    """A sampled Gaussian, or a derivative of it: a polynomial `q` times it, with `q' - q x / sigma^2` for the next order."""
    x = np.arange(-radius, radius + 1)
    phi = np.exp(-0.5 / (sigma * sigma) * x**2)
    phi = phi / phi.sum()
    q: Any = np.eye(order + 1)[0]
    by_x, slope = np.eye(order + 1, k=-1), np.diag(np.arange(1.0, order + 1), 1)
    for _ in range(order):
        q = slope @ q - by_x @ q / (sigma * sigma)
    return (x[:, None] ** np.arange(order + 1)) @ q * phi


def _whole(name: str) -> Callable[..., Any]:
    """Return SciPy's function, whose Python code is adopted: for plain arguments it runs as if there were no trace."""
    original = getattr(_original, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return called


for _name in _original.__all__:
    of_tensors("scipy.ndimage", _name, within=True)(_whole(_name))

REFUSED: dict[str, str] = {
    name: reason
    for names, reason in (
        ("rank_filter median_filter percentile_filter minimum_filter maximum_filter", "order statistics are compiled"),
        ("fourier_gaussian fourier_uniform fourier_ellipsoid fourier_shift", "compiled; multiply a transform of scipy.fft"),
        ("generic_filter generic_filter1d", "compiled; call the function on sliding windows"),
    )
    for name in names.split()
}
"""Functions that take no Tensors, and why."""
