"""Everything that NumPy takes as an index, and what is wrong with the rest."""

from __future__ import annotations

import array
from collections import deque

import numpy as np
import pytest

import functad

X = np.arange(12.0).reshape(3, 4)


class Convertible:
    """What becomes an array, and is none."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


class Integer:
    def __index__(self):
        return 1


INDICES = {
    "range": range(2),
    "empty range": range(0),
    "two ranges": (range(2), range(2)),
    "range and array": (range(3), np.array([0, 1, 2])),
    "slice and range": (slice(None), range(1, 3)),
    "ellipsis and range": (..., range(2)),
    "list of integers of NumPy": [np.int64(0), np.int64(1)],
    "list of ranges": [range(2), range(2)],
    "tuple of lists": ([0, 1], [1, 2]),
    "convertible": Convertible([0, 1]),
    "convertible number": Convertible(1),
    "convertible mask": Convertible([True, False, True]),
    "array of the standard library": array.array("l", [0, 1]),
    "buffer": memoryview(np.array([0, 1])),
    "deque": deque([0, 1]),
    "integer": Integer(),
    "unsigned": np.array([0, 1], np.uint8),
    "empty list": [],
}
READ = {
    "concrete": lambda f: functad.vjp(f, X)[0],
    "without values": lambda f: functad.make_expressions(f)(X)(X),
    "batch": lambda f: functad.vmap(f)(X[None])[0],
    "constant": lambda f: f(functad.constant(X)).numpy(),
}


@pytest.mark.parametrize("way", READ)
@pytest.mark.parametrize("name", INDICES)
def test_an_index_reads_what_it_reads_of_an_array(name, way):
    index = INDICES[name]
    np.testing.assert_array_equal(READ[way](lambda t: t[index]), X[index])


@pytest.mark.parametrize("name", INDICES)
def test_an_index_is_written_to_and_differentiated(name):
    index = INDICES[name]
    expected, ones = X.copy(), np.zeros_like(X)
    expected[index] = 7.0
    np.add.at(ones, index, 1.0)

    def write(t):
        t = t * 1
        t[index] = 7.0
        return t

    np.testing.assert_array_equal(functad.vjp(write, X)[0], expected)
    np.testing.assert_array_equal(functad.grad(lambda t: np.sum(t[index]))(X), ones)


TAKEN = {
    **{name: INDICES[name] for name in ("range", "empty range", "convertible", "deque", "unsigned", "empty list")},
    "mask": np.array([True, False, True]),
    "list of booleans": [True, False],
    "one boolean": True,
    "pieces": 1.5,
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": 0, "mode": "wrap"}, {"axis": 1, "mode": "clip"}])
def test_take_reads_places_as_numpy_does(name, options):
    places = TAKEN[name]
    expected = np.take(X, places, **options)
    np.testing.assert_array_equal(functad.vjp(lambda t: np.take(t, places, **options), X)[0], expected)


@pytest.mark.parametrize("index", ["a", 1.5, object(), {}, [[0], [0, 1]], ("a",), Convertible(["a"])])
def test_what_is_no_index_raises_as_for_an_array(index):
    with pytest.raises((IndexError, ValueError)):
        X[index]
    with pytest.raises((IndexError, ValueError)):
        functad.grad(lambda t: np.sum(t[index]))(X)


def test_pandas_indices_and_series():
    pandas = pytest.importorskip("pandas")
    for index in (pandas.Index([0, 1]), pandas.Series([0, 1]), pandas.Series([True, False, True]), pandas.RangeIndex(2)):
        for way, read in READ.items():
            np.testing.assert_array_equal(read(lambda t: t[index]), X[index], err_msg=way)  # noqa: B023
        np.testing.assert_array_equal(
            functad.grad(lambda t: np.sum(t[index]))(X),  # noqa: B023
            (np.ones_like(X).T * np.isin(range(3), np.arange(3)[index])).T,
        )


def test_masks_that_are_constants():
    constant = functad.constant
    np.testing.assert_array_equal(constant(X)[constant(np.array([True, False, True]))].numpy(), X[[0, 2]])
    assert constant(np.ones(0))[constant(np.zeros(0, bool))].shape == (0,)
    assert constant(np.ones((0, 3)))[constant(np.zeros((0, 3), bool))].shape == (0,)
    with pytest.raises(functad.errors.AbstractValueError):
        functad.make_expressions(lambda t: t[t > 1])(X)


def test_an_integer_of_a_tensor_says_how_it_becomes_an_index():
    with pytest.raises(functad.errors.ConversionError, match=r"t\.astype\(int\)"):
        functad.grad(lambda t: X[np.int64(t)])(1.0)
    assert functad.grad(lambda t: np.sum(t * X[t.astype(int)]))(1.0) == 22.0


def test_masks_that_are_tensors_outside_of_any_trace() -> None:
    a = np.arange(6.0).reshape(2, 3)
    t = functad.constant(a)
    for mask in (np.zeros((2, 3), bool), np.zeros(2, bool), a > 2):
        assert np.array_equal(t[functad.constant(mask)], a[mask])
    none = functad.constant(np.zeros((0, 3)))
    assert none[functad.constant(np.zeros(0, bool))].shape == (0, 3)
    assert none[none > 0].shape == (0,)
    assert functad.constant(1.0)[functad.constant(False)].shape == (0,)
