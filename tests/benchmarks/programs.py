"""The programs that are compared: their inputs, what they are differentiated by, and the ratios to stay below.

Only NumPy is imported here, since the workers of other libraries read this file too. The functions themselves are written
once for each library, in its own style, in the modules `*_programs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

GMM_DIMENSION, GMM_COMPONENTS, GMM_POINTS = 10, 25, 1000
CHAIN_ITERATIONS = 250
MEMORY_ITERATIONS = 15
LORENZ_STEPS, LORENZ_DT = 100, 0.01


@dataclass(frozen=True)
class Program:
    """One row of the table.

    Attributes:
        name: the key under which every `*_programs.py` has its function.
        title: how the table calls it.
        arguments: makes the arguments; always the same ones.
        argnums: positions of the arguments that are differentiated.
        rtol: how closely results must agree, relative to the largest element.
        goals: the largest ratio of functad's time to that of a framework that is aimed at.
        tape_goals: the largest ratio of the time of functad's tape.
        compared: whether it stands in the table; the others are measured by `scaling`.
    """

    name: str
    title: str
    arguments: Callable[[], tuple[Any, ...]]
    argnums: tuple[int, ...]
    rtol: float = 1e-9
    goals: Mapping[str, float] = field(default_factory=dict)
    tape_goals: Mapping[str, float] = field(default_factory=lambda: {"functad": 1.3})
    compared: bool = True


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def _chain_scalar() -> tuple[Any, ...]:
    return (np.array(0.5), CHAIN_ITERATIONS)


def _chain_vector() -> tuple[Any, ...]:
    return (np.linspace(-1.0, 1.0, 8), CHAIN_ITERATIONS)


def _chain_memory() -> tuple[Any, ...]:
    return (np.linspace(-1.0, 1.0, 1_000_000), MEMORY_ITERATIONS)


def _logistic() -> tuple[Any, ...]:
    rng = _rng()
    features = rng.normal(size=(100, 10))
    labels = (features @ rng.normal(size=10) + rng.normal(size=100) > 0).astype(np.float64)
    return 0.1 * rng.normal(size=10), features, labels


def _network() -> tuple[Any, ...]:
    rng = _rng()
    sizes = (784, 512, 256, 10)
    layers = [
        ((rng.normal(size=(m, n)) * np.sqrt(2 / m)).astype(np.float32), (0.1 * rng.normal(size=n)).astype(np.float32))
        for m, n in pairwise(sizes)
    ]
    images = rng.random((128, 784)).astype(np.float32)
    return layers, images, rng.integers(0, 10, 128)


def _mixture() -> tuple[Any, ...]:
    rng = _rng()
    d, k, n = GMM_DIMENSION, GMM_COMPONENTS, GMM_POINTS
    alphas = rng.normal(size=k)
    means = rng.random((k, d))
    icf = 0.5 * rng.normal(size=(k, d + d * (d - 1) // 2))
    return alphas, means, icf, rng.normal(size=(n, d))


def _lorenz() -> tuple[Any, ...]:
    return np.array([1.0, 1.0, 20.0]), 10.0, 28.0, 8.0 / 3.0


def _tanh_exp() -> tuple[Any, ...]:
    return 1.3, 0.2, _rng().normal(size=1_000_000)


def lower_triangle_index(d: int) -> np.ndarray[Any, Any]:
    """Return for each element of a `d` by `d` matrix its place among the elements below the diagonal, counted from 1.

    The elements below the diagonal are counted column by column; all others have place 0, where a zero is to be found.
    """
    index = np.zeros((d, d), dtype=np.int64)
    columns, rows = np.triu_indices(d, 1)
    index[rows, columns] = np.arange(1, len(rows) + 1)
    return index


_PROGRAMS = (
    Program(
        "chain_scalar",
        "chain of 1,000 operations, `()`",
        _chain_scalar,
        (0,),
        goals={"autograd": 0.2, "torch": 0.4},
        tape_goals={"functad": 1.3, "tensorflow": 0.06},
    ),
    Program(
        "chain_vector",
        "chain of 1,000 operations, `(8,)`",
        _chain_vector,
        (0,),
        goals={"autograd": 0.2, "torch": 0.4},
        tape_goals={"functad": 1.3, "tensorflow": 0.06},
    ),
    Program(
        "logistic",
        "logistic loss, 100 x 10",
        _logistic,
        (0,),
        goals={"autograd": 0.3, "torch": 0.5, "handwritten": 6.0},
    ),
    Program(
        "network",
        "network 784-512-256-10, batch 128, float32",
        _network,
        (0,),
        rtol=2e-4,
        goals={"autograd": 0.6, "torch": 1.2, "handwritten": 1.2},
    ),
    Program(
        "mixture",
        "Gaussian mixture, d=10 K=25 n=1000",
        _mixture,
        (0, 1, 2),
        goals={"autograd": 0.5, "torch": 1.1, "handwritten": 1.6},
    ),
    Program(
        "lorenz",
        "RK4 on the Lorenz system, 100 steps",
        _lorenz,
        (0, 1, 2, 3),
        goals={"autograd": 0.15, "torch": 0.5},
    ),
    Program(
        "tanh_exp",
        "sum(tanh(a x + b) exp(-x x)), 1e6",
        _tanh_exp,
        (0, 1, 2),
        goals={"autograd": 0.7, "handwritten": 1.3},
    ),
    Program("chain_memory", "chain of 60 operations, 1e6", _chain_memory, (0,), compared=False),
)

PROGRAMS: dict[str, Program] = {program.name: program for program in _PROGRAMS}


def leaves(tree: Any) -> list[Any]:
    """Return what lies in nested lists and tuples, from left to right."""
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return nested lists and tuples with `function` of what lies in them."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(tree_map(function, part) for part in tree)
    return function(tree)
