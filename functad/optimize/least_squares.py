"""`least_squares`: `scipy.optimize.least_squares` with exact Jacobians, for residuals and unknowns in pytrees."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functad.errors import StructureError
from functad.optimize.bounds import flat_bounds
from functad.optimize.derivatives import Residuals
from functad.optimize.extras import scipy_optimize
from functad.optimize.reporting import Reporter
from functad.optimize.unknowns import Unknowns
from functad.places import here
from functad.sparse.derivatives import sparse_jacobian_function
from functad.transforms.transform import Selection
from functad.trees import LEAF


def least_squares(
    f: Callable[..., Any],
    x0: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    jac: str = "dense",
    bounds: Any = None,
    method: str = "trf",
    callback: Callable[[Any], Any] | None = None,
    progress: bool = False,
    sparse: Any = False,
    **options: Any,
) -> Any:
    """Minimise the sum of squares of residuals: `min 1/2 sum_i rho(f_i(x)^2)`, subject to bounds.

    The residuals and their Jacobian at a point come from one run of `f`. The Jacobian takes one pass per unknown, or one pass
    per residual if there are fewer residuals.

    Args:
        f: a function of NumPy code that returns the residuals: an array, or a pytree of arrays.
        x0: the start, the first argument of `f`: an array, number, or pytree of them. A list of numbers is an array.
        args: further positional arguments of `f`.
        kwargs: keyword arguments of `f`.
        jac: `"dense"`, or `"product"`, which builds no matrix: the solver lsmr of the methods trf and dogbox uses products with
            the Jacobian.
        bounds: SciPy's `Bounds`; for an array, a pair `(low, high)` of numbers or arrays; for a pytree, a pytree with a pair at
            each leaf. `None` means no bound.
        method: `"trf"`, `"dogbox"` or `"lm"`.
        callback: as for `minimize`; the state also has `cost`.
        progress: show the values: a curve in a notebook, a bar (tqdm) in a terminal.
        sparse: build the Jacobian as a sparse matrix. `True` detects the pattern; a pattern may be given instead.
        options: further options of SciPy: `ftol`, `xtol`, `gtol`, `x_scale`, `loss`, `f_scale`, `max_nfev`, `tr_solver`, ...

    Returns:
        SciPy's `OptimizeResult`. `x` and the gradient `grad` are pytrees like `x0`. `fun` is flat, and `jac` has shape `(m,
        n)`.

    Raises:
        InputError: a leaf of `x0` is not a floating-point number.
        OutputError: the residuals are not real arrays.
        StructureError: the bounds do not fit `x0`.
        ValueError: the method does not support an option.
        ImportError: SciPy is not installed, or tqdm for `progress`.

    Example:
        >>> import numpy as np
        >>> t = np.linspace(0.0, 2.0, 20)
        >>> data = 3.0 * np.exp(-1.5 * t)
        >>> result = least_squares(lambda p: p["height"] * np.exp(-p["rate"] * t) - data, {"height": 1.0, "rate": 1.0})
        >>> round(float(result.x["rate"]), 6)
        1.5
    """
    unknowns = Unknowns(x0, "least_squares", f)
    if jac not in ("dense", "product") or (jac == "product" and (method == "lm" or sparse is not False)):
        raise ValueError(
            f"least_squares, called at {here()}: jac is 'dense', or 'product' for the methods trf and dogbox without sparse=, "
            f"not {jac!r}; functad computes the Jacobian itself."
        )
    if sparse is not False and method == "lm":
        raise ValueError(f"least_squares, called at {here()}: the method lm takes no sparse Jacobian; trf and dogbox do.")
    rest, named, tree = args if isinstance(args, tuple) else (args,), dict(kwargs or {}), unknowns.tree
    residuals = Residuals(lambda x: f(tree(x), *rest, **named), f, "least_squares")
    derivative: Any = residuals.jac
    if sparse is not False:
        flat = functools.wraps(f)(lambda x: residuals.flat(x))  # messages name `f`
        selection = Selection("least_squares", flat, 0, None)
        derivative = sparse_jacobian_function(selection, sparsity=None if sparse is True else sparse)
    elif jac == "product":
        derivative = _operator(residuals)
    reporter = Reporter(callback, progress, "least_squares", options.get("max_nfev"), unknowns.restore, residuals.fun)
    if reporter.wanted:
        _check_callback()
        options["callback"] = reporter.with_state()
    if bounds is not None:
        options["bounds"] = _flat_bounds(bounds, unknowns)
    with reporter:
        result = scipy_optimize().least_squares(residuals.fun, unknowns.flat, jac=derivative, method=method, **options)
    for name in ("x", "grad"):
        result[name] = unknowns.restore(result[name])
    return result


def _operator(residuals: Residuals) -> Callable[[Any], Any]:
    def jac(x: Any) -> Any:
        from scipy.sparse.linalg import LinearOperator

        shape = len(residuals.fun(x)), len(x)
        push, pull = residuals.forward(x), residuals.backward(x)
        return LinearOperator(shape, matvec=lambda t: push(np.reshape(t, -1)), rmatvec=pull, dtype=np.float64)

    return jac


def _flat_bounds(bounds: Any, unknowns: Unknowns) -> Any:
    """Return bounds on the flat unknowns. Bounds on an array are one pair of numbers or arrays, as in SciPy."""
    optimize = scipy_optimize()
    if unknowns.structure is LEAF and not isinstance(bounds, optimize.Bounds):
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise StructureError(
                f"bounds on an array should be a pair (low, high) of numbers or arrays, or scipy.optimize.Bounds(low, high), "
                f"at {here()}; they are {bounds!r}."
            )
        low, high = bounds
        bounds = optimize.Bounds(-np.inf if low is None else low, np.inf if high is None else high)
    return flat_bounds(bounds, unknowns)


def _check_callback() -> None:
    if "callback" not in inspect.signature(scipy_optimize().least_squares).parameters:
        raise ImportError("callback and progress of least_squares need SciPy 1.16 or newer.")
