"""Objects that stay what they are. Frozen dataclasses would take 6 ms of the 30 that `import functad` may, to generate them."""

from __future__ import annotations

from typing import Any, NoReturn

assign = object.__setattr__


class Immutable:
    """An object whose attributes, those that its class names in `__slots__`, are set by `assign` when it is made."""

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
