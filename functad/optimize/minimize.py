"""`minimize`: `scipy.optimize.minimize` with exact gradients, Hessians and Hessian-vector products, for pytrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functad.errors import ImplicitError
from functad.optimize.bundle import ScipyBundle
from functad.optimize.constraints import flat_constraints
from functad.optimize.extras import scipy_optimize
from functad.optimize.reporting import Reporter
from functad.places import here, name_of
from functad.sparse.derivatives import sparse_hessian_function
from functad.transforms.transform import Selection

# The derivatives that each method takes.
_NONE = ("nelder-mead", "powell", "cobyla", "cobyqa")
_GRADIENT = ("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp")
_MATRIX = ("dogleg", "trust-exact")
_EITHER = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_BEARS_INFINITY = ("bfgs", "cg", "slsqp", "trust-ncg", "trust-krylov", "dogleg", "newton-cg", "trust-constr", *_NONE)
_SPARSE = ("newton-cg", "trust-constr")
_UNKNOWNS_ONLY = ("tnc", "cobyla")  # methods that pass only the unknowns to their callback


def minimize(
    f: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    *,
    hess: Any = "auto",
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[[Any], Any] | None = None,
    progress: bool = False,
    sparse: Any = False,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Minimise a function of a pytree by a SciPy method: `min f(x)`, subject to bounds and constraints.

    The gradient is exact and needs no second run of `f`. Methods that use curvature get exact Hessian-vector products, without
    a matrix, or the exact Hessian. All unknowns are float64 inside.

    Args:
        f: a function of NumPy code that returns one real number.
        x0: the start, the first argument of `f`: an array, number, or pytree of them. A list of numbers is an array.
        args: further arguments of `f`.
        method: the name of a method of `scipy.optimize.minimize`, or a custom method in SciPy's form. Default: BFGS; with
            bounds L-BFGS-B; with constraints SLSQP.
        hess: `"product"`, `"dense"`, or `"auto"` (`"product"` if the method takes it); or a quasi-Newton strategy such as
            `scipy.optimize.BFGS()` for trust-constr.
        bounds: SciPy's `Bounds`; for an array, a pair `(low, high)` per element; for a pytree, a pytree with a pair at each
            leaf. `None` means no bound, and a dict may omit entries without bounds.
        constraints: one or several SciPy constraints. Dicts with `type` and `fun` and `NonlinearConstraint` hold functions of
            the pytree; they get exact derivatives unless they have their own. `LinearConstraint` applies to the unknowns as one
            flat array.
        tol: SciPy's tolerance.
        callback: called after each step with a state with `x` (the pytree), `fun` and `nit`. It stops the method by raising
            `StopIteration` or returning `True`.
        progress: show the values: a curve in a notebook, a bar (tqdm) in a terminal.
        sparse: build the Hessian as a sparse matrix, for Newton-CG and trust-constr. `True` detects the pattern; a pattern may
            be given instead.
        options: SciPy's options of the method.

    Returns:
        SciPy's `OptimizeResult`. `x` and the gradient `jac` are pytrees like `x0`.

    Raises:
        NonScalarError: the result of `f` is not one real number.
        ImplicitError: a solver in `f`, such as `odeint`, found no solution at the start. At later points the value is infinite,
            so that the method takes a shorter step. L-BFGS-B, TNC and trust-exact cannot do this and raise.
        InputError: a leaf of `x0` is not a floating-point number.
        StructureError: the bounds do not fit `x0`.
        ValueError: the method does not support an option.
        ImportError: SciPy is not installed, or tqdm for `progress`.

    Example:
        >>> import numpy as np
        >>> result = minimize(lambda p: np.sum((p["w"] - 1.0) ** 2) + (p["c"] + 2.0) ** 4, {"w": np.zeros(3), "c": 0.0})
        >>> result.x["w"].round(4)
        array([1., 1., 1.])
    """
    optimize = scipy_optimize()
    several = not isinstance(constraints, (tuple, list)) or len(constraints) > 0
    if method is None:
        method = "SLSQP" if several else "BFGS" if bounds is None else "L-BFGS-B"
    name = "custom" if callable(method) else method.lower()
    failures: list[ImplicitError] | None = [] if name in _BEARS_INFINITY else None
    bundle = ScipyBundle(f, x0, args, transform="minimize", differentiate=name not in _NONE, failures=failures)
    given = _derivatives(bundle, name, method, hess, sparse)
    if bounds is not None:
        given["bounds"] = bundle.bounds(bounds)
    if several:
        curvature = name == "trust-constr" and isinstance(hess, str)
        given["constraints"] = flat_constraints(
            constraints, bundle.unknowns, derivatives=name not in _NONE, curvature=curvature
        )
    options = dict(options or {})
    reporter = Reporter(callback, progress, "minimize", options.get("maxiter"), bundle.unravel, bundle.fun)
    if reporter.wanted:
        given["callback"] = reporter.report if name in _UNKNOWNS_ONLY else reporter.with_state()
    with reporter:
        try:
            result = optimize.minimize(bundle.fun, bundle.x0, method=method, tol=tol, options=options, **given)
        except StopIteration:  # some methods do not catch it
            if reporter.last is None:
                raise
            result = reporter.stopped()
        except ImplicitError as error:
            raise _unbearable(error, method, f) from error
    if failures and not result.success:
        result.message = f"{result.message} At {len(failures)} points a solver failed: {failures[-1]}"
    return _restored(result, bundle)


def _unbearable(error: ImplicitError, method: Any, f: Callable[..., Any]) -> ImplicitError:
    """Return the error for a point without a value, because a solver in the function found no solution."""
    where = f"minimize of {name_of(f)} by {method}, called at {here()}: the function has no value"
    if str(method).lower() in _BEARS_INFINITY:
        return ImplicitError(f"{where}, or no derivative, at its start or where the method went: {error} Start elsewhere.")
    return ImplicitError(
        f"{where} at its start, or at a point that was tried: {error} Start where it has one. From there BFGS, SLSQP and "
        f"trust-constr, of which the last two take bounds, go on with a shorter step when one fails; {method} cannot."
    )


def _derivatives(bundle: ScipyBundle, name: str, method: Any, hess: Any, sparse: Any) -> dict[str, Any]:
    """Return the derivatives that a method takes; SciPy warns about others."""
    is_strategy = isinstance(hess, scipy_optimize().HessianUpdateStrategy)
    if not is_strategy and hess not in ("auto", "product", "dense"):
        raise ValueError(
            f"minimize, called at {here()}: hess is 'auto', 'product', 'dense' or a quasi-Newton strategy such as "
            f"scipy.optimize.BFGS(), not {hess!r}; functad computes the Hessian itself."
        )
    if sparse is not False and name not in _SPARSE:
        raise ValueError(f"minimize, called at {here()}: {method} takes no sparse Hessian; Newton-CG and trust-constr do.")
    takes = ["auto", *["product"] * (name in _EITHER), *["dense"] * (name in _EITHER + _MATRIX)]
    if name != "custom" and not (is_strategy and name == "trust-constr") and (is_strategy or hess not in takes):
        others = f"it takes {' or '.join(map(repr, takes[1:]))}" if takes[1:] else "it takes no Hessian"
        raise ValueError(f"minimize, called at {here()}: {method} does not take hess={hess!r}; {others}.")
    given: dict[str, Any] = {} if name in _NONE else {"jac": bundle.jac}
    if name == "custom":
        given |= {"hess": bundle.hess, "hessp": bundle.hessp}
    elif is_strategy:
        given["hess"] = hess
    elif sparse is not False:
        selection = Selection("minimize", bundle.flat, 0, None)
        given["hess"] = sparse_hessian_function(selection, sparsity=None if sparse is True else sparse)
    elif name in _MATRIX or (name in _EITHER and hess == "dense"):
        given["hess"] = bundle.hess
    elif name in _EITHER:
        given["hessp"] = bundle.hessp
    return given


def _restored(result: Any, bundle: ScipyBundle) -> Any:
    """Replace flat arrays by pytrees: the unknowns, the gradient, the unknowns of all steps."""
    shape = np.shape(bundle.x0)
    for name in ("x", "jac", "grad"):
        if isinstance(result.get(name), np.ndarray) and result[name].shape == shape:
            result[name] = bundle.unravel(result[name])
    if "allvecs" in result:
        result["allvecs"] = [bundle.unravel(np.asarray(x)) for x in result["allvecs"]]
    return result
