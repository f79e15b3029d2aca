"""`adopt`: makes other code differentiable by replacing its NumPy, `math` and SciPy functions.

NumPy and `math` themselves stay unchanged. Only the globals of the named code change, and the replacements give the original
results for plain values. Adoption of a package includes its later imports, and SciPy's Python code if the package uses SciPy.
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
from functad.places import here
from functad.process import renewed

F = TypeVar("F", bound=Callable[..., Any])

_changing = renewed(RLock())
_modules: dict[str, AdoptedModule] = {}
_lasting: list[Adoption] = []


def _take(module: ModuleType) -> None:
    """Adopt a module, unless it is adopted already, belongs to functad, or has no Python code."""
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
            except BaseException:  # an interrupt must not leave a partly adopted module
                adopted.restore()
                _modules.pop(name, None)
                raise


def _compared() -> frozenset[int]:
    """Return the identities of the originals that adopted modules compare by `is`."""
    return frozenset().union(*[module.compared for module in _modules.values()])


class _Finder(MetaPathFinder):
    """Finds modules of adopted packages through the other finders, and adopts each module after its execution."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of another finder, with a loader that adopts; `None` for modules of other packages."""
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
    """Loads a module with another loader, and adopts it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with the other loader."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module and adopt it."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        outside_traces(self._loader.exec_module, module)  # objects created now outlive a trace
        with _changing:
            if covered(module.__name__):
                _take(module)
                for adoption in _lasting:
                    adoption.follow_scipy(module.__name__)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._loader, name)


_FINDER = _Finder()


def _take_all() -> None:
    for name, module in list(sys.modules.items()):
        if getattr(module, "__name__", None) == name and covered(name):
            _take(module)


def _recount() -> None:
    recount([name for adoption in _lasting for name in adoption.packages])


def _follow(part: str) -> None:
    """Rebind the names of adopted modules in a part of SciPy, after replacements for the part were registered."""
    with _changing:
        for name in [name for name in _modules if name == part or name.startswith(f"{part}.")]:
            _modules[name].change_names()


ENTERED_NOW.append(_follow)


class Adoption:
    """The result of `adopt`; it is in effect permanently, or until the end of a `with` block.

    Attributes:
        packages: the names of the packages and modules.
    """

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages: tuple[str, ...] = tuple(packages)
        self._lasts = True

    def begin(self) -> None:
        """Adopt the packages and their imported modules. After an interrupted call, `end` must be called."""
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
        """Restore the names, even if further interrupts occur."""
        while self._lasts:
            try:
                self._restore()
            except Exception:
                raise
            except BaseException:  # noqa: BLE001, S112 - an interrupt
                continue

    def follow_scipy(self, *modules: str) -> None:
        """Adopt SciPy too if some of the modules belong to this adoption and use SciPy."""
        if "scipy" not in self.packages and any(
            name in _modules and _modules[name].uses_scipy and self._is_own(name) for name in modules
        ):
            self.packages = (*self.packages, "scipy")  # its functions will be called with Tensors
            _recount()
            _take_all()

    def _modules(self) -> list[str]:
        """Return the names of the modules of this adoption."""
        return [name for name in _modules if self._is_own(name)]

    def _is_own(self, name: str) -> bool:
        return any(name == package or name.startswith(f"{package}.") for package in self.packages)

    @property
    def left(self) -> dict[str, str]:
        """The names that could not be changed, with the reasons."""
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
        except BaseException:  # an interrupt must not leave a partial restoration
            self.end()
            raise

    def _restore(self) -> None:
        """Restore the names that no other call has adopted; after an interrupt, it can be called again."""
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
    """Make other code differentiable, even if it converts its arguments to plain arrays and numbers.

    In the globals of that code, `numpy`, `math` and `scipy` become modules like `functad.numpy`, `functad.math` and
    `functad.scipy`. Names imported from them, and imports inside functions, are replaced too. The replacements accept Tensors
    and give exactly the original results for plain values. NumPy and `math` themselves do not change. SciPy is adopted together
    with a package that uses it.

    A replacement compares, hashes, copies and pickles like the original. If a module uses a function or type as a value, rather
    than only calling it, that name keeps the original: code that compares it by `is`, returns it or passes it on sees the
    original object. A type that is passed as a dtype or to `isinstance` does not count as a value. `module is numpy` holds for
    modules that adopted code passes around, but not for NumPy itself.

    Functions compiled by Numba stay the same objects; their Python code runs for Tensors. The attribute `left` of the result
    lists these functions and extension modules.

    Args:
        targets: packages or modules, as names or objects, with their submodules and later imports; or one function or class of
            your own, which is changed alone.

    Returns:
        For packages and modules, an `Adoption`: it is permanent, or lasts until the end of its `with` block. For a function, a
        new function with the same code. For a class, the class itself with adopted methods.

    Raises:
        ModuleNotFoundError: a module does not exist.
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
    """Return a function that adopts a package permanently, unless it is adopted already; `kept` receives the `Adoption`."""

    def ready() -> None:
        if not covered(package):
            kept.append(adopt(package))

    return ready


def adopted() -> list[str]:
    """Return the names of the packages and modules that are adopted now.

    Returns:
        The sorted names, without functions and classes that were adopted alone.

    Example:
        >>> import functad
        >>> with functad.adopt("statistics", "fractions"):
        ...     [name for name in functad.adopted() if name != "scipy"]
        ['fractions', 'statistics']
    """
    return sorted(PACKAGES)
