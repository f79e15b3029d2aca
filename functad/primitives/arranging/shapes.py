"""Queries of shape and dtype, and comparisons of whole arrays.

A query reads the shape and dtype of a Tensor, which are known without its value. Traces do not record queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import Params, Values, Which, aligned, elementwise, flat
from functad.primitives.entry import Entry, Primitive, Samples
from functad.primitives.kinds import constant
from functad.primitives.operands import concrete, innermost, is_traced


class Query(Entry):
    """A function of the shape and dtype of its arguments. Its result is plain, and traces do not record it."""

    status = "constant"
    kind = "constant"


def query(function: Any, *, doc: str, samples: Samples, **given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function, with NumPy's signature, as the query `function`."""

    def enter(front: Callable[..., Any]) -> Callable[..., Any]:
        Query(function, front=front, doc=doc, samples=samples, **given)
        return front

    return enter


_SHAPE = "read from the shape"
_DTYPE = "read from the dtype"


def _any_shape(array: Any) -> Calls:
    return [((array(2, 3),), {}), ((array(),), {}), ((array(0),), {})]


query(np.shape, doc=_SHAPE, samples=_any_shape)(lambda a: shape_of(a))
query(np.ndim, doc=_SHAPE, samples=_any_shape)(lambda a: len(shape_of(a)))
query(np.iscomplexobj, doc=_DTYPE, samples=_any_shape)(lambda x: dtype_of(x).kind == "c")
query(np.isrealobj, doc=_DTYPE, samples=_any_shape)(lambda x: dtype_of(x).kind != "c")


@query(np.size, doc=_SHAPE, samples=lambda array: [((array(2, 3),), {}), ((array(2, 3), 1), {}), ((array(),), {})])
def _size(a: Any, axis: Any = None) -> int:
    shape = shape_of(a)
    if axis is None:
        return math.prod(shape)
    return math.prod(shape[i] for i in normalize_axis_tuple(axis, len(shape)))


def _promoted(value: Any) -> Any:
    """Return the dtype of a Tensor, or a Python number if the Tensor holds one. Other values are returned unchanged."""
    if not is_traced(value):
        return value
    inner = innermost(value)
    if type(inner) in PYTHON_SCALARS:
        return inner
    if isinstance(inner, ArraySpec) and inner.weak:
        return inner.dtype.type(0).item()
    return value.dtype


@query(
    np.result_type,
    doc=_DTYPE,
    samples=lambda array: [((array(2), np.float32), {}), ((array(2), 1.0), {}), ((array(), np.ones(2, np.int8)), {})],
)
def _result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    return np.result_type(*map(_promoted, arrays_and_dtypes))


@query(np.can_cast, doc=_DTYPE, samples=lambda array: [((array(2), np.float64), {}), ((array(2), "i4"), {"casting": "safe"})])
def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(dtype_of(from_) if is_traced(from_) else from_, to, casting)


@query(
    np.min_scalar_type,
    doc="the dtype; for a number, one that holds its value",
    samples=lambda array: [((array(2),), {}), ((array(0),), {})],
)
def _min_scalar_type(a: Any) -> np.dtype[Any]:
    return dtype_of(a) if shape_of(a) else np.min_scalar_type(concrete(a, "np.min_scalar_type"))


def _two(array: Any) -> Calls:
    return [((array(2), array(2)), {}), ((array(), array(3)), {})]


def model_of(prototype: Any) -> Any:
    """Return an array with the kind, layout, shape and dtype of a Tensor: its value, or a placeholder for its spec."""
    inner = innermost(prototype)
    return np.broadcast_to(np.empty((), inner.dtype), inner.shape) if isinstance(inner, ArraySpec) else inner


def enter_query(function: Any, *, doc: str, samples: Samples) -> None:
    """Register a query that calls NumPy with models in place of Tensors."""

    @query(function, doc=doc, samples=samples)
    def answered(*args: Any, **kwargs: Any) -> Any:
        return function(*map(model_of, args), **{key: model_of(value) for key, value in kwargs.items()})


def _square(array: Any) -> Calls:
    return [((array(3, 3),), {}), ((array(0, 0),), {})]


enter_query(np.common_type, doc=_DTYPE, samples=lambda array: [((array(2),), {}), ((array(2), np.ones(1, np.int8)), {})])
enter_query(np.diag_indices_from, doc=_SHAPE, samples=_square)
enter_query(np.tril_indices_from, doc=_SHAPE, samples=lambda array: [*_square(array), ((array(2, 3), 1), {})])
enter_query(np.triu_indices_from, doc=_SHAPE, samples=lambda array: [*_square(array), ((array(2, 3),), {"k": -1})])


def _one_to_show(array: Any) -> Calls:
    return [((array(2),), {}), ((array(2, 2), 60, 3), {})]


def _enter_of_values(function: Any, doc: str, samples: Samples) -> None:
    """Register a query that calls NumPy with the values of its arguments."""

    @query(function, doc=doc, samples=samples, value_dependent=True)
    def answered(*args: Any, **kwargs: Any) -> Any:
        name = f"np.{function.__name__}"
        named = {key: concrete(value, name) for key, value in kwargs.items()}
        return function(*[concrete(value, name) for value in args], **named)


_enter_of_values(np.shares_memory, "about the memory of values", _two)
_enter_of_values(np.may_share_memory, "about the memory of values", _two)
for _function in (np.array2string, np.array_repr, np.array_str):
    _enter_of_values(_function, "a text has no derivative", _one_to_show)


_BOOLEAN = "the result is boolean"


def _pair_samples(array: Any) -> Calls:
    x = array(3)
    return [((x, x), {}), ((x, array(3)), {}), ((array(2, 3), array(3)), {}), ((array(), 1.0), {})]


def _boolean_spec(*arrays: Any, **params: Any) -> ArraySpec:
    return ArraySpec((), np.dtype(np.bool_))


def _close(a: Any, b: Any, rtol: Any, atol: Any, *, equal_nan: bool) -> Any:
    b = b.astype(np.float64) if dtype_of(b).kind in "biu" else b
    close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


def _equal(a: Any, b: Any, *, equal_nan: bool = False) -> Any:
    equal = a == b
    return np.all(equal | ((a != a) & (b != b)) if equal_nan else equal)


def _comparable(a: Any, b: Any) -> bool:
    try:
        return bool(np.broadcast_shapes(shape_of(a), shape_of(b)) or True)
    except ValueError:
        return False


def _enter_closeness(function: Any, spec: Any, batch: Any, decomposition: Any) -> Primitive:
    def front(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
        return entry(a, b, rtol, atol, equal_nan=bool(equal_nan))

    traits = {"batch": batch, "front": front, "decomposition": decomposition}
    entry = constant(function, doc=_BOOLEAN, samples=_pair_samples, spec=spec, **traits)
    return entry


def _of_all(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Compare each pair of examples: `True` if their shapes are comparable and all elements are equal or close."""
    if primitive is ALLCLOSE:
        return flat(np.isclose(*aligned(values, batched), **params)).all(1)
    shapes = [shape_of(v)[b:] for v, b in zip(values, batched, strict=True)]
    a, b = aligned(values, batched)
    try:
        comparable = shapes[0] == shapes[1] if primitive is ARRAY_EQUAL else bool(np.broadcast_shapes(*shapes) or True)
    except ValueError:
        comparable = False
    if not comparable:
        return np.zeros(size, np.bool_)
    equal = a == b
    if params.get("equal_nan"):
        equal = equal | ((a != a) & (b != b))
    return flat(equal).all(1)


_enter_closeness(
    np.isclose,
    lambda *arrays, **params: ArraySpec(np.broadcast_shapes(*[spec_of(a).shape for a in arrays]), np.dtype(np.bool_)),
    elementwise,
    _close,
)
ALLCLOSE = _enter_closeness(np.allclose, _boolean_spec, _of_all, lambda *arrays, **params: np.all(_close(*arrays, **params)))

ARRAY_EQUAL: Primitive = constant(
    np.array_equal,
    doc=_BOOLEAN,
    samples=_pair_samples,
    spec=_boolean_spec,
    batch=_of_all,
    front=lambda a1, a2, equal_nan=False: ARRAY_EQUAL(a1, a2, equal_nan=bool(equal_nan)),
    decomposition=lambda a, b, *, equal_nan: _equal(a, b, equal_nan=equal_nan) if shape_of(a) == shape_of(b) else np.False_,
)

ARRAY_EQUIV = constant(
    np.array_equiv,
    doc=_BOOLEAN,
    samples=_pair_samples,
    spec=_boolean_spec,
    batch=_of_all,
    decomposition=lambda a, b: _equal(a, b) if _comparable(a, b) else np.False_,
)
