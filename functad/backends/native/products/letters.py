"""Products of two arrays that sum over axes, in the notation of `einsum`: one letter per axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.primitives.entry import Primitive
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.products import DOT, MATMUL, OUTER, SUM_OF_PRODUCTS


class Letters(NamedTuple):
    """A product of two arrays.

    Attributes:
        a: the letters of the first operand's axes; an axis of length 1 has a space.
        b: the letters of the second operand's axes.
        out: the letters of the result's axes.
        sizes: the length of each axis longer than 1, by letter.
    """

    a: str
    b: str
    out: str
    sizes: dict[str, int]

    def role(self, letter: str) -> str:
        """Return the role of an axis: `depth` (summed), `batch` (in both operands), or `row` or `column` (in one operand)."""
        if letter not in self.out:
            return "depth"
        return "batch" if letter in self.a and letter in self.b else "row" if letter in self.a else "column"

    def count(self, role: str) -> int:
        """Return the product of the lengths of all axes with a role."""
        return math.prod([n for letter, n in self.sizes.items() if self.role(letter) == role])

    @property
    def has_diagonals(self) -> bool:
        """`True` if a letter occurs twice in an operand."""
        return any(len(set(term)) < len(term) for term in (self.a.replace(" ", ""), self.b.replace(" ", "")))


def is_product(primitive: Primitive) -> bool:
    """Return `True` if a primitive may multiply arrays and sum over axes."""
    return primitive in (MATMUL, DOT, OUTER, SUM_OF_PRODUCTS) or primitive.name == "einsum"


def letters_of(equation: Equation, given: Sequence[ArraySpec]) -> Letters | None:
    """Return the letters of a product of two arrays; `None` for any other equation."""
    found = contraction_of(equation.primitive, equation.params, [spec.ndim for spec in given]) if len(given) == 2 else None
    if found is None:
        return None
    (a, b), out = found
    sizes: dict[str, int] = {}
    for term, spec in zip((a, b), given, strict=True):
        for letter, n in zip(term, spec.shape, strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    own = [
        "".join([letter if n > 1 else " " for letter, n in zip(term, spec.shape, strict=True)])
        for term, spec in zip((a, b), given, strict=True)
    ]
    whole = "".join([letter if sizes[letter] > 1 else " " for letter in out])
    return Letters(own[0], own[1], whole, {letter: n for letter, n in sizes.items() if n > 1})
