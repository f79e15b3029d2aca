"""Parts of a list that Python numbers compute, and loops over arrays, for the backend `numpy`.

An operation on an array of three numbers takes NumPy twenty times as long as three operations on Python floats. So Python
floats compute scans over a few numbers, and equations on short arrays. The native planner writes such a part as a function of
the loop IR, and `functad.emitters.python_scalars` gives its text. Results are equal: Python and NumPy both use IEEE 754 for
`+`, `-`, `*` and `/`. Where Python raises an exception instead of an infinity or NaN, arrays compute the part. In a scan over
arrays, each step writes its results into rows of preallocated arrays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends.native.arrays import Memory
from functad.backends.short_text import ufunc_of
from functad.backends.source import Definitions
from functad.control.scan import SCAN
from functad.emitters.python_scalars import NotPythonError, Text
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.records import inputs_of, last_readers
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code
from functad.loops.elementary.table import ELEMENTARY
from functad.loops.values import Value
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.read import SCATTER
from functad.transforms.lists import extract

_LONGEST = 8
"""Largest size of an array that is split into numbers: from about 16 elements on NumPy is as fast."""

_FEWEST = 8
"""Steps of a scan from which the conversion of arrays to numbers and back pays off."""

_WORTH = 12
"""Equations on arrays, less three quarters of one for each result, from which the conversion pays off without a scan."""

_MOST = 500
"""Largest count of numbers that a step of a scan, or the equations outside of scans, compute."""

LOCAL_NAMES = frozenset([f"math_{name}" for name in dir(math)])
"""Names of the functions of `math` in the text of a part."""


class _Portable(NamedTuple):
    """The target of Python numbers, which have no fused operations."""

    fused: bool = False
    masked: bool = False


def number_parts(expressions: Expressions, names: Mapping[int, str], exact: bool) -> dict[int, NumberPart]:
    """Return the parts of a list that Python numbers compute, by the numbers of their first equations.

    Args:
        expressions: the list.
        names: maps a slot to its name.
        exact: use only functions with NumPy's exact results.
    """
    equations, found = expressions.equations, dict[int, NumberPart]()
    suited = [_is_suited(e, expressions, exact) for e in equations]
    last = last_readers(equations, expressions.outputs)

    def add(start: int, stop: int) -> None:
        """Add the equations from `start` to `stop`, or halves of them."""
        own = equations[start:stop]
        arrays = sum(any(expressions.specs[s].shape for s in (*inputs_of(e), *e.outputs)) for e in own)
        results = sum(last.get(s, -1) >= stop for e in own for s in e.outputs)
        if arrays - 0.75 * results < _WORTH and not any(e.primitive is SCAN for e in own):
            return
        try:
            found[start] = NumberPart(expressions, start, stop, last, names, exact)
        except NotPythonError:
            if stop - start > 1:
                add(start, (start + stop) // 2)
                add((start + stop) // 2, stop)

    start = 0
    for number in range(len(equations) + 1):
        if number == len(equations) or not suited[number] or number - start == _MOST:
            add(start, number)
            start = number if number < len(equations) and suited[number] else number + 1
    return found


def _is_suited(equation: Equation, expressions: Expressions, exact: bool) -> bool:
    """Return `True` if an equation computes a few numbers, or is a scan with such steps."""
    primitive, params = equation.primitive, equation.params
    if primitive is SCAN:
        body = params["body"]
        numbers = sum(body.specs[slot].size for e in body.equations for slot in e.outputs)
        if params["length"] < _FEWEST or not body.equations or numbers > _MOST or not all(map(_is_short, body.specs)):
            return False
        return not exact or all(map(_is_exact, body.equations))
    given = [s for s in equation.inputs if not (isinstance(s, Constant) and type(s.value) is int)]
    specs = [source_spec(s, expressions.specs) for s in (*given, *equation.outputs)]
    return _is_exact(equation) and primitive.owner is None and all(map(_is_short, specs))


class NumberPart:
    """Equations of a list as Python code on numbers: the native function of the equations, emitted as Python.

    Args:
        expressions: the list.
        start, stop: the numbers of the equations.
        last: maps a slot to the number of its last reader.
        names: maps a slot to its name.
        exact: use only functions with NumPy's exact results.

    Attributes:
        made: the slots of the results.

    Raises:
        NotPythonError: Python numbers cannot compute an equation.
    """

    def __init__(
        self,
        expressions: Expressions,
        start: int,
        stop: int,
        last: Mapping[int, int],
        names: Mapping[int, str],
        exact: bool,
    ) -> None:
        from functad.backends.native.expand import expanded  # noqa: PLC0415 - for programs with such parts
        from functad.backends.native.module_text import ModuleText  # noqa: PLC0415 - likewise
        from functad.backends.native.plan import is_native  # noqa: PLC0415 - likewise
        from functad.backends.native.writer import Writer  # noqa: PLC0415 - likewise

        self.start, self.stop, self.exact = start, stop, exact
        equations = expressions.equations[start:stop]
        inside = {slot for e in equations for slot in e.outputs}
        slots = list(dict.fromkeys([s for e in equations for s in inputs_of(e) if s not in inside]))
        self.made = [slot for e in equations for slot in e.outputs if last.get(slot, -1) >= stop]
        self.given, self.results = [[names[s] for s in own] for own in (slots, self.made)]
        own = expanded(extract(expressions.replace(equations=equations), slots, self.made, self.given))
        if not self.made or not is_native(own):
            raise NotPythonError
        code, module = Code(fused=False), ModuleText(_Portable(), alone=True, most=_LONGEST)  # type: ignore[arg-type]
        self.specs = [*own.specs[: len(slots)], *own.results]
        self.buffers = [f"a{i}" for i in range(len(slots))] + [f"o{i}" for i in range(len(self.made))]
        memory = [
            Memory(spec.shape, KINDS[spec.dtype], Value(code, f"%{name}", "ptr"))
            for name, spec in zip(self.buffers, self.specs, strict=True)
        ]
        writer, targets = Writer(module.plan_of(own), code, module), memory[len(slots) :]
        for array, target in zip(writer.inline(own, memory[: len(slots)], targets), targets, strict=True):
            if array is not target:
                writer.copy(array, target)
        if code.refused is not None:
            raise NotPythonError
        function = code.function("@part", [("ptr", f"%{name}") for name in self.buffers])
        parts = [*module.functions, *[own.function for own in code.definitions.values()]]
        self.prefix = self.results[0]
        self.text = Text(function, {own.name: own for own in parts}, self._called, self.prefix)

    def _called(self, symbol: str) -> Any:
        """Return the function of `math` for an elementary function; `None` if its formula is inlined.

        Raises:
            NotPythonError: there is no such function, and the formula is long or not exact.
        """
        name = symbol.split(".")[1]
        function = getattr(ENTRIES.get(getattr(np, "float_power" if name == "power" else name, None)), "python", None)
        if ELEMENTARY[name].brief:
            return None
        if self.exact or function is None or function.__module__ != "math":
            raise NotPythonError
        return function

    def definition(self, name: str, lists: Collection[str], definitions: Definitions, careful: Sequence[str]) -> str:
        """Return the definition of a function that computes the results with numbers, and falls back to arrays.

        Args:
            name: the name of the function.
            lists: the names of all arguments and results that are Python lists instead of arrays.
            definitions: the definitions in front of the function.
            careful: the lines that compute the results with arrays.
        """
        count = len(self.given)
        lines = [f"{short} = {definitions.literal(function)}" for short, function in self.text.functions.items()]
        for text, own, spec in zip(self.given, self.buffers, self.specs, strict=False):
            lines.append(f"{self._list(own, spec)} = {text if text in lists else f'{definitions.literal(numbers)}({text})'}")
        made = list(zip(self.results, self.buffers[count:], self.specs[count:], strict=True))
        lines += [f"{self.prefix}_{own} = [0.0] * {spec.size}" for _, own, spec in made if self.text.is_list(own)]
        returned = [self._list(own, spec) if row in lists else self._array(own, spec, definitions) for row, own, spec in made]
        lines = ["try:", *[f"    {line}" for line in [*lines, *self.text.lines, f"return {', '.join(returned)}"]]]
        lines += ["except (ArithmeticError, ValueError):  # NumPy gives an infinity or NaN", "    pass"]
        lines += [
            f"{row} = np.array({row}).reshape({spec.shape!r})"
            for row, spec in zip(self.given, self.specs, strict=False)
            if row in lists
        ]
        lines += [*careful, *[f"{row} = {row}.ravel().tolist()" for row in self.results if row in lists]]
        return "\n    ".join([f"def {name}({', '.join(self.given)}):", *lines, f"return {', '.join(self.results)}"]) + "\n"

    def _list(self, own: str, spec: ArraySpec) -> str:
        """Return the text of the list of the elements of an argument or a result."""
        name = f"{self.prefix}_{own}"
        return name if self.text.is_list(own) else f"[{', '.join([f'{name}_{i}' for i in range(spec.size)])}]"

    def _array(self, own: str, spec: ArraySpec, definitions: Definitions) -> str:
        """Return the text of a result."""
        if not spec.shape:
            text = f"{self.prefix}_{own}" + ("[0]" if self.text.is_list(own) else "_0")
            return text if spec.weak else f"np.{spec.dtype.type.__name__}({text})"
        kind = "" if spec.dtype == np.float64 else f", {definitions.literal(spec.dtype)}"
        return f"np.array({self._list(own, spec)}{kind})" + (f".reshape({spec.shape!r})" if len(spec.shape) > 1 else "")


def numbers(value: Any) -> Any:
    """Convert a NumPy scalar or array to a list of Python numbers.

    Raises:
        ValueError: the value has another type. The loop then runs on arrays.
    """
    if type(value) is np.ndarray:
        return value.ravel().tolist()
    if type(value) in (np.float64, np.bool_):
        return [value.item()]
    if type(value) in (float, bool):
        return [value]
    raise ValueError("not of NumPy")


def assigned(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return the simultaneous assignment of values to names; no line if all values equal their names."""
    pairs = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
    return [f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}"] if pairs else []


def _is_short(spec: ArraySpec) -> bool:
    """Return `True` if a value is a number or a short array of float64, or of booleans."""
    return 0 < spec.size <= _LONGEST and spec.dtype.char in "d?"


def _is_exact(equation: Equation) -> bool:
    """Return `True` if numbers give each bit of the result: arithmetic, except for sums and powers, or moved elements."""
    primitive = equation.primitive
    if primitive.dependence == "moved" or primitive is SCATTER:
        return True
    python = None if primitive.kind != "elementwise" or equation.params else primitive.python
    return python is not None and python is not operator.pow and python.__module__ != "math"


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
