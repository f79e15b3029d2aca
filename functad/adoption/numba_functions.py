"""Functions compiled by Numba: a call with Tensors runs the Python function, any other call the compiled one.

The Numba object keeps its identity, since other code may compare it. Only its class changes, to a subclass that checks the
arguments; Numba still recognises that class.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from functad.adoption.arrays import has_tensors, vectorize
from functad.adoption.code import module_of

PYTHON = "__functad_python__"
"""The attribute of a Numba function that holds the function to call with Tensors."""


def is_of_numba(value: Any) -> bool:
    """Return `True` if an object was made by Numba."""
    return module_of(type(value)).partition(".")[0] == "numba"


@functools.cache
def class_looking_for_tensors(kind: Any) -> type:
    """Return a subclass of `kind` that calls the Python function if there are Tensors among the arguments."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if has_tensors(args) or (kwargs and has_tensors(kwargs.values())):
            return vars(self)[PYTHON](*args, **kwargs)
        return kind.__call__(self, *args, **kwargs)

    members = {"__slots__": (), "__call__": call, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), {**members, "_reduce_class": classmethod(lambda cls: kind)})


def python_function(value: Any) -> Any:
    """Return the Python function that a Numba object compiles; `None` if it is unknown."""
    return getattr(getattr(value, "_dispatcher", value), "py_func", None)


def of_tensors(value: Any) -> Any:
    """Return the function to call with Tensors instead of a Numba object; `None` if there is none.

    For a Numba ufunc, the Python function is called for each element. A generalized ufunc has no replacement, since its Python
    function writes to an argument.
    """
    function, name = python_function(value), type(value).__name__
    if not isinstance(function, FunctionType) or "GUFunc" in name:
        return None
    return vectorize(function) if "UFunc" in name else function
