"""A tape as an expression list: what leads from the sources to the target, printed, checked, and called again.

Records keep only what rules read, which is often all of a call: the primitive, and the slots or values of its arguments. What
is missing, a recorder notes beside the records while a persistent tape records: see `functad.eager.tape.calls`.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.eager.models.readable import read
from functad.eager.models.variable import Variable
from functad.eager.tape import request as requests
from functad.eager.tape.calls import as_constant
from functad.eager.tape.recorder import EagerRecorder
from functad.errors import TapeError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import here
from functad.primitives.entry import KEEP_GATHER
from functad.tracing.traces.base import Recorded
from functad.trees.structure import flatten

if TYPE_CHECKING:
    from functad.eager.tape.tape import GradientTape


def expressions(tape: GradientTape, target: Any, sources: Any) -> Expressions:
    """Return what a tape recorded on the way from sources to a target, as an expression list.

    Args:
        tape: a persistent one.
        target: a Tensor, or a nested structure of them.
        sources: Tensors and Variables that the tape follows; those of a list are arguments of the expression list one by one.

    Returns:
        An `Expressions`, as of `functad.make_expressions`: it prints, and computes the target from other values of the sources.

    Raises:
        TapeError: the tape is not persistent, or was never entered; or a value is needed that another tape followed, which is
            gone.
        TypeError: a target or a source is no Tensor or Variable.

    Example:
        >>> import numpy as np, functad
        >>> w = functad.Variable([1.0, 2.0], name="w")
        >>> with functad.GradientTape(persistent=True) as tape:
        ...     y = np.sum(np.sin(w) * w)
        >>> tape.expressions(y, w)
        { lambda w:float64[2].
          a:float64[2] = sin w
          b:float64[2] = multiply a w
          c:float64[] = sum b
          return c }
    """
    recorder = tape.recorder
    if not tape.lists or recorder is None:
        raise TapeError(
            f"expressions() at {here()}: the tape is not persistent, or was never entered, and does not hold the calls. Use "
            f"GradientTape(persistent=True)."
        )
    requests.sources_of(target, "target")
    targets, given = flatten(target)
    requests.sources_of(sources, "sources")
    arguments = tuple(sources) if type(sources) in (list, tuple) else (sources,)
    inputs, taken = flatten((arguments, {}))
    with recorder.still():
        listing = _Listing(tape, recorder)
        for source in inputs:
            listing.enter(tape.slots_of(source), spec_of(read(source)))
        wanted = [recorder.slot_of(read(leaf)) for leaf in targets]
        listing.add([slot for slot in wanted if slot is not None])
        outputs = [as_constant(read(t)) if s is None else listing.place(s) for t, s in zip(targets, wanted, strict=True)]
    return Expressions(
        tuple(_names(inputs)),
        tuple(listing.equations),
        tuple(outputs),
        tuple(listing.specs),
        taken,
        given,
    )


class _Listing:
    """An expression list that is made of records.

    Attributes:
        specs: those of its inputs and results.
        equations: those that were added.
    """

    def __init__(self, tape: GradientTape, recorder: EagerRecorder) -> None:
        self.specs: list[ArraySpec] = []
        self.equations: list[Equation] = []
        self._recorder = recorder
        self._makers = tape.makers()
        self._number: dict[int, int] = {}

    def enter(self, slots: Sequence[int], spec: ArraySpec) -> None:
        """Let some slots be an input."""
        self._number.update(dict.fromkeys(slots, len(self.specs)))
        self.specs.append(spec)

    def add(self, wanted: Sequence[int]) -> None:
        """Add the equations that some slots need, in the order in which they were recorded; not those before the inputs."""
        found: dict[int, tuple[Any, Any]] = {}
        waiting = list(wanted)
        while waiting:
            slot = waiting.pop()
            last = self._makers.get(slot)
            if slot not in self._number and last is not None and last not in found:
                found[last] = self._call(last)
                waiting += [source for source in found[last][0] if type(source) is int]
        for last in sorted(found):
            self._append(last, *found[last])

    def place(self, source: int | Constant) -> int | Constant:
        """Return where a value stands in the list; the value itself if it is that of another source."""
        if isinstance(source, Constant):
            return source
        return self._number[source] if source in self._number else self._constant(source)

    def _call(self, index: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return inputs and parameters of the call that was recorded at an index."""
        plan, slots, saved, _ = self._recorder.equations[index]
        note = self._recorder.noted.get(index)
        if type(note) is tuple:
            return note[0], note[1]
        primitive, count = plan.primitive, len(plan.primitive.names)
        if plan.keep == KEEP_GATHER:
            return (slots,), {"index": saved[0]}
        if len(plan.active) == 2:
            return ((Constant(saved[0][0]),) if count > 2 else ()) + slots, {}  # with the mask of np.where
        if count == 1:
            return (slots,), {} if primitive.kind == "elementwise" else {"axis": None, "keepdims": False}
        inputs: list[Any] = [None] * count
        if count > 2:
            inputs[0] = Constant(saved)
        inputs[plan.active[0]] = slots
        return tuple([Constant(note if index in self._recorder.noted else saved) if i is None else i for i in inputs]), {}

    def _append(self, last: int, sources: tuple[Any, ...], params: dict[str, Any]) -> None:
        primitive = self._recorder.equations[last][0].primitive
        inputs = [self.place(source) for source in sources]
        known = [self.specs[source] if type(source) is int else source.value for source in inputs]  # type: ignore[union-attr]
        note = self._recorder.noted.get(last)
        if type(note) is tuple:
            specs = note[2]
        else:
            if len(inputs) == 2 and spec_of(known[0]).dtype == spec_of(known[1]).dtype == np.float64:
                inputs = [_as_written(source) for source in inputs]
            specs = (primitive.spec(*known, **params),)
        first = last + 1 - len(specs)
        outputs = tuple(range(len(self.specs), len(self.specs) + len(specs)))
        self._number.update(zip(range(first, last + 1), outputs, strict=True))
        self.specs.extend(specs)
        self.equations.append(Equation(primitive, tuple(inputs), params, outputs))

    def _constant(self, slot: int) -> Constant:
        """Return the value of a slot that is neither an input nor made by what the tape recorded."""
        noted = self._recorder.noted.get(slot)
        if isinstance(noted, Constant):
            return noted
        for t in gc.get_referrers(self._recorder):
            if issubclass(type(t), Recorded) and t.recorder is self._recorder and t.slot == slot:
                return as_constant(t)
        raise TapeError(
            f"expressions() at {here()}: the target was made of a value that another tape had followed before this one was "
            f"opened, and which is gone. Keep it, or open the persistent tape first."
        )


def _as_written(source: Any) -> Any:
    """Return a number that the tracer had made an array as the number it was."""
    value = source.value if isinstance(source, Constant) else None
    if type(value) is np.ndarray and value.shape == () and not value.flags.writeable:
        return Constant(float(value))
    return source


def _names(sources: Sequence[Any]) -> list[str]:
    """Return a name for each source, no two equal: that of a Variable, or `x`."""
    found: list[str] = []
    for source in sources:
        stem = source.name if isinstance(source, Variable) and source.name.isidentifier() else "x"
        name, count = stem, 1
        while name in found:
            name, count = f"{stem}{count}", count + 1
        found.append(name)
    return found
