"""Samples of `scipy.spatial`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

rng = np.random.default_rng(0)
A, B = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
P3 = rng.normal(size=(6, 3))
U, V = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.6, 0.8])
SPHERE = P3 / np.linalg.norm(P3, axis=1, keepdims=True)

SAMPLES: dict[str, Sample | list[Sample]] = {
    "distance_matrix": [call(A, B), call(A, B, p=3)],
    "minkowski_distance": call(A, B[0]),
    "minkowski_distance_p": call(A, B[0], p=3),
    "procrustes": call(A, A[::-1] ** 2),
    "geometric_slerp": [
        use(lambda f, t: f(U, V, t), np.array([0.2, 0.7])),
        use(lambda f, u: f(u / np.linalg.norm(u), V, 0.3), U),
    ],
    "KDTree": use(lambda kind, a, b: kind(a).query(b)[0], A, B),
    "cKDTree": use(lambda kind, a, b: kind(a).query(b)[0], A, B),
    "Rectangle": use(lambda kind, a, b: kind(a, b).min_distance_point(np.zeros(2)), A[0] + 9, A[1]),
    "ConvexHull": use(lambda kind, a: kind(a).volume, A),
    "Delaunay": use(lambda kind, a: kind(a).simplices, A),
    "Voronoi": use(lambda kind, a: kind(a).vertices, A),
    "HalfspaceIntersection": use(
        lambda kind, h: kind(h, np.array([0.5, 0.5])).intersections,
        np.array([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [2.0, 1.0, -4.0], [-0.5, 1.0, -2.0]]),
    ),
    "SphericalVoronoi": use(lambda kind, a: kind(a).vertices, SPHERE),
    "tsearch": use(lambda f: f(_triangles(), B)),
    **{name: use(lambda f: f.__name__) for name in ("convex_hull_plot_2d", "delaunay_plot_2d", "voronoi_plot_2d")},
}


def _triangles() -> object:
    from scipy.spatial import Delaunay

    return Delaunay(A)
