"""Functions of `scipy.special` with JAX. SciPy computes the other functions on the host."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from functad.backends.xla.elementwise import converted
from functad.backends.xla.engine import Late, jnp
from functad.backends.xla.table import Call, Row, row

_jax_special: Any = Late("jax.scipy.special")

_ALIKE = (
    "erf", "erfc", "erfinv", "ndtr", "ndtri", "gamma", "gammaln", "gammainc", "gammaincc", "spence", "expit", "logit",
    "xlogy", "xlog1py", "entr", "i0e", "i1e", "i0", "i1", "boxcox", "boxcox1p", "gammasgn", "dawsn",
    "sici",
)  # fmt: skip
"""Functions of JAX within 1e-12 of SciPy. JAX's beta function and polygamma are less exact, its exponential integrals slow."""

_NUMPYS = ("cbrt", "exp2", "expm1", "log1p")


def _of_reals(call: Call, *values: Any) -> Any:
    if any(spec.dtype.kind == "c" for spec in call.given) or call.dtype.itemsize < 4:
        return NotImplemented
    name = call.primitive.function.__name__
    return getattr(_jax_special, {"psi": "digamma", "_zeta": "zeta"}.get(name, name))(*converted(call, values))


def _psi(call: Call, x: Any) -> Any:
    """Compute `psi`, with infinity at zero, where JAX gives NaN."""
    found = _of_reals(call, x)
    if found is NotImplemented:
        return NotImplemented
    [x] = converted(call, (x,))
    return jnp.where(x == 0, -jnp.copysign(jnp.asarray(np.inf, x.dtype), x), found)


def _zeta(call: Call, x: Any, q: Any) -> Any:
    """Compute `zeta` with SciPy's values: infinity at poles, NaN for exponents below one. JAX's values differ."""
    found = _of_reals(call, x, q)
    if found is NotImplemented:
        return NotImplemented
    x, q = converted(call, (x, q))
    found = jnp.where((q <= 0) & (q == jnp.floor(q)), jnp.asarray(np.inf, found.dtype), found)
    return jnp.where(x < 1, jnp.asarray(np.nan, found.dtype), found)


def _divergence(call: Call, x: Any, y: Any) -> Any:
    """Compute a divergence, with NaN for NaN, where JAX gives infinity."""
    found = _of_reals(call, x, y)
    if found is NotImplemented:
        return NotImplemented
    x, y = converted(call, (x, y))
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.asarray(np.nan, found.dtype), found)


def _log_ndtr(call: Call, x: Any) -> Any:
    """Compute `log_ndtr`. For large `x` the result is nearly zero, and JAX's function loses digits."""
    if call.dtype.kind == "c" or call.dtype.itemsize < 4:
        return NotImplemented
    [x] = converted(call, (x,))
    return jnp.where(x > 0, jnp.log1p(-_jax_special.ndtr(-jnp.abs(x))), _jax_special.log_ndtr(jnp.minimum(x, 0)))


def _of_numpy(call: Call, x: Any) -> Any:
    return getattr(jnp, call.primitive.function.__name__)(*converted(call, (x,)))


# Functions that JAX lacks, by numerically stable formulas


def _exp10(x: Any) -> Any:
    return jnp.power(jnp.asarray(10, x.dtype), x)


def _log_expit(x: Any) -> Any:
    return -jnp.logaddexp(-x, jnp.zeros((), x.dtype))


def _cosm1(x: Any) -> Any:
    return -2 * jnp.sin(x / 2) ** 2


def _exprel(x: Any) -> Any:
    return jnp.where((abs(x) < 1e-16) | (x == np.inf), jnp.maximum(x, 1), jnp.expm1(x) / jnp.where(x == 0, 1, x))


def _loggamma(x: Any) -> Any:
    return jnp.where(x < 0, jnp.nan, _jax_special.gammaln(x))


def _erfcinv(x: Any) -> Any:
    return -_jax_special.ndtri(x / 2) / np.sqrt(2).astype(x.dtype)


def _huber(delta: Any, r: Any) -> Any:
    size = abs(r)
    return jnp.where(delta < 0, jnp.inf, jnp.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta)))


def _pseudo_huber(delta: Any, r: Any) -> Any:
    share = r / jnp.where(delta == 0, 1, delta)
    found = jnp.where((delta == 0) | (r == 0), 0, delta * delta * jnp.expm1(0.5 * jnp.log1p(share * share)))
    return jnp.where(delta < 0, jnp.inf, found)


def _inv_boxcox(x: Any, power: Any) -> Any:
    return jnp.where(power == 0, jnp.exp(x), jnp.exp(jnp.log1p(power * x) / jnp.where(power == 0, 1, power)))


def _inv_boxcox1p(x: Any, power: Any) -> Any:
    found = jnp.expm1(jnp.log1p(power * x) / jnp.where(power == 0, 1, power))
    return jnp.where(power == 0, jnp.expm1(x), jnp.where(abs(power * x) < 1e-154, x, found))


def _chdtr(v: Any, x: Any) -> Any:
    return _jax_special.gammainc(v / 2, x / 2)


_BY_FORMULA: dict[str, Row] = {
    "exp10": _exp10, "log_expit": _log_expit, "cosm1": _cosm1, "exprel": _exprel, "loggamma": _loggamma, "erfcinv": _erfcinv,
    "huber": _huber, "pseudo_huber": _pseudo_huber, "inv_boxcox": _inv_boxcox, "inv_boxcox1p": _inv_boxcox1p, "chdtr": _chdtr,
}  # fmt: skip


def _by_formula(call: Call, *values: Any) -> Any:
    if any(spec.dtype.kind == "c" for spec in call.given) or call.dtype.itemsize < 4:
        return NotImplemented
    return _BY_FORMULA[call.primitive.function.__name__](*converted(call, values))


if find_spec("scipy") is not None:
    from functad.primitives.scipy_special.declaration import find_ufunc

    _special: Any = import_module("scipy.special")
    row(*[getattr(_special, name) for name in _ALIKE])(_of_reals)
    row(find_ufunc("_zeta"))(_zeta)
    row(*[getattr(_special, name) for name in _NUMPYS])(_of_numpy)
    row(*[getattr(_special, name) for name in _BY_FORMULA])(_by_formula)
    row(_special.log_ndtr)(_log_ndtr)
    row(_special.psi)(_psi)
    row(_special.rel_entr, _special.kl_div)(_divergence)
