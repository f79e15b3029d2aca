"""Write the new list, with loops in place of blocks: look up, gather or recompute values of the old list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.compilation.rolling.places import Places, Segment, rows_of, sliced
from functad.compilation.rolling.wiring import NotRegularError
from functad.expressions.expressions import Constant, Equation, source_spec
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.join import CONCATENATE, STACK
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.indexing.read import GETITEM

Source = int | Constant
MULTIPLY: Primitive = ENTRIES[np.multiply]  # type: ignore[assignment]


class Writer:
    """The equations of the new list, and the mapping from values of the old list.

    Attributes:
        places: the origins of the values of the old list.
        equations: the equations of the new list.
        specs: the specs of its slots.
        values: for each slot of the old list, its source in the new list.
        stored: by block and result, the slots of arrays with the results of all steps.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.old = places.labelled.expressions
        count = len(self.old.inputs)
        self.equations: list[Equation] = []
        self.specs: list[ArraySpec] = list(self.old.specs[:count])
        self.values: dict[int, Source] = {i: i for i in range(count)}
        self.stored: dict[tuple[int, int], int] = {}
        self._gathered: dict[Any, Source] = {}

    def spec(self, source: Source) -> ArraySpec:
        """Return the spec of a source of the new list."""
        return source_spec(source, self.specs)

    def emit(self, primitive: Primitive, inputs: Sequence[Source], params: Mapping[str, Any], specs: Any = None) -> list[int]:
        """Write an equation; return the slots of its results."""
        if specs is None:
            specs = primitive.spec(*[s.value if isinstance(s, Constant) else self.specs[s] for s in inputs], **params)
            specs = specs if primitive.multiple else (specs,)
        first = len(self.specs)
        outputs = tuple(range(first, first + len(specs)))
        self.specs.extend(specs)
        self.equations.append(Equation(primitive, tuple(inputs), params, outputs))
        return list(outputs)

    def again(self, number: int) -> None:
        """Copy an equation of the old list."""
        equation = self.old.equations[number]
        inputs = [self.value(s) if not isinstance(s, Constant) else s for s in equation.inputs]
        outputs = self.emit(equation.primitive, inputs, equation.params, [self.old.specs[s] for s in equation.outputs])
        self.values.update(zip(equation.outputs, outputs, strict=True))

    def value(self, source: int) -> Source:
        """Return the source in the new list for a slot or a constant of the old list."""
        if source < 0:
            return self.places.labelled.constants[-1 - source]
        source = int(self.places.same[source])
        if source not in self.values:
            if self.places.row(source) is not None:
                self.again(self.places.maker(source))
            else:
                block, step, result = self.places.step_of(source)
                if self.old.specs[source].weak:  # an element of an array is not a Python number
                    raise NotRegularError(block)
                array = self.stored[int(self.places.owner[source]), result]
                [self.values[source]] = self.emit(GETITEM, [array], {"index": block.stored(step)})
        return self.values[source]

    def strong(self, source: int, spec: ArraySpec) -> Source:
        """Return a value of the old list with a weak spec made strong, unless `spec` is weak."""
        value = self.value(source)
        if not self.spec(value).weak or spec.weak:
            return value
        if isinstance(value, Constant):
            return Constant(spec.dtype.type(value.value))
        return self.emit(MULTIPLY, [value, Constant(spec.dtype.type(1))], {}, [spec])[0]

    def gathered(self, sources: Sequence[int], spec: ArraySpec) -> Source:
        """Return values of the old list with equal specs as the rows of one array."""
        key = tuple(sources), spec
        if key not in self._gathered:
            pieces = [self._piece(segment, spec) for segment in self.places.segments(sources)]
            self._gathered[key] = pieces[0] if len(pieces) == 1 else self.emit(CONCATENATE, pieces, {"axis": 0})[0]
        return self._gathered[key]

    def _piece(self, segment: Segment, spec: ArraySpec) -> Source:
        kind = segment.key[0]
        if kind == "constant":
            constants = self.places.labelled.constants
            return Constant(np.stack([np.asarray(constants[-1 - s].value, spec.dtype) for s in segment.sources]))
        if kind == "single":
            return self.emit(STACK, [self.strong(s, spec) for s in segment.sources], {"axis": 0})[0]
        [which] = [i for i, step in enumerate(segment.step) if step]
        first, last, step = segment.first[which], segment.last[which], segment.step[which]
        rows = rows_of(first, last, step)
        if kind == "step":
            return self._rows(self.stored[segment.key[1], segment.key[2]], rows, 0, rows)
        array = self.value(segment.key[1])
        own = self.old.equations[self.places.maker(segment.sources[0])].params["index"]
        return self._rows(array, *sliced(own, which, rows, len(self.spec(array).shape)), rows)

    def _rows(self, array: Source, index: Any, axis: int, rows: slice) -> Source:
        spec = self.spec(array)
        if type(index) is slice and rows == slice(0, spec.shape[0], 1):
            return array
        [found] = self.emit(GETITEM, [array], {"index": index})
        if axis:
            ndim = len(self.specs[found].shape)
            [found] = self.emit(TRANSPOSE, [found], {"axes": (axis, *[i for i in range(ndim) if i != axis])})
        return found
