"""Graphs of tasks, as those of Dask: a Tensor in one would be a constant there, and its derivative would be lost.

Dask asks what is put into a graph for its token when the graph is made. A function that has a Tensor in its closure is pickled
for that, with the Tensor, and whatever error that raises is taken for a function without a token. So what is raised then is no
`Exception`, and the trace raises the error in its place.

Tasks that have a name already, as those of `dask.delayed`, are asked for no token. These are looked at when a function that is
traced has returned: what its result is computed from is in the graph of the result.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from functad.errors import ConversionError
from functad.places import here, name_of
from functad.tracing.traces.base import OPEN, Recorded, resolve

_CURE = (
    "Use operators, and NumPy's functions in place of Dask's: np.sum(t), np.where(mask, a, t), A @ t. A function of blocks "
    "takes it as an argument of functad.map_blocks(f, X, t)."
)
_DEPTH = 5
"""So deep is looked into what a task holds: a container of a partial function that has a container in its closure."""


class InGraphError(BaseException):
    """A Tensor is put into a graph; `except Exception` in Dask lets it pass, and the trace raises `error`."""

    def __init__(self, error: ConversionError) -> None:
        super().__init__(error)
        self.error = error


def refusal_in_graph(place: str) -> ConversionError:
    """Return the error for a Tensor that is put into a graph.

    Args:
        place: where.
    """
    return ConversionError(
        f"a Tensor that is being differentiated would become a constant in a graph of Dask, {place}, and lose its derivative. "
        f"{_CURE}"
    )


def refuse_in_token(tensor: Any) -> None:
    """Raise if a Tensor that is followed is pickled because Dask makes a token of what holds it, or sends it to a worker."""
    if "dask.tokenize" not in sys.modules or not is_followed(tensor):
        return
    asking = ["dask.tokenize"]
    if OPEN.get() is not None:  # not in the thread that sends and receives, which an error like this one would end
        asking.append("distributed.protocol.pickle")
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in asking:
            raise InGraphError(refusal_in_graph(f"at {here()}"))
        frame = frame.f_back  # type: ignore[assignment] # the outermost frame has none


def is_followed(tensor: Any) -> bool:
    """Say whether a trace follows a Tensor."""
    return isinstance(resolve(tensor), Recorded)


def check_wrapped(leaf: Any) -> None:
    """Raise if a result is a wrapper around a Tensor that is followed, or if its graph holds one.

    Raises:
        ConversionError: it is. Transforms take derivatives of Tensors, and would take the wrapper as a constant.
    """
    for name in () if isinstance(leaf, Recorded) or not hasattr(type(leaf), "__array_ufunc__") else _WRAPPED:
        held = getattr(leaf, name, None)
        if isinstance(held, Recorded) and is_followed(held):
            raise ConversionError(
                f"a result is a {type(leaf).__name__} around a Tensor that is being differentiated, of a function called at "
                f"{here()}, and would lose its derivative. Return the Tensor, out.{name}."
            )
    check_graph(leaf)


_WRAPPED = ("data", "magnitude")
"""The attributes by which xarray and pint give away the array that they wrap."""


def check_graph(out: Any, is_lost: Callable[[Any], object] = is_followed) -> None:
    """Raise if the graph of a lazy result, or of the value of a Tensor, holds a Tensor that is followed.

    Args:
        out: the result.
        is_lost: says of a Tensor whether it must not be there.

    Raises:
        ConversionError: it does.
    """
    while isinstance(out, Recorded):
        out = out.below
    if not hasattr(type(out), "__dask_graph__"):
        return
    seen: set[int] = set()
    graph = out.__dask_graph__()
    if graph is None:  # a wrapper, such as a Quantity, around another array than Dask's
        return
    layers = getattr(graph, "layers", None)
    for layer in [graph] if layers is None else layers.values():
        tasks = layer if isinstance(layer, dict) else getattr(layer, "mapping", None)
        for tensor, function in _tensors(vars(layer) if tasks is None else tasks, seen, _DEPTH):
            if not is_lost(tensor):
                continue
            place = f"in a task of {name_of(function)}" if callable(function) else "in a task"
            raise refusal_in_graph(place)


def _tensors(value: Any, seen: set[int], depth: int, holder: Any = None) -> Iterator[tuple[Any, Any]]:
    """Yield the Tensors in what a task holds, each with the function that has it, or `None`."""
    kind = type(value)
    if kind in _PLAIN or id(value) in seen:
        return
    if issubclass(kind, Recorded):
        yield value, holder
        return
    if not depth:
        return
    parts: Any
    if kind is FunctionType:
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        parts, holder = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()], value
    elif kind is functools.partial:
        parts, holder = [value.func, *value.args, *value.keywords.values()], value.func
    elif kind is MethodType:
        parts, holder = [value.__self__, value.__func__], value
    elif issubclass(kind, dict):
        parts = list(value.values())
    elif kind in (list, tuple, set, frozenset):
        parts = value
    elif kind.__module__.startswith("dask."):
        parts = [getattr(value, name, None) for name in ("func", "args", "kwargs", "task", "indices", "value")]
        depth += 1  # what is Dask's own is no step of the user's
    else:
        parts = list(getattr(value, "__dict__", {}).values()) if not issubclass(kind, type) else ()
    seen.add(id(value))
    for part in parts:
        yield from _tensors(part, seen, depth - 1, holder)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True


_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), slice, type(Ellipsis)})
