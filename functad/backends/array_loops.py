"""The source of a scan over arrays: a Python loop. Each step writes its results into rows of preallocated arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.number_loops import assigned
from functad.backends.source import Definitions
from functad.backends.ufuncs import ufunc_of
from functad.expressions.expressions import Equation


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
