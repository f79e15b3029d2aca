"""`profile`: time and memory of a function and its gradient, line by line, with displays as text, notebook page and picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from functad.display import (
    Markup,
    bytes_text,
    code,
    counted,
    cut,
    drawing,
    fold,
    heading,
    picture,
    seconds_text,
    share_text,
    table,
    tag,
    text_table,
    view,
    wrapped,
)
from functad.expressions.records import Place
from functad.profiling.measure import NOWHERE, Call, Compiled, Measured, Timed, compiled, measured
from functad.transforms.transform import ArgNames, ArgNums


class Row(NamedTuple):
    """Time (seconds) and memory (bytes) of a line, an operation on a line, or a function.

    Attributes:
        function: the name of the user's function.
        line: file and line number.
        code: the text of the line.
        operation: the name of the operation; empty if the row sums all operations.
        calls: the number of operations.
        forward: time in NumPy in the forward pass.
        backward: time in derivative rules.
        bytes: bytes of the arrays created in both passes.
        share: share of the time of all rows.

    Example:
        >>> import functad
        >>> [row] = functad.profile(lambda x: x * 3.0, 2.0).rows
        >>> row.operation, row.calls
        ('np.multiply', 1)
    """

    function: str
    line: str
    code: str
    operation: str
    calls: int
    forward: float
    backward: float
    bytes: int
    share: float

    @property
    def time(self) -> float:
        """Time of both passes."""
        return self.forward + self.backward


class Total(NamedTuple):
    """Time (seconds) and memory (bytes) of a whole gradient.

    Attributes:
        function: time of a call of the function alone, without functad.
        forward: time of the forward pass, with recording.
        backward: time of the backward pass.
        numpy: the part of both passes in NumPy and derivative rules.
        python: the part in other user code: Python, and NumPy code without Tensors.
        recording: the part in functad: recording, and the overhead of the backward pass.
        operations: the number of operations.
        function_peak: peak memory of the function alone.
        peak: peak memory of the gradient.
        bytes: bytes of all created arrays.

    Example:
        >>> import functad
        >>> total = functad.profile(lambda x: x * 3.0, 2.0).total
        >>> total.operations, total.numpy <= total.time
        (1, True)
    """

    function: float
    forward: float
    backward: float
    numpy: float
    python: float
    recording: float
    operations: int
    function_peak: int
    peak: int
    bytes: int

    @property
    def time(self) -> float:
        """Time of value and gradient."""
        return self.forward + self.backward


class Bar(NamedTuple):
    """A bar of the picture: a function, or a line of a function, with the bars inside it.

    Attributes:
        name: the name of the function, or the text of the line.
        place: the place of the function or line.
        forward, backward: times in seconds.
        bars: the bars of the functions and lines that ran inside.
    """

    name: str
    place: Place
    forward: float
    backward: float
    bars: tuple[Bar, ...]

    @property
    def time(self) -> float:
        """Time of both passes."""
        return self.forward + self.backward


UNSEEN = "code without Tensors"
"""The operation name of a row for user code without Tensors that takes a significant time."""

_LEAST_UNSEEN = 500e-6
_UNSEEN_SHARE = 0.1


class Profile:
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
        self._steps = [*found.operations, *unseen]
        self.rows = self._rows(lambda step: {(_last(step).where, step.name): _row_of(step)})
        self.total = _total(found)
        self.unseen = sum([step.forward for step in unseen])

    def lines(self) -> tuple[Row, ...]:
        """Return one row per line of the user's code, sorted by time."""
        rows = self._rows(lambda step: {(_last(step).where, step.name == UNSEEN): _row_of(step)})
        return tuple([row if row.operation == UNSEEN else row._replace(operation="") for row in rows])

    def functions(self) -> tuple[Row, ...]:
        """Return one row per user function, including the functions that it calls, sorted by time.

        The time of a callee also counts for its callers, so the shares add up to more than one.
        """
        return self._rows(lambda step: {place.function: _row(place) for place in reversed(step.path)})

    def bars(self) -> tuple[Bar, ...]:
        """Return the time as a tree: functions, then the functions and lines inside them."""
        return _bars(self._steps)

    def svg(self) -> str:
        """Return a picture of `bars` as SVG: widths are times; forward and backward passes have different colours."""
        return drawing(picture_of(self))

    def __repr__(self) -> str:
        lines = self.lines()
        parts = [_title(self), ""]
        parts.append(text_table(_COLUMNS, [_cells(row) for row in lines[:LONGEST]], right=_RIGHT, middle=[0]))
        if len(lines) > LONGEST:
            rest = sum([row.time for row in lines[LONGEST:]])
            parts.append(f"and {counted(len(lines) - LONGEST, 'more line')} that take {seconds_text(rest)}")
        parts.append("")
        parts += [wrapped(sentence, following="  ") for sentence in sentences(self)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        lines, rows = self.lines(), self.rows
        cells = [[code(short(row.line)), code(row.code), *_cells(row)[2:]] for row in lines]
        more = [table(_COLUMNS, cells[LONGEST:], right=_RIGHT)] if len(lines) > LONGEST else []
        every = [[code(short(row.line)), code(row.operation), *_cells(row)[2:]] for row in rows]
        return view(
            heading(_title(self)),
            picture_of(self),
            table(_COLUMNS, cells[:LONGEST], right=_RIGHT),
            fold(counted(len(lines) - LONGEST, "more line"), *more) if more else None,
            fold("Operation by operation", table(["line", "operation", *_COLUMNS[2:]], every, right=_RIGHT)),
            *[tag("div", sentence) for sentence in sentences(self)],
        )

    def _rows(self, rows_of: Callable[[Timed], dict[Any, Row]]) -> tuple[Row, ...]:
        """Return the rows with the sums of all steps; `rows_of` gives the rows of a step, by key, before the sums."""
        whole = sum([step.forward + step.backward for step in self._steps]) or 1.0
        found: dict[Any, Row] = {}
        for step in self._steps:
            for key, row in rows_of(step).items():
                found[key] = _added(found.get(key, row), step, whole)
        return tuple(sorted(found.values(), key=lambda row: -row.time))


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


# Rows, totals and bars


def _last(step: Timed) -> Place:
    """Return the line of a step."""
    return step.path[-1] if step.path else NOWHERE


def _row(place: Place, text: str = "", operation: str = "") -> Row:
    return Row(place.function, place.where or UNKNOWN, text, operation, 0, 0.0, 0.0, 0, 0.0)


def _row_of(step: Timed) -> Row:
    place = _last(step)
    return _row(place, f"({UNSEEN}, before this)" if step.name == UNSEEN else place.text, step.name)


def _unseen(found: Measured) -> list[Timed]:
    """Return the steps for user code between operations that takes longer than plain Python overhead."""
    least = max(_LEAST_UNSEEN, _UNSEEN_SHARE * (found.forward + found.backward))
    steps = [Timed(UNSEEN, timed.path, forward=timed.before) for timed in found.operations if timed.before >= least]
    if found.after >= least and found.operations:
        steps.append(Timed(UNSEEN, found.operations[-1].path[:1], forward=found.after))
    alone = found.plain - sum([timed.forward for timed in found.operations])
    return steps if alone >= 0.5 * sum([step.forward for step in steps]) else []  # otherwise functad itself took that time


def _total(found: Measured) -> Total:
    operations = found.operations
    forward = min(sum([timed.forward for timed in operations]), found.plain, found.forward)
    rules = sum([max(timed.backward - found.walk, 0.0) for timed in operations if timed.backward])
    numpy = forward + min(rules, found.backward)
    python = min(max(found.plain - forward, 0.0), found.forward - forward)
    made = sum([timed.bytes for timed in operations])
    recording = found.forward + found.backward - numpy - python
    peaks = found.plain_peak, found.peak
    return Total(found.plain, found.forward, found.backward, numpy, python, recording, len(operations), *peaks, made)


def _added(row: Row, step: Timed, whole: float) -> Row:
    forward, backward = row.forward + step.forward, row.backward + step.backward
    return row._replace(
        calls=row.calls + 1,
        forward=forward,
        backward=backward,
        bytes=row.bytes + step.bytes,
        share=(forward + backward) / whole,
    )


def _bars(steps: list[Timed], depth: int = 0) -> tuple[Bar, ...]:
    """Return the bars of steps with equal paths up to `depth`: functions, then lines, in order of first execution."""
    groups: dict[tuple[str, str], list[Timed]] = {}
    for step in steps:
        if depth < len(step.path):
            groups.setdefault((step.path[depth].function, ""), []).append(step)
        elif depth == len(step.path):
            place = _last(step)
            text = UNSEEN if step.name == UNSEEN else place.text or step.name
            groups.setdefault((text, place.where), []).append(step)
    bars = []
    for (name, _), group in groups.items():
        path = group[0].path
        place = path[min(depth, len(path) - 1)] if path else NOWHERE
        forward, backward = (sum(column) for column in zip(*[(s.forward, s.backward) for s in group], strict=True))
        bars.append(Bar(name, place, forward, backward, _bars(group, depth + 1)))
    return tuple(bars)


# Displays

LONGEST = 12
"""The largest number of lines in a text; a page folds the rest."""

_COLUMNS = ["line", "code", "calls", "forward", "backward", "made", "share"]
_RIGHT = [2, 3, 4, 5, 6]

UNKNOWN = "an unknown line"


def short(line: str) -> str:
    """Return a line without the folder of its file."""
    return PurePath(line).name if not line.startswith("<") else line


def _title(profile: Profile) -> str:
    total = profile.total
    return (
        f"{cut(profile.function, 30)}: value and gradient in {seconds_text(total.time)}, "
        f"{counted(total.operations, 'operation')}"
    )


def _cells(row: Row) -> list[Any]:
    return [
        short(row.line),
        row.code or row.operation,
        f"{row.calls:,}",
        seconds_text(row.forward),
        seconds_text(row.backward),
        bytes_text(row.bytes),
        share_text(row.share, 1.0),
    ]


def sentences(profile: Profile) -> Iterator[str]:
    """Yield the summary of a profile, a sentence or two at a time."""
    total = profile.total
    parts = {"NumPy and derivative rules": total.numpy, "the rest of your code": total.python, "recording": total.recording}
    told = ", ".join([f"{name} {seconds_text(part)} ({share_text(part, total.time)})" for name, part in parts.items()])
    yield f"Of the {seconds_text(total.time)}: {told}."
    ratio = total.time / total.function if total.function else 1.0
    times = f"{ratio:.1f} times that" if ratio > 1.05 else "no more"
    yield f"The function alone takes {seconds_text(total.function)}, with its gradient {times}."
    yield f"Peak memory: {bytes_text(total.function_peak)} by the function, {bytes_text(total.peak)} with its gradient."
    yield compiling(profile)
    if profile.unseen:
        yield (
            f"Code in which nothing is differentiated takes {seconds_text(profile.unseen)} before the lines above it is listed "
            f"at. If it is the same in each call, compute it once, outside: a compiled function does so when it is compiled."
        )
    yield from profile.notes


def compiling(profile: Profile) -> str:
    """Return one or two sentences about the time that compilation saves."""
    total, program = profile.total, profile.compiled
    overhead = total.python + total.recording
    if program.seconds is None:
        reason = program.reason.rstrip(".")
        return (
            f"Compiling was not measured: {reason}. What it takes away, where it can be done, is the rest of your code and "
            f"recording at least: {seconds_text(overhead)}, or {share_text(overhead, total.time)}."
        )
    static = f", static_argnums={program.static}" if program.static else ""
    how = f"functad.jit of the gradient (backend {program.backend}{static}) takes {seconds_text(program.seconds)}"
    cost = f"Compiling took {seconds_text(program.compiling)}"
    saved = total.time * (1.0 - program.seconds / program.without)
    if saved <= _WORTH * total.time:
        why = "the time is spent inside its operations"
        return f"{how}, and saves nothing: {why if overhead < 0.3 * total.time else 'its calls cost as much'}. {cost}."
    part = min(overhead, saved)
    fewer = f", and {seconds_text(saved - part)} of NumPy's" if saved - part > 0.02 * total.time else ""
    calls = max(round(program.compiling / saved), 1)
    return (
        f"{how}, {program.without / program.seconds:.1f} times less: it takes away {seconds_text(part)} of the rest of your "
        f"code and recording{fewer}. {cost}, which {counted(calls, 'call')} {'repays' if calls == 1 else 'repay'}."
    )


_WORTH = 0.05
"""The smallest share of the time that counts as saved by compilation."""


# The picture

_WIDTH, _HEIGHT, _LETTER = 760.0, 22.0, 7.3
_LEAST = 1.5


def picture_of(profile: Profile) -> Markup:
    """Return the bars as a flame graph: nested as the functions called each other, with widths as times.

    The left part of each bar, blue, is the forward pass. The right part, orange, is the derivative.
    """
    bars = profile.bars()
    whole = sum([bar.time for bar in bars]) or 1.0
    drawn = list(_drawn(bars, 0.0, 0, _WIDTH / whole, whole))
    legend = _depth(bars) * _HEIGHT + 16
    key = [
        tag("rect", x=0, y=legend - 9, width=10, height=10, fill="var(--ftd-blue)", fill_opacity=0.55),
        tag("text", "forward", x=16, y=legend),
        tag("rect", x=84, y=legend - 9, width=10, height=10, fill="var(--ftd-orange)", fill_opacity=0.55),
        tag("text", "backward", x=100, y=legend),
    ]
    return picture(_WIDTH, legend + 6, *drawn, *key, label=f"Where the time of {profile.function} goes")


def _depth(bars: Sequence[Bar]) -> int:
    return max([1 + _depth(bar.bars) for bar in bars], default=0)


def _drawn(bars: Sequence[Bar], left: float, level: int, scale: float, whole: float) -> Iterator[Markup]:
    for bar in bars:
        width, ahead = bar.time * scale, bar.forward * scale
        if width >= _LEAST:
            yield _one(bar, left, level * _HEIGHT, width, ahead, whole)
            yield from _drawn(bar.bars, left, level + 1, scale, whole)
        left += width


def _one(bar: Bar, x: float, y: float, width: float, ahead: float, whole: float) -> Markup:
    high = _HEIGHT - 2
    where = short(bar.place.where or UNKNOWN)
    told = (
        f"{bar.name} ({where}): forward {seconds_text(bar.forward)}, backward {seconds_text(bar.backward)}, "
        f"{share_text(bar.time, whole)}"
    )
    letters = int((width - 8) / _LETTER)
    label = cut(bar.name, letters) if letters >= 4 else ""
    return tag(
        "g",
        tag("title", told),
        _box(x, y, ahead, high, "blue"),
        _box(x + ahead, y, width - ahead, high, "orange"),
        tag("text", label, x=f"{x + 4:.1f}", y=f"{y + 14:.1f}") if label else None,
    )


def _box(x: float, y: float, width: float, height: float, name: str) -> Markup | None:
    if width <= 0:
        return None
    return tag(
        "rect",
        x=f"{x:.2f}",
        y=f"{y:.1f}",
        width=f"{max(width - 0.6, 0.3):.2f}",
        height=f"{height:g}",
        fill=f"var(--ftd-{name})",
        fill_opacity=0.35,
    )
