"""Partition of an expression list: work that runs once, work that runs for each chunk, and combinations over chunks.

Each value of the list gets a place:

| place | meaning |
|---|---|
| `input` | an argument |
| `whole` | the same for all chunks, computed once |
| `rows` | cut along an axis, computed for each chunk |
| `total` | combined from the results of all chunks, then whole |
| `cut` | a whole value, cut like the chunks |
| `engine` | computed by functions over chunked arrays, since its rows depend on several chunks |

The level of a value is the number of successive combinations that it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from functad.chunks.reductions import written_out
from functad.chunks.rows import Along, Counting, Rows, Template
from functad.chunks.rules import Call, Found, elementwise, found_for
from functad.expressions.expressions import Constant, Equation, Expressions, inner_lists
from functad.expressions.spec import ArraySpec, is_array, shape_of, spec_of
from functad.primitives.arranging.reshape import BROADCAST_TO
from functad.primitives.entry import Primitive
from functad.transforms.lists import positional_structures, trace

LARGE = 1 << 26
"""Size limit in bytes: results of functions over chunked arrays up to this size are gathered into one whole value."""


class Value:
    """A value of the list.

    Attributes:
        spec: shape and dtype over all chunks.
        place: one of the places above.
        level: the number of combinations before the value is available.
        along: how the value is cut; `None` if it is whole.
        maker: the equation that computes the value.
        number: the position of the argument, or of the result among the results of `maker`.
        combine: the function that combines two parts of a total.
        source: for a total, the value in one chunk; for a cut value, the whole value.
        scattered: `True` if its chunks differ from the row chunks and it is too large to gather.
    """

    __slots__ = ("along", "combine", "level", "maker", "number", "place", "scattered", "source", "spec")

    def __init__(
        self,
        spec: ArraySpec,
        place: str,
        level: int = 0,
        along: Along | None = None,
        *,
        maker: Node | None = None,
        number: int = 0,
        combine: Any = None,
        source: Source | None = None,
        scattered: bool = False,
    ) -> None:
        self.spec, self.place, self.level, self.along = spec, place, level, along
        self.maker, self.number, self.combine, self.source, self.scattered = maker, number, combine, source, scattered


Source: TypeAlias = "Value | Constant"


class Node:
    """An equation between values.

    Attributes:
        primitive: the primitive.
        inputs: values and constants.
        params: the parameters; parameters of one chunk contain `Rows`.
        outputs: the results.
        floats: `True` if every reader recomputes the results, which is cheaper than keeping them.
    """

    __slots__ = ("floats", "inputs", "outputs", "params", "primitive")

    def __init__(self, primitive: Primitive, inputs: Sequence[Source], params: Mapping[str, Any], *, floats: bool) -> None:
        self.primitive, self.inputs, self.params, self.floats = primitive, tuple(inputs), params, floats
        self.outputs: list[Value] = []

    @property
    def is_small(self) -> bool:
        """`True` if one task can hold all inputs and outputs."""
        specs = [v.spec for v in (*self.inputs, *self.outputs) if isinstance(v, Value)]
        return sum([spec.nbytes for spec in specs]) <= LARGE


class NotByRowsError(Exception):
    """The body of a loop or branch needs other chunks."""


class Partition:
    """The partition of an expression list.

    Args:
        expressions: the list.
        inputs: the arguments of the list.
        rows: the number of rows in all chunks.
        inner: `True` for the body of a loop or branch, where totals cannot be combined.
    """

    def __init__(self, expressions: Expressions, inputs: Sequence[Value], rows: int, *, inner: bool = False) -> None:
        self.rows, self.inner = rows, inner
        self.inputs = list(inputs)
        self._cuts: dict[tuple[int, Along], tuple[Source, Source]] = {}
        self.outputs = self.inline(expressions, inputs)

    def inline(self, expressions: Expressions, inputs: Sequence[Source]) -> list[Source]:
        """Return the results of a list for given values."""
        values: dict[int, Source] = dict(enumerate(inputs))

        def source(given: int | Constant) -> Source:
            return given if isinstance(given, Constant) else values[given]

        for e in expressions.equations:
            specs = [expressions.specs[slot] for slot in e.outputs]
            values.update(zip(e.outputs, self.call(e.primitive, list(map(source, e.inputs)), e.params, specs), strict=True))
        return list(map(source, expressions.outputs))

    def call(
        self, primitive: Primitive, given: Sequence[Source], params: Mapping[str, Any], specs: Sequence[ArraySpec]
    ) -> Sequence[Source]:
        """Return the results of an equation."""
        values = [v for v in given if isinstance(v, Value)]
        if any(v.scattered for v in values) or _holds_chunks(params):
            return self._by_engine(primitive, given, params, specs)
        if all(v.along is None for v in values):
            level = max([v.level for v in values], default=0)
            return self._made("whole", primitive, given, params, [(spec, None) for spec in specs], level)
        if primitive.inner is not None:
            return self.inline(primitive.inner, given)
        alongs = [v.along if isinstance(v, Value) else None for v in given]
        known = [v.spec if isinstance(v, Value) else v.value for v in given]
        call = Call(primitive, known, alongs, params, specs, self.rows)
        found = found_for(call)
        if found is not None:
            return self._by_rows(primitive, given, {**params, **found.params}, specs, found)
        body = written_out(call) if "axis" in params and alongs[0] is not None else None
        if body is None:
            return self._by_engine(primitive, given, params, specs)

        def of_array(a: Any) -> Any:
            return body(a, **params)

        return self.inline(trace("jit", of_array, (known[0],)), given)

    def _by_rows(
        self, primitive: Primitive, given: Sequence[Source], params: Mapping[str, Any], specs: Sequence[ArraySpec], found: Found
    ) -> Sequence[Source]:
        inputs = [
            Constant(found.constants[i]) if i in found.constants else self.cut(v, found.cuts[i]) if i in found.cuts else v
            for i, v in enumerate(given)
        ]
        level = max([v.level for v in inputs if isinstance(v, Value)], default=0)
        outs = self._made("rows", primitive, inputs, params, list(zip(specs, found.outs, strict=True)), level)
        if found.combine is None:
            return outs
        if self.inner:
            raise NotByRowsError
        return [v if v.along is not None else Value(v.spec, "total", level + 1, combine=found.combine, source=v) for v in outs]

    def _by_engine(
        self, primitive: Primitive, given: Sequence[Source], params: Mapping[str, Any], specs: Sequence[ArraySpec]
    ) -> list[Value]:
        if self.inner:
            raise NotByRowsError
        level = max([v.level + (v.place in ("whole", "rows")) for v in given if isinstance(v, Value)], default=0)
        node = Node(primitive, given, params, floats=False)
        node.outputs = [engine_value(spec, self.rows, level, node, i) for i, spec in enumerate(specs)]
        return node.outputs

    def _made(
        self,
        place: str,
        primitive: Primitive,
        inputs: Sequence[Source],
        params: Mapping[str, Any],
        outs: Sequence[tuple[ArraySpec, Along | None]],
        level: int,
        *,
        floats: bool = False,
    ) -> list[Value]:
        node = Node(primitive, inputs, params, floats=floats or (place == "rows" and bool(primitive.views)))
        node.outputs = [Value(spec, place, level, along, maker=node, number=i) for i, (spec, along) in enumerate(outs)]
        return node.outputs

    def cut(self, source: Source, along: Along) -> Source:
        """Return a whole value as a cut one; a value broadcast along the rows is broadcast again in each chunk."""
        known = self._cuts.get((id(source), along))
        if known is None:
            made = self._cut_constant(source, along) if isinstance(source, Constant) else self._cut_value(source, along)
            known = self._cuts[id(source), along] = source, made or self._cut_as_it_is(source, along)
        return known[1]

    def _cut_as_it_is(self, source: Source, along: Along) -> Value:
        if self.inner:
            raise NotByRowsError
        if isinstance(source, Value):
            return Value(source.spec, "cut", source.level, along, source=source)
        return Value(spec_of(source.value), "cut", 0, along, source=source)

    def _cut_constant(self, source: Constant, along: Along) -> Source | None:
        """Return a constant that is the same for all rows, broadcast in each chunk; `None` if its rows differ."""
        array = np.asarray(source.value)
        first = array[(*(slice(None),) * along.axis, slice(0, 1))]
        if array.strides[along.axis] and not np.array_equal(array, np.broadcast_to(first, array.shape), equal_nan=False):
            return None
        return self._broadcast(Constant(first.copy()), array.shape, along, array.dtype)

    def _broadcast(self, source: Source, shape: Sequence[int], along: Along, dtype: Any) -> Value:
        params = {"shape": (*shape[: along.axis], Rows(along.factor), *shape[along.axis + 1 :])}
        level = source.level if isinstance(source, Value) else 0
        return self._made(
            "rows", BROADCAST_TO, [source], params, [(ArraySpec(tuple(shape), dtype), along)], level, floats=True
        )[0]

    def _cut_value(self, source: Value, along: Along) -> Source | None:
        """Return a whole value recomputed in each chunk from its cut inputs; `None` if that is not possible."""
        node = source.maker
        if source.place != "whole" or node is None or len(node.outputs) != 1:
            return None
        shapes = [v.spec.shape if isinstance(v, Value) else shape_of(v.value) for v in node.inputs]
        if node.primitive is BROADCAST_TO:
            axis = along.axis - len(source.spec.shape) + len(shapes[0])
            if axis < 0 or shapes[0][axis] == 1:
                return self._broadcast(node.inputs[0], source.spec.shape, along, source.spec.dtype)
        known = [v.spec if isinstance(v, Value) else v.value for v in node.inputs]
        for i, shape in enumerate(shapes):
            for axis, length in enumerate(shape):
                own = Along(axis, length // self.rows)
                if length % self.rows or not own.factor:
                    continue
                alongs = [own if i == j else None for j in range(len(shapes))]
                found = found_for(Call(node.primitive, known, alongs, node.params, [source.spec], self.rows))
                if found is not None and found.outs == (along,):
                    cuts = {**found.cuts, i: own}
                    inputs = [self.cut(v, cuts[j]) if j in cuts else v for j, v in enumerate(node.inputs)]
                    level = max([v.level for v in inputs if isinstance(v, Value)], default=0)
                    params = {**node.params, **found.params}
                    return self._made("rows", node.primitive, inputs, params, [(source.spec, along)], level, floats=True)[0]
        return None


def engine_value(spec: ArraySpec, rows: int, level: int, maker: Node | None, number: int) -> Value:
    """Return the value of a chunked array: cut along an axis as long as the rows, otherwise whole or scattered."""
    axis = next((i for i, n in enumerate(spec.shape) if n == rows > 1), None)
    if axis is not None:
        return Value(spec, "engine", level, Along(axis), maker=maker, number=number)
    return Value(spec, "engine", level, maker=maker, number=number, scattered=spec.nbytes > LARGE)


def _holds_chunks(params: Mapping[str, Any]) -> bool:
    """Return `True` if the inner lists of an equation have chunked arrays as constants."""
    return any(
        any(isinstance(s, Constant) and is_chunked(s.value) for e in inner.equations for s in e.inputs)
        or any(_holds_chunks(e.params) for e in inner.equations)
        for _, inner in inner_lists(params)
    )


def is_chunked(value: Any) -> bool:
    """Return `True` if a value is a Dask array."""
    return is_array(value) and hasattr(type(value), "__dask_graph__") and hasattr(type(value), "chunks")


def template(inputs: Sequence[Value], outputs: Sequence[Source]) -> Template:
    """Return the list that computes `outputs` from `inputs`."""
    slots = {id(value): i for i, value in enumerate(inputs)}
    specs = [value.spec for value in inputs]
    equations: list[Equation] = []
    waiting: list[Any] = [v for v in reversed(outputs) if isinstance(v, Value)]
    while waiting:  # no recursion: a list can have many thousands of equations
        value = waiting.pop()
        if id(value) in slots:
            continue
        node: Node = value.maker
        missing = [v for v in node.inputs if isinstance(v, Value) and id(v) not in slots]
        if missing:
            waiting += [value, *missing]
            continue
        made = tuple(range(len(specs), len(specs) + len(node.outputs)))
        sources = tuple([v if isinstance(v, Constant) else slots[id(v)] for v in node.inputs])
        equations.append(Equation(node.primitive, sources, node.params, made))
        slots |= {id(v): slot for v, slot in zip(node.outputs, made, strict=True)}
        specs += [v.spec for v in node.outputs]
    ends = tuple([v if isinstance(v, Constant) else slots[id(v)] for v in outputs])
    names = tuple([f"v{i}" for i in range(len(inputs))])
    ins, outs = positional_structures(len(inputs), len(ends))
    own = Expressions(names, tuple(equations), ends, tuple(specs), ins, outs)
    return Template(own, tuple([value.along for value in inputs]))


def body_by_rows(body: Expressions, alongs: Sequence[Along | None], rows: int) -> Partition | None:
    """Return the partition of a loop or branch body for cut inputs; `None` if the body needs other chunks."""
    inputs = [Value(spec, "input", 0, along, number=i) for i, (spec, along) in enumerate(zip(body.specs, alongs, strict=False))]
    try:
        return Partition(body, inputs, rows, inner=True)
    except NotByRowsError:
        return None


__all__ = [
    "Counting",
    "Node",
    "Partition",
    "Source",
    "Value",
    "body_by_rows",
    "elementwise",
    "engine_value",
    "is_chunked",
    "template",
]
