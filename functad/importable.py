"""Objects by the names that modules have them under, which is how they are pickled, and modules of optional packages."""

from __future__ import annotations

import operator
import sys
from importlib import import_module
from typing import Any

from functad.errors import MissingPackageError
from functad.places import here


def by_name(value: Any, *modules: str | None) -> tuple[Any, tuple[str, str]] | None:
    """Return the result of `__reduce__` for an object that a module holds, which imports it; `None` if no module holds it.

    Args:
        value: the object.
        modules: the names of modules; the object's own qualified name is looked for in the first.
    """
    for module in modules:
        held = vars(sys.modules[module]) if module in sys.modules else {}
        names = [getattr(value, "__qualname__", ""), *[name for name, other in held.items() if other is value]]
        for name in names:
            try:
                if name and operator.attrgetter(name)(sys.modules[module]) is value:  # type: ignore[index]
                    return imported, (module, name)  # type: ignore[return-value]
            except (AttributeError, KeyError):
                continue
    return None


def imported(module: str, name: str) -> Any:
    """Return the object of a name in a module; the name may lead through classes: `C.f`."""
    return operator.attrgetter(name)(import_module(module))


def calling_module(frame: Any) -> str | None:
    """Return the name of the module whose code a frame runs."""
    return None if frame is None else frame.f_globals.get("__name__")


def optional(module: str, what: str, package: str = "SciPy", install: str = "'functad[scipy]'") -> Any:
    """Return a module of a package that functad can do without.

    Raises:
        MissingPackageError: it is not installed; the message says what needs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{what}, at {here()}, needs {package}: pip install {install}.") from error
