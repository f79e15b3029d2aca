"""`functad.numpy`, lists of Tensors, and arguments of NumPy's functions that others do not test."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy
from functad.testing import check_grads

LISTS = {
    "sum": lambda np, t: np.sum([t[0], 3.0, t[1]]),
    "mean": lambda np, t: np.mean([t[0], 3.0, t[1]]),
    "std": lambda np, t: np.std([t[0], 3.0, t[1]]),
    "var": lambda np, t: np.var([t[0], 3.0, t[1]]),
    "prod": lambda np, t: np.prod([t[0], 3.0, t[1]]),
    "max": lambda np, t: np.max([t[0], 3.0, t[1]]),
    "min": lambda np, t: np.min([t[0], 3.0, t[1]]),
    "diag": lambda np, t: np.diag([t[0], 3.0]) @ t,
    "append": lambda np, t: np.append([t[0], 3.0], t),
    "norm": lambda np, t: np.linalg.norm([t[0], 3.0, t[1]]),
    "dot": lambda np, t: np.dot([t[0], t[1]], [t[1], 2.0]),
    "r_": lambda np, t: np.r_[t[0], 1:3, t, [t[1], 2.0]] ** 2,
    "c_": lambda np, t: np.c_[t, t * 2, np.ones(2)] ** 2,
    "concatenate": lambda np, t: np.concatenate([t, [t[0]]]),
    "float64": lambda np, t: np.float64(t) * np.float64(t[0]),
    "float64 of a list": lambda np, t: np.float64([t[0], 2.0]) * 2,
    "asanyarray": lambda np, t: np.asanyarray([t[0], 1.0]) * 2,
    "ascontiguousarray": lambda np, t: np.ascontiguousarray(t[0]) * 2,
    "asfortranarray": lambda np, t: np.asfortranarray([t, t]) * 2,
    "require": lambda np, t: np.require(t, np.float64, "C") * 2,
    "array": lambda np, t: np.array(t, copy=np._CopyMode.IF_NEEDED) * 2,
}


@pytest.mark.parametrize("name", LISTS)
def test_functad_numpy_takes_lists_with_tensors(name):
    f = LISTS[name]
    x = np.array([1.5, 4.0])
    found, plain = functad.vjp(lambda t: f(functad.numpy, t), x)[0], f(np, x)
    np.testing.assert_allclose(found, plain)
    assert np.shape(found) == np.shape(plain)
    check_grads(lambda t: f(functad.numpy, t), [x])
    np.testing.assert_array_equal(f(functad.numpy, x), plain)


def test_the_number_types_of_functad_numpy_stand_for_those_of_numpy():
    fnp = functad.numpy
    assert type(fnp.float64(2)) is np.float64
    assert isinstance(np.float64(1), fnp.float64)
    assert np.zeros(2, fnp.float32).dtype == np.float32 == fnp.float32
    assert np.dtype(fnp.complex128) == np.complex128
    assert issubclass(fnp.float64, np.floating)
    for number in (np.float64, np.dtype(np.float64), fnp.float64):
        assert number in [fnp.float32, fnp.float64]  # which asks the types of functad.numpy first
        assert number not in [fnp.float32, fnp.complex128]
    assert fnp.float64 != np.float32
    assert fnp.float64 != 1
    for dtype in map(np.dtype, ("f4", "f8", "c8", "c16", "i8")):
        for own, kind in ((fnp.float32, np.float32), (fnp.complex128, np.complex128), (fnp.double, np.double)):
            assert (dtype == own) == (own == dtype) == (dtype in (own, bool)) == (dtype == kind)
            assert (dtype != own) == (own != dtype) == (dtype != kind)
    assert np.finfo(fnp.float32).eps == np.finfo(np.float32).eps
    assert functad.grad(lambda x: fnp.float32(x) * 2)(1.5) == 2.0
    assert functad.grad(lambda x: np.sum(fnp.float32(x * np.ones(2))).dtype.itemsize * x)(1.5) == 4.0


def test_constants_made_inside_a_trace_become_numbers():
    def f(x):
        ones = functad.numpy.ones(2) * 3
        assert float(ones[0]) == 3.0
        assert ones.tolist() == [3.0, 3.0]
        first, _ = np.split(ones, 2)
        assert int(first[0]) == 3
        ones[0] = x[0]
        assert float(np.ones(2)[0]) == 1.0
        with pytest.raises(functad.errors.ConversionError):
            float(ones[0])
        return np.sum(x)

    functad.grad(f)(np.ones(2))
    functad.grad(functad.grad(lambda x: f(np.ones(2) * x)))(1.0)
    functad.jvp(f, (np.ones(2),), (np.ones(2),))


def test_what_has_no_derivative_is_written_into_plain_arrays():
    def f(t):
        out = np.zeros(2, bool)
        assert np.greater_equal(t, 90, out=out) is out
        np.testing.assert_array_equal(out, [False, True])
        place = np.zeros((), int)
        np.argmax(t, out=place)
        assert place == 1
        with pytest.raises(functad.errors.UnsupportedError):
            np.add(t, 1, out=np.zeros(2))
        return np.sum(t)

    functad.grad(f)(np.array([1.0, 100.0]))


@pytest.mark.parametrize("function", [np.multiply, np.add, np.hypot, np.arctan2, np.maximum, np.power])
def test_ufuncs_take_lists_beside_tensors(function):
    x = np.array([1.5, 2.5])
    check_grads(lambda t: function([t[0], 2.0], t * 3), [x])
    check_grads(lambda t: function(t * 3, [t[0], 2.0]), [x])
    value = functad.vjp(lambda t: function([t[0], 2.0], t * 3), x)[0]
    np.testing.assert_allclose(value, function([x[0], 2.0], x * 3))


def test_products_along_other_axes():
    a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 3)) * 0.5
    calls = [
        lambda a, b: np.matmul(a, b, axes=[(0, 1), (1, 0), (0, 1)]),
        lambda a, b: np.matmul(a, b, axes=[(1, 0), (0, 1), (1, 0)]),
        lambda a, b: np.vecdot(a, b, axes=[0, 0, ()]),
        lambda a, b: np.vecdot(a, b, axes=[1, 1]),
        lambda a, b: np.vecdot(a, b, axis=0, keepdims=True),
    ]
    for f in calls:
        value = functad.vjp(f, a, b)[0]
        np.testing.assert_allclose(value, f(a, b))
        assert value.shape == f(a, b).shape
        check_grads(f, [a, b])
    with pytest.raises(functad.errors.UnsupportedError):
        functad.grad(lambda a: np.vecdot(a, b, axes=[0, 0], keepdims=True))(a)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "trace"])
def test_small_integers_are_reduced_in_the_dtype_asked_for(name):
    function = getattr(np, name)
    for dtype in (np.int8, np.uint8, np.int16, np.float32):
        plain = function(np.ones((2, 3), np.uint8), dtype=dtype)
        assert function(functad.constant(np.ones((2, 3), np.uint8)), dtype=dtype).dtype == plain.dtype
        assert functad.eval_shape(lambda x: function(x, dtype=dtype), np.ones((2, 3), np.uint8)).dtype == plain.dtype  # noqa: B023


VALUES = {
    "float64": np.array([[1.5, 2.25, 7.75], [3.0, 4.0, 9.5]]),
    "float32": np.array([[1.5, 2.0, 7.0], [0.5, 4.0, 5.0]], np.float32),
    "int64": np.array([[3, 8, 7], [0, 1, 9]]),
    "uint8": np.array([[3, 8, 7], [0, 1, 9]], np.uint8),
    "bool": np.array([[True, False, True], [True, True, False]]),
    "complex128": np.array([[1 + 2j, 3.0, 4 - 1j], [0.5, 2j, 1.0]]),
}
CALLS = [
    {},
    {"axis": 0},
    {"axis": 1, "keepdims": True},
    {"where": np.array([True, False, True])},
    {"where": np.array([True, False, True]), "axis": 1, "keepdims": True},
]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # as NumPy's own
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.bool_, np.float16, np.float32])
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("function", [np.mean, np.var, np.std])
def test_means_in_the_dtype_asked_for(function, name, dtype):
    x, exact = VALUES[name], np.dtype(dtype).kind in "biu"
    for keywords in CALLS:
        f = lambda t: function(t, dtype=dtype, **keywords)  # noqa: B023, E731
        try:
            plain = f(x)
        except TypeError:  # which NumPy refuses: booleans are not subtracted, and an array of integers has no root
            continue
        spec = functad.eval_shape(f, x)
        for found in (f(functad.constant(x)), functad.make_expressions(f)(x)(x)):
            assert found.dtype == spec.dtype == plain.dtype
            assert found.shape == spec.shape == plain.shape
            np.testing.assert_allclose(
                np.asarray(found, complex), np.asarray(plain, complex), rtol=0 if exact else 4 * np.finfo(plain.dtype).eps
            )
        if exact and x.dtype.kind == "f":
            gradient = functad.grad(lambda t: np.sum(f(t)) * 1.0 + np.sum(t))(x)  # noqa: B023
            np.testing.assert_array_equal(gradient, np.ones_like(x))


def test_the_variance_of_complex_numbers_in_a_real_dtype():
    x = np.array([1 + 2j, 3.0, 4 - 1j])
    with pytest.warns(np.exceptions.ComplexWarning):
        check_grads(lambda t: np.var(t, dtype=np.float64), [x])


def test_array_api_compat_finds_one_namespace():
    compat = pytest.importorskip("array_api_compat")

    def f(t):
        for x in (np.ones(2), t, t[0]):
            assert compat.array_namespace(t, x) is compat.array_namespace(x, t) is functad.numpy
        assert t.__array_namespace__() is t.__array_namespace__(api_version="2022.12") is functad.numpy
        return np.sum(t)

    functad.grad(f)(np.ones(2))


def test_lists_of_tensors_say_how_they_are_stacked():
    with pytest.raises(functad.errors.ConversionError, match=r"np\.stack.*functad\.numpy"):
        functad.grad(lambda a: np.dot([a, a], [a, a]))(1.0)
    with pytest.raises(functad.errors.ConversionError, match=r"instead of A\.dot"):
        functad.grad(lambda a: np.ones(2).dot(a * np.ones(2)))(1.0)
