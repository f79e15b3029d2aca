"""Immutable objects, and cache keys of values.

`Immutable` is a base class, because generating frozen dataclasses would take 6 ms of the 30 ms for `import functad`.

Cache keys are equal only if no function can distinguish the values. `==` is not enough for a cache. `2 == 2.0 == np.int64(2)`,
`1 == True` and `0.0 == -0.0` hold, but functions of these values return different results. `nan != nan` would make a new entry
for each call.
"""

from __future__ import annotations

import numbers
from typing import Any, NoReturn

import numpy as np

assign = object.__setattr__


class Immutable:
    """An object with the attributes `__slots__` of its class, which `__init__` sets with `assign`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make another one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make another one")

    def __getstate__(self) -> dict[str, Any]:
        names = [name for cls in type(self).__mro__ for name in getattr(cls, "__slots__", ())]
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            assign(self, name, value)


_TEXT = frozenset({str, bytes, type(None), bool, int, type, type(Ellipsis), type(NotImplemented)})
"""Types for which equal values are interchangeable. Floats are not: `0.0 == -0.0`."""

_LONGEST_FLOAT = 8
"""Alignment above which a NumPy float (`np.longdouble`) has padding bytes."""


class Exact(Immutable):
    """A value as a key. Two keys are equal if types and values are equal, at every depth.

    The sign of zero counts, and NaN equals NaN.

    Attributes:
        value: the value.
        key: a hashable tuple, made by `exact_key`.

    Example:
        >>> Exact((1, 0.0)) == Exact((1, 0.0)), Exact((1, 0.0)) == Exact((True, -0.0))
        (True, False)
    """

    __slots__ = ("key", "value")

    value: Any
    key: Any

    def __init__(self, value: Any, key: Any = None) -> None:
        assign(self, "value", value)
        assign(self, "key", exact_key(value) if key is None else key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


def exact_key(value: Any) -> Any:
    """Return a key that equals another key only if types and values are equal, at every depth.

    The function descends into tuples and their subclasses, frozensets, slices, ranges, and dataclasses and attrs classes that
    compare their fields. Other objects are compared by the `==` of their class.

    Raises:
        TypeError: `value` is or contains a mutable object.
    """
    kind = type(value)
    if kind in _TEXT:
        return kind, value
    if kind is float or kind is complex:
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple(map(exact_key, value))
    if kind is frozenset:
        return kind, frozenset(map(exact_key, value))
    if kind is slice or kind is range:
        return kind, exact_key((value.start, value.stop, value.step))
    if issubclass(kind, np.generic) and not value.dtype.hasobject:
        wide = value.dtype.kind in "fc" and value.dtype.alignment > _LONGEST_FLOAT
        return kind, value.dtype, repr(value) if wide else value.tobytes()
    hash(value)  # raises for a mutable object
    return _key_of_object(kind, value)


def _key_of_object(kind: type, value: Any) -> Any:
    """Return the key of an object of another class."""
    if issubclass(kind, (tuple, frozenset)) and kind.__eq__ in (tuple.__eq__, frozenset.__eq__):
        inside = frozenset(map(exact_key, value)) if issubclass(kind, frozenset) else tuple(map(exact_key, value))
        return kind, inside, exact_key(tuple(vars(value).items())) if getattr(value, "__dict__", None) else ()
    names = _compared_fields(kind)
    if names is not None:
        fields = exact_key(tuple([getattr(value, name, None) for name in names]))
        return (kind, fields) if _compares_fields(kind) else (kind, fields, value)
    if isinstance(value, numbers.Number) and not isinstance(value, int):  # Decimal("1.0") == Decimal("1.00")
        return kind, repr(value)
    return kind, value


def _compared_fields(kind: Any) -> list[str] | None:
    """Return the names of the fields that `==` of a class compares; `None` if it does not compare fields."""
    params = getattr(kind, "__dataclass_params__", None)
    if params is not None:
        return [f.name for f in kind.__dataclass_fields__.values() if f.compare] if params.eq else None
    if "__attrs_attrs__" in vars(kind):
        return [a.name for a in kind.__attrs_attrs__ if a.eq] if kind.__eq__ is not object.__eq__ else None
    return None


def _compares_fields(kind: Any) -> bool:
    """Return `True` if `==` of a class was generated from its fields."""
    code = getattr(kind.__eq__, "__code__", None)
    return code is not None and (
        code.co_qualname.startswith("__create_fn__") or code.co_filename.startswith("<attrs generated")
    )
