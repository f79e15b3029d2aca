"""The vocabulary: all functions with an entry, whether their families are imported or not.

This module imports the common families. `find` imports the others on demand, because all of them would take a third of the
30 ms that `import functad` may cost. The registry `ENTRIES` holds the entries of the families imported so far. The module also
has the entries of refused functions, which write files or need dates, and the names of functions in messages.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.places import here
from functad.primitives.arranging import broadcast, join, reshape, shapes  # noqa: F401
from functad.primitives.elementwise import arithmetic, bounds, comparisons, conversion, elementary  # noqa: F401
from functad.primitives.entry import ENTRIES, Entry, Samples
from functad.primitives.indexing import choose, positions, read  # noqa: F401
from functad.primitives.linalg import einsum, products  # noqa: F401
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
    "arranging.sequences",
    "indexing.sets",
    "signals.convolve",
    "linalg.singular_values",
    "linalg.sparse_products",
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


ROUTINES = {
    "gesv": "solve", "posv": "solve", "sysv": "solve", "hesv": "solve", "gtsv": "solve_banded", "gbsv": "solve_banded",
    "pbsv": "solveh_banded", "ptsv": "solveh_banded", "potrf": "cholesky", "potrs": "cho_solve", "getrf": "lu_factor",
    "getrs": "lu_solve", "getri": "inv", "trtrs": "solve_triangular", "trtri": "solve_triangular", "geqrf": "qr",
    "gees": "schur", "syev": "eigh", "syevd": "eigh", "syevr": "eigh", "heev": "eigh", "heevd": "eigh", "heevr": "eigh",
    "sygvd": "eigh", "hegvd": "eigh", "geev": "eig", "gesdd": "svd", "gesvd": "svd", "gelsd": "lstsq", "gelss": "lstsq",
    "gelsy": "lstsq", "trsyl": "solve_sylvester", "trsm": "solve_triangular", "trsv": "solve_triangular",
}  # fmt: skip
"""By the name of a LAPACK or BLAS routine without its type letter: the function of `scipy.linalg` that calls it."""

_BANDED = {
    "solve_banded": "((l, u), ab, b), with the diagonals in the rows of ab",
    "solveh_banded": "(ab, b), with the diagonals in the rows of ab",
}
"""The arguments of functions with another matrix storage than the routine."""


def lapack_cure(called: str) -> str:
    """Return the fix for a call of a LAPACK or BLAS routine; an empty string if `called` is not such a routine.

    The routines are compiled code and have no derivative rules.
    """
    modules = [sys.modules.get(name) for name in ("scipy.linalg.lapack", "scipy.linalg.blas")]
    if not called or not any(type(getattr(module, called, None)).__name__ == "fortran" for module in modules):
        return ""
    name = ROUTINES.get(called[1:])
    if name is None:
        return f"{called} is compiled and has no derivative rule. Use operators and functions of NumPy."
    form = _BANDED.get(name, "")
    return f"{called} is compiled and has no derivative rule. Use functad.scipy.linalg.{name}{form}."


# Refused functions

_WITH_DATES = "Call np.{} with the dates, and multiply its result by the Tensor."


class Refused(Entry):
    """A function that cannot take a Tensor. Calling it raises an error with the reason and the suggested fix.

    Attributes:
        why: the reason.
        instead: the suggested fix.
    """

    status = "refused"
    why: str
    instead: str

    def __init__(self, function: Any, *, why: str, instead: str, samples: Samples) -> None:
        super().__init__(function, front=self.__call__, doc=f"{why} {instead}", samples=samples)
        vars(self).update(why=why, instead=instead)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the error.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"{shown_name(self.function)} of a Tensor, at {here()}: {self.why} {self.instead}")


_function: Any
for _function in (np.save, np.savetxt, np.savez, np.savez_compressed):
    Refused(
        _function,
        why="a file has no derivative.",
        instead=f'Save the value: np.{_function.__name__}("file", functad.stop_gradient(t)).',
        samples=lambda array: [(("file", array(2)), {})],
    )
for _function, _instead, _samples in (
    (np.datetime_as_string, "Use np.array_str(t) for a text.", lambda array: [((array(2),), {})]),
    (np.busday_count, _WITH_DATES, lambda array: [(("2020-01-01", "2020-02-01", array(7)), {})]),
    (np.busday_offset, _WITH_DATES, lambda array: [(("2020-01-01", array(2)), {})]),
    (np.is_busday, _WITH_DATES, lambda array: [((array(2),), {})]),
):
    Refused(
        _function,
        why="its arguments are dates or booleans, and a Tensor has numbers in it.",
        instead=_instead.format(_function.__name__),
        samples=_samples,
    )
