"""Programs of sound, signals and images."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(5)


@program("mir_eval")
def mir_eval_separation() -> Made:
    from mir_eval.separation import _safe_db

    return lambda p: _safe_db(p[0], p[1]), np.array([3.0, 0.2])


@program("mir_eval", 1)
def mir_eval_melody() -> Made:
    from mir_eval.melody import hz2cents

    return lambda p: np.sum(hz2cents(p)) * 1e-3, np.array([440.0, 220.0])


@program("padasip", 1)
def padasip_lms() -> Made:
    import padasip

    X = RNG.normal(size=(12, 3))
    d = X @ [1.0, 0.5, -0.3]

    def f(p):
        filt = padasip.filters.FilterLMS(n=3, mu=p[0], w=np.zeros(3))
        _, e, _ = filt.run(d, X)
        return np.sum(e**2)

    return f, np.array([0.1])


@program("padasip", 1)
def padasip_error() -> Made:
    from padasip.misc import MAE, MSE, RMSE

    y = RNG.random(5)
    return lambda p: MSE(p, y) + MAE(p, y) + RMSE(p, y), RNG.random(5)


@program("allantools", 1)
def allantools_adev() -> Made:
    import allantools

    return lambda p: np.sum(allantools.adev(np.cumsum(p), rate=1.0, data_type="phase", taus=[1.0, 2.0])[1]), RNG.random(12)


@program("antropy", 1)
def antropy_hjorth() -> Made:
    import antropy

    return lambda p: sum(antropy.hjorth_params(p)), RNG.random(20)


@program("antropy", 1)
def antropy_spectral() -> Made:
    import antropy

    return lambda p: antropy.spectral_entropy(p, sf=100, method="fft", normalize=True), RNG.random(20)


@program("antropy", 1)
def antropy_fractal() -> Made:
    import antropy

    return lambda p: np.sum(p**2) + antropy.fractal.katz_fd(p), RNG.random(20)


@program("python_speech_features")
def python_speech_features_bank() -> Made:
    from python_speech_features import logfbank
    from python_speech_features.sigproc import preemphasis

    return lambda s: np.sum(logfbank(s, 8000, winlen=0.01, winstep=0.005, nfilt=8, nfft=128)) + preemphasis(s)[3], RNG.normal(
        size=160
    )


@program("neurokit2")
def neurokit_distances() -> Made:
    import neurokit2 as nk

    return lambda p: np.sum(nk.standardize(p) ** 3) + nk.rescale(p, to=[0, 1])[1], RNG.random(6)


@program("neurokit2", 1)
def neurokit_entropy() -> Made:
    import neurokit2 as nk

    return lambda p: nk.fractal_katz(p)[0] + nk.complexity_hjorth(p)[0], RNG.random(12)


@program("librosa", 1)
def librosa_scales() -> Made:
    import librosa

    return lambda p: np.sum(librosa.hz_to_mel(p)) + np.sum(librosa.amplitude_to_db(p, ref=1.0)), np.array([440.0, 880.0])


@program("librosa", 1)
def librosa_stft() -> Made:
    import librosa

    return lambda y: np.sum(np.abs(librosa.stft(y, n_fft=16, hop_length=8))), RNG.normal(size=64)


@program("librosa", 1)
def librosa_features() -> Made:
    import librosa

    return lambda y: np.sum(librosa.feature.melspectrogram(y=y, sr=8000, n_fft=16, hop_length=8, n_mels=4)), RNG.normal(size=64)


@program("skimage", 1)
def skimage_colour() -> Made:
    from skimage.color import rgb2gray, rgb2lab

    return lambda p: np.sum(rgb2lab(p.reshape(1, 2, 3))) + np.sum(rgb2gray(p.reshape(1, 2, 3))), RNG.random(6)


@program("skimage", 1)
def skimage_metrics() -> Made:
    from skimage.metrics import mean_squared_error, normalized_root_mse, peak_signal_noise_ratio

    Q = RNG.random((3, 3))
    return (
        lambda p: (
            mean_squared_error(Q, p.reshape(3, 3))
            + peak_signal_noise_ratio(Q, p.reshape(3, 3), data_range=1.0)
            + normalized_root_mse(Q, p.reshape(3, 3))
        ),
        RNG.random(9),
    )


@program("skimage")
def skimage_exposure() -> Made:
    from skimage.exposure import adjust_gamma, adjust_sigmoid

    return lambda p: np.sum(adjust_gamma(p, 1.7)) + np.sum(adjust_sigmoid(p)), RNG.random(4) * 0.8 + 0.1


@program("skimage", 1)
def skimage_filters() -> Made:
    from skimage.filters import gaussian, sobel

    return lambda p: np.sum(gaussian(p.reshape(4, 4), 1.0)[1:3, 1:3] ** 2) + np.sum(sobel(p.reshape(4, 4))[1:3]), RNG.random(16)


@program("skimage", 1)
def skimage_tv() -> Made:
    from skimage.restoration import denoise_tv_chambolle

    return lambda p: np.sum(denoise_tv_chambolle(p.reshape(4, 4), weight=0.1, max_num_iter=4, eps=0)[0] ** 2), RNG.random(16)


@program("skimage", 1)
def skimage_transform() -> Made:
    from skimage.transform import AffineTransform

    return lambda p: np.sum(
        AffineTransform(scale=(p[0], 1.2), rotation=p[1], translation=(p[2], 0.1))(np.array([[0.3, 0.4], [1.0, 2.0]]))
    ), np.array([1.1, 0.3, 0.2])
