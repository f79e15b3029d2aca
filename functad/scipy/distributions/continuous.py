"""Continuous distributions whose distribution functions or quantiles SciPy compiles, integrates or computes by a search.

Most distributions are differentiated through SciPy's Python code. Here, quantiles follow from the distribution function by
the implicit function theorem. Distribution functions that SciPy integrates get the derivatives of an integral of the density.
The values are SciPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _continuous_distns as continuous
from scipy.stats._distn_infrastructure import rv_continuous, rv_discrete, rv_generic

from functad.adoption.arrays import has_tensors
from functad.adoption.scipy_functions import of_methods
from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.operands import innermost, is_traced, known_values
from functad.rules.custom import custom_jvp
from functad.scipy._integrals import beyond, outside, valued, within
from functad.tracing.trace import resolve
from functad.transforms.linear import jvp


def of_class(name: str, *methods: str, module: Any = continuous) -> Callable[[Any], Any]:
    """Return a decorator that registers methods of a distribution, if the installed SciPy has the distribution."""
    kind = getattr(module, f"{name}_gen", None)
    return (lambda function: function) if kind is None else of_methods(kind, *methods)


def like_scipy(original: Any, formula: Any, self: Any, *args: Any) -> Any:
    """Return SciPy's value with the derivatives of a formula, or the formula if the arguments have no known values."""
    known = known_values(*args)
    if known is None or any(np.size(value) == 0 for value in known):
        return formula
    with outside():
        value = original(self, *known)
    return valued(value, formula)


# Quantiles: with `F(x, theta) = q`, `dx = (dq - dF/dtheta dtheta) / f(x, theta)`


def _quantile(original: Any, self: Any, q: Any, *args: Any, upper: bool) -> Any:
    if known_values(q, *args) is None:
        name = "isf" if upper else "ppf"
        raise UnsupportedError(
            f"{self.name}.{name} is found by a search, which needs values that are not known in jit or vmap, at {here()}. Call "
            f"it outside of them, or for all examples at once."
        )

    @custom_jvp
    def solved(*values: Any) -> Any:
        with outside():
            return original(self, *_floats(*values))

    @solved.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        x = solved(*primals)
        args = primals[1:]
        moved = [i for i, t in enumerate(tangents[1:]) if t is not None and dtype_of(args[i]).kind == "f"]
        rate = tangents[0]
        if moved:

            def at(*some: Any) -> Any:
                full = list(args)
                for i, value in zip(moved, some, strict=True):
                    full[i] = value
                return (self._sf if upper else self._cdf)(x, *full)

            drift = jvp(at, tuple([args[i] for i in moved]), tuple([tangents[1:][i] for i in moved]))[1]
            rate = -drift if rate is None else rate - drift
        return x, (-rate if upper else rate) / _density_at(self, x, *args)

    return solved(q, *args)


def _density_at(self: Any, x: Any, *args: Any) -> Any:
    """Return a density, computed outside all traces if all arguments are plain."""
    if has_tensors((x, *args)):
        return self._pdf(x, *args)
    if np.size(x) == 0:  # some of SciPy's densities refuse empty arrays
        return np.zeros(np.shape(x))
    with outside():
        return self._pdf(x, *args)


def _floats(*args: Any) -> list[Any]:
    return [innermost(a) for a in args]


def quantile(original: Any, self: Any, q: Any, *args: Any) -> Any:
    """Return the quantile of any distribution; quantiles of discrete distributions are piecewise constant."""
    if isinstance(self, rv_discrete):
        with outside():
            return original(self, *_floats(q, *args))
    return _quantile(original, self, q, *args, upper=False)


def _isf(original: Any, self: Any, q: Any, *args: Any) -> Any:
    """Return the inverse of the survival function."""
    return _quantile(original, self, q, *args, upper=True)


of_methods(rv_generic, "_ppf")(quantile)
_SEARCHED = (
    "beta betaprime cauchy cosine foldcauchy invgauss jf_skew_t landau ncf nct ncx2 rdist semicircular skewnorm wald "
    "ksone kstwobign norminvgauss vonmises vonmises_line tukeylambda"
)
for _name in _SEARCHED.split():
    _kind = getattr(continuous, f"{_name}_gen", None)
    if _kind is not None:
        if "_ppf" in vars(_kind):
            of_methods(_kind, "_ppf")(quantile)
        if "_isf" in vars(_kind):
            of_methods(_kind, "_isf")(_isf)


# Distribution functions that SciPy integrates


def _integral(self: Any, x: Any, args: tuple[Any, ...]) -> Any:
    """Return the integral of the density up to x; for infinite ends and x above the mean, one minus the upper integral."""
    low, high = (-np.pi, np.inf) if isinstance(self, continuous.vonmises_gen) else self._get_support(*args)
    shape = np.broadcast_shapes(*[shape_of(v) for v in (x, *args)])
    x, *args = [np.broadcast_to(v, shape) for v in (x, *args)]  # type: ignore[assignment]

    def density(nodes: Any) -> Any:
        return self._pdf(nodes, *[np.broadcast_to(np.expand_dims(a, -1), shape_of(nodes)) for a in args])

    if np.all(np.isfinite(_bound(low))):
        return within(density, np.broadcast_to(low, shape), x)
    if np.all(np.isfinite(_bound(high))):
        return 1 - within(density, x, np.broadcast_to(high, shape))
    known = known_values(x, *args)
    side: Any = -1.0
    if known is not None:
        with outside():
            side = np.where(known[0] < self.mean(*known[1:]), -1.0, 1.0)
    side = np.broadcast_to(side, shape)
    return (1 + side) / 2 - side * beyond(density, x, side)


def _bound(end: Any) -> Any:
    known = known_values(end)
    return np.asarray(0.0 if known is None else known[0], dtype=float)


def _cdf(original: Any, self: Any, x: Any, *args: Any) -> Any:
    """Return the distribution function with the derivatives of the integral of the density."""
    return like_scipy(original, _integral(self, x, args), self, x, *args)


def _sf(original: Any, self: Any, x: Any, *args: Any) -> Any:
    """Return the survival function with the derivatives of the integral of the density."""
    return like_scipy(original, 1 - _integral(self, x, args), self, x, *args)


of_methods(rv_continuous, "_cdf")(_cdf)
for _name in ["geninvgauss", "genhyperbolic", "norminvgauss", "vonmises", "ncx2", "ncf"]:
    _kind = getattr(continuous, f"{_name}_gen", None)
    if _kind is not None:
        if "_cdf" in vars(_kind):
            of_methods(_kind, "_cdf")(_cdf)
        if "_sf" in vars(_kind):
            of_methods(_kind, "_sf")(_sf)


@of_class("skewnorm", "_cdf")
def _skewnorm_cdf(original: Any, self: Any, x: Any, a: Any) -> Any:
    """`Phi(x) - 2 T(x, a)` with Owen's function T (1956)."""
    return like_scipy(original, special.ndtr(x) - 2 * special.owens_t(x, a), self, x, a)


@of_class("cosine", "_cdf")
def _cosine_cdf(original: Any, self: Any, x: Any) -> Any:
    """`(pi + x + sin x) / (2 pi)`."""
    return like_scipy(original, (np.pi + x + np.sin(x)) / (2 * np.pi), self, x)


@of_class("cosine", "_sf")
def _cosine_sf(original: Any, self: Any, x: Any) -> Any:
    """`(pi - x - sin x) / (2 pi)`."""
    return like_scipy(original, (np.pi - x - np.sin(x)) / (2 * np.pi), self, x)


@of_class("nct", "_sf")
def _nct_sf(original: Any, self: Any, x: Any, df: Any, nc: Any) -> Any:
    """One minus the distribution function."""
    return like_scipy(original, 1 - special.nctdtr(df, nc, x), self, x, df, nc)


# Distribution functions differentiable in x, location and scale only


def _by_density(original: Any, self: Any, x: Any, *args: Any, sign: float) -> Any:
    shapes = [constant_shape(self, a) for a in args]
    if known_values(x) is None:
        raise UnsupportedError(
            f"scipy.stats.{self.name}.cdf needs values, which are not known in jit or vmap, at {here()}. "
            f"Call it outside of them, or for all examples at once."
        )

    @custom_jvp
    def solved(x: Any) -> Any:
        with outside():
            return original(self, *_floats(x), *shapes)

    @solved.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return solved(*primals), tangents[0] * _density_at(self, primals[0], *shapes) * sign

    return solved(x) if is_traced(x) else original(self, x, *shapes)


def constant_shape(self: Any, value: Any) -> Any:
    """Return the plain value of a shape parameter that has no derivative; raise if it is traced."""
    outer = resolve(value) if is_traced(value) else value
    if is_traced(outer) and not outer.recorder.is_constant(outer):
        raise UnsupportedError(
            f"scipy.stats.{self.name} cannot be differentiated with respect to its shape parameters, at {here()}: "
            f"{UNKNOWN_DENSITIES.get(self.name, 'they are counts')}. Pass them as plain numbers."
        )
    return innermost(outer)


def _only_by_x(original: Any, self: Any, x: Any, *args: Any) -> Any:
    """Return a density without derivatives."""
    shapes = [constant_shape(self, a) for a in args]
    outer = resolve(x) if is_traced(x) else x
    if is_traced(outer) and not outer.recorder.is_constant(outer):
        raise UnsupportedError(
            f"The density of scipy.stats.{self.name} has no derivative here, at {here()}: {UNKNOWN_DENSITIES[self.name]}. Its "
            f"cdf, sf, ppf and isf are differentiated once by their argument, loc and scale; functad.stop_gradient(x) is one."
        )
    with outside():
        return original(self, innermost(outer), *shapes)


UNKNOWN_DENSITIES: dict[str, str] = {
    "kstwo": "SciPy computes the density from matrix powers and differences, and no formula holds for all numbers of samples",
}
"""Distributions without a derivative of the density, and the reason for each."""

for _name in UNKNOWN_DENSITIES:
    _kind = getattr(continuous, f"{_name}_gen", None)
    if _kind is not None:
        for _method, _function in (
            ("_cdf", partial(_by_density, sign=1.0)),
            ("_sf", partial(_by_density, sign=-1.0)),
            ("_pdf", _only_by_x),
            ("_logpdf", _only_by_x),
            ("_ppf", quantile),
            ("_isf", _isf),
        ):
            if _method in vars(_kind):
                of_methods(_kind, _method)(_function)


for _method, _sign in (("_cdf", 1.0), ("_sf", -1.0)):
    of_class("landau", _method)(partial(_by_density, sign=_sign))
