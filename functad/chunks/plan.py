"""The plan for arguments with given chunks: the partition of an expression list, its stages and their tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from functad.chunks.partition import Node, Partition, Value, engine_value, is_chunked, template
from functad.chunks.rows import Template
from functad.chunks.stages import Stage, Stages
from functad.chunks.tasks import ListTask
from functad.errors import UnsupportedError
from functad.expressions.digest import digest
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec

Chunks = tuple[tuple[int, ...], ...]


class Plan:
    """The plan for arguments with given chunks.

    Attributes:
        rows: the number of rows in each chunk.
        partition: the partition of the list.
        stages: the stages of the partition.
        tasks: the task of each stage, by place and level.
    """

    def __init__(self, expressions: Expressions, given: Sequence[Chunks | None], backend: str, exact: bool) -> None:
        specs = expressions.specs[: len(expressions.inputs)]
        self.backend, self.exact = backend, exact
        self.rows = _rows_of(specs, given)
        total = sum(self.rows)
        inputs = []
        for i, (spec, chunks) in enumerate(zip(specs, given, strict=True)):
            value = Value(spec, "input", number=i)
            if chunks is not None:
                found = engine_value(spec, total, 0, None, i)
                value = Value(spec, "input", 0, found.along, number=i, scattered=found.scattered)
            inputs.append(value)
        self.partition = Partition(expressions, inputs, total)
        self.stages = Stages(self.partition)
        self.tasks = {
            (place, level): ListTask(_key_of(stage.template), stage.template, backend, exact, len(stage.totals))
            for place, stages in (("whole", self.stages.whole), ("rows", self.stages.chunks))
            for level, stage in stages.items()
        }

        self._single: dict[int, ListTask] = {}

    def single(self, node: Node) -> ListTask:
        """Return the task that computes one equation of whole values."""
        if id(node) not in self._single:
            values = [v for v in node.inputs if isinstance(v, Value)]
            own = {id(v): Value(v.spec, "input") for v in values}
            same = Node(node.primitive, [own.get(id(s), s) for s in node.inputs], node.params, floats=False)
            same.outputs = [Value(v.spec, "whole", maker=same) for v in node.outputs]
            single = template(list(own.values()), same.outputs)
            made = ListTask(_key_of(single), single, self.backend, self.exact, 0)
            self._single[id(node)] = made.with_places([(i, ()) for i in range(len(own))])
        return self._single[id(node)]

    def argument(self, leaf: Any, number: int) -> Any:
        """Return an argument in the row chunks, with one chunk along each other axis."""
        along = self.partition.inputs[number].along
        if along is None or not is_chunked(leaf):
            return leaf
        wanted = tuple([self.rows if i == along.axis else (n,) for i, n in enumerate(leaf.shape)])
        return leaf if leaf.chunks == wanted else leaf.rechunk(wanted)

    def source(self) -> str:
        """Return a description of each task, with its source."""
        lines = [f"# {len(self.rows)} chunks of {_lengths(self.rows)} rows."]
        for node in {id(value.maker): value.maker for value in self.stages.engine}.values():
            assert node is not None
            made = ", ".join([str(value.spec) for value in node.outputs])
            how = "By one task for all chunks" if node.is_small else "By functions over chunked arrays"
            lines.append(f"# {how}: {node.primitive.name}, which gives {made}.")
        for level in self.stages.levels:
            for place, stages, what in (
                ("whole", self.stages.whole, "Once"),
                ("rows", self.stages.chunks, "For each chunk"),
            ):
                if level in stages:
                    lines += self._shown(place, level, what, stages[level])
        return "\n".join(lines)

    def _shown(self, place: str, level: int, what: str, stage: Stage) -> list[str]:
        rows = max(self.rows, default=0)
        task = self.tasks[place, level]
        after = ""
        if stage.totals:
            names = [getattr(ufunc, "__name__", str(ufunc)) for ufunc in stage.combine]
            after = f" Of all chunks these are combined: {', '.join(names)}."
        text = repr(task.template.of_rows(rows)).splitlines()
        source = str(task.program(rows).compiled().source).splitlines()
        return ["", f"# {what}:{after}", *[f"# {line}" for line in text], *source]


def _key_of(template: Template) -> str:
    """Return a key that is the same for equal lists in every process; a random key if the list has no digest."""
    try:
        return digest(template.expressions) + "".join([f" {along}" for along in template.alongs])
    except UnsupportedError:
        return uuid.uuid4().hex


def _lengths(rows: Sequence[int]) -> str:
    few, many = min(rows, default=0), max(rows, default=0)
    return str(many) if few == many else f"{few} to {many}"


def _rows_of(specs: Sequence[ArraySpec], given: Sequence[Chunks | None]) -> tuple[int, ...]:
    """Return the chunks of the largest array along its axis with the most chunks."""
    best = 0
    rows: tuple[int, ...] = (1,)
    for spec, chunks in zip(specs, given, strict=True):
        size = spec.size * spec.dtype.itemsize
        lengths = max(chunks or ((1,),), key=len, default=(1,))
        if len(lengths) > 1 and size > best:
            best, rows = size, lengths
    return tuple([n for n in rows if n]) or (0,)
