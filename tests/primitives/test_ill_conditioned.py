"""Inverses of ill-conditioned matrices: second derivatives against differences in 60 digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import functad

W = np.array([[0.3, -1.2, 0.5], [0.8, 0.1, -0.7], [-0.4, 0.9, 1.1]])
FUNCTIONS = {
    "inv": lambda x: np.sum(W * np.linalg.inv(x.T @ x)),
    "pinv": lambda x: np.sum(W * np.linalg.pinv(x.T @ x)),
    "hermitian": lambda x: np.sum(W * np.linalg.pinv(x.T @ x, hermitian=True)),
    "pinv of all": lambda x: np.sum(W * (np.linalg.pinv(x) @ np.linalg.pinv(x).T)),
    "pinv of the transpose": lambda x: np.sum(W * (np.linalg.pinv(x.T).T @ np.linalg.pinv(x.T))),
    "lstsq": lambda x: np.sum(W * np.linalg.lstsq(x.T @ x, np.eye(3), rcond=None)[0]),
}


def design(condition: float) -> Any:
    """Return a matrix of 6 rows and 3 columns, of which `x^T x` has a given condition number."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (6, 3))
    return (left * np.geomspace(1.0, condition**-0.5, 3)) @ right.T


def exact(x: Any, t: Any) -> tuple[float, float]:
    """Return the first and second derivative of the weighted sum of the elements of `(x^T x)^-1` along `t`."""
    with mpmath.workdps(60):
        h = mpmath.mpf(10) ** -20

        def value(step: int) -> Any:
            moved = mpmath.matrix(x.tolist()) + step * h * mpmath.matrix(t.tolist())
            inverse = (moved.T * moved) ** -1
            return sum(W[i, j] * inverse[i, j] for i in range(3) for j in range(3))

        return float((value(1) - value(-1)) / (2 * h)), float((value(1) - 2 * value(0) + value(-1)) / (h * h))


@pytest.mark.parametrize("condition", [1e2, 5e5, 1e7])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_second_derivatives_in_every_mode(f: Any, condition: float) -> None:
    x, t = design(condition), np.random.default_rng(1).normal(size=(6, 3))
    first, second = exact(x, t)
    tolerance = 1e-13 * condition
    assert functad.jvp(f, (x,), (t,))[1] == pytest.approx(first, rel=tolerance)
    assert np.sum(functad.grad(f)(x) * t) == pytest.approx(first, rel=tolerance)
    along = lambda x: np.sum(functad.grad(f)(x) * t)  # noqa: E731
    pushed = lambda x: functad.jvp(f, (x,), (t,))[1]  # noqa: E731
    for found in (
        np.sum(functad.hvp(f, (x,), (t,)) * t),
        np.sum(functad.grad(along)(x) * t),
        functad.jvp(pushed, (x,), (t,))[1],
        np.sum(functad.vmap(lambda t: np.sum(functad.hvp(f, (x,), (t,)) * t))(t[None])),
    ):
        assert found == pytest.approx(second, rel=tolerance)


def test_rank_that_is_not_full() -> None:
    """The projections are not zero then: the pseudoinverse of `x x^T` follows its column space."""
    x, t = np.array([[1.0, 0.5], [0.2, 1.3], [0.7, -0.4]]), np.array([[0.3, -0.1], [0.6, 0.2], [-0.5, 0.4]])
    f = lambda x: np.sum(W * np.linalg.pinv(x @ x.T))  # noqa: E731
    h = 1e-4
    expected = (f(x + h * t) - 2 * f(x) + f(x - h * t)) / h**2
    assert np.sum(functad.hvp(f, (x,), (t,)) * t) == pytest.approx(expected, rel=1e-6)
