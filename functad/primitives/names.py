"""What functions of NumPy and SciPy are called in messages, and whose a ufunc is, which does not say so itself."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

_SCIPY_MODULES = ("scipy.special", "scipy.special._ufuncs")
_PUBLIC = {"numpy.lib._scimath_impl": "numpy.emath", "numpy.lib.scimath": "numpy.emath"}


def is_scipys(function: Any) -> bool:
    """Say whether a function is a ufunc of `scipy.special`, which then has been imported by whoever uses it."""
    if not isinstance(function, np.ufunc) or "scipy.special" not in sys.modules:
        return False
    name = function.__name__
    return any(getattr(sys.modules.get(module), name, None) is function for module in _SCIPY_MODULES)


def shown_name(function: Any) -> str:
    """Return the name of a function as users write it: `np.sum`, `np.linalg.solve`, `scipy.special.expit`.

    Example:
        >>> shown_name(np.linalg.norm), shown_name(np.emath.sqrt), shown_name(np.sin)
        ('np.linalg.norm', 'np.emath.sqrt', 'np.sin')
    """
    name = getattr(function, "__name__", repr(function))
    if is_scipys(function):
        return f"scipy.special.{name.strip('_')}"
    if getattr(np, name, None) is function:
        return f"np.{name}"
    module = getattr(function, "__module__", None) or ""
    return f"{_PUBLIC.get(module, module)}.{name}".replace("numpy.", "np.", 1).lstrip(".")
