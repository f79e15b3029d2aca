"""Many short rows are kept column by column by the backend `numpy`, which nobody sees in the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad

N = 1100


def moved(points: Any, rows: Any, scale: Any) -> Any:
    """Elementwise functions, sums and contractions of rows of 3, read in any order."""
    chosen = points[rows]
    length = np.sqrt(np.sum(chosen * chosen, axis=1))[:, None]
    turned = np.cross(chosen / length, scale * np.ones((N, 1)) + chosen)
    joined = np.concatenate([turned * length, chosen], axis=1)
    shifted = joined[:, 1:4] * np.exp(-length) + np.linspace(0.0, 1.0, 3 * N).reshape(N, 3)
    return shifted, np.where(shifted > 0, shifted, 0.5 * chosen), turned[:, 0], np.reshape(shifted, (3, N))


@pytest.fixture
def arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(50, 3)), rng.integers(-50, 50, N), np.array([0.5, 1.0, 2.0])


def test_results_lie_row_by_row(arguments: tuple[Any, ...]) -> None:
    compiled = functad.jit(moved, backend="numpy")
    source = compiled.lower(*arguments).source()
    assert "np.take(points.T, rows, 1).T" in source
    assert "np.asfortranarray(" in source
    for _ in range(2):
        for found, expected in zip(compiled(*arguments), moved(*arguments), strict=True):
            assert found.flags.c_contiguous
            assert np.allclose(found, expected, rtol=1e-13, atol=1e-14)


def test_gradients_agree(arguments: tuple[Any, ...]) -> None:
    gradient = functad.grad(lambda p, i, s: sum(np.sum(np.sin(out)) for out in moved(p, i, s)), argnums=(0, 2))
    for found, expected in zip(functad.jit(gradient, backend="numpy")(*arguments), gradient(*arguments), strict=True):
        assert np.allclose(found, expected, rtol=1e-11)


def test_arguments_are_not_written_into_nor_given_back() -> None:
    def f(x: Any) -> Any:
        y = np.sum(np.tanh(x) * x, axis=1, keepdims=True)
        return x, x * y + np.exp(x - y) * np.cos(x), y

    for order in "CF":
        x = np.array(np.random.default_rng(0).normal(size=(N, 4)), order=order)
        before = x.copy()
        compiled = functad.jit(f, backend="numpy")
        out = compiled(x)
        for found, expected in zip(out, f(before), strict=True):
            assert np.allclose(found, expected, rtol=1e-13)
            assert not np.shares_memory(found, x)
        assert np.array_equal(x, before)


def test_a_place_out_of_bounds_is_refused(arguments: tuple[Any, ...]) -> None:
    points, rows, scale = arguments
    rows[3] = 50
    with pytest.raises(IndexError):
        functad.jit(moved, backend="numpy")(points, rows, scale)


def test_few_operations_exact_ones_and_long_rows_are_left(arguments: tuple[Any, ...]) -> None:
    x = np.ones((N, 3))
    assert "fortran" not in functad.jit(lambda x: np.sin(x) * x, backend="numpy").lower(x).source()
    assert "fortran" not in functad.jit(moved, backend="numpy", exact=True).lower(*arguments).source()
    assert "fortran" not in functad.to_source(moved, *arguments)
    wide = functad.grad(lambda x: np.sum(np.tanh(x) * np.exp(x) * np.sin(x) / (1 + x * x)))
    assert "fortran" not in functad.jit(wide, backend="numpy").lower(np.ones((N, 40))).source()
    windows = np.ones((20, 10, 10, 5, 5)), np.ones((16, 5, 5))
    product = functad.grad(lambda x, y: np.sum(np.tanh(np.einsum("bijkl,okl->bijo", x, y)) ** 3), argnums=(0, 1))
    assert "fortran" not in functad.jit(product, backend="numpy").lower(*windows).source()


def test_reads_of_columns_have_gradients_in_c_order() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) * np.cos(x) + x
        return np.sum(np.exp(-y[:, :2] * y[:, :2]) * y[:, 2:]) + np.sum(np.tanh(y[:, 2]))

    x = np.random.default_rng(1).normal(size=(N, 3))
    gradient = functad.jit(functad.grad(f), backend="numpy")
    assert "fortran" in gradient.lower(x).source()
    assert np.allclose(gradient(x), functad.grad(f)(x), rtol=1e-12)
    assert gradient(x).flags.c_contiguous
