"""The LSTM of ADBench, whose gates act element by element, predicting the next row of a sequence."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp


def layer(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """One layer: the next hidden state and cell."""
    forget, ingate, outgate, change = jnp.reshape(jnp.concatenate([x, hidden, x, hidden]) * weight + bias, (4, -1))
    cell = cell * jax.nn.sigmoid(forget) + jax.nn.sigmoid(ingate) * jnp.tanh(change)
    return jax.nn.sigmoid(outgate) * jnp.tanh(cell), cell


def predicted(main: Any, extra: Any, state: Any, x: Any) -> tuple[Any, Any]:
    """The prediction of the row after `x`, and the next state."""
    x = x * extra[0]
    states = []
    for i in range(0, len(state), 2):
        x, cell = layer(main[i], main[i + 1], state[i], state[i + 1], x)
        states += [x, cell]
    return x * extra[1] + extra[2], jnp.stack(states)


def score(guess: Any, truth: Any) -> Any:
    """Log-likelihood of a row."""
    return jnp.sum(truth * (guess - jnp.log(2.0 + jnp.sum(jnp.exp(guess)))))


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

    (_, total), _ = jax.lax.scan(step, (state, 0.0), (sequence[:-1], sequence[1:]))
    return -total / sequence[1:].size


PROGRAMS = {
    "looped": jax.value_and_grad(looped, argnums=(0, 1)),
    "scanned": jax.value_and_grad(scanned, argnums=(0, 1)),
}
