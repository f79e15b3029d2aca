"""`functad.coverage()`: the support for each NumPy function. The table is imported on the first call."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functad.primitives.coverage_table import Coverage


def coverage(status: str | None = None, module: str | None = None, search: str | None = None) -> Coverage:
    """Return the table of all NumPy functions that can be overridden, or of SciPy's functions, with functad's support.

    Args:
        status: keep only functions with this status: `primitive`, `composite`, `constant` or `refused`; for SciPy also `rule`
            or `adoption`.
        module: keep only functions of `numpy`, `numpy.linalg`, `numpy.fft`, ...; or show the public functions of a SciPy
            module, such as `scipy.stats`, or of all SciPy modules with `scipy`.
        search: keep only rows that contain all these words, in names, notes or any other cell.

    Returns:
        A table that prints as text, shows in notebooks with a search field, and iterates over its rows.

    Example:
        >>> import functad
        >>> [row.status for row in functad.coverage() if row.function in ("np.sin", "np.var", "np.argmax", "np.save")]
        ['constant', 'refused', 'primitive', 'primitive']
        >>> [row.function for row in functad.coverage("rule", "scipy.fft")][:3]
        ['scipy.fft.dct', 'scipy.fft.dctn', 'scipy.fft.dst']
        >>> functad.coverage(search="arctan2")
        function    status     reverse  forward  batch       jit
        np.arctan2  primitive  rule     same     broadcasts  native
        np.arctan2: d arctan2(x, y) = (y dx - x dy) / (x^2 + y^2); 0 at (0, 0); real
          numbers only; also np.atan2
        1 function: 1 primitive
    """
    if module is not None and module.partition(".")[0] == "scipy":
        # The SciPy modules depend on the vocabulary, and need SciPy.
        table: Coverage = import_module("functad.scipy._coverage").table_of_scipy(module)
        return table.filter(status, search=search)
    from functad.primitives.coverage_table import table_of_all  # noqa: PLC0415 - only this function needs the table

    return table_of_all().filter(status, module, search)
