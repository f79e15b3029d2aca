"""An interrupt at any line of a compilation, a file, a drawing or a report: the next call gives what it always gave."""

import gc
import importlib
import os
import sys
import threading
from itertools import count

import numpy as np
import pytest

import functad
from functad.adoption.modules import AdoptedModule
from functad.backends.native import disk
from tests.test_interrupts import ENTRIES, Interrupt, context_variables, interrupted, settings

X = np.array([0.5, 1.0, 2.0])
POINTS = 12
"""Interrupts for each tool, spread evenly over all lines that it runs."""


def f(x):
    return np.sum(np.where(x > 1, np.sqrt(x), 0.0) * np.sin(x))


FRESH = count()
"""Numbers that make each function new, so that nothing that was compiled before is taken from a cache."""


def fresh(backend):
    """A compiled gradient that was not compiled yet, and the same gradient without compilation."""
    factor = 1.0 + next(FRESH) / 1024
    gradient = functad.grad(lambda x: f(x) * factor)
    return functad.jit(gradient, backend=backend), gradient


def in_blocks(compiled):
    """The gradient of a function of an array in chunks, block by block."""
    da, dask = pytest.importorskip("dask.array", reason="dask is in the extra `test`"), pytest.importorskip("dask")
    a = da.from_array(np.arange(6.0), chunks=2)
    gradient = functad.grad(lambda a: np.sum(functad.map_blocks(np.sin, a, dtype=float) * a))
    with dask.config.set(scheduler="synchronous"):
        return (functad.jit(gradient) if compiled else gradient)(a).compute().tolist()


def looped(x):
    """The gradient of loops and branches, whose bodies are traced to lists of their own."""

    def f(x):
        steps = functad.checkpoint_sequence(lambda i, s: s + 0.1 * np.sin(s), 4, snapshots=2)(x)
        total = functad.scan(lambda c, row: (c * 0.5 + row, c), 0.0, steps)[0]
        return functad.cond(total > 0, np.sin, np.cos, total) + functad.fori_loop(0, 3, lambda i, c: c * total, 1.0)

    return functad.grad(f)(x).tolist()


def in_colours():
    pytest.importorskip("scipy.sparse", reason="SciPy is an extra")
    return functad.sparse_jacobian(lambda x: x * np.sin(x))(X).toarray().tolist()


def flowing():
    pytest.importorskip("scipy", reason="SciPy is an extra")
    times = np.array([0.0, 1.0])
    return functad.grad(lambda y: np.sum(functad.odeint(lambda s, t: -s, y, times)[-1]))(X).tolist()


TOOLS = {
    "map_blocks": lambda: in_blocks(compiled=False),
    "jit of chunks": lambda: in_blocks(compiled=True),
    "loops": lambda: looped(X),
    "odeint": flowing,
    "sparse_jacobian": in_colours,
    "doctor": lambda: [(finding.severity, finding.check) for finding in functad.doctor(f, X).findings],
    "profile": lambda: len(functad.profile(f, X).rows),
    "draw": lambda: functad.draw(f, X, backward=True).mermaid,
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Interrupts within `__del__` are reported by this hook alone."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)


STEP = 53
"""One line in so many of an adoption is interrupted: all of its 6,000 lines take six minutes."""


def lines(work):
    """Some numbers of lines that `work` runs, from its first to its last."""
    low, high = 1, 64
    while interrupted(work, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if interrupted(work, middle) else (low, middle)
    return sorted({round(n) for n in np.linspace(1, low, POINTS)})


@pytest.mark.parametrize("name", TOOLS)
def test_the_same_call_gives_the_same_result(name):
    work = TOOLS[name]
    expected = work()
    variables = context_variables()
    before = settings(variables)
    for number in lines(work):
        interrupted(work, number)
        assert settings(variables) == before, number
        assert work() == expected, number
    assert X.flags.writeable
    assert X.tolist() == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_function_whose_compilation_is_interrupted_is_compiled_by_the_next_call(backend):
    """The interrupted function itself is called again: a half-made entry of its cache would be found by this."""
    variables = context_variables()
    before = settings(variables)
    for number in lines(lambda: fresh(backend)[0](X)):
        compiled, gradient = fresh(backend)
        interrupted(lambda: compiled(X), number)  # noqa: B023 - it is called here
        assert settings(variables) == before, number
        np.testing.assert_allclose(compiled(X), gradient(X), rtol=1e-14, atol=1e-15, err_msg=str(number))


def test_lists_are_saved_whole_or_not_at_all(tmp_path):
    path = tmp_path / "list"
    old, new = functad.make_expressions(np.sin)(X), functad.make_expressions(f)(X)
    functad.save_expressions(new, path)
    for number in lines(lambda: functad.save_expressions(new, path)):
        functad.save_expressions(old, path)
        interrupted(lambda: functad.save_expressions(new, path), number)
        assert [file.name for file in tmp_path.iterdir()] == ["list"], number
        assert functad.digest(functad.load_expressions(path)) in (functad.digest(old), functad.digest(new)), number


def test_lists_are_read_whole_or_not_at_all(tmp_path):
    functad.save_expressions(functad.make_expressions(f)(X), tmp_path / "list")
    expected = functad.digest(functad.load_expressions(tmp_path / "list"))
    for number in lines(lambda: functad.load_expressions(tmp_path / "list")):
        interrupted(lambda: functad.load_expressions(tmp_path / "list"), number)
        assert functad.digest(functad.load_expressions(tmp_path / "list")) == expected, number


@pytest.mark.parametrize("opcodes", [False, True])
def test_machine_code_is_kept_whole_or_not_at_all(tmp_path, opcodes):
    path, number = tmp_path / "code.bin", 1
    while interrupted(lambda: disk._write(path, b"new"), number, opcodes=opcodes):
        names = [file.name for file in tmp_path.iterdir()]
        assert names in ([], ["code.bin"]), number
        assert disk._read(path) == (b"new" if names else None), number
        path.unlink(missing_ok=True)
        number += 1
    assert number > 10
    assert disk._read(path) == b"new"
    assert path.stat().st_mode & 0o077 == 0 or os.name == "nt"


def test_machine_code_that_is_let_go_under_an_interrupt_leaves_no_lock_behind():
    """The garbage collector may let a program go at any line; other threads compile afterwards."""
    pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")
    for number in range(1, 9):
        programs = [fresh("llvm")[0]]
        programs[0](X)
        interrupted(lambda: programs.clear() or gc.collect(), number)  # noqa: B023 - it is called here
        results = []
        thread = threading.Thread(target=lambda: results.append(fresh("llvm")[0](X)), daemon=True)  # noqa: B023
        thread.start()
        thread.join(60)
        assert results, number


def test_adopted_modules_have_their_own_names_back(tmp_path, monkeypatch):
    (tmp_path / "interrupted_package.py").write_text(
        "import math\nimport numpy as np\ndef g(x):\n    return np.sum(x) * math.pi\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("interrupted_package")
    own = dict(vars(module))

    def work():
        with functad.adopt("interrupted_package"):
            return functad.grad(module.g)(X).tolist()

    expected = work()
    number = 1
    # These two functions take a lock by `with`; tracing would stop before its release.
    while interrupted(work, number, skipped=(*ENTRIES, "begin", "_restore")):
        assert vars(module) == own, number
        assert "interrupted_package" not in functad.adopted(), number
        number += STEP
    assert number > 5000
    assert work() == expected
    thread = threading.Thread(target=work, daemon=True)  # no interrupt leaves the lock to this thread
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("interrupts", [1, 2, 5])
def test_adoption_ends_where_one_interrupt_follows_another(tmp_path, monkeypatch, interrupts):
    name = f"package_interrupted_{interrupts}_times"
    (tmp_path / f"{name}.py").write_text("import numpy as np\ndef g(x):\n    return np.sum([x[0], 1.0])\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(name)
    own = dict(vars(module))
    with functad.adopt(name):
        expected = functad.grad(module.g)(X).tolist()
    change, restore, left = AdoptedModule.change, AdoptedModule.restore, interrupts

    def changed(self, *args):
        change(self, *args)
        raise Interrupt

    def restored(self):
        nonlocal left
        left -= 1
        if left >= 0:
            raise Interrupt
        restore(self)

    with monkeypatch.context() as patched:
        patched.setattr(AdoptedModule, "restore", restored)

        def work():
            nonlocal left
            left = interrupts
            raise Interrupt

        with pytest.raises(Interrupt), functad.adopt(name):
            work()
        assert (vars(module), name in functad.adopted()) == (own, False)
        left = interrupts
        patched.setattr(AdoptedModule, "change", changed)
        with pytest.raises(Interrupt):
            functad.adopt(name)
        assert (vars(module), name in functad.adopted()) == (own, False)
    with functad.adopt(name):
        assert functad.grad(module.g)(X).tolist() == expected
