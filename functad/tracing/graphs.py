"""Detection of Tensors in task graphs of Dask: a Tensor in a graph would be a constant, and its derivative would be lost.

Dask computes a token of every object that it puts into a new graph. For a token it pickles a function together with the Tensors
in its closure, and it treats every `Exception` from pickling as a function without a token. The Tensor therefore raises
`InGraphError`, a `BaseException`, and the trace raises the `ConversionError` in its place.

Tasks that already have a name, such as tasks of `dask.delayed`, need no token. `check_graph` searches the graph of the result
for them after the traced function has returned.
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
"""The depth of the search in a task: enough for a container of a partial function with a container in its closure."""


class InGraphError(BaseException):
    """The signal for a Tensor in a graph: it passes `except Exception` in Dask, and the trace raises `error` instead."""

    def __init__(self, error: ConversionError) -> None:
        super().__init__(error)
        self.error = error


def refusal_in_graph(place: str) -> ConversionError:
    """Return the error for a Tensor in a graph.

    Args:
        place: the text of the place, such as `in a task of f`.
    """
    return ConversionError(
        f"a Tensor that is being differentiated would become a constant in a graph of Dask, {place}, and lose its derivative. "
        f"{_CURE}"
    )


def refuse_in_token(tensor: Any) -> None:
    """Raise if Dask pickles a traced Tensor for a token, or to send it to a worker."""
    if "dask.tokenize" not in sys.modules or not is_followed(tensor):
        return
    asking = ["dask.tokenize"]
    if OPEN.get() is not None:  # not in Dask's communication thread, which this error would end
        asking.append("distributed.protocol.pickle")
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") in asking:
            raise InGraphError(refusal_in_graph(f"at {here()}"))
        frame = frame.f_back  # type: ignore[assignment] # the outermost frame has none


def is_followed(tensor: Any) -> bool:
    """Return `True` if an active trace records a Tensor."""
    return isinstance(resolve(tensor), Recorded)


def check_wrapped(leaf: Any) -> None:
    """Raise if a result is a wrapper around a traced Tensor, or if its graph holds one.

    Raises:
        ConversionError: a transform would treat the wrapper or the graph as a constant.
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
"""The attributes with the wrapped array in xarray and pint."""


def check_graph(out: Any, is_lost: Callable[[Any], object] = is_followed) -> None:
    """Raise if the graph of a lazy result, or of the value of a Tensor, holds a traced Tensor.

    Args:
        out: the result.
        is_lost: returns `True` for a Tensor that the graph must not hold.

    Raises:
        ConversionError: the graph holds such a Tensor.
    """
    while isinstance(out, Recorded):
        out = out.below
    if not hasattr(type(out), "__dask_graph__"):
        return
    seen: set[int] = set()
    graph = out.__dask_graph__()
    if graph is None:  # a wrapper, such as a Quantity, of an array that is not Dask's
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
    """Yield each Tensor in the objects of a task, together with the function that holds it or `None`."""
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
        depth += 1  # Dask's own containers do not count
    else:
        parts = list(getattr(value, "__dict__", {}).values()) if not issubclass(kind, type) else ()
    seen.add(id(value))
    for part in parts:
        yield from _tensors(part, seen, depth - 1, holder)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), slice, type(Ellipsis)})
