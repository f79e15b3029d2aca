"""Floating-point warnings of NumPy name the line of the user, in every transform, and the modes of the user stay."""

from __future__ import annotations

import inspect
import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

X = np.array([0.0, 1.0])


def f(x: Any) -> Any:
    y = np.log(x)
    z = 1.0 / x
    return np.sum(y - z)


FIRST = inspect.getsourcelines(f)[1] + 1
EXPECTED = [("divide by zero encountered in log", FIRST), ("divide by zero encountered in divide", FIRST + 1)]


def _by_tape(x: Any) -> Any:
    v = functad.Variable(x)
    with functad.GradientTape() as tape:
        y = f(v)
    return tape.gradient(y, v)


def _by_accumulator(x: Any) -> Any:
    t = functad.constant(x)
    with functad.ForwardAccumulator(t, functad.constant(np.ones(2))):
        return f(t)


CALLS: dict[str, Callable[[Any], Any]] = {
    "plain": f,
    "grad": functad.grad(f),
    "value_and_grad": functad.value_and_grad(f),
    "jvp": lambda x: functad.jvp(f, (x,), (x,)),
    "vjp": lambda x: functad.vjp(f, x),
    "vmap": lambda x: functad.vmap(f)(x[None]),
    "vmap of grad": lambda x: functad.vmap(functad.grad(f))(x[None]),
    "grad of grad": functad.grad(lambda x: np.sum(functad.grad(f)(x))),
    "hessian": functad.hessian(f),
    "jacobian": functad.jacobian(f),
    "tape": _by_tape,
    "accumulator": _by_accumulator,
}


def _warned(call: Callable[[Any], Any], x: Any = X) -> list[tuple[str, int]]:
    """Return the texts and lines of the warnings of a call, all of which name this file and module."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(x)
    assert {warning.filename for warning in caught} <= {__file__}
    assert all(warning.category is RuntimeWarning for warning in caught)
    return [(str(warning.message), warning.lineno) for warning in caught]


@pytest.mark.parametrize("name", CALLS)
def test_warnings_name_the_line_of_the_user(name: str) -> None:
    assert _warned(CALLS[name]) == EXPECTED


@pytest.mark.parametrize("name", CALLS)
def test_filters_by_module_and_by_error_apply(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=__name__)
        CALLS[name](X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log"):
            CALLS[name](X)


def test_code_without_a_module_is_warned() -> None:
    names: dict[str, Any] = {"np": np, "functad": functad, "X": X, "__builtins__": __builtins__}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code = compile("functad.grad(lambda x: np.sum(np.log(x)))(X)", "<typed>", "exec")
        exec(code, names)
        exec("functad.jit(lambda x: x * np.random.rand())(1.4)", names)
    assert [(str(warning.message)[:14], warning.filename) for warning in caught] == [
        ("divide by zero", "<typed>"),
        ("jit of <lambda", "<string>"),
    ]


def test_casts_and_functions_of_numpy_that_warn() -> None:
    def g(x: Any) -> Any:
        return np.linalg.norm(x * 1e200) + np.sum((x * 1e300).astype(np.float32)) + np.sum(np.exp(x * 1e4))

    texts = _warned(functad.grad(g), np.ones(2))
    assert {text.rpartition(" in ")[2] for text, _ in texts} == {"dot", "cast", "exp"}
    assert {line for _, line in texts} == {inspect.getsourcelines(g)[1] + 1}


def test_modes_of_the_user_stay() -> None:
    before = np.geterr(), np.geterrcall()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
        functad.grad(f)(X)
    with np.errstate(all="ignore"):
        assert _warned(functad.grad(f)) == []
    called: list[Any] = []
    with np.errstate(divide="call", call=lambda error, flag: called.append(error)):
        assert _warned(functad.grad(lambda x: f(x) + np.sum(np.sqrt(x - 1.0))))[0][0] == "invalid value encountered in sqrt"
    assert called == ["divide by zero"] * 2
    log = io.StringIO()
    with np.errstate(divide="log", call=log):
        assert _warned(functad.grad(lambda x: f(x) + np.sum(np.sqrt(x - 1.0))))[0][0] == "invalid value encountered in sqrt"
    assert log.getvalue().count("divide by zero") == 2
    assert (np.geterr(), np.geterrcall()) == before


def test_what_a_function_sets_stays_set() -> None:
    before = np.geterr()

    def sets(x: Any) -> Any:
        np.seterr(over="ignore")
        return np.sum(x)

    try:
        functad.grad(sets)(X)
        assert np.geterr() == before | {"over": "ignore"}
        assert np.geterrcall() is None
        assert _warned(functad.grad(f)) == EXPECTED
    finally:
        np.seterr(**before)
    with pytest.raises(ZeroDivisionError):
        functad.grad(lambda x: np.sum(x) * (1 // 0))(X)
    assert (np.geterr(), np.geterrcall()) == (before, None)


def test_an_inner_errstate_applies() -> None:
    def quiet(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            y = f(x)
        return y + f(x)

    assert _warned(functad.grad(quiet)) == EXPECTED


def test_threads_have_their_own_modes() -> None:
    found: list[Any] = []

    def run(mode: str) -> None:
        with np.errstate(divide=mode):
            try:
                found.append(np.isnan(functad.grad(f)(X)).any())
            except FloatingPointError:
                found.append("raised")

    for mode in ("ignore", "raise"):
        thread = threading.Thread(target=run, args=(mode,))
        thread.start()
        thread.join()
    assert found[1] == "raised"
    assert found[0] != "raised"


def test_warnings_of_rules_name_the_line_of_the_user() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        functad.grad(lambda x: np.sum(np.cov(x[:1])))(np.ones(2))
        functad.grad(lambda y: np.sum(np.polyfit([1.0, 1.0, 1.0], y, 2)))(np.ones(3))
    assert "Degrees of freedom <= 0 for slice" in [str(warning.message) for warning in caught]
    assert "Polyfit may be poorly conditioned" in [str(warning.message) for warning in caught]
    assert {warning.filename for warning in caught} == {__file__}
