"""Logistic regression: gradient, Hessian, and its product with a direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.handwritten_programs import logistic


def gradient(weights: Any, features: Any, labels: Any) -> Any:
    """The gradient is `X^T (sigmoid(z) - y) / n`."""
    value, (slope,) = logistic(weights, features, labels)
    return value, slope


def curvature(weights: Any, features: Any) -> Any:
    """Second derivatives of the mean loss by each `z`."""
    e = np.exp(-np.abs(features @ weights))
    return e / ((1.0 + e) ** 2 * len(features))


def hessian(weights: Any, features: Any, labels: Any) -> Any:
    """A product of the scaled features with their transpose, of which BLAS computes a half."""
    scaled = features * np.sqrt(curvature(weights, features))[:, None]
    return scaled.T @ scaled


def product(weights: Any, direction: Any, features: Any, labels: Any) -> Any:
    """Two products of a matrix and a vector."""
    return (curvature(weights, features) * (features @ direction)) @ features


PROGRAMS = {"gradient": gradient, "hessian": hessian, "product": product}
