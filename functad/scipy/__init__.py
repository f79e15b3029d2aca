"""SciPy, whose functions take Tensors: `from functad.scipy import linalg, stats`.

What SciPy writes in Python over NumPy is adopted, as `functad.adopt("scipy")` does, once a name is taken from here;
what it compiles has rules of its own here. For plain arguments every function gives what SciPy's gives, and what is not here
is SciPy's own.

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
from functad.importable import optional as _optional

_scipy = _optional("scipy", "functad.scipy")

_adopted: list[Any] = []
"""What adopted SciPy, once a name was taken from here: importing the rules, as every adoption does, changes nothing."""


class _Package(_ModuleType):
    """The class of this package: its own files, of the names of SciPy's parts, do not hide what stands for those parts."""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, _ModuleType):  # as the import system sets a file of the package
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
for _name in [name for name, value in globals().items() if getattr(value, "__name__", None) == f"{__name__}.{name}"]:
    del globals()[_name]  # what has been imported until here


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
