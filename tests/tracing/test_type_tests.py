"""A Tensor answers type tests as its value would, so that code of others takes the branch that it takes without a trace."""

from __future__ import annotations

import ast
import collections.abc
import copy
import functools
import inspect
import numbers
import operator
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import functad

X = np.array([0.5, -1.5])
KINDS = [
    np.ndarray, np.generic, np.floating, np.float64, np.float32, np.complexfloating, np.integer, np.bool_,
    float, int, complex, bool, list, tuple, str, numbers.Number, numbers.Complex, numbers.Real, numbers.Integral,
    collections.abc.Iterable, collections.abc.Sized, collections.abc.Collection, collections.abc.Hashable,
    collections.abc.Sequence,
]  # fmt: skip

VALUES = {
    "array": X,
    "array of complex numbers": X + 1j,
    "array of single precision": X.astype(np.float32),
    "array of shape ()": np.array(0.5),
    "NumPy number": np.float64(0.5),
    "NumPy number of single precision": np.float32(0.5),
    "Python number": 0.5,
    "Python complex number": 0.5 + 1j,
}


def answers(value):
    return {
        **{kind.__name__: isinstance(value, kind) for kind in KINDS},
        "isscalar": np.isscalar(value),
        "iterable": np.iterable(value),
        "class": value.__class__,
        "dispatched": _dispatched(value),
        "matched": _matched(value),
    }


@functools.singledispatch
def _dispatched(value):
    return "anything"


_dispatched.register(np.ndarray, lambda value: "array")
_dispatched.register(numbers.Real, lambda value: "real")


def _matched(value):
    match value:
        case float():
            return "float"
        case complex() | np.float32():
            return "other number"
        case np.ndarray():
            return "array"
    return "anything"


@pytest.mark.parametrize("name", VALUES)
def test_a_tensor_answers_as_its_value(name):
    value = VALUES[name]
    found = []

    def f(t):
        found.append(answers(t))
        assert isinstance(t, functad.Tensor)
        assert type(t) is functad.Tensor
        return t

    functad.vjp(f, value)
    functad.jvp(f, (value,), (value,))
    functad.vjp(lambda t: functad.vjp(f, t)[0], value)
    assert found == [answers(value)] * 3


def test_an_element_is_a_number_and_a_slice_an_array():
    def f(t):
        assert isinstance(t[0], float)
        assert np.isscalar(t[0])
        assert isinstance(np.sum(t), np.floating)
        assert isinstance(t[:1], np.ndarray)
        assert isinstance(np.sum(t)[None], np.ndarray)
        return np.sum(t)

    functad.grad(f)(X)
    with functad.GradientTape():
        f(functad.constant(X))
    f(functad.constant(X))


def test_abstract_traces_answer_by_shape_and_weakness():
    def f(array, number, python):
        assert isinstance(array, np.ndarray)
        assert not isinstance(array, float)
        assert isinstance(array[0], np.float64)
        assert isinstance(number, np.float64)
        assert type(number) is functad.Tensor
        assert isinstance(python, float)
        assert not isinstance(python, np.generic)
        return array

    functad.make_expressions(f)(X, np.float64(1.0), 1.0)
    functad.vmap(lambda row: f(row, row[0], 1.0))(np.ones((2, 2)))


def test_a_view_that_was_written_to_answers_without_being_read():
    def f(t):
        t = t * 1
        part = t[:1]
        t[0] = 3.0
        assert isinstance(part, np.ndarray)
        return np.sum(part) + np.sum(t)

    np.testing.assert_array_equal(functad.grad(f)(X), [0.0, 1.0])


@pytest.mark.parametrize("value", [X, np.float64(1.0), 1.0], ids=["array", "NumPy number", "Python number"])
def test_length_and_iteration(value):
    def f(t):
        assert hasattr(t, "__len__") == hasattr(value, "__len__")
        if np.ndim(value):
            assert len(t) == 2
            assert len(list(t)) == 2
        else:
            with pytest.raises(TypeError, match="shape"):
                len(t)
            with pytest.raises(TypeError, match="iteration"):
                iter(t)
        return t

    functad.vjp(f, value)


def test_copies_texts_and_pickles_know_the_tensor():
    def f(t):
        assert type(copy.copy(t)) is type(copy.deepcopy(t)) is functad.Tensor
        assert repr(t) == f"Tensor({X!r})"
        assert f"{t[0]:.2f}" == "0.50"
        return np.sum(copy.copy(t) * copy.deepcopy(t))

    np.testing.assert_array_equal(functad.grad(f)(X), 2 * X)
    again = pickle.loads(pickle.dumps(functad.constant(X)))
    assert type(again) is functad.Tensor
    assert isinstance(again, np.ndarray)


def test_python_can_still_describe_the_class():
    assert functad.Tensor in inspect.getmro(functad.Tensor)
    assert issubclass(functad.Tensor, functad.Tensor)
    assert not issubclass(functad.Tensor, np.ndarray)


def test_a_branch_for_arrays_is_taken():
    def mean(x):
        if isinstance(x, np.ndarray):
            return np.sum(x) / x.size
        return sum(x) / len(x) * 0 + 100.0

    np.testing.assert_array_equal(functad.grad(mean)(X), [0.5, 0.5])


def test_fractions_are_numbers():
    half = Fraction(1, 2)
    f = lambda x: half * x + x * half + x / half - half / x + (half - x) * (x - half) + x**half  # noqa: E731
    for x in (1.5, np.float64(1.5)):
        functad.testing.check_grads(f, [x])
    functad.testing.check_grads(lambda x: np.sum(half * x + x * half), [X])


@pytest.mark.parametrize("x", [0.25, 0.5, np.float64(0.75), np.array(0.25), X])
def test_fractions_are_compared_with_tensors(x):
    half = Fraction(1, 2)
    comparisons = operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne

    def f(t):
        for compare in comparisons:
            for wanted, found in ((compare(half, x), compare(half, t)), (compare(x, half), compare(t, half))):
                assert np.shape(found) == np.shape(wanted)
                np.testing.assert_array_equal(found, wanted)
        return np.sum(t)

    functad.grad(f)(x)


def test_powers_have_no_modulus():
    with pytest.raises(functad.errors.UnsupportedError, match="modulus"):
        functad.grad(lambda t: pow(t, 2, 5))(3.0)
    with pytest.raises(functad.errors.UnsupportedError, match="modulus"):
        pow(functad.Variable(3.0), 2, 5)


def test_functad_itself_asks_by_type():
    """`isinstance(value, np.ndarray)` holds for Tensors too, so within functad it is a trap: `issubclass(type(value), ...)`."""
    asked = {"np.ndarray", "_ndarray", "np.generic", "np.floating", "np.number"}
    plain = {"ownership.py", "writing.py", "saving.py", "minimize.py"}  # these files test for plain arrays, never for Tensors
    root = Path(functad.__file__).parent
    paths = [path for path in root.rglob("*.py") if path.name not in plain and root / "testing" not in path.parents]
    found = []
    for path in paths:
        text = path.read_text()
        if "isinstance" not in text or not any(name in text for name in asked):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
                if asked.intersection(map(ast.unparse, kinds)):
                    found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_python_rounds_a_python_number():
    assert functad.grad(lambda x: round(x) * x if type(round(x)) is int else 0.0 * x)(2.6) == 3.0
    assert functad.grad(lambda x: round(x, 1) * x if isinstance(round(x, 1) + x, float) else 0.0 * x)(2.64) == 2.6
