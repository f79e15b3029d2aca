"""What a function may be given in place of an array: a Tensor, a number, a list with Tensors in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, ChunkedShape, shape_of
from functad.namespaces.array import NamespaceArray, wrapped
from functad.places import here


def is_traced(value: Any) -> bool:
    """Say whether a value is a Tensor."""
    return hasattr(type(value), "__functad_record__")


def read(value: Any) -> Any:
    """Return the Tensor that a Variable, or a part of one, stands for now; anything else as it is."""
    reader = getattr(type(value), "__functad_read__", None)
    return value if reader is None else reader(value)


def as_operand(value: Any) -> Any:
    """Return a list or tuple as an array, or as a Tensor if there is one in it; anything else as it is."""
    if not issubclass(type(value), (list, tuple)):
        return value
    parts = [as_operand(read(part)) for part in value]
    return np.stack(parts) if any(map(is_traced, parts)) else np.asarray(value)


def foreign_rules(leaf: Any) -> str | None:
    """Say what to pass instead of an array whose own operations are others than NumPy's; `None` if they are not.

    A masked array leaves elements out of sums, a matrix multiplies as matrices by `*`, a Series of pandas is indexed by labels.
    What is recorded are NumPy's operations, so values and derivatives would be others than those of the function.
    """
    if issubclass(type(leaf), np.ndarray):
        kinds = {kind.__name__ for kind in type(leaf).__mro__ if kind.__module__.startswith("numpy")}
        if "MaskedArray" in kinds:
            return MASKED
        if "matrix" in kinds:
            return MATRIX
        return OWN_RULES if has_own_rules(type(leaf)) else None
    if issubclass(type(leaf), np.generic):
        return None
    if type(wrapped(leaf)) is NamespaceArray:
        return None
    if hasattr(leaf, "__array__") and not hasattr(leaf, "__array_function__") and isinstance(leaf.dtype, np.dtype):
        return "It has labels or rules of indexing of its own, which NumPy has not. Pass np.asarray of it."
    return None


MASKED = "Sums over a masked array leave elements out. Pass .data and .mask, and use np.where(mask, 0.0, x)."
MATRIX = "A matrix multiplies by *. Pass np.asarray of it, and multiply by @."
OWN_RULES = "What it is beside its numbers, such as a unit, would be lost. Use the numbers: q.to_value(unit) with astropy."


def has_own_rules(kind: type) -> bool:
    """Say whether a class of arrays has ufuncs of its own, as arrays with units have."""
    own = issubclass(kind, np.ndarray) and kind.__array_ufunc__ is not np.ndarray.__array_ufunc__
    return own and not kind.__module__.startswith("functad.")


def refuse_foreign(name: str, *operands: Any) -> None:
    """Raise if one of the operands of an operation on a Tensor is an array whose own operations are others than NumPy's.

    Raises:
        UnsupportedError: one is a masked array or a matrix.
    """
    for operand in operands:
        kind = type(operand)
        if kind is not np.ndarray and issubclass(kind, np.ndarray) and (reason := foreign_rules(operand)):
            raise UnsupportedError(f"{name} of a Tensor and a {kind.__name__}, at {here()}. {reason}")


def known_array(value: Any) -> Any:
    """Return the array that a value is, or a Tensor stands for: of a batch, that of all examples; `None` if there is none."""
    while is_traced(value):
        value = value.below
        value = getattr(value, "array", value)
    return value if type(value) is np.ndarray else None


def innermost(value: Any) -> Any:
    """Return the value of a Tensor below all traces: an array or a number, or its spec if a trace is abstract."""
    while is_traced(value):
        value = value.current()
    return value


def is_number(value: Any) -> bool:
    """Return `True` if a value is a scalar of NumPy or Python, or a Tensor that holds one."""
    inner = innermost(value)
    if issubclass(type(inner), ArraySpec):
        return not (inner.shape or inner.zero_d)
    return type(inner) in PYTHON_SCALARS or issubclass(type(inner), np.generic)


def layout_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array, Tensor or scalar, with the chunks of the array if it lies in some."""
    shape = shape_of(value)
    if type(value) in PLAIN:
        return shape
    inner = innermost(value)
    if type(inner) in PLAIN or not hasattr(type(inner), "__dask_graph__") or inner.shape != shape:
        return shape
    found = ChunkedShape(shape)
    found.chunks = inner.chunks
    return found


def concrete(value: Any, wanted: str) -> Any:
    """Return the value of a Tensor below all traces, which must be known.

    Args:
        value: a Tensor, or anything else, which is returned as it is.
        wanted: the function that asks, for the message.

    Raises:
        AbstractValueError: a trace is abstract, so there is no value.
    """
    while is_traced(value):
        value = value._concrete(wanted)  # not for users, who have stop_gradient
    return value


def is_weak(value: Any) -> bool:
    """Say whether a value is a Python number, or a Tensor of one, whose dtype yields to that of arrays."""
    inner = innermost(value)
    return type(inner) in PYTHON_SCALARS or (issubclass(type(inner), ArraySpec) and inner.weak)


def strong(value: Any) -> Any:
    """Return a Tensor of a Python number as a Tensor of a NumPy scalar, whose dtype does not yield; anything else unchanged.

    For functions that make arrays of their arguments first, as `np.inner` does, and for ufuncs of nothing but Python numbers:
    only Python's own operators give Python numbers.
    """
    return value.astype(value.dtype) if is_traced(value) and is_weak(value) else value


def zeros_for(shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Return zeros of the kind of array that `like` is; NumPy's own `like=` accepts no scalars."""
    if issubclass(type(like), (np.generic, float, complex, ArraySpec)):
        return np.zeros(shape, dtype)
    return np.zeros(shape, dtype, like=like)


def absent(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros in place of the cotangent of a result that nothing depends on; they take no memory."""
    return np.ndarray(shape, dtype, _NOTHING, strides=(0,) * len(shape))


_NOTHING = bytes(32)
"""What an absent cotangent shows at each of its places, as long as the longest number."""


def is_absent(g: Any) -> bool:
    """Say whether a cotangent with axes was made by `absent`: some rules must tell what is unused from what is zero."""
    return type(g) is np.ndarray and g.ndim > 0 and not any(g.strides)


def read_only_view(a: Any, out: Any, entry: Any, params: dict[str, Any]) -> Any:
    """Return the result of a composite of which NumPy makes a read-only view; writes to the argument will be seen there."""
    if is_traced(a) and is_traced(out):
        type(a).__functad_view__(a, out, entry, params)
    return out


class TensorGivenError(UnsupportedError):
    """A front was given a Tensor as `out`; what called it, and knows how to write into Tensors, does so."""


def refuse_out(out: Any, name: str) -> None:
    """Raise if the argument `out` is given.

    Raises:
        TensorGivenError: `out` is a Tensor.
        UnsupportedError: it is a plain array.
    """
    if out is not None:
        raise (TensorGivenError if is_traced(out) else UnsupportedError)(
            f"np.{name} of a Tensor cannot write to out=, at {here()}, unless that is a Tensor too, such as "
            f"np.zeros(shape, like=t) or an array of functad.numpy. Assign the result instead: y = np.{name}(...)."
        )


def stored(out: Any, front: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a front, write the result into `out` and return that: for fronts that methods of Tensors are, without a wrapper.

    Raises:
        UnsupportedError: `out` is a plain array.
    """
    if not is_traced(out):
        refuse_out(out, front.__name__)
    return type(out).__functad_overwrite__(out, front(*args, **kwargs))
