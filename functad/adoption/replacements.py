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
from functad.adoption.standing import ABSENT, standing_type
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import is_traced
from functad.tracing.traces.base import resolve


def stand_in(original: ModuleType, names: dict[str, Any]) -> ModuleType:
    """Return a module that stands for another one: what it does not have itself is the other's.

    Python finds names in a module faster than in one of a class of its own.
    """
    found = ModuleType(original.__name__, original.__doc__)
    later = {"__getattr__": lambda name: getattr(original, name), "__dir__": lambda: dir(original), "original": original}
    vars(found).update({**vars(original), **names, **later})
    return found


def _of_tensor(kind: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `float` or `complex`, of a Tensor: for a number of that dtype, or Python's of a constant one."""
    if len(args) != 1 or kwargs or not is_traced(args[0]):
        try:
            return kind(*args, **kwargs)
        except TypeError:  # a method of adopted code may have given a Tensor, for which Python has no use
            method = getattr(type(args[0]), f"__{kind.__name__}__", None) if len(args) == 1 else None
            value = method(args[0]) if isinstance(method, FunctionType) else None
            if not is_traced(value):
                raise
            return value
    value = resolve(args[0])
    if not is_traced(value) or value.recorder.is_constant(value):
        return kind(value)
    number = value.reshape(()) if shape_of(value) else value
    wanted = np.dtype(kind)
    return number if dtype_of(number) == wanted else number.astype(wanted)


def _number_type(kind: Any) -> Any:
    return standing_type(kind, functools.partial(_of_tensor, kind), dtype=np.dtype(kind))


class _TypeOfTypes(type):
    """The class of what stands for `type` in adopted code: of a Tensor it gives the type of its value, as `__class__` does."""

    def __call__(cls, x: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
        kind = type(x)
        if args or kwargs or x is ABSENT:
            return type(*(() if x is ABSENT else (x, *args)), **kwargs)
        return x.__class__ if hasattr(kind, "__functad_record__") else kind

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
def numpy_stand_in(types: bool) -> ModuleType:
    """Return the module that stands for NumPy, with its number types replaced or not."""
    names = {name: value for name, value in arrays.namespace().items() if types or name not in TYPES}
    for part in ("linalg", "fft", "lib"):
        names[part] = stand_in(getattr(np, part), vars(names[part]))
    vars(names["lib"]).update(stride_tricks=stand_in(np.lib.stride_tricks, vars(names["lib"].stride_tricks)))
    return stand_in(np, names)


@functools.cache
def _known() -> dict[int, tuple[Any, Any, bool]]:
    """Return by identity each original that is replaced, with what stands for it, and whether it is a type."""
    numpy = numpy_stand_in(True)
    python_math = stand_in(math, {name: getattr(functad.math, name) for name in functad.math.__all__})
    stand_ins = [numpy, numpy.linalg, numpy.fft, numpy.lib, numpy.lib.stride_tricks, python_math]
    found: dict[int, tuple[Any, Any, bool]] = {}
    for module in stand_ins:
        found[id(module.original)] = module.original, module, False
        for name, value in vars(module).items():
            original = vars(module.original).get(name)
            stands = callable(value) and callable(original) and not name.startswith("__")
            if value is not original and (stands or name in ("r_", "c_")):
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
    if type(value) is np.vectorize:
        options = {name: getattr(value, name) for name in ("otypes", "excluded", "cache", "signature")}
        return arrays.vectorize(replacement(value.pyfunc, types=types), **options)
    for ask in LATER:
        found = ask(value)
        if found is not None:
            return found
    return value
