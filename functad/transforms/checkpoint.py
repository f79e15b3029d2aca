"""`checkpoint`: a function that keeps only its arguments, and is computed again when its derivative is taken."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from functad.errors import InputError, UnsupportedError
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.kinds import elementwise
from functad.primitives.operands import absent, is_absent
from functad.primitives.primitive import Primitive, names_read
from functad.tracing.recorder import REVERSE, Recorded, Recorder, _lower, append, new_input
from functad.tracing.tensor import Tensor
from functad.transforms.arguments import plain, traced
from functad.transforms.forward import jvp
from functad.transforms.one_call import OneCall, Rules, apply
from functad.transforms.reverse import pull_back
from functad.transforms.specializing import Keeps, Run, run
from functad.trees import flatten, tree_map

P = ParamSpec("P")
R = TypeVar("R")
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
)
_NAME.name = "checkpoint_name"


def checkpoint_name(x: Any, name: str) -> Any:
    """Return `x` itself, known by a name to the policies of `checkpoint`.

    Args:
        x: an array, number, or tree of them.
        name: the name.

    Example:
        >>> import numpy as np, functad
        >>> def layer(x):
        ...     return np.sin(functad.checkpoint_name(np.exp(x), "expensive"))
        >>> round(float(functad.grad(functad.checkpoint(layer, policy=["expensive"]))(0.0)), 6)
        0.540302
    """
    return tree_map(lambda leaf: _NAME(plain(leaf), name=name), x)


@overload
def checkpoint(f: Callable[P, R], policy: Policy = None) -> Callable[P, R]: ...
@overload
def checkpoint(f: None = None, policy: Policy = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def checkpoint(f: Callable[..., Any] | None = None, policy: Policy = None) -> Any:
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
    if f is None:
        return functools.partial(checkpoint, policy=policy)
    if not callable(f):
        raise InputError(f"checkpoint needs a function, not a {type(f).__name__}, at {here()}.")
    keeps = _keeps(policy)

    @functools.wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        leaves = [plain(leaf) for leaf in leaves]
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Recorded)]
        if not places:
            return f(*args, **kwargs)
        keeper = max((leaves[i].recorder for i in places), key=lambda recorder: recorder.serial)
        did = run(f, structure.unflatten(leaves), places, keeper, keeps)
        if not did.outputs:
            return did.result(())
        outs = apply(Segment(f, did).rules(), did.inputs)
        return did.result(outs[: len(did.outputs)])

    return checkpointed


def _keeps(policy: Policy) -> Keeps:
    """Return what says of an operation whether its result is to be kept."""
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


class Segment:
    """What a function did in one run, as a call that is recorded as one operation.

    Attributes:
        kept: slots whose values are results of the call too, so that they can be differentiated.
        first: arguments and results of the run itself, until they are asked for.
    """

    def __init__(self, function: Any, did: Run) -> None:
        self.function = function
        self.slots, self.equations, self.specs, self.outputs = did.slots, did.equations, did.specs, did.outputs
        self.kept = [slot for slot in did.kept if slot not in did.slots]
        self.first: Any = None
        if did.values is not None:
            lowest = [_lowest(t) for t in did.inputs]
            self.first = lowest, (*did.values, *[did.kept[slot] for slot in self.kept])

    def rules(self) -> Rules:
        """Return how the call is computed and differentiated."""
        return Rules(
            function=self.function,
            value=self.value,
            forward=self.forward,
            backward=self.backward,
            push=self.push,
            name="checkpoint",
        )

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results, and the values that are kept."""
        first, self.first = self.first, None
        if first is not None and all(a is b for a, b in zip(arrays, first[0], strict=True)):
            return first[1]  # type: ignore[no-any-return]
        return self._evaluate(arrays)

    def _evaluate(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        last = {source: i for i, e in enumerate(self.equations) for source in e.inputs if not isinstance(source, Constant)}
        wanted = {*self.outputs, *self.kept}
        values = dict(zip(self.slots, arrays, strict=True))
        for i, e in enumerate(self.equations):
            out = e.primitive(*[s.value if isinstance(s, Constant) else values[s] for s in e.inputs], **e.params)
            values.update(zip(e.outputs, out if e.primitive.multiple else (out,), strict=True))
            for source in e.inputs:
                if not isinstance(source, Constant) and last[source] == i and source not in wanted:
                    values.pop(source, None)
        return tuple([values[slot] for slot in (*self.outputs, *self.kept)])

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results, and what is kept of them; in the traces below this is one operation too."""
        outs = apply(self.rules(), arrays) if any(isinstance(a, Recorded) for a in arrays) else self.value(*arrays)
        return outs, (list(arrays), list(outs[len(self.outputs) :]))

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments: compute again, with a record, and pull back."""
        arrays, values = kept
        known = dict(zip(self.kept, values, strict=True))
        return pulled(lambda recorder, tensors: self._again(recorder, tensors, known), self.function, arrays, gs)

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        return pushed(self._evaluate, arrays, ts)

    def _again(self, recorder: Recorder, tensors: Sequence[Any], known: dict[int, Any]) -> list[Any]:
        """Record the operations once more; values that are known, or that no rule reads, are not computed."""
        values = dict(zip(self.slots, tensors, strict=True))
        for e, computed in zip(self.equations, self._computed(set(known)), strict=True):
            given = [s.value if isinstance(s, Constant) else values[s] for s in e.inputs]
            if computed:
                out = e.primitive(*given, **e.params)
                outs = out if e.primitive.multiple else (out,)
            else:
                outs = self._recorded(recorder, e, given, known)
            values.update(zip(e.outputs, outs, strict=True))
        return [values[slot] for slot in (*self.outputs, *self.kept)]

    def _recorded(self, recorder: Recorder, e: Equation, given: Sequence[Any], known: dict[int, Any]) -> Sequence[Any]:
        """Record an operation without computing it."""
        outs = tuple([known[slot] if slot in known else absent(*self.specs[slot]) for slot in e.outputs])
        lowered, active, _ = _lower(recorder, e.primitive, tuple(given))
        if not active:
            return outs
        out = outs if e.primitive.multiple else outs[0]
        made = append(Tensor, recorder, e.primitive, tuple(given), lowered, active, dict(e.params), out)
        return made if e.primitive.multiple else (made,)

    def _computed(self, known: set[int]) -> list[bool]:
        """Say for each operation whether it must be computed: whether a rule or operation reads a value that is not known."""
        needed: set[int] = set()
        result = []
        for e in reversed(self.equations):
            positions, reads_out = _read_by(e)
            unknown = not known.issuperset(e.outputs)
            computed = unknown and (reads_out or not needed.isdisjoint(e.outputs))
            result.append(computed)
            for i, source in enumerate(e.inputs):
                if not isinstance(source, Constant) and (computed or positions is None or i in positions):
                    needed.add(source)
        return result[::-1]


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


def _lowest(value: Any) -> Any:
    while isinstance(value, Recorded):
        value = value.value
    return value


def pulled(
    function: Callable[[Recorder, Sequence[Any]], Sequence[Any]], about: Any, arrays: Sequence[Any], gs: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of arrays: record a function of them, and pull back; the record is dropped on the way.

    Args:
        function: `function(recorder, tensors)`, the results.
        about: the function of the user's, for messages.
        arrays: its arguments; those that are not inexact are handed on as they are.
        gs: the cotangents of the results.
    """
    recorder = Recorder(REVERSE, "checkpoint", about)
    places = [i for i, a in enumerate(arrays) if dtype_of(a).kind in "fc"]
    tensors = list(arrays)
    for i in places:
        tensors[i] = new_input(Tensor, recorder, arrays[i])
    outs = traced(recorder, lambda: list(function(recorder, tensors)), (), {})
    cotangents: list[Any] = [None] * max(len(recorder.equations), 1)
    for out, g in zip(outs, gs, strict=True):
        if isinstance(out, Recorded) and out.recorder is recorder and not _is_zero(g):
            own = cotangents[out.slot]
            cotangents[out.slot] = g if own is None else own + g
    del outs
    found = iter(pull_back(recorder.equations, cotangents, recorder.inputs, consume=True))
    result: list[Any] = [None] * len(arrays)
    for i in places:
        result[i] = next(found)
    return result


def _is_zero(g: Any) -> bool:
    """Say whether a cotangent is known to be zero without a look at all of it."""
    return is_absent(g) and not g.reshape(-1)[:1].any()


def pushed(function: Callable[[Sequence[Any]], Sequence[Any]], arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
    """Return the tangents of the results of a function of arrays; `None` among `ts` stands for zero."""
    places = [i for i, t in enumerate(ts) if t is not None and dtype_of(arrays[i]).kind in "fc"]

    def active(*given: Any) -> list[Any]:
        own = list(arrays)
        for i, a in zip(places, given, strict=True):
            own[i] = a
        return list(function(own))

    if not places:
        return [np.zeros(shape_of(out)) for out in function(arrays)]
    found: list[Any] = jvp(active, tuple([arrays[i] for i in places]), tuple([ts[i] for i in places]))[1]
    return found
