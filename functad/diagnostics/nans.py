"""`debug_nans`: where a NaN or an infinity in a value or a derivative comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.expressions.expressions import CALLED
from functad.settings import setting
from functad.tracing.traces.base import WATCHER


@contextmanager
def debug_nans(infinities: bool = False) -> Iterator[None]:
    """Make every transform and tape raise if its value or derivatives hold a NaN, and say where that was born.

    The message names the operation, its arguments, and the line of your code where the first NaN was made: in the function
    itself or in its derivative. Of a function under `vmap` it names the example, too. A NaN that does not reach the result, as
    behind the branch that `np.where` did not take, is no error. Everything recorded is kept and slow ways are taken, so use it
    to look for a NaN, not to run a program.
    Tapes, graphs and forward accumulators that are opened inside raise when they are asked, and so do the functions that use
    them; while another tape records, or under a transform, it is left to that one to look at its result. What `deriv`
    and `taylor` compute is not looked at.

    Args:
        infinities: infinities are errors too.

    Returns:
        A context manager, which is a decorator too. Each thread and coroutine has its own setting.

    Raises:
        NotFiniteError: (by transforms called inside, and by pullbacks made and tapes opened inside) a result is NaN.

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
    from functad.diagnostics.nan_watch import called, watcher  # noqa: PLC0415 - few programs look for NaN, and all import functad

    with setting(WATCHER, watcher(infinities=infinities)), setting(CALLED, called):
        yield
