"""The order of compiled lists: what forward mode needs of a step does not live until the last one."""

import tracemalloc

import numpy as np
import pytest

import functad
from functad.compilation.passes.schedule import by_depth, in_order, peak_bytes, reordered

X = np.linspace(0.1, 1.0, 20_000)
WEIGHTS = [np.random.default_rng(i).normal(size=(30, 30)) / 5 for i in range(12)]
ROWS = np.random.default_rng(20).normal(size=(400, 30))


def sines(x):
    for _ in range(40):
        x = np.sin(x)
    return np.sum(x)


def layers(x):
    for w in WEIGHTS:
        x = np.tanh(x @ w)
    return np.sum(x * x)


def tangent(f):
    return lambda x, t: functad.jvp(f, (x,), (t,))


def product(f):
    return lambda x, t: functad.hvp(f, (x,), (t,))


def peak(f, *args):
    tracemalloc.start()
    try:
        f(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("f", "x"), [(sines, X), (layers, ROWS)], ids=["sines", "layers"])
def test_compiled_forward_mode_holds_a_few_values_of_a_long_chain(f, x):
    compiled = functad.jit(tangent(f), backend="numpy")
    expected = functad.jvp(f, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(compiled(x, np.ones_like(x)), expected, rtol=1e-12)
    assert peak(compiled, x, np.ones_like(x)) < 8 * x.nbytes
    assert peak(functad.jvp, f, (x,), (np.ones_like(x),)) > 10 * x.nbytes
    assert compiled.lower(x, x).cost().peak_bytes < 10 * x.nbytes


def test_products_with_the_hessian_hold_less():
    compiled = functad.jit(product(layers), backend="numpy")
    t = np.ones_like(ROWS)
    np.testing.assert_allclose(compiled(ROWS, t), functad.hvp(layers, (ROWS,), (t,)), rtol=1e-11)
    lowered = compiled.lower(ROWS, t)
    assert lowered.cost().peak_bytes < 0.75 * peak_bytes(lowered.expressions.before)


def test_reverse_mode_stays_in_the_order_of_the_program():
    traced = functad.make_expressions(functad.grad(layers))(ROWS)
    assert in_order(traced) is traced


@pytest.mark.parametrize(
    "f",
    [
        lambda x, t: functad.grad(sines)(x * t),
        lambda x, t: functad.vjp(layers, x * t)[1](1.0),
        tangent(layers),
        product(layers),
    ],
    ids=["grad", "vjp", "jvp", "hvp"],
)
def test_a_list_in_another_order_computes_the_same(f):
    args = (ROWS, 0.5 * ROWS)
    traced = functad.make_expressions(f)(*args)
    other = reordered(traced, by_depth(traced))
    other.check()
    for a, b in zip(functad.tree_leaves(other(*args)), functad.tree_leaves(traced(*args)), strict=True):
        np.testing.assert_array_equal(a, b)
