"""Import of the optional package SciPy."""

from __future__ import annotations

from typing import Any

from functad.process import optional


def scipy_optimize() -> Any:
    """Return `scipy.optimize`.

    Raises:
        MissingPackageError: SciPy is not installed.
    """
    return optional("scipy.optimize", "functad.optimize")
