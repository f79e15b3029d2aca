"""Samples of `scipy.fft`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

X = np.random.default_rng(0).normal(size=(2, 4))
Z = X * (1 + 0.5j)

SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: [call(X), call(Z, norm="ortho", workers=1)] for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")},
    **{name: call(X) for name in ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")},
    **{name: [call(X), call(Z)] for name in ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn")},
    **{name: [call(X), call(X, type=3, norm="ortho")] for name in ("dct", "idct", "dst", "idst")},
    **{name: [call(X), call(X, type=4, axes=[0])] for name in ("dctn", "idctn", "dstn", "idstn")},
    **{name: call(X[0], dln=0.1, mu=0.5, offset=0.2, bias=0.1) for name in ("fht", "ifht")},
    "fhtoffset": call(0.1, mu=0.5, initial=0.2),
    "fftshift": call(X),
    "ifftshift": call(X, axes=0),
    "fftfreq": call(5, 0.1),
    "rfftfreq": call(6, 0.1),
    "next_fast_len": call(97),
    "prev_fast_len": call(97),
    "get_workers": call(),
    "set_workers": use(lambda set_workers: type(set_workers(1)).__name__),
    "skip_backend": use(lambda skip_backend: type(skip_backend("scipy")).__name__),
    "set_backend": use(lambda set_backend: type(set_backend("scipy")).__name__),
    "set_global_backend": use(lambda set_global_backend: set_global_backend.__name__),
    "register_backend": use(lambda register_backend: register_backend.__name__),
}
