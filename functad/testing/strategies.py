"""Hypothesis strategies for arrays, pytrees of arrays and random NumPy programs. Needs the extra `testing`.

Example:
    >>> from hypothesis import given, settings
    >>> import functad
    >>> @settings(max_examples=10, deadline=None)
    ... @given(arrays(shape=(2, 3), separated=True))
    ... def test_maximum(x):
    ...     assert np.sum(functad.grad(np.max)(x)) == 1.0
    >>> test_maximum()
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable
from typing import Any

import numpy as np

from functad.testing.numerical import bytes_of_real
from functad.testing.primitive_checks import InputSource
from functad.testing.programs.program import Program, draw_program

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp
except ImportError as missing:
    raise ImportError("functad.testing.strategies needs Hypothesis: pip install 'functad[testing]'.") from missing

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1e30, 0.5)
"""Values at which functions have kinks, poles or no value, and values with a square that overflows or underflows."""


def arrays(
    dtype: Any = np.float64,
    shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] | None = None,
    *,
    max_rank: int = 3,
    max_side: int = 4,
    low: float = -2.0,
    high: float = 2.0,
    separated: bool = False,
    special: bool = False,
) -> st.SearchStrategy[Any]:
    """Return a strategy for floating-point and complex arrays.

    Args:
        dtype: dtype of the arrays.
        shape: shape of the arrays, or a strategy for it. Default: at most `max_rank` axes of `0` to `max_side` elements.
        max_rank: the largest number of axes of drawn shapes.
        max_side: the largest length of their axes.
        low: lower limit of the elements, or of their real and imaginary parts.
        high: upper limit of the same.
        separated: no two elements are closer than 1/5000 of the interval (up to 2000 elements), so finite differences meet
            no ties.
        special: some elements are zero (of both signs), infinite, NaN, tiny, huge, or equal to each other.

    Raises:
        ValueError: `dtype` is not inexact, or both `separated` and `special` are true.

    Example:
        >>> from hypothesis import find
        >>> x = find(arrays(np.float32, (2,), low=0.5), lambda x: x[0] < x[1])
        >>> bool(0.5 <= x[0] < x[1]), x.dtype
        (True, dtype('float32'))
    """
    wanted = np.dtype(dtype)
    if wanted.kind not in "fc":
        raise ValueError(f"arrays of {wanted} have no derivative; ask for a floating-point or complex dtype")
    if separated and special:
        raise ValueError("special values cannot be kept apart; ask for separated or for special ones")
    chosen: st.SearchStrategy[tuple[int, ...]]
    if shape is None:
        chosen = hnp.array_shapes(min_dims=0, max_dims=max_rank, min_side=0, max_side=max_side)
    else:
        chosen = shape if isinstance(shape, st.SearchStrategy) else st.just(shape)

    if separated:
        return st.builds(lambda s, seed: _separated(wanted, s, low, high, seed), chosen, st.integers(0, 2**32 - 1))
    return chosen.flatmap(lambda s: hnp.arrays(wanted, s, elements=_elements(wanted, low, high, special=special)))


def _elements(dtype: np.dtype[Any], low: float, high: float, *, special: bool) -> st.SearchStrategy[Any]:
    width = 32 if bytes_of_real(dtype) <= 4 else 64
    real: Any = st.floats(*_bounds(low, high, np.dtype(f"f{width // 8}").type), width=width)  # type: ignore[arg-type]
    if special:
        real = st.sampled_from(SPECIAL).map(lambda value: float(np.dtype(f"f{width // 8}").type(value))) | real
    return st.builds(complex, real, real) if dtype.kind == "c" else real


def _bounds(low: float, high: float, kind: Any) -> tuple[float, float]:
    """Return the least and the greatest number of a floating-point type within two bounds."""
    least, most = kind(low), kind(high)
    least = np.nextafter(least, kind(np.inf)) if float(least) < low else least
    return float(least), float(np.nextafter(most, kind(-np.inf)) if float(most) > high else most)


def _separated(dtype: np.dtype[Any], shape: Any, low: float, high: float, seed: int) -> Any:
    parts = [InputSource(np.float64, seed + i)(*shape, low=low, high=high) for i in range(1 + (dtype.kind == "c"))]
    return np.asarray(parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]).astype(dtype)


def trees(leaves: st.SearchStrategy[Any] | None = None, *, max_leaves: int = 5) -> st.SearchStrategy[Any]:
    """Return a strategy for pytrees of arrays: nested dicts, lists and tuples.

    Args:
        leaves: a strategy for the leaves; `arrays()` by default.
        max_leaves: the approximate largest number of leaves.

    Example:
        >>> from hypothesis import find
        >>> find(trees(arrays(shape=(2,))), lambda tree: isinstance(tree, dict))
        {'a': array([0., 0.])}
    """
    names: st.SearchStrategy[Hashable] = st.sampled_from("abcdw")

    def deeper(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(children, min_size=1, max_size=3)
        return lists | lists.map(tuple) | st.dictionaries(names, children, min_size=1, max_size=3)

    return st.recursive(arrays() if leaves is None else leaves, deeper, max_leaves=max_leaves)


_below = functools.cache(lambda n: st.integers(0, n - 1))
"""Return the strategy for the integers `0 ... n - 1`, cached because a program draws from it dozens of times."""


@st.composite
def programs(
    draw: st.DrawFn,
    max_operations: int = 8,
    max_rank: int = 4,
    families: Collection[str] | None = None,
    mutation: bool | Collection[str] = False,
    layouts: bool = False,
    numbers: bool = False,
) -> Program:
    """Return a strategy for random NumPy programs with their inputs; see `functad.testing.Program`.

    A failing example shrinks to a few lines and prints as plain source.

    Args:
        draw: supplied by Hypothesis.
        max_operations, max_rank, families, mutation, layouts, numbers: as for `functad.testing.draw_program`.

    Example:
        >>> from hypothesis import given, settings
        >>> from functad.testing import check_grads
        >>> @settings(max_examples=5, deadline=None)
        ... @given(programs(families=["reductions", "shaping"]))
        ... def test_gradients(program):
        ...     check_grads(program, program.inputs, order=1)
    """

    def choose(n: int) -> int:
        return draw(_below(n)) if n > 1 else 0

    return draw_program(
        choose,
        max_operations=max_operations,
        max_rank=max_rank,
        families=families,
        mutation=mutation,
        layouts=layouts,
        numbers=numbers,
    )


__all__ = ["SPECIAL", "arrays", "programs", "trees"]
