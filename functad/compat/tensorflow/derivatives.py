"""TensorFlow's interfaces to derivatives: the interfaces of `functad`, with TensorFlow's kind of Tensors as results."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
from functad.compat.tensorflow.names import enter, named
from functad.compat.tensorflow.tensors import as_tensor, returning_tensors, tensors_of
from functad.eager.containers import mapped
from functad.eager.tape.request import UnconnectedGradients
from functad.places import here

enter("custom_gradient", functad.custom_gradient)
enter("recompute_grad", functad.recompute_grad)
enter("grad_pass_through", functad.grad_pass_through)
enter("UnconnectedGradients", UnconnectedGradients)
enter("AggregationMethod", functad.AggregationMethod)
enter("hessians", returning_tensors(functad.hessians))


@named("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return gradients like `functad.gradients`, with the arguments in TensorFlow's order.

    Example:
        >>> from functad.compat import tf
        >>> with tf.Graph().as_default():
        ...     x = tf.constant(3.0)
        ...     (g,) = tf.gradients(x * x, x, None, "slope")
        >>> g.numpy()
        np.float32(6.0)
    """
    options: Any = (stop_gradients, unconnected_gradients, aggregation_method, gate_gradients)
    return tensors_of(functad.gradients(ys, xs, grad_ys, *options, name=name))  # type: ignore[no-any-return]


@named("GradientTape")
class GradientTape(functad.GradientTape):
    """`functad.GradientTape`; TensorFlow's options for the computation of Jacobians have no effect.

    Example:
        >>> from functad.compat import tf
        >>> x = tf.constant(3.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x).numpy()
        np.float32(6.0)
    """

    def gradient(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Return derivatives like `functad.GradientTape.gradient`; for plain results, such as `x // 2`, return `None`."""
        tensors = mapped(lambda leaf: as_tensor(leaf) if issubclass(type(leaf), (np.ndarray, np.generic)) else leaf, target)
        return tensors_of(super().gradient(tensors, *args, **kwargs))

    jacobian = returning_tensors(functad.GradientTape.jacobian)
    batch_jacobian = returning_tensors(functad.GradientTape.batch_jacobian)


@named("autodiff.ForwardAccumulator")
class ForwardAccumulator(functad.ForwardAccumulator):
    """`functad.ForwardAccumulator`.

    Example:
        >>> from functad.compat import tf
        >>> x = tf.constant(3.0)
        >>> with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        ...     y = x * x
        >>> accumulator.jvp(y).numpy()
        np.float32(6.0)
    """

    jvp = returning_tensors(functad.ForwardAccumulator.jvp)


named("autodiff.GradientTape")(GradientTape)


@named("Graph")
class Graph:
    """A scope for `tf.gradients` that records all operations in it: `with tf.Graph().as_default():`.

    Example:
        >>> from functad.compat import tf
        >>> with tf.Graph().as_default():
        ...     x = tf.constant(3.0)
        ...     (g,) = tf.gradients(x * x, x)
        >>> g.numpy()
        np.float32(6.0)
    """

    def __init__(self) -> None:
        self._scope = functad.graph()

    def as_default(self) -> functad.graph:
        """Return the scope."""
        return self._scope

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"tf.Graph has no {name!r} here, at {here()}: it is only a scope for tf.gradients.")
