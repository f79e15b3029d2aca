"""Adopted modules: names, functions and classes of a module are bound to replacements, and restored."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from functad.adoption.code import codes_of, functions_of, module_of, of_code
from functad.adoption.imports import Imports
from functad.adoption.numba_functions import PYTHON, class_looking_for_tensors, is_of_numba, of_tensors, python_function
from functad.adoption.products import PRODUCT, product, with_products
from functad.adoption.replacements import NUMBERS, Kept, is_foreign, is_type_of_numpy, replacement, uses_of
from functad.adoption.scipy_functions import is_of_scipy

MARK = "__functad_adopted__"
"""A global that marks adopted code."""

PACKAGES: Counter[str] = Counter()
"""The adopted packages and modules, with the number of active adoptions."""

_prefixes: list[tuple[str, ...]] = [()]


def recount(names: Iterable[str]) -> None:
    """Set the adopted packages; a package with several adoptions appears several times."""
    found = Counter(names)
    _prefixes[0] = tuple([f"{name}." for name in found])
    PACKAGES.clear()
    PACKAGES.update(found)


def covered(name: str) -> bool:
    """Return `True` if a module or its package is adopted."""
    return f"{name}.".startswith(_prefixes[0])


class AdoptedModule:
    """An adopted module: its original and its current bindings.

    Attributes:
        module: the module.
        changes: tuples of the changed object, a key, the original value and the replacement.
        left: names that could not be changed, with the reason.
        compared: identities of the functions and types of NumPy, `math` and SciPy that the module compares by `is`.
    """

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.changes: list[tuple[Any, Any, Any, Any]] = []
        self.left: dict[str, str] = {}
        self.uses_scipy = False
        self.compared: Kept = frozenset()
        self._stored_ids: Kept = frozenset()

    def change(self, compared: Kept = frozenset()) -> None:
        """Bind all references of the module to replacements; an interrupted call can be restored.

        Args:
            compared: identities of the originals that other adopted modules compare by `is`. The module keeps these where it
                stores them, since another module may receive them.
        """
        module = self.module
        functions = list(functions_of(module))
        uses = uses_of([f for f in functions if f.__name__ != "__getattr__"], vars(module))
        self.compared, self._stored_ids, self.compares = uses.compared, uses.stored, uses.compares
        self._compared_anywhere = compared | uses.compared
        self.kept = uses.kept | (uses.stored & self._compared_anywhere)
        functions += self._compiled()  # for plain values, these read the originals
        self.change_names()
        self._change_code(functions)
        called = frozenset[str]().union(*map(_numbers, functions))
        for name in called - uses.numbers - vars(module).keys():
            self._set(vars(module), name, _ABSENT, NUMBERS[name])
        self._set(vars(module), MARK, _ABSENT, True)

    def change_names(self) -> None:
        """Bind the references of the module's names, functions and classes to replacements."""
        for name, value in list(vars(self.module).items()):
            if name.startswith("__") and name.endswith("__"):
                continue
            if is_of_numba(value):
                self.left[f"{self.module.__name__}.{name}"] = "it is compiled by Numba"
                self._leave_compiled(value)
            elif type(value) is dict:
                if self._changes_items(value) and not _belongs_to_others(value):
                    self._change_items(value)
            elif type(value) is FunctionType:
                self._change_function(value)
            elif covered(module_of(type(value))) and not isinstance(value, type):
                with suppress(Exception):  # a placeholder for a package that is not installed may raise any error
                    self._change_items(vars(value))  # for example, an object that wraps an array library
            elif isinstance(value, type) and module_of(value) == self.module.__name__:
                for own, attribute in list(vars(value).items()):
                    if type(attribute) is FunctionType:
                        self._change_function(attribute)
                        self._change(value, own, attribute)
                    elif isinstance(attribute, staticmethod):
                        found = self._stored(attribute.__func__)
                        if found is not attribute.__func__:
                            self._set(value, own, attribute, staticmethod(found))
                    else:
                        self._change(value, own, attribute)
            self._change(vars(self.module), name, value)

    def _change(self, place: Any, key: Any, value: Any) -> None:
        if type(value) in _VALUES:
            return
        self.uses_scipy = self.uses_scipy or is_of_scipy(value)
        found = replacement(value, kept=self.kept) if place is vars(self.module) else self._stored(value)
        if found is not value:
            self._set(place, key, value, found)

    def _stored(self, value: Any) -> Any:
        """Return the replacement of a default, an attribute or a table entry, unless other code may compare it by `is`."""
        stays = is_type_of_numpy(value) or id(value) in self._compared_anywhere
        stays = stays or (self.compares and is_foreign(value, self.module.__name__))
        return value if stays else replacement(value, kept=self.kept)

    def _changes_items(self, table: dict[Any, Any]) -> bool:
        values = [value for value in list(table.values()) if callable(value) or isinstance(value, ModuleType)]
        return any(self._stored(value) is not value for value in values)

    def _change_items(self, table: dict[Any, Any]) -> None:
        for key, value in list(table.items()):
            if callable(value) or isinstance(value, ModuleType):
                self._change(table, key, value)

    def _change_function(self, function: FunctionType) -> None:
        """Replace the defaults of a function of the package, and the values in its closure, such as a decorated function."""
        if not covered(module_of(function)) or function.__globals__.get("__name__", "").partition(".")[0] == "functad":
            return  # functad's replacements keep the originals in their closures
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # the cell is empty so far
                value = cell.cell_contents
                if type(value) is FunctionType and value is not function and value.__closure__:
                    self._change_function(value)
                if callable(value) or isinstance(value, ModuleType):
                    self._change(cell, "cell_contents", value)
        defaults = function.__defaults__
        if defaults and any(callable(value) or isinstance(value, ModuleType) for value in defaults):
            found = tuple([self._stored(value) for value in defaults])
            if any(a is not b for a, b in zip(found, defaults, strict=True)):
                self._set(function, "__defaults__", defaults, found)
        if function.__kwdefaults__:
            self._change_items(function.__kwdefaults__)
        if function.__dict__:  # a function for numbers may store one for arrays as an attribute
            for key, value in list(vars(function).items()):
                if type(value) is np.vectorize:
                    self._change(vars(function), key, value)

    def _change_code(self, functions: Sequence[FunctionType]) -> None:
        """Change the bytecode of functions: `dot` accepts Tensors, and imports give replacements."""
        package = vars(self.module).get("__package__") or self.module.__name__
        for function in functions:
            code, multiplies, imports = _changed(function, package, self.kept)
            if multiplies and PRODUCT not in function.__globals__:
                self._set(function.__globals__, PRODUCT, _ABSENT, product)
            self.uses_scipy = self.uses_scipy or imports.scipy
            if not imports.complete:
                name = f"{self.module.__name__}.{function.__qualname__}"
                self.left[name] = "it imports within its body, where it has too many names for another one"
            if code is not function.__code__:
                self._set(function, "__code__", function.__code__, code)

    def _compiled(self) -> list[FunctionType]:
        """Return the Python functions of the module that Numba compiles."""
        found = [python_function(value) for value in list(vars(self.module).values()) if is_of_numba(value)]
        return [function for function in found if type(function) is FunctionType and function.__globals__ is vars(self.module)]

    def _leave_compiled(self, value: Any) -> None:
        """Let Numba compile with the original globals, and call the Python function for Tensors."""
        function = of_tensors(value)
        if function is not None and PYTHON not in vars(value):
            kind: Any = type(value)
            with suppress(TypeError):  # a class with another layout
                self._set(value, "__class__", kind, class_looking_for_tensors(kind))
                self._set(vars(value), PYTHON, _ABSENT, function)
        dispatcher = getattr(value, "_dispatcher", value)
        for place in (dispatcher, getattr(dispatcher, "_compiler", None)):
            function = getattr(place, "py_func", None)
            if type(function) is FunctionType and function.__globals__ is vars(self.module):
                own = FunctionType(
                    function.__code__, _Before(self), function.__name__, function.__defaults__, function.__closure__
                )
                own.__kwdefaults__ = function.__kwdefaults__
                functools.update_wrapper(own, function)
                self._set(place, "py_func", function, own)

    def keep(self, compared: Kept) -> None:
        """Restore originals that another module compares by `is`, if this module stores some of them.

        Args:
            compared: identities of all originals that adopted modules compare by `is`.
        """
        new = compared - self._compared_anywhere
        own = vars(self.module)
        if new and (new & self._stored_ids or any(id(old) in new for place, _, old, _ in self.changes if place is not own)):
            self.restore()
            self.changes = []
            self.change(compared)

    def _set(self, place: Any, key: Any, old: Any, new: Any) -> None:
        self.changes.append((place, key, old, new))
        _bind(place, key, new)

    def restore(self) -> None:
        """Restore every binding, except those that other code has changed since."""
        for place, key, old, new in reversed(self.changes):
            held = (
                place if type(place) is dict else vars(place) if isinstance(place, type) else {key: getattr(place, key, None)}
            )
            if held.get(key) is new:
                _bind(place, key, old)


def _belongs_to_others(table: dict[Any, Any]) -> bool:
    """Return `True` if a table is `sys.modules`, or belongs to a module that is not adopted."""
    if table is sys.modules:
        return True
    for name, module in list(sys.modules.items()):
        own = getattr(module, "__dict__", {})
        if own is table or (not covered(name) and any(value is table for value in list(own.values()))):
            return True
    return False


@of_code
def _numbers(code: CodeType) -> frozenset[str]:
    """Return the names of Python's number types that occur in a function."""
    return frozenset().union(*[NUMBERS.keys() & part.co_names for part in codes_of(code)])


@of_code
def _changed(code: CodeType, package: str, kept: Kept) -> tuple[CodeType, bool, Imports]:
    """Return the changed code of a function, `True` if it calls `product`, and its imports."""
    imports, multiplied = Imports(package, kept), with_products(code)
    return imports.redirected(multiplied), multiplied is not code, imports


class _Before(dict[str, Any]):
    """The globals of an adopted module with the original values."""

    def __init__(self, adopted: AdoptedModule) -> None:
        super().__init__()
        self._adopted = adopted

    def __missing__(self, name: str) -> Any:
        names = vars(self._adopted.module)
        value = names[name]
        for place, key, old, new in self._adopted.changes:
            if place is names and key == name and value is new:
                value = old
        if value is _ABSENT:
            raise KeyError(name)
        return value


_ABSENT: Any = object()

_VALUES = frozenset({str, int, float, complex, bool, bytes, tuple, list, set, frozenset, type(None), np.ndarray, np.float64})
"""Types that never have a replacement; most values in modules have one of these types."""


def _bind(place: Any, key: Any, value: Any) -> None:
    if type(place) is not dict:
        setattr(place, key, value)
    elif value is _ABSENT:
        del place[key]
    else:
        place[key] = value
