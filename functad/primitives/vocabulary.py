"""The vocabulary: all functions with an entry, whether their families are imported or not.

This module imports the common families. `find` imports the others on demand, because all of them would take a third of the
30 ms that `import functad` may cost. The registry `ENTRIES` holds the entries of the families imported so far.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from functad.primitives.arranging import join, reshape, shapes  # noqa: F401
from functad.primitives.elementwise import conversion, elementary, selection  # noqa: F401
from functad.primitives.entry import ENTRIES, Entry
from functad.primitives.indexing import read  # noqa: F401
from functad.primitives.linalg import einsum, products  # noqa: F401
from functad.primitives.reductions import over_axes, scans, statistics  # noqa: F401

LATER = (
    "arranging.creation",
    "indexing.sort",
    "elementwise.complex_numbers",
    "arranging.repeat",
    "indexing.take",
    "arranging.flip",
    "arranging.diagonals",
    "arranging.pad",
    "elementwise.special",
    "elementwise.bessel",
    "signals.differences",
    "reductions.covariances",
    "linalg.determinants",
    "indexing.edit",
    "elementwise.emath",
    "signals.polynomial_algebra",
    "signals.fourier",
    "reductions.histograms",
    "linalg.solve",
    "linalg.decompositions",
    "linalg.eigen",
    "linalg.least_squares",
    "reductions.skipping_nan",
    "reductions.norms",
    "indexing.overwrite",
    "indexing.place",
    "signals.polynomials",
    "reductions.quantiles",
    "arranging.sequences",
    "indexing.sets",
    "signals.convolve",
    "linalg.singular_values",
    "linalg.sparse_products",
    "refused",
)
"""Families that are imported one after the other to find a function without an entry."""


def import_families() -> None:
    """Import every family of NumPy's functions."""
    for name in LATER:
        import_module(f"functad.primitives.{name}")


def import_scipy_families() -> bool:
    """Import the families of `scipy.special`, and SciPy with them. Return `False` if SciPy is not installed."""
    if find_spec("scipy") is None:
        return False
    import_module("functad.primitives.scipy_special").import_families()
    return True


def find(function: Any) -> Entry | None:
    """Return the entry of a function of NumPy or `scipy.special`, or `None`."""
    if function not in ENTRIES:
        if is_scipys(function):
            import_module("functad.primitives.scipy_special").load(function.__name__)
        else:
            for name in LATER:
                import_module(f"functad.primitives.{name}")
                if function in ENTRIES:
                    break
    return ENTRIES.get(function)


# Names

_SCIPY_MODULES = ("scipy.special", "scipy.special._ufuncs")
_PUBLIC = {"numpy.lib._scimath_impl": "numpy.emath", "numpy.lib.scimath": "numpy.emath"}


def is_scipys(function: Any) -> bool:
    """Return `True` for a ufunc of `scipy.special`. SciPy is not imported."""
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
