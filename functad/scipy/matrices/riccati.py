"""Riccati equations, whose solutions are differentiated by the implicit function theorem.

See P. Lancaster and L. Rodman, "Algebraic Riccati Equations", 1995. SciPy requires Hermitian `q` and `r`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors, outside_traces
from functad.expressions.spec import dtype_of, shape_of
from functad.implicit.root import custom_root
from functad.primitives.linalg.solve import adjoint
from functad.scipy.matrices.checks import finite, square


def _continuous(x: Any, a: Any, b: Any, q: Any, r: Any, rest: dict[str, Any]) -> Any:
    before = x if "e" not in rest else adjoint(rest["e"]) @ x
    after = x if "e" not in rest else x @ rest["e"]
    left, right = before @ b, adjoint(b) @ after
    if "s" in rest:
        left, right = left + rest["s"], right + adjoint(rest["s"])
    return adjoint(a) @ after + before @ a - left @ np.linalg.solve(r, right) + q


def _discrete(x: Any, a: Any, b: Any, q: Any, r: Any, rest: dict[str, Any]) -> Any:
    left, right = adjoint(a) @ x @ b, adjoint(b) @ x @ a
    if "s" in rest:
        left, right = left + rest["s"], right + adjoint(rest["s"])
    before = x if "e" not in rest else adjoint(rest["e"]) @ x @ rest["e"]
    return adjoint(a) @ x @ a - before - left @ np.linalg.solve(r + adjoint(b) @ x @ b, right) + q


def _solution(residual: Any, original: Callable[..., Any], given: tuple[Any, ...], balanced: bool) -> Any:
    a, q, r = (square(m) for m in (given[0], *given[2:4]))
    rest = {name: finite(m) for name, m in zip("es", given[4:], strict=True) if m is not None}

    def solve(init: Any, a: Any, b: Any, q: Any, r: Any, rest: dict[str, Any]) -> Any:
        return outside_traces(original, a, b, q, r, balanced=balanced, **rest)

    b = finite(given[1])
    dtype = np.result_type(np.float64, *[dtype_of(m) for m in (a, b, q, r, *rest.values())])
    # With e and balanced=True, SciPy may solve another equation, and the derivatives would be wrong.
    decorator: Any = custom_root(residual, check="raise", tolerance=1e-5)
    return decorator(solve)(np.zeros(shape_of(a), dtype), a, b, q, r, rest)


_CONTINUOUS, _DISCRETE = scipy.linalg.solve_continuous_are, scipy.linalg.solve_discrete_are


@of_tensors("scipy.linalg")
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """Return the stabilizing solution of `a^H x e + e^H x a - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0`."""
    return _solution(_continuous, _CONTINUOUS, (a, b, q, r, e, s), balanced)


@of_tensors("scipy.linalg")
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """Return the stabilizing solution of `a^H x a - e^H x e - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q = 0`."""
    return _solution(_discrete, _DISCRETE, (a, b, q, r, e, s), balanced)
