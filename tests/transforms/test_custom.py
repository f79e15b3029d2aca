"""`custom_vjp` and `custom_jvp`: which rule is used where, what is checked, and that no derivative is lost."""

import functools
import weakref

import numpy as np
import pytest

import functad
from functad import errors
from functad.testing import central_difference, check_grads

X, W = np.array([0.3, 0.7]), np.array([1.5, -0.5])


def hundredfold():
    """Return a function with the rule of one a hundred times as steep, for reverse mode, which shows where it is used."""

    @functad.custom_vjp
    def f(x, w):
        return np.sin(x) * w

    f.defvjp(lambda x, w: (f(x, w), (np.cos(x), np.sin(x), w)), lambda kept, g: (100 * g * kept[0] * kept[2], g * kept[1]))
    return f


def hundredfold_forward():
    @functad.custom_jvp
    def f(x, w):
        return np.sin(x) * w

    @f.defjvp
    def rule(primals, tangents):
        (x, w), (dx, dw) = primals, tangents
        return f(x, w), 100 * np.cos(x) * dx * w + np.sin(x) * dw

    return f


def exact():
    """Return a function whose rules are right, so that derivatives of all orders can be compared with numerical ones."""

    @functad.custom_vjp
    def f(x, w):
        return np.sin(x["a"]) * w, np.sum(x["b"]) * w

    def forward(x, w):
        return f(x, w), (x, w)

    def backward(kept, g):
        x, w = kept
        return {"a": g[0] * np.cos(x["a"]) * w, "b": np.sum(g[1] * w) * np.ones(2)}, g[0] * np.sin(x["a"]) + g[1] * np.sum(
            x["b"]
        )

    f.defvjp(forward, backward)
    return f


# Which rule is used


@pytest.mark.parametrize("make", [hundredfold, hundredfold_forward])
def test_one_rule_serves_both_modes(make):
    f = make()
    expected = 100 * np.cos(X) * W
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(f(x, W)))(X), expected)
    np.testing.assert_allclose(functad.grad(lambda w: np.sum(f(X, w)))(W), np.sin(X))
    np.testing.assert_allclose(functad.jvp(lambda x: f(x, W), (X,), (np.ones(2),))[1], expected)
    np.testing.assert_allclose(functad.jacobian(f)(X, W), np.diag(expected))
    np.testing.assert_array_equal(f(X, W), np.sin(X) * W)


@pytest.mark.parametrize("make", [hundredfold, hundredfold_forward])
@pytest.mark.parametrize("outer", [lambda h: functad.jvp(h, (X,), (np.ones(2),))[1], lambda h: functad.grad(h)(X)])
def test_nested_transforms_use_the_rule_at_every_level(make, outer):
    """The rule has `f` in it, so its derivative has the factor again: `d/dx (f + 100 f')` is `100 f' + 100 d/dx f'`."""
    f = make()

    def inner(x):
        return np.sum(f(x, W)) + np.sum(functad.grad(lambda x: np.sum(f(x, W)))(x))

    np.testing.assert_allclose(np.sum(outer(inner)), np.sum(100 * np.cos(X) * W - 100 * np.sin(X) * W))


@pytest.mark.parametrize("make", [hundredfold, hundredfold_forward])
def test_jvp_of_jvp_uses_the_rule_for_the_value_too(make):
    f = make()
    value, slope = functad.jvp(lambda x: functad.jvp(lambda x: f(x, W), (x,), (np.ones(2),))[0], (X,), (np.ones(2),))
    np.testing.assert_allclose(slope, 100 * np.cos(X) * W)
    np.testing.assert_array_equal(value, np.sin(X) * W)


def test_each_mode_uses_its_own_rule_where_there_are_two():
    f = hundredfold()
    f.defjvp(lambda primals, tangents: (f(*primals), 7 * tangents[0] + 0 * tangents[1]))
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(f(x, W)))(X), 100 * np.cos(X) * W)
    np.testing.assert_allclose(functad.jvp(lambda x: f(x, W), (X,), (np.ones(2),))[1], [7, 7])


def test_rules_for_each_argument():
    f = functad.custom_jvp(lambda x, y: x**2 * y)
    f.defjvps(lambda t, out, x, y: 2 * t * out / x, None)
    assert functad.grad(f)(3.0, 5.0) == 30
    assert functad.grad(f, 1)(3.0, 5.0) == 0
    f.defjvps(None)
    with pytest.raises(errors.CustomRuleError, match="got 1 rules for 2 arguments"):
        functad.grad(f)(3.0, 5.0)


@pytest.mark.parametrize("order", [3])
def test_derivatives_of_higher_order_are_those_of_the_rules(order):
    f = exact()
    check_grads(lambda x, w: f(x, w), [{"a": X, "b": W}, W], order=order)


def test_higher_order_with_a_jvp_alone():
    f = functad.custom_jvp(lambda x, w: np.sin(x) * w)
    f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * t[0] * p[1] + np.sin(p[0]) * t[1]))
    check_grads(f, [X, W], order=3)


def test_tapes_use_the_rule_also_when_they_are_nested():
    f = exact()
    x, w = functad.Variable(X), functad.constant(W)
    with functad.GradientTape() as outer:
        with functad.GradientTape() as inner:
            y = np.sum(f({"a": x, "b": W}, w)[0] ** 2)
        slope = inner.gradient(y, x)
    second = outer.gradient(slope, x)

    def first(v):
        return functad.grad(lambda v: np.sum((np.sin(v) * W) ** 2))(v)

    np.testing.assert_allclose(slope.numpy(), first(X))
    np.testing.assert_allclose(second.numpy(), central_difference(lambda x: [first(x)], [X], [np.ones_like(X)])[0], rtol=1e-7)
    factor = hundredfold()
    with functad.GradientTape() as tape:
        y = np.sum(factor(x, w))
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 100 * np.cos(X) * W)


def test_printed_list_has_one_equation_which_evaluates_and_differentiates():
    f = hundredfold()
    expressions = functad.make_expressions(lambda x: np.sum(f(x, W)))(X).check()
    assert [e.primitive.name for e in expressions.equations] == ["f", "sum"]
    assert expressions(X) == np.sum(np.sin(X) * W)
    for x in (X, 2 * X):  # each evaluation is a call of its own
        np.testing.assert_allclose(functad.grad(expressions)(x), 100 * np.cos(x) * W)


def test_function_that_needs_values_has_a_shape_all_the_same():
    @functad.custom_vjp
    def f(x):
        return np.array([float(v) for v in x])

    f.defvjp(lambda x: (f(x), None), lambda _, g: (3 * g,))
    assert repr(functad.eval_shape(f, X)) == "float64[2]"
    np.testing.assert_array_equal(functad.grad(lambda x: np.sum(f(x)))(X), [3, 3])


def test_gradient_inside_an_abstract_trace():
    f = hundredfold()
    expressions = functad.make_expressions(functad.grad(lambda x: np.sum(f(x, W))))(X).check()
    np.testing.assert_allclose(expressions(X), 100 * np.cos(X) * W)


def test_nondiff_argnums_come_first():
    @functad.custom_vjp(nondiff_argnums=(1,))
    def apply(x, function, scale):
        return function(x) * scale

    seen = []

    def backward(function, kept, g):
        seen.append(function)
        return 7 * g, None

    apply.defvjp(lambda x, function, scale: (function(x) * scale, None), backward)
    assert functad.grad(apply)(2.0, np.sin, 3.0) == 7
    assert functad.grad(apply, 2)(2.0, np.sin, 3.0) == 0
    assert seen == [np.sin, np.sin]

    @functools.partial(functad.custom_jvp, nondiff_argnums=0)
    def power(n, x):
        return x**n

    power.defjvp(lambda n, primals, tangents: (power(n, *primals), 100 * n * tangents[0]))
    assert functad.grad(power, 1)(3, 2.0) == 300
    assert functad.jvp(lambda x: power(3, x), (2.0,), (1.0,)) == (8, 300)


def test_keywords_and_defaults_take_their_places():
    @functad.custom_vjp
    def f(x, y=2.0, *, power=1):
        return (x * y) ** power

    f.defvjp(lambda x, y, *, power: (f(x, y, power=power), power), lambda power, g: (10 * power * g, 20 * g))
    assert functad.grad(lambda x: f(x))(1.0) == 10
    assert functad.grad(lambda y: f(y=y, x=3.0, power=2))(1.0) == 20
    assert functad.grad(f, argnames="x")(x=1.0, power=3) == 30
    with pytest.raises(errors.CustomRuleError, match=r"kwargs\['power'\] is followed, but is given by name only"):
        functad.grad(lambda p: f(1.0, power=p))(1.0)


def test_methods():
    class Model:
        scale = 3.0

        @functad.custom_vjp
        def loss(self, x):
            return self.scale * x

        loss.defvjp(lambda self, x: (self.loss(x), None), lambda _, g: (None, 50 * g))

    assert functad.grad(Model().loss)(1.0) == 50
    assert Model.loss.__name__ == "loss"


def test_integers_static_leaves_and_integer_results():
    @functad.custom_vjp
    def f(x, options):
        return {"value": x * options["n"], "index": np.argmax(x), "mode": 2}

    f.defvjp(lambda x, o: (f(x, o), o["n"]), lambda n, g: (g["value"] * n * 10, None))

    def loss(x):
        out = f(x, {"n": np.int64(3), "mode": "fast"})
        assert type(out["index"]) is np.int64
        return out["value"][out["index"]]

    np.testing.assert_array_equal(functad.grad(loss)(X), [0, 30])


def test_complex_numbers_have_the_convention_of_transforms():
    f = functad.custom_vjp(lambda z: z * z)
    f.defvjp(lambda z: (f(z), z), lambda z, g: (2 * g * z,))
    z = 1.0 + 2.0j
    assert functad.grad(lambda z: f(z).real)(z) == functad.grad(lambda z: (z * z).real)(z)


# What is checked


def given(backward, forward=lambda p: (p["w"][0] * 1.0, None)):
    f = functad.custom_vjp(lambda p: p["w"][0] * 1.0)
    f.defvjp(forward, backward)
    return functad.grad(f)


POINT = {"w": [np.ones(2), 3.0], "n": 1.0}


@pytest.mark.parametrize(
    ("cotangents", "message"),
    [
        (lambda g: g, "returned a Tensor|returned a ndarray for 1 arguments, at .*: return a tuple, \\(g,\\)"),
        (lambda g: (g, g), "returned 2 cotangents for 1 arguments"),
        (
            lambda g: ({"w": [np.ones(3), None], "n": None},),
            r"of args\[0\]\['w'\]\[0\] is float64\[3\], but the argument is float64\[2\]",
        ),
        (lambda g: ({"w": [1j * g, None], "n": None},), r"of args\[0\]\['w'\]\[0\] is complex128\[2\], but"),
        (lambda g: ({"w": [g, "x"], "n": None},), r"of args\[0\]\['w'\]\[1\] is a str, not an array"),
        (lambda g: ({"w": (g, None), "n": None},), r"args\[0\]\['w'\] should be a list of 2, not a tuple of 2"),
        (lambda g: ({"w": [g, None]},), r"args\[0\] should be a dict with keys \['n', 'w'\], not a dict with keys \['w'\]"),
    ],
)
def test_cotangents_that_do_not_fit_are_named(cotangents, message):
    f = functad.custom_vjp(lambda p: p["w"][0] * 1.0)
    f.defvjp(lambda p: (f(p), None), lambda _, g: cotangents(g))
    with pytest.raises(errors.CustomRuleError, match=message) as caught:
        functad.grad(lambda p: np.sum(f(p)))(POINT)
    assert "test_custom.py:" in str(caught.value)


def test_none_stands_for_zero_in_any_branch():
    f = functad.custom_vjp(lambda p: p["w"][0] * p["w"][1])
    f.defvjp(lambda p: (f(p), None), lambda _, g: ({"w": None, "n": 5.0},))
    found = functad.grad(lambda p: np.sum(f(p)))(POINT)
    np.testing.assert_array_equal(found["w"][0], [0, 0])
    assert (found["w"][1], found["n"]) == (0, 5)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x, t: x, "must return a pair, the value and its tangent, not a ndarray"),
        (lambda x, t: ([x], [t]), "the value should be a leaf, not a list of 1"),
        (lambda x, t: (x, t[:1]), r"the tangent of result is float64\[1\], but the result is float64\[2\]"),
        (lambda x, t: (x, 1j * t), "the tangent of result is complex128"),
    ],
)
def test_tangents_that_do_not_fit_are_named(result, message):
    f = functad.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda p, t: result(np.asarray(p[0]), t[0]))
    with pytest.raises(errors.CustomRuleError, match=message):
        functad.jvp(f, (X,), (X,))


def test_precisions_are_cast_to_those_of_the_arguments():
    f = functad.custom_vjp(lambda x: x * np.float32(2))
    f.defvjp(lambda x: (f(x), None), lambda _, g: (np.float64(2.0) * g.astype(float),))
    assert functad.grad(lambda x: np.sum(f(x)))(X.astype(np.float32)).dtype == np.float32


def test_forward_rule_must_return_a_pair():
    f = functad.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: [f(x), None], lambda _, g: (g,))
    with pytest.raises(
        errors.CustomRuleError, match="must return a pair, the value and the residuals of the backward rule, not a list"
    ):
        functad.grad(f)(1.0)


@pytest.mark.parametrize(
    ("make", "cure"), [(functad.custom_vjp, r"call f.defvjp\(fwd, bwd\)"), (functad.custom_jvp, r"f.defjvp\(rule\)")]
)
def test_function_without_a_rule_is_refused_only_when_it_is_differentiated(make, cure):
    @make
    def f(x):
        return x * 2

    assert f(2.0) == 4
    with pytest.raises(errors.CustomRuleError, match=cure):
        functad.grad(f)(1.0)
    with pytest.raises(errors.InputError, match="needs a function"):
        make(3)


# Tensors that are no arguments


def closing(y, *, rule_too=False):
    k = functad.custom_vjp(lambda x: x * y)
    k.defvjp(lambda x: ((x * 2 if rule_too else k(x)), None), lambda _, g: (g * y,))
    return k


def test_tensor_of_the_same_trace_is_refused():
    with pytest.raises(errors.CustomRuleError, match=r"test_custom.py:\d+, or its rule, uses a Tensor .* Make it an argument"):
        functad.grad(lambda y: closing(y)(2.0 * y))(3.0)
    with pytest.raises(errors.CustomRuleError, match="Make it an argument"):
        functad.make_expressions(lambda y: closing(y)(2.0 * y))(3.0)
    with pytest.raises(errors.CustomRuleError, match="Make it an argument"):
        functad.jvp(lambda y: closing(y)(2.0 * y), (3.0,), (1.0,))


def test_tensor_in_the_rule_alone_is_refused():
    with pytest.raises(errors.CustomRuleError, match="Make it an argument"):
        functad.grad(lambda y: closing(y, rule_too=True)(2.0 * y))(3.0)


def test_tensor_of_an_outer_trace_is_followed():
    """`d/dy` of `d/dx (x y)^2`, which is `2 x y^2`."""

    def slope(y):
        return functad.grad(lambda x: closing(y)(x) ** 2)(3.0)

    assert slope(5.0) == 150
    assert functad.grad(slope)(5.0) == 60
    assert functad.jvp(slope, (5.0,), (1.0,))[1] == 60


def test_variable_that_is_no_argument_is_refused():
    y = functad.Variable(2.0)
    with functad.GradientTape() as tape:
        x = functad.constant(3.0)
        tape.watch(x)
        with pytest.raises(errors.CustomRuleError, match="Make it an argument"):
            closing(y)(x)


def test_followed_nondiff_argument_is_refused():
    f = functad.custom_vjp(lambda x, y: x * y, nondiff_argnums=1)
    f.defvjp(lambda x, y: (f(x, y), None), lambda y, _, g: (g * y,))
    with pytest.raises(errors.CustomRuleError, match=r"args\[1\] is followed, but is among nondiff_argnums"):
        functad.grad(lambda x: f(x, x))(1.0)


# What is handed around


def test_cotangents_cannot_be_written_into_and_gradients_are_the_users_own():
    f = functad.custom_vjp(lambda x: x * 1.0)

    def backward(kept, g):
        with pytest.raises(ValueError, match="read-only"):
            g *= 2
        return (kept,)

    f.defvjp(lambda x: (f(x), x), backward)
    x = X.copy()
    found = functad.grad(lambda x: np.sum(f(x)))(x)
    found[:] = 0
    np.testing.assert_array_equal(x, X)


def test_constants_overwritten_later_do_not_change_the_gradient():
    f = functad.custom_vjp(lambda x, c: x * c)
    f.defvjp(lambda x, c: (f(x, c), c), lambda c, g: (g * c, None))
    c = np.array([2.0, 3.0])

    def loss(x):
        y = f(x, c)
        c[:] = 0
        return np.sum(y)

    np.testing.assert_array_equal(functad.grad(loss)(X), [2, 3])


def test_what_a_rule_keeps_is_free_with_the_record():
    class Kept:
        pass

    kept = []

    def forward(x):
        thing = Kept()
        kept.append(weakref.ref(thing))
        return x * 2, thing

    f = functad.custom_vjp(lambda x: x * 2)
    f.defvjp(forward, lambda thing, g: (g * 3,))
    assert functad.grad(f)(1.0) == 3
    assert kept[0]() is None


def test_forward_rule_runs_once_for_a_gradient_and_not_at_all_without():
    runs = []
    f = functad.custom_vjp(lambda x: (runs.append("f"), x * 2)[1])
    f.defvjp(lambda x: (runs.append("fwd"), (x * 2, None))[1], lambda _, g: (g,))
    f(1.0)
    functad.grad(f)(1.0)
    assert runs == ["f", "fwd"]
    functad.grad(f)(2.0)
    assert runs == ["f", "fwd", "fwd"]


def test_functions_that_are_random_can_have_rules():
    generator = np.random.default_rng(0)
    noisy = functad.custom_vjp(lambda x: x + generator.normal())
    noisy.defvjp(lambda x: (x + generator.normal(), None), lambda kept, g: (g,))
    assert functad.grad(noisy)(1.0) == 1.0


@pytest.mark.parametrize("shape", [(1, 2), (3,), ()])
def test_tangents_of_another_shape_than_the_value_are_refused(shape):
    f = functad.custom_jvp(lambda x: np.sin(x))
    f.defjvp(lambda primals, tangents: (np.ones(shape), np.ones(shape)))
    ways = {
        "jvp": lambda: functad.jvp(f, (X,), (X,)),
        "grad": lambda: functad.grad(lambda x: np.sum(f(x)))(X),
        "vmap": lambda: functad.vmap(functad.grad(lambda x: np.sum(f(x))))(np.ones((3, 2))),
        "make_expressions": lambda: functad.make_expressions(functad.grad(lambda x: np.sum(f(x))))(X),
    }
    for way in ways.values():
        with pytest.raises(
            errors.CustomRuleError, match=r"the JVP rule of .* returned a tangent float64.* for a result float64\[(3,)?2\]"
        ):
            way()


def test_functions_without_a_signature_can_have_rules():
    f = functad.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), np.cos(x)), lambda kept, g: (3.0 * g * kept,))
    np.testing.assert_allclose(functad.grad(f)(1.0), 3.0 * np.cos(1.0))
    np.testing.assert_allclose(functad.vmap(functad.grad(f))(np.ones(2)), 3.0 * np.cos(1.0))


@pytest.mark.parametrize("transform", [functad.custom_vjp, functad.custom_jvp])
@pytest.mark.parametrize("wrong", ["x", 0.5, (0, None)], ids=repr)
def test_positions_that_are_none(transform, wrong):
    with pytest.raises(errors.InputError, match=rf"^{transform.__name__} of sin, at .*nondiff_argnums is .*it is the position"):
        transform(np.sin, nondiff_argnums=wrong)


def test_equations_of_calls_carry_the_list_of_what_they_compute():
    simulated = functad.numerical_primitive(lambda x: np.sin(np.asarray(x)), name="simulated")
    calls = {"f": lambda x: hundredfold()(x, W), "checkpoint": functad.checkpoint(lambda x: np.sin(x) * W)}
    for f in calls.values():
        (equation,) = functad.make_expressions(f)(X).equations
        inner = equation.primitive.inner.check()
        assert [e.primitive.name for e in inner.equations] == ["sin", "multiply"]
        assert len(inner.inputs) == len(equation.inputs)
        np.testing.assert_array_equal(inner(*[X, W][: len(inner.inputs)])[0], np.sin(X) * W)
    (equation,) = functad.make_expressions(simulated)(X).equations
    assert equation.primitive.inner is None


@pytest.mark.parametrize("make", [functad.custom_vjp, functad.custom_jvp])
@pytest.mark.parametrize("argnums", [1, -1, (-1,), (1, -1)])
def test_nondiff_argnums_count_from_the_end_too(make, argnums):
    f = make(lambda x, n: x**n, nondiff_argnums=argnums)
    if make is functad.custom_vjp:
        f.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (g * n * x ** (n - 1),))
    else:
        f.defjvp(lambda n, primals, tangents: (primals[0] ** n, n * primals[0] ** (n - 1) * tangents[0]))
    numerical = (1.5 + 1e-6) ** 3 - (1.5 - 1e-6) ** 3
    np.testing.assert_allclose(functad.grad(lambda x: f(x, 3))(1.5), numerical / 2e-6, rtol=1e-8)


@pytest.mark.parametrize("make", [functad.custom_vjp, functad.custom_jvp])
def test_nondiff_argnums_that_the_function_lacks_are_refused(make):
    for f, argnums in ((lambda x, n: x, 7), (lambda x, n: x, (0, -3)), (lambda *xs: xs[0], -1)):
        with pytest.raises(functad.errors.InputError, match=r"nondiff_argnums has .*Give positions from 0 on"):
            make(f, nondiff_argnums=argnums)
