"""Sums and products with infinities, NaN, overflow and underflow: native code gives the results of NumPy's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")

SPECIAL = np.array([0.0, -0.0, 1e100, -1e100, 1e-100, 1e308, 1e-308, 5e-324, np.inf, np.nan, 1.0, 2.0, 0.5, -1.0])
LENGTHS = [1, 2, 4, 5, 8, 15, 16, 17, 255, 256, 257, 1500]
SHAPES = [(20, 30), (300, 3), (3, 300), (2, 300, 4), (40, 2, 5), (1, 70), (70, 1), (5, 6, 7)]


def factors(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Return arrays whose products are finite, overflow, underflow, or meet special numbers."""
    moderate, wide = np.exp(rng.normal(size=n)), np.exp(30 * rng.normal(size=n))
    spotted, wide_spotted = moderate.copy(), wide.copy()
    spotted[rng.integers(n)] = rng.choice(SPECIAL)
    wide_spotted[rng.integers(n, size=3)] = rng.choice(SPECIAL, size=3)
    zero_first = np.full(n, 1e100)
    zero_first[0] = 0.0
    halves = np.where(np.arange(n) < n // 2, 1e10, 1e-10)
    return [rng.normal(size=n), moderate, wide, spotted, wide_spotted, zero_first, halves, rng.choice(SPECIAL, size=n)]


def assert_same(found: Any, expected: Any) -> None:
    """Compare values; infinities, NaN, and signs of zero must be the same."""
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("n", [2, 16, 100, 300, 5000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zero_before_factors_that_overflow_together(n, dtype):
    x = np.full(n, 1e100 if dtype is np.float64 else 1e15, dtype)
    x[0] = 0.0
    assert functad.jit(np.prod, backend="llvm")(x) == 0.0


FUNCTIONS = {
    "prod": np.prod,
    "multiply.reduce": np.multiply.reduce,
    "nanprod": np.nanprod,
    "cumprod": np.cumprod,
    "formula": lambda x: np.prod(x * 2.0),
    "sine": lambda x: np.prod(np.sin(x) * x),  # has a quick formula and a careful one
    "several": lambda x: np.stack([np.prod(x), np.prod(-x), np.prod(np.abs(x) + 0.5)]),
}


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_of_a_row(name, n):
    f, rng = FUNCTIONS[name], np.random.default_rng(n)
    compiled = functad.jit(f, backend="llvm")
    for _ in range(5):
        for x in factors(rng, n):
            with np.errstate(all="ignore"):
                assert_same(compiled(x), f(x))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (0, -1)], ids=str)
def test_products_along_axes(shape, axis):
    if isinstance(axis, tuple) and len({a % len(shape) for a in axis}) < 2:
        axis = axis[0]
    rng = np.random.default_rng(3)
    compiled = functad.jit(lambda x: np.prod(x, axis=axis), backend="llvm")
    for _ in range(3):
        for x in factors(rng, int(np.prod(shape))):
            x = x.reshape(shape)
            with np.errstate(all="ignore"):
                assert_same(compiled(x), np.prod(x, axis=axis))


def test_sums_beside_a_product():
    rng = np.random.default_rng(1)
    compiled = functad.jit(lambda x: (np.prod(x), np.sum(x), np.max(x)), backend="llvm")
    for x in factors(rng, 600)[:7]:
        with np.errstate(all="ignore"):
            for found, expected in zip(compiled(x), (np.prod(x), np.sum(x), np.max(x)), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(np.broadcast_to(x - x, (2, *x.shape))),
        lambda x, y: np.sum(0 * x),
        lambda x, y: np.sum(np.stack([y - x, x]), axis=0),
        lambda x, y: np.sum(np.stack([x - y, y, x]), axis=0),
        lambda x, y: np.prod(np.stack([y / x, x]), axis=0),
        lambda x, y: np.sum(np.stack([x, -x])),
    ],
    ids=["difference", "zero times", "y - x + x", "x - y + y + x", "y / x * x", "x - x"],
)
def test_terms_that_would_cancel_are_not_left_out(f, value, n):
    x, y = np.full(n, value), np.arange(1.0, n + 1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(functad.jit(f, backend="llvm")(x, y), f(x, y))


@pytest.mark.parametrize("n", [5, 40, 300])
@pytest.mark.parametrize("f", [np.prod, lambda x: np.sum(np.cumprod(x)), np.nanprod], ids=["prod", "cumprod", "nanprod"])
def test_gradients_of_products(f, n):
    rng = np.random.default_rng(2)
    gradient = functad.grad(f)
    compiled = functad.jit(gradient, backend="llvm")
    for x in factors(rng, n)[:7]:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(x), gradient(x), rtol=1e-9, atol=1e-300)


def test_long_product_in_threads():
    x = np.full(1_000_000, 1e100)
    x[0] = 0.0
    halves = np.where(np.arange(1_000_000) < 2, 1e200, 1.0)
    halves[-2:] = 1e-200
    compiled = functad.jit(np.prod, backend="llvm")
    with np.errstate(all="ignore"):
        for a in (x, halves, np.full(1_000_000, 1.0000001)):
            np.testing.assert_allclose(compiled(a), np.prod(a), rtol=1e-9)
        columns = functad.jit(lambda a: np.prod(a, axis=0), backend="llvm")
        np.testing.assert_array_equal(columns(x.reshape(1000, 1000)), np.prod(x.reshape(1000, 1000), axis=0))
