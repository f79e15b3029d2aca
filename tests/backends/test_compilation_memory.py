"""Compilations one after the other leave no memory behind: `FUNCTAD_COMPILATIONS=2000` asks for as many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, numpy as np, functad
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
for i in range(int(sys.argv[1])):
    c = 1.0 + i * 1e-3
    functad.jit(lambda x: np.sum(np.sin(x * c) + np.exp(-x) * x), backend="llvm")(np.ones(3))
    if i == 99:
        before = resident()
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells the resident memory of now")
def test_resident_memory_stays_flat():
    pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    count = os.environ.get("FUNCTAD_COMPILATIONS", "300")
    out = subprocess.run([sys.executable, "-c", SCRIPT, count], capture_output=True, text=True, check=True).stdout
    assert int(out) < 8e6 + 6e3 * int(count)
