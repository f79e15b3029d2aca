"""A function recorded as a closed list: what it captured of outer traces becomes inputs.

What is recorded at one point may branch on values; the list holds for the values that it was made at, and may be evaluated
and differentiated there any number of times. That is what a derivative rule of a solver needs. What is recorded without values
holds everywhere, as the right-hand side of a differential equation must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.evaluate import evaluate
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here, name_of
from functad.primitives.conversion import COPY
from functad.primitives.operands import innermost
from functad.primitives.primitive import Primitive
from functad.tracing import recorder as recording
from functad.tracing.recorder import ABSTRACT, FORWARD, REVERSE, Recorded, Recorder, new_input
from functad.tracing.tensor import Tensor
from functad.tracing.views import clone, note_view, shares
from functad.transforms.arguments import traced
from functad.transforms.forward import jvp, push_forward
from functad.transforms.gradient import vjp
from functad.trees import flatten


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """A function of leaves as a list without references to any trace.

    Attributes:
        expressions: the list; its inputs are the leaves, then what was captured.
        captured: Tensors of outer traces, to be handed on as the last inputs.
        values: what the function gave when it was recorded, if it was at a point.
    """

    expressions: Expressions
    captured: tuple[Any, ...]
    values: tuple[Any, ...]

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """What the function returns."""
        return tuple(
            [spec_of(s.value) if isinstance(s, Constant) else self.expressions.specs[s] for s in self.expressions.outputs]
        )

    def __call__(self, *leaves: Any) -> list[Any]:
        """Evaluate the list; on Tensors that is recorded."""
        return evaluate(self.expressions, leaves)


def closed_at(transform: str, function: object, f: Callable[..., Sequence[Any]], values: Sequence[Any]) -> Closed:
    """Record `f(*values)`, which returns a list of leaves, as a closed list.

    Args:
        transform: the name of the transform, for messages.
        function: the function of the user that `f` calls, for messages.
        f: a function of leaves.
        values: plain arrays and numbers.

    Raises:
        NoValueError: `f` uses a Tensor of an outer trace that has no values.
    """
    tracer = _Closer(transform, function)
    tensors = [new_input(Tensor, tracer, value) for value in values]
    tracer.specs = [spec_of(value) for value in values]
    outs = [tracer.source(out) for out in traced(tracer, f, tensors, {})]
    expressions = _assembled(len(values), tracer.steps, [source for source, _ in outs], tracer.specs, tracer.captured)
    return Closed(expressions, tuple(tracer.captured), tuple([value for _, value in outs]))


_Step = tuple[Primitive, list[Any], dict[str, Any], tuple[int, ...]]
"""A call: the primitive, what stands for its arguments, its parameters and the slots of its results."""


class NoValueError(UnsupportedError):
    """A function that is recorded at a point uses a Tensor that has no value."""


class _Captured:
    """The place, among the inputs of an equation, of the Tensor that was captured as number `index`."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _Closer(Recorder):
    """A concrete recorder that makes equations, and an input of every Tensor that is not its own.

    Attributes:
        steps: the equations, with their inputs as `source` gives them.
        captured: the Tensors of other recorders.
        known: their places, by recorder and slot.
    """

    def __init__(self, transform: str, function: object) -> None:
        super().__init__(REVERSE, transform, function)
        self.eager = False  # so that everything goes through `record`, which calls `follow`
        self.watch = None
        self.steps: list[_Step] = []
        self.captured: list[Any] = []
        self.known: dict[tuple[int, int], int] = {}

    def source(self, a: Any) -> tuple[Any, Any]:
        """Return what stands for an argument in the list, and its value."""
        if not isinstance(a, Recorded):
            return Constant(a.copy() if type(a) is np.ndarray else a), a
        if a.recorder is self:
            return a.slot, a.value
        value = innermost(a)
        if isinstance(value, ArraySpec):
            raise NoValueError(
                f"{self.transform}: {name_of(self.function)} uses a Tensor without a value that is no argument, at {here()}, "
                f"and a solver cannot be run without it. Pass it as a parameter."
            )
        key = a.recorder.serial, a.slot
        if key not in self.known:
            self.known[key] = len(self.captured)
            self.captured.append(clone(a))
        return _Captured(self.known[key]), value

    def follow(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call of a primitive, and record it if a derivative can flow through it."""
        pairs = [self.source(a) for a in arrays]
        values = [value for _, value in pairs]
        out = primitive(*values, **params)
        alive = any(isinstance(a, Recorded) and (primitive.joint or primitive.differentiable(i)) for i, a in enumerate(arrays))
        if out is NotImplemented or not alive:
            return out
        results = tuple(out) if primitive.multiple else (out,)
        first = len(self.equations)
        self.steps.append((primitive, [source for source, _ in pairs], params, tuple(range(first, first + len(results)))))
        self.specs.extend(map(spec_of, results))
        if primitive.multiple:
            return recording._results(Tensor, self, out, None)
        tensor = recording._tensor(Tensor, self, out, None)
        if primitive.views and isinstance(arrays[0], Recorded) and arrays[0].recorder is self and shares(out, values[0]):
            note_view(arrays[0], tensor, primitive, params)
        return tensor

    def made(self, value: Any) -> Any:
        """Return a new array as a Tensor, into which others can be written."""
        self.steps.append((COPY, [Constant(value)], {}, (len(self.equations),)))
        self.specs.append(spec_of(value))
        return recording._tensor(Tensor, self, value, None)


def _assembled(count: int, steps: list[_Step], outs: list[Any], specs: list[ArraySpec], captured: list[Any]) -> Expressions:
    """Return a list, in which captured Tensors follow the other inputs, without what no output needs.

    Args:
        count: the number of inputs.
        steps: the calls, with `_Captured` among their sources, and slots that are counted without what was captured.
        outs: the sources of the outputs.
        specs: of all slots.
        captured: the Tensors.
    """
    more = len(captured)

    def placed(source: Any) -> Any:
        if isinstance(source, _Captured):
            return count + source.index
        return source if isinstance(source, Constant) or source < count else source + more

    outputs = tuple(map(placed, outs))
    needed = {source for source in outputs if not isinstance(source, Constant)}
    kept = []
    for primitive, sources, params, slots in reversed(steps):
        made = tuple([slot + more for slot in slots])
        if needed.isdisjoint(made):
            continue
        equation = Equation(primitive, tuple(map(placed, sources)), params, made)
        needed.update([source for source in equation.inputs if not isinstance(source, Constant)])
        kept.append(equation)
    every = (*specs[:count], *map(spec_of, captured), *specs[count:])
    names = tuple([f"x{i}" for i in range(count)] + [f"captured{i}" for i in range(more)])
    arguments = flatten((every[: count + more], {}))[1]
    return Expressions(names, tuple(reversed(kept)), outputs, every, arguments, flatten([0.0] * len(outs))[1])


def closed_anywhere(transform: str, function: object, f: Callable[..., Sequence[Any]], specs: Sequence[ArraySpec]) -> Closed:
    """Record `f`, which returns a list of leaves, without values, as a closed list that holds for all of them.

    Raises:
        AbstractValueError: `f` asks for a value.
    """
    recorder = Recorder(ABSTRACT, transform, function)
    tensors = [new_input(Tensor, recorder, spec) for spec in specs]
    outs = traced(recorder, f, tensors, {})
    captured: dict[tuple[int, int], int] = {}
    found: list[Any] = []

    def source(given: Any) -> Any:
        tensor = given.value if isinstance(given, Constant) else given
        if not isinstance(tensor, Recorded):
            return given
        key = tensor.recorder.serial, tensor.slot if not isinstance(tensor.value, ArraySpec) else id(tensor)
        if key not in captured:
            captured[key] = len(found)
            found.append(tensor)
        return _Captured(captured[key])

    steps = [
        (equation.primitive, list(map(source, equation.inputs)), dict(equation.params), equation.outputs)
        for equation in recorder.equations
        if equation is not None
    ]
    own = [out.slot if isinstance(out, Recorded) and out.recorder is recorder else Constant(out) for out in outs]
    ends = [source(end) if isinstance(end, Constant) else end for end in own]
    return Closed(_assembled(len(specs), steps, ends, recorder.specs, found), tuple(found), ())


def linearized(f: Callable[..., Sequence[Any]], values: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the linear function `t -> J t` of a function of leaves at plain values, which runs `f` once and for all."""
    recorder = Recorder(FORWARD, "linearized", f)
    recorder.watch = None
    recorder.lasting = True
    tensors = [new_input(Tensor, recorder, value) for value in values]
    outs = traced(recorder, f, tensors, {})
    own = [out.slot if isinstance(out, Recorded) and out.recorder is recorder else None for out in outs]
    slots = [slot for slot in own if slot is not None]

    def push(tangents: Sequence[Any]) -> list[Any]:
        pushed = push_forward(recorder.equations, list(tangents), slots)
        found = [None if slot is None else pushed[slot] for slot in own]
        return [np.zeros(shape_of(out), _inexact(out)) if t is None else t for t, out in zip(found, outs, strict=True)]

    return push


def _inexact(value: Any) -> Any:
    return dtype_of(value) if dtype_of(value).kind in "fc" else np.float64


def pull_leaves(f: Callable[..., list[Any]], leaves: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
    """Return the cotangents of all leaves for those of what `f` makes of them; zeros for what has no derivative."""
    active = [i for i, leaf in enumerate(leaves) if dtype_of(leaf).kind in "fc"]
    found = vjp(_of_some(f, leaves, active), *[leaves[i] for i in active])[1](list(gs))
    by_place = dict(zip(active, found, strict=True))
    return [by_place[i] if i in by_place else np.zeros(shape_of(leaf)) for i, leaf in enumerate(leaves)]


def push_leaves(f: Callable[..., list[Any]], leaves: Sequence[Any], ts: dict[int, Any]) -> list[Any]:
    """Return the tangents of what `f` makes of leaves, given those of some leaves by their places."""
    active = sorted(ts)
    tangents: list[Any] = jvp(_of_some(f, leaves, active), [leaves[i] for i in active], [ts[i] for i in active])[1]
    return tangents


def _of_some(f: Callable[..., list[Any]], leaves: Sequence[Any], active: Sequence[int]) -> Callable[..., list[Any]]:
    def of_some(*given: Any) -> list[Any]:
        filled = list(leaves)
        for i, value in zip(active, given, strict=True):
            filled[i] = value
        return f(*filled)

    return of_some
