"""What a watch keeps of a trace beside its records: the operations as they were called, by the slots of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.diagnostics.routes import adds_to, before_writing, is_route, places
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import ADD_TO, put


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
class Note:
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
    belongs_to: Note | None

    @property
    def moves(self) -> bool:
        """Whether elements of an array of the trace were read or written, and that array is not kept."""
        return self.slots[0] is not None and is_route(self.primitive)

    def place(self) -> str:
        """Return what the operation is and where it stands."""
        if self.belongs_to is None:
            return f"{self.name} at {self.line}"
        return f"{self.name}, in the derivative of {self.belongs_to.place()}"


class Notes(dict[int, tuple[Note, int]]):
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

    def name_of(self, slot: int) -> str:
        """Return what a slot is that no operation made."""
        return f"input {slot} of the function"

    def value(self, slot: int | None) -> Any:
        """Return the value of a slot: of an array that was written to, by doing so again."""
        writes = []
        while True:
            assert slot is not None  # what is read or written belongs to the trace
            note, k = self.get(slot, (None, 0))
            if note is None or not note.moves or not note.primitive.writes:
                break
            writes.append(note)
            slot = note.slots[0]
        value = self.bases[slot] if note is None else note.out[k]
        if writes:
            value = np.copy(value)
            with np.errstate(all="ignore"):
                for note in reversed(writes):
                    put(value, note.params["path"], note.params["index"], note.values[1], adds=note.primitive is ADD_TO)
        return value

    def source(self, note: Note, mask: Any, offence: Offence) -> tuple[int, Any] | None:
        """Return which argument of an operation that moves elements some bad ones came from, and which they were there.

        `None` if they were born in it: where something is added to elements, sums may be.
        """
        shape, index = note.values[0].shape, note.params["index"]
        if note.primitive is GETITEM:
            return 0, places(shape, (), index, mask)
        path, v = note.params["path"], note.values[1]
        adds = adds_to(note.primitive, path)
        rest, given = before_writing(mask, path, index, shape_of(v), adds=adds)
        if not adds:
            return (0, rest) if rest.any() else (1, given)
        given &= offence.mask(v)
        if given.any():
            return 1, given
        before = self.value(note.slots[0])
        rest = rest & offence.mask(before)
        return (0, rest) if rest.any() else None
