"""The recorder of tapes: one that may be inactive, and that several tapes share.

Tapes that are open at the same time write into one list: an operation is recorded once, and each tape knows which stretches
of the list are its own. So what `gradient` computes while another tape records is in the list too, whichever was opened first.
A tape that is opened while an inner transform runs its function has a recorder of its own, one level further in.

A Tensor is in the list of at most one recorder of a level. `watch_tensor` puts one there that was not. When no tape
records any more the recorder is inactive, and its Tensors are constants to everything that is done with them.

Which recorders are active is a matter of the thread and the coroutine: `ACTIVE`. It is asked at each operation, which takes
0.15 us, so that a thread which was handed a watched Tensor does not write into the list of another.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from threading import Lock
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from functad.eager.active import ACTIVE, Stamp
from functad.eager.models.tensor_like import refuse_array_api, refuse_foreign_rules
from functad.eager.models.variable import Variable
from functad.eager.tape.equations import TapeEquations
from functad.eager.tape.inner_traces import has_value, refuse_within
from functad.expressions.spec import is_float_array
from functad.forks import renewed
from functad.places import here, user_frame
from functad.primitives.elementwise.comparisons import BOOLEAN
from functad.primitives.elementwise.conversion import copy_alike
from functad.primitives.entry import Primitive
from functad.tracing.constants import apart_from
from functad.tracing.conversions import depends_on_inputs
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import LIVE, OPEN, TAPING, WATCHER, Recorded, Recorder, resolve
from functad.tracing.traces.concrete import ForwardRecorder, ReverseRecorder
from functad.tracing.traces.idle import IDLE, idle, process_constants, tensor_of
from functad.tracing.views import clone
from functad.tracing.writing import recorded_now
from functad.transforms.calling.arguments import value_of

_active = ACTIVE.get
_watching = renewed(Lock())
"""Held while a Tensor is put into a list: two threads may be about to do that with one Tensor."""


class EagerRecorder(ReverseRecorder):
    """A list that tapes, or a forward accumulator, write into.

    Attributes:
        members: the tapes that own stretches of the list, as long as they may be asked for gradients.
        recording: weak references to the tapes that record now; one that nobody holds any more can give nothing.
        variables: by identity, the variables that were read, and the slots of what was read.
        aliases: by identity, Tensors that another thread or coroutine follows, and what stands for them in this list.
        moved: Tensors of the list that were put into the list of another recorder, and their slots.
        watched: slots of Tensors that were put into the list by `watch_tensor`.
        shared: there has been more than one tape.
        fallible: there are rules of the user's in the list, which may raise; a walk then drops nothing as it passes.
        stale: views of what was written to since they were read, by identity, if they are still there.
        around: the recorder of the tape that recorded when this one started.
        scope: the `graph` that records everything in the list, if there is one.
        left: by slot, what took the value of a Tensor from the trace first, and where: `tape.explain` tells.
        debugs: it was made under `debug_nans`, and has a watch from when a tape starts.
        listed: the equations that were recorded while a tape with `lists=True` did.
        short: operators may take their short way, which tells nobody what they do.
    """

    lasting = True
    reassigns = True
    fallible = False

    def __init__(self, transform: str) -> None:
        Recorder.__init__(self, transform, None)
        self.calls: TapeEquations | None = None
        self.members: WeakSet[Any] = WeakSet()
        self.recording: list[ref[Any]] = []
        self.variables: dict[int, tuple[Variable, list[int]]] = {}
        self.moved: dict[int, tuple[ref[Any], int]] = {}
        self.aliases: dict[int, tuple[ref[Any], Any]] = {}
        self.watched: set[int] = set()
        self.left: dict[int, tuple[str, Any, int]] = {}
        self.stale: dict[int, Any] = {}
        self.shared = False
        self.around: Any = None
        self.scope: Any = None
        self.debugs = WATCHER.get() is not None
        self.short = not self.debugs
        self.listed = TapeEquations()

    @property
    def tapes(self) -> list[Any]:
        """The tapes that record now; each has a method `wants` for variables that are read."""
        return [tape for weak in self.recording if (tape := weak()) is not None]

    @property
    def eager(self) -> bool:  # type: ignore[override]
        """Active, and nothing else is to be told, so that operators may take their short way."""
        return self.short and self in _active()

    @property
    def inactive(self) -> bool:  # type: ignore[override]
        """No tape records in this thread or coroutine."""
        return self not in _active()

    @property
    def rank(self) -> float:
        """Infinite while no tape records in this thread or coroutine: then its Tensors are constants to every other trace."""
        return inf if self.inactive else self.serial

    @rank.setter
    def rank(self, serial: float) -> None:
        """Take no note of the lasting rank that the base class gives."""

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call one level lower, and record it if a tape records."""
        if self.inactive:
            return process_constants(primitive, arrays, params)
        return super().process(primitive, arrays, params)

    def record(
        self,
        primitive: Primitive,
        arrays: tuple[Any, ...],
        values: Sequence[Any],
        active: tuple[int, ...],
        params: dict[str, Any],
        out: Any,
    ) -> Any:
        """Record a call whose result is known, and return its Tensor, or its Tensors."""
        made = super().record(primitive, arrays, values, active, params, out)
        if self.calls is not None:
            self.calls.note(primitive, arrays, params, made)
        return made

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write into a value, in place if nothing else holds it, and record that."""
        if self.calls is not None:
            self.calls.keep(root)
        return super().write(primitive, root, v, params)

    def is_constant(self, tensor: Recorded) -> bool:
        """Say whether a Tensor depends on none that is watched."""
        return not depends_on_inputs(tensor, self.watched)

    def clear(self) -> None:
        """Drop all that is known of the list, which no tape will ask for."""
        for kept in (self.equations, self.variables, self.moved, self.aliases, self.left, self.listed):
            kept.clear()
        self.watch = None

    def keeps(self, tensor: Recorded) -> bool:
        """Say whether a Tensor is watched or a constant now, so that it must stay what it is."""
        return self.inactive or tensor.slot in self.watched

    def value_outside(self, tensor: Recorded) -> Any:
        """Return the value of a Tensor one level lower, and note the line where the user asked for it."""
        self.note(tensor, "numpy()")
        value = tensor.below if self in ACTIVE.get() else resolve(tensor)
        return value.recorder.value_outside(value) if isinstance(value, Recorded) else value

    def invalidated(self, view: ref[Recorded]) -> None:
        """Take note of a view that must be read anew before the tape stops."""
        self.stale[id(view())] = view

    def resolve(self, tensor: Recorded) -> Any:
        """Return the value of a Tensor while this is inactive, or the Tensor that stands for it in a list of this thread."""
        if not self.inactive:
            return tensor
        for recorder in reversed(ACTIVE.get()):
            entry = recorder.aliases.get(id(tensor)) if recorder.aliases else None
            if entry is not None and entry[0]() is tensor:
                return entry[1]
        return tensor.below

    def note(self, tensor: Recorded, what: str) -> None:
        """Remember that the value of a Tensor leaves the trace, and the user's line.

        Comparisons count for less: they may only check a value. Half of the room is left to what is none.
        """
        if len(self.left) < (500 if what in BOOLEAN else 1000) and self._tells_more(tensor.slot, what):
            frame = user_frame(sys._getframe(1))
            if frame is not None:
                self.left[tensor.slot] = what, frame.f_code, frame.f_lasti

    assigned = note

    def _tells_more(self, slot: int, what: str) -> bool:
        held = self.left.get(slot)
        return held is None or (held[0] in BOOLEAN and what not in BOOLEAN)

    def underived(self, primitive: Any, arrays: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        """Return the result of a call without derivative: floats as a Tensor; masks and positions as they are.

        Where the derivative is zero and not absent, as that of the sign is to be, the call is recorded.
        """
        if primitive.flat is not None:
            return primitive.flat(*arrays, **params)
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is self:
                self.note(a, primitive.name)
        return idle(Tensor, apart_from(arrays, out)) if is_float_array(out) else out

    def start(self, tape: Any) -> None:
        """Let a tape record."""
        self.members.add(tape)
        self.shared = self.shared or len(self.members) > 1
        self.recording.append(ref(tape))
        LIVE.add(self.serial)
        self._choose_way()
        active = {recorder for recorder in ACTIVE.get() if recorder.tapes} | {self}
        if self not in ACTIVE.get():
            self.around = TAPING.get()
            TAPING.set(self)
        ACTIVE.set(tuple(sorted(active, key=lambda recorder: recorder.serial)))
        Stamp.renew()

    def __del__(self) -> None:  # of a tape that was never left
        LIVE.discard(self.serial)

    def stop(self, tape: Any) -> None:
        """Let a tape record no more; what was a view of what was written is read anew before, or the tape would not know it."""
        while self.stale and self in ACTIVE.get():
            view = self.stale.popitem()[1]()
            if view is not None:
                view.renew()
        self.recording = [weak for weak in self.recording if weak() not in (None, tape)]
        self._choose_way()
        if not self.recording:
            LIVE.discard(self.serial)
            ACTIVE.set(tuple([recorder for recorder in ACTIVE.get() if recorder is not self]))
            if TAPING.get() is self:
                TAPING.set(self.around)
            for recorder in ACTIVE.get():
                if recorder.around is self:
                    recorder.around = self.around
            self.around = None
        Stamp.renew()

    def _choose_way(self) -> None:
        """Let all operations be told of as long as a tape that can be listed records."""
        self.calls = self.listed if True in [tape.lists for tape in self.tapes] else None
        self.short = self.calls is None and not self.debugs

    def take(self, variable: Variable, tensor: Any, besides: Sequence[Any] = ()) -> None:
        """Put the Tensor that is read from a variable now into the list, if a tape, besides some, follows the variable."""
        wanting = [tape for tape in self.tapes if tape not in besides and tape.wants(variable)]
        if not wanting:
            return
        watch_tensor(tensor, self)
        slot = self.slot_of(tensor)
        assert slot is not None
        self.variables.setdefault(id(variable), (variable, []))[1].append(slot)
        for tape in wanting:
            tape.follow(slot)

    def slot_of(self, tensor: Any) -> int | None:
        """Return the slot of a Tensor in the list; `None` if it is not there."""
        while isinstance(tensor, Recorded):
            tensor.renew()  # type: ignore[attr-defined]
            if tensor.recorder is self:
                return tensor.slot
            entry = self.moved.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                return entry[1]
            entry = self.aliases.get(id(tensor))
            tensor = entry[1] if entry is not None and entry[0]() is tensor else tensor.below
        return None


class AccumulatorRecorder(ForwardRecorder, EagerRecorder):
    """The list that a forward accumulator writes into; it is pushed through once, and short."""

    pulls = False

    @property
    def eager(self) -> bool:  # type: ignore[override]
        """Operators take the long way."""
        return False


def shared_recorder(transform: str) -> EagerRecorder:
    """Return the recorder that a tape opened now writes into: that of the tapes open already, if nothing lies between."""
    active, running = ACTIVE.get(), OPEN.get()
    if active:
        newest: EagerRecorder = active[-1]
        alike = newest.debugs == (WATCHER.get() is not None)  # of what was recorded before `debug_nans` too little is known
        if alike and newest.pulls and (running is None or running.closed or running.serial < newest.serial):
            return newest
    return EagerRecorder(transform)


def watch_tensor(tensor: Any, recorder: EagerRecorder) -> None:
    """Put a Tensor into the list of a recorder, as an input, if it is not there: the object stays the same."""
    with _watching:
        _watch(tensor, recorder)


def watch_given(tensor: Any, recorder: EagerRecorder) -> None:
    """Put a Tensor that is to be followed into the list of a recorder; a `graph` that is open follows it from now on too."""
    if tensor.recorder.inactive:
        recorded_now([tensor])
    if not has_value(tensor, recorder):
        refuse_within(tensor, recorder, "watch()")
    watch_tensor(tensor, recorder)


def _watch(tensor: Any, recorder: EagerRecorder) -> None:
    tensor.renew()
    home = tensor.recorder
    if home is recorder:
        return
    if home.inactive:
        value = resolve(tensor)
        if home is not IDLE and home.recording:  # another thread or coroutine follows it now, and must not be disturbed
            alias = clone(value) if isinstance(value, Recorded) else idle(Tensor, value)
            _watch(alias, recorder)
            recorder.aliases[id(tensor)] = ref(tensor), alias
            return
        if home is not IDLE:
            home.moved[id(tensor)] = ref(tensor), tensor.slot
        if isinstance(value, Recorded):
            tensor.below, tensor.recorder, tensor.slot = value.below, value.recorder, value.slot
            _watch(tensor, recorder)
            return
    elif home.serial > recorder.serial:
        value = tensor.below  # which may be the user's own array
        inner = (
            clone(value)
            if isinstance(value, Recorded)
            else idle(Tensor, copy_alike(value) if type(value) is np.ndarray else value)
        )
        _watch(inner, recorder)
        tensor.below = inner
        return
    else:
        value = clone(tensor)
    if getattr(tensor, "origin", None) is not None:
        del tensor.origin
    if getattr(tensor, "memory", None) is not None:
        del tensor.memory
    slot = len(recorder.equations)
    recorder.equations.append(None)
    recorder.watched.add(slot)
    tensor.below, tensor.recorder, tensor.slot = value, recorder, slot  # without a call, so that no interrupt comes between


def _in_scope(tensor: Any) -> Any:
    """Return a Tensor of another trace as one that the `graph` that is open records too."""
    for recorder in ACTIVE.get():
        if recorder.scope is not None and tensor.recorder is not recorder and has_value(tensor, recorder):
            tensor = clone(tensor)
            watch_tensor(tensor, recorder)
    return tensor


def constant(value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    """Return a value as a Tensor, which a tape can watch.

    Args:
        value: an array, a number, a nested list of numbers, a Tensor or a Variable; arrays are copied.
        dtype: type of the elements; that of the value if not given.
        shape: a shape to which the value is reshaped, or repeated if it is one number.

    Returns:
        A Tensor. NumPy functions of it give Tensors; `numpy()`, `float()` and `np.asarray` give its value.

    Example:
        >>> import functad
        >>> x = functad.constant([1.0, 2.0])
        >>> (x * 2).numpy()
        array([2., 4.])
    """
    own: Any = value_of(value)
    refuse_foreign_rules(own, "constant()")
    refuse_array_api(own, "constant()")
    if isinstance(own, Tensor):
        out: Any = own.astype(dtype) if dtype is not None else own
        if shape is not None:
            out = np.broadcast_to(out, shape) if out.size == 1 else out.reshape(shape)
        return _in_scope(tensor_of(Tensor, out))  # type: ignore[no-any-return]
    if hasattr(type(own), "__array_function__") and type(own) is not np.ndarray:  # of another library, perhaps
        array = own.copy() if dtype is None else own.astype(dtype)
    else:
        array = copy_alike(own) if type(own) is np.ndarray and dtype is None else np.array(own, dtype)
    if array.dtype.kind not in "biufc":
        what = "Python objects" if array.dtype.kind == "O" else f"{array.dtype}"
        raise TypeError(f"constant() of {what}, at {here()}: pass numbers, or np.stack the Tensors in a list.")
    if shape is not None:
        array = np.full(shape, array) if array.size == 1 else array.reshape(shape)
    return idle(Tensor, array[()])  # type: ignore[no-any-return]
