"""Primitives by what they can be found by: how the equations of expression lists are pickled and copied."""

from __future__ import annotations

import operator
import pickle
import sys
from importlib import import_module
from typing import Any

from functad.importable import by_name
from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, INTERNAL, Primitive


def reduced(primitive: Primitive) -> Any:
    """Return what `__reduce__` returns of a primitive.

    Raises:
        pickle.PicklingError: it was made for one call, so that nothing else can find it.
    """
    if ENTRIES.get(primitive.function) is primitive:
        return vocabulary.find, (primitive.function,)
    if primitive.owner is not None:
        return operator.attrgetter("entry"), (primitive.owner,)
    own = [module for module in sys.modules if module.startswith("functad.")]
    named = by_name(primitive, *own)
    if named is not None:
        return named
    alike = _alike(primitive.name)
    if primitive in alike:
        return _internal, (primitive.compute.__module__, primitive.name, alike.index(primitive))
    raise pickle.PicklingError(f"Can't pickle {primitive!r}: it was made for one call, and no module holds it")


def _internal(module: str, name: str, number: int) -> Primitive:
    import_module(module)
    return _alike(name)[number]


def _alike(name: str) -> list[Primitive]:
    """Return the internal primitives of one name, which one module makes."""
    return [primitive for primitive in INTERNAL if primitive.name == name]
