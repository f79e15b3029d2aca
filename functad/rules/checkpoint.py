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
from functad.transforms.leaves import pulled, pushed, replaced
from functad.transforms.lists import Closed, close, make_list, trace
from functad.transforms.transform import Transformed, transform
from functad.trees import Structure, difference, flatten, tree_map

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
    return plan.holds, "out" in plan.names


# Sequences of steps


def fewest_steps(length: int, snapshots: int) -> int:
    """Return the minimal number of forward steps to reverse `length` steps with the given snapshots: `t(l, c)`.

    Example:
        >>> [fewest_steps(10, c) for c in (1, 2, 3, 10)]
        [45, 20, 15, 9]
    """
    r = _repetitions(length, snapshots)
    return r * length - math.comb(snapshots + r, r - 1) if length > 1 else 0


def _repetitions(length: int, snapshots: int) -> int:
    """Return the least `r` with `length <= binomial(snapshots + r, r)`: an upper bound of the evaluations of a step."""
    r = 0
    while math.comb(snapshots + r, r) < length:
        r += 1
    return r


def first_part(length: int, snapshots: int) -> int:
    """Return the number of steps before the next snapshot, for a reversal in `fewest_steps`."""
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

    def run(state: Any, *args: Any) -> Any:
        leaves, structure = flatten(state)
        own = [_as_array(value_of(leaf)) for leaf in leaves]
        others, form = flatten(args)
        others = [value_of(leaf) for leaf in others]
        places = [i for i, leaf in enumerate(others) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
        steps = _Steps(step, int(n), snapshots, (structure, len(own)), (others, form, places))
        if not any(isinstance(leaf, Recorded) for leaf in (*own, *others)):
            return structure.unflatten(
                own_results(steps.advance(own, 0, steps.n, [others[i] for i in places]), [*own, *others])
            )
        if sees_inside((*own, *others)):
            return structure.unflatten(steps.advance(own, 0, steps.n, [others[i] for i in places]))
        steps.others = [None if i in places else leaf for i, leaf in enumerate(others)]
        steps.followed = [k for k, i in enumerate(places) if isinstance(others[i], Recorded)]
        return structure.unflatten(apply(steps.rules(), [*own, *[others[i] for i in places]]))

    run.__name__ = run.__qualname__ = f"{getattr(step, '__name__', 'step')}_times_{n}"
    made = Transformed.of(run)
    made.transform, made.given = checkpoint_sequence, (step, (n, snapshots), {})
    return cast("Callable[P, R]", made)


def _is_integer(value: Any) -> bool:
    return issubclass(type(value), (int, np.integer))


def _as_array(leaf: Any) -> Any:
    return PYTHON_SCALARS[type(leaf)].type(leaf) if type(leaf) in PYTHON_SCALARS else leaf


class _Steps:
    """The steps of one call, on lists of arrays: the leaves of the state, then the leaves of the other arguments.

    Attributes:
        structure, count: the structure of the state and the number of its leaves.
        others, form, places: the leaves of the other arguments, their structure, and the positions of arrays among them.
        followed: the indices of those arrays that can have a derivative. An input sequence for all steps is usually constant:
            one cotangent of its size at each step would make the time quadratic in the length.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        n: int,
        snapshots: int | None,
        state: tuple[Structure, int],
        others: tuple[list[Any], Structure, list[int]],
    ) -> None:
        self.step, self.n = step, n
        self.snapshots = max(1, math.isqrt(2 * n)) if snapshots is None else snapshots
        self.structure, self.count = state
        self.others, self.form, self.places = others
        self.followed = list(range(len(self.places)))

    def rules(self) -> Rules:
        """Return the rules of the call."""
        own = self.value, self.forward, self.backward, self.push
        return Rules(self.step, *own, spec=self.spec, name="checkpoint_sequence")

    def one(self, i: int, *arrays: Any) -> list[Any]:
        """Return the leaves of the state after step `i`."""
        given = [lend_read_only(a) for a in arrays[self.count :]]  # read again later
        others = replaced(self.others, self.places, given)
        before = arrays[: self.count]
        state = self.structure.unflatten([lend(a) for a in before])  # a step may write into it
        leaves, structure = flatten(self.step(i, state, *self.form.unflatten(others)))
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
        """Return the last state, and the snapshots of the schedule; outer traces record one operation."""
        if any(isinstance(a, Recorded) for a in arrays):
            return apply(self.rules(), arrays), (list(arrays), {})
        others, state, position = arrays[self.count :], list(arrays[: self.count]), 0
        kept: dict[int, list[Any]] = {}
        for stop in self._snapshot_positions():
            state = self.advance(state, position, stop, others)
            kept[stop] = state
            position = stop
        return tuple(self.advance(state, position, self.n, others)), (list(arrays), kept)

    def _snapshot_positions(self) -> list[int]:
        """Return the steps before which the first pass keeps a state, without step 0."""
        positions, start = [], 0
        for free in range(self.snapshots, 1, -1):
            if self.n - start < 2:
                break
            start += first_part(self.n - start, free)
            positions.append(start)
        return positions

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the first state and of the other arguments."""
        arrays, states = kept
        reversal = _Reversal(self, arrays, dict(states), list(gs))
        states.clear()  # this pass frees them one by one; another pass recomputes them
        reversal.run()
        return [*reversal.cotangents, *reversal.totals]

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the last state, step by step."""
        state, others = list(arrays[: self.count]), arrays[self.count :]
        tangents, rest = list(ts[: self.count]), ts[self.count :]
        for i in range(self.n):
            state, tangents = pushed(functools.partial(self.one, i), [*state, *others], [*tangents, *rest])
        return tangents


class _Reversal:
    """A backward pass over all steps.

    Attributes:
        states: by step, the kept states.
        cotangents: the cotangents of the state after the last step that is not reversed yet.
        totals: the cotangents of the other arguments so far.
    """

    def __init__(self, steps: _Steps, arrays: Sequence[Any], states: dict[int, list[Any]], cotangents: list[Any]) -> None:
        self.steps = steps
        self.others = list(arrays[steps.count :])
        self.states = states
        self.states[0] = list(arrays[: steps.count])
        self.cotangents = cotangents
        self.totals: list[Any] = [None] * len(self.others)

    def step_back(self, i: int, state: Sequence[Any]) -> None:
        """Pull the cotangents back through step `i`, with the given state before it."""
        steps = self.steps
        live = [np.zeros(shape_of(a)) if g is None else g for g, a in zip(self.cotangents, state, strict=True)]
        others = list(self.others)

        def one(*tensors: Any) -> list[Any]:
            for k, tensor in zip(steps.followed, tensors[steps.count :], strict=True):
                others[k] = tensor
            return steps.one(i, *tensors[: steps.count], *others)

        arrays = [*state, *[self.others[k] for k in steps.followed]]
        found = pulled(one, arrays, live, transform="checkpoint_sequence", function=steps.step)
        self.cotangents = found[: steps.count]
        for k, ct in zip(steps.followed, found[steps.count :], strict=True):
            if ct is not None:
                self.totals[k] = ct if self.totals[k] is None else self.totals[k] + ct

    def run(self) -> None:
        """Reverse all steps with the fewest forward steps. It is a loop, because a recursion could be `n` deep."""
        waiting = [(0, self.steps.n, self.steps.snapshots)]
        while waiting:
            start, stop, free = waiting.pop()
            length = stop - start
            if length < 1:
                self.states.pop(stop, None)  # all later steps are reversed
                continue
            if length == 1 or free == 1:
                for i in range(stop - 1, start - 1, -1):
                    self.step_back(i, self.steps.advance(self.states[start], start, i, self.others))
                continue
            middle = start + first_part(length, free)
            if middle not in self.states:
                self.states[middle] = self.steps.advance(self.states[start], start, middle, self.others)
            waiting += [(start, middle, free), (middle, middle, 0), (middle, stop, free - 1)]
