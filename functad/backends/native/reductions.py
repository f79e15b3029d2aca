"""Lowering of reductions over axes: sum, prod, max, min, any, all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functad.backends.native.lowering import Lowered, Pointwise, Reduction, View, row
from functad.backends.native.pointwise import larger, smaller
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code
from functad.loops.ir import REALS
from functad.loops.values import Value
from functad.primitives.entry import ENTRIES

_LEAST = {"double": -math.inf, "float": -math.inf, "i64": -(2**63), "i32": -(2**31), "i1": 0}
_LARGEST = {"double": math.inf, "float": math.inf, "i64": 2**63 - 1, "i32": 2**31 - 1, "i1": 1}


def axes_of(equation: Equation, spec: ArraySpec) -> tuple[int, ...]:
    """Return the axes of a reduction."""
    axis = equation.params["axis"]
    if axis is None:
        return tuple(range(spec.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _is_whole(equation: Equation, spec: ArraySpec) -> bool:
    """Return `True` if the reduced axes have length 1."""
    return math.prod([spec.shape[axis] for axis in axes_of(equation, spec)]) == 1


def _alone(kind: str, given: ArraySpec, result: ArraySpec) -> Lowered | None:
    """Lower a reduction over axes of length 1."""
    if given.shape == result.shape:
        return Pointwise([kind], kind, lambda code, x: x)
    return View(lambda arrays: arrays[0].reshaped(result.shape), same=True) if KINDS[given.dtype] == kind else None


def _added(code: Code, x: Value, y: Value) -> Value:
    if not x.is_real:
        return x + y
    return code.emit("add", x.kind, x, y, loose="reassoc")


def _multiplied(code: Code, x: Value, y: Value) -> Value:
    return x * y


def _largest_of(code: Code, x: Value, y: Value) -> Value:
    return code.call("maximum", x, y) if x.is_real else larger(code, x, y)


def _smallest_of(code: Code, x: Value, y: Value) -> Value:
    return code.call("minimum", x, y) if x.is_real else smaller(code, x, y)


@row(ENTRIES[np.sum], ENTRIES[np.prod])
def _sum(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[results[0].dtype]
    if _is_whole(equation, given[0]):
        return _alone(kind, given[0], results[0])
    if equation.primitive is ENTRIES[np.sum]:
        return Reduction(axes_of(equation, given[0]), kind, 0.0, _added, kind not in REALS)
    return Reduction(axes_of(equation, given[0]), kind, 1.0, _multiplied, kind not in REALS, ordered=kind in REALS)


@row(ENTRIES[np.max], ENTRIES[np.min])
def _largest(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind = KINDS[results[0].dtype]
    if _is_whole(equation, given[0]):
        return _alone(kind, given[0], results[0])
    largest = equation.primitive is ENTRIES[np.max]
    start = (_LEAST if largest else _LARGEST)[kind]
    return Reduction(axes_of(equation, given[0]), kind, start, _largest_of if largest else _smallest_of, exact=True)


@row(ENTRIES[np.any], ENTRIES[np.all])
def _truth(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if _is_whole(equation, given[0]):
        return _alone("i1", given[0], results[0])
    some = equation.primitive is ENTRIES[np.any]
    return Reduction(
        axes_of(equation, given[0]),
        "i1",
        0 if some else 1,
        (lambda c, x, y: x | y) if some else (lambda c, x, y: x & y),
        exact=True,
    )
