"""Random straight-line NumPy programs: drawn line by line on concrete values, printed as source, called as a function.

A draw starts with the inputs: their shapes, values, types and memory layouts.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from functad.testing.programs import lines as program_lines  # noqa: F401 - it registers its lines
from functad.testing.programs.drafts import FAMILIES, LARGE_SIZE, LARGEST_SIZE, STATEMENTS, Choose, Draft, literal
from functad.testing.programs.writes import new_buffer


@dataclass(frozen=True)
class Program:
    """A function of arrays, with inputs.

    Attributes:
        lines: the assignments, in order. The function returns all values that no other line reads.
        inputs: one array per argument `x0`, `x1`, ...
        families: the family of each line.
        value_dependent: shapes or dtypes may depend on values, so that the program has no expression list.
        mutates: a line writes to an array.
        texts: the source text of each input, if it has more information than the values, such as the memory order.
        returns: the names of the results; by default all values that no other line reads.

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
    def parts(self) -> dict[str, Any]:
        """The arguments of `Program` for the program itself, without the attributes of a subclass."""
        return {part.name: getattr(self, part.name) for part in fields(Program)}

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return [f"x{i}" for i in range(len(self.inputs))]

    @property
    def source(self) -> str:
        """The definition of the function `program`."""
        body = [*self.lines, f"return {', '.join(self.results)}"]
        return f"def program({', '.join(self.parameters)}):\n" + "".join(f"    {line}\n" for line in body)

    @property
    def results(self) -> list[str]:
        """The names of the results, newest first; by default every value that no other line reads, so every line counts."""
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
        """Leave out the compiled functions; other processes compile them again."""
        return {name: value for name, value in vars(self).items() if name != "space"}

    def __repr__(self) -> str:
        arrays = ", ".join(self.texts or map(literal, self.inputs))
        return f"import numpy as np\n\n\n{self.source}\n\ninputs = [{arrays}]"

    __str__ = __repr__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print as source in Hypothesis reports, which would otherwise show the fields of the dataclass."""
        for i, text in enumerate(repr(self).splitlines()):
            if i:
                printer.break_()
            printer.text(text)


def written_out(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines with `b[...] += v` in place of `b += v`, which creates a new Tensor under a tape, as in TensorFlow."""
    return tuple(re.sub(r"(^b\d+|\brow) ([-+*])= ", r"\1[...] \2= ", line) for line in lines)


def is_binding(line: str) -> bool:
    """Return `True` if a line binds a name to a value, `False` if it writes to an array."""
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
        max_operations: the largest number of lines.
        max_rank: the largest number of axes of any value.
        families: the families of lines (see `FAMILIES`). Default: all except `numbers` and `views`.
        mutation: also draw lines that write to arrays; `True`, or the names of their families (see `STATEMENTS`).
        layouts: inputs may have any memory layout: Fortran order, reversed, strided, broadcast, read-only.
        numbers: inputs may be Python numbers, NumPy scalars and arrays in single precision.
        large: inputs have thousands of elements, because functad treats the memory of large arrays differently.

    Returns:
        A `Program`: lines of NumPy code with inputs.

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
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")  # undo lines for which NumPy warns
        draw_inputs(draft, layouts=layouts, large=large)
        for count in range(max_operations):
            if count and not choose(2 * max_operations):  # drawn per line, so that shrinking can remove single lines
                break
            with draft.undoing():
                if statements and ((writes and not draft.buffers) or choose(2)):
                    draft.one(statements if draft.buffers or not writes or not choose(4) else [new_buffer])(draft)
                else:
                    family = draft.one(wanted)
                    draft.add(draft.one(FAMILIES[family])(draft), family)
    if not any(is_binding(text) and text[0] in "ab" for text in draft.lines):
        draft.state("a0 = x0 * 0.5", "elementwise")
    return finished(draft)


def finished(draft: Draft) -> Program:
    """Return the program of a draft."""
    inputs = tuple(value for name, value in draft.space.items() if name[0] == "x")
    return Program(tuple(draft.lines), inputs, tuple(draft.families), draft.value_dependent, draft.mutates, draft.texts)


LAYOUTS = (
    "{0}",
    "np.asfortranarray({0})",
    "np.flip({0})",
    "np.repeat({0}, 2, axis=-1)[..., ::2]",
    "np.broadcast_to({0}, {1})",
    "np.broadcast_to({0}[:1], {1})",
    "np.flip(np.asfortranarray({0}), 0)",
    "np.moveaxis(np.array(np.moveaxis({0}, 0, -1)), -1, 0)",
)
"""Source texts of memory layouts, as formats for the text of an array and its shape."""

NUMBERS = ("{0}", "np.float64({0})", "np.float32({0})", "np.array({0})", "np.array({0}, np.float32)")
"""Source texts of types of numbers, as formats for a number."""


def draw_inputs(draft: Draft, *, layouts: bool = False, large: bool = False) -> None:
    """Draw one to three inputs with shapes that often broadcast; values have three decimals and distinct magnitudes.

    Inputs other than plain arrays have source texts.
    """
    values = np.random.default_rng(draft.choose(1 << 16))
    lengths = [1 + draft.choose(3) for _ in range(draft.max_rank)]
    texts = []
    for i in range(1 + draft.choose(3)):
        rank = (2, 1, 3, 0, 4)[draft.choose(5)]
        rank = min(rank, draft.max_rank)
        shape = tuple(1 if draft.choose(6) == 5 else n for n in lengths[draft.max_rank - rank :])
        while (count := int(np.prod(shape, dtype=int))) > LARGEST_SIZE // 2:
            shape = tuple((n + 1) // 2 for n in shape)
        if large:
            texts.append(_large(draft, i))
            continue
        drawn = values.choice(np.arange(1, 2000), count, replace=False) / 1000 * values.choice([-1.0, 1.0], count)
        value = drawn.reshape(shape)[()]
        if layouts or draft.numbers:
            texts.append(_typed(draft, value, layouts=layouts))
        else:
            draft.input(value)
    for text in texts:
        draft.input(draft.value(text))
    draft.texts = tuple(texts)


def _typed(draft: Draft, value: Any, *, layouts: bool) -> str:
    """Return the source text of an input with a special type or memory layout."""
    if draft.numbers and not draft.choose(2):
        return str(draft.one(NUMBERS)).format(np.ravel(value)[0].item())
    text = literal(value)
    if np.ndim(value) == 0:
        return text
    if draft.numbers and not draft.choose(3):
        text = f"np.array({text[9:-1]}, np.float32)"
    return str(draft.one(LAYOUTS)).format(text, value.shape) if layouts else text


def _large(draft: Draft, number: int) -> str:
    """Return the source text of an input with about a thousand to ten thousand elements, beyond functad's size limits."""
    shape = draft.one([(9000,), (1100,), (90, 100), (40, 30), (8192,), (1024,), (3, 400), (2, 50, 90)])
    text = f"np.sin(np.arange({math.prod(shape)}.0) + {number + 0.5}).reshape({shape})"
    return str(draft.one((*LAYOUTS[:4], LAYOUTS[0]))).format(text, shape)


def _known(table: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """Return the names of families as a list; raise `ValueError` for an unknown name."""
    unknown = sorted(set(names) - set(table))
    if unknown:
        raise ValueError(f"there is no family {unknown[0]!r} of lines; there are {', '.join(sorted(table))}")
    return list(names)
