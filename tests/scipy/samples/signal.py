"""Samples of `scipy.signal`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from tests.scipy.samples.sample import Sample, call, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=24)
Y = RNG.normal(size=24)
M = RNG.normal(size=(5, 6))
K = RNG.normal(size=3)
LARGE = RNG.normal(size=(24, 25))
KM = RNG.normal(size=(3, 2))
T = np.linspace(0.1, 1.2, 7)
B, A = np.array([0.2, 0.3, 0.1]), np.array([1.0, -0.4, 0.1])
SOS = scipy.signal.butter(4, 0.3, output="sos")
ZEROS, POLES = np.array([-1.0, 0.4]), np.array([-2.0, 0.3, 0.5])
F, G = np.array([[0.0, 1.0], [-2.0, -0.7]]), np.array([[0.0], [1.0]])
C, D = np.array([[1.0, 0.3]]), np.array([[0.1]])
W = np.array([0.3, 0.8, 1.9])
PEAKS = scipy.signal.find_peaks(X)[0]


def _design(*more: Any, **options: Any) -> Sample:
    """Return the sample of a design of second order, by the numbers that it takes after it."""
    return use(lambda design, *numbers: design(2, *numbers, **options), *more)


def _system(method: str, kind: str, *more: Any) -> Sample:
    """Return the sample of a system by its coefficients."""
    return use(lambda system, b, a: getattr(system(b, a), method)(*more), B, A)


def _sections(sos: Any, q: Any) -> Any:
    """Return sections with coefficients scaled, but for the one that SciPy wants to be 1."""
    return np.concatenate([sos[:, :3] * q, sos[:, 3:4], sos[:, 4:] * q], 1)


FILTERS: dict[str, Sample | list[Sample]] = {
    **{name: [call(X, K), call(M, KM, mode="same")] for name in ("convolve", "correlate", "fftconvolve", "oaconvolve")},
    **{name: [call(M, KM), call(M, KM, boundary="symm", mode="same")] for name in ("convolve2d", "correlate2d")},
    "choose_conv_method": call(X, K),
    "correlation_lags": call(5, 4),
    "lfilter": [call(B, A, X), use(lambda f, b, a, x, zi: f(b, a, x, zi=zi), B, A, X, B[:2])],
    "lfilter_zi": call(B, A),
    "lfiltic": call(B, A, X[:2], X[3:5]),
    "filtfilt": [call(B, A, X), call(B, A, X, method="gust")],
    "sosfilt": use(lambda f, q, x: f(_sections(SOS, q), x), 1.05, X),
    "sosfiltfilt": use(lambda f, q, x: f(_sections(SOS, q), x), 1.05, X),
    "sosfilt_zi": use(lambda f, q: f(_sections(SOS, q)), 1.05),
    "savgol_filter": call(X, window_length=5, polyorder=2),
    "savgol_coeffs": call(5, 2),
    "whittaker_henderson": use(lambda f, x, lamb: f(x, lamb=lamb).x, X, 1.5),
    "deconvolve": call(X, B),
    "detrend": [call(X), call(X, type="constant", bp=[10])],
    "hilbert": call(X),
    "hilbert2": call(M),
    "envelope": call(X),
    "decimate": [call(np.concatenate([X, Y]), q=2), call(X, q=2, ftype="fir")],
    "resample": call(X, num=10),
    "resample_poly": call(X, up=3, down=2),
    "upfirdn": call(K, X, up=2, down=3),
    "wiener": call(X, mysize=3),
    "medfilt": call(X, kernel_size=3),
    "medfilt2d": call(M, kernel_size=3),
    "order_filter": use(lambda f, x: f(x, np.ones(3), 1), X),
    "sepfir2d": call(M, K, K),
    "symiirorder1": use(lambda f, x, c, z: f(x, c, z), X, 0.5, 0.3),
    "symiirorder2": use(lambda f, x: f(x, 0.5, 0.3, precision=1e-3), X),
    "symiirorder2(r)": use(lambda f, r: f(X, r, 0.3, precision=1e-3), 0.5),
    "cspline1d": call(X),
    "cspline2d": call(LARGE),
    "qspline1d": call(X),
    "qspline2d": call(LARGE),
    "cspline1d_eval": use(lambda f, c, x: f(c, x), X, T + 3),
    "qspline1d_eval": use(lambda f, c, x: f(c, x), X, T + 3),
    "spline_filter": use(lambda f, x: f(x, 0.1), LARGE),
    "gauss_spline": call(T, n=3),
    "minimum_phase": use(lambda f, h: f(h), np.array([0.1, 0.3, 0.5, 0.3, 0.1])),
    "unit_impulse": call(5, 2),
    "max_len_seq": call(3),
    "get_window": [call("hann", 5), use(lambda f, std: f(("gaussian", std), 5), 1.5)],
}
SPECTRA: dict[str, Sample | list[Sample]] = {
    **{name: call(X, fs=2.0, nperseg=8) for name in ("spectrogram", "stft", "welch")},
    **{name: call(X, Y, nperseg=8) for name in ("coherence", "csd")},
    "periodogram": call(X, window="hann"),
    "istft": use(lambda f, z: f(z, nperseg=8), np.fft.rfft(RNG.normal(size=(7, 8))).T + 0j),
    "lombscargle": use(lambda f, t, x, w: f(t, x, w), np.sort(RNG.uniform(0, 9, 24)), X, W),
    "check_COLA": call("hann", 8, 4),
    "check_NOLA": call("hann", 8, 4),
    "closest_STFT_dual_window": use(lambda f, w: f(w, 2), np.array([0.2, 0.8, 1.0, 0.7])),
    "ShortTimeFFT": [
        use(lambda kind, x: kind(np.hanning(8), hop=3, fs=1.0).stft(x), X),
        use(lambda kind, x: kind(np.hanning(8), hop=3, fs=1.0).spectrogram(x), X),
        use(lambda kind, x: _there_and_back(kind(np.hanning(8), hop=3, fs=1.0), x), X),
    ],
    "CZT": use(lambda kind, x: kind(24, 10)(x), X),
    "ZoomFFT": use(lambda kind, x: kind(24, [0.2, 0.5], 10)(x), X),
    "czt": [call(X), use(lambda f, x: f(x, 10, np.exp(-0.3j)), X)],
    "czt_points": call(5),
    "zoom_fft": call(X, fn=[0.2, 0.5], m=10),
    "vectorstrength": use(lambda f, events, period: f(events, period), T, 0.7),
    "find_peaks": use(lambda f, x: f(x, height=0.0, threshold=0.0, distance=2, prominence=0.1, width=0.5), X),
    "find_peaks_cwt": call(X, widths=[1, 2]),
    "peak_prominences": use(lambda f, x: f(x, PEAKS), X),
    "peak_widths": [use(lambda f, x, h=h: f(x, PEAKS, h), X) for h in (0.5, 1.0)],
    "argrelmax": call(X),
    "argrelmin": call(X),
    "argrelextrema": use(lambda f, x: f(x, np.greater), X),
}
WAVES: dict[str, Sample | list[Sample]] = {
    "chirp": use(lambda f, t, f0, t1, f1: f(t, f0, t1, f1), T, 1.0, 1.5, 3.0),
    "gausspulse": use(lambda f, t, fc: f(t, fc), T, 2.0),
    "sawtooth": call(T, width=0.3),
    "square": call(T, duty=0.3),
    "sweep_poly": use(lambda f, t, p: f(t, p), T, K),
}
DESIGNS: dict[str, Sample | list[Sample]] = {
    "bessel": [_design(0.3), _design(0.3, output="zpk"), _design(0.3, output="sos")],
    "butter": [_design(0.3), _design([0.3, 0.5], btype="bandpass"), _design(0.3, output="sos")],
    "cheby1": [_design(1.0, 0.3), _design(1.0, 0.3, output="zpk")],
    "cheby2": [_design(20.0, 0.3), _design(20.0, 0.3, output="zpk")],
    "ellip": [use(lambda f, *x: f(3, *x), 1.0, 20.0, 0.3), use(lambda f, *x: f(3, *x, output="sos"), 1.0, 20.0, 0.3)],
    "iirfilter": [_design(0.3, btype="lowpass"), _design([0.3, 0.5], btype="bandstop", output="zpk")],
    "iirdesign": use(lambda f, gpass: f(0.2, 0.3, gpass, 40.0), 1.0),
    **{name: use(lambda f, w, q: f(w, q), 0.3, 30.0) for name in ("iirnotch", "iirpeak")},
    "iircomb": use(lambda f, q: f(0.25, q), 30.0),
    "gammatone": use(lambda f, x: f(x, "fir", fs=8.0), 1.0),
    'gammatone(ftype="iir")': use(lambda f, x: f(x, "iir", fs=8.0), 1.0),
    **{name: call(3) for name in ("besselap", "buttap")},
    "cheb1ap": use(lambda f, rp: f(3, rp), 1.0),
    "cheb2ap": use(lambda f, rs: f(3, rs), 20.0),
    "ellipap": use(lambda f, rp, rs: f(3, rp, rs), 1.0, 20.0),
    **{name: use(lambda f, p, s: f(p, s, 1.0, 20.0), 0.2, 0.4) for name in ("buttord", "cheb1ord", "cheb2ord", "ellipord")},
    "band_stop_obj": use(lambda f, wp: f(wp, 0, np.array([0.2, 0.8]), np.array([0.3, 0.7]), 1.0, 20.0, "butter"), 0.25),
    "firls": use(lambda f, desired: f(5, [0.0, 0.3, 0.5, 1.0], desired), np.array([1.0, 0.9, 0.2, 0.1])),
    "firwin": [use(lambda f, cutoff: f(5, cutoff), 0.3), use(lambda f, w: f(5, w, pass_zero=False), np.array([0.3, 0.6]))],
    "firwin2": use(lambda f, gain: f(5, [0.0, 0.5, 1.0], gain), np.array([1.0, 0.7, 0.0])),
    "firwin_2d": use(lambda f, fc: f((3, 5), ("hamming", "hann"), fc=fc), 0.3),
    "remez": use(lambda f, desired: f(5, [0.0, 0.2, 0.3, 0.5], desired), np.array([1.0, 0.1])),
    "kaiser_atten": use(lambda f, width: f(11, width), 0.2),
    "kaiser_beta": [call(a) for a in (60.0, 30.0, 10.0)],
    "kaiserord": use(lambda f, ripple, width: f(ripple, width), 60.0, 0.2),
    "bilinear": use(lambda f, b, a, fs: f(b, a, fs), B, A, 2.0),
    "bilinear_zpk": use(lambda f, z, p, k, fs: f(z, p, k, fs), ZEROS, POLES, 1.5, 2.0),
    **{name: use(lambda f, b, a, w: f(b, a, w), B, A, 1.3) for name in ("lp2lp", "lp2hp")},
    **{name: use(lambda f, b, a, w, bw: f(b, a, w, bw), B, A, 1.3, 0.4) for name in ("lp2bp", "lp2bs")},
    **{name: use(lambda f, z, p, k, w: f(z, p, k, w), ZEROS, POLES, 1.5, 1.3) for name in ("lp2lp_zpk", "lp2hp_zpk")},
    **{
        name: use(lambda f, z, p, k, w, bw: f(z, p, k, w, bw), ZEROS, POLES, 1.5, 1.3, 0.4)
        for name in ("lp2bp_zpk", "lp2bs_zpk")
    },
}
RESPONSES: dict[str, Sample | list[Sample]] = {
    "freqs": use(lambda f, b, a, w: f(b, a, w), B, A, W),
    "freqs_zpk": use(lambda f, z, p, k, w: f(z, p, k, w), ZEROS, POLES, 1.5, W),
    "freqz": [use(lambda f, b, a, w: f(b, a, w), B, A, W), use(lambda f, b, a: f(b, a, 8), B, A), use(lambda f, b: f(b), B)],
    "freqz_zpk": use(lambda f, z, p, k, w: f(z, p, k, w), ZEROS, POLES, 1.5, W),
    **{name: use(lambda f, q, w: f(_sections(SOS, q), w), 1.05, W) for name in ("freqz_sos", "sosfreqz")},
    "findfreqs": use(lambda f, b, a: f(b, a, 5), B, A),
    "group_delay": use(lambda f, b, a: f((b, a), W), B, A),
}
FORMS: dict[str, Sample | list[Sample]] = {
    "normalize": call(B, A * 2),
    "tf2zpk": call(B, A),
    "zpk2tf": use(lambda f, z, p, k: f(z, p, k), ZEROS, POLES, 1.5),
    "tf2sos": call(B, A),
    "sos2tf": use(lambda f, q: f(_sections(SOS, q)), 1.05),
    "sos2zpk": use(lambda f, q: f(_sections(np.array([[1.0, 0.3, -0.1, 1.0, -0.4, 0.1]]), q)), 1.05),
    "zpk2sos": use(lambda f, z, p, k: f(z, p, k), ZEROS, POLES[1:], 1.5),
    "zpk2ss": use(lambda f, z, p, k: f(z, p, k), ZEROS, POLES, 1.5),
    "tf2ss": call(B, A),
    "ss2tf": call(F, G, C, D),
    "ss2zpk": call(F, G, C, D),
    "abcd_normalize": call(F, G, C, D),
    "residue": call(B, A),
    "residuez": call(B, A),
    "invres": use(lambda f, r, p: f(r, p, [1.5]), np.array([0.3, 0.4]), np.array([0.5, -0.2])),
    "invresz": use(lambda f, r, p: f(r, p, [1.5]), np.array([0.3, 0.4]), np.array([0.5, -0.2])),
    "unique_roots": call(np.array([0.5, 0.7, -0.2])),
}
SYSTEMS: dict[str, Sample | list[Sample]] = {
    "lti": use(lambda kind, b, a: kind(b, a).freqresp(W), B, A),
    "dlti": use(lambda kind, b, a: kind(b, a).freqresp(W), B, A),
    "TransferFunction": use(lambda kind, b, a: [kind(b, a).num, kind(b, a).poles], B, A),
    "ZerosPolesGain": use(lambda kind, z, p, k: [kind(z, p, k).zeros, kind(z, p, k).to_tf().num], ZEROS, POLES, 1.5),
    "StateSpace": use(lambda kind, *m: [kind(*m).poles, (kind(*m) * kind(*m)).A], F, G, C, D),
    "bode": use(lambda f, b, a: f((b, a), W), B, A),
    "dbode": use(lambda f, b, a: f((b, a, 0.1), W), B, A),
    "freqresp": use(lambda f, b, a: f((b, a), W), B, A),
    "dfreqresp": use(lambda f, b, a: f((b, a, 0.1), W), B, A),
    "impulse": use(lambda f, *m: f(m, T=T), F, G, C, D),
    "step": use(lambda f, *m: f(m, T=T), F, G, C, D),
    "lsim": use(lambda f, u, *m: f(m, u, T), T**2, F, G, C, D),
    "dimpulse": use(lambda f, b, a: f((b, a, 0.1), n=5), B, A),
    "dstep": use(lambda f, b, a: f((b, a, 0.1), n=5), B, A),
    "dlsim": use(lambda f, b, a, u: f((b, a, 0.1), u), B, A, X[:6]),
    "cont2discrete": [
        use(lambda f, *m, method=method: f(m, 0.1, method=method)[:4], F, G, C, D) for method in ("zoh", "bilinear", "foh")
    ],
    "place_poles": use(lambda f, a: f(a, G, [-1.0, -2.0]).gain_matrix, F),
}


def _there_and_back(transform: Any, x: Any) -> Any:
    return transform.istft(transform.stft(x), k1=24)


SAMPLES = {**FILTERS, **SPECTRA, **WAVES, **DESIGNS, **RESPONSES, **FORMS, **SYSTEMS}
