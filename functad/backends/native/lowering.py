"""What native code is made of for each primitive: one row for each, in tables that the families fill.

A row looks at one equation and says how it is computed: element by element, as a view, as a reduction, or by code of its own;
or that it is not known, and then NumPy computes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functad.backends.llvm.values import Value
from functad.backends.native.arrays import Array
from functad.backends.native.code import KINDS, Code
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.entry import ENTRIES, Primitive


class Pointwise(NamedTuple):
    """Each element of the result follows from those of the operands at the same place, which are broadcast.

    Attributes:
        kinds: the types that the operands are converted to.
        result: the type that the formula gives.
        formula: from the function that is being written and the elements of the operands to that of the result.
        cost: about how many additions it takes as long as.
        rare: there is a quick formula that does not hold for rare arguments.
    """

    kinds: Sequence[str]
    result: str
    formula: Callable[..., Value]
    cost: float = 1.0
    rare: bool = False


class View(NamedTuple):
    """The elements are those of operands, at other places.

    Attributes:
        make: from the operands to the result.
        same: the result has the operand's elements in the same order in memory, each once, if that is without gaps.
        cost: about how many additions it takes as long as to find an element.
    """

    make: Callable[[Sequence[Array]], Array]
    same: bool = False
    cost: float = 0.0


class Reduction(NamedTuple):
    """Elements along some axes become one.

    Attributes:
        axes: which ones, sorted.
        kind: the type that elements are converted to, and of the result.
        start: what the result of no elements is.
        combine: from the function that is being written and two values to one.
        exact: the order of the elements does not matter, not even for the last digits.
        ordered: intermediate results of another order may overflow or underflow where these of NumPy's order do not.
    """

    axes: tuple[int, ...]
    kind: str
    start: float
    combine: Callable[[Code, Value, Value], Value]
    exact: bool = False
    ordered: bool = False


class Own(NamedTuple):
    """Code of its own, which reads the operands where it wants and writes the results into memory.

    Attributes:
        write: from the `Writer`, the operands, and memory for each result: writes the code.
        stored: which operands must be in memory and without gaps; the others may be anything.
        cost: about how many additions it takes as long as.
        views: operands that must be in memory may also be views of what is there, with gaps and in any order.
        parts: for each operand, which part of the result it is; they may be written there when they are computed.
        gaps: results may have gaps in memory.
    """

    write: Callable[..., None]
    stored: Sequence[bool] | bool = True
    cost: float = 1.0
    views: bool = False
    parts: Sequence[Any] = ()
    gaps: bool = False


Lowered: TypeAlias = Pointwise | View | Reduction | Own
Row: TypeAlias = Callable[[Equation, Sequence[ArraySpec], Sequence[ArraySpec]], Lowered | None]
"""From an equation and the specs of its operands and of its results to how it is computed."""

ROWS: dict[Primitive, Row] = {}
"""The rows of all primitives that native code computes."""

FAMILIES = (
    "pointwise",
    "views",
    "reductions",
    "arranging.pieces",
    "arranging.places",
    "arranging.scans",
    "control.loops",
    "control.loop_derivative",
    "control.branches",
    "products.rows",
    "systems",
    "triangles",
)
"""The modules that fill the table."""


def row(*primitives: Any) -> Callable[[Row], Row]:
    """Enter a row for some primitives."""

    def entered(made: Row) -> Row:
        for primitive in primitives:
            ROWS[primitive] = made
        return made

    return entered


@functools.cache
def _enter_families() -> None:
    """Fill the table; the modules import this one, and need what is imported late."""
    for name in FAMILIES:
        import_module(f"functad.backends.native.{name}")


def is_ufunc(primitive: Primitive) -> bool:
    """Say whether a primitive is a ufunc of NumPy or SciPy with one result."""
    function = primitive.function
    if not isinstance(function, np.ufunc) or ENTRIES.get(function) is not primitive:
        return False
    return function.nout == 1 and function.signature is None


def has_row(primitive: Primitive) -> bool:
    """Say whether native code computes a primitive, of real numbers and for some of its parameters."""
    _enter_families()
    rewritten = import_module("functad.backends.native.arranging.rewrite").FORMS  # as equations that have rows
    if primitive in ROWS or primitive in rewritten or not is_ufunc(primitive):
        return primitive in ROWS or primitive in rewritten
    return bool(import_module("functad.backends.native.pointwise").has_formula(primitive.function))


def lowered(equation: Equation, expressions: Expressions) -> Lowered | None:
    """Return how an equation is computed natively; `None` if it is not."""
    _enter_families()
    primitive = equation.primitive
    made = ROWS.get(primitive)
    if made is None and is_ufunc(primitive):
        made = import_module("functad.backends.native.pointwise").ufunc_row
    if made is None:
        return None
    given = [spec_of(s.value) if isinstance(s, Constant) else expressions.specs[s] for s in equation.inputs]
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
