"""`scipy.fft`: compiled transforms by `numpy.fft`; cosine and sine transforms by their own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.arranging.reshape import Calls, same_spec
from functad.primitives.batching import along_axis
from functad.primitives.entry import Primitive
from functad.primitives.kinds import linear

try:
    from scipy.fft._duccfft import pyduccfft as _compiled
    from scipy.fft._duccfft import realtransforms
except ModuleNotFoundError:  # SciPy before 1.18
    from scipy.fft._pocketfft import pypocketfft as _compiled
    from scipy.fft._pocketfft import realtransforms

_COMPILED = _compiled.__name__

# SciPy's numbers of norms: no factor, 1 / sqrt(n), 1 / n. NumPy names a norm after the factor of the forward transform.
_FORWARD_NORMS: Any = ("backward", "ortho", "forward")
_BACKWARD_NORMS: Any = ("forward", "ortho", "backward")


@of_tensors(_COMPILED)
def c2c(a: Any, axes: Any = None, forward: bool = True, inorm: int = 0, out: Any = None, nthreads: int = 1) -> Any:
    """Return the complex transform of complex or real numbers along the given axes."""
    transform = np.fft.fft if forward else np.fft.ifft
    norm = (_FORWARD_NORMS if forward else _BACKWARD_NORMS)[inorm]
    for axis in range(a.ndim) if axes is None else axes:
        a = transform(a, axis=axis, norm=norm)
    return a


@of_tensors(_COMPILED)
def r2c(a: Any, axes: Any = None, forward: bool = True, inorm: int = 0, out: Any = None, nthreads: int = 1) -> Any:
    """Return the transform of real numbers: half a spectrum along the last of the axes, whole spectra along the others."""
    *others, last = range(a.ndim) if axes is None else axes
    half = np.fft.rfft(a, axis=last, norm=_FORWARD_NORMS[inorm])
    return c2c(half if forward else half.conjugate(), others, forward, inorm)


@of_tensors(_COMPILED)
def c2r(
    a: Any, axes: Any = None, lastsize: int = 0, forward: bool = True, inorm: int = 0, out: Any = None, nthreads: int = 1
) -> Any:
    """Return the real transform of half a spectrum along the last of the axes and of whole spectra along the others."""
    *others, last = range(a.ndim) if axes is None else axes
    a = c2c(a, others, forward, inorm)
    n = lastsize or 2 * (shape_of(a)[last] - 1)
    return np.fft.irfft(a.conjugate() if forward else a, n, last, _BACKWARD_NORMS[inorm])


def _scaled(a: Any, axis: int, *factors: tuple[int, float]) -> Any:
    """Return an array with the elements at some positions of an axis scaled; `factors` are pairs of position and factor."""
    weights = np.ones(shape_of(a)[axis], dtype_of(a))
    for place, factor in factors:
        weights[place] *= factor
    return a * weights.reshape((-1,) + (1,) * (len(shape_of(a)) - 1 - axis))


def _real_transform(a: Any, *, sine: bool, type: int, axis: int) -> Any:
    if a.dtype.kind == "c":
        parts = [_real_transform(part, sine=sine, type=type, axis=axis) for part in (a.real, a.imag)]
        return parts[0] + 1j * parts[1]
    return (_compiled.dst if sine else _compiled.dct)(a, type, (axis,), 0, None, 1)


def _transposed(g: Any, sine: bool, type: int, axis: int) -> Any:
    """Apply the transposed transform without factors; one end has weight one, all other positions have weight two.

    Types 2 and 3 are transposes of each other. Types 1 and 4 are symmetric, except for the weights of type 1 at the ends.
    """
    end = -1 if sine else 0
    if type == 2:
        return REAL_TRANSFORM(_scaled(g, axis, (end, 2.0)), sine=sine, type=3, axis=axis)
    if type == 3:
        return _scaled(REAL_TRANSFORM(g, sine=sine, type=2, axis=axis), axis, (end, 0.5))
    if type == 4 or sine:
        return REAL_TRANSFORM(g, sine=sine, type=type, axis=axis)
    return _scaled(
        REAL_TRANSFORM(_scaled(g, axis, (0, 2.0), (-1, 2.0)), sine=False, type=1, axis=axis), axis, (0, 0.5), (-1, 0.5)
    )


def _samples(array: Any) -> Calls:
    return [
        ((array(*shape),), {"sine": sine, "type": kind, "axis": axis})
        for sine in (False, True)
        for kind in (1, 2, 3, 4)
        for shape, axis in (((4,), 0), ((3, 2), 0), ((2, 3), 1))
    ]


REAL_TRANSFORM: Primitive = linear(
    _real_transform,
    _transposed,
    name="real_transform",
    internal=True,
    spec=same_spec,
    samples=_samples,
    doc="linear; the transpose of type 2 is type 3, those of 1 and 4 are of the same type",
    batch=along_axis,
)


def _normalized(sine: bool) -> Callable[..., Any]:
    """Return the cosine or sine transform with its factors and the signature of the compiled function."""

    def transform(
        a: Any,
        type: int,
        axes: Any = None,
        inorm: int = 0,
        out: Any = None,
        nthreads: int = 1,
        ortho: bool | None = None,
    ) -> Any:
        ortho = inorm == 1 if ortho is None else ortho
        end, scale = -1 if sine else 0, 2.0**0.5
        both_ends = ((0, scale), (-1, scale)) if type == 1 and not sine else ()
        before = both_ends if type != 3 else ((end, scale),)
        after = tuple([(place, 1 / factor) for place, factor in both_ends]) if type != 2 else ((end, 1 / scale),)
        for axis in range(a.ndim) if axes is None else axes:
            axis %= a.ndim
            if ortho and before:
                a = _scaled(a, axis, *before)
            n = shape_of(a)[axis]
            if type == 1 and n < 2 and not sine:
                raise ValueError("DCT-I is not defined for size < 2")
            a = REAL_TRANSFORM(a, sine=sine, type=type, axis=axis)
            if ortho and after:
                a = _scaled(a, axis, *after)
            points = 2 * (n + (0 if type != 1 else 1 if sine else -1))
            if inorm:
                a = a * points ** (-0.5 if inorm == 1 else -1.0)
        return a

    return transform


def _enter(name: str, sine: bool, forward: bool) -> None:
    """Register a transform of real numbers along one axis and along several axes: SciPy's Python code with these rules."""
    transform = _normalized(sine)
    for suffix, body in (("", realtransforms._r2r), ("n", realtransforms._r2rn)):

        def called(x: Any, *args: Any, body: Callable[..., Any] = body, **kwargs: Any) -> Any:
            if dtype_of(x).kind != "c":
                return body(forward, transform, x, *args, **kwargs)
            return called(x.real, *args, body=body, **kwargs) + 1j * called(x.imag, *args, body=body, **kwargs)

        of_tensors("scipy.fft._realtransforms_backend", name + suffix)(called)


_enter("dct", sine=False, forward=True)
_enter("idct", sine=False, forward=False)
_enter("dst", sine=True, forward=True)
_enter("idst", sine=True, forward=False)
