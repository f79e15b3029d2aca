"""Functions of `scipy.special` that JAX has; the others are computed by SciPy, on the host."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functad.backends.xla.elementwise import converted
from functad.backends.xla.engine import Late, jnp
from functad.backends.xla.table import Call, row

_jax_special: Any = Late("jax.scipy.special")

_ALIKE = ("erf", "erfc", "gammaln", "ndtr", "log_ndtr", "expit", "logit", "xlogy", "xlog1py", "entr", "i0e", "i1e", "i0", "i1")
_NUMPYS = ("cbrt", "exp2", "expm1", "log1p")


def _of_reals(call: Call, *values: Any) -> Any:
    if any(spec.dtype.kind == "c" for spec in call.given) or call.dtype.itemsize < 4:
        return NotImplemented
    return getattr(_jax_special, call.primitive.function.__name__)(*converted(call, values))


def _of_numpy(call: Call, x: Any) -> Any:
    return getattr(jnp, call.primitive.function.__name__)(*converted(call, (x,)))


if find_spec("scipy") is not None:
    _special: Any = import_module("scipy.special")
    row(*[getattr(_special, name) for name in _ALIKE])(_of_reals)
    row(*[getattr(_special, name) for name in _NUMPYS])(_of_numpy)
