"""Samples of `scipy.signal.windows`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

FIXED = ("barthann", "bartlett", "blackman", "blackmanharris", "bohman", "boxcar", "cosine", "flattop", "hamming", "hann")
FIXED += ("lanczos", "nuttall", "parzen", "triang")

SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: [call(6), call(7, sym=False)] for name in FIXED},
    "chebwin": [use(lambda f, at, n=n: f(n, at), 60.0) for n in (6, 7)],
    "dpss": use(lambda f, nw: f(6, nw), 1.5),
    "exponential": use(lambda f, tau: f(6, tau=tau), 1.5),
    "gaussian": use(lambda f, std: f(6, std), 1.5),
    "general_cosine": use(lambda f, a: f(6, a), np.array([0.5, 0.3, 0.2])),
    "general_gaussian": use(lambda f, p, sig: f(6, p, sig), 1.5, 2.0),
    "general_hamming": use(lambda f, alpha: f(6, alpha), 0.6),
    "get_window": [call("hann", 5), use(lambda f, beta: f(("kaiser", beta), 5), 4.0), use(lambda f, beta: f(beta, 5), 4.0)],
    "kaiser": use(lambda f, beta: f(6, beta), 4.0),
    "kaiser_bessel_derived": use(lambda f, beta: f(6, beta), 4.0),
    "taylor": use(lambda f, sll: f(6, sll=sll), 30.0),
    "tukey": use(lambda f, alpha: f(6, alpha), 0.6),
}
