"""Adopted code sees the same objects as before: `is`, `==`, `pickle`, `copy`, `isinstance`, `hash`, defaults and attributes.

Each form is a module with one function for each name that `adopt` rebinds. The results before and during adoption are compared.
"""

from __future__ import annotations

import importlib
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from tests.adoption.stand_ins import numbers, replacement

X = np.array([0.7, 1.3])


def _rebound() -> dict[str, Any]:
    """Return by dotted name the functions and types that `adopt` replaces."""
    found: dict[str, Any] = {name: __builtins__[name] for name in numbers()}  # type: ignore[index]
    for prefix, module in {"np": np, "np.linalg": np.linalg, "np.fft": np.fft, "math": math}.items():
        stand_in = replacement(module)
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_") and vars(stand_in).get(name) is not value:
                found[f"{prefix}.{name}"] = value
    return found


REBOUND = _rebound()

HEAD = """
import copy, math, pickle
import numpy as np
"""

FORMS = {
    "is": "def f{i}(x):\n    return {name} is x, x is {name}, {name} is not x\n",
    "is of a local name": "def f{i}(x):\n    own = {name}\n    return own is x\n",
    "is after a loop": "def f{i}(x):\n    own = found = None\n    for _ in range(2):\n        found = own is x\n"
    "        own = {name}\n    return found\n",
    "is of a default": "def f{i}(x, own={name}):\n    return own is x\n",
    "is of a keyword": "def f{i}(x, *, own={name}):\n    return own is x\n",
    "is of a class attribute": "class C{i}:\n    own = {name}\n"
    "def f{i}(x):\n    return C{i}.own is x, vars(C{i})['own'] is x\n",
    "is of an attribute": "class C{i}:\n    pass\ndef f{i}(x):\n    c = C{i}()\n    c.own = {name}\n    return c.own is x\n",
    "is of an entry": "T{i} = {{'own': {name}}}\ndef f{i}(x):\n    return T{i}['own'] is x\n",
    "is of a choice": "def f{i}(x):\n    own = {name} if x else None\n    return own is x\n",
    "is within": "def f{i}(x):\n    own = {name}\n    def inner():\n        return own is x\n    return inner()\n",
    "is of a result": "def g{i}():\n    return {name}\ndef f{i}(x):\n    return g{i}() is x, [g for g in ({name},)][0] is x\n",
    "is of an import": "def f{i}(x):\n    {imports}\n    return own is x\n",
    "equality": "def f{i}(x):\n    return {name} == x, x == {name}, {name} != x, {name} in (x,), hash({name}) == hash(x)\n",
    "keys": "def f{i}(x):\n    return {{x: 1}}.get({name}), {{{name}: 1}}.get(x), x in {{{name}}}\n",
    "instances": "def f{i}(x):\n    return isinstance({name}, type), isinstance({name}, type(x)), repr({name})\n",
    "copies": "def f{i}(x):\n    return copy.copy({name}) is x, copy.deepcopy({name}) is x\n",
    "pickles": "def f{i}(x):\n    return pickle.dumps({name}), pickle.loads(pickle.dumps({name})) is x\n",
    "names": "def f{i}(x):\n    return {name}.__name__, getattr({name}, '__module__', None)\n",
    "types": "def f{i}(x):\n    return type({name}) is type(x), isinstance(x, type) and issubclass({name}, x)\n",
    "results": "def f{i}(x):\n    return {name}\n",
}


def _imports(name: str) -> str:
    module, _, last = name.rpartition(".")
    module = module.replace("np", "numpy")
    return f"from {module} import {last} as own" if module else f"own = {last}"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(text: str) -> Any:
        (tmp_path / "plain_identities.py").write_text(text)
        return importlib.import_module("plain_identities")

    yield make
    sys.modules.pop("plain_identities", None)


def _outcome(function: Callable[..., Any], value: Any) -> Any:
    try:
        return function(value)
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error), str(error)


@pytest.mark.parametrize("form", FORMS)
def test_every_rebound_name_is_the_same_object(module: Callable[[str], Any], form: str) -> None:
    lines = [FORMS[form].format(i=i, name=name, imports=_imports(name)) for i, name in enumerate(REBOUND)]
    made = module(HEAD + "".join(lines))
    functions = [getattr(made, f"f{i}") for i in range(len(REBOUND))]
    before = [_outcome(f, value) for f, value in zip(functions, REBOUND.values(), strict=True)]
    with functad.adopt("plain_identities"):
        during = [_outcome(f, value) for f, value in zip(functions, REBOUND.values(), strict=True)]
    for name, a, b in zip(REBOUND, before, during, strict=True):
        assert a == b, f"{form} of {name}: {a} before, {b} during adoption"
        if form == "results":
            assert a is b, f"{name} is another object during adoption"


def test_names_are_many() -> None:
    assert len(REBOUND) > 300


def test_what_is_only_called_is_adopted(module: Callable[[str], Any]) -> None:
    text = (
        "def f(x, table={'dtype': float}):\n    out = np.zeros(2, dtype=np.float64)\n    out[0] = float(x[0])\n"
        "    out[1] = sum(map(np.asarray, [x[1]]))\n    return np.asarray(out, dtype=float).sum() + np.complex128(x[0]).real\n"
        "def g(x):\n    make = np.asarray\n    return make(x).sum() if isinstance(x, (float, np.ndarray)) else 0.0\n"
    )
    made = module(HEAD + text)
    with functad.adopt("plain_identities"):
        assert functad.grad(made.f)(X).tolist() == [2.0, 1.0]
        assert functad.grad(made.g)(X).tolist() == [1.0, 1.0]


def test_pickles_of_replacements_need_no_functad() -> None:
    for value in (
        replacement(np).sum,
        replacement(math).sin,
        replacement(np).zeros,
        numbers()["float"],
        replacement(np).float64,
    ):
        data = pickle.dumps(value)
        assert b"functad" not in data
        assert pickle.loads(data) == value
        assert not type(pickle.loads(data)).__module__.startswith("functad")


KEEPS = """
import numpy as np
import math
TABLE = {"own": np.subtract}
class Filter:
    own = np.multiply
    def __init__(self, residual=None):
        self.residual = np.subtract if residual is None else residual
        self.mean = math.sqrt
def given(residual=np.add):
    return residual
def table():
    return TABLE["own"]
def total(x):
    return np.sum([x[0], x[1] * 2.0])
"""
COMPARES = """
import numpy as np
from math import sqrt
def kinds(filter, given, table):
    held = filter.residual is np.subtract, filter.mean is sqrt, filter.own is np.multiply
    return (*held, given is np.add, table is np.subtract)
"""


@pytest.mark.parametrize("order", [("keeps", "compares"), ("compares", "keeps"), ("keeps", None)])
def test_another_module_of_the_package_compares_what_a_module_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str | None]
) -> None:
    package = f"kept_by_{'_'.join(map(str, order)).lower()}"
    (tmp_path / package).mkdir()
    for name, text in {"__init__": "", "keeps": KEEPS, "compares": COMPARES}.items():
        (tmp_path / package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in filter(None, order):
        importlib.import_module(f"{package}.{name}")
    keeps = importlib.import_module(f"{package}.keeps")
    own = {name: value for name, value in vars(keeps).items() if name != "__builtins__"}
    with functad.adopt(package):
        compares = importlib.import_module(f"{package}.compares")  # with `None` after `keeps` was adopted
        assert compares.kinds(keeps.Filter(), keeps.given(), keeps.table()) == (True,) * 5
        gradient = functad.grad(keeps.total)(X)
    np.testing.assert_array_equal(gradient, [1.0, 2.0])
    assert {name: value for name, value in vars(keeps).items() if name != "__builtins__"} == own
    assert keeps.Filter.own is np.multiply
