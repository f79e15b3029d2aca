"""Constraints on pytrees as SciPy constraints: functions of a flat array with exact Jacobians."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.optimize.derivatives import Linearised, Residuals
from functad.optimize.extras import scipy_optimize
from functad.optimize.unknowns import Unknowns
from functad.places import here
from functad.transforms.grad import gradient_function
from functad.transforms.transform import Selection


def flat_constraints(constraints: Any, unknowns: Unknowns, *, derivatives: bool, curvature: bool) -> list[Any]:
    """Return constraints on the flat unknowns.

    Args:
        constraints: one SciPy constraint or a sequence: dicts with `type` and `fun`, `NonlinearConstraint`, `LinearConstraint`.
        unknowns: the start.
        derivatives: the method uses Jacobians.
        curvature: the method uses Hessians too.
    """
    optimize = scipy_optimize()
    kinds = (dict, optimize.NonlinearConstraint, optimize.LinearConstraint, optimize.Bounds)
    made = []
    for i, constraint in enumerate([constraints] if isinstance(constraints, kinds) else constraints):
        if not isinstance(constraint, kinds) or (isinstance(constraint, dict) and not _is_complete(constraint)):
            raise ValueError(
                f"minimize, called at {here()}: constraints[{i}] should be {{'type': 'eq', 'fun': c}} for c(x) = 0, "
                f"{{'type': 'ineq', 'fun': c}} for c(x) >= 0, or scipy.optimize.NonlinearConstraint(c, low, high); it is "
                f"{constraint!r}."
            )
        if isinstance(constraint, dict):
            made.append(_of_dict(constraint, unknowns, derivatives, curvature))
        elif isinstance(constraint, optimize.NonlinearConstraint):
            made.append(_nonlinear(constraint, unknowns, derivatives, curvature))
        else:  # already on flat unknowns
            made.append(constraint)
    return made


def _is_complete(constraint: dict[str, Any]) -> bool:
    kind = constraint.get("type")
    return isinstance(kind, str) and kind.lower() in ("eq", "ineq") and callable(constraint.get("fun"))


def _of_dict(constraint: dict[str, Any], unknowns: Unknowns, derivatives: bool, curvature: bool) -> Any:
    args = tuple(constraint.get("args", ()))
    residuals, given = _flat(constraint["fun"], constraint.get("jac"), args, unknowns, derivatives)
    if not curvature:
        return {"type": constraint["type"], "fun": residuals.fun, **given}
    high = 0.0 if constraint["type"].lower() == "eq" else np.inf
    hess = _curvature(residuals, len(unknowns.flat))  # a dict cannot hold a Hessian
    return scipy_optimize().NonlinearConstraint(residuals.fun, 0.0, high, hess=hess, **given)


def _nonlinear(constraint: Any, unknowns: Unknowns, derivatives: bool, curvature: bool) -> Any:
    residuals, given = _flat(constraint.fun, constraint.jac, (), unknowns, derivatives)
    hess = _given(constraint.hess, (), unknowns) if callable(constraint.hess) else constraint.hess
    if curvature and isinstance(hess, scipy_optimize().BFGS):  # SciPy's default
        hess = _curvature(residuals, len(unknowns.flat))
    return scipy_optimize().NonlinearConstraint(
        residuals.fun, constraint.lb, constraint.ub, hess=hess, keep_feasible=constraint.keep_feasible, **given
    )


def _flat(
    f: Callable[..., Any], jac: Any, args: tuple[Any, ...], unknowns: Unknowns, derivatives: bool
) -> tuple[Residuals, dict[str, Any]]:
    """Return a function of the pytree as a function of the flat unknowns, and its Jacobian as a keyword if it is used."""
    residuals = Residuals(lambda x: f(unknowns.tree(x), *args), f, "constraint", differentiate=derivatives)
    own = _given(jac, args, unknowns) if callable(jac) else residuals.jac
    return residuals, {"jac": own} if derivatives else {}


def _given(derivative: Callable[..., Any], args: tuple[Any, ...], unknowns: Unknowns) -> Callable[..., Any]:
    """Return a derivative written by the user for pytrees as a function of the flat unknowns."""
    return lambda x, *rest: derivative(unknowns.tree(x), *rest, *args)


def _curvature(residuals: Residuals, size: int) -> Callable[[Any, Any], Any]:
    """Return a function that computes the Hessian of `v . c(x)` as a linear operator."""

    def hess(x: Any, v: Any) -> Any:
        from scipy.sparse.linalg import LinearOperator

        weights = np.array(v, np.float64)
        weighted = functools.wraps(residuals.function)(lambda point: np.sum(weights * residuals.flat(point)))
        gradient = gradient_function(Selection(residuals.transform, weighted, 0, None))
        push = Linearised(gradient, np.asarray(x, np.float64), residuals.function, residuals.transform)
        return LinearOperator((size, size), matvec=lambda p: push(np.reshape(p, -1)), dtype=np.float64)

    return hess
