"""`TensorLike`: the base class of Variables and their parts, which act like the Tensor that is read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from functad.errors import InputError
from functad.places import here
from functad.primitives.operands import array_api_advice, foreign_rules, has_array_api_alone, read
from functad.tracing.operators import BINARY, UNARY
from functad.tracing.tensor import Tensor, passes_on


def refuse_foreign_rules(value: Any, call: str) -> None:
    """Refuse an array subclass with rules of its own, or a list that holds one: a masked array would lose its mask.

    Raises:
        InputError: `value` is or holds a masked array or a matrix.
    """
    if type(value) in (list, tuple):
        if not set(map(type, value)) <= _PLAIN_KINDS:
            for part in value:
                refuse_foreign_rules(part, call)
    elif type(value) is not np.ndarray and issubclass(type(value), np.ndarray) and (reason := foreign_rules(value)):
        raise InputError(f"{call} of a {type(value).__name__}, at {here()}. {reason}")


def refuse_array_api(value: Any, call: str) -> None:
    """Refuse an array that supports the array API but no protocol of NumPy, such as an array of JAX.

    Raises:
        InputError: `value` is such an array.
    """
    if has_array_api_alone(type(value)):
        raise InputError(f"{call} of a {type(value).__name__}, at {here()}. {array_api_advice(type(value))}")


def _read_inside(value: Any) -> Any:
    """Read a value, and all values in nested lists, tuples and dicts."""
    if isinstance(value, list):
        return [_read_inside(part) for part in value]
    if type(value) is tuple:
        return tuple([_read_inside(part) for part in value])
    if type(value) is dict:
        return {key: _read_inside(part) for key, part in value.items()}
    return read(value)


def _operator(name: str) -> Callable[..., Any]:
    """Return an operator method that reads the Tensor and applies its operator; the recorded line is the caller's."""
    operator = getattr(Tensor, name)
    counts_frames = "depth" in getattr(operator, "__code__", read.__code__).co_varnames

    def unary(self: Any) -> Any:
        return operator(self.__functad_read__(), 2) if counts_frames else operator(self.__functad_read__())

    forward = getattr(Tensor, f"__{name[3:]}", None) if name.startswith("__r") else None

    def binary(self: Any, other: Any, *modulus: Any) -> Any:
        if modulus:
            return operator(self.__functad_read__(), other, *modulus)
        if type(other) not in _PLAIN_KINDS:
            other = read(other)
        if forward is not None and type(other) is Tensor and counts_frames:  # the fast path is a method of the first operand
            return forward(other, self.__functad_read__(), depth=2)
        return operator(self.__functad_read__(), other, depth=2) if counts_frames else operator(self.__functad_read__(), other)

    method = unary if name in ("__neg__", "__pos__", "__abs__", "__invert__", "__round__") else binary
    method.__name__ = name
    return method


_PLAIN_KINDS = frozenset({np.ndarray, np.float64, float, int, Tensor})


class TensorLike:
    """Operators, NumPy's protocols and array attributes, all delegated to the Tensor that `__functad_read__` returns."""

    __slots__ = ("__weakref__",)
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]  # equality is elementwise, as for arrays

    def __functad_read__(self) -> Tensor:
        raise TypeError(f"{type(self).__name__} cannot be read")  # every subclass overrides this method

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and list not in map(type, inputs):
            values = [value if type(value) in _PLAIN_KINDS else read(value) for value in inputs]
            if len(values) == 1:
                unary = UNARY.get(ufunc)
                if unary is not None:
                    return unary(values[0], 2)
            else:
                short = BINARY.get(ufunc)
                if short is not None:
                    x, y = values
                    return short[0](x, y, depth=2) if type(x) is Tensor else short[1](y, x, depth=2)
            return self.__functad_read__().__array_ufunc__(ufunc, method, *values)
        return getattr(ufunc, method)(*map(_read_inside, inputs), **_read_inside(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_read_inside(args), **_read_inside(kwargs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.__functad_read__().__array__(dtype, copy)

    passes_on(__array__.__code__)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return self.__functad_read__().__array_namespace__(api_version=api_version)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.__functad_read__(), name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.__functad_read__().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the value."""
        return self.__functad_read__().dtype

    def numpy(self) -> Any:
        """Return a copy of the value as an array or number."""
        return self.__functad_read__().numpy()

    def __len__(self) -> int:
        return len(self.__functad_read__())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__functad_read__())

    def __bool__(self) -> bool:
        return bool(self.__functad_read__())

    def __float__(self) -> float:
        return float(self.__functad_read__())

    def __int__(self) -> int:
        return int(self.__functad_read__())

    def __complex__(self) -> complex:
        return complex(self.__functad_read__())

    def __index__(self) -> int:
        return self.__functad_read__().__index__()

    def __format__(self, spec: str) -> str:
        return format(self.__functad_read__(), spec)


_PLAIN = ["neg", "pos", "abs", "invert", "round", "contains", "lt", "le", "gt", "ge", "eq", "ne"]
_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "divmod", "and", "or", "xor", "lshift", "rshift"]

for _name in (*_PLAIN, *_BINARY, *("r" + _name for _name in _BINARY)):
    setattr(TensorLike, f"__{_name}__", _operator(f"__{_name}__"))
