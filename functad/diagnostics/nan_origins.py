"""The origin of a NaN: a log of operations, and a search from a bad result back through operations, cotangents or tangents.

Reads and writes by index move elements and compute nothing. If a program does this element by element, a log of whole arrays
would take quadratic time and memory. So the log keeps only the written elements of a write, and only the result of a read.
Masks trace elements back to their sources. Arrivals are the cotangents and tangents that are not finite, by slot, with the
operations that made them.

Each step of the search runs an operation again with ones in place of all elements that are not finite. If the result is still
bad, the operation is the origin. Otherwise the step runs the operation with one original argument at a time, and follows an
argument that makes the result bad. This works for every operation, and ignores arguments that the operation does not select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from functad.expressions.records import Observer, inputs_of, observing, results_of
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives.entry import PULL_READ, PULL_WRITE, Primitive
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import Path, part, put, without_real_imag
from functad.primitives.operands import innermost
from functad.process import context_variable, setting
from functad.transforms.forward import push_alone
from functad.transforms.reverse import Scattered, pull_alone


@dataclass(frozen=True)
class Offence:
    """The definition of a bad element: a test for the elements of floating-point and complex arrays."""

    test: Callable[[Any], Any]

    def mask(self, value: Any) -> Any:
        """Return the mask of bad elements."""
        if value is None or isinstance(value, ArraySpec) or spec_of(value).dtype.kind not in "fc":
            return np.zeros(() if value is None else np.shape(value), bool)
        return np.asarray(self.test(value))

    def found(self, value: Any) -> bool:
        """Return `True` if any element is bad."""
        return bool(np.any(self.mask(value)))


NAN = Offence(np.isnan)
INFINITE = Offence(np.isinf)
NOT_FINITE = Offence(lambda value: ~np.isfinite(value))


@dataclass(frozen=True)
class Operation:
    """One logged operation.

    Attributes:
        primitive: the primitive.
        name: the name of the primitive, with the name of the NumPy function that the user called.
        line: the file and line of the user's code.
        values: the plain arguments. For the array of a read or write only its spec is kept.
        slots: for each argument its slot, or `None` if it is not a Tensor of the trace.
        params, out: the parameters, and the plain results; `None` for the array after a write.
        belongs_to: the operation that this one differentiates, or `None`.
    """

    primitive: Primitive
    name: str
    line: str
    values: tuple[Any, ...]
    slots: tuple[int | None, ...]
    params: dict[str, Any]
    out: tuple[Any, ...]
    belongs_to: Operation | None

    @property
    def moves(self) -> bool:
        """Whether the operation reads or writes elements of an array of the trace, so that the array is not kept."""
        return self.slots[0] is not None and moves_elements(self.primitive)

    def place(self) -> str:
        """Return the name and line of the operation."""
        if self.belongs_to is None:
            return f"{self.name} at {self.line}"
        return f"{self.name}, in the derivative of {self.belongs_to.place()}"


DERIVATIVE_OF: ContextVar[Operation | None] = context_variable("derivative_of", default=None)
"""The operation whose derivative is computed now, or `None`."""


class OperationLog(dict[int, tuple[Operation, int]]):
    """A mapping from slots to the operation that made them and the index among its results.

    Attributes:
        bases: for slots without operation, the values before the first write.
        followed: the name, in messages, of the values that constants do not depend on.
        asked: the name, in messages, of the transform or tape.
    """

    followed = "the arguments of the function"
    asked = "the transform"

    def __init__(self) -> None:
        super().__init__()
        self.bases: dict[int, Any] = {}

    def at(self, slot: int) -> Operation | None:
        """Return the operation that made a slot, or `None`."""
        return self[slot][0] if slot in self else None

    def name_of(self, slot: int) -> str:
        """Return the name of a slot without operation, for messages."""
        return f"input {slot} of the function"

    def value(self, slot: int | None) -> Any:
        """Return the value of a slot; writes are repeated on a copy."""
        writes = []
        while True:
            assert slot is not None  # a logged read or write has an array of the trace
            operation, k = self.get(slot, (None, 0))
            if operation is None or not operation.moves or not operation.primitive.writes:
                break
            writes.append(operation)
            slot = operation.slots[0]
        value = self.bases[slot] if operation is None else operation.out[k]
        if writes:
            value = np.copy(value)
            with np.errstate(all="ignore"):
                for operation in reversed(writes):
                    at, adds = operation.params, operation.primitive.adds
                    put(value, at["path"], at["index"], operation.values[1], adds=adds)
        return value

    def source(self, operation: Operation, mask: Any, offence: Offence) -> tuple[int, Any] | None:
        """Return the argument that gave bad elements to a read or write, and the mask of bad elements in this argument.

        The result is `None` if the operation made them itself: a write that adds may make a bad sum of good elements.
        """
        sources = moved_from(operation, mask)
        if not operation.primitive.writes or not adds_to(operation.primitive, operation.params["path"]):
            return next((source for source in sources if source[1].any()), sources[-1])
        for i, chosen in sources[::-1]:
            bad = chosen & offence.mask(operation.values[1] if i else self.value(operation.slots[0]))
            if bad.any():
                return i, bad
        return None


# Elements that are read and written


def moves_elements(primitive: Primitive) -> bool:
    """Return `True` if a primitive only reads or writes elements."""
    return primitive is GETITEM or primitive.writes


def adds_to(primitive: Primitive, path: Path) -> bool:
    """Return `True` if old values remain in the written elements: after an addition, or a write to a real or imaginary part."""
    return primitive.adds or len(without_real_imag(path)) < len(path)


def places(shape: tuple[int, ...], path: Path, index: Any, chosen: Any = True) -> Any:
    """Return the mask of an array that is `chosen` at an index of the view at `path`, and `False` elsewhere."""
    mask = np.zeros(shape, bool)
    put(mask, without_real_imag(path), index, chosen, adds=True)  # "or" at repeated indices
    return mask


def before_writing(mask: Any, path: Path, index: Any, shape: tuple[int, ...], *, adds: bool) -> tuple[Any, Any]:
    """Return the masks of the old array and of the written value, of the given shape, for a mask of the array after a write."""
    piece = np.asarray(part(mask, without_real_imag(path))[index])
    piece = np.broadcast_to(piece, np.broadcast_shapes(piece.shape, shape))
    extra = piece.ndim - len(shape)
    axes = tuple([i for i, n in enumerate(piece.shape) if i < extra or (n != 1 and shape[i - extra] == 1)])
    rest = mask if adds else mask & ~places(mask.shape, path, index)
    return rest, piece.any(axes).reshape(shape)


def moved_from(operation: Operation, mask: Any) -> list[tuple[int, Any]]:
    """Return the arguments of a read or write, each with the mask of its elements for a mask of the result."""
    shape, index = operation.values[0].shape, operation.params["index"]
    if operation.primitive is GETITEM:
        return [(0, places(shape, (), index, mask))]
    path = operation.params["path"]
    adds = adds_to(operation.primitive, path)
    return list(enumerate(before_writing(mask, path, index, shape_of(operation.values[1]), adds=adds)))


def after_writing(chosen: Any, path: Path, index: Any, shape: tuple[int, ...]) -> Any:
    """Return the mask of an array of the given shape after a write, for the mask `chosen` of the written value."""
    width = np.shape(part(np.zeros(shape, bool), without_real_imag(path))[index])
    extra = max(0, chosen.ndim - len(width))  # axes of length 1 in front
    return places(shape, path, index, chosen.reshape(chosen.shape[extra:]))


Call = Callable[[Sequence[Any]], Any]

Sources = Callable[[Any], list[tuple[int, Any]]]
"""A function from a mask of elements to pairs of a source slot and the mask of its elements."""


@dataclass(frozen=True)
class Arrival:
    """A cotangent or tangent that one operation made for a slot.

    Attributes:
        operation: the operation, or `None` if the log does not hold it.
        call: the function from the given cotangents or tangents to `value`, as in the pass.
        given: the cotangents or tangents that the operation was given.
        sources: their slots.
        value: the cotangent or tangent for the slot.
    """

    operation: Operation | None
    call: Callable[[Sequence[Any]], Any]
    given: Sequence[Any]
    sources: Sequence[int]
    value: Any


class Arrivals(Observer):
    """An observer of a forward or backward pass, which notes arrivals that are not finite.

    `handed_in` has, by slot, the cotangents or tangents at the start of the pass. A `quiet` observer notes nothing, because an
    outer trace makes the checks. `what` is "cotangent" or "tangent".
    """

    what: str
    _sign: int

    def __init__(self, log: OperationLog, handed_in: dict[int, Any], *, quiet: bool) -> None:
        self.log = log
        self.quiet = quiet
        given = {slot: innermost(value) for slot, value in handed_in.items()}
        self._handed_in = {} if quiet else {slot: value for slot, value in given.items() if NOT_FINITE.found(value)}
        self._found: dict[int, list[Arrival | Sources]] = {}
        self._given: Sequence[Any] = ()
        self._around = DERIVATIVE_OF.get()

    def through(self, walk: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a pass with this observer."""
        with setting(DERIVATIVE_OF, self._around), observing(self):
            return walk(*args, **options)

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Make the operation of a record the current one, and keep its cotangents or tangents."""
        DERIVATIVE_OF.set(self.log.at(index))
        self._given = () if record[0].primitive.writes else given()

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Note the arrivals of a record."""
        DERIVATIVE_OF.set(self._around)
        given, self._given = self._given, ()
        if not self.quiet:
            self._note(index, record, given, found)

    def _note(self, index: int, record: Any, given: Sequence[Any], found: Sequence[Any]) -> None:
        raise NotImplementedError

    def _arrive(self, slot: int, what: Arrival | Sources) -> None:
        self._found.setdefault(slot, []).append(what)

    def _is_bad(self, slot: int) -> bool:
        """Return `True` if elements that are not finite may have arrived at a slot."""
        return slot in self._found or slot in self._handed_in

    def behind(self, slot: int, mask: Any, offence: Offence) -> tuple[Arrival | None, Any] | None:
        """Return the arrival of bad elements, traced back through reads and writes, and the mask of its bad elements.

        The arrival is `None` if the bad elements were handed in. The result is `None` if they are sums of good elements.
        """
        masks = {slot: mask}
        heap = [self._sign * slot]  # visits each slot after the slots that lead to it
        while heap:
            slot = self._sign * heappop(heap)
            mask = masks.pop(slot)
            if slot in self._handed_in and np.any(offence.mask(self._handed_in[slot]) & mask):
                return None, mask
            for arrival in self._found.get(slot, ()):
                if isinstance(arrival, Arrival):
                    if np.any(offence.mask(arrival.value) & mask):
                        return arrival, mask
                    continue
                for source, chosen in arrival(mask):
                    if not np.any(chosen):
                        continue
                    if source not in masks:
                        heappush(heap, self._sign * source)
                    masks[source] = masks[source] | chosen if source in masks else chosen
        return None


class CotangentArrivals(Arrivals):
    """The arrivals of a backward pass."""

    what = "cotangent"
    _sign = 1

    def _note(self, index: int, record: Any, given: Sequence[Any], found: Sequence[Any]) -> None:
        plan, _, residuals, _ = record
        slots = inputs_of(record)
        if plan.special == PULL_WRITE:
            self._note_write(index, plan, slots, residuals)
        elif plan.special == PULL_READ:
            if self._is_bad(index):
                self._arrive(slots[0], lambda mask: [(index, np.asarray(mask[residuals[0]]))])
        else:
            for i, slot in enumerate(slots):
                if not NOT_FINITE.found(_known(found[slot])):
                    continue
                call: Call = lambda gs, i=i: innermost(pull_alone(record, gs)[i])  # type: ignore[misc]  # noqa: E731
                value = call(given)
                if NOT_FINITE.found(value):  # it may be finite in a careful pass
                    self._arrive(slot, Arrival(self.log.at(index), call, given, results_of(record, index), value))

    def _note_write(self, index: int, plan: Any, slots: Sequence[int], residuals: Any) -> None:
        if not self._is_bad(index):
            return
        path, where, shapes = residuals
        adds = adds_to(plan.primitive, path)
        for position, slot in zip(plan.active, slots, strict=True):
            if position == 1:
                self._arrive(slot, lambda mask: [(index, after_writing(mask, path, where, shapes[0]))])
            else:
                self._arrive(slot, lambda mask: [(index, mask if adds else mask & ~places(shapes[0], path, where))])


class TangentArrivals(Arrivals):
    """The arrivals of a forward pass."""

    what = "tangent"
    _sign = -1

    def _note(self, index: int, record: Any, given: Sequence[Any], found: Sequence[Any]) -> None:
        operation, slots = self.log.at(index), inputs_of(record)
        if operation is not None and operation.moves:
            if any(self._is_bad(slot) for slot in slots):
                own = {i: slot for i, slot in enumerate(operation.slots) if slot is not None and slot in slots}
                self._arrive(index, lambda mask: [(own[i], m) for i, m in moved_from(operation, mask) if i in own])
            return
        for i, slot in enumerate(results_of(record, index)):
            t = innermost(found[slot])
            if NOT_FINITE.found(t):
                call = lambda ts, i=i: innermost(push_alone(record, ts)[i])  # noqa: E731
                self._arrive(slot, Arrival(operation, call, given, slots, t))


def _known(g: Any) -> Any:
    """Return the plain value of a cotangent, without pieces that are not yet added."""
    return innermost(g.whole if type(g) is Scattered else g)


_FEW = 32
"""The largest number of bad elements of an argument that are tried one by one."""


def _cured(value: Any) -> Any:
    """Return a value with ones in place of elements that are not finite."""
    if not NOT_FINITE.found(value):
        return value
    return np.where(np.isfinite(value), value, np.ones((), spec_of(value).dtype))[()]


def culprit(call: Call, given: Sequence[Any], mask: Any, offence: Offence) -> tuple[int, Any] | None:
    """Return the argument that makes a result bad, and the mask of its bad elements; `None` if no single argument does.

    `call` maps the arguments `given` to the result, which is bad at `mask`.
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


def origin_of_value(log: OperationLog, slot: int, mask: Any, offence: Offence) -> str:
    """Return the end of a sentence about the origin of the bad elements of a value."""
    while slot in log:
        operation, k = log[slot]

        def call(values: Sequence[Any], operation: Operation = operation, k: int = k) -> Any:
            out = operation.primitive.compute(*values, **operation.params)
            return out[k] if operation.primitive.multiple else out

        found = log.source(operation, mask, offence) if operation.moves else culprit(call, operation.values, mask, offence)
        if found is None:
            if operation.moves:
                values = (log.value(operation.slots[0]), *operation.values[1:])
                operation = replace(operation, values=values, out=(log.value(slot),))
            text = f"was born in {operation.place()}: {_described(operation, mask, k)}."
            return text + (_infinite_cause(log, operation, slot) or FIX)
        i, mask = found
        parent = operation.slots[i]
        if parent is None:
            name = operation.primitive.names[i] if i < len(operation.primitive.names) else f"argument {i}"
            return (
                f"was given to {operation.place()} as a constant, one that does not depend on {log.followed}: "
                f"{shown(name, operation.values[i], mask)}. Look where that was computed."
            )
        slot = parent
    return f"is in {log.name_of(slot)} already."


FIX = " Keep its arguments away from there, as in np.where(mask, x, 1.0) before the operation."


def _infinite_cause(log: OperationLog, operation: Operation, slot: int) -> str:
    """Return a sentence about the origin of an infinite or NaN argument of an operation, or `""`."""
    for value, parent in zip(operation.values, operation.slots, strict=True):
        if parent is not None and parent in log and parent != slot and NOT_FINITE.found(value):
            kind = NAN if NAN.found(value) else INFINITE
            return f" The {_kind(value)} among its arguments {origin_of_value(log, parent, kind.mask(value), kind)}"
    return ""


def origin_of_derivative(arrivals: Arrivals, slot: int, mask: Any, offence: Offence) -> str:
    """Return the end of a sentence about the origin of the bad elements of a cotangent or tangent."""
    what = arrivals.what
    while (found := arrivals.behind(slot, mask, offence)) is not None:
        arrival, mask = found
        if arrival is None:
            return f"was handed in with the {what} that {arrivals.log.asked} was given."
        given = list(map(innermost, arrival.given))
        at_fault = culprit(arrival.call, given, mask, offence)
        if at_fault is None:
            return _born_in_derivative(arrivals, arrival, given, mask)
        i, mask = at_fault
        slot = arrival.sources[i]
    if offence is NAN and arrivals.behind(slot, mask, INFINITE) is not None:
        return f"is a sum of infinities of both signs, of which one {origin_of_derivative(arrivals, slot, mask, INFINITE)}"
    return "is a sum of numbers that are too large."


def _born_in_derivative(arrivals: Arrivals, arrival: Arrival, given: Sequence[Any], mask: Any) -> str:
    operation = arrival.operation
    if operation is None:
        return "was born in the derivative of an operation that is not known."
    values = ", ".join([shown(f"its {arrivals.what}", g) for g in given if g is not None])
    k = next((k for k, value in enumerate(operation.out) if NOT_FINITE.found(value)), 0)
    elements = mask if np.shape(mask) == np.shape(operation.out[k]) else None
    text = f"was born in the derivative of {operation.place()}: {_described(operation, elements, k)}; {values}."
    for g, source in zip(given, arrival.sources, strict=True):
        if INFINITE.found(g):
            origin = origin_of_derivative(arrivals, source, INFINITE.mask(g), INFINITE)
            return f"{text} The infinity of its {arrivals.what} {origin}"
    return text + (_infinite_cause(arrivals.log, operation, -1) or FIX)


# Words


def _described(operation: Operation, mask: Any, k: int = 0) -> str:
    """Return a text with arguments and result `k`; for an elementwise operation also at the first bad element."""
    names = operation.primitive.names or tuple([f"argument {i}" for i in range(len(operation.values))])
    mask = mask if operation.primitive.kind == "elementwise" else None
    parts = [shown(name, value, mask) for name, value in zip(names, operation.values, strict=False)]
    parts += [f"{key} = {value!r}" for key, value in operation.params.items()]
    return f"{', '.join(parts)}; {shown('the result', operation.out[k], mask)}"


def count_offending(value: Any, offence: Offence) -> str:
    """Return a text with the number of bad elements of a value and the index of the first one."""
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
    """Return a text with name, shape, dtype and range of an array, and its value at the first `True` of the mask."""
    spec = spec_of(value)
    if spec.size == 1:
        return f"{name} = {_number(np.asarray(value).reshape(-1)[0])}" + (f" ({spec})" if spec.shape else "")
    text = f"{name} = {spec}"
    if spec.size and spec.dtype.kind in "fiub":
        finite = np.asarray(value)[np.isfinite(np.asarray(value))]
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
