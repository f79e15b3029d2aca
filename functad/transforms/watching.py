"""What `debug_nans` does: traces are watched, so that the origin of a NaN can be told.

While it is on, each recorder of a concrete trace has a `Watch`, which keeps what the records leave out: the arguments of each
operation and the line it stands on. Cotangents and tangents then pass the records one at a time, through the usual
walks, and the watch sees them. Nothing is looked at before a transform has its result: what does not reach it is no error.

A watch sits beside any recorder and looks at values. What leads where, whatever the values, is the business of `following`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from functad.errors import NotFiniteError, here, line_of, name_of, user_frame
from functad.primitives import vocabulary
from functad.primitives.operands import innermost
from functad.primitives.primitive import ENTRIES, Composite, Primitive
from functad.tracing.recorder import Recorded, Recorder
from functad.transforms.doubts import doubts_in, settle
from functad.transforms.forward import push_forward
from functad.transforms.origins import (
    NAN,
    NOT_FINITE,
    Flow,
    Note,
    Offence,
    count_offending,
    origin_of_derivative,
    origin_of_value,
)
from functad.transforms.reverse import pull_back

_INSIDE: ContextVar[bool] = ContextVar("inside_watched", default=False)
"""Whether a watched transform runs its function now: transforms called there leave it to that one to look at results."""

_BELONGS_TO: ContextVar[Note | None] = ContextVar("belongs_to", default=None)
"""The operation whose derivative is computed now."""


def watcher(*, infinities: bool) -> Callable[[Recorder], Watch]:
    """Return what makes the watch of a recorder."""
    return functools.partial(Watch, offence=NOT_FINITE if infinities else NAN)


class Watch:
    """What is known of one trace beside its records.

    Attributes:
        recorder: the recorder of the trace.
        offence: what counts as an error.
        quiet: another watched transform is running its function, and will look at what comes out of it.
        notes: by slot, the operation that made it, and which of its results it is.
    """

    def __init__(self, recorder: Recorder, *, offence: Offence) -> None:
        self.recorder = recorder
        self.offence = offence
        self.quiet = _INSIDE.get()
        self.notes: dict[int, tuple[Note, int]] = {}

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return `f(*args, **kwargs)`."""
        token = _INSIDE.set(True)
        try:
            return f(*args, **kwargs)
        finally:
            _INSIDE.reset(token)

    def note(
        self, primitive: Primitive, arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], result: Any
    ) -> None:
        """Keep what is known of an operation that has just been recorded."""
        results: tuple[Any, ...] = tuple(result) if primitive.multiple else (result,)
        slots = tuple([a.slot if isinstance(a, Recorded) and a.recorder is self.recorder else None for a in arrays])
        line = line_of(results[-1].code, results[-1].instruction)
        known = tuple(map(innermost, values))
        out = tuple([innermost(t.value) for t in results])
        note = Note(primitive, _called(primitive), line, known, slots, params, out, _BELONGS_TO.get())
        for i, t in enumerate(results):
            self.notes[t.slot] = note, i

    def check_values(self, slots: Sequence[int | None]) -> None:
        """Raise if one of the values in some slots is not as it should be."""
        if self.quiet or _INSIDE.get():
            return
        for slot in slots:
            if slot is not None and slot in self.notes:
                note, i = self.notes[slot]
                if self.offence.found(note.out[i]):
                    raise self._error("The value", note.out[i], self._origin(slot, note.out[i]))

    def pull_back(self, cotangents: list[Any], *, guard: bool) -> list[Any]:
        """Pull cotangents back as `reverse.pull_back` does, and raise if value or derivatives are not as they should be."""
        self.check_values([slot for slot, g in enumerate(cotangents) if g is not None])
        flow = self._flow("cotangent", cotangents)
        equations, inputs = self.recorder.equations, self.recorder.inputs
        for index in range(len(equations) - 1, inputs - 1, -1):
            if equations[index] is None:
                continue
            plan, slots, saved, specs = equations[index]
            count = len(specs[1]) if plan.primitive.multiple else 1
            gs = [flow.ways.get(index + 1 - count + k) for k in range(count)]
            if all(g is None for g in gs):
                continue
            m = len(plan.active)
            local: Any = 0 if m == 1 else tuple(range(m))

            def pull(*gs: Any, m: int = m, record: Any = (plan, local, saved, specs), guard: bool = guard) -> list[Any]:
                blanks: list[Any] = [None] * (m + len(gs) - 1)
                return pull_back([*blanks, record], [*[None] * m, *gs], m, consume=False, guard=guard)

            flow.pass_back(index, count, gs, pull, (slots,) if m == 1 else slots)
            guard = guard or plan.selects
        found = [flow.ways.get(slot) for slot in range(inputs)]
        self._check_derivatives(flow, range(inputs), "The derivative by input {}" if inputs > 1 else "The derivative")
        return found

    def push_forward(self, tangents: list[Any], results: Sequence[Any]) -> list[Any]:
        """Push tangents forward as `forward.push_forward` does, and raise if results are not as they should be."""
        own = [t.slot for t in results if isinstance(t, Recorded) and t.recorder is self.recorder]
        self.check_values(own)
        flow = self._flow("tangent", tangents)
        for index, equation in enumerate(self.recorder.equations):
            if equation is None:
                continue
            plan, slots, saved, rest = equation
            ts = [flow.ways.get(slot) for slot in ((slots,) if len(plan.active) == 1 else slots)]
            if all(t is None for t in ts):
                continue
            m, count = len(plan.active), len(rest[0]) if plan.primitive.multiple else 1
            local: Any = 0 if m == 1 else tuple(range(m))

            def push(*ts: Any, record: Any = (plan, local, saved, rest), count: int = count) -> list[Any]:
                blanks: list[Any] = [None] * (len(ts) + count - 1)
                return push_forward([*blanks, record], list(ts))[len(ts) :]

            flow.pass_on(index, count, ts, push, (slots,) if m == 1 else slots)
        self._check_derivatives(flow, own, "The tangent of result {}" if len(own) > 1 else "The tangent")
        pushed = [flow.ways.get(slot) for slot in range(len(self.recorder.equations))]
        if doubts := doubts_in(self.recorder.equations, pushed):
            settle(self.recorder.equations, doubts, own)
        return pushed

    def _flow(self, what: str, given: list[Any]) -> Flow:
        return Flow(what, self.notes, self.quiet or _INSIDE.get(), _belonging_to, dict(enumerate(given)))

    def _origin(self, slot: int, value: Any) -> str:
        return origin_of_value(self.notes, slot, self.offence.mask(value), self.offence)

    def _check_derivatives(self, flow: Flow, slots: Sequence[int], what: str) -> None:
        if flow.quiet:
            return
        for number, slot in enumerate(slots):
            value = innermost(flow.ways.get(slot))
            if self.offence.found(value):
                origin = origin_of_derivative(flow, slot, self.offence.mask(value), self.offence)
                raise self._error(what.format(number), value, origin)

    def _error(self, what: str, value: Any, origin: str) -> NotFiniteError:
        recorder = self.recorder
        where = f"{recorder.transform} of {name_of(recorder.function)}, called at {here()}"
        return NotFiniteError(f"{what}, in {where}, is {count_offending(value, self.offence)}. It {origin}")


@contextmanager
def _belonging_to(note: Note | None) -> Iterator[None]:
    """Say that what is recorded now computes the derivative of an operation."""
    token = _BELONGS_TO.set(note)
    try:
        yield
    finally:
        _BELONGS_TO.reset(token)


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
