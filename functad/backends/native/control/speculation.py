"""Speculative loops: run a loop with plain products first, and again with guards if a result is NaN.

Guards are the operations of `functad.primitives.safe`, in which an exact zero wins over NaN. They change nothing unless a NaN
arises. If every operation after a guard propagates NaN, both loops agree whenever the results of the plain loop have no NaN.
The second loop pays off if each operation waits for the previous one, as in a step of a few numbers: RK4 of three numbers takes
0.6 of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.native.arrays import Memory
from functad.backends.native.plan import TINY, is_native
from functad.backends.native.writer import Writer
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.loops.build import Code, Index
from functad.loops.ir import REALS
from functad.loops.values import Value
from functad.primitives.elementwise.elementary import DIVIDE
from functad.primitives.entry import ENTRIES
from functad.primitives.safe import MENDED, PRODUCT, QUOTIENT, passed_on

FEWEST = 4
"""With fewer guards, a second loop is not worth its compile time."""


def without_guards(body: Expressions, carries: int) -> Expressions | None:
    """Return the step of a loop without guards; `None` if guards are few, arrays are large, or a NaN might be lost.

    Args:
        body: the step.
        carries: the number of carries, which are the first inputs of the step.
    """
    guards = [e for e in body.equations if e.primitive in (PRODUCT, QUOTIENT, MENDED)]
    small = all(spec.size <= TINY for spec in body.specs)
    if not small or len(guards) < FEWEST or not _pass_on(body, carries, guards):
        return None
    moved: dict[int, Any] = {}
    kept = []
    for equation in body.equations:
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in equation.inputs])
        primitive: Any = equation.primitive
        if primitive is MENDED:
            [out] = equation.outputs
            if type(inputs[0]) is not int or body.specs[inputs[0]] != body.specs[out]:
                return None
            moved[out] = inputs[0]
            continue
        primitive = ENTRIES[np.multiply] if primitive is PRODUCT else DIVIDE if primitive is QUOTIENT else primitive
        kept.append(Equation(primitive, inputs, equation.params, equation.outputs))
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in body.outputs])
    plain = body.replace(equations=tuple(kept), outputs=outputs)
    return plain if is_native(plain) else None


def _pass_on(body: Expressions, carries: int, guards: Sequence[Equation]) -> bool:
    """Return `True` if every equation that depends on a guard propagates NaN."""
    behind = {s for e in guards for s in e.outputs}
    before = -1
    while len(behind) != before:  # results of a step are inputs of the next one
        before = len(behind)
        behind |= {i for i in range(carries) if body.outputs[i] in behind}
        for e in body.equations:
            if any(s in behind for s in e.inputs if type(s) is int):
                behind.update(e.outputs)
    return all(_passes(e, behind, body.specs) for e in body.equations)


def _passes(equation: Equation, behind: set[int], specs: Sequence[ArraySpec]) -> bool:
    """Return `True` if an equation propagates NaN from each of its inputs in `behind`."""
    passed = passed_on(equation, specs)
    return all(place in passed for place, s in enumerate(equation.inputs) if type(s) is int and s in behind)


def met_nan(writer: Writer, arrays: Sequence[Memory]) -> Value:
    """Write a search for NaN and return its flag: true if an array has a NaN."""
    code = writer.code
    flag = code.allocate("i1", 1)
    code.store(flag, 0, code.constant(0, "i1"))
    for array in arrays:
        if array.kind in REALS:
            inner = Code(fused=code.fused, outer=code)
            found = inner.allocate("i1", 1)
            inner.store(found, 0, inner.constant(0, "i1"))
            _search(inner, array, found, [])
            place = inner.own(flag)
            inner.store(place, 0, inner.load(place, 0, "i1") | inner.load(found, 0, "i1"))
            writer.module.call(code, inner)
    return code.load(flag, 0, "i1")


def _search(code: Code, array: Memory, found: Value, index: list[Index]) -> None:
    axis = len(index)
    if axis == len(array.shape):
        value = code.load(code.own(array.pointer), array.place(code, index), array.kind)
        code.store(found, 0, code.load(found, 0, "i1") | value.is_nan())
        return
    with code.loop(0, array.shape[axis], straight=axis + 1 == len(array.shape)) as i:
        _search(code, array, found, [*index, i])
