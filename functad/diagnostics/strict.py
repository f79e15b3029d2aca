"""`strict_derivatives`: derivatives by IEEE arithmetic, with infinities and NaN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.primitives.safe import STRICT
from functad.process import setting


@contextmanager
def strict_derivatives(strict: bool = True) -> Iterator[None]:
    """Multiply zero cotangents with infinite derivatives as in IEEE arithmetic: `0 * inf` is NaN.

    By default an exact zero wins: a zero cotangent gives zero even if the derivative is infinite or NaN. A radius of zero (in
    `np.linalg.norm`, `np.hypot`, `np.arctan2`, `np.std`) has derivative zero. Inside this context, rules use plain products
    and quotients. Ties still share the derivative, and `abs` and `sign` still have derivative 0 at 0.

    The setting applies when derivatives are computed: call `grad(f)(x)` inside, or decorate a function that does. For `vjp`,
    call the pullback inside. An expression list made inside stays strict everywhere. Each thread and coroutine has its own
    setting.

    Args:
        strict: `False` restores the default inside a strict block.

    Returns:
        A context manager, which also works as a decorator.

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
