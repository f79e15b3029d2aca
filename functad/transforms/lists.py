"""Expression lists: `make_expressions`, `eval_shape`, and makers of lists for other transforms.

A list is made from a function, closed over captured Tensors, or as a part of another list. `trace` makes a list without values,
which is valid for all values. `make_list` makes a list in any trace that keeps equations. Tensors of other traces are constants
in these lists.

Equations hold sub-functions as closed lists: the body of a loop, the function of a solver, the function of a checkpoint. A
closed list refers to no trace. The equation that holds the list takes the captured Tensors as arguments, so derivatives flow to
them.

The observer `SourceLines` finds the lines of user code of the equations. Only lists for display need these lines; an eager
gradient does not pay for them. An equation has the line of the innermost user function that runs. The equations of a derivative
have the line of the differentiated operation, and the equations of an evaluated list keep their lines, unless a user function
is called in between, such as a custom rule.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, ParamSpec
from weakref import ref

from functad.errors import InputError
from functad.expressions.expressions import Constant, Equation, Expressions, evaluator
from functad.expressions.records import FORWARD, Observer, Place, marks_at, observing, results_of
from functad.expressions.spec import PLAIN, ArraySpec, spec_of, spec_or_none
from functad.places import Named, call_of, name_of, user_frame
from functad.primitives.operands import foreign_rules
from functad.primitives.safe import PASS, SINGULAR
from functad.process import setting
from functad.tracing.equations import DERIVATIVES, LISTING, AbstractRecorder, EquationRecorder
from functad.tracing.trace import Recorded
from functad.tracing.views import in_c_order, memory_of
from functad.transforms.boundary import check_result, traced
from functad.transforms.transform import parameters_of, transform
from functad.trees import Structure, flatten

P = ParamSpec("P")


@transform
def make_expressions(f: Callable[P, Any]) -> Callable[P, Expressions]:
    """Return a function that traces `f` and returns its expression list.

    The trace is abstract: only shapes and dtypes of the arguments matter, and `f` cannot branch on values. Values that do not
    depend on the arguments are computed during the trace and become constants of the list.

    Args:
        f: a function of NumPy code. Without `f`, the transform returns a decorator.

    Returns:
        A function with the signature of `f` that returns an `Expressions`. Its arguments may be arrays, numbers, `ArraySpec`s
        or pytrees of them.

    Raises:
        InputError: an argument is not a pytree of arrays.
        OutputError: the result of `f` is not a pytree of arrays.
        AbstractValueError: `f` needs the value of a Tensor.

    Example:
        >>> import numpy as np
        >>> make_expressions(lambda x, y: {"sum": x + y})(np.zeros((2, 3), np.float32), 1.0)
        { lambda x:float32[2,3] y:float[].
          a:float32[2,3] = add x y
          return a }
    """

    @functools.wraps(f)
    def made(*args: P.args, **kwargs: P.kwargs) -> Expressions:
        from functad.transforms.outside import frozen_in  # noqa: PLC0415 - other transforms make most lists

        with frozen_in("make_expressions", f, [f]), noted_lines(), setting(PASS, SINGULAR):
            return trace("make_expressions", f, args, kwargs)

    return made


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of `f(*args, **kwargs)` without computing the values.

    Args:
        f: a function of NumPy code.
        args: arrays, numbers, `ArraySpec`s or pytrees of them.
        kwargs: the same types, by name.

    Returns:
        The result of `f` with an `ArraySpec` in place of each array.

    Raises:
        InputError, OutputError, AbstractValueError: as for `make_expressions`.

    Example:
        >>> import functad, numpy as np
        >>> eval_shape(lambda a, b: a @ b, functad.ArraySpec((1000000, 3), np.dtype(float)), np.zeros((3, 2)))
        float64[1000000,2]
    """
    expressions = trace("eval_shape", f, args, kwargs)
    return expressions.output_structure.unflatten(expressions.results)


def trace(
    transform: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    function: object = None,
    ordered: bool = True,
    ties: bool = False,
) -> Expressions:
    """Return the expression list of a function, traced without values.

    Args:
        transform: the name of the transform, for messages.
        f: the function.
        args, kwargs: the arguments, or their specs.
        function: the function of the user that `f` calls, for messages; by default `f`.
        ordered: arguments that are given as specs are in C order.
        ties: the results depend on all calls with an effect.

    Raises:
        InputError: an argument is not a pytree of arrays.
        OutputError: the result is not a pytree of arrays.
        AbstractValueError: `f` needs the value of a Tensor.
    """
    recorder = AbstractRecorder(transform, f if function is None else function)
    if ties:
        return make_list(recorder, _tying(recorder, f), args, kwargs, ordered=ordered)[0]
    return make_list(recorder, f, args, kwargs, ordered=ordered)[0]


def _tying(recorder: AbstractRecorder, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results depend on all calls with an effect that it makes."""

    @functools.wraps(f)
    def tying(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        if not recorder.effects:
            return out
        leaves, structure = flatten(out)
        effects, recorder.effects = recorder.effects, []
        return structure.unflatten([recorder.tied(leaf, effects) for leaf in leaves])

    return tying


def make_list(
    recorder: EquationRecorder,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    ordered: bool = True,
) -> tuple[Expressions, list[Any]]:
    """Return the expression list of a function, traced by `recorder`, and the leaves of its result.

    The other arguments and the errors are the same as in `trace`. A trace with values needs the arguments, not their specs.
    """
    transform, function, shows = recorder.transform, recorder.function, not recorder.has_values
    leaves, structure = flatten((tuple(args), kwargs or {}))
    # The search for parameter names takes longer than recording some operations.
    names = input_names(f, structure, len(args)) if shows else [f"args[{i}]" for i in range(len(leaves))]
    tensors = []
    for leaf, name in zip(leaves, names, strict=True):
        spec = _spec_of_input(leaf, name, transform, function)
        tensors.append(recorder.enter(spec if shows else leaf))
        if shows and not (ordered and in_c_order(leaf)):
            memory_of(tensors[-1]).ordered = False
    inputs, keywords = structure.unflatten(tensors)
    if isinstance(recorder, AbstractRecorder):
        recorder.first = tensors[0] if tensors else None
        try:
            with setting(LISTING, recorder):
                out = traced(recorder, f, inputs, keywords)
        finally:
            recorder.first = None  # the Tensor refers to the recorder
    else:
        out = traced(recorder, f, inputs, keywords)
    results, output_structure = flatten(out)
    outputs: list[int | Constant] = []
    for result, path in zip(results, output_structure.paths("result"), strict=True):
        check_result(result, path, transform, function)
        own = isinstance(result, Recorded) and result.recorder is recorder
        outputs.append(result.slot if own else Constant(result))
    equations = tuple(equation for equation in recorder.records if equation is not None)
    expressions = Expressions(tuple(names), equations, tuple(outputs), tuple(recorder.specs), structure, output_structure)
    if isinstance(recorder, AbstractRecorder) and recorder.derivatives and (noted := DERIVATIVES.get()) is not None:
        noted.append((expressions, recorder.derivatives))
    return expressions, results


def _spec_of_input(leaf: Any, name: str, transform: str, f: object) -> ArraySpec:
    spec = spec_or_none(leaf)
    looks = spec is not None and type(leaf) not in PLAIN and transform != "jit"  # `jit` has checked
    if looks and (reason := foreign_rules(leaf)) is not None:
        raise InputError(f"{call_of(transform, f)}: {name} is a {type(leaf).__name__}. {reason}")
    if spec is None or spec.dtype.kind not in "biufc":
        raise InputError(
            f"{call_of(transform, f)}: {name} is a {type(leaf).__name__}, not an array or a number. Bind it first: "
            f"functools.partial, or a lambda around the function."
        )
    return spec


def input_names(f: Callable[..., Any], structure: Structure, count: int) -> list[str]:
    """Return, for each leaf of `(args, kwargs)`, the parameter name and the path of the leaf in the argument."""
    parameters = parameters_of(f) or {}
    positional = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    roots = [positional[i] if i < len(positional) else f"args[{i}]" for i in range(count)]
    arguments, keywords = structure.children
    names = [path for child, root in zip(arguments.children, roots, strict=True) for path in child.paths(root)]
    for child, key in zip(keywords.children, keywords.data[0], strict=True):
        names.extend(child.paths(key))
    return names


class Closed:
    """A function of leaves as a closed expression list; a call evaluates the list.

    Attributes:
        expressions: the list. Its inputs are the leaves, then the captured Tensors.
        captured: the captured Tensors of outer traces.
        values: the results at the point where the function was recorded; empty if it was recorded without values.
    """

    def __init__(self, expressions: Expressions, captured: Sequence[Any] = (), values: Sequence[Any] = ()) -> None:
        self.expressions = expressions
        self.captured = tuple(captured)
        self.values = tuple(values)
        self._run = evaluator(expressions)

    def __reduce__(self) -> Any:
        return Closed, (self.expressions, self.captured, self.values)

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the results of the list; Tensor arguments record the evaluation."""
        return self._run(leaves)


def close(
    *lists: Expressions,
    captured: Callable[[Any], bool] = lambda value: isinstance(value, Recorded),
    name: str = "outer",
) -> tuple[Any, ...]:
    """Return the lists with their captured constants as further inputs, followed by a list of these constants.

    Each list gets inputs for the constants of all lists. Equations that no output needs are removed.

    Args:
        lists: the lists.
        captured: returns `True` for constants that become inputs. Default: Tensors of other traces.
        name: the name of the new inputs, before their number.
    """
    values: dict[Any, Any] = {}
    for expressions in lists:
        for sources in (*[equation.inputs for equation in expressions.equations], expressions.outputs):
            for source in sources:
                if type(source) is Constant and captured(source.value):
                    values.setdefault(_key(source.value), source.value)
    specs, names = tuple(map(spec_of, values.values())), [f"{name}[{i}]" for i in range(len(values))]

    def closed(expressions: Expressions) -> Expressions:
        first = len(expressions.specs)
        slots = dict(zip(values, range(first, first + len(values)), strict=True))

        def placed(source: Any) -> Any:
            return slots.get(_key(source.value), source) if type(source) is Constant else source

        whole = expressions.replace(specs=(*expressions.specs, *specs))
        inputs = [*range(len(expressions.inputs)), *slots.values()]
        return extract(whole, inputs, names=[*expressions.inputs, *names], placed=placed if values else None)

    return *map(closed, lists), list(values.values())


def _key(value: Any) -> Any:
    """Return a key of a constant. Two Tensors of one slot have one key, unless they are Tensors of a batch, without slots."""
    return (value.recorder.serial, value.slot, id(value.below)) if isinstance(value, Recorded) else id(value)


def extract(
    expressions: Expressions,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    placed: Callable[[Any], Any] | None = None,
) -> Expressions:
    """Return the part of a list that computes `outputs` from `inputs`, without equations that no output needs.

    The inputs become positional arguments, and the result is a tuple.

    Args:
        expressions: the list.
        inputs: the slots of the inputs. Default: the inputs of the list.
        outputs: the sources of the results. Default: the outputs of the list.
        names: the names of the inputs. Default: the names in the list.
        placed: a function that replaces each source, or `None`.
    """
    specs, names = expressions.specs, expressions.inputs if names is None else names
    inputs = range(len(expressions.inputs)) if inputs is None else inputs
    ends = expressions.outputs if outputs is None else outputs
    ends = ends if placed is None else list(map(placed, ends))
    given = marks_at(inputs, len(specs))
    needed = marks_at([s for s in ends if type(s) is int and not given[s]], len(specs))
    kept: list[tuple[Equation, tuple[Any, ...]]] = []
    for e in reversed(expressions.equations):  # inlined: a list may have 100,000 equations, and is cut several times
        for slot in e.outputs:
            if needed[slot]:
                break
        else:
            continue
        sources = e.inputs if placed is None else tuple(map(placed, e.inputs))
        kept.append((e, sources))
        for s in sources:
            if type(s) is int and not given[s]:
                needed[s] = 1
    kept.reverse()
    number = {slot: i for i, slot in enumerate([*inputs, *[slot for e, _ in kept for slot in e.outputs]])}

    def moved(sources: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([source if type(source) is Constant else number[source] for source in sources])

    if placed is None and all(map(operator.eq, number, number.values())):  # the common case: nothing changes
        own = [e for e, _ in kept]
    else:
        own = [Equation(e.primitive, moved(sources), e.params, moved(e.outputs), e.place) for e, sources in kept]
    ins, outs = positional_structures(len(names), len(ends))
    return Expressions(tuple(names), tuple(own), moved(ends), tuple([specs[slot] for slot in number]), ins, outs)


@functools.lru_cache
def positional_structures(inputs: int, outputs: int) -> tuple[Structure, Structure]:
    """Return the structures of `inputs` positional arguments and of a tuple of `outputs` results."""
    return flatten(((0.0,) * inputs, {}))[1], flatten((0.0,) * outputs)[1]


# Lines of user code

_NOWHERE = Place("", "", 0, 0)


@functools.lru_cache(1024)
def _name_of(qualname: str) -> str:
    return name_of(Named(qualname))


class _Now(NamedTuple):
    """The record or equation that is being processed.

    Attributes:
        frame: the innermost frame of user code around it. An operation has the place of the record if this frame is its own
            innermost one.
        place: the place of the record.
        phase: the phase of the outermost derivative pass.
    """

    frame: FrameType | None
    place: Place
    phase: str


class SourceLines(Observer):
    """The observer that finds the place of each equation.

    It notes the places of the operations of each trace on values by their index in the records. A pass over the records looks
    them up.

    Args:
        frame: the frame where the search for user code ends.
    """

    def __init__(self, frame: FrameType) -> None:
        self._now = _Now(user_frame(frame), _NOWHERE, FORWARD)
        self._passes: list[tuple[_Now, _Now, dict[int, Place]]] = []
        self._open: list[ref[Any]] = []
        self._noted: dict[int, tuple[Any, dict[int, Place]]] = {}
        self._user: FrameType | None = None  # of the last call; kept alive, so that frame identity is unambiguous
        self._calls = 0
        self._last = _NOWHERE

    def close(self) -> None:
        """Drop all references to frames, traces and lists."""
        self._now = _Now(None, _NOWHERE, FORWARD)
        self._passes.clear()
        self._open.clear()
        self._noted.clear()
        self._user = None

    def opened(self, recorder: Any) -> None:
        """Note the places of the operations of a new trace."""
        self._open.append(ref(recorder))

    def place(self) -> Place:
        """Return the place of the running operation, and note it for each open trace and tape."""
        frame, now = user_frame(sys._getframe(1)), self._now
        phase = now.place.phase if now.phase == FORWARD else now.phase
        if frame is None or frame is now.frame:
            place = now.place.of_phase(phase)
        else:
            if frame is not self._user:
                self._user, self._calls = frame, self._calls + 1
            code = frame.f_code
            place, line, file = self._last, frame.f_lineno or 0, code.co_filename
            if (place.line, place.file, place.call, place.phase) != (line, file, self._calls, phase):  # several in a line
                place = self._last = Place(_name_of(code.co_qualname), file, line, self._calls, phase)
        if self._open:
            self._open = [weak for weak in self._open if (recorder := weak()) is not None and not recorder.closed]
        for weak in self._open:
            records = weak().records  # type: ignore[union-attr]
            self._noted.setdefault(id(records), (records, {}))[1][len(records)] = place
        return place

    def begun(self, phase: str, records: Any) -> bool:
        """Look up the places of the records, and set the phase."""
        around = self._now
        if around.phase == FORWARD:
            self._now = around._replace(phase=phase)
        self._passes.append((around, self._now, self._noted.get(id(records), (None, {}))[1]))
        return True

    def ended(self) -> None:
        """Return to the record around the pass."""
        self._now = self._passes.pop()[0]

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Set the place to the place of a record or equation, if it is known."""
        _, outside, places = self._passes[-1]
        place = record.place if type(record) is Equation else places.get(results_of(record, index)[0])
        self._now = outside if place is None else _Now(user_frame(sys._getframe(1)), place, outside.phase)

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Return to the record around the pass."""
        self._now = self._passes[-1][1]

    def copied(self, records: list[Any], copy: list[Any]) -> None:
        """Use the places of the records of a trace for a copy of these records."""
        if id(records) in self._noted:
            self._noted[id(copy)] = copy, self._noted[id(records)][1]


@contextmanager
def noted_lines() -> Iterator[None]:
    """Return a context in which traces without values record the place in user code of each equation.

    Only user code called from the function that opens the context counts.
    """
    lines = SourceLines(sys._getframe(2))
    try:
        with observing(lines):
            yield
    finally:
        lines.close()
