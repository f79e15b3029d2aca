"""Compiled loops of no steps return copies of what they are given, as eager loops do."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.testing.programs.cases import same_leaf

BACKENDS = ["numpy", "llvm"]

LOOPS = {
    "fori_loop": lambda x: functad.fori_loop(0, 0, lambda i, c: c * i, x),
    "fori_loop, bounds in the wrong order": lambda x: functad.fori_loop(3, 2, lambda i, c: np.sin(c), x),
    "fori_loop in a fori_loop": lambda x: functad.fori_loop(
        0, 1, lambda i, c: functad.fori_loop(0, 0, lambda j, e: e + c, c), x
    ),
    "scan": lambda x: functad.scan(lambda c, _: (c * 2, c), x, None, length=0),
    "scan of a pair": lambda x: functad.scan(lambda c, _: ((c[1], c[0]), c[0]), (x, x), None, length=0),
}
ARGUMENTS = {
    "vector": np.array([1.0, 2.0]),
    "array without axes": np.array(1.5),
    "NumPy number": np.float32(1.5),
    "Python number": 1.5,
    "half precision": np.ones(40, np.float16),
    "Python integer": 3,
}


@pytest.fixture(autouse=True)
def needs(request):
    if request.getfixturevalue("backend") == "llvm":
        pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")


def check(f, x, backend):
    leaves = functad.tree_leaves(functad.jit(f, backend=backend)(x))
    for found, expected in zip(leaves, functad.tree_leaves(f(x)), strict=True):
        same_leaf(found, expected, "the result")
    arrays = [x, *leaves]
    assert not any(np.may_share_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("loop", LOOPS)
def test_values(loop, argument, backend):
    check(LOOPS[loop], ARGUMENTS[argument], backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("argument", [name for name in ARGUMENTS if name != "Python integer"])
@pytest.mark.parametrize("loop", [*LOOPS, "of one step"])
def test_tangents(loop, argument, backend):
    f = LOOPS.get(loop, lambda x: functad.fori_loop(0, 1, lambda i, c: c * 2, x))
    check(lambda x: functad.jvp(f, (x,), (np.ones_like(x),)), ARGUMENTS[argument], backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_body_that_numpy_refuses_is_not_called(backend):
    check(lambda m: functad.fori_loop(0, 0, lambda i, c: -c, m), np.array([True, False]), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_that_a_loop_hands_on_are_copied(backend):
    def swapped(x):
        zeros = np.zeros_like(x)
        return functad.scan(lambda c, _: ((c[1], c[0]), None), (zeros, zeros), None, length=2)[0][1]

    compiled = functad.jit(swapped, backend=backend)
    compiled(np.ones(3))[...] = 7.0
    assert compiled(np.ones(3)).tolist() == [0.0, 0.0, 0.0]
