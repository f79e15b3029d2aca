"""`scipy.signal`: compiled filters, convolutions and resampling, as NumPy functions with one rule for feedback."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import _signaltools, _sigtools, _spline, normalize

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_tensors, plain_value, refuse
from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import one_by_one
from functad.primitives.entry import Primitive
from functad.primitives.kinds import general
from functad.primitives.operands import is_traced
from functad.scipy import _peaks  # noqa: F401 - registers rules
from functad.scipy.matrices.decompositions import cho_solve_banded, cholesky_banded

_SIGTOOLS = "scipy.signal._sigtools"

# Feedback: y[n] = v[n] - a[0] y[n - 1] - a[1] y[n - 2] - ...


def _feedback(a: Any, v: Any) -> Any:
    dtype = np.result_type(a, v)
    if v.size == 0:
        return v.astype(dtype)
    one = np.ones(1, dtype)
    return _sigtools._linear_filter(one, np.concatenate([one, a]).astype(dtype), v.astype(dtype), -1)


def _delayed(y: Any, count: int) -> Any:
    """Return copies of `y`, delayed by 1, 2, ..., `count` steps along the last axis, of shape `(count, ..., n)`."""
    n = shape_of(y)[-1]
    zeros = np.zeros((*shape_of(y)[:-1], count), dtype_of(y))
    padded = np.concatenate([zeros, y], -1)
    return np.stack([padded[..., count - k : count - k + n] for k in range(1, count + 1)])


def _back(a: Any, g: Any) -> Any:
    return FEEDBACK(a, g[..., ::-1])[..., ::-1]


def _feedback_vjp_a(g: Any, a: Any, out: Any) -> Any:
    """Return `-sum_n w[n] y[n - k]`, with the cotangent `w` of the input."""
    return -np.sum(_delayed(out, shape_of(a)[0]) * _back(a, g), axis=tuple(range(1, len(shape_of(out)) + 1)))


def _feedback_jvp_a(t: Any, a: Any, out: Any) -> Any:
    return -FEEDBACK(a, np.tensordot(t, _delayed(out, shape_of(a)[0]), 1))


def _feedback_spec(a: Any, v: Any) -> ArraySpec:
    return ArraySpec(spec_of(v).shape, np.result_type(spec_of(a).dtype, spec_of(v).dtype))


def _feedback_samples(array: Any) -> Calls:
    return [((array(*shape) * 0.5, array(*other)), {}) for shape, other in (((2,), (5,)), ((1,), (2, 4)), ((3,), (2,)))]


def _feedback_batch(primitive: Primitive, size: int, values: Any, batched: Any, params: Any) -> Any:
    """Filter all examples together if the coefficients are not batched."""
    return one_by_one(primitive, size, values, batched, params) if batched[0] else primitive(*values)


FEEDBACK: Primitive = general(
    _feedback,
    _feedback_vjp_a,
    lambda g, a: _back(a, g),
    jvps=(_feedback_jvp_a, lambda t, a: FEEDBACK(a, t)),
    name="feedback",
    internal=True,
    spec=_feedback_spec,
    samples=_feedback_samples,
    batch=_feedback_batch,
    doc="linear in v, whose cotangent runs through the same filter backwards in time",
)


def _full(b: Any, x: Any) -> Any:
    """Return the full convolution of a vector with an array along its last axis."""
    m = shape_of(b)[0]
    zeros = np.zeros((*shape_of(x)[:-1], m - 1), dtype_of(x))
    return sliding_window_view(np.concatenate([zeros, x, zeros], -1), m, -1) @ b[::-1]


def _longer(b: Any, length: int) -> Any:
    return np.concatenate([b, np.zeros(length - shape_of(b)[0], dtype_of(b))])


@of_tensors(_SIGTOOLS)
def _linear_filter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a recursive filter: a convolution for the feedforward part, a rule for the feedback."""
    b, a = b / a[0], a[1:] / a[0]
    order = max(shape_of(b)[0] - 1, shape_of(a)[0])
    x = np.moveaxis(x, axis, -1)
    n = shape_of(x)[-1]
    fed = _full(_longer(b, order + 1), x)
    if zi is not None:
        state = np.broadcast_to(np.moveaxis(zi, axis, -1), (*shape_of(x)[:-1], order))
        rest = np.zeros((*shape_of(x)[:-1], n), dtype_of(fed))
        fed = fed + np.concatenate([state, rest], -1)
    y = FEEDBACK(a, fed[..., :n])
    if zi is None:
        return np.moveaxis(y, -1, axis)
    back = _full(_longer(a, order), y)[..., n - 1 :]
    return np.moveaxis(y, -1, axis), np.moveaxis(fed[..., n:] - back, -1, axis)


@of_tensors("scipy.signal._sosfilt")
def _sosfilt(sos: Any, x: Any, zi: Any) -> None:
    """Apply second-order sections in sequence; overwrite the signal and the states."""
    y, states = x, []
    for k in range(shape_of(sos)[0]):
        y, state = _linear_filter(sos[k, :3], sos[k, 3:], y, -1, zi[:, k])
        states.append(state)
    x[...] = y
    zi[...] = np.stack(states, 1)


# Convolutions


def _slid(x: Any, kernel: Any) -> Any:
    """Return the products of a kernel with all parts of its shape of an array, summed over each part."""
    out: Any = 0.0
    shape = tuple([n - m + 1 for n, m in zip(shape_of(x), shape_of(kernel), strict=True)])
    for place in np.ndindex(*shape_of(kernel)):
        out = out + x[tuple([slice(i, i + n) for i, n in zip(place, shape, strict=True)])] * kernel[place]
    return out


_VALID, _SAME, _FULL = 0, 1, 2
_PADDING = {0: "constant", 4: "symmetric", 8: "wrap"}


@of_tensors(_SIGTOOLS)
def _convolve2d(in1: Any, in2: Any, flip: int = 1, mode: int = _FULL, boundary: int = 0, fillvalue: Any = 0) -> Any:
    """Return the convolution, or without `flip` the correlation, of two matrices."""
    kernel = in2[::-1, ::-1] if flip else in2
    widths = []
    for m in shape_of(kernel):
        before = {_VALID: 0, _SAME: m // 2 if flip else (m - 1) // 2, _FULL: m - 1}[mode]
        widths.append((before, {_VALID: 0, _SAME: m - 1 - before, _FULL: m - 1}[mode]))
    if boundary == 0:
        return _slid(np.pad(in1, widths, constant_values=np.asarray(fillvalue)[()]), kernel)
    for axis, (width, n) in enumerate(zip(widths, shape_of(in1), strict=True)):
        in1 = np.take(in1, np.pad(np.arange(n), width, _PADDING[boundary]), axis)  # type: ignore[call-overload]
    return _slid(in1, kernel)


@of_tensors(_SIGTOOLS)
def _correlateND(in1: Any, in2: Any, out: Any, mode: int) -> Any:  # noqa: N802 - SciPy's name
    """Return the correlation of arrays of any number of axes; SciPy passes `in1` with its end padding."""
    kernel = np.conjugate(in2)
    if mode == _VALID:
        return _slid(in1, kernel)
    shape = shape_of(out)
    inner = [n - m + 1 for n, m in zip(shape_of(in1), shape_of(in2), strict=True)]
    in1 = in1[tuple([slice(n) for n in inner])]
    whole = _slid(np.pad(in1, [(m - 1, m - 1) for m in shape_of(kernel)]), kernel)
    if mode == _FULL:
        return whole
    starts = [(m - 1) // 2 if m % 2 else m // 2 - 1 for m in shape_of(kernel)]
    return whole[tuple([slice(start, start + n) for start, n in zip(starts, shape, strict=True)])]


@of_tensors("scipy.signal._signaltools")
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0) -> Any:
    """Insert zeros between samples, filter, and keep every `down`-th sample."""
    if mode != "constant" or cval != 0:
        raise UnsupportedError(f"upfirdn of a Tensor with mode {mode!r}, at {here()}. Pad the samples, and leave it out.")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    x, h = np.moveaxis(asarray(x) * 1.0, axis, -1), asarray(h) * 1.0
    n = shape_of(x)[-1]
    spread = np.stack([x, *[np.zeros(shape_of(x), dtype_of(x))] * (up - 1)], -1)
    spread = spread.reshape((*shape_of(x)[:-1], n * up))[..., : (n - 1) * up + 1]
    return np.moveaxis(_full(h, spread)[..., ::down], -1, axis)


def _monic(b: Any, a: Any) -> tuple[Any, Any]:
    """Return coefficients with 1 as the first of `a`; SciPy skips this division at 1 and so loses its derivative."""
    b, a = np.atleast_1d(b), np.atleast_1d(a)
    return b / a[0], np.concatenate([np.ones(1), a[1:] / a[0]])


_lfiltic = _signaltools.lfiltic


@of_tensors("scipy.signal._signaltools")
def lfilter_zi(b: Any, a: Any) -> Any:
    """Return the state of a filter for a constant input of 1."""
    b, a = np.atleast_1d(b), np.atleast_1d(a)
    while shape_of(a)[0] > 1 and a[0] == 0.0:
        a = a[1:]
    b, a = _monic(b, a)
    n = max(shape_of(a)[0], shape_of(b)[0])
    if n == 1:
        return np.zeros(0)
    b, a = _longer(b, n), _longer(a, n)
    companion = np.concatenate([-a[None, 1:], np.eye(n - 2, n - 1)], 0)
    return np.linalg.solve(np.eye(n - 1) - companion.T, b[1:] - a[1:] * b[0])


@of_tensors("scipy.signal._signaltools")
def lfiltic(b: Any, a: Any, y: Any, x: Any = None) -> Any:
    """Return the state of a filter after given outputs and inputs."""
    return _lfiltic(*_monic(b, a), y, x)


@of_tensors("scipy.signal._signaltools")
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    """Return the median of each neighbourhood, with zeros outside."""
    sizes = [int(n) for n in np.broadcast_to(3 if kernel_size is None else kernel_size, 2)]
    if any(n % 2 != 1 for n in sizes):
        raise ValueError("Each element of kernel_size should be odd.")
    padded = np.pad(input, [(n // 2, n // 2) for n in sizes])
    windows = sliding_window_view(padded, sizes)
    return np.median(windows.reshape((*shape_of(windows)[:2], -1)), -1)


@of_tensors("scipy.signal._spectral_py")
def _fft_helper(x: Any, win: Any, detrend_func: Any, nperseg: int, noverlap: int, nfft: int, sides: str) -> Any:
    """Return the transforms of the windows of a signal."""
    if nperseg == 1 and noverlap == 0:
        parts = x[..., np.newaxis]
    else:
        parts = sliding_window_view(x, nperseg, -1)[..., :: nperseg - noverlap, :]
    parts = win * detrend_func(parts * 1.0)
    return np.fft.fft(parts, nfft) if sides == "twosided" else np.fft.rfft(parts.real, nfft)


@of_tensors("scipy.signal._signaltools")
def order_filter(a: Any, domain: Any, rank: int) -> Any:
    """Return the element of a given rank in each neighbourhood, with zeros outside."""
    a, domain = np.atleast_1d(a), np.asarray(domain)
    if any(n % 2 == 0 for n in domain.shape):
        raise ValueError("Each dimension of domain argument should have an odd number of elements.")
    windows = sliding_window_view(np.pad(a, [(n // 2, n // 2) for n in domain.shape]), domain.shape)
    return np.sort(windows[..., domain != 0], -1)[..., rank]


@of_tensors("scipy.signal._signaltools")
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """Return the median of each neighbourhood of an array of any number of axes, with zeros outside."""
    volume = np.atleast_1d(volume)
    sizes = np.broadcast_to(3 if kernel_size is None else kernel_size, len(shape_of(volume)))
    if np.any(sizes % 2 == 0):
        raise ValueError("Each element of kernel_size should be odd.")
    return order_filter(volume, np.ones(sizes), int(np.prod(sizes)) // 2)


# Splines, and filters with mirrored boundaries


def _mirrored(x: Any, h: Any, axis: int) -> Any:
    """Return the convolution of a matrix with a vector of odd length along an axis, with mirrored boundaries."""
    half = shape_of(h)[0] // 2
    x = np.take(x, np.pad(np.arange(shape_of(x)[axis]), half, "symmetric"), axis)
    return sliding_window_view(x, 2 * half + 1, axis) @ h[::-1]


@of_tensors("scipy.signal._spline")
def sepfir2d(input: Any, hrow: Any, hcol: Any) -> Any:
    """Return the convolution of a matrix with a vector along its rows and another along its columns."""
    if shape_of(hrow)[0] % 2 == 0 or shape_of(hcol)[0] % 2 == 0:
        raise ValueError("hrow and hcol must be odd length")
    return _mirrored(_mirrored(input, hrow, 1), hcol, 0)


@of_tensors("scipy.signal._spline")
def symiirorder1_ic(signal: Any, z1: Any, precision: float = -1.0) -> Any:
    """Return the first output of a first-order filter, `x[0] + sum z1^(k+1) x[k]`; SciPy omits small terms."""
    n = shape_of(signal)[-1]
    known = _spline.symiirorder1_ic(np.eye(n, dtype=dtype_of(signal)), plain_value(z1), precision)[:, 0]
    count = np.count_nonzero(known)
    powers = z1 ** np.arange(1.0, count + 1)
    return (signal[..., :1] + np.sum(signal[..., :count] * powers, -1, keepdims=True)).astype(dtype_of(signal))


def _second_order(name: str) -> None:
    @of_tensors("scipy.signal._spline", name)
    def first(input: Any, r: Any, omega: Any, precision: float = -1.0) -> Any:
        """Return the first or last outputs of a second-order filter: SciPy's matrix times the signal."""
        if is_traced(r) or is_traced(omega):
            raise UnsupportedError(f"symiirorder2 of a Tensor for its coefficients, at {here()}: {REFUSED[_COEFFICIENTS]}.")
        identity = np.eye(shape_of(input)[-1], dtype=dtype_of(input))
        return input @ getattr(_spline, name)(identity, r, omega, precision)


_second_order("symiirorder2_ic_fwd")
_second_order("symiirorder2_ic_bwd")


# Filter design


@of_tensors("scipy.signal._filter_design")
def bilinear(b: Any, a: Any, fs: Any = 1.0) -> Any:
    """Return the digital filter of an analogue filter, by `s = 2 fs (z - 1) / (z + 1)` in both polynomials."""
    b, a = (np.trim_zeros(np.atleast_1d(c) * 1.0, "f") for c in (b, a))
    n = max(shape_of(a)[0], shape_of(b)[0]) - 1
    rows = [np.ones(1)] * (n + 1)
    for q in range(n + 1):
        for k in range(n):
            rows[q] = np.convolve(rows[q], [1.0, 1.0 if k < n - q else -1.0])
    powers = (2 * fs) ** (np.arange(n + 1) - n / 2)
    return normalize(*[(c[::-1] * powers[: shape_of(c)[0]]) @ np.stack(rows)[: shape_of(c)[0]] for c in (b, a)])


@of_tensors("scipy.signal._signaltools")
def unique_roots(p: Any, tol: float = 1e-3, rtype: str = "min") -> Any:
    """Return one root for each cluster of roots, and the cluster sizes."""
    p, known, groups = asarray(p), np.asarray(plain_value(p)), []
    used = np.zeros(shape_of(p)[0], bool)
    while not used.all():
        group = np.flatnonzero(~used & (np.abs(known - known[np.argmin(used)]) <= tol))
        used[group] = True
        groups.append(group)
    if rtype in ("avg", "mean"):
        roots = [np.mean(p[group]) for group in groups]
    elif rtype in ("max", "maximum", "min", "minimum"):
        place = -1 if rtype.startswith("max") else 0
        roots = [p[group[np.argsort(known[group])[place]]] for group in groups]
    else:
        raise ValueError("`rtype` must be one of {'max', 'maximum', 'min', 'minimum', 'avg', 'mean'}")
    return np.stack(roots), np.array([len(group) for group in groups])


@of_tensors("scipy.signal._whittaker")
def _solveh_banded(ab: Any, b: Any, calc_logdet: bool = False) -> Any:
    """Solve a positive definite system from its lower diagonals; return solution, log-determinant and error code 0."""
    c = cholesky_banded(ab, lower=True)
    return cho_solve_banded((c, True), b), 2 * np.log(c[0]).sum() if calc_logdet else 0.0, 0


_COEFFICIENTS = "symiirorder2(r)"

REFUSED: dict[str, str] = {
    "remez": "an exchange algorithm, compiled; use firls, which solves linear equations",
    _COEFFICIENTS: "SciPy's starting values have no rule by r and omega; pass them as constants, or use two calls of lfilter",
    'gammatone(ftype="iir")': "it computes with numbers of Python; use the FIR filter, which has derivatives by its frequency",
    "band_stop_obj": "it writes the frequency into a plain array; use buttord, which minimises it",
}
"""Functions that reject Tensors, and the reasons."""

refuse("scipy.signal", {name: REFUSED[name] for name in ("remez", "band_stop_obj")})
