"""How a function of NumPy is computed by a library with the array API: by a function here, or by its own of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.namespaces import arranging, matrices, reductions, sorting  # noqa: F401 # they enter functions
from functad.namespaces.array import NamespaceArray
from functad.namespaces.elementwise import ufunc_call
from functad.namespaces.indexing import read, written
from functad.namespaces.library import Library

__all__ = ["by_name", "read", "ufunc_call", "written"]


def by_name(function: Any) -> Callable[..., Any]:
    """Return the function of a library that has the name of one of NumPy's: `linalg.inv`, or what libraries have beside.

    The names that the standard has with other arguments than NumPy's are in `FUNCTIONS`.
    """
    path = f"{function.__module__}.{function.__name__}".split(".")[1:]

    def call(lib: Library, *args: Any, **kwargs: Any) -> Any:
        own = lib.xp
        for part in path:
            own = getattr(own, part)
        return own(*[_plain(arg, lib) for arg in args], **{name: _plain(arg, lib) for name, arg in kwargs.items()})

    return call


def _plain(tree: Any, lib: Library) -> Any:
    """Return an argument with arrays of the library in place of wrapped ones and of NumPy's."""
    if type(tree) in (list, tuple):
        parts = [_plain(part, lib) for part in tree]
        return type(tree)(parts)
    return lib.array(tree) if type(tree) in (NamespaceArray, np.ndarray) else tree
