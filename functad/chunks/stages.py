"""Stages of a partition: for each level, one expression list for whole values and one for each chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functad.chunks.partition import Partition, Source, Value, template
from functad.chunks.rows import Template


class Stage(NamedTuple):
    """The work of one task.

    Attributes:
        inputs: the values that the task reads.
        totals: the totals that the results of all chunks are combined into.
        kept: the other results.
        template: the expression list. Its results are the parts of `totals`, then `kept`.
    """

    inputs: Sequence[Value]
    totals: Sequence[Value]
    kept: Sequence[Value]
    template: Template

    @property
    def combine(self) -> list[Any]:
        """The function that combines two parts, for each total."""
        return [value.combine for value in self.totals]


class Stages:
    """The stages of a partition; values that no output needs are left out.

    Attributes:
        whole: by level, the stage that runs once.
        chunks: by level, the stage that then runs for each chunk.
        engine: the values that functions over chunked arrays compute.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._needed: dict[int, Value] = {}
        self.engine: list[Value] = []
        self.whole: dict[int, Stage] = {}
        self.chunks: dict[int, Stage] = {}
        for source in partition.outputs:
            self._need(source)
        top = max([v.level for v in self._needed.values()], default=0)
        for level in range(top, -1, -1):
            for place, stages in (("rows", self.chunks), ("whole", self.whole)):
                stage = self._stage(place, level)
                if stage is not None:
                    stages[level] = stage
        self.levels = range(top + 1)

    def _need(self, source: Source) -> None:
        """Record that a value is needed outside the stage that computes it."""
        waiting = [source]
        while waiting:
            value = waiting.pop()
            if not isinstance(value, Value) or id(value) in self._needed:
                continue
            self._needed[id(value)] = value
            if value.place == "engine" and value.maker is not None:
                self.engine.append(value)
                waiting += value.maker.inputs
            elif value.place == "cut" and value.source is not None:
                waiting.append(value.source)

    def _stage(self, place: str, level: int) -> Stage | None:
        """Return the stage of a level and record its inputs as needed; `None` if the level computes nothing."""
        totals = [v for v in self._needed.values() if v.place == "total" and v.level == level + 1] if place == "rows" else []
        kept = [v for v in self._needed.values() if v.place == place and v.level == level]
        wanted: list[Value] = [*[v.source for v in totals if isinstance(v.source, Value)], *kept]
        if not wanted:
            return None
        inputs: dict[int, Value] = {}
        seen: set[int] = set()
        waiting = list(wanted)
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            node = value.maker
            if value.place == place and node is not None and (value.level == level or node.floats):
                waiting += [v for v in node.inputs if isinstance(v, Value)]
            else:
                inputs[id(value)] = value
                self._need(value)
        ordered = list(inputs.values())
        return Stage(ordered, totals, kept, template(ordered, wanted))
