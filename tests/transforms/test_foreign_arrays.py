"""Arrays whose operations are others than NumPy's are refused: what is recorded would be another function."""

from typing import Any

import numpy as np
import pytest

import functad


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
