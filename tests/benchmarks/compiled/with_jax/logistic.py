"""Logistic regression: gradient, Hessian, and its product with a direction."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """Mean of `log(1 + exp(z)) - y z`."""
    z = features @ weights
    return jnp.mean(jnp.logaddexp(0.0, z) - labels * z)


def product(weights: Any, direction: Any, features: Any, labels: Any) -> Any:
    """The Hessian times a direction."""
    return jax.jvp(lambda w: jax.grad(logistic)(w, features, labels), (weights,), (direction,))[1]


PROGRAMS = {"gradient": jax.value_and_grad(logistic), "hessian": jax.hessian(logistic), "product": product}
