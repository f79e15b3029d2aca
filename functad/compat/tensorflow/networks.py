"""`tf.nn`, `tf.keras.activations` and `tf.keras.losses`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad
from functad.compat.tensorflow.creation import places_of
from functad.compat.tensorflow.mathematics import log_sum_exp
from functad.compat.tensorflow.names import TABLE, enter, named
from functad.compat.tensorflow.shaping import gather
from functad.compat.tensorflow.tensors import as_tensor, cast, enter_calls, operands, operation, returning_tensors
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here


def part_of_functad(name: str) -> Any:
    """Return a part of functad that is imported at the first access, such as `functad.nn`."""
    return getattr(functad, name)


def _activation(name: str) -> Callable[..., Any]:
    def apply(features: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("name", None)
        return getattr(part_of_functad("nn"), name)(as_tensor(features), *args, **kwargs)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`functad.nn.{name}`."
    return returning_tensors(apply)


for _name in ("relu", "sigmoid", "softmax", "log_softmax", "softplus", "elu"):
    enter(f"nn.{_name} keras.activations.{_name}", _activation(_name))
enter("sigmoid math.sigmoid", _activation("sigmoid"))
enter("math.softplus", _activation("softplus"))
enter("math.softmax", TABLE["nn.softmax"])
enter("math.log_softmax", TABLE["nn.log_softmax"])


@operation("nn.gelu keras.activations.gelu")
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """Return the Gaussian error linear unit; the exact form, without `approximate`, needs SciPy."""
    return part_of_functad("nn").gelu(as_tensor(features), approximate=approximate)


@named("keras.activations.get")
def activation(identifier: Any) -> Callable[[Any], Any]:
    """Return the activation with a given name; a function is returned unchanged, and `None` means the identity.

    Raises:
        ValueError: there is no activation with this name.
    """
    if identifier is None:
        return TABLE["keras.activations.linear"]  # type: ignore[no-any-return]
    if callable(identifier):
        return identifier  # type: ignore[no-any-return]
    found = TABLE.get(f"keras.activations.{identifier}")
    if found is None:
        raise ValueError(f"there is no activation {identifier!r}, at {here()}: pass a function of a Tensor.")
    return found  # type: ignore[no-any-return]


@operation("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Any:
    """Return the cross-entropy of the distributions `labels` and `softmax(logits)`."""
    logits, p = operands(logits, labels)
    return -np.sum(p * (logits - log_sum_exp(logits, axis, True)), axis=axis)


@operation("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Any:
    """Return the cross-entropy of the integer classes `labels` and `softmax(logits)`."""
    x, places = as_tensor(logits), np.expand_dims(places_of(labels), -1)
    return log_sum_exp(x, -1, False) - np.squeeze(np.take_along_axis(x, places, -1), -1)


@operation("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Any:
    """Return the elementwise cross-entropy of the probabilities `labels` and `sigmoid(logits)`."""
    x, p = operands(logits, labels)
    return np.logaddexp(0, x) - x * p


# Keras losses: functions return the mean over the last axis; classes also reduce over all examples.


def _mean_last(x: Any) -> Any:
    return np.mean(x, axis=-1)


def _difference(y_true: Any, y_pred: Any) -> tuple[Any]:
    prediction, truth = operands(y_pred, y_true)
    return (prediction - cast(truth, dtype_of(prediction)),)


enter_calls(
    {
        "keras.activations.linear": (as_tensor, lambda x: (x,)),
        "keras.losses.mean_squared_error keras.losses.mse keras.losses.MSE losses.mean_squared_error losses.mse": (
            lambda d: _mean_last(np.square(d)),
            lambda y_true, y_pred: _difference(y_true, y_pred),
        ),
        "keras.losses.mean_absolute_error keras.losses.mae keras.losses.MAE": (
            lambda d: _mean_last(np.abs(d)),
            lambda y_true, y_pred: _difference(y_true, y_pred),
        ),
        "nn.embedding_lookup": (gather, lambda params, ids, max_norm=None, name=None: (params, ids)),
        "nn.l2_loss": (lambda x: np.sum(np.square(x)) / 2, lambda t, name=None: (as_tensor(t),)),
        "nn.leaky_relu keras.activations.leaky_relu": (
            lambda x, alpha: np.where(x > 0, x, x * alpha),
            lambda features, alpha=0.2, name=None: (as_tensor(features), alpha),
        ),
        "nn.silu nn.swish keras.activations.silu keras.activations.swish": (
            lambda x, beta: x * part_of_functad("nn").sigmoid(x * beta),
            lambda features, beta=1.0: (as_tensor(features), beta),
        ),
    }
)


@operation("keras.losses.sparse_categorical_crossentropy")
def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Any:
    """Return the cross-entropy of integer classes and probabilities, or logits, along the last axis."""
    x = as_tensor(y_pred)
    labels = np.reshape(places_of(y_true), shape_of(x)[:-1]).astype(int)
    return sparse_softmax_cross_entropy_with_logits(labels, _logits(x, from_logits))


@operation("keras.losses.categorical_crossentropy")
def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Any:
    """Return the cross-entropy of distributions and probabilities, or logits, along the last axis."""
    x = as_tensor(y_pred)
    return softmax_cross_entropy_with_logits(cast(y_true, dtype_of(x)), _logits(x, from_logits))


def _logits(x: Any, from_logits: bool) -> Any:
    """Return logits; probabilities are normalised and clipped away from 0 and 1, as in Keras."""
    if from_logits:
        return x
    return np.log(np.clip(x / np.sum(x, axis=-1, keepdims=True), 1e-7, 1 - 1e-7))


@operation("keras.losses.binary_crossentropy")
def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False) -> Any:
    """Return the mean cross-entropy of labels and probabilities, or logits, along the last axis."""
    x = as_tensor(y_pred)
    p = cast(y_true, dtype_of(x))
    if from_logits:
        return _mean_last(sigmoid_cross_entropy_with_logits(p, x))
    x = np.clip(x, 1e-7, 1 - 1e-7)
    return _mean_last(-(p * np.log(x) + (1 - p) * np.log(1 - x)))


class Loss:
    """A Keras loss, called with labels and predictions; by default the mean over all examples.

    Args:
        from_logits: the predictions are logits.
        reduction: `sum_over_batch_size`, `sum` or `none`.

    Raises:
        ValueError: the reduction is unknown.
    """

    function: Callable[..., Any]

    def __init__(self, reduction: str | None = "sum_over_batch_size", name: str | None = None, **options: Any) -> None:
        if reduction not in ("sum_over_batch_size", "sum", "none", "auto", None):
            raise ValueError(f"reduction is {reduction!r}, at {here()}: it must be 'sum_over_batch_size', 'sum' or 'none'.")
        self.reduction = reduction
        self.name = name
        self.options = options

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return the loss; `sample_weight` weights the examples."""
        losses = type(self).function(y_true, y_pred, **self.options)
        if sample_weight is not None:
            losses = losses * cast(sample_weight, dtype_of(losses))
        if self.reduction in ("none", None):
            return losses
        return np.sum(losses) if self.reduction == "sum" else np.mean(losses)


class _FromLogits(Loss):
    def __init__(
        self, from_logits: bool = False, *, reduction: str | None = "sum_over_batch_size", name: str | None = None
    ) -> None:
        super().__init__(reduction, name, from_logits=from_logits)


for _name, _base, _function in (
    ("MeanSquaredError", Loss, TABLE["keras.losses.mean_squared_error"]),
    ("MeanAbsoluteError", Loss, TABLE["keras.losses.mean_absolute_error"]),
    ("SparseCategoricalCrossentropy", _FromLogits, sparse_categorical_crossentropy),
    ("CategoricalCrossentropy", _FromLogits, categorical_crossentropy),
    ("BinaryCrossentropy", _FromLogits, binary_crossentropy),
):
    _doc = f"`{_function.__name__}`, as an object with a reduction."
    enter(f"keras.losses.{_name} losses.{_name}", type(_name, (_base,), {"function": staticmethod(_function), "__doc__": _doc}))
