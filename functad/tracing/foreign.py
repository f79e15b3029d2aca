"""Arrays of other libraries beside Tensors.

Some libraries wrap arrays (pint, xarray): they put the Tensor into their own object and compute with it. Other libraries have
their own arrays (Dask, CuPy, sparse): they do not accept a Tensor and decline. functad therefore calls the library first, by
the protocol of Python or NumPy. If the library declines, the trace records the operation on a Tensor and a constant.

`computed` and `lacking` raise an error for a function that a library lacks, so that no array is converted.

A Tensor in a task graph of Dask would be a constant, and its derivative would be lost. Dask computes a token of every object
that it puts into a new graph. For a token it pickles a function together with the Tensors in its closure, and it treats every
`Exception` from pickling as a function without a token. The Tensor therefore raises `InGraphError`, a `BaseException`, and the
trace raises the `ConversionError` in its place. Tasks that already have a name, such as tasks of `dask.delayed`, need no token.
`check_graph` searches the graph of the result for them after the traced function has returned.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from functad.errors import ConversionError, UnsupportedError
from functad.expressions.spec import is_array
from functad.places import here, name_of, running
from functad.primitives.entry import Primitive
from functad.primitives.operands import innermost
from functad.primitives.vocabulary import shown_name
from functad.process import renewed
from functad.tracing.trace import OPEN, Recorded, resolve

_ndarray = np.ndarray


def overrides(operand: Any) -> bool:
    """Return `True` if an operand belongs to another library that may define the operation, such as a wrapper or a unit."""
    kind = type(operand)
    if issubclass(kind, (Recorded, _ndarray, np.generic, int, float, complex)):
        return False
    # NumPy could only put an object without `__array__` into an object array.
    return hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_function__") or not hasattr(kind, "__array__")


def decides(kind: type) -> bool:
    """Return `True` if NumPy leaves the operators of its arrays to objects of a class, such as units."""
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    priority = getattr(kind, "__array_priority__", 0.0)  # a descriptor in NumPy's own classes
    return isinstance(priority, (int, float)) and priority > 0


def holds(kind: type, *operands: Any) -> bool:
    """Return `True` if a Tensor among the operands has a value of type `kind`: such objects are arrays, not wrappers."""
    return any(isinstance(operand, Recorded) and type(innermost(operand)) is kind for operand in operands)


OURS: Any = object()
"""The answer if all libraries decline: the trace processes the operation."""


_TAKING: set[type] = set()
"""Classes that have accepted a Tensor."""


def answer_to_operator(primitive: Primitive, x: Any, y: Any) -> Any:
    """Return `OURS` if the trace processes an operator on a Tensor and an array; `NotImplemented` if the library does.

    Python or NumPy has already called the left operand before the Tensor on the right.
    """
    operand = x if isinstance(y, Recorded) else y
    if not _is_array(operand, "__array_ufunc__"):
        return NotImplemented
    if operand is y and type(y) not in _TAKING and not hasattr(type(y), "__functad_read__"):  # a Variable accepts Tensors
        if _asked(y, primitive.function, "__call__", (x, y), {}) is NotImplemented:
            return OURS
        _TAKING.add(type(y))  # Python then calls the operator of `y`, which may do more than the ufunc
    return OURS if operand is x else NotImplemented


def answer_to_ufunc(known: tuple[type, ...], tensor: Any, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Return the result of a ufunc from the libraries of the other operands; `OURS` if all decline.

    NumPy calls the operands from left to right, so the operands before the Tensor have already declined.
    """
    declined = True
    for value in inputs:
        if value is tensor:
            declined = False
        if issubclass(type(value), known) or holds(type(value), tensor):
            continue
        if not _is_array(value, "__array_ufunc__"):
            return NotImplemented
        answer = NotImplemented if declined else _asked(value, ufunc, method, inputs, kwargs)
        if answer is not NotImplemented:
            return answer
    return OURS


def answer_to_function(known: tuple[type, ...], tensor: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a NumPy function from the libraries of the other arguments; `OURS` if all decline."""
    asked = set()
    for value in _arguments((args, kwargs)):
        kind = type(value)
        if kind in asked or kind not in types or issubclass(kind, known) or holds(kind, tensor):
            continue
        if not _is_array(value, "__array_function__"):
            return NotImplemented
        asked.add(kind)
        answer = value.__array_function__(function, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    return OURS


def _asked(value: Any, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Return the result of a ufunc from the library of `value`; `NotImplemented` if it declines."""
    try:
        return value.__array_ufunc__(ufunc, method, *inputs, **kwargs)
    except TypeError:  # CuPy raises it for a Tensor
        return NotImplemented


def _is_array(value: Any, protocol: str) -> bool:
    """Return `True` if a value is an array with the given NumPy protocol."""
    return getattr(type(value), protocol, None) is not None and is_array(value)


def _arguments(tree: Any) -> Iterator[Any]:
    """Yield the leaves of nested lists, tuples and dicts of arguments."""
    if type(tree) in (list, tuple, dict):
        for part in tree.values() if type(tree) is dict else tree:
            yield from _arguments(part)
    else:
        yield tree


_CONVERTS = ".*is not implemented by"
"""The start of Dask's warning that it converts all chunks to NumPy arrays."""

_LACKS = ("returned NotImplemented", "no implementation found", "unexpected keyword argument", "positional arguments but")


def _remove_filter() -> None:
    """Remove the warning filter that `lacking` sets."""
    warnings.filters[:] = [each for each in warnings.filters if getattr(each[1], "pattern", None) != _CONVERTS]  # type: ignore[index]


_LOCK = renewed(RLock(), _remove_filter)
"""All threads share the warning filters: two threads that set them at the same time could leave them set."""


def computed(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Compute a call on arrays of NumPy and of other libraries.

    Raises:
        UnsupportedError: the library lacks a required function.
    """
    foreign = [value for value in values if overrides(value)]
    if not foreign or primitive.inner is not None or primitive.lists or primitive.owner is not None:
        return primitive.compute(*values, **params)
    with lacking(lambda error: f"{_called(primitive)} of a Tensor and arrays", type(foreign[0])):
        out = primitive.compute(*values, **params)
    check_shape(out)
    return out


def _called(primitive: Primitive) -> str:
    """Return the name of the called NumPy function; for an internal primitive, the user's expression."""
    name = shown_name(primitive.function)
    if not name.startswith("functad."):
        return name
    text = " ".join(running().split())
    return f"`{text}`" if 0 < len(text) <= _LONGEST else str(primitive.name)


_LONGEST = 80


def derivative_of(error: BaseException) -> str:
    """Return the text "the derivative of ..." for the operation at which a backward pass raised `error`."""
    primitive, step = None, error.__traceback__
    while step is not None:
        plan, step = step.tb_frame.f_locals.get("plan"), step.tb_next
        primitive = getattr(plan, "primitive", primitive)
    if primitive is None:
        return "a derivative"
    name = shown_name(primitive.function)
    return f"the derivative of {primitive.name if name.startswith('functad.') else name}"


@contextmanager
def lacking(operation: Callable[[BaseException], str], kind: type) -> Iterator[None]:
    """Return a context in which a function that a library lacks raises `UnsupportedError`, and no array is converted.

    Args:
        operation: maps the error to a noun phrase for the failed operation, such as "np.sort of a Tensor and arrays".
        kind: the array type of the library.
    """
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.filterwarnings("error", _CONVERTS, FutureWarning)
            yield
    except (AttributeError, FutureWarning, NotImplementedError, TypeError) as error:
        if isinstance(error, UnsupportedError) or (type(error) is TypeError and not any(text in str(error) for text in _LACKS)):
            raise
        raise lacked(operation(error), kind, error) from error
    except ValueError as error:
        if not _is_of_dask(kind) or "chunk" not in str(error):
            raise
        raise lacked(operation(error), kind, error) from error


def lacked(operation: str, kind: type, error: BaseException) -> UnsupportedError:
    """Return the error for an operation that a library lacks.

    Args:
        operation: a noun phrase for the operation, such as "an index of a Tensor".
        kind: the array type of the library.
        error: the error that the library raised.
    """
    reason = " ".join(str(error).split(". ")[0].split()).rstrip(".")
    whole = f"{operation} of {kind.__module__}.{kind.__qualname__}, at {here()}"
    return UnsupportedError(f"{whole}: this library does not support it ({reason}). {fix_for(kind)}")


def fix_for(kind: type) -> str:
    """Return the fix for an operation that the library of an array type lacks."""
    return _OF_DASK if _is_of_dask(kind) else _OF_OTHERS


def _is_of_dask(kind: type) -> bool:
    return kind.__module__.startswith("dask")


_OF_OTHERS = "Write it with functions that the library has, or convert the array."


_OF_DASK = (
    "Compile it: functad.jit(functad.grad(f)) computes such an operation in one task, if it takes no more than 64 MB. Or write "
    "it with what Dask has, as np.linalg.solve(X.T @ X, X.T @ y) for lstsq; or convert the array, X.compute()."
)


def check_shape(out: Any) -> None:
    """Raise if the shape of an array is not known, as for a lazy array after a selection by a mask.

    Raises:
        UnsupportedError: a length is NaN. Derivatives need the shape.
    """
    shape = getattr(out, "shape", ())
    if any(n != n for n in shape):
        kind = type(out)
        raise UnsupportedError(
            f"an array of {kind.__module__}.{kind.__qualname__} has the shape {shape}, at {here()}: a length depends on data "
            f"that is not computed yet, and derivatives need it. Call X.compute_chunk_sizes() of the array that was "
            f"selected, before it meets a Tensor; or weigh in place of selecting: np.where(mask, x, 0.0) for x[mask]."
        )


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
