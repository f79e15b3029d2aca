"""The recorder of `vmap`: it computes each operation at once, for all examples of the batch.

A Tensor of such a trace stands for one example. What is known of it is a shape and a dtype, as in an abstract trace, so that
code which asks for a value is refused; beside them it has the array of all examples. So batching needs no list and no shape
rules, and values are freed when Python drops them. A list is batched by evaluating it on such Tensors, and a backward walk by
giving it such cotangents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, name_of, user_frame
from functad.primitives.batching import batch_call
from functad.primitives.primitive import Primitive
from functad.tracing.conversions import asked
from functad.tracing.recorder import ABSTRACT, Recorded, Recorder, _getframe
from functad.tracing.tensor import Tensor
from functad.tracing.views import clone, note_view, would_share


class Batched(ArraySpec):
    """Shape and dtype of one example, and the array of all of them, with the batch axis in front."""

    __slots__ = ("array",)

    array: Any

    def __init__(self, array: Any) -> None:
        super().__init__(shape_of(array)[1:], dtype_of(array))
        object.__setattr__(self, "array", array)


class BatchRecorder(Recorder):
    """The trace of one batch.

    Attributes:
        size: the number of examples.
    """

    def __init__(self, transform: str, function: object, size: int) -> None:
        super().__init__(ABSTRACT, transform, function)
        self.size = size

    def batch(self, array: Any) -> Tensor:
        """Return the Tensor that stands for each example of an array with the batch axis in front."""
        tensor = Tensor()
        tensor.value, tensor.recorder, tensor.slot = Batched(array), self, 0
        tensor.code, tensor.instruction = None, 0
        return tensor

    def array(self, value: Any) -> Any:
        """Return all examples of a Tensor of this trace; `None` for anything else."""
        if isinstance(value, Recorded) and value.recorder is self:
            return value.value.array
        return None

    def abstract(self, cls: type[Recorded], primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call for all examples."""
        batched = [isinstance(a, Recorded) and a.recorder is self for a in arrays]
        values = [
            a.value.array if own else clone(a) if isinstance(a, Recorded) else a for a, own in zip(arrays, batched, strict=True)
        ]
        if any(batched):
            out = batch_call(primitive, self.size, values, batched, params)
        else:  # an array that the user is going to write batched Tensors into
            out = np.broadcast_to(primitive(*values, **params), (self.size, *shape_of(values[0])))
        if primitive.multiple:
            results = [self._made(cls, value) for value in out]
            return type(out)(*results) if hasattr(out, "_fields") else tuple(results)
        tensor = self._made(cls, out)
        if primitive.views and isinstance(arrays[0], Recorded) and would_share(arrays[0], primitive, params):
            note_view(arrays[0], tensor, primitive, params)
        return tensor

    def _made(self, cls: type[Recorded], array: Any) -> Any:
        tensor = cls()
        tensor.value, tensor.recorder, tensor.slot = Batched(array), self, 1
        frame = user_frame(_getframe(4))
        tensor.code, tensor.instruction = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        return tensor

    def unknown(self, tensor: Recorded, wanted: str) -> AbstractValueError:
        """Return the error for the value of a Tensor that stands for all examples."""
        return AbstractValueError(
            f"{asked(wanted)} of a Tensor that stands for {self.size} examples in {self.transform} of "
            f"{name_of(self.function)}, at {here()}: it has a value for each of them. Choose between values with np.where, or "
            f"between computations with functad.cond or functad.while_loop; lengths must be the same for all examples."
        )
