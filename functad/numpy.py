"""NumPy with array creation that follows the active trace, and with lists of Tensors as arguments.

`np.zeros(3)` returns a plain array even under a transform, and no Tensor can be written into it. The creation functions here
return Tensors while a transform runs its function, and plain arrays otherwise. All other functions accept lists with Tensors
where NumPy's functions accept lists of numbers: `sum([t, 1.0])`, `linalg.norm([t0, t1])`, `r_[t0, t1]`, `float64(t)`. For plain
values the results are NumPy's.

Example:
    >>> import functad
    >>> import functad.numpy as np
    >>> def cumulative(x):
    ...     out = np.zeros(3)
    ...     out[0] = x[0]
    ...     for i in range(1, 3):
    ...         out[i] = out[i - 1] * x[i]
    ...     return np.sum(np.array([out[0], out[2]]))
    >>> functad.grad(cumulative)(np.array([2.0, 3.0, 4.0]))
    array([13.,  8.,  6.])
    >>> type(np.zeros(3)).__name__
    'ndarray'
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

import numpy as _numpy  # noqa: ICN001 - `np` would be a name of this module

from functad.adoption.arrays import namespace as _namespace
from functad.adoption.standard import MISSING as _MISSING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
else:
    globals().update(_MISSING)
    globals().update({name: value for name, value in _namespace().items() if not name.startswith("__")})

    def __getattr__(name: str) -> Any:
        if name == "special":  # a planned extension of the array API standard, which SciPy looks up
            return _import_module("functad.adoption.array_api").special()
        return getattr(_numpy, name)


def __dir__() -> list[str]:
    return sorted({*dir(_numpy), *globals()})
