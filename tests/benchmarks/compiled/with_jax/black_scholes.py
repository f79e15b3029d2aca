"""European call options by Black and Scholes, with all first and second Greeks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erf


def normal(x: Any) -> Any:
    """The distribution function of the normal distribution."""
    return 0.5 * (1.0 + erf(x / jnp.sqrt(2.0)))


def price(spot: Any, strike: Any, rate: Any, volatility: Any, time: Any) -> Any:
    """The price of a call."""
    spread = volatility * jnp.sqrt(time)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    return spot * normal(d1) - strike * jnp.exp(-rate * time) * normal(d1 - spread)


def greeks(*options: Any) -> Any:
    """Prices, their derivatives by each argument, and by each two arguments: for `i <= j`, row by row."""
    first = jax.grad(lambda *options: jnp.sum(price(*options)), argnums=(0, 1, 2, 3, 4))
    second = []
    for i, option in enumerate(options):

        def of_one(x: Any, i: int = i) -> Any:
            return first(*options[:i], x, *options[i + 1 :])

        second += jax.jvp(of_one, (option,), (jnp.ones_like(option),))[1][i:]
    return price(*options), first(*options), second


PROGRAMS = {"greeks": greeks}
