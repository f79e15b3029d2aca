"""`tf.keras` layers and models, as functad modules in float32, and `tf.train` optimisers with the settings of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.compat.arrays import initializer as initializer_of
from functad.compat.control import Variable
from functad.compat.mathematics import activation as activation_of
from functad.compat.mathematics import part_of_functad
from functad.compat.tensors import as_tensor, numpy_dtype, tensor_of
from functad.expressions.spec import dtype_of, shape_of

_Module: Any = part_of_functad("Module")
_nn: Any = part_of_functad("nn")


def _by_creation(name: str, doc: str) -> Any:
    """Return a property that lists Variables of a module in the order of their creation."""
    return property(lambda self: sorted(getattr(super(Weights, self), name), key=lambda variable: variable.number), doc=doc)


class Weights:
    """Mixin for the Variables of a module in the order of their creation, as in Keras: the kernel before the bias."""

    variables = weights = _by_creation("variables", "All Variables.")
    trainable_variables = trainable_weights = _by_creation("trainable_variables", "Those that tapes follow without being told.")
    non_trainable_variables = non_trainable_weights = _by_creation("non_trainable_variables", "The others.")

    def get_weights(self) -> list[Any]:
        """Return the values of all Variables."""
        return [variable.copied() for variable in self.variables]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Assign values to all Variables."""
        for variable, value in zip(self.variables, weights, strict=True):
            variable.assign(value)

    def count_params(self) -> int:
        """Return the number of elements of all Variables."""
        return sum(int(np.prod(variable.shape)) for variable in self.variables)


def _input(x: Any, dtype: Any) -> Any:
    """Return the input of a layer, cast to the dtype of the layer as in Keras."""
    x = as_tensor(x)
    return x.astype(dtype) if dtype_of(x) != dtype and dtype_of(x).kind == "f" else x


class Layer(Weights, _Module):  # type: ignore[misc]  # modules imported late have no type here
    """A layer: create Variables in `build` and compute the output in `call` of a subclass.

    Args:
        trainable: has no effect; create Variables with `trainable=False` instead.
        name: the name of the layer.
        dtype: the dtype of its Variables and inputs.

    Example:
        >>> from functad.compat import tf
        >>> class Scaling(tf.keras.layers.Layer):
        ...     def build(self, input_shape):
        ...         self.scale = self.add_weight(shape=input_shape[-1:], initializer="ones")
        ...
        ...     def call(self, inputs):
        ...         return inputs * self.scale
        >>> Scaling()([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
    """

    built = False
    _layer_dtype = np.dtype(np.float32)

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **options: Any) -> None:
        super().__init__(name)
        if dtype is not None:
            self._layer_dtype = numpy_dtype(dtype)

    def build(self, input_shape: Any) -> None:
        """Create the Variables; called once, with the shape of the first input."""

    def call(self, inputs: Any) -> Any:
        """Return the output of the layer."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the layer; the first call creates its Variables."""
        inputs = _input(inputs, self._layer_dtype)
        if not self.built:
            self.build(shape_of(inputs))
            self.built = True
        return self.call(inputs, *args, **kwargs)

    def add_weight(
        self,
        shape: Any = (),
        initializer: Any = "glorot_uniform",
        dtype: Any = None,
        trainable: bool = True,
        name: str | None = None,
    ) -> Variable:
        """Return a new Variable."""
        return Variable(initializer_of(initializer)(shape, dtype or self._layer_dtype), trainable, name=name)


class Model(Layer):
    """A model: create layers in `__init__` and call them in `call`."""


class Dense(Weights, _nn.Dense):  # type: ignore[misc]
    """`functad.nn.Dense` with the arguments of Keras.

    Args:
        units: the number of outputs.
        activation: a function, or a name in `tf.keras.activations`.
        use_bias: whether there is a bias.
        kernel_initializer: a function of shape and dtype, or a name in `tf.keras.initializers`.
        bias_initializer: likewise.
        input_shape: the shape of one example; the Variables are then created at once.
        input_dim: the length of one example, likewise.
        dtype: the dtype of Variables and inputs.
        name: the name of the layer.

    Example:
        >>> from functad.compat import tf
        >>> layer = tf.keras.layers.Dense(2)
        >>> layer(tf.ones([3, 4])).shape.as_list(), [v.shape.as_list() for v in layer.trainable_variables]
        ([3, 2], [[4, 2], [2]])
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        *,
        input_shape: Sequence[int] | None = None,
        input_dim: int | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        self._layer_dtype = numpy_dtype(np.float32 if dtype is None else dtype)
        self._initializers = initializer_of(kernel_initializer), initializer_of(bias_initializer)
        super().__init__(
            units,
            None if activation is None else activation_of(activation),
            use_bias,
            inputs=input_dim if input_shape is None else input_shape[-1],
            dtype=self._layer_dtype,
            name=name,
        )

    def _build(self, inputs: int, dtype: Any) -> None:
        """Create Variables with TensorFlow's random numbers."""
        kernel, bias = self._initializers
        with self.name_scope:
            self.kernel = Variable(kernel((inputs, self.units), self._layer_dtype), name="kernel")
            if self.use_bias:
                self.bias = Variable(bias((self.units,), self._layer_dtype), name="bias")

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Return the outputs, of shape `(..., units)`."""
        return tensor_of(super().__call__(_input(inputs, self._layer_dtype)))


class Activation(Layer):
    """A layer that applies a function, or one named in `tf.keras.activations`."""

    def __init__(self, activation: Any, name: str | None = None) -> None:
        super().__init__(name=name)
        self.activation: Callable[[Any], Any] = activation_of(activation)

    def call(self, inputs: Any) -> Any:
        """Return the value of the function."""
        return self.activation(inputs)


class Flatten(Layer):
    """A layer that flattens all axes except the first into one."""

    def call(self, inputs: Any) -> Any:
        """Return the input with two axes."""
        return np.reshape(inputs, (shape_of(inputs)[0], -1))


class Sequential(Weights, _nn.Sequential):  # type: ignore[misc]
    """A chain of layers; each layer receives the output of the previous one.

    Example:
        >>> from functad.compat import tf
        >>> layers = tf.keras.layers
        >>> model = tf.keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
        >>> model(tf.ones([5, 3])).shape.as_list(), len(model.trainable_variables)
        ([5, 1], 4)
    """

    def __init__(self, layers: Sequence[Any] | None = None, name: str | None = None) -> None:
        super().__init__(layers or [], name)

    def add(self, layer: Any) -> None:
        """Append a layer."""
        self.layers.append(layer)

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Return the output of the last layer."""
        return tensor_of(super().__call__(as_tensor(inputs)))


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
