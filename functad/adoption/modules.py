"""A module that is adopted: what its names, functions and classes refer to is bound to what stands for it, and restored."""

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
"""Stands among the globals of adopted code."""

PACKAGES: Counter[str] = Counter()
"""The packages and modules that are adopted, and how often."""

_prefixes: list[tuple[str, ...]] = [()]


def recount(names: Iterable[str]) -> None:
    """Take note of all packages that are adopted; those that are so several times come several times."""
    found = Counter(names)
    _prefixes[0] = tuple([f"{name}." for name in found])
    PACKAGES.clear()
    PACKAGES.update(found)


def covered(name: str) -> bool:
    """Say whether a module is adopted, or in a package that is."""
    return f"{name}.".startswith(_prefixes[0])


class AdoptedModule:
    """An adopted module: what was bound in it, and what is now.

    Attributes:
        module: the module.
        changes: each a place, a key, what stood there and what stands there now.
        left: what could not be changed, and why.
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
        """Bind all that the module refers to; what is interrupted on the way can be restored.

        Args:
            compared: identities of the originals that other adopted modules compare by `is`. The module keeps these where it
                stores them, since another module may be given them.
        """
        module = self.module
        functions = list(functions_of(module))
        uses = uses_of([f for f in functions if f.__name__ != "__getattr__"], vars(module))
        self.compared, self._stored_ids, self.compares = uses.compared, uses.stored, uses.compares
        self._compared_anywhere = compared | uses.compared
        self.kept = uses.kept | (uses.stored & self._compared_anywhere)
        functions += self._compiled()  # which read the originals for plain values
        self.change_names()
        self._change_code(functions)
        called = frozenset[str]().union(*map(_numbers, functions))
        for name in called - uses.numbers - vars(module).keys():
            self._set(vars(module), name, _ABSENT, NUMBERS[name])
        self._set(vars(module), MARK, _ABSENT, True)

    def change_names(self) -> None:
        """Bind what the module's names, its functions and its classes refer to, to what stands for it."""
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
                with suppress(Exception):  # what stands for a package that is not installed may raise whatever is asked of it
                    self._change_items(vars(value))  # an object that stands for an array library, say
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
        """Return the replacement of a default, an attribute or an entry of a table; other code may compare these by `is`."""
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
        """Change what a function of the package has by default, or keeps in cells, as one that a decorator made does."""
        if not covered(module_of(function)) or function.__globals__.get("__name__", "").partition(".")[0] == "functad":
            return  # functad's own, which stand for others, keep these in cells
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it is empty, so far
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
        if function.__dict__:  # a function for numbers may have one for arrays as an attribute
            for key, value in list(vars(function).items()):
                if type(value) is np.vectorize:
                    self._change(vars(function), key, value)

    def _change_code(self, functions: Sequence[FunctionType]) -> None:
        """Let functions that multiply by the method `dot` do so for Tensors too, and import what stands for NumPy."""
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
        """List the Python functions of the module that Numba compiles."""
        found = [python_function(value) for value in list(vars(self.module).values()) if is_of_numba(value)]
        return [function for function in found if type(function) is FunctionType and function.__globals__ is vars(self.module)]

    def _leave_compiled(self, value: Any) -> None:
        """Let Numba, which reads the globals when it compiles, find what they were; it knows functions by their identity."""
        function = of_tensors(value)
        if function is not None and PYTHON not in vars(value):
            kind: Any = type(value)
            with suppress(TypeError):  # a class of another layout
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
        """Keep originals that another module compares by `is`, if this module stores some of them.

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
        """Bind every name to what it was bound to, unless somebody else has bound it since."""
        for place, key, old, new in reversed(self.changes):
            held = (
                place if type(place) is dict else vars(place) if isinstance(place, type) else {key: getattr(place, key, None)}
            )
            if held.get(key) is new:
                _bind(place, key, old)


def _belongs_to_others(table: dict[Any, Any]) -> bool:
    """Return `True` if a table that a module has as a global is `sys.modules`, or belongs to a module that is not adopted."""
    if table is sys.modules:
        return True
    for name, module in list(sys.modules.items()):
        own = getattr(module, "__dict__", {})
        if own is table or (not covered(name) and any(value is table for value in list(own.values()))):
            return True
    return False


@of_code
def _numbers(code: CodeType) -> frozenset[str]:
    """Return the names of Python's types of numbers that occur in a function."""
    return frozenset().union(*[NUMBERS.keys() & part.co_names for part in codes_of(code)])


@of_code
def _changed(code: CodeType, package: str, kept: Kept) -> tuple[CodeType, bool, Imports]:
    """Return the code that a function gets, whether that calls `product`, and what it imports."""
    imports, multiplied = Imports(package, kept), with_products(code)
    return imports.redirected(multiplied), multiplied is not code, imports


class _Before(dict[str, Any]):
    """The globals of an adopted module as they would be if it were not."""

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
"""Types of what nothing stands for; there is much of it in modules."""


def _bind(place: Any, key: Any, value: Any) -> None:
    if type(place) is not dict:
        setattr(place, key, value)
    elif value is _ABSENT:
        del place[key]
    else:
        place[key] = value
