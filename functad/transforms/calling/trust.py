"""`trust_constants`: skip the check for modified arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.settings import setting
from functad.tracing.constants import TRUST


@contextmanager
def trust_constants(trust: bool = True) -> Iterator[None]:
    """Skip the check for modified arrays inside a `with` block.

    By default functad computes checksums of inputs and large constants before and after the function runs. It raises
    `ConstantError` if one of them changed. The check takes up to 20 % of the time of a gradient. Inside the block a gradient is
    wrong, without an error, if the function overwrites such an array. Small arrays are copied in any case. Large arrays are
    copied if the trace outlives the function.

    The setting applies to transformed functions that are called inside the block, in this thread or coroutine. Read-only
    constants that own their memory (`a.flags.writeable = False`) are never checked.

    Args:
        trust: `False` restores the check inside a block that skips it.

    Returns:
        A context manager, which also works as a decorator.

    Example:
        >>> import numpy as np, functad
        >>> weights = np.ones(100_000)
        >>> with trust_constants():
        ...     gradient = functad.grad(lambda x: np.sum(weights * x))(np.zeros(100_000))
        >>> bool((gradient == 1).all())
        True
    """
    with setting(TRUST, trust):
        yield
