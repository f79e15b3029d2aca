"""functad where threads, processes and extras are missing, as in a browser; a process that lacks them stands for it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

RESTRICTED = """
import _thread, sys

def refused(*args, **kwargs):
    raise RuntimeError("can't start new thread")

_thread.start_new_thread = refused  # before `threading` takes it

from importlib.machinery import PathFinder
MISSING = {
    "_multiprocessing", "_posixshmem", "_posixsubprocess", "fcntl", "resource", "termios",
    "llvmlite", "scipy", "dask", "jax", "torch", "sklearn", "tqdm", "IPython",
}
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in MISSING else find(name, *rest)
for name in MISSING:
    sys.modules.pop(name, None)
import os, signal, threading
for name in ("fork", "posix_spawn", "sched_getaffinity"):
    vars(os).pop(name, None)
for name in ("setitimer", "pthread_sigmask", "set_wakeup_fd"):
    vars(signal).pop(name, None)
_thread.start_joinable_thread = threading._start_joinable_thread = threading._start_new_thread = refused
import numpy as np
sys.platform = "emscripten"
"""

PROGRAMS = {
    "transforms": """
assert np.allclose(functad.grad(lambda x: np.sum(np.sin(x) ** 2))(np.arange(3.0)), np.sin(2 * np.arange(3.0)))
assert functad.hessian(lambda x: np.sum(x**3))(np.ones(2)).tolist() == [[6.0, 0.0], [0.0, 6.0]]
assert functad.vmap(functad.grad(lambda x: x**2))(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
""",
    "tape": """
v = functad.Variable(3.0)
with functad.GradientTape() as tape:
    y = v * v
assert tape.gradient(y, v) == 6.0
state = functad.optimizers.adam(0.1).init(np.ones(2))
""",
    "jit": """
f = functad.jit(functad.grad(lambda x: np.sum(np.tanh(x) ** 2)))
x = np.linspace(-1.0, 1.0, 5)
assert np.allclose(f(x), functad.grad(lambda x: np.sum(np.tanh(x) ** 2))(x))
assert functad.jit(lambda x: functad.scan(lambda c, a: (c + a, c), 0.0, x)[0])(x) == f(x).dtype.type(x.sum())
functad.set_num_threads(1)
""",
    "files": """
import io, tempfile
with tempfile.TemporaryDirectory() as folder:
    functad.save_expressions(functad.make_expressions(np.sin)(1.0), folder + "/f.npz")
    assert functad.load_expressions(folder + "/f.npz")(1.0) == np.sin(1.0)
""",
    "missing extras say what to install": """
from functad.errors import MissingPackageError
for call in (lambda: functad.jit(np.sin, backend="llvm"), lambda: functad.jit(np.sin, backend="xla"),
             lambda: functad.optimize.minimize(lambda x: np.sum(x * x), np.ones(2))):
    try:
        call()
    except MissingPackageError as error:
        assert "pip install" in str(error)
    else:
        raise AssertionError("nothing was missing")
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_works_without_threads_processes_and_extras(name):
    code = f"{RESTRICTED}\nimport functad\n{PROGRAMS[name]}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
