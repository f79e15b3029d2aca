"""Functions of `scipy.special` that JAX has; the others are computed by SciPy, on the host."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functad.backends.xla.elementwise import converted
from functad.backends.xla.engine import Late, jnp
from functad.backends.xla.table import Call, row

_jax_special: Any = Late("jax.scipy.special")

_ALIKE = (
    "erf", "erfc", "erfinv", "ndtr", "ndtri", "gamma", "gammaln", "psi", "gammainc", "gammaincc", "spence", "expit", "logit",
    "xlogy", "xlog1py", "entr", "rel_entr", "kl_div", "i0e", "i1e", "i0", "i1",
)  # fmt: skip
"""Within 1e-12 of SciPy's. The beta function and polygamma of JAX are less close, and its exponential integrals take long."""

_NUMPYS = ("cbrt", "exp2", "expm1", "log1p")


def _of_reals(call: Call, *values: Any) -> Any:
    if any(spec.dtype.kind == "c" for spec in call.given) or call.dtype.itemsize < 4:
        return NotImplemented
    name = call.primitive.function.__name__
    return getattr(_jax_special, {"psi": "digamma"}.get(name, name))(*converted(call, values))


def _log_ndtr(call: Call, x: Any) -> Any:
    """JAX loses the digits of what is nearly zero, for large x."""
    if call.dtype.kind == "c" or call.dtype.itemsize < 4:
        return NotImplemented
    [x] = converted(call, (x,))
    return jnp.where(x > 0, jnp.log1p(-_jax_special.ndtr(-jnp.abs(x))), _jax_special.log_ndtr(jnp.minimum(x, 0)))


def _of_numpy(call: Call, x: Any) -> Any:
    return getattr(jnp, call.primitive.function.__name__)(*converted(call, (x,)))


if find_spec("scipy") is not None:
    _special: Any = import_module("scipy.special")
    row(*[getattr(_special, name) for name in _ALIKE])(_of_reals)
    row(*[getattr(_special, name) for name in _NUMPYS])(_of_numpy)
    row(_special.log_ndtr)(_log_ndtr)
