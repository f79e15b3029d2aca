"""Multivariate distributions and density estimates. The values are SciPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _kde, _multivariate

from functad.adoption.arrays import has_tensors
from functad.adoption.compiled import CompiledFunction
from functad.adoption.scipy_functions import of_methods, stands_for
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.linalg.solve import solve_by_substitution
from functad.transforms.grad import stop_gradient


class _KernelEstimate:
    """SciPy's compiled sum of normal densities at all data points, or its logarithm; `[spec]` selects a type."""

    def __init__(self, original: Any, log: bool) -> None:
        self.original, self.log = original, log

    def __getitem__(self, spec: Any) -> Any:
        def estimate(points: Any, values: Any, xi: Any, factor: Any, dtype: Any, *more: Any) -> Any:
            if not has_tensors((points, values, xi, factor)):
                return self.original[spec](points, values, xi, factor, dtype, *more)
            d = shape_of(points)[1]
            whitened = np.linalg.inv(factor).T
            distances = (xi @ whitened)[:, None, :] - (points @ whitened)[None, :, :]
            logs = np.sum(distances**2, -1) / -2 - d / 2 * np.log(2 * np.pi) - np.sum(np.log(np.diagonal(factor)))
            if self.log:
                top = np.max(stop_gradient(logs), -1, keepdims=True)
                return np.log(np.exp(logs - top) @ values) + top
            return np.exp(logs) @ values

        return estimate


for _name, _log in (("gaussian_kernel_estimate", False), ("gaussian_kernel_estimate_log", True)):
    _estimate = getattr(_kde, _name, None)
    if type(_estimate) is CompiledFunction:  # SciPy was adopted before this import
        _estimate = _estimate.original
    if _estimate is not None and not isinstance(_estimate, _KernelEstimate):
        stands_for(_estimate, _KernelEstimate(_estimate, _log))


@of_methods(_multivariate.invwishart_gen, "_logpdf")
def _invwishart_logpdf(original: Any, self: Any, x: Any, dim: Any, df: Any, log_det_scale: Any, C: Any) -> Any:
    """Log of `|S|^(df/2) |x|^(-(df+dim+1)/2) exp(-tr(S x^-1) / 2)` over its integral; S = C C^T, and x has n matrices."""
    roots = np.linalg.cholesky(np.moveaxis(x, -1, 0))
    log_det = 2 * np.sum(np.log(np.diagonal(roots, axis1=-2, axis2=-1)), -1)
    trace = np.sum(solve_by_substitution(roots, C, lower=True) ** 2, (-2, -1))
    norm = 0.5 * df * dim * np.log(2.0) + special.multigammaln(0.5 * df, dim)
    return 0.5 * df * log_det_scale - 0.5 * trace - norm - 0.5 * (df + dim + 1) * log_det


def _random_points(name: str, cure: str) -> Any:
    def refused(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"scipy.stats.{name} has no derivative, at {here()}: {RANDOM_POINTS}. {cure}")

    return refused


RANDOM_POINTS = "SciPy integrates by random points"

of_methods(_multivariate.multivariate_t_gen, "_cdf")(
    _random_points("multivariate_t.cdf", "Use t.cdf for one variable, or functad.stop_gradient.")
)
