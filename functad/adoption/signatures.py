"""Functions of NumPy as functions that take lists with Tensors in them.

A call with plain values is to cost next to nothing. What packs arguments and unpacks them again takes 0.3 us, so each function
gets one with its own parameters, whose text is made here: arguments are handed on by position. Outside of every trace a list is
not looked through: NumPy is called, and the list only is when that raises, or was given the value of a Tensor.
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
from functad.primitives.operands import as_operand, is_traced
from functad.tracing.tensor import GIVEN
from functad.tracing.traces.base import OPEN

PLAIN_TYPES = frozenset({
    np.ndarray, int, float, complex, bool, str, type(None), type, np.dtype, slice, np.float64, np.float32, np.int64, np.bool_,
    np.dtypes.Float64DType, type(Ellipsis), type(np._NoValue),
})  # fmt: skip
"""Types of arguments that are no Tensors and hold none."""

LISTS = frozenset({list, tuple})


def has_tensors(values: Collection[Any]) -> bool:
    """Say whether a Tensor is among some values, or in a list or tuple there."""
    if PLAIN_TYPES.issuperset(map(type, values)):
        return False
    for value in values:
        kind = type(value)
        if kind not in PLAIN_TYPES and (has_tensors(value) if kind in LISTS else is_traced(value)):
            return True
    return False


def as_array(value: Any) -> Any:
    """Return a list or tuple with Tensors in it as one Tensor; anything else as it is."""
    return as_operand(value) if type(value) in LISTS and has_tensors(value) else value


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


_VAR_POSITIONAL, _VAR_KEYWORD, _KEYWORD_ONLY = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD, Parameter.KEYWORD_ONLY

_Row = tuple[str, Any, Any, bool]


def taking_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, with Tensors for lists with Tensors in them."""
    if not inspect.isfunction(getattr(function, "_implementation", function)):  # of what is compiled NumPy tells not all
        return packing(function)
    parameters = tuple(inspect.signature(function).parameters.values())
    rows = [(p.name, p.default, p.kind, p.name not in _NO_ARRAYS) for p in parameters]
    held = {
        **{f"default_{p.name}": p.default for p in parameters}, "function": function, "open": OPEN.get, "given": GIVEN,
        "PLAIN": PLAIN_TYPES, "KNOWN": PLAIN_TYPES | LISTS, "general": functools.partial(_called, function, rows),
        "__name__": __name__,
    }  # fmt: skip
    exec(_code(function.__name__, parameters), held)  # noqa: S102 - see above
    return held[function.__name__]  # type: ignore[no-any-return]


_TEXT = """
def {name}({head}):
    if {unused}:
        if {plain}:
            return function({call})
        if {known} and open() is None:
            before = given[0]
            try:
                out = function({call})
            except Exception:
                pass
            else:
                if given[0] is before:
                    return out
    return general(({every},))
"""


def _code(name: str, parameters: Sequence[Parameter]) -> CodeType:
    """Return the code that defines a function with some parameters."""
    head: list[str] = []
    call: list[str] = []
    unused: list[str] = []
    types: list[str] = []
    for parameter in parameters:
        own, kind, default = parameter.name, parameter.kind, f"default_{parameter.name}"
        if kind is _KEYWORD_ONLY and not any(part.startswith("*") for part in head):
            head.append("*")
        stars = "*" if kind is _VAR_POSITIONAL else "**" if kind is _VAR_KEYWORD else ""
        required = parameter.default is Parameter.empty
        head.append(f"{stars}{own}" if required else f"{own}={default}")
        call.append(f"{own}={own}" if kind is _KEYWORD_ONLY else f"{stars}{own}")
        if kind is _VAR_KEYWORD:
            unused.append(f"not {own}")
        elif kind is _VAR_POSITIONAL:
            types.append(f"{{0}}.issuperset(map(type, {own}))")
        elif required:
            types.append(f"type({own}) in {{0}}")
        elif own not in _NO_ARRAYS:
            unused.append(f"{own} is {default}")
    text = _TEXT.format(
        name=name,
        head=", ".join(head),
        call=", ".join(call),
        every=", ".join([parameter.name for parameter in parameters]),
        unused=" and ".join(unused) or "True",
        plain=" and ".join(types).format("PLAIN") or "True",
        known=" and ".join([*types, *["out is default_out"] * any(p.name == "out" for p in parameters)]).format("KNOWN")
        or "True",
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


def calling_first(function: Callable[..., Any], otherwise: Callable[..., Any], *args: Any) -> Any:
    """Call a function that changes nothing with arguments of which some are lists, or another one if Tensors are in these."""
    if OPEN.get() is None:
        before = GIVEN[0]
        try:
            out = function(*args)
        except Exception:  # noqa: BLE001, S110 - it is raised again below, if no Tensor is there
            pass
        else:
            if GIVEN[0] is before:
                return out
    return otherwise(*args)


def packing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, of unknown parameters, with Tensors for lists with Tensors in them."""

    def called(a: Any = ABSENT, b: Any = ABSENT, c: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and not args and type(a) in PLAIN_TYPES:
            if b is ABSENT:
                return function(a)
            if type(b) in PLAIN_TYPES:
                if c is ABSENT:
                    return function(a, b)
                if type(c) in PLAIN_TYPES:
                    return function(a, b, c)
        given = [as_array(value) for value in (a, b, c, *args) if value is not ABSENT]
        return function(*given, **{key: as_array(value) for key, value in kwargs.items()}) if kwargs else function(*given)

    return called
