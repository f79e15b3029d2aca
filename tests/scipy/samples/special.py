"""Samples of `scipy.special`, of the functions that are no ufuncs with an entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from tests.scipy.samples.sample import Sample, call, use

X = np.array([2.2, 2.5, 2.9])
Z = np.array([0.2, 0.5, -0.3])


def _of(*counts: Any) -> Sample:
    """Return the sample of a function of counts, whose results are numbers."""
    return call(*counts)


def _by_order(*counts: Any, x: Any = X) -> Sample:
    """Return the sample of a function of counts and then of an argument."""
    return use(lambda f, x: f(*counts, x), x)


def _ordered(f: Any, c: Any) -> Any:
    if scipy.__version__.startswith("1.14."):
        raise NotImplementedError("it ends the process")
    return f(1, 3, c)


def _polynomial(*parameters: Any) -> Sample:
    """Return the sample of a polynomial by its argument."""
    return use(lambda kind, x: kind(3, *parameters)(x), Z)


ZEROS = ("ai_zeros", "bi_zeros", "bei_zeros", "beip_zeros", "ber_zeros", "berp_zeros", "kei_zeros", "keip_zeros", "ker_zeros")
ZEROS += ("kerp_zeros", "kelvin_zeros", "erf_zeros", "fresnel_zeros", "fresnelc_zeros", "fresnels_zeros", "jnjnp_zeros")
ZEROS += ("y0_zeros", "y1_zeros", "y1p_zeros")
ROOTS = ("roots_chebyc", "roots_chebys", "roots_chebyt", "roots_chebyu", "roots_hermite", "roots_hermitenorm", "roots_laguerre")
ROOTS += (
    "roots_legendre",
    "roots_sh_chebyt",
    "roots_sh_chebyu",
    "roots_sh_legendre",
    "p_roots",
    "t_roots",
    "u_roots",
    "h_roots",
)
ROOTS += ("he_roots", "l_roots", "c_roots", "s_roots", "ts_roots", "us_roots", "ps_roots")
WITH_ALPHA = ("roots_gegenbauer", "cg_roots", "roots_genlaguerre", "la_roots")
WITH_TWO = ("roots_jacobi", "j_roots", "roots_sh_jacobi", "js_roots")
POLYNOMIALS = ("chebyc", "chebys", "chebyt", "chebyu", "hermite", "hermitenorm", "laguerre", "legendre", "sh_chebyt")
POLYNOMIALS += ("sh_chebyu", "sh_legendre")

SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: _of(3) for name in (*ZEROS, *ROOTS, "bernoulli", "euler")},
    **{name: _of(1, 3) for name in ("jn_zeros", "jnp_zeros", "yn_zeros", "ynp_zeros", "jnyn_zeros")},
    **{name: _polynomial() for name in POLYNOMIALS},
    **{name: _polynomial(1.5) for name in ("gegenbauer", "genlaguerre")},
    "jacobi": _polynomial(0.5, 1.5),
    "sh_jacobi": _polynomial(2.5, 1.5),
    **{name: use(lambda f: f(3, 1.5)) for name in WITH_ALPHA},
    **{f"{name}(alpha)": use(lambda f, alpha: f(3, alpha), 1.5) for name in WITH_ALPHA},
    **{name: use(lambda f: f(3, 2.5, 1.5)) for name in WITH_TWO},
    **{f"{name}(alpha)": use(lambda f, alpha: f(3, alpha, 1.5), 2.5) for name in WITH_TWO},
    **{name: use(lambda f, x: f(1.5, x, 2), X) for name in ("jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")},
    **{name: _by_order(2) for name in ("polygamma", "spherical_jn", "spherical_yn", "spherical_in", "spherical_kn")},
    **{name: [call(X), call(X, axis=0)] for name in ("softmax", "log_softmax")},
    "logsumexp": [call(X), use(lambda f, a, b: f(a, b=b), X, Z), call(X * (1 + 0.5j))],
    "multigammaln": call(X, d=3),
    "assoc_laguerre": use(lambda f, x: f(x, 2, 1.5), X),
    "legendre_p": _by_order(3, x=Z),
    "legendre_p_all": _by_order(3, x=Z),
    "assoc_legendre_p": _by_order(3, 1, x=Z),
    "assoc_legendre_p_all": _by_order(3, 1, x=Z),
    "sph_legendre_p": _by_order(3, 1, x=Z),
    "sph_legendre_p_all": _by_order(3, 1, x=Z),
    "sph_harm_y": use(lambda f, t, p: f(3, 2, t, p), X, Z),
    "sph_harm_y_all": use(lambda f, t, p: f(2, 2, t, p), X, Z),
    "comb": [use(lambda f, n: f(n, 2), X), use(lambda f, k: f(5.5, k), X), _of(5, 2)],
    "perm": [use(lambda f, n: f(n, 2), X), _of(5, 2)],
    "factorial": [call(X), _of(5)],
    "factorial2": [use(lambda f, n: f(n, extend="complex"), X), _of(5)],
    "factorialk": [use(lambda f, n: f(n, 3, extend="complex"), X), _of(5, 3)],
    "stirling2": _of(5, 2),
    "diric": use(lambda f, x: f(x, 3), X),
    "zeta": [call(X), use(lambda f, x: f(x, 1.5), X), use(lambda f, q: f(2.5, q), X)],
    "sinc": call(Z),
    "softplus": call(Z),
    "lambertw": call(X),
    "ellip_harm": use(lambda f, s: f(5.0, 8.0, 2, 1, s), 2.5),
    "ellip_harm_2": use(lambda f, s: f(5.0, 8.0, 2, 1, s), 10.5),
    "ellip_normal": use(lambda f, h: f(h, 8.0, 2, 1), 5.0),
    "lmbda": use(lambda f, x: f(1.5, x), 2.0),
    "lqn": [use(lambda f, x: f(2, x), 0.5), use(lambda f, x: f(2, x), X)],
    "lqmn": [use(lambda f, x: f(1, 2, x), 0.5), use(lambda f, x: f(2, 1, x), X)],
    "riccati_jn": use(lambda f, x: f(2, x), 2.0),
    "riccati_yn": use(lambda f, x: f(2, x), 2.0),
    "pbdn_seq": use(lambda f, z: f(2, z), 2.0 + 0.5j),
    **{name: [use(lambda f, x, v=v: f(v, x), 2.0) for v in (2.5, 0.5)] for name in ("pbdv_seq", "pbvv_seq")},
    **{f"{name}(-1)": use(lambda f, x: f(-1, x), 2.0) for name in ("pbdv_seq", "pbvv_seq")},
    "mathieu_even_coef": use(lambda f, q: f(2, q), 2.0),
    "mathieu_odd_coef": use(lambda f, q: f(2, q), 2.0),
    **{name: use(_ordered, 2.0) for name in ("pro_cv_seq", "obl_cv_seq")},
    "geterr": call(),
    "seterr": call(),
    "errstate": use(lambda errstate: type(errstate()).__name__),
}
