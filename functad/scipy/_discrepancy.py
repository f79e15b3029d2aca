"""Discrepancies of point sets, `scipy.stats.qmc.discrepancy` and related functions, which SciPy compiles.

The formulas are sums of products over the axes (Y. Zhou, K. Fang and J. Ning, "Mixture discrepancy for quasi-random point
sets", J. Complexity 29, 2013).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import distance as _distance
from scipy.stats import qmc as _qmc

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_tensors, plain_value, refuse, replacement_of, with_value
from functad.expressions.spec import shape_of

PART = "scipy.stats.qmc"
COUNTED = "it counts draws, so its derivative by the probabilities is zero; use functad.stop_gradient for them"

refuse("scipy.stats._qmc", {"_fill_p_cumulative": COUNTED})


@of_tensors(PART)
def discrepancy(sample: Any, *, iterative: bool = False, method: str = "CD", workers: int = 1) -> Any:
    """Return the discrepancy of points in the unit cube."""
    value = _qmc.discrepancy(plain_value(sample), iterative=iterative, method=method, workers=workers)
    x = asarray(sample)
    n, d = shape_of(x)
    n += iterative  # the discrepancy counts one additional point
    return with_value(_MEASURES[method](x, n, d), value)


def _centred(x: Any, n: int, d: int) -> Any:
    far = np.abs(x - 0.5)
    single = np.prod(1 + 0.5 * far - 0.5 * far**2, axis=-1)
    pairs = np.prod(1 + 0.5 * far[:, None] + 0.5 * far - 0.5 * np.abs(x[:, None] - x), axis=-1)
    return (13 / 12) ** d - 2 / n * np.sum(single) + np.sum(pairs) / n**2


def _wrapped(x: Any, n: int, d: int) -> Any:
    apart = np.abs(x[:, None] - x)
    return -((4 / 3) ** d) + np.sum(np.prod(1.5 - apart * (1 - apart), axis=-1)) / n**2


def _mixed(x: Any, n: int, d: int) -> Any:
    far, apart = np.abs(x - 0.5), np.abs(x[:, None] - x)
    single = np.prod(5 / 3 - 0.25 * far - 0.25 * far**2, axis=-1)
    pairs = np.prod(15 / 8 - 0.25 * far[:, None] - 0.25 * far - 0.75 * apart + 0.5 * apart**2, axis=-1)
    return (19 / 12) ** d - 2 / n * np.sum(single) + np.sum(pairs) / n**2


def _star(x: Any, n: int, d: int) -> Any:
    single, pairs = np.prod(1 - x**2, axis=-1), np.prod(1 - np.maximum(x[:, None], x), axis=-1)
    return np.sqrt(3.0**-d - 2.0 ** (1 - d) / n * np.sum(single) + np.sum(pairs) / n**2)


_MEASURES = {"CD": _centred, "WD": _wrapped, "MD": _mixed, "L2-star": _star}


@of_tensors(PART)
def update_discrepancy(x_new: Any, sample: Any, initial_disc: Any) -> Any:
    """Return the centred discrepancy after `x_new` is added; `initial_disc` was computed with `iterative=True`."""
    value = _qmc.update_discrepancy(plain_value(x_new), plain_value(sample), float(plain_value(initial_disc)))
    x, sample = asarray(x_new), asarray(sample)
    n, far, others = shape_of(sample)[0] + 1, np.abs(x - 0.5), np.abs(sample - 0.5)
    single = np.prod(1 + 0.5 * far - 0.5 * far**2)
    pairs = np.prod(1 + 0.5 * far + 0.5 * others - 0.5 * np.abs(x - sample), axis=-1)
    return with_value(initial_disc - 2 / n * single + (2 * np.sum(pairs) + np.prod(1 + far)) / n**2, value)


@of_tensors(PART)
def geometric_discrepancy(sample: Any, method: str = "mindist", metric: str = "euclidean") -> Any:
    """Return the smallest distance between points, or the mean edge length of their minimum spanning tree."""
    value = _qmc.geometric_discrepancy(plain_value(sample), method, metric)
    pdist = replacement_of(_distance.pdist) or _distance.pdist
    distances = pdist(asarray(sample), metric=metric)
    known = plain_value(distances)
    if method == "mindist":
        return distances[np.argmin(np.where(known == 0, np.inf, known))]
    edges = minimum_spanning_tree(_distance.squareform(known)).nonzero()
    return with_value(np.mean(distances[_distance.squareform(np.arange(known.size))[edges]]), value)
