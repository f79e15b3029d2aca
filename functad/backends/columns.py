"""Layout assignment: arrays with many short rows are stored column by column (Fortran order).

NumPy's inner loop runs along the contiguous axis. To multiply each of 30,000 rows of 3 numbers by a number, or to sum the rows,
NumPy runs 30,000 loops of length 3. In Fortran order it runs 3 loops of length 30,000, in a fifth of the time.
Elementwise functions and views keep the layout, so only the arrays at the start of such a chain are converted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.blocks import is_elementwise
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec, spec_or_none
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GATHER, GETITEM
from functad.primitives.linalg.einsum import is_by_blas
from functad.primitives.reductions.over_axes import MEAN, SUM

_SHORT_ROW = 8
"""Largest row length with a slow inner loop in NumPy."""

_LONGEST_ROW = 16
"""Largest row length of an array to convert: short rows may be read from longer rows."""

_ROWS = 1000
"""Number of rows from which an array counts as tall."""

_SMALLEST = 64
"""Elements from which an array that is broadcast to many rows is converted too."""

_WORTH = 6
"""Number of equations on tall arrays from which the conversion pays off."""


class Columns:
    """The Fortran-ordered arrays of a program.

    Args:
        expressions: the list.

    Attributes:
        turned: slots of arrays that are converted to Fortran order where they are computed.
        reached: slots of arrays that depend on a converted array, so that their layout may differ from eager NumPy.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.specs = expressions.specs
        self.turned: set[int] = set()
        self._constants: dict[int, tuple[Any, Any]] = {}
        gaining = [e for e in expressions.equations if _gains(e, self.specs)]
        if len(gaining) >= _WORTH and not any(getattr(e.primitive, "is_native", False) for e in expressions.equations):
            self._turn(expressions, [s for e in gaining for s in e.inputs])
        self.reached = set(self.turned)
        for e in expressions.equations if self.turned or self._constants else ():
            if not self.reached.isdisjoint(inputs_of(e)) or any(self.constant(s) is not s for s in e.inputs):
                self.reached.update(e.outputs)

    def _turn(self, expressions: Expressions, waiting: list[Any]) -> None:
        """Convert the arrays at the start of the chains that lead to the slots `waiting`."""
        makers = {e.outputs[0]: e for e in expressions.equations if len(e.outputs) == 1}
        seen = set[Any]()
        while waiting:
            source = waiting.pop()
            if type(source) is Constant:
                if type(source.value) is np.ndarray and _is_short(spec_or_none(source.value)):
                    self._constants[id(source.value)] = source.value, Constant(np.asfortranarray(source.value))
            elif source not in seen:
                seen.add(source)
                maker = makers.get(source)
                if maker is not None and _keeps_order(maker, self.specs):
                    waiting += maker.inputs
                elif _is_short(self.specs[source]):
                    self.turned.add(source)

    def constant(self, source: Any) -> Any:
        """Return the Fortran-ordered copy of a constant that is converted, else `source`."""
        return (
            self._constants[id(source.value)][1] if type(source) is Constant and id(source.value) in self._constants else source
        )

    def text(self, equation: Equation, given: Sequence[str], text: str) -> str:
        """Return the text of a result in Fortran order, given its text in the original layout."""
        if equation.primitive is GATHER and equation.params["template"] == ("i",) and len(given) == 2:
            rows, places = [self.specs[s].ndim if type(s) is int else 0 for s in equation.inputs]
            if (rows, places) == (2, 1):
                return f"np.take({given[0]}.T, {given[1]}, 1).T"
        return f"np.asfortranarray({text})"

    def result(self, source: Any, text: str) -> str:
        """Return the text of a result of the program in C order, as eager NumPy returns it."""
        turned = type(source) is int and source in self.reached and self.specs[source].ndim > 1
        return f"np.ascontiguousarray({text})" if turned else text


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
