"""Moments and entropies that SciPy integrates, sums or compiles. The values are SciPy's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _continuous_distns as continuous
from scipy.stats import _discrete_distns as discrete
from scipy.stats._distn_infrastructure import rv_continuous, rv_generic

from functad.adoption.arrays import vectorize
from functad.adoption.scipy_functions import of_methods, of_tensors, plain_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import is_traced, known_values
from functad.scipy._integrals import beyond, outside, valued, within
from functad.scipy.distributions.continuous import like_scipy, of_class


def _elementwise(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the method on a copy of the distribution, whose vectorized functions then use the adopted NumPy."""
    return original(copy.copy(self), *args, **kwargs)


of_methods(rv_generic, "entropy")(_elementwise)
of_methods(rv_generic, "_munp")(_elementwise)


def _support(self: Any, args: Any, known: Any) -> tuple[Any, Any, Any]:
    """Return the ends of the support of a distribution, and a point between them: the kink of the density if it has one."""
    if isinstance(self, continuous.vonmises_gen):
        return -np.pi, 0.0, np.pi
    low, high = self._get_support(*args)
    if self.name == "crystalball":
        return low, -known[0], high
    with outside():
        return low, self._ppf(0.5, *known), high


def _over_support(original: Any, self: Any, f: Callable[..., Any], args: tuple[Any, ...], *before: Any) -> Any:
    """Return SciPy's integral over the support of a distribution, with the derivatives of a sum over fixed nodes.

    Args:
        original: SciPy's method.
        self: the distribution.
        f: `f(x, density, *args)`, the integrand.
        args: the shape parameters, which are numbers.
        before: the arguments of the method that precede the shape parameters.
    """
    known = known_values(*args)
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.{self.name} integrates its moments and its entropy, which needs values that are not known in jit or "
            f"vmap, at {here()}. Call it outside of them."
        )
    with outside():
        value = original(self, *before, *known)
    low, middle, high = _support(self, args, known)
    wide = [np.expand_dims(a, -1) for a in args]

    def integrand(nodes: Any) -> Any:
        shapes = [np.broadcast_to(a, shape_of(nodes)) for a in wide]
        with np.errstate(all="ignore"):
            density = self._pdf(nodes, *shapes)
            height = plain_value(density)
            counts = (height > 1e-250) & (height < np.inf)  # the rest may be NaN and contributes nothing
            terms = f(np.where(counts, nodes, 1.0), np.where(counts, density, 1.0), *shapes)
        return np.where(counts, terms, 0.0)

    total: Any = 0.0
    for end, side in ((low, -1.0), (high, 1.0)):
        if np.isfinite(plain_value(end)):
            total = total + side * within(integrand, np.asarray(middle, float), end)
        else:
            total = total + beyond(integrand, middle, side, far=True)
    if np.isfinite(value) and not abs(plain_value(total) - value) <= 1e-6 * abs(value) + 1e-9:
        raise UnsupportedError(
            f"scipy.stats.{self.name} integrates to {value}, at {here()}, and a sum over points, which has derivatives, "
            f"gives {plain_value(total)}. Use functad.stop_gradient for the parameters."
        )
    return valued(value, total)


def _moment(original: Any, self: Any, m: Any, *args: Any) -> Any:
    """Return the integral of `x^m` times the density."""
    m = plain_value(m)
    return _over_support(original, self, lambda x, density, *args: x**m * density, args, m)


def _entropy(original: Any, self: Any, *args: Any) -> Any:
    """Return the integral of `-p log p` for the density p."""
    return _over_support(original, self, lambda x, density, *args: special.entr(density), args)


of_methods(rv_continuous, "_mom0_sc", "_mom1_sc")(_moment)
of_methods(rv_continuous, "_entropy")(_entropy)


def _vectorized(method: Callable[..., Any], first: int) -> Callable[..., Any]:
    def of_arrays(original: Any, self: Any, *args: Any) -> Any:
        before, shapes = args[:first], args[first:]
        return vectorize(lambda *each: method(original, self, *before, *each), otypes="d")(*shapes)

    return of_arrays


for _name in ("gausshyper", "geninvgauss"):
    of_class(_name, "_munp")(_vectorized(_moment, 1))
for _name in ("gompertz", "invgauss", "kappa4"):
    of_class(_name, "_entropy")(_vectorized(_entropy, 0))


def _four(self: Any, values: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return mean, variance, skewness and excess kurtosis with SciPy's values, for scalar parameters."""
    found: list[Any] = []
    for m, value in enumerate(values, 1):
        if not np.isfinite(value):
            found.append(value)
            continue
        mean, spread = (found[0] if m > 1 else 0.0), (np.sqrt(found[1]) if m > 2 else 1.0)
        shift = 3.0 if m == 4 else 0.0

        def term(x: Any, density: Any, *args: Any, m: int = m, a: Any = mean, s: Any = spread, shift: float = shift) -> Any:
            return (((x - a) / s) ** m - shift) * density

        found.append(_over_support(lambda self, *args, value=value: value, self, term, args))
    return tuple(found)


def _statistics(original: Any, self: Any, *args: Any, **options: Any) -> Any:
    """Return mean, variance, skewness and kurtosis by integrals, because SciPy's functions have no derivatives."""
    known = known_values(*args)
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.{self.name} needs values for its moments, at {here()}. Call it outside of jit and vmap."
        )
    with outside():
        values = original(self, *known, **({"moments": "mvsk"} if options else {}))
    shape = np.broadcast_shapes(*map(np.shape, known))
    values = [np.broadcast_to(np.nan if value is None else value, shape) for value in values]
    args = tuple([np.broadcast_to(a, shape) for a in args])
    each = [_four(self, tuple([v[i] for v in values]), tuple([a[i] for a in args])) for i in np.ndindex(shape)]
    return tuple(
        [np.reshape(np.stack([np.asarray(e[m]) if not is_traced(e[m]) else e[m] for e in each]), shape) for m in range(4)]
    )


for _name in ("genhyperbolic", "ncf", "nct", "gennorm"):
    of_class(_name, "_stats")(_statistics)
of_class("gennorm", "_munp")(_vectorized(_moment, 1))
of_class("kappa4", "_mom1_sc")(_moment)


@of_class("nbinom", "_stats", module=discrete)
def _nbinom_stats(original: Any, self: Any, n: Any, p: Any) -> Any:
    """Return the statistics of the number of failures before n successes."""
    q = 1 - p
    formulas = (n * q / p, n * q / p**2, (2 - p) / np.sqrt(n * q), 6 / n + p**2 / (n * q))
    return tuple([like_scipy(lambda self, *args, i=i: original(self, *args)[i], f, self, n, p) for i, f in enumerate(formulas)])


@of_tensors("scipy.special._ufuncs")
def _gen_harmonic(n: Any, a: Any) -> Any:
    """Return the sum of `k^-a` for k up to n."""
    known = known_values(n)
    if known is None:
        raise UnsupportedError(f"The harmonic numbers of scipy.stats.zipfian need the value of n, at {here()}. Pass a number.")
    k = np.arange(1.0, np.max(known[0], initial=1) + 1)
    terms = np.where(k <= np.expand_dims(known[0], -1), k ** -np.expand_dims(a, -1), 0.0)
    return like_scipy(lambda self, *args: _harmonic(*args), np.sum(terms, -1), None, n, a)


_harmonic: Any = getattr(special._ufuncs, "_gen_harmonic", None)
