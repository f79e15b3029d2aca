"""`root` and `root_scalar` of SciPy with exact derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functad.errors import NonScalarError
from functad.expressions.spec import shape_of, spec_of
from functad.optimize.derivatives import Residuals
from functad.optimize.extras import scipy_optimize
from functad.optimize.unknowns import Unknowns
from functad.places import here, name_of
from functad.transforms.linear import pushed_along

_JACOBIAN = ("hybr", "lm")  # the other methods take no Jacobian


def root(
    f: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    *,
    tol: float | None = None,
    callback: Callable[[Any, Any], Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Find a root of a system of equations: `f(x) = 0`.

    The values and the Jacobian at a point come from one run of `f`.

    Args:
        f: a function of NumPy code that returns one number per unknown: an array, or a pytree of arrays.
        x0: the start, the first argument of `f`: an array, number, or pytree of them. A list of numbers is an array.
        args: further arguments of `f`.
        method: the name of a method of `scipy.optimize.root`; `hybr` and `lm` use the Jacobian.
        tol: SciPy's tolerance.
        callback: called with the pytree of unknowns and the flat values, by the methods that support callbacks.
        options: SciPy's options of the method.

    Returns:
        SciPy's `OptimizeResult`; `x` is a pytree like `x0`.

    Raises:
        InputError: a leaf of `x0` is not a floating-point number.
        OutputError: the values are not real arrays.
        ImportError: SciPy is not installed.

    Example:
        >>> import numpy as np
        >>> result = root(lambda p: (p["x"] ** 2 + p["y"] ** 2 - 1.0, p["x"] - p["y"]), {"x": 1.0, "y": 0.5})
        >>> round(float(result.x["x"]), 6)
        0.707107
    """
    unknowns = Unknowns(x0, "root", f)
    rest, tree = args if isinstance(args, tuple) else (args,), unknowns.tree
    differentiate = method.lower() in _JACOBIAN
    residuals = Residuals(lambda x: f(tree(x), *rest), f, "root", differentiate=differentiate)
    given: dict[str, Any] = {"jac": residuals.jac} if differentiate else {}
    if callback is not None:
        given["callback"] = lambda x, value: callback(unknowns.restore(x), value)
    result = scipy_optimize().root(residuals.fun, unknowns.flat, method=method, tol=tol, options=dict(options or {}), **given)
    result.x = unknowns.restore(np.asarray(result.x, np.float64).reshape(-1))
    return result


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    *,
    bracket: Any = None,
    x0: float | None = None,
    x1: float | None = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Find a root of a function of one number: `f(x) = 0`.

    Args:
        f: a function of NumPy code from a number to a number.
        args: further arguments of `f`.
        method: the name of a method of `scipy.optimize.root_scalar`. Newton's method gets the exact derivative, and Halley's
            method the exact second derivative too, from the same run. Default: Brent's method with a bracket, else Newton's.
        bracket: two points where the values of `f` have opposite signs.
        x0: the start, for methods without a bracket.
        x1: a second start for the secant method.
        xtol: an absolute tolerance.
        rtol: a relative tolerance.
        maxiter: the largest number of steps.
        options: SciPy's options of the method.

    Returns:
        SciPy's `RootResults`.

    Raises:
        NonScalarError: the result of `f` is not one number.
        ImportError: SciPy is not installed.

    Example:
        >>> import numpy as np
        >>> round(float(root_scalar(lambda x: np.cos(x) - x, x0=1.0).root), 6)
        0.739085
    """
    if method is None:
        method = "brentq" if bracket is not None else "newton"
    rest = args if isinstance(args, tuple) else (args,)

    @functools.wraps(f)  # messages of transforms name `f`
    def value(x: Any) -> Any:
        found = f(x, *rest)
        numeric = hasattr(found, "shape") or issubclass(type(found), (int, float))
        if numeric and shape_of(found) == ():
            return found
        raise NonScalarError(
            f"root_scalar needs a function that returns one number, but {name_of(f)}, called at {here()}, returned "
            f"{spec_of(found) if numeric else f'a {type(found).__name__}'}."
        )

    def first(x: Any) -> tuple[Any, Any]:
        found: tuple[Any, Any] = pushed_along("root_scalar", value, (x,), (1.0,))
        return found

    def second(x: Any) -> tuple[float, float, float]:
        (y, slope), (_, bend) = pushed_along("root_scalar", first, (np.float64(x),), (1.0,))
        return float(y), float(slope), float(bend)

    given: dict[str, Any] = {"f": value}
    if method.lower() == "newton":
        given = {"f": lambda x: tuple(map(float, first(np.float64(x)))), "fprime": True}
    elif method.lower() == "halley":
        given = {"f": second, "fprime": True, "fprime2": True}
    return scipy_optimize().root_scalar(
        **given, method=method, bracket=bracket, x0=x0, x1=x1, xtol=xtol, rtol=rtol, maxiter=maxiter, options=options
    )
