"""`strict_derivatives`: derivatives as the textbook has them, infinities and NaN included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.primitives.safe import STRICT
from functad.settings import setting


@contextmanager
def strict_derivatives(strict: bool = True) -> Iterator[None]:
    """Give raw calculus: a zero cotangent no longer wins over an infinite derivative.

    Outside, a rule whose derivative is infinite or NaN gives zero where its cotangent is exactly zero, and radii of zero (of
    `np.linalg.norm`, `np.hypot`, `np.arctan2`, `np.std`) have derivative zero. Under this context manager rules multiply and
    divide as they stand, so that `0 * inf` is NaN. Ties still share, and `abs` and `sign` still have derivative 0 at 0.

    It acts where derivatives are computed: call `grad(f)(x)` inside, or decorate a function that does. For `vjp` that is where
    the pullback is called. An expression list made inside is strict wherever it is evaluated. Each thread and
    coroutine has its own setting.

    Args:
        strict: `False` switches the guards on again, inside a strict block.

    Returns:
        A context manager, which is a decorator too.

    Example:
        >>> import numpy as np, functad
        >>> f = lambda x: np.where(x > 0, np.sqrt(x), 0.0)
        >>> float(functad.grad(f)(0.0))
        0.0
        >>> with strict_derivatives():
        ...     float(functad.grad(f)(0.0))
        nan
    """
    with setting(STRICT, strict):
        yield
