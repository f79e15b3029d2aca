"""Rules for products that sum over an axis, by einsum subscripts: axes with the same letter are the same."""

from __future__ import annotations

import numpy as np

from functad.chunks.arranging import with_rows
from functad.chunks.rules import Along, Call, Found, follow, rule, the_place
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import SPREAD
from functad.primitives.linalg.products import DOT, MATMUL, OUTER, SUM_OF_PRODUCTS
from functad.primitives.linalg.solve import SOLVE, TRIANGULAR_SOLVE


@rule(MATMUL, DOT, OUTER, SUM_OF_PRODUCTS, np.einsum)
def _contraction(call: Call) -> Found | None:
    """Apply the rule for a contraction: the row axis is either summed over or an axis of the result."""
    contraction = contraction_of(call.primitive, call.params, list(map(len, call.shapes)))
    assert contraction is not None
    terms, result = contraction
    letters = {term[along.axis] for term, along in zip(terms, call.alongs, strict=True) if along is not None}
    letter = letters.pop()
    if letters or any(term.count(letter) > 1 for term in (*terms, result)):
        return None
    cuts: dict[int, Along] = {}
    factor = next(along.factor for along in call.alongs if along is not None)
    for i, (term, along, shape) in enumerate(zip(terms, call.alongs, call.shapes, strict=True)):
        if along is None and letter in term and shape[term.index(letter)] != 1:
            cuts[i] = Along(term.index(letter), factor)
    if letter in result:
        return Found((Along(result.index(letter), factor),), cuts)
    return Found((None,), cuts, combine=np.add)


@rule(SPREAD)
def _spread(call: Call) -> Found | None:
    """Apply the rule for an array written to a diagonal; the rows must be another axis."""
    (along,), (own, result) = call.alongs, call.params["subscripts"].split("->")
    assert along is not None
    letter = result[along.axis]
    if own.count(letter) != 1:
        return None
    place = Along(own.index(letter), along.factor)
    return Found((place,), params={"shape": with_rows(call.params["shape"], place)})


@rule(SOLVE, TRIANGULAR_SOLVE)
def _solve(call: Call) -> Found | None:
    """Apply the rule for many systems, or one system with many right-hand sides."""
    core = (2, 1 if len(call.shapes[1]) == 1 else 2)
    place = the_place(call, core)
    if place is None:
        return None
    cuts = {}
    for i, (shape, along) in enumerate(zip(call.shapes, call.alongs, strict=True)):
        axis = len(shape) - core[i] + place
        if along is None and axis >= 0 and shape[axis] != 1:
            own = call.along(shape[axis], axis)
            if own is None:
                return None
            cuts[i] = own
    return follow(call, cuts)
