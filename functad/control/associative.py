"""`associative_scan`: all prefixes of an associative operation, in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.control.equation import Agreement
from functad.errors import ControlFlowError
from functad.expressions.spec import shape_of, spec_of
from functad.places import here, name_of
from functad.tracing.ownership import lend, own_results
from functad.tracing.values import value_of
from functad.trees.structure import flatten


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return all partial results `fn(...fn(fn(e[0], e[1]), e[2])..., e[i])` of an associative function.

    It calls `fn` about `2 log2(n)` times, each time on many elements at once: it combines pairs, scans the combined pairs
    recursively, and then computes the partial results between them (Blelloch, 1990).

    Args:
        fn: combines two trees of the structure of `elems`, element by element along `axis`. It must be associative, and
            broadcast over `axis` as NumPy's functions do.
        elems: an array or a tree of arrays, all of the same length along `axis`.
        reverse: `True` to begin at the end.
        axis: the axis to scan.

    Returns:
        A tree like `elems`.

    Raises:
        ControlFlowError: the lengths differ, `axis` does not exist, or `fn` changes the structure, a shape or a dtype.

    Example:
        >>> import numpy as np
        >>> associative_scan(np.maximum, np.array([1.0, 3.0, 2.0, 5.0]))
        array([1., 3., 3., 5.])
        >>> affine = lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1])  # x -> a x + b, first f and then g
        >>> associative_scan(affine, (np.array([2.0, 0.5, 3.0]), np.array([1.0, 0.0, 1.0])))[1]
        array([1. , 0.5, 2.5])
    """
    given, structure = flatten(elems)
    leaves = [value_of(leaf) for leaf in given]
    axes = [_axis_of(fn, leaf, axis, path) for leaf, path in zip(leaves, structure.paths("elems"), strict=True)]
    lengths = {shape_of(leaf)[a] for leaf, a in zip(leaves, axes, strict=True)}
    if len(lengths) > 1:
        raise _error(fn, f"the arrays have different lengths along axis {axis}: {sorted(lengths)}.")

    def combine(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        rule = "the function must return what it is given"
        agreement = Agreement("associative_scan", name_of(fn), "result", rule)
        agreement.start(structure.unflatten(second))
        both = [structure.unflatten([lend(leaf) for leaf in each]) for each in (first, second)]
        return agreement.fit(fn(*both))

    if reverse:
        leaves = [_flipped(leaf, a) for leaf, a in zip(leaves, axes, strict=True)]
    found = _partial_results(combine, leaves, axes) if leaves else leaves
    if reverse:
        found = [_flipped(leaf, a) for leaf, a in zip(found, axes, strict=True)]
    return structure.unflatten(own_results(found, given))


def _flipped(leaf: Any, axis: int) -> Any:
    return leaf[(slice(None),) * axis + (slice(None, None, -1),)]


def _axis_of(fn: Callable[..., Any], leaf: Any, axis: int, path: str) -> int:
    try:
        return int(normalize_axis_index(axis, len(shape_of(leaf))))
    except (AttributeError, ValueError):
        what = repr(spec_of(leaf)) if hasattr(leaf, "shape") else f"a {type(leaf).__name__}"
        raise _error(fn, f"{path} is {what}, which has no axis {axis}.") from None


def _error(fn: Callable[..., Any], text: str) -> ControlFlowError:
    return ControlFlowError(f"associative_scan of {name_of(fn)}, called at {here()}: {text}")


def _partial_results(combine: Callable[[Any, Any], list[Any]], leaves: list[Any], axes: list[int]) -> list[Any]:
    length = shape_of(leaves[0])[axes[0]]
    if length < 2:
        return leaves

    def cut(given: list[Any], *bounds: int | None) -> list[Any]:
        return [leaf[(slice(None),) * axis + (slice(*bounds),)] for leaf, axis in zip(given, axes, strict=True)]

    pairs = combine(cut(leaves, 0, -1, 2), cut(leaves, 1, None, 2))
    odd = _partial_results(combine, pairs, axes)
    even = combine(cut(odd, 0, (length - 1) // 2), cut(leaves, 2, None, 2)) if length > 2 else cut(leaves, 0, 0)
    even = [np.concatenate(two, axis) for *two, axis in zip(cut(leaves, 0, 1), even, axes, strict=True)]
    return [_interleaved(a, b, axis) for a, b, axis in zip(even, odd, axes, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """Return the interleaved elements of two arrays; `even` may have one more."""
    count = shape_of(odd)[axis]
    before = (slice(None),) * axis
    both = np.stack([even[(*before, slice(0, count))], odd], axis + 1)
    shape = shape_of(odd)
    both = both.reshape((*shape[:axis], 2 * count, *shape[axis + 1 :]))
    return both if shape_of(even)[axis] == count else np.concatenate([both, even[(*before, slice(count, None))]], axis)
