"""What `debug_nans` does: traces are watched, so that the origin of a NaN can be told.

While it is on, each recorder of a concrete trace has a `Watch`, which keeps what the records leave out: the arguments of each
operation and the line it stands on. Cotangents and tangents then pass the records one at a time, through the usual
walks, and the watch sees them. Nothing is looked at before a transform has its result: what does not reach it is no error.

A watch sits beside any recorder and looks at values. What leads where, whatever the values, is the business of `following`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np

from functad.diagnostics.flow import Flow
from functad.diagnostics.notes import NAN, NOT_FINITE, Note, Notes, Offence
from functad.diagnostics.origins import count_offending, origin_of_derivative, origin_of_value
from functad.diagnostics.routes import is_route
from functad.errors import NotFiniteError
from functad.expressions.expressions import Expressions, evaluate
from functad.expressions.spec import dtype_of, spec_of
from functad.places import here, is_own, line_of, name_of, user_frame
from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, KEEP_GATHER, Composite, Primitive
from functad.primitives.operands import innermost
from functad.settings import setting
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import REVERSE, Recorded, Recorder, new_input
from functad.tracing.traces.batch import Batched
from functad.transforms.calling.arguments import traced
from functad.transforms.walks.degenerate import doubts_in, settle
from functad.transforms.walks.forward import last_readers, push_forward
from functad.transforms.walks.reverse import guard_outer, pull_back
from functad.transforms.walks.silence import in_silence

_INSIDE: ContextVar[bool] = ContextVar("inside_watched", default=False)
"""Whether a watched transform runs its function now: transforms called there leave it to that one to look at results."""

_DIRECT: ContextVar[bool] = ContextVar("direct", default=False)
"""Whether the function that a watched transform runs now was made by a transform, with no code of the user's between."""

_BELONGS_TO: ContextVar[Note | None] = ContextVar("belongs_to", default=None)
"""The operation whose derivative is computed now."""


def is_inside() -> bool:
    """Say whether a watched transform runs its function now."""
    return _INSIDE.get()


def watcher(*, infinities: bool) -> Callable[[Recorder], Watch]:
    """Return what makes the watch of a recorder."""
    return functools.partial(Watch, offence=NOT_FINITE if infinities else NAN)


def called(expressions: Expressions, leaves: Sequence[Any]) -> list[Any]:
    """Return what an expression list gives that the user called, after a look at it."""
    if is_inside() or any(isinstance(leaf, Recorded) for leaf in leaves):
        return evaluate(expressions, leaves)  # the trace around will look
    recorder = Recorder(REVERSE, "a call", expressions)
    tensors = [new_input(Tensor, recorder, leaf) if dtype_of(leaf).kind in "fc" else leaf for leaf in leaves]
    outs = traced(recorder, functools.partial(evaluate, expressions), (tensors,), {})
    own = [isinstance(out, Recorded) and out.recorder is recorder for out in outs]
    recorder.watch.check_values([out.slot for out, mine in zip(outs, own, strict=True) if mine])
    return [out.value if mine else out for out, mine in zip(outs, own, strict=True)]


class Watch:
    """What is known of one trace beside its records.

    Attributes:
        offence: what counts as an error.
        quiet: another watched transform is running its function, and will look at what comes out of it.
        direct: that function is a transform itself, as in `vmap(grad(f))`, which gives no value to be looked at.
        notes: what is known of its operations.
        batched: by slot, values that stand for all examples of a batch, whose own watch looks at them.
        value_name: the result of the trace, in messages.
    """

    value_name = "The value"

    def __init__(self, recorder: Recorder, *, offence: Offence) -> None:
        self._recorder = ref(recorder)  # which holds its watch: no cycles, so that all goes when the trace does
        self.offence = offence
        self.quiet = _INSIDE.get()
        self.direct = _DIRECT.get()
        self.notes = Notes()
        self.batched: dict[int, Any] = {}

    @property
    def recorder(self) -> Any:
        """The recorder of the trace."""
        return self._recorder()

    def silent(self) -> bool:
        """Say whether somebody else will look at results."""
        return self.quiet or _INSIDE.get()

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return `f(*args, **kwargs)`."""
        with setting(_INSIDE, True), setting(_DIRECT, is_own(f)):
            return f(*args, **kwargs)

    def keep(self, root: Any) -> None:
        """Keep the value of a Tensor that is about to be written to in place, if no operation made it."""
        if root.slot not in self.notes and root.slot not in self.notes.bases:
            self.notes.bases[root.slot] = np.copy(self.plain(root.value))

    def plain(self, value: Any) -> Any:
        """Return a value of the trace without Tensors."""
        return innermost(value)

    def note(
        self, primitive: Primitive, arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], result: Any
    ) -> None:
        """Keep what is known of an operation that has just been recorded."""
        results: tuple[Any, ...] = tuple(result) if primitive.multiple else (result,)
        slots = tuple([a.slot if isinstance(a, Recorded) and a.recorder is self.recorder else None for a in arrays])
        line = line_of(results[-1].code, results[-1].instruction)
        known = tuple(map(self.plain, values))
        out: tuple[Any, ...] = tuple([self.plain(t.value) for t in results])
        if slots[0] is not None and is_route(primitive):
            if primitive.writes:
                out = (None,)
                if slots[0] not in self.notes:
                    self.notes.bases.setdefault(slots[0], known[0])
            known = (spec_of(known[0]), *known[1:])
        note = Note(primitive, _called(primitive), line, known, slots, params, out, _BELONGS_TO.get())
        for i, t in enumerate(results):
            self.notes[t.slot] = note, i
            if isinstance(self.plain(t.value), Batched):
                self.batched[t.slot] = t.value

    def check_values(self, slots: Sequence[int | None]) -> None:
        """Raise if one of the values in some slots is not as it should be."""
        if self.silent() and not self.direct:
            return
        for slot in slots:
            if slot in self.batched:
                _check_batch(self.batched[slot])
            elif slot is not None and slot in self.notes:
                value = self.notes.value(slot)
                if self.offence.found(value):
                    raise self.error(self.value_name, count_offending(value, self.offence), self._origin(slot, value))

    def pull_back(self, cotangents: list[Any], *, guard: bool) -> list[Any]:
        """Pull cotangents back as `reverse.pull_back` does, and raise if value or derivatives are not as they should be."""
        self.check_values([slot for slot, g in enumerate(cotangents) if g is not None])
        equations, inputs = self.recorder.equations, self.recorder.inputs
        flow = self._flow("cotangent", [*cotangents, *[None] * (len(equations) - len(cotangents))])
        guard = self._pull_all(flow, equations, inputs, guard)
        found = self._taken(flow, range(inputs))
        if guard:
            guard_outer(found)
        self._check_derivatives(flow, found, range(inputs), "The derivative by input {}" if inputs > 1 else "The derivative")
        return found

    @in_silence
    def _pull_all(self, flow: Flow, equations: Sequence[Any], inputs: int, guard: bool) -> bool:
        for index in range(len(equations) - 1, inputs - 1, -1):
            if equations[index] is not None and self._pull(flow, index, equations[index], guard):
                guard = guard or equations[index][0].selects
        return guard

    @in_silence
    def _taken(self, flow: Flow, slots: Iterable[int]) -> list[Any]:
        return [flow.take(slot) for slot in slots]

    def _pull(self, flow: Flow, index: int, equation: Any, guard: bool) -> bool:
        """Pull back through one record; say whether there was anything to pull."""
        plan, slots, saved, specs = equation
        count = len(specs[1]) if plan.primitive.multiple else 1
        gs = [flow.take(index + 1 - count + k) for k in range(count)]
        if all(g is None for g in gs):
            return False
        m = len(plan.active)
        if plan.keep == KEEP_GATHER:
            flow.pull_read(index, gs[0], slots, saved)
        elif plan.primitive.writes:
            flow.pull_write(index, gs[0], equation)
        else:
            local: Any = 0 if m == 1 else tuple(range(m))

            def pull(*gs: Any) -> list[Any]:
                blanks: list[Any] = [None] * (m + len(gs) - 1)
                record = plan, local, saved, specs
                return pull_back([*blanks, record], [*[None] * m, *gs], m, consume=False, guard=guard)

            flow.pull(index, gs, pull, (slots,) if m == 1 else slots)
        return True

    def push_forward(self, tangents: list[Any], results: Sequence[Any]) -> list[Any]:
        """Push tangents forward as `forward.push_forward` does, and raise if results are not as they should be."""
        own = [t.slot for t in results if isinstance(t, Recorded) and t.recorder is self.recorder]
        self.check_values(own)
        equations = self.recorder.equations
        flow = self._pushed([*tangents, *[None] * (len(equations) - len(tangents))], own)
        pushed = [flow.ways[slot] for slot in own]
        self._check_derivatives(flow, pushed, own, "The tangent of result {}" if len(own) > 1 else "The tangent")
        if doubts := doubts_in(equations, flow.ways):
            settle(equations, doubts, own)
        return flow.ways

    def _pushed(self, tangents: list[Any], wanted: Sequence[int]) -> Flow:
        """Return the tangents of all slots, given those of the inputs, and what they came by; those of `wanted` are needed."""
        equations = self.recorder.equations
        flow = self._flow("tangent", tangents)
        last: dict[int, int] = {}
        if any(equation is not None and equation[0].primitive.writes for equation in equations):
            last = last_readers(equations) | dict.fromkeys(wanted, len(equations))
        self._push_all(flow, equations, last)
        return flow

    @in_silence
    def _push_all(self, flow: Flow, equations: Sequence[Any], last: dict[int, int]) -> None:
        for index, equation in enumerate(equations):
            if equation is not None:
                self._push(flow, index, equation, last)

    def _push(self, flow: Flow, index: int, equation: Any, last: dict[int, int]) -> None:
        """Push forward through one record; in a trace with writes, `last` says which record reads a slot last."""
        plan, slots, saved, rest = equation
        if plan.primitive.writes and flow.push_write(index, equation, last):
            return
        m, count = len(plan.active), len(rest[0]) if plan.primitive.multiple else 1
        slots = (slots,) if m == 1 else slots
        ts = [flow.ways[slot] for slot in slots]
        if all(t is None for t in ts):
            return
        local: Any = 0 if m == 1 else tuple(range(m))

        def push(*ts: Any) -> list[Any]:
            blanks: list[Any] = [None] * (len(ts) + count - 1)
            return push_forward([*blanks, (plan, local, saved, rest)], list(ts))[len(ts) :]

        flow.push(index, ts, push, slots, copies=bool(last) and plan.primitive.views)

    def _flow(self, what: str, given: list[Any]) -> Flow:
        return Flow(what, self.notes, self.silent(), _belonging_to, given)

    def _origin(self, slot: int, value: Any) -> str:
        return origin_of_value(self.notes, slot, self.offence.mask(value), self.offence)

    def _check_derivatives(self, flow: Flow, found: Sequence[Any], slots: Sequence[int], what: str) -> None:
        if flow.quiet:
            return
        for number, (value, slot) in enumerate(zip(map(innermost, found), slots, strict=True)):
            if self.offence.found(value):
                origin = origin_of_derivative(flow, slot, self.offence.mask(value), self.offence)
                raise self.error(what.format(number), count_offending(value, self.offence), origin)

    def error(self, what: str, found: str, origin: str) -> NotFiniteError:
        """Return the error for something in which something was found, which has its origin somewhere."""
        return NotFiniteError(f"{what}, {self._asked()}, is {found}. It {origin}")

    def _asked(self) -> str:
        """Return what gave the result, and where it was called."""
        return f"in {self.recorder.transform} of {name_of(self.recorder.function)}, called at {here()}"


def _check_batch(value: Any) -> None:
    """Let the watch of a batch look at a value that belongs to it."""
    while isinstance(value, Recorded):
        below = value.value
        if isinstance(below, Batched):
            if value.recorder.watch is not None:
                value.recorder.watch.check_results([value])
                return
            below = below.array
        value = below


def _belonging_to(note: Note | None) -> AbstractContextManager[None]:
    """Say that what is recorded now computes the derivative of an operation."""
    return setting(_BELONGS_TO, note)


@functools.cache
def _fronts() -> dict[Any, str]:
    vocabulary.complete()
    return {e.front.__code__: e.name for e in ENTRIES.values() if isinstance(e, Composite) and hasattr(e.front, "__code__")}


def _called(primitive: Primitive) -> str:
    """Return the name of an operation, and that of the function of NumPy which the user called and which called it."""
    frame: FrameType | None = sys._getframe(2)
    user = user_frame(frame)
    name = None
    while frame is not None and frame is not user:
        name = _fronts().get(frame.f_code, name)
        frame = frame.f_back
    return primitive.name if name is None or name == primitive.name else f"{name} (by {primitive.name})"
