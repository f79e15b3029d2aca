"""Modules with unusual globals, closures and lazy imports work inside `adopt` as they do outside."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.testing import check_grads

X = np.array([0.7, 1.3])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    folder = tmp_path / "odd_modules"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(text: str, name: str = "code") -> Any:
        (folder / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(f"odd_modules.{name}")

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "odd_modules"]:
        del sys.modules[name]


ODD = """
import numpy as np

class Named:
    __module__ = property(lambda self: "nowhere")

class Raises:
    @property
    def __module__(self):
        raise RuntimeError("asked for its module")

named, raises = Named(), Raises()

def bare(a):
    return np.asarray(a).sum()

bare.__module__ = None
"""


def test_modules_of_objects_may_be_anything(module: Callable[..., Any]) -> None:
    odd = module(ODD)
    with functad.adopt("odd_modules"):
        assert functad.grad(odd.bare)(X).tolist() == [1.0, 1.0]


def test_tables_of_other_modules_stay_what_they_are(module: Callable[..., Any]) -> None:
    shared = {"sum": np.sum}
    text = "from sys import modules\nimport numpy as np, math\nnames = vars(math)\nown = {'sum': np.sum}\nshared = None\n"
    code = module(text)
    code.shared = shared
    sys.modules["other_than_odd"] = other = type(sys)("other_than_odd")
    other.shared = shared  # type: ignore[attr-defined]
    before = dict(sys.modules), dict(code.names)
    try:
        with functad.adopt("odd_modules"):
            assert sys.modules["numpy"] is np
            assert dict(code.names) == before[1]
            assert all(sys.modules[name] is value for name, value in before[0].items())
            assert shared["sum"] is np.sum
            assert code.own["sum"] is not np.sum
    finally:
        del sys.modules["other_than_odd"]


def test_a_lazy_import_of_the_array_api_inside_adopt(module: Callable[..., Any]) -> None:
    code = module(
        "from sys import modules\nimport numpy as np\ndef f(x):\n    return x.__array_namespace__().sum(np.asarray(x) ** 2)\n"
    )
    with functad.adopt("odd_modules"):
        sys.modules.pop("functad.adoption.array_api", None)
        assert functad.grad(code.f)(X).tolist() == (2 * X).tolist()


def test_modules_in_sets_and_tables_equal_those_that_they_replace(module: Callable[..., Any]) -> None:
    code = module(
        "import math\nimport numpy as np\ndef f(x):\n    return {x} - {np}, {np: 1}.get(x), x == np, x != np, [x].count(np)\n"
    )
    before = code.f(np)
    with functad.adopt("odd_modules"):
        assert code.f(np) == before
        assert code.f(sys) == ({sys}, None, False, True, 0)


ODEINT = """
from scipy.integrate import odeint, quad

def solved(t):
    return odeint(lambda y, s, p: -p[0] * y * p[1], 1.0, [0.0, 1.0], args=([t, t],))[-1, 0]

class Line:
    def __init__(self, a):
        self.a, self.table = a, {"a": [a]}

    def speed(self, s):
        return self.a * self.a * s ** 2

    def length(self):
        return quad(lambda s: self.speed(s), 0, 1)[0]

    def by_table(self):
        table = self.table
        return quad(lambda s: table["a"][0] ** 3 * s, 0, 1)[0]
"""


def test_tensors_in_lists_of_arguments_and_in_attributes(module: Callable[..., Any]) -> None:
    pytest.importorskip("scipy")
    code = module(ODEINT)
    with functad.adopt("odd_modules"):
        check_grads(code.solved, [0.7], rtol=1e-5)
        check_grads(lambda a: code.Line(a).length(), [0.7])
        check_grads(lambda a: code.Line(a).by_table(), [0.7])


def test_arrays_of_xarray_work_inside_adopt_as_outside() -> None:
    xarray = pytest.importorskip("xarray")

    def f(t: Any) -> Any:
        labelled = xarray.DataArray(t, dims="t")
        return ((labelled * np.arange(2.0) + labelled) ** 2).sum().data

    check_grads(f, [X])
    with functad.adopt("xarray"):
        check_grads(f, [X])
        assert f(X) == np.sum((X * np.arange(2.0) + X) ** 2)
