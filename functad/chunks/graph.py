"""The Dask graph: one task for each chunk and stage, and a tree of tasks that combine totals."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from functad.chunks.partition import Node, Source, Value, is_chunked
from functad.chunks.plan import Plan
from functad.chunks.stages import Stage
from functad.chunks.tasks import Combination, item, joined
from functad.errors import UnsupportedError
from functad.expressions.expressions import Constant
from functad.expressions.spec import ArraySpec
from functad.places import here
from functad.tracing.foreign import computed

WIDTH = 16
"""The number of parts that one task combines."""


class Graph:
    """The graph of one call.

    Args:
        plan: the plan.
        leaves: the arguments; cut arguments are in the row chunks.
        name: the prefix of all task names.
    """

    def __init__(self, plan: Plan, leaves: Sequence[Any], name: str) -> None:
        self.plan, self.leaves, self.chunks, self.name = plan, leaves, plan.rows, name
        self.da: Any = import_module("dask.array")
        self.delayed: Any = import_module("dask.delayed")
        self.graphs: Any = import_module("dask.highlevelgraph")
        self._arrays: dict[int, Any] = {}
        self._places: dict[int, tuple[Any, tuple[int, ...]]] = {}
        self._blocks: dict[int, Any] = {}
        stages = plan.stages
        for level in stages.levels:
            if level in stages.whole:
                self._run_whole(level, stages.whole[level])
            if level in stages.chunks:
                self._run_chunks(level, stages.chunks[level])

    def results(self) -> list[Any]:
        """Return the results as lazy arrays."""
        return [self.array(source) for source in self.plan.partition.outputs]

    def _layer(self, name: str, tasks: dict[Any, Any], dependencies: Sequence[Any]) -> Any:
        return self.graphs.HighLevelGraph.from_collections(name, tasks, dependencies=dependencies)

    def _arguments(self, stage: Stage) -> list[Any]:
        """Return the arguments of a task, each collection once."""
        found: dict[int, Any] = {}
        for value in stage.inputs:
            holder = self._place(value)[0]
            found[id(holder)] = holder
        return list(found.values())

    def _place(self, value: Value) -> tuple[Any, tuple[int, ...]]:
        """Return the collection that holds a value and the path to the value in it."""
        if id(value) in self._places:
            return self._places[id(value)]
        if value.place == "input" and value.along is None and not hasattr(self.leaves[value.number], "dask"):
            found: Any = self.leaves[value.number]
        else:
            found = self.array(value)
            if value.along is None:
                found = self._gathered(found)
        self._places[id(value)] = found, ()
        return found, ()

    def places(self, stage: Stage) -> list[tuple[int, tuple[int, ...]]]:
        """Return, for each input of a stage, the position of its task argument and the path in that argument."""
        order = {id(holder): i for i, holder in enumerate(self._arguments(stage))}
        return [(order[id(holder)], path) for holder, path in map(self._place, stage.inputs)]

    def _run_whole(self, level: int, stage: Stage) -> None:
        task = self.plan.tasks["whole", level].with_places(self.places(stage))
        holder = self.delayed.delayed(task, pure=False)(*self._arguments(stage), dask_key_name=f"{self.name}-whole-{level}")
        for i, value in enumerate(stage.kept):
            self._places[id(value)] = holder, (i + 1,)

    def _run_chunks(self, level: int, stage: Stage) -> None:
        """Run an expression list for each chunk and combine the totals."""
        task = self.plan.tasks["rows", level].with_places(self.places(stage))
        alongs = {id(self._place(v)[0]): v.along for v in stage.inputs}
        letters, arguments = 1, []
        for holder in self._arguments(stage):
            index: list[int] | None = None
            if id(holder) in self._blocks:
                index = [0, *range(letters, letters + holder.ndim - 1)]
            elif isinstance(holder, self.da.Array):
                along = alongs[id(holder)]
                index = list(range(letters, letters + holder.ndim - 1))
                index.insert(along.axis, 0)  # type: ignore[union-attr]
            letters += 0 if index is None else len(index) - 1
            arguments += [holder, index]
        name = f"{self.name}-chunks-{level}"
        blocks = self.da.blockwise(
            task, list(range(letters)), *arguments, name=name, dtype=object, meta=np.empty((0,) * letters, object),
            align_arrays=False,
        )  # fmt: skip
        self._blocks[id(blocks)] = blocks
        for i, value in enumerate(stage.kept):
            self._places[id(value)] = blocks, (i + 1,)
        if stage.totals:
            total = self._combined(blocks, stage, f"{self.name}-total-{level}")
            for i, value in enumerate(stage.totals):
                self._places[id(value)] = total, (i,)

    def _combined(self, blocks: Any, stage: Stage, name: str) -> Any:
        """Return the totals, combined by a tree of tasks."""
        keys = [(blocks.name, i, *(0,) * (blocks.ndim - 1)) for i in range(len(self.chunks))]
        tasks: dict[Any, Any] = {}
        step = 0
        while step == 0 or len(keys) > 1:
            combine = Combination(stage.combine, inside=step == 0)
            groups = [keys[i : i + WIDTH] for i in range(0, len(keys), WIDTH)]
            made: list[Any] = [(name, step, i) for i in range(len(groups))]
            tasks |= {key: (combine, group) for key, group in zip(made, groups, strict=True)}
            keys, step = made, step + 1
        return self.delayed.Delayed(keys[0], self._layer(name, tasks, [blocks]), layer=name)

    def array(self, source: Source) -> Any:
        """Return a value as a lazy array."""
        if isinstance(source, Constant):
            return self.da.asarray(source.value)
        if id(source) not in self._arrays:
            self._arrays[id(source)] = self._made(source)
        return self._arrays[id(source)]

    def _made(self, value: Value) -> Any:
        if value.place == "input":
            return self.da.asarray(self.leaves[value.number])
        if value.place == "engine" and value.maker is not None:
            found = self._by_engine(value)
            return found if value.along is None else self.in_rows(found, value)
        if value.place == "cut":
            assert value.source is not None
            given = self._given(value.source)
            if not is_chunked(given):  # a NumPy array is cut here, once
                return self.da.from_array(np.asarray(given), chunks=self._lengths(value))
            return self.in_rows(given, value)
        holder, path = self._places[id(value)]
        spec, n = value.spec, len(self._arrays)
        name = f"{self.name}-result-{n}"
        if id(holder) in self._blocks:
            assert value.along is not None
            axis, others = value.along.axis, (0,) * (holder.ndim - 1)
            own = (0,) * axis, (0,) * (len(spec.shape) - axis - 1)
            tasks: dict[Any, Any] = {
                (name, *own[0], i, *own[1]): (item, (holder.name, i, *others), *path) for i in range(len(self.chunks))
            }
            sizes = self._lengths(value)
        else:
            tasks = {(name, *(0,) * len(spec.shape)): (item, holder.key, *path)}
            sizes = tuple([(n,) for n in spec.shape])
        return self.da.Array(self._layer(name, tasks, [holder]), name, sizes, meta=_empty(spec))

    def in_rows(self, array: Any, value: Value) -> Any:
        """Return an array in the row chunks."""
        wanted = self._lengths(value)
        return array if array.chunks == wanted else array.rechunk(wanted)

    def _lengths(self, value: Value) -> tuple[tuple[int, ...], ...]:
        """Return the chunks of a cut value."""
        along = value.along
        assert along is not None
        lengths = tuple([n * along.factor for n in self.chunks])
        return tuple([lengths if i == along.axis else (n,) for i, n in enumerate(value.spec.shape)])

    def _by_engine(self, value: Value) -> Any:
        """Return a value computed over all chunks: by one task if all arrays are small, otherwise by functions of Dask.

        Raises:
            UnsupportedError: Dask has no such function, and the arrays are large.
        """
        node = value.maker
        assert node is not None
        if node.is_small:
            outs: Sequence[Any] = self._in_one_task(node)
        else:
            outs = self._by_dask(node)
        for own, result in zip(node.outputs, outs, strict=True):
            self._arrays[id(own)] = result if own.along is None else self.in_rows(self.da.asarray(result), own)
        return self._arrays[id(value)]

    def _given(self, source: Source) -> Any:
        """Return a value as an argument of a function over chunked arrays."""
        if isinstance(source, Constant):
            return source.value
        if source.place == "input" and source.along is None:
            return self.leaves[source.number]
        return self.array(source)

    def _by_dask(self, node: Node) -> Sequence[Any]:
        """Return the results of an equation, computed by functions of Dask."""
        problem: Any = "it would have to know values while the graph is made"
        if node.primitive.lists not in ("branches", "loop"):
            try:
                out = computed(node.primitive, list(map(self._given, node.inputs)), dict(node.params))
            except (UnsupportedError, TypeError, ValueError, NotImplementedError, AttributeError, IndexError) as error:
                problem = error
            else:
                return out if node.primitive.multiple else (out,)
        raise UnsupportedError(
            f"{node.primitive.name} over arrays in chunks, in jit at {here()}: it combines the rows, they are too large for "
            f"one task, and Dask cannot compute it ({problem}). Leave it out, or compute it of a part of the rows."
        )

    def _gathered(self, array: Any) -> Any:
        """Return an array as one block, by one task; `delayed` would optimise the graph and read chunks twice."""
        name = f"{self.name}-whole-{array.name}"
        return self.delayed.Delayed(name, self._layer(name, {name: (joined, array.__dask_keys__())}, [array]), layer=name)

    def _in_one_task(self, node: Node) -> list[Any]:
        """Return the results of an equation that one task computes from gathered arrays."""
        values = {id(source): source for source in node.inputs if isinstance(source, Value)}
        arrays = [self._gathered(self.array(source)) for source in values.values()]
        name = f"{self.name}-one-{len(self._arrays)}"
        holder = self.delayed.delayed(self.plan.single(node), pure=False)(*arrays, dask_key_name=name)
        outs = []
        for i, spec in enumerate([own.spec for own in node.outputs]):
            own_name = f"{name}-{i}"
            tasks = {(own_name, *(0,) * len(spec.shape)): (item, holder.key, i + 1)}
            sizes = tuple([(n,) for n in spec.shape])
            outs.append(self.da.Array(self._layer(own_name, tasks, [holder]), own_name, sizes, meta=_empty(spec)))
        return outs


def _empty(spec: ArraySpec) -> Any:
    return np.empty((0,) * len(spec.shape), spec.dtype)
