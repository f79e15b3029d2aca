"""`functad.scipy.sparse`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import functad
from functad.errors import UnsupportedError
from functad.scipy import sparse
from functad.testing import check_grads, check_primitive, every_entry

REFUSED = importlib.import_module("functad.scipy.sparse").REFUSED
DENSE = np.array([[5.0, 1.0, 0.0, 0.0], [1.0, 6.0, -1.0, 0.0], [0.0, -1.0, 7.0, 2.0], [0.0, 0.0, 2.0, 8.0]])
A = scipy.sparse.csr_array(DENSE)
SKEW = scipy.sparse.csr_array(DENSE + np.diag([0.5, 0.5, 0.5], 1))
b = np.array([1.0, -2.0, 0.5, 3.0])
linalg = sparse.linalg
TIGHT = {"rtol": 1e-13}

CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    **{name: (lambda v, name=name: getattr(linalg, name)(A, v, **TIGHT)[0], b) for name in ("cg", "minres")},
    **{
        name: (lambda v, name=name: getattr(linalg, name)(SKEW, v, **TIGHT)[0], b)
        for name in ("cgs", "bicg", "bicgstab", "gmres", "lgmres", "qmr", "gcrotmk", "tfqmr")
    },
    "column": (lambda v: linalg.gmres(SKEW, v, **TIGHT)[0], b[:, None]),
    "dense": (lambda v: linalg.gmres(SKEW.toarray(), v, **TIGHT)[0], b),
    "operator": (lambda v: linalg.gmres(linalg.aslinearoperator(SKEW), v, **TIGHT)[0], b),
    "guess": (lambda v: linalg.bicgstab(SKEW, v, np.ones(4), M=scipy.sparse.diags_array(1 / DENSE.diagonal()), **TIGHT)[0], b),
    "spsolve": (lambda v: linalg.spsolve(SKEW, v), b),
    "spsolve column": (lambda v: linalg.spsolve(SKEW, v), b[:, None]),
    "spsolve columns": (lambda v: linalg.spsolve(SKEW, v), np.stack((b, b**2), 1)),
    "spsolve complex": (lambda v: linalg.spsolve(SKEW * (1 + 0.5j), v), b * (1 + 2j)),
    "spsolve_triangular": (lambda v: linalg.spsolve_triangular(scipy.sparse.csr_array(np.tril(DENSE)), v), b),
    "spsolve_triangular upper": (
        lambda v: linalg.spsolve_triangular(scipy.sparse.csr_array(np.triu(SKEW.toarray())), v, lower=False),
        np.stack((b, b**2), 1),
    ),
    **{
        f"{name} {damp}": (
            lambda v, name=name, damp=damp: tuple(
                x
                for i, x in enumerate(getattr(linalg, name)(SKEW[:, :2], v, damp, atol=1e-14, btol=1e-14))
                if i in ((0, 3, 4, 8) if name == "lsqr" else (0, 3, 7))
            ),
            b,
        )
        for name in ("lsqr", "lsmr")
        for damp in (0.0, 0.7)
    },
    "lsqr guess": (lambda v: linalg.lsqr(SKEW[:, :2], v, 0.5, atol=1e-14, btol=1e-14, x0=np.ones(2))[0], b),
    "lsmr wide": (lambda v: linalg.lsmr(SKEW[:2], v, atol=1e-14, btol=1e-14)[0], b[:2]),
}


COMPLEX = scipy.sparse.csc_array(SKEW * (1 + 0.5j))
CASES |= {
    "factorized": (lambda v: linalg.factorized(SKEW.tocsc())(v), b),
    "factorized columns": (lambda v: linalg.factorized(SKEW.tocsc())(v), np.stack((b, b**2), 1)),
    **{f"splu {trans}": (lambda v, trans=trans: linalg.splu(COMPLEX).solve(v, trans), b * (1 + 2j)) for trans in "NTH"},
}


@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_differences(case: str) -> None:
    f, v = CASES[case]
    check_grads(f, [v])


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_scipy(case: str) -> None:
    f, v = CASES[case]
    found, plain = functad.jvp(f, (v,), (v,))[0], f(v)
    for x, y in zip(found, plain, strict=True) if isinstance(plain, tuple) else [(found, plain)]:
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-10)


def test_factors_are_those_of_scipy() -> None:
    factors = linalg.splu(SKEW.tocsc())
    plain = scipy.sparse.linalg.splu(SKEW.tocsc())
    assert isinstance(factors, scipy.sparse.linalg.SuperLU)
    assert factors.nnz == plain.nnz
    np.testing.assert_array_equal(factors.perm_c, plain.perm_c)
    np.testing.assert_array_equal(factors.solve(b), plain.solve(b))
    np.testing.assert_array_equal(linalg.factorized(SKEW.tocsc())(b), plain.solve(b))
    with pytest.raises(UnsupportedError, match="custom_linear_solve"):
        functad.jvp(lambda a: linalg.splu(a).solve(b), (DENSE,), (DENSE,))


def test_operators_may_hold_tensors() -> None:
    check_grads(lambda a, v: linalg.aslinearoperator(a) @ v, [DENSE, b])


def test_what_the_solver_says_is_returned() -> None:
    said: list[Any] = []

    def f(v: Any) -> Any:
        x, info = linalg.cg(A, v, maxiter=1, rtol=1e-12)
        said.append(info)
        said.append(linalg.lsqr(A, v)[1:3])
        return x

    functad.jvp(f, (b,), (b,))
    plain = scipy.sparse.linalg.lsqr(A, b)
    assert said == [scipy.sparse.linalg.cg(A, b, maxiter=1, rtol=1e-12)[1], (plain[1], plain[2])]


def test_plain_arguments_give_what_scipy_gives() -> None:
    np.testing.assert_array_equal(linalg.spsolve(A, b), scipy.sparse.linalg.spsolve(A, b))
    np.testing.assert_array_equal(linalg.cg(A, b)[0], scipy.sparse.linalg.cg(A, b)[0])


def test_solutions_are_batched() -> None:
    many = np.stack((b, 2 * b, b**2))
    np.testing.assert_allclose(functad.vmap(lambda v: linalg.spsolve(SKEW, v))(many), np.linalg.solve(SKEW.toarray(), many.T).T)
    np.testing.assert_allclose(functad.jacobian(lambda v: linalg.spsolve(SKEW, v))(b), np.linalg.inv(SKEW.toarray()))


def test_what_is_refused_names_a_way() -> None:
    assert set(REFUSED) == {"eigs", "eigsh", "svds", "lobpcg"}
    for name in REFUSED:
        with pytest.raises(UnsupportedError, match=name):
            functad.jvp(lambda v, name=name: getattr(linalg, name)(v), (DENSE,), (DENSE,))
    with pytest.raises(UnsupportedError, match="custom_linear_solve"):
        functad.jvp(lambda a: linalg.cg(a, b), (DENSE,), (DENSE,))
    with pytest.raises(ValueError, match="one column"):
        functad.jvp(lambda v: linalg.cg(A, v)[0], (DENSE,), (DENSE,))


def test_the_primitive_passes_the_checks_of_all() -> None:
    check_primitive(next(entry for entry in every_entry() if entry.name == "sparse_solve"))


def test_sparse_matrices_made_inside_of_a_trace_are_plain() -> None:
    def f(t: Any) -> Any:
        own = scipy.sparse.csr_array((np.array([1.0, 2.0]), ([0, 1], [1, 0])), shape=(2, 4)).tocsc()[:, :4]
        assert type(own.data) is np.ndarray
        return own @ t

    np.testing.assert_array_equal(functad.jacobian(f)(b), [[0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]])
