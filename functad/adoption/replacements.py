"""Replacements of NumPy, `math` and SciPy in adopted code: modules like the originals, with replaced functions.

Every replacement gives the original results for plain values. A function that already accepts Tensors through NumPy's protocols
stays the original.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

import functad.math
from functad.adoption import arrays
from functad.adoption.code import codes_of, module_of, of_code
from functad.adoption.standing import ABSENT, StandIn, standing_type, stands_for
from functad.adoption.uses import IMPORTED, IS, LOCAL, STORED, Use, may_use_as_values, names_used_as_values
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import is_traced
from functad.tracing.trace import resolve


class EqualModule(ModuleType):
    """A module that compares and hashes like the module in its attribute `original`."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModuleType):
            return NotImplemented
        original = vars(self)["original"]
        return other is original or vars(other).get("original") is original

    def __hash__(self) -> int:
        return hash(vars(self)["original"])


def stand_in(original: ModuleType, names: dict[str, Any], equal: bool = False) -> ModuleType:
    """Return a module with the names of another module, some of them replaced.

    Args:
        original: the module.
        names: the replacements.
        equal: the result compares and hashes like `original`. Attribute lookup is faster in a plain module.
    """
    found = (EqualModule if equal else ModuleType)(original.__name__, original.__doc__)
    later = {"__getattr__": lambda name: getattr(original, name), "__dir__": lambda: dir(original), "original": original}
    vars(found).update({**vars(original), **names, **later})
    return found


def _of_tensor(kind: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `float` or `complex`; for a traced Tensor, return a number of that dtype, for a constant one a Python number."""
    if len(args) != 1 or kwargs or not is_traced(args[0]):
        try:
            return kind(*args, **kwargs)
        except TypeError:  # a method of adopted code may return a Tensor, which Python rejects
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
    """The metaclass of the replacement of `type`: for a Tensor, it returns the type of the value, like `__class__`."""

    def __call__(cls, x: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
        kind = type(x)
        if args or kwargs or x is ABSENT:
            return type(*(() if x is ABSENT else (x, *args)), **kwargs)
        return x.__class__ if hasattr(kind, "__functad_dispatch__") else kind

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
"""Replacements of Python's own types, by name, for modules that call them."""

Kept = frozenset[int]
"""Identities of originals that an adopted module uses as values and therefore keeps."""


@functools.cache
def _stand_ins(kept: Kept) -> dict[int, ModuleType]:
    """Return the replacements of NumPy, its submodules and `math`, by identity of the original; `kept` originals stay."""
    found = {}

    def enter(original: ModuleType, names: dict[str, Any], **parts: ModuleType) -> ModuleType:
        own = vars(original)
        chosen = {
            name: _like(own[name], value) if type(value) is FunctionType and name in own and value is not own[name] else value
            for name, value in names.items()
            if id(own.get(name)) not in kept
        }
        found[id(original)] = result = stand_in(original, {**chosen, **parts}, id(original) in kept)
        return result

    numpy = arrays.namespace()
    tricks = enter(np.lib.stride_tricks, vars(numpy["lib"].stride_tricks))
    parts = {name: enter(getattr(np, name), vars(numpy[name])) for name in ("linalg", "fft", "emath")}
    enter(np, numpy, **parts, lib=enter(np.lib, vars(numpy["lib"]), stride_tricks=tricks))
    enter(math, {name: getattr(functad.math, name) for name in functad.math.__all__})
    return found


@functools.cache
def _like(original: Any, function: Any) -> Any:
    """Return a replacement of a function that compares, hashes and pickles like the original."""
    return stands_for(original, function) if type(function) is FunctionType and callable(original) else function


@functools.cache
def _known() -> dict[int, tuple[Any, Any]]:
    """Return by identity each replaced original and its replacement."""
    found: dict[int, tuple[Any, Any]] = {}
    for module in _stand_ins(frozenset()).values():
        for name, value in vars(module).items():
            original = vars(module.original).get(name)
            stands = callable(value) and callable(original) and not name.startswith("__")
            if value is not original and (stands or name in ("r_", "c_")):
                found.setdefault(id(original), (original, value))
    return found


@functools.cache
def _replaced() -> frozenset[int]:
    """Return the identities of all replaced functions, types and modules."""
    return frozenset(_known()) | frozenset(_stand_ins(frozenset()))


@functools.cache
def _names() -> frozenset[str]:
    """Return the names of all replaced functions and types."""
    modules = [vars(module) for module in _stand_ins(frozenset()).values()]
    found = [name for names in modules for name, value in names.items() if value is not vars(names["original"]).get(name)]
    return frozenset(found) - {"r_", "c_", "original"} | NUMBERS.keys()


@of_code
def _used(code: CodeType, modules: frozenset[str]) -> frozenset[Use]:
    return names_used_as_values(code) if may_use_as_values(code, _names() | modules, _PACKAGES) else frozenset()


_PACKAGES = ("numpy", "math", "scipy")


class Uses(NamedTuple):
    """The functions and types that an adopted module uses as values, beyond calls.

    Attributes:
        kept: identities of functions and types of NumPy, `math` and SciPy that the module uses as values.
        numbers: names of Python's number types that the module uses as values.
        compares: `True` if a function compares objects by `is` and at least one was not loaded by a global name.
        compared: identities of the originals that functions compare by `is`.
        stored: identities of the originals that functions assign to attributes.
    """

    kept: Kept
    numbers: frozenset[str]
    compares: bool
    compared: Kept
    stored: Kept


def uses_of(functions: Sequence[FunctionType], names: dict[str, Any]) -> Uses:
    """Return the functions and types that the functions of a module use as values.

    Such code may compare an object by `is`, pickle it, or pass it on. No replacement behaves like the original there.

    Args:
        functions: the functions of a module.
        names: the globals of the module.
    """
    found: set[int] = set()
    numbers: set[str] = set()
    stored: dict[str, set[int]] = {}
    compared: set[int] = set()
    compares = False
    modules = frozenset([name for name, value in names.items() if isinstance(value, ModuleType) and id(value) in _replaced()])
    for function in functions:
        held = _held(function)
        uses = names_used_as_values(function.__code__) if held else _used(function, modules)
        known = {**names, **held} if held else names
        for path, reader in uses:
            value = _resolved(path, known)
            compares = compares or (reader == IS and value is None and not path.startswith((LOCAL, "?", " type")))
            if id(value) in _replaced() and isinstance(value, ModuleType):
                found.add(id(value))
            if not callable(value) or _only_reads(reader, known):
                continue
            if path in NUMBERS and value is vars(builtins)[path]:
                numbers.add(path)
            elif id(value) in _known() or _is_of_packages(value):
                (stored.setdefault(reader[1:], set()) if reader.startswith(STORED) else found).add(id(value))
                if reader == IS:
                    compared.add(id(value))
    for name in _attributes_compared(functions, stored):
        found |= stored[name]
    held_in_attributes = frozenset[int]().union(*stored.values())
    return Uses(frozenset(found), frozenset(numbers), compares, frozenset(compared), held_in_attributes)


def is_foreign(value: Any, module: str) -> bool:
    """Return `True` if an object is a function of NumPy, `math` or SciPy that a module imports."""
    return id(value) in _known() or (_is_of_packages(value) and module_of(value) != module)


def is_type_of_numpy(value: Any) -> bool:
    """Return `True` if an object is a NumPy type with a replacement, such as `np.float64`."""
    return isinstance(value, type) and id(value) in _known()


def _attributes_compared(functions: Sequence[FunctionType], names: Iterable[str]) -> set[str]:
    """Return the names of attributes that some function compares by `is`."""
    found: set[str] = set()
    wanted = frozenset(names)
    for function in functions if wanted else ():
        if any(not wanted.isdisjoint(part.co_names) for part in codes_of(function.__code__)):
            uses = names_used_as_values(function.__code__)
            found.update([path.rpartition(".")[2] for path, reader in uses if reader == IS and "." in path])
    return found & wanted


def _held(function: FunctionType) -> dict[str, Any]:
    """Return by name the modules and replaced functions in the defaults and closure of a function."""
    code, defaults = function.__code__, function.__defaults__ or ()
    given = dict(zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True))
    given.update(function.__kwdefaults__ or {})
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is empty so far
            given[name] = cell.cell_contents
    return {f"{LOCAL}{name}": value for name, value in given.items() if isinstance(value, ModuleType) or id(value) in _known()}


def _is_of_packages(value: Any) -> bool:
    """Return `True` if an object is a function of a package with replaced modules."""
    if isinstance(value, np.ufunc):
        return True
    return isinstance(value, (FunctionType, BuiltinFunctionType)) and module_of(value).partition(".")[0] in _PACKAGES


def _resolved(path: str, names: dict[str, Any]) -> Any:
    """Return the original object that a dotted name refers to; `None` if it is unknown."""
    imports = path.startswith(IMPORTED)
    first, *rest = path.removeprefix(IMPORTED).split(".")
    value = sys.modules.get(first) if imports else names.get(first, vars(builtins).get(first))
    for part in rest:
        if not isinstance(value, (ModuleType, type)):
            return None
        own: Any = vars(value)
        value = vars(own["original"]).get(part) if "original" in own else own.get(part)
    return vars(value).get("original", value) if type(value) is StandIn else value


def _only_reads(reader: str, names: dict[str, Any]) -> bool:
    """Return `True` if a function only calls its argument or reads it as a type, and does not pass it on."""
    if reader in ("isinstance", "issubclass", "map", "filter"):
        return reader not in names
    if reader.rpartition(".")[2] in ("setattr", "__setattr__"):  # frozen dataclasses assign defaults this way
        return True
    value = _resolved(reader, names) if reader else None
    if value is None and reader.startswith(("?.", LOCAL)):  # a method of an array, or a function of its namespace
        name = reader.rpartition(".")[2]
        value = np.ndarray if name in ("astype", "view") else getattr(np, name, None)
    return value is not np.vectorize and module_of(value).partition(".")[0] in _PACKAGES


LATER: list[Callable[[Any, Kept], Any]] = []
"""Functions that return replacements for objects of other packages; `functad.scipy` registers itself here when imported."""


def replacement(value: Any, *, kept: Kept = frozenset()) -> Any:
    """Return the replacement of an object in adopted code; the object itself if it has none.

    Args:
        value: the object that a name of a module is bound to.
        kept: identities of originals that are not replaced.
    """
    if id(value) in kept and not isinstance(value, ModuleType):
        return value
    module = _stand_ins(kept.intersection(_replaced()) if kept else kept).get(id(value))
    if module is not None:
        return module
    entry = _known().get(id(value))
    if entry is not None:
        return entry[1]
    if type(value) is np.vectorize:
        options = {name: getattr(value, name) for name in ("otypes", "excluded", "cache", "signature")}
        return arrays.vectorize(replacement(value.pyfunc, kept=kept), **options)
    for ask in LATER:
        found = ask(value, kept)
        if found is not None:
            return found
    return value
