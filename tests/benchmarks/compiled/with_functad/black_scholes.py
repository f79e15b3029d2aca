"""European call options by Black and Scholes, with all first and second Greeks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf

import functad


def normal(x: Any) -> Any:
    """The distribution function of the normal distribution."""
    return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))


def price(spot: Any, strike: Any, rate: Any, volatility: Any, time: Any) -> Any:
    """The price of a call."""
    spread = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    return spot * normal(d1) - strike * np.exp(-rate * time) * normal(d1 - spread)


def greeks(*options: Any) -> Any:
    """Prices, their derivatives by each argument, and by each two arguments: for `i <= j`, row by row."""
    first = functad.grad(lambda *options: np.sum(price(*options)), argnums=(0, 1, 2, 3, 4))
    second = []
    for i, option in enumerate(options):

        def of_one(x: Any, i: int = i) -> Any:
            return first(*options[:i], x, *options[i + 1 :])

        second += functad.jvp(of_one, (option,), (np.ones_like(option),))[1][i:]
    return price(*options), first(*options), second


PROGRAMS = {"greeks": greeks}
