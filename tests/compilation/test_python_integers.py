"""Python integers are unbounded. Compiled functions give the results and the errors of eager functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError

VECTOR = np.array([1.0, -2.0])
INTEGERS = np.array([1, 2, 3])
BACKENDS = ["numpy", "llvm"]

CALLS = {
    "product of integers": (lambda n: n * n + 1, 2**40),
    "third power": (lambda n: n * n * n, 2**31 - 1),
    "power": (lambda n: n**3, 2**31),
    "sum": (lambda n: n + 1, 2**63),
    "negative": (lambda n: -n, 2**63),
    "absolute value": (lambda n: abs(n), -(2**63)),
    "floor division": (lambda n: n // 3, 2**65),
    "remainder": (lambda n: n % 7, 2**65),
    "shift": (lambda n: n << 3, 2**62),
    "comparison": (lambda n: n < 5, 2**70),
    "array of one integer": (lambda n: np.add.reduce(n), 2**63),
    "integer of Python": (lambda n: np.add.reduce(n), 2**64),
    "float of an integer": (lambda n: np.float_power(n, 2), 2**64),
    "divisor": (lambda x: x / 2**63, VECTOR),
    "factor": (lambda x: x * 2**64, VECTOR),
    "factorial": (lambda x: x / math.factorial(21), VECTOR),
    "beyond float64": (lambda x: x * 10**400, VECTOR),
    "where": (lambda x: np.where(x > 0, 2**63, x), VECTOR),
    "maximum": (lambda x: np.maximum(x, 2**63), VECTOR),
    "clip": (lambda x: np.clip(x, -(2**63), 2**64), VECTOR),
    "full": (lambda x: np.full(2, 2**63) * x, VECTOR),
    "int64": (lambda x: x * 2**40, INTEGERS),
    "int64, compared": (lambda x: x < 2**63, INTEGERS),
    "int32": (lambda x: x * 2**40, INTEGERS.astype(np.int32)),
}


@pytest.fixture(autouse=True)
def needs(request):
    if request.getfixturevalue("backend") == "llvm":
        pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")


def outcome(f, *args):
    """Return the type, the dtype and the text of a result, or the type of the exception."""
    try:
        with np.errstate(all="ignore"):
            result = f(*args)
    except (OverflowError, TypeError) as error:
        return type(error)
    return type(result), getattr(result, "dtype", None), repr(result)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_compiled_integers_are_those_of_python(name, backend):
    f, argument = CALLS[name]
    compiled = functad.jit(f, backend=backend)
    expected = outcome(f, argument)
    assert outcome(compiled, argument) == expected
    assert outcome(compiled, argument) == expected


BOUNDS = {
    "both beyond": (-1, 2**64),
    "lower beyond": (-1, None),
    "upper beyond": (None, 300),
    "far below": (-(2**70), 1),
    "above": (300, None),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "x", [np.array([0, 1, 255], np.uint8), np.array([-1, 1, 100], np.int8), INTEGERS], ids=lambda x: x.dtype.name
)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_of_clip_beyond_the_dtype(bounds, x, backend):
    low, high = BOUNDS[bounds]
    expected = outcome(np.clip, x, low, high)
    assert outcome(functad.jit(lambda x: np.clip(x, low, high), backend=backend), x) == expected
    given = [bound for bound in (low, high) if bound is not None]

    def clipped(x, *given):
        return np.clip(x, None if low is None else given[0], None if high is None else given[-1])

    assert outcome(functad.jit(clipped, backend=backend), x, *given) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("x", [VECTOR, INTEGERS, INTEGERS.astype(np.int32)], ids=lambda x: x.dtype.name)
def test_one_compilation_takes_integers_of_all_sizes(x, backend):
    compiled = functad.jit(lambda x, n: x * n, backend=backend)
    for n in (3, 2**31 - 1, 2**31, 2**40, 2**63, 2**64, -(2**63), 5):
        assert outcome(compiled, x, n) == outcome(lambda x, n: x * n, x, n)
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [2**63, 10**30, -(2**63) - 1])
@pytest.mark.parametrize(
    "f", [np.zeros_like, lambda n: np.vdot(n, 2), np.multiply.reduce, lambda n: np.stack([n, n]), lambda n: n * n + 1]
)
def test_larger_integers_are_those_of_numpy(f, number, backend):
    compiled = functad.jit(f, backend=backend)
    compiled(3)
    found, expected = compiled(number), f(number)
    assert type(found) is type(expected)
    assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)
    assert np.all(found == expected)


REFUSED = {
    "where": (lambda x: np.where(x > 0, 2**70, x), np.array([-7], np.int8)),
    "comparison": (lambda x: x >= 2**64 + 1, np.array([True])),
    "sum of booleans": (lambda x: x + 2**63, np.array([True])),
    "two Python integers": (lambda x: np.add(x, 2**63), 5),
}


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("name", REFUSED)
def test_integers_that_fit_no_dtype_raise_where_nothing_needs_the_result(name, backend):
    f, x = REFUSED[name]

    def beside(x, y):
        f(x)
        return np.sum(y * y)

    made = functad.value_and_grad(beside, argnums=1)
    if backend is not None:
        made = functad.jit(made, backend=backend)
    with pytest.raises(OverflowError, match="Python int too large"):
        made(x, np.ones(2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_integers_that_are_compared_may_have_any_size(backend):
    for f in (lambda x: x >= 2**70, lambda x: x * 1.5 < 2**70, lambda x: np.maximum(x * 1.5, 2**70)):
        x = np.array([1, -1])
        np.testing.assert_array_equal(functad.jit(f, backend=backend)(x), f(x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [np.all, np.any])
def test_truth_of_large_integers(f, backend):
    compiled = functad.jit(lambda x: f(x * x), backend=backend)
    assert [type(compiled(x)) for x in (2**40, 2)] == [np.bool_, np.bool_]
    assert compiled(2**40)


GROWING = {
    "clip": (lambda n: np.clip(n * 2, -1, 1), -(2**63)),
    "clip after a loop": (lambda n: np.clip(functad.fori_loop(0, 17, lambda i, c: c * 18, n), 128, None), 3),
    "product after a clip": (lambda n: np.sum(np.clip(n * 2, -1, 1) * 2**70), -(2**63)),
    "reduction": (lambda n: np.hypot.reduce(n * 2), -(2**63)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GROWING)
def test_integers_that_grow_beyond_all_dtypes_are_those_of_python(name, backend):
    f, n = GROWING[name]
    compiled = functad.jit(f, backend=backend)
    for _ in range(2):
        found, expected = compiled(n), f(n)
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [3, 2**40, 2**63, -1])
def test_copyto_takes_integers_that_the_dtype_holds(n, backend):
    def copied(n, x):
        y = x.copy()
        np.copyto(y, n)
        return y

    x = np.array([1, 2], np.uint64)
    if n < 0:
        with pytest.raises(OverflowError):
            functad.jit(copied, backend=backend)(n, x)
    else:
        assert functad.jit(copied, backend=backend)(n, x).tolist() == [n, n]


@pytest.mark.parametrize("backend", BACKENDS)
def test_copyto_casts_numbers_as_numpy_does(backend):
    def copied(n):
        y = np.zeros(2, np.int64, like=n)
        np.copyto(y, n)
        return y

    with pytest.raises(TypeError, match="Cannot cast"):
        functad.jit(copied, backend=backend)(1.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_of_python_objects_are_refused(backend):
    with pytest.raises(UnsupportedError, match="array of Python objects"):
        functad.jit(lambda x: np.full((), -(2**64)) + x, backend=backend)(0.5)
