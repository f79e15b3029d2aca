"""Contractions: products that sum over axes, by the einsum letters of their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functad.primitives.entry import Primitive
from functad.primitives.linalg.einsum import Contraction, terms_of
from functad.primitives.linalg.products import DOT, MATMUL, OUTER, SUM_OF_PRODUCTS


def contraction_of(primitive: Primitive, params: Mapping[str, Any], ndims: Sequence[int]) -> Contraction | None:
    """Return the letters of a matrix product or an `einsum`; `None` for other primitives.

    Args:
        primitive: the primitive.
        params: its parameters.
        ndims: the number of axes of each operand.
    """
    if primitive.name == "einsum":
        return terms_of(params["subscripts"])
    if primitive is OUTER:
        return Contraction(("a", "b"), "ab")
    if primitive is DOT:
        return _dot(*ndims)
    if primitive is MATMUL:
        return _matmul(*ndims)
    return _sum_of_products(*ndims) if primitive is SUM_OF_PRODUCTS else None


def letters_before(axes: Sequence[int], letters: str) -> str:
    """Return the letters of an array, given the letters of its transpose with some axes."""
    return "".join([letters[axes.index(i)] for i in range(len(axes))])


def _dot(m: int, n: int) -> Contraction:
    if not m or not n:
        return Contraction((_letters(m), _letters(n)), _letters(max(m, n)))
    rows, columns = _letters(m - 1), _letters(n - 1).lower()
    return Contraction((f"{rows}z", f"{columns[: n - 2]}z{columns[n - 2 :]}" if n > 1 else "z"), rows + columns)


def _matmul(m: int, n: int) -> Contraction:
    batch = _letters(max(m, n, 2) - 2)
    a, b = (batch[len(batch) - max(ndim - 2, 0) :] for ndim in (m, n))
    terms = f"{a}xz" if m > 1 else "z", f"{b}zy" if n > 1 else "z"
    return Contraction(terms, batch + "x" * (m > 1) + "y" * (n > 1))


def _sum_of_products(m: int, n: int) -> Contraction:
    batch = _letters(max(m, n) - 1)
    a, b = (f"{batch[len(batch) - ndim + 1 :]}z" for ndim in (m, n))
    return Contraction((a, b), batch)


def _letters(count: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]
