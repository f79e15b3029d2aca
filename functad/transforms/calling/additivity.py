"""Whether a function of arrays is additive, tried on random numbers: the trial of rules and functions that must be linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of
from functad.transforms.walks.degenerate import random_like

_TOLERANCE = 1e-3
"""Relative to the size of results: a rule may compute with differences or a solver, and one that is wrong is far off."""


def is_additive(f: Callable[[list[Any]], Sequence[Any]], likes: Sequence[Any]) -> bool:
    """Say whether `f(u - 2 v) = f(u) - 2 f(v)` for random numbers: so that `f`, over leaves, can be linear.

    Args:
        f: from a list of leaves to one of leaves; `None` stands for zero in the latter.
        likes: have the shapes and dtypes of the leaves; where one is `None`, so is the leaf.
    """
    generator = np.random.default_rng(0)
    us: list[Any] = [None if like is None else random_like(like, generator) for like in likes]
    vs: list[Any] = [None if like is None else random_like(like, generator) for like in likes]
    both = [None if u is None else (u - 2 * v).astype(dtype_of(u)) for u, v in zip(us, vs, strict=True)]
    with np.errstate(all="ignore"):
        rows = list(zip(f(us), f(vs), f(both), strict=True))
        return all(agree(c, a - 2 * b) for a, b, c in rows if not (a is None or b is None or c is None))


def agree(found: Any, expected: Any) -> bool:
    """Say whether two arrays are the same but for rounding, wherever both are finite."""
    found, expected = [np.asarray(a, np.result_type(a, np.float64)) for a in (found, expected)]
    finite = np.isfinite(found) & np.isfinite(expected)
    found, expected = found[finite], expected[finite]
    size = max(np.max(np.abs(found), initial=0.0), np.max(np.abs(expected), initial=0.0))
    return bool(np.max(np.abs(found - expected), initial=0.0) <= _TOLERANCE * size)
