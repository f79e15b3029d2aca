"""`curve_fit`: `scipy.optimize.curve_fit` with the exact Jacobian of the model, and parameters in a pytree."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.optimize.bounds import flat_bounds
from functad.optimize.derivatives import Residuals
from functad.optimize.extras import scipy_optimize
from functad.optimize.unknowns import Unknowns
from functad.trees import LEAF


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    *,
    bounds: Any = None,
    method: str | None = None,
    **options: Any,
) -> Any:
    """Fit a model to data by least squares: `min sum_i ((f(x_i, p) - y_i) / sigma_i)^2`.

    Args:
        f: the model in NumPy code: `f(xdata, a, b, ...)` with a number for each parameter, or `f(xdata, p)` if `p0` is a
            pytree.
        xdata: the independent variable. It is passed to `f` unchanged, except that lists become arrays.
        ydata: the data, shape `(m,)`.
        p0: the start: a number for each parameter, or a pytree such as a dict. Default: ones, one per parameter of `f`.
        sigma: the standard deviations of the data, shape `(m,)`, or their covariances, shape `(m, m)`.
        absolute_sigma: the values of `sigma` are absolute; otherwise only their ratios matter.
        bounds: a pair `(low, high)` of numbers or arrays, or SciPy's `Bounds`. If `p0` is a pytree: a pytree with a pair at
            each leaf.
        method: `"lm"`, `"trf"` or `"dogbox"`. Default: `"trf"` with bounds, else `"lm"`.
        options: further options of SciPy: `check_finite`, `full_output`, `nan_policy`, `maxfev`, `ftol`, ...

    Returns:
        `(p, covariance)`. `p` is an array, or a pytree like `p0`. The covariance of its elements has shape `(n, n)`. Its rows
        and columns follow the leaves of `p0` in the order of `functad.tree_leaves(p0)`: a dict is ordered by its sorted keys,
        not by insertion. With `full_output`, SciPy's three further results follow.

    Raises:
        InputError: a leaf of `p0` is not a floating-point number.
        StructureError: the bounds do not fit `p0`.
        ImportError: SciPy is not installed.

    Example:
        >>> import numpy as np
        >>> t = np.linspace(0.0, 4.0, 50)
        >>> p, _ = curve_fit(lambda t, height, rate: height * np.exp(-rate * t), t, 2.5 * np.exp(-1.3 * t))
        >>> p.round(6)
        array([2.5, 1.3])
    """
    unknowns = None if p0 is None else Unknowns(p0, "curve_fit", f)
    tree = None if unknowns is None or unknowns.structure is LEAF else unknowns
    if bounds is not None:
        options["bounds"] = bounds if tree is None else flat_bounds(bounds, tree)
    last: tuple[Any, Residuals] | None = None

    def model(xdata: Any) -> Residuals:
        """Return the model as a function of the parameters; SciPy may have removed NaN from the data."""
        nonlocal last
        if last is None or last[0] is not xdata:
            last = xdata, Residuals(lambda p: f(xdata, *p) if tree is None else f(xdata, tree.tree(p)), f, "curve_fit")
        return last[1]

    @functools.wraps(f)  # SciPy reads the number of parameters from the signature
    def value(xdata: Any, *parameters: Any) -> Any:
        return model(xdata).fun(np.array(parameters))

    found = scipy_optimize().curve_fit(
        value,
        xdata,
        ydata,
        p0=None if unknowns is None else unknowns.flat,
        sigma=sigma,
        absolute_sigma=absolute_sigma,
        method=method,
        jac=lambda xdata, *parameters: model(xdata).jac(np.array(parameters)),
        **options,
    )
    return found if tree is None else (tree.restore(found[0]), *found[1:])
