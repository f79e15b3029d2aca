"""What would silently cut a derivative raises, names the user's file and line, and says what to write instead (D10)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError, ConversionError, UnsupportedError

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


CONVERSIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("np.array([t0, t1])", lambda t: np.array([t[0], t[1]])),
    ("np.array([t])", lambda t: np.array([t])),
    ("np.array(t)", np.array),
    ("np.asarray(t)", np.asarray),
    ("np.asarray([t0])", lambda t: np.asarray([t[0], 1.0])),
    ("np.asanyarray(t)", np.asanyarray),
    ("np.ascontiguousarray(t)", np.ascontiguousarray),
    ("np.array of float", lambda t: np.array(t, dtype=float)),
    ("np.fromiter(t)", lambda t: np.fromiter(t, float)),
    ("float(t)", lambda t: float(t[0])),
    ("int(t)", lambda t: int(t[0])),
    ("complex(t)", lambda t: complex(t[0])),
    ("math.sin(t)", lambda t: math.sin(t[0])),
    ("math.floor(t)", lambda t: math.floor(t[0])),
    ("t.item()", lambda t: t[0].item()),
    ("t.tolist()", lambda t: t.tolist()),
    ("a[0] = t", _assign),
    ("a[:] = t", _assign_slice),
    ("a += t", _add_into),
    ("np.add.at(a, i, t)", _add_at),
    ("a.dot(t)", lambda t: PLAIN.dot(t)),
    ("np.full(n, t)", lambda t: np.full(3, t[0])),
    ("np.arange(t)", lambda t: np.arange(t[0])),
    ("np.vectorize", lambda t: np.vectorize(math.sin)(t)),
    ("rng.normal(t)", lambda t: np.random.default_rng(0).normal(t)),
    ("np.float64(t)", lambda t: np.float64(t[0])),
    ("np.fill_diagonal", lambda t: np.fill_diagonal(PLAIN.copy(), t)),
    ("np.copyto", lambda t: np.copyto(np.zeros(3), t)),
    ("out=", lambda t: np.add(t, 1.0, out=np.zeros(3))),
]


@pytest.mark.parametrize("convert", [row[1] for row in CONVERSIONS], ids=[row[0] for row in CONVERSIONS])
def test_conversion_raises_where_it_stands(convert: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        convert(x)
        return np.sum(x)

    with pytest.raises((ConversionError, UnsupportedError)) as caught:
        functad.grad(f)(np.array([1.0, 2.0, 3.0]))
    message = str(caught.value)
    assert re.search(rf"{FILE}:\d+", message), message
    assert re.search(r"\b[Uu]se\b|\bwrite\b|instead|Make a new array|stop_gradient", message), message


@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        (lambda t: np.array([t[0]]), ["np.stack", "np.asarray(t)"]),
        (lambda t: float(t[0]), ["float()", "stop_gradient"]),
        (lambda t: math.exp(t[0]), ["float()", "np functions instead of math"]),
        (lambda t: PLAIN.dot(t), ["A @ t"]),
        (_assign, ["Assignment into a plain array", "np.where", "np.concatenate"]),
        (_assign_slice, ["np.where", "np.concatenate"]),
        (lambda t: t.tolist(), ["list(t)"]),
    ],
)
def test_conversion_tells_the_cure(convert: Callable[[Any], Any], expected: list[str]) -> None:
    with pytest.raises(ConversionError) as caught:
        functad.grad(lambda x: convert(x))(np.ones(3))
    for text in expected:
        assert text in str(caught.value)
    assert str(caught.value).endswith("[conversion]")


def test_line_of_the_conversion_is_named() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        z = y * 2
        return np.asarray(z).sum()

    line = f.__code__.co_firstlineno + 3
    with pytest.raises(ConversionError, match=rf"{FILE}:{line}\b"):
        functad.grad(f)(np.ones(3))


def test_no_object_array_is_made() -> None:
    """Whatever a route does, it must not end in an array of Tensors."""

    def f(x: Any) -> Any:
        made = []
        for route in (lambda: np.array([x[0], x[1]], dtype=object), lambda: np.asarray(x, dtype=object)):
            try:
                made.append(route())
            except ConversionError:
                continue
        assert not made
        return x.sum()

    functad.grad(f)(np.ones(2))


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
