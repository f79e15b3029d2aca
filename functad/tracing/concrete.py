"""Traces on values: the function computes its usual values, and the list holds the records for its derivatives.

A value is an array, a number or a Tensor of an older trace, so these traces nest, also inside `vmap` and `jit`.

A record is `(plan, slots, residuals, fits)`:

- `plan`: the rules.
- `slots`: the slots of the differentiated inputs; an integer for one input.
- `residuals`: the values that the rules read: the value itself for one name in `plan.names`, a tuple for several names.
- `fits`: the shapes and dtypes that derivatives must have, in one of these forms:

  | trace | results | `fits` |
  |---|---|---|
  | reverse | one | `(shape, dtype)` of the input, a tuple of them for several inputs; `None` if none needs a conversion |
  | reverse | several | the same, and `(shape, dtype)` of each result, as a pair |
  | forward | one | `(shape, dtype)` of the result |
  | forward | several | `None`, and `(shape, dtype)` of each result, as a pair |

`IdleRecorder` owns the Tensors outside all traces: of `functad.constant`, of operations on constants, and of tapes that do not
record.

Records are tuples of long-lived objects, integers and arrays. They hold no back references, so there are no cycles and little
work for the cycle collector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any, ClassVar

import numpy as np

from functad.errors import ConversionError, UnsupportedError
from functad.expressions.records import inputs_of, monitor_of, results_of
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, dtype_of, is_float_array, is_inexact, shape_of
from functad.places import here, user_place
from functad.primitives.entry import Plan, Primitive, UnknownRule
from functad.primitives.indexing.write import is_alone, put
from functad.tracing.foreign import computed
from functad.tracing.ownership import copy_if_shared, hold_params, hold_residuals
from functad.tracing.trace import GRAPH_HOOK, Recorded, Recorder, alike, bare, dispatch, record_in_graph, resolve
from functad.tracing.views import clone, make_stale, may_be_view, memory_of, note_if_view

_ndarray = np.ndarray


_FLOAT64 = np.dtype(np.float64)


class ConcreteRecorder(Recorder):
    """A trace on values: it computes an operation one level lower, and records it if a derivative flows through it."""

    starts_fast = True

    watched: Collection[int] = ()
    """The slots that a tape watches. `is_constant` treats them as inputs."""

    plan_of: ClassVar[Callable[..., Plan]]
    """Return the plan of a primitive for the differentiated positions; a forward trace without JVP plan takes the VJP plan."""

    fits_for: ClassVar[Callable[..., Any]]
    """Return the fits of a record, from the primitive, the values, the differentiated positions and the result."""

    def observe(self) -> None:
        """Notify the observers of a new trace, and set its monitor."""
        self.monitor = monitor_of(self)
        self.fast = self.monitor is None  # the fast paths do not call the monitor

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call one level lower, and record it."""
        if len(arrays) == 1 and self.fast and not primitive.multiple:
            plan = primitive.unary_plan  # of VJP rules; with `push` it serves forward traces too
            if plan is not None and (self.pulls or plan.push is not None):
                return self._process_one(plan, arrays[0], params)
        values, active, nested = self.lowered(primitive, arrays)
        if not nested:
            for value in values:
                if type(value) not in PLAIN:
                    out = computed(primitive, values, params)
                    break
            else:
                out = primitive.compute(*values, **params)
        else:  # a subclass of `Primitive` may override the call
            out = dispatch(primitive, tuple(values), params) if type(primitive) is Primitive else primitive(*values, **params)
        if not active or out is NotImplemented:
            return self.underived(primitive, arrays, params, out)
        made = self.record(primitive, arrays, values, active, params, out)
        if primitive.views:
            note_if_view(arrays[0], made, values[0], out, primitive, params)
        if self.monitor is not None:
            self.monitor.note(primitive, arrays, values, params, made)
        return made

    def _process_one(self, plan: Plan, x: Recorded, params: dict[str, Any]) -> Any:
        """Process a call of one array with one result, in 60 % of the time of the general code in `process`."""
        primitive, value = plan.primitive, x.below
        kind = type(value)
        if kind in PLAIN:
            out = primitive.compute(value, **params)
        else:
            out = dispatch(primitive, (value,), params) if issubclass(kind, Recorded) else computed(primitive, (value,), params)
        if out is NotImplemented:
            return out
        own = PYTHON_SCALARS[kind] if kind in PYTHON_SCALARS else value.dtype
        made = dtype_of(out) if type(out) in PYTHON_SCALARS else out.dtype
        if plan.params:
            params = hold_params(params, plan.params, self)
        residuals = plan.save((value,), out, params)
        fits = None if own is made else self.fits_for(primitive, (value,), (0,), out)
        tensor = self.append((plan, x.slot, residuals, fits), out, *user_place())
        if primitive.views:
            note_if_view(x, tensor, value, out, primitive, params)
        return tensor

    def lowered(self, primitive: Primitive, arrays: tuple[Any, ...]) -> tuple[Sequence[Any], tuple[int, ...], bool]:
        """Return the arguments one level lower, the differentiated positions, and `True` if an argument is still a Tensor."""
        values = []
        active = []
        nested = False
        for i, a in enumerate(arrays):
            if isinstance(a, Recorded):
                if a.recorder is self:
                    if primitive.joint or primitive.differentiable(i):
                        active.append(i)
                    a = a.below
                else:
                    a = clone(a)
                if isinstance(a, Recorded):
                    nested = True
            values.append(a)
        return values, tuple(active), nested

    def record(
        self,
        primitive: Primitive,
        arrays: tuple[Any, ...],
        values: Sequence[Any],
        active: tuple[int, ...],
        params: dict[str, Any],
        out: Any,
        /,
    ) -> Any:
        """Record a computed call, and return its Tensor or Tensors.

        Args:
            primitive: the primitive.
            arrays: the array arguments of the call.
            values: the arguments one level lower.
            active: the differentiated positions.
            params: the parameters of the call.
            out: the result, one level lower.
        """
        try:
            record = self._record_of(primitive, arrays, values, active, params, out)
        except ConversionError:  # the result holds Python objects; the inputs may be buffers without a written Tensor
            if any(not self.is_constant(arrays[i]) for i in active):
                raise
            return self.underived(primitive, arrays, params, out)
        except UnsupportedError:
            known = self._constants_without_rule(primitive, arrays, active)
            if not known:
                raise
            active = tuple([i for i in active if i not in known])
            if not active:
                return self.underived(primitive, arrays, params, out)
            arrays = tuple([values[i] if i in known else a for i, a in enumerate(arrays)])
            record = self._record_of(primitive, arrays, values, active, params, out)
        return (self.append_results if primitive.multiple else self.append)(record, out, *user_place())

    def _record_of(
        self,
        primitive: Primitive,
        arrays: tuple[Any, ...],
        values: Sequence[Any],
        active: tuple[int, ...],
        params: dict[str, Any],
        out: Any,
    ) -> tuple[Any, ...]:
        slots = arrays[active[0]].slot if len(active) == 1 else tuple([arrays[i].slot for i in active])
        plan = self.plan_of(primitive, active)
        values, params = hold_residuals(arrays, values, params, plan, self)
        fits = self.fits_for(primitive, values, active, out)
        return plan, slots, plan.save(values, out, params), fits

    def _constants_without_rule(self, primitive: Primitive, arrays: Sequence[Any], active: tuple[int, ...]) -> set[int]:
        """Return the active positions without a VJP rule whose Tensors are constants (buffers)."""
        unknown = [i for i in active if not primitive.joint and isinstance(primitive.vjps[i], UnknownRule)]
        return {i for i in unknown if self.is_constant(arrays[i])}

    def underived(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        """Return the result of a call without a derivative: the plain value."""
        return out

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write into a value, in place if it has no other reference, and record the write."""
        own = isinstance(v, Recorded) and v.recorder is self
        given = v.below if own else v
        make_stale(root)
        if self.monitor is not None:
            self.monitor.keep(root)
        out = _written(primitive, root, given, **params)
        made = self.record(primitive, (root, v), (out, given), (0, 1) if own else (0,), params, out)
        if self.monitor is not None:
            self.monitor.note(primitive, (root, v), (out, given), params, made)
        return made

    def buffer(self, value: Any) -> Any:
        """Return a constant as a Tensor of this trace, as a buffer for writes of Tensors."""
        return self.append(None, value)

    def is_constant(self, tensor: Recorded) -> bool:
        """Return `True` if a Tensor depends on no input and on no watched Tensor."""
        seen, waiting = set(), [tensor.slot]
        while waiting:
            slot = waiting.pop()
            if slot < self.inputs or slot in self.watched:
                return False
            last = slot
            while last < len(self.records) and self.records[last] is None:  # the last of several results holds the record
                last += 1
            if last == len(self.records) or last in seen or slot not in results_of(self.records[last], last):
                continue  # a buffer
            seen.add(last)
            waiting.extend(inputs_of(self.records[last]))
        return True


def forward_fits(primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the shape and dtype of the tangent of the result; `(None, fits)` for several results."""
    return (None, _fits_of_each(out)) if primitive.multiple else (shape_of(out), dtype_of(out))


def _fits_of_each(results: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([(shape_of(value), dtype_of(value)) for value in results])


def reverse_fits(primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the shape and dtype to which the cotangent of each active input must be brought, or `None`.

    `None` means no conversion. In a spec, the shape is `None` if broadcasting does not change the shape of the input. For
    several results, the specs of the results follow.
    """
    dtype = None if primitive.multiple else dtype_of(out)
    if dtype is not _FLOAT64 and dtype is not None and dtype.kind == "O":
        raise ConversionError(
            f"{primitive.name} of a Tensor and an array of Python objects, at {here()}, would give an array of objects. "
            f"Make the other array one of numbers: a.astype(float), or np.stack(list(a)) if there are Tensors in it; "
            f"products with a sparse matrix are A @ t and t @ A."
        )
    broadcasts = primitive.broadcasts and len(values) > 1
    whole = shape_of(out) if broadcasts and primitive.kind == "elementwise" else None
    fits = []
    for i in active:
        value = values[i]
        kind = type(value)
        shape, own = ((), PYTHON_SCALARS[kind]) if kind in PYTHON_SCALARS else (value.shape, value.dtype)
        if not broadcasts or shape == whole:
            shape = None
        fits.append(None if shape is None and own is dtype else (shape, own))
    found = None if not any(fits) else fits[0] if len(fits) == 1 else tuple(fits)
    return (found, _fits_of_each(out)) if primitive.multiple else found


class ReverseRecorder(ConcreteRecorder):
    """A trace for reverse mode: the backward pass pulls cotangents back through its records."""

    pulls = True
    plan_of = staticmethod(lambda primitive, active: primitive.reverse_plan(active))
    fits_for = staticmethod(reverse_fits)


class ForwardRecorder(ConcreteRecorder):
    """A trace for forward mode: the forward pass pushes tangents through its records."""

    pushes = True
    plan_of = staticmethod(lambda primitive, active: primitive.forward_plan(active) or primitive.reverse_plan(active))
    fits_for = staticmethod(forward_fits)


def _written(primitive: Primitive, root: Any, v: Any, path: Any, index: Any) -> Any:
    """Return the value of a root after a write, in place if the value has no other reference."""
    cell, root.below = [root.below], None
    alone = is_alone(cell, 0)
    value = root.below = cell[0]
    if alone and (not may_be_view(value) if isinstance(value, Recorded) else type(v) is not type(root) and value.base is None):
        put(value, path, index, v, adds=primitive.adds)
        return value
    memory_of(root).copies += 1
    return primitive(value, v, path=path, index=index)


class IdleRecorder(Recorder):
    """The recorder of Tensors outside all traces: they are constants to every trace."""

    inactive = True
    reassigns = True

    def __init__(self) -> None:
        super().__init__("no transform", None)
        self.rank = inf

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Process a call with constants, as `process_constants`."""
        return process_constants(primitive, arrays, params)

    def operate(self, primitive: Primitive, x: Recorded, other: Any = None, flipped: bool = False) -> Any:
        """Compute an operator of constants, unless a `graph` may record it."""
        value = x.below
        if isinstance(other, Recorded) and other.recorder is self:
            other = other.below
        if GRAPH_HOOK.get() is not None or type(value) not in PLAIN or not (other is None or type(other) in PLAIN):
            return None
        out = primitive.compute(*((value,) if other is None else (other, value) if flipped else (value, other)))
        return idle(type(x), out)

    def resolve(self, tensor: Recorded) -> Any:
        """Return the value of the Tensor."""
        return tensor.below

    def forbids_writes(self, tensor: Recorded) -> bool:
        """Return `True`: constants must not be written to."""
        return True


IDLE = IdleRecorder()
"""The recorder of all Tensors outside traces."""


def idle(cls: type[Recorded], value: Any) -> Any:
    """Return a plain value as a Tensor outside all traces; an array becomes read-only and must have no other writer."""
    if type(value) is np.ndarray:
        value.setflags(write=False)
    return bare(cls, IDLE, value, 0)


def process_constants(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Process a call with Tensors of inactive recorders as constants; the result is a Tensor too."""
    inactive = [a for a in arrays if isinstance(a, Recorded) and a.recorder.inactive]
    if record_in_graph(inactive):
        return dispatch(primitive, arrays, params)
    cls = type(inactive[0])
    values = tuple(map(resolve, arrays))
    out = primitive(*values, **params)
    if out is NotImplemented:
        return out
    followed = any(isinstance(value, Recorded) for value in values)
    if followed and not all(map(counts_as_plain, out if primitive.multiple else (out,))):
        return out
    if primitive.kind == "constant" and not (is_inexact(out) if isinstance(out, Recorded) else is_float_array(out)):
        return out  # masks, positions and counts are plain: they have no derivatives
    if not primitive.multiple:
        return idle(cls, out if followed else copy_if_shared(out, arrays))
    return alike(out, [idle(cls, value if followed else copy_if_shared(value, arrays)) for value in out])


def tensor_of(cls: type[Recorded], value: Any) -> Any:
    """Return a value that counts as plain as a Tensor outside all traces; other Tensors unchanged."""
    return idle(cls, value) if counts_as_plain(value) else value


def counts_as_plain(value: Any) -> bool:
    """Return `True` for a plain value, and for a Tensor of a trace with `Recorder.counts_as_plain`."""
    return not isinstance(value, Recorded) or value.recorder.counts_as_plain
