"""The source of a cluster: a function with a loop over blocks that reuses the buffers of intermediate results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.blocks import Block
from functad.backends.source import Definitions
from functad.backends.ufuncs import is_fresh, is_power, ufunc_of
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of, last_readers
from functad.expressions.spec import ArraySpec, spec_or_none


class BlockWriter:
    """Writes one cluster as a function of the values that it reads.

    Args:
        expressions: the list.
        block: the cluster.
        names: maps a slot to its name.
        definitions: the definitions in front of the function.
        source: returns the text of an input of an equation.

    Attributes:
        text: the definition of the function.
    """

    def __init__(
        self,
        expressions: Expressions,
        block: Block,
        names: Mapping[int, str],
        definitions: Definitions,
        source: Callable[[int | Constant], str],
    ) -> None:
        self.expressions, self.block, self.names = expressions, block, names
        self.specs, self.definitions, self.source = expressions.specs, definitions, source
        self.name = definitions.local(f"block_{names[block.results[0]]}")
        self.start, self.stop = definitions.local("start"), definitions.local("stop")
        self.equations = expressions.equations[block.start : block.stop]
        self.last = last_readers(self.equations)
        made = {slot for e in self.equations for slot in e.outputs}
        self.read = list(dict.fromkeys(s for e in self.equations for s in inputs_of(e) if s not in made))
        self.arrays = [s for s in block.results if self.specs[s].shape == block.shape]
        self.sums: list[tuple[str, int, bool]] = []
        self.parts: dict[str, str] = {}
        self.texts: dict[int, str] = {}
        self.buffers = _Buffers(definitions)
        self.lines: list[str] = []
        for number, equation in enumerate(self.equations):
            self._write(number, equation)
        self.text = (
            "\n    ".join([self._head(), *self._before(), *[f"    {line}" for line in self._loop()], *self._after()]) + "\n"
        )

    def call(self) -> str:
        """Return the line that calls the function."""
        names = [self.names[s] for s in self.block.results]
        return f"{', '.join(names)} = {self.name}({', '.join(self.names[s] for s in self.read)})"

    def _head(self) -> str:
        return f"def {self.name}({', '.join(self.names[s] for s in self.read)}):"

    def _before(self) -> list[str]:
        """Return the lines that allocate the results and the buffers of a block."""
        block = self.block
        whole = (block.length,) if block.flat else block.shape
        rows = (block.rows, *whole[1:])
        lines = [f"{self.names[s]} = np.empty({whole!r}, {self._dtype(self.specs[s].dtype)})" for s in self.arrays]
        lines += [f"{parts} = []" for parts, _, _ in self.sums]
        lines += [f"{name} = np.empty({rows!r}, {self._dtype(dtype)})" for name, dtype in self.buffers.made.items()]
        return [*lines, f"for {self.start} in range(0, {block.length}, {block.rows}):"]

    def _loop(self) -> list[str]:
        block, size = self.block, f"{self.stop} - {self.start}"
        lines = [f"{self.stop} = min({self.start} + {block.rows}, {block.length})"]
        if block.length % block.rows and self.buffers.made:
            lines.append(f"if {size} < {block.rows}:")
            lines += [f"    {name} = {name}[:{size}]" for name in self.buffers.made]
        lines += [f"{part} = {whole}[{self.start}:{self.stop}]" for whole, part in self.parts.items()]
        return [*lines, *self.lines]

    def _after(self) -> list[str]:
        """Return the lines that add the partial sums of the blocks and return the results."""
        lines = []
        for parts, slot, is_mean in self.sums:
            mean = f" / {math.prod(self.block.shape)}" if is_mean else ""
            lines.append(f"{self.names[slot]} = np.add.reduce({parts}, dtype={self._dtype(self.specs[slot].dtype)}){mean}")
        shaped = f".reshape({self.block.shape!r})" if self.block.flat else ""
        results = [self.names[s] + (shaped if s in self.arrays else "") for s in self.block.results]
        return [*lines, f"return {', '.join(results)}"]

    def _dtype(self, dtype: np.dtype[Any]) -> str:
        return self.definitions.literal(dtype)

    def _given(self, source: int | Constant) -> str:
        """Return the text of an argument in a block: for an outer array with the rows of the cluster, the rows of the block."""
        if type(source) is int and source in self.texts:
            return self.texts[source]
        text = self.source(source)
        spec = spec_or_none(source.value) if isinstance(source, Constant) else self.specs[source]
        if spec is None or not self._has_rows(spec):
            return text
        whole = f"{text}.reshape(-1)" if self.block.flat else text
        return self.parts.setdefault(whole, self.definitions.local(f"{text}_part"))

    def _has_rows(self, spec: ArraySpec) -> bool:
        own, shape = spec.shape, self.block.shape
        return own == shape or (not self.block.flat and len(own) == len(shape) and own[0] == shape[0])

    def _write(self, number: int, equation: Equation) -> None:
        """Write the lines of an equation."""
        [slot] = equation.outputs
        given = [self._given(source) for source in equation.inputs]
        dead = [s for s in set(inputs_of(equation)) if self.last[s] == number]
        if self.specs[slot].shape != self.block.shape:
            parts = self.definitions.local(f"{self.names[slot]}_parts")
            self.sums.append((parts, slot, equation.primitive.function is np.mean))
            flat = "" if self.block.flat or len(self.block.shape) == 1 else ".reshape(-1)"
            both = ", ".join([f"{text}{flat}" for text in given])
            one = f"np.add.reduce({given[0]}, None)" if len(given) == 1 else f"np.matmul({both})"
            self.lines.append(f"{parts}.append({one})")
            self._drop(dead)
        elif slot in self.arrays:
            self._write_result(equation, slot, given)
            self._drop(dead)
        else:
            self._write_inner(equation, slot, given, dead)
            if slot not in self.last:
                self._drop([slot])

    def _write_result(self, equation: Equation, slot: int, given: Sequence[str]) -> None:
        """Write the lines of an equation whose result is also read outside: the block goes into the whole array."""
        target = f"{self.names[slot]}[{self.start}:{self.stop}]"
        ufunc = self._ufunc(equation)
        right = self._call(equation, given) if ufunc is None else f"{ufunc}({', '.join([*given, target])})"
        if slot not in self.last:
            self.lines.append(right if ufunc is not None else f"{target} = {right}")
            return
        self.texts[slot] = part = self.definitions.local(f"{self.names[slot]}_part")
        if ufunc is None:
            self.lines.append(f"{target} = {right}")
        self.lines.append(f"{part} = {target if ufunc is None else right}")

    def _write_inner(self, equation: Equation, slot: int, given: Sequence[str], dead: Sequence[int]) -> None:
        """Write the lines of an equation whose result only the cluster reads: the block goes into a reused buffer."""
        name = self.texts[slot] = self.names[slot]
        ufunc = self._ufunc(equation)
        if ufunc is None:
            self.lines.append(f"{name} = {self._call(equation, given)}")
            if not is_fresh(equation):
                self.buffers.share(slot, inputs_of(equation))
            self.buffers.loose.add(slot)
        for other in dead:  # the result may reuse their memory
            self.buffers.drop(other)
        if ufunc is not None:
            buffer = self.buffers.take(slot, self.specs[slot].dtype)
            self.lines.append(f"{name} = {ufunc}({', '.join([*given, buffer])})")
        self._drop(dead)

    def _ufunc(self, equation: Equation) -> str | None:
        """Return the text of the ufunc of an equation; `None` for `np.power`, as `x ** 2` takes a tenth of the time."""
        ufunc = ufunc_of(equation, self.expressions)
        if ufunc is not np.power:
            return None if ufunc is None else self.definitions.text(ufunc, ufunc.__name__)
        return None

    def _call(self, equation: Equation, given: Sequence[str]) -> str:
        if is_power(ufunc_of(equation, self.expressions), equation, self.expressions):
            return " ** ".join(given)
        return self.definitions.call(equation.primitive.compute, given, equation.params)

    def _drop(self, slots: Sequence[int]) -> None:
        """Release the memory of slots for reuse."""
        loose = [self.names[s] for s in sorted(slots) if s in self.buffers.loose]
        if loose:
            self.lines.append(f"del {', '.join(loose)}")
        for slot in slots:
            self.buffers.drop(slot)


class _Buffers:
    """The buffers of a block.

    Attributes:
        made: maps the name of a buffer to its dtype.
        loose: slots with values outside the buffers.
    """

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.made: dict[str, np.dtype[Any]] = {}
        self.loose: set[int] = set()
        self._users: dict[str, set[int]] = {}

    def take(self, slot: int, dtype: np.dtype[Any]) -> str:
        """Return the name of a free or new buffer for the value of a slot."""
        free = [name for name, own in self.made.items() if own == dtype and not self._users[name]]
        name = free[-1] if free else self.definitions.local(f"part_{len(self.made)}")
        self.made[name] = dtype
        self._users[name] = {slot}
        return name

    def share(self, slot: int, others: Sequence[int]) -> None:
        """Keep the buffers of `others` until `slot` is dropped: its value may be a view of one of them."""
        for users in self._users.values():
            if not users.isdisjoint(others):
                users.add(slot)

    def drop(self, slot: int) -> None:
        """Remove a dead value from the users of all buffers."""
        for users in self._users.values():
            users.discard(slot)
