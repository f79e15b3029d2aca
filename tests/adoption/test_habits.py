"""What code of others does with arrays, that adopted code may do with Tensors: each habit is a function of one module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, FunctadError, UnsupportedError
from functad.testing import check_grads

TEXT = """
import numbers

import numpy
import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy import interpolate, sparse


def by_item(a):
    return np.asarray(a[0] * a[1]).item() * a.item(1) + a.reshape(2, 1).item(1, 0)


def by_tolist(a):
    (x, y), z = np.array([a, a * a]).tolist()[0], np.asarray(a[0]).tolist()
    return x * y + z * np.sum(a)


def by_exact_type(a):
    if type(a) != np.ndarray or not issubclass(type(a[0]), numbers.Real):
        raise TypeError("arrays of numbers only")
    return (a * a).sum()


class Quantity:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)


def by_float_method(a):
    return float(Quantity(a[0])) * float(Quantity(a[1]))


def by_pieces(a):
    x = np.array([0.5, 2.5])
    return np.piecewise(x, [x <= a[1], x > a[1]], [lambda v: v * a[0], a[0] ** 2]).sum()


def by_strides(a):
    x = np.concatenate([a, a * a, a**3])
    frames = as_strided(x, (3, 4), (x.strides[0], x.strides[0]))
    return (frames * np.arange(12).reshape(3, 4)).sum() + np.lib.stride_tricks.as_strided(x, (2,), (16,)).prod()


def by_strides_of_a_part(a):
    x = np.concatenate([a, a * a])
    frames = as_strided(x[1:], (2, 2), (-8, 8))
    return (frames * np.arange(4).reshape(2, 2)).sum() + as_strided(np.outer(a, a).T, (4,), (8,)) @ x


products = np.vectorize(np.outer, signature="(m),(n)->(m,n)")


def squared(a):
    return numpy.asarray(a) ** 2


squared.of_all = np.vectorize(squared)


def by_vectorize(a):
    q, r = np.vectorize(np.linalg.qr, signature='(m,n)->(m,k),(k,n)')(np.array([a, a * a]))
    return products(a, np.array([a, a * a])).sum() + squared.of_all(a)[1] + q[0, 1] * r[0, 0]


TABLE = np.arange(6.0).reshape(3, 2)
SPARSE = sparse.csr_array(TABLE)


class Linear:
    def __init__(self, table):
        self.table = table

    @property
    def total(self):
        return self.table.dot([1.0, 2.0]).sum()

    def __call__(self, a):
        return self.table.dot(a).sum() + self.table.T.dot(self.table.dot(a))[0] + self.total


linear = Linear(TABLE)


def by_dot(a):
    return linear(a) + np.arange(2.0).dot([a[0], a[1] ** 2]) + SPARSE.dot(a).sum() + a.dot(a)


class Library:
    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)


class Missing:
    def __getattribute__(self, name):
        if name == "__class__":
            return type(None)
        raise ImportError("no such package")


xp = Library(numpy)
missing = Missing()


def by_library(a):
    out = xp.zeros(2)
    out[0] = a[0] * a[1]
    return out.sum()


def by_constants(a):
    x = np.linspace(0, 1, 5)
    return interpolate.splev(0.3, interpolate.splrep(x, x**2)) * a.sum()
"""

X = np.array([0.7, 1.3])
HABITS = [line[4:-4] for line in TEXT.splitlines() if line.startswith("def by_")]


@pytest.fixture
def habits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "habits_of_others.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("habits_of_others")
    del sys.modules["habits_of_others"]


@pytest.mark.parametrize("name", HABITS)
def test_adopted_code_may_have_the_habit(habits: Any, name: str) -> None:
    function = getattr(habits, name)
    plain = function(X)
    with functad.adopt("habits_of_others"):
        assert function(X) == plain
        assert type(function(X)) is type(plain)
        check_grads(function, [X])


def test_type_is_the_original_for_plain_values(habits: Any) -> None:
    with functad.adopt("habits_of_others"):
        kind = habits.type
        assert kind(3) is int
        assert kind("Made", (), {}).__name__ == "Made"
        assert isinstance(int, kind)
        assert not isinstance(3, kind)
        assert issubclass(type, kind)
        assert kind == type  # noqa: E721 - they are two objects, which are equal
        assert hash(kind) == hash(type)
        assert repr(kind) == repr(type)
    assert not hasattr(habits, "type")


def test_code_that_multiplies_by_methods_is_restored(habits: Any) -> None:
    before = habits.by_dot.__code__, habits.Linear.__call__.__code__
    with functad.adopt("habits_of_others"):
        assert habits.by_dot.__code__ is not before[0]
        assert habits.by_dot.__code__.co_firstlineno == before[0].co_firstlineno
        with pytest.raises(AttributeError, match="'list' object has no attribute 'dot'"):
            habits.Linear([1.0])(X)
    assert (habits.by_dot.__code__, habits.Linear.__call__.__code__) == before
    assert not [name for name in vars(habits) if "functad" in name]


def test_a_function_adopted_alone_may_multiply_by_a_method() -> None:
    table = np.arange(6.0).reshape(3, 2)

    @functad.adopt
    def own(x: Any) -> Any:
        return table.dot(
            x * x
        ).sum()  # fmt: skip

    check_grads(own, [X])


def test_code_without_a_file_may_multiply_by_a_method() -> None:
    names: dict[str, Any] = {"table": np.arange(6.0).reshape(3, 2), "np": np}
    text = "def made(x):\n    " + "\n    ".join([f"x.name{i} if x is None else None" for i in range(300)])  # operands are long
    exec(text + "\n    return table.dot(x * x).sum() + sum(map(lambda row: row.dot(x), table), 0 * x[0]) + np.dot(x, x)", names)
    made = functad.adopt(names["made"])
    assert made(X) == names["made"](X)
    check_grads(made, [X])


@pytest.mark.parametrize("options", [{"out": np.empty(3)}, {}])
def test_products_by_a_method_have_the_options_and_errors_of_the_method(options: dict[str, Any]) -> None:
    table = np.arange(6.0).reshape(3, 2)

    @functad.adopt
    def own(*args: Any, **given: Any) -> Any:
        return table.dot(args[0], **given) if len(args) == 1 else table.dot(*args) if args else table.dot()

    @functad.adopt
    def into(x: Any) -> Any:
        return table.dot(x, out=np.empty(3))

    np.testing.assert_array_equal(own(X, **options), table @ X)
    np.testing.assert_array_equal(own(X, np.empty(3)), table @ X)
    np.testing.assert_array_equal(into(X), table @ X)
    for wrong in [(), (X, None, 3), (X[:1],)]:
        with pytest.raises((TypeError, ValueError)) as found:
            own(*wrong)
        with pytest.raises(type(found.value)) as expected:
            table.dot(*wrong)
        assert str(found.value) == str(expected.value)


def test_item_of_ones_own_code_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"item\(\) of a Tensor"):
        functad.grad(lambda x: x[0].item())(X)
    with pytest.raises(ConversionError, match=r"tolist\(\) of a Tensor"):
        functad.grad(lambda x: sum(x.tolist()))(X)


def test_strides_over_gaps_are_refused(habits: Any) -> None:
    with (
        functad.adopt("habits_of_others"),
        pytest.raises(UnsupportedError, match="reads what is beside its elements"),
    ):
        functad.grad(lambda x: habits.as_strided(x * x, (2,), (16,)).sum())(X)


def test_a_module_that_is_imported_in_a_trace_has_plain_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lazy_habits"
    folder.mkdir()
    (folder / "__init__.py").write_text("def f(a):\n    from . import late\n    return late.scaled(a)\n")
    text = "import numpy as np\nfrom scipy.signal import detrend\nROW = np.zeros(2)\nROW += 2\n"
    (folder / "late.py").write_text(text + "def scaled(a):\n    return (detrend(ROW * a, type='constant') ** 2).sum()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("lazy_habits")
    with functad.adopt("lazy_habits"):
        check_grads(module.f, [X])
        assert type(module.late.ROW) is np.ndarray
        assert "scipy" in functad.adopted()
    for name in ("lazy_habits", "lazy_habits.late"):
        del sys.modules[name]


def test_what_is_refused_for_tensors_is_still_refused(habits: Any) -> None:
    with functad.adopt("habits_of_others"), pytest.raises(FunctadError, match="poly1d"):
        functad.grad(lambda x: habits.interpolate.lagrange(np.linspace(0, 1, 2), x)(0.3))(X)
