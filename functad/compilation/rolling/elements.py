"""Store-to-load forwarding: replace reads of arrays that are filled element by element.

A read becomes the value written at its index, or a read of the array before the first write.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from functad.compilation.rolling.labels import Indices, positions, taken_apart
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import WRITE


class _Writes:
    """A chain of writes to one array at indices of the same form, one element or row each.

    Attributes:
        array: the array before the first write.
        template: the index without its integers.
        count: the number of writes.
        values: for the integers of each index: the write counts (ascending) and the values written.
    """

    def __init__(self, array: int | Constant, template: Any) -> None:
        self.array = array
        self.count = 0
        self.template = template
        self.values: dict[Indices, tuple[list[int], list[int | Constant]]] = {}


class _Elements:
    """Track the writes of an expression list."""

    def __init__(self, expressions: Expressions) -> None:
        self.specs = expressions.specs
        self.writes: dict[int, tuple[_Writes, int]] = {}
        self.moved: dict[int, int] = {}

    def write(self, equation: Equation) -> None:
        """Record a write."""
        array, value = equation.inputs
        index = equation.params["index"]
        if equation.params["path"] or not is_basic(index):
            return
        template = taken_apart(index)[0]
        own, count = self.writes.get(array, (None, 0)) if type(array) is int else (None, 0)
        if own is None or own.template != template or own.count != count:  # an array may be written to in two ways
            own = _Writes(array, template)
        own.count += 1
        turns, values = own.values.setdefault(positions(index, self.specs[equation.outputs[0]].shape), ([], []))
        turns.append(own.count)
        values.append(value)
        self.writes[equation.outputs[0]] = own, own.count

    def read(self, equation: Equation) -> Equation | None:
        """Return the read, or an equivalent read of the array before the writes; `None` if the result is a written value."""
        [array], index = equation.inputs, equation.params["index"]
        if type(array) is not int or array not in self.writes or not is_basic(index):
            return equation
        own, count = self.writes[array]
        if taken_apart(index)[0] != own.template:
            return equation
        turns, values = own.values.get(positions(index, self.specs[array].shape), ([], []))
        at = bisect_right(turns, count)
        if not at:
            return Equation(GETITEM, (own.array,), equation.params, equation.outputs)
        value, [out] = values[at - 1], equation.outputs
        if type(value) is not int or self.specs[value] != self.specs[out]:
            return equation
        self.moved[out] = value
        return None


def elements_read(expressions: Expressions) -> Expressions:
    """Return an expression list with reads of written elements replaced by the written values."""
    if not any(e.primitive is WRITE for e in expressions.equations):
        return expressions
    elements = _Elements(expressions)
    moved = elements.moved
    equations = []
    for equation in expressions.equations:
        e: Equation | None = equation
        if any(type(s) is int and s in moved for s in equation.inputs):
            inputs = tuple([moved.get(s, s) if type(s) is int else s for s in equation.inputs])
            e = Equation(equation.primitive, inputs, equation.params, equation.outputs)
        if e is not None and e.primitive is WRITE:
            elements.write(e)
        elif e is not None and e.primitive is GETITEM:
            e = elements.read(e)
        if e is not None:
            equations.append(e)
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs)
