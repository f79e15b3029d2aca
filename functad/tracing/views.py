"""Which Tensors view which: so that a write to one is seen through the other, as NumPy has it.

A Tensor whose value shares the memory of another's knows its `origin`: the root that owns the memory, and the path of views
from there. The root keeps weak references to its views. A write goes to the root and makes all views stale; a stale one has no
value, and belongs to the recorder `STALE`, which no short way accepts, so that reading it comes by `record` and is done anew.
Nothing is paid by operations that make no view.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.expressions.spec import ArraySpec
from functad.primitives.primitive import Primitive
from functad.primitives.shaping import RESHAPE, TRANSPOSE
from functad.primitives.writing import Path, Step

_ndarray = np.ndarray


class Memory:
    """What a root knows of the memory that it owns.

    Attributes:
        views: weak references to the Tensors that view it, and are not stale.
        limit: from this number on, references to Tensors that are gone are dropped.
        copied: how often a write had to copy the array because records held it or a part of it.
    """

    __slots__ = ("copied", "limit", "views")

    def __init__(self) -> None:
        self.views: list[ref[Any]] = []
        self.limit = 64
        self.copied = 0


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


def would_share(base: Any, primitive: Primitive, params: dict[str, Any]) -> bool:
    """Say whether an operation on an abstract Tensor gives a view: by doing it with memory that is never touched."""
    root, path = origin_of(base)
    if not path and (primitive is RESHAPE or primitive is TRANSPOSE):
        return True  # of an array that has its elements in order
    whole = np.empty(root.shape, root.dtype)
    value = whole
    for step in (*path, Step(primitive, params)):
        value = step.read(value)
        if not isinstance(value, _ndarray) or not np.may_share_memory(value, whole):
            return False
    return True


def note_view(base: Any, view: Any, primitive: Primitive, params: dict[str, Any], number: int | None = None) -> None:
    """Let a Tensor that was just made stand for a view of another."""
    root, path = getattr(base, "origin", None) or (base, ())
    if path and path[-1].copied:
        view.value = view.value if isinstance(view.value, ArraySpec) else np.copy(view.value)
    else:
        enter(root, (*path, Step(primitive, params, number)), view)


def note_read_only(base: Any, view: Any, entry: Any, params: dict[str, Any]) -> None:
    """Let the result of a composite stand for a view that NumPy makes read-only, however it was computed."""
    root, path = getattr(base, "origin", None) or (base, ())
    enter(root, (*path, Step(entry, params, writeable=False)), view)


def enter(root: Any, path: Path, view: Any) -> None:
    """Let a Tensor stand for the view at the end of a path."""
    view.origin = root, path
    memory = memory_of(root)
    views = memory.views
    views.append(ref(view))
    if len(views) >= memory.limit:
        views[:] = [weak for weak in views if weak() is not None]
        memory.limit = max(64, 2 * len(views))
    if memory.copied > 1 and type(view.value) is _ndarray:
        view.value = _with_layout(view.value)


def _with_layout(view: Any) -> Any:
    """Return a copy of a view with its strides: what a further view of it shares is what it would be for the view itself.

    Records of what is computed from it then hold this part, and not the whole of an array that is still being written to.
    """
    low, high = byte_bounds(view)
    start = view.__array_interface__["data"][0] - low
    out: Any = _ndarray(view.shape, view.dtype, np.empty(high - low, np.uint8), start, view.strides)
    out[...] = view
    out.setflags(write=view.flags.writeable)
    return out


def make_stale(root: Any, stale: Any) -> None:
    """Take the values of all views of a root that is about to be written to; they belong to the recorder `stale` then."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None or not memory.views:
        return
    for weak in memory.views:
        view = weak()
        if view is not None:
            view.value = None
            view.recorder = stale
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
    return other


def refresh(view: Any) -> None:
    """Read a stale view anew."""
    root, path = view.origin
    new = root
    for step in path:
        new = step.read(new)
    view.value, view.recorder, view.slot = new.value, new.recorder, new.slot
    view.code, view.instruction = new.code, new.instruction
    enter(root, path, view)
