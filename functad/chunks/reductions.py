"""Rules for reductions. Over other axes they repeat for each row; over the rows each chunk computes a part of a total.

A mean, a variance and a norm are not totals. NumPy code decomposes them into sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.chunks.rules import PATTERNS, Call, Found, along_axis, follow, rule
from functad.primitives import batching
from functad.primitives.entry import Branches, Primitive
from functad.primitives.reductions.over_axes import PROD, count, mean_dtype
from functad.primitives.reductions.statistics import CENTRED, VAR


def over_rows(call: Call) -> bool:
    """Return `True` if the axes in the parameter `axis` include the rows."""
    axis, (along, *_) = call.params["axis"], call.alongs
    assert along is not None
    return axis is None or along.axis == axis or (isinstance(axis, tuple) and along.axis in axis)


def along_axes(call: Call) -> Found | None:
    """Apply the rule of functions of one array over the axes in the parameter `axis`."""
    if not over_rows(call):
        return follow(call)
    combine = call.primitive.reduces
    return None if combine is None else Found((None,), combine=combine)


@rule(PROD)
def _prod(call: Call) -> Found | None:
    return Found((None,), combine=call.primitive.reduces) if over_rows(call) else along_axis(call)


@rule(np.argmax, np.argmin, np.nanargmax, np.nanargmin)
def _position(call: Call) -> Found | None:
    return None if over_rows(call) else follow(call)


def _wide(a: Any) -> Any:
    """Return an array in the dtype that NumPy uses to accumulate its mean."""
    dtype = mean_dtype(a.dtype)
    return a.astype(np.float32 if dtype == np.float16 else dtype, copy=False)


def _centred(a: Any, *, axis: Any) -> Any:
    return a - np.mean(a, axis, keepdims=True)


def _squares(a: Any) -> Any:
    return a.real * a.real + a.imag * a.imag if a.dtype.kind == "c" else a * a


def _var(a: Any, *, axis: Any, keepdims: bool, ddof: float) -> Any:
    wide = _wide(a)
    total = np.sum(_squares(_centred(wide, axis=axis)), axis, keepdims=keepdims)
    n = np.asarray(max(count(a.shape, axis) - ddof, 0), total.dtype)
    return (total / n).astype(np.zeros(0, mean_dtype(a.dtype)).real.dtype, copy=False)


_OVER_ROWS: dict[Primitive, Callable[..., Any]] = {CENTRED: _centred, VAR: _var}
"""Decompositions for arrays whose first row is in another chunk."""


def written_out(call: Call) -> Callable[..., Any] | None:
    """Return the decomposition of a function over the rows as NumPy code; `None` if there is none."""
    own: Any = call.primitive.decomposition
    if own is None or isinstance(own, Branches) or call.primitive.batch is not batching.along_axes or not over_rows(call):
        return None
    found: Callable[..., Any] = _OVER_ROWS.get(call.primitive, own)
    return found


PATTERNS[batching.along_axes] = along_axes
