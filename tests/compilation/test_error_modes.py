"""NumPy's modes for floating-point errors, and errors of Python's numbers, in compiled functions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functad

ZEROS = np.array([1.0, 0.0])
HUGE = np.array([1e308, 1.0])
CASES = {
    "divide": (lambda x: 1.0 / x, ZEROS),
    "over": (lambda x: x * 10.0, HUGE),
    "under": (lambda x: x * 1e-200, np.array([1e-200])),
    "invalid": (lambda x: x - x, np.array([np.inf])),
}
BACKENDS = ["numpy", "llvm"]


@pytest.fixture(autouse=True)
def needs(request):
    if "backend" in request.fixturenames and request.getfixturevalue("backend") == "llvm":
        pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("error", CASES)
def test_mode_raise(error, backend):
    f, x = CASES[error]
    compiled = functad.jit(f, backend=backend)
    with np.errstate(all="ignore"):
        expected = f(x)
        np.testing.assert_array_equal(compiled(x), expected)
        np.testing.assert_array_equal(compiled(x), expected)
        with np.errstate(**{error: "raise"}), pytest.raises(FloatingPointError):
            compiled(x)
        np.testing.assert_array_equal(compiled(x), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_modes_call_log_and_print(backend, capsys):
    compiled = functad.jit(lambda x: 1.0 / x, backend=backend)
    with np.errstate(all="ignore"):
        compiled(ZEROS)
    seen = []
    with np.errstate(divide="call", call=lambda kind, flag: seen.append(kind)):
        compiled(ZEROS)
    assert seen == ["divide by zero"]

    class Log:
        def write(self, text):
            seen.append(text)

    with np.errstate(divide="log", call=Log()):
        compiled(ZEROS)
    assert "divide by zero" in seen[-1]
    assert len(seen) == 2
    with np.errstate(divide="print"):
        compiled(ZEROS)


def test_modes_set_for_the_whole_thread():
    compiled = functad.jit(lambda x: 1.0 / x)
    before = np.seterr(all="ignore")
    try:
        compiled(ZEROS)
        np.seterr(divide="raise")
        with pytest.raises(FloatingPointError):
            compiled(ZEROS)
    finally:
        np.seterr(**before)


@pytest.mark.parametrize("transform", [functad.grad, functad.value_and_grad])
def test_mode_raise_under_transforms(transform):
    f = lambda x: np.sum(np.log(x))  # noqa: E731
    compiled = functad.jit(transform(f))
    outer = transform(functad.jit(f))
    with np.errstate(all="ignore"):
        compiled(ZEROS)
        outer(ZEROS)
    for g in (compiled, outer):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            g(ZEROS)


def test_mode_warn_is_silent_in_native_code():
    pytest.importorskip("llvmlite", reason="the backend llvm needs llvmlite, of the extra `jit`")
    compiled = functad.jit(lambda x: 1.0 / x, backend="llvm")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="warn"):
            np.testing.assert_array_equal(compiled(ZEROS), [1.0, np.inf])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        (lambda x: 1 / x, (0.0,), np.inf),
        (lambda x, y: x // y, (1.0, 0.0), np.inf),
        (lambda x, y: x % y, (1.0, 0.0), np.nan),
        (lambda x, y: x**y, (0.0, -1.0), np.inf),
        (lambda x, y: x**y, (2.0, 5000.0), np.inf),
        (lambda x, y: x**y, (-8.0, 1 / 3), np.nan),
        (lambda x, y: x // y, (1, 0), 0),
        (lambda x, y: x % y, (1, 0), 0),
    ],
    ids=["1 / 0", "1. // 0.", "1. % 0.", "0. ** -1.", "2. ** 5000.", "(-8.) ** (1 / 3)", "1 // 0", "1 % 0"],
)
def test_numbers_of_python_follow_numpy_s_rules_in_every_trace(f, args, expected, backend):
    """Python raises, or returns a complex number; a transform gives what NumPy gives for float64 and int64."""
    with np.errstate(all="ignore"):
        for found in (functad.jit(f, backend=backend)(*args), functad.vjp(f, *args)[0] if type(args[0]) is float else expected):
            np.testing.assert_array_equal(found, expected)
    static = functad.jit(f, backend=backend, static_argnums=tuple(range(len(args))))
    try:
        value = f(*args)
    except ArithmeticError as error:
        with pytest.raises(type(error)):
            static(*args)
    else:
        assert static(*args) == value
