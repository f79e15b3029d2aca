"""The elementary functions of the llvm backend: errors, special values, and that loops over them are vectorised."""

import ctypes
import platform
import re

import mpmath
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
special = pytest.importorskip("scipy.special", reason="some functions are those of scipy.special")

from functad.backends.llvm.module import Machine, host  # noqa: E402
from functad.backends.llvm.ufunc import compile_ufunc, source  # noqa: E402
from functad.emitters.llvm import Text, joined  # noqa: E402
from functad.loops.elementary import coefficients  # noqa: E402 - what needs llvmlite comes after the test for it
from functad.loops.elementary.table import ELEMENTARY, called, definition  # noqa: E402
from functad.loops.ir import Call, Load  # noqa: E402
from tests.loops.accuracy import CASES, PAGE, worst  # noqa: E402
from tests.loops.fits import FITS, evaluated, weight_at  # noqa: E402

DTYPES = ("float64", "float32")
BOUND = 2.0
X86 = platform.machine().lower() in {"x86_64", "amd64"}
ARM = platform.machine().lower() in {"aarch64", "arm64"}

VALUES = [0.0, np.inf, np.nan, 1.0, 2.0, 3.0, 4.0, 0.5, 1.5, 2.5, 9.0, np.pi, 100.0, 710.0, 745.0, 1000.0, 1e10, 1e30, 1e-20]

# SciPy's and NumPy's own results are off here: a formula that loses digits, or a result that is denormal.
BETTER = {
    "digamma": lambda x: (x < 0) & (x > -200),
    "gammaln": lambda x: (abs(x) < 1e-300) | ((x < 0) & (x > -200)) | (abs(x - 1) < 1e-6),
    "logaddexp": lambda x, y: abs(np.logaddexp(x, y)) < 0.1,
    "logaddexp2": lambda x, y: abs(np.logaddexp2(x, y)) < 0.1,
    "expit": lambda x: x < -80,
    "log_expit": lambda x: x > 80,
}
"""Arguments at which the reference is not to be trusted to four units in the last place."""

SIGN_OF_ZERO_IS_FREE = {"maximum", "minimum", "fmax", "fmin"}


def reference(name):
    """The function of NumPy or SciPy."""
    return getattr(np, name, None) or getattr(special, name)


def special_values(name, dtype):
    """All special values, or all pairs of them."""
    info = np.finfo(dtype)
    numbers = [*VALUES, info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg]
    x = np.array([*numbers, *(-number for number in numbers)], dtype)
    return [x] if ELEMENTARY[name].arguments == 1 else [a.ravel() for a in np.meshgrid(x, x)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors(name, dtype):
    error, at = worst(name, dtype, 400)
    assert error <= BOUND, at


def test_every_function_is_compared():
    exact = {"floor", "ceil", "trunc", "rint", "absolute", "sign", "copysign", "square", "reciprocal", "heaviside"}
    assert set(ELEMENTARY) == set(CASES) | exact | SIGN_OF_ZERO_IS_FREE


@pytest.mark.parametrize("name", ELEMENTARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(name, dtype):
    given = special_values(name, dtype)
    got = compile_ufunc(name, dtype)(*given)
    with np.errstate(all="ignore"):
        wanted = reference(name)(*given)
        assert got.dtype == wanted.dtype
        zero = (wanted == 0) & (got == 0)
        same = (got == wanted) & ((np.signbit(got) == np.signbit(wanted)) | (zero & (name in SIGN_OF_ZERO_IS_FREE)))
        same |= np.isnan(got) & np.isnan(wanted)
        same |= np.isfinite(got) & np.isfinite(wanted) & (wanted != 0) & (abs(got - wanted) <= 4 * np.spacing(abs(wanted)))
        if name in BETTER:
            same |= BETTER[name](*given)
    assert [(*(x[i] for x in given), got[i], wanted[i]) for i in np.flatnonzero(~same)] == []


def test_powers_that_are_exact():
    x = np.random.default_rng(0).normal(size=1000) * 1e3
    power = compile_ufunc("power", "float64")
    np.testing.assert_array_equal(power(x, 2.0), x * x)
    np.testing.assert_array_equal(power(x, 1.0), x)
    np.testing.assert_array_equal(power(-2.0, np.arange(-20.0, 20.0)), (-2.0) ** np.arange(-20.0, 20.0))


@pytest.mark.parametrize("name", ["gammaln", "digamma"])
def test_negative_arguments_have_a_small_absolute_error(name):
    x = -np.random.default_rng(0).uniform(0, 30, 300)
    got = compile_ufunc(name, "float64")(x)
    with mpmath.workdps(30):
        wanted = np.array([float(CASES[name].exact(mpmath.mpf(v))) for v in x.tolist()])
    assert np.all(abs(got - wanted) <= 2e-16 * (abs(wanted) + abs(special.gammaln(-x)) + 5))


def test_gammaln_is_finite_up_to_its_largest_argument():
    x = np.append(np.geomspace(2.0**1000, 2.55e305, 50), 2.5563e305)
    np.testing.assert_allclose(compile_ufunc("gammaln", "float64")(x), special.gammaln(x), rtol=1e-15)


def test_one_large_angle_among_small_ones():
    x = np.random.default_rng(0).normal(size=2000)
    sin = compile_ufunc("sin", "float64")
    small = sin(x)
    x[777] = 1e300
    with mpmath.workdps(30):
        small[777] = float(mpmath.sin(mpmath.mpf(1e300)))
    np.testing.assert_allclose(sin(x), small, rtol=4e-16)


@pytest.mark.skipif(not X86, reason="only on x86-64 there are processors without fused multiplication and addition")
@pytest.mark.parametrize("name", ["exp", "log", "log2", "sin", "tan", "tanh", "arcsinh", "erfc", "gammaln", "power", "cbrt"])
def test_errors_without_fused_operations(name):
    oldest = Machine("x86-64", "")
    assert not oldest.fused
    error, at = worst(name, "float64", 300, compile_ufunc(name, "float64", oldest))
    assert error <= BOUND, at


@pytest.mark.parametrize("name", [name for name in ELEMENTARY if name not in {"sin", "cos", "tan"}])
@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_are_vectorised(name, dtype):
    if not (X86 or ARM):
        pytest.skip("the names of vector instructions are known for x86-64 and aarch64 only")
    machine = Machine("haswell", "+avx2,+fma,+bmi,+bmi2") if X86 else host()
    text = machine.assembly(source(name, dtype, fused=machine.fused))
    pattern = r"v\w+p[sd]\s.*%ymm" if X86 else r"\bv\d+\.[24][sd]\b"
    assert re.search(pattern, text)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "fmod", "remainder", "floor_divide", "gammaln"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quick_formulas_call_nothing(name, dtype):
    kind = {"float64": "double", "float32": "float"}[dtype]
    for form in ("quick", "beyond"):
        nodes = definition(name, kind, fused=True, form=form).function.body
        assert not any(isinstance(node, (Call, Load)) or node.name == "rem" for node in nodes)


@pytest.mark.parametrize("name", ["sin", "gammaln", "fmod", "exp"])
def test_called_functions_have_the_same_values(name):
    machine = host()
    parts = called(name, "double", fused=machine.fused)
    arguments = [f"%x{i}" for i in range(ELEMENTARY[name].arguments)]
    given = ", ".join(f"double {x}" for x in arguments)
    text = f"""{joined([Text(part.function) for part in parts], [table for part in parts for table in part.tables])}
define void @once(ptr %out, {given}) {{
  %value = call double {parts[-1].function.name}({given})
  store double %value, ptr %out
  ret void
}}"""
    once = machine.loaded(machine.compiled(text), ["once"]).function(
        "once", ctypes.c_void_p, *[ctypes.c_double] * len(arguments)
    )
    for values in [(0.5, 0.3), (-2.5, 1e-300), (1e300, 7.0), (np.inf, 1.0)]:
        result = np.zeros(())
        once(result.ctypes.data, *values[: len(arguments)])
        np.testing.assert_array_equal(result, compile_ufunc(name, "float64")(*values[: len(arguments)]))


def test_text_of_a_function():
    assert str(Text(definition("square", "double", fused=True).function)).splitlines() == [
        "define internal double @functad.square.f64(double %x0) alwaysinline nounwind {",
        "entry:",
        "  %v1 = fmul double %x0, %x0",
        "  ret double %v1",
        "}",
    ]


@pytest.mark.parametrize("name", FITS)
def test_coefficients_are_those_of_the_fits(name):
    fit = FITS[name]
    tables = getattr(coefficients, name)
    with mpmath.workdps(50):
        points = [fit.low + (fit.high - fit.low) * (1 - mpmath.cos(mpmath.pi * (i + 0.5) / 40)) / 2 for i in range(40)]
        exact = [fit.function(x) for x in points]
        for table, bound in ((tables.wide, fit.wide), (tables.short, fit.short or fit.wide)):
            errors = [weight_at(fit, x) * abs(evaluated(table, x) - y) for x, y in zip(points, exact, strict=True)]
            # The coefficients are rounded, which adds half a unit of each.
            rounded = [weight_at(fit, x) * evaluated([abs(c) for c in table], abs(x)) * 2**-53 for x in points]
            assert max(errors) <= mpmath.mpf(2) ** bound + max(rounded)


def test_page_has_every_error():
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, *_ in rows] == list(CASES)
    assert max(float(error) for row in rows for error in row[1:]) <= BOUND
