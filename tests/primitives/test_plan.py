"""Plans: `save`, `pull`, `push` and `arguments`, generated from signatures, do what the rules of a primitive do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad.primitives.entry import ENTRIES, MANY, Primitive
from functad.testing import Call, calls, every_entry
from functad.tracing.concrete import ReverseRecorder
from tests.entries import is_constant, is_unknown, label


def _has_a_rule_for_each_array(entry: Any) -> bool:
    if not isinstance(entry, Primitive) or is_constant(entry) or entry.lists or entry.multiple or entry.joint:
        return False
    return not any(map(is_unknown, entry.vjps))


PRIMITIVES = [entry for entry in every_entry() if _has_a_rule_for_each_array(entry)]


def _records(call: Call) -> list[Any]:
    recorder = ReverseRecorder("test", call.smooth)
    call.smooth(*[recorder.enter(value) for value in call.primals])
    return [record for record in recorder.records if record is not None]


@pytest.mark.parametrize("entry", PRIMITIVES, ids=label)
@pytest.mark.filterwarnings("ignore")
def test_pull_calls_each_rule_with_what_it_names(entry: Primitive) -> None:
    for call in [call for call in calls(entry, np.float64) if call.primals][:3]:
        for plan, _, residuals, _ in _records(call):
            if plan.primitive is not entry or plan.pull is None:
                continue
            g = np.ones(np.shape(call.arrays(*call.primals)[0]))[()]
            expected = [rule(g, *args) for rule, args in zip(plan.rules, plan.arguments(residuals), strict=True)]
            found = plan.pull(g, residuals)
            for a, b in zip((found,) if len(expected) == 1 else found, expected, strict=True):
                assert np.array_equal(a, b, equal_nan=True)


def test_residuals_are_the_names_that_rules_read_each_once() -> None:
    plan = ENTRIES[np.divide].reverse_plan((0, 1))  # `g / y`, and `-(g * (out / y))`
    assert plan.names == ("y", "out")
    residuals = plan.save((6.0, 2.0), 3.0, {})
    assert residuals == (2.0, 3.0)
    assert plan.arguments(residuals) == ((2.0,), (2.0, 3.0))
    assert plan.pull(4.0, residuals) == (2.0, -6.0)
    assert ENTRIES[np.sin].reverse_plan((0,)).save((0.5,), 0.4, {}) == 0.5
    assert ENTRIES[np.add].reverse_plan((0, 1)).save((1.0, 2.0), 3.0, {}) is None


def test_push_adds_the_tangents_that_are_not_zero() -> None:
    plan = ENTRIES[np.multiply].reverse_plan((0, 1))
    residuals = plan.save((3.0, 5.0), 15.0, {})
    assert plan.push([1.0, None], residuals) == 5.0
    assert plan.push([None, 1.0], residuals) == 3.0
    assert plan.push([1.0, 1.0], residuals) == 8.0
    assert plan.push([None, None], residuals) is None


def test_a_value_times_itself_is_recorded_as_its_square() -> None:
    recorder = ReverseRecorder("test", None)
    x = recorder.enter(np.array([1.0, 3.0]))
    x * x
    assert recorder.records[-1][0].primitive is ENTRIES[np.square]
    assert functad.grad(lambda x: np.sum(x * x * x))(np.array([1.0, 3.0])).tolist() == [3.0, 27.0]


def test_sets_of_differentiated_positions_are_not_kept_for_good():
    xs = [float(i) for i in range(10)]
    for chosen in range(1, 1 << 10):
        argnums = tuple(i for i in range(10) if chosen >> i & 1)
        found = functad.grad(lambda *xs: np.sum(np.stack(xs) ** 2), argnums=argnums)(*xs)
        assert [float(g) for g in found] == [2.0 * i for i in argnums]
    kept = [plans for entry in ENTRIES.values() for plans in (getattr(entry, "reverse_plans", ()),)]
    assert max(map(len, kept)) <= MANY
