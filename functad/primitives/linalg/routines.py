"""LAPACK and BLAS routines, and the functions of SciPy that call them, for messages."""

from __future__ import annotations

import sys

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
