"""Derivatives of `scipy.special` in first and second order against mpmath, which differentiates with 40 digits."""

import functools
import warnings

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import functad


def _normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _incomplete_beta(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def _lower_gamma(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def _student(v, t):
    return mp.mpf(1) / 2 + mp.sign(t) * (1 - _incomplete_beta(v / 2, mp.mpf(1) / 2, v / (v + t * t))) / 2


def _carlson_c(x, y):
    return mp.elliprc(x, y)


def _jacobi(kind):
    return lambda u, m: mp.ellipfun(kind, u, m=m)


def _expint(n):
    return lambda x: mp.expint(n, x)


def _bessel(f, order):
    return lambda x: f(order, x)


def _polynomial(f, *parameters):
    return lambda x: f(*parameters, x)


def _poisson_mean(f, nc):
    """The mean of f over counts of Poisson's distribution with the mean nc/2."""
    half = nc / 2
    return mp.exp(-half) * sum(half**j / mp.factorial(j) * f(j) for j in range(40))


def _noncentral_chi_square(df):
    return lambda x, nc: _poisson_mean(lambda j: _lower_gamma(mp.mpf(df) / 2 + j, x / 2), nc)


def _noncentral_f(dfn, dfd):
    return lambda nc, f: _poisson_mean(
        lambda j: mp.betainc(mp.mpf(dfn) / 2 + j, mp.mpf(dfd) / 2, 0, dfn * f / (dfd + dfn * f), regularized=True), nc
    )


def _noncentral_t(df, nc, t):
    """`P((Z + nc) / w <= t)`, a mean over w by mpmath's own quadrature."""
    scale = 2 * (df / 2) ** (df / 2) / mp.gamma(df / 2)
    ends = [0, 0.5, 1, 1.5, 2, 3, 6]
    return mp.quad(lambda w: scale * w ** (df - 1) * mp.exp(-df * w * w / 2) * mp.ncdf(t * w - nc), ends)


def _smirnov(n):
    def survival(d):
        count = int(mp.floor(n * (1 - d)))
        return d * sum(
            mp.binomial(n, j) * (d + mp.mpf(j) / n) ** (j - 1) * (1 - d - mp.mpf(j) / n) ** (n - j) for j in range(count + 1)
        )

    return survival


# Name, what mpmath calls it, points (a tuple each, every argument of which is differentiated), arguments that stand before.
FUNCTIONS = [
    ("gamma", mp.gamma, [(0.5,), (1.0,), (12.25,), (-1.5,), (1e-3,), (30.5,)]),
    ("gammaln", mp.loggamma, [(0.5,), (1.0,), (2.0,), (1e-3,), (1e4,)]),
    ("loggamma", mp.loggamma, [(0.5,), (1.0,), (1e4,)]),
    ("rgamma", mp.rgamma, [(0.0,), (-1.0,), (-4.0,), (-2.5,), (0.5,), (0.499,), (8.0,), (1e-6,)]),
    ("psi", mp.digamma, [(0.5,), (1.0,), (-1.5,), (40.0,), (1.4616,)]),
    ("poch", mp.rf, [(1.5, 2.25), (0.5, 0.5), (7.0, 1.0)]),
    ("binom", mp.binomial, [(5.5, 2.25), (3.0, 1.0), (40.0, 20.0), (4.0, 4.0)]),
    ("beta", mp.beta, [(0.5, 0.5), (2.0, 3.5), (10.0, 0.25)]),
    ("betaln", lambda a, b: mp.log(mp.beta(a, b)), [(0.5, 0.5), (2.0, 3.5), (50.0, 0.25)]),
    ("erf", mp.erf, [(0.0,), (0.5,), (-3.0,), (5.0,)]),
    ("erfc", mp.erfc, [(0.0,), (-2.0,), (5.0,), (20.0,)]),
    ("erfi", mp.erfi, [(0.0,), (0.5,), (-3.0,)]),
    ("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), [(0.0,), (-1.0,), (3.0,), (6.4,), (6.6,), (40.0,), (1e4,)]),
    ("dawsn", lambda x: mp.exp(-x * x) * mp.erfi(x) * mp.sqrt(mp.pi) / 2, [(0.0,), (-1.0,), (6.4,), (-6.6,), (25.0,)]),
    ("erfinv", mp.erfinv, [(0.0,), (0.5,), (-0.99,)]),
    ("erfcinv", lambda x: mp.erfinv(1 - x), [(1.0,), (0.5,), (1.9,), (1e-8,)]),
    ("ndtr", _normal, [(0.0,), (-2.0,), (-10.0,), (3.0,)]),
    ("log_ndtr", lambda x: mp.log(_normal(x)), [(0.0,), (2.0,), (-5.0,), (-30.0,), (6.0,)]),
    ("ndtri", lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [(0.5,), (0.01,), (0.9,), (1e-8,)]),
    ("ndtri_exp", lambda y: mp.sqrt(2) * mp.erfinv(2 * mp.exp(y) - 1), [(-0.5,), (-0.01,), (-3.0,), (-30.0,)]),
    (
        "owens_t",
        lambda h, a: mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi),
        [(0.5, 1.0), (0.0, 0.5), (2.0, -0.75)],
    ),
    ("exp1", mp.e1, [(0.01,), (1.0,), (10.0,)]),
    ("expi", mp.ei, [(0.01,), (1.0,), (-2.0,), (10.0,)]),
    ("expn", _expint(0), [(0.3,), (4.0,)], 0),
    ("expn", _expint(1), [(0.3,), (4.0,)], 1),
    ("expn", _expint(2), [(0.3,), (4.0,)], 2),
    ("expn", _expint(5), [(0.3,), (4.0,)], 5),
    ("spence", lambda z: mp.polylog(2, 1 - z), [(1.0,), (1.14,), (1.16,), (0.5,), (0.01,), (1.9,)]),
    ("wrightomega", lambda z: mp.lambertw(mp.exp(z)), [(0.0,), (-3.0,), (10.0,)]),
    ("exprel", lambda x: mp.expm1(x) / x if x else mp.mpf(1), [(0.01,), (1.0,), (3.99,), (4.01,), (-12.0,), (20.0,)]),
    ("powm1", lambda x, y: x**y - 1, [(1.5, 2.0), (0.5, -0.75)]),
    ("expit", lambda x: 1 / (1 + mp.exp(-x)), [(0.0,), (-40.0,), (30.0,)]),
    ("log_expit", lambda x: -mp.log1p(mp.exp(-x)), [(0.0,), (-40.0,), (30.0,)]),
    ("logit", lambda x: mp.log(x / (1 - x)), [(0.5,), (0.01,), (0.999,)]),
    ("xlogy", lambda x, y: x * mp.log(y), [(0.0, 2.0), (1.5, 0.25)]),
    ("xlog1py", lambda x, y: x * mp.log1p(y), [(0.0, 2.0), (1.5, 1e-6)]),
    ("entr", lambda x: -x * mp.log(x), [(0.25,), (3.0,)]),
    ("rel_entr", lambda x, y: x * mp.log(x / y), [(0.25, 0.5), (3.0, 1.0)]),
    ("kl_div", lambda x, y: x * mp.log(x / y) - x + y, [(0.25, 0.5), (3.0, 1.0)]),
    ("pseudo_huber", lambda d, r: d**2 * (mp.sqrt(1 + (r / d) ** 2) - 1), [(1.0, 0.5), (0.5, -3.0), (2.0, 1e-3)]),
    ("boxcox", lambda x, p: (x**p - 1) / p, [(2.0, 0.5), (0.25, -1.5), (3.0, 1e-6)]),
    ("boxcox1p", lambda x, p: ((1 + x) ** p - 1) / p, [(2.0, 0.5), (0.25, -1.5)]),
    ("inv_boxcox", lambda y, p: (1 + p * y) ** (1 / p), [(0.5, 0.5), (-0.25, 1.5), (1.0, 1e-6)]),
    ("inv_boxcox1p", lambda y, p: (1 + p * y) ** (1 / p) - 1, [(0.5, 0.5), (-0.25, 1.5)]),
    ("cosm1", lambda x: mp.cos(x) - 1, [(0.0,), (1e-5,), (2.0,)]),
    ("sindg", lambda x: mp.sin(mp.radians(x)), [(0.0,), (30.0,), (90.0,)]),
    ("cosdg", lambda x: mp.cos(mp.radians(x)), [(0.0,), (30.0,), (90.0,)]),
    ("tandg", lambda x: mp.tan(mp.radians(x)), [(0.0,), (30.0,)]),
    ("cotdg", lambda x: mp.cot(mp.radians(x)), [(10.0,), (130.0,)]),
    ("exp10", lambda x: mp.mpf(10) ** x, [(0.0,), (-3.5,)]),
    *[(f, _bessel(mp.besselj, n), [(1e-3,), (1.0,), (20.0,), (0.0,)]) for n, f in enumerate(("j0", "j1"))],
    *[(f, _bessel(mp.bessely, n), [(0.1,), (1.0,), (20.0,)]) for n, f in enumerate(("y0", "y1"))],
    *[(f, _bessel(mp.besseli, n), [(0.0,), (1.0,), (20.0,)]) for n, f in enumerate(("i0", "i1"))],
    *[(f, _bessel(mp.besselk, n), [(0.1,), (1.0,), (20.0,)]) for n, f in enumerate(("k0", "k1"))],
    *[(f, lambda x, n=n: mp.besseli(n, x) * mp.exp(-x), [(0.5,), (20.0,)]) for n, f in enumerate(("i0e", "i1e"))],
    *[(f, lambda x, n=n: mp.besselk(n, x) * mp.exp(x), [(0.5,), (20.0,)]) for n, f in enumerate(("k0e", "k1e"))],
    *[("jv", _bessel(mp.besselj, v), [(0.5,), (15.0,)], v) for v in (0.0, 0.5, 2.25, -1.5, 10.0)],
    *[("yv", _bessel(mp.bessely, v), [(0.5,), (15.0,)], v) for v in (0.0, 0.5, 2.25)],
    *[("iv", _bessel(mp.besseli, v), [(0.5,), (15.0,)], v) for v in (0.0, 0.5, 2.25, -1.5)],
    *[("kv", _bessel(mp.besselk, v), [(0.5,), (15.0,)], v) for v in (0.0, 0.5, 2.25)],
    *[("kve", lambda x, v=v: mp.besselk(v, x) * mp.exp(x), [(0.5,), (15.0,)], v) for v in (0.0, 2.25)],
    *[("ive", lambda x, v=v: mp.besseli(v, x) * mp.exp(-x), [(0.5,), (15.0,)], v) for v in (0.0, 2.25)],
    *[("struve", _bessel(mp.struveh, v), [(0.5,), (6.0,)], v) for v in (0.0, 1.5)],
    *[("modstruve", _bessel(mp.struvel, v), [(0.5,), (6.0,)], v) for v in (0.0, 1.5)],
    *[("kn", _bessel(mp.besselk, n), [(0.5,), (5.0,)], n) for n in (0, 1, 3)],
    *[("yn", _bessel(mp.bessely, n), [(0.5,), (5.0,)], n) for n in (0, 1, 3)],
    ("ber", lambda x: mp.ber(0, x), [(0.5,), (4.0,)]),
    ("bei", lambda x: mp.bei(0, x), [(0.5,), (4.0,)]),
    ("ker", lambda x: mp.ker(0, x), [(0.5,), (4.0,)]),
    ("kei", lambda x: mp.kei(0, x), [(0.5,), (4.0,)]),
    *[("gammainc", lambda x, a=a: mp.gammainc(a, 0, x, regularized=True), [(0.25,), (6.0,)], a) for a in (0.5, 1.0, 4.5)],
    *[("gammaincc", lambda x, a=a: mp.gammainc(a, x, regularized=True), [(0.25,), (20.0,)], a) for a in (0.5, 1.0, 4.5)],
    ("betainc", lambda x: _incomplete_beta(1.5, 0.75, x), [(0.25,), (0.01,), (0.95,)], 1.5, 0.75),
    ("gammainc", _lower_gamma, [(0.3, 0.1), (0.01, 1e-10), (0.3, 5.0), (2.5, 1.0), (2.5, 4.0), (100.0, 90.0), (1e4, 10100.0)]),
    ("gammaincc", lambda a, x: mp.gammainc(a, x, regularized=True), [(0.3, 0.1), (2.5, 40.0), (1e-3, 1.5), (60.0, 90.0)]),
    ("betainc", _incomplete_beta, [(2.5, 1.0, 0.3), (2.5, 4.0, 0.9), (0.3, 0.1, 0.5), (0.01, 0.02, 1e-10), (100.0, 90.0, 0.5)]),
    ("betainc", _incomplete_beta, [(0.3, 5.0, 0.2), (5.0, 0.25, 0.99), (40.0, 0.5, 0.97), (0.5, 300.0, 0.002)]),
    ("betaincc", lambda a, b, x: 1 - _incomplete_beta(a, b, x), [(2.5, 1.0, 0.3), (0.3, 0.1, 0.5)]),
    ("chdtr", lambda v, x: _lower_gamma(v / 2, x / 2), [(2.5, 1.75), (0.5, 0.25), (30.0, 22.0)]),
    ("gdtr", lambda a, b, x: _lower_gamma(b, a * x), [(0.5, 2.5, 4.0)]),
    ("stdtr", _student, [(2.5, 0.5), (2.5, -4.0), (30.0, 0.01), (1.0, 50.0), (0.75, -1.0)]),
    ("fdtr", lambda m, n, x: _incomplete_beta(m / 2, n / 2, m * x / (n + m * x)), [(2.5, 4.0, 1.75), (1.0, 30.0, 0.01)]),
    ("zeta", mp.zeta, [(2.5, 0.5), (1.01, 3.0), (12.0, 0.25), (30.0, 2.0)]),
    ("zeta", mp.zeta, [(2.0,), (1.001,), (0.5,), (0.0,), (20.0,), (-0.5,), (-3.25,), (-8.0,)]),
    ("zetac", lambda x: mp.zeta(x) - 1, [(2.0,), (1.1,), (0.25,), (35.0,), (-1.5,)]),
    ("ellipk", mp.ellipk, [(0.0,), (0.1,), (0.149,), (0.151,), (-0.151,), (0.5,), (0.99,), (-8.0,)]),
    ("ellipkm1", lambda p: mp.ellipk(1 - p), [(1.0,), (0.5,), (1e-6,), (1.9,)]),
    ("ellipe", mp.ellipe, [(0.0,), (0.149,), (-0.151,), (0.5,), (0.99,), (-8.0,)]),
    ("ellipkinc", mp.ellipf, [(0.5, 0.0), (1.5, 0.14), (1.2, 0.16), (4.0, 0.5), (-0.75, -3.0)]),
    ("ellipeinc", mp.ellipe, [(0.5, 0.0), (1.5, 0.14), (1.2, 0.16), (4.0, 0.5), (-0.75, -3.0)]),
    ("agm", mp.agm, [(1.0, 1.0), (1.0, 2.0), (0.01, 3.0), (2.0, 2.0001)]),
    ("elliprf", mp.elliprf, [(1.0, 2.0, 3.5), (0.1, 0.2, 5.0)]),
    ("elliprg", mp.elliprg, [(1.0, 2.0, 3.5), (0.1, 0.2, 5.0)]),
    ("elliprc", _carlson_c, [(1.0, 2.0), (1.0, 1.0), (1.0, 1.14), (1.0, 1.16), (3.0, 0.5)]),
    ("elliprd", mp.elliprd, [(1.0, 2.0, 3.5), (0.1, 0.2, 5.0)]),
    ("elliprj", mp.elliprj, [(1.0, 2.0, 3.5, 5.0), (0.1, 0.2, 0.7, 2.0)]),
    ("hyp0f1", lambda z: mp.hyp0f1(1.5, z), [(0.0,), (-3.0,), (8.0,)], 1.5),
    ("hyp1f1", lambda z: mp.hyp1f1(0.5, 2.5, z), [(0.0,), (-3.0,), (8.0,)], 0.5, 2.5),
    ("hyp2f1", lambda z: mp.hyp2f1(0.5, 0.75, 2.5, z), [(0.0,), (-3.0,), (0.8,)], 0.5, 0.75, 2.5),
    ("hyperu", lambda z: mp.hyperu(1.5, 1.25, z), [(0.5,), (3.0,)], 1.5, 1.25),
    *[("eval_legendre", _polynomial(mp.legendre, n), [(0.0,), (1.0,), (-1.0,), (0.3,)], n) for n in (0, 1, 2, 7)],
    *[("eval_chebyt", _polynomial(mp.chebyt, n), [(0.0,), (1.0,), (0.3,)], n) for n in (0, 1, 2, 7)],
    *[("eval_chebyu", _polynomial(mp.chebyu, n), [(0.0,), (1.0,), (0.3,)], n) for n in (0, 1, 2, 7)],
    *[("eval_hermite", _polynomial(mp.hermite, n), [(0.0,), (1.5,)], n) for n in (0, 1, 2, 7)],
    *[("eval_laguerre", lambda x, n=n: mp.laguerre(n, 0, x), [(0.0,), (1.5,)], n) for n in (0, 1, 2, 7)],
    *[("eval_genlaguerre", lambda x, n=n: mp.laguerre(n, 1.5, x), [(0.0,), (1.5,)], n, 1.5) for n in (0, 1, 2, 5)],
    *[("eval_gegenbauer", lambda x, n=n: mp.gegenbauer(n, 1.5, x), [(0.3,), (1.0,)], n, 1.5) for n in (0, 1, 2, 5)],
    *[("eval_jacobi", lambda x, n=n: mp.jacobi(n, 1.5, 0.5, x), [(0.3,), (1.0,)], n, 1.5, 0.5) for n in (0, 1, 2, 5)],
    (
        "stdtr",
        lambda t: mp.mpf(1) / 2 + mp.sign(t) * (1 - _incomplete_beta(1.25, 0.5, 2.5 / (2.5 + t * t))) / 2,
        [(0.5,), (-4.0,)],
        2.5,
    ),
    ("chdtr", lambda x: mp.gammainc(1.25, 0, x / 2, regularized=True), [(0.5,), (9.0,)], 2.5),
    *[("smirnov", _smirnov(n), [(0.15,), (0.45,), (0.85,)], n) for n in (2, 5, 30)],
    ("pdtr", lambda m: mp.gammainc(4, m, regularized=True), [(0.5,), (9.0,)], 3),
    (
        "kolmogorov",
        lambda x: 2 * mp.nsum(lambda k: (-1) ** (int(k) - 1) * mp.exp(-2 * k * k * x * x), [1, 40]),
        [(0.79,), (0.81,), (2.0,)],
    ),
]

# Results of functions with several.
SEVERAL = [
    ("sici", [mp.si, mp.ci], [(0.5,), (8.0,)]),
    ("shichi", [mp.shi, mp.chi], [(0.5,), (4.0,)]),
    ("fresnel", [mp.fresnels, mp.fresnelc], [(0.0,), (0.5,), (3.0,)]),
    (
        "airy",
        [mp.airyai, lambda x: mp.airyai(x, derivative=1), mp.airybi, lambda x: mp.airybi(x, derivative=1)],
        [(0.0,), (-4.0,), (3.0,)],
    ),
    ("ellipj", [_jacobi("sn"), _jacobi("cn"), _jacobi("dn")], [(0.5, 0.3), (2.5, 0.1), (7.0, 0.8)]),
]


def _label(row):
    return "-".join(map(str, [row[0], *row[3:]]))


def _mpmath_derivative(f, point, orders):
    with mp.workdps(40):
        return complex(mp.diff(f, tuple(map(mp.mpf, point)) if len(point) > 1 else mp.mpf(point[0]), orders)).real


def _check(f, reference, point, tolerance=2e-10):
    count = len(point)
    argnums = tuple(range(count))
    gradient = functad.grad(f, argnums=argnums)(*point)
    hessian = [functad.grad(lambda *x, i=i: functad.grad(f, argnums=i)(*x), argnums=argnums)(*point) for i in argnums]
    exact = functools.cache(lambda orders: _mpmath_derivative(reference, point, orders if count > 1 else orders[0]))
    for i in argnums:
        expected = exact(tuple(int(j == i) for j in argnums))
        assert gradient[i] == pytest.approx(expected, rel=tolerance, abs=1e-14)
        for j in argnums:
            expected = exact(tuple(int(k == i) + int(k == j) for k in argnums))
            assert hessian[i][j] == pytest.approx(expected, rel=100 * tolerance, abs=1e-12)


@pytest.mark.parametrize("row", FUNCTIONS, ids=_label)
def test_derivatives(row):
    name, reference, points, *before = row
    function = getattr(special, name)
    for point in points:
        value = function(*before, *point)
        with mp.workdps(40):
            assert value == pytest.approx(float(mp.re(reference(*map(mp.mpf, point)))), rel=1e-9), point
        _check(lambda *x: function(*before, *x), reference, tuple(map(float, point)))


@pytest.mark.parametrize("row", SEVERAL, ids=_label)
def test_derivatives_of_several_results(row):
    name, references, points = row
    function = getattr(special, name)
    for i, reference in enumerate(references):
        for point in points:
            if name in ("sici", "shichi") or point != (0.0,):
                _check(lambda *x, i=i: function(*x)[i], reference, point)


@pytest.mark.parametrize(
    ("name", "inverse", "before", "x"),
    [
        ("gammainc", "gammaincinv", (2.5,), 1.75),
        ("gammaincc", "gammainccinv", (2.5,), 1.75),
        ("betainc", "betaincinv", (1.5, 0.75), 0.25),
        ("chdtrc", "chdtri", (2.5,), 1.75),
        ("fdtr", "fdtri", (2.5, 4.0), 1.75),
        ("pdtr", "pdtri", (3,), 1.75),
        ("smirnov", "smirnovi", (5,), 0.35),
        ("ncfdtr", "ncfdtri", (2.5, 4.0, 1.5), 1.75),
        ("nctdtr", "nctdtrit", (2.5, 0.5), 1.75),
        ("stdtr", "stdtrit", (2.5,), -0.75),
        ("bdtr", "bdtri", (2, 5), 0.25),
        ("nbdtr", "nbdtri", (2, 5), 0.25),
        ("kolmogorov", "kolmogi", (), 0.75),
        ("erf", "erfinv", (), 0.75),
        ("ndtr", "ndtri", (), 0.75),
        ("log_ndtr", "ndtri_exp", (), -4.5),
    ],
)
def test_inverse_has_the_inverse_derivative(name, inverse, before, x):
    def there_and_back(t):
        return getattr(special, inverse)(*before, getattr(special, name)(*before, t))

    assert functad.grad(there_and_back)(x) == pytest.approx(1.0, rel=1e-10)
    assert functad.grad(functad.grad(there_and_back))(x) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("z", [0.3 + 0.2j, -2.4 - 0.7j, -1.5 + 30j, 12 - 5j, -0.5 - 300j])
def test_complex_trigamma(z):
    tangent = functad.jvp(special.psi, (np.complex128(z),), (np.complex128(1),))[1]
    with mp.workdps(30):
        assert complex(tangent) == pytest.approx(complex(mp.psi(1, mp.mpc(z))), rel=1e-12)


@pytest.mark.parametrize("z", [0.5 + 0.5j, -3.0 + 0.1j, 6.4 + 1.0j, 6.6 - 0.5j, 0.1 + 9.0j, -20.0 + 20.0j])
def test_complex_derivative_of_wofz(z):
    tangent = functad.jvp(special.wofz, (np.complex128(z),), (np.complex128(1),))[1]
    with mp.workdps(40):
        expected = mp.diff(lambda z: mp.exp(-z * z) * mp.erfc(-1j * z), mp.mpc(z))
    assert complex(tangent) == pytest.approx(complex(expected), rel=1e-11)


@pytest.mark.parametrize("z", [0.5 + 0.5j, -0.5j - 0.1, 20 + 1j])
def test_complex_derivative_of_lambertw(z):
    tangent = functad.jvp(special.lambertw, (np.complex128(z),), (np.complex128(1),))[1]
    assert complex(tangent) == pytest.approx(complex(mp.diff(mp.lambertw, mp.mpc(z))), rel=1e-10)


# The noncentral distributions; mpmath has none, so sums and integrals of what it has are differentiated


def _check_gradient(f, reference, point):
    """As `_check`, with first derivatives and fewer digits: sums and integrals take long."""
    gradient = functad.grad(f, argnums=tuple(range(len(point))))(*point)
    with mp.workdps(20):
        values = list(map(mp.mpf, point))
        for i, slope in enumerate(gradient):
            expected = mp.diff(lambda t, i=i: reference(*values[:i], t, *values[i + 1 :]), values[i])
            assert slope == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize(("df", "point"), [(1.0, (2.0, 1.5)), (3.5, (0.3, 4.0)), (3.5, (12.0, 0.01))])
def test_noncentral_chi_square(df, point):
    _check_gradient(lambda x, nc: special.chndtr(x, df, nc), _noncentral_chi_square(df), point)


@pytest.mark.parametrize("df", [1.0, 3.5])
def test_noncentral_chi_square_where_the_density_is_taken_from_another_formula(df):
    with mp.workdps(30):
        distance = mp.sqrt(250) - mp.sqrt(200)
        bessel = mp.besseli(df / 2 - 1, mp.sqrt(50000)) * mp.exp(-mp.sqrt(50000))
        expected = float(mp.exp(-distance * distance / 2) * (mp.mpf(250) / 200) ** (df / 4 - 0.5) * bessel / 2)
    assert functad.grad(lambda x: special.chndtr(x, df, 200.0))(250.0) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("freedom", "point"), [((2.5, 4.0), (1.5, 1.75)), ((5.0, 1.5), (0.01, 0.3)), ((5.0, 4.0), (6.0, 4.0))])
def test_noncentral_f(freedom, point):
    _check_gradient(lambda nc, f: special.ncfdtr(*freedom, nc, f), _noncentral_f(*freedom), point)


@pytest.mark.parametrize("point", [(3.0, 1.0, 2.0), (2.5, -1.0, 0.5), (8.0, 0.5, -1.5)])
def test_noncentral_t(point):
    _check_gradient(special.nctdtr, _noncentral_t, point)


@pytest.mark.parametrize("point", [(3.0, 40.0, 45.0), (1e6, 1.0, 1.5), (50.0, -100.0, -100.0)])
def test_noncentral_t_where_the_integrand_is_narrow(point):
    found = functad.grad(special.nctdtr, argnums=(1, 2))(*point)
    for i, slope in enumerate(found, start=1):
        ends = [[x + (j == i) * step for j, x in enumerate(point)] for step in (1e-4, -1e-4)]
        difference = special.nctdtr(*ends[0]) - special.nctdtr(*ends[1])
        assert slope == pytest.approx(difference / 2e-4, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "inverse", "values", "position", "tolerance"),
    [
        ("chndtr", "chndtrix", (2.0, 2.5, 1.5), 0, 1e-8),
        ("chndtr", "chndtrinc", (5.0, 2.5, 1.5), 2, 1e-8),
        ("ncfdtr", "ncfdtri", (2.5, 4.0, 1.5, 1.75), 3, 1e-8),
        ("nctdtr", "nctdtrit", (2.5, 0.5, 1.5), 2, 1e-8),
        ("nctdtr", "nctdtrinc", (2.5, 0.5, 1.5), 1, 1e-5),
        ("nctdtr", "nctdtridf", (2.5, 0.5, 1.5), 0, 1e-5),
    ],
)
def test_inverse_in_each_argument(name, inverse, values, position, tolerance):
    """What an inverse finds is the argument, whatever the others are: its derivative by that is 1 and by the others 0."""
    order = {"chndtrix": (3, 1, 2), "ncfdtri": (0, 1, 2, 4), "nctdtrit": (0, 1, 3)}
    order |= {"chndtrinc": (0, 1, 3), "nctdtrinc": (0, 3, 2), "nctdtridf": (3, 1, 2)}

    def there_and_back(*arguments):
        every = [*arguments, getattr(special, name)(*arguments)]
        return getattr(special, inverse)(*[every[i] for i in order[inverse]])

    assert there_and_back(*values) == pytest.approx(values[position], rel=tolerance)
    continuous = [
        i for i in range(len(values)) if name == "nctdtr" or i == position or (i, name) in ((0, "chndtr"), (3, "ncfdtr"))
    ]
    for i in continuous:
        slope = functad.grad(there_and_back, argnums=i)(*values)
        assert slope == pytest.approx(float(i == position), rel=tolerance, abs=tolerance)


# Where SciPy rounds an argument, or stops at an end of its range, the derivative is that of what it computes


@pytest.mark.parametrize("order", [0.5, 1.5, 2.9, -0.5, -1.5])
def test_whole_part_of_an_order(order):
    for ufunc, exact in ((special.kn, mp.besselk), (special.yn, mp.bessely)):
        expected = float(mp.diff(lambda x, exact=exact: exact(int(order), x), 1.3))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of SciPy, that it takes the whole part
            found = functad.grad(lambda x, ufunc=ufunc: ufunc(order, x))(1.3)
        assert found == pytest.approx(expected, rel=1e-12)


def test_whole_part_of_a_count():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert functad.grad(lambda d: special.smirnov(2.7, d))(0.3) == functad.grad(lambda d: special.smirnov(2, d))(0.3)
        assert functad.grad(lambda p: special.smirnovi(2.7, p))(0.3) == functad.grad(lambda p: special.smirnovi(2, p))(0.3)


@pytest.mark.parametrize(
    ("ufunc", "arguments"),
    [
        (special.bdtrik, (0.1, 0.9, 0.5)),
        (special.bdtrik, (0.1, 2.5, 0.5)),
        (special.pdtrik, (0.5, 0.1)),
        (special.nbdtrik, (0.1, 3.0, 0.9)),
        (special.gdtrib, (0.1, 0.001, 0.0)),
        (special.chdtriv, (1.0, 1.0)),
        (special.stdtridf, (0.1, 1.0)),
        (special.fdtridfd, (1.5, 0.9, 0.9)),
        (special.pseudo_huber, (0.0, 2.0)),
    ],
)
def test_results_that_do_not_move(ufunc, arguments):
    assert np.allclose(functad.grad(ufunc, argnums=tuple(range(len(arguments))))(*arguments), 0)


@pytest.mark.parametrize(("f", "x"), [(special.boxcox, 0.0), (special.boxcox1p, -1.0)])
def test_power_of_zero(f, x):
    """It is -1 / p."""
    assert functad.grad(lambda p: f(x, p))(2.0) == pytest.approx(0.25)
    assert functad.grad(functad.grad(lambda p: f(x, p)))(2.0) == pytest.approx(-0.25)
