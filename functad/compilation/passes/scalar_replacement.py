"""Scalar replacement: numbers in place of short vectors, and pieces in place of the carries of a scan.

Programs with a few named states stack them into an array, such as `np.stack([y - x, x * z])`, and read its elements again in
each step. Scalar arithmetic takes NumPy a seventh of the time of arithmetic on short arrays, and needs neither a stack nor a
scatter. Vectors that are computed from each other form a group. A group is replaced if that saves time. A carry that each step
stacks and reads by element becomes one carry per element, and a carry that no step changes becomes a loop-invariant input.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.compilation.passes.hoist import Step, Writer
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.arranging.join import STACK
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.read import GETITEM, SCATTER
from functad.transforms.lists import extract

_MOST = 16
"""Maximum number of carries that replace one."""


def without_fixed(step: Step, specs: list[ArraySpec], moved: dict[int, Any]) -> Step:
    """Return a scan without carries that no step changes; they become loop-invariant inputs.

    Args:
        step: the scan.
        specs: the specs of the list around it.
        moved: receives the replacement of each removed result.
    """
    body, carries = step.body, len(step.carries)
    fixed = [i for i in range(carries) if body.outputs[i] == i and _spec(step.carries[i], specs) == body.specs[i]]
    if not fixed:
        return step
    moved |= {step.results[i]: step.carries[i] for i in fixed}
    left = [i for i in range(carries) if i not in fixed]
    inputs = [*left, *range(carries, len(body.inputs)), *fixed]
    kept = [*left, *range(carries, len(body.outputs))]
    inner = extract(body, inputs, [body.outputs[i] for i in kept], [body.inputs[i] for i in inputs])
    outer = [*step.outer, *[step.carries[i] for i in fixed]]
    return Step([step.carries[i] for i in left], step.rows, outer, inner, [step.results[i] for i in kept])


def taken_apart(step: Step, before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with one carry per piece in place of an array that each step splits and stacks again.

    Args:
        step: the scan.
        before: receives the equations before the scan.
        after: receives the equations after the scan.
        moved: receives the replacement of each removed result.
    """
    for i in reversed(range(len(step.carries))):
        parts = _pieces(step, i)
        if parts is not None:
            step = _without(step, i, parts, before, after, moved)
    return step


def _pieces(step: Step, place: int) -> list[Any] | None:
    """Return the pieces that a step stacks into a carry; `None` if the carry is read as a whole."""
    body, spec = step.body, step.body.specs[place]
    if not spec.shape or not 0 < spec.shape[0] <= _MOST or place in body.outputs:
        return None
    if any(place in e.inputs and not _is_piece(e) for e in body.equations):
        return None
    maker = next((e for e in body.equations if body.outputs[place] in e.outputs), None)
    if (
        maker is None
        or [*body.outputs].count(body.outputs[place]) > 1
        or any(maker.outputs[0] in e.inputs for e in body.equations)
    ):
        return None
    piece = ArraySpec(spec.shape[1:], spec.dtype)
    if any(_spec(s, body.specs) != piece for s in maker.inputs):
        return None
    if maker.primitive is STACK and maker.params["axis"] == 0:
        return list(maker.inputs)
    if maker.primitive is SCATTER and sorted(map(repr, maker.params["indices"])) == sorted(map(repr, range(spec.shape[0]))):
        return [maker.inputs[maker.params["indices"].index(j)] for j in range(spec.shape[0])]
    return None


def _is_piece(e: Equation) -> bool:
    return e.primitive is GETITEM and type(e.params.get("index")) is int


def _without(step: Step, place: int, parts: list[Any], before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with carries for the pieces of one carry."""
    body, count = step.body, len(parts)
    spec = ArraySpec(body.specs[place].shape[1:], body.specs[place].dtype)
    first = len(body.specs)
    specs = (*body.specs, *[spec] * count)
    same = {e.outputs[0]: first + e.params["index"] % count for e in body.equations if _is_piece(e) and e.inputs[0] == place}
    equations = [
        Equation(e.primitive, tuple([same.get(s, s) if type(s) is int else s for s in e.inputs]), e.params, e.outputs)
        for e in body.equations
        if e.outputs[0] not in same
    ]

    def spliced(sources: Any, own: Any) -> list[Any]:
        return [*sources[:place], *own, *sources[place + 1 :]]

    outputs = [same.get(s, s) if type(s) is int else s for s in spliced(body.outputs, parts)]
    inputs = spliced(range(len(body.inputs)), range(first, first + count))
    names = spliced(body.inputs, [f"{body.inputs[place]}[{j}]" for j in range(count)])
    inner = extract(body.replace(equations=tuple(equations), specs=specs), inputs, outputs, names)
    source = step.carries[place]
    if isinstance(source, Constant):
        given: list[Any] = [Constant(source.value[j]) for j in range(count)]
    else:
        given = list(before.new([spec] * count))
        before.equations += [Equation(GETITEM, (source,), {"index": j}, (slot,)) for j, slot in enumerate(given)]
    results, [whole] = before.new([spec] * count), before.new([body.specs[place]])
    after.equations.append(Equation(STACK, results, {"axis": 0}, (whole,)))
    moved[step.results[place]] = whole
    return Step(spliced(step.carries, given), step.rows, step.outer, inner, spliced(step.results, results))


def _spec(source: Any, specs: Any) -> ArraySpec:
    return source_spec(source, specs)


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


def _is_arithmetic(e: Equation) -> bool:
    """Return `True` if Python's operators, except for powers, compute the elements of an equation."""
    python = e.primitive.python
    if python is None or python is operator.pow or python.__module__ == "math":
        return False
    return e.primitive.kind == "elementwise" and not e.params


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
        return _is_arithmetic(e) and all(s.shape in ((), out.shape) and (s.weak or s.dtype == out.dtype) for s in given)

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
            if _is_arithmetic(e):
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
