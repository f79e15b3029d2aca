"""Bounds on trees, and constraints whose derivatives are exact."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import optimize as scipy_optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

from functad.errors import StructureError
from functad.optimize import minimize, scipy_bundle
from tests.optimize.problems import Counted

INF = np.inf


class Point(NamedTuple):
    x: Any
    y: Any


TREE = {"a": np.zeros(2), "b": 0.0, "c": [np.zeros((1, 2)), 0.0]}


@pytest.mark.parametrize(
    ("x0", "bounds", "low", "high"),
    [
        (TREE, None, [-INF] * 6, [INF] * 6),
        (TREE, (0, 1), [0] * 6, [1] * 6),
        (TREE, {"b": (0, None)}, [-INF, -INF, 0, -INF, -INF, -INF], [INF] * 6),
        (TREE, {"a": ([1, 2], 3), "c": [(None, 5), None]}, [1, 2, -INF, -INF, -INF, -INF], [3, 3, INF, 5, 5, INF]),
        (TREE, {"c": [([[1, 2]], None), (7, 8)]}, [-INF, -INF, -INF, 1, 2, 7], [INF, INF, INF, INF, INF, 8]),
        (TREE, Bounds(0, [1, 2, 3, 4, 5, 6]), [0] * 6, [1, 2, 3, 4, 5, 6]),
        (Point(0.0, np.zeros(2)), Point((0, 1), None), [0, -INF, -INF], [1, INF, INF]),
        ((np.zeros(1), 0.0), ((0, 1), (2, 3)), [0, 2], [1, 3]),
        (np.zeros(2), [(0, None), None], [0, -INF], [INF, INF]),
        (np.zeros(2), ((0, 1), (2, 3)), [0, 2], [1, 3]),
        (np.zeros(2), Bounds([0, 1], 5), [0, 1], [5, 5]),
        (np.zeros((2, 1)), (0, 1), [0, 0], [1, 1]),
        (np.zeros((2, 1)), ([[0], [1]], None), [0, 1], [INF, INF]),
        (np.zeros((2, 2)), [(0, 1), (0, 2), (0, 3), (0, 4)], [0] * 4, [1, 2, 3, 4]),
        (np.zeros((2, 1)), Bounds([[0], [1]], 5), [0, 1], [5, 5]),
        (0.0, (1, 2), [1], [2]),
        ([1.0, 2.0], [(0, 1), (0, 2)], [0, 0], [1, 2]),
    ],
)
def test_bounds_of_every_form(x0, bounds, low, high):
    found = scipy_bundle(lambda x: 0.0, x0).bounds(bounds)
    assert isinstance(found, Bounds)
    assert (found.lb.tolist(), found.ub.tolist()) == (low, high)


def test_feasibility_is_kept():
    found = scipy_bundle(lambda x: 0.0, np.zeros(2)).bounds(Bounds([0, 1], 5, keep_feasible=[True, False]))
    assert found.keep_feasible.tolist() == [True, False]


@pytest.mark.parametrize(
    ("x0", "bounds", "message"),
    [
        (TREE, {"d": (0, 1)}, r"bounds should be like x0 there.*dict\(\['a'\]"),
        (TREE, {"c": [(0, 1)]}, r"bounds\['c'\] should be like x0 there.*list"),
        (TREE, {"c": (0, 1, 2)}, r"bounds\['c'\] should be like x0 there"),
        (TREE, {"a": 3}, r"bounds\['a'\] should be a pair \(low, high\) or None, at .*; it is 3"),
        (TREE, {"a": ([1, 2, 3], None)}, r"bounds\['a'\]\[0\] has shape \(3,\), which does not fit the shape \(2,\) in x0"),
        (TREE, {"b": (None, [1, 2])}, r"bounds\['b'\]\[1\] has shape \(2,\)"),
        (TREE, 3, "bounds should be like x0"),
        (np.zeros(3), [(0, 1)], "bounds should be 3 pairs"),
        (np.zeros(2), [1, 2], "bounds should be 2 pairs"),
        (np.zeros(2), Bounds([0, 1, 2], 5), r"bounds\.lb has shape \(3,\)"),
        ({"n": None, "a": 1.0}, {"n": (0, 1)}, r"bounds\['n'\] bounds None"),
    ],
)
def test_bounds_that_do_not_fit(x0, bounds, message):
    with pytest.raises(StructureError, match=message):
        minimize(lambda x: 0.0, x0, bounds=bounds)


@pytest.mark.parametrize("method", ["Nelder-Mead", "Powell", "L-BFGS-B", "TNC", "SLSQP", "COBYLA", "COBYQA", "trust-constr"])
def test_bounded_minimum_of_a_tree(method):
    """The minimum of sum((w - 3)^2) + (c + 1)^2 for w <= [1, 5] and c >= 0."""
    result = minimize(
        lambda p: np.sum((p["w"] - 3.0) ** 2) + (p["c"] + 1.0) ** 2,
        {"w": np.array([0.5, 0.5]), "c": 0.5},
        method=method,
        bounds={"w": (None, [1.0, 5.0]), "c": (0.0, None)},
    )
    np.testing.assert_allclose(result.x["w"], [1.0, 3.0], atol=1e-3)
    np.testing.assert_allclose(result.x["c"], 0.0, atol=1e-3)


def test_unknown_that_the_bounds_fix():
    for method in ("TNC", "L-BFGS-B", "SLSQP"):
        steps = []
        result = minimize(
            lambda x: np.sum((x - 3.0) ** 2), np.zeros(2), method=method, bounds=[(1, 1), (None, None)], callback=steps.append
        )
        np.testing.assert_allclose(result.x, [1.0, 3.0], atol=1e-5)


# Constraints: the nearest point to (2, 1, 0) on the unit sphere, with the last coordinate at least 0.1.

START = {"xy": np.array([0.6, 0.5]), "z": 0.6}
NEAREST = np.append(np.sqrt(0.99 / 5) * np.array([2.0, 1.0]), 0.1)


def distance(p):
    return (p["xy"][0] - 2.0) ** 2 + (p["xy"][1] - 1.0) ** 2 + p["z"] ** 2


def sphere(p):
    return np.sum(p["xy"] ** 2) + p["z"] ** 2 - 1.0


def height(p, least):
    return p["z"] - least


AS_DICTS = [{"type": "eq", "fun": sphere}, {"type": "ineq", "fun": height, "args": (0.1,)}]
AS_OBJECTS = [NonlinearConstraint(sphere, 0.0, 0.0), NonlinearConstraint(lambda p: {"z": p["z"]}, 0.1, INF)]
WITH_JACOBIAN = [
    {"type": "eq", "fun": sphere, "jac": lambda p: np.append(2 * p["xy"], 2 * p["z"])},
    NonlinearConstraint(lambda p: p["z"], 0.1, INF, jac=lambda p: np.array([[0.0, 0.0, 1.0]])),
]
LINEAR = [{"type": "EQ", "fun": sphere}, LinearConstraint([[0.0, 0.0, 1.0]], 0.1, INF)]


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA", "COBYQA"])
@pytest.mark.parametrize(
    "constraints", [AS_DICTS, AS_OBJECTS, WITH_JACOBIAN, LINEAR], ids=["dicts", "objects", "jac", "linear"]
)
def test_constrained_minimum_of_a_tree(method, constraints):
    tol = 1e-5 if method == "COBYQA" else 1e-8
    result = minimize(distance, START, method=method, constraints=constraints, tol=tol)
    found = np.append(result.x["xy"], result.x["z"])
    np.testing.assert_allclose(found, NEAREST, atol=1e-3 if method == "COBYQA" else 1e-4)
    # Whether COBYQA meets the constraints to the last digits before it stops, and says so, hangs on how BLAS rounds.
    assert result.success or method == "COBYQA"


@pytest.mark.parametrize("hess", [scipy_optimize.BFGS(), "product", "dense"], ids=["BFGS", "product", "dense"])
def test_curvature_of_constraints(hess):
    constraints = [NonlinearConstraint(sphere, 0.0, 0.0), NonlinearConstraint(lambda p: p["z"] ** 2 + p["z"], 0.11, INF)]
    result = minimize(distance, START, method="trust-constr", constraints=constraints, hess=hess)
    np.testing.assert_allclose(np.append(result.x["xy"], result.x["z"]), NEAREST, atol=1e-3)


def test_exact_constraint_derivatives_save_calls():
    exact, differences = Counted(sphere), Counted(lambda x: np.sum(x**2) - 1.0)
    result = minimize(distance, START, constraints={"type": "eq", "fun": exact})
    reference = scipy_optimize.minimize(
        lambda x: (x[0] - 2.0) ** 2 + (x[1] - 1.0) ** 2 + x[2] ** 2,
        np.array([0.6, 0.5, 0.6]),
        constraints={"type": "eq", "fun": differences},
    )
    assert 2 * exact.calls < differences.calls
    np.testing.assert_allclose(np.append(result.x["xy"], result.x["z"]), reference.x, atol=1e-4)


def test_user_written_hessian_of_a_constraint_is_used():
    seen = []

    def hess(p, v):
        seen.append(sorted(p))
        return 2.0 * v[0] * np.eye(3)

    constraint = NonlinearConstraint(sphere, 0.0, 0.0, hess=hess)
    result = minimize(distance, START, method="trust-constr", constraints=constraint)
    np.testing.assert_allclose(result.x["xy"], np.array([2.0, 1.0]) / np.sqrt(5), atol=1e-4)
    assert seen[0] == ["xy", "z"]


@pytest.mark.parametrize(
    "constraint", [{"type": "eq"}, {"fun": sphere}, {"type": "leq", "fun": sphere}, sphere, {"type": "eq", "fun": 3}]
)
def test_constraint_that_is_none(constraint):
    with pytest.raises(ValueError, match=r"constraints\[0\] should be \{'type': 'eq', 'fun': c\}"):
        minimize(distance, START, constraints=[constraint])
