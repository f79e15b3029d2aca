"""The LSTM of ADBench, whose gates act element by element, predicting the next row of a sequence."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import functad


def sigmoid(x: Any) -> Any:
    """The logistic function."""
    return 1.0 / (1.0 + np.exp(-x))


def layer(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """One layer: the next hidden state and cell."""
    forget, ingate, outgate, change = np.reshape(np.concatenate([x, hidden, x, hidden]) * weight + bias, (4, -1))
    cell = cell * sigmoid(forget) + sigmoid(ingate) * np.tanh(change)
    return sigmoid(outgate) * np.tanh(cell), cell


def predicted(main: Any, extra: Any, state: Any, x: Any) -> tuple[Any, Any]:
    """The prediction of the row after `x`, and the next state."""
    x = x * extra[0]
    states = []
    for i in range(0, len(state), 2):
        x, cell = layer(main[i], main[i + 1], state[i], state[i + 1], x)
        states += [x, cell]
    return x * extra[1] + extra[2], np.stack(states)


def score(guess: Any, truth: Any) -> Any:
    """Log-likelihood of a row."""
    return np.sum(truth * (guess - np.log(2.0 + np.sum(np.exp(guess)))))


def looped(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Mean loss, by Python's loop."""
    total = 0.0
    for x, truth in pairwise(sequence):
        guess, state = predicted(main, extra, state, x)
        total = total + score(guess, truth)
    return -total / sequence[1:].size


def scanned(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Mean loss, by a scan."""

    def step(carry: Any, rows: Any) -> tuple[Any, None]:
        state, total = carry
        guess, state = predicted(main, extra, state, rows[0])
        return (state, total + score(guess, rows[1])), None

    (_, total), _ = functad.scan(step, (state, 0.0), (sequence[:-1], sequence[1:]))
    return -total / sequence[1:].size


PROGRAMS = {
    "looped": functad.value_and_grad(looped, argnums=(0, 1)),
    "scanned": functad.value_and_grad(scanned, argnums=(0, 1)),
}
