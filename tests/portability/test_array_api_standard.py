"""Every function of the array API standard, called on Tensors in a trace, on plain arrays there, and on both together.

array-api-strict, which implements the standard and nothing else, says what comes out: values, dtypes and shapes. Its `__all__`
is the list of names, so that a new version of the standard is met with a failing test. What functad, or NumPy below it, does
otherwise is in `standard_excused.txt`, each with its reason.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy
import functad.testing
from functad.adoption import standard

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is in the extra `test`")

HERE = Path(__file__).parent
REAL = ("int8", "int64", "uint8", "uint32", "float32", "float64")
INTEGER, FLOATING, COMPLEX = REAL[:4], REAL[4:], ("complex64", "complex128")
ELEMENTWISE = {
    (1, (*FLOATING, *COMPLEX)): (
        "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan tanh"
    ),
    (1, (*REAL, *COMPLEX)): "abs negative positive sign square isfinite isinf isnan round real",
    (1, REAL): "ceil floor trunc",
    (1, FLOATING): "signbit",
    (1, COMPLEX): "conj imag",
    (1, ("bool",)): "logical_not",
    (1, ("bool", *INTEGER)): "bitwise_invert",
    (2, (*REAL, *COMPLEX)): "add subtract multiply pow",
    (2, (*FLOATING, *COMPLEX)): "divide",
    (2, ("bool", *REAL, *COMPLEX)): "equal not_equal",
    (2, REAL): "greater greater_equal less less_equal floor_divide remainder maximum minimum",
    (2, FLOATING): "atan2 hypot copysign nextafter logaddexp",
    (2, ("bool", *INTEGER)): "bitwise_and bitwise_or bitwise_xor",
    (2, INTEGER): "bitwise_left_shift bitwise_right_shift",
    (2, ("bool",)): "logical_and logical_or logical_xor",
}
FLAGS = "set_array_api_strict_flags get_array_api_strict_flags reset_array_api_strict_flags ArrayAPIStrictFlags"
NOT_OF_THE_STANDARD = {*FLAGS.split(), "Device", "__version__", "__array_api_version__"}
"""Names that array-api-strict has for itself."""


def lines_of(name: str, *, without: str = "") -> list[str]:
    """Return the lines of a file under its headings, but for those under one of them."""
    lines, heading = [], ""
    for line in (HERE / name).read_text().splitlines():
        heading = line if line.startswith("[") else heading
        if heading not in ("", without) and line not in ("", heading):
            lines.append(line)
    return lines


IS_OLD = np.lib.NumpyVersion(np.__version__) < "2.1.0"
EXCUSED = dict(
    line.split(" # ", 1) for line in lines_of("standard_excused.txt", without="" if IS_OLD else "[excused of NumPy 2.0]")
)
CALLS = lines_of("standard_calls.txt")


def arrays() -> dict[str, np.ndarray]:
    """Return the arrays that the calls are about."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 4))
    a = rng.normal(size=(2, 3, 3))
    return {
        "x": x,
        "y": y,
        "f": rng.normal(size=(3, 4)).astype(np.float32),
        "z": x + 1j * y,
        "i": rng.integers(0, 5, (3, 4)),
        "u": rng.integers(0, 5, (3, 4)).astype(np.uint8),
        "b": x > 0.1,
        "v": rng.permutation(4) * 0.5 - 0.3,
        "w": np.array([-1.0, 0.1, 0.6, 2.0]),
        "k": np.array([2, 0, 1]),
        "s": a @ a.swapaxes(1, 2) + 2 * np.eye(3),
        "c": a[0] + 1j * a[1],
        "o": np.array(0.7),
    }


def sample(dtype: str, place: int) -> np.ndarray:
    """Return an argument of an elementwise function, with what numbers of its dtype can be."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([True, False, True, False] if place == 0 else [True, True, False, False])
    if kind in "iu":
        return np.array([1, 2, 5, 3] if place == 0 else [2, 1, 3, 3], dtype)
    if kind == "f":
        special = [-np.inf, -1.5, -0.0, 0.0, 0.5, 1.0, 2.5, np.inf, np.nan]
        return np.array(special if place == 0 else [1.0, 2.0, 0.5, -1.0, -0.0, np.inf, 3.0, 0.0, 1.0], dtype)
    return np.array([0.5 + 0.2j, -1.0 + 2.0j, 3.0 - 1.0j, -0.2 - 0.3j] if place == 0 else [1j, 2.0, -1.0 - 1.0j, 0.5], dtype)


def plain(out: Any) -> Any:
    """Return a result in NumPy's terms: arrays as their dtype, shape and values."""
    if isinstance(out, (tuple, list)):
        return [plain(part) for part in out]
    if isinstance(out, functad.Tensor):
        out = out.numpy()
    if type(out).__module__.startswith("array_api_strict"):
        if hasattr(out, "_np_dtype"):
            return np.dtype(out._np_dtype)
        out = out._array if hasattr(out, "_array") else "device"
    if isinstance(out, type) and issubclass(out, np.generic):
        return np.dtype(out)
    if isinstance(out, (np.ndarray, np.generic)):
        return np.asarray(out)
    return "device" if type(out) is str and out == "cpu" else out


def assert_same(found: Any, wanted: Any) -> None:
    """Assert that two results are of the same types and shapes, and that values differ by rounding at most."""
    assert isinstance(found, type(wanted)) or np.shape(found) == np.shape(wanted) == ()
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
    elif isinstance(wanted, np.ndarray):
        assert np.asarray(found).dtype == wanted.dtype
        assert np.shape(found) == wanted.shape
        exact = wanted.dtype.kind not in "fc"
        eps = 0 if exact else float(np.finfo(wanted.dtype).eps)
        np.testing.assert_allclose(found, wanted, rtol=64 * eps, atol=64 * eps)
    else:
        assert found == wanted


def in_traces(call: Any, given: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what a call gives in a tape for Tensors, arrays and both, and forward for arguments and for what is made there."""
    found: dict[str, Any] = {}
    with functad.GradientTape() as tape:
        tensors = {name: functad.constant(a) for name, a in given.items()}
        tape.watch([t for t in tensors.values() if t.dtype.kind in "fc"])
        mixed = {name: tensors[name] if i % 2 == 0 else a for i, (name, a) in enumerate(given.items())}
        for kind, values in {"tensors": tensors, "arrays": given, "mixed": mixed}.items():
            found[kind] = plain(call(functad.numpy, **values))
    outs: list[Any] = []

    def run(*floats: Any) -> Any:
        names = [name for name, a in given.items() if a.dtype.kind in "fc"]
        outs.append(functad.stop_gradient(call(functad.numpy, **given | dict(zip(names, floats, strict=True)))))
        made = {name: functad.numpy.array(a) for name, a in given.items()}
        outs.append(functad.stop_gradient(call(functad.numpy, **made)))
        return 0.0

    floats = [a for a in given.values() if a.dtype.kind in "fc"]
    if floats:
        functad.jvp(run, tuple(floats), tuple([np.ones_like(a) for a in floats]))
        found["forward"], found["made inside"] = map(plain, outs)
    return found


def compare(call: Any, given: dict[str, np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        wanted = plain(call(strict, **{name: strict.asarray(a) for name, a in given.items()}))
        for kind, found in in_traces(call, given).items():
            try:
                assert_same(found, wanted)
            except AssertionError as error:
                raise AssertionError(f"{kind}: {found!r}, but the standard has {wanted!r}") from error


def called(text: str) -> Any:
    code = compile(text, "<call>", "eval")
    return lambda xp, **values: eval(code, {"xp": xp, **values})


def names_in(text: str) -> set[str]:
    return {name for name in arrays() if re.search(rf"(?<![\w.\"]){name}(?![\w=\"(])", text)}


def excuse(text: str) -> Any:
    """Return a call as a parameter of a test; one that is excused may fail."""
    return pytest.param(text, marks=pytest.mark.xfail(reason=EXCUSED[text], strict=False) if text in EXCUSED else ())


@pytest.mark.parametrize("text", [*map(excuse, CALLS)])
def test_calls_agree(text):
    given = {name: a for name, a in arrays().items() if name in names_in(text)}
    compare(called(text), given)


ELEMENTWISE_CALLS = [(name, places, dtypes) for (places, dtypes), names in ELEMENTWISE.items() for name in names.split()]


@pytest.mark.parametrize(("name", "places", "dtypes"), ELEMENTWISE_CALLS, ids=[name for name, *_ in ELEMENTWISE_CALLS])
def test_elementwise_functions_agree(name, places, dtypes):
    function = called(f"xp.{name}(a, b)" if places == 2 else f"xp.{name}(a)")
    if IS_OLD and name in ("ceil", "floor", "trunc"):  # of which NumPy 2.0 makes floats of integers
        dtypes = FLOATING
    given = [(dtype, dtype) for dtype in dtypes]
    if places == 2:
        given += [pair for pair in [("float32", "float64"), ("int8", "int64"), ("uint8", "int8")] if set(pair) <= set(dtypes)]
    for pair in given:
        compare(function, {"ab"[place]: sample(pair[place], place) for place in range(places)})


def test_every_name_of_the_standard_is_called():
    listed = " ".join([*CALLS, *[f"xp.{name}(" for name, *_ in ELEMENTWISE_CALLS]])
    for prefix, module, own in (
        ("xp.", strict, functad.numpy),
        ("xp.linalg.", strict.linalg, functad.numpy.linalg),
        ("xp.fft.", strict.fft, functad.numpy.fft),
    ):
        for name in set(module.__all__) - NOT_OF_THE_STANDARD:
            assert hasattr(own, name), name
            value = getattr(module, name)
            if inspect.isfunction(value):
                assert f"{prefix}{name}(" in listed, name
            elif not inspect.ismodule(value):
                assert plain(getattr(own, name)) == plain(value) or np.isnan(value), name


def test_a_tensor_has_the_attributes_of_an_array_of_the_standard():
    # An array may be given away by the buffer protocol or to NumPy, which of a Tensor would lose its derivative.
    not_of_the_standard = {"__array__", "__buffer__", "__array_interface__"}
    names = {name for name in vars(type(strict.asarray(1))) if not re.fullmatch("_[^_].*", name)} - set(dir(object))
    missing = {name for name in names - not_of_the_standard if not hasattr(functad.Tensor, name)}
    assert missing - {"__module__", "__hash__"} == set()


IN_PLACE = "+= -= *= /= //= %= **= @= &= |= ^= <<= >>=".split()  # noqa: SIM905


@pytest.mark.parametrize("operator", IN_PLACE)
def test_operators_in_place_agree(operator):
    names = "iu" if operator[0] in "&|^<>" else "xy"
    given = {name: arrays()[name] for name in names}
    if operator == "@=":
        given = {"a": arrays()["s"], "b": arrays()["s"]}
    elif operator in ("<<=", ">>=", "&=", "|=", "^="):
        given = {"a": given["i"], "b": given["i"]}
    else:
        given = {"a": np.abs(given["x"]), "b": given["y"]}
    code = compile(f"a = xp.asarray(a, copy=True)\na {operator} b\nout = a", "<statement>", "exec")

    def call(xp: Any, **values: Any) -> Any:
        scope = {"xp": xp, **values}
        exec(code, scope)
        return scope["out"]

    compare(call, given)


@pytest.mark.parametrize("statement", ["a[0, :] = 1.5", "a[...] = b", "a[:, 1:3] = b[:, :2]", "a[m] = 0.0", "a[-1, 0] += 1.0"])
def test_assignments_agree(statement):
    code = compile(f"a = xp.asarray(a, copy=True)\n{statement}\nout = a", "<statement>", "exec")

    def call(xp: Any, **values: Any) -> Any:
        scope = {"xp": xp, **values}
        exec(code, scope)
        return scope["out"]

    given = arrays()
    values = {"a": given["x"], "b": given["y"], "m": given["b"]}
    compare(call, {name: a for name, a in values.items() if name in "ab" or re.search(rf"\b{name}\b", statement)})


@pytest.mark.parametrize("name", ["unstack", "cumulative_sum", "cumulative_prod"])
def test_what_the_oldest_numpy_lacks_is_made(name):
    own = {
        "unstack": standard.unstack,
        "cumulative_sum": standard.accumulation(np.cumsum, 0),
        "cumulative_prod": standard.accumulation(np.cumprod, 1),
    }[name]
    kinds = [{"axis": 0}, {"axis": -1}]
    if name != "unstack":
        kinds += [kind | {"include_initial": True} for kind in kinds] + [{"axis": 1, "dtype": np.float32}]
    x = arrays()["x"]
    for kwargs in kinds:
        assert_same(plain(own(x, **kwargs)), plain(getattr(strict, name)(strict.asarray(x), **plain_kwargs(kwargs))))
        functad.testing.check_grads(lambda t: own(t, **kwargs), (x,), order=1)  # noqa: B023


def plain_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: strict.float32 if key == "dtype" else value for key, value in kwargs.items()}


def test_the_inspection_made_for_the_oldest_numpy_is_that_of_the_standard():
    own, wanted = standard.NamespaceInfo(), strict.__array_namespace_info__()
    assert own.capabilities() == wanted.capabilities()
    assert own.default_device() in own.devices()
    for kinds in (None, "integral", ("bool", "complex floating")):
        assert own.dtypes(kind=kinds) == {name: plain(dtype) for name, dtype in wanted.dtypes(kind=kinds).items()}
    assert own.default_dtypes() == {name: plain(dtype) for name, dtype in wanted.default_dtypes().items()}


TESTS = """
import functad
import functad.numpy as xp

def test_arrays_are_tensors(tmp_path):
    x = xp.ones(3)
    assert type(x) is functad.Tensor and tmp_path.is_dir()
    x[0] = 2.0
    assert float(xp.sum(x)) == 4.0 and x.tolist() == [2.0, 1.0, 1.0] and bool(xp.all(x > 0))

def test_that_fails():
    assert xp.ones(3)[0] == 2
"""


def test_tests_of_others_can_be_run_in_a_trace(tmp_path):
    (tmp_path / "test_others.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.portability.in_trace",
        str(tmp_path),
    ]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert "1 failed, 1 passed" in done.stdout
    assert "test_that_fails" in done.stdout
