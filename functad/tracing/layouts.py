"""What an abstract trace knows of how arrays lie in memory: which of them surely lie in C order, without gaps.

Inputs do, unless it is known better, and what is computed of these as the entry of the primitive says: see `ordered` there.
A view of an array in C order lies as NumPy says. Of all else nothing is known, and so not whether `reshape` makes a view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec
from functad.primitives.batching import elementwise, rule_of
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import AtPlaces
from functad.primitives.indexing.write import Step, part
from functad.primitives.operands import is_number, is_traced
from functad.tracing.views import is_ordered, memory_of, note_doubt, note_read_only, note_view, origin_of

_ndarray = np.ndarray


def in_c_order(a: Any) -> bool:
    """Say whether it is known that the elements of an argument lie in C order without gaps; those of a number do."""
    while is_traced(a):
        if not is_ordered(a):
            return False
        a = a.below
        if isinstance(a, ArraySpec):
            return True
    return type(a) is not _ndarray or a.flags.c_contiguous


def examples_in_c_order(array: Any) -> bool:
    """Say whether it is known that the elements of each example of a batch, whose axis is the first, lie in C order."""
    while is_traced(array):
        if isinstance(array.below, ArraySpec):
            root, path = origin_of(array)
            if not is_ordered(root):
                return False
            array = part(np.empty(root.shape, root.dtype), path)
        else:
            array = array.below
    return type(array) is not _ndarray or array.ndim < 2 or not array.size or bool(array[0].flags.c_contiguous)


def lies_in_c_order(tensor: Any) -> bool | None:
    """Say whether the elements of a Tensor without a value lie in C order without gaps; `None` if that is not known."""
    while is_traced(tensor.below):
        tensor = tensor.below
    if is_ordered(tensor):
        return True
    root = origin_of(tensor)[0]
    return False if root is not tensor and is_ordered(root) else None


def lie_alike(one: Any, other: Any) -> bool:
    """Say whether it is known that the elements of two Tensors of one trace and of the same shape lie in the same order."""
    ordered = is_ordered(one) and is_ordered(other)
    while ordered and is_traced(one) and is_traced(other):
        one, other = one.below, other.below
        ordered = is_ordered(one) and is_ordered(other)
    if issubclass(type(one), _ndarray) and issubclass(type(other), _ndarray):
        return bool(one.strides == other.strides)
    return ordered and in_c_order(one) and in_c_order(other)


def note_result(tensor: Any, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> None:
    """Let the result of an operation of an abstract trace stand for a view if it is one, and note if its order is not known."""
    if primitive.views and is_traced(arrays[0]) and _noted_as_view(arrays[0], tensor, primitive, params):
        return
    if not _is_flat(tensor.below.shape) and not _gives_c_order(primitive, arrays, params):
        memory_of(tensor).ordered = False


def _gives_c_order(primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> bool:
    """Say whether it is known that a new array lies in C order, by the operation that makes it and by its arguments."""
    ordered = _said(primitive.ordered, params)
    if not ordered and not primitive.ordered and (primitive.kind == "elementwise" or rule_of(primitive) is elementwise):
        ordered = "all"
    if ordered == "all":
        return all(in_c_order(a) or _axes_in_order(a) for a in arrays)
    return ordered == "always" or (ordered == "first" and in_c_order(arrays[0]))


def _said(trait: str | Callable[[Any], str], params: dict[str, Any]) -> str:
    """Return a trait of a primitive, for the parameters of one call."""
    return trait if isinstance(trait, str) else trait(params)


def _axes_in_order(a: Any) -> bool:
    """Say whether it is known that the axes of an array lie in C order, with gaps and some of them backwards perhaps."""
    if is_traced(a):
        root, path = origin_of(a)
        if not isinstance(a.below, ArraySpec) or not path or not is_ordered(root):
            return False
        a = part(np.empty(root.shape, root.dtype), path)
    strides = [abs(stride) for stride, n in zip(a.strides, a.shape, strict=True) if n != 1]
    return strides == sorted(strides, reverse=True)


def note_view_at(base: Any, tensor: Any, template: Any, arrays: Sequence[Any]) -> None:
    """Let `base[index]` stand for a view if NumPy makes one: each part of the index is a scalar, not an array of shape `()`."""
    if is_number(tensor) or not all(map(is_number, arrays)):
        return
    step = AtPlaces(template, arrays)
    note_view(base, tensor, step, {})  # type: ignore[arg-type]
    root, path = origin_of(tensor)
    if isinstance(tensor.below, ArraySpec):
        known = is_ordered(root) and bool(path)
        memory_of(tensor).ordered = known and bool(part(np.empty(root.shape, root.dtype), path).flags.c_contiguous)


def _is_flat(shape: Sequence[int]) -> bool:
    """Say whether there is only one order that the elements can have: at most one axis is longer than 1."""
    return sum([n != 1 for n in shape]) < 2


def _noted_as_view(base: Any, tensor: Any, primitive: Primitive, params: dict[str, Any]) -> bool:
    """Let the result of an operation on an abstract Tensor stand for a view if it is one, and say so.

    NumPy makes it of memory that is never touched.
    """
    root, path = origin_of(base)
    known = is_ordered(root)
    views = _said(primitive.views, params)
    made = tensor.below
    if not views or not (made.shape or made.zero_d) or (not base.shape and views != "read-only" and is_number(base)):
        return False  # a scalar is no view, and has no views that one could write to
    if views == "by layout" and known and not path:
        note_view(base, tensor, primitive, params)
        return True  # usually
    whole = np.empty(root.shape, root.dtype) if known else np.empty(base.shape, base.dtype)
    value = part(whole, (*(path if known else ()), Step(primitive, params)))
    if not issubclass(type(value), _ndarray) or not np.may_share_memory(value, whole):
        return False
    if not known and views == "by layout" and _merges(base.shape, value.shape):
        note_doubt(base, tensor)
    elif views == "read-only":
        note_read_only(base, tensor, primitive, params)
    else:
        note_view(base, tensor, primitive, params)
    if not known or not value.flags.c_contiguous:
        memory_of(tensor).ordered = False
    return True


def _merges(old: Sequence[int], new: Sequence[int]) -> bool:
    """Say whether a reshape joins axes, so that the layout decides whether it copies; to split an axis never copies."""
    rest = [n for n in new if n != 1]
    for n in old:
        product = 1
        while product < n and rest:
            product *= rest.pop(0)
        if product != n:
            return n != 1 and 0 not in old
    return False
