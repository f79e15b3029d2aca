"""The log marginal likelihood of a Gaussian process (Rasmussen 2006, equations 5.8 and 5.9)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg.lapack


def likelihood(log_lengths: Any, log_amplitude: Any, log_noise: Any, places: Any, measured: Any) -> Any:
    """The derivative by a parameter is half the trace of `(b b^T - K^-1) dK`, where `K b` is what was measured."""
    n = len(measured)
    scaled = places / np.exp(log_lengths)
    apart = (scaled.T[:, :, None] - scaled.T[:, None, :]) ** 2
    kernel = np.exp(2.0 * log_amplitude - 0.5 * apart.sum(axis=0))
    noise = np.exp(2.0 * log_noise)
    covariance = kernel.copy()
    covariance[np.arange(n), np.arange(n)] += noise
    factor = scipy.linalg.cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
    b = scipy.linalg.cho_solve(factor, measured, check_finite=False)
    value = -0.5 * measured @ b - np.log(np.diagonal(factor[0])).sum() - 0.5 * n * math.log(2 * math.pi)
    inverse, _ = scipy.linalg.lapack.dpotri(factor[0], lower=1, overwrite_c=1)
    inner = np.tril(np.outer(b, b) - inverse)  # LAPACK fills this half alone; the other is its mirror image
    inner[np.arange(n), np.arange(n)] *= 0.5
    g_noise = 2.0 * noise * np.trace(inner)
    inner *= kernel
    return value, (np.einsum("ij,kij->k", inner, apart), 2.0 * inner.sum(), g_noise)


PROGRAMS = {"likelihood": likelihood}
