"""The origin of a NaN: a search from a bad result back through operations, cotangents or tangents.

Each step runs the operation again with ones in place of all elements that are not finite. If the result is still bad, the
operation is the origin. Otherwise the step runs the operation with one original argument at a time, and follows an argument
that makes the result bad. This works for every operation, and ignores arguments that the operation does not select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functad.diagnostics.nan_arrivals import Arrival, Arrivals
from functad.diagnostics.operation_log import INFINITE, NAN, NOT_FINITE, Offence, Operation, OperationLog
from functad.expressions.spec import spec_of
from functad.primitives.operands import innermost

Call = Callable[[Sequence[Any]], Any]

_FEW = 32
"""The largest number of bad elements of an argument that are tried one by one."""


def _cured(value: Any) -> Any:
    """Return a value with ones in place of elements that are not finite."""
    if not NOT_FINITE.found(value):
        return value
    return np.where(np.isfinite(value), value, np.ones((), spec_of(value).dtype))[()]


def culprit(call: Call, given: Sequence[Any], mask: Any, offence: Offence) -> tuple[int, Any] | None:
    """Return the argument that makes a result bad, and the mask of its bad elements; `None` if no single argument does.

    Args:
        call: the function from the arguments to the result.
        given: the arguments.
        mask: the bad elements of the result.
        offence: the definition of a bad element.
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
