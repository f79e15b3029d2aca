"""`functad.to_source`: derivatives as modules that need NumPy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors

rng = np.random.default_rng(0)


def network(params: Any, x: Any) -> Any:
    for w, b in params["layers"]:
        x = np.tanh(x @ w + b)
    return np.mean((x.max(axis=1) - np.linalg.norm(params["scale"])) ** 2)


PARAMS = {"layers": [(rng.normal(size=(4, 5)), np.zeros(5)), (rng.normal(size=(5, 3)), np.ones(3))], "scale": np.ones(3)}
X = rng.normal(size=(6, 4))

WITHOUT_FUNCTAD = """
import sys
sys.modules["functad"] = None  # importing it fails
import numpy as np, pickle
import derivative
arguments, expected = pickle.load(open("case.pickle", "rb"))
found = derivative.network(*arguments)
value, gradient = found
assert np.allclose(value, expected[0])
for (w, b), (dw, db) in zip(gradient["layers"], expected[1]["layers"]):
    assert np.allclose(w, dw) and np.allclose(b, db)
assert np.allclose(gradient["scale"], expected[1]["scale"])
print("equal", sorted(name for name in sys.modules if name.startswith("functad")))
"""


def test_a_module_runs_where_functad_cannot_be_imported(tmp_path: Path) -> None:
    import pickle

    derivative = functad.value_and_grad(network)
    (tmp_path / "derivative.py").write_text(functad.to_source(derivative, PARAMS, X))
    (tmp_path / "case.pickle").write_bytes(pickle.dumps(((PARAMS, X), derivative(PARAMS, X))))
    command = [sys.executable, "-c", WITHOUT_FUNCTAD]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["equal", "['functad']"]


def run(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(text, space)
    return space


def test_constants_and_containers() -> None:
    big, small = rng.normal(size=(5, 7)), np.array([1.0, 2.0])
    v = functad.Variable([3.0, 4.0])

    def f(x: Any, pair: Any) -> Any:
        return {"a": x @ big, "b": [pair[0] * small * v, None], "c": (1,)}

    text = functad.to_source(f, np.ones(5), (2.0, 3.0))
    found = run(text)["f"](np.ones(5), (2.0, 3.0))
    assert np.allclose(found["a"], big.sum(0))
    assert found["b"][0].tolist() == [6.0, 16.0]
    assert found["b"][1] is None
    assert found["c"] == (1,)
    assert "np.array([1.0, 2.0]" in text


def test_keyword_arguments_and_numbers_without_a_literal() -> None:
    text = functad.to_source(lambda x, scale: np.maximum(x * scale, -np.inf) + np.float32(np.nan), np.ones(2), scale=-1.5)
    assert np.isnan(run(text)["function"](np.ones(2), scale=2.0)).all()
    power = functad.to_source(lambda x: (-2.0) ** x, np.array([2.0, 3.0]))
    assert run(power)["function"](np.array([2.0, 3.0])).tolist() == [4.0, -8.0]


def test_what_has_no_text_is_refused() -> None:
    @functad.custom_vjp
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.cos(x),))
    with pytest.raises(errors.UnsupportedError, match=r"to_source.*has no text"):
        functad.to_source(f, 1.0)


def test_einsums_have_a_text() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.einsum("ij,kj->ik", x, y), np.einsum("ij->j", x), np.einsum("ij,kj,k->i", x, y, y[:, 0], optimize=True)

    x, y = np.linspace(0.0, 1.0, 20_000).reshape(100, 200), np.ones((3, 200))
    source = functad.to_source(f, x, y)
    space: dict[str, Any] = {}
    exec(source, space)
    for found, expected in zip(space["f"](x, y), f(x, y), strict=True):
        assert np.allclose(found, expected, rtol=1e-13)
    assert "optimize=['einsum_path', (0, 1)]" in source


def test_keys_with_braces():
    space = {}
    exec(functad.to_source(lambda x: {"{a}": x * 2.0, "{}": x}, 1.0), space)
    function = next(value for name, value in space.items() if callable(value) and name not in ("np", "__builtins__"))
    assert {key: float(value) for key, value in function(3.0).items()} == {"{a}": 6.0, "{}": 3.0}


NAMES = ["np", "sum", "range", "min", "float", "slice", "lambda_", "lambda", "math", "sin", "run", "compute", "v1", "_", "_sum"]


def loop(x: Any) -> Any:
    """Return a result whose source has `np`, `range`, `float`, names of `math` and a name for a constant."""
    steps = functad.scan(lambda c, _: (c + 0.1 * np.sin(c), c), x, length=10)[1]
    return np.cumsum(steps) * np.arange(10.0)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_an_argument(name: str) -> None:
    def by_keyword(**options: Any) -> Any:
        return loop(options[name])

    def in_a_dict(x: Any) -> Any:
        return loop(x[name])

    cases: list[Any] = [(by_keyword, (), {name: 0.5}), (in_a_dict, ({name: 0.5},), {})]
    if name != "lambda":
        space: dict[str, Any] = {"loop": loop}
        exec(f"def by_position({name}):\n    return loop({name})", space)
        cases.append((space["by_position"], (0.5,), {}))
    for f, args, kwargs in cases:
        np.testing.assert_allclose(functad.jit(f, backend="numpy")(*args, **kwargs), loop(0.5), rtol=1e-14)
        found = run(functad.to_source(f, *args, **kwargs))[f.__name__](*args, **kwargs)
        np.testing.assert_allclose(found, loop(0.5), rtol=1e-14)


def test_name_of_a_function_that_the_source_needs() -> None:
    def f(x: Any) -> Any:
        return loop(x)

    f.__name__ = f.__qualname__ = "sum"
    np.testing.assert_allclose(run(functad.to_source(f, 0.5))["sum_"](0.5), loop(0.5), rtol=1e-14)


def test_names_like_others() -> None:
    cases: list[Any] = [
        (lambda x_2, x, x_: x_2 + 10 * x + 100 * x_, (1.0, 2.0, 3.0)),
        (lambda x, x_0: x[0] + 10 * x[1] + 100 * x_0, ((1.0, 2.0), 3.0)),
        (lambda x_0, x: x[0] + 10 * x[1] + 100 * x_0, (3.0, (1.0, 2.0))),
        (lambda x, x_0, x_0_1: x[0] + 10 * x[1] + 100 * x_0 + 1000 * x_0_1, ((1.0, 2.0), 3.0, 4.0)),
        (lambda x, x_v1, v1: x["v1"] + 10 * x_v1 + 100 * v1, ({"v1": 1.0}, 2.0, 3.0)),
        (lambda x: x["a b"] + 10 * x["a_b"] + 100 * x["²"], ({"a b": 1.0, "a_b": 2.0, "²": 3.0},)),
    ]
    for f, args in cases:
        assert functad.jit(f, backend="numpy")(*args) == f(*args)
        assert run(functad.to_source(f, *args))["function"](*args) == f(*args)
    same = {"\N{LATIN SMALL LIGATURE FI}": 1.0, "fi": 2.0}  # Python reads both as one name

    def g(**options: Any) -> Any:
        first, second = options.values()
        return first + 10 * second

    assert functad.jit(g, backend="numpy")(**same) == run(functad.to_source(g, **same))["g"](**same)


def test_parameters_are_those_of_the_function() -> None:
    def f(z: Any, a: Any, m: Any = 2.0, n: Any = 3.0, *, p: Any = 4.0, b: Any = 5.0) -> Any:
        return z + 10 * a + 100 * m + 1000 * n + 1e4 * p + 1e5 * b

    def header(*args: Any, **kwargs: Any) -> str:
        return next(line for line in functad.to_source(f, *args, **kwargs).splitlines() if line.startswith("def"))

    assert header(1.0, 2.0) == header(a=2.0, z=1.0) == "def f(z, a):"
    assert header(1.0, n=3.0, a=2.0) == "def f(z, a, *, n):"
    assert header(1.0, 2.0, b=1.0, p=2.0, m=2.0) == "def f(z, a, m, *, p, b):"
    found = run(functad.to_source(f, b=9.0, a=2.0, z=1.0, n=8.0))["f"]
    assert found(1.0, 2.0, b=9.0, n=8.0) == f(1.0, 2.0, b=9.0, n=8.0)

    def g(x: Any, /, *rest: Any, k: Any, **options: Any) -> Any:
        return x + 10 * rest[0] + 100 * rest[1]["w"] + 1000 * k + 1e4 * options["x"] + 1e5 * options["if"]

    args, kwargs = (1.0, 2.0, {"w": 3.0}), {"k": 4.0, "x": 5.0, "if": 6.0}
    found = run(functad.to_source(g, *args, **kwargs))["g"]
    assert found(*args, **kwargs) == g(*args, **kwargs)
    with pytest.raises(TypeError):
        found(*args, 7.0, **kwargs)


@pytest.mark.parametrize("key", [np.inf, -np.inf, np.float64(2.0), (1, 0.5), None, b"a", frozenset([1]), True, 3 + 1j])
def test_keys_of_all_types(key: Any) -> None:
    def f(x: Any) -> Any:
        return {key: 2 * value for key, value in x.items()}

    found = run(functad.to_source(f, {key: 1.5}))["f"]({key: 1.5})
    assert found == {key: 3.0}
    assert type(next(iter(found))) is type(key)


def test_a_key_that_finds_nothing_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="the key NaN has no text"):
        functad.to_source(lambda x: next(iter(x.values())), {np.nan: 1.0})


def test_results_belong_to_the_caller() -> None:
    small, large = np.arange(3.0), np.arange(40.0)

    def f(x: Any) -> Any:
        return [small, large, small, functad.scan(lambda c, _: (c, None), large, length=3)[0], 2 * x, 2 * x]

    found = run(functad.to_source(f, np.ones(3)))["f"]
    for _ in range(2):
        results = found(np.ones(3))
        for result, expected in zip(results, f(np.ones(3)), strict=True):
            np.testing.assert_array_equal(result, expected)
        for result in results:
            result += 1
