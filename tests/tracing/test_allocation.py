"""Memory that is freed at the end of a derivative is there for the next one."""

import platform
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have their own rules")
def test_a_repeated_gradient_meets_no_new_pages():
    """Its eight arrays of 2 MB are about 4,000 pages; without the measure 2,000 of them are new in every call."""
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert float(out.stdout) < 100
