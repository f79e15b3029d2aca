"""The operations of a watched trace as they were called, by the slots of their results.

Reading and writing by an index move elements and compute nothing. Where a program does so element by element, keeping the whole
array for each operation would take time and memory quadratic in the number of elements. So of a write only what was written is
kept, and of reading only what was read; masks tell which element came from where.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import ADD_TO, Path, choosing, part, put
from functad.settings import context_variable


@dataclass(frozen=True)
class Offence:
    """What counts as bad: a test of the elements of inexact arrays."""

    test: Callable[[Any], Any]

    def mask(self, value: Any) -> Any:
        """Return which elements are bad."""
        if value is None or isinstance(value, ArraySpec) or spec_of(value).dtype.kind not in "fc":
            return np.zeros(() if value is None else np.shape(value), bool)
        return np.asarray(self.test(value))

    def found(self, value: Any) -> bool:
        """Say whether an element is bad."""
        return bool(np.any(self.mask(value)))


NAN = Offence(np.isnan)
INFINITE = Offence(np.isinf)
NOT_FINITE = Offence(lambda value: ~np.isfinite(value))


@dataclass(frozen=True)
class Operation:
    """An operation as it was recorded.

    Attributes:
        primitive: what was called.
        name: its name, and that of the function of NumPy which the user called.
        line: file and line of the user's code.
        values: its arguments, without Tensors; of an array that elements were read from or written to, only the spec.
        slots: the slots of those that are Tensors of the trace.
        params: its parameters.
        out: its results, without Tensors; `None` for an array after a write.
        belongs_to: the operation whose derivative it computes, if it was recorded by an inner transform.
    """

    primitive: Primitive
    name: str
    line: str
    values: tuple[Any, ...]
    slots: tuple[int | None, ...]
    params: dict[str, Any]
    out: tuple[Any, ...]
    belongs_to: Operation | None

    @property
    def moves(self) -> bool:
        """Whether elements of an array of the trace were read or written, and that array is not kept."""
        return self.slots[0] is not None and moves_elements(self.primitive)

    def place(self) -> str:
        """Name the operation and its line."""
        if self.belongs_to is None:
            return f"{self.name} at {self.line}"
        return f"{self.name}, in the derivative of {self.belongs_to.place()}"


DERIVATIVE_OF: ContextVar[Operation | None] = context_variable("derivative_of", default=None)
"""The operation whose derivative is computed now."""


class OperationLog(dict[int, tuple[Operation, int]]):
    """By slot, the operation that made it, and which of its results it is.

    Attributes:
        bases: by slot, the values before the first write of what no operation made.
        followed: what constants do not depend on, in messages.
        asked: what was asked for derivatives, in messages.
    """

    followed = "the arguments of the function"
    asked = "the transform"

    def __init__(self) -> None:
        super().__init__()
        self.bases: dict[int, Any] = {}

    def at(self, slot: int) -> Operation | None:
        """Return the operation that made a slot, if one did."""
        return self[slot][0] if slot in self else None

    def name_of(self, slot: int) -> str:
        """Name a slot that no operation made."""
        return f"input {slot} of the function"

    def value(self, slot: int | None) -> Any:
        """Return the value of a slot: of an array that was written to, by doing so again."""
        writes = []
        while True:
            assert slot is not None  # what is read or written belongs to the trace
            operation, k = self.get(slot, (None, 0))
            if operation is None or not operation.moves or not operation.primitive.writes:
                break
            writes.append(operation)
            slot = operation.slots[0]
        value = self.bases[slot] if operation is None else operation.out[k]
        if writes:
            value = np.copy(value)
            with np.errstate(all="ignore"):
                for operation in reversed(writes):
                    at, adds = operation.params, operation.primitive is ADD_TO
                    put(value, at["path"], at["index"], operation.values[1], adds=adds)
        return value

    def source(self, operation: Operation, mask: Any, offence: Offence) -> tuple[int, Any] | None:
        """Return which argument of an operation that moves elements some bad ones came from, and which they were there.

        `None` if they were born in it: where something is added to elements, sums may be.
        """
        shape, index = operation.values[0].shape, operation.params["index"]
        if operation.primitive is GETITEM:
            return 0, places(shape, (), index, mask)
        path, v = operation.params["path"], operation.values[1]
        adds = adds_to(operation.primitive, path)
        rest, given = before_writing(mask, path, index, shape_of(v), adds=adds)
        if not adds:
            return (0, rest) if rest.any() else (1, given)
        given &= offence.mask(v)
        if given.any():
            return 1, given
        before = self.value(operation.slots[0])
        rest = rest & offence.mask(before)
        return (0, rest) if rest.any() else None


# Elements that are read and written


def moves_elements(primitive: Primitive) -> bool:
    """Say whether an operation only reads or writes elements."""
    return primitive is GETITEM or primitive.writes


def adds_to(primitive: Primitive, path: Path) -> bool:
    """Say whether what was there before is still in what was written to, as the imaginary part is if the real one was."""
    return primitive is ADD_TO or len(choosing(path)) < len(path)


def places(shape: tuple[int, ...], path: Path, index: Any, chosen: Any = True) -> Any:
    """Return a mask of an array that is true at an index of one of its views, there where `chosen` is."""
    mask = np.zeros(shape, bool)
    put(mask, choosing(path), index, chosen, adds=True)  # at a place that is repeated, any of them counts
    return mask


def before_writing(mask: Any, path: Path, index: Any, shape: tuple[int, ...], *, adds: bool) -> tuple[Any, Any]:
    """Select what a mask of an array after a write does, in the array before, and in what was written, of some shape."""
    piece = np.asarray(part(mask, choosing(path))[index])
    piece = np.broadcast_to(piece, np.broadcast_shapes(piece.shape, shape))
    extra = piece.ndim - len(shape)
    axes = tuple([i for i, n in enumerate(piece.shape) if i < extra or (n != 1 and shape[i - extra] == 1)])
    rest = mask if adds else mask & ~places(mask.shape, path, index)
    return rest, piece.any(axes).reshape(shape)


def after_writing(chosen: Any, path: Path, index: Any, shape: tuple[int, ...]) -> Any:
    """Return which elements of an array, of some shape, those of what was written became that a mask selects."""
    width = np.shape(part(np.zeros(shape, bool), choosing(path))[index])
    extra = max(0, chosen.ndim - len(width))  # axes of length 1 in front
    return places(shape, path, index, chosen.reshape(chosen.shape[extra:]))
