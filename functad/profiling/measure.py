"""Measurements of a call: each operation in both passes, the function alone, its gradient, peak memory, and compilation.

A `Call` is repeatable: each run gets copies of the arguments, and user state is restored. Times are medians over several
rounds, after one warm-up round. The parts do not add up to the whole, because recording and the clock run between them. So the
whole is measured separately, and the remainder is reported by itself.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import random
import re
import statistics
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, MappingProxyType, MethodType
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.jit import Jitted, jit
from functad.eager.variable import MAKER, Given, Variable, reading, standing_in
from functad.errors import FunctadError, InputError
from functad.expressions.records import Observer, Place, inputs_of, observing
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number
from functad.places import Named, name_of, user_frame
from functad.primitives.entry import INTERNAL, Primitive
from functad.primitives.operands import innermost
from functad.primitives.vocabulary import shown_name
from functad.process import setting
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.foreign import computed
from functad.tracing.ownership import hold_input
from functad.tracing.trace import Recorded, Recorder, dispatch
from functad.tracing.views import note_if_view
from functad.transforms.boundary import checked_leaves, split_aux, traced, undifferentiable
from functad.transforms.grad import gradient_function
from functad.transforms.reverse import Scattered, pull_back, seeded
from functad.transforms.transform import ArgNames, ArgNums, Selection
from functad.trees import flatten

NOT_SELECTED = "It was not selected."
"""The reason why a leaf of another argument is not differentiated."""


class Call:
    """A function with arguments and the selection of inputs to differentiate with respect to.

    Without `argnums` and `argnames`, the inputs are the trainable Variables that the function reads, or its first argument if
    it reads none. Integers and leaves that are no numbers are accepted and not differentiated.

    Attributes:
        function: the uncompiled function.
        name: the name of the function.
        jitted: the given function if it is compiled, else `None`.
        leaves, structure: the leaves and the structure of the arguments `(args, kwargs)`.
        paths: the expression of each leaf, such as `args[0]['w']`.
        reasons: for each leaf the reason why it is not differentiated; `None` for a differentiated leaf.
        variables: the Variables to differentiate with respect to.

    Raises:
        InputError: there is nothing to differentiate.
    """

    def __init__(
        self,
        transform: str,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: ArgNums | None = None,
        argnames: ArgNames | None = None,
        has_aux: bool = False,
    ) -> None:
        self.function, self.jitted = uncompiled(f)
        self.selection = Selection(transform, self.function, 0 if argnums is None else argnums, argnames)
        self.name = name_of(self.function)
        self.has_aux = has_aux
        self.args, self.kwargs = args, kwargs
        self.leaves, self.structure = flatten((args, kwargs))
        self.paths = [f"{'args' if path[1] == '0' else 'kwargs'}{path[3:]}" for path in self.structure.paths("")]
        self.reasons: list[str | None] = [NOT_SELECTED] * len(self.leaves)
        self.variables: list[Variable] = []
        met = _Met()
        self._state: list[Callable[[], None]] = []
        with quiet(), self.undisturbed(), setting(MAKER, met), reading() as read:
            self.bound()()
        self._state = [given.variable.putting_back() for given in met.values()]
        self.variables = [variable for variable in read if variable.trainable and id(variable) in met]
        chosen = argnums is not None or argnames is not None or not self.variables
        keys = self.selection.keys(args, kwargs) if chosen and (args or kwargs or argnums is not None) else ()
        self.keys = tuple(keys)
        chosen_paths = tuple([f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]" for key in keys])
        for i, (path, leaf) in enumerate(zip(self.paths, self.leaves, strict=True)):
            if path.startswith(chosen_paths):
                self.reasons[i] = undifferentiable(leaf)
        if not self.inputs():
            raise InputError(
                f"{self.selection.call}: there is nothing to differentiate. Pass floats, choose arguments by argnums or "
                f"argnames, or let the function read trainable Variables."
            )

    def inputs(self) -> list[tuple[str, Any]]:
        """Return path and value of the differentiated inputs: leaves of arguments first, then Variables."""
        rows = zip(self.paths, self.leaves, self.reasons, strict=True)
        found = [(path, leaf) for path, leaf, reason in rows if reason is None]
        return found + [(f"the Variable {v.name!r}", v.copied()) for v in self.variables]

    def integers(self) -> tuple[int, ...]:
        """Return the positions of Python integers and truth values, which a compiled function can take as static."""
        return tuple([i for i, a in enumerate(self.args) if type(a) in PYTHON_SCALARS and dtype_of(a).kind in "biu"])

    def copies(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with copies of all arrays."""
        args, kwargs, _ = self._made(None, {})
        return args, kwargs

    def bound(
        self, make: Callable[[Any], Any] | None = None, values: Mapping[int, Any] = MappingProxyType({})
    ) -> Callable[[], Any]:
        """Return the call for one run as a function without arguments; it holds copies of all arrays.

        `make` maps each differentiated value to its replacement. `values` replace input values, by the number of the input.
        """
        args, kwargs, number = self._made(make, values)
        given = []
        for variable in self.variables:
            if make is not None or number in values:
                value = values[number] if number in values else variable.copied()
                given.append((variable, value if make is None else make(value)))
            number += 1

        def run() -> Any:
            with standing_in(given):
                out = self.function(*args, **kwargs)
            return split_aux(out, self.has_aux, self.selection)[0]

        return run

    def _made(
        self, make: Callable[[Any], Any] | None, values: Mapping[int, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], int]:
        """Return the arguments for one run and the number of inputs among them."""
        known: dict[int, Any] = {}
        made = []
        number = 0
        for leaf, reason in zip(self.leaves, self.reasons, strict=True):
            value = values[number] if reason is None and number in values else _fresh(leaf, known)
            made.append(make(value) if reason is None and make is not None else value)
            number += reason is None
        args, kwargs = self.structure.unflatten(made)
        return args, kwargs, number

    def entered(self, recorder: Recorder, values: Mapping[int, Any] = MappingProxyType({})) -> Callable[[], Any]:
        """Return the call for one run in a trace; the differentiated values, or `values`, become inputs of the trace."""
        return self.bound(lambda value: recorder.enter(hold_input(value, recorder)), values)

    def finished(self, recorder: Recorder, out: Any) -> tuple[list[Any], list[Any]]:
        """Return the leaves of a result as plain values, and the cotangents for the start of a backward pass: ones."""
        leaves, _ = checked_leaves(out, self.selection.transform, self.function)
        own = [isinstance(leaf, Recorded) and leaf.recorder is recorder for leaf in leaves]
        slots = [leaf.slot if mine else None for leaf, mine in zip(leaves, own, strict=True)]
        values = [innermost(leaf) for leaf in leaves]
        ones = [np.ones_like(value)[()] if dtype_of(value).kind in "fc" else None for value in values]
        return values, seeded(recorder, slots, ones)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Return a context that restores Variables and the random states of NumPy and Python at its end."""
        numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002 - the user's function may draw from it
        try:
            yield
        finally:
            np.random.set_state(numpys)  # noqa: NPY002
            random.setstate(pythons)
            for put_back in self._state:
                put_back()


class _Changing(Given):
    """A stand-in for a Variable in a run that must not change the Variable."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The current value."""
        return self._value

    def change(self, value: Any) -> None:
        """Set a new value."""
        self._value, self._latest = value, None


class _Met(dict[int, _Changing]):
    """Stand-ins for the Variables of a run, by identity; a call with a Variable returns its stand-in."""

    def __call__(self, variable: Variable) -> _Changing:
        """Return the stand-in of a Variable; create it at the first call."""
        if id(variable) not in self:
            self[id(variable)] = _Changing(variable, variable.held, ())
        return self[id(variable)]


@contextmanager
def quiet() -> Iterator[None]:
    """Return a context that silences warnings of NumPy and Python; the user's own calls give these warnings.

    An interrupt during the restoration triggers a second restoration, as in `functad.process.setting`.
    """
    errors, filters = np.geterr(), warnings.catch_warnings()
    filters.__enter__()

    def restore() -> None:
        np.seterr(**errors)
        filters.__exit__(None, None, None)

    try:
        try:
            warnings.simplefilter("ignore")
            np.seterr(all="ignore")
            yield
        finally:
            restore()
    except BaseException:
        restore()
        raise


def uncompiled(f: Any) -> tuple[Any, Any]:
    """Return the function inside a compiled one, and the compiled one; `f` and `None` if `f` is not compiled."""
    inner = getattr(f, "__func__", f)
    if not isinstance(inner, Jitted):
        return f, None
    own = uncompiled(inner.given[0])[0]
    return (own if inner is f else MethodType(own, f.__self__)), f


def _fresh(leaf: Any, known: dict[int, Any]) -> Any:
    """Return a copy of an array or random generator, one copy per object; return any other leaf unchanged."""
    if type(leaf) in PYTHON_SCALARS:
        return leaf
    if isinstance(leaf, (np.random.Generator, np.random.RandomState, random.Random)):
        return known.setdefault(id(leaf), copy.deepcopy(leaf))
    if is_array_or_number(leaf) and not issubclass(type(leaf), (Recorded, np.generic)) and hasattr(leaf, "copy"):
        if id(leaf) not in known:
            known[id(leaf)] = leaf.copy("K") if issubclass(type(leaf), np.ndarray) else leaf.copy()
        return known[id(leaf)]
    return leaf


clock: Callable[[], float] = time.perf_counter

NOWHERE = Place("", "", 0, 0)


class OperationRecorder(ReverseRecorder):
    """A reverse trace for tools: each call goes through `compute`, and its user's lines are known.

    Attributes:
        outermost: the frame of the user's call of the tool; lines outside it do not count.
        names: the primitive of each operation.
    """

    def __init__(self, transform: str, function: object, outermost: FrameType | None) -> None:
        super().__init__(transform, function)
        self.fast = False  # fast paths would bypass `process`
        self.outermost = outermost
        self.names: list[str] = []

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call one level lower, and record it."""
        lowered, active, nested = self.lowered(primitive, arrays)
        values = list(lowered)
        out = self.compute(primitive, arrays, values, params, nested=nested)
        if out is NotImplemented:
            return out
        if not active:
            made = self.underived(primitive, arrays, params, out)
        else:
            made = self.record(primitive, arrays, values, active, params, out)
            if primitive.views:
                note_if_view(arrays[0], made, values[0], out, primitive, params)
        self.recorded(primitive, values, out, len(self.records) - 1 if active else -1)
        return made

    def compute(
        self, primitive: Primitive, arrays: tuple[Any, ...], values: list[Any], params: dict[str, Any], *, nested: bool
    ) -> Any:
        """Return the result of a call one level lower; an override may replace elements of `values`."""
        return dispatch(primitive, tuple(values), params) if nested else computed(primitive, values, params)

    def recorded(self, primitive: Primitive, values: Sequence[Any], out: Any, slot: int) -> None:
        """Called after a call; `slot` is -1 if no derivative flows through it."""

    def path(self) -> tuple[Place, ...]:
        """Return the user's lines that are executing, outermost first."""
        found, frame = [], user_frame(sys._getframe(1))
        while frame is not None and frame is not self.outermost:
            found.append(place_of_frame(frame))
            frame = user_frame(frame.f_back)
        return tuple(reversed(found))


class Timed(NamedTuple):
    """An operation, or the code before it, with its times in seconds.

    Attributes:
        name: the name of the function that was called.
        path: the user's lines that were executing, outermost first; the last one contains the operation.
        before: time since the end of the previous operation.
        forward, backward: time in the operation and in its derivative.
        bytes: bytes of the arrays that both create, without views.
        slot: the slot of the record, or -1 if no derivative flows through the operation.
    """

    name: str
    path: tuple[Place, ...]
    before: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    bytes: int = 0
    slot: int = -1


class TimedRecorder(OperationRecorder):
    """A reverse trace that measures its operations.

    Attributes:
        laps: for each operation the time since the end of the previous one (the user's Python code and recording), and the
            time in NumPy.
        operations: the operations, or `None` unless `notes` is set. Collecting them takes as long as the operations
            themselves, so a separate run does it.
        last: the time when the previous operation ended.
    """

    def __init__(self, function: object, outermost: FrameType | None, *, notes: bool) -> None:
        super().__init__("profile", function, outermost)
        self.laps: list[tuple[float, float]] = []
        self.operations: list[Timed] | None = [] if notes else None
        self.last = clock()

    def compute(
        self, primitive: Primitive, arrays: tuple[Any, ...], values: list[Any], params: dict[str, Any], *, nested: bool
    ) -> Any:
        """Compute and time a call."""
        start = clock()
        out = super().compute(primitive, arrays, values, params, nested=nested)
        end = clock()
        if out is not NotImplemented:
            self.laps.append((start - self.last, end - start))
            self.names.append(primitive.name)
        return out

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write to a value, in place if it has no other owner, and record and time the write."""
        start = clock()
        made = super().write(primitive, root, v, params)
        self.laps.append((start - self.last, clock() - start))
        self.names.append(primitive.name)
        self.recorded(primitive, (made.below,), made.below, made.slot)
        return made

    def recorded(self, primitive: Primitive, values: Sequence[Any], out: Any, slot: int) -> None:
        """Append the operation if `notes` is set, and start the time of the code after it."""
        if self.operations is not None:
            made = made_bytes(out if primitive.multiple else (out,), values)
            self.operations.append(Timed(operation_name(primitive), self.path(), bytes=made, slot=slot))
        self.last = clock()


class Laps(Observer):
    """An observer of a backward pass that measures the time of each record.

    Attributes:
        times: times by slot.
        bytes: bytes of the created arrays by slot; only if `notes` is set.
    """

    def __init__(self, *, notes: bool) -> None:
        self.notes = notes
        self.times: dict[int, float] = {}
        self.bytes: dict[int, int] = {}
        self.given: Sequence[Any] = ()
        self.start = 0.0

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Start the clock."""
        gs = given()
        if self.notes:
            self.given = gs
        self.start = clock()

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Stop the clock."""
        self.times[index] = clock() - self.start
        if self.notes:
            made = [found[slot] for slot in dict.fromkeys(inputs_of(record))]
            self.bytes[index] = made_bytes([g.whole if type(g) is Scattered else g for g in made], self.given)


def made_bytes(results: Sequence[Any], given: Sequence[Any]) -> int:
    """Return the bytes of the results that are neither in `given` nor views nor scalars."""
    known = {id(innermost(value)) for value in given}
    plain = {id(value): value for value in map(innermost, results)}
    return sum(
        [
            int(getattr(value, "nbytes", 0))
            for value in plain.values()
            if id(value) not in known and getattr(value, "base", None) is None and not issubclass(type(value), np.generic)
        ]
    )


def operation_name(primitive: Primitive) -> str:
    """Return the name of an operation as in user code, if users can call it."""
    if primitive.name == "astype_integer":
        return "astype"
    function = primitive.function
    if primitive in INTERNAL or not (isinstance(function, np.ufunc) or hasattr(function, "__module__")):
        return primitive.name
    name = shown_name(primitive.function)
    if name.startswith(("np.", "scipy.")):
        return name
    inner = name_of(primitive.function).rpartition(".")[2]
    own = name.startswith("functad.") and not isinstance(function, Named)
    return primitive.name if own or inner == primitive.name else f"{primitive.name} of {inner}"


def place_of_frame(frame: FrameType) -> Place:
    """Return the executing line of user code in a frame."""
    code = frame.f_code
    return Place(code.co_qualname.rpartition("<locals>.")[2], code.co_filename, frame.f_lineno or 0, 0)


ROUNDS = 3, 40
"""The smallest and the largest number of rounds."""
SECONDS = 1.0
"""Time for all rounds together, unless the smallest number of rounds takes longer."""


class Measured(NamedTuple):
    """The measurements of a call, in seconds and bytes.

    Attributes:
        operations: the operations in order.
        plain: time of the function without functad.
        forward, backward: time of the forward pass with recording, and of the backward pass.
        after: time in the function after its last operation.
        plain_peak, peak: peak memory of the function alone and of its gradient.
        walk: overhead of the backward pass per record, without the rule.
        constant: each run did the same operations; otherwise the times are from the runs that match the first.
    """

    operations: list[Timed]
    plain: float
    forward: float
    backward: float
    after: float
    plain_peak: int
    peak: int
    walk: float
    constant: bool


def measured(call: Call) -> Measured:
    """Measure a call."""
    outermost = user_frame(sys._getframe(1))
    with quiet(), call.undisturbed():
        recorder, laps, _ = _observed(call, outermost, notes=True)  # also the warm-up
        alone, together = functools.partial(_plain, call), functools.partial(gradient_times, call)
        taken = repeated(lambda: (*warm(alone), *warm(together), _observed(call, outermost, notes=False)))
        plain_peak, peak = _peak(alone), _peak(together)
    plain, forward, backward, parts = zip(*taken, strict=True)  # measured in turn, so that machine load affects all equally
    same = [part for part in parts if part[0].names == recorder.names]
    constant = len(same) == len(parts)
    same = same or [(recorder, laps, 0.0)]
    operations = []
    for i, operation in enumerate(recorder.operations or ()):
        before, during = (statistics.median(column) for column in zip(*[r.laps[i] for r, _, _ in same], strict=True))
        rule = statistics.median([back.times.get(operation.slot, 0.0) for _, back, _ in same])
        made = operation.bytes + laps.bytes.get(operation.slot, 0)
        operations.append(operation._replace(before=before, forward=during, backward=rule, bytes=made))
    ends = [end for _, _, end in same]
    plainly, ahead, back, after = (statistics.median(column) for column in (plain, forward, backward, ends))
    return Measured(operations, plainly, ahead, back, after, plain_peak, peak, walk_time(), constant)


def repeated(run: Callable[[], Any], seconds: float | None = None) -> list[Any]:
    """Run a function once to warm up, then as often as time allows; return the results."""
    start = clock()
    run()
    taken = max(clock() - start, 1e-9)
    least, most = ROUNDS if taken < _SLOW else (1, 1)
    rounds = int(min(max((SECONDS if seconds is None else seconds) / taken, least), most))
    return [run() for _ in range(rounds)]


def warm(run: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """Return the times of the fastest of up to three consecutive runs; of a single run if it is slow.

    The first run has cold caches, and other load on the machine only adds time.
    """
    start = clock()
    times = [run()]
    taken = clock() - start
    times += [run() for _ in range(2 if taken < _SHORT else 1 if taken < _LONG else 0)]
    return min(times, key=sum)


_SHORT, _LONG, _SLOW = 3e-3, 0.1, 1.0


def _plain(call: Call) -> tuple[float]:
    run = call.bound()
    start = clock()
    run()
    return (clock() - start,)


def gradient_times(call: Call) -> tuple[float, float]:
    """Return the times of the forward pass with recording and of the backward pass, both as in `grad`."""
    recorder = ReverseRecorder("profile", call.function)
    run = call.entered(recorder)
    start = clock()
    out = traced(recorder, run, (), {})
    forward = clock() - start
    _, seeds = call.finished(recorder, out)
    start = clock()
    pull_back(recorder.records, seeds, recorder.inputs, consume=True)
    return forward, clock() - start


def _observed(call: Call, outermost: FrameType | None, *, notes: bool) -> tuple[TimedRecorder, Laps, float]:
    """Run with per-operation measurement; return the trace, the backward times and the time after the last operation."""
    recorder = TimedRecorder(call.function, outermost, notes=notes)
    run = call.entered(recorder)
    recorder.last = clock()
    out = traced(recorder, run, (), {})
    end = clock() - recorder.last
    _, seeds = call.finished(recorder, out)
    laps = Laps(notes=notes)
    with observing(laps):
        pull_back(recorder.records, seeds, recorder.inputs, consume=False)
    recorder.records.clear()  # release the residuals
    return recorder, laps, end


def _peak(run: Callable[[], Any]) -> int:
    """Return the peak memory of a run above its start, for NumPy arrays and Python objects."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        run()
        return max(tracemalloc.get_traced_memory()[1] - before, 0)
    finally:
        if not tracing:
            tracemalloc.stop()


@functools.cache
def walk_time() -> float:
    """Return the overhead per record of an observed backward pass, measured on a chain of negations of one number."""
    one, length = np.float64(1.0), 200

    def chained(x: Any) -> Any:
        for _ in range(length):
            x = -x
        return x

    def round_() -> float:
        recorder = ReverseRecorder("profile", chained)
        out = traced(recorder, chained, (recorder.enter(one),), {})
        laps = Laps(notes=False)
        seeds = [None] * out.slot + [one]
        with observing(laps):
            pull_back(recorder.records, seeds, recorder.inputs, consume=False)
        start = clock()
        chained(one)
        return statistics.median(laps.times.values()) - (clock() - start) / length

    return max(float(statistics.median(repeated(round_, 0.02))), 0.0)


LARGEST = 5_000
"""Longer lists of operations are not compiled for the measurement, because it could take minutes."""


class Compiled(NamedTuple):
    """Measurements of the compiled value and gradient, in seconds.

    Attributes:
        seconds, without: time of a compiled call, and of an uncompiled one measured in turn; `None` if compilation failed.
        compiling: time of the first two calls: of the trace, and of the compilation of a path.
        backend: the name of the backend.
        reason: the reason why nothing was measured.
        static: positions of arguments that had to be static.
    """

    seconds: float | None
    without: float
    compiling: float
    backend: str
    reason: str
    static: tuple[int, ...] = ()


def gradient_of(call: Call) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return value and gradient of a call as one function for `jit`, with its arguments.

    Results that are no single number are summed, so that their cotangents are ones.
    """
    variables, count = call.variables, len(call.args)

    def total(*args: Any, **kwargs: Any) -> Any:
        with standing_in(zip(variables, args[count:], strict=True)):
            out = call.function(*args[:count], **kwargs)
        out = out[0] if call.has_aux else out
        leaves = [leaf for leaf in flatten(out)[0] if dtype_of(leaf).kind in "fc"]
        if len(leaves) == 1 and np.shape(leaves[0]) == () and dtype_of(leaves[0]).kind == "f":
            return leaves[0]
        return sum([np.sum(leaf.real if dtype_of(leaf).kind == "c" else leaf) for leaf in leaves])

    total.__name__ = total.__qualname__ = call.name
    positions = (*[k for k in call.keys if isinstance(k, int)], *range(count, count + len(variables)))
    names = tuple([k for k in call.keys if isinstance(k, str)])
    selection = Selection("jit", total, positions, names or None)
    made = gradient_function(selection, allow_int=True, with_value=True)
    args, kwargs = call.copies()
    return made, (*args, *[v.copied() for v in variables]), kwargs


def compiled(call: Call, operations: int) -> Compiled:
    """Compile value and gradient of a call of `operations` operations, and measure them."""
    if operations > LARGEST:
        return Compiled(None, 0.0, 0.0, "", f"with {operations} operations, compiling it to measure that could take minutes")
    f, args, kwargs = gradient_of(call)
    options: dict[str, Any] = {}
    if call.jitted is not None:
        inner = getattr(call.jitted, "__func__", call.jitted)
        own, given, named = inner.given
        options = inspect.signature(jit).bind(own, *given, **named).arguments
        del options["f"]
        if inner is not call.jitted:  # the positions of a method include the object
            options["static_argnums"] = ()
    reason = ""
    statics = dict.fromkeys([(), () if options else call.integers()])
    for guards, static in itertools.product((False, True), statics):  # a list for all values is better than a path
        try:
            return _measured(f, args, kwargs, call, options or {"static_argnums": static, "guards": guards}, static)
        except Exception as error:  # noqa: BLE001 - any exception during the trace becomes the reason
            reason = reason or sentences_of(error)[0]
    return Compiled(None, 0.0, 0.0, "", reason)


def _measured(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Call,
    options: dict[str, Any],
    static: tuple[int, ...],
) -> Compiled:
    """Compile a function and measure it."""
    program: Any = jit(f, **options)

    def run() -> tuple[float]:
        start = clock()
        program(*args, **kwargs)
        return (clock() - start,)

    with quiet(), call.undisturbed():
        first = sum(run() + run())  # the second call compiles a path
        times = repeated(lambda: (sum(warm(run)), sum(warm(lambda: gradient_times(call)))))  # in turn, for comparison
    seconds, without = (statistics.median(column) for column in zip(*times, strict=True))
    return Compiled(seconds, without, first, program.compiler.backend.name, "", static)


def sentences_of(error: BaseException | None) -> tuple[str, str]:
    """Return the first sentence of an error message and the others, without the error code.

    The type of an error from outside functad precedes the first sentence.
    """
    text = re.sub(r" \[[a-z-]+\]$", "", " ".join(str(error).split()))
    parts = re.match(r"(.*?[.?!])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.) (.*)", text)
    first, rest = parts.groups() if parts else (text, "")
    first = first if first.endswith(("?", "!")) else first.rstrip(".") + "."
    return first if isinstance(error, FunctadError) else f"{type(error).__name__}: {first}", rest
