"""`debug_nans`: the origin of a NaN or infinity in a value or derivative."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.expressions.observers import observing


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
