"""What stands for functions in adopted code gives for plain values what these give: values, types, dtypes and errors."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.testing import check_grads
from tests.adoption.stand_ins import numbers, replacement

A, B = np.array([1.5, 0.5, 2.0]), np.array([[2.0, 0.5, 0.0], [0.25, 3.0, 1.0], [0.0, 1.0, 4.0]])
C = np.array([1 + 2j, 0.5, -1j])
X = np.array([0.7, 1.3])

CALLS: dict[str, Callable[[Any], Any]] = {
    "array": lambda np: [np.array([1.0, 2]), np.array((1, 2)), np.array(A), np.array(2), np.array([]), np.array([A, A])],
    "array as asked": lambda np: [np.array([1, 2], float), np.array(A, dtype="f4", copy=True), np.array([1, 2], ndmin=2)],
    "array of keywords": lambda np: np.array(object=[1, 2], dtype=complex, order="F", subok=True),
    "array of nothing": lambda np: np.array(),
    "array of rows": lambda np: np.array([[1, 2], [3]]),
    "array of texts": lambda np: [np.array(["a", "bc"]), np.array("abc"), np.asarray(["1.5"], dtype=float)],
    "array of objects": lambda np: [np.array([None, "a"]), np.array([A, None], dtype=object)],
    "array, wrongly": lambda np: np.array([1.0], nothing=2),
    "array of a text as number": lambda np: np.array(["a"], dtype=float),
    "asarray": lambda np: [np.asarray(A), np.asarray([1, 2]), np.asarray(A, "i8"), np.asarray(a=3.0), np.asarray(range(3))],
    "asarray is the same": lambda np: [np.asarray(A) is A, np.asanyarray(A) is A, np.asarray(A, float) is A],
    "asarray without copy": lambda np: np.asarray([1, 2], copy=False),
    "ascontiguousarray": lambda np: [np.ascontiguousarray(B.T), np.asfortranarray(B), np.ascontiguousarray(3)],
    "require": lambda np: [np.require(B, "f4", "F"), np.require([1, 2], requirements=["C", "W"])],
    "zeros": lambda np: [np.zeros(3), np.zeros((2, 3), int), np.zeros([2], dtype="c8"), np.zeros(shape=2), np.zeros(())],
    "zeros in order": lambda np: [
        np.zeros((2, 2), float, "F").flags.f_contiguous,
        np.zeros((2, 2), order="F").flags.c_contiguous,
    ],
    "zeros of nothing": lambda np: np.zeros(),
    "zeros of a negative length": lambda np: np.zeros(-1),
    "zeros of a broken length": lambda np: np.zeros(1.5),
    "zeros like": lambda np: [
        np.zeros_like(A),
        np.ones_like([1, 2]),
        np.zeros_like(A, int),
        np.empty_like(A, shape=(2,)).shape,
    ],
    "ones": lambda np: [np.ones(2), np.ones((2, 1), bool), np.ones(shape=2, dtype=int)],
    "full": lambda np: [
        np.full(2, 1.5),
        np.full((2, 2), 1),
        np.full(2, [1, 2]),
        np.full(2, fill_value=1j),
        np.full(shape=1, fill_value=0),
    ],
    "full as asked": lambda np: [np.full(2, 1.5, int), np.full_like(A, 3), np.full_like(A, 3, int), np.full_like([1, 2], 3.5)],
    "full of nothing": lambda np: np.full(3),
    "arange": lambda np: [np.arange(3), np.arange(1.0, 2, 0.25), np.arange(3, dtype=float), np.arange(1, 3, 1, "f4")],
    "arange of keywords": lambda np: [
        np.arange(start=1, stop=3),
        np.arange(1, stop=5, step=2),
        np.arange(0, 3, dtype=np.float32),
    ],
    "arange of nothing": lambda np: np.arange(),
    "arange of a text": lambda np: np.arange("a"),
    "linspace": lambda np: [np.linspace(0, 1), np.linspace(0, 1, 3, False), np.linspace([0, 1], 2, num=3, axis=-1)],
    "linspace with its step": lambda np: np.linspace(0, 1, 3, retstep=True),
    "eye": lambda np: [np.eye(2), np.eye(2, 3, 1, dtype=int), np.identity(2), np.eye(N=2, k=-1)],
    "concatenate": lambda np: [np.concatenate([A, A]), np.stack((A, A), axis=1), np.hstack([1, A]), np.block([[B, B]])],
    "r_": lambda np: [np.r_[1:3, A], np.c_[A, A], np.r_["0,2", A, A], np.r_[1j, 2], np.r_[[1, 2], 3]],
    "types": lambda np: [
        np.float64(2),
        np.float64("1.5"),
        np.float32(A),
        np.complex128(1, 2),
        np.complex64(),
        np.float64([1, 2]),
    ],
    "types, wrongly": lambda np: np.float64("a"),
    "sum": lambda np: [
        np.sum(A),
        np.sum([1, 2]),
        np.sum(B, 0),
        np.sum(B, axis=(0, 1)),
        np.sum(B, axis=1, keepdims=True),
        np.sum(3),
    ],
    "sum as asked": lambda np: [
        np.sum([True, True], dtype=float),
        np.sum(A, initial=1.0),
        np.sum(A, where=[True, False, True]),
    ],
    "sum of nothing": lambda np: np.sum(),
    "sum, wrongly": lambda np: np.sum(A, nothing=1),
    "sum over no axis": lambda np: np.sum(A, axis=3),
    "sum of texts": lambda np: np.sum(["a", "b"]),
    "sum into": lambda np: np.sum(B, axis=0, out=np.zeros(3)),
    "mean of nothing": lambda np: np.mean([]),
    "statistics": lambda np: [
        np.mean(A),
        np.var([1, 2, 4], ddof=1),
        np.median(A),
        np.quantile(A, [0.5, 0.25]),
        np.average(A, weights=A),
    ],
    "products": lambda np: [
        np.dot(A, A),
        np.dot([1, 2], [3, 4]),
        np.inner(A, A),
        np.vdot(C, C),
        np.outer(A, [1, 2]),
        np.einsum("i,i", A, A),
    ],
    "dot, wrongly": lambda np: np.dot(A),
    "dot of other lengths": lambda np: np.dot(A, [1, 2]),
    "where": lambda np: [np.where(A > 1), np.where([True, False], 1, 2.0), np.where(A > 1, A, 0)],
    "clip": lambda np: [
        np.clip(A, 1, None),
        np.clip([1, 5], 2, 3),
        np.clip(A, a_min=0.5, a_max=1),
        np.clip(A, 0, 1, dtype="f4"),
    ],
    "shapes": lambda np: [
        np.reshape(B, (9,)),
        np.transpose([[1, 2]]),
        np.atleast_1d(3, A),
        np.shape([[1, 2]]),
        np.broadcast_to(A, (2, 3)),
    ],
    "sorted": lambda np: [np.sort([3, 1, 2]), np.argsort(A), np.unique([1, 1, 2], return_counts=True), np.searchsorted(A, 1)],
    "gradients": lambda np: [
        np.gradient(A),
        np.gradient(A, 0.5, edge_order=2),
        np.diff([1, 4, 9], 1, prepend=0),
        np.trapezoid(A, dx=0.5),
    ],
    "meshgrid": lambda np: [np.meshgrid(A, [1, 2], indexing="ij"), np.ix_([0, 1], [2])],
    "pad": lambda np: [
        np.pad(A, 1),
        np.pad(A, (1, 2), constant_values=3),
        np.pad(A, 1, "edge"),
        np.pad([1, 2], 1, mode="wrap"),
    ],
    "vectorize": lambda np: [
        np.vectorize(lambda x: x + 1)(A),
        np.vectorize(max)([1, 5], 3),
        np.vectorize(abs, otypes=[float])([-1]),
    ],
    "vectorize with keywords": lambda np: np.vectorize(lambda x, k=1: x * k, excluded=["k"])(A, k=2),
    "vectorize of nothing": lambda np: np.vectorize(abs)([]),
    "solve": lambda np: [
        np.linalg.solve(B, A),
        np.linalg.norm([3, 4]),
        np.linalg.norm(B, ord=1, axis=0),
        np.linalg.eigh(B + B.T),
    ],
    "solve, wrongly": lambda np: np.linalg.solve(B[:2], A),
    "solve of a singular matrix": lambda np: np.linalg.inv([[1, 1], [1, 1]]),
    "fft": lambda np: [np.fft.fft(A), np.fft.rfft([1, 2, 3], n=4), np.fft.fftfreq(3)],
    "ufuncs": lambda np: [
        np.exp(A),
        np.exp([1, 2]),
        np.exp(2),
        np.add(A, [1, 2, 3]),
        np.sqrt(C),
        np.abs([-1, 2]),
        np.modf([1.5, 2]),
    ],
    "ufuncs as asked": lambda np: [
        np.add(1, 2, dtype="f4"),
        np.exp([1], dtype="f4"),
        np.add(A, 1, where=[True, True, True], out=A * 0),
    ],
    "ufuncs into": lambda np: [np.exp(A, A * 0), np.add(A, A, A * 0), np.exp(A, out=A * 0), np.divmod(A, 1, A * 0, A * 0)],
    "ufuncs of lists into": lambda np: [
        np.exp([1, 2], np.zeros(2)),
        np.add([1, 2], 3, out=np.zeros(2)),
        np.add([1], [2], (np.zeros(1),)),
    ],
    "exp of nothing": lambda np: np.exp(),
    "exp of too much": lambda np: np.exp(A, A, A),
    "exp of a text": lambda np: np.exp("a"),
    "exp of texts": lambda np: np.exp(["a"]),
    "exp, wrongly": lambda np: np.exp(A, nothing=1),
    "add of one": lambda np: np.add(A),
    "add of other lengths": lambda np: np.add(A, [1, 2]),
    "log of zero": lambda np: np.log([0.0]),
    "reduce": lambda np: [
        np.add.reduce(A),
        np.maximum.reduce([1, 3]),
        np.add.reduce(B, axis=None),
        np.add.reduce(B, 1, None, None, True),
    ],
    "reduce as asked": lambda np: [np.add.reduce([[1, 2]], axis=1, keepdims=True), np.multiply.reduce([], initial=2.0)],
    "accumulate": lambda np: [
        np.add.accumulate([1, 2]),
        np.add.accumulate(B, axis=1),
        np.add.reduceat(A, [0, 2]),
        np.add.outer([1, 2], A),
    ],
    "reduce of nothing": lambda np: np.maximum.reduce([]),
    "reduce without argument": lambda np: np.add.reduce(),
    "attributes": lambda np: [
        np.add.nin,
        np.add.nout,
        np.add.identity,
        np.add.__name__,
        np.sum.__name__,
        np.exp.types,
        np.sum.__module__,
    ],
    "matmul": lambda np: [
        np.matmul(B, A),
        np.matmul(B, [1, 2, 3]),
        np.matmul([[1, 2]], [[3], [4]]),
        np.matmul(B, B, axes=[(0, 1), (0, 1), (0, 1)]),
    ],
}


def _outcome(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or the error that it raises, with the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out: Any = call()
        except Exception as error:  # noqa: BLE001 - it is compared
            out = type(error), str(error)
    return out, [(w.category, str(w.message)) for w in caught]


def _assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _assert_same(a, b)
    elif isinstance(expected, (np.ndarray, np.generic)) and expected.dtype != object:
        assert found.dtype == expected.dtype
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, np.ndarray):
        assert str(found) == str(expected)
    else:
        assert found == expected or (found != found and expected != expected)


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_numpy_give_the_same(name: str) -> None:
    _assert_same(_outcome(lambda: CALLS[name](replacement(np))), _outcome(lambda: CALLS[name](np)))


NUMBERS_OF_PYTHON = [(), (2,), ("1.5",), ("a",), (1j,), (A,), (A[:1],), (1, 2), (np.float32(0.1),), (None,)]


@pytest.mark.parametrize("name", ["float", "complex"])
def test_types_of_numbers_give_the_same(name: str) -> None:
    original = {"float": float, "complex": complex}[name]
    for args in NUMBERS_OF_PYTHON:
        _assert_same(_outcome(lambda: numbers()[name](*args)), _outcome(lambda: original(*args)))  # noqa: B023


@pytest.mark.parametrize("name", [name for name in dir(math) if callable(getattr(math, name)) and not name.startswith("_")])
def test_functions_of_math_give_the_same(name: str) -> None:
    found, original = getattr(replacement(math), name), getattr(math, name)
    for args in [
        (),
        (0.5,),
        (3,),
        (np.float64(0.5),),
        (0.5, 0.25),
        (5, 3),
        ([1.0, 2.0],),
        ([1.0, 2.0], [3.0, 4.0]),
        ("a",),
        (True,),
    ]:
        _assert_same(_outcome(lambda: found(*args)), _outcome(lambda: original(*args)))  # noqa: B023


def test_what_stands_for_a_function_compares_and_hashes_as_that() -> None:
    module = replacement(np)
    for name in ("sum", "mean", "exp", "add", "linalg.norm", "fft.fft"):
        original, found = np, module
        for part in name.split("."):
            original, found = getattr(original, part), getattr(found, part)
        assert found is not original
        assert found == original
        assert original == found
        assert {original: 1}[found] == 1
        assert {found: 1}[original] == 1
        assert found in (np.prod, original)
        assert repr(found) == repr(original)
        assert isinstance(found, type(original))
        assert pickle.loads(pickle.dumps(found)) is original
        assert copy.deepcopy(found) == original
    assert inspect.signature(module.sum) == inspect.signature(np.sum)
    assert module.sum != np.mean
    assert module.abs == np.absolute


def test_methods_of_classes_bind_as_those_of_numpy() -> None:
    class Model:
        exp = replacement(np).exp
        zeros = replacement(np).zeros

    assert Model().exp(0.0) == 1.0
    assert Model.exp == np.exp


LISTS: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda np, t: np.exp([t[0], t[1]]),
    "exp of a tuple": lambda np, t: np.exp((t[0], 2.0)),
    "exp of rows": lambda np, t: np.exp([[t[0], 2.0], [1.0, t[1]]]),
    "exp of arrays": lambda np, t: np.exp([t, t * 2]),
    "add": lambda np, t: np.add([t[0], 1.0], [2.0, t[1]]) ** 2,
    "multiply by an array": lambda np, t: np.multiply([t[0], t[0] * t[1]], np.array([2.0, 3.0])),
    "power of a number": lambda np, t: np.power(2.0, [t[0], t[1]]),
    "maximum": lambda np, t: np.maximum([t[0], 2.0], [t[1], 0.5]),
    "maximum.reduce": lambda np, t: np.maximum.reduce([t[0], t[1]]) * t[0],
    "add.reduce": lambda np, t: np.add.reduce([t[0], t[1] ** 2]),
    "add.reduce of rows": lambda np, t: np.add.reduce([[t[0], 1.0], [2.0, t[1] ** 2]], axis=1),
    "multiply.accumulate": lambda np, t: np.multiply.accumulate([t[0], 2.0, t[1]]),
    "multiply.outer": lambda np, t: np.multiply.outer([t[0], 2.0], [t[1], t[0]]),
    "matmul": lambda np, t: np.matmul([[t[0], 1.0], [t[1], 2.0]], [t[0], 3.0]),
    "modf": lambda np, t: np.modf([t[0] * 3, t[1]])[0],
    "isfinite": lambda np, t: np.where(np.isfinite([t[0], t[1]]), t, 0.0),
    "zeros_like": lambda np, t: np.zeros_like([t[0], t[1]]) + t,
    "linspace": lambda np, t: np.linspace([t[0], 1.0], t[1], 3),
    "clip": lambda np, t: np.clip([t[0], 3.0 * t[1]], 0.0, 2.0),
    "quantile": lambda np, t: np.quantile([t[0], 3.0 * t[1], 1.0], 0.4),
    "trapezoid": lambda np, t: np.trapezoid([t[0], t[1], 1.0], x=[0.0, t[0], 2.0]),
    "average": lambda np, t: np.average([1.0, t[1]], weights=[t[0], 2.0]),
    "diff": lambda np, t: np.diff([t[0], t[1] ** 2], prepend=[t[1]]),
    "atleast_1d": lambda np, t: np.atleast_1d([t[0], 1.0]) * t[1],
    "gradient": lambda np, t: np.gradient([t[0], t[1] ** 2, 1.0], 0.5),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_tensors_are_taken_everywhere(name: str) -> None:
    f, module = LISTS[name], replacement(np)
    value = functad.vjp(lambda t: f(module, t), X)[0]
    np.testing.assert_allclose(value, f(np, X), rtol=1e-15)
    check_grads(lambda t: f(module, t), [X])


@pytest.mark.parametrize("name", ["exp", "exp of a tuple", "add", "maximum.reduce", "matmul", "zeros_like", "average"])
def test_lists_of_tensors_of_the_eager_style_give_tensors(name: str) -> None:
    f, module = LISTS[name], replacement(np)
    x = functad.constant(X)
    assert type(f(module, x)) is functad.Tensor
    np.testing.assert_array_equal(f(module, x).numpy(), f(np, X))
    with functad.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(f(module, x))
    expected = functad.grad(lambda t: np.sum(f(module, t)))(X)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), expected)


def test_creation_of_the_eager_style_gives_tensors() -> None:
    module, x = replacement(np), functad.constant(X)
    for made in (module.array([x[0], 1.0]), module.array([1.0, x[0]]), module.asarray((2.0, x[1]), float), module.r_[1.0, x]):
        assert type(made) is functad.Tensor


def test_results_are_not_written_twice_where_lists_are_tried_first() -> None:
    module, x = replacement(np), functad.constant(X)
    total = np.ones(2)
    with pytest.raises(functad.errors.FunctadError):
        module.add(total, [x[0], x[1]], out=total)
    assert total.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["exp", "exp of a tuple", "exp of rows", "maximum.reduce", "multiply.outer", "matmul", "modf"])
def test_lists_of_tensors_in_numpy_itself_are_refused_with_their_line(name: str) -> None:
    with pytest.raises(functad.errors.ConversionError, match=r"at .*test_plain_values\.py:\d+.*Use np\.stack"):
        functad.grad(lambda t: np.sum(LISTS[name](np, t)))(X)


def test_functions_that_make_arrays_like_those_of_other_libraries_give_no_more_than_they_were_given() -> None:
    seen: list[tuple[Any, Any]] = []

    class Foreign:
        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen.append((args, kwargs))
            return np.zeros(1)

    a, module = Foreign(), replacement(np)
    for call in (
        lambda np: np.full_like(a, 2.0),
        lambda np: np.full_like(a, fill_value=2.0, dtype=float),
        lambda np: np.zeros_like(a),
        lambda np: np.ones_like(a, dtype="f4"),
        lambda np: np.empty_like(a, float, "C"),
        lambda np: np.full_like(a, 2.0, float, "C"),
    ):
        call(np)
        call(module)
    for expected, found in zip(seen[::2], seen[1::2], strict=True):
        positional, named = expected
        names = ("fill_value",) if len(positional) > 1 or "fill_value" in named else ()
        assert [*found[0], *[found[1][name] for name in names if name in found[1]]][: len(positional)] == [*positional]
        assert {key: found[1][key] for key in named if key != "fill_value"} == {
            k: v for k, v in named.items() if k != "fill_value"
        }
        assert len(found[0]) + len(found[1]) == len(positional) + len(named)
