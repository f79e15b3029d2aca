"""Routines of compiled programs without a NumPy function: triangular systems, Gram matrices, halving at ties, rows.

They are primitives without derivative rules. A program has them in place of primitives with the same results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from functad.backends.native.products.blas import PREFIX, routines
from functad.expressions.spec import ArraySpec
from functad.primitives.entry import Primitive

_ROWS, _LEFT, _PLAIN, _TURNED, _UPPER, _LOWER, _ANY_DIAGONAL = 101, 141, 111, 112, 121, 122, 131
"""CBLAS constants: row-major order, left side, no transpose, transpose, upper, lower, non-unit diagonal."""


def _routine(compute: Callable[..., Any], name: str, spec: Callable[..., ArraySpec], fresh: bool = True) -> Primitive:
    return Primitive(
        compute,
        kind="general",
        names=("a", "b"),
        compute=compute,
        vjps=(),
        doc="",
        samples=None,
        name=name,
        spec=spec,
        fresh=fresh,
        registered=False,
    )


def substituted(a: Any, b: Any, *, lower: bool) -> Any:
    """Solve `a x = b` for a triangular matrix without zeros on its diagonal."""
    if not (type(a) is type(b) is np.ndarray) or a.ndim != 2 or b.ndim != 2 or a.dtype != b.dtype or not b.size:
        return np.linalg.solve(a, b)
    size = a.itemsize
    turned = a.strides[1] != size and a.strides[0] == size
    if not turned and (a.strides[1] != size or a.strides[0] < size * len(a)):
        a = np.ascontiguousarray(a)
    out = np.array(b, order="C")
    solve, length = _substitution(a.dtype.char)
    triangle = _LOWER if lower != turned else _UPPER  # the triangle in memory
    places = a.ctypes.data, length(a.strides[1 if turned else 0] // size), out.ctypes.data, length(out.shape[1])
    rows, columns = map(length, out.shape)
    solve(_ROWS, _LEFT, triangle, _TURNED if turned else _PLAIN, _ANY_DIAGONAL, rows, columns, 1.0, *places)
    return out


@lru_cache
def _substitution(letter: str) -> tuple[Callable[..., None], Any]:
    """Return the BLAS routine `trsm` for a dtype, and the ctypes type of its sizes."""
    found = routines()
    assert found is not None
    length = ctypes.c_int64 if found.length == "i64" else ctypes.c_int32
    number = ctypes.c_double if letter == "d" else ctypes.c_float
    place, word = ctypes.c_void_p, ctypes.c_int
    kind = ctypes.CFUNCTYPE(None, word, word, word, word, word, length, length, number, place, length, place, length)
    return kind(found.addresses[f"{PREFIX}{'d' if letter == 'd' else 's'}trsm"]), length


def has_substitution(out: ArraySpec) -> bool:
    """Return `True` if BLAS solves triangular systems with results of this spec."""
    return routines() is not None and out.dtype.char in "fd" and out.dtype.isnative and out.size > 0


TRIANGULAR_SOLVE = _routine(
    substituted,
    "triangular_solve",
    lambda a, b, lower: ArraySpec((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype),
)


def gram(x: Any, w: Any) -> Any:
    """Compute `x^T diag(w) x`. With `w >= 0` it is `y^T y`, and BLAS computes only one half of such a product."""
    if w.min() >= 0:
        scaled = x * np.sqrt(w)[:, None]
        return scaled.T @ scaled
    return (x.T * w) @ x


GRAM = _routine(gram, "gram", lambda x, w: ArraySpec((x.shape[1], x.shape[1]), x.dtype))


def halved(g: Any, ties: Any) -> Any:
    """Return `g`, halved where `ties` is `True`. Ties are rare, and the test for any tie takes less time than `np.where`."""
    return np.where(ties, g * 0.5, g) if ties.any() else g


HALVED = _routine(halved, "halved", lambda g, ties: g, fresh=False)


def rows(a: Any, places: Any) -> Any:
    """Return rows of a matrix in Fortran order, without a copy of the rows in C order."""
    return np.take(a.T, places, 1).T


ROWS = _routine(rows, "rows", lambda a, places: ArraySpec((places.size, a.shape[1]), a.dtype))
