"""`tf.random`: NumPy's random numbers with TensorFlow's arguments. Seeds reproduce numbers, but not those of TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import shape_from, static
from functad.compat.tensorflow.dtypes import numpy_dtype
from functad.compat.tensorflow.names import named
from functad.compat.tensorflow.tensors import as_tensor, operation, tensor_of
from functad.places import here
from functad.transforms.outside import GLOBAL


class _State:
    """The generator for functions without their own seed."""

    generator = np.random.default_rng()


GLOBAL.append(lambda: _State.generator)


def generator_for(seed: int | None) -> np.random.Generator:
    """Return the common generator, or a new one for a given seed."""
    return _State.generator if seed is None else np.random.default_rng(seed)


@named("random.set_seed set_random_seed")
def set_seed(seed: int) -> None:
    """Restart the common generator from a seed."""
    _State.generator = np.random.default_rng(seed)


def _scaled(z: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    kind = numpy_dtype(dtype)
    return z.astype(kind) * as_tensor(stddev, kind) + as_tensor(mean, kind)


def _normal(rng: np.random.Generator, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    return _scaled(rng.standard_normal(shape_from(shape)), mean, stddev, dtype)


def _uniform(rng: np.random.Generator, shape: Any, minval: Any, maxval: Any, dtype: Any) -> Any:
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        if maxval is None:
            raise ValueError(f"uniform random integers need maxval, at {here()}.")
        return rng.integers(static(minval), static(maxval), shape_from(shape)).astype(kind)
    low, high = as_tensor(minval, kind), as_tensor(1 if maxval is None else maxval, kind)
    below_one = np.nextafter(kind.type(1), kind.type(0))  # a cast of a double rounds up to 1
    return low + (high - low) * np.minimum(rng.random(shape_from(shape)).astype(kind), below_one)


@operation("random.normal random_normal")
def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, seed: int | None = None, name: str | None = None
) -> Any:
    """Return normally distributed numbers, differentiable with respect to `mean` and `stddev`."""
    return _normal(generator_for(seed), shape, mean, stddev, dtype)


@operation("random.uniform random_uniform")
def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = np.float32, seed: int | None = None, name: str | None = None
) -> Any:
    """Return uniform numbers, by default from 0 to 1; the upper end is excluded."""
    return _uniform(generator_for(seed), shape, minval, maxval, dtype)


@operation("random.truncated_normal")
def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, seed: int | None = None, name: str | None = None
) -> Any:
    """Return normally distributed numbers; numbers beyond two standard deviations are drawn again."""
    rng = generator_for(seed)
    z = rng.standard_normal(shape_from(shape))
    while np.any(far := np.abs(z) > 2):
        z = np.where(far, rng.standard_normal(z.shape), z)
    return _scaled(z, mean, stddev, dtype)


@operation("random.shuffle")
def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """Return the slices along the first axis in random order."""
    x = as_tensor(value)
    return x[generator_for(seed).permutation(len(x))]


@operation("nn.dropout")
def dropout(x: Any, rate: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None) -> Any:
    """Return a Tensor with a random part of its elements zero and the others scaled to preserve the mean."""
    x = as_tensor(x)
    kept = generator_for(seed).random(tuple(x.shape) if noise_shape is None else shape_from(noise_shape)) >= float(rate)
    return x * (kept / (1 - float(rate))).astype(x.dtype)


@named("random.Generator")
class Generator:
    """An independent generator of random numbers.

    Example:
        >>> from functad.compat import tf
        >>> first, second = (tf.random.Generator.from_seed(1).normal([2]).numpy() for _ in range(2))
        >>> bool((first == second).all())
        True
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        """Return the generator for a seed."""
        return cls(np.random.default_rng(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Return a generator with a random seed."""
        return cls(np.random.default_rng())

    def normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, name: str | None = None) -> Any:
        """Return normally distributed numbers."""
        return tensor_of(_normal(self._rng, shape, mean, stddev, dtype))

    def uniform(self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = np.float32, name: str | None = None) -> Any:
        """Return uniform numbers."""
        return tensor_of(_uniform(self._rng, shape, minval, maxval, dtype))


@named("random.get_global_generator")
def get_global_generator() -> Generator:
    """Return the generator for functions without their own seed."""
    return Generator(_State.generator)
