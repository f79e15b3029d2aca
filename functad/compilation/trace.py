"""A function traced without values, for all calls with arguments of the same specs.

What it reads of Variables, and of other state that changes from call to call, becomes inputs of the list, and what it assigns
to them becomes results. Tensors of other traces that it closes over become inputs too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.compilation.kinds import Weak, without_owner
from functad.compilation.unguarded import hides_nan
from functad.eager.models.variable import MAKER, Given, Variable
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import mark_needed, mark_reached, marks_at
from functad.expressions.spec import ArraySpec, is_inexact, spec_of
from functad.primitives.operands import innermost, read
from functad.settings import setting
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import Recorded, resolve
from functad.tracing.traces.equations import DERIVATIVES, AbstractRecorder
from functad.tracing.traces.idle import idle, is_plain
from functad.tracing.views import in_c_order
from functad.transforms.leaves import replaced
from functad.transforms.lists import close, extract, make_list
from functad.transforms.random_states import frozen_in
from functad.trees.structure import Structure, flatten


class Cell(Given):
    """What a function reads and changes of something outside: a stand-in with a Tensor of the trace as its value.

    Attributes:
        read: returns the present value, where the compiled function is called.
        write: takes the new value then.
        slot: that of the input.
        changed: a value was assigned.
    """

    __slots__ = ("changed", "read", "slot", "write")

    def __init__(self, variable: Any, value: Any, slot: int, read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
        super().__init__(variable, value, ())
        self.slot = slot
        self.read, self.write = read, write
        self.changed = False

    @property
    def value(self) -> Any:
        """The value now, at this point of the trace."""
        return self._value

    def change(self, value: Any) -> None:
        """Take a new value."""
        variable: Any = self.variable
        if variable is not None and is_plain(value):  # a Variable gives Tensors, whatever was assigned
            value = idle(Tensor, value)
        self._value, self._latest, self.changed = value, None, True


class Cells:
    """The cells of one trace; called with a Variable it returns its cell."""

    def __init__(self, recorder: AbstractRecorder) -> None:
        self.recorder = recorder
        self.known: dict[Any, Cell] = {}
        self.outer = MAKER.get()

    def __call__(self, variable: Variable) -> Cell:
        """Return the cell of a Variable, which is an input of the trace from now on."""
        outer: Any = None if self.outer is None else self.outer(variable)  # a trace within a trace reads the outer one's
        spec = ArraySpec(variable.shape, variable.dtype)
        if outer is not None:
            return self.cell(id(variable), spec, lambda: outer.value, outer.change, variable)
        return self.cell(id(variable), spec, lambda: variable.__functad_read__(), variable.assign, variable)

    def cell(
        self, key: Any, spec: ArraySpec, read: Callable[[], Any], write: Callable[[Any], Any], variable: Any = None
    ) -> Cell:
        """Return the cell with a key, which is made if there is none.

        Args:
            key: what it is known by.
            spec: that of its value.
            read: returns the value, where the compiled function is called.
            write: takes the value that was assigned, if any was.
            variable: the Variable that it stands for, if it does.
        """
        if key not in self.known:
            tensor = self.recorder.enter_later(spec)
            value = tensor if variable is None else idle(Tensor, tensor)
            self.known[key] = Cell(variable, value, tensor.slot, read, write)
        return self.known[key]


class Trace:
    """A function as a list, with what it takes from outside of its arguments.

    Args:
        f: called with the leaves.
        function: that of the user, for messages.
        leaves: of which only shapes, dtypes and how they lie in memory matter.
        names: what the leaves are called.
        tensors: places of the leaves that are Tensors which no trace follows.
        static: static arguments, in which random generators are searched.
        checks: results that nothing needs, and whose computation may raise an error, are kept among the outputs.

    Attributes:
        expressions: the list: its inputs are the leaves of the arguments, the cells, and the Tensors that it closes over; its
            outputs the leaves of the result and the new values of cells.
        structure: that of the result.
        cells: what is read, in order.
        changed: those that get new values, in order.
        checks: the number of outputs at the end that are computed only because that may raise an error.
        captured: Tensors of other traces.
        wraps: for each leaf of the result, whether the function gave a Tensor that no trace follows.
        variables: the same leaves as Variables, where it gave one; `None` elsewhere.
        derives: derivatives are computed in it.
        hides: a NaN in such a derivative may not reach the results.
        checked: positions of the results that depend on such derivatives.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        function: Any,
        leaves: Sequence[Any],
        names: Sequence[str],
        tensors: Sequence[int] = (),
        static: Sequence[Any] = (),
        checks: bool = True,
    ) -> None:
        recorder = AbstractRecorder("jit", function)
        recorder.plain = True
        cells = Cells(recorder)
        self.wraps: list[bool] = []
        self.variables: list[Variable | None] = []

        def noted(*own: Any) -> Any:
            out = f(*[idle(Tensor, leaf) if i in tensors else leaf for i, leaf in enumerate(own)])
            leaves = flatten(out)[0]
            self.variables = [leaf if isinstance(leaf, Variable) else None for leaf in leaves]
            self.wraps = [isinstance(leaf, Recorded) and leaf.recorder.inactive for leaf in map(read, leaves)]
            return out

        derivatives: list[tuple[Expressions, list[int]]] = []
        with frozen_in("jit", function, [function, *static]), setting(MAKER, cells), setting(DERIVATIVES, derivatives):
            found, _ = make_list(recorder, noted, leaves)
        self.derives = bool(derivatives)
        self.hides = any(hides_nan(expressions, slots) for expressions, slots in derivatives)
        self.structure: Structure = found.output_structure
        self.cells = list(cells.known.values())
        self.changed = [cell for cell in self.cells if cell.changed]
        outputs = [*found.outputs, *[_source(recorder, cell.value) for cell in self.changed]]
        marks = mark_reached(marks_at(recorder.derivatives, len(recorder.specs)), found.equations)
        inner = any(expressions is not found for expressions, _ in derivatives)  # in a list within the list
        self.checked = [
            i
            for i, source in enumerate(outputs)
            if type(source) is int and (inner or marks[source]) and is_inexact(recorder.specs[source])
        ]
        kept = dead_checks(found, outputs) if checks and not any(map(_is_lazy, leaves)) else []
        self.checks = len(kept)
        outputs += kept
        inputs = [*range(len(leaves)), *[cell.slot for cell in self.cells]]
        every = [*names, *[_name_of_cell(cell, i) for i, cell in enumerate(self.cells)]]
        whole = extract(found.replace(specs=tuple(recorder.specs)), inputs, outputs, every, without_idle)
        self.expressions: Expressions
        self.expressions, self.captured = close(whole)


class Again:
    """Traces a function for calls of one kind: for the first of them, and for a careful pass later, which keeps no array alive.

    Args:
        f: the function.
        structure: the structure of its arguments.
        leaves: the leaves of the arguments of the first call.
        places: the places of the leaves that are not static.
        names: names of these leaves.
        tensors: places among these leaves of Tensors that no trace follows.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        structure: Structure,
        leaves: Sequence[Any],
        places: Sequence[int],
        names: Sequence[str],
        tensors: Sequence[int],
    ) -> None:
        self._f, self._structure, self._places, self._tensors = f, structure, places, tensors
        self._names = [names[i] for i in places]
        self._static = [without_owner(leaf) for leaf in replaced(leaves, places, [None] * len(places))]
        self._like = [_like(leaves[i]) for i in places]

    def trace(self, leaves: Sequence[Any], *, checks: bool = False) -> Trace:
        """Trace the function for the leaves that are not static, or for leaves of the same specs and layouts.

        Args:
            leaves: the leaves.
            checks: whether results that nothing needs, and whose computation may raise an error, are among the outputs.
        """
        static = [leaf.ref() if type(leaf) is Weak else leaf for leaf in self._static]

        def of_leaves(*own: Any) -> Any:
            args, kwargs = self._structure.unflatten(replaced(static, self._places, own))
            return self._f(*args, **kwargs)

        return Trace(of_leaves, self._f, leaves, self._names, self._tensors, [*static, self._structure], checks)

    def expressions(self) -> Expressions:
        """Return the list of the function, traced again."""
        return self.trace(self._like).expressions


def _like(leaf: Any) -> Any:
    """Return the spec of a leaf, or an array that lies in memory as the leaf does."""
    return np.empty_like(leaf) if type(leaf) is np.ndarray and not in_c_order(leaf) else spec_of(leaf)


def _source(recorder: AbstractRecorder, value: Any) -> int | Constant:
    """Return a value that was assigned as an output of a list."""
    value = resolve(value)
    return value.slot if isinstance(value, Recorded) and value.recorder is recorder else Constant(value)


def _is_lazy(leaf: Any) -> bool:
    return hasattr(type(innermost(leaf)), "__dask_graph__")


def dead_checks(expressions: Expressions, outputs: Sequence[int | Constant]) -> list[int]:
    """Return a result of each equation that may raise an error for some values and that no output needs.

    Eager execution computes it and raises. An equation that raises alike, for the same values, is enough.
    """
    raising = [e for e in expressions.equations if e.primitive.raises is not None or e.primitive.lists]
    if not raising:
        return []
    specs = expressions.specs
    needed = mark_needed(marks_at(outputs, len(specs)), expressions.equations)
    found: list[int] = []
    known: set[Any] = set()
    for dead in (False, True):
        for e in raising:
            if any(needed[slot] for slot in e.outputs) is dead:
                continue
            keys = _reasons_to_raise(e, specs)
            if dead and not keys <= known:
                found.append(e.outputs[0])
            known |= keys
    return found


def _reasons_to_raise(equation: Equation, specs: Sequence[ArraySpec]) -> set[Any]:
    """Return keys of the values that decide whether an equation raises; those of its branches or steps count too."""
    primitive = equation.primitive
    if primitive.lists:
        inner = [part for value in equation.params.values() for part in (value if type(value) is tuple else (value,))]
        lists = [part for part in inner if isinstance(part, Expressions)]
        found = [key for part in lists for e in part.equations for key in _reasons_to_raise(e, part.specs)]
        return {(None, reason) for _, reason in found}  # a derivative has the loop once more, with other slots
    if primitive.raises is None:
        return set()
    given = [specs[s] if type(s) is int else spec_of(s.value) for s in equation.inputs]  # type: ignore[union-attr]
    reason = primitive.raises(given, equation.params)
    if reason is None:
        return set()
    deciding = tuple([s if type(s) is int else id(s.value) for s in [equation.inputs[i] for i in reason[0]]])  # type: ignore[union-attr]
    by_constants = all(isinstance(equation.inputs[i], Constant) for i in reason[0])
    return set() if by_constants and not _raises_anyway(equation, given) else {(deciding, reason[1])}


def _raises_anyway(equation: Equation, given: Sequence[ArraySpec]) -> bool:
    """Return `True` if an elementwise equation raises for ones in place of its variables, such as `x ** -1` of integers."""
    primitive = equation.primitive
    if primitive.kind != "elementwise" or any(spec.size == 0 for spec in given):
        return False
    sources = zip(equation.inputs, given, strict=True)
    values = [s.value if isinstance(s, Constant) else np.ones((1,) * spec.ndim, spec.dtype) for s, spec in sources]
    if any(isinstance(value, Recorded) for value in values):
        return False
    try:
        primitive.compute(*values, **equation.params)
    except (ValueError, ZeroDivisionError):
        return True
    return False


def without_idle(source: int | Constant) -> int | Constant:
    """Return a constant that no trace follows as a plain value."""
    if isinstance(source, Constant) and isinstance(source.value, Recorded):
        value = resolve(source.value)
        return source if value is source.value else Constant(value)
    return source


def _name_of_cell(cell: Cell, number: int) -> str:
    return str(getattr(cell.variable, "name", f"state[{number}]"))
