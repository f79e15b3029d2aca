"""Rules for products that sum over an axis, by einsum subscripts: axes with the same letter are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad.chunks.arranging import with_rows
from functad.chunks.rules import Along, Call, Found, follow, rule, the_place
from functad.primitives.linalg.einsum import SPREAD
from functad.primitives.linalg.products import DOT, MATMUL, OUTER, SUM_OF_PRODUCTS

_BATCH = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _by_letters(call: Call, terms: Sequence[str], result: str) -> Found | None:
    """Find the rows in an einsum: the row axis is either summed over or an axis of the result."""
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


@rule(MATMUL)
def _matmul(call: Call) -> Found | None:
    m, n = map(len, call.shapes)
    batch = _BATCH[: max(m, n, 2) - 2]
    a = batch[len(batch) - max(m - 2, 0) :] + ("ik" if m > 1 else "k")
    b = batch[len(batch) - max(n - 2, 0) :] + ("kj" if n > 1 else "k")
    return _by_letters(call, (a, b), batch + "i" * (m > 1) + "j" * (n > 1))


@rule(DOT)
def _dot(call: Call) -> Found | None:
    m, n = map(len, call.shapes)
    if not m or not n:
        return None
    rows, columns = _BATCH[: m - 1], _BATCH[m - 1 : m + n - 2].lower()
    b = columns[:-1] + "k" + columns[-1:] if n > 1 else "k"
    return _by_letters(call, (f"{rows}k", b), rows + columns)


@rule(OUTER)
def _outer(call: Call) -> Found | None:
    return _by_letters(call, ("i", "j"), "ij")


@rule(SUM_OF_PRODUCTS)
def _sum_of_products(call: Call) -> Found | None:
    m, n = map(len, call.shapes)
    batch = _BATCH[: max(m, n) - 1]
    return _by_letters(call, (batch[len(batch) - m + 1 :] + "k", batch[len(batch) - n + 1 :] + "k"), batch)


@rule(np.einsum)
def _einsum(call: Call) -> Found | None:
    inputs, _, result = call.params["subscripts"].partition("->")
    return _by_letters(call, inputs.split(","), result)


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


@rule(np.linalg.solve)
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
