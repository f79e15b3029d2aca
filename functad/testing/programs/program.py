"""Random straight-line NumPy programs: drawn line by line on concrete values, printed as source, called and checked.

A draw starts with the inputs: their shapes, values, types and memory layouts. The checks compare values with plain NumPy, and
derivatives with finite differences. A check has one of five outcomes: compared, nothing to compare, refused with a
`FunctadError`, wrong, or bare (any other exception, which does not help the user).
"""

from __future__ import annotations

import math
import re
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import functad
from functad.errors import AbstractValueError, FunctadError
from functad.expressions.spec import dtype_of
from functad.primitives.elementwise.conversion import copy_alike
from functad.testing.numerical import Measured, measure, paired, pairing
from functad.testing.programs import lines as program_lines  # noqa: F401 - it registers its lines
from functad.testing.programs.drafts import FAMILIES, LARGE_SIZE, LARGEST_SIZE, STATEMENTS, Choose, Draft, literal
from functad.testing.programs.lines import new_buffer


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


INSIDE = Path(functad.__file__).parent

DIFFERENT = (ValueError, TypeError, IndexError, ArithmeticError, AttributeError)
"""Exceptions that a program may raise for other inputs, when it takes another branch."""


@dataclass(frozen=True)
class Finding:
    """The result of one check of a program.

    Attributes:
        check: the name of the check.
        outcome: `compared`, `nothing`, `refused`, `wrong` or `bare`.
        what: the code of the `FunctadError`, or the name of the bare exception.
        detail: the expected and the found result, or the message of the exception.
    """

    check: str
    outcome: str
    what: str = ""
    detail: str = ""

    @property
    def fails(self) -> bool:
        """Whether the finding is a failure."""
        return self.outcome in ("wrong", "bare")


class DisagreementError(AssertionError):
    """A result differs from the expected one."""


class NothingToCompare(Exception):  # noqa: N818 - not an error: some programs have no derivative at their inputs
    """There is no reference value to compare with."""


def checked(check: str, run: Callable[[], None], *, abstract: bool = True) -> Finding:
    """Run a check and return its outcome. `AbstractValueError` is a refusal if `abstract` is true, else wrong."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except NothingToCompare:
        return Finding(check, "nothing")
    except DisagreementError as wrong:
        return Finding(check, "wrong", detail=str(wrong))
    except FunctadError as refusal:
        expected = abstract or not isinstance(refusal, AbstractValueError)
        return Finding(check, "refused" if expected else "wrong", refusal.code, str(refusal))
    except Exception as bare:  # noqa: BLE001 - the fuzzer searches for such exceptions
        place = [frame for frame in traceback.extract_tb(bare.__traceback__) if INSIDE in Path(frame.filename).parents]
        where = f", in {Path(place[-1].filename).name}:{place[-1].lineno}" if place else ""
        return Finding(check, "bare", type(bare).__name__, f"{type(bare).__name__}: {bare}{where}")
    return Finding(check, "compared")


class Examination:
    """The checks of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.inputs = program.inputs
        self.before = [np.array(x) for x in self.inputs]
        single = any(dtype_of(value) == np.float32 for value in (*self.inputs, *self.expected))
        self.single = single or "float32" in program.source
        self.loose = 1e-5 if self.single else 0.0
        self.random = np.random.default_rng(len(program.source))
        self.direction = [self._drawn(x) for x in self.inputs]

    def _drawn(self, x: Any, where: Any = True) -> Any:
        """Return random numbers of the type of `x`, zero where `where` is false."""
        drawn = np.where(where, self.random.standard_normal(np.shape(x)), 0.0)
        return float(drawn) if type(x) is float else drawn.astype(dtype_of(x))[()]

    @cached_property
    def expected(self) -> list[Any]:
        """The results of plain NumPy."""
        return as_list(self.program(*self.inputs))

    @cached_property
    def pulled(self) -> tuple[Any, Callable[[Any], Any]]:
        """The results of a reverse trace, and its pullback."""
        found: tuple[Any, Callable[[Any], Any]] = functad.vjp(self.program, *self.inputs)
        return found

    @cached_property
    def repeats(self) -> bool:
        """Whether an input is a broadcast array with several elements at one address."""
        return any(n > 1 and not s for x in map(np.asarray, self.inputs) for n, s in zip(x.shape, x.strides, strict=True))

    @cached_property
    def measured(self) -> list[Measured]:
        """The directional derivative of the program, from differences."""
        return self.differences(lambda *xs: as_list(self.program(*xs)), self.direction, real_bytes=4 if self.single else 8)

    def differences(self, function: Callable[..., Any], direction: Sequence[Any], real_bytes: int = 8) -> list[Measured]:
        """Return the derivative of a function of the inputs in a direction, if it can be measured."""
        if self.repeats:
            raise NothingToCompare  # perturbed inputs cannot have the memory layout of a broadcast array
        try:
            found = measure(
                lambda *xs: function(*map(like, self.inputs, xs)), self.inputs, direction, real_bytes=real_bytes, twice=True
            )
        except DIFFERENT as different:
            raise NothingToCompare from different  # the program takes another branch nearby
        if not any(np.any(m.smooth) for m in found):
            raise NothingToCompare
        return found

    def findings(self, checks: Sequence[str] = ()) -> Iterator[Finding]:
        """Run the checks with these names, all by default; stop if the values are wrong."""
        for name in checks or CHECKS:
            strict = name in ("vmap", "list") and not self.program.value_dependent
            found = checked(name, getattr(self, f"check_{name}"), abstract=not strict)
            yield found
            if name == "value" and found.outcome != "compared":
                return
        yield checked("arguments", self.check_arguments)

    def check_value(self) -> None:
        """Compare the results of a reverse trace with plain NumPy: value, shape and dtype."""
        compare(as_list(self.pulled[0]), self.expected, 1e-11 + self.loose)

    def check_types(self) -> None:
        """Compare the types of a reverse trace's results with plain NumPy: arrays, NumPy scalars or Python numbers."""
        for i, (a, b) in enumerate(zip(as_list(self.pulled[0]), self.expected, strict=True)):
            if type(a) is not type(b):
                raise DisagreementError(f"result {i} is of type {type(a).__name__}, not {type(b).__name__}")

    def check_reverse(self) -> None:
        """Compare the pullback of a random cotangent with differences."""
        compare(self.cotangents, self.inputs, np.inf)
        found = pairing(self.cotangents, self.direction)
        expected, size, doubt = paired(self.seeds, self.measured)
        allowed = 1e-8 + 1e-6 * size + doubt + (1e-3 * (1 + size) if self.single else 0)
        if not abs(found - expected) <= allowed:
            raise DisagreementError(f"pulled back {found:.9g}, differences {expected:.9g}, allowed {allowed:.1e}")

    @cached_property
    def seeds(self) -> list[Any]:
        """A random cotangent, zero where differences give no derivative."""
        return [self._drawn(y, m.smooth) for y, m in zip(self.expected, self.measured, strict=True)]

    @cached_property
    def cotangents(self) -> list[Any]:
        """The cotangents of the inputs."""
        return self._cotangents(*self.pulled)

    def _cotangents(self, values: Any, pullback: Callable[[Any], Any]) -> list[Any]:
        return list(pullback(tuple(self.seeds) if type(values) is tuple else self.seeds[0]))

    def check_forward(self) -> None:
        """Compare values and tangents of forward mode with plain NumPy, differences and the pullback."""
        values, tangents = functad.jvp(self.program, self.inputs, tuple(self.direction))
        compare(as_list(values), self.expected, 1e-11 + self.loose)
        tangents = as_list(tangents)
        compare(tangents, self.expected, np.inf)
        loose = 1e-3 if self.single else 0.0
        confirm(tangents, self.measured, 1e-8 + loose, 1e-6 + loose, "pushed forward")
        pushed, pulled = pairing(self.seeds, tangents), pairing(self.cotangents, self.direction)
        size = 1 + pairing([*map(np.abs, self.seeds)], [*map(np.abs, tangents)])
        if not abs(pushed - pulled) <= (1e-3 if self.single else 1e-8) * size:
            raise DisagreementError(f"forward mode {pushed:.12g}, reverse mode {pulled:.12g}")

    def check_tape(self) -> None:
        """Compare the results of a tape with plain NumPy and the pullback; Python numbers become NumPy scalars."""
        scalars = [np.asarray(x)[()] for x in self.inputs]
        if self.repeats:  # a constant is a copy with another memory layout
            raise NothingToCompare
        program = replace(self.program, lines=written_out(self.program.lines))
        expected = self.elsewhere(*scalars, program=program)
        constants = [functad.constant(x) for x in scalars]
        with functad.GradientTape() as tape:
            tape.watch(constants)
            found = program(*constants)
        converted = any(type(x) is not type(y) for x, y in zip(scalars, self.inputs, strict=True))
        compare([plain(y) for y in as_list(found)], [np.asarray(y) for y in expected], 1e-11 + self.loose)
        if converted:
            return
        pairs = [(y, g) for y, g in zip(as_list(found), self.seeds, strict=True) if isinstance(y, functad.Tensor)]
        gradients = tape.gradient([y for y, _ in pairs], constants, output_gradients=[g for _, g in pairs])
        self._same_cotangents([0.0 if g is None else plain(g) for g in gradients])

    def _same_cotangents(self, found: Sequence[Any]) -> None:
        for ct, expected in zip(found, self.cotangents, strict=True):
            size = 1.0 + float(np.max(np.abs(expected), initial=0.0))
            if not np.all(np.abs(ct - expected) <= (1e-3 if self.single else 1e-9) * size):
                raise DisagreementError(f"found {ct!r}, plain reverse mode {expected!r}")

    def check_checkpoint(self) -> None:
        """Compare a checkpointed program with plain NumPy and the pullback."""
        values, pullback = functad.vjp(functad.checkpoint(self.program), *self.inputs)
        compare(as_list(values), self.expected, 1e-11 + self.loose)
        self._same_cotangents(self._cotangents(values, pullback))

    def check_vmap(self) -> None:
        """Compare `vmap` of two examples with a loop."""
        batches = [np.stack([np.asarray(x), np.asarray(x) * 0.97 + 0.01]).astype(dtype_of(x)) for x in self.inputs]
        # An example of shape () is an array if the input is one: scalars and arrays act differently with a Python complex.
        # Each example is a copy: an operation that copies a broadcast input may return a view of an example instead.
        pairs = [(np.copy(b), x) for b, x in zip(batches, self.inputs, strict=True)]
        rows = [self.elsewhere(*[b[i, ...] if isinstance(x, np.ndarray) else b[i] for b, x in pairs]) for i in range(2)]
        found = as_list(functad.vmap(self.program)(*batches))
        compare(found, [np.stack(pair) for pair in zip(*rows, strict=True)], 1e-10 + self.loose)

    def check_list(self) -> None:
        """Compare the expression list with plain NumPy, at the inputs and at other values."""
        listed = functad.make_expressions(self.program)(*self.inputs)
        compare(as_list(listed(*self.inputs)), self.expected, 1e-11 + self.loose)
        others = [like(x, x * 0.97 + 0.01) for x in self.inputs]
        expected = self.elsewhere(*others)
        compare(as_list(listed(*others)), expected, 1e-11 + self.loose)

    def elsewhere(self, *inputs: Any, program: Program | None = None) -> list[Any]:
        """Return the results of a program on other inputs; raise `NothingToCompare` if they have other shapes."""
        try:
            found = as_list((program or self.program)(*inputs))
        except DIFFERENT as different:
            raise NothingToCompare from different
        if list(map(np.shape, found)) != list(map(np.shape, self.expected)):
            raise NothingToCompare
        return found

    def check_arguments(self) -> None:
        """Check that the arguments are unchanged, to the last byte."""
        texts = self.program.texts or [""] * len(self.inputs)
        for i, (x, before, text) in enumerate(zip(self.inputs, self.before, texts, strict=True)):
            if np.array(x).tobytes() != before.tobytes():
                raise DisagreementError(f"x{i} was {before!r} and is {x!r}")
            if isinstance(x, np.ndarray) and x.flags.writeable == text.startswith("np.broadcast_to"):
                raise DisagreementError(f"x{i} is writeable: {x.flags.writeable}")


CHECKS = ("value", "types", "reverse", "forward", "tape", "checkpoint", "vmap", "list")


def as_list(result: Any) -> list[Any]:
    """Return the results of a program as a list."""
    return list(result) if isinstance(result, tuple) else [result]


def plain(value: Any) -> Any:
    """Return the value of a Tensor of a tape, or any other value as an array."""
    return value.numpy() if isinstance(value, functad.Tensor) else np.asarray(value)


def like(x: Any, values: Any) -> Any:
    """Return values in the type and memory order of an input."""
    if type(x) is float:
        return float(values)
    if not isinstance(x, np.ndarray):
        return x.dtype.type(values)
    if x.flags.c_contiguous:
        return np.asarray(values, x.dtype)
    if 0 in x.strides:  # elements at one address need one value
        one = tuple([slice(None) if stride else slice(1) for stride in x.strides])
        return np.broadcast_to(like(x[one].copy("K"), np.asarray(values)[one]), x.shape)
    made = copy_alike(x)
    made[...] = values
    return made


def compare(found: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Compare lists of arrays by shape, dtype and value."""
    if len(found) != len(expected):
        raise DisagreementError(f"{len(found)} results, not {len(expected)}")
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if np.shape(a) != np.shape(b) or dtype_of(a) != dtype_of(b):
            raise DisagreementError(f"result {i} is {dtype_of(a)}{np.shape(a)}, not {dtype_of(b)}{np.shape(b)}")
        if tolerance < np.inf and not close(a, b, tolerance):
            raise DisagreementError(f"result {i} is {a!r}, not {b!r}")


def confirm(found: Sequence[Any], measured: Sequence[Measured], atol: float, rtol: float, what: str) -> None:
    """Compare derivatives with measured ones, where these are reliable."""
    for y, m in zip(found, measured, strict=True):
        if not np.all((np.abs(y - m.derivative) <= m.allowed(atol, rtol)) | ~m.smooth):
            raise DisagreementError(f"{what} {y!r}, differences {m.derivative!r}")


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Return `True` if all elements agree within the tolerance; equal infinities agree, and so do two NaN."""
    same = np.abs(np.subtract(a, b)) <= tolerance * (1 + np.abs(b))
    return bool(np.all(same)) or bool(np.all(same | (np.isnan(a) & np.isnan(b)) | np.equal(a, b)))
