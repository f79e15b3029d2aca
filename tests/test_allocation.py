"""`keep_freed_memory` lets the next derivative use the memory that the last one freed; without it nothing is changed."""

import os
import platform
import subprocess
import sys

import pytest

GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have their own rules")

SCRIPT = """
import resource
import numpy as np
import functad

functad.keep_freed_memory()
x = np.ones(250_000)
step = functad.grad(lambda x: np.sum(np.tanh(x) * np.exp(x) * np.sin(x)))
for _ in range(3):
    step(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10)
"""

# A block of 16 MB is mapped by itself, unless the threshold has moved above that. It is not freed, which would move it.
STEPS = """
import ctypes, functad, numpy as np

def keeps():
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    block = libc.malloc(16 << 20)
    mapped = ctypes.c_size_t.from_address(block - 8).value & 2  # IS_MMAPPED, in the word before each block
    if not mapped:
        libc.free(block)
    return not mapped

print(keeps())
x = np.ones(100_000)
functad.grad(lambda x: np.sum(np.sin(x) * x))(x)
functad.vjp(np.sin, x)[1](x)
functad.gradients_function(lambda x: np.sum(np.sin(x)))(x)
functad.jit(lambda x: np.sin(x) * x, backend="numpy")(x)
print(keeps())
functad.keep_freed_memory()
print(keeps())
"""


def run(code):
    """Run code without settings of the allocator, which Dask's clusters leave in the environment."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own)
    return out.stdout.split()


@GLIBC
def test_a_repeated_gradient_meets_no_new_pages():
    """Its eight arrays of 2 MB are about 4,000 pages; without the call 2,000 of them are new in every gradient."""
    assert float(run(SCRIPT)[0]) < 100


@GLIBC
def test_only_the_function_changes_what_the_allocator_keeps():
    assert run(STEPS) == ["False", "False", "True"]
