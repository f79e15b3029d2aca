"""Functions that move elements along axes: flips, rotations by right angles, and rolls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functad.expressions.spec import shape_of
from functad.primitives.arranging.reshape import matrix_samples, ravel, same_spec, swapaxes
from functad.primitives.batching import along_axes
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import get_item
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import strong


def _flip(a: Any, *, axis: tuple[int, ...]) -> Any:
    backwards, whole = slice(None, None, -1), slice(None)
    return a[tuple([backwards if i in axis else whole for i in range(a.ndim)])]


def flip(m: Any, axis: Any = None) -> Any:
    """Return the result of `np.flip`."""
    ndim = len(shape_of(m))
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    return FLIP(m, axis=axes) if axes else get_item(strong(m), ())


FLIP: Primitive = linear(
    np.flip,
    lambda g, axis: FLIP(g, axis=axis),
    compute=_flip,
    spec=same_spec,
    samples=lambda array: [
        ((array(2, 3),), {}),
        ((array(2, 3), 0), {}),
        ((array(2, 3),), {"axis": (0, -1)}),
        ((array(3), -1), {}),
        ((array(),), {}),
        ((array(0, 2), 1), {}),
    ],
    doc="linear; the cotangent is flipped back",
    views="always",
    batch=along_axes,
    front=flip,
    dependence="moved",
)


@composite(np.fliplr, samples=matrix_samples, doc="a flip")
def _fliplr(m: Any) -> Any:
    return flip(_of_ndim(m, 2), 1)


@composite(np.flipud, samples=lambda array: [((array(2, 3),), {}), ((array(3),), {}), ((array(0, 3),), {})], doc="a flip")
def _flipud(m: Any) -> Any:
    return flip(_of_ndim(m, 1), 0)


def _of_ndim(m: Any, ndim: int) -> Any:
    if len(shape_of(m)) < ndim:
        raise ValueError(f"Input must be >= {ndim}-d.")
    return m


@composite(
    np.rot90,
    samples=lambda array: [
        ((array(2, 3),), {}),
        ((array(2, 3), 2), {}),
        ((array(2, 3), -1), {}),
        ((array(2, 3, 1),), {"k": 3, "axes": (1, 2)}),
        ((array(2, 3, 1),), {"axes": (-1, 0)}),
        ((array(2, 3), 4), {}),
    ],
    doc="flips and a transposition",
)
def _rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    i, j = normalize_axis_tuple(tuple(axes), len(shape_of(m)), "axes")
    k %= 4
    if k == 2:
        return flip(m, (i, j))
    if k == 1:
        return swapaxes(flip(m, j), i, j)
    return flip(swapaxes(m, i, j), j) if k == 3 else m


def _roll(a: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    if len(axis) != 1 or (type(a) is np.ndarray and not a.flags.forc):  # np.roll keeps the layout
        return np.roll(a, shift, axis)
    # Two slices take 2 us, np.roll takes 8 us. Finite-difference schemes on grids call roll often.
    before = (slice(None),) * axis[0]
    return np.concatenate((a[(*before, slice(-shift[0], None))], a[(*before, slice(-shift[0]))]), axis[0])


def _roll_vjp(g: Any, a_shape: tuple[int, ...], shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return ROLL(g, shift=tuple([a_shape[i] - s for s, i in zip(shift, axis, strict=True)]), axis=axis)


def _roll_front(a: Any, shift: Any, axis: Any = None) -> Any:
    shape = shape_of(a)
    if axis is None:
        return _roll_front(ravel(a), shift, 0).reshape(shape)
    axes = normalize_axis_tuple(axis, len(shape), allow_duplicate=True)
    shifts = dict.fromkeys(axes, 0)
    for one, i in np.broadcast(shift, axes):
        shifts[int(i)] += int(one)
    moved = {i: total % shape[i] for i, total in shifts.items() if shape[i] and total % shape[i]}
    return ROLL(a, shift=tuple(moved.values()), axis=tuple(moved)) if moved else COPY(a)


ROLL = linear(
    np.roll,
    _roll_vjp,
    compute=_roll,
    spec=same_spec,
    samples=lambda array: [
        ((array(5), 2), {}),
        ((array(2, 3), 1), {}),
        ((array(2, 3), -1, 1), {}),
        ((array(2, 3), (1, 4), (0, 1)), {}),
        ((array(2, 3), 1), {"axis": (0, 1)}),
        ((array(2, 3), (1, 1)), {"axis": 1}),
        ((array(2, 3), 0, 0), {}),
        ((array(), 1), {}),
        ((array(0, 2), 1, 0), {}),
    ],
    doc="linear; the cotangent is rolled back",
    batch=along_axes,
    ordered=True,
    front=_roll_front,
    dependence="moved",
)
