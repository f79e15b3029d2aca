"""A random program while it grows: the values of its names so far, from which the next line is drawn.

It is run while it grows, so that every line is valid: shapes fit, arguments lie in the domain of the function, results are
finite and small. A line that is not is taken back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad.testing.programs.text import Impossible, listed

Choose = Callable[[int], int]
"""`choose(n)` returns one of `0 ... n - 1`: all that is random in a program goes through it."""

LARGEST_SIZE = 60
LARGE_SIZE = 40_000
LARGEST_VALUE = 50.0

VALUE_DEPENDENT = re.compile(r"np\.place|np\.putmask|put_along_axis|\[[^]]*[<>]")
"""Statements that need values: how many elements they write, or where, depends on them."""


@dataclass
class Draft:
    """A program that grows.

    Attributes:
        choose: the source of randomness.
        max_rank: the largest number of axes.
        space: the values of all names so far, and NumPy.
        names: of the values that lines may read; the last are the newest.
        largest: the largest number of elements.
        numbers: Python numbers and values in single precision may occur.
        buffers: names of arrays that the program made, and may write into.
        scratch: names of plain arrays of numbers, indices and booleans, which depend on no input, and are overwritten.
        masks: names of booleans, one or many, that come from comparisons.
        lines, families: what is drawn so far.
    """

    choose: Choose
    max_rank: int
    largest: int = LARGEST_SIZE
    numbers: bool = False
    space: dict[str, Any] = field(default_factory=lambda: {"np": np})
    names: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    scratch: list[str] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    value_dependent: bool = False
    mutates: bool = False

    def one(self, options: Sequence[Any]) -> Any:
        """Return one of several things; the first is the simplest."""
        if not options:
            raise Impossible
        return options[self.choose(len(options))]

    def way(self, table: str) -> str:
        """Return one of the expressions of a table, as `listed` reads it."""
        return str(self.one(listed(table)))

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

    def ties(self, name: str) -> bool:
        """Say whether two elements of a value are equal, or nearly: which of them comes first is nobody's choice then."""
        return bool(np.min(np.diff(np.sort(self.space[name], axis=None)), initial=1.0) < 1e-3)

    def untied(self) -> str:
        """Return the name of an array whose elements have an order.

        Raises:
            Impossible: the one that was drawn has ties.
        """
        name = self.array()
        if self.ties(name):
            raise Impossible
        return name

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
        self.bind("a", expression, value, family, self.names)

    def bind(self, letter: str, expression: str, value: Any, family: str, *lists: list[str]) -> str:
        """Append a line that names a value, put the name, which begins with a letter, on lists, and return it."""
        name = f"{letter}{len(lists[0])}"
        self.space[name] = value
        for names in lists:
            names.append(name)
        self.state(f"{name} = {expression}", family)
        return name

    def run(self, statement: str, family: str) -> None:
        """Run a statement that writes, and append it if all values are still finite and small.

        Raises:
            Impossible: they are not.
        """
        exec(statement, self.space)  # noqa: S102 - the text was drawn from a fixed grammar
        if not all(self.accepts(self.space[name]) for name in self.names):
            raise Impossible
        self.state(statement, family)
        self.mutates = True
        self.value_dependent |= bool(VALUE_DEPENDENT.search(statement))

    def state(self, line: str, family: str) -> None:
        """Append a line."""
        self.lines.append(line)
        self.families.append(family)

    def is_input(self, value: Any) -> bool:
        """Say whether a value may share its memory with an input, which programs leave as it is."""
        return any(np.may_share_memory(value, x) for name, x in self.space.items() if name[0] == "x")

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
        if type(value) is float:
            return self.numbers and abs(value) <= LARGEST_VALUE
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.char not in ("df" if self.numbers else "d"):
            return False
        if value.ndim > self.max_rank or value.size > self.largest:
            return False
        return value.size == 0 or bool(np.max(np.abs(value)) <= LARGEST_VALUE)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Take back what is done inside if it turns out impossible: NumPy refuses it, or its values are not wanted."""
        written = {name: np.array(self.space[name]) for name in (*self.buffers, *self.scratch)}
        known = set(self.space)
        lists = (self.names, self.buffers, self.scratch, self.masks, self.lines, self.families)
        counts = [len(names) for names in lists]
        flags = self.value_dependent, self.mutates
        try:
            yield
        except (Impossible, Warning, ArithmeticError, AttributeError, IndexError, SyntaxError, TypeError, ValueError):
            for names, count in zip(lists, counts, strict=True):
                del names[count:]
            self.value_dependent, self.mutates = flags
            for name in self.space.keys() - known:
                del self.space[name]
            for name, before in written.items():
                self.space[name][...] = before


Line = Callable[[Draft], str]
FAMILIES: dict[str, list[Line]] = {}
"""By the name of a family, the lines that make new values; the modules of the lines fill it."""

Statement = Callable[[Draft], None]
STATEMENTS: dict[str, list[Statement]] = {}
"""By the name of a family, the lines that write into arrays, and those that make what is written into."""


def line(family: str) -> Callable[[Line], Line]:
    """Enter a line, a function from a draft to an expression, into a family."""

    def enter(function: Line) -> Line:
        FAMILIES.setdefault(family, []).append(function)
        return function

    return enter


def statement(family: str, times: int = 1) -> Callable[[Statement], Statement]:
    """Enter a line that writes, which is drawn so many times as often as others, into a family."""

    def enter(function: Statement) -> Statement:
        STATEMENTS.setdefault(family, []).extend([function] * times)
        return function

    return enter


def broadcasts(x: Any, y: Any) -> bool:
    """Say whether two values broadcast, to something that is not too large."""
    try:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        return math.prod(shape) <= max(LARGEST_SIZE, np.size(x), np.size(y))
    except ValueError:
        return False


def fits(value: Any, shape: tuple[int, ...]) -> bool:
    """Say whether a value can be written into a place of a shape."""
    try:
        return np.broadcast_shapes(np.shape(value), shape) == shape
    except ValueError:
        return False
