"""Functions of SciPy that are compiled, or that coerce by what cannot be replaced, as functions that take Tensors.

They stand in the files of `functad.scipy`, each by the name and under the part that SciPy has it in. All else of SciPy is
Python over NumPy, which `functad.adopt("scipy")` makes differentiable as it does other packages.
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
from functad.tracing.traces.base import making, making_plain, resolve
from functad.trees.functions import tree_map
from functad.trees.structure import flatten

F = TypeVar("F", bound=Callable[..., Any])

ENTERED: dict[str, dict[str, Callable[..., Any]]] = {}
"""By part, as `scipy.linalg`, and by name, what stands for functions of SciPy."""

ENTERED_NOW: list[Callable[[str], None]] = []
"""Are told the name of a part when its functions have been entered: names of modules that are adopted already follow then."""

BEFORE_TENSORS: list[Callable[[], Any]] = []
"""Are called before a function that was entered is with Tensors: it may have been imported without SciPy being adopted."""

_replaced: dict[int, tuple[Any, Any]] = {}
_stand_ins: dict[tuple[str, Kept], ScipyStandIn] = {}


def of_tensors(part: str, *names: str, within: bool = False) -> Callable[[F], F]:
    """Return a decorator that enters a function of Tensors for one of SciPy; for plain arguments SciPy's is called.

    Args:
        part: the module that has it, such as `scipy.linalg`.
        names: its names there; that of the decorated function if none is given.
        within: Tensors that functions among the arguments have in their closures or by default count too.
    """

    def enter(function: F) -> F:
        result: Any = function
        for name in names or (function.__name__,):
            original = getattr(_module(part), name, None)
            if original is None:  # the SciPy that is installed does not have it
                continue
            called = (_dispatching_within if within else _dispatching)(original, function)
            ENTERED.setdefault(part, {})[name] = called
            _replaced[id(original)] = original, called
            if name == function.__name__:
                result = called
        names_there = vars(sys.modules[function.__module__])
        names_there.setdefault("__getattr__", _from_package(part.split(".")[1]))
        names_there.setdefault("__path__", [])  # a part may have parts of its own, which are found by their names
        return result  # type: ignore[no-any-return]

    return enter


def _from_package(part: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a file of `functad.scipy`, which gives what is not in it as the package does."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(import_module("functad.scipy"), part), name)

    return get


def _module(name: str) -> ModuleType | None:
    """Import a module; `None` if the SciPy that is installed does not have it."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def refuse(part: str, reasons: dict[str, str], *, within: bool = False) -> None:
    """Enter for functions of SciPy that they raise when a Tensor is among the arguments.

    Args:
        part: the module that has them.
        reasons: by name, why, and what to use.
        within: as for `of_tensors`.
    """
    for name, reason in reasons.items():

        def refused(*args: Any, name: str = name, reason: str = reason, **kwargs: Any) -> Any:
            raise UnsupportedError(f"{part}.{name} of a Tensor, at {here()}: {reason}.")

        of_tensors(part, name, within=within)(refused)


def of_methods(kind: type, *names: str, within: bool = False) -> Callable[[F], F]:
    """Return a decorator that enters a function of Tensors for methods of a class of SciPy, or of one that it inherits from.

    Args:
        kind: the class.
        names: of the methods. The function is called with the original method, and then with what that is called with.
        within: Tensors that functions among the arguments hold count too, as for `of_tensors`.
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
    """Enter what is to stand for an object of SciPy that is no function."""
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
            except (ConversionError, UnsupportedError):  # what adopted code has made of constants only is none of its business
                args, kwargs, changed = _with_plain_constants(args, kwargs)
                if not changed:
                    raise
            return called(*args, **kwargs)
        if making() is None or not (_are_plain(args) and (not kwargs or _are_plain(kwargs.values()))):
            return original(*args, **kwargs)
        return outside_traces(original, *args, **kwargs)

    return _standing(original, called)


def _standing(original: Callable[..., Any], called: Callable[..., Any]) -> Callable[..., Any]:
    """Let what is called instead of a function of SciPy compare and hash as that."""
    return standing_for(original, called) if type(original) in _FUNCTIONS else called


_FUNCTIONS = frozenset({FunctionType, BuiltinFunctionType})


def _with_plain_constants(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Return the arguments of a call with plain arrays for Tensors that depend on no input, and whether there are such."""
    leaves, structure = flatten((args, kwargs))
    found = [constant_value(leaf) if is_traced(leaf) else leaf for leaf in leaves]
    changed = any(a is not b and not is_traced(a) for a, b in zip(found, leaves, strict=True))
    return (*structure.unflatten(found), changed)


def constant_value(a: Any) -> Any:
    """Return the plain value of a Tensor that depends on no input of any trace; another one as it is."""
    a.renew()
    value = resolve(a)
    while is_traced(value):
        if not value.recorder.is_constant(value):
            return a
        value = resolve(value.below)
    return value


def outside_traces(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that no Tensor can reach as if there were no trace, in which adopted code would make Tensors."""
    if type(function) is StandIn:  # SciPy's own name for it, in a module that is adopted
        function = vars(function)["original"]
    with making_plain():
        return function(*args, **kwargs)


def _are_plain(values: Collection[Any]) -> bool:
    """Say whether there are no Tensors in values: they are numbers, arrays, sparse matrices and texts, or lists of such."""
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
    """Return `True` if a function has Tensors in its closure, by default, or in the attributes of an object in its closure."""
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
    """Return a function that gives the plain values of what another one gives, which runs in the trace that is open now."""
    recorder = making()

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with making_plain(recorder):  # it may have Tensors in its closure, and write them into arrays that it makes
            out = function(*args, **kwargs)
        return tree_map(plain_value, out)

    _PLAIN.add(called)
    return called


_PLAIN: WeakSet[Callable[..., Any]] = WeakSet()
"""Functions that `plain` has made: what Tensors they hold, they do not give."""


def plain_value(a: Any) -> Any:
    """Return the value of a Tensor, which must be known, a list or tuple with such values, and anything else as it is."""
    if type(a) in (list, tuple):
        return type(a)(map(plain_value, a))
    return concrete(a, "A function of SciPy") if is_traced(a) else a


VALUE_OBSERVERS: list[Callable[[Any, Any], None]] = []
"""Called with SciPy's value and the value of the formula whose derivatives it gets. The tests compare them."""


def with_value(a: Any, value: Any) -> Any:
    """Return a Tensor with the derivatives of another one, and a value that was computed in a way that is not followed."""
    for observe in VALUE_OBSERVERS:
        observe(value, plain_value(a))
    return a + (value - plain_value(a))


_FILES = sorted([path.stem for path in Path(__file__).parent.with_name("scipy").glob("[!_]*.py")])
_WAITING = _FILES.copy()
"""Those that have not been loaded, as that part of SciPy has not been imported."""
_FOR = {"sparse": "scipy.sparse.linalg"}
"""Files for less than the part of their name: other parts import that, while they are being imported themselves."""
_LOADING: set[str] = set()
"""Parts whose functions are being entered: what stands for a name is not known for good until then."""


def _load(part: str) -> None:
    """Import what `functad.scipy` has for a part of SciPy, if it has anything and that part has been imported."""
    module = sys.modules.get(_FOR.get(part, f"scipy.{part}"))
    if part in _WAITING and module is not None and not _begun(module):
        _WAITING.remove(part)
        _LOADING.add(part)
        known = set(ENTERED)
        try:
            import_module(f"functad.scipy.{part}")
        finally:
            _LOADING.discard(part)
        shared = {".".join(name.split(".")[:2]) for name in ENTERED.keys() - known}  # as scipy._lib is by all parts
        for tell in ENTERED_NOW:
            for name in {module.__name__, *shared}:
                tell(name)


def entered_in(part: str) -> dict[str, Callable[..., Any]]:
    """Return by name the functions that stand for those of a part of SciPy."""
    _load(part.split(".")[1])
    return ENTERED.get(part, {})


def _begun(module: ModuleType) -> bool:
    """Say whether a module, or one in it, is being imported, so that names are missing."""
    if _is_being_imported(module):  # nearly always so where the answer is yes, and it is asked for each name of SciPy
        return True
    inside = f"{module.__name__}."
    return any(name.startswith(inside) and _is_being_imported(part) for name, part in list(sys.modules.items()))


def _is_being_imported(module: ModuleType) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


_ASKED = ("__getattr__", "__dir__")
"""What Python asks of a module itself, before its class."""


class ScipyStandIn(EqualModule):
    """A module that stands for SciPy or a part of it: it has what was entered for that, and all else from SciPy."""

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
    """Return the module that replaces SciPy, or a part of it, with some originals kept."""
    key = module.__name__, kept
    if key not in _stand_ins:
        _stand_ins[key] = ScipyStandIn(module, kept)
    return _stand_ins[key]


def replacement_of(value: Any, kept: Kept = frozenset()) -> Any:
    """Return the module or function that replaces one of SciPy; `None` if none does."""
    if not is_of_scipy(value):
        entry = _replaced.get(id(value))  # of some functions SciPy does not say that they are its own
        return None if entry is None else entry[1]
    for part in _WAITING[:]:  # in an order that is the same in every process
        if f"scipy.{part}" in sys.modules:
            _load(part)
    if isinstance(value, ModuleType):  # a private one if functions of it, which is compiled then, were entered
        name = value.__name__
        private = any(part.startswith("_") for part in name.split("."))
        return stand_in(value, kept) if name in ENTERED or not private else None
    if type(value) is CompiledFunction:  # it stood there before a rule was entered
        entry = _replaced.get(id(value.original))
        return None if entry is None or entry[1] is value else entry[1]
    entry = _replaced.get(id(value))
    if entry is None and is_compiled(value):
        entry = _replaced[id(value)] = value, CompiledFunction(value)
    return None if entry is None else entry[1]


def is_of_sparse_matrices(name: str) -> bool:
    """Say whether a module has the sparse matrices of SciPy, whose elements compiled code reads: they are no Tensors ever."""
    return f"{name}.".startswith("scipy.sparse.") and not f"{name}.".startswith("scipy.sparse.linalg.")


def is_of_scipy(value: Any) -> bool:
    """Say whether a module, function or class, or an object of such a class, is SciPy's."""
    name = value.__name__ if isinstance(value, ModuleType) else module_of(value)
    return f"{name}.".startswith("scipy.") or module_of(type(value)).startswith("scipy.")


LATER.append(replacement_of)
