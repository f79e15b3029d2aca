"""Programs that branch on values. Each takes an array and returns a number.

`PROGRAMS` has, for each name, the program and a function that draws its argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], Any]
Draw = Callable[[np.random.Generator], Any]
PROGRAMS: dict[str, tuple[Program, Draw]] = {}


def _normal(*shape: int) -> Draw:
    return lambda rng: rng.normal(size=shape)


def _positive(*shape: int) -> Draw:
    return lambda rng: rng.uniform(0.2, 5.0, size=shape)


def _program(draw: Draw) -> Callable[[Program], Program]:
    def enter(f: Program) -> Program:
        PROGRAMS[f.__name__.removeprefix("_").replace("_", " ")] = f, draw
        return f

    return enter


# Iterations until convergence


@_program(_positive())
def _newton_root(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-6 * a:
        x = 0.5 * (x + a / x)
    return x


@_program(_positive(2))
def _bisection(p: Any) -> Any:
    low, high = 0.0 * p[0], p[0] + p[1] + 1.0
    while high - low > 0.05:
        middle = 0.5 * (low + high)
        if middle**3 + p[0] * middle - p[1] > 0:
            high = middle
        else:
            low = middle
    return low + (high - low) * p[0]


@_program(_normal(3))
def _secant(p: Any) -> Any:
    def f(x: Any) -> Any:
        return np.tanh(x) + 0.3 * x - 0.2 * p[0]

    a, b = p[1], p[1] + 1.0 + p[2] ** 2
    for _ in range(20):
        if abs(f(b)) < 1e-5 or f(b) == f(a):
            break
        a, b = b, b - f(b) * (b - a) / (f(b) - f(a))
    return b * p[2]


@_program(_positive(3))
def _fixed_point(p: Any) -> Any:
    x, count = p[0] * 0.0, 0
    while True:
        new = np.cos(x * p[1] / 6.0) + p[2] * 0.1
        count += 1
        if np.abs(new - x) < 1e-4 or count > 30:
            return new * count
        x = new


@_program(_normal(4))
def _line_search(x: Any) -> Any:
    def energy(y: Any) -> Any:
        return np.sum(y**4) + np.sum((y - 1.0) ** 2)

    direction = -(4 * x**3 + 2 * (x - 1.0))
    step = 1.0
    while energy(x + step * direction) > energy(x) - 1e-4 * step * np.sum(direction**2):
        step = step * 0.5
    return energy(x + step * direction)


@_program(_positive(2))
def _adaptive_step(p: Any) -> Any:
    def slope(y: Any) -> Any:
        return -p[0] * y + np.sin(y)

    t, h, y = 0.0, 0.4, p[1]
    while t < 1.0:
        h = min(h, 1.0 - t)
        k1 = slope(y)
        k2 = slope(y + h * k1)
        if np.abs(0.5 * h * (k2 - k1)) < 0.02:
            t, y, h = t + h, y + 0.5 * h * (k1 + k2), h * 1.5
        else:
            h = h * 0.5
    return y


@_program(_normal(12))
def _mixture_until_convergence(x: Any) -> Any:
    left, right = np.min(x), np.max(x)
    for _ in range(12):
        weight = 1.0 / (1.0 + np.exp((x - left) ** 2 - (x - right) ** 2))
        new_left = np.sum((1 - weight) * x) / np.sum(1 - weight)
        new_right = np.sum(weight * x) / np.sum(weight)
        change = abs(new_left - left) + abs(new_right - right)
        left, right = new_left, new_right
        if change < 0.05:
            break
    return right - left


@_program(_normal(3, 3))
def _power_iteration(a: Any) -> Any:
    a = a @ a.T + np.eye(3)
    v, before = np.ones(3), 0.0
    for _ in range(15):
        v = a @ v
        v = v / np.sqrt(v @ v)
        now = v @ a @ v
        if abs(now - before) < 1e-2 * now:
            break
        before = now
    return v @ a @ v


@_program(_positive(2))
def _geometric_mean(p: Any) -> Any:
    a, b = p[0], p[1]
    while abs(a - b) > 1e-3 * a:
        a, b = 0.5 * (a + b), np.sqrt(a * b)
    return a


# Branches


@_program(_normal(2))
def _piecewise_force(p: Any) -> Any:
    gap, speed = p[0], p[1]
    if gap > 1.0:
        return gap * 0.0
    if gap > 0.0:
        return 0.5 * (1 - gap) ** 2
    return 1.0 - gap + (0.1 * speed**2 if speed < 0 else 0.0)


@_program(_positive(4))
def _option_price(p: Any) -> Any:
    spot, strike, volatility, time = p[0], p[1], p[2] - 1.5, p[3]
    if not volatility > 0:
        return np.maximum(spot - strike, 0.0)
    d = (np.log(spot / strike) + 0.5 * volatility**2 * time) / (volatility * np.sqrt(time))
    return spot / (1 + np.exp(-1.7 * d)) - strike / (1 + np.exp(-1.7 * (d - volatility * np.sqrt(time))))


@_program(_positive(2))
def _early_exercise(p: Any) -> Any:
    up, rate = 1.1 + 0.02 * p[1], 0.97
    values = [max(4.0 - p[0] * up ** (3 - 2 * k), 0.0) for k in range(4)]
    for n in (2, 1, 0):
        held = [rate * 0.5 * (values[k] + values[k + 1]) for k in range(n + 1)]
        values = [max(v, 4.0 - p[0] * up ** (n - 2 * k)) for k, v in enumerate(held)]
    return values[0] + p[0] * 0.01


@_program(_normal(5))
def _sorting_network(x: Any) -> Any:
    v = list(x)
    for i, j in [(0, 3), (1, 4), (0, 2), (1, 3), (0, 1), (2, 4), (1, 2), (3, 4), (2, 3)]:
        if v[j] < v[i]:
            v[i], v[j] = v[j], v[i]
    return sum((k + 1) * part for k, part in enumerate(v))


@_program(_normal(4))
def _sorted_values(x: Any) -> Any:
    ordered = sorted(x, reverse=True)
    return ordered[0] * ordered[-1] + max(x[0], x[1], key=abs) * min(x)


@_program(_normal(3, 3))
def _pivoting(a: Any) -> Any:
    rows, det = [list(row) for row in a], 1.0
    for k in range(3):
        pivot = max(range(k, 3), key=lambda i, k=k: abs(rows[i][k]))
        if pivot != k:
            rows[k], rows[pivot], det = rows[pivot], rows[k], -det
        det = det * rows[k][k]
        for i in range(k + 1, 3):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [v - factor * w for v, w in zip(rows[i], rows[k], strict=True)]
    return det


@_program(_normal(6))
def _gated_filter(x: Any) -> Any:
    mean, variance = x[0] * 0.1, 1.0
    for z in x:
        variance = variance + 0.1
        surprise = z - mean
        if surprise**2 / (variance + 0.5) > 1.0:
            continue
        gain = variance / (variance + 0.5)
        mean, variance = mean + gain * surprise, (1 - gain) * variance
    return mean + variance


@_program(_normal(2, 5))
def _bouncing_ball(p: Any) -> Any:
    height, speed = 1.0 + p[0, 0] ** 2, p[1, 0]
    for _ in range(8):
        height, speed = height + 0.3 * speed, speed - 0.3 * 9.81 * 0.2
        if height < 0:
            height, speed = -0.8 * height, -0.8 * speed
    return height + 0.1 * speed


@_program(_normal(4, 2))
def _crossing_segments(p: Any) -> Any:
    a, b, c, d = p
    r, s = b - a, d - c
    area = r[0] * s[1] - r[1] * s[0]
    if abs(area) < 0.3:
        return np.sum((a - c) ** 2)
    t = ((c - a)[0] * s[1] - (c - a)[1] * s[0]) / area
    u = ((c - a)[0] * r[1] - (c - a)[1] * r[0]) / area
    if 0 <= t <= 1 and 0 <= u <= 1:
        return np.sum((a + t * r) ** 2)
    return np.minimum(np.sum((a - c) ** 2), np.sum((b - d) ** 2))


@_program(_normal(4))
def _checked_input(x: Any) -> Any:
    if np.any(np.isnan(x)):
        raise ValueError("x has a NaN")
    if not np.all(x > -1.0):
        x = np.maximum(x, -1.0)
    return np.sum(np.log1p(np.abs(x)) * x)


@_program(_normal(8))
def _rainflow_ranges(x: Any) -> Any:
    stack: list[Any] = []
    total = x[0] * 0.0
    for v in x:
        stack.append(v)
        while len(stack) >= 3 and abs(stack[-2] - stack[-3]) <= abs(stack[-1] - stack[-2]):
            total = total + abs(stack[-2] - stack[-3]) ** 2
            del stack[-3:-1]
    return total + sum(abs(a - b) for a, b in zip(stack[1:], stack, strict=False))


@_program(_normal(6, 2))
def _clusters(x: Any) -> Any:
    centers = [x[0], x[1]]
    for _ in range(3):
        groups: list[list[Any]] = [[], []]
        for point in x:
            near = int(np.argmin(np.stack([np.sum((point - c) ** 2) for c in centers])))
            groups[near].append(point)
        centers = [np.mean(np.stack(g), axis=0) if g else c for g, c in zip(groups, centers, strict=True)]
    return np.sum((centers[0] - centers[1]) ** 2)


@_program(_normal(3))
def _degenerate_triangle(p: Any) -> Any:
    a, b, c = np.abs(p) + 0.2
    if a + b <= c or b + c <= a or c + a <= b:
        return a + b + c
    s = (a + b + c) / 2
    return np.sqrt(s * (s - a) * (s - b) * (s - c))


# Counts, lengths and masks


@_program(_positive(5))
def _taylor_terms(x: Any) -> Any:
    terms = int(np.ceil(np.max(x)).astype(int)) + 1
    return sum(np.sum(x**k) / math.factorial(k) for k in range(terms))


@_program(_normal(6))
def _mask_selection(x: Any) -> Any:
    chosen = x[x > 0.2]
    return np.sum(chosen**2) if len(chosen) else np.sum(x)


@_program(_normal(6))
def _masked_update(x: Any) -> Any:
    y = x.copy()
    y[x > 0] = y[x > 0] ** 2
    y[y < -1.0] = 0.0
    return np.sum(y * x)


@_program(_normal(3, 4))
def _rows_by_mask(a: Any) -> Any:
    rows = a[np.sum(a, axis=1) > 0]
    return np.sum(np.cumsum(rows, axis=0) ** 2)


@_program(_normal(6))
def _positions(x: Any) -> Any:
    (places,) = np.nonzero(x > 0)
    return np.sum(x[places] * (places + 1)) + places.size


@_program(_normal(6))
def _lookup(x: Any) -> Any:
    knots = np.linspace(-1.0, 1.0, 5)
    i = np.searchsorted(knots, x[0])
    heights = [1.0, 2.0, -1.0, 0.5, 3.0, 0.0]
    return heights[i] * x[1] + x[int(i) % 6] ** 2


@_program(_normal(7))
def _prefix(x: Any) -> Any:
    stop = np.argmax(np.cumsum(np.abs(x)) > 2.5)
    return np.sum(x[:stop] ** 2) + np.sum(x[stop:])


@_program(_normal(6))
def _runs(x: Any) -> Any:
    total, run = x[0] * 0.0, 0
    for v in x:
        run = run + 1 if v > 0 else 0
        total = total + v * run
    return total


@_program(_normal(5))
def _polynomial_degree(x: Any) -> Any:
    degree = np.count_nonzero(np.abs(x) > 0.5)
    coefficients = [x[k] for k in range(degree)]
    value = x[-1] * 0.0
    for c in coefficients:
        value = value * 0.7 + c
    return value * value


@_program(_normal(4))
def _dispatch_by_integer(x: Any) -> Any:
    rules = {0: lambda v: np.sin(v), 1: lambda v: v * v, 2: lambda v: np.exp(-v)}
    return sum(rules[np.round(np.abs(v)).astype(int).item() % 3](v) for v in x)


# Further methods


_STAGES = (
    (0.2,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@_program(_positive(2))
def _adaptive_rk45(p: Any) -> Any:
    """Integrate with the pair of Dormand and Prince, with a step that the error estimate controls."""

    def slope(y: Any) -> Any:
        return p[0] * y * (1.0 - y) - 0.2 * np.sin(p[1] * y)

    t, h, y = 0.0, 0.6, 0.1 * p[1]
    while t < 1.5:
        h = min(h, 1.5 - t)
        k = [slope(y)]
        for row in _STAGES:
            k.append(slope(y + h * sum(a * v for a, v in zip(row, k, strict=True))))
        new = y + h * sum(a * v for a, v in zip(_STAGES[-1], k, strict=False))
        error = abs(h * sum(a * v for a, v in zip(_ERROR, k, strict=True)))
        if error < 1e-4:
            t, y = t + h, new
        h = h * (2.0 if error < 1e-6 else 1.2 if error < 1e-4 else 0.5)
    return y


@_program(_normal(2, 3))
def _contacts_of_two_balls(p: Any) -> Any:
    """Simulate two balls between walls, which collide with each other and with the walls."""
    a, b, va, vb = -1.0 + 0.2 * p[0, 0], 1.0 + 0.2 * p[0, 1], p[1, 0] + 0.5, p[1, 1] - 0.5
    for _ in range(6):
        a, b = a + 0.3 * va, b + 0.3 * vb
        if b - a < 0.4:
            va, vb = vb, va
            a, b = a - 0.5 * (0.4 - (b - a)), b + 0.5 * (0.4 - (b - a))
        if a < -2.0:
            a, va = -4.0 - a, -0.9 * va
        if b > 2.0:
            b, vb = 4.0 - b, -0.9 * vb
    return a * a + b * b + va * vb + 0.0 * p[0, 2]


@_program(_normal(4, 4))
def _lu_with_pivots(a: Any) -> Any:
    """Solve a system by Gaussian elimination; the largest element of a column is the pivot."""
    a, b = a + 0.0, np.array([1.0, -1.0, 0.5, 2.0]) + 0.0 * a[0]
    for k in range(3):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        if pivot != k:
            order = list(range(4))
            order[k], order[pivot] = pivot, k
            a, b = a[order], b[order]
        factors = a[k + 1 :, k] / a[k, k]
        a = np.concatenate([a[: k + 1], a[k + 1 :] - factors[:, None] * a[k]])
        b = np.concatenate([b[: k + 1], b[k + 1 :] - factors * b[k]])
    x: list[Any] = []
    for k in range(3, -1, -1):
        x.insert(0, (b[k] - sum(a[k, k + 1 + i] * v for i, v in enumerate(x))) / a[k, k])
    return sum(v / (1.0 + v * v) for v in x)


@_program(_positive(3))
def _golden_section(p: Any) -> Any:
    """Minimize a function of one variable; the interval shrinks by the golden ratio."""

    def f(x: Any) -> Any:
        return (x - 0.4 * p[0]) ** 2 + 0.1 * np.cos(p[1] * x) * p[2]

    low, high, ratio = -1.0, 2.5, 0.6180339887498949
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = f(a), f(b)
    while high - low > 0.3:
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = f(a)
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = f(b)
    return f(0.5 * (low + high))


@_program(_normal(3))
def _trust_region(x: Any) -> Any:
    """Take Levenberg-Marquardt steps; the damping depends on whether a step was accepted."""
    damping = 1.0
    for _ in range(5):
        r = np.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0], x[2] - x[1]])
        jacobian = np.stack([np.stack([-20.0 * x[0], 10.0, 0.0]), np.array([-1.0, 0.0, 0.0]), np.array([0.0, -1.0, 1.0])])
        step = np.linalg.solve(jacobian.T @ jacobian + damping * np.eye(3), -(jacobian.T @ r))
        new = x + step
        after = np.stack([10.0 * (new[1] - new[0] ** 2), 1.0 - new[0], new[2] - new[1]])
        if after @ after < r @ r:
            x, damping = new, damping * 0.3
        else:
            damping = damping * 4.0
    return np.sum(x * x)


@_program(_normal(3, 2))
def _simplex_search(p: Any) -> Any:
    """Take some steps of the method of Nelder and Mead."""

    def f(x: Any) -> Any:
        return (x[0] - 0.3) ** 2 + 2.0 * (x[1] + 0.2) ** 2 + 0.3 * x[0] * x[1]

    points = list(p)
    for _ in range(4):
        points = sorted(points, key=f)
        best, good, worst = points
        middle = 0.5 * (best + good)
        reflected = middle + (middle - worst)
        if f(reflected) < f(best):
            expanded = middle + 2.0 * (middle - worst)
            points[2] = expanded if f(expanded) < f(reflected) else reflected
        elif f(reflected) < f(good):
            points[2] = reflected
        else:
            points[2] = 0.5 * (middle + worst)
    return f(points[0]) + f(points[2])


@_program(_normal(7, 2))
def _k_means_until_stable(x: Any) -> Any:
    """Move three centers until no point changes its cluster."""
    centers, before = [x[0], x[1], x[2]], None
    for _ in range(6):
        labels = np.argmin(np.stack([np.sum((x - c) ** 2, axis=1) for c in centers]), axis=0)
        if before is not None and np.all(labels == before):
            break
        centers = [np.mean(x[labels == k], axis=0) if np.any(labels == k) else c for k, c in enumerate(centers)]
        before = labels
    return sum(np.sum(c * c) for c in centers)


@_program(_normal(10))
def _sigma_clipping(x: Any) -> Any:
    """Leave out values far from the mean until none is left out."""
    x = x**3
    kept = np.abs(x) >= 0.0
    for _ in range(5):
        middle, width = np.mean(x[kept]), np.std(x[kept])
        new = kept & (np.abs(x - middle) < 1.5 * width + 0.1)
        if np.count_nonzero(new) == np.count_nonzero(kept):
            break
        kept = new
    return np.mean(x[kept])


@_program(_normal(6, 2))
def _convex_hull(p: Any) -> Any:
    """Return the area of the hull of points, by a chain of turns."""

    def turn(o: Any, a: Any, b: Any) -> Any:
        return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])

    points = sorted(p, key=lambda q: q[0])
    hull: list[Any] = []
    for ordered in (points, points[::-1]):
        chain: list[Any] = []
        for q in ordered:
            while len(chain) > 1 and turn(chain[-2], chain[-1], q) <= 0:
                chain.pop()
            chain.append(q)
        hull += chain[:-1]
    return 0.5 * sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(hull, [*hull[1:], hull[0]], strict=True))


@_program(_normal(3, 2))
def _clipped_polygon(p: Any) -> Any:
    """Return the area of a triangle within a half plane."""
    out: list[Any] = []
    for a, b in zip(p, [p[1], p[2], p[0]], strict=True):
        inside, next_inside = a[0] + 0.2 * a[1] < 0.3, b[0] + 0.2 * b[1] < 0.3
        if inside:
            out.append(a)
        if inside != next_inside:
            da, db = 0.3 - a[0] - 0.2 * a[1], 0.3 - b[0] - 0.2 * b[1]
            out.append(a + da / (da - db) * (b - a))
    if len(out) < 3:
        return 0.0 * p[0, 0]
    return sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(out, [*out[1:], out[0]], strict=True)) ** 2


@_program(_normal(3, 3))
def _jacobi_eigenvalues(a: Any) -> Any:
    """Rotate a symmetric matrix until its largest element off the diagonal is small."""
    a = 0.5 * (a + a.T) + np.diag([0.0, 2.0, 5.0])
    for _ in range(8):
        off = np.abs(np.triu(a, 1))
        if np.max(off) < 1e-3:
            break
        i, j = divmod(int(np.argmax(off)), 3)
        angle = 0.5 * np.arctan2(2.0 * a[i, j], a[j, j] - a[i, i])
        rotation = np.eye(3) + 0.0 * a
        rotation[i, i] = rotation[j, j] = np.cos(angle)
        rotation[i, j], rotation[j, i] = np.sin(angle), -np.sin(angle)
        a = rotation.T @ a @ rotation
    return np.max(np.diagonal(a)) - np.min(np.diagonal(a))


@_program(_positive(6))
def _american_put(p: Any) -> Any:
    """Compute the value of an option with early exercise. The depth of the lattice depends on the maturity."""
    steps = int(np.ceil(p[0])) + 1
    up = 1.05 + 0.02 * p[1]
    values = np.maximum(1.0 - p[2] / 3.0 * up ** np.arange(steps, -steps - 1, -2), 0.0)
    for n in range(steps - 1, -1, -1):
        exercise = 1.0 - p[2] / 3.0 * up ** np.arange(n, -n - 1, -2)
        values = 0.98 * 0.5 * (values[:-1] + values[1:])
        early = exercise > values
        values[early] = exercise[early]
    return values[0] + 0.01 * p[3]


@_program(_normal(8))
def _huber_weights(x: Any) -> Any:
    """Reweight large residuals until the location is stable."""
    location = np.mean(x)
    for _ in range(10):
        r = x - location
        weights = np.ones_like(r)
        weights[np.abs(r) > 0.8] = 0.8 / np.abs(r[np.abs(r) > 0.8])
        new = np.sum(weights * x) / np.sum(weights)
        if abs(new - location) < 1e-3:
            return new
        location = new
    return location


@_program(_positive(3))
def _event_in_flight(p: Any) -> Any:
    """Fly until the ground, and find the time of the impact within the last step."""
    x, y, vx, vy = 0.0 * p[0], 0.5 * p[1], p[2], 0.6 * p[0]
    for _ in range(12):
        new_x, new_y, new_vy = x + 0.2 * vx, y + 0.2 * vy, vy - 0.2 * 9.81 * 0.3
        if new_y < 0:
            return x + y / (y - new_y) * (new_x - x)
        x, y, vy, vx = new_x, new_y, new_vy, vx * (0.9 if vx > 2 else 0.98)
    return x


@_program(_normal(6))
def _longest_run(x: Any) -> Any:
    """Sum the squares over the longest run of rising values."""
    start = best = 0
    length = 1
    for k in range(1, 7):
        if k == 6 or x[k] <= x[k - 1]:
            if k - start > length:
                best, length = start, k - start
            start = k
    return np.sum(x[best : best + length] ** 2)
