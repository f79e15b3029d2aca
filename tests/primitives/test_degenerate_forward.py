"""Forward mode at equal eigenvalues and singular values: what is made of values and vectors is found out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import DegenerateError
from functad.testing import central_difference
from tests.differences import pairing, random_like

Function = Callable[[Any], Any]
DTYPES = (np.float64, np.complex128)


def _random(*shape: int, dtype: Any, seed: int) -> Any:
    return random_like(np.zeros(shape, dtype), np.random.default_rng(seed))


def _with_singular_values(values: list[float], rows: int, columns: int, dtype: Any) -> Any:
    left, right = (np.linalg.qr(_random(n, len(values), dtype=dtype, seed=n)).Q for n in (rows, columns))
    return (left * values) @ right.conj().T


def _hermitian(values: list[float], dtype: Any) -> Any:
    q = np.linalg.qr(_random(len(values), len(values), dtype=dtype, seed=3)).Q
    a = (q * values) @ q.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


HERMITIAN = [
    pytest.param(lambda dtype: 2 * np.eye(3, dtype=dtype), id="identity"),
    pytest.param(lambda dtype: np.diag([1.0, 3.0, 1.0]).astype(dtype), id="diagonal"),
    pytest.param(lambda dtype: _hermitian([1.0, 1.0, 3.0, 4.0], dtype), id="one pair"),
    pytest.param(lambda dtype: _hermitian([1.0, 1.0, 3.0, 3.0], dtype), id="two pairs"),
    pytest.param(lambda dtype: np.stack([_hermitian([1.0, x, 3.0], dtype) for x in (1.0, 2.0)]), id="batch"),
]
RECTANGULAR = [
    pytest.param(lambda dtype: 2 * np.eye(3, dtype=dtype), id="identity"),
    pytest.param(lambda dtype: _with_singular_values([1.0, 2.0, 2.0], 3, 3, dtype), id="square"),
    pytest.param(lambda dtype: _with_singular_values([2.0, 2.0], 4, 2, dtype), id="tall"),
    pytest.param(lambda dtype: _with_singular_values([1.0, 2.0, 2.0], 3, 4, dtype), id="wide"),
    pytest.param(lambda dtype: np.stack([_with_singular_values([s, 2.0], 3, 2, dtype) for s in (1.0, 2.0)]), id="batch"),
]


def _of_matrix(f: Function, a: Any, UPLO: str = "L") -> Any:
    w, v = np.linalg.eigh(a, UPLO)
    return (v * f(w)[..., None, :]) @ v.conj().mT


def _of_singular(f: Function, a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return (u * f(s)[..., None, :]) @ vh


def _of_any(f: Function, a: Any) -> Any:
    w, v = np.linalg.eig(a)
    return ((v * f(w)[..., None, :]) @ np.linalg.inv(v)).real


def _diagonal_in_vectors_of(a: Any) -> Any:
    """Return a direction in which the vectors stay, and equal eigenvalues part."""
    w, v = np.linalg.eigh(a)
    return (v * (1.0 + np.arange(w.shape[-1]))) @ v.conj().mT


@pytest.mark.parametrize("f", [np.sin, np.sqrt, lambda w: w], ids=["sin", "sqrt", "itself"])
@pytest.mark.parametrize("make", HERMITIAN)
@pytest.mark.parametrize("dtype", [np.float32, *DTYPES])
def test_forward_mode_refuses_matrix_functions(dtype: Any, make: Function, f: Function) -> None:
    a = make(dtype)
    t = _random(*a.shape, dtype=dtype, seed=1)
    for of_matrix in (
        lambda a: _of_matrix(f, a),
        lambda a: _of_matrix(f, a, "U"),
        lambda a: _of_any(f, a),
        lambda a: _of_singular(f, (a + a.conj().mT) / 2),
        lambda a: np.stack([_of_matrix(f, a), a])[0],
    ):
        with pytest.raises(DegenerateError, match=r"values and vectors together.*test_degenerate_forward.py:\d+"):
            functad.jvp(of_matrix, (a,), (t,))
        assert not functad.jvp(of_matrix, (a,), (0 * t,))[1].any()


@pytest.mark.parametrize("make", HERMITIAN)
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_functions_where_the_direction_does_not_mix(dtype: Any, make: Function) -> None:
    a = make(dtype)
    for t in (_diagonal_in_vectors_of(a), a):
        expected = central_difference(lambda x: [_of_matrix(np.sin, x)], [a], [t])[0]
        assert np.allclose(functad.jvp(lambda a: _of_matrix(np.sin, a), (a,), (t,))[1], expected, atol=1e-7)


@pytest.mark.parametrize("make", RECTANGULAR)
@pytest.mark.parametrize("dtype", DTYPES)
def test_forward_mode_refuses_functions_of_singular_values_and_vectors(dtype: Any, make: Function) -> None:
    a = make(dtype)
    f: Function = lambda a: _of_singular(np.sin, a)  # noqa: E731
    with pytest.raises(DegenerateError, match="values and vectors together"):
        functad.jvp(f, (a,), (_random(*a.shape, dtype=dtype, seed=1),))
    assert np.allclose(functad.jvp(f, (a,), (a,))[1], central_difference(lambda x: [f(x)], [a], [a])[0], atol=1e-7)


def test_forward_mode_at_vanishing_singular_values() -> None:
    """One that is zero loses nothing of a real square matrix, but where there are vectors beyond it, and if there are two."""
    f: Function = lambda a: _of_singular(np.sin, a)  # noqa: E731
    a = _with_singular_values([0.0, 1.0, 2.0], 3, 3, np.float64)
    t = _random(3, 3, dtype=np.float64, seed=1)
    assert np.allclose(functad.jvp(f, (a,), (t,))[1], central_difference(lambda x: [f(x)], [a], [t])[0], atol=1e-7)
    for values, rows, dtype in (([0.0, 1.0, 2.0], 4, float), ([0.0, 0.0, 2.0], 3, float), ([0.0, 1.0, 2.0], 3, complex)):
        a = _with_singular_values(values, rows, 3, np.dtype(dtype))
        with pytest.raises(DegenerateError, match="values and vectors together"):
            functad.jvp(f, (a,), (_random(rows, 3, dtype=np.dtype(dtype), seed=1),))


def test_forward_mode_refuses_vectors_one_by_one() -> None:
    a = np.diag([1.0, 1.0, 3.0])
    t = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 0.0]])  # mixes the two by way of the third
    for f in (
        lambda a: np.linalg.eigh(a)[1][:, 0],
        lambda a: np.linalg.eigh(a)[1],
        lambda a: np.linalg.eig(a)[1][:, 0],
        lambda a: np.linalg.svd(a)[0][:, -1],
        lambda a: np.linalg.svd(a, hermitian=True)[2][-1],
    ):
        with pytest.raises(DegenerateError, match="single vector"):
            functad.jvp(f, (a,), (t,))
    third = functad.jvp(lambda a: np.linalg.eigh(a)[1][:, 2] ** 2, (a,), (t,))[1]
    assert np.allclose(third, central_difference(lambda a: [np.linalg.eigh(a)[1][:, 2] ** 2], [a], [t])[0], atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_result_is_looked_at_by_itself(dtype: Any) -> None:
    a = _hermitian([1.0, 1.0, 3.0], dtype)
    t = _random(3, 3, dtype=dtype, seed=1)

    def several(a: Any) -> tuple[Any, ...]:
        w, v = np.linalg.eigh(a)
        filled = np.zeros_like(a)
        filled[:] = v[:, :2] @ v[:, :2].conj().T
        filled *= 2
        return np.exp(w).sum(), filled, np.sin(w[:2]).sum() * filled

    for i, found in enumerate(functad.jvp(several, (a,), (t,))[1]):
        assert np.allclose(found, central_difference(lambda x, i=i: [several(x)[i]], [a], [t])[0], atol=1e-6)
    _, found, aux = functad.jvp(lambda a: (several(a)[0], np.linalg.eigh(a)[1]), (a,), (t,), has_aux=True)
    assert np.isfinite(found)
    assert aux.shape == (3, 3)


@pytest.mark.parametrize("matrix", [2 * np.eye(3), _hermitian([1.0, 1.0, 3.0], np.float64)], ids=["identity", "pair"])
def test_forward_mode_inside_other_transforms(matrix: Any) -> None:
    t = _random(3, 3, dtype=np.float64, seed=1)

    def inner(c: Any, f: Function) -> Any:
        return (functad.jvp(lambda a: f(c * a), (matrix,), (t,))[1] ** 2).sum()

    for outer in (functad.grad(inner), lambda c, f: functad.jvp(lambda c: inner(c, f), (c,), (1.0,))):
        with pytest.raises(DegenerateError):
            outer(1.0, lambda a: _of_matrix(np.sin, a))
    with functad.debug_nans(), pytest.raises(DegenerateError, match="values and vectors together"):
        functad.jvp(lambda a: _of_matrix(np.sin, a), (matrix,), (t,))
    projection: Function = lambda a: _of_matrix(np.ones_like, a)  # noqa: E731
    weighted = functad.grad(lambda c: (c * functad.jvp(lambda a: projection(a) + c * a, (matrix,), (t,))[1]).sum())
    assert weighted(1.5) == pytest.approx(3 * t.sum())
    with functad.debug_nans():
        assert np.allclose(functad.jvp(projection, (matrix,), (t,))[1], 0)


@pytest.mark.parametrize("of", [_of_matrix, _of_singular])
def test_expression_lists_ask_when_they_are_run(of: Callable[..., Any]) -> None:
    t = _random(3, 3, dtype=np.float64, seed=1)
    apart, equal = np.diag([1.0, 2.0, 3.0]), _hermitian([1.0, 1.0, 3.0], np.float64)
    for f in (np.sin, np.ones_like):
        pushed = functad.make_expressions(lambda a, f=f: functad.jvp(lambda a: of(f, a), (a,), (t,))[1])(apart)
        for a in (apart, equal) if f is np.ones_like else (apart,):
            expected = central_difference(lambda a, f=f: [of(f, a)], [a], [t])[0]
            assert np.allclose(pushed(a), expected, atol=1e-7)
        if f is np.sin:
            with pytest.raises(DegenerateError, match="values and vectors together"):
                pushed(equal)
    scaled = functad.make_expressions(lambda c: functad.jvp(lambda a: c * np.trace(of(np.sin, a)), (equal,), (t,))[1])(1.0)
    assert scaled(2.0) == pytest.approx(2 * functad.jvp(lambda a: np.trace(of(np.sin, a)), (equal,), (t,))[1])


# Other orders


@pytest.mark.parametrize("values_of", [np.linalg.eigvalsh, np.linalg.svdvals])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reverse_over_forward_raises_where_the_direction_asks_for_a_basis(dtype: Any, values_of: Function) -> None:
    f: Function = lambda a: np.exp(values_of(a)).sum()  # noqa: E731

    def along(t: Any) -> Any:
        return functad.grad(lambda x: functad.jvp(f, (x,), (t,))[1])

    for a in (2 * np.eye(3, dtype=dtype), _hermitian([1.0, 1.0, 3.0], dtype)):
        with pytest.raises(DegenerateError, match="second derivative"):
            along(_random(3, 3, dtype=dtype, seed=1))(a)
        expected = central_difference(lambda x, a=a: [functad.jvp(f, (x,), (a,))[1]], [a], [a])[0]
        assert pairing([along(a)(a)], [a]) == pytest.approx(float(expected), rel=1e-6)


def test_third_derivatives_are_right_or_refused() -> None:
    t = _random(3, 3, dtype=np.float64, seed=1)
    f: Function = lambda a: np.exp(np.linalg.eigvalsh(a)).sum()  # noqa: E731
    second: Function = lambda a: (functad.jvp(functad.grad(f), (a,), (t,))[1] * t).sum()  # noqa: E731
    a = 2 * np.eye(3)
    expected = central_difference(lambda a: [second(a)], [a], [t])[0]
    assert functad.jvp(second, (a,), (t,))[1] == pytest.approx(float(expected), rel=1e-6)
    with pytest.raises(DegenerateError):
        functad.jvp(second, (_hermitian([1.0, 1.0, 3.0], np.float64),), (t,))
