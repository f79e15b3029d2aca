"""Equation labels: integers that are equal for equations with the same operation and the same specs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, is_array, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import WRITE

Indices = tuple[int, ...]


class Labelled:
    """An expression list as arrays of integers.

    The slots of the results must be numbered in the order of the equations.

    Attributes:
        expressions: the expression list.
        labels: one label for each equation.
        sources: the inputs of all equations, concatenated: slots, and `-1 - i` for `constants[i]`.
        offsets: the start of each equation's inputs in `sources`, and the end.
        first: the slot of the first result of each equation, and the number of slots.
        constants: the distinct constants.
        indices: by equation number, the integers in the index of a read or write.
        templates: by equation number, the index without its integers.
    """

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.constants: list[Constant] = []
        self.indices: dict[int, Indices] = {}
        self.templates: dict[int, Any] = {}
        self._constants: dict[Any, int] = {}
        self._seen: dict[int, int] = {}
        self._specs: dict[Any, int] = {}
        self._shown: list[ArraySpec] = []
        self._operands: dict[Any, tuple[int, ...]] = {}
        self._slots = self._numbers(expressions.specs)
        known: dict[Any, int] = {}
        common: dict[Any, int] = {}
        sources: list[int] = []
        labels, offsets, first = [], [0], []
        for number, equation in enumerate(expressions.equations):
            own = [s if type(s) is int else self._constant(s) for s in equation.inputs]
            sources += own
            offsets.append(len(sources))
            outputs = equation.outputs
            first.append(outputs[0] if outputs else -1)
            if equation.params or len(outputs) != 1:
                labels.append(known.setdefault(self._key(number, equation, own), len(known)))
                continue
            # Equal for two equations only if `_key` is: a quick way to the label of nearly all equations of a loop.
            quick = (equation.primitive, self._slots[outputs[0]], *[self._slots[s] if s >= 0 else s for s in own])
            label = common.get(quick)
            if label is None:
                label = common[quick] = known.setdefault(self._key(number, equation, own), len(known))
            labels.append(label)
        self.labels = np.array(labels, np.int64)
        self.sources = np.array(sources, np.int64)
        self.offsets = np.array(offsets, np.int64)
        self.first = np.array([*first, len(expressions.specs)], np.int64)

    def spec_of(self, source: int) -> ArraySpec:
        """Return the spec of an entry of `sources`, a slot or a constant."""
        return self.expressions.specs[source] if source >= 0 else spec_of(self.constants[-1 - source].value)

    def _numbers(self, specs: Sequence[ArraySpec]) -> list[int]:
        """Return the number of each spec. Most specs of a trace are the same few objects."""
        known = {id(spec): spec for spec in specs}
        numbers = {key: self._spec(spec) for key, spec in known.items()}
        return [numbers[id(spec)] for spec in specs]

    def _spec(self, spec: ArraySpec) -> int:
        key = spec.shape, spec.dtype, spec.weak
        found = self._specs.get(key)
        if found is None:
            found = self._specs[key] = len(self._shown)
            self._shown.append(spec)
        return found

    def _constant(self, source: Any) -> int:
        known = self._seen.get(id(source))  # most numbers of a trace are the same few constants
        if known is not None:
            return known
        value = source.value
        key = (float, value, str(value)) if type(value) is float else _key_of(value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = len(self.constants)
            self.constants.append(source)
        self._seen[id(source)] = -1 - found
        return -1 - found

    def _key(self, number: int, equation: Equation, own: list[int]) -> Any:
        primitive, params = equation.primitive, equation.params
        made = tuple([self._slots[s] for s in equation.outputs])
        if primitive.ufunc is not None:  # a constant operand gets the same label as an unknown value
            given = tuple([self._slots[s] if s >= 0 else self._spec(spec_of(self.constants[-1 - s].value)) for s in own])
            if len(given) == 2:
                given = self.operands(primitive, given)
        else:
            given = tuple([self._slots[s] if s >= 0 else ("constant", s) for s in own])  # type: ignore[misc]
        if not params:
            return primitive, given, made
        if primitive is GETITEM or primitive is WRITE:
            template, self.indices[number] = taken_apart(params["index"])
            self.templates[number] = template
            key: Any = primitive, given, made, template, _key_of(params.get("path"))
        else:
            key = primitive, given, made, tuple([(name, _key_of(value)) for name, value in params.items()])
        try:
            hash(key)
        except TypeError:
            return object()
        return key

    def operands(self, primitive: Primitive, given: tuple[int, ...]) -> tuple[int, ...]:
        """Return the specs of two operands after conversion by the ufunc: a Python number takes the other dtype."""
        if primitive.ufunc is None or not _promotes(primitive.ufunc):
            return given
        found = self._operands.get(given)
        if found is None:
            a, b = (self._shown[i] for i in given)
            found = self._operands[given] = (self._beside(a, b, given[0]), self._beside(b, a, given[1]))
        return found

    def _beside(self, spec: ArraySpec, other: ArraySpec, number: int) -> int:
        strong = beside(spec, other)
        return number if strong is spec else self._spec(strong)


def beside(spec: ArraySpec, other: ArraySpec) -> ArraySpec:
    """Return the spec of the array equivalent to a Python number next to `other`; return other specs unchanged."""
    if not spec.weak or other.weak or other.dtype.kind not in "fc" or (spec.dtype.kind == "c" and other.dtype.kind != "c"):
        return spec
    return ArraySpec((), other.dtype)


def acting(equation: Equation, specs: Sequence[ArraySpec]) -> list[ArraySpec]:
    """Return, for each input of an equation, the spec of a value that can replace it."""
    given = [specs[s] if not isinstance(s, Constant) else spec_of(s.value) for s in equation.inputs]
    ufunc = equation.primitive.ufunc
    if ufunc is not None and _promotes(ufunc):
        return [beside(*given), beside(*given[::-1])]
    return given


@functools.cache
def _promotes(ufunc: np.ufunc) -> bool:
    """Return `True` if a ufunc converts both of its operands to one dtype."""
    loops = [loop for loop in ufunc.types if not set(loop) & set("mMO")]
    return ufunc.nin == 2 and {loop[0] == loop[1] for loop in loops} == {True}


def taken_apart(index: Any) -> tuple[Any, Indices]:
    """Return an index without its integers, and the integers."""
    parts = index if type(index) is tuple else (index,)
    numbers = tuple([part for part in parts if type(part) is int])
    return (type(index) is tuple, *[int if type(part) is int else _key_of(part) for part in parts]), numbers


def positions(index: Any, shape: tuple[int, ...]) -> Indices:
    """Return the integers in a basic index of an array, normalized to be non-negative."""
    parts = index if type(index) is tuple else (index,)
    used = sum(part is not None and part is not Ellipsis for part in parts)
    found, axis = [], 0
    for part in parts:
        if type(part) is int:
            found.append(part % shape[axis])
        axis += len(shape) - used if part is Ellipsis else part is not None
    return tuple(found)


def _key_of(value: Any) -> Any:
    """Return a hashable key that is equal for equal values; a value that cannot be compared gets a unique key."""
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return kind, value
    if kind in PYTHON_SCALARS or issubclass(kind, np.generic):
        return kind, repr(value)
    if kind is np.ndarray and value.dtype.kind in "biufc":
        return "array", value.dtype, value.shape, value.tobytes()
    if kind is tuple or kind is list:
        return kind, tuple(map(_key_of, value))
    if kind is slice:
        return kind, value.start, value.stop, value.step
    return ("object", id(value)) if is_array(value) else value
