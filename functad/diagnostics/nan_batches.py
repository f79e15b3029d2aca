"""What `debug_nans` does in `vmap`: where a NaN was born in a function of one example, and for which example.

A trace of `vmap` has no records, but its watch sees what is computed in it. If an example of a result is bad, all that was kept
is looked at as it was for this example, and its origin found as in a trace of one example. Derivatives taken inside are
operations on batches like others, and the watches of their traces say whose derivatives these compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functad.diagnostics.nan_origins import count_offending, origin_of_value
from functad.diagnostics.nan_watch import Watch, is_inside
from functad.diagnostics.operation_log import Offence, Operation, OperationLog
from functad.expressions.spec import ArraySpec
from functad.primitives.operands import innermost
from functad.tracing.traces.base import WATCHER, Recorded
from functad.tracing.traces.batch import Batched, BatchRecorder


class BatchWatch(Watch):
    """What is known of the trace of a batch.

    Attributes:
        first: which example of the call the first one here is.
        count: the number of slots given out.
    """

    def __init__(self, recorder: BatchRecorder, *, offence: Offence, first: int = 0) -> None:
        super().__init__(recorder, offence=offence)
        self.first = first
        self.count = 0

    def number(self, tensor: Recorded) -> None:
        """Give a Tensor of the trace a slot of its own."""
        tensor.slot = self.count
        self.count += 1

    def plain(self, value: Any) -> Any:
        """Return the array of all examples, without Tensors."""
        return innermost(value.array if isinstance(value, Batched) else value)

    def note(self, primitive: Any, arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], result: Any) -> None:
        """Keep what is known of an operation that has just been computed for all examples."""
        for tensor in result if primitive.multiple else (result,):
            self.number(tensor)
        super().note(primitive, arrays, values, params, result)

    def check_results(self, leaves: Sequence[Any]) -> None:
        """Raise if an example of a result is not as it should be, unless a watched trace around this one will look at it.

        Raises:
            NotFiniteError: it is not.
        """
        for leaf in leaves:
            if not isinstance(leaf, Recorded) or leaf.recorder is not self.recorder or leaf.slot not in self.log:
                continue
            array = leaf.value.array
            if isinstance(array, Recorded) and array.recorder.watch is not None:
                continue
            examples = innermost(array)
            mask = self.offence.mask(examples)
            if np.any(mask):
                bad = np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))
                i = int(bad[0])
                several = f" (and in {len(bad) - 1} more of {len(mask)} examples)" if len(bad) > 1 else ""
                origin = origin_of_value(_of_example(self.log, i), leaf.slot, mask[i], self.offence)
                what = f"{count_offending(examples[i], self.offence)}{several}"
                raise self.error(f"{self.value_name} of example {self.first + i}", what, origin)


def watch_batch(recorder: BatchRecorder, inputs: Sequence[Recorded], first: int) -> None:
    """Give the trace of a batch a watch, if `debug_nans` is on and no watched transform around will look at the results.

    Args:
        recorder: the trace.
        inputs: its inputs.
        first: which example of the call the first one here is.
    """
    watcher = WATCHER.get()
    if watcher is not None and not is_inside():
        recorder.watch = BatchWatch(recorder, offence=watcher(recorder).offence, first=first)
        for tensor in inputs:
            recorder.watch.number(tensor)


def _of_example(log: OperationLog, i: int) -> OperationLog:
    """Return what was kept of all examples, as it was for one of them."""
    found = OperationLog()
    found.bases = {slot: _example(value, i) for slot, value in log.bases.items()}
    made: dict[int, Operation] = {}
    for slot, (operation, k) in log.items():
        if id(operation) not in made:
            values = [v if own is None else _example(v, i) for v, own in zip(operation.values, operation.slots, strict=True)]
            out = [_example(value, i) for value in operation.out]
            made[id(operation)] = replace(operation, values=tuple(values), out=tuple(out))
        found[slot] = made[id(operation)], k
    return found


def _example(value: Any, i: int) -> Any:
    if isinstance(value, ArraySpec):
        return ArraySpec(value.shape[1:], value.dtype)
    return None if value is None else value[i]
