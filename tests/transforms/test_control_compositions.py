"""Control flow under every transform and pair of transforms: against the same program with Python's loops.

Those are differentiated by recording each operation, which the rules of loops have no part in; and the values that both are
derivatives of are compared with numerical derivatives.
"""

import functools

import numpy as np
import pytest

import functad
from functad.testing import check_grads

W = np.array([[0.5, -0.2], [0.1, 0.3]])
XS = np.sin(np.arange(6.0)).reshape(3, 2)


# Programs: with functad's control flow, with Python's, and arguments. They return one number.


def rnn(w, h, xs):
    def step(h, x):
        h = np.tanh(w @ h + x)
        return h, {"energy": np.sum(h * h)}

    h, ys = functad.scan(step, h, xs)
    return np.sum(h) + np.sum(ys["energy"] ** 2)


def rnn_by_hand(w, h, xs):
    total = 0.0
    for i in range(3):
        h = np.tanh(w @ h + xs[i])
        total = total + np.sum(h * h) ** 2
    return np.sum(h) + total


def backwards(w, h, xs):
    carry, ys = functad.scan(lambda c, x: ((c[0] * np.exp(w[0] @ x), c[1] + 1), c[0] * x), (h[0], 0), xs, reverse=True)
    return carry[0] * carry[1] + np.sum(ys[0] * ys[1] * ys[2])


def backwards_by_hand(w, h, xs):
    c, product = h[0], 1.0
    for i in (2, 1, 0):
        product = product * (c * xs[i])
        c = c * np.exp(w[0] @ xs[i])
    return c * 3 + np.sum(product)


def newton(w, h, xs):
    """The square root of a positive number, to the last digit: the number of steps depends on the values."""
    a = np.sum(w * w) + h[0] ** 2

    def more(state):
        return abs(state["x"] ** 2 - a) > 1e-13 * a

    def step(state):
        return {"x": (state["x"] + a / state["x"]) / 2, "n": state["n"] + 1}

    return functad.while_loop(more, step, {"x": a + xs[0, 0] ** 2, "n": 0})["x"] * h[1]


def newton_by_hand(w, h, xs):
    a = np.sum(w * w) + h[0] ** 2
    x = a + xs[0, 0] ** 2
    while abs(x**2 - a) > 1e-13 * a:
        x = (x + a / x) / 2
    return x * h[1]


def growth(w, h, xs):
    """Repeated until a bound is passed: no fixed point, so the derivative by the start stays."""
    y, _ = functad.while_loop(
        lambda s: np.sum(s[0] ** 2) < 50.0, lambda s: (w @ s[0] * 2 + s[0] + s[1] * 0.1, s[1] + 1), (h, 1)
    )
    return np.sum(np.sin(y)) + np.sum(xs * xs)


def growth_by_hand(w, h, xs):
    k = 1
    while np.sum(h**2) < 50.0:
        h, k = w @ h * 2 + h + k * 0.1, k + 1
    return np.sum(np.sin(h)) + np.sum(xs * xs)


def counted(w, h, xs):
    return np.sum(functad.fori_loop(1, 4, lambda i, c: np.tanh(w @ c) * i + h[0] * c**2, h)) + np.sum(xs**3)


def counted_by_hand(w, h, xs):
    c = h
    for i in range(1, 4):
        c = np.tanh(w @ c) * i + h[0] * c**2
    return np.sum(c) + np.sum(xs**3)


def chosen(w, h, xs):
    y = functad.cond(h[0] > 0, lambda h, k: np.sin(w @ h) * k, lambda h, k: h * h, h, xs[0, 0])
    z = functad.cond(h[1] > 0, lambda: y[0] ** 3, lambda: np.exp(y[1]))
    return z + functad.switch((h[0] > -0.2) * 1 + (h[1] > 0), [np.sum, np.prod, lambda y: y @ y], y + xs[1])


def chosen_by_hand(w, h, xs):
    y = np.sin(w @ h) * xs[0, 0] if h[0] > 0 else h * h
    z = y[0] ** 3 if h[1] > 0 else np.exp(y[1])
    return z + [np.sum, np.prod, lambda y: y @ y][int(h[0] > -0.2) + int(h[1] > 0)](y + xs[1])


def nested(w, h, xs):
    def step(c, x):
        c = functad.while_loop(lambda d: np.sum(d * d) < 4.0, lambda d: d * 1.5 + w[0] * 0.1, c + x)
        return functad.cond(c[0] > c[1], lambda c: np.sin(c) * w[1], lambda c: np.cos(c), c), c[0]

    c, ys = functad.scan(step, h, xs)
    return np.sum(c) + np.sum(functad.map(lambda y: functad.fori_loop(0, 2, lambda i, z: z * y + h[1], 1.0), ys))


def nested_by_hand(w, h, xs):
    c, total = h, 0.0
    for i in range(3):
        c = c + xs[i]
        while np.sum(c * c) < 4.0:
            c = c * 1.5 + w[0] * 0.1
        y = c[0]
        c = np.sin(c) * w[1] if c[0] > c[1] else np.cos(c)
        total = total + (y + h[1]) * y + h[1]
    return np.sum(c) + total


def inner_gradient(w, h, xs):
    """A gradient is taken in each step, of a function that has a loop itself."""

    def energy(c, x):
        return functad.fori_loop(0, 2, lambda i, e: e + np.sum(np.sin(w @ c + x) ** 2) * 0.3, 0.0)

    return np.sum(functad.scan(lambda c, x: (c - functad.grad(energy)(c, x), None), h, xs)[0] ** 2)


def inner_gradient_by_hand(w, h, xs):
    def energy(c, x):
        return np.sum(np.sin(w @ c + x) ** 2) * 0.6

    for i in range(3):
        h = h - functad.grad(energy)(h, xs[i])
    return np.sum(h**2)


def partial_products(w, h, xs):
    def compose(a, b):
        return b @ a

    return np.sum(functad.associative_scan(compose, xs[:, :, None] * w + h) ** 2)


def partial_products_by_hand(w, h, xs):
    m, total = np.eye(2), 0.0
    for i in range(3):
        m = (xs[i][:, None] * w + h) @ m
        total = total + np.sum(m**2)
    return total


PROGRAMS = {
    f.__name__: (f, by_hand)
    for f, by_hand in [
        (rnn, rnn_by_hand),
        (backwards, backwards_by_hand),
        (newton, newton_by_hand),
        (growth, growth_by_hand),
        (counted, counted_by_hand),
        (chosen, chosen_by_hand),
        (nested, nested_by_hand),
        (inner_gradient, inner_gradient_by_hand),
        (partial_products, partial_products_by_hand),
    ]
}
ARGS = W, np.array([0.3, 0.6]), XS
BATCH = tuple(np.stack([x, 0.7 * x, -0.5 * x, 1.3 * x[::-1]]) for x in ARGS)


# Transforms: from a function of (w, h, xs) that returns a number to one that returns a vector or number


def _flat(tree):
    leaves = [tree] if not isinstance(tree, tuple) else tree
    return np.concatenate([np.reshape(leaf, (-1,)) for leaf in leaves])


def value(f):
    return f


def gradient(f):
    return lambda *args: _flat(functad.grad(f, (0, 1, 2))(*args))


def directional(f):
    return lambda *args: functad.jvp(f, args, tuple(np.cos(np.arange(np.size(a))).reshape(np.shape(a)) for a in args))[1]


def along_h(f):
    return lambda w, h, xs: functad.jvp(lambda h: f(w, h, xs), (h,), (np.array([1.0, -2.0]),))[1]


def number(f):
    """Make a number of what a transform returned, so that another can follow."""
    return lambda *args: np.sum(np.sin(np.arange(1.0, 1.0 + np.size(f(*args)))) * np.reshape(f(*args), (-1,)))


def jacobian_by_h(f):
    return lambda *args: functad.jacobian(f, 1)(*args)


FIRST = {"value": value, "grad": gradient, "jvp": directional, "jacobian": jacobian_by_h}
SECOND = {
    "grad of grad": lambda f: gradient(number(gradient(f))),
    "grad of jvp": lambda f: gradient(number(directional(f))),
    "jvp of grad": lambda f: directional(gradient(f)),
    "jvp of jvp": lambda f: along_h(directional(f)),
    "hessian": lambda f: jacobian_by_h(functad.grad(f, 1)),
}
THIRD = {
    "jvp of grad of grad": lambda f: along_h(gradient(number(lambda *args: functad.grad(f, 1)(*args)))),
    "grad of jvp of grad": lambda f: gradient(number(along_h(functad.grad(f, 1)))),
}

# Modes: how a transform of a program is evaluated. Each gives the results for all examples of `BATCH`.


def _each(f):
    return np.stack([f(*[a[i] for a in BATCH]) for i in range(len(BATCH[0]))])


def _listed(f):
    return functad.make_expressions(f)(*ARGS).check()


MODES = {
    "direct": lambda t, f: _each(t(f)),
    "listed": lambda t, f: _each(_listed(t(f))),
    "of a list": lambda t, f: _each(t(_listed(f))),
    "list of a list": lambda t, f: _each(_listed(t(_listed(f)))),
    "vmap": lambda t, f: functad.vmap(t(f))(*BATCH),
    "vmap listed": lambda t, f: functad.make_expressions(functad.vmap(t(f)))(*BATCH).check()(*BATCH),
    "vmap of a list": lambda t, f: functad.vmap(_listed(t(f)))(*BATCH),
    "vmap of a transformed list": lambda t, f: functad.vmap(t(_listed(f)))(*BATCH),
    "nested vmap": lambda t, f: functad.vmap(lambda *a: functad.vmap(t(f), in_axes=(None, 0, None))(a[0], a[1][None], a[2])[0])(
        *BATCH
    ),
}

USUAL = ["direct", "listed", "of a list", "vmap"]

# Where all branches are computed, some make no sense. Which primitives have batching rules is tested with these.
pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow", "ignore:invalid value", "ignore:divide by zero", "ignore::functad.errors.LoopWarning"
)


@functools.cache
def _expected(transform, program):
    """Return what a transform of a program without control flow of functad gives, the same for every mode."""
    expected = _each(transform(PROGRAMS[program][1]))
    assert np.isfinite(expected).all()
    return expected


def compare(transform, program, mode):
    expected = _expected(transform, program)
    found = MODES[mode](transform, PROGRAMS[program][0])
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transform", FIRST)
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_transform(program, transform, mode):
    compare(FIRST[transform], program, mode)


@pytest.mark.parametrize("mode", [mode if mode in USUAL else pytest.param(mode, marks=pytest.mark.slow) for mode in MODES])
@pytest.mark.parametrize("transform", SECOND)
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_transforms(program, transform, mode):
    compare(SECOND[transform], program, mode)


@pytest.mark.parametrize("mode", USUAL)
@pytest.mark.parametrize("transform", THIRD)
@pytest.mark.parametrize("program", ["rnn", "growth", "chosen"])
def test_three_transforms(program, transform, mode):
    compare(THIRD[transform], program, mode)


@pytest.mark.parametrize("program", PROGRAMS)
def test_numerical_derivatives(program):
    f, by_hand = PROGRAMS[program]
    check_grads(f, ARGS, order=2, atol=1e-6, rtol=1e-5)
    check_grads(_listed(f), ARGS, order=2, atol=1e-6, rtol=1e-5)
    check_grads(by_hand, ARGS, order=1, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", ["direct", "listed"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_gradient_of_a_batched_program(program, mode):
    f, by_hand = PROGRAMS[program]
    expected = np.concatenate(
        [np.ravel(g) for g in functad.grad(lambda *b: np.sum(_each_of(by_hand, b) ** 2), (0, 1, 2))(*BATCH)]
    )

    def total(*batch):
        return np.sum(functad.vmap(f)(*batch) ** 2)

    g = gradient(total)
    found = g(*BATCH) if mode == "direct" else functad.make_expressions(g)(*BATCH).check()(*BATCH)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def _each_of(f, batch):
    return np.stack([f(*[a[i] for a in batch]) for i in range(len(batch[0]))])


# What programs over floats do not reach


def test_integers_in_a_carry_have_no_part_in_derivatives():
    def f(x):
        return functad.scan(lambda c, i: ((c[0] * x * c[1], c[1] + i), c[1] * i), (1.0, np.int64(1)), np.arange(4))[0][0]

    def g(x):
        step = lambda s: (s[0] * x * s[1], s[1] + 1)  # noqa: E731
        return functad.while_loop(lambda s: s[1] < 5, step, (1.0, np.int64(1)))[0]

    for h, factor in ((f, 1 * 1 * 2 * 4), (g, 24)):
        for transform in (functad.grad, lambda h: lambda x: functad.jvp(h, (x,), (1.0,))[1]):
            assert transform(h)(2.0) == factor * 32.0
            assert functad.make_expressions(transform(h))(2.0).check()(2.0) == factor * 32.0


@pytest.mark.parametrize("n", [0, 1])
def test_no_steps_or_one(n):
    def f(x):
        c, ys = functad.scan(lambda c, r: (c * r * x, c + r), x, np.full(n, 3.0))
        return c + np.sum(ys) + functad.while_loop(lambda s: s[1] < n, lambda s: (s[0] * x, s[1] + 1), (x, 0))[0]

    expected = {0: 2.0, 1: 2 * 3.0 * 2.0 + 1.0 + 2 * 2.0}[n]
    for g in (functad.grad(f), lambda x: functad.jvp(f, (x,), (1.0,))[1]):
        assert g(2.0) == functad.make_expressions(g)(2.0).check()(2.0) == expected
        np.testing.assert_array_equal(functad.vmap(g)(np.full(2, 2.0)), [expected] * 2)


def test_complex_carries():
    def f(z):
        c = functad.scan(lambda c, _: (c * c * 0.5 + z, c), z, length=3)[0]
        d = functad.while_loop(lambda d: np.abs(d) < 2, lambda d: d * (1.1 + 0.3j) + z, c)
        return np.abs(functad.cond(d.real > 0, lambda d: d * d, np.conj, d)) ** 2

    z = 0.3 + 0.2j
    g = functad.grad(f)
    check_grads(f, [z], order=2)
    np.testing.assert_allclose(functad.make_expressions(g)(z).check()(z), g(z), rtol=1e-12)
    np.testing.assert_allclose(functad.vmap(g)(np.array([z, 1j * z])), [g(z), g(1j * z)], rtol=1e-12)


def test_derivatives_by_some_arguments_only():
    """What need not be differentiated is not: the backward list has cotangents of what was asked for alone."""

    def f(w, h, xs):
        return functad.scan(lambda h, x: (np.sin(w @ h + x), None), h, xs)[0].sum()

    expressions = functad.make_expressions(functad.grad(f, 1))(*ARGS).check()
    backward = [e for e in expressions.equations if e.primitive.name == "scan"][1]
    assert [repr(expressions.specs[slot]) for slot in backward.outputs] == ["float64[2]"]
    np.testing.assert_allclose(expressions(*ARGS), functad.grad(f, 1)(*ARGS), rtol=1e-12)


def test_per_example_number_of_steps():
    def f(x, n):
        return functad.fori_loop(0, n, lambda i, y: y * x + i, 1.0)

    xs, ns = np.array([0.5, 2.0, 3.0, 1.5]), np.array([0, 1, 3, 2])
    for transform in (value, functad.grad, lambda f: functad.grad(functad.grad(f))):
        expected = [transform(f)(x, n) for x, n in zip(xs, ns, strict=True)]
        np.testing.assert_allclose(functad.vmap(transform(f))(xs, ns), expected, rtol=1e-12)
        listed = functad.make_expressions(functad.vmap(transform(f)))(xs, ns).check()
        np.testing.assert_allclose(listed(xs, ns), expected, rtol=1e-12)
