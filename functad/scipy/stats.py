"""`scipy.stats`: what its distributions, estimates and distances compute by compiled code, or find by a search.

Most of `scipy.stats` is differentiated as SciPy writes it. The values are SciPy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _discrete_distns as _discrete
from scipy.stats import _kde, _multivariate
from scipy.stats._distn_infrastructure import rv_continuous as _rv_continuous
from scipy.stats._distn_infrastructure import rv_discrete as _rv_discrete

from functad.adoption.arrays import has_tensors
from functad.adoption.scipy_functions import of_methods, of_tensors, stands_for
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import innermost
from functad.scipy._continuous import UNKNOWN_DENSITIES, like_scipy, of_class
from functad.scipy._integrals import outside, plain
from functad.transforms.stop import stop_gradient

REFUSED: dict[str, str] = {
    **UNKNOWN_DENSITIES,
    "nchypergeom_wallenius": "SciPy computes it by compiled code, an integral without closed form",
    "fit": "SciPy searches with a tolerance; by plain data it runs as ever",
    "multivariate_normal.cdf": "SciPy integrates by random points",
}
"""What is not differentiated, and why. Counts, such as n of `binom`, have no derivative either."""


@of_methods(_rv_continuous, "fit")
def _fit(original: Any, self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """The fit of a distribution by a search: it is not differentiated by the data."""
    raise UnsupportedError(
        f"scipy.stats.{self.name}.fit searches for the parameters with a tolerance that no derivative by the data has, at "
        f"{here()}. Fit plain data: functad.stop_gradient(data). Or solve {self.name}.nnlf's equation with functad.argmin."
    )


@of_tensors("scipy.stats")
def fit(dist: Any, data: Any, bounds: Any = None, **kwargs: Any) -> Any:
    """The fit of any distribution, likewise."""
    raise UnsupportedError(
        f"scipy.stats.fit searches for the parameters with a tolerance that no derivative by the data has, at {here()}. Fit "
        f"plain data: functad.stop_gradient(data). Or solve the equation of {dist.name}.nnlf with functad.argmin."
    )


# Discrete distributions, by their parameters


def _ppf(original: Any, self: Any, q: Any, *args: Any) -> Any:
    """The quantile, which is constant between its steps."""
    known = plain(q, *args)
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.{self.name} needs values for a quantile, at {here()}. Call it outside of jit and vmap."
        )
    with outside():
        return original(self, *known)


for _kind in vars(_discrete).values():
    if isinstance(_kind, type) and issubclass(_kind, _rv_discrete):
        for _name in {"_ppf", "_isf"} & vars(_kind).keys():
            of_methods(_kind, _name)(_ppf)


@of_methods(_rv_discrete, "_cdf")
def _cdf(original: Any, self: Any, k: Any, *args: Any) -> Any:
    """The sum of the probabilities up to k."""
    known = plain(k, *args)
    low: Any = None if known is None else self._get_support(*known[1:])[0]
    if known is None or not np.all(np.isfinite(low)):
        raise UnsupportedError(
            f"scipy.stats.{self.name}.cdf sums probabilities from a first one, which is not known, at {here()}. Sum its pmf."
        )
    last = np.floor(known[0])
    every = np.expand_dims(low, -1) + np.arange(int(np.max(last - low, initial=0)) + 1)
    inside = every <= np.expand_dims(last, -1)
    shape = np.broadcast_shapes(inside.shape, *[(*shape_of(a), 1) for a in args])
    terms = self._pmf(
        np.where(inside, every, np.expand_dims(low, -1)), *[np.broadcast_to(np.expand_dims(a, -1), shape) for a in args]
    )
    return like_scipy(original, np.sum(np.where(inside, terms, 0.0), -1), self, k, *args)


def _powers(low: Any, high: Any, n: Any, a: Any) -> Any:
    """Return the sum of `k^(-a)` for k from low to high, over that up to n."""
    known = plain(low, high, n)
    if known is None:
        raise UnsupportedError(f"scipy.stats.zipfian needs the values of k and n, at {here()}. Pass them as plain numbers.")
    k = np.arange(1.0, np.max(known[2], initial=1) + 1)
    below, above, last = [np.expand_dims(v, -1) for v in known]
    terms = k ** -np.expand_dims(a, -1)
    return np.sum(terms * ((k >= below) & (k <= above)), -1) / np.sum(terms * (k <= last), -1)


@of_class("zipfian", "_pmf", module=_discrete)
def _zipfian_pmf(original: Any, self: Any, k: Any, a: Any, n: Any) -> Any:
    """`k^(-a)` over the sum up to n."""
    k = np.floor(stop_gradient(k))
    return like_scipy(original, _powers(k, k, n, a), self, k, a, n)


@of_class("zipfian", "_cdf", module=_discrete)
def _zipfian_cdf(original: Any, self: Any, k: Any, a: Any, n: Any) -> Any:
    """The sum up to k over that up to n."""
    k = np.floor(stop_gradient(k))
    return like_scipy(original, _powers(np.ones_like(k), k, n, a), self, k, a, n)


@of_class("zipfian", "_sf", module=_discrete)
def _zipfian_sf(original: Any, self: Any, k: Any, a: Any, n: Any) -> Any:
    """The sum from k + 1 on over that up to n."""
    k = np.floor(stop_gradient(k))
    return like_scipy(original, _powers(k + 1, n, n, a), self, k, a, n)


_fisher = getattr(_discrete, "_nchypergeom_gen", None)
if _fisher is not None:

    @of_methods(_fisher, "_pmf")
    def _nchypergeom_pmf(original: Any, self: Any, x: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
        """Fisher's: `C(n, x) C(M-n, N-x) odds^x` over its sum for all x; Wallenius' is an integral that SciPy compiles."""
        if "fisher" not in self.name:
            raise UnsupportedError(
                f"scipy.stats.{self.name} has no derivative, at {here()}: SciPy computes it by compiled code. Use "
                f"nchypergeom_fisher, or functad.stop_gradient(odds)."
            )
        x, M, n, N = [np.asarray(v, float) for v in map(innermost, (x, M, n, N))]

        def log_term(y: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
            inside = (y >= np.maximum(0, N - M + n)) & (y <= np.minimum(n, N))
            z = np.where(inside, y, np.maximum(0, N - M + n))
            counts = special.gammaln(n - z + 1) + special.gammaln(z + 1)
            counts = counts + special.gammaln(N - z + 1) + special.gammaln(M - n - N + z + 1)
            return np.where(inside, z * np.log(odds) - counts, -np.inf)

        every = np.arange(np.max(n, initial=0) + 1)
        logs = log_term(every, *[np.expand_dims(v, -1) for v in (M, n, N, odds)])
        return like_scipy(
            original, np.exp(log_term(x, M, n, N, odds) - special.logsumexp(logs, axis=-1)), self, x, M, n, N, odds
        )


# Estimates of densities


class _KernelEstimate:
    """SciPy's compiled sum of normal densities at all points of data, or its logarithm; `[spec]` chooses among its types."""

    def __init__(self, original: Any, log: bool) -> None:
        self.original, self.log = original, log

    def __getitem__(self, spec: Any) -> Any:
        def estimate(points: Any, values: Any, xi: Any, factor: Any, dtype: Any, *more: Any) -> Any:
            if not has_tensors((points, values, xi, factor)):
                return self.original[spec](points, values, xi, factor, dtype, *more)
            d = shape_of(points)[1]
            whitened = np.linalg.inv(factor).T
            distances = (xi @ whitened)[:, None, :] - (points @ whitened)[None, :, :]
            logs = np.sum(distances**2, -1) / -2 - d / 2 * np.log(2 * np.pi) - np.sum(np.log(np.diagonal(factor)))
            if self.log:
                top = np.max(stop_gradient(logs), -1, keepdims=True)
                return np.log(np.exp(logs - top) @ values) + top
            return np.exp(logs) @ values

        return estimate


for _name, _log in (("gaussian_kernel_estimate", False), ("gaussian_kernel_estimate_log", True)):
    _estimate = getattr(_kde, _name, None)
    if _estimate is not None and not isinstance(_estimate, _KernelEstimate):
        stands_for(_estimate, _KernelEstimate(_estimate, _log))


@of_methods(_multivariate.multivariate_normal_gen, "_cdf")
def _normal_cdf(original: Any, self: Any, *args: Any) -> Any:
    """The distribution function of several variables, which SciPy integrates by random points."""
    raise UnsupportedError(
        f"scipy.stats.multivariate_normal.cdf has no derivative, at {here()}: {REFUSED['multivariate_normal.cdf']}. Use "
        f"products of norm.cdf for independent variables, or functad.stop_gradient."
    )


# Distances between samples


@of_tensors("scipy.stats._stats_py")
def _cdf_distance(p: Any, u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """The distance of order p of two empirical distribution functions, `(integral |U - V|^p)^(1/p)`."""
    samples, cumulated = [], []
    for values, weights in ((u_values, u_weights), (v_values, v_weights)):
        values = np.ravel(np.stack(values) if isinstance(values, list) else values)
        if values.size == 0:
            raise ValueError("Distribution can't be empty.")
        weights = np.full(values.size, 1.0) if weights is None else np.ravel(weights)
        if np.size(weights) != values.size:
            raise ValueError("Value and weight array-likes for the same empirical distribution must be of the same size.")
        order = np.argsort(values)
        sums = np.cumsum(weights[order])
        samples.append(values[order])
        cumulated.append(np.concatenate([np.zeros(1), sums]) / sums[-1])
    every = np.sort(np.concatenate(samples))
    steps = [
        c[np.searchsorted(stop_gradient(s), stop_gradient(every[:-1]), "right")]
        for s, c in zip(samples, cumulated, strict=True)
    ]
    gap = np.abs(steps[0] - steps[1])
    return np.sum(gap**p * np.diff(every)) ** (1 / p)


@of_class("binom", "_pmf", module=_discrete)
def _binom_pmf(original: Any, self: Any, x: Any, n: Any, p: Any) -> Any:
    """`C(n, x) p^x (1-p)^(n-x)`."""
    return like_scipy(original, np.exp(self._logpmf(x, n, p)), self, x, n, p)


@of_class("binom", "_cdf", module=_discrete)
def _binom_cdf(original: Any, self: Any, x: Any, n: Any, p: Any) -> Any:
    """`I_(1-p)(n - k, k + 1)`."""
    return like_scipy(original, _steps(n, np.floor(stop_gradient(x)), p), self, x, n, p)


@of_class("binom", "_sf", module=_discrete)
def _binom_sf(original: Any, self: Any, x: Any, n: Any, p: Any) -> Any:
    """One minus that."""
    return like_scipy(original, 1 - _steps(n, np.floor(stop_gradient(x)), p), self, x, n, p)


def _steps(n: Any, k: Any, p: Any) -> Any:
    inside = (k < n) & (k >= 0)
    return np.where(
        inside, special.betainc(np.where(inside, n - k, 1.0), np.where(inside, k + 1, 1.0), 1 - p), np.where(k < 0, 0.0, 1.0)
    )


@of_class("nbinom", "_pmf", module=_discrete)
def _nbinom_pmf(original: Any, self: Any, x: Any, n: Any, p: Any) -> Any:
    """`C(x + n - 1, x) p^n (1-p)^x`."""
    return like_scipy(original, np.exp(self._logpmf(x, n, p)), self, x, n, p)


@of_class("nbinom", "_cdf", module=_discrete)
def _nbinom_cdf(original: Any, self: Any, x: Any, n: Any, p: Any) -> Any:
    """`I_p(n, k + 1)`."""
    return like_scipy(original, special.betainc(n, np.floor(stop_gradient(x)) + 1, p), self, x, n, p)


@of_class("nbinom", "_sf", module=_discrete)
def _nbinom_sf(original: Any, self: Any, x: Any, n: Any, p: Any) -> Any:
    """One minus that."""
    return like_scipy(original, 1 - special.betainc(n, np.floor(stop_gradient(x)) + 1, p), self, x, n, p)
