"""NumPy functions extended to lists with Tensors in them.

Calls with plain values must cost almost nothing. Packing and unpacking arguments takes 0.3 us, so each function gets a
generated wrapper with its own parameters, which passes arguments by position. NumPy is called first; lists are searched only
if NumPy asks a Tensor for an array. For plain values, the wrapper calls the NumPy implementation without the check for arrays
of other libraries, which would take as long as the wrapper.
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
from functad.tracing.conversions import AskedError, asks_first


def with_tensors(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function with lists that contain Tensors converted to Tensors."""
    return with_arrays_of(function, tuple(map(as_array, args)), {key: as_array(value) for key, value in kwargs.items()})


def concerns_tensors(error: BaseException) -> bool:
    """Return `True` if NumPy raised an error because of a Tensor in a list, or of an object that holds a Tensor."""
    return isinstance(error, AskedError) or NO_ARRAY in str(error)


def with_arrays_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], of_tensors: Callable[..., Any] | None = None
) -> Any:
    """Call a function; objects whose method `__array__` returns a Tensor, which NumPy rejects, are replaced by that Tensor.

    Args:
        function: the function.
        args: its positional arguments.
        kwargs: its keyword arguments.
        of_tensors: called with the Tensors, which may be in lists. Default: `function`, with such lists converted to Tensors.
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
"""The parameters in `NO_ARRAYS` for which NumPy still dispatches to other libraries."""

_ASK_ELEMENTS = frozenset({"poly", "roots"})
"""Functions of one array for which NumPy dispatches to other libraries for list elements too."""


_VAR_POSITIONAL, _VAR_KEYWORD, _KEYWORD_ONLY = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY

_Row = tuple[str, Any, Any, bool]


def taking_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function` with lists that contain Tensors converted to Tensors."""
    entry = vocabulary.find(function)
    if entry is not None and entry.sequences:
        return taking_sequences(function)
    without = getattr(function, "_implementation", function)  # without the check for arrays of other libraries
    compiled = not inspect.isfunction(without)
    without = function if function.__name__ in _ASK_ELEMENTS else without
    if compiled:  # NumPy gives no complete signature
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
    """Return the code that defines the wrapper of a function with given parameters."""
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
            looks = f"type({own}) in LISTS and (not {own} or type({own}[0]) in KNOWN)"  # asking a Tensor takes 3 us
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
    return compile(text, __file__, "exec")  # the file name marks the frame as functad's in tracebacks


def taking_sequences(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of a function that takes a sequence of arrays; each of them may be a list with Tensors."""

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
    """Call a function by NumPy's dispatch on a Tensor among its arguments, also for a Tensor in nested lists."""
    tensor = read(first_tensor((args, tuple(kwargs.values()))))
    if is_traced(tensor):
        return tensor.__array_function__(function, (type(tensor),), args, kwargs)
    return with_arrays_of(function, args, kwargs, lambda *args, **kwargs: _dispatched(function, args, kwargs))


_HOLDING = frozenset({list, tuple, dict})


def _called(function: Callable[..., Any], rows: Sequence[_Row], values: Sequence[Any]) -> Any:
    """Call a function in the general case: with Tensors, other objects or rarely used parameters.

    Arrays of other libraries receive exactly the arguments that the caller passed, since dispatch shows them the call.
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
    """Return a wrapper of a function without a known signature; it converts lists that contain Tensors to Tensors.

    Args:
        function: the function.
        without: the same function without the check for arrays of other libraries.
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
            except TypeError:  # `function` has another message for too few arguments
                pass
            except (AskedError, ValueError) as error:
                if not concerns_tensors(error):
                    raise
        return of_tensors(*[value for value in (a, b, c, *args) if value is not ABSENT], **kwargs)

    asks_first(called.__code__)
    return called
