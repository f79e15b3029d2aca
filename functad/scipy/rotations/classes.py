"""Replacements of the classes of `scipy.spatial.transform` in adopted code: constructors and interpolation.

Outside a trace they return SciPy's own rotations; inside a trace they return functad's rotations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np
from scipy.spatial import transform as _original

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.scipy_functions import outside_traces, stands_for
from functad.errors import AbstractValueError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.indexing.read import get_item
from functad.primitives.operands import known_values
from functad.scipy.rotations import quaternions
from functad.scipy.rotations.rotation import (
    NO_ROTATION,
    ROTATION,
    SLERP,
    Rotation,
    as_here,
    entered,
    refused,
    valued,
)
from functad.tracing.trace import recorder_of_new_arrays

# Constructors


def _made(name: str, formula: Callable[[Any, Any], Any], like: Any, *given: Any, **options: Any) -> Rotation:
    """Return a rotation of Tensors.

    Args:
        name: the name of SciPy's constructor.
        formula: takes the Tensor and the shape of the quaternions, and returns the quaternions.
        like: a substitute argument for SciPy if values are unknown, broadcast to the shape of the Tensor.
        given: arguments of SciPy's constructor; the first that is not a string is the Tensor.
        options: keyword arguments of SciPy's constructor.
    """
    place = next(i for i, value in enumerate(given) if not isinstance(value, str))
    tensor = asarray(given[place]) * 1.0
    known = known_values(tensor)
    plain = np.array(np.broadcast_to(like, shape_of(tensor))) if known is None else known[0]
    found = outside_traces(getattr(ROTATION, name), *given[:place], plain, *given[place + 1 :], **options).as_quat()
    q = formula(tensor, found.shape)
    return Rotation(q if known is None else valued(q, found))


@functools.cache
def _orthogonalizes() -> bool:
    """Return `True` if SciPy takes the rotation nearest to a matrix, as it does since 1.16."""
    matrix = np.array([[1.0, 0.3, 0.0], [0.0, 1.2, 0.1], [0.1, 0.0, 0.9]])
    nearest = quaternions.to_matrix(quaternions.of_matrix(quaternions.NEAREST(matrix)))
    return bool(np.allclose(ROTATION.from_matrix(matrix).as_matrix(), nearest, rtol=0, atol=1e-8))


def _from_quat(quat: Any, *, scalar_first: bool = False) -> Rotation:
    def formula(q: Any, _: Any) -> Any:
        return quaternions.normalized(np.roll(q, -1, -1) if scalar_first else q)

    return _made("from_quat", formula, NO_ROTATION, quat, scalar_first=scalar_first)


def _from_matrix(matrix: Any, **options: Any) -> Rotation:
    nearest = quaternions.NEAREST if _orthogonalizes() and not options.get("assume_valid") else lambda m: m
    return _made("from_matrix", lambda m, _: quaternions.of_matrix(nearest(m)), np.eye(3), matrix, **options)


def _from_rotvec(rotvec: Any, degrees: bool = False) -> Rotation:
    def formula(v: Any, _: Any) -> Any:
        return quaternions.of_rotvec(np.deg2rad(v) if degrees else v)

    return _made("from_rotvec", formula, np.zeros(3), rotvec, degrees=degrees)


def _from_mrp(mrp: Any) -> Rotation:
    return _made("from_mrp", lambda p, _: quaternions.of_mrp(p), np.zeros(3), mrp)


def _from_euler(seq: str, angles: Any, degrees: bool = False) -> Rotation:
    def formula(angles: Any, shape: Any) -> Any:
        axes = np.eye(3)[["xyz".index(axis) for axis in seq.lower()]]
        angles = (np.deg2rad(angles) if degrees else angles).reshape(*shape[:-1], len(seq))
        return quaternions.of_angles(axes, angles, seq.islower())

    return _made("from_euler", formula, np.zeros(()), seq, angles, degrees=degrees)


def _from_davenport(axes: Any, order: str, angles: Any, degrees: bool = False) -> Rotation:
    axes, angles = asarray(axes) * 1.0, asarray(angles) * 1.0
    known = known_values(axes, angles)
    plains = known or [np.broadcast_to(np.eye(3)[: shape_of(axes)[-2]], shape_of(axes)), np.zeros(shape_of(angles))]
    found = outside_traces(ROTATION.from_davenport, plains[0], order, plains[1], degrees).as_quat()
    rows = quaternions.normalized(axes if len(shape_of(axes)) > 1 else axes[None])
    angles = (np.deg2rad(angles) if degrees else angles).reshape(*found.shape[:-1], shape_of(rows)[-2])
    q = quaternions.of_angles(rows, angles, order.startswith("e"))
    return Rotation(q if known is None else valued(q, found))


def _concatenate(rotations: Any) -> Rotation:
    parts = [entered(rotation).quat for rotation in rotations]
    return Rotation(np.concatenate([part[None] if len(shape_of(part)) == 1 else part for part in parts]))


def _align_vectors(a: Any, b: Any, weights: Any = None, return_sensitivity: bool = False) -> tuple[Rotation, Any]:
    """Return the rotation that takes vectors `b` nearest to `a` (W. Kabsch, 1976), and the root of the sum of squared gaps."""
    if return_sensitivity:
        raise refused("align_vectors with return_sensitivity", "Leave it out: the sensitivity has no derivative rule.")
    a, b = np.atleast_2d(asarray(a) * 1.0), np.atleast_2d(asarray(b) * 1.0)
    w = np.ones(shape_of(b)[0]) if weights is None else asarray(weights)
    known = known_values(a, b, w)
    if known is not None:
        found, _ = outside_traces(ROTATION.align_vectors, *known)
        if np.isinf(known[2]).any():
            raise refused("align_vectors with an infinite weight", "Use a large one.")
    if shape_of(a)[0] == 1:
        u, v = quaternions.normalized(a[0]), quaternions.normalized(b[0])
        q = quaternions.normalized(np.concatenate([np.cross(v, u), 1 + quaternions.dot(u, v)]))
    else:
        q = quaternions.of_matrix(quaternions.NEAREST((a.mT * w) @ b))
    rotation = Rotation(q if known is None else valued(q, found.as_quat()))
    return rotation, np.linalg.norm(np.sqrt(w)[:, None] * (a - rotation.apply(b)))


_MAKERS: dict[str, Callable[..., Any]] = {
    "from_quat": _from_quat,
    "from_matrix": _from_matrix,
    "from_rotvec": _from_rotvec,
    "from_mrp": _from_mrp,
    "from_euler": _from_euler,
    "from_davenport": _from_davenport,
    "concatenate": _concatenate,
    "align_vectors": _align_vectors,
}


def _holds(values: Any) -> bool:
    """Return `True` if values, or lists or tuples of them, contain a Tensor or a rotation of functad."""
    return has_tensors(values) or any(
        type(value) is Rotation or (type(value) in (list, tuple) and _holds(value)) for value in values
    )


class _StandIn(type):
    """The metaclass of replacements of SciPy's classes."""

    original: Any

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __repr__(cls) -> str:
        return repr(cls.original)


class _RotationStandIn(_StandIn):
    """The metaclass of the replacement of `Rotation`."""

    original = ROTATION

    def __call__(cls, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False) -> Any:
        if has_tensors((quat,)):
            return _from_quat(quat, scalar_first=scalar_first)
        return as_here(ROTATION(quat, normalize=normalize, copy=copy, scalar_first=scalar_first))

    def __getattr__(cls, name: str) -> Any:
        original = getattr(ROTATION, name)
        if name not in _MAKERS:
            return getattr(Rotation, name) if name in vars(Rotation) else as_here(original)

        @functools.wraps(original)
        def called(*args: Any, **options: Any) -> Any:
            if _holds((*args, *options.values())):
                return _MAKERS[name](*args, **options)
            return as_here(outside_traces(original, *args, **options))

        return called


def _new(_: Any) -> Any:
    return ROTATION.__new__(ROTATION)


stands_for(ROTATION, _RotationStandIn("Rotation", (), {"__doc__": ROTATION.__doc__, "__new__": _new}))


def _of_scipys(name: str) -> None:
    """Make a Python method of SciPy's rotations take Tensors."""
    original = vars(ROTATION)[name]

    def called(self: Any, *args: Any, **options: Any) -> Any:
        if _holds(args) or _holds(options.values()):
            return getattr(entered(self), name)(*args, **options)
        return original(self, *args, **options)

    stands_for(original, functools.wraps(original)(called))


if type(vars(ROTATION)["apply"]) is FunctionType:
    for _name in ("apply", "__mul__", "__pow__", "mean"):
        _of_scipys(_name)


# Interpolation


class Slerp:
    """Interpolation between rotations of Tensors at a constant speed.

    Attributes:
        times: the times of the rotations, ascending.
        quat: the quaternions of the rotations.
    """

    def __init__(self, times: Any, rotations: Any) -> None:
        self.times, self.quat = asarray(times) * 1.0, entered(rotations).quat
        values = known_values(self.times, self.quat)
        if values is not None:
            outside_traces(SLERP, values[0], ROTATION.from_quat(values[1]))  # raises SciPy's errors

    @property  # type: ignore[misc] # type tests ask it
    def __class__(self) -> Any:
        return SLERP

    def __call__(self, times: Any) -> Rotation:
        """Return the rotations at the given times."""
        at, known = asarray(times) * 1.0, known_values(self.times)
        if known is None:
            raise AbstractValueError(f"Slerp between times without values, at {here()}: which rotations are near is not known.")
        values = known_values(at)
        if values is not None and (np.any(values[0] < known[0][0]) or np.any(values[0] > known[0][-1])):
            raise ValueError(f"Interpolation times must be within the range [{known[0][0]}, {known[0][-1]}], both inclusive.")
        left = np.clip(np.searchsorted(known[0], at) - 1, 0, len(known[0]) - 2)
        start, end = get_item(self.quat, left), get_item(self.quat, left + 1)
        first, last = get_item(self.times, left), get_item(self.times, left + 1)
        between = quaternions.to_rotvec(quaternions.compose(quaternions.inverse(start), end))
        turn = quaternions.of_rotvec(between * ((at - first) / (last - first))[..., None])
        return Rotation(quaternions.compose(start, turn))


class _SlerpStandIn(_StandIn):
    """The metaclass of the replacement of `Slerp`."""

    original = SLERP

    def __call__(cls, times: Any, rotations: Any) -> Any:
        inside = recorder_of_new_arrays() is not None or has_tensors((times,)) or type(rotations) is Rotation
        return Slerp(times, rotations) if inside and isinstance(rotations, ROTATION) else SLERP(times, rotations)


stands_for(SLERP, _SlerpStandIn("Slerp", (), {"__doc__": SLERP.__doc__}))


_SPLINE = _original.RotationSpline


class _SplineStandIn(_StandIn):
    """The metaclass of the replacement of `RotationSpline`, whose Python code is adopted."""

    original = _SPLINE

    def __call__(cls, times: Any, rotations: Any) -> Any:
        _ = import_module("functad.scipy").interpolate.PPoly  # adopts PPoly, which SciPy uses in a spline
        plain = entered(rotations).plain
        if plain is None or has_tensors((times,)):
            return _SPLINE(times, rotations)
        made = outside_traces(_SPLINE, times, plain)
        made.rotations = as_here(made.rotations)
        return made


stands_for(_SPLINE, _SplineStandIn("RotationSpline", (), {"__doc__": _SPLINE.__doc__}))
