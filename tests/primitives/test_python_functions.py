"""Formulas for functions of SciPy that are written in Python: they are executed, and give what the refused call would."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from scipy import special

import functad
from functad.primitives.scipy_special.python_functions import FORMULAS

CALLS = {
    "polygamma": lambda t, n: special.polygamma(n, t),
    "multigammaln": lambda t, d: special.multigammaln(t, d),
    "legendre_p": lambda t, n: special.legendre_p(n, t),
    "assoc_legendre_p": lambda t, n, m: special.assoc_legendre_p(n, m, t),
    "sph_legendre_p": lambda t, n, m: special.sph_legendre_p(n, m, t),
    "sph_harm_y": lambda t, n, m: special.sph_harm_y(n, m, t, 0.4),
    "comb": lambda t, k: special.comb(t, k),
    "perm": lambda t, k: special.perm(t, k),
    "diric": lambda t, n: special.diric(t, n),
    **{f"spherical_{kind}n": lambda t, n, f=f"spherical_{kind}n": getattr(special, f)(n, t) for kind in "jyik"},
    **{name: lambda t, f=name: getattr(special, f)(t) for name in ("logsumexp", "softmax", "log_softmax", "factorial")},
}


INTEGERS = {"n": (0, 1, 2, 3), "m": (0, 1, 2), "k": (0, 1, 2, 3), "d": (1, 2, 3)}


def settings(formula: str) -> list[dict[str, int]]:
    """Return values of the integers in a formula."""
    names = [name for name in INTEGERS if re.search(rf"\b{name}\b", formula)]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*[INTEGERS[name] for name in names])]


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_for_functions_of_scipy(name):
    call = CALLS[name]
    x = np.array([[0.35, 0.8, 0.1]]) if "legendre" in name else np.array([[2.35, 2.8, 3.1]])
    for constants in settings(FORMULAS[name]):
        if constants.get("m", 0) > constants.get("n", 3) or (name == "diric" and constants["n"] == 0):
            continue
        formula = eval(f"lambda t: {FORMULAS[name]}", {"np": np, "special": special, "phi": 0.4, **constants})
        for t in (x, x[0], x[0, 0]):
            refused = lambda t, constants=constants: call(t, **constants)  # noqa: E731
            with np.errstate(all="ignore"):
                assert np.allclose(formula(t), refused(t), rtol=1e-10, atol=1e-12)
                h = 1e-6
                slope = (refused(t + h) - refused(t - h)) / (2 * h)
                found = functad.jvp(formula, (t,), (np.ones_like(t),))[1]
            assert np.allclose(found, slope, rtol=1e-5, atol=1e-6)
