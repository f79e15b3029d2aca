"""The optional packages: SciPy, which does the work, and tqdm, which shows progress."""

from __future__ import annotations

from typing import Any


def scipy_optimize() -> Any:
    """Return `scipy.optimize`.

    Raises:
        ImportError: SciPy is not installed.
    """
    try:
        from scipy import optimize
    except ImportError as error:
        raise ImportError("functad.optimize needs SciPy: pip install 'functad[scipy]'") from error
    return optimize


def progress_bar(name: str, total: int | None) -> Any:
    """Return a bar of tqdm, which counts steps.

    Raises:
        ImportError: tqdm is not installed.
    """
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install tqdm; or pass a function as callback.") from error
    return tqdm(desc=name, total=total, unit=" steps")
