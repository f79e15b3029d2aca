"""Continuous distributions whose densities, distribution functions or quantiles SciPy compiles, integrates or searches.

Most distributions are differentiated as SciPy writes them. Here quantiles follow from the distribution function by the implicit
function theorem, distribution functions that SciPy integrates from an integral of the density, and densities that SciPy
compiles from their formulas. The values are SciPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _continuous_distns as continuous
from scipy.stats import _levy_stable
from scipy.stats._distn_infrastructure import rv_continuous, rv_discrete, rv_generic

from functad.adoption.arrays import has_tensors
from functad.adoption.scipy_functions import of_methods
from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.operands import innermost, is_traced
from functad.rules.custom import custom_jvp
from functad.scipy._integrals import Proven, beyond, log_kve, log_mixture, outside, plain, valued, within
from functad.tracing.traces.base import resolve
from functad.transforms.jvp import jvp


def of_class(name: str, *methods: str, module: Any = continuous) -> Callable[[Any], Any]:
    """Return a decorator that enters methods of a distribution, if the SciPy that is installed has it."""
    kind = getattr(module, f"{name}_gen", None)
    return (lambda function: function) if kind is None else of_methods(kind, *methods)


def like_scipy(original: Any, formula: Any, self: Any, *args: Any) -> Any:
    """Return SciPy's value, where the arguments are known, with the derivatives of a formula."""
    known = plain(*args)
    if known is None or any(np.size(value) == 0 for value in known):
        return formula
    with outside():
        value = original(self, *known)
    return valued(value, formula)


# Quantiles: with `F(x, theta) = q`, `dx = (dq - dF/dtheta dtheta) / f(x, theta)`


def _quantile(original: Any, self: Any, q: Any, *args: Any, upper: bool) -> Any:
    if plain(q, *args) is None:
        name = "isf" if upper else "ppf"
        raise UnsupportedError(
            f"{self.name}.{name} is found by a search, which needs values that are not known in jit or vmap, at {here()}. Call "
            f"it outside of them, or for all examples at once."
        )

    @custom_jvp
    def solved(*values: Any) -> Any:
        with outside():
            return original(self, *_floats(*values))

    @solved.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        x = solved(*primals)
        args = primals[1:]
        moved = [i for i, t in enumerate(tangents[1:]) if t is not None and dtype_of(args[i]).kind == "f"]
        rate = tangents[0]
        if moved:

            def at(*some: Any) -> Any:
                full = list(args)
                for i, value in zip(moved, some, strict=True):
                    full[i] = value
                return (self._sf if upper else self._cdf)(x, *full)

            drift = jvp(at, tuple([args[i] for i in moved]), tuple([tangents[1:][i] for i in moved]))[1]
            rate = -drift if rate is None else rate - drift
        if has_tensors((x, *args)):
            density = self._pdf(x, *args)
        else:
            with outside():
                density = self._pdf(x, *args)
        return x, (-rate if upper else rate) / density

    solved.checks = Proven()
    return solved(q, *args)


def _floats(*args: Any) -> list[Any]:
    return [plain(a)[0] if is_traced(a) else a for a in args]  # type: ignore[index]


def _ppf(original: Any, self: Any, q: Any, *args: Any) -> Any:
    """The quantile function of any distribution; of a discrete one it is constant between its steps."""
    if isinstance(self, rv_discrete):
        with outside():
            return original(self, *_floats(q, *args))
    return _quantile(original, self, q, *args, upper=False)


def _isf(original: Any, self: Any, q: Any, *args: Any) -> Any:
    """The inverse of the survival function, likewise."""
    return _quantile(original, self, q, *args, upper=True)


of_methods(rv_generic, "_ppf")(_ppf)
_SEARCHED = (
    "beta betaprime cauchy cosine foldcauchy invgauss jf_skew_t landau ncf nct ncx2 rdist semicircular skewnorm wald "
    "ksone kstwobign norminvgauss vonmises vonmises_line tukeylambda"
)
for _name in _SEARCHED.split():
    _kind = getattr(continuous, f"{_name}_gen", None)
    if _kind is not None:
        if "_ppf" in vars(_kind):
            of_methods(_kind, "_ppf")(_ppf)
        if "_isf" in vars(_kind):
            of_methods(_kind, "_isf")(_isf)


# Distribution functions that SciPy integrates


def _integral(self: Any, x: Any, args: tuple[Any, ...]) -> Any:
    """Return the integral of the density up to x; or one minus that from x on, where both ends are infinite and x is above."""
    low, high = (-np.pi, np.inf) if isinstance(self, continuous.vonmises_gen) else self._get_support(*args)
    shape = np.broadcast_shapes(*[shape_of(v) for v in (x, *args)])
    x, *args = [np.broadcast_to(v, shape) for v in (x, *args)]  # type: ignore[assignment]

    def density(nodes: Any) -> Any:
        return self._pdf(nodes, *[np.broadcast_to(np.expand_dims(a, -1), shape_of(nodes)) for a in args])

    if np.all(np.isfinite(_bound(low))):
        return within(density, np.broadcast_to(low, shape), x)
    if np.all(np.isfinite(_bound(high))):
        return 1 - within(density, x, np.broadcast_to(high, shape))
    known = plain(x, *args)
    side: Any = -1.0
    if known is not None:
        with outside():
            side = np.where(known[0] < self.mean(*known[1:]), -1.0, 1.0)
    side = np.broadcast_to(side, shape)
    return (1 + side) / 2 - side * beyond(density, x, side)


def _bound(end: Any) -> Any:
    known = plain(end)
    return np.asarray(0.0 if known is None else known[0], dtype=float)


def _cdf(original: Any, self: Any, x: Any, *args: Any) -> Any:
    """The distribution function with the derivatives of the integral of the density."""
    return like_scipy(original, _integral(self, x, args), self, x, *args)


def _sf(original: Any, self: Any, x: Any, *args: Any) -> Any:
    """One minus the distribution function, likewise."""
    return like_scipy(original, 1 - _integral(self, x, args), self, x, *args)


of_methods(rv_continuous, "_cdf")(_cdf)
for _name in ["geninvgauss", "genhyperbolic", "norminvgauss", "vonmises", "ncx2", "ncf"]:
    _kind = getattr(continuous, f"{_name}_gen", None)
    if _kind is not None:
        if "_cdf" in vars(_kind):
            of_methods(_kind, "_cdf")(_cdf)
        if "_sf" in vars(_kind):
            of_methods(_kind, "_sf")(_sf)


@of_class("skewnorm", "_cdf")
def _skewnorm_cdf(original: Any, self: Any, x: Any, a: Any) -> Any:
    """`Phi(x) - 2 T(x, a)` with the function of Owen (1956)."""
    return like_scipy(original, special.ndtr(x) - 2 * special.owens_t(x, a), self, x, a)


@of_class("cosine", "_cdf")
def _cosine_cdf(original: Any, self: Any, x: Any) -> Any:
    """`(pi + x + sin x) / (2 pi)`."""
    return like_scipy(original, (np.pi + x + np.sin(x)) / (2 * np.pi), self, x)


@of_class("cosine", "_sf")
def _cosine_sf(original: Any, self: Any, x: Any) -> Any:
    """One minus that."""
    return like_scipy(original, (np.pi - x - np.sin(x)) / (2 * np.pi), self, x)


@of_class("nct", "_sf")
def _nct_sf(original: Any, self: Any, x: Any, df: Any, nc: Any) -> Any:
    """One minus the distribution function."""
    return like_scipy(original, 1 - special.nctdtr(df, nc, x), self, x, df, nc)


# Distribution functions of which only the derivative by x is known, so by location and scale too


def _by_density(original: Any, self: Any, x: Any, *args: Any, sign: float) -> Any:
    shapes = [_constant(self, a) for a in args]

    @custom_jvp
    def solved(x: Any) -> Any:
        with outside():
            return original(self, *_floats(x), *shapes)

    @solved.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return solved(*primals), tangents[0] * self._pdf(primals[0], *shapes) * sign

    solved.checks = Proven()
    return solved(x) if is_traced(x) else original(self, x, *shapes)


def _constant(self: Any, value: Any) -> Any:
    """Return the plain value of a shape parameter by which there is no derivative."""
    outer = resolve(value) if is_traced(value) else value
    if is_traced(outer) and not outer.recorder.is_constant(outer):
        raise UnsupportedError(
            f"scipy.stats.{self.name} cannot be differentiated with respect to its shape parameters, at {here()}: "
            f"{UNKNOWN_DENSITIES.get(self.name, 'they are counts')}. Pass them as plain numbers."
        )
    return innermost(outer)


def _only_by_x(original: Any, self: Any, x: Any, *args: Any) -> Any:
    """The density, whose derivatives are not known."""
    shapes = [_constant(self, a) for a in args]
    outer = resolve(x) if is_traced(x) else x
    if is_traced(outer) and not outer.recorder.is_constant(outer):
        raise UnsupportedError(
            f"The density of scipy.stats.{self.name} has no derivative here, at {here()}: {UNKNOWN_DENSITIES[self.name]}. Its "
            f"cdf, sf, ppf and isf are differentiated once by their argument, loc and scale; functad.stop_gradient(x) is one."
        )
    with outside():
        return original(self, innermost(outer), *shapes)


UNKNOWN_DENSITIES: dict[str, str] = {
    "kstwo": "SciPy computes the density from matrix powers and differences, and no formula holds for all numbers of samples",
    "levy_stable": "SciPy integrates the density piece by piece by compiled code, and its derivatives have no closed form",
    "studentized_range": "SciPy integrates the density twice by compiled code",
}
"""Distributions whose density has no derivative, and why."""

for _name in UNKNOWN_DENSITIES:
    _kind = getattr(continuous, f"{_name}_gen", getattr(_levy_stable, f"{_name}_gen", None))
    if _kind is not None:
        for _method, _function in (
            ("_cdf", partial(_by_density, sign=1.0)),
            ("_sf", partial(_by_density, sign=-1.0)),
            ("_pdf", _only_by_x),
            ("_logpdf", _only_by_x),
            ("_ppf", _ppf),
            ("_isf", _isf),
        ):
            if _method in vars(_kind):
                of_methods(_kind, _method)(_function)


for _method, _sign in (("_cdf", 1.0), ("_sf", -1.0)):
    of_class("landau", _method)(partial(_by_density, sign=_sign))


@of_class("landau", "_pdf")
def _landau_pdf(original: Any, self: Any, x: Any) -> Any:
    """The density of Landau (1944), by Fourier's integral for small x and by that along the other axis for large.

    These are the integrals of `exp(-t) cos(t x + 2/pi t log t) / pi` and, with `y = pi x / 2 + log(pi / 2)`, of
    `exp(-y t - t log t) sin(pi t) / 2`.
    """
    large = x > 0
    y = np.expand_dims(np.where(large, x, 1.0) * (np.pi / 2) + np.log(np.pi / 2), -1)
    z = np.expand_dims(np.where(large, 0.0, x), -1)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t, w = (nodes + 1) * 21, weights * 21
    left = np.sum(np.exp(-t) * np.cos(t * z + (2 / np.pi) * t * np.log(t)) * w, -1) / np.pi
    u = t / y
    right = np.sum(np.exp(-t - u * np.log(u)) * np.sin(np.pi * u) * (w / y), -1) / 2
    return like_scipy(original, np.where(large, right, left), self, x)


# Densities


def _density(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that enters a formula for the logarithm of a density as that and as the density."""

    def enter(formula: Callable[..., Any]) -> Callable[..., Any]:
        def logpdf(original: Any, self: Any, x: Any, *args: Any) -> Any:
            return like_scipy(original, formula(x, *args), self, x, *args)

        def pdf(original: Any, self: Any, x: Any, *args: Any) -> Any:
            return like_scipy(original, np.exp(formula(x, *args)), self, x, *args)

        kind = getattr(continuous, f"{name}_gen", None)
        if kind is not None:
            if "_logpdf" in vars(kind):
                of_class(name, "_logpdf")(logpdf)
            if "_pdf" in vars(kind):
                of_class(name, "_pdf")(pdf)
        return formula

    return enter


@_density("beta")
def _beta(x: Any, a: Any, b: Any) -> Any:
    """`x^(a-1) (1-x)^(b-1) / B(a, b)`."""
    return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)


@_density("geninvgauss")
def _geninvgauss(x: Any, p: Any, b: Any) -> Any:
    """`x^(p-1) exp(-b (x + 1/x) / 2) / (2 K_p(b))`."""
    return (p - 1) * np.log(x) - b * ((x + 1 / x) / 2 - 1) - np.log(2.0) - log_kve(p, b)


@_density("genhyperbolic")
def _genhyperbolic(x: Any, p: Any, a: Any, b: Any) -> Any:
    """The density of Barndorff-Nielsen (1977), with the Bessel functions of orders `p` and `p - 1/2`."""
    d = np.sqrt((a - b) * (a + b))
    root = np.sqrt(1 + x * x)
    norm = p * np.log(d) - np.log(2 * np.pi) / 2 - (p - 0.5) * np.log(a) - log_kve(p, d) + d
    return norm + (p - 0.5) * np.log(root) + log_kve(p - 0.5, a * root) - a * root + b * x


@_density("gausshyper")
def _gausshyper(x: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
    """`x^(a-1) (1-x)^(b-1) (1+zx)^(-c)` over its integral, which is taken in two halves, for the powers at both ends."""
    wide = [np.expand_dims(v, -1) for v in (a, b, c, z)]
    zero, half = np.zeros(np.broadcast_shapes(*map(shape_of, (a, b, c, z)))), 0.5

    def left(t: Any) -> Any:
        return t ** (wide[0] - 1) * (1 - t) ** (wide[1] - 1) * (1 + wide[3] * t) ** -wide[2]

    def right(t: Any) -> Any:
        return (1 - t) ** (wide[0] - 1) * t ** (wide[1] - 1) * (1 + wide[3] * (1 - t)) ** -wide[2]

    norm = within(left, zero, zero + half) + within(right, zero, zero + half)
    return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - c * np.log1p(z * x) - np.log(norm)


@_density("ncx2")
def _ncx2(x: Any, df: Any, nc: Any) -> Any:
    """The mean of the densities of chi squared for `df + 2j`, where j has Poisson's distribution of mean nc/2."""
    y, v = np.expand_dims(x, -1), np.expand_dims(df, -1)

    def log_term(j: Any) -> Any:
        a = v / 2 + j
        return special.xlogy(a - 1, y / 2) - y / 2 - special.gammaln(a) - np.log(2.0)

    return log_mixture(log_term, nc / 2)


@_density("ncf")
def _ncf(x: Any, dfn: Any, dfd: Any, nc: Any) -> Any:
    """The mean of the densities of `u / (1 - u)` with u of the beta distribution for `dfn/2 + j, dfd/2`, likewise."""
    ratio = np.expand_dims(x * dfn / dfd, -1)
    m, n = np.expand_dims(dfn, -1), np.expand_dims(dfd, -1)

    def log_term(j: Any) -> Any:
        a, b = m / 2 + j, n / 2
        return special.xlogy(a - 1, ratio) - (a + b) * np.log1p(ratio) - special.betaln(a, b) + np.log(m / n)

    return log_mixture(log_term, nc / 2)


@of_class("nct", "_pdf")
def _nct_pdf(original: Any, self: Any, x: Any, df: Any, nc: Any) -> Any:
    """The derivative of the distribution function: a mean over the distribution of chi."""
    from functad.primitives.scipy_special.noncentral import T_EXPECTATION  # noqa: PLC0415 - not every import needs it

    return like_scipy(original, T_EXPECTATION(df, nc, x, order=1, power=1, scores=0), self, x, df, nc)


def _splines(x: Any, n: Any, add: int) -> Any:
    """Return cardinal B-splines of degree `n - 1 + add` at x, x - 1, ...: by the recursion of de Boor (1972).

    The last axis is of the shifts.
    """
    counts = np.asarray(n).astype(int)
    out: Any = 0.0
    for count in np.unique(counts):
        m = int(count) + add
        shifted = np.expand_dims(x, -1) - np.arange(m + 1)
        values = np.where((shifted >= 0) & (shifted < 1), 1.0, 0.0)
        for k in range(2, m + 1):
            after = np.concatenate([values[..., 1:], np.zeros_like(values[..., :1])], -1)
            values = (shifted * values + (k - shifted) * after) / (k - 1)
        total = values[..., 0] if add == 0 else np.sum(values, -1)
        out = np.where(counts == count, total, out)
    return out


@of_class("irwinhall", "_pdf")
def _irwinhall_pdf(original: Any, self: Any, x: Any, n: Any) -> Any:
    """A cardinal B-spline of degree n - 1."""
    return like_scipy(original, _splines(x, _constant(self, n), 0), self, x, n)


@of_class("irwinhall", "_cdf")
def _irwinhall_cdf(original: Any, self: Any, x: Any, n: Any) -> Any:
    """The sum of those of degree n at x, x - 1, ..."""
    return like_scipy(original, _splines(x, _constant(self, n), 1), self, x, n)


@of_class("irwinhall", "_sf")
def _irwinhall_sf(original: Any, self: Any, x: Any, n: Any) -> Any:
    """The same at n - x."""
    n = _constant(self, n)
    return like_scipy(original, _splines(n - x, n, 1), self, x, n)
