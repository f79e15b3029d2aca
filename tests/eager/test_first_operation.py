"""The first operation of a Tensor and a Variable in a process is recorded once."""

import subprocess
import sys

PROGRAM = """
import numpy as np, functad
v, c = functad.Variable(np.ones(3)), functad.constant(np.ones(3))
counts = []
for _ in range(3):
    with functad.GradientTape() as tape:
        tape.watch(c)
        y = c * v
        counts.append(len(tape.recorder.records))
print(len(set(counts)), counts)
"""


def test_the_first_product_is_recorded_once():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("1 "), found.stdout
