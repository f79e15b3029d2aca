"""Operations on arrays of other libraries: what a library lacks raises with its name, and no array is converted for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from functad.errors import UnsupportedError
from functad.namespaces.array import NamespaceArray
from functad.places import here
from functad.primitives.entry import Primitive
from functad.primitives.names import shown_name
from functad.tracing.foreign import overrides

_CONVERTS = ".*is not implemented by"
"""How Dask begins to tell that it converts all chunks, and lets NumPy compute."""

_LACKS = ("returned NotImplemented", "no implementation found", "unexpected keyword argument", "positional arguments but")
_LOCK = RLock()
"""Filters of warnings belong to all threads: two that set them at once could leave them set."""


def computed(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Compute a call that may have arrays of other libraries among its values.

    Raises:
        UnsupportedError: the library lacks a function that is needed.
    """
    foreign = [value for value in values if overrides(value)]
    if not foreign or primitive.inner is not None or primitive.lists or primitive.owner is not None:
        return primitive.compute(*values, **params)
    if type(foreign[0]) is NamespaceArray:  # which says itself what its library lacks
        return primitive.compute(*values, **params)
    with lacking(f"{shown_name(primitive.function)} of a Tensor and arrays", type(foreign[0])):
        out = primitive.compute(*values, **params)
    check_shape(out)
    return out


@contextmanager
def lacking(what: str, kind: type) -> Iterator[None]:
    """Return a context in which what a library lacks raises with its name, and no array is converted in its place.

    Args:
        what: what is computed, for the message: "np.sort of a Tensor and arrays".
        kind: the type of arrays of that library.
    """
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.filterwarnings("error", _CONVERTS, FutureWarning)
            yield
    except (AttributeError, FutureWarning, NotImplementedError, TypeError) as error:
        if isinstance(error, UnsupportedError) or (type(error) is TypeError and not any(text in str(error) for text in _LACKS)):
            raise
        raise UnsupportedError(
            f"{what} of {kind.__module__}.{kind.__qualname__}, at {here()}: that library lacks what it needs ({error}). "
            f"Write it with functions that the library has, or convert the array."
        ) from error


def check_shape(out: Any) -> None:
    """Raise if a length of an array is not known, as that of lazy arrays after a selection by a mask: derivatives need it.

    Raises:
        UnsupportedError: one is not.
    """
    shape = getattr(out, "shape", ())
    if any(n != n for n in shape):
        kind = type(out)
        raise UnsupportedError(
            f"an array of {kind.__module__}.{kind.__qualname__} has the shape {shape}, at {here()}: a length depends on data "
            f"that is not computed yet, and derivatives need it. Call X.compute_chunk_sizes() of the array that was "
            f"selected, before it meets a Tensor; or weigh in place of selecting: np.where(mask, x, 0.0) for x[mask]."
        )
