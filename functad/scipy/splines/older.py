"""B-spline functions that SciPy compiled before 1.15, by the current functions; the argument conventions differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import shape_of
from functad.primitives.indexing.read import get_item

_BSPL = "scipy.interpolate._bspl"


def enter(rules: dict[str, Any]) -> None:
    """Register the older functions, given the rules of the current functions by name, with `_basis` and `_left`."""
    basis, left_of = rules["_basis"], rules["_left"]
    for name in ("find_interval", "evaluate_all_bspl"):
        of_tensors(_BSPL, name)(rules[name])
    of_tensors("scipy.interpolate.interpnd")(rules["_ndim_coords_from_arrays"])

    def evaluate_spline(t: Any, c: Any, k: int, xp: Any, nu: int, extrapolate: bool, out: Any) -> None:
        out[...] = rules["evaluate_spline"](t, c, k, xp, nu, extrapolate)

    def evaluate_ndbspline(*args: Any) -> None:
        args[-1][...] = rules["evaluate_ndbspline"](*args[:-1])

    def _colloc(x: Any, t: Any, k: int, ab: Any, offset: int = 0) -> None:
        left = left_of(t, k, x)
        columns = left[:, None] + np.arange(-k, 1)
        ab[2 * k + offset + np.arange(len(x))[:, None] - columns, columns] = basis(t, k, x, left)

    def _handle_lhs_derivatives(t: Any, k: int, xval: Any, ab: Any, kl: int, ku: int, orders: Any, offset: int = 0) -> None:
        at = xval * np.ones(1)
        left = left_of(t, k, at)
        columns = left[0] + np.arange(-k, 1)
        for row, order in enumerate(orders):
            ab[kl + ku + offset + row - columns, columns] = basis(t, k, at, left, int(order))[0]

    def _norm_eq_lsq(x: Any, t: Any, k: int, y: Any, w: Any, ab: Any, rhs: Any) -> None:
        left = left_of(t, k, x)
        n = shape_of(rhs)[0]
        units = get_item(np.eye(n), left[:, None] + np.arange(-k, 1))
        design = w[:, None] * np.sum(basis(t, k, x, left)[:, :, None] * units, axis=1)
        normal = design.T @ design
        for d in range(k + 1):
            ab[d, : n - d] = np.diagonal(normal, -d)
        rhs[...] = design.T @ (w[:, None] * y)

    for function in (evaluate_spline, evaluate_ndbspline, _colloc, _handle_lhs_derivatives, _norm_eq_lsq):
        of_tensors(_BSPL, function.__name__)(function)
