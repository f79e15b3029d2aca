"""The Gaussian mixture of ADBench, with a Wishart prior, gamma 1, m 0."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from tests.benchmarks.programs import lower_triangle_index

from .gradients import value_and_grad


@functools.cache
def index(d: int) -> Any:
    """Places of the elements of a lower triangular matrix."""
    return torch.from_numpy(lower_triangle_index(d))


def wishart_constant(d: int) -> float:
    """Logarithm of the normalisation of the Wishart prior with gamma 1, m 0."""
    freedom = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    return -0.5 * freedom * d * math.log(2) - log_gamma


def likelihood(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Log-likelihood of points."""
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = torch.exp(log_diagonal)
    lower = torch.cat([torch.zeros((k, 1), dtype=icf.dtype), below], dim=1)[:, index(d)]
    q = lower + torch.diag_embed(diagonal)
    scaled = q @ (x.T - means[:, :, None])
    inner = (alphas + torch.sum(log_diagonal, dim=1))[:, None] - 0.5 * torch.sum(scaled**2, dim=1)
    fit = torch.sum(torch.logsumexp(inner, 0)) - n * torch.logsumexp(alphas, 0) - 0.5 * n * d * math.log(2 * math.pi)
    return fit + 0.5 * (torch.sum(diagonal**2) + torch.sum(below**2)) - k * wishart_constant(d)


PROGRAMS = {"likelihood": value_and_grad(likelihood, (0, 1, 2))}
