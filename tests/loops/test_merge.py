"""Merging of functions of the loop IR: which functions become one, and that programs compute the same."""

import itertools

import numpy as np
import pytest

import functad
from functad.backends.native.blocks import cut
from functad.backends.native.module_text import after_each_function
from functad.loops import merge
from functad.loops.ir import Call, For, Function, Load, Op, Store, check
from functad.loops.merge import merged, shape_of
from tests.loops.evaluate import Address, Buffer, Evaluator


def part(number, length, shift, *, factor="2"):
    """Return `b[i + shift] = factor * a[i]` for `length` elements."""
    body = (
        Load("%x", "i64", "%a", "%i"),
        Op("%y", "mul", "i64", "i64", ("%x", factor)),
        Op("%p", "add", "i64", "i64", ("%i", str(shift))),
        Store("i64", "%b", "%p", "%y"),
    )
    loop = For("%i", "0", str(length), 1, body, vector=True)
    return Function(f"@part{number}", (("ptr", "%a"), ("ptr", "%b")), (loop,), local=True)


def whole(count):
    calls = [Call("", "void", f"@part{i}", (("ptr", "%a"), ("ptr", "%b")), inline="always") for i in range(count)]
    return Function("@whole", (("ptr", "%a"), ("ptr", "%b")), tuple(calls))


def run(functions):
    a, b = np.arange(8), np.zeros(16, np.int64)
    Evaluator({own.name: own for own in functions}, {}).call(
        "@whole", Address(Buffer(0, a.view(np.uint8))), Address(Buffer(0, b.view(np.uint8)))
    )
    return b


def test_functions_that_differ_in_integers_become_one(monkeypatch):
    monkeypatch.setattr(merge, "MOST_NODES", 0)
    functions = [*[part(i, 1 + i, 2 * i) for i in range(5)], part(5, 8, 8, factor="3"), whole(6)]
    found = merged(functions)
    for function in found:
        check(function)
    assert [function.name for function in found] == ["@part0", "@whole"]
    assert found[0].parameters == (("ptr", "%a"), ("ptr", "%b"), ("i64", "%n0"), ("i64", "%n1"), ("i64", "%n2"))
    assert {node.function for node in found[1].body} == {"@part0"}
    assert {node.inline for node in found[1].body} == {"never"}
    assert np.array_equal(run(found), run(functions))


def test_equal_integers_stay_and_integers_that_are_equal_together_share_a_parameter(monkeypatch):
    monkeypatch.setattr(merge, "MOST_NODES", 0)
    found = merged([*[part(i, 1 + i, 1 + i) for i in range(4)], whole(4)])
    assert found[0].parameters[2:] == (("i64", "%n0"),)
    assert (found[0].body[0].first, found[0].body[0].stop) == ("0", "%n0")


def test_small_programs_and_few_alike_functions_stay(monkeypatch):
    functions = [*[part(i, 1 + i, 2 * i) for i in range(5)], whole(5)]
    assert merged(functions) is functions
    monkeypatch.setattr(merge, "MOST_NODES", 0)
    few = [*functions[:3], whole(3)]
    assert merged(few) is few


def test_shapes_have_no_integers():
    assert shape_of(part(1, 5, 3)).function == shape_of(part(2, 6, 4)).function
    assert shape_of(part(1, 5, 3)).integers == ("0", "5", "2", "3")
    assert shape_of(part(1, 5, 3)).function != shape_of(part(1, 5, 3)._replace(local=False)).function


def growing(a, x):
    """Solve a triangular system by rows."""
    x = x.copy()
    for i in range(1, x.shape[0]):
        x[i] = (x[i] - a[i, :i] @ x[:i]) / a[i, i]
    return np.sum(np.cos(x))


def test_growing_slices_share_functions_and_compute_the_same(monkeypatch):
    monkeypatch.setattr(cut, "FEWEST", 10**9)  # the loop stays unrolled
    n = 40
    a, x = np.random.default_rng(0).uniform(0.5, 1.0, (n, n)) / n + np.eye(n), np.linspace(0.0, 1.0, n)
    gradient = functad.grad(growing, argnums=(0, 1))
    wanted = gradient(a, x)
    counts = {}
    for most in (10**9, 0):
        monkeypatch.setattr(merge, "MOST_NODES", most)
        with after_each_function(check):
            compiled = functad.jit(gradient, backend="llvm")
            found = compiled(a, x)
        counts[most] = sum(line.startswith("define internal") for line in compiled.lower(a, x).dump("llvm").splitlines())
        for own, right in zip(found, wanted, strict=True):
            assert np.allclose(own, right, rtol=1e-13, atol=1e-15)
    assert 3 * counts[0] < counts[10**9]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_merged_loops_over_slices_of_all_lengths(monkeypatch, dtype):
    monkeypatch.setattr(merge, "MOST_NODES", 0)

    def sums(x, y):
        parts = [x[i : 30 - i] * y[: 30 - 2 * i] + y[2 * i :] for i in range(13)]
        return [np.sum(part) for part in parts], [np.max(part) for part in parts], parts

    x, y = np.arange(30, dtype=dtype), np.linspace(1, 60, 30).astype(dtype)
    found = functad.jit(sums, backend="llvm")(x, y)
    for own, right in zip(itertools.chain(*found), itertools.chain(*sums(x, y)), strict=True):
        assert np.allclose(own, right, rtol=1e-6 if dtype == np.float32 else 1e-14)
        assert own.dtype == right.dtype
