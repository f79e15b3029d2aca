"""What functions of NumPy give for Python numbers: under a trace what they give without one, NumPy's own types.

Only Python's operators on Python numbers give Python numbers, whose dtype yields to that of arrays.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functad
from functad import ArraySpec, tree_flatten
from functad.primitives.entry import ENTRIES
from functad.testing import every_entry
from tests.values import dtype_of, innermost

every_entry()  # imports all of them
NUMBERS = {float: 0.3, complex: 0.3 + 0.2j, int: 2, bool: True}
CALLS = {
    "f(x)": lambda f, x, one: f(x),
    "f(x, x)": lambda f, x, one: f(x, x),
    "f(x, 1)": lambda f, x, one: f(x, one),
    "f(1, x)": lambda f, x, one: f(one, x),
}
QUERIES = {"allclose", "array_equal", "array_equiv", "isreal", "matrix_rank"}  # without values the answer is a Tensor
LENGTHS = {"zeros", "ones", "empty", "full", "eye", "unravel_index", "repeat", "take"}  # asks for an integer, or reads by it
ITSELF = {"trim_zeros", "real", "imag"}  # NumPy returns the argument, or an attribute of it, as it is
REFUSED = (functad.errors.UnsupportedError, functad.errors.ConversionError, functad.errors.AbstractValueError)
# NumPy's own result became another type with 2.1: a count was a number of Python's before.
if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    ITSELF = ITSELF | {"count_nonzero"}
ENTERED = sorted(
    {e.name for e in ENTRIES.values() if e.status != "refused" and not e.in_place and e.function is getattr(np, e.name, None)}
    - ITSELF
    - LENGTHS
)


def described(leaf):
    value = innermost(leaf)
    if isinstance(value, ArraySpec):
        return ("Python" if value.weak else "NumPy"), value.shape, value.dtype
    return type(value), np.shape(value), dtype_of(value)


def without_values(description):
    kind, shape, dtype = description
    return ("Python" if kind in NUMBERS else "NumPy"), shape, dtype


def is_number(leaf):
    return type(leaf) in NUMBERS or (isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biufc")


@pytest.mark.parametrize("name", ENTERED)
def test_functions_of_python_numbers_give_what_numpy_gives(name):
    function = getattr(np, name)
    for kind, x in NUMBERS.items():
        for text, call in CALLS.items():
            try:
                with warnings.catch_warnings(action="ignore"):
                    plain = tree_flatten(call(function, x, kind(1)))[0]
            except Exception:  # noqa: BLE001 - NumPy takes no such arguments
                continue
            if not all(map(is_number, plain)):
                continue
            expected = list(map(described, plain))
            found = []

            def f(x):
                found.append(list(map(described, tree_flatten(call(function, x, kind(1)))[0])))  # noqa: B023
                return x

            try:
                with warnings.catch_warnings(action="ignore"):
                    if kind in (float, complex):
                        functad.vjp(f, x)
                        functad.jvp(f, (x,), (x,))
                    assert all(one == expected for one in found), f"{text} for {x}: {found}, not {expected}"
                    found.clear()
                    functad.make_expressions(f)(x)
            except REFUSED:
                continue
            if name not in QUERIES:
                (one,) = found
                one = [d if d[0] in ("Python", "NumPy") else without_values(d) for d in one]
                assert one == list(map(without_values, expected)), f"{text} for {x}: {one}, not {expected}"


def test_masks_of_python_numbers_are_masks():
    f = lambda x: np.where(~(np.abs(x) < 1), x, x**2)  # noqa: E731
    value, slope = functad.value_and_grad(f)(0.3)
    np.testing.assert_allclose([value, slope], [0.09, 0.6])
    np.testing.assert_allclose(functad.jvp(f, (0.3,), (1.0,)), [0.09, 0.6])
    np.testing.assert_allclose(functad.make_expressions(f)(0.3)(0.3), 0.09)

    def g(x):
        assert (np.subtract(x, 1) < 0).all()
        assert (np.abs(x) < 1) + (np.abs(x) < 2) == np.True_
        assert (np.abs(x) * np.ones(2, np.float32)).dtype == np.float64
        assert (abs(x) * np.ones(2, np.float32)).dtype == np.float32
        return x * np.real_if_close(0.5 + 0j * x)

    np.testing.assert_allclose(functad.grad(g)(0.3), 0.5)
    assert functad.grad(lambda x: np.real_if_close((x + 0.5j) * (x - 0.5j) + 0j))(0.3) == 0.6
    assert type(functad.vjp(np.real_if_close, np.float64(0.3))[0]) is type(np.real_if_close(np.float64(0.3)))


def test_operators_on_python_numbers_give_python_numbers():
    def f(x):
        for value in (x + 1, 2 * x, x - 0.5, 1 / x, x**2, 2**x, -x, +x, abs(x), x % 2, x // 1, x < 1):
            assert type(innermost(value)) in NUMBERS
            assert isinstance(value, (int, float))
            assert not isinstance(value, np.generic)
        return x

    functad.vjp(f, 0.3)
    functad.jvp(f, (0.3,), (1.0,))
    single = functad.grad(lambda x: np.sum((x * 2 + 1) ** 2 * np.ones(2, np.float32)))
    assert isinstance(single(0.3), float)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide, np.power])
@pytest.mark.parametrize("number", [1j, 2 - 1j])
def test_python_complex_numbers_beside_numpys_give_numpys(ufunc, number):
    for f in (lambda x: np.imag(ufunc(number, x)), lambda x: np.real(ufunc(x, number))):
        value = functad.vjp(f, np.float64(0.7))[0]
        assert type(value) is np.float64
        assert value == f(np.float64(0.7))
        assert type(functad.make_expressions(f)(np.float64(0.7))(np.float64(0.7))) is np.float64


def test_rounded_python_numbers_stay_weak_in_expression_lists():
    def f(x):
        return (round(x, 1) + round(x)) * np.ones(2, np.float32)

    listed = functad.make_expressions(f)(0.77)
    for x in (0.77, 2.5, -1.25):
        found = listed(x)
        assert found.dtype == np.float32
        assert found.tolist() == f(x).tolist()
