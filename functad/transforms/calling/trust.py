"""`trust_constants` and `trust_rules`: the user's word for what functad would look at or try otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from functad.settings import context_variable, setting
from functad.tracing.constants import TRUST

TRUSTED: ContextVar[bool] = context_variable("trust_rules", default=False)
"""Whether rules and functions are believed untried, in this thread or coroutine."""


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


@contextmanager
def trust_rules(trust: bool = True) -> Iterator[None]:
    """Believe what is promised of rules and functions, and try nothing.

    By default functad tries a promise when it meets it first: that `fwd` of `custom_vjp` gives the value of the function, that
    the rule of `custom_jvp` is linear in the tangents and gives that value too, that the function given to `linear_transpose`
    or `custom_linear_solve` is linear. A function with rules is tried once for arguments of the same structure, shapes and
    dtypes, which costs one more evaluation of the function, or three of a tangent. Under this context manager that is left out:
    for functions that are dear, that must not run once more, or whose rules are meant to differ from the truth.

    It acts where derivatives are computed: call `grad(f)(x)` inside, or decorate a function that does. Each thread and
    coroutine has its own setting.

    Args:
        trust: `False` switches the trials on again, inside such a block.

    Returns:
        A context manager, which is a decorator too.

    Example:
        >>> import numpy as np, functad
        >>> @functad.custom_jvp
        ... def f(x):
        ...     return np.sin(x)
        >>> @f.defjvp
        ... def f_jvp(primals, tangents):
        ...     return f(*primals), np.abs(tangents[0])
        >>> with trust_rules():
        ...     float(functad.jvp(f, (0.0,), (2.0,))[1])
        2.0
        >>> functad.jvp(f, (0.0,), (2.0,))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        functad.errors.CustomRuleError: the JVP rule of f ... is not linear in the tangents, at ...
    """
    with setting(TRUSTED, trust):
        yield
