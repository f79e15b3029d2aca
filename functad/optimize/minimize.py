"""`minimize`: `scipy.optimize.minimize` with exact gradients, Hessians and products with them, for functions of trees."""

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
from functad.transforms.calling.selection import Selection

# Which derivatives each method takes.
_NONE = ("nelder-mead", "powell", "cobyla", "cobyqa")
_GRADIENT = ("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp")
_MATRIX = ("dogleg", "trust-exact")
_EITHER = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_BEARS_INFINITY = ("bfgs", "cg", "slsqp", "trust-ncg", "trust-krylov", "dogleg", "newton-cg", "trust-constr", *_NONE)
_SPARSE = ("newton-cg", "trust-constr")
_UNKNOWNS_ONLY = ("tnc", "cobyla")  # what their callbacks are given


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
    """Minimise a function of a tree by one of SciPy's methods: `min f(x)`, subject to bounds and constraints.

    The gradient is exact, and costs no second run of `f`; methods that use curvature get the exact Hessian or, if they take
    it, products of it with vectors, for which no matrix is built. Inside, all unknowns are float64.

    Args:
        f: a function of NumPy code that returns one real number.
        x0: the start, the first argument of `f`: an array, number, or tree of them. A list of numbers is an array.
        args: further arguments of `f`.
        method: the name of a method of `scipy.optimize.minimize`, or a function like these; by default BFGS, L-BFGS-B if there
            are bounds, SLSQP if there are constraints.
        hess: `"product"`, `"dense"`, or `"auto"`, which is the first where the method takes it; or a quasi-Newton strategy
            such as `scipy.optimize.BFGS()` for trust-constr.
        bounds: SciPy's `Bounds`; for an array a pair `(low, high)` for each number; for a tree, a tree with a pair at each
            leaf. `None` is no bound, and the entries of a dict that have none may be left out.
        constraints: one or several of SciPy's: dicts with `type` and `fun`, `NonlinearConstraint`, whose functions of the tree
            get exact derivatives unless they bring their own; `LinearConstraint`, of the unknowns as one flat array.
        tol: SciPy's tolerance.
        callback: called after each step with a state that has `x` (the tree), `fun` and `nit`; `StopIteration` or the result
            True stops.
        progress: show the values: a curve in a notebook, a bar (tqdm) in a terminal.
        sparse: build the Hessian as a sparse matrix, with its pattern found if this is True, or given by it: Newton-CG
            and trust-constr take one.
        options: SciPy's options of the method.

    Returns:
        SciPy's `OptimizeResult`; `x`, and the gradient `jac`, are trees like `x0`.

    Raises:
        NonScalarError: `f` returned something else than one real number.
        ImplicitError: a solver in `f`, such as `odeint`, found no solution at the start. At points that are tried later the
            value counts as infinite, so that a shorter step is taken; but L-BFGS-B, TNC and trust-exact cannot do that.
        InputError: a leaf of `x0` is no floating-point number.
        StructureError: the bounds do not fit `x0`.
        ValueError: the method does not take what was asked for.
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
        except StopIteration:  # some methods leave it to their caller
            if reporter.last is None:
                raise
            result = reporter.stopped()
        except ImplicitError as error:
            raise _unbearable(error, method, f) from error
    if failures and not result.success:
        result.message = f"{result.message} At {len(failures)} points a solver failed: {failures[-1]}"
    return _restored(result, bundle)


def _unbearable(error: ImplicitError, method: Any, f: Callable[..., Any]) -> ImplicitError:
    """Return the error for a point that a method tried, where a solver in the function finds no solution."""
    where = f"minimize of {name_of(f)} by {method}, called at {here()}: the function has no value"
    if str(method).lower() in _BEARS_INFINITY:
        return ImplicitError(f"{where}, or no derivative, at its start or where the method went: {error} Start elsewhere.")
    return ImplicitError(
        f"{where} at its start, or at a point that was tried: {error} Start where it has one. From there BFGS, SLSQP and "
        f"trust-constr, of which the last two take bounds, go on with a shorter step when one fails; {method} cannot."
    )


def _derivatives(bundle: ScipyBundle, name: str, method: Any, hess: Any, sparse: Any) -> dict[str, Any]:
    """Return the derivatives that a method takes, and no others, of which SciPy would warn."""
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
    """Put trees in the place of flat arrays: of the unknowns, of the gradient, of the unknowns of all steps."""
    shape = np.shape(bundle.x0)
    for name in ("x", "jac", "grad"):
        if isinstance(result.get(name), np.ndarray) and result[name].shape == shape:
            result[name] = bundle.unravel(result[name])
    if "allvecs" in result:
        result["allvecs"] = [bundle.unravel(np.asarray(x)) for x in result["allvecs"]]
    return result
