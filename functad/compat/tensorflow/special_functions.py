"""TensorFlow's special functions: ufuncs of `scipy.special`, which is imported when the first of them is called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import plain
from functad.compat.tensorflow.names import enter
from functad.compat.tensorflow.tensors import as_tensor, operands, operation, returning_tensors

SPECIAL: dict[str, str] = {
    "math.bessel_i0 math.special.bessel_i0": "i0",
    "math.bessel_i0e math.special.bessel_i0e": "i0e",
    "math.bessel_i1 math.special.bessel_i1": "i1",
    "math.bessel_i1e math.special.bessel_i1e": "i1e",
    "math.betainc": "betainc",
    "math.digamma": "digamma",
    "math.erf": "erf",
    "math.erfc": "erfc",
    "math.erfcinv": "erfcinv",
    "math.erfinv": "erfinv",
    "math.igamma": "gammainc",
    "math.igammac": "gammaincc",
    "math.lgamma": "gammaln",
    "math.ndtri": "ndtri",
    "math.special.bessel_j0": "j0",
    "math.special.bessel_j1": "j1",
    "math.special.bessel_k0": "k0",
    "math.special.bessel_k0e": "k0e",
    "math.special.bessel_k1": "k1",
    "math.special.bessel_k1e": "k1e",
    "math.special.bessel_y0": "y0",
    "math.special.bessel_y1": "y1",
    "math.special.dawsn": "dawsn",
    "math.special.expint": "expi",
    "math.special.spence": "spence",
    "math.xlog1py": "xlog1py",
    "math.zeta": "zeta",
}
"""TensorFlow's names, and those of SciPy, where arguments and their order are the same."""


def scipy_special(name: str) -> Any:
    """Return a function of `scipy.special`."""
    return getattr(import_module("scipy.special"), name)


def _special(path: str, name: str) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("name", None)
        return scipy_special(name)(*operands(*args, *kwargs.values()))

    apply.__name__ = apply.__qualname__ = path
    apply.__doc__ = f"TensorFlow's `tf.{path}`: `scipy.special.{name}`."
    return returning_tensors(apply)


for _paths, _name in SPECIAL.items():
    enter(_paths, _special(_paths.partition(" ")[0], _name))


@operation("math.polygamma")
def polygamma(a: Any, x: Any, name: str | None = None) -> Any:
    """Return the derivative of the digamma function of order `a`, a whole number."""
    _, x = operands(a, x)
    order = plain(a).astype(x.dtype)
    positive = np.maximum(order, 1)
    others = (-1.0) ** (order + 1) * scipy_special("gamma")(order + 1) * scipy_special("zeta")(positive + 1, x)
    return np.where(order == 0, scipy_special("digamma")(x), others)


@operation("math.lbeta")
def lbeta(x: Any, name: str | None = None) -> Any:
    """Return the logarithm of the beta function of the numbers along the last axis."""
    x = as_tensor(x)
    gammaln = scipy_special("gammaln")
    return np.sum(gammaln(x), axis=-1) - gammaln(np.sum(x, axis=-1))


@operation("math.special.fresnel_cos")
def fresnel_cos(x: Any, name: str | None = None) -> Any:
    """Return the cosine integral of Fresnel."""
    return scipy_special("fresnel")(as_tensor(x))[1]


@operation("math.special.fresnel_sin")
def fresnel_sin(x: Any, name: str | None = None) -> Any:
    """Return the sine integral of Fresnel."""
    return scipy_special("fresnel")(as_tensor(x))[0]


@operation("math.xdivy")
def xdivy(x: Any, y: Any, name: str | None = None) -> Any:
    """Return `x / y`, and 0 where `x` is 0."""
    x, y = operands(x, y)
    return x / np.where(x == 0, as_tensor(1, y.dtype), y)
