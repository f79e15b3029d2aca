"""Operations that move elements and compute nothing: reading and writing by an index. A NaN is followed through them by place.

Where a program reads or writes an array element by element, keeping the whole array for each operation would take time and
memory quadratic in the number of elements. So of a write only what was written is kept, and of reading only what was read.
Masks tell which element came from where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import ADD_TO, Path, choosing, part, put

Sources = Callable[[Any], list[tuple[int, Any]]]
"""From a mask of elements of an array: the slots that they may have come from, and the elements of these."""


def is_route(primitive: Primitive) -> bool:
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
    """Return what a mask of an array after a write selects in the array before, and in what was written, of some shape."""
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
