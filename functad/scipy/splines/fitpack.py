"""FITPACK's splines through all points or with given knots, where the coefficients solve a linear system.

For smoothing splines FITPACK chooses the knots in its own loop, which has no rule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import interpolate as _original

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.scipy_functions import of_tensors, outside_traces, plain_value, stands_for
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.indexing.read import get_item
from functad.primitives.linalg.solve import solve_by_substitution
from functad.primitives.operands import is_traced
from functad.trees import tree_map

SMOOTHED = "FITPACK chooses the knots in a loop of its own; use s=0, make_interp_spline or make_lsq_spline"

Basis = Callable[..., Any]


def _refused(what: str) -> UnsupportedError:
    return UnsupportedError(f"scipy.interpolate.{what} of a Tensor, at {here()}: {SMOOTHED}.")


def _knots(x: Any, k: int) -> Any:
    """Return FITPACK's knots of an interpolating spline: at points, or between points for an even degree."""
    half = k // 2
    inner = x[half + 1 : -half - 1] if k % 2 else (x[half : -half - 1] + x[half + 1 : -half or None])[: len(x) - k - 1] / 2
    return np.concatenate([x[:1]] * (k + 1) + [inner] + [x[-1:]] * (k + 1))


def _fitted(basis: Basis, x: Any, y: Any, w: Any, t: Any, k: int) -> tuple[Any, Any]:
    """Return the coefficients of the least-squares spline, and the sum of squares."""
    n = shape_of(t)[0] - k - 1
    left = np.clip(np.searchsorted(plain_value(t), plain_value(x), side="right") - 1, k, n - 1)
    places = left[:, None] + np.arange(-k, 1)
    design = np.sum(basis(t, k, x, left)[:, :, None] * get_item(np.eye(n), places), axis=1)
    if n == shape_of(x)[0]:
        return np.linalg.solve(design, y), 0.0
    q, r = np.linalg.qr(w[:, None] * design)
    c = solve_by_substitution(r, q.T @ (w * y), lower=False)
    return c, np.sum((w * (y - design @ c)) ** 2)


def _spline(basis: Basis, given: dict[str, Any], found: tuple[Any, Any, int], name: str) -> tuple[Any, Any, Any]:
    """Return knots, coefficients and sum of squares of FITPACK's spline, differentiable in the arguments."""
    x, y, k = asarray(given["x"]) * 1.0, asarray(given["y"]) * 1.0, found[2]
    w = np.ones(shape_of(x)) if given.get("w") is None else asarray(given["w"])
    t, inner = found[0], given.get("t")
    if inner is not None:
        own = bool(found[0][0] == plain_value(x[0])) and bool(found[0][-1] == plain_value(x[-1]))
        ends = [x[:1], x[-1:]] if own else [found[0][:1], found[0][-1:]]
        t = np.concatenate([*[ends[0]] * (k + 1), asarray(inner), *[ends[1]] * (k + 1)])
    elif is_traced(x):
        t = _knots(x, k)
        if not np.array_equal(plain_value(t), found[0]):
            raise UnsupportedError(f"scipy.interpolate.{name} with other ends, at {here()}, by x. Leave them out.")
    c, rest = _fitted(basis, x, y, w, t, k)
    return t, c, rest


def enter(basis: Basis) -> None:
    """Register spline fits; `basis` evaluates B-splines."""

    @of_tensors("scipy.interpolate")
    def splrep(
        x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None, t: Any = None,
        full_output: int = 0, per: int = 0, quiet: int = 1,
    ) -> Any:  # fmt: skip
        given = {"x": x, "y": y, "w": w, "t": t}
        if per or task == 1 or (t is None and (s or (s is None and w is not None))):
            raise _refused("splrep")
        plain = tree_map(plain_value, (x, y, w, xb, xe, k, task, s, t))
        tck, *told = outside_traces(_SPLREP, *plain, 1, per, quiet)
        knots, c, rest = _spline(basis, given, tck, "splrep")
        tck = (knots, np.concatenate([c, np.zeros(k + 1)]), k)
        return (tck, rest, *told[1:]) if full_output else tck

    for kind in (_original.UnivariateSpline, _original.InterpolatedUnivariateSpline, _original.LSQUnivariateSpline):
        _enter_class(kind, basis)


def _enter_class(kind: Any, basis: Basis) -> None:
    original = vars(kind)["__init__"]
    signature = inspect.signature(original)

    @functools.wraps(original)
    def made(self: Any, *args: Any, **options: Any) -> None:
        if not has_tensors((*args, *options.values())):
            outside_traces(original, self, *args, **options)
            return
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        given = {name: value for name, value in bound.arguments.items() if name != "self"}
        if "s" in given and given["s"] != 0:
            raise _refused("UnivariateSpline")
        outside_traces(original, self, **{name: tree_map(plain_value, value) for name, value in given.items()})
        t, c, rest = _spline(basis, given, self._eval_args, kind.__name__)
        c = np.concatenate([c, np.zeros(given["k"] + 1)])
        self._eval_args = t, c, given["k"]
        data = list(self._data)
        data[8:11] = t, c, rest
        self._data = tuple(data)

    stands_for(original, made)


_SPLREP = _original.splrep
_SMOOTHING = _original.make_smoothing_spline


@of_tensors("scipy.interpolate")
def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, **options: Any) -> Any:
    """Return a smoothing spline, which is linear in the values for a given `lam`."""
    if lam is None or options or has_tensors((x, w, lam)) or len(shape_of(asarray(y))) != 1:
        raise UnsupportedError(
            f"scipy.interpolate.make_smoothing_spline of a Tensor, at {here()}, but for values along one axis and a given lam: "
            f"its matrices are sparse ones of SciPy; use make_lsq_spline."
        )
    y = asarray(y) * 1.0
    made = [outside_traces(_SMOOTHING, x, row, w, lam) for row in np.eye(shape_of(y)[0])]
    return _original.BSpline(made[0].t, np.stack([one.c for one in made], -1) @ y, made[0].k)
