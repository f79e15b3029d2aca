"""Runs of the checked function at a point and near it, with a trace that examines the values of each operation.

The trace can also perturb the rounding of operations. It notes suspicions only: a subtraction of nearly equal numbers, an
element near a kink, a nearly singular matrix. The checks then test each suspicion with moved arguments and perturbed rounding.
A `Finding` is the result of a check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.records import Place
from functad.expressions.spec import dtype_of, shape_of
from functad.places import user_frame
from functad.primitives.entry import Primitive
from functad.profiling.measure import NOWHERE, Call, OperationRecorder, operation_name, quiet
from functad.rules.call import CallWithRules
from functad.testing.numerical import bytes_of_real, mean_size
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.trace import Recorder
from functad.transforms.boundary import traced
from functad.transforms.forward import random_like
from functad.transforms.reverse import pull_back
from functad.trees import flatten

SEVERITIES = ("error", "warning", "note")
"""`error`: the gradient is wrong or fails. `warning`: the gradient may not be the intended one. `note`: other facts."""


class Finding(NamedTuple):
    """One result of a check of `doctor`.

    Attributes:
        severity: `error`, `warning` or `note`.
        check: the name of the check.
        line: the file and number of the user's line; empty if the finding has no line.
        code: the text of the line.
        message: the problem.
        advice: the fix.

    Example:
        >>> import functad
        >>> [finding] = functad.doctor(lambda x: abs(x), 0.0).findings
        >>> finding.severity, finding.check
        ('warning', 'kinks')
    """

    severity: str
    check: str
    line: str
    code: str
    message: str
    advice: str


def found(severity: str, check: str, message: str, advice: str, place: Place = NOWHERE) -> Finding:
    """Return a finding at a place."""
    return Finding(severity, check, place.where, place.text, message, advice)


KINK, JUMP, DECISION, CANCELLATION = "kink", "jump", "decision", "cancellation"
CONDITION, DIVISION, OVERFLOW = "condition", "division", "overflow"

NEAR = 1e-6
"""The largest distance to a kink that counts as near, relative to the size of the elements."""

LOST = {8: 1e-5, 4: 1e-3}
"""The ratio of a difference to its terms below which digits cancel, by the bytes of a real number."""

SINGULAR = {8: 1e8, 4: 1e4}
"""The condition number above which a matrix counts as nearly singular, by the bytes of a real number."""

SMALL = 1e-8
"""The ratio of a divisor to the median divisor below which it counts as near zero."""

_LARGEST_MATRIX = 1000


class Look(NamedTuple):
    """A suspicion about the values of an operation.

    Attributes:
        kind: `KINK`, `JUMP`, `DECISION` (a jump of a truth value), `CANCELLATION`, `CONDITION`, `DIVISION` or `OVERFLOW`.
        number: the number of the operation in the run.
        place: the user's line.
        name: the name of the operation.
        size: the factor of the cancellation, the condition number, or the smallest divisor; 1 for other kinds.
        bad, of: the number of suspicious elements, and of all elements.
    """

    kind: str
    number: int
    place: Place
    name: str
    size: float
    bad: int
    of: int


class Rounding(NamedTuple):
    """The values of a run to perturb in their last digits.

    Attributes:
        seed: the seed of the random digits.
        outputs: the lines whose results are perturbed; `None` means all lines.
        inputs: the number of the operation with perturbed inputs, or `None`.
    """

    seed: int = 0
    outputs: frozenset[str] | None = frozenset()
    inputs: int | None = None


class LookingRecorder(OperationRecorder):
    """A reverse trace that examines or perturbs the values of its operations.

    Attributes:
        looks: the suspicions; empty in a run with a `rounding`.
        places: the user's line of each operation.
        constants: for each operation a hash of its constant arguments.
        ruled: the calls of functions with custom rules: name and line.
        doubles: line and name of the first operation that turns single into double precision, or `None`.
    """

    def __init__(self, function: object, outermost: FrameType | None, rounding: Rounding | None = None) -> None:
        super().__init__("doctor", function, outermost)
        self.rounding = rounding
        self.generator = np.random.default_rng(0 if rounding is None else rounding.seed)
        self.looks: list[Look] = []
        self.places: list[Place] = []
        self.constants: list[int] = []
        self.ruled: list[tuple[str, Place]] = []
        self.doubles: tuple[Place, str] | None = None

    def compute(
        self, primitive: Primitive, arrays: tuple[Any, ...], values: list[Any], params: dict[str, Any], *, nested: bool
    ) -> Any:
        """Compute a call, and examine or perturb its values."""
        number, place = self._count(primitive)
        if isinstance(primitive, CallWithRules) and primitive.rules.by_user:
            self.ruled.append((primitive.name, place))
        rounding = self.rounding
        if rounding is not None and rounding.inputs == number:
            values[:] = [self.rounded(value) for value in values]
        out = super().compute(primitive, arrays, values, params, nested=nested)
        if rounding is not None:
            chosen = rounding.outputs is None or place.where in rounding.outputs
            kept = primitive.exact or primitive.multiple or primitive.dependence == "write"  # a write keeps most elements
            return self.rounded(out) if chosen and not kept else out
        if not nested and out is not NotImplemented:
            own = [getattr(a, "recorder", None) is self for a in arrays]
            self.constants.append(_digest([v for v, mine in zip(values, own, strict=True) if not mine]))
            at = Look("", number, place, operation_name(primitive), 0.0, 0, 0)
            if primitive.ufunc is np.divide and own[1] and _plain(out):
                self._look_at_divisor(values, out, at)
            self._look(primitive, values, params, out, at)
        return out

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write to a value, and record the write."""
        self._count(primitive)
        self.constants.append(0)
        return super().write(primitive, root, v, params)

    def _count(self, primitive: Primitive) -> tuple[int, Place]:
        """Note an operation; return its number and the user's line."""
        self.places.append((self.path() or (NOWHERE,))[-1])
        self.names.append(primitive.name)
        return len(self.names) - 1, self.places[-1]

    def rounded(self, value: Any) -> Any:
        """Return a floating-point value with random last digits; another value unchanged."""
        if not hasattr(value, "dtype") or value.dtype.kind not in "fc":
            return value
        unit = np.finfo(value.dtype).eps
        factors = 1 + unit * self.generator.uniform(-1, 1, np.shape(value))
        return (value * factors).astype(value.dtype)

    def _look(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any], out: Any, at: Look) -> None:
        """Note the suspicions about an operation."""
        first = values[0]
        if not _plain(first):
            return
        doubles = list(filter(_is_double, values))
        widened = any(map(shape_of, doubles)) if doubles else _is_double(out)
        if self.doubles is None and widened and any(map(_is_single, values)):
            self.doubles = at.place, at.name
        with np.errstate(all="ignore"):
            if primitive.conditioned:
                self._look_at_matrix(first, at)
            if primitive.kind == "elementwise":
                self._look_for_overflow(primitive, values, params, out, at)
            if primitive.ufunc in (np.add, np.subtract):
                self._look_for_cancellation(values, out, at)
            for kind, distance in ((KINK, primitive.kinks), (JUMP, primitive.jumps)):
                if distance is not None and dtype_of(first).kind == "f" and np.size(first):
                    own = DECISION if kind == JUMP and dtype_of(out).kind == "b" else kind
                    self._look_for_corner(distance(*values, **params), values, at._replace(kind=own))

    def _look_at_matrix(self, matrix: Any, at: Look) -> None:
        if np.ndim(matrix) < 2 or matrix.shape[-1] > _LARGEST_MATRIX or not matrix.size or not np.isfinite(matrix).all():
            return
        number = float(np.max(np.linalg.cond(np.asarray(matrix, np.promote_types(matrix.dtype, np.float64)))))
        self._see(CONDITION, number > SINGULAR[bytes_of_real(matrix)], at, number)

    def _look_for_overflow(
        self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any], out: Any, at: Look
    ) -> None:
        if not _plain(out) or np.isfinite(out).all():
            return
        born = np.isinf(out)
        for value in values:
            born = born & np.isfinite(value)
        if born.any() and _overflows(primitive, values, params):
            self._see(OVERFLOW, born, at)

    def _look_for_cancellation(self, values: Sequence[Any], out: Any, at: Look) -> None:
        if not _plain(out) or dtype_of(out).kind not in "fc":
            return
        size = np.maximum(np.abs(values[0]), np.abs(values[1]))
        left = np.abs(out)
        self._see(CANCELLATION, (left < LOST[bytes_of_real(out)] * size) & (left > 0), at, size / left)

    def _look_at_divisor(self, values: Sequence[Any], out: Any, at: Look) -> None:
        """Note divisors near zero, if their quotients outweigh all others."""
        divisor, result = np.abs(values[1]), np.abs(out)
        if np.shape(divisor) != np.shape(result) or np.size(divisor) < 3:
            return
        with np.errstate(all="ignore"):
            small = divisor < SMALL * np.median(divisor)
            self._see(DIVISION, small & (divisor > 0) & (SMALL * result > np.median(result)), at, divisor, np.min)

    def _look_for_corner(self, distances: Any, values: Sequence[Any], at: Look) -> None:
        """Note elements with distances to a kink or jump that are small relative to the largest argument."""
        sizes = [np.abs(value) for value in values if dtype_of(value).kind in "biuf"]
        scale = max([float(np.max(size, initial=0.0, where=np.isfinite(size))) for size in sizes]) or 1.0
        self._see(at.kind, np.abs(distances) <= NEAR * scale, at)

    def _see(self, kind: str, bad: Any, at: Look, sizes: Any = 1.0, worst: Callable[[Any], Any] = np.max) -> None:
        """Note a suspicion if any element is bad, with the worst of the sizes of bad elements."""
        if np.any(bad):
            size = float(worst(np.broadcast_to(sizes, np.shape(bad))[bad]))
            self.looks.append(at._replace(kind=kind, size=size, bad=int(np.count_nonzero(bad)), of=int(np.size(bad))))


def _overflows(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> bool:
    """Return `True` if the computation raises the floating-point exception of an overflow."""
    try:
        with np.errstate(over="raise"):
            primitive.compute(*values, **params)
    except FloatingPointError:
        return True
    return False


def _plain(value: Any) -> bool:
    return issubclass(type(value), (np.ndarray, np.generic, float, int, complex)) and dtype_of(value).kind in "biufc"


def _is_single(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype in (np.float32, np.complex64)


def _is_double(value: Any) -> bool:
    return hasattr(value, "dtype") and value.dtype in (np.float64, np.complex128)


def _digest(constants: Sequence[Any]) -> int:
    """Return a hash of constants; a large array contributes a sample of its elements."""
    parts = []
    for value in constants:
        if issubclass(type(value), np.ndarray):
            flat = value.reshape(-1)
            parts.append((value.shape, str(value.dtype), flat[:: max(flat.size // 64, 1)].tobytes()))
        else:
            parts.append(((), type(value).__name__, repr(value).encode()))
    return hash(tuple(parts))


class Outcome(NamedTuple):
    """The inexact leaves of the result of a run, and the gradient for each input, or `None` without a path."""

    values: list[Any]
    gradients: list[Any]

    @property
    def finite(self) -> bool:
        """Whether all values and gradients are finite."""
        return all(bool(np.all(np.isfinite(a))) for a in (*self.values, *self.gradients) if a is not None)


class Point:
    """A call as a function of its differentiated inputs.

    Attributes:
        call: the call.
        paths, primals, doubles: the names of the inputs in messages, their values, and their values in double precision.
        single: `True` if an input has single precision.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.paths = [path for path, _ in call.inputs()]
        self.primals = [dtype_of(value).type(value) if np.ndim(value) == 0 else value for _, value in call.inputs()]
        self.doubles = [np.array(x, np.promote_types(dtype_of(x), np.float64))[()] for x in self.primals]
        self.single = any(bytes_of_real(x) == 4 for x in self.primals)

    def function(self, *values: Any) -> list[Any]:
        """Return the floating-point and complex leaves of the result; each call draws the same random numbers."""
        with quiet(), self.call.undisturbed():
            out = self.alone()(*values)
        leaves = [getattr(leaf, "numpy", lambda leaf=leaf: leaf)() for leaf in flatten(out)[0]]
        return [
            leaf for leaf in leaves if hasattr(leaf, "dtype") or type(leaf) in (float, complex) if dtype_of(leaf).kind in "fc"
        ]

    def differentiated(self, recorder: Recorder | None = None, values: Sequence[Any] | None = None) -> Outcome:
        """Return value and gradient, at the primals or at given values, with the given trace or a new one."""
        call = self.call
        recorder = ReverseRecorder("doctor", call.function) if recorder is None else recorder
        with call.undisturbed(), quiet():
            out = traced(recorder, call.entered(recorder, dict(enumerate(values or ()))), (), {})
            found, seeds = call.finished(recorder, out)
            gradients = pull_back(recorder.records, seeds, recorder.inputs, consume=True)
        return Outcome([value for value in found if dtype_of(value).kind in "fc"], gradients)

    def looked_at(
        self, values: Sequence[Any] | None = None, rounding: Rounding | None = None
    ) -> tuple[LookingRecorder, Outcome]:
        """Return value and gradient with the trace that examined all operations, or perturbed some of them."""
        recorder = LookingRecorder(self.call.function, user_frame(sys._getframe(1)), rounding)
        return recorder, self.differentiated(recorder, values)

    def direction(self, seed: int) -> list[Any]:
        """Return a random direction for each input, scaled by its size if that is above 1."""
        generator = np.random.default_rng(seed)
        return [random_like(x, generator) * max(1.0, mean_size(x)) for x in self.doubles]

    def moved(self, share: float) -> list[Any]:
        """Return the inputs with every element moved by up to `share` of itself; a zero by a share of the array's size."""
        generator = np.random.default_rng(1)
        return [
            (x + share * generator.uniform(-1, 1, shape_of(x)) * np.where(x == 0, mean_size(x) or 1.0, x)).astype(dtype_of(x))[
                ()
            ]
            for x in self.primals
        ]

    def alone(self) -> Callable[..., Any]:
        """Return the call as a function of the differentiated inputs, with the name of the user's function."""

        def function(*values: Any) -> Any:
            return self.call.bound(values=dict(enumerate(values)))()

        function.__name__ = function.__qualname__ = self.call.name
        return function
