"""The conventions at singular points: kinks, ties, infinite derivatives, and branches that `np.where` did not take.

Every row is tested in first and second order, in reverse and forward mode, in float32 and float64, element by element as
numbers of shape `()` and together as an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

INF = math.inf
LOG10 = math.log(10)
SINGLE, DOUBLE = np.float32, np.float64


def _sum_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: np.sum(f(x))


def _first(f: Callable[..., Any], x: Any) -> Any:
    return functad.grad(_sum_of(f))(x)


def _second(f: Callable[..., Any], x: Any) -> Any:
    """Return the sums of the rows of the Hessian of `sum(f)`."""
    return functad.grad(lambda x: np.sum(functad.grad(_sum_of(f))(x)))(x)


def _pushed(f: Callable[..., Any], x: Any) -> Any:
    return functad.jvp(f, (x,), (x * 0 + 1 if np.all(np.isfinite(x)) else np.ones_like(x),))[1]


def _pushed_gradient(f: Callable[..., Any], x: Any) -> Any:
    return _pushed(lambda x: functad.grad(_sum_of(f))(x), x)


ELEMENTWISE: list[tuple[str, Callable[[Any], Any], list[float], list[float], list[float]]] = [
    # name, function, points, first derivatives, second derivatives
    ("abs", abs, [-2, 0, 3], [-1, 0, 1], [0, 0, 0]),
    ("np.abs", np.abs, [-2, 0, 3], [-1, 0, 1], [0, 0, 0]),
    ("fabs", np.fabs, [-2, 0, 3], [-1, 0, 1], [0, 0, 0]),
    ("sign", np.sign, [-2, 0, 3], [0, 0, 0], [0, 0, 0]),
    ("x * sign(x)", lambda x: x * np.sign(x), [-2, 0, 3], [-1, 0, 1], [0, 0, 0]),
    ("maximum(x, 0)", lambda x: np.maximum(x, 0), [-1, 0, 1], [0, 0.5, 1], [0, 0, 0]),
    ("maximum(0, x)", lambda x: np.maximum(0.0, x), [-1, 0, 1], [0, 0.5, 1], [0, 0, 0]),
    ("minimum(x, 0)", lambda x: np.minimum(x, 0), [-1, 0, 1], [1, 0.5, 0], [0, 0, 0]),
    ("maximum(x, x)", lambda x: np.maximum(x, x), [-1, 0, 1], [1, 1, 1], [0, 0, 0]),
    ("maximum(x, x^2)", lambda x: np.maximum(x, x * x), [-1, 0, 1, 2], [-2, 0.5, 1.5, 4], [2, 1, 1, 2]),
    ("fmax(x, 0)", lambda x: np.fmax(x, 0), [-1, 0, 1], [0, 0.5, 1], [0, 0, 0]),
    ("fmin(x, 0)", lambda x: np.fmin(x, 0), [-1, 0, 1], [1, 0.5, 0], [0, 0, 0]),
    ("clip", lambda x: np.clip(x, -1, 1), [-2, -1, 0, 1, 2], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]),
    ("clip below", lambda x: np.clip(x, 0, None), [-2, 0, 2], [0, 1, 1], [0, 0, 0]),
    ("clip squared", lambda x: np.clip(x, -1, 1) ** 2, [-2, -1, 1, 2], [0, -2, 2, 0], [0, 2, 2, 0]),
    ("relu by where", lambda x: np.where(x > 0, x, 0), [-1, 0, 1], [0, 0, 1], [0, 0, 0]),
    ("sqrt behind where", lambda x: np.where(x > 0, np.sqrt(x), 0), [-1, 0, 4], [0, 0, 0.25], [0, 0, -1 / 32]),
    ("x^0.5 behind where", lambda x: np.where(x > 0, x**0.5, 0), [-1, 0, 4], [0, 0, 0.25], [0, 0, -1 / 32]),
    ("cbrt behind where", lambda x: np.where(x != 0, np.cbrt(x), 0), [0, 8], [0, 1 / 12], [0, -1 / 144]),
    ("log behind where", lambda x: np.where(x > 0, np.log(x), 0), [-1, 0, 2], [0, 0, 0.5], [0, 0, -0.25]),
    ("x log(x) behind where", lambda x: np.where(x > 0, x * np.log(x), 0), [-1, 0, 1], [0, 0, 1], [0, 0, 1]),
    ("log2 behind where", lambda x: np.where(x > 0, np.log2(x), 0), [0, 2], [0, 0.5 / math.log(2)], [0, -0.25 / math.log(2)]),
    ("log10 behind where", lambda x: np.where(x > 0, np.log10(x), 0), [0, 2], [0, 0.5 / LOG10], [0, -0.25 / LOG10]),
    ("log1p behind where", lambda x: np.where(x > -1, np.log1p(x), 0), [-2, -1, 1], [0, 0, 0.5], [0, 0, -0.25]),
    (
        "sin(x) / x behind where",
        lambda x: np.where(x != 0, np.sin(x) / x, 1),
        [0, 1],
        [0, math.cos(1) - math.sin(1)],
        [0, math.sin(1) - 2 * math.cos(1)],
    ),
    ("1 / x behind where", lambda x: np.where(x != 0, 1 / x, 0), [0, 2], [0, -0.25], [0, 0.25]),
    ("reciprocal behind where", lambda x: np.where(x != 0, np.reciprocal(x), 0), [0, 2], [0, -0.25], [0, 0.25]),
    ("exp behind where", lambda x: np.where(x < 1, np.exp(x * 1e3), 0), [0, 10], [1e3, 0], [1e6, 0]),
    ("arccos at 1 under a mask", lambda x: np.where(x < 1, np.arccos(x), 0), [0, 1, 2], [-1, 0, 0], [0, 0, 0]),
    ("arcsin at 1 under a mask", lambda x: np.where(x < 1, np.arcsin(x), 0), [0, 1, 2], [1, 0, 0], [0, 0, 0]),
    ("arctanh at 1 under a mask", lambda x: np.where(x < 1, np.arctanh(x), 0), [0, 1, 2], [1, 0, 0], [0, 0, 0]),
    ("arccosh at 1 under a mask", lambda x: np.where(x > 1, np.arccosh(x), 0), [0, 1], [0, 0], [0, 0]),
    ("x ** 0", lambda x: x**0, [-1, 0, 2], [0, 0, 0], [0, 0, 0]),
    ("x ** 0.0", lambda x: x**0.0, [-1, 0, 2], [0, 0, 0], [0, 0, 0]),
    ("x ** 1", lambda x: x**1, [-1, 0, 2], [1, 1, 1], [0, 0, 0]),
    ("x ** 2", lambda x: x**2, [-1, 0, 2], [-2, 0, 4], [2, 2, 2]),
    ("x ** 2.0", lambda x: x**2.0, [-1, 0, 2], [-2, 0, 4], [2, 2, 2]),
    ("x ** 3", lambda x: x**3, [-1, 0, 2], [3, 0, 12], [-6, 0, 12]),
    ("x ** array(0)", lambda x: np.power(x, np.zeros_like(x)), [-1, 0, 2], [0, 0, 0], [0, 0, 0]),
    ("x ** array(1)", lambda x: np.power(x, np.ones_like(x)), [-1, 0, 2], [1, 1, 1], [0, 0, 0]),
    ("x ** array(2)", lambda x: np.power(x, 2 * np.ones_like(x)), [-1, 0, 2], [-2, 0, 4], [2, 2, 2]),
    ("x ** integer array", lambda x: np.power(x, np.array(2, np.int8)), [-1, 0, 2], [-2, 0, 4], [2, 2, 2]),
    ("x ** 1.5", lambda x: x**1.5, [0, 4], [0, 3], [INF, 0.375]),
    ("x ** -1", lambda x: x**-1, [-1, 2], [-1, -0.25], [-2, 0.25]),
    ("0 ** y", lambda y: 0.0**y, [1, 2], [0, 0], [0, 0]),
    ("square", np.square, [-1, 0, 2], [-2, 0, 4], [2, 2, 2]),
    ("sqrt", np.sqrt, [0, 4], [INF, 0.25], [-INF, -1 / 32]),
    ("arctan2(x, 1)", lambda x: np.arctan2(x, 1.0), [0, 1], [1, 0.5], [0, -0.5]),
    ("arctan2(x, 0)", lambda x: np.arctan2(x, 0.0), [-1, 0, 1], [0, 0, 0], [0, 0, 0]),
    ("arctan2(x, x)", lambda x: np.arctan2(x, x), [0, 1], [0, 0], [0, 0]),
    ("hypot(x, 0)", lambda x: np.hypot(x, 0.0), [-1, 0, 2], [-1, 0, 1], [0, 0, 0]),
    ("logaddexp(x, -inf)", lambda x: np.logaddexp(x, -INF), [-3, 2], [1, 1], [0, 0]),
    ("logaddexp(x, x)", lambda x: np.logaddexp(x, x), [-INF, 0, 800], [1, 1, 1], [0, 0, 0]),
    ("logaddexp2(x, x)", lambda x: np.logaddexp2(x, x), [-INF, 0, 800], [1, 1, 1], [0, 0, 0]),
    ("floor", np.floor, [-1, 0, 0.5], [0, 0, 0], [0, 0, 0]),
    ("floor_divide", lambda x: x // 2.0, [0, 1, 2], [0, 0, 0], [0, 0, 0]),
    ("x mod 2", lambda x: x % 2, [-1, 0, 1], [1, 1, 1], [0, 0, 0]),
    ("heaviside", lambda x: np.heaviside(x, 0.5), [-1, 0, 1], [0, 0, 0], [0, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row[0])
def test_elementwise(row: tuple[str, Callable[[Any], Any], list[float], list[float], list[float]], dtype: Any) -> None:
    _, f, points, first, second = row
    together = np.array(points, dtype)
    cases = [(together, np.array(first), np.array(second))]
    cases += [(dtype(x), a, b) for x, a, b in zip(points, first, second, strict=True)]
    cases += [(together[None, :], np.array(first)[None, :], np.array(second)[None, :])]
    tolerance = 1e-12 if dtype is DOUBLE else 1e-5
    with np.errstate(all="ignore"):
        for x, a, b in cases:
            for order, derivative, expected in (
                ("first", _first, a),
                ("first, pushed", _pushed, a),
                ("second", _second, b),
                ("second, pushed", _pushed_gradient, b),
            ):
                found = derivative(f, x)
                assert np.shape(found) == np.shape(x)
                assert found.dtype == dtype
                assert np.allclose(found, expected, rtol=tolerance, atol=tolerance), (order, x, found, expected)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row[0])
def test_python_numbers(row: tuple[str, Callable[[Any], Any], list[float], list[float], list[float]]) -> None:
    """Python would raise on division by zero and give complex powers; derivatives are those of NumPy all the same."""
    _, f, points, first, second = row
    with np.errstate(all="ignore"):
        for x, a, b in zip(points, first, second, strict=True):
            for order, derivative, expected in (("first", _first, a), ("second", _second, b)):
                found = derivative(f, float(x))
                assert isinstance(found, float)
                assert np.allclose(found, expected, rtol=1e-12, atol=1e-12), (order, x, found, expected)


PAIRS: list[tuple[str, Callable[[Any, Any], Any], tuple[float, float], tuple[float, float]]] = [
    ("maximum of a tie", np.maximum, (2, 2), (0.5, 0.5)),
    ("minimum of a tie", np.minimum, (2, 2), (0.5, 0.5)),
    ("fmax of a tie", np.fmax, (2, 2), (0.5, 0.5)),
    ("fmin of a tie", np.fmin, (2, 2), (0.5, 0.5)),
    ("maximum", np.maximum, (1, 2), (0, 1)),
    ("arctan2(0, 0)", np.arctan2, (0, 0), (0, 0)),
    ("hypot(0, 0)", np.hypot, (0, 0), (0, 0)),
    ("logaddexp of a tie", np.logaddexp, (1, 1), (0.5, 0.5)),
    ("logaddexp(-inf, -inf)", np.logaddexp, (-INF, -INF), (0.5, 0.5)),
    ("logaddexp(-inf, 0)", np.logaddexp, (-INF, 0), (0, 1)),
    ("logaddexp2(-inf, -inf)", np.logaddexp2, (-INF, -INF), (0.5, 0.5)),
    ("0 ** 2", np.power, (0, 2), (0, 0)),
    ("0 ** 1", np.power, (0, 1), (1, 0)),
    ("0 / 2", np.divide, (0, 2), (0.5, 0)),
    ("copysign at 0", np.copysign, (0, -1), (0, 0)),
]


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row[0])
def test_pairs(
    row: tuple[str, Callable[[Any, Any], Any], tuple[float, float], tuple[float, float]], shape: Any, dtype: Any
) -> None:
    _, f, point, expected = row
    x, y = (np.full(shape, v, dtype)[()] for v in point)
    with np.errstate(all="ignore"):
        found = functad.grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(x, y)
        pushed = [functad.jvp(f, (x, y), (np.full(shape, a, dtype)[()], np.full(shape, 1 - a, dtype)[()]))[1] for a in (1, 0)]
        bent = functad.grad(
            lambda x, y: sum(np.sum(g) for g in functad.grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(x, y)),
            argnums=(0, 1),
        )(x, y)
    for g, t, e in zip(found, pushed, expected, strict=True):
        assert g.dtype == dtype
        assert np.allclose(g, e), (found, expected)
        assert np.allclose(t, e), (pushed, expected)
    assert not any(np.isnan(b).any() for b in bent), bent


REDUCTIONS: list[tuple[str, Callable[[Any], Any], list[Any], Any]] = [
    ("max of a tie", np.max, [1, 3, 3], [0, 0.5, 0.5]),
    ("max of equal values", np.max, [2, 2, 2, 2], [0.25] * 4),
    ("min of a tie", np.min, [1, 1, 3], [0.5, 0.5, 0]),
    ("amax over an axis", lambda x: np.max(x, axis=1).sum(), [[1, 1, 0], [0, 2, 1]], [[0.5, 0.5, 0], [0, 1, 0]]),
    ("max over both axes", lambda x: np.max(x, axis=(0, 1)), [[1, 2], [2, 0]], [[0, 0.5], [0.5, 0]]),
    ("max with keepdims", lambda x: np.max(x, axis=0, keepdims=True).sum(), [[1, 2], [1, 0]], [[0.5, 1], [0.5, 0]]),
    ("maximum.reduce", np.maximum.reduce, [3, 1, 3], [0.5, 0, 0.5]),
    ("ptp of equal values", np.ptp, [2, 2], [0, 0]),
    ("var of equal values", np.var, [2, 2, 2], [0, 0, 0]),
    ("std of equal values", np.std, [2, 2, 2], [0, 0, 0]),
    ("std over an axis", lambda x: np.std(x, axis=0).sum(), [[1, 0], [1, 2]], [[0, -0.5], [0, 0.5]]),
    ("std of one value", np.std, [2], [0]),
    ("prod with one zero", np.prod, [0, 2, 3], [6, 0, 0]),
    ("prod with two zeros", np.prod, [0, 2, 0], [0, 0, 0]),
    ("prod of zero alone", np.prod, [0], [1]),
    ("cumprod with one zero", lambda x: np.cumprod(x).sum(), [2, 0, 3], [1, 2 + 6, 0]),
    ("cumprod with two zeros", lambda x: np.cumprod(x).sum(), [0, 0, 3], [1, 0, 0]),
    ("masked sum", lambda x: np.sum(np.log(x), where=x > 0), [0, 2, 4], [0, 0.5, 0.25]),
    ("logsumexp with -inf", lambda x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x), [-INF, 0, 0], [0, 0.5, 0.5]),
    ("naive logsumexp with -inf", lambda x: np.log(np.sum(np.exp(x))), [-INF, 0, 0], [0, 0.5, 0.5]),
]


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row[0])
def test_reductions(row: tuple[str, Callable[[Any], Any], list[Any], Any], dtype: Any) -> None:
    _, f, point, expected = row
    x = np.array(point, dtype)
    with np.errstate(all="ignore"):
        found = functad.grad(f)(x)
        bent = functad.grad(lambda x: np.sum(functad.grad(f)(x) * np.arange(1.0, x.size + 1).reshape(x.shape)))(x)
        pushed = functad.jvp(f, (x,), (np.ones_like(x),))[1]
    assert found.dtype == dtype
    assert np.allclose(found, expected, atol=1e-6), (found, expected)
    assert np.allclose(pushed, np.sum(expected), atol=1e-5)
    assert not np.isnan(bent).any(), bent


@pytest.mark.parametrize("point", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.5, 2.0, 0.0]])
@pytest.mark.parametrize("f", [np.prod, lambda x: np.cumprod(x) @ np.array([1.0, 10.0, 100.0])], ids=["prod", "cumprod"])
def test_hessian_of_products_with_zeros(f: Callable[[Any], Any], point: list[float]) -> None:
    """A product is a polynomial of degree 1 in each factor: differences of any step give its mixed derivatives exactly."""
    x = np.array(point)
    hessian = functad.jacobian(functad.grad(f))(x)
    eye = np.eye(3)
    for i in range(3):
        for j in range(3):
            exact = 0.0 if i == j else f(x + eye[i] + eye[j]) - f(x + eye[i]) - f(x + eye[j]) + f(x)
            assert hessian[i, j] == pytest.approx(exact, abs=1e-10)


def test_guard_holds_in_third_order() -> None:
    def f(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(x), 0.0)

    third = functad.grad(functad.grad(functad.grad(f)))
    with np.errstate(invalid="ignore"):
        assert third(-1.0) == 0.0
    assert third(4.0) == pytest.approx(3 / 8 * 4**-2.5)


def test_raw_calculus_where_nothing_is_guarded() -> None:
    """A cotangent that is not zero meets the infinite derivative: the result says so."""
    with np.errstate(all="ignore"):
        assert functad.grad(np.sqrt)(0.0) == INF
        assert functad.grad(np.log)(0.0) == INF
        assert functad.grad(lambda x: 1 / x)(0.0) == -INF
        assert math.isnan(functad.grad(np.sqrt)(-1.0))


def test_nan_in_a_taken_branch_is_kept() -> None:
    x = np.array([1.0, np.nan])
    assert np.isnan(functad.grad(lambda x: np.sum(x * x))(x)).tolist() == [False, True]


class TestUnselected:
    """What is not selected does not poison a gradient, be its own derivative infinite or NaN."""

    def test_nan_behind_where(self) -> None:
        x = np.array([math.nan, 0.5])
        gradient = functad.grad(lambda x: np.sum(np.where(np.isnan(x), 0.0, np.sin(x) * x)))(x)
        np.testing.assert_allclose(gradient, [0.0, math.sin(0.5) + 0.5 * math.cos(0.5)])

    def test_element_not_read(self) -> None:
        x = np.array([0.0, 1.0])
        with np.errstate(all="ignore"):
            gradient = functad.grad(lambda x: (x * np.log(x))[1])
            np.testing.assert_array_equal(gradient(x), [0.0, 1.0])
            np.testing.assert_array_equal(functad.jacobian(gradient)(x), [[0.0, 0.0], [0.0, 1.0]])

    def test_other_rows_of_a_jacobian(self) -> None:
        with np.errstate(all="ignore"):
            found = functad.jacobian(lambda x: x * np.log(x))(np.array([0.0, 1.0]))
        np.testing.assert_array_equal(found, [[-INF, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("extremum", [np.maximum, np.minimum, np.fmax, np.fmin])
@pytest.mark.parametrize("number", [0, 0.0, -0.0, 0.5, -2, math.nan, INF])
def test_extrema_of_large_arrays_and_numbers_are_those_of_numpy(extremum: Any, number: float) -> None:
    x = np.random.default_rng(0).normal(size=(128, 64)).astype(SINGLE)
    x[0, :4] = 0.0, -0.0, math.nan, -INF
    for call in (lambda x: extremum(x, number), lambda x: extremum(number, x), lambda x: extremum(x.T, number)):
        out, pullback = functad.vjp(call, x)
        expected = call(x)
        assert out.dtype == expected.dtype
        assert np.array_equal(out, expected, equal_nan=True)
        small, pull_small = functad.vjp(call, x[:4, :4])
        (whole,) = pullback(np.ones_like(out))
        (part,) = pull_small(np.ones_like(small))
        assert np.array_equal(whole[:4, :4], part)
