"""The check of sparse derivatives (`check=True`): compare a product with a random vector with an exact product."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import SparsityError
from functad.places import here, name_of
from functad.primitives.operands import concrete
from functad.sparse.pattern import SparsityPattern
from functad.sparse.sets import Array


def compare(pattern: SparsityPattern, values: Any, products: Any, *, forward: bool) -> None:
    """Compare the product of a sparse matrix and a random vector with a product computed without the pattern.

    Args:
        pattern: the sparsity pattern of the matrix.
        values: the entries of the matrix.
        products: an object that computes products with the exact matrix.
        forward: whether the products use forward mode.

    Raises:
        SparsityError: the products differ. The message names a wrong entry.
    """
    entries = np.asarray(concrete(values, "check=True"))
    i, j = (pattern.rows, pattern.columns) if forward else (pattern.columns, pattern.rows)
    length, others = (pattern.shape if forward else pattern.shape[::-1])[::-1]
    vector = np.random.default_rng(0).uniform(0.5, 1.5, length)
    expected, noise = _product(products, vector, forward=forward)
    found = np.bincount(i, entries * vector[j], minlength=others)
    size = np.bincount(i, np.abs(entries * vector[j]), minlength=others) + np.abs(expected)
    wrong = _far(found, expected, size, entries.dtype, 100 * noise)
    if not wrong.any():
        return
    line = int(np.argmax(wrong))
    unit = np.zeros(others)
    unit[line] = 1
    true = np.asarray(concrete(products.of(unit[None], forward=not forward)[0], "check=True"), np.float64)
    own, stored = np.zeros(length), np.zeros(length, bool)
    own[j[i == line]], stored[j[i == line]] = entries[i == line], True
    with np.errstate(invalid="ignore"):
        error = np.nan_to_num(np.abs(own - true), nan=np.inf)
    lacking = np.where(stored, 0, error)  # a missing entry also corrupts stored entries, so it is reported first
    place = int(np.argmax(lacking if lacking.any() else error))
    row, column = (line, place) if forward else (place, line)
    why = f"but the matrix has {own[place]:.6g}" if stored[place] else "which the pattern has no place for"
    raise SparsityError(
        f"{products.selection.transform} of {name_of(products.f)}, called at {here()}: entry ({row}, {column}) is "
        f"{true[place]:.6g}, {why}. {int(wrong.sum())} of {others} {'rows' if forward else 'columns'} are wrong. The pattern "
        f"was made for another function or another branch of it: leave sparsity= out, or pass that of jacobian_sparsity or "
        f"hessian_sparsity at this point.",
        row,
        column,
    )


def _product(products: Any, vector: Array, *, forward: bool) -> tuple[Array, float]:
    """Return a product and its deviation from linearity in the vector.

    The deviation measures rounding errors, also from internal cancellation, and the tolerance of solvers inside the function.
    """
    share = np.random.default_rng(1).uniform(0.0, 1.0, len(vector)) * vector
    whole, one, other = (
        np.asarray(concrete(products.of(v[None], forward=forward)[0], "check=True"), np.float64)
        for v in (vector, share, vector - share)
    )
    with np.errstate(invalid="ignore"):
        gaps = np.abs(one + other - whole)
    return whole, float(np.max(gaps[np.isfinite(gaps)], initial=0.0))


def _far(found: Array, expected: Array, size: Array, dtype: Any, noise: float) -> Array:
    """Return a mask of the elements that differ by more than rounding errors."""
    with np.errstate(invalid="ignore"):
        close = np.abs(found - expected) <= float(np.finfo(dtype).eps) ** 0.75 * size + noise
    far: Array = ~(close | (np.isnan(found) & np.isnan(expected)) | (found == expected))
    return far
