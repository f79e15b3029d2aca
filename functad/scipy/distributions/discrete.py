"""Discrete distributions whose probabilities SciPy compiles or sums, differentiable in their parameters.

The values are SciPy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _discrete_distns as _discrete
from scipy.stats._distn_infrastructure import rv_discrete as _rv_discrete

from functad.adoption.scipy_functions import of_methods, of_tensors, plain_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import innermost, known_values
from functad.scipy._integrals import outside
from functad.scipy.distributions.continuous import like_scipy, of_class
from functad.transforms.grad import stop_gradient


def _ppf(original: Any, self: Any, q: Any, *args: Any) -> Any:
    """Return a quantile, which is piecewise constant."""
    known = known_values(q, *args)
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
    """Return the sum of the probabilities up to k."""
    known = known_values(k, *args)
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
    """Return the sum of `k^(-a)` for k from low to high, divided by the sum up to n."""
    known = known_values(low, high, n)
    if known is None:
        raise UnsupportedError(f"scipy.stats.zipfian needs the values of k and n, at {here()}. Pass them as plain numbers.")
    k = np.arange(1.0, np.max(known[2], initial=1) + 1)
    below, above, last = [np.expand_dims(v, -1) for v in known]
    terms = k ** -np.expand_dims(a, -1)
    return np.sum(terms * ((k >= below) & (k <= above)), -1) / np.sum(terms * (k <= last), -1)


@of_class("zipfian", "_pmf", module=_discrete)
def _zipfian_pmf(original: Any, self: Any, k: Any, a: Any, n: Any) -> Any:
    """`k^(-a)` divided by the sum up to n."""
    k = np.floor(stop_gradient(k))
    return like_scipy(original, _powers(k, k, n, a), self, k, a, n)


@of_class("zipfian", "_cdf", module=_discrete)
def _zipfian_cdf(original: Any, self: Any, k: Any, a: Any, n: Any) -> Any:
    """The sum up to k divided by the sum up to n."""
    k = np.floor(stop_gradient(k))
    return like_scipy(original, _powers(np.ones_like(k), k, n, a), self, k, a, n)


@of_class("zipfian", "_sf", module=_discrete)
def _zipfian_sf(original: Any, self: Any, k: Any, a: Any, n: Any) -> Any:
    """The sum from k + 1 divided by the sum up to n."""
    k = np.floor(stop_gradient(k))
    return like_scipy(original, _powers(k + 1, n, n, a), self, k, a, n)


COMPILED = "SciPy computes it by compiled code, an integral without closed form"

_fisher = getattr(_discrete, "_nchypergeom_gen", None)
if _fisher is not None:

    @of_methods(_fisher, "_pmf")
    def _nchypergeom_pmf(original: Any, self: Any, x: Any, M: Any, n: Any, N: Any, odds: Any) -> Any:
        """Return Fisher's `C(n, x) C(M-n, N-x) odds^x` over its sum for all x; raise for Wallenius' distribution."""
        if "fisher" not in self.name:
            raise UnsupportedError(
                f"scipy.stats.{self.name} has no derivative, at {here()}: {COMPILED}. Use nchypergeom_fisher, or "
                f"functad.stop_gradient(odds)."
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
    """`1 - I_(1-p)(n - k, k + 1)`."""
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
    """`1 - I_p(n, k + 1)`."""
    return like_scipy(original, 1 - special.betainc(n, np.floor(stop_gradient(x)) + 1, p), self, x, n, p)


@of_class("skellam", "_pmf", module=_discrete)
def _skellam_pmf(original: Any, self: Any, x: Any, mu1: Any, mu2: Any) -> Any:
    """`exp(-mu1 - mu2) (mu1 / mu2)^(x/2) I_x(2 sqrt(mu1 mu2))`."""
    x = np.floor(stop_gradient(x))
    gap = np.sqrt(mu1) - np.sqrt(mu2)
    bessel = special.ive(np.abs(x), 2 * np.sqrt(mu1 * mu2))
    return like_scipy(original, np.exp(x / 2 * np.log(mu1 / mu2) - gap**2) * bessel, self, x, mu1, mu2)


@of_class("skellam", "_cdf", module=_discrete)
def _skellam_cdf(original: Any, self: Any, x: Any, mu1: Any, mu2: Any) -> Any:
    """Return a noncentral chi-squared distribution function for x < 0, otherwise one minus such a function."""
    x = np.floor(stop_gradient(x))
    low = x < 0
    below = special.chndtr(2 * mu2, np.where(low, -2 * x, 2.0), 2 * mu1)
    above = 1 - special.chndtr(2 * mu1, np.where(low, 2.0, 2 * (x + 1)), 2 * mu2)
    return like_scipy(original, np.where(low, below, above), self, x, mu1, mu2)


def _of_trials(original: Any, k: Any, p: Any, cumulative: bool) -> Any:
    """Return the probabilities of k successes in n trials with the probabilities `p`, of shape `(n, ...)`."""
    n, *shape = shape_of(p)
    found: Any = np.ones((1, *shape))
    none = np.zeros((1, *shape))
    for i in range(n):
        found = np.concatenate([found * (1 - p[i]), none]) + np.concatenate([none, found * p[i]])
    found = np.cumsum(found, 0) if cumulative else found
    k = np.asarray(plain_value(k)).astype(int)
    chosen = np.where(np.arange(n + 1)[:, None] == k, found, 0.0).sum(0)
    return like_scipy(lambda self, k, p: original(k, p), chosen, None, k, p)


_sum_of_trials: Any = getattr(_discrete, "_poisson_binom", None)


@of_tensors("scipy.stats._stats_pythran")
def _poisson_binom(k: Any, p: Any, kind: str) -> Any:
    """Return the probabilities or their sums, for SciPy before 1.18."""
    return _of_trials(lambda k, p: _sum_of_trials(k, p, kind), k, p, kind == "cdf")


def _enter_of_trials(name: str) -> None:
    original = getattr(_discrete, name, None)

    def called(k: Any, p: Any) -> Any:
        return _of_trials(lambda k, p: original(k, np.moveaxis(p, 0, -1)), k, np.moveaxis(p, -1, 0), name.endswith("cdf"))  # type: ignore[misc]

    of_tensors("scipy.special._spfun_stats", name)(called)


_enter_of_trials("_poisson_binom_pmf")
_enter_of_trials("_poisson_binom_cdf")
