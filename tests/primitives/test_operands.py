"""Kinds of operands: arrays with the array API standard and none of NumPy's protocols."""

import numpy as np
import pytest

import functad
from functad.primitives.operands import has_array_api_alone


@pytest.mark.parametrize(
    "kind", [np.ndarray, np.float64, np.float32, np.int64, np.bool_, float, functad.Tensor, functad.Variable]
)
def test_arrays_and_numbers_of_numpy_have_its_protocols(kind):
    assert not has_array_api_alone(kind)
