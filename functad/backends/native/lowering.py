"""The lowering of primitives to native code: one row per primitive, in tables that the family modules fill.

A row maps an equation to its method: pointwise, view, reduction, or own code. It returns `None` for an equation that NumPy must
compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functad.backends.native.arrays import Array
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.loops.ir import REALS
from functad.loops.values import Value
from functad.primitives.entry import Primitive
from functad.primitives.table import Table


class Pointwise(NamedTuple):
    """An elementwise operation on broadcast operands.

    Attributes:
        kinds: the types to which the operands are converted.
        result: the type of the result of `formula`.
        formula: maps the function and the elements of the operands to the element of the result.
        cost: the approximate cost, in additions.
    """

    kinds: Sequence[str]
    result: str
    formula: Callable[..., Value]
    cost: float = 1.0


class View(NamedTuple):
    """A rearrangement of the elements of the operands.

    Attributes:
        make: maps the operands to the result.
        same: `True` if the result has each element of the operand once, in the same C order.
        cost: the approximate cost of locating an element, in additions.
    """

    make: Callable[[Sequence[Array]], Array]
    same: bool = False
    cost: float = 0.0


class Reduction(NamedTuple):
    """A reduction over some axes.

    Attributes:
        axes: the reduced axes, sorted.
        kind: the type of the result, to which elements are converted.
        how: the name of the reduction in the loop IR.
    """

    axes: tuple[int, ...]
    kind: str
    how: str

    @property
    def is_ordered(self) -> bool:
        """Return `True` if intermediate results in another order may overflow although none does in NumPy's order."""
        return self.how == "prod" and self.kind in REALS


class Own(NamedTuple):
    """Own code, which reads any elements of the operands and writes the results to memory.

    Attributes:
        write: writes the code, given the `Writer`, the operands and the memory of each result.
        stored: the operands that must be contiguous in memory. Other operands may be any `Array`.
        cost: the approximate cost, in additions.
        views: `True` if operands that must be in memory may also be strided views.
        parts: for each operand, the part of the result that it becomes. Operands may be computed in place there.
        gaps: `True` if results may be non-contiguous.
        updates: `True` if the result is the first operand with some elements changed. That operand may be computed in the
            memory of the result, and `write` then receives the same `Memory` twice.
    """

    write: Callable[..., None]
    stored: Sequence[bool] | bool = True
    cost: float = 1.0
    views: bool = False
    parts: Sequence[Any] = ()
    gaps: bool = False
    updates: bool = False


Lowered: TypeAlias = Pointwise | View | Reduction | Own
Row: TypeAlias = Callable[[Equation, Sequence[ArraySpec], Sequence[ArraySpec]], Lowered | None]
"""Maps an equation, the specs of its operands and the specs of its results to the method, or `None`."""

ROWS: Table[Row] = Table(
    "functad.backends.native",
    (
        *("pointwise", "views", "reductions", "arranging.pieces", "arranging.places", "arranging.scans", "control.loops"),
        *("control.loop_derivative", "control.branches", "blocks.lower", "products.rows", "systems", "triangles"),
    ),
)
"""The rows of all primitives that native code supports, except ufuncs."""

row: Callable[..., Callable[[Row], Row]] = ROWS.add


def is_ufunc(primitive: Primitive) -> bool:
    """Return `True` if a primitive computes a ufunc of NumPy or SciPy with one result.

    Such a primitive may have rules of its own: `np.sign` is one primitive for real and one for complex numbers.
    """
    function = primitive.function
    return isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None


def has_row(primitive: Primitive) -> bool:
    """Return `True` if native code supports a primitive for real numbers, at least with some parameters."""
    rewritten = import_module("functad.backends.native.arranging.rewrite").FORMS  # rewritten to equations that have rows
    if ROWS.find(primitive) or rewritten.find(primitive) or primitive.decomposition:
        return True
    return is_ufunc(primitive) and bool(import_module("functad.backends.native.pointwise").has_formula(primitive))


def lowered(equation: Equation, expressions: Expressions) -> Lowered | None:
    """Return the method for an equation; `None` if native code does not support it."""
    primitive = equation.primitive
    made = ROWS.find(primitive)
    if made is None and is_ufunc(primitive):
        made = import_module("functad.backends.native.pointwise").ufunc_row
    if made is None:
        return None
    if any(isinstance(s, Constant) and s.value is None for s in equation.inputs):  # an omitted argument
        return None
    given = [source_spec(s, expressions.specs) for s in equation.inputs]
    results = [expressions.specs[s] for s in equation.outputs]
    if any(spec.dtype not in KINDS or spec.size == 0 for spec in (*given, *results)):
        return None
    if any(isinstance(s, Constant) and _is_large(s.value, given) for s in equation.inputs):
        return None
    return made(equation, given, results)


def _is_large(value: Any, given: Sequence[ArraySpec]) -> bool:
    """Return `True` if a constant is a Python integer that an integer type of the operands cannot hold."""
    if type(value) is not int:
        return False
    bits = 31 if any(spec.dtype == np.int32 for spec in given) else 63
    return not -(2**bits) <= value < 2**bits
