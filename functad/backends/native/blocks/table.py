"""A block loop as data: the operations of its kinds of blocks, its memories, and its table."""

from __future__ import annotations

from typing import Any, NamedTuple

from functad.primitives.entry import Primitive


class Number(NamedTuple):
    """An integer of a block: the number in a column of the table plus `offset`; `offset` alone if the column is -1."""

    column: int
    offset: int


class Cell(NamedTuple):
    """A place for a value: a row of the array of a class."""

    memory: int
    number: Number


class Operand(NamedTuple):
    """An operand of an operation.

    Attributes:
        kind: `here`, the result of the operation `which` of the block; `outer`, the input `which` of the loop; `stored`, a cell
            of an earlier loop, in the input `which`; or `cell`, a cell of this loop.
        which: the number of the operation or of the input.
        cell: the cell.
        lengths: the lengths of the axes.
    """

    kind: str
    which: int
    cell: Cell | None
    lengths: tuple[Number, ...]


class Operation(NamedTuple):
    """An operation of a block.

    Attributes:
        way: a pointwise operation, a reduction, a contraction, or `read` or `write`.
        operands: the operands; for a write the array and the value.
        parts: for a read or write, for each part of the index: a pair of the position and the step of a slice, a position, or
            `None` for a new axis.
        lengths: the lengths of the axes of the result; for a write, of the elements written.
        most: the largest lengths of the axes.
        kind: the type of the elements.
        follows: for each operand, for each axis, whether the axis has the length of the result; else the length is 1.
        cell: the cell of the result.
        copied: for a write, whether the array is copied to the cell of the result first.
        adds: for a write, whether the value is added.
    """

    way: Any
    operands: tuple[Operand, ...]
    parts: tuple[Any, ...]
    lengths: tuple[Number, ...]
    most: tuple[int, ...]
    kind: str
    follows: tuple[tuple[bool, ...], ...] = ()
    cell: Cell | None = None
    copied: bool = False
    adds: bool = False


class Memory(NamedTuple):
    """The array of a class of values: the number of cells, the shape of a cell, and the type of the elements."""

    cells: int
    shape: tuple[int, ...]
    kind: str


class BlockLoop(NamedTuple):
    """A loop over blocks.

    Attributes:
        kinds: the operations of each kind, and the number of its columns.
        steps: the number of blocks.
        memories: the arrays for values.
        preloaded: values copied before the loop: the memory, the number of the cell, the input, and the shape.
        returned: the memories that the loop returns.
    """

    kinds: tuple[tuple[tuple[Operation, ...], int], ...]
    steps: int
    memories: tuple[Memory, ...]
    preloaded: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    returned: tuple[int, ...]


def _never(*arrays: Any, loop: BlockLoop) -> Any:
    raise NotImplementedError("native code computes block loops")


BLOCKS = Primitive(
    _never,
    kind="general",
    names=(),
    compute=_never,
    vjps=(),
    doc="repeated statements of unrolled loops",
    samples=None,
    name="block_loop",
    multiple=True,
    registered=False,
)


class UnevenError(Exception):
    """The blocks cannot become a loop."""
