"""Gradients survive singular points: branches not taken, zeros under roots, ties, entries of minus infinity.

At regular points the expected derivatives are finite differences of the NumPy function; at singular ones they are the
conventions, written beside the point. Every case is tested in first and second order, by reverse and by forward
mode, in float32 and float64, as numbers of shape `()` and as arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.testing import calls, central_difference, every_entry
from tests.entries import is_unknown

INF = np.inf
Function = Callable[[Any], Any]
STEP = 2.0**-10


def first_difference(f: Function, x: Any, v: Any) -> Any:
    """Return the derivative of `f` at `x` in the direction `v`, with an error of the order of `STEP ** 4`."""
    return central_difference(lambda y: [f(y)], [x], [v], STEP)[0]


def second_difference(f: Function, x: Any, v: Any, w: Any) -> Any:
    """Return the second derivative of `f` at `x` in the directions `v` and `w`."""
    return first_difference(lambda y: first_difference(f, y, v), x, w)


# Functions of one number, element by element

KEEP: None = None
"""A regular point: the derivatives are those of finite differences."""

ZERO = (0.0, 0.0)
Points = dict[float, tuple[float, float] | None]
ELEMENTWISE: list[tuple[str, Function, Points]] = [
    ("where(x > 0, sqrt(x), 0)", lambda x: np.where(x > 0, np.sqrt(x), 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, log(x), 0)", lambda x: np.where(x > 0, np.log(x), 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x != 0, sin(x) / x, 1)", lambda x: np.where(x != 0, np.sin(x) / x, 1), {0: ZERO, 2: KEEP}),
    ("where(x != 0, 1 / x, 0)", lambda x: np.where(x != 0, 1 / x, 0), {0: ZERO, 2: KEEP}),
    ("where(x != 0, expm1(x) / x, 1)", lambda x: np.where(x != 0, np.expm1(x) / x, 1), {0: ZERO, 1: KEEP}),
    ("where(x > 0, x log(x), 0)", lambda x: np.where(x > 0, x * np.log(x), 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, log(x) x, 0)", lambda x: np.where(x > 0, np.log(x) * x, 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, x ** x, 1)", lambda x: np.where(x > 0, x**x, 1), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, x ** 0.5, 0)", lambda x: np.where(x > 0, x**0.5, 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, x ** -1.5, 0)", lambda x: np.where(x > 0, x**-1.5, 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, cbrt(x), 0)", lambda x: np.where(x > 0, np.cbrt(x), 0), {0: ZERO, 2: KEEP}),
    ("where(|x| < 1, arccos(x), 0)", lambda x: np.where(abs(x) < 1, np.arccos(x), 0), {-1: ZERO, 1: ZERO, 2: ZERO, 0.5: KEEP}),
    ("where(|x| < 1, arcsin(x), 0)", lambda x: np.where(abs(x) < 1, np.arcsin(x), 0), {-1: ZERO, 1: ZERO, 2: ZERO, 0.5: KEEP}),
    ("where(x < 1, arctanh(x), 0)", lambda x: np.where(abs(x) < 1, np.arctanh(x), 0), {-1: ZERO, 1: ZERO, 2: ZERO, 0.5: KEEP}),
    ("where(x > 1, arccosh(x), 0)", lambda x: np.where(x > 1, np.arccosh(x), 0), {0: ZERO, 1: ZERO, 2: KEEP}),
    ("where(x > 0, log1p(1 / x), 0)", lambda x: np.where(x > 0, np.log1p(1 / x), 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x > 0, exp(-1 / x), 0)", lambda x: np.where(x > 0, np.exp(-1 / x), 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("where(x < 5, exp(x * x), 0)", lambda x: np.where(x < 5, np.exp(x * x), 0), {1: KEEP, 100: ZERO}),
    ("where(x < 5, sinh(x * x), 0)", lambda x: np.where(x < 5, np.sinh(x * x), 0), {1: KEEP, 100: ZERO}),
    ("where(x > 1, sqrt(log(x)), 0)", lambda x: np.where(x > 1, np.sqrt(np.log(x)), 0), {0: ZERO, 0.5: ZERO, 1: ZERO, 2: KEEP}),
    ("where(x > 0, arctan2(1, sqrt(x)), 0)", lambda x: np.where(x > 0, np.arctan2(1, np.sqrt(x)), 0), {0: ZERO, 2: KEEP}),
    ("where(x > 0, tan(1 / x), 0)", lambda x: np.where(x > 0, np.tan(1 / x), 0), {0: ZERO, 2: KEEP}),
    ("mask * log of what is masked", lambda x: (x > 0) * np.log(np.where(x > 0, x, 1)), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("select", lambda x: np.select([x > 0, x < -5], [np.log(x), x * x], 0), {-1: ZERO, 0: ZERO, 2: KEEP, -6: KEEP}),
    ("0 * sqrt(x)", lambda x: 0 * np.sqrt(x), {0: ZERO, 2: KEEP}),
    ("0 * log(x + 1)", lambda x: 0.0 * np.log(x + 1), {-0.5: KEEP, 2: KEEP}),
    ("where(x > 0, x sqrt(x), 0)", lambda x: np.where(x > 0, x * np.sqrt(x), 0), {0: ZERO, 2: KEEP}),
    ("abs(x)", abs, {-2: KEEP, 0: ZERO, 2: KEEP}),
    ("abs(x) ** 3", lambda x: abs(x) ** 3, {-2: KEEP, 0: ZERO, 2: KEEP}),
    ("x * abs(x)", lambda x: x * abs(x), {-2: KEEP, 0: ZERO, 2: KEEP}),
    ("x ** 0", lambda x: x**0, {-2: KEEP, 0: ZERO, 2: KEEP}),
    ("x ** 1", lambda x: x**1, {-2: KEEP, 0: KEEP, 2: KEEP}),
    ("x ** 2", lambda x: x**2, {-2: KEEP, 0: KEEP, 2: KEEP}),
    ("x ** 3", lambda x: x**3, {-2: KEEP, 0: KEEP, 2: KEEP}),
    ("x ** array(3)", lambda x: x ** np.full_like(x, 3), {-2: KEEP, 0: KEEP, 2: KEEP}),
    ("0 ** x", lambda x: 0.0**x, {1: ZERO, 2: ZERO}),
    ("array(0) ** x", lambda x: np.zeros_like(x) ** x, {0: ZERO, 1: ZERO, 2: ZERO}),
    ("(x - x) ** x", lambda x: (x - x) ** x, {1: ZERO, 3: ZERO}),
    ("arctan2(x, 0 * x)", lambda x: np.arctan2(x, 0 * x), {0: ZERO, 2: KEEP}),
    ("arctan2(0, x)", lambda x: np.arctan2(np.zeros_like(x), x), {0: ZERO, 2: KEEP}),
    ("hypot(x, 0)", lambda x: np.hypot(x, np.zeros_like(x)), {0: ZERO, -2: KEEP, 2: KEEP}),
    ("hypot(x, x)", lambda x: np.hypot(x, x), {0: ZERO, 2: KEEP}),
    ("logaddexp(x, -inf)", lambda x: np.logaddexp(x, np.full_like(x, -INF)), {-2: KEEP, 2: KEEP}),
    ("logaddexp(x, x)", lambda x: np.logaddexp(x, x), {-INF: (1.0, 0.0), 2: KEEP, INF: (1.0, 0.0)}),
    ("logaddexp2(x, x)", lambda x: np.logaddexp2(x, x), {-INF: (1.0, 0.0), 2: KEEP}),
    ("sinc", np.sinc, {0: KEEP, 0.5: KEEP, 1: KEEP}),
    ("nan_to_num(log(x))", lambda x: np.nan_to_num(np.log(x), nan=0.0, neginf=0.0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("fmax(log(x), 0)", lambda x: np.fmax(np.log(x), 0), {-1: ZERO, 0: ZERO, 2: KEEP}),
    ("maximum(sqrt(x), 1)", lambda x: np.maximum(np.sqrt(x), 1), {0: ZERO, 2: KEEP}),
    ("clip(1 / x, -2, 2)", lambda x: np.clip(1 / x, -2, 2), {0: ZERO, 0.25: ZERO, 1: KEEP}),
    ("sqrt(maximum(x, 1))", lambda x: np.sqrt(np.maximum(x, 1)), {-1: ZERO, 0: ZERO, 2: KEEP}),
]  # fmt: skip


def _sum_of(f: Function) -> Function:
    return lambda x: np.sum(f(x))


def gradient(f: Function, x: Any) -> Any:
    return functad.grad(_sum_of(f))(x)


def pushed(f: Function, x: Any) -> Any:
    return functad.jvp(f, (x,), (np.ones_like(x),))[1]


FIRST = {"reverse": gradient, "forward": pushed}
SECOND = {
    "reverse over reverse": lambda f, x: gradient(lambda y: gradient(f, y), x),
    "forward over reverse": lambda f, x: pushed(lambda y: gradient(f, y), x),
    "reverse over forward": lambda f, x: gradient(lambda y: functad.jvp(f, (y,), (np.ones(np.shape(x), x.dtype)[()],))[1], x),
    "forward over forward": lambda f, x: pushed(lambda y: functad.jvp(f, (y,), (np.ones(np.shape(x), x.dtype)[()],))[1], x),
}


def _label(row: tuple[Any, ...]) -> str:
    return str(row[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", ELEMENTWISE, ids=_label)
def test_elementwise(row: tuple[str, Function, Points], dtype: Any) -> None:
    _, f, points = row
    with np.errstate(all="ignore"):
        at = np.array(list(points), float)
        one = np.ones_like(at)
        slopes, bends = first_difference(f, at, one), second_difference(f, at, one, one)
        for i, convention in enumerate(points.values()):
            if convention is not None:
                slopes[i], bends[i] = convention
        x = at.astype(dtype)
        arrays = [(x, slopes, bends), (x[:, None], slopes[:, None], bends[:, None])]
        numbers = list(zip(x, slopes, bends, strict=True))
        for point, slope, bend in [*arrays, *numbers]:
            for expected, modes, tolerance in ((slope, FIRST, 1e-7), (bend, SECOND, 1e-5)):
                for mode, derivative in modes.items():
                    found = derivative(f, point)
                    assert found.dtype == dtype
                    assert np.shape(found) == np.shape(point)
                    np.testing.assert_allclose(
                        found, expected, max(tolerance, 2e-5 if dtype is np.float32 else 0), 1e-5, err_msg=f"{mode} at {point}"
                    )


def _from_source(f: Function, x: Any) -> Any:
    """Return the result of the module that `to_source` writes."""
    module: dict[str, Any] = {}
    exec(functad.to_source(f, x), module)
    return module["derivative"](x)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=_label)
def test_lists_and_source_give_the_derivatives(row: tuple[str, Function, Points]) -> None:
    """No careful pass follows them, so their first pass is to give what eager execution gives."""
    _, f, points = row
    x = np.array(list(points), float)
    with np.errstate(all="ignore"):
        for mode, along in {**FIRST, **SECOND}.items():

            def derivative(x: Any, along: Function = along) -> Any:
                return along(f, x)

            for found in (functad.make_expressions(derivative)(x)(x), _from_source(derivative, x)):
                np.testing.assert_allclose(found, derivative(x), rtol=1e-12, atol=1e-14, err_msg=mode)


def test_lists_multiply_plainly_where_all_factors_are_finite() -> None:
    """A product in which an exact zero wins is no ufunc: it would make each list harder to read."""
    plain = functad.make_expressions(functad.grad(lambda x: np.sum(np.where(x > 0, x * np.sin(x) * np.tanh(x), 0.0))))(
        np.ones(3)
    )
    singular = functad.make_expressions(functad.grad(lambda x: np.sum((x * np.log(x)) ** 2)))(np.ones(3))
    assert not any(equation.primitive.name == "product" for equation in plain.equations)
    assert any(equation.primitive.name == "product" for equation in singular.equations)


def _write(y: Any) -> Any:
    y[0] = 1.0
    return y


def _place(y: Any) -> Any:
    y[np.array([0])] = 1.0
    return y


HIDING: dict[str, Function] = {
    "write": _write,
    "place": _place,
    "read by index": lambda y: y[np.array([1, 2])],
    "diagonal": lambda y: np.einsum("ii->i", np.stack([y[::-1], y, y])),
    "cropping": lambda y: np.fft.fft(y[::-1], n=2).real,
    "heaviside": lambda y: np.heaviside(np.array([1.0, 0.0, 0.0]), y),
    "remainder": lambda y: np.remainder(0.5, y),
    "fmod": lambda y: np.fmod(0.5, y),
}


@pytest.mark.parametrize("way", ["eager", "numpy", "llvm"])
@pytest.mark.parametrize("name", HIDING)
def test_infinity_that_does_not_reach_the_result(name: str, way: str) -> None:
    factors = np.array([np.inf, 1.0, 4.0])

    def f(x: Any) -> Any:
        return np.sum(HIDING[name](x * factors))

    if way == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite")
    gradient = functad.grad(f) if way == "eager" else functad.jit(functad.grad(f), backend=way)
    with np.errstate(all="ignore"):
        assert gradient(np.array([2.0, 3.0, 5.0]))[0] == 0.0


# Functions of arrays


def logsumexp(x: Any) -> Any:
    top = np.max(x)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.sum(np.exp(x - top))) + top


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def masked_softmax(x: Any) -> Any:
    return softmax(np.where(np.arange(x.shape[-1]) < 2, x, -INF))


def entropy(x: Any) -> Any:
    p = masked_softmax(x)
    return -np.sum(np.where(p > 0, p * np.log(p), 0.0))


def weighted(f: Function) -> Function:
    """Return `f`, its result summed with different weights, so that no part of the derivative cancels."""

    def summed(x: Any) -> Any:
        y = f(x)
        return np.sum(y * np.arange(1.0, y.size + 1).astype(y.dtype).reshape(y.shape))

    return summed


def distances(x: Any) -> Any:
    return np.linalg.norm(x[:, None] - x[None, :], axis=-1)


ORDERS: list[Any] = [None, 1, 2, 3, 2.5, 0.5, INF, -INF, 0, -1]
MATRIX_ORDERS: list[Any] = [None, "fro", "nuc", 1, -1, 2, -2, INF, -INF]
FIXED: list[tuple[str, Function, Any, Any]] = [
    # name, function, point, gradient by convention
    *[(f"norm of order {p} at 0", lambda x, p=p: np.linalg.norm(x, p), [0, 0, 0], [0, 0, 0]) for p in ORDERS],
    *[(f"norm of order {p} of a row of 0", lambda x, p=p: np.linalg.norm(x, p, axis=1)[0], [[0, 0], [1, 2]], [[0, 0], [0, 0]])
      for p in ORDERS],
    *[(f"matrix norm {p} at 0", lambda x, p=p: np.linalg.norm(x, p), [[0, 0], [0, 0]], [[0, 0], [0, 0]])
      for p in MATRIX_ORDERS],
    ("vector_norm at 0", np.linalg.vector_norm, [0, 0], [0, 0]),
    ("sqrt of a sum of squares, masked", lambda x: np.where(x @ x > 0, np.sqrt(x @ x), 0.0), [0, 0], [0, 0]),
    ("std of equal values", np.std, [2, 2, 2], [0, 0, 0]),
    ("std with ddof of equal values", lambda x: np.std(x, ddof=1), [2, 2, 2], [0, 0, 0]),
    ("std over an axis", weighted(lambda x: np.std(x, axis=0)), [[1, 2], [1, 2]], [[0, 0], [0, 0]]),
    ("std of one value", np.std, [2], [0]),
    ("var of equal values", np.var, [2, 2, 2], [0, 0, 0]),
    ("nanstd of equal values", np.nanstd, [2, 2, 2], [0, 0, 0]),
    ("max of a tie", np.max, [3, 1, 3], [0.5, 0, 0.5]),
    ("max of equal values", np.max, [2, 2], [0.5, 0.5]),
    ("min over an axis of a tie", weighted(lambda x: np.min(x, axis=0)), [[1, 2], [1, 0]], [[0.5, 0], [0.5, 2]]),
    ("ptp of equal values", np.ptp, [2, 2], [0, 0]),
    ("nanmax of a tie", np.nanmax, [3, np.nan, 3], [0.5, 0, 0.5]),
    ("logsumexp of -inf only", logsumexp, [-INF, -INF], [0, 0]),
    ("logaddexp.reduce of -inf only", np.logaddexp.reduce, [-INF, -INF], [0.5, 0.5]),
    ("distances of equal points", weighted(distances), [[1, 2], [1, 2]], [[0, 0], [0, 0]]),
    ("nansum of log", lambda x: np.nansum(np.log(x)), [-1, 1], [0, 1]),
    ("sum of log where positive", lambda x: np.sum(np.log(x), where=x > 0), [-1, 0, 2], [0, 0, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", FIXED, ids=_label)
def test_singular_points_of_reductions(row: tuple[str, Function, Any, Any], dtype: Any) -> None:
    _, f, point, expected = row
    x, expected = np.array(point, dtype), np.array(expected, float)
    with np.errstate(all="ignore"):
        found = functad.grad(f)(x)
        v = np.arange(1.0, x.size + 1).reshape(x.shape).astype(dtype)
        tangent = functad.jvp(f, (x,), (v,))[1]
        bends = [
            functad.grad(lambda y: np.sum(functad.grad(f)(y) * v))(x),
            functad.jvp(functad.grad(f), (x,), (v,))[1],
            functad.grad(lambda y: functad.jvp(f, (y,), (v,))[1])(x),
            functad.jvp(lambda y: functad.jvp(f, (y,), (v,))[1], (x,), (v,))[1],
        ]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(tangent, np.sum(expected * v), atol=1e-5)
    for bend in bends:
        assert np.isfinite(bend).all(), bends


REGULAR: list[tuple[str, Function, Any]] = [
    # name, function, point; elements that are not finite do not move, and have derivative 0
    ("prod with one zero", np.prod, [0, 2, 3]),
    ("prod with two zeros", np.prod, [0, 2, 0]),
    ("prod with three zeros", np.prod, [0, 0, 0]),
    ("prod over an axis", weighted(lambda x: np.prod(x, axis=0)), [[0, 2], [0, 0]]),
    ("prod of a zero alone", np.prod, [0]),
    ("multiply.reduce with a zero", np.multiply.reduce, [2, 0, 3]),
    ("cumprod with one zero", weighted(np.cumprod), [2, 0, 3]),
    ("cumprod with two zeros", weighted(np.cumprod), [0, 2, 0]),
    ("cumprod of zeros", weighted(np.cumprod), [0, 0, 0]),
    ("cumprod over an axis", weighted(lambda x: np.cumprod(x, axis=1)), [[0, 2], [1, 0]]),
    ("nanprod with a zero", np.nanprod, [np.nan, 0, 3]),
    ("logsumexp with -inf", logsumexp, [-INF, 1, 2]),
    ("logsumexp with two -inf", logsumexp, [-INF, 1, -INF]),
    ("naive logsumexp with -inf", lambda x: np.log(np.sum(np.exp(x))), [-INF, 1, 2]),
    ("logaddexp.reduce with -inf", np.logaddexp.reduce, [-INF, 1, 2]),
    ("softmax with -inf", weighted(softmax), [-INF, 1, 2]),
    ("softmax with a mask of -inf", weighted(masked_softmax), [0.5, 1, 2]),
    ("softmax with a mask, by rows", weighted(masked_softmax), [[0.5, 1, 2], [1, -1, 3]]),
    ("entropy of a softmax with a mask", entropy, [0.5, 1, 2]),
    (
        "log of a softmax, masked",
        weighted(lambda x: np.where(masked_softmax(x) > 0, np.log(masked_softmax(x)), 0)),
        [0.5, 1, 2],
    ),
    ("norm of a row beside a row of 0", lambda x: np.linalg.norm(x[1]) + 0 * np.linalg.norm(x[0]), [[0, 0], [1, 2]]),
    ("element not read", lambda x: np.sqrt(x)[1] + (x * np.log(x))[1], [0, 2]),
    ("elements under a mask", lambda x: np.sum(np.log(x)[np.array([False, True, True])]), [0, 2, 3]),
    ("zero times a root", lambda x: x[1] ** 2 + 0 * np.sqrt(x[0]), [0, 2]),
]
FROZEN = {
    # points at which finite differences would leave the domain, or a kink lies in between: elements with derivative 0
    "norm of a row beside a row of 0": [0, 1],
    "element not read": [0],
    "elements under a mask": [0],
    "zero times a root": [0],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", REGULAR, ids=_label)
def test_differences_of_reductions(row: tuple[str, Function, Any], dtype: Any) -> None:
    name, f, point = row
    x = np.array(point, float)
    moves = [i for i in range(x.size) if np.isfinite(x.flat[i]) and i not in FROZEN.get(name, [])]
    units = np.eye(x.size).reshape(x.size, *x.shape)
    slope, hessian = np.zeros(x.size), np.zeros((x.size, x.size))
    with np.errstate(all="ignore"):
        for i in moves:
            slope[i] = first_difference(f, x, units[i])
            for j in moves:
                hessian[i, j] = second_difference(f, x, units[i], units[j])
        x = x.astype(dtype)
        found = functad.grad(f)(x)
        rows = functad.jacobian(functad.grad(f))(x)
        directions = units.astype(dtype)
        tangents = [functad.jvp(f, (x,), (v,))[1] for v in directions]
        columns = [functad.jvp(functad.grad(f), (x,), (v,))[1].ravel() for v in directions]
    single = dtype is np.float32
    assert found.dtype == rows.dtype == dtype
    np.testing.assert_allclose(found.ravel(), slope, 1e-5 if single else 1e-8, 1e-5 if single else 1e-8)
    np.testing.assert_allclose(tangents, slope, 1e-5 if single else 1e-8, 1e-5 if single else 1e-8)
    np.testing.assert_allclose(rows.reshape(hessian.shape), hessian, 1e-4, 1e-4 if single else 1e-5)
    np.testing.assert_allclose(np.transpose(columns), hessian, 1e-4, 1e-4 if single else 1e-5)


PAIRS: list[tuple[str, Function, Any, Any, Any, Any]] = [
    # name, function, x, y, derivatives by x and y
    ("arctan2(0, 0)", np.arctan2, 0, 0, 0, 0),
    ("hypot(0, 0)", np.hypot, 0, 0, 0, 0),
    ("logaddexp(-inf, -inf)", np.logaddexp, -INF, -INF, 0.5, 0.5),
    ("logaddexp(-inf, 1)", np.logaddexp, -INF, 1, 0, 1),
    ("logaddexp2(-inf, -inf)", np.logaddexp2, -INF, -INF, 0.5, 0.5),
    ("0 ** 0", np.power, 0, 0, 0, 0),
    ("0 ** 1", np.power, 0, 1, 1, 0),
    ("0 ** 2", np.power, 0, 2, 0, 0),
    ("0 ** 3", np.power, 0, 3, 0, 0),
    ("float_power(0, 2)", np.float_power, 0, 2, 0, 0),
    ("0 / 1", np.divide, 0, 1, 1, 0),
    ("maximum of a tie", np.maximum, 1, 1, 0.5, 0.5),
    ("fmin of a tie", np.fmin, 1, 1, 0.5, 0.5),
    ("where(y > 0, x / y, 0)", lambda x, y: np.where(y > 0, x / y, 0), 1, 0, 0, 0),
    ("where(y > 0, x ** y, 0)", lambda x, y: np.where(y > 0, x**y, 0), 0, -1, 0, 0),
    ("where(x > 0, x * log(x / y), 0)", lambda x, y: np.where(x > 0, x * np.log(x / y), 0), 0, 2, 0, 0),
    ("where(x > 0, x * log(x / y), 0) at 0 / 0", lambda x, y: np.where(x > 0, x * np.log(x / y), 0), 0, 0, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
@pytest.mark.parametrize("row", PAIRS, ids=_label)
def test_pairs(row: tuple[str, Function, Any, Any, Any, Any], shape: tuple[int, ...], dtype: Any) -> None:
    name, f, a, b, by_x, by_y = row
    x, y, one = np.full(shape, a, dtype)[()], np.full(shape, b, dtype)[()], np.ones(shape, dtype)[()]
    both = functad.grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))
    wide = np.float64 if name.startswith("float_power") else dtype
    with np.errstate(all="ignore"):
        found = both(x, y)
        tangents = functad.jvp(f, (x, y), (one, 0 * one))[1], functad.jvp(f, (x, y), (0 * one, one))[1]
        bends = [
            functad.grad(lambda x, y, i=i: np.sum(both(x, y)[i]), argnums=(0, 1))(x, y) for i in (0, 1)
        ]  # rows of the Hessian
    for ct, t, expected in zip(found, tangents, (by_x, by_y), strict=True):
        assert ct.dtype == dtype
        assert t.dtype == wide
        np.testing.assert_array_equal(ct, np.full(shape, expected))
        np.testing.assert_array_equal(t, np.full(shape, expected))
    assert not np.isnan(np.array(bends)).any(), bends


# Every elementwise function, at every singular point, behind a mask

SPECIAL = [-INF, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 1e4, 1e300, INF, np.nan]
FUNCTIONS = [
    entry
    for entry in every_entry()
    if isinstance(entry.function, np.ufunc) and entry.function.nout == 1 and getattr(entry, "kind", "elementwise") != "constant"
    # Characteristic values have no known derivative at all.
    if not all(is_unknown(rule) for rule in getattr(entry, "vjps", (None,)))
]


def _of_variables(entry: Any) -> tuple[Function, int]:
    """Return the ufunc as a function of the arguments by which its derivative is known, and their number.

    The others are the orders and parameters of functions of SciPy; they have the values of the first sample.
    """
    rules = getattr(entry, "vjps", ())
    sample = calls(entry, np.float64)[0].leaves
    counts = [rule is None and np.asarray(leaf).dtype.kind in "iu" for rule, leaf in zip(rules, sample, strict=False)]
    fixed = [is_unknown(rule) or count for rule, count in zip(rules, counts, strict=False)]
    if not any(fixed):
        return entry.function, entry.function.nin

    def f(*xs: Any) -> Any:
        variables = iter(xs)
        return entry.function(*[a if is_fixed else next(variables) for a, is_fixed in zip(sample, fixed, strict=True)])

    return f, fixed.count(False)


@pytest.mark.parametrize("entry", FUNCTIONS, ids=lambda entry: entry.name)
def test_unselected_values_of_every_ufunc(entry: Any) -> None:
    """Whatever a function does at a point, its derivatives of first and second order are zero where nothing selects it."""
    if entry.function.signature is not None or entry.function is np.ldexp:
        return  # contractions have tests of their own; ldexp takes integers
    f, count = _of_variables(entry)
    values = [v for v in SPECIAL if entry.name != "special.hyp1f1" or not abs(v) > 1e4]  # SciPy does not return from there
    points = np.stack(np.meshgrid(*[values if count < 3 else values[::3]] * count, indexing="ij")).reshape(count, -1)
    mask = np.zeros(points.shape[1], bool)

    def masked(*xs: Any) -> Any:
        y = np.where(mask[: np.size(xs[0])], f(*xs), 0.0)
        return y.real + y.imag if y.dtype.kind == "c" else y

    everything = tuple(range(count))
    # The rules of SciPy's functions are slow for numbers: of the points that the array holds, some.
    chosen = np.random.default_rng(0).permutation(points.shape[1])[: 16 if entry.name.startswith("special.") else None]
    slopes = functad.grad(lambda *xs: np.sum(masked(*xs)), argnums=everything)
    total = lambda *xs: sum(np.sum(ct * (i + 1)) for i, ct in enumerate(slopes(*xs)))  # noqa: E731
    with np.errstate(all="ignore"):
        for xs in (tuple(points), *map(tuple, points.T[chosen])):
            ones = tuple([np.ones_like(x) for x in xs])
            assert not np.any(slopes(*xs)), xs
            assert not np.any(functad.jvp(masked, xs, ones)[1]), xs
            assert not np.any(functad.grad(total, argnums=everything)(*xs)), xs
            assert not np.any(functad.jvp(slopes, xs, ones)[1]), xs

            def push(*xs: Any, ones: Any = ones) -> Any:
                return functad.jvp(masked, xs, ones)[1]

            assert not np.any(functad.grad(lambda *xs, push=push: np.sum(push(*xs)), argnums=everything)(*xs)), xs
            assert not np.any(functad.jvp(push, xs, ones)[1]), xs


def test_zero_times_an_infinite_derivative_agrees_in_both_modes() -> None:
    def f(x: Any) -> Any:
        return x * np.sqrt(x)

    with np.errstate(all="ignore"):
        for x in (0.0, np.float32(0), np.zeros(2)):
            assert not np.any(gradient(f, x))
            assert not np.any(pushed(f, x))


def test_zeros_of_a_matrix_product() -> None:
    """In reverse mode: the tangent of the root is infinite, and forward mode meets it inside of the product."""
    a = np.array([[0.0, 1.0], [0.0, 3.0]])
    for order in (lambda x: np.sum(a @ np.sqrt(x)), lambda x: np.sum(np.einsum("ij,j->i", a, np.log(x)))):
        with np.errstate(all="ignore"):
            found = functad.grad(order)(np.array([0.0, 4.0]))
            bent = functad.jacobian(functad.grad(order))(np.array([0.0, 4.0]))
        assert found[0] == 0
        assert np.isfinite(found).all()
        assert bent[0].tolist() == [0.0, 0.0]
        assert np.isfinite(bent).all()


def test_what_has_no_finite_derivative_says_so() -> None:
    """A guard hides nothing: where a cotangent that is not zero meets an infinite derivative, the result is infinite."""
    with np.errstate(all="ignore"):
        assert functad.grad(np.sqrt)(0.0) == INF
        assert functad.grad(np.log)(0.0) == INF
        assert functad.grad(lambda x: x**0.5)(0.0) == INF
        assert functad.grad(np.arccos)(1.0) == -INF
        assert np.isnan(functad.grad(np.log)(np.nan))
