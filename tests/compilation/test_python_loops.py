"""Scans over a few numbers in the backend `numpy`: loops of Python's arithmetic, which give what NumPy gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import functad
from functad.backends import python_loops

SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e300, 1e-300, 800.0)


def numpy_jit(f: Any, **options: Any) -> Any:
    return functad.jit(f, backend="numpy", **options)


def chain(x: Any) -> Any:
    x, _ = functad.scan(lambda x, _: (np.sin(x) * 0.9 + x * 0.1, None), x, length=20)
    return np.sum(x)


def lorenz(state: Any, sigma: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        x, y, z = s
        k = np.stack([sigma * (y - x), x * (28.0 - z) - y, x * y - z * 2.5])
        return s + 0.01 * k, None

    return np.sum(functad.scan(step, state, length=30)[0] ** 2)


def rows(weights: Any, xs: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        total, v = state
        v = np.tanh(v * row[0] + weights) / (1.0 + row[1] * row[1])
        return (total + np.dot(v, weights) - row[1], v), (v, total)

    (total, _), (vs, totals) = functad.scan(step, (0.0, weights), (xs, xs[:, 0]), reverse=True)
    return total + np.sum(vs * totals[:, None])


def with_arrays(f: Any, args: Any, monkeypatch: Any) -> Any:
    """Return what the same list gives if all its loops are loops of arrays."""
    with monkeypatch.context() as patch:
        patch.setattr(python_loops, "_FEWEST", 10**9)
        patch.setattr(python_loops, "_WORTH", 10**9)
        jitted = numpy_jit(f)
        assert "numbers(" not in jitted.lower(*args).source()
        return jitted(*args)


PROGRAMS = {
    chain: [(0.3,), (np.float64(0.3),), (np.array(0.3),), (np.linspace(-1.0, 2.0, 8),)],
    lorenz: [(np.array([1.0, 2.0, 3.0]), 10.0)],
}


def assert_alike(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    for a, b in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize(("f", "args"), [(f, args) for f, every in PROGRAMS.items() for args in every])
def test_numbers_give_what_arrays_give(f: Any, args: Any) -> None:
    both = functad.value_and_grad(f, argnums=tuple(range(len(args))))
    jitted = numpy_jit(both)
    assert "numbers(" in jitted.lower(*args).source()
    assert_alike(jitted(*args), both(*args), 1e-9)


def test_rows_of_numbers_and_vectors_backwards_give_what_arrays_give() -> None:
    args = np.array([0.5, -0.2]), np.sin(np.arange(40.0)).reshape(20, 2)
    both = functad.value_and_grad(rows, argnums=(0, 1))
    assert "numbers(" in numpy_jit(both).lower(*args).source()
    assert_alike(numpy_jit(both)(*args), both(*args), 1e-9)


def test_rows_between_two_loops_stay_lists() -> None:
    source = numpy_jit(functad.value_and_grad(lorenz)).lower(np.ones(3), 10.0).source()
    assert re.search(r"_a\d+ = v\d+\n", source)


def test_short_vectors_outside_of_loops_are_numbers_with_every_bit() -> None:
    def f(state: Any, sigma: Any) -> Any:
        for _ in range(3):
            x, y, z = state
            state = state + 0.01 * np.stack([sigma * (y - x), x * (28 - z) - y, x * y - z * 2.5])
        return state

    args = np.array([1.0, 2.0, 3.0]), 10.0
    for exact in (False, True):
        jitted = numpy_jit(f, exact=exact)
        assert "numbers(" in jitted.lower(*args).source()
        assert np.array_equal(jitted(*args), f(*args))
    along = functad.jacobian(f)
    assert_alike(numpy_jit(along)(*args), along(*args), 1e-12)
    with np.errstate(all="ignore"):
        for x in SPECIAL:
            np.testing.assert_array_equal(numpy_jit(f)(np.array([x, 1.0, 2.0]), 10.0), f(np.array([x, 1.0, 2.0]), 10.0))


@pytest.mark.parametrize("x", SPECIAL)
def test_what_is_no_number_is_found_as_numpy_finds_it(x: float, monkeypatch: Any) -> None:
    def f(c: Any, a: Any, w: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return np.sqrt(c * c + r) * np.cos(a) + np.exp(a - 3.0) * r / c, np.log(c)

        c, ys = functad.scan(step, c, w)
        return c + np.sum(ys)

    with np.errstate(all="ignore"):
        for args in ((x, 0.5, np.ones(9)), (0.5, x, np.ones(9)), (1.5, 0.5, np.array([*np.ones(8), x]))):
            both = functad.value_and_grad(f, argnums=(0, 1, 2))
            assert "except (ArithmeticError, ValueError)" in numpy_jit(both).lower(*args).source()
            assert_alike(numpy_jit(both)(*args), with_arrays(both, args, monkeypatch), 1e-9)


def test_an_exact_zero_wins_over_infinity_in_loops_of_numbers() -> None:
    def f(x: Any, w: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return c * 0.5 + row * np.sqrt(c * x), None

        return functad.scan(step, 1.0, w)[0]

    both = functad.value_and_grad(f, argnums=(0, 1))
    args = 0.0, np.zeros(10)  # the root has an infinite derivative at 0, and no part in the result
    source = functad.to_source(both, *args)
    assert "_a0_0 != " in source or " or (" in source  # a search for a NaN
    space: dict[str, Any] = {}
    exec(source, space)
    with np.errstate(all="ignore"):
        expected = both(*args)
        assert expected[1][0] == 0.0
        assert_alike(space["f"](*args), expected)
        assert_alike(numpy_jit(both)(*args), expected)


def test_exact_loops_of_numbers_keep_every_bit_and_call_no_function_of_math() -> None:
    state = np.array([1.0, 2.0, 3.0])
    both = functad.value_and_grad(lorenz, argnums=(0, 1))
    jitted = numpy_jit(both, exact=True)
    assert "numbers(" in jitted.lower(state, 10.0).source()
    for a, b in zip(functad.tree_leaves(jitted(state, 10.0)), functad.tree_leaves(both(state, 10.0)), strict=True):
        assert np.array_equal(a, b)
    assert "math" not in numpy_jit(functad.grad(chain), exact=True).lower(0.3).source()


@pytest.mark.parametrize("seed", range(12))
def test_random_steps_give_what_arrays_give(seed: int, monkeypatch: Any) -> None:
    rng = np.random.default_rng(seed)
    unary = [
        np.sin,
        np.cos,
        np.tanh,
        np.negative,
        np.square,
        np.arctan,
        lambda v: np.exp(-v * v),
        lambda v: np.stack([v[1], v[0]]),
    ]
    binary = [
        np.add,
        np.subtract,
        np.multiply,
        lambda a, b: a / (1.5 + b * b),
        lambda a, b: a * np.sum(b),
        lambda a, b: b * a[0],
    ]
    plan = [(int(k), *map(int, rng.integers(0, 100, 3))) for k in rng.integers(0, 3, 8)]

    def f(x: Any, a: Any, xs: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            x, total = carry
            values = [x, x * 0.7, a + x * 0.0, row + x * 0.0]
            for kind, i, j, k in plan:
                p, q = values[i % len(values)], values[j % len(values)]
                values.append(unary[k % len(unary)](p) if kind == 0 else binary[k % len(binary)](p, q))
            return (np.tanh(values[-1]), total + np.sum(values[-2]) * 0.1), values[-3]

        (x, total), ys = functad.scan(step, (x, 0.0), xs, reverse=bool(seed % 2))
        return total + np.sum(x) + np.sum(ys * 0.01)

    args = rng.normal(size=2), rng.normal(), rng.normal(size=(12, 2))
    both = functad.value_and_grad(f, argnums=(0, 1, 2))
    jitted = numpy_jit(both)
    assert "numbers(" in jitted.lower(*args).source()
    assert_alike(jitted(*args), both(*args), 1e-8)
    with np.errstate(all="ignore"):
        args[2][5, 1] = rng.choice([np.inf, np.nan, 1e200])
        assert_alike(jitted(*args), with_arrays(both, args, monkeypatch), 1e-8)


def test_source_for_numpy_alone_has_loops_of_numbers() -> None:
    source = functad.to_source(functad.value_and_grad(lorenz), np.ones(3), 10.0)
    space: dict[str, Any] = {}
    exec(source, space)
    assert "numbers(" in source
    assert "functad" not in source
    assert_alike(space["lorenz"](np.ones(3), 10.0), functad.value_and_grad(lorenz)(np.ones(3), 10.0), 1e-9)


def test_loops_of_longer_vectors_or_of_few_steps_stay_loops_of_arrays() -> None:
    def f(x: Any) -> Any:
        return functad.scan(lambda c, _: (c * x, None), x, length=7)[0]

    assert "numbers(" not in numpy_jit(f).lower(np.ones(2)).source()
    assert "numbers(" not in numpy_jit(chain).lower(np.ones(20)).source()
    assert "numbers(" not in numpy_jit(chain).lower(np.float32(1.0)).source()


def test_constant_results_of_steps_have_the_dtypes_of_eager_execution() -> None:
    def f(x: Any, r: Any, result: Any, reverse: bool) -> Any:
        return functad.scan(lambda c, r: (c * r, result), x, r, reverse=reverse)

    for result in (1, True, 2.5, np.float32(2.0), np.int8(3), 1j, np.arange(3), np.arange(3.0), (1, 2.0)):
        for reverse in (False, True):
            args = 2.0, np.linspace(0.5, 1.5, 10)
            found = numpy_jit(lambda x, r, own=result, turned=reverse: f(x, r, own, turned))(*args)
            expected = f(*args, result, reverse)
            for a, b in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
                assert (type(a), a.dtype) == (type(b), b.dtype)
                np.testing.assert_array_equal(a, b)


def test_steps_that_change_nothing_need_no_loop() -> None:
    f = functad.jit(lambda x: functad.fori_loop(0, 17, lambda i, c: c[()], x), backend="numpy")
    assert f(np.float64(2.5)) == 2.5
