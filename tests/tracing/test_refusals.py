"""Every refusal is an error of functad, of the kind that Python or NumPy raises, with the user's line and a cure.

The functions come from the vocabulary, the conversions from the list below. What `functad.numpy` cures, the message says so:
each call is made with it, too.
"""

from __future__ import annotations

import array
import bisect
import cmath
import ctypes
import datetime as dt
import decimal
import fractions
import json
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
from functad import errors
from functad.primitives.entry import ENTRIES

LINE = re.escape(Path(__file__).name) + r":\d+"
CURE = r"\b([Uu]se|[Cc]all|Save|[Ww]rite|Draw|Make|Return|Pickle|instead of|Arrays compare|Leave)\b"
X = np.array([0.7, 1.3, 2.1])
TABLE = functad.coverage()
REFUSED = {f"np.{entry.name}": entry for entry in ENTRIES.values() if entry.status == "refused"}


def refusal(f: Callable[[Any], Any], transform: Any = functad.grad) -> str:
    """Return the message with which a function is refused under a transform; check that it is functad's, and complete."""

    def used(x: Any) -> Any:
        f(x)
        return np.sum(x)

    with pytest.raises(errors.FunctadError) as caught:
        transform(used)(X)
    message = str(caught.value)
    assert re.search(LINE, message), message
    assert re.search(CURE, message), message
    assert message.endswith(f"[{caught.value.code}]")
    return message


def test_all_functions_that_the_table_calls_refused_are_here() -> None:
    assert {row.function for row in TABLE if row.status == "refused"} == set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("transform", [functad.grad, functad.value_and_grad, functad.jacfwd, functad.make_expressions])
def test_refused_functions(name: str, transform: Any) -> None:
    def f(t: Any) -> Any:
        for args, kwargs in REFUSED[name].samples(lambda *shape: np.sum(t) * np.ones(shape)):
            REFUSED[name].function(*args, **kwargs)

    assert name in refusal(f, transform)


def _assigned(np: Any, math: Any, t: Any) -> Any:
    a = np.zeros(3)
    a[0] = t[0] * t[1]
    return np.sum(a)


def _added(np: Any, math: Any, t: Any) -> Any:
    a = np.zeros(3)
    a += t
    return np.sum(a)


def _filled(np: Any, math: Any, t: Any) -> Any:
    a = np.zeros(3)
    a.fill(t[0])
    return np.sum(a)


def _written(write: Callable[[Any, Any, Any], Any]) -> Call:
    """Return a conversion: a function that writes into an array of zeros."""

    def written(np: Any, math: Any, t: Any) -> Any:
        a = np.zeros((3, 3))
        write(np, a, t)
        return np.sum(a**2)

    return written


def _drawn(np: Any, math: Any, t: Any) -> Any:
    return np.random.default_rng(0).normal(t[0])


Call = Callable[[Any, Any, Any], Any]

# `np` and `math` are parameters, as they are globals of a module that one cannot edit and gives other ones.
CONVERSIONS: dict[str, Call] = {
    "np.array(t)": lambda np, math, t: np.sum(np.array(t)),
    "np.array([t0, t1])": lambda np, math, t: np.sum(np.array([t[0] * t[1], t[1]])),
    "np.asarray(t)": lambda np, math, t: np.sum(np.asarray(t) ** 2),
    "np.asanyarray(t)": lambda np, math, t: np.sum(np.asanyarray(t) ** 2),
    "np.ascontiguousarray(t)": lambda np, math, t: np.sum(np.ascontiguousarray(t) ** 2),
    "np.asfortranarray(t)": lambda np, math, t: np.sum(np.asfortranarray(t) ** 2),
    "np.require(t)": lambda np, math, t: np.sum(np.require(t) ** 2),
    "np.r_[t, 1]": lambda np, math, t: np.sum(np.r_[t, 1.0]),
    "np.c_[t, t]": lambda np, math, t: np.sum(np.c_[t, t]),
    "np.full(n, t)": lambda np, math, t: np.sum(np.full(3, t[0])),
    "np.float64(t)": lambda np, math, t: np.float64(t[0]) ** 2,
    "np.float32(t)": lambda np, math, t: np.float32(t[0]),
    "np.int64(t)": lambda np, math, t: np.int64(t[0]),
    "np.fromiter(t)": lambda np, math, t: np.sum(np.fromiter(t, float)),
    "np.vectorize": lambda np, math, t: np.sum(np.vectorize(lambda v: v * v)(t)),
    "np.arange(t)": lambda np, math, t: np.sum(np.arange(0.0, t[2], 0.5)),
    "np.piecewise": lambda np, math, t: np.sum(np.piecewise(np.ones(3), [np.ones(3) > 0], [lambda v: v * t[0]])),
    "np.from_dlpack(t)": lambda np, math, t: np.sum(np.from_dlpack(t)),
    "a[0] = t": _assigned,
    "a += t": _added,
    "a[t0]": lambda np, math, t: np.ones(3)[t[0]],
    "a.dot(t)": lambda np, math, t: np.sum(np.ones((3, 3)).dot(t)),
    "a.fill(t)": _filled,
    "np.copyto(a, t)": _written(lambda np, a, t: np.copyto(a, t)),
    "np.put(a, 0, t)": _written(lambda np, a, t: np.put(a, [0], t[0])),
    "a.put(0, t)": _written(lambda np, a, t: a.put([0], t[0])),
    "np.place(a, m, t)": _written(lambda np, a, t: np.place(a, a == 0, t)),
    "np.putmask(a, m, t)": _written(lambda np, a, t: np.putmask(a, a == 0, t)),
    "np.fill_diagonal(a, t)": _written(lambda np, a, t: np.fill_diagonal(a, t[0])),
    "np.add.at(a, i, t)": _written(lambda np, a, t: np.add.at(a, [0], t)),
    "np.add(out=a)": _written(lambda np, a, t: np.add(t, 1.0, out=a)),
    "np.put_along_axis(a, i, t)": _written(lambda np, a, t: np.put_along_axis(a, np.zeros((1, 3), int), t[None], 0)),
    "np.cumsum(out=a)": _written(lambda np, a, t: np.cumsum(t, out=a[0])),
    "np.matmul(out=a)": _written(lambda np, a, t: np.matmul(t[:, None], t[None], out=a)),
    "np.add.reduce(out=a)": _written(lambda np, a, t: np.add.reduce(t[:, None], 0, None, a[0, :1])),
    "np.sum(out=a)": _written(lambda np, a, t: np.sum(t[:, None], axis=0, out=a[0, :1])),
    "a[m] = t": _written(lambda np, a, t: operator.setitem(a, a == 0, t[0])),
    "rng.normal(t)": _drawn,
    "np.random.normal(t)": lambda np, math, t: np.random.normal(t[0]),
    "math.sin(t)": lambda np, math, t: math.sin(t[0]),
    "math.hypot(t)": lambda np, math, t: math.hypot(t[0], t[1]),
    "math.gamma(t)": lambda np, math, t: math.gamma(t[0]),
    "math.fsum(t)": lambda np, math, t: math.fsum(t),
    "math.isclose(t)": lambda np, math, t: math.isclose(t[0], 1.0),
    "math.floor(t)": lambda np, math, t: math.floor(t[0]),
    "math.dist(t)": lambda np, math, t: math.dist(t, [0.0, 0.0, 0.0]),
    "cmath.sin(t)": lambda np, math, t: cmath.sin(t[0]),
    "float(t)": lambda np, math, t: float(t[0]),
    "int(t)": lambda np, math, t: int(t[0]),
    "complex(t)": lambda np, math, t: complex(t[0]).real,
    "range(t)": lambda np, math, t: range(t[0]),
    "operator.index(t)": lambda np, math, t: operator.index(t[0]),
    "np.zeros(t)": lambda np, math, t: np.zeros(t[0]),
    "a.reshape(t)": lambda np, math, t: np.ones(3).reshape(t[0]),
    "hash(t)": lambda np, math, t: hash(t[0]),
    "t[t0]": lambda np, math, t: t[t[0]],
    "t.hex()": lambda np, math, t: t[0].hex(),
    "t.item()": lambda np, math, t: t[0].item(),
    "t.tolist()": lambda np, math, t: t.tolist(),
    "t.tobytes()": lambda np, math, t: t.tobytes(),
    "t.tofile()": lambda np, math, t: t.tofile("nowhere"),
    "t.dumps()": lambda np, math, t: t.dumps(),
    "t.data": lambda np, math, t: t.data,
    "t.ctypes": lambda np, math, t: t.ctypes,
    "t.astype(object)": lambda np, math, t: t.astype(object),
    "t.view(int)": lambda np, math, t: t.view(np.int64),
    "pickle": lambda np, math, t: pickle.dumps(t),
    "json.dumps(t0)": lambda np, math, t: json.dumps(t[0]),
    "json.dumps of a container": lambda np, math, t: json.dumps({"a": [t]}, indent=2),
    "statistics.fmean(t)": lambda np, math, t: statistics.fmean(t),
    "statistics.mean(t)": lambda np, math, t: statistics.mean(t),
    "fractions.Fraction(t)": lambda np, math, t: fractions.Fraction(t[0]),
    "array.array(t)": lambda np, math, t: array.array("d", t),
    "ctypes.c_double(t)": lambda np, math, t: ctypes.c_double(t[0]),
    # Asked of no method of the Tensor: what compiled code says of it is told in other words.
    "memoryview(t)": lambda np, math, t: memoryview(t),
    "np.frombuffer(t)": lambda np, math, t: np.frombuffer(t),
    "decimal.Decimal(t)": lambda np, math, t: decimal.Decimal(t[0]),
    "np.nditer([t])": lambda np, math, t: np.nditer([t]),
    "datetime.timedelta(t)": lambda np, math, t: dt.timedelta(seconds=t[0]),
}
KINDS = {"t[t0]": IndexError, "t.data": AttributeError, "t.ctypes": AttributeError}
"""What Python or NumPy raises, where it is no TypeError: functad's error is one of these too."""


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_are_refused_and_adoption_is_named_where_it_cures(name: str) -> None:
    call = CONVERSIONS[name]
    message = refusal(lambda t: call(np, math, t))
    with pytest.raises(KINDS.get(name, TypeError)):
        functad.grad(lambda t: call(np, math, t))(X)
    h = 1e-2  # single precision is among them
    try:
        found = functad.grad(lambda t: np.sum(t) + functad.adopt(call)(functad.numpy, functad.math, t))(X)
    except (errors.FunctadError, AttributeError):
        assert "functad.adopt" not in message
        return
    expected = [1 + (call(np, math, X + h * e) - call(np, math, X - h * e)) / (2 * h) for e in np.eye(3)]
    assert np.allclose(found, expected, atol=1e-3)
    assert "functad.adopt" in message or "functad.numpy" in message


# Python and NumPy raise these themselves and ask no method of the Tensor, or put their own error in the place of its. The
# reasons stand here, so that one that is given a hook some day is moved up.
WITHOUT_HOOK: dict[str, tuple[Callable[[Any], Any], str]] = {
    "struct.pack('d', t)": (lambda t: struct.pack("d", t[0]), "struct puts its own error in the place of that of __float__"),
    "float.hex(t)": (lambda t: float.hex(t[0]), "a method of a class of Python's takes objects of that class alone"),
    "a.flat[0] = t": (
        lambda t: np.ones(3).flat.__setitem__(0, t[0]),
        "NumPy puts its own error in the place of that of __float__",
    ),
    "np.datetime64(t)": (lambda t: np.datetime64(t[0]), "NumPy asks for the types that it knows, and for nothing else"),
    "np.random.default_rng(t)": (lambda t: np.random.default_rng(t[0]), "NumPy asks for integers, as for a float"),
    "t.__array_interface__": (
        lambda t: t.__array_interface__,
        "NumPy asks for it before __array__ whenever it makes an array, so it must be absent, and cheaply",
    ),
    "t.__array_struct__": (lambda t: t.__array_struct__, "the same"),
}


@pytest.mark.parametrize("name", WITHOUT_HOOK)
def test_what_gives_no_hook_raises_by_itself(name: str) -> None:
    call, reason = WITHOUT_HOOK[name]
    with pytest.raises((TypeError, ValueError, AttributeError, struct.error)) as caught:
        functad.grad(lambda t: call(t) or np.sum(t))(X)
    assert not isinstance(caught.value, errors.FunctadError), f"it has one now, though {reason}"


ALLOWED: dict[str, Callable[[Any], Any]] = {
    "'%.3f' % t": lambda t: "%.3f" % t[0],  # noqa: UP031
    "'%d' % t": lambda t: "%d of %s" % (t[1], "3"),  # noqa: UP031
    "f'{t:.3f}'": lambda t: f"{t[0]:.3f}",
    "str(t)": str,
    "repr(t)": repr,
    "np.array2string(t)": np.array2string,
    "bisect": lambda t: bisect.bisect([1.0, 2.0], t[0]),
    "bool(t)": lambda t: bool(t[0]),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_shows_or_compares_a_value_is_allowed(name: str) -> None:
    assert functad.grad(lambda t: (ALLOWED[name](t), np.sum(t))[1])(X).tolist() == [1.0, 1.0, 1.0]


def test_json_of_constants_is_refused_by_json() -> None:
    with pytest.raises(TypeError, match=r"^Object of type Tensor is not JSON serializable$"):
        json.dumps(functad.constant(1.0))
    assert json.dumps(functad.constant([1.0, 2.0]), default=lambda t: t.tolist()) == "[1.0, 2.0]"
    with pytest.raises(errors.ConversionError, match=r"is not JSON serializable.*stop_gradient\(t\)\.tolist\(\)"):
        functad.grad(lambda t: json.dumps([t]) or t)(1.0)
    assert functad.grad(lambda t: (json.dumps(functad.stop_gradient(t).tolist()), np.sum(t))[1])(X).tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("name", "value", "cure"), [("shape", (2, 1), "reshape"), ("dtype", np.float32, "astype"), ("strides", (16,), "as_strided")]
)
def test_attributes_that_cannot_be_assigned_name_the_line_and_the_cure(name: str, value: Any, cure: str) -> None:
    def assigned(x: Any) -> Any:
        t = x * 1.0
        setattr(t, name, value)
        return t.sum()

    with pytest.raises(errors.UnsupportedError, match=rf"t\.{name} = .*test_refusals.*{cure}") as found:
        functad.grad(assigned)(np.ones(2))
    assert isinstance(found.value, AttributeError)  # code tries it, and copies if it cannot be
