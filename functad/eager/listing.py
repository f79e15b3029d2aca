"""A tape as an expression list: what leads from the sources to the target, printed, checked, and called again.

The records of a tape keep only what rules read, not what was called. A tape made with `keep_expressions=True` notes that too,
in equations beside its records.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.eager import requests
from functad.eager.readable import read
from functad.eager.recording import EagerRecorder
from functad.eager.variable import Variable
from functad.errors import TapeError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import here
from functad.primitives.operands import innermost
from functad.primitives.primitive import Primitive
from functad.tracing.recorder import Recorded
from functad.trees import flatten

if TYPE_CHECKING:
    from functad.eager.tape import GradientTape


class ListingRecorder(EagerRecorder):
    """A recorder that notes each call beside its record, which takes the long way.

    Attributes:
        notes: equations by the slot of their last result.
        values: by slot, the values of inputs.
        known: by slot, the specs of what the equations read and make.
    """

    eager = False

    def __init__(self, transform: str) -> None:
        super().__init__(transform)
        self.notes: dict[int, Equation] = {}
        self.values: dict[int, Any] = {}
        self.known: dict[int, ArraySpec] = {}
        self.watch = _Notes(self)

    def add(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], made: Any) -> None:
        """Keep the equation of a call."""
        inputs: list[int | Constant] = []
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is self:
                inputs.append(a.slot)
                if a.slot not in self.known:
                    self.known[a.slot], self.values[a.slot] = spec_of(a.value), innermost(a)
            else:
                value = innermost(a)
                inputs.append(Constant(value.copy() if isinstance(value, np.ndarray) else value))
        results = made if primitive.multiple else (made,)
        self.known.update({out.slot: spec_of(out.value) for out in results})
        self.notes[results[-1].slot] = Equation(primitive, tuple(inputs), params, tuple([out.slot for out in results]))


class _Notes:
    """What the tracer tells of each call, as it does to `debug_nans`."""

    def __init__(self, recorder: ListingRecorder) -> None:
        self._recorder = weakref.ref(recorder)

    def note(self, primitive: Primitive, arrays: Sequence[Any], values: Any, params: dict[str, Any], made: Any) -> None:
        """Keep the equation of a call."""
        recorder = self._recorder()
        if recorder is not None:
            recorder.add(primitive, arrays, params, made)

    def keep(self, root: Any) -> None:
        """Do nothing: a write is told of by `note`."""


def expressions(tape: GradientTape, target: Any, sources: Any) -> Expressions:
    """Return what a tape recorded on the way from sources to a target, as an expression list.

    Args:
        tape: made with `keep_expressions=True`, and not spent.
        target: a Tensor, or a nested structure of them.
        sources: Tensors and Variables that the tape follows; those of a list are arguments of the expression list one by one.

    Returns:
        An `Expressions`, as of `functad.make_expressions`: it prints, and computes the target from other values of the sources.

    Raises:
        TapeError: the tape does not keep expressions, or is spent.
        TypeError: a target or a source is no Tensor or Variable.

    Example:
        >>> import numpy as np, functad
        >>> w = functad.Variable([1.0, 2.0], name="w")
        >>> with functad.GradientTape(persistent=True, keep_expressions=True) as tape:
        ...     y = np.sum(np.sin(w) * w)
        >>> tape.expressions(y, w)
        { lambda w:float64[2].
          a:float64[2] = sin w
          b:float64[2] = multiply a w
          c:float64[] = sum b
          return c }
    """
    recorder = tape.recorder
    if not isinstance(recorder, ListingRecorder):
        raise TapeError(
            f"expressions() at {here()}: the tape is spent, or does not know them. Use GradientTape(persistent=True, "
            f"keep_expressions=True)."
        )
    targets = [leaf for leaf, _ in requests.sources_of(target, "target")]
    pairs = requests.sources_of(sources, "sources")
    number: dict[int, int] = {}
    specs = []
    for i, (source, _) in enumerate(pairs):
        number.update(dict.fromkeys(tape.slots_of(source), i))
        specs.append(spec_of(read(source)))
    wanted = [recorder.slot_of(read(leaf)) for leaf in targets]
    chosen = _leading_to([slot for slot in wanted if slot is not None], recorder, number)
    equations = []
    for note in chosen:
        inputs = tuple([_input(source, recorder, number) for source in note.inputs])
        for slot in note.outputs:
            number[slot] = len(specs)
            specs.append(recorder.known[slot])
        equations.append(Equation(note.primitive, inputs, note.params, tuple([number[slot] for slot in note.outputs])))
    outputs = [
        Constant(innermost(read(t))) if s is None else _input(s, recorder, number) for t, s in zip(targets, wanted, strict=True)
    ]
    arguments = tuple(sources) if type(sources) in (list, tuple) else (sources,)
    return Expressions(
        tuple(_names([source for source, _ in pairs])),
        tuple(equations),
        tuple(outputs),
        tuple(specs),
        flatten((arguments, {}))[1],
        flatten(target)[1],
    )


def _leading_to(wanted: list[int], recorder: ListingRecorder, known: dict[int, int]) -> list[Equation]:
    """Return the equations that targets need, in the order in which they were recorded; not those before the sources."""
    makers = {slot: last for last, note in recorder.notes.items() for slot in note.outputs}
    found: set[int] = set()
    waiting = list(wanted)
    while waiting:
        slot = waiting.pop()
        last = makers.get(slot)
        if slot not in known and last is not None and last not in found:
            found.add(last)
            waiting += [source for source in recorder.notes[last].inputs if not isinstance(source, Constant)]
    return [recorder.notes[last] for last in sorted(found)]


def _input(source: int | Constant, recorder: ListingRecorder, number: dict[int, int]) -> int | Constant:
    """Return where a value stands in the list; the value itself if it is that of another source."""
    if isinstance(source, Constant):
        return source
    return number[source] if source in number else Constant(recorder.values[source])


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
