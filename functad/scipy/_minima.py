"""Older functions of `scipy.optimize`: minimizers, quasi-Newton root finders, and constrained least squares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize as _original

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_tensors, outside_traces, plain, plain_value, with_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.transforms.grad import grad
from functad.trees import tree_map

Solution = Callable[..., tuple[Any, Any]]

_LIMITS = ("bounds", "eqcons", "f_eqcons", "ieqcons", "f_ieqcons")
_WITH_VALUE = ("fmin", "fmin_powell", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_slsqp")
_ROOTS = ("broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden", "excitingmixing", "newton_krylov")


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, (list, tuple)) and not value)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) if callable(value) else tree_map(plain_value, value) for key, value in given.items()}


def _minimizer(name: str, solution: Solution) -> None:
    """Register a differentiable replacement of a minimizer."""
    original = getattr(_original, name)
    signature = inspect.signature(original)
    first = next(iter(signature.parameters))

    def find(*positional: Any, **named: Any) -> Any:
        given = dict(signature.bind(*positional, **named).arguments)
        func, x0, args = given.pop(first), given.pop("x0"), given.pop("args", ())
        args = args if isinstance(args, tuple) else (args,)
        limits = [key for key in _LIMITS if _is_given(given.get(key))]
        if limits:
            raise UnsupportedError(f"scipy.optimize.{name} of a Tensor with {limits[0]}, at {here()}. Use minimize.")
        pair = name in ("fmin_l_bfgs_b", "fmin_tnc") and given.get("fprime") is None and not given.get("approx_grad")
        full = given.pop("full_output", 0)
        options = _options(given)

        def value(x: Any, *args: Any) -> Any:
            found = func(x, *args)
            return np.reshape(asarray(found[0] if pair else found), ())

        def solve(*args: Any) -> tuple[Any, Any]:
            everything = {"full_output": 1} if name in _WITH_VALUE else {}
            found = original(plain(func), plain_value(x0), args=args, **everything, **options)
            return found[0], found

        start = np.atleast_1d(np.asarray(plain_value(x0), float))
        x, found = solution(name, grad(value), solve, start, args)
        rest = () if found is None else tuple(found[1:])
        if name == "fmin_l_bfgs_b":
            return (x, value(x, *args), *rest[1:])
        if name == "fmin_tnc":
            return (x, *rest)
        if full:
            return (x, value(x, *args), *rest[1:])
        if not given.get("retall"):
            return x
        if found is None:
            raise UnsupportedError(f"scipy.optimize.{name} with retall=True of unknown values, at {here()}. Leave retall out.")
        return x, found[-1]

    of_tensors("scipy.optimize", name, within=True)(find)


def _root(name: str, solution: Solution) -> None:
    """Register a differentiable replacement of a root finder for systems."""
    original = getattr(_original, name)

    def find(F: Any, xin: Any, *rest: Any, **named: Any) -> Any:
        def solve() -> tuple[Any, Any]:
            found = original(plain(F), plain_value(xin), *rest, **_options(named))
            return found, found

        return solution(name, F, solve, np.asarray(plain_value(xin), float), ())[0]

    of_tensors("scipy.optimize", name, within=True)(find)


def enter(solution: Solution) -> None:
    """Register these functions; `solution` returns the differentiable solution of an equation."""
    for name in (*_WITH_VALUE, "fmin_l_bfgs_b", "fmin_tnc"):
        _minimizer(name, solution)
    for name in _ROOTS:
        _root(name, solution)
    original = _original.leastsq

    @of_tensors("scipy.optimize", within=True)
    def leastsq(func: Any, x0: Any, args: Any = (), Dfun: Any = None, full_output: Any = False, **named: Any) -> Any:
        if full_output:
            raise UnsupportedError(f"scipy.optimize.leastsq of a Tensor with full_output, at {here()}. Use least_squares.")
        args = args if isinstance(args, tuple) else (args,)

        def cost(x: Any, *args: Any) -> Any:
            return np.sum(asarray(func(x, *args)) ** 2) / 2

        def solve(*args: Any) -> tuple[Any, Any]:
            found = original(plain(func), plain_value(x0), args, Dfun and plain(Dfun), **_options(named))
            return np.atleast_1d(found[0]), found

        start = np.atleast_1d(np.asarray(plain_value(x0), float))
        x, found = solution("leastsq", grad(cost), solve, start, args)
        return x, (1 if found is None else found[1])


def full_rank_solution(name: str, a: Any, b: Any) -> Any:
    """Return the least-squares solution by an orthogonal decomposition; normal equations square the condition number.

    Raises:
        LinAlgError: the columns are linearly dependent, so the solution is not unique.
    """
    columns = shape_of(a)[1]
    x, _, rank, _ = np.linalg.lstsq(a, b)
    if plain_value(rank) < columns:
        raise np.linalg.LinAlgError(
            f"scipy.optimize.{name} of a Tensor, at {here()}: the {columns} columns of A at which the solution is free have "
            f"rank {plain_value(rank)}, so the solution is not unique and has no derivative. Remove columns, or add a penalty."
        )
    return x


_LINEAR, _ISOTONIC = _original.lsq_linear, getattr(_original, "isotonic_regression", None)


@of_tensors("scipy.optimize")
def lsq_linear(A: Any, b: Any, bounds: Any = (-np.inf, np.inf), *args: Any, **options: Any) -> Any:
    """Return the solution of bounded linear least squares: unknowns at a bound stay fixed, the others are free."""
    A, b = asarray(A), asarray(b)
    found = outside_traces(_LINEAR, plain_value(A), plain_value(b), tree_map(plain_value, bounds), *args, **options)
    free = np.flatnonzero(found.active_mask == 0)
    ends = np.broadcast_to(0.0, found.x.shape)
    if not isinstance(bounds, _original.Bounds):
        low, high = (np.broadcast_to(asarray(end), found.x.shape) for end in bounds)
        ends = np.where(found.active_mask < 0, low, np.where(found.active_mask > 0, high, 0.0))
    else:
        ends = np.where(found.active_mask == 0, 0.0, found.x)
    used = A[:, free]
    inner = full_rank_solution("lsq_linear", used, b - A @ ends)
    found.x = with_value(ends + np.eye(len(found.x))[:, free] @ inner, found.x)
    found.fun = A @ found.x - b
    found.cost = np.sum(found.fun**2) / 2
    return found


@of_tensors("scipy.optimize")
def isotonic_regression(y: Any, *, weights: Any = None, increasing: bool = True) -> Any:
    """Return the nearest nondecreasing numbers: the means of the blocks that SciPy finds."""
    assert _ISOTONIC is not None
    y = asarray(y) * 1.0
    w = np.ones(shape_of(y)) if weights is None else asarray(weights)
    found = outside_traces(_ISOTONIC, plain_value(y), weights=plain_value(w), increasing=increasing)
    block = np.repeat(np.arange(len(found.blocks) - 1), np.diff(found.blocks))
    shares = (block[:, None] == np.arange(len(found.blocks) - 1)).astype(float)
    total = shares.T @ w
    found.x, found.weights = with_value(((shares.T @ (w * y)) / total)[block], found.x), total
    return found
