"""`functad.coverage()`: what functad makes of each function of NumPy. The table itself is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functad.primitives.coverage_table import Coverage


def coverage(status: str | None = None, module: str | None = None) -> Coverage:
    """Return the table of all functions that NumPy can dispatch, and what functad makes of each.

    Args:
        status: leave only functions that are `primitive`, `composite`, `constant` or `refused`.
        module: leave only those of `numpy`, `numpy.linalg`, `numpy.fft`, ...

    Returns:
        A table that prints as text, shows as HTML in notebooks, and iterates over its rows.

    Example:
        >>> import functad
        >>> [row.status for row in functad.coverage() if row.function in ("np.sin", "np.var", "np.argmax", "np.save")]
        ['constant', 'refused', 'primitive', 'primitive']
    """
    from functad.primitives.coverage_table import table_of_all  # noqa: PLC0415 - programs that only compute need no table

    return table_of_all().filter(status, module)
