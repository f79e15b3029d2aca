"""`scipy.linalg`: what LAPACK computes, by the rules of `numpy.linalg` where that has it, and by rules of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.adoption.scipy_functions import of_tensors


@of_tensors("scipy.linalg")
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangular factor of a positive definite matrix, `a = L L^T` or `a = U^T U`."""
    return np.linalg.cholesky(a, upper=not lower)
