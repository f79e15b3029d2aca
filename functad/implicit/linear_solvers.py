"""Solvers of linear systems `A x = b` that are given the product `v -> A v` alone, over flat real vectors, in plain NumPy.

They serve the derivatives of implicit functions. Sources: M. Hestenes and E. Stiefel, "Methods of conjugate gradients for
solving linear systems" (1952); Y. Saad and M. Schultz, "GMRES" (1986); H. van der Vorst, "Bi-CGSTAB" (1992).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.errors import ImplicitError
from functad.places import here

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
    raise _stuck("cg", np.sqrt(square), limit, count, "It is for symmetric, definite systems.")


def gmres(
    matvec: Product,
    b: Vector,
    *,
    rtol: float = 1e-10,
    atol: float = 0.0,
    maxiter: int | None = None,
    restart: int = 50,
) -> Vector:
    """Solve a system with any regular matrix: the smallest residual over the Krylov space, restarted.

    Args:
        matvec: the product with the matrix.
        b: the right-hand side.
        rtol: the norm of the residual is to be at most `max(rtol * norm(b), atol)`.
        atol: see `rtol`.
        maxiter: the largest number of products, by default ten for each unknown.
        restart: the largest dimension of the space, whose basis is held in memory.

    Returns:
        The solution.

    Raises:
        ImplicitError: it is not reached.

    Example:
        >>> A = np.array([[0.0, 1.0], [2.0, 3.0]])
        >>> gmres(lambda v: A @ v, np.array([1.0, 2.0])).round(4)
        array([-0.5,  1. ])
    """
    x, limit, count = np.zeros_like(b), _limit(b, rtol, atol), _count(b, maxiter)
    residual, spent = b, 0
    while True:
        size = float(np.linalg.norm(residual))
        if size <= limit:
            return x
        if spent >= count or not np.isfinite(size):
            raise _stuck("gmres", size, limit, spent, "A larger restart, or a dense solve, may help.")
        correction, products = _krylov(matvec, residual, limit, min(restart, b.size, count - spent))
        x = x + correction
        spent += products + 1
        before, residual = residual, b - matvec(x)
        if np.linalg.norm(residual) > 0.999999 * np.linalg.norm(before) and np.linalg.norm(residual) > limit:
            raise _stuck("gmres", float(np.linalg.norm(residual)), limit, spent, "The system may be singular.")


def _krylov(matvec: Product, residual: Vector, limit: float, size: int) -> tuple[Vector, int]:
    """Return the correction in the Krylov space of a residual that makes it smallest, and the number of products made."""
    beta = np.linalg.norm(residual)
    basis = [residual / beta]
    hessenberg = np.zeros((size + 1, size))
    target = np.zeros(size + 1)
    target[0] = beta
    weights: Vector = np.zeros(0)
    for k in range(size):
        new = matvec(basis[k])
        scale = np.linalg.norm(new)
        for _ in range(2):  # once more, for what rounding left over
            for i, vector in enumerate(basis):
                part = vector @ new
                hessenberg[i, k] += part
                new = new - part * vector
        hessenberg[k + 1, k] = np.linalg.norm(new)
        block = hessenberg[: k + 2, : k + 1]
        weights = np.linalg.lstsq(block, target[: k + 2], rcond=None)[0]
        if hessenberg[k + 1, k] <= 1e-14 * scale or np.linalg.norm(block @ weights - target[: k + 2]) <= 0.5 * limit:
            break
        basis.append(new / hessenberg[k + 1, k])
    return np.stack(basis[: weights.size], axis=1) @ weights, weights.size


def bicgstab(matvec: Product, b: Vector, *, rtol: float = 1e-10, atol: float = 0.0, maxiter: int | None = None) -> Vector:
    """Solve a system with any regular matrix, in the memory of a few vectors.

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
        >>> A = np.array([[2.0, 1.0], [0.0, 3.0]])
        >>> bicgstab(lambda v: A @ v, np.array([1.0, 3.0])).round(4) + 0.0
        array([0., 1.])
    """
    x, limit, count = np.zeros_like(b), _limit(b, rtol, atol), _count(b, maxiter)
    residual = b.copy()
    shadow, direction = residual.copy(), residual.copy()
    rho = shadow @ residual
    for spent in range(0, count, 2):
        if np.linalg.norm(residual) <= limit:
            residual = b - matvec(x)  # the recurrence drifts: what counts is the residual itself
            if np.linalg.norm(residual) <= 2 * limit:
                return x
            shadow, direction = residual.copy(), residual.copy()
            rho = shadow @ residual
        image = matvec(direction)
        along = shadow @ image
        if along == 0 or rho == 0:
            raise _stuck("bicgstab", float(np.linalg.norm(residual)), limit, spent, "It broke down; gmres does not.")
        step = rho / along
        half = residual - step * image
        half_image = matvec(half)
        square = half_image @ half_image
        second = (half_image @ half) / square if square else 0.0
        x = x + step * direction + second * half
        residual = half - second * half_image
        before, rho = rho, shadow @ residual
        direction = residual + (rho / before) * (step / second) * (direction - second * image) if second else residual
    if np.linalg.norm(b - matvec(x)) <= 2 * limit:
        return x
    raise _stuck("bicgstab", float(np.linalg.norm(residual)), limit, count, "gmres may reach it.")


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


def _stuck(name: str, size: float, limit: float, count: int, more: str) -> ImplicitError:
    return ImplicitError(
        f"the linear solver {name} of an implicit derivative stopped after {count} products with a residual of {size:.1e}, "
        f"where {limit:.1e} was asked for, at {here()}. {more}"
    )


SOLVERS: dict[str, Callable[..., Vector]] = {"cg": conjugate_gradients, "gmres": gmres, "bicgstab": bicgstab}
"""The iterative solvers by the names that users choose them by."""
