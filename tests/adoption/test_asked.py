"""Functions of `functad.numpy` call NumPy first, which finds arrays of other libraries as ever, and the Tensors in lists."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
import functad.numpy
from functad.errors import ConversionError
from tests.adoption.stand_ins import replacement

A = np.array([[2.0, 0.5], [0.5, 3.0]])
A.setflags(write=False)
_FILES = ("save", "savez", "savez_compressed", "savetxt", "loadtxt", "genfromtxt", "fromfile", "load", "memmap")
THEIRS = ("theirs",)


class Pair(NamedTuple):
    """What is no list, though NumPy takes it for one."""

    first: Any
    second: Any


class Foreign:
    """An array of another library."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return THEIRS

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return THEIRS


def dispatched(module: ModuleType, stands: Any) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Yield the functions that NumPy dispatches by their arguments, and those that stand for them."""
    for name in sorted(vars(module)):
        original = vars(module)[name]
        if name not in _FILES and type(original) is type(np.sum):
            yield f"{module.__name__}.{name}", original, getattr(stands, name)


FUNCTIONS = {
    name: (original, stands)
    for module in (np, np.linalg, np.fft)
    for name, original, stands in dispatched(module, replacement(module))
}


def is_theirs(call: Callable[[], Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call() is THEIRS
        except Exception:  # noqa: BLE001 - what is no call at all is not theirs
            return False


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_of_other_libraries_are_asked_wherever_numpy_asks_them(name: str) -> None:
    original, stands = FUNCTIONS[name]
    try:
        parameters = list(inspect.signature(original).parameters.values())
    except ValueError:  # compiled, and its signature is unknown
        calls: list[tuple[list[Any], dict[str, Any]]] = [
            ([*[A] * before, value, *[A] * after], {})
            for before in range(3)
            for after in range(3 - before)
            for value in (Foreign(), [Foreign()])
        ]
    else:
        required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        calls = []
        for value in (Foreign(), [Foreign(), A], (A, Foreign())):
            for i in range(len(required)):
                calls.append(([value if j == i else A for j in range(len(required))], {}))
            for p in parameters:
                if p.kind is p.VAR_POSITIONAL:
                    calls.append(([*[A] * len(required), value], {}))
                elif p not in required and p.kind is not p.VAR_KEYWORD:
                    calls.append(([A] * len(required), {p.name: value}))
    assert calls
    for args, kwargs in calls:
        if is_theirs(lambda: original(*args, **kwargs)):  # noqa: B023
            assert is_theirs(lambda: stands(*args, **kwargs)), (args, kwargs)  # noqa: B023


HIDDEN: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda np, x: np.exp(x),
    "add": lambda np, x: np.add(1.0, x),
    "add into": lambda np, x: np.add(A, x, out=A.copy()),
    "modf": lambda np, x: np.modf(x),
    "add.reduce": lambda np, x: np.add.reduce(x),
    "array": lambda np, x: np.array(x),
    "asarray": lambda np, x: np.asarray(x, dtype=float),
    "sum": lambda np, x: np.sum(x),
    "dot": lambda np, x: np.dot(x, [1.0, 2.0]),
    "r_": lambda np, x: np.r_[x, 1.0],
}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("numpy", [functad.numpy, replacement(np)], ids=["functad.numpy", "stand-in"])
def test_tensors_where_no_list_is_looked_into_raise_as_ever(name: str, numpy: Any) -> None:
    """A subclass of `tuple` may be anything: nobody looks for Tensors there, and to convert one raises, with the cure."""

    def of_pair(t: Any) -> Any:
        return HIDDEN[name](numpy, Pair(t[0], 1.0))

    with pytest.raises(ConversionError, match=r"np\."):
        functad.grad(lambda t: np.sum(of_pair(t)))(np.array([0.5, 2.0]))


def test_a_sum_of_numbers_in_an_object_array_of_tensors_raises() -> None:
    def hidden(t: Any) -> Any:
        held = np.empty((), object)
        held[()] = t
        return functad.math.fsum([held, 1.0])

    with pytest.raises(TypeError):
        functad.grad(hidden)(0.5)


@pytest.mark.parametrize("name", ["fsum", "prod"])
def test_numbers_from_an_iterator_are_taken_once(name: str) -> None:
    found, original = getattr(replacement(math), name), getattr(math, name)
    numbers = [0.5, 1.5, 2.0]
    assert found(x for x in numbers) == original(numbers)
    of_tensors = functad.grad(lambda t: found(t * x for x in numbers))(2.0)
    assert of_tensors == (4.0 if name == "fsum" else 3 * 4.0 * 1.5)


def test_a_list_is_read_once_though_a_tensor_is_its_last_element() -> None:
    for numpy in (functad.numpy, replacement(np)):
        for call in (numpy.sum, numpy.exp, numpy.asarray, numpy.max, numpy.linalg.norm, numpy.cumsum):
            gradient = functad.grad(lambda t: np.sum(call([1.0, 2.0, t])))(3.0)  # noqa: B023
            expected = functad.grad(lambda t: np.sum(call(np.stack([1.0, 2.0, t]))))(3.0)  # noqa: B023
            np.testing.assert_allclose(gradient, expected, rtol=1e-15)


OF_VARIABLES: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda np, v: np.asarray(v) ** 2,
    "array": lambda np, v: np.array([v, v[::-1]])[:, 0] ** 2,
    "array of numbers": lambda np, v: np.array([v[0], v[1] * v[0], 1.0]),
    "full": lambda np, v: np.full(3, v[0]) ** 2,
    "exp": lambda np, v: np.exp([v, v]),
    "add": lambda np, v: np.add([v[0], 1.0], v[1]) ** 2,
    "sum": lambda np, v: np.sum([v, v], axis=0) ** 2,
    "norm": lambda np, v: np.linalg.norm([v[0], v[1]]),
    "dot": lambda np, v: np.dot([v[0], v[1]], v),
    "r_": lambda np, v: np.r_[v, v[0]] ** 2,
    "float64": lambda np, v: np.float64(v[0]) ** 2 * v[1],
    "vectorize": lambda np, v: np.vectorize(lambda x: x * x)(v),
    "namespace": lambda np, v: v.__array_namespace__().asarray(v) ** 2,
}


@pytest.mark.parametrize("name", OF_VARIABLES)
def test_variables_are_read_as_tensors_are(name: str) -> None:
    v = functad.Variable([0.7, 1.3])
    with functad.GradientTape() as tape:
        out = np.sum(OF_VARIABLES[name](functad.numpy, v))
    expected = functad.grad(lambda x: np.sum(OF_VARIABLES[name](functad.numpy, x)))(np.array([0.7, 1.3]))
    np.testing.assert_allclose(tape.gradient(out, v).numpy(), expected, rtol=1e-14)
    assert float(np.sum(OF_VARIABLES[name](functad.numpy, v))) == float(out)


def test_functions_of_scipy_read_variables() -> None:
    linalg = pytest.importorskip("functad.scipy").linalg
    v = functad.Variable([[2.0, 0.5], [0.5, 3.0]])
    with functad.GradientTape() as tape:
        out = np.sum(linalg.cholesky(v)) + linalg.norm([v[0, 1], v[1, 1]])
    expected = functad.grad(lambda a: np.sum(linalg.cholesky(a)) + linalg.norm([a[0, 1], a[1, 1]]))(A)
    np.testing.assert_allclose(tape.gradient(out, v).numpy(), expected, rtol=1e-14)
