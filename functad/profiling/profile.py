"""`profile`: time and memory of a function and its gradient, line by line."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from functad.profiling.call import Call
from functad.profiling.compiled import Compiled, compiled
from functad.profiling.measure import Measured, measured
from functad.profiling.recording import Place
from functad.profiling.rows import Bar, Row, Total
from functad.profiling.shown import Shown
from functad.transforms.calling.transform import ArgNames, ArgNums

UNSEEN = "code without Tensors"
"""The operation name of a row for user code without Tensors that takes a significant time."""

_LEAST_UNSEEN = 500e-6
_UNSEEN_SHARE = 0.1


class Profile(Shown):
    """The result of `profile`: print it, display it in a notebook, or read its rows.

    Attributes:
        function: the name of the function.
        inputs: the paths of the differentiated inputs.
        rows: one row per operation and line, sorted by time.
        total: times and memory of the whole gradient.
        compiled: times of the compiled gradient.
        unseen: seconds in user code without Tensors; 0 if insignificant.
        notes: additional remarks.

    Example:
        >>> import numpy as np, functad
        >>> found = functad.profile(lambda x: np.sum(np.sin(x) ** 2), np.ones(4))
        >>> sorted(row.operation for row in found.rows)
        ['np.power', 'np.sin', 'np.sum']
        >>> found.total.operations, found.total.time > 0
        (3, True)
    """

    def __init__(
        self, function: str, inputs: tuple[str, ...], found: Measured, program: Compiled, notes: tuple[str, ...]
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.compiled = program
        self.notes = notes
        unseen = _unseen(found)
        self._steps = [*[_step(timed.operation.path, timed.operation.name, timed) for timed in found.operations], *unseen]
        self.rows = self._rows(lambda place, operation: (place.line, operation))
        self.total = _total(found)
        self.unseen = sum([step.forward for step in unseen])

    def lines(self) -> tuple[Row, ...]:
        """Return one row per line of the user's code, sorted by time."""
        rows = self._rows(lambda place, operation: (place.line, operation == UNSEEN))
        return tuple([row if row.operation == UNSEEN else row._replace(operation="") for row in rows])

    def functions(self) -> tuple[Row, ...]:
        """Return one row per user function, including the functions that it calls, sorted by time.

        The time of a callee also counts for its callers, so the shares add up to more than one.
        """
        whole = sum([step.forward + step.backward for step in self._steps]) or 1.0
        found: dict[str, Row] = {}
        for step in self._steps:
            for place in {place.function: place for place in reversed(step.path)}.values():
                row = found.get(place.function) or Row(place.function, place.line, "", "", 0, 0.0, 0.0, 0, 0.0)
                found[place.function] = _added(row, step, whole)
        return _sorted(found.values())

    def bars(self) -> tuple[Bar, ...]:
        """Return the time as a tree: functions, then the functions and lines inside them."""
        return _bars(self._steps)

    def _rows(self, key: Callable[[Place, str], Hashable]) -> tuple[Row, ...]:
        whole = sum([step.forward + step.backward for step in self._steps]) or 1.0
        found: dict[Hashable, Row] = {}
        for step in self._steps:
            place = step.path[-1] if step.path else _NOWHERE
            own = key(place, step.operation)
            text = f"({UNSEEN}, before this)" if step.operation == UNSEEN else place.text
            row = found.get(own) or Row(place.function, place.line, text, step.operation, 0, 0.0, 0.0, 0, 0.0)
            found[own] = _added(row, step, whole)
        return _sorted(found.values())


_NOWHERE = Place("", "an unknown line", "")


class _Step(NamedTuple):
    """An operation, or the code before it, as a part of rows and bars."""

    path: tuple[Place, ...]
    operation: str
    forward: float
    backward: float
    bytes: int


def _step(path: tuple[Place, ...], name: str, timed: Any) -> _Step:
    return _Step(path, name, timed.forward, timed.backward, timed.operation.bytes + timed.back_bytes)


def _unseen(found: Measured) -> list[_Step]:
    """Return the steps for user code between operations that takes longer than plain Python overhead."""
    least = max(_LEAST_UNSEEN, _UNSEEN_SHARE * (found.forward + found.backward))
    steps = [_Step(timed.operation.path, UNSEEN, timed.before, 0.0, 0) for timed in found.operations if timed.before >= least]
    if found.after >= least and found.operations:
        path = found.operations[-1].operation.path[:1]
        steps.append(_Step(path, UNSEEN, found.after, 0.0, 0))
    alone = found.plain - sum([timed.forward for timed in found.operations])
    return steps if alone >= 0.5 * sum([step.forward for step in steps]) else []  # otherwise functad itself took that time


def _total(found: Measured) -> Total:
    operations = found.operations
    forward = min(sum([timed.forward for timed in operations]), found.plain, found.forward)
    rules = sum([max(timed.backward - found.walk, 0.0) for timed in operations if timed.backward])
    numpy = forward + min(rules, found.backward)
    python = min(max(found.plain - forward, 0.0), found.forward - forward)
    made = sum([timed.operation.bytes + timed.back_bytes for timed in operations])
    recording = found.forward + found.backward - numpy - python
    return Total(
        found.plain,
        found.forward,
        found.backward,
        numpy,
        python,
        recording,
        len(operations),
        found.plain_peak,
        found.peak,
        made,
    )


def _added(row: Row, step: _Step, whole: float) -> Row:
    forward, backward = row.forward + step.forward, row.backward + step.backward
    return row._replace(
        calls=row.calls + 1,
        forward=forward,
        backward=backward,
        bytes=row.bytes + step.bytes,
        share=(forward + backward) / whole,
    )


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: -row.time))


def _bars(steps: list[_Step], depth: int = 0) -> tuple[Bar, ...]:
    """Return the bars of steps with equal paths up to `depth`: functions, then lines, in order of first execution."""
    groups: dict[tuple[str, str], list[_Step]] = {}
    for step in steps:
        if depth < len(step.path):
            groups.setdefault((step.path[depth].function, ""), []).append(step)
        elif depth == len(step.path):
            place = step.path[-1] if step.path else _NOWHERE
            unseen = step.operation == UNSEEN
            groups.setdefault((UNSEEN if unseen else place.text or step.operation, place.line), []).append(step)
    bars = []
    for (name, _), group in groups.items():
        path = group[0].path
        place = path[min(depth, len(path) - 1)] if path else _NOWHERE
        forward, backward = (sum(column) for column in zip(*[(s.forward, s.backward) for s in group], strict=True))
        bars.append(Bar(name, place, forward, backward, _bars(group, depth + 1)))
    return tuple(bars)


def profile(
    f: Callable[..., Any],
    *args: Any,
    argnums: ArgNums | None = None,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> Profile:
    """Measure time and memory of a function and its gradient, line by line.

    `profile` runs the function and its gradient many times: alone, operation by operation, with memory counted, and compiled.
    Times are medians. The cotangents of array results are ones. Each run gets copies of all arrays, and Variables and random
    states are restored.

    Args:
        f: a function of NumPy code. For a compiled function, `profile` measures the function that it was made from.
        args: its arguments: arrays, numbers or pytrees of them, Variables, modules.
        argnums: position or positions of the arguments to differentiate with respect to. Default without `argnames`: the
            trainable Variables that the function reads, or its first argument if it reads none.
        argnames: name or names of arguments to differentiate with respect to.
        has_aux: `f` returns a pair `(value, aux)`; `aux` is ignored.
        kwargs: keyword arguments of `f`.

    Returns:
        A `Profile`. Its text has the slowest lines, the total times, the peak memory and the time that compilation would save.
        A notebook also shows a picture. Programs read `rows`, `lines()`, `functions()` and `total`.

    Raises:
        InputError: there is nothing to differentiate.
        OutputError: the result of `f` is no pytree of arrays.

    Example:
        >>> import numpy as np, functad
        >>> def loss(w, x):
        ...     return np.mean(np.tanh(x @ w) ** 2)
        >>> found = functad.profile(loss, np.ones(3), np.ones((5, 3)))
        >>> [row.calls for row in found.lines()], found.functions()[0].function
        ([4], 'loss')
    """
    call = Call("profile", f, args, kwargs, argnums, argnames, has_aux)
    found = measured(call)
    program = compiled(call, len(found.operations))
    notes = []
    if call.jitted is not None:
        notes.append(f"{call.name} is compiled; this is the profile of the function that was compiled.")
    if not found.constant:
        notes.append(
            "Not all runs did the same operations, so that the times of the lines are those of fewer runs: does the function "
            "draw random numbers, or remember something?"
        )
    return Profile(call.name, tuple([path for path, _ in call.inputs()]), found, program, tuple(notes))
