"""Layers and activations for small networks. Functions take arrays, Tensors and Variables, and keep their precision.

Values and derivatives of any order are finite wherever the exact ones are finite, also for huge arguments and for `-inf` from
a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functad.eager.module import Module
from functad.eager.variable import Variable
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here, name_of
from functad.primitives.elementwise.special import softmax_first
from functad.primitives.operands import all_examples, as_operand, read
from functad.process import optional
from functad.transforms.grad import stop_gradient

__all__ = [
    "Dense",
    "Sequential",
    "elu",
    "gelu",
    "glorot_uniform",
    "log_softmax",
    "relu",
    "sigmoid",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "tanh",
]


def _operand(x: Any) -> Any:
    """Return a number, list or Variable as a floating-point array or Tensor."""
    x = as_operand(read(x))
    if issubclass(type(x), (bool, int, float, complex)) and not issubclass(type(x), np.generic):
        return np.float64(x) if not issubclass(type(x), complex) else np.complex128(x)
    return x if dtype_of(x).kind in "fc" else x.astype(np.float64)


def _scalar(x: Any) -> Any:
    """Return an array without axes as a NumPy scalar: ufuncs return scalars, `np.where` does not."""
    return x[()] if type(x) is np.ndarray and not x.ndim else x


def relu(x: Any) -> Any:
    """Return `max(x, 0)`; the derivative at 0 is 0.

    Args:
        x: an array of any shape, a Tensor, a Variable or numbers.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> relu([-1.0, 2.0])
        array([0., 2.])
    """
    x = _operand(x)
    return _scalar(np.where(x <= 0, 0, x))


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return `x` where it is positive, elsewhere `alpha * (exp(x) - 1)`; the derivative at 0 is `alpha`.

    Args:
        x: an array of any shape, a Tensor, a Variable or numbers.
        alpha: the scale; the limit for `x -> -inf` is `-alpha`.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> elu([0.0, 2.0])
        array([0., 2.])
    """
    x = _operand(x)
    low = x <= 0
    return _scalar(np.where(low, alpha * np.expm1(np.where(low, x, 0)), x))


def softplus(x: Any) -> Any:
    """Return `log(1 + exp(x))`.

    Args:
        x: an array of any shape, a Tensor, a Variable or numbers.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> softplus([-1000.0, 1000.0])
        array([   0., 1000.])
    """
    return np.logaddexp(_operand(x), 0)


def sigmoid(x: Any) -> Any:
    """Return `1 / (1 + exp(-x))`.

    Args:
        x: an array of any shape, a Tensor, a Variable or numbers.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> sigmoid([-1000.0, 0.0, 1000.0])
        array([0. , 0.5, 1. ])
    """
    with np.errstate(over="ignore"):  # the exponential overflows where the result is 0
        return softmax_first(_operand(x), 0)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent.

    Args:
        x: an array of any shape, a Tensor, a Variable or numbers.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> tanh([0.0, 1000.0])
        array([0., 1.])
    """
    return np.tanh(_operand(x))


_FAR = 40.0
"""Beyond this value, `gelu` is `x` or 0 to the last digit."""


def gelu(x: Any, approximate: bool = True) -> Any:
    """Return the Gaussian error linear unit: `x` times the normal distribution function at `x`.

    Args:
        x: an array.
        approximate: `True` to approximate the distribution function by `sigmoid(sqrt(8 / pi) * (x + 0.044715 * x**3))`, with an
            error of 0.0005; `False` for the exact function, with SciPy.

    Returns:
        An array of the shape of `x`.

    Raises:
        ImportError: `approximate` is `False`, and SciPy is not installed.

    Example:
        >>> gelu([-1000.0, 0.0, 1000.0])
        array([  -0.,    0., 1000.])
    """
    x = _operand(x)
    near = np.clip(x, -_FAR, _FAR)
    if approximate:
        share = sigmoid(math.sqrt(8 / math.pi) * (near + 0.044715 * (near * near * near)))
    else:
        share = 0.5 * optional("scipy.special", "gelu(approximate=False)").erfc(near * -math.sqrt(0.5))
        share = share if dtype_of(share) == dtype_of(x) else share.astype(dtype_of(x))  # SciPy does not support half precision
    return _scalar(np.where(x < _FAR, near * share, x))


def softmax(x: Any, axis: int = -1) -> Any:
    """Return `exp(x) / sum(exp(x))` along an axis.

    Args:
        x: an array of shape `(..., n)`, a Tensor, a Variable or numbers.
        axis: the axis along which the results sum to one.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> softmax([1000.0, 1000.0, -np.inf])
        array([0.5, 0.5, 0. ])
    """
    exponentials = np.exp(_shifted(_operand(x), axis))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return `log(softmax(x))` along an axis.

    Args:
        x: an array of shape `(..., n)`, a Tensor, a Variable or numbers.
        axis: the axis of the softmax.

    Returns:
        An array of the shape of `x`, and of its dtype if it is floating point.

    Example:
        >>> log_softmax([1000.0, 0.0])
        array([    0., -1000.])
    """
    shifted = _shifted(_operand(x), axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _shifted(x: Any, axis: int) -> Any:
    """Return `x` minus its maximum. The maximum counts as a constant, because the final results do not depend on it."""
    top = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return x - np.where(np.isfinite(top), top, 0)


def softmax_cross_entropy(logits: Any, labels: Any) -> Any:
    """Return `-log(softmax(logits)[label])` for each example.

    Args:
        logits: an array of shape `(..., classes)`.
        labels: integers from 0 to `classes - 1`, of shape `(...)`.

    Returns:
        An array of the shape of `labels`. Its `np.mean` is the usual loss.

    Raises:
        TypeError: labels are not integers.
        ValueError: the shapes do not match, or a label is out of range.

    Example:
        >>> softmax_cross_entropy([[0.0, 0.0], [0.0, 1000.0]], [0, 1])
        array([0.69314718, 0.        ])
    """
    logits, labels = _operand(logits), as_operand(read(labels))
    if dtype_of(labels).kind not in "iu":
        raise TypeError(
            f"softmax_cross_entropy with labels of {dtype_of(labels)}, at {here()}: they must be integers, the numbers of the "
            f"classes. Of one-hot rows, np.argmax(labels, axis=-1) are these."
        )
    shape, classes = shape_of(logits), shape_of(logits)[-1:]
    if not classes or shape_of(labels) != shape[:-1]:
        raise ValueError(
            f"softmax_cross_entropy of logits of shape {shape} with labels of shape {shape_of(labels)}, at {here()}: there "
            f"must be one label for each row of logits."
        )
    numbers = all_examples(labels)  # of all examples of a batch; a spec in an abstract trace
    known = issubclass(type(numbers), (np.ndarray, np.generic)) and numbers.size
    if known and not (numbers.min() >= 0 and numbers.max() < classes[0]):
        raise ValueError(
            f"softmax_cross_entropy with labels from {numbers.min()} to {numbers.max()} and {classes[0]} classes, at {here()}."
        )
    shifted = _shifted(logits, -1)
    chosen = np.expand_dims(labels, -1)
    return np.log(np.sum(np.exp(shifted), axis=-1)) - np.take_along_axis(shifted, chosen, axis=-1)[..., 0]


def glorot_uniform(rng: np.random.Generator, shape: Sequence[int]) -> Any:
    """Return uniform random numbers within `sqrt(6 / (inputs + outputs))`, the initial kernel of a layer.

    Args:
        rng: the random generator.
        shape: the shape of the kernel, `(..., inputs, outputs)`.

    Returns:
        A float64 array of this shape.

    Example:
        >>> glorot_uniform(np.random.default_rng(0), (2, 1)).shape
        (2, 1)
    """
    limit = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-limit, limit, shape)


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (relu, elu, softplus, sigmoid, tanh, gelu, softmax, log_softmax)
}


class Dense(Module):
    """A layer that computes `activation(x @ kernel + bias)`.

    The Variables `kernel`, of shape `(inputs, units)`, and `bias` are created at the first call, with the number of inputs and
    the precision of its argument; or immediately if `inputs` is given.

    Args:
        units: the number of outputs.
        activation: a function, or the name of a function in `functad.nn`.
        use_bias: `True` to add a bias.
        inputs: the length of the last axis of the inputs.
        dtype: the dtype of the Variables. Default: the dtype of the first input, or float64.
        rng: a `np.random.Generator` or a seed, for the initial kernel. Use one generator for all layers of a model: equal seeds
            make equal kernels.
        kernel: a function of generator and shape that returns the initial kernel.
        name: the name of the layer. Default: `dense`.

    Raises:
        TypeError: `units` or `inputs` is not an integer, or the activation is not a function.
        ValueError: `units` or `inputs` is not positive, or the activation is unknown; (when called) the input does not match.

    Example:
        >>> import numpy as np, functad
        >>> layer = functad.nn.Dense(2, "relu", rng=0)
        >>> layer(np.ones((4, 3), np.float32)).shape
        (4, 2)
        >>> layer
        Dense with 2 Variables of 8 numbers, 32 B
          path    dtype    shape   numbers  bytes
          bias    float32  (2,)          2    8 B
          kernel  float32  (3, 2)        6   24 B
    """

    def __init__(
        self,
        units: int,
        activation: Callable[[Any], Any] | str | None = None,
        use_bias: bool = True,
        *,
        inputs: int | None = None,
        dtype: Any = None,
        rng: np.random.Generator | int | None = None,
        kernel: Callable[[np.random.Generator, Sequence[int]], Any] = glorot_uniform,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        for count, what in ((units, "unit"), (1 if inputs is None else inputs, "input")):
            if not issubclass(type(count), (int, np.integer)):
                raise TypeError(f"Dense with {count!r} {what}s, at {here()}: their number must be an integer.")
            if count < 1:
                raise ValueError(f"Dense with {count} {what}s, at {here()}: a layer needs at least one {what}.")
        if activation is not None and not isinstance(activation, str) and not callable(activation):
            raise TypeError(f"Dense with the activation {activation!r}, at {here()}: give a function, or the name of one.")
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            raise ValueError(f"{activation!r} is no activation, at {here()}: there are {', '.join(_ACTIVATIONS)}.")
        self.units = units
        self.activation = _ACTIVATIONS[activation] if isinstance(activation, str) else activation
        self.use_bias = use_bias
        self.kernel: Any = None
        self.bias: Any = None
        self._rng = np.random.default_rng(rng)
        self._first_kernel = kernel
        self._dtype = None if dtype is None else np.dtype(dtype)
        if inputs is not None:
            self._build(inputs, np.dtype(np.float64))

    @Module.with_name_scope
    def _build(self, inputs: int, dtype: np.dtype[Any]) -> None:
        """Create the Variables."""
        dtype = self._dtype or (dtype if dtype.kind in "fc" else np.dtype(np.float64))
        kernel = Variable(self._first_kernel(self._rng, (inputs, self.units)), name="kernel", dtype=dtype)
        if self.use_bias:
            self.bias = Variable(np.zeros(self.units), name="bias", dtype=dtype)
        self.kernel = kernel  # last: a layer with a kernel is complete

    def __call__(self, x: Any) -> Any:
        """Return the outputs, of shape `(..., units)`, for inputs of shape `(..., inputs)`."""
        x = as_operand(read(x))
        shape = shape_of(x)
        if self.kernel is None and shape:
            self._build(shape[-1], dtype_of(x))
        if not shape or shape[-1] != self.kernel.shape[0]:
            wanted = "inputs" if self.kernel is None else self.kernel.shape[0]
            raise ValueError(f"{self.name} got inputs of shape {shape}, at {here()}: it needs (..., {wanted}).")
        y = x @ self.kernel
        if self.bias is not None:
            y = y + self.bias
        return y if self.activation is None else self.activation(y)


class Sequential(Module):
    """A chain of layers: each layer is called with the result of the previous layer.

    Args:
        layers: modules, or functions of one argument.
        name: the name of the module. Default: `sequential`.

    Raises:
        TypeError: a layer is not callable.

    Example:
        >>> import numpy as np, functad
        >>> model = functad.nn.Sequential([functad.nn.Dense(8, "tanh", rng=0), functad.nn.Dense(1, rng=1)])
        >>> model(np.ones((5, 3))).shape
        (5, 1)
    """

    def __init__(self, layers: Iterable[Callable[[Any], Any]], name: str | None = None) -> None:
        super().__init__(name)
        self.layers = list(layers)
        for i, layer in enumerate(self.layers):
            if not callable(layer):
                raise TypeError(f"layers[{i}] of a Sequential is {name_of(layer)}, at {here()}: it cannot be called.")

    def __call__(self, x: Any) -> Any:
        """Return the result of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x
