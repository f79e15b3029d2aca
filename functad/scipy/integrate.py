"""`scipy.integrate`: SciPy chooses by plain values where a function is evaluated; the sum over that is differentiated.

Rules for samples (`trapezoid`, `simpson`, `romb`), `fixed_quad` and `solve_ivp` are SciPy's own code, which is adopted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate as _original

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_methods, of_tensors, outside_traces, plain, plain_value, refuse, with_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.implicit.odeint import odeint as _odeint
from functad.places import here
from functad.primitives.operands import is_traced, known_array

_NODES = np.polynomial.legendre.leggauss(20)
_original_quad_vec = _original.quad_vec
_SOLVE_IVP = _original.solve_ivp  # before its name there stands for what is entered here
_AT_LIMIT = np.polynomial.legendre.leggauss(5)


def _mapped(low: float, high: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the variable of an integral, and its derivative, as functions of that in which QUADPACK divides the range."""
    if np.isfinite(low) and np.isfinite(high):
        return lambda t: t, np.ones_like
    if np.isfinite(low):
        return lambda t: low + (1 - t) / t, lambda t: t**-2.0
    if np.isfinite(high):
        return lambda t: high - (1 - t) / t, lambda t: t**-2.0
    return lambda t: (1 - abs(t)) / t, lambda t: t**-2.0


def _integral(f: Callable[[Any], Any], a: Any, b: Any, cells: Any) -> Any:
    """Return an integral as a sum over points, which stay where they are, plus what a change of the limits adds.

    Args:
        f: the integrand, a function of one number.
        a, b: the limits.
        cells: pairs of numbers, of shape `(n, 2)`: the parts into which SciPy has divided the range.
    """
    x_of, slope = _mapped(plain_value(a), plain_value(b))
    centres, halves = np.mean(cells, axis=1)[:, None], np.diff(cells, axis=1) / 2
    t = (centres + halves * _NODES[0]).reshape(-1)
    weights = (halves * _NODES[1]).reshape(-1) * slope(t)
    total = np.tensordot(weights, np.stack([asarray(f(x)) for x in x_of(t).tolist()]), 1)
    for limit, sign in ((b, 0.5), (a, -0.5)):
        if is_traced(limit) and np.isfinite(plain_value(limit)):  # a range of no length, whose end has derivatives
            start = plain_value(limit)
            way = limit - start
            values = np.stack([asarray(f(start + way * (0.5 + 0.5 * z))) for z in _AT_LIMIT[0].tolist()])
            total = total + sign * way * np.tensordot(_AT_LIMIT[1], values, 1)
    return total


def _gap(total: Any, found: Any) -> Any:
    return np.max(np.abs(plain_value(total) - found), initial=0.0)


def _graded(cells: Any) -> Any:
    """Return parts of a range, of which those at its ends are halved toward these again and again, as a singularity needs."""
    cells = cells[np.argsort(cells[:, 0])]
    parts = np.append(0.5 ** np.arange(60.0), 0.0)
    first, last = cells[0, 0] + parts * (cells[0, 1] - cells[0, 0]), cells[-1, 1] - parts * (cells[-1, 1] - cells[-1, 0])
    if len(cells) == 1:
        middle = cells.mean()
        return _graded(np.array([[cells[0, 0], middle], [middle, cells[0, 1]]]))
    return np.concatenate([np.stack([first[1:], first[:-1]], 1), cells[1:-1], np.stack([last[:-1], last[1:]], 1)])


def _singular(name: str, found: Any, gap: Any) -> UnsupportedError:
    return UnsupportedError(
        f"scipy.integrate.{name}, at {here()}: the integrand is singular, so the integral is {found} by extrapolation, "
        f"and a sum over points, which could be differentiated, is off by {gap:.1e}. Substitute another variable."
    )


def _agreeing(total: Any, found: Any, error: float, name: str) -> Any:
    """Return an integral with SciPy's value, with which the sum must agree for its derivative to mean something."""
    gap = _gap(total, found)
    if gap > 10 * error + 1e-6 * np.max(np.abs(found), initial=0.0):
        raise _singular(name, found, gap)
    return with_value(total, found)


DEFAULTS = {"epsabs": 1e-200, "epsrel": 1e-8, "limit": 10000}


def _examples(a: Any) -> Any:
    """Return the values of a Tensor for all examples of a batch; `None` if it has one value, or none is known."""
    known = known_array(a)
    return None if known is None or np.shape(known) == shape_of(a) else known


def _in_batch(f: Callable[[Any], Any], a: Any, b: Any) -> bool:
    """Say whether the limits of an integral, or the values of the integrand, differ between the examples of a batch."""
    ends = [end for end in (_one(a), _one(b)) if np.isfinite(end)]
    inside = (ends[0] + ends[1]) / 2 if len(ends) == 2 else sum(ends) + (0.5 if np.isfinite(_one(a)) else -0.5)
    return any(_examples(value) is not None for value in (a, b, f(inside)))


def _one(limit: Any) -> float:
    found = _examples(limit)
    return float(plain_value(limit)) if found is None else float(found.flat[0])


def _batched(f: Callable[[Any], Any], a: Any, b: Any, epsabs: float, epsrel: float, limit: int) -> tuple[Any, float]:
    """Return integrals for all examples of a batch, whose range is divided as the most difficult one needs."""

    def over(low: Any, high: Any) -> tuple[Callable[[Any], Any], float, float]:
        if np.isfinite(_one(low)) and np.isfinite(_one(high)):
            return (lambda t: f(low + (high - low) * t) * (high - low)), 0.0, 1.0
        if np.isfinite(_one(low)):
            return (lambda t: f(low + t)), 0.0, np.inf
        if np.isfinite(_one(high)):
            return (lambda t: f(high + t)), -np.inf, 0.0
        return f, -np.inf, np.inf

    down = _one(b) < _one(a)
    g, low, high = over(b, a) if down else over(a, b)

    def values(t: float) -> Any:
        found = g(t)
        known = _examples(found)
        return np.asarray(plain_value(found)) if known is None else known

    tolerances = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit}
    found, error, info = outside_traces(_original_quad_vec, values, low, high, norm="max", full_output=True, **tolerances)
    total = _integral(g, low, high, info.intervals)
    if _gap_of_all(total, found) > 1e-9 * np.max(np.abs(found), initial=0.0):
        total = _integral(g, low, high, _graded(info.intervals))
    gap = _gap_of_all(total, found)
    if gap > 10 * error + 1e-6 * np.max(np.abs(found), initial=0.0):
        raise _singular("quad in vmap", found, gap)
    return (-total if down else total), error


def _gap_of_all(total: Any, found: Any) -> Any:
    known = _examples(total)
    return _gap(total if known is None else known, found)


@of_tensors("scipy.integrate", within=True)
def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: Any = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
    weight: Any = None,
    **options: Any,
) -> Any:
    """An integral of a function of one number, by QUADPACK; differentiated under the integral sign, and by the limits."""
    if weight is not None or options.get("complex_func"):
        raise UnsupportedError(
            f"scipy.integrate.quad of a Tensor with weight or complex_func, at {here()}. Multiply func by it."
        )
    args = args if isinstance(args, tuple) else (args,)
    if _in_batch(lambda x: func(x, *args), a, b):
        total, error = _batched(lambda x: func(x, *args), a, b, epsabs, epsrel, limit)
        return (total, error, {}) if full_output else (total, error)
    low, high = plain_value(a), plain_value(b)
    if high < low:
        found = quad(func, b, a, args, full_output, epsabs, epsrel, limit, points)
        return (-found[0], *found[1:])
    if low == high:
        found = (0.0, 0.0, {"last": 0})
        cells = np.array([[low, low]], float)
    else:
        tolerances = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit}
        plains = tuple(map(plain_value, args))
        found = outside_traces(_original.quad, plain(func), low, high, plains, 1, points=plain_value(points), **tolerances)
        info = found[2]
        cells = np.stack([info["alist"], info["blist"]], 1)[: info["last"]]
    if low == -np.inf and high == np.inf:  # QUADPACK adds the values at x and -x
        cells = np.concatenate([cells, -cells[:, ::-1]])
    if len(found) > 3 and not full_output:
        warnings.warn(found[3], _original.IntegrationWarning, stacklevel=2)
    total = _integral(lambda x: func(x, *args), a, b, cells)
    if _gap(total, found[0]) > 1e-9 * abs(found[0]) and low != high:
        total = _integral(lambda x: func(x, *args), a, b, _graded(cells))
    total = _agreeing(total, found[0], found[1], "quad")
    return (total, *found[1:]) if full_output else (total, found[1])


@of_tensors("scipy.integrate", within=True)
def quad_vec(
    f: Callable[..., Any], a: Any, b: Any, *options: Any, full_output: bool = False, args: Any = (), **named: Any
) -> Any:
    """An integral of a function of one number that gives an array."""
    args = args if isinstance(args, tuple) else (args,)
    if not options and not full_output and _in_batch(lambda x: f(x, *args), a, b):
        names = ("epsabs", "epsrel", "limit")
        return _batched(lambda x: f(x, *args), a, b, *[named.get(name, DEFAULTS[name]) for name in names])
    low, high = plain_value(a), plain_value(b)
    plains = tuple(map(plain_value, args))
    found = outside_traces(_original.quad_vec, plain(lambda x: f(x, *plains)), low, high, *options, full_output=True, **named)
    total = _integral(lambda x: f(x, *args), a, b, found[2].intervals)
    total = _agreeing(total, found[0], found[1], "quad_vec")
    return (total, *found[1:]) if full_output else (total, found[1])


@of_tensors("scipy.integrate", within=True)
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    *options: Any,
    tfirst: bool = False,
    rtol: Any = None,
    atol: Any = None,
    full_output: Any = 0,
    **named: Any,
) -> Any:
    """The solution of a system of differential equations by LSODA; the derivatives are those of `functad.odeint`."""
    if options or full_output:
        raise UnsupportedError(f"scipy.integrate.odeint of a Tensor with full_output or options by position, at {here()}.")
    y0, args = np.atleast_1d(asarray(y0, dtype=float)), args if isinstance(args, tuple) else (args,)

    def slope(y: Any, time: Any, *args: Any) -> Any:
        return asarray(func(time, y, *args) if tfirst else func(y, time, *args))

    tolerances = {"rtol": 1.49012e-8 if rtol is None else rtol, "atol": 1.49012e-8 if atol is None else atol}
    total = _odeint(slope, y0, asarray(t), *args, method="LSODA", **tolerances)
    if any(_examples(part) is not None for part in (y0, total)):  # there is a value for each example of a batch
        return total
    plains = [plain_value(part) for part in (y0, asarray(t))]
    given = {"args": tuple(map(plain_value, args)), "tfirst": tfirst, "rtol": rtol, "atol": atol, **named}
    return with_value(total, outside_traces(_original.odeint, plain(func), *plains, **given))


@of_tensors("scipy.integrate", within=True)
def solve_ivp(fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", *args: Any, **options: Any) -> Any:
    """The solution of a system of differential equations by an explicit method, whose steps are followed as they are taken."""
    name = getattr(method, "__name__", method)
    if name in ("Radau", "BDF", "LSODA"):
        raise UnsupportedError(
            f"scipy.integrate.solve_ivp of a Tensor with method={name!r}, at {here()}: its linear algebra is not followed. "
            f"Use functad.odeint(f, y0, t, *args, method={name!r}), or RK45, RK23 or DOP853."
        )
    return _SOLVE_IVP(fun, t_span, y0, method, *args, **options)


REFUSED: dict[str, str] = {
    "quad(weight)": "Multiply func by it",
    'solve_ivp(method="BDF")': "its linear algebra is not followed. Use functad.odeint",
    **{
        name: f"its steps are not followed. Use functad.odeint(f, y0, t, *args, method={name!r}), or RK45, RK23 or DOP853"
        for name in ("LSODA", "Radau")
    },
    **dict.fromkeys(("ode", "complex_ode"), "its steps are not followed. Use functad.odeint, or solve_ivp with RK45 or DOP853"),
    "solve_bvp": "its mesh and its sparse systems are not followed; use functad.custom_root with the conditions of collocation",
}
"""Functions that take no Tensors on purpose, and why."""

refuse("scipy.integrate", {"solve_bvp": REFUSED["solve_bvp"]})


def _refuse_class(name: str, *methods: str) -> None:
    """Refuse Tensors, and functions that hold some, for methods of a class, which others may inherit from."""

    @of_methods(getattr(_original, name), *methods, within=True)
    def refused(original: Any, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"scipy.integrate.{name} with a Tensor, at {here()}: {REFUSED[name]}.")


_refuse_class("LSODA", "__init__")
_refuse_class("Radau", "__init__")
_refuse_class("ode", "__init__", "set_initial_value", "set_f_params", "set_jac_params")
_refuse_class("complex_ode", "__init__", "set_initial_value")
