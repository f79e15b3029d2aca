"""`scipy.interpolate`: the compiled loops of piecewise polynomials, splines and grids, as array operations.

The classes stay SciPy's own, and their Python code is adopted. An object that is made of Tensors or called with Tensors then
holds Tensors. Values, knots and points are differentiable. At a knot the derivative belongs to the piece that SciPy evaluates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from scipy import interpolate as _original

from functad.adoption.arrays import asarray, broadcast_arrays
from functad.adoption.replacements import replacement
from functad.adoption.scipy_functions import of_tensors, refuse
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.indexing.read import get_item
from functad.primitives.linalg.solve import solve_by_substitution
from functad.primitives.operands import is_traced
from functad.scipy.matrices.equations import solve_banded
from functad.scipy.splines import fitpack, interpolators, older, triangulated  # noqa: F401 - registers rules
from functad.scipy.splines.fitpack import SMOOTHED

_PPOLY, _DIERCKX = "scipy.interpolate._ppoly", "scipy.interpolate._dierckx"


def _pieces(x: Any, points: Any) -> tuple[Any, Any]:
    """Return the index of the piece of each point, clipped to the outermost pieces, and the offset of the point in it.

    Args:
        x: breakpoints in ascending or descending order, of shape `(m + 1,)`.
        points: of shape `(r,)`.
    """
    up = bool(x[-1] >= x[0])
    found = np.searchsorted(x, points, side="right") if up else np.searchsorted(-x, -points, side="right")
    piece = np.clip(found - 1, 0, len(x) - 2)
    return piece, points - get_item(x, piece)


def _outside(x: Any, points: Any) -> Any:
    low, high = (x[0], x[-1]) if x[-1] >= x[0] else (x[-1], x[0])
    return ~((points >= low) & (points <= high))


def _powers(c: Any, s: Any, nu: int) -> Any:
    """Return the `nu`-th derivative of polynomials at `s`; -1 is the integral.

    Args:
        c: coefficients, highest power first, of shape `(k, r, n)`.
        s: of shape `(r,)`.
        nu: the order.
    """
    k = len(c)
    out, power = np.zeros(1), s[:, None] if nu < 0 else 1.0
    for p in range(max(nu, 0), k):
        factor = 1 / (p + 1) if nu < 0 else float(math.perm(p, nu))
        out = out + c[k - 1 - p] * power * factor
        power = power * s[:, None]
    return out


@of_tensors(_PPOLY)
def evaluate(c: Any, x: Any, xp: Any, dx: int, extrapolate: bool, out: Any) -> None:
    """Write piecewise polynomials `c` of shape `(k, m, n)` over the breakpoints `x`, or a derivative, at points to `out`."""
    piece, s = _pieces(x, xp)
    _fill(out, _powers(get_item(c, (slice(None), piece)), s, int(dx)), None if extrapolate else _outside(x, xp))


@of_tensors(_PPOLY)
def evaluate_bernstein(c: Any, x: Any, xp: Any, nu: int, extrapolate: bool, out: Any) -> None:
    """Write piecewise polynomials in the Bernstein basis, or a derivative by differences of the coefficients, to `out`."""
    piece, s = _pieces(x, xp)
    h = (get_item(x, piece + 1) - get_item(x, piece))[:, None]
    s, c = s[:, None] / h, get_item(c, (slice(None), piece))
    for _ in range(int(nu)):
        c = (len(c) - 1) * (c[1:] - c[:-1]) / h if len(c) > 1 else np.zeros(shape_of(c))
    k = len(c) - 1
    total = sum((math.comb(k, j) * s**j * (1 - s) ** (k - j) * c[j] for j in range(k + 1)), start=np.zeros(1))
    _fill(out, total, None if extrapolate else _outside(x, xp))


def _fill(out: Any, values: Any, outside: Any) -> None:
    out[...] = values if outside is None else np.where(outside[:, None], np.nan, values)


@of_tensors(_PPOLY)
def fix_continuity(c: Any, x: Any, order: int) -> None:
    """Set the lowest coefficients of all pieces but the first so that derivatives up to `order` are continuous."""
    h, k = (x[1:] - x[:-1])[:-1, None], len(c)
    for low in range(int(order), -1, -1):
        steps = 0.0
        for p in range(low + 1, k):
            steps = steps + math.comb(p, low) * c[k - 1 - p, :-1] * h ** (p - low)
        c[k - 1 - low, 1:] = c[k - 1 - low, :1] + np.cumsum(steps, axis=0)


@of_tensors(_PPOLY)
def integrate(c: Any, x: Any, a: Any, b: Any, extrapolate: bool, out: Any) -> None:
    """Write the integrals of piecewise polynomials from `a` to `b >= a` to `out`."""
    ends = np.stack([1.0 * a, 1.0 * b])
    if not extrapolate and np.any(_outside(x, ends)):
        out[...] = np.nan
        return
    (first, last), s = _pieces(x, ends)
    up = bool(x[-1] >= x[0])
    if not up:
        first, last = last, first
    pieces = np.cumsum(_powers(c, x[1:] - x[:-1], -1), axis=0)
    before = np.concatenate([np.zeros((1, shape_of(c)[2])), pieces])
    whole = get_item(before, last) - get_item(before, first)
    over_a, over_b = _powers(get_item(c, (slice(None), np.stack([first, last] if up else [last, first]))), s, -1)
    out[...] = whole + over_b - over_a if up else over_b - over_a - whole


def _basis(t: Any, k: int, x: Any, left: Any, nu: int = 0) -> Any:
    """Return the B-splines that are nonzero at points, or their derivatives, of shape `(r, k + 1)`.

    The formula is de Boor's recurrence, in the order of `fpbspl` in P. Dierckx, "Curve and Surface Fitting with Splines", 1993.

    Args:
        t: the knots.
        k: the degree.
        x: points, of shape `(r,)`.
        left: the indices of the knots to the left of the points.
        nu: the order of the derivative.
    """
    h = [np.ones(shape_of(x))]
    for j in range(1, k + 1):
        before, h = h, [np.zeros(shape_of(x))]
        for i in range(1, j + 1):
            high, low = get_item(t, left + i), get_item(t, left + i - j)
            same = high == low
            w = np.where(same, 0.0, before[i - 1] / np.where(same, 1.0, high - low))
            if j <= k - nu:
                h[-1] = h[-1] + w * (high - x)
                h.append(w * (x - low))
            else:
                h[-1] = h[-1] - j * w
                h.append(j * w)
    return np.stack(h, axis=-1)


def _left(t: Any, k: int, x: Any) -> Any:
    return np.clip(np.searchsorted(t, x, side="right") - 1, k, len(t) - k - 2)


@of_tensors(_DIERCKX)
def evaluate_spline(t: Any, c: Any, k: int, xp: Any, nu: int, extrapolate: bool) -> Any:
    """Return a spline with knots `t` and coefficients of shape `(n, m)`, or a derivative of it, at points."""
    left = _left(t, k, xp)
    values = (
        np.sum(_basis(t, k, xp, left, nu)[:, :, None] * get_item(c, left[:, None] + np.arange(-k, 1)), axis=1)
        if nu <= k
        else None
    )
    if values is None:
        values = np.zeros((len(xp), shape_of(c)[1]))
    return values if extrapolate else np.where(_outside(t[k : len(t) - k], xp)[:, None], np.nan, values)


@of_tensors(_DIERCKX)
def find_interval(t: Any, k: int, xval: Any, prev_l: int, extrapolate: bool) -> int:
    """Return the index of the knot to the left of a point, or -1 outside."""
    if not extrapolate and np.any(_outside(t[k : len(t) - k], xval)):
        return -1
    return int(_left(t, k, xval))


@of_tensors(_DIERCKX)
def evaluate_all_bspl(t: Any, k: int, xval: Any, m: int, nu: int = 0) -> Any:
    """Return the `k + 1` B-splines, or their derivatives, at a point after the knot `m`."""
    return _basis(t, k, xval * np.ones(1), np.array([m]), nu)[0]


@of_tensors(_DIERCKX)
def _coloc(x: Any, t: Any, k: int, ab: Any, offset: int = 0) -> None:
    """Write the B-splines at points to the rows of a banded matrix, stored transposed, after the first `offset` rows."""
    left = _left(t, k, x)
    columns = left[:, None] + np.arange(-k, 1)
    ab[columns, 2 * k + offset + np.arange(len(x))[:, None] - columns] = _basis(t, k, x, left)


@of_tensors(_DIERCKX)
def evaluate_ndbspline(
    xi: Any, t: Any, len_t: Any, k: Any, nu: Any, extrapolate: Any, c1r: Any, num_c_tr: int, strides_c1: Any, indices_k1d: Any
) -> Any:
    """Return a tensor product of splines at points of shape `(r, d)`; the coefficients are flat."""
    sizes = [int(n) - int(degree) - 1 for n, degree in zip(len_t, k, strict=True)]
    c, products, outside = c1r.reshape(*sizes, num_c_tr), np.ones(1), np.zeros(len(xi), bool)
    numbers: list[Any] = []
    for d, degree in enumerate(map(int, k)):
        knots, x = t[d, : int(len_t[d])], xi[:, d]
        left = _left(knots, degree, x)
        basis = _basis(knots, degree, x, left, int(nu[d])) if nu[d] <= degree else np.zeros((len(x), degree + 1))
        products = products[..., None] * basis.reshape(len(x), *[1] * d, degree + 1)
        around = left[:, None] + np.arange(-degree, 1)
        numbers.append(around.reshape(len(x), *[1] * d, degree + 1, *[1] * (len(sizes) - 1 - d)))
        outside = outside | _outside(knots[degree : len(knots) - degree], x)
    values = np.sum((products[..., None] * get_item(c, tuple(numbers))).reshape(len(xi), -1, num_c_tr), axis=1)
    return values if extrapolate else np.where(outside[:, None], np.nan, values)


@of_tensors("scipy.interpolate._ndbspline")
def make_ndbspl(points: Any, values: Any, k: Any = 3, **solver: Any) -> Any:
    """Return the tensor product of splines through values on a grid, one axis after the other, without a sparse matrix."""
    degrees = k if isinstance(k, tuple) else (k,) * len(points)
    knots = []
    for d, (x, degree) in enumerate(zip(points, degrees, strict=True)):
        spline: Any = _original.make_interp_spline(x, values, k=degree, axis=d)
        knots.append(spline.t)
        values = np.moveaxis(spline.c, 0, d)
    return _original.NdBSpline(tuple(knots), values, degrees)


@of_tensors("scipy.interpolate._bsplines")
def get_lapack_funcs(names: Any, arrays: Any = (), *args: Any, **kwargs: Any) -> Any:
    """Return the solver that `make_interp_spline` uses for its banded system."""
    if tuple(names) != ("gbsv",):
        raise UnsupportedError(f"LAPACK's {', '.join(names)} of a Tensor, at {here()}. Call a function of scipy.linalg.")

    def gbsv(kl: int, ku: int, ab: Any, b: Any, **overwrite: bool) -> Any:
        return None, None, solve_banded((kl, ku), ab[kl:], b), 0

    return (gbsv,)


@of_tensors("scipy.interpolate._bsplines")
def _lsq_solve_qr(x: Any, y: Any, t: Any, k: int, w: Any, periodic: bool = False) -> Any:
    """Return the coefficients of the least-squares spline, for `y` of shape `(m, n)`, by a QR factorization."""
    if periodic:
        raise UnsupportedError(f"A periodic spline of least squares of a Tensor, at {here()}. Use bc_type=None.")
    left = _left(t, k, x)
    design = np.sum(
        _basis(t, k, x, left)[:, :, None] * get_item(np.eye(len(t) - k - 1), left[:, None] + np.arange(-k, 1)), axis=1
    )
    q, r = np.linalg.qr(w[:, None] * design)
    return None, None, solve_by_substitution(r, q.T @ (w[:, None] * y), lower=False), None, None


@of_tensors("scipy.interpolate._fitpack_impl")
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Return a FITPACK spline, given by knots, coefficients and degree, at points."""
    t, c, k = tck
    if (is_traced(c) and len(shape_of(c)) > 1) or (isinstance(c, (list, tuple)) and not np.isscalar(c[0]) and np.ndim(c[0])):
        return [splev(x, (t, row, k), der, ext) for row in c]
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3)")
    x, low, high = asarray(x), t[k], t[len(t) - k - 1]
    points = x.reshape(-1)
    if ext == 2 and np.any((points < low) | (points > high)):
        raise ValueError("Found x value not in the domain")
    inner = np.clip(points, low, high) if ext == 3 and der == 0 else points  # FITPACK extrapolates derivatives
    out = evaluate_spline(t, asarray(c)[: len(t) - k - 1, None], k, inner, der, True)[:, 0]
    out = np.where((points < low) | (points > high), 0.0, out) if ext == 1 else out
    return out.reshape(shape_of(x))


@of_tensors("scipy.interpolate._fitpack_impl")
def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """Return the integral of a spline that is zero outside its knots."""
    t, c, k = tck
    spline: Any = _original.BSpline(t, c, k)
    over = spline.antiderivative()(np.clip(np.stack([1.0 * a, 1.0 * b]), t[k], t[len(t) - k - 1]))
    return over[1] - over[0]


_GRID = "scipy.interpolate._rgi_cython"


@of_tensors(_GRID)
def find_indices(grid: Any, xi: Any) -> Any:
    """Return the grid cells of points of shape `(d, r)`, and the positions in the cells, from 0 to 1."""
    numbers, places = [], []
    for x, points in zip(grid, xi, strict=True):
        if len(x) == 1:  # cell -1 starts and ends at the only value
            numbers.append(np.full(shape_of(points), -1))
            places.append(np.zeros(shape_of(points)))
        else:
            piece, s = _pieces(x, points)
            numbers.append(piece)
            places.append(s / (get_item(x, piece + 1) - get_item(x, piece)))
    return np.stack(numbers), np.stack(places)


@of_tensors(_GRID)
def evaluate_linear_2d(values: Any, indices: Any, norm_distances: Any, grid: Any, out: Any) -> Any:
    """Return bilinear interpolants of values on a grid."""
    total: Any = 0.0
    for corner in itertools.product((0, 1), repeat=2):
        weights = [y if step else 1 - y for y, step in zip(norm_distances, corner, strict=True)]
        total = (
            total + get_item(values, tuple(i + step for i, step in zip(indices, corner, strict=True))) * weights[0] * weights[1]
        )
    return total


@of_tensors("scipy.interpolate._interpnd")
def _ndim_coords_from_arrays(points: Any, ndim: int | None = None) -> Any:
    """Return points as one array with the coordinates along the last axis."""
    if isinstance(points, tuple) and len(points) == 1:
        points = points[0]
    if isinstance(points, tuple):
        return np.stack(broadcast_arrays(*points), axis=-1)
    points = asarray(points)
    if len(shape_of(points)) == 1:
        return points.reshape(-1, 1 if ndim is None else ndim)
    return points


def _generic(name: str) -> Callable[..., Any]:
    """Return SciPy's array-API function for radial basis functions, called with NumPy functions."""

    def called(*args: Any, xp: Any = None) -> Any:
        found = getattr(import_module("scipy.interpolate._rbfinterp_xp"), name)
        with np.errstate(divide="ignore", invalid="ignore"):  # logarithm of zero distances
            return found(*(args if xp is not None else args[:-1]), xp=replacement(np))

    return called


for _name in ("_build_and_solve_system", "compute_interpolation", "polynomial_matrix"):
    of_tensors("scipy.interpolate._rbfinterp_np", _name)(_generic(_name))

fitpack.enter(_basis)
older.enter(globals())

_SURFACE = "FITPACK fits surfaces in loops of its own; use RegularGridInterpolator or RBFInterpolator"

REFUSED: dict[str, str] = {
    "UnivariateSpline(s)": SMOOTHED,
    "splrep(s)": SMOOTHED,
    "splprep": SMOOTHED,
    "make_smoothing_spline(lam=None)": "its matrices are sparse ones of SciPy; use make_lsq_spline",
    "insert": "FITPACK inserts the knot; use a BSpline with the knots that are wanted from the beginning",
    "spalde": "FITPACK evaluates all derivatives at once; use splev with der=, or BSpline",
    "lagrange": "numpy.poly1d holds no Tensors; use BarycentricInterpolator or KroghInterpolator",
    "pade": "numpy.poly1d holds no Tensors; solve the linear system of its coefficients with numpy.linalg.solve",
    "AAA": "it chooses points by their errors; use FloaterHormannInterpolator",
    "NdPPoly": "polynomials of several variables are compiled; use NdBSpline or RegularGridInterpolator",
    "PPoly.solve": "how many roots there are depends on the coefficients; use functad.custom_root around one of them",
    "sproot": "how many roots there are depends on the coefficients; use functad.custom_root around one of them",
    **dict.fromkeys(("bisplrep", "bisplev", "RectBivariateSpline", "SmoothBivariateSpline", "LSQBivariateSpline"), _SURFACE),
    **dict.fromkeys(("RectSphereBivariateSpline", "SmoothSphereBivariateSpline", "LSQSphereBivariateSpline"), _SURFACE),
}
"""Functions that reject Tensors, and the reasons."""

_CLASSES = [name for name in REFUSED if name.isidentifier() and not name.islower()]
interpolators.refuse_classes({name: REFUSED[name] for name in _CLASSES if name != "NdPPoly"})
refuse(_PPOLY, {"evaluate_nd": REFUSED["NdPPoly"]})
refuse("scipy.interpolate", {name: reason for name, reason in REFUSED.items() if name.isidentifier() and name.islower()})
for _part in ("scipy.interpolate._dfitpack", "scipy.interpolate._fitpack"):  # before SciPy 1.18, and since
    refuse(_part, dict.fromkeys(("fpcurf0", "fpcurf1", "fpcurfm1", "curfit", "percur"), SMOOTHED))
refuse(_PPOLY, {"real_roots": REFUSED["PPoly.solve"]})
