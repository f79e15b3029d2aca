"""What users promise of the rules and functions that they hand in, tried once: `trust_rules` says that it need not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.settings import setting

TRUSTED: ContextVar[bool] = ContextVar("trust_rules", default=False)
"""Whether nothing is tried, in this thread or coroutine."""

_TOLERANCE = 1e-3
"""Relative to the size of results: a rule may compute with differences or a solver, and one that is wrong is far off."""


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


def random_like(value: Any, generator: np.random.Generator) -> Any:
    """Return normally distributed numbers of the shape and dtype of a floating-point or complex value."""
    shape, dtype = shape_of(value), dtype_of(value)
    numbers = generator.standard_normal(shape)
    return np.asarray(numbers + 1j * generator.standard_normal(shape) if dtype.kind == "c" else numbers).astype(dtype)[()]


def is_additive(f: Callable[[list[Any]], Sequence[Any]], likes: Sequence[Any]) -> bool:
    """Say whether `f(u - 2 v) = f(u) - 2 f(v)` for random numbers: so that `f`, over leaves, can be linear.

    Args:
        f: from a list of leaves to one of leaves; `None` stands for zero in the latter.
        likes: have the shapes and dtypes of the leaves; where one is `None`, so is the leaf.
    """
    generator = np.random.default_rng(0)
    us: list[Any] = [None if like is None else random_like(like, generator) for like in likes]
    vs: list[Any] = [None if like is None else random_like(like, generator) for like in likes]
    both = [None if u is None else (u - 2 * v).astype(dtype_of(u)) for u, v in zip(us, vs, strict=True)]
    with np.errstate(all="ignore"):
        rows = list(zip(f(us), f(vs), f(both), strict=True))
        return all(agree(c, a - 2 * b) for a, b, c in rows if not (a is None or b is None or c is None))


def agree(found: Any, expected: Any) -> bool:
    """Say whether two arrays are the same but for rounding, wherever both are finite."""
    found, expected = [np.asarray(a, np.result_type(a, np.float64)) for a in (found, expected)]
    finite = np.isfinite(found) & np.isfinite(expected)
    found, expected = found[finite], expected[finite]
    size = max(np.max(np.abs(found), initial=0.0), np.max(np.abs(expected), initial=0.0))
    return bool(np.max(np.abs(found - expected), initial=0.0) <= _TOLERANCE * size)
