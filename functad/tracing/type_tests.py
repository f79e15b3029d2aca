"""How a Tensor answers type tests: as its value would, so that code of others takes the branch that it takes without functad.

`isinstance(t, np.ndarray)` asks `t.__class__`, which is here the type of the value; so do abstract base classes, `match` and
`functools.singledispatch`. `type(t)` is Tensor all the same, and `isinstance(t, Tensor)` holds, since Python looks at that
first. What asks by `type`, as NumPy's C code does, sees a Tensor; within functad all tests for arrays and numbers do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from functad.expressions.spec import type_of
from functad.tracing.traces.base import Recorded

_TOLD = ("xarray.", "pandas.", "dask.", "sparse.", "scipy.sparse.", "jax._src.numpy.array_methods", "json.", "fractions")
"""Packages that are told Tensor. xarray, Dask and sparse arrays of both kinds, and the operators of JAX, make plain arrays of
what is NumPy's own, and leave to NumPy's protocols and to Python's what is not; json names the type of what it cannot write
down; a Fraction compares itself with floats by their digits, and leaves it to others to compare themselves with it."""

_SIZED = ("__len__", "__iter__", "__contains__", "__hash__")


class TensorType(type):
    """The class of the class Tensor: it hides from abstract base classes what numbers do not have.

    `isinstance(t, Sized)` asks `type(t)` too, and looks for `__len__` in its `__mro__`; what stands there as `None` is absent.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return (_Hidden, *type.mro(cls))


_Hidden = type("_Hidden", (), dict.fromkeys(_SIZED))


class _UnsizedError(TypeError, AttributeError):
    """A number has no length: `len(t)` raises, and `hasattr(t, "__len__")` is false."""


class TypeTests:
    """What Python asks to find out what a value is."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self: Any) -> type:
        """The type of the value; where a trace has none, that of arrays, or of NumPy's numbers for the shape ()."""
        asking = sys._getframe(1)
        module = asking.f_globals.get("__name__", "")
        if module.startswith("polars."):  # its operators convert the other operand and never leave the operation to it
            self._plain("Conversion to an array")
        if module.startswith(_TOLD) and not module.startswith("scipy.sparse.linalg."):
            name = asking.f_code.co_qualname
            if name == "JSONEncoder.default":  # which is about to raise
                self._plain("JSON")
            if name != "Fraction.__new__":  # which asks floats for their digits, as it does NumPy's
                return type(self)
        value = self
        while issubclass(type(value), Recorded):
            held = value.below
            value = value.origin[0] if held is None else held  # a view that is to be read anew is what its owner is
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
        """The method that `len` calls; a number has none."""
        if not self.shape:
            raise _UnsizedError("len() of a Tensor of shape ()")
        return lambda: self.shape[0]
