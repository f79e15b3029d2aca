"""Memory that is freed at the end of a derivative is there for the next one; until there is much of it, nothing is changed."""

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
for n in (3, 10_000):
    x = np.ones(n)
    for _ in range(20):
        functad.grad(lambda x: np.sum(np.sin(x) * x))(x)
print(keeps())
x = np.ones(100_000)
functad.{gradient}
print(keeps())
"""

GRADIENTS = (
    "grad(lambda x: np.sum(np.sin(x) * x))(x)",
    "vjp(np.sin, x)[1](x)",
    "gradients_function(lambda x: np.sum(np.sin(x)))(x)",
    "jit(lambda x: np.sin(x) * x)(x)",
)


def run(code, **environment):
    """Run code without settings of the allocator, which Dask's clusters leave in the environment."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    } | environment
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own)
    return out.stdout.split()


@GLIBC
def test_a_repeated_gradient_meets_no_new_pages():
    """Its eight arrays of 2 MB are about 4,000 pages; without the measure 2,000 of them are new in every call."""
    assert float(run(SCRIPT)[0]) < 100


@GLIBC
@pytest.mark.parametrize("gradient", GRADIENTS)
def test_neither_import_nor_small_gradients_change_what_the_allocator_keeps(gradient):
    assert run(STEPS.format(gradient=gradient), FUNCTAD_KEEP_MEMORY="1") == ["False", "False", "True"]


@GLIBC
def test_a_variable_of_the_environment_leaves_the_allocator_alone():
    assert run(STEPS.format(gradient=GRADIENTS[0]), FUNCTAD_KEEP_MEMORY="0") == ["False", "False", "False"]
