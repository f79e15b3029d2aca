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
