"""The source of scans for the backend `numpy`: Python loops over numbers and over arrays.

An operation on an array of three numbers takes NumPy twenty times as long as three operations on Python floats. So a scan over
a few numbers computes with Python floats. Results are equal: Python and NumPy both use IEEE 754 for `+`, `-`, `*` and `/`. The
loop falls back to arrays in two cases: Python raises an exception instead of an infinity or NaN, or a product with an exact
zero may have caused a NaN in a result. In a scan over arrays, each step writes its results into rows of preallocated arrays.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np

from functad.backends.short_text import ufunc_of
from functad.backends.source import Definitions
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import SCATTER
from functad.primitives.linalg.products import MATMUL
from functad.primitives.reductions.over_axes import SUM

_LONGEST = 8
"""Longest vector that is split into numbers: from about 16 elements on NumPy is as fast."""

_FEWEST = 8
"""Steps from which the conversion of arrays to numbers and back pays off."""

_MOST = 500
"""Largest count of numbers that a step computes."""

_WIDEST = 60
"""Largest length of an expression that is nested in another expression."""

_FLOAT64 = np.dtype(np.float64)

LOCAL_NAMES = frozenset([f"math_{name}" for name in dir(math)])
"""Names of the functions of `math` in the text of a loop."""


def _of_math(primitive: Primitive) -> Callable[..., float] | None:
    """Return the function of `math` that computes the elements of a primitive, or `None`.

    The function raises an exception for some infinities and NaN. The last digit of its result may differ from NumPy's.
    """
    return primitive.python if getattr(primitive.python, "__module__", None) == "math" else None


@cache
def _form(function: Callable[..., float], count: int) -> str | None:
    """Return the text of a call of a function of numbers, with `{0}` and `{1}` for its arguments; `None` without its source."""
    if function.__module__ == "math":
        return f"math_{function.__name__}({', '.join([f'{{{i}}}' for i in range(count)])})"
    if function in (operator.pos, operator.pow):  # `x` itself; a power of a negative number may be complex
        return "{0}" if function is operator.pos else None
    definitions = Definitions()
    text = definitions.call(function, [f"x{i}" for i in range(count)], {})
    return re.sub(r"\bx(\d)\b", r"{\1}", text) if not definitions.objects else None


class _Number(NamedTuple):
    """A number that a step reads or computes.

    Attributes:
        form: its name or value, or the format string of the text that computes it, with `{0}` and `{1}` for arguments.
        given: the arguments: positions in the list of numbers.
    """

    form: str
    given: tuple[int, ...] = ()

    def reads(self) -> list[int]:
        """Return the arguments in the text, with repetitions."""
        return [self.given[int(place)] for place in re.findall(r"{(\d)}", self.form)]


class _NotNumbersError(Exception):
    """A step cannot be computed with Python numbers."""


class NumberLoop:
    """The step of a scan, split into operations on single numbers.

    Each value of the step is an array of positions in `numbers`, so that NumPy moves elements as it moves the values.

    Args:
        equation: the scan.
        prefix: the prefix of the names of its values.
        exact: use only functions with NumPy's exact results.

    Attributes:
        guarded: a product with zero may give a NaN.
        numbers: the numbers; the first is zero.
        functions: maps a name to a function of `math` that the step calls.
    """

    def __init__(self, equation: Equation, prefix: str, exact: bool) -> None:
        self.equation, self.prefix, self.exact = equation, prefix, exact
        self.params, self.body = equation.params, equation.params["body"]
        self.numbers = [_Number("0.0")]
        self.functions: dict[str, Callable[..., float]] = {}
        self.guarded = any(e.primitive.plain is not None for e in self.body.equations)
        self.parts = {slot: self._array(map(self._new, self.names_of(slot)), slot) for slot in range(len(self.body.inputs))}
        for e in self.body.equations:
            [slot] = e.outputs
            self.parts[slot] = self._array(self._split(e), slot)
        self.results = [self.parts_of(s) for s in self.body.outputs]

    @classmethod
    def of(cls, equation: Equation, prefix: str, exact: bool) -> NumberLoop | None:
        """Return the number loop of an equation; `None` if the equation is no scan over a few numbers.

        Args:
            equation: an equation of a list.
            prefix: the prefix of the names of its values.
            exact: use only functions with NumPy's exact results.
        """
        params = equation.params
        if equation.primitive.lists != "scan" or params["length"] < _FEWEST:
            return None
        body = params["body"]
        if not all(map(_is_short, body.specs)) or not body.equations or any(len(e.outputs) > 1 for e in body.equations):
            return None
        if any(spec.dtype != _FLOAT64 for spec in body.results):
            return None
        if sum(body.specs[e.outputs[0]].size for e in body.equations) > _MOST:
            return None
        try:
            return cls(equation, prefix, exact)
        except _NotNumbersError:
            return None

    def names_of(self, slot: int) -> list[str]:
        """Return the names of the elements of a slot of the step."""
        spec, name = self.body.specs[slot], f"{self.prefix}_{slot}"
        return [f"{name}_{i}" for i in range(spec.size)] if spec.shape else [name]

    def _new(self, form: str, *given: int) -> int:
        self.numbers.append(_Number(form, given))
        return len(self.numbers) - 1

    def _array(self, parts: Any, slot: int) -> Any:
        found = np.array(parts if issubclass(type(parts), np.ndarray) else list(parts), np.int64)
        return found.reshape(self.body.specs[slot].shape)

    def parts_of(self, source: Any) -> Any:
        """Return the positions of the elements of an argument."""
        if type(source) is int:
            return self.parts[source]
        if not _is_number(source):
            raise _NotNumbersError
        return np.array([self._new(_literal(float(x))) for x in np.ravel(source.value)]).reshape(np.shape(source.value))

    def _split(self, e: Equation) -> Any:
        """Return the positions of the elements of the result of an equation."""
        primitive, size = e.primitive, self.body.specs[e.outputs[0]].size
        if primitive.dependence == "moved":
            given = [
                s.value if isinstance(s, Constant) and not primitive.differentiable(i) else self.parts_of(s)
                for i, s in enumerate(e.inputs)
            ]
            return np.asarray(primitive.compute(*given, **e.params))
        given = [self.parts_of(s) for s in e.inputs]
        if primitive is SCATTER:
            return self._scattered(e.params["indices"], given, size)
        if primitive in (SUM, MATMUL):
            terms = (
                given[0].ravel() if primitive is SUM else [self._new("{0} * {1}", *pair) for pair in zip(*given, strict=True)]
            )
            if self.exact or size > 1:
                raise _NotNumbersError
            return [reduce(lambda total, term: self._new("{0} + {1}", total, term), terms)]
        function = _of_math(primitive)
        form = None if primitive.python is None or e.params else _form(primitive.python, len(given))
        if form is None or (self.exact and function is not None):
            raise _NotNumbersError
        if function is not None:
            self.functions[f"math_{function.__name__}"] = function
        columns = [np.ravel(part).tolist() for part in np.broadcast_arrays(*given)]
        return columns[0] if form == "{0}" else [self._new(form, *row) for row in zip(*columns, strict=True)]

    def _scattered(self, indices: Sequence[Any], given: Sequence[Any], size: int) -> list[int]:
        """Return the positions of the elements of a zero vector after adding `given` at `indices`."""
        sums: list[int | None] = [0 if self.exact else None] * size
        for index, part in zip(indices, given, strict=True):
            places = np.arange(size)[index]
            for place, element in zip(np.ravel(places), np.broadcast_to(part, places.shape).ravel(), strict=True):
                total = sums[place]
                sums[place] = element if total is None else self._new("{0} + {1}", total, element)
        return [total or 0 for total in sums]

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the lines of a step and the texts of the elements of its results."""
        uses = [0] * len(self.numbers)
        waiting = [part for parts in self.results for part in parts.ravel().tolist()]
        while waiting:
            part = waiting.pop()
            uses[part] += 1
            if uses[part] == 1:
                waiting += self.numbers[part].reads()
        texts, written = dict[int, str](), list[str]()
        for place, number in enumerate(self.numbers):
            if not uses[place] or not number.given:
                texts[place] = number.form
                continue
            text = number.form.format(*[_within(texts[s]) for s in number.given])
            if uses[place] > 1 or len(text) > _WIDEST:
                name = f"{self.prefix}_n{len(written)}"
                written.append(f"{name} = {text}")
                text = name
            texts[place] = text
        return written, [[texts[part] for part in parts.ravel().tolist()] for parts in self.results]


class NumberLoopText:
    """The text of a function that runs a loop on numbers, and falls back to arrays.

    Args:
        loop: the loop.
        given: the texts of the arguments of the scan.
        made: the names of its results.
        lists: the names of all rows, arguments and results, that are Python lists instead of arrays.
        definitions: the definitions in front of the function.
    """

    def __init__(
        self, loop: NumberLoop, given: Sequence[str], made: Sequence[str], lists: Collection[str], definitions: Definitions
    ) -> None:
        self.loop, self.given, self.made, self.lists = loop, given, made, lists
        self.definitions = definitions
        self.body, self.params = loop.body, loop.params
        pairs = zip(given, loop.equation.inputs, strict=True)
        self.arguments = list(dict.fromkeys([text for text, source in pairs if type(source) is int]))

    def definition(self, name: str, careful: Sequence[str]) -> str:
        """Return the definition of the function.

        Args:
            name: the name of the function.
            careful: the lines that run the loop on arrays.
        """
        lines = ["try:", *[f"    {line}" for line in self._on_numbers()]]
        lines += ["except (ArithmeticError, ValueError):  # NumPy gives an infinity or NaN", "    pass"]
        lines += [f"{row} = np.array({row})" for row in self.arguments if row in self.lists]
        lines += [*careful, *[f"{row} = {row}.tolist()" for row in self.made if row in self.lists]]
        return "\n    ".join([f"def {name}({', '.join(self.arguments)}):", *lines, f"return {', '.join(self.made)}"]) + "\n"

    def _on_numbers(self) -> list[str]:
        """Return the lines that run the loop on numbers and return its results, unless a zero may have caused a NaN."""
        loop, carries = self.loop, self.params["carries"]
        step, results = loop.lines()
        own = [name for slot in range(carries) for name in loop.names_of(slot)]
        ends = [text for parts in results[:carries] for text in parts]
        inner = [*step, *[self._kept(row, parts) for row, parts in zip(self.made[carries:], results[carries:], strict=True)]]
        inner += assigned(own, ends)
        lines = self._before()
        if inner:  # a step may leave all numbers unchanged
            lines += [f"for {self._header()}:", *[f"    {line}" for line in inner]]
        rows = self.made[carries:]
        lines += [f"{row}.reverse()" for row, parts in zip(rows, results[carries:], strict=True) if self._is_turned(parts)]
        returned = f"return {', '.join(map(self._result, range(len(self.made))))}"
        if not loop.guarded:
            return [*lines, returned]
        total = f"{loop.prefix}_total"
        sums = " + ".join([*own, *[f"sum({row})" for row in rows]])
        return [*lines, f"{total} = {sums}", f"if {total} == {total}:", f"    {returned}"]

    def _before(self) -> list[str]:
        """Return the lines that split arguments into numbers."""
        carries, rows = self.params["carries"], self.params["rows"]
        lines = [f"{short} = {self.definitions.literal(function)}" for short, function in self.loop.functions.items()]
        for slot in [*range(carries), *range(carries + rows, len(self.body.inputs))]:
            source, text = self.loop.equation.inputs[slot], self.given[slot]
            parts = self.loop.parts_of(source).ravel() if isinstance(source, Constant) else []
            right = ", ".join([self.loop.numbers[part].form for part in parts]) if len(parts) else self._numbers(text)
            lines.append(f"{self._target(slot)} = {right}{',' if len(parts) == 1 and self.body.specs[slot].shape else ''}")
        return [*lines, *[f"{row} = []" for row in self.made[carries:]]]

    def _header(self) -> str:
        """Return the loop header after `for`."""
        first, count, reverse = self.params["carries"], self.params["rows"], self.params["reverse"]
        if not count:
            return f"_ in range({self.params['length']})"
        every = []
        for text in self.given[first : first + count]:
            if text in self.lists:
                every.append(f"reversed({text})" if reverse else text)
            else:
                every.append(self._numbers(f"{text}[::-1]" if reverse else text))
        names = [self._target(slot) for slot in range(first, first + count)]
        if count == 1:
            return f"{names[0]} in {every[0]}"
        inner = [f"({name})" if "," in name else name for name in names]
        return f"{', '.join(inner)} in zip({', '.join(every)})"

    def _numbers(self, text: str) -> str:
        return f"{self.definitions.literal(numbers)}({text})"

    def _target(self, slot: int) -> str:
        """Return the names of the elements of a slot as the target of an assignment."""
        names = self.loop.names_of(slot)
        return ", ".join(names) + ("," if len(names) == 1 and self.body.specs[slot].shape else "")

    def _kept(self, row: str, parts: Sequence[str]) -> str:
        return f"{row}.append({parts[0]})" if len(parts) == 1 else f"{row} += ({', '.join(parts)})"

    def _is_turned(self, parts: Sequence[str]) -> bool:
        """Return `True` if a result list must be reversed: a reverse scan of numbers. Vectors are reversed as arrays."""
        return self.params["reverse"] and len(parts) == 1

    def _result(self, place: int) -> str:
        """Return the text of a result."""
        name, carries = self.made[place], self.params["carries"]
        if place >= carries:
            shape = self.body.results[place].shape
            shaped = f".reshape({self.params['length']}, {shape[0]})" if shape else ""
            shaped += "[::-1].copy()" if shape and shape[0] > 1 and self.params["reverse"] else ""
            return name if name in self.lists else f"np.array({name}){shaped}"
        spec, names = self.body.specs[place], self.loop.names_of(place)
        if spec.shape:
            return f"np.array([{', '.join(names)}])"
        return names[0] if self.body.results[place].weak else f"np.float64({names[0]})"


def numbers(value: Any) -> Any:
    """Convert a NumPy scalar or array to Python numbers.

    Raises:
        ValueError: the value has another type. The loop then runs on arrays.
    """
    if type(value) is np.ndarray or type(value) is np.float64:
        return value.tolist()
    if type(value) is float:
        return value
    raise ValueError("not of NumPy")


def assigned(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return the simultaneous assignment of values to names; no line if all values equal their names."""
    pairs = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
    return [f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}"] if pairs else []


def _within(text: str) -> str:
    """Return the text in parentheses if another expression needs them around it."""
    return text if text.isidentifier() or re.fullmatch(r"[\d.]+(e[-+]?\d+)?|\w+\([^()]*\)", text) else f"({text})"


def _literal(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _is_short(spec: ArraySpec) -> bool:
    """Return `True` if a value is a number or a short vector."""
    return spec.dtype == _FLOAT64 and (not spec.shape or (len(spec.shape) == 1 and 0 < spec.shape[0] <= _LONGEST))


def _is_number(source: Any) -> bool:
    """Return `True` if a source is a value of the step, or a constant that Python floats represent exactly."""
    if not isinstance(source, Constant):
        return True
    value = source.value
    if type(value) is np.ndarray:
        return value.dtype == _FLOAT64 and value.ndim <= 1
    return type(value) in (float, np.float64) or (type(value) is int and abs(value) < 2**53)


class ArrayLoop:
    """The source of one scan and the buffers for the results of its steps.

    Args:
        equation: the scan.
        made: the names of its results.
        definitions: the definitions in front of the function.
        in_place: steps may write into rows of buffers. Otherwise results are stacked after the loop, in their axis order.

    Attributes:
        targets: maps a slot of the body to the array with one row for each step.
        states: maps the position of a result that holds a carry before each step to the array that also holds the final carry.
    """

    def __init__(self, equation: Equation, made: Sequence[str], definitions: Definitions, in_place: bool) -> None:
        self.equation, self.made, self.definitions = equation, made, definitions
        self.body, self.reverse = equation.params["body"], equation.params["reverse"]
        self.carries, self.rows = equation.params["carries"], equation.params["rows"]
        self.targets: dict[int, str] = {}
        self.states: dict[int, str] = {}
        if in_place:
            self._find_targets()

    def _find_targets(self) -> None:
        makers = {e.outputs[0]: e for e in self.body.equations}

        def is_written(slot: Any) -> bool:
            """Return `True` if a ufunc computes the slot, so that the result can be written into a row."""
            if type(slot) is not int or slot not in makers or not self.body.specs[slot].shape:
                return False
            ufunc = ufunc_of(makers[slot], self.body)
            return ufunc is not None and ufunc is not np.power and (ufunc.signature is None or ufunc is np.matmul)

        for place, slot in enumerate(self.body.outputs[self.carries :], self.carries):
            if is_written(slot):
                self.targets.setdefault(slot, self.made[place])
        for place, slot in enumerate(self.body.outputs[self.carries :], self.carries):
            if type(slot) is not int or slot >= self.carries or not is_written(after := self.body.outputs[slot]):
                continue
            if after not in [self.body.outputs[self.body.outputs[i]] for i in self.states]:
                self.targets.setdefault(after, self.definitions.local(f"{self.made[place]}_next"))
                self.states[place] = self.definitions.local(f"{self.made[place]}_all")

    def lines(self, given: Sequence[str], names: Mapping[int, str], step: Sequence[str], results: Sequence[str]) -> list[str]:
        """Return the lines of the loop.

        Args:
            given: texts of the arguments of the scan.
            names: the names of the values of a step.
            step: the lines of a step.
            results: texts of the results of a step.
        """
        carries, rows = self.carries, self.rows
        own = [names[i] for i in range(len(self.body.inputs))]
        kept = [(i, name) for i, name in enumerate(self.made) if i >= carries and not self._is_row(i)]
        lines = [*assigned(own[:carries], given[:carries]), *assigned(own[carries + rows :], given[carries + rows :])]
        lines += [*self._arrays(given), *[f"{name} = []" for _, name in kept]]
        lines.append(f"for {self._header(given, names)}:")
        lines += [f"    {line}" for line in step]
        lines += [f"    {name}.append({results[i]})" for i, name in kept]
        lines += [f"    {line}" for line in assigned(own[:carries], results[:carries])]
        copies = [f"{own[i]}.copy()" if self.body.outputs[i] in self.targets else own[i] for i in range(carries)]
        lines += assigned(self.made[:carries], copies)
        for i, name in kept:
            array = f"{name}[::-1]" if self.reverse else name
            stack = "stack" if self.body.results[i].ndim > 1 else "array"
            lines.append(f"{name} = np.{stack}({array})")  # np.stack keeps the order of axes
        return lines

    def _is_row(self, place: int) -> bool:
        """Return `True` if steps write this result into rows of a buffer."""
        return place in self.states or self.targets.get(self.body.outputs[place]) == self.made[place]

    def _arrays(self, given: Sequence[str]) -> list[str]:
        """Return the lines that allocate the buffers for the steps."""
        lines, done = list[str](), set[str]()
        first, last = ("1:", ":-1") if self.reverse else (":-1", "1:")
        for place, whole in self.states.items():
            carry = self.body.outputs[place]
            target = self.targets[self.body.outputs[carry]]
            lines.append(f"{whole} = {self._empty(place, 1)}")
            lines.append(f"{whole}[{-1 if self.reverse else 0}] = {given[carry]}")
            lines.append(f"{self.made[place]}, {target} = {whole}[{first}], {whole}[{last}]")
            done.add(target)
        for place in range(self.carries, len(self.made)):
            if self._is_row(place) and place not in self.states and self.made[place] not in done:
                lines.append(f"{self.made[place]} = {self._empty(place, 0)}")
        return lines

    def _empty(self, place: int, more: int) -> str:
        spec = self.body.results[place]
        shape = (self.equation.params["length"] + more, *spec.shape)
        return f"np.empty({shape!r}, {self.definitions.literal(spec.dtype)})"

    def _header(self, given: Sequence[str], names: Mapping[int, str]) -> str:
        """Return the loop header after `for`."""
        first = self.carries
        arrays = [*given[first : first + self.rows], *self.targets.values()]
        own = [*[names[i] for i in range(first, first + self.rows)], *[names[slot] for slot in self.targets]]
        if not arrays:
            return f"_ in range({self.equation.params['length']})"
        every = [f"{array}[::-1]" if self.reverse else array for array in arrays]
        both = every[0] if len(every) == 1 else f"zip({', '.join(every)})"
        return f"{', '.join(own)} in {both}"
