"""Views among Tensors: a write to a Tensor changes all Tensors that share its memory, as in NumPy.

A view has an `origin`: the root Tensor, which owns the memory, and the path of view operations from the root. The root keeps
weak references to its views. A write goes to the root and makes all views stale. A stale view has no value and belongs to the
recorder `STALE`. `STALE.process` reads the view from the root again. Operations that return no view have no overhead.

An abstract trace has no values, so it cannot compare memory (see `functad.tracing.layouts`). It may not know whether `reshape`
returned a view or a copy. Then the argument and the result both own their memory, and each is in the list of views of the other
one without an `origin`. A write to one of them makes the other stale, and reading a stale Tensor without an origin raises.
"""

from __future__ import annotations

from math import inf
from typing import Any
from weakref import ref

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.elementwise.conversion import copy_alike
from functad.primitives.entry import Composite, Primitive
from functad.primitives.indexing.write import Path, Step, part
from functad.primitives.operands import innermost, is_traced
from functad.tracing.traces.base import Recorded, Recorder, dispatch, resolve

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
        copied: the number of writes that had to copy the array, because records held it or a part of it.
        ordered: the memory is known to be C-contiguous; used in abstract traces only.
    """

    __slots__ = ("copied", "limit", "ordered", "views")

    def __init__(self) -> None:
        self.views: list[ref[Any]] = []
        self.limit = 64
        self.copied = 0
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


def layout_of(a: Any) -> Any:
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
    a = layout_of(a)
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


def may_be_view(root: Any) -> bool:
    """Return `True` if a root may share its memory with another root."""
    memory: Memory | None = getattr(root, "memory", None)
    others = () if memory is None else [weak() for weak in memory.views]
    return any(other is not None and getattr(other, "origin", None) is None for other in others)


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
    if memory.copied > 1 and type(view.below) is _ndarray:
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
            f"whether reshape made a view or a copy depends on how an array lies in memory, which is not known here: a trace "
            f"without values (vmap, jit, make_expressions). Something was written to the one, and the other is read, at "
            f"{here()}. Make the array with u = u.copy() before it is reshaped, or take a copy, v = u.reshape(shape).copy()."
        )
    root, path = origin
    new = root
    for step in path:
        new = step.read(new)
    view.below, view.recorder, view.slot = new.below, new.recorder, new.slot
    view.code, view.instruction = new.code, new.instruction
    add_view(root, path, view)
