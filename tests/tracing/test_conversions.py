"""What would silently cut a derivative raises, names the user's file and line, and says what to write instead (D10)."""

from __future__ import annotations

import array
import copy
import ctypes
import decimal
import fractions
import json
import logging
import math
import operator
import pickle
import re
import statistics
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import (
    AbstractValueError,
    ConversionError,
    EscapedTensorError,
    NonScalarError,
    OutputError,
    UnsupportedError,
)

FILE = re.escape(Path(__file__).name)
PLAIN = np.ones((3, 3))


def _assign(t: Any) -> None:
    a = np.zeros(3)
    a[0] = t[0]


def _assign_slice(t: Any) -> None:
    a = np.zeros(3)
    a[:] = t


def _add_into(t: Any) -> None:
    a = np.zeros(3)
    a += t


def _add_at(t: Any) -> None:
    a = np.zeros(3)
    np.add.at(a, [0], t[0])


def _assign_integer(t: Any) -> None:
    a = np.zeros(3, int)
    a[0] = t[0]


def _assign_complex(t: Any) -> None:
    a = np.zeros(3, complex)
    a[0] = t[0]


def _subtract_from(t: Any) -> None:
    a = np.zeros((2, 3))
    a[0] -= t


RNG = np.random.default_rng(0)
Route = Callable[[Any], Any]

# Each row: the call, and what the message tells to write instead.
CONVERSIONS: list[tuple[str, Route, str]] = [
    ("np.array([t0, t1])", lambda t: np.array([t[0], t[1]]), "np.stack"),
    ("np.array([t])", lambda t: np.array([t]), "np.stack"),
    ("np.array(t)", np.array, "np.stack"),
    ("np.array([[t0, 1], [2, t1]])", lambda t: np.array([[t[0], 1.0], [2.0, t[1]]]), "np.stack"),
    ("np.array of float", lambda t: np.array(t, dtype=float), "For t itself no np.array is needed"),
    ("np.array of object", lambda t: np.array([t[0], t[1]], dtype=object), "np.stack"),
    ("np.array ragged", lambda t: np.array([t, [t[0]]], dtype=object), "np.stack"),
    ("np.asarray(t)", lambda t: np.asarray(t), "t itself"),
    ("np.asarray([t0])", lambda t: np.asarray([t[0], 1.0]), "t itself"),
    ("np.asarray of object", lambda t: np.asarray(t, dtype=object), "t itself"),
    ("np.asanyarray(t)", lambda t: np.asanyarray(t), "t itself"),
    ("np.ascontiguousarray(t)", lambda t: np.ascontiguousarray(t), "t itself"),
    ("np.asfortranarray(t)", lambda t: np.asfortranarray(t), "t itself"),
    ("np.require(t)", lambda t: np.require(t), "t itself"),
    ("np.ma.array(t)", lambda t: np.ma.array(t), "np.stack"),
    ("np.rec.fromarrays([t])", lambda t: np.rec.fromarrays([t]), "stop_gradient"),
    ("np.r_", lambda t: np.r_[t, 1.0], "np.concatenate"),
    ("np.c_", lambda t: np.c_[t, t], "axis=1"),
    ("np.mgrid", lambda t: np.mgrid[0 : t[0]], "stop_gradient"),
    ("np.fromiter(t)", lambda t: np.fromiter(t, float), "np.stack(list("),
    ("np.fromiter(generator)", lambda t: np.fromiter((v * v for v in t), float, 3), "np.stack(list("),
    ("np.float64(t)", lambda t: np.float64(t[0]), "t.astype(np.float64)"),
    ("np.float32(t)", lambda t: np.float32(t), "t.astype(np.float32)"),
    ("np.int64(t)", lambda t: np.int64(t[0]), "stop_gradient"),
    ("np.bool_(t)", lambda t: np.bool_(t[0]), "stop_gradient"),
    ("float(t)", lambda t: float(t[0]), "stop_gradient"),
    ("int(t)", lambda t: int(t[0]), "stop_gradient"),
    ("complex(t)", lambda t: complex(t[0]), "stop_gradient"),
    ("math.sin(t)", lambda t: math.sin(t[0]), "np functions instead of math"),
    ("math.floor(t)", lambda t: math.floor(t[0]), "np.floor(t)"),
    ("math.ceil(t)", lambda t: math.ceil(t[0]), "np.ceil(t)"),
    ("math.isclose(t)", lambda t: math.isclose(t[0], 1.0), "np functions instead of math"),
    ("math.fsum(t)", math.fsum, "np functions instead of math"),
    ("math.dist(t)", lambda t: math.dist(t, [0.0, 0.0, 0.0]), "np.linalg.norm"),
    ("statistics.fmean(t)", lambda t: statistics.fmean(t), "np.mean"),
    ("array.array(t)", lambda t: array.array("d", t), "np.stack"),
    ("ctypes", lambda t: ctypes.c_double(t[0]), "stop_gradient"),
    ("t.item()", lambda t: t[0].item(), "t[i]"),
    ("t.tolist()", lambda t: t.tolist(), "list(t)"),
    ("pickle.dumps(t)", lambda t: pickle.dumps(t), "stop_gradient"),
    ("pickle of a container", lambda t: pickle.dumps({"a": [t]}), "stop_gradient"),
    ("a[0] = t", _assign, "np.where"),
    ("a[0] = t, integers", _assign_integer, "np.where"),
    ("a[0] = t, complex", _assign_complex, "np.where"),
    ("a[:] = t", _assign_slice, "np.concatenate"),
    ("a += t", _add_into, "a = a + t"),
    ("a[0] -= t", _subtract_from, "np.zeros(shape, like=t)"),
    ("a[:] = t, where it is made", _assign_slice, "np.zeros(shape, like=t)"),
    ("a.dot(t)", lambda t: PLAIN.dot(t), "A @ t"),
    ("a.fill(t)", lambda t: PLAIN.copy().fill(t[0]), "np.broadcast_to"),
    ("a.choose([t, t])", lambda t: np.array([0, 1]).choose([t[:2], t[:2]]), "stop_gradient"),
    ("a.searchsorted(t)", lambda t: np.arange(3.0).searchsorted(t), "stop_gradient"),
    ("a.sum(initial=t)", lambda t: PLAIN.sum(initial=t[0]), "stop_gradient"),
    ("a.repeat(t)", lambda t: PLAIN.repeat(t[0]), "stop_gradient"),
    ("np.full(n, t)", lambda t: np.full(3, t[0]), "np.broadcast_to(t, shape)"),
    ("np.arange(t)", lambda t: np.arange(t[0]), "np.linspace"),
    ("np.arange(0, t)", lambda t: np.arange(0, t[0], 0.5), "np.linspace"),
    ("range(t)", lambda t: range(t[0]), "int(functad.stop_gradient(t))"),
    ("operator.index(t)", lambda t: operator.index(t[0]), "int(functad.stop_gradient(t))"),
    ("a[t]", lambda t: PLAIN[t], "np.interp"),
    ("a[t0]", lambda t: PLAIN[t[0]], "functad.stop_gradient(t).astype(int)"),
    ("a[t0:]", lambda t: PLAIN[t[0] :], "np.interp"),
    ("list[t0]", lambda t: [1, 2][t[0]], "np.interp"),
    ("np.vectorize(f)(t)", lambda t: np.vectorize(lambda v: v * v)(t), "whole arrays"),
    ("np.vectorize(math.sin)", lambda t: np.vectorize(math.sin)(t), "whole arrays"),
    ("np.vectorize of Tensors", lambda t: np.vectorize(lambda i: t[i])(np.arange(3)), "whole arrays"),
    ("np.vectorize, otypes", lambda t: np.vectorize(lambda i: t[i], otypes=[float])(np.arange(3)), "whole arrays"),
    ("np.vectorize, signature", lambda t: np.vectorize(lambda v: v.sum(), signature="(n)->()")(t), "whole arrays"),
    ("np.piecewise", lambda t: np.piecewise(PLAIN, [PLAIN > 0], [lambda v: v * t[0]]), "np.select"),
    ("np.apply_along_axis", lambda t: np.apply_along_axis(lambda r: r.sum() * t[0], 0, PLAIN), "np.stack"),
    ("rng.normal(t)", lambda t: RNG.normal(t), "rng.normal(size=n)"),
    ("rng.normal(scale=t)", lambda t: RNG.normal(0.0, t[0], size=3), "rng.normal(size=n)"),
    ("rng.choice(p=t)", lambda t: RNG.choice(3, p=t / 6), "stop_gradient"),
    ("rng.permutation(t)", lambda t: RNG.permutation(t), "stop_gradient"),
    ("np.random.normal(t)", lambda t: np.random.normal(t), "rng.normal(size=n)"),  # noqa: NPY002
    ("np.random.poisson(t)", lambda t: np.random.poisson(t), "stop_gradient"),  # noqa: NPY002
    ("t.astype(object)", lambda t: t.astype(object), "stop_gradient"),
    ("t.astype(str)", lambda t: t.astype(str), "stop_gradient"),
    ("np.add, dtype=object", lambda t: np.add(t, 1.0, dtype=object), "stop_gradient"),
    ("np.sum, dtype=object", lambda t: np.sum(t, dtype=object), "stop_gradient"),
    ("objects * t", lambda t: np.array([1, 2, 3], object) * t, "np.stack(list(a))"),
    ("t * objects", lambda t: t * np.array([1, 2, 3], object), "np.stack(list(a))"),
    ("np.multiply(objects, t)", lambda t: np.multiply(np.array([1, 2, 3], object), t), "np.stack(list(a))"),
    ("np.concatenate([objects, t])", lambda t: np.concatenate([np.array([1], object), t]), "np.stack(list(a))"),
    ("np.where with objects", lambda t: np.where([True, False, True], t, np.array([1, 2, 3], object)), "np.stack(list(a))"),
    ("np.polynomial", lambda t: np.polynomial.Polynomial(t), "stop_gradient"),
    ("np.ndenumerate(t)", lambda t: list(np.ndenumerate(t)), "stop_gradient"),
    ("np.broadcast(t)", lambda t: np.broadcast(t, PLAIN), "np.broadcast_shapes"),
]


@pytest.mark.parametrize(("convert", "cure"), [row[1:] for row in CONVERSIONS], ids=[row[0] for row in CONVERSIONS])
def test_conversion_raises_where_it_stands_and_tells_the_cure(convert: Route, cure: str) -> None:
    def f(x: Any) -> Any:
        convert(x)
        return np.sum(x)

    for differentiate in (functad.grad, functad.jacobian, functad.value_and_grad):
        with pytest.raises(ConversionError) as caught:
            differentiate(f)(np.array([1.0, 2.0, 3.0]))
        message = str(caught.value)
        assert message.endswith("[conversion]")
        assert cure in message
        line = int(re.search(rf"{FILE}:(\d+)", message)[1])
        code = getattr(convert, "__code__", f.__code__)
        assert line in {number for *_, number in code.co_lines()}


def test_message_shows_the_expression() -> None:
    def f(x: Any) -> Any:
        return x + np.array(
            [x[0], x[1]],
        )

    with pytest.raises(ConversionError, match=r"`np\.array\( \[x\[0\], x\[1\]\], \)` at "):
        functad.grad(f)(np.ones(2))


def test_message_without_source_tells_the_cure() -> None:
    names: dict[str, Any] = {"np": np}
    exec("def f(x):\n    return np.sum(np.asarray(x))", names)
    with pytest.raises(ConversionError, match=r"Conversion to an array .* at <string>:2, .* np\.stack"):
        functad.grad(names["f"])(np.ones(2))


WRITES: list[tuple[str, Route]] = [
    ("np.add.at(a, i, t)", _add_at),
    ("np.fill_diagonal", lambda t: np.fill_diagonal(PLAIN.copy(), t)),
    ("np.copyto", lambda t: np.copyto(np.zeros(3), t)),
    ("np.full_like(a, t)", lambda t: np.full_like(PLAIN, t[0])),
    ("out=", lambda t: np.add(t, 1.0, out=np.zeros(3))),
    ("out= of objects", lambda t: np.add(t, 1.0, out=np.zeros(3, object))),
    ("a.put(t)", lambda t: PLAIN.copy().put([0], t[0])),
    ("np.place", lambda t: np.place(PLAIN.copy(), PLAIN > 0, t)),
    ("np.putmask", lambda t: np.putmask(PLAIN.copy(), PLAIN > 0, t)),
    ("np.frompyfunc(f)(t)", lambda t: np.frompyfunc(lambda v: v * 2, 1, 1)(t)),
    ("np.poly1d(t)", lambda t: np.poly1d(t)),
]


@pytest.mark.parametrize("write", [row[1] for row in WRITES], ids=[row[0] for row in WRITES])
def test_what_may_not_be_written_or_called_raises_or_keeps_the_gradient(write: Route) -> None:
    def f(x: Any) -> Any:
        out = write(x)
        return np.sum(x) if out is None else np.sum(x) + 0 * np.sum(out)

    message = ""
    try:
        gradient = functad.grad(f)(np.array([1.0, 2.0, 3.0]))
    except (ConversionError, UnsupportedError) as error:
        message = str(error)
    else:
        assert gradient.tolist() == [1.0, 1.0, 1.0]
        return
    assert re.search(rf"{FILE}:\d+", message)
    assert re.search(r"\b[Uu]se\b|\bwrite\b|instead|Make a new array|stop_gradient", message)


# Python and NumPy raise these errors themselves, in C, before any method of a Tensor could: nothing is lost silently.
OTHERS: list[tuple[str, Route, type[Exception]]] = [
    ("json.dumps(t)", lambda t: json.dumps({"a": t}), TypeError),
    ("statistics.mean(t)", lambda t: statistics.mean(t), TypeError),
    ("decimal.Decimal(t)", lambda t: decimal.Decimal(t[0]), TypeError),
    ("fractions.Fraction(t)", lambda t: fractions.Fraction(t[0]), TypeError),
    ("struct.pack(t)", lambda t: struct.pack("d", t[0]), struct.error),
    ("memoryview(t)", memoryview, TypeError),
    ("np.frombuffer(t)", lambda t: np.frombuffer(t), TypeError),
    ("np.nditer(t)", lambda t: np.nditer(t), TypeError),
    ("np.from_dlpack(t)", lambda t: np.from_dlpack(t), ConversionError),
    ("a.flat[0] = t", lambda t: PLAIN.copy().flat.__setitem__(0, t[0]), ValueError),
    ("np.datetime64(t)", lambda t: np.datetime64(t[0]), ValueError),
    ("hash(t)", lambda t: {t[0]}, TypeError),
    ("t[t0]", lambda t: t[t[0]], IndexError),
    ("a.reshape(t)", lambda t: PLAIN.reshape(t[0]), TypeError),
    ("math.trunc(t)", lambda t: math.trunc(t[0]), TypeError),
]


@pytest.mark.parametrize(("convert", "kind"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_other_ways_out_raise_too(convert: Route, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        functad.grad(lambda x: convert(x) or np.sum(x))(np.array([1.0, 2.0, 3.0]))


def test_a_constant_that_is_no_integer_is_no_index() -> None:
    for plain in (np.float64(2.0), 2.0, np.array([1.0, 2.0])):
        with pytest.raises(TypeError):
            operator.index(functad.constant(plain))
        with pytest.raises(TypeError):
            operator.index(plain)
    with pytest.raises(TypeError):
        range(functad.constant(2.0))
    assert list(range(functad.constant(2))) == [0, 1]


def test_json_names_the_tensor() -> None:
    with pytest.raises(TypeError, match="Tensor is not JSON serializable"):
        functad.grad(lambda x: json.dumps([x]) or x)(1.0)


def test_line_of_the_conversion_is_named() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        z = y * 2
        return np.asarray(z).sum()

    line = f.__code__.co_firstlineno + 3
    with pytest.raises(ConversionError, match=rf"{FILE}:{line}\b"):
        functad.grad(f)(np.ones(3))


def _into_objects(t: Any) -> Any:
    a = np.empty(3, object)
    for i in range(3):
        a[i] = t[i] * t[i]
    return a


# NumPy makes these arrays of objects without asking the Tensors in them.
OBJECT_ARRAYS: list[tuple[str, Route]] = [
    ("np.fromiter", lambda t: np.fromiter((v * v for v in t), object)),
    ("np.frompyfunc", lambda t: np.frompyfunc(lambda i: t[i] * t[i], 1, 1)(np.arange(3))),
    ("np.vectorize", lambda t: np.vectorize(lambda i: t[i] * t[i], otypes=[object])(np.arange(3))),
    ("a[i] = t", _into_objects),
]


@pytest.mark.parametrize("make", [row[1] for row in OBJECT_ARRAYS], ids=[row[0] for row in OBJECT_ARRAYS])
def test_no_route_ends_in_an_object_array(make: Route) -> None:
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(OutputError, match=r"array of dtype object.*np\.stack"):
        functad.jacobian(make)(x)
    with pytest.raises(OutputError, match=r"array of dtype object.*np\.stack"):
        functad.vjp(make, x)
    with pytest.raises(OutputError, match=r"array of dtype object.*np\.stack"):
        functad.jvp(make, (x,), (x,))
    with pytest.raises(OutputError, match=r"array of dtype object.*np\.stack"):
        functad.make_expressions(make)(x)
    for combine in (operator.add, operator.mul, np.subtract, lambda a, t: np.stack([a, t]), lambda a, t: t / a):
        with pytest.raises(ConversionError, match=rf"array of objects.*np\.stack|{FILE}"):
            functad.grad(lambda t, combine=combine: np.sum(combine(make(t), t)))(x)
    with pytest.raises(TypeError):
        functad.grad(lambda t: np.sum(np.sin(make(t))))(x)
    with pytest.raises(ConversionError, match="float"):
        functad.grad(lambda t: np.sum(make(t).astype(float)))(x)
    # The cure that the messages name, and what Python's own operators do, are right.
    assert functad.grad(lambda t: np.sum(np.stack(list(make(t)))))(x).tolist() == [2.0, 4.0, 6.0]
    assert functad.grad(lambda t: np.sum(make(t)))(x).tolist() == [2.0, 4.0, 6.0]


def test_object_array_is_no_result_of_any_trace() -> None:
    x, objects = np.array([1.0, 2.0]), np.array([1, 2], object)
    with pytest.raises(OutputError, match="dtype object"):
        functad.jvp(lambda t: t * objects, (x,), (x,))
    with pytest.raises(OutputError, match="dtype object"):
        functad.make_expressions(lambda t: objects)(x)
    with pytest.raises(functad.errors.UnsupportedError, match=r"array of Python objects.*test_conversions.py"):
        functad.make_expressions(lambda t: t * objects)(x)


def test_object_that_is_no_array_is_no_result() -> None:
    with pytest.raises(NonScalarError, match=r"object\[\]"):
        functad.grad(lambda x: np.array(None))(1.0)


def test_text_shows_values() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.extend([f"{x[0]:.2f}", "%.2f" % x[0], format(x[1], ".1f"), str(x[0]), f"{x}"])  # noqa: UP031
        seen.append("%.3g " % x[0] + "%g" % (x[1] * 2))  # noqa: UP031
        return np.sum(x * x)

    assert functad.grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert seen == ["1.00", "1.00", "2.0", "Tensor(np.float64(1.0))", "[1. 2.]", "1 4"]


def test_logging_shows_values(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        logging.getLogger("test").warning("loss %.2f", x)
        return x * x

    assert functad.grad(f)(3.0) == 6.0
    assert caplog.messages == ["loss 3.00"]


def test_remainder_of_a_number_is_no_text() -> None:
    assert functad.grad(lambda x: 5.0 % x)(3.0) == -1.0
    with pytest.raises(ConversionError):
        functad.grad(lambda x: 5 % float(x))(3.0)


def test_comparisons_of_numpy_testing_see_values() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        np.testing.assert_allclose(y, np.sin([1.0, 2.0]))
        np.testing.assert_array_equal(x, [1.0, 2.0])
        np.testing.assert_array_less(x, y + 5)
        with pytest.raises(AssertionError, match="Mismatched elements"):
            np.testing.assert_allclose(x, [1.0, 2.5])
        return np.sum(x * y)

    expected = np.sin([1.0, 2.0]) + np.array([1.0, 2.0]) * np.cos([1.0, 2.0])
    assert np.allclose(functad.grad(f)(np.array([1.0, 2.0])), expected)
    assert functad.grad(functad.grad(lambda x: np.testing.assert_allclose(x, 2.0) or x**3))(2.0) == 12.0


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: copy.deepcopy({"a": [t]})["a"][0]])
def test_copies_are_differentiable(duplicate: Route) -> None:
    assert functad.grad(lambda x: np.sum(duplicate(x) * x))(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_escaped_tensor_is_named_with_both_lines() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * x)
        return x

    functad.grad(f)(1.0)
    made, used = f.__code__.co_firstlineno + 1, f.__code__.co_firstlineno + 7
    with pytest.raises(EscapedTensorError, match=rf"ended, at .*{FILE}:{used}\. .* made at .*{FILE}:{made}\."):
        kept[0] + 1
    for use in (float, np.asarray, pickle.dumps, lambda t: f"{t + 1}", bool):
        with pytest.raises(EscapedTensorError):
            use(kept[0])


@pytest.mark.parametrize(
    ("ask", "cure"),
    [
        (lambda n: [0.0 for _ in range(n)], "lengths from shapes"),
        (lambda n: [1, 2, 3][n], r"functad\.numpy\.array\(a\)\[t\]"),
        (lambda n: n if n > 0 else -n, r"np\.where"),
        (lambda n: np.ones(3)[n > 0] * n, r"np\.where"),
        (lambda n: (n + np.ones(3))[n + np.ones(3) > 0], r"np\.where\(mask"),
    ],
)
def test_control_flow_without_values_tells_the_cure(ask: Route, cure: str) -> None:
    with pytest.raises(AbstractValueError, match=rf"{FILE}:\d+.*{cure}"):
        functad.make_expressions(ask)(2)


@pytest.mark.parametrize(
    "ask",
    [bool, float, int, operator.index, np.asarray, lambda t: t.item(), lambda t: t if t > 0 else -t, lambda t: float(t)],
)
def test_abstract_tensors_have_no_value(ask: Callable[[Any], Any]) -> None:
    with pytest.raises((AbstractValueError, TypeError)) as caught:
        functad.make_expressions(ask)(1.0)
    if isinstance(caught.value, AbstractValueError):
        assert re.search(rf"{FILE}:\d+", str(caught.value))


def test_value_dependent_branch_of_an_abstract_trace_is_explained() -> None:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(AbstractValueError, match=rf"bool\(\).*{FILE}:{f.__code__.co_firstlineno + 1}.*np\.where"):
        functad.make_expressions(f)(1.0)


def test_values_are_there_in_a_concrete_trace() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.extend([bool(x[0] > 0), len(x), x.shape, x.ndim, x.dtype, x.size, f"{x[0]:.1f}", 2.0 in x])
        while x[0] > 1:
            x = x / 2
        return x.sum()

    assert np.array_equal(functad.grad(f)(np.array([3.0, 2.0])), [0.25, 0.25])
    assert seen == [True, 2, (2,), 1, np.float64, 2, "3.0", True]


def test_integer_tensors_may_be_an_index() -> None:
    def f(x: Any) -> Any:
        return x[np.argmax(x)] + x[np.argsort(x)[0]] * 3

    assert np.array_equal(functad.grad(f)(np.array([1.0, 5.0, 2.0])), [3.0, 1.0, 0.0])


def test_unknown_function_names_the_nearest() -> None:
    with pytest.raises(UnsupportedError, match=rf"np\.savetxt|has no derivative rule.*{FILE}"):
        functad.grad(lambda x: np.savetxt("nowhere", x))(np.ones(3))


def test_stop_gradient_is_the_way_out() -> None:
    assert functad.grad(lambda x: x * float(functad.stop_gradient(x)))(3.0) == 3.0
    assert functad.grad(lambda x: np.sum(x * np.asarray(functad.stop_gradient(x))))(np.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("transform", [functad.grad, functad.jit])
def test_routines_of_lapack_name_the_function_with_a_derivative(transform: Callable[..., Any]) -> None:
    lapack = pytest.importorskip("scipy.linalg.lapack", reason="SciPy is an extra")
    linalg = pytest.importorskip("functad.scipy.linalg", reason="SciPy is an extra")
    off, b = np.ones(2), np.ones(3)

    def tridiagonal(d: Any) -> Any:
        return np.sum(lapack.dgtsv(off, d, off, b)[3])

    def cured(d: Any) -> Any:
        ab = np.stack([np.array([0.0, 1.0, 1.0]), d, np.array([1.0, 1.0, 0.0])])
        return np.sum(linalg.solve_banded((1, 1), ab, b))

    d = np.array([3.0, 4.0, 5.0])
    with pytest.raises(
        (ConversionError, AbstractValueError), match=r"dgtsv .* Use functad\.scipy\.linalg\.solve_banded\(\(l, u\)"
    ):
        transform(tridiagonal)(d)
    np.testing.assert_allclose(cured(d), tridiagonal(d), rtol=1e-13)
    assert np.all(np.isfinite(functad.grad(cured)(d)))
    with pytest.raises((ConversionError, AbstractValueError), match=r"functad\.scipy\.linalg\.cholesky\. \["):
        transform(lambda d: np.sum(lapack.dpotrf(np.diag(d))[0]))(d)
