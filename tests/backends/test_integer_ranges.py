"""Ranges of Python integers hold all values, are narrow enough for usual loops, and keep compiled integers right."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import functad
from functad.backends.integer_ranges import INT64, RANGES, large_equations, results_fit
from functad.primitives.entry import ENTRIES

SMALL = [(a, b) for a in range(-4, 5) for b in range(a, 5)]
RULES = {entry.function: rule for entry in ENTRIES.values() if (rule := RANGES.find(entry)) is not None}
UNARY = [f for f in RULES if getattr(f, "nin", 1) == 1]
BINARY = [f for f in RULES if getattr(f, "nin", 1) == 2]


def values(function, *ranges):
    """Return the results for all integers of the ranges, without exceptions."""
    for each in itertools.product(*[range(a, b + 1) for a, b in ranges]):
        if function in (np.left_shift, np.right_shift, np.power) and each[1] < 0:
            continue
        with np.errstate(all="ignore"):
            yield int(function(*map(np.int64, each)))


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_ranges_of_one_operand(function):
    for a in SMALL:
        low, high = RULES[function](a)
        assert all(low <= value <= high for value in values(function, a)), a


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_ranges_of_two_operands(function):
    for a, b in itertools.product(SMALL, SMALL):
        found = RULES[function](a, b)
        if found is None:
            assert function in (np.left_shift, np.right_shift, np.power)
            assert b[0] < 0
            continue
        assert all(found[0] <= value <= found[1] for value in values(function, a, b)), (a, b)


def gcd(a, b):
    return functad.while_loop(lambda s: s[1] > 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]


def fibonacci(steps):
    return lambda n: functad.fori_loop(0, steps, lambda i, s: (s[1], s[0] + s[1]), (n, n + 1))[0]


LOOPS = {
    "counter of a tolerance": (
        lambda x: functad.while_loop(lambda s: s[1] > 1e-3, lambda s: (s[0] + 1, s[1] * 0.5), (0, x))[0],
        (1.0,),
    ),
    "sum of counters": (lambda n: functad.fori_loop(0, 1000, lambda i, c: c + i, n), (3,)),
    "sum of counters to an argument": (lambda n: functad.fori_loop(0, n, lambda i, c: c + i, 0), (1000,)),
    "sum of counters, while": (
        lambda n: functad.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + s[0]), (0, 0))[1],
        (100,),
    ),
    "doubling": (lambda n: functad.while_loop(lambda c: c < n, lambda c: c * 2, 1), (1000,)),
    "counting down": (lambda n: functad.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] + 2), (n, 0))[1], (100,)),
    "remainders": (gcd, (84, 60)),
    "random numbers": (
        lambda seed: functad.fori_loop(0, 100, lambda i, s: (s * 1103515245 + 12345) % 2**31, seed),
        (7,),
    ),
    "hash": (lambda seed: functad.fori_loop(0, 100, lambda i, s: ((s * 31) ^ i) & (2**32 - 1), seed), (7,)),
    "50 Fibonacci numbers": (fibonacci(50), (1,)),
    "float carry": (lambda x: functad.fori_loop(0, 5, lambda i, c: c * i, x), (2.0,)),
    "steps that alternate": (lambda n: functad.fori_loop(0, 1000, lambda i, s: (s[1], -s[0]), (n, 1))[0], (3,)),
}

LARGE = {
    "powers": (lambda n: functad.fori_loop(0, 50, lambda i, c: c * 3, n), (1,)),
    "powers, number of steps as an argument": (lambda n: functad.fori_loop(0, n, lambda i, c: c * 3, 1), (50,)),
    "factorial": (lambda n: functad.fori_loop(1, 26, lambda i, c: c * i, n), (1,)),
    "100 Fibonacci numbers": (fibonacci(100), (1,)),
    "beside a float": (lambda n, x: functad.fori_loop(0, 50, lambda i, c: (c[0] * 3, c[1] + c[0]), (n, x)), (1, 2.0)),
    "results of steps": (lambda n: functad.scan(lambda c, _: (c * 3, c), n, None, length=45), (1,)),
    "while": (lambda n: functad.while_loop(lambda c: c < 2**62, lambda c: c * 3, n), (1,)),
    "condition beyond int64": (lambda n: functad.while_loop(lambda c: c < 2**65, lambda c: c * 3, n), (1,)),
    "condition overflows": (lambda n: functad.while_loop(lambda c: c * c < 2**66, lambda c: c * 2, n), (1,)),
    "shift": (lambda n: functad.fori_loop(0, 3, lambda i, c: c << 30, n), (1,)),
    "bounds of the loop": (lambda n: functad.fori_loop(2**63 - 1, 2**63 + 3, lambda i, c: c + i, n), (1,)),
    "cond": (lambda n: functad.cond(n > 0, lambda h: h * h * h, lambda h: -h, n), (2**31 - 1,)),
    "switch": (lambda n: functad.switch(0, [lambda h: h * h * h, lambda h: -h], n), (2**31 - 1,)),
    "loop in a loop": (
        lambda n: functad.fori_loop(0, 10, lambda i, c: functad.fori_loop(0, 10, lambda j, e: e * 2, c), n),
        (1,),
    ),
    "int8": (lambda x: functad.fori_loop(0, 200, lambda i, c: c + i, x), (np.array([3, 4], np.int8),)),
    "int32": (lambda x: functad.fori_loop(2**31 - 5, 2**31 + 3, lambda i, c: c + i, x), (np.array([3, 4], np.int32),)),
    "start": (lambda n: functad.fori_loop(0, 3, lambda i, c: c + i, n), (2**63 - 1,)),
    "gradient": (
        lambda x: functad.grad(lambda x: functad.fori_loop(0, 45, lambda i, s: (s[0] * 3, s[1] + s[0] * x), (1, x))[1])(x),
        (2.0,),
    ),
}


def outcome(f, args):
    """Return the values of the results, or the type of the exception."""
    try:
        return [np.array(leaf) for leaf in functad.tree_leaves(f(*args))]
    except OverflowError as error:
        return type(error)


def same(found, expected):
    if isinstance(expected, type) or isinstance(found, type):
        return found is expected
    return all(map(alike, found, expected))


def alike(a, b):
    close = np.allclose(a, b, 1e-14, 0) if b.dtype.kind == "f" else np.array_equal(a, b)
    return a.dtype == b.dtype and a.shape == b.shape and close


@pytest.fixture(params=["numpy", "llvm", "xla"])
def backend(request):
    if request.param == "llvm":
        pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")
    if request.param == "xla":
        pytest.importorskip("jax", reason="the backend xla needs JAX, of the extra `xla`")
    return request.param


@pytest.mark.parametrize("name", {**LOOPS, **LARGE})
def test_loops_of_python_integers(name, backend):
    f, args = {**LOOPS, **LARGE}[name]
    expected = outcome(f, args)
    compiled = functad.jit(f, backend=backend)
    for _ in range(2):
        found = outcome(compiled, args)
        assert same(found, expected), (found, expected)


@pytest.mark.parametrize("name", LOOPS)
def test_usual_loops_fit_int64(name):
    f, args = LOOPS[name]
    listed = functad.make_expressions(f)(*args)
    given = [(-(2**31), 2**31 - 1) if type(x) is int else None for x in args]
    points = [(x, x) if type(x) is int else None for x in args]
    assert not large_equations(listed, points)
    if name not in ("50 Fibonacci numbers", "sum of counters to an argument", "sum of counters, while"):
        assert not large_equations(listed, given)


@pytest.mark.parametrize("name", [name for name in LARGE if name not in ("int8", "int32")])
def test_loops_that_leave_int64_are_found(name):
    f, args = LARGE[name]
    assert not results_fit(functad.make_expressions(f)(*args), [(x, x) if type(x) is int else None for x in args])


INTEGERS = {
    "product": (lambda n: n * n + 1, 2**40),
    "shift": (lambda n: n << 40, 2**40),
    "int8": (lambda n: np.array([1, 2], np.int8) + n, 300),
    "comparison": (lambda n: np.array([1, 2]) < n, 2**63),
    "factor": (lambda n: np.array([1.5, 2.0]) * n, 2**64),
    "divisor": (lambda n: np.array([1.5, 2.0]) / n, 2**63),
    "literal": (lambda n: np.array([1.5, 2.0]) * n / math.factorial(21), 3),
    "literal and integers": (lambda n: np.array([1, 2]) * n * 2**63, 3),
    "negative": (lambda n: -n, INT64[0]),
    "power": (lambda n: n**3, 2**31),
    "remainder": (lambda n: n % 7, 2**65),
    "argument that nothing reads": (lambda n: 1.5, 2**64),
    "where": (lambda n: np.where(np.array([True, False]), n, 1.0), 2**63),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_as_arguments(name, backend):
    f, n = INTEGERS[name]
    compiled = functad.jit(f, backend=backend)
    for own in (2, n, 3):  # one program takes integers of all sizes
        expected = outcome(f, (own,))
        found = outcome(compiled, (own,))
        assert same(found, expected), (own, found, expected)
    always_raises = name == "literal and integers"  # NumPy raises OverflowError for the literal, so tracing raises it too
    assert compiled.cache_info().misses == (0 if always_raises else 1)
