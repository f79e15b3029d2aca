"""One-line texts of values; lazy and abstract values are described without computing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.display.terminal import WIDTH, cut

_EDGE = 3
_MOST = 12
_DIGITS: Any = dict.fromkeys(["float_kind", "complex_kind"], lambda number: f"{number:.4g}")
_LINE = 75
"""NumPy's default line width; a line width set by the user takes precedence."""


def value_text(value: Any, width: int = 60) -> str:
    """Return the value of an array or a number on one line; long arrays show their ends.

    Arrays of other libraries show the first line of their `repr`; a Dask array is thus described, not computed.

    Args:
        value: an array, a number, or any other object.
        width: width of the line.

    Example:
        >>> value_text(np.arange(100.0)), value_text(np.float64(0.1) * 3), value_text(2)
        ('[0 1 2 ... 97 98 99]', '0.3', '2')
    """
    kind = type(value)
    if issubclass(kind, np.ndarray) and value.ndim:
        shown = np.array2string(np.asarray(value), threshold=_MOST, edgeitems=_EDGE, max_line_width=10**6, formatter=_DIGITS)
        return cut(shown.replace("[ ", "["), width)
    if issubclass(kind, np.ndarray | np.generic) and value.dtype.kind in "fc":
        return cut(np.array2string(np.asarray(value), precision=6), width)
    if kind in (float, complex):
        return cut(f"{value:.6g}", width)
    if issubclass(kind, np.generic):
        return cut(str(value), width)
    return cut(next(iter(repr(value).splitlines()), ""), width)


def array_text(value: Any) -> str:
    """Return the value of an array or a number in a few lines; long arrays show their ends.

    Example:
        >>> print(array_text(np.eye(20)))
        [[1. 0. 0. ... 0. 0. 0.]
         [0. 1. 0. ... 0. 0. 0.]
         [0. 0. 1. ... 0. 0. 0.]
         ...
         [0. 0. 0. ... 1. 0. 0.]
         [0. 0. 0. ... 0. 1. 0.]
         [0. 0. 0. ... 0. 0. 1.]]
    """
    if issubclass(type(value), np.ndarray | np.generic):
        return np.array2string(np.asarray(value), threshold=100, edgeitems=_EDGE, max_line_width=WIDTH)
    lines = repr(value).splitlines()
    return "\n".join([*lines[:_MOST], *["..."] * (len(lines) > _MOST)])


def repr_within(opening: str, value: Any, closing: str = ")") -> str:
    """Return the `repr` of a value between two texts, with aligned lines, within NumPy's line width and 80 columns.

    Example:
        >>> print(repr_within("Tensor(", np.eye(2)))
        Tensor(array([[1., 0.],
                      [0., 1.]]))
    """
    if issubclass(type(value), np.ndarray) and np.get_printoptions()["linewidth"] == _LINE:
        shown = np.array_repr(value, max_line_width=WIDTH - len(opening) - len(closing))
    else:
        shown = repr(value)
    return opening + shown.replace("\n", "\n" + " " * len(opening)) + closing


def dtype_text(dtype: Any) -> str:
    """Return the name of a dtype; any other object as a string."""
    return str(getattr(dtype, "name", dtype))
