"""What mypy and pyright make of functad, both strict: results, refused calls, and a file as users write them.

The files beside this one hold all that is asked; each checker runs once over them.
"""

import importlib.util
import inspect
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import functad

HERE = Path(__file__).parent
FILES = [HERE / name for name in ("refused.py", "revealed.py", "stranger.py")]
WRONG = [number for number, line in enumerate((HERE / "refused.py").read_text().splitlines(), 1) if line.endswith("# wrong")]
in_dev = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None or importlib.util.find_spec("pyright") is None,
    reason="mypy and pyright are in the extra `dev`, which not every run of the tests installs",
)


def run(*command, **environment):
    """Return what a module of Python prints when it is run."""
    found = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert not found.stderr.startswith("Traceback"), found.stderr
    return found.stdout


def agrees(errors):
    """Check that a checker found fault with the lines that are wrong, and with no other; each is a file, a line and a text."""
    others = [error for error in errors if error[0] != "refused.py" or error[1] not in WRONG]
    assert not others
    assert sorted({line for _, line, _ in errors}) == WRONG


@in_dev
def test_mypy(tmp_path):
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--python-version=3.11", "--cache-dir", tmp_path]
    printed = run("mypy", *options, *FILES, MYPYPATH=str(HERE.parents[1]))
    lines = [line.split(":", 2) for line in printed.splitlines() if ": error: " in line]
    agrees([(Path(file).name, int(number), text) for file, number, text in lines])


@in_dev
def test_pyright():
    printed = run("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", HERE)
    found = json.loads(printed)
    assert found["summary"]["filesAnalyzed"] == len(FILES)
    agrees(
        [
            (Path(error["file"]).name, error["range"]["start"]["line"] + 1, error["message"])
            for error in found["generalDiagnostics"]
        ]
    )


def test_the_file_of_a_stranger_runs(capsys):
    runpy.run_path(str(HERE / "stranger.py"))
    assert "functad" not in capsys.readouterr().err


# What an editor shows


def energy(x: float, stiffness: float = 2.0, *, offset: float = 0.0) -> float:
    """Say what it does."""
    return np.sum(stiffness * (x - offset) ** 2)


class Spring:
    @functad.grad(argnums=1)
    def force(self, x: float, scale: float = 1.0) -> float:
        """Say what it does."""
        return scale * x**2


MADE = {
    "grad": functad.grad(energy),
    "value_and_grad": functad.value_and_grad(argnums=(0, 1))(energy),
    "vmap": functad.vmap(energy),
    "jit": functad.jit(energy),
    "jit of vmap of grad": functad.jit(functad.vmap(functad.grad(energy))),
    "custom_vjp": functad.custom_vjp(energy),
    "sparse_jacobian": functad.sparse_jacobian(energy),
    "gradients_function": functad.gradients_function(energy),
}


@pytest.mark.parametrize("name", MADE)
def test_completion_shows_the_signature_of_the_user(name):
    jedi = pytest.importorskip("jedi", reason="jedi comes with IPython, which not every run of the tests installs")
    assert inspect.signature(MADE[name]) == inspect.signature(energy)
    [signature] = jedi.Interpreter("made(", [{"made": MADE[name]}]).get_signatures()
    assert [parameter.name for parameter in signature.params] == ["x", "stiffness", "offset"]
    assert "Say what it does." in signature.docstring()


def test_completion_of_methods_leaves_out_self():
    jedi = pytest.importorskip("jedi", reason="jedi comes with IPython, which not every run of the tests installs")
    [signature] = jedi.Interpreter("spring.force(", [{"spring": Spring()}]).get_signatures()
    assert [parameter.name for parameter in signature.params] == ["x", "scale"]
