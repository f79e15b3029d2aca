"""The chains for TensorFlow's eager `GradientTape`; the other programs are not compared with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .programs import leaves

VERSION = tf.__version__


def chain(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = tf.sin(x) * 0.9 + x * 0.1
    return tf.reduce_sum(x)


def chain_scalar(x: Any, iterations: int) -> Any:
    """The chain on one number, which needs no sum."""
    for _ in range(iterations):
        x = tf.sin(x) * 0.9 + x * 0.1
    return x


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """Mean of `log(1 + exp(z)) - y z`."""
    z = tf.linalg.matvec(features, weights)
    return tf.reduce_mean(tf.math.softplus(z) - labels * z)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "chain_scalar": chain_scalar,
    "chain_vector": chain,
    "chain_memory": chain,
    "logistic": logistic,
}


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes value and gradient."""
    f = FUNCTIONS[name]
    given = [tf.constant(a) if isinstance(a, np.ndarray) else a for a in arguments]
    sources = tuple([given[i] for i in argnums])

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(sources)
            value = f(*given)
        return value, tape.gradient(value, sources)

    return step


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return value and gradients as arrays."""
    return [np.asarray(leaf) for leaf in leaves(result)]
