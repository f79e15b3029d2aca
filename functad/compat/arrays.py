"""New Tensors with TensorFlow's arguments (constants, `tf.random`, `tf.keras.initializers`), and functions that move elements.

The random numbers are NumPy's. Seeds reproduce numbers, but not the numbers of TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.compat.tensors import TABLE, as_tensor, enter_calls, named, numpy_dtype, operands, operation, tensor_of
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here
from functad.primitives.indexing.write import add, write
from functad.primitives.operands import all_examples, innermost
from functad.tracing.trace import resolve
from functad.transforms.outside import GLOBAL


def static(value: Any) -> Any:
    """Return a static argument, such as indices or a shape, as a plain array."""
    return np.asarray(as_tensor(value).numpy())


def axes_of(axis: Any) -> Any:
    """Return axes as an integer, a tuple or `None`."""
    if axis is None:
        return None
    given = static(axis)
    return int(given) if given.ndim == 0 else tuple(int(a) for a in given)


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


def _listed(values: Any) -> list[Any]:
    return operands(*(values if isinstance(values, (list, tuple)) else [values]))


enter_calls(
    {
        "broadcast_to": (np.broadcast_to, lambda input, shape, name=None: (as_tensor(input), shape_from(shape))),
        "concat": (np.concatenate, lambda values, axis, name=None: (_listed(values), int(static(axis)))),
        "expand_dims": (np.expand_dims, lambda input, axis, name=None: (as_tensor(input), int(static(axis)))),
        "rank": (np.int32, lambda input, name=None: (len(shape_of(as_tensor(input))),)),
        "repeat": (np.repeat, lambda input, repeats, axis=None, name=None: (as_tensor(input), static(repeats), axis)),
        "reshape": (np.reshape, lambda tensor, shape, name=None: (as_tensor(tensor), shape_from(shape))),
        "reverse": (np.flip, lambda tensor, axis, name=None: (as_tensor(tensor), axes_of(axis))),
        "roll": (np.roll, lambda input, shift, axis, name=None: (as_tensor(input), axes_of(shift), axes_of(axis))),
        "shape": (np.array, lambda input, out_type=np.int32, name=None: (shape_of(as_tensor(input)), numpy_dtype(out_type))),
        "size": (
            np.array,
            lambda input, out_type=np.int32, name=None: (math.prod(shape_of(as_tensor(input))), numpy_dtype(out_type)),
        ),
        "squeeze": (np.squeeze, lambda input, axis=None, name=None: (as_tensor(input), axes_of(axis))),
        "stack": (np.stack, lambda values, axis=0, name=None: (_listed(values), axis)),
        "tile": (np.tile, lambda input, multiples, name=None: (as_tensor(input), shape_from(multiples))),
    }
)


@operation("transpose")
def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str | None = None) -> Any:
    """Return a Tensor with permuted axes; without `perm`, the axes are reversed."""
    out = np.transpose(as_tensor(a), None if perm is None else shape_from(perm))
    return np.conj(out) if conjugate else out


@operation("unstack")
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = None) -> list[Any]:
    """Return the slices of a Tensor along an axis, without that axis."""
    x = np.moveaxis(as_tensor(value), axis, 0)
    return [x[i] for i in range(len(x))]


@operation("split")
def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """Return a Tensor split into a number of equal parts, or into parts of given lengths; one length may be -1.

    Raises:
        ValueError: the lengths do not add up to the length of the axis.
    """
    x, sizes, place = as_tensor(value), static(num_or_size_splits), int(static(axis))
    if sizes.ndim == 0:
        return list(np.split(x, int(sizes), axis=place))
    whole = shape_of(x)[place]
    lengths = np.where(sizes < 0, whole - sizes[sizes >= 0].sum(), sizes)
    if lengths.sum() != whole:
        raise ValueError(f"parts of lengths {sizes.tolist()} do not make up {whole}, at {here()}.")
    return list(np.split(x, np.cumsum(lengths)[:-1].tolist(), axis=place))


@operation("pad")
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None) -> Any:
    """Return a padded Tensor: constant, or mirrored without (`REFLECT`) or with (`SYMMETRIC`) the edge."""
    x, widths, kind = as_tensor(tensor), static(paddings).tolist(), mode.lower()
    options: dict[str, Any] = {"constant_values": constant_values} if kind == "constant" else {"mode": kind}
    return np.pad(x, widths, **options)


@operation("slice")
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """Return the part of a Tensor from `begin` with lengths `size`; -1 means all remaining elements."""
    parts = zip(shape_from(begin), shape_from(size), strict=True)
    return as_tensor(input_)[tuple([slice(first, None if count < 0 else first + count) for first, count in parts])]


@operation("gather")
def gather(
    params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: int = 0, name: str | None = None
) -> Any:
    """Return the slices of a Tensor at given positions along an axis.

    Raises:
        IndexError: a position is out of bounds or negative.
    """
    x, places = as_tensor(params), places_of(indices)
    along = batch_dims if axis is None else int(static(axis))
    along += len(shape_of(x)) if along < 0 else 0
    length = shape_of(x)[along]
    numbers = all_examples(places)  # of all batch examples
    if issubclass(type(numbers), np.ndarray) and numbers.size and (numbers.min() < 0 or numbers.max() >= length):
        raise IndexError(f"positions from {numbers.min()} to {numbers.max()} on an axis of length {length}, at {here()}.")
    if not batch_dims:
        return np.take(x, places, axis=along)
    moved = np.moveaxis(x, along, batch_dims)[(*_batch_index(places.shape, batch_dims), places)]
    first = list(range(batch_dims, places.ndim))
    return np.moveaxis(moved, first, [place + along - batch_dims for place in first])


def _batch_index(shape: tuple[int, ...], batch_dims: int) -> list[Any]:
    """Return the indices of the batch axes, shaped to broadcast with positions."""
    return list(np.ogrid[tuple([slice(n) for n in shape])][:batch_dims]) if batch_dims else []


@operation("gather_nd")
def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Any:
    """Return the elements or slices of a Tensor at the positions along the last axis of `indices`."""
    x, places = as_tensor(params), static(indices)
    return x[(*_batch_index(places.shape[:-1], batch_dims), *np.moveaxis(places, -1, 0))]


@operation("boolean_mask")
def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str = "boolean_mask") -> Any:
    """Return the slices of a Tensor at the true elements of a mask; the mask covers the axes from `axis` on."""
    x = as_tensor(tensor)
    return x[(slice(None),) * (axis or 0) + (static(mask).astype(bool),)]


def _index(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a NumPy index for positions along the last axis of an array.

    Raises:
        IndexError: a position is out of bounds.
    """
    places = static(indices)
    if not ((places >= 0) & (places < np.array(shape[: places.shape[-1]], int))).all():
        raise IndexError(f"a position is outside of the shape {shape}, at {here()}.")
    return tuple(np.moveaxis(places, -1, 0))


@operation("scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Return zeros with `updates` added at the positions along the last axis of `indices`."""
    whole, u = shape_from(shape), as_tensor(updates)
    return add(np.zeros(whole, dtype_of(u)), u, path=(), index=_index(indices, whole))


def _changed(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that adds, subtracts or writes updates at given positions with `change`."""

    def scatter(tensor: Any, indices: Any, updates: Any) -> Any:
        x, u = operands(tensor, updates)
        return change(x, u, path=(), index=_index(indices, shape_of(x)))

    return scatter


enter_calls(
    {
        f"tensor_scatter_nd_{name}": (_changed(change), lambda tensor, indices, updates, name=None: (tensor, indices, updates))
        for name, change in {"add": add, "sub": lambda x, u, **where: add(x, -u, **where), "update": write}.items()
    }
)
