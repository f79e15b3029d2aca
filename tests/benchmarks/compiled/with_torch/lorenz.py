"""The classical Runge-Kutta method on the Lorenz system; there is no scan, so the loop is Python's."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad

STEP = 0.01


def slope(s: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """The Lorenz system."""
    x, y, z = s
    return torch.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def looped(state: Any, sigma: Any, rho: Any, beta: Any, steps: int) -> Any:
    """Squared length of the last state."""
    for _ in range(steps):
        k1 = slope(state, sigma, rho, beta)
        k2 = slope(state + 0.5 * STEP * k1, sigma, rho, beta)
        k3 = slope(state + 0.5 * STEP * k2, sigma, rho, beta)
        k4 = slope(state + STEP * k3, sigma, rho, beta)
        state = state + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return torch.sum(state**2)


PROGRAMS = {"looped": value_and_grad(looped, (0, 1, 2, 3)), "scanned": value_and_grad(looped, (0, 1, 2, 3))}
