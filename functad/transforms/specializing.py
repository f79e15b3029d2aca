"""Running a function on values while noting what it does: the expression list of this very run, and its results.

Python's `if` and `while` work, as under `grad`, and the list is that of the branch taken. What it holds beside the operations
are constants; the values in between are free as soon as the function drops them. Tensors of the traces around it that the
function uses become inputs of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.conversion import COPY
from functad.primitives.operands import innermost
from functad.primitives.primitive import Primitive
from functad.tracing import recorder as recording
from functad.tracing.constants import held
from functad.tracing.recorder import ABSTRACT, REVERSE, Recorded, Recorder, awake, new_input
from functad.tracing.tensor import Tensor
from functad.tracing.views import clone, note_view, shares
from functad.transforms.arguments import check_result, traced
from functad.trees import Structure, flatten

Keeps = Callable[[Equation], bool]


@dataclass
class Run:
    """What a function did.

    Attributes:
        inputs: the Tensors that it was given, then those that it used although it was not given them.
        slots: those of the inputs.
        equations: what was computed, in order.
        specs: by slot, shape and dtype.
        outputs: slots of the results that depend on the inputs.
        values: of these results; `None` if the trace was abstract.
        kept: by slot, values to keep.
        result: puts the whole result together from the results that depend on the inputs.
    """

    inputs: list[Any]
    slots: list[int]
    equations: list[Equation]
    specs: dict[int, Any]
    outputs: list[int]
    values: tuple[Any, ...] | None
    kept: dict[int, Any]
    result: Callable[[Sequence[Any]], Any]


class _Noting(Recorder):
    """The trace of one run. It computes as a concrete one does, and keeps the equations that an abstract one keeps.

    Attributes:
        keeper: the trace that constants are held for.
        captured: by trace and slot, Tensors of other traces, and their slots here.
        noted: the equations.
        about: by slot, shape and dtype.
        choose: says of which operations the values are to be kept.
        kept: by slot, these values.
    """

    def __init__(self, function: object, keeper: Recorder, keeps: Keeps) -> None:
        super().__init__(REVERSE, "checkpoint", function)
        self.eager = False  # everything goes through `record`, which calls `follow`
        self.watch = None
        self.keeper = keeper
        self.captured: dict[Any, tuple[int, Any]] = {}
        self.noted: list[Equation] = []
        self.about: dict[int, Any] = {}
        self.choose = keeps
        self.kept: dict[int, Any] = {}

    def follow(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute, and note the equation if a derivative flows through it."""
        sources: list[int | Constant] = []
        values: list[Any] = []
        active = False
        for i, a in enumerate(arrays):
            a = awake(a) if isinstance(a, Recorded) else a
            if isinstance(a, Recorded):
                slot = a.slot if a.recorder is self else self._slot_of(a)
                active = active or primitive.joint or primitive.differentiable(i)
                sources.append(slot)
                values.append(_known(innermost(a)))
            else:
                sources.append(Constant(held(a, self.keeper) if type(a) is np.ndarray else a))
                values.append(a)
        out = primitive.compute(*values, **params)
        if out is NotImplemented or not active:
            return out
        made = self._made(primitive, tuple(sources), params, out)
        if primitive.views and shares(out, values[0]):
            note_view(arrays[0], made, primitive, params)
        return made

    def _made(self, primitive: Primitive, sources: Any, params: dict[str, Any], out: Any) -> Any:
        results = out if primitive.multiple else (out,)
        first = len(self.equations)
        equation = Equation(primitive, sources, params, tuple(range(first, first + len(results))))
        self.noted.append(equation)
        self.about.update({first + i: (shape_of(value), dtype_of(value)) for i, value in enumerate(results)})
        if self.choose(equation):
            self.kept.update(zip(equation.outputs, results, strict=True))
            if primitive.name == "checkpoint_name" and not isinstance(sources[0], Constant):
                self.kept[sources[0]] = results[0]  # the same value, which made the rules before it
        if primitive.multiple:
            return recording._results(Tensor, self, out, None)
        return recording._tensor(Tensor, self, out, None)

    def made(self, value: Any) -> Any:
        """Return a new array as a Tensor, into which others can be written."""
        return self._made(COPY, (Constant(value.copy()),), {}, value)

    def _slot_of(self, tensor: Recorded) -> int:
        """Return the slot of the input that a Tensor of another trace becomes."""
        key = tensor.recorder.serial, tensor.slot
        if key not in self.captured:
            self.captured[key] = len(self.equations), clone(tensor)
            self.equations.append(None)
        return self.captured[key][0]


class _NoValueError(Exception):
    """A function used a Tensor whose value is not known, though its arguments are."""


def _known(value: Any) -> Any:
    if isinstance(value, ArraySpec):
        raise _NoValueError
    return value


def run(function: Callable[..., Any], tree: Any, places: Sequence[int], keeper: Recorder, keeps: Keeps) -> Run:
    """Run a function, and return what it did.

    Args:
        function: called as `function(*args, **kwargs)`.
        tree: its arguments `(args, kwargs)`.
        places: which leaves of these are Tensors that are followed; the others are constants.
        keeper: the newest trace among them, which will hold what was noted.
        keeps: says of which operations the values are to be kept.
    """
    leaves, structure = flatten(tree)
    given = [leaves[i] for i in places]
    values = [innermost(t) for t in given]
    if not any(isinstance(value, ArraySpec) for value in values):
        noting = _Noting(function, keeper, keeps)
        try:
            results = _traced(noting, function, structure, leaves, places, values)
        except _NoValueError:
            pass
        else:
            captured = list(noting.captured.values())
            return _as_run(noting, results, (given, captured), (noting.noted, noting.about), noting.kept)
    recorder = Recorder(ABSTRACT, "checkpoint", function)
    specs = [_of_one(value) for value in values]
    results = _traced(recorder, function, structure, leaves, places, specs)
    equations, captured = _with_inputs(recorder)
    about = {slot: (spec.shape, spec.dtype) for slot, spec in enumerate(recorder.specs)}
    kept = {slot: None for e in equations if keeps(e) for slot in _kept_slots(e)}
    return _as_run(recorder, results, (given, captured), (equations, about), kept)


def _traced(
    recorder: Recorder, function: Callable[..., Any], structure: Structure, leaves: list[Any], places: Any, values: Any
) -> Any:
    """Return what a function returns for Tensors of a trace."""
    own = list(leaves)
    for i, value in zip(places, values, strict=True):
        own[i] = new_input(Tensor, recorder, value)
    args, kwargs = structure.unflatten(own)
    return traced(recorder, function, args, kwargs)


def _as_run(recorder: Recorder, tree: Any, inputs: tuple[list[Any], list[Any]], noted: tuple[Any, Any], kept: Any) -> Run:
    results, form = flatten(tree)
    for leaf, path in zip(results, form.paths("result"), strict=True):
        check_result(leaf, path, "checkpoint", recorder.function)
    own = [i for i, leaf in enumerate(results) if isinstance(leaf, Recorded) and leaf.recorder is recorder]
    known = None if recorder.mode is ABSTRACT else tuple([results[i].value for i in own])
    rest = [None if i in own else leaf for i, leaf in enumerate(results)]
    given, captured = inputs
    slots = [*range(len(given)), *[slot for slot, _ in captured]]
    tensors = [*given, *[t for _, t in captured]]
    return Run(tensors, slots, *noted, [results[i].slot for i in own], known, kept, _joined(rest, own, form))


def _of_one(value: Any) -> ArraySpec:
    """Return what is known of a value; of a batch, that of one example."""
    spec = spec_of(value)
    return ArraySpec(spec.shape, spec.dtype, spec.weak)


def _kept_slots(equation: Equation) -> list[int]:
    """Return the slots whose values are kept with an operation; what was given a name is the result of the one before it."""
    sources = (
        [s for s in equation.inputs if not isinstance(s, Constant)] if equation.primitive.name == "checkpoint_name" else []
    )
    return [*equation.outputs, *sources]


def _with_inputs(recorder: Recorder) -> tuple[list[Equation], list[tuple[int, Any]]]:
    """Return the equations of an abstract trace with slots in place of the Tensors of other traces, and these."""
    captured: dict[Any, tuple[int, Any]] = {}

    def slot_of(source: int | Constant) -> int | Constant:
        tensor = awake(source.value) if isinstance(source, Constant) and isinstance(source.value, Recorded) else None
        if not isinstance(tensor, Recorded):
            return source if tensor is None else Constant(tensor)
        key = tensor.recorder.serial, tensor.slot
        return captured.setdefault(key, (len(recorder.equations) + len(captured), tensor))[0]

    equations = [
        Equation(e.primitive, tuple(map(slot_of, e.inputs)), e.params, e.outputs) for e in recorder.equations if e is not None
    ]
    return equations, list(captured.values())


def _joined(rest: list[Any], own: list[int], form: Structure) -> Callable[[Sequence[Any]], Any]:
    def join(outs: Sequence[Any]) -> Any:
        leaves = list(rest)
        for i, out in zip(own, outs, strict=True):
            leaves[i] = out
        return form.unflatten(leaves)

    return join
