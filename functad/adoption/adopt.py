"""`adopt`: makes code of others differentiable where it coerces, by what its names for NumPy, `math` and SciPy stand for.

NumPy and `math` themselves stay what they are; only the globals of the code that is named change, and what they are bound to
gives for plain values what it gave before. A package that is adopted is so with all that it imports later, and SciPy's Python
code with it, if it uses that.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from threading import RLock
from types import FunctionType, ModuleType
from typing import Any, Self, TypeVar, overload

from functad.adoption.imports import imported
from functad.adoption.modules import PACKAGES, AdoptedModule, covered, recount
from functad.adoption.own_code import adopted_class, adopted_function
from functad.adoption.scipy_functions import ENTERED_NOW, is_of_sparse_matrices, outside_traces
from functad.errors import InputError
from functad.forks import renewed
from functad.places import here

F = TypeVar("F", bound=Callable[..., Any])

_changing = renewed(RLock())
_modules: dict[str, AdoptedModule] = {}
_lasting: list[Adoption] = []


def _take(module: ModuleType) -> None:
    """Adopt a module, if it is not: one of functad's own, or one without code in Python, is left."""
    name = module.__name__
    if name not in _modules and name.partition(".")[0] != "functad" and not is_of_sparse_matrices(name):
        spec = getattr(module, "__spec__", None)
        if not isinstance(getattr(spec, "loader", None), ExtensionFileLoader):
            adopted = AdoptedModule(module)
            try:
                _modules[name] = adopted
                adopted.change(_compared())
                for other in list(_modules.values()) if adopted.compared else ():
                    other.keep(_compared())
            except BaseException:  # an interrupt, which must not leave a half of it
                adopted.restore()
                _modules.pop(name, None)
                raise


def _compared() -> frozenset[int]:
    """Return the identities of the originals that adopted modules compare by `is`."""
    return frozenset().union(*[module.compared for module in _modules.values()])


class _Finder(MetaPathFinder):
    """Finds modules of adopted packages by the other finders, and lets them be adopted when they have been executed."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec that the other finders give, with a loader that adopts; `None` for modules of other packages."""
        if not covered(fullname):
            return imported(fullname)
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
            if covered(module.__name__):
                _take(module)
                for adoption in _lasting:
                    adoption.follow_scipy(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_FINDER = _Finder()


def _take_all() -> None:
    for name, module in list(sys.modules.items()):
        if getattr(module, "__name__", None) == name and covered(name):
            _take(module)


def _recount() -> None:
    recount([name for adoption in _lasting for name in adoption.packages])


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

    def begin(self) -> None:
        """Adopt the packages and what is imported of them already. An interrupted call must be followed by `end`."""
        with _changing:
            self._change_names()

    def _change_names(self) -> None:
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        _lasting.append(self)
        _recount()
        for name in self.packages:
            if name not in sys.modules:
                importlib.import_module(name)
        _take_all()
        self.follow_scipy(*self._modules())

    def end(self) -> None:
        """Restore the names, also where further interrupts come on the way."""
        while self._lasts:
            try:
                self._restore()
            except Exception:
                raise
            except BaseException:  # noqa: BLE001, S112 - an interrupt
                continue

    def follow_scipy(self, *modules: str) -> None:
        """Adopt SciPy too if some of the modules, of which one may have been imported just now, are its own and use it."""
        if "scipy" not in self.packages and any(
            name in _modules and _modules[name].uses_scipy and self._is_own(name) for name in modules
        ):
            self.packages = (*self.packages, "scipy")  # whose functions are called with Tensors then
            _recount()
            _take_all()

    def _modules(self) -> list[str]:
        """Return the names of the modules that it has adopted."""
        return [name for name in _modules if self._is_own(name)]

    def _is_own(self, name: str) -> bool:
        return any(name == package or name.startswith(f"{package}.") for package in self.packages)

    @property
    def left(self) -> dict[str, str]:
        """What could not be changed, by name, and why."""
        found: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            if self._is_own(name):
                if name in _modules:
                    found.update(_modules[name].left)
                elif isinstance(getattr(getattr(module, "__spec__", None), "loader", None), ExtensionFileLoader):
                    found[name] = "it is an extension module"
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._restore()
        except BaseException:  # an interrupt, which must not leave a half of it
            self.end()
            raise

    def _restore(self) -> None:
        """Restore the names of what no other call has adopted; where it was interrupted, it can be called again."""
        with _changing:
            self._restore_names()

    def _restore_names(self) -> None:
        if self._lasts:
            if self in _lasting:
                _lasting.remove(self)
            _recount()
            for name in [name for name in _modules if not covered(name)]:
                _modules[name].restore()
                del _modules[name]
            self._lasts = False

    def __repr__(self) -> str:
        return f"<adopted: {', '.join(self.packages)}>" if self._lasts else "<no longer adopted>"


@overload
def adopt(target: F, /) -> F: ...
@overload
def adopt(*targets: str | ModuleType) -> Adoption: ...
def adopt(*targets: Any) -> Any:
    """Make code of others differentiable where it makes plain arrays and numbers of its arguments.

    In the globals of that code `numpy`, `math` and `scipy` become modules like `functad.numpy`, `functad.math` and
    `functad.scipy`, also where single names were imported from them. Those take Tensors; for plain values they give exactly
    what the originals give. NumPy and `math` themselves are not touched; SciPy is adopted with what uses it. Imports within
    functions give these modules too. A replacement compares, hashes, copies and pickles as the original. Where a module uses a
    function or a type as a value, and not only calls it, that name keeps the original: code that compares it by `is`, returns
    it or hands it to other code sees the same object as before. A type that is passed as a dtype or to `isinstance` does not
    count as a value. `module is numpy` holds for modules that adopted code hands around, not for NumPy itself.
    Functions that Numba compiled stay the same objects, and
    their Python code runs for Tensors; these and extension modules are named by the `left` of the result.

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
        return adopted_function(targets[0])
    if len(targets) == 1 and isinstance(targets[0], type):
        return adopted_class(targets[0])
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
    adoption = Adoption(names)
    try:
        adoption.begin()
        return adoption  # noqa: TRY300 - an interrupt may come between the two lines
    except BaseException:
        adoption.end()
        raise


def adopts_once(package: str, kept: list[Any]) -> Callable[[], None]:
    """Return a function that adopts a package for good, and keeps that in a list, unless it is adopted already."""

    def ready() -> None:
        if not covered(package):
            kept.append(adopt(package))

    return ready


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
    return sorted(PACKAGES)
