"""Analysis of the code of a module without running it: its functions, their nested code and their instructions."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


def of_code(look: Callable[..., T]) -> Callable[..., T]:
    """Return a function that gives the result of `look` for a Python function, and caches the result.

    Args:
        look: a function of the code and of the further arguments.
    """
    known: WeakKeyDictionary[FunctionType, tuple[CodeType, tuple[Any, ...], T]] = WeakKeyDictionary()

    @functools.wraps(look)
    def found(function: FunctionType, *settings: Any) -> T:
        entry = known.get(function)
        if entry is None or entry[0] is not function.__code__ or entry[1] != settings:
            entry = known[function] = function.__code__, settings, look(function.__code__, *settings)
        return entry[2]

    return found


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Yield every function defined in a module, including methods, entries of tables, and functions that decorators hold."""
    names = vars(module)
    waiting = [value for value in list(names.values()) if type(value) is dict or _defined_in(value, module)]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:  # a class may contain itself
            continue
        seen.add(id(value))
        if type(value) is FunctionType and value.__globals__ is names:
            yield value
        waiting += _within(value, module)


def _within(value: Any, module: ModuleType) -> list[Any]:
    """Return the parts of a function, a class or another object that may be functions."""
    if type(value) is FunctionType:
        held = [value.__dict__.get("__wrapped__")]
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # the cell is empty so far
                held.append(cell.cell_contents)
        return [part for part in held if not isinstance(part, (type, dict, ModuleType))]
    if type(value) is dict:
        return [part for part in value.values() if type(part) is FunctionType]
    if isinstance(value, type):
        return list(vars(value).values()) if module_of(value) == module.__name__ else []
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return [value.__func__]
    if isinstance(value, _HOLDING):
        return [value.func]
    return [value.__wrapped__] if type(value) in _WRAPPING else []


_HOLDING = (functools.partial, functools.partialmethod, functools.cached_property)
_WRAPPING = frozenset({type(functools.cache(len))})


def codes_of(outermost: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of its nested functions."""
    waiting = [outermost]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]


def _defined_in(value: Any, module: ModuleType) -> bool:
    return module_of(value) == module.__name__


def module_of(value: Any) -> str:
    """Return the name of the module that defines a function or class; an empty string if it has none."""
    try:
        name = getattr(value, "__module__", None)
    except Exception:  # noqa: BLE001 - an object in place of a package that is not installed may raise any error
        return ""
    return name if isinstance(name, str) else ""  # a class may define a property `__module__`


def has_instruction(code: CodeType, operation: int) -> bool:
    """Return `True` if a code object contains an instruction."""
    raw = code.co_code
    return operation in raw and operation in raw[::2]  # the byte may be an operand; in most code it is absent


def steps_of(code: CodeType) -> Iterator[tuple[int, Any, int]]:
    """Yield each instruction with its operand (a name where it is one) and its offset; ten times faster than `dis`."""
    raw, names = code.co_code, code.co_names
    extended = 0
    for place in range(0, len(raw), 2):
        operation = raw[place]
        if operation != _CACHE:
            operand = raw[place + 1] | extended
            extended = operand << 8 if operation == dis.EXTENDED_ARG else 0
            if operation in _SHIFTS:
                yield operation, names[operand >> _SHIFTS[operation]], place
            elif operation != dis.EXTENDED_ARG:
                yield operation, operand, place


_CACHE = dis.opmap["CACHE"]
_SHIFTS = {
    dis.opmap[name]: shift
    for name, shift in {
        "LOAD_GLOBAL": 1,
        "LOAD_ATTR": int(sys.version_info >= (3, 12)),
        "LOAD_METHOD": 0,
        "LOAD_NAME": 0,
    }.items()
    if name in dis.opmap
}
"""For each instruction with a name operand, the number of flag bits below the index of the name."""
