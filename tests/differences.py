"""Numerical references of derivatives: directions, pairings of cotangents with tangents, Jacobians, errors of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.testing import central_difference


def random_like(value: Any, generator: np.random.Generator) -> Any:
    """Return normal random numbers with the shape, dtype and kind (array or scalar) of an array."""
    shape, dtype = np.shape(value), np.asarray(value).dtype
    numbers = generator.standard_normal(shape)
    drawn = np.asarray(numbers + 1j * generator.standard_normal(shape) if dtype.kind == "c" else numbers).astype(dtype)
    return drawn if isinstance(value, np.ndarray) else drawn[()]


def pairing(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return `Re(sum a b)` over pairs of arrays, without conjugation; a pullback preserves this pairing."""
    return math.fsum(float(np.sum(np.multiply(a, b)).real) for a, b in zip(left, right, strict=True))


def numerical_jacobian(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the Jacobian of a function of one real array by central differences: `J[..., j] = d f(x) / d x[j]`."""
    x = np.asarray(x, np.float64)
    directions = np.eye(x.size).reshape(x.size, *x.shape)
    columns = [central_difference(lambda y: [function(y)], [x[()]], [v[()]])[0] for v in directions]
    return np.stack(columns, -1).reshape((*np.shape(columns[0]), *x.shape))[()]


def error(found: Any, expected: Any) -> float:
    """Return the largest difference of two arrays, divided by the largest finite number of `expected` if it is above 1.

    NaN and unequal infinities give NaN or infinity, so that no comparison `error(a, b) < tolerance` holds.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    with np.errstate(all="ignore"):
        difference = np.where(found == expected, 0, np.abs(found - expected))
    finite = np.abs(expected[np.isfinite(expected)])
    return float(difference.max(initial=0.0)) / max(1.0, float(finite.max(initial=0.0)))
