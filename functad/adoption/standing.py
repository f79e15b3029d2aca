"""Stand-ins: a stand-in is called instead of a function, and compares, hashes, prints and pickles like the function."""

from __future__ import annotations

import copy
import copyreg
import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

ABSENT: Any = object()
"""Marks an argument that was not given."""


class StandIn(functools.partial[Any]):
    """A stand-in for a function or a ufunc.

    It is a partial application without arguments: Python calls it without an extra frame, unlike a class with `__call__`.
    """

    original: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type of the original, so that `isinstance(f, np.ufunc)` holds."""
        return type(self.original)

    def __eq__(self, other: object) -> bool:
        if other is self or other is self.original:
            return True
        return type(other) is StandIn and other.original is self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __repr__(self) -> str:
        return repr(self.original)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["original"], name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        binds = instance is not None and hasattr(type(self.original), "__get__")
        return MethodType(self, instance) if binds else self

    def __reduce__(self) -> Any:
        return copy.copy, (self.original,)  # pickles as the original; functad is not needed to load it


def stands_for(original: Any, called: Callable[..., Any], **attributes: Any) -> Any:
    """Return a stand-in for a function.

    Args:
        original: the function.
        called: the function to call instead.
        attributes: attributes of the stand-in; all others come from the original.
    """
    found = StandIn(called)
    names = {
        name: getattr(original, name)
        for name in ("__name__", "__qualname__", "__module__", "__doc__")
        if hasattr(original, name)
    }
    vars(found).update({**names, **attributes, "original": original, "__wrapped__": original})
    return found


def made_when_called(original: Any, make: Callable[[Any], Callable[..., Any]]) -> Any:
    """Return a stand-in for a function; the first call computes its replacement `make(original)`."""

    def first(*args: Any, **kwargs: Any) -> Any:
        found.__setstate__((make(original), (), {}, vars(found)))
        return found(*args, **kwargs)

    found = stands_for(original, first)
    return found


def standing_type(original: Any, otherwise: Callable[..., Any], **members: Any) -> Any:
    """Return a stand-in for a number type: a subclass whose calls give numbers of the original type.

    Args:
        original: the type.
        otherwise: called instead of `original`, except for a single plain number.
        members: the class members.
    """

    class NumberType(type):
        """The metaclass of stand-ins for number types."""

        def __call__(cls, x: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
            if type(x) in _NUMBERS and not args and not kwargs:
                return original(x)
            return original(**kwargs) if x is ABSENT else otherwise(x, *args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, original)

        def __eq__(cls, other: object) -> bool:
            return True if other is cls or other is original else NotImplemented  # `np.dtype` accepts types that compare equal

        def __hash__(cls) -> int:
            return hash(original)

        def __repr__(cls) -> str:
            return repr(original)

    copyreg.pickle(NumberType, lambda cls: (copy.copy, (original,)))
    return NumberType(original.__name__, (original,), {"__slots__": (), "__doc__": original.__doc__, **members})


_NUMBERS = frozenset({float, int, bool, complex, str, np.float64, np.float32, np.int64, np.ndarray})
