"""Methods of distributions in `jit` and `vmap`, where values are unknown, so that SciPy cannot select points by value."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats._distn_infrastructure import rv_continuous, rv_discrete

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.choices import lazily, where_unknown
from functad.adoption.scipy_functions import of_methods, of_tensors

for _name in ("_lazywhere", "_lazyselect"):
    lazily("scipy._lib._util", _name, of_tensors)
for _place in ("scipy._lib", "scipy._external"):  # depends on the SciPy version
    lazily(f"{_place}.array_api_extra._lib._funcs", "apply_where", of_tensors)

_OUTSIDE = {
    "pdf": (0.0, 0.0),
    "pmf": (0.0, 0.0),
    "logpdf": (-np.inf, -np.inf),
    "logpmf": (-np.inf, -np.inf),
    "cdf": (0.0, 1.0),
    "logcdf": (-np.inf, 0.0),
    "sf": (1.0, 0.0),
    "logsf": (0.0, -np.inf),
}
"""The results of each method below and above the support."""


def _array(a: Any) -> Any:
    """Return a Tensor, or a plain array if `a` is constant."""
    return asarray(a) if has_tensors((a,)) else np.asarray(a)


def _within(low: Any, high: Any) -> Any:
    """Return a point inside a support."""
    ends = [np.isfinite(low), np.isfinite(high)]
    low, high = np.where(ends[0], low, 0.0), np.where(ends[1], high, 0.0)
    return np.where(ends[0] & ends[1], (low + high) / 2, np.where(ends[0], low + 1.0, np.where(ends[1], high - 1.0, 0.0)))


def _everywhere(name: str) -> Any:
    below, above = _OUTSIDE[name]
    counts = name in ("pmf", "logpmf")

    def method(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        shapes, loc, scale = self._parse_args(*args, **kwargs)
        shapes = [_array(a) for a in shapes]
        valid = self._argcheck(*shapes) & (scale > 0)
        low, high = self._get_support(*shapes)
        y = (_array(x) - loc) / scale if isinstance(self, rv_continuous) else _array(x) - loc
        if isinstance(self, rv_discrete):
            inside = (y >= low) & ((y <= high) if counts else (y < high))
            inside = inside & (np.floor(y) == y) if counts else inside
            safe = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1, 0.0))
        else:
            closed = name in ("pdf", "logpdf")
            inside = (y >= low) & (y <= high) if closed else (y > low) & (y < high)
            safe = _within(low, high)
        with np.errstate(all="ignore"):  # warnings of branches that are not selected
            found = getattr(self, f"_{name}")(np.where(inside, y, safe), *shapes)
        if name in ("pdf", "logpdf"):
            found = found / scale if name == "pdf" else found - np.log(scale)
        outside = np.where(y >= high, above, below)
        return np.where(valid & ~np.isnan(y), np.where(inside, found, outside), np.nan)[()]

    return method


for _name in _OUTSIDE:
    for _kind in (rv_continuous, rv_discrete):
        of_methods(_kind, _name)(where_unknown(_everywhere(_name)))


def _quantiles(upper: bool) -> Any:
    def method(self: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
        shapes, loc, scale = self._parse_args(*args, **kwargs)
        q, shapes = _array(q), [_array(a) for a in shapes]
        valid = self._argcheck(*shapes) & (scale > 0) & (loc == loc)
        low, high = self._get_support(*shapes)
        inside = (q > 0) & (q < 1)
        found = (self._isf if upper else self._ppf)(np.where(inside, q, 0.5), *shapes)
        ends = np.where((q == 0) == upper, high, low)
        found = np.where(inside, found, np.where((q == 0) | (q == 1), ends, np.nan))
        return np.where(valid, found * scale + loc, np.nan)[()]

    return method


of_methods(rv_continuous, "ppf")(where_unknown(_quantiles(upper=False)))
of_methods(rv_continuous, "isf")(where_unknown(_quantiles(upper=True)))
