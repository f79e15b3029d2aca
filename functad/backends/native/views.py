"""Lowering of views: reshape, transpose, broadcast, basic indices. They are free for operands in memory."""

from __future__ import annotations

from collections.abc import Sequence

from functad.backends.native.arrays import Formula, Shape
from functad.backends.native.lowering import Lowered, View, row
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.primitives.arranging.flip import FLIP
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE
from functad.primitives.elementwise.complex_numbers import IMAG, REAL
from functad.primitives.indexing.index_map import IndexMap
from functad.primitives.linalg.einsum import einsum_of, terms_of


@row(BROADCAST_TO)
def _broadcast_to(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return View(lambda arrays: arrays[0].broadcast(results[0].shape), same=given[0].shape == results[0].shape)


@row(RESHAPE)
def _reshape(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.params.get("order", "C") != "C":
        return None
    return View(lambda arrays: arrays[0].reshaped(results[0].shape), same=True)


@row(TRANSPOSE)
def _transpose(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axes = equation.params["axes"]
    axes = range(given[0].ndim)[::-1] if axes is None else axes
    chosen = IndexMap.by_axes(given[0].shape, results[0].shape, [axes.index(i) for i in range(len(axes))])
    return View(lambda arrays: arrays[0].selected(chosen))


@row(einsum_of(1))
def _diagonal(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    """Lower an `einsum` of one operand that only reads diagonals and transposes."""
    chosen = axes_of(equation.params["subscripts"], given[0].shape)
    return None if chosen is None else View(lambda arrays: arrays[0].selected(chosen))


def axes_of(subscripts: str, shape: Shape) -> IndexMap | None:
    """Return the map of an `einsum` of one operand of the given shape; `None` if it sums."""
    [term], result = terms_of(subscripts)
    if not set(term) <= set(result):
        return None
    lengths = dict(sorted(zip(term, shape, strict=True), key=lambda pair: pair[1]))
    axes = [None if n == 1 else result.index(letter) for letter, n in zip(term, shape, strict=True)]
    return IndexMap.by_axes(shape, tuple([lengths[letter] for letter in result]), axes)


@row(FLIP)
def _flip(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axes, shape = equation.params["axis"], given[0].shape
    chosen = IndexMap.of(shape, tuple([slice(None, None, -1 if i in axes else 1) for i in range(len(shape))]))
    return View(lambda arrays: arrays[0].selected(chosen))


@row(REAL, IMAG)
def _part_of_real(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.primitive is REAL:
        return View(lambda arrays: arrays[0], same=True)
    kind = KINDS[results[0].dtype]
    return View(lambda arrays: Formula(results[0].shape, kind, lambda code, index: code.constant(0, kind)))
