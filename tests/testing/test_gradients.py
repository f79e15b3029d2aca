"""`check_grads`: what it accepts, what it finds, what it leaves out, and what it says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import functad
from functad.testing import NothingComparedError, WrongDerivativeError, check_grads
from functad.testing.numerical import measure

stop = functad.stop_gradient


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


RIGHT = {
    "array": (lambda x: np.sin(x) * x, [np.array([0.3, -1.2])]),
    "number": (lambda x: x**3 * np.exp(x), [0.7]),
    "matrix": (lambda a: np.linalg.inv(a), [np.array([[2.0, 1.0], [0.0, 3.0]])]),
    "dict": (lambda w: np.sum(np.tanh(w["a"]) * w["b"]), [{"a": np.array([0.1, 0.7]), "b": 2.0}]),
    "dataclass": (lambda p, x: {"y": np.tanh(x @ p.w + p.b)}, [Layer(np.eye(2) * 0.3, np.ones(2)), np.array([0.2, 0.5])]),
    "integers beside": (lambda x, n: x**n, [np.array([0.4, 1.3]), 3]),
    "several results": (lambda x: (x[:1] * x[1], [np.exp(x)], "text", 3), [np.array([0.4, 1.3])]),
    "complex": (lambda z: np.abs(np.exp(z) * z) ** 2, [np.array([0.3 + 1j, 1.0 - 2j])]),
    "holomorphic": (lambda z: np.exp(z) / z, [np.array([0.3 + 1j, 1.0 - 2j])]),
    "real to complex": (lambda x: np.exp(1j * x), [np.array([0.3, 2.0])]),
    "single": (lambda x: np.sum(np.exp(np.sin(x)) * x), [np.array([0.3, 1.0, -2.0], np.float32)]),
    "single inside": (lambda x: np.sin(x).astype(np.float32) * 2, [np.array([0.3, 1.0])]),
    "single complex": (lambda z: np.exp(z) * z, [np.array([0.3 + 1j], np.complex64)]),
    "mixed": (lambda x, y: x * y, [np.float32(0.3), np.array([0.1, 0.2])]),
    "empty": (lambda x: np.sin(x), [np.zeros(0)]),
    "large": (lambda x: np.sum(x**2), [np.array([1e6, 2e6])]),
    "near a pole": (lambda x: np.log(x), [np.array([1e-4, 2.0])]),
    "beside a large number": (lambda x: 1e6 + np.sin(x), [np.array([0.1, 2.0])]),
    "not used": (lambda x, y: np.sum(y**2) + 0 * x[0], [np.ones(2), np.ones(3)]),
    "constant": (lambda x: np.float64(3.0), [np.ones(2)]),
    "no function of complex numbers": (lambda x: np.arctan2(x[0], x[1]), [np.array([0.5, 1.5])]),
    "many elements": (lambda x: np.sum(np.sin(x) ** 2), [np.linspace(0, 9, 3000)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives_pass(name):
    f, args = RIGHT[name]
    check_grads(f, args)


def test_third_and_fourth_order():
    check_grads(lambda x: np.sum(np.tanh(x) ** 2), [np.array([0.3, -1.2])], order=4)


@pytest.mark.parametrize("mode", ["rev", "fwd"])
@pytest.mark.parametrize("order", [1, 2])
def test_one_mode(mode, order):
    check_grads(np.sin, [np.array([0.3])], order, [mode])


WRONG = {
    "number": (lambda x: x * stop(x), [3.0], "args[0]", 1),
    "element": (lambda x: np.sum(x * stop(np.array([1.0, 1.0]) * x * [0.0, 1.0]) + x), [np.ones(2)], "args[0][1]", 1),
    "dict": (lambda w: w["a"] * w["b"] * stop(w["b"]), [{"a": 2.0, "b": 3.0}], "args[0]['b']", 1),
    "second argument": (lambda x, y: x * np.exp(y) / stop(y), [np.ones(2), np.ones((2, 2))], "args[1][0, 0]", 1),
    "attribute": (lambda p: np.sum(p.w * stop(p.b)), [Layer(np.ones(2), np.ones(2))], "args[0].b[0]", 1),
    "slight": (lambda x: x * x + 1e-4 * stop(x), [3.0], "args[0]", 1),
    "single": (lambda x: np.sum(x * stop(x)), [np.ones(2, np.float32)], "args[0][0]", 1),
    "complex": (lambda z: z * np.conj(stop(z)), [1 + 2j], "args[0]", 1),
    "second order": (lambda x: x**2 * stop(x) - x**3 / 3 * 2, [3.0], "args[0]", 1),
    "second order alone": (lambda x: _first_right(x), [2.0], "args[0]", 2),
    "one of many": (lambda x: np.sum(x) + x[77] * stop(x[77]), [np.ones(100)], "args[0][77]", 1),
}


def _first_right(x: Any) -> Any:
    """`x^3` whose first derivative is right, and taken for a constant."""
    return stop(x) ** 3 + 3 * stop(x) ** 2 * (x - stop(x))


@pytest.mark.parametrize("modes", [("rev",), ("fwd",), ("fwd", "rev")], ids="-".join)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_derivatives_fail(name, modes):
    f, args, path, order = WRONG[name]
    with pytest.raises(WrongDerivativeError) as caught:
        check_grads(f, args, modes=modes)
    assert caught.value.path == path
    assert caught.value.order == order
    assert isinstance(caught.value, AssertionError)


def test_message_tells_order_mode_input_and_numbers():
    def loss(w):
        return np.sum(w["a"] * stop(w["a"]))

    with pytest.raises(
        WrongDerivativeError, match=r"derivative of .*loss by args\[0\]\['a'\]\[0\] \(float64\[2\]\) is wrong in "
    ) as e:
        check_grads(loss, [{"a": np.array([1.0, 2.0])}], modes=["rev"])
    assert "order 1, reverse mode: functad gives 1, differences 2 (off by 1.0e+00, allowed" in str(e.value)
    with pytest.raises(WrongDerivativeError) as e:
        check_grads(_first_right, [2.0], modes="fwd")
    assert "order 2, forward over forward mode: functad gives 0, differences 12" in str(e.value)


def test_a_derivative_that_is_nan_fails():
    # NumPy's value is finite, and so is its derivative; the way to it divides zero by zero.
    with pytest.raises(WrongDerivativeError):
        check_grads(lambda x: x * stop(x * np.nan if isinstance(x, functad.Tensor) else x), [2.0], order=1)


def test_tolerances_are_obeyed():
    def f(x):
        return x * x + 1e-4 * stop(x)

    check_grads(f, [3.0], order=1, rtol=1e-3)
    check_grads(f, [3.0], order=1, atol=1e-3)
    with pytest.raises(WrongDerivativeError):
        check_grads(f, [3.0], order=1, rtol=1e-6, atol=0.0)


# Kinks


def test_what_is_at_a_kink_is_left_out_and_the_rest_compared():
    check_grads(lambda x: np.sum(abs(x) * x + np.maximum(x, 0)), [np.array([0.0, 1.0, -2.0])])
    with pytest.raises(WrongDerivativeError) as caught:
        check_grads(lambda x: np.sum(np.maximum(x, 0) * stop(x)), [np.array([0.0, 1.0, -2.0])], order=1)
    assert caught.value.path == "args[0][1]"


def springs(x):
    return np.sum(np.abs(x[1:] - x[:-1]) ** 1.5)


@pytest.mark.parametrize("stretch", [1e-3, 1e-5, 7e-8, 1e-10, 0.0])
@pytest.mark.parametrize("scale", [0.01, 1.0, 40.0])
def test_bends_of_any_sharpness_near_the_point_are_no_wrong_derivatives(scale, stretch):
    rng = np.random.default_rng(3)
    told = set()
    for _ in range(40):
        x = scale * rng.normal(size=4)
        x[1] = x[0] + stretch
        for f in (springs, lambda x: springs(0.999 * x + 0.001 * stop(x))):
            try:
                check_grads(f, [x], order=1)
                told.add((f is springs, "right"))
            except NothingComparedError:
                pass
            except WrongDerivativeError as error:
                told.add((f is springs, "wrong" if "(off by 0.0e+00" not in str(error) else "wrong by nothing"))
    assert told == {(True, "right"), (False, "wrong")}


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: np.sum(np.abs(x)), np.zeros(2)),
        (lambda x: np.max(x), np.ones(3)),
        (lambda x: np.linalg.norm(x), np.zeros(2)),
        (lambda x: np.where(x > 0, 1.0, -1.0) + 0 * x, np.zeros(1)),
        (lambda x: np.log(x), -np.ones(2)),
        (lambda x: np.sqrt(x), np.zeros(())),
    ],
    ids=["abs", "ties", "norm", "jump", "outside", "infinite"],
)
def test_nothing_to_compare_is_told(f, x):
    with pytest.raises(NothingComparedError, match="could be compared"):
        check_grads(f, [x], order=1)


def test_nothing_to_differentiate_is_told():
    with pytest.raises(NothingComparedError, match="no floating-point or complex argument"):
        check_grads(lambda n: n * 2.0, [3])
    with pytest.raises(NothingComparedError, match="returns no floating-point"):
        check_grads(lambda x: x > 0, [3.0])


@pytest.mark.parametrize("arguments", [{"order": 0}, {"modes": []}, {"modes": ["reverse"]}])
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match="order must be 1 or more and modes some of"):
        check_grads(np.sin, [1.0], **arguments)


def test_sorting_with_ties_and_masks():
    check_grads(lambda x: np.sort(x) * np.arange(3), [np.array([1.0, 1.0, 0.0])])
    check_grads(lambda x: x[x > 0] ** 2, [np.array([1.0, -1.0, 0.5])])


# What the derivatives are compared with


def test_second_derivatives_beside_a_change_of_shape():
    """The mask selects another number of elements at the neighbours of 0.5."""
    check_grads(lambda x: x[np.nonzero(x < 0.5)] ** 3, (np.array([0.5, 0.2, -1.0]),), order=2)


def test_measured_derivatives_against_known_ones():
    import mpmath

    points = [0.3, 1.7, 2.9]
    for ours, exact in [(np.exp, mpmath.exp), (np.tanh, mpmath.tanh), (np.arctan, mpmath.atan), (np.log, mpmath.log)]:
        [m] = measure(lambda x, f=ours: [f(x)], [np.array(points)], [np.ones(3)])
        expected = [float(mpmath.diff(exact, p)) for p in points]
        assert np.all(m.smooth)
        np.testing.assert_allclose(m.derivative, expected, rtol=1e-12)
        # Without the complex step, the error stays within what is said of it.
        [rough] = measure(lambda x, f=ours: [f(np.real(x))], [np.array(points)], [np.ones(3)])
        assert np.all(np.abs(rough.derivative - expected) <= rough.uncertainty)
        assert np.all(rough.uncertainty < 1e-6)


@pytest.mark.parametrize(
    ("distance", "smooth"), [(0.0, False), (1e-12, False), (1e-5, True), (1e-3, True), (0.5, True)], ids=lambda v: str(v)
)
def test_kinks_are_seen_at_any_distance(distance, smooth):
    [m] = measure(lambda x: [np.abs(x)], [np.array([distance])], [np.ones(1)])
    assert m.smooth[0] == smooth
    assert not smooth or abs(m.derivative[0] - 1) <= m.uncertainty[0]


def test_a_bend_is_no_kink():
    for f in (lambda x: x**2, lambda x: x**3, lambda x: x**4, lambda x: 50 * np.cos(x), lambda x: np.exp(-(x**2))):
        [m] = measure(lambda x, f=f: [f(np.real(x))], [np.array([0.0])], [np.ones(1)])
        assert m.smooth[0]
