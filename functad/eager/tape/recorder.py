"""`EagerRecorder`: the trace of tapes, which several tapes share and which may be inactive; and the Tensors in its list.

Tapes that are open at the same time write into one list. The list holds each operation once, and each tape knows its own
stretches of the list. A backward pass of one tape is recorded too, if another tape of the list records at that time. The
order in which the tapes were opened does not matter. A tape that is opened inside the function of an inner transform has a
recorder of its own, which is newer than the trace of that transform.

A Tensor is in the list of at most one recorder of a level; `watch_tensor` adds a Tensor to a list. A recorder is inactive
when none of its tapes records. Operations then treat its Tensors as constants.

`ACTIVE` holds the active recorders of a thread or coroutine. Each operation reads it (0.15 us), so that a thread never
writes into the list of another thread.

Records keep residuals only. For tapes with `lists=True`, `TapeEquations` keeps the equations of whole calls beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from threading import Lock
from typing import Any, Self
from weakref import ref

import numpy as np

from functad.eager.variable import ACTIVE, Stamp, Variable, refuse_foreign
from functad.errors import SourceError, TapeStateError
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.records import Observer, Place, checker, monitor_of
from functad.expressions.spec import ArraySpec, is_float_array, spec_of
from functad.places import here, name_of, user_frame
from functad.primitives.elementwise.conversion import copy_alike
from functad.primitives.elementwise.elementary import BOOLEAN
from functad.primitives.entry import Primitive
from functad.primitives.operands import read
from functad.process import renewed
from functad.tracing.concrete import IDLE, ForwardRecorder, ReverseRecorder, idle, process_constants, tensor_of
from functad.tracing.conversions import refusal_behind
from functad.tracing.equations import EquationRecorder
from functad.tracing.float_errors import enter_float_errors, float_errors, get_state, leave_float_errors
from functad.tracing.foreign import InGraphError
from functad.tracing.ownership import copy_if_shared, lend
from functad.tracing.tensor import Tensor
from functad.tracing.trace import LIVE, OPEN, TAPING, Recorded, Recorder, bare, record_in_graph, resolve, value_of
from functad.tracing.views import clone
from functad.transforms.lists import extract
from functad.trees import LEAF, flatten

_active = ACTIVE.get
_watching = renewed(Lock())
"""Lock for `watch_tensor`: two threads may add the same Tensor to a list."""


class EagerRecorder(ReverseRecorder):
    """The list of records of tapes or of a forward accumulator.

    Attributes:
        variables: by identity, each Variable that was read, with the slots of its reads.
        aliases: by identity, each Tensor of this list that belongs to the list of another recorder, with its alias here.
        watched: the slots of watched Tensors.
        shared: the list has had more than one tape.
        fallible: the list holds rules of the user, which may need the value of their cotangent.
        stale: by identity, the live views of memory that was written to after they were read.
        scope: the `graph` that records every operation in the list, or `None`.
        exits: by slot, the first operation that took the value out of the trace, and its line; for `tape.explain`.
        listing: the equations of the tapes with `lists=True` that record now.
        allows_fast: the fast paths may be used while the recorder is active. They bypass `monitor` and `listing`.
    """

    lasting = True
    reassigns = True
    fallible = False
    starts_fast = False

    def __init__(self, transform: str) -> None:
        self._members: list[ref[Any]] = []
        self.variables: dict[int, tuple[Variable, list[int]]] = {}
        self.aliases: dict[int, tuple[ref[Any], Any]] = {}
        self.watched: set[int] = set()
        self.exits: dict[int, tuple[str, Any, int]] = {}
        self.stale: dict[int, Any] = {}
        self.shared = False
        self.scope: Any = None
        self.listing: list[TapeEquations] = []
        Recorder.__init__(self, transform, None)
        self.allows_fast = self.pulls and self.monitor is None

    def observe(self) -> None:
        """Notify the observers of a new trace, and set its monitor."""
        if (made := monitor_of(self)) is not None:
            from functad.eager.tape.diagnostics import TapeMonitor  # noqa: PLC0415 - only `debug_nans` needs it

            self.monitor = TapeMonitor(self, offence=made.offence)

    @property
    def members(self) -> list[Any]:
        """The tapes that own stretches of the list and may still be asked for gradients."""
        return [tape for weak in self._members if (tape := weak()) is not None]

    @property
    def tapes(self) -> list[Any]:
        """The tapes that record now."""
        return [tape for tape in self.members if tape.recording]

    @property
    def fast(self) -> bool:  # type: ignore[override]
        """Whether the fast paths may be used now: the recorder is active, and `allows_fast` is set."""
        return self.allows_fast and self in _active()

    @property
    def inactive(self) -> bool:  # type: ignore[override]
        """Whether no tape of the list records in this thread or coroutine."""
        return self not in _active()

    @property
    def rank(self) -> float:
        """The serial number; infinite while inactive, so that `process` turns the Tensors into constants first."""
        return inf if self.inactive else self.serial

    @rank.setter
    def rank(self, serial: float) -> None:
        """Ignore the fixed rank that the base class sets."""

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call one level lower, and record it if a tape records."""
        if self.inactive:
            return process_constants(primitive, arrays, params)
        return super().process(primitive, arrays, params)

    def record(self, *call: Any) -> Any:
        """Record a call with a known result, and return its Tensor or Tensors."""
        made = super().record(*call)
        for listed in self.listing:
            listed.note(call, made)
        return made

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write to a value, in place if no other object holds it, and record the write."""
        for listed in self.listing:
            listed.slot_of(root)
        return super().write(primitive, root, v, params)

    def clear(self) -> None:
        """Drop the records and all data about them; no tape needs them any more."""
        for kept in (self.records, self.variables, self.aliases, self.exits):
            kept.clear()
        self.monitor = None

    def forbids_writes(self, tensor: Recorded) -> bool:
        """Return `True` if a Tensor is watched or constant: writes to it raise an error."""
        return self.inactive or tensor.slot in self.watched

    def value_outside(self, tensor: Recorded) -> Any:
        """Return the value of a Tensor outside this trace, and note the user's line for `explain`."""
        self.note(tensor, "numpy()")
        value = tensor.below if self in ACTIVE.get() else resolve(tensor)
        return value.recorder.value_outside(value) if isinstance(value, Recorded) else value

    def invalidated(self, view: ref[Recorded]) -> None:
        """Note a view that must be refreshed before the tape stops."""
        self.stale[id(view())] = view

    def resolve(self, tensor: Recorded) -> Any:
        """Return the Tensor if the recorder is active; else its alias in a list of this thread, or its value."""
        if not self.inactive:
            return tensor
        for recorder in reversed(ACTIVE.get()):
            entry = recorder.aliases.get(id(tensor)) if recorder.aliases else None
            if entry is not None and entry[0]() is tensor:
                return entry[1]
        return tensor.below

    def note(self, tensor: Recorded, what: str) -> None:
        """Note the operation and the user's line that took the value of a Tensor out of the trace.

        A comparison may be a mere check of the value. So other operations replace it, and half of the 1000 entries are
        reserved for them.
        """
        held, checks = self.exits.get(tensor.slot), what in BOOLEAN
        if (held is None or (held[0] in BOOLEAN and not checks)) and len(self.exits) < (500 if checks else 1000):
            frame = user_frame(sys._getframe(1))
            if frame is not None:
                self.exits[tensor.slot] = what, frame.f_code, frame.f_lasti

    assigned = note

    def underived(self, primitive: Any, arrays: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        """Return the result of a call without derivative: floats as a Tensor, masks and positions as plain arrays.

        A primitive with `flat`, such as `sign`, has the derivative zero, not `None`; its call is recorded.
        """
        if primitive.flat is not None:
            return primitive.flat(*arrays, **params)
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is self:
                self.note(a, primitive.name)
        return idle(Tensor, copy_if_shared(out, arrays)) if is_float_array(out) else out

    def start(self, tape: Any) -> None:
        """Start the recording of a tape."""
        self.leave(tape)
        self._members.append(ref(tape))
        self.shared = self.shared or len(self._members) > 1
        LIVE.add(self.serial)
        self._update_paths(self.tapes)
        active = {recorder for recorder in ACTIVE.get() if recorder.tapes} | {self}
        if self not in ACTIVE.get():
            TAPING.set(self)
        ACTIVE.set(tuple(sorted(active, key=lambda recorder: recorder.serial)))
        Stamp.renew()

    def __del__(self) -> None:  # a tape may never have been left
        LIVE.discard(self.serial)

    def stop(self, tape: Any) -> None:
        """Stop the recording of a tape, after a refresh of stale views, so that the tape records their reads."""
        while self.stale and self in ACTIVE.get():
            view = self.stale.popitem()[1]()
            if view is not None:
                view.current()
        others = [other for other in self.tapes if other is not tape]
        self._update_paths(others)
        if not others:
            LIVE.discard(self.serial)
            active = tuple([recorder for recorder in ACTIVE.get() if recorder is not self])
            ACTIVE.set(active)
            if TAPING.get() is self:
                TAPING.set(active[-1] if active else None)
        Stamp.renew()

    def leave(self, tape: Any) -> None:
        """Remove a tape from the members."""
        self._members = [ref(member) for member in self.members if member is not tape]

    def _update_paths(self, tapes: Sequence[Any]) -> None:
        """Collect equations and switch off the fast paths, if one of the recording tapes has `lists=True`."""
        self.listing = [tape.listed for tape in tapes if tape.listed is not None]
        self.allows_fast = self.pulls and not self.listing and self.monitor is None

    def take(self, variable: Variable, tensor: Any, besides: Sequence[Any] = ()) -> None:
        """Add a Tensor read from `variable` to the list if a tape, except `besides`, follows the Variable."""
        wanting = [tape for tape in self.tapes if tape not in besides and tape.wants(variable)]
        if not wanting:
            return
        slot = watch_tensor(tensor, self)
        self.variables.setdefault(id(variable), (variable, []))[1].append(slot)
        for tape in wanting:
            tape.follow(slot)

    def slot_of(self, tensor: Any) -> int | None:
        """Return the slot of a Tensor in the list, or `None` if the list does not hold the Tensor."""
        while isinstance(tensor, Recorded):
            tensor.current()  # type: ignore[attr-defined]
            if tensor.recorder is self:
                return tensor.slot
            entry = self.aliases.get(id(tensor))
            tensor = entry[1] if entry is not None and entry[0]() is tensor else tensor.below
        return None


class AccumulatorRecorder(ForwardRecorder, EagerRecorder):
    """The list of records of a forward accumulator."""

    pulls = False


class Recording:
    """The life cycle of a tape or a forward accumulator, a context that may be entered several times.

    Attributes:
        recorder: the recorder with the list; `None` before the first `with` block and after the tape is spent.
        listed: the equations, of a tape with `lists=True`.
        name: the noun for messages.
    """

    recorder: Any = None
    listed: TapeEquations | None = None
    name = _again = ""
    _errors: Any = None
    _state = "not entered"  # then "recording", "stopped" by `stop_recording`, "left" after the block, or "spent"
    _stretches: list[list[int]]  # the parts of the list that were recorded, as first slot and end; the end is -1 while open

    @property
    def recording(self) -> bool:
        """Whether operations are recorded now."""
        return self._state == "recording"

    def __enter__(self) -> Self:
        if self.recording:
            raise TapeStateError(f"the {self.name} is recording already, at {here()}: {self._again}.")
        if self.recorder is None:
            self._open()
        self._start()
        self._errors = float_errors(get_state())
        enter_float_errors(self._errors)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            leave_float_errors(self._errors)
            self._stop()
        finally:
            leave_float_errors(self._errors)
            self._errors = None
            self._stop()  # an interrupt may have skipped the first call
        self._exited()
        if isinstance(exception[1], InGraphError):
            raise exception[1].error.with_traceback(exception[1].__traceback__) from None
        if isinstance(exception[1], Exception) and (refused := refusal_behind(exception[1])) is not None:
            raise refused from None

    def __del__(self) -> None:
        leave_float_errors(self._errors)  # not `None` if an interrupt came before `__exit__`
        if self.recorder is not None:
            self._stop()
            self._release()

    def _open(self) -> None:
        """Set a recorder."""
        raise NotImplementedError

    def _exited(self) -> None:
        """Called at the end of the context."""

    def _start(self) -> None:
        """Start to record, in a new stretch of the list."""
        self._stretches.append([len(self.recorder.records), -1])
        self._state = "recording"
        try:
            self.recorder.start(self)
        except BaseException:  # an interrupt
            self._stop()
            raise

    def _stop(self, state: str = "left") -> None:
        """Stop recording, and end the open stretch."""
        if self.recorder is not None:
            if self.recording:
                self.recorder.stop(self)
                self._stretches[-1][1] = len(self.recorder.records)
            self._state = state  # last, so that `_stop` can run again after an interrupt

    def _release(self) -> None:
        """Drop the records that no other tape needs."""
        recorder, self.recorder, self.listed = self.recorder, None, None
        if recorder is None:
            return
        recorder.leave(self)
        others = recorder.members
        if not others:
            recorder.clear()
            return
        for other in others:
            other._mark()
        for start, stop in self._stretches:
            for index in range(start, stop):
                if recorder.records[index] is not None and not any(other._owns(index) for other in others):
                    recorder.records[index] = None


def shared_recorder(transform: str) -> EagerRecorder:
    """Return the recorder for a new tape: the recorder of the open tapes if no trace lies between, else a new one."""
    active, running = ACTIVE.get(), OPEN.get()
    if active:
        newest: EagerRecorder = active[-1]
        alike = (newest.monitor is None) == (checker() is None)  # records made without `debug_nans` have no log
        if alike and newest.pulls and (running is None or running.closed or running.serial < newest.serial):
            return newest
    return EagerRecorder(transform)


def refuse_within(value: Any, recorder: Recorder, call: str) -> None:
    """Refuse a Tensor of a transform that started after a tape.

    The tape records the operations of the transform, not the operations of its function.

    Raises:
        SourceError: `value` is such a Tensor.
    """
    value = resolve(value)
    while isinstance(value, Recorded) and value.recorder.serial > recorder.serial:
        inner = value.recorder
        if not (inner.closed or inner.reassigns):
            raise SourceError(
                f"{call} of a Tensor of {inner.transform} of {name_of(inner.function)}, at {here()}: the function runs inside "
                f"{recorder.transform}, which sees what {inner.transform} gives and not what the function does. Open a tape or "
                f"graph within the function for that."
            )
        value = resolve(value.below)


def has_value(tensor: Recorded, recorder: Recorder) -> bool:
    """Return `True` if the value of a Tensor at the level of a recorder is known; newer abstract and batch traces hide it."""
    value: Any = resolve(tensor)
    while isinstance(value, Recorded) and value.recorder.serial > recorder.serial:
        if not value.recorder.has_values:
            return False
        value = resolve(value.below)
    return True


def watch_tensor(tensor: Any, recorder: EagerRecorder) -> int:
    """Add a Tensor to the list of a recorder as an input, unless the list holds it, and return its slot.

    The Tensor stays the same object.
    """
    with _watching:
        _watch(tensor, recorder)
    slot = recorder.slot_of(tensor)
    assert slot is not None
    return slot


def watch_given(tensor: Any, recorder: EagerRecorder) -> int:
    """Add a Tensor that the user watches to the list of a recorder, and to the list of an open `graph`; return its slot."""
    if tensor.recorder.inactive:
        record_in_graph([tensor])
    if not has_value(tensor, recorder):
        refuse_within(tensor, recorder, "watch()")
    slot = watch_tensor(tensor, recorder)
    recorder.watched.add(slot)
    return slot


def _watch(tensor: Any, recorder: EagerRecorder) -> None:
    tensor.current()
    home = tensor.recorder
    if home is recorder:
        return
    if home.inactive:
        value = resolve(tensor)
        if home is not IDLE and home.tapes:  # another thread or coroutine follows the Tensor: leave it unchanged
            alias = clone(value) if isinstance(value, Recorded) else idle(Tensor, value)
            _watch(alias, recorder)
            recorder.aliases[id(tensor)] = ref(tensor), alias
            return
        if home is not IDLE and home.members:  # a tape of the old list may record again, or be asked
            home.aliases[id(tensor)] = ref(tensor), bare(Tensor, home, tensor.below, tensor.slot)
        if isinstance(value, Recorded):
            tensor.below, tensor.recorder, tensor.slot = value.below, value.recorder, value.slot
            _watch(tensor, recorder)
            return
    elif home.serial > recorder.serial:
        value = lend(tensor.below)  # may be an array of the user
        inner = value if isinstance(value, Recorded) else idle(Tensor, value)
        _watch(inner, recorder)
        tensor.below = inner
        return
    else:
        value = clone(tensor)
    for name in ("origin", "memory"):
        if getattr(tensor, name, None) is not None:
            delattr(tensor, name)
    slot = recorder.append(None, value).slot
    recorder.watched.add(slot)
    tensor.below, tensor.recorder, tensor.slot = value, recorder, slot  # no call, so no interrupt can come between


def _in_scope(tensor: Any) -> Any:
    """Return a Tensor of another trace as a Tensor that the open `graph` records."""
    for recorder in ACTIVE.get():
        if recorder.scope is not None and tensor.recorder is not recorder and has_value(tensor, recorder):
            tensor = clone(tensor)
            watch_tensor(tensor, recorder)
    return tensor


def constant(value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    """Return a value as a Tensor, which a tape can watch.

    Args:
        value: an array, a number, a nested list of numbers, a Tensor or a Variable. Arrays are copied.
        dtype: the dtype of the Tensor. Default: the dtype of the value.
        shape: the shape of the Tensor. A single number is repeated; other values are reshaped.

    Returns:
        A Tensor. NumPy functions of it return Tensors; `numpy()`, `float()` and `np.asarray` return its value.

    Example:
        >>> import functad
        >>> x = functad.constant([1.0, 2.0])
        >>> (x * 2).numpy()
        array([2., 4.])
    """
    own: Any = value_of(value)
    refuse_foreign(own, "constant()")
    if isinstance(own, Tensor):
        out: Any = own.astype(dtype) if dtype is not None else own
        if shape is not None:
            out = np.broadcast_to(out, shape) if out.size == 1 else out.reshape(shape)
        return _in_scope(tensor_of(Tensor, out))  # type: ignore[no-any-return]
    if hasattr(type(own), "__array_function__") and type(own) is not np.ndarray:  # an array of another library
        array = own.copy() if dtype is None else own.astype(dtype)
    else:
        array = copy_alike(own) if type(own) is np.ndarray and dtype is None else np.array(own, dtype)
    if array.dtype.kind not in "biufc":
        what = "Python objects" if array.dtype.kind == "O" else f"{array.dtype}"
        raise TypeError(f"constant() of {what}, at {here()}: pass numbers, or np.stack the Tensors in a list.")
    if shape is not None:
        array = np.full(shape, array) if array.size == 1 else array.reshape(shape)
    return idle(Tensor, array[()])  # type: ignore[no-any-return]


class _Line(Observer):
    """The observer that gives the equations of tapes the user's lines."""

    def place(self) -> Place | None:
        """Return the line of the user's code that runs."""
        frame = user_frame(sys._getframe(1))
        return None if frame is None else Place(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno, 0)


_LINES = (_Line(),)


class TapeEquations(EquationRecorder):
    """The equations of a tape with `lists=True`. A Tensor that no equation made enters as an input, with its value.

    Attributes:
        tape: the recorder of the tape; each of its calls makes an equation here.
        slots: the slots here, by slot in the list of `tape`.
        known: the values of the Tensors that entered, by slot here.
    """

    observers = _LINES

    def __init__(self, tape: EagerRecorder) -> None:
        super().__init__("a GradientTape", None)
        self.tape = ref(tape)
        self.slots: dict[int, int] = {}
        self.known: dict[int, Constant] = {}

    def slot_of(self, tensor: Recorded) -> int:
        """Return the slot of a Tensor of the tape; enter a watched Tensor, or a result from before the tape started."""
        if tensor.slot not in self.slots:
            slot = self.slots[tensor.slot] = self.enter(tensor.below).slot
            self.known[slot] = as_constant(tensor)
        return self.slots[tensor.slot]

    def _source(self, a: Any) -> int | Constant:
        if isinstance(a, Recorded) and a.recorder is self.tape():
            return self.slot_of(a)
        return super()._source(as_constant(a).value)

    def note(self, call: Sequence[Any], made: Any) -> None:
        """Add the equation of a recorded call. `append` cannot add it: the Tensors `made` of its results belong to the tape."""
        primitive, arrays, _, _, params, _ = call
        results = tuple(made) if primitive.multiple else (made,)
        equation = self.equation(primitive, arrays, params, list(map(spec_of, results)))
        self.slots.update(zip([t.slot for t in results], equation.outputs, strict=True))
        self.records += [*[None] * (len(results) - 1), equation]

    def equation_at(self, slot: int) -> Any:
        """Return the equation with its last result at a slot of `tape`, or `None`."""
        return self.records[self.slots[slot]] if slot in self.slots else None

    def between(self, tape: Any, target: Any, sources: Any) -> Expressions:
        """Return the operations between sources and target; the arguments are as for `GradientTape.expressions`."""
        targets, given = flatten(target)
        arguments = tuple(sources) if type(sources) in (list, tuple) else (sources,)
        inputs, taken = flatten((arguments, {}))
        count = len(self.records)
        own = {slot: count + i for i, source in enumerate(inputs) for slot in tape.slots_of(source)}
        replaced: dict[Any, Any] = self.known | {self.slots[slot]: new for slot, new in own.items() if slot in self.slots}
        wanted = []
        for value in map(read, targets):
            slot = tape.recorder.slot_of(value)
            wanted.append(own.get(slot, self.slots.get(slot, as_constant(value))))
        equations = tuple([equation for equation in self.records if equation is not None])
        specs = (*self.specs, *[spec_of(read(source)) for source in inputs])
        every = Expressions((), equations, (), specs, LEAF, LEAF)

        def placed(source: int | Constant) -> Any:
            return source if type(source) is Constant else replaced.get(source, source)

        part = extract(every, range(count, count + len(inputs)), wanted, _names(inputs), placed)
        return part.replace(input_structure=taken, output_structure=given)


def as_constant(value: Any) -> Constant:
    """Return the plain value of a Tensor as a constant.

    A Tensor of a trace without values stays a Tensor: the list can be evaluated while that trace runs.
    """
    while isinstance(value, Recorded):
        below = value.current()  # type: ignore[attr-defined]
        if isinstance(below, ArraySpec):
            return Constant(clone(value))
        value = below
    return Constant(value)


def _names(sources: Sequence[Any]) -> list[str]:
    """Return a unique name for each source: the name of a Variable, or `x`."""
    found: list[str] = []
    for source in sources:
        stem = source.name if isinstance(source, Variable) and source.name.isidentifier() else "x"
        name, count = stem, 1
        while name in found:
            name, count = f"{stem}{count}", count + 1
        found.append(name)
    return found
