"""Where a NaN was born: from a bad result back through the operations, cotangents or tangents that it came through.

At each step the operation is run again with all that is not finite replaced by ones. If its result is still bad, the NaN was
born there. Otherwise it is run with one argument as it was, and the others cured: so the argument to follow is found, whatever
the operation, and an argument that it does not select is not blamed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.operands import innermost
from functad.primitives.primitive import Primitive

Call = Callable[[Sequence[Any]], Any]

_FEW = 32
"""Up to so many bad elements of an argument are tried one by one."""


@dataclass(frozen=True)
class Offence:
    """What counts as bad: a test of the elements of inexact arrays."""

    test: Callable[[Any], Any]

    def mask(self, value: Any) -> Any:
        """Return which elements are bad."""
        if value is None or isinstance(value, ArraySpec) or spec_of(value).dtype.kind not in "fc":
            return np.zeros(() if value is None else np.shape(value), bool)
        return np.asarray(self.test(value))

    def found(self, value: Any) -> bool:
        """Say whether an element is bad."""
        return bool(np.any(self.mask(value)))


NAN = Offence(np.isnan)
INFINITE = Offence(np.isinf)
NOT_FINITE = Offence(lambda value: ~np.isfinite(value))


@dataclass(frozen=True)
class Note:
    """An operation as it was recorded.

    Attributes:
        primitive: what was called.
        name: its name, and that of the function of NumPy which the user called.
        line: file and line of the user's code.
        values: its arguments, without Tensors.
        slots: the slots of those that are Tensors of the trace.
        params: its parameters.
        out: its results, without Tensors.
        belongs_to: the operation whose derivative it computes, if it was recorded by an inner transform.
    """

    primitive: Primitive
    name: str
    line: str
    values: tuple[Any, ...]
    slots: tuple[int | None, ...]
    params: dict[str, Any]
    out: tuple[Any, ...]
    belongs_to: Note | None

    def place(self) -> str:
        """Return what the operation is and where it stands."""
        if self.belongs_to is None:
            return f"{self.name} at {self.line}"
        return f"{self.name}, in the derivative of {self.belongs_to.place()}"

    def described(self, mask: Any, k: int = 0) -> str:
        """Return arguments and result, at the first bad element of the result `k` if the operation is elementwise."""
        names = self.primitive.names or tuple([f"argument {i}" for i in range(len(self.values))])
        mask = mask if self.primitive.kind == "elementwise" else None
        parts = [shown(name, value, mask) for name, value in zip(names, self.values, strict=False)]
        parts += [f"{key} = {value!r}" for key, value in self.params.items()]
        return f"{', '.join(parts)}; {shown('the result', self.out[k], mask)}"


@dataclass(frozen=True)
class Arrival:
    """What one operation adds to a cotangent, or makes of tangents.

    Attributes:
        note: the operation.
        call: the walk through its record alone.
        position: which of the results of `call` it is.
        given: the cotangents or tangents that `call` was given.
        sources: the slots that these belong to.
        value: what arrived.
    """

    note: Note | None
    call: Callable[..., list[Any]]
    position: int
    given: Sequence[Any]
    sources: Sequence[int]
    value: Any


@dataclass
class Flow:
    """Cotangents or tangents on their way through the records of a watched trace.

    Attributes:
        what: "cotangent" or "tangent".
        notes: by slot, the operation that made it.
        quiet: nobody will ask where something came from.
        marked: `marked(note)` surrounds the computation of the derivative of an operation.
        ways: by slot, its cotangent or tangent so far.
        arrivals: by slot, what came in that is not finite.
    """

    what: str
    notes: dict[int, tuple[Note, int]]
    quiet: bool
    marked: Callable[[Note | None], AbstractContextManager[None]]
    ways: dict[int, Any]
    arrivals: dict[int, list[Arrival]] = field(default_factory=dict)

    def pass_back(
        self, index: int, count: int, gs: Sequence[Any], call: Callable[..., list[Any]], slots: Sequence[int]
    ) -> None:
        """Pull cotangents back through the record at an index, which has `count` results, to the slots of its inputs."""
        outputs = range(index + 1 - count, index + 1)
        for i, (slot, ct) in enumerate(zip(slots, self._called(index, call, gs), strict=True)):
            if ct is not None:
                held = self.ways.get(slot)
                with np.errstate(all="ignore"):
                    self.ways[slot] = ct if held is None else held + ct
                self._arrive(slot, Arrival(self._note(index), call, i, gs, outputs, ct))

    def pass_on(self, index: int, count: int, ts: Sequence[Any], call: Callable[..., list[Any]], slots: Sequence[int]) -> None:
        """Push the tangents of the slots of its inputs forward through the record at an index."""
        for i, t in enumerate(self._called(index, call, ts)):
            slot = index + 1 - count + i
            self.ways[slot] = t
            self._arrive(slot, Arrival(self._note(index), call, i, ts, slots, t))

    def _note(self, index: int) -> Note | None:
        return self.notes[index][0] if index in self.notes else None

    def _called(self, index: int, call: Callable[..., list[Any]], given: Sequence[Any]) -> list[Any]:
        with self.marked(self._note(index)):
            return call(*given)

    def _arrive(self, slot: int, arrival: Arrival) -> None:
        if not self.quiet and NOT_FINITE.found(innermost(arrival.value)):
            self.arrivals.setdefault(slot, []).append(arrival)


# Following a NaN


def _cured(value: Any) -> Any:
    """Return a value with ones for all that is not finite."""
    if not NOT_FINITE.found(value):
        return value
    return np.where(np.isfinite(value), value, np.ones((), spec_of(value).dtype))[()]


def culprit(call: Call, given: Sequence[Any], mask: Any, offence: Offence) -> tuple[int, Any] | None:
    """Return which argument makes a result bad at some elements, and by which of its own; `None`: not a single one.

    Args:
        call: from the arguments to the result.
        given: the arguments.
        mask: the bad elements of the result.
        offence: what is bad about them.
    """

    def bad(values: Sequence[Any]) -> bool:
        with np.errstate(all="ignore"):
            return bool(np.any(offence.mask(innermost(call(values))) & mask))

    cured = [_cured(value) for value in given]
    if bad(cured):
        return None
    for i, value in enumerate(given):
        own = offence.mask(value)
        if not np.any(own) or not bad([*cured[:i], value, *cured[i + 1 :]]):
            continue
        if 1 < np.count_nonzero(own) <= _FEW:
            chosen = np.zeros_like(own)
            for index in zip(*np.nonzero(own), strict=True):
                one = np.array(cured[i])
                one[index] = value[index]
                chosen[index] = bad([*cured[:i], one, *cured[i + 1 :]])
            own = chosen if np.any(chosen) else own
        return i, own
    return None


def origin_of_value(notes: dict[int, tuple[Note, int]], slot: int, mask: Any, offence: Offence) -> str:
    """Return the rest of a sentence that says where the bad elements of the value of a slot were born."""
    while slot in notes:
        note, k = notes[slot]

        def call(values: Sequence[Any], note: Note = note, k: int = k) -> Any:
            out = note.primitive.compute(*values, **note.params)
            return out[k] if note.primitive.multiple else out

        found = culprit(call, note.values, mask, offence)
        if found is None:
            text = f"was born in {note.place()}: {note.described(mask, k)}."
            return text + (_infinite_cause(notes, note, slot) or _CURE)
        i, mask = found
        parent = note.slots[i]
        if parent is None:
            name = note.primitive.names[i] if i < len(note.primitive.names) else f"argument {i}"
            return (
                f"was given to {note.place()} as a constant, one that does not depend on the arguments of the function: "
                f"{shown(name, note.values[i], mask)}. Look where that was computed."
            )
        slot = parent
    return f"is in input {slot} of the function already."


_CURE = " Keep its arguments away from there, as in np.where(mask, x, 1.0) before the operation."


def _infinite_cause(notes: dict[int, tuple[Note, int]], note: Note, slot: int) -> str:
    """Return a sentence on where an argument of an operation became infinite or NaN, if one did."""
    for value, parent in zip(note.values, note.slots, strict=True):
        if parent in notes and parent != slot and NOT_FINITE.found(value):
            kind = NAN if NAN.found(value) else INFINITE
            return f" The {_kind(value)} among its arguments {origin_of_value(notes, parent, kind.mask(value), kind)}"
    return ""


def origin_of_derivative(flow: Flow, slot: int, mask: Any, offence: Offence) -> str:
    """Return the rest of a sentence that says where the bad elements of the cotangent or tangent of a slot were born."""
    while slot in flow.arrivals:
        arrivals = flow.arrivals[slot]
        arrival = next((a for a in arrivals if np.any(offence.mask(innermost(a.value)) & mask)), None)
        if arrival is None:
            mask = INFINITE.mask(innermost(arrivals[0].value))
            return f"is a sum of infinities of both signs, of which one {origin_of_derivative(flow, slot, mask, INFINITE)}"

        def call(given: Sequence[Any], arrival: Arrival = arrival) -> Any:
            return arrival.call(*given)[arrival.position]

        given = [innermost(g) for g in arrival.given]
        found = culprit(call, given, mask, offence)
        if found is None:
            return _born_in_derivative(flow, arrival, mask)
        i, mask = found
        slot = arrival.sources[i]
    return f"was handed in with the {flow.what} that the transform was given."


def _born_in_derivative(flow: Flow, arrival: Arrival, mask: Any) -> str:
    note = arrival.note
    if note is None:
        return "was born in the derivative of an operation that is not known."
    given = ", ".join([shown(f"its {flow.what}", innermost(g)) for g in arrival.given if g is not None])
    k = next((k for k, value in enumerate(note.out) if NOT_FINITE.found(value)), 0)
    elements = mask if np.shape(mask) == np.shape(note.out[k]) else None
    text = f"was born in the derivative of {note.place()}: {note.described(elements, k)}; {given}."
    for g, source in zip(arrival.given, arrival.sources, strict=True):
        value = innermost(g)
        if INFINITE.found(value):
            return (
                f"{text} The infinity of its {flow.what} {origin_of_derivative(flow, source, INFINITE.mask(value), INFINITE)}"
            )
    return text + (_infinite_cause(flow.notes, note, -1) or _CURE)


# Words


def count_offending(value: Any, offence: Offence) -> str:
    """Return how many elements of a value are bad, and where the first is."""
    mask = offence.mask(value)
    count = int(np.count_nonzero(mask))
    kind = _kind(np.asarray(value)[mask])
    if np.shape(mask) == ():
        return kind
    first = [int(i) for i in np.argwhere(mask)[0]]
    return f"{kind} in {count} of {mask.size} elements, first at {first}"


def _kind(value: Any) -> str:
    return "nan" if np.isnan(value).any() else "infinity"


def shown(name: str, value: Any, mask: Any = None) -> str:
    """Return name, shape, dtype and range of an array, and its value where a mask of elements is first true."""
    spec = spec_of(value)
    if spec.size == 1:
        return f"{name} = {_number(np.asarray(value).reshape(-1)[0])}" + (f" ({spec})" if spec.shape else "")
    text = f"{name} = {spec}"
    if spec.size and spec.dtype.kind in "fiub":
        finite = np.asarray(value)[np.isfinite(value)]
        bad = spec.size - finite.size
        details = [f"{_number(finite.min())} to {_number(finite.max())}"] if finite.size else []
        details += [f"{bad} not finite"] if bad else []
        if mask is not None and np.any(mask) and _broadcasts(spec.shape, np.shape(mask)):
            index = tuple(int(i) for i in np.argwhere(mask)[0])
            details.append(f"{_number(np.broadcast_to(value, np.shape(mask))[index])} at {list(index)}")
        text += f" ({', '.join(details)})"
    return text


def _number(value: Any) -> str:
    return str(value) if spec_of(value).dtype.kind == "b" else f"{value:.6g}"


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False
