"""SciPy with functions that take Tensors: `from functad.scipy import linalg, stats`.

The first access to a name of this package adopts SciPy, as `functad.adopt("scipy")` does. This makes SciPy's Python code
differentiable. SciPy's compiled functions have derivative rules here. For plain arguments every function returns SciPy's
result. Names without a rule here are SciPy's own objects.

Example:
    >>> import functad, numpy as np
    >>> from functad.scipy import stats
    >>> functad.grad(lambda loc: stats.norm.logpdf(0.5, loc=loc, scale=2.0))(0.0)
    np.float64(0.125)
"""

from __future__ import annotations

import sys as _sys
from types import ModuleType as _ModuleType
from typing import Any

from functad.adoption import scipy_parts as _scipy_parts  # noqa: F401 - it lets parts of parts be imported
from functad.adoption.adopt import adopt as _adopt
from functad.adoption.adopt import adopts_once as _adopts_once
from functad.adoption.scipy_functions import BEFORE_TENSORS as _BEFORE_TENSORS
from functad.adoption.scipy_functions import stand_in as _stand_in
from functad.process import optional as _optional

_scipy = _optional("scipy", "functad.scipy")

_adopted: list[Any] = []
"""The adoption of SciPy; empty until the first access to a name. The import of the rules alone changes nothing."""


class _Package(_ModuleType):
    """The class of this package. Its own submodules do not hide the wrapped SciPy submodules of the same names."""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, _ModuleType):  # the import system sets submodules as attributes
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
for _name in [name for name, value in globals().items() if getattr(value, "__name__", None) == f"{__name__}.{name}"]:
    del globals()[_name]  # remove the submodules imported so far


_BEFORE_TENSORS.append(_adopts_once("scipy", _adopted))


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'functad.scipy' has no attribute {name!r}")
    if not _adopted:
        _adopted.append(_adopt("scipy"))
    value = getattr(_scipy, name)
    return _stand_in(value) if getattr(value, "__name__", None) == f"scipy.{name}" else value


def __dir__() -> list[str]:
    return dir(_scipy)
