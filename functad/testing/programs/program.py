"""Random straight-line NumPy programs: drawn line by line on actual values, printed as plain source, called as a function."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from functad.testing.programs import entries as program_entries  # noqa: F401
from functad.testing.programs import lines as program_lines  # noqa: F401
from functad.testing.programs import numbers as program_numbers  # noqa: F401
from functad.testing.programs import scratch as program_scratch  # noqa: F401
from functad.testing.programs import views as program_views  # noqa: F401
from functad.testing.programs.drafts import FAMILIES, LARGE_SIZE, LARGEST_SIZE, STATEMENTS, Choose, Draft
from functad.testing.programs.inputs import draw_inputs
from functad.testing.programs.text import literal
from functad.testing.programs.writes import new_buffer


@dataclass(frozen=True)
class Program:
    """A function of arrays, and arrays to call it with.

    Attributes:
        lines: the assignments, in order; all values that no other line reads are returned.
        inputs: an array for each argument `x0`, `x1`, ...
        families: the families that its lines come from.
        value_dependent: shapes or dtypes may depend on values, so that it has no expression list.
        mutates: it assigns to elements of arrays.
        texts: the source text of each input, where that says more than its values do, such as its order in memory.
        returns: the names of the results, if they are not all values that no other line reads.

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
    texts: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()

    __name__ = "program"

    @property
    def source(self) -> str:
        """The definition of the function."""
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = [*self.lines, f"return {', '.join(self.results)}"]
        return f"def program({names}):\n" + "".join(f"    {line}\n" for line in body)

    @property
    def results(self) -> list[str]:
        """The names of the results: what no other makes a value from, so that every line counts, and the newest first."""
        if self.returns:
            return list(self.returns)
        made = [line.partition(" = ")[::2] for line in self.lines if is_binding(line) and line[0] in "ab"]
        read = [set(re.findall(r"\w+", expression)) for _, expression in made]
        written = {name for line in self.lines if not is_binding(line) for name in re.findall(r"\bb\d+", line)}
        loose = [
            name for i, (name, _) in enumerate(made) if name in written or not any(name in names for names in read[i + 1 :])
        ]
        return loose[::-1]

    @property
    def definitions(self) -> str:
        """The source text that is compiled."""
        return self.source

    @cached_property
    def space(self) -> dict[str, Any]:
        """The compiled functions by name."""
        space: dict[str, Any] = {"np": np}
        exec(compile(self.definitions, "<random program>", "exec"), space)  # noqa: S102 - drawn from a fixed grammar
        return space

    @property
    def function(self) -> Callable[..., Any]:
        """The compiled function."""
        function: Callable[..., Any] = self.space["program"]
        return function

    def __call__(self, *inputs: Any) -> Any:
        """Run the program."""
        with np.errstate(all="ignore"):
            return self.function(*inputs)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled functions, which other processes make again."""
        return {name: value for name, value in vars(self).items() if name != "space"}

    def __repr__(self) -> str:
        arrays = ", ".join(self.texts or map(literal, self.inputs))
        return f"import numpy as np\n\n\n{self.source}\n\ninputs = [{arrays}]"

    __str__ = __repr__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print as source in the reports of Hypothesis too, which shows the fields of data classes otherwise."""
        for i, text in enumerate(repr(self).splitlines()):
            if i:
                printer.break_()
            printer.text(text)


def written_out(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines in which `b[...] += v` stands for `b += v`: with tapes, as in TensorFlow, the latter makes a new Tensor.

    Example:
        >>> written_out(["b0 += x0", "b0[1:] *= 2", "for row in b0: row *= 0.5"])
        ('b0[...] += x0', 'b0[1:] *= 2', 'for row in b0: row[...] *= 0.5')
    """
    return tuple(re.sub(r"(^b\d+|\brow) ([-+*])= ", r"\1[...] \2= ", line) for line in lines)


def is_binding(line: str) -> bool:
    """Say whether a line gives a name to a value, rather than to write into one."""
    left, equals, _ = line.partition(" = ")
    return bool(equals) and left.isidentifier()


def draw_program(
    choose: Choose,
    *,
    max_operations: int = 8,
    max_rank: int = 4,
    families: Collection[str] | None = None,
    mutation: bool | Collection[str] = False,
    layouts: bool = False,
    numbers: bool = False,
    large: bool = False,
) -> Program:
    """Return a random program.

    Args:
        choose: the source of randomness: `choose(n)` returns one of `0 ... n - 1`.
        max_operations: the number of lines, at most.
        max_rank: the largest number of axes of any value.
        families: names of those to draw lines from (see `FAMILIES`); all but `numbers` and `views` by default.
        mutation: also draw lines that write into arrays; or the names of families of such lines (see `STATEMENTS`).
        layouts: inputs may lie in memory in any way: in Fortran order, reversed, strided, broadcast, read-only.
        numbers: inputs may be Python numbers, NumPy scalars and arrays in single precision.
        large: inputs have thousands of elements, as arrays must for which memory is dealt with otherwise.

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
    wanted = _known(FAMILIES, sorted(set(FAMILIES) - {"numbers", "views"}) if families is None else families)
    writing = _known(STATEMENTS, ["mutation"] if mutation is True else mutation or [])
    statements = [statement for family in writing for statement in STATEMENTS[family]]
    writes = bool({"mutation", "views"} & set(writing))
    draft = Draft(choose, max_rank, LARGE_SIZE if large else LARGEST_SIZE, numbers)
    texts = draw_inputs(draft, layouts=layouts, large=large)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")  # what NumPy warns of is no line to go on with
        for count in range(max_operations):
            if count and not choose(2 * max_operations):  # asked at each line, so that lines can be left out one by one
                break
            with draft.undoing():
                if statements and ((writes and not draft.buffers) or choose(2)):
                    draft.one(statements if draft.buffers or not writes or not choose(4) else [new_buffer])(draft)
                else:
                    family = draft.one(wanted)
                    draft.add(draft.one(FAMILIES[family])(draft), family)
    if not any(is_binding(text) and text[0] in "ab" for text in draft.lines):
        draft.state("a0 = x0 * 0.5", "elementwise")
    inputs = tuple(value for name, value in draft.space.items() if name[0] == "x")
    return Program(tuple(draft.lines), inputs, tuple(draft.families), draft.value_dependent, draft.mutates, texts)


def _known(table: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """Return names of families.

    Raises:
        ValueError: one is unknown.
    """
    unknown = sorted(set(names) - set(table))
    if unknown:
        raise ValueError(f"there is no family {unknown[0]!r} of lines; there are {', '.join(sorted(table))}")
    return list(names)
