"""The names of TensorFlow's first eager interface, `tensorflow.contrib.eager`, usually imported as `tfe`.

Example:
    >>> import functad.compat.tfe as tfe
    >>> f = lambda x, y: x * x * x * y - x * y * y
    >>> [g.numpy() for g in tfe.gradients_function(f)(2.0, 3.0)]
    [np.float32(27.0), np.float32(-4.0)]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import functad
from functad.compat import tf
from functad.compat.tensorflow.control import GradientTape
from functad.compat.tensorflow.tensors import as_tensor, tensors_of
from functad.compat.tensorflow.variables import Variable
from functad.eager.containers import mapped
from functad.eager.gradient_functions import Params, _Parameters
from functad.eager.models.variable import TensorLike
from functad.expressions.spec import PYTHON_SCALARS
from functad.places import here
from functad.tracing.trace import Recorded
from functad.transforms.transform import transform
from functad.trees import flatten

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


def _as_tensors(tree: Any) -> Any:
    return mapped(lambda leaf: leaf if isinstance(leaf, (Recorded, TensorLike)) else as_tensor(leaf), tree)


def _converted(argument: Any) -> Any:
    """Return a differentiated argument converted as TensorFlow does: Python floats become float32."""
    if isinstance(argument, (list, tuple)) and all(type(leaf) in PYTHON_SCALARS for leaf in flatten(argument)[0]):
        return as_tensor(argument)
    return _as_tensors(argument)


def _results(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` with its Python numbers converted to Tensors as TensorFlow does."""
    return functools.wraps(f)(lambda *args, **kwargs: _as_tensors(f(*args, **kwargs)))


@transform
def make_vjp(f: Callable[..., Any], params: Params = None, persistent: bool = True) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its pullback: from the output cotangent to the argument cotangents.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> value, vjp = tfe.make_vjp(lambda x: x * x)(3.0)
        >>> vjp()[0].numpy()
        np.float32(6.0)
    """
    chosen, inner = _Parameters(f, params), functad.make_vjp(_results(f), params, persistent)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for position in set(chosen.positions(len(args), list(kwargs))):
            given[position] = _converted(args[position])
        value, vjp = inner(*given, **kwargs)
        return tensors_of(value), lambda dy=None: tensors_of(vjp(dy))

    return wrapper


@transform
def value_and_gradients_function(f: Callable[..., Any], params: Params = None) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its gradients with respect to its arguments.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> value, (g,) = tfe.value_and_gradients_function(lambda x: x * x)(3.0)
        >>> value.numpy(), g.numpy()
        (np.float32(9.0), np.float32(6.0))
    """
    both = make_vjp(f, params, persistent=False)

    @functools.wraps(f)
    def wrapper(*args: Any, dy: Any = None, **kwargs: Any) -> Any:
        value, vjp = both(*args, **kwargs)
        return value, vjp(dy)

    return wrapper


@transform
def gradients_function(f: Callable[..., Any], params: Params = None) -> Callable[..., Any]:
    """Return a function that returns the gradients of `f` with respect to its arguments, like `functad.gradients_function`.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> tfe.gradients_function(lambda x: x * x)(3.0)[0].numpy()
        np.float32(6.0)
    """
    both = value_and_gradients_function(f, params)
    return functools.wraps(f)(lambda *args, **kwargs: both(*args, **kwargs)[1])


def implicit_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns pairs `(gradient, variable)` for the trainable Variables that `f` reads.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> w = tfe.Variable(2.0, name="w")
        >>> ((g, variable),) = tfe.implicit_gradients(lambda x: w * w * x)(3.0)
        >>> g.numpy(), variable is w
        (np.float32(12.0), True)
    """
    both = implicit_value_and_gradients(f)
    return functools.wraps(f)(lambda *args, **kwargs: both(*args, **kwargs)[1])


def implicit_value_and_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its gradients with respect to the trainable Variables that it reads.

    Example:
        >>> import functad.compat.tfe as tfe
        >>> w = tfe.Variable(2.0)
        >>> value, ((g, _),) = tfe.implicit_value_and_gradients(lambda: w * w)()
        >>> value.numpy(), g.numpy()
        (np.float32(4.0), np.float32(4.0))
    """
    inner = functad.implicit_value_and_gradients(_results(f))

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, pairs = inner(*args, **kwargs)
        return tensors_of(value), [(tensors_of(g), variable) for g, variable in pairs]

    return wrapper


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
