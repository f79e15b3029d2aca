"""Functions of NumPy as functions that take lists with Tensors in them.

A call with plain values is to cost next to nothing. What packs arguments and unpacks them again takes 0.3 us, so each function
gets one with its own parameters, whose text is made here: arguments are handed on by position. Lists are not looked through:
NumPy is called, and they only are when it asks a Tensor for an array. Of plain values NumPy need not ask whether they are
arrays of other libraries, so it is called behind that question, which takes as long as all that is done here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from inspect import Parameter
from types import CodeType
from typing import Any

import numpy as np

from functad.adoption.standing import ABSENT
from functad.primitives.operands import as_operand, is_traced, read
from functad.tracing.asked import AskedError, asks_first

PLAIN_TYPES = frozenset({
    np.ndarray, int, float, complex, bool, str, type(None), type, np.dtype, slice, np.float64, np.float32, np.int64, np.bool_,
    np.dtypes.Float64DType, type(Ellipsis), type(np._NoValue),
})  # fmt: skip
"""Types of arguments that are no Tensors and hold none."""

LISTS = frozenset({list, tuple})


def has_tensors(values: Collection[Any]) -> bool:
    """Say whether a Tensor, or a Variable, is among some values, or in a list or tuple there."""
    if PLAIN_TYPES.issuperset(map(type, values)):
        return False
    for value in values:
        kind = type(value)
        if kind not in PLAIN_TYPES and (has_tensors(value) if kind in LISTS else is_traced(value) or hasattr(kind, _READ)):
            return True
    return False


_READ = "__functad_read__"


def as_array(value: Any) -> Any:
    """Return a list with Tensors in it as one Tensor, a Variable as the one that it stands for, and others as they are."""
    if type(value) in LISTS:
        return as_operand(value) if has_tensors(value) else value
    return read(value)


def with_tensors(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function with Tensors for lists with Tensors in them."""
    return function(*map(as_array, args), **{key: as_array(value) for key, value in kwargs.items()})


_NO_ARRAYS = frozenset({
    "UPLO", "allow_pickle", "assume_unique", "axes", "axis", "axis1", "axis2", "axisa", "axisb", "axisc", "base", "bias",
    "bitorder", "casting", "compute_uv", "copy", "count", "ddof", "decimals", "deg", "density", "destination", "device",
    "dims", "dtype", "edge_order", "endpoint", "equal_nan", "full", "full_matrices", "hermitian", "include_initial",
    "increasing", "indexing", "invert", "keepdims", "kind", "k", "kth", "max_work", "method", "minlength", "mode", "n",
    "norm", "num", "offset", "optimize", "ord", "order", "out", "overwrite_input", "rcond", "retstep", "return_counts",
    "return_index", "return_indices", "return_inverse", "returned", "right", "roll", "rowvar", "s", "shape", "newshape",
    "side", "sorted", "source", "sparse", "stable", "subok", "upper",
})  # fmt: skip
"""Names of parameters that are lengths, axes and choices."""

_DISPATCHED = frozenset({"out", "destination", "base"})
"""Those among them by which NumPy finds arrays of other libraries."""

_ASK_ELEMENTS = frozenset({"histogram2d", "poly", "roots"})
"""Functions for which NumPy finds arrays of other libraries in lists too."""


_VAR_POSITIONAL, _VAR_KEYWORD, _KEYWORD_ONLY = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY

_Row = tuple[str, Any, Any, bool]


def taking_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, with Tensors for lists with Tensors in them."""
    without = getattr(function, "_implementation", function)  # which does not ask whether arguments are arrays of others
    compiled = not inspect.isfunction(without)
    without = function if function.__name__ in _ASK_ELEMENTS else without
    if compiled:  # and NumPy does not tell all of its signature
        return packing(function, without)
    parameters = tuple(inspect.signature(function).parameters.values())
    rows = [(p.name, p.default, p.kind, p.name not in _NO_ARRAYS) for p in parameters]
    held = {
        **{f"default_{p.name}": p.default for p in parameters}, "function": without, "AskedError": AskedError,
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
        except AskedError:
            pass
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
        if kind is _KEYWORD_ONLY and not required and own not in _NO_ARRAYS:
            known.append(f"{own} is {default}")
            continue
        call.append(f"{own}={own}" if kind is _KEYWORD_ONLY else f"{stars}{own}")
        if kind is _VAR_POSITIONAL:
            known.append(f"KNOWN.issuperset(map(type, {own}))")
        elif required:
            looks = f"type({own}) in LISTS and (not {own} or type({own}[0]) in KNOWN)"  # to be asked takes a Tensor 3 us
            known.append(f"(type({own}) in PLAIN or ({looks}))")
        elif own not in _NO_ARRAYS or own in _DISPATCHED:
            known.append(f"({own} is {default} or type({own}) in KNOWN)")
    text = _TEXT.format(
        name=name,
        head=", ".join(head),
        call=", ".join(call),
        every=", ".join([parameter.name for parameter in parameters]),
        known=" and ".join(known) or "True",
    )
    return compile(text, __file__, "exec")  # whose name says in a traceback that the frame is one of functad's


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
    return function(*args, **kwargs)


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
            except (AskedError, TypeError):  # of a call with too few arguments the function itself has another message
                pass
        return of_tensors(*[value for value in (a, b, c, *args) if value is not ABSENT], **kwargs)

    asks_first(called.__code__)
    return called
