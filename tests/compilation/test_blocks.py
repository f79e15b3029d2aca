"""Clusters of elementwise operations in blocks: the source computes what it computes without them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import functad
from functad.backends import blocks
from functad.backends.numpy_source import NumpyProgram
from functad.compilation.passes import simplified
from functad.expressions.expressions import evaluate


@pytest.fixture(name="small")
def fixture_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all arrays large, and blocks of a few elements."""
    monkeypatch.setattr(blocks, "LARGE", 1)
    monkeypatch.setattr(blocks, "BLOCK", 64)
    monkeypatch.setattr(blocks, "_ALIGNED", 1)


@pytest.fixture(name="medium")
def fixture_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make arrays of 256 kB large."""
    monkeypatch.setattr(blocks, "LARGE", 1 << 18)


def curve(a: Any, b: Any, x: Any) -> Any:
    return np.sum(np.tanh(a * x + b) * np.exp(-x * x))


def several(x: Any, y: Any) -> Any:
    u = np.sin(x) * np.cos(y)
    v = np.exp(u) - np.exp(-u)
    return np.where(u > 0, v, -v), np.sqrt(np.abs(u)) * v, np.mean(u * v)


def products(x: Any, y: Any) -> Any:
    u, v = np.sin(x) * np.cos(y) + x, np.exp(y) - np.cos(x)
    return np.sum(u * v), np.sum(u * u), np.sum(v * y)


def dropped(x: Any, y: Any) -> Any:
    return np.sum((x * y - x) * (y + 1)), np.sum((x * y + x) * (y - 1), keepdims=True)


def powers(x: Any, y: Any) -> Any:
    return (x**2 - y) * (y**2 - x) + (x + y) ** 3


def converted(x: Any, y: Any) -> Any:
    return ((x * 2).astype(np.float32) - (y * x).astype(np.float32)) * (np.floor(x) == np.floor(y))


def complex_parts(x: Any, y: Any) -> Any:
    z = np.exp(1j * x) * (x - 1j * y)
    return np.real(z) * np.imag(z) - np.abs(z), z * np.conj(z)


def rows(x: Any, y: Any) -> Any:
    """With arrays that broadcast along the rows, and along the columns."""
    scaled = (x - x[:, :1]) * (y - y[0]) + (x + 1) * (y - 2)
    return scaled / np.sum(scaled**2), scaled


FUNCTIONS = [several, products, dropped, powers, converted, complex_parts]


def compare(f: Any, *args: Any, blocks_of: int = 1) -> str:
    """Compare the source with the list, and with eager functad; return the source."""
    expressions = simplified(functad.make_expressions(f)(*args))
    program = NumpyProgram(expressions)
    assert program.source.count("for start") >= blocks_of, program.source
    with np.errstate(all="ignore"):
        found, expected = program(args), evaluate(expressions, args)
    for a, b in zip(found, expected, strict=True):
        assert (type(a), a.dtype, a.shape) == (type(b), b.dtype, b.shape)
        tolerance = 1e-5 if a.dtype.itemsize == 4 else 1e-13
        np.testing.assert_allclose(a, b, tolerance, tolerance if a.ndim == 0 else 0)
    return program.source


@pytest.mark.parametrize("shape", [(7,), (64,), (100,), (5, 40), (33, 3), (3, 4, 5), (2, 300)], ids=str)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("small")
def test_blocks_compute_the_same(f: Any, shape: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape), rng.normal(size=shape)
    compare(f, x, y)
    compare(f, np.asfortranarray(x), y[::-1])
    if f not in (complex_parts, converted):
        compare(f, x.astype(np.float32), y.astype(np.float32))
        compare(functad.grad(lambda x, y: sum(np.sum(leaf) for leaf in functad.tree_leaves(f(x, y)))), x, y)


@pytest.mark.parametrize("shape", [(50, 3), (8, 200)], ids=str)
@pytest.mark.usefixtures("small")
def test_arrays_that_broadcast(shape: Any) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, *shape))
    if shape == (50, 3):
        source = compare(rows, x, y)
        assert "start:stop" in source
    else:  # rows that are too long for blocks are taken as one axis, on which nothing broadcasts
        compare(lambda x, y: (rows(x, y), several(x, y)), x, y)


@pytest.mark.usefixtures("small")
def test_special_values() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, 1.0] * 4)
    f = functad.grad(lambda x, y: np.sum(np.where(x > 0, np.log(x) * y, np.sqrt(y) * x)))
    expressions = simplified(functad.make_expressions(f)(special, special[::-1].copy()))
    with np.errstate(all="ignore"):
        [found], [expected] = (
            run((special, special[::-1].copy())) for run in (NumpyProgram(expressions), expressions_of(expressions))
        )
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


def expressions_of(expressions: Any) -> Any:
    """Return a list as a function of leaves."""
    return lambda leaves: evaluate(expressions, leaves)


@pytest.mark.usefixtures("small")
def test_what_does_not_depend_on_a_cluster_stays_in_order() -> None:
    def f(x: Any, y: Any) -> Any:
        u = np.sin(x) * np.cos(x)
        total = np.sum(u)  # by a cluster
        w = np.cumsum(y)  # before it
        v = (x - total) * (w + total) - (x + total) * (w - total)  # after it
        return v * u, np.sum(np.cumsum(v)), total

    x, y = np.random.default_rng(0).normal(size=(2, 90))
    assert compare(f, x, y, blocks_of=2).count("def block_") == 2


@pytest.mark.usefixtures("medium")
def test_sizes_of_blocks() -> None:
    f = functad.value_and_grad(curve, argnums=(0, 1, 2))
    for n, dtype in [(100, "f8"), (20_000, "f8"), (100_000, "f4"), (300_001, "f8")]:
        x = np.random.default_rng(0).normal(size=n).astype(dtype)
        args = np.array(1.3, dtype), np.array(0.2, dtype), x
        source = functad.jit(f, backend="numpy").lower(*args).source()
        assert ("for start" in source) == (x.nbytes >= blocks.LARGE)
        found, expected = functad.jit(f, backend="numpy")(*args), f(*args)
        for a, b in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, 2e-5 if dtype == "f4" else 1e-12)


@pytest.mark.usefixtures("medium")
def test_exact_functions_take_sums_as_numpy_does() -> None:
    x = np.random.default_rng(0).normal(size=100_003)
    f = functad.value_and_grad(curve, argnums=(0, 1, 2))
    exact = functad.jit(f, exact=True)
    assert "for start" in exact.lower(1.3, 0.2, x).source()
    for a, b in zip(functad.tree_leaves(exact(1.3, 0.2, x)), functad.tree_leaves(f(1.3, 0.2, x)), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.usefixtures("medium")
def test_steps_of_loops_have_blocks() -> None:
    x = np.linspace(0.0, 1.0, 40_000)

    def f(x: Any) -> Any:
        return functad.scan(lambda c, _: (np.sin(c * c - x) * (c + x) - np.mean(c), np.sum(c)), x, None, 5)

    source = functad.jit(f, backend="numpy").lower(x).source()
    assert "for start" in source
    for a, b in zip(functad.jit(f, backend="numpy")(x), f(x), strict=True):
        np.testing.assert_allclose(a, b, 1e-12)


@pytest.mark.usefixtures("medium")
def test_chains_need_no_blocks() -> None:
    """They are written into one array again and again, which is as quick."""
    x = np.zeros(1_000_000)
    assert "for start" not in functad.jit(lambda x: np.tanh(x * 2 + 1) * 3, backend="numpy").lower(x).source()
    assert "for start" not in functad.jit(lambda x, y: (x * y, np.sum(x)), backend="numpy").lower(x, x).source()
    assert "for start" in functad.jit(lambda x, y: (x * y - x) * (y + 1), backend="numpy").lower(x, x).source()


def test_sums_of_blocks_are_as_accurate_as_numpys() -> None:
    x = np.random.default_rng(0).uniform(size=3_000_000).astype(np.float32)

    def f(x: Any) -> Any:
        return np.sum((x * x - x) * (x + 1) + 1), np.mean((x * x - x) * (x + 1) + 1)

    with np.errstate(all="ignore"):
        found = functad.jit(f, backend="numpy")(x)
        terms = ((x * x - x) * (x + 1) + 1).astype(np.float64)
    assert "for start" in functad.jit(f, backend="numpy").lower(x).source()
    errors = [abs(float(a) - b) / b for a, b in zip(found, (terms.sum(), terms.mean()), strict=True)]
    assert max(errors) <= 2e-7
    assert [a.dtype for a in found] == [np.float32] * 2


@pytest.mark.usefixtures("medium")
def test_the_source_runs_without_functad(tmp_path: Any) -> None:
    x = np.linspace(-2.0, 2.0, 70_001)
    text = functad.to_source(functad.grad(curve, 2), 1.5, 0.5, x)
    assert "for start" in text
    check = "import sys, numpy as np\nsys.modules['functad'] = None\nfrom module import curve\n"
    check += "np.save('out.npy', curve(1.5, 0.5, np.linspace(-2.0, 2.0, 70_001)))\n"
    (tmp_path / "module.py").write_text(text)
    subprocess.run([sys.executable, "-c", check], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), functad.grad(curve, 2)(1.5, 0.5, x), 1e-14, 1e-16)


@pytest.mark.usefixtures("medium")
def test_names_of_arguments_are_their_own() -> None:
    x = np.linspace(-2.0, 2.0, 40_000)

    def f(block: Any, start: Any, x_part: Any) -> Any:
        x, stop = block["x"], start["v1"]
        return (x * stop - x) * (x + x_part)

    space: dict[str, Any] = {}
    text = functad.to_source(f, {"x": x}, {"v1": x}, x)
    exec(text, space)
    assert "for start_1" in text
    assert np.array_equal(space["f"]({"x": x}, {"v1": x}, x), f({"x": x}, {"v1": x}, x))


@pytest.mark.usefixtures("medium")
def test_results_are_arrays_of_their_own() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 300, 300))
    f = functad.jit(lambda x, y: ((x * y - x) * (y + 1), x * y), backend="numpy")
    found, before = f(x, y), (x.copy(), y.copy())
    for leaf in found:
        leaf[...] = 0.0
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])
    assert np.array_equal(f(x, y)[1], x * y)


def test_lists_of_many_equations_are_searched_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGE", 1 << 18)
    monkeypatch.setattr(blocks, "_STEPS", 500)
    x = np.linspace(0.0, 1.0, 40_000)

    def f(x: Any) -> Any:  # with fewer steps than are rolled up to a loop
        for _ in range(15):  # each sum ends a cluster
            x = np.sin(x * x - x) * (x + 1) - np.mean(x)
        return x

    source = functad.jit(f, backend="numpy").lower(x).source()
    assert 5 < source.count("for start") < 15
    np.testing.assert_allclose(functad.jit(f, backend="numpy")(x), f(x))
