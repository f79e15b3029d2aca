"""Modified Bessel functions, which derivatives of `np.i0` need."""

import mpmath
import numpy as np
import pytest

from functad.primitives.elementwise.bessel import bessel_i


@pytest.mark.parametrize("order", [0, 1, 2, 5])
@pytest.mark.parametrize("x", [0.0, 1e-3, -1.0, 7.9, 8.1, -29.9, 30.1, 60.0, 500.0])
def test_bessel_functions(order, x):
    expected = float(mpmath.besseli(order, x))
    assert abs(float(bessel_i(np.float64(x), order=order)) - expected) <= 1e-13 * abs(expected)
