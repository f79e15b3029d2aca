"""Classes of `scipy.interpolate` that compute with masks, by `where` instead: batched, and differentiable at the knots."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from scipy import interpolate as _original

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.scipy_functions import outside_traces, plain_value, stands_for
from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, shape_of
from functad.places import here
from functad.primitives.indexing.read import get_item
from functad.primitives.operands import innermost
from functad.trees import tree_map


def _pchip_end(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """Return the slope at an end; it has the sign of the end piece, or is zero."""
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3 * np.abs(m0))
    return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(steep, 3 * m0, d))


def _pchip_slopes(x: Any, y: Any, xp: Any = None) -> Any:
    """Return the slopes of `PchipInterpolator`: weighted harmonic means (F. Fritsch and J. Butland, 1984)."""
    x = x.reshape(-1, *[1] * (len(shape_of(y)) - 1))
    h = x[1:] - x[:-1]
    m = (y[1:] - y[:-1]) / h
    if shape_of(y)[0] == 2:
        return np.concatenate([m, m])
    flat = (np.sign(m[1:]) != np.sign(m[:-1])) | (m[1:] == 0) | (m[:-1] == 0)
    after, before = np.where(flat, 1.0, m[1:]), np.where(flat, 1.0, m[:-1])
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    inner = np.where(flat, 0.0, (w1 + w2) / (w1 / before + w2 / after))
    first, last = _pchip_end(h[0], h[1], m[0], m[1]), _pchip_end(h[-1], h[-2], m[-1], m[-2])
    return np.concatenate([first[None], inner, last[None]])


_PCHIP = vars(_original.PchipInterpolator)["_find_derivatives"].__func__


@functools.wraps(_PCHIP)
def _find_derivatives(*args: Any, **options: Any) -> Any:
    return (_pchip_slopes if has_tensors(args) else _PCHIP)(*args, **options)


stands_for(_PCHIP, _find_derivatives)


def _of_objects(kind: type, *names: str) -> Callable[..., Any]:
    """Return a decorator that registers a function for methods of objects that hold or receive Tensors."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            original = vars(kind).get(name)
            if original is None:  # missing in the installed SciPy
                continue

            @functools.wraps(original)
            def called(self: Any, x: Any, original: Any = original) -> Any:
                return (function if has_tensors((x, *vars(self).values())) else original)(self, x)

            stands_for(original, called)
        return function

    return enter


@_of_objects(_original.BarycentricInterpolator, "_evaluate")
def _barycentric(self: Any, x: Any) -> Any:
    """Return the polynomial through points; use Lagrange's formula at the points, where the barycentric one is singular."""
    away = x[:, None] - self.xi
    at = np.any(away == 0, -1)
    c = self.wi / np.where(away == 0, 1.0, away)
    value = (c @ self.yi) / np.sum(c, -1)[:, None]
    known = innermost(at)
    if not isinstance(known, ArraySpec) and not np.any(known):
        return value
    one = np.eye(shape_of(away)[-1], dtype=bool)
    factors = np.where(one, 1.0, away[:, None] / np.where(one, 1.0, self.xi[:, None] - self.xi))
    return np.where(at[:, None], np.prod(factors, -1) @ self.yi, value)


@_of_objects(_original.interp1d, "_call_linear", "_call_linear_np")
def _call_linear(self: Any, x: Any) -> Any:
    """Return piecewise linear interpolants."""
    right = np.clip(np.searchsorted(self.x, x), 1, len(self.x) - 1)
    low, high = get_item(self._y, right - 1), get_item(self._y, right)
    x0, x1 = get_item(self.x, right - 1), get_item(self.x, right)
    return low + (high - low) * ((x - x0) / (x1 - x0))[:, None]


@_of_objects(_original.interp1d, "_call_nearest")
def _call_nearest(self: Any, x: Any) -> Any:
    """Return the value of the nearest point."""
    return get_item(self._y, np.clip(np.searchsorted(self.x_bds, x, side=self._side), 0, len(self.x) - 1))


@_of_objects(_original.interp1d, "_call_previousnext")
def _call_previousnext(self: Any, x: Any) -> Any:
    """Return the value of the previous or next point."""
    found = np.searchsorted(self._x_shift, x, side=self._side)
    return get_item(self._y, np.clip(found, 1 - self._ind, len(self.x) - self._ind) + (self._ind - 1))


@_of_objects(_original.interp1d, "_evaluate")
def _evaluate_1d(self: Any, x: Any) -> Any:
    """Return the interpolated values, with fill values outside."""
    x = asarray(x)
    y = self._call(self, x)
    if self._extrapolate:
        return y
    below, above = self._check_bounds(x)
    y = np.where(below[:, None], self._fill_value_below, y)
    return np.where(above[:, None], self._fill_value_above, y)


def _plain_outside(kind: type) -> None:
    """Make a class construct objects from plain arguments outside all traces."""
    original = vars(kind)["__init__"]

    @functools.wraps(original)
    def made(self: Any, *args: Any, **options: Any) -> None:
        if has_tensors((*args, *options.values())):
            original(self, *args, **options)
        else:
            outside_traces(original, self, *args, **options)

    stands_for(original, made)


for _kind in (
    _original.CubicSpline, _original.CubicHermiteSpline, _original.PchipInterpolator, _original.Akima1DInterpolator,
    _original.BarycentricInterpolator, _original.KroghInterpolator, _original.interp1d, _original.BSpline,
    _original.RegularGridInterpolator, _original.RBFInterpolator, _original.NdBSpline, _original.NdPPoly,
):  # fmt: skip
    if isinstance(vars(_kind).get("__init__"), FunctionType):
        _plain_outside(_kind)


def refuse_classes(reasons: dict[str, str]) -> None:
    """Make classes of `scipy.interpolate` raise when constructed from a Tensor.

    Args:
        reasons: the reason and the fix, by name of the class.
    """
    for name, reason in reasons.items():
        kind = getattr(_original, name, None)
        if kind is not None:
            _refuse_class(kind, reason)


def _refuse_class(kind: type, reason: str) -> None:
    original = vars(kind)["__init__"]

    @functools.wraps(original)
    def made(self: Any, *args: Any, **options: Any) -> None:
        if has_tensors((*args, *options.values())):
            raise UnsupportedError(f"scipy.interpolate.{kind.__name__} of a Tensor, at {here()}: {reason}.")
        outside_traces(original, self, *args, **options)

    stands_for(original, made)


_KNOTS = getattr(_original, "generate_knots", None)


def _generate_knots(*args: Any, **options: Any) -> Any:
    """Return an iterator over SciPy's choices of knots, which are constants."""
    args, options = tree_map(plain_value, (args, options))
    return iter(outside_traces(lambda: list(_KNOTS(*args, **options))))  # type: ignore[misc]


if _KNOTS is not None:
    stands_for(_KNOTS, functools.wraps(_KNOTS)(_generate_knots))
