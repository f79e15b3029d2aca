"""Operands: checks and conversions of Tensors, numbers, lists with Tensors, and arrays of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, ChunkedShape, shape_of
from functad.places import here


def is_traced(value: Any) -> bool:
    """Return `True` if a value is a Tensor."""
    return hasattr(type(value), "__functad_dispatch__")


def read(value: Any) -> Any:
    """Return the current Tensor of a Variable or of a part of one; anything else unchanged."""
    reader = getattr(type(value), "__functad_read__", None)
    return value if reader is None else reader(value)


def as_operand(value: Any) -> Any:
    """Return a list or tuple as an array, or as a Tensor if it contains Tensors; anything else unchanged."""
    if not issubclass(type(value), (list, tuple)):
        return value
    parts = [as_operand(read(part)) for part in value]
    return np.stack(parts) if any(map(is_traced, parts)) else np.asarray(value)


PLAIN_TYPES = frozenset({
    np.ndarray, int, float, complex, bool, str, type(None), type, np.dtype, slice, np.float64, np.float32, np.int64, np.bool_,
    np.dtypes.Float64DType, type(Ellipsis), type(np._NoValue),
})  # fmt: skip
"""Types of arguments that neither are nor contain Tensors."""

LISTS = frozenset({list, tuple})


def has_tensors(values: Collection[Any]) -> bool:
    """Return `True` if `values`, or a nested list or tuple, contains a Tensor or a Variable."""
    return first_tensor(values) is not None


def first_tensor(values: Collection[Any]) -> Any:
    """Return the first Tensor or Variable in `values` and nested lists and tuples; `None` if there is none."""
    if PLAIN_TYPES.issuperset(map(type, values)):
        return None
    for value in values:
        kind = type(value)
        if kind in PLAIN_TYPES:
            continue
        if kind in LISTS:
            if (found := first_tensor(value)) is not None:
                return found
        elif is_traced(value) or hasattr(kind, "__functad_read__"):
            return value
    return None


def as_array(value: Any) -> Any:
    """Return a list that contains Tensors as one Tensor, a Variable as its Tensor, and anything else unchanged."""
    if type(value) in LISTS:
        return as_operand(value) if has_tensors(value) else value
    return read(value)


NO_ARRAY = "__array__ method not producing an array"
"""The text of NumPy's error for an `__array__` method that returned a Tensor."""

NO_ARRAYS = frozenset({
    "UPLO", "allow_pickle", "assume_unique", "axes", "axis", "axis1", "axis2", "axisa", "axisb", "axisc", "bias",
    "bitorder", "casting", "compute_uv", "copy", "count", "ddof", "decimals", "deg", "density", "destination", "device",
    "dims", "dtype", "edge_order", "endpoint", "equal_nan", "full", "full_matrices", "hermitian", "include_initial",
    "increasing", "indexing", "invert", "keepdims", "kind", "k", "kth", "max_work", "method", "minlength", "mode", "n",
    "norm", "num", "offset", "optimize", "ord", "order", "out", "overwrite_input", "rcond", "retstep", "return_counts",
    "return_index", "return_indices", "return_inverse", "returned", "right", "roll", "rowvar", "s", "shape", "newshape",
    "side", "sorted", "source", "sparse", "stable", "subok", "upper",
})  # fmt: skip
"""Names of the parameters of NumPy functions that take lengths, axes and choices, never arrays."""


# Arrays of other libraries

NOTHING, FUNCTIONS, OPERATIONS, ARRAY_API = range(4)
_CONVERSIONS: dict[type, int] = {}
"""Cache of `_conversion`, by class."""

_TABLES = ("pandas", "polars")
"""Packages of tables. Their functions do not support Tensors, so operations of Tensors use the values of the columns."""

MASKED = "Sums over a masked array leave elements out. Pass .data and .mask, and use np.where(mask, 0.0, x)."
OWN_RULES = "What it is beside its numbers, such as a unit, would be lost. Use the numbers: q.to_value(unit) with astropy."


def _conversion(kind: type) -> int:
    """Return where objects of a class become arrays of NumPy.

    `ARRAY_API` is a class with `__array_namespace__` and none of NumPy's protocols, such as JAX arrays. NumPy converts objects
    with `__array__` in all `OPERATIONS`, or in `FUNCTIONS` that are not ufuncs.
    """
    known = _CONVERSIONS.get(kind)
    if known is None:
        known = NOTHING
        names = ("__array_function__", "__functad_dispatch__", "__functad_read__")
        if not issubclass(kind, (np.ndarray, np.generic, np.poly1d)) and not any(hasattr(kind, name) for name in names):
            of_ufuncs = hasattr(kind, "__array_ufunc__")
            if hasattr(kind, "__array_namespace__"):
                known = NOTHING if of_ufuncs else ARRAY_API
            elif hasattr(kind, "__array__"):
                known = FUNCTIONS if of_ufuncs and not is_table(kind) else OPERATIONS
        _CONVERSIONS[kind] = known
    return known


def has_array_api_alone(kind: type) -> bool:
    """Return `True` for an array class with `__array_namespace__` and none of NumPy's protocols, such as JAX arrays."""
    return _conversion(kind) == ARRAY_API


def is_of_jax(kind: type) -> bool:
    """Return `True` for the classes of JAX arrays and tracers."""
    return has_array_api_alone(kind) and kind.__module__.startswith("jax")


def is_table(kind: type) -> bool:
    """Return `True` if a class, or a base of it, belongs to a package of tables."""
    return any(base.__module__.partition(".")[0] in _TABLES for base in kind.__mro__)


def goes_first(kind: type) -> bool:
    """Return `True` if a class takes over operators through `__array_priority__` and is converted elsewhere."""
    return _conversion(kind) == OPERATIONS and not is_table(kind) and getattr(kind, "__array_priority__", 0.0) > 0


def foreign_rules(leaf: Any) -> str | None:
    """Return the advice for an array with other operations than NumPy's; `None` if its operations are NumPy's.

    A masked array omits elements from sums, `*` of matrices is a matrix product, a pandas Series is indexed by labels. functad
    records NumPy's operations, so values and derivatives would be wrong. NumPy's functions would convert an array of JAX.
    """
    kind = type(leaf)
    if issubclass(kind, np.ndarray):
        return foreign_rules_of(kind)
    if issubclass(kind, np.generic) or is_traced(leaf) or hasattr(kind, "__functad_read__"):
        return None
    if has_array_api_alone(kind):
        return array_api_advice(kind)
    if hasattr(kind, "magnitude") and hasattr(kind, "units"):
        return "It wraps numbers and a unit. Pass its numbers, q.magnitude, and make the quantity in the function: x * q.units."
    of_numpy = isinstance(getattr(leaf, "dtype", np.dtype(float)), np.dtype)
    if is_table(kind) or (hasattr(leaf, "__array__") and not hasattr(leaf, "__array_function__") and of_numpy):
        return "It has labels or rules of indexing of its own, which NumPy has not. Pass np.asarray of it."
    if not of_numpy:
        return "Its dtype is none of NumPy's: pass an array that NumPy can call functions of, such as np.asarray of this one."
    return None


def foreign_rules_of(kind: type) -> str | None:
    """Return the advice for a subclass of `np.ndarray` with other operations than NumPy's; otherwise `None`."""
    if kind is np.ndarray or not issubclass(kind, np.ndarray):
        return None
    kinds = {base.__name__ for base in kind.__mro__ if base.__module__.startswith("numpy")}
    if "MaskedArray" in kinds:
        return MASKED
    if "matrix" in kinds:
        return "A matrix multiplies by *. Pass np.asarray of it, and multiply by @."
    own = kind.__array_ufunc__ is not np.ndarray.__array_ufunc__ and not kind.__module__.startswith("functad.")
    return OWN_RULES if own else None


def refuse_foreign(name: str, *operands: Any) -> None:
    """Raise if an operand of an operation on a Tensor is an array with other operations than NumPy's.

    Raises:
        UnsupportedError: an operand is such an array, for example a masked array or a matrix.
    """
    for operand in operands:
        kind = type(operand)
        if kind is not np.ndarray and (reason := foreign_rules_of(kind)):
            raise UnsupportedError(f"{name} of a Tensor and a {kind.__name__}, at {here()}. {reason}")


def array_api_advice(kind: type) -> str:
    """Return the advice for an array class that supports only the array API."""
    if not is_of_jax(kind):
        return f"Arrays of {kind.__module__.partition('.')[0]} have none of NumPy's protocols. Pass np.asarray(x)."
    if kind.__name__.endswith("Tracer"):
        return "It has no values, because JAX traces the function that runs. Use functad.to_jax(f) in functions of JAX."
    return (
        "Arrays of JAX have none of NumPy's protocols. Pass np.asarray(x); or let JAX compute, by "
        'functad.jit(f, backend="xla") or, for a function of JAX, functad.from_jax(f).'
    )


def numpy_values(value: Any, name: str) -> Any:
    """Return an array that supports only the array API as a NumPy array; anything else unchanged.

    Raises:
        UnsupportedError: NumPy cannot read the values, as for a JAX tracer or a dtype that NumPy lacks.
    """
    kind = type(value)
    if not has_array_api_alone(kind):
        return value
    try:
        values = np.asarray(value)
        values = values if values.ndim else values[()]
        reason = f"NumPy reads it as an array of {values.dtype}"
    except Exception as error:  # noqa: BLE001 - the error type depends on the library
        values, reason = None, f"NumPy cannot read it ({type(error).__name__})"
    if values is None or values.dtype.kind not in "biufc":
        raise UnsupportedError(f"{name} of a {kind.__name__}, at {here()}: {reason}. {array_api_advice(kind)}")
    return values


def converted(value: Any, name: str) -> Any:
    """Return a foreign array as an operand of the operation `name`; anything else unchanged.

    Data that NumPy converts by `__array__`, such as a Series or a JAX array, become a NumPy array.

    Raises:
        UnsupportedError: labels or missing values of the data would change the meaning of NumPy's operations, or NumPy cannot
            read the values, as for a JAX tracer.
    """
    return _values(value, name) if _conversion(type(value)) >= OPERATIONS else value


def converted_inside(value: Any, name: str) -> Any:
    """Convert the foreign arrays in an argument of the function `name`, also inside lists and tuples.

    A function that is not a ufunc converts an object with `__array__` and without `__array_function__`. An xarray DataArray is
    one example.
    """
    kind = type(value)
    if kind not in LISTS:
        return _values(value, name) if kind not in PLAIN_TYPES and _conversion(kind) else value
    if all(type(part) in PLAIN_TYPES for part in value):
        return value
    parts = [converted_inside(part, name) for part in value]
    return value if all(a is b for a, b in zip(parts, value, strict=True)) else kind(parts)


def _values(data: Any, name: str) -> Any:
    """Return the values of data as an array of numbers, or the Tensor that `__array__` returned.

    Raises:
        UnsupportedError: a table, a column with labels other than 0, 1, 2, ..., missing values, or values that are not numbers.
    """
    kind = type(data)
    if has_array_api_alone(kind):
        return numpy_values(data, name)
    values = None
    index = getattr(data, "index", None) if hasattr(kind, "iloc") else None
    if hasattr(kind, "columns"):
        reason = "Its columns have labels, and a Tensor has none. Pass df.to_numpy()."
    elif index is not None and not np.array_equal(np.asarray(index), np.arange(len(index))):
        reason = "It has labels other than 0, 1, 2, ..., by which pandas aligns, and a Tensor has none. Pass s.to_numpy()."
    elif is_table(kind) and (data.null_count() if hasattr(data, "null_count") else np.any(np.asarray(data.isna()))):
        reason = (
            "It has missing values, which sums leave out. Replace or drop them first: s.fillna(0.0), s.dropna().to_numpy()."
        )
    else:
        values = data.__array__()
        if is_traced(values):
            return values
        values = np.asarray(values)
        reason = f"Its values are of dtype {values.dtype}: pass numbers, such as s.to_numpy(dtype=float)."
    if values is None or values.dtype.kind not in "biufc":
        raise UnsupportedError(f"{name} of a Tensor and a {kind.__name__}, at {here()}. {reason}")
    return values


# Values of Tensors


def innermost(value: Any) -> Any:
    """Return the value of a Tensor below all traces: an array, a number, or the spec in a batch or a trace without values."""
    while is_traced(value):
        value = value.current()
    return value


def all_examples(value: Any) -> Any:
    """Return the value of a Tensor below all traces; for a batch the array of all examples, with the axes of batches in front.

    A Tensor of a trace without values gives its spec.
    """
    while is_traced(value):
        value = value.current()
        if issubclass(type(value), ArraySpec):
            value = getattr(value, "array", value)  # `Batched` has the array
    return value


def known_array(value: Any) -> Any:
    """Return the result of `all_examples` if it is an array; otherwise `None`."""
    found = all_examples(value)
    return found if type(found) is np.ndarray else None


def known_values(*values: Any) -> list[Any] | None:
    """Return the values below all traces; `None` if one belongs to a batch or to a trace without values."""
    found = [innermost(value) for value in values]
    return None if any(issubclass(type(value), ArraySpec) for value in found) else found


def is_number(value: Any) -> bool:
    """Return `True` if a value is a scalar of NumPy or Python, or a Tensor that holds one."""
    inner = innermost(value)
    if issubclass(type(inner), ArraySpec):
        return not (inner.shape or inner.zero_d)
    return type(inner) in PYTHON_SCALARS or issubclass(type(inner), np.generic)


def layout_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array, Tensor or scalar; for a chunked array a `ChunkedShape`."""
    shape = shape_of(value)
    if type(value) in PLAIN:
        return shape
    inner = innermost(value)
    if type(inner) in PLAIN or not hasattr(type(inner), "__dask_graph__") or inner.shape != shape:
        return shape
    chunks = getattr(inner, "chunks", None)
    if chunks is None:
        return shape
    found = ChunkedShape(shape)
    found.chunks = chunks
    return found


def concrete(value: Any, wanted: str) -> Any:
    """Return the value of a Tensor below all traces.

    Args:
        value: a Tensor; anything else is returned unchanged.
        wanted: the name of the calling function, for the message.

    Raises:
        AbstractValueError: a trace is abstract, so the value is unknown.
    """
    while is_traced(value):
        value = value._concrete(wanted)  # private: users call stop_gradient
    return value


def is_weak(value: Any) -> bool:
    """Return `True` for a Python number or a Tensor of one: its dtype yields to the dtypes of arrays."""
    inner = innermost(value)
    return type(inner) in PYTHON_SCALARS or (issubclass(type(inner), ArraySpec) and inner.weak)


def strong(value: Any) -> Any:
    """Convert a Tensor of a Python number to a Tensor of a NumPy scalar; return anything else unchanged.

    Use it for functions that convert their arguments to arrays, such as `np.inner`, and for ufuncs of Python numbers only. Only
    Python's own operators return Python numbers.
    """
    return value.astype(value.dtype) if is_traced(value) and is_weak(value) else value


def zeros_for(shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Return zeros of the same kind of array as `like`. NumPy's own `like=` does not accept scalars."""
    if issubclass(type(like), (np.generic, int, float, complex, ArraySpec)):
        return np.zeros(shape, dtype)
    return np.zeros(shape, dtype, like=like)


def absent(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros, without memory, for the cotangent of an unused result."""
    return np.ndarray(shape, dtype, _NOTHING, strides=(0,) * len(shape))


_NOTHING = bytes(32)
"""The memory of absent cotangents: zeros of the length of the largest number type."""


def is_absent(g: Any) -> bool:
    """Return `True` if a cotangent with axes was made by `absent`. Some rules treat unused results and zeros differently."""
    return type(g) is np.ndarray and g.ndim > 0 and not any(g.strides)


def read_only_view(a: Any, out: Any, entry: Any, params: dict[str, Any]) -> Any:
    """Mark the result of a composite as a read-only view of `a`, so that later writes to `a` show in it, and return it."""
    if is_traced(a) and is_traced(out):
        type(a).__functad_view__(a, out, entry, params)
    return out


class TensorAsOutError(UnsupportedError):
    """A front received a Tensor as `out`. The caller handles the write if it can."""


def refuse_out(out: Any, name: str) -> None:
    """Raise if the argument `out` is given.

    Raises:
        TensorAsOutError: `out` is a Tensor.
        UnsupportedError: `out` is a plain array.
    """
    if out is not None:
        raise (TensorAsOutError if is_traced(out) else UnsupportedError)(
            f"np.{name} of a Tensor cannot write to out=, at {here()}, unless that is a Tensor too, such as "
            f"np.zeros(shape, like=t) or an array of functad.numpy. Assign the result instead: y = np.{name}(...)."
        )


def stored(out: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a NumPy function, write the result into `out` and return `out`.

    For fronts that are also methods of Tensors: no wrapper handles `out` of a method.

    Raises:
        UnsupportedError: `out` is a plain array.
    """
    if not is_traced(out):
        refuse_out(out, function.__name__)
    return type(out).__functad_into__(function, args, {**kwargs, "out": out})
