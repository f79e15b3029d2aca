"""The recorder of `vmap`: it computes each operation immediately, for all examples of the batch.

A Tensor of this trace represents one example. It has a shape and a dtype, as in an abstract trace, and conversions to a value
raise. Its spec also holds the array of all examples. Batching therefore needs no list and no shape rules, and Python frees
values as usual. Evaluation on these Tensors batches an expression list, and cotangents of this trace batch a backward pass.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType
from typing import Any

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.immutable import assign
from functad.places import here, name_of, user_place
from functad.primitives.batching import batch_call, elementwise, with_forms
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.entry import Primitive
from functad.primitives.indexing.write import batched_write, is_alone, put
from functad.primitives.operands import known_array
from functad.tracing.conversions import asked, batch_cure, snippet_shown
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, Recorder, alike, bare
from functad.tracing.views import clone, examples_in_c_order, make_stale, may_be_view, memory_of, note_result, origin_of


class Batched(ArraySpec):
    """Shape and dtype of one example, and the array of all examples, with the batch axis in front."""

    __slots__ = ("array",)

    array: Any
    weak = False

    def __init__(self, array: Any, zero_d: bool = False) -> None:
        assign(self, "array", array)
        assign(self, "shape", array.shape[1:])
        assign(self, "dtype", array.dtype)
        assign(self, "zero_d", zero_d)


_ndarray = np.ndarray
_ONE_OPERAND = frozenset({np.float64, float, int, type(None)})


def _asked_by_scipy() -> bool:
    """Return `True` if the innermost frame outside functad belongs to SciPy, which tests its arguments."""
    frame: Any = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("functad."):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("scipy.")


class BatchRecorder(Recorder):
    """The trace of one batch.

    Attributes:
        size: the number of examples.
    """

    has_values = False

    place: tuple[CodeType | None, int] | None = None
    """During a backward pass, the user's line that started it: the line of all Tensors of the pass."""

    def __init__(self, transform: str, function: object, size: int) -> None:
        super().__init__(transform, function)
        self.size = size
        self.inputs = 1  # there is no list: all arguments have slot 0, and all other Tensors slot 1

    def batch(self, array: Any) -> Tensor:
        """Return the Tensor of an array with the batch axis in front; `array[i]` is an example."""
        tensor: Tensor = bare(Tensor, self, Batched(array), 0)
        if not (type(array) is np.ndarray and array.flags.c_contiguous) and not examples_in_c_order(array):
            memory_of(tensor).ordered = False
        return tensor

    def array(self, value: Any) -> Any:
        """Return the array of all examples of a Tensor of this trace; `None` for any other value."""
        if isinstance(value, Recorded) and value.recorder is self:
            return value.below.array
        return None

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call for all examples."""
        if primitive.batch is elementwise and len(arrays) < 3 and not params:
            x, y = arrays if len(arrays) == 2 else (arrays[0], None)
            if isinstance(x, Recorded) and x.recorder is self:
                made = self.operate(primitive, x, y)
            else:  # without another operand it is a buffer for writes of batched Tensors
                made = None if y is None else self.operate(primitive, y, x, flipped=True)
            if made is not None:
                return made
        values: list[Any] = []
        batched: list[bool] = []
        for a in arrays:
            own = False
            if isinstance(a, Recorded):
                own = a.recorder is self
                a = a.below.array if own else clone(a)
            batched.append(own)
            values.append(a)
        if True in batched:
            out = batch_call(primitive, self.size, values, batched, params)
        else:  # a buffer for writes of batched Tensors
            out = np.broadcast_to(primitive(*values, **params), (self.size, *shape_of(values[0])))
        if primitive.multiple:
            results = [self._made(value) for value in out]
            self._mark(primitive, arrays, params, results)
            for result in results:
                note_result(result, primitive, arrays, params)
            if self.monitor is not None:
                self._note(primitive, arrays, params, results)
            return alike(out, results)
        tensor = self._made(out)
        if out.ndim == 1 and primitive.zero_d is not False:
            self._mark(primitive, arrays, params, [tensor])
        if self.monitor is not None:
            self._note(primitive, arrays, params, tensor)
        if primitive.views or out.ndim > 2:  # with one axis there is one order only
            note_result(tensor, primitive, arrays, params)
        return tensor

    def operate(self, primitive: Primitive, x: Recorded, other: Any = None, flipped: bool = False) -> Any:
        """Compute an elementwise operation of one or two operands, in half the time of `process`.

        Returns:
            The Tensor of the result; `None` if the call needs `process`. If `flipped`, `x` is the second operand.
        """
        a, y, kind = x.below.array, other, type(other)
        if type(a) is not _ndarray:
            return None
        if kind is Tensor:
            if y.recorder is not self:
                return None
            y = y.below.array
            if type(y) is not _ndarray or y.ndim != a.ndim:
                return None
        elif kind is _ndarray:
            if y.ndim >= a.ndim or y.dtype is not a.dtype:
                return None
        elif kind not in _ONE_OPERAND:
            return None
        if self.closed or self.monitor is not None or primitive.batch is not elementwise:
            return None
        if type(primitive.function) is not np.ufunc or primitive.multiple:
            return None  # other functions may return arrays of shape ()
        arrays: tuple[Any, ...] = (x,)
        if y is None:
            tensor = self._made(primitive.compute(a))
        elif flipped:
            tensor, arrays = self._made(primitive.compute(y, a)), (other, x)
        else:
            tensor, arrays = self._made(primitive.compute(a, y)), (x, other)
        if a.ndim > 2:
            note_result(tensor, primitive, arrays, {})
        return tensor

    def buffer(self, value: Any) -> Any:
        """Return a Tensor with a copy of a constant for each example, as a buffer for writes of Tensors."""
        return self.process(COPY, (value,), {})

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write for all examples, in place if the array has no other reference, so that a loop of writes takes linear time."""
        own = isinstance(v, Recorded) and v.recorder is self
        given = v.below.array if own else clone(v) if isinstance(v, Recorded) else v
        make_stale(root)
        if self.monitor is not None:
            self.monitor.keep(root)
        cell, root.below = [root.below.array], None
        alone = is_alone(cell, 0)
        array = cell[0]
        root.below = Batched(array, zero_d=array.ndim == 1)
        if isinstance(array, Recorded):
            # a broadcast array is one array for all examples
            alone = alone and not origin_of(array)[1] and not may_be_view(array)
        else:
            alone = alone and not isinstance(given, Recorded) and array.base is None
        if alone:
            piece, path, index = batched_write(self.size, array, given, own, **params)
            put(array, path, index, piece, adds=primitive.adds)
        else:
            memory_of(root).copies += 1
            array = batch_call(primitive, self.size, (array, given), (True, own), params)
        made = self._made(array)
        if array.ndim == 1:
            made.below = Batched(array, zero_d=True)
        if self.monitor is not None:
            self._note(primitive, (root, v), params, made)
        return made

    def _mark(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], made: Sequence[Tensor]) -> None:
        """Set `zero_d` for results of shape `()` that are arrays in NumPy."""
        specs = tuple([tensor.below for tensor in made])
        given = [a.below if isinstance(a, Recorded) and a.recorder is self else a for a in arrays]
        given = [spec_of(a) if isinstance(a, Recorded) else a for a in given]
        found = with_forms(primitive, specs if primitive.multiple else specs[0], given, params)
        for tensor, spec in zip(made, found if primitive.multiple else (found,), strict=True):
            if spec.zero_d and not tensor.below.zero_d:
                tensor.below = Batched(tensor.below.array, zero_d=True)

    def _note(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any], made: Any) -> None:
        """Pass a computed operation to the monitor."""
        values = [a.below if isinstance(a, Recorded) and a.recorder is self else a for a in arrays]
        self.monitor.note(primitive, arrays, values, params, made)

    def _made(self, array: Any) -> Any:
        tensor = Tensor()
        tensor.below = Batched(array)
        tensor.recorder = self
        tensor.slot = 1
        # A backward pass knows the line: a search for each Tensor would take 5 % of `vmap(grad)`.
        tensor.code, tensor.instruction = self.place or user_place()
        return tensor

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Return the truth value for a test in SciPy's code if it is the same for all examples; raise otherwise.

        Raises:
            AbstractValueError: each example has its own value.
        """
        if wanted == "bool" and _asked_by_scipy():
            values = known_array(tensor)
            if values is not None and values.size and np.all(values == values.flat[0]):
                return values.flat[0]
        cure = batch_cure(wanted, mask=dtype_of(tensor).kind == "b")
        raise AbstractValueError(
            f"{asked(wanted)} of a Tensor that stands for {self.size} examples in {self.transform} of "
            f"{name_of(self.function)}, {snippet_shown()}at {here()}: it has a value for each of them. {cure}"
        )
