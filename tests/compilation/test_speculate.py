"""Lists without guards: plain products, looked through for a NaN in the results alone, give what guarded ones give."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.backends.careful import Again

X = np.array([0.0, 1.0, -2.0, np.inf, 3.0, -0.0, 0.5])


def entropy(x: Any) -> Any:
    return np.sum(np.where(x > 0, x * np.log(x), 0.0))


def chosen(x: Any) -> Any:
    return np.sum(np.where(np.abs(x) < 10, np.exp(x), np.sqrt(x)) * np.logaddexp(x, 0.0))


def clipped(x: Any) -> Any:
    return np.sum(np.maximum(np.where(x > 0, np.sqrt(x) / x, 1.0), 0.5) ** 2)


def looped(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        return np.where(carry > 0, carry * np.log(carry), 0.25), None

    return np.sum(functad.scan(step, x, length=3)[0])


def sign_of_slope(x: Any) -> Any:
    """The guards are needed here, as a comparison hides a NaN."""
    return np.where(functad.grad(entropy)(x) >= 0, x, 7.0)


def hidden_in_loop(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        return np.where(functad.grad(entropy)(carry) >= 0, carry * 0.5, 7.0), None

    return functad.scan(step, x, length=2)[0]


def as_integers(x: Any) -> Any:
    return functad.grad(entropy)(np.minimum(x, 2.0)).astype(np.int64)


PROGRAMS: list[Callable[..., Any]] = [
    *map(functad.grad, (entropy, chosen, clipped, looped)),
    functad.hessian(entropy),
    functad.grad(lambda x: np.sum(np.sin(functad.grad(entropy)(x)))),
    sign_of_slope,
    hidden_in_loop,
    as_integers,
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", PROGRAMS, ids=range(len(PROGRAMS)))
def test_results_are_those_of_guarded_products(f: Callable[..., Any]) -> None:
    compiled = functad.jit(f, backend="numpy")
    for x in (X[1:3], X, X, X, X, X[1:3], np.abs(X) + 1):  # after some NaN the guarded list is computed at once
        expected = f(x)
        found = compiled(x)
        assert found.dtype == expected.dtype
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_derivatives_of_zero_are_guarded_in_plain_products() -> None:
    compiled = functad.jit(functad.grad(entropy), backend="numpy")
    source = compiled.lower(X).source()
    assert "product(" not in source
    assert "return careful(" in source
    with np.errstate(all="ignore"):
        assert [compiled(np.zeros(7)).tolist() for _ in range(6)] == [[0.0] * 7] * 6


def test_guards_stay_where_a_nan_would_not_be_seen() -> None:
    for f in (sign_of_slope, hidden_in_loop, as_integers):
        source = functad.jit(f, backend="numpy").lower(X).source()
        assert "product(" in source or "quotient(" in source


def test_exact_lists_and_sources_to_ship_keep_their_guards() -> None:
    exact = functad.jit(functad.grad(entropy), backend="numpy", exact=True).lower(X).source()
    assert "product(" in exact or "return again(" in exact
    source = functad.to_source(functad.grad(entropy), X)
    assert "product(" in source
    assert "careful" not in source


def test_many_elements_are_looked_through_too() -> None:
    x = np.ones(20_000)
    x[-1] = 0.0
    with np.errstate(all="ignore"):
        found = functad.jit(functad.grad(entropy), backend="numpy")(x)
    assert found[-1] == 0
    assert np.all(found[:-1] == 1)


def test_no_element_is_no_nan() -> None:
    assert functad.jit(functad.grad(entropy), backend="numpy")(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("line", range(1, 5))
def test_two_threads_may_need_the_careful_program_at_once(line):
    """Another thread needs the program before the first thread runs a line."""
    again = Again(lambda: lambda leaves: leaves)
    found: list[Any] = []
    lines = iter(range(1, 100))

    def other_first(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is not Again.__call__.__code__:
            return None
        if event == "line" and next(lines) == line:
            thread = threading.Thread(target=lambda: found.append(again((np.nan,), (1.0,))))
            thread.start()
            thread.join()
        return other_first

    before = sys.gettrace()
    try:
        sys.settrace(other_first)
        found.append(again((np.nan,), (1.0,)))
    finally:
        sys.settrace(before)
    assert found == [(1.0,), (1.0,)]
