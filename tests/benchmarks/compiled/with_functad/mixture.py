"""The Gaussian mixture of ADBench (Srajer, Kukelova, Fitzgibbon 2018), with a Wishart prior, gamma 1, m 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import functad
from tests.benchmarks.functad_programs import logsumexp, wishart_constant
from tests.benchmarks.programs import lower_triangle_index


def likelihood(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Log-likelihood of points.

    `icf` has shape `(K, d + d (d - 1) / 2)`: for each component the logarithms of the diagonal of a lower triangular `Q` with
    inverse covariance `Q^T Q`, and then what is below the diagonal.
    """
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = np.exp(log_diagonal)
    lower = np.concatenate([np.zeros((k, 1)), below], axis=1)[:, lower_triangle_index(d)]
    q = lower + diagonal[:, :, None] * np.eye(d)
    scaled = q @ (x.T - means[:, :, None])
    inner = (alphas + np.sum(log_diagonal, axis=1))[:, None] - 0.5 * np.sum(scaled**2, axis=1)
    fit = np.sum(logsumexp(inner, axis=0)) - n * logsumexp(alphas, axis=0) - 0.5 * n * d * math.log(2 * math.pi)
    return fit + 0.5 * (np.sum(diagonal**2) + np.sum(below**2)) - k * wishart_constant(d)


PROGRAMS = {"likelihood": functad.value_and_grad(likelihood, argnums=(0, 1, 2))}
