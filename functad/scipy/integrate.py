"""`scipy.integrate`: SciPy chooses the nodes with plain values; the sum over these nodes is differentiated.

Rules for samples (`trapezoid`, `simpson`, `romb`), `fixed_quad` and `solve_ivp` are SciPy's own code, which is adopted.
"""

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate as _original
from scipy.integrate import _quadrature

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import (
    of_methods,
    of_tensors,
    outside_traces,
    plain,
    plain_value,
    refuse,
    stands_for,
    with_value,
)
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.implicit.odeint import odeint as _odeint
from functad.places import here
from functad.primitives.operands import is_traced, known_array

_NODES = np.polynomial.legendre.leggauss(20)
_original_quad_vec = _original.quad_vec
_SOLVE_IVP = _original.solve_ivp  # the original, before the replacement below is registered
_EPS = float(np.finfo(np.float64).eps)
_HALVINGS = 64
"""The largest number of halvings of a cell."""
_HALVES = np.concatenate((_NODES[0] - 1, _NODES[0] + 1)) / 2
_TO_HALVES = np.polynomial.legendre.legvander(_HALVES, 19) @ np.linalg.inv(np.polynomial.legendre.legvander(_NODES[0], 19))
"""The matrix that interpolates values at the nodes of a cell to the nodes of both halves."""
_AT_LIMIT = np.polynomial.legendre.leggauss(5)


def _mapped(low: float, high: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the integration variable and its derivative as functions of the variable that QUADPACK subdivides."""
    if np.isfinite(low) and np.isfinite(high):
        return lambda t: t, np.ones_like
    if np.isfinite(low):
        return lambda t: low + (1 - t) / t, lambda t: t**-2.0
    if np.isfinite(high):
        return lambda t: high - (1 - t) / t, lambda t: t**-2.0
    return lambda t: (1 - abs(t)) / t, lambda t: t**-2.0


def _integral(f: Callable[[Any], Any], a: Any, b: Any, cells: Any, fixed: Any, name: str) -> Any:
    """Return an integral as a sum over fixed nodes, plus the contributions of traced limits.

    Args:
        f: the integrand, a function of one number.
        a, b: the limits.
        cells: pairs of numbers, of shape `(n, 2)`: SciPy's subdivision of the range.
        fixed: the fixed points at which the integrand may jump.
        name: the name of SciPy's function.
    """
    x_of, slope = _mapped(plain_value(a), plain_value(b))
    centres, halves = np.mean(cells, axis=1)[:, None], np.diff(cells, axis=1) / 2
    t = (centres + halves * _NODES[0]).reshape(-1)
    weights = (halves * _NODES[1]).reshape(-1) * slope(t)
    values = np.stack([asarray(f(x)) for x in x_of(t).tolist()])
    if _jumps(values, cells, fixed):
        raise _jump(name)
    total = np.tensordot(weights, values, 1)
    for limit, sign in ((b, 0.5), (a, -0.5)):
        if is_traced(limit) and np.isfinite(plain_value(limit)):  # an interval of length zero with a traced end
            start = plain_value(limit)
            way = limit - start
            size = max(abs(start), plain_value(b) - plain_value(a) if np.isfinite(plain_value(b - a)) else 1.0)
            near = start - 64 * sign * _EPS * size
            if np.isfinite(plain_value(f(start))).all():  # one-sided limit: the integrand may jump at the end
                start = near
            values = np.stack([asarray(f(start + way * (0.5 + 0.5 * z))) for z in _AT_LIMIT[0].tolist()])
            total = total + sign * way * np.tensordot(_AT_LIMIT[1], values, 1)
    return total


def _gap(total: Any, found: Any) -> Any:
    return np.max(np.abs(plain_value(total) - found), initial=0.0)


def _cell(g: Callable[[float], Any], cell: Any) -> tuple[Any, Any]:
    """Return the Gauss integral of `g` over a cell, and the values at its nodes, of shape `(20, -1)`."""
    low, high = cell
    values = np.stack([np.ravel(g(t)) for t in ((low + high) / 2 + (high - low) / 2 * _NODES[0]).tolist()])
    return (high - low) / 2 * (_NODES[1] @ values), values


def _refined(g: Callable[[float], Any], cells: Any, smooth: Any, fixed: Any, name: str) -> Any:
    """Return the cells of a range, with cells halved repeatedly where the integrand is not smooth.

    SciPy subdivides until the value is accurate. If the integrand has a kink in a cell, the error of the derivative is the
    variation of the integrand over this cell. The error of the value is only the square of this variation.

    Args:
        g: the integrand, with plain values.
        cells: SciPy's cells, of shape `(n, 2)`.
        smooth: a mask of the cells for which SciPy's error estimate is rounding error.
        fixed: the fixed points: the ends of the range, and the points from the user.
        name: the name of SciPy's function.

    Raises:
        UnsupportedError: the integrand jumps or is singular at a point that may move with the parameters.
    """
    if smooth.all():
        return cells
    rough = [(tuple(cell), *_cell(g, cell)) for cell in cells[~smooth].tolist()]
    sizes = np.sum([(high - low) * np.mean(np.abs(values), axis=0) for (low, high), _, values in rough], axis=0)
    whole = float(np.max(sizes, initial=0.0))
    scale = whole / float(np.sum(np.diff(cells[~smooth], axis=1)))
    done, most = cells[smooth].tolist(), len(rough) + 8
    for last in [False] * _HALVINGS + [True]:
        waiting, rough = rough, []
        if len(waiting) > most:  # noise or oscillation: halving does not help
            return cells
        for cell, integral, values in waiting:
            low, high = cell
            middle, variation = (low + high) / 2, float(np.max(np.ptp(values, axis=0), initial=0.0))
            halves = [((low, middle), *_cell(g, (low, middle))), ((middle, high), *_cell(g, (middle, high)))]
            at_end = min(max(low - end, end - high) for end in fixed) <= 4 * (high - low)
            if at_end:
                error, least = np.abs(halves[0][1] + halves[1][1] - integral), 1e-14 * whole
            else:
                error = np.abs(_TO_HALVES @ values - np.concatenate((halves[0][2], halves[1][2])))
                rounding = 64 * _EPS * abs(middle) / (high - low)  # rounding of the nodes, relative to the cell
                least = max((1e-5 + rounding) * variation, 1e-13 * max(scale, float(np.max(np.abs(values), initial=0.0))))
            rough_here = float(np.max(error, initial=0.0)) > least
            narrow = last or high - low < 1024 * _EPS * abs(middle)
            torn = _torn(halves[0][2], halves[1][2], 1e-6 * scale).any()
            if (rough_here or torn) and variation > 1e-8 * scale and not narrow:
                rough += halves
                continue
            in_half = max(float(np.max(np.ptp(half[2], axis=0), initial=0.0)) for half in halves)
            jumps = torn or (rough_here and in_half > 0.9 * variation)
            if jumps and variation > 1e-5 * scale and not at_end:
                raise _jump(name)
            done.append(cell)
    return np.array(done)


def _jumps(values: Any, cells: Any, fixed: Any) -> bool:
    """Return `True` if the values jump between neighbouring cells; jumps at `fixed` ends are allowed."""
    known = _examples(values)
    found = np.asarray(plain_value(values)) if known is None else np.moveaxis(known, 0, -1)
    order = np.argsort(cells[:, 0])
    cells, found = cells[order], found.reshape(len(cells), len(_NODES[0]), -1)[order]
    inside = (cells[:-1, 1] == cells[1:, 0]) & ~np.isin(cells[1:, 0], list(fixed))
    left, right = found[:-1][inside], found[1:][inside]
    return bool(_torn(np.moveaxis(left, 1, 0), np.moveaxis(right, 1, 0), 1e-6 * np.mean(np.abs(found))).any())


def _torn(left: Any, right: Any, least: float) -> Any:
    """Return a mask of jumps: places where neighbouring cells differ by more than adjacent nodes do (axis 0)."""
    return np.abs(right[0] - left[-1]) > 5 * (np.abs(left[-1] - left[-2]) + np.abs(right[1] - right[0])) + least


def _jump(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"scipy.integrate.{name}, at {here()}: the integrand jumps or is singular inside the range. If this point moves, the "
        f"derivative has a part that a sum over points lacks. Pass points=[c] with the point c, which may be a Tensor."
    )


def _singular(name: str, found: Any, gap: Any) -> UnsupportedError:
    return UnsupportedError(
        f"scipy.integrate.{name}, at {here()}: the integrand is singular, so the integral is {found} by extrapolation, "
        f"and a sum over points, which could be differentiated, is off by {gap:.1e}. Substitute another variable."
    )


def _agreeing(total: Any, found: Any, error: float, name: str) -> Any:
    """Return an integral with SciPy's value; raise if the differentiable sum deviates from this value."""
    gap = _gap(total, found)
    if gap > 10 * error + 1e-5 * np.max(np.abs(found), initial=0.0):  # SciPy may miss a kink by more than its estimate
        raise _singular(name, found, gap)
    return with_value(total, found)


def _divided(f: Callable[[float], Any], ends: Any, division: Any, fixed: Any, name: str) -> Any:
    """Return the cells for the differentiable sum, given the limits and SciPy's cells, integrals and errors (`division`)."""
    x_of, slope = _mapped(*map(plain_value, ends))
    cells, integrals, errors = division
    smooth = errors <= 100 * _EPS * np.max(np.abs(np.reshape(integrals, (len(cells), -1))), axis=1, initial=0.0)
    return outside_traces(_refined, lambda t: f(x_of(t)) * slope(t), cells, smooth, fixed, name)


def _fixed(cells: Any, points: Any = None) -> set[float]:
    """Return the fixed points: the ends of the range in the subdivided variable, infinity, and the points from the user."""
    return {0.0, float(cells.min()), float(cells.max()), *map(float, () if points is None else points)}


def _at_tensors(points: Any) -> bool:
    return points is not None and any(map(is_traced, points))


def _split(function: Callable[..., Any], a: Any, b: Any, points: Any) -> tuple[Any, Any]:
    """Return an integral and its error as sums over the intervals between points, which may be Tensors."""
    down = plain_value(b) < plain_value(a)
    low, high = (b, a) if down else (a, b)
    inside = sorted([p for p in points if plain_value(low) < plain_value(p) < plain_value(high)], key=plain_value)
    ends = [low, *inside, high]
    parts = [function(*pair)[:2] for pair in itertools.pairwise(ends)]
    total = functools.reduce(operator.add, [part[0] for part in parts])
    return (-total if down else total), sum(part[1] for part in parts)


_CACHED_ROOTS = getattr(_quadrature, "_cached_roots_legendre", None)
if _CACHED_ROOTS is not None:  # the cache must not hold traced nodes
    stands_for(_CACHED_ROOTS, functools.wraps(_CACHED_ROOTS)(functools.partial(outside_traces, _CACHED_ROOTS)))


DEFAULTS = {"epsabs": 1e-200, "epsrel": 1e-8, "limit": 10000}


def _examples(a: Any) -> Any:
    """Return the batched values of a Tensor; `None` if it has one value or no known value."""
    known = known_array(a)
    return None if known is None or np.shape(known) == shape_of(a) else known


def _in_batch(f: Callable[[Any], Any], a: Any, b: Any) -> bool:
    """Return `True` if the limits or the values of the integrand are batched."""
    ends = [end for end in (_one(a), _one(b)) if np.isfinite(end)]
    inside = (ends[0] + ends[1]) / 2 if len(ends) == 2 else sum(ends) + (0.5 if np.isfinite(_one(a)) else -0.5)
    return any(_examples(value) is not None for value in (a, b, f(inside)))


def _one(limit: Any) -> float:
    found = _examples(limit)
    return float(plain_value(limit)) if found is None else float(found.flat[0])


def _batched(f: Callable[[Any], Any], a: Any, b: Any, epsabs: float, epsrel: float, limit: int) -> tuple[Any, float]:
    """Return the integrals of all examples of a batch, on one subdivision that suits the most difficult example."""

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
    fixed = _fixed(info.intervals)
    cells = _divided(values, (low, high), (info.intervals, info.integrals, info.errors), fixed, "quad in vmap")
    total = _integral(g, low, high, cells, fixed, "quad in vmap")
    gap = _gap_of_all(total, found)
    if gap > 10 * error + 1e-5 * np.max(np.abs(found), initial=0.0):  # SciPy may miss a kink by more than its estimate
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
    """Return a QUADPACK integral, differentiable under the integral sign and with respect to the limits."""
    if weight is not None or options.get("complex_func"):
        raise UnsupportedError(
            f"scipy.integrate.quad of a Tensor with weight or complex_func, at {here()}. Multiply func by it."
        )
    args = args if isinstance(args, tuple) else (args,)
    if _in_batch(lambda x: func(x, *args), a, b):
        total, error = _batched(lambda x: func(x, *args), a, b, epsabs, epsrel, limit)
        return (total, error, {}) if full_output else (total, error)
    if _at_tensors(points):
        total, error = _split(lambda a, b: quad(func, a, b, args, 0, epsabs, epsrel, limit), a, b, points)
        return (total, error, {}) if full_output else (total, error)
    low, high = plain_value(a), plain_value(b)
    if high < low:
        found = quad(func, b, a, args, full_output, epsabs, epsrel, limit, points)
        return (-found[0], *found[1:])
    if low == high:
        found = (0.0, 0.0, {"last": 0})
        cells, fixed = np.array([[low, low]], float), {low}
    else:
        tolerances = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit}
        plains = tuple(map(plain_value, args))
        found = outside_traces(_original.quad, plain(func), low, high, plains, 1, points=plain_value(points), **tolerances)
        info = found[2]
        cells, integrals, errors = (
            a[: info["last"]] for a in (np.stack([info["alist"], info["blist"]], 1), info["rlist"], info["elist"])
        )
        if low == -np.inf and high == np.inf:  # QUADPACK adds the values at x and -x
            cells, integrals, errors = np.concatenate([cells, -cells[:, ::-1]]), np.tile(integrals, 2), np.tile(errors, 2)
        fixed = _fixed(cells, plain_value(points))
        known = plain(func)
        cells = _divided(lambda x: known(x, *plains), (low, high), (cells, integrals, errors), fixed, "quad")
    if len(found) > 3 and not full_output:
        warnings.warn(found[3], _original.IntegrationWarning, stacklevel=2)
    total = _integral(lambda x: func(x, *args), a, b, cells, fixed, "quad")
    total = _agreeing(total, found[0], found[1], "quad")
    return (total, *found[1:]) if full_output else (total, found[1])


@of_tensors("scipy.integrate", within=True)
def quad_vec(
    f: Callable[..., Any], a: Any, b: Any, *options: Any, full_output: bool = False, args: Any = (), **named: Any
) -> Any:
    """Return an integral of an array-valued function of one number."""
    args = args if isinstance(args, tuple) else (args,)
    if not options and not full_output and _in_batch(lambda x: f(x, *args), a, b):
        names = ("epsabs", "epsrel", "limit")
        return _batched(lambda x: f(x, *args), a, b, *[named.get(name, DEFAULTS[name]) for name in names])
    points = named.get("points")
    if _at_tensors(points):
        named["points"] = None
        total, error = _split(lambda a, b: quad_vec(f, a, b, *options, args=args, **named), a, b, points)
        return (total, error, None) if full_output else (total, error)
    low, high = plain_value(a), plain_value(b)
    plains = tuple(map(plain_value, args))
    known = plain(lambda x: f(x, *plains))
    found = outside_traces(_original.quad_vec, known, low, high, *options, full_output=True, **named)
    info = found[2]
    fixed = _fixed(info.intervals, points)
    cells = _divided(known, (low, high), (info.intervals, info.integrals, info.errors), fixed, "quad_vec")
    total = _integral(lambda x: f(x, *args), a, b, cells, fixed, "quad_vec")
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
    """Return LSODA's solution of a system of differential equations, with the derivatives of `functad.odeint`."""
    if options or full_output:
        raise UnsupportedError(f"scipy.integrate.odeint of a Tensor with full_output or options by position, at {here()}.")
    y0, args = np.atleast_1d(asarray(y0, dtype=float)), args if isinstance(args, tuple) else (args,)

    def slope(y: Any, time: Any, *args: Any) -> Any:
        return asarray(func(time, y, *args) if tfirst else func(y, time, *args))

    tolerances = {"rtol": 1.49012e-8 if rtol is None else rtol, "atol": 1.49012e-8 if atol is None else atol}
    total = _odeint(slope, y0, asarray(t), *args, method="LSODA", **tolerances)
    if any(_examples(part) is not None for part in (y0, total)):  # batched values
        return total
    plains = [plain_value(part) for part in (y0, asarray(t))]
    given = {"args": tuple(map(plain_value, args)), "tfirst": tfirst, "rtol": rtol, "atol": atol, **named}
    return with_value(total, outside_traces(_original.odeint, plain(func), *plains, **given))


@of_tensors("scipy.integrate", within=True)
def solve_ivp(fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", *args: Any, **options: Any) -> Any:
    """Return an explicit method's solution of a system of differential equations; each step is traced."""
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
"""Functions that reject Tensors, and the reasons."""

refuse("scipy.integrate", {"solve_bvp": REFUSED["solve_bvp"]})


def _refuse_class(name: str, *methods: str) -> None:
    """Raise for Tensors, and for functions that hold Tensors, in methods of a class and its subclasses."""

    @of_methods(getattr(_original, name), *methods, within=True)
    def refused(original: Any, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"scipy.integrate.{name} with a Tensor, at {here()}: {REFUSED[name]}.")


_refuse_class("LSODA", "__init__")
_refuse_class("Radau", "__init__")
_refuse_class("ode", "__init__", "set_initial_value", "set_f_params", "set_jac_params")
_refuse_class("complex_ode", "__init__", "set_initial_value")
