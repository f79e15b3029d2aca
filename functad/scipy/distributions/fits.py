"""Fits of distributions: parameters as functions of the data, by the implicit function theorem at the likelihood's maximum.

SciPy searches on plain values, and its result is the value. The derivatives belong to the maximum near this result, which
Newton's method finds. Fits by formulas are SciPy's own code, which is adopted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats as _stats
from scipy.stats import _continuous_distns as continuous
from scipy.stats._distn_infrastructure import rv_continuous

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.scipy_functions import of_tensors, outside_traces, plain_value, stands_for, with_value
from functad.errors import UnsupportedError
from functad.implicit.root import custom_root
from functad.places import here
from functad.primitives.operands import is_traced, known_values
from functad.transforms.grad import grad
from functad.transforms.second_order import hessian

NO_MAXIMUM = "the likelihood has no smooth maximum there, whose equations would define the parameters"
"""The reason why some fits have no derivative: uniform distributions, and parameters at a bound."""


def _names(dist: Any) -> list[str]:
    """Return the names of the parameters of a distribution, in order."""
    shapes = [name.strip() for name in dist.shapes.split(",")] if dist.shapes else []
    return [*shapes, "loc", *(["scale"] if hasattr(dist, "logpdf") else [])]


def _cost(dist: Any, free: Sequence[int], count: int) -> Callable[..., Any]:
    """Return the negative mean log-likelihood, as a function of the free parameters, the data and the fixed parameters."""

    def cost(p: Any, data: Any, *fixed: Any) -> Any:
        rest = iter(fixed)
        at = [p[free.index(i)] if i in free else next(rest) for i in range(count)]
        return -np.mean(dist.logpdf(data, *at) if hasattr(dist, "logpdf") else dist.logpmf(data, *at))

    return cost


def _maximum(cost: Callable[..., Any], start: Any, data: Any, fixed: Any) -> Any:
    """Return the maximum of the likelihood near SciPy's result, or `None` if Newton's method finds none."""
    p, slopes, curvatures = start, grad(cost), hessian(cost)
    for _ in range(40):
        with np.errstate(all="ignore"):
            curvature, slope = curvatures(p, data, *fixed), slopes(p, data, *fixed)
        if not (np.all(np.isfinite(curvature)) and np.all(np.isfinite(slope))) or np.linalg.eigvalsh(curvature)[0] <= 0:
            return None
        step = np.linalg.solve(curvature, slope)
        p = p - step
        if np.any(np.abs(p - start) > 0.05 * (1 + np.abs(start))):
            return None
        if np.all(np.abs(step) <= 1e-11 * (1 + np.abs(p))):
            return p
    return None


def _through(dist: Any, name: str, found: Sequence[Any], data: Any, fixed: dict[int, Any]) -> tuple[Any, ...]:
    """Return SciPy's fitted parameters, differentiable in the data and the fixed parameters.

    Args:
        dist: the distribution.
        name: the name of the function, for messages.
        found: the fitted parameters.
        data: the data.
        fixed: the parameters that were not fitted, by position.
    """
    free = [i for i in range(len(found)) if i not in fixed]
    if not free:
        return tuple([fixed[i] for i in range(len(found))])
    cost = _cost(dist, free, len(found))
    start = np.array([float(found[i]) for i in free])

    def highest(start: Any, data: Any, *fixed: Any) -> Any:
        p = outside_traces(_maximum, cost, start, data, fixed)
        if p is None:
            raise UnsupportedError(
                f"scipy.stats.{name} found {tuple(map(float, found))}, at {here()}: {NO_MAXIMUM}. Fix parameters by floc, "
                f"fscale or another one, or fit plain data: functad.stop_gradient(data)."
            )
        return p

    equation: Any = grad(cost)
    equation.__name__ = highest.__name__ = name
    decorate: Any = custom_root(equation)
    p = decorate(highest)(start, data, *[fixed[i] for i in sorted(fixed)])
    return tuple([fixed[i] if i in fixed else with_value(p[free.index(i)], found[i]) for i in range(len(found))])


def _values(data: Any, name: str) -> Any:
    known = known_values(data)
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.{name} searches, which needs values that are not known in jit or vmap, at {here()}. Call it outside "
            f"of them, for one sample after another."
        )
    return known[0]


def _enter(kind: type, function: Callable[..., Any]) -> None:
    """Register a function for the method `fit` of a class; plain data are fitted outside all traces."""
    original: Any = vars(kind)["fit"]

    @functools.wraps(original)
    def fit(self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        if has_tensors((data, *args, *kwargs.values())):
            return function(original, self, data, *args, **kwargs)
        return outside_traces(original, self, data, *args, **kwargs)

    stands_for(original, fit)


def _fit(original: Any, self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the fit of a distribution by a search."""
    name = f"{self.name}.fit"
    if isinstance(data, _stats.CensoredData) or str(kwargs.get("method", "mle")).lower() != "mle":
        raise UnsupportedError(
            f"scipy.stats.{name} of censored data, or by moments, has no derivative, at {here()}. Use method='MLE', and arrays."
        )
    data = np.ravel(asarray(data))
    names = _names(self)
    fixed: dict[int, Any] = {}
    for i, parameter in enumerate(names):
        keys = (f"f{parameter}", f"fix_{parameter}", *((f"f{i}",) if i < len(names) - 2 else ()))
        for key in keys:
            if kwargs.get(key) is not None:
                fixed[i] = kwargs[key]
    known = {key: plain_value(value) for key, value in kwargs.items()}
    found = outside_traces(original, self, _values(data, name), *map(plain_value, args), **known)
    return _through(self, name, found, data, fixed)


def _fit_of_class(original: Any, self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a fit by the formulas of the class, with values computed outside all traces to avoid different rounding."""
    found = original(self, data, *args, **kwargs)
    known = {key: plain_value(value) for key, value in kwargs.items()}
    exact = outside_traces(original, self, _values(asarray(data), f"{self.name}.fit"), *map(plain_value, args), **known)
    return tuple([with_value(a, b) if is_traced(a) else b for a, b in zip(found, exact, strict=True)])


for _kind in vars(continuous).values():
    if (
        isinstance(_kind, type)
        and issubclass(_kind, rv_continuous)
        and "fit" in vars(_kind)
        and "powerlaw" not in _kind.__name__
    ):
        _enter(_kind, _fit_of_class)


def _powerlaw_fit(original: Any, self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a fit by formulas; raise without `floc`, because SciPy then sets `loc` from the smallest datum."""
    if kwargs.get("floc") is None:
        raise UnsupportedError(
            f"scipy.stats.powerlaw.fit takes for loc the number next to the least of the data, at {here()}: {NO_MAXIMUM}. "
            f"Fix it by floc, or fit plain data: functad.stop_gradient(data)."
        )
    return original(self, data, *args, **kwargs)


_enter(rv_continuous, _fit)
_enter(continuous.powerlaw_gen, _powerlaw_fit)


@of_tensors("scipy.stats", within=True)
def fit(dist: Any, data: Any, bounds: Any = None, *, guess: Any = None, method: Any = "mle", **options: Any) -> Any:
    """Return the fit of any distribution within bounds; integers and parameters at a bound are constant."""
    if str(method).lower() != "mle":
        raise UnsupportedError(f"scipy.stats.fit by {method} has no derivative, at {here()}. Use method='mle'.")
    data = np.ravel(asarray(data))
    result = outside_traces(_stats.fit, dist, _values(data, "fit"), bounds, guess=guess, method=method, **options)
    names = _names(dist)
    if bounds is None or not hasattr(bounds, "get"):
        bounds = dict(zip(names, bounds or (), strict=False))
    whole = {info.name for info in dist._param_info() if info.integrality}
    fixed: dict[int, Any] = {}
    for i, (name, value) in enumerate(zip(names, result.params, strict=True)):
        ends = bounds.get(name, {"loc": (0, 0), "scale": (1, 1)}.get(name, ()))
        if name in whole or value in ends:
            fixed[i] = value
    result.params = type(result.params)(*_through(dist, "fit", result.params, data, fixed))
    return result
