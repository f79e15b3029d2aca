"""`map`: a function of the rows of arrays, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.control.scan import over_rows


def map(f: Callable[[Any], Any], xs: Any) -> Any:  # noqa: A001 - users write functad.map
    """Apply `f` to the rows of `xs`, one after the other, and stack the results: `np.stack([f(x) for x in xs])`.

    `vmap(f)(xs)` gives the same, faster and with more memory: there the intermediate values of all rows live at once.

    Args:
        f: from a row to a result.
        xs: an array or a tree of arrays, which all have the same number of rows.

    Returns:
        The results stacked along a new first axis.

    Raises:
        ControlFlowError: the numbers of rows differ, or the results do not agree.

    Example:
        >>> import numpy as np, functad
        >>> functad.map(lambda x: x @ x, np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([ 5., 25.])
    """
    return over_rows("map", f, lambda _, x: (None, f(x)), None, xs, None, False)[1]
