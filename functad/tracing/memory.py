"""Array attributes about memory: a Tensor reports its layout and refuses access to its bytes."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from functad.errors import AbstractValueError, ConversionError, NoBufferError, UnsupportedError
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives.indexing.write import part
from functad.primitives.operands import concrete, innermost
from functad.tracing.graphs import refusal_in_graph
from functad.tracing.views import origin_of


def _kept(name: str) -> Callable[..., Any]:
    """Return a method that raises `ConversionError` instead of writing a Tensor as bytes."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConversionError(
            f"{name}() of a Tensor that is being differentiated, at {here()}, would lose its derivative. "
            f"Use functad.stop_gradient(t) for the value, and {name}() of that."
        )

    method.__name__ = name
    method.__doc__ = "Refuse: bytes have no derivative."
    return method


def _buffer(name: str) -> property:
    """Return a property that raises `NoBufferError` instead of exposing the memory of a Tensor."""

    def attribute(self: Any) -> NoReturn:
        raise NoBufferError(
            f"the attribute {name} of a Tensor that is being differentiated, at {here()}, would give its memory away, and "
            f"the derivative would be lost. Use functad.stop_gradient(t).{name}"
        )

    attribute.__doc__ = "Refuse: memory has no derivative."
    return property(attribute)


class _NotAssignedError(UnsupportedError, AttributeError):
    """The error for assignment to an attribute of a Tensor; an `AttributeError`, as callers of array code expect."""


def not_assigned(name: str, value: Any, cure: str) -> UnsupportedError:
    """Return the error for assignment to a property that is writable on arrays but not on Tensors."""
    return _NotAssignedError(f"t.{name} = {value!r} of a Tensor, at {here()}, would change it in place. Use {cure}.")


class ArrayMemory:
    """Attributes and methods about memory, devices and bytes."""

    __slots__ = ()

    @property
    def flags(self: Any) -> Any:
        """The flags of the value, or of an array in C order if the trace has no values.

        For a view, they are the flags of NumPy's view: the value itself may be a contiguous copy.
        """
        root, path = origin_of(self)
        try:
            value = part(concrete(root, "flags"), path) if path else concrete(self, "flags")
        except AbstractValueError:
            value = np.empty(self.shape, self.dtype)
        return (value if issubclass(type(value), np.generic) else np.asarray(value)).flags

    @property
    def strides(self: Any) -> tuple[int, ...]:
        """The strides of the value, or of an array in C order in an abstract trace."""
        value = innermost(self)
        if not isinstance(value, ArraySpec):
            return np.asarray(value).strides
        return tuple([self.itemsize * math.prod(value.shape[i + 1 :]) for i in range(value.ndim)])

    @strides.setter
    def strides(self: Any, value: Any) -> NoReturn:
        raise not_assigned("strides", value, "as_strided of functad.numpy.lib.stride_tricks")

    @property
    def base(self) -> None:
        """`None`: a Tensor owns its value."""
        return

    @property
    def device(self) -> Any:
        """The device of the value, `"cpu"` for NumPy arrays."""
        return getattr(innermost(self), "device", "cpu")

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Return the Tensor itself; raise `ValueError` for another device."""
        if device != self.device:
            raise ValueError(f"Unsupported device: {device!r}. A Tensor stays where its value is, on {self.device!r}.")
        return self

    def view(self: Any, dtype: Any = None, type: Any = None) -> Any:
        """Return the Tensor itself; raise `UnsupportedError` for another dtype or a subclass of `ndarray`."""
        if type is None and (dtype is None or dtype is np.ndarray):
            return self
        kind = dtype if type is None else type
        if kind is np.ndarray and dtype is None:
            return self
        if isinstance(kind, builtins.type) and issubclass(kind, np.ndarray):
            raise UnsupportedError(
                f"view({kind.__name__}) of a Tensor, at {here()}: an array of the class {kind.__module__}.{kind.__qualname__} "
                f"has its numbers in memory, so a Tensor cannot be one. Compute with the numbers alone, and make such arrays "
                f"of the results, outside of what is differentiated."
            )
        if type is None and np.dtype(dtype) == self.dtype:
            return self
        raise UnsupportedError(
            f"view({dtype!r}) of a Tensor, at {here()}, reads its bytes as other numbers, which has no derivative. "
            f"Use t.astype(dtype) for another dtype, np.stack([z.real, z.imag], -1) for the parts of complex numbers."
        )

    def getfield(self: Any, dtype: Any, offset: int = 0) -> Any:
        """Return the Tensor itself; raise `UnsupportedError` if the field is only a part of it."""
        if offset == 0:
            return self.view(dtype)
        raise UnsupportedError(
            f"getfield() of a Tensor, at {here()}, reads its bytes as other numbers. Use t.real or t.imag, or a dictionary."
        )

    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        """Raise `UnsupportedError`, except for `write=False`, which has no effect."""
        if write is False and align is None and uic is None:
            return
        raise UnsupportedError(f"setflags() of a Tensor, at {here()}: a Tensor has no flags of its own. Leave the call out.")

    data = _buffer("data")
    ctypes = _buffer("ctypes")
    tobytes = _kept("tobytes")
    tofile = _kept("tofile")
    dump = _kept("dump")
    dumps = _kept("dumps")
    __dlpack__ = _kept("__dlpack__")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __reduce__(self) -> NoReturn:
        raise ConversionError(
            f"a Tensor that is being differentiated cannot be pickled, at {here()}: its derivative would be lost. "
            f"Pickle functad.stop_gradient(t), or what the transform returns."
        )

    def __dask_tokenize__(self) -> NoReturn:
        raise refusal_in_graph(f"at {here()}")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return import_module("functad.adoption.array_api").namespace_for(sys._getframe(1), api_version)
