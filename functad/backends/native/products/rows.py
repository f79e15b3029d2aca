"""Lowering of products that sum over axes: unrolled, as loops, or as matrix products of BLAS.

The letters of the equation give the role of each axis. The memory layout is known when code is written. Operands may be views,
so transposed matrices and sliding windows are read in place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from functad.backends.native.arrays import Array, Formula, Memory, aligned
from functad.backends.native.lowering import Lowered, Own, View, row
from functad.backends.native.products.blas import Matrix, multiply
from functad.backends.native.products.loops import Axis, Factors, write_loops
from functad.backends.native.products.simple import is_small
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.ir import REALS
from functad.loops.values import Value, fused, where
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import Contraction, einsum_of
from functad.primitives.linalg.lapack import routines
from functad.primitives.linalg.products import DOT, MATMUL, OUTER, SUM_OF_PRODUCTS
from functad.primitives.signals.differences import CROSS

LARGE = 8_000
"""Minimum number of multiplications of a matrix product for BLAS."""

NARROW = 4
"""Minimum number of rows and columns for BLAS."""


@row(MATMUL, DOT, OUTER, SUM_OF_PRODUCTS, einsum_of(2))
def _product(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    found = contraction_of(equation.primitive, equation.params, [spec.ndim for spec in given])
    kinds = [KINDS[spec.dtype] for spec in given]
    kind = KINDS[results[0].dtype]
    if found is None or "i1" in kinds:
        return None
    letters, sizes = found.compact([spec.shape for spec in given])
    if is_small(letters, sizes):
        return View(lambda arrays: _written_out(letters, sizes, arrays, results[0].shape, kind))
    if kind not in REALS and math.prod(sizes.values()) >= LARGE * LARGE:
        return None
    return Own(
        lambda writer, operands, outs: Product(writer, letters, sizes, operands, outs[0]).write(), stored=True, views=True
    )


@row(CROSS)
def _cross(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind, shape = KINDS[results[0].dtype], results[0].shape
    if kind == "i1":
        return None

    def make(arrays: Sequence[Array]) -> Array:
        def factor(code: Code, array: Array, index: Sequence[Index], last: Index) -> Value:
            return code.cast(array.at(code, aligned([*index[:-1], last], array.shape)), kind)

        def element(code: Code, index: Sequence[Index]) -> Value:
            a, b = arrays
            after, before = [_next_of_three(index[-1], step) for step in (1, 2)]
            return factor(code, a, index, after) * factor(code, b, index, before) - factor(code, a, index, before) * factor(
                code, b, index, after
            )

        return Formula(shape, kind, element)

    return View(make)


def _next_of_three(i: Index, step: int) -> Index:
    """Return `(i + step) % 3` for an index from 0 to 2."""
    if not isinstance(i, Value):
        return (i + step) % 3
    return where(i < 3 - step, i + step, i + (step - 3))


def _written_out(
    letters: Contraction, sizes: Mapping[str, int], arrays: Sequence[Array], shape: tuple[int, ...], kind: str
) -> Array:
    """Return an array with each element an unrolled sum of a few products."""
    depth = [letter for letter in sizes if letter not in letters.result]

    def element(code: Code, index: Sequence[Index]) -> Value:
        known: dict[str, Index] = dict(zip(letters.result, index, strict=True))
        total: Value | None = None
        for places in itertools.product(*[range(sizes[letter]) for letter in depth]):
            known |= dict(zip(depth, places, strict=True))
            known[" "] = 0
            x, y = [
                code.cast(array.at(code, [known[letter] for letter in term]), kind)
                for array, term in zip(arrays, letters.terms, strict=True)
            ]
            total = x * y if total is None else fused(x, y, total) if x.is_real else x * y + total
        assert total is not None
        return total

    return Formula(shape, kind, element)


class Product:
    """Writes a product of two arrays, as loops or as BLAS calls.

    Args:
        writer: the writer of the function.
        letters: the letters of the product, with a space for each axis of length 1.
        sizes: the lengths of the other axes.
        operands: the two arrays.
        out: memory for the result.
    """

    def __init__(
        self, writer: Any, letters: Contraction, sizes: Mapping[str, int], operands: Sequence[Array], out: Memory
    ) -> None:
        self.writer = writer
        self.code: Code = writer.code
        self.letters, self.sizes = letters, sizes
        self.out = out
        self.a, self.b = [self._in_memory(array) for array in operands]

    def _in_memory(self, array: Array) -> Memory:
        return array if isinstance(array, Memory) else self._copied(array)

    def _copied(self, array: Array, order: Sequence[int] | None = None, kind: str | None = None) -> Memory:
        """Return a copy with its axes in memory in a given order."""
        order = range(len(array.shape)) if order is None else order
        target = self.writer.buffer(tuple([array.shape[i] for i in order]), kind or array.kind)
        strides = dict(zip(order, target.strides, strict=True))
        target = target.view(array.shape, [strides[i] for i in range(len(order))])
        self.writer.copy(array, target)
        return target  # type: ignore[no-any-return]

    def write(self) -> None:
        """Write the code."""
        if not (self._is_for_blas() and self._write_matrices()):
            factors = Factors(self.a, self.b, self.out, self.axes())
            write_loops(self.writer, factors)

    def axes(self) -> list[Axis]:
        """Return the axes with their strides; neighbouring axes of a role are merged if all arrays allow it."""
        found: list[Axis] = []
        for letter in self._ordered():
            x, y, z = [_stride(array, term, letter) for array, term in self._terms()]
            n, role = self.sizes[letter], self.letters.role(letter)
            last = found[-1] if found else None
            if last is not None and last.role == role and last.strides == (x * n, y * n, z * n):
                found[-1] = Axis(letter, last.n * n, role, (x, y, z))
            else:
                found.append(Axis(letter, n, role, (x, y, z)))
        return found

    def _terms(self) -> list[tuple[Memory, str]]:
        return list(zip((self.a, self.b, self.out), (*self.letters.terms, self.letters.result), strict=True))

    def _ordered(self) -> list[str]:
        """Return the result's letters by descending stride in it, then the summed letters by stride in the first operand."""
        (first, _), result = self.letters
        out = sorted((x for x in self.sizes if x in result), key=lambda x: -_stride(self.out, result, x))
        depth = sorted((x for x in self.sizes if x not in result), key=lambda x: -_stride(self.a, first, x))
        return [*out, *depth]

    # BLAS

    def _is_for_blas(self) -> bool:
        if self.writer.module.alone:
            return False
        sizes = [self.letters.length(role, self.sizes) for role in ("row", "column", "depth")]
        alike = self.a.kind == self.b.kind == self.out.kind and self.out.kind in REALS and self.letters.is_matrix_product
        return alike and min(sizes) >= NARROW and math.prod(sizes) >= LARGE and routines() is not None

    def _write_matrices(self) -> bool:
        """Write loops around a BLAS call and return `True`; return `False` if BLAS is not worth it."""
        depth = self.letters.length("depth", self.sizes)
        lengths = {role: self._last_merged(role) for role in ("row", "column")}
        if lengths["row"] * lengths["column"] * depth < LARGE or min(lengths.values()) < NARROW:
            return False
        self._pack(lengths)
        axes = self.axes()
        row, column, inner = [[axis for axis in axes if axis.role == role][-1] for role in ("row", "column", "depth")]
        if 1 not in (row.strides[2], column.strides[2]):
            return False
        around = [axis for axis in axes if axis not in (row, column, inner)]
        code, module = self.code, self.writer.module
        with ExitStack() as stack:
            index = [stack.enter_context(code.loop(0, axis.n)) for axis in around]
            places = [
                code.place(
                    code.own(array.pointer), code.linear(index, [axis.strides[i] for axis in around], array.offset), array.kind
                )
                for i, array in enumerate((self.a, self.b, self.out))
            ]
            a = _matrix(places[0], row.strides[0], inner.strides[0])
            b = _matrix(places[1], inner.strides[1], column.strides[1])
            sizes = row.n, column.n, depth
            if column.strides[2] == 1:
                multiply(module, code, self.out.kind, sizes, a, b, Matrix(places[2], row.strides[2]))
            else:  # out.T = b.T @ a.T
                sizes = column.n, row.n, depth
                out = Matrix(places[2], column.strides[2])
                multiply(module, code, self.out.kind, sizes, b.transposed(), a.transposed(), out)
        return True

    def _last_merged(self, role: str) -> int:
        """Return the length of the last axis of a role after merging axes that the result allows to merge."""
        step, length = None, 1
        for letter in reversed([x for x in self._ordered() if self.letters.role(x) == role]):
            stride = _stride(self.out, self.letters.result, letter)
            if step is not None and stride != step * length:
                break
            step = stride if step is None else step
            length *= self.sizes[letter]
        return length

    def _pack(self, lengths: dict[str, int]) -> None:
        """Copy operands that BLAS cannot read in place."""
        order = self._ordered()
        for name, role, (array, term) in zip(("a", "b"), ("row", "column"), self._terms(), strict=False):
            ways = {own: [x for x in order if x in term and self.letters.role(x) == own] for own in ("batch", role, "depth")}
            inner = _merged(array, term, ways["depth"], self.sizes)
            last = ways[role]
            while math.prod([self.sizes[x] for x in last]) > lengths[role]:
                last = last[1:]
            outer = _merged(array, term, last, self.sizes)
            if (
                inner is not None
                and outer is not None
                and _is_readable(outer, lengths[role], inner, self.letters.length("depth", self.sizes))
            ):
                continue
            steps = [_stride(array, term, ways[own][-1]) for own in (role, "depth")]
            groups = (ways[role], ways["depth"]) if steps[1] == 1 else (ways["depth"], ways[role])
            letters = [*ways["batch"], *groups[0], *groups[1]]
            alone = [i for i, letter in enumerate(term) if letter == " "]
            setattr(self, name, self._copied(array, [*alone, *[term.index(x) for x in letters]]))


def _stride(array: Memory, term: str, letter: str) -> int:
    return sum(s for s, own in zip(array.strides, term, strict=True) if own == letter)


def _merged(array: Memory, term: str, letters: Sequence[str], sizes: Mapping[str, int]) -> int | None:
    """Return the stride of some axes merged into one; `None` if their strides do not allow it."""
    strides = [_stride(array, term, letter) for letter in letters]
    for i in range(len(letters) - 1):
        if strides[i] != strides[i + 1] * sizes[letters[i + 1]]:
            return None
    return strides[-1]


def _is_readable(outer: int, n: int, inner: int, depth: int) -> bool:
    """Return `True` if BLAS can read an `n` by `depth` matrix with strides `outer` and `inner`."""
    return (inner == 1 and outer >= depth) or (outer == 1 and inner >= n)


def _matrix(pointer: Value, rows: int, columns: int) -> Matrix:
    return Matrix(pointer, rows) if columns == 1 else Matrix(pointer, columns, turned=True)
