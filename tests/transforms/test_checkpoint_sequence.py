"""`checkpoint_sequence`: derivatives those of the loop, less memory, and the promised schedules."""

import functools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import errors, tree_structure
from functad.rules.checkpoint import _repetitions, _Steps, first_part
from functad.testing import check_grads
from tests.work import peak_memory

PAGE = Path(__file__).parents[2] / "notebooks" / "custom_rules.md"
BIG = np.linspace(0.1, 1.0, 20_000)


def peak(run):
    """Return the peak of memory while something runs, in arrays of the size of `BIG`."""
    return peak_memory(run) / BIG.nbytes


def step(i, y, w):
    return np.sin(y * w) + 0.1 * i


def looped(n):
    def run(y, w):
        for i in range(n):
            y = step(i, y, w)
        return y

    return run


Y, V = np.array([0.1, 0.2]), np.array([1.1, 0.9])
SNAPSHOTS = [None, 1, 2, 3, 5, 40]


@pytest.mark.parametrize("snapshots", SNAPSHOTS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 20, 33])
def test_sequence_is_the_loop(n, snapshots):
    run = functad.checkpoint_sequence(step, n, snapshots)
    np.testing.assert_array_equal(run(Y, V), looped(n)(Y, V))
    for argnum in (0, 1):
        found = functad.grad(lambda y, w: np.sum(run(y, w) ** 2), argnum)(Y, V)
        np.testing.assert_allclose(found, functad.grad(lambda y, w: np.sum(looped(n)(y, w) ** 2), argnum)(Y, V), rtol=1e-12)


@pytest.mark.parametrize("snapshots", [None, 1, 3])
def test_sequence_in_both_modes_and_second_order(snapshots):
    check_grads(functad.checkpoint_sequence(step, 7, snapshots), [Y, V], order=2)


@pytest.mark.parametrize("snapshots", [None, 3])
def test_pullback_of_a_sequence_can_be_called_again(snapshots):
    pull = functad.vjp(functad.checkpoint_sequence(step, 20, snapshots), Y, V)[1]
    first, second = pull(np.ones(2)), pull(np.ones(2))
    for found, again in zip(first, second, strict=True):
        np.testing.assert_array_equal(found, again)


def test_sequence_of_trees_with_numbers():
    def move(i, state, force):
        return {"x": state["x"] + 0.1 * state["v"], "v": state["v"] - force["k"] * state["x"], "count": state["count"] + 1}

    run = functad.checkpoint_sequence(move, 12, 3)
    start = {"x": 1.0, "v": np.zeros(2), "count": 0}
    start["x"] = np.ones(2)

    def loop(state, force):
        for i in range(12):
            state = move(i, state, force)
        return state

    assert run(start, {"k": 0.2})["count"] == 12
    found = functad.grad(lambda k: np.sum(run(start, {"k": k})["x"]))(0.2)
    np.testing.assert_allclose(found, functad.grad(lambda k: np.sum(loop(start, {"k": k})["x"]))(0.2))


def fewest_steps(length, snapshots):
    """Return the least number of forward steps to reverse `length` steps, `t(l, c)` in the documentation of the module."""
    r = _repetitions(length, snapshots)
    return r * length - math.comb(snapshots + r, r - 1) if length > 1 else 0


@functools.cache
def least(length, snapshots):
    """Return the least number of steps by trying all places for the next snapshot."""
    if length == 1:
        return 0
    if snapshots == 1:
        return length * (length - 1) // 2
    return min(m + least(length - m, snapshots - 1) + least(m, snapshots) for m in range(1, length))


def test_formula_is_the_minimum_over_all_schedules():
    for length in range(1, 45):
        for snapshots in range(1, 9):
            assert fewest_steps(length, snapshots) == least(length, snapshots)


@pytest.mark.parametrize("n", [1, 2, 5, 10, 37, 100])
@pytest.mark.parametrize("snapshots", [1, 2, 3, 5, 8, 200])
def test_binomial_schedule_takes_as_many_steps_as_the_formula_says(n, snapshots):
    """Reversed from the first state alone: `t(n, c)` steps forward, and one of each that is recorded."""
    count, held, states = [0], [0], {}

    def counted(i, y):
        count[0] += 1
        return y * 1.0

    def watched(self, *given, original=_Steps.step_back):
        held[0] = max(held[0], len(states))
        return original(self, *given)

    steps = _Steps(counted, n, snapshots, tree_structure(0), 1, [], tree_structure(()), [], [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Steps, "step_back", watched)
        found = steps.backward(([Y], states), [Y])
    assert count[0] == n + fewest_steps(n, snapshots)
    assert held[0] <= snapshots
    np.testing.assert_array_equal(found[0], Y)


@pytest.mark.parametrize(("n", "snapshots"), [(10, 2), (37, 3), (100, 5), (20, 40)])
def test_steps_of_the_first_pass_are_not_taken_again(n, snapshots):
    count = [0]

    def counted(i, y):
        count[0] += 1
        return np.sin(y)

    functad.grad(lambda y: np.sum(functad.checkpoint_sequence(counted, n, snapshots)(y)))(Y)
    kept, start = [0], 0
    for free in range(snapshots, 1, -1):
        if n - start > 1:
            start += first_part(n - start, free)
            kept.append(start)
    assert count[0] == 2 * n + fewest_steps(n, snapshots) - kept[-1]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 127])
def test_default_schedule_takes_each_step_three_times_at_most(n):
    count = [0]

    def counted(i, y):
        count[0] += 1
        return np.sin(y)

    functad.grad(lambda y: np.sum(functad.checkpoint_sequence(counted, n)(y)))(Y)
    assert 2 * n <= count[0] <= 3 * n


def test_peak_memory_of_sequences():
    """With 100 steps: sqrt(200) states, or as many as there are snapshots, and the record of a step."""

    def gradient(run):
        return peak(lambda: functad.grad(lambda y: np.sum(run(y, 2.0)))(BIG))

    assert gradient(looped(100)) > 95
    assert gradient(functad.checkpoint_sequence(step, 100)) < 14 + 12
    assert gradient(functad.checkpoint_sequence(step, 100, 5)) < 5 + 12
    assert gradient(functad.checkpoint_sequence(step, 100, 1)) < 1 + 10
    run = functad.checkpoint_sequence(step, 100)
    assert peak(lambda: functad.jvp(lambda y: run(y, 2.0), (BIG,), (BIG,))) < 15


def test_sequence_refuses_what_cannot_be():
    with pytest.raises(errors.OutputError, match=r"step 0 makes state float64\[2,1\], but it was float64\[2\]"):
        functad.checkpoint_sequence(lambda i, y: y[:, None], 3)(Y)
    with pytest.raises(errors.OutputError, match="the state should be a leaf, not a list of 1"):
        functad.checkpoint_sequence(lambda i, y: [y], 3)(Y)
    for n, snapshots in ((-1, None), (2.5, None), (3, 0)):
        with pytest.raises(errors.InputError, match="checkpoint_sequence of"):
            functad.checkpoint_sequence(lambda i, y: y, n, snapshots)
    with pytest.raises(errors.InputError, match="needs a function"):
        functad.checkpoint_sequence(3, 3)


def test_closure_of_a_sequence_is_refused():
    with pytest.raises(errors.CustomRuleError, match="Make it an argument"):
        functad.grad(lambda w: functad.checkpoint_sequence(lambda i, y: y * w, 3)(w))(2.0)


def test_sequence_has_one_equation():
    run = functad.checkpoint_sequence(step, 50)
    expressions = functad.make_expressions(run)(Y, V).check()
    assert [e.primitive.name for e in expressions.equations] == ["checkpoint_sequence"]
    np.testing.assert_array_equal(expressions(Y, V), looped(50)(Y, V))


def test_sequence_on_a_tape():
    v = functad.Variable(V)
    run = functad.checkpoint_sequence(step, 9, 3)
    with functad.GradientTape() as tape:
        y = np.sum(run(Y, v))
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), functad.grad(lambda w: np.sum(looped(9)(Y, w)))(V))


def test_steps_computed_again_are_those_of_the_table():
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    count = 1000
    assert len(rows) == 4
    for snapshots, held, again in rows:
        last = 0  # the place of the last state that is kept in the first pass
        for free in range(int(snapshots), 1, -1):
            last += first_part(count - last, free)
        assert held == snapshots
        assert f"{(fewest_steps(count, int(snapshots)) - last) / count:.1f}" == again
