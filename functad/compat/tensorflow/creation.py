"""New Tensors with TensorFlow's arguments: constants, `tf.random` and `tf.keras.initializers`.

The random numbers are NumPy's. Seeds reproduce numbers, but not the numbers of TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.compat.tensorflow.names import TABLE, named
from functad.compat.tensorflow.tensors import as_tensor, enter_calls, numpy_dtype, operands, operation, tensor_of
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here
from functad.primitives.operands import innermost
from functad.tracing.trace import resolve
from functad.transforms.outside import GLOBAL


def static(value: Any) -> Any:
    """Return a static argument, such as indices or a shape, as a plain array."""
    return np.asarray(as_tensor(value).numpy())


def places_of(value: Any) -> Any:
    """Return positions as a plain array; under `vmap`, or if the values are unknown, as a Tensor."""
    tensor = as_tensor(value)
    return tensor if isinstance(innermost(resolve(tensor)), ArraySpec) else np.asarray(tensor.numpy())


def shape_from(value: Any) -> tuple[int, ...]:
    """Return a shape given as a list, a Tensor or one length."""
    return tuple(int(n) for n in np.atleast_1d(static(value)))


def _shape_and_dtype(input: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the shape and dtype of a Tensor like `input`; derivatives do not propagate to `input`."""
    x = as_tensor(input)
    return shape_of(x), dtype_of(x) if dtype is None else numpy_dtype(dtype)


enter_calls(
    {
        "zeros": (np.zeros, lambda shape, dtype=np.float32, name=None: (shape_from(shape), numpy_dtype(dtype))),
        "ones": (np.ones, lambda shape, dtype=np.float32, name=None: (shape_from(shape), numpy_dtype(dtype))),
        "zeros_like": (np.zeros, lambda input, dtype=None, name=None: _shape_and_dtype(input, dtype)),
        "ones_like": (np.ones, lambda input, dtype=None, name=None: _shape_and_dtype(input, dtype)),
        "fill": (np.broadcast_to, lambda dims, value, name=None: (as_tensor(value), shape_from(dims))),
    }
)


_WIDTHS = [np.dtype(name) for name in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")]
"""The dtypes that `range` accepts, in TensorFlow's order of promotion: floats come after integers."""


@operation("range")
def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None) -> Any:
    """Return the numbers from `start` (default 0) up to `limit`, excluded."""
    first, last = (0, start) if limit is None else (start, limit)
    numbers = [static(number) for number in operands(first, last, delta)]
    own = max([number.dtype for number in numbers], key=_WIDTHS.index) if dtype is None else None
    return np.arange(*[number[()] for number in numbers], dtype=own or numpy_dtype(dtype))


@operation("linspace")
def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Any:
    """Return evenly spaced numbers, both ends included."""
    first, last = operands(start, stop)
    steps = np.linspace(0.0, 1.0, int(static(num))).astype(np.result_type(dtype_of(first), np.float16))
    steps = steps.reshape((-1,) + (1,) * len(shape_of(first)))
    return np.moveaxis(first + (last - first) * steps, 0, axis)


@operation("eye linalg.eye")
def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = np.float32, name: str | None = None
) -> Any:
    """Return the identity matrix, or a batch of it."""
    matrix = np.eye(int(static(num_rows)), None if num_columns is None else int(static(num_columns)), dtype=numpy_dtype(dtype))
    return matrix if batch_shape is None else np.broadcast_to(matrix, (*shape_from(batch_shape), *matrix.shape))


@operation("one_hot")
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: int = -1,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return, for each integer, a row with `on_value` at that position; an integer out of range gives no `on_value`."""
    kind = np.float32 if dtype is None else numpy_dtype(dtype)
    chosen = np.expand_dims(places_of(indices), -1) == np.arange(int(static(depth)))
    return np.moveaxis(np.where(chosen, as_tensor(on_value, kind), as_tensor(off_value, kind)), -1, axis)


@operation("meshgrid")
def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Any]:
    """Return the coordinates of a grid."""
    return list(np.meshgrid(*operands(*args), indexing=indexing))  # type: ignore[call-overload]


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
        """Return normally distributed numbers, differentiable with respect to `mean` and `stddev`."""
        return _scaled(self._rng.standard_normal(shape_from(shape)), mean, stddev, dtype)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, name: str | None = None
    ) -> Any:
        """Return normally distributed numbers; numbers beyond two standard deviations are drawn again."""
        z = self._rng.standard_normal(shape_from(shape))
        while np.any(far := np.abs(z) > 2):
            z = np.where(far, self._rng.standard_normal(z.shape), z)
        return _scaled(z, mean, stddev, dtype)

    def uniform(self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = np.float32, name: str | None = None) -> Any:
        """Return uniform numbers, by default from 0 to 1; the upper end is excluded."""
        kind = numpy_dtype(dtype)
        if kind.kind in "iu":
            if maxval is None:
                raise ValueError(f"uniform random integers need maxval, at {here()}.")
            return tensor_of(self._rng.integers(static(minval), static(maxval), shape_from(shape)).astype(kind))
        low, high = as_tensor(minval, kind), as_tensor(1 if maxval is None else maxval, kind)
        below_one = np.nextafter(kind.type(1), kind.type(0))  # a cast of a double rounds up to 1
        return tensor_of(low + (high - low) * np.minimum(self._rng.random(shape_from(shape)).astype(kind), below_one))


def _scaled(z: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    kind = numpy_dtype(dtype)
    return tensor_of(z.astype(kind) * as_tensor(stddev, kind) + as_tensor(mean, kind))


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


@named("random.get_global_generator")
def get_global_generator() -> Generator:
    """Return the generator for functions without their own seed."""
    return Generator(_State.generator)


def _dropped(x: Any, rate: Any, shape: Any, seed: int | None) -> Any:
    """Return a Tensor with a random part of its elements zero and the others scaled to preserve the mean."""
    kept = generator_for(seed).random(tuple(x.shape) if shape is None else shape_from(shape)) >= float(rate)
    return x * (kept / (1 - float(rate))).astype(x.dtype)


enter_calls(
    {
        "nn.dropout": (
            _dropped,
            lambda x, rate, noise_shape=None, seed=None, name=None: (as_tensor(x), rate, noise_shape, seed),
        ),
        "random.normal random_normal": (
            lambda seed, *arguments: Generator(generator_for(seed)).normal(*arguments),
            lambda shape, mean=0.0, stddev=1.0, dtype=np.float32, seed=None, name=None: (seed, shape, mean, stddev, dtype),
        ),
        "random.shuffle": (
            lambda x, seed: x[generator_for(seed).permutation(len(x))],
            lambda value, seed=None, name=None: (as_tensor(value), seed),
        ),
        "random.truncated_normal": (
            lambda seed, *arguments: Generator(generator_for(seed)).truncated_normal(*arguments),
            lambda shape, mean=0.0, stddev=1.0, dtype=np.float32, seed=None, name=None: (seed, shape, mean, stddev, dtype),
        ),
        "random.uniform random_uniform": (
            lambda seed, *arguments: Generator(generator_for(seed)).uniform(*arguments),
            lambda shape, minval=0, maxval=None, dtype=np.float32, seed=None, name=None: (seed, shape, minval, maxval, dtype),
        ),
    }
)

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
    return lambda shape, dtype=np.float32: TABLE["random.normal"](shape, mean, stddev, dtype, seed)


@_entered("GlorotUniform")
def glorot_uniform(seed: int | None = None) -> Initializer:
    """Return an initializer of uniform numbers between `-limit` and `limit`, with `limit = sqrt(6 / (inputs + outputs))`."""

    def initialize(shape: Any, dtype: Any = np.float32) -> Any:
        lengths = shape_from(shape)
        inputs, outputs = (lengths[-2] if len(lengths) > 1 else lengths[-1]), lengths[-1]
        limit = math.sqrt(6 / (inputs + outputs))
        return TABLE["random.uniform"](shape, -limit, limit, dtype, seed)

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
