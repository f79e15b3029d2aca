"""Solvers of linear systems `A x = b` that are given the product `v -> A v` alone, over flat real vectors.

They serve the derivatives of implicit functions: conjugate gradients in NumPy (M. Hestenes and E. Stiefel, "Methods of
conjugate gradients for solving linear systems", 1952), and SciPy's solvers of systems that are not symmetric.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functad.errors import ImplicitError
from functad.importable import optional
from functad.places import here
from functad.tracing.traces.base import making_plain

Vector = Any
Product = Callable[[Vector], Vector]
SMALL = 256
"""Up to this number of unknowns the matrix is built: a solution then takes a few milliseconds, and is as exact as can be."""


def conjugate_gradients(
    matvec: Product, b: Vector, *, rtol: float = 1e-10, atol: float = 0.0, maxiter: int | None = None
) -> Vector:
    """Solve a system with a symmetric, definite matrix.

    Args:
        matvec: the product with the matrix.
        b: the right-hand side.
        rtol: the norm of the residual is to be at most `max(rtol * norm(b), atol)`.
        atol: see `rtol`.
        maxiter: the largest number of products, by default ten for each unknown.

    Returns:
        The solution.

    Raises:
        ImplicitError: it is not reached.

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
    """Solve a system by one of `scipy.sparse.linalg`'s solvers, and look at the residual of what it found.

    Their recurrences drift from the residual itself, so a solution that is not good enough is corrected by further ones.

    Args:
        name: of the solver: `gmres` or `bicgstab`.
        matvec: the product with the matrix.
        b: the right-hand side.
        rtol: the norm of the residual is to be at most `max(rtol * norm(b), atol)`.
        atol: see `rtol`.
        options: further keyword arguments of SciPy's solver.

    Returns:
        The solution.

    Raises:
        ImplicitError: it is not reached.
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
        # A breakdown shows in the residual; in an open trace, adopted code of SciPy makes Tensors.
        with np.errstate(all="ignore"), making_plain():
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
    """Raise if a matrix is not that of a system with one solution.

    Raises:
        ImplicitError: it is singular, to the precision of its numbers, or not finite.
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
"""The iterative solvers by the names that users choose them by."""

OPTIONS = {"cg": ("rtol", "atol", "maxiter"), "gmres": ("rtol", "atol", "maxiter", "restart", "M")}
OPTIONS["bicgstab"] = (*OPTIONS["cg"], "M")
"""The keyword arguments that each takes."""
