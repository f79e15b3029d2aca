"""Samples of `scipy.interpolate`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

rng = np.random.default_rng(0)
X = np.array([0.0, 1.0, 2.2, 3.0, 4.5, 5.0])
Y = np.array([1.0, 2.0, 0.5, 3.0, 1.2, 0.7])
Q = np.array([0.3, 1.7, 4.0])
T = np.arange(9.0) + 0.1 * np.arange(9.0) ** 2
V = np.outer(Y, X) + 1.0
PLACES = np.array([[0.4, 0.5], [1.2, 2.3]])
POINTS = rng.normal(size=(12, 2))
VALUES = rng.normal(size=12)
NEAR = 0.2 * rng.normal(size=(3, 2))
SPHERE = np.linspace(0.2, 3, 8), np.linspace(0.1, 6, 9)


SAMPLES: dict[str, Sample | list[Sample]] = {
    **{
        name: [use(lambda kind, x, y, q: kind(x, y)(q), X, Y, Q), use(lambda kind, y, q: kind(X, y)(q), Y, 1.3)]
        for name in (
            "CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "KroghInterpolator", "interp1d",
            "make_interp_spline", "InterpolatedUnivariateSpline",
        )
    },
    "CubicHermiteSpline": use(lambda kind, x, y, d, q: kind(x, y, d)(q), X, Y, Y[::-1].copy(), Q),
    "PPoly": [
        use(lambda kind, c, x, q: kind(c, x)(q), V[:, :5], X, Q),
        use(lambda kind, c, a: kind(c, X).antiderivative().derivative(2)(Q) + kind(c, X).integrate(0.5, a), V[:, :5], 3.3),
    ],
    "PPoly.solve": use(lambda kind, c: kind(c, X).solve(0.5), V[:, :5]),
    "BPoly": use(lambda kind, c, x, q: kind(c, x)(q), V[:, :5], X, Q),
    "NdPPoly": use(lambda kind, c, q: kind(c, (X[:3], X[:4]))(q), rng.normal(size=(2, 2, 2, 3)), PLACES),
    "BSpline": [
        use(lambda kind, t, c, q: kind(t, c, 2)(q), T, Y, Q + 2.5),
        use(lambda kind, c, a: kind(T, c, 2).integrate(2.6, a), Y, 4.4),
    ],
    "NdBSpline": use(lambda kind, c, q: kind((T[:6], T[:7]), c, 2)(q), V[:3, :4], PLACES + 3),
    "make_lsq_spline": use(lambda f, y, q: f(X, y, [0, 0, 0, 2.0, 5, 5, 5], 2)(q), Y, Q),
    "make_smoothing_spline": use(lambda f, y, q: f(X, y, lam=0.1)(q), Y, Q),
    "make_smoothing_spline(lam=None)": use(lambda f, y: f(X, y)(Q), Y),
    "make_splrep": use(lambda f, y: f(X, y, s=0)(Q), Y),
    "make_splprep": use(lambda f, y: f([X, y], s=0)[0](0.3), Y),
    "generate_knots": use(lambda f: list(f(X, Y, s=0.1))[-1]),
    "splrep": use(lambda f, x, y: f(x, y)[1], X, Y),
    "splrep(s)": use(lambda f, y: f(X, y, s=0.1)[1], Y),
    "splprep": use(lambda f, y: f([X, y], s=0)[0][1], Y),
    "splev": use(lambda f, c, q: f(q, (T, c, 2), der=1), np.append(Y, [0.0] * 3), Q + 2.5),
    "splint": use(lambda f, c, a: f(2.6, a, (T, c, 2)), np.append(Y, [0.0] * 3), 4.4),
    "splder": use(lambda f, c: f((T, c, 2))[1], np.append(Y, [0.0] * 3)),
    "splantider": use(lambda f, c: f((T, c, 2))[1], np.append(Y, [0.0] * 3)),
    "spalde": use(lambda f, c: f(2.9, (T, c, 2)), np.append(Y, [0.0] * 3)),
    "sproot": use(lambda f, c: f((T, c, 3)), np.append(Y[:5] - 1.4, [0.0] * 4)),
    "insert": use(lambda f, c: f(3.1, (T, c, 2))[1][:7], np.append(Y, [0.0] * 3)),
    "UnivariateSpline": [
        use(lambda kind, x, y, q: kind(x, y, s=0)(q, 1), X, Y, Q),
        use(lambda kind, q: kind(X, Y)(q), Q),
        use(lambda kind, y, a: kind(X, y, s=0).integral(0.4, a), Y, 3.3),
    ],
    "UnivariateSpline(s)": use(lambda kind, y: kind(X, y)(Q), Y),
    "LSQUnivariateSpline": use(lambda kind, x, y, t, q: kind(x, y, t)(q), X, Y, np.array([2.6]), Q),
    "BarycentricInterpolator": use(lambda kind, x, y, q: kind(x, y, rng=0)(q), X, Y, Q),
    "barycentric_interpolate": call(X, Y, Q, rng=0),
    "krogh_interpolate": call(X, Y, Q),
    "pchip_interpolate": call(X, Y, Q),
    "approximate_taylor_polynomial": use(lambda f, a: f(lambda x: np.sin(a * x), 0.3, 2, 0.1).c, 1.3),
    "lagrange": use(lambda f, y: f(X, y)(0.3), Y),
    "pade": use(lambda f, y: f(y, 2)[0](0.3), Y),
    "AAA": use(lambda kind, y: kind(X, y)(0.3), Y),
    "FloaterHormannInterpolator": use(lambda kind, y, q: kind(X, y, d=2)(q), Y, Q),
    "RegularGridInterpolator": [
        use(lambda kind, x, v, q: kind((x, X[:4]), v)(q), X, V[:, :4], PLACES),
        use(lambda kind, v, q: kind((X, X[:4]), v, method="pchip")(q), V[:, :4], PLACES),
        use(lambda kind, v: kind((X, X[:4]), v, method="nearest")(PLACES), V[:, :4]),
    ],
    "interpn": use(lambda f, v, q: f((X, X[:4]), v, q), V[:, :4], PLACES),
    "RBFInterpolator": use(lambda kind, p, v, q: kind(p, v)(q), POINTS, VALUES, NEAR),
    "Rbf": use(lambda kind, v, x: kind(POINTS[:, 0], POINTS[:, 1], v)(x, x), VALUES, NEAR[:, 0]),
    "LinearNDInterpolator": use(lambda kind, p, v, q: kind(p, v)(q), POINTS, VALUES, NEAR),
    "CloughTocher2DInterpolator": use(lambda kind, v: kind(POINTS, v, tol=1e-12)(NEAR), VALUES),
    "NearestNDInterpolator": use(lambda kind, v: kind(POINTS, v)(NEAR), VALUES),
    "griddata": [
        use(lambda f, v, q: f(POINTS, v, q), VALUES, NEAR),
        use(lambda f, v: f(POINTS, v, NEAR, method="nearest"), VALUES),
    ],
    "interp2d": use(lambda kind: kind.__name__),
    "BivariateSpline": use(lambda kind: kind.__name__),
    "RectBivariateSpline": use(lambda kind, v: kind(X, X[:4], v)(Q, Q[:2]), V[:, :4]),
    "SmoothBivariateSpline": use(lambda kind, v: kind(*_square(), v)(0.1, 0.2), rng.normal(size=30)),
    "LSQBivariateSpline": use(lambda kind, v: kind(*_square(), v, [0.5], [0.5])(0.1, 0.2), rng.normal(size=30)),
    "bisplrep": use(lambda f, v: f(*_square(), v)[2], rng.normal(size=30)),
    "bisplev": use(lambda f, q: f(q, q, _surface()), np.array([0.2, 0.4])),
    "RectSphereBivariateSpline": use(lambda kind, v: kind(*SPHERE, v)(0.5, 0.7), rng.normal(size=(8, 9))),
    "SmoothSphereBivariateSpline": use(lambda kind, v: kind(*_ball(), v, s=99)(0.5, 0.7), rng.normal(size=30)),
    "LSQSphereBivariateSpline": use(lambda kind, v: kind(*_ball(), v, [1.5], [3.0])(0.5, 0.7), rng.normal(size=30)),
}  # fmt: skip


def _square() -> np.ndarray:
    return np.random.default_rng(1).uniform(size=(2, 30))


def _ball() -> np.ndarray:
    return _square() * np.array([[3.0], [6.0]]) + 0.05


def _surface() -> tuple:
    from scipy.interpolate import bisplrep

    return bisplrep(*_square(), np.random.default_rng(2).normal(size=30))
