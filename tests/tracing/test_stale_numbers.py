"""A view of shape () whose base was written to since is formatted with its value as it is now."""

import numpy as np
import pytest

import functad


@pytest.mark.parametrize("text", ["%.3f", "%d", "%g"])
def test_formatting_reads_the_view_anew(text):
    shown = []

    def f(x):
        y = x * 1.0
        v = y[0, ...]
        y[1] = 3.0
        shown.append(text % v)
        y[0] = 30.0
        shown.append(text % v)
        return np.sum(y)

    np.testing.assert_array_equal(functad.grad(f)(np.array([1.0, 3.0, 2.0])), [0.0, 0.0, 1.0])
    assert shown == [text % 1.0, text % 30.0]
