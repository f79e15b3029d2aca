"""The families of the vocabulary: the common ones are imported here, the others on demand.

Importing all of them would take a third of the 30 ms that `import functad` may cost.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functad.primitives.arranging import broadcast, join, reshape, shapes  # noqa: F401
from functad.primitives.elementwise import arithmetic, bounds, comparisons, conversion, elementary  # noqa: F401
from functad.primitives.entry import ENTRIES, Entry
from functad.primitives.indexing import choose, positions, read  # noqa: F401
from functad.primitives.linalg import einsum, products  # noqa: F401
from functad.primitives.names import is_scipys
from functad.primitives.reductions import extremes, scans, statistics, sums  # noqa: F401

LATER = (
    "arranging.creation",
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
    "indexing.sort",
    "indexing.overwrite",
    "indexing.place",
    "signals.polynomials",
    "reductions.quantiles",
    "refused",
    "arranging.sequences",
    "indexing.sets",
    "signals.convolve",
    "linalg.singular_values",
    "linalg.sparse_products",
)
"""Families that are imported one after the other to find a function without an entry."""


def complete() -> None:
    """Import every family."""
    for name in LATER:
        import_module(f"functad.primitives.{name}")


def complete_scipy() -> bool:
    """Import the families of `scipy.special`, and SciPy with them. Return `False` if SciPy is not installed."""
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
