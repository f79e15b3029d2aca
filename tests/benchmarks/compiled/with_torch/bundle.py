"""Bundle adjustment as in ADBench: the blocks of a sparse Jacobian."""

from __future__ import annotations

from typing import Any

import torch
from torch.func import grad, jacrev, vmap


def rotated(rotation: Any, x: Any) -> Any:
    """A point rotated by Rodrigues' formula."""
    angle = torch.sqrt(torch.sum(rotation**2))
    axis = rotation / angle
    cosine = torch.cos(angle)
    return x * cosine + torch.linalg.cross(axis, x) * torch.sin(angle) + axis * ((axis @ x) * (1.0 - cosine))


def projected(camera: Any, point: Any) -> Any:
    """Where a camera with radial distortion sees a point."""
    seen = rotated(camera[:3], point - camera[3:6])
    flat = seen[:2] / seen[2]
    square = torch.sum(flat**2)
    distorted = flat * (1.0 + camera[9] * square + camera[10] * square**2)
    return camera[6] * distorted + camera[7:9]


def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    """The weighted error of one observation."""
    return weight * (projected(camera, point) - feature)


def weight_error(weight: Any) -> Any:
    """What keeps a weight near one."""
    return 1.0 - weight**2


def blocks(cameras: Any, points: Any, weights: Any, of_camera: Any, of_point: Any, features: Any) -> Any:
    """Derivatives of each error by its camera, its point and its weight, and of each error of a weight."""
    of_errors = vmap(jacrev(error, argnums=(0, 1, 2)))
    slopes = vmap(grad(weight_error))
    return of_errors(cameras[of_camera], points[of_point], weights, features), slopes(weights)


PROGRAMS = {"blocks": blocks}
