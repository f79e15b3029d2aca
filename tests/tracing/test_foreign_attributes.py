"""What a Tensor does not have, so that code of others that asks for it by `getattr` with a default takes the Tensor itself."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError

IDIOMS = ("value", "values", "magnitude", "unit", "units", "nominal_value", "n", "mask", "fill_value", "array", "a", "A")


@pytest.mark.parametrize("name", IDIOMS)
def test_a_plain_value_is_not_to_be_had_by_an_attribute(name):
    def f(x):
        return np.sum(getattr(x, name, x) ** 2)

    assert functad.grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert functad.grad(lambda x: getattr(x[0], name, x[0]) ** 2)(np.array([1.0, 2.0])).tolist() == [2.0, 0.0]
    assert functad.jvp(f, (np.array([1.0, 2.0]),), (np.ones(2),))[1] == 6.0


class Lengths(np.ndarray):
    """An array of a class of its own, as arrays with units are."""


@pytest.mark.parametrize("view", [lambda t: t.view(Lengths), lambda t: t.view(type=Lengths)], ids=["dtype", "type"])
def test_a_view_as_an_array_of_another_class_is_refused_with_its_reason(view):
    with pytest.raises(UnsupportedError, match=r"view\(Lengths\) of a Tensor, at .*: an array of the class .*Lengths has"):
        functad.grad(lambda t: view(t).sum())(np.array([1.0, 2.0]))


def test_a_view_as_an_array_is_the_tensor():
    f = lambda t: t.view(type=np.ndarray).sum() + t.view(np.ndarray)[0]  # noqa: E731 - it is a line
    assert functad.grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 1.0]
