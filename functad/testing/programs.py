"""Random straight-line NumPy programs: drawn line by line on actual values, printed as plain source, called as a function.

A program is drawn together with its inputs and run while it grows, so that every line is valid: shapes fit, arguments lie in
the domain of the function, results are finite and small. A line that is not is taken back.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

Choose = Callable[[int], int]
"""`choose(n)` returns one of `0 ... n - 1`: all that is random in a program goes through it."""

LARGEST_SIZE = 60
LARGEST_VALUE = 50.0


@dataclass(frozen=True)
class Program:
    """A function of arrays, and arrays to call it with.

    Attributes:
        lines: the assignments, in order; all values that no other line reads are returned.
        inputs: an array for each argument `x0`, `x1`, ...
        families: the families that its lines come from.
        value_dependent: shapes or dtypes may depend on values, so that it has no expression list.
        mutates: it assigns to elements of arrays.

    Example:
        >>> program = Program(("a0 = np.sin(x0)", "a1 = np.sum(a0, axis=0)"), (np.zeros((2, 3)),), ("shown",))
        >>> print(program)
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def program(x0):
            a0 = np.sin(x0)
            a1 = np.sum(a0, axis=0)
            return a1
        <BLANKLINE>
        <BLANKLINE>
        inputs = [np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])]
        >>> program(*program.inputs)
        array([0., 0., 0.])
    """

    lines: tuple[str, ...]
    inputs: tuple[Any, ...]
    families: tuple[str, ...]
    value_dependent: bool = False
    mutates: bool = False

    @property
    def source(self) -> str:
        """The definition of the function."""
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = [*self.lines, f"return {', '.join(self.results)}"]
        return f"def program({names}):\n" + "".join(f"    {line}\n" for line in body)

    @property
    def results(self) -> list[str]:
        """The names of the results: what no other line makes a value from, so that every line counts, and the newest first."""
        made = [line.partition(" = ")[0] for line in self.lines if is_binding(line)]
        read = [re.findall(r"\w+", line.partition(" = ")[2]) for line in self.lines if is_binding(line)]
        written = {name for line in self.lines if not is_binding(line) for name in re.findall(r"\bb\d+", line)}
        loose = [name for i, name in enumerate(made) if name in written or not any(name in names for names in read[i + 1 :])]
        return loose[::-1]

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The compiled function."""
        space: dict[str, Any] = {"np": np}
        exec(compile(self.source, "<random program>", "exec"), space)  # noqa: S102 - the text was drawn from a fixed grammar
        function: Callable[..., Any] = space["program"]
        return function

    def __call__(self, *inputs: Any) -> Any:
        """Run the program."""
        with np.errstate(all="ignore"):
            return self.function(*inputs)

    def __repr__(self) -> str:
        arrays = ", ".join(map(literal, self.inputs))
        return f"import numpy as np\n\n\n{self.source}\n\ninputs = [{arrays}]"

    __str__ = __repr__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print as source in the reports of Hypothesis too, which shows the fields of data classes otherwise."""
        for i, text in enumerate(repr(self).splitlines()):
            if i:
                printer.break_()
            printer.text(text)


def is_binding(line: str) -> bool:
    """Say whether a line gives a name to a value, rather than to write into one."""
    left, equals, _ = line.partition(" = ")
    return bool(equals) and left.isidentifier()


class Impossible(Exception):  # noqa: N818 - it is no error: another line is drawn
    """What was drawn does not fit the values at hand."""


@dataclass
class Draft:
    """A program that grows.

    Attributes:
        choose: the source of randomness.
        max_rank: the largest number of axes.
        space: the values of all names so far, and NumPy.
        names: of the values that lines may read; the last are the newest.
        buffers: names of arrays that the program made, and may write into.
        lines, families: what is drawn so far.
    """

    choose: Choose
    max_rank: int
    space: dict[str, Any] = field(default_factory=lambda: {"np": np})
    names: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    value_dependent: bool = False
    mutates: bool = False

    def one(self, options: Sequence[Any]) -> Any:
        """Return one of several things; the first is the simplest."""
        if not options:
            raise Impossible
        return options[self.choose(len(options))]

    def operand(self, where: Callable[[Any], bool] = lambda value: True) -> str:
        """Return the name of a value that fulfils a condition: most often the newest."""
        fitting = [name for name in reversed(self.names) if where(self.space[name])]
        return str(self.one([*fitting[:1] * 3, *fitting]))

    def array(self, least: int = 1) -> str:
        """Return the name of a value with at least so many axes, and elements in it."""
        return self.operand(lambda value: np.ndim(value) >= least and np.size(value) > 0)

    def value(self, expression: str) -> Any:
        """Evaluate an expression."""
        with np.errstate(all="ignore"):
            return eval(expression, self.space)  # noqa: S307 - the text was drawn from a fixed grammar

    def shape(self, expression: str) -> tuple[int, ...]:
        """Return the shape of an expression."""
        return np.shape(self.value(expression))

    def number(self) -> str:
        """Return a constant."""
        return str(self.one(["0.5", "2.0", "-1.5", "3", "1.0", "-0.25"]))

    def axis(self, ndim: int) -> int:
        """Return an axis, counted from either end."""
        if not ndim:
            raise Impossible
        return int(self.one([*range(ndim), *range(-ndim, 0)]))

    def axes(self, ndim: int) -> Any:
        """Return `None`, an axis, or several."""
        if not self.choose(3):
            return None
        if ndim < 2 or self.choose(2):
            return self.axis(ndim)
        return tuple(sorted({self.choose(ndim), self.choose(ndim)}))

    def within(self, name: str, low: float, high: float) -> str:
        """Return an expression with values between two numbers: the name itself if its values are, else squashed."""
        value = self.space[name] if name in self.space else self.value(name)
        margin = (high - low) * 1e-3
        if np.size(value) == 0 or (np.min(value) > low + margin and np.max(value) < high - margin):
            return name
        middle, half = (low + high) / 2, (high - low) / 2 * 0.98
        squashed = f"{half:.6g} * np.sin({name})"
        return f"({middle:.6g} + {squashed})" if middle else f"({squashed})"

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """Return an expression with a given shape made from a value."""
        own = np.shape(self.space[name])
        if own == shape:
            return name
        return f"np.mean({name})" if shape == () else f"np.resize({name}, {shape})"

    def add(self, expression: str, family: str) -> None:
        """Append a line that names the value of an expression.

        Raises:
            Impossible: the value is nothing to go on with.
        """
        expression, value = self._real(expression)
        if not self.accepts(value):
            raise Impossible
        name = f"a{len(self.names)}"
        self.space[name] = value
        self.names.append(name)
        self.lines.append(f"{name} = {expression}")
        self.families.append(family)

    def _real(self, expression: str) -> tuple[str, Any]:
        """Return an expression for one real array, made from one with complex or several results, and its value."""
        value = self.value(expression)
        if isinstance(value, (tuple, list)):
            expression = f"{expression}[{self.choose(len(value)) if value else 0}]"
            value = self.value(expression)
        if getattr(value, "dtype", None) == np.complex128:
            expression = f"{self.one(['np.real', 'np.imag', 'np.abs'])}({expression})"
            value = self.value(expression)
        return expression, value

    def accepts(self, value: Any) -> bool:
        """Say whether a value is one that the program may go on with."""
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype != np.float64:
            return False
        if value.ndim > self.max_rank or value.size > LARGEST_SIZE:
            return False
        return value.size == 0 or bool(np.max(np.abs(value)) <= LARGEST_VALUE)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Take back what is done inside if it turns out impossible: NumPy refuses it, or its values are not wanted."""
        before = {name: np.array(value) for name, value in self.space.items() if name != "np"}
        counts = len(self.names), len(self.buffers), len(self.lines), len(self.families)
        flags = self.value_dependent, self.mutates
        try:
            yield
        except (Impossible, Warning, ArithmeticError, IndexError, TypeError, ValueError):
            del self.names[counts[0] :], self.buffers[counts[1] :], self.lines[counts[2] :], self.families[counts[3] :]
            self.value_dependent, self.mutates = flags
            for name in [name for name in self.space if name != "np" and name not in before]:
                del self.space[name]
            for name in self.buffers:
                self.space[name][...] = before[name]


Line = Callable[[Draft], str]
FAMILIES: dict[str, list[Line]] = {}
"""By the name of a family, the lines that belong to it; `program_entries` and `program_lines` fill it."""


def line(family: str) -> Callable[[Line], Line]:
    """Enter a line, a function from a draft to an expression, into a family."""

    def enter(function: Line) -> Line:
        FAMILIES.setdefault(family, []).append(function)
        return function

    return enter


def broadcasts(x: Any, y: Any) -> bool:
    """Say whether two values broadcast, to something that is not too large."""
    try:
        return math.prod(np.broadcast_shapes(np.shape(x), np.shape(y))) <= LARGEST_SIZE
    except ValueError:
        return False


def draw_program(
    choose: Choose,
    *,
    max_operations: int = 8,
    max_rank: int = 4,
    families: Collection[str] | None = None,
    mutation: bool = False,
) -> Program:
    """Return a random program.

    Args:
        choose: the source of randomness: `choose(n)` returns one of `0 ... n - 1`.
        max_operations: the number of lines, at most.
        max_rank: the largest number of axes of any value.
        families: names of those to draw lines from (see `FAMILIES`); all by default.
        mutation: also draw lines that write into arrays.

    Returns:
        A `Program`: lines of NumPy code, and inputs for it.

    Raises:
        ValueError: a family is unknown.

    Example:
        >>> rng = np.random.default_rng(3)
        >>> program = draw_program(lambda n: int(rng.integers(n)), max_operations=3)
        >>> 1 <= len(program.lines) <= 3
        True
    """
    import functad.testing.program_entries  # noqa: PLC0415 - the lines are written in terms of drafts
    import functad.testing.program_lines  # noqa: F401, PLC0415
    from functad.testing.program_writes import WRITES  # noqa: PLC0415

    wanted = sorted(FAMILIES) if families is None else list(families)
    unknown = sorted(set(wanted) - set(FAMILIES))
    if unknown:
        raise ValueError(f"there is no family {unknown[0]!r} of lines; there are {', '.join(sorted(FAMILIES))}")
    draft = Draft(choose, max_rank)
    inputs = _draw_inputs(draft)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")  # what NumPy warns of is no line to go on with
        for count in range(max_operations):
            if count and not choose(2 * max_operations):  # asked at each line, so that lines can be left out one by one
                break
            if mutation and (not draft.buffers or choose(2)):
                with draft.undoing():
                    draft.one(WRITES if draft.buffers else WRITES[:1])(draft)
                continue
            family = draft.one(wanted)
            with draft.undoing():
                draft.add(draft.one(FAMILIES[family])(draft), family)
    if not draft.lines:
        draft.add("x0 * 0.5", "elementwise")
    return Program(tuple(draft.lines), inputs, tuple(draft.families), draft.value_dependent, draft.mutates)


def _draw_inputs(draft: Draft) -> tuple[Any, ...]:
    """Draw one to three inputs whose shapes often broadcast, with values of three decimals, no two of the same size."""
    values = np.random.default_rng(draft.choose(1 << 16))
    lengths = [1 + draft.choose(3) for _ in range(draft.max_rank)]
    inputs = []
    for i in range(1 + draft.choose(3)):
        rank = (2, 1, 3, 0, 4)[draft.choose(5)]
        rank = min(rank, draft.max_rank)
        shape = tuple(1 if draft.choose(6) == 5 else n for n in lengths[draft.max_rank - rank :])
        while (count := int(np.prod(shape, dtype=int))) > LARGEST_SIZE // 2:
            shape = tuple((n + 1) // 2 for n in shape)
        drawn = values.choice(np.arange(1, 2000), count, replace=False) / 1000 * values.choice([-1.0, 1.0], count)
        inputs.append(drawn.reshape(shape)[()])
        draft.space[f"x{i}"] = inputs[-1]
        draft.names.append(f"x{i}")
    return tuple(inputs)


def literal(value: Any) -> str:
    """Return the source text of an argument of a call.

    Raises:
        Impossible: it has none.
    """
    if isinstance(value, np.ndarray):
        if not value.size:
            return f"np.zeros({value.shape}, np.{value.dtype.name})"
        plain = value.dtype in (np.float64, np.int64, np.bool_)
        return f"np.array({_spelled(value.tolist())}{'' if plain else f', np.{value.dtype.name}'})"
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({_spelled(value.item())})"
    if isinstance(value, np.dtype):
        return f"np.{value.name}"
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"np.{value.__name__}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if type(value) is tuple:
        return f"({''.join(f'{literal(part)}, ' for part in value)})"
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if value is None or isinstance(value, (bool, int, float, str)) or value is Ellipsis:
        return _spelled(value) if value is not Ellipsis else "..."
    raise Impossible


def _spelled(value: Any) -> str:
    """Return the text of numbers, and of lists of them, that Python reads where only `np` is known."""
    return repr(value) if isinstance(value, str) else re.sub(r"\b(nan|inf)\b", r"np.\1", repr(value))
