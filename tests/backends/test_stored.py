"""Programs on disk: a second function with the same list is not simplified, planned or compiled, and computes the same."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite", reason="llvmlite is in the extra `jit`")

from functad.backends.native import disk, plan, stored
from functad.compilation import lists
from functad.testing.programs.program import draw_program

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(6, 4)), RNG.normal(size=6)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_STATE", {"directory": tmp_path})
    return tmp_path


def programs(directory):
    return sorted(directory.glob("*.program"))


@pytest.fixture
def plans(monkeypatch):
    """A list with an item for each plan and each simplification from now on."""
    found, made, simplified = [], plan.Plan.__init__, lists.simplified
    monkeypatch.setattr(plan.Plan, "__init__", lambda self, *args, **options: found.append(1) or made(self, *args, **options))
    monkeypatch.setattr(lists, "simplified", lambda *args, **options: found.append(2) or simplified(*args, **options))
    return found


def network(p, x):
    return np.mean(np.tanh(np.tanh(x @ p["w"] + 1.0) @ p["v"]) ** 2)


def of_steps(x):
    return functad.scan(lambda c, _: (c * 0.9 + np.sin(c), c), x, None, length=30)[0].sum()


def with_numpy(x):
    return np.sum(np.linalg.inv(np.exp(x) + 30.0 * np.eye(20))) + np.sort(x[0])[3]


def hidden(x):
    return np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 0.0)), 0.0))


CASES = {
    "sum": (lambda x: np.sum(x * x), (B,)),
    "gradient": (functad.value_and_grad(network), ({"w": RNG.normal(size=(4, 3)), "v": RNG.normal(size=3)}, A)),
    "loop": (functad.grad(of_steps), (B,)),
    "NumPy calls": (functad.grad(with_numpy), (RNG.normal(size=(20, 20)),)),
    "threads": (lambda x: (np.exp(x) * 2.0, np.sum(x)), (RNG.normal(size=300_000),)),
    "NaN": (functad.grad(hidden), (B,)),
    "constants": (lambda x: (x + np.arange(600.0), np.arange(3.0), x), (RNG.normal(size=600),)),
    "numbers": (lambda x, n: {"a": x * n, "b": n + 1}, (2.5, 3)),
    "branches": (lambda x: functad.cond(x[0] > 0, np.sin, np.cos, x), (B,)),
    "integers": (lambda x: np.cumsum(x) // 3, (np.arange(9),)),
    "shape ()": (lambda x: np.where(x > 0, x, 1.0), (np.array(2.0),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_from_disk_computes_the_same(name, directory, plans):
    f, args = CASES[name]
    first = functad.jit(f, backend="llvm")(*args)
    assert len(programs(directory)) == 1
    plans.clear()
    again = functad.jit(f, backend="llvm")
    for found in (again(*args), again(*args)):
        for a, b in zip(functad.tree_leaves(found), functad.tree_leaves(first), strict=True):
            assert type(a) is type(b)
            np.testing.assert_array_equal(a, b)
    assert not plans or name == "NaN"  # the careful list is another one
    assert len(programs(directory)) == 1
    lowered = again.lower(*args)
    assert lowered.source() == functad.jit(f, backend="llvm").lower(*args).source()
    assert "native_1" in lowered.dump("loops")
    assert lowered.expressions.after


def test_calls_that_native_code_leaves_to_numpy(directory):
    def f(x, i):
        return x[i] * 2.0

    for _ in range(2):
        g = functad.jit(f, backend="llvm")
        assert g(B, np.array([1, 2])).shape == (2,)
        with pytest.raises(IndexError):
            g(B, np.array([1, 7]))
    power = lambda n: functad.fori_loop(0, 50, lambda i, c: c * 3, n)  # noqa: E731 - jitted twice
    assert [functad.jit(power, backend="llvm")(1) for _ in range(2)] == [3**50] * 2


def test_derivatives_of_a_program_from_disk(directory):
    f, args = CASES["loop"][0], (B,)
    for _ in range(2):
        g = functad.jit(lambda x: np.sum(np.sin(x) * x), backend="llvm")
        np.testing.assert_allclose(functad.grad(g)(B), np.cos(B) * B + np.sin(B))
        np.testing.assert_allclose(functad.vmap(functad.jit(f, backend="llvm"))(np.stack([B, B]))[1], f(*args))


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed, directory):
    generator = np.random.default_rng(seed)
    program = draw_program(lambda n: int(generator.integers(n)), large=seed % 3 == 0)
    if program.value_dependent:
        pytest.skip("no expression list")
    with np.errstate(all="ignore"):
        found = [functad.jit(program, backend="llvm")(*program.inputs) for _ in range(2)]
    for a, b in zip(*map(functad.tree_leaves, found), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)


def test_lists_that_are_not_stored(directory):
    @functad.custom_vjp
    def double(x):
        return 2.0 * x

    double.defvjp(lambda x: (2.0 * x, None), lambda kept, g: (2.0 * g,))
    large = RNG.normal(size=200_000)
    for f, args in [(double, (B,)), (lambda x: x + large, (large,))]:
        functad.jit(f, backend="llvm")(*args)
    functad.jit(lambda x: x * 2.0, backend="llvm", donate_argnums=0)(large)
    functad.jit(lambda x: x * 2.0, backend="numpy")(B)
    assert not programs(directory)


def test_different_lists_and_options_have_different_files(directory):
    for f in (lambda x: x * 2.0, lambda x: x * 3.0, lambda x: x * 2):
        functad.jit(f, backend="llvm")(B)
        functad.jit(f, backend="llvm", exact=True)(B)
        functad.jit(f, backend="llvm")(B.astype("f4"))
    assert len(programs(directory)) == 9


def test_damaged_and_missing_files_are_replaced(directory, monkeypatch):
    f = lambda x: np.sum(np.sin(x) * 3.0)  # noqa: E731 - jitted several times
    value = functad.jit(f, backend="llvm")(B)
    [path] = programs(directory)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert functad.jit(f, backend="llvm")(B) == value
    assert path.read_bytes() == content
    for code in directory.glob("*.bin"):
        code.unlink()
    disk._LIBRARIES.clear()
    assert functad.jit(f, backend="llvm")(B) == value
    assert list(directory.glob("*.bin"))
    monkeypatch.setattr(stored, "_sources", lambda: "another version of functad")
    assert functad.jit(f, backend="llvm")(B) == value
    assert len(programs(directory)) == 2


def test_a_warm_process_plans_nothing(tmp_path):
    text = (
        "import numpy as np, functad\n"
        "from functad.backends.native import plan\n"
        "made, count = plan.Plan.__init__, []\n"
        "plan.Plan.__init__ = lambda self, *a, **o: count.append(1) or made(self, *a, **o)\n"
        "f = functad.jit(functad.value_and_grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2)), backend='llvm')\n"
        "value, slope = f(np.ones(3), np.eye(3))\n"
        "print(len(count), repr(float(value)), slope)\n"
    )
    environment = {**os.environ, "FUNCTAD_COMPILATION_CACHE": str(tmp_path / "kept")}
    runs = [
        subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert runs[0][0] != "0"
    assert runs[1][0] == "0"
    assert runs[0][1:] == runs[1][1:]


def test_the_log_says_where_a_program_is_from(directory, caplog):
    f = lambda x: x * 5.0  # noqa: E731 - jitted twice
    functad.jit(f, backend="llvm")(B)
    with caplog.at_level(logging.INFO, "functad.compile"):
        functad.jit(f, backend="llvm")(B)
    assert "loaded from disk" in caplog.text


def test_unpickled_functions_use_programs_on_disk(directory, plans):
    functad.jit(np.hypot, backend="llvm")(B, B)
    plans.clear()
    f = pickle.loads(pickle.dumps(functad.jit(np.hypot, backend="llvm")))
    np.testing.assert_allclose(f(B, B), np.hypot(B, B))
    assert 1 not in plans
