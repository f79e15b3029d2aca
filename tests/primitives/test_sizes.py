"""Rules that work otherwise on large arrays than on small ones give the same on both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad

RNG = np.random.default_rng(0)
COLUMNS = RNG.integers(-7, 7, 40)
ROWS = RNG.integers(-60, 60, 40)


def _rounded(shape: tuple[int, ...]) -> Any:
    """Return numbers with ties among them."""
    return np.round(RNG.normal(size=shape), 1)


@pytest.mark.parametrize("function", [np.max, np.min])
@pytest.mark.parametrize("change", [None, np.nan, np.inf])
def test_extremes_along_an_axis(function: Any, change: Any) -> None:
    x = _rounded((300, 12))
    assert any(np.sum(row == function(row)) > 1 for row in x)
    if change is not None:
        x[::5, ::3] = change
    weights = RNG.normal(size=300)
    weights[3] = np.inf

    def f(x: Any, weights: Any) -> Any:
        return np.sum(np.sin(function(x, axis=1)) * weights)

    with np.errstate(invalid="ignore"):
        whole = functad.grad(f)(x, weights)
        parts = [functad.grad(f)(x[i : i + 1], weights[i : i + 1]) for i in range(300)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    "index",
    [
        (ROWS, COLUMNS),
        (slice(None), COLUMNS),
        (COLUMNS,),
        (slice(2, 50, 3), COLUMNS.reshape(4, 10)),
        (ROWS[:, None], COLUMNS),
        (3, COLUMNS),
        (ROWS, slice(None, None, -2)),
        (slice(None), None, COLUMNS),
        (ROWS.astype(np.int8),),
    ],
)
@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_places_that_are_read_repeatedly(index: Any, times: int, dtype: Any) -> None:
    index = tuple(
        [np.concatenate([part] * times, axis=-1) if isinstance(part, np.ndarray) and part.ndim == 1 else part for part in index]
    )
    x = RNG.normal(size=(60, 7)).astype(dtype)
    g = RNG.normal(size=x[index].shape).astype(dtype)
    expected = np.zeros(x.shape)
    for place, part in zip(np.arange(x.size).reshape(x.shape)[index].ravel(), g.ravel(), strict=True):
        expected.flat[place] += part
    found = functad.grad(lambda x: np.sum(x[index] * g))(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, expected, rtol=1e-9 if dtype is np.float64 else 1e-3, atol=1e-12 if dtype is np.float64 else 1e-4
    )


SQUARES = [
    lambda x: x * x,
    lambda x: x * x + x * x,
    lambda x: (x * x) * (x * x),
    lambda x: x + x * x + (y := 3 * x) * y,
    lambda x: x * (+x),
]


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("x", [np.float64(0.7), RNG.normal(size=5), RNG.normal(size=(40, 300))], ids=np.shape)
def test_squares(square: Any, x: Any) -> None:
    weights = RNG.normal(size=np.shape(x))
    functad.testing.check_grads(lambda x: np.sum(square(x) * weights), (x,), order=2)
    z = x + 0.3j
    h = 1e-6
    found = functad.grad(lambda z: np.sum(square(z) * weights), holomorphic=True)(z)
    np.testing.assert_allclose(found, (square(z + h) - square(z - h)) / (2 * h) * weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("x", [np.inf, -np.inf, 0.0, np.array([1.5, np.inf])])
def test_polyval_is_numpys_at_infinity(x):
    for p in (np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0]), np.array([2.0])):
        with np.errstate(all="ignore"):
            expected, found = np.polyval(p, x), functad.jvp(lambda p: np.polyval(p, x), (p,), (p,))[0]
        np.testing.assert_array_equal(found, expected)
