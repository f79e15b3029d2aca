"""Whether results of shape `()` are numbers of NumPy's or arrays, as what was traced gives them where values are known.

Most functions of NumPy give numbers; views, copies and `np.where` give arrays of shape `()`, and some what they are given. A
simpler list, and native code, have their results as is convenient; they become what the traced list says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functad.control.branches import COND, SWITCH
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of, mark_needed, marks_at
from functad.expressions.spec import ArraySpec, stand_in
from functad.primitives.zero_d import Form, is_zero_d, marked, tried


class Forms:
    """What results of shape `()` are.

    Args:
        expressions: the list as it was traced.
    """

    def __init__(self, expressions: Expressions) -> None:
        given = range(len(expressions.inputs))  # a result that is an argument is what was given
        results = zip(expressions.results, expressions.outputs, strict=True)
        self.places = [i for i, (spec, s) in enumerate(results) if not spec.shape and not spec.weak and s not in given]
        self.expressions = expressions
        own = expressions.specs[: len(expressions.inputs)]
        self._read = [i for i, spec in enumerate(own) if not spec.shape and not spec.weak] if self.places else []
        self._known: dict[tuple[bool, ...], list[tuple[int, bool]]] = {}
        self.arrays = self._of((True,) * len(self._read))
        if self._read and self._of((False,) * len(self._read)) == self.arrays:
            self._read = []
            self._known = {(): self.arrays}

    def _of(self, arrays: tuple[bool, ...]) -> list[tuple[int, bool]]:
        """Return which results are arrays or numbers, if it is known which inputs are."""
        known = self._known.get(arrays)
        if known is None:
            given: list[Form] = [None] * len(self.expressions.inputs)
            for i, is_array in zip(self._read, arrays, strict=True):
                given[i] = is_array
            found = forms_of(self.expressions, given) if self.places else []
            known = [(i, form) for i in self.places if (form := found[i]) is not None]
            self._known[arrays] = known
        return known

    def same_as(self, other: Forms) -> bool:
        """Say whether those of another list with the same inputs and results are the same."""
        return (self.places, self._read, self.arrays) == (other.places, other._read, other.arrays)

    @property
    def vary(self) -> bool:
        """Say whether it depends on what is given."""
        return bool(self._read)

    def fitted(self, outs: Sequence[Any], leaves: Sequence[Any]) -> Sequence[Any]:
        """Return results as what they are to be, for given arguments."""
        if not self.places:
            return outs
        wanted = self._of(tuple([type(leaves[i]) is np.ndarray for i in self._read]))
        return made(outs, wanted)


def made(outs: Sequence[Any], wanted: Sequence[tuple[int, bool]]) -> Sequence[Any]:
    """Return results with arrays and numbers at some places."""
    changed: Any = None
    for i, is_array in wanted:
        out = outs[i]
        if is_array is not (type(out) is np.ndarray):
            changed = list(outs) if changed is None else changed
            if is_array:
                changed[i] = np.asarray(out) if issubclass(type(out), np.generic) else out
            elif type(out) is np.ndarray:
                changed[i] = out[()]
    return outs if changed is None else changed


def forms_of(expressions: Expressions, given: Sequence[Form]) -> list[Form]:
    """Return the forms of the results of a list; those of results that have another shape mean nothing.

    Args:
        expressions: the list.
        given: the forms of its inputs.
    """
    specs = expressions.specs

    def reads(equation: Any, index: int) -> list[int]:
        return [s for s in inputs_of(equation) if not specs[s].shape] if _follows(equation) else []

    wanted = [s for s in expressions.outputs if type(s) is int and not specs[s].shape]
    if not any(map(_follows, _makers(expressions, wanted))):

        def of_source(s: int | Constant) -> Form:
            if isinstance(s, Constant):
                return is_zero_d(s.value)
            return given[s] if s < len(given) else False

        return list(map(of_source, expressions.outputs))
    needed = mark_needed(marks_at(wanted, len(specs)), expressions.equations, reads)
    forms: list[Form] = [*given, *[None] * (len(specs) - len(given))]
    for equation in expressions.equations:
        if any(needed[slot] for slot in equation.outputs):
            values = [is_zero_d(s.value) if isinstance(s, Constant) else forms[s] for s in equation.inputs]
            found = _results(equation, values, expressions) if _follows(equation) else [False]
            for slot, form in zip(equation.outputs, found, strict=False):
                forms[slot] = form
    return [is_zero_d(s.value) if isinstance(s, Constant) else forms[s] for s in expressions.outputs]


def _makers(expressions: Expressions, slots: Sequence[int]) -> Iterator[Equation]:
    """Yield the equations that make some slots; lists are long, and results stand near their end."""
    missing = {s for s in slots if s >= len(expressions.inputs)}
    for equation in reversed(expressions.equations):
        if not missing:
            break
        if not missing.isdisjoint(equation.outputs):
            missing.difference_update(equation.outputs)
            yield equation


def _follows(equation: Equation) -> bool:
    """Return `True` if a primitive may give arrays of shape `()`."""
    return equation.primitive.zero_d is not False


def _results(equation: Equation, given: Sequence[Form], expressions: Expressions) -> Sequence[Form]:
    """Return the forms of the results of an equation, for the forms of its inputs."""
    primitive: Any = equation.primitive
    params: Any = equation.params
    if primitive.inner is not None:
        return forms_of(primitive.inner, given)
    if primitive in (COND, SWITCH):
        return _alike([forms_of(branch, given[1:]) for branch in params["branches"]])
    if primitive.lists:
        return given[: params["carries"]]
    values = [
        _sample(s.value if isinstance(s, Constant) else expressions.specs[s], form)
        for s, form in zip(equation.inputs, given, strict=True)
    ]
    found = tried(primitive, values, params)
    return found if len(found) == len(equation.outputs) else [None] * len(equation.outputs)


def _alike(found: Sequence[Sequence[Form]]) -> list[Form]:
    """Return the forms that all have; `None` where they differ."""
    return [each[0] if len(set(each)) == 1 else None for each in zip(*found, strict=True)]


def _sample(spec: Any, form: Form) -> Any:
    """Return a value that takes no memory, an array or a scalar."""
    return stand_in(marked(spec, form is True) if isinstance(spec, ArraySpec) else spec)
