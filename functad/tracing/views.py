"""Which Tensors view which: so that a write to one is seen through the other, as NumPy has it.

A Tensor whose value shares the memory of another's knows its `origin`: the root that owns the memory, and the path of views
from there. The root keeps weak references to its views. A write goes to the root and makes all views stale; a stale one has no
value, and belongs to `STALE`, whose `process` reads it anew.
Nothing is paid by operations that make no view.

An abstract trace has no values, and so no memory to ask (see `functad.tracing.layouts`). If it does not know whether `reshape`
made a view or a copy, the result and its argument both own their memory, and each is in the list of views of the other without
an `origin`. A write to one of them makes the other stale, and a stale Tensor without an origin is refused when it is read.
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
from functad.tracing.traces.base import Recorded, Recorder, record, resolve

_ndarray = np.ndarray
_new_step = tuple.__new__  # half the time of a call of the named tuple


class StaleRecorder(Recorder):
    """What views belong to that are to be read anew before they are used."""

    def __init__(self) -> None:
        super().__init__("a write", None)
        self.rank = inf

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Read the stale views among the arrays anew, and record the call."""
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is self:
                refresh(a)
        return record(primitive, arrays, params)

    def resolve(self, tensor: Recorded) -> Any:
        """Read a view anew, and return what it stands for."""
        refresh(tensor)
        return resolve(tensor)


STALE = StaleRecorder()
"""The recorder of all stale views."""


class Memory:
    """What a root knows of the memory that it owns.

    Attributes:
        views: weak references to the Tensors that view it, or may view it, and are not stale.
        limit: from this number on, references to Tensors that are gone are dropped.
        copied: how often a write had to copy the array because records held it or a part of it.
        ordered: the elements are known to lie in C order without gaps; of use in abstract traces only.
    """

    __slots__ = ("copied", "limit", "ordered", "views")

    def __init__(self) -> None:
        self.views: list[ref[Any]] = []
        self.limit = 64
        self.copied = 0
        self.ordered = True


def memory_of(root: Any) -> Memory:
    """Return the notes of a root on its memory; they are made if there are none yet."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None:
        memory = root.memory = Memory()
    return memory


def origin_of(tensor: Any) -> tuple[Any, Path]:
    """Return the root of a Tensor and the path from there; that of a root is empty."""
    return getattr(tensor, "origin", None) or (tensor, ())


def layout_of(a: Any) -> Any:
    """Return an array that lies in memory as an argument does, or the number that it is; `None` if the layout is unknown."""
    while is_traced(a) and not isinstance(a.current(), ArraySpec):
        a = a.below
    if not is_traced(a):
        return a
    root, path = origin_of(a)
    memory: Memory | None = getattr(root, "memory", None)
    known = memory is None or memory.ordered
    return part(np.empty(root.shape, root.dtype), path) if known else None  # memory that is never touched


def in_c_order(a: Any) -> bool:
    """Return `True` if the elements of an argument are known to lie in C order without gaps; a number does."""
    while is_traced(a) and not isinstance(a.current(), ArraySpec):
        a = a.below
    if is_traced(a) and getattr(a, "origin", None) is None:  # the usual case, in which no array is made
        memory: Memory | None = getattr(a, "memory", None)
        return memory is None or memory.ordered
    a = layout_of(a)
    return a is not None and (type(a) is not _ndarray or bool(a.flags.c_contiguous))


def shares(out: Any, value: Any) -> bool:
    """Say whether the result of an operation is a view of its argument: by what NumPy did one level down."""
    if type(out) is _ndarray:
        base = out.base
        return out is value or (base is not None and type(value) is _ndarray and (base is value or base is value.base))
    origin = getattr(out, "origin", None)
    return out is value or (origin is not None and origin[0] is origin_of(value)[0])


def note_if_view(base: Any, made: Any, value: Any, out: Any, primitive: Primitive, params: dict[str, Any]) -> None:
    """Let the result of an operation stand for a view, if what it gave one level down, `out`, is or may be one of `value`."""
    if shares(out, value):
        note_view(base, made, primitive, params)
    elif is_traced(out) and may_be_view(out):
        note_view(base, made, primitive, params)
        doubt(made)


def note_view(base: Any, view: Any, primitive: Primitive, params: dict[str, Any], number: int | None = None) -> None:
    """Let a Tensor that was just made stand for a view of another."""
    step = _new_step(Step, (primitive, params, number, True, False))
    origin = getattr(base, "origin", None)
    if origin is None:
        enter(base, (step,), view)
    elif origin[1] and (origin[1][-1].copied or _copies(origin[0], (*origin[1], step))):
        view.below = view.below if isinstance(view.below, ArraySpec) else np.copy(view.below)
    else:
        enter(origin[0], (*origin[1], step), view)


def _copies(root: Any, path: Path) -> bool:
    """Say whether NumPy copies at the end of a path with a view in it that functad computes as a copy, such as a diagonal."""
    if all(type(step.primitive) is not Composite for step in path):
        return False
    known = innermost(root)
    model = known if issubclass(type(known), _ndarray) else np.empty(known.shape, known.dtype)
    return not np.may_share_memory(part(model, path), model)


def doubt(view: Any) -> None:
    """Turn a view that was just made into an array that may be a view or a copy, in all traces below too."""
    while is_traced(view):
        origin = getattr(view, "origin", None)
        if origin is not None:
            del view.origin
            memory_of(view).views.append(ref(origin[0]))  # which knows the view already
        view = view.below


def may_be_view(root: Any) -> bool:
    """Return `True` if it is unknown whether a Tensor that owns its memory and another one share it."""
    memory: Memory | None = getattr(root, "memory", None)
    others = () if memory is None else [weak() for weak in memory.views]
    return any(other is not None and getattr(other, "origin", None) is None for other in others)


def note_read_only(base: Any, view: Any, entry: Any, params: dict[str, Any]) -> None:
    """Let the result of a composite stand for a view that NumPy makes read-only, however it was computed."""
    root, path = origin_of(base)
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
    if memory.copied > 1 and type(view.below) is _ndarray:
        # Records of what is computed from it then hold this part, and not the whole of an array that is still being written to.
        part, view.below = view.below, copy_alike(view.below)
        view.below.setflags(write=part.flags.writeable)


def make_stale(root: Any, written: Any = None) -> None:
    """Take the values of all that is or may be a view of a root, which is about to be written to; they belong to `STALE` then.

    If the root is stale itself, because it may share its memory with another one, that is what is `written`.
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
    """Return another Tensor for the same value, which stays what it is when the first one is written to."""
    if tensor.below is None:
        refresh(tensor)
    value = tensor.below
    if getattr(value, "origin", None) is not None:  # a write to the other would go through it, to what it views one level below
        value = clone(value)
    other = type(tensor)()
    other.below, other.recorder, other.slot = value, tensor.recorder, tensor.slot
    other.code, other.instruction = tensor.code, tensor.instruction
    if isinstance(value, ArraySpec) and not in_c_order(tensor):
        memory_of(other).ordered = False
    return other


def refresh(view: Any) -> None:
    """Read a stale view anew.

    Raises:
        UnsupportedError: it may share memory with what was written to, or not.
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
    enter(root, path, view)
