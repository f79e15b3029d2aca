"""`Pullback`: the pullback of a traced function, which `vjp` and other transforms return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Self

from functad.errors import UnsupportedError
from functad.expressions.spec import spec_of
from functad.places import here, name_of
from functad.tracing.traces.base import Recorded, Recorder
from functad.transforms.calling.boundary import Inputs, by_argument, check_like, checked_leaves, own_derivatives
from functad.transforms.calling.transform import Selection
from functad.transforms.walks.reverse import pull_through, seeded


class OfTrace:
    """A function that holds a trace. Copies are the function itself, and it cannot be pickled.

    Attributes:
        transform: the name of the transform that returned the function.
        arguments: the arguments of the function as text, for messages.
    """

    transform: str
    arguments: str

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable, like any function

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            f"{self!r} cannot be pickled, at {here()}: it holds a trace, which belongs to this process. Pickle its expression "
            f"list, functad.make_expressions(function)({self.arguments}), or pickle the arguments and call {self.transform} "
            f"again."
        )


class Pullback(OfTrace):
    """The function from the cotangent of a traced result to the cotangents of the selected arguments.

    The pullback keeps the trace, so it may be called repeatedly.

    Attributes:
        transform, function: names for messages.
        inputs: the selected arguments.
        values: the leaves of the result.
        structure: the structure of the result.
        recorder: the trace.
        slots: the slot of each leaf of the result in the trace, or `None` if the leaf depends on no argument.
    """

    arguments = "g"

    def __init__(self, recorder: Recorder, inputs: Inputs, out: Any, selection: Selection) -> None:
        leaves, self.structure = checked_leaves(out, selection.transform, selection.function)
        self.transform, self.function = recorder.transform, recorder.function
        self.recorder = recorder
        self.inputs = inputs
        self.slots = [leaf.slot if isinstance(leaf, Recorded) and leaf.recorder is recorder else None for leaf in leaves]
        self.values = [leaf if slot is None else leaf.below for leaf, slot in zip(leaves, self.slots, strict=True)]
        if recorder.monitor is not None:
            recorder.monitor.check_values(self.slots)

    def __call__(self, g: Any) -> tuple[Any, ...]:
        """Return the cotangents of the selected arguments for a cotangent `g` of the result, which must match the result."""
        seeds = check_like(g, self.structure, self.values, "g", "value")
        return tuple(own_derivatives(self.inputs, self.leaves(seeds), seeds))

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs for cotangents of the leaves of the result. `None` means zero in both."""
        return pull_through(self.recorder, seeded(self.recorder, self.slots, seeds), consume=False)

    def signature(self) -> str:
        """Return the types of the arguments and of the result as text."""
        taken = by_argument(self.inputs, [spec_of(primal) for primal in self.inputs.primals])
        result = self.structure.unflatten([spec_of(value) for value in self.values])
        return f"{', '.join(map(repr, taken))} -> {result!r}"

    def __repr__(self) -> str:
        return f"<{self.transform} of {name_of(self.function)}: {self.signature()}>"
