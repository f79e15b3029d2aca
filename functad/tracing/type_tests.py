"""Type tests of Tensors: `isinstance` treats a Tensor as its value, so that library code takes its usual branch.

`isinstance(t, np.ndarray)` reads `t.__class__`, which returns the type of the value. Abstract base classes, `match` and
`functools.singledispatch` read it too. `type(t)` is `Tensor`, and `isinstance(t, Tensor)` is true, since Python tests `type(t)`
first. NumPy's C code uses `type` and sees a Tensor. functad's own tests for arrays and numbers use `type` too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from functad.expressions.spec import type_of
from functad.tracing.traces.base import Recorded

_TOLD = ("xarray.", "pandas.", "dask.", "sparse.", "scipy.sparse.", "jax._src.numpy.array_methods", "json.", "fractions")
"""Modules for which `t.__class__` is `Tensor`.

xarray, pandas, Dask, both kinds of sparse arrays and the operators of JAX convert NumPy's types to plain arrays. They leave
other types to the protocols of NumPy and Python. json shows the type of an object that it cannot serialize. A `Fraction`
compares a float by its digits, and leaves the comparison with other types to the other operand.
"""

_SIZED = ("__len__", "__iter__", "__contains__", "__hash__")


class TensorType(type):
    """The metaclass of `Tensor`: it hides container methods, which numbers lack, from abstract base classes.

    `isinstance(t, Sized)` also tests `type(t)`: it searches `__mro__` for `__len__`, and `None` there means absent.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return (_Hidden, *type.mro(cls))


_Hidden = type("_Hidden", (), dict.fromkeys(_SIZED))


class _UnsizedError(TypeError, AttributeError):
    """The error for the length of a number: `len(t)` raises a `TypeError`, and `hasattr(t, "__len__")` is false."""


class TypeTests:
    """The attributes that type tests read."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self: Any) -> type:
        """The type of the value; in a trace without values `ndarray`, or a NumPy scalar type for shape `()`."""
        asking = sys._getframe(1)
        module = asking.f_globals.get("__name__", "")
        if module.startswith("polars."):  # its operators convert the other operand and never return `NotImplemented`
            self._plain("Conversion to an array")
        if module.startswith(_TOLD) and not module.startswith("scipy.sparse.linalg."):
            name = asking.f_code.co_qualname
            if name == "JSONEncoder.default":  # it is about to raise
                self._plain("JSON")
            if name != "Fraction.__new__":  # it reads the digits of Python and NumPy floats
                return type(self)
        value = self
        while issubclass(type(value), Recorded):
            held = value.below
            value = value.origin[0] if held is None else held  # a stale view has the type of its root
        return type_of(value)

    @property
    def __pandas_priority__(self: Any) -> int:
        """The rank of a Tensor among the operands of pandas.

        An operator of pandas returns `NotImplemented` if the other operand has a higher rank. The in-place operators of pandas
        do not handle that result, so `s += t` raises here.
        """
        asking = sys._getframe(2)
        if asking.f_code.co_name == "_inplace_method" and asking.f_globals.get("__name__", "").startswith("pandas."):
            self._plain("Conversion to an array")
        return 10_000

    @property
    def __len__(self: Any) -> Callable[[], int]:
        """The method that `len` calls; raises for shape `()`."""
        if not self.shape:
            raise _UnsizedError("len() of a Tensor of shape ()")
        return lambda: self.shape[0]
