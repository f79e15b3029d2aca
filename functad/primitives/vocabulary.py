"""The families of the vocabulary: imports those that most programs use, and finds the rest when they are asked for.

Importing all of them would take a third of the 30 ms that `import functad` may cost.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functad.primitives import (  # noqa: F401
    arithmetic,
    bounds,
    broadcasting,
    comparisons,
    contractions,
    conversion,
    einsum,
    exponential,
    extremes,
    indexing,
    joining,
    positions,
    reductions,
    scans,
    selection,
    shapes,
    shaping,
    statistics,
    trigonometric,
)
from functad.primitives.names import is_scipys
from functad.primitives.primitive import ENTRIES, Entry

LATER = (
    "creation",
    "complex_numbers",
    "repeating",
    "taking",
    "flipping",
    "diagonals",
    "padding",
    "special",
    "bessel",
    "calculus",
    "covariances",
    "determinants",
    "editing",
    "emath",
    "fitting",
    "fourier",
    "histograms",
    "linalg",
    "linalg_decompositions",
    "linalg_eigen",
    "linalg_solvers",
    "nan_functions",
    "norms",
    "ordering",
    "overwriting",
    "placing",
    "polynomials",
    "quantiles",
    "refused",
    "sequences",
    "sets",
    "signals",
    "singular_values",
    "sparse_products",
)
"""Families that are imported, one after the other, when a function is met that those before do not have."""


def complete() -> None:
    """Import every family."""
    for name in LATER:
        import_module(f"functad.primitives.{name}")


def complete_scipy() -> bool:
    """Import the families of `scipy.special` too, and SciPy with them; say whether it is installed."""
    if find_spec("scipy") is None:
        return False
    import_module("functad.primitives.scipy_special").complete()
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
