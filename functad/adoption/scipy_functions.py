"""Replacements of SciPy functions that are compiled, or that convert their arguments in a way that cannot be changed.

The files of `functad.scipy` register them by SciPy's names and modules. The rest of SciPy is Python code over NumPy, which
`functad.adopt("scipy")` makes differentiable like other packages.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

from functad.adoption.arrays import PLAIN_TYPES, has_tensors
from functad.adoption.code import module_of
from functad.adoption.compiled import CompiledFunction, is_compiled
from functad.adoption.replacements import LATER, EqualModule, Kept
from functad.adoption.standing import StandIn
from functad.adoption.standing import stands_for as standing_for
from functad.errors import ConversionError, UnsupportedError
from functad.places import here
from functad.primitives.linalg.sparse_products import is_sparse
from functad.primitives.operands import concrete, is_traced, read
from functad.tracing.trace import new_arrays_recorded_by, recorder_of_new_arrays, resolve
from functad.trees import flatten, tree_map

F = TypeVar("F", bound=Callable[..., Any])

ENTERED: dict[str, dict[str, Callable[..., Any]]] = {}
"""Replacements of SciPy functions, by module (such as `scipy.linalg`) and name."""

ENTERED_NOW: list[Callable[[str], None]] = []
"""Callbacks that receive the name of a module after its replacements are registered, to update adopted modules."""

BEFORE_TENSORS: list[Callable[[], Any]] = []
"""Callbacks before a replacement is called with Tensors: it may have been imported without SciPy being adopted."""

_replaced: dict[int, tuple[Any, Any]] = {}
_stand_ins: dict[tuple[str, Kept], ScipyStandIn] = {}


def of_tensors(part: str, *names: str, within: bool = False) -> Callable[[F], F]:
    """Return a decorator that registers a function as the replacement of a SciPy function for Tensors.

    For plain arguments, SciPy's function is called.

    Args:
        part: the module of the function, such as `scipy.linalg`.
        names: its names in that module. Default: the name of the decorated function.
        within: also search functions among the arguments: their closures and default values may hold Tensors.
    """

    def enter(function: F) -> F:
        result: Any = function
        for name in names or (function.__name__,):
            original = getattr(_module(part), name, None)
            if original is None:  # the installed SciPy lacks it
                continue
            called = (_dispatching_within if within else _dispatching)(original, function)
            ENTERED.setdefault(part, {})[name] = called
            _replaced[id(original)] = original, called
            if name == function.__name__:
                result = called
        names_there = vars(sys.modules[function.__module__])
        names_there.setdefault("__getattr__", _from_package(part.split(".")[1]))
        names_there.setdefault("__path__", [])  # submodules are found by their names
        return result  # type: ignore[no-any-return]

    return enter


def _from_package(part: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a file of `functad.scipy`, which looks up other names in the package."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(import_module("functad.scipy"), part), name)

    return get


def _module(name: str) -> ModuleType | None:
    """Import a module; return `None` if the installed SciPy lacks it."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def refuse(part: str, reasons: dict[str, str], *, within: bool = False) -> None:
    """Register SciPy functions that raise an error for a Tensor.

    Args:
        part: the module of the functions.
        reasons: by name, the reason and the alternative.
        within: as for `of_tensors`.
    """
    for name, reason in reasons.items():

        def refused(*args: Any, name: str = name, reason: str = reason, **kwargs: Any) -> Any:
            raise UnsupportedError(f"{part}.{name} of a Tensor, at {here()}: {reason}.")

        of_tensors(part, name, within=within)(refused)


def of_methods(kind: type, *names: str, within: bool = False) -> Callable[[F], F]:
    """Return a decorator that registers a function for Tensors as the replacement of methods of a SciPy class or its bases.

    Args:
        kind: the class.
        names: the names of the methods. The function receives the original method and then the arguments of the call.
        within: as for `of_tensors`.
    """

    def enter(function: F) -> F:
        for name in names:
            original = getattr(kind, name, None)
            if original is not None and id(original) not in _replaced:
                enter_one = _dispatching_within if within else _dispatching
                _replaced[id(original)] = original, enter_one(original, functools.partial(function, original))
        return function

    return enter


def stands_for(original: Any, called: Any) -> None:
    """Register the replacement of a SciPy object that is not a function."""
    _replaced[id(original)] = original, called


def _dispatching(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        if has_tensors(args) or (kwargs and has_tensors(kwargs.values())):
            for prepare in BEFORE_TENSORS:
                prepare()
            args, kwargs = tuple(map(read, args)), {name: read(value) for name, value in kwargs.items()}
            try:
                return function(*args, **kwargs)
            except (
                ConversionError,
                UnsupportedError,
            ):  # retry with plain values for Tensors that depend on no input
                args, kwargs, changed = _with_plain_constants(args, kwargs)
                if not changed:
                    raise
            return called(*args, **kwargs)
        if recorder_of_new_arrays() is None or not (_are_plain(args) and (not kwargs or _are_plain(kwargs.values()))):
            return original(*args, **kwargs)
        return outside_traces(original, *args, **kwargs)

    return _standing(original, called)


def _standing(original: Callable[..., Any], called: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for a SciPy function, which compares and hashes like it."""
    return standing_for(original, called) if type(original) in _FUNCTIONS else called


_FUNCTIONS = frozenset({FunctionType, BuiltinFunctionType})


def _with_plain_constants(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Return the arguments with plain arrays for Tensors that depend on no input, and `True` if an argument changed."""
    leaves, structure = flatten((args, kwargs))
    found = [constant_value(leaf) if is_traced(leaf) else leaf for leaf in leaves]
    changed = any(a is not b and not is_traced(a) for a, b in zip(found, leaves, strict=True))
    return (*structure.unflatten(found), changed)


def constant_value(a: Any) -> Any:
    """Return the plain value of a Tensor that depends on no input of any trace; any other Tensor unchanged."""
    a.current()
    value = resolve(a)
    while is_traced(value):
        if not value.recorder.is_constant(value):
            return a
        value = resolve(value.below)
    return value


def outside_traces(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that receives no Tensors outside all traces, since adopted code would make Tensors in a trace."""
    if type(function) is StandIn:  # SciPy's own name of it, in an adopted module
        function = vars(function)["original"]
    with new_arrays_recorded_by(None):
        return function(*args, **kwargs)


def _are_plain(values: Collection[Any]) -> bool:
    """Return `True` if values contain no Tensors: only numbers, arrays, sparse matrices, texts, and lists of these."""
    return all(
        type(value) in PLAIN_TYPES or is_sparse(value) or (type(value) in (list, tuple) and _are_plain(value))
        for value in values
    )


def _dispatching_within(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        # Only functions are searched: an object of SciPy, such as `ode`, holds arrays that adopted code made in a trace.
        if has_tensors(given) or any(callable(part) and _holds_tensors(part) for part in given):
            for prepare in BEFORE_TENSORS:
                prepare()
            return function(*args, **kwargs)
        return outside_traces(original, *args, **kwargs)

    return _standing(original, called)


def _holds_tensors(value: Any, depth: int = 3) -> bool:
    """Return `True` if a function holds Tensors in its closure or defaults, or in attributes of objects in its closure."""
    held: list[Any] = []
    if isinstance(value, FunctionType):
        if value not in _PLAIN:
            held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            for cell in value.__closure__ or ():
                with suppress(ValueError):  # the cell is empty so far
                    held.append(cell.cell_contents)
    elif isinstance(value, functools.partial):
        held = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, MethodType):
        held = [value.__func__, value.__self__]
    elif type(value) is dict:
        held = list(value.values())
    elif type(value) not in PLAIN_TYPES and not isinstance(value, (type, ModuleType)) and not is_traced(value):
        own = getattr(value, "__dict__", None)
        held = list(own.values()) if type(own) is dict else []
    return bool(held) and (has_tensors(held) or (depth > 0 and any(_holds_tensors(part, depth - 1) for part in held)))


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs `function` in the current trace and returns plain values."""
    recorder = recorder_of_new_arrays()

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with new_arrays_recorded_by(recorder):  # it may hold Tensors, and write them to arrays that it creates
            out = function(*args, **kwargs)
        return tree_map(plain_value, out)

    _PLAIN.add(called)
    return called


_PLAIN: WeakSet[Callable[..., Any]] = WeakSet()
"""Functions made by `plain`: they may hold Tensors, but return none."""


def plain_value(a: Any) -> Any:
    """Return the known value of a Tensor, a list or tuple of such values, or any other object unchanged."""
    if type(a) in (list, tuple):
        return type(a)(map(plain_value, a))
    return concrete(a, "A function of SciPy")


VALUE_OBSERVERS: list[Callable[[Any, Any], None]] = []
"""Called with SciPy's value and the value of the formula whose derivatives it gets. The tests compare them."""


def with_value(a: Any, value: Any) -> Any:
    """Return a Tensor with the derivatives of `a` and the value `value`, which was computed outside the trace."""
    known = plain_value(a)
    for observe in VALUE_OBSERVERS:
        observe(value, known)
    if np.isfinite(known).all():
        return a + (value - known)
    return with_infinite_value(a, a - known, known, value)


def with_infinite_value(a: Any, change: Any, known: Any, value: Any) -> Any:
    """Return `value` with the derivatives of `a`, for which a difference of infinities will not do.

    Args:
        a: a Tensor.
        change: the Tensor minus its value.
        known: the value of the Tensor.
        value: the value of the result. Where it differs from an infinite or NaN value of the Tensor, the derivative is 0.
    """
    return np.where(known == value, a, value + np.where(np.isfinite(known), change, 0.0))[()]


_FILES = sorted([path.stem for path in Path(__file__).parent.with_name("scipy").glob("[!_]*.py")])
_WAITING = _FILES.copy()
"""Files that are not loaded yet, since their part of SciPy has not been imported."""
_FOR = {"sparse": "scipy.sparse.linalg"}
"""Files for a submodule only: other parts of SciPy import the package while they are being imported."""
_LOADING: set[str] = set()
"""Parts with registration in progress: replacements of names are not final until then."""


def _load(part: str) -> None:
    """Import the `functad.scipy` file of a part of SciPy, if there is one and the part has been imported."""
    module = sys.modules.get(_FOR.get(part, f"scipy.{part}"))
    if part in _WAITING and module is not None and not _begun(module):
        _WAITING.remove(part)
        _LOADING.add(part)
        known = set(ENTERED)
        try:
            import_module(f"functad.scipy.{part}")
        finally:
            _LOADING.discard(part)
        shared = {".".join(name.split(".")[:2]) for name in ENTERED.keys() - known}  # `scipy._lib` is shared by all parts
        for tell in ENTERED_NOW:
            for name in {module.__name__, *shared}:
                tell(name)


def entered_in(part: str) -> dict[str, Callable[..., Any]]:
    """Return by name the replacements of the functions of a SciPy module."""
    _load(part.split(".")[1])
    return ENTERED.get(part, {})


def _begun(module: ModuleType) -> bool:
    """Return `True` if a module or one of its submodules is being imported, so that names are missing."""
    if _is_being_imported(module):  # the most frequent case: this check runs for each SciPy name
        return True
    inside = f"{module.__name__}."
    return any(name.startswith(inside) and _is_being_imported(part) for name, part in list(sys.modules.items()))


def _is_being_imported(module: ModuleType) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


_ASKED = ("__getattr__", "__dir__")
"""Names that Python looks up in a module itself before its class."""


class ScipyStandIn(EqualModule):
    """A stand-in for SciPy or a part of it: registered replacements, and all other names from SciPy."""

    def __init__(self, original: ModuleType, kept: Kept) -> None:
        super().__init__(original.__name__, original.__doc__)
        own = {name: value for name, value in vars(original).items() if name.startswith("__") and name not in _ASKED}
        vars(self).update(own, original=original, kept=kept)

    def __getattr__(self, name: str) -> Any:
        original, kept = vars(self)["original"], vars(self)["kept"]
        value = getattr(original, name)
        if id(value) in kept:
            return value
        _load((original.__name__ + ".").split(".")[1])
        found = ENTERED.get(original.__name__, {}).get(name) or replacement_of(value, kept)
        found = value if found is None else found
        if not _begun(original) and not _LOADING:
            vars(self)[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(vars(self)["original"])


def stand_in(module: ModuleType, kept: Kept = frozenset()) -> ScipyStandIn:
    """Return the stand-in for SciPy or a part of it; originals in `kept` are not replaced."""
    key = module.__name__, kept
    if key not in _stand_ins:
        _stand_ins[key] = ScipyStandIn(module, kept)
    return _stand_ins[key]


def replacement_of(value: Any, kept: Kept = frozenset()) -> Any:
    """Return the replacement of a SciPy module or function; `None` if there is none."""
    if not is_of_scipy(value):
        entry = _replaced.get(id(value))  # some functions of SciPy have another `__module__`
        return None if entry is None else entry[1]
    for part in _WAITING[:]:  # in the same order in every process
        if f"scipy.{part}" in sys.modules:
            _load(part)
    if isinstance(value, ModuleType):  # a private module has a stand-in only if functions of it are registered
        name = value.__name__
        private = any(part.startswith("_") for part in name.split("."))
        return stand_in(value, kept) if name in ENTERED or not private else None
    if type(value) is CompiledFunction:  # wrapped before a replacement was registered
        entry = _replaced.get(id(value.original))
        return None if entry is None or entry[1] is value else entry[1]
    entry = _replaced.get(id(value))
    if entry is None and is_compiled(value):
        entry = _replaced[id(value)] = value, CompiledFunction(value)
    return None if entry is None else entry[1]


def is_of_sparse_matrices(name: str) -> bool:
    """Return `True` for modules of SciPy's sparse matrices; compiled code reads their elements, which are never Tensors."""
    return f"{name}.".startswith("scipy.sparse.") and not f"{name}.".startswith("scipy.sparse.linalg.")


def is_of_scipy(value: Any) -> bool:
    """Return `True` if a module, function, class or instance belongs to SciPy."""
    name = value.__name__ if isinstance(value, ModuleType) else module_of(value)
    return f"{name}.".startswith("scipy.") or module_of(type(value)).startswith("scipy.")


LATER.append(replacement_of)
