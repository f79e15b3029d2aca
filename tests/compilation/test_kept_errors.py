"""Errors that eager execution raises in operations whose results nothing needs: compiled functions raise them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

X = np.arange(4.0) + 1.0
GOOD, BAD = np.array([0, 1]), np.array([0, 7])
REGULAR, SINGULAR = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 2.0], [2.0, 4.0]])


def added(x: Any, i: Any) -> Any:
    y = x * 1.0
    np.add.at(y, i, 1.0)
    return np.sum(y)


def overwritten(x: Any, i: Any) -> Any:
    y = x * 1.0
    y[i] = 1.0
    return np.sum(x)


def unused(x: Any, i: Any) -> Any:
    x[i]
    return np.sum(x)


def in_steps(x: Any, i: Any) -> Any:
    functad.scan(lambda c, k: (c + x[k], None), 0.0, i)
    return np.sum(x)


def in_steps_of_the_result(x: Any, i: Any) -> Any:
    return functad.scan(lambda c, k: (c + x[k], None), np.sum(x), i)[0]


CALLS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "np.add.at": (added, GOOD, BAD),
    "assignment": (overwritten, GOOD, BAD),
    "reading": (unused, GOOD, BAD),
    "np.take_along_axis": (lambda x, i: np.sum(x) + np.sum(np.take_along_axis(np.ones(3), i, 0)), GOOD, BAD),
    "np.choose": (lambda x, i: np.sum(x) + np.sum(np.choose(i, [np.ones(2), np.zeros(2)])), GOOD, BAD),
    "np.unravel_index": (lambda x, i: np.sum(x) + np.sum(np.unravel_index(i, (2, 2))[0]), GOOD, BAD),
    "np.ravel_multi_index": (lambda x, i: np.sum(x) + np.sum(np.ravel_multi_index((i, i), (2, 2))), GOOD, BAD),
    "integer power": (lambda x, n: np.sum(x) + np.sum(np.array([2, 3]) ** n), GOOD, np.array([-1, 2])),
    "np.linalg.inv": (lambda x, a: np.sum(x) + np.sum(np.linalg.inv(a)), REGULAR, SINGULAR),
    "np.linalg.solve": (lambda x, a: np.sum(x) + np.sum(np.linalg.solve(a, np.ones(2))), REGULAR, SINGULAR),
    "np.linalg.cholesky": (lambda x, a: np.sum(x) + np.sum(np.linalg.cholesky(a)), REGULAR, -REGULAR),
    "scan": (in_steps, GOOD, BAD),
    "scan of the result": (in_steps_of_the_result, GOOD, BAD),
}
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda f: f,
    "grad": functad.grad,
    "value_and_grad": functad.value_and_grad,
    "jvp": lambda f: lambda x, *rest: functad.jvp(lambda x: f(x, *rest), (x,), (x,))[1],
    "hessian": functad.hessian,
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return functad.tree_map(np.asarray, f(*args))
    except (IndexError, ValueError, np.linalg.LinAlgError) as error:
        return type(error), *str(error).split(" axis ")[:1]  # rewritten operations may name another axis


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple) and isinstance(expected[0], type):
        assert found == expected
    else:
        functad.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, expected)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CALLS)
def test_errors_of_operations_whose_results_nothing_needs(name, transform, backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")
    f, good, bad = CALLS[name]
    g = TRANSFORMS[transform](f)
    compiled = functad.jit(g, backend=backend)
    assert isinstance(outcome(g, X, bad), tuple)
    for argument in (good, bad, good):
        assert_same(outcome(compiled, X, argument), outcome(g, X, argument))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "jvp"])
def test_transforms_of_a_compiled_function(name, transform):
    f, good, bad = CALLS[name]
    g, compiled = TRANSFORMS[transform](f), TRANSFORMS[transform](functad.jit(f))
    for argument in (good, bad):
        assert_same(outcome(compiled, X, argument), outcome(g, X, argument))


def test_nothing_is_kept_that_another_operation_checks():
    gradient = functad.jit(functad.grad(lambda x, i: np.sum(x[i])))
    assert "gather" not in str(gradient.lower(X, GOOD).expressions.after)
    known = functad.jit(functad.grad(lambda x: np.sum(x[GOOD])))
    assert "getitem" not in str(known.lower(X).expressions.after)
    looped = functad.jit(functad.grad(in_steps_of_the_result)).lower(X, GOOD).expressions.after
    assert len(looped.outputs) == 1


def test_variables_are_not_assigned_if_an_unused_operation_raises():
    variable = functad.Variable(np.zeros(4))

    @functad.jit
    def step(x, i):
        x[i]
        variable.assign_add(x)
        return np.sum(x)

    step(X, GOOD)
    with pytest.raises(IndexError):
        step(X, BAD)
    np.testing.assert_array_equal(np.asarray(variable), X)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("exponent", [-1, np.int64(-1), np.array([-1, 2]), 2, np.array([1, 2])])
def test_integer_power_by_a_known_exponent(exponent, backend):
    def plain(n):
        np.power(n, exponent)
        return n * 2

    def in_steps(n):
        return functad.fori_loop(0, 2, lambda i, c: (plain(n), c + i)[1], n)

    n = np.array([1, 2])
    for f in (plain, in_steps):
        if np.any(np.asarray(exponent) < 0):
            with pytest.raises(ValueError, match="negative integer powers"):
                f(n)
            with pytest.raises(ValueError, match="negative integer powers"):
                functad.jit(f, backend=backend)(n)
        else:
            np.testing.assert_array_equal(functad.jit(f, backend=backend)(n), f(n))
    if np.ndim(exponent) == 0:
        none = np.zeros(0, int)
        np.testing.assert_array_equal(functad.jit(plain, backend=backend)(none), plain(none))
