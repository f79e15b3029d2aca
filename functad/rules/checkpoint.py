"""`checkpoint`: a function that keeps only its arguments, and is computed again when its derivative is taken."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from functad.errors import InputError, UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions, evaluate
from functad.expressions.records import inputs_of, mark_needed, marks_at
from functad.places import Named, here, name_of
from functad.primitives.entry import Primitive, names_read
from functad.primitives.kinds import elementwise
from functad.primitives.operands import absent, innermost
from functad.rules.call import OneCall, apply
from functad.rules.rules import Rules
from functad.tracing.constants import held
from functad.tracing.traces.abstract import AbstractRecorder
from functad.tracing.traces.base import OPEN, Recorded, Recorder, sees_inside
from functad.transforms.abstract import listed
from functad.transforms.calling.arguments import operand_of, value_of
from functad.transforms.calling.transform import transform
from functad.transforms.closed_lists import Closed, Noting, NoValueError, close
from functad.transforms.leaves import copied, pulled, pushed, replaced
from functad.trees.functions import tree_map
from functad.trees.structure import Structure, flatten

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Keeps = Callable[[Equation], bool]
Policy = str | Sequence[str] | Callable[[Equation], bool] | None


def _identity(x: Any, *, name: str) -> Any:
    return x.copy() if type(x) is np.ndarray else x  # the user may write into what is returned


_NAME = elementwise(
    _identity,
    lambda g: g,
    doc="the value, which a policy of checkpoint knows by the name",
    samples=lambda array: [((array(3),), {"name": "h"})],
    spec=lambda x, *, name: x,
    internal=True,
    name="checkpoint_name",
)


def checkpoint_name(x: T, name: str) -> T:
    """Return `x` itself, known by a name to the policies of `checkpoint`.

    Args:
        x: an array, number, or tree of them.
        name: the name.

    Returns:
        The same tree: its values, shapes and dtypes are those of `x`.

    Example:
        >>> import numpy as np, functad
        >>> def layer(x):
        ...     return np.sin(functad.checkpoint_name(np.exp(x), "expensive"))
        >>> round(float(functad.grad(functad.checkpoint(layer, policy=["expensive"]))(0.0)), 6)
        0.540302
    """
    return cast("T", tree_map(lambda leaf: _NAME(value_of(leaf), name=name), x))


@transform
def checkpoint(f: Callable[P, R], policy: Policy = None) -> Callable[P, R]:
    """Return `f` as a function that keeps only its arguments for the backward pass, and is computed again there.

    The memory of a chain of such functions is that of their arguments and of one of them, for one more evaluation of each.
    What `f` does is noted when it runs, and these operations are repeated, not the Python code: an `if` takes the same way
    again, random numbers are the same, and nothing is printed twice. Tensors that `f` uses without their being arguments have
    their derivatives; what is computed from such alone is kept. In forward mode what `f` keeps is free when its tangent is
    known.

    Args:
        f: a function of arrays, numbers and trees; without it a decorator is returned.
        policy: what is kept beside the arguments: nothing by default, `"contractions"` for the results of products of matrices
            and the like (all multilinear operations), a list of names given by `checkpoint_name`, or a function that says it
            for an `Equation`.

    Returns:
        A function with the signature of `f`.

    Raises:
        InputError: the policy is none of these.
        OutputError: (when called) `f` returned something that is no tree of arrays.

    Example:
        >>> import numpy as np, functad
        >>> def deep(x):
        ...     for _ in range(100):
        ...         x = functad.checkpoint(lambda x: np.sin(np.sin(np.sin(x))))(x)
        ...     return np.sum(x)
        >>> functad.grad(deep)(np.array([0.5, 1.0])).round(6)
        array([0.007099, 0.000743])
    """
    keeps = _keeps(policy)

    @functools.wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> Any:
        leaves, structure = flatten((args, kwargs))
        given, leaves = leaves, [value_of(leaf) for leaf in leaves]
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Recorded)]
        if not places:
            args, kwargs = structure.unflatten(copied(given))
            return f(*args, **kwargs)
        if sees_inside(leaves):
            return f(*args, **kwargs)
        segment, inputs, rest, form = _segment(f, leaves, structure, places, keeps)
        inputs[: len(places)] = [operand_of(given[i]) for i in places]
        outs = iter(apply(segment.rules(), inputs) if segment.count else ())
        return form.unflatten([next(outs) if leaf is _OWN else leaf for leaf in rest])

    return checkpointed


def _keeps(policy: Policy) -> Keeps:
    """Make the function that says of an operation whether its result is to be kept."""
    if policy is None:
        return lambda equation: False
    if policy == "contractions":
        return lambda equation: equation.primitive.kind == "multilinear"
    if isinstance(policy, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in policy):
        names = frozenset(policy)
        return lambda equation: equation.primitive is _NAME and equation.params["name"] in names
    if callable(policy):
        return policy
    raise InputError(
        f"checkpoint: {policy!r} is no policy, at {here()}. Pass None, 'contractions', a list of names given by "
        f"checkpoint_name, or a function of an Equation."
    )


_OWN = object()
"""Stands, among the leaves of a result, for those that depend on the arguments."""


def _segment(
    f: Callable[..., Any], leaves: list[Any], structure: Structure, places: Sequence[int], keeps: Keeps
) -> tuple[Segment, list[Any], list[Any], Structure]:
    """Run a function, and return what it did, the Tensors that it used, the leaves of its result, and their structure.

    Args:
        f: called as `f(*args, **kwargs)`.
        leaves: those of its arguments `(args, kwargs)`.
        structure: how these are put together.
        places: which leaves are Tensors that are followed; the others are constants.
        keeps: says of which operations the values are to be kept.
    """
    given = [leaves[i] for i in places]
    keeper = max((t.recorder for t in given), key=lambda recorder: recorder.serial)

    def of_leaves(*own: Any) -> Any:
        args, kwargs = structure.unflatten(replaced(leaves, places, own))
        return f(*args, **kwargs)

    def kept_by(equation: Equation) -> list[int]:
        return _kept_slots(equation) if keeps(equation) else []

    noting = Noting("checkpoint", f, lambda a: held(a, keeper), kept_by)
    try:
        recorder: Recorder = noting
        expressions, results = listed(noting, of_leaves, tuple(map(noting.value_of, given)), {})
        known = noting.kept
    except NoValueError:
        recorder = AbstractRecorder("checkpoint", f)
        expressions, results = listed(recorder, of_leaves, tuple(given), {})  # which know how they lie in memory
        known = dict.fromkeys([slot for e in expressions.equations for slot in kept_by(e)])
    own = [isinstance(leaf, Recorded) and leaf.recorder is recorder for leaf in results]
    outputs = [source for source, mine in zip(expressions.outputs, own, strict=True) if mine]
    kept = [slot for slot in known if slot >= len(given)]
    (closed,), captured = close(expressions.replace(outputs=(*outputs, *kept)))
    segment, inputs = Segment(f, closed, len(outputs)), [*given, *captured]
    if recorder is noting:
        values = [leaf.below for leaf, mine in zip(results, own, strict=True) if mine]
        segment.first = list(map(innermost, inputs)), (*values, *[known[slot] for slot in kept])
    rest = [_OWN if mine else leaf for leaf, mine in zip(results, own, strict=True)]
    return segment, inputs, rest, expressions.output_structure


def _kept_slots(equation: Equation) -> list[int]:
    """Return the slots whose values are kept with an operation; what was given a name is the result of the one before it."""
    named = equation.inputs if equation.primitive is _NAME else ()
    return [*equation.outputs, *[source for source in named if not isinstance(source, Constant)]]


class Segment:
    """What a function did in one run, as a call that is recorded as one operation.

    Attributes:
        expressions: what it did; the values that are kept are results of it too, so that they can be differentiated.
        count: the number of its own results.
        first: arguments and results of the run itself, until they are asked for.
    """

    def __init__(self, function: Any, expressions: Expressions, count: int) -> None:
        self.function = function
        self.expressions = expressions
        self.count = count
        self.first: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the function, of which the name is enough."""
        return {**vars(self), "function": Named(name_of(self.function)), "first": None}

    def rules(self) -> Rules:
        """Return how the call is computed and differentiated."""
        own = self.value, self.forward, self.backward, self.push
        return Rules(self.function, *own, name="checkpoint", inner=self.expressions)

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results, and the values that are kept."""
        first, self.first = self.first, None
        if first is not None and all(a is b for a, b in zip(arrays, first[0], strict=True)):
            return first[1]  # type: ignore[no-any-return]
        return tuple(evaluate(self.expressions, arrays))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results, and what is kept of them; in the traces below this is one operation too."""
        outs = apply(self.rules(), arrays) if any(isinstance(a, Recorded) for a in arrays) else self.value(*arrays)
        return outs, (list(arrays), list(outs[self.count :]))

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments: compute again, with a record, and pull back."""
        arrays, values = kept
        known = dict(zip(self.expressions.outputs[self.count :], values, strict=True))
        again = functools.partial(self._again, known)
        return pulled(again, arrays, gs, transform="checkpoint", function=self.function)

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        return pushed(Closed(self.expressions), arrays, ts)[1]

    def _again(self, known: dict[Any, Any], *tensors: Any) -> list[Any]:
        """Record the operations once more; values that are known, or that no rule reads, are not computed.

        Such operations are replaced in the list, which is evaluated like any other: an observer sees what a walk does, and
        could not do otherwise.
        """
        specs = self.expressions.specs
        steps = []
        for e, computed in zip(self.expressions.equations, self._computed(set(known)), strict=True):
            if not computed:
                outs = [known[s] if s in known else absent(specs[s].shape, specs[s].dtype) for s in e.outputs]
                uncomputed: Any = _Uncomputed(e.primitive, tuple(outs) if e.primitive.multiple else outs[0])
                e = Equation(uncomputed, e.inputs, e.params, e.outputs)
            steps.append(e)
        return evaluate(self.expressions.replace(equations=tuple(steps)), tensors)

    def _computed(self, known: set[int]) -> list[bool]:
        """Say for each operation whether it must be computed: whether a rule or operation reads a value that is not known."""
        equations, read = self.expressions.equations, []
        unknown = [not known.issuperset(e.outputs) for e in equations]
        for e, missing in zip(equations, unknown, strict=True):
            positions, reads_out = _read_by(e)
            read += [source for i, source in enumerate(e.inputs) if positions is None or i in positions]
            read += e.outputs if missing and reads_out else ()
        needed = marks_at(read, len(self.expressions.specs))
        mark_needed(needed, equations, lambda e, index: inputs_of(e) if unknown[index] else ())
        return [missing and any(needed[slot] for slot in e.outputs) for e, missing in zip(equations, unknown, strict=True)]


class _Uncomputed:
    """What stands for a primitive whose result is known, or is not needed: called, it is recorded and not computed."""

    def __init__(self, primitive: Primitive, out: Any) -> None:
        self.primitive = primitive
        self.multiple = primitive.multiple
        self.out = out

    def __call__(self, *given: Any, **params: Any) -> Any:
        recorder: Any = OPEN.get()
        lowered, active, _ = recorder.lowered(self.primitive, given)
        if not active:
            return self.out
        return recorder.record(self.primitive, given, lowered, active, params, self.out)


def _read_by(e: Equation) -> tuple[Any, bool]:
    """Return which arguments the derivative rules of an operation read, `None` for all, and whether they read the result."""
    primitive: Primitive = e.primitive
    if isinstance(primitive, OneCall) or primitive.derived or primitive.writes:
        return None, True
    active = tuple(
        [
            i
            for i, source in enumerate(e.inputs)
            if not isinstance(source, Constant) and (primitive.joint or primitive.differentiable(i))
        ]
    )
    if not active:
        return (), False
    try:
        plan = primitive.reverse_plan(active)
    except UnsupportedError:
        return None, True
    return plan.holds, any("out" in names_read(rule) for rule in plan.rules)
