"""`functad.scipy.linalg`."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg

import functad
from functad.errors import UnsupportedError
from functad.scipy import linalg
from functad.testing import calls as sample_calls
from functad.testing import check_grads, check_primitive, every_entry

REFUSED = importlib.import_module("functad.scipy.linalg").REFUSED
A = np.array([[4.0, 1.0], [1.0, 3.0]])

rng = np.random.default_rng(0)
G = rng.standard_normal((3, 3)) + 4 * np.eye(3)
S, P = G + G.T, G @ G.T
B, b = rng.standard_normal((3, 2)), rng.standard_normal(3)
C = G + 1j * rng.standard_normal((3, 3))
BANDS = rng.standard_normal((3, 4)) + np.array([[0.0], [6.0], [0.0]])
HALF = np.array([[6.0, 7.0, 8.0, 9.0], [1.0, -1.0, 0.5, 0.0]])
COLUMN = np.array([4.0, 1.0, 0.5])
V = rng.standard_normal(4)

CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "cho_factor": (lambda a: linalg.cho_factor(a)[0], [P]),
    "cho_factor lower": (lambda a: linalg.cho_factor(a, lower=True)[0], [P]),
    "cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), [P, b]),
    "cho_solve lower": (lambda a, b: linalg.cho_solve((a, True), b), [P, B]),
    "cholesky_banded": (lambda a: linalg.cholesky_banded(a, lower=True), [HALF]),
    "cholesky_banded upper": (linalg.cholesky_banded, [HALF[::-1]]),
    "cho_solve_banded": (lambda a, b: linalg.cho_solve_banded((linalg.cholesky_banded(a), False), b), [HALF[::-1], V]),
    **{
        f"solve {kind}": (lambda a, b, kind=kind: linalg.solve(a, b, assume_a=kind), [P, b])
        for kind in ("gen", "sym", "her", "pos", "diagonal", "tridiagonal", "banded", "upper triangular", None)
    },
    **{
        f"solve lower {kind}": (lambda a, b, kind=kind: linalg.solve(a, b, assume_a=kind, lower=True), [P, B])
        for kind in ("sym", "her", "pos")
    },
    "solve lower triangular": (lambda a, b: linalg.solve(a, b, assume_a="lower triangular"), [G, B]),
    "solve transposed": (
        lambda a, b: linalg.solve(a, b, transposed=True) if a.dtype == float else np.linalg.solve(a.T, b),
        [G, B],
    ),
    "solve stack": (lambda a, b: linalg.solve(a, b), [np.stack((G, P)), B]),
    "solve hermitian": (lambda a, b: linalg.solve(a @ a.conj().T, b, assume_a="her"), [C, B]),
    "inv": (linalg.inv, [G]),
    "inv pos": (lambda a: linalg.inv(a, assume_a="pos", lower=True), [P]),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b), [G, b]),
    "solve_triangular unit": (lambda a, b: linalg.solve_triangular(a, b, 1, lower=True, unit_diagonal=True), [G, B]),
    "solve_triangular adjoint": (lambda a, b: linalg.solve_triangular(a, b, "C"), [C, b]),
    "lu": (lambda a: linalg.lu(a)[1:], [G[[2, 0, 1]]]),
    "lu tall": (lambda a: linalg.lu(a, permute_l=True), [G[[2, 0, 1], :2]]),
    "lu wide": (lambda a: linalg.lu(a, p_indices=True)[1:], [G[:2]]),
    "lu complex": (lambda a: linalg.lu(a)[1:], [C]),
    "lu stack": (lambda a: linalg.lu(a)[1:], [np.stack((G, G[::-1]))]),
    "lu_factor": (lambda a: linalg.lu_factor(a)[0], [G[[2, 0, 1]]]),
    **{
        f"lu_solve {trans}": (lambda a, b, trans=trans: linalg.lu_solve(linalg.lu_factor(a), b, trans), [C[[1, 2, 0]], B])
        for trans in (0, 1, 2)
    },
    "qr": (linalg.qr, [G]),
    "qr r": (lambda a: linalg.qr(a, mode="r"), [G[:, :2]]),
    "qr economic": (lambda a: linalg.qr(a, mode="economic"), [G[:, :2]]),
    "qr pivoting": (lambda a: linalg.qr(a, pivoting=True)[:2], [G[:, [2, 0, 1]]]),
    "rq": (linalg.rq, [G]),
    "rq economic": (lambda a: linalg.rq(a, mode="economic"), [G[:2]]),
    "rq tall": (lambda a: linalg.rq(a), [G[:, :2]]),
    "qr_multiply": (lambda a, c: linalg.qr_multiply(a, c), [G, B.T]),
    "qr_multiply left": (lambda a, c: linalg.qr_multiply(a, c, mode="left"), [G[:, :2], V[:2]]),
    "svd": (lambda a: linalg.svd(a), [G]),
    "svd economic": (lambda a: linalg.svd(a, full_matrices=False), [G[:, :2]]),
    "svdvals": (linalg.svdvals, [B]),
    "eigh": (lambda a: linalg.eigh(a), [S]),
    "eigh upper": (lambda a: linalg.eigh(a, lower=False), [G]),
    **{f"eigh {kind}": (lambda a, b, kind=kind: linalg.eigh(a, b, type=kind), [S, P]) for kind in (1, 2, 3)},
    "eigh upper b": (lambda a, b: linalg.eigh(a, b, lower=False), [S, P]),
    "eigh index": (lambda a: linalg.eigh(a, subset_by_index=[1, 2]), [S]),
    "eigh value": (lambda a: linalg.eigh(a, subset_by_value=[7.0, np.inf]), [S]),
    "eigvalsh": (lambda a, b: linalg.eigvalsh(a, b, subset_by_index=(0, 1)), [S, P]),
    "eig": (lambda a: linalg.eig(a), [S]),
    "eigvals": (linalg.eigvals, [G]),
    "eig_banded": (lambda a: linalg.eig_banded(a, lower=True), [HALF]),
    "eigvals_banded": (lambda a: linalg.eigvals_banded(a, lower=True, select="i", select_range=(0, 1)), [HALF]),
    "eigh_tridiagonal": (linalg.eigh_tridiagonal, [COLUMN, V[:2]]),
    "eigvalsh_tridiagonal": (linalg.eigvalsh_tridiagonal, [COLUMN, V[:2]]),
    "polar": (linalg.polar, [G]),
    "expm": (linalg.expm, [G / 3]),
    "expm complex": (linalg.expm, [C / 3]),
    "expm stack": (linalg.expm, [np.stack((G, -P)) / 5]),
    "expm_frechet": (lambda a, e: linalg.expm_frechet(a, e), [G / 3, S]),
    "expm_cond": (lambda a: linalg.expm_cond(a), [G / 3]),
    "logm": (linalg.logm, [P]),
    "logm complex": (linalg.logm, [C]),
    "sqrtm": (linalg.sqrtm, [P]),
    "sqrtm complex": (linalg.sqrtm, [C]),
    "signm": (linalg.signm, [G - 4 * np.eye(3)]),
    "funm": (lambda a: linalg.funm(a, np.sin), [G]),
    "fractional_matrix_power": (linalg.fractional_matrix_power, [P, 0.3]),
    **{name: (getattr(linalg, name), [G / 5]) for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")},
    "solve_sylvester": (linalg.solve_sylvester, [G, P[:2, :2], B]),
    "solve_sylvester complex": (linalg.solve_sylvester, [C, P[:2, :2], B]),
    "solve_continuous_lyapunov": (linalg.solve_continuous_lyapunov, [G, S]),
    "solve_discrete_lyapunov": (linalg.solve_discrete_lyapunov, [G / 7, S]),
    "solve_discrete_lyapunov bilinear": (lambda a, q: linalg.solve_discrete_lyapunov(a, q, "bilinear"), [G / 7, S]),
    **{
        f"solve_{kind}_are": (lambda a, b, c, f=f: f(a, b, c @ c.conj().T, P[:2, :2]), [S / 9, B, G])
        for kind, f in (("continuous", linalg.solve_continuous_are), ("discrete", linalg.solve_discrete_are))
    },
    **{
        f"solve_{kind}_are general": (
            lambda a, b, r, e, s, f=f: f(a, b, P, r @ r.T, e, s),
            [S / 9, B, G[:2, :2], G, B[::-1] / 10],
        )
        for kind, f in (("continuous", linalg.solve_continuous_are), ("discrete", linalg.solve_discrete_are))
    },
    "solve_continuous_are complex": (lambda a, b: linalg.solve_continuous_are(a, b, P, S[:2, :2]), [C, B + 0.3j]),
    "solve_discrete_are complex": (lambda a, b: linalg.solve_discrete_are(a, b, P, S[:2, :2]), [C, B + 0.3j]),
    "solve_banded": (lambda a, b: linalg.solve_banded((1, 1), a, b), [BANDS, V]),
    "solve_banded complex": (lambda a, b: linalg.solve_banded((2, 0), a, b), [BANDS[[1, 0, 2]] * (1 + 0.5j), V[:, None]]),
    "solveh_banded": (lambda a, b: linalg.solveh_banded(a, b, lower=True), [HALF, V]),
    "solveh_banded upper": (lambda a, b: linalg.solveh_banded(a, b), [HALF[::-1], np.stack((V, V**2), 1)]),
    "solve_toeplitz": (lambda c, b: linalg.solve_toeplitz(c, b), [COLUMN, b]),
    "solve_toeplitz both": (lambda c, r, b: linalg.solve_toeplitz((c, r), b), [COLUMN, b, B]),
    "solve_circulant": (linalg.solve_circulant, [COLUMN, b]),
    "matmul_toeplitz": (lambda c, r, b: linalg.matmul_toeplitz((c, r), b), [COLUMN, b, B]),
    "toeplitz": (linalg.toeplitz, [COLUMN]),
    "toeplitz both": (linalg.toeplitz, [COLUMN, V]),
    "hankel": (linalg.hankel, [COLUMN]),
    "hankel both": (linalg.hankel, [COLUMN, V]),
    "circulant": (linalg.circulant, [V]),
    "companion": (linalg.companion, [COLUMN]),
    **{
        f"convolution_matrix {mode}": (lambda a, mode=mode: linalg.convolution_matrix(a, 5, mode), [COLUMN])
        for mode in ("full", "same", "valid")
    },
    "fiedler": (linalg.fiedler, [COLUMN]),
    "leslie": (linalg.leslie, [COLUMN, V[:2]]),
    "block_diag": (lambda a, b: linalg.block_diag(a, b), [A, B]),
    "khatri_rao": (linalg.khatri_rao, [A, B[:, :2]]),
    **{
        f"norm {order}": (lambda a, order=order: linalg.norm(a, order), [B]) for order in (None, 1, 2, -2, np.inf, "nuc", "fro")
    },
    "norm axis": (lambda a: linalg.norm(a, 3, axis=1, keepdims=True), [B]),
    "norm keepdims": (lambda a: linalg.norm(a, keepdims=True), [B]),
    "pinv": (linalg.pinv, [B]),
    "pinvh": (linalg.pinvh, [S]),
    "det": (linalg.det, [G]),
    "det stack": (linalg.det, [np.stack((G, P))]),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[:2], [B, b]),
    "orth": (lambda a: linalg.orth(a), [B]),
    "null_space": (linalg.null_space, [B.T]),
    "orthogonal_procrustes": (linalg.orthogonal_procrustes, [G, S]),
    "subspace_angles": (linalg.subspace_angles, [G[:, :1], B]),
    "clarkson_woodruff_transform": (lambda a: linalg.clarkson_woodruff_transform(a, 2, 0), [B]),
}


def test_cholesky() -> None:
    for lower in (False, True):

        def f(s: Any, lower: bool = lower) -> Any:
            return linalg.cholesky(A * s + np.eye(2), lower=lower)

        check_grads(f, [1.3])
        np.testing.assert_array_equal(linalg.cholesky(A, lower=lower), scipy.linalg.cholesky(A, lower=lower))


@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_differences(case: str) -> None:
    f, args = CASES[case]
    check_grads(f, args, order=1)


@pytest.mark.parametrize(
    "case", ["lu", "solve_discrete_are", "expm", "sqrtm", "logm", "signm", "solve_banded", "eigh 1", "fractional_matrix_power"]
)
def test_second_derivatives_are_those_of_differences(case: str) -> None:
    f, args = CASES[case]
    check_grads(f, args)


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_scipy(case: str) -> None:
    f, args = CASES[case]
    found, plain = functad.jvp(lambda *a: _leaves(f(*a)), tuple(args), tuple(args))[0], _leaves(f(*args))
    assert len(found) == len(plain)
    for x, y in zip(found, plain, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)
        assert np.shape(x) == np.shape(y)


def _leaves(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple) else [out]


def test_plain_arguments_give_what_scipy_gives_also_inside_of_a_trace() -> None:
    def f(x: float) -> Any:
        for name in ("expm", "sqrtm", "logm", "svd", "eigh", "lu", "qr"):
            ours, theirs = _leaves(getattr(linalg, name)(P)), _leaves(expected[name])
            for a, b in zip(ours, theirs, strict=True):
                assert type(a) is np.ndarray
                np.testing.assert_array_equal(a, b)
        return x * np.sum(linalg.expm(P / 9))

    expected = {name: getattr(scipy.linalg, name)(P) for name in ("expm", "sqrtm", "logm", "svd", "eigh", "lu", "qr")}
    assert functad.grad(f)(2.0) == np.sum(scipy.linalg.expm(P / 9))


def test_functions_of_matrices_are_batched() -> None:
    stack = np.stack((P, P / 3))
    for f in (linalg.expm, linalg.sqrtm, linalg.det, lambda a: linalg.lu(a)[2], lambda a: linalg.solve_sylvester(a, a, S)):
        np.testing.assert_allclose(functad.vmap(f)(stack), [f(a) for a in stack], atol=1e-10)


def test_riccatis_equation_in_a_batch() -> None:
    def f(a: Any) -> Any:
        return linalg.solve_continuous_are(a, B, P, S[:2, :2])

    stack = np.stack((S / 9, P / 5))
    np.testing.assert_array_equal(functad.vmap(f)(stack), [f(a) for a in stack])
    slope = functad.grad(lambda a: np.sum(f(a) ** 2))
    np.testing.assert_allclose(functad.vmap(slope)(stack), [slope(a) for a in stack])


def test_riccati_equations() -> None:
    for solve, real in (
        (linalg.solve_continuous_are, True),
        (linalg.solve_discrete_are, True),
        (linalg.solve_discrete_are, False),
    ):
        a = G if real else C

        def f(t: Any, solve: Any = solve, a: Any = a) -> Any:
            return solve(a * t, B + t, P * t, np.eye(2) / t)

        check_grads(f, [1.1])
        plain = getattr(scipy.linalg, solve.__name__)(a * 1.1, B + 1.1, P * 1.1, np.eye(2) / 1.1)
        np.testing.assert_array_equal(functad.vjp(f, 1.1)[0], plain)
    skew = np.eye(3) + 0.01 * S
    with pytest.raises(functad.errors.ImplicitError):  # SciPy's solution is of another equation
        functad.jvp(lambda q: linalg.solve_discrete_are(G, B, q, 2 * np.eye(2), skew), (2 * P,), (P,))


def test_questions_about_a_matrix_are_answered() -> None:
    answers: list[Any] = []
    functad.jvp(
        lambda a: (answers.extend((linalg.issymmetric(a), linalg.ishermitian(a), linalg.bandwidth(a))), a)[1], (S,), (S,)
    )
    assert answers == [True, True, (2, 2)]


def test_what_is_refused_names_a_way() -> None:
    calls = {"qz": (S, S), "ordqz": (S, S), "rsf2csf": (S, S), "cossin": (S, 1, 1), "qr_update": (S, S, b, b)}
    calls |= {"qr_delete": (S, S, 1), "qr_insert": (S, S, b, 1)}
    for name in filter(str.isidentifier, REFUSED):
        args = calls.get(name, (S,))
        with pytest.raises(UnsupportedError, match=name):
            functad.jvp(lambda a, name=name, args=args: getattr(linalg, name)(a, *args[1:]), (S,), (S,))
    for f in (
        lambda a: linalg.qr(a, mode="raw"),
        lambda a: linalg.eig(a, S),
        lambda a: linalg.eig(a, left=True),
        lambda a: linalg.eig(a, homogeneous_eigvals=True),
    ):
        with pytest.raises(UnsupportedError):
            functad.jvp(f, (S,), (S,))


def test_wrong_arguments_raise_as_in_scipy() -> None:
    wrong: list[tuple[type[Exception], Callable[[Any], Any]]] = [
        (ValueError, lambda a: linalg.solve(a[:2], b)),
        (ValueError, lambda a: linalg.solve(a * np.nan, b)),
        (ValueError, lambda a: linalg.solve(a, b, assume_a="round")),
        (ValueError, lambda a: linalg.inv(a, assume_a="symmetric")),
        (ValueError, lambda a: linalg.inv(a, assume_a="banded")),
        (ValueError, lambda a: linalg.inv(a, assume_a="tridiagonal")),
        (NotImplementedError, lambda a: linalg.solve(a * 1j, b, transposed=True)),
        (np.linalg.LinAlgError, lambda a: linalg.solve(-a @ a.T, b, assume_a="pos")),
        (ValueError, lambda a: linalg.qr(a, mode="some")),
        (ValueError, lambda a: linalg.rq(a, mode="some")),
        (ValueError, lambda a: linalg.qr_multiply(a, a, mode="some")),
        (ValueError, lambda a: linalg.svd(a, lapack_driver="some")),
        (ValueError, lambda a: linalg.lstsq(a, b, lapack_driver="some")),
        (ValueError, lambda a: linalg.eigh(a, a[:2, :2])),
        (ValueError, lambda a: linalg.eigh(a, P, type=4)),
        (ValueError, lambda a: linalg.eigh(a, subset_by_index=(1, 5))),
        (ValueError, lambda a: linalg.eigh(a, subset_by_index=(0, 1), subset_by_value=(0, 1))),
        (ValueError, lambda a: linalg.eigh(a, subset_by_value=(1, 0))),
        (ValueError, lambda a: linalg.expm_frechet(a, a, method="some")),
        (ValueError, lambda a: linalg.expm_frechet(a, a[:2, :2])),
        (ValueError, lambda a: linalg.solve_banded((1, 2), a, b)),
        (ValueError, lambda a: linalg.solve_banded((1, 1), a, V)),
        (ValueError, lambda a: linalg.solve_continuous_lyapunov(a, P[:2, :2])),
        (ValueError, lambda a: linalg.solve_toeplitz(a[0], V)),
        (ValueError, lambda a: linalg.matmul_toeplitz(a[0], V)),
        (ValueError, lambda a: linalg.convolution_matrix(a[0], 0)),
        (ValueError, lambda a: linalg.convolution_matrix(a[0], 3, "some")),
    ]
    for error, f in wrong:
        with pytest.raises(error):
            functad.jvp(f, (G,), (G,))


def test_files_of_the_package_do_not_hide_the_parts_of_scipy() -> None:
    import functad.scipy.linalg
    import functad.scipy.linalg as part

    assert part is functad.scipy.linalg is linalg
    assert linalg.block_diag(1.0, 2.0).shape == (2, 2)


OWN = [
    entry
    for entry in every_entry()
    if getattr(getattr(entry, "compute", None), "__module__", "").startswith("functad.scipy.matrices")
]


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_primitives_pass_the_checks_of_all(entry: Any) -> None:
    check_primitive(entry)


def test_the_sign_of_a_matrix_changes_in_its_samples() -> None:
    [entry] = [entry for entry in OWN if entry.name == "signm"]
    for call in sample_calls(entry, np.float64):
        assert np.abs(functad.jacobian(linalg.signm)(call.leaves[call.positions[0]])).max() > 0.01


def test_logarithms_of_float32_do_not_warn_and_are_float32() -> None:
    a = np.array([[2.0, 0.3], [0.1, 1.5]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient = functad.grad(lambda a: np.sum(linalg.logm(a)))(a)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, functad.grad(lambda a: np.sum(linalg.logm(a)))(a.astype(float)), rtol=1e-5)


@pytest.mark.parametrize("t", [0.0, 1e-12, 1e-8, 1e-4, 0.3])
def test_funm_near_defective_matrices(t: float) -> None:
    def f(t: Any) -> Any:
        return np.sum(linalg.funm(np.array([[1.0, 1.0], [0.0, 1.0]]) + t * np.array([[0.0, 0.0], [1.0, 0.0]]), np.exp)).real

    with mpmath.workdps(60):

        def exact(t: Any) -> Any:
            return sum(mpmath.expm(mpmath.matrix([[1, 1], [t, 1]])))

        first, second = (float(mpmath.diff(exact, mpmath.mpf(t), n, h=mpmath.mpf(10) ** -15)) for n in (1, 2))
    gradient = functad.grad(f)
    assert gradient(t) == pytest.approx(first, rel=1e-10)
    assert functad.jvp(f, (t,), (1.0,))[1] == pytest.approx(first, rel=1e-10)
    assert functad.jit(gradient)(t) == pytest.approx(first, rel=1e-10)
    assert functad.vmap(gradient)(np.array([0.5, t]))[1] == pytest.approx(first, rel=1e-10)
    assert functad.grad(gradient)(t) == pytest.approx(second, rel=1e-9)


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize(("name", "func"), [("expm", np.exp), ("logm", np.log), ("sqrtm", np.sqrt)])
def test_funm_of_defective_matrices_agrees_with_the_other_functions(name: str, func: Any, n: int) -> None:
    draw = np.random.default_rng(n)
    x, w = draw.standard_normal((2, n, n))
    a = x @ (1.5 * np.eye(n) + np.eye(n, k=1)) @ np.linalg.inv(x)
    known = getattr(linalg, name)
    found = functad.value_and_grad(lambda a: np.sum(linalg.funm(a, func) * w).real)(a)
    expected = functad.value_and_grad(lambda a: np.sum(known(a) * w).real)(a)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-8)


def test_funm_differentiates_what_func_reads() -> None:
    def f(a: Any, k: Any) -> Any:
        return linalg.funm(a, lambda z: np.sin(k * z) + k**2)

    check_grads(f, [G, 0.7], order=2)
    jordan = np.array([[1.0, 1.0], [0.0, 1.0]])
    found = functad.grad(lambda k: np.sum(linalg.funm(jordan * k, lambda z: np.exp(k * z))).real)
    expected = functad.grad(lambda k: np.sum(linalg.expm(jordan * k * k)))
    assert found(0.7) == pytest.approx(expected(0.7), rel=1e-12)
    assert functad.grad(found)(0.7) == pytest.approx(functad.grad(expected)(0.7), rel=1e-12)


def test_funm_refuses_equal_eigenvalues_beside_a_singularity() -> None:
    a = np.array([[1.0, 0.0, 0.0], [0.0, 1e-8, 1.0], [0.0, 0.0, 2e-8]])
    with pytest.raises(np.linalg.LinAlgError, match="singularity"):
        functad.grad(lambda a: np.sum(linalg.funm(a, np.sqrt)).real)(a)


@pytest.mark.parametrize(
    ("select", "bounds"), [("i", (1, 2)), ("index", (0, 3)), ("I", (3, 3)), ("v", (-0.5, 1.5)), (1, (90, 99))]
)
def test_selected_eigenvectors_have_the_signs_of_scipy(select: Any, bounds: Any) -> None:
    draw = np.random.default_rng(3)
    options = {"select": select, "select_range": bounds}
    for _ in range(8):
        bands, d, e = draw.standard_normal((3, 5)), draw.standard_normal(5), draw.standard_normal(4)
        hermitian = bands + 1j * np.r_[[np.zeros(5)], draw.standard_normal((2, 5))]
        for name, args in (("eig_banded", [bands]), ("eig_banded", [hermitian]), ("eigh_tridiagonal", [d, e])):
            given = options if name == "eigh_tridiagonal" else {"lower": True, **options}
            expected = getattr(scipy.linalg, name)(*args, **given)
            found = functad.jvp(lambda *a, n=name, g=given: getattr(linalg, n)(*a, **g), tuple(args), tuple(args))[0]
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("driver", ["stemr", "stebz", "stev", "stevd"])
def test_tridiagonal_eigenvectors_have_the_signs_of_the_driver(driver: str) -> None:
    draw = np.random.default_rng(4)
    for _ in range(8):
        d, e = draw.standard_normal(5), draw.standard_normal(4)
        expected = scipy.linalg.eigh_tridiagonal(d, e, lapack_driver=driver)[1]
        found, _ = functad.vjp(lambda d, e: linalg.eigh_tridiagonal(d, e, lapack_driver=driver)[1], d, e)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("select", "bounds"), [("some", (0, 1)), ("i", (1, 0)), ("v", (0, 1, 2)), ("i", (0, 9))])
def test_wrong_selections_of_eigenvalues_raise_as_in_scipy(select: str, bounds: Any) -> None:
    for call in (linalg.eig_banded, linalg.eigvals_banded):
        for run in (lambda a, call=call: call(a, lower=True, select=select, select_range=bounds), None):
            with pytest.raises(ValueError, match=r"select|valid"):
                functad.jvp(run, (HALF,), (HALF,)) if run else call(HALF, lower=True, select=select, select_range=bounds)
