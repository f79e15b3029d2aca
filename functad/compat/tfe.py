"""The names of TensorFlow's first eager interface, `tensorflow.contrib.eager`, usually imported as `tfe`.

Example:
    >>> import functad.compat.tfe as tfe
    >>> f = lambda x, y: x * x * x * y - x * y * y
    >>> [g.numpy() for g in tfe.gradients_function(f)(2.0, 3.0)]
    [np.float32(27.0), np.float32(-4.0)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functad
from functad.compat import tf
from functad.compat.control import GradientTape, Variable
from functad.compat.tensors import as_tensor, tensors_of
from functad.eager.containers import mapped
from functad.eager.gradient_functions import (
    Params,
    Style,
    as_array,
    implicit_function,
    own_tensors,
    second_of,
    vjp_function,
    with_seed,
)
from functad.eager.variable import TensorLike
from functad.places import here
from functad.primitives.operands import read
from functad.tracing.trace import Recorded
from functad.transforms.transform import transform

__all__ = [
    "GradientTape",
    "Variable",
    "custom_gradient",
    "enable_eager_execution",
    "executing_eagerly",
    "gradients_function",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "make_vjp",
    "num_gpus",
    "value_and_gradients_function",
]

custom_gradient = functad.custom_gradient
executing_eagerly = tf.executing_eagerly
enable_eager_execution = tf.enable_eager_execution


def _argument(argument: Any) -> Any:
    """Return a differentiated argument with new Tensors, converted as TensorFlow does: Python floats become float32."""
    numbers = as_array(argument) is not argument  # in a nested list
    return own_tensors(as_tensor(argument) if numbers else mapped(_tensor, argument))


def _tensor(leaf: Any) -> Any:
    return read(leaf) if isinstance(leaf, (Recorded, TensorLike)) else as_tensor(leaf)


_STYLE = Style(GradientTape, _argument, lambda value: tensors_of(mapped(_tensor, value)))


@transform
def make_vjp(f: Callable[..., Any], params: Params = None, persistent: bool = True) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its pullback: from the output cotangent to the argument cotangents.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> value, vjp = tfe.make_vjp(lambda x: x * x)(3.0)
        >>> vjp()[0].numpy()
        np.float32(6.0)
    """
    return vjp_function(f, params, persistent, True, _STYLE)


@transform
def value_and_gradients_function(f: Callable[..., Any], params: Params = None) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its gradients with respect to its arguments.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> value, (g,) = tfe.value_and_gradients_function(lambda x: x * x)(3.0)
        >>> value.numpy(), g.numpy()
        (np.float32(9.0), np.float32(6.0))
    """
    return with_seed(f, make_vjp(f, params, persistent=False))


@transform
def gradients_function(f: Callable[..., Any], params: Params = None) -> Callable[..., Any]:
    """Return a function that returns the gradients of `f` with respect to its arguments, like `functad.gradients_function`.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> tfe.gradients_function(lambda x: x * x)(3.0)[0].numpy()
        np.float32(6.0)
    """
    return second_of(f, value_and_gradients_function(f, params))


def implicit_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns pairs `(gradient, variable)` for the trainable Variables that `f` reads.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> w = tfe.Variable(2.0, name="w")
        >>> ((g, variable),) = tfe.implicit_gradients(lambda x: w * w * x)(3.0)
        >>> g.numpy(), variable is w
        (np.float32(12.0), True)
    """
    return second_of(f, implicit_value_and_gradients(f))


def implicit_value_and_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its gradients with respect to the trainable Variables that it reads.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> w = tfe.Variable(2.0)
        >>> value, ((g, _),) = tfe.implicit_value_and_gradients(lambda: w * w)()
        >>> value.numpy(), g.numpy()
        (np.float32(4.0), np.float32(4.0))
    """
    return implicit_function(f, True, _STYLE)


def num_gpus() -> int:
    """Return 0: arrays are in CPU memory."""
    return 0


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise AttributeError(
        f"functad.compat.tfe has no {name!r}, asked for at {here()}: it has {', '.join(__all__)}. The names of "
        f"TensorFlow itself are in functad.compat.tf."
    )
