"""NumPy's functions take their arguments by name too: each sample call of the registry, compared with the call of arrays."""

import inspect
import warnings
from contextlib import suppress

import numpy as np
import pytest

import functad
from functad.errors import FunctadError
from functad.testing import calls, check_grads, every_entry
from tests.entries import label


def _named_calls():
    """Return sample calls of NumPy's Python functions, with all arguments by name."""
    found = []
    for entry in every_entry():
        function = entry.function
        if isinstance(function, np.ufunc) or not str(getattr(function, "__module__", "")).startswith("numpy"):
            continue
        with suppress(TypeError, ValueError):  # the function has no signature, or other arguments than NumPy's
            signature = inspect.signature(function)
            for call in calls(entry, np.float64)[:3]:
                args, kwargs = call.structure.unflatten(call.leaves)
                given = signature.bind(*args, **kwargs).arguments
                given.update(given.pop("kwargs", {}))
                if given.keys() & {"file", "fname"}:
                    continue  # the call writes a file
                kinds = {signature.parameters[name].kind for name in given if name in signature.parameters}
                arrays = [name for name, value in given.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
                results = function(**given)
                results = results if isinstance(results, (tuple, list)) else (results,)
                if not all(isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind in "biufc" for a in results):
                    continue  # a text, a dtype or a list of arrays
                if arrays and not kinds & {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
                    found.append(pytest.param(function, given, arrays[0], id=f"{label(entry)}-{call.number}"))
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    NAMED = _named_calls()


def test_most_functions_are_called():
    assert len(NAMED) > 500


@pytest.mark.parametrize(("function", "given", "array"), NAMED)
def test_arguments_by_name(function, given, array):
    results = []

    def f(x):
        out = function(**{**given, array: x})
        results.append(out if isinstance(out, bool) else functad.stop_gradient(out))
        return np.sum(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results.append(function(**given))
        try:
            functad.grad(f)(given[array])
        except FunctadError:
            return  # no argument of the function can be a Tensor, or the advice is another function
    expected, found = results
    expected, found = (a if isinstance(a, (tuple, list)) else (a,) for a in (expected, found))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(np.shape(a), np.shape(b))
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


OUT = {np.argmax: int, np.argmin: int, np.nanargmax: int, np.nanargmin: int, np.any: bool, np.all: bool}


@pytest.mark.parametrize("function", OUT, ids=lambda function: function.__name__)
def test_results_without_derivative_are_written_into_arrays(function):
    x = np.array([1.0, 3.0, 2.0])
    out, expected = np.zeros((), OUT[function]), np.zeros((), OUT[function])
    function(x, out=expected)
    for call in (lambda t: function(a=t, out=out), lambda t: function(t, out=out)):
        out[...] = 0
        gradient = functad.grad(lambda t, call=call: np.sum(t * t) + 0.0 * call(t))(x)
        np.testing.assert_array_equal(gradient, 2 * x)
        assert out == expected


def test_round_into_an_array_by_name():
    x, out = np.array([1.25, 3.5]), np.zeros(2)
    np.testing.assert_array_equal(functad.grad(lambda t: np.sum(np.round(a=t, decimals=1, out=out) + t))(x), [1.0, 1.0])
    np.testing.assert_array_equal(out, np.round(x, 1))


def test_the_mean_of_a_variance_may_have_more_axes():
    def f(x):
        return np.var(x, 0, mean=np.array([[0.1, 0.2, 0.3]]) * np.sin(x[0]))

    x = np.array([0.5, -0.7, 1.1])
    np.testing.assert_allclose(functad.vjp(f, x)[0], f(x), rtol=1e-15)
    check_grads(f, (x,))
