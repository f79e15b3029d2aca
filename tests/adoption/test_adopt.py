"""`functad.adopt`: code of others takes Tensors, gives for plain values what it gave, and is restored when the block ends."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, InputError, UnsupportedError
from functad.testing import check_grads

PACKAGE = {
    "__init__.py": "from . import signals",
    "signals.py": """
import functools
import math
import math as mathematics
import numpy
import numpy as np
from math import sin as sine
from numpy import asarray, zeros
from numpy.linalg import norm


def filled(a):
    a = asarray(a, dtype=float)
    out = zeros(len(a))
    for i in range(len(a)):
        out[i] = math.exp(a[i]) + sine(a[i]) * mathematics.sqrt(2.0)
    return out


def listed(a):
    return norm([a[0] * a[1], 2.0]) + np.sum([a[0], a[1]]) + numpy.array([a[0], 1.0]).sum()


def by_default(a, total=np.sum, *, module=np):
    return total([a[0], a[1] ** 2]) + module.asarray(a)[0]


TABLE = {"mean": np.mean}


def by_table(a):
    return TABLE["mean"]([a[0], a[1] ** 2])


def decorated(f):
    xp = np

    @functools.wraps(f)
    def inner(a):
        return f(xp.asarray(a))

    return inner


@decorated
def squares(a):
    return (a * a).sum()


def numbers(a):
    return float(a[0]) * int(a[1] + 0.5) + complex(a[0]).real


class Model:
    stack = staticmethod(np.array)

    def __init__(self, a):
        self.a = np.array(a)

    @property
    def doubled(self):
        return np.asarray(self.a) * 2

    @classmethod
    def made(cls, a):
        return cls(np.asarray(a))

    def value(self):
        return (self.stack([self.a[0], self.a[1] ** 2]) * self.doubled).sum()


def model(a):
    return Model.made(a).value()
""",
    "types.py": """
import numpy as np


def kind(x):
    return "number" if type(x) is float else "double" if type(x) is np.float64 else "other"


def number(x):
    return float(x)
""",
    "later.py": """
import numpy as np


def squares(a):
    return (np.asarray(a) ** 2).sum()
""",
}
X = np.array([0.7, 1.3])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "somebodys"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("somebodys")
    for name in [name for name in sys.modules if name.startswith("somebodys")]:
        del sys.modules[name]


def others() -> list[str]:
    """Return what is adopted beside SciPy, which is for good once `functad.scipy` is imported."""
    return [name for name in functad.adopted() if name != "scipy"]


FUNCTIONS = ("filled", "listed", "by_default", "by_table", "squares", "numbers", "model")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_coerce_are_differentiated(package: Any, name: str) -> None:
    function = getattr(package.signals, name)
    with pytest.raises(ConversionError, match=r"functad\.adopt|functad\.numpy"):
        functad.grad(lambda x: np.sum(function(x)))(X)
    plain = function(X)
    with functad.adopt("somebodys"):
        check_grads(lambda x: np.sum(function(x)), [X])
        again = function(X)
        assert type(again) is type(plain)
        np.testing.assert_array_equal(again, plain)
    with pytest.raises(ConversionError):
        functad.grad(lambda x: np.sum(function(x)))(X)


def _bound(package: Any) -> dict[str, Any]:
    module = package.signals
    found = dict(vars(module))
    found["by_default defaults"] = module.by_default.__defaults__
    found["by_default module"] = module.by_default.__kwdefaults__["module"]
    found["mean"] = module.TABLE["mean"]
    found["stack"] = module.Model.stack
    found["cells"] = [cell.cell_contents for cell in module.squares.__closure__]
    return found


@functad.adopt
def same_types(dtype):
    return [dtype in (kind, bool) for kind in (float, complex, np.float32, np.float64)]


def test_types_of_adopted_code_are_those_of_dtypes():
    for dtype in map(np.dtype, ("f4", "f8", "c16", "i8")):
        assert same_types(dtype) == [dtype == kind for kind in map(np.dtype, (float, complex, np.float32, np.float64))]


def test_every_name_is_restored(package: Any) -> None:
    before = _bound(package)
    adoption = functad.adopt(package)
    assert others() == ["somebodys"]
    assert repr(adoption) == "<adopted: somebodys>"
    changed = {name for name, value in _bound(package).items() if value is not before.get(name)}
    assert {"np", "numpy", "math", "mathematics", "sine", "asarray", "zeros", "norm", "mean", "stack"} <= changed
    with adoption:
        pass
    after = _bound(package)
    assert others() == []
    assert after.keys() == before.keys()
    assert all(after[name] is value or after[name] == value for name, value in before.items())


def test_what_is_bound_anew_meanwhile_stays(package: Any) -> None:
    with functad.adopt("somebodys.signals"):
        package.signals.sine = math.cos
    assert package.signals.sine is math.cos
    assert package.signals.np is np


def test_adopting_twice_is_once(package: Any) -> None:
    before = _bound(package)
    with functad.adopt("somebodys"):
        within = _bound(package)
        with functad.adopt("somebodys", "somebodys.signals"):
            assert all(value is within[name] or value == within[name] for name, value in _bound(package).items())
        assert package.signals.np is within["np"]
    assert package.signals.np is before["np"]


def test_what_is_imported_later_is_adopted_too(package: Any) -> None:
    with functad.adopt("somebodys"):
        later = importlib.import_module("somebodys.later")
        assert functad.grad(later.squares)(X).tolist() == (2 * X).tolist()
    assert later.np is np
    with pytest.raises(ConversionError):
        functad.grad(later.squares)(X)


def test_code_that_compares_types_gives_the_same(package: Any) -> None:
    types = importlib.import_module("somebodys.types")
    with functad.adopt("somebodys"):
        assert [types.kind(x) for x in (1.0, np.float64(1.0), 1)] == ["number", "double", "other"]
        assert types.np.float64 is np.float64
        assert type(types.number(1)) is float


def test_joining_by_brackets_is_adopted_by_its_own_name() -> None:
    from numpy import c_, r_

    def own(a: Any) -> Any:
        return r_[a, np.eye(2)] @ c_[a[0], a[0] ** 2]

    check_grads(functad.adopt(own), [np.array([[1.0, 2.0]]) * X[0]])


def test_a_function_of_ones_own_is_adopted_alone() -> None:
    def own(a: Any) -> Any:
        from numpy import asarray

        out = np.zeros(2)
        out[0] = float(a[0]) * math.sin(a[1])
        return asarray(out).sum() + int(a[1])

    adopted = functad.adopt(own)
    with pytest.raises(ConversionError):
        functad.grad(own)(X)
    check_grads(adopted, [X])
    assert adopted(X) == own(X)
    assert adopted.__name__ == "own"
    assert others() == []


def test_a_class_of_ones_own_is_adopted_alone() -> None:
    @functad.adopt
    class Line:
        def __init__(self, a: Any) -> None:
            self.a = np.array(a, dtype=float)

        @staticmethod
        def total(values: Any) -> Any:
            return np.asarray(values).sum()

        @classmethod
        def of(cls, a: Any) -> Any:
            return cls(np.asarray(a))

        @property
        def squares(self) -> Any:
            return np.asarray(self.a) ** 2

    check_grads(lambda x: Line.total(Line.of(x).squares), [X])


COUNT = 0


def test_an_assignment_in_a_function_within_a_function_is_refused() -> None:
    def outer(a: Any) -> Any:
        def middle() -> None:
            def inner() -> None:
                global COUNT  # noqa: PLW0603 - that is what is refused
                COUNT += 1

            inner()

        middle()
        return a

    with pytest.raises(UnsupportedError, match="outer assigns to a global name"):
        functad.adopt(outer)


def test_a_compiled_function_compares_copies_and_pickles_as_its_original() -> None:
    from functad.adoption.compiled import CompiledFunction

    made = CompiledFunction(len)
    assert made == len
    assert {len: 1}[made] == 1
    assert copy.copy(made) == copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) is len


def test_a_function_that_assigns_to_a_global_name_is_refused() -> None:
    def counted(a: Any) -> Any:
        global COUNT  # noqa: PLW0603 - that is what is refused
        COUNT += 1
        return a

    with pytest.raises(UnsupportedError, match=r"counted assigns to a global name, at .*test_adopt\.py:\d+"):
        functad.adopt(counted)


def test_what_is_no_code_is_refused() -> None:
    with pytest.raises(InputError, match="adopt\\(\\) was given a int"):
        functad.adopt(3)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="was given nothing"):
        functad.adopt()
    with pytest.raises(ModuleNotFoundError):
        functad.adopt("no_such_package_anywhere")
    assert others() == []


def test_numpy_and_math_are_not_touched(package: Any) -> None:
    before = dict(vars(np)), dict(vars(math)), dict(vars(np.linalg))
    with functad.adopt("somebodys", "statistics"):
        assert (dict(vars(np)), dict(vars(math)), dict(vars(np.linalg))) == before


def test_compiled_functions_and_modules_are_left_and_named(package: Any) -> None:
    class Dispatcher:
        def __call__(self, x: Any) -> Any:
            return x

    Dispatcher.__module__ = "numba.core.registry"
    package.signals.fast = Dispatcher()
    with functad.adopt("somebodys") as adoption:
        assert adoption.left == {"somebodys.signals.fast": "it is compiled by Numba"}
    with functad.adopt("numpy.random") as adoption:
        assert adoption.left["numpy.random._generator"] == "it is an extension module"


def test_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_by_somebody.py").write_text("import numpy as np\ndef f(a):\n    return np.asarray(a).sum()\n")
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module("installed_by_somebody")
    with pytest.raises(ConversionError, match=r'functad\.adopt\("installed_by_somebody"\)'):
        functad.grad(module.f)(X)
    with functad.adopt("installed_by_somebody"):
        assert functad.grad(module.f)(X).tolist() == [1.0, 1.0]
    del sys.modules["installed_by_somebody"]


def test_threads_adopt_and_restore(package: Any) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(30):
                with functad.adopt("somebodys"):
                    assert functad.grad(package.signals.squares)(X).tolist() == (2 * X).tolist()
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert package.signals.np is np


def test_stand_ins_are_like_the_modules_that_they_stand_for(package: Any) -> None:
    with functad.adopt("somebodys"):
        numpy = package.signals.np
        assert numpy.__name__ == "numpy"
        assert dir(numpy) == dir(np)
        assert numpy.pi is np.pi
        assert numpy.linalg.LinAlgError is np.linalg.LinAlgError
        assert numpy.random is np.random
        assert package.signals.math.__name__ == "math"
        with pytest.raises(AttributeError):
            _ = numpy.no_such_name
        assert SimpleNamespace(np=numpy).np.float64(1).__class__ is np.float64
