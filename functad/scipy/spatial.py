"""`scipy.spatial`: distances between the rows of matrices, by their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import distance

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_tensors, outside_traces, plain_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import is_traced
from functad.scipy.rotations import classes  # noqa: F401 - registers rotations

_DISTANCE = "scipy.spatial.distance"


def _total(x: Any, w: Any = None) -> Any:
    return np.sum(x if w is None else x * w, -1)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    return np.max(np.abs(u - v) if w is None else np.abs(u - v) * (w > 0), -1)


def _minkowski(u: Any, v: Any, p: Any = 2.0, w: Any = None) -> Any:
    if not is_traced(p) and p == np.inf:
        return _chebyshev(u, v, w)
    return _total(np.abs(u - v) ** p, w) ** (1 / p)


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return 1 - _total(u * v, w) / np.sqrt(_total(u * u, w) * _total(v * v, w))


def _correlation(u: Any, v: Any, w: Any = None) -> Any:
    if w is None:
        return _cosine(u - np.mean(u, -1, keepdims=True), v - np.mean(v, -1, keepdims=True))
    w = w / np.sum(w)
    return _cosine(u - _total(u, w)[..., None], v - _total(v, w)[..., None], w)


def _jensenshannon(u: Any, v: Any, base: Any = None) -> Any:
    u, v = u / np.sum(u, -1, keepdims=True), v / np.sum(v, -1, keepdims=True)
    m = (u + v) / 2

    def entropy(x: Any) -> Any:
        return _total(np.where(x > 0, x * np.log(np.where(x > 0, x / m, 1.0)), 0.0))

    divergence = (entropy(u) + entropy(v)) / 2
    return np.sqrt(np.maximum(divergence, 0.0) / (1.0 if base is None else np.log(base)))


def _canberra(u: Any, v: Any, w: Any = None) -> Any:
    size = np.abs(u) + np.abs(v)
    return _total(np.abs(u - v) / np.where(size == 0, 1.0, size), w)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    d = u - v
    return np.sqrt(np.einsum("...i,ij,...j->...", d, VI, d))


FORMULAS: dict[str, Callable[..., Any]] = {
    "braycurtis": lambda u, v, w=None: _total(np.abs(u - v), w) / _total(np.abs(u + v), w),
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": lambda u, v, w=None: _total(np.abs(u - v), w),
    "correlation": _correlation,
    "cosine": _cosine,
    "euclidean": lambda u, v, w=None: np.linalg.norm((u - v) if w is None else (u - v) * np.sqrt(w), axis=-1),
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": lambda u, v, V: np.linalg.norm((u - v) / np.sqrt(V), axis=-1),
    "sqeuclidean": lambda u, v, w=None: _total((u - v) ** 2, w),
}
"""The distance of two arrays along the last axis, by SciPy's name of the metric."""

_OTHER_NAMES = {alias: info.canonical_name for info in distance._METRIC_INFOS for alias in info.aka}


def _formula(metric: Any, rows: Any, options: dict[str, Any]) -> Any:
    """Return a metric as a function of two arrays; compute a missing `V` or `VI` from the data."""
    if callable(metric):
        return None
    name = _OTHER_NAMES.get(metric.lower(), metric.lower())
    if name not in FORMULAS:
        raise UnsupportedError(
            f"distances of Tensors by {metric!r}, at {here()}, which counts elements that differ and has no derivative. "
            f"Use one of {', '.join(FORMULAS)}, or stop_gradient of the points."
        )
    if name == "seuclidean" and options.get("V") is None:
        options["V"] = np.var(rows, axis=0, ddof=1)
    if name == "mahalanobis" and options.get("VI") is None:
        options["VI"] = np.linalg.inv(np.atleast_2d(np.cov(rows.T))).T
    return FORMULAS[name]


def _refuse_out(out: Any, name: str) -> None:
    if out is not None:
        raise UnsupportedError(f"{name} of Tensors with out=, at {here()}. Leave it out, and take the result.")


@of_tensors(_DISTANCE)
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """Return the distances between all rows of one matrix and all rows of another."""
    _refuse_out(out, "cdist")
    a, b = asarray(XA), asarray(XB)
    if len(shape_of(a)) != 2 or len(shape_of(b)) != 2 or shape_of(a)[1] != shape_of(b)[1]:
        raise ValueError("XA and XB must be 2-dimensional with the same number of columns.")
    formula = _formula(metric, np.concatenate([a, b]), kwargs)
    if formula is None:
        return np.stack([np.stack([metric(u, v, **kwargs) for v in b]) for u in a])
    return formula(a[:, None], b[None], **kwargs)


@of_tensors(_DISTANCE)
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """Return the distances between all pairs of rows of a matrix, as a vector."""
    _refuse_out(out, "pdist")
    x = asarray(X)
    if len(shape_of(x)) != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    i, j = np.triu_indices(shape_of(x)[0], 1)
    formula = _formula(metric, x, kwargs)
    if formula is None:
        return np.stack([metric(x[a], x[b], **kwargs) for a, b in zip(i, j, strict=True)])
    return formula(x[i], x[j], **kwargs)


@of_tensors(_DISTANCE)
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """Convert a vector of distances to a symmetric matrix, or such a matrix to a vector."""
    x = asarray(X)
    shape = shape_of(x)
    if force.lower() == ("tovector" if len(shape) == 1 else "tomatrix"):
        raise ValueError(f"Forcing {force!r} but input X is not fitting.")
    if len(shape) == 2:
        if checks:
            distance.is_valid_dm(x, throw=True, name="X")
        return x[np.triu_indices(shape[0], 1)]
    n = int(np.ceil(np.sqrt(2 * shape[0]))) if shape[0] else 1
    if n * (n - 1) != 2 * shape[0]:
        raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2.")
    i, j = np.triu_indices(n, 1)
    places = np.zeros((n, n), dtype=np.int64)
    places[i, j] = places[j, i] = 1 + np.arange(shape[0])
    return np.concatenate([np.zeros(1), x])[places]


@of_tensors(_DISTANCE)
def directed_hausdorff(u: Any, v: Any, rng: Any = 0, *, seed: Any = 0) -> Any:
    """Return the largest distance from a row of `u` to its nearest row of `v`, and the indices of these rows."""
    u, v = asarray(u), asarray(v)
    _, i, j = outside_traces(distance.directed_hausdorff, plain_value(u), plain_value(v), rng or seed)
    return np.linalg.norm(u[i] - v[j]), i, j


_POSITIONS = "compiled, and what it finds are positions; use plain points, and compute with those that it finds"
_NEIGHBOURS = "neighbours have no derivative: query it with plain points, and take the distances by cdist"

REFUSED: dict[str, str] = {
    "KDTree": _NEIGHBOURS,
    "cKDTree": _NEIGHBOURS,
    "ConvexHull": _POSITIONS,
    "Delaunay": _POSITIONS,
    "Voronoi": _POSITIONS,
    "HalfspaceIntersection": _POSITIONS,
    "SphericalVoronoi": _POSITIONS,
    "transform.RigidTransform": "compiled; use Rotation and a vector",
    "transform.Rotation.reduce": "it has no derivative rule; take as_quat() or as_matrix(), and compute with that",
}
"""Functions that reject Tensors, and the reasons."""
