"""Tiling: find clusters of equations to compute together, block by block, so that intermediate values stay in the cache.

A cluster consists of elementwise equations over one large shape, and full sums of their results or of products of two results.
Independent equations move in front of the cluster. Dependent equations move behind it.

Blocks are made of the equations, not of the loop IR. One operation of the loop IR is one instruction, but one equation is one
NumPy call: for the Greeks of Black and Scholes, 326 equations are 789 operations, for `tanh(a x + b) exp(-x x)` 18 are 26.
Blocks of operations would make 1.4 to 2.4 times as many calls. The loop IR also lacks complex numbers, and its sums are
compensated by operations on single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends.short_text import is_fresh, is_power, ufunc_of
from functad.backends.source import Definitions
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of, last_readers
from functad.expressions.spec import ArraySpec, spec_or_none
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.reductions.over_axes import MEAN, SUM

LARGE = 4_000_000
"""Bytes from which an array is computed in blocks: several smaller arrays fit into the last-level cache."""

BLOCK = 1 << 16
"""Bytes of a block of one array: several blocks fit into the L2 cache, and BLAS starts no threads for 8,192 numbers."""

_ALIGNED = 64
"""A multiple of this row count keeps blocks aligned to cache lines for every dtype."""

_WINDOW = 500
"""Equations after the last member of a cluster at which the search for more members ends."""

_STEPS = 200_000
"""Equations to inspect before the search for clusters ends: about a tenth of a second."""


class Block(NamedTuple):
    """A cluster.

    Attributes:
        start, stop: the range of its equations.
        shape: the shape of all arrays in the cluster.
        rows: the number of rows of a block along the first axis; the number of elements if `flat`.
        flat: all arrays have the full shape and are flattened to one axis.
        results: the slots that are read outside the cluster.
    """

    start: int
    stop: int
    shape: tuple[int, ...]
    rows: int
    flat: bool
    results: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of rows of the whole arrays; the number of elements if `flat`."""
        return math.prod(self.shape) if self.flat else self.shape[0]


def arranged(expressions: Expressions, sums: bool = True) -> tuple[Expressions, dict[int, Block]]:
    """Return a list with the equations of each cluster in sequence, and the clusters by the position of their first equation.

    Args:
        expressions: the list.
        sums: clusters may include sums. This changes the order of summation.
    """
    if all(spec.size * spec.dtype.itemsize < LARGE for spec in expressions.specs):
        return expressions, {}
    parts = _Search(expressions, sums).parts(list(range(len(expressions.equations))))
    order = [number for part in parts for number in part]
    moved = expressions.replace(equations=tuple([expressions.equations[number] for number in order]))
    last = last_readers(moved.equations, moved.outputs)
    blocks, start = {}, 0
    for part in parts:
        stop = start + len(part)
        if len(part) > 1:
            made = [slot for e in moved.equations[start:stop] for slot in e.outputs]
            results = tuple([slot for slot in made if last.get(slot, -1) >= stop])
            blocks[start] = _block(start, stop, expressions.specs[made[0]], results)
        start = stop
    return moved, blocks


def _block(start: int, stop: int, spec: ArraySpec, results: tuple[int, ...]) -> Block:
    flat = is_flat(spec.shape)
    row = spec.dtype.itemsize * (1 if flat else math.prod(spec.shape[1:]))
    length = spec.size if flat else spec.shape[0]
    rows = -(-length // -(-length * row // BLOCK))  # all blocks have about the same size
    rows += -rows % _ALIGNED if rows > _ALIGNED else 0
    return Block(start, stop, spec.shape, rows, flat, results)


def is_flat(shape: Sequence[int]) -> bool:
    """Return `True` if the rows of a shape are too long for blocks of rows."""
    return len(shape) > 1 and math.prod(shape[1:]) * 8 * 4 > BLOCK


class _Search:
    """The search for clusters in a list."""

    def __init__(self, expressions: Expressions, sums: bool) -> None:
        self.equations = expressions.equations
        self.sums = sums
        self.specs = expressions.specs
        self.steps = 0
        self.shapes = [self._shape(equation) for equation in self.equations]
        self.reads = [frozenset(inputs_of(equation)) for equation in self.equations]
        self._readers: dict[int, set[int]] = {}
        for number, equation in enumerate(expressions.equations):
            for slot in inputs_of(equation):
                self._readers.setdefault(slot, set()).add(number)
        for source in expressions.outputs:
            if type(source) is int:
                self._readers.setdefault(source, set()).add(-1)

    def parts(self, numbers: list[int]) -> list[list[int]]:
        """Return the numbers of equations in a new order, in parts. Parts with several equations are clusters."""
        found: list[list[int]] = []
        while numbers:
            first, *rest = numbers
            shape = self.shapes[first] if self.steps < _STEPS else None
            early, cluster, late = self._grown(first, rest, shape) if shape else ([], [first], rest)
            if len(cluster) > 1 and self._saves(cluster, shape):  # type: ignore[arg-type]
                found += [*self.parts(early), cluster]
                numbers = late
            else:
                found.append([first])
                numbers = rest
        return found

    def _grown(self, first: int, rest: list[int], shape: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
        """Return the equations before a cluster that begins with `first`, the cluster, and the equations after it."""
        early, cluster, late = [], [first], []
        inside, after = set(self.equations[first].outputs), set[int]()
        place = newest = 0
        for place, number in enumerate(rest):
            equation, reads = self.equations[number], self.reads[number]
            free = reads.isdisjoint(after)
            if free and self.shapes[number] == shape:
                cluster.append(number)
                inside.update(equation.outputs)
                newest = place
            elif free and not reads.isdisjoint(inside) and self._is_sum(equation, shape):
                cluster.append(number)
                after.update(equation.outputs)
            elif not free or not reads.isdisjoint(inside):
                late.append(number)
                after.update(equation.outputs)
                if self.shapes[number] != shape and any(self._is_large(slot) for slot in equation.outputs):
                    break  # results of members moved up from behind it would live longer
            else:
                early.append(number)
            if place - newest > _WINDOW:
                break
        late += rest[place + 1 :]
        self.steps += place + 1
        return early, cluster, late

    def _is_large(self, slot: int) -> bool:
        return self.specs[slot].size * self.specs[slot].dtype.itemsize >= max(LARGE, 1)

    def _shape(self, equation: Equation) -> tuple[int, ...] | None:
        """Return the shape of the result if it is large and computed element by element; otherwise `None`."""
        if len(equation.outputs) != 1 or not self._is_large(equation.outputs[0]) or not is_elementwise(equation):
            return None
        spec = self.specs[equation.outputs[0]]
        given = [self._spec(source) for source in equation.inputs]
        flat = is_flat(spec.shape)
        fitting = all(s is not None and (not flat or s.shape in ((), (1,), spec.shape)) for s in given)
        return spec.shape if fitting and spec.dtype.kind in "bfciu" else None

    def _spec(self, source: int | Constant) -> ArraySpec | None:
        return spec_or_none(source.value) if isinstance(source, Constant) else self.specs[source]

    def _is_sum(self, equation: Equation, shape: tuple[int, ...]) -> bool:
        """Return `True` if an equation is the full sum or mean of an array of `shape`, or the dot product of two."""
        primitive, given = equation.primitive, [self._spec(source) for source in equation.inputs]
        if not self.sums or primitive.owner is not None or any(s is None or s.shape != shape for s in given):
            return False
        kinds = [s.dtype for s in given if s is not None]
        if any(kind.char not in "fdFD" for kind in kinds) or len(set(kinds)) > 1:
            return False
        product = contraction_of(primitive, equation.params, [len(shape)] * len(given))
        if product is not None:
            return len(given) == 2 and product.terms[0] == product.terms[1] and not (product.result or product.has_diagonals)
        if primitive not in (SUM, MEAN) or equation.params["keepdims"]:
            return False
        axis = equation.params["axis"]
        return axis is None or (isinstance(axis, tuple) and len(axis) == len(shape)) or (len(shape) == 1 and axis in (0, -1))

    def _saves(self, cluster: Sequence[int], shape: tuple[int, ...]) -> bool:
        """Return `True` if the equations, computed one by one, would need more live arrays than their results.

        One array that is overwritten in place is as fast as blocks or faster. Repeated allocation takes three to ten times as
        long.
        """
        equations, own = [self.equations[number] for number in cluster], frozenset(cluster)
        last = last_readers(equations)
        inside, results, live, most = set[int](), 0, 0, 0
        for number, equation in enumerate(equations):
            dead = len([s for s in set(inputs_of(equation)) & inside if last[s] == number and not self._is_read(s, own)])
            [slot] = equation.outputs
            if self.specs[slot].shape == shape:
                inside.add(slot)
                results += self._is_read(slot, own)
                live += 1
                most = max(most, live - min(dead, 1))
            live -= dead
        return most > max(1, results)

    def _is_read(self, slot: int, cluster: frozenset[int]) -> bool:
        """Return `True` if an equation or output outside a cluster reads the slot."""
        return not self._readers.get(slot, set()) <= cluster


def is_elementwise(equation: Equation) -> bool:
    """Return `True` if an equation is elementwise and runs no user code."""
    primitive = equation.primitive
    if primitive.multiple or primitive.inner is not None or primitive.owner is not None or primitive.lists:
        return False
    if any(not isinstance(value, (bool, int, float, complex, str, np.dtype, type(None))) for value in equation.params.values()):
        return False
    function: Any = primitive.function
    if isinstance(function, np.ufunc) and not equation.params:
        return function.signature is None and function.nout == 1
    return primitive.kind == "elementwise" or primitive.dependence == "same"


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
            self.sums.append((parts, slot, equation.primitive is MEAN))
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
