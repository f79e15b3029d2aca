"""Which Tensors view which: so that a write to one is seen through the other, as NumPy has it.

A Tensor whose value shares the memory of another's knows its `origin`: the root that owns the memory, and the path of views
from there. The root keeps weak references to its views. A write goes to the root and makes all views stale; a stale one has no
value, and belongs to `STALE`, whose `process` reads it anew.
Nothing is paid by operations that make no view.

An abstract trace has no values, and so no memory to ask. It knows of some arrays that they lie in C order; of a view of one of
those NumPy says the rest. Whether `reshape` makes a view of another array is in doubt. Then each owns its memory, and they know
of each other: when something is written to the one, the other is refused from then on.
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
    """What a root knows of the memory that it owns; of a view in an abstract trace, how it lies.

    Attributes:
        views: weak references to the Tensors that view it, and are not stale.
        limit: from this number on, references to Tensors that are gone are dropped.
        copied: how often a write had to copy the array because records held it or a part of it.
        ordered: the elements lie in C order without gaps, as far as an abstract trace knows.
        doubted: weak references to all that may share this memory or not, this root too; `None` if there is nothing.
    """

    __slots__ = ("copied", "doubted", "limit", "ordered", "views")

    def __init__(self) -> None:
        self.views: list[ref[Any]] = []
        self.limit = 64
        self.copied = 0
        self.ordered = True
        self.doubted: list[ref[Any]] | None = None


def memory_of(root: Any) -> Memory:
    """Return the notes of a root on its memory; they are made if there are none yet."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None:
        memory = root.memory = Memory()
    return memory


def is_ordered(tensor: Any) -> bool:
    """Say whether an abstract trace knows of a Tensor of its own that it lies in C order without gaps."""
    memory: Memory | None = getattr(tensor, "memory", None)
    return memory is None or memory.ordered


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


def note_if_view(base: Any, made: Any, value: Any, out: Any, primitive: Primitive, params: dict[str, Any]) -> None:
    """Let the result of an operation stand for a view, if what it gave one level down, `out`, is or may be one of `value`."""
    if shares(out, value):
        note_view(base, made, primitive, params)
    elif type(out) is not _ndarray:
        group = getattr(getattr(out, "memory", None), "doubted", None)
        if group is not None and memory_of(origin_of(value)[0]).doubted is group:
            note_doubt(base, made)


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


def note_doubt(base: Any, made: Any) -> None:
    """Note that a Tensor which was just made may be a view of another or a copy; it owns its memory."""
    memory = memory_of(origin_of(base)[0])
    if memory.doubted is None:
        memory.doubted = [ref(origin_of(base)[0])]
    memory.doubted.append(ref(made))
    memory_of(made).doubted = memory.doubted


def doubt(view: Any) -> None:
    """Turn what `ravel` made into what may be a view or a copy, in all traces; it lies in C order in any case."""
    while is_traced(view):
        origin = getattr(view, "origin", None)
        if origin is not None:
            views = memory_of(origin[0]).views
            views[:] = [weak for weak in views if weak() is not view]
            del view.origin
            note_doubt(origin[0], view)
            view.memory.ordered = True
        view = view.below


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


def make_stale(root: Any) -> None:
    """Take the values of all views of a root that is about to be written to; they belong to `STALE` then."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None or not memory.views:
        return
    for weak in memory.views:
        view = weak()
        if view is not None:
            view.below = None
            view.recorder = STALE
            root.recorder.invalidated(weak)
    memory.views.clear()


def in_doubt(tensor: Any) -> bool:
    """Say whether the memory of a Tensor may be shared by another, or not."""
    memory: Memory | None = getattr(tensor, "memory", None)
    return memory is not None and memory.doubted is not None


def settle(root: Any) -> None:
    """Refuse from now on all that may share the memory of a root, or not, which is about to be written to."""
    memory: Memory | None = getattr(root, "memory", None)
    if memory is None or memory.doubted is None:
        return
    for weak in memory.doubted:
        other = weak()
        if other is not None and other is not root:
            make_stale(other)
            other.below, other.recorder = None, STALE
            other.memory.doubted = None
    memory.doubted = None


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
    if not is_ordered(tensor):
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
            f"whether reshape made a view or a copy depends on how an array lies in memory, which is not known where a trace "
            f"has no values (vmap, make_expressions). Something was written to the one, and the other is read, at {here()}. "
            f"Make the array with u = u.copy() before it is reshaped, or take a copy, v = u.reshape(shape).copy()."
        )
    root, path = origin
    new = root
    for step in path:
        new = step.read(new)
    view.below, view.recorder, view.slot = new.below, new.recorder, new.slot
    view.code, view.instruction = new.code, new.instruction
    enter(root, path, view)
