"""The log marginal likelihood of a Gaussian process, by its hyperparameters."""

from __future__ import annotations

import math
from typing import Any

import torch

from .gradients import value_and_grad


def likelihood(log_lengths: Any, log_amplitude: Any, log_noise: Any, places: Any, measured: Any) -> Any:
    """With a squared exponential kernel, a length scale for each dimension and independent noise."""
    n = len(measured)
    scaled = places / torch.exp(log_lengths)
    squares = torch.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, dim=-1)
    covariance = torch.exp(2.0 * log_amplitude - 0.5 * squares) + torch.exp(2.0 * log_noise) * torch.eye(n, dtype=squares.dtype)
    lower = torch.linalg.cholesky(covariance)
    whitened = torch.linalg.solve_triangular(lower, measured[:, None], upper=False)[:, 0]
    return -0.5 * whitened @ whitened - torch.sum(torch.log(torch.diagonal(lower))) - 0.5 * n * math.log(2 * math.pi)


PROGRAMS = {"likelihood": value_and_grad(likelihood, (0, 1, 2))}
