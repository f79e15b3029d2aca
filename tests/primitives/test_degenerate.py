"""Matrices with equal or vanishing eigenvalues or singular values: derivatives are right, or an error says why not."""

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
RNG = np.random.default_rng
DTYPES = (np.float64, np.complex128)


def _random(*shape: int, dtype: Any, seed: int) -> Any:
    return random_like(np.zeros(shape, dtype), RNG(seed))


def _unitary(rows: int, columns: int, dtype: Any, seed: int) -> Any:
    return np.linalg.qr(_random(rows, columns, dtype=dtype, seed=seed))[0]


def _hermitian(values: list[float], dtype: Any) -> Any:
    q = _unitary(len(values), len(values), dtype, 3)
    a = (q * values) @ q.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


def _with_singular_values(values: list[float], rows: int, columns: int, dtype: Any) -> Any:
    return (_unitary(rows, len(values), dtype, 4) * values) @ _unitary(columns, len(values), dtype, 5).conj().T


HERMITIAN = [
    pytest.param(make, id=name)
    for name, make in {
        "identity": lambda dtype: 2 * np.eye(3, dtype=dtype),
        "diagonal": lambda dtype: np.diag([1.0, 3.0, 1.0]).astype(dtype),
        "one pair": lambda dtype: _hermitian([1.0, 1.0, 3.0, 4.0], dtype),
        "two pairs": lambda dtype: _hermitian([1.0, 1.0, 3.0, 3.0], dtype),
        "batch": lambda dtype: np.stack([_hermitian([1.0, 1.0, 2.0], dtype), _hermitian([1.0, 2.0, 3.0], dtype)]),
    }.items()
]
RECTANGULAR = [
    pytest.param(make, id=name)
    for name, make in {
        "identity": lambda dtype: 2 * np.eye(3, dtype=dtype),
        "square": lambda dtype: _with_singular_values([1.0, 2.0, 2.0], 3, 3, dtype),
        "tall": lambda dtype: _with_singular_values([2.0, 2.0], 4, 2, dtype),
        "wide": lambda dtype: _with_singular_values([1.0, 2.0, 2.0], 3, 4, dtype),
        "batch": lambda dtype: np.stack([_with_singular_values([s, 2.0], 3, 2, dtype) for s in (1.0, 2.0)]),
    }.items()
]


def _squares(a: Any) -> Any:
    """Return the sum of squares, without the kink of the absolute value."""
    return (a * a.conj()).real.sum()


def _first(f: Function, x: Any) -> tuple[Any, float]:
    """Return a direction and the derivative in it, by differences, after both modes were found to agree with it."""
    t = _random(*x.shape, dtype=x.dtype, seed=1)
    expected = float(central_difference(lambda x: [f(x)], [x], [t])[0])
    assert pairing([functad.grad(f)(x)], [t]) == pytest.approx(expected, abs=1e-7)
    assert functad.jvp(f, (x,), (t,))[1] == pytest.approx(expected, abs=1e-7)
    return t, expected


def _bent(f: Function, x: Any, t: Any) -> float:
    """Return the second derivative in a direction: differences of first derivatives, at matrices whose values differ."""
    return float(central_difference(lambda x: [pairing([functad.grad(f)(x)], [t])], [x], [t])[0])


def _reverse_twice(f: Function, x: Any, t: Any) -> float:
    gradient = functad.grad(f)
    return pairing([functad.grad(lambda x: (gradient(x) * t).sum().real)(x)], [t])


def _check(f: Function, x: Any, *, reverse_twice: bool) -> None:
    t, _ = _first(f, x)
    expected = pytest.approx(_bent(f, x, t), rel=1e-8, abs=1e-6)
    assert pairing([functad.jvp(functad.grad(f), (x,), (t,))[1]], [t]) == expected
    assert functad.jvp(lambda y: functad.jvp(f, (y,), (t,))[1], (x,), (t,))[1] == expected
    if reverse_twice:
        assert _reverse_twice(f, x, t) == expected
    else:
        with pytest.raises(
            DegenerateError, match=r"forward over reverse.*test_degenerate|test_degenerate.*forward over reverse"
        ):
            _reverse_twice(f, x, t)


OF_VALUES: dict[str, Function] = {
    "squares": lambda w: (w**2).sum(),
    "logarithms": lambda w: np.log(w).sum(),
    "entropy": lambda w: -(w * np.log(w)).sum(),
    "product": lambda w: np.prod(w, -1).sum(),
    "distance from one": lambda w: ((w - 1) ** 2).sum(),
    "joined": lambda w: np.sin(np.exp(w).sum()) * w.sum(),
}


@pytest.mark.parametrize("make", HERMITIAN)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_VALUES)
def test_symmetric_functions_of_eigenvalues(name: str, dtype: Any, make: Function) -> None:
    _check(lambda a: OF_VALUES[name](np.linalg.eigvalsh(a)), make(dtype), reverse_twice=False)
    _check(lambda a: OF_VALUES[name](np.linalg.eigvalsh(a, "U")), make(dtype), reverse_twice=False)


@pytest.mark.parametrize("make", RECTANGULAR)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_VALUES)
def test_symmetric_functions_of_singular_values(name: str, dtype: Any, make: Function) -> None:
    _check(lambda a: OF_VALUES[name](np.linalg.svdvals(a)), make(dtype), reverse_twice=False)
    _check(lambda a: OF_VALUES[name](np.linalg.svd(a, compute_uv=False)), make(dtype), reverse_twice=False)


@pytest.mark.parametrize("make", RECTANGULAR)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_matrices_lose_nothing(dtype: Any, make: Function) -> None:
    a = make(dtype)
    _check(lambda a: np.linalg.matrix_norm(a, ord="nuc").sum(), a, reverse_twice=True)
    _check(lambda a: (np.linalg.matrix_norm(a, ord="nuc") ** 3).sum(), a, reverse_twice=True)
    _check(lambda a: _squares(np.linalg.pinv(a)), a, reverse_twice=True)
    if a.shape[-1] == a.shape[-2]:
        _check(lambda a: np.linalg.slogdet(a)[1].sum(), a, reverse_twice=True)
        _check(lambda a: np.linalg.cond(a, "nuc").real.sum(), a, reverse_twice=True)
        _check(lambda a: _squares(np.linalg.matrix_power(a, -2)), a, reverse_twice=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 4)])
def test_extreme_singular_values_beside_equal_ones(shape: tuple[int, int], dtype: Any) -> None:
    a = _with_singular_values([1.0, 2.0, 2.0, 3.0], *shape, dtype)
    for f in (lambda a: np.linalg.norm(a, 2), lambda a: np.linalg.norm(a, -2), np.linalg.cond, lambda a: np.linalg.cond(a, -2)):
        _check(f, a, reverse_twice=True)


def test_equal_extremes_share() -> None:
    assert np.allclose(functad.grad(lambda a: np.linalg.norm(a, 2))(3 * np.eye(3)), np.eye(3) / 3)
    assert np.allclose(functad.grad(np.linalg.cond)(3 * np.eye(3)), 0)  # the least condition number
    assert np.allclose(functad.grad(lambda a: np.linalg.norm(a, 2))(np.diag([2.0, 2.0, 1.0])), np.diag([0.5, 0.5, 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_equal_values_in_single_precision(dtype: Any) -> None:
    a = _hermitian([1.0, 1.0, 3.0], dtype)
    t = _random(3, 3, dtype=dtype, seed=6)
    gradient = functad.grad(lambda a: np.exp(np.linalg.eigvalsh(a)).sum())
    double = np.result_type(dtype, np.float64)
    found = functad.jvp(gradient, (a,), (t,))[1]
    expected = functad.jvp(gradient, (a.astype(double),), (t.astype(double),))[1]
    assert found.dtype == dtype
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-3)


# Eigenvalues and vectors together


def _of_matrix(f: Function, a: Any, UPLO: str = "L") -> Any:
    w, v = np.linalg.eigh(a, UPLO)
    return (v * f(w)[..., None, :]) @ v.conj().mT


@pytest.mark.parametrize("make", HERMITIAN)
@pytest.mark.parametrize("dtype", DTYPES)
def test_trace_of_a_matrix_function(dtype: Any, make: Function) -> None:
    f: Function = lambda a: np.trace(_of_matrix(np.exp, a), axis1=-2, axis2=-1).real.sum()  # noqa: E731
    a = make(dtype)
    t, _ = _first(f, a)
    for second in (
        lambda: functad.jvp(functad.grad(f), (a,), (t,)),
        lambda: _reverse_twice(f, a, t),
        lambda: functad.jvp(lambda y: functad.jvp(f, (y,), (t,))[1], (a,), (t,)),
    ):
        with pytest.raises(DegenerateError, match="second derivative"):
            second()


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (2, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_a_matrix_function_are_refused(dtype: Any, place: tuple[int, int]) -> None:
    for a in (2 * np.eye(3, dtype=dtype), _hermitian([1.0, 1.0, 1.0], dtype), _hermitian([0.0, 0.0, 2.0], dtype)):
        if place == (0, 0) and a[0, 1] == 0:
            continue  # there nothing is lost
        with pytest.raises(DegenerateError, match="function of values and vectors together"):
            functad.grad(lambda a: _of_matrix(np.exp, a)[place].real)(a)


def test_vectors_one_by_one_are_refused() -> None:
    weights = np.arange(9.0).reshape(3, 3)
    for vectors in (lambda a: np.linalg.eigh(a)[1], lambda a: np.linalg.eig(a)[1], lambda a: np.linalg.svd(a)[0]):
        with pytest.raises(DegenerateError, match=r"single vector.*test_degenerate.py:\d+"):
            functad.grad(lambda a, vectors=vectors: (vectors(a) * weights).sum().real)(2 * np.eye(3))
    with pytest.raises(np.linalg.LinAlgError):
        functad.grad(lambda a: np.linalg.eigh(a)[1][0, 0])(np.ones((3, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_projections_and_energies(dtype: Any) -> None:
    """What uses all vectors of a block alike has a first derivative, also beside a function of the eigenvalues."""
    goal = _hermitian([0.5, 1.5, 2.0, 4.0], dtype) + np.diag([1.0, 2.0, 3.0, 4.0])

    def energy(a: Any) -> Any:
        w, v = np.linalg.eigh(a)
        occupied = v[:, :2]
        return (abs(occupied @ occupied.conj().T - goal) ** 2).sum() + np.sin(w[:2]).sum()

    a = np.diag([1.0, 1.0, 3.0, 3.0]).astype(dtype)
    _first(energy, a)
    _first(energy, _hermitian([1.0, 1.0, 3.0, 3.0], dtype))
    with pytest.raises(DegenerateError, match="second derivative"):
        functad.jvp(functad.grad(energy), (a,), (_random(4, 4, dtype=dtype, seed=2),))


@pytest.mark.parametrize("make", RECTANGULAR)
@pytest.mark.parametrize("dtype", DTYPES)
def test_orthogonal_polar_factor(dtype: Any, make: Function) -> None:
    a = make(dtype)
    weights = _random(*a.shape, dtype=dtype, seed=9)

    def polar(a: Any) -> Any:
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        return ((u @ vh) * weights).real.sum()

    _, slope = _first(polar, a)
    assert abs(slope) > 1e-3  # it is no agreement of zeros


def test_functions_of_singular_values_and_vectors_are_refused() -> None:
    def rebuilt(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return ((u * np.sin(s)) @ vh)[0, 1]

    for values in ([1.0, 2.0, 2.0], [0.0, 1.0, 2.0]):
        with pytest.raises(DegenerateError, match="function of values and vectors together"):
            functad.grad(rebuilt)(_with_singular_values(values, 3, 3, np.float64))


# Values that are zero


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
def test_even_functions_of_vanishing_singular_values(shape: tuple[int, int], dtype: Any) -> None:
    a = _with_singular_values([0.0, 0.0, 2.0], *shape, dtype)
    f: Function = lambda a: np.log1p(np.linalg.svdvals(a) ** 2).sum()  # noqa: E731
    t, _ = _first(f, a)
    with pytest.raises(DegenerateError, match="second derivative"):
        functad.jvp(functad.grad(f), (a,), (t,))
    gram = (lambda a: a.conj().T @ a) if shape[0] >= shape[1] else (lambda a: a @ a.conj().T)
    _check(lambda a: np.log1p(np.linalg.eigvalsh(gram(a))).sum(), a, reverse_twice=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("values", "rows"), [([0.0, 1.0, 2.0], 4), ([0.0, 0.0, 2.0], 3), ([0.0, 1.0, 2.0], 3)], ids=["beyond", "two", "within"]
)
def test_second_derivatives_of_forward_mode_at_vanishing_singular_values(values: Any, rows: int, dtype: Any) -> None:
    """`s` is no smooth function there, and what its curvature adds to one of `s ** 2` is lost: that is refused."""
    a = _with_singular_values(values, rows, 3, dtype)
    t = _random(rows, 3, dtype=dtype, seed=1)
    slope: Function = lambda a, f: functad.jvp(f, (a,), (t,))[1]  # noqa: E731
    even: Function = lambda a: np.sin(np.linalg.svdvals(a) ** 2).sum()  # noqa: E731
    lossless = rows == 3 and values[1] and np.dtype(dtype).kind == "f"
    expected = central_difference(lambda x: [slope(x, even)], [a], [t])[0]
    for again in (
        lambda f: functad.jvp(lambda a: slope(a, f), (a,), (t,))[1],
        lambda f: np.sum(functad.grad(lambda a: slope(a, f))(a) * t).real,
    ):
        if lossless:
            assert np.allclose(again(even), expected, atol=1e-6)
        else:
            with pytest.raises(DegenerateError, match="second derivative"):
                again(even)
    batch = functad.vmap(lambda b: slope(b, even))(np.stack([a, a]))
    assert np.allclose(batch, slope(a, even))


def test_even_functions_of_one_vanishing_singular_value() -> None:
    a = _with_singular_values([0.0, 1.0, 2.0], 3, 3, np.float64)
    _check(lambda a: np.log1p(np.linalg.svdvals(a) ** 2).sum(), a, reverse_twice=True)


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 2, 3)])
def test_second_derivative_of_matrix_norms_at_zero(p: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    zeros = np.zeros(shape, dtype)
    gradient = functad.grad(lambda a: np.linalg.norm(a, p, axis=(-2, -1)).sum())
    assert np.array_equal(gradient(zeros), zeros)
    assert np.array_equal(functad.jvp(gradient, (zeros,), (zeros + 1,))[1], zeros)
    again = functad.grad(lambda a: gradient(a).real.sum())(zeros)
    assert np.array_equal(again, zeros)


# Other matrices


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_equal_eigenvalues_of_any_matrix(dtype: Any) -> None:
    def element(a: Any) -> Any:
        w, v = np.linalg.eig(a)
        return ((v * np.exp(w)) @ np.linalg.inv(v))[0, 1].real

    v = _random(3, 3, dtype=dtype, seed=8)
    f: Function = lambda a: np.exp(np.linalg.eigvals(a)).sum().real  # noqa: E731
    for a in (v @ np.diag([2.0, 2.0, 5.0]) @ np.linalg.inv(v), 2 * np.eye(3, dtype=dtype)):
        t, _ = _first(f, a)
        with pytest.raises(DegenerateError):
            functad.jvp(functad.grad(f), (a,), (t,))
        with pytest.raises(DegenerateError):
            functad.grad(element)(a)


def test_matrices_without_a_basis_of_eigenvectors() -> None:
    with pytest.raises(DegenerateError, match="linearly dependent"):
        functad.grad(lambda a: np.linalg.eigvals(a).sum().real)(np.array([[1.0, 1.0], [0.0, 1.0]]))


DEPENDENT = np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 0.0], [3.0, 6.0, 5.0], [0.5, 1.0, 1.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_of_dependent_columns(mode: Any, dtype: Any) -> None:
    def f(a: Any) -> Any:
        return (
            sum(np.sum(np.abs(part)) for part in np.linalg.qr(a, mode)) if mode != "r" else np.sum(np.abs(np.linalg.qr(a, "r")))
        )

    for a in (DEPENDENT, DEPENDENT[:3], DEPENDENT[:2], np.zeros((3, 2)), DEPENDENT * np.array([1.0, 1.0, 1e-20])):
        a = a.astype(dtype)
        with pytest.raises(DegenerateError, match=r"linearly dependent.*test_degenerate\.py"):
            functad.grad(f)(a)
        with pytest.raises(DegenerateError, match="linearly dependent"):
            functad.jvp(f, (a,), (np.ones_like(a),))
        with pytest.raises(DegenerateError, match="linearly dependent"):
            functad.jit(functad.grad(f))(a)
    unlike = np.random.default_rng(1).standard_normal((4, 3)).astype(dtype) * np.array([1.0, 1e-10, 1e10]).astype(dtype)
    assert np.isfinite(functad.grad(f)(unlike)).all()


# Single values

SINGLE = {
    "eigvalsh": lambda a: np.linalg.eigvalsh(a)[..., -1].sum(),
    "lower triangle": lambda a: np.linalg.eigvalsh(a, "U")[..., 0].sum(),
    "eigh": lambda a: np.linalg.eigh(a).eigenvalues[..., -1].sum(),
    "eigvals": lambda a: np.linalg.eigvals(a)[..., 0].real.sum(),
    "weighted": lambda a: (np.linalg.eigvalsh(a) * np.arange(1.0, 3.0)).sum(),
    "svdvals": lambda a: np.linalg.svdvals(a)[..., 0].sum(),
    "svd": lambda a: np.linalg.svd(a).S[..., -1].sum(),
    "hermitian": lambda a: np.linalg.svd(a, compute_uv=False, hermitian=True)[..., 0].sum(),
    "difference": lambda a: (np.linalg.svdvals(a)[..., 0] - np.linalg.svdvals(a)[..., -1]).sum(),
}


@pytest.mark.parametrize("a", [np.eye(2), np.zeros((2, 2)), np.stack([np.diag([1.0, 2.0]), 3 * np.eye(2)])])
@pytest.mark.parametrize("f", SINGLE.values(), ids=SINGLE)
def test_single_ones_of_equal_values_are_refused_in_both_modes(f: Function, a: Any) -> None:
    for derivative in (functad.grad, functad.jacrev, functad.jacfwd, functad.jacobian, functad.hessian):
        with pytest.raises(DegenerateError, match="single one"):
            derivative(f)(a)
    with pytest.raises(DegenerateError, match="single one"):
        functad.jvp(f, (a,), (np.broadcast_to([[1.0, 2.0], [2.0, 0.0]], a.shape),))
    listed = functad.make_expressions(functad.grad(f))(a) if f is not SINGLE["eigvals"] else None
    if listed is not None:
        with pytest.raises(DegenerateError, match="single one"):
            listed(a)


def test_eigenvalues_of_opposite_sign_are_equal_singular_values() -> None:
    a = np.diag([1.0, -1.0])
    with pytest.raises(DegenerateError, match="single one"):
        functad.grad(SINGLE["hermitian"])(a)
    assert functad.grad(SINGLE["eigvalsh"])(a).tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("f", [lambda a: np.linalg.eigvalsh(a)[-1], lambda a: np.linalg.svdvals(a)[0]])
def test_equal_values_that_stay_equal_have_a_tangent(f: Function) -> None:
    """In the direction of the identity they move together; and the others have derivatives."""
    assert functad.jvp(f, (2 * np.eye(3),), (np.eye(3),))[1] == pytest.approx(1.0)
    alone = functad.grad(f)(np.diag([1.0, 1.0, 2.0]))
    assert np.allclose(alone, np.diag([0.0, 0.0, 1.0]))
    assert np.allclose(functad.jacfwd(f)(np.diag([1.0, 1.0, 2.0])), alone)


def test_norms_treat_equal_values_alike() -> None:
    for order, expected in ((2, 0.5), (-2, 0.5), ("nuc", 1.0)):
        f: Function = lambda a, order=order: np.linalg.norm(a, order)  # noqa: E731
        assert np.allclose(functad.grad(f)(np.eye(2)), expected * np.eye(2))
        assert np.allclose(functad.jacfwd(f)(np.eye(2)), expected * np.eye(2))
