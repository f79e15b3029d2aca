"""The backend `llvm`: loops over elements, reductions, small arrays, steps of NumPy in between, threads, the cache on disk."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite")

from functad.backends.llvm.module import Machine
from functad.backends.native.program import LlvmProgram


def compiled(f: Any, **options: Any) -> Any:
    return functad.jit(f, backend="llvm", **options)


def agree(f: Any, *args: Any, rtol: float = 1e-13) -> Any:
    """Compare a compiled function with the function, and return what it compiled."""
    with np.errstate(all="ignore"):
        expected = f(*args)
    own = compiled(f)
    found = own(*args)
    pairs = list(zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True))
    for a, b in pairs:
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=1e-300) if np.ndim(b) else 0.0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)
    return own


def test_elements_and_sums_share_one_loop() -> None:
    f = functad.value_and_grad(lambda a, b, x: np.sum(np.tanh(a * x + b) * np.exp(-x * x)), argnums=(0, 1, 2))
    x = np.linspace(-1.0, 1.0, 300)
    source = agree(f, 1.5, 0.2, x).lower(1.5, 0.2, x).source()
    assert source.count("a loop over") == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x, 0),
        lambda x: np.sum(x, 1) * 2,
        lambda x: np.sum(x, (0, 2)),
        lambda x: np.max(x, (1, 2), keepdims=True) - np.min(x, 2, keepdims=True),
        lambda x: np.exp(x - np.max(x, 1, keepdims=True)) / np.sum(np.exp(x), 1, keepdims=True),
        lambda x: np.mean(x.T, 0) + np.prod(x.T, 2)[1, :, None],
        lambda x: np.any(x > 1, 1) | np.all(x > -1, 1),
        lambda x: (np.sum(x > 0, 2), np.sum(x.astype(np.int64), 0)),
        lambda x: np.sin(x).reshape(-1, 2)[:, ::-1] + np.cos(x[0, 0, 0]),
        lambda x: x[:, None] * x[None] + np.sum(x, 2)[:, :, None],
        lambda x: np.stack([x[0, 0, 0], np.sum(x), x[1, 2, 3]]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_reductions_and_shapes(f: Any, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(dtype)
    agree(f, x, rtol=1e-13 if dtype is np.float64 else 1e-5)
    agree(f, np.asfortranarray(x), rtol=1e-13 if dtype is np.float64 else 1e-5)


def test_small_axes_at_the_end_are_written_out() -> None:
    x = np.random.default_rng(1).standard_normal((500, 3))
    agree(functad.value_and_grad(lambda x: np.sum(np.sqrt(np.sum(x * x, 1)) + np.sum(x, 1) ** 2)), x)


def test_numbers_keep_their_kind() -> None:
    f = compiled(lambda x: (x * 2 + 1, x > 0))
    assert type(f(1.5)[0]) is float
    assert type(f(3)[0]) is int
    assert type(f(np.float32(3))[0]) is np.float32
    assert type(f(np.float64(3))[1]) is np.bool_
    assert f(-(2**62))[0] == -(2**63) + 1


def test_long_sums_are_as_accurate_as_those_of_numpy() -> None:
    rng = np.random.default_rng(2)
    total = compiled(np.sum)
    for dtype in (np.float64, np.float32):
        for x in (rng.standard_normal(100_003), rng.random(1_000_003), np.full(200_001, 0.1)):
            own = x.astype(dtype)
            exact = math.fsum(own.astype(float).tolist())
            assert abs(float(total(own)) - exact) <= max(abs(float(np.sum(own)) - exact), np.finfo(dtype).eps * abs(exact))
    rows = rng.random((3, 50_001))
    for found, row in zip(compiled(lambda x: np.sum(x, 1))(rows), rows, strict=True):
        assert abs(found - math.fsum(row.tolist())) <= 2e-16 * found
    assert compiled(np.sum)(np.array([np.inf] * 3000)) == np.inf
    assert np.isnan(compiled(np.sum)(np.array([np.inf, -np.inf] * 3000)))


def test_rare_arguments_are_computed_by_the_formula_that_holds_for_them() -> None:
    x = np.linspace(-3.0, 3.0, 5000)
    x[[7, 2500]] = 1e300, -1e22
    agree(lambda x: (np.sin(x), np.sum(np.cos(x) ** 2)), x)
    agree(lambda x: np.sum(np.sin(x.reshape(50, 100)), 1), x)
    agree(lambda x: np.sum(np.sin(x.reshape(50, 100)), 0), x)


def test_zero_wins_and_kinks_are_those_of_eager_functions() -> None:
    f = functad.grad(lambda x: np.sum(np.where(x > 0, x * np.log(x), 0.0) + np.abs(x) + np.maximum(x, 0.0) + np.sqrt(x * x)))
    agree(f, np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf]))
    g = functad.grad(lambda x: np.max(x) + np.sum(np.clip(x, -1.0, 1.0)))
    agree(g, np.array([1.0, 3.0, 3.0, -1.0, -4.0, 0.0]))


def test_what_is_not_known_is_a_call_of_numpy_in_between() -> None:
    f = lambda x: np.sum(np.linalg.eigvalsh(np.exp(x) + np.exp(x.T)) * np.sin(x), 0) * np.cos(x[0, 0])  # noqa: E731
    x = np.random.default_rng(3).standard_normal((9, 9))
    own = agree(f, x, rtol=1e-11)
    assert "linalg" in own.lower(x).source()
    agree(lambda z: (np.abs(z) ** 2 + np.angle(z)).sum(), np.array([1 + 2j, 3 - 1j]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.abs(x)),
        lambda x: np.sum(np.sqrt(np.abs(x) + 1) * np.sign(x)),
        lambda x: np.sum(np.clip(x, 0, None) * x),
        lambda x: np.sum(x.clip(None, 0.5) ** 2),
        lambda x: np.sum(np.clip(x, -0.5, 0.5) * x),
    ],
)
def test_gradients_of_absolute_values_and_bounds_are_one_loop(f: Any) -> None:
    x = np.array([-1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 0.7, np.nan, np.inf, -np.inf] * 3)
    own = agree(functad.grad(f), x)
    source = own.lower(x).source()
    assert source.count("a loop over") == 1
    assert "np." not in source.split("def run")[1].split("again")[0]


def test_integers_and_truth() -> None:
    i = np.array([7, -7, 0, 3, -(2**63)])
    agree(lambda i, j: (i // j, i % j, i & j, ~i, np.sign(i), np.abs(j), i > j, i / 3), i, np.array([2, 2, 0, -3, -1]))
    b = np.array([True, False, True, True, False])
    agree(lambda b, i: (b & (i > 0), b | ~b, b ^ b, b + b, b * 2.5, np.sum(b), b.astype(np.float32)), b, i)


def test_long_chains_compile() -> None:
    def chain(x: Any) -> Any:
        for _ in range(300):
            x = np.sin(x) * 1.01 + 0.1 * x
        return np.sum(x)

    agree(functad.value_and_grad(chain), np.linspace(0.5, 1.0, 9), rtol=1e-10)
    agree(functad.grad(chain), 0.5, rtol=1e-10)


def formula(count: int, seed: int) -> Any:
    """Return an elementwise function of `count` irregular terms, which no pass can roll into a loop."""
    steps = np.random.default_rng(seed).integers(0, 6, (count, 3)).tolist()
    numbers = np.random.default_rng(seed).uniform(0.1, 1.0, (count, 3)).tolist()
    kinds = [
        lambda t, x: t * x,
        lambda t, x: t + x,
        lambda t, x: x - t,
        lambda t, x: t * t,
        lambda t, x: np.sin(t),
        lambda t, x: t,
    ]

    def f(x: Any) -> Any:
        total = 0.0
        for own, (a, b, c) in zip(steps, numbers, strict=True):
            t = a + x * b
            for kind in own:
                t = kinds[kind](t, x) * c
            total = total + t / (1 + t * t)
        return np.sum(total)

    return f


@pytest.mark.parametrize(("terms", "loops", "arrays"), [(35, 1, 1), (150, 6, 12)])
def test_long_formulas_are_cut_where_few_values_are_alive(terms: int, loops: int, arrays: int) -> None:
    x = np.linspace(0.5, 1.0, 40)
    own = agree(functad.grad(formula(terms, 0)), x, rtol=1e-11)
    lines = [line for line in own.lower(x).source().splitlines() if "a loop over" in line]
    assert len(lines) <= loops
    assert sum(line.count(" v") for line in lines) <= arrays


def test_what_a_program_says_again_and_again_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that LLVM takes grows faster than the length of a function, so a long loop in Python must not become one."""
    texts: list[str] = []
    compile_ = Machine.compiled
    monkeypatch.setattr(Machine, "compiled", lambda self, text: (texts.append(text), compile_(self, text))[1])

    @functad.adopt
    def stiffness(areas: Any) -> Any:
        whole = np.zeros((30, 30))
        for i in range(60):
            places = [i % 30, (7 * i + 1) % 30]
            whole[np.ix_(places, places)] += areas[i] * np.array([[1.0, -1.0], [-1.0, 1.0]])
        return np.sum(whole**2)

    agree(functad.grad(stiffness), np.linspace(1.0, 2.0, 60), rtol=1e-12)
    parts = [part.split("(", 1)[1] for part in texts[-1].split("define internal void @part")[1:]]
    assert len(parts) == len(set(parts))
    calls = [line for line in texts[-1].splitlines() if "call void @part" in line]
    assert len(calls) > 2 * len(parts)
    assert {line.rsplit(" ", 1)[1] for line in calls} == {"alwaysinline", "noinline"}
    agree(lambda x: np.sum(np.sort(np.roll(np.sin(x), 1)[::2]) * 2.0), np.linspace(0.5, 1.0, 40))
    assert "noinline" not in "".join(line for line in texts[-1].splitlines() if "call void @part" in line)


def test_threads_share_large_loops() -> None:
    x = np.random.default_rng(4).standard_normal((400, 1500))
    f = functad.value_and_grad(lambda x: np.sum(np.tanh(x)) + np.sum(np.max(np.sin(x), 0)) + np.sum(np.sum(x, 0) ** 2))
    try:
        found = []
        for count in (1, 3, 3):
            functad.set_num_threads(count)
            found.append(agree(f, x, rtol=1e-12)(x))
        assert found[1][0] == found[2][0]
        assert np.array_equal(found[1][1], found[2][1])
    finally:
        functad.set_num_threads(None)
    for wrong in (0, -1, 1.5, True, 10**9):
        with pytest.raises(functad.errors.InputError):
            functad.set_num_threads(wrong)


def test_each_thread_notes_where_numpy_must_raise() -> None:
    x, index = np.linspace(0.0, 1.0, 1000), np.zeros(600_000, np.int64)
    f = compiled(lambda x, i: np.sin(x[i]) + x[i])
    try:
        functad.set_num_threads(2)
        f(x, index)
        for place in (0, 100, 599_999):
            wrong = index.copy()
            wrong[place] = 1000
            with pytest.raises(IndexError):
                f(x, wrong)
    finally:
        functad.set_num_threads(None)


def test_eight_threads_compile_and_call_one_function() -> None:
    f = compiled(functad.value_and_grad(lambda x: np.sum(np.exp(np.sin(x)))))
    x = np.linspace(0.0, 1.0, 64)
    found: list[Any] = [None] * 8
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        found[number] = [f(x * (number + 1)) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, own in enumerate(found):
        expected = np.exp(np.sin(x * (number + 1)))
        for value, gradient in own:
            np.testing.assert_allclose(value, expected.sum(), rtol=1e-13)
            np.testing.assert_allclose(gradient, expected * np.cos(x * (number + 1)), rtol=1e-13)


def test_an_interrupt_while_compiling_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    f = compiled(lambda x: np.sin(x) + 1)
    with monkeypatch.context() as patch:
        patch.setattr(LlvmProgram, "_compiled", lambda self: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            f(np.ones(3))
    np.testing.assert_allclose(f(np.ones(3)), np.sin(1.0) + 1)


def test_native_code_refuses_arrays_that_it_was_not_made_for() -> None:
    program = compiled(lambda x: x * 2).lower(np.ones(5)).compile().program
    for wrong in (np.ones(4), np.ones(5, np.float32), [1.0] * 5):
        with pytest.raises(TypeError):
            program([wrong])
    unaligned = np.frombuffer(b"\0" + np.arange(5.0).tobytes(), np.uint8)[1:].view(np.float64)
    assert program([unaligned])[0].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


SCRIPT = """
import sys, numpy as np, functad
from functad.backends.llvm.module import Machine
count, compile_ = [], Machine.compiled
Machine.compiled = lambda self, text: (count.append(1), compile_(self, text))[1]
print(functad.jit(lambda x: np.sum(np.exp(x)), backend="llvm")(np.ones(7)).round(10), len(count))
"""


def test_processes_at_once_write_the_same_files(tmp_path: Any) -> None:
    environment = {**os.environ, "FUNCTAD_COMPILATION_CACHE": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert {run.communicate()[0].split()[0] for run in runs} == {"19.0279727992"}
    assert sorted([file.suffix for file in tmp_path.iterdir()]) == [".bin", ".program"]


def test_code_on_disk_is_taken_and_damaged_files_are_written_anew(tmp_path: Any) -> None:
    def run() -> str:
        environment = {**os.environ, "FUNCTAD_COMPILATION_CACHE": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run() == "19.0279727992 1\n"
    assert run() == "19.0279727992 0\n"
    for suffix, compilations in ((".bin", 1), (".program", 0)):
        [file] = (tmp_path / "cache").glob(f"*{suffix}")
        whole = file.read_bytes()
        for damaged in (b"", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
            file.write_bytes(damaged)
            assert run() == f"19.0279727992 {compilations}\n"
            assert file.read_bytes() == whole
    with pytest.raises(functad.errors.InputError):
        functad.compilation_cache(file)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the plainest processor of this kind has another name elsewhere")
def test_code_for_a_processor_without_vector_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Machine("x86-64", "")
    assert not plain.fused
    monkeypatch.setattr("functad.backends.llvm.module.host", lambda: plain)
    monkeypatch.setattr("functad.backends.native.program.host", lambda: plain)
    x = np.random.default_rng(5).standard_normal((70, 9))
    agree(functad.value_and_grad(lambda x: np.sum(np.tanh(x) * np.exp(-x * x)) + np.sum(np.log(np.sum(x * x, 1)))), x)
    agree(lambda x: (np.sin(x), np.cos(x), np.power(np.abs(x), 1.3), np.arctan2(x, x[0])), x)


def test_very_many_arguments() -> None:
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal(3) for _ in range(110)]
    numbers = [float(x) for x in rng.standard_normal(55)] + [int(n) for n in rng.integers(9, size=55)] + [True, False]

    def f(arrays: Any, numbers: Any) -> Any:
        total = arrays[0] * numbers[0]
        for a, n in zip(arrays[1:], numbers[1:], strict=False):
            total = np.sin(total) * n - a
        return total, [a + numbers[-2] for a in arrays], np.where(numbers[-1], numbers[3], numbers[-2] * 2.0)

    agree(f, arrays, numbers)


def test_large_loops_whose_elements_do_not_fill_vectors() -> None:
    x = np.linspace(-3.0, 3.0, 20_003)
    x[[5, 300, 20_001]] = 1e30, np.inf, -1e12
    for dtype, rtol in ((np.float64, 1e-13), (np.float32, 2e-6)):
        own = x.astype(dtype)
        agree(lambda x: (np.sin(x), np.sum(np.cos(x[6:300])), np.exp(-abs(x))), own, rtol=rtol)
        agree(functad.value_and_grad(lambda x: np.sum(np.tanh(x) ** 2 * np.exp(-abs(x)))), own, rtol=rtol)


def test_elementary_functions_that_are_called_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    compile_ = Machine.compiled
    monkeypatch.setattr(Machine, "compiled", lambda self, text: (texts.append(text), compile_(self, text))[1])
    for shift in (1.0, 2.0):
        agree(lambda x, shift=shift: np.arctanh(x) + shift, 0.3)
    assert sum("define double @functad.arctanh.f64.called" in text for text in texts) <= 1
    assert not any("functad.arctanh.f64(" in text and "native_" in text for text in texts)


def test_arguments_unlike_those_of_the_last_call() -> None:
    """A call with arguments like those of the last one takes a shorter way, which others leave, whatever they differ in."""
    x, y = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    unwritable = x.copy()
    unwritable.setflags(write=False)
    shifted = np.frombuffer(b"\0" + x.tobytes(), dtype=float, offset=1).reshape(x.shape)
    orders = [(x[:, ::-1], y), (x.T.copy().T, y), (unwritable, y), (shifted, y), (x[0], y), (x[:, :0], y[:, :0]), (x, y, 3.0)]
    dtypes = [(a, y) for a in (x.astype("f4"), x.astype(int), x > 2, x.astype(">f8"))]
    numbers = [(x, n) for n in (2.0, np.float64(2.0), np.float32(2.0), np.array(2.0), True, 2)] + [(1.0, 2.0), (2, y)]
    for others in (orders, dtypes, numbers):
        f = functad.jit(lambda x, y, n=1.0: x * y + n)
        for other in others * 2:
            for args in ((x, y), (x, y), (x, y), other, other, (y, x)):
                expected, found = args[0] * args[1] + (args[2] if len(args) > 2 else 1.0), f(*args)
                assert (type(found), np.result_type(found)) == (type(expected), np.result_type(expected)), args
                np.testing.assert_array_equal(found, expected)
        assert f.cache_info().hits + f.cache_info().misses == 6 * 2 * len(others)
    with pytest.raises(TypeError, match="argument"):
        f(x)
    assert f(x, y, n=5.0)[0, 0] == 5.0
    assert functad.grad(lambda x: np.sum(f(x, y)))(x).tolist() == y.tolist()
    with functad.GradientTape() as tape:
        tape.watch(constant := functad.constant(x))
        out = f(constant, y)
    assert tape.gradient(out, constant).numpy().tolist() == y.tolist()
