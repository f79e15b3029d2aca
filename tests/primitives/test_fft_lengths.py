"""Lengths of Fourier transforms: NumPy takes integers alone."""

import numpy as np
import pytest

import functad


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_a_length_is_an_integer(name):
    transform = getattr(np.fft, name)
    x = np.array([1.0, 2.0, -0.5])
    with pytest.raises(TypeError):
        transform(x, 2.5)
    with pytest.raises(TypeError):
        functad.grad(lambda x: np.sum(np.abs(transform(x, 2.5))))(x)
    functad.testing.check_grads(lambda x: np.abs(transform(x, np.int64(2))), (x,))
