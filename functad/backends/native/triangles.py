"""Lowering of triangular parts and of triangular systems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from functad.backends.native.arrays import Array, Formula, Memory, aligned
from functad.backends.native.lowering import Lowered, Own, View, row
from functad.backends.native.products.blas import Matrix, substitute
from functad.backends.native.systems import Rows, Small, chosen, is_small, refuse_zeros, written_out
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.ir import REALS
from functad.loops.values import Value, where
from functad.primitives.entry import ENTRIES
from functad.primitives.linalg.lapack import routines
from functad.primitives.linalg.solve import TRIANGULAR_SOLVE, lower_half

_TRIL, _TRIU = ENTRIES[np.tril], ENTRIES[np.triu]


@row(TRIANGULAR_SOLVE)
def _solved(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    lower = equation.params["lower"]
    if KINDS[results[0].dtype] not in REALS:
        return None
    if is_small(*results[0].shape[-2:]):

        def compute(small: Small, arrays: Sequence[Rows]) -> Sequence[Rows]:
            a, b = arrays
            for i in range(len(a)):
                small.unless(~a[i][i].equals(0.0))
            return [small.substituted(a, b, lower=lower)]

        return written_out(compute, [2])

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        a, b = operands
        [out] = outs
        code: Code = writer.code
        if not isinstance(a, Memory) or a.kind != out.kind or not _is_readable(a):
            copied = writer.buffer(a.shape, out.kind)
            writer.copy(a, copied)
            a = copied
        refuse_zeros(code, a)
        batch = out.shape[:-2]
        spread = Formula(out.shape, b.kind, lambda code, index: b.at(code, aligned(index, b.shape)))
        writer.copy(b if b.shape == out.shape else spread, out)
        if writer.module.alone or routines() is None:
            _substitute(writer, a, out, lower=lower)
            return
        with ExitStack() as stack:
            index = [stack.enter_context(code.loop(0, n)) for n in batch]
            place = a.place(code, [*aligned(index, a.shape[:-2]), 0, 0])
            pointers = [
                code.place(code.own(array.pointer), code.own(at) if isinstance(at, Value) else at, array.kind)
                for array, at in ((a, place), (out, out.place(code, [*index, 0, 0])))
            ]
            rows, columns = a.strides[-2:]
            matrix = Matrix(pointers[0], rows) if columns == 1 else Matrix(pointers[0], columns, turned=True)
            sizes = out.shape[-2], out.shape[-1]
            substitute(writer.module, code, out.kind, sizes, matrix, Matrix(pointers[1], out.strides[-2]), lower=lower)

    return Own(write, stored=True, views=True)


def _substitute(writer: Any, a: Memory, out: Memory, *, lower: bool) -> None:
    """Write loops that solve triangular systems without BLAS; `out` holds the right-hand sides before, the solutions after."""
    code: Code = Code(fused=writer.code.fused, outer=writer.code)
    *batch, n, columns = out.shape
    with ExitStack() as stack:
        index: list[Index] = [stack.enter_context(code.loop(0, length)) for length in batch]
        own = aligned(index, a.shape[:-2])
        step = stack.enter_context(code.loop(0, n))
        i = step if lower else code.linear([step], [-1], n - 1)
        with code.loop(0, step) as known:
            k = known if lower else code.linear([known], [-1], n - 1)
            factor = a.at(code, [*own, i, k])
            with code.loop(0, columns, straight=True) as j:
                x, y = [code.load(code.own(out.pointer), out.place(code, [*index, at, j]), out.kind) for at in (i, k)]
                out.put(code, [*index, i, j], x - factor * y)
        pivot = a.at(code, [*own, i, i])
        with code.loop(0, columns, straight=True) as j:
            x = code.load(code.own(out.pointer), out.place(code, [*index, i, j]), out.kind)
            out.put(code, [*index, i, j], x / pivot)
    writer.module.call(writer.code, code)


def _is_readable(a: Memory) -> bool:
    """Return `True` if BLAS can read a square matrix in place."""
    n, (rows, columns) = a.shape[-1], a.strides[-2:]
    return (columns == 1 and rows >= n) or (rows == 1 and columns >= n)


@row(_TRIL, _TRIU)
def _triangle(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    k, lower = int(equation.params["k"]), equation.primitive is _TRIL

    def choose(code: Code, x: Value, distance: Index) -> Value:
        zero = code.constant(0.0 if x.is_real else 0, x.kind)
        if isinstance(distance, Value):
            return where(distance <= k if lower else distance >= k, x, zero)
        return x if (distance <= k if lower else distance >= k) else zero

    return View(lambda arrays: chosen(arrays[0], choose))


@row(lower_half)
def _lower_half(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    def choose(code: Code, x: Value, distance: Index) -> Value:
        zero = code.constant(0.0, x.kind)
        if isinstance(distance, Value):
            return where(distance < 0, x, where(distance.equals(0), x * 0.5, zero))
        return x if distance < 0 else zero if distance else x * 0.5

    return View(lambda arrays: chosen(arrays[0], choose)) if KINDS[given[0].dtype] in REALS else None
