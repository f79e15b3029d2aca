"""Steps of scans in the backend `numpy`: their results are rows, and rows of one array are computed side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad.compilation.passes import simplified

WIDTH = 12
RNG = np.random.default_rng(11)
X, W, ROWS = RNG.normal(size=(2, WIDTH)), RNG.normal(size=(WIDTH, WIDTH)) * 0.3, RNG.normal(size=(10, 2, WIDTH))


def numpy_jit(f: Any) -> Any:
    return functad.jit(f, backend="numpy")


def body_of(f: Any, *args: Any, fused: bool = False) -> Any:
    [scan] = [e for e in simplified(functad.make_expressions(f)(*args), fused=fused).equations if e.primitive.name == "scan"]
    return scan.params["body"]


def assert_alike(found: Any, expected: Any) -> None:
    for a, b in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def network(reverse: bool, *kept: int) -> Any:
    """Return a recurrent network with some of: the state before a step, after it, a product, the row, half the state."""

    def f(x: Any, w: Any, rows: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            after = np.tanh(row + h @ w + x)
            every = h, after, after * row, row, h[0]
            return after, tuple(every[i] for i in kept)

        return functad.scan(step, x, rows, reverse=reverse)

    return f


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kept", [(), (0,), (1,), (0, 1), (1, 0, 2), (2, 3, 4), (4, 0, 0, 1, 1)])
def test_rows_that_steps_write_are_those_that_they_return(reverse: bool, kept: tuple[int, ...]) -> None:
    f = network(reverse, *kept)
    jitted = numpy_jit(f)
    expected = f(X, W, ROWS)
    first, second = jitted(X, W, ROWS), jitted(X, W, ROWS)
    assert_alike(first, expected)
    for leaf in functad.tree_leaves(first):
        leaf[...] = np.nan  # all have memory of their own
    assert_alike(second, expected)
    leaves = functad.tree_leaves(jitted(X, W, ROWS))
    assert not any(np.shares_memory(a, b) for i, a in enumerate(leaves) for b in leaves[:i])


def test_states_before_and_after_steps_are_one_array() -> None:
    source = numpy_jit(network(False, 0, 1)).lower(X, W, ROWS).source()
    assert source.count("np.empty(") == 1
    assert "np.empty((11, 2, 12)" in source
    assert ".append(" not in source
    assert ".append(" in functad.jit(network(False, 0, 1), backend="numpy", exact=True).lower(X, W, ROWS).source()


def test_a_result_keeps_no_memory_of_all_steps() -> None:
    both = numpy_jit(functad.value_and_grad(lambda x, w, rows: np.sum(network(False)(x, w, rows)[0] ** 2), argnums=(0, 1)))
    assert_alike(
        both(X, W, ROWS),
        functad.value_and_grad(lambda x, w, rows: np.sum(network(False)(x, w, rows)[0] ** 2), argnums=(0, 1))(X, W, ROWS),
    )
    carry, _ = numpy_jit(network(False, 1))(X, W, ROWS)
    assert carry.base is None


def gated(x: Any, bias: Any, rows: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        a, b, c, d = np.reshape(np.concatenate([h, row, h * row, row - h]) * bias, (4, -1))
        a, b, c = (1.0 / (1.0 + np.exp(-v)) for v in (a, b, c))
        d = np.tanh(d)
        return a * h + b * d, (a, b, c, d * 2.0)

    return functad.scan(step, x, rows)


def test_rows_of_one_array_are_computed_side_by_side() -> None:
    args = X[0], RNG.normal(size=4 * WIDTH), ROWS[:, 0]
    names = [e.primitive.name for e in body_of(gated, *args).equations]
    assert (names.count("exp"), names.count("tanh"), names.count("divide")) == (1, 1, 1)
    assert [e.primitive.name for e in body_of(gated, *args, fused=True).equations].count("exp") == 2
    assert "np.concatenate((v" in numpy_jit(gated).lower(*args).source()  # no function is called in between
    assert_alike(numpy_jit(gated)(*args), gated(*args))
    both = functad.value_and_grad(lambda *own: sum(np.sum(v**2) for v in functad.tree_leaves(gated(*own))), argnums=(0, 1, 2))
    assert_alike(numpy_jit(both)(*args), both(*args))
    assert_alike(
        functad.hessian(numpy_jit(lambda x: both(x, *args[1:])[0]))(args[0]),
        functad.hessian(lambda x: both(x, *args[1:])[0])(args[0]),
    )


def test_only_neighbouring_rows_are_joined() -> None:
    def f(x: Any, rows: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            table = row * h
            return np.sin(table[0]) + np.sin(table[2]) * np.sin(table[3]) + np.cos(table[1]), np.sin(table[3]) * table[0]

        return functad.scan(step, x, rows)

    rows = RNG.normal(size=(9, 4, WIDTH))
    assert [e.primitive.name for e in body_of(f, X[0], rows).equations].count("sin") == 2
    assert_alike(numpy_jit(f)(X[0], rows), f(X[0], rows))


@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int16"), ("float32", "float32"), ("float16", "float32")])
def test_terms_of_fewer_bits_than_the_sum_are_not_added_up_by_themselves(dtypes: tuple[str, str]) -> None:
    def f(x: Any, first: Any, second: Any) -> Any:
        return functad.scan(lambda h, row: (np.tanh(h) + row[0] + row[1], h * 0.5 + row[1] + row[0] + 1.0), x, (first, second))

    rows = [np.linspace(60, 100, 4 * WIDTH).reshape(4, WIDTH).astype(dtype) for dtype in dtypes]
    rows[1] = rows[1][::-1].copy()
    x = np.zeros(WIDTH)
    for own, eager in zip(functad.tree_leaves(numpy_jit(f)(x, *rows)), functad.tree_leaves(f(x, *rows)), strict=True):
        assert own.dtype == eager.dtype
        np.testing.assert_allclose(own, eager, rtol=1e-14)


def test_sums_of_half_precision_are_taken_step_by_step() -> None:
    def f(x: Any, rows: Any) -> Any:
        return functad.scan(lambda c, row: (c + np.sin(row), None), x, rows)[0]

    rows = np.ones(600, np.float16)
    np.testing.assert_array_equal(numpy_jit(f)(rows[0], rows), f(rows[0], rows))
