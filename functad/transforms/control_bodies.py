"""Bodies of control flow as closed expression lists, and their derivatives as functions of flat values.

A body is traced without values, whatever the trace around it. The Tensors of outer traces that it uses stand in its list as
constants; `close` turns them into further inputs, so that the equation that holds the list has them as inputs of its own and
derivatives flow to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.evaluate import evaluator
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.operands import absent, innermost
from functad.tracing.batching import Batched
from functad.tracing.recorder import ABSTRACT, OPEN, Recorded, Recorder
from functad.transforms.abstract import _trace
from functad.transforms.forward import jvp
from functad.transforms.gradient import vjp
from functad.trees import flatten

Flat = Callable[..., Sequence[Any]]
"""A function from leaves to leaves."""


def below(value: Any) -> Any:
    """Return what a value is below all traces: an array, that of all examples if it is batched, or a spec if none is known."""
    value = innermost(value)
    while isinstance(value, Batched):
        value = innermost(value.array)
    return value


def unknown(value: Any) -> bool:
    """Say whether only shape and dtype of a value are known."""
    return isinstance(value, Recorded) and isinstance(below(value), ArraySpec)


def listing(leaves: Sequence[Any]) -> bool:
    """Say whether control flow on these values is to become an equation of an expression list."""
    running = OPEN.get()
    return any(map(unknown, leaves)) or (type(running) is Recorder and running.mode is ABSTRACT)


def inexact(value: Any) -> bool:
    """Say whether a value, or what a spec stands for, can carry a derivative."""
    return dtype_of(value).kind in "fc"


def close(transform: str, *bodies: tuple[Callable[..., Any], tuple[Any, ...]]) -> tuple[list[Expressions], list[Any]]:
    """Trace bodies, each a function with its arguments or their specs, to closed lists with the same further inputs.

    Returns:
        The lists, from the leaves of the arguments and the captured values to those of the result; and the captured values.
    """
    traced = [_trace(transform, f, args, {}) for f, args in bodies]
    captured: dict[tuple[int, int, int], Any] = {}
    for expressions in traced:
        for source in _sources(expressions):
            if _is_captured(source):
                captured.setdefault(_place(source), source.value)
    order = {place: i for i, place in enumerate(captured)}
    return [_with_inputs(expressions, list(captured.values()), order) for expressions in traced], list(captured.values())


def _sources(expressions: Expressions) -> list[Any]:
    return [source for equation in expressions.equations for source in equation.inputs] + list(expressions.outputs)


def _is_captured(source: Any) -> bool:
    return isinstance(source, Constant) and isinstance(source.value, Recorded)


def _place(source: Constant) -> tuple[int, int, int]:
    """Return what is the same for Tensors that stand for the same value; those of batches have no slots."""
    tensor = source.value
    return tensor.recorder.serial, tensor.slot, id(tensor.value)


def _with_inputs(expressions: Expressions, captured: list[Any], order: dict[tuple[int, int, int], int]) -> Expressions:
    """Return a list with inputs for the captured values, after its own; the slots of its equations move up."""
    count, more = len(expressions.inputs), len(captured)

    def moved(source: Any) -> Any:
        if isinstance(source, Constant):
            return count + order[_place(source)] if _is_captured(source) else source
        return source if source < count else source + more

    equations = tuple(
        Equation(e.primitive, tuple(map(moved, e.inputs)), e.params, tuple(map(moved, e.outputs)))
        for e in expressions.equations
    )
    specs = (*expressions.specs[:count], *[spec_of(value) for value in captured], *expressions.specs[count:])
    names = (*expressions.inputs, *[f"outer[{i}]" for i in range(more)])
    return _flat_list(names, equations, tuple(map(moved, expressions.outputs)), specs)


def _flat_list(names: Sequence[str], equations: Any, outputs: Any, specs: Any) -> Expressions:
    """Return a list whose inputs are positional arguments, and whose result is a tuple."""
    ins, outs = flatten(((0.0,) * len(names), {}))[1], flatten((0.0,) * len(outputs))[1]
    return Expressions(tuple(names), tuple(equations), tuple(outputs), tuple(specs), ins, outs)


def extract(expressions: Expressions, inputs: Sequence[int], outputs: Sequence[Any], names: Sequence[str]) -> Expressions:
    """Return the part of a list that computes some of its values from others, with no equation that is not needed."""
    given = set(inputs)
    needed = {source for source in outputs if not isinstance(source, Constant)} - given
    kept = []
    for equation in reversed(expressions.equations):
        if not needed.isdisjoint(equation.outputs):
            kept.append(equation)
            needed |= {source for source in equation.inputs if not isinstance(source, Constant)} - given
    number = {slot: i for i, slot in enumerate(inputs)}
    for equation in reversed(kept):
        for slot in equation.outputs:
            number[slot] = len(number)

    def moved(sources: Any) -> tuple[Any, ...]:
        return tuple([source if isinstance(source, Constant) else number[source] for source in sources])

    equations = [Equation(e.primitive, moved(e.inputs), e.params, moved(e.outputs)) for e in reversed(kept)]
    return _flat_list(names, equations, moved(outputs), [expressions.specs[slot] for slot in number])


def specs_of(expressions: Expressions) -> list[ArraySpec]:
    """Return the specs of the results of a list."""
    return [spec_of(s.value) if isinstance(s, Constant) else expressions.specs[s] for s in expressions.outputs]


def flat(expressions: Expressions) -> Flat:
    """Return a list as a function of its inputs."""
    run = evaluator(expressions)
    return lambda *leaves: run(leaves)


def pushed(f: Flat, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results of a flat function and their tangents, `None` for what can have none; `None` stands for zero."""
    moving = [i for i, t in enumerate(tangents) if t is not None]

    def along(*given: Any) -> Any:
        return list(f(*_replaced(primals, moving, given)))

    values, found = jvp(along, [primals[i] for i in moving], [tangents[i] for i in moving])
    return values, [t if inexact(value) else None for value, t in zip(values, found, strict=True)]


def pulled(f: Flat, primals: Sequence[Any], wrt: Sequence[int], gs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results of a flat function, and the cotangents of the arguments at positions `wrt`.

    Args:
        f: the function.
        primals: its arguments.
        wrt: positions of floating-point arguments.
        gs: cotangents of the floating-point results; what stands for others is not looked at.
    """

    def of(*given: Any) -> Any:
        outs = list(f(*_replaced(primals, wrt, given)))
        return [out for out in outs if inexact(out)], outs

    values, pull, outs = vjp(of, *[primals[i] for i in wrt], has_aux=True)
    chosen = [g for g, out in zip(gs, outs, strict=True) if inexact(out)] if len(gs) == len(outs) else list(gs)
    return outs, list(pull(chosen)) if values else [np.zeros(shape_of(primals[i]), dtype_of(primals[i])) for i in wrt]


def _replaced(values: Sequence[Any], places: Sequence[int], given: Sequence[Any]) -> list[Any]:
    result = list(values)
    for i, value in zip(places, given, strict=True):
        result[i] = value
    return result


def spread(found: Sequence[Any], wrt: Sequence[int], arrays: Sequence[Any]) -> list[Any]:
    """Return cotangents for all arguments: those found at the positions `wrt`, and zeros that take no memory elsewhere."""
    result = [absent(shape_of(a), dtype_of(a)) for a in arrays]
    return _replaced(result, wrt, found)
