"""The array methods and attributes of Tensors.

Each method calls the NumPy function of the same name without NumPy's dispatch. Entries are looked up at the call. Methods that
rules use for higher derivatives, such as `t.sum()`, `t.reshape(shape)` and `t.mT`, call the recorder directly.

`ArrayMemory` has the attributes about memory: a Tensor reports its layout and refuses access to its bytes.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from functad.errors import AbstractValueError, ConversionError, FunctadError, NoBufferError, UnsupportedError
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.primitives import vocabulary
from functad.primitives.arranging import reshape as reshaping
from functad.primitives.arranging.reshape import (
    as_shape,
)
from functad.primitives.elementwise.conversion import COPY, astype
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.write import Step, part
from functad.primitives.operands import TensorAsOutError, concrete, innermost
from functad.primitives.reductions import over_axes, scans, statistics
from functad.tracing.foreign import refusal_in_graph
from functad.tracing.indexing import into, with_out_keyword
from functad.tracing.trace import dispatch
from functad.tracing.views import add_view, origin_of

Method = Callable[..., Any]


def _front(function: Any) -> Method:
    """Return the front of a NumPy function; raise `UnsupportedError` if the function has no entry."""
    entry = ENTRIES.get(function) or vocabulary.find(function)
    if entry is None:
        raise UnsupportedError(f"The method {function.__name__} of a Tensor has no derivative rule, at {here()}.")
    return entry.front


def _called(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the front of a NumPy function; `out` may be a Tensor."""
    front = _front(function)
    try:
        return front(*args, **kwargs)
    except TensorAsOutError:
        return into(function, *with_out_keyword(front, args, kwargs))


def _method(function: Any) -> Method:
    """Return the method that calls a NumPy function with the Tensor as its first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _called(function, self, *args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = f"As `np.{function.__name__}`."
    return method


def _refused(name: str, error: type[FunctadError], text: str) -> Method:
    """Return a method that raises an error; `{name}` and `{place}` in the text are its name and the user's line."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(text.format(name=name, place=here()))

    method.__name__ = name
    method.__doc__ = "Refuse: the derivative would be lost."
    return method


_IN_PLACE = "The method {name} of a Tensor, at {place}, would change the array without a record. Use "
_BYTES = (
    "{name}() of a Tensor that is being differentiated, at {place}, would lose its derivative. "
    "Use functad.stop_gradient(t) for the value, and {name}() of that."
)
_BUFFER = (
    "the attribute {name} of a Tensor that is being differentiated, at {place}, would give its memory away, and the derivative "
    "would be lost. Use functad.stop_gradient(t).{name}"
)


class ArrayMethods:
    """The methods and attributes of arrays that have an entry."""

    __slots__ = ()

    @property
    def T(self: Any) -> Any:  # noqa: N802  # NumPy's name
        """The transpose: all axes in reverse order."""
        ndim = len(self.shape)
        axes = (1, 0) if ndim == 2 else tuple(range(ndim - 1, -1, -1))
        return self if ndim < 2 else dispatch(reshaping.TRANSPOSE, (self,), {"axes": axes})

    @property
    def mT(self: Any) -> Any:  # noqa: N802
        """The transpose of the matrices in the last two axes."""
        return self.T if len(self.shape) == 2 else reshaping.matrix_transpose(self)

    @property
    def real(self) -> Any:
        """The real part."""
        return _front(np.real)(self)

    @real.setter
    def real(self: Any, values: Any) -> None:
        _front(np.real)(self)[...] = values

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return _front(np.imag)(self)

    @imag.setter
    def imag(self: Any, values: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        _front(np.imag)(self)[...] = values

    @property
    def flat(self: Any) -> Any:
        """All elements in C order, on one axis. Reading gives copies; writing changes this Tensor."""
        params = {"shape": (self.size,)}
        out = dispatch(reshaping.RESHAPE, (self,), params)
        root, path = origin_of(self)
        add_view(root, (*path, Step(reshaping.RESHAPE, params, copied=True)), out)
        return out

    @flat.setter
    def flat(self: Any, values: Any) -> None:
        np.put(self, np.arange(self.size), values)

    def reshape(self: Any, *shape: Any, order: str | None = "C", copy: bool | None = None) -> Any:
        """As `np.reshape`; the shape may be given as one tuple or as several integers."""
        wanted = as_shape(shape[0] if len(shape) == 1 else shape)
        if order == "C" and copy is None:
            return dispatch(reshaping.RESHAPE, (self,), {"shape": reshaping.complete_shape(self.shape, wanted)})
        return reshaping.reshape(self, wanted, order, copy=copy)

    def flatten(self, order: str | None = "C") -> Any:
        """As `np.ravel`, always a copy."""
        return COPY(reshaping.ravel(self, order))

    def transpose(self, *axes: Any) -> Any:
        """As `np.transpose`; the axes may be given as one tuple or as several integers."""
        return reshaping.transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None)

    def astype(self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        """Return the Tensor in another dtype; a constant if the dtype is integer or boolean."""
        out = astype(self, dtype, casting, copy)
        if order == "K":
            return out
        if copy or out is not self:
            return COPY(out, order=order)
        return reshaping.in_fortran_order(self) if reshaping.is_fortran(self, order) else reshaping.in_c_order(self)

    def copy(self, order: str = "C") -> Any:
        """As `np.copy`, by default in C order."""
        return COPY(self, order=order)

    def __copy__(self) -> Any:
        return COPY(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return COPY(self)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Any:
        """As `np.clip`."""
        return _called(np.clip, self, min, max, out)

    # These fronts have the signature of the method. The look-up of an entry would take a fifth of the time of t.sum().
    sum = over_axes.sum
    mean = over_axes.mean
    prod = over_axes.prod
    max = over_axes.MAX.front
    min = over_axes.MIN.front
    var = statistics.var
    cumsum = scans.cumsum
    cumprod = scans.cumprod
    ravel = reshaping.ravel.front
    swapaxes = reshaping.swapaxes.front
    squeeze = reshaping.squeeze.front

    def conj(self: Any) -> Any:
        """As `np.conj`; a real Tensor is returned itself."""
        return _front(np.conjugate)(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """As `np.compress`."""
        return _called(np.compress, condition, self, axis, out)

    resize = _refused(
        "resize",
        UnsupportedError,
        f"{_IN_PLACE}np.pad(t.ravel(), (0, n)).reshape(shape), which adds n zeros (np.resize repeats).",
    )
    setfield = _refused("setfield", UnsupportedError, f"{_IN_PLACE}np.where(mask, new, t).")
    byteswap = _refused("byteswap", UnsupportedError, f"{_IN_PLACE}functad.stop_gradient(t).byteswap().")


for _name in (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "diagonal", "dot", "nonzero", "repeat", "round",
    "searchsorted", "std", "take", "trace",
):  # fmt: skip
    setattr(ArrayMethods, _name, _method(getattr(np, _name)))


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
                f"of the results, outside the traced function."
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

    data = property(_refused("data", NoBufferError, _BUFFER))
    ctypes = property(_refused("ctypes", NoBufferError, _BUFFER))
    tobytes = _refused("tobytes", ConversionError, _BYTES)
    tofile = _refused("tofile", ConversionError, _BYTES)
    dump = _refused("dump", ConversionError, _BYTES)
    dumps = _refused("dumps", ConversionError, _BYTES)
    __dlpack__ = _refused("__dlpack__", ConversionError, _BYTES)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dask_tokenize__(self) -> NoReturn:
        raise refusal_in_graph(f"at {here()}")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return import_module("functad.adoption.array_api").namespace_for(sys._getframe(1), api_version)
