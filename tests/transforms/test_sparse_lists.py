"""Patterns of loops, branches, checkpoints and rules of the user's own: never an entry too few, and how many there are."""

import math

import numpy as np
import pytest

import functad
from functad import ArraySpec, hessian_sparsity, jacobian_sparsity
from tests.differences import numerical_jacobian

RNG = np.random.default_rng(2)
SPEC = ArraySpec((5,), np.dtype(float))


@functad.custom_vjp
def by_pullback(x):
    return np.sin(x) * np.append(x[1:], 1.0)


def _backward(kept, g):
    x, y = kept
    below = np.concatenate([[0.0], (g * np.sin(x))[:-1]])
    return (g * np.cos(x) * y + below,)


by_pullback.defvjp(lambda x: (by_pullback(x), (x, np.append(x[1:], 1.0))), _backward)


@functad.custom_jvp
def by_pushforward(x):
    return x**2


by_pushforward.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))


@functad.custom_vjp
def two_of_each(x, y):
    return x[:2] * y, np.sum(y)


two_of_each.defvjp(
    lambda x, y: (two_of_each(x, y), (x, y)),
    lambda kept, g: (np.concatenate([g[0] * kept[1], np.zeros(3)]), g[0] * kept[0][:2] + g[1]),
)


@functad.custom_vjp
def straight_through(x):
    return np.round(x)


straight_through.defvjp(lambda x: (np.round(x), None), lambda kept, g: (g,))


@functad.custom_vjp
def asks_for_values(x):
    return x * 2.0


asks_for_values.defvjp(lambda x: (x * 2.0, None), lambda kept, g: (np.array([2.0 * float(v) for v in g]),))


def filled(x):
    def body(i, y):
        y[i] = y[i - 1] * x[i]
        return y

    return functad.fori_loop(1, 5, body, x)


def shifted(x):
    def body(s):
        return s[0] + 1, np.append(s[1][1:], s[1][-1:]) * x

    return functad.while_loop(lambda s: s[0] < 1, body, (0, x))[1]


def backwards(x):
    return functad.scan(lambda c, r: (c + r, c * r), 0.0, x, reverse=True)[1]


def branching(x):
    return functad.cond(x[0] > 0, lambda x: x**2, lambda x: x[::-1] * 3.0, x)


def switching(x):
    branches = [lambda x: np.sin(x), lambda x: np.append(x[1:], 0.0), lambda x: np.zeros(5)]
    return functad.switch(np.argmax(x), branches, x)


def pairs(x):
    a, b = two_of_each(x, x[3:])
    return np.append(a, b)


# By name: the program, and the numbers of entries of its Jacobian and of the Hessian of a sum of its results, as values and as
# specs tell; where a branch is not known, those of both count.
PROGRAMS = {
    "fori_loop": (filled, 15, 15, 20, 20),
    "while_loop": (shifted, 9, 15, 9, 25),
    "scan": (backwards, 15, 15, 20, 20),
    "map": (lambda x: functad.map(lambda r: r**2, x), 5, 5, 5, 5),
    "cond": (branching, 5, 9, 5, 5),
    "switch": (switching, None, 9, None, 5),
    "checkpoint": (functad.checkpoint(lambda x: x[1:] ** 2 * x[:-1]), 8, 8, 12, 12),
    "checkpoint that keeps": (functad.checkpoint(lambda x: np.sin(x[1:]) * x[:-1], policy=lambda e: True), 8, 8, 12, 12),
    "custom_vjp": (by_pullback, 9, 25, 25, 25),
    "custom_jvp": (by_pushforward, 5, 25, 25, 25),
    "several arguments and results": (pairs, 6, 15, 25, 25),
    "a rule that is none of the function": (straight_through, 5, 25, 25, 25),
    "a rule that asks for values": (asks_for_values, 25, 25, 25, 25),
}
each_program = pytest.mark.parametrize("name", PROGRAMS)


def total(f):
    """Return a sum of the results, in which each of them stays apart."""
    return lambda x: np.sum(f(x) * np.arange(1.0, 1.0 + len(f(x))))


@each_program
def test_nothing_is_missing(name):
    f = PROGRAMS[name][0]
    points = [x if x[0] > 0 else -x for x in RNG.normal(size=(6, 5))]
    if name == "a rule that asks for values":  # it has no second derivatives, and its rows cannot be computed at once
        assert jacobian_sparsity(f, points[0]).nnz == 25
        return
    for x in [*points, *[-x for x in points]]:
        jacobian, hessian = functad.jacobian(f)(x) != 0, functad.hessian(total(f))(x) != 0
        for given in (x, SPEC):
            assert not (jacobian & ~jacobian_sparsity(f, given).toarray()).any()
            assert not (hessian & ~hessian_sparsity(total(f), given).toarray()).any()


@each_program
def test_numbers_of_entries(name):
    f, by_value, by_spec, second_by_value, second_by_spec = PROGRAMS[name]
    x = np.array([0.3, 1.2, 0.5, -0.4, 0.9])
    if by_value is not None:
        assert jacobian_sparsity(f, x).nnz == by_value
        assert hessian_sparsity(total(f), x).nnz == second_by_value
    assert jacobian_sparsity(f, SPEC).nnz == by_spec
    assert hessian_sparsity(total(f), SPEC).nnz == second_by_spec


def test_a_long_while_loop_is_dense():
    """What still adds something after many steps is taken to depend on everything, rather than followed on and on."""
    n = 200

    def f(x):
        return functad.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, np.append(s[1][1:], 0.0) + x), (0, x))[1]

    spec = ArraySpec((n,), np.dtype(float))
    assert jacobian_sparsity(f, spec).nnz == n * n
    assert jacobian_sparsity(f, np.ones(n)).nnz == n + (n - 1) + (n - 2)


def test_sparse_jacobian_through_rules():
    x = RNG.normal(size=5)
    for f in (by_pullback, by_pushforward, filled):
        matrix = functad.sparse_jacobian(f, check=True)(x)
        dense = matrix.toarray()
        np.testing.assert_allclose(dense, numerical_jacobian(f, x), rtol=1e-6, atol=1e-8)
        assert matrix.nnz < math.prod(dense.shape)


@pytest.mark.parametrize("snapshots", [None, 1])
def test_checkpointed_steps_and_checkpoints_within_vmap(snapshots):
    run = functad.checkpoint_sequence(lambda i, c: c + 0.1 * np.roll(c, 1) ** 2, 2, snapshots=snapshots)
    x = np.linspace(0.5, 1.5, 6)
    expected = functad.jacobian(run)(x) != 0
    assert np.array_equal(functad.jacobian_sparsity(run, x).toarray(), expected)
    alone = functad.jacobian_sparsity(functad.vmap(functad.checkpoint(np.sin)), x).toarray()
    assert np.array_equal(alone, np.eye(6, dtype=bool))
    both = functad.jacobian_sparsity(functad.vmap(run), np.stack([x, x])).toarray()
    assert np.array_equal(both, np.kron(np.eye(2, dtype=bool), expected))
