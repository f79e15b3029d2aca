"""What stands for NumPy, `math` and SciPy in adopted code: modules like theirs, and for each function that coerces another one.

Everything here gives for plain values what the original gives. A function that takes Tensors already, by NumPy's protocols, is
the original itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import functad.math
from functad.adoption import arrays
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import is_traced
from functad.tracing.traces.base import resolve


class StandIn(ModuleType):
    """A module that stands for another one: what it does not have itself is the other's.

    Attributes:
        original: the module that it stands for.
    """

    original: ModuleType

    def __init__(self, original: ModuleType, names: dict[str, Any]) -> None:
        super().__init__(original.__name__, original.__doc__)
        vars(self).update({**vars(original), **names, "original": original})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __dir__(self) -> list[str]:
        return dir(self.original)


class _NumberType(type):
    """The class of what stands for `float` and `complex` in adopted code: of a Tensor they give a Tensor."""

    @property
    def original(cls) -> Any:
        """The type of Python."""
        return cls.__base__

    def __call__(cls, *args: Any) -> Any:
        if len(args) != 1 or not is_traced(args[0]):
            try:
                return cls.original(*args)
            except TypeError:  # a method of adopted code may have given a Tensor, for which Python has no use
                method = getattr(type(args[0]), f"__{cls.original.__name__}__", None) if len(args) == 1 else None
                value = method(args[0]) if isinstance(method, FunctionType) else None
                if not is_traced(value):
                    raise
                return value
        value = resolve(args[0])
        if not is_traced(value) or value.recorder.is_constant(value):
            return cls.original(value)
        number = value.reshape(()) if shape_of(value) else value
        wanted = np.dtype(cls.original)
        return number if dtype_of(number) == wanted else number.astype(wanted)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.original)

    def __eq__(cls, other: object) -> bool:
        return True if other is cls or other is cls.original else NotImplemented  # a dtype knows types that are equal to it

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __repr__(cls) -> str:
        return repr(cls.original)


def _number_type(original: Any) -> Any:
    members = {"__slots__": (), "__doc__": original.__doc__, "dtype": np.dtype(original)}
    return _NumberType(original.__name__, (original,), members)


class _TypeOfTypes(type):
    """The class of what stands for `type` in adopted code: of a Tensor it gives the type of its value, as `__class__` does."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and is_traced(args[0]):
            return args[0].__class__
        return type(*args, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, type)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is type

    def __hash__(cls) -> int:
        return hash(type)

    def __repr__(cls) -> str:
        return repr(type)


NUMBERS: dict[str, Any] = {
    "float": _number_type(float),
    "complex": _number_type(complex),
    "type": _TypeOfTypes("type", (type,), {"__doc__": type.__doc__}),
}
"""What stands for Python's own types, by name, in modules that call them."""

TYPES = frozenset({"float64", "float32", "float16", "complex128", "complex64", "double", "single"})
"""Types of NumPy for which `functad.numpy` has others; code that compares types by `is` keeps the originals."""


@functools.cache
def numpy_stand_in(types: bool) -> StandIn:
    """Return the module that stands for NumPy, with its number types replaced or not."""
    names = {name: value for name, value in arrays.namespace().items() if types or name not in TYPES}
    for part in ("linalg", "fft", "lib"):
        names[part] = StandIn(getattr(np, part), vars(names[part]))
    names["lib"].stride_tricks = StandIn(np.lib.stride_tricks, vars(names["lib"].stride_tricks))
    return StandIn(np, names)


@functools.cache
def _known() -> dict[int, tuple[Any, Any, bool]]:
    """Return by identity each original that is replaced, with what stands for it, and whether it is a type."""
    numpy = numpy_stand_in(True)
    python_math = StandIn(math, {name: getattr(functad.math, name) for name in functad.math.__all__})
    stand_ins = [numpy, numpy.linalg, numpy.fft, numpy.lib, numpy.lib.stride_tricks, python_math]
    found: dict[int, tuple[Any, Any, bool]] = {}
    for module in stand_ins:
        found[id(module.original)] = module.original, module, False
        for name, value in vars(module).items():
            original = vars(module.original).get(name)
            if value is not original and (callable(value) or name in ("r_", "c_")):
                found[id(original)] = original, value, isinstance(value, type) and name in TYPES
    return found


LATER: list[Callable[[Any], Any]] = []
"""Ask for what stands for an object of another package, once that is imported: `functad.scipy` enters itself here."""


def replacement(value: Any, *, types: bool = True) -> Any:
    """Return the object that stands for one in adopted code; itself if none does.

    Args:
        value: what a name of a module is bound to.
        types: types of numbers may be replaced too.
    """
    entry = _known().get(id(value))
    if entry is not None:
        if value is np:
            return numpy_stand_in(types)
        return value if entry[2] and not types else entry[1]
    for ask in LATER:
        found = ask(value)
        if found is not None:
            return found
    return value
