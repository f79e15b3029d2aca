"""Linear scans whose factors are multiplied for all steps at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad.compilation.passes import hoist as scan_rows
from functad.compilation.passes import simplified
from functad.compilation.passes.speculate import has_factors, unguarded, with_coefficients
from functad.expressions.expressions import evaluate

WIDTH = 12
RNG = np.random.default_rng(5)
X, ROWS = RNG.normal(size=WIDTH), RNG.normal(size=(10, WIDTH))


def gated(x: Any, rows: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return np.tanh(c * row) / (1.0 + np.exp(-c)) + 0.5 * c, c * row

    c, ys = functad.scan(step, x, rows)
    return np.sum(c) + np.sum(ys**2)


def growing(x: Any, rows: Any) -> Any:
    c, _ = functad.scan(lambda c, row: (c * row * np.exp(row) * 0.3 - (c * np.cos(row)) * 0.2, None), x, rows)
    return np.sum(c * np.sqrt(x * x))


def both(f: Any) -> Any:
    return functad.value_and_grad(f, argnums=(0, 1))


def listed(f: Any) -> Any:
    return simplified(functad.make_expressions(both(f))(X, ROWS))


def products(expressions: Any) -> int:
    """Count the products within scans."""
    scans = [e.params["body"] for e in expressions.equations if e.primitive.name == "scan"]
    return sum(e.primitive.name in ("multiply", "product", "negative", "mended") for body in scans for e in body.equations)


@pytest.mark.parametrize("f", [gated, growing])
def test_a_step_has_fewer_products_and_results_stay(f: Any) -> None:
    before = listed(f)
    after = unguarded(before)
    assert after is not None
    assert after.finite
    assert products(after.expressions) <= products(before) - 3
    for a, b in zip(evaluate(after.expressions, (X, ROWS)), evaluate(before, (X, ROWS)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
    value, slopes = functad.jit(both(f), backend="numpy")(X, ROWS)
    expected, eager = both(f)(X, ROWS)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for own, slope in zip(slopes, eager, strict=True):
        np.testing.assert_allclose(own, slope, rtol=1e-10, atol=1e-13)


def test_factors_whose_product_overflows_are_multiplied_one_by_one() -> None:
    def f(x: Any, rows: Any) -> Any:
        c, _ = functad.scan(lambda c, row: (c * row * row, None), x, rows)
        return np.sum(c * 1e-250) + np.sum(np.tanh(x))

    rows = np.ones((10, WIDTH))
    rows[4] = 1e200
    x = np.full(WIDTH, 1e-300)
    jitted = functad.jit(functad.grad(f), backend="numpy")
    expected = functad.grad(f)(x, rows)
    assert np.isfinite(expected).all()
    quick = unguarded(simplified(functad.make_expressions(functad.grad(f))(x, rows)))
    assert quick is not None
    with np.errstate(all="ignore"):
        assert not np.isfinite(evaluate(quick.expressions, (x, rows))[0]).all()
        np.testing.assert_allclose(jitted(x, rows), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_whose_product_underflows_are_multiplied_one_by_one(dtype: str) -> None:
    small, large = np.finfo(dtype).tiny ** 0.75, np.finfo(dtype).max ** 0.75

    def f(x: Any, rows: Any) -> Any:
        c, _ = functad.scan(lambda c, row: (c * row[0] * row[1], None), x, rows)
        return np.sum(c * x.dtype.type(large)) + np.sum(np.sqrt(x))

    x, rows = np.ones(WIDTH, dtype), [np.full((4, WIDTH), value, dtype) for value in (1.5, 0.5)]
    jitted = functad.jit(functad.grad(f), backend="numpy")
    for first, second in ((small, small), (1.0, 0.0), (0.0, 2.0), (1.0, 2.0), (large, 1 / large)):
        rows[0][1], rows[1][1] = first, second
        expected = functad.grad(f)(x, rows)
        assert np.isfinite(expected).all()
        with np.errstate(over="ignore"):  # the test for infinities squares the results
            np.testing.assert_allclose(jitted(x, rows), expected, rtol=1e-5 if dtype == "float32" else 1e-12)
    quick = unguarded(simplified(functad.make_expressions(functad.grad(f))(x, rows)))
    assert quick is not None
    assert quick.finite


def test_factors_that_each_step_would_multiply_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = listed(growing)
    after = unguarded(before)
    assert after is not None
    assert after.finite
    monkeypatch.setattr(scan_rows, "_LARGEST", 0)
    after = unguarded(before)
    assert after is not None
    assert not after.finite
    assert not has_factors(after.expressions)
    for a, b in zip(evaluate(after.expressions, (X, ROWS)), evaluate(before, (X, ROWS)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_infinite_derivatives_are_infinite() -> None:
    def f(x: Any, rows: Any) -> Any:
        return np.sum(functad.scan(lambda c, row: (np.tanh(c) * row * row + np.sqrt(row), None), x, rows)[0])

    rows = ROWS**2
    rows[9, 0] = 0.0
    with np.errstate(all="ignore"):
        expected = both(f)(X, rows)[1][1]
        assert np.isinf(expected).any()
        np.testing.assert_allclose(functad.jit(both(f), backend="numpy")(X, rows)[1][1], expected, rtol=1e-10, atol=1e-300)


def test_what_an_overflow_might_be_hidden_in_stays_as_it_is() -> None:
    def f(x: Any, rows: Any) -> Any:
        slopes = functad.grad(gated)(x, rows)
        return 1.0 / (1.0 + np.exp(slopes))

    before = simplified(functad.make_expressions(f)(X, ROWS))
    assert with_coefficients(before)[1] == []


def test_exact_programs_and_products_of_two_carries_stay_as_they_are() -> None:
    source = functad.jit(both(growing), backend="numpy", exact=True).lower(X, ROWS).source()
    assert "careful" not in source

    def squares(x: Any, rows: Any) -> Any:
        return np.sum(functad.scan(lambda c, row: (c * row * row * c, None), x, rows)[0])

    assert with_coefficients(simplified(functad.make_expressions(squares)(X, ROWS)))[1] == []
