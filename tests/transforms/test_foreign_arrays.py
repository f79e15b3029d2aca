"""Arrays whose operations are others than NumPy's are refused: what is recorded would be another function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, UnsupportedError


class Series:
    """An array that is indexed by labels, as those of pandas are."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=float)
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return Series(ufunc(*[i.values if isinstance(i, Series) else i for i in inputs], **kwargs))

    def __getitem__(self, label: int) -> Any:
        return self.values[-1 - label]


FOREIGN = {
    "masked": (np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]), "np.where"),
    "matrix": (np.ones((2, 2)).view(np.matrix), "np.asarray"),
    "labels": (Series([1.0, 2.0, 3.0]), "np.asarray"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_arguments_are_refused(name: str) -> None:
    array, cure = FOREIGN[name]
    for call in (
        lambda: functad.grad(lambda x: x[0] * 2.0)(array),
        lambda: functad.grad(lambda tree: tree["x"][0] * 2.0)({"x": array}),
        lambda: functad.jvp(lambda x: x, (array,), (array,)),
        lambda: functad.taylor(lambda x: x, (array,), ([array],)),
        lambda: functad.vmap(lambda x: x)(array),
    ):
        with pytest.raises(functad.errors.InputError, match=cure):
            call()


@pytest.mark.parametrize("scalar", [np.float16(2.0), np.float32(2.0), np.longdouble(2.0), np.complex64(2.0)])
def test_scalars_are_numpys(scalar: Any) -> None:
    np.testing.assert_allclose(functad.grad(lambda x: (x * x).real * 1.0)(scalar), 4.0)


@pytest.mark.parametrize("name", ["masked", "matrix"])
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_operands_are_refused(name: str) -> None:
    array, cure = FOREIGN[name]
    with pytest.raises(functad.errors.UnsupportedError, match=cure):
        functad.grad(lambda x: np.sum(x * array))(2.0)


def test_vmap_of_a_list_says_that_it_is_a_container() -> None:
    with pytest.raises(functad.errors.InputError, match=r"args\[0\]\[0\] is a number in a container.*np\.array"):
        functad.vmap(lambda x: x)([1.0, 2.0])


def test_names_that_the_documents_promise_are_there_without_an_import() -> None:
    assert functad.numpy.zeros(2).shape == (2,)
    assert callable(functad.testing.check_grads)


def test_functions_with_rules_show_what_they_are() -> None:
    def softplus(x: Any) -> Any:
        return np.logaddexp(0, x)

    assert "custom_jvp" in repr(functad.custom_jvp(softplus))
    assert "softplus" in repr(functad.custom_vjp(softplus))


class Quantity(np.ndarray):
    """Numbers with a unit, as astropy's are."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        numbers = [value.view(np.ndarray) if isinstance(value, Quantity) else value for value in inputs]
        out = super().__array_ufunc__(ufunc, method, *numbers, **kwargs)
        return out if out is NotImplemented else np.asarray(out).view(Quantity)


class Unit:
    """A unit, which makes a quantity of numbers."""

    __array_priority__ = 1000

    def __rlshift__(self, numbers: Any) -> Any:
        return np.array(numbers).view(Quantity)

    __rmul__ = __rand__ = __rlshift__


LENGTH = np.array([2.0, 3.0]).view(Quantity)
OF_UNITS: dict[str, Callable[[Any], Any]] = {
    "t * q": lambda t: t * LENGTH,
    "q * t": lambda t: LENGTH * t,
    "q + t": lambda t: LENGTH + t,
    "np.add": lambda t: np.add(LENGTH, t, where=True),
    "np.concatenate": lambda t: np.concatenate([LENGTH, t]),
    "np.dot": lambda t: np.dot(t, LENGTH),
    "t << unit": lambda t: t << Unit(),
    "t & unit": lambda t: t & Unit(),
    "t * unit": lambda t: t * Unit(),
}


@pytest.mark.parametrize("name", OF_UNITS)
def test_units_are_not_lost(name: str) -> None:
    def f(t: Any) -> Any:
        return np.sum(np.asarray(OF_UNITS[name](t)) if name.endswith("unit") else OF_UNITS[name](t))

    with pytest.raises((UnsupportedError, ConversionError), match=r"such as a unit, would be lost|np\.array\(numbers\)"):
        functad.grad(f)(np.array([0.5, 2.0]))
