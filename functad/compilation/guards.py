"""Guards: values that a function needs while `jit` traces it.

A `GuardingRecorder` is a trace without values that knows the arguments of the call. If Python code needs a value, as `if t > 0`
does, the recorder evaluates the equations so far, returns the value and keeps a `Guard`. The list is then valid for all
arguments that give the guarded values again. Nothing else in the trace depends on values, since its Tensors have none.

The guarded values are one result of the list, a vector of int64: `True` is 1, and an array contributes all of its elements.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.states import MOST_STATES, State, state_now
from functad.eager.variable import MAKER
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, shape_of
from functad.places import line_of, user_place
from functad.primitives.arranging.reshape import RESHAPE
from functad.primitives.elementwise.conversion import astype
from functad.primitives.elementwise.guard import GUARD
from functad.primitives.entry import Primitive
from functad.primitives.operands import innermost
from functad.primitives.safe import PASS, QUICK, STRICT
from functad.process import setting
from functad.tracing.equations import ASKED_AT, DERIVATIVES, AbstractRecorder, has_effects
from functad.tracing.float_errors import in_silence
from functad.tracing.trace import Recorded, bare, new_arrays_recorded_by
from functad.tracing.views import origin_of
from functad.transforms.lists import extract, positional_structures
from functad.transforms.reverse import has_nan_below

_UNGUARDED = ("flags", "array")
"""Questions about a Tensor of a trace without values that have an answer, or no meaning, without its value."""

_INT64 = np.dtype(np.int64)


class LeaveError(BaseException):
    """The signal that ends a trace with values; it passes `except Exception` in the function.

    Attributes:
        careful: `True` to trace again in a careful pass, `False` to run the function itself.
    """

    def __init__(self, careful: bool) -> None:
        super().__init__(careful)
        self.careful = careful


class Guard(NamedTuple):
    """A value that Python code needed while the function was traced.

    Attributes:
        wanted: the conversion, such as `bool`.
        value: the value.
        key: the guarded elements, as bytes of int64.
        code, instruction: the line of the user's code.
    """

    wanted: str
    value: Any
    key: bytes
    code: CodeType | None
    instruction: int

    @property
    def line(self) -> str:
        """The file and line of the user's code."""
        return line_of(self.code, self.instruction)

    def __str__(self) -> str:
        shown = (
            f"an array of {self.value.size:,} elements"
            if issubclass(type(self.value), np.ndarray) and self.value.ndim
            else None
        )
        value = self.value.item() if issubclass(type(self.value), (np.generic, np.ndarray)) and not shown else self.value
        return f"{self._text()}{self.line} gave {shown or repr(bool(value) if self.wanted == 'bool' else value)}"

    def _text(self) -> str:
        """Return the text of the line in backquotes, with ` at ` behind; empty if the text is not known."""
        number = self.line.rpartition(":")[2]
        file = "" if self.code is None else self.code.co_filename
        text = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
        return f"`{text if len(text) <= 72 else text[:69] + '...'}` at " if text else ""


class GuardingRecorder(AbstractRecorder):
    """A trace without values that answers questions of Python code about values, and keeps the answers as guards.

    Args:
        transform, function: as for a `Recorder`.
        given: the leaves of the arguments of this call; `None` if there are none, and each question raises.
        known: the guards of an earlier trace of the same path, which answer the questions instead; or `None`.
        exact: `True` if results must be equal to NumPy's bit for bit.

    Attributes:
        guards: the guards, in order.
        pieces: for each guard, the Tensor of its elements as a vector of int64.
        later: functions that read the values of further inputs, by slot.
        answers: the values that Python code has, by the slot and whether it asked for the truth.
        states: for each guard, the state of the Python code, or `None`.
        frames: objects that are kept alive while the trace runs, because states contain their identities.
        cells: returns the values of Variables and other state.
        writes: `True` if an array has been written to.
        foreign: the number of guards without a state by the place of the code, because of Tensors of other traces.
    """

    def __init__(
        self,
        transform: str,
        function: object,
        given: Sequence[Any] | None = None,
        known: Sequence[Guard] | None = None,
        exact: bool = False,
    ) -> None:
        super().__init__(transform, function)
        self.exact = exact
        self.guards: list[Guard] = []
        self.pieces: list[Any] = []
        self.later: dict[int, Any] = {}
        self._given = given
        self._known = known
        self.answers: dict[tuple[int, bool], Any] = {}
        self.states: list[State | None] = []
        self.frames: list[Any] = []
        self.cells: Callable[[], Sequence[Any]] = tuple
        self.writes = False
        self.foreign: dict[Any, int] = {}
        self._values: list[Any] = []
        self._exposed: list[Any] = []
        self._outside = MAKER.get(), DERIVATIVES.get()
        self._seen = 0

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record a call. If the size of its result depends on values, guard the size.

        The trace is left before a call with an effect after a guard: the effect must not happen on a path that is not taken.
        """
        if self.guards and (primitive.effect or (primitive.lists and has_effects(params))):
            raise LeaveError(careful=False)
        if primitive.sized is not None and arrays[0].ndim and not (self._given is self._known is None):
            return primitive.sized(*arrays, **params)
        return super().process(primitive, arrays, params)

    def is_constant(self, tensor: Recorded) -> bool:
        """Return `True` for integers, truth values, quotients of two integers, and numbers with derivative zero.

        They lose no derivative as plain values.
        """
        return tensor.below.dtype.kind in "biu" or self._is_rounded(tensor) or bool(self._integers_of(tensor))

    def _is_rounded(self, tensor: Recorded) -> bool:
        """Return `True` for a real number with derivative zero, such as the result of `np.floor`."""
        record, spec = self.records[tensor.slot], tensor.below
        return record is not None and record.primitive.kind == "constant" and spec.dtype.kind == "f" and spec.size == 1

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Return the value of a Tensor, and guard it.

        Raises:
            AbstractValueError: the trace has no values, or the value is a float, complex number or array, which has too many
                values for a guard.
        """
        spec: ArraySpec = tensor.below
        if wanted == "float()" and (parts := self._integers_of(tensor)):  # `np.arange` computes its length with floats
            return np.true_divide(*[self.concrete_value(p, "int()") if isinstance(p, Recorded) else p for p in parts])
        if wanted == "int()" and self._is_rounded(tensor):
            if self._given is self._known is None:
                return super().concrete_value(tensor, wanted)
            if not self.concrete_value(np.abs(tensor) < 2.0**63, "bool"):  # type: ignore[call-overload]
                raise LeaveError(careful=False)  # Python raises for NaN and infinity, and has larger integers
            tensor = astype(tensor, _INT64)
            spec = tensor.below
        truth = wanted == "bool"
        if not (truth or (spec.dtype.kind in "biu" and wanted not in _UNGUARDED)) or (self._given is self._known is None):
            return super().concrete_value(tensor, wanted)
        if truth and spec.size != 1:
            return np.zeros(spec.shape, spec.dtype)  # NumPy raises an error, or a warning, for any value
        asked = tensor.slot, truth
        if asked not in self.answers:
            self.answers[asked] = self._guarded(tensor, wanted)
        value = self.answers[asked]
        if issubclass(type(value), np.ndarray):  # NumPy's array would share memory with it
            value = value.copy()
            value.setflags(write=False)
            self._exposed.append(origin_of(tensor)[0])
        return value

    def _integers_of(self, tensor: Recorded) -> list[Any]:
        """Return the operands of a quotient of two integers; empty for any other value."""
        record = self.records[tensor.slot]
        if record is None or record.primitive.function is not np.true_divide or self._given is self._known is None:
            return []
        given = [s.value if isinstance(s, Constant) else bare(type(tensor), self, self.specs[s], s) for s in record.inputs]
        return given if all(dtype_of(value).kind in "biu" and not shape_of(value) for value in given) else []

    def _guarded(self, tensor: Recorded, wanted: str) -> Any:
        """Return the value of a Tensor, and append its guard. The trace is left after an effect, which happens once."""
        if self.effects:
            raise LeaveError(careful=False)
        spec: ArraySpec = tensor.below
        elements: Any = tensor
        if wanted == "bool" and spec.dtype.kind != "b":
            elements = elements != 0
        piece = RESHAPE(astype(elements, _INT64), shape=(spec.size,))
        if self._known is not None:
            known = self._known[len(self.guards)] if len(self.guards) < len(self._known) else None
            if known is None or known.wanted != wanted or len(known.key) != 8 * spec.size:
                raise LeaveError(careful=False)
            value, key = known.value, known.key
        else:
            self.states.append(state_now(self, 2) if len(self.states) < MOST_STATES else None)
            self._advance()
            self._check_derivatives(inner=bool(DERIVATIVES.get()))
            value = self._plain(tensor)
            key = np.asarray(self._plain(piece)).tobytes()
            if issubclass(type(value), np.ndarray):
                value = value.copy()
        guard = Guard(wanted, value, key, *(ASKED_AT.get() or user_place()))
        self.guards.append(guard)
        self.pieces.append(GUARD(piece, value=np.frombuffer(key, _INT64), line=guard.line))
        return value

    def accept(self, piece: Any, guard: Guard) -> None:
        """Append a guard of a list that replaces a function of the user.

        Args:
            piece: the Tensor of the guarded elements.
            guard: the guard.

        Raises:
            LeaveError: the Tensor has other values.
        """
        if self.effects or not isinstance(piece, Recorded):
            raise LeaveError(careful=False)
        if self._known is None:
            self.states.append(None)
            self._advance()
            self._check_derivatives(inner=bool(DERIVATIVES.get()))
            if np.asarray(self._plain(piece)).tobytes() != guard.key:
                raise LeaveError(careful=False)
        self.guards.append(guard)
        self.pieces.append(GUARD(piece, value=np.frombuffer(guard.key, _INT64), line=guard.line))

    def value_of(self, tensor: Any) -> Any:
        """Return the plain value of a Tensor of this trace, or of a trace on values above it.

        Raises:
            LeaveError: the Tensor has no plain value.
        """
        while isinstance(tensor, Recorded) and tensor.recorder is not self:
            tensor = tensor.below
        if not isinstance(tensor, Recorded):
            if isinstance(tensor, ArraySpec) or tensor is None:
                raise LeaveError(careful=False)
            return tensor
        self._advance()
        self._check_derivatives(inner=bool(DERIVATIVES.get()))
        return self._plain(tensor)

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Record a write. Leave the trace if Python code has an array that would show the write."""
        if any(root is shared for shared in self._exposed):
            raise LeaveError(careful=False)
        self.writes = True
        return super().write(primitive, root, v, params)

    def vector(self) -> Any:
        """Return the Tensor of all guarded values; `None` if there are no guards."""
        if not self.pieces:
            return None
        return self.pieces[0] if len(self.pieces) == 1 else np.concatenate(self.pieces)

    def _plain(self, tensor: Any) -> Any:
        """Return the plain value of a Tensor; leave the trace if an outer trace has none."""
        value = innermost(self._values[tensor.slot])
        if isinstance(value, ArraySpec) or hasattr(type(value), "__dask_graph__"):
            raise LeaveError(careful=False)
        return value

    def _check_derivatives(self, *, inner: bool) -> None:
        """Leave a quick pass if a derivative has a NaN, or may have one in an inner list: the value may depend on it."""
        if PASS.get() != QUICK or STRICT.get():
            return
        if inner or has_nan_below([self._values[s] for s in self.derivatives[self._seen :]]):
            raise LeaveError(careful=True)
        self._seen = len(self.derivatives)

    def values(self, sources: Sequence[int | Constant], *, inner: bool) -> list[Any]:
        """Return the values of slots and constants. `inner` is `True` if inner lists have derivatives.

        Raises:
            LeaveError: a derivative has a NaN.
        """
        self._advance()
        self._check_derivatives(inner=inner)
        return [source.value if isinstance(source, Constant) else self._values[source] for source in sources]

    def let_go(self) -> None:
        """Drop all values."""
        self._given, self._values, self.answers, self._exposed, self.later = None, [], {}, [], {}
        self.frames, self.cells = [], tuple
        self._outside = None, None

    @in_silence
    def _advance(self) -> None:
        """Evaluate the new equations. Operations on Tensors of outer traces are recorded there."""
        maker, derivatives = self._outside
        with new_arrays_recorded_by(None), setting(MAKER, maker), setting(DERIVATIVES, derivatives):
            values, records = self._values, self.records
            while (slot := len(values)) < len(records):
                record = records[slot]
                if record is None:
                    values.append(self._input(slot))
                    continue
                primitive = record.primitive
                given = [s.value if isinstance(s, Constant) else values[s] for s in record.inputs]
                try:
                    out = primitive(*given, **record.params)
                except Exception:  # noqa: BLE001 - the function itself raises it at its line, and may catch it
                    raise LeaveError(careful=False) from None
                values.append(None)
                outs = out if primitive.multiple else (out,)
                for place, value in zip(record.outputs, outs, strict=True):
                    values[place] = value

    def _input(self, slot: int) -> Any:
        """Return the value of an input; `None` for a slot that is not an input."""
        if slot in self.later:
            value = self.later[slot]()
        elif slot < self.inputs and self._given is not None:
            value = self._given[slot]
        else:
            return None
        if type(value) is np.ndarray and not value.dtype.isnative:
            return value.astype(value.dtype.newbyteorder("="))
        return value


def without_guards(expressions: Expressions) -> Expressions:
    """Return a list with the guarded values in place of the equations that check them."""
    alias = {e.outputs[0]: e.inputs[0] for e in expressions.equations if e.primitive is GUARD}
    return extract(expressions, placed=lambda source: alias.get(source, source) if type(source) is int else source)


def guarded_only(expressions: Expressions, results: int) -> Expressions:
    """Return a list with its first results only, with the equations that check guards and without the guarded values."""
    own, dropped = expressions.outputs[:results], expressions.outputs[results : results + 1]
    equations = tuple([e for e in expressions.equations if e.primitive is GUARD or e.outputs != dropped])
    structure = positional_structures(len(expressions.inputs), results)[1]
    return expressions.replace(equations=equations, outputs=own, output_structure=structure)


def has_values(leaf: Any) -> bool:
    """Return `True` if a leaf has a plain value: it belongs to no batch and to no trace without values."""
    return type(leaf) in PLAIN or not isinstance(innermost(leaf), ArraySpec)
