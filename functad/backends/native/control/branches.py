"""Lowering of `cond` and `switch`: one branch runs, and every branch writes its results to the same memory."""

from __future__ import annotations

from collections.abc import Sequence

from functad.backends.native.arrays import Array, Memory
from functad.backends.native.control.loops import held, written
from functad.backends.native.lowering import Lowered, Own, row
from functad.backends.native.plan import is_native
from functad.backends.native.writer import Writer
from functad.control.branches import COND, SWITCH
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import Code
from functad.loops.values import Value, where


@row(COND, SWITCH)
def _branches(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    branches = equation.params["branches"]
    if given[0].shape or not all(map(is_native, branches)):
        return None

    def write(writer: Writer, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        code, index = writer.code, operands[0].at(writer.code, ())
        values = [held(writer, array) for array in operands[1:]]
        for number, branch in enumerate(branches):
            with code.when(_is_taken(code, index, number, len(branches))):
                found = writer.inline(branch, values, outs)
                for array, out in zip(found, outs, strict=True):
                    written(writer, array, out)

    return Own(write, cost=100.0)


def _is_taken(code: Code, index: Value, number: int, count: int) -> Value:
    """Return the condition that `index` selects branch `number`; an index out of range is clipped."""
    if count == 1:
        return code.constant(1, "i1")
    if index.kind == "i1":
        return index if number else ~index
    index = where(index < 0, 0, index)
    return index >= number if number == count - 1 else index.equals(number)
