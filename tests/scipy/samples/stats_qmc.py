"""Samples of `scipy.stats.qmc`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import qmc

from tests.scipy.samples.sample import Sample, call, use

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(6, 3))
NEW = RNG.uniform(size=3)
COVARIANCE = np.array([[2.0, 0.3], [0.3, 1.0]])


def drawn(*args: Any, **options: Any) -> Callable[..., Any]:
    """Return a function that draws points from an engine of SciPy."""
    return lambda kind: kind(*args, rng=np.random.default_rng(1), **options).random(4)


def normal(kind: Any, mean: Any, root: Any) -> Any:
    """Return normal points, of a covariance by its root."""
    engine = qmc.Halton(2, rng=np.random.default_rng(1))
    return kind(mean, root @ root.T, engine=engine).random(4)


def counts(kind: Any, p: Any) -> Any:
    """Return how often each of some events occurs, of their probabilities."""
    return kind(p, 8, engine=qmc.Halton(1, rng=np.random.default_rng(1))).random(3)


def own(kind: Any) -> Any:
    """Return points of an engine of one's own."""

    class Own(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(d=2, rng=np.random.default_rng(1))

        def _random(self, n: int = 1, *, workers: int = 1) -> Any:
            return self.rng.random((n, self.d))

    return Own().random(3)


SAMPLES: dict[str, Sample | list[Sample]] = {
    "Halton": use(drawn(2)),
    "LatinHypercube": use(drawn(2)),
    "MultinomialQMC": [
        use(lambda kind: kind([0.2, 0.3, 0.5], 8, engine=qmc.Halton(1, rng=np.random.default_rng(1))).random(3)),
        use(
            lambda kind, p: kind(p, 8, engine=qmc.Halton(1, rng=np.random.default_rng(1))).random(3), np.array([0.2, 0.3, 0.5])
        ),
    ],
    "MultivariateNormalQMC": use(normal, np.array([0.3, -0.2]), np.linalg.cholesky(COVARIANCE)),
    "PoissonDisk": use(drawn(2, radius=0.2)),
    "QMCEngine": use(own),
    "Sobol": use(drawn(2)),
    "discrepancy": [
        *[call(POINTS, method=method) for method in ("CD", "WD", "MD", "L2-star")],
        call(POINTS, iterative=True),
    ],
    "geometric_discrepancy": [call(POINTS), call(POINTS, method="mst")],
    "scale": [call(POINTS, np.array([-1.0, 0.0, 0.5]), np.array([1.0, 2.0, 3.0])), call(POINTS, 0, 2, reverse=True)],
    "update_discrepancy": call(NEW, POINTS, 0.3),
}
