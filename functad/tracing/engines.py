"""Operations on arrays of other libraries: functions that a library lacks raise an error, and no array is converted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from functad.errors import UnsupportedError
from functad.places import here, running
from functad.primitives.entry import Primitive
from functad.primitives.vocabulary import shown_name
from functad.process import renewed
from functad.tracing.foreign import overrides

_CONVERTS = ".*is not implemented by"
"""The start of Dask's warning that it converts all chunks to NumPy arrays."""

_LACKS = ("returned NotImplemented", "no implementation found", "unexpected keyword argument", "positional arguments but")


def _remove_filter() -> None:
    """Remove the warning filter that `lacking` sets."""
    warnings.filters[:] = [each for each in warnings.filters if getattr(each[1], "pattern", None) != _CONVERTS]  # type: ignore[index]


_LOCK = renewed(RLock(), _remove_filter)
"""All threads share the warning filters: two threads that set them at the same time could leave them set."""


def computed(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Compute a call whose values may include arrays of other libraries.

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
def lacking(what: Callable[[BaseException], str], kind: type) -> Iterator[None]:
    """Return a context in which a function that a library lacks raises `UnsupportedError`, and no array is converted.

    Args:
        what: returns the description of the failed operation for an error: "np.sort of a Tensor and arrays".
        kind: the array type of the library.
    """
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.filterwarnings("error", _CONVERTS, FutureWarning)
            yield
    except (AttributeError, FutureWarning, NotImplementedError, TypeError) as error:
        if isinstance(error, UnsupportedError) or (type(error) is TypeError and not any(text in str(error) for text in _LACKS)):
            raise
        reason = " ".join(str(error).split(". ")[0].split()).rstrip(".")
        cure = _OF_DASK if kind.__module__.startswith("dask") else _OF_OTHERS
        whole = f"{what(error)} of {kind.__module__}.{kind.__qualname__}, at {here()}"
        raise UnsupportedError(f"{whole}: that library lacks what it needs ({reason}). {cure}") from error


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
