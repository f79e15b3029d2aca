"""What stands for a function: it is called instead of that, and compares, hashes, prints and is pickled as that."""

from __future__ import annotations

import copy
import copyreg
import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

ABSENT: Any = object()
"""Stands for an argument that was not given."""


class StandIn(functools.partial[Any]):
    """What stands for a function, or a ufunc.

    A partial application of nothing: Python calls it without a frame of its own, which one with `__call__` would cost.
    """

    original: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """That of the original, by which `isinstance(f, np.ufunc)` holds."""
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
        return copy.copy, (self.original,)  # which is the original, and needs no functad where it is read


def stands_for(original: Any, called: Callable[..., Any], **attributes: Any) -> Any:
    """Make a stand-in for a function.

    Args:
        original: the function.
        called: what is called instead.
        attributes: are its own; all others are those of the original.
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
    """Make a stand-in for a function; `make` makes of the function what is called instead, at the first call."""

    def first(*args: Any, **kwargs: Any) -> Any:
        found.__setstate__((make(original), (), {}, vars(found)))
        return found(*args, **kwargs)

    found = stands_for(original, first)
    return found


def standing_type(original: Any, otherwise: Callable[..., Any], **members: Any) -> Any:
    """Make a type of numbers that stands for another one: a subclass that gives numbers of the original.

    Args:
        original: the type.
        otherwise: is called instead unless the only argument is a plain number.
        members: of the class.
    """

    class NumberType(type):
        """The class of what stands for a type of numbers."""

        def __call__(cls, x: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
            if type(x) in _NUMBERS and not args and not kwargs:
                return original(x)
            return original(**kwargs) if x is ABSENT else otherwise(x, *args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, original)

        def __eq__(cls, other: object) -> bool:
            return True if other is cls or other is original else NotImplemented  # a dtype knows types that are equal to it

        def __hash__(cls) -> int:
            return hash(original)

        def __repr__(cls) -> str:
            return repr(original)

    copyreg.pickle(NumberType, lambda cls: (copy.copy, (original,)))
    return NumberType(original.__name__, (original,), {"__slots__": (), "__doc__": original.__doc__, **members})


_NUMBERS = frozenset({float, int, bool, complex, str, np.float64, np.float32, np.int64, np.ndarray})
