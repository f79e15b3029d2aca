"""Calls with derivative rules, each recorded as one operation.

`custom_vjp`, `custom_jvp`, `numerical_primitive`, `checkpoint`, compiled functions and functions of other libraries all create
`Rules` and call `apply`. It records a primitive that is created for this call:

- A concrete trace computes the call once and keeps the residuals of the rule. In nested traces, the operands are Tensors of the
  outer traces, which record the operations of the rule.
- An abstract trace records one equation, or the equations of the function if `Rules.inlines` is set. Each evaluation of the
  list calls `apply` again.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from functad.errors import AbstractValueError, ConversionError, CustomRuleError, EscapedTensorError, UnsupportedError
from functad.expressions.expressions import Constant, Expressions, root_of, roots_of
from functad.expressions.spec import (
    PYTHON_SCALARS,
    ArraySpec,
    dtype_of,
    inexact,
    is_array,
    is_inexact,
    shape_of,
    spec_of,
    stand_in,
)
from functad.places import Named, here, name_of
from functad.primitives.batching import loop
from functad.primitives.entry import Plan, Primitive
from functad.primitives.operands import zeros_for
from functad.tracing.concrete import tensor_of
from functad.tracing.equations import AbstractRecorder
from functad.tracing.ownership import hold, lend_read_only, own_state
from functad.tracing.trace import (
    Recorded,
    Recorder,
    dispatch,
    escaped,
    new_arrays_recorded_by,
    noted_by_graph,
    recorder_of_new_arrays,
    resolve,
)
from functad.tracing.views import in_c_order
from functad.transforms.leaves import pulled, replaced
from functad.transforms.lists import trace
from functad.transforms.reverse import zero_tangent
from functad.trees import Structure, flatten, tree_map

_ndarray = np.ndarray


class Rules(NamedTuple):
    """The functions that compute and differentiate a function of arrays.

    Attributes:
        function: the function, for messages.
        value: `value(*arrays)` returns a tuple of results.
        forward: `forward(*arrays)` returns the results and the residuals of `backward`. Set both or neither.
        backward: `backward(kept, gs)` returns a cotangent or `None` for each array. `None`: reverse mode transposes `push`.
        push: `push(primals, tangents)` returns the tangents of the results. `None`: forward mode transposes `backward`.
        batch: `batch(size, values, batched)` returns the results with the batch axis in front. `None`: apply `vmap`.
        spec: `spec(*specs)` returns the specs of the results. `None`: use an abstract trace.
        name: the name in printed lists.
        loops: `True` if the function accepts no Tensors. Without a batch rule, a batch is a loop.
        by_user: `True` if the rules are user functions, which may modify residuals and results.
        inner: the expression list that `value` evaluates, if its derivatives are the derivatives of the list.
        of_jax: `value` as a function that JAX can trace, or `None`.
        inlines: `True` if `value` accepts Tensors, and records its operations in a trace without values.
    """

    function: Any
    value: Callable[..., tuple[Any, ...]]
    forward: Callable[..., tuple[tuple[Any, ...], Any]] | None = None
    backward: Callable[..., Sequence[Any]] | None = None
    push: Callable[..., Sequence[Any]] | None = None
    batch: Callable[..., Any] | None = None
    spec: Callable[..., tuple[ArraySpec, ...]] | None = None
    name: str = "call"
    loops: bool = False
    by_user: bool = False
    inner: Expressions | None = None
    of_jax: Callable[..., Sequence[Any]] | None = None
    inlines: bool = False

    def of_batch(self, size: int, batched: tuple[bool, ...]) -> Rules:
        """Return the rules of the function for `size` examples. Arrays with `True` in `batched` have this axis in front."""
        every = _Every(self, size, batched)
        return self._replace(
            value=every.value,
            forward=None if self.forward is None else every.forward,
            backward=None if self.backward is None else every.backward,
            push=None if self.push is None else every.push,
            batch=None,
            spec=None,
            inner=None,
            of_jax=None,
        )


def apply(rules: Rules, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a call. The newest trace among the arrays records it."""
    given = tuple([resolve(a) if isinstance(a, Recorded) else a for a in arrays])
    newest: Recorded | None = None
    for a in given:
        if isinstance(a, Recorded) and (newest is None or a.recorder.serial > newest.recorder.serial):
            newest = a
    if newest is None:
        return rules.value(*given)
    recorder = newest.recorder
    if recorder.closed:
        raise escaped(newest, rules.name)
    outs: tuple[Any, ...]
    if rules.inlines and isinstance(recorder, AbstractRecorder):
        outs = rules.value(*given)
    else:
        outs = dispatch(CallWithRules(rules, given, recorder if recorder.has_values else None, recorder.serial), given, {})
    if not recorder.has_values:
        constants = [a for a in arrays if isinstance(a, Recorded) and a.recorder.inactive]
        return tuple([tensor_of(type(constants[0]), out) if is_inexact(out) else out for out in outs]) if constants else outs
    # Indices, counts and masks are plain in a concrete trace.
    return tuple([out if dtype_of(out).kind in "fc" else out.below if isinstance(out, Recorded) else out for out in outs])


class OneCall(Primitive):
    """A primitive of any number of arrays that is created for one call. Without references to itself, it lives with its record.

    A subclass sets `function`, `name`, `compute` and `vjps`, which is one joint rule that reads `arrays`. Other traits are
    attributes of the class, because `Primitive` would check them in each call.
    """

    kind, names, doc, samples = "general", (), "", None
    joint = multiple = True
    reverse_plans: dict[tuple[int, ...], Plan] = {}  # noqa: RUF012 - always empty: a plan would keep its primitive alive
    rules: Rules | None = None
    __setattr__ = object.__setattr__  # type: ignore[assignment] # a call sets its residuals

    def reverse_plan(self, active: tuple[int, ...]) -> Plan:
        """Return the plan for the inputs at `active`. Only the record holds a reference to it."""
        return Plan(self, active, self.vjps, [["arrays"]], joint=True)  # type: ignore[arg-type] # there is a rule

    def forward_plan(self, active: tuple[int, ...]) -> Plan | None:
        """Return a new plan of the JVP rule; `None` if there is none."""
        return self.new_forward_plan(active)


class CallWithRules(OneCall):
    """The primitive of one call of a function with rules.

    Attributes:
        inner: the expression list of the function, with one input for each array; `None` if unknown, as in a concrete trace.
        recorder: the concrete trace that records the call; `None` if each evaluation is a new call.
        serial: the serial number of the trace, abstract or concrete.
        positions: positions of the arrays that are Tensors of the concrete trace.
        in_order: `True` if all arrays are known to have C order.
        given: the operands, one level below the trace.
        kept: the residuals of the rule.
        by_push: `True` if the rule is `rules.push`; its residuals are the operands.
        outputs: shape and dtype of each result.
    """

    rules: Rules

    def __init__(
        self, rules: Rules, arrays: Sequence[Any] = (), recorder: Recorder | None = None, serial: int = sys.maxsize
    ) -> None:
        self.function, self.name, self.rules, self.inner = rules.function, rules.name, rules, rules.inner
        self.recorder = recorder
        self.serial = serial
        self.positions = [i for i, a in enumerate(arrays) if isinstance(a, Recorded) and a.recorder is recorder]
        self.in_order = recorder is not None or all(map(in_c_order, arrays))
        self.kept: Any = None
        self.given: Sequence[Any] = ()
        self.outputs: list[Any] = []
        if recorder is not None:
            # The backward pass of a tape then keeps its records: after an error in a rule, the gradient may be computed again.
            recorder.fallible = True  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        if self.recorder is not None:
            return super().__reduce__()
        return CallWithRules, (self.rules._replace(function=Named(name_of(self.function))),)  # messages need only the name

    # Properties, because the rules refer to the call: as attributes they would form a cycle that outlives the record.
    @property
    def vjps(self) -> Any:  # type: ignore[override]
        """The VJP rule, which reads `arrays`."""
        return (lambda g, arrays: self.pull(g, arrays),)

    @property
    def jvps(self) -> Any:  # type: ignore[override]
        """The JVP rule, or `None`."""
        return None if self.rules.push is None else (lambda ts, arrays: self.push(ts, arrays),)

    @property
    def batch(self) -> Any:  # type: ignore[override]
        """The batching rule."""
        return loop if self.rules.loops and self.rules.batch is None else self._batch

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Compute on arrays; a call with Tensors is a new call."""
        return self.compute(*arrays, **params)

    def compute(self, *values: Any) -> tuple[Any, ...]:
        """Return the results, and store the residuals of the rule."""
        recorder, rules = self.recorder, self.rules
        if recorder is None:
            return apply(rules, [noted_by_graph(value) for value in values])  # a `graph` follows lists that are evaluated in it
        self.recorder = None  # a list that is evaluated later makes a new call
        self.given = own = list(values)
        for i, v in enumerate(own):
            if type(v) is _ndarray and i not in self.positions:  # an array that the user may modify
                own[i] = hold(v, recorder)
        self.by_push = rules.push is not None and (recorder.pushes or rules.backward is None)
        with running_below(own):
            outs, kept = self._run(own)
        if rules.by_user:
            known = set(map(id, own))  # operands are held already
            kept = tree_map(lambda a: hold(a, recorder) if type(a) is _ndarray and id(a) not in known else a, kept)
        self.kept = kept
        refuse_followed((*outs, *flatten(self.kept)[0]), self.serial, rules.function)
        self.outputs = [(shape_of(out), dtype_of(out)) for out in outs]
        return outs

    def _run(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the results and the residuals."""
        rules = self.rules
        if self.by_push or rules.forward is None:
            traced_below = any(isinstance(a, Recorded) for a in arrays)
            return (apply(rules, arrays) if traced_below else rules.value(*arrays)), arrays
        return rules.forward(*arrays)

    def _kept(self, arrays: Sequence[Any]) -> Any:
        """Return the residuals for given operands. They are recomputed if a second derivative passes Tensors."""
        if all(arrays[i] is self.given[i] for i in self.positions):
            return self.kept
        return arrays if self.by_push else self._run(arrays)[1]

    def pull(self, g: tuple[Any, ...], arrays: Sequence[Any]) -> list[Any]:
        """Return the cotangents of all arrays."""
        gs = [lend_read_only(part) for part in g]
        backward = self.rules.backward
        try:
            kept = self._kept(arrays)
            found = list(self._transposed(kept, gs) if backward is None else backward(kept, gs))
        except EscapedTensorError as error:
            raise closed_over(self.rules.function) from error
        if self.rules.by_user:
            found = own_state(found)
        arrays_there = any(type(ct) is _ndarray for ct in found)
        owned = roots_of(flatten((kept, gs))[0]) if arrays_there else set()
        return [
            zero_tangent(a) if ct is None else ct.copy() if type(ct) is _ndarray and id(root_of(ct)) in owned else ct
            for ct, a in zip(found, self.given, strict=True)
        ]

    def _transposed(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents by transposing the JVP rule: `g J = (t -> J t)^T g`."""
        if self.rules.push is None:
            raise CustomRuleError(f"{self.rules.name} has no derivative rule, at {here()}.")
        active = [i for i in self.positions if is_inexact(self.given[i])]
        none: list[Any] = [None] * len(self.given)
        transform, f = "the transpose of the JVP rule", self.rules.function
        tangents = replaced(none, active, [zero_tangent(self.given[i]) for i in active])
        found = pulled(lambda *ts: self._tangents(kept, ts), tangents, gs, active, transform=transform, function=f)
        return replaced(none, active, found)

    def _tangents(self, kept: Any, ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results by the JVP rule, `None` for zero.

        Raises:
            CustomRuleError: a tangent has another shape than its result.
        """
        assert self.rules.push is not None
        found = list(self.rules.push(kept, ts))
        for t, (shape, dtype) in zip(found, self.outputs, strict=True):
            if t is not None and shape_of(t) != shape:
                raise CustomRuleError(
                    f"the JVP rule of {name_of(self.rules.function)} returned a tangent {spec_of(t)} for a result "
                    f"{ArraySpec(shape, dtype)}, at {here()}: the value and the tangent must have the shape of the result."
                )
        return found

    def push(self, ts: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the tangents of the results, for tangents of all arrays."""
        try:
            found = self._tangents(self._kept(arrays), [lend_read_only(t) for t in ts])
        except EscapedTensorError as error:
            raise closed_over(self.rules.function) from error
        if self.rules.by_user:
            found = own_state(found)
        return tuple(
            [
                np.zeros(shape, dtype if dtype.kind in "fc" else float)[()] if t is None else t
                for t, (shape, dtype) in zip(found, self.outputs, strict=True)
            ]
        )

    def spec(self, *specs: Any, **params: Any) -> tuple[ArraySpec, ...]:
        """Return the specs of the results: by the shape rule, by an abstract trace, or by computing with ones.

        Raises:
            CustomRuleError: the function closes over a Tensor of the trace.
        """
        rules, fixed = self.rules, [i for i, s in enumerate(specs) if not isinstance(s, ArraySpec)]
        if rules.spec is not None:
            return rules.spec(*map(spec_of, specs))
        values = [specs[i] for i in fixed]
        try:
            of_specs = lambda *own: rules.value(*replaced(own, fixed, values))  # noqa: E731
            found = trace("the shapes", of_specs, specs, function=rules.function, ordered=self.in_order)
        except (AbstractValueError, ConversionError, UnsupportedError):
            with np.errstate(all="ignore"):
                outs = rules.value(*map(stand_in, specs))
            refuse_followed(outs, self.serial, rules.function)
            return tuple(map(spec_of, outs))
        self.inner = self.inner or found
        sources = [*found.outputs, *[source for equation in found.equations for source in equation.inputs]]
        refuse_followed([s.value for s in sources if isinstance(s, Constant)], self.serial, rules.function)
        return tuple(found.results)

    def _batch(self, primitive: Any, size: int, values: Sequence[Any], batched: Sequence[bool], params: Any) -> Any:
        """Return the results with the batch axis in front, by a call of the batched function."""
        rules = self.rules
        if rules.batch is not None and rules.backward is rules.push is None:  # the operations of the rule have derivatives
            outs = tuple(rules.batch(size, values, batched))
        else:
            outs = apply(rules.of_batch(size, tuple(batched)), values)
        refuse_followed(outs, self.serial, self.function)
        return outs


@contextmanager
def running_below(values: Sequence[Any]) -> Iterator[None]:
    """Let the innermost trace among the operands of a rule record the arrays that adopted code creates.

    As Tensors of the trace that records the call they would be refused, because they are not arguments of it.
    """
    if recorder_of_new_arrays() is None:
        yield
        return
    recorders = [a.recorder for a in values if isinstance(a, Recorded) and not (a.recorder.reassigns or a.recorder.closed)]
    with new_arrays_recorded_by(max(recorders, key=lambda recorder: recorder.serial, default=None)):
        yield


def refuse_followed(values: Sequence[Any], serial: int, function: object) -> None:
    """Refuse Tensors of the trace that records a call: they are not arguments, so the rule returns no derivative for them.

    Tensors of outer traces are allowed, because these traces record the operations of the rule.

    Raises:
        CustomRuleError: a value is such a Tensor.
    """
    for value in values:
        value = resolve(value) if isinstance(value, Recorded) else value
        if isinstance(value, Recorded) and value.recorder.serial >= serial:
            raise closed_over(function)


def closed_over(function: object) -> CustomRuleError:
    """Return the error for a function or a rule that closes over a Tensor."""
    return CustomRuleError(
        f"{name_of(function)}, called at {here()}, or its rule, uses a Tensor that is followed and is no argument: the "
        f"derivative by it would be lost. Make it an argument, which its rule gives a derivative for, or a constant by "
        f"functad.stop_gradient."
    )


# Batches

_FIXED = (*PYTHON_SCALARS, str, bytes, type, np.dtype)
"""Types of residuals, besides arrays, that are equal for all examples."""

_PART = object()
"""The mark of a residual that is an array of one example."""


class _Every:
    """The rules of one example, mapped over a batch."""

    def __init__(self, rules: Rules, size: int, batched: tuple[bool, ...]) -> None:
        self.rules = rules
        self.size = size
        self.batched = batched
        self.axes = [0 if flag else None for flag in batched]

    def _map(self, one: Callable[..., Any], axes: Sequence[Any], *lists: Sequence[Any]) -> list[Any]:
        """Map `one(*lists)` over the axes of the arrays in the lists; the batch axis of results is in front."""
        from functad.transforms.vmap import vmap  # noqa: PLC0415 - circular import; vmap is loaded when this runs

        flat = [a for part in lists for a in part]
        lengths = [len(part) for part in lists]

        def of_all(*given: Any) -> list[Any]:
            remaining = iter(given)
            return list(one(*[[next(remaining) for _ in range(length)] for length in lengths]))

        of_all.__qualname__ = name_of(self.rules.function)  # messages show the name of the user function
        return list(vmap(of_all, in_axes=tuple(axes), axis_size=self.size)(*flat)) if flat else list(of_all())

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results of all examples."""
        rules = self.rules
        if rules.batch is not None:
            return tuple(rules.batch(self.size, arrays, self.batched))
        return tuple(self._map(lambda own: rules.value(*own), self.axes, arrays))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results and the residuals of all examples.

        The residuals are the arguments, the residuals of one example that are arrays, with the batch axis in front, and a
        function that returns the residuals of one example. Arguments among the residuals are not repeated for each example. If
        a residual of another type may differ between examples, this function runs the forward rule again.
        """
        forward: Any = self.rules.forward
        found: list[Any] = []

        def one(own: Sequence[Any]) -> list[Any]:
            outs, kept = forward(*own)
            leaves, structure = flatten(kept)
            places = {id(a): i for i, a in enumerate(own)}
            marks = [places.get(id(leaf), _PART if is_array(leaf) else Constant(leaf)) for leaf in leaves]
            if all(type(mark) is not Constant or isinstance(mark.value, _FIXED) for mark in marks):
                parts = [leaf for leaf, mark in zip(leaves, marks, strict=True) if mark is _PART]
                found[:] = len(outs), functools.partial(_of_one, marks, structure)
                return [*outs, *parts]
            found[:] = len(outs), lambda own, parts: forward(*own)[1]
            return list(outs)

        results = self._map(one, self.axes, arrays)
        count, of_one = found
        return tuple(results[:count]), (arrays, results[count:], of_one)

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments. Cotangents without a batch axis are summed over the examples."""
        arrays, parts, of_one = kept
        shapes = [shape_of(a)[1:] if flag else shape_of(a) for a, flag in zip(arrays, self.batched, strict=True)]
        dtypes = list(map(inexact, arrays))

        def one(given: Sequence[Any], parts: Sequence[Any], own: Sequence[Any]) -> list[Any]:
            assert self.rules.backward is not None
            cts = self.rules.backward(of_one(given, parts), own)
            like = next((ct for ct in cts if ct is not None), 0.0)
            rows = zip(cts, shapes, dtypes, strict=True)
            return [zeros_for(shape, dtype, like) if ct is None else ct for ct, shape, dtype in rows]

        found = self._map(one, [*self.axes, *[0] * (len(parts) + len(gs))], arrays, parts, gs)
        return [ct if flag else ct.sum(0) for ct, flag in zip(found, self.batched, strict=True)]

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        rules = self.rules
        places = [i for i, t in enumerate(ts) if t is not None]
        axes = [*self.axes, *[self.axes[i] for i in places]]

        def one(own: Sequence[Any], parts: Sequence[Any]) -> list[Any]:
            assert rules.push is not None
            return list(rules.push(own, replaced([None] * len(own), places, parts)))

        return self._map(one, axes, arrays, [ts[i] for i in places])


def _of_one(marks: Sequence[Any], structure: Structure, own: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Return the residuals of one example, from its arguments and its residuals that are arrays."""
    rest = iter(parts)
    return structure.unflatten(
        [next(rest) if mark is _PART else mark.value if type(mark) is Constant else own[mark] for mark in marks]
    )


def of_all_examples(outs: Sequence[Any], flags: Sequence[bool], size: int, gave: Sequence[str]) -> tuple[Any, ...]:
    """Return the results of a batch rule, all with the batch axis in front.

    Args:
        outs: the results.
        flags: for each result, `True` if it has the axis.
        size: the length of the axis.
        gave: for messages, the rule and the result, such as `the batch rule of f: value has`.

    Raises:
        CustomRuleError: the axis of a result is missing or has another length.
    """
    for out, flag, what in zip(outs, flags, gave, strict=True):
        if flag and (not shape_of(out) or shape_of(out)[0] != size):
            raise CustomRuleError(
                f"{what} shape {shape_of(out)}, but its first axis should be the batch of {size}, at {here()}."
            )
    return tuple([a if flag else np.broadcast_to(a, (size, *shape_of(a))) for a, flag in zip(outs, flags, strict=True)])
