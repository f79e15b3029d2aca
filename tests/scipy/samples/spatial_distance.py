"""Samples of `scipy.spatial.distance`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

rng = np.random.default_rng(0)
U, V, W = rng.normal(size=(3, 4))
A, B = rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
W = np.abs(W)
METRICS = ["braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "sqeuclidean"]
BITS = np.array([True, False, True, True]), np.array([True, True, False, True])

SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: [call(U, V), call(U, V, w=W)] for name in METRICS},
    "minkowski": [call(U, V, p=3), call(U, V, p=1.5, w=W)],
    "mahalanobis": call(U, V, np.diag(W)),
    "seuclidean": call(U, V, W),
    "jensenshannon": call(np.abs(U), W, base=2),
    "cdist": [call(A, B, metric) for metric in (*METRICS, "minkowski", "seuclidean")],
    "pdist": [call(A, metric) for metric in (*METRICS, "minkowski")],
    "squareform": [call(W[:3]), use(lambda f, d: f(f(d)), W[:3])],
    "directed_hausdorff": use(lambda f, a, b: f(a, b)[0], A, B),
    **{
        name: use(lambda f: f(*BITS))
        for name in ("dice", "hamming", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
    },
    "is_valid_dm": use(lambda f: f(np.zeros((2, 2)))),
    "is_valid_y": use(lambda f: f(np.zeros(3))),
    "num_obs_dm": use(lambda f: f(np.zeros((2, 2)))),
    "num_obs_y": use(lambda f: f(np.zeros(3))),
}
