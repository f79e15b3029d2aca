"""A recurrent network, by back-propagation in time."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(by_input: Any, by_state: Any, bias: Any, out: Any, sequences: Any, targets: Any) -> Any:
    """What does not depend on the state is computed for all steps together."""
    steps, batch, inputs = sequences.shape
    hidden = len(bias)
    flat = sequences.reshape(-1, inputs)
    states = np.zeros((steps + 1, batch, hidden), np.float32)
    given = (flat @ by_input).reshape(steps, batch, hidden)
    given += bias
    for t in range(steps):
        pre = states[t] @ by_state
        pre += given[t]
        np.tanh(pre, out=states[t + 1])
    apart = states[-1] @ out - targets
    value = np.mean(apart * apart)
    apart *= 2.0 / apart.size
    g_out = states[-1].T @ apart
    g = apart @ out.T
    g_pre = given  # its memory is free again
    slopes = 1.0 - states[1:] ** 2
    for t in reversed(range(steps)):
        np.multiply(g, slopes[t], out=g_pre[t])
        g = g_pre[t] @ by_state.T
    pulled = g_pre.reshape(-1, hidden)
    return value, (flat.T @ pulled, states[:-1].reshape(-1, hidden).T @ pulled, pulled.sum(axis=0), g_out)


PROGRAMS = {"looped": gradient, "scanned": gradient}
