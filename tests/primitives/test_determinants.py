"""Determinants at singular matrices: derivatives up to the third, against the sum over all permutations in rational numbers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import DegenerateError


def polynomial(rows: list[list[Any]]) -> dict[Any, Fraction]:
    """Return the determinant of matrices of polynomials in h_1, h_2, ..., each of degree 1, that are keyed by sets of these."""
    n, total = len(rows), dict[Any, Fraction]()
    for order in itertools.permutations(range(n)):
        inversions = sum(a > b for a, b in itertools.combinations(order, 2))
        term = {frozenset(): Fraction((-1) ** inversions)}
        for i, j in enumerate(order):
            product: dict[Any, Fraction] = {}
            for (one, a), (other, b) in itertools.product(term.items(), rows[i][j].items()):
                if not one & other:
                    product[one | other] = product.get(one | other, Fraction(0)) + a * b
            term = product
        for key, value in term.items():
            total[key] = total.get(key, Fraction(0)) + value
    return total


def along(a: Any, directions: list[Any]) -> float:
    """Return the derivative of the determinant in several directions, exactly."""
    n = a.shape[-1]
    entries = lambda i, j: {  # noqa: E731
        frozenset(): Fraction(a[i, j]), **{frozenset([k]): Fraction(d[i, j]) for k, d in enumerate(directions)}
    }  # fmt: skip
    found = polynomial([[entries(i, j) for j in range(n)] for i in range(n)])
    return float(found.get(frozenset(range(len(directions))), 0))


def forwards(f: Any, direction: Any) -> Any:
    return lambda a: functad.jvp(f, (a,), (direction,))[1]


def backwards(f: Any, direction: Any) -> Any:
    return lambda a: np.sum(functad.grad(f)(a) * direction)


def of_rank(n: int, rank: int) -> Any:
    rng = np.random.default_rng(10 * n + rank)
    return rng.integers(-3, 4, (n, rank)).astype(float) @ rng.integers(-3, 4, (rank, n)) / 4


MATRICES = {f"order {n}, rank {rank}": of_rank(n, rank) for n in range(1, 6) for rank in range(n + 1)}
MATRICES["ones"] = np.ones((4, 4))
MATRICES["nearly singular"] = of_rank(4, 2) + 1e-9 * np.eye(4)


@pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("ways", ["f", "b", "ff", "bf", "fb", "bb", "fff", "fbf", "bff", "bbf", "ffb", "fbb", "bfb", "bbb"])
def test_derivatives_at_any_rank(a: Any, ways: str) -> None:
    rng = np.random.default_rng(1)
    f, directions = np.linalg.det, []
    for way in ways:
        directions.append(rng.integers(-8, 9, a.shape) / 8)
        f = (forwards if way == "f" else backwards)(f, directions[-1])
    assert f(a) == pytest.approx(along(a, directions), rel=1e-10, abs=1e-10)


def test_complex_and_batched() -> None:
    """The determinant is holomorphic, so the derivative in a complex direction of a complex multiple is known."""
    a = np.stack([of_rank(3, rank) for rank in range(4)])
    direction = np.random.default_rng(0).normal(size=(3, 3))
    f = forwards(forwards(forwards(np.linalg.det, direction), direction), direction)
    assert np.allclose(functad.vmap(f)(a), 6 * np.linalg.det(direction))
    turned = forwards(forwards(np.linalg.det, 1j * direction), 1j * direction)
    for matrix in a:
        expected = along(matrix, [direction, direction])
        assert turned(1j * matrix) == pytest.approx(1j**3 * expected, rel=1e-10, abs=1e-10)


def test_fourth_derivative() -> None:
    directions = [np.random.default_rng(i).integers(-8, 9, (4, 4)) / 8 for i in range(4)]
    f = np.linalg.det
    for direction in directions:
        f = forwards(f, direction)
    for a in (4 * np.eye(4), of_rank(4, 4) + 8 * np.eye(4)):
        assert f(a) == pytest.approx(along(a, directions), rel=1e-8)
    for a in (np.ones((4, 4)), of_rank(4, 3), of_rank(4, 2) + 1e-9 * np.eye(4)):
        with pytest.raises(DegenerateError, match=r"test_determinants.py.*fourth derivative of a determinant"):
            f(a)


def test_logarithm_at_a_singular_matrix_is_refused() -> None:
    for derivative in (functad.grad, functad.jacfwd):
        with pytest.raises(DegenerateError, match=r"singular.*test_determinants.py:\d+, where the derivative of slogdet"):
            derivative(lambda a: np.linalg.slogdet(a)[1])(np.ones((3, 3)))
