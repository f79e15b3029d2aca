"""How NumPy lays out what an operation gives: where a trace has no values, only that says what `reshape` makes a view of.

`2 * t.T` has the order of `t.T`, so `reshape` copies it, and a write to the copy leaves it as it was. What is said here surely
holds. All else is `ANY`: whether a `reshape` copies it is not known, and `functad.tracing.views` says what that means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import shape_of
from functad.primitives.conversion import COPY
from functad.primitives.indexing import GETITEM
from functad.primitives.primitive import Primitive
from functad.primitives.shaping import RESHAPE

CONTIGUOUS, ORDERED, ANY = range(3)
"""The elements lie in C order without gaps; its axes are in that order, but there may be gaps; nothing is known."""

# Beside elementwise operations: in C order if all arguments are.
_REDUCTIONS = ("sum", "mean", "prod", "var", "max", "min", "any", "all", "nanmax", "nanmin", "count_nonzero")
_OTHERS = ("astype", "astype_integer", "real", "imag", "round", "isclose", "cumsum", "cumprod", "concatenate", "stack")
_KEEP = frozenset({*_REDUCTIONS, *_OTHERS, "roll", "pad", "diff", "tril", "triu"})
# Matrices in C order, whatever the arguments are.
_MATRICES = frozenset({"matmul", "dot", "outer_product", "solve", "inv", "pinv", "cholesky", "eigh", "repeat", "tile"})


def layout_of(strides: Sequence[int], shape: Sequence[int], itemsize: int) -> int:
    """Return what strides say; those of axes of length 1 say nothing."""
    axes = [(abs(stride), stride, n) for stride, n in zip(strides, shape, strict=True) if n != 1]
    axes.append((0, itemsize, 1))
    if all(axes[i][1] == axes[i + 1][1] * axes[i + 1][2] for i in range(len(axes) - 1)):
        return CONTIGUOUS
    return ORDERED if all(axes[i][0] >= axes[i + 1][0] for i in range(len(axes) - 1)) else ANY


def is_flat(shape: Sequence[int]) -> bool:
    """Say whether there is only one order that the elements can have: at most one axis is longer than 1."""
    return sum([n != 1 for n in shape]) < 2


def merges(old: Sequence[int], new: Sequence[int]) -> bool:
    """Say whether a reshape joins axes, so that the layout decides whether it copies; to split an axis never copies."""
    if tuple(old) == tuple(new):
        return True  # so `ravel` says that it is not known whether there are gaps
    rest = [n for n in new if n != 1]
    for n in old:
        product = 1
        while product < n and rest:
            product *= rest.pop(0)
        if product != n:
            return n != 1 and 0 not in old
    return False


def keeps_order(primitive: Primitive) -> bool:
    """Say whether a primitive gives arrays in C order if all its arguments are in C order."""
    return primitive.kind == "elementwise" or _is_elementwise(primitive) or _name(primitive) in _KEEP


def layout_of_result(
    primitive: Primitive, shape: Sequence[int], arrays: Sequence[Any], layouts: Sequence[int], params: Any
) -> int:
    """Return the layout of a new array, by the operation that makes it and the layouts of its arguments.

    Args:
        primitive: the operation.
        shape: the shape of the result, or of one of several.
        arrays: the arguments.
        layouts: their layouts.
        params: the parameters.
    """
    name = _name(primitive)
    if primitive is RESHAPE or (primitive is COPY and params.get("order") == "C") or (name in _MATRICES and len(shape) == 2):
        return CONTIGUOUS
    if primitive.writes or name in ("place", "place_add"):
        return CONTIGUOUS if layouts[0] != ANY else ANY
    keeps = keeps_order(primitive)
    if primitive is COPY:
        keeps = params.get("order", "K") in ("K", "A")
    elif primitive is GETITEM:
        keeps = _takes_first(params["index"])
    elif name in ("fft", "ifft", "rfft", "irfft"):
        keeps = params["axis"] in (-1, len(shape) - 1)
    if keeps and ANY not in layouts:
        return CONTIGUOUS
    if not keeps or not _is_elementwise(primitive):
        return ANY
    # where arguments contradict each other, a ufunc takes C order
    full = [shape_of(a) == tuple(shape) for a, layout in zip(arrays, layouts, strict=True) if layout != ANY]
    return CONTIGUOUS if any(full) else ANY


def _name(primitive: Primitive) -> str:
    """Return the name of a primitive; those of users may have the same, and get none."""
    own = (getattr(primitive.function, "__module__", None) or "numpy").startswith(("numpy", "functad.primitives"))
    return primitive.name if own else ""


def _is_elementwise(primitive: Primitive) -> bool:
    return isinstance(primitive.function, np.ufunc) and primitive.function.signature is None


def _takes_first(index: Any) -> bool:
    """Say whether an index takes places along the first axis, and all of the others."""
    first, *others = index if type(index) is tuple else (index,)
    return issubclass(type(first), np.ndarray) and all(type(other) is slice and other == slice(None) for other in others)
