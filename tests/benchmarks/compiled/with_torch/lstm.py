"""The LSTM of ADBench, whose gates act element by element; there is no scan, so the loop is Python's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from .gradients import value_and_grad


def layer(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """One layer: the next hidden state and cell."""
    forget, ingate, outgate, change = torch.chunk(torch.cat([x, hidden, x, hidden]) * weight + bias, 4)
    cell = cell * torch.sigmoid(forget) + torch.sigmoid(ingate) * torch.tanh(change)
    return torch.sigmoid(outgate) * torch.tanh(cell), cell


def looped(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Mean loss."""
    main, extra, rows = main.unbind(), extra.unbind(), sequence.unbind()
    hiddens, cells = list(state[::2].unbind()), list(state[1::2].unbind())
    total = 0.0
    for x, truth in pairwise(rows):
        x = x * extra[0]
        for i in range(len(hiddens)):
            x, cells[i] = layer(main[2 * i], main[2 * i + 1], hiddens[i], cells[i], x)
            hiddens[i] = x
        guess = x * extra[1] + extra[2]
        total = total + torch.sum(truth * (guess - torch.log(2.0 + torch.sum(torch.exp(guess)))))
    return -total / sequence[1:].numel()


PROGRAMS = {"looped": value_and_grad(looped, (0, 1)), "scanned": value_and_grad(looped, (0, 1))}
