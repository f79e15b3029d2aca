"""The log marginal likelihood of a Gaussian process, by its hyperparameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import functad
from functad.scipy.linalg import solve_triangular


def likelihood(log_lengths: Any, log_amplitude: Any, log_noise: Any, places: Any, measured: Any) -> Any:
    """With a squared exponential kernel, a length scale for each dimension and independent noise (Rasmussen 2006, 5.8)."""
    n = len(measured)
    scaled = places / np.exp(log_lengths)
    squares = np.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=-1)
    covariance = np.exp(2.0 * log_amplitude - 0.5 * squares) + np.exp(2.0 * log_noise) * np.eye(n)
    lower = np.linalg.cholesky(covariance)
    whitened = solve_triangular(lower, measured, lower=True)
    return -0.5 * whitened @ whitened - np.sum(np.log(np.diagonal(lower))) - 0.5 * n * math.log(2 * math.pi)


PROGRAMS = {"likelihood": functad.value_and_grad(likelihood, argnums=(0, 1, 2))}
