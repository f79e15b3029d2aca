"""`ravel`: flatten a pytree of arrays into one array, and back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from functad.errors import InputError, StructureError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number, shape_of, spec_of
from functad.places import here
from functad.primitives.operands import array_api_advice, has_array_api_alone
from functad.tracing.ownership import own_results
from functad.tracing.trace import Recorded, value_of
from functad.trees import Structure, flatten


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return all elements of a pytree as one flat array, and the inverse function.

    Both directions are linear and use only NumPy calls, so they can be differentiated, batched and traced.

    Args:
        tree: an array, number, or pytree of them, of any numeric dtypes.

    Returns:
        `(flat, unravel)`. `flat` has shape `(n,)` and the promoted dtype of the leaves; it holds the leaves from left to right.
        `unravel(flat)` returns a pytree with the structure, shapes and dtypes of `tree`, without memory shared with `flat`.

    Raises:
        InputError: a leaf is neither an array of numbers nor a number, or a large integer that the promoted dtype cannot hold.
        StructureError: (by `unravel`) the array has another shape, or is complex although the leaves are real.

    Example:
        >>> import numpy as np
        >>> flat, unravel = ravel({"w": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": 5.0})
        >>> flat
        array([5., 1., 2., 3., 4.])
        >>> unravel(10 * flat)
        {'b': np.float64(50.0), 'w': array([[10., 20.],
               [30., 40.]])}
    """
    given, structure = flatten(tree)
    leaves = [value_of(leaf) for leaf in given]
    leaves = [_of_its_size(leaf) if type(leaf) is int else leaf for leaf in leaves]
    for i, leaf in enumerate(leaves):
        if has_array_api_alone(type(leaf)):
            raise InputError(
                f"ravel, called at {here()}: {structure.paths('tree')[i]} is {_described(leaf)}. {array_api_advice(type(leaf))}"
            )
        if not _is_numeric(leaf):
            raise InputError(
                f"ravel, called at {here()}: {structure.paths('tree')[i]} is {_described(leaf)}, not an array of numbers. Make "
                f"it a static field, or leave it out of the tree."
            )
    dtype = np.result_type(*[dtype_of(leaf) for leaf in leaves]) if leaves else np.dtype(np.float64)
    parts = [_flat(leaf, dtype) for leaf in leaves]
    for i, (leaf, part) in enumerate(zip(leaves, parts, strict=True)):
        if dtype_of(leaf).kind in "iu" and dtype_of(leaf).itemsize == 8 and dtype.kind in "fc" and _loses(leaf, part):
            raise InputError(
                f"ravel, called at {here()}: {structure.paths('tree')[i]} holds an integer too large for {dtype}, which the "
                f"flat array has. Make it a static field, or leave it out of the tree."
            )
    flat = np.concatenate(parts) if parts else np.zeros(0)
    flat = own_results([flat], leaves)[0]
    specs = [(shape_of(leaf), dtype_of(leaf), issubclass(type(leaf), np.ndarray)) for leaf in leaves]
    return flat, functools.partial(_unravelled, structure, specs, dtype)


def _of_its_size(number: int) -> Any:
    """Return a Python integer, as `np.uint64` if int64 cannot hold it but uint64 can."""
    array = np.asarray(number)
    return array[()] if array.dtype == np.uint64 else number


def _is_numeric(leaf: Any) -> bool:
    if type(leaf) is int:
        return np.asarray(leaf).dtype.kind != "O"
    dtype = dtype_of(leaf) if is_array_or_number(leaf) else None
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc"


def _described(leaf: Any) -> str:
    if type(leaf) is int:
        return "an integer beyond int64 and uint64"
    dtype = getattr(leaf, "dtype", None)
    return f"a {type(leaf).__name__}" if dtype is None else f"a {type(leaf).__name__} of dtype {dtype}"


def _flat(leaf: Any, dtype: np.dtype[Any]) -> Any:
    part = np.asarray(leaf).reshape(-1) if type(leaf) in PYTHON_SCALARS else np.reshape(leaf, (-1,))
    return part if dtype_of(part) == dtype else part.astype(dtype)


def _loses(leaf: Any, part: Any) -> bool:
    """Return `True` if integers changed in the cast to another dtype; `False` for Tensors, which are not checked."""
    if isinstance(leaf, Recorded):
        return False
    with np.errstate(invalid="ignore"):  # 2**63 as a float is out of range for int64
        back = part.real.astype(dtype_of(leaf))
    return bool(np.any(back != np.reshape(leaf, (-1,))))


def _unravelled(
    structure: Structure, specs: list[tuple[tuple[int, ...], np.dtype[Any], bool]], dtype: np.dtype[Any], flat: Any
) -> Any:
    """Return the pytree of a flat array."""
    ends = list(accumulate(int(np.prod(shape)) for shape, _, _ in specs))
    size = ends[-1] if ends else 0
    flat = value_of(flat)
    if not isinstance(getattr(flat, "dtype", None), np.dtype):
        flat = np.asarray(flat)
    if shape_of(flat) != (size,) or dtype_of(flat).kind not in "biufc":
        raise StructureError(f"unravel, called at {here()}, needs {dtype}[{size}], not {spec_of(flat)}.")
    if dtype_of(flat).kind == "c" and dtype.kind != "c":
        raise StructureError(f"unravel, called at {here()}, got {spec_of(flat)} for a tree of {dtype}: take its real part.")
    leaves = []
    for (shape, own, is_array), start, end in zip(specs, [0, *ends], ends, strict=False):
        leaf = flat[start:end].reshape(shape) if shape or is_array or isinstance(flat, Recorded) else flat[start]
        leaves.append(_cast(leaf, own))
    return structure.unflatten(own_results(leaves, [flat]))


def _cast(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """Return a copy of a part of a flat array, cast to the dtype of the leaf."""
    own = dtype_of(leaf)
    if own == dtype:
        return leaf.copy() if type(leaf) is np.ndarray else leaf
    if own.kind == "c" and dtype.kind != "c":
        leaf = leaf.real
    return leaf.astype(dtype)
