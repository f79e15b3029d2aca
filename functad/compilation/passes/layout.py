"""Layout assignment: arrays with many short rows are stored column by column (Fortran order).

NumPy's inner loop runs along the contiguous axis. To multiply each of 30,000 rows of 3 numbers by a number, or to sum the rows,
NumPy runs 30,000 loops of length 3. In Fortran order it runs 3 loops of length 30,000, in a fifth of the time. Elementwise
functions and views keep the layout, so only the arrays at the start of such a chain are copied. The gradient of a bundle
adjustment takes half of the time (11.7 ms instead of 22 ms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.blocks import arranged, is_elementwise
from functad.backends.routines import ROWS
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec, spec_or_none
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GATHER, GETITEM
from functad.primitives.linalg.einsum import is_by_blas
from functad.primitives.reductions.over_axes import MEAN, SUM

_SHORT_ROW = 8
"""Largest row length with a slow inner loop in NumPy."""

_LONGEST_ROW = 16
"""Largest row length of an array to copy: short rows may be read from longer rows."""

_ROWS = 1000
"""Number of rows from which an array counts as tall."""

_SMALLEST = 64
"""Elements from which an array that is broadcast to many rows is copied too."""

_WORTH = 6
"""Number of equations on tall arrays from which the copies pay off."""


def with_layouts(expressions: Expressions) -> Expressions:
    """Return a list with copies in Fortran order at the start of chains of functions of tall arrays, if that saves time.

    Results are copied to C order, as eager NumPy returns them.
    """
    specs = expressions.specs
    gaining = [e for e in expressions.equations if _gains(e, specs)]
    if len(gaining) < _WORTH or arranged(expressions)[1]:  # blocks need C order
        return expressions
    return _Layouts(expressions, [s for e in gaining for s in e.inputs]).run()


class _Layouts:
    """The copies of arrays of a list.

    Args:
        expressions: the list.
        waiting: sources of arrays for which Fortran order saves time.

    Attributes:
        turned: slots of the arrays at the start of chains, which are copied to Fortran order.
        constants: maps the identity of a constant array to the constant in Fortran order.
        moved: maps a slot to the slot of its copy.
    """

    def __init__(self, expressions: Expressions, waiting: list[Any]) -> None:
        self.expressions, self.specs = expressions, list(expressions.specs)
        self.equations: list[Equation] = []
        self.constants: dict[int, Constant] = {}
        self.moved: dict[int, int] = {}
        self.turned = self._starts(waiting)

    def _starts(self, waiting: list[Any]) -> set[int]:
        makers = {e.outputs[0]: e for e in self.expressions.equations if len(e.outputs) == 1}
        seen, turned = set[int](), set[int]()
        while waiting:
            source = waiting.pop()
            if type(source) is Constant:
                if type(source.value) is np.ndarray and _is_short(spec_or_none(source.value)):
                    self.constants.setdefault(id(source.value), Constant(np.asfortranarray(source.value)))
            elif source not in seen:
                seen.add(source)
                maker = makers.get(source)
                if maker is not None and _keeps_order(maker, self.specs):
                    waiting += maker.inputs
                elif _is_short(self.specs[source]):
                    turned.add(source)
        return turned

    def run(self) -> Expressions:
        """Return the list with the copies."""
        if not self.turned and not self.constants:
            return self.expressions
        reached = set(self.turned)
        for slot in range(len(self.expressions.inputs)):
            self._turn(slot)
        for e in self.expressions.equations:
            inputs = tuple([self._source(s) for s in e.inputs])
            if self._is_rows(e):
                self.equations.append(Equation(ROWS, inputs, {}, e.outputs))
                self.turned.discard(e.outputs[0])
            else:
                self.equations.append(Equation(e.primitive, inputs, e.params, e.outputs))
            if not reached.isdisjoint(inputs_of(e)) or inputs != e.inputs:
                reached.update(e.outputs)
            for slot in e.outputs:
                self._turn(slot)
        outputs = [
            self._copied(s, "C") if type(s) is int and s in reached and self.specs[s].ndim > 1 else s
            for s in self.expressions.outputs
        ]
        return self.expressions.replace(equations=tuple(self.equations), outputs=tuple(outputs), specs=tuple(self.specs))

    def _source(self, source: Any) -> Any:
        if type(source) is Constant:
            return self.constants.get(id(source.value), source)
        return self.moved.get(source, source)

    def _turn(self, slot: int) -> None:
        if slot in self.turned:
            self.moved[slot] = self._copied(slot, "F")

    def _is_rows(self, e: Equation) -> bool:
        """Return `True` if an equation reads rows of an array, which are copied to Fortran order."""
        ndims = [self.specs[s].ndim if type(s) is int else 0 for s in e.inputs]
        return e.primitive is GATHER and e.outputs[0] in self.turned and e.params["template"] == ("i",) and ndims == [2, 1]

    def _copied(self, slot: int, order: str) -> int:
        self.specs.append(self.specs[slot])
        self.equations.append(Equation(COPY, (slot,), {"order": order}, (len(self.specs) - 1,)))
        return len(self.specs) - 1


def _is_short(spec: ArraySpec | None) -> bool:
    """Return `True` if an array has short rows."""
    return (
        spec is not None
        and spec.ndim > 1
        and spec.dtype.kind in "fc"
        and 1 < spec.shape[-1] <= _LONGEST_ROW
        and spec.size >= _SMALLEST
    )


def _is_tall(spec: ArraySpec) -> bool:
    """Return `True` if an array has many short rows."""
    return _is_short(spec) and spec.shape[-1] <= _SHORT_ROW and math.prod(spec.shape[:-1]) >= _ROWS


def _gains(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Return `True` if Fortran order makes an equation on a tall array faster."""
    if e.primitive.name == "einsum":
        sizes = [specs[s].size if type(s) is int else 1 for s in e.inputs]
        if e.params["optimize"] or (len(sizes) == 2 and is_by_blas(e.params["subscripts"], sizes[0] * sizes[1])):
            return False
    elif e.primitive not in (SUM, MEAN) and not is_elementwise(e):
        return False
    return any(_is_tall(specs[s]) for s in (*inputs_of(e), *e.outputs))


def _keeps_order(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Return `True` if the result has the memory layout of the arguments."""
    if e.primitive is RESHAPE:
        [source] = e.inputs
        own = specs[source].shape if type(source) is int else ()
        return [n for n in own if n > 1] == [n for n in e.params["shape"] if n > 1]
    if is_elementwise(e):  # a column and a row have no layout to keep
        return any(_is_short(spec_or_none(s.value) if isinstance(s, Constant) else specs[s]) for s in e.inputs)
    return e.primitive is BROADCAST_TO or (e.primitive is GETITEM and is_basic(e.params["index"]))
