"""Calls that are recorded as one operation with rules of their own: what `custom_vjp`, `custom_gradient`, `primitive` and
`checkpoint` have in common.

A call is a primitive that is made for it alone. It computes once, when it is recorded, and keeps what its rule needs; where
traces are nested, the values that it computes with are Tensors of the traces below, so that what it does is recorded there.
In an abstract trace it is one equation, which is called anew each time that the list is evaluated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError, CustomRuleError, EscapedTensorError, UnsupportedError
from functad.expressions.expressions import Constant
from functad.expressions.ownership import root_of
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, is_inexact, shape_of, spec_of, stand_in
from functad.places import Named, here, name_of
from functad.primitives.batching import loop
from functad.primitives.entry import Primitive
from functad.primitives.operands import zeros_for
from functad.primitives.plan import Plan, Plans
from functad.rules.rules import Rules
from functad.tracing.constants import held
from functad.tracing.traces.abstract import AbstractRecorder
from functad.tracing.traces.base import Recorded, Recorder, escaped, making, making_plain, record, resolve
from functad.tracing.traces.idle import tensor_of
from functad.tracing.views import in_c_order
from functad.transforms.abstract import listed
from functad.transforms.calling.arguments import shown
from functad.transforms.calling.results import guarded, unaliased
from functad.transforms.leaves import pulled, replaced
from functad.trees.functions import tree_map
from functad.trees.structure import flatten

_ndarray = np.ndarray


class _Forgetful(Plans):
    """Plans of a primitive that is used once: one that was kept would refer back to it."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


_FORGETFUL = _Forgetful()


class OneCall(Primitive):
    """The primitive of one call. Nothing in it refers back to it, so what its rules hold dies with the record.

    Args:
        function: whose call it is.
        compute: `compute(*arrays)`, a tuple of results.
        pull: `pull(g, arrays)`, the cotangents of all arrays.
        batch: its batching rule.
    """

    rules: Rules | None = None
    __setattr__ = object.__setattr__  # type: ignore[assignment] # the entry of one call carries what is known of that call

    def __init__(
        self,
        function: Any,
        compute: Callable[..., tuple[Any, ...]],
        pull: Callable[..., Any],
        *,
        batch: Callable[..., Any] | None = None,
    ) -> None:
        # What all calls have in common stands in the class: Primitive would look at all its arguments again.
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.compute = compute
        # The names of their arguments say what is kept; those of methods begin with another.
        self.vjps = (lambda g, arrays: pull(g, arrays),)
        self.jvps = None
        if batch is not None:
            self.batch = batch

    def spec(self, *specs: Any, **params: Any) -> Any:
        """Find the specs of the results by computing on arrays that take no memory."""
        return self.spec_by_stand_in(*specs, **params)

    def reverse_plan(self, active: tuple[int, ...]) -> Plan:
        """Make the plan for the inputs at `active`, which is kept by the record alone."""
        plan: Plan = object.__new__(_OnePlan)
        plan.primitive, plan.active, plan.rules = self, active, self.vjps  # type: ignore[assignment]
        return plan


class _OnePlan(Plan):
    """The plan of one call; to make it from its rules would take 60 us. What all have in common stands in this class."""

    __slots__ = ()


def _share_what_is_common() -> None:
    options: dict[str, Any] = {"kind": "general", "names": (), "doc": "", "samples": None, "joint": True, "multiple": True}
    common = Primitive(len, compute=len, vjps=(len,), registered=False, **options)
    for name, value in vars(common).items():
        if name not in ("front", "spec", "function", "name", "compute", "vjps", "jvps"):
            setattr(OneCall, name, value)
    OneCall.reverse_plans = OneCall.forward_plans = _FORGETFUL
    plan = Plan(common, (), (), [["arrays"]], True)
    for name in Plan.__slots__:
        if name not in ("primitive", "active", "rules"):
            value = getattr(plan, name)
            setattr(_OnePlan, name, staticmethod(value) if callable(value) else value)


_share_what_is_common()


def apply(rules: Rules, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a call, recorded if a Tensor that is followed is among the arrays."""
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
    primitive = CallWithRules(rules, given, recorder if recorder.has_values else None, recorder.serial)
    outs: tuple[Any, ...] = record(primitive, given, {})
    if not recorder.has_values:
        constants = [a for a in arrays if isinstance(a, Recorded) and a.recorder.inactive]
        return tuple([tensor_of(type(constants[0]), out) if is_inexact(out) else out for out in outs]) if constants else outs
    # Indices, counts and masks are plain in a concrete trace.
    return tuple([out if dtype_of(out).kind in "fc" else out.below if isinstance(out, Recorded) else out for out in outs])


class CallWithRules(OneCall):
    """The primitive of one call of a function with rules: what is recorded, and the rules that the record will run.

    Attributes:
        inner: the list of what it computes, with an input for each array; `None` if it is not known, as in a concrete trace.
        recorder: the concrete trace that records it; `None` if each computation is a call of its own.
        serial: of the trace, abstract or concrete.
        held: which arrays are the user's.
        positions: of the arrays that are Tensors of that trace.
        active: those of them that a derivative can flow to.
        in_order: all arrays are known to lie in C order, where their values are not known.
        given: the arrays that were computed with, one level below the trace.
        kept: what the rule needs of them.
        inputs, outputs: shape and dtype of each array and of each result.
    """

    rules: Rules

    def __init__(self, rules: Rules, arrays: Sequence[Any], recorder: Recorder | None, serial: int) -> None:
        self.function, self.name, self.rules, self.inner = rules.function, rules.name, rules, rules.inner
        self.recorder = recorder
        self.serial = serial
        self.held = [type(a) is _ndarray for a in arrays]
        self.positions = [i for i, a in enumerate(arrays) if isinstance(a, Recorded) and a.recorder is recorder]
        self.active = [i for i in self.positions if dtype_of(arrays[i]).kind in "fc"]
        self.in_order = recorder is not None or all(map(in_c_order, arrays))
        self.kept: Any = None
        self.given: Sequence[Any] = ()
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        if recorder is not None:
            # Tapes drop nothing on the way then: a rule may raise, and the gradient be asked for again.
            recorder.fallible = True  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        if self.recorder is not None:
            return super().__reduce__()
        return called_anew, (self.rules._replace(function=Named(name_of(self.function))),)  # messages need no more

    # Properties, so that the rules, which refer to the call, are not kept by it: a cycle would outlive the record.
    @property
    def vjps(self) -> Any:  # type: ignore[override]
        """The VJP rule; the names of its arguments say what is kept."""
        return (lambda g, arrays: self.pull(g, arrays),)

    @property
    def jvps(self) -> Any:  # type: ignore[override]
        """The JVP rule."""
        return None if self.rules.push is None else (lambda ts, arrays: self.push(ts, arrays),)

    @property
    def batch(self) -> Any:  # type: ignore[override]
        """The batching rule."""
        return loop if self.rules.loops and self.rules.batch is None else self._batch

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Compute on arrays; on Tensors that is a call of its own."""
        return self.compute(*arrays)

    def compute(self, *values: Any) -> tuple[Any, ...]:
        """Return the results, and keep what the rule needs."""
        recorder, rules = self.recorder, self.rules
        if recorder is None:
            return apply(rules, [shown(value) for value in values])  # a `graph` follows lists that are evaluated in it
        self.recorder = None  # a list that is evaluated later calls anew
        own = [held(v, recorder) if of_user else v for v, of_user in zip(values, self.held, strict=True)]
        self.inputs = [(shape_of(v), dtype_of(v), v if type(v) not in PLAIN else None) for v in own]
        self.given = own
        self.by_push = rules.push is not None and (recorder.pushes or rules.backward is None)
        with running_below(own):
            outs, kept = self._run(own)
        self.kept = self._held(kept, own, recorder) if rules.by_user else kept
        refuse_followed((*outs, *flatten(self.kept)[0]), self.serial, rules.function)
        self.outputs = [(shape_of(out), dtype_of(out)) for out in outs]
        return outs

    def _held(self, kept: Any, own: Sequence[Any], recorder: Recorder) -> Any:
        """Hold the arrays of the user among what the rule needs, except those that were given to the rule."""
        known = set(map(id, own))
        return tree_map(lambda a: held(a, recorder) if type(a) is _ndarray and id(a) not in known else a, kept)

    def _run(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the results, and what the rule needs."""
        rules = self.rules
        if self.by_push or rules.forward is None:
            traced_below = any(isinstance(a, Recorded) for a in arrays)
            return (apply(rules, arrays) if traced_below else rules.value(*arrays)), arrays
        return rules.forward(*arrays)

    def _kept(self, arrays: Sequence[Any]) -> Any:
        """Look up what the rule needs; a tape that is differentiated in turn hands in Tensors, by which it is found anew."""
        if all(arrays[i] is self.given[i] for i in self.positions):
            return self.kept
        return arrays if self.by_push else self._run(arrays)[1]

    def pull(self, g: tuple[Any, ...], arrays: Sequence[Any]) -> list[Any]:
        """Return the cotangents of all arrays."""
        gs = [guarded(part) for part in g]
        with_rule = self.rules.backward
        try:
            kept = self._kept(arrays)
            found = list(self._transposed(kept, gs) if with_rule is None else with_rule(kept, gs))
        except EscapedTensorError as error:
            raise closed_over(self.rules.function) from error
        if self.rules.by_user:
            found = unaliased(found)
        arrays_there = any(type(ct) is _ndarray for ct in found)
        owned = {id(root_of(leaf)) for leaf in flatten((kept, gs))[0] if type(leaf) is _ndarray} if arrays_there else set()
        return [self._full(ct, i, owned) for i, ct in enumerate(found)]

    def _full(self, ct: Any, position: int, owned: set[int]) -> Any:
        """Return a cotangent as an array that nobody else holds."""
        shape, dtype, like = self.inputs[position]
        if ct is None:
            dtype = dtype if dtype.kind in "fc" else np.dtype(float)
            return np.zeros(shape, dtype)[()] if like is None else zeros_for(shape, dtype, like)
        return ct.copy() if type(ct) is _ndarray and id(root_of(ct)) in owned else ct

    def _transposed(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents as the transpose of the JVP: `g J = (t -> J t)^T g`."""
        push = self.rules.push
        if push is None:
            raise CustomRuleError(f"{self.rules.name} has no derivative rule, at {here()}.")
        inputs = [self.inputs[i] for i in self.active]
        zeros = [zeros_for(shape, dtype, 0.0 if like is None else like) for shape, dtype, like in inputs]
        none: list[Any] = [None] * len(self.inputs)
        transform, f = "the transpose of the JVP rule", self.rules.function
        tangents = replaced(none, self.active, zeros)
        found = pulled(lambda *ts: list(push(kept, ts)), tangents, gs, self.active, transform=transform, function=f)
        return replaced(none, self.active, found)

    def push(self, ts: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the tangents of the results."""
        given = replaced([None] * len(self.inputs), self.positions, ts)
        push = self.rules.push
        assert push is not None
        try:
            found = list(push(self._kept(arrays), [guarded(t) for t in given]))
        except EscapedTensorError as error:
            raise closed_over(self.rules.function) from error
        if self.rules.by_user:
            found = unaliased(found)
        return tuple(
            [
                np.zeros(shape, dtype if dtype.kind in "fc" else float)[()] if t is None else t
                for t, (shape, dtype) in zip(found, self.outputs, strict=True)
            ]
        )

    def spec(self, *specs: Any, **params: Any) -> tuple[ArraySpec, ...]:
        """Find the specs of the results: by the rule given, by an abstract trace, or by computing on ones.

        Raises:
            CustomRuleError: the function closes over a Tensor of the trace.
        """
        rules, fixed = self.rules, [i for i, s in enumerate(specs) if not isinstance(s, ArraySpec)]
        if rules.spec is not None:
            return rules.spec(*map(spec_of, specs))
        values = [specs[i] for i in fixed]
        recorder = AbstractRecorder("the shapes", rules.function)
        try:
            of_specs = lambda *own: rules.value(*replaced(own, fixed, values))  # noqa: E731
            found, outs = listed(recorder, of_specs, specs, {}, ordered=self.in_order)
            self.inner = self.inner or found
        except (AbstractValueError, ConversionError, UnsupportedError):
            with np.errstate(all="ignore"):
                outs = list(rules.value(*map(stand_in, specs)))
        sources = [source for equation in recorder.equations if equation is not None for source in equation.inputs]
        constants = [source.value for source in sources if isinstance(source, Constant)]
        others = [out for out in outs if not (isinstance(out, Recorded) and out.recorder is recorder)]
        refuse_followed((*constants, *others), self.serial, rules.function)
        return tuple(map(spec_of, outs))

    def _batch(self, primitive: Any, size: int, values: Sequence[Any], batched: Sequence[bool], params: Any) -> Any:
        """Compute the results with the batch axis in front, by a call whose rules are those of all examples."""
        rules = self.rules
        if rules.batch is not None and rules.backward is rules.push is None:  # its derivatives are those of what the rule does
            outs = tuple(rules.batch(size, values, batched))
        else:
            outs = apply(rules.of_batch(size, tuple(batched)), values)
        refuse_followed(outs, self.serial, self.function)
        return outs


@contextmanager
def running_below(values: Sequence[Any]) -> Iterator[None]:
    """Let arrays that adopted code makes belong to the newest trace of some values: those that a rule is called with.

    In the trace that records the call they would be Tensors that are followed and no argument.
    """
    if making() is None:
        yield
        return
    recorders = [a.recorder for a in values if isinstance(a, Recorded) and not (a.recorder.reassigns or a.recorder.closed)]
    with making_plain(max(recorders, key=lambda recorder: recorder.serial, default=None)):
        yield


def called_anew(rules: Rules) -> CallWithRules:
    """Make the primitive of an equation in an expression list that was pickled; each evaluation calls anew."""
    return CallWithRules(rules, (), None, sys.maxsize)


def refuse_followed(values: Sequence[Any], serial: int, function: object) -> None:
    """Refuse Tensors of the trace that records a call: no argument stands for them, so its rule has no derivative by them.

    Tensors of the traces around it are welcome: these follow what is computed with them.

    Raises:
        CustomRuleError: there is one.
    """
    for value in values:
        value = resolve(value) if isinstance(value, Recorded) else value
        if isinstance(value, Recorded) and value.recorder.serial >= serial:
            raise closed_over(function)


def closed_over(function: object) -> CustomRuleError:
    """Return the error for a rule that closes over a Tensor."""
    return CustomRuleError(
        f"{name_of(function)}, called at {here()}, or its rule, uses a Tensor that is followed and is no argument: the "
        f"derivative by it would be lost. Make it an argument, which its rule gives a derivative for, or a constant by "
        f"functad.stop_gradient."
    )
