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
"""Types of NumPy for which `functad.numpy` has others; code that compares one of them by `is` keeps the originals of all."""


@functools.cache
def _stand_ins(kept: frozenset[str]) -> dict[int, ModuleType]:
    """Return by identity of NumPy, its parts and `math` the modules that stand for them, but for names that are kept."""
    found = {}

    def enter(original: ModuleType, names: dict[str, Any], **parts: ModuleType) -> ModuleType:
        chosen = {name: value for name, value in names.items() if name not in kept}
        found[id(original)] = result = stand_in(original, {**chosen, **parts})
        return result

    numpy = arrays.namespace()
    tricks = enter(np.lib.stride_tricks, vars(numpy["lib"].stride_tricks))
    parts = {name: enter(getattr(np, name), vars(numpy[name])) for name in ("linalg", "fft")}
    enter(np, numpy, **parts, lib=enter(np.lib, vars(numpy["lib"]), stride_tricks=tricks))
    enter(math, {name: getattr(functad.math, name) for name in functad.math.__all__})
    return found


@functools.cache
def _known() -> dict[int, tuple[Any, Any, frozenset[str]]]:
    """Return by identity each original that is replaced, with what stands for it, and its names."""
    found: dict[int, tuple[Any, Any, frozenset[str]]] = {}
    for module in _stand_ins(frozenset()).values():
        for name, value in vars(module).items():
            original = vars(module.original).get(name)
            stands = callable(value) and callable(original) and not name.startswith("__")
            if value is not original and (stands or name in ("r_", "c_")):
                _, first, names = found.get(id(original), (original, value, frozenset()))
                found[id(original)] = original, first, names | {name}
    return found


def kept_names(compared: frozenset[str], names: dict[str, Any]) -> frozenset[str]:
    """Return the names that stay those of the originals in code that compares some by `is`: there no other is like them.

    Args:
        compared: the names that it compares.
        names: the globals of the code, where what they stand for may have another name.
    """
    if not compared:
        return compared
    originals = {id(names.get(name)) for name in compared}
    groups = [group for key, (_, _, group) in _known().items() if key in originals or not compared.isdisjoint(group)]
    kept: frozenset[str] = frozenset().union(*groups)
    return kept | TYPES if kept & TYPES else kept


LATER: list[Callable[[Any], Any]] = []
"""Ask for what stands for an object of another package, once that is imported: `functad.scipy` enters itself here."""


def replacement(value: Any, *, kept: frozenset[str] = frozenset()) -> Any:
    """Return the object that stands for one in adopted code; itself if none does.

    Args:
        value: what a name of a module is bound to.
        kept: names that stay those of the originals.
    """
    module = _stand_ins(kept).get(id(value))
    if module is not None:
        return module
    entry = _known().get(id(value))
    if entry is not None:
        return value if kept and not kept.isdisjoint(entry[2]) else entry[1]
    if type(value) is np.vectorize:
        options = {name: getattr(value, name) for name in ("otypes", "excluded", "cache", "signature")}
        return arrays.vectorize(replacement(value.pyfunc, kept=kept), **options)
    for ask in LATER:
        found = ask(value)
        if found is not None:
            return found
    return value
