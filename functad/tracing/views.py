"""Which Tensors view which: so that a write to one is seen through the other, as NumPy has it.

A Tensor whose value shares the memory of another's knows its `origin`: the root that owns the memory, and the path of views
from there. The root keeps weak references to its views. A write goes to the root and makes all views stale; a stale one has no
value, and belongs to the recorder `STALE`, which no short way accepts, so that reading it comes by `record` and is done anew.
Nothing is paid by operations that make no view.

An abstract trace has no values, and so no memory to ask. It remembers of an array if it may lie in another order than C; then
every `reshape` counts as a view of it, and what would depend on whether it is one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.operands import is_traced
from functad.primitives.primitive import Primitive
from functad.primitives.shaping import RESHAPE, TRANSPOSE
from functad.primitives.writing import DECIDED, Path, Step, part
from functad.tracing.layouts import ANY, CONTIGUOUS, ORDERED, is_flat, keeps_order, layout_of, layout_of_result, merges

_ndarray = np.ndarray
_new_step = tuple.__new__  # half the time of a call of the named tuple


class Memory:
    """What a root knows of the memory that it owns; of a view in an abstract trace, its layout.

    Attributes:
        views: weak references to the Tensors that view it, and are not stale.
        limit: from this number on, references to Tensors that are gone are dropped.
        copied: how often a write had to copy the array because records held it or a part of it.
        layout: how the elements lie, in an abstract trace.
    """

    __slots__ = ("copied", "layout", "limit", "views")

    def __init__(self) -> None:
        self.views: list[ref[Any]] = []
        self.limit = 64
        self.copied = 0
        self.layout = CONTIGUOUS


def memory_of(root: Any) -> Memory:
    """Return what a root knows of its memory."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None:
        memory = root.memory = Memory()
    return memory


def origin_of(tensor: Any) -> tuple[Any, Path]:
    """Return the root of a Tensor and the path from there; that of a root is empty."""
    return getattr(tensor, "origin", None) or (tensor, ())


def shares(out: Any, value: Any) -> bool:
    """Say whether the result of an operation is a view of its argument: by what NumPy did one level down."""
    if type(out) is _ndarray:
        base = out.base
        return out is value or (base is not None and type(value) is _ndarray and (base is value or base is value.base))
    origin = getattr(out, "origin", None)
    return out is value or (origin is not None and origin[0] is origin_of(value)[0])


def layout_at(a: Any) -> int:
    """Return what is known of how the elements of an argument lie: by its strides, or by what abstract traces remember."""
    while is_traced(a):
        memory: Memory | None = getattr(a, "memory", None)
        if memory is not None and memory.layout != CONTIGUOUS:
            return memory.layout
        a = a.value
        if isinstance(a, ArraySpec):
            return CONTIGUOUS
    return layout_of(a.strides, a.shape, a.itemsize) if issubclass(type(a), _ndarray) else CONTIGUOUS


def layout_of_examples(array: Any) -> int:
    """Return how the elements of each example of a batch lie, whose axis is the first; see `layout_at`."""
    while is_traced(array):
        layout = _own_layout(array)
        if layout == ANY:
            return ANY
        if isinstance(array.value, ArraySpec):
            root, path = origin_of(array)
            if not path or _own_layout(root) != CONTIGUOUS:
                return layout
            array = part(np.empty(root.shape, root.dtype), path)
        else:
            array = array.value
    return layout_of(array.strides[1:], array.shape[1:], array.itemsize) if issubclass(type(array), _ndarray) else CONTIGUOUS


def lies_in_order(tensor: Any) -> bool | None:
    """Say whether the elements of a Tensor of an abstract trace lie in C order without gaps; `None` if that is not known."""
    if layout_at(tensor) == CONTIGUOUS:
        return True
    return False if _own_layout(origin_of(tensor)[0]) == CONTIGUOUS else None


def lie_alike(one: Any, other: Any) -> bool:
    """Say whether the elements of two Tensors of one trace and of the same shape lie in the same order."""
    while is_traced(one) and is_traced(other):
        if _own_layout(one) != CONTIGUOUS or _own_layout(other) != CONTIGUOUS:
            return False
        one, other = one.value, other.value
    if issubclass(type(one), _ndarray) and issubclass(type(other), _ndarray):
        return bool(one.strides == other.strides)
    return layout_at(one) == layout_at(other) == CONTIGUOUS


def note_layout(tensor: Any, layout: int) -> None:
    """Remember how the elements of a Tensor of an abstract trace lie, if not in C order."""
    if layout != CONTIGUOUS:
        memory_of(tensor).layout = layout
        tensor.recorder.unordered = True


def note_result(tensor: Any, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> None:
    """Let the result of an operation of an abstract trace stand for a view if it is one, and remember its layout."""
    if not primitive.views and keeps_order(primitive) and _in_order(arrays):
        return  # nearly always
    base = arrays[0] if arrays else None
    if primitive.views and is_traced(base):
        shares, layout = _view_of(base, primitive, params)
        if shares:
            note_view(base, tensor, primitive, params)
            note_layout(tensor, layout)
            return
    shape = tensor.value.shape
    if not is_flat(shape):
        note_layout(tensor, layout_of_result(primitive, shape, arrays, [*map(layout_at, arrays)], params))


def _in_order(arrays: Sequence[Any]) -> bool:
    """Say whether it is clear at once that all arguments lie in C order."""
    for a in arrays:
        if type(a) is _ndarray:
            if not a.flags.c_contiguous:
                return False
        else:
            recorder = getattr(a, "recorder", None)
            if recorder is not None and (recorder.unordered or not isinstance(a.value, ArraySpec)):
                return False
    return True


def _view_of(base: Any, primitive: Primitive, params: dict[str, Any]) -> tuple[bool, int]:
    """Say whether an operation on an abstract Tensor gives a view, and of which layout.

    It is done with memory that is never touched. Of an array of unknown layout, each reshape may be a view.
    """
    root, path = origin_of(base)
    if primitive is RESHAPE and not path and not base.recorder.unordered:
        return True, CONTIGUOUS  # usually
    known = _own_layout(root) == CONTIGUOUS
    if primitive is RESHAPE and (not path or not known):
        return True, _own_layout(base)
    if primitive is TRANSPOSE and not known:
        return True, CONTIGUOUS if is_flat(base.shape) else ANY
    if primitive is TRANSPOSE and not path and known:
        axes = [axis for axis in params["axes"] if root.shape[axis] != 1]
        return True, CONTIGUOUS if axes == sorted(axes) else ANY
    whole = np.empty(root.shape, root.dtype) if known else np.empty(base.shape, base.dtype)
    value = whole
    for step in (*(path if known else ()), Step(primitive, params)):
        value = step.read(value)
        if not issubclass(type(value), _ndarray) or not np.may_share_memory(value, whole):
            return False, ANY
    layout = layout_of(value.strides, value.shape, value.itemsize)
    if known or is_flat(value.shape):
        return True, layout
    return True, max(layout, _own_layout(base), ORDERED)


def _own_layout(tensor: Any) -> int:
    """Return what an abstract trace remembers of a Tensor."""
    memory: Memory | None = getattr(tensor, "memory", None)
    return CONTIGUOUS if memory is None else memory.layout


def _last_doubt(root: Any, path: Path) -> int:
    """Return how many steps of a path there are up to the last one of which an unknown layout decides whether it copies."""
    if not any(step.primitive is RESHAPE and not step.copied for step in path):
        return 0
    below = root
    while _own_layout(origin_of(below)[0]) == CONTIGUOUS:
        below = below.value
        if not is_traced(below):
            return 0
    found = 0
    spec = ArraySpec(root.shape, root.dtype)
    for number, step in enumerate(path, 1):
        shape, spec = spec.shape, step.spec(spec)
        if step.primitive is RESHAPE and not step.copied and merges(shape, spec.shape):
            found = number
    return found


def detach(tensor: Any, stale: Any) -> tuple[Any, Path]:
    """Let a Tensor that is about to be written to own its memory if nobody knows whether it is a view or a copy.

    What else views that memory through the same step views it from now on. All others are refused when they are read, as they
    may have been written to or not; they belong to the recorder `stale`. Returns the root, and the path from there.
    """
    root, path = origin_of(tensor)
    count = _last_doubt(root, path)
    if not count or DECIDED.get():
        return root, path
    memory = memory_of(root)
    alive = [view for weak in memory.views if (view := weak()) is not None]
    family = [view for view in alive if len(view.origin[1]) >= count and view.origin[1][count - 1] is path[count - 1]]
    heads = [view for view in family if len(view.origin[1]) == count]
    head = heads[0] if heads else part(root, path[:count])
    memory.views = [ref(view) for view in alive if not any(view is one for one in (head, *family))]
    keeper, head.value = clone(root), clone(head).value
    del head.origin
    for view in family:
        if view is not head:
            enter(head, view.origin[1][count:], view)
    make_stale(root, stale)
    root.origin = keeper, path  # which is not what it was, but cannot be read either
    root.value, root.recorder = None, stale
    return origin_of(tensor)


def note_view(base: Any, view: Any, primitive: Primitive, params: dict[str, Any], number: int | None = None) -> None:
    """Let a Tensor that was just made stand for a view of another."""
    step = _new_step(Step, (primitive, params, number, True, False))
    origin = getattr(base, "origin", None)
    if origin is None:
        enter(base, (step,), view)
    elif origin[1] and origin[1][-1].copied:
        view.value = view.value if isinstance(view.value, ArraySpec) else np.copy(view.value)
    else:
        enter(origin[0], (*origin[1], step), view)


def note_read_only(base: Any, view: Any, entry: Any, params: dict[str, Any]) -> None:
    """Let the result of a composite stand for a view that NumPy makes read-only, however it was computed."""
    root, path = getattr(base, "origin", None) or (base, ())
    enter(root, (*path, Step(entry, params, writeable=False)), view)


def enter(root: Any, path: Path, view: Any) -> None:
    """Let a Tensor stand for the view at the end of a path."""
    view.origin = root, path
    memory = getattr(root, "memory", None) or memory_of(root)
    views = memory.views
    views.append(ref(view))
    if len(views) >= memory.limit:
        views[:] = [weak for weak in views if weak() is not None]
        memory.limit = max(64, 2 * len(views))
    if memory.copied > 1 and type(view.value) is _ndarray:
        value = with_layout(view.value)
        value.setflags(write=view.value.flags.writeable)
        view.value = value


def with_layout(view: Any) -> Any:
    """Return a copy of a view with its strides: what a further view of it shares is what it would be for the view itself.

    Records of what is computed from it then hold this part, and not the whole of an array that is still being written to.
    """
    low, high = byte_bounds(view)
    start = view.__array_interface__["data"][0] - low
    out: Any = _ndarray(view.shape, view.dtype, np.empty(high - low, np.uint8), start, view.strides)
    out[...] = view
    return out


def make_stale(root: Any, stale: Any) -> None:
    """Take the values of all views of a root that is about to be written to; they belong to the recorder `stale` then."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None or not memory.views:
        return
    noted = root.recorder.stale
    for weak in memory.views:
        view = weak()
        if view is not None:
            view.value = None
            view.recorder = stale
            if noted is not None:
                noted[id(view)] = weak
    memory.views.clear()


def clone(tensor: Any) -> Any:
    """Return another Tensor for the same value, which stays what it is when the first one is written to."""
    if tensor.value is None:
        refresh(tensor)
    value = tensor.value
    if getattr(value, "origin", None) is not None:  # a write to the other would go through it, to what it views one level below
        value = clone(value)
    other = type(tensor)()
    other.value, other.recorder, other.slot = value, tensor.recorder, tensor.slot
    other.code, other.instruction = tensor.code, tensor.instruction
    note_layout(other, _own_layout(tensor))
    return other


def refresh(view: Any) -> None:
    """Read a stale view anew.

    Raises:
        UnsupportedError: nobody knows whether it was a view of what was written to.
    """
    root, path = view.origin
    if _last_doubt(root, path):
        raise UnsupportedError(
            f"whether reshape made a view or a copy depends on how an array lies in memory, which is not known where a trace "
            f"has no values (vmap, make_expressions). Something was written to the one, and the other is read, at {here()}. "
            f"Make the array with u = u.copy() before it is reshaped."
        )
    new = root
    for step in path:
        new = step.read(new)
    view.value, view.recorder, view.slot = new.value, new.recorder, new.slot
    view.code, view.instruction = new.code, new.instruction
    enter(root, path, view)
