"""Linear algebra where the generated checks do not look: singular and degenerate matrices, phases, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError
from functad.primitives.entry import ENTRIES
from functad.testing import central_difference, every_entry
from tests.differences import pairing, random_like

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
    _check_derivatives(lambda a: np.linalg.det(a).real + np.linalg.det(a).imag, a)


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


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_norms_of_nothing_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for function in (np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm):
        for p in (0, 1, 2, 3, -1, -2, np.inf, -np.inf, "fro", "nuc"):
            for kwargs in ({}, {"keepdims": True}, {"axis": -1}, {"axis": (0, -1), "keepdims": True}):

                def f(x: Any) -> Any:
                    return function(x, ord=p, **kwargs)  # noqa: B023

                try:
                    expected = f(x)
                except (ValueError, TypeError):
                    continue
                value, pulled = functad.vjp(f, x)
                assert np.array_equal(value, expected)
                assert np.shape(value) == np.shape(expected) == functad.eval_shape(f, x).shape
                assert pulled(np.ones_like(value))[0].shape == shape


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (lambda a: np.linalg.qr(a, "raw")[1], "mode='reduced'"),
    ],
)
def test_what_is_not_determined_is_refused(f: Callable[[Any], Any], instead: str) -> None:
    with pytest.raises(UnsupportedError, match=instead):
        functad.vjp(f, np.ones((3, 2)))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "eig", "eigvals"])
def test_only_square_matrices(name: str) -> None:
    for shape in ((2, 3), (3,)):
        with pytest.raises(np.linalg.LinAlgError):
            functad.vjp(getattr(np.linalg, name), np.ones(shape))


# Complex numbers: `grad` is that of JAX, `df/dx - i df/dy`

REGULAR = np.array([[3, 1j, 0.5], [0.2, 2 - 1j, 0.3j], [-0.4, 0.1, 1.2 + 0.5j]])
SPECIMENS: dict[str, Callable[[Any], Any]] = {
    "inv": lambda a: abs(np.linalg.inv(a)[0, 1]) + np.linalg.inv(a)[1, 0].imag,
    "det": lambda a: abs(np.linalg.det(a)) + np.linalg.det(a).imag,
    "slogdet": lambda a: np.linalg.slogdet(a)[1] + np.linalg.slogdet(a)[0].imag,
    "solve": lambda a: abs(np.linalg.solve(a, np.arange(3) + 1j) ** 2).sum(),
    "cholesky": lambda a: abs(np.linalg.cholesky(a + a.conj().T) * (1 + 2j) + 1j).sum(),
    "eigh": lambda a: _phaseless(*np.linalg.eigh(a + a.conj().T)),
    "eigvalsh": lambda a: np.sin(np.linalg.eigvalsh(a, "U")).sum(),
    "svd": lambda a: np.linalg.svd(a)[1] @ _weights(3) + abs(np.linalg.svd(a)[0][0] ** 2 * _weights(3)).sum(),
    "qr": lambda a: abs(np.linalg.qr(a)[0] + 1j).sum() + abs(np.linalg.qr(a)[1] - 2).sum(),
    "eig": lambda a: np.linalg.eig(a)[1].imag.sum() + np.linalg.eig(a)[0].real @ _weights(3),
    "eigvals": lambda a: (np.linalg.eigvals(a) ** 3).imag.sum(),
    "pinv": lambda a: abs(np.linalg.pinv(a[:2])[0, 1] - 1j),
    "lstsq": lambda a: np.linalg.lstsq(a[:, :2], a[:, 2])[0].imag.sum() + np.linalg.lstsq(a[:, :2], a[:, 2])[1][0],
    "cond": lambda a: np.linalg.cond(a) + np.linalg.cond(a, "nuc") + np.linalg.cond(a, 1),
    "matrix_power": lambda a: np.linalg.matrix_power(a, -3)[0, 2].imag,
    "tensorsolve": lambda a: abs(np.linalg.tensorsolve(a[..., None], np.arange(3) + 2j)).sum(),
}


def _phaseless(w: Any, v: Any) -> Any:
    return abs((v * np.sin(w)) @ v.conj().T - 1j).sum()


@pytest.mark.parametrize("name", SPECIMENS)
def test_gradient_by_real_and_imaginary_parts(name: str) -> None:
    f, a = SPECIMENS[name], REGULAR + 3 * np.eye(3) if name == "cholesky" else REGULAR
    expected = np.zeros((3, 3), complex)
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3), complex)
        step[place] = 1
        for unit, factor in ((1, 1), (1j, -1j)):
            expected[place] += factor * central_difference(lambda a: [f(a)], [a], [unit * step])[0]
    assert np.abs(functad.grad(f)(a) - expected).max() < 1e-8


@pytest.mark.parametrize("name", ["inv", "det", "solve", "matrix_power", "eigvals"])
def test_holomorphic_derivatives(name: str) -> None:
    f: Callable[[Any], Any] = {
        "inv": lambda a: np.linalg.inv(a)[0, 1],
        "det": np.linalg.det,
        "solve": lambda a: np.linalg.solve(a, np.ones(3))[1],
        "matrix_power": lambda a: np.linalg.matrix_power(a, 3)[1, 2],
        "eigvals": lambda a: np.sin(np.linalg.eigvals(a)).sum(),
    }[name]
    t = _matrix(3, 3, seed=4)
    expected = central_difference(lambda a: [f(a)], [REGULAR], [t])[0]
    assert (functad.grad(f, holomorphic=True)(REGULAR) * t).sum() == pytest.approx(expected, abs=1e-8)


# Vectors as LAPACK returns them


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_vectors_of_eig_have_the_derivative_of_what_is_returned(dtype: Any) -> None:
    """Unit length, and a largest element that is real; its sign hangs on rounding, and is made positive here."""

    def signs(v: Any) -> Any:
        return np.sign(np.take_along_axis(v, np.argmax(abs(v), 0, keepdims=True), 0).real)

    def returned(a: Any) -> Any:
        w, v = np.linalg.eig(a)
        return w, v * signs(v)

    for seed in range(5):
        a, t = _matrix(4, 4, dtype=dtype, seed=seed), _matrix(4, 4, dtype=dtype, seed=9)
        of_w, of_v = central_difference(returned, [a], [t])
        (_, v), (t_w, t_v) = functad.jvp(lambda a: tuple(np.linalg.eig(a)), (a,), (t,))
        assert np.abs(t_w - of_w).max() < 1e-8
        assert np.abs(t_v * signs(v) - of_v).max() < 1e-8


def test_eig_of_a_batch_is_complex_if_one_is() -> None:
    a = np.array([[[0.0, 1.0], [-1.0, 0.5]], [[1.0, 0.3], [0.2, 2.0]]])
    assert functad.vjp(np.linalg.eigvals, a)[0].dtype == np.complex128
    gradient = functad.grad(lambda a: (np.linalg.eigvals(a) ** 2).sum().real)(a)
    assert gradient.dtype == np.float64
    assert np.allclose(gradient, 2 * a.mT)  # of the sum of tr(a^2)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_bases_of_what_is_left(dtype: Any, shape: tuple[int, int]) -> None:
    rows, columns = shape
    goal = _matrix(max(shape), max(shape), seed=3)

    def by_svd(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a)
        left = u[:, columns:] if rows > columns else vh[rows:].conj().T
        return (abs(left @ left.conj().T - goal) ** 2).sum() + np.sin(s).sum()

    def by_qr(a: Any) -> Any:
        q, r = np.linalg.qr(a, "complete")
        left = q[:, min(shape) :]
        return (abs(left @ left.conj().T - goal[:rows, :rows]) ** 2).sum() + (abs(r) ** 2).sum() + abs(q @ r - 1).sum()

    _check_derivatives(by_svd, _matrix(*shape, dtype=dtype), 1e-7)
    _check_derivatives(by_qr, _matrix(*shape, dtype=dtype), 1e-7)


# Least squares


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_least_squares_of_low_rank(dtype: Any, shape: tuple[int, int]) -> None:
    rows, columns = shape
    left, right, b = (_matrix(*s, dtype=dtype, seed=i) for i, s in enumerate([(rows, 2), (2, columns), (rows, 2)]))

    def by(left: Any, b: Any) -> Any:
        x, residuals, rank, s = np.linalg.lstsq(left @ right, b, rcond=1e-10)
        assert rank == 2
        assert residuals.shape == (0,)
        return (abs(x) ** 2).sum() + np.sin(s[:2]).sum()

    _check_derivatives(lambda left: by(left, b), left, 1e-7)
    _check_derivatives(lambda b: by(left, b), b, 1e-7)


def test_residuals_of_least_squares() -> None:
    a, b = _matrix(5, 3), _matrix(5)
    _check_derivatives(lambda a: np.linalg.lstsq(a, b)[1].sum(), a, 1e-7)
    _check_derivatives(lambda b: np.linalg.lstsq(a, b)[1].sum() ** 2, b, 1e-7)


def test_least_squares_without_values() -> None:
    a, b = _matrix(4, 2, dtype=np.float64), np.arange(4.0)
    expressions = functad.make_expressions(lambda a, b: np.linalg.lstsq(a, b)[:2])(a, b)
    for found, expected in zip(expressions(a, b), np.linalg.lstsq(a, b), strict=False):
        assert np.allclose(found, expected)
    with pytest.raises(np.linalg.LinAlgError, match="rank 1, but 2 columns"):
        expressions(np.ones((4, 2)), b)


@pytest.mark.parametrize(
    ("a", "b"), [(np.ones((2, 3, 3)), np.ones(3)), (np.ones((3, 2)), np.ones(2)), (np.ones((3, 2)), np.ones((3, 1, 1)))]
)
def test_what_least_squares_does_not_take(a: Any, b: Any) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        functad.vjp(lambda a: np.linalg.lstsq(a, b)[0], a)


# Condition numbers and ranks


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_condition_of_singular_matrices(p: Any) -> None:
    a = np.array([np.zeros((2, 2)), np.ones((2, 2)), [[2.0, 0.5], [0.3, 1.0]]])
    value, pullback = functad.vjp(lambda a: np.linalg.cond(a, p), a)
    with np.errstate(all="ignore"):  # NumPy itself fails for the nuclear norm of the inverse
        expected = np.array([np.inf, np.inf, np.linalg.cond(a[2], p)]) if p == "nuc" else np.linalg.cond(a, p)
    assert np.array_equal(np.isinf(value), np.isinf(expected))
    assert value[2] == pytest.approx(expected[2])
    alone = functad.grad(lambda a: np.linalg.cond(a, p))(a[2])
    assert np.allclose(pullback(np.array([0.0, 0.0, 1.0]))[0][2], alone)
    assert not pullback(np.array([0.0, 0.0, 1.0]))[0][:2].any()


def test_condition_of_matrices_with_nan() -> None:
    value = functad.vjp(lambda a: np.linalg.cond(a, 1), np.array([[np.nan, 1.0], [1.0, 2.0]]))[0]
    assert np.isnan(value)
    with pytest.raises(np.linalg.LinAlgError, match="empty"):
        functad.vjp(np.linalg.cond, np.zeros((0, 2)))


def test_rank_is_a_constant() -> None:
    a = _matrix(3, 2, dtype=np.float64)
    assert np.array_equal(functad.grad(lambda a: np.linalg.matrix_rank(a) * a.sum())(a), np.full((3, 2), 2.0))


def test_tensors_that_are_not_square() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        functad.vjp(lambda a: np.linalg.tensorsolve(a, np.ones(2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="ind"):
        functad.vjp(lambda a: np.linalg.tensorinv(a, 0), np.ones((2, 2)))


def test_every_function_of_linalg_has_an_entry() -> None:
    every_entry()  # imports all of them
    names = {name for name in dir(np.linalg) if callable(getattr(np.linalg, name)) and not name.startswith("_")}
    missing = {name for name in names - {"LinAlgError", "test"} if getattr(np.linalg, name) not in ENTRIES}
    assert missing == set()
