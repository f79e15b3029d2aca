"""A base class of immutable objects. To generate frozen dataclasses would take 6 ms of the 30 ms for `import functad`."""

from __future__ import annotations

from typing import Any, NoReturn

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
