"""The LSTM of ADBench: forward keeping the gates, and backwards in time."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The predictions have no part in the recurrence: they are made, and pulled back, for all steps together."""
    inputs, truths = sequence[:-1], sequence[1:]
    steps, width = inputs.shape
    layers = len(state) // 2
    weights, biases = main[::2], main[1::2]
    hiddens = np.empty((layers, steps + 1, width))
    cells = np.empty((layers, steps + 1, width))
    hiddens[:, 0], cells[:, 0] = state[::2], state[1::2]
    gates = np.empty((layers, steps, 4, width))
    joined = np.empty((layers, steps, 4 * width))
    tanhs = np.empty((layers, steps, width))
    below = inputs * extra[0]
    for i in range(layers):  # one layer needs only what is below it, so each runs through all steps
        by_x = joined[i].reshape(steps, 4, width)
        by_x[:, ::2] = below[:, None]
        for t in range(steps):
            by_x[t, 1::2] = hiddens[i, t]
            pre = joined[i, t] * weights[i]
            pre += biases[i]
            g = gates[i, t]
            np.negative(pre[: 3 * width], out=pre[: 3 * width])
            np.exp(pre[: 3 * width], out=pre[: 3 * width])
            pre[: 3 * width] += 1.0
            np.divide(1.0, pre[: 3 * width].reshape(3, width), out=g[:3])
            np.tanh(pre[3 * width :], out=g[3])
            cells[i, t + 1] = cells[i, t] * g[0] + g[1] * g[3]
            np.tanh(cells[i, t + 1], out=tanhs[i, t])
            hiddens[i, t + 1] = g[2] * tanhs[i, t]
        below = hiddens[i, 1:]
    guesses = below * extra[1] + extra[2]
    e = np.exp(guesses)
    total = 2.0 + e.sum(axis=1)
    sums = truths.sum(axis=1)
    value = -((truths * guesses).sum() - (sums * np.log(total)).sum()) / truths.size

    e *= (sums / total)[:, None]
    e -= truths
    e /= truths.size  # the cotangent of the guesses
    g_extra = np.empty_like(extra)
    g_extra[1], g_extra[2] = (e * below).sum(axis=0), e.sum(axis=0)
    g_main = np.empty_like(main)
    g_below = e * extra[1]
    for i in reversed(range(layers)):
        g_main[2 * i], g_main[2 * i + 1], g_below = _backwards(weights[i], joined[i], gates[i], cells[i], tanhs[i], g_below)
    g_extra[0] = (g_below * inputs).sum(axis=0)
    return value, (g_main, g_extra)


def _backwards(weight: Any, joined: Any, gates: Any, cells: Any, tanhs: Any, g_above: Any) -> tuple[Any, Any, Any]:
    """One layer backwards in time: cotangents of its weights, its biases and its inputs."""
    steps, width = tanhs.shape
    forget, ingate, outgate, change = gates.swapaxes(0, 1)
    into_cell = outgate * (1.0 - tanhs * tanhs)
    slopes = np.empty((steps, 4, width))  # of each gate before its sigmoid, by what reaches the cell, or the hidden state
    slopes[:, 0] = cells[:-1] * forget * (1.0 - forget)
    slopes[:, 1] = change * ingate * (1.0 - ingate)
    slopes[:, 2] = tanhs * outgate * (1.0 - outgate)
    slopes[:, 3] = ingate * (1.0 - change * change)
    w = weight.reshape(4, width)
    g_pre = slopes
    g_hidden, g_cell = np.zeros(width), np.zeros(width)
    for t in reversed(range(steps)):
        g_hidden += g_above[t]
        g_cell += g_hidden * into_cell[t]
        row = g_pre[t]
        row[:2] *= g_cell
        row[2] *= g_hidden
        row[3] *= g_cell
        g_hidden = row[1] * w[1] + row[3] * w[3]
        g_cell *= forget[t]
    flat = g_pre.reshape(steps, 4 * width)
    g_x = g_pre[:, 0] * w[0] + g_pre[:, 2] * w[2]
    return (flat * joined).sum(axis=0), flat.sum(axis=0), g_x


PROGRAMS = {"looped": gradient, "scanned": gradient}
