"""`custom_root`, `custom_fixed_point`, `argmin`: derivatives of what solvers find, under every transform."""

import warnings

import numpy as np
import pytest
import scipy.optimize

import functad
from functad.errors import (
    EscapedTensorError,
    ImplicitError,
    ImplicitWarning,
    InputError,
    OutputError,
    StructureError,
    UnsupportedError,
)
from functad.testing import central_difference, check_grads

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=12)


def cubic(x, a):
    return x**3 + x - a


def newton(x, a):
    for _ in range(60):
        x = x - cubic(x, a) / (3 * x**2 + 1)
    return x


SOLVER = functad.custom_root(cubic)(newton)


def root(a):
    return SOLVER(1.0, a)


def by_scipy(residual, **settings):
    """Decorate a function that knows nothing of derivatives."""

    @functad.custom_root(residual, **settings)
    def solver(init, *params):
        if any(np.iscomplexobj(p) for p in params):
            raise TypeError("SciPy finds real roots")  # the numerical side then takes differences
        found = scipy.optimize.root(residual, init, args=params, tol=1e-13)
        assert np.abs(residual(found.x, *params)).max() < 1e-10
        return found.x

    return solver


def coupled(x, a, B):
    return np.tanh(B @ x) + 2 * x - a


A0, B0 = RNG.normal(size=3), 0.5 * RNG.normal(size=(3, 3))


# Derivatives


def test_unrolled_iterations_agree():
    for order in (1, 2, 3):
        implicit, unrolled = root, lambda a: newton(1.0, a)
        for _ in range(order):
            implicit, unrolled = functad.grad(implicit), functad.grad(unrolled)
        np.testing.assert_allclose(implicit(2.5), unrolled(2.5), rtol=1e-10)


@pytest.mark.parametrize("solve", [None, "dense", "gmres", "bicgstab"])
def test_scipys_root(solve):
    options = {"rtol": 1e-13} if solve in ("gmres", "bicgstab") else {}
    solver = by_scipy(coupled, solve=solve, options=options)
    check_grads(lambda a, B: solver(np.zeros(3), a, B), (A0, B0))


def test_linear_solvers_of_the_user():
    sizes = []

    def solve(matvec, b):
        sizes.append(b.shape)
        return np.linalg.solve(np.stack([matvec(e) for e in np.eye(b.size)], axis=1), b)

    solver = by_scipy(coupled, solve=solve)
    check_grads(lambda a, B: solver(np.zeros(3), a, B), (A0, B0))
    assert set(sizes) == {(3,)}


def test_scipys_linear_solvers():
    from scipy.sparse.linalg import LinearOperator, gmres

    def solve(matvec, b):
        x, failed = gmres(LinearOperator((b.size, b.size), matvec, dtype=float), b, rtol=1e-13)
        assert not failed
        return x

    solver = by_scipy(coupled, solve=solve)
    reference = by_scipy(coupled)
    found, expected = [functad.jacobian(lambda a, s=s: s(np.zeros(3), a, B0))(A0) for s in (solver, reference)]
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_hessian_through_a_solver():
    solver = by_scipy(coupled)

    def f(a):
        return np.sum(solver(np.zeros(3), a, B0) ** 2)

    hessian = functad.jacobian(functad.grad(f))(A0)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    for i, e in enumerate(np.eye(3)):
        rows = central_difference(lambda a: [functad.grad(f)(a)], [A0], [e])[0]
        np.testing.assert_allclose(hessian[i], rows, atol=1e-8)


def test_fixed_points():
    def layer(x, a, B):
        return np.tanh(B @ x + a)

    @functad.custom_fixed_point(layer)
    def iterate(x, a, B):
        for _ in range(300):
            x = layer(x, a, B)
        return x

    check_grads(lambda a, B: iterate(np.zeros(3), a, B), (A0, 0.5 * B0))


def test_minimisers():
    def objective(w, X, y, strength):
        return np.mean(np.log(1 + np.exp(-y * (X @ w)))) + strength * np.sum(w**2)

    @functad.argmin(objective, check="raise")
    def fit(w, X, y, strength):
        gradient = functad.grad(objective)
        w = scipy.optimize.minimize(objective, w, (X, y, strength), jac=gradient, method="BFGS").x
        for _ in range(3):  # differences of the solution need its last digits
            w = w - np.linalg.solve(functad.hessian(objective)(w, X, y, strength), gradient(w, X, y, strength))
        return w

    labels = np.sign(Y)
    check_grads(lambda X, strength: fit(np.zeros(3), X, labels, strength), (X, 0.1), order=1, atol=1e-6, rtol=1e-5)


def test_hyperparameter_of_ridge_regression():
    @functad.argmin(lambda w, X, y, c: np.sum((X @ w - y) ** 2) + np.exp(c) * np.sum(w**2))
    def ridge(w, X, y, c):
        return np.linalg.solve(X.T @ X + np.exp(c) * np.eye(3), X.T @ y)

    def written_out(X, y, c):
        return np.linalg.solve(X.T @ X + np.exp(c) * np.eye(3), X.T @ y)

    def loss(w):
        return np.sum((X[:4] @ w - Y[:4]) ** 2)

    for order in (1, 2):
        found = functad.grad(lambda c: loss(ridge(np.zeros(3), X, Y, c)))
        expected = functad.grad(lambda c: loss(written_out(X, Y, c)))
        if order == 2:
            found, expected = functad.grad(found), functad.grad(expected)
        np.testing.assert_allclose(found(0.3), expected(0.3), rtol=1e-9)
    check_grads(lambda X, y: ridge(np.zeros(3), X, y, 0.3), (X, Y))


def test_trees_of_unknowns_and_parameters():
    def residual(x, p):
        return [x["u"] ** 3 + x["u"] * p["a"] - x["v"], x["v"] + np.sum(x["u"]) * 0.1 - p["b"][0]]

    @functad.custom_root(residual)
    def solver(x, p):
        for _ in range(200):
            x = {"u": (x["v"] - x["u"] ** 3) / p["a"], "v": p["b"][0] - 0.1 * np.sum(x["u"])}
        return x

    p = {"a": np.array([3.0, 4.0]), "b": (np.array([0.5, 0.7]), "a name")}
    init = {"u": np.zeros(2), "v": np.zeros(2)}
    check_grads(lambda a, b: solver(init, {"a": a, "b": (b, "a name")}), (p["a"], p["b"][0]))


def test_complex_roots_holomorphic_and_not():
    @functad.custom_root(lambda z, c: z**2 - c)
    def square_root(z, c):
        return np.sqrt(c)

    c = np.array([1.0 + 2.0j, -0.5 + 0.3j])
    check_grads(lambda c: square_root(c, c), (c,))
    derivative = functad.grad(lambda c: np.sum(square_root(c, c)), holomorphic=True)(c)
    np.testing.assert_allclose(derivative, 0.5 / np.sqrt(c))

    @functad.custom_root(lambda z, c: 3 * z + np.conj(z) * np.abs(c) - c)
    def mixed(z, c):
        for _ in range(200):
            z = (c - np.conj(z) * np.abs(c)) / 3
        return z

    check_grads(lambda c: mixed(np.zeros(2, complex), c), (0.5 * c,))


def test_single_precision_stays():
    solver = by_scipy(lambda x, a: x**3 + x - a, tolerance=1e-2)

    @functad.custom_root(lambda x, a: x**3 + x - a)
    def single(x, a):
        return solver(x, a).astype(np.float32)

    a = np.array([1.0, 2.0], np.float32)
    value, gradient = functad.value_and_grad(lambda a: np.sum(single(np.ones(2), a)))(a)
    assert value.dtype == gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, [functad.grad(root)(1.0), 0.25], rtol=1e-5)


def test_many_unknowns_need_no_matrix():
    n = 1000
    laplacian = [2.0, -1.0]

    def residual(x, a):
        left, right = np.concatenate([x[1:], np.zeros(1)]), np.concatenate([np.zeros(1), x[:-1]])
        return (laplacian[0] + 1) * x + laplacian[1] * (left + right) + x**3 - a

    @functad.custom_root(residual, symmetric=True, check="raise")
    def solver(x, a):
        for _ in range(30):
            banded = np.zeros((3, n))
            banded[0, 1:] = banded[2, :-1] = -1
            banded[1] = 3 + 3 * x**2
            x = x - scipy.linalg.solve_banded((1, 1), banded, residual(x, a))
        return x

    a, direction = RNG.normal(size=n), RNG.normal(size=n)

    def f(a):
        return np.sum(np.sin(solver(np.zeros(n), a)))

    slope = central_difference(lambda a: [f(a)], [a], [direction])[0]
    np.testing.assert_allclose(functad.grad(f)(a) @ direction, slope, rtol=1e-7)
    np.testing.assert_allclose(functad.jvp(f, (a,), (direction,))[1], slope, rtol=1e-7)


# Arguments


def test_initial_value_has_no_derivative():
    value, gradient = functad.value_and_grad(lambda init: SOLVER(init, 2.0))(0.3)
    np.testing.assert_allclose(value, 1.0)
    assert gradient == 0
    assert functad.jvp(lambda init, a: SOLVER(init, a), (0.3, 2.0), (1.0, 0.0))[1] == 0


def test_arguments_by_name_and_options():
    seen = []

    @functad.custom_root(cubic)
    def solver(x, a=5.0, *, steps=60):
        seen.append(steps)
        for _ in range(steps):
            x = x - cubic(x, a) / (3 * x**2 + 1)
        return x

    np.testing.assert_allclose(functad.grad(lambda a: solver(1.0, a=a, steps=80))(2.0), 0.25)
    np.testing.assert_allclose(solver(1.0, steps=90), root(5.0))
    assert seen == [80, 90]
    with pytest.raises(InputError, match="no parameter"):
        functad.grad(lambda a: solver(1.0, 2.0, steps=a))(3.0)


def test_decorated_solver_keeps_its_name_and_runs_plainly():
    assert SOLVER.__name__ == "newton"
    x = SOLVER(1.0, 2.0)
    assert not isinstance(x, functad.Tensor)
    np.testing.assert_allclose(x, 1.0)


def test_auxiliary_results_are_handed_through():
    @functad.custom_root(cubic, has_aux=True)
    def solver(x, a):
        steps = 0
        while abs(cubic(x, a)) > 1e-14:
            x = x - cubic(x, a) / (3 * x**2 + 1)
            steps += 1
        return x, {"steps": steps}

    gradient, aux = functad.grad(lambda a: solver(0.0, a), has_aux=True)(2.0)
    np.testing.assert_allclose(gradient, 0.25)
    assert aux["steps"] > 2
    assert solver(0.0, 2.0)[1] == aux


def test_solver_sees_plain_values_and_its_result_is_copied():
    given, buffer = [], np.zeros(2)

    @functad.custom_root(lambda x, a: x - a**2)
    def solver(x, a):
        given.append(type(a))
        buffer[:] = a**2
        return buffer

    value, pullback = functad.vjp(lambda a: solver(np.zeros(2), a), np.array([1.0, 2.0]))
    buffer[:] = 77.0
    np.testing.assert_allclose(value, [1.0, 4.0])
    np.testing.assert_allclose(pullback(np.ones(2))[0], [2.0, 4.0])
    assert given == [np.ndarray]


def test_residual_may_branch_write_and_view():
    def residual(x, a):
        out = np.zeros(3, like=x)
        out[:2] = x[:2] * a
        out[2] = x[2] - 1.0
        if x[0] > 0:
            out += x**3
        view = out[1:]
        view -= 2.0
        return out

    solver = by_scipy(residual)
    check_grads(lambda a: solver(np.ones(3), a), (1.5,))


def test_constants_overwritten_between_value_and_derivative_do_no_harm():
    weights = np.array([1.0, 2.0, 3.0])
    solver = by_scipy(lambda x, a: weights * x + x**3 - a)
    _, pullback = functad.vjp(lambda a: solver(np.zeros(3), a), np.ones(3))
    expected = pullback(np.ones(3))[0]
    weights[:] = -50.0
    np.testing.assert_array_equal(pullback(np.ones(3))[0], expected)


# Captured Tensors


def captured(c):
    @functad.custom_root(lambda x: x**3 + x - c**2)
    def solver(x):
        return newton(x, functad.stop_gradient(c) ** 2)

    return solver(1.0)


def test_captured_tensors_get_their_derivative():
    np.testing.assert_allclose(functad.grad(captured)(1.3), functad.grad(lambda c: root(c**2))(1.3))
    check_grads(captured, (1.3,))
    # Also if the solver itself computes with them.
    check_grads(lambda c: functad.custom_root(lambda x: cubic(x, c**2))(lambda x: newton(x, c**2))(1.0), (1.3,))


def test_tensors_captured_from_several_traces():
    def f(c, d):
        def inner(d):
            solver = functad.custom_root(lambda x, e: x**3 + x * d - c * e)(
                lambda x, e: scipy.optimize.brentq(
                    lambda x: x**3 + x * float(functad.stop_gradient(d)) - float(functad.stop_gradient(c)) * e,
                    -9,
                    9,
                    xtol=1e-15,
                )
            )
            return solver(1.0, d**2)

        return functad.grad(inner)(d)

    def g(c, d):
        def residual(x, d):
            return x**3 + x * d - c * d**2

        def inner(d):
            x = 1.0
            for _ in range(50):
                x = x - residual(x, d) / (3 * x**2 + d)
            return x

        return functad.grad(inner)(d)

    np.testing.assert_allclose(functad.grad(f, (0, 1))(1.1, 0.8), functad.grad(g, (0, 1))(1.1, 0.8), rtol=1e-8)


def test_captured_tensors_without_values_are_refused():
    with pytest.raises(UnsupportedError, match="Pass it as a parameter"):
        functad.make_expressions(captured)(1.3)
    with pytest.raises(UnsupportedError, match="Pass it as a parameter"):
        functad.vmap(lambda c: functad.custom_root(lambda x: x - c)(lambda x: np.float64(1.0))(0.0))(np.ones(2))


def test_tensors_captured_in_a_list_that_ends_raise():
    def f(c):
        return functad.make_expressions(lambda a: functad.custom_root(lambda x, a: x - c * a)(lambda x, a: a)(0.0, a))(2.0)

    expressions = functad.make_expressions(lambda c: c)(1.0)
    assert expressions(2.0) == 2.0
    kept = []
    functad.grad(lambda c: (kept.append(f(c)), c)[1])(1.0)
    with pytest.raises(EscapedTensorError):
        functad.grad(kept[0])(2.0)


# Other transforms


def test_tapes():
    variable = functad.Variable(2.0)
    with functad.GradientTape(persistent=True) as outer:
        with functad.GradientTape() as tape:
            y = root(variable) * 3.0
        slope = tape.gradient(y, variable)
    np.testing.assert_allclose(slope.numpy(), 0.75)
    second = functad.grad(functad.grad(lambda a: 3 * root(a)))(2.0)
    np.testing.assert_allclose(outer.gradient(slope, variable).numpy(), second)


def test_variables_read_by_the_residual():
    variable = functad.Variable(2.0)
    solver = functad.custom_root(lambda x: cubic(x, variable))(lambda x: newton(x, variable.numpy()))
    with functad.GradientTape() as tape:
        y = solver(1.0)
    np.testing.assert_allclose(tape.gradient(y, variable).numpy(), 0.25)


def test_expression_lists():
    expressions = functad.make_expressions(root)(2.0)
    assert "root[solver=newton]" in repr(expressions)
    np.testing.assert_allclose(expressions(10.0), 2.0)
    check_grads(expressions, (2.5,))
    for transformed in (functad.grad(root), functad.grad(functad.grad(root)), lambda a: functad.jvp(root, (a,), (2.0,))[1]):
        traced = functad.make_expressions(transformed)(2.0)
        np.testing.assert_allclose(traced(2.5), transformed(2.5))
        np.testing.assert_allclose(functad.grad(traced)(2.5), functad.grad(transformed)(2.5))


def test_abstract_traces_take_the_shape_of_the_initial_value():
    solver = functad.custom_root(lambda x, a: x - a)(lambda x, a: np.stack([a, a]))
    assert functad.eval_shape(lambda a: solver(np.zeros(2), a), 1.0).shape == (2,)
    assert functad.eval_shape(lambda a: solver(np.zeros(2, int), a), 1.0).dtype == np.float64
    expressions = functad.make_expressions(lambda a: solver(0.0, a))(1.0)
    with pytest.raises(ImplicitError, match="like the initial value"):
        expressions(1.0)
    with pytest.raises(UnsupportedError, match="has_aux"):
        functad.make_expressions(functad.custom_root(cubic, has_aux=True)(lambda x, a: (x, 0)))(1.0, 2.0)


def test_vmap():
    values = np.array([1.0, 2.0, 3.5])
    for f in (root, functad.grad(root), functad.grad(functad.grad(root)), lambda a: functad.jvp(root, (a,), (1.5,))[1]):
        np.testing.assert_allclose(functad.vmap(f)(values), [f(v) for v in values], rtol=1e-12)
    check_grads(functad.vmap(root), (values,))
    inits = np.array([0.5, 1.0])
    both = functad.vmap(lambda init: functad.vmap(lambda a: SOLVER(init, a))(values))(inits)
    np.testing.assert_allclose(both, np.broadcast_to([root(v) for v in values], (2, 3)))


def test_vmap_over_a_solver_of_scipy():
    solver = by_scipy(coupled)
    rows = RNG.normal(size=(4, 3))

    def loss(a, B):
        return np.sum(solver(np.zeros(3), a, B) ** 2)

    found = functad.vmap(functad.grad(loss, (0, 1)), (0, None))(rows, B0)
    for i, row in enumerate(rows):
        for k in range(2):
            np.testing.assert_allclose(found[k][i], functad.grad(loss, (0, 1))(row, B0)[k], atol=1e-12)
    assert functad.vmap(lambda a: solver(np.zeros(3), a, B0))(np.zeros((0, 3))).shape == (0, 3)


def test_solver_in_a_solver():
    def residual(x, c):
        return x - 0.5 * SOLVER(1.0, x + c)

    @functad.custom_root(residual)
    def outer(x, c):
        for _ in range(100):
            x = 0.5 * newton(1.0, x + c)
        return x

    check_grads(lambda c: outer(0.5, c), (1.2,))


def test_gradients_that_are_not_wanted_are_not_computed():
    solver = by_scipy(coupled)
    gradient = functad.grad(lambda a: np.sum(solver(np.zeros(3), a, B0)))(A0)
    found = functad.make_expressions(lambda a, B: solver(np.zeros(3), a, B0))(A0, B0)
    assert len(found.equations[0].inputs) == 1
    assert gradient.shape == (3,)


# What is no solution


def test_what_does_not_solve_the_equation_warns_or_raises():
    def stopped(x, a):
        return x

    for decorator, raises in (
        (functad.custom_root(cubic), None),
        (functad.custom_root(cubic, check="raise"), ImplicitError),
        (functad.custom_root(cubic, check=None), False),
        (functad.custom_root(cubic, tolerance=100.0), False),
    ):
        solver = decorator(stopped)
        assert solver(3.0, 2.0) == 3.0
        for derivative in (functad.grad(solver, 1), lambda x, a, s=solver: functad.jvp(s, (x, a), (0.0, 1.0))):
            if raises is False:
                derivative(3.0, 2.0)
            elif raises is None:
                with pytest.warns(ImplicitWarning, match="does not solve"):
                    derivative(3.0, 2.0)
            else:
                with pytest.raises(raises, match="does not solve"):
                    derivative(3.0, 2.0)


def test_scale_of_the_equation_plays_no_part_in_the_check():
    for scale in (1e-9, 1e9):
        solver = functad.custom_root(lambda x, a, s=scale: s * cubic(x, a), check="raise")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_allclose(functad.grad(lambda a, d=solver: d(lambda x, a: newton(x, a))(1.0, a))(2.0), 0.25)
        with pytest.raises(ImplicitError, match="does not solve"):
            functad.grad(solver(lambda x, a: x), 1)(1.3, 2.0)


def test_nan_is_no_solution():
    solver = functad.custom_root(cubic, check="raise")(lambda x, a: np.nan)
    with pytest.raises(ImplicitError):
        functad.grad(solver, 1)(1.0, 2.0)


def test_singular_solutions_raise():
    solver = functad.custom_root(lambda x, a: x**2 - a)(lambda x, a: np.sqrt(a))
    with pytest.raises(ImplicitError, match="singular"):
        functad.grad(solver, 1)(0.0, 0.0)
    for solve in ("gmres", "bicgstab", "cg"):
        singular = functad.custom_root(lambda x, a: np.stack([x[0] - a, 0 * x[1] - a]), solve, check=None)(lambda x, a: x)
        with pytest.raises(ImplicitError, match="stopped"):
            functad.grad(lambda a, s=singular: np.sum(s(np.zeros(2), a)))(0.0)


def test_too_few_equations_raise():
    solver = functad.custom_root(lambda x, a: np.sum(x) - a)(lambda x, a: x)
    with pytest.raises(ImplicitError, match="1 equations for 3 unknowns"):
        functad.grad(lambda a: np.sum(solver(np.ones(3), a)))(3.0)


def test_wrong_use_is_refused():
    with pytest.raises(InputError, match="check="):
        functad.custom_root(cubic, check="yes")
    with pytest.raises(InputError, match="'gmres'"):
        functad.custom_root(cubic, solve="lu")
    with pytest.raises(InputError, match="needs the function"):
        functad.custom_root(3.0)
    with pytest.raises(InputError, match="needs the function that is solved, not a float"):
        functad.custom_fixed_point(3.0)
    with pytest.raises(InputError, match="argmin needs a function, not a float"):
        functad.argmin(3.0)
    with pytest.raises(InputError, match="initial value"):
        functad.custom_root(lambda: 0)(lambda: 0)()
    with pytest.raises(InputError, match="str"):
        functad.custom_root(cubic)(lambda x, a: "x")(1.0, 2.0)
    for decorator in (functad.custom_root(cubic), functad.custom_fixed_point(cubic), functad.argmin(cubic)):
        with pytest.raises(InputError, match=r"an initial value and no parameters, with which cubic.*missing.*'a'.*solver\(i"):
            functad.grad(decorator(lambda a: a))(2.0)
        with pytest.raises(InputError, match=r"an initial value and 2 parameters.*too many"):
            decorator(lambda x, a, b: x)(1.0, 2.0, 3.0)
    with pytest.raises(TypeError, match="not iterable"):  # `max` does not say what it takes
        functad.custom_root(max)(lambda x: x)(1.0)
    with pytest.raises(OutputError, match="pair"):
        functad.custom_root(cubic, has_aux=True)(lambda x, a: x)(1.0, 2.0)
    with pytest.raises(StructureError):
        functad.grad(functad.custom_fixed_point(lambda x, a: (x, a))(lambda x, a: x), 1)(1.0, 2.0)


def test_other_ways_to_look_at_a_trace():
    with functad.debug_nans():
        np.testing.assert_allclose(functad.grad(root)(2.0), 0.25)
        np.testing.assert_allclose(functad.jvp(root, (2.0,), (1.0,))[1], 0.25)
    assert "connected" in repr(functad.explain(lambda a, b: root(a) + np.floor(b), 2.0, 1.5))
    assert functad.grad(lambda a: SOLVER(1.0, functad.stop_gradient(a)))(2.0) == 0
    with functad.strict_derivatives():
        np.testing.assert_allclose(functad.grad(root)(2.0), 0.25)


def test_threads_do_not_meet():
    from concurrent.futures import ThreadPoolExecutor

    values = np.linspace(1.0, 3.0, 40)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(functad.grad(root), values))
    np.testing.assert_allclose(found, [functad.grad(root)(v) for v in values])


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_compiled_functions_run_the_solver(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the backend llvm needs the extra `jit`")
    compiled = functad.jit(lambda a: np.sin(root(a)) + a, backend=backend)
    for a in (2.0, 10.0):  # the solver runs in each call, not where the function is traced
        np.testing.assert_allclose(compiled(a), np.sin(newton(1.0, a)) + a, rtol=1e-13)
    slope = functad.jit(functad.grad(lambda a: np.sin(root(a)) + a), backend=backend)
    np.testing.assert_allclose(slope(2.0), central_difference(lambda a: [compiled(a)], [2.0], [1.0])[0], rtol=1e-9)
