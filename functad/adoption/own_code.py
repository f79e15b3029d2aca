"""Adoption of a single function or class of the user; its module stays unchanged."""

from __future__ import annotations

import builtins
import dis
import functools
from types import CellType, FunctionType
from typing import Any

from functad.adoption.code import codes_of
from functad.adoption.modules import MARK
from functad.adoption.products import PRODUCT, product, with_products
from functad.adoption.replacements import NUMBERS, Kept, replacement, uses_of
from functad.errors import UnsupportedError
from functad.places import here


class _Globals(dict[str, Any]):
    """The globals of one adopted function: the globals of its module, with replacements made at each lookup."""

    def __init__(self, own: dict[str, Any], kept: Kept, numbers: frozenset[str]) -> None:
        replaced = {name: value for name, value in NUMBERS.items() if name not in numbers}
        given = {**vars(builtins), **replaced, "__import__": functools.partial(_imported, kept)}
        super().__init__({MARK: True, PRODUCT: product, "__builtins__": given})
        self._own, self._kept = own, kept

    def __missing__(self, name: str) -> Any:
        return replacement(self._own[name], kept=self._kept)


def _imported(kept: Kept, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """Import as Python does, and return the replacement of the module."""
    return replacement(__import__(name, getattr(globals, "_own", globals), locals, fromlist, level), kept=kept)


def adopted_function(f: FunctionType) -> FunctionType:
    """Return a function with the same code and the globals of adopted code."""
    steps = [step for code in codes_of(f.__code__) for step in dis.get_instructions(code)]
    if any(step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in steps):
        raise UnsupportedError(
            f"{f.__name__} assigns to a global name, at {here()}, which the adopted function would do apart from its module. "
            f'Adopt the module: functad.adopt("{f.__module__}").'
        )
    kept, numbers, *_ = uses_of([f], f.__globals__)
    cells = tuple([_cell(cell, kept) for cell in f.__closure__ or ()]) or None
    found = FunctionType(with_products(f.__code__), _Globals(f.__globals__, kept, numbers), f.__name__, f.__defaults__, cells)
    functools.update_wrapper(found, f)
    found.__kwdefaults__ = dict(f.__kwdefaults__) if f.__kwdefaults__ else None
    return found


def _cell(cell: CellType, kept: Kept) -> CellType:
    """Return a cell with the replacement of the module or function in `cell`; `cell` itself if there is no replacement."""
    try:
        value = cell.cell_contents
    except ValueError:  # the cell is empty so far
        return cell
    found = replacement(value, kept=kept)
    return cell if found is value else CellType(found)


def adopted_class(cls: Any) -> Any:
    """Replace the methods of a class by adopted functions; return the class."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType):
            setattr(cls, name, adopted_function(value))
        elif isinstance(value, (staticmethod, classmethod)) and isinstance(value.__func__, FunctionType):
            setattr(cls, name, type(value)(adopted_function(value.__func__)))
        elif isinstance(value, functools.cached_property) and type(value.func) is FunctionType:
            cached = functools.cached_property(adopted_function(value.func))
            cached.__set_name__(cls, name)
            setattr(cls, name, cached)
        elif isinstance(value, property):
            found = property(value.fget, value.fset, value.fdel, value.__doc__)
            for set_accessor, part in ((found.getter, value.fget), (found.setter, value.fset), (found.deleter, value.fdel)):
                if isinstance(part, FunctionType):
                    found = set_accessor(adopted_function(part))
            setattr(cls, name, found)
    return cls
