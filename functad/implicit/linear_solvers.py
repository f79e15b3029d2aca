"""Matrix-free solvers of linear systems `A x = b` over flat real vectors.

The derivatives of implicit functions use them: conjugate gradients in NumPy (M. Hestenes and E. Stiefel, "Methods of conjugate
gradients for solving linear systems", 1952), and SciPy's solvers for nonsymmetric systems.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functad.errors import ImplicitError
from functad.places import here
from functad.process import optional
from functad.tracing.trace import new_arrays_recorded_by

Vector = Any
Product = Callable[[Vector], Vector]
SMALL = 256
"""The matrix is built for up to this number of unknowns: a dense solution then takes a few milliseconds."""


def conjugate_gradients(
    matvec: Product, b: Vector, *, rtol: float = 1e-10, atol: float = 0.0, maxiter: int | None = None
) -> Vector:
    """Return the solution of a system with a symmetric, definite matrix.

    Args:
        matvec: the product with the matrix.
        b: the right-hand side.
        rtol: the solver stops if the norm of the residual is at most `max(rtol * norm(b), atol)`.
        atol: see `rtol`.
        maxiter: the largest number of products. Default: 10 per unknown, and at least 100.

    Returns:
        The solution.

    Raises:
        ImplicitError: the solver did not converge.

    Example:
        >>> A = np.array([[4.0, 1.0], [1.0, 3.0]])
        >>> conjugate_gradients(lambda v: A @ v, np.array([1.0, 2.0])).round(4)
        array([0.0909, 0.6364])
    """
    x, limit, count = np.zeros_like(b), _limit(b, rtol, atol), _count(b, maxiter)
    residual = b.copy()
    direction = residual.copy()
    square = residual @ residual
    for _ in range(count):
        if np.sqrt(square) <= limit:
            return x
        image = matvec(direction)
        curvature = direction @ image
        if abs(curvature) <= 1e-15 * np.linalg.norm(direction) * np.linalg.norm(image):
            break
        step = square / curvature
        x = x + step * direction
        residual = residual - step * image
        before, square = square, residual @ residual
        direction = residual + (square / before) * direction
    if np.sqrt(square) <= limit:
        return x
    raise _stuck("cg", float(np.sqrt(square)), limit, "It is for symmetric, definite systems.")


def by_scipy(name: str, matvec: Product, b: Vector, *, rtol: float = 1e-10, atol: float = 0.0, **options: Any) -> Vector:
    """Return the solution of a system by a solver of `scipy.sparse.linalg`, with its residual verified.

    The residual of SciPy's recurrences drifts from the true residual. Up to two further solves correct an inaccurate solution.

    Args:
        name: the solver: `gmres` or `bicgstab`.
        matvec: the product with the matrix.
        b: the right-hand side.
        rtol: the solver stops if the norm of the residual is at most `max(rtol * norm(b), atol)`.
        atol: see `rtol`.
        options: further keyword arguments of SciPy's solver.

    Returns:
        The solution.

    Raises:
        ImplicitError: the solver did not converge.
        MissingPackageError: SciPy is not installed.
    """
    linalg = optional("scipy.sparse.linalg", f"the linear solver {name!r} of an implicit derivative")
    matrix = linalg.LinearOperator((b.size, b.size), matvec, dtype=b.dtype)
    own = {"restart": 50} if name == "gmres" else {}
    options = {**own, "maxiter": _count(b, None) // own.get("restart", 2), **options}
    x, residual, limit = np.zeros_like(b), b, _limit(b, rtol, atol)
    for _ in range(3):
        size = float(np.linalg.norm(residual))
        if size <= limit or not np.isfinite(size):
            break
        # The residual reveals a breakdown. Inside an open trace, adopted SciPy code would create Tensors.
        with np.errstate(all="ignore"), new_arrays_recorded_by(None):
            step, failed = getattr(linalg, name)(matrix, residual / size, rtol=limit / size, atol=0.0, **options)
            x = x + size * step
            residual = b - matvec(x)
        if failed:
            break
    size = float(np.linalg.norm(residual))
    if size <= 2 * limit:
        return x
    raise _stuck(name, size, limit, "The system may be singular, or maxiter too small; a dense solve may help.")


def check_regular(matrix: Vector) -> None:
    """Raise if a matrix has no inverse.

    Raises:
        ImplicitError: the matrix is singular to machine precision, or has entries that are not finite.
    """
    if not np.isfinite(matrix).all():
        raise ImplicitError(f"the Jacobian of an implicit function has entries that are not finite, at {here()}.")
    condition = float("inf")
    with contextlib.suppress(np.linalg.LinAlgError):
        condition = float(np.linalg.norm(matrix, 1) * np.linalg.norm(np.linalg.inv(matrix), 1)) if matrix.size else 1.0
    if not condition < 1 / np.finfo(np.float64).eps:
        raise ImplicitError(
            f"the Jacobian of an implicit function is singular (condition number {condition:.0e}), at {here()}: the solution "
            f"is not isolated there, or turns back, and has no derivative."
        )


def _limit(b: Vector, rtol: float, atol: float) -> float:
    return max(rtol * float(np.linalg.norm(b)), atol)


def _count(b: Vector, maxiter: int | None) -> int:
    return max(10 * b.size, 100) if maxiter is None else maxiter


def _stuck(name: str, size: float, limit: float, more: str) -> ImplicitError:
    return ImplicitError(
        f"the linear solver {name} of an implicit derivative stopped with a residual of {size:.1e}, where {limit:.1e} was "
        f"asked for, at {here()}. {more}"
    )


SOLVERS: dict[str, Callable[..., Vector]] = {
    "cg": conjugate_gradients,
    "gmres": partial(by_scipy, "gmres"),
    "bicgstab": partial(by_scipy, "bicgstab"),
}
"""The iterative solvers by name."""

OPTIONS = {"cg": ("rtol", "atol", "maxiter"), "gmres": ("rtol", "atol", "maxiter", "restart", "M")}
OPTIONS["bicgstab"] = (*OPTIONS["cg"], "M")
"""The keyword arguments of each solver."""
