"""The order of the equations of a list, which decides how many of its values live at one time.

A list of forward mode is traced with all values first and their tangents behind them, so what the tangents need of each step
lives until the last. By depth, each tangent follows the step that it belongs to. A list of reverse mode goes back through what
it made, and gains nothing. So the order by depth is taken where less memory is held in it.
"""

from __future__ import annotations

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of, last_readers

WORTHWHILE = 0.75
"""The share of the memory from which on the order of the program, in which it is easiest to read, is given up."""


def in_order(expressions: Expressions) -> Expressions:
    """Return the list as it is, or by depth where that holds much less memory at one time."""
    order = by_depth(expressions)
    if order == list(range(len(order))):
        return expressions
    other = reordered(expressions, order)
    return other if peak_bytes(other) < WORTHWHILE * peak_bytes(expressions) else expressions


def by_depth(expressions: Expressions) -> list[int]:
    """Return the indices of the equations by the number of equations on the longest way to them."""
    depths = [0] * len(expressions.specs)
    for equation in expressions.equations:
        depth = 1 + max([depths[slot] for slot in inputs_of(equation)], default=0)
        for slot in equation.outputs:
            depths[slot] = depth
    return sorted(range(len(expressions.equations)), key=lambda i: depths[expressions.equations[i].outputs[0]])


def reordered(expressions: Expressions, order: list[int]) -> Expressions:
    """Return a list with its equations in another order, in which each comes behind those that it reads."""
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
    """Return the bytes of the values that live at one time, inputs included."""
    specs, count = expressions.specs, len(expressions.inputs)
    last = last_readers(expressions.equations, expressions.outputs)
    peak = live = sum([spec.nbytes for spec in specs[:count]])
    for number, equation in enumerate(expressions.equations):
        live += sum([specs[s].nbytes for s in equation.outputs])
        peak = max(peak, live)
        ended = {s for s in (*inputs_of(equation), *equation.outputs) if last.get(s, number) == number}
        live -= sum([specs[s].nbytes for s in ended if s >= count])
    return peak
