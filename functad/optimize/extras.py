"""The optional packages: SciPy, which does the work, and tqdm, which shows progress."""

from __future__ import annotations

from typing import Any

from functad.importable import optional


def scipy_optimize() -> Any:
    """Return `scipy.optimize`.

    Raises:
        MissingPackageError: SciPy is not installed.
    """
    return optional("scipy.optimize", "functad.optimize")


def progress_bar(name: str, total: int | None) -> Any:
    """Return a bar of tqdm, which counts steps.

    Raises:
        MissingPackageError: tqdm is not installed.
    """
    return optional("tqdm", "progress=True", "tqdm", "tqdm; or pass a function as callback").tqdm(
        desc=name, total=total, unit=" steps"
    )
