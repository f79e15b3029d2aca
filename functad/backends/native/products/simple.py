"""Products that use each element of an operand once: they become a multiplication and a sum, which can be fused.

`einsum` of one operand, and products of more than two arrays become such products and sums too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from functad.backends.native.plan import TINY
from functad.expressions.expressions import Constant, Equation, source_spec
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.loops.ir import REALS
from functad.primitives.arranging.reshape import RESHAPE, TRANSPOSE
from functad.primitives.elementwise.elementary import MULTIPLY
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import GETITEM
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import Contraction, einsum_of, terms_of
from functad.primitives.reductions.over_axes import SUM

Part: TypeAlias = tuple[int | Constant, str]
"""An operand and its letters."""

MOST_PRODUCTS = 32
"""Products with at most this many multiplications are unrolled if their results are values."""


class Rewriting:
    """Rewrites products into simpler equations, and appends these to a list.

    Args:
        specs: the specs of the slots so far; specs of new slots are appended.
        equations: the list of equations.
    """

    def __init__(self, specs: list[ArraySpec], equations: list[Equation]) -> None:
        self.specs = specs
        self.equations = equations

    def rewrite(self, equation: Equation) -> bool:
        """Append the replacement of an equation and return `True`; return `False` if it has none."""
        given = [self.spec(source) for source in equation.inputs]
        if any(KINDS.get(spec.dtype) not in REALS or not spec.size for spec in given):  # NumPy sums float16 in float32
            return False
        if equation.primitive.name == "einsum" and len(given) != 2:
            return self._sum(equation, given[0]) if len(given) == 1 else self._in_pairs(equation)
        found = contraction_of(equation.primitive, equation.params, [spec.ndim for spec in given])
        if found is None:
            return False
        letters, sizes = found.compact([spec.shape for spec in given])
        if letters.has_diagonals or not _is_read_once(letters, sizes):
            return False
        self._product(equation, letters, sizes)
        return True

    def spec(self, source: int | Constant) -> ArraySpec:
        """Return the spec of a slot or constant."""
        return source_spec(source, self.specs)

    def add(self, primitive: Primitive, inputs: Sequence[int | Constant], shape: Iterable[int], /, **params: Any) -> int:
        """Append an equation and return the slot of its result, which has the common dtype of the inputs."""
        dtype = np.result_type(*[self.spec(source).dtype for source in inputs])
        self.specs.append(ArraySpec(tuple(shape), dtype))
        self.equations.append(Equation(primitive, tuple(inputs), params, (len(self.specs) - 1,)))
        return len(self.specs) - 1

    def finish(self, slot: int) -> None:
        """Change the output of the last equation to `slot`."""
        last = self.equations.pop()
        self.equations.append(Equation(last.primitive, last.inputs, last.params, (slot,)))

    def _sum(self, equation: Equation, given: ArraySpec) -> bool:
        """Append the equations of an `einsum` of one operand: diagonals, a sum over axes, and a transposition."""
        contraction = terms_of(equation.params["subscripts"])
        [term], result = contraction
        [source], [out] = equation.inputs, equation.outputs
        if set(term) == set(result):
            return False
        lengths = contraction.sizes([given.shape])
        own, kept = "".join(lengths), "".join([letter for letter in lengths if letter in result])
        if own != term:
            source = self.add(einsum_of(1), [source], lengths.values(), subscripts=f"{term}->{own}", optimize=False)
        axes = tuple([i for i, letter in enumerate(own) if letter not in kept])
        found = self.add(SUM, [source], [lengths[letter] for letter in kept], axis=axes, keepdims=False)
        self._transposed(found, kept, result)
        self.finish(out)
        return True

    def _in_pairs(self, equation: Equation) -> bool:
        """Append products of two operands at a time, in the greedy order of `np.einsum_path`."""
        terms, result = terms_of(equation.params["subscripts"])
        parts = list(zip(equation.inputs, terms, strict=True))
        shapes = [np.broadcast_to(0.0, self.spec(source).shape) for source in equation.inputs]
        for step in np.einsum_path(equation.params["subscripts"], *shapes, optimize="greedy")[0][1:]:
            chosen = [parts[i] for i in step]
            parts = [part for i, part in enumerate(parts) if i not in step]
            while len(chosen) > 1:
                first, second, *rest = chosen
                needed = set(result).union(*[term for _, term in (*parts, *rest)])
                if parts or rest:
                    term = "".join([x for x in dict.fromkeys(first[1] + second[1]) if x in needed])
                    chosen = [(self._pair(first, second, term), term), *rest]
                else:
                    chosen = [(self._pair(first, second, result, equation.outputs[0]), result)]
            parts += chosen
        return True

    def _pair(self, first: Part, second: Part, result: str, out: int | None = None) -> int:
        """Append the product of two operands and return its slot."""
        parts = first, second
        if out is None:
            lengths = Contraction((first[1], second[1]), result).sizes([self.spec(source).shape for source, _ in parts])
            dtype = np.result_type(*[self.spec(source).dtype for source, _ in parts])
            self.specs.append(ArraySpec(tuple([lengths[letter] for letter in result]), dtype))
            out = len(self.specs) - 1
        primitive = einsum_of(2)
        params = {"subscripts": f"{first[1]},{second[1]}->{result}", "optimize": False}
        equation = Equation(primitive, (first[0], second[0]), params, (out,))
        if not self.rewrite(equation):
            self.equations.append(equation)
        return out

    def _product(self, equation: Equation, letters: Contraction, sizes: Mapping[str, int]) -> None:
        """Append a multiplication and a sum of its result."""
        long, short = sorted([term.replace(" ", "") for term in letters.terms], key=len, reverse=True)
        order = long + "".join([letter for letter in short if letter not in long])
        if letters.length("depth", sizes) == 1:
            order = letters.result.replace(" ", "")
        factors = [self._aligned(source, term, order) for source, term in zip(equation.inputs, letters.terms, strict=True)]
        found = self.add(MULTIPLY, factors, [sizes[letter] for letter in order])
        kept = "".join([letter for letter in order if letter in letters.result])
        if kept != order:
            axes = tuple([i for i, letter in enumerate(order) if letter not in kept])
            found = self.add(SUM, [found], [sizes[letter] for letter in kept], axis=axes, keepdims=False)
        found = self._transposed(found, kept, letters.result.replace(" ", ""))
        [out] = equation.outputs
        if self.specs[found].shape != self.specs[out].shape:
            found = self.add(RESHAPE, [found], self.specs[out].shape, shape=self.specs[out].shape)
        self.finish(out)

    def _aligned(self, source: int | Constant, term: str, order: str) -> int | Constant:
        """Append equations that broadcast an operand to the axes `order`, with length 1 for missing axes; return its slot."""
        shape = self.spec(source).shape
        if " " in term:
            index: tuple[Any, ...] = tuple([0 if letter == " " else slice(None) for letter in term])
            source = self.add(
                GETITEM, [source], [n for n, letter in zip(shape, term, strict=True) if letter != " "], index=index
            )
            term = term.replace(" ", "")
        kept = "".join([letter for letter in order if letter in term])
        source = self._transposed(source, term, kept)
        own = order[order.index(kept[0]) :] if kept else ""
        if own != kept:
            lengths = dict(zip(kept, self.spec(source).shape, strict=True))
            index = tuple([slice(None) if letter in kept else None for letter in own])
            source = self.add(GETITEM, [source], [lengths.get(letter, 1) for letter in own], index=index)
        return source

    def _transposed(self, source: Any, term: str, order: str) -> Any:
        if term == order:
            return source
        axes = tuple([term.index(letter) for letter in order])
        shape = self.spec(source).shape
        return self.add(TRANSPOSE, [source], [shape[i] for i in axes], axes=axes)


def is_small(letters: Contraction, sizes: Mapping[str, int]) -> bool:
    """Return `True` if a product is unrolled, with results that are values."""
    results = math.prod([sizes.get(letter, 1) for letter in letters.result])
    return results <= TINY and results * letters.length("depth", sizes) <= MOST_PRODUCTS


def _is_read_once(letters: Contraction, sizes: Mapping[str, int]) -> bool:
    """Return `True` if a product uses each element of an operand once, so that reading takes longer than multiplying."""
    counts = [letters.length(role, sizes) for role in ("row", "column", "depth")]
    return min(counts) == 1 and not (is_small(letters, sizes) and counts[2] > 1)
