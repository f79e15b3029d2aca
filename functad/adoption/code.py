"""What can be seen in the code of a module without running it: which names its functions call and compare."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Yield every function that is defined in a module, and those in its classes."""
    waiting = [value for value in vars(module).values() if _defined_in(value, module)]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:  # a class may hold itself
            continue
        seen.add(id(value))
        if isinstance(value, type):
            waiting += vars(value).values()
            continue
        value = getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", None) or value
        value = getattr(value, "__wrapped__", value)
        if isinstance(value, FunctionType):
            yield value


def codes_of(module: ModuleType) -> Iterator[CodeType]:
    """Yield the code of every function that is defined in a module, of those in its classes and of those within functions."""
    waiting = [function.__code__ for function in functions_of(module)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]


def _defined_in(value: Any, module: ModuleType) -> bool:
    try:
        return bool(getattr(value, "__module__", None) == module.__name__)
    except Exception:  # noqa: BLE001 - what stands for a package that is not installed may raise whatever is asked of it
        return False


def calls(codes: Sequence[CodeType], name: str) -> bool:
    """Say whether a function uses a global name or an attribute of this name."""
    return any(name in code.co_names for code in codes)


def compares(code: CodeType, names: Any) -> bool:
    """Say whether a function compares something with one of the names by `is`, as in `type(x) is float`."""
    if names.isdisjoint(code.co_names) or dis.opmap["IS_OP"] not in code.co_code[::2]:
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    return any(
        step.opname.startswith(("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_NAME")) and step.argval in names and after.opname == "IS_OP"
        for step, after in pairwise(steps)
    )
