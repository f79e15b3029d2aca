"""European call options by Black and Scholes, with all first and second Greeks, each by its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr


def greeks(spot: Any, strike: Any, rate: Any, volatility: Any, time: Any) -> Any:
    """With `spot phi(d1) = strike exp(-rate time) phi(d2)`, which makes the first derivatives short."""
    root = np.sqrt(time)
    spread = volatility * root
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / spread
    d2 = d1 - spread
    discount = np.exp(-rate * time)
    below1, below2 = ndtr(d1), ndtr(d2)
    density1 = np.exp(-0.5 * d1 * d1)
    density1 /= math.sqrt(2 * math.pi)
    flow = spot * density1  # equals strike * discount * density2
    owed = strike * discount
    paid = owed * below2
    by_rate, by_volatility = time * paid, flow * root
    half = volatility / (2.0 * root)
    first = (below1, -discount * below2, by_rate, by_volatility, flow * half + rate * paid)

    d1_time = (rate + 0.5 * volatility * volatility) / spread - d1 / (2.0 * time)
    d2_time = d1_time - half
    d1_rate = root / volatility
    per_strike = flow / strike
    second = [
        density1 / (spot * spread),
        -density1 / (strike * spread),
        density1 * d1_rate,
        -density1 * d2 / volatility,
        density1 * d1_time,
        per_strike / (strike * spread),
        discount * below2 * time - per_strike * d1_rate,
        per_strike * d1 / volatility,
        rate * discount * below2 - per_strike * d2_time,
        time * (flow * d1_rate - by_rate),
        -time * flow * d1 / volatility,
        paid * (1.0 - rate * time) + time * flow * d2_time,
        by_volatility * d1 * d2 / volatility,
        flow / (2.0 * root) - by_volatility * d1 * d1_time,
        rate * (flow * d2_time - rate * paid) - flow * half * (d1 * d1_time + 0.5 / time),
    ]
    return spot * below1 - paid, first, second


PROGRAMS = {"greeks": greeks}
