"""`scipy.linalg`: what LAPACK computes, by the rules of `numpy.linalg` where that has it, and by rules of its own.

All arguments are those of SciPy. Those that let it overwrite its input, or choose a driver, have no effect on Tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.linalg.solve import completed, adjoint
from functad.scipy.matrices import decompositions, equations, functions  # noqa: F401 - they enter what they define
from functad.scipy.matrices.checks import finite, refusal, square


@of_tensors("scipy.linalg")
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinants of square matrices, in double precision."""
    a = square(a, check_finite)
    return np.linalg.det(a.astype(np.result_type(dtype_of(a), np.float64)))


REFUSED: dict[str, str] = {}
"""Functions of `scipy.linalg` that are refused on purpose, and why."""


def _refuse(name: str, reason: str) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise refusal(name, reason)

    REFUSED[name] = reason
    of_tensors("scipy.linalg", name)(refused)


_BLOCKS = "A change of the matrix may change the form of its blocks. Use eig, or eigh of a Hermitian matrix."
for _name, _reason in {
    "schur": _BLOCKS,
    "qz": _BLOCKS,
    "ordqz": _BLOCKS,
    "rsf2csf": _BLOCKS,
    "ldl": "A change of the matrix may change which blocks it takes together. Use cholesky, lu, or eigh.",
    "hessenberg": "Its vectors have no derivative rule. Use eig, or a function of the matrix itself.",
    "cossin": "Its vectors have no derivative rule. Use svd of the blocks.",
    "qr_delete": "What it updates has no derivative rule. Use qr of the whole matrix.",
    "qr_insert": "What it updates has no derivative rule. Use qr of the whole matrix.",
    "qr_update": "What it updates has no derivative rule. Use qr of the whole matrix.",
    "matrix_balance": "It scales by powers of 2, by a program. Balance the plain values, and use the scaling as a constant.",
}.items():
    _refuse(_name, _reason)
