"""Forms of results of shape `()`: NumPy scalar or array, as eager execution returns them.

Most NumPy functions return scalars. Views, copies and `np.where` return arrays of shape `()`. Other functions depend on their
arguments. Simplified lists and native code may return either form; `Forms` converts their results to the form that the traced
list has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of, mark_needed, marks_at
from functad.expressions.spec import ArraySpec, stand_in
from functad.primitives.batching import Form, is_zero_d, marked, tried


class Forms:
    """The forms of the results of shape `()` of a list.

    Args:
        expressions: the list as traced.

    Attributes:
        places: the positions of the results of shape `()` that are neither inputs nor weakly typed.
        arrays: pairs of a position and `True` for an array or `False` for a scalar, if all inputs of shape `()` are arrays.
    """

    def __init__(self, expressions: Expressions) -> None:
        given = range(len(expressions.inputs))  # a result that is an input keeps the form of the argument
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
        """Return positions and forms of results, for the forms of the inputs at `_read`."""
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
        """Return `True` if another list with the same inputs and results has the same forms."""
        return (self.places, self._read, self.arrays) == (other.places, other._read, other.arrays)

    @property
    def vary(self) -> bool:
        """`True` if forms of results depend on the forms of the inputs."""
        return bool(self._read)

    def fitted(self, outs: Sequence[Any], leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the results, converted to their forms for the arguments `leaves`."""
        if not self.places:
            return outs
        wanted = self._of(tuple([type(leaves[i]) is np.ndarray for i in self._read]))
        return made(outs, wanted)


def made(outs: Sequence[Any], wanted: Sequence[tuple[int, bool]]) -> Sequence[Any]:
    """Return the results, converted to arrays (`True`) or scalars (`False`) at the given positions."""
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
    """Return the forms of the results of a list. The form of a result with another shape than `()` is meaningless.

    Args:
        expressions: the list.
        given: the forms of the inputs.
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
    """Yield the equations that compute some slots. The search starts at the end of the list, near the results."""
    missing = {s for s in slots if s >= len(expressions.inputs)}
    for equation in reversed(expressions.equations):
        if not missing:
            break
        if not missing.isdisjoint(equation.outputs):
            missing.difference_update(equation.outputs)
            yield equation


def _follows(equation: Equation) -> bool:
    """Return `True` if the primitive of an equation may return arrays of shape `()`."""
    return equation.primitive.zero_d is not False


def _results(equation: Equation, given: Sequence[Form], expressions: Expressions) -> Sequence[Form]:
    """Return the forms of the results of an equation for given forms of the inputs."""
    primitive: Any = equation.primitive
    params: Any = equation.params
    if primitive.inner is not None:
        return forms_of(primitive.inner, given)
    if primitive.lists == "branches":
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
    """Return the forms that all lists of forms share; `None` where they differ."""
    return [each[0] if len(set(each)) == 1 else None for each in zip(*found, strict=True)]


def _sample(spec: Any, form: Form) -> Any:
    """Return an array or scalar of a form and spec that takes no memory."""
    return stand_in(marked(spec, form is True) if isinstance(spec, ArraySpec) else spec)
