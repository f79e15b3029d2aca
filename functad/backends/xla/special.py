"""Functions of `scipy.special` that JAX computes within 1e-12 of SciPy; its beta function and polygamma are less exact."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from functad.backends.xla.engine import Late, jnp
from functad.backends.xla.replay import Call, alike, converted, of_loop, row

_jax_special: Any = Late("jax.scipy.special")


def _psi(call: Call, x: Any) -> Any:
    """Compute `psi`, with infinity at zero, where JAX gives NaN."""
    if call.kind == "c":
        return NotImplemented
    [x] = converted(of_loop, call, (x,))
    return jnp.where(x == 0, -jnp.copysign(jnp.asarray(np.inf, x.dtype), x), _jax_special.digamma(x))


def _zeta(call: Call, *values: Any) -> Any:
    """Compute `zeta` with SciPy's values: infinity at poles, NaN for exponents below one. JAX's values differ."""
    x, q = converted(of_loop, call, values)
    found = jnp.where((q <= 0) & (q == jnp.floor(q)), jnp.asarray(np.inf, x.dtype), _jax_special.zeta(x, q))
    return jnp.where(x < 1, jnp.asarray(np.nan, x.dtype), found)


def _divergence(call: Call, *values: Any) -> Any:
    """Compute a divergence, with NaN for NaN, where JAX gives infinity."""
    x, y = converted(of_loop, call, values)
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.asarray(np.nan, x.dtype), getattr(_jax_special, call.name)(x, y))


def _log_ndtr(call: Call, x: Any) -> Any:
    """Compute `log_ndtr`. For large `x` the result is nearly zero, and JAX's function loses digits."""
    if call.kind == "c":
        return NotImplemented
    [x] = converted(of_loop, call, (x,))
    return jnp.where(x > 0, jnp.log1p(-_jax_special.ndtr(-jnp.abs(x))), _jax_special.log_ndtr(jnp.minimum(x, 0)))


if find_spec("scipy") is not None:
    from functad.primitives.scipy_special.declaration import find_ufunc

    _special: Any = import_module("scipy.special")
    row(
        _special.erf, _special.erfc, _special.erfinv, _special.ndtr, _special.ndtri, _special.gamma, _special.gammaln,
        _special.gammainc, _special.gammaincc, _special.spence, _special.expit, _special.logit, _special.xlogy,
        _special.xlog1py, _special.entr, _special.i0e, _special.i1e, _special.i0, _special.i1, _special.boxcox,
        _special.boxcox1p, _special.gammasgn, _special.dawsn, _special.sici,
    )(alike(of_loop, _jax_special, refused="c"))  # fmt: skip
    row(_special.cbrt, _special.exp2, _special.expm1, _special.log1p)(alike(of_loop))
    row(find_ufunc("_zeta"))(_zeta)
    row(_special.log_ndtr)(_log_ndtr)
    row(_special.psi)(_psi)
    row(_special.rel_entr, _special.kl_div)(_divergence)
