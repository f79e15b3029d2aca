"""Replace short vectors, such as `np.stack([y - x, x * z])`, and arithmetic on them with scalars.

Programs with a few named states stack them into an array and read its elements again in each step. Scalar arithmetic takes a
seventh of the time of arithmetic on short arrays, and needs neither a stack nor a scatter. Vectors that are computed from each
other form a group. A group is replaced if that saves time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.arranging.join import STACK
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.read import GETITEM, SCATTER
from functad.primitives.safe import MENDED, PRODUCT, QUOTIENT

_LONGEST = 4
"""Maximal number of elements of a vector that is replaced."""

_VECTOR, _NUMBER, _READ, _STACK, _SCATTER = 0.45, 0.07, 0.1, 0.5, 0.6
"""NumPy's times in microseconds: an operation on short vectors, on scalars, an element read, a stack, a scattered piece."""


def with_numbers(expressions: Expressions) -> Expressions:
    """Return a list with short vectors replaced by scalars, where that saves time."""
    specs = expressions.specs
    if not any(e.primitive is GETITEM and _element(e, specs) is not None for e in expressions.equations):
        return expressions
    return _Elements(expressions).run()


def _element(equation: Equation, specs: Sequence[ArraySpec]) -> int | None:
    """Return the index of the element that an equation reads from a short vector, or `None` for other equations."""
    if equation.primitive is not GETITEM:  # a loop may have no inputs at all
        return None
    index, source = equation.params.get("index"), equation.inputs[0]
    if type(index) is not int or type(source) is not int or not _is_short(specs[source]):
        return None
    size = specs[source].shape[0]
    return index % size if -size <= index < size else None


def _is_short(spec: ArraySpec) -> bool:
    return len(spec.shape) == 1 and 0 < spec.shape[0] <= _LONGEST and spec.dtype.kind == "f"


class _Elements:
    """A rewrite of a list.

    Attributes:
        moved: the sources that replace slots of elements.
        parts: the sources of the elements of each vector.
        whole: the chosen vectors that were also written as arrays.
        chosen: the vectors to replace by scalars.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.specs = list(expressions.specs)
        self.arithmetic = frozenset(
            [PRODUCT, QUOTIENT, MENDED, *[ENTRIES[f] for f in (np.add, np.subtract, np.multiply, np.divide, np.negative)]]
        )
        self.equations: list[Equation] = []
        self.moved: dict[int, Any] = {}
        self.parts: dict[int, list[Any]] = {}
        self.whole: set[int] = set()
        self.chosen = self._chosen()

    def run(self) -> Expressions:
        """Return the rewritten list."""
        if not self.chosen:
            return self.expressions
        for e in self.expressions.equations:
            self._write(e)
        outputs = tuple([self._read(s) for s in self.expressions.outputs])
        return self.expressions.replace(equations=tuple(self.equations), outputs=outputs, specs=tuple(self.specs))

    def _splits(self, e: Equation) -> bool:
        """Return `True` if the result of an equation is a short vector that scalars can replace."""
        if len(e.outputs) != 1 or not _is_short(self.specs[e.outputs[0]]):
            return False
        out, given = self.specs[e.outputs[0]], [self._spec(s) for s in e.inputs]
        if e.primitive is STACK or e.primitive is SCATTER:
            indices = e.params.get("indices", ())
            return all(not s.shape and s.dtype == out.dtype and not s.weak for s in given) and all(
                type(i) is int and -out.shape[0] <= i < out.shape[0] for i in indices
            )
        return e.primitive in self.arithmetic and all(
            s.shape in ((), out.shape) and (s.weak or s.dtype == out.dtype) for s in given
        )

    def _spec(self, source: Any) -> ArraySpec:
        return self.specs[source] if type(source) is int else spec_of(source.value)

    def _chosen(self) -> set[int]:
        """Return the slots of the vectors to replace by scalars."""
        makers = {e.outputs[0]: e for e in self.expressions.equations if self._splits(e)}
        group = {slot: slot for slot in makers}

        def root(slot: int) -> int:
            while group[slot] != slot:
                group[slot] = slot = group[group[slot]]
            return slot

        for slot, e in makers.items():
            if e.primitive in self.arithmetic:
                for s in inputs_of(e):
                    if s in group:
                        group[root(s)] = root(slot)
        saved = dict.fromkeys(map(root, makers), 0.0)
        read = {e.inputs[0] for e in self.expressions.equations if _element(e, self.specs) is not None}
        outside: set[int] = {s for s in self.expressions.outputs if type(s) is int}
        for e in self.expressions.equations:
            if e.outputs[0] in makers:
                saved[root(e.outputs[0])] += self._gain(e, makers, read)
            elif _element(e, self.specs) is None:
                outside.update(inputs_of(e))
            elif e.inputs[0] in makers:
                saved[root(e.inputs[0])] += _READ
        for slot in outside & makers.keys():
            saved[root(slot)] -= _STACK
        return {slot for slot in makers if saved[root(slot)] > 0}

    def _gain(self, e: Equation, makers: dict[int, Equation], read: set[Any]) -> float:
        """Return the time, in microseconds, that scalars in place of one vector save."""
        size = self.specs[e.outputs[0]].shape[0]
        if e.primitive is STACK:
            return _STACK
        if e.primitive is SCATTER:
            return len(e.inputs) * (_SCATTER - _NUMBER)
        others = [s for s in inputs_of(e) if self.specs[s].shape and s not in makers and s not in read]
        return _VECTOR - size * (_NUMBER + _READ * len(others))

    def _read(self, source: Any) -> Any:
        """Return the current source of an input. Stack a chosen vector from its elements first."""
        if type(source) is not int:
            return source
        source = self.moved.get(source, source)
        if source in self.chosen and source not in self.whole:
            self.whole.add(source)
            self.equations.append(Equation(STACK, tuple(self.parts[source]), {"axis": 0}, (source,)))
        return source

    def _write(self, e: Equation) -> None:
        place = _element(e, self.specs)
        if place is not None and self._has_parts(e.inputs[0]):
            self.moved[e.outputs[0]] = self._parts(e.inputs[0])[place]
        elif e.outputs[0] in self.chosen:
            self.parts[e.outputs[0]] = self._split(e)
        else:
            inputs = tuple([self._read(s) for s in e.inputs])
            self.equations.append(Equation(e.primitive, inputs, e.params, e.outputs))

    def _has_parts(self, source: Any) -> bool:
        return source in self.chosen or source in self.parts

    def _parts(self, source: Any) -> list[Any]:
        """Return the sources of the elements of a vector. Write reads of the elements if the vector is an array."""
        if type(source) is Constant:
            value = source.value
            return [Constant(value[i]) for i in range(len(value))]
        if source not in self.parts:
            self.parts[source] = [
                self._put(GETITEM, (source,), {"index": i}, self.specs[source].dtype)
                for i in range(self.specs[source].shape[0])
            ]
        return self.parts[source]

    def _split(self, e: Equation) -> list[Any]:
        """Write one equation per element of a vector, and return the sources of the elements."""
        out = self.specs[e.outputs[0]]
        given = [self.moved.get(s, s) if type(s) is int else s for s in e.inputs]
        if e.primitive is STACK:
            return given
        if e.primitive is SCATTER:
            sums: list[Any] = [None] * out.shape[0]
            for i, s in zip(e.params["indices"], given, strict=True):
                sums[i] = s if sums[i] is None else self._put(ENTRIES[np.add], (sums[i], s), {}, out.dtype)
            return [Constant(out.dtype.type(0)) if s is None else s for s in sums]
        columns = [self._parts(s) if self._spec(s).shape else [s] * out.shape[0] for s in given]
        return [self._put(e.primitive, tuple(row), e.params, out.dtype) for row in zip(*columns, strict=True)]

    def _put(self, primitive: Any, inputs: tuple[Any, ...], params: Any, dtype: Any) -> int:
        slot = len(self.specs)
        self.specs.append(ArraySpec((), dtype))
        self.equations.append(Equation(primitive, inputs, params, (slot,)))
        return slot
