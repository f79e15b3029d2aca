"""`tf.keras.initializers`: initial values of Variables, as functions of a shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import shape_from
from functad.compat.tensorflow.names import TABLE, named
from functad.compat.tensorflow.random_numbers import normal, uniform
from functad.compat.tensorflow.tensors import as_tensor
from functad.places import here

Initializer = Callable[..., Any]
NAMES: dict[str, Callable[..., Initializer]] = {}
"""Functions that create initializers, by the names that layers accept."""


def _entered(name: str) -> Callable[[Callable[..., Initializer]], Callable[..., Initializer]]:
    snake = "".join([f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name)])

    def decorate(make: Callable[..., Initializer]) -> Callable[..., Initializer]:
        NAMES[snake] = make
        return named(f"keras.initializers.{name} keras.initializers.{snake} initializers.{name}")(make)

    return decorate


@_entered("Zeros")
def zeros_initializer() -> Initializer:
    """Return an initializer of zeros."""
    return TABLE["zeros"]  # type: ignore[no-any-return]


@_entered("Ones")
def ones_initializer() -> Initializer:
    """Return an initializer of ones."""
    return TABLE["ones"]  # type: ignore[no-any-return]


@_entered("Constant")
def constant_initializer(value: Any = 0.0) -> Initializer:
    """Return an initializer that repeats `value`."""
    return lambda shape, dtype=np.float32: TABLE["fill"](shape, as_tensor(value, dtype))


@_entered("RandomNormal")
def random_normal(mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> Initializer:
    """Return an initializer of normally distributed numbers."""
    return lambda shape, dtype=np.float32: normal(shape, mean, stddev, dtype, seed)


@_entered("GlorotUniform")
def glorot_uniform(seed: int | None = None) -> Initializer:
    """Return an initializer of uniform numbers between `-limit` and `limit`, with `limit = sqrt(6 / (inputs + outputs))`."""

    def initialize(shape: Any, dtype: Any = np.float32) -> Any:
        lengths = shape_from(shape)
        inputs, outputs = (lengths[-2] if len(lengths) > 1 else lengths[-1]), lengths[-1]
        limit = math.sqrt(6 / (inputs + outputs))
        return uniform(shape, -limit, limit, dtype, seed)

    return initialize


@named("keras.initializers.get")
def initializer(identifier: Any) -> Initializer:
    """Return the initializer with a given name; a function is returned unchanged.

    Raises:
        ValueError: there is no initializer with this name.
    """
    if callable(identifier):
        return identifier  # type: ignore[no-any-return]
    if identifier not in NAMES:
        raise ValueError(f"there is no initializer {identifier!r}, at {here()}: there are {', '.join(NAMES)}.")
    return NAMES[identifier]()
