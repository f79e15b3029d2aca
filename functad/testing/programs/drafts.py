"""A growing random program with the current values of its names, which determine the next line.

Each line runs when it is drawn, so that it is valid: shapes fit, arguments lie in the domain of the function, results are
finite and small. Other lines are undone. Lines and values are source text, so that a program can be pasted and run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from functad.errors import FunctadError

Choose = Callable[[int], int]
"""`choose(n)` returns one of `0 ... n - 1`; it is the only source of randomness in a program."""


LARGEST_SIZE = 60
LARGE_SIZE = 40_000
LARGEST_VALUE = 50.0

VALUE_DEPENDENT = re.compile(
    r"np\.(place|putmask|put_along_axis|nonzero)\(|np\.extract\([^,]*>|\w\[[^]]*[<>]|\w\[m\d+\]|(?<![.\w])max\(|\.item\(| if "
)
"""Lines that need concrete values: these determine the number, position or type of the elements that they read or write."""


class Impossible(Exception):  # noqa: N818 - not an error: another line is drawn
    """The drawn line does not fit the existing values."""


REFUSALS = (
    *(Impossible, FunctadError, Warning, ArithmeticError, AttributeError, IndexError, RuntimeError, SyntaxError, TypeError),
    ValueError,
)
"""The exceptions that undo a drawn line."""


@dataclass
class Draft:
    """A growing program.

    Attributes:
        choose: the source of randomness.
        max_rank: the largest number of axes.
        space: the values of all names so far, and NumPy.
        names: names of the values that lines may read, oldest first.
        largest: the largest number of elements.
        numbers: allow Python numbers and values in single precision.
        buffers: names of arrays that the program created and may write to.
        scratch: names of plain arrays of numbers, indices and booleans; they depend on no input and are overwritten.
        masks: names of booleans or boolean arrays that come from comparisons.
        texts: the source texts of the inputs, if they have more information than the values.
        lines, families: the lines so far, and the family of each.
        value_dependent: shapes or dtypes may depend on values.
        mutates: a line writes to an array.
        takes_complex: values may be complex. Otherwise a line with a complex value takes its real part, imaginary part or size.
        least_rank: the least number of axes of buffers.
    """

    takes_complex: ClassVar[bool] = False
    least_rank: ClassVar[int] = 1
    choose: Choose
    max_rank: int
    largest: int = LARGEST_SIZE
    numbers: bool = False
    space: dict[str, Any] = field(default_factory=lambda: {"np": np})
    names: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    scratch: list[str] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)
    texts: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    value_dependent: bool = False
    mutates: bool = False

    def one(self, options: Sequence[Any]) -> Any:
        """Return one of the options; the first is the simplest."""
        if not options:
            raise Impossible
        return options[self.choose(len(options))]

    def way(self, table: str, **known: Any) -> str:
        """Return a random expression of a table (see `listed`) with its blanks filled (see `Blanks`)."""
        return Blanks(self, known).fill(self.one(listed(table)))

    def operand(self, where: Callable[[Any], bool] = lambda value: True) -> str:
        """Return the name of a value that satisfies `where`, most often the newest."""
        fitting = [name for name in reversed(self.names) if where(self.space[name])]
        return str(self.one([*fitting[:1] * 3, *fitting]))

    def array(self, least: int = 1) -> str:
        """Return the name of a nonempty value with at least `least` axes."""
        return self.operand(lambda value: np.ndim(value) >= least and np.size(value) > 0)

    def filled(self) -> str:
        """Return the name of a nonempty value."""
        return self.array(0)

    def value(self, expression: str) -> Any:
        """Evaluate an expression."""
        return eval(expression, self.space)  # noqa: S307 - the text was drawn from a fixed grammar

    def shape(self, expression: str) -> tuple[int, ...]:
        """Return the shape of an expression."""
        return np.shape(self.value(expression))

    def value_for(self, place: str) -> str:
        """Return an expression that can be assigned to a place: a number, or a value that broadcasts to its shape."""
        shape = self.shape(place)
        fitting = [name for name in reversed(self.names) if fits(self.space[name], shape)]
        return self.way("{v}; np.sin({v}); {v} * 0.5", v=self.one([*fitting[:4], "0.5", "9.0"]))

    def number(self) -> str:
        """Return a constant."""
        return str(self.one(["0.5", "2.0", "-1.5", "3", "1.0", "-0.25"]))

    def ties(self, name: str) -> bool:
        """Return `True` if two elements of a value are nearly equal; their order is then ambiguous."""
        return bool(np.min(np.diff(np.sort(self.space[name], axis=None)), initial=1.0) < 1e-3)

    def untied(self) -> str:
        """Return the name of an array without nearly equal elements."""
        name = self.array()
        if self.ties(name):
            raise Impossible
        return name

    def within(self, name: str, low: float, high: float) -> str:
        """Return an expression with values between two numbers: `name` itself if its values are, else a scaled sine."""
        value = self.space[name] if name in self.space else self.value(name)
        margin = (high - low) * 1e-3
        if np.size(value) == 0 or (np.min(value) > low + margin and np.max(value) < high - margin):
            return name
        middle, half = (low + high) / 2, (high - low) / 2 * 0.98
        squashed = f"{half:.6g} * np.sin({name})"
        return f"({middle:.6g} + {squashed})" if middle else f"({squashed})"

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """Return an expression of the given shape computed from a value."""
        own = np.shape(self.space[name])
        if own == shape:
            return name
        return f"np.mean({name})" if shape == () else f"np.resize({name}, {shape})"

    def input(self, value: Any) -> None:
        """Bind the next input."""
        name = f"x{len(self.names)}"
        self.space[name] = value
        self.names.append(name)

    def add(self, expression: str, family: str) -> None:
        """Append a line that binds the value of an expression to a new name."""
        expression, value = self._real(expression)
        if not self.accepts(value):
            raise Impossible
        self.bind("a", expression, value, family, self.names)

    def enter(self, expression: str, family: str) -> None:
        """Append a line that binds an array: a buffer for later writes, or a plain value if NumPy returns it read-only."""
        value = self.value(expression)
        if not isinstance(value, np.ndarray) or value.ndim < self.least_rank or not value.size or not self.accepts(value):
            raise Impossible
        if any(np.may_share_memory(value, x) for name, x in self.space.items() if name[0] == "x"):
            raise Impossible  # programs do not modify their inputs
        if value.flags.writeable:
            self.bind("b", expression, value, family, self.buffers, self.names)
            self.mutates = True
        else:
            self.bind("a", expression, value, family, self.names)

    def bind(self, letter: str, expression: str, value: Any, family: str, *lists: list[str]) -> str:
        """Append a line that binds a value; add the new name, `letter` and a number, to `lists`, and return it."""
        name = f"{letter}{len(lists[0])}"
        self.space[name] = value
        for names in lists:
            names.append(name)
        self.state(f"{name} = {expression}", family)
        self.value_dependent |= bool(VALUE_DEPENDENT.search(expression))
        return name

    def run(self, statement: str, family: str) -> None:
        """Run a writing statement, and append it if all values are still acceptable."""
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

    def _real(self, expression: str) -> tuple[str, Any]:
        """Return an expression and its value: a part of a tuple or list, and a real array in place of a complex one."""
        value = self.value(expression)
        if isinstance(value, (tuple, list)):
            expression = f"{expression}[{self.choose(len(value)) if value else 0}]"
            value = self.value(expression)
        if not self.takes_complex and getattr(value, "dtype", None) == np.complex128:
            expression = f"{self.one(['np.real', 'np.imag', 'np.abs'])}({expression})"
            value = self.value(expression)
        return expression, value

    def accepts(self, value: Any) -> bool:
        """Return `True` if the program may use a value: real, small and with few enough axes and elements."""
        if type(value) is float:
            return self.numbers and abs(value) <= LARGEST_VALUE
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.char not in ("df" if self.numbers else "d"):
            return False
        if value.ndim > self.max_rank or value.size > self.largest:
            return False
        return value.size == 0 or bool(np.max(np.abs(value)) <= LARGEST_VALUE)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Undo the lines drawn inside if NumPy or functad refuses one, or if its values are not accepted."""
        written = {name: np.array(self.space[name]) for name in (*self.buffers, *self.scratch)}
        known = set(self.space)
        lists = (self.names, self.buffers, self.scratch, self.masks, self.lines, self.families)
        counts = [len(names) for names in lists]
        flags = self.value_dependent, self.mutates
        try:
            yield
        except REFUSALS:
            for names, count in zip(lists, counts, strict=True):
                del names[count:]
            self.value_dependent, self.mutates = flags
            for name in self.space.keys() - known:
                del self.space[name]
            for name, before in written.items():
                self.space[name][...] = before


class Blanks(dict[str, Any]):
    """The texts for the blanks `{name}` of a line: drawn at the first use, then the same in the whole line.

    A blank with alternatives, `{sum|mean}`, is drawn at each use. Known texts usually include `a`, the value that the line is
    about.
    """

    def __init__(self, draft: Draft, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.draft = draft

    def __missing__(self, name: str) -> Any:
        self[name] = found = BLANKS[name](self.draft, self)
        return found

    def fill(self, text: str) -> str:
        """Return a text with its blanks filled."""
        return re.sub(r"\{([^{}]*)\}", self._filling, text)

    def _filling(self, blank: re.Match[str]) -> str:
        return str(self.draft.one(blank[1].split("|")) if "|" in blank[1] else self[blank[1]])


def _axis(d: Draft, x: Blanks) -> int:
    """Return an axis, counted from either end."""
    return int(d.one([*range(x["ndim"]), *range(-x["ndim"], 0)]))


def _axes(d: Draft, x: Blanks) -> Any:
    """Return `None`, an axis, or a tuple of axes."""
    ndim = x["ndim"]
    if not ndim or not d.choose(3):
        return None
    if ndim < 2 or d.choose(2):
        return _axis(d, x)
    return tuple(sorted({d.choose(ndim), d.choose(ndim)}))


def _index(d: Draft, x: Blanks) -> str:
    """Return a basic index."""
    parts = [
        str(d.one([str(d.choose(n)), ":", "::-1", "1:", ":-1", "::2", f"{d.choose(n)}:", "None", "-1", "::-2"]))
        for n in x["shape"][: 1 + d.choose(x["ndim"])]
    ]
    if d.choose(4) == 3:
        parts.insert(d.choose(len(parts) + 1), "...")
    return ", ".join(parts)


def _reshaped(d: Draft, x: Blanks) -> tuple[int, ...]:
    """Return another shape with the same number of elements."""
    size = x["size"]
    first = d.one([n for n in range(1, min(size, 100) + 1) if size % n == 0])
    return tuple(d.one([(first, size // first), (-1,), (first, 1, -1), (1, size // first, 1, first), (size,)]))


BLANKS: dict[str, Callable[[Draft, Blanks], Any]] = {
    "v": lambda d, x: d.operand(),
    "b": lambda d, x: d.operand(lambda value: broadcasts(value, d.value(x["a"]))),
    "same": lambda d, x: d.operand(lambda value: np.shape(value) == x["shape"]),
    "fitting": lambda d, x: d.operand(lambda value: fits(value, x["shape"])),
    "number": lambda d, x: d.number(),
    "scalar": lambda d, x: d.operand(lambda value: np.ndim(value) == 0),
    "shape": lambda d, x: d.shape(x["a"]),
    "ndim": lambda d, x: len(x["shape"]),
    "size": lambda d, x: math.prod(x["shape"]),
    "first": lambda d, x: x["shape"][0],
    "last": lambda d, x: x["shape"][-1],
    "axis": _axis,
    "other": _axis,
    "axes": _axes,
    "index": _index,
    "in_first": lambda d, x: d.choose(x["first"]),
    "in_last": lambda d, x: d.choose(x["last"]),
    "in_axis": lambda d, x: d.choose(x["shape"][x["axis"]]),
    "picks": lambda d, x: [d.choose(x["first"]) - d.choose(2) * x["first"] for _ in range(1 + d.choose(4))],
    "reshaped": _reshaped,
    "permuted": lambda d, x: tuple(np.random.default_rng(d.choose(100)).permutation(x["ndim"]).tolist()),
    "holed": lambda d, x: f"np.where({x['a']} > 1.2, np.nan, {x['a']})",
}
"""Functions that fill the blanks of a line about `a`: other values, its shape and parts of it, axes, indices, texts."""

Line = Callable[[Draft], str]
FAMILIES: dict[str, list[Line]] = {}
"""Lines that compute new values, by family; the modules of the lines fill this table."""

Statement = Callable[[Draft], None]
STATEMENTS: dict[str, list[Statement]] = {}
"""Statements that write to arrays or create arrays for later writes, by family."""


def line(family: str) -> Callable[[Line], Line]:
    """Register a line, a function from a draft to an expression, in a family."""

    def enter(function: Line) -> Line:
        FAMILIES.setdefault(family, []).append(function)
        return function

    return enter


def table(family: str, a: Callable[[Draft], str]) -> Callable[[str], Line]:
    """Register a table of expressions about a value `a` as one line of a family."""
    return lambda text: line(family)(lambda d: d.way(text, a=a(d)))


def statement(family: str, times: int = 1) -> Callable[[Statement], Statement]:
    """Register a writing statement in a family; `times` is its relative frequency."""

    def enter(function: Statement) -> Statement:
        STATEMENTS.setdefault(family, []).extend([function] * times)
        return function

    return enter


def broadcasts(x: Any, y: Any) -> bool:
    """Return `True` if two values broadcast to a shape of acceptable size."""
    try:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        return math.prod(shape) <= max(LARGEST_SIZE, np.size(x), np.size(y))
    except ValueError:
        return False


def fits(value: Any, shape: tuple[int, ...]) -> bool:
    """Return `True` if a value can be assigned to a place of the given shape."""
    try:
        return np.broadcast_shapes(np.shape(value), shape) == shape
    except ValueError:
        return False


def listed(table: str) -> list[str]:
    """Return the entries of a table; semicolons and line ends separate them."""
    return [text.strip() for text in re.split(r"[;\n]", table) if text.strip()]


class Text(str):
    """The source text of an argument, as a leaf of the pytree of arguments."""

    __slots__ = ()


def literal(value: Any) -> str:
    """Return the source text of an argument."""
    if type(value) is Text:
        return value
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
    """Return `repr` of numbers and lists, with `np.nan` and `np.inf`."""
    return repr(value) if isinstance(value, str) else re.sub(r"\b(nan|inf)\b", r"np.\1", repr(value))
