"""A stand-in for the arrays of CuPy, for machines without a graphics processor: they live on a device, and NumPy computes.

As CuPy's they refuse every implicit conversion, refuse arrays of NumPy beside them, know ufuncs but not their methods, and have
only those methods that CuPy's arrays have. What they do not know raises TypeError, and does not return `NotImplemented`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

_SCALARS = (bool, int, float, complex, np.generic)
_FACTS = {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj, np.may_share_memory}
METHODS = {
    *(
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "any",
        "all",
        "reshape",
        "ravel",
        "transpose",
        "swapaxes",
        "squeeze",
        "astype",
        "copy",
    ),
    *("conj", "cumsum", "cumprod", "dot", "repeat", "take", "trace", "diagonal", "var", "std", "clip", "round"),
}


def to_host(tree: Any) -> Any:
    """Return the arguments of a call as NumPy computes with them; what CuPy does not take raises."""
    if isinstance(tree, Device):
        return tree.memory
    if isinstance(tree, (list, tuple)):
        return type(tree)([to_host(part) for part in tree])
    if isinstance(tree, dict):
        return {key: to_host(value) for key, value in tree.items()}
    if tree is None or isinstance(tree, (*_SCALARS, str, slice, type, np.dtype, type(Ellipsis), type(np._NoValue))):
        return tree
    raise TypeError(f"Unsupported type {type(tree)}")


def to_device(tree: Any) -> Any:
    """Return the results of a call, numbers included, on the device."""
    if isinstance(tree, (np.ndarray, np.generic)):
        return Device(tree)
    if isinstance(tree, (list, tuple)):
        parts = [to_device(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


class Device:
    """See above."""

    __hash__ = None
    __array_priority__ = 100

    def __init__(self, memory: Any) -> None:
        self.memory = np.asarray(memory)

    shape = property(lambda self: self.memory.shape)
    dtype = property(lambda self: self.memory.dtype)
    ndim = property(lambda self: self.memory.ndim)
    size = property(lambda self: self.memory.size)
    T = property(lambda self: Device(self.memory.T))
    mT = property(lambda self: Device(self.memory.mT))  # noqa: N815 - the name that arrays have
    real = property(lambda self: Device(self.memory.real))
    imag = property(lambda self: Device(self.memory.imag))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return to_device(ufunc(*to_host(inputs), **to_host(kwargs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(kind in (Device, np.ndarray) for kind in types):
            return NotImplemented
        kwargs.pop("like", None)
        out = function(*to_host(args), **to_host(kwargs))
        return out if function in _FACTS else to_device(out)

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        return lambda *args, **kwargs: to_device(getattr(self.memory, name)(*to_host(args), **to_host(kwargs)))

    def __getitem__(self, index: Any) -> Any:
        return to_device(self.memory[to_host(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.memory[to_host(index)] = to_host(value)

    def __len__(self) -> int:
        return len(self.memory)


def _operator(name: str) -> None:
    ufunc = {"truediv": np.divide, "mod": np.remainder, "pow": np.power, "sub": np.subtract, "mul": np.multiply}.get(name)
    ufunc = ufunc or getattr(np, {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
                                  "ne": "not_equal", "and": "bitwise_and", "or": "bitwise_or"}.get(name, name))  # fmt: skip
    setattr(Device, f"__{name}__", lambda self, other: ufunc(self, other))
    setattr(Device, f"__r{name}__", lambda self, other: ufunc(other, self))


for _name in ("add", "sub", "mul", "truediv", "mod", "pow", "matmul", "lt", "le", "gt", "ge", "eq", "ne", "and", "or"):
    _operator(_name)
for _function in (operator.neg, operator.pos, operator.abs, operator.invert):
    setattr(Device, f"__{_function.__name__}__", lambda self, f=_function: Device(f(self.memory)))
