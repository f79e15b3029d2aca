"""The user's contexts for NaN: `debug_nans` raises with the origin, and `strict_derivatives` computes with IEEE arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.expressions.records import observing
from functad.primitives.safe import STRICT
from functad.process import setting


@contextmanager
def debug_nans(infinities: bool = False) -> Iterator[None]:
    """Make every transform and tape raise if its value or derivatives hold a NaN, with the origin of the NaN.

    The message names the operation that made the first NaN, its arguments and the line of your code, in the function or in its
    derivative. Under `vmap` it also names the example. A NaN that does not reach the result, such as a NaN in the branch that
    `np.where` did not take, is no error. `debug_nans` keeps all records and disables fast paths, so use it to find a NaN, not
    to run a program.

    Tapes, graphs and forward accumulators opened inside raise when a derivative is computed. While another tape or transform
    records, only its own result is checked. The results of `deriv` and `taylor` are not checked.

    Args:
        infinities: treat infinities as errors too.

    Returns:
        A context manager, which also works as a decorator. Each thread and coroutine has its own setting.

    Raises:
        NotFiniteError: a result is NaN. Transforms called inside, pullbacks made inside and tapes opened inside raise it.

    Example:
        >>> import numpy as np, functad
        >>> with debug_nans(), np.errstate(all="ignore"):
        ...     float(functad.grad(lambda x: np.where(x > 0, np.log(x), 0.0))(0.0))  # -inf is not selected
        0.0
        >>> with debug_nans():
        ...     functad.grad(lambda x: np.sqrt(x - x))(0.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        functad.errors.NotFiniteError: The derivative, in grad of <lambda>, called at ..., is nan. It is a sum of infinities ...
    """
    from functad.diagnostics.nan_watch import NanObserver  # noqa: PLC0415 - only `debug_nans` needs it

    with observing(NanObserver(infinities=infinities)):
        yield


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
