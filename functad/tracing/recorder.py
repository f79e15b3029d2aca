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
from types import CodeType
from typing import Any

import numpy as np

from functad.errors import EscapedTensorError, line_of, name_of, user_frame
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.kinds import forward_plan
from functad.primitives.primitive import Plan, Primitive

_serials = itertools.count()

REVERSE, FORWARD, ABSTRACT = "reverse", "forward", "abstract"


class Recorder:
    """The list of one trace.

    Attributes:
        serial: increases from recorder to recorder; the newest among the arguments of an operation records it.
        mode: what the records are for: `reverse`, `forward` or `abstract`.
        eager: open, concrete and in reverse mode, so that operators may take their short way.
        closed: the trace has ended; its Tensors are of no more use.
        equations: the records, by slot; inputs come first.
        inputs: the number of inputs.
        specs: in an abstract trace, the spec of each slot.
        transform, function: names for messages.
    """

    __slots__ = ("closed", "eager", "equations", "function", "inputs", "mode", "serial", "specs", "transform")

    def __init__(self, mode: str, transform: str, function: object) -> None:
        self.serial = next(_serials)
        self.mode = mode
        self.eager = mode == REVERSE
        self.closed = False
        self.equations: list[Any] = []
        self.inputs = 0
        self.specs: list[ArraySpec] = []
        self.transform = transform
        self.function = function

    def close(self) -> None:
        """End the trace: from now on its Tensors raise when they are used."""
        self.closed = True
        self.eager = False


class Recorded:
    """The state of a Tensor: a value one level lower, and its place in the list of a recorder.

    Attributes:
        value: an array, a scalar, a Tensor of an older recorder, or a spec if the trace is abstract.
        recorder: the recorder whose list the Tensor stands in.
        slot: its index there.
        code, instruction: the line of the user's code that made it.
    """

    __slots__ = ("code", "instruction", "recorder", "slot", "value")

    value: Any
    recorder: Recorder
    slot: int
    code: CodeType | None
    instruction: int


def new_input(cls: type[Recorded], recorder: Recorder, value: Any) -> Any:
    """Add an input to a trace and return its Tensor; for an abstract trace, `value` is the spec."""
    tensor = _tensor(cls, recorder, value, len(recorder.equations))
    recorder.equations.append(None)
    recorder.inputs += 1
    if recorder.mode is ABSTRACT:
        recorder.specs.append(value)
    return tensor


def _tensor(cls: type[Recorded], recorder: Recorder, value: Any, slot: int) -> Any:
    tensor = cls()
    tensor.value = value
    tensor.recorder = recorder
    tensor.slot = slot
    frame = user_frame(sys._getframe(2))
    tensor.code = frame.f_code if frame is not None else None
    tensor.instruction = frame.f_lasti if frame is not None else 0
    return tensor


def record(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Call a primitive with Tensors among its arrays: compute the result one level lower, and record the call."""
    newest: Recorded | None = None
    for a in arrays:
        if isinstance(a, Recorded) and (newest is None or a.recorder.serial > newest.recorder.serial):
            newest = a
    if newest is None:
        return primitive.compute(*arrays, **params)
    recorder = newest.recorder
    if recorder.closed:
        raise escaped(newest, primitive.name)
    if recorder.mode is ABSTRACT:
        return _record_abstract(type(newest), recorder, primitive, arrays, params)
    values: list[Any] = []
    active: list[int] = []
    nested = False
    for i, a in enumerate(arrays):
        if isinstance(a, Recorded):
            if a.recorder is recorder:
                if primitive.differentiable(i):
                    active.append(i)
                a = a.value
            if isinstance(a, Recorded):
                nested = True
        values.append(a)
    out = primitive(*values, **params) if nested else primitive.compute(*values, **params)
    if not active or out is NotImplemented:
        return out
    return _record_concrete(type(newest), recorder, primitive, arrays, values, tuple(active), params, out)


def _record_concrete(
    cls: type[Recorded],
    recorder: Recorder,
    primitive: Primitive,
    arrays: tuple[Any, ...],
    values: list[Any],
    active: tuple[int, ...],
    params: dict[str, Any],
    out: Any,
) -> Any:
    equations = recorder.equations
    slots = arrays[active[0]].slot if len(active) == 1 else tuple([arrays[i].slot for i in active])
    plan: Plan | None
    if recorder.mode is REVERSE:
        plan = primitive.reverse_plan(active)
        specs = reverse_specs(primitive, values, active, out)
    else:
        plan = forward_plan(primitive, active)
        transposed = plan is None
        plan = plan or primitive.reverse_plan(active)
        outputs = out if primitive.multiple else (out,)
        shapes = tuple([(shape_of(value), dtype_of(value)) for value in outputs])
        specs = (shapes if primitive.multiple else shapes[0], transposed)
    return _results(cls, recorder, primitive, out, (plan, slots, plan.pick(values, out, params), specs))


def _results(cls: type[Recorded], recorder: Recorder, primitive: Primitive, out: Any, equation: Any) -> Any:
    """Append a record and return the Tensor, or tuple of Tensors, for its result."""
    equations = recorder.equations
    first = len(equations)
    if not primitive.multiple:
        equations.append(equation)
        return _tensor(cls, recorder, out, first)
    equations.extend([None] * (len(out) - 1))
    plan, slots, saved, specs = equation
    if recorder.mode is REVERSE:
        specs = (specs, tuple([(shape_of(value), dtype_of(value)) for value in out]))
    equations.append((plan, slots, saved, specs))
    results = [_tensor(cls, recorder, value, first + i) for i, value in enumerate(out)]
    return type(out)(*results) if hasattr(out, "_fields") else tuple(results)


def reverse_specs(primitive: Primitive, values: list[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the shape and dtype that the cotangent of each active input must be brought to, or `None`.

    `None` stands for what cannot differ: the shape unless the primitive broadcasts, the dtype if it is that of the result.
    """
    result = []
    dtype = None if primitive.multiple else dtype_of(out)
    for i in active:
        value = values[i]
        shape = shape_of(value) if primitive.broadcasts and len(values) > 1 else None
        if shape is not None and primitive.kind == "elementwise" and shape == shape_of(out):
            shape = None
        own = dtype_of(value)
        result.append(None if shape is None and own is dtype else (shape, own))
    if not any(result):
        return None
    return result[0] if len(result) == 1 else tuple(result)


def _record_abstract(
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
            inputs.append(Constant(a))
    out = primitive.spec(*known, **params)
    results = out if primitive.multiple else (out,)
    first = len(recorder.equations)
    outputs = tuple(range(first, first + len(results)))
    recorder.specs.extend(results)
    equation = Equation(primitive, tuple(inputs), params, outputs)
    recorder.equations.extend([None] * (len(results) - 1))
    recorder.equations.append(equation)
    if not primitive.multiple:
        return _tensor(cls, recorder, out, first)
    tensors = [_tensor(cls, recorder, spec, first + i) for i, spec in enumerate(out)]
    return type(out)(*tensors) if hasattr(out, "_fields") else tuple(tensors)


def escaped(tensor: Recorded, operation: str) -> EscapedTensorError:
    """Return the error for a Tensor that is used after its transform has ended."""
    recorder = tensor.recorder
    return EscapedTensorError(
        f"{operation} was given a Tensor that escaped from {recorder.transform} of {name_of(recorder.function)}, which has ended. "
        f"The Tensor was made at {line_of(tensor.code, tensor.instruction)}. "
        f"Return the value from the function (has_aux=True hands extra results through), instead of storing it outside."
    )


def is_inexact(value: Any) -> bool:
    """Say whether a value can carry a derivative: floating point or complex."""
    return dtype_of(value).kind in "fc"


__all__ = ["ABSTRACT", "FORWARD", "REVERSE", "Recorded", "Recorder", "escaped", "new_input", "np", "record"]
