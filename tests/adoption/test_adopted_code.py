"""What `adopt` does with code of many forms: imports within functions, comparisons, decorators, generators, classes."""

from __future__ import annotations

import asyncio
import dataclasses
import dis
import enum
import functools
import importlib
import math
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, InputError
from functad.testing import check_grads

TEXTS = {
    "__init__.py": "",
    "imports.py": """
import functools


def whole(a):
    import numpy as np
    return np.asarray(a).sum() * np.float64(a[0])


def names(a):
    from numpy import asarray, pi
    return (asarray([a[0], a[1]]) * pi).sum()


def parts(a):
    import numpy.linalg
    import numpy.linalg as la
    from numpy.linalg import norm
    return norm([a[0], a[1]]) + la.norm([a[0], 2.0]) + numpy.linalg.norm([a[1], 1.0]) + numpy.asarray(a)[0]


def numbers(a):
    import math
    from math import sin
    return math.exp(a[0]) * sin(a[1])


def of_scipy(a):
    from scipy import linalg
    from scipy.special import logsumexp
    import scipy.linalg as sl
    m = linalg.toeplitz([a[0] + 3, a[1]])
    return linalg.solve(m, [1.0, a[0]]).sum() + logsumexp([a[0], a[1]]) + sl.inv(m)[0, 0]


def nested(a):
    def inner():
        import numpy as np
        return [np.asarray(x) for x in (a, a * a)]
    return sum(x.sum() for x in inner())


def numpy_method(a):
    class Box:
        numpy = 2.0
    import numpy
    return numpy.asarray(a).sum() * Box.numpy


def relative(a):
    from . import comparisons
    from .comparisons import NAMES
    import numpy as np
    return np.asarray(a).sum() * len(NAMES) * len(comparisons.NAMES)


class Model:
    @staticmethod
    def fixed(a):
        import numpy as np
        return np.asarray(a).sum()

    @classmethod
    def of(cls, a):
        from numpy import asarray
        return asarray(a).sum()

    @property
    def doubled(self):
        import numpy as np
        return np.asarray(self.a) * 2

    @doubled.setter
    def doubled(self, value):
        import numpy as np
        self.a = np.asarray(value) / 2

    @functools.cached_property
    def squares(self):
        import numpy as np
        return np.asarray(self.a) ** 2


def model(a):
    m = Model()
    m.doubled = a
    return Model.fixed(a) * Model.of(a) + (m.doubled * m.squares).sum()


def renamed(a):
    import numpy.random
    import json
    return numpy.asarray(a).sum() * len(json.dumps([1])) * numpy.random.default_rng(0).random()
""",
    "comparisons.py": """
import numpy as np
from numpy import mean as average

NAMES = {np.sin: "sine", np.mean: "mean", np.add: "sum"}


def by_identity(f):
    return "sum" if f is np.sum else "mean" if f is average else "other"


def by_equality(f):
    return "product" if f == np.prod else "either" if f in (np.max, np.min) else "other"


def by_table(f):
    return NAMES.get(f, "other")


def own():
    return [by_identity(np.sum), by_identity(average), by_identity(np.mean), by_equality(np.prod), by_equality(np.min)]


def own_by_table():
    return [by_table(np.sin), by_table(np.mean), by_table(np.add), by_table(np.cos)]


def module(xp=np):
    return xp is np


def prod(a):
    return np.nanprod([a[0], a[1]]) * np.asarray(a)[0]
""",
    "forms.py": """
import asyncio
import dataclasses
import enum
import functools
import numpy as np


def plain(a):
    return np.asarray(a).sum()


def closure(scale):
    xp = np

    def inner(a):
        return xp.asarray(a).sum() * scale
    return inner


doubled = closure(2.0)
half = functools.partial(lambda scale, a: np.asarray(a).sum() * scale, 0.5)


def plainly(f):
    def inner(a):
        return f(a) * 1.0
    return inner


@plainly
def unwrapped(a):
    import numpy as np
    return np.asarray(a).sum()


@functools.lru_cache
def weights(n):
    import numpy as np
    return np.arange(1.0, n + 1)


def cached(a):
    return (np.asarray(a) * weights(2)).sum()


def pieces(a):
    for i in range(2):
        yield np.asarray(a)[i] * (i + 1)


def generator(a):
    return sum(pieces(a))


async def later(a):
    await asyncio.sleep(0)
    return np.asarray(a).sum()


async def each(a):
    for i in range(2):
        yield np.asarray(a)[i]


def coroutine(a):
    async def both():
        return await later(a) + sum([x async for x in each(a)])
    return asyncio.run(both())


@dataclasses.dataclass(frozen=True)
class Data:
    a: object
    make: object = dataclasses.field(default=np.array)

    def total(self):
        return self.make(self.a).sum()


def data(a):
    return Data(a).total()


class Kind(enum.Enum):
    ROOT = 1
    SQUARE = 2

    def of(self, a):
        return np.asarray(a) ** (2 if self is Kind.SQUARE else 0.5)


def kinds(a):
    return (Kind.ROOT.of(a) * Kind.SQUARE.of(a)).sum()


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = np.asarray(a)

    def __call__(self):
        return np.array([self.a[0], self.a[1]]).sum()


def slotted(a):
    return Slotted(a)()


@functools.singledispatch
def dispatched(a):
    return np.asarray(a).sum()


@dispatched.register
def _(a: list):
    return np.asarray(a).sum() * 2


def by_list(a):
    return dispatched([a[0], a[1]]) + dispatched(a)


TABLE = {"f": lambda a: np.asarray(a).sum()}


def by_table(a):
    return TABLE["f"](a)
""",
    "compiled.py": """
import numpy as np
from numpy import zeros
from anybodys import compiler


@compiler.njit
def fast(x):
    out = zeros(2)
    out[0] = np.sum(x) + float(3)
    return out, np.add, zeros


@compiler.njit
def smooth(x):
    out = np.zeros(1)
    for value in x:
        out[0] += np.sin(value)
    return float(out[0]) + np.asarray(x)[0]


def use(a):
    return np.asarray(a).sum()
""",
    "compiler.py": """
class Compiler:
    pass


class Dispatcher:
    def __init__(self, py_func):
        self.py_func = py_func
        self._compiler = Compiler()
        self._compiler.py_func = py_func

    def __call__(self, *args, **kwargs):
        return self._compiler.py_func(*args, **kwargs)


Dispatcher.__module__ = "numba.core.registry"


def njit(f):
    return Dispatcher(f)
""",
    "solvers.py": """
from scipy.sparse import linalg as ssl
from scipy.sparse.linalg import cg


def which(solver):
    return "direct" if solver == ssl.spsolve else "cg" if solver in (cg,) else "other" if solver != ssl.gmres else "gmres"


def own():
    return [which(ssl.spsolve), which(cg), which(ssl.gmres), which(ssl.lsqr), {ssl.spsolve: 1}[ssl.spsolve]]
""",
    "lazy.py": """
def __getattr__(name):
    if name == "np":
        import numpy
        return numpy
    if name == "asarray":
        from numpy import asarray
        return asarray
    raise AttributeError(name)
""",
}
X = np.array([0.7, 1.3])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    folder = tmp_path / "anybodys"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda name: importlib.import_module(f"anybodys.{name}")
    for name in [name for name in sys.modules if name.startswith("anybodys")]:
        del sys.modules[name]


def test_code_is_changed_once(package: Callable[[str], Any]) -> None:
    """Blocks that adopt a package again and again give its functions the same code, made when they were first adopted."""
    function = package("imports").whole
    original, seen = function.__code__, []
    for _ in range(2):
        with functad.adopt("anybodys.imports"):
            seen.append(function.__code__)
        assert function.__code__ is original
    assert seen[0] is seen[1] is not original
    function.__code__ = package("imports").numbers.__code__
    with functad.adopt("anybodys.imports"):
        assert functad.grad(function)(np.array([0.0, 1.0]))[0] == pytest.approx(np.sin(1.0))


IMPORTS = ("whole", "names", "parts", "numbers", "nested", "numpy_method", "model", "renamed", "relative")


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_within_functions_give_what_stands_for_the_module(package: Callable[[str], Any], name: str) -> None:
    function = getattr(package("imports"), name)
    code, plain = function.__code__, function(X)
    with pytest.raises(ConversionError):
        functad.grad(function)(X)
    with functad.adopt("anybodys"):
        check_grads(function, [X])
        assert function(X) == plain
        assert type(function(X)) is type(plain)
    assert function.__code__ is code
    with pytest.raises(ConversionError):
        functad.grad(function)(X)


def test_imports_within_functions_that_are_adopted_alone(package: Callable[[str], Any]) -> None:
    for name in (*IMPORTS[:6], "relative"):
        function = functad.adopt(getattr(package("imports"), name))
        check_grads(function, [X])


def test_imports_of_scipy_within_functions(package: Callable[[str], Any]) -> None:
    pytest.importorskip("scipy")
    function = package("imports").of_scipy
    with functad.adopt("anybodys"):
        check_grads(function, [X])
    with functad.adopt("scipy.linalg", "anybodys.imports"):
        check_grads(function, [X])


def test_imports_relative_to_scipy(package: Callable[[str], Any]) -> None:
    """`scipy.stats` imports from within its functions, by dots and by whole names."""
    stats = pytest.importorskip("functad.scipy").stats
    check_grads(lambda x: stats.multivariate_normal.logpdf(x, np.zeros(2), np.eye(2)), [X])


def test_a_function_with_many_names_stays_what_it_is(package: Callable[[str], Any]) -> None:
    module = ModuleType("anybodys.many")
    names = " + ".join([f"a.n{i}" for i in range(300)])
    exec(f"def f(a):\n    import numpy as np\n    return {names} + np.pi\n", vars(module))
    module.f.__module__ = module.__name__
    sys.modules[module.__name__] = module
    code = module.f.__code__
    assert any(step.opname == "EXTENDED_ARG" for step in dis.get_instructions(code))
    with functad.adopt("anybodys") as adoption:
        assert module.f.__code__ is code
        assert "import" in adoption.left["anybodys.many.f"]


def test_code_that_compares_functions_gives_the_same(package: Callable[[str], Any]) -> None:
    module = package("comparisons")
    functions = (np.sum, np.mean, np.prod, np.max, np.min, np.sin, np.add, np.cos, math.sin)
    before = [[f(g) for g in functions] for f in (module.by_identity, module.by_equality, module.by_table)]
    own = [*module.own(), *module.own_by_table(), module.module()]
    with functad.adopt("anybodys"):
        assert [[f(g) for g in functions] for f in (module.by_identity, module.by_equality, module.by_table)] == before
        assert [*module.own(), *module.own_by_table(), module.module()] == own
        assert module.np.sum is np.sum  # that it compares by `is`
        assert module.average is np.mean
        check_grads(module.prod, [X])
    assert module.np is np


def test_solvers_of_scipy_compare_as_those(package: Callable[[str], Any]) -> None:
    scipy = pytest.importorskip("scipy.sparse.linalg")
    module = package("solvers")
    solvers = (scipy.spsolve, scipy.cg, scipy.gmres, scipy.lsqr)
    before = [module.which(solver) for solver in solvers]
    assert before == ["direct", "cg", "gmres", "other"]
    with functad.adopt("anybodys"):
        assert module.ssl.spsolve is not solvers[0]
        assert [module.which(solver) for solver in solvers] == before
        assert module.own() == [*before, 1]


def test_numba_finds_the_names_that_it_would_find(package: Callable[[str], Any]) -> None:
    """It compiles when a function is called first, and reads the globals of the module then."""
    module = package("compiled")
    dispatcher, function = module.fast, module.fast.py_func
    with functad.adopt("anybodys") as adoption:
        assert adoption.left["anybodys.compiled.fast"] == "it is compiled by Numba"
        assert module.fast is dispatcher
        out, add, zeros = module.fast(X)
        assert (out.tolist(), add, zeros) == ([5.0, 0.0], np.add, np.zeros)
        assert add is np.add
        assert zeros is np.zeros
        names = module.fast.py_func.__globals__
        assert names["np"] is np
        with pytest.raises(KeyError):
            names["float"]
        check_grads(module.use, [X])
    assert module.fast.py_func is function


def test_numba_compiles_within_adopted_modules(package: Callable[[str], Any]) -> None:
    pytest.importorskip("numba")
    module = package("compiled")
    text = "import numba\nimport numpy as np\nfrom numpy import zeros\n\n@numba.njit\ndef fast(x):\n    out = zeros(2)\n"
    Path(module.__file__).with_name("jitted.py").write_text(text + "    out[0] = np.sum(np.sin(x))\n    return out\n")
    with functad.adopt("anybodys"):
        assert package("jitted").fast(X).tolist() == [np.sin(X).sum(), 0.0]


def test_a_function_of_numba_runs_its_python_code_with_tensors(package: Callable[[str], Any]) -> None:
    module = package("compiled")
    kind = type(module.fast)
    with pytest.raises(ConversionError):
        functad.grad(lambda x: module.smooth(x))(X)
    with functad.adopt("anybodys"):
        assert type(module.smooth).__name__ == kind.__name__
        assert isinstance(module.smooth, kind)
        assert module.smooth(X) == module.smooth.__call__(X) == float(np.sum(np.sin(X)) + X[0])
        check_grads(module.smooth, [X])
        check_grads(lambda x: module.smooth(x=x), [X])
    assert type(module.fast) is kind
    assert set(vars(module.fast)) == {"py_func", "_compiler"}


JITTED = """
import numba
import numpy as np

@numba.njit
def inner(x, k):
    s = 0.0
    for i in range(x.shape[0]):
        s += np.sin(x[i]) * k
    return s

@numba.njit
def outer(x):
    return inner(x, 2.0) + x.sum()

@numba.vectorize
def leaky(x):
    return x if x > 1 else 0.1 * x

@numba.vectorize(["float64(float64, float64)"])
def product(x, y):
    return x * y + y

def everything(x):
    return outer(x) + np.sum(leaky(x)) + np.sum(product(x, x))
"""


def test_functions_that_numba_compiles_are_differentiated(package: Callable[[str], Any]) -> None:
    numba = pytest.importorskip("numba")
    module = package("compiled")
    Path(module.__file__).with_name("several.py").write_text(JITTED)
    module = package("several")
    with functad.adopt("anybodys"):
        plain = module.everything(X)  # compiled in adopted code
        differences = [(module.everything(X + h) - module.everything(X - h)) / 2e-6 for h in 1e-6 * np.eye(len(X))]
        np.testing.assert_allclose(functad.grad(module.everything)(X), differences, rtol=1e-7)
        assert module.everything(X) == plain
        assert numba.njit(lambda x: module.inner(x, 1.0))(X) == module.inner(X, 1.0)
        assert pickle.loads(pickle.dumps(module.inner))(X, 1.0) == module.inner(X, 1.0)
    assert type(module.inner).__call__ is type(numba.njit(lambda x: x)).__call__
    assert module.everything(X) == plain


def test_the_error_names_the_packages_through_which_the_line_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "inner_of_two.py").write_text("import numpy as np\ndef norm(a):\n    return np.asarray(a).sum()\n")
    text = "import numpy as np, inner_of_two\ndef scaled(a):\n    s = inner_of_two.norm(a)\n    return np.asarray(a)[0] / s\n"
    (folder / "outer_of_two.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    outer = importlib.import_module("outer_of_two")
    with pytest.raises(ConversionError, match=r'functad\.adopt\("inner_of_two", "outer_of_two"\)'):
        functad.grad(lambda x: outer.scaled(x))(X)
    with (
        functad.adopt("inner_of_two"),
        pytest.raises(ConversionError, match=r'its package take .* functad\.adopt\("outer_of_two"\)'),
    ):
        functad.grad(lambda x: outer.scaled(x))(X)
    with functad.adopt("inner_of_two", "outer_of_two"):
        check_grads(outer.scaled, [X])
    for name in ("inner_of_two", "outer_of_two"):
        del sys.modules[name]


def test_the_error_says_how_a_function_that_was_made_from_text_is_adopted() -> None:
    """As `sympy.lambdify` makes them: it has no line above which a decorator could stand."""
    names: dict[str, Any] = {"array": np.array}
    exec(compile("def _lambdifygenerated(x):\n    return array([x[0] * x[1], x[0]])", "<lambdifygenerated-1>", "exec"), names)
    made = names["_lambdifygenerated"]
    with pytest.raises(ConversionError, match=r"in _lambdifygenerated take Tensors: call functad\.adopt\(f\)"):
        functad.grad(lambda x: np.sum(made(x)))(X)
    assert functad.grad(lambda x: np.sum(functad.adopt(made)(x)))(X).tolist() == [X[1] + 1, X[0]]


FORMS = (
    "plain", "doubled", "half", "unwrapped", "cached", "generator", "coroutine", "data", "kinds", "slotted", "by_list",
    "by_table",
)  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_code(package: Callable[[str], Any], name: str) -> None:
    module = package("forms")
    function = getattr(module, name)
    plain = function(X)
    before = dict(vars(module))
    with functad.adopt(module):
        check_grads(function, [X])
        assert function(X) == plain
    assert dict(vars(module)) == before
    with pytest.raises(ConversionError):
        functad.grad(function)(X)


def test_modules_that_find_names_when_they_are_asked(package: Callable[[str], Any]) -> None:
    lazy = package("lazy")
    with functad.adopt("anybodys"):
        assert functad.grad(lambda x: lazy.asarray(x).sum())(X).tolist() == [1.0, 1.0]
        assert lazy.np.asarray(X) is X
        assert not hasattr(lazy, "other")
    assert lazy.asarray is np.asarray
    assert lazy.np is np
    assert "np" not in vars(lazy)


def test_what_cannot_be_changed_is_left(package: Callable[[str], Any]) -> None:
    forms = package("forms")
    forms.frozen = MappingProxyType({"f": np.asarray})
    forms.builtin = math.sin
    with functad.adopt("anybodys"):
        assert forms.frozen["f"] is np.asarray
        assert forms.builtin(0.5) == math.sin(0.5)
    assert forms.builtin is math.sin


def test_a_package_and_its_module_are_left_in_any_order(package: Callable[[str], Any]) -> None:
    forms, comparisons = package("forms"), package("comparisons")
    whole = functad.adopt("anybodys")
    part = functad.adopt("anybodys.forms")
    with whole:
        pass
    assert comparisons.np is np
    assert functad.grad(forms.plain)(X).tolist() == [1.0, 1.0]
    with part:
        pass
    assert forms.np is np
    part = functad.adopt("anybodys.forms")
    with functad.adopt("anybodys"):
        assert functad.grad(forms.plain)(X).tolist() == [1.0, 1.0]
    assert comparisons.np is np
    assert functad.grad(forms.plain)(X).tolist() == [1.0, 1.0]
    with part:
        pass
    assert forms.np is np


def test_threads_that_leave_in_another_order_than_they_came(package: Callable[[str], Any]) -> None:
    forms = package("forms")
    first_is_in, second_is_in, first_is_out = threading.Event(), threading.Event(), threading.Event()
    found: list[Any] = []

    def first() -> None:
        with functad.adopt("anybodys"):
            first_is_in.set()
            assert second_is_in.wait(30)
        first_is_out.set()

    def second() -> None:
        assert first_is_in.wait(30)
        with functad.adopt("anybodys.forms"):
            second_is_in.set()
            assert first_is_out.wait(30)
            found.append(functad.grad(forms.plain)(X).tolist())
        found.append(forms.np is np)

    threads = [threading.Thread(target=f) for f in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[1.0, 1.0], True]


def test_own_functions_of_many_forms_are_adopted_alone() -> None:
    @functad.adopt
    def pieces(a: Any) -> Iterator[Any]:
        for i in range(2):
            yield np.asarray(a)[i] * (i + 1)

    @functad.adopt
    async def later(a: Any) -> Any:
        await asyncio.sleep(0)
        return np.asarray(a).sum()

    @functools.lru_cache
    @functad.adopt
    def weights(n: int) -> Any:
        return np.arange(1.0, n + 1)

    class Line:
        @functad.adopt
        def value(self, a: Any) -> Any:
            import numpy.linalg as la

            return la.norm([a[0], a[1]])

    check_grads(lambda x: sum(pieces(x)), [X])
    check_grads(lambda x: asyncio.run(later(x)), [X])
    check_grads(lambda x: (x * weights(2)).sum(), [X])
    check_grads(lambda x: Line().value(x), [X])
    assert "functad" not in Line.value.__name__


def test_own_classes_of_many_forms_are_adopted_alone() -> None:
    @functad.adopt
    @dataclasses.dataclass
    class Line:
        a: Any

        @functools.cached_property
        def squares(self) -> Any:
            return np.asarray([self.a[0], self.a[1]]) ** 2

        def pieces(self) -> Iterator[Any]:
            yield from np.array([self.squares[0], self.a[1]])

    @functad.adopt
    class Kind(enum.Enum):
        ROOT = 0.5

        def of(self, a: Any) -> Any:
            return np.asarray([a[0], a[1]]) ** self.value

    check_grads(lambda x: sum(Line(x).pieces()) * Line(x).squares.sum(), [X])
    check_grads(lambda x: Kind.ROOT.of(x).sum(), [X])


@pytest.mark.parametrize("wrap", [functools.partial, functools.lru_cache, lambda f: [f]])
def test_what_holds_a_function_is_refused(wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(
        InputError, match="it takes packages and modules, by name or themselves, or one function or class alone"
    ):
        functad.adopt(wrap(len))


# Functions with rules are called below the trace that records them, and so are the arrays that they make.


def _with_vjp(f: Any) -> Any:
    ruled = functad.custom_vjp(lambda x: f(x))
    ruled.defvjp(lambda x: (f(x), x), lambda x, g: functad.vjp(f, x)[1](g))
    return ruled


def _with_jvp(f: Any) -> Any:
    ruled = functad.custom_jvp(lambda x: f(x))
    ruled.defjvp(lambda primals, tangents: functad.jvp(f, primals, tangents))
    return ruled


def _with_gradient(f: Any) -> Any:
    @functad.custom_gradient
    def ruled(x: Any) -> Any:
        value, pullback = functad.vjp(f, x)
        return value, lambda g: pullback(g)[0]

    return ruled


@pytest.mark.parametrize(
    "around",
    [_with_vjp, _with_jvp, _with_gradient, lambda f: functad.checkpoint_sequence(lambda i, x: f(x), 2, snapshots=1)],
    ids=["custom_vjp", "custom_jvp", "custom_gradient", "checkpoint_sequence"],
)
def test_adopted_code_in_functions_with_rules(around: Any) -> None:
    @functad.adopt
    def running(x: Any) -> Any:
        out = np.zeros(3)
        for i in range(3):
            out[i] = np.tanh(x[i]) + 0.5 * out[i - 1]
        return out

    check_grads(around(running), (np.array([0.4, -0.7, 1.1]),))
