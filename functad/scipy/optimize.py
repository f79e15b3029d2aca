"""`scipy.optimize`: solutions are differentiated by the implicit function theorem, through the equation that they solve.

SciPy runs on plain values, with its own methods and tolerances. Derivatives are with respect to `args` and to the Tensors
that the functions close over. Derivatives with respect to starting points and brackets are zero.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize as _original

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_tensors, outside_traces, plain, plain_value, refuse, with_value
from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of, shape_of
from functad.implicit.root import custom_root
from functad.places import here
from functad.scipy import _minima
from functad.transforms.grad import grad
from functad.transforms.jacobian import jacobian

_FUNCTIONS = ("fprime", "fprime2", "jac", "hess", "hessp", "callback")


def _enter(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that registers a function for Tensors; the function receives its arguments by SciPy's names."""
    signature = inspect.signature(getattr(_original, name))
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")

    def enter(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def called(*positional: Any, **named: Any) -> Any:
            given = signature.bind(*positional, **named).arguments
            return function(**{**given.pop(rest, {}), **given})

        called.__name__ = name
        return of_tensors("scipy.optimize", within=True)(called)

    return enter


def _solution(
    name: str, residual: Callable[..., Any], solve: Callable[..., Any], start: Any, args: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the solution of an equation, differentiable with respect to `args`, and SciPy's full result.

    Args:
        name: the name of SciPy's function.
        residual: `residual(x, *args)`, with as many numbers as `x`.
        solve: takes plain arguments and returns the solution, a plain array, and SciPy's full result.
        start: an array of the shape and dtype of the solution.
        args: the arguments to differentiate with respect to.
    """
    found: list[Any] = []

    def run(x: Any, *args: Any) -> Any:
        solution, whole = outside_traces(solve, *args)
        found.append(whole)
        return _floats(solution)

    def equation(x: Any, *args: Any) -> Any:
        return np.reshape(asarray(residual(x, *args)), shape_of(x))

    run.__name__ = equation.__name__ = name
    decorate: Any = custom_root(equation)
    x = decorate(run)(start, *args)
    return x, found[-1] if found else None


def _tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Return SciPy's options with plain values, also in functions."""
    return {
        key: plain(value) if key in _FUNCTIONS and callable(value) else plain_value(value) for key, value in options.items()
    }


def _first(f: Callable[..., Any], pair: bool) -> Callable[..., Any]:
    """Return a function of the value only, if `f` returns a pair of value and derivatives."""
    return functools.wraps(f)(lambda *args: f(*args)[0]) if pair else f


@_enter("root")
def root(fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "hybr", jac: Any = None, **options: Any) -> Any:
    """Return a root of a system of equations."""
    x0, f = asarray(plain_value(x0)), _first(fun, jac is True)

    def solve(*args: Any) -> tuple[Any, Any]:
        found = _original.root(plain(fun), x0, args, method, **_options({"jac": jac, **options}))
        return found.x, found

    x, result = _solution("root", f, solve, _floats(x0), _tuple(args))
    return _with(result, x=x)


@_enter("fsolve")
def fsolve(
    func: Callable[..., Any], x0: Any, args: Any = (), fprime: Any = None, full_output: bool = False, **options: Any
) -> Any:
    """Return a root of a system of equations, by MINPACK."""
    x0 = _floats(plain_value(x0)).reshape(-1)

    def solve(*args: Any) -> tuple[Any, Any]:
        found = _original.fsolve(plain(func), x0, args, fprime=fprime and plain(fprime), full_output=True, **options)
        return found[0], found

    x, result = _solution("fsolve", func, solve, x0, _tuple(args))
    return (x, *result[1:]) if full_output else x


def _scalar(name: str) -> None:
    """Register a differentiable replacement of a bracketing root finder."""

    @_enter(name)
    def find(f: Callable[..., Any], args: Any = (), full_output: bool = False, **options: Any) -> Any:
        def solve(*args: Any) -> tuple[Any, Any]:
            found = getattr(_original, name)(plain(f), args=args, full_output=True, **_options(options))
            return found[0], found

        x, result = _solution(name, f, solve, np.float64(0.0), _tuple(args))
        return (x, _with(result[1], root=x)) if full_output else x


for _name in ("brentq", "brenth", "ridder", "bisect", "toms748"):
    _scalar(_name)


@_enter("newton")
def newton(func: Callable[..., Any], x0: Any, fprime: Any = None, args: Any = (), **options: Any) -> Any:
    """Return roots of a function of one number, by the method of Newton, Halley or the secant."""
    x0, full = plain_value(x0), options.pop("full_output", False)

    def solve(*args: Any) -> tuple[Any, Any]:
        given = {**_options(options), "fprime": fprime and plain(fprime), "args": args, "full_output": True}
        found = _original.newton(plain(func), x0, **given)
        return found[0], found

    x, result = _solution("newton", func, solve, _floats(x0), _tuple(args))
    if not full:
        return x
    return (x, _with(result[1], root=x)) if len(result) == 2 else (x, *result[1:])


@_enter("root_scalar")
def root_scalar(f: Callable[..., Any], args: Any = (), method: Any = None, fprime: Any = None, **options: Any) -> Any:
    """Return a root of a function of one number."""

    def solve(*args: Any) -> tuple[Any, Any]:
        derivative = fprime if isinstance(fprime, bool) or fprime is None else plain(fprime)
        found = _original.root_scalar(plain(f), args, method, fprime=derivative, **_options(options))
        return found.root, found

    x, result = _solution("root_scalar", _first(f, fprime is True), solve, np.float64(0.0), _tuple(args))
    return _with(result, root=x)


@_enter("fixed_point")
def fixed_point(func: Callable[..., Any], x0: Any, args: Any = (), **options: Any) -> Any:
    """Return a fixed point of a function."""
    x0 = plain_value(x0)

    def solve(*args: Any) -> tuple[Any, Any]:
        found = _original.fixed_point(plain(func), x0, args, **options)
        return found, found

    return _solution("fixed_point", lambda x, *args: func(x, *args) - x, solve, _floats(x0), _tuple(args))[0]


def _floats(a: Any) -> Any:
    """Return numbers in double precision, real or complex."""
    a = np.asarray(a)
    return a if dtype_of(a).kind == "f" and shape_of(a) else a.astype(complex if dtype_of(a).kind == "c" else float)[()]


def _with(result: Any, **values: Any) -> Any:
    """Set Tensors as fields of SciPy's result; return a result with these fields alone if SciPy did not run."""
    if result is None:
        return _original.OptimizeResult(values)
    for name, value in values.items():
        setattr(result, name, value)
    return result


@_enter("minimize")
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    **options: Any,
) -> Any:
    """Return a minimum, where the gradient vanishes; unknowns at a bound stay there."""
    if constraints not in ((), []):
        raise UnsupportedError(
            f"scipy.optimize.minimize with constraints, at {here()}: which of them hold is not differentiated. Write those "
            f"that hold as equations with multipliers, for functad.custom_root."
        )
    x0, f = np.atleast_1d(_floats(plain_value(x0))), _first(fun, jac is True)
    given = {"jac": jac, "hess": hess, "hessp": hessp, **options}

    def solve(*args: Any) -> tuple[Any, Any]:
        found = _original.minimize(plain(fun), x0, args, method, bounds=plain_value(bounds), **_options(given))
        return found.x, found

    x, result = _solution("minimize", _stationary(f, _limits(bounds)), solve, x0, _tuple(args))
    return _with(result, x=x, fun=f(x, *_tuple(args)))


def _number(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return an objective of shape `()`, for one that may return an array with one element."""
    return functools.wraps(f)(lambda *args: np.reshape(asarray(f(*args)), ()))


Limits = Callable[[tuple[int, ...]], tuple[Any, Any]]

_AT_BOUND = 1e-3
"""The relative distance from a bound up to which an unknown counts as at the bound: some methods end just inside."""


def _stationary(f: Callable[..., Any], limits: Limits | None = None) -> Callable[..., Any]:
    """Return the equation of a minimum; an unknown stays at a bound against which the gradient pushes it.

    Args:
        f: the objective.
        limits: takes a shape and returns lower and upper bounds of that shape; `None` without bounds.
    """
    gradient = grad(_number(f))
    if limits is None:
        return gradient

    def equation(x: Any, *args: Any) -> Any:
        g, (low, high) = gradient(x, *args), limits(shape_of(x))
        # The bound is near and a step down the gradient crosses it. The gradient itself need not be zero there.
        at_low = x - low <= np.minimum(g, _AT_BOUND * (1 + np.abs(low)))
        at_high = high - x <= np.minimum(-g, _AT_BOUND * (1 + np.abs(high)))
        return np.where(at_low, x - np.where(at_low, low, 0.0), np.where(at_high, x - np.where(at_high, high, 0.0), g))

    return equation


def _between(low: Any, high: Any) -> Limits:
    """Return bounds from one number for all unknowns, or one number for each."""
    return lambda shape: (np.broadcast_to(asarray(low), shape), np.broadcast_to(asarray(high), shape))


def _limits(bounds: Any) -> Limits | None:
    """Return the bounds of `minimize`, from an object with `lb` and `ub` or from a pair for each unknown."""
    if bounds is None:
        return None
    if hasattr(bounds, "lb"):
        return _between(bounds.lb, bounds.ub)
    low = np.stack([asarray(-np.inf if b[0] is None else b[0]) for b in bounds])
    return _between(low, np.stack([asarray(np.inf if b[1] is None else b[1]) for b in bounds]))


@_enter("minimize_scalar")
def minimize_scalar(fun: Callable[..., Any], bracket: Any = None, bounds: Any = None, args: Any = (), **options: Any) -> Any:
    """Return a minimum of a function of one number."""

    def solve(*args: Any) -> tuple[Any, Any]:
        found = _original.minimize_scalar(plain(fun), plain_value(bracket), plain_value(bounds), args, **_options(options))
        return found.x, found

    limits = None if bounds is None else _between(*bounds)
    x, result = _solution("minimize_scalar", _stationary(fun, limits), solve, np.float64(0.0), _tuple(args))
    return _with(result, x=x, fun=fun(x, *_tuple(args)))


def _by_search(name: str) -> None:
    """Register a differentiable replacement of a minimizer for functions of one number."""

    @_enter(name)
    def find(func: Callable[..., Any], args: Any = (), full_output: Any = 0, **options: Any) -> Any:
        def solve(*args: Any) -> tuple[Any, Any]:
            found = getattr(_original, name)(plain(func), args=args, full_output=True, **_options(options))
            return found[0], found

        limits = _between(options["x1"], options["x2"]) if name == "fminbound" else None
        x, result = _solution(name, _stationary(func, limits), solve, np.float64(0.0), _tuple(args))
        return (x, func(x, *_tuple(args)), *result[2:]) if full_output else x


for _name in ("brent", "golden", "fminbound"):
    _by_search(_name)


_RHO: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.maximum(z, 1)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}
"""The losses of `least_squares`, functions of squared residuals."""


@_enter("least_squares")
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = (-np.inf, np.inf),
    *,
    loss: Any = "linear",
    f_scale: Any = 1.0,
    args: Any = (),
    kwargs: Any = None,
    **options: Any,
) -> Any:
    """Return the minimum of a sum of squares or of another loss."""
    if loss not in _RHO:
        raise UnsupportedError(f"least_squares with a loss of your own, at {here()}. Choose one of {', '.join(_RHO)}.")
    x0, named = np.atleast_1d(_floats(plain_value(x0))), kwargs or {}

    def residuals(x: Any, *args: Any) -> Any:
        return np.atleast_1d(asarray(fun(x, *args, **named)))

    def cost(x: Any, *args: Any) -> Any:
        return 0.5 * f_scale**2 * np.sum(_RHO[loss]((residuals(x, *args) / f_scale) ** 2))

    def solve(*args: Any) -> tuple[Any, Any]:
        slopes = functools.partial(jac, **named) if callable(jac) else jac
        given = _options({"jac": slopes, "bounds": bounds, "f_scale": f_scale, **options})
        found = _original.least_squares(plain(residuals), x0, loss=loss, args=args, **given)
        return found.x, found

    limits = _limits(bounds) if hasattr(bounds, "lb") else _between(*bounds)
    x, result = _solution("least_squares", _stationary(cost, limits), solve, x0, _tuple(args))
    return _with(result, x=x, cost=cost(x, *_tuple(args)), fun=residuals(x, *_tuple(args)))


@_enter("curve_fit")
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    full_output: bool = False,
    jac: Any = None,
    **options: Any,
) -> Any:
    """Return the parameters that fit data best, and their covariances; bounds are not supported."""
    if "bounds" in options:
        raise UnsupportedError(f"curve_fit with bounds, at {here()}. Use least_squares with bounds.")
    if sigma is not None and len(shape_of(asarray(sigma))) > 1:
        raise UnsupportedError(f"curve_fit with a matrix of covariances, at {here()}. Multiply by its root, in least_squares.")

    def residuals(p: Any, x: Any, y: Any, s: Any) -> Any:
        return ((asarray(f(x, *[p[i] for i in range(shape_of(p)[0])])) - y) / (1.0 if s is None else s)).reshape(-1)

    def cost(p: Any, *data: Any) -> Any:
        return 0.5 * np.sum(residuals(p, *data) ** 2)

    def solve(x: Any, y: Any, s: Any) -> tuple[Any, Any]:
        given = {**options, "jac": jac if jac is None or isinstance(jac, str) else plain(jac), "full_output": True}
        found = _original.curve_fit(plain(f), x, y, plain_value(p0), s, absolute_sigma, **given)
        return found[0], found

    data = (asarray(xdata) if type(xdata) is list else xdata, asarray(ydata), None if sigma is None else asarray(sigma))
    best, found = _solution("curve_fit", grad(cost), solve, np.ones(1) if p0 is None else _floats(plain_value(p0)), data)
    slopes = jacobian(residuals)(best, *data)
    inverse = np.linalg.inv(np.linalg.qr(slopes)[1])  # slopes.T @ slopes would square the condition number
    covariances = inverse @ inverse.T
    if not absolute_sigma:
        count, unknowns = shape_of(slopes)
        covariances = covariances * (2 * cost(best, *data) / (count - unknowns))
    if found is not None:
        covariances = with_value(covariances, found[1])
    return (best, covariances, *found[2:]) if full_output and found is not None else (best, covariances)


@of_tensors("scipy.optimize")
def nnls(A: Any, b: Any, *args: Any, **options: Any) -> Any:
    """Return the nonnegative least-squares solution, as the unconstrained solution for the columns with positive unknowns."""
    x, _ = outside_traces(_original.nnls, plain_value(A), plain_value(b), *args, **options)
    columns = np.flatnonzero(x > 0)
    found = _minima.full_rank_solution("nnls", asarray(A)[:, columns], asarray(b))
    whole = with_value(np.eye(len(x))[:, columns] @ found, x)
    return whole, np.linalg.norm(A @ whole - b)


_minima.enter(_solution)

_DISCRETE = "its solution jumps where it changes; use minimize of something smooth"
_GLOBAL = "write functad.argmin(objective) above a function that calls it"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("linprog", "milp", "linear_sum_assignment", "quadratic_assignment"), _DISCRETE),
    **dict.fromkeys(("differential_evolution", "dual_annealing", "shgo", "direct", "brute"), _GLOBAL),
    "fmin_cobyla": "use minimize",
}
"""Functions that reject Tensors, and the reasons."""

refuse("scipy.optimize", REFUSED, within=True)
