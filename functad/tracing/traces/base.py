"""The recorder: a growing list of what was done to the Tensors of one trace.

A record of a concrete trace is `(plan, slots, saved, specs)`: which rules will be run, the slots of the differentiated
inputs (one integer if there is one), the values that those rules read and nothing else, and what cotangents must be cast or
summed to (`None` where that cannot be needed). Records are tuples of long-lived objects, integers and arrays: no back
references, so no cycles, and little work for the cycle collector. An abstract trace keeps an `Equation` instead.

The slot of a value is its index in the list. A primitive with several results takes as many slots; the record stands at
the last of them, the others hold `None`.

Which recorder records an operation is decided by data alone: the newest one among the arguments. A Tensor's value lives
one level lower, and may itself be a Tensor of an older recorder.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import CodeType
from typing import Any, ClassVar

import numpy as np

from functad.errors import AbstractValueError, EscapedTensorError
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, is_float_array, shape_of, spec_of
from functad.places import here, line_of, name_of, user_frame
from functad.primitives.entry import KEEP_NOTHING, Primitive
from functad.primitives.indexing.indexable import IndexableArray, as_plain
from functad.primitives.kinds import forward_plan
from functad.tracing.constants import apart_from, held_call, held_params, with_arrays
from functad.tracing.conversions import abstract_cure, asked
from functad.tracing.fitting import reverse_specs, specs_for
from functad.tracing.layouts import note_result
from functad.tracing.views import clone, note_if_view, refresh

_serials = itertools.count()
_getframe = sys._getframe
_ndarray = np.ndarray
_FLOAT64 = np.dtype(np.float64)

REVERSE, FORWARD, ABSTRACT = "reverse", "forward", "abstract"

WATCHER: ContextVar[Callable[[Recorder], Any] | None] = ContextVar("watcher", default=None)
"""Makes what follows the records of a concrete trace while they are made: `debug_nans` sets it."""

ONLOOKER: ContextVar[Callable[[Sequence[Recorded]], bool] | None] = ContextVar("onlooker", default=None)
"""Is told which Tensors of sleeping recorders an operation takes, and says whether they are awake now: `graph` wakes them."""


OPEN: ContextVar[Recorder | None] = ContextVar("open", default=None)
"""The recorder whose function is running, in this thread or coroutine; only `functad.numpy` asks."""


class Recorder:
    """The list of one trace.

    Attributes:
        serial: increases from recorder to recorder; the newest among the arguments of an operation records it.
        mode: what the records are for: `reverse`, `forward` or `abstract`.
        eager: open and concrete, so that operators may take their short way.
        closed: the trace has ended; its Tensors are of no more use.
        lasting: the records stay when the trace has ended, and with them the arrays of the user that they keep.
        seals: arrays of the user that must be the same when the function has returned, see `functad.tracing.constants`.
        written: a Tensor has been written to, so that others may be stale.
        equations: the records, by slot; inputs come first.
        inputs: the number of inputs.
        specs: in an abstract trace, the spec of each slot.
        transform, function: names for messages.
        guard: some numbers of the trace are cotangents of what an inner transform did not select, and exactly zero.
        calls: the equations of a tape that can be listed, which takes no short way; `None` elsewhere, the usual case.
        watch: what `WATCHER` made; `None` if nothing did, which is the usual case.
        sleeps: its Tensors are constants now, and may become plain arrays: that of a tape which does not record.
        plain: the results of a forward trace are arrays and numbers, if its inputs are: no Tensor of another trace took part.
        reassigns: `t += v` makes a new Tensor and leaves the old one what it was, as sources of a tape must stay.
    """

    follow: ClassVar[Callable[..., Any] | None] = None
    """In the trace of `explain`, the method that does the work of `record`: see `functad.tracing.traces.following`."""

    batches: ClassVar[bool] = False
    """It is that of a batch, and has a short way for elementwise operations."""

    place: tuple[CodeType | None, int] | None = None
    """In the trace of a batch, during a backward walk: the user's line that asked for it, and so made what the walk makes."""

    # No slots: what few traces need stands here, and making a recorder is a third of what a trace costs beside its operations.
    guard = False
    lasting = False
    sleeps = False
    plain = True
    reassigns = False
    watch: Any = None
    stale: dict[int, Any] | None = None
    written = False

    def __init__(self, mode: str, transform: str, function: object) -> None:
        self.serial = next(_serials)
        self.mode = mode
        self.eager = mode is not ABSTRACT
        self.closed = False
        self.seals: dict[int, Any] = {}
        self.equations: list[Any] = []
        self.inputs = 0
        self.calls: Any = None  # every operation asks, which takes 20 ns of an attribute of the class
        self.specs: list[ArraySpec] = []
        self.transform = transform
        self.function = function
        watcher = WATCHER.get()
        if watcher is not None and mode is not ABSTRACT:
            self.watch = watcher(self)
            self.eager = False  # the short ways do not tell what they record

    def keeps(self, tensor: Recorded) -> bool:
        """Say whether a Tensor must stay what it is, because a derivative by it may be asked for."""
        return False

    def assigned(self, tensor: Recorded, what: str) -> None:
        """Take note that the value of a Tensor is assigned to a Variable."""

    def leave(self, tensor: Recorded) -> Any:
        """Return the plain value of a Tensor that leaves a tape, if no other trace follows it; otherwise a Tensor."""
        return awake(tensor)

    def wake(self, tensor: Recorded) -> Any:
        """Return what a Tensor stands for while the recorder sleeps; read anew if it is a view that was written to."""
        if self is STALE:
            refresh(tensor)
        return tensor if self is STALE else tensor.value

    def underived(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        """Return what a call gives that no derivative flows through: its value."""
        return out

    def abstract(self, cls: type[Recorded], primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record a call of an abstract trace."""
        return append_abstract(cls, self, primitive, arrays, params)

    def overwritten(self, cls: type[Recorded], primitive: Primitive, root: Recorded, v: Any, params: dict[str, Any]) -> Any:
        """Record a write in an abstract trace; `root` is about to stand for the result."""
        return self.abstract(cls, primitive, (root, v), params)

    def unknown(self, tensor: Recorded, wanted: str) -> AbstractValueError:
        """Return the error for the value of a Tensor of an abstract trace."""
        return AbstractValueError(
            f"{asked(wanted)} of a Tensor of which only {spec_of(tensor)} is known, at {here()}: an abstract trace "
            f"has no values. {abstract_cure(wanted)}"
        )

    def close(self) -> None:
        """End the trace: from now on its Tensors raise when they are used."""
        self.closed = True
        self.eager = False
        self.seals = {}


STALE = Recorder(REVERSE, "a write", None)
"""The recorder of views that are to be read anew before they are used: see `functad.tracing.views`."""
STALE.eager = False

IDLE = Recorder(REVERSE, "no transform", None)
"""The recorder of Tensors that no trace follows: of `functad.constant`, and of what is computed from them outside tapes."""
IDLE.eager = False
IDLE.sleeps = IDLE.reassigns = True


class Recorded:
    """The state of a Tensor: a value one level lower, and its place in the list of a recorder.

    Attributes:
        value: an array, a scalar, a Tensor of an older recorder, or a spec if the trace is abstract.
        recorder: the recorder whose list the Tensor stands in.
        slot: its index there.
        code, instruction: the line of the user's code that made it, if it is no input.
        origin: if it is a view, the Tensor that owns the memory, and the path of views from there; otherwise it is not there.
        memory: if it has been viewed or written to, what it knows of its memory; otherwise it is not there.
    """

    __slots__ = ("__weakref__", "code", "instruction", "memory", "origin", "recorder", "slot", "value")

    value: Any
    recorder: Recorder
    slot: int
    code: CodeType | None
    instruction: int


def new_input(cls: type[Recorded], recorder: Recorder, value: Any) -> Any:
    """Add an input to a trace and return its Tensor; for an abstract trace, `value` is the spec."""
    tensor = cls()
    tensor.value, tensor.recorder, tensor.slot = value, recorder, recorder.inputs
    tensor.code, tensor.instruction = None, 0
    recorder.inputs += 1
    recorder.equations.append(None)
    if recorder.mode is ABSTRACT:
        recorder.specs.append(value)
    return tensor


def append_record(cls: type[Recorded], recorder: Recorder, value: Any, equation: Any) -> Any:
    """Append a record and return the Tensor for its result."""
    equations = recorder.equations
    tensor = cls()
    tensor.value = value
    tensor.recorder = recorder
    tensor.slot = len(equations)
    frame = user_frame(_getframe(3))  # what calls `record` is functad
    if frame is not None:
        tensor.code = frame.f_code
        tensor.instruction = frame.f_lasti
    else:
        tensor.code, tensor.instruction = None, 0
    equations.append(equation)
    return tensor


def record(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Call a primitive with Tensors among its arrays: compute the result one level lower, and record the call."""
    if len(arrays) == 1 and not primitive.multiple:
        recorder = arrays[0].recorder
        if recorder.eager and (recorder.mode is REVERSE or _pushes(primitive)):
            return _record_one(primitive, arrays[0], params)
    newest: Recorded | None = None
    for a in arrays:
        if isinstance(a, Recorded):
            own = a.recorder
            if own is STALE:
                refresh(a)
                own = a.recorder
            if own.sleeps:
                return _record_awake(primitive, arrays, params)
            if newest is None or own.serial > recorder.serial:
                newest, recorder = a, own
        elif type(a) is IndexableArray:
            return record(primitive, tuple(map(as_plain, arrays)), params)
    if newest is None:
        return primitive.compute(*arrays, **params)
    if recorder.closed:
        raise escaped(newest, primitive.name)
    if recorder.mode is ABSTRACT:
        return recorder.abstract(type(newest), primitive, arrays, params)
    if recorder.follow is not None:
        return recorder.follow(primitive, arrays, params)
    values, active, nested = _lower(recorder, primitive, arrays)
    if not nested:
        out = primitive.compute(*values, **params)
    else:  # of a subclass, a call may do otherwise
        out = record(primitive, tuple(values), params) if type(primitive) is Primitive else primitive(*values, **params)
    if not active or out is NotImplemented:
        return recorder.underived(primitive, arrays, params, out)
    made = append(type(newest), recorder, primitive, arrays, values, active, params, out)
    if primitive.views:
        note_if_view(newest, made, values[0], out, primitive, params)
    if recorder.calls is not None:
        recorder.calls.note(primitive, arrays, params, made)
    if recorder.watch is not None:
        recorder.watch.note(primitive, arrays, values, params, made)
    return made


def _pushes(primitive: Primitive) -> bool:
    """Say whether the short way can record a call of one array in a forward trace."""
    plan = primitive.unary_plan
    return plan is not None and plan.pushes is not None


def awake(value: Any) -> Any:
    """Return what a Tensor stands for in the traces that record now: a Tensor of one of them, or a plain value."""
    while isinstance(value, Recorded) and (value.recorder.sleeps or value.recorder is STALE):
        value = value.recorder.wake(value)
    return value


def idle(cls: type[Recorded], value: Any) -> Any:
    """Return a plain value as a Tensor that is in no trace; an array must be one that nobody else writes into."""
    tensor = cls()
    if type(value) is _ndarray:
        value.setflags(write=False)
    tensor.value, tensor.recorder, tensor.slot = value, IDLE, 0
    tensor.code, tensor.instruction = None, 0
    return tensor


def _record_awake(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Record a call that some Tensors of sleeping recorders take part in, as constants; the result is a Tensor all the same."""
    sleeping = [a for a in arrays if isinstance(a, Recorded) and a.recorder.sleeps]
    onlooker = ONLOOKER.get()
    if onlooker is not None and onlooker(sleeping):
        return record(primitive, arrays, params)
    cls = type(sleeping[0])
    values = tuple(map(awake, arrays))
    out = primitive(*values, **params)
    if out is NotImplemented or any(isinstance(value, Recorded) for value in values):
        return out
    if primitive.kind == "constant" and not is_float_array(out):
        return out  # masks, positions and counts are plain: nothing can be differentiated by them
    if not primitive.multiple:
        return idle(cls, apart_from(arrays, out))
    results = [idle(cls, apart_from(arrays, value)) for value in out]
    return type(out)(*results) if hasattr(out, "_fields") else tuple(results)


def _record_one(primitive: Primitive, x: Recorded, params: dict[str, Any]) -> Any:
    """The usual case, an open concrete trace and one array: what `record` does otherwise, in 60 % of the time."""
    value, recorder = x.value, x.recorder
    kind = type(value)
    plain = kind is _ndarray or not issubclass(kind, Recorded)
    out = primitive.compute(value, **params) if plain else record(primitive, (value,), params)
    plan = primitive.unary_plan
    if plan is None or out is NotImplemented:
        return recorder.underived(primitive, (x,), params, out)
    own = value.dtype if kind is _ndarray else dtype_of(value)
    made = out.dtype if type(out) is _ndarray else dtype_of(out)
    equations = recorder.equations
    tensor = type(x)()
    tensor.value = out
    tensor.recorder = recorder
    tensor.slot = len(equations)
    frame = user_frame(_getframe(3))  # what calls `record` is functad
    if frame is not None:
        tensor.code = frame.f_code
        tensor.instruction = frame.f_lasti
    else:
        tensor.code, tensor.instruction = None, 0
    if plan.params:
        params = held_params(params, plan.params, recorder)
    saved = None if plan.keep == KEEP_NOTHING else plan.pick((value,), out, params)
    specs = None if own is made else specs_for(recorder.mode, primitive, (value,), (0,), out)
    equations.append((plan, x.slot, saved, specs))
    if primitive.views:
        note_if_view(x, tensor, value, out, primitive, params)
    return tensor


def _lower(recorder: Recorder, primitive: Primitive, arrays: tuple[Any, ...]) -> tuple[Sequence[Any], tuple[int, ...], bool]:
    """Return the arguments one level lower, the positions differentiated, and whether a Tensor is left among the values."""
    values = []
    active = []
    nested = False
    for i, a in enumerate(arrays):
        if isinstance(a, Recorded):
            if a.recorder is recorder:
                if primitive.joint or primitive.differentiable(i):
                    active.append(i)
                a = a.value
            else:
                a = clone(a)
            if isinstance(a, Recorded):
                nested = True
        values.append(a)
    return values, tuple(active), nested


def append(
    cls: type[Recorded],
    recorder: Recorder,
    primitive: Primitive,
    arrays: tuple[Any, ...],
    values: Sequence[Any],
    active: tuple[int, ...],
    params: dict[str, Any],
    out: Any,
) -> Any:
    """Append the record of a call whose result is known, and return the Tensor for it."""
    slots = arrays[active[0]].slot if len(active) == 1 else tuple([arrays[i].slot for i in active])
    if recorder.mode is REVERSE:
        plan = primitive.reverse_plans.get(active) or primitive.reverse_plan(active)
        values, params = held_call(arrays, values, params, plan, recorder)
        specs = reverse_specs(primitive, values, active, out)
        saved = None if plan.keep == KEEP_NOTHING else plan.pick(values, out, params)
        if primitive.multiple:
            specs = (specs, tuple([(shape_of(value), dtype_of(value)) for value in out]))
            return _results(cls, recorder, out, (plan, slots, saved, specs))
        return append_record(cls, recorder, out, (plan, slots, saved, specs))
    forward = forward_plan(primitive, active)
    plan = forward or primitive.reverse_plan(active)
    values, params = held_call(arrays, values, params, plan, recorder)
    saved = plan.pick(values, out, params)
    if recorder.plain and not PLAIN.issuperset(map(type, out if primitive.multiple else (out,))):
        recorder.plain = False
    if primitive.multiple:
        shapes = tuple([(shape_of(value), dtype_of(value)) for value in out])
        return _results(cls, recorder, out, (plan, slots, saved, (shapes, forward is None)))
    return append_record(cls, recorder, out, (plan, slots, saved, ((shape_of(out), dtype_of(out)), forward is None)))


def _results(cls: type[Recorded], recorder: Recorder, out: Any, equation: Any) -> Any:
    """Append the record of a primitive with several results, and return their Tensors."""
    results = [append_record(cls, recorder, value, None) for value in out]
    recorder.equations[-1] = equation
    return type(out)(*results) if hasattr(out, "_fields") else tuple(results)


def append_abstract(
    cls: type[Recorded], recorder: Recorder, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]
) -> Any:
    """Record a call of an abstract trace: every input is kept, and the shape rule gives the result."""
    known: list[Any] = []
    inputs: list[int | Constant] = []
    for a in arrays:
        if isinstance(a, Recorded) and a.recorder is recorder:
            known.append(a.value)
            inputs.append(a.slot)
        else:
            known.append(spec_of(a) if isinstance(a, Recorded) else a)
            inputs.append(
                Constant(a.copy("K") if issubclass(type(a), _ndarray) else clone(a) if isinstance(a, Recorded) else a)
            )
    out = primitive.spec(*known, **params)
    results = out if primitive.multiple else (out,)
    first = len(recorder.equations)
    kept = {name: with_arrays(value, np.copy) for name, value in params.items()}
    equation = Equation(primitive, tuple(inputs), kept, tuple(range(first, first + len(results))))
    recorder.specs.extend(results)
    if primitive.multiple:
        made = _results(cls, recorder, out, equation)
        for tensor in made:
            note_result(tensor, primitive, arrays, params)
        return made
    tensor = append_record(cls, recorder, out, equation)
    if primitive.views or len(out.shape) > 1:  # what has one axis has one order
        note_result(tensor, primitive, arrays, params)
    return tensor


def escaped(tensor: Recorded, operation: str) -> EscapedTensorError:
    """Return the error for a Tensor that is used after its transform has ended."""
    recorder = tensor.recorder
    origin = "The Tensor stands for an argument."
    if tensor.slot >= recorder.inputs:
        origin = f"The Tensor was made at {line_of(tensor.code, tensor.instruction)}."
    return EscapedTensorError(
        f"{operation} was given a Tensor that escaped from {recorder.transform} of {name_of(recorder.function)}, "
        f"which has ended, at {here()}. "
        f"{origin} "
        f"Return the value from the function (has_aux=True hands extra results through), instead of storing it outside."
    )
