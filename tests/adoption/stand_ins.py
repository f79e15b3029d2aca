"""The objects that adopted code gets in place of NumPy, `math`, their functions, and Python's types of numbers."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import functad

_NAME = "module_of_stand_ins"


def _adopted(text: str, **names: Any) -> dict[str, Any]:
    """Return the names of a module while it is adopted, with the source and the given names."""
    module = ModuleType(_NAME)
    vars(module).update(names)
    exec(text, vars(module))
    sys.modules[_NAME] = module
    try:
        with functad.adopt(_NAME):
            return dict(vars(module))
    finally:
        del sys.modules[_NAME]


@functools.cache
def replacement(value: Any) -> Any:
    """Return the object that adopted code gets in place of a module or a function."""
    return _adopted("", value=value)["value"]


@functools.cache
def numbers() -> dict[str, Any]:
    """Return by name the types that adopted code calls in place of Python's."""
    names = ("float", "complex", "type")
    found = _adopted("def f(x):\n    return float(x), complex(x), type(x)\n")
    return {name: found[name] for name in names}
