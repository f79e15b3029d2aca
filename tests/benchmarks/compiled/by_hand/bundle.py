"""Bundle adjustment as in ADBench: all observations at once.

The derivative of a rotated vector by its rotation is that of Gallego and Yezzi (2015), A compact formula for the derivative of
a 3-D rotation in exponential coordinates, equation 8: `-R [u]x (v v^T + (R^T - I) [v]x) / |v|^2`.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def crosses(v: Any) -> Any:
    """Matrices `(n, 3, 3)` that multiply a vector as the cross product with each of `v` does."""
    found = np.zeros((len(v), 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        found[:, i, j], found[:, j, i] = -v[:, k], v[:, k]
    return found


def blocks(cameras: Any, points: Any, weights: Any, of_camera: Any, of_point: Any, features: Any) -> Any:
    """The chain rule: distortion, projection, rotation, the latter once for each camera."""
    rotation = cameras[:, :3]
    square = np.einsum("ni,ni->n", rotation, rotation)
    angle = np.sqrt(square)
    cross = crosses(rotation)
    sine, cosine = (np.sin(angle) / angle)[:, None, None], ((1.0 - np.cos(angle)) / square)[:, None, None]
    matrices = np.eye(3) + sine * cross + cosine * (cross @ cross)
    outer = rotation[:, :, None] * rotation[:, None, :] + (matrices.swapaxes(1, 2) - np.eye(3)) @ cross
    outer /= square[:, None, None]

    r, camera = matrices[of_camera], cameras[of_camera]
    shifted = points[of_point] - camera[:, 3:6]
    seen = np.einsum("nij,nj->ni", r, shifted)
    flat = seen[:, :2] / seen[:, 2:]
    radius = np.einsum("ni,ni->n", flat, flat)
    focus, first, second = camera[:, 6], camera[:, 9], camera[:, 10]
    bend = 1.0 + radius * (first + second * radius)
    distorted = flat * bend[:, None]

    by_flat = flat[:, :, None] * (2.0 * (first + 2.0 * second * radius))[:, None, None] * flat[:, None, :]
    by_flat[:, 0, 0] += bend
    by_flat[:, 1, 1] += bend
    by_flat *= (weights * focus)[:, None, None]
    by_seen = np.empty((len(weights), 2, 3))
    by_seen[:, :, :2] = by_flat / seen[:, 2, None, None]
    by_seen[:, :, 2] = -(by_seen[:, :, :2] @ flat[:, :, None])[:, :, 0]
    by_point = by_seen @ r
    by_camera = np.zeros((len(weights), 2, 11))
    by_camera[:, :, :3] = -(by_point @ crosses(shifted)) @ outer[of_camera]
    by_camera[:, :, 3:6] = -by_point
    by_camera[:, :, 6] = weights[:, None] * distorted
    by_camera[:, 0, 7] = by_camera[:, 1, 8] = weights
    by_camera[:, :, 9] = (weights * focus * radius)[:, None] * flat
    by_camera[:, :, 10] = by_camera[:, :, 9] * radius[:, None]
    by_weight = focus[:, None] * distorted + camera[:, 7:9] - features
    return (by_camera, by_point, by_weight), -2.0 * weights


PROGRAMS = {"blocks": blocks}
