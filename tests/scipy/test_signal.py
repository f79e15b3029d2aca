"""`functad.scipy.signal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal

import functad
from functad.errors import UnsupportedError
from functad.scipy import signal
from functad.testing import check_grads, check_primitive

rng = np.random.default_rng(0)
X = rng.normal(size=24)
M = rng.normal(size=(5, 6))
K = rng.normal(size=3)
KM = rng.normal(size=(3, 2))
B, A = np.array([0.2, 0.3, 0.1]), np.array([1.1, -0.4, 0.1])
SOS = scipy.signal.butter(4, 0.3, output="sos")

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def sections(s: Any, q: Any) -> Any:
    """The sections with coefficients other than the fourth, which SciPy wants to be 1, scaled."""
    return np.concatenate([SOS[:, :3] * q, SOS[:, 3:4], SOS[:, 4:] * q], 1)


CASES: list[Case] = [
    *[(n, lambda s, u, v, n=n: getattr(s, n)(u, v, mode="same"), (X, K)) for n in ("convolve", "fftconvolve", "correlate")],
    ("oaconvolve", lambda s, u, v: s.oaconvolve(u, v), (X, K)),
    *[
        (f"{n} {mode} {edge}", lambda s, u, v, n=n, m=mode, e=edge: getattr(s, n)(u, v, m, e), (M, KM))
        for n in ("convolve2d", "correlate2d")
        for mode in ("full", "same", "valid")
        for edge in ("fill", "wrap", "symm")
    ],
    *[
        (f"{n} direct {mode}", lambda s, u, v, n=n, m=mode: getattr(s, n)(u, v, m, "direct"), (M, KM))
        for n in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
    ],
    ("lfilter", lambda s, b, a, x: s.lfilter(b, a, x), (B, A, X)),
    ("lfilter axis", lambda s, b, a, x: s.lfilter(b, a, x, axis=0), (B, A[:2], M)),
    ("lfilter state", lambda s, b, a, x, z: s.lfilter(b, a, x, zi=z), (B, A, X, K[:2])),
    ("lfilter without feedback", lambda s, b, x, z: s.lfilter(b, [2.0], x, zi=z), (B, X, K[:2])),
    ("lfilter_zi", lambda s, b, a: s.lfilter_zi(b, a), (B, A)),
    ("lfilter_zi of 1", lambda s, b, a: s.lfilter_zi(b, a), (B[:2], np.array([1.0, -0.4, 0.2]))),
    ("lfiltic", lambda s, b, a, y: s.lfiltic(b, a, y), (B, np.array([1.0, -0.4, 0.2]), K)),
    ("filtfilt", lambda s, b, a, x: s.filtfilt(b, a, x), (B, A, X)),
    ("sosfilt", lambda s, q, x: s.sosfilt(sections(s, q), x), (1.01, X)),
    ("sosfilt state", lambda s, x, z: s.sosfilt(SOS, x, zi=z), (X, rng.normal(size=(2, 2)))),
    ("sosfiltfilt", lambda s, q, x: s.sosfiltfilt(sections(s, q), x), (1.01, np.r_[X, X])),
    ("detrend", lambda s, x: s.detrend(x), (X,)),
    ("hilbert", lambda s, x: abs(s.hilbert(x)), (X,)),
    ("freqz", lambda s, b, a: abs(s.freqz(b, a, worN=8)[1]), (B, A)),
    ("sosfreqz", lambda s, q: abs(s.sosfreqz(sections(s, q), worN=8)[1]), (1.01,)),
    ("gaussian", lambda s, d: s.windows.gaussian(9, d), (1.3,)),
    ("kaiser", lambda s, d: s.windows.kaiser(9, d), (1.3,)),
    ("chebwin", lambda s, d: s.windows.chebwin(9, d), (60.0,)),
    ("get_window", lambda s, d: s.get_window(("kaiser", d), 9), (3.0,)),
    ("welch", lambda s, x: s.welch(x, nperseg=8)[1], (X,)),
    ("periodogram", lambda s, x: s.periodogram(x)[1], (X,)),
    ("spectrogram", lambda s, x: s.spectrogram(x, nperseg=8)[2], (X,)),
    ("stft", lambda s, x: abs(s.stft(x, nperseg=8)[2]), (X,)),
    ("istft", lambda s, x: s.istft(s.stft(x, nperseg=8)[2], nperseg=8)[1], (X,)),
    ("resample", lambda s, x: s.resample(x, 10), (X,)),
    ("resample_poly", lambda s, x: s.resample_poly(x, 3, 2), (X,)),
    ("upfirdn", lambda s, h, x: s.upfirdn(h, x, 3, 2, axis=0), (K, M)),
    ("decimate", lambda s, x: s.decimate(np.concatenate([x, x]), 2), (X,)),
    ("decimate fir", lambda s, x: s.decimate(x, 2, ftype="fir"), (X,)),
    ("medfilt2d", lambda s, x: s.medfilt2d(x), (M,)),
    ("medfilt2d of a row", lambda s, x: s.medfilt2d(x, [1, 5]), (M,)),
    ("deconvolve", lambda s, y, b: s.deconvolve(y, b)[0], (X, B)),
]


@pytest.mark.filterwarnings("ignore:Input data is complex")
@pytest.mark.parametrize(("f", "args"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_signal(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    expected = f(scipy.signal, *args)
    found, _ = functad.vjp(lambda *a: f(signal, *a), *args)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    plain = f(signal, *args)
    assert type(plain) is type(expected)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (plain, expected)], strict=True):
        np.testing.assert_array_equal(a, b)
    check_grads(lambda *a: f(signal, *a), list(args), order=1)


def test_rule_of_feedback() -> None:
    from functad.scipy.signal import FEEDBACK

    check_primitive(FEEDBACK)


def test_refused() -> None:
    with pytest.raises(functad.errors.UnsupportedError, match="Pad the samples"):
        functad.grad(lambda x: np.sum(signal.upfirdn(K, x, mode="wrap")))(X)


def test_peaks_are_measured_by_elements() -> None:
    options = {"height": -1.0, "threshold": 0.0, "distance": 2, "prominence": 0.0, "width": 0.0, "rel_height": 0.8}
    check_grads(lambda x: list(signal.find_peaks(x, **options)[1].values()), [X], order=1)
    plain = scipy.signal.find_peaks(X, **options)
    found, _ = functad.vjp(lambda x: signal.find_peaks(x, **options)[1]["widths"], X)
    np.testing.assert_allclose(found, plain[1]["widths"], rtol=1e-13)


def test_ranks_splines_and_forms() -> None:
    long = np.random.default_rng(1).normal(size=(20, 21))
    cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda s, x: s.medfilt(x, (3, 1)), (M,)),
        (lambda s, x: s.order_filter(x, np.array([[0, 1, 1], [1, 1, 0], [0, 1, 0]]), 3), (M,)),
        (lambda s, x, h, g: s.sepfir2d(x, h, g), (M, K, np.array([0.2, 0.4, 0.1, 0.05, 0.3]))),
        (lambda s, x, z: s.symiirorder1(x, 0.5, z), (X, 0.3)),
        (lambda s, x: s.symiirorder2(x, 0.3, 0.4, 1e-3), (X,)),
        (lambda s, x: s.cspline2d(x, 0.1), (long,)),
        (lambda s, b, a, fs: s.bilinear(b, a, fs), (B, A[:2], 1.5)),
        (lambda s, b, a, fs: s.bilinear(b[:1], a, fs), (B, A, 1.5)),
        (lambda s, b, a: s.residuez(b, a), (B, A)),
        (lambda s, p: s.unique_roots(p, 0.1, "max"), (np.array([0.5, 0.55, -0.2, 0.9]),)),
        (lambda s, b, a: s.tf2ss(b, a), (B, A)),
        (lambda s, w: s.bessel(3, w), (0.3,)),
    ]
    for f, args in cases:
        check_grads(lambda *a, f=f: f(signal, *a), args, order=1)
        for found, expected in zip(*[_leaves(f(s, *args)) for s in (signal, scipy.signal)], strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(UnsupportedError, match="symiirorder2 of a Tensor for its coefficients"):
        functad.grad(lambda r: np.sum(signal.symiirorder2(X, r, 0.4, 1e-3)))(0.3)
    for wrong in (
        lambda x: signal.order_filter(x, np.ones(2), 1),
        lambda x: signal.medfilt(x, 2),
        lambda x: signal.medfilt2d(x[None], 2),
        lambda x: signal.medfilt2d(x[None], [3, 4]),
        lambda x: signal.sepfir2d(np.stack([x, x]), K[:2], K),
        lambda x: signal.unique_roots(x, rtype="some"),
    ):
        with pytest.raises(ValueError, match=r"odd|rtype"):
            functad.grad(lambda x, wrong=wrong: np.sum(wrong(x)))(X)


def _leaves(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple) else [out]
