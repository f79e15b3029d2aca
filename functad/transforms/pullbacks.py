"""The function that pulls cotangents back through what was traced, any number of times: what `vjp` returns.

Pickled, it is an expression list: the trace holds rules, closures among them, and Tensors that mean nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Expressions, evaluate
from functad.expressions.spec import ArraySpec, is_inexact, shape_of, spec_of, stand_in
from functad.places import Named, name_of
from functad.primitives.operands import innermost, zeros_for
from functad.primitives.safe import ELEMENTWISE, PASS
from functad.settings import setting
from functad.tracing.traces.abstract import AbstractRecorder
from functad.tracing.traces.base import Recorded, Recorder
from functad.transforms.abstract import listed
from functad.transforms.calling.arguments import Inputs, by_argument, check_like, checked_leaves, derivatives
from functad.transforms.calling.selection import Selection
from functad.transforms.walks.reverse import pull_through, seeded
from functad.trees.structure import Structure


class Pullback:
    """The function from the cotangent of a traced result to those of the selected arguments; it may be called repeatedly.

    Attributes:
        transform, function: names for messages.
        inputs: the selected arguments.
        values: the leaves of the result.
        structure: how they are put together.
    """

    transform: str
    function: Any
    inputs: Inputs
    values: list[Any]
    structure: Structure

    def __call__(self, g: Any) -> tuple[Any, ...]:
        """Return the cotangents of the selected arguments, for one of the result that must match it."""
        seeds = check_like(g, self.structure, self.values, "g", "value")
        return tuple(derivatives(self.inputs, self.leaves(seeds), seeds))

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs for those of the leaves of the result; `None` stands for zero in both."""
        raise NotImplementedError

    def signature(self) -> str:
        """Name the types of the arguments and of the result."""
        taken = by_argument(self.inputs, [spec_of(primal) for primal in self.inputs.primals])
        result = self.structure.unflatten([spec_of(value) for value in self.values])
        return f"{', '.join(map(repr, taken))} -> {result!r}"

    def __repr__(self) -> str:
        return f"<{self.transform} of {name_of(self.function)}: {self.signature()}>"

    def __copy__(self) -> Pullback:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Pullback:
        return self  # as of any function: nothing changes it

    def __reduce__(self) -> Any:
        from functad.transforms.closed_lists import extract  # noqa: PLC0415 - few programs pickle functions
        from functad.transforms.leaves import replaced  # noqa: PLC0415 - likewise

        places = [i for i, value in enumerate(self.values) if is_inexact(value)]
        wanted: list[int] = []

        def pulled(*seeds: Any) -> tuple[Any, ...]:
            found = self.leaves(replaced([None] * len(self.values), places, seeds))
            wanted[:] = [i for i, ct in enumerate(found) if ct is not None]
            return tuple([found[i] for i in wanted])

        specs = [ArraySpec(shape_of(self.values[i]), spec_of(self.values[i]).dtype) for i in places]
        with setting(PASS, ELEMENTWISE):
            found = listed(AbstractRecorder(self.transform, self.function), pulled, tuple(specs), {})[0]
        expressions = extract(found, range(len(places)), found.outputs, found.inputs)
        inputs = [_described(primal) for primal in self.inputs.primals], self.inputs.structures, self.inputs.skipped
        result = [_described(value) for value in self.values], self.structure
        return _restored, (self.transform, name_of(self.function), expressions, places, wanted, inputs, result)


class TracedPullback(Pullback):
    """That of a trace, which stays.

    Attributes:
        recorder: the trace.
        slots: where the leaves of the result stand in the list; `None` for what no operation on the arguments made.
    """

    def __init__(self, recorder: Recorder, inputs: Inputs, out: Any, selection: Selection) -> None:
        leaves, self.structure = checked_leaves(out, selection.transform, selection.function)
        self.transform, self.function = recorder.transform, recorder.function
        self.recorder = recorder
        self.inputs = inputs
        self.slots = [leaf.slot if isinstance(leaf, Recorded) and leaf.recorder is recorder else None for leaf in leaves]
        self.values = [leaf if slot is None else leaf.below for leaf, slot in zip(leaves, self.slots, strict=True)]
        if recorder.watch is not None:
            recorder.watch.check_values(self.slots)

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Walk back through the trace."""
        return pull_through(self.recorder, seeded(self.recorder, self.slots, seeds), consume=False)


class ListedPullback(Pullback):
    """One that was pickled.

    Attributes:
        expressions: from the cotangents of some leaves of the result to those of some inputs.
        places: which leaves these are.
        wanted: which inputs; the others have none.
    """

    def __init__(self, expressions: Expressions, places: Sequence[int], wanted: Sequence[int]) -> None:
        self.expressions, self.places, self.wanted = expressions, places, wanted

    def leaves(self, seeds: Sequence[Any]) -> list[Any]:
        """Evaluate the list."""
        found: list[Any] = [None] * (len(self.inputs.primals) - len(self.inputs.skipped))
        if all(seeds[i] is None for i in self.places):
            return found
        specs = zip(self.places, self.expressions.specs, strict=False)
        given = [
            zeros_for(spec.shape, spec.dtype, innermost(self.values[i])) if seeds[i] is None else seeds[i] for i, spec in specs
        ]
        for i, ct in zip(self.wanted, evaluate(self.expressions, given), strict=True):
            found[i] = ct
        return found


def _described(value: Any) -> Any:
    """Return an array of NumPy's as its spec, which is all that is asked of it; anything else as it is."""
    return spec_of(value) if type(value) is np.ndarray else value


def _restored(
    transform: str,
    name: str,
    expressions: Expressions,
    places: Sequence[int],
    wanted: Sequence[int],
    inputs: tuple[list[Any], list[Structure], set[int]],
    result: tuple[list[Any], Structure],
) -> ListedPullback:
    """Return the pullback that was pickled."""
    pull = ListedPullback(expressions, places, wanted)
    pull.transform, pull.function = transform, Named(name)
    pull.inputs = Inputs((), {})
    primals, pull.inputs.structures, pull.inputs.skipped = inputs
    pull.inputs.primals = list(map(stand_in, primals))
    pull.values, pull.structure = list(map(stand_in, result[0])), result[1]
    return pull
