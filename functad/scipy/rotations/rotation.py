"""`scipy.spatial.transform`: a rotation of Tensors.

SciPy's `Rotation` is compiled. Its replacement in adopted code returns SciPy's own rotations outside a trace, and functad's
rotations inside a trace. functad's rotations pass SciPy's type tests, and compute with SciPy as long as there are no Tensors.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial import transform as _original

from functad.adoption.arrays import asarray, has_tensors
from functad.adoption.scipy_functions import outside_traces
from functad.errors import AbstractValueError, UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.indexing.read import get_item
from functad.primitives.operands import is_traced, known_values
from functad.scipy.rotations import quaternions
from functad.tracing.trace import recorder_of_new_arrays

ROTATION, SLERP = _original.Rotation, _original.Slerp
NO_ROTATION = np.array([0.0, 0.0, 0.0, 1.0])


def refused(what: str, cure: str) -> UnsupportedError:
    """Return the error for an operation without a rule."""
    return UnsupportedError(f"{what} of a rotation of Tensors, at {here()}. {cure}")


def valued(q: Any, plain: Any) -> Any:
    """Return a quaternion with the derivatives of a formula and SciPy's value; the signs of the two quaternions are matched."""
    known = known_values(q)
    if known is None or not is_traced(q):
        return q
    sign = np.where(np.sum(known[0] * plain, -1, keepdims=True) < 0, -1.0, 1.0)
    finite = np.isfinite(known[0])  # at a singularity SciPy picks one of several rotations
    return np.where(finite, q * sign + (plain - known[0] * sign), plain)


def _as_scipys(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that delegates to SciPy if there are no Tensors."""

    @functools.wraps(method)
    def called(self: Rotation, *args: Any, **options: Any) -> Any:
        if self.plain is not None and not has_tensors((*args, *options.values())):
            return as_here(outside_traces(getattr(self.plain, method.__name__), *args, **options))
        return method(self, *args, **options)

    return called


class Rotation:
    """A rotation of Tensors, or SciPy's rotation inside a trace, which can be combined with Tensors.

    Attributes:
        quat: the quaternions.
        plain: SciPy's rotation, or `None` if there are Tensors.
    """

    def __init__(self, quat: Any, plain: Any = None) -> None:
        self.plain = plain
        self.quat = quat

    @property  # type: ignore[misc] # type tests ask it
    def __class__(self) -> Any:
        return ROTATION

    def __getattr__(self, name: str) -> Any:
        if name == "_quat":
            raise refused("This method of SciPy's", "Make the rotation that it is a method of inside of the function.")
        if name.startswith("__") or not hasattr(ROTATION, name):
            raise AttributeError(f"'Rotation' object has no attribute {name!r}")
        if self.plain is not None:
            return as_here(getattr(self.plain, name))
        raise refused(name, "It has no derivative rule; take as_quat() or as_matrix(), and compute with that.")

    # Representations

    @_as_scipys
    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """Return the quaternions."""
        q = quaternions.canonical(self.quat) if canonical else self.quat
        return np.roll(q, 1, -1) if scalar_first else q

    @_as_scipys
    def as_matrix(self) -> Any:
        """Return the matrices."""
        return quaternions.to_matrix(self.quat)

    @_as_scipys
    def as_rotvec(self, degrees: bool = False) -> Any:
        """Return the rotation vectors; the length is the angle."""
        found = quaternions.to_rotvec(self.quat)
        return np.rad2deg(found) if degrees else found

    @_as_scipys
    def as_mrp(self) -> Any:
        """Return the modified Rodrigues parameters."""
        return quaternions.to_mrp(self.quat)

    @_as_scipys
    def as_euler(self, seq: str, degrees: bool = False, **options: Any) -> Any:
        """Return the angles about three coordinate axes."""
        self._checked("as_euler", seq, degrees, **options)
        axes = np.eye(3)[["xyz".index(axis) for axis in seq.lower()]]
        found = quaternions.to_angles(self.quat, axes, seq.islower())
        return np.rad2deg(found) if degrees else found

    @_as_scipys
    def as_davenport(self, axes: Any, order: str, degrees: bool = False, **options: Any) -> Any:
        """Return the angles about three axes, the second orthogonal to the others."""
        axes = asarray(axes) * 1.0
        known = known_values(axes)
        if known is not None:
            self._checked("as_davenport", known[0], order, degrees, **options)
        found = quaternions.to_angles(self.quat, quaternions.normalized(axes), order.startswith("e"))
        return np.rad2deg(found) if degrees else found

    @_as_scipys
    def magnitude(self) -> Any:
        """Return the angles."""
        return quaternions.magnitude(self.quat)

    def _checked(self, name: str, *args: Any, **options: Any) -> None:
        """Call SciPy's method for its errors and warnings."""
        known = known_values(self.quat)
        with warnings.catch_warnings():
            if known is None:
                warnings.simplefilter("ignore")
            plain = np.broadcast_to(NO_ROTATION, shape_of(self.quat)) if known is None else known[0]
            outside_traces(getattr(ROTATION.from_quat(plain), name), *args, **options)

    # Operations

    @_as_scipys
    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Return rotated vectors."""
        vectors = asarray(vectors)
        if shape_of(vectors)[-1:] != (3,):
            raise ValueError(f"Expected input of shape (3,) or (P, 3), got {shape_of(vectors)}.")
        return quaternions.rotated(self.quat, vectors, inverse)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, ROTATION):
            return NotImplemented
        if self.plain is not None and entered(other).plain is not None:
            return as_here(outside_traces(self.plain.__mul__, entered(other).plain))
        return Rotation(quaternions.compose(self.quat, entered(other).quat))

    def __rmul__(self, other: Any) -> Any:
        return entered(other) * self if isinstance(other, ROTATION) else NotImplemented

    @_as_scipys
    def __pow__(self, n: Any, modulus: None = None) -> Rotation:
        if modulus is not None:
            raise NotImplementedError("modulus not supported")
        known = known_values(n)
        q, value = self.quat, None if known is None else float(known[0])
        if not is_traced(n) and value in (1.0, -1.0):
            return Rotation(q if value == 1 else quaternions.inverse(q))
        found = quaternions.power(q, n)
        return Rotation(found * quaternions.sign_of(q) if value in (1.0, -1.0) else found)

    @_as_scipys
    def inv(self) -> Rotation:
        """Return the inverse rotation."""
        return Rotation(quaternions.inverse(self.quat))

    @_as_scipys
    def mean(self, weights: Any = None, axis: Any = None) -> Rotation:
        """Return the mean rotation."""
        if axis is not None:
            raise refused("mean with axis", "Take the mean of each row of rotations.")
        q = self.quat.reshape(-1, 4)
        w = (
            np.ones(shape_of(q)[0])
            if weights is None
            else np.broadcast_to(asarray(weights), shape_of(self.quat)[:-1]).reshape(-1)
        )
        known = known_values(q, w)
        found = quaternions.mean(q, w)
        if known is None:
            return Rotation(found)
        return Rotation(valued(found, outside_traces(ROTATION.from_quat(known[0]).mean, known[1]).as_quat()))

    def approx_equal(self, other: Any, *args: Any, **options: Any) -> Any:
        """Return whether rotations are nearly equal."""
        values = known_values(self.quat, entered(other).quat)
        if values is None:
            raise AbstractValueError(f"approx_equal of a rotation of Tensors without values, at {here()}.")
        mine, others = map(ROTATION.from_quat, values)
        return outside_traces(mine.approx_equal, others, *args, **options)

    # Sequence of rotations

    @property
    def single(self) -> bool:
        """Whether the object holds one rotation and not a sequence."""
        return len(shape_of(self.quat)) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sequence."""
        return shape_of(self.quat)[:-1]

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.shape[0]

    def __bool__(self) -> bool:
        return True

    @_as_scipys
    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(get_item(self.quat, index))

    def __iter__(self) -> Iterator[Rotation]:
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        return repr(self.plain) if self.plain is not None else f"Rotation.from_quat({self.quat!r})"


def entered(rotation: Any) -> Rotation:
    """Return SciPy's rotation as a `Rotation` of this module."""
    return rotation if type(rotation) is Rotation else Rotation(rotation.as_quat(), rotation)


def as_here(found: Any) -> Any:
    """Return SciPy's result; inside a trace, rotations in it become a `Rotation` of this module."""
    if isinstance(found, tuple):
        return tuple([as_here(part) for part in found])
    if callable(found) and not isinstance(found, ROTATION):
        return functools.wraps(found)(lambda *args, **options: as_here(outside_traces(found, *args, **options)))
    if recorder_of_new_arrays() is None or type(found) is not ROTATION:
        return found
    return Rotation(found.as_quat(), found)
