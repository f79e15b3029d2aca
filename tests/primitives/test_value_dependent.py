"""Functions whose result depends on values in its shape or dtype, where the generated samples cannot go: ties, zeros, cuts."""

import functools
import itertools

import mpmath
import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError
from functad.testing import directional_derivative
from tests.differences import error


def check(f, *primals):
    """Compare value, tangent and cotangents of `f` with NumPy and with numerical derivatives, in first and second order."""
    rng = np.random.default_rng(3)

    def arrays(*inputs):
        out = f(*inputs)
        return tuple([a for a in (out if isinstance(out, tuple) else (out,)) if a.dtype.kind in "fc"])

    expected = f(*primals)
    found = functad.vjp(lambda *inputs: ((), f(*inputs)), *primals, has_aux=True)[2]
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert error(a, b) < 1e-12
    _compare(arrays, primals, rng)
    g = [rng.normal(size=a.shape) for a in arrays(*primals)]
    _compare(lambda *inputs: functad.vjp(arrays, *inputs)[1](tuple(g)), primals, rng)


def _compare(f, primals, rng):
    direction = [rng.normal(size=np.shape(x)).astype(x.dtype) for x in primals]
    expected, tolerances = directional_derivative(f, primals, direction)
    values, tangents = functad.jvp(f, tuple(primals), tuple(direction))
    for a, b, tolerance in zip(tangents, expected, tolerances, strict=True):
        assert error(a, b) <= 10 * tolerance
    g = [rng.normal(size=v.shape) for v in values]
    cotangents = functad.vjp(f, *primals)[1](tuple(g))
    left = sum(np.sum(ct * v) for ct, v in zip(cotangents, direction, strict=True))
    right = sum(np.sum(a * b) for a, b in zip(g, tangents, strict=True))
    assert abs(np.real(left) - np.real(right)) < 1e-10 * max(1, abs(right))


X = np.array([0.7, -1.2, 1.9, 0.3])
ROWS = np.array([[0.7, -1.2, 0.1], [0.2, 1.9, 0.4]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.unique(x[np.array([0, 1, 0, 2, 2])] ** 2),
        lambda x: np.unique(x[np.array([[0, 1], [1, 3]])], return_index=True, return_inverse=True, return_counts=True),
        lambda x: np.sort(np.unique_values(x[np.array([0, 1, 0])])),
        lambda x: tuple(np.unique_counts(x[np.array([3, 1, 3])])),
        lambda x: np.intersect1d(x[:3] * x[0], x[2:] * x[0]),
        lambda x: np.intersect1d(x[np.array([0, 2, 2])], x[np.array([1, 2])], return_indices=True),
        lambda x: np.intersect1d(x[:3], x[1:], assume_unique=True),
        lambda x: np.union1d(x[:2] ** 2, x[1:] ** 2),
        lambda x: np.setdiff1d(x[np.array([0, 1, 1, 2])], x[2:]),
        lambda x: np.setdiff1d(x[:3], x[2:], assume_unique=True),
        lambda x: np.setxor1d(x[:3], x[np.array([3, 2, 2])]),
        lambda x: np.trim_zeros(np.concatenate([[0.0, 0.0], x, [0.0]]) ** 2),
        lambda x: np.trim_zeros(np.concatenate([[0.0], x, [0.0]]), "f"),
        lambda x: np.trim_zeros(np.concatenate([[0.0], x * x, [0.0]]), "b"),
    ],
)  # fmt: skip
def test_values_that_occur_several_times(f):
    check(f, X)


def test_rows_that_occur_several_times():
    check(lambda x: np.unique(x[np.array([1, 0, 1])] * x[0], axis=0), ROWS)
    check(lambda x: np.unique(x[:, np.array([2, 0, 2])], axis=-1, return_counts=True), ROWS)


@pytest.mark.parametrize("first", [[0, 0, 0], [2, 0, 1, 0], [3], []])
@pytest.mark.parametrize("second", [[0, 0], [1, 1, 2], [3, 0], []])
def test_values_that_repeat_although_they_are_said_to_be_unique(first, second):
    """NumPy makes something of them, though it promises nothing, and so do its programs under a trace."""
    i, j = np.array(first, int), np.array(second, int)
    for f in (np.intersect1d, np.setdiff1d, np.setxor1d):
        expected = f(X[i], X[j], assume_unique=True)
        found, pullback = functad.vjp(lambda x, f=f: f(x[i], x[j], assume_unique=True), X)
        assert np.array_equal(found, expected)
        weights = np.arange(1.0, 1 + expected.size)
        assert pullback(weights)[0].tolist() == [weights[expected == value].sum() for value in X]


def test_unique_keeps_nans_apart_where_numpy_does():
    x = np.array([np.nan, 1.0, np.nan, 0.5])
    pullback = functad.vjp(lambda t: np.unique(t, equal_nan=False), x)[1]
    assert pullback(np.array([1.0, 2.0, 3.0, 4.0]))[0].tolist() == [3.0, 2.0, 4.0, 1.0]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="NumPy trims one axis only before 2.2")
def test_zeros_around_a_matrix_are_trimmed():
    check(lambda x: np.trim_zeros(np.pad(x, ((1, 2), (0, 1)))), ROWS)
    check(lambda x: np.trim_zeros(np.pad(x, 1), axis=1), ROWS)


def test_nothing_but_zeros_leaves_nothing():
    assert functad.vjp(lambda x: np.trim_zeros(0 * x), X)[0].shape == (0,)


ROOTS = [
    lambda x: np.roots(np.concatenate([[0.0], x * x])),
    lambda x: np.roots(x),
    lambda x: np.poly(np.concatenate([x[:2] + 1j * x[2:], x[:2] - 1j * x[2:]])),
    lambda x: np.poly(x[:2] + 1j * x[2:]),
]


@pytest.mark.parametrize("f", ROOTS)
def test_roots_and_back(f):
    check(lambda x: (np.abs(f(x)) ** 2,), X)


def test_roots_at_zero_move_with_the_last_coefficients():
    p = np.array([1.0, -0.5, 2.0, 0.0])
    root = functad.jacobian(np.roots)(p)[-1]
    step = 1e-7
    moved = [np.roots(p + step * row) for row in np.eye(4)[1:]]
    found = [(m[np.argmin(abs(m))].real) / step for m in moved]
    assert np.allclose(root[1:].real, found, atol=1e-6)


def test_roots_of_nothing():
    assert functad.vjp(np.roots, np.zeros(3))[0].shape == (0,)
    assert functad.vjp(np.roots, np.array([2.0]))[0].shape == (0,)


def test_characteristic_polynomial_of_equal_eigenvalues():
    for a in (np.eye(3), np.diag([2.0, 2.0, 1.0]), np.array([[0.0, 1.0], [0.0, 0.0]])):
        check(lambda a: np.poly(a), a)


def test_fit_of_lower_rank_warns_and_has_the_shortest_solution():
    x, y = np.array([1.0, 1.0, 2.0]), np.array([0.3, 0.5, 1.1])
    with pytest.warns(np.exceptions.RankWarning):
        expected = np.polyfit(x, y, 2)
    with pytest.warns(np.exceptions.RankWarning):
        value, pullback = functad.vjp(lambda y: np.polyfit(x, y, 2), y)
    assert np.allclose(value, expected, atol=1e-12)
    with pytest.warns(np.exceptions.RankWarning):
        columns = [np.polyfit(x, column, 2).sum() for column in np.eye(3)]
    assert np.allclose(pullback(np.ones(3))[0], columns)


def test_weights_along_the_axis_of_a_quantile():
    check(lambda x: np.quantile(x, [0.3, 0.7], 1, weights=np.array([1.0, 2.0, 0.5]), method="inverted_cdf"), ROWS)


def test_weights_with_a_method_that_takes_none():
    with pytest.raises(ValueError, match="inverted_cdf"):
        functad.vjp(lambda x: np.quantile(x, 0.3, weights=x * x), X)


def test_histogram_of_data_that_is_its_own_weight():
    check(lambda x: np.histogram(x, 3, weights=x * x, density=True), X)
    check(lambda x: np.histogram2d(x[0], x[1], 2, weights=x[0] * x[1], density=True), np.abs(ROWS) + 0.1)
    check(lambda x: np.histogram_bin_edges(x * x, "fd"), X)


def test_equal_data_are_counted_in_edges_half_a_unit_away():
    check(lambda x: np.histogram_bin_edges(x[:1] * np.ones(3), 4), X)


@pytest.mark.parametrize("x", [0.5, -0.5, 1.5, -1.5])
@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "arcsin", "arccos", "arctanh"])
def test_emath_on_either_side_of_its_domain(name, x):
    function = getattr(np.emath, name)
    check(lambda t: (np.real(function(t)), np.imag(function(t) + 0j)), np.array([x, 0.9 * x]))


@pytest.mark.parametrize("name", ["unique", "roots", "poly", "histogram", "union1d"])
def test_abstract_traces_refuse(name):
    function = getattr(np, name)
    args = {"union1d": (X, X)}.get(name, (X + 0j,) if name == "poly" else (X,))
    with pytest.raises(AbstractValueError, match=__file__):
        functad.make_expressions(function)(*args)


@pytest.mark.parametrize("conditions", [1, 2])
def test_pieces_of_an_abstract_trace(conditions):
    def f(x):
        given = [x < 0, x > 1][:conditions]
        return np.piecewise(x, given, [lambda v: v * v, lambda v: 3 * v, lambda v: -v][: conditions + 1])

    assert np.array_equal(functad.make_expressions(f)(X)(X), f(X))
    check(f, X)


def test_a_single_condition_may_be_a_tensor():
    def f(x):
        return np.piecewise(x, x > 0, [np.sqrt, 0.0])

    assert np.array_equal(functad.make_expressions(f)(np.abs(X))(np.abs(X)), f(np.abs(X)))


REDUCTIONS = [np.add, np.multiply, np.maximum, np.minimum, np.logaddexp, np.subtract, np.divide, np.hypot, np.fmax, np.power]
SEGMENTS = [
    ((8,), 0, [0, 4, 1, 5, 2, 6, 3, 7]), ((8,), 0, [0, 3, 5]), ((3, 5), 1, [1, 3, 3]), ((3, 5), -2, [2, 0]), ((4, 2), 0, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ufunc", "segments"), list(itertools.product(REDUCTIONS, SEGMENTS)), ids=lambda v: getattr(v, "__name__", "")
)
def test_reduceat(ufunc, segments):
    shape, axis, starts = segments
    x = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    # NumPy's own is wrong for powers on processors with AVX-512: power.reduce([a, b, c]) is a ** c there.
    check(lambda x: (by_loop if type(x) is np.ndarray else ufunc_reduceat)(ufunc, x, starts, axis), x)


def ufunc_reduceat(ufunc, x, starts, axis):
    return ufunc.reduceat(x, np.array(starts, int), axis)


def by_loop(ufunc, x, starts, axis):
    """Return what `reduceat` is by definition, one element after the other."""
    rows = np.moveaxis(x, axis, 0)
    ends = [max(end, start + 1) for start, end in zip(starts, [*starts[1:], len(rows)][: len(starts)], strict=True)]
    parts = [functools.reduce(ufunc, rows[start:end]) for start, end in zip(starts, ends, strict=True)]
    return np.moveaxis(np.array(parts).reshape(len(parts), *rows.shape[1:]), 0, axis)


FOLDED = [
    ufunc
    for ufunc in dict.fromkeys(v for v in vars(np).values() if isinstance(v, np.ufunc))
    if (ufunc.nin, ufunc.nout, ufunc.signature) == (2, 1, None) and {"dd->d", "dd->?"} & set(ufunc.types)
    if "equal" not in ufunc.__name__ and ufunc not in (np.less, np.greater)  # these take no floats in folds
]


@pytest.mark.parametrize("ufunc", FOLDED, ids=lambda u: u.__name__)
def test_folds_of_few_elements_are_those_of_numpy(ufunc):
    """One element may be changed by the identity (hypot), or become a truth value."""
    for shape in ((0,), (1,), (2,), (1, 2), (2, 1), (0, 2), (2, 0)):
        x = np.resize([3.0 if "pow" in ufunc.__name__ else -3.0, 0.5], shape)
        calls = [lambda x: ufunc.reduce(x), lambda x: ufunc.reduce(x, axis=-1, keepdims=True), lambda x: ufunc.accumulate(x)]
        calls += [lambda x: ufunc.reduceat(x, [0])] if shape[0] else []
        calls += [lambda x: ufunc.reduce(x, initial=2.0)] if ufunc.identity is not None else []
        for call in calls:
            try:
                expected = call(x)
            except ValueError:
                with pytest.raises(ValueError, match="zero-size array"):
                    functad.vjp(call, x)
                continue
            found = functad.vjp(call, x)[0]
            assert np.shape(found) == np.shape(expected)
            assert np.asarray(found).dtype == expected.dtype
            assert np.allclose(found, expected, equal_nan=True)


@pytest.mark.parametrize("ufunc", [np.equal, np.bitwise_and, np.gcd])
def test_folds_that_take_no_floats_raise_as_in_numpy(ufunc):
    for call in (ufunc.reduce, ufunc.accumulate, lambda x: ufunc.reduceat(x, [0])):
        with pytest.raises(TypeError) as expected:
            call(X)
        with pytest.raises(type(expected.value)):
            functad.vjp(call, X)


def test_gradient_of_a_fold_of_one_element():
    assert functad.grad(np.hypot.reduce)(np.array([-3.0])).tolist() == [-1.0]
    assert functad.grad(lambda x: np.sum(np.hypot.reduceat(x, [0])))(np.array([-3.0])).tolist() == [1.0]


def test_value_of_the_step_where_it_jumps():
    x, h = np.array([-1.0, 0.0, 2.0]), np.array([0.3, 0.4, 0.5])
    for f in (functad.grad, functad.jacfwd):
        assert f(lambda h: np.sum(np.heaviside(x, h)))(h).tolist() == [0.0, 1.0, 0.0]
        assert f(lambda x: np.sum(np.heaviside(x, h)))(x).tolist() == [0.0, 0.0, 0.0]
    assert functad.grad(lambda h: np.heaviside(0.0, h))(0.5) == 1.0


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.hypot, np.divide, np.arctan2])
def test_folds_of_one_integer_have_the_dtype_of_numpy(ufunc):
    for call in (lambda x: ufunc.reduceat(x, [0, 1]), lambda x: ufunc.reduce(x[:1]), lambda x: ufunc.accumulate(x[:1])):
        expected = call(np.array([3, 1]))
        found = functad.make_expressions(call)(np.array([3, 1]))(np.array([3, 1]))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_reduceat_of_a_wrong_index():
    with pytest.raises(IndexError, match="9 out-of-bounds"):
        functad.vjp(lambda x: np.add.reduceat(x, [0, 9]), X)


def test_reduceat_keeps_dtypes():
    x = np.arange(4, dtype=np.float32)
    value, pullback = functad.vjp(lambda x: np.add.reduceat(x, [0, 2], dtype=np.float64), x)
    assert value.dtype == np.float64
    assert pullback(np.ones(2))[0].dtype == np.float32


@pytest.mark.parametrize("x", [0.0, 0.4, -3.0, 29.0, 31.0])
def test_third_derivative_of_i0(x):
    third = functad.grad(functad.grad(functad.grad(np.i0)))(x)
    expected = float(mpmath.diff(lambda t: mpmath.besseli(0, t), x, 3))
    assert abs(third - expected) <= 1e-12 * max(1.0, abs(expected))


@pytest.mark.parametrize(
    "f",
    [
        lambda i: np.packbits(i, axis=0),
        lambda i: np.unpackbits(i.astype(np.uint8), axis=1, count=5),
        lambda i: np.ravel_multi_index((i[0], i[1]), (7, 8)),
        lambda i: np.unravel_index(i, (5, 6)),
        lambda i: np.isin(i, [1, 2]),
        lambda i: np.digitize(i, [1, 2]),
    ],
)  # fmt: skip
def test_integers_in_an_abstract_trace(f):
    i = np.array([[0, 3, 1], [5, 2, 2]])
    found, expected = functad.make_expressions(f)(i)(i), f(i)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


@pytest.mark.parametrize("function", [np.unique_counts, np.unique_all, np.unique_inverse, np.unique_values, np.unique])
def test_complex_numbers_that_are_no_numbers_keep_their_order(function):
    x = np.array([1 + 1j, complex(np.nan, 1), 2, complex(np.nan, 1), complex(np.nan, -1), 1 + 1j, complex(1, np.nan)])
    for equal in (True, False) if function is np.unique else (None,):
        f = function if equal is None else functools.partial(np.unique, equal_nan=equal, return_counts=True)
        expected, found = f(x), functad.vjp(lambda x: (x, f(x)), x, has_aux=True)[2]  # noqa: B023
        for a, b in zip(*[out if isinstance(out, tuple) else (out,) for out in (found, expected)], strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.imag(a), np.imag(b))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_gradient_of_booleans_raises_as_in_numpy(axis):
    x = np.array([[True, False, True], [True, True, False]])
    for f in (np.gradient, functad.jit(np.gradient, backend="numpy", static_argnames="axis")):
        with pytest.raises(TypeError, match="boolean subtract"):
            f(x, axis=axis)
