"""Interpolation between scattered points, differentiable in the values, the positions and the evaluation point.

SciPy finds the triangle around a point. A linear interpolant is the sum of the corner values times the barycentric
coordinates of the point. All interpolants are linear in the values, so SciPy computes their matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import interpolate as _original
from scipy.spatial import Delaunay

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.scipy_functions import outside_traces, plain_value, stands_for, with_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.indexing.read import get_item
from functad.primitives.operands import is_traced
from functad.tracing.trace import recorder_of_new_arrays


def _columns(values: Any) -> tuple[Any, tuple[int, ...]]:
    values = asarray(values) * 1.0
    shape = shape_of(values)
    return values.reshape(shape[0], -1), shape[1:]


def _as_points(args: Any) -> Any:
    """Return points as one array; they are given as one array or as one array for each coordinate."""
    parts = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if len(parts) == 1:
        return asarray(parts[0]) * 1.0
    return np.stack(np.broadcast_arrays(*[asarray(part) * 1.0 for part in parts]), -1)


REASON = "derivatives are by the values only; use LinearNDInterpolator or RBFInterpolator"


class Linear:
    """A linear interpolant between points that may be Tensors; replaces `LinearNDInterpolator`."""

    def __init__(self, points: Any, values: Any, fill_value: float = np.nan, rescale: bool = False) -> None:
        self.triangles: Any = points if isinstance(points, Delaunay) else None
        self.points = asarray(points.points if self.triangles is not None else points) * 1.0
        self.values, self.shape = _columns(values)
        self.fill_value = fill_value
        plain = plain_value(self.points)
        self.offset: Any = np.mean(plain, 0) if rescale else 0.0
        self.scale: Any = np.ptp(plain, 0) if rescale else 1.0
        self.triangles = self.triangles or outside_traces(Delaunay, (plain - self.offset) / self.scale)

    def __call__(self, *args: Any, simplex_tolerance: float = 1.0) -> Any:
        """Return the values at points."""
        at = _as_points(args)
        shape = shape_of(at)[:-1]
        at = at.reshape(-1, shape_of(at)[-1])
        scaled = (plain_value(at) - self.offset) / self.scale
        tolerance = 100 * np.finfo(float).eps * simplex_tolerance
        found = outside_traces(self.triangles.find_simplex, scaled, tol=tolerance)
        corners = self.triangles.simplices[found]
        vertices = get_item(self.points, corners)
        edges = (vertices[:, :-1] - vertices[:, -1:]).mT
        weights = np.linalg.solve(edges, (at - vertices[:, -1])[..., None])[..., 0]
        weights = np.concatenate([weights, 1 - np.sum(weights, -1, keepdims=True)], -1)
        values = np.sum(weights[..., None] * get_item(self.values, corners), 1)
        values = np.where((found < 0)[:, None], self.fill_value, values)
        return values.reshape(shape + self.shape)


class ByMatrix:
    """An interpolant of traced values by SciPy's matrix; points must be plain."""

    def __init__(self, kind: Any, points: Any, values: Any, *args: Any, **options: Any) -> None:
        self.kind, self.points, self.args, self.options = kind, points, args, options
        if has_tensors((points,)):
            raise self._refused()
        self.values, self.shape = _columns(values)

    def _made(self, values: Any, args: Any, options: dict[str, Any]) -> Any:
        return self.kind(self.points, values, *args, **options)

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(f"{self.kind.__name__}, at {here()}: {REASON}.")

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Return the values at points."""
        at = _as_points(args)
        if is_traced(at):
            raise self._refused()
        units, options = np.eye(shape_of(self.values)[0]), self.options
        plain = outside_traces(self._made, plain_value(self.values), self.args, options)(at, **how)
        if self.kind is not _NEAREST:
            options = {**dict(zip(("fill_value", "tol", "maxiter", "rescale"), self.args, strict=False)), **options}
            options["fill_value"] = np.nan
        if self.kind is _original.CloughTocher2DInterpolator:  # SciPy computes its slopes by iteration
            options.update(tol=1e-13, maxiter=1000)
        matrix = outside_traces(self._made, units, self.args if self.kind is _NEAREST else (), options)(at, **how)
        inside = np.isfinite(matrix).all(-1)
        weights = np.where(inside[..., None], matrix, 0.0)
        values = weights.reshape(-1, len(units)) @ self.values
        values = with_value(values.reshape(plain.shape), np.where(inside[..., None], plain, 0.0))
        return np.where(inside[..., None], values, plain).reshape(shape_of(at)[:-1] + self.shape)


class _StandIn(type):
    """The metaclass of replacements of SciPy's classes; without Tensors they return SciPy's objects."""

    original: Any

    def __call__(cls, points: Any, values: Any, *args: Any, **options: Any) -> Any:
        traced = has_tensors((points, values))
        if cls.original is _LINEAR and (traced or recorder_of_new_arrays() is not None):
            return Linear(points, values, *args, **options)
        if traced:
            return ByMatrix(cls.original, points, values, *args, **options)
        return outside_traces(cls.original, points, values, *args, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)


_LINEAR, _NEAREST = _original.LinearNDInterpolator, _original.NearestNDInterpolator

for _kind in (_LINEAR, _original.CloughTocher2DInterpolator, _NEAREST):
    _meta = type("_StandIn", (_StandIn,), {"original": _kind})
    stands_for(_kind, _meta(_kind.__name__, (), {"__doc__": _kind.__doc__}))
