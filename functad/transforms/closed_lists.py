"""A function as a closed expression list: what it captured of outer traces becomes inputs.

That is how a sub-function gets into an equation of its own: the body of a loop, the equation that a solver solves, what a
checkpoint computes again. The list refers to no trace; an equation that holds it has the captured Tensors among its arguments,
so that derivatives flow to them.

What is recorded at a point may branch on values, as under `grad`, and the list is that of the branch taken: it may be evaluated
and differentiated there any number of times. What is recorded without values holds everywhere, as the body of a loop must.
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
    """A function of leaves as a list without references to any trace; calling it evaluates the list.

    Attributes:
        expressions: the list; its inputs are the leaves, then what was captured.
        captured: Tensors of outer traces, to be handed on as the last inputs.
        values: what the function gave when it was recorded, if it was at a point.
    """

    def __init__(self, expressions: Expressions, captured: Sequence[Any] = (), values: Sequence[Any] = ()) -> None:
        self.expressions = expressions
        self.captured = tuple(captured)
        self.values = tuple(values)
        self._run = evaluator(expressions)

    def __reduce__(self) -> Any:
        return Closed, (self.expressions, self.captured, self.values)

    def __call__(self, *leaves: Any) -> list[Any]:
        """Evaluate the list; on Tensors that is recorded."""
        return self._run(leaves)


class NoValueError(UnsupportedError):
    """A function that is recorded at a point uses a Tensor that has no value."""


class Noting(Recorder):
    """A trace at a point: it computes as a concrete one does, and keeps the equations that an abstract one keeps.

    Tensors of other traces stand in these as constants until the list is closed. Values are dropped as soon as the function
    drops them.

    Attributes:
        hold: returns what the list keeps of an array of the user.
        choose: returns the slots of which the values are to be kept when an operation has been noted.
        kept: by slot, these values.
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
        """Return the plain value of a Tensor.

        Raises:
            NoValueError: it has none.
        """
        value = innermost(a)
        if isinstance(value, ArraySpec):
            raise NoValueError(
                f"{self.transform}: {name_of(self.function)} uses a Tensor without a value that is no argument, at {here()}, "
                f"and a solver cannot be run without it. Pass it as a parameter."
            )
        return value

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call of a primitive, and note the equation if a derivative can flow through it."""
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
        """Return an argument as an input of an equation: a slot or a constant."""
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
        """Return a new array as a Tensor, into which others can be written."""
        own = self.value_of(value) if isinstance(value, Recorded) else value
        return self._made(COPY, (self._source(value),), {}, np.copy(own) if own is not value else own)


def closed_at(transform: str, function: object, f: LeafFunction, values: Sequence[Any]) -> Closed:
    """Record `f(*values)`, which returns a list of leaves, as a closed list.

    Args:
        transform: the name of the transform, for messages.
        function: the function of the user that `f` calls, for messages.
        f: a function of leaves.
        values: plain arrays and numbers.

    Raises:
        NoValueError: `f` uses a Tensor of an outer trace that has no values.
    """
    recorder = Noting(transform, function)
    expressions, results = listed(recorder, f, tuple(values), {})
    found = [recorder.value_of(out) if isinstance(out, Recorded) else out for out in results]
    lists, captured = close(expressions)
    return Closed(lists[0], captured, found)


def closed_anywhere(transform: str, function: object, f: LeafFunction, specs: Sequence[ArraySpec]) -> Closed:
    """Record `f`, which returns a list of leaves, without values, as a closed list that holds for all of them.

    Raises:
        AbstractValueError: `f` asks for a value.
    """
    lists, captured = close(listed(AbstractRecorder(transform, function), f, tuple(specs), {})[0])
    return Closed(lists[0], captured)


def close_bodies(
    transform: str, *bodies: tuple[Callable[..., Any], tuple[Any, ...]], operands: Sequence[Any] = ()
) -> tuple[list[Expressions], list[Any]]:
    """Trace bodies without values, each a function with its arguments or their specs, and return what `close` does of them.

    If one of `operands`, from which their arguments come, does not lie in C order, it is not known how these lie.
    """
    from functad.transforms.random_states import frozen_in_bodies  # noqa: PLC0415 - `import functad` needs no lists

    ordered = all(map(in_c_order, operands))
    with frozen_in_bodies(transform, [f for f, _ in bodies]):
        return close(*[trace(transform, f, args, {}, ordered=ordered) for f, args in bodies])


def close(*lists: Expressions) -> tuple[list[Expressions], list[Any]]:
    """Return lists with the same further inputs in place of the Tensors of outer traces that they hold, and these Tensors.

    What no output needs is dropped.
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
    """Return a key of the value that a Tensor stands for; the Tensors of batches have no slots."""
    tensor = source.value
    return tensor.recorder.serial, tensor.slot, id(tensor.below)


def _with_inputs(expressions: Expressions, captured: list[Any], order: dict[tuple[int, int, int], int]) -> Expressions:
    """Return a list with inputs for the captured values, after its own."""
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
    """Return the part of a list that computes some of its values from others, with no equation that is not needed.

    Its inputs are positional arguments, and its result is a tuple. Each source is replaced by `placed(source)`, if given.
    """
    specs, ends = expressions.specs, outputs if placed is None else list(map(placed, outputs))
    given = marks_at(inputs, len(specs))
    needed = marks_at([s for s in ends if type(s) is int and not given[s]], len(specs))
    kept: list[tuple[Equation, tuple[Any, ...]]] = []
    for e in reversed(expressions.equations):  # written out: lists may have 100,000 equations, and are cut several times
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

    if all(map(operator.eq, number, number.values())):  # nothing was dropped or captured, as is usual
        own = [e for e, _ in kept]
    else:
        own = [Equation(e.primitive, moved(sources), e.params, moved(e.outputs), e.place) for e, sources in kept]
    ins, outs = positional_structures(len(names), len(ends))
    return Expressions(tuple(names), tuple(own), moved(ends), tuple([specs[slot] for slot in number]), ins, outs)


def positional_structures(inputs: int, outputs: int) -> tuple[Structure, Structure]:
    """Return the structures of the inputs and outputs of a list of so many, which are positional and a tuple."""
    return _structures(inputs)[1], _structures(outputs)[0]


@functools.lru_cache
def _structures(count: int) -> tuple[Structure, Structure]:
    """Return the structure of a tuple of so many leaves, and that of positional arguments."""
    leaves = (0.0,) * count
    return flatten(leaves)[1], flatten((leaves, {}))[1]
