"""Functions that keep few values, and are recomputed in the backward pass: `checkpoint` and `checkpoint_sequence`.

`checkpoint` keeps the arguments of a function. `checkpoint_sequence` keeps few states of a loop of equal steps. Its schedule is
revolve: A. Griewank and A. Walther, Algorithm 799: revolve, ACM Transactions on Mathematical Software 26 (2000), 19-45. The
reversal of `l` steps with `c` snapshots, including the first state, takes at least

    t(l, c) = r l - binomial(c + r, r - 1)        where binomial(c + r - 1, r - 1) < l <= binomial(c + r, r)

forward steps, in addition to the one recorded run of each step. With `c = sqrt(2 l)` snapshots, the default, `r` is 2, so each
step is recomputed at most once more than without checkpoints.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from functad.errors import InputError, OutputError, UnsupportedError
from functad.expressions.expressions import Constant, Equation, Expressions, evaluate
from functad.expressions.records import inputs_of, mark_needed, marks_at
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, shape_of, spec_of
from functad.places import Named, here, name_of
from functad.primitives.entry import Primitive
from functad.primitives.kinds import elementwise
from functad.primitives.operands import absent, innermost
from functad.rules.call import OneCall, Rules, apply
from functad.tracing.equations import NoValueError, PointRecorder
from functad.tracing.ownership import hold, lend, lend_read_only, own_results
from functad.tracing.trace import OPEN, Recorded, operand_of, sees_inside, value_of
from functad.transforms.forward import with_zeros
from functad.transforms.leaves import LeafFunction, pulled, pushed, replaced
from functad.transforms.lists import Closed, close, make_list, trace
from functad.transforms.transform import Transformed, transform
from functad.trees import Structure, difference, flatten, tree_map

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
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
    kept_by = _kept_by(policy)

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

        def of_tensors(*own: Any) -> Any:
            args, kwargs = structure.unflatten(replaced(leaves, places, own))
            return f(*args, **kwargs)

        segment, captured, made = _segment(f, of_tensors, [leaves[i] for i in places], kept_by)
        outs = iter(apply(segment.rules(), [*[operand_of(given[i]) for i in places], *captured]) if segment.count else ())
        return made.output_structure.unflatten([s.value if type(s) is Constant else next(outs) for s in made.outputs])

    return checkpointed


def _kept_by(policy: Policy) -> Callable[[Equation], list[int]]:
    """Return the function that returns the slots of the values to keep with an operation.

    A named value is kept with the result before the naming.
    """
    if policy is None:
        keeps: Callable[[Equation], bool] = lambda equation: False  # noqa: E731
    elif policy == "contractions":
        keeps = lambda equation: equation.primitive.kind == "multilinear"  # noqa: E731
    elif isinstance(policy, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in policy):
        names = frozenset(policy)
        keeps = lambda equation: equation.primitive is _NAME and equation.params["name"] in names  # noqa: E731
    elif callable(policy):
        keeps = policy
    else:
        raise InputError(
            f"checkpoint: {policy!r} is no policy, at {here()}. Pass None, 'contractions', a list of names given by "
            f"checkpoint_name, or a function of an Equation."
        )

    def slots(equation: Equation) -> list[int]:
        named = inputs_of(equation) if equation.primitive is _NAME else ()
        return [*equation.outputs, *named] if keeps(equation) else []

    return slots


def _segment(
    function: Any, f: LeafFunction, given: Sequence[Any], kept_by: Callable[[Equation], list[int]]
) -> tuple[Segment, list[Any], Expressions]:
    """Run a function of Tensors; return the segment of its operations, the captured Tensors, and the list of the run.

    Args:
        function: the function of the user that `f` calls, for messages.
        f: the function.
        given: its arguments.
        kept_by: returns the slots of the values to keep with an operation.
    """
    keeper = max((t.recorder for t in given), key=lambda recorder: recorder.serial)
    at_point = PointRecorder("checkpoint", function, lambda a: hold(a, keeper), kept_by)
    values: list[Any] | None = None
    try:
        expressions, results = make_list(at_point, f, list(map(at_point.value_of, given)))
        known = at_point.kept
        values = [leaf.below for leaf in results if isinstance(leaf, Recorded) and leaf.recorder is at_point]
    except NoValueError:
        expressions = trace("checkpoint", f, given, function=function)  # of Tensors, because their memory layout is known
        known = dict.fromkeys([slot for e in expressions.equations for slot in kept_by(e)])
    outputs = [source for source in expressions.outputs if type(source) is int]
    kept = [slot for slot in known if slot >= len(given)]
    closed, captured = close(expressions.replace(outputs=(*outputs, *kept)))
    segment = Segment(Named(name_of(function)), closed, len(outputs))
    if values is not None:
        segment.first = list(map(innermost, (*given, *captured))), (*values, *[known[slot] for slot in kept])
    return segment, captured, expressions


class Segment:
    """The recorded operations of one run of a function, as a call that is recorded as one operation.

    Attributes:
        function: the name of the function.
        expressions: the operations. The kept values are additional results, so they can be differentiated.
        count: the number of results of the function.
        first: arguments and results of the recorded run, until `value` returns them.
    """

    def __init__(self, function: Named, expressions: Expressions, count: int) -> None:
        self.function = function
        self.expressions = expressions
        self.count = count
        self.first: Any = None

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
    return plan.holds, "out" in plan.names


# Sequences of steps


def _repetitions(length: int, snapshots: int) -> int:
    """Return the least `r` with `length <= binomial(snapshots + r, r)`: an upper bound of the evaluations of a step."""
    r = 0
    while math.comb(snapshots + r, r) < length:
        r += 1
    return r


def first_part(length: int, snapshots: int) -> int:
    """Return the number of steps before the next snapshot, for a reversal in the fewest steps."""
    r = _repetitions(length, snapshots)
    return max(1, min(math.comb(snapshots + r - 1, r - 1), length - math.comb(snapshots + r - 2, r - 1)))


def checkpoint_sequence(step: Callable[Concatenate[int, P], R], n: int, snapshots: int | None = None) -> Callable[P, R]:
    """Return a function that makes `n` steps, and keeps few of the intermediate states for the backward pass.

    `state = step(i, state, *args)` for `i = 0, ..., n - 1`. At most `snapshots` states are kept, and the record of one step.
    The schedule recomputes the fewest steps: the `r`-th repetition of all steps begins only if
    `n > binomial(snapshots + r - 1, r - 1)`. With the default, `sqrt(2 n)` states, each step is computed at most once more than
    without checkpoints.

    Args:
        step: returns the next state, a tree of the structure, shapes and dtypes of the state. It is called again with the same
            arguments, and must then return the same result.
        n: the number of steps.
        snapshots: the number of states to keep, including the first. Default: `sqrt(2 n)`.

    Returns:
        `run(state, *args)`, which returns the last state. It is differentiable with respect to the state and `args`, in both
        modes. In derivatives of higher order, the recomputed steps are recorded as usual.

    Raises:
        InputError: `n` or `snapshots` is not a valid number of steps or states.
        OutputError: (when called) a step changes the structure, a shape or a dtype of the state.
        CustomRuleError: (when called) a step closes over a traced Tensor. Pass it in `args`.

    Example:
        >>> import numpy as np, functad
        >>> def euler(i, y, rate):
        ...     return y + 0.001 * rate * y
        >>> decay = functad.checkpoint_sequence(euler, 1000, snapshots=5)
        >>> value, slope = functad.value_and_grad(lambda rate: decay(1.0, rate))(-1.0)
        >>> round(float(value), 6), round(float(slope), 6)
        (0.367695, 0.368063)
    """
    if not callable(step):
        raise InputError(f"checkpoint_sequence needs a function, not a {type(step).__name__}, at {here()}.")
    if not _is_integer(n) or n < 0:
        raise InputError(f"checkpoint_sequence of {name_of(step)}, at {here()}: n is {n!r}, not a number of steps.")
    if snapshots is not None and (not _is_integer(snapshots) or snapshots < 1):
        raise InputError(
            f"checkpoint_sequence of {name_of(step)}, at {here()}: snapshots is {snapshots!r}; one at least is needed, for the "
            f"first state."
        )

    kept = max(1, math.isqrt(2 * int(n))) if snapshots is None else int(snapshots)

    def run(state: Any, *args: Any) -> Any:
        leaves, structure = flatten(state)
        rest, form = flatten(args)
        rest = [value_of(leaf) for leaf in rest]
        places = [i for i, leaf in enumerate(rest) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
        arrays = [*[_as_array(value_of(leaf)) for leaf in leaves], *[rest[i] for i in places]]
        rest = replaced(rest, places, [None] * len(places))
        followed = [k for k, a in enumerate(arrays[len(leaves) :]) if isinstance(a, Recorded)]
        steps = _Steps(step, int(n), kept, structure, len(leaves), rest, form, places, followed)
        outs = steps.value(*arrays) if sees_inside(arrays) else apply(steps.rules(), arrays)
        return structure.unflatten(own_results(outs, arrays))

    run.__name__ = run.__qualname__ = f"{getattr(step, '__name__', 'step')}_times_{n}"
    made = Transformed.of(run)
    made.transform, made.given = checkpoint_sequence, (step, (n, snapshots), {})
    return cast("Callable[P, R]", made)


def _is_integer(value: Any) -> bool:
    return issubclass(type(value), (int, np.integer))


def _as_array(leaf: Any) -> Any:
    return PYTHON_SCALARS[type(leaf)].type(leaf) if type(leaf) in PYTHON_SCALARS else leaf


@dataclass(frozen=True)
class _Steps:
    """The steps of one call, on lists of arrays: the leaves of the state, then the arrays of the other arguments.

    Attributes:
        structure, count: the structure of the state and the number of its leaves.
        rest, form, places: the leaves of the other arguments, their structure, and the positions of the arrays, which are
            `None` in `rest`.
        followed: the indices of those arrays that can have a derivative. An input sequence for all steps is usually constant:
            one cotangent of its size at each step would make the time quadratic in the length.
    """

    step: Callable[..., Any]
    n: int
    snapshots: int
    structure: Structure
    count: int
    rest: list[Any]
    form: Structure
    places: list[int]
    followed: list[int]

    def rules(self) -> Rules:
        """Return the rules of the call."""
        own = self.value, self.forward, self.backward, self.push
        return Rules(self.step, *own, spec=self.spec, name="checkpoint_sequence")

    def one(self, i: int, *arrays: Any) -> list[Any]:
        """Return the leaves of the state after step `i`."""
        given = [lend_read_only(a) for a in arrays[self.count :]]  # read again later
        args = self.form.unflatten(replaced(self.rest, self.places, given))
        before = arrays[: self.count]
        state = self.structure.unflatten([lend(a) for a in before])  # a step may write into it
        leaves, structure = flatten(self.step(i, state, *args))
        where = f"checkpoint_sequence of {name_of(self.step)}, called at {here()}: step {i}"
        if structure != self.structure:
            raise OutputError(f"{where}: {difference(self.structure, structure, 'the state')}.")
        after = [_as_array(value_of(leaf)) for leaf in leaves]
        for a, b, path in zip(before, after, structure.paths("state"), strict=True):
            if not hasattr(b, "dtype") or shape_of(a) != shape_of(b) or dtype_of(a) != dtype_of(b):
                found = spec_of(b) if hasattr(b, "dtype") else f"a {type(b).__name__}"
                raise OutputError(
                    f"{where} makes {path} {found}, but it was {spec_of(a)}. Begin with a state that a step does not change in "
                    f"shape or dtype."
                )
        return after

    def advance(self, state: Sequence[Any], start: int, stop: int, others: Sequence[Any]) -> list[Any]:
        """Return the state after the steps from `start` to `stop`."""
        state = list(state)
        for i in range(start, stop):
            state = self.one(i, *state, *others)
        return state

    def spec(self, *specs: Any) -> tuple[ArraySpec, ...]:
        """Return the specs of the last state, which equal the specs of the first state."""
        return tuple([spec_of(s) for s in specs[: self.count]])

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the last state."""
        return tuple(self.advance(arrays[: self.count], 0, self.n, arrays[self.count :]))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the last state, and the snapshots of the schedule by step; outer traces record one operation."""
        if any(isinstance(a, Recorded) for a in arrays):
            return apply(self.rules(), arrays), (arrays, {})
        state: Sequence[Any]
        state, others, position = arrays[: self.count], arrays[self.count :], 0
        kept: dict[int, Sequence[Any]] = {}
        for free in range(self.snapshots, 1, -1):
            if self.n - position < 2:
                break
            stop = position + first_part(self.n - position, free)
            state = kept[stop] = self.advance(state, position, stop, others)
            position = stop
        return tuple(self.advance(state, position, self.n, others)), (arrays, kept)

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the first state and of the other arguments.

        Each kept state is freed after its last use; another backward pass computes it again.
        """
        arrays, states = kept
        states[0], others = arrays[: self.count], arrays[self.count :]
        cotangents, totals = list(gs), [None] * len(others)
        waiting = [(0, self.n, self.snapshots)]  # a recursion could be `n` deep
        while waiting:
            start, stop, free = waiting.pop()
            length = stop - start
            if length < 1:
                states.pop(stop, None)  # all later steps are reversed
            elif length == 1 or free == 1:
                for i in range(stop - 1, start - 1, -1):
                    state = self.advance(states[start], start, i, others)
                    cotangents = self.step_back(i, state, others, cotangents, totals)
            else:
                middle = start + first_part(length, free)
                if middle not in states:
                    states[middle] = self.advance(states[start], start, middle, others)
                waiting += [(start, middle, free), (middle, middle, 0), (middle, stop, free - 1)]
        return [*cotangents, *totals]

    def step_back(self, i: int, state: Sequence[Any], others: Sequence[Any], gs: Sequence[Any], totals: list[Any]) -> list[Any]:
        """Return the cotangents of the state before step `i`, and add the cotangents of the other arguments to `totals`."""

        def one(*tensors: Any) -> list[Any]:
            return self.one(i, *tensors[: self.count], *replaced(others, self.followed, tensors[self.count :]))

        arrays = [*state, *[others[k] for k in self.followed]]
        found = pulled(one, arrays, with_zeros(gs, state), transform="checkpoint_sequence", function=self.step)
        for k, ct in zip(self.followed, found[self.count :], strict=True):
            if ct is not None:
                totals[k] = ct if totals[k] is None else totals[k] + ct
        return found[: self.count]

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the last state, step by step."""
        (state, others), (tangents, rest) = [(given[: self.count], given[self.count :]) for given in (arrays, ts)]
        for i in range(self.n):
            state, tangents = pushed(functools.partial(self.one, i), [*state, *others], [*tangents, *rest])
        return list(tangents)
