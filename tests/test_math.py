"""`functad.math` on Tensors, where formulas that square or divide would overflow or give NaN."""

import math

import numpy as np
import pytest

import functad
from functad import math as fmath

CASES = {
    "hypot of large numbers": (lambda m, x: m.hypot(x, 4.0 * x), 1e200),
    "hypot of small numbers": (lambda m, x: m.hypot(x, 4.0 * x), 1e-200),
    "hypot of one number": (lambda m, x: m.hypot(x), -3.0),
    "hypot of three numbers": (lambda m, x: m.hypot(x, 2.0, -1.5), 0.5),
    "dist of small numbers": (lambda m, x: m.dist([x, 1.0], [1e-200, 1.0]), 3e-200),
    "dist": (lambda m, x: m.dist((x, 1.0, 2.0), (0.3, x, x)), 0.7),
    "remainder": (lambda m, x: m.remainder(x, 2.0), 7.3),
    "remainder by infinity": (lambda m, x: m.remainder(x, math.inf), 2.5),
    "remainder in y": (lambda m, y: m.remainder(7.3, y), 2.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("error")
def test_values_and_derivatives(name):
    f, x = CASES[name]
    value, slope = functad.value_and_grad(lambda x: f(fmath, x))(x)
    assert float(value) == pytest.approx(f(math, x), rel=1e-14)
    h = 1e-6 * x
    assert float(slope) == pytest.approx((f(math, x + h) - f(math, x - h)) / (2 * h), rel=1e-7)
    listed = functad.make_expressions(lambda x: f(fmath, x))(x)
    assert float(np.asarray(listed(x))) == pytest.approx(f(math, x), rel=1e-14)


def test_points_of_different_dimensions_raise():
    with pytest.raises(ValueError, match="same number of dimensions"):
        functad.grad(lambda x: fmath.dist([x], [1.0, 2.0]))(1.0)
