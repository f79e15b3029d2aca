"""Functions that Numba compiled: with Tensors the Python function runs that was compiled, with all else the compiled one.

The object that Numba made stays the one that it is, as others find it by its identity, and Numba by its class; only its class
becomes one that is derived from that, and looks at the arguments.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from functad.adoption.arrays import has_tensors, vectorize
from functad.adoption.code import module_of

PYTHON = "__functad_python__"
"""The name under which a function of Numba keeps what is called with Tensors."""


def is_of_numba(value: Any) -> bool:
    """Say whether Numba made an object."""
    return module_of(type(value)).partition(".")[0] == "numba"


@functools.cache
def class_looking_for_tensors(kind: Any) -> type:
    """Return the class of functions of Numba that calls the Python function if there are Tensors among the arguments."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if has_tensors(args) or (kwargs and has_tensors(kwargs.values())):
            return vars(self)[PYTHON](*args, **kwargs)
        return kind.__call__(self, *args, **kwargs)

    members = {"__slots__": (), "__call__": call, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), {**members, "_reduce_class": classmethod(lambda cls: kind)})


def python_function(value: Any) -> Any:
    """Return the function that Numba compiles to an object; `None` if that is not known."""
    return getattr(getattr(value, "_dispatcher", value), "py_func", None)


def of_tensors(value: Any) -> Any:
    """Return the function that is called with Tensors in place of an object of Numba; `None` if there is nothing.

    A ufunc of Numba's is one of numbers, which is called for each; of generalized ones there is none, as theirs write into an
    argument.
    """
    function, name = python_function(value), type(value).__name__
    if not isinstance(function, FunctionType) or "GUFunc" in name:
        return None
    return vectorize(function) if "UFunc" in name else function
