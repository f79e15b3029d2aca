"""Tapes, functions of arguments, functions of Variables and transforms, nested in one another in each ordered pair.

Each style gives the derivative of a function of one number. The second derivative of a function, the outer style applied to
the inner one, is compared with what mpmath computes from values of the function alone.
"""

import itertools

import mpmath
import numpy as np
import pytest

import functad
from functad import (
    ForwardAccumulator,
    GradientTape,
    gradients,
    gradients_function,
    graph,
    implicit_gradients,
    make_vjp,
    value_and_gradients_function,
)


def by_tape(f):
    def derivative(x):
        x = x if isinstance(x, functad.Tensor) else functad.constant(x)
        with GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return derivative


def by_persistent_tape(f):
    def derivative(x):
        x = x * 1.0 if isinstance(x, functad.Tensor) else functad.constant(x)
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        return (tape.gradient(y, x) + tape.gradient(y, x)) / 2

    return derivative


def by_tape_jacobian(f):
    def derivative(x):
        x = x * 1.0 if isinstance(x, functad.Tensor) else functad.constant(x)
        with GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.jacobian(y, x)

    return derivative


def by_gradients_function(f):
    return lambda x: gradients_function(f)(x)[0]


def by_value_and_gradients_function(f):
    return lambda x: value_and_gradients_function(f, [0])(x)[1][0]


def by_make_vjp(f):
    return lambda x: make_vjp(f)(x)[1]()[0]


def by_implicit_gradients(f):
    """Differentiate by a Variable that stands at 0, beside the argument."""

    def derivative(x):
        v = functad.Variable(0.0)
        pairs = implicit_gradients(lambda: f(x + v))()
        return next(g for g, variable in pairs if variable is v)  # there may be more, made further in

    return derivative


def by_accumulator(f):
    def derivative(x):
        x = x * 1.0 if isinstance(x, functad.Tensor) else functad.constant(x)
        with ForwardAccumulator(x, 1.0) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    return derivative


def by_graph(f):
    def derivative(x):
        with graph():
            x = functad.constant(x)
            y = f(x)
            (g,) = gradients(y, x)
        return g

    return derivative


def by_jvp(f):
    return lambda x: functad.jvp(f, (x,), (1.0,))[1]


def by_vjp(f):
    def derivative(x):
        y, pull = functad.vjp(f, x)
        return pull(np.ones_like(y))[0]

    return derivative


STYLES = {
    "tape": by_tape,
    "persistent-tape": by_persistent_tape,
    "tape-jacobian": by_tape_jacobian,
    "gradients_function": by_gradients_function,
    "value_and_gradients_function": by_value_and_gradients_function,
    "make_vjp": by_make_vjp,
    "implicit_gradients": by_implicit_gradients,
    "accumulator": by_accumulator,
    "graph": by_graph,
    "grad": functad.grad,
    "jvp": by_jvp,
    "vjp": by_vjp,
    "jacobian": functad.jacobian,
}


def program(x):
    """Return a number by way of operators, ufuncs, reductions, indexing and a branch."""
    a = np.stack([x, x * x, np.sin(x)])
    y = np.sum(np.exp(a[::2]) * a[1]) / (1 + a[0] ** 2)
    return y if x > 0 else -y


def exact(x):
    """Return the same for mpmath."""
    return (mpmath.exp(x) + mpmath.exp(mpmath.sin(x))) * x * x / (1 + x * x)


def expected(order):
    return float(mpmath.diff(exact, 0.7, order))


@pytest.mark.parametrize("style", STYLES)
def test_first_derivative(style):
    assert float(STYLES[style](program)(0.7)) == pytest.approx(expected(1), rel=1e-12)


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(STYLES, STYLES)))
def test_each_style_in_each_other(outer, inner):
    found = STYLES[outer](STYLES[inner](program))(0.7)
    assert float(found) == pytest.approx(expected(2), rel=1e-11)


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(STYLES, STYLES)))
def test_outer_variable_in_the_inner_function(outer, inner):
    """The inner derivative is by one argument, of a function that reads the outer one too."""

    def f(a):
        return STYLES[inner](lambda x: np.sin(a * x) * x)(2.0) * a

    def slope(a):
        return a * (a * mpmath.cos(2 * a) * 2 + mpmath.sin(2 * a))

    found = STYLES[outer](f)(0.7)
    assert float(found) == pytest.approx(float(mpmath.diff(slope, 0.7)), rel=1e-10)


@pytest.mark.parametrize("style", STYLES)
def test_hessian_around_each_style_and_in_it(style):
    outside = functad.hessian(lambda x: STYLES[style](program)(x))(0.7)
    inside = STYLES[style](lambda x: functad.hessian(program)(x))(0.7)
    assert float(outside) == pytest.approx(expected(3), rel=1e-10)
    assert float(inside) == pytest.approx(expected(3), rel=1e-10)


def branchless(x):
    """Return a number without a branch, which examples of a batch may not share."""
    return np.sin(x) * np.exp(x) + x**3


@pytest.mark.parametrize("style", STYLES)
def test_vmap_around_each_style_and_in_it(style):
    points = np.array([0.3, 0.7, 1.1])
    first = [float(mpmath.diff(lambda x: mpmath.sin(x) * mpmath.exp(x) + x**3, point)) for point in points]
    second = [float(mpmath.diff(lambda x: mpmath.sin(x) * mpmath.exp(x) + x**3, point, 2)) for point in points]
    np.testing.assert_allclose(functad.vmap(STYLES[style](branchless))(points), first, rtol=1e-12)
    np.testing.assert_allclose(functad.vmap(functad.grad(STYLES[style](branchless)))(points), second, rtol=1e-12)

    def mapped(scale):
        return np.sum(functad.vmap(branchless)(points * scale))

    assert float(STYLES[style](mapped)(1.0)) == pytest.approx(points @ first, rel=1e-12)


@pytest.mark.parametrize(
    "styles", list(itertools.product(["tape", "implicit_gradients", "accumulator", "grad", "jvp", "graph"], repeat=3))
)
def test_three_styles_in_one_another(styles):
    f = program
    for style in styles:
        f = STYLES[style](f)
    assert float(f(0.7)) == pytest.approx(expected(3), rel=1e-9)


# Variables across styles


def test_tape_around_transforms_follows_variables():
    v = functad.Variable(2.0)
    with GradientTape() as tape:
        y = functad.grad(lambda x: np.sin(x * v))(0.5)
    expected = mpmath.diff(lambda a: a * mpmath.cos(a * 0.5), 2.0)
    assert float(tape.gradient(y, v)) == pytest.approx(float(expected))


def test_transform_around_a_tape_that_follows_variables():
    v = functad.Variable(2.0)

    def f(x):
        with GradientTape() as tape:
            y = np.sin(x * v) * v
        return tape.gradient(y, v)

    expected = mpmath.diff(lambda x: mpmath.diff(lambda a: mpmath.sin(x * a) * a, 2.0), 0.5)
    assert functad.grad(f)(0.5) == pytest.approx(float(expected))
    assert functad.jvp(f, (0.5,), (1.0,))[1] == pytest.approx(float(expected))


def test_implicit_gradients_around_a_function_that_uses_a_tape():
    v = functad.Variable(2.0)

    def f():
        with GradientTape() as tape:
            y = v**3
        return tape.gradient(y, v) * v

    assert float(implicit_gradients(f)()[0][0]) == pytest.approx(float(mpmath.diff(lambda a: 3 * a**3, 2.0)))


def test_tape_inside_a_transform_by_the_outer_argument():
    def f(a):
        with GradientTape() as tape:
            tape.watch(a)
            y = a**3
        return tape.gradient(y, a)

    assert functad.grad(f)(3.0) == 18
    assert functad.value_and_grad(f)(3.0) == (27, 18)
    assert isinstance(functad.grad(f)(3.0), np.floating)


def test_results_of_transforms_are_arrays_and_of_tapes_tensors():
    assert type(by_tape(program)(0.7)) is functad.Tensor
    assert type(functad.grad(by_tape(program))(0.7)) is np.float64
    assert type(by_tape(functad.grad(program))(0.7)) is functad.Tensor


# Abstract traces


def smooth(x):
    return np.sum(np.exp(np.sin(x)) * x)


ABSTRACT = ["tape", "persistent-tape", "gradients_function", "make_vjp", "implicit_gradients", "grad", "vjp"]


@pytest.mark.parametrize("style", ABSTRACT)
def test_styles_in_make_expressions(style):
    expressions = functad.make_expressions(STYLES[style](smooth))(np.zeros(()))
    expressions.check()
    exact = mpmath.diff(lambda x: mpmath.exp(mpmath.sin(x)) * x, 0.7)
    assert float(expressions(np.float64(0.7))) == pytest.approx(float(exact), rel=1e-12)
    assert functad.eval_shape(STYLES[style](smooth), np.zeros(())).shape == ()


def test_tape_in_make_expressions_prints_its_derivative():
    def slope(x):
        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x)

    text = repr(functad.make_expressions(slope)(1.0))
    assert "multiply" in text
    assert "lambda x:float[]" in text


def test_second_order_in_make_expressions():
    expressions = functad.make_expressions(by_tape(by_tape(smooth)))(0.5)
    exact = mpmath.diff(lambda x: mpmath.exp(mpmath.sin(x)) * x, 0.7, 2)
    assert float(expressions(0.7)) == pytest.approx(float(exact), rel=1e-11)


def test_expressions_that_use_a_tape_are_differentiable():
    expressions = functad.make_expressions(by_tape(smooth))(0.5)
    exact = mpmath.diff(lambda x: mpmath.exp(mpmath.sin(x)) * x, 0.7, 2)
    assert functad.grad(expressions)(0.7) == pytest.approx(float(exact), rel=1e-11)
    assert float(by_tape(expressions)(0.7)) == pytest.approx(float(exact), rel=1e-11)
