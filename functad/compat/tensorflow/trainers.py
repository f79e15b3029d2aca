"""`tf.train`: optimisers with the names and settings of TensorFlow 1, for code that uses `contrib.eager`."""

from __future__ import annotations

from typing import Any

from functad.compat.tensorflow.networks import part_of_functad

_optimizers: Any = part_of_functad("optimizers")


def gradient_descent_optimizer(learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> Any:
    """Return `functad.optimizers.SGD`."""
    return _optimizers.SGD(learning_rate)


def momentum_optimizer(
    learning_rate: Any, momentum: float, use_locking: bool = False, name: str = "Momentum", use_nesterov: bool = False
) -> Any:
    """Return `functad.optimizers.SGD` with momentum."""
    return _optimizers.SGD(learning_rate, momentum, use_nesterov)


def adam_optimizer(
    learning_rate: Any = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    use_locking: bool = False,
    name: str = "Adam",
) -> Any:
    """Return `functad.optimizers.Adam`."""
    return _optimizers.Adam(learning_rate, beta1, beta2, epsilon)
