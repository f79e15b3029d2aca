"""Routines of compiled programs without a NumPy function: Gram matrices, halving at ties, rows.

They are primitives without derivative rules. A program has them in place of primitives with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec
from functad.primitives.entry import Primitive


def routine(
    compute: Callable[..., Any],
    name: str,
    spec: Callable[..., Any],
    names: tuple[str, ...] = ("a", "b"),
    fresh: bool = True,
    multiple: bool = False,
) -> Primitive:
    """Return a primitive of programs.

    Args:
        compute: the function.
        name: its name.
        spec: the shape rule.
        names: the names of its arrays.
        fresh: `True` if results are new arrays.
        multiple: `True` if the result is a tuple.
    """
    return Primitive(
        compute,
        kind="general",
        names=names,
        multiple=multiple,
        compute=compute,
        vjps=(),
        doc="",
        samples=None,
        name=name,
        spec=spec,
        fresh=fresh,
        registered=False,
    )


def gram(x: Any, w: Any) -> Any:
    """Compute `x^T diag(w) x`. With `w >= 0` it is `y^T y`, and BLAS computes only one half of such a product."""
    if w.min() >= 0:
        scaled = x * np.sqrt(w)[:, None]
        return scaled.T @ scaled
    return (x.T * w) @ x


GRAM = routine(gram, "gram", lambda x, w: ArraySpec((x.shape[1], x.shape[1]), x.dtype))


def halved(g: Any, ties: Any) -> Any:
    """Return `g`, halved where `ties` is `True`. Ties are rare, and the test for any tie takes less time than `np.where`."""
    return np.where(ties, g * 0.5, g) if ties.any() else g


HALVED = routine(halved, "halved", lambda g, ties: g, fresh=False)


def rows(a: Any, places: Any) -> Any:
    """Return rows of a matrix in Fortran order, without a copy of the rows in C order."""
    return np.take(a.T, places, 1).T


ROWS = routine(rows, "rows", lambda a, places: ArraySpec((places.size, a.shape[1]), a.dtype))
