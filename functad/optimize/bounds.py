"""Bounds on pytrees as `scipy.optimize.Bounds`."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import StructureError
from functad.optimize.extras import scipy_optimize
from functad.optimize.unknowns import Unknowns
from functad.places import here
from functad.trees import LEAF, Structure, _split, _steps

Sides = tuple[Any, Any]


def flat_bounds(bounds: Any, unknowns: Unknowns) -> Any:
    """Return `scipy.optimize.Bounds` on the flat unknowns.

    Args:
        bounds: SciPy's `Bounds`; for an array `x0`, a pair `(low, high)` per element; for a pytree, a pytree like it with a
            pair at each leaf. A pair applies to all leaves below it, and `None` means no bound.
        unknowns: the start.

    Raises:
        StructureError: the bounds do not fit the start. The message names the position.
    """
    scipy_bounds = scipy_optimize().Bounds
    if isinstance(bounds, scipy_bounds):
        size = unknowns.flat.shape
        shape = unknowns.shapes[0] if unknowns.structure is LEAF else size
        low, high = _fit(bounds.lb, shape, "bounds.lb"), _fit(bounds.ub, shape, "bounds.ub")
        feasible = np.broadcast_to(bounds.keep_feasible, size if np.ndim(bounds.keep_feasible) == 1 else shape)
        return scipy_bounds(low, high, feasible.reshape(-1))
    if unknowns.structure is LEAF and unknowns.shapes[0] and not _is_pair_for(bounds, unknowns.shapes[0]):
        shapes: list[tuple[int, ...]] = [()] * len(unknowns.flat)
        pairs = _pairs(bounds, len(shapes))
    else:
        pairs, shapes = _leaf_pairs(unknowns.structure, bounds, "bounds"), unknowns.shapes
    sides = [
        np.concatenate([_fit(pair[i], shape, f"{path}[{i}]", end) for (pair, path), shape in zip(pairs, shapes, strict=True)])
        for i, end in enumerate((-np.inf, np.inf))
    ]
    return scipy_bounds(*sides)


def _is_pair_for(bounds: Any, shape: tuple[int, ...]) -> bool:
    """Return `True` if bounds on an array that is not a vector are one pair, not a pair per element."""
    return len(shape) != 1 and isinstance(bounds, (tuple, list)) and len(bounds) == 2 and np.ndim(bounds[0]) != 1


def _pairs(bounds: Any, size: int) -> list[tuple[Sides, str]]:
    """Return for each element of the start its pair of bounds, and the expression that reads the pair."""
    given = [_pair(pair) for pair in bounds]
    pairs = [(pair, f"bounds[{i}]") for i, pair in enumerate(given) if pair is not None]
    if len(pairs) != size or len(given) != size:
        raise StructureError(
            f"bounds should be {size} pairs (low, high), one for each number of x0, or scipy.optimize.Bounds(low, high), at "
            f"{here()}; they are {bounds!r}."
        )
    return pairs


def _pair(given: Any) -> Sides | None:
    if given is None:
        return None, None
    if issubclass(type(given), (tuple, list, np.ndarray)) and len(given) == 2:
        return given[0], given[1]
    return None


def _leaf_pairs(structure: Structure, bounds: Any, path: str) -> list[tuple[Sides, str]]:
    """Return for each leaf of the start its pair of bounds, and the expression that reads the pair."""
    if bounds is None:
        return [((None, None), path)] * structure.leaves
    if structure.kind is type(None):
        raise StructureError(f"{path} bounds None, which holds no unknowns, at {here()}.")
    if structure.kind is None or (isinstance(bounds, tuple) and structure.kind not in (tuple, list) and _is_flat(bounds)):
        pair = _pair(bounds)
        if pair is None:
            raise StructureError(f"{path} should be a pair (low, high) or None, at {here()}; it is {bounds!r}.")
        return [(pair, path)] * structure.leaves
    parts = _split(bounds)
    steps = _steps(structure)
    given = dict(zip(_steps(_of(parts)), parts[2], strict=True)) if parts is not None else {}
    complete = isinstance(bounds, dict) or list(given) == steps
    if parts is None or parts[0] is not structure.kind or not complete or not set(given) <= set(steps):
        raise StructureError(
            f"{path} should be like x0 there, which is {structure!r}, with a pair (low, high) for each leaf, at {here()}; "
            f"it is {bounds!r}."
        )
    found = []
    for step, child in zip(steps, structure.children, strict=True):
        found += _leaf_pairs(child, given.get(step), path + step)
    return found


def _is_flat(bounds: tuple[Any, ...]) -> bool:
    return len(bounds) == 2 and all(_split(side) is None for side in bounds)


def _of(parts: Any) -> Structure:
    """Return the structure of a container with its children as leaves."""
    kind, data, children = parts
    return Structure(kind, data, (LEAF,) * len(children), len(children))


def _fit(side: Any, shape: tuple[int, ...], path: str, unbounded: float = 0.0) -> Any:
    """Return one side of the bounds on a leaf as a flat array of the size of the leaf."""
    side = np.asarray(unbounded if side is None else side, np.float64)
    if side.shape != shape and side.shape == (int(np.prod(shape)),):
        return side
    try:
        return np.broadcast_to(side, shape).reshape(-1)
    except ValueError:
        raise StructureError(
            f"{path} has shape {side.shape}, which does not fit the shape {shape} in x0, at {here()}."
        ) from None
