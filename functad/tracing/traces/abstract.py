"""Traces without values: a Tensor has a shape and a dtype only, and the list holds complete equations."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.expressions import Constant, Equation
from functad.expressions.observers import OBSERVERS, place_now
from functad.expressions.spec import ArraySpec, dtype_of, in_native_order, is_inexact, spec_of
from functad.places import here, name_of
from functad.primitives.elementwise.arithmetic import ADD
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.entry import Primitive
from functad.primitives.safe import SINGULAR, current_pass
from functad.primitives.zero_d import with_forms
from functad.settings import context_variable
from functad.tracing.constants import with_arrays
from functad.tracing.conversions import abstract_cure, asked, snippet_shown
from functad.tracing.layouts import note_result
from functad.tracing.traces.base import OPEN, Recorded, Recorder, user_place
from functad.tracing.views import clone

_ndarray = np.ndarray

_COUNTING = frozenset({np.add, np.subtract, np.multiply, np.negative, np.positive, np.absolute, np.invert})
"""Operations that treat Python's truth values as integers, `True + True == 2`, but not NumPy's."""


def _is_pythons(value: Any) -> bool:
    """Return `True` if a value is a Python `bool` or a Tensor of one."""
    spec = spec_of(value)
    return spec.weak and spec.dtype == np.bool_


DERIVATIVES: ContextVar[list[tuple[Any, list[int]]] | None] = context_variable("derivatives", default=None)
"""Collects each traced list with the slots of its derivatives; `None` if they are not needed."""


def may_be_infinite(value: Any) -> bool:
    """Return `True` if a value may be infinite or NaN although all inputs of its list are finite."""
    while isinstance(value, Recorded):
        singular, slot = getattr(value.recorder, "singular", None), value.slot
        if singular is not None:
            return bool(singular[slot])
        value = getattr(value.below, "array", value.below)
    if value is None or type(value) is ArraySpec:
        return False
    return is_inexact(value) and not bool(np.all(np.isfinite(value)))


class AbstractRecorder(Recorder):
    """A trace without values; shape rules give the results.

    Attributes:
        specs: the spec of each slot.
        derivatives: slots of the derivatives from a quick pass; a NaN among them requires a careful pass.
        singular: by slot, `True` if the value may be infinite or NaN for finite inputs; `None` outside `SINGULAR` passes.
        inner: the trace of a body within another trace; its inputs may be infinite or NaN.
        observers: the active observers.
    """

    has_values = False

    def __init__(self, transform: str, function: object) -> None:
        super().__init__(transform, function)
        self.specs: list[ArraySpec] = []
        self.derivatives: list[int] = []
        self.singular: list[bool] | None = [] if current_pass() == SINGULAR else None
        self.inner = OPEN.get() is not None
        self.observers = OBSERVERS.get()

    def enter(self, spec: ArraySpec) -> Any:
        """Append an input in native byte order and return its Tensor; compiled code converts byte-swapped arguments."""
        spec = in_native_order(spec)
        self.specs.append(spec)
        if self.singular is not None:
            self.singular.append(self.inner)
        return super().enter(spec)

    def enter_later(self, spec: ArraySpec) -> Any:
        """Return the Tensor of an input that appears while the function runs; its slot is not among the first."""
        spec = in_native_order(spec)
        self.specs.append(spec)
        if self.singular is not None:
            self.singular.append(self.inner)
        return self.append(None, spec)

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record a call with all of its inputs; the shape rule gives the specs of the results."""
        function = primitive.function  # functions of C libraries are not hashable
        if type(function) is np.ufunc and function in _COUNTING and all(map(_is_pythons, arrays)):
            arrays = (ADD(arrays[0], 0), *arrays[1:])
        known: list[Any] = []
        inputs: list[int | Constant] = []
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is self:
                known.append(a.below)
                inputs.append(a.slot)
            else:
                known.append(spec_of(a) if isinstance(a, Recorded) else a)
                inputs.append(
                    Constant(a.copy("K") if issubclass(type(a), _ndarray) else clone(a) if isinstance(a, Recorded) else a)
                )
        out = with_forms(primitive, primitive.spec(*known, **params), known, params)
        results = out if primitive.multiple else (out,)
        first = len(self.equations)
        kept = {name: with_arrays(value, np.copy) for name, value in params.items()} if params else params
        place = place_now(self.observers) if self.observers else None
        equation = Equation(primitive, tuple(inputs), kept, tuple(range(first, first + len(results))), place)
        self.specs.extend(results)
        if self.singular is not None:
            may_be = not primitive.finite or any(map(may_be_infinite, arrays))
            self.singular.extend([may_be] * len(results))
        if primitive.multiple:
            made = self.append_results(equation, out, *user_place())
            for tensor in made:
                note_result(tensor, primitive, arrays, params)
            return made
        tensor = self.append(equation, out, *user_place())
        if primitive.views or len(out.shape) > 1:  # with one axis there is one order only
            note_result(tensor, primitive, arrays, params)
        return tensor

    def buffer(self, value: Any) -> Any:
        """Record a copy of a constant, as a buffer for writes of Tensors."""
        return self.process(COPY, (value,), {})

    def described(self, owner: str) -> str:
        """Return a sentence about the Tensors of the trace, for displays."""
        return f"Of {owner}: without a value, only dtype and shape are known."

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Raise `AbstractValueError`: there are no values."""
        cure = abstract_cure(wanted, mask=dtype_of(tensor).kind == "b", transform=self.transform)
        raise AbstractValueError(
            f"{asked(wanted)} of a Tensor, {spec_of(tensor)}, {snippet_shown()}at {here()}: {self.transform} of "
            f"{name_of(self.function)} traces without values. {cure}"
        )
