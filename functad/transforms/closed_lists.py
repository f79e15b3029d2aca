"""Closed expression lists: captured Tensors of outer traces become inputs of the list.

Equations hold sub-functions as closed lists: the body of a loop, the function of a solver, the function of a checkpoint. A
closed list refers to no trace. The equation that holds the list takes the captured Tensors as arguments, so derivatives flow to
them.

A function recorded at a point (`closed_at`) may branch on values, as under `grad`. Its list holds the taken branch and is valid
at this point only. A list recorded without values (`closed_anywhere`) is valid everywhere; bodies of loops need that.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions, evaluator
from functad.expressions.records import marks_at
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import here, name_of
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.entry import Primitive
from functad.primitives.operands import innermost
from functad.tracing.constants import with_arrays
from functad.tracing.traces.abstract import AbstractRecorder
from functad.tracing.traces.base import Recorded, Recorder, resolve, user_place
from functad.tracing.views import clone, in_c_order, note_if_view
from functad.transforms.abstract import listed, trace
from functad.transforms.leaves import LeafFunction
from functad.trees.structure import Structure, flatten


class Closed:
    """A function of leaves as a closed expression list; a call evaluates the list.

    Attributes:
        expressions: the list. Its inputs are the leaves, then the captured Tensors.
        captured: the captured Tensors of outer traces.
        values: the results at the point where the function was recorded; empty if it was recorded without values.
    """

    def __init__(self, expressions: Expressions, captured: Sequence[Any] = (), values: Sequence[Any] = ()) -> None:
        self.expressions = expressions
        self.captured = tuple(captured)
        self.values = tuple(values)
        self._run = evaluator(expressions)

    def __reduce__(self) -> Any:
        return Closed, (self.expressions, self.captured, self.values)

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the results of the list; Tensor arguments record the evaluation."""
        return self._run(leaves)


class NoValueError(UnsupportedError):
    """The error for a function recorded at a point that uses a Tensor without a value."""


class Noting(Recorder):
    """A trace at a point: it computes values like a concrete trace, and records equations like an abstract trace.

    Tensors of other traces are constants in the equations until the list is closed. The trace keeps no values, except those
    that `choose` selects.

    Attributes:
        specs: the spec of each slot.
        hold: `hold(array)` returns the array, or the copy, that the list keeps of an array of the user.
        choose: `choose(equation)` returns the slots of a new equation with values to keep.
        kept: the kept values by slot.
    """

    pulls = True
    sees_inside = True

    def __init__(
        self,
        transform: str,
        function: object,
        hold: Callable[[Any], Any] = np.copy,
        choose: Callable[[Equation], Sequence[int]] = lambda equation: (),
    ) -> None:
        super().__init__(transform, function)
        self.specs: list[ArraySpec] = []
        self.hold = hold
        self.choose = choose
        self.kept: dict[int, Any] = {}

    def enter(self, value: Any) -> Any:
        """Add an input and return its Tensor."""
        self.specs.append(spec_of(value))
        return super().enter(value)

    def value_of(self, a: Any) -> Any:
        """Return the innermost value of a Tensor.

        Raises:
            NoValueError: the Tensor has no value.
        """
        value = innermost(a)
        if isinstance(value, ArraySpec):
            raise NoValueError(
                f"{self.transform}: {name_of(self.function)} uses a Tensor without a value that is no argument, at {here()}, "
                f"and a solver cannot be run without it. Pass it as a parameter."
            )
        return value

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call of a primitive, and record the equation if a derivative can flow through it."""
        given = [resolve(a) if isinstance(a, Recorded) else a for a in arrays]
        values = [self.value_of(a) if isinstance(a, Recorded) else a for a in given]
        out = primitive.compute(*values, **params)
        alive = any(isinstance(a, Recorded) and (primitive.joint or primitive.differentiable(i)) for i, a in enumerate(given))
        if out is NotImplemented or not alive:
            return out
        made = self._made(primitive, tuple(map(self._source, given)), params, out)
        if primitive.views:
            note_if_view(arrays[0], made, values[0], out, primitive, params)
        return made

    def _source(self, a: Any) -> int | Constant:
        """Return an argument as a source of an equation: a slot or a constant."""
        if isinstance(a, Recorded):
            return a.slot if a.recorder is self else Constant(clone(a))
        return Constant(self.hold(a) if type(a) is np.ndarray else a)

    def _made(self, primitive: Primitive, sources: tuple[int | Constant, ...], params: dict[str, Any], out: Any) -> Any:
        results = out if primitive.multiple else (out,)
        first = len(self.equations)
        own = {name: with_arrays(value, self.hold) for name, value in params.items()}
        equation = Equation(primitive, sources, own, tuple(range(first, first + len(results))))
        self.specs.extend(map(spec_of, results))
        values = dict(zip(equation.outputs, results, strict=True))
        self.kept |= {slot: values.get(slot, results[0]) for slot in self.choose(equation)}
        return (self.append_results if primitive.multiple else self.append)(equation, out, *user_place())

    def buffer(self, value: Any) -> Any:
        """Return a Tensor with a copy of an array, for writes in place."""
        own = self.value_of(value) if isinstance(value, Recorded) else value
        return self._made(COPY, (self._source(value),), {}, np.copy(own) if own is not value else own)


def closed_at(transform: str, function: object, f: LeafFunction, values: Sequence[Any]) -> Closed:
    """Return `f`, recorded at a point, as a closed list.

    Args:
        transform: the name of the transform, for messages.
        function: the function of the user that `f` calls, for messages.
        f: a function from leaves to a list of leaves.
        values: the point: plain arrays and numbers.

    Raises:
        NoValueError: `f` uses a Tensor of an outer trace without values.
    """
    recorder = Noting(transform, function)
    expressions, results = listed(recorder, f, tuple(values), {})
    found = [recorder.value_of(out) if isinstance(out, Recorded) else out for out in results]
    lists, captured = close(expressions)
    return Closed(lists[0], captured, found)


def closed_anywhere(transform: str, function: object, f: LeafFunction, specs: Sequence[ArraySpec]) -> Closed:
    """Return `f`, recorded without values, as a closed list that is valid for all values.

    Raises:
        AbstractValueError: `f` needs the value of a Tensor.
    """
    lists, captured = close(listed(AbstractRecorder(transform, function), f, tuple(specs), {})[0])
    return Closed(lists[0], captured)


def close_bodies(
    transform: str, *bodies: tuple[Callable[..., Any], tuple[Any, ...]], operands: Sequence[Any] = ()
) -> tuple[list[Expressions], list[Any]]:
    """Return closed lists of `bodies`, traced without values, and the captured Tensors.

    Args:
        transform: the name of the transform, for messages.
        bodies: pairs of a function and its arguments or their specs.
        operands: the sources of these arguments. Unless all are in C order, the memory order of the arguments is unknown.
    """
    from functad.transforms.random_states import frozen_in_bodies  # noqa: PLC0415 - `import functad` needs no lists

    ordered = all(map(in_c_order, operands))
    with frozen_in_bodies(transform, [f for f, _ in bodies]):
        return close(*[trace(transform, f, args, {}, ordered=ordered) for f, args in bodies])


def close(*lists: Expressions) -> tuple[list[Expressions], list[Any]]:
    """Return closed lists, with inputs appended for the captured Tensors of all lists, and these Tensors.

    Equations that no output needs are removed.
    """
    captured: dict[tuple[int, int, int], Any] = {}
    for expressions in lists:
        for sources in (*[equation.inputs for equation in expressions.equations], expressions.outputs):
            for source in sources:
                if isinstance(source, Constant) and isinstance(source.value, Recorded):
                    captured.setdefault(_place(source), source.value)
    order = {place: i for i, place in enumerate(captured)}
    tensors = list(captured.values())
    return [_with_inputs(expressions, tensors, order) for expressions in lists], tensors


def _place(source: Constant) -> tuple[int, int, int]:
    """Return a key of a captured value, with the `id` of its value because Tensors of batches have no slots."""
    tensor = source.value
    return tensor.recorder.serial, tensor.slot, id(tensor.below)


def _with_inputs(expressions: Expressions, captured: list[Any], order: dict[tuple[int, int, int], int]) -> Expressions:
    """Return a list with inputs for the captured Tensors appended."""
    count, first = len(expressions.inputs), len(expressions.specs)

    def placed(source: Any) -> Any:
        captures = type(source) is Constant and isinstance(source.value, Recorded)
        return first + order[_place(source)] if captures else source

    specs = (*expressions.specs, *map(spec_of, captured))
    names = (*expressions.inputs, *[f"outer[{i}]" for i in range(len(captured))])
    inputs = [*range(count), *range(first, first + len(captured))]
    return extract(expressions.replace(specs=specs), inputs, expressions.outputs, names, placed)


def extract(
    expressions: Expressions,
    inputs: Sequence[int],
    outputs: Sequence[Any],
    names: Sequence[str],
    placed: Callable[[Any], Any] | None = None,
) -> Expressions:
    """Return the part of a list that computes `outputs` from `inputs`, without dead code.

    The inputs become positional arguments, and the result is a tuple.

    Args:
        expressions: the list.
        inputs: the slots of the inputs.
        outputs: the sources of the results.
        names: the names of the inputs.
        placed: a function that replaces each source, or `None`.
    """
    specs, ends = expressions.specs, outputs if placed is None else list(map(placed, outputs))
    given = marks_at(inputs, len(specs))
    needed = marks_at([s for s in ends if type(s) is int and not given[s]], len(specs))
    kept: list[tuple[Equation, tuple[Any, ...]]] = []
    for e in reversed(expressions.equations):  # inlined: a list may have 100,000 equations, and is cut several times
        for slot in e.outputs:
            if needed[slot]:
                break
        else:
            continue
        sources = e.inputs if placed is None else tuple(map(placed, e.inputs))
        kept.append((e, sources))
        for s in sources:
            if type(s) is int and not given[s]:
                needed[s] = 1
    kept.reverse()
    number = {slot: i for i, slot in enumerate([*inputs, *[slot for e, _ in kept for slot in e.outputs]])}

    def moved(sources: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([source if type(source) is Constant else number[source] for source in sources])

    if all(map(operator.eq, number, number.values())):  # the common case: no slot changes
        own = [e for e, _ in kept]
    else:
        own = [Equation(e.primitive, moved(sources), e.params, moved(e.outputs), e.place) for e, sources in kept]
    ins, outs = positional_structures(len(names), len(ends))
    return Expressions(tuple(names), tuple(own), moved(ends), tuple([specs[slot] for slot in number]), ins, outs)


def positional_structures(inputs: int, outputs: int) -> tuple[Structure, Structure]:
    """Return the structures of `inputs` positional arguments and of a tuple of `outputs` results."""
    return _structures(inputs)[1], _structures(outputs)[0]


@functools.lru_cache
def _structures(count: int) -> tuple[Structure, Structure]:
    """Return the structure of a tuple of `count` leaves, and the structure of `count` positional arguments."""
    leaves = (0.0,) * count
    return flatten(leaves)[1], flatten((leaves, {}))[1]
