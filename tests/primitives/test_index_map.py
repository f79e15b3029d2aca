"""Each method of `IndexMap` against NumPy, on generated indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functad.expressions.spec import spec_of
from functad.primitives.indexing.index_map import IndexMap, are_disjoint, indexed_shape, stacked

SHAPES = ((5,), (0, 3), (4, 1), (3, 4, 2), (2, 3, 1, 4), ())
SEEDS = range(300)


def generated(rng: Any, shape: tuple[int, ...], *, arrays: bool) -> Any:
    """Return a random index that NumPy accepts: integers, slices, new axes, an ellipsis, and with `arrays` index arrays."""
    while True:
        own = [(), (3,), (2, 1), (1, 3), (0,)][rng.choice(5, p=[0.2, 0.25, 0.25, 0.25, 0.05])]
        parts: list[Any] = []
        for n in shape[: rng.integers(len(shape) + 1)]:
            kind = rng.choice(["integer", "slice", "slice", "array", "mask"] if arrays else ["integer", "slice"])
            if kind == "integer":
                parts.append(int(rng.integers(-n, n))) if n else parts.append(slice(None))
            elif kind == "array":
                parts.append(rng.integers(-n, max(n, 1), own if rng.random() < 0.6 else own[-1:]))
            elif kind == "mask":
                parts.append(rng.random(n) < 0.5)
            else:
                bounds = [None if rng.random() < 0.4 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)]
                parts.append(slice(*bounds, [None, 1, 2, -1, -2, 3][rng.integers(6)]))
        for part in [None] * rng.integers(3) + [Ellipsis] * (rng.random() < 0.4):
            parts.insert(rng.integers(len(parts) + 1), part)
        index = parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)
        try:
            numbered(shape)[index]
        except IndexError:
            continue
        return index


def numbered(shape: tuple[int, ...]) -> Any:
    """Return an array of the given shape with the position of each element."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def cases(*, arrays: bool) -> Any:
    """Yield shapes and random indices that NumPy accepts."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        shape = SHAPES[seed % len(SHAPES)]
        yield shape, generated(rng, shape, arrays=arrays)


@pytest.mark.parametrize("arrays", [False, True])
def test_shape_and_positions_are_those_of_numpy(arrays):
    for shape, index in cases(arrays=arrays):
        expected = numbered(shape)[index]
        found = IndexMap.of(shape, index)
        assert found.shape == indexed_shape(shape, index) == np.shape(expected), (shape, index)
        assert np.array_equal(found.positions(), expected), (shape, index)
        assert np.array_equal(found.affine().positions(), expected), (shape, index)
        read = numbered(shape)[tuple(found.index_arrays())]
        assert np.array_equal(np.broadcast_to(read, found.shape), expected), (shape, index)


def test_the_axes_of_index_arrays_need_no_values():
    for shape, index in cases(arrays=True):
        known = IndexMap.of(shape, index)
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(p, np.ndarray) and p.dtype == bool for p in parts):
            continue
        found = IndexMap.of(shape, tuple([spec_of(p) if isinstance(p, np.ndarray) else p for p in parts]))
        assert found._replace(arrays=()) == known._replace(arrays=())


def test_layout_is_that_of_the_view():
    for shape, index in cases(arrays=False):
        a = numbered(shape).astype(np.int8, order="F")
        view = np.asarray(a[index if isinstance(index, tuple) else (index,)][...])
        found = IndexMap.of(shape, index)
        offset, strides = found.layout(a.strides)
        assert found.is_affine
        if view.size and np.may_share_memory(view, a):
            assert offset == view.__array_interface__["data"][0] - a.__array_interface__["data"][0]
            assert [s for s, n in zip(strides, view.shape, strict=True) if n > 1] == [
                s for s, n in zip(view.strides, view.shape, strict=True) if n > 1
            ]


def test_affine_keeps_arrays_that_are_no_arithmetic_sequence():
    window = np.arange(4)[:, None] + 2 * np.arange(3)
    assert IndexMap.of((9,), window).affine().axes[0].steps == {0: 1, 1: 2}
    assert IndexMap.of((9,), np.full(3, -1)).affine().axes[0] == (8, {}, None)
    assert IndexMap.of((9,), np.array([0, 1, 3])).affine().axes[0].array == 0


def test_transposes_broadcasts_and_diagonals():
    a = numbered((3, 1, 4))
    assert np.array_equal(IndexMap.by_axes(a.shape, (4, 3, 1), (1, 2, 0)).positions(), a.transpose(2, 0, 1))
    assert np.array_equal(IndexMap.by_axes(a.shape, (2, 3, 5, 4), (1, None, 3)).positions(), np.broadcast_to(a, (2, 3, 5, 4)))
    assert np.array_equal(IndexMap.by_axes((3, 3), (3,), (0, 0)).positions(), np.diagonal(numbered((3, 3))))


def test_reshapes_that_only_change_axes_of_length_one():
    a = numbered((3, 1, 2))
    for shape in ((3, 2), (1, 3, 1, 2, 1), (3, 1, 2)):
        assert np.array_equal(IndexMap.reshape(a.shape, shape).positions(), a.reshape(shape))
    assert IndexMap.reshape(a.shape, (2, 3)) is None


def test_along_axis_is_that_of_numpy():
    a, indices = numbered((3, 4)), np.array([[0, -1], [2, 1], [3, 3]])
    expected = np.take_along_axis(a, indices, 1)
    assert np.array_equal(IndexMap.along_axis(a.shape, indices, 1).positions(), expected)
    with pytest.raises(IndexError):
        IndexMap.along_axis(a.shape, indices.T[:, :2] + 2, 0)


def test_along_names_the_axis_that_runs_over_a_whole_axis():
    for shape, index in cases(arrays=True):
        found = IndexMap.of(shape, index)
        for axis, n in enumerate(shape):
            own, j = np.indices(shape)[axis][index], found.along(axis)
            if j is not None:
                assert np.array_equal(own, np.broadcast_to(np.arange(n).reshape((-1,) + (1,) * (own.ndim - j - 1)), own.shape))
        if found.is_affine and found.size > 1:
            assert found.is_identity == np.array_equal(numbered(shape)[index], numbered(shape)), (shape, index)


def test_disjoint_maps_have_no_common_element():
    exact = known = 0
    for shape, index in cases(arrays=True):
        rng = np.random.default_rng(len(repr(index)))
        other = generated(rng, shape, arrays=rng.random() < 0.3)
        one, two = (np.unique(numbered(shape)[i]) for i in (index, other))
        apart = IndexMap.of(shape, index).is_disjoint(IndexMap.of(shape, other))
        expected = not set(one) & set(two)
        assert expected or not apart, (shape, index, other)
        exact += expected
        known += apart
    assert known > 0.8 * exact


def test_injective_maps_read_no_element_twice():
    known = 0
    for shape, index in cases(arrays=True):
        found = IndexMap.of(shape, index)
        if found.is_injective:
            assert len(np.unique(numbered(shape)[index])) == found.size, (shape, index)
            known += 1
        elif found.is_affine:
            raise AssertionError((shape, index))
    assert known > len(SEEDS) / 2


def test_equidistant_windows_stack_to_one_map():
    a = numbered((9, 8))
    for step, turn, axis in ((1, 0, 0), (0, 2, 1), (-1, 1, 2), (0, 0, -3)):
        starts = [(2 + step * i, 7 + turn * (i - 2)) for i in range(3)]
        windows = [(slice(i, i + 3), None, slice(j, j - 3, -2)) for i, j in starts]
        found = stacked([IndexMap.of(a.shape, index) for index in windows], axis % 4)
        assert found is not None
        assert np.array_equal(found.positions(), np.stack([a[index] for index in windows], axis))
        assert found.affine() == found
    assert stacked([IndexMap.of((9,), i) for i in (0, 1, 3)], 0) is None
    assert stacked([IndexMap.of((9,), slice(i, i + n)) for i, n in ((0, 2), (1, 3))], 0) is None


def test_many_maps_are_disjoint_if_all_pairs_are():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        shape = SHAPES[seed % len(SHAPES)]
        maps = [IndexMap.of(shape, generated(rng, shape, arrays=False)) for _ in range(rng.integers(1, 5))]
        pairs = all(a.is_disjoint(b) for i, a in enumerate(maps) for b in maps[:i])
        assert are_disjoint(maps) == pairs
    rows = [IndexMap.of((3000, 2), (i, j)) for i in range(3000) for j in range(2)]
    assert are_disjoint(rows)
    assert not are_disjoint([*rows, IndexMap.of((3000, 2), (slice(5, 6), 1))])


def test_indices_out_of_bounds_raise_as_in_numpy():
    a = numbered((3, 2))
    wrong = [3, -4, (0, 0, 0), np.array([0, 3]), (..., ...), np.array([0.5]), np.zeros(4, bool), (slice(None), np.array(2))]
    for index in wrong:
        with pytest.raises(IndexError) as expected:
            a[index]
        with pytest.raises(IndexError) as raised:
            IndexMap.of(a.shape, index)
        assert str(raised.value)[:30] == str(expected.value)[:30]
    assert IndexMap.of(a.shape, (np.zeros(0, int), np.array([[7]]))).shape == a[np.zeros(0, int), np.array([[7]])].shape
