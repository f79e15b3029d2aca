"""Lowering of reductions over axes: sum, prod, max, min, any, all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functad.backends.native.lowering import Lowered, Pointwise, Reduction, View, row
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.primitives.entry import ENTRIES


def axes_of(equation: Equation, spec: ArraySpec) -> tuple[int, ...]:
    """Return the axes of a reduction."""
    axis = equation.params["axis"]
    if axis is None:
        return tuple(range(spec.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


@row(*[ENTRIES[function] for function in (np.sum, np.prod, np.max, np.min, np.any, np.all)])
def _reduction(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind, axes, how = KINDS[results[0].dtype], axes_of(equation, given[0]), equation.primitive.name
    if math.prod([given[0].shape[axis] for axis in axes]) > 1:
        return Reduction(axes, kind, how)
    if given[0].shape == results[0].shape:
        return Pointwise([kind], kind, lambda code, x: x)
    return View(lambda arrays: arrays[0].reshaped(results[0].shape), same=True) if KINDS[given[0].dtype] == kind else None
