"""Formulas that replace functions of `scipy.special` that are not ufuncs and convert their arguments to plain arrays.

NumPy does not dispatch these functions to a Tensor, so they raise. The formulas use only functions that NumPy dispatches.
"""

from __future__ import annotations

from functad.places import scipy_functions

_SPHERICAL = "np.sqrt((2 * n + 1) / (4 * np.pi * special.poch(n - m + 1, 2 * m))) * special.lpmv(m, n, np.cos(t))"

FORMULAS: dict[str, str] = {
    "logsumexp": "np.max(t) + np.log(np.sum(np.exp(t - np.max(t))))",
    "softmax": "np.exp(t - np.max(t)) / np.sum(np.exp(t - np.max(t)))",
    "log_softmax": "t - np.max(t) - np.log(np.sum(np.exp(t - np.max(t))))",
    "polygamma": "np.where(n == 0, special.psi(t), (-1.0) ** (n + 1) * special.gamma(n + 1.0) * special.zeta(n + 1, t))",
    "multigammaln": "d * (d - 1) / 4 * np.log(np.pi) + sum(special.gammaln(t - i / 2) for i in range(d))",
    "comb": "np.where((k <= t) & (t >= 0), special.binom(t, k), 0.0)",
    "factorial": "np.where(t >= 0, special.gamma(t + 1), 0.0)",
    "diric": "np.sin(n * t / 2) / (n * np.sin(t / 2))",
    "perm": "np.where((k <= t) & (t >= 0), special.poch(t - k + 1, k), 0.0)",
    "legendre_p": "special.eval_legendre(n, t)[None]",
    "assoc_legendre_p": "special.lpmv(m, n, t)[None]",
    "sph_legendre_p": f"({_SPHERICAL})[None]",
    "sph_harm_y": f"{_SPHERICAL} * np.exp(1j * m * phi)",
    "spherical_jn": "np.sqrt(np.pi / (2 * t)) * special.jv(n + 0.5, t)",
    "spherical_yn": "np.sqrt(np.pi / (2 * t)) * special.yv(n + 0.5, t)",
    "spherical_in": "np.sqrt(np.pi / (2 * t)) * special.iv(n + 0.5, t)",
    "spherical_kn": "np.sqrt(np.pi / (2 * t)) * special.kv(n + 0.5, t)",
}
"""Function names and formulas for the argument t; n, m, k and d are integer arguments, phi is an angle."""


def cure(why: str = "makes a plain array of its argument first") -> str | None:
    """Return the fix for an error message if user code has called a function of SciPy that is still running, else `None`.

    Args:
        why: the step of the function that fails for a Tensor.
    """
    names = scipy_functions()
    for name in names:
        single = name.removesuffix("_all")
        if single in FORMULAS:
            every = "" if name == single else " for each degree and order"
            return (
                f"scipy.special.{name} {why}. Use {FORMULAS[single]}{every}, which does not, or functad.scipy.special.{name}, "
                f"which takes Tensors."
            )
    if not names:
        return None
    return f"SciPy's {names[0]} {why}. Use ufuncs of scipy.special and functions of NumPy."
