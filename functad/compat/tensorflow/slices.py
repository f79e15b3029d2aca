"""`IndexedSlices`: rows of a larger array. Gradients are dense here; code that creates or takes `IndexedSlices` still runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.compat.tensorflow.names import named
from functad.places import here
from functad.primitives.indexing.write import add


@named("IndexedSlices")
class IndexedSlices:
    """Rows of an array and their positions; repeated rows add up.

    Args:
        values: a Tensor of shape `(n, ...)`.
        indices: n integers, the positions along the first axis.
        dense_shape: the shape of the whole array.

    Example:
        >>> from functad.compat import tf
        >>> slices = tf.IndexedSlices(tf.constant([1.0, 2.0, 3.0]), [0, 2, 0], (3,))
        >>> tf.convert_to_tensor(slices).numpy()
        array([4., 0., 2.], dtype=float32)
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    def dense(self) -> Any:
        """Return the whole array, with zeros outside the rows.

        Raises:
            ValueError: `dense_shape` was not given.
        """
        if self.dense_shape is None:
            raise ValueError(f"IndexedSlices without dense_shape cannot be made dense, at {here()}: give the shape.")
        shape = tuple(int(n) for n in self.dense_shape)
        return add(np.zeros(shape, self.values.dtype), self.values, path=(), index=np.asarray(self.indices))

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(values={self.values!r}, indices={self.indices!r}, dense_shape={self.dense_shape!r})"
