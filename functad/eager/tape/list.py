"""`GradientTape.expressions`: the operations between sources and target as an expression list."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from functad.eager.models.variable import Variable
from functad.eager.tape import request as requests
from functad.eager.tape.equations import TapeEquations, as_constant
from functad.eager.tape.slice import TapeSlice
from functad.errors import TapeError
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import spec_of
from functad.places import here
from functad.primitives.operands import read
from functad.transforms.lists import extract
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
    noted, count = recorder.listed, len(recorder.equations)
    every = _every(noted, [None] * count + [spec_of(read(source)) for source in inputs])
    places = {slot: count + i for i, source in enumerate(inputs) for slot in tape.slots_of(source)}
    wanted = [
        slot if slot in noted or slot in places else as_constant(read(leaf))
        for leaf, slot in zip(targets, [recorder.slot_of(read(leaf)) for leaf in targets], strict=True)
    ]
    part = _part(every, noted, tape.makers(), wanted, places, range(count, count + len(inputs)), _names(inputs))
    return part.replace(input_structure=taken, output_structure=given)


def _every(noted: TapeEquations, specs: list[Any]) -> Expressions:
    """Return all equations of tapes as a list without inputs and outputs; `specs` receives the specs of their results."""
    equations = {}
    for entry in noted.values():
        if not isinstance(entry, Constant):
            equations[entry[0].outputs[-1]] = entry[0]
            for slot, spec in zip(entry[0].outputs, entry[1], strict=True):
                specs[slot] = spec
    return Expressions((), tuple([equations[slot] for slot in sorted(equations)]), (), tuple(specs), LEAF, LEAF)


def _part(
    every: Expressions,
    noted: TapeEquations,
    own: Container[int],
    wanted: Sequence[Any],
    places: Mapping[int, int] = MappingProxyType({}),
    inputs: Sequence[int] = (),
    names: Sequence[str] = (),
) -> Expressions:
    """Return the equations between the inputs and the wanted slots, in recording order.

    Args:
        every: the equations of all tapes of a recorder.
        noted: these equations, and the constants, by slot.
        own: the slots of the tape itself. The values of other slots become constants.
        wanted: the sources of the results.
        places: the slot of an input for each slot that the input replaces.
        inputs: the slots of the inputs.
        names: the names of the inputs.
    """

    def placed(source: int | Constant) -> int | Constant:
        if isinstance(source, Constant):
            return source
        if source in places:
            return places[source]
        entry = noted[source]
        if isinstance(entry, Constant):
            return entry
        # Another tape may have recorded the slot while this one did not record.
        return source if source in own else Constant(_part(every, noted, noted, [source])()[0])

    return extract(every, inputs, wanted, names, placed)


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
