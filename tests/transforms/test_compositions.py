"""Transforms of transforms: every ordered pair, against loops and differences of the inner one, and triples that users write.

Each transform is written as an operator on functions from R^3 to R^3, beside what it should give by numbers alone. For a pair
the inner transform is applied by functad in both, the outer one by functad on one side and by differences or a loop on the
other; that the inner one is right is `test_alone`.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import functad
from functad.testing import central_difference

Function = Callable[[np.ndarray], np.ndarray]

RNG = np.random.default_rng(11)
X = np.array([0.4, -0.7, 1.1])
V = np.array([0.5, 1.0, -0.8])
W = np.array([1.0, -0.3, 0.6])
A = RNG.normal(size=(3, 3)) * 0.6


def base(x):
    """Return a smooth function with elementwise, indexed, matrix and reduced parts."""
    return np.sin(A @ x) + x[::-1] * np.exp(-0.5 * np.sum(x * x)) + np.concatenate([x[:1] ** 2, x[1:] * x[0]])


def total(f):
    """Return the sum of a function, with weights, so that its gradient is not symmetric by accident."""
    return lambda x: np.sum(W * f(x))


def slope(f, x, v, step=1e-4):
    """Return the derivative along a direction by central differences of fourth order."""
    return central_difference(lambda y: [f(y)], [x], [v], step)[0]


def matrix(f, x):
    """Return the Jacobian by differences."""
    return np.stack([slope(f, x, e) for e in np.eye(3)], -1)


def second(f, x, u, v, step=2e-3):
    """Return a second derivative along two directions by differences of fourth order."""
    return slope(lambda y: slope(f, y, u, step), x, v, step)


def _hessian_product(f, x):
    return np.array([second(total(f), x, e, V) for e in np.eye(3)])


def _batch(f):
    """Return what `vmap` gives for three multiples of a point, in one array."""
    return lambda x: functad.vmap(lambda s: f(s * x), out_axes=1)(np.array([0.5, 1.0, -0.3])) @ W


def _loop(f):
    return lambda x: np.stack([f(s * x) for s in (0.5, 1.0, -0.3)], 1) @ W


def _tape(f):
    def gradient(x):
        with functad.GradientTape() as tape:
            t = functad.constant(x) if isinstance(x, np.ndarray) else x
            tape.watch(t)
            value = total(f)(t)
        return tape.gradient(value, t)

    return gradient


def _implicit(f):
    def gradient(x):
        variable = functad.Variable(np.zeros(3))
        return functad.implicit_gradients(lambda: total(f)(x + variable))()[0][0]

    return gradient


def _accumulator(f):
    def pushed(x):
        t = functad.constant(x) if isinstance(x, np.ndarray) else x
        with functad.ForwardAccumulator(t, V) as accumulator:
            out = f(t)
        return accumulator.jvp(out)

    return pushed


def _listed(f):
    return lambda x: functad.make_expressions(f)(X)(x)


def _own_vjp(f):
    """Return a function with a VJP rule of its own."""

    @functad.custom_vjp
    def ruled(x):
        return f(x)

    ruled.defvjp(lambda x: (f(x), x), lambda x, g: functad.vjp(f, x)[1](g))
    return ruled


def _own_jvp(f):
    """Return a function with a JVP rule of its own."""

    @functad.custom_jvp
    def ruled(x):
        return f(x)

    ruled.defjvp(lambda primals, tangents: functad.jvp(f, primals, tangents))
    return ruled


@functad.custom_root(lambda y, p: y - 0.3 * np.sin(y) - p)
def solver(start, p):
    """Return the root by iteration, which is not differentiated."""
    for _ in range(60):
        start = p + 0.3 * np.sin(start)
    return start


def _branch(f):
    """Return a function that a condition chooses."""
    return lambda x: functad.cond(np.sum(x) < 100.0, f, lambda x: -f(x), x)


def _scanned(f):
    """Return two steps of a recurrence, and what each gives."""

    def steps(x):
        last, each = functad.scan(lambda c, a: (c + a * f(c), c), x, np.array([0.3, -0.2]))
        return last + np.sum(each, axis=0)

    return steps


def _unrolled(f):
    def steps(x):
        first = x + 0.3 * f(x)
        return first - 0.2 * f(first) + x + first

    return steps


def _while(f):
    """Return steps that a condition on the values ends."""

    def steps(x):
        start = (x, 0.0)
        return functad.while_loop(lambda c: c[1] < 1.5, lambda c: (c[0] + 0.1 * f(c[0]), c[1] + 1.0), start)[0]

    return steps


def _two_steps(f):
    def steps(x):
        first = x + 0.1 * f(x)
        return first + 0.1 * f(first)

    return steps


def _mapped_by_hand(f):
    return lambda x: W[0] * f(0.5 * x) + W[1] * f(-0.3 * x)


OPERATORS: dict[str, tuple[Callable[[Function], Function], Callable[[Function], Function]]] = {
    "grad": (lambda f: functad.grad(total(f)), lambda f: lambda x: matrix(f, x).T @ W),
    "value_and_grad": (
        lambda f: lambda x: functad.value_and_grad(total(f))(x)[1],
        lambda f: lambda x: matrix(f, x).T @ W,
    ),
    "jvp": (lambda f: lambda x: functad.jvp(f, (x,), (V,))[1], lambda f: lambda x: slope(f, x, V)),
    "vjp": (lambda f: lambda x: functad.vjp(f, x)[1](W)[0], lambda f: lambda x: matrix(f, x).T @ W),
    "jacfwd": (lambda f: lambda x: functad.jacfwd(f)(x) @ V, lambda f: lambda x: slope(f, x, V)),
    "jacrev": (lambda f: lambda x: W @ functad.jacrev(f)(x), lambda f: lambda x: matrix(f, x).T @ W),
    "jacobian in chunks": (
        lambda f: lambda x: functad.jacobian(f, chunk_size=2)(x) @ V,
        lambda f: lambda x: slope(f, x, V),
    ),
    "hessian": (lambda f: lambda x: functad.hessian(total(f))(x) @ V, lambda f: lambda x: _hessian_product(f, x)),
    "hvp": (lambda f: lambda x: functad.hvp(total(f), (x,), (V,)), lambda f: lambda x: _hessian_product(f, x)),
    "hessian_diagonal": (
        lambda f: functad.hessian_diagonal(total(f)),
        lambda f: lambda x: np.array([second(total(f), x, e, e) for e in np.eye(3)]),
    ),
    "gauss_newton_product": (
        lambda f: lambda x: functad.gauss_newton_product(f, (x,), (V,)),
        lambda f: lambda x: matrix(f, x).T @ slope(f, x, V),
    ),
    "linearize": (lambda f: lambda x: functad.linearize(f, x)[1](V), lambda f: lambda x: slope(f, x, V)),
    "elementwise_grad": (functad.elementwise_grad, lambda f: lambda x: np.sum(matrix(f, x), axis=0)),
    "taylor": (
        lambda f: lambda x: functad.taylor(f, (x,), ([V],), order=2)[2],
        lambda f: lambda x: second(f, x, V, V) / 2,
    ),
    "deriv": (
        lambda f: lambda x: functad.deriv(lambda t: f(x + t * V), 2)(0.0),
        lambda f: lambda x: second(f, x, V, V),
    ),
    "vmap": (_batch, _loop),
    "make_expressions": (_listed, lambda f: f),
    "cond": (_branch, lambda f: f),
    "scan": (_scanned, _unrolled),
    "while_loop": (_while, _two_steps),
    "fori_loop": (lambda f: lambda x: functad.fori_loop(0, 2, lambda i, c: c + 0.1 * f(c), x), _two_steps),
    "map": (lambda f: lambda x: W[:2] @ functad.map(lambda s: f(s * x), np.array([0.5, -0.3])), _mapped_by_hand),
    "checkpoint": (functad.checkpoint, lambda f: f),
    "custom_vjp": (_own_vjp, lambda f: f),
    "custom_jvp": (_own_jvp, lambda f: f),
    "custom_root": (
        lambda f: lambda x: solver(np.zeros(3), f(x)),
        lambda f: lambda x: solver(np.zeros(3), f(x)),
    ),
    "GradientTape": (_tape, lambda f: lambda x: matrix(f, x).T @ W),
    "gradients_function": (
        lambda f: lambda x: functad.gradients_function(total(f))(x)[0],
        lambda f: lambda x: matrix(f, x).T @ W,
    ),
    "implicit_gradients": (_implicit, lambda f: lambda x: matrix(f, x).T @ W),
    "ForwardAccumulator": (_accumulator, lambda f: lambda x: slope(f, x, V)),
}
SECOND_ORDER = {"hessian", "hvp", "hessian_diagonal", "taylor", "deriv"}


def plain(value):
    """Return an array of what the TensorFlow-style layer returns as a Tensor."""
    return value.numpy() if isinstance(value, functad.Tensor) else value


@pytest.mark.parametrize("name", OPERATORS)
def test_alone(name):
    transform, expected = OPERATORS[name]
    np.testing.assert_allclose(plain(transform(base)(X)), expected(base)(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(OPERATORS, repeat=2)))
def test_pair(outer, inner):
    f = OPERATORS[inner][0](base)
    transform, expected = OPERATORS[outer]
    tolerance = 2e-5 if outer in SECOND_ORDER else 1e-7
    wanted = expected(lambda x: plain(f(x)))(X)
    np.testing.assert_allclose(plain(transform(f)(X)), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("outer", OPERATORS)
def test_outer_values_are_not_confused_with_inner_ones(outer):
    """A function that closes over the argument of the transform around it, and is differentiated by another one."""

    def f(x):
        return functad.grad(lambda y: np.sum(np.sin(y) * x * x))(x) + functad.vmap(lambda y: y * np.sum(x))(x)

    transform, expected = OPERATORS[outer]
    tolerance = 2e-5 if outer in SECOND_ORDER else 1e-7
    np.testing.assert_allclose(plain(transform(f)(X)), expected(f)(X), rtol=tolerance, atol=tolerance)


# What users write: a model, and examples.

POINTS = RNG.normal(size=(6, 3))
TARGETS = RNG.normal(size=6)
PARAMETERS = {"w": RNG.normal(size=(4, 3)), "b": RNG.normal(size=4), "v": RNG.normal(size=4)}


def loss(p, x, y):
    """Return the squared error of a small network for one example."""
    return (p["v"] @ np.tanh(p["w"] @ x + p["b"]) - y) ** 2


def flat_loss(flat, x, y):
    """Return the same as a function of one array."""
    w, b, v = flat[:12].reshape(4, 3), flat[12:16], flat[16:]
    return loss({"w": w, "b": b, "v": v}, x, y)


FLAT = np.concatenate([PARAMETERS["w"].ravel(), PARAMETERS["b"], PARAMETERS["v"]])


def test_per_example_gradients_with_checkpoints():
    plain_rows = [functad.grad(loss)(PARAMETERS, x, y) for x, y in zip(POINTS, TARGETS, strict=True)]
    for f in (loss, functad.checkpoint(loss), functad.checkpoint(loss, policy="contractions")):
        found = functad.vmap(functad.grad(f), in_axes=(None, 0, 0))(PARAMETERS, POINTS, TARGETS)
        for name in PARAMETERS:
            np.testing.assert_allclose(found[name], np.stack([row[name] for row in plain_rows]), rtol=1e-12, atol=1e-13)


def test_hessian_of_a_batch():
    def mean_loss(flat):
        return np.mean(functad.vmap(flat_loss, in_axes=(None, 0, 0))(flat, POINTS, TARGETS))

    found = functad.hessian(mean_loss)(FLAT)
    rows = [functad.hessian(flat_loss)(FLAT, x, y) for x, y in zip(POINTS, TARGETS, strict=True)]
    np.testing.assert_allclose(found, np.mean(rows, axis=0), rtol=1e-11, atol=1e-12)
    expected = np.stack([slope(functad.grad(mean_loss), FLAT, e) for e in np.eye(len(FLAT))])
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_products_with_the_hessian_of_each_example():
    directions = RNG.normal(size=(6, len(FLAT)))

    def product(x, y, t):
        return functad.hvp(lambda flat: flat_loss(flat, x, y), (FLAT,), (t,))

    found = functad.vmap(product)(POINTS, TARGETS, directions)
    for row, x, y, t in zip(found, POINTS, TARGETS, directions, strict=True):
        expected = slope(functad.grad(lambda flat, x=x, y=y: flat_loss(flat, x, y)), FLAT, t)
        np.testing.assert_allclose(row, expected, rtol=1e-7, atol=1e-8)


def test_gradient_of_a_norm_of_per_example_gradients():
    def penalty(flat):
        gradients = functad.vmap(functad.grad(flat_loss), in_axes=(None, 0, 0))(flat, POINTS, TARGETS)
        return np.sum(np.sqrt(np.sum(gradients**2, axis=1)))

    expected = [slope(penalty, FLAT, e) for e in np.eye(len(FLAT))]
    np.testing.assert_allclose(functad.grad(penalty)(FLAT), expected, rtol=1e-7, atol=1e-8)


def test_jacobian_of_a_gradient_step_through_vmap_and_a_tape():
    def step(flat):
        with functad.GradientTape() as tape:
            tape.watch(flat)
            value = np.mean(functad.vmap(flat_loss, in_axes=(None, 0, 0))(flat, POINTS, TARGETS))
        return flat - 0.1 * tape.gradient(value, flat)

    found = functad.jacfwd(step)(FLAT)
    expected = np.stack([slope(lambda p: plain(step(functad.constant(p))), FLAT, e) for e in np.eye(len(FLAT))], -1)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_series_of_a_solver_under_vmap():
    def third(p):
        return functad.taylor(lambda p: solver(np.zeros(3), p * V), (p,), ([1.0],), order=3)[3]

    found = functad.vmap(third)(np.array([0.2, 0.7]))
    exact = [functad.taylor(lambda p: _by_hand(p * V), (p,), ([1.0],), order=3)[3] for p in (0.2, 0.7)]
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def _by_hand(p):
    """Return what `solver` finds, by an iteration that is differentiated."""
    y = p
    for _ in range(80):
        y = p + 0.3 * np.sin(y)
    return y
