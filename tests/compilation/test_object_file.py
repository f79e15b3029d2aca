"""Object files and C headers: functions called from C programs and by ctypes, results of failed checks, and errors."""

from __future__ import annotations

import ctypes
import doctest
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import InputError, UnsupportedError
from functad.expressions.expressions import Expressions
from functad.testing import every_entry
from tests.compilation.test_every_entry import check, epsilon_of, form, reverse, sample_calls
from tests.entries import label

pytest.importorskip("llvmlite", reason="object files need llvmlite, of the extra `jit`")

from functad.backends.llvm.module import Machine
from functad.backends.native.c_function import NAN, NeedsPythonError, machine_for, object_code

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler `cc` on the path")

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"

static void *read_array(FILE *file, size_t size) {{
    void *array = malloc(size);
    if (fread(array, 1, size, file) != size) exit(99);
    return array;
}}

int main(int count, char **names) {{
    FILE *given = fopen(names[1], "rb"), *made = fopen(names[2], "wb");
    if (count != 3 || !given || !made) return 98;
{reads}
{rooms}
    int failed = {name}({arguments});
{writes}
    return failed;
}}
"""


def sizes(arrays: Sequence[Any]) -> list[int]:
    return [np.asarray(a).nbytes for a in arrays]


def by_program(folder: Path, name: str, leaves: Sequence[Any], expected: Sequence[Any]) -> list[Any]:
    """Return the results of a C program that calls the function, and check that it returns 0."""
    given = [f"a{i}" for i in range(len(leaves))]
    made = [f"r{i}" for i in range(len(expected))]
    text = MAIN.format(
        name=name,
        reads="\n".join(f"    void *{x} = read_array(given, {n});" for x, n in zip(given, sizes(leaves), strict=True)),
        rooms="\n".join(f"    void *{x} = malloc({n});" for x, n in zip(made, sizes(expected), strict=True)),
        arguments=", ".join([*given, *made]),
        writes="\n".join(f"    fwrite({x}, 1, {n}, made);" for x, n in zip(made, sizes(expected), strict=True)),
    )
    (folder / "main.c").write_text(text)
    (folder / "given").write_bytes(b"".join([np.ascontiguousarray(a).tobytes() for a in leaves]))
    assert CC is not None
    build = [CC, "-Wall", "-Werror", "-std=c99", "main.c", f"{name}.o", "-o", "program", "-lm"]
    subprocess.run(build, check=True, cwd=folder)
    subprocess.run([folder / "program", "given", "made"], check=True, cwd=folder)
    data, found = (folder / "made").read_bytes(), []
    for each in map(np.asarray, expected):
        found.append(np.frombuffer(data[: each.nbytes], each.dtype).reshape(each.shape))
        data = data[each.nbytes :]
    return found


def call(function: Any, leaves: Sequence[Any], expected: Sequence[Any]) -> tuple[int, list[Any]]:
    """Return the result and the result arrays of a C function, called by ctypes."""
    given = [np.ascontiguousarray(a) for a in leaves]
    made = [np.zeros(np.shape(a), np.asarray(a).dtype) for a in expected]
    return function(*[ctypes.c_void_p(a.ctypes.data) for a in (*given, *made)]), made


def by_library(folder: Path, name: str, leaves: Sequence[Any], expected: Sequence[Any]) -> tuple[int, list[Any]]:
    """Return the result and the result arrays of the function in a shared library."""
    assert CC is not None
    library = folder / f"lib{name}.so"
    subprocess.run([CC, "-shared", f"{name}.o", "-o", library.name, "-lm"], check=True, cwd=folder)
    return call(getattr(ctypes.CDLL(str(library)), name), leaves, expected)


def loaded(path: Path) -> Any:
    """Return the C function of an object file, linked into a shared library: only a linker places such code correctly."""
    if CC is None:
        pytest.skip("there is no C compiler `cc` on the path, which links the object file")
    library = path.with_suffix(".so")
    subprocess.run([CC, "-shared", path, "-o", library, "-lm"], check=True)
    function = ctypes.CDLL(str(library))[path.stem]
    pointers = re.findall(r"\*\w+", path.with_suffix(".h").read_text().split(f"int {path.stem}(")[1])
    function.argtypes, function.restype = [ctypes.c_void_p] * len(pointers), ctypes.c_int
    return function


def written(folder: Path, f: Callable[..., Any], *args: Any, name: str = "compiled", **options: Any) -> Path:
    return functad.jit(f, backend="llvm").lower(*args).object_file(folder / name, **options)[0]


def agree(found: Sequence[Any], expected: Sequence[Any], rtol: float) -> None:
    for a, b in zip(found, map(np.asarray, expected), strict=True):
        assert a.dtype == b.dtype
        scale = np.max(np.abs(b), initial=1e-300) if b.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(scale))


def price(p: dict[str, Any], rate: Any) -> Any:
    d = (np.log(p["spot"] / p["strike"]) + rate) / p["sigma"]
    return np.sum(p["spot"] * np.exp(-d * d) + p["strike"] * np.exp(-rate) * np.cosh(d - p["sigma"]))


def damped(x: Any, k: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        position, speed = carry
        speed = speed - 0.1 * (k * position + row)
        return (position + 0.1 * speed, speed), position

    (position, _), path = functad.scan(step, (x, x * 0), np.linspace(0, 1, 40).astype(getattr(x, "dtype", float)))
    return position + np.mean(path**2)


def solved(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.solve(a, b) ** 2)


def root(x: Any) -> Any:
    return functad.while_loop(lambda c: np.abs(c * c - x) > 1e-9, lambda c: 0.5 * (c + x / c), x)


RNG = np.random.default_rng(0)
OPTIONS = {"spot": RNG.uniform(90, 110, 30), "strike": np.full(30, 100.0), "sigma": RNG.uniform(0.1, 0.4, 30)}
MATRIX, ROWS = RNG.normal(size=(4, 4)) + 4 * np.eye(4), RNG.normal(size=(60, 50))
LARGE = RNG.normal(size=(12, 12)) + 4 * np.eye(12)
TABLE = RNG.normal(size=3000)  # larger than the constants that native code in this process embeds

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "value": (price, (OPTIONS, 0.03)),
    "gradient": (functad.value_and_grad(price, argnums=(0, 1)), (OPTIONS, 0.03)),
    "loop": (damped, (1.5, 2.0)),
    "gradient of a loop": (functad.grad(damped, argnums=(0, 1)), (1.5, 2.0)),
    "reductions": (lambda x: (np.sum(x, 0), np.max(x), np.mean(x, 1), np.argmax(x, 1), np.any(x > 3)), (ROWS,)),
    "solve": (functad.value_and_grad(solved, argnums=(0, 1)), (MATRIX, np.arange(4.0))),
    "products": (lambda x, y: np.tanh(x @ y.T) @ y, (ROWS, ROWS[:20])),
    "branch": (lambda x: functad.cond(x > 0, np.sin, np.cos, x), (0.5,)),
    "while": (functad.value_and_grad(root), (2.0,)),
    "constants": (lambda x: (np.sum(x * TABLE), TABLE, 1.5, x, x), (TABLE + 1,)),
    "integers": (lambda x, n, chosen: (x * n, x[np.array([2, 0])], n > 2, chosen), (np.arange(3), 3, True)),
    "triangular": (lambda a, b: np.linalg.solve(np.linalg.cholesky(a), b), (MATRIX @ MATRIX.T, RNG.normal(size=(4, 400)))),
    "transposed": (lambda a, b: np.linalg.solve(np.linalg.cholesky(a).T, b), (MATRIX @ MATRIX.T, RNG.normal(size=(4, 400)))),
    "large factor": (lambda a, b: np.linalg.solve(np.linalg.cholesky(a), b), (LARGE @ LARGE.T, RNG.normal(size=(12, 2)))),
    "no arguments": (lambda: np.arange(3.0), ()),
}
SINGLE = ("value", "gradient", "loop", "gradient of a loop", "solve", "products", "reductions")


def as_single(tree: Any) -> Any:
    return functad.tree_map(lambda x: np.asarray(x, np.float32)[()], tree)


ALL = [*CASES, *[f"{name} in float32" for name in SINGLE]]


def case(name: str) -> tuple[Callable[..., Any], tuple[Any, ...], float]:
    f, args = CASES[name.removesuffix(" in float32")]
    return (f, as_single(args), 2e-5) if name.endswith(" in float32") else (f, args, 1e-12)


@needs_cc
@pytest.mark.parametrize("name", ["value", "gradient", "gradient of a loop", "solve", "reductions", "value in float32"])
def test_c_program_computes_what_eager_code_does(tmp_path: Path, name: str) -> None:
    f, args, rtol = case(name)
    written(tmp_path, f, *args)
    expected = functad.tree_leaves(f(*args))
    agree(by_program(tmp_path, "compiled", functad.tree_leaves(args), expected), expected, rtol)


@needs_cc
@pytest.mark.parametrize("name", ["gradient", "while", "constants", "gradient in float32"])
def test_shared_library_computes_what_eager_code_does(tmp_path: Path, name: str) -> None:
    f, args, rtol = case(name)
    written(tmp_path, f, *args)
    expected = functad.tree_leaves(f(*args))
    failed, found = by_library(tmp_path, "compiled", functad.tree_leaves(args), expected)
    assert failed == 0
    agree(found, expected, rtol)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("cpu", ["generic", "native"])
def test_object_code_computes_what_eager_code_does(tmp_path: Path, name: str, cpu: str) -> None:
    f, args, rtol = case(name)
    path = written(tmp_path, f, *args, cpu=cpu)
    expected = functad.tree_leaves(f(*args))
    failed, found = call(loaded(path), functad.tree_leaves(args), expected)
    assert failed == 0
    agree(found, expected, rtol)


@pytest.mark.skipif(sys.platform != "linux" or CC is None, reason="the linker option is the one of GNU, and `cc` is needed")
@pytest.mark.parametrize("name", ALL)
def test_object_file_needs_only_the_c_library(tmp_path: Path, name: str) -> None:
    f, args, _ = case(name)
    written(tmp_path, f, *args)
    assert CC is not None
    command = [CC, "-shared", "-nostdlib", "-Wl,--no-undefined", "compiled.o", "-o", "compiled.so", "-lc", "-lm"]
    subprocess.run(command, check=True, cwd=tmp_path)


# Checks


def test_result_is_1_where_numpy_would_raise(tmp_path: Path) -> None:
    taken = loaded(written(tmp_path, lambda x, i: x[i], np.ones(3), np.array([0, 1]), name="taken"))
    assert call(taken, [np.arange(3.0), np.array([2, -3])], [np.ones(2)])[1][0].tolist() == [2.0, 0.0]
    assert call(taken, [np.arange(3.0), np.array([2, 3])], [np.ones(2)])[0] == 1
    inverse = loaded(written(tmp_path, np.linalg.inv, np.eye(3), name="inverse"))
    assert call(inverse, [np.eye(3)], [np.eye(3)])[0] == 0
    assert call(inverse, [np.ones((3, 3))], [np.eye(3)])[0] == 1
    times = loaded(written(tmp_path, lambda x, n: x * n, 1.0, 2, name="times"))
    assert call(times, [1.5, np.int64(3)], [1.0])[1] == [4.5]
    assert call(times, [1.5, np.int64(2**31)], [1.0])[0] == 1


def test_check_of_a_result_that_is_not_needed_is_kept(tmp_path: Path) -> None:
    def total(x: Any, i: Any) -> Any:
        y = x * 1.0
        np.add.at(y, i, 1.0)
        return np.sum(y)

    gradient = loaded(written(tmp_path, functad.grad(total), np.ones(3), np.array([0, 1])))
    assert call(gradient, [np.ones(3), np.array([0, 2])], [np.ones(3)]) == (0, [pytest.approx([1.0, 1.0, 1.0])])
    assert call(gradient, [np.ones(3), np.array([0, 7])], [np.ones(3)])[0] == 1


def test_derivative_with_a_nan_is_computed_again_with_exact_zeros(tmp_path: Path) -> None:
    def entropy(x: Any) -> Any:
        return np.sum(np.where(x > 0, x * np.log(x), 0.0))

    x = np.array([0.0, 1.0, 2.0])
    gradient = loaded(written(tmp_path, functad.grad(entropy), x))
    failed, [found] = call(gradient, [x], [x])
    with np.errstate(all="ignore"):
        assert (failed, found.tolist()) == (0, pytest.approx(functad.grad(entropy)(x)))


def test_result_is_3_for_a_nan_that_native_code_cannot_compute_again(tmp_path: Path) -> None:
    f = functad.grad(lambda x, y: np.sum(np.where(y > 0, x @ y, 0.0)))
    x = np.ones((3, 3))
    path = written(tmp_path, f, x, x)
    assert "\n     3  a derivative has a NaN" in path.with_suffix(".h").read_text()
    assert call(loaded(path), [x, x], [x])[0] == 0
    assert call(loaded(path), [x, x * np.nan], [x])[0] == NAN


def test_variables_are_arguments_and_their_new_values_results(tmp_path: Path) -> None:
    weights = functad.Variable(np.ones(3), name="weights")

    def step(x: Any) -> Any:
        weights.assign(weights - 0.1 * x)
        return np.sum(weights * x)

    path = written(tmp_path, step, np.ones(3))
    header = path.with_suffix(".h").read_text()
    assert "compiled(const double *x, const double *weights, double *out, double *new_weights);" in header
    failed, found = call(loaded(path), [np.arange(3.0), np.ones(3)], [1.0, np.ones(3)])
    assert failed == 0
    np.testing.assert_allclose(found[0], np.sum((1 - 0.1 * np.arange(3.0)) * np.arange(3.0)))
    np.testing.assert_allclose(found[1], 1 - 0.1 * np.arange(3.0))
    assert np.all(weights.numpy() == 1)


# The header


def test_header_names_pointers_after_paths(tmp_path: Path) -> None:
    def f(double: Any, q: Any, *rest: Any) -> Any:
        return {"a b": double * q["x"][0], "int": (rest[0], rest[1])}

    path = written(tmp_path, f, 1.0, {"x": [np.ones((2, 3), np.float32)]}, np.arange(3), True, name="many")
    header = path.with_suffix(".h").read_text()
    assert (
        "int many( const double *double_, const float *q_x_0, const int64_t *args_2, const uint8_t *args_3, float *out_a_b, "
        "int64_t *out_int_0, uint8_t *out_int_1 );" in re.sub(r"\s+", " ", header)
    )
    assert "q_x_0      float32[2,3]  q['x'][0]" in header
    assert "x86-64" in header or "generic" in header


def test_paths_that_become_one_name_get_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, lambda p: p["a.b"] + p["a b"] + p["out"], {"a.b": 1.0, "a b": 2.0, "out": 3.0}, name="sum_")
    header = path.with_suffix(".h").read_text()
    assert "(const double *p_a_b, const double *p_a_b_2, const double *p_out, double *out);" in header
    assert "(const double *out, double *out_2);" in written(tmp_path, lambda out: out + 1, 1.0).with_suffix(".h").read_text()


@needs_cc
def test_cpp_compilers_take_the_header(tmp_path: Path) -> None:
    cpp = shutil.which("c++")
    if cpp is None:
        pytest.skip("there is no C++ compiler `c++` on the path")
    written(tmp_path, np.sin, 1.0, name="sine")
    (tmp_path / "main.cpp").write_text('#include "sine.h"\nint main() { double x = 0.5, y; return sine(&x, &y); }\n')
    subprocess.run([cpp, "main.cpp", "sine.o", "-o", "program", "-lm"], check=True, cwd=tmp_path)
    subprocess.run([tmp_path / "program"], check=True)


def test_suffixes_and_names(tmp_path: Path) -> None:
    lowered = functad.jit(np.sin, backend="numpy").lower(1.0)
    found = lowered.object_file(str(tmp_path / "a.o"), name="sine")
    assert found == (tmp_path / "a.o", tmp_path / "a.h")
    assert "int sine(const double *" in found[1].read_text()
    assert lowered.object_file(tmp_path / "v1.2", name="sine")[0] == tmp_path / "v1.2.o"


# Errors


def inverted(x: Any) -> Any:
    y = np.exp(x)
    return np.linalg.inv(y)  # the line of the message


def inverted_in_steps(x: Any) -> Any:
    return functad.scan(lambda c, r: (c + np.linalg.inv(c * r), None), x, np.ones(30))[0]


@pytest.mark.parametrize("f", [inverted, functad.grad(lambda x: np.sum(inverted(x))), inverted_in_steps])
def test_error_names_the_operation_its_line_and_the_fix(tmp_path: Path, f: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        written(tmp_path, f, np.eye(20))
    message = str(caught.value)
    assert "NumPy computes np.linalg.inv of float64[20,20], at " in message
    assert f"{Path(__file__).name}:" in message
    assert "Compute it in the C program, and make its result an argument of the function." in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("f", "args", "message"),
    [
        (lambda n: n + 1, (3,), r"np.add of int64\[\], int64\[\], at .*: pass np.int64\(n\) in place of n"),
        (np.exp, (1j,), r"the argument \w+ is complex128\[\]"),
        (lambda x: np.abs(x + 1j), (1.0,), r"Native code has float64, .*, not complex128"),
        (np.sin, (np.float16(1),), r"the argument \w+ is float16\[\]"),
        (lambda x: x.astype(np.uint8), (np.ones(3),), r"the result out is uint8\[3\]"),
    ],
)
def test_error_names_dtypes_that_native_code_does_not_have(tmp_path: Path, f: Any, args: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        written(tmp_path, f, *args)


def test_wrong_names_and_processors_are_errors(tmp_path: Path) -> None:
    for name in ("for", "1st", "ä", "malloc"):
        with pytest.raises(InputError, match="is no name of a C function"):
            written(tmp_path, np.sin, 1.0, name=name)
    with pytest.raises(InputError, match="cpu='486' is unknown"):
        written(tmp_path, np.sin, 1.0, cpu="486")
    lowered: list[Any] = []

    def outer(w: Any) -> Any:
        lowered.append(functad.jit(lambda x: x * w).lower(1.0))
        return w * 1.0

    functad.grad(outer)(2.0)
    with pytest.raises(InputError, match="reads Tensors of a transform"):
        lowered[0].object_file(tmp_path / "captured")


@needs_cc
def test_example_of_the_page(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "notebooks" / "compilation.md"
    section = page.read_text().split("## Use it from C\n")[1].split("\n## ")[0]
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
    space: dict[str, Any] = {"np": np, "functad": functad}
    for example in doctest.DocTestParser().get_examples(blocks["python"]):
        exec(compile(example.source, str(page), "single"), space)
    for made in (space["code"], space["header"]):
        shutil.move(made, tmp_path)
    (tmp_path / "main.c").write_text(blocks["c"])
    command, run, expected = blocks["console"].splitlines()
    subprocess.run(command.removeprefix("$ ").split(), check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / run.removeprefix("$ ./")], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == expected


# All entries


ENTRIES = [entry for entry in every_entry() if entry.samples is not None and entry.status != "refused"]


@functools.cache
def plain_machine() -> Machine:
    """Return a target without optimisation, for which LLVM takes a quarter of the time.

    This process loads the code, so its addresses must have 64 bits. The code of an object file needs a linker.
    """
    generic = machine_for("generic")
    assert generic is not None
    return Machine(generic.cpu, generic.features, level=0)


def c_function(expressions: Expressions) -> Any:
    """Return a list as a C function, or `None` if it needs NumPy."""
    machine = plain_machine()
    names, outputs = [f"a{i}" for i in range(len(expressions.inputs))], [f"r{i}" for i in range(len(expressions.outputs))]
    try:
        code = object_code(expressions, None, (), "f", names, outputs, machine).code
    except NeedsPythonError:
        return None
    return machine.loaded(code, ["f"]).function("f", *[ctypes.c_void_p] * (len(names) + len(outputs)), result=ctypes.c_int)


@pytest.mark.parametrize("entry", ENTRIES, ids=[label(entry) for entry in ENTRIES])
def test_object_code_of_every_entry_that_needs_no_numpy(entry: Any) -> None:
    from functad.loops.build import KINDS

    with np.errstate(all="ignore"):
        for dtype in (np.float64, np.float32) if os.environ.get("FUNCTAD_EVERY_ENTRY") else (np.float64,):
            for sample in sample_calls(entry, dtype)[:1]:
                own = form("C", reverse(sample), sample.primals)
                if own is None or not all(spec.dtype in KINDS for spec in (*own.expressions.specs, *own.expressions.results)):
                    continue
                function = c_function(own.expressions)
                if function is None:
                    continue
                failed, found = call(function, own.inputs[0], own.expected[0])
                for result, expected in zip(found, own.expected[0] if not failed else (), strict=False):
                    check(result, expected, (label(entry), own.expressions), epsilon_of(own.expressions))
