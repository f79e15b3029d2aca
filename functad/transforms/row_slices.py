"""`RowSlices`: a row-sparse gradient, which a tape returns with `sparse=True`.

The gradient of a loss that reads 100 rows of a table of a million rows is zero in all other rows. A dense gradient would take
most of the time of a step. `RowSlices` holds only the rows and their indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from functad.errors import InputError, StructureError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of
from functad.places import here
from functad.primitives.indexing.read import SCATTER
from functad.tracing.trace import Recorded
from functad.trees import tree_map

_READING = """
T all any argmax argmin argsort astype clip copy cumsum diagonal dot flatten imag max mean min nonzero prod ravel real repeat
reshape round size squeeze std sum swapaxes take tolist trace transpose var
"""
_OF_THE_WHOLE = frozenset(_READING.split())
_LINEAR = (np.positive, np.negative, np.conjugate)


class RowSlices(NDArrayOperatorsMixin):
    """A row-sparse array: zero except for some rows. Rows with the same index are summed.

    NumPy functions and operators convert `RowSlices` to a dense array. Only negation, complex conjugation, products with
    scalars, division by scalars, and sums and differences of two `RowSlices` return `RowSlices`.

    Args:
        indices: n integers, the positions of the rows along the first axis.
        values: the rows, an array or Tensor of shape `(n, *shape[1:])`.
        shape: the shape of the dense array.

    Raises:
        InputError: `indices` is not a vector of integers.
        StructureError: `values` has another shape than `(n, *shape[1:])`.
        IndexError: an index is out of bounds.

    Example:
        >>> import numpy as np
        >>> g = RowSlices([0, 2, 0], np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (3, 2))
        >>> (10 * g).summed()
        RowSlices(indices=[0 2], values=[[60. 80.] [30. 40.]], shape=(3, 2))
        >>> g + np.ones((3, 2))
        array([[7., 9.],
               [1., 1.],
               [4., 5.]])
    """

    __slots__ = ("indices", "shape", "values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, indices: Any, values: Any, shape: Sequence[int]) -> None:
        places = np.array(indices)
        places = places.astype(np.intp) if places.size == 0 else places
        if places.ndim != 1 or places.dtype.kind not in "iu":
            raise InputError(f"the indices of RowSlices are {places.dtype}{list(places.shape)}, at {here()}: give n integers.")
        self.shape = tuple([int(n) for n in shape])
        self.values: Any = values if isinstance(values, Recorded) else np.asarray(values)
        if not self.shape or tuple(shape_of(self.values)) != (len(places), *self.shape[1:]):
            raise StructureError(
                f"RowSlices of {len(places)} rows of an array of shape {self.shape} have values of shape "
                f"{tuple(shape_of(self.values))}, at {here()}: they must be (n, *shape[1:])."
            )
        if places.size and (places.min() < 0 or places.max() >= self.shape[0]):
            raise IndexError(
                f"RowSlices of rows from {places.min()} to {places.max()}, at {here()}, of an array that has {self.shape[0]}."
            )
        self.indices = places

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return dtype_of(self.values)

    @property
    def ndim(self) -> int:
        """The number of axes of the dense array."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def with_values(self, values: Any) -> RowSlices:
        """Return `RowSlices` with the same indices and other values.

        Args:
            values: an array or Tensor with the shape of the current values.

        Returns:
            A new `RowSlices`.
        """
        return RowSlices(self.indices, values, self.shape)

    def dense(self) -> Any:
        """Return the dense array: a Tensor if the values are a Tensor."""
        return SCATTER(self.values, indices=(self.indices,), shape=self.shape, dtype=self.dtype)

    def summed(self) -> RowSlices:
        """Return an equal `RowSlices` with unique indices in ascending order."""
        rows, places = np.unique(self.indices, return_inverse=True)
        shape = (len(rows), *self.shape[1:])
        return RowSlices(rows, SCATTER(self.values, indices=(places,), shape=shape, dtype=self.dtype), self.shape)

    def numpy(self) -> Any:
        """Return the dense NumPy array."""
        made = self.dense()
        return made.numpy() if isinstance(made, Recorded) else made  # type: ignore[attr-defined]

    def astype(self, dtype: Any) -> RowSlices:
        """Return `RowSlices` with elements of another dtype.

        Args:
            dtype: the dtype.

        Returns:
            A new `RowSlices`, or `self` if the dtype is the same.
        """
        return self if self.dtype == dtype else self.with_values(self.values.astype(dtype))

    def conjugate(self) -> RowSlices:
        """Return the complex conjugate."""
        return self.with_values(np.conjugate(self.values))

    conj = conjugate

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.dense(), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(out, RowSlices) for out in kwargs.get("out", ())):
            return NotImplemented  # there is no dense array to write to
        if method == "__call__" and not kwargs:
            rows = _by_rows(ufunc, inputs)
            if rows is not None:
                return rows
        return getattr(ufunc, method)(*map(whole, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map(whole, (args, kwargs))
        return function(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        return self.dense()[index]

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the dense array, if the attribute does not modify the array."""
        if name not in _OF_THE_WHOLE:
            raise AttributeError(f"'RowSlices' object has no attribute {name!r}: g.dense() is the whole array")
        return getattr(self.dense(), name)

    def __repr__(self) -> str:
        values = self.values.below if isinstance(self.values, Recorded) else self.values
        shown = " ".join(np.array2string(np.asarray(values), threshold=20).split()) if _has_values(values) else repr(values)
        return f"RowSlices(indices={np.array2string(self.indices, threshold=20)}, values={shown}, shape={self.shape})"


def whole(value: Any) -> Any:
    """Return the dense array of `RowSlices`; return other values unchanged."""
    return value.dense() if isinstance(value, RowSlices) else value


def _has_values(values: Any) -> bool:
    return issubclass(type(values), (np.ndarray, np.generic))


def _by_rows(ufunc: np.ufunc, inputs: Sequence[Any]) -> RowSlices | None:
    """Return the sparse result of a ufunc that maps zeros to zeros in each row; `None` for other ufuncs."""
    first, second = inputs[0], inputs[-1]
    if ufunc in _LINEAR:
        return first.with_values(ufunc(first.values))  # type: ignore[no-any-return]
    if ufunc in (np.add, np.subtract) and isinstance(first, RowSlices) and isinstance(second, RowSlices):
        if first.shape == second.shape:
            return joined([first, second if ufunc is np.add else -second])
    elif ufunc is np.multiply and _is_factor(second):
        return first.with_values(first.values * second)  # type: ignore[no-any-return]
    elif ufunc is np.multiply and _is_factor(first):
        return second.with_values(first * second.values)  # type: ignore[no-any-return]
    elif ufunc is np.true_divide and _is_factor(second) and second != 0:
        return first.with_values(first.values / second)  # type: ignore[no-any-return]
    return None


def _is_factor(value: Any) -> bool:
    """Return `True` if a value is a finite number."""
    number = type(value) in PYTHON_SCALARS or (issubclass(type(value), (np.generic, np.ndarray)) and np.ndim(value) == 0)
    return number and dtype_of(value).kind in "biufc" and bool(np.isfinite(value))


def joined(parts: Sequence[RowSlices]) -> RowSlices:
    """Return the sum of `RowSlices` of one shape, by concatenation of their rows."""
    indices = np.concatenate([part.indices for part in parts])
    return RowSlices(indices, np.concatenate([part.values for part in parts]), parts[0].shape)


# The operators of `NDArrayOperatorsMixin`, but `g += h` computes `g = g + h`: rows are never written to.
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(RowSlices, f"__i{_name}__", getattr(RowSlices, f"__{_name}__"))
