"""Forms of arguments that NumPy takes: named tuples, narrow integers, positional parameters, arrays of shape ()."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.testing import check_grads


class Place(NamedTuple):
    i: int
    j: Any


X = np.random.default_rng(0).normal(size=(20, 20))
V = np.random.default_rng(1).normal(size=300)


def _write(x):
    y = x * 1.0
    y[Place(0, 1)] = 9.0
    return y


CASES = {
    "read at a named tuple": (lambda x: x[Place(0, 1)], X),
    "write at a named tuple": (_write, X),
    "diagonal": (lambda x: np.diagonal(x, np.uint8(1)), X),
    "trace": (lambda x: np.trace(x, np.int8(-2)), X),
    "diag of a matrix": (lambda x: np.diag(x, np.int8(-3)), X),
    "diag of a vector": (lambda x: np.diag(x, np.int8(3)), V[:20]),
    "nan_to_num by infinity": (lambda x: np.nan_to_num(x, nan=np.inf), np.array([np.nan, 1.0, np.inf])),
    "nan_to_num by the other infinity": (
        lambda x: np.nan_to_num(x, posinf=-np.inf, neginf=3.0),
        np.array([np.inf, -np.inf, 2.0]),
    ),
    "var": (lambda x: np.var(x, ddof=np.int8(1)), V),
    "std": (lambda x: np.std(x, ddof=np.uint8(1)), V[:5]),
    "average": (lambda x: np.average(x, np.int64(-1), weights=np.arange(20.0)), X),
    "take in turn": (lambda x: np.take(x, np.array([1, 200, 2], np.uint8), mode="wrap"), V),
    "take of a number": (lambda x: np.take(x, [0, 0], axis=0), np.array(3.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    f, x = CASES[name]
    expected = f(x)
    for found in (
        functad.vjp(f, x)[0],
        functad.jit(f)(x),
        functad.make_expressions(f)(x)(x),
        functad.vmap(f)(np.stack([x, x]))[0],
    ):
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("name", [name for name in CASES if "nan_to_num" not in name])
def test_derivatives(name):
    f, x = CASES[name]
    functad.testing.check_grads(f, (x,))


@pytest.mark.parametrize(
    "f",
    [
        lambda n: np.unpackbits(n, 0, None, "little"),
        lambda n: np.unpackbits(n, None, 5),
        lambda n: np.packbits(n, 0, "little"),
        lambda n: np.argsort(n[0]),
    ],
)
def test_integers(f):
    n = np.array([1, 0, 1, 1], np.uint8)
    assert functad.jit(f)(n).tolist() == f(n).tolist()


def test_argsort_of_numbers_in_a_batch():
    assert functad.vmap(np.argsort)(np.array([3.0, 1.0, 2.0])).tolist() == [[0], [0], [0]]


def test_a_period_may_be_an_argument():
    f = lambda x, period: np.interp(x, [0.0, 1.0, 2.5], [1.0, 2.0, 0.5], period=period)  # noqa: E731
    x = np.array([0.3, 3.4])
    np.testing.assert_allclose(functad.jit(f)(x, 3.0), f(x, 3.0), rtol=1e-14)


PADDINGS = [
    *[("linear_ramp", {"end_values": ends}) for ends in (0, 7, -7.5, ((3, -50),))],
    *[(mode, {"stat_length": n}) for mode in ("mean", "median", "maximum", "minimum") for n in (None, 2, (3, 1))],
    *[("constant", {"constant_values": values}) for values in (0, 3, 2.7)],
    *[(mode, {"reflect_type": "odd"}) for mode in ("reflect", "symmetric")],
    ("edge", {}),
    ("wrap", {}),
]


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.uint64])
@pytest.mark.parametrize(("mode", "options"), PADDINGS)
def test_padding_of_integers_and_booleans(mode, options, dtype):
    for shape, widths in (((4,), (3, 1)), ((1,), 2), ((3, 5), ((1, 21),))):
        x = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)
        with np.errstate(all="ignore"):
            expected = np.pad(x, widths, mode, **options)
            found = functad.make_expressions(lambda x, widths=widths: np.pad(x, widths, mode, **options))(x)(x)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_derivative_of_padding_with_a_ramp_and_with_means():
    check_grads(lambda x, end: np.pad(x, ((1, 3), (2, 1)), "linear_ramp", end_values=end), (X[:2, :3], 0.5), 2)
    check_grads(lambda x: np.pad(x, ((1, 3), (2, 1)), "mean", stat_length=2), (X[:3, :3],), 2)


@pytest.mark.parametrize("mode", ["constant", "edge", "linear_ramp", "maximum", "mean", "reflect", "symmetric", "wrap"])
def test_padding_of_a_number_gives_an_array(mode):
    found, pull_back = functad.vjp(lambda x: np.pad(x, (2, 3), mode), 0.8)
    np.testing.assert_array_equal(found, np.pad(0.8, (2, 3), mode), strict=True)
    assert type(found) is np.ndarray
    assert pull_back(np.array(2.0))[0] == 2.0
