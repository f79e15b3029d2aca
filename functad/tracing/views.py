"""Views among Tensors, and memory order: a write to a Tensor changes all Tensors that share its memory, as in NumPy.

A view has an `origin`: the root Tensor, which owns the memory, and the path of view operations from the root. The root keeps
weak references to its views. A write goes to the root and makes all views stale. A stale view has no value and belongs to the
recorder `STALE`. `STALE.process` reads the view from the root again. Operations that return no view have no overhead.

A trace without values (`vmap`, `jit`, expression lists) cannot compare memory. The memory order decides there whether
`reshape` and `ravel` return a view or a copy, and so decides the effect of a later write:

- An input is in C order if the argument is.
- A view has the layout of NumPy's view; the trace makes this view of an empty array. Views of an array of unknown order have
  unknown order.
- The result of an elementwise function, or of a primitive with the trait `ordered`, is in C order if all array arguments are.
  The order of all other new arrays with several axes is unknown.
- `reshape` and `ravel` of an array of unknown order may return a view or a copy. The argument and the result then both own
  their memory, and each is in the list of views of the other one without an `origin`. A write to one of them makes the other
  stale, and its next use raises `UnsupportedError`, which suggests `.copy()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any
from weakref import ref

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.arranging.reshape import RESHAPE
from functad.primitives.batching import elementwise, rule_of
from functad.primitives.elementwise.conversion import COPY, copy_alike
from functad.primitives.entry import Composite, Primitive
from functad.primitives.indexing.read import AtPlaces
from functad.primitives.indexing.write import Path, Step, part
from functad.primitives.operands import innermost, is_number, is_traced
from functad.tracing.trace import Recorded, Recorder, dispatch, resolve

_ndarray = np.ndarray
_new_step = tuple.__new__  # half the time of a call of the named tuple


class StaleRecorder(Recorder):
    """The recorder of stale views: it reads them again before their next use."""

    def __init__(self) -> None:
        super().__init__("a write", None)
        self.rank = inf

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Refresh the stale views among the arrays, and record the call."""
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is self:
                refresh(a)
        return dispatch(primitive, arrays, params)

    def resolve(self, tensor: Recorded) -> Any:
        """Refresh a view and resolve it."""
        refresh(tensor)
        return resolve(tensor)


STALE = StaleRecorder()
"""The recorder of all stale views."""


class Memory:
    """The state of the memory that a root owns.

    Attributes:
        views: weak references to the Tensors that are, or may be, views of the root and are not stale.
        limit: the number of references at which dead references are dropped.
        copies: the number of writes that had to copy the array, because records held it or a part of it.
        ordered: the memory is known to be C-contiguous; used in abstract traces only.
    """

    __slots__ = ("copies", "limit", "ordered", "views")

    def __init__(self) -> None:
        self.views: list[ref[Any]] = []
        self.limit = 64
        self.copies = 0
        self.ordered = True


def memory_of(root: Any) -> Memory:
    """Return the `Memory` of a root; create it if there is none."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None:
        memory = root.memory = Memory()
    return memory


def origin_of(tensor: Any) -> tuple[Any, Path]:
    """Return the root of a Tensor and the path from the root; the path is empty for a root itself."""
    return getattr(tensor, "origin", None) or (tensor, ())


def memory_model(a: Any) -> Any:
    """Return an array with the memory layout of `a`, or the number `a`; `None` if the layout is unknown."""
    while is_traced(a) and not isinstance(a.current(), ArraySpec):
        a = a.below
    if not is_traced(a):
        return a
    root, path = origin_of(a)
    memory: Memory | None = getattr(root, "memory", None)
    known = memory is None or memory.ordered
    return part(np.empty(root.shape, root.dtype), path) if known else None  # this memory is never touched


def in_c_order(a: Any) -> bool:
    """Return `True` if `a` is a number or known to be C-contiguous."""
    while isinstance(a, Recorded):
        value = a.below if a.below is not None else a.current()  # type: ignore[attr-defined]
        if isinstance(value, ArraySpec):
            break
        a = value
    if isinstance(a, Recorded) and getattr(a, "origin", None) is None:  # the usual case, without a model array
        memory: Memory | None = getattr(a, "memory", None)
        return memory is None or memory.ordered
    a = memory_model(a)
    return a is not None and (type(a) is not _ndarray or bool(a.flags.c_contiguous))


def shares(out: Any, value: Any) -> bool:
    """Return `True` if a result is a view of its argument, both given one level lower."""
    if type(out) is _ndarray:
        base = out.base
        return out is value or (base is not None and type(value) is _ndarray and (base is value or base is value.base))
    origin = getattr(out, "origin", None)
    return out is value or (origin is not None and origin[0] is origin_of(value)[0])


def note_if_view(base: Any, made: Any, value: Any, out: Any, primitive: Primitive, params: dict[str, Any]) -> None:
    """Register the result `made` as a view of `base` if, one level lower, `out` is or may be a view of `value`."""
    if shares(out, value):
        note_view(base, made, primitive, params)
    elif is_traced(out) and may_be_view(out):
        note_view(base, made, primitive, params)
        doubt(made)


def note_view(base: Any, view: Any, primitive: Primitive, params: dict[str, Any], number: int | None = None) -> None:
    """Register a new Tensor as a view of another one."""
    step = _new_step(Step, (primitive, params, number, True, False))
    origin = getattr(base, "origin", None)
    if origin is None:
        add_view(base, (step,), view)
    elif origin[1] and (origin[1][-1].copied or _copies(origin[0], (*origin[1], step))):
        view.below = view.below if isinstance(view.below, ArraySpec) else np.copy(view.below)
    else:
        add_view(origin[0], (*origin[1], step), view)


def _copies(root: Any, path: Path) -> bool:
    """Return `True` if NumPy copies at the end of a path with a view that functad computes as a copy, such as a diagonal."""
    if all(type(step.primitive) is not Composite for step in path):
        return False
    known = innermost(root)
    model = known if issubclass(type(known), _ndarray) else np.empty(known.shape, known.dtype)
    return not np.may_share_memory(part(model, path), model)


def doubt(view: Any) -> None:
    """Turn a new view into an array that may be a view or a copy, in all lower traces too."""
    while is_traced(view):
        origin = getattr(view, "origin", None)
        if origin is not None:
            del view.origin
            memory_of(view).views.append(ref(origin[0]))  # the root already has a reference to the view
        view = view.below


def sharing(root: Any) -> list[Any]:
    """Return the Tensors that are, or may be, views of a root."""
    memory: Memory | None = getattr(root, "memory", None)
    return [] if memory is None else [view for weak in memory.views if (view := weak()) is not None]


def may_be_view(root: Any) -> bool:
    """Return `True` if a root may share its memory with another root."""
    return any(getattr(other, "origin", None) is None for other in sharing(root))


def shares_memory(tensor: Any) -> bool:
    """Return `True` if a Tensor is a view, or another Tensor is or may be a view of it."""
    return getattr(tensor, "origin", None) is not None or bool(sharing(tensor))


def note_read_only(base: Any, view: Any, entry: Any, params: dict[str, Any]) -> None:
    """Register the result of a composite as a read-only view, as in NumPy, even if functad computed a copy."""
    root, path = origin_of(base)
    add_view(root, (*path, Step(entry, params, writeable=False)), view)


def add_view(root: Any, path: Path, view: Any) -> None:
    """Register a Tensor as the view of `root` at the end of a path."""
    view.origin = root, path
    memory = getattr(root, "memory", None) or memory_of(root)
    views = memory.views
    views.append(ref(view))
    if len(views) >= memory.limit:
        views[:] = [weak for weak in views if weak() is not None]
        memory.limit = max(64, 2 * len(views))
    if memory.copies > 1 and type(view.below) is _ndarray:
        # Later records then hold this part only, not the whole array, which is still being written to.
        part, view.below = view.below, copy_alike(view.below)
        view.below.setflags(write=part.flags.writeable)


def make_stale(root: Any, written: Any = None) -> None:
    """Clear the values of all Tensors that are or may be views of `root`, before a write; they move to the recorder `STALE`.

    In recursive calls, `written` is the Tensor of the write, and `root` is a Tensor that may share its memory.
    """
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None or not memory.views:
        return
    views, memory.views = memory.views, []
    for weak in views:
        view = weak()
        if view is None or view is written:
            continue
        if getattr(view, "origin", None) is not None:
            root.recorder.invalidated(weak)
        make_stale(view, root if written is None else written)
        view.below = None
        view.recorder = STALE


def clone(tensor: Any) -> Any:
    """Return another Tensor with the same value that does not change when the first one is written to."""
    if tensor.below is None:
        refresh(tensor)
    value = tensor.below
    if getattr(value, "origin", None) is not None:  # a write to the clone would go through this view to its root
        value = clone(value)
    other = type(tensor)()
    other.below, other.recorder, other.slot = value, tensor.recorder, tensor.slot
    other.code, other.instruction = tensor.code, tensor.instruction
    if isinstance(value, ArraySpec) and not in_c_order(tensor):
        memory_of(other).ordered = False
    return other


def refresh(view: Any) -> None:
    """Read a stale view from its root again.

    Raises:
        UnsupportedError: it is unknown whether the Tensor shares memory with the Tensor of the write.
    """
    origin = getattr(view, "origin", None)
    if origin is None:
        raise UnsupportedError(
            f"reshape may have made a view or a copy: a trace without values (vmap, jit, make_expressions) does not know how "
            f"the array is laid out in memory. One of the two was written to, and the other is read, at {here()}. Copy the "
            f"array before the reshape, u = u.copy(), or copy the result, v = u.reshape(shape).copy()."
        )
    root, path = origin
    new = root
    for step in path:
        new = step.read(new)
    view.below, view.recorder, view.slot = new.below, new.recorder, new.slot
    view.code, view.instruction = new.code, new.instruction
    add_view(root, path, view)


def examples_in_c_order(array: Any) -> bool:
    """Return `True` if each example `array[i]` of a batch is known to be in C order."""
    model = memory_model(array)
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
    model = memory_model(tensor)
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
    model = memory_model(a)
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
    model = memory_model(base)
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
