"""`GradientTape.expressions`: the operations between sources and target as an expression list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functad.eager.models.variable import Variable
from functad.eager.tape.equations import TapeEquations, as_constant
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import spec_of
from functad.primitives.operands import read
from functad.transforms.lists import extract
from functad.trees.structure import LEAF, flatten


def listed_between(tape: Any, target: Any, sources: Any) -> Expressions:
    """Return the operations between sources and target of a tape; the arguments are as for `GradientTape.expressions`."""
    recorder = tape.recorder
    targets, given = flatten(target)
    arguments = tuple(sources) if type(sources) in (list, tuple) else (sources,)
    inputs, taken = flatten((arguments, {}))
    listed, count = recorder.listed, len(recorder.equations)
    every = _every(listed, [None] * count + [spec_of(read(source)) for source in inputs])
    places = {slot: count + i for i, source in enumerate(inputs) for slot in tape.slots_of(source)}
    wanted = [
        slot if slot in listed or slot in places else as_constant(read(leaf))
        for leaf, slot in zip(targets, [recorder.slot_of(read(leaf)) for leaf in targets], strict=True)
    ]
    placed = _placing(every, listed, tape.recorded, places)
    part = extract(every, range(count, count + len(inputs)), wanted, _names(inputs), placed)
    return part.replace(input_structure=taken, output_structure=given)


def _every(listed: TapeEquations, specs: list[Any]) -> Expressions:
    """Return all equations of tapes as a list without inputs and outputs; `specs` receives the specs of their results."""
    equations = {}
    for entry in listed.values():
        if not isinstance(entry, Constant):
            equations[entry[0].outputs[-1]] = entry[0]
            for slot, spec in zip(entry[0].outputs, entry[1], strict=True):
                specs[slot] = spec
    return Expressions((), tuple([equations[slot] for slot in sorted(equations)]), (), tuple(specs), LEAF, LEAF)


def _placing(
    every: Expressions, listed: TapeEquations, own: Callable[[int], bool], places: Mapping[int, int]
) -> Callable[[Any], int | Constant]:
    """Return the function that replaces sources that the part of one tape does not compute.

    Args:
        every: the equations of all tapes of a recorder.
        listed: these equations, and the constants, by slot.
        own: returns `True` for a slot of the tape itself. The values of other slots become constants.
        places: the slot of an input for each slot that the input replaces.
    """

    def placed(source: int | Constant) -> int | Constant:
        if isinstance(source, Constant):
            return source
        if source in places:
            return places[source]
        entry = listed[source]
        if isinstance(entry, Constant):
            return entry
        if own(source):
            return source
        # Another tape recorded the slot while this one did not record.
        return Constant(extract(every, (), [source], (), _placing(every, listed, listed.__contains__, {}))()[0])

    return placed


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
