"""The classical Runge-Kutta method on the Lorenz system: the steps backwards, by the transposed scheme.

For three numbers Python is faster than NumPy, so the state is three floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEP = 0.01
Triple = tuple[float, float, float]


def slope(s: Triple, p: Triple) -> Triple:
    """The Lorenz system."""
    x, y, z = s
    return p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z


def moved(s: Triple, h: float, k: Triple) -> Triple:
    """A state with a multiple of a slope added."""
    return s[0] + h * k[0], s[1] + h * k[1], s[2] + h * k[2]


def gradient(state: Any, sigma: Any, rho: Any, beta: Any, steps: int) -> Any:
    """Forward keeping the four states of each step."""
    h = STEP
    p = float(sigma), float(rho), float(beta)
    s: Triple = tuple(state.tolist())
    kept = []
    for _ in range(steps):
        k1 = slope(s, p)
        s2 = moved(s, 0.5 * h, k1)
        k2 = slope(s2, p)
        s3 = moved(s, 0.5 * h, k2)
        k3 = slope(s3, p)
        s4 = moved(s, h, k3)
        k4 = slope(s4, p)
        kept.append((s, s2, s3, s4))
        s = moved(moved(moved(moved(s, h / 6, k1), h / 3, k2), h / 3, k3), h / 6, k4)
    g: Triple = (2 * s[0], 2 * s[1], 2 * s[2])
    by_p = [0.0, 0.0, 0.0]

    def pull(c: Triple, at: Triple) -> Triple:
        x, y, z = at
        by_p[0] += (y - x) * c[0]
        by_p[1] += x * c[1]
        by_p[2] -= z * c[2]
        return (
            (p[1] - z) * c[1] + y * c[2] - p[0] * c[0],
            p[0] * c[0] - c[1] + x * c[2],
            -x * c[1] - p[2] * c[2],
        )

    nothing = (0.0, 0.0, 0.0)
    for s1, s2, s3, s4 in reversed(kept):
        g4 = pull(moved(nothing, h / 6, g), s4)
        g3 = pull(moved(moved(nothing, h / 3, g), h, g4), s3)
        g2 = pull(moved(moved(nothing, h / 3, g), 0.5 * h, g3), s2)
        g1 = pull(moved(moved(nothing, h / 6, g), 0.5 * h, g2), s1)
        g = moved(moved(moved(moved(g, 1.0, g1), 1.0, g2), 1.0, g3), 1.0, g4)
    value = np.float64(s[0] * s[0] + s[1] * s[1] + s[2] * s[2])
    return value, (np.array(g), *map(np.float64, by_p))


PROGRAMS = {"looped": gradient, "scanned": gradient}
