"""Logistic regression: gradient, Hessian, and its product with a direction."""

from __future__ import annotations

from typing import Any

import functad
from tests.benchmarks.functad_programs import logistic


def product(weights: Any, direction: Any, features: Any, labels: Any) -> Any:
    """The Hessian times a direction."""
    return functad.jvp(lambda w: functad.grad(logistic)(w, features, labels), (weights,), (direction,))[1]


PROGRAMS = {"gradient": functad.value_and_grad(logistic), "hessian": functad.hessian(logistic), "product": product}
