"""Replace scatters that fill an array with `np.stack` or `np.concatenate`, which need one NumPy call."""

from __future__ import annotations

from typing import Any

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.arranging.join import CONCATENATE, STACK
from functad.primitives.arranging.reshape import RESHAPE
from functad.primitives.indexing.read import SCATTER

_LARGEST = 2**16
"""Maximal bytes of such an array. Scatters into larger arrays are limited by memory bandwidth anyway."""


def put_together(expressions: Expressions) -> Expressions:
    """Return a list with scatters that fill an array replaced by stacks, which keep the signs of zeros.

    A stack with a reshape that joins its first two axes becomes a concatenation.
    """
    if not any(e.primitive is SCATTER for e in expressions.equations):
        return expressions
    equations, stacks = list[Equation](), dict[int, Equation]()
    for e in expressions.equations:
        [slot] = e.outputs if len(e.outputs) == 1 else (-1,)
        new = _stacked(e, expressions) if e.primitive is SCATTER else e
        if new.primitive is STACK and new.params["axis"] == 0:
            stacks[slot] = new
        elif new.primitive is RESHAPE and new.inputs[0] in stacks:
            new = _concatenated(new, stacks[new.inputs[0]], expressions)
        equations.append(new)
    return expressions.replace(equations=tuple(equations))


def _stacked(e: Equation, expressions: Expressions) -> Equation:
    """Return a stack in place of a scatter that fills an array with rows, or `e` for other scatters."""
    out, indices = expressions.specs[e.outputs[0]], e.params["indices"]
    if not out.shape or len(indices) != out.shape[0] or out.size * out.dtype.itemsize > _LARGEST:
        return e
    if any(type(i) is not int for i in indices) or sorted(i % len(indices) for i in indices) != list(range(len(indices))):
        return e
    row = ArraySpec(out.shape[1:], out.dtype)
    if len(indices) < 2 or any(_spec(s, expressions) != row for s in e.inputs):
        return e
    pieces = {i % len(indices): s for i, s in zip(indices, e.inputs, strict=True)}
    return Equation(STACK, tuple([pieces[i] for i in range(len(indices))]), {"axis": 0}, e.outputs)


def _concatenated(e: Equation, stack: Equation, expressions: Expressions) -> Equation:
    """Return a concatenation in place of a reshape that joins the first two axes of a stack, or `e`."""
    out, whole = expressions.specs[e.outputs[0]], expressions.specs[stack.outputs[0]]
    if whole.ndim < 2 or out.shape != (whole.shape[0] * whole.shape[1], *whole.shape[2:]):
        return e
    return Equation(CONCATENATE, stack.inputs, {"axis": 0}, e.outputs)


def _spec(source: Any, expressions: Expressions) -> ArraySpec:
    return spec_of(source.value) if isinstance(source, Constant) else expressions.specs[source]
