"""`tf.Variable`: a `functad.Variable` with TensorFlow's arguments, names and default dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad
from functad.compat.tensorflow.names import named
from functad.compat.tensorflow.tensors import IndexedSlices, Tensor, TensorShape, as_tensor, numpy_dtype, tensor_of
from functad.eager.variable import TensorLike
from functad.primitives.operands import read


@named("Variable")
class Variable(functad.Variable):
    """A value that changes by assignment; tapes watch it.

    Args:
        initial_value: an array, a number, a nested list, a Tensor, or a function without arguments that returns one of these.
            Python floats become float32, integers int32; arrays keep their dtype.
        trainable: tapes watch the Variable; `None` means `True` for floating-point and complex numbers.
        validate_shape, caching_device, variable_def, import_scope, synchronization, aggregation: have no effect.
        name: `"w"` gives the name `w:0`.
        dtype: the dtype of the elements.
        constraint: stored as an attribute.
        shape: if given, it must match the shape of the value.

    Example:
        >>> from functad.compat import tf
        >>> v = tf.Variable(3.0)
        >>> v.name, v.dtype.name, float(v.assign_add(1.0))
        ('Variable:0', 'float32', 4.0)
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        given = initial_value() if callable(initial_value) and not isinstance(initial_value, TensorLike) else initial_value
        value = None if given is None else as_tensor(given, None if dtype is None else numpy_dtype(dtype))
        super().__init__(value, trainable, f"{name or 'Variable'}:0")
        self.constraint = constraint
        if shape is not None:
            self.shape.assert_is_compatible_with(shape)

    @property
    def shape(self) -> TensorShape:
        """The lengths of the axes."""
        return TensorShape(super().shape)

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    def __functad_read__(self) -> Tensor:
        return tensor_of(super().__functad_read__())  # type: ignore[no-any-return]

    initialized_value = functad.Variable.read_value

    def ref(self) -> Reference:
        """Return a hashable reference, for sets and dicts."""
        return Reference(self)

    experimental_ref = ref

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> functad.Variable | None:
        """Replace the value by one of the same shape; tapes do not record the assignment."""
        return super().assign(_plain(value), read_value=read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> functad.Variable | None:
        """Add to the value."""
        return super().assign_add(_plain(delta), read_value=read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> functad.Variable | None:
        """Subtract from the value."""
        return super().assign_sub(_plain(delta), read_value=read_value)

    def __reduce__(self) -> Any:
        return Variable, (self.copied(), self._trainable), {"name": self.name, "constraint": self.constraint}

    def _scatter(self, slices: IndexedSlices, change: Callable[[Any, Any, Any], Any]) -> Variable:
        array = np.array(self.copied())
        indices = slices.indices if isinstance(slices.indices, tuple) else np.asarray(as_tensor(slices.indices).numpy())
        change(array, indices, np.asarray(as_tensor(slices.values, self.dtype).numpy()))
        super().assign(array)
        return self


def _scattering(change: Callable[[Any, Any, Any], Any], doc: str) -> tuple[Callable[..., Variable], Callable[..., Variable]]:
    """Return a method that changes rows, and one that changes the elements or slices at given positions."""

    def by_row(self: Variable, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Variable:
        return self._scatter(sparse_delta, change)

    def by_position(self: Variable, indices: Any, updates: Any, name: str | None = None) -> Variable:
        index = np.asarray(as_tensor(indices).numpy())
        return self._scatter(IndexedSlices(updates, tuple(np.moveaxis(index, -1, 0))), change)

    by_row.__doc__ = f"{doc} rows."
    by_position.__doc__ = f"{doc} the elements or slices at the positions along the last axis of `indices`."
    return by_row, by_position


for _name, _change, _doc in (
    ("update", lambda old, index, new: old.__setitem__(index, new), "Replace"),
    ("add", np.add.at, "Add to"),
    ("sub", np.subtract.at, "Subtract from"),
):
    for _prefix, _method in zip(("scatter", "scatter_nd"), _scattering(_change, _doc), strict=True):
        setattr(Variable, f"{_prefix}_{_name}", _method)


def _plain(value: Any) -> Any:
    """Return a value to assign; nested lists become arrays of TensorFlow's default dtypes."""
    return as_tensor(value) if isinstance(value, (list, tuple, IndexedSlices)) else read(value)


class Reference:
    """A hashable reference to a Variable."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    def deref(self) -> Variable:
        """Return the Variable."""
        return self._variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._variable is self._variable

    def __hash__(self) -> int:
        return id(self._variable)
