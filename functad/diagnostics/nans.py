"""`debug_nans` raises with the origin of a NaN, and `strict_derivatives` computes with IEEE arithmetic.

Under `debug_nans` each recorder of a concrete trace has a `Monitor`. The monitor logs the arguments and the line of each
operation, and observes the forward and backward passes. It checks values only when a transform has its result: a NaN that
does not reach the result is no error.

A trace of `vmap` has no records, but its monitor logs each operation. If an example of a result is bad, the origin is searched
in the part of the log for this example. Derivatives taken inside are operations on batches too; their log entries name the
differentiated operation (`Operation.belongs_to`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np

from functad.diagnostics.nan_origins import (
    DERIVATIVE_OF,
    NAN,
    NOT_FINITE,
    Arrivals,
    CotangentArrivals,
    Offence,
    Operation,
    OperationLog,
    TangentArrivals,
    count_offending,
    moves_elements,
    origin_of_derivative,
    origin_of_value,
)
from functad.errors import NotFiniteError
from functad.expressions.expressions import Expressions, evaluate
from functad.expressions.records import Observer, checker, observing
from functad.expressions.spec import ArraySpec, dtype_of, spec_of
from functad.places import here, is_own, line_of, name_of, user_frame
from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, Composite, Primitive
from functad.primitives.operands import innermost
from functad.primitives.safe import STRICT
from functad.process import context_variable, setting
from functad.tracing.batch import Batched, BatchRecorder
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.trace import Recorded, Recorder
from functad.transforms.boundary import traced
from functad.transforms.forward import push_forward
from functad.transforms.reverse import pull_back


@contextmanager
def debug_nans(infinities: bool = False) -> Iterator[None]:
    """Make every transform and tape raise if its value or derivatives hold a NaN, with the origin of the NaN.

    The message names the operation that made the first NaN, its arguments and the line of your code, in the function or in its
    derivative. Under `vmap` it also names the example. A NaN that does not reach the result, such as a NaN in the branch that
    `np.where` did not take, is no error. `debug_nans` keeps all records and disables fast paths, so use it to find a NaN, not
    to run a program.

    Tapes, graphs and forward accumulators opened inside raise when a derivative is computed. While another tape or transform
    records, only its own result is checked. The results of `deriv` and `taylor` are not checked.

    Args:
        infinities: treat infinities as errors too.

    Returns:
        A context manager, which also works as a decorator. Each thread and coroutine has its own setting.

    Raises:
        NotFiniteError: a result is NaN. Transforms called inside, pullbacks made inside and tapes opened inside raise it.

    Example:
        >>> import numpy as np, functad
        >>> with debug_nans(), np.errstate(all="ignore"):
        ...     float(functad.grad(lambda x: np.where(x > 0, np.log(x), 0.0))(0.0))  # -inf is not selected
        0.0
        >>> with debug_nans():
        ...     functad.grad(lambda x: np.sqrt(x - x))(0.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        functad.errors.NotFiniteError: The derivative, in grad of <lambda>, called at ..., is nan. It is a sum of infinities ...
    """
    with observing(NanObserver(infinities=infinities)):
        yield


@contextmanager
def strict_derivatives(strict: bool = True) -> Iterator[None]:
    """Multiply zero cotangents with infinite derivatives as in IEEE arithmetic: `0 * inf` is NaN.

    By default an exact zero wins: a zero cotangent gives zero even if the derivative is infinite or NaN. A radius of zero (in
    `np.linalg.norm`, `np.hypot`, `np.arctan2`, `np.std`) has derivative zero. Inside this context, rules use plain products
    and quotients. Ties still share the derivative, and `abs` and `sign` still have derivative 0 at 0.

    The setting applies when derivatives are computed: call `grad(f)(x)` inside, or decorate a function that does. For `vjp`,
    call the pullback inside. An expression list made inside stays strict everywhere. Each thread and coroutine has its own
    setting.

    Args:
        strict: `False` restores the default inside a strict block.

    Returns:
        A context manager, which also works as a decorator.

    Example:
        >>> import numpy as np, functad
        >>> f = lambda x: np.where(x > 0, np.sqrt(x), 0.0)
        >>> float(functad.grad(f)(0.0))
        0.0
        >>> with strict_derivatives():
        ...     float(functad.grad(f)(0.0))
        nan
    """
    with setting(STRICT, strict):
        yield


_INSIDE: ContextVar[bool] = context_variable("inside_monitored", default=False)
"""Whether a monitored transform runs its function now. Transforms called inside leave the checks to the outer transform."""

_DIRECT: ContextVar[bool] = context_variable("direct", default=False)
"""Whether the function that a monitored transform runs now is itself a transform, without user code in between."""


class NanObserver(Observer):
    """The observer of `debug_nans`, which makes a monitor for each trace on values."""

    checks = True

    def __init__(self, *, infinities: bool) -> None:
        self.offence = NOT_FINITE if infinities else NAN

    def opened(self, recorder: Recorder) -> Monitor:
        """Return the monitor of a new trace."""
        return Monitor(recorder, offence=self.offence)

    def called(self, expressions: Expressions, leaves: Sequence[Any]) -> list[Any]:
        """Evaluate an expression list that the user calls, and check its results."""
        if _INSIDE.get() or any(isinstance(leaf, Recorded) for leaf in leaves):
            return evaluate(expressions, leaves)  # the outer trace checks
        recorder = ReverseRecorder("a call", expressions)
        tensors = [recorder.enter(leaf) if dtype_of(leaf).kind in "fc" else leaf for leaf in leaves]
        outs = traced(recorder, functools.partial(evaluate, expressions), (tensors,), {})
        own = [isinstance(out, Recorded) and out.recorder is recorder for out in outs]
        recorder.monitor.check_values([out.slot for out, mine in zip(outs, own, strict=True) if mine])
        return [out.below if mine else out for out, mine in zip(outs, own, strict=True)]


class Monitor:
    """The operation log and the checks of one trace.

    Attributes:
        offence: the definition of a bad element.
        quiet: an outer monitored transform runs its function now, and will check the result.
        direct: that function is a transform itself, as in `vmap(grad(f))`; the outer transform cannot check the value of `f`.
        log: the operations of the trace.
        batched: by slot, the values that are batches; the monitor of the batch checks them.
        value_name: the result of the trace, in messages.
    """

    value_name = "The value"

    def __init__(self, recorder: Recorder, *, offence: Offence) -> None:
        self._recorder = ref(recorder)  # weak, because the recorder holds its monitor: no reference cycle
        self.offence = offence
        self.quiet = _INSIDE.get()
        self.direct = _DIRECT.get()
        self.log = OperationLog()
        self.batched: dict[int, Any] = {}

    @property
    def recorder(self) -> Any:
        """The recorder of the trace."""
        return self._recorder()

    def silent(self) -> bool:
        """Return `True` if an outer monitored transform will check the results."""
        return self.quiet or _INSIDE.get()

    def run(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return `f(*args, **kwargs)`, run as the function of a monitored transform."""
        with setting(_INSIDE, True), setting(_DIRECT, is_own(f)):
            return f(*args, **kwargs)

    def keep(self, root: Any) -> None:
        """Keep a copy of the value of a Tensor before a write in place, if no operation made the Tensor."""
        if root.slot not in self.log and root.slot not in self.log.bases:
            self.log.bases[root.slot] = np.copy(self.untraced(root.below))

    def untraced(self, value: Any) -> Any:
        """Return the plain value of a value of the trace."""
        return innermost(value)

    def note(
        self, primitive: Primitive, arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], result: Any
    ) -> None:
        """Log an operation that was just recorded."""
        results: tuple[Any, ...] = tuple(result) if primitive.multiple else (result,)
        slots = tuple([a.slot if isinstance(a, Recorded) and a.recorder is self.recorder else None for a in arrays])
        line = line_of(results[-1].code, results[-1].instruction)
        known = tuple(map(self.untraced, values))
        out: tuple[Any, ...] = tuple([self.untraced(t.below) for t in results])
        if slots[0] is not None and moves_elements(primitive):
            if primitive.writes:
                out = (None,)
                if slots[0] not in self.log:
                    self.log.bases.setdefault(slots[0], known[0])
            known = (spec_of(known[0]), *known[1:])
        operation = Operation(primitive, _called(primitive), line, known, slots, params, out, DERIVATIVE_OF.get())
        for i, t in enumerate(results):
            self.log[t.slot] = operation, i
            if isinstance(self.untraced(t.below), Batched):
                self.batched[t.slot] = t.below

    def check_values(self, slots: Sequence[int | None]) -> None:
        """Raise `NotFiniteError` if a value in one of the slots is bad."""
        if self.silent() and not self.direct:
            return
        for slot in slots:
            if slot in self.batched:
                _check_batch(self.batched[slot])
            elif slot is not None and slot in self.log:
                value = self.log.value(slot)
                if self.offence.found(value):
                    origin = origin_of_value(self.log, slot, self.offence.mask(value), self.offence)
                    raise self.error(self.value_name, count_offending(value, self.offence), origin)

    def pull_back(self, cotangents: list[Any]) -> list[Any]:
        """Pull cotangents back as `reverse.pull_back` does, and raise `NotFiniteError` for a bad value or derivative."""
        recorder, seeds = self.recorder, _by_slot(cotangents)
        self.check_values(list(seeds))
        arrivals = CotangentArrivals(self.log, seeds, quiet=self.silent())
        records, inputs = recorder.records, recorder.inputs
        found: list[Any] = arrivals.through(pull_back, records, cotangents, inputs, consume=False)
        what = "The derivative by input {}" if inputs > 1 else "The derivative"
        self.check_derivatives(arrivals, found, range(inputs), what)
        return found

    def push_forward(self, tangents: list[Any], outputs: Sequence[int]) -> list[Any]:
        """Push tangents forward as `forward.push_forward` does, and raise `NotFiniteError` for a bad value or tangent."""
        self.check_values(outputs)
        arrivals = TangentArrivals(self.log, _by_slot(tangents), quiet=self.silent())
        arrivals.through(push_forward, self.recorder.records, tangents, outputs)
        what = "The tangent of result {}" if len(outputs) > 1 else "The tangent"
        self.check_derivatives(arrivals, [tangents[slot] for slot in outputs], outputs, what)
        return tangents

    def check_derivatives(self, arrivals: Arrivals, found: Sequence[Any], slots: Sequence[int], what: str) -> None:
        """Raise `NotFiniteError` if a cotangent or tangent in `found` is bad; `what` names it in the message."""
        if arrivals.quiet:
            return
        for number, (value, slot) in enumerate(zip(map(innermost, found), slots, strict=True)):
            if self.offence.found(value):
                origin = origin_of_derivative(arrivals, slot, self.offence.mask(value), self.offence)
                raise self.error(what.format(number), count_offending(value, self.offence), origin)

    def error(self, what: str, found: str, origin: str) -> NotFiniteError:
        """Return the error for the bad elements `found` of the value `what`; `origin` ends the message."""
        return NotFiniteError(f"{what}, {self._call_text()}, is {found}. It {origin}", found, origin)

    def _call_text(self) -> str:
        """Return the text that names the user's call."""
        return f"in {self.recorder.transform} of {name_of(self.recorder.function)}, called at {here()}"


def _check_batch(value: Any) -> None:
    """Check a batched value with the monitor of its batch."""
    while isinstance(value, Recorded):
        below = value.below
        if isinstance(below, Batched):
            if value.recorder.monitor is not None:
                value.recorder.monitor.check_results([value])
                return
            below = below.array
        value = below


def _by_slot(values: Sequence[Any]) -> dict[int, Any]:
    return {slot: value for slot, value in enumerate(values) if value is not None}


@functools.cache
def _fronts() -> dict[Any, str]:
    vocabulary.import_families()
    return {e.front.__code__: e.name for e in ENTRIES.values() if isinstance(e, Composite) and hasattr(e.front, "__code__")}


def _called(primitive: Primitive) -> str:
    """Return the name of a primitive, with the name of the composite that the user called if there is one."""
    frame: FrameType | None = sys._getframe(2)
    user = user_frame(frame)
    name = None
    while frame is not None and frame is not user:
        name = _fronts().get(frame.f_code, name)
        frame = frame.f_back
    return primitive.name if name is None or name == primitive.name else f"{name} (by {primitive.name})"


class BatchMonitor(Monitor):
    """The operation log and the checks of the trace of a batch, with the number of its first example and of assigned slots."""

    def __init__(self, recorder: BatchRecorder, *, offence: Offence, first: int = 0) -> None:
        super().__init__(recorder, offence=offence)
        self.first = first
        self.count = 0

    def number(self, tensor: Recorded) -> None:
        """Assign the next slot to a Tensor of the trace."""
        tensor.slot = self.count
        self.count += 1

    def untraced(self, value: Any) -> Any:
        """Return the plain array of all examples."""
        return innermost(value.array if isinstance(value, Batched) else value)

    def note(self, primitive: Any, arrays: Sequence[Any], values: Sequence[Any], params: dict[str, Any], result: Any) -> None:
        """Log an operation that was just computed for all examples."""
        for tensor in result if primitive.multiple else (result,):
            self.number(tensor)
        super().note(primitive, arrays, values, params, result)

    def check_results(self, leaves: Sequence[Any]) -> None:
        """Check every example of the results, except results that an outer monitored trace will check."""
        for leaf in leaves:
            if not isinstance(leaf, Recorded) or leaf.recorder is not self.recorder or leaf.slot not in self.log:
                continue
            array = leaf.below.array
            if isinstance(array, Recorded) and array.recorder.monitor is not None:
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


def monitor_batch(recorder: BatchRecorder, inputs: Sequence[Recorded], first: int) -> None:
    """Set the monitor of the trace of a batch under `debug_nans`, unless an outer monitored transform will check the results.

    `inputs` are the Tensors of its inputs, and `first` is the number, within the user's call, of its first example.
    """
    observer = checker()
    if observer is not None and not _INSIDE.get():
        recorder.monitor = BatchMonitor(recorder, offence=observer.offence, first=first)
        for tensor in inputs:
            recorder.monitor.number(tensor)


def _of_example(log: OperationLog, i: int) -> OperationLog:
    """Return the log for one example of a batch."""
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
