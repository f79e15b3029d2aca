"""Carries of scans that are sums, that never change, or that are put together from pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad.compilation.passes import simplified

WIDTH = 12
RNG = np.random.default_rng(3)
WEIGHTS = RNG.normal(size=(2, 4 * WIDTH))
STATE = RNG.normal(size=(2, WIDTH))
ROWS = RNG.normal(size=(9, WIDTH))


def gates(weights: Any, state: Any, rows: Any) -> Any:
    """Carry the rows of one array, as an LSTM does whose gates act element by element."""

    def step(carry: Any, row: Any) -> Any:
        state, total = carry
        hidden, cell = state
        forget, ingate, outgate, change = np.reshape(
            np.concatenate([row, hidden, row, hidden]) * weights[0] + weights[1], (4, -1)
        )
        cell = cell / (1.0 + np.exp(-forget)) + np.tanh(change) / (1.0 + np.exp(-ingate))
        hidden = np.tanh(cell) / (1.0 + np.exp(-outgate))
        return (np.stack([hidden, cell]), total + np.sum(hidden * row)), None

    (state, total), _ = functad.scan(step, (state, 0.0), rows)
    return total + np.sum(state[0])


def batch(weights: Any, state: Any, rows: Any) -> Any:
    """A recurrent network on a batch, whose derivative by its inputs' weights is a sum of products with small rows."""
    by_input, by_state = weights[:, :WIDTH], np.outer(state[0], state[1])
    inputs = np.stack([rows[:, :2], rows[:, 2:4], rows[:, 4:6]], axis=1)
    h, _ = functad.scan(
        lambda h, x: (np.tanh(x @ by_input + h @ by_state + weights[0, :WIDTH]), None), np.zeros((3, WIDTH)), inputs
    )
    return np.sum(h * h)


def unchanged(weights: Any, state: Any, rows: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        x, scale = carry
        return (np.sin(x * row) + scale * state[1], scale), x

    (x, scale), xs = functad.scan(step, (state[0], weights[0, 0]), rows)
    return np.sum(x) * scale + np.sum(xs**2)


def halves(weights: Any, state: Any, rows: Any) -> Any:
    """The pieces change places, and the last state is read as a whole."""

    def step(carry: Any, row: Any) -> Any:
        a, b = carry
        return np.stack([b, np.tanh(a * row) + b]), a + row

    last, ys = functad.scan(step, state, rows, reverse=True)
    return np.sum(last * weights[:, :WIDTH]) + np.sum(ys * ys)


PROGRAMS = [gates, batch, unchanged, halves]


def both(f: Any) -> Any:
    return functad.value_and_grad(f, argnums=(0, 1, 2))


def short(f: Any, *, fused: bool = False) -> Any:
    found = simplified(functad.make_expressions(both(f))(WEIGHTS, STATE, ROWS), fused=fused).check()
    return found, [e for e in found.equations if e.primitive.name == "scan"]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize(
    "options", [{"backend": "numpy"}, {"backend": "numpy", "exact": True}, {}], ids=["numpy", "exact", "best"]
)
def test_compiled_programs_give_what_eager_ones_give(f: Any, options: Any) -> None:
    value, slopes = both(f)(WEIGHTS, STATE, ROWS)
    found, own = functad.jit(both(f), **options)(WEIGHTS, STATE, ROWS)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    for a, b in zip(own, slopes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("f", PROGRAMS)
def test_second_derivatives_of_compiled_programs(f: Any) -> None:
    def along(run: Any) -> Any:
        return functad.jvp(functad.grad(lambda s: run(WEIGHTS, s, ROWS)), (STATE,), (np.cos(STATE),))[1]

    np.testing.assert_allclose(along(functad.jit(f, backend="numpy")), along(f), rtol=1e-8, atol=1e-10)


def test_rows_of_one_array_are_carries_of_their_own() -> None:
    for fused in (False, True):
        _, [forward, backward] = short(gates, fused=fused)
        assert not {"stack", "scatter"} & {e.primitive.name for e in forward.params["body"].equations}
        assert [s.shape for s in forward.params["body"].specs[: forward.params["carries"]]][:2] == [(WIDTH,)] * 2
    assert backward.params["carries"] > 2


def test_sums_are_taken_after_the_loop() -> None:
    _, [forward, backward] = short(gates)
    assert (forward.params["carries"], backward.params["carries"]) == (2, 2)
    for loop in short(batch)[1]:
        assert [e.primitive.name for e in loop.params["body"].equations].count("matmul") == 1
        assert loop.params["carries"] == 1


def test_what_no_step_changes_is_no_carry() -> None:
    _, [forward, *_] = short(unchanged)
    assert forward.params["carries"] == 1


def test_a_last_state_is_put_together_after_the_loop() -> None:
    found, [forward, *_] = short(halves)
    assert forward.params["carries"] == 2
    assert "stack" in [e.primitive.name for e in found.equations]
