"""`jvp`: forward mode."""

import tracemalloc

import numpy as np
import pytest

import functad
from functad import errors
from functad.primitives.safe import CAREFUL, PASS, QUICK
from functad.process import setting
from functad.testing import central_difference
from functad.tracing.concrete import ForwardRecorder
from functad.transforms.forward import push_forward


def f(x, y):
    """A function of two arrays with broadcasting."""
    return np.sin(x) * y + np.exp(y) @ x


X, Y = np.array([0.3, -1.2, 2.0]), np.array([[0.1, 0.2, 0.3], [1.0, 0.5, -0.5], [0.0, 0.4, 0.2]])
DX, DY = np.array([1.0, -0.5, 0.25]), np.linspace(-1, 1, 9).reshape(3, 3)


def test_agrees_with_differences():
    value, tangent = functad.jvp(f, (X, Y), (DX, DY))
    np.testing.assert_array_equal(value, f(X, Y))
    expected = central_difference(lambda x, y: [f(x, y)], [X, Y], [DX, DY])[0]
    np.testing.assert_allclose(tangent, expected, rtol=1e-8, atol=1e-8)


def test_agrees_with_reverse_mode():
    _, tangent = functad.jvp(f, (X, Y), (DX, DY))
    value, pullback = functad.vjp(f, X, Y)
    g = np.arange(value.size, dtype=float).reshape(value.shape)
    by_x, by_y = pullback(g)
    assert np.sum(g * tangent) == pytest.approx(np.sum(by_x * DX) + np.sum(by_y * DY))


def test_trees_and_aux():
    value, tangent, aux = functad.jvp(
        lambda p: ({"z": p["a"] * p["b"]}, p["a"] + 1), ({"a": 2.0, "b": 3.0},), ({"a": 1.0, "b": 0.0},), True
    )
    assert value == {"z": 6.0}
    assert tangent == {"z": 3.0}
    assert aux == 3.0


def test_constant_result_has_zero_tangent():
    _, tangent = functad.jvp(lambda x: np.ones(2), (1.0,), (1.0,))
    np.testing.assert_array_equal(tangent, np.zeros(2))
    assert functad.jvp(lambda x: x > 0, (1.0,), (1.0,)) == (True, 0.0)


def test_forward_over_reverse_and_reverse_over_forward():
    def bowl(x):
        return np.sum(np.sin(x) * x**2)

    _, product = functad.jvp(functad.grad(bowl), (X,), (DX,))
    np.testing.assert_allclose(product, functad.jacobian(functad.grad(bowl))(X) @ DX, rtol=1e-12)
    other = functad.grad(lambda x: functad.jvp(bowl, (x,), (DX,))[1])(X)
    np.testing.assert_allclose(product, other, rtol=1e-12)
    twice = functad.jvp(lambda x: functad.jvp(bowl, (x,), (DX,))[1], (X,), (DX,))[1]
    assert twice == pytest.approx(DX @ product)


def test_tangent_keeps_the_dtype():
    value, tangent = functad.jvp(lambda x: np.sin(x) * 2.0, (X.astype(np.float32),), (DX,))
    assert value.dtype == tangent.dtype == np.float32


def test_bad_calls():
    with pytest.raises(errors.InputError, match=r"jvp\(f, \(x,\), \(t,\)\)"):
        functad.jvp(np.sin, X, DX)
    with pytest.raises(errors.StructureError, match="1 primals but 2 tangents"):
        functad.jvp(np.sin, (X,), (DX, DX))
    with pytest.raises(errors.StructureError, match=r"tangents\[0\] is float64\[\], but the primal.*float64\[3\]"):
        functad.jvp(np.sin, (X,), (np.float64(1.0),))
    with pytest.raises(errors.InputError, match="Integers"):
        functad.jvp(np.sin, (1,), (1.0,))


NO_NUMBERS = {
    "dates": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[D]"),
    "durations": np.array([1, 2, 3], "m8[D]"),
    "objects": np.array([1.0, 2.0, 3.0], object),
    "text": np.array(["1", "2", "3"]),
    "bytes": np.array([b"1", b"2", b"3"]),
    "records": np.zeros(3, [("a", float)]),
    "masked": np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]),
}
DERIVATIVES_ALONG = {
    "jvp": lambda t: functad.jvp(np.sin, (X,), (t,)),
    "hvp": lambda t: functad.hvp(lambda x: np.sum(x**3), (X,), (t,)),
    "linearize": lambda t: functad.linearize(np.sin, X)[1](t),
    "transpose": lambda t: functad.linearize(np.sin, X)[1].transpose(t),
    "linear_transpose": lambda t: functad.linear_transpose(lambda x: 2 * x, X)(t),
    "vjp": lambda t: functad.vjp(np.sin, X)[1](t),
    "taylor": lambda t: functad.taylor(np.sin, (X,), ((t,),)),
}


@pytest.mark.parametrize("given", NO_NUMBERS)
@pytest.mark.parametrize("transform", DERIVATIVES_ALONG)
def test_tangents_and_cotangents_hold_numbers(transform, given):
    with pytest.raises(
        errors.StructureError, match=r"(tangents\[0\]|g|series\[0\]\[0\]) is (ndarray|MaskedArray) \(.*test_forward"
    ):
        DERIVATIVES_ALONG[transform](NO_NUMBERS[given])


def test_a_pullback_goes_on_after_a_refused_cotangent():
    _, pullback = functad.vjp(np.sin, X)
    with pytest.raises(errors.StructureError):
        pullback(NO_NUMBERS["dates"])
    np.testing.assert_array_equal(pullback(np.ones(3))[0], np.cos(X))
    np.testing.assert_array_equal(pullback(np.array([1, 1, 1]))[0], np.cos(X))  # integers are numbers


def test_a_tangent_so_large_that_its_square_overflows_gives_no_warning():
    large = np.full(8, 1e200)
    np.testing.assert_array_equal(functad.jvp(lambda x: x + x, (large,), (large,))[1], 2 * large)  # warnings are errors here


def _mixture(x, y):
    """Sums, differences and products of all sorts, by operators and functions, with a decomposition in between."""
    a = x * y + 2.0 * x - y / x
    b = np.linalg.svd(np.stack([a, y - a]), full_matrices=False)[1]
    return (np.sum(b) * a + a - 1.5) * 0.5 + np.exp(y) * (3.0 - y)


@pytest.mark.parametrize("along", [(DX, None), (None, DX), (DX, DY[0])])
def test_quick_and_careful_tangents_agree_with_differences_where_some_are_zero(along):
    recorder = ForwardRecorder("jvp", _mixture)
    inputs = [recorder.enter(value) for value in (X, Y[1])]
    slot = _mixture(*inputs).slot
    dx, dy = [np.zeros(3) if t is None else t for t in along]
    expected = central_difference(lambda x, y: [_mixture(x, y)], [X, Y[1]], [dx, dy])[0]
    for now in (QUICK, CAREFUL):
        with setting(PASS, now):
            tangents = push_forward(recorder.records, list(along), [slot])
        assert len(tangents) == len(recorder.records)
        np.testing.assert_allclose(tangents[slot], expected, rtol=1e-7, atol=1e-7)
    recorder.close()


def test_products_with_tensors_of_an_outer_trace_are_differentiated_by_it():
    def slope(w):
        return functad.jvp(lambda x: np.sin(x * w) * 0.5 + w * x, (0.7,), (1.0,))[1]

    step = 1e-6
    assert functad.grad(slope)(1.3) == pytest.approx((slope(1.3 + step) - slope(1.3 - step)) / (2 * step), rel=1e-8)
    assert functad.jvp(slope, (1.3,), (1.0,))[1] == pytest.approx(functad.grad(slope)(1.3), rel=1e-12)


def test_zero_times_infinity_is_zero_in_a_product_with_a_tensor_of_an_outer_trace():
    def slope(w):
        return functad.jvp(lambda x: (x * w) * np.inf, (1.0,), (0.0,))[1]

    assert slope(0.5) == 0.0
    assert functad.value_and_grad(slope)(0.5) == (0.0, 0.0)
    assert functad.jvp(slope, (0.5,), (1.0,)) == (0.0, 0.0)


def large_program(x):
    """Elementwise steps, a reshape and writes, on arrays of 80 kB."""
    for _ in range(6):
        x = np.sin(x) * 0.9 + x * x
    rows = x.reshape(2, -1)
    y = np.zeros_like(x)
    y[:10] = rows[1, :10]
    y[5:15] *= x[:10]
    first, second = np.split(y + rows.ravel(), 2)
    return {"sum": first + second, "same": x, "rows": rows}


def test_large_tangents_given_up_after_their_last_reader_change_nothing():
    x, t = np.linspace(-1, 1, 10_000), np.cos(np.arange(10_000))
    _, found = functad.jvp(large_program, (x,), (t,))
    step = 1e-6
    above, below = large_program(x + step * t), large_program(x - step * t)
    for key, value in found.items():
        np.testing.assert_allclose(value, (above[key] - below[key]) / (2 * step), rtol=1e-6, atol=1e-6)


def test_the_tangents_of_a_long_chain_are_not_all_alive():
    def chain(x):
        for _ in range(15):
            x = np.sin(x) * 0.9 + x * 0.1
        return x

    x = np.linspace(0, 1, 100_000)
    functad.jvp(chain, (x,), (x,))
    tracemalloc.start()
    try:
        functad.jvp(chain, (x,), (x,))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * x.nbytes  # the rules of the sines need 15 arrays; 60 operations made 75 before
