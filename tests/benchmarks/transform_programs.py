"""The programs of the other transforms: batched gradients, Hessians, forward mode; their inputs and the ratios to stay below.

Like `programs`, this imports only NumPy. The programs stand, for each library in its own style, in the modules `*_transforms`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .programs import CHAIN_ITERATIONS, Program

EXAMPLES, FEATURES, POINTS = 128, 100, 500
JVP_RATIO, JVP_SECONDS = 2.5, 1e-6
"""What forward mode may cost: a multiple of the plain run, and so much for each operation."""

CHAIN_OPERATIONS = 4 * CHAIN_ITERATIONS


def _per_example() -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    layers = [(rng.normal(size=(m, n)) * np.sqrt(2 / m), 0.1 * rng.normal(size=n)) for m, n in pairwise((64, 32, 10))]
    return layers, rng.random((EXAMPLES, 64)), rng.integers(0, 10, EXAMPLES)


def _hessian() -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(POINTS, FEATURES))
    labels = (features @ rng.normal(size=FEATURES) + rng.normal(size=POINTS) > 0).astype(np.float64)
    return 0.1 * rng.normal(size=FEATURES), features, labels


def _jvp_scalar() -> tuple[Any, ...]:
    return np.array(0.5), np.array(1.5), CHAIN_ITERATIONS


def _jvp_vector() -> tuple[Any, ...]:
    return np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 1.5, 8), CHAIN_ITERATIONS


_TRANSFORMS = (
    Program(
        "per_example",
        "`vmap(grad(f))`, network 64-32-10, 128 examples",
        _per_example,
        (0,),
        goals={"reference": 3.0, "torch": 1.0},
    ),
    Program("hessian", f"`hessian` of a logistic loss, {POINTS} x {FEATURES}", _hessian, (0,), goals={"torch": 0.5}),
    Program("jvp_scalar", "`jvp` of a chain of 1,000 operations, `()`", _jvp_scalar, (0,)),
    Program("jvp_vector", "`jvp` of a chain of 1,000 operations, `(8,)`", _jvp_vector, (0,)),
)

TRANSFORMS: dict[str, Program] = {program.name: program for program in _TRANSFORMS}
"""`reference` among the goals is what `reference_transforms` does: the gradient of the batch, the plain run."""
