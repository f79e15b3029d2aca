"""Trace a function without values, for all calls with arguments of the same specs.

Variables and other mutable state that the function reads become inputs of the list. Values that it assigns to them become
outputs. Captured Tensors of other traces become inputs too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.compilation.guarded_loops import Unrolled
from functad.compilation.guards import Guard, GuardingRecorder
from functad.compilation.inner_loops import InnerLoops
from functad.compilation.kinds import Weak, without_owner
from functad.compilation.passes.speculate import hides_nan
from functad.eager.variable import MAKER, Given, Variable
from functad.errors import UnsupportedError
from functad.expressions.digest import digest
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import mark_needed, mark_reached, marks_at
from functad.expressions.spec import ArraySpec, is_inexact, spec_of
from functad.primitives.operands import innermost, read
from functad.process import setting
from functad.tracing.concrete import counts_as_plain, idle
from functad.tracing.equations import DERIVATIVES
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, resolve
from functad.tracing.views import in_c_order
from functad.transforms.boundary import INNER
from functad.transforms.leaves import replaced
from functad.transforms.lists import close, extract, make_list
from functad.transforms.outside import frozen_in
from functad.trees import Structure, flatten

FEWEST_VISITS = 2
"""A guard at one place of a running function, with Tensors of a transform, that is asked more often belongs to a loop."""


class Cell(Given):
    """A temporary value of a Variable or of other state during a trace: a Tensor of the trace.

    Attributes:
        read: returns the current value of the state when the compiled function is called.
        write: assigns the new value to the state after the call.
        slot: the slot of the input.
        changed: `True` if the function assigned a value.
    """

    __slots__ = ("changed", "read", "slot", "write")

    def __init__(self, variable: Any, value: Any, slot: int, read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
        super().__init__(variable, value, ())
        self.slot = slot
        self.read, self.write = read, write
        self.changed = False

    @property
    def value(self) -> Any:
        """The value at this point of the trace."""
        return self._value

    def change(self, value: Any) -> None:
        """Assign a new value."""
        variable: Any = self.variable
        if variable is not None and counts_as_plain(value):  # reads of a Variable always return Tensors
            value = idle(Tensor, value)
        self._value, self._latest, self.changed = value, None, True


class Cells:
    """The cells of one trace. A call with a Variable returns its cell."""

    def __init__(self, recorder: GuardingRecorder) -> None:
        self.recorder = recorder
        self.known: dict[Any, Cell] = {}
        self.outer = MAKER.get()

    def __call__(self, variable: Variable) -> Cell:
        """Return the cell of a Variable. The first call makes the Variable an input of the trace."""
        outer: Any = None if self.outer is None else self.outer(variable)  # an inner trace reads the cell of the outer trace
        spec = ArraySpec(variable.shape, variable.dtype)
        if outer is not None:
            return self.cell(id(variable), spec, lambda: outer.value, outer.change, variable)
        return self.cell(id(variable), spec, lambda: variable.__functad_read__(), variable.assign, variable)

    def cell(
        self, key: Any, spec: ArraySpec, read: Callable[[], Any], write: Callable[[Any], Any], variable: Any = None
    ) -> Cell:
        """Return the cell with a key. Create it if there is none.

        Args:
            key: the key of the cell.
            spec: the spec of its value.
            read: returns the value when the compiled function is called.
            write: assigns a new value after the call, if the function assigned one.
            variable: the Variable of the cell, or `None` for other state.
        """
        if key not in self.known:
            tensor = self.recorder.enter_later(spec)
            self.recorder.later[tensor.slot] = lambda: resolve(read())
            value = tensor if variable is None else idle(Tensor, tensor)
            self.known[key] = Cell(variable, value, tensor.slot, read, write)
        return self.known[key]


class Trace:
    """A function as an expression list, with the state that it reads and assigns.

    Args:
        f: a function of the leaves.
        function: the user's function, for messages.
        leaves: the leaves of the arguments. Only their shapes, dtypes and memory layouts matter.
        names: the names of the leaves.
        tensors: positions of the leaves that are Tensors outside all traces.
        static: static arguments, which are searched for random generators.
        checks: `True` to keep unused results as outputs if their equations may raise errors.
        effects: `True` to keep the results of calls with an effect as outputs.
        valued: `True` if the leaves have values, so that the function may ask for values, which are guarded.
        known: the guards of an earlier trace of the same path, which answer these questions; `None` without such a trace.
        exact: `True` if results must be equal to NumPy's bit for bit.
        inner: finds loops in the functions that transforms call, or `None`.

    Attributes:
        expressions: the list. Its inputs are the leaves of the arguments, the cells and the captured Tensors. Its outputs are
            the leaves of the result, the new values of cells, the vector of guarded values if there are guards, and the
            results kept for `checks`.
        structure: the structure of the result.
        cells: the cells that the function reads, in order.
        changed: the cells that the function assigns, in order.
        checks: the number of outputs at the end that are computed only because their equations may raise errors or have an
            effect, or because a guard depends on a derivative, in which a NaN must be seen.
        guards: the guards of this path; empty if the list is valid for all values.
        outcome: the values of the leaves of the result and of changed cells in this call, if there are guards and the leaves
            have values; otherwise `None`.
        captured: Tensors of other traces.
        inner: the lists that replaced functions which transforms call.
        has_inner_loops: `True` if such a function seems to have a loop.
        unrolled: the trace before equations were removed, if it may have loops; otherwise `None`.
        counts: positions of results that are integers of Python, computed as int64.
        wraps: for each leaf of the result, `True` if the function returned a Tensor outside all traces.
        variables: for each leaf of the result, the Variable that the function returned, or `None`.
        derives: `True` if the list contains derivatives.
        hides: `True` if a NaN in a derivative may not reach the results.
        checked: positions of the results that depend on derivatives.
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
        effects: bool = True,
        *,
        valued: bool = False,
        known: Sequence[Guard] | None = None,
        exact: bool = False,
        inner: InnerLoops | None = None,
    ) -> None:
        valued = valued and not any(isinstance(leaf, ArraySpec) for leaf in leaves)
        recorder = GuardingRecorder("jit", function, leaves if valued else None, known, exact)
        recorder.counts_as_plain = True
        cells = Cells(recorder)
        if inner is not None:
            inner.recorder = recorder
        recorder.cells = lambda: list(cells.known.values())
        self.counts: Sequence[int] = ()
        self.wraps: list[bool] = []
        self.variables: list[Variable | None] = []

        def noted(*own: Any) -> Any:
            out = f(*[idle(Tensor, leaf) if i in tensors else leaf for i, leaf in enumerate(own)])
            leaves = flatten(out)[0]
            self.variables = [leaf if isinstance(leaf, Variable) else None for leaf in leaves]
            self.wraps = [isinstance(leaf, Recorded) and leaf.recorder.inactive for leaf in map(read, leaves)]
            vector.append(recorder.vector())
            return out

        vector: list[Any] = []
        derivatives: list[tuple[Expressions, list[int]]] = []
        with (
            frozen_in("jit", function, [function, *static]),
            setting(MAKER, cells),
            setting(DERIVATIVES, derivatives),
            setting(INNER, inner),
        ):
            try:
                found, _ = make_list(recorder, noted, leaves)
            except BaseException:
                recorder.let_go()
                raise
        self.inner = [] if inner is None else inner.used
        self.has_inner_loops = max(recorder.foreign.values(), default=0) > FEWEST_VISITS
        self.derives = bool(derivatives)
        self.guards = recorder.guards
        watched = self._watched(recorder, found)
        visible = found.replace(outputs=(*found.outputs, *watched))
        self.hides = any(hides_nan(visible if e is found else e, slots) for e, slots in derivatives)
        self.structure: Structure = found.output_structure
        self.cells = list(cells.known.values())
        self.changed = [cell for cell in self.cells if cell.changed]
        outputs = [*found.outputs, *[_source(recorder, cell.value) for cell in self.changed]]
        deep = any(expressions is not found for expressions, _ in derivatives)  # derivatives in an inner list
        self.outcome = recorder.values(outputs, inner=deep) if self.guards and valued else None
        outputs += [*[each.slot for each in vector if each is not None], *watched]
        marks = mark_reached(marks_at(recorder.derivatives, len(recorder.specs)), found.equations)
        self.checked = [
            i
            for i, source in enumerate(outputs)
            if type(source) is int and (deep or marks[source]) and is_inexact(recorder.specs[source])
        ]
        kept = dead_checks(found, outputs) if checks and not any(map(_is_lazy, leaves)) else []
        kept += [token.slot for token in recorder.effects] if effects else []
        self.checks = len(watched) + len(kept)
        outputs += kept
        inputs = [*range(len(leaves)), *[cell.slot for cell in self.cells]]
        every = [*names, *[_name_of_cell(cell, i) for i, cell in enumerate(self.cells)]]
        self.unrolled = self._unrolled(recorder, found, inputs, every, outputs) if self.outcome is not None else None
        recorder.let_go()
        whole = extract(found.replace(specs=tuple(recorder.specs)), inputs, outputs, every, without_idle)
        self.expressions: Expressions
        self.expressions, self.captured = close(whole)
        if self.captured or self.derives:
            self.unrolled = None

    def _unrolled(
        self,
        recorder: GuardingRecorder,
        found: Expressions,
        inputs: Sequence[int],
        names: Sequence[str],
        outputs: Sequence[int | Constant],
    ) -> Unrolled | None:
        """Return the trace with its unused equations, if it may have loops."""
        states, place = recorder.states, len(self.wraps) + len(self.changed)
        if len(states) != len(self.guards) or (recorder.writes and any(state and state.views for state in states)):
            return None
        if any(type(source) is int and source > recorder.pieces[0].slot for source in outputs[place + 1 :]):
            return None  # an unused result of an iteration
        own = Unrolled(
            equations=[_with_plain_inputs(e) for e in found.equations],
            specs=tuple(recorder.specs),
            inputs=inputs,
            names=names,
            outputs=[without_idle(source) for source in (*outputs[:place], *outputs[place + 1 :])],
            place=place,
            vector=outputs[place],  # type: ignore[arg-type]
            pieces=[piece.slot for piece in recorder.pieces],
            guards=self.guards,
            states=states,
            structure=found.output_structure,
        )
        return own if own.repeats() else None

    def equals(self, other: Trace) -> bool:
        """Return `True` if another trace of the same function has the same list."""
        own, others = self.expressions, other.expressions
        try:
            return digest(own) == digest(others)
        except UnsupportedError:  # there are functions or objects of the user
            return str(own) == str(others)

    @staticmethod
    def _watched(recorder: GuardingRecorder, found: Expressions) -> list[int]:
        """Return the slots of derivatives on which guards depend."""
        if not (recorder.guards and recorder.derivatives):
            return []
        needed = mark_needed(marks_at([piece.slot for piece in recorder.pieces], len(recorder.specs)), found.equations)
        return [s for s in recorder.derivatives if needed[s]]


class Again:
    """Trace a function for one kind of arguments: at the first call, and later for a careful pass.

    The object keeps no array of the first call alive.

    Args:
        f: the function.
        structure: the structure of its arguments.
        leaves: the leaves of the arguments of the first call.
        places: the positions of the leaves that are not static.
        names: the names of all leaves.
        tensors: positions, among the leaves that are not static, of Tensors outside all traces.
        exact: as for `Trace`.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        structure: Structure,
        leaves: Sequence[Any],
        places: Sequence[int],
        names: Sequence[str],
        tensors: Sequence[int],
        exact: bool = False,
    ) -> None:
        self._exact = exact
        self._f, self._structure, self._places, self._tensors = f, structure, places, tensors
        self._names = [names[i] for i in places]
        self._static = [without_owner(leaf) for leaf in replaced(leaves, places, [None] * len(places))]
        self._like = [_like(leaves[i]) for i in places]

    def trace(
        self,
        leaves: Sequence[Any] | None = None,
        *,
        checks: bool = False,
        effects: bool = False,
        valued: bool = False,
        known: Sequence[Guard] | None = None,
        inner: InnerLoops | None = None,
    ) -> Trace:
        """Trace the function again.

        Args:
            leaves: the leaves that are not static, or leaves of the same specs and layouts, which is the default.
            checks: `True` to keep unused results as outputs if their equations may raise errors.
            effects: `True` to keep the results of calls with an effect as outputs.
            valued, known, inner: as for `Trace`.
        """
        static = self._now()

        def of_leaves(*own: Any) -> Any:
            args, kwargs = self._structure.unflatten(replaced(static, self._places, own))
            return self._f(*args, **kwargs)

        leaves, static = self._like if leaves is None else leaves, [*static, self._structure]
        options: dict[str, Any] = {"valued": valued, "known": known, "exact": self._exact, "inner": inner}
        return Trace(of_leaves, self._f, leaves, self._names, self._tensors, static, checks, effects, **options)

    def _now(self) -> list[Any]:
        """Return the static leaves, with `None` for the others."""
        return [leaf.ref() if type(leaf) is Weak else leaf for leaf in self._static]

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call of the function itself, for leaves that are not static."""
        own = [idle(Tensor, leaf) if i in self._tensors and counts_as_plain(leaf) else leaf for i, leaf in enumerate(leaves)]
        return self._structure.unflatten(replaced(self._now(), self._places, own))  # type: ignore[no-any-return]

    def expressions(self, known: Sequence[Guard] | None = None, inner: InnerLoops | None = None) -> Expressions:
        """Trace the function again and return the list. `known` and `inner` are the guards and inner lists of the path."""
        return self.trace(known=known, inner=inner).expressions

    def whole(self) -> Expressions:
        """Trace the function again and return the list with all checks and effects."""
        return self.trace(self._like, checks=True, effects=True).expressions


def _like(leaf: Any) -> Any:
    """Return the spec of a leaf, or an empty array with its layout if the leaf is not in C order."""
    return np.empty_like(leaf) if type(leaf) is np.ndarray and not in_c_order(leaf) else spec_of(leaf)


def _source(recorder: GuardingRecorder, value: Any) -> int | Constant:
    """Return an assigned value as an output of a list."""
    value = resolve(value)
    return value.slot if isinstance(value, Recorded) and value.recorder is recorder else Constant(value)


def _is_lazy(leaf: Any) -> bool:
    return hasattr(type(innermost(leaf)), "__dask_graph__")


def dead_checks(expressions: Expressions, outputs: Sequence[int | Constant]) -> list[int]:
    """Return one result of each equation that may raise an error and that no output needs.

    Eager execution computes these equations and raises. An equation is left out if another equation that is needed or returned
    raises for the same values.
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
    """Return keys of the values that decide whether an equation, or an equation in its inner lists, raises."""
    primitive = equation.primitive
    if primitive.lists:
        inner = [part for value in equation.params.values() for part in (value if type(value) is tuple else (value,))]
        lists = [part for part in inner if isinstance(part, Expressions)]
        found = [key for part in lists for e in part.equations for key in _reasons_to_raise(e, part.specs)]
        return {(None, reason) for _, reason in found}  # a derivative contains the loop again, with other slots
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
    """Return `True` if an elementwise equation raises with ones as variables, as `x ** -1` does for integers."""
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


def _with_plain_inputs(e: Equation) -> Equation:
    """Return an equation with plain constants in place of constant Tensors outside all traces."""
    inputs = tuple(map(without_idle, e.inputs))
    return (
        e if all(a is b for a, b in zip(inputs, e.inputs, strict=True)) else Equation(e.primitive, inputs, e.params, e.outputs)
    )


def without_idle(source: int | Constant) -> int | Constant:
    """Return a constant Tensor outside all traces as a plain constant; other sources unchanged."""
    if isinstance(source, Constant) and isinstance(source.value, Recorded):
        value = resolve(source.value)
        return source if value is source.value else Constant(value)
    return source


def _name_of_cell(cell: Cell, number: int) -> str:
    return str(getattr(cell.variable, "name", f"state[{number}]"))
