"""`primitive` and `numerical_primitive`: functions that functad cannot look into."""

import ctypes
import ctypes.util
import math
import pickle
import warnings

import numpy as np
import pytest

import functad
from functad import errors
from functad.primitives.entry import ENTRIES
from functad.testing import check_grads, check_rules

X = np.array([0.3, 0.7])
A, B = np.array([[4.0, 1.0], [0.5, 3.0]]), np.array([1.0, 2.0])


def solver(**options):
    """Return `np.linalg.solve` as a function that takes plain arrays only."""

    def solve(a, b):
        assert type(a) is type(b) is np.ndarray
        return np.linalg.solve(a, b)

    return functad.primitive(
        solve,
        lambda g, a, out: -np.outer(np.linalg.solve(a.T, g), out),
        lambda g, a: np.linalg.solve(a.T, g),
        **options,
    )


def rows(f, x):
    """Return the Jacobian row by row: one that is computed for all rows at once would need batching rules."""
    return np.stack([functad.grad(lambda x, i=i: f(x)[i])(x) for i in range(len(f(x)))])


# Rules of the user's


def test_general_primitive_in_both_modes_and_second_order():
    solve = solver()
    check_grads(solve, [A, B], order=2)
    check_rules(solve, A, B, order=2)
    np.testing.assert_array_equal(solve(A, list(B)), np.linalg.solve(A, B))
    np.testing.assert_allclose(rows(lambda b: solve(A, b), B), np.linalg.inv(A))
    forward = solver(
        jvps=[lambda t, a, out: -np.linalg.solve(a, t @ out), lambda t, a: np.linalg.solve(a, t)], name="with_forward"
    )
    check_grads(forward, [A, B], order=2)


def test_list_and_shape_rule():
    for f in (solver(), solver(shape=lambda a, b: b), solver(shape=lambda a, b: (b.shape, b.dtype))):
        expressions = functad.make_expressions(f)(A, B).check()
        assert [e.primitive.name for e in expressions.equations] == ["solve"]
        np.testing.assert_array_equal(expressions(A, B), np.linalg.solve(A, B))
        assert functad.eval_shape(f, A, B).shape == (2,)
    with pytest.raises(errors.CustomRuleError, match=r"shape rule gives float64\[2,2\] for result, but it is float64\[2\]"):
        check_rules(solver(shape=lambda a, b: a), A, B)


def test_shape_that_cannot_be_found_is_asked_for():
    f = functad.primitive(lambda x: math.acosh(x[0] - 5), lambda g, x: g * x, name="picky")
    with pytest.raises(
        errors.CustomRuleError, match=r"shape of the result of picky is not known.*ValueError.*Give the rule: shape="
    ):
        functad.eval_shape(f, X)


def test_wrong_rules_are_found():
    def make(*rules, **options):
        return functad.primitive(lambda x, y: x * y, *rules, name="product", **options)

    with pytest.raises(errors.WrongDerivativeError):
        check_rules(make(lambda g, y: g, lambda g, x: g * x), X, X)
    check_rules(make(lambda g, y: g * y, lambda g, x: g * x), X, X, order=2)
    bad = make(lambda g, y: g * y, lambda g: g[:1])
    with pytest.raises(
        errors.CustomRuleError, match=r"rule of product for y gave a cotangent of shape \(1,\), but y has shape \(2,\)"
    ):
        functad.grad(lambda y: np.sum(bad(X, y)))(X)


def test_elementwise_primitive_broadcasts_and_has_both_modes():
    f = functad.primitive(
        lambda x, y: np.exp(np.asarray(x)) * y,
        lambda g, out: g * out,
        lambda g, x: g * np.exp(x),
        kind="elementwise",
        name="scaled_exp",
    )
    check_grads(f, [np.ones((3, 1)) * 0.2, X], order=3)
    check_rules(f, 0.3, X)


def test_linear_primitive():
    f = functad.primitive(lambda x: np.cumsum(x), lambda g: np.cumsum(g[::-1])[::-1], kind="linear", name="running")
    check_grads(lambda x: f(x) ** 2, [X], order=2)
    np.testing.assert_array_equal(rows(f, X), [[1, 0], [1, 1]])


def test_joint_rule_and_several_results():
    f = functad.primitive(
        lambda x, y: (x * y, x + y),
        lambda g, arrays: (g[0] * arrays[1] + g[1], g[0] * arrays[0] + g[1]),
        names=["x", "y"],
        joint=True,
        multiple=True,
        name="both",
    )
    check_grads(lambda x, y: f(x, y), [X, B], order=2)
    assert [e.primitive.name for e in functad.make_expressions(f)(X, B).check().equations] == ["both"]


def weighted(x, *rest, scale=1.0):
    return scale * (np.sin(x) * sum(r**2 for r in rest) + x)


def weighted_back(g, x, rest, scale):
    squares = sum(r**2 for r in rest)
    return (g * scale * (np.cos(x) * squares + 1), *[g * scale * np.sin(x) * 2 * r for r in rest])


@pytest.mark.parametrize("others", [(), (B,), (B, X + 1)])
def test_joint_rule_for_any_number_of_arrays(others):
    f = functad.primitive(weighted, weighted_back, joint=True, name="weighted")

    def total(*arrays):
        return np.sum(f(*arrays, scale=2.0))

    def plain(*arrays):
        return np.sum(weighted(*arrays, scale=2.0))

    arrays, all_of = (X, *others), tuple(range(1 + len(others)))
    assert_close = np.testing.assert_allclose
    assert_close(total(*arrays), plain(*arrays))
    for wrap in (lambda own: own, functad.jit, lambda own: functad.make_expressions(own)(*arrays).check()):
        assert_close(wrap(total)(*arrays), plain(*arrays))
        found = wrap(functad.grad(total, all_of))(*arrays)
        for own, expected in zip(found, functad.grad(plain, all_of)(*arrays), strict=True):
            assert_close(own, expected)
    check_grads(total, list(arrays), order=2)
    assert_close(functad.jvp(total, arrays, arrays), functad.jvp(plain, arrays, arrays))
    with pytest.warns(errors.LoopWarning):
        found = functad.vmap(functad.grad(total, all_of))(*arrays)
    assert_close(found, functad.vmap(functad.grad(plain, all_of))(*arrays))


def test_a_rule_reads_shapes_of_any_number_of_arrays():
    f = functad.primitive(
        lambda *xs: sum(np.sum(x) for x in xs),
        lambda g, xs_shape, arrays: tuple([np.full(shape, g) for shape in xs_shape]),
        joint=True,
        name="total",
    )
    for kind in ((X, np.ones((1, 3))), (X,)):
        assert list(map(np.shape, functad.grad(f, tuple(range(len(kind))))(*kind))) == list(map(np.shape, kind))
    with pytest.raises(errors.CustomRuleError, match=r"gave 1 cotangents, at .* for each of the 2 arrays of xs"):
        functad.grad(functad.primitive(lambda *xs: sum(xs), lambda g: (g,), joint=True))(1.0, 2.0)


def test_a_rule_reads_an_argument_that_is_called_like_a_derived_value():
    f = functad.primitive(
        lambda arrays, rest, shapes=3.0: arrays * rest * shapes,
        *[
            lambda g, rest, shapes: g * rest * shapes,
            lambda g, arrays, shapes: g * arrays * shapes,
        ],
    )
    assert functad.grad(f, (0, 1))(2.0, 5.0) == (15, 6)


def test_parameters_may_be_any_number_of_positional_arguments():
    f = functad.primitive(lambda x, y=2.0, *rest: x * y * sum(rest, 1.0), lambda g, y, rest: g * y * sum(rest, 1.0))
    assert f(3.0) == functad.jit(f)(3.0) == 6
    assert f(3.0, 4.0, 1.0, 2.0) == functad.jit(lambda x: f(x, 4.0, 1.0, 2.0))(3.0) == 48
    assert functad.grad(f)(3.0) == 2
    assert functad.grad(lambda x: f(x, 4.0, 1.0, 2.0))(3.0) == 16
    assert functad.primitive(lambda x, *rest: x + sum(rest), name="added")(1.0, 2.0) == 3
    with pytest.raises(errors.CustomRuleError, match=r"rest is a Tensor.* names=\('x', 'rest'\) and joint=True"):
        functad.grad(lambda z: f(3.0, 4.0, z))(1.0)
    with pytest.raises(errors.InputError, match=r"\*xs takes any number of arrays, at .*joint=True"):
        functad.primitive(lambda *xs: sum(xs), lambda g: g, names=["xs"])
    with pytest.raises(errors.InputError, match=r"1 rules for the arrays \(none\).* or joint=True for \*xs"):
        functad.primitive(lambda *xs: sum(xs), lambda g: g)


def test_numerical_primitive_of_any_number_of_arrays():
    f = functad.numerical_primitive(lambda x, *rest: float(x) * math.prod(map(float, rest)), name="product")
    np.testing.assert_allclose(functad.grad(f, (0, 1, 2))(2.0, 3.0, 4.0), (12, 8, 6), rtol=1e-8)


def test_joint_rule_of_an_elementwise_function_in_forward_mode():
    f = functad.primitive(
        lambda x, y: x * y, lambda g, arrays: (g * arrays[1], g * arrays[0]), joint=True, kind="elementwise", name="times"
    )
    args = X[:, None], B
    out, t = functad.jvp(f, args, args)
    expected = functad.jvp(np.multiply, args, args)
    np.testing.assert_allclose(out, expected[0])
    np.testing.assert_allclose(t, expected[1])


def test_parameters_defaults_and_none():
    def power(x, n=2, *, scale=1.0):
        return scale * x**n

    f = functad.primitive(power, lambda g, x, n, scale: g * scale * n * x ** (n - 1))
    assert functad.grad(f)(3.0) == 6
    assert functad.grad(f)(3.0, n=3, scale=2.0) == 54
    assert functad.grad(lambda x: f(n=3, x=x))(2.0) == 12
    with pytest.raises(errors.CustomRuleError, match=r"scale is a Tensor, but only x are arrays .* names=\('x', 'scale'\)"):
        functad.grad(lambda s: f(2.0, scale=s))(1.0)
    g = functad.primitive(lambda x, y: x * y, lambda g, y: g * y, None, name="half")
    assert functad.grad(g, (0, 1))(2.0, 3.0) == (3, 0)


def test_tapes_and_variables():
    v = functad.Variable(B)
    solve = solver()
    with functad.GradientTape() as tape:
        y = np.sum(solve(A, v) ** 2)
    expected = functad.grad(lambda b: np.sum(np.linalg.solve(A, b) ** 2))(B)
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), expected)


def igam_fac_by_y(g, x, y, out):
    return g * out * (x / y - 1)


def test_ufunc_is_entered_as_itself():
    special = pytest.importorskip("scipy.special", reason="SciPy is an extra")
    ufunc = special._ufuncs._igam_fac  # y^x e^-y / gamma(x), which has no rule
    f = functad.primitive(ufunc, None, igam_fac_by_y, kind="elementwise")
    try:
        for g, x in ((lambda y: ufunc(0.5, y) ** 2, 0.7), (lambda y: f(0.5, y), 0.4)):
            for h in (g, functad.grad(g)):
                np.testing.assert_allclose(functad.grad(h)(x), (h(x + 1e-5) - h(x - 1e-5)) / 2e-5, rtol=1e-6)
                np.testing.assert_allclose(functad.jvp(h, (x,), (1.0,))[1], functad.grad(h)(x), rtol=1e-12)
        assert [e.primitive.name for e in functad.make_expressions(f)(0.5, 0.4).check().equations] == ["_igam_fac"]
        with pytest.raises(errors.InputError, match="_igam_fac has derivative rules already"):
            functad.primitive(ufunc, lambda g: g, None)
        with warnings.catch_warnings(action="ignore"):  # pickle looks for it in every module, deprecated ones too
            assert pickle.loads(pickle.dumps(f)) is f  # it is entered once
    finally:
        del ENTRIES[ufunc]
    with pytest.raises(errors.InputError, match="sin has derivative rules already"):
        functad.primitive(np.sin, lambda g, x: g)


def test_function_of_a_library_in_c():
    found = ctypes.util.find_library("m")
    if found is None:
        pytest.skip("there is no C library of mathematics to call on this system")
    erf = ctypes.CDLL(found).erf
    erf.restype, erf.argtypes = ctypes.c_double, [ctypes.c_double]
    f = functad.primitive(
        erf, lambda g, x: g * 2 / np.sqrt(np.pi) * np.exp(-(x**2)), names=["x"], name="erf", kind="elementwise"
    )
    check_rules(f, 0.4, order=2)


def test_what_cannot_be_entered():
    with pytest.raises(errors.InputError, match=r"2 rules for the arrays x, y|1 rules for the arrays"):
        functad.primitive(lambda x, y: x, lambda g: g, names=["x", "y"])
    with pytest.raises(errors.InputError, match="kind is 'odd'"):
        functad.primitive(lambda x: x, lambda g: g, kind="odd")
    with pytest.raises(errors.InputError, match="needs a function"):
        functad.primitive(3, lambda g: g)
    with pytest.raises(errors.InputError, match="2 JVP rules for 1 arrays"):
        functad.primitive(lambda x: x, lambda g: g, jvps=[None, None])
    with pytest.raises(errors.InputError, match="give names="):
        functad.primitive(min, lambda g: g)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (lambda g, a: g * a, "a rule reads 'a', at .*no argument of scaled. There are A, k, and out"),
        (lambda g, a_shape: g, "a rule reads 'a_shape'"),
        (lambda g, A, n=2: g * n, "a rule reads 'n'"),
        (lambda: 1.0, "names what it reads, at .*lambda g, A: ..., where g is the cotangent"),
        (lambda *read: read[0], "names what it reads"),
        (lambda g, **read: g, "names what it reads"),
        (lambda A: A, "a rule takes A first, at .*lambda g, A"),
        (3.0, "must be a function"),
    ],
)
def test_rules_that_could_not_be_called_are_refused_when_they_are_given(rule, text):
    def scaled(A, k=2.0):
        return k * np.sin(A)

    for kind in ("general", "elementwise", "linear"):
        with pytest.raises(errors.InputError, match=text):
            functad.primitive(scaled, rule, kind=kind)
    with pytest.raises(errors.InputError, match=text):
        functad.primitive(scaled, rule, joint=True)
    with pytest.raises(errors.InputError, match=text):
        functad.primitive(scaled, lambda g, A, k: g * k * np.cos(A), jvps=[rule])
    named_g = functad.primitive(lambda g: 2 * g, lambda g: 2 * g, kind="linear", name="twice")
    assert functad.grad(named_g)(1.0) == 2
    open_ended = functad.primitive(lambda x, **rest: x * rest["k"], lambda g, k: g * k, name="by_keyword")
    assert functad.grad(lambda x: open_ended(x, k=3.0))(1.0) == 3


@pytest.mark.parametrize(
    ("given", "found"), [(lambda g: g, "a float64"), (lambda g: (g,), "1 cotangents"), (lambda g: None, "a NoneType")]
)
def test_a_joint_rule_gives_a_cotangent_for_each_array(given, found):
    f = functad.primitive(lambda x, y: x * y, lambda g, arrays: given(g), names=["x", "y"], joint=True, name="both")
    with pytest.raises(errors.CustomRuleError, match=rf"joint rule of both gave {found}, at .*test_registering.* each of x, y"):
        functad.grad(f, (0, 1))(2.0, 3.0)


# Rules by differences


def simulate(x, rate=2.0):
    return math.exp(rate * float(x[0])) * float(x[1])


def model(x, rate=2.0):
    return np.exp(rate * x[0]) * x[1]


@pytest.mark.parametrize("point", [X, np.array([-1.0, 1e4]), np.array([1e-3, 2e-5])])
def test_central_differences(point):
    f = functad.numerical_primitive(simulate)
    expected = functad.grad(model)(point)
    np.testing.assert_allclose(functad.grad(f)(point), expected, rtol=1e-8, atol=1e-8)
    pushed = functad.jvp(f, (point,), (np.array([0.3, -0.2]),))
    np.testing.assert_allclose(pushed[1], expected @ [0.3, -0.2], rtol=1e-6, atol=1e-8)
    assert pushed[0] == simulate(point)
    assert functad.jvp(f, (point,), (np.zeros(2),))[1] == 0


def test_second_derivatives_are_differences_of_differences():
    f = functad.numerical_primitive(simulate)
    expected = functad.jacobian(functad.grad(model))(X)
    np.testing.assert_allclose(rows(functad.grad(f), X), expected, atol=2e-6)
    over = functad.jvp(functad.grad(f), (X,), (B,))[1]
    np.testing.assert_allclose(over, expected @ B, atol=2e-6)
    forward = functad.jvp(lambda x: functad.jvp(f, (x,), (B,))[1], (X,), (B,))[1]
    np.testing.assert_allclose(forward, B @ expected @ B, atol=2e-6)


def test_complex_step_is_exact_to_rounding():
    f = functad.numerical_primitive(lambda x, y: np.sin(x) @ y, "complex-step", name="wave")
    np.testing.assert_allclose(
        functad.grad(f, (0, 1))(X, B), functad.grad(lambda x, y: np.sin(x) @ y, (0, 1))(X, B), rtol=1e-15
    )
    np.testing.assert_allclose(functad.jvp(f, (X, B), (B, X))[1], (np.cos(X) * B) @ B + np.sin(X) @ X, rtol=1e-15)
    np.testing.assert_allclose(rows(lambda x: functad.grad(f)(x, B), X), np.diag(-np.sin(X) * B), atol=1e-8)


@pytest.mark.parametrize("method", ["central", "complex-step"])
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_ufunc_itself_under_jit(method, backend):
    f = functad.numerical_primitive(np.sin, method)
    np.testing.assert_allclose(functad.jit(lambda x: 2 * f(x), backend=backend)(X), 2 * np.sin(X), rtol=1e-15)
    np.testing.assert_allclose(functad.jit(functad.grad(lambda x: np.sum(f(x))), backend=backend)(X), np.cos(X), rtol=1e-8)
    with pytest.raises(errors.UnsupportedError, match="has no text"):
        functad.to_source(f, X)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float16, 1e-3), (np.float32, 1e-6), (np.longdouble, 1e-15)])
def test_complex_step_in_other_precisions(dtype, rtol):
    f = functad.numerical_primitive(lambda x, y: np.sin(x) @ y, "complex-step")
    exact = functad.grad(lambda x, y: np.sin(x) @ y, (0, 1))(X, B)
    x, b = X.astype(dtype), B.astype(dtype)
    for found, expected in zip(functad.grad(f, (0, 1))(x, b), exact, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=rtol)
    np.testing.assert_allclose(functad.jvp(f, (x, b), (b, x))[1], exact[0] @ B + exact[1] @ X, rtol=rtol)
    np.testing.assert_allclose(rows(lambda x: functad.grad(f)(x, b), x), np.diag(-np.sin(X) * B), atol=max(1e-3, 10 * rtol))


def test_complex_step_beside_an_argument_of_single_precision():
    f = functad.numerical_primitive(lambda x, y: np.sin(x) * y, "complex-step")
    x = np.float32(1.0)
    assert functad.grad(f, (0, 1))(x, 2.0) == pytest.approx((2 * np.cos(1.0), np.sin(1.0)), rel=1e-6)


def test_complex_arguments_have_the_convention_of_transforms():
    def norm(z):
        return np.sum(np.abs(z) ** 2 * B) + z[0].real

    z = X + 1j * B
    np.testing.assert_allclose(functad.grad(functad.numerical_primitive(norm))(z), functad.grad(norm)(z), rtol=1e-8)


def test_several_results_single_precision_integers_and_parameters():
    f = functad.numerical_primitive(lambda x, n: (np.asarray(x) ** n, np.sum(x), int(n)), name="three")
    found = functad.grad(lambda x: np.sum(f(x, 3)[0]) + f(x, 3)[1])(X)
    np.testing.assert_allclose(found, 3 * X**2 + 1, rtol=1e-8)
    single = functad.numerical_primitive(lambda x: np.sum(np.sin(x)))
    found = functad.grad(single)(X.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.cos(X), rtol=1e-3)
    assert functad.grad(functad.numerical_primitive(simulate))(X, rate=0.0)[1] == pytest.approx(1)


def test_it_is_marked_as_approximate():
    f = functad.numerical_primitive(simulate)
    text = repr(functad.make_expressions(f)(X).check())
    assert "simulate[approximate=central] x" in text
    assert repr(f) == "<primitive simulate[approximate=central]>"
    found = " ".join(str(functad.explain(lambda x: f(x) * 2, X)).split())
    assert "args[0]: connected, approximate by simulate[approximate=central] at " in found
    assert "approximate=complex-step" in repr(functad.numerical_primitive(simulate, "complex-step"))


def test_numerical_check_tapes_and_shape_rule():
    f = functad.numerical_primitive(simulate, shape=lambda x, rate: ((), float))
    check_rules(f, X)
    v = functad.Variable(X)
    with functad.GradientTape() as tape:
        y = f(v)
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), functad.grad(model)(X), rtol=1e-8)
    expressions = functad.make_expressions(functad.grad(f))(X).check()
    np.testing.assert_allclose(expressions(2 * X), functad.grad(model)(2 * X), rtol=1e-8)


def test_numerical_refuses_what_has_no_meaning():
    with pytest.raises(errors.InputError, match="method is 'forward'"):
        functad.numerical_primitive(simulate, "forward")
    with pytest.raises(errors.InputError, match="step is 0"):
        functad.numerical_primitive(simulate, step=0.0)
    with pytest.raises(errors.CustomRuleError, match="rate is a Tensor"):
        functad.grad(lambda rate: functad.numerical_primitive(simulate)(X, rate))(1.0)


def test_numerical_primitive_of_a_ufunc():
    f = functad.numerical_primitive(np.arctan2)
    slopes = functad.grad(f, (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(slopes, functad.grad(np.arctan2, (0, 1))(1.0, 2.0), rtol=1e-8)
    g = functad.numerical_primitive(np.sin)
    np.testing.assert_allclose(functad.make_expressions(functad.grad(g))(1.0)(2.0), np.cos(2.0), rtol=1e-8)
    with pytest.raises(functad.errors.InputError, match="primitive max: its signature is not known, so give names="):
        functad.numerical_primitive(max)


@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")
@pytest.mark.parametrize("n", [2, 3])
def test_foreign_rules_are_called_one_after_the_other(n):
    scipy_linalg = pytest.importorskip("scipy.linalg")

    def rule(g, a):
        return scipy_linalg.expm_frechet(a.T, g, compute_expm=False)

    expm = functad.primitive(lambda a: scipy_linalg.expm(a), rule, name="expm")
    numerical = functad.numerical_primitive(lambda a: scipy_linalg.expm(a))
    a = np.random.default_rng(0).normal(size=(n, n))

    def total(e):
        return lambda a: np.sum(e(a) ** 2)

    jacobian, gradient = functad.jacobian(numerical)(a), functad.grad(total(numerical))(a)
    ways = {
        "jacobian": (functad.jacobian(expm)(a), jacobian),
        "jacfwd": (functad.jacfwd(expm)(a), jacobian),
        "list of jacobian": (functad.make_expressions(functad.jacobian(expm))(a)(a), jacobian),
        "vmap": (functad.vmap(functad.grad(total(expm)))(np.stack([a, a]))[1], gradient),
        "list": (functad.make_expressions(functad.grad(total(expm)))(a)(a), gradient),
        "hessian": (functad.hessian(total(expm))(a), functad.jacobian(functad.grad(total(expm)))(a)),
        "hessian by differences": (functad.hessian(total(expm))(a), functad.hessian(total(numerical))(a)),
    }
    for way, (found, expected) in ways.items():
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=way)


@pytest.mark.filterwarnings("ignore:foreign has no batching rule")
def test_foreign_rules_say_what_they_cost():
    def rule(g, x):
        return np.array([float(a) * float(b) for a, b in zip(g, np.cos(x), strict=True)])

    f = functad.primitive(lambda x: np.sin(np.asarray(x)), rule, name="foreign")
    with pytest.warns(functad.errors.LoopWarning, match="rule of foreign for x has no batching rule"):
        functad.vmap(functad.grad(lambda x: f(x)[0]))(np.ones((5, 1)))
    with pytest.warns(functad.errors.LoopWarning, match="no NumPy code, so its own derivative.* is made of differences"):
        functad.jvp(f, (np.ones(2),), (np.ones(2),))


def test_check_rules_names_the_rule():
    def double(size, batched, x):
        return 2 * x, True

    f = functad.primitive(lambda x, y: x * y, lambda g, y: g * y, lambda g, x: 2 * g * x, name="times")
    with pytest.raises(functad.errors.WrongDerivativeError, match="the VJP rule of times for y is wrong"):
        functad.testing.check_rules(f, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    f = functad.primitive(lambda x: x * x, lambda g, x: 2 * g * x, jvps=[lambda t, x: 3 * t * x], name="square")
    with pytest.raises(functad.errors.WrongDerivativeError, match="the JVP rule of square for x is wrong"):
        functad.testing.check_rules(f, np.array([1.0, 2.0]))
    f = functad.primitive(lambda x: x * x, lambda g, x: 2 * g * x, batch=double, name="square")
    with pytest.raises(functad.errors.CustomRuleError, match="the batch rule of square is wrong"):
        functad.testing.check_rules(f, np.array([1.0, 2.0]))
    f = functad.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, g: (g * x,))
    with pytest.raises(functad.errors.WrongDerivativeError, match=r"the backward rule of .* is wrong"):
        functad.testing.check_rules(f, np.array([1.0, 2.0]))


def test_complex_arguments_are_refused_if_the_function_takes_none():
    square = functad.primitive(
        lambda x: x * x, lambda g, x: 2 * g * x, kind="elementwise", name="square_of_real", complex=False
    )
    np.testing.assert_allclose(functad.grad(square)(1.5), ((1.5 + 1e-6) ** 2 - (1.5 - 1e-6) ** 2) / 2e-6, rtol=1e-8)
    z = 1.0 + 2.0j
    for call in (
        lambda: square(z),
        lambda: functad.grad(lambda x: np.real(square(x * z)))(1.0),
        lambda: functad.make_expressions(square)(z),
        lambda: functad.vmap(square)(np.array([z, z])),
    ):
        with pytest.raises(functad.errors.UnsupportedError, match=r"square_of_real of a complex argument, at .*complex=False"):
            call()


def test_the_vjp_rules_are_transposed_where_a_jvp_rule_is_none():
    product = functad.primitive(
        lambda x, y: x * y, lambda g, y: g * y, lambda g, x: g * x, jvps=[None, lambda t, x: t * x], name="product"
    )
    assert functad.jvp(product, (2.0, 3.0), (1.0, 10.0))[1] == 23.0
    assert functad.jvp(lambda y: product(2.0, y), (3.0,), (10.0,))[1] == 20.0
