"""Shape, dtype and weak flag of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad import ArraySpec
from functad.expressions.spec import dtype_of, shape_of, spec_of, stand_in

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (np.zeros((2, 3), np.float32), ArraySpec((2, 3), FLOAT32), "float32[2,3]"),
        (np.zeros(0), ArraySpec((0,), FLOAT64), "float64[0]"),
        (np.float64(1), ArraySpec((), FLOAT64), "float64[]"),
        (np.array(1j), ArraySpec((), np.dtype(complex)), "complex128[]"),
        (True, ArraySpec((), np.dtype(bool), weak=True), "bool[]"),
        (1, ArraySpec((), np.dtype(np.int64), weak=True), "int[]"),
        (1.0, ArraySpec((), FLOAT64, weak=True), "float[]"),
        (1j, ArraySpec((), np.dtype(complex), weak=True), "complex[]"),
        ([1.0, 2.0], ArraySpec((2,), FLOAT64), "float64[2]"),
        (ArraySpec((3,), FLOAT32), ArraySpec((3,), FLOAT32), "float32[3]"),
    ],
)
def test_spec_of(value: Any, spec: ArraySpec, text: str) -> None:
    assert spec_of(value) == spec
    assert repr(spec_of(value)) == text


def test_size_and_ndim() -> None:
    spec = ArraySpec((2, 0, 3), FLOAT64)
    assert (spec.ndim, spec.size) == (3, 0)
    assert ArraySpec((), FLOAT64).size == 1


def test_spec_is_hashable_and_frozen() -> None:
    assert {ArraySpec((1,), FLOAT64): 1}[ArraySpec((1,), FLOAT64)] == 1
    with pytest.raises(AttributeError):
        ArraySpec((1,), FLOAT64).shape = ()  # type: ignore[misc]


@pytest.mark.parametrize("value", ["text", None, {"a": 1}, object()])
def test_what_is_no_array_has_no_spec(value: Any) -> None:
    with pytest.raises(TypeError, match="no array"):
        spec_of(value)


def test_stand_in_takes_no_memory() -> None:
    a = stand_in(ArraySpec((1000, 1000, 1000), FLOAT32))
    assert (a.shape, a.dtype, a.strides) == ((1000, 1000, 1000), FLOAT32, (0, 0, 0))
    assert type(stand_in(ArraySpec((), FLOAT64, weak=True))) is float
    assert stand_in("as it is") == "as it is"


def test_shape_and_dtype_of_scalars() -> None:
    assert shape_of(1.0) == ()
    assert dtype_of(2) == np.int64
    assert dtype_of(np.float32(2)) == FLOAT32


def test_spec_of_a_tensor() -> None:
    seen = []
    functad.grad(lambda x: (seen.append(spec_of(x)), x.sum())[1])(np.zeros(3, np.float32))
    functad.make_expressions(lambda x: (seen.append(spec_of(x)), x)[1])(1.5)
    assert seen == [ArraySpec((3,), FLOAT32), ArraySpec((), FLOAT64, weak=True)]


@pytest.mark.parametrize("other", [2, 2.0, np.float64(2), np.float32(2), np.ones(2, np.int8), np.ones(2), 2j])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_weak_scalars_promote_as_in_numpy(dtype: Any, other: Any) -> None:
    """`float32 * 2.0` is float32, `float32 * float64(2)` is not; the same in an abstract trace."""
    x = np.ones(2, dtype)
    for f in (lambda a: a * other, lambda a: other * a, lambda a: np.add(a, other), lambda a: np.divide(other, a)):
        assert functad.eval_shape(f, x) == ArraySpec((2,), f(x).dtype)


def test_weak_scalars_alone_stay_weak() -> None:
    assert functad.eval_shape(lambda a: a * 2 + 1.5, 1.0).weak
    assert functad.eval_shape(lambda a: a * np.ones(2, np.float32), 1.0) == ArraySpec((2,), FLOAT32)
