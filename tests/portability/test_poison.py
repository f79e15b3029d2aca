"""Rules are portable: they run over values that NumPy can call, and that nothing may turn into NumPy arrays in passing."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.primitives.entry import ENTRIES
from functad.testing import Call, calls, draw_program, every_entry
from tests.differences import random_like
from tests.entries import is_constant
from tests.values import dtype_of

_spec = importlib.util.spec_from_file_location("poison", Path(__file__).with_name("poison.py"))
poison = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(poison)
Poison, PoisonError, unwrap = poison.Poison, poison.PoisonError, poison.unwrap

EXCEPTIONS: dict[str, str] = {
    "lstsq": "its rank is a number that decides about the residuals",
    "polyfit": "it is a least-squares problem, whose rank decides about the cut-off",
    "roots": "the number of leading zeros, which decides about the length of the result, is a value",
    "trim_zeros": "the length of its result depends on values, which foreign arrays do not give away",
    **dict.fromkeys(
        ("special.nctdtr", "special.nctdtrit", "special.nctdtrinc", "special.nctdtridf", "noncentral_t_expectation"),
        "it integrates on nodes of its own, in NumPy's arrays",
    ),
    **dict.fromkeys(
        ("special.smirnov", "special.smirnovi", "special.smirnovc", "special.smirnovci", "special.smirnovp", "smirnov_slope"),
        "the number of terms of its sum is a value",
    ),
    "histogramdd": "the number of bins depends on values",
}
"""Functions for which a number of the program must be known that is a value, so that foreign arrays would have to give it away.

Functions that only decide by comparing values are not among them: a comparison may wait for its device."""


def _why_not(entry: Any) -> str:
    """Return why the rules of an entry cannot run over foreign values; nothing if they must."""
    if is_constant(entry):
        return "it has no derivative"
    if entry.status == "refused":
        return "it is refused"
    if entry.in_place:
        return "it writes into an array, for which the protocols of NumPy have no word: Tensors of foreign arrays refuse it"
    if getattr(entry.function, "__module__", "").startswith("functad.scipy."):  # they are here if a test before imported them
        return "a compiled function of SciPy computes it, from arrays of NumPy"
    return EXCEPTIONS.get(entry.name, "")


SAMPLES = [(entry, call) for entry in every_entry() if not _why_not(entry) for call in calls(entry, np.float64) if call.primals]


def poisoned(values: Any) -> tuple[Any, ...]:
    return tuple(Poison(value) for value in values)


def derivatives(call: Call, wrap: Any, seed: int = 0) -> list[Any]:
    """Return cotangents, tangents, and cotangents of second order, all for the same random directions."""
    rng = np.random.default_rng(seed)
    primals = wrap(call.primals)
    direction = wrap([random_like(x, rng) for x in call.primals])
    gs = wrap([random_like(y, rng) for y in call.smooth(*call.primals)])

    def pull(*xs: Any) -> Any:
        return functad.vjp(call.smooth, *xs)[1](gs)

    values, tangents = functad.jvp(call.smooth, primals, direction)
    firsts, second = functad.vjp(pull, *primals)
    ends = wrap([random_like(unwrap(first), rng) for first in firsts])
    return [*values, *tangents, *firsts, *second(ends)]


def moved(call: Call) -> Call:
    """Return a call at another point."""
    leaves = [leaf * 0.99 if i in call.positions else leaf for i, leaf in enumerate(call.leaves)]
    return replace(call, leaves=leaves)


@pytest.mark.parametrize("entry", dict.fromkeys(entry for entry, _ in SAMPLES), ids=lambda entry: entry.name)
def test_rules_leave_values_alone(entry: Any) -> None:
    """No rule turns a value into an array or number of NumPy; results are of the kind of the values, with the same numbers."""
    for call in [call for owner, call in SAMPLES if owner is entry]:
        if not call.smooth(*call.primals):
            continue
        for i, (found, expected) in enumerate(zip(derivatives(call, poisoned), derivatives(call, tuple), strict=True)):
            if type(found) is not Poison:  # what depends on no value, like a count of elements, may be an array of NumPy
                other = derivatives(moved(call), tuple, seed=1)[i]
                assert np.array_equal(expected, other), f"{call}: a result is a {type(found).__name__}"
            assert np.shape(unwrap(found)) == np.shape(expected), call
            assert dtype_of(unwrap(found)) == dtype_of(expected), call
            np.testing.assert_allclose(unwrap(found), expected, rtol=1e-9, atol=1e-11, err_msg=str(call))


def _by_name(names: Any) -> list[Any]:
    return [pytest.param(entry, id=entry.name) for entry in every_entry() if names(entry)]


def _is_needed_here(entry: Any) -> bool:
    """Say whether an exception is needed with this NumPy: older ones give the rank of `lstsq` as a number of Python's."""
    return entry.name in EXCEPTIONS and (entry.name != "lstsq" or np.lib.NumpyVersion(np.__version__) >= "2.4.0")


@pytest.mark.parametrize("entry", _by_name(_is_needed_here))
def test_exceptions_are_needed(entry: Any) -> None:
    def run() -> None:
        for call in calls(entry, np.float64):
            derivatives(call, poisoned)

    with pytest.raises(PoisonError):
        run()


@pytest.mark.parametrize("entry", _by_name(lambda entry: entry.in_place and entry.status != "refused"))
def test_writing_into_tensors_of_foreign_arrays_is_refused(entry: Any) -> None:
    for call in calls(entry, np.float64):
        if call.primals:
            with pytest.raises(TypeError, match="does not support item assignment"):
                derivatives(call, poisoned)


def test_all_others_run() -> None:
    assert {entry.name for entry in every_entry()} >= set(EXCEPTIONS)
    assert len(SAMPLES) > 1500


@pytest.mark.parametrize(
    "convert", [np.asarray, np.array, float, int, complex, np.float64, memoryview], ids=lambda convert: convert.__name__
)
def test_poison_refuses(convert: Any) -> None:
    with pytest.raises((PoisonError, TypeError)):
        convert(Poison(np.ones(())))


def test_a_rule_that_converts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ENTRIES[np.sin]
    monkeypatch.setitem(vars(entry), "vjps", (lambda g, x: g * np.cos(np.asarray(x)),))
    monkeypatch.setitem(vars(entry), "reverse_plans", {})
    monkeypatch.setitem(vars(entry), "forward_plans", {})
    monkeypatch.delitem(entry.__dict__, "unary_plan", raising=False)
    from functad.tracing.operators import UNARY

    monkeypatch.delitem(UNARY, np.sin, raising=False)
    with pytest.raises(PoisonError, match="__array__"):
        derivatives(calls(entry, np.float64)[1], poisoned)
    UNARY.pop(np.sin, None)
    entry.__dict__.pop("unary_plan", None)


def test_random_programs_over_foreign_values() -> None:
    ran = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        program = draw_program(lambda n, rng=rng: int(rng.integers(n)))
        if any(f".{name}(" in program.source for name in EXCEPTIONS):
            continue
        ran += 1
        value, pullback = functad.vjp(program, *program.inputs)
        foreign, foreign_pullback = functad.vjp(program, *poisoned(program.inputs))
        found = foreign_pullback(functad.tree_map(np.ones_like, foreign))
        for a, b in zip(found, pullback(functad.tree_map(np.ones_like, value)), strict=True):
            assert type(a) is Poison, program
            np.testing.assert_allclose(a.inside, b, rtol=1e-9, atol=1e-9, err_msg=str(program))
    assert ran > 190


def test_grad_of_a_program_over_foreign_values() -> None:
    def loss(w: Any) -> Any:
        h = np.tanh(w["x"] @ w["a"] + w["b"])
        return np.sum(np.where(h > 0, h, 0.1 * h) ** 2) / len(h) + np.linalg.norm(w["a"])

    rng = np.random.default_rng(1)
    w = {"x": rng.normal(size=(4, 3)), "a": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}
    expected = functad.grad(loss)(w)
    found = functad.grad(loss)({name: Poison(value) for name, value in w.items()})
    for name, value in expected.items():
        assert type(found[name]) is Poison
        np.testing.assert_allclose(found[name].inside, value, rtol=1e-12)


def test_inputs_that_nothing_depends_on_get_zeros_of_their_kind() -> None:
    found = functad.grad(lambda x, y: np.sum(x), argnums=1)(Poison(np.ones(2)), Poison(np.ones(3)))
    assert type(found) is Poison
    np.testing.assert_array_equal(found.inside, np.zeros(3))
