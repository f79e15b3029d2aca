"""Products of a Tensor with a constant matrix of `scipy.sparse`: `A @ t` and `t @ A`.

This module does not import SciPy when it loads; a user with such a matrix has imported it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import example_ndim
from functad.primitives.entry import Primitive
from functad.primitives.kinds import linear

CURE = (
    "Products of a sparse matrix have derivatives: A @ t and t @ A. For others take its entries (A = A.tocoo(); A.data * "
    "t[A.row]), or a dense array, A.toarray()."
)
"""The fix for other operations of a Tensor and a matrix of `scipy.sparse`."""


class ConstantMatrix:
    """A constant sparse matrix: no code writes to it.

    Attributes:
        matrix: the matrix of `scipy.sparse`, or a dense array.
        shape, dtype: its shape and dtype.
    """

    __slots__ = ("_turned", "dtype", "matrix", "shape")

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.shape: tuple[int, int] = matrix.shape
        self.dtype: np.dtype[Any] = matrix.dtype
        self._turned: ConstantMatrix | None = None

    @property
    def T(self) -> ConstantMatrix:  # noqa: N802 - NumPy's name
        """The transpose, which shares memory with the matrix."""
        if self._turned is None:
            self._turned = ConstantMatrix(self.matrix.T)
        return self._turned

    @property
    def places(self) -> tuple[Any, Any]:
        """The rows and columns of the stored entries."""
        if type(self.matrix) is np.ndarray:
            return np.nonzero(self.matrix)  # type: ignore[return-value]
        entries = self.matrix.tocoo()
        return entries.row, entries.col

    def __repr__(self) -> str:
        return f"{type(self.matrix).__name__}({self.dtype}{list(self.shape)}, nnz={len(self.places[0])})"


_KEPT: dict[int, tuple[Any, ConstantMatrix]] = {}
"""The id of a user matrix: a weak reference to the matrix, and its last copy."""


def kept_apart(matrix: Any) -> ConstantMatrix:
    """Return a copy of a sparse user matrix, which the user may overwrite later; the last copy if the matrix is unchanged."""
    own = matrix.tocsr()
    known, last = _KEPT.get(id(matrix), (None, None))
    if known is not None and known() is matrix and last is not None and _same(last.matrix, own):
        return last
    from scipy.sparse import csr_array  # noqa: PLC0415 - a user with such a matrix has imported it

    last = ConstantMatrix(csr_array(own, copy=True))

    def forget(_: object, key: int = id(matrix), kept: dict[int, Any] = _KEPT) -> None:  # no globals at interpreter exit
        kept.pop(key, None)

    _KEPT[id(matrix)] = ref(matrix, forget), last
    return last


def _same(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("indptr", "indices", "data"))


def is_sparse(value: Any) -> bool:
    """Return `True` if `value` is a sparse matrix or array of SciPy."""
    return type(value).__module__.startswith("scipy.sparse") and hasattr(value, "tocsr")


def sparse_operation(primitive: Primitive, x: Any, y: Any) -> Any:
    """Return the product of a Tensor and a sparse matrix, in either order.

    Raises:
        UnsupportedError: the operation is not `matmul`, the matrix does not have two axes, or the Tensor not one or two.
        ValueError: the shapes do not fit.
    """
    left, (matrix, t) = (True, (x, y)) if is_sparse(x) else (False, (y, x))
    if primitive.function is not np.matmul:
        raise UnsupportedError(f"{primitive.name} of a Tensor and a {type(matrix).__name__} of SciPy, at {here()}. {CURE}")
    shape = shape_of(t)
    if len(matrix.shape) != 2 or len(shape) not in (1, 2):
        raise UnsupportedError(
            f"the product of a {type(matrix).__name__} of shape {matrix.shape} and a Tensor of shape {shape}, at {here()}: it "
            f"has derivatives for a matrix and a vector, or two matrices. Reshape them."
        )
    inner = (matrix.shape[1], shape[0]) if left else (matrix.shape[0], shape[-1])
    if inner[0] != inner[1]:
        both = (matrix.shape, shape) if left else (shape, matrix.shape)
        raise ValueError(f"matmul of shapes {both[0]} and {both[1]}, at {here()}: {inner[not left]} and {inner[left]} differ.")
    constant = kept_apart(matrix)
    if left:
        return SPARSE_MATMUL(t, matrix=constant)
    found = SPARSE_MATMUL(t if len(shape) == 1 else t.T, matrix=constant.T)
    return found if len(shape) == 1 else found.T


def _sparse_matmul(x: Any, /, *, matrix: ConstantMatrix) -> Any:
    """Return the product of a constant sparse matrix with a vector or a matrix."""
    return matrix.matrix @ x


def _spec(x: Any, *, matrix: ConstantMatrix) -> ArraySpec:
    spec = spec_of(x)
    return ArraySpec((matrix.shape[0], *spec.shape[1:]), np.result_type(matrix.dtype, dtype_of(x)))


def _samples(array: Any) -> Calls:
    matrix = ConstantMatrix(np.array([[0.5, 0.0, -1.0], [0.0, 2.0, 0.0]]))  # SciPy is an extra
    return [((array(3),), {"matrix": matrix}), ((array(3, 2),), {"matrix": matrix}), ((array(2),), {"matrix": matrix.T})]


def _batch(primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]) -> Any:
    """Multiply once: all examples are columns of one matrix."""
    (x,) = values
    if example_ndim(x, batched[0]) == 1:
        return primitive(x.T, **params).T
    count, width = shape_of(x)[1:]
    columns = np.moveaxis(x, 0, 1).reshape((count, size * width))
    out = primitive(columns, **params)
    return np.moveaxis(out.reshape((shape_of(out)[0], size, width)), 1, 0)


SPARSE_MATMUL: Primitive = linear(
    _sparse_matmul,
    lambda g, matrix: SPARSE_MATMUL(g, matrix=matrix.T),
    name="sparse_matmul",
    spec=_spec,
    samples=_samples,
    internal=True,
    doc="d(A @ x) = A @ dx, for a constant sparse matrix",
    batch=_batch,
    dependence="sparse product",
)
