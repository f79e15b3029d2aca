"""Build one `scan` equation from blocks: its carries, its rows and its body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.compilation.rolling.labels import acting
from functad.compilation.rolling.places import Places, stretch
from functad.compilation.rolling.sums import Sum
from functad.compilation.rolling.wiring import Block, NotRegularError
from functad.compilation.rolling.writer import Source, Writer
from functad.control.scan import SCAN
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, strong_spec
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.indexing.index_map import indexed_shape
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import WRITE
from functad.transforms.lists import extract

ADD: Primitive = ENTRIES[np.add]  # type: ignore[assignment]


class Loop:
    """The inputs and results of a step of a loop, and the loop itself.

    Args:
        places: the origins of the values of the expression list.
        block: the blocks.

    Attributes:
        stacked: results read outside the loop, not only in the last step.
        last: results read outside the loop, in the last step only.
        sums: the sums that the loop accumulates.
        filled: for each result that is an array filled by the steps: the positions of the equations that write to it.
    """

    def __init__(self, places: Places, block: Block) -> None:
        self.places = places
        self.block = block
        self.list = places.labelled.expressions
        self.stacked: list[int] = []
        self.last: list[int] = []
        self.sums: list[Sum] = []
        self.filled: dict[int, list[int]] = {}
        self.skipped = {position for position, _ in block.indexed()}
        self._equations = self.list.equations[block.start : block.start + block.period]
        self._carries: dict[Any, int] = {}
        self._after: list[Source] = []
        self._inits: list[int] = []
        self._rows: dict[tuple[int, ...], int] = {}
        self._outer: dict[int, int] = {}
        self._specs: list[ArraySpec] = list(self.list.specs)
        self._step: list[Equation] = []
        self._fills()
        self._wire()

    # The step.

    def _fresh(self, spec: ArraySpec) -> int:
        self._specs.append(spec)
        return len(self._specs) - 1

    def _wire(self) -> None:
        """Write the equations of a step with new input slots."""
        block = self.block
        before = set(self.places.before[self.places.blocks.index(block)])
        column = 0
        for position, equation in enumerate(self._equations):
            wanted = acting(equation, self.list.specs)
            own = range(column, column + len(equation.inputs))
            column = own.stop
            if position in self.skipped and equation.primitive is GETITEM:
                self._row_of(equation)
            if position in self.skipped or block.start + position in before:
                continue
            inputs = tuple([self._input(c, source, spec) for c, source, spec in zip(own, equation.inputs, wanted, strict=True)])
            self._step.append(Equation(equation.primitive, inputs, equation.params, equation.outputs))

    def _fills(self) -> None:
        """Move the writes to arrays that the steps fill behind the loop."""
        block = self.block
        writers = [position for position in self.skipped if self._equations[position].primitive is WRITE]
        for chain in block.chains(sorted(writers)):
            for position in chain:
                equation, column = self._equations[position], block.first_column(position) + 1
                [slot], value, index = equation.outputs, self._given(int(block.sources[0, column])), equation.params["index"]
                place = indexed_shape(self.list.specs[slot].shape, index)
                if value.shape != place and not (block.fixed[column] and not value.shape):
                    raise NotRegularError(self.block)
                if block.fixed[column] and value.shape and type(index) is tuple:
                    raise NotRegularError(self.block)
            self.filled[self._equations[chain[-1]].outputs[0] - block.base] = chain

    def _row_of(self, equation: Equation) -> None:
        """Make a read at an index that depends on the step an input of the step."""
        [slot] = equation.outputs
        block = self.block
        sources = tuple(range(slot, slot + block.width * block.count, block.width))
        self._rows[sources] = slot

    def _input(self, column: int, source: Any, spec: ArraySpec) -> Source:
        block = self.block
        lag = int(block.lags[column])
        if lag == 0:
            return self._made(int(block.results[column]))
        if lag > 0:
            return self.carry(int(block.results[column]), tuple(block.sources[:lag, column].tolist()))
        if block.fixed[column]:
            if isinstance(source, Constant):
                return source
            return self._outside(int(block.sources[0, column]))
        sources = tuple(block.sources[:, column].tolist())
        if spec.weak:
            raise NotRegularError(self.block)
        if sources not in self._rows:
            self._rows[sources] = self._fresh(spec)
        return self._rows[sources]

    def _made(self, result: int) -> int:
        """Return the slot of a result in the step; a loop-invariant result is an input."""
        slot = self.block.base + result
        return self._outside(slot) if self.places.is_before(slot) else slot

    def _outside(self, source: int) -> int:
        if source not in self._outer:
            self._outer[source] = self._fresh(self.list.specs[source])
        return self._outer[source]

    def carry(self, result: int, before: tuple[int, ...]) -> int:
        """Return the input slot for a result of an earlier step.

        Args:
            result: the number of the result.
            before: the sources of its values before the loop, the earliest first. Their number is the lag in steps.
        """
        key = result, before
        if key not in self._carries:
            spec = self.list.specs[self.block.base + result]
            if self._given(before[0]).weak < spec.weak:
                raise NotRegularError(self.block)
            self._carries[key] = slot = self._fresh(spec)
            place = len(self._inits)
            self._inits.append(before[0])
            self._after.append(-1)
            self._after[place] = self._made(result) if len(before) == 1 else self.carry(result, before[1:])
            return slot
        return self._carries[key]

    def _given(self, source: int) -> ArraySpec:
        return self.places.labelled.spec_of(source)

    # Reads outside the loop.

    def read(self, steps: Mapping[int, Iterable[int]]) -> None:
        """Record the results that are read outside the loop, with the steps that are read."""
        for result, own in sorted(steps.items()):
            only_last = all(step == self.block.count - 1 for step in own)
            if result in self.filled:
                if not only_last:
                    raise NotRegularError(self.block)
                continue
            (self.last if only_last else self.stacked).append(result)

    def add(self, total: Sum) -> None:
        """Add a sum that the steps accumulate."""
        self.sums.append(total)

    # The loop.

    def write(self, writer: Writer, number: int) -> list[int]:
        """Write the loop; return the slots of its sums."""
        for before in self.places.before[number]:
            writer.again(before)
        slots = list(self._carries.values())
        inits = [writer.strong(source, self._specs[slot]) for source, slot in zip(self._inits, slots, strict=True)]
        after = list(self._after)
        final = {result: place for place, (result, before) in enumerate(self._carries) if len(before) == 1}
        for result in self.last:
            if result not in final:  # add a carry that no step reads
                spec = self.list.specs[self.block.base + result]
                final[result] = len(inits)
                inits.append(Constant(_zeros(spec)))
                slots.append(self._fresh(spec))
                after.append(self.block.base + result)
        count = len(inits)
        for total in self.sums:
            slots.append(self._fresh(total.spec))
            inits.append(added(writer, Constant(_zeros(total.spec)), total.before))
            after.append(self._accumulated(slots[-1], total))
        made = self._scan(writer, inits, self._body(slots, after))
        ends = self.block.base + (self.block.count - 1) * self.block.width
        writer.values.update({ends + result: made[final[result]] for result in self.last})
        writer.stored.update({(number, result): s for result, s in zip(self.stacked, made[len(inits) :], strict=True)})
        for result, chain in self.filled.items():
            self._fill(writer, result, chain)
        return made[count : len(inits)]

    def _scan(self, writer: Writer, inits: Sequence[Source], body: Expressions) -> list[int]:
        """Write the `scan` equation."""
        block = self.block
        order = slice(None, None, -1) if block.backward else slice(None)
        rows = [writer.gathered(sources[order], self._specs[slot]) for sources, slot in self._rows.items()]
        outer = [writer.value(source) for source in self._outer]
        params = {"carries": len(inits), "rows": len(rows), "length": block.count, "reverse": block.backward, "body": body}
        return writer.emit(SCAN, [*inits, *rows, *outer], params)

    def written(self) -> list[int]:
        """Return the slots of all values that the steps write to arrays."""
        block = self.block
        columns = [block.first_column(position) + 1 for chain in self.filled.values() for position in chain]
        return [s for column in columns for s in block.sources[:, column].tolist() if s >= 0]

    def _fill(self, writer: Writer, result: int, chain: Sequence[int]) -> None:
        """Write the values of all steps to an array at once."""
        block, slot = self.block, self.block.base + result
        shape = self.list.specs[slot].shape
        array = writer.value(int(block.sources[0, block.first_column(chain[0])]))
        for position in chain:
            number, column = block.start + position, block.first_column(position) + 1
            last = number + (block.count - 1) * block.period
            indices = [self.list.equations[i].params["index"] for i in (number, number + block.period, last)]
            index, axis, backward = stretch(indices, shape)
            value = writer.value(int(block.sources[0, column]))
            if not block.fixed[column]:
                sources = block.sources[:: -1 if backward else 1, column].tolist()
                value = moved(writer, writer.gathered(sources, strong_spec(self._given(sources[0]))), axis)
            [array] = writer.emit(WRITE, [array, value], {"path": (), "index": index})
        writer.values[slot + (block.count - 1) * block.width] = array

    def _accumulated(self, slot: int, total: Sum) -> int:
        """Add the contribution of a step to a sum."""
        for result in total.results:
            after = self._fresh(total.spec)
            self._step.append(Equation(ADD, (slot, self._made(result)), {}, (after,)))
            slot = after
        return slot

    def _body(self, slots: Sequence[int], after: Sequence[Source]) -> Expressions:
        inputs = [*slots, *self._rows.values(), *self._outer.values()]
        names = [f"carry[{i}]" for i in range(len(slots))]
        names += [f"row[{i}]" for i in range(len(self._rows))]
        names += [f"outer[{i}]" for i in range(len(self._outer))]
        outputs = [*after, *[self.block.base + result for result in self.stacked]]
        whole = self.list.replace(equations=tuple(self._step), specs=tuple(self._specs))
        return extract(whole, inputs, outputs, names)


def _zeros(spec: ArraySpec) -> Any:
    return spec.dtype.type(0).item() if spec.weak else np.zeros(spec.shape, spec.dtype)[()]


def moved(writer: Writer, source: Source, axis: int) -> Source:
    """Move the first axis of an array to position `axis`."""
    if not axis:
        return source
    rest = list(range(1, len(writer.spec(source).shape)))
    return writer.emit(TRANSPOSE, [source], {"axes": (*rest[:axis], 0, *rest[axis:])})[0]


def added(writer: Writer, total: Source, sources: Iterable[int]) -> Source:
    """Add values of the old list to a value of the new list, one after the other."""
    for source in sources:
        [total] = writer.emit(ADD, [total, writer.value(source)], {})
    return total
