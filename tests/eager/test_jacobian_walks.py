"""Jacobians of tapes by walks for many rows at once: equal to one gradient a row, in few walks, inside everything else."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape, constant
from functad.errors import AbstractValueError, LoopWarning
from tests.differences import numerical_jacobian
from tests.eager.taped import counting, recorded, taped

A = np.array([[1.0, -2.0, 0.5], [0.3, 1.5, -1.0]])


def one_by_one(f, *values):
    """Return the Jacobians by a gradient for each element of the target: `None` where there is none for any."""
    tape, y, xs = taped(f, *values, persistent=True)
    found = []
    for index in np.ndindex(y.shape):
        seed = np.zeros(y.shape, y.dtype)
        seed[index] = 1
        found.append(tape.gradient(y, xs, output_gradients=[seed]))
    return [
        None if all(g is None for g in column) else np.stack([g.numpy() for g in column]).reshape(*y.shape, *x.shape)
        for column, x in zip(zip(*found, strict=True), xs, strict=True)
    ]


FUNCTIONS = {
    "wide": (lambda x, y: np.tanh(A @ x) * y[:2], [[0.1, 0.2, 0.3], [1.0, 2.0, 3.0, 4.0]]),
    "tall": (lambda x: np.sin(np.outer(x, np.arange(1.0, 9.0))) + x[0], [[0.5, -1.5]]),
    "tall_by_two": (lambda x, y: np.exp(np.outer(x, np.arange(1.0, 9.0))) * y, [[0.5, -0.5], 2.0]),
    "tall_partly": (lambda x, y: np.arange(20.0) * y, [[0.5, -0.5], 2.0]),
    "scalar": (lambda x: np.sum(x) ** 3, [[1.0, 2.0]]),
    "of_a_scalar": (lambda x: x * np.array([1.0, -2.0]) + x**2, [3.0]),
    "float32": (lambda x: (x.astype(np.float32) * x) @ A.T, [np.array([1.0, 2.0, 3.0])]),
    "float32_tall": (lambda x: np.outer(x, np.arange(1.0, 9.0)), [np.array([1.0, 2.0], np.float32)]),
    "complex": (lambda z: z * z * (1 + 2j) + np.conj(z), [[1 + 2j, 0.5j]]),
    "complex_of_real": (lambda x: x * (1 + 2j) * np.arange(4.0).reshape(2, 2), [[1.0, 2.0]]),
    "complex_of_real_tall": (lambda x: x * (1 + 2j) * np.arange(4.0), [2.0]),
    "real_of_complex": (lambda z: np.abs(z) ** 2 + np.real(z) * np.arange(6.0), [1 + 2j]),
    "read_by_index": (lambda x: x[np.array([2, 0, 2])] * x[1], [[1.0, 2.0, 3.0]]),
    "integers_besides": (lambda x, n: x * n, [[1.0, 2.0], [3, 4]]),
    "selected": (lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), -x), [[2.0, -1.0, 0.0]]),
    "of_a_row": (lambda x: x.sum(0, keepdims=True) * x, [[[1.0, 2.0]]]),
}


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3, 100])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_gradients(name, chunk_size):
    f, values = FUNCTIONS[name]
    expected = one_by_one(f, *values)
    tape, y, xs = taped(f, *values)
    for found, wanted, x in zip(tape.jacobian(y, xs, chunk_size=chunk_size), expected, xs, strict=True):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6 if x.dtype == np.float32 else 1e-13)


def test_tall_jacobians_agree_with_differences(rng):
    value = rng.normal(size=3)

    def f(x):
        return np.sin(np.outer(np.arange(1.0, 6.0), x)) * np.sum(x**2)

    tape, y, (x,) = taped(f, value)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), numerical_jacobian(f, value), atol=1e-8)


def test_zeros_where_a_tall_target_does_not_depend_on_a_source():
    tape, y, (x, z) = taped(lambda x, z: x * np.arange(9.0), 2.0, [1.0, 2.0])
    by_x, by_z = tape.jacobian(y, [x, z], unconnected_gradients="zero")
    assert np.array_equal(by_x.numpy(), np.arange(9.0))
    assert by_z.shape == (9, 2)
    assert not by_z.numpy().any()


@pytest.mark.parametrize("length", [2, 40], ids=["wide", "tall"])
def test_variables_and_intermediate_results(length):
    v = functad.Variable([0.5, 1.5])
    with GradientTape(persistent=True) as tape:
        u = np.sin(v) * v[0]
        v.assign([2.0, -1.0])
        y = np.arange(1.0, length + 1) * np.sum(np.exp(u) * v) * u[1]
    sources = {"u": u, "v": [v]}
    rows = [tape.gradient(y, sources, output_gradients=seed) for seed in np.eye(length)]
    found = tape.jacobian(y, sources)
    np.testing.assert_allclose(found["u"].numpy(), np.stack([row["u"].numpy() for row in rows]), rtol=1e-12)
    np.testing.assert_allclose(found["v"][0].numpy(), np.stack([row["v"][0].numpy() for row in rows]), rtol=1e-12)


def test_a_tape_of_a_tall_target_is_spent_and_free_of_records():
    tape, y, (x,) = taped(lambda x: np.sin(x * np.arange(30.0)), 2.0)
    tape.jacobian(y, x)
    assert tape.stats() == {"records": 0, "bytes": 0}
    with pytest.raises(RuntimeError):
        tape.jacobian(y, x)


def test_targets_that_are_sources():
    x, n = constant([1.0, 2.0]), constant([1, 2, 3])
    tape, y = recorded(lambda: x * 2, x, persistent=True)
    assert np.array_equal(tape.jacobian(x, x).numpy(), np.eye(2))
    assert np.array_equal(tape.jacobian(n, n).numpy(), np.eye(3, dtype=int))
    assert tape.jacobian(n, n).dtype == n.dtype
    assert tape.jacobian(n, x) is None
    by_y, by_x = tape.jacobian(y, [y, x])
    assert np.array_equal(by_y.numpy(), np.eye(2))
    assert np.array_equal(by_x.numpy(), 2 * np.eye(2))


def test_results_are_nobody_elses():
    tape, y, (x, z) = taped(lambda x, z: x + z, [1.0, 2.0], [3.0, 4.0])
    by_x, by_z = tape.jacobian(y, [x, z])
    by_x.numpy()[0, 0] = 7.0
    assert np.array_equal(by_z.numpy(), np.eye(2))
    assert not np.asarray(by_x.below).flags.writeable


# How many walks


@pytest.mark.parametrize(("chunk_size", "walks"), [(None, 1), (6, 3), (17, 2), (18, 1), (1, 18)])
def test_one_walk_for_a_chunk_of_rows(chunk_size, walks):
    calls, x = [], np.arange(1.0, 19.0)
    tape, y, (t,) = taped(counting(calls), x)
    assert np.array_equal(tape.jacobian(y, t, chunk_size=chunk_size).numpy(), np.diag(2 * x))
    assert calls == [(18,)] * walks


def test_one_walk_for_the_rows_of_a_batch():
    calls = []
    square, x = counting(calls), np.arange(1.0, 31.0).reshape(3, 10)
    tape, y, (t,) = taped(square, x, persistent=True)
    expected = 2 * x[:, :, None] * np.eye(10)
    assert np.array_equal(tape.batch_jacobian(y, t).numpy(), expected)
    assert len(calls) == 1
    assert np.array_equal(tape.batch_jacobian(y, t, chunk_size=5).numpy(), expected)
    assert len(calls) == 3
    assert np.array_equal(tape.batch_jacobian(y, t, check=True).numpy(), expected)
    assert len(calls) == 5


def test_one_walk_for_a_hessian():
    calls = []
    with functad.graph():
        x = constant(np.arange(1.0, 13.0))
        (h,) = functad.hessians(np.sum(counting(calls)(x) * x), x)
    assert np.allclose(h.numpy(), np.diag(6 * x.numpy()))
    assert len(calls) <= 3  # of the gradient, and of the rows, for which the rule is found anew


def test_small_chunks_take_less_memory():
    def peak(chunk_size):
        tape, y, (x,) = taped(lambda x: np.tanh(np.sin(np.tanh(np.sin(x)) * x)) * x, np.linspace(0.0, 1.0, 2000))
        tracemalloc.start()
        try:
            assert tape.jacobian(y, x, chunk_size=chunk_size).shape == (2000, 2000)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    result = 2000 * 2000 * 8
    assert peak(100) < 2.4 * result
    assert peak(2000) > 2.9 * result


@pytest.mark.parametrize("chunk_size", [0, -1, 2.5, "all"])
def test_impossible_chunks_are_refused_before_the_tape_is_spent(chunk_size):
    tape, y, (x,) = taped(lambda x: x * x, [[1.0, 2.0]])
    for method in (tape.jacobian, tape.batch_jacobian):
        with pytest.raises(ValueError, match="chunk_size is"):
            method(y, x, chunk_size=chunk_size)
    assert np.array_equal(tape.jacobian(y, x).numpy().reshape(2, 2), [[2, 0], [0, 4]])


# Gradient functions of the user's

SIGNS = np.array([1.0, -1.0] * 3)


@pytest.mark.parametrize("persistent", [False, True])
def test_gradient_functions_that_ask_for_values_take_a_walk_a_row(persistent):
    calls = []

    @functad.custom_gradient
    def f(x):
        def pulled(dy):
            calls.append(float(np.sum(dy)))
            return dy * 3 if float(np.sum(dy)) > 0 else dy * 5

        return x * x, pulled

    tape, y, (x,) = taped(lambda x: f(x) * SIGNS, np.arange(1.0, 7.0), persistent=persistent)
    with pytest.warns(LoopWarning, match=r"jacobian\(\) needs one backward pass for each of 6 rows.*test_jacobian_walks.py"):
        found = tape.jacobian(y, x)
    assert np.array_equal(found.numpy(), np.diag([3.0, -5.0] * 3))
    assert calls == [1.0, -1.0] * 3


def test_no_value_is_made_up_where_an_outer_batch_has_none():
    @functad.custom_gradient
    def f(x):
        return x * x, lambda dy: dy if float(x[0]) > 0 else -dy

    def rows(x):
        tape, y, (t,) = taped(f, x)
        return tape.jacobian(y, t)

    with pytest.raises(AbstractValueError, match="stands for 3 examples"):
        functad.vmap(rows)(np.ones((3, 2)))


def test_the_tape_can_be_asked_again_after_a_gradient_function_failed():
    fails = [True]

    @functad.custom_gradient
    def f(x):
        def pulled(dy):
            if fails:
                raise ZeroDivisionError
            return dy * 2 * x

        return x * x, pulled

    tape, y, (x,) = taped(f, [1.0, 2.0])
    with pytest.raises(ZeroDivisionError):
        tape.jacobian(y, x)
    fails.clear()
    assert np.array_equal(tape.jacobian(y, x).numpy(), [[2, 0], [0, 4]])


# Rows that depend on others


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 5])
@pytest.mark.parametrize("row", [1, 2])
def test_the_first_row_that_depends_on_others_is_named(row, chunk_size):
    mix = np.eye(4)
    mix[row, 0] = mix[3, 1] = 1.0
    tape, y, (x,) = taped(lambda x: mix @ np.sin(x), np.ones((4, 2)), persistent=True)
    with pytest.raises(ValueError, match=f"row {row} of the target depends on other rows"):
        tape.batch_jacobian(y, x, check=True, chunk_size=chunk_size)
    assert tape.batch_jacobian(y, x, chunk_size=chunk_size).shape == (4, 2, 2)


def test_check_under_vmap():
    def rows(x, mix):
        tape, y, (t,) = taped(lambda t: mix @ np.sin(t), x)
        return tape.batch_jacobian(y, t, check=True)

    x = np.arange(24.0).reshape(3, 4, 2)
    found = functad.vmap(rows, in_axes=(0, None))(x, np.eye(4))
    np.testing.assert_allclose(found, np.cos(x)[..., None] * np.eye(2), rtol=1e-13)
    mixes = np.stack([np.eye(4)] * 3)
    mixes[2, 1, 0] = 1e-3  # in one example only
    with pytest.raises(ValueError, match="row 1 of the target depends on other rows"):
        functad.vmap(rows)(x, mixes)


def test_check_needs_values():
    def rows(x):
        tape, y, (t,) = taped(np.sin, x)
        return tape.batch_jacobian(y, t, check=True)

    with pytest.raises(AbstractValueError, match=r"batch_jacobian\(check=True\)"):
        functad.make_expressions(rows)(np.ones((3, 2)))


# Inside other derivatives


def wide(x):
    return np.tanh(A @ x) * np.sum(x * x)


def tall(x):
    return np.sin(np.concatenate([x, 2 * x, x * x])) * x[0]


def by_tape(f, x):
    tape, y, (t,) = taped(f, x)
    return tape.jacobian(y, t)


X = np.array([0.5, -0.3, 0.8])


@pytest.fixture(params=[wide, tall], ids=["wide", "tall"])
def f(request):
    return request.param


@pytest.fixture
def third(f):
    """The derivative of the sum of the cubed entries of the Jacobian, by differences."""

    def cubes(x):
        return np.sum(functad.jacobian(f)(x) ** 3)

    return numerical_jacobian(cubes, X)


def test_in_an_outer_tape(f, third):
    x = constant(X)
    with GradientTape(persistent=True) as outer:
        outer.watch(x)
        inner, y = recorded(lambda: f(x), x)
        j = inner.jacobian(y, x)
        cubes = np.sum(j**3)
    np.testing.assert_allclose(outer.gradient(cubes, x).numpy(), third, atol=1e-6)
    found = outer.jacobian(j, x).numpy()  # taller than the source is long
    np.testing.assert_allclose(found, functad.jacobian(functad.jacobian(f))(X), rtol=1e-10, atol=1e-12)


def test_in_an_accumulator(f, third):
    x = constant(X)
    with ForwardAccumulator(x, [1.0, 0.0, 0.0]) as accumulator:
        cubes = np.sum(by_tape(f, x) ** 3)
    np.testing.assert_allclose(float(accumulator.jvp(cubes)), third[0], atol=1e-6)


@pytest.mark.parametrize("transform", [functad.grad, functad.jacfwd, functad.jacrev], ids=["grad", "jacfwd", "jacrev"])
def test_in_a_transform(f, third, transform):
    np.testing.assert_allclose(transform(lambda x: np.sum(by_tape(f, x) ** 3))(X), third, atol=1e-6)


def test_in_vmap_and_its_gradient(f, third):
    batch = np.stack([X, 2 * X])
    found = functad.vmap(lambda x: by_tape(f, x))(batch)
    np.testing.assert_allclose(found, np.stack([by_tape(f, x).numpy() for x in batch]), rtol=1e-12, atol=1e-14)
    each = functad.vmap(functad.grad(lambda x: np.sum(by_tape(f, x) ** 3)))(batch)
    np.testing.assert_allclose(each[0], third, atol=1e-6)
    whole = functad.grad(lambda b: np.sum(functad.vmap(lambda x: by_tape(f, x))(b) ** 3))(batch)
    np.testing.assert_allclose(whole, each, rtol=1e-10)


def test_rows_in_an_outer_tape():
    values = np.array([[0.5, -0.3], [0.8, 0.1], [1.0, 2.0]])
    x = constant(values)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: np.sin(x) * x[:, ::-1], x)
        rows = inner.batch_jacobian(y, x)
        total = np.sum(rows**2)

    def reference(v):
        return np.sum(np.stack([functad.jacobian(lambda r: np.sin(r) * r[::-1])(row) for row in v]) ** 2)

    np.testing.assert_allclose(outer.gradient(total, x).numpy(), functad.grad(reference)(values), rtol=1e-10)


def test_zeros_of_what_was_not_selected_stay_zeros_at_second_order():
    x = constant([0.0, 2.0])
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: np.where(x > 0, np.sqrt(x), 0.0), x)
        total = np.sum(inner.jacobian(y, x))
    np.testing.assert_allclose(outer.gradient(total, x).numpy(), [0.0, -0.25 * 2**-1.5])


def test_hessians_of_a_graph_are_recorded():
    with functad.graph():
        x = constant([0.5, -0.3])
        (h,) = functad.hessians(np.sum(np.sin(x) * np.sum(x * x)), x)
        (g,) = functad.gradients(np.sum(h**2), x)

    def reference(v):
        return np.sum(functad.hessian(lambda w: np.sum(np.sin(w) * np.sum(w * w)))(v) ** 2)

    np.testing.assert_allclose(g.numpy(), functad.grad(reference)(x.numpy()), rtol=1e-10)
