"""Functions of NumPy as functions that take lists with Tensors in them.

A call with plain values is to cost next to nothing. What packs arguments and unpacks them again takes 0.3 us, so each function
gets one with its own parameters, whose text is made here: arguments are handed on by position. Lists are not looked through:
NumPy is called, and they only are when it asks a Tensor for an array. Of plain values NumPy need not ask whether they are
arrays of other libraries, so it is called behind that question, which takes as long as all that is done here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from types import CodeType
from typing import Any

from functad.adoption.standing import ABSENT
from functad.primitives import vocabulary
from functad.primitives.operands import (
    LISTS,
    NO_ARRAY,
    NO_ARRAYS,
    PLAIN_TYPES,
    as_array,
    first_tensor,
    has_tensors,
    is_traced,
    read,
)
from functad.tracing.tensor import AskedError, asks_first


def with_tensors(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function with Tensors for lists with Tensors in them."""
    return with_arrays_of(function, tuple(map(as_array, args)), {key: as_array(value) for key, value in kwargs.items()})


def concerns_tensors(error: BaseException) -> bool:
    """Return `True` if NumPy raised an error because it was given a Tensor in a list, or an object that holds one."""
    return isinstance(error, AskedError) or NO_ARRAY in str(error)


def with_arrays_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], of_tensors: Callable[..., Any] | None = None
) -> Any:
    """Call a function, with the Tensor in place of an object whose method `__array__` returns one, which NumPy refuses.

    Args:
        function: the function.
        args: its positional arguments.
        kwargs: its keyword arguments.
        of_tensors: is called with the Tensors, which may be in lists. Default: the function itself, with Tensors for lists.
    """
    try:
        return function(*args, **kwargs)
    except ValueError as error:
        if not concerns_tensors(error):
            raise
        given = list(map(_array_of, args)), {key: _array_of(value) for key, value in kwargs.items()}
        if not has_tensors((given[0], list(given[1].values()))):
            raise
    return (of_tensors or functools.partial(with_tensors, function))(*given[0], **given[1])


def _array_of(value: Any) -> Any:
    """Return the Tensor that the method `__array__` of an object returns; otherwise the object itself."""
    if type(value) in LISTS:
        parts = list(map(_array_of, value))
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    if type(value) in PLAIN_TYPES or is_traced(value) or not hasattr(type(value), "__array__"):
        return value
    array = value.__array__()
    return array if is_traced(array) else value


_DISPATCHED = frozenset({"out", "destination"})
"""Those among them by which NumPy finds arrays of other libraries."""

_ASK_ELEMENTS = frozenset({"poly", "roots"})
"""Functions of one array for which NumPy finds arrays of other libraries in lists too."""


_VAR_POSITIONAL, _VAR_KEYWORD, _KEYWORD_ONLY = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY

_Row = tuple[str, Any, Any, bool]


def taking_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, with Tensors for lists with Tensors in them."""
    entry = vocabulary.find(function)
    if entry is not None and entry.sequences:
        return taking_sequences(function)
    without = getattr(function, "_implementation", function)  # which does not ask whether arguments are arrays of others
    compiled = not inspect.isfunction(without)
    without = function if function.__name__ in _ASK_ELEMENTS else without
    if compiled:  # and NumPy does not tell all of its signature
        return packing(function, without)
    parameters = tuple(inspect.signature(function).parameters.values())
    rows = [(p.name, p.default, p.kind, p.name not in NO_ARRAYS) for p in parameters]
    held = {
        **{f"default_{p.name}": p.default for p in parameters}, "function": without, "AskedError": AskedError,
        "concerns": concerns_tensors,
        "PLAIN": PLAIN_TYPES, "LISTS": LISTS, "KNOWN": PLAIN_TYPES | LISTS, "__name__": __name__,
        "general": functools.partial(_called, function, rows),
    }  # fmt: skip
    exec(_code(function.__name__, parameters), held)  # noqa: S102 - see above
    made: Any = held[function.__name__]
    asks_first(made.__code__)
    return made  # type: ignore[no-any-return]


_TEXT = """
def {name}({head}):
    if {known}:
        try:
            return function({call})
        except (AskedError, ValueError) as error:
            if not concerns(error):
                raise
    return general(({every},))
"""


def _code(name: str, parameters: Sequence[Parameter]) -> CodeType:
    """Return the code that defines a function with some parameters."""
    head: list[str] = []
    call: list[str] = []
    known: list[str] = []
    for parameter in parameters:
        own, kind, default = parameter.name, parameter.kind, f"default_{parameter.name}"
        if kind is _KEYWORD_ONLY and not any(part.startswith("*") for part in head):
            head.append("*")
        stars = "*" if kind is _VAR_POSITIONAL else "**" if kind is _VAR_KEYWORD else ""
        required = parameter.default is Parameter.empty
        head.append(f"{stars}{own}" if required else f"{own}={default}")
        if kind is _VAR_KEYWORD:
            known.append(f"not {own}")
            continue
        if kind is _KEYWORD_ONLY and not required and own not in NO_ARRAYS:
            known.append(f"{own} is {default}")
            continue
        call.append(f"{own}={own}" if kind is _KEYWORD_ONLY else f"{stars}{own}")
        if kind is _VAR_POSITIONAL:
            known.append(f"KNOWN.issuperset(map(type, {own}))")
        elif required:
            looks = f"type({own}) in LISTS and (not {own} or type({own}[0]) in KNOWN)"  # to be asked takes a Tensor 3 us
            known.append(f"(type({own}) in PLAIN or ({looks}))")
        elif own not in NO_ARRAYS or own in _DISPATCHED:
            known.append(f"({own} is {default} or type({own}) in KNOWN)")
    text = _TEXT.format(
        name=name,
        head=", ".join(head),
        call=", ".join(call),
        every=", ".join([parameter.name for parameter in parameters]),
        known=" and ".join(known) or "True",
    )
    return compile(text, __file__, "exec")  # whose name says in a traceback that the frame is one of functad's


def taking_sequences(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, which takes a sequence of arrays, each of them perhaps a list with Tensors."""

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (AskedError, ValueError) as error:
            if not concerns_tensors(error):
                raise
        return _dispatched(function, args, kwargs)

    asks_first(called.__code__)
    return called


def _dispatched(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function as NumPy does for a Tensor among its arguments, also where the Tensor is in a list within a list."""
    tensor = read(first_tensor((args, tuple(kwargs.values()))))
    if is_traced(tensor):
        return tensor.__array_function__(function, (type(tensor),), args, kwargs)
    return with_arrays_of(function, args, kwargs, lambda *args, **kwargs: _dispatched(function, args, kwargs))


_HOLDING = frozenset({list, tuple, dict})


def _called(function: Callable[..., Any], rows: Sequence[_Row], values: Sequence[Any]) -> Any:
    """Call a function with what it was given: not all are plain values, or parameters are used that seldom are.

    Arrays of other libraries, which get to know how they are called, are given no more than the caller gave.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    skipped = False
    for (name, default, kind, is_array), value in zip(rows, values, strict=True):
        if value is default:
            skipped = True
            continue
        if is_array and type(value) in _HOLDING:
            if kind is _VAR_POSITIONAL:
                args.extend(map(as_array, value))
                continue
            if kind is _VAR_KEYWORD:
                kwargs.update({key: as_array(part) for key, part in value.items()})
                continue
            value = as_array(value)
        if skipped or kind is _KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    return with_arrays_of(function, args, kwargs)


def packing(function: Callable[..., Any], without: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, of unknown parameters, with Tensors for lists with Tensors in them.

    Args:
        function: the function.
        without: does the same, and does not ask whether arguments are arrays of other libraries.
    """
    known, of_tensors = PLAIN_TYPES | LISTS, functools.partial(with_tensors, function)

    def called(a: Any = ABSENT, b: Any = ABSENT, c: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and not args and type(a) in known:
            try:
                if b is ABSENT:
                    return without(a)
                if type(b) in known:
                    if c is ABSENT:
                        return without(a, b)
                    if type(c) in known:
                        return without(a, b, c)
            except TypeError:  # of a call with too few arguments the function itself has another message
                pass
            except (AskedError, ValueError) as error:
                if not concerns_tensors(error):
                    raise
        return of_tensors(*[value for value in (a, b, c, *args) if value is not ABSENT], **kwargs)

    asks_first(called.__code__)
    return called
