"""TensorFlow's elementwise functions, reductions, scans and matrix products; `tf.nn`, activations and losses.

Integers keep their dtype.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import functad
from functad.compat.arrays import axes_of, gather, places_of, static
from functad.compat.tensors import (
    TABLE,
    as_tensor,
    cast,
    enter,
    enter_calls,
    named,
    numpy_dtype,
    operands,
    operation,
    returning_tensors,
)
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here

UNARY: dict[str, Any] = {
    "abs math.abs": np.abs,
    "acos math.acos": np.arccos,
    "acosh math.acosh": np.arccosh,
    "asin math.asin": np.arcsin,
    "asinh math.asinh": np.arcsinh,
    "atan math.atan": np.arctan,
    "atanh math.atanh": np.arctanh,
    "ceil math.ceil": np.ceil,
    "cos math.cos": np.cos,
    "cosh math.cosh": np.cosh,
    "exp math.exp": np.exp,
    "floor math.floor": np.floor,
    "imag math.imag": np.imag,
    "is_finite math.is_finite": np.isfinite,
    "is_inf math.is_inf": np.isinf,
    "is_nan math.is_nan": np.isnan,
    "log math.log": np.log,
    "logical_not math.logical_not": np.logical_not,
    "log1p math.log1p": np.log1p,
    "math.angle angle": np.angle,
    "math.conj conj": np.conj,
    "math.expm1 expm1": np.expm1,
    "math.reciprocal reciprocal": lambda x: 1 / x,
    "math.rsqrt rsqrt": lambda x: 1 / np.sqrt(x),
    "negative math.negative": np.negative,
    "real math.real": np.real,
    "round math.round": np.rint,
    "sign math.sign": lambda x: np.where(True, np.sign(x), x),  # the branch not taken gives the derivative 0 instead of `None`
    "sin math.sin": np.sin,
    "sinh math.sinh": np.sinh,
    "sqrt math.sqrt": np.sqrt,
    "square math.square": np.square,
    "tan math.tan": np.tan,
    "tanh math.tanh nn.tanh keras.activations.tanh": np.tanh,
}
"""Functions of one Tensor."""

BINARY: dict[str, Any] = {
    "add math.add": np.add,
    "atan2 math.atan2": np.arctan2,
    "divide math.divide truediv math.truediv": np.true_divide,
    "equal math.equal": np.equal,
    "floordiv math.floordiv": np.floor_divide,
    "greater math.greater": np.greater,
    "greater_equal math.greater_equal": np.greater_equal,
    "less math.less": np.less,
    "less_equal math.less_equal": np.less_equal,
    "logical_and math.logical_and": np.logical_and,
    "logical_or math.logical_or": np.logical_or,
    "math.floormod math.mod mod": np.remainder,
    "math.squared_difference": lambda x, y: np.square(x - y),
    "maximum math.maximum": lambda x, y: np.where((x >= y) | (x != x), x, y),  # for equal elements, x gets the derivative
    "minimum math.minimum": lambda x, y: np.where((x <= y) | (x != x), x, y),
    "multiply math.multiply": np.multiply,
    "not_equal math.not_equal": np.not_equal,
    "pow math.pow": np.power,
    "subtract math.subtract": np.subtract,
}
"""Functions of two Tensors."""


enter_calls({paths: (function, lambda x, name=None: (as_tensor(x),)) for paths, function in UNARY.items()})
enter_calls({paths: (function, lambda x, y, name=None: operands(x, y)) for paths, function in BINARY.items()})
enter_calls(
    {
        "clip_by_value": (
            np.clip,
            lambda t, clip_value_min, clip_value_max, name=None: operands(t, clip_value_min, clip_value_max),
        ),
        "math.add_n add_n math.accumulate_n": (
            lambda *tensors: functools.reduce(operator.add, tensors),
            lambda inputs, name=None: operands(*inputs),
        ),
        "complex dtypes.complex": (
            lambda real, imag: real + imag * np.result_type(dtype_of(real), np.complex64).type(1j),
            lambda real, imag, name=None: operands(real, imag),
        ),
        "math.divide_no_nan": (
            lambda x, y: np.where(y == 0, np.zeros_like(y), x / np.where(y == 0, as_tensor(1, dtype_of(y)), y)),
            lambda x, y, name=None: operands(x, y),
        ),
        "stop_gradient": (functad.stop_gradient, lambda input, name=None: (as_tensor(input),)),
    }
)


@operation("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return elements of `x` where the condition holds, otherwise of `y`; without both, the positions where it holds."""
    condition = as_tensor(condition)
    if x is None and y is None:
        return np.argwhere(condition.numpy())
    x, y = operands(x, y)
    return np.where(condition, x, y)


REDUCTIONS: dict[str, Any] = {
    "reduce_all math.reduce_all": np.all,
    "reduce_any math.reduce_any": np.any,
    "reduce_max math.reduce_max": np.max,
    "reduce_mean math.reduce_mean": np.mean,
    "reduce_min math.reduce_min": np.min,
    "reduce_prod math.reduce_prod": np.prod,
    "math.reduce_std": np.std,
    "reduce_sum math.reduce_sum": np.sum,
    "math.reduce_variance": np.var,
}
"""NumPy's reductions, by TensorFlow's names."""


def _reduction(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    def reduce(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
        x = as_tensor(input_tensor)
        out = function(x, axis=axes_of(axis), keepdims=keepdims)
        own = dtype_of(x)
        return out.astype(own) if own.kind in "iu" and dtype_of(out) != own else out

    reduce.__name__ = reduce.__qualname__ = path.partition(" ")[0]
    reduce.__doc__ = f"`np.{function.__name__}` along some axes, or all; integers stay of their type."
    return returning_tensors(reduce)


for _paths, _function in REDUCTIONS.items():
    named(_paths)(_reduction(_function, _paths))


def plain_of(x: Any) -> Any:
    """Return a Tensor without derivatives, to find positions."""
    return functad.stop_gradient(as_tensor(x))


def log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    """Return `log(sum(exp(x)))`, shifted by the largest element, which counts as constant."""
    largest = functad.stop_gradient(np.max(x, axis=axis, keepdims=True))
    largest = np.where(np.isfinite(largest), largest, np.zeros_like(largest))
    out = np.log(np.sum(np.exp(x - largest), axis=axis, keepdims=True)) + largest
    return out if keepdims else np.squeeze(out, axis)


def _position(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis, dtype: function(x, axis=axes_of(axis) or 0).astype(numpy_dtype(dtype))


def _scan(function: Callable[..., Any], first: int) -> Callable[..., Any]:
    """Return a cumulative function; `exclusive` omits the element itself, `reverse` starts at the end."""

    def scan(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
        x = np.moveaxis(as_tensor(x), axis, 0)
        own = dtype_of(x)
        x = x[::-1] if reverse else x
        if exclusive:
            x = np.concatenate([np.full((1, *tuple(x.shape)[1:]), first, own), x[:-1]])
        out = function(x, axis=0)
        out = out.astype(own) if dtype_of(out) != own else out
        return np.moveaxis(out[::-1] if reverse else out, 0, axis)

    return scan


enter_calls(
    {
        paths: (function, lambda input, axis=None, output_type=np.int64, name=None: (plain_of(input), axis, output_type))
        for paths, function in {
            "argmax math.argmax": _position(np.argmax),
            "argmin math.argmin": _position(np.argmin),
        }.items()
    }
)
enter_calls(
    {
        paths: (function, lambda x, axis=0, exclusive=False, reverse=False, name=None: (x, axis, exclusive, reverse))
        for paths, function in {"cumsum math.cumsum": _scan(np.cumsum, 0), "math.cumprod": _scan(np.cumprod, 1)}.items()
    }
)
enter_calls(
    {
        "math.count_nonzero": (
            lambda x, axis, keepdims, dtype: np.count_nonzero(x, axis, keepdims=keepdims).astype(dtype),
            lambda input, axis=None, keepdims=False, dtype=np.int64, name=None: (
                *(plain_of(input), axes_of(axis), keepdims, numpy_dtype(dtype)),
            ),
        ),
        "math.l2_normalize linalg.l2_normalize nn.l2_normalize": (
            lambda x, axis, least: x / np.sqrt(np.maximum(np.sum(np.square(np.abs(x)), axis, keepdims=True), least)),
            lambda x, axis=None, epsilon=1e-12, name=None: (as_tensor(x), axes_of(axis), epsilon),
        ),
        "reduce_logsumexp math.reduce_logsumexp": (
            log_sum_exp,
            lambda input_tensor, axis=None, keepdims=False, name=None: (as_tensor(input_tensor), axes_of(axis), keepdims),
        ),
        "sort": (
            lambda x, axis, direction: np.flip(np.sort(x, axis), axis) if direction == "DESCENDING" else np.sort(x, axis),
            lambda values, axis=-1, direction="ASCENDING", name=None: (as_tensor(values), axis, direction),
        ),
    }
)


@operation("argsort")
def argsort(values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None) -> Any:
    """Return the int32 positions that sort the elements along an axis; the sort is stable."""
    x = plain_of(values)
    keys = np.flip(x, axis) if direction == "DESCENDING" else x
    order = np.argsort(keys, axis=axis, stable=True).astype(np.int32)
    return x.shape[axis] - 1 - np.flip(order, axis) if direction == "DESCENDING" else order


class TopKV2(NamedTuple):
    """The result of `top_k`."""

    values: Any
    indices: Any


@operation("math.top_k nn.top_k")
def top_k(input: Any, k: int = 1, sorted: bool = True, index_type: Any = np.int32, name: str | None = None) -> TopKV2:
    """Return the k largest elements along the last axis, in descending order, and their positions."""
    x = as_tensor(input)
    places = static(argsort(x, -1, "DESCENDING"))[..., :k]
    return TopKV2(np.take_along_axis(x, places, -1), places.astype(numpy_dtype(index_type)))


def _turned(x: Any, transpose: bool, adjoint: bool) -> Any:
    return np.conj(x.mT) if adjoint else x.mT if transpose else x


def _first_turned(a: Any, b: Any, transpose: bool, adjoint: bool) -> tuple[Any, Any]:
    a, b = operands(a, b)
    return _turned(a, transpose, adjoint), b


@operation("matmul linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Any:
    """Return matrix products; each operand may be transposed or conjugated first."""
    a, b = operands(a, b)
    return np.matmul(_turned(a, transpose_a, adjoint_a), _turned(b, transpose_b, adjoint_b))


OF_ONE: dict[str, Any] = {
    "linalg.cholesky": np.linalg.cholesky,
    "linalg.det": np.linalg.det,
    "linalg.diag_part": lambda x: np.diagonal(x, axis1=-2, axis2=-1),
    "linalg.eigh": lambda x: tuple(np.linalg.eigh(x)),
    "linalg.matrix_transpose": lambda x: x.mT,
    "linalg.trace": lambda x: np.trace(x, axis1=-2, axis2=-1),
}
"""Functions of one matrix or a batch of matrices."""

enter_calls({path: (function, lambda input, name=None: (as_tensor(input),)) for path, function in OF_ONE.items()})
enter_calls(
    {
        "einsum linalg.einsum": (np.einsum, lambda equation, *inputs, **kwargs: (equation, *operands(*inputs))),
        "linalg.inv": (np.linalg.inv, lambda input, adjoint=False, name=None: (_turned(as_tensor(input), False, adjoint),)),
        "linalg.qr": (
            lambda x, full: tuple(np.linalg.qr(x, mode="complete" if full else "reduced")),
            lambda input, full_matrices=False, name=None: (as_tensor(input), full_matrices),
        ),
        "linalg.diag": (
            lambda d: np.expand_dims(d, -1) * np.eye(shape_of(d)[-1], dtype=d.dtype),
            lambda diagonal, name=None: (as_tensor(diagonal),),
        ),
        "linalg.matvec": (
            lambda a, b: np.squeeze(np.matmul(a, np.expand_dims(b, -1)), -1),
            lambda a, b, transpose_a=False, adjoint_a=False, name=None: _first_turned(a, b, transpose_a, adjoint_a),
        ),
        "linalg.solve": (
            np.linalg.solve,
            lambda matrix, rhs, adjoint=False, name=None: _first_turned(matrix, rhs, False, adjoint),
        ),
        "tensordot linalg.tensordot": (np.tensordot, lambda a, b, axes, name=None: (*operands(a, b), static(axes).tolist())),
    }
)


@operation("linalg.band_part")
def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """Return matrices with zeros outside a band of diagonals; -1 keeps all diagonals on that side."""
    x, lower, upper = as_tensor(input), int(static(num_lower)), int(static(num_upper))
    below = np.subtract.outer(*map(np.arange, shape_of(x)[-2:]))
    inside = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
    return np.where(inside, x, np.zeros_like(x))


@operation("linalg.svd")
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Return `s, u, v`, in TensorFlow's order, with `a = u diag(s) v^H`; only `s` without `compute_uv`."""
    x = as_tensor(tensor)
    if not compute_uv:
        return np.linalg.svd(x, compute_uv=False)
    u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    return s, u, np.conj(vh.mT)


@operation("norm linalg.norm")
def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Return vector norms, or matrix norms for two axes; without `axis`, the norm of all elements as one vector."""
    x = as_tensor(tensor)
    if axis is None:
        out = np.linalg.norm(np.reshape(x, -1), 2 if ord in ("euclidean", "fro") else ord)
        return np.reshape(out, (1,) * len(shape_of(x))) if keepdims else out
    places = axes_of(axis)
    kind: Any = ord if ord != "euclidean" else "fro" if isinstance(places, tuple) and len(places) == 2 else 2
    return np.linalg.norm(x, kind, axis=places, keepdims=keepdims)


@operation("linalg.global_norm")
def global_norm(t_list: Any, name: str | None = None) -> Any:
    """Return the norm of all elements of a list of Tensors; `None` entries are skipped."""
    return np.sqrt(sum(np.sum(np.square(np.abs(as_tensor(t)))) for t in t_list if t is not None))


@operation("clip_by_global_norm")
def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> Any:
    """Return Tensors scaled so that their global norm is at most `clip_norm`, and the global norm before scaling."""
    whole = global_norm(t_list) if use_norm is None else as_tensor(use_norm)
    (limit,) = operands(whole, clip_norm)[1:]
    scale = limit / np.maximum(whole, limit)
    return [None if t is None else as_tensor(t) * scale for t in t_list], whole


@operation("clip_by_norm")
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Return a Tensor scaled so that its norm is at most `clip_norm`."""
    x, limit = operands(t, clip_norm)
    return x * (limit / np.maximum(norm(x, axis=axes, keepdims=True), limit))


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
