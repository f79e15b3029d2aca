"""The forward pass: push tangents through the records of a trace, from the first to the last.

**Equal eigenvalues.** The eigenvectors of a degenerate decomposition are any basis of the eigenspace. Tangents alone do not
show whether a result depends on the choice of the basis. Cotangents do: the VJP rules of decompositions raise
`DegenerateError` in that case (see `functad.primitives.linalg.degenerate`). After a forward pass through equal eigenvalues,
the linear map from the tangents of the decomposition to the tangents of a result is therefore transposed. A sum of the
elements of each result with random weights is pulled back to the decomposition, where its VJP rule raises or not. Random
weights make cancellation unlikely.

Outer traces do not record this check. Only an abstract trace does, because it has no values: its expression list performs
the check when it is evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from functad.expressions.records import OBSERVERS, TANGENT, Observer, begun, ended, inputs_of, last_readers, results_of
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.entry import Plan
from functad.primitives.indexing.write import is_alone, put
from functad.primitives.operands import absent, innermost, is_traced, zeros_for
from functad.primitives.safe import CAREFUL, ELEMENTWISE, PASS, current_pass, strict
from functad.process import setting
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.float_errors import in_silence
from functad.tracing.trace import Recorded, Recorder
from functad.transforms.reverse import (
    foreign_array,
    has_nan_below,
    in_dtype,
    observed,
    pull_back,
    pull_record,
    seeded,
    zero_tangent,
)
from functad.transforms.zero_wins import push_carefully
from functad.trees import flatten

_LARGE = 1 << 14
"""Size in bytes above which freeing a tangent after its last reader pays for the search for that reader."""


@in_silence
def push_forward(
    records: Sequence[Any], tangents: list[Any], outputs: Collection[int] = (), *, frees: bool = False
) -> list[Any]:
    """Return the tangents of all slots; `None` means zero.

    In the quick pass, rules without the products of `functad.primitives.safe` may multiply zero by infinity, which gives NaN.
    If an output has a NaN, a careful pass follows. A write in place discards the tangent of the overwritten value, except in
    the slots `outputs`.

    Args:
        records: the records of a forward trace.
        tangents: the tangents of the inputs, which have the first slots. The other tangents are appended.
        outputs: the slots of the results.
        frees: free each tangent after its last reader, except outputs. This reduces the peak memory.

    Raises:
        DegenerateError: the tangent of an output depends on the basis of the eigenvectors of equal eigenvalues.
    """
    # Arrays of other libraries are not searched for NaN.
    if not current_pass() and any(t is not None and foreign_array(t) is not None for t in tangents):
        with setting(PASS, ELEMENTWISE):
            return push_forward(records, tangents, outputs, frees=frees)
    observers = begun(TANGENT, records) if OBSERVERS.get() else ()
    try:
        given = list(tangents)
        losses = _pass(records, tangents, outputs, frees, observers)
        if not current_pass() and not strict() and has_nan_below([tangents[slot] for slot in outputs]):
            tangents[:] = given
            with setting(PASS, CAREFUL):
                losses = _pass(records, tangents, outputs, frees, observers)
        if losses and outputs:
            _check_losses(records, losses, outputs)
    finally:
        if observers:
            ended(observers)
    return tangents


def _pass(
    records: Sequence[Any], tangents: list[Any], outputs: Collection[int], frees: bool, observers: Sequence[Observer]
) -> list[tuple[int, tuple[bool, ...]]]:
    """Push tangents through all records; return the index and the flags of `Primitive.lost` of each degenerate record."""
    last = last_readers(records, outputs) if frees else {}
    written = False
    losses = []
    careful = bool(current_pass()) and not strict()
    quick = not frees and not careful  # a record without fits needs no other step than `push`
    remaining: Iterator[Any] = itertools.islice(records, len(tangents), None)
    if observers:
        order = observed(range(len(tangents), len(records)), records, tangents, _inputs_of, observers)
        remaining = map(records.__getitem__, order)
    for record in remaining:
        if record is None:
            tangents.append(None)
            continue
        plan, slots, residuals, fits = record
        if quick and fits is None:
            t = tangents[slots] if type(slots) is int else [tangents[slot] for slot in slots]
            tangents.append(None if t is None else plan.push(t, residuals))
            continue
        index = len(tangents)
        tangents.append(None)
        if plan.primitive.writes:
            written, quick = True, False
            last = last or last_readers(records, outputs)
        if not plan.primitive.writes or not push_write(record, index, tangents, last):
            lost = _push(record, index, tangents, careful, written)
            if lost:
                losses.append((index, lost))
        if frees:
            for slot in inputs_of(record):
                if last[slot] == index:
                    tangents[slot] = None
    return losses


def _inputs_of(record: Any, index: int) -> Sequence[int]:
    return inputs_of(record)


def _push(record: Any, index: int, tangents: list[Any], careful: bool, written: bool) -> tuple[bool, ...]:
    """Push through any record, and return the flags of `Primitive.lost`; empty if no tangent is lost."""
    plan, _, residuals, fits = record
    primitive = plan.primitive
    ts = [tangents[slot] for slot in inputs_of(record)]
    if all(t is None for t in ts):
        return ()
    out = push_record(plan, ts, residuals, fits, careful)
    if primitive.multiple:
        for slot, t in zip(results_of(record, index), out, strict=True):
            tangents[slot] = t
    elif written and primitive.views and type(out) is np.ndarray:
        tangents[index] = out.copy()  # a write to the viewed tangent must not change this one
    else:
        tangents[index] = out
    return () if primitive.lost is None else _loss_at(record, ts)


def push_alone(record: Any, ts: Sequence[Any]) -> list[Any]:
    """Return the tangents of the results of one record for tangents `ts` of its inputs; `None` means zero."""
    plan, _, residuals, rest = record
    m, count = len(ts), len(rest[1]) if plan.primitive.multiple else 1
    return push_forward([*[None] * (m + count - 1), (plan, 0 if m == 1 else tuple(range(m)), residuals, rest)], list(ts))[m:]


def push_record(plan: Plan, ts: Sequence[Any], residuals: Any, fits: Any, careful: bool = False) -> Any:
    """Return the tangent of the result of one record, or a tuple for several results.

    Args:
        plan: the plan of the record.
        ts: the tangents of the inputs; `None` means zero. At least one is not `None`.
        residuals: the values that the rules read.
        fits: the shape and dtype of the result, or `None`; for several results `(None, shapes and dtypes)`.
        careful: an exact zero factor gives zero, also with an infinite or NaN factor.
    """
    multiple = plan.primitive.multiple
    specs = fits[1] if multiple else fits
    if plan.push is None:
        out = push_transposed(plan, ts, residuals, specs)
    elif careful and not plan.joint:
        out = push_carefully(plan, ts, residuals)
    else:
        out = plan.push(ts[0] if len(ts) == 1 else ts, residuals)
    if multiple:
        return tuple([fit(t, spec) for t, spec in zip(out, specs, strict=True)])
    return out if specs is None else fit(out, specs)


def push_write(record: Any, index: int, tangents: list[Any], last: dict[int, int]) -> bool:
    """Push through a write in place and return `True`, if no other record needs the old tangent; otherwise return `False`.

    A loop that fills an array then takes time linear in its length.
    """
    plan, _, (*_, params), _ = record
    slots = inputs_of(record)
    slot = slots[0]
    held = type(tangents[slot]) is np.ndarray and tangents[slot].base is None and is_alone(tangents, slot)
    if not held or plan.active[0] != 0 or last[slot] != index:
        return False
    t = tangents[slots[1]] if len(slots) == 2 else None
    if isinstance(t, Recorded):
        return False
    adds = plan.primitive.adds
    if t is not None or not adds:
        put(tangents[slot], params["path"], params["index"], 0.0 if t is None else t, adds=adds)
    tangents[index], tangents[slot] = tangents[slot], None
    return True


def push_transposed(plan: Plan, ts: Sequence[Any], residuals: Any, specs: Any) -> Any:
    """Return the JVP as the transpose of the linear VJP."""
    multiple = plan.primitive.multiple
    like = innermost(next(t for t in ts if t is not None))
    zeros = [zeros_for(shape, dtype, like) for shape, dtype in (specs if multiple else (specs,))]
    push = Pushforward("jvp", plan.primitive, zeros, lambda gs: pull_record(plan, tuple(gs) if multiple else gs[0], residuals))
    result = [zero if t is None else t for t, zero in zip(push(ts), zeros, strict=True)]
    return tuple(result) if multiple else result[0]


class Pushforward:
    """The transpose `t -> J t` of a pullback: `J t = (g -> g^T J)^T t`.

    A pullback is linear in its cotangents. It is recorded once, and a call pulls the tangents back through its records. For a
    traced function, a call takes the time of about two forward passes, without a second run of the function.

    Args:
        transform, function: the names for messages.
        zeros: zero cotangents of the results.
        pull: returns the cotangents of the inputs for cotangents of the results.

    Attributes:
        cotangents: the recorded cotangents of the inputs.
    """

    def __init__(
        self, transform: str, function: object, zeros: Sequence[Any], pull: Callable[[list[Any]], Sequence[Any]]
    ) -> None:
        self.recorder = ReverseRecorder(transform, function)
        self.cotangents = pull([self.recorder.enter(zero) for zero in zeros])
        self.recorder.close()

    def __call__(self, ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results for tangents of the inputs; `None` means zero in both."""
        recorder = self.recorder
        pairs = [
            (ct.slot, unfit(t, ct))
            for t, ct in zip(ts, self.cotangents, strict=True)
            if t is not None and isinstance(ct, Recorded) and ct.recorder is recorder
        ]
        seeds = seeded(recorder, [slot for slot, _ in pairs], [t for _, t in pairs])
        return pull_back(recorder.records, seeds, recorder.inputs, consume=False)


def unfit(t: Any, ct: Recorded) -> Any:
    """Return a tangent with the shape and dtype of the result of a VJP rule, before `reverse.fit` sums and casts it."""
    shape, dtype = shape_of(ct.below), dtype_of(ct.below)
    if shape_of(t) != shape:
        t = np.broadcast_to(t, shape)
    return t if dtype_of(t) == dtype else t.astype(dtype)


def fit(t: Any, spec: Any) -> Any:
    """Return a tangent cast and broadcast to the shape and dtype of its result."""
    shape, dtype = spec
    own = dtype_of(t)
    t = t if own == dtype else in_dtype(t, own, dtype)
    return t if shape_of(t) == shape else np.broadcast_to(t, shape)


def push_through(recorder: Recorder, tangents: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """Return the tangents of the results of a trace; the monitor of the trace, if any, checks them.

    Args:
        recorder: the trace.
        tangents: the tangents of the inputs. `None` means zero, also in the returned list.
        outs: the results.
    """
    slots = [out.slot if isinstance(out, Recorded) and out.recorder is recorder else None for out in outs]
    own = [slot for slot in slots if slot is not None]
    if recorder.monitor is not None:
        pushed = recorder.monitor.push_forward(list(tangents), own)
    else:
        frees = any(type(t) is np.ndarray and t.nbytes > _LARGE for t in tangents)
        pushed = push_forward(recorder.records, list(tangents), own, frees=frees)
    return [None if slot is None else pushed[slot] for slot in slots]


def with_zeros(found: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return tangents or cotangents of `values`, with zeros in place of `None`."""
    return [zero_tangent(value) if t is None else t for t, value in zip(found, values, strict=True)]


def _loss_at(record: Any, ts: Sequence[Any]) -> tuple[bool, ...]:
    """Return `Primitive.lost` of a record with one input: one flag per result, all `True` if values are unknown."""
    plan, _, residuals, fits = record
    t, read = _lowered(ts[0]), _lowered(plan.arguments(residuals)[0])
    if any(map(is_traced, flatten((t, read))[0])):
        return (True,) * (len(fits[1]) if plan.primitive.multiple else 1)
    found: tuple[bool, ...] = plan.primitive.lost(t, *read)
    return found


def _lowered(residuals: Any) -> Any:
    """Return residuals with the innermost values in place of Tensors; Tensors without values stay."""
    if isinstance(residuals, tuple):
        parts = [_lowered(part) for part in residuals]
        return type(residuals)(*parts) if hasattr(residuals, "_fields") else tuple(parts)
    value = innermost(residuals)
    return residuals if isinstance(value, ArraySpec) else value


def _check_losses(records: Sequence[Any], losses: Sequence[tuple[int, tuple[bool, ...]]], outputs: Collection[int]) -> None:
    """Check that no result depends on the lost tangents of degenerate decompositions.

    Args:
        records: the records of a forward trace.
        losses: pairs of the index of a degenerate record and one flag per result: check the cotangent of this result.
        outputs: the slots of the results.

    Raises:
        DegenerateError: a result depends on a lost tangent.
    """
    lowest = [None if e is None else (e[0], e[1], _lowered(e[2]), e[3]) for e in records]
    for index, lost in losses:
        plan, slot, residuals, fits = lowest[index]  # type: ignore[misc]
        if any(e is not None and e[0].primitive in plan.primitive.looked_at_by and inputs_of(e)[0] == slot for e in lowest):
            continue
        multiple = plan.primitive.multiple
        specs = fits[1] if multiple else (fits,)
        for cotangents in _cotangents(lowest, index, specs, outputs):
            seen = [ct if look else None for ct, look in zip(cotangents, lost, strict=True)]
            if all(ct is None for ct in seen):
                seen = cotangents
            g = tuple([absent(*spec) if ct is None else ct for ct, spec in zip(seen, specs, strict=True)])
            with np.errstate(all="ignore"):
                pull_record(plan.primitive.reverse_plan((0,)), g if multiple else g[0], residuals)


def _cotangents(records: Sequence[Any], index: int, specs: Any, outputs: Collection[int]) -> Iterator[list[Any]]:
    """Yield, for each output, the cotangents of the results of one record for a weighted sum of the output's elements."""
    recorder = ReverseRecorder("jvp", records[index][0].primitive)
    made = [recorder.enter(np.zeros(shape, dtype)) for shape, dtype in specs]
    tangents = [*[None] * (index + 1 - len(made)), *made]
    _pass(records, tangents, outputs, False, ())
    recorder.close()
    weights = np.random.default_rng(0)
    for slot in dict.fromkeys(outputs):
        t = tangents[slot]
        if isinstance(t, Recorded) and t.recorder is recorder:
            cotangents: list[Any] = [None] * len(recorder.records)
            cotangents[t.slot] = random_like(t, weights)
            yield pull_back(recorder.records, cotangents, recorder.inputs, consume=False)


def random_like(value: Any, generator: np.random.Generator) -> Any:
    """Return normally distributed numbers with the shape and dtype of a floating-point or complex value."""
    shape, dtype = shape_of(value), dtype_of(value)
    numbers = generator.standard_normal(shape)
    return np.asarray(numbers + 1j * generator.standard_normal(shape) if dtype.kind == "c" else numbers).astype(dtype)[()]
