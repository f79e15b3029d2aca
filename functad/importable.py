"""Import of objects by module and name, for pickling, and of optional packages."""

from __future__ import annotations

import operator
import sys
from importlib import import_module
from typing import Any

from functad.errors import MissingPackageError
from functad.places import here


def by_name(value: Any, *modules: str | None) -> tuple[Any, tuple[str, str]] | None:
    """Return the result of `__reduce__` for an object that a module holds, by import; `None` if no module holds it.

    Modules that cloudpickle pickles by value, such as `__main__`, do not count: they differ in the reading process.

    Args:
        value: the object.
        modules: the names of the modules to search. In each, the qualified name of the object is tried first.
    """
    for module in modules:
        if _by_value(module):
            continue
        held = vars(sys.modules[module]) if module in sys.modules else {}
        names = [getattr(value, "__qualname__", ""), *[name for name, other in held.items() if other is value]]
        for name in names:
            try:
                if name and operator.attrgetter(name)(sys.modules[module]) is value:  # type: ignore[index]
                    return imported, (module, name)  # type: ignore[return-value]
            except (AttributeError, KeyError):
                continue
    return None


def _by_value(module: str | None) -> bool:
    """Return `True` if cloudpickle, or a copy of it in another package, is pickling objects of a module by value."""
    registered: Any = getattr(sys.modules.get("cloudpickle"), "list_registry_pickle_by_value", frozenset)()
    if module != "__main__" and module not in registered:
        return False
    frame: Any = sys._getframe(1)
    while frame is not None and "cloudpickle" not in str(frame.f_globals.get("__name__")).split("."):
        frame = frame.f_back
    return frame is not None


def imported(module: str, name: str) -> Any:
    """Return an object by module and name. The name may be qualified by classes: `C.f`."""
    return operator.attrgetter(name)(import_module(module))


def calling_module(frame: Any) -> str | None:
    """Return the name of the module of a frame's code."""
    return None if frame is None else frame.f_globals.get("__name__")


def optional(module: str, what: str, package: str = "SciPy", install: str = "'functad[scipy]'") -> Any:
    """Return a module of an optional package.

    Raises:
        MissingPackageError: the package is not installed; the message names the feature that needs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{what}, at {here()}, needs {package}: pip install {install}.") from error
