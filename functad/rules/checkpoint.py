"""`checkpoint`: functions that keep only their arguments, and are recomputed in the backward pass."""

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
from functad.rules.call import OneCall, Rules, apply
from functad.tracing.ownership import hold, lend
from functad.tracing.traces.base import OPEN, Recorded, sees_inside
from functad.tracing.traces.equations import NoValueError, PointRecorder
from functad.tracing.values import operand_of, value_of
from functad.transforms.calling.transform import transform
from functad.transforms.leaves import pulled, pushed, replaced
from functad.transforms.lists import Closed, close, make_list, trace
from functad.trees.structure import Structure, flatten, tree_map

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Keeps = Callable[[Equation], bool]
Policy = str | Sequence[str] | Callable[[Equation], bool] | None


def _identity(x: Any, *, name: str) -> Any:
    return x.copy() if type(x) is np.ndarray else x  # the user may write into the result


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
    """Return `x`, marked with a name for the policies of `checkpoint`.

    Args:
        x: an array, number, or tree of them.
        name: the name.

    Returns:
        A tree with the values, shapes and dtypes of `x`.

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
    """Return `f` as a function that keeps only its arguments for the backward pass, and is recomputed there.

    A chain of such functions needs memory for their arguments and for the residuals of one function, at the cost of one more
    evaluation of each. The operations of `f` are recorded when it runs. The backward pass repeats these operations, not the
    Python code: branches and random numbers stay the same, and nothing is printed twice. Tensors that `f` closes over have
    derivatives. Values that depend only on such Tensors are kept. In forward mode, residuals are freed as soon as the tangent
    is computed.

    Args:
        f: a function of arrays, numbers and trees; without it a decorator is returned.
        policy: the values to keep besides the arguments. Default: none. `"contractions"` keeps the results of matrix products
            and other multilinear operations. A list keeps the values with these names from `checkpoint_name`. A function of an
            `Equation` returns `True` to keep its results.

    Returns:
        A function with the signature of `f`.

    Raises:
        InputError: the policy is none of these.
        OutputError: (when called) the result of `f` is not a tree of arrays.

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
            args, kwargs = structure.unflatten([lend(leaf) for leaf in given])
            return f(*args, **kwargs)
        if sees_inside(leaves):
            return f(*args, **kwargs)
        segment, inputs, rest, form = _segment(f, leaves, structure, places, keeps)
        inputs[: len(places)] = [operand_of(given[i]) for i in places]
        outs = iter(apply(segment.rules(), inputs) if segment.count else ())
        return form.unflatten([next(outs) if leaf is _OWN else leaf for leaf in rest])

    return checkpointed


def _keeps(policy: Policy) -> Keeps:
    """Return the function that decides for an operation whether to keep its result."""
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
"""A placeholder, among the leaves of a result, for leaves that depend on the arguments."""


def _segment(
    f: Callable[..., Any], leaves: list[Any], structure: Structure, places: Sequence[int], keeps: Keeps
) -> tuple[Segment, list[Any], list[Any], Structure]:
    """Run a function; return the segment of its operations, the Tensors that it used, the result leaves, and their structure.

    Args:
        f: called as `f(*args, **kwargs)`.
        leaves: the leaves of its arguments `(args, kwargs)`.
        structure: the structure of `(args, kwargs)`.
        places: positions of the leaves that are traced Tensors; the others are constants.
        keeps: returns `True` for operations with results to keep.
    """
    given = [leaves[i] for i in places]
    keeper = max((t.recorder for t in given), key=lambda recorder: recorder.serial)

    def of_leaves(*own: Any) -> Any:
        args, kwargs = structure.unflatten(replaced(leaves, places, own))
        return f(*args, **kwargs)

    def kept_by(equation: Equation) -> list[int]:
        return _kept_slots(equation) if keeps(equation) else []

    at_point = PointRecorder("checkpoint", f, lambda a: hold(a, keeper), kept_by)
    values: list[Any] | None = None
    try:
        expressions, results = make_list(at_point, of_leaves, list(map(at_point.value_of, given)))
        known = at_point.kept
        values = [leaf.below for leaf in results if isinstance(leaf, Recorded) and leaf.recorder is at_point]
    except NoValueError:
        expressions = trace("checkpoint", of_leaves, given, function=f)  # of Tensors, because their memory layout is known
        known = dict.fromkeys([slot for e in expressions.equations for slot in kept_by(e)])
    outputs = [source for source in expressions.outputs if type(source) is int]
    kept = [slot for slot in known if slot >= len(given)]
    closed, captured = close(expressions.replace(outputs=(*outputs, *kept)))
    segment, inputs = Segment(f, closed, len(outputs)), [*given, *captured]
    if values is not None:
        segment.first = list(map(innermost, inputs)), (*values, *[known[slot] for slot in kept])
    rest = [source.value if isinstance(source, Constant) else _OWN for source in expressions.outputs]
    return segment, inputs, rest, expressions.output_structure


def _kept_slots(equation: Equation) -> list[int]:
    """Return the slots to keep with an operation. For a named value, this includes the result before the naming."""
    named = equation.inputs if equation.primitive is _NAME else ()
    return [*equation.outputs, *[source for source in named if not isinstance(source, Constant)]]


class Segment:
    """The recorded operations of one run of a function, as a call that is recorded as one operation.

    Attributes:
        expressions: the operations. The kept values are additional results, so they can be differentiated.
        count: the number of results of the function.
        first: arguments and results of the recorded run, until `value` returns them.
    """

    def __init__(self, function: Any, expressions: Expressions, count: int) -> None:
        self.function = function
        self.expressions = expressions
        self.count = count
        self.first: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes, with only the name of the function."""
        return {**vars(self), "function": Named(name_of(self.function)), "first": None}

    def rules(self) -> Rules:
        """Return the rules of the call."""
        own = self.value, self.forward, self.backward, self.push
        return Rules(self.function, *own, name="checkpoint", inner=self.expressions)

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results, and the kept values."""
        first, self.first = self.first, None
        if first is not None and all(a is b for a, b in zip(arrays, first[0], strict=True)):
            return first[1]  # type: ignore[no-any-return]
        return tuple(evaluate(self.expressions, arrays))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results, and the arguments and kept values; outer traces record one operation."""
        outs = apply(self.rules(), arrays) if any(isinstance(a, Recorded) for a in arrays) else self.value(*arrays)
        return outs, (list(arrays), list(outs[self.count :]))

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments: recompute with a record, and pull back."""
        arrays, values = kept
        known = dict(zip(self.expressions.outputs[self.count :], values, strict=True))
        again = functools.partial(self._again, known)
        return pulled(again, arrays, gs, transform="checkpoint", function=self.function)

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        return pushed(Closed(self.expressions), arrays, ts)[1]

    def _again(self, known: dict[Any, Any], *tensors: Any) -> list[Any]:
        """Record the operations again, without computing kept values and values that no rule reads.

        These operations are replaced in the list, and the list is evaluated as usual, so that observers see every operation.
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
        """Return `True` for each operation that must be computed: a rule or operation reads its result, and it is not kept."""
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
    """A replacement for a primitive with a kept or unneeded result. A call is recorded without computation."""

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
    """Return the arguments that the rules of an operation read (`None` for all), and `True` if they read the result."""
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
