"""`custom_linear_solve`: derivatives by the right-hand side and by what the matrix depends on, whatever solves the system."""

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError, ImplicitError, InputError
from functad.testing import central_difference, check_grads

RNG = np.random.default_rng(3)
A = 4 * np.eye(4) + RNG.normal(size=(4, 4))
S = A + A.T + 4 * np.eye(4)
B = RNG.normal(size=4)
SOLVES = {
    "default": {},
    "dense": {"solve": "dense"},
    "gmres": {"solve": "gmres", "options": {"rtol": 1e-13}},
    "bicgstab": {"solve": "bicgstab", "options": {"rtol": 1e-13}},
    "user": {
        "solve": lambda matvec, b: np.linalg.solve(np.stack([matvec(e) for e in np.eye(4)], axis=1), b),
        "transpose_solve": lambda vecmat, b: np.linalg.solve(np.stack([vecmat(e) for e in np.eye(4)], axis=1), b),
    },
    "user, forward only": {"solve": lambda matvec, b: np.linalg.solve(np.stack([matvec(e) for e in np.eye(4)], axis=1), b)},
}


@pytest.mark.parametrize("name", SOLVES)
def test_derivatives_of_what_is_captured(name):
    check_grads(lambda A, b: np.sin(functad.custom_linear_solve(lambda x: A @ x, b, **SOLVES[name])), (A, B))


@pytest.mark.parametrize("name", SOLVES)
def test_derivatives_of_parameters(name):
    solves = SOLVES[name]
    for key in ("solve", "transpose_solve"):  # the user's are given the parameters too
        if callable(solves.get(key)):
            solves = {**solves, key: lambda matvec, b, *_, own=solves[key]: own(matvec, b)}
    check_grads(lambda A, b: functad.custom_linear_solve(lambda x, A: A @ x, b, params=(A,), **solves), (A, B))


def test_symmetric_systems_by_conjugate_gradients():
    def f(s, b):
        return functad.custom_linear_solve(
            lambda x: s * (S @ x), b, solve="cg", symmetric=True, options={"rtol": 1e-13, "maxiter": 200}
        )

    check_grads(f, (1.5, B))


def test_symmetric_systems_need_no_transposed_solver():
    calls = []

    def solve(matvec, b):
        calls.append(1)
        return np.linalg.solve(S, b)

    gradient = functad.grad(lambda b: np.sum(functad.custom_linear_solve(lambda x: S @ x, b, solve, symmetric=True) ** 2))(B)
    assert len(calls) == 2
    np.testing.assert_allclose(gradient, 2 * np.linalg.solve(S, np.linalg.solve(S, B)))


def test_parameters_reach_the_solvers_as_plain_arrays():
    def f(A, b):
        return functad.custom_linear_solve(
            lambda x, A: A @ x,
            b,
            solve=lambda matvec, b, A: np.linalg.solve(np.asarray(A), b),
            transpose_solve=lambda vecmat, b, A: np.linalg.solve(np.asarray(A).T, b),
            params=(A,),
        )

    check_grads(f, (A, B))


def test_trees():
    def matvec(x, c):
        return {"u": c * x["u"] + x["v"][0] * np.ones(2), "v": (x["v"][0] * 3 + np.sum(x["u"]),)}

    def f(b, c):
        return functad.custom_linear_solve(matvec, b, params=(c,))

    b = {"u": np.array([1.0, 2.0]), "v": (0.5,)}
    check_grads(f, (b, 2.0))
    x = f(b, 2.0)
    back = matvec(x, 2.0)
    np.testing.assert_allclose(back["u"], b["u"])
    np.testing.assert_allclose(back["v"][0], 0.5)


def test_complex_numbers():
    M = A + 1j * RNG.normal(size=(4, 4))
    b = B + 1j * RNG.normal(size=4)
    for solve in ("dense", "gmres"):
        options = {"options": {"rtol": 1e-13}} if solve == "gmres" else {}
        check_grads(lambda M, b, o=options, s=solve: functad.custom_linear_solve(lambda x: M @ x, b, s, **o), (M, b))
    # Linear over the reals only: the conjugate is taken.
    check_grads(lambda c, b: functad.custom_linear_solve(lambda x: 3 * x + c * np.conj(x), b), (0.5 + 0.2j, b))


def test_real_right_hand_sides_of_complex_matrices():
    found = functad.custom_linear_solve(lambda x: (1 + 1j) * x, np.array([2.0, 4.0]))
    np.testing.assert_allclose(found, [1 - 1j, 2 - 2j])
    check_grads(lambda b: functad.custom_linear_solve(lambda x: (A + 1j * S) @ x, b), (B,))


def test_single_precision_stays():
    single = A.astype(np.float32)
    for solve in (None, "gmres"):
        x = functad.custom_linear_solve(lambda x: single @ x, B.astype(np.float32), solve)
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, np.linalg.solve(A, B), rtol=1e-4)
    gradient = functad.grad(lambda b: np.sum(functad.custom_linear_solve(lambda x: single @ x, b)))(B.astype(np.float32))
    assert gradient.dtype == np.float32


def test_schur_complements_nest():
    C = np.diag([3.0, 4.0, 5.0, 6.0])

    def f(A, c, b):
        def schur(x):
            return A @ x - c * functad.custom_linear_solve(lambda y: C @ y + c * y, x)

        return functad.custom_linear_solve(schur, b)

    check_grads(f, (A, 0.7, B))


def test_large_systems_are_solved_without_a_matrix():
    n = 2000
    shapes = []

    def f(d, b):
        def matvec(x):
            shapes.append(np.shape(x))
            return d * x - 0.3 * np.roll(x, 1) + 0.1 * np.roll(x, 2)

        return np.sum(functad.custom_linear_solve(matvec, b) ** 2)

    d, b = 2.0 + RNG.random(n), RNG.normal(size=n)
    direction = RNG.normal(size=n)
    gradient = functad.grad(f)(d, b)
    assert shapes == [(n,)]  # once and for all
    slope = central_difference(lambda d: [f(d, b)], [d], [direction])[0]
    np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-6)
    np.testing.assert_allclose(functad.jvp(f, (d, b), (direction, np.zeros(n)))[1], slope, rtol=1e-6)


def test_jacobian_builds_the_matrix_once(monkeypatch):
    from functad.implicit import linear_solve

    built = []
    own = linear_solve.check_regular
    monkeypatch.setattr(linear_solve, "check_regular", lambda matrix: (built.append(1), own(matrix)))
    found = functad.jacobian(lambda b: functad.custom_linear_solve(lambda x: A @ x, b))(B)
    np.testing.assert_allclose(found, np.linalg.inv(A), atol=1e-13)
    assert built == [1]


# Under transforms without values


def test_expression_list_prints_and_runs_on_other_values():
    expressions = functad.make_expressions(lambda A, b: functad.custom_linear_solve(lambda x, A: A @ x, b, params=(A,)))(A, B)
    assert len(expressions.equations) == 1
    assert "linear_solve[system=" in repr(expressions)
    np.testing.assert_allclose(expressions(S, 2 * B), np.linalg.solve(S, 2 * B))
    check_grads(expressions, (A, B))


def test_gradient_traced_without_values():
    def f(A, b):
        return np.sum(functad.custom_linear_solve(lambda x, A: A @ x, b, params=(A,)) ** 2)

    expressions = functad.make_expressions(functad.grad(f, (0, 1)))(A, B)
    for found, expected in zip(expressions(S, B), functad.grad(f, (0, 1))(S, B), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-14)
    assert ".T]" in repr(expressions)


def test_captured_tensors_without_values_become_inputs():
    expressions = functad.make_expressions(lambda A: functad.custom_linear_solve(lambda x: A @ (2 * x), B))(A)
    np.testing.assert_allclose(expressions(S), np.linalg.solve(2 * S, B))
    check_grads(expressions, (A,))


def test_vmap_over_right_hand_sides_and_matrices():
    matrices = np.stack([A, S, A.T])
    rows = RNG.normal(size=(3, 4))

    def f(A, b):
        return functad.custom_linear_solve(lambda x, A: A @ x, b, params=(A,))

    np.testing.assert_allclose(functad.vmap(f)(matrices, rows), [f(M, b) for M, b in zip(matrices, rows, strict=True)])
    np.testing.assert_allclose(functad.vmap(f, (None, 0))(A, rows), rows @ np.linalg.inv(A).T)
    np.testing.assert_allclose(functad.vmap(f, (0, None))(matrices, B), [f(M, B) for M in matrices])

    def g(A, b):
        return np.sum(f(A, b) ** 3)

    found = functad.vmap(functad.grad(g, (0, 1)))(matrices, rows)
    expected = [functad.grad(g, (0, 1))(M, b) for M, b in zip(matrices, rows, strict=True)]
    for k in range(2):
        np.testing.assert_allclose(found[k], [row[k] for row in expected], atol=1e-13)
    assert functad.vmap(lambda b: f(A, b))(np.zeros((0, 4))).shape == (0, 4)
    check_grads(lambda A, b: functad.vmap(f, (None, 0))(A, b), (A, rows))


def test_vmap_of_what_is_captured():
    c = np.array([1.0, 2.0, 4.0])

    def f(c, d):
        return functad.custom_linear_solve(lambda x: c * (A @ x) + d * x, B)

    np.testing.assert_allclose(functad.vmap(f)(c, 2 * c), [f(v, 2 * v) for v in c])
    check_grads(functad.vmap(f), (c, 2 * c))


def test_branches_on_values_that_are_not_known_raise():
    def f(c):
        return functad.custom_linear_solve(lambda x: c * x if c > 0 else x, B)

    np.testing.assert_allclose(functad.grad(lambda c: np.sum(f(c)))(2.0), -np.sum(B) / 4)
    with pytest.raises(AbstractValueError):
        functad.vmap(f)(np.ones(3))


# Errors


def test_singular_systems_raise():
    with pytest.raises(ImplicitError, match="singular"):
        functad.custom_linear_solve(lambda x: np.ones((2, 2)) @ x, np.ones(2))


def test_user_solvers_of_wrong_shape_raise():
    with pytest.raises(ImplicitError, match="returned"):
        functad.custom_linear_solve(lambda x: 2 * x, np.ones(2), solve=lambda matvec, b: np.ones(3))


def test_unknown_solvers_raise():
    with pytest.raises(InputError, match="'gmres'"):
        functad.custom_linear_solve(lambda x: 2 * x, np.ones(2), solve="lu")
    for solve, taken in (("cg", "rtol, atol, maxiter"), ("gmres", "rtol, atol, maxiter, restart, M"), ("dense", "none")):
        with pytest.raises(InputError, match=f"solve='{solve}' with the option 'tol', at .*: it takes {taken}"):
            functad.custom_linear_solve(lambda x: 2 * x, np.ones(2), solve, options={"tol": 1e-3})
    with pytest.raises(InputError, match="transpose_solve"):
        functad.custom_linear_solve(lambda x: 2 * x, np.ones(2), transpose_solve=lambda m, b: b / 2)


def test_right_hand_sides_that_are_no_numbers_raise():
    with pytest.raises(InputError, match="str"):
        functad.custom_linear_solve(lambda x: x, "b")


def test_integers_are_taken_as_numbers():
    np.testing.assert_allclose(functad.custom_linear_solve(lambda x: 4 * x, np.array([1, 2])), [0.25, 0.5])


@pytest.mark.parametrize("matvec", [lambda x: 2 * x + 1, lambda x: np.where(x > 0, x, 2 * x), lambda x: x * x])
def test_what_is_not_linear_is_refused(matvec):
    b = np.array([1.0, -2.0])
    with pytest.raises(functad.errors.NotLinearError, match="custom_linear_solve of"):
        functad.custom_linear_solve(matvec, b)
    with pytest.raises(functad.errors.NotLinearError, match="custom_linear_solve of"):
        functad.grad(lambda b: np.sum(functad.custom_linear_solve(matvec, b)))(b)


def test_the_matrix_may_be_chosen_by_the_value_of_a_parameter():
    def solution(p):
        return functad.custom_linear_solve(lambda x, p: x * p if p > 0 else x, np.ones(2), params=(p,))[0]

    np.testing.assert_allclose(functad.grad(solution)(2.0), -0.25)
    np.testing.assert_allclose(functad.grad(solution)(-2.0), 0.0)


def test_solvers_are_given_the_parameters_of_their_own_example():
    matrices = A + np.arange(3.0)[:, None, None] * np.eye(len(A))
    sides = B + np.arange(3.0)[:, None]

    def f(A, b):
        return functad.custom_linear_solve(
            lambda x, A, scale: scale * (A @ x),
            b,
            solve=lambda matvec, b, A, scale: np.linalg.solve(A, b) / scale,
            transpose_solve=lambda vecmat, b, A, scale: np.linalg.solve(A.T, b) / scale,
            params=(A, 2.0),
        )

    gradient = functad.grad(lambda A, b: np.sum(np.sin(f(A, b))), argnums=(0, 1))
    np.testing.assert_allclose(functad.vmap(f)(matrices, sides), [f(a, b) for a, b in zip(matrices, sides, strict=True)])
    np.testing.assert_allclose(functad.vmap(f, (0, None))(matrices, B), [f(a, B) for a in matrices])
    found = functad.vmap(gradient)(matrices, sides)
    for one, others in zip(found, zip(*map(gradient, matrices, sides), strict=True), strict=True):
        np.testing.assert_allclose(one, others)
    expressions = functad.make_expressions(f)(A, B)
    for a, b in zip(matrices, sides, strict=True):
        np.testing.assert_allclose(expressions(a, b), f(a, b))


@pytest.mark.parametrize("solve", ["dense", None, "gmres"])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_matrix_that_is_not_square_is_named_under_every_transform(shape, solve):
    matrix, message = np.ones(shape), f"gives {shape[0]} equations for {shape[1]} unknowns"

    def solved(b):
        return functad.custom_linear_solve(lambda x: matrix @ x, b, solve=solve)

    b = np.ones(shape[1])
    for call in (
        lambda: solved(b),
        lambda: functad.grad(lambda b: np.sum(solved(b)))(b),
        lambda: functad.vmap(solved)(np.stack([b, b])),
        lambda: functad.vmap(functad.grad(lambda b: np.sum(solved(b))))(np.stack([b, b])),
        lambda: functad.jacobian(solved)(b),
    ):
        with pytest.raises(ImplicitError, match=message):
            call()
