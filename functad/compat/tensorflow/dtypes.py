"""TensorFlow's dtype objects and shapes, as thin wrappers of `numpy.dtype` and `tuple`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from functad.compat.tensorflow.names import enter, named
from functad.places import here


@named("DType dtypes.DType")
class DType:
    """An element type with TensorFlow's attributes; NumPy accepts it as a dtype.

    Args:
        dtype: any argument of `numpy.dtype`.

    Example:
        >>> from functad.compat import tf
        >>> tf.float32.name, tf.float32.as_numpy_dtype is np.float32, np.zeros(2, tf.float32).dtype == tf.float32
        ('float32', True, True)
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def real_dtype(self) -> DType:
        """The dtype of the real part."""
        return DType(np.zeros((), self.dtype).real.dtype)

    def _limits(self) -> Any:
        return (np.finfo if self.dtype.kind in "fc" else np.iinfo)(self.dtype)

    min = property(lambda self: self._limits().min, doc="The lowest finite number.")
    max = property(lambda self: self._limits().max, doc="The highest finite number.")
    is_floating = property(lambda self: self.dtype.kind == "f", doc="Whether the elements are real floating-point numbers.")
    is_integer = property(lambda self: self.dtype.kind in "iu", doc="Whether the elements are integers.")
    is_complex = property(lambda self: self.dtype.kind == "c", doc="Whether the elements are complex numbers.")
    is_bool = property(lambda self: self.dtype.kind == "b", doc="Whether the elements are truth values.")
    size = property(lambda self: self.dtype.itemsize, doc="Bytes of an element.")
    name = property(lambda self: self.dtype.name, doc="The name, as of `numpy.dtype`.")
    as_numpy_dtype = property(lambda self: self.dtype.type, doc="NumPy's scalar type.")
    base_dtype = property(lambda self: self, doc="The type itself: there are no references.")

    def __eq__(self, other: object) -> bool:
        try:
            return other is not None and self.dtype == numpy_dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"tf.{self.name}"


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype for a TensorFlow dtype, a name, or any other argument of `numpy.dtype`."""
    return dtype.dtype if isinstance(dtype, DType) else np.dtype(dtype)


@named("as_dtype dtypes.as_dtype")
def as_dtype(type_value: Any) -> DType:
    """Return the dtype object for a NumPy dtype or a name."""
    return type_value if isinstance(type_value, DType) else DType(type_value)


for _name in ("float16", "float32", "float64", "complex64", "complex128", "bool"):
    enter(f"{_name} dtypes.{_name}", DType(_name))
for _bits in (8, 16, 32, 64):
    enter(f"int{_bits} dtypes.int{_bits}", DType(f"int{_bits}"))
    enter(f"uint{_bits} dtypes.uint{_bits}", DType(f"uint{_bits}"))
enter("double", DType("float64"))
enter("half", DType("float16"))


@named("TensorShape")
class TensorShape(tuple[int, ...]):
    """A shape: a tuple of the lengths of the axes, with TensorFlow's methods.

    Args:
        dims: the lengths, or one length.

    Example:
        >>> from functad.compat import tf
        >>> tf.zeros([2, 3]).shape.as_list(), tf.zeros([2, 3]).shape == (2, 3)
        ([2, 3], True)
    """

    __slots__ = ()

    def __new__(cls, dims: Any) -> Self:
        """Return a shape; a single number gives one axis."""
        if dims is None:
            raise ValueError(f"a shape of unknown rank, at {here()}: shapes are always known here. Give the lengths.")
        return super().__new__(cls, (int(dims),) if isinstance(dims, (int, np.integer)) else map(int, dims))

    def as_list(self) -> list[int]:
        """Return the lengths as a list."""
        return list(self)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self)

    ndims = rank

    dims = property(as_list)

    def num_elements(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self, dtype=np.int64))

    def is_fully_defined(self) -> bool:
        """Return True: shapes are always known."""
        return True

    def is_compatible_with(self, other: Any) -> bool:
        """Return `True` if another shape is equal; `None` in it matches any length, and `None` any shape."""
        if other is None:
            return True
        wanted = [None if n is None else int(n) for n in other]
        return len(wanted) == len(self) and all(n in (None, own) for n, own in zip(wanted, self, strict=True))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if another shape is not compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"shapes {self} and {tuple(other)} are not compatible, at {here()}.")

    def concatenate(self, other: Any) -> TensorShape:
        """Return the concatenation of this shape and another."""
        return TensorShape((*self, *TensorShape(other)))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, (list, tuple)) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"

    def __str__(self) -> str:
        return tuple.__repr__(self)


@named("TensorSpec")
class TensorSpec:
    """The shape and dtype of a Tensor, for `tf.function(input_signature=...)`; functad checks nothing against it."""

    def __init__(self, shape: Any, dtype: Any = np.float32, name: str | None = None) -> None:
        self.shape = tuple(shape) if shape is not None else None
        self.dtype = as_dtype(dtype)
        self.name = name

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"
