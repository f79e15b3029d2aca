"""Names of functions of NumPy, SciPy and LAPACK in messages."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

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
