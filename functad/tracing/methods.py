"""The array methods and attributes of Tensors: each calls the NumPy function of the same name without NumPy's dispatch.

Entries are looked up at the call. Methods that rules use for higher derivatives, such as `t.sum()`, `t.reshape(shape)` and
`t.mT`, call the recorder directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from functad.errors import UnsupportedError
from functad.places import here
from functad.primitives import vocabulary
from functad.primitives.arranging.broadcast import as_shape
from functad.primitives.arranging.reshape import (
    RESHAPE,
    TRANSPOSE,
    complete_shape,
    in_c_order,
    in_fortran_order,
    is_fortran,
    matrix_transpose,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    transpose,
)
from functad.primitives.elementwise.conversion import COPY, astype
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.write import Step
from functad.primitives.operands import TensorGivenError
from functad.primitives.reductions import extremes, scans, statistics
from functad.primitives.reductions import sums as reductions
from functad.tracing.traces.base import dispatch
from functad.tracing.views import add_view, origin_of
from functad.tracing.writing import by_name, into

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
    except TensorGivenError:
        return into(function, *by_name(front, args, kwargs))


def _method(function: Any) -> Method:
    """Return the method that calls a NumPy function with the Tensor as its first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _called(function, self, *args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = f"As `np.{function.__name__}`."
    return method


def _in_place(name: str, instead: str) -> Method:
    """Return a method that raises `UnsupportedError` and names an expression that returns a new Tensor."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(
            f"The method {name} writes into an array, at {here()}, and a Tensor cannot be written to. Use {instead}."
        )

    method.__name__ = name
    method.__doc__ = f"Refuse: use `{instead}`."
    return method


class ArrayMethods:
    """The methods and attributes of arrays that have an entry."""

    __slots__ = ()

    @property
    def T(self: Any) -> Any:  # noqa: N802  # NumPy's name
        """The transpose: all axes in reverse order."""
        ndim = len(self.shape)
        if ndim == 2:
            return dispatch(TRANSPOSE, (self,), {"axes": (1, 0)})
        return self if ndim < 2 else dispatch(TRANSPOSE, (self,), {"axes": tuple(range(ndim - 1, -1, -1))})

    @property
    def mT(self: Any) -> Any:  # noqa: N802
        """The transpose of the matrices in the last two axes."""
        return self.T if len(self.shape) == 2 else matrix_transpose(self)

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
        out = dispatch(RESHAPE, (self,), params)
        root, path = origin_of(self)
        add_view(root, (*path, Step(RESHAPE, params, copied=True)), out)
        return out

    @flat.setter
    def flat(self: Any, values: Any) -> None:
        np.put(self, np.arange(self.size), values)

    def reshape(self: Any, *shape: Any, order: str | None = "C", copy: bool | None = None) -> Any:
        """As `np.reshape`; the shape may be given as one tuple or as several integers."""
        wanted = as_shape(shape[0] if len(shape) == 1 else shape)
        if order == "C" and copy is None:
            return dispatch(RESHAPE, (self,), {"shape": complete_shape(self.shape, wanted)})
        return reshape(self, wanted, order, copy=copy)

    def ravel(self, order: str | None = "C") -> Any:
        """As `np.ravel`."""
        return ravel(self, order)

    def flatten(self, order: str | None = "C") -> Any:
        """As `np.ravel`, always a copy."""
        return COPY(ravel(self, order))

    def transpose(self, *axes: Any) -> Any:
        """As `np.transpose`; the axes may be given as one tuple or as several integers."""
        return transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """As `np.swapaxes`."""
        return swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Any:
        """As `np.squeeze`."""
        return squeeze(self, axis)

    def astype(self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        """Return the Tensor in another dtype; a constant if the dtype is integer or boolean."""
        out = astype(self, dtype, casting, copy)
        if order == "K":
            return out
        if copy or out is not self:
            return COPY(out, order=order)
        return in_fortran_order(self) if is_fortran(self, order) else in_c_order(self)

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
    sum = reductions.sum
    mean = reductions.mean
    prod = reductions.prod
    max = extremes.MAX.front
    min = extremes.MIN.front
    var = statistics.var
    std = _method(np.std)
    cumsum = scans.cumsum
    cumprod = scans.cumprod
    any = _method(np.any)
    all = _method(np.all)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    argsort = _method(np.argsort)
    argpartition = _method(np.argpartition)
    nonzero = _method(np.nonzero)
    searchsorted = _method(np.searchsorted)
    repeat = _method(np.repeat)
    take = _method(np.take)
    dot = _method(np.dot)
    trace = _method(np.trace)
    diagonal = _method(np.diagonal)
    round = _method(np.round)
    choose = _method(np.choose)

    def conj(self: Any) -> Any:
        """As `np.conj`; a real Tensor is returned itself."""
        return _front(np.conjugate)(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """As `np.compress`."""
        return _called(np.compress, condition, self, axis, out)

    resize = _in_place("resize", "np.pad(t.ravel(), (0, n)).reshape(shape), which adds n zeros (np.resize repeats)")
    setfield = _in_place("setfield", "np.where(mask, new, t)")
    byteswap = _in_place("byteswap", "functad.stop_gradient(t).byteswap()")
