"""Pickling of primitives by reference, as parts of expression lists.

The unpickling process may not have imported the vocabulary, so it is imported on demand.
"""

from __future__ import annotations

import operator
import pickle
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from functad.importable import by_name


def reduced(primitive: Any, *, entered: bool, internal: Sequence[Any]) -> Any:
    """Return the `__reduce__` value of a primitive: a function that finds it, and the arguments.

    Args:
        primitive: the primitive.
        entered: `True` if the registry holds the primitive under its function.
        internal: all internal primitives.

    Raises:
        pickle.PicklingError: the primitive was made for one call, so it cannot be found again.
    """
    if entered:
        return _entered, (primitive.function,)
    if primitive.owner is not None:
        return operator.attrgetter("entry"), (primitive.owner,)
    own = [module for module in sys.modules if module.startswith("functad.")]
    named = by_name(primitive, *own)
    if named is not None:
        return named
    alike = [other for other in internal if other.name == primitive.name]
    if primitive in alike:
        return _internal, (primitive.compute.__module__, primitive.name, alike.index(primitive))
    raise pickle.PicklingError(f"Can't pickle {primitive!r}: it was made for one call, and no module holds it")


def _entered(function: Any) -> Any:
    return import_module("functad.primitives.vocabulary").find(function)


def _internal(module: str, name: str, number: int) -> Any:
    """Return one of the internal primitives with a name that a module creates."""
    import_module(module)
    return [entry for entry in import_module("functad.primitives.entry").INTERNAL if entry.name == name][number]
