"""Linear algebra where the generated checks do not look: singular and degenerate matrices, phases, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError
from functad.testing.numerical import central_difference, pairing, random_like

RNG = np.random.default_rng


def _matrix(*shape: int, dtype: Any = np.complex128, seed: int = 0) -> Any:
    return random_like(np.zeros(shape, dtype), RNG(seed))


def _check_derivatives(f: Callable[[Any], Any], x: Any, tolerance: float = 1e-8) -> None:
    """Compare the first derivatives of a real function, in both modes, and the second with differences."""
    t = random_like(x, RNG(1))
    expected = central_difference(lambda x: [f(x)], [x], [t])[0]
    gradient = functad.grad(f)
    assert functad.jvp(f, (x,), (t,))[1] == pytest.approx(expected, abs=tolerance)
    assert pairing([gradient(x)], [t]) == pytest.approx(expected, abs=tolerance)
    second = functad.jvp(gradient, (x,), (t,))[1]
    assert np.abs(second - central_difference(lambda x: [gradient(x)], [x], [t])[0]).max() < 10 * tolerance


def _weights(n: int) -> Any:
    return np.arange(1.0, n + 1)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigenvectors_up_to_a_phase(dtype: Any, uplo: str) -> None:
    goal = _matrix(3, 3, seed=3)

    def f(a: Any) -> Any:
        w, v = np.linalg.eigh(a, UPLO=uplo)
        return abs((v * (np.sin(w) * _weights(3))) @ v.conj().T - goal).sum()

    _check_derivatives(f, _matrix(3, 3, dtype=dtype))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_singular_vectors_up_to_a_phase(dtype: Any, shape: tuple[int, int]) -> None:
    def f(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return (abs((u * np.sin(s)) @ vh) ** 3).sum() + (abs(u * _weights(min(shape)) @ u.conj().T) ** 2).sum()

    _check_derivatives(f, _matrix(*shape, dtype=dtype), 1e-7)


def test_svd_of_hermitian_matrices() -> None:
    a = _matrix(3, 3, dtype=np.float64)
    a = a + a.T

    def f(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, hermitian=True)
        return (np.sin(u @ (s[:, None] * vh)) ** 2).sum() + np.linalg.svd(a, compute_uv=False, hermitian=True)[0]

    _check_derivatives(f, a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("f", [np.sum, lambda w: np.sum(np.exp(w)), lambda w: np.sum(w * w), lambda w: np.prod(w)])
def test_symmetric_functions_of_equal_eigenvalues(f: Callable[[Any], Any], dtype: Any) -> None:
    a = 2 * np.eye(3, dtype=dtype)
    gradient = functad.grad(lambda a: f(np.linalg.eigvalsh(a)))(a)
    expected = functad.grad(f)(np.full(3, 2.0))[0]
    assert np.allclose(gradient, expected * np.eye(3), rtol=1e-6, atol=1e-6)
    assert np.allclose(functad.grad(lambda a: f(np.linalg.svdvals(a)))(a), expected * np.eye(3), rtol=1e-6, atol=1e-6)


def test_projection_on_all_vectors_of_an_eigenvalue() -> None:
    t = _matrix(3, 3, dtype=np.float64)

    def f(a: Any) -> Any:
        v = np.linalg.eigh(a).eigenvectors[:, :2]
        return np.sum(v @ v.T * t)

    a = np.diag([1.0, 1.0, 3.0])
    gradient = functad.grad(f)(a)
    assert np.isfinite(gradient).all()
    expected = central_difference(lambda a: [f(a)], [a], [t])[0]
    assert pairing([gradient], [t]) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    "a", [np.arange(9.0).reshape(3, 3), np.diag([1.0, 2.0, 0.0]), np.diag([1.0, 0.0, 0.0]), np.zeros((3, 3)), np.zeros((1, 1))]
)
@pytest.mark.parametrize("factor", [1.0, 1j])
def test_determinant_of_singular_matrices(a: Any, factor: complex) -> None:
    a, t = a * factor, _matrix(*a.shape, dtype=np.dtype(type(factor)))
    expected = central_difference(lambda a: [np.linalg.det(a).real], [a], [t])[0]
    assert pairing([functad.grad(lambda a: np.linalg.det(a).real)(a)], [t]) == pytest.approx(expected, abs=1e-9)
    assert functad.jvp(np.linalg.det, (a,), (t,))[1].real == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_matrix_norms_at_zero(p: Any, dtype: Any) -> None:
    for shape in ((2, 2), (3, 2)):
        gradient = functad.grad(lambda a: np.linalg.norm(a, p))(np.zeros(shape, dtype))
        assert gradient.dtype == dtype
        assert np.array_equal(gradient, np.zeros(shape))


@pytest.mark.parametrize("p", [None, 0, 1, 2, 3, 0.5, -1, -2.5, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.filterwarnings("ignore:divide by zero")  # NumPy's own, of negative powers of 0
def test_vector_norms_at_zero(p: Any, dtype: Any) -> None:
    zeros = np.zeros(3, dtype)
    gradient = functad.grad(lambda x: np.linalg.norm(x, p))
    assert np.array_equal(gradient(zeros), zeros)
    assert np.array_equal(functad.jvp(gradient, (zeros,), (zeros + 1,))[1], zeros)
    partly = functad.grad(lambda x: np.linalg.norm(x, p, axis=1).sum())(np.array([[0, 0], [3, 4]], dtype))
    assert np.array_equal(partly[0], zeros[:2])
    assert np.isfinite(partly).all()


def test_first_of_several_results_alone() -> None:
    a = _matrix(3, 3)
    t = _matrix(3, 3, seed=1)
    for f in (
        lambda a: np.linalg.slogdet(a).sign.real,
        lambda a: np.linalg.qr(a).Q.real[0, 1],
        lambda a: functad.vjp(lambda a: np.linalg.slogdet(a)[0], a)[1](1 + 0j)[0].real.sum(),
    ):
        expected = central_difference(lambda a, f=f: [f(a)], [a], [t])[0]
        assert pairing([functad.grad(f)(a)], [t]) == pytest.approx(expected, abs=1e-8)
    direct = functad.vjp(lambda a: np.linalg.slogdet(a).sign, a)[1](1 + 0j)[0]
    assert np.abs(direct).max() > 0
    real = functad.grad(lambda a: np.linalg.eigh(a).eigenvalues[0])(np.diag([1.0, 2.0]))
    assert np.array_equal(real, np.diag([1.0, 0.0]))
    alone = functad.vjp(lambda a: np.linalg.eigh(a)[0], np.diag([1.0, 2.0]))[1](np.array([1.0, 3.0]))[0]
    assert np.array_equal(alone, np.diag([1.0, 3.0]))


def test_one_result_of_several_as_a_scalar() -> None:
    assert functad.grad(lambda a: np.linalg.slogdet(a)[0])(2 * np.eye(2)).tolist() == [[0, 0], [0, 0]]
    assert functad.grad(lambda a: np.linalg.slogdet(a)[1])(2 * np.eye(2)).tolist() == [[0.5, 0], [0, 0.5]]


def test_cheapest_order_of_a_chain() -> None:
    factors = [np.ones(shape) for shape in ((2, 50), (50, 50), (50, 3))]
    listed = functad.make_expressions(lambda a: np.linalg.multi_dot([a, *factors[1:]]))(factors[0])
    assert [spec.shape for spec in listed.specs[1:]] == [(2, 50), (2, 3)]


def test_matrices_of_low_rank_have_a_pseudoinverse_with_a_derivative() -> None:
    b, c = _matrix(4, 2), _matrix(2, 3, seed=1)
    f: Callable[[Any], Any] = lambda b: (abs(np.linalg.pinv(b @ c, 1e-10)) ** 2).sum()  # noqa: E731
    t = _matrix(4, 2, seed=2)
    assert pairing([functad.grad(f)(b)], [t]) == pytest.approx(central_difference(lambda b: [f(b)], [b], [t])[0], abs=1e-7)


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (lambda a: np.linalg.svd(a)[1], "full_matrices=False"),
        (lambda a: np.linalg.qr(a, "complete")[1], "mode='reduced'"),
        (lambda a: np.linalg.qr(a, "raw")[1], "mode='reduced'"),
    ],
)
def test_what_is_not_determined_is_refused(f: Callable[[Any], Any], instead: str) -> None:
    with pytest.raises(UnsupportedError, match=instead):
        functad.vjp(f, np.ones((3, 2)))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh"])
def test_only_square_matrices(name: str) -> None:
    for shape in ((2, 3), (3,)):
        with pytest.raises(np.linalg.LinAlgError):
            functad.vjp(getattr(np.linalg, name), np.ones(shape))
