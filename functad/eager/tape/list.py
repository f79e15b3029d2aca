"""`GradientTape.expressions`: the operations between sources and target as an expression list."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from functad.eager.models.variable import Variable
from functad.eager.tape import request as requests
from functad.eager.tape.equations import TapeEquations, as_constant
from functad.eager.tape.slice import TapeSlice
from functad.errors import TapeError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import here
from functad.primitives.operands import read
from functad.trees.structure import LEAF, flatten


def expressions(tape: TapeSlice, target: Any, sources: Any) -> Expressions:
    """Return the operations that a tape recorded between sources and target, as an expression list.

    Args:
        tape: a tape made with `lists=True`.
        target: a Tensor, or a nested structure of Tensors.
        sources: Tensors and Variables that the tape follows. Each element of a list is an argument of the result.

    Returns:
        An `Expressions`, as from `functad.make_expressions`. It prints, and computes the target from new values of the sources.

    Raises:
        TapeError: the tape was made without `lists=True`, was never entered, or is spent.
        TypeError: a target or a source is not a Tensor or Variable.

    Example:
        >>> import numpy as np, functad
        >>> w = functad.Variable([1.0, 2.0], name="w")
        >>> with functad.GradientTape(lists=True) as tape:
        ...     y = np.sum(np.sin(w) * w)
        >>> tape.expressions(y, w)
        { lambda w:float64[2].
          a:float64[2] = sin w
          b:float64[2] = multiply a w
          c:float64[] = sum b
          return c }
    """
    recorder = tape.recorder
    if not tape.lists:
        raise TapeError(
            f"expressions() at {here()}: a tape keeps only what derivatives need, from which it cannot be listed. Open it as "
            f"GradientTape(lists=True)."
        )
    if recorder is None:
        raise TapeError(f"expressions() at {here()}: {tape._absent()}.")
    requests.leaves_of(target, "target")
    targets, given = flatten(target)
    requests.leaves_of(sources, "sources")
    arguments = tuple(sources) if type(sources) in (list, tuple) else (sources,)
    inputs, taken = flatten((arguments, {}))
    listing = _Listing(recorder.listed, tape.makers())
    for source in inputs:
        listing.enter(tape.slots_of(source), spec_of(read(source)))
    wanted = [recorder.slot_of(read(leaf)) for leaf in targets]
    listing.add([slot for slot in wanted if slot is not None])
    outputs = [
        listing.place(slot) if slot in recorder.listed or slot in listing.number else as_constant(read(leaf))
        for leaf, slot in zip(targets, wanted, strict=True)
    ]
    return Expressions(
        tuple(_names(inputs)),
        tuple(listing.equations),
        tuple(outputs),
        tuple(listing.specs),
        taken,
        given,
    )


class _Listing:
    """Build an expression list from the equations of tapes.

    Args:
        noted: the equations, by slot of the tape.
        own: the slots of the tape itself. The values of other slots become constants.

    Attributes:
        specs: the specs of the variables of the new list.
        equations: the equations of the new list.
        number: a slot of the tape to its variable in the new list.
    """

    def __init__(self, noted: TapeEquations, own: Container[int]) -> None:
        self.specs: list[ArraySpec] = []
        self.equations: list[Equation] = []
        self.number: dict[int, int] = {}
        self._noted = noted
        self._own = own

    def enter(self, slots: Sequence[int], spec: ArraySpec) -> None:
        """Add an input, which the given slots read."""
        self.number.update(dict.fromkeys(slots, len(self.specs)))
        self.specs.append(spec)

    def add(self, wanted: Sequence[int]) -> None:
        """Add the equations between the inputs and the wanted slots, in recording order."""
        found: dict[int, Any] = {}
        waiting = list(wanted)
        while waiting:
            slot = waiting.pop()
            entry = self._noted.get(slot)
            if slot in self.number or slot not in self._own or type(entry) is not tuple:
                continue
            last = entry[0].outputs[-1]
            if last not in found:
                found[last] = entry
                waiting += inputs_of(entry[0])
        for last in sorted(found):
            equation, specs = found[last]
            inputs = tuple([self.place(source) for source in equation.inputs])
            outputs = tuple(range(len(self.specs), len(self.specs) + len(specs)))
            self.number.update(zip(equation.outputs, outputs, strict=True))
            self.specs.extend(specs)
            self.equations.append(Equation(equation.primitive, inputs, equation.params, outputs))

    def place(self, source: Any) -> int | Constant:
        """Return the variable of a slot; a `Constant` if the slot is neither an input nor a result of the tape."""
        if isinstance(source, Constant):
            return source
        if source in self.number:
            return self.number[source]
        entry = self._noted[source]
        if isinstance(entry, Constant):
            return entry
        before = _Listing(self._noted, self._noted)  # another tape recorded the slot while this one did not record
        before.add([source])
        structure = flatten(((), {}))[1]
        whole = Expressions((), tuple(before.equations), (before.place(source),), tuple(before.specs), structure, LEAF)
        return Constant(whole())


def _names(sources: Sequence[Any]) -> list[str]:
    """Return a unique name for each source: the name of a Variable, or `x`."""
    found: list[str] = []
    for source in sources:
        stem = source.name if isinstance(source, Variable) and source.name.isidentifier() else "x"
        name, count = stem, 1
        while name in found:
            name, count = f"{stem}{count}", count + 1
        found.append(name)
    return found
