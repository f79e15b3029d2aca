"""Rotations as unit quaternions `(x, y, z, w)`, in NumPy functions, where `scipy.spatial.transform` has compiled code.

For small angles, quotients such as `sin(a / 2) / a` are power series in the squared angle. Derivatives of every order are
then right at the identity too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives.batching import stacked
from functad.primitives.kinds import general
from functad.primitives.linalg.solve import same_inexact

_SMALL = 0.01


def _series(x: Any, terms: Sequence[float], otherwise: Callable[[Any], Any]) -> Any:
    """Return a power series of `x` where `x` is small, and a function of `x` elsewhere."""
    small = x < _SMALL
    inner, outer = np.where(small, x, 0.0), np.where(small, 1.0, x)
    total: Any = terms[-1]
    for term in terms[-2::-1]:
        total = total * inner + term
    return np.where(small, total, otherwise(outer))


_HALF_SINES = [(-1) ** k / (math.factorial(2 * k + 1) * 2 ** (2 * k + 1)) for k in range(7)]
_HALF_COSINES = [(-1) ** k / (math.factorial(2 * k) * 4**k) for k in range(7)]
_ANGLES = [2 * (-1) ** k / (2 * k + 1) for k in range(9)]


def dot(a: Any, b: Any) -> Any:
    """Return dot products along the last axis, which is kept."""
    return np.sum(a * b, -1, keepdims=True)


def normalized(q: Any) -> Any:
    """Return unit vectors."""
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def of_rotvec(v: Any) -> Any:
    """Return the rotation about a vector by its length."""
    square = dot(v, v)
    sine = _series(square, _HALF_SINES, lambda s: np.sin(np.sqrt(s) / 2) / np.sqrt(s))
    return np.concatenate([v * sine, _series(square, _HALF_COSINES, lambda s: np.cos(np.sqrt(s) / 2))], -1)


def to_rotvec(q: Any) -> Any:
    """Return the rotation vector of a rotation; its length is the angle, at most pi."""
    q = canonical(q)
    v, w = q[..., :3], q[..., 3:]
    square = dot(v, v)
    small = square < _SMALL
    factor = _series(np.where(small, square / np.where(small, w * w, 1.0), 1.0), _ANGLES, lambda _: 1.0)
    large = np.where(small, 1.0, square)
    return v * np.where(small, factor / np.where(small, w, 1.0), 2 * np.arctan2(np.sqrt(large), w) / np.sqrt(large))


def canonical(q: Any) -> Any:
    """Return the canonical of the two quaternions of a rotation: its last nonzero number is positive."""
    return q * sign_of(q)


def sign_of(q: Any) -> Any:
    """Return the sign that makes a quaternion canonical."""
    x, y, z, w = (q[..., i] for i in range(4))
    negative = (w < 0) | ((w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0))))))
    return np.where(negative, -1.0, 1.0)[..., None]


def of_mrp(p: Any) -> Any:
    """Return the rotation of modified Rodrigues parameters: the axis times the tangent of a quarter of the angle."""
    square = dot(p, p)
    return np.concatenate([2 * p, 1 - square], -1) / (1 + square)


def to_mrp(q: Any) -> Any:
    """Return modified Rodrigues parameters."""
    q = q * np.where(q[..., 3:] < 0, -1.0, 1.0)
    return q[..., :3] / (1 + q[..., 3:])


def of_matrix(m: Any) -> Any:
    """Return the rotation of an orthogonal matrix, based on its largest diagonal element or its trace."""
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    choice = np.argmax(np.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], -1), -1)[..., None]
    found: Any = 0.0
    for i in range(4):
        parts: list[Any] = [None] * 4
        for j in range(3):
            k, n = (j + 1) % 3, (j + 2) % 3
            skew = m[..., n, k] - m[..., k, n]
            parts[j] = skew if i == 3 else 1 - trace + 2 * m[..., i, i] if i == j else m[..., i, j] + m[..., j, i]
            if i == j:
                parts[3] = skew
        if i == 3:
            parts[3] = 1 + trace
        found = np.where(choice == i, np.stack(parts, -1), found)
    return normalized(found)


def to_matrix(q: Any) -> Any:
    """Return the matrix of a rotation."""
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def compose(p: Any, q: Any) -> Any:
    """Return the rotation by `q` followed by the rotation by `p`."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    return np.concatenate([a * v + b * u + np.cross(u, v), a * b - dot(u, v)], -1)


def inverse(q: Any) -> Any:
    """Return the inverse rotation."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def rotated(q: Any, vectors: Any, back: bool) -> Any:
    """Return rotated vectors; `back` applies the inverse rotation."""
    matrix = to_matrix(q)
    return ((matrix.mT if back else matrix) @ vectors[..., None])[..., 0]


def magnitude(q: Any) -> Any:
    """Return the angle of a rotation."""
    return 2 * np.arctan2(np.linalg.norm(q[..., :3], axis=-1), np.abs(q[..., 3]))


def power(q: Any, n: Any) -> Any:
    """Return the rotation about the same axis by a multiple of the angle."""
    return of_rotvec(n * to_rotvec(q))


def mean(q: Any, weights: Any) -> Any:
    """Return the mean rotation (F. Markley et al., "Averaging quaternions", 2007)."""
    return LARGEST((q.mT * weights) @ q)


# Angles about axes


def of_angles(axes: Any, angles: Any, extrinsic: bool) -> Any:
    """Return rotations about axes in sequence.

    Args:
        axes: unit vectors, of shape `(..., n, 3)`.
        angles: of shape `(..., n)`.
        extrinsic: the axes are fixed.
    """
    found: Any = None
    for i in range(shape_of(angles)[-1]):
        half = angles[..., i : i + 1] / 2
        one = np.concatenate([np.sin(half) * axes[..., i, :], np.cos(half)], -1)
        found = one if found is None else compose(one, found) if extrinsic else compose(found, one)
    return found


def to_angles(q: Any, axes: Any, extrinsic: bool) -> Any:
    """Return the angles about three axes, the second orthogonal to the others.

    See E. Bernardes and S. Viollet, "Quaternion to Euler angles conversion", 2022. In gimbal lock the third angle is 0.
    """
    first, second, third = (axes[..., i, :] for i in range(3))
    if not extrinsic:
        first, third = third, first
    cross = np.cross(first, second)
    between = np.arctan2(dot(third, cross), dot(third, first))
    turned = between < 0
    second, cross = np.where(turned, -second, second), np.where(turned, -cross, cross)
    between = np.abs(between)
    q = compose(np.concatenate([np.sin(between / 2) * second, np.cos(between / 2)], -1), q)
    v, a = q[..., :3], q[..., 3:]
    b, c, d = dot(v, first), dot(v, second), dot(v, cross)
    total, difference = np.arctan2(b, a), np.arctan2(d, c)
    angle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    none, half = np.abs(angle) <= 1e-7, np.abs(angle - np.pi) <= 1e-7
    locked = np.where(none, 2 * total, 2 * difference * (-1 if extrinsic else 1))
    ends = [total - difference, total + difference]
    one, other = ends if extrinsic else ends[::-1]
    lock = none | half
    angle = (angle - between) * np.where(turned, -1.0, 1.0)
    found = np.concatenate([np.where(lock, locked, one), angle, np.where(lock, 0.0, other)], -1)
    return (found + np.pi) % (2 * np.pi) - np.pi


# The nearest rotations


def _largest(k: Any) -> Any:
    return np.linalg.eigh((k + k.mT) / 2)[1][..., :, -1]


def _across(b: Any, k: Any, out: Any) -> Any:
    """Return the component orthogonal to `out` of the solution of `(l - k) x = b`, with the largest eigenvalue l."""
    v = out[..., None]
    k = (k + k.mT) / 2
    x = np.linalg.solve((v.mT @ k @ v) * np.eye(shape_of(k)[-1]) - k + v @ v.mT, b[..., None] - v @ (v.mT @ b[..., None]))
    return (x - v @ (v.mT @ x))[..., 0]


def _largest_vjp(g: Any, k: Any, out: Any) -> Any:
    x = _across(g, k, out)
    product = x[..., :, None] * out[..., None, :]
    return (product + product.mT) / 2


LARGEST: Any = general(
    _largest,
    _largest_vjp,
    jvps=(lambda t, k, out: _across(((t + t.mT) @ out[..., None])[..., 0] / 2, k, out),),
    name="largest_eigenvector",
    internal=True,
    spec=lambda k: ArraySpec(spec_of(k).shape[:-1], same_inexact(k).dtype),
    samples=lambda array: [((array(*shape, 3, 3, low=-0.3, high=0.3) + np.diag([2.0, 1.0, 3.0]),), {}) for shape in ((), (2,))],
    doc="dv = (l - k)^-1 dk v, across v",
    batch=stacked,
    complex=False,
)
"""The eigenvector of the largest eigenvalue of a symmetric matrix; the other eigenvalues may be equal."""


def _nearest(m: Any) -> Any:
    u, _, v = np.linalg.svd(m)
    u = u * np.stack([np.ones(m.shape[:-2]), np.ones(m.shape[:-2]), np.linalg.det(u @ v)], -1)[..., None, :]
    return u @ v


def _axial(m: Any) -> Any:
    return np.stack([m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], -1)


def _turn(c: Any, m: Any, out: Any) -> Any:
    """Return `[h^-1 axial(c)]`, a skew matrix, with `h = tr(p) - p` and the symmetric `p = out^T m`."""
    p = out.mT @ m
    h = np.trace(p, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - (p + p.mT) / 2
    x, y, z = (np.linalg.solve(h, _axial(c)[..., None])[..., i, 0] for i in range(3))
    rows = [[0 * x, -z, y], [z, 0 * x, -x], [-y, x, 0 * x]]
    return np.stack([np.stack(row, -1) for row in rows], -2)


NEAREST: Any = general(
    _nearest,
    lambda g, m, out: out @ _turn(out.mT @ g, m, out),
    jvps=(lambda t, m, out: out @ _turn(out.mT @ t, m, out),),
    name="nearest_rotation",
    internal=True,
    spec=same_inexact,
    samples=lambda array: [((array(*shape, 3, 3, low=-0.3, high=0.3) + np.diag([2.0, 1.0, 3.0]),), {}) for shape in ((), (2,))],
    doc="d r = r w with w p + p w = r^T dm - dm^T r and p = r^T m",
    batch=stacked,
    complex=False,
)
"""The rotation nearest to a matrix, which may be a reflection or singular."""
