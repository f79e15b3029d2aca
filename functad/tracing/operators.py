"""Python's operators on Tensors, and the fast paths of an open trace with values.

A fast path skips NumPy's dispatch, `functad.tracing.trace.dispatch` and `Recorder.process`, and calls the same `append`. The
residuals that it stores are the result of `plan.save`; for plans that read one known value or none, the call of `save` is
saved. With the fast paths of operators, a chain of 1,000 operations on 8 numbers takes 2.8 us per operation, forward and
backward pass together; NumPy's own forward work takes 0.6 us of it.

Some functions that are not ufuncs have a fast path too, if the value of the Tensor is an array of NumPy. In nested traces they
take the general path. `np.sum`, `np.mean`, `np.max` and `np.min` take half of the time of `dispatch`: loss functions end in
one of them, and a normalization along an axis begins with two. `np.concatenate` and `np.stack` take a third of the time, in
reverse traces: a function that returns a vector often ends in `np.stack`, and a loop over it spends half of its time there.
Without this fast path, the steps of the Lorenz system in the benchmarks take 1.2 to 1.3 times as long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import copysign
from numbers import Rational
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError, UnsupportedError
from functad.places import here, user_place
from functad.primitives.arranging.join import CONCATENATE, STACK
from functad.primitives.elementwise import elementary, selection
from functad.primitives.entry import Primitive
from functad.primitives.linalg import products as contractions
from functad.primitives.operands import as_operand, converted, goes_first, is_number, refuse_foreign, strong
from functad.primitives.reductions.over_axes import MAX, MEAN, MIN, SUM
from functad.tracing.conversions import unhashable
from functad.tracing.foreign import OURS, answer_to_operator, decides, holds, overrides
from functad.tracing.ownership import COPY_LIMIT, hold
from functad.tracing.trace import Recorded, dispatch

_getframe = sys._getframe
_float64 = np.float64
_ndarray = np.ndarray
_asarray = np.asarray
_NUMBERS = (np.float64, float)
_PLAIN = frozenset({np.ndarray, np.float64, np.float32, float, int})
_FLOAT64 = np.dtype(np.float64)
_FOREIGN = (str, bytes, dict, set, type(None))

Method = Callable[..., Any]

UNARY: dict[Any, Method] = {}
"""The fast path of each ufunc of one argument, added at its first call; it converts a Python number to a NumPy scalar."""

BINARY: dict[Any, tuple[Method, Method]] = {}
"""The operator method and its reflection for each ufunc with an operator; ufunc calls use the same fast path."""

SHORT: dict[Any, Method] = {}
"""The fast path `short(*args, **kwargs)` of functions that are not ufuncs; `NotImplemented` for unsupported arguments."""


_CONSTANTS: dict[float, Any] = {}
"""Recent scalar operands as read-only arrays, by value."""


def _frozen(number: float) -> Any:
    a = _asarray(float(number))
    a.flags.writeable = False
    return a


_ZERO, _MINUS_ZERO = _frozen(0.0), _frozen(-0.0)


def _constant_array(number: float) -> Any:
    """Return a Python number as a read-only array from a cache: programs use the same few numbers often."""
    if number == 0:  # 0.0 and -0.0 are one key
        return _ZERO if copysign(1.0, number) > 0 else _MINUS_ZERO
    a = _CONSTANTS.get(number)
    if a is None:
        a = _frozen(number)
        if len(_CONSTANTS) >= 256:
            _CONSTANTS.clear()
        _CONSTANTS[number] = a
    return a


def _slow(primitive: Primitive, x: Any, y: Any) -> Any:
    """Record a call without a fast path; return `NotImplemented` or the library's answer if another library handles it."""
    if (type(x) in _PLAIN or isinstance(x, Recorded)) and (type(y) in _PLAIN or isinstance(y, Recorded)):
        return dispatch(primitive, (x, y), {})
    if goes_first(type(y)):
        return NotImplemented
    x, y = converted(x, primitive.name), converted(y, primitive.name)
    for operand in (x, y):
        if issubclass(type(operand), Rational) and not issubclass(type(operand), (int, np.integer)):  # a Fraction
            return _slow(primitive, *[float(v) if v is operand else v for v in (x, y)])
        if type(operand) in (list, tuple):
            return _slow(primitive, *[as_operand(v) if v is operand else v for v in (x, y)])
        if isinstance(operand, _FOREIGN) or (overrides(operand) and not holds(type(operand), x, y)):
            if type(operand).__module__.startswith("scipy.sparse"):
                from functad.primitives.linalg.sparse_products import sparse_operation  # noqa: PLC0415 - rarely needed

                return sparse_operation(primitive, x, y)
            answer = answer_to_operator(primitive, x, y)
            if answer is not OURS:
                return answer
    refuse_foreign(primitive.name, x, y)
    return dispatch(primitive, (x, y), {})


def binary(primitive: Primitive, *, convert: bool = True) -> tuple[Method, Method]:
    """Return `x.__op__(y)` and `x.__rop__(y)` for a primitive of two arguments with JVP rules in its plans.

    Args:
        primitive: the primitive.
        convert: whether a Python number beside a float64 array is first converted to an array. NumPy then takes 0.4 us
            instead of 0.7 us for the operation. The rule that multiplies with the array saves the same time.
    """
    compute = primitive.compute
    both = primitive.reverse_plan((0, 1))
    save_both = both.save if both.names else None
    square = elementary.SQUARE.reverse_plan((0,)) if primitive is elementary.MULTIPLY else None
    contracts = primitive.kind == "multilinear"  # broadcasts only the batch axes, all but the last two

    def one_way(position: int) -> Method:
        plan = primitive.reverse_plan((position,))
        reads_other = plan.names == (primitive.names[1 - position],)
        reads_nothing = not plan.names
        holds_other = 1 - position in plan.holds
        flipped = position == 1
        save = plan.save
        powers = primitive is elementary.POWER and not flipped

        def method(x: Any, y: Any, modulus: Any = None, *, depth: int = 1) -> Any:
            if modulus is not None:
                raise UnsupportedError(f"pow with a modulus, of a Tensor, at {here()}. Use t**y % modulus.")
            recorder = x.recorder
            if not recorder.fast:
                if powers and depth == 1 and type(y) is int and y == 2 and x.dtype.kind == "b" and not is_number(x):
                    return np.square(x)  # NumPy's operator gives int8, `np.power` gives int64
                made = recorder.operate(primitive, x, y, flipped)
                if made is not None:
                    return made
                return _slow(primitive, y, x) if flipped else _slow(primitive, x, y)
            value, cls, kind = x.below, type(x), type(y)
            if kind is float or kind is int:
                if convert and type(value) is _ndarray and value.dtype is _FLOAT64:
                    known = _CONSTANTS.get(y)
                    y = _constant_array(y) if known is None else known
                out = compute(y, value) if flipped else compute(value, y)
                residuals = (
                    y if reads_other else None if reads_nothing else save((y, value) if flipped else (value, y), out, None)
                )
                record = (plan, x.slot, residuals, None)
            elif y is x and square is not None:  # one product in the backward pass instead of the sum of two
                out = compute(value, value)
                record = (square, x.slot, value, None)
            elif kind is cls and y.recorder is recorder and not flipped:
                other = y.below
                out = compute(value, other)
                if (
                    type(other) is _ndarray
                    and value.dtype is other.dtype
                    and not (value.ndim > 2 or other.ndim > 2 if contracts else value.shape != other.shape)
                    if type(value) is _ndarray
                    else type(value) in _NUMBERS and type(other) in _NUMBERS
                ):
                    fits = None
                else:
                    fits = recorder.fits_for(primitive, (value, other), (0, 1), out)
                record = (both, (x.slot, y.slot), save_both and save_both((value, other), out, None), fits)
            elif kind is _ndarray or kind is _float64:
                out = compute(y, value) if flipped else compute(value, y)
                fits = None
                if (
                    type(value) is not kind
                    or value.dtype is not y.dtype
                    or (value.ndim > 2 or y.ndim > 2 if contracts else value.shape != y.shape)
                ):
                    try:
                        fits = recorder.fits_for(primitive, (y, value) if flipped else (value, y), (position,), out)
                    except ConversionError:  # the result holds Python objects
                        if not recorder.is_constant(x):
                            raise
                        return out
                if holds_other and kind is _ndarray:
                    y = y.copy() if y.nbytes <= COPY_LIMIT else hold(y, recorder)
                residuals = (
                    y if reads_other else None if reads_nothing else save((y, value) if flipped else (value, y), out, None)
                )
                record = (plan, x.slot, residuals, fits)
            else:
                return _slow(primitive, y, x) if flipped else _slow(primitive, x, y)
            frame = _getframe(depth)
            return recorder.append(record, out, frame.f_code, frame.f_lasti, cls)

        return method

    pair = one_way(0), one_way(1)
    BINARY[primitive.function] = pair
    return pair


def unary(primitive: Primitive) -> Method:
    """Return the method for an elementwise primitive of one argument with a JVP rule in its plan."""
    compute = primitive.compute
    plan = primitive.reverse_plan((0,))
    reads_input, reads_out, save = plan.names == ("x",), plan.names == ("out",), plan.save

    def method(x: Any, depth: int = 1) -> Any:
        recorder = x.recorder
        if not recorder.fast:
            made = recorder.operate(primitive, x)
            return dispatch(primitive, (x,), {}) if made is None else made
        value = x.below
        out = compute(value)
        residuals = value if reads_input else out if reads_out else save((value,), out, None)
        fits = None
        kind, cls = type(out), type(x)
        if kind is not type(value) or ((kind is _ndarray or kind is cls) and out.dtype is not value.dtype):
            fits = recorder.fits_for(primitive, [value], (0,), out)
        frame = _getframe(depth)
        return recorder.append((plan, x.slot, residuals, fits), out, frame.f_code, frame.f_lasti, cls)

    def called(x: Any, depth: int) -> Any:
        return method(strong(x), depth + 1)

    UNARY[primitive.function] = method if compute is primitive.function else called
    return method


def _unfollowed(primitive: Primitive) -> tuple[Method, Method]:
    """Return `x.__op__(y)` and `x.__rop__(y)` for a primitive without derivative that may return floats."""

    def method(x: Any, y: Any, depth: int = 1) -> Any:
        return _slow(primitive, x, y)

    def swapped(x: Any, y: Any, depth: int = 1) -> Any:
        return _slow(primitive, y, x)

    return method, swapped


def _comparison(primitive: Primitive) -> tuple[Method, Method]:
    """Return `x.__op__(y)` and `x.__rop__(y)` for a primitive without derivative; concrete values give a plain result.

    Recorders of tapes store the place for `tape.explain`: 0.5 us for each Tensor, 0.02 us in other traces.
    """
    compute, name = primitive.compute, primitive.name

    def method(x: Any, y: Any, depth: int = 1) -> Any:
        recorder = x.recorder
        if not recorder.fast:
            return _slow(primitive, x, y)
        if type(y) is type(x):
            if y.recorder is not recorder:
                return _slow(primitive, x, y)
            if recorder.reassigns and y.slot not in recorder.exits:
                recorder.note(y, name)
            y = y.below
        elif type(y) not in _PLAIN:
            if goes_first(type(y)):
                return NotImplemented
            y = converted(y, name)
            if decides(type(y)):
                return NotImplemented
            refuse_foreign(name, y)
        if recorder.reassigns and x.slot not in recorder.exits:
            recorder.note(x, name)
        return compute(x.below, y)

    return method, _unfollowed(primitive)[1]


class Operators:
    """Python's operators of arrays and their reflections."""

    __slots__ = ()

    __add__, __radd__ = binary(elementary.ADD)
    __sub__, __rsub__ = binary(elementary.SUBTRACT)
    __mul__, __rmul__ = binary(elementary.MULTIPLY)
    __truediv__, __rtruediv__ = binary(elementary.DIVIDE)
    __pow__, __rpow__ = binary(elementary.POWER, convert=False)
    __mod__, __rmod__ = binary(elementary.REMAINDER)
    __matmul__, __rmatmul__ = binary(contractions.MATMUL, convert=False)
    __floordiv__, __rfloordiv__ = _unfollowed(elementary.FLOOR_DIVIDE)

    __neg__ = unary(elementary.NEGATIVE)
    __pos__ = unary(elementary.POSITIVE)
    __abs__ = unary(elementary.ABSOLUTE)

    __lt__ = _comparison(elementary.LESS)[0]
    __le__ = _comparison(elementary.LESS_EQUAL)[0]
    __gt__ = _comparison(elementary.GREATER)[0]
    __ge__ = _comparison(elementary.GREATER_EQUAL)[0]
    __eq__ = _comparison(elementary.EQUAL)[0]
    __ne__ = _comparison(elementary.NOT_EQUAL)[0]
    __and__, __rand__ = _comparison(elementary.BITWISE_AND)
    __or__, __ror__ = _comparison(elementary.BITWISE_OR)
    __xor__, __rxor__ = _comparison(elementary.BITWISE_XOR)
    __lshift__, __rlshift__ = _comparison(elementary.LEFT_SHIFT)
    __rshift__, __rrshift__ = _comparison(elementary.RIGHT_SHIFT)

    def __invert__(self) -> Any:
        return dispatch(elementary.INVERT, (self,), {})

    def __hash__(self: Any) -> int:
        if not self.recorder.has_values and not self.shape and self.dtype.kind in "biu":
            try:
                return hash(self._plain("hash()"))
            except AbstractValueError:
                pass
        raise unhashable()

    # Not operators, but as frequent: the calls enter their fast paths in `BINARY`.
    binary(selection.MAXIMUM)
    binary(selection.MINIMUM)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self


_FLOAT32 = np.dtype(np.float32)


def _enter_reduction(primitive: Primitive, function: Any) -> None:
    """Register the fast path of a reduction under a function of NumPy."""
    compute, plan = primitive.compute, primitive.reverse_plan((0,))
    reads_shape = plan.names == ("a_layout", "axis", "keepdims")
    assert plan.push is not None
    assert reads_shape or plan.names == ("a", "out", "axis", "keepdims")

    def short(x: Any, axis: Any = None, *rest: Any, keepdims: Any = False, **others: Any) -> Any:
        if rest or others or (keepdims is not False and keepdims is not True):
            return NotImplemented
        recorder, value = x.recorder, x.below
        if not recorder.fast or type(value) is not _ndarray:
            return NotImplemented
        if value.dtype is not _FLOAT64 and value.dtype is not _FLOAT32:
            return NotImplemented
        axes = None
        if axis is not None:
            ndim = value.ndim
            if type(axis) is not int or not -ndim <= axis < ndim:
                return NotImplemented
            axes = None if ndim == 1 else (axis % ndim,)
        out = compute(value, axis=axes, keepdims=keepdims)
        residuals = (value.shape, axes, keepdims) if reads_shape else (value, out, axes, keepdims)
        frame = _getframe(2)
        return recorder.append((plan, x.slot, residuals, None), out, frame.f_code, frame.f_lasti, type(x))

    SHORT[function] = short


_enter_reduction(SUM, np.sum)
_enter_reduction(MEAN, np.mean)
for _extreme, _names in ((MAX, (np.max, np.amax)), (MIN, (np.min, np.amin))):
    for _name in _names:
        _enter_reduction(_extreme, _name)


def _enter_join(primitive: Primitive, *, adds: int) -> None:
    """Register the fast path of a primitive; its result has `adds` more axes than its arguments."""
    compute = primitive.compute

    def short(arrays: Any, axis: Any = 0, *rest: Any, **others: Any) -> Any:
        if rest or others or type(axis) is not int or (type(arrays) is not list and type(arrays) is not tuple):
            return NotImplemented
        values, active, slots, recorder = [], [], [], None
        for i, a in enumerate(arrays):
            value = a
            if isinstance(a, Recorded):
                if recorder is None:
                    recorder, cls = a.recorder, type(a)
                    if not recorder.fast or not recorder.pulls:
                        return NotImplemented
                elif a.recorder is not recorder:
                    return NotImplemented
                active.append(i)
                slots.append(a.slot)
                value = a.below
            if type(value) is not _float64 and (type(value) is not _ndarray or value.dtype is not _FLOAT64):
                return NotImplemented
            values.append(value)
        ndim = values[0].ndim + adds
        if recorder is None or not -ndim <= axis < ndim:
            return NotImplemented
        params = {"axis": axis % ndim}
        out = compute(*values, **params)
        plan = primitive.reverse_plan(tuple(active))
        place = slots[0] if len(slots) == 1 else tuple(slots)
        return recorder.append((plan, place, plan.save(values, out, params), None), out, *user_place(), cls)

    SHORT[primitive.function] = short


_enter_join(CONCATENATE, adds=0)
_enter_join(STACK, adds=1)
