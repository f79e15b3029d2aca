"""Histograms. They are linear in the weights, and edges computed from the data depend on the extremes of the data.

Counts and the assignment of values to bins have no derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.arranging.reshape import Calls, ravel
from functad.primitives.arranging.sequences import linspace
from functad.primitives.elementwise.conversion import astype
from functad.primitives.indexing.read import scatter
from functad.primitives.kinds import composite
from functad.primitives.operands import as_array, concrete, is_traced
from functad.primitives.signals.differences import array_of, diff

_DOC = "linear in the weights; the edges follow the extremes of the data, and densities the edges; counts are constant"


def _range_of(given: Any) -> Any:
    return None if given is None else tuple([concrete(end, "np.histogram") for end in given])


def _outer_edges(a: Any, given: Any) -> tuple[Any, Any]:
    """Return the first and the last edge: the given range or the extremes of the data, moved apart if they are equal."""
    first, last = (a.min(), a.max()) if given is None else given
    if concrete(first, "np.histogram") == concrete(last, "np.histogram"):
        return first - 0.5, last + 0.5
    return first, last


def _edges(a: Any, bins: Any, given: Any, weights: Any) -> Any:
    """Return the edges of the bins; NumPy computes their number."""
    if not isinstance(bins, str) and np.ndim(bins) == 1:
        bins = array_of(bins)
        np.histogram_bin_edges(np.zeros(0), concrete(bins, "np.histogram"))  # raises NumPy's errors
        return bins
    bins = concrete(bins, "np.histogram")
    ends = () if given is None else given
    moving = any(map(is_traced, ends)) or (is_traced(a) and given is None and shape_of(a) != (0,))
    if given is not None and not isinstance(bins, str) and not moving:
        return np.histogram_bin_edges(np.zeros(0, dtype_of(a)), bins, given)
    held = None if weights is None else np.zeros(shape_of(weights))
    found = np.histogram_bin_edges(concrete(a, "np.histogram"), bins, _range_of(given), held)
    return linspace(*_outer_edges(a, given), len(found), dtype=found.dtype) if moving else found


def _places(values: Any, edges: Any) -> tuple[Any, Any]:
    """Return the bin of each value and the mask of values inside any bin. The last bin includes its right edge."""
    places = np.searchsorted(edges, values, "right") - 1
    places[values == edges[-1]] = len(edges) - 2
    return places, (places >= 0) & (places < len(edges) - 1)


def _flat(a: Any, weights: Any) -> tuple[Any, Any]:
    a = array_of(a)
    if weights is not None:
        weights = array_of(weights)
        if shape_of(weights) != shape_of(a):
            raise ValueError("weights should have the same shape as a.")
        weights = ravel(weights)
    return ravel(a), weights


def _edge_samples(array: Any) -> Calls:
    real = np.real  # complex numbers have no bins
    return [
        ((real(array(5)),), {}),
        ((real(array(2, 3)), 3), {}),
        ((real(array(5)), 4, (-1.5, 1.0)), {}),
        ((real(array(5)),), {"bins": 2, "range": (real(array(low=-2, high=-1)), real(array(low=1)))}),
        ((real(array(6)), "sturges"), {}),
        ((real(array(2)), real(np.sort(array(3)))), {}),
        ((real(array(1)), 2), {}),
        ((real(array(0)), 2), {}),
    ]


@composite(
    np.histogram_bin_edges,
    samples=_edge_samples,
    value_dependent=True,
    doc="linear between the extremes of the data, or the ends of the range; edges that are given pass",
)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    a, weights = _flat(a, weights)
    return _edges(a, bins, range, weights)


def _histogram_samples(array: Any) -> Calls:
    data, edges, real = [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0], [-1.5, -0.5, 0.25, 1.5], np.real
    return [
        ((data, 3), {"weights": array(6)}),
        (([data[:3], data[3:]], edges), {"weights": array(2, 3)}),
        ((data, 2), {"weights": real(array(6, low=0.5)), "density": True}),
        ((data, real(np.sort(array(3)))), {"density": True}),
        ((data, 4, (-0.7, 0.9)), {"weights": array(6)}),
        ((real(array(6)), 3), {"density": True}),
        ((real(array(6)), edges), {}),
        ((real(array(0)), 2), {"weights": array(0)}),
    ]


@composite(np.histogram, samples=_histogram_samples, value_dependent=True, doc=_DOC)
def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    a, weights = _flat(a, weights)
    edges = _edges(a, bins, range, weights)
    values, known = concrete(a, "np.histogram"), concrete(edges, "np.histogram")
    if weights is None:
        n = np.histogram(values, known)[0]
    else:
        places, inside = _places(values, known)
        own = dtype_of(weights)
        wide = np.result_type(own, np.float64)  # the dtype of NumPy's sum
        n = scatter(weights[inside], indices=(places[inside],), shape=(len(known) - 1,), dtype=wide)
        n = astype(n, own, copy=False)
    if not density:
        return n, edges
    return n / astype(diff(edges), np.float64, copy=False) / n.sum(), edges


# Histograms in several dimensions


def _columns(sample: Any) -> Any:
    """Return the sample as a matrix with a point in each row."""
    if len(getattr(sample, "shape", ())) == 2:
        return sample
    sample = array_of(sample)
    return np.atleast_2d(sample).T


def _edges_of_axis(column: Any, bins: Any, given: Any) -> Any:
    if np.ndim(bins) == 1:
        return array_of(bins)
    first, last = _outer_edges(column, given) if given is not None or len(column) else (0, 1)
    return linspace(first, last, int(concrete(bins, "np.histogramdd")) + 1)


def _points(array: Any) -> Calls:
    x, y, edges, real = [-1.0, -0.3, 0.1, 0.8], [0.3, 1.0, -1.0, 0.5], [-1.5, -0.5, 0.0, 1.5], np.real
    return [
        (([x, y], (2, edges)), {"weights": real(array(4))}),
        (([x, y], 2), {"weights": real(array(4, low=0.5)), "density": True}),
        (([x, y], [edges, real(np.sort(array(3)))]), {"weights": real(array(4, low=0.5))}),
        (([x, y], 2, [(-0.5, 1.0), None]), {"weights": real(array(4))}),
        (([x, real(array(4))], 2), {"density": True}),
        ((real(array(4, 2)), 2), {}),
    ]


@composite(np.histogramdd, samples=_points, value_dependent=True, doc=_DOC, sequences=("sample", "bins", "range"))
def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    """Return the result of `np.histogramdd`."""
    sample = _columns(sample)
    count = shape_of(sample)[1]
    bins = [as_array(b) for b in bins] if hasattr(bins, "__len__") else [bins] * count
    ranges = [None] * count if range is None else list(range)
    columns = [sample[:, i] for i in np.arange(count).tolist()]
    known_bins = [concrete(array_of(b), "np.histogramdd") if np.ndim(b) else b for b in bins]
    values = concrete(sample, "np.histogramdd")
    counts, found = np.histogramdd(values, known_bins, [_range_of(r) for r in ranges])  # raises NumPy's errors
    edges = type(found)(_edges_of_axis(*row) for row in zip(columns, bins, ranges, strict=True))
    if weights is None:
        hist = counts
    else:
        weights = array_of(weights)
        if dtype_of(weights).kind == "c":
            raise TypeError("Cannot cast array data from complex numbers to dtype('float64') according to the rule 'safe'")
        rows = [_places(values[:, i], edge) for i, edge in enumerate(found)]
        inside = np.logical_and.reduce([row[1] for row in rows])
        index = tuple([row[0][inside] + 1 for row in rows])
        wider = tuple([n + 2 for n in counts.shape])  # with outer bins, so the memory layout is NumPy's
        hist = scatter(weights[inside], indices=(index,), shape=wider, dtype=np.dtype(np.float64))
        hist = hist[(slice(1, -1),) * count]
    if density:
        total = hist.sum()
        for i, edge in enumerate(edges):
            hist = hist / diff(edge).reshape((-1,) + (1,) * (count - i - 1))
        hist = hist / total
    return hist, edges


@composite(
    np.histogram2d,
    samples=lambda array: [
        (([-0.5, 0.1, 0.5], [1.0, 0.3, 2.0], 2), {"weights": np.real(array(3))}),
        (([-0.5, 0.1, 0.5], np.real(array(3)), [-2.0, 0.0, 2.0]), {}),
        ((np.real(array(3)), np.real(array(3)), (2, 3)), {"density": True}),
        ((np.real(array(3)), [0, 0, 0]), {"bins": [2, 2], "range": [[-2, 2], [-1, 1]]}),
    ],
    value_dependent=True,
    doc=_DOC,
    sequences=("bins", "range"),
)
def _histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    if len(x) != len(y):
        raise ValueError("x and y must have the same length.")
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [bins, bins]
    hist, edges = histogramdd([x, y], bins, range, density, weights)
    return hist, edges[0], edges[1]
