"""Squares of large arrays: the arrays that a trace holds, and those that it hands out, stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad

RNG = np.random.default_rng(0)
A, X = RNG.normal(size=(40, 30)), RNG.normal(size=(30, 400))
Y = A @ X


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_squares_of_temporaries() -> None:
    close(functad.grad(lambda x: np.sum((A @ x) ** 2))(X), 2 * A.T @ Y)
    close(functad.grad(lambda x: np.sum(np.sum((A @ x) ** 2, axis=0) ** 3))(X), A.T @ (6 * np.sum(Y**2, 0) ** 2 * Y))
    close(functad.grad(lambda x: np.sum((A @ x) ** 2 * Y))(X), A.T @ (2 * Y * Y))
    close(functad.grad(lambda x: np.sum((A @ x) ** 2.0 + np.sin(A @ x)))(X), A.T @ (2 * Y + np.cos(Y)))
    close(functad.grad(lambda x: np.sum((r := A @ x) ** 2) + np.sum(r.T[:2] ** 2))(X)[:, 2:], (2 * A.T @ Y)[:, 2:])


def test_arrays_that_are_handed_out_or_given() -> None:
    def residuals(x: Any) -> Any:
        return A.astype(x.dtype) @ x

    def f(x: Any) -> Any:
        r = residuals(x)
        return np.sum(r**2) + np.sum(np.sin(r)), r

    gradient, r = functad.grad(f, has_aux=True)(X)
    close(gradient, A.T @ (2 * Y + np.cos(Y)))
    close(r, Y)  # it was handed out
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(functad.stop_gradient(r := residuals(x)))
        return np.sum(r**2)

    close(functad.grad(keep)(X), 2 * A.T @ Y)
    close(kept[0], Y)
    x = X.copy()
    close(functad.grad(lambda x: np.sum(x**2))(x), 2 * X)
    close(functad.grad(lambda p: np.sum(p["x"] ** 2))({"x": X * 1.0})["x"], 2 * X)
    assert np.array_equal(x, X)
    close(functad.grad(lambda x: np.sum((A @ x)[0] ** 2))(X), 2 * np.outer(A[0], Y[0]))  # a view
    close(functad.grad(lambda x: np.sum((A[:2] @ x) ** 2))(X), 2 * A[:2].T @ Y[:2])  # small
    close(functad.grad(lambda x: np.sum((A @ x) ** 3))(X), 3 * A.T @ Y**2)


def test_what_is_asked_for_again_is_kept() -> None:
    _, pull = functad.vjp(lambda x: np.sum((A @ x) ** 2), X)
    close(pull(1.0)[0], pull(1.0)[0])
    x = functad.constant(X)
    with functad.GradientTape(persistent=True) as tape:
        tape.watch(x)
        r = A @ x
        y = np.sum(r**2)
    close(tape.gradient(y, x).numpy(), tape.gradient(y, x).numpy())
    with functad.GradientTape() as tape:
        tape.watch(x)
        r = A @ x
        y = np.sum(r**2)
    close(tape.gradient(y, x).numpy(), 2 * A.T @ Y)
    close(r.numpy(), Y)


def test_other_dtypes_and_nested_traces() -> None:
    f = lambda x: np.sum((A.astype(x.dtype) @ x) ** 2)  # noqa: E731
    x32 = X.astype(np.float32)
    assert functad.grad(f)(x32).dtype == np.float32
    np.testing.assert_allclose(functad.grad(f)(x32), 2 * A.T @ Y, rtol=1e-3, atol=1e-3)
    close(functad.hvp(f, (X,), (X,)), 2 * A.T @ Y)
    close(functad.grad(lambda x: np.sum(functad.grad(f)(x) ** 2))(X), 8 * A.T @ (A @ (A.T @ Y)))
    close(functad.vmap(functad.grad(f))(np.stack([X, -X]))[1], -2 * A.T @ Y)
    z = X + 1j * X[::-1]
    close(functad.grad(lambda z: np.sum((A @ z) ** 2), holomorphic=True)(z), 2 * A.T @ (A @ z))
