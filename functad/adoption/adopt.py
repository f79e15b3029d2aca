"""`adopt`: makes code of others differentiable where it coerces, by what its names for NumPy, `math` and SciPy stand for.

NumPy and `math` themselves stay what they are; only the globals of the code that is named change, and what they are bound to
gives for plain values what it gave before. A package that is adopted is so with all that it imports later, and SciPy's Python
code with it, if it uses that.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from threading import RLock
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Self, TypeVar, overload

import numpy as np

from functad.adoption.code import calls, codes_of, compares, functions_of
from functad.adoption.products import PRODUCT, product, with_products
from functad.adoption.replacements import NUMBERS, TYPES, replacement
from functad.adoption.scipy_functions import ENTERED_NOW, is_of_scipy, is_of_sparse_matrices, outside_traces
from functad.errors import InputError, UnsupportedError
from functad.places import here

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__functad_adopted__"
"""Stands among the globals of adopted code."""

_changing = RLock()
_packages: Counter[str] = Counter()
_modules: dict[str, _Module] = {}
_lasting: list[Adoption] = []


class _Module:
    """An adopted module: what was bound in it, and what is now.

    Attributes:
        module: the module.
        changes: each a place, a key, what stood there and what stands there now.
        left: what could not be changed, and why.
    """

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.changes: list[tuple[Any, Any, Any, Any]] = []
        self.left: dict[str, str] = {}
        self.uses_scipy = False
        codes = list(codes_of(module))
        self.types = not any(compares(code, TYPES) for code in codes)
        self.change_names()
        self._change_products()
        for name, number in NUMBERS.items():
            if name not in vars(module) and calls(codes, name) and not any(compares(code, {name}) for code in codes):
                self._set(vars(module), name, _ABSENT, number)
        self._set(vars(module), MARK, _ABSENT, True)

    def change_names(self) -> None:
        """Bind what the module's names, its functions and its classes refer to, to what stands for it."""
        for name, value in list(vars(self.module).items()):
            if name.startswith("__") and name.endswith("__"):
                continue
            if type(value).__module__.partition(".")[0] == "numba":
                self.left[f"{self.module.__name__}.{name}"] = "it is compiled by Numba"
            elif type(value) is dict:
                self._change_items(value)
            elif isinstance(value, FunctionType):
                self._change_function(value)
            elif _covered(type(value).__module__) and not isinstance(value, type):
                with suppress(Exception):  # what stands for a package that is not installed may raise whatever is asked of it
                    self._change_items(vars(value))  # an object that stands for an array library, say
            elif isinstance(value, type) and value.__module__ == self.module.__name__:
                for own, attribute in list(vars(value).items()):
                    if isinstance(attribute, FunctionType):
                        self._change_function(attribute)
                        self._change(value, own, attribute)
                    elif isinstance(attribute, staticmethod):
                        found = replacement(attribute.__func__, types=self.types)
                        if found is not attribute.__func__:
                            self._set(value, own, attribute, staticmethod(found))
                    else:
                        self._change(value, own, attribute)
            self._change(vars(self.module), name, value)

    def _change(self, place: Any, key: Any, value: Any) -> None:
        self.uses_scipy = self.uses_scipy or is_of_scipy(value)
        found = replacement(value, types=self.types)
        if found is not value:
            self._set(place, key, value, found)

    def _change_items(self, table: dict[Any, Any]) -> None:
        for key, value in list(table.items()):
            if callable(value) or isinstance(value, ModuleType):
                self._change(table, key, value)

    def _change_function(self, function: FunctionType) -> None:
        """Change what a function of the package has by default, or keeps in cells, as one that a decorator made does."""
        if not _covered(function.__module__ or "") or function.__globals__.get("__name__", "").partition(".")[0] == "functad":
            return  # functad's own, which stand for others, keep these in cells
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it is empty, so far
                value = cell.cell_contents
                if isinstance(value, FunctionType) and value is not function and value.__closure__:
                    self._change_function(value)
                if callable(value) or isinstance(value, ModuleType):
                    self._change(cell, "cell_contents", value)
        defaults = function.__defaults__
        if defaults and any(callable(value) or isinstance(value, ModuleType) for value in defaults):
            found = tuple([replacement(value, types=self.types) for value in defaults])
            if any(a is not b for a, b in zip(found, defaults, strict=True)):
                self._set(function, "__defaults__", defaults, found)
        if function.__kwdefaults__:
            self._change_items(function.__kwdefaults__)
        if function.__dict__:  # a function for numbers may have one for arrays as an attribute
            for key, value in list(vars(function).items()):
                if type(value) is np.vectorize:
                    self._change(vars(function), key, value)

    def _change_products(self) -> None:
        """Let functions that multiply by the method `dot` do so for Tensors too."""
        for function in functions_of(self.module):
            code = with_products(function.__code__)
            if code is not function.__code__:
                if PRODUCT not in function.__globals__:
                    self._set(function.__globals__, PRODUCT, _ABSENT, product)
                self._set(function, "__code__", function.__code__, code)

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


_ABSENT: Any = object()


def _bind(place: Any, key: Any, value: Any) -> None:
    if type(place) is not dict:
        setattr(place, key, value)
    elif value is _ABSENT:
        del place[key]
    else:
        place[key] = value


def _covered(name: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in _packages)


def _take(module: ModuleType) -> None:
    """Adopt a module, if it is not: one of functad's own, or one without code in Python, is left."""
    name = module.__name__
    if name not in _modules and name.partition(".")[0] != "functad" and not is_of_sparse_matrices(name):
        spec = getattr(module, "__spec__", None)
        if not isinstance(getattr(spec, "loader", None), ExtensionFileLoader):
            _modules[name] = _Module(module)


class _Finder(MetaPathFinder):
    """Finds modules of adopted packages by the other finders, and lets them be adopted when they have been executed."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec that the other finders give, with a loader that adopts; `None` for modules of other packages."""
        if not _covered(fullname):
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if find is not None and not isinstance(finder, _Finder) else None
            if spec is not None:
                if spec.loader is not None and not isinstance(spec.loader, ExtensionFileLoader):
                    spec.loader = _AdoptingLoader(spec.loader)
                return spec  # type: ignore[no-any-return]
        return None


class _AdoptingLoader(Loader):
    """Loads a module as another loader does, and adopts it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module as the other loader does."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and adopt it."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        outside_traces(self._loader.exec_module, module)  # what it makes now lasts longer than a trace
        with _changing:
            if _covered(module.__name__):
                _take(module)
                for adoption in _lasting:
                    adoption.follow_scipy(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_FINDER = _Finder()


def _take_all() -> None:
    for name, module in list(sys.modules.items()):
        if getattr(module, "__name__", None) == name and _covered(name):
            _take(module)


def _follow(part: str) -> None:
    """Let the modules of a part of SciPy, that are adopted, use the functions that were entered for it meanwhile."""
    with _changing:
        for name in [name for name in _modules if name == part or name.startswith(f"{part}.")]:
            _modules[name].change_names()


ENTERED_NOW.append(_follow)


class Adoption:
    """What `adopt` did: it lasts, or until the end of a `with` block.

    Attributes:
        packages: the names of the packages and modules.
    """

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages: tuple[str, ...] = tuple(packages)
        self._lasts = True
        with _changing:
            if _FINDER not in sys.meta_path:
                sys.meta_path.insert(0, _FINDER)
            for name in self.packages:
                _packages[name] += 1
            try:
                for name in self.packages:
                    if name not in sys.modules:
                        importlib.import_module(name)
                _take_all()
                self.follow_scipy(*self._modules())
            except BaseException:
                self._end()
                raise
            _lasting.append(self)

    def follow_scipy(self, *modules: str) -> None:
        """Adopt SciPy too if some of the modules, of which one may have been imported just now, are its own and use it."""
        own = set(self._modules()).intersection(modules)
        if "scipy" not in self.packages and any(_modules[name].uses_scipy for name in own):
            self.packages = (*self.packages, "scipy")  # whose functions are called with Tensors then
            _packages["scipy"] += 1
            _take_all()

    def _modules(self) -> list[str]:
        """Return the names of the modules that it has adopted."""
        return [name for name in _modules if any(name == p or name.startswith(f"{p}.") for p in self.packages)]

    @property
    def left(self) -> dict[str, str]:
        """What could not be changed, by name, and why."""
        found: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            if any(name == package or name.startswith(f"{package}.") for package in self.packages):
                if name in _modules:
                    found.update(_modules[name].left)
                elif isinstance(getattr(getattr(module, "__spec__", None), "loader", None), ExtensionFileLoader):
                    found[name] = "it is an extension module"
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _end(self) -> None:
        """Restore the names of what no other call has adopted."""
        with _changing:
            if self._lasts:
                self._lasts = False
                if self in _lasting:
                    _lasting.remove(self)
                _packages.subtract(self.packages)
                for name in [name for name, count in _packages.items() if count <= 0]:
                    del _packages[name]
                for name in [name for name in _modules if not _covered(name)]:
                    _modules.pop(name).restore()

    def __repr__(self) -> str:
        return f"<adopted: {', '.join(self.packages)}>" if self._lasts else "<no longer adopted>"


class _Globals(dict[str, Any]):
    """The globals of one adopted function: those of its module, where what coerces is replaced as it is looked up."""

    def __init__(self, own: dict[str, Any], types: bool) -> None:
        super().__init__({MARK: True, PRODUCT: product, "__builtins__": {**vars(builtins), **NUMBERS, "__import__": _imported}})
        self._own, self._types = own, types

    def __missing__(self, name: str) -> Any:
        return replacement(self._own[name], types=self._types)


def _imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """Import as Python does; what an adopted function imports in its body is replaced too."""
    return replacement(__import__(name, globals, locals, fromlist, level))


def _function(f: FunctionType) -> FunctionType:
    """Return a function with the code of another one, and the globals of adopted code."""
    codes = [f.__code__, *[const for const in f.__code__.co_consts if isinstance(const, CodeType)]]
    if any(step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for code in codes for step in dis.get_instructions(code)):
        raise UnsupportedError(
            f"{f.__name__} assigns to a global name, at {here()}, which the adopted function would do apart from its module. "
            f'Adopt the module: functad.adopt("{f.__module__}").'
        )
    types = not any(compares(code, TYPES) for code in codes)
    cells = tuple([_cell(cell, types) for cell in f.__closure__ or ()]) or None
    found = FunctionType(with_products(f.__code__), _Globals(f.__globals__, types), f.__name__, f.__defaults__, cells)
    functools.update_wrapper(found, f)
    found.__kwdefaults__ = dict(f.__kwdefaults__) if f.__kwdefaults__ else None
    return found


def _cell(cell: CellType, types: bool) -> CellType:
    """Return a cell with what stands for the module or function that a cell holds; else the cell itself."""
    try:
        value = cell.cell_contents
    except ValueError:  # it is empty, so far
        return cell
    found = replacement(value, types=types)
    return cell if found is value else CellType(found)


def _class(cls: Any) -> Any:
    """Give a class methods that are adopted functions."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType):
            setattr(cls, name, _function(value))
        elif isinstance(value, (staticmethod, classmethod)) and isinstance(value.__func__, FunctionType):
            setattr(cls, name, type(value)(_function(value.__func__)))
        elif isinstance(value, property):
            found = property(value.fget, value.fset, value.fdel, value.__doc__)
            for set_accessor, part in ((found.getter, value.fget), (found.setter, value.fset), (found.deleter, value.fdel)):
                if isinstance(part, FunctionType):
                    found = set_accessor(_function(part))
            setattr(cls, name, found)
    return cls


@overload
def adopt(target: F, /) -> F: ...
@overload
def adopt(*targets: str | ModuleType) -> Adoption: ...
def adopt(*targets: Any) -> Any:
    """Make code of others differentiable where it makes plain arrays and numbers of its arguments.

    In the globals of that code `numpy`, `math` and `scipy` become modules like `functad.numpy`, `functad.math` and
    `functad.scipy`, also where single names were imported from them. Those take Tensors; for plain values they give exactly
    what the originals give. NumPy and `math` themselves are not touched; SciPy is adopted with what uses it. Functions that
    Numba compiled and extension modules stay what they are, and are named by the `left` of the result.

    Args:
        targets: packages or modules, by name or themselves, with their submodules and those that are imported later; or one
            function or one class of your own, which is changed alone.

    Returns:
        For packages and modules what was adopted: it lasts, or as a context manager until the end of its block. For a function
        a new one, with the code of the old; for a class the class itself, with such methods.

    Raises:
        ModuleNotFoundError: there is no such module.
        TypeError: a target is none of these.

    Example:
        >>> import functad, numpy as np
        >>> @functad.adopt
        ... def centred(a):
        ...     a = np.asarray(a, dtype=float)
        ...     out = np.zeros(len(a))
        ...     for i in range(len(a)):
        ...         out[i] = float(a[i]) - a.mean()
        ...     return out
        >>> functad.grad(lambda x: np.sum(centred(x) ** 2))(np.array([1.0, 2.0, 6.0]))
        array([-4., -2.,  6.])
        >>> with functad.adopt("statistics"):
        ...     "statistics" in functad.adopted()
        True
    """
    if len(targets) == 1 and isinstance(targets[0], FunctionType):
        return _function(targets[0])
    if len(targets) == 1 and isinstance(targets[0], type):
        return _class(targets[0])
    names = []
    for target in targets:
        if isinstance(target, ModuleType) and sys.modules.get(target.__name__) is target:
            names.append(target.__name__)
        elif isinstance(target, str):
            names.append(target)
        else:
            raise InputError(
                f"adopt() was given a {type(target).__name__}, at {here()}: it takes packages and modules, by name or "
                f"themselves, or one function or class alone."
            )
    if not names:
        raise InputError(f'adopt() was given nothing, at {here()}: name a package, functad.adopt("statsmodels").')
    return Adoption(names)


def adopted() -> list[str]:
    """Return the names of the packages and modules that are adopted now.

    Returns:
        The names, sorted; functions and classes that were adopted alone are not among them.

    Example:
        >>> import functad
        >>> with functad.adopt("statistics", "fractions"):
        ...     [name for name in functad.adopted() if name != "scipy"]
        ['fractions', 'statistics']
    """
    return sorted(_packages)
