"""Sparsity patterns: the positions of the structurally nonzero entries of a matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functad.errors import InputError
from functad.places import here

Array = np.ndarray[Any, np.dtype[Any]]

_SHOWN = 40


class Coordinates(NamedTuple):
    """A sparse matrix in coordinate format, used without SciPy: `values[k]` is the entry at row `rows[k]`, column `columns[k]`.

    Attributes:
        rows, columns: the distinct positions, sorted by row, then by column.
        values: the entries, possibly zero.
        shape: the number of rows and of columns.

    Example:
        >>> Coordinates(np.array([0, 1]), np.array([2, 0]), np.array([5.0, 7.0]), (2, 3)).toarray()
        array([[0., 0., 5.],
               [7., 0., 0.]])
    """

    rows: Array
    columns: Array
    values: Any
    shape: tuple[int, int]

    def toarray(self) -> Any:
        """Return the matrix as a dense array."""
        dense = np.zeros(self.shape, self.values.dtype, like=self.values)
        dense[self.rows, self.columns] = self.values
        return dense


class SparsityPattern:
    """The positions of the structurally nonzero entries of a matrix. All other entries are zero.

    Args:
        rows, columns: the positions, in any order.
        shape: the number of rows and of columns.

    Attributes:
        rows, columns: the distinct positions, sorted by row, then by column; read-only.
        shape: the number of rows and of columns.

    Raises:
        InputError: a position is outside the shape.

    Example:
        >>> pattern = SparsityPattern([0, 1, 1], [0, 0, 2], (2, 3))
        >>> pattern
        SparsityPattern(shape=(2, 3), nnz=3)
        X..
        X.X
        >>> pattern.toarray()
        array([[ True, False, False],
               [ True, False,  True]])
    """

    __slots__ = ("columns", "pointers", "rows", "shape")

    rows: Array
    columns: Array
    pointers: Array
    shape: tuple[int, int]

    def __init__(self, rows: Any, columns: Any, shape: tuple[int, int]) -> None:
        i, j = (np.asarray(part, np.int64).ravel() for part in (rows, columns))
        m, n = shape
        outside = len(i) != len(j) or (i.size and (i.min() < 0 or j.min() < 0 or i.max() >= m or j.max() >= n))
        if outside:
            raise InputError(
                f"a SparsityPattern of shape {(m, n)}, made at {here()}, needs as many rows as columns, rows in [0, {m}) and "
                f"columns in [0, {n})."
            )
        keys = np.unique(i * max(n, 1) + j)
        self._enter(keys // max(n, 1), keys % max(n, 1), (int(m), int(n)))

    @classmethod
    def _sorted(cls, rows: Array, columns: Array, shape: tuple[int, int]) -> SparsityPattern:
        """Return a pattern of positions that are already sorted and distinct."""
        pattern = cls.__new__(cls)
        pattern._enter(rows, columns.astype(np.int64), shape)
        return pattern

    def _enter(self, rows: Array, columns: Array, shape: tuple[int, int]) -> None:
        self.rows, self.columns, self.shape = rows, columns, shape
        self.pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        for part in (self.rows, self.columns, self.pointers):
            part.setflags(write=False)

    @classmethod
    def of(cls, matrix: Any) -> SparsityPattern:
        """Return the pattern of a matrix: a `SparsityPattern`, a dense array (its nonzero entries), or a SciPy sparse matrix.

        All stored entries of a sparse matrix count, including explicit zeros.

        Args:
            matrix: a matrix of shape `(m, n)`.

        Returns:
            The pattern, of the same shape.

        Raises:
            InputError: `matrix` is not a matrix.

        Example:
            >>> SparsityPattern.of(np.eye(3)).nnz
            3
        """
        if isinstance(matrix, cls):
            return matrix
        if hasattr(matrix, "tocoo"):
            found = matrix.tocoo()
            return cls(found.row, found.col, found.shape)
        if isinstance(matrix, Coordinates):
            return cls(matrix.rows, matrix.columns, matrix.shape)
        dense = np.asarray(matrix)
        if dense.ndim != 2:
            raise InputError(
                f"a sparsity pattern is a SparsityPattern, a sparse matrix or a dense one, not a {type(matrix).__name__} "
                f"{'' if dense.ndim == 0 else f'of shape {dense.shape} '}at {here()}."
            )
        rows, columns = np.nonzero(dense)
        return cls(rows, columns, (dense.shape[0], dense.shape[1]))

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.rows)

    @property
    def density(self) -> float:
        """The number of entries divided by the number of elements of the matrix."""
        return self.nnz / max(self.shape[0] * self.shape[1], 1)

    @property
    def T(self) -> SparsityPattern:  # noqa: N802 - NumPy's name
        """The pattern of the transposed matrix."""
        order = np.argsort(self.columns, kind="stable")
        return SparsityPattern._sorted(self.columns[order], self.rows[order], self.shape[::-1])

    def toarray(self) -> Array:
        """Return the pattern as a dense array of booleans."""
        dense = np.zeros(self.shape, bool)
        dense[self.rows, self.columns] = True
        return dense

    def with_values(self, values: Any) -> Any:
        """Return a sparse matrix with the given values: a `scipy.sparse.csr_array` if SciPy is installed.

        Without SciPy, or if the values are Tensors, the result is a `Coordinates`.

        Args:
            values: an array of shape `(nnz,)`, one value per entry, row by row.

        Returns:
            A `scipy.sparse.csr_array` or a `Coordinates` with the shape of the pattern and the dtype of the values.
        """
        if type(values) is np.ndarray:
            try:
                from scipy.sparse import csr_array  # noqa: PLC0415 - SciPy is an extra
            except ImportError:
                pass
            else:
                return csr_array((values, self.columns.copy(), self.pointers.copy()), shape=self.shape)
        return Coordinates(self.rows, self.columns, values, self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparsityPattern):
            return NotImplemented
        same = self.shape == other.shape and np.array_equal(self.pointers, other.pointers)
        return same and np.array_equal(self.columns, other.columns)

    def __hash__(self) -> int:
        return hash((self.shape, self.columns.tobytes(), self.pointers.tobytes()))

    def __repr__(self) -> str:
        head = f"SparsityPattern(shape={self.shape}, nnz={self.nnz})"
        if not self.shape[0] * self.shape[1]:
            return head
        if max(self.shape) > _SHOWN:
            from functad.sparse.pictures import pattern_text  # noqa: PLC0415 - needed for display only

            return f"{head}\n{pattern_text(self)}"
        lines = ["".join(["X" if entry else "." for entry in row]) for row in self.toarray()]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        from functad.sparse.pictures import pattern_markup  # noqa: PLC0415 - needed for display only

        return pattern_markup(self)
