"""The operations of a kind of blocks, for lengths and indices from a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functad.backends.native.blocks.loop import Kind, Loop
from functad.backends.native.blocks.table import Cell, Number, Operand, Operation, UnevenError
from functad.backends.native.lowering import ROWS, Pointwise, Reduction, is_ufunc
from functad.backends.native.pointwise import ufunc_row
from functad.expressions.expressions import Constant, Equation, source_spec
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.loops.ir import REALS
from functad.loops.reductions import start_of
from functad.primitives.arranging.flip import FLIP
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE
from functad.primitives.indexing.index_map import indexed_shape
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import ADD_TO, WRITE
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import Contraction

LARGE = 16_384
"""Operations on more elements than this, and products of matrices with half as many multiplications, stay in the list: they run
on several threads or call BLAS."""


class Operations:
    """Makes the operations of the kinds of a loop.

    Args:
        loop: the loop, with the cells of its values.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def _lengths(self, kind: Kind, sources: Sequence[Any]) -> tuple[tuple[Number, ...], tuple[int, ...]]:
        """Return the lengths of the axes of values, and the largest lengths."""
        shapes = [source_spec(s, self.loop.list.specs).shape for s in sources]
        return tuple([kind.number(n) for n in zip(*shapes, strict=True)]), tuple([max(n) for n in zip(*shapes, strict=True)])

    def _cell(self, kind: Kind, keys: Sequence[Any]) -> Cell:
        found = [self.loop.cell_of[key] for key in keys]
        return Cell(found[0][0], kind.number([cell for _, cell in found]))

    def of_kind(self, word: int, kind: Kind) -> tuple[Operation, ...]:
        """Return the operations of a kind."""
        found: list[Operation] = []
        here: dict[int, int] = {}
        again: dict[Any, int] = {}
        for position in range(kind.period):
            equations = self.loop.equations(kind, position)
            operands = []
            for place in range(len(equations[0].inputs)):
                column = self.loop.columns.get((word, position, place))
                if column is None:
                    keys = [e.outputs[0] for e in equations]
                    operands.append(Operand("cell", -1, self._cell(kind, keys), self._lengths(kind, keys)[0]))
                    continue
                lengths, _ = self._lengths(kind, column.sources)
                if column.kind == "here":
                    operands.append(Operand("here", here[column.which], None, lengths))
                elif column.kind == "outer":
                    operands.append(Operand("outer", column.which, None, lengths))
                elif column.kind == "stored":
                    owner, memory = self.loop.inputs[column.which]
                    cells = [owner.cell_in(s, memory) for s in column.sources]
                    operands.append(Operand("stored", column.which, Cell(-1, kind.number(cells)), lengths))
                elif column.kind == "again":
                    key = tuple(column.sources)
                    if key not in again:
                        again[key] = len(found)
                        made = [self.loop.blocks.maker[s] for s in column.sources]
                        base = Operand(
                            "outer", column.which, None, self._lengths(kind, [self.loop.list.equations[made[0]].inputs[0]])[0]
                        )
                        found.append(self._read(kind, made, base, column.sources))
                    operands.append(Operand("here", again[key], None, lengths))
                else:
                    operands.append(Operand("cell", -1, self._cell(kind, list(map(self.loop.key, column.sources))), lengths))
            here[position] = len(found)
            found.append(self._operation(word, kind, position, equations, operands))
        return tuple(found)

    def _places(self, kind: Kind, numbers: Sequence[int]) -> tuple[Any, ...]:
        form = self.loop.blocks.forms[numbers[0]]
        rest = iter([kind.number(n) for n in zip(*[self.loop.blocks.numbers[n] for n in numbers], strict=True)])
        return tuple([None if part is None else next(rest) if part == "at" else (next(rest), part) for part in form])

    def _read(self, kind: Kind, numbers: Sequence[int], base: Operand, results: Sequence[Any]) -> Operation:
        lengths, most = self._lengths(kind, results)
        parts = self._places(kind, numbers)
        return Operation("read", (base,), parts, lengths, most, KINDS[self.loop.list.specs[results[0]].dtype])

    def _operation(
        self, word: int, kind: Kind, position: int, equations: Sequence[Equation], operands: list[Operand]
    ) -> Operation:
        primitive, specs = equations[0].primitive, self.loop.list.specs
        numbers = [start + position for start in kind.starts]
        results = [e.outputs[0] for e in equations]
        lengths, most = self._lengths(kind, results)
        given = [source_spec(s, specs) for s in equations[0].inputs]
        every = [[source_spec(e.inputs[i], specs).shape for e in equations] for i in range(len(given))]
        if any(spec.dtype not in KINDS for spec in (*given, specs[results[0]])) or (
            math.prod(most) > LARGE and primitive not in (WRITE, ADD_TO)
        ):
            raise UnevenError
        cell = self._cell(kind, results) if results[0] in self.loop.stored else None
        own = KINDS[specs[results[0]].dtype]
        if primitive is GETITEM:
            return self._read(kind, numbers, operands[0], results)._replace(cell=cell)
        if primitive in (WRITE, ADD_TO):
            parts = self._places(kind, numbers)
            regions = [_shape_at(self.loop.blocks.forms[n], e, specs) for n, e in zip(numbers, equations, strict=True)]
            size = tuple([kind.number(n) for n in zip(*regions, strict=True)])
            largest = tuple([max(n) for n in zip(*regions, strict=True)])
            follows: tuple[tuple[bool, ...], ...] = (_follows(every[1], regions),)
            copied = self.loop.modes[word, position] == "copied"
            return Operation(
                "write", tuple(operands), parts, size, largest, own, follows, cell, copied=copied, adds=primitive is ADD_TO
            )
        if primitive in (RESHAPE, FLIP, TRANSPOSE):
            return self._view(kind, equations, operands, Operation("read", tuple(operands), (), lengths, most, own, (), cell))
        contraction = contraction_of(primitive, equations[0].params, [spec.ndim for spec in given])
        if contraction is not None:
            way: Any = self._contraction(contraction, given, every, own)
            sizes = contraction.sizes([tuple(map(max, zip(*shapes, strict=True))) for shapes in every])
            roles = [contraction.length(role, sizes) for role in ("row", "column", "depth")]
            if min(roles) > 1 and math.prod(sizes.values()) > LARGE // 2:
                raise UnevenError
            shapes = [_by_letters(contraction, [e[i] for e in every], contraction.result) for i in range(len(results))]
            wanted = [
                [_by_letters(contraction, [e[i] for e in every], term) for i in range(len(results))]
                for term in contraction.terms
            ]
            if shapes != [specs[s].shape for s in results]:
                raise UnevenError
            follows = tuple([_follows(one, other) for one, other in zip(every, wanted, strict=True)])
            return Operation(way, tuple(operands), (), lengths, most, own, follows, cell)
        if primitive is BROADCAST_TO:
            shapes = [specs[s].shape for s in results]
            way = Pointwise([own], own, lambda code, x: x, 0.0)
            return Operation(way, tuple(operands), (), lengths, most, own, (_follows(every[0], shapes),), cell)
        way = _way(
            equations[0],
            [_largest(spec, shapes) for spec, shapes in zip(given, every, strict=True)],
            _largest(specs[results[0]], [most]),
        )
        if isinstance(way, Pointwise):
            shapes = [specs[s].shape for s in results]
            follows = tuple([_follows(one, shapes) for one in every])
        elif isinstance(way, Reduction) and not way.is_ordered and own == way.kind:
            if start_of(way.how, way.kind) != 0 and any(0 in shape for shape in every[0]):
                raise UnevenError
            follows = ()
        else:
            raise UnevenError(primitive)
        return Operation(way, tuple(operands), (), lengths, most, own, follows, cell)

    def _view(self, kind: Kind, equations: Sequence[Equation], operands: Sequence[Operand], like: Operation) -> Operation:
        """Return a reshape that only adds or removes axes of length 1, a flip or a transposition."""
        specs, [e, *_] = self.loop.list.specs, equations
        before = list(zip(*[source_spec(e.inputs[0], specs).shape for e in equations], strict=True))
        after = list(zip(*[specs[e.outputs[0]].shape for e in equations], strict=True))
        whole = (Number(-1, 0), 1)
        if e.primitive is TRANSPOSE:
            axes = e.params["axes"]
            return like._replace(way="transposed", parts=tuple(range(len(before))[::-1] if axes is None else axes))
        if e.primitive is FLIP:
            flipped = e.params["axis"]
            parts = [(kind.number([n - 1 for n in lengths]), -1) if i in flipped else whole for i, lengths in enumerate(before)]
            return like._replace(parts=tuple(parts))
        if e.params.get("order", "C") != "C":
            raise UnevenError
        parts = []
        while before or after:
            if before and after and before[0] == after[0]:
                parts.append(whole)
                del before[0], after[0]
            elif after and set(after[0]) == {1}:
                parts.append(None)  # type: ignore[arg-type]
                del after[0]
            elif before and set(before[0]) == {1}:
                parts.append(Number(-1, 0))  # type: ignore[arg-type]
                del before[0]
            else:
                raise UnevenError
        return like._replace(parts=tuple(parts))

    def _contraction(self, found: Contraction, given: Sequence[ArraySpec], every: Any, kind: str) -> Contraction:
        if len(given) != 2 or found.has_diagonals or kind not in REALS or any(KINDS[spec.dtype] not in REALS for spec in given):
            raise UnevenError
        return found


def _way(equation: Equation, given: Sequence[ArraySpec], result: ArraySpec) -> Any:
    """Return the method of an equation for arrays of the given shapes; `None` if native code has none."""
    made = ROWS.find(equation.primitive)
    if made is None and is_ufunc(equation.primitive):
        made = ufunc_row
    if made is None or any(type(s) is Constant and s.value is None for s in equation.inputs):
        return None
    if result.weak and result.dtype.kind == "i":
        return None
    return made(equation, given, [result])


def _largest(spec: ArraySpec, shapes: Sequence[tuple[int, ...]]) -> ArraySpec:
    """Return a spec with the largest lengths."""
    shape = tuple([max(1, *n) for n in zip(*shapes, strict=True)]) if spec.ndim else ()
    return ArraySpec(shape, spec.dtype, spec.weak)


def _shape_at(form: Sequence[Any], equation: Equation, specs: Sequence[ArraySpec]) -> tuple[int, ...]:
    """Return the shape of the elements that a write changes."""
    path, index = equation.params["path"], equation.params["index"]
    if path:
        index = path[0].params["index"]
    return indexed_shape(source_spec(equation.inputs[0], specs).shape, index)


def _follows(given: Sequence[tuple[int, ...]], whole: Sequence[tuple[int, ...]]) -> tuple[bool, ...]:
    """Return, for each axis of an operand, whether it has the length of the result in all blocks, or the length 1."""
    found = []
    ndim, more = len(given[0]), len(whole[0]) - len(given[0])
    if more < 0:
        raise UnevenError
    for axis in range(ndim):
        if all(a[axis] == b[more + axis] for a, b in zip(given, whole, strict=True)):
            found.append(True)
        elif all(a[axis] == 1 for a in given):
            found.append(False)
        else:
            raise UnevenError
    return tuple(found)


def _by_letters(found: Contraction, shapes: Sequence[tuple[int, ...]], term: str) -> tuple[int, ...]:
    sizes: dict[str, int] = {}
    for letters, shape in zip(found.terms, shapes, strict=True):
        for letter, n in zip(letters, shape, strict=True):
            sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
    return tuple([sizes[letter] for letter in term])
