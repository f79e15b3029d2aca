"""The state of Python code at a guard, to find the loops of a function while `jit` traces it.

A guard in a loop of the user's code has a `State`: all that decides how the code goes on, apart from the answers of later
guards. If the state at a guard equals the state at an earlier guard of the same call of the same function, the code repeats
itself: the equations between both guards are one iteration of a loop, whose carry is the Tensors of the state.

The state has the place in the source, the local variables that later code may read, and all that can be reached from them,
from closures and from global variables of the same module. Tensors are compared by their specs; everything else by its value.
A guard has no state in three cases: an object cannot be compared, such as an iterator or a random generator; the guarded value
is not the test of a branch; or the iterator of an enclosing `for` loop is unknown.

Two kinds of integers may differ between equal states. They are `Counter`s, which the loop carries:

- the position of `for ... in range(...)`, if the code does not read the loop variable;
- a local variable that the code only increments by constants and compares with integers (`k += 1`, `k < most`).
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from functad.places import is_internal, is_own_frame, user_frame
from functad.primitives.operands import innermost
from functad.tracing.trace import Recorded, resolve
from functad.tracing.views import in_c_order
from functad.transforms.transform import Transformed

MOST_STATES = 4000
"""Guards of one trace beyond this number have no state."""

_MOST_OBJECTS = 1000
"""A state with more objects is not compared."""

_LARGEST = 1 << 22
"""A state with an array of more bytes is not compared."""

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, slice})
_DATA = (int, float, complex, list, dict, set, np.ndarray, np.generic, Recorded)
_BY_IDENTITY = (ModuleType, type, np.ufunc, np.dtype, CodeType)


class Counter(NamedTuple):
    """An integer of Python code whose value may differ between equal states.

    Attributes:
        name: the variable, or the place of the loop.
        value: the value.
        last: the last value of a `range`; `None` for a variable.
        cuts: integers. All comparisons of the code give one result for all values between two cuts.
        up, down: the largest increase and decrease from one guard to the next.
        returned: if the function returns the value: the length of the returned tuple, or 0, and the position in it.
    """

    name: Any
    value: int
    last: int | None
    cuts: tuple[int, ...]
    up: int
    down: int
    returned: tuple[int, int] | None

    @property
    def fixed(self) -> tuple[Any, ...]:
        """Everything but the value."""
        return self.name, self.last, self.cuts, self.up, self.down, self.returned

    def regime(self, value: Any) -> Any:
        """Return an integer that is equal for values which the code cannot distinguish before the next guard.

        A value that a comparison could see beyond a cut within one step has a regime of its own.
        """
        regime: Any = _FAR
        near: Any = False
        if self.last is not None:
            near = value == self.last
        for cut in self.cuts:
            near = near | ((value >= cut - self.up) & (value < cut + self.down))
            regime = regime + np.where(value >= cut, 1, 0)
        return np.where(near, value, regime)


_FAR = -(2**62)


class State(NamedTuple):
    """The state at a guard.

    Attributes:
        key: a hashable value, equal for equal states of one call.
        slots: the slots of the Tensors of the state, each once.
        counters: the counters.
        views: `True` if a Tensor is a view, which a write would change.
        text: the source position, for messages and comparisons.
    """

    key: Any
    slots: tuple[int, ...]
    counters: tuple[Counter, ...]
    views: bool


class UnknownStateError(Exception):
    """The state cannot be compared with others."""


class ForeignStateError(UnknownStateError):
    """The state has Tensors of another trace."""


def state_now(recorder: Any, depth: int) -> State | None:
    """Return the state of the user's code that asks a Tensor of `recorder` for its value, or `None`.

    Args:
        recorder: the trace.
        depth: the number of frames between the caller and the first frame that may be the user's.
    """
    frame = user_frame(sys._getframe(depth))
    if frame is None:
        return None
    code = _code(frame.f_code)
    place = code.place(frame.f_lasti)
    if place is None:
        return None
    walk = _Walk(recorder, frame)
    try:
        key, counters = walk.frame(code, frame)
        cells = tuple([(id(cell), cell.changed, walk.of(resolve(cell.value))) for cell in recorder.cells()])
    except ForeignStateError:
        recorder.frames.append(frame)
        recorder.foreign[id(frame), place] = recorder.foreign.get((id(frame), place), 0) + 1
        return None
    except UnknownStateError:
        return None
    recorder.frames.append((frame, walk.held))  # identities stay unambiguous while the trace runs
    fixed = tuple([counter.fixed for counter in counters])
    return State((id(frame), place, key, cells, fixed), tuple(walk.slots), tuple(counters), walk.views)


class _Walk:
    """The description of the objects of one state."""

    def __init__(self, recorder: Any, frame: FrameType) -> None:
        self.recorder = recorder
        self.slots: dict[int, int] = {}
        self.views = False
        self.held: list[Any] = []
        self._space = frame.f_globals
        self._seen: dict[int, int] = {}

    def frame(self, code: _Code, frame: FrameType) -> tuple[Any, list[Counter]]:
        """Return the key of the local and global variables of a frame, and its counters."""
        at, own = frame.f_lasti, frame.f_locals
        running = [loop for loop in code.loops if loop.start < at < loop.stop]
        counters = [self._position(code, loop, frame) for loop in running]
        targets = {loop.target for loop in running}
        found = []
        for name in sorted(code.live(at)):
            if name in targets:  # its value is the position of the loop
                continue
            if name not in own:
                found.append((name, None))
            elif type(own[name]) is int and (uses := code.uses(name, at)) is not None:
                counters.append(self._variable(name, own, frame, uses))
            else:
                found.append((name, self.of(own[name])))
        return (tuple(found), self._globals(frame.f_code)), counters

    def _position(self, code: _Code, loop: _For, frame: FrameType) -> Counter:
        """Return the counter of a `for` loop over a range.

        Raises:
            UnknownStateError: the loop has another iterator.
        """
        own = frame.f_locals
        uses = None if loop.target is None else code.read(loop.target)
        usual = loop.bounds is not None and uses is not None and "range" not in frame.f_globals and not loop.is_inner
        if not usual or type(own.get(loop.target)) is not int:
            raise UnknownStateError
        assert loop.bounds is not None
        assert uses is not None
        bounds = [_bound(kind, value, own, frame) for kind, value in loop.bounds]
        steps = range(*bounds)
        value = own[loop.target]
        if value not in steps:
            raise UnknownStateError
        cuts = self._cuts(uses.compared, own, frame)
        up, down = max(steps.step, 0), max(-steps.step, 0)
        return Counter(("for", loop.start), value, steps[-1], cuts, up, down, self._returned(uses, frame))

    def _variable(self, name: str, own: Any, frame: FrameType, uses: _Uses) -> Counter:
        cuts = self._cuts(uses.compared, own, frame)
        return Counter(name, own[name], None, cuts, uses.up, uses.down, self._returned(uses, frame))

    @staticmethod
    def _returned(uses: _Uses, frame: FrameType) -> tuple[int, int] | None:
        """Return the place of a variable in the result of the traced function; `None` if it is not returned.

        Raises:
            UnknownStateError: another function than the traced one returns it.
        """
        if uses.returned is not None:
            outer = frame.f_back
            if outer is None or not is_own_frame(outer) or outer.f_code.co_name != "of_leaves":
                raise UnknownStateError
        return uses.returned

    def _cuts(self, compared: Sequence[_Comparison], own: Any, frame: FrameType) -> tuple[int, ...]:
        cuts = set[int]()
        for operator, (kind, value) in compared:
            bound = _bound(kind, value, own, frame)
            cuts |= {"<": {bound}, ">=": {bound}, "<=": {bound + 1}, ">": {bound + 1}}.get(operator, {bound, bound + 1})
        return tuple(sorted(cuts))

    def _globals(self, code: CodeType) -> Any:
        """Return the key of the global variables that a code object reads, imported modules and functions excluded."""
        return tuple([(name, self.of(self._space[name])) for name in _names(code) if name in self._space])

    def of(self, value: Any) -> Any:
        """Return the key of an object.

        Raises:
            UnknownStateError: the object may have state that cannot be compared.
        """
        kind = type(value)
        if kind in _PLAIN:
            return kind, repr(value)
        number = self._seen.get(id(value))
        if number is not None:
            return number
        if len(self._seen) > _MOST_OBJECTS:
            raise UnknownStateError
        self._seen[id(value)] = len(self._seen)
        self.held.append(value)
        if issubclass(kind, Recorded):
            return self._tensor(value)
        if issubclass(kind, (np.ndarray, np.generic)):
            if value.dtype.hasobject or value.nbytes > _LARGEST:
                raise UnknownStateError
            return kind, value.dtype, value.shape, value.strides, value.tobytes()
        if issubclass(kind, type) and value.__module__ == self._space.get("__name__"):
            own = [(name, part) for name, part in vars(value).items() if isinstance(part, _DATA)]
            return kind, id(value), tuple([(name, self.of(part)) for name, part in own])
        if hasattr(kind, "__functad_read__") or issubclass(kind, (*_BY_IDENTITY, Transformed)):
            return kind, id(value)
        return self._parts(kind, value)

    def _parts(self, kind: type, value: Any) -> Any:
        if issubclass(kind, (tuple, list)):
            return kind, tuple([self.of(part) for part in value]), self._attributes(value)
        if issubclass(kind, dict):
            return kind, tuple([(self.of(name), self.of(part)) for name, part in value.items()]), self._attributes(value)
        if issubclass(kind, (set, frozenset)):
            if any(type(part) not in _PLAIN for part in value):
                raise UnknownStateError
            return kind, frozenset(value)
        if kind is FunctionType:
            return self._function(value), self._attributes(value)
        if kind is MethodType:
            return kind, self.of(value.__func__), self.of(value.__self__)
        if kind is BuiltinFunctionType:
            return kind, value.__name__, self.of(value.__self__)
        if kind is functools.partial:
            return kind, self.of(value.func), self.of(value.args), self.of(value.keywords)
        if isinstance(value, (np.random.Generator, np.random.RandomState)) or not hasattr(value, "__dict__"):
            raise UnknownStateError
        if hasattr(kind, "__next__"):
            raise UnknownStateError
        return kind, self._attributes(value)

    def _attributes(self, value: Any) -> Any:
        names = [name for base in type(value).__mro__ for name in _slots_of(base)]
        own = [(name, self.of(getattr(value, name))) for name in names if hasattr(value, name)]
        return *own, *[(name, self.of(part)) for name, part in getattr(value, "__dict__", {}).items()]

    def _function(self, value: FunctionType) -> Any:
        code = value.__code__
        if is_internal(code.co_filename):
            return FunctionType, id(value)
        cells = []
        for cell in value.__closure__ or ():
            try:
                cells.append(self.of(cell.cell_contents))
            except ValueError:  # the cell is empty
                cells.append(None)
        space = self._globals(code) if value.__globals__ is self._space else ()
        return FunctionType, id(code), tuple(cells), self.of(value.__defaults__), self.of(value.__kwdefaults__), space

    def _tensor(self, value: Any) -> Any:
        recorder = self.recorder
        if value.recorder is not recorder:
            if not value.recorder.inactive:
                raise ForeignStateError
            return "constant", self.of(innermost(value))
        self.views = self.views or getattr(value, "origin", None) is not None
        spec, slot = value.below, value.slot
        number = self.slots.setdefault(slot, len(self.slots))
        known = recorder.answers
        truth = bool(known[slot, True]) if (slot, True) in known else None
        answers = truth, self.of(known[slot, False]) if (slot, False) in known else None
        return number, spec.shape, spec.dtype.str, spec.weak, spec.zero_d, in_c_order(value), answers


def _bound(kind: str, value: Any, own: Any, frame: FrameType) -> int:
    """Return the value of an integer that is a constant, a local or a global variable.

    Raises:
        UnknownStateError: the value is no Python integer.
    """
    if kind == "local":
        value = own.get(value)
    elif kind == "global":
        value = frame.f_globals.get(value, getattr(builtins, value, None))
    if type(value) is not int:
        raise UnknownStateError
    return value


@functools.cache
def _slots_of(kind: type) -> tuple[str, ...]:
    found = kind.__dict__.get("__slots__", ())
    return tuple([name for name in ((found,) if type(found) is str else found) if name not in ("__dict__", "__weakref__")])


@functools.lru_cache(1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names of the global variables that a code object, or a function inside, may read."""
    inner = [name for part in code.co_consts if type(part) is CodeType for name in _names(part)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


# Analysis of bytecode


class _Step(NamedTuple):
    """An instruction, or a half of an instruction that does two things."""

    name: str
    value: Any
    offset: int


class _For(NamedTuple):
    """A `for` loop.

    Attributes:
        start, stop: its range of instructions.
        target: its variable, or `None`.
        bounds: the arguments of `range`; `None` for another iterator.
        is_inner: `True` if the loop is inside another one, which may start it again.
    """

    start: int
    stop: int
    target: Any
    bounds: Sequence[tuple[str, Any]] | None
    is_inner: bool


_Comparison = tuple[str, tuple[str, Any]]
"""An operator, and the integer on its right: a constant, or the name of a local or global variable."""


class _Uses(NamedTuple):
    """The uses of an integer variable.

    Attributes:
        compared: the comparisons with other integers.
        up, down: the sums of the positive and of the negative increments.
        starts: the instructions that assign a constant.
        returned: if all `return` statements have the variable in one place: the length of the tuple, or 0, and the place.
    """

    compared: Sequence[_Comparison]
    up: int
    down: int
    starts: Sequence[int]
    returned: tuple[int, int] | None


_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"})
_TESTS = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")
_REFLECTIVE = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"})


@functools.lru_cache(1024)
def _code(code: CodeType) -> _Code:
    return _Code(code)


class _Code:
    """The analysis of a code object.

    Attributes:
        loops: its `for` loops.
    """

    def __init__(self, code: CodeType) -> None:
        self._instructions = list(dis.get_instructions(code))
        self._offsets = [e.offset for e in self._instructions]
        self._steps = list(_taken_apart(self._instructions))
        self._positions = list(code.co_positions())
        self._handlers = _handlers(code)
        self._simple = not code.co_exceptiontable
        self._closed = frozenset({*code.co_cellvars, *code.co_freevars})
        self._all = frozenset({*code.co_varnames, *self._closed})
        self._usable = not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        self._reflective = bool(_REFLECTIVE & {*code.co_names})
        self._known: dict[str, _Uses | None] = {}
        self._live = self._analysed()
        self._turns = [
            (e.argval, e.offset)
            for e in self._instructions
            if (e.opcode in dis.hasjrel or e.opcode in dis.hasjabs) and e.argval <= e.offset
        ]
        self.loops = [self._loop(i) for i, e in enumerate(self._instructions) if e.opname == "FOR_ITER"]

    def place(self, at: int) -> Any:
        """Return the place in the source of a test of a branch in a loop; `None` for other instructions.

        The compiler copies the test of a `while`, before and at the end of the loop. Both copies have one place.
        """
        e = self._instructions[bisect_right(self._offsets, at) - 1]
        if e.offset != at or not self._usable or not (e.opname.startswith(_TESTS) or e.argrepr.startswith("bool(")):
            return None
        where = self._positions[at // 2]
        if not self._simple or None in where:
            return at if any(start <= at <= stop for start, stop in self._turns) else None
        copies = [e.offset for e in self._instructions if self._positions[e.offset // 2] == where]
        return where if any(start <= i <= stop for start, stop in self._turns for i in copies) else None

    def live(self, at: int) -> frozenset[str]:
        """Return the names of the local variables that the code may read after an instruction, those of closures included."""
        return self._live[at] | self._closed

    def uses(self, name: str, at: int) -> _Uses | None:
        """Return the uses of a local variable that is a counter in the loops around an instruction, or `None`."""
        if name not in self._known:
            self._known[name] = self._used(name, assigned=True)
        uses = self._known[name]
        around = [(start, stop) for start, stop in self._turns if start <= at <= stop]
        reset = uses is None or any(start <= i <= stop for start, stop in around for i in uses.starts)
        return None if reset else uses

    def _analysed(self) -> dict[int, frozenset[str]]:
        """Return, for each instruction, the local variables that may be read after it."""
        if self._handlers is None or self._reflective:
            return {e.offset: self._all for e in self._instructions}
        effects: dict[int, list[_Step]] = {}
        for step in self._steps:
            effects.setdefault(step.offset, []).append(step)
        following: dict[int, list[int]] = {}
        offsets = [e.offset for e in self._instructions]
        for i, e in enumerate(self._instructions):
            own = following[e.offset] = []
            if e.opname not in _ENDS and e.opname not in _JUMPS and i + 1 < len(offsets):
                own.append(offsets[i + 1])
            if e.opcode in dis.hasjrel or e.opcode in dis.hasjabs:
                own.append(e.argval)
            own += [target for start, stop, target in self._handlers if start <= e.offset < stop]
        before: dict[int, frozenset[str]] = dict.fromkeys(offsets, frozenset())
        after: dict[int, frozenset[str]] = dict(before)
        changed = True
        while changed:
            changed = False
            for offset in reversed(offsets):
                live = frozenset().union(*[before[i] for i in following[offset]])
                after[offset] = live
                for step in reversed(effects.get(offset, [])):
                    if step.name == "STORE_FAST":
                        live = live - {step.value}
                    elif step.name.endswith("_FAST") or "_FAST_" in step.name:
                        live = live | {step.value}
                for start, stop, target in self._handlers:
                    if start <= offset < stop:
                        live = live | before[target]
                if live != before[offset]:
                    before[offset], changed = live, True
        return after

    def _loop(self, i: int) -> _For:
        """Return the `for` loop of an instruction `FOR_ITER`."""
        e = self._instructions[i]
        steps = self._steps
        at = next(k for k, step in enumerate(steps) if step.offset == e.offset)
        target = steps[at + 1].value if steps[at + 1].name == "STORE_FAST" else None
        stored = [step.value for step in steps[at + 2 :] if e.offset < step.offset < e.argval and step.name == "STORE_FAST"]
        bounds = None
        if target is not None and target not in self._closed and target not in stored:
            bounds = _arguments_of_range(steps, at)
            if bounds is not None and any(kind == "local" and value in (*stored, target) for kind, value in bounds):
                bounds = None
        is_inner = any(start < e.offset <= stop for start, stop in self._turns)
        return _For(e.offset, e.argval, target, bounds, is_inner)

    def read(self, name: str) -> _Uses | None:
        """Return the uses of the variable of a `for` loop, apart from its assignments; `None` if there are others."""
        return self._used(name, assigned=False)

    def _used(self, name: str, *, assigned: bool) -> _Uses | None:
        """Return the uses of a variable that is compared and returned only, and incremented if `assigned` is set."""
        if name in self._closed or self._reflective:
            return None
        steps, compared, by, starts = self._steps, list[_Comparison](), list[int](), list[int]()
        returned = list[tuple[int, int]]()
        for i, step in enumerate(steps):
            if step.value != name or "_FAST" not in step.name:
                continue
            if step.name == "STORE_FAST":
                if not assigned:
                    continue
                if i and steps[i - 1].name == "LOAD_CONST" and type(steps[i - 1].value) is int:
                    starts.append(step.offset)
                    continue
                own = steps[i - 3 : i]
                if not _increments(own, name):
                    return None
                by.append(own[1].value if own[2].value in _ADDS else -own[1].value)
            elif step.name not in ("LOAD_FAST", "LOAD_FAST_CHECK"):
                return None
            elif assigned and _increments(steps[i : i + 3], name) and steps[i + 3][:2] == ("STORE_FAST", name):
                continue
            elif (comparison := _comparison(steps, i)) is not None and comparison[1] != ("local", name):
                compared.append(comparison)
            elif (place := _place_in_result(steps, i)) is not None:
                returned.append(place)
            else:
                return None
        ends = sum([step.name.startswith("RETURN") for step in steps])
        if (assigned and not by) or (returned and (len(set(returned)) > 1 or len(returned) != ends)):
            return None
        up, down = sum([max(n, 0) for n in by]), sum([max(-n, 0) for n in by])
        return _Uses(compared, up, down, starts, returned[0] if returned else None)


def _taken_apart(instructions: Sequence[dis.Instruction]) -> Iterator[_Step]:
    """Return the instructions without idle ones. An instruction with two local variables becomes two."""
    for e in instructions:
        name, value = e.opname, e.argval
        if type(value) is tuple and "_FAST_" in name and len(value) == 2:
            first, second = name.replace("LOAD_FAST", "L").replace("STORE_FAST", "S").split("_")[:2]
            for part, own in zip((first, second), value, strict=True):
                yield _Step("LOAD_FAST" if part == "L" else "STORE_FAST" if part == "S" else "?_FAST", own, e.offset)
        elif name not in ("NOP", "PRECALL", "CACHE", "EXTENDED_ARG", "PUSH_NULL"):
            yield _Step(name, value, e.offset)


def _handlers(code: CodeType) -> list[tuple[int, int, int]] | None:
    """Return the ranges of instructions with a handler of exceptions, and the handlers; `None` if they are not known."""
    if not code.co_exceptiontable:
        return []
    parse = getattr(dis, "_parse_exception_table", None)
    return None if parse is None else [(e.start, e.end, e.target) for e in parse(code)]


def _integer(step: _Step) -> tuple[str, Any] | None:
    """Return the source of an integer that an instruction loads, or `None`."""
    if step.name == "LOAD_CONST" and type(step.value) is int:
        return "constant", step.value
    if step.name in ("LOAD_FAST", "LOAD_FAST_CHECK"):
        return "local", step.value
    return ("global", step.value) if step.name == "LOAD_GLOBAL" else None


def _arguments_of_range(steps: Sequence[_Step], at: int) -> list[tuple[str, Any]] | None:
    """Return the arguments of the call of `range` before a loop, or `None` if there is no such call."""
    if at < 4 or steps[at - 1].name != "GET_ITER" or steps[at - 2].name != "CALL" or steps[at - 2].value not in (1, 2, 3):
        return None
    count = steps[at - 2].value
    found = [_integer(step) for step in steps[at - 2 - count : at - 2]]
    callee = steps[at - 3 - count]
    known = [each for each in found if each is not None]
    return known if callee.name == "LOAD_GLOBAL" and callee.value == "range" and len(known) == count else None


def _place_in_result(steps: Sequence[_Step], i: int) -> tuple[int, int] | None:
    """Return the length of the tuple of a `return` statement and the place of the variable loaded by step `i` in it.

    The length is 0 if the statement returns the variable alone. The result is `None` if there is no such statement.
    """
    if steps[i + 1].name == "RETURN_VALUE":
        return 0, 0
    last = next((k for k in range(i + 1, len(steps)) if not steps[k].name.startswith("LOAD_FAST")), len(steps) - 1)
    if steps[last].name != "BUILD_TUPLE" or steps[last + 1].name != "RETURN_VALUE":
        return None
    count = steps[last].value
    loads = steps[last - count : last]
    return (count, i - last + count) if all(step.name.startswith("LOAD_FAST") for step in loads) else None


def _increments(own: Sequence[_Step], name: str) -> bool:
    """Return `True` for the instructions of `name + 1` or `name - 1`, with any constant."""
    if [step.name for step in own] not in (
        ["LOAD_FAST", "LOAD_CONST", "BINARY_OP"],
        ["LOAD_FAST_CHECK", "LOAD_CONST", "BINARY_OP"],
    ):
        return False
    return own[0].value == name and type(own[1].value) is int and own[2].value in (*_ADDS, *_SUBTRACTS)


_ADDS, _SUBTRACTS = (0, 13), (10, 23)
"""The arguments of `BINARY_OP` for `+`, `+=` and for `-`, `-=`."""


def _comparison(steps: Sequence[_Step], i: int) -> tuple[str, tuple[str, Any]] | None:
    """Return the comparison of an integer variable, loaded by step `i`, with another integer, as in `k < 5`; or `None`."""
    for other, first in ((i + 1, True), (i - 1, False)):
        last = max(i, other)
        if last + 2 >= len(steps) or steps[last + 1].name != "COMPARE_OP" or not steps[last + 2].name.startswith("POP_JUMP"):
            continue
        bound = _integer(steps[other])
        operator = str(steps[last + 1].value).removeprefix("bool(").removesuffix(")")
        if bound is not None:
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
            return (operator if first else turned.get(operator, operator)), bound
    return None
