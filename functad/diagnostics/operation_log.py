"""The log of the operations of a watched trace, by the slots of their results.

Reads and writes by index move elements and compute nothing. If a program does this element by element, a log of whole arrays
would take quadratic time and memory. So the log keeps only the written elements of a write, and only the result of a read.
Masks trace elements back to their sources.
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
from functad.process import context_variable


@dataclass(frozen=True)
class Offence:
    """The definition of a bad element: a test for the elements of floating-point and complex arrays."""

    test: Callable[[Any], Any]

    def mask(self, value: Any) -> Any:
        """Return the mask of bad elements."""
        if value is None or isinstance(value, ArraySpec) or spec_of(value).dtype.kind not in "fc":
            return np.zeros(() if value is None else np.shape(value), bool)
        return np.asarray(self.test(value))

    def found(self, value: Any) -> bool:
        """Return `True` if any element is bad."""
        return bool(np.any(self.mask(value)))


NAN = Offence(np.isnan)
INFINITE = Offence(np.isinf)
NOT_FINITE = Offence(lambda value: ~np.isfinite(value))


@dataclass(frozen=True)
class Operation:
    """One logged operation.

    Attributes:
        primitive: the primitive.
        name: the name of the primitive, with the name of the NumPy function that the user called.
        line: the file and line of the user's code.
        values: the plain arguments. For the array of a read or write only its spec is kept.
        slots: for each argument its slot, or `None` if it is not a Tensor of the trace.
        params: the parameters.
        out: the plain results; `None` for the array after a write.
        belongs_to: the operation that this one differentiates, or `None`.
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
        """Whether the operation reads or writes elements of an array of the trace, so that the array is not kept."""
        return self.slots[0] is not None and moves_elements(self.primitive)

    def place(self) -> str:
        """Return the name and line of the operation."""
        if self.belongs_to is None:
            return f"{self.name} at {self.line}"
        return f"{self.name}, in the derivative of {self.belongs_to.place()}"


DERIVATIVE_OF: ContextVar[Operation | None] = context_variable("derivative_of", default=None)
"""The operation whose derivative is computed now, or `None`."""


class OperationLog(dict[int, tuple[Operation, int]]):
    """A mapping from slots to the operation that made them and the index among its results.

    Attributes:
        bases: for slots without operation, the values before the first write.
        followed: the name, in messages, of the values that constants do not depend on.
        asked: the name, in messages, of the transform or tape.
    """

    followed = "the arguments of the function"
    asked = "the transform"

    def __init__(self) -> None:
        super().__init__()
        self.bases: dict[int, Any] = {}

    def at(self, slot: int) -> Operation | None:
        """Return the operation that made a slot, or `None`."""
        return self[slot][0] if slot in self else None

    def name_of(self, slot: int) -> str:
        """Return the name of a slot without operation, for messages."""
        return f"input {slot} of the function"

    def value(self, slot: int | None) -> Any:
        """Return the value of a slot; writes are repeated on a copy."""
        writes = []
        while True:
            assert slot is not None  # a logged read or write has an array of the trace
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
        """Return the argument that gave bad elements to a read or write, and the mask of bad elements in this argument.

        The result is `None` if the operation made them itself: a write that adds may make a bad sum of good elements.
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
    """Return `True` if a primitive only reads or writes elements."""
    return primitive is GETITEM or primitive.writes


def adds_to(primitive: Primitive, path: Path) -> bool:
    """Return `True` if old values remain in the written elements: after an addition, or a write to a real or imaginary part."""
    return primitive is ADD_TO or len(choosing(path)) < len(path)


def places(shape: tuple[int, ...], path: Path, index: Any, chosen: Any = True) -> Any:
    """Return the mask of an array that is `chosen` at an index of the view at `path`, and `False` elsewhere."""
    mask = np.zeros(shape, bool)
    put(mask, choosing(path), index, chosen, adds=True)  # "or" at repeated indices
    return mask


def before_writing(mask: Any, path: Path, index: Any, shape: tuple[int, ...], *, adds: bool) -> tuple[Any, Any]:
    """Return the masks of the old array and of the written value, of the given shape, for a mask of the array after a write."""
    piece = np.asarray(part(mask, choosing(path))[index])
    piece = np.broadcast_to(piece, np.broadcast_shapes(piece.shape, shape))
    extra = piece.ndim - len(shape)
    axes = tuple([i for i, n in enumerate(piece.shape) if i < extra or (n != 1 and shape[i - extra] == 1)])
    rest = mask if adds else mask & ~places(mask.shape, path, index)
    return rest, piece.any(axes).reshape(shape)


def after_writing(chosen: Any, path: Path, index: Any, shape: tuple[int, ...]) -> Any:
    """Return the mask of an array of the given shape after a write, for the mask `chosen` of the written value."""
    width = np.shape(part(np.zeros(shape, bool), choosing(path))[index])
    extra = max(0, chosen.ndim - len(width))  # axes of length 1 in front
    return places(shape, path, index, chosen.reshape(chosen.shape[extra:]))
