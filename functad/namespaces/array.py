"""An array of a library with the array API alone, with NumPy's protocols around it, so that rules compute with it.

Such a library has no `__array_ufunc__` and no `__array_function__`: NumPy would convert its arrays. Inside Tensors they stand
in a `NamespaceArray`, which answers NumPy with the functions of the library's own namespace. What leaves the outermost
transform is the library's own array again. NumPy's arrays beside it become arrays of the library; never the other way round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from math import prod
from typing import Any, NoReturn, TypeVar

import numpy as np

from functad.errors import FunctadError, UnsupportedError
from functad.namespaces.library import Library, library_of
from functad.places import here

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""What computes a function of NumPy: called with the library and the arguments, it returns arrays of the library."""

_Compute = TypeVar("_Compute", bound=Callable[..., Any])


def computes(*functions: Any) -> Callable[[_Compute], _Compute]:
    """Enter a function as what computes some of NumPy's."""

    def enter(compute: _Compute) -> _Compute:
        FUNCTIONS.update(dict.fromkeys(functions, compute))
        return compute

    return enter


_KINDS: dict[type, bool] = {}
"""For the classes of arrays that were met, whether they have the array API and none of NumPy's protocols."""

_OURS = (np.ndarray, np.generic, bool, int, float, complex)
_PROTOCOLS = ("__array_ufunc__", "__array_function__", "__functad_record__", "__functad_read__")
_LACKING = (AttributeError, NotImplementedError, TypeError)


def wrapped(value: Any) -> Any:
    """Return an array that has the array API alone as a `NamespaceArray`, and anything else as it is."""
    kind = type(value)
    known = _KINDS.get(kind)
    if known is None:
        known = hasattr(kind, "__array_namespace__") and not issubclass(kind, _OURS)
        known = _KINDS[kind] = known and not any(hasattr(kind, name) for name in _PROTOCOLS)
    if not known or library_of(value).known(value.dtype) is None:
        return value
    return NamespaceArray(value)


def wrapped_inside(value: Any) -> Any:
    """Return an argument of a function, in which arrays that have the array API alone are wrapped, those in lists too."""
    kind = type(value)
    if kind is not list and kind is not tuple:
        return value if kind in _USUAL else wrapped(value)
    if all(type(part) in _USUAL for part in value):
        return value
    parts = [wrapped_inside(part) for part in value]
    return value if all(a is b for a, b in zip(parts, value, strict=True)) else kind(parts)


_USUAL = frozenset({np.ndarray, np.float64, bool, int, float, complex, str, slice, type, type(None)})


def unwrapped(value: Any) -> Any:
    """Return a value, of a `NamespaceArray` the library's own array."""
    return value.array if type(value) is NamespaceArray else value


def array_type(value: Any) -> type:
    """Return the type of an array, as the library calls it that it is of."""
    return type(unwrapped(value))


def _answer(function: Any, compute: Callable[..., Any], lib: Library, args: Any, kwargs: Any) -> Any:
    """Call what computes a function of NumPy, and wrap its results.

    Raises:
        UnsupportedError: the library lacks it.
    """
    try:
        return _made(compute(lib, *args, **kwargs), lib)
    except _LACKING as error:
        if isinstance(error, FunctadError):
            raise
        raise lacks(function, lib, str(error)) from error


def lacks(function: Any, lib: Library, reason: str) -> UnsupportedError:
    """Return the error of a function of NumPy that a library cannot compute."""
    name = getattr(function, "__name__", str(function))
    module = str(getattr(function, "__module__", None) or "np").replace("numpy", "np", 1)
    if isinstance(function, np.ufunc):
        module = "np" if getattr(np, name, None) is function else "scipy.special"
    return UnsupportedError(
        f"{module}.{name} of arrays of {lib.name}, at {here()}: that library lacks what it needs ({reason}). Write it with "
        f"functions that the library has, or convert the array."
    )


def _made(out: Any, lib: Library) -> Any:
    """Return results of a function of the library, wrapped."""
    if type(out) is tuple or type(out) is list:
        return type(out)([_made(part, lib) for part in out])
    if hasattr(out, "_fields"):
        return type(out)(*[_made(part, lib) for part in out])
    return NamespaceArray(out) if hasattr(type(out), "__array_namespace__") and not issubclass(type(out), _OURS) else out


def _is_of_others(value: Any) -> bool:
    """Say whether a value is a Tensor, or an array of a library that has NumPy's protocols: these decide."""
    kind = type(value)
    return kind is not NamespaceArray and not issubclass(kind, _OURS) and hasattr(kind, "__array_ufunc__")


def _refuse(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(
            f"{name} of an array of {self.library.name}, at {here()}, would convert it to one of NumPy. If that is meant, "
            f"convert it before: np.asarray(x) of an argument, np.asarray(a.array) of what is computed without a derivative."
        )

    return method


class NamespaceArray:
    """An array of a library that has the array API alone.

    Attributes:
        array: the array of the library.
        own: nothing else looks at the memory of it, so that it may be written to.
    """

    __slots__ = ("array", "own")
    __hash__ = None  # type: ignore[assignment] # equality is elementwise, as for arrays

    def __init__(self, array: Any, own: bool = False) -> None:
        self.array = array
        self.own = own

    @property
    def library(self) -> Library:
        """The library whose array it is."""
        return library_of(self.array)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(map(_is_of_others, inputs)):
            return NotImplemented
        return _answer(ufunc, _table().ufunc_call, self.library, (ufunc, method, *map(wrapped, inputs)), kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(kind in (NamespaceArray, np.ndarray) for kind in types):
            return NotImplemented
        return self.apply(function, *args, **kwargs)

    def apply(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function of NumPy with arguments among which this array is."""
        kwargs = {name: value for name, value in kwargs.items() if value is not np._NoValue and name != "like"}
        table = _table()
        compute = FUNCTIONS.get(function) or table.by_name(function)
        return _answer(function, compute, self.library, map(wrapped_inside, args), kwargs)

    __array__ = _refuse("np.asarray")

    def made_of(self, value: Any) -> NamespaceArray:
        """Return an array of NumPy as one of the library, where this array is."""
        return NamespaceArray(self.library.array(value))

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as NumPy calls it."""
        return self.library.known(self.array.dtype)  # type: ignore[return-value] # others are not wrapped

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.array.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.array.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def base(self) -> Any:
        """The array of the library: whether others look at its memory is not known."""
        return self.array

    @property
    def device(self) -> Any:
        """Where the library has the array."""
        return self.array.device

    @property
    def T(self) -> Any:  # noqa: N802 - the name that arrays have
        """The transpose."""
        return self.transpose()

    @property
    def mT(self) -> Any:  # noqa: N802 - likewise
        """The transpose of the matrices in the last two axes."""
        return self.apply(np.swapaxes, self, -1, -2)

    @property
    def real(self) -> Any:
        """The real part."""
        return self.apply(np.real, self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self.apply(np.imag, self)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """As the method of NumPy's arrays."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        return self.apply(np.reshape, self, wanted, order=order)

    def transpose(self, *axes: Any) -> Any:
        """As the method of NumPy's arrays."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self.apply(np.transpose, self, given)

    def astype(self, dtype: Any, copy: bool = True, **kwargs: Any) -> Any:
        """Return the array in another dtype, that of the library which is called so, or its widest of that kind."""
        lib = self.library
        return NamespaceArray(lib.array(self.array, np.dtype(dtype)))

    def copy(self, order: str = "K") -> NamespaceArray:
        """Return a copy."""
        return NamespaceArray(self.library.copy(self.array), own=True)

    def conj(self) -> Any:
        """Return the complex conjugate."""
        return np.conjugate(self)

    conjugate = conj

    def item(self, *args: Any) -> Any:
        """Return an element as a number of Python's."""
        one = self.reshape(-1)[args[0]] if len(args) == 1 and type(args[0]) is int else self[args]
        return {"b": bool, "f": float, "c": complex}.get(self.dtype.kind, int)(one.reshape(()).array)

    def tolist(self) -> Any:
        """Return the elements as numbers of Python's."""
        return [part.tolist() for part in self] if self.shape else self.item()

    def __getitem__(self, index: Any) -> Any:
        self.own = False
        return _answer(operator.getitem, _table().read, self.library, (self.array, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        self.replace(index, value, adds=False)

    def replace(self, index: Any, value: Any, *, adds: bool) -> None:
        """Write into the array, or add to its elements: into a copy, where anything else may look at the memory."""
        lib = self.library
        array = self.array if self.own else lib.copy(self.array)
        try:
            self.array = _table().written(lib, array, index, value, adds)
        except _LACKING as error:
            raise error if isinstance(error, FunctadError) else lacks(operator.setitem, lib, str(error)) from error
        self.own = True

    def __bool__(self) -> bool:
        return bool(self.array)

    def __float__(self) -> float:
        return float(self.array)

    def __complex__(self) -> complex:
        return complex(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __index__(self) -> int:
        return operator.index(self.array)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return repr(self.array)

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.size == 1 and spec else self.array, spec)


@cache
def _table() -> Any:
    """Return the module that knows how the functions of NumPy are computed: few programs need it."""
    return import_module("functad.namespaces.functions")


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.apply(function, self, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"As `np.{name}`."
    return method


for _name in (
    *("sum", "mean", "prod", "max", "min", "any", "all", "var", "std", "argmax", "argmin", "argsort", "cumsum", "cumprod"),
    *("ravel", "swapaxes", "squeeze", "repeat", "take", "trace", "diagonal", "round", "dot", "clip", "nonzero", "searchsorted"),
):
    setattr(NamespaceArray, _name, _method(_name))
NamespaceArray.flatten = NamespaceArray.ravel  # type: ignore[attr-defined]


def _operator(name: str, ufunc: np.ufunc) -> None:
    def binary(self: Any, other: Any) -> Any:
        return NotImplemented if hasattr(type(other), "__functad_record__") else ufunc(self, other)

    def reflected(self: Any, other: Any) -> Any:
        return ufunc(other, self)

    setattr(NamespaceArray, f"__{name}__", binary)
    if name not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(NamespaceArray, f"__r{name}__", reflected)


for _name, _ufunc in (
    *(("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide), ("floordiv", np.floor_divide)),
    *(("mod", np.remainder), ("pow", np.power), ("matmul", np.matmul), ("and", np.bitwise_and), ("or", np.bitwise_or)),
    *(("xor", np.bitwise_xor), ("lshift", np.left_shift), ("rshift", np.right_shift)),
    *(("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal), ("eq", np.equal)),
    ("ne", np.not_equal),
):
    _operator(_name, _ufunc)


def _unary(name: str, ufunc: np.ufunc) -> None:
    setattr(NamespaceArray, f"__{name}__", lambda self: ufunc(self))


for _name, _function in (("neg", np.negative), ("pos", np.positive), ("abs", np.absolute), ("invert", np.invert)):
    _unary(_name, _function)
