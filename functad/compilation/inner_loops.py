"""Loops inside derivatives: `jit(grad(f))`, where `f` has a loop that ends by a value.

The trace of `grad(f)` with guards has the iterations of the loop and, in reverse order, their derivatives. Python code of `f`
holds Tensors of the trace of `grad`, which has records of every iteration, so no state of the code repeats itself. A function
whose trace shows such a loop is traced in another way from then on: where a transform calls a function of the user,
`InnerLoops` traces this function alone, with the values of the call, and finds its loops as `functad.compilation.guarded_loops`
does. The transform then gets the list with the loops in place of the function. The derivative of the list contains the
derivative of each loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from functad.compilation.guarded_loops import HiddenStateError, Loops
from functad.compilation.guards import Guard, GuardingRecorder, LeaveError
from functad.errors import FunctadError
from functad.expressions.expressions import Expressions, evaluate
from functad.expressions.spec import spec_of
from functad.places import is_internal
from functad.primitives.elementwise.guard import GUARD
from functad.tracing.trace import Recorded
from functad.transforms.leaves import replaced
from functad.transforms.lists import extract
from functad.trees import Structure, flatten


class Inner(NamedTuple):
    """A function as a list with loops.

    Attributes:
        expressions: the list. Its outputs are the results and the guarded values.
        guards: the guards.
        structure: the structure of the result.
        size: the number of guarded values inside loops.
    """

    expressions: Expressions
    guards: Sequence[Guard]
    structure: Structure
    size: int


class InnerLoops:
    """The loops of the functions that transforms call in a trace.

    Args:
        trace: the class `functad.compilation.trace.Trace`.
        kept: the loops of earlier traces, by the number of the call and the specs of its arguments.
        known: the lists of an earlier trace of the same path, which replace the functions; `None` to find them.

    Attributes:
        used: the lists that replaced functions; `None` for a function that was called.
    """

    def __init__(self, trace: Callable[..., Any], kept: dict[Any, Loops], known: Sequence[Inner | None] | None = None) -> None:
        self._trace = trace
        self._kept = kept
        self._known = known
        self.used: list[Inner | None] = []
        self.recorder: GuardingRecorder | None = None
        self._inside: set[Any] = set()  # the traces of transforms whose functions may be replaced

    def calling(self, around: Any, recorder: Any, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function to call in place of `f`.

        Args:
            around: the trace in which the transform runs.
            recorder: the trace of the transform.
            f: the function.
        """
        if not recorder.has_values or recorder.monitor is not None or not (around is self.recorder or around in self._inside):
            return f
        self._inside.add(recorder)
        code = getattr(f.__func__ if type(f) is MethodType else f, "__code__", None)
        if code is None or is_internal(code.co_filename) or type(f) not in (FunctionType, MethodType):
            return f
        return lambda *args, **kwargs: self._call(f, args, kwargs)

    def _call(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Recorded)]
        tensors = [leaves[i] for i in places]
        if self._known is not None:
            found = self._known[len(self.used)] if len(self.used) < len(self._known) else None
        else:

            def of_leaves(*own: Any) -> Any:
                args, kwargs = structure.unflatten(replaced(leaves, places, own))
                return f(*args, **kwargs)

            found = self._found(f, of_leaves, tensors)
        self.used.append(found)
        if found is None:
            return f(*args, **kwargs)
        assert self.recorder is not None
        outs = evaluate(found.expressions, tensors)
        count = len(outs) - len(found.guards)
        for piece, guard in zip(outs[count:], found.guards, strict=True):
            while isinstance(piece, Recorded) and piece.recorder is not self.recorder:
                piece = piece.below
            self.recorder.accept(piece, guard)
        return found.structure.unflatten(outs[:count])

    def _found(self, f: Callable[..., Any], of_leaves: Callable[..., Any], tensors: Sequence[Any]) -> Inner | None:
        """Trace a function with the values of Tensors, and return its list if it has loops."""
        assert self.recorder is not None
        try:
            values = [self.recorder.value_of(tensor) for tensor in tensors]
            trace = self._trace(of_leaves, f, values, [f"args[{i}]" for i in range(len(values))], valued=True)
        except (LeaveError, FunctadError):
            return None
        if trace.unrolled is None or trace.cells or trace.checks or True in trace.wraps or trace.hides:
            return None
        key = len(self.used), tuple([(s.shape, s.dtype, s.weak, s.zero_d) for s in map(spec_of, values)])
        try:
            way = self._kept.setdefault(key, Loops()).add(trace, trace.unrolled)
        except HiddenStateError:
            del self._kept[key]
            return None
        if way.counts:
            return None
        folded = way.folded()
        own: Expressions = folded.expressions
        alias = {e.outputs[0]: e.inputs[0] for e in own.equations if e.primitive is GUARD}
        outputs = [*own.outputs[: way.unrolled.place], *alias]
        own = extract(own, outputs=outputs, placed=lambda source: alias.get(source, source) if type(source) is int else source)
        return Inner(own, folded.guards, trace.structure, way.size)
