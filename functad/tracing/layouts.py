"""Memory order in traces without values: the arrays that are known to be C-contiguous.

The memory order decides whether `reshape` and `ravel` return a view or a copy, and so decides the effect of a later write. A
trace without values (`vmap`, `jit`, expression lists) uses these rules:

- An input is in C order if the argument is.
- A view has the layout of NumPy's view; the trace makes this view of an empty array. Views of an array of unknown order have
  unknown order.
- The result of an elementwise function, or of a primitive with the trait `ordered`, is in C order if all array arguments are.
  The order of all other new arrays with several axes is unknown.
- `reshape` and `ravel` of an array of unknown order may return a view or a copy. A write to the array or to the result makes
  the other one unusable: its next use raises `UnsupportedError`, which suggests `.copy()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.primitives.arranging.reshape import RESHAPE
from functad.primitives.batching import elementwise, rule_of
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import AtPlaces
from functad.primitives.indexing.write import Step
from functad.primitives.operands import innermost, is_number, is_traced
from functad.tracing.views import doubt, in_c_order, layout_of, memory_of, note_read_only, note_view

_ndarray = np.ndarray


def examples_in_c_order(array: Any) -> bool:
    """Return `True` if each example `array[i]` of a batch is known to be in C order."""
    model = layout_of(array)
    if type(model) is not _ndarray or model.ndim < 2 or not model.size:
        return model is not None
    return bool(model[0].flags.c_contiguous)


def lie_alike(one: Any, other: Any) -> bool:
    """Return `True` if two Tensors of one trace and one shape are known to have the same memory order."""
    a, b = innermost(one), innermost(other)
    if issubclass(type(a), _ndarray) and issubclass(type(b), _ndarray):
        return bool(a.strides == b.strides)
    return in_c_order(one) and in_c_order(other)


def c_ordered(tensor: Any) -> Any:
    """Return a Tensor itself if it is in C order, otherwise a copy in C order; if the order is unknown, either."""
    model = layout_of(tensor)
    if model is None:
        made = RESHAPE(tensor, shape=tensor.shape)
        doubt(made)
        return made
    flags = getattr(model, "flags", None)
    return tensor if flags is None or flags.c_contiguous else np.copy(tensor, "C")


def note_result(tensor: Any, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> None:
    """Register the result of an operation in an abstract trace as a view, or mark its memory order as unknown."""
    if primitive.views and is_traced(arrays[0]) and _noted_as_view(arrays[0], tensor, primitive, params):
        return
    if sum([n != 1 for n in tensor.below.shape]) > 1 and not _gives_c_order(primitive, arrays, params):
        memory_of(tensor).ordered = False


def _gives_c_order(primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> bool:
    """Return `True` if the new array that a primitive returns is known to be in C order."""
    if primitive is RESHAPE:
        return True
    order = str(params.get("order")).upper() if primitive is COPY else ""
    if order in ("C", "F"):
        return order == "C"
    if not (primitive.ordered or primitive.kind == "elementwise" or rule_of(primitive) is elementwise):
        return False
    return all(map(_axes_in_order, arrays[:1] if primitive.writes else arrays))


def _axes_in_order(a: Any) -> bool:
    """Return `True` if the axes are known to be in C order, possibly with gaps and negative strides."""
    if is_traced(a) and getattr(a, "origin", None) is None:
        return in_c_order(a)  # the usual case
    model = layout_of(a)
    if type(model) is not _ndarray:
        return model is not None
    strides = [abs(stride) for stride, n in zip(model.strides, model.shape, strict=True) if n != 1]
    return strides == sorted(strides, reverse=True)


def note_view_at(base: Any, tensor: Any, template: Any, arrays: Sequence[Any]) -> None:
    """Register `tensor = base[index]` as a view if every index array is a scalar, as in NumPy; shape `()` arrays copy."""
    if not is_number(tensor) and all(map(is_number, arrays)):
        note_view(base, tensor, AtPlaces(template, arrays), {})  # type: ignore[arg-type]


def _noted_as_view(base: Any, tensor: Any, primitive: Primitive, params: dict[str, Any]) -> bool:
    """Register the result of an operation on an abstract Tensor as a view; return `False` if it is a new array."""
    views = primitive.views if isinstance(primitive.views, str) else primitive.views(params)
    made = tensor.below
    if not views or not (made.shape or made.zero_d) or (not base.shape and views != "read-only" and is_number(base)):
        return False  # a scalar is not a view, and has no writeable views
    if views == "by layout" and getattr(base, "origin", None) is None and in_c_order(base):
        note_view(base, tensor, primitive, params)
        return True  # the usual case
    model = layout_of(base)
    whole = np.empty(base.shape, base.dtype) if model is None else model
    value = Step(primitive, params).read(whole)
    if not issubclass(type(value), _ndarray) or not np.may_share_memory(value, whole):
        return False
    if model is None and views == "by layout" and _merges(base.shape, value.shape):
        note_view(base, tensor, primitive, params)
        doubt(tensor)
        memory_of(tensor).ordered = False
    elif views == "read-only":
        note_read_only(base, tensor, primitive, params)
    else:
        note_view(base, tensor, primitive, params)
    return True


def _merges(old: Sequence[int], new: Sequence[int]) -> bool:
    """Return `True` if a reshape joins axes: then it may copy, depending on the layout. Splitting an axis never copies."""
    rest = [n for n in new if n != 1]
    for n in old:
        product = 1
        while product < n and rest:
            product *= rest.pop(0)
        if product != n:
            return n != 1 and 0 not in old
    return False
