"""Scheduling: the order of the equations of a list determines its peak memory.

A traced list of forward mode computes all values first and their tangents after them, so the residuals of each step live
until the end. In order of depth, each tangent follows its step. A list of reverse mode needs the residuals in reverse order
and gains nothing. So the order by depth is used only if it needs less memory.
"""

from __future__ import annotations

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of, last_readers

WORTHWHILE = 0.75
"""The traced order, which is easiest to read, is given up below this share of its peak memory."""


def in_order(expressions: Expressions) -> Expressions:
    """Return the list unchanged, or in order of depth if that needs much less peak memory."""
    order = by_depth(expressions)
    if order == list(range(len(order))):
        return expressions
    other = reordered(expressions, order)
    return other if peak_bytes(other) < WORTHWHILE * peak_bytes(expressions) else expressions


def by_depth(expressions: Expressions) -> list[int]:
    """Return the indices of the equations, sorted by depth: the length of the longest path from an input."""
    depths = [0] * len(expressions.specs)
    for equation in expressions.equations:
        depth = 1 + max([depths[slot] for slot in inputs_of(equation)], default=0)
        for slot in equation.outputs:
            depths[slot] = depth
    return sorted(range(len(expressions.equations)), key=lambda i: depths[expressions.equations[i].outputs[0]])


def reordered(expressions: Expressions, order: list[int]) -> Expressions:
    """Return a list with its equations in another order. `order` must be a topological order."""
    number = list(range(len(expressions.specs)))
    specs = list(expressions.specs[: len(expressions.inputs)])
    equations = []
    for i in order:
        e = expressions.equations[i]
        inputs = tuple([number[s] if type(s) is int else s for s in e.inputs])
        for slot in e.outputs:
            number[slot] = len(specs)
            specs.append(expressions.specs[slot])
        equations.append(Equation(e.primitive, inputs, e.params, tuple([number[s] for s in e.outputs])))
    outputs = tuple([number[s] if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs, specs=tuple(specs))


def peak_bytes(expressions: Expressions) -> int:
    """Return the maximal number of bytes of all values alive at one time, inputs included."""
    specs, count = expressions.specs, len(expressions.inputs)
    last = last_readers(expressions.equations, expressions.outputs)
    peak = live = sum([spec.nbytes for spec in specs[:count]])
    for number, equation in enumerate(expressions.equations):
        live += sum([specs[s].nbytes for s in equation.outputs])
        peak = max(peak, live)
        ended = {s for s in (*inputs_of(equation), *equation.outputs) if last.get(s, number) == number}
        live -= sum([specs[s].nbytes for s in ended if s >= count])
    return peak
