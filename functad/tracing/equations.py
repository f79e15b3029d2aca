"""Traces whose records are complete equations, for expression lists.

`AbstractRecorder` has no values: a Tensor has a shape and a dtype only, so the list is valid for all values. `PointRecorder`
computes the values at one point. Functions may branch on them, so the list holds the taken branch only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from math import isfinite
from types import CodeType
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, UnsupportedError
from functad.expressions.expressions import Constant, Equation, inner_lists
from functad.expressions.records import OBSERVERS, place_now
from functad.expressions.spec import ArraySpec, dtype_of, in_native_order, is_inexact, spec_of
from functad.immutable import exact_key
from functad.places import here, name_of, user_place
from functad.primitives.batching import with_forms
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.elementwise.elementary import ADD
from functad.primitives.entry import Primitive
from functad.primitives.operands import innermost
from functad.primitives.safe import SINGULAR, current_pass
from functad.process import context_variable
from functad.tracing.conversions import abstract_cure, asked, snippet_shown
from functad.tracing.ownership import map_arrays
from functad.tracing.trace import OPEN, Recorded, Recorder, resolve
from functad.tracing.views import clone, note_if_view, note_result

_ndarray = np.ndarray

_COUNTING = frozenset({np.add, np.subtract, np.multiply, np.negative, np.positive, np.absolute, np.invert})
"""Operations that treat Python's truth values as integers, `True + True == 2`, but not NumPy's."""


def _is_pythons(value: Any) -> bool:
    """Return `True` if a value is a Python `bool` or a Tensor of one."""
    spec = spec_of(value)
    return spec.weak and spec.dtype == np.bool_


LISTING: ContextVar[AbstractRecorder | None] = context_variable("listing", default=None)
"""The innermost trace without values that runs now, or `None`."""

ASKED_AT: ContextVar[tuple[CodeType | None, int] | None] = context_variable("asked_at", default=None)
"""The user's line that asks for a value, if an earlier line than the running one does; otherwise `None`."""

_NO_PARAMS: dict[str, Any] = {}

_FEW = 8
"""Calls of more operands are not compared with earlier ones."""


def _is_ordered_owner(tensor: Recorded) -> bool:
    """Return `True` if a Tensor is no view, and known to be in C order."""
    memory = getattr(tensor, "memory", None)
    return getattr(tensor, "origin", None) is None and (memory is None or memory.ordered)


DERIVATIVES: ContextVar[list[tuple[Any, list[int]]] | None] = context_variable("derivatives", default=None)
"""Collects each traced list with the slots of its derivatives; `None` if they are not needed."""


def may_be_infinite(value: Any) -> bool:
    """Return `True` if a value may be infinite or NaN although all inputs of its list are finite."""
    while isinstance(value, Recorded):
        singular, slot = getattr(value.recorder, "singular", None), value.slot
        if singular is not None:
            return bool(singular[slot])
        value = getattr(value.below, "array", value.below)
    if type(value) is float:
        return not isfinite(value)
    if value is None or type(value) is ArraySpec:
        return False
    return is_inexact(value) and not bool(np.all(np.isfinite(value)))


class EquationRecorder(Recorder):
    """A trace with an `Equation` for each call. Tensors of other traces are constants in the equations.

    Attributes:
        specs: the spec of each slot.
        hold: `hold(array)` returns the array, or the copy, that an equation keeps of an array of the user.
        observers: the active observers, which find the user's line of each equation.
    """

    observers: Sequence[Any] = ()

    def __init__(self, transform: str, function: object, hold: Callable[[Any], Any] = np.copy) -> None:
        super().__init__(transform, function)
        self.specs: list[ArraySpec] = []
        self.hold = hold

    def enter(self, value: Any) -> Any:
        """Append an input and return its Tensor."""
        self.specs.append(spec_of(value))
        return super().enter(value)

    def equation(
        self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], specs: Sequence[ArraySpec]
    ) -> Equation:
        """Return the equation of a call with all of its inputs, and add the specs of its results."""
        inputs = tuple(map(self._source, arrays))
        kept = {name: map_arrays(self.hold, value) for name, value in params.items()} if params else params
        first = len(self.records)
        place = place_now(self.observers) if self.observers else None
        self.specs.extend(specs)
        return Equation(primitive, inputs, kept, tuple(range(first, first + len(specs))), place)

    def _source(self, a: Any) -> int | Constant:
        if isinstance(a, Recorded):
            return a.slot if a.recorder is self else Constant(clone(a))
        return Constant(self.hold(a) if issubclass(type(a), _ndarray) else a)


def has_effects(params: Mapping[str, Any]) -> bool:
    """Return `True` if a list among the parameters of control flow has a call with an effect."""
    lists = [inner for _, inner in inner_lists(params)]
    return any(e.primitive.effect or (e.primitive.lists and has_effects(e.params)) for own in lists for e in own.equations)


class AbstractRecorder(EquationRecorder):
    """A trace without values; shape rules give the results.

    Tensors with equal specs share one `ArraySpec`, so that the identity of the operands' specs finds the spec of a repeated
    operation. A loop of 50,000 steps has only a few specs.

    Attributes:
        derivatives: slots of the derivatives from a quick pass; a NaN among them requires a careful pass.
        singular: by slot, `True` if the value may be infinite or NaN for finite inputs; `None` outside `SINGULAR` passes.
        inner: the trace of a body within another trace; its inputs may be infinite or NaN.
        effects: results of the calls with an effect that no later such call has read (see `functad.primitives.effects`).
        first: the first input.
        exact: results must be equal to NumPy's bit for bit.
    """

    has_values = False
    exact = False

    def __init__(self, transform: str, function: object) -> None:
        super().__init__(transform, function)
        self.derivatives: list[int] = []
        self.singular: list[bool] | None = [] if current_pass() == SINGULAR else None
        self.inner = OPEN.get() is not None
        self.observers = OBSERVERS.get()
        self.effects: list[Any] = []
        self.first: Any = None
        self._specs: dict[Any, ArraySpec] = {}
        self._results: dict[Any, ArraySpec] = {}
        self._operands: list[Any] = []
        self._floats: dict[float, Constant] = {}

    def enter(self, value: Any) -> Any:
        """Append an input in native byte order and return its Tensor; compiled code converts byte-swapped arguments."""
        if self.singular is not None:
            self.singular.append(self.inner)
        return super().enter(self._shared(in_native_order(spec_of(value))))

    def _shared(self, spec: ArraySpec) -> ArraySpec:
        """Return the one spec of this trace that equals a spec."""
        return self._specs.setdefault((spec.shape, spec.dtype, spec.weak, spec.zero_d), spec)

    def enter_later(self, spec: ArraySpec) -> Any:
        """Return the Tensor of an input that appears while the function runs; its slot is not among the first."""
        tensor = self.enter(spec)
        self.inputs -= 1
        return tensor

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record a call with all of its inputs; the shape rule gives the specs of the results."""
        function = primitive.function  # functions of C libraries are not hashable
        if type(function) is np.ufunc and function in _COUNTING and all(map(_is_pythons, arrays)):
            arrays = (ADD(arrays[0], 0), *arrays[1:])
        effect = primitive.effect or (primitive.lists and has_effects(params))
        if effect:
            arrays = self._after_effects(primitive, arrays)
        known = [a if not isinstance(a, Recorded) else a.below if a.recorder is self else spec_of(a) for a in arrays]
        key = self._key(primitive, arrays, known, params)
        out: Any = self._results.get(key)
        if out is None:
            out = with_forms(primitive, primitive.spec(*known, **params), known, params)
            if not primitive.multiple:
                out = self._shared(out)
                if key is not None:
                    self._results[key] = out
                    self._operands.append(known)
        results: Sequence[ArraySpec] = out if primitive.multiple else (out,)
        equation = self.equation(primitive, arrays, params, results)
        if self.singular is not None:
            may_be = not primitive.finite or any(map(may_be_infinite, arrays))
            self.singular.extend([may_be] * len(results))
        if primitive.multiple:
            made = self.append_results(equation, out, *user_place())
            for tensor in made:
                note_result(tensor, primitive, arrays, params)
            if effect:
                self.effects.extend(made[:1])
            return made
        tensor = self.append(equation, out, *user_place())
        if primitive.views or len(out.shape) > 1:  # with one axis there is one order only
            note_result(tensor, primitive, arrays, params)
        if effect:
            self.effects.append(tensor)
        return tensor

    def _after_effects(self, primitive: Primitive, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the operands of a call with an effect, which depend on the earlier calls with an effect."""
        before, self.effects = self.effects, []
        if primitive.effect:
            return (*arrays, *(before or ([] if self.first is None else [self.first])))
        return (self.tied(arrays[0], before), *arrays[1:]) if arrays else arrays

    def tied(self, value: Any, effects: Sequence[Any]) -> Any:
        """Return a value that can only be computed after some calls with an effect."""
        from functad.primitives.effects import TIE  # noqa: PLC0415 - few functions have effects

        for token in effects:
            value = self.process(TIE, (value, token), {})
        return value

    def _key(self, primitive: Primitive, arrays: Sequence[Any], known: Sequence[Any], params: dict[str, Any]) -> Any:
        """Return the key of a call in `_results`; `None` if the spec of the result may depend on values of operands.

        `known` are the specs of Tensors and the values of constants. `_operands` keeps the specs of the keys alive, so that an
        identity is unambiguous.
        """
        if primitive.multiple or len(arrays) > _FEW:
            return None
        number = float if type(primitive.function) is np.ufunc else None  # other functions may check a value
        if not all(a.recorder is self if isinstance(a, Recorded) else type(a) is number for a in arrays):
            return None
        keys = [id(spec) if type(spec) is ArraySpec else float for spec in known]
        if not params:
            return (primitive, *keys)
        try:
            return (primitive, *keys, *params, *map(exact_key, params.values()))
        except TypeError:  # an array or another mutable value
            return None

    def operate(self, primitive: Primitive, x: Recorded, other: Any = None, flipped: bool = False) -> Any:
        """Record an operation of Tensors of this trace and Python numbers, in a fifth of the time of `process`.

        Returns:
            The Tensor of the result; `None` if the call needs `process`: no equal operation on equal specs came before, or the
            order of the result in memory is in question.
        """
        kind = type(other)
        if kind is type(x):
            if other.recorder is not self:
                return None
            out = self._results.get((primitive, id(x.below), id(other.below)))
            inputs: tuple[int | Constant, ...] = x.slot, other.slot
        elif other is None:
            out = self._results.get((primitive, id(x.below)))
            inputs = (x.slot,)
        elif kind is float:
            out = self._results.get((primitive, float, id(x.below)) if flipped else (primitive, id(x.below), float))
            constant = self._floats.get(other)
            if constant is None:
                constant = Constant(other)
                if other:  # 0.0 and -0.0 are one key
                    self._floats[other] = constant
            inputs = (constant, x.slot) if flipped else (x.slot, constant)
        else:
            return None
        if out is None or self.closed:
            return None
        if len(out.shape) > 1:  # `note_result` decides about the order in memory
            given = (x, other) if kind is type(x) else (x,)
            if primitive.kind != "elementwise" or not all(map(_is_ordered_owner, given)):
                return None
        place = place_now(self.observers) if self.observers else None
        if self.singular is not None:
            singular = self.singular
            may_be = not primitive.finite or singular[x.slot] or (singular[other.slot] if kind is type(x) else False)
            singular.append(may_be or (kind is float and not isfinite(other)))
        self.specs.append(out)
        return self.append(Equation(primitive, inputs, _NO_PARAMS, (len(self.records),), place), out, *user_place())

    def buffer(self, value: Any) -> Any:
        """Record a copy of a constant, as a buffer for writes of Tensors."""
        return self.process(COPY, (value,), {})

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Raise `AbstractValueError`: there are no values."""
        cure = abstract_cure(wanted, mask=dtype_of(tensor).kind == "b", transform=self.transform)
        raise AbstractValueError(
            f"{asked(wanted)} of a Tensor, {spec_of(tensor)}, {snippet_shown()}at {here()}: {self.transform} of "
            f"{name_of(self.function)} traces without values. {cure}"
        )


class NoValueError(UnsupportedError):
    """The error for a function recorded at a point that uses a Tensor without a value."""


class PointRecorder(EquationRecorder):
    """A trace at a point: it computes values like a concrete trace, and keeps only the values that `choose` selects.

    Attributes:
        choose: `choose(equation)` returns the slots of a new equation with values to keep.
        kept: the kept values by slot.
    """

    pulls = True
    sees_inside = True

    def __init__(
        self,
        transform: str,
        function: object,
        hold: Callable[[Any], Any] = np.copy,
        choose: Callable[[Equation], Sequence[int]] = lambda equation: (),
    ) -> None:
        super().__init__(transform, function, hold)
        self.choose = choose
        self.kept: dict[int, Any] = {}

    def value_of(self, a: Any) -> Any:
        """Return the innermost value of a Tensor.

        Raises:
            NoValueError: the Tensor has no value.
        """
        value = innermost(a)
        if isinstance(value, ArraySpec):
            raise NoValueError(
                f"{self.transform}: {name_of(self.function)} uses a Tensor without a value that is no argument, at {here()}, "
                f"and a solver cannot be run without it. Pass it as a parameter."
            )
        return value

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call of a primitive, and record the equation if a derivative can flow through it."""
        given = [resolve(a) if isinstance(a, Recorded) else a for a in arrays]
        values = [self.value_of(a) if isinstance(a, Recorded) else a for a in given]
        out = primitive.compute(*values, **params)
        alive = any(isinstance(a, Recorded) and (primitive.joint or primitive.differentiable(i)) for i, a in enumerate(given))
        if out is NotImplemented or not alive:
            return out
        made = self._made(primitive, given, params, out)
        if primitive.views:
            note_if_view(arrays[0], made, values[0], out, primitive, params)
        return made

    def _made(self, primitive: Primitive, given: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        results = out if primitive.multiple else (out,)
        equation = self.equation(primitive, given, params, list(map(spec_of, results)))
        values = dict(zip(equation.outputs, results, strict=True))
        self.kept |= {slot: values.get(slot, results[0]) for slot in self.choose(equation)}
        return (self.append_results if primitive.multiple else self.append)(equation, out, *user_place())

    def buffer(self, value: Any) -> Any:
        """Return a Tensor with a copy of an array, for writes in place."""
        own = self.value_of(value) if isinstance(value, Recorded) else value
        return self._made(COPY, (value,), {}, np.copy(own) if own is not value else own)
