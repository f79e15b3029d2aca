"""Discrete Fourier transforms, all of `np.fft`.

Four transforms along one axis are primitives; the others are compositions. A transform first crops the axis or pads it with
zeros to `n` points, so its transpose crops or pads its result. The matrices of `fft` and `ifft` are symmetric, so each is its
own transpose. `rfft` and `irfft` omit half of a Hermitian spectrum. Their transposes multiply the points with an omitted
conjugate by 2 or 1/2, and take real parts of products.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import warn
from functad.primitives.arranging.pad import PAD
from functad.primitives.arranging.reshape import Calls, same_spec
from functad.primitives.batching import along_axis
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import ENTRIES, Primitive, Rule, Samples
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import refuse_out, strong

_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _conjugate(a: Any) -> Any:
    return a.conj() if dtype_of(a).kind == "c" else a


def _fitted(a: Any, length: int, axis: int) -> Any:
    """Return an array cropped or zero-padded at the end to `length` along an axis."""
    shape = shape_of(a)
    if shape[axis] > length:
        return a[(*(slice(None),) * axis, slice(length))]
    if shape[axis] < length:
        return PAD(a, widths=tuple([(0, length - n if i == axis else 0) for i, n in enumerate(shape)]))
    return a


@lru_cache
def _transformed_dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the result of a transform, from a call of NumPy."""
    out: np.dtype[Any] = getattr(np.fft, name)(np.zeros(1, dtype), 2).dtype
    return out


def _transform_samples(array: Any) -> Calls:
    return [
        ((array(4),), {}),
        ((array(3),), {"norm": "ortho"}),
        ((array(2, 3), 5), {"norm": "forward"}),
        ((array(4, 2), 3, 0), {}),
        ((array(2, 3, 1), 6), {"axis": -2, "norm": "backward"}),
        ((np.real(array(3)), 4), {}),
        ((array(3), 1), {}),
        ((array(3), 2), {}),
        ((array(0, 3),), {}),
    ]


def _front(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the transform along one axis, with NumPy's signature."""
    halves, doubles = function is np.fft.rfft, function is np.fft.irfft

    def front(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
        refuse_out(out, f"fft.{function.__name__}")
        if halves and dtype_of(a).kind == "c":
            raise TypeError("rfft takes real numbers; use np.fft.fft for complex ones")
        if norm is None:
            norm = "backward"
        elif norm not in _OPPOSITE:
            raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
        shape = shape_of(a)
        axis = normalize_axis_index(axis, len(shape))
        if n is None:
            n = 2 * (shape[axis] - 1) if doubles else shape[axis]
        n = operator.index(n)
        if doubles and dtype_of(a).kind == "f":  # the cotangent is complex; the rule of the cast takes the real part
            a = astype(a, np.result_type(dtype_of(a), np.complex64), copy=False)
        if n < 1:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
        transform: Any = ENTRIES[function]
        return transform(a, n=n, axis=axis, norm=norm)

    return front


def _transform(name: str, vjp: Rule, samples: Samples, doc: str, **traits: Any) -> Primitive:
    """Return NumPy's transform `name` along one axis, entered as a primitive."""
    function = getattr(np.fft, name)

    def compute(a: Any, *, n: int, axis: int, norm: str) -> Any:
        return function(a, n, axis, norm)

    def spec(a: Any, *, n: int, axis: int, norm: str) -> ArraySpec:
        own = spec_of(a)
        length = n // 2 + 1 if name == "rfft" else n
        return ArraySpec((*own.shape[:axis], length, *own.shape[axis + 1 :]), _transformed_dtype(name, own.dtype))

    return linear(
        function,
        vjp,
        compute=compute,
        spec=spec,
        samples=samples,
        doc=doc,
        batch=along_axis,
        front=_front(function),
        dependence="axes",
        **traits,
    )


FFT: Primitive = _transform(
    "fft",
    lambda g, a_shape, n, axis, norm: _fitted(FFT(g, n=n, axis=axis, norm=norm), a_shape[axis], axis),
    _transform_samples,
    "linear; its matrix is symmetric, so the cotangent is transformed alike",
)
IFFT: Primitive = _transform(
    "ifft",
    lambda g, a_shape, n, axis, norm: _fitted(IFFT(g, n=n, axis=axis, norm=norm), a_shape[axis], axis),
    _transform_samples,
    "linear; its matrix is symmetric, so the cotangent is transformed alike",
)


# Transforms between real numbers and half of a Hermitian spectrum


def _weighed(a: Any, *, factor: float, n: int, axis: int) -> Any:
    """Return the conjugate of half a spectrum, with a factor at each point whose conjugate is omitted.

    Frequency 0, and the highest frequency if `n` is even, have no conjugate point and no factor.
    """
    out = np.conjugate(a)
    before = (slice(None),) * axis
    out[(*before, slice(1, (n + 1) // 2))] *= factor
    return out


WEIGHED: Primitive = linear(
    _weighed,
    lambda g, factor, n, axis: WEIGHED(g, factor=factor, n=n, axis=axis),
    spec=same_spec,
    samples=lambda array: [
        ((array(*shape),), {"factor": factor, "n": n, "axis": axis})
        for shape, factor, n, axis in (
            ((3,), 2.0, 4, 0),
            ((3,), 0.5, 5, 0),
            ((2, 2), 2.0, 3, 1),
            ((2, 2), 0.5, 2, 0),
            ((1,), 2.0, 1, 0),
        )
    ],
    name="weighed",
    internal=True,
    decomposition=True,
    doc="linear over the reals, and its own transpose",
    batch=along_axis,
    dependence="same",
)


def _rfft_vjp(g: Any, a_shape: tuple[int, ...], n: int, axis: int, norm: str) -> Any:
    """`Re(sum_k g[k] w^(jk))` over half the frequencies: an `irfft` of `conj(g)`, halved because `irfft` counts most twice."""
    half = WEIGHED(g, factor=0.5, n=n, axis=axis)
    return _fitted(IRFFT(half, n=n, axis=axis, norm=_OPPOSITE[norm]), a_shape[axis], axis)


RFFT: Primitive = _transform(
    "rfft",
    _rfft_vjp,
    lambda array: [call for call in _transform_samples(array) if call[0][0].dtype == array().dtype],  # not the always real ones
    "linear; the cotangent is transformed by irfft, its conjugate halved where a frequency stands for two",
    complex=False,
)


def _irfft_vjp(g: Any, a_shape: tuple[int, ...], n: int, axis: int, norm: str) -> Any:
    """`sum_j g[j] w^(-jk)`, times 2 where the conjugate frequency is omitted: the conjugate of an `rfft`."""
    half = WEIGHED(RFFT(g, n=n, axis=axis, norm=_OPPOSITE[norm]), factor=2.0, n=n, axis=axis)
    return _fitted(half, a_shape[axis], axis)


def _hermitian_samples(array: Any) -> Calls:
    return [
        ((array(3),), {}),
        ((array(3), 5), {"norm": "ortho"}),
        ((array(2, 3), 7), {"norm": "forward"}),
        ((array(4, 2), 3, 0), {}),
        ((array(2, 2, 1), 6), {"axis": -2, "norm": "backward"}),
        ((np.real(array(3)), 4), {}),
        ((array(2), 1), {}),
        ((array(0, 3),), {}),
    ]


IRFFT: Primitive = _transform(
    "irfft",
    _irfft_vjp,
    _hermitian_samples,
    "linear; the cotangent is transformed by rfft, its conjugate doubled where a frequency stands for two",
)

fft, ifft, rfft, irfft = FFT.front, IFFT.front, RFFT.front, IRFFT.front


def _swapped(norm: str | None) -> str:
    if norm is not None and norm not in _OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return _OPPOSITE[norm or "backward"]


@composite(np.fft.hfft, samples=_hermitian_samples, doc="irfft of the conjugate")
def _hfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    refuse_out(out, "fft.hfft")
    return irfft(_conjugate(a), n, axis, _swapped(norm))


@composite(
    np.fft.ihfft,
    samples=lambda array: [
        ((array(4),), {}),
        ((array(2, 3), 5), {"norm": "forward"}),
        ((array(4, 2), 3, 0, "ortho"), {}),
        ((array(3), 1), {}),
    ],
    complex=False,
    doc="the conjugate of rfft",
)
def _ihfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
    refuse_out(out, "fft.ihfft")
    return rfft(a, n, axis, _swapped(norm)).conj()


# Several axes


def _lengths_and_axes(a: Any, s: Any, axes: Any, *, hermitian: bool = False) -> tuple[list[Any], list[int]]:
    """Return the length and the number of each axis to transform, as NumPy reads its arguments `s` and `axes`."""
    shape = shape_of(a)
    if axes is None:
        if s is not None:
            message = "`axes` should not be `None` if `s` is not `None`; pass axes=[0, ..., k - 1]"
            warn(DeprecationWarning(message))
        axes = range(-len(shape if s is None else s), 0)
    axes = [normalize_axis_index(axis, len(shape)) for axis in axes]
    if s is None:
        lengths: list[Any] = [shape[axis] for axis in axes]
        if hermitian and axes:
            lengths[-1] = 2 * (lengths[-1] - 1)
        return lengths, axes
    if len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return [shape[axis] if n == -1 else n for n, axis in zip(s, axes, strict=True)], axes


def _last_first(one: Callable[..., Any], a: Any, s: Any, axes: Any, norm: Any) -> Any:
    """Return the transform along several axes, the last first."""
    a = strong(a)
    lengths, axes = _lengths_and_axes(a, s, axes)
    for n, axis in zip(reversed(lengths), reversed(axes), strict=True):
        a = one(a, n, axis, norm)
    return a


def _rfft_last(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    lengths, axes = _lengths_and_axes(a, s, axes)
    a = rfft(a, lengths[-1], axes[-1], norm)
    for n, axis in zip(lengths[-2::-1], axes[-2::-1], strict=True):
        a = fft(a, n, axis, norm)
    return a


def _irfft_last(a: Any, s: Any, axes: Any, norm: Any) -> Any:
    lengths, axes = _lengths_and_axes(a, s, axes, hermitian=True)
    for n, axis in zip(lengths[:-1], axes[:-1], strict=True):
        a = ifft(a, n, axis, norm)
    return irfft(a, lengths[-1], axes[-1], norm)


def _many_samples(array: Any) -> Calls:
    return [
        ((array(2, 3),), {}),
        ((array(2, 3), (3, 2)), {"axes": (1, 0), "norm": "ortho"}),
        ((array(2, 2, 3),), {"axes": (0, 2), "norm": "forward"}),
        ((array(3, 2), (2, -1), (0, 1)), {}),
        ((array(2, 3),), {"axes": (-1,)}),
    ]


def _plane_samples(array: Any) -> Calls:
    return [
        ((array(2, 3),), {}),
        ((array(2, 3), (3, 2)), {"norm": "ortho"}),
        ((array(2, 2, 3),), {"axes": (0, 2), "norm": "forward"}),
        ((array(2, 2, 2), (3, 1)), {}),
    ]


def _enter(transform: Callable[..., Any], name: str, doc: str, *, complex: bool = True) -> None:
    """Enter NumPy's transforms along any axes and along two axes, computed by `transform`."""
    every, plane = getattr(np.fft, f"{name}n"), getattr(np.fft, f"{name}2")

    @composite(every, samples=_many_samples, doc=doc, complex=complex)
    def along_all(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Any:
        refuse_out(out, f"fft.{name}n")
        return transform(a, s, axes, norm)

    @composite(plane, samples=_plane_samples, doc=doc, complex=complex)
    def along_two(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Any:
        refuse_out(out, f"fft.{name}2")
        return transform(a, s, axes, norm)


_enter(partial(_last_first, fft), "fft", "fft along each axis")
_enter(partial(_last_first, ifft), "ifft", "ifft along each axis")
_enter(_rfft_last, "rfft", "rfft along the last axis, then fft", complex=False)
_enter(_irfft_last, "irfft", "ifft along all axes but the last, then irfft")


# Moving frequency 0 to the middle


def _shifted(x: Any, axes: Any, direction: int) -> Any:
    shape = shape_of(x)
    if axes is None:
        axes = tuple(range(len(shape)))
    elif isinstance(axes, (int, np.integer)):
        axes = (int(axes),)
    shifts = tuple([direction * (shape[axis] // 2) for axis in axes])
    return np.roll(x, shifts, tuple(axes))


def _shift_samples(array: Any) -> Calls:
    return [
        ((array(5),), {}),
        ((array(2, 3),), {}),
        ((array(4, 3), 1), {}),
        ((array(2, 3, 2),), {"axes": (0, -1)}),
        ((array(0, 3),), {}),
    ]


@composite(np.fft.fftshift, samples=_shift_samples, doc="linear; the cotangent is rolled back")
def _fftshift(x: Any, axes: Any = None) -> Any:
    return _shifted(x, axes, 1)


@composite(np.fft.ifftshift, samples=_shift_samples, doc="linear; the cotangent is rolled back")
def _ifftshift(x: Any, axes: Any = None) -> Any:
    return _shifted(x, axes, -1)
