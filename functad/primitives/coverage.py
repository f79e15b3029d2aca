"""`functad.coverage()`: what functad makes of each function of NumPy. The table itself is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functad.primitives.coverage_table import Coverage


def coverage(status: str | None = None, module: str | None = None) -> Coverage:
    """Return the table of all functions that NumPy can dispatch, and what functad makes of each; or that of SciPy's.

    Args:
        status: leave only functions that are `primitive`, `composite`, `constant` or `refused`; of SciPy's also those by `rule`
            or `adoption`.
        module: leave only those of `numpy`, `numpy.linalg`, `numpy.fft`, ...; or show the public functions of a part of SciPy,
            such as `scipy.stats`, or with `scipy` those of all parts.

    Returns:
        A table that prints as text, shows as HTML in notebooks, and iterates over its rows.

    Example:
        >>> import functad
        >>> [row.status for row in functad.coverage() if row.function in ("np.sin", "np.var", "np.argmax", "np.save")]
        ['constant', 'refused', 'primitive', 'primitive']
        >>> [row.function for row in functad.coverage("rule", "scipy.fft")][:3]
        ['scipy.fft.dct', 'scipy.fft.dctn', 'scipy.fft.dst']
    """
    if module is not None and module.partition(".")[0] == "scipy":
        # The parts of SciPy lie above the vocabulary, and need SciPy.
        table: Coverage = import_module("functad.scipy._coverage").table_of_scipy(module)
        return table.filter(status)
    from functad.primitives.coverage_table import table_of_all  # noqa: PLC0415 - programs that only compute need no table

    return table_of_all().filter(status, module)
