"""`trust_constants`: skip the check for arrays that were overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.settings import setting
from functad.tracing.constants import TRUST


@contextmanager
def trust_constants(trust: bool = True) -> Iterator[None]:
    """Let functad take your word that no function overwrites the arrays it was given, or the large ones that it uses.

    Outside, inputs and large constants are read once more when the function has returned, and `ConstantError` is raised if they
    are not what they were when they were given, or first used. That takes up to a fifth of a gradient. Under this context
    manager they are not looked at, and a gradient is wrong without a word if one of them was overwritten. Small arrays are
    copied all the same, and so are large ones where something stays open after the function has returned.

    It acts where functions are run: call `grad(f)(x)` inside, or decorate a function that does. Each thread and coroutine has
    its own setting. A constant that owns its memory and is read-only, by `a.flags.writeable = False`, is trusted without it.

    Args:
        trust: `False` has the arrays looked at again, inside a block that trusts them.

    Returns:
        A context manager, which is a decorator too.

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
