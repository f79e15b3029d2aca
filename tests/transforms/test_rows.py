"""`RowSlices`: an array of which only some rows are not zero, and arithmetic with it."""

import copy
import operator
import pickle

import numpy as np
import pytest

import functad
from functad import RowSlices, errors
from functad.testing import central_difference

ROWS, SHAPE = [0, 2, 0], (4, 2)
VALUES = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])
WHOLE = np.zeros(SHAPE)
np.add.at(WHOLE, ROWS, VALUES)


def rows(values=VALUES):
    return RowSlices(ROWS, values, SHAPE)


def test_what_it_stands_for():
    g = rows()
    assert (g.shape, g.ndim, g.dtype, len(g)) == (SHAPE, 2, np.float64, 4)
    assert np.array_equal(g.dense(), WHOLE)
    assert np.array_equal(g.numpy(), WHOLE)
    assert np.array_equal(np.asarray(g), WHOLE)
    assert np.asarray(g, np.float32).dtype == np.float32
    assert np.array_equal(g[2], WHOLE[2])
    assert np.array_equal(RowSlices([], np.zeros((0, 2)), SHAPE).dense(), np.zeros(SHAPE))
    assert np.array_equal(RowSlices([1, 1], [2.0, 3.0], (3,)).dense(), [0, 5, 0])


def test_rows_given_twice_are_summed_on_request():
    g = rows().summed()
    assert g.indices.tolist() == [0, 2]
    assert np.array_equal(g.values, [[6, 8], [3, -4]])
    assert np.array_equal(g.dense(), WHOLE)


def test_later_changes_of_what_it_was_made_of():
    indices = np.array(ROWS)
    g = RowSlices(indices, VALUES, SHAPE)
    indices[0] = 1
    assert np.array_equal(g.dense(), WHOLE)


BY_ROWS = {
    "factor": lambda g: 2 * g,
    "factor behind": lambda g: g * 2.5,
    "number of NumPy": lambda g: np.float64(2) * g,
    "array of one number": lambda g: np.multiply(g, np.array(2.0)),
    "divisor": lambda g: g / 4,
    "negative": lambda g: -g,
    "positive": np.positive,
    "sum": lambda g: g + g,
    "difference": lambda g: g - 3 * g,
    "function": lambda g: np.add(g, g),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_arithmetic_that_stays_with_the_rows(name):
    f = BY_ROWS[name]
    found = f(rows())
    assert type(found) is RowSlices
    assert np.allclose(found.dense(), f(WHOLE), rtol=1e-15)


A = np.arange(8.0).reshape(SHAPE)
DENSE = {
    "array in front": lambda g: A * g,
    "array behind": lambda g: g - A,
    "number": lambda g: g + 1.0,
    "other number": lambda g: 1.0 - g,
    "power": lambda g: g**2,
    "base": lambda g: 2.0**g,
    "product": lambda g: g @ np.ones(2),
    "product behind": lambda g: np.ones(4) @ g,
    "divided": lambda g: 1.0 / (g + 7.0) // 0.01 % 3,
    "infinite factor": lambda g: g * np.inf,
    "infinite factor in front": lambda g: np.nan * g,
    "by zero": lambda g: g / 0.0,
    "absolute": abs,
    "equal": lambda g: g == WHOLE,
    "unequal": lambda g: g != g * 1.0,
    "less": lambda g: g < 1,
    "greater": lambda g: (g > 1) ^ (g >= 1) ^ (g <= 2),
    "ufunc": np.exp,
    "ufunc with a keyword": lambda g: np.multiply(g, 2.0, dtype=np.float32),
    "reduction": lambda g: np.add.reduce(g, axis=1),
    "function": lambda g: np.linalg.norm(g),
    "functions of lists": lambda g: np.stack([g, A]),
    "where": lambda g: np.where(g > 1, g, A),
    "broadcast": lambda g: g * np.arange(2.0),
    "into an array": lambda g: np.add(g, A, out=np.zeros(SHAPE)),
}


@pytest.mark.parametrize("name", DENSE)
def test_arithmetic_as_on_the_whole_array(name):
    f = DENSE[name]
    with np.errstate(all="ignore"):
        found, expected = f(rows()), f(WHOLE)
    assert isinstance(found, (np.ndarray, np.generic))
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")


def test_attributes_of_the_whole():
    g = rows()
    assert g.sum() == WHOLE.sum()
    assert np.array_equal(g.T, WHOLE.T)
    assert np.array_equal(g.max(axis=1), WHOLE.max(axis=1))
    assert isinstance(rows(functad.constant(VALUES)).mean(0), functad.Tensor)
    for name in ("sort", "fill", "length"):  # what writes would write into an array that nobody sees
        with pytest.raises(AttributeError, match=rf"no attribute '{name}': g.dense\(\) is the whole array"):
            getattr(g, name)
    assert np.array_equal(pickle.loads(pickle.dumps(g)).dense(), WHOLE)
    assert np.array_equal(copy.deepcopy(g).dense(), WHOLE)


@pytest.mark.parametrize("f", [operator.add, operator.sub, operator.mul, np.add, np.multiply])
def test_arithmetic_with_tensors_and_variables(f):
    g = rows()
    for other in (functad.constant(A), functad.Variable(A)):
        assert np.array_equal(f(g, other).numpy(), f(WHOLE, A))
        assert np.array_equal(f(other, g).numpy(), f(A, WHOLE))
    of_tensor = rows(functad.constant(VALUES))
    assert np.array_equal(f(of_tensor, A).numpy(), f(WHOLE, A))
    assert np.array_equal(f(A, of_tensor).numpy(), f(A, WHOLE))


def test_augmented_assignment():
    g = total = rows()
    total += g
    total *= 0.5
    assert np.array_equal(total.dense(), WHOLE)
    assert type(total) is RowSlices
    assert len(g.indices) == 3  # it is not written into
    array = A.copy()
    array += g
    assert np.array_equal(array, A + WHOLE)
    with pytest.raises(TypeError):
        np.add(A, A, out=g)


@pytest.mark.parametrize(
    "f",
    [
        lambda g: functad.grad(lambda q: np.sum(q**2 * np.sin(q)))(g),
        lambda g: functad.vmap(lambda row: np.sum(row) * row + np.sin(row))(g),
        lambda g: functad.jvp(lambda q: q * q, (g,), (g,))[1],
        lambda g: functad.vjp(lambda q: q * q, A)[1](g)[0],
        lambda g: functad.gradients_function(lambda q: np.sum(q**3))(g)[0].numpy(),
        lambda g: functad.constant(g).numpy(),
        lambda g: functad.Variable(g).numpy(),
    ],
)
def test_transforms_take_it_as_the_whole_array(f):
    assert np.array_equal(f(rows()), f(WHOLE))


def test_it_can_be_differentiated_through():
    def f(values):
        g = RowSlices(ROWS, values, SHAPE)
        return np.sum(g.summed() * 2.0 + A + g.dense() ** 2 * (3.0 * g).dense())

    direction = np.random.default_rng(0).normal(size=VALUES.shape)
    expected = central_difference(lambda x: [f(x)], [VALUES], [direction])[0]
    assert np.sum(functad.grad(f)(VALUES) * direction) == pytest.approx(expected, rel=1e-8)


def test_complex_and_other_types():
    g = rows(VALUES * (1 + 2j))
    assert np.array_equal(g.conj().dense(), np.conj(g.dense()))
    assert type(np.conjugate(g)) is RowSlices
    assert g.astype(np.complex64).dtype == np.complex64
    assert g.astype(np.complex128) is g


def test_wrong_parts():
    with pytest.raises(errors.InputError, match=r"indices of RowSlices are float64.* at .*test_rows.py"):
        RowSlices([0.5, 1.0, 2.0], VALUES, SHAPE)
    with pytest.raises(errors.InputError, match="give n integers"):
        RowSlices([[0], [1], [2]], VALUES, SHAPE)
    for indices, values, shape in (([0, 1], VALUES, SHAPE), (ROWS, VALUES, (4, 3)), (ROWS, VALUES, (4,)), ([], [], ())):
        with pytest.raises(errors.StructureError, match=r"they must be \(n, \*shape\[1:\]\)"):
            RowSlices(indices, values, shape)
    for indices in ([0, 1, 4], [-1, 0, 1]):
        with pytest.raises(IndexError, match="of an array that has 4"):
            RowSlices(indices, VALUES, SHAPE)
    with pytest.raises(TypeError, match="unhashable"):
        hash(rows())


def test_how_it_prints():
    assert repr(rows().summed()) == "RowSlices(indices=[0 2], values=[[ 6. 8.] [ 3. -4.]], shape=(4, 2))"
    assert "shape=(4, 2)" in repr(rows(functad.constant(VALUES)))
    assert len(repr(RowSlices(np.arange(5000), np.ones(5000), (5000,)))) < 200
