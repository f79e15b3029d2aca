"""European call options by Black and Scholes, with all first and second Greeks."""

from __future__ import annotations

import math
from typing import Any

import torch


def normal(x: Any) -> Any:
    """The distribution function of the normal distribution."""
    return 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def price(spot: Any, strike: Any, rate: Any, volatility: Any, time: Any) -> Any:
    """The price of a call."""
    spread = volatility * torch.sqrt(time)
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    return spot * normal(d1) - strike * torch.exp(-rate * time) * normal(d1 - spread)


def greeks(*options: Any) -> Any:
    """Prices, their derivatives by each argument, and by each two arguments, by two passes of the tape."""
    inputs = [option.detach().requires_grad_() for option in options]
    value = price(*inputs)
    first = torch.autograd.grad(value.sum(), inputs, create_graph=True)
    second = []
    for i, slope in enumerate(first):
        second += torch.autograd.grad(slope.sum(), inputs[i:], retain_graph=True)
    return value.detach(), [slope.detach() for slope in first], second


PROGRAMS = {"greeks": greeks}
