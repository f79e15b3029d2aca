"""`functad.scipy.interpolate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import functad
from functad.errors import UnsupportedError
from functad.scipy import interpolate, sparse
from functad.testing import check_grads

X = np.array([0.0, 1.0, 2.2, 3.0, 4.5])
Y = np.array([1.0, 2.0, 0.5, 3.0, 1.2])
Q = np.array([0.3, 1.7, 4.0])
V = np.outer(Y, X) + 1.0
T = np.arange(8.0) + 0.1 * np.arange(8.0) ** 2
PLACES = np.array([[0.4, 0.5], [1.2, 2.3]])
SCATTERED = np.stack([X, np.cos(X)], 1)
LONG = np.array([0.0, 1.0, 2.2, 3.0, 4.5, 5.0, 6.3])
WAVE = np.sin(2 * LONG) + LONG / 3
CLOUD = np.random.default_rng(0).normal(size=(12, 2))
HEIGHTS = np.sin(CLOUD[:, 0]) + CLOUD[:, 1] ** 2
NEAR = 0.2 * np.random.default_rng(1).normal(size=(3, 2))
P = scipy.interpolate  # for plain arguments: the same calls with functad's are compared with it


def _round(y: Any) -> Any:
    return np.concatenate([y, y[:1]])


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "not-a-knot": (lambda m, x, y, q: m.CubicSpline(x, y)(q), (X, Y, Q)),
    "natural": (lambda m, x, y, q: m.CubicSpline(x, y, bc_type="natural")(q), (X, Y, Q)),
    "clamped": (lambda m, x, y, q: m.CubicSpline(x, y, bc_type="clamped")(q), (X, Y, Q)),
    "periodic": (lambda m, x, y, q: m.CubicSpline(x, _round(y), bc_type="periodic")(q + 3), (np.append(X, 5.0), Y, Q)),
    "slopes": (lambda m, x, y, a: m.CubicSpline(x, y, bc_type=((1, a), (2, a)))(Q), (X, Y, 0.3)),
    "two points": (lambda m, x, y, q: m.CubicSpline(x, y)(q), (X[:2], Y[:2], Q[:1])),
    "axis": (lambda m, x, y, q: m.CubicSpline(x, y, axis=1)(q), (X, V[:2], Q)),
    "derivative": (lambda m, x, y, q: m.CubicSpline(x, y).derivative()(q), (X, Y, Q)),
    "nu": (lambda m, x, y, q: m.CubicSpline(x, y)(q, 2), (X, Y, Q)),
    "antiderivative": (lambda m, x, y, q: m.CubicSpline(x, y).antiderivative(2)(q), (X, Y, Q)),
    "integrate": (lambda m, x, y, a: m.CubicSpline(x, y).integrate(a, 0.2), (X, Y, 3.7)),
    "integrate in a piece": (lambda m, x, y, a: m.CubicSpline(x, y).integrate(1.2, a), (X, Y, 1.7)),
    "whole periods": (
        lambda m, y, a: m.CubicSpline(np.append(X, 5.0), _round(y), bc_type="periodic").integrate(0.2, a),
        (Y, 13.7),
    ),
    "plain spline": (lambda m, q: m.CubicSpline(X, Y)(q), (Q,)),
    "hermite": (lambda m, x, y, d, q: m.CubicHermiteSpline(x, y, d)(q), (X, Y, Y[::-1].copy(), Q)),
    "pchip": (lambda m, x, y, q: m.PchipInterpolator(x, y)(q), (X, Y, Q)),
    "akima": (lambda m, x, y, q: m.Akima1DInterpolator(x, y + 0.1 * x**3)(q), (X, Y, Q)),
    "ppoly": (lambda m, c, x, q: m.PPoly(c, x)(q), (V[:, :4], X, Q)),
    "descending": (lambda m, c, x, q: m.PPoly(c, x)(q), (V[:, :4], X[::-1].copy(), Q)),
    "descending integral": (lambda m, c, x, a: m.PPoly(c, x).integrate(0.5, a), (V[:, :4], X[::-1].copy(), 3.2)),
    "bpoly": (lambda m, c, x, q: m.BPoly(c, x)(q), (V[:, :4], X, Q)),
    "bpoly nu": (lambda m, c, x, q: m.BPoly(c, x)(q, 1), (V[:, :4], X, Q)),
    "bspline": (lambda m, t, c, q: m.BSpline(t, c, 2)(q), (T, Y, Q + 2.5)),
    "bspline nu": (lambda m, t, c, q: m.BSpline(t, c, 2)(q, 1), (T, Y, Q + 2.5)),
    "bspline derivative": (lambda m, t, c, q: m.BSpline(t, c, 2).derivative()(q), (T, V, Q + 2.5)),
    "bspline integrate": (lambda m, t, c, a: m.BSpline(t, c, 2).integrate(3.0, a), (T, Y, 5.0)),
    "bspline inside": (lambda m, c, a: m.BSpline(T, c, 2).integrate(3.0, a, extrapolate=False), (Y, 5.0)),
    "make_interp_spline": (lambda m, x, y, q: m.make_interp_spline(x, y)(q), (X, Y, Q)),
    "clamped spline": (lambda m, x, y, q: m.make_interp_spline(x, y, bc_type="clamped")(q), (X, Y, Q)),
    "make_lsq_spline": (lambda m, y, q: m.make_lsq_spline(X, y, [0, 0, 0, 2.0, 4.5, 4.5, 4.5], 2)(q), (Y, Q)),
    **{f"splrep {k}": (lambda m, x, y, q, k=k: m.splev(q, m.splrep(x, y, k=k)), (LONG, WAVE, Q)) for k in (1, 2, 3, 4, 5)},
    **{f"through all {k}": (lambda m, x, y, q, k=k: m.UnivariateSpline(x, y, k=k, s=0)(q), (LONG, WAVE, Q)) for k in (2, 3)},
    "splrep of knots": (lambda m, x, y, w, t: m.splrep(x, y, w, t=t)[1], (LONG, WAVE, WAVE**2 + 1, np.array([3.3]))),
    "given knots": (lambda m, x, y, t, w: m.LSQUnivariateSpline(x, y, t, w)(Q), (LONG, WAVE, np.array([3.3]), WAVE**2 + 1)),
    "what is left": (lambda m, x, y: m.LSQUnivariateSpline(x, y, [3.3]).get_residual(), (LONG, WAVE)),
    "coefficients": (lambda m, y: m.InterpolatedUnivariateSpline(LONG, y).get_coeffs(), (WAVE,)),
    "derivative of one": (lambda m, y, q: m.UnivariateSpline(LONG, y, s=0).derivative()(q), (WAVE, Q)),
    "antiderivative of one": (lambda m, y: m.UnivariateSpline(LONG, y, s=0).antiderivative()(Q), (WAVE,)),
    "integral of one": (lambda m, y, a: m.UnivariateSpline(LONG, y, s=0).integral(0.3, a), (WAVE, 4.2)),
    "smooth, point": (lambda m, q: m.UnivariateSpline(LONG, WAVE)(q, 1), (Q,)),
    "splint": (lambda m, y, a: m.splint(0.3, a, m.splrep(LONG, y)), (WAVE, 4.2)),
    "make_smoothing_spline": (lambda m, y, q: m.make_smoothing_spline(LONG, y, lam=0.1)(q), (WAVE, Q)),
    "triangles": (lambda m, p, v, q: m.LinearNDInterpolator(p, v)(q), (CLOUD, HEIGHTS, NEAR)),
    "triangles, outside": (
        lambda m, v: m.LinearNDInterpolator(CLOUD, v, 0.5, rescale=True)(9 * NEAR),
        (np.stack([HEIGHTS, HEIGHTS**2], 1),),
    ),
    "triangles, coordinates": (lambda m, x, y: m.LinearNDInterpolator(CLOUD, HEIGHTS)(x, y), (NEAR[:, 0], NEAR[:, 1])),
    "smooth triangles": (
        lambda m, v: m.CloughTocher2DInterpolator(CLOUD, v, 2.0, tol=1e-12)(np.concatenate([NEAR, 99 + NEAR])),
        (np.stack([HEIGHTS, HEIGHTS**2], 1),),
    ),
    "nearest point": (lambda m, v: m.NearestNDInterpolator(CLOUD, v)(NEAR), (HEIGHTS,)),
    "griddata": (lambda m, p, v, q: m.griddata(p, v, q), (CLOUD, HEIGHTS, NEAR)),
    "griddata cubic": (lambda m, v: m.griddata(CLOUD, v, NEAR, method="cubic"), (HEIGHTS,)),
    "splev": (lambda m, c, q: m.splev(q, (T, c, 2), der=1), (np.append(Y, [0.0] * 3), Q + 2.5)),
    "linear grid": (lambda m, x, v, q: m.RegularGridInterpolator((x, X[:4]), v)(q), (X, V[:, :4], PLACES)),
    "linear 3-d": (lambda m, v, q: m.RegularGridInterpolator((X[:3],) * 3, v)(q), (V[:3, :3, None] * Y[:3], V[1:3, :3] / 7)),
    "nearest grid": (lambda m, v: m.RegularGridInterpolator((X, X[:4]), v, method="nearest")(PLACES), (V[:, :4],)),
    "cubic grid": (
        lambda m, x, v, q: m.RegularGridInterpolator((x, X[:4]), v, method="cubic", solver=sparse.linalg.spsolve)(q),
        (X, V[:, :4], PLACES),
    ),
    "pchip grid": (lambda m, v, q: m.RegularGridInterpolator((X, X[:4]), v, method="pchip")(q), (V[:, :4], PLACES)),
    "interpn": (lambda m, v, q: m.interpn((X, X[:4]), v, q), (V[:, :4], PLACES)),
    "barycentric": (lambda m, x, y, q: m.BarycentricInterpolator(x, y)(q), (X, Y, Q)),
    "krogh": (lambda m, x, y, q: m.KroghInterpolator(x, y).derivative(q), (X, Y, Q)),
    "interp1d": (lambda m, x, y, q: m.interp1d(x, y, fill_value="extrapolate")(q), (X, Y, Q + 2)),
    "interp1d cubic": (lambda m, x, y, q: m.interp1d(x, y, kind="cubic")(q), (X, Y, Q)),
    "interp1d previous": (lambda m, y: m.interp1d(X, y, kind="previous")(Q), (Y,)),
    "interp1d nearest": (lambda m, y: m.interp1d(X, y, kind="nearest")(Q), (Y,)),
    "radial": (lambda m, x, y, q: m.RBFInterpolator(x, y)(q), (SCATTERED, Y, PLACES)),
    "gaussian": (lambda m, x, y, q: m.RBFInterpolator(x, y, kernel="gaussian", epsilon=1.1)(q), (SCATTERED, Y, PLACES)),
}


@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name: str) -> None:
    call, args = CALLS[name]
    check_grads(lambda *given: call(interpolate, *given), args, order=1)
    plain, expected = call(interpolate, *args), call(P, *args)
    np.testing.assert_allclose(plain, expected, rtol=1e-14 if name == "barycentric" else 0.0)  # which draws an order
    assert type(plain) is type(expected)
    value, _ = functad.value_and_grad(lambda *given: (np.sum(call(interpolate, *given)), 0)[0])(*args)
    np.testing.assert_allclose(value, np.sum(expected), rtol=1e-10)


def test_second_order() -> None:
    for name in ("not-a-knot", "bspline"):
        call, args = CALLS[name]
        check_grads(lambda *given, call=call: call(interpolate, *given), args)


def test_outside_is_nan_with_zero_derivative_to_the_inside() -> None:
    q = np.array([-1.0, 0.5])

    def f(y: Any) -> Any:
        return interpolate.CubicSpline(X, y, extrapolate=False)(q)

    jac = functad.jacobian(f)(Y)
    assert np.isnan(interpolate.CubicSpline(X, Y, extrapolate=False)(q))[0]
    np.testing.assert_allclose(jac[1], functad.jacobian(lambda y: interpolate.CubicSpline(X, y)(q))(Y)[1])


def test_the_object_is_one_of_scipys_class() -> None:
    found = []

    def f(y: Any) -> Any:
        found.append(interpolate.CubicSpline(X, y))
        return np.sum(found[0].c)

    functad.grad(f)(Y)
    assert isinstance(found[0], scipy.interpolate.PPoly)


@pytest.mark.parametrize(
    "call",
    [
        lambda y: interpolate.UnivariateSpline(X, y)(Q),
        lambda y: interpolate.splrep(X, y, s=0.1)[1],
        lambda y: interpolate.lagrange(X, y)(0.3),
        lambda y: interpolate.pade(y, 2)[0](0.3),
        lambda y: interpolate.make_smoothing_spline(X, y)(Q),
        lambda y: interpolate.CubicSpline(X, y).roots(),
        lambda y: interpolate.RectBivariateSpline(X, X, V * y)(Q, Q),
    ],
)
def test_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"of a Tensor, at .*; (use|solve) "):
        functad.jacobian(call)(Y)


def _agrees(f: Callable[..., Any], *several: Any, rtol: float = 1e-9) -> None:
    for g in (f, functad.grad(lambda *a: np.sum(f(*a) ** 2), argnums=0)):
        found = functad.vmap(g)(*several)
        for i in range(len(found)):
            np.testing.assert_allclose(found[i], g(*[a[i] for a in several]), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(
    "kind",
    [
        "CubicSpline",
        "PchipInterpolator",
        "make_interp_spline",
        "BarycentricInterpolator",
        "KroghInterpolator",
        "interp1d",
    ],
)
def test_batches(kind: str) -> None:
    values, points = np.stack([Y, Y[::-1], Y**2]), np.stack([Q, 0.9 * Q, 1.1 * Q])
    interpolator = getattr(interpolate, kind)
    _agrees(lambda q: interpolator(X, Y)(q), points)
    _agrees(lambda q: interpolator(X, Y)(q), points[:, 0])
    _agrees(lambda y: interpolator(X, y)(Q), values)
    _agrees(lambda y, q: interpolator(X, y)(q), values, points)
    _agrees(lambda x: interpolator(x, Y)(Q), np.stack([X, 1.1 * X, 1.2 * X]))


def test_batches_of_other_calls() -> None:
    values, points = np.stack([Y, Y[::-1], Y**2]), np.stack([Q, 0.9 * Q, 1.1 * Q])
    made, spline = interpolate.CubicSpline(X, Y), interpolate.make_interp_spline(X, Y)
    _agrees(lambda q: made(q, 1) + made.derivative()(q) + made.antiderivative()(q), points)
    _agrees(lambda q: spline(q, 1) + spline.derivative()(q), points)
    _agrees(lambda a: made.integrate(0.2, a) + spline.integrate(0.1, a), points[:, 0])
    _agrees(lambda c: interpolate.splev(Q + 2.5, (T, c, 2)), np.concatenate([values, np.zeros((3, 3))], 1))
    _agrees(lambda y: interpolate.RBFInterpolator(SCATTERED, y)(PLACES), values)
    _agrees(lambda y, d: interpolate.CubicHermiteSpline(X, y, d)(Q), values, values[::-1])
    _agrees(lambda y: interpolate.make_lsq_spline(X, y, [0, 0, 0, 2.0, 4.5, 4.5, 4.5], 2)(Q), values)
    grids, places = np.stack([V[:, :4], V[::-1, :4]]), np.stack([PLACES, 0.9 * PLACES])
    _agrees(lambda v, q: interpolate.RegularGridInterpolator((X, X[:4]), v)(q), grids, places)
    _agrees(lambda v, q: interpolate.RegularGridInterpolator((X, X[:4]), v, method="pchip")(q), grids, places)
    _agrees(lambda v, q: interpolate.interpn((X, X[:4]), v, q), grids, places)


def test_barycentric_interpolation_at_its_points() -> None:
    nodes = np.array([0.0, 0.7, 1.0, 2.2])
    check_grads(lambda y, q: interpolate.BarycentricInterpolator(X[:4], y)(q), (Y[:4], nodes + np.array([0, 0, 0, 0.0])))


@pytest.mark.parametrize("der", [0, 1, 2, 3])
@pytest.mark.parametrize("ext", [0, 1, 3])
def test_splev_outside(ext: int, der: int) -> None:
    knots, values, degree = scipy.interpolate.splrep(LONG, WAVE)
    q = np.array([-0.5, 0.4, 3.3, 7.1])
    expected = scipy.interpolate.splev(q, (knots, values, degree), der, ext)
    found, _ = functad.vjp(lambda c: interpolate.splev(q, (knots, c, degree), der, ext), values)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    found, _ = functad.vjp(lambda q: interpolate.splev(q, (knots, values, degree), der, ext), q)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    check_grads(lambda c, q: interpolate.splev(q, (knots, c, degree), der, ext), (values, q), order=1)
    spline = scipy.interpolate.InterpolatedUnivariateSpline(LONG, WAVE)
    found, _ = functad.vjp(lambda q: interpolate.InterpolatedUnivariateSpline(LONG, WAVE)(q, der, ext), q)
    np.testing.assert_allclose(found, spline(q, der, ext), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("ext", "der", "message"), [(0, 4, "der=4"), (0, -1, "der=-1"), (4, 0, "ext = 4"), (2, 0, "domain")])
def test_splev_raises_as_scipy(ext: int, der: int, message: str) -> None:
    spline = scipy.interpolate.splrep(LONG, WAVE)
    q = np.array([-0.5, 0.4])
    for call in (
        lambda: interpolate.splev(q, spline, der, ext),
        lambda: functad.vjp(lambda q: interpolate.splev(q, spline, der, ext), q),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_interp1d_outside() -> None:
    q = np.array([-1.0, 0.5, 7.0])
    jac = functad.jacobian(lambda y: interpolate.interp1d(X, y, bounds_error=False, fill_value=(3.0, 4.0))(q))(Y)
    np.testing.assert_array_equal(jac[[0, 2]], 0.0)
    np.testing.assert_array_equal(interpolate.interp1d(X, Y, bounds_error=False, fill_value=(3.0, 4.0))(q)[[0, 2]], [3, 4])
