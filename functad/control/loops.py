"""`while_loop` and `fori_loop`: loops with a condition, and loops over a range of indices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.control.equation import (
    BOOLS,
    Agreement,
    Control,
    any_example,
    carry_of,
    close_bodies,
    in_forms,
    is_batched,
    listing,
    number,
    part,
    selected,
    unknown,
)
from functad.control.scan import StepDerivative, scan
from functad.errors import ControlFlowError, FunctadError
from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec, is_inexact, strong_spec
from functad.places import here, name_of
from functad.primitives.batching import spread_out
from functad.primitives.operands import innermost
from functad.tracing.ownership import give_state, lend, lend_read_only, own_state
from functad.transforms.forward import with_zeros
from functad.transforms.leaves import pull_leaves, pushed, replaced
from functad.transforms.lists import Closed, close, trace
from functad.transforms.vmap import vmap


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """Return the first of `init`, `body_fun(init)`, `body_fun(body_fun(init))`, ... for which `cond_fun` is false.

    Derivatives of both modes and any order exist. Reverse mode stores the residuals of each step, so memory grows with the
    number of steps. Use `fori_loop` or `scan` for a known number of steps. If values are known, the loop runs as a Python
    `while`; an abstract trace records one equation. Under `vmap` it runs until the condition is false for all examples, and the
    carry of finished examples stays unchanged.

    Args:
        cond_fun: maps a carry to a bool of shape `()`.
        body_fun: maps a carry to the next carry, of the same structure, shapes and dtypes. Python numbers in `init` take the
            dtype of the body's result.
        init: the first carry: an array, a number or a tree of them.

    Returns:
        The last carry.

    Raises:
        ControlFlowError: the body returns a carry that does not agree with `init`, or the condition is not one number or
            writes into the arrays of the carry.

    Example:
        >>> import numpy as np, functad
        >>> def root(a):
        ...     step = lambda x: (x + a / x) / 2
        ...     return while_loop(lambda x: abs(x * x - a) > 1e-12 * a, step, a)
        >>> functad.grad(root)(4.0).round(9)
        np.float64(0.25)
    """
    carry = carry_of("while_loop", body_fun)
    leaves = carry.start(init)
    if listing(leaves):
        return _listed(cond_fun, body_fun, carry, leaves)

    def test(leaves: list[Any]) -> Any:
        try:
            return _predicate(cond_fun, carry.hand([lend_read_only(leaf) for leaf in leaves]))
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise ControlFlowError(
                f"while_loop, called at {here()}: {name_of(cond_fun)} writes into an array that is read-only, as those of the "
                f"carry are for the condition, which only looks at them. Write into a copy: x = x.copy()."
            ) from error

    def step(leaves: list[Any]) -> list[Any]:
        return own_state(carry.fit(body_fun(carry.hand(give_state(leaves)))))

    leaves, finished = _run(test, step, [lend(leaf) for leaf in leaves])
    # The condition is unknown if the functions close over values of an abstract trace.
    return carry.build(leaves) if finished else _listed(cond_fun, body_fun, carry, leaves)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Return `x` after `for i in range(lower, upper): x = body_fun(i, x)`, starting with `x = init_val`.

    Args:
        lower: the first index, an integer of shape `()`. The index is a Python int if `lower` is known, otherwise int64.
        upper: the index to stop before. If both bounds are known, an abstract trace records a `scan`, whose derivative needs
            no growing stack; otherwise a `while_loop`.
        body_fun: maps an index and a carry to the next carry, of the same structure, shapes and dtypes.
        init_val: the first carry: an array, a number or a tree of them.

    Returns:
        The last carry.

    Raises:
        ControlFlowError: the body returns a carry that does not agree with `init_val`, or a bound is not one integer.

    Example:
        >>> import functad
        >>> power = lambda x: fori_loop(0, 5, lambda i, y: y * x, 1.0)
        >>> float(power(2.0)), float(functad.grad(power)(2.0))
        (32.0, 80.0)
    """
    lower, upper = [
        bound if type(bound) is int else number(bound, "iu", f"fori_loop, called at {here()}: {name} must be an integer", "")
        for name, bound in (("lower", lower), ("upper", upper))
    ]
    carry = carry_of("fori_loop", body_fun)
    leaves = carry.start(init_val)

    def step(state: Any) -> Any:
        i, leaves = state
        return i + 1, carry.fit(body_fun(i, carry.build(leaves)))

    first, last = _index(lower), _index(upper)
    if not (type(first) is type(last) is int):
        return carry.build(while_loop(lambda state: state[0] < last, step, (first, leaves))[1])
    if first >= last or not listing(leaves):  # an empty loop needs no equation
        leaves = [lend(leaf) for leaf in leaves]
        for i in range(first, last):
            leaves = own_state(carry.fit(body_fun(i, carry.hand(give_state(leaves)))))
            if i == first and any(map(unknown, leaves)):  # the body closes over values of an abstract trace
                return fori_loop(first + 1, last, body_fun, carry.build(leaves))
        return carry.build(leaves)
    return carry.build(scan(lambda state, _: (step(state), None), (first, leaves), None, last - first)[0][1])


def _index(bound: Any) -> Any:
    """Return a bound of a loop as a Python int if it is one known number, otherwise in int64.

    The index of the loop begins as the first bound, and counts in its dtype. A narrower dtype may not hold the last bound.
    """
    return bound.astype(np.int64, copy=False) if unknown(bound) or is_batched(bound) else int(innermost(bound))


def _predicate(cond_fun: Callable[[Any], Any], carry: Any) -> Any:
    more = cond_fun(carry)
    if type(more) in BOOLS:
        return more
    wanted = f"while_loop, called at {here()}: {name_of(cond_fun)} must return a bool"
    return number(more, "biufc", wanted, "Reduce it: np.all or np.any.")


def _run(test: Callable[[list[Any]], Any], step: Callable[[list[Any]], list[Any]], leaves: list[Any]) -> tuple[list[Any], bool]:
    """Run a loop on known leaves. Return the leaves, and `True` if the condition is false, `False` if it became unknown."""
    while True:
        more = test(leaves)
        if type(more) in BOOLS:  # the common case
            if not more:
                return leaves, True
            leaves = step(leaves)
            continue
        if unknown(more):
            return leaves, False
        if not any_example(more):
            return leaves, True
        if is_batched(more):
            with np.errstate(all="ignore"):  # the steps of finished examples are not used
                leaves = selected(more, step([lend(leaf) for leaf in leaves]), leaves)
        else:
            leaves = step(leaves)


def _listed(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], carry: Agreement, leaves: Sequence[Any]) -> Any:
    """Record the loop as one equation with its condition and body."""

    @functools.wraps(body_fun)
    def step(state: Any) -> Any:
        return carry.build(carry.fit(body_fun(state)))

    @functools.wraps(cond_fun)
    def test(state: Any) -> Any:
        return _predicate(cond_fun, state)

    (cond, body), captured = carry.settled(
        lambda state: close_bodies("while_loop", (test, (state,)), (step, (state,)), operands=leaves)
    )
    return carry.build(WHILE(*carry.cast(leaves), *captured, carries=len(leaves), cond=cond, body=body))


def _compute(*arrays: Any, carries: int, cond: Any, body: Any) -> Sequence[Any]:
    leaves, outer = part(arrays, carries)
    test, step = Closed(cond), Closed(body)
    last = _run(lambda leaves: test(*leaves, *outer)[0], lambda leaves: step(*leaves, *outer), leaves)[0]
    return in_forms(last, leaves)


def _pull(gs: Any, wrt: Sequence[int], arrays: Sequence[Any], out: Any, params: Any) -> list[Any]:
    """Record the backward pass as one equation, because the number of steps to keep residuals for is unknown."""
    return list(WHILE_BACK(*arrays, *[g for g, o in zip(gs, out, strict=True) if is_inexact(o)], **params, by=tuple(wrt)))


def _push(ts: Sequence[Any], arrays: Sequence[Any], params: Any) -> list[Any]:
    """Push tangents as a part of the carry."""
    given, loop = _with_tangents(ts, arrays, params)
    outs, tangents = part(WHILE(*given, **loop), params["carries"])
    return replaced([None] * len(outs), _moving(params), tangents)


def _moving(params: Any) -> list[int]:
    """Return the positions of the leaves of the carry that have tangents."""
    return [i for i in range(params["carries"]) if is_inexact(params["body"].specs[i])]


def _with_tangents(ts: Sequence[Any], arrays: Sequence[Any], params: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments and parameters of the loop with tangents in its carry.

    Its carry is the leaves, then the tangents of the floating-point leaves. Its outer values are the outer values of the loop,
    then their tangents; `None` in `ts` means zero.
    """
    count, every, moving = params["carries"], len(arrays), _moving(params)
    carried = len(moving)
    moving += [i for i in range(count, every) if ts[i] is not None]
    test, step = Closed(params["cond"]), Closed(params["body"])

    def pairs(given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        leaves, tangents, outer, t_outer = part(given, count, carried, every - count)
        return [*leaves, *outer], replaced([None] * every, moving, [*tangents, *t_outer])

    def after(*given: Any) -> list[Any]:
        outs, found = pushed(step, *pairs(given))
        return [*outs, *with_zeros([found[i] for i in moving[:carried]], [outs[i] for i in moving[:carried]])]

    def in_order(values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        return [*values[:count], *tangents[:carried], *values[count:], *tangents[carried:]]

    specs = params["body"].specs
    given = in_order(arrays, with_zeros([ts[i] for i in moving], [arrays[i] for i in moving]))
    of_given = in_order(specs[:every], [strong_spec(specs[i]) for i in moving])
    lists, _ = close_bodies("while_loop", (lambda *given: test(*pairs(given)[0]), of_given), (after, of_given), operands=given)
    return given, {"carries": count + carried, "cond": lists[0], "body": lists[1]}


def _along(
    gs: Sequence[Any], hs: Sequence[Any], ts: Sequence[Any], arrays: Sequence[Any], params: Any, by: Sequence[int]
) -> tuple[list[Any], list[Any]]:
    """Return the derivative `(J t)'^T g + J^T h` of the cotangents `J^T g` of `arrays` in a direction `t`, and `J t`.

    Both belong to the loop with tangents in its carry, with the cotangents `h` and `g`. Its derivative is a loop again. `by`
    has the positions of the arrays to differentiate it with respect to. `None` means zero in `h` and `t`.
    """
    loop = {name: params[name] for name in ("carries", "cond", "body")}
    given, lists = _with_tangents(ts, arrays, loop)
    places = tuple([i if i < loop["carries"] else i + len(gs) for i in by])
    cts = WHILE_BACK(*given, *with_zeros(hs, gs), *gs, **lists, by=places)
    return list(cts), WHILE(*given, **lists)[loop["carries"] :]


def _push_back(ts: Sequence[Any], arrays: Sequence[Any], params: Any) -> list[Any]:
    """Push tangents through the cotangents (forward over reverse mode)."""
    count = len(params["body"].inputs)
    (own, gs), (t_own, t_gs) = part(arrays, count), part(ts, count)
    return _along(gs, t_gs, t_own, own, params, params["by"])[0]


def _pull_back(us: Any, wrt: Sequence[int], arrays: Sequence[Any], out: Any, params: Any) -> list[Any]:
    """Pull cotangents `u` of the cotangents back (reverse over reverse mode): `u` is a direction for the loop."""
    count = len(params["body"].inputs)
    own, gs = part(arrays, count)
    by = [i for i in wrt if i < count]
    cts, tangents = _along(gs, [None] * len(gs), replaced([None] * count, params["by"], us), own, params, by)
    found = dict(zip(by, cts, strict=True)) | dict(enumerate(tangents, count))
    return [found[i] for i in wrt]


def _compute_back(*arrays: Any, by: Sequence[int], **loop: Any) -> Sequence[Any]:
    count = len(loop["body"].inputs)
    return pull_leaves(functools.partial(_compute, **loop), arrays[:count], arrays[count:], by)


def _batch(values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Any:
    """Batch the loop: run until the condition is false for all examples."""
    every = [i < params["carries"] or own for i, own in enumerate(batched)]
    return WHILE(*_spread(values, batched, every, size), **_over_examples(params, every, size))


def _batch_back(values: Sequence[Any], batched: Sequence[bool], size: int, params: Any) -> Any:
    """Return the cotangents of all examples. Arguments that are differentiated get a batch axis."""
    count, by = len(params["body"].inputs), params["by"]
    every = [i < params["carries"] or i in by or i >= count or own for i, own in enumerate(batched)]
    return WHILE_BACK(*_spread(values, batched, every, size), **_over_examples(params, every[:count], size), by=by)


def _spread(values: Sequence[Any], batched: Sequence[bool], every: Sequence[bool], size: int) -> list[Any]:
    """Return values with a batch axis where `every` is `True`."""
    found = zip(values, batched, every, strict=True)
    return [spread_out(value, own, size) if wanted else value for value, own, wanted in found]


def _over_examples(params: Any, batched: Sequence[bool], size: int) -> dict[str, Any]:
    """Return the parameters of the loop over all examples. Finished examples stay unchanged."""
    count = params["carries"]
    axes = tuple([0 if own else None for own in batched])
    specs = params["body"].specs[: len(batched)]
    specs = [ArraySpec((size, *spec.shape), spec.dtype) if own else spec for own, spec in zip(batched, specs, strict=True)]
    test, step = Closed(params["cond"]), Closed(params["body"])

    def move(*given: Any) -> Any:
        return selected(test(*given)[0], step(*given), given[:count])

    tests, moves = [vmap(f, in_axes=axes, axis_size=size) for f in (lambda *given: test(*given)[0], move)]
    lists, _ = close_bodies("while_loop", (lambda *given: np.any(tests(*given)), tuple(specs)), (moves, tuple(specs)))
    return {"carries": count, "cond": lists[0], "body": lists[1]}


WHILE = Control(
    "while_loop",
    compute=_compute,
    spec=lambda *arrays, carries, cond, body: tuple(body.results),
    pull=_pull,
    push=_push,
    batch=_batch,
    doc="the derivatives of the steps, one after the other",
    lists="loop",
    internal=True,
)

WHILE_BACK = Control(
    "while_loop_vjp",
    compute=_compute_back,
    spec=lambda *arrays, by, **loop: tuple([strong_spec(arrays[i]) for i in by]),
    pull=_pull_back,
    push=_push_back,
    batch=_batch_back,
    doc="the derivatives of the steps, one after the other",
)


# The derivative of a loop as lists, for compiled code


class LoopDerivative(NamedTuple):
    """The forward and backward lists of a step of a loop with an unknown number of steps.

    Attributes:
        forward: the step, with its residuals as additional results.
        backward: maps cotangents of the carry, sums of cotangents of outer values over the later steps, residuals and outer
            values to these cotangents and sums before the step.
        leaves: the number of cotangents of the carry.
        order: for each requested cotangent, its position among the results of `backward`.
    """

    forward: Expressions
    backward: Expressions
    leaves: int
    order: tuple[int, ...]


def loop_derivative(body: Expressions, carries: int, by: Sequence[int]) -> LoopDerivative | None:
    """Return the derivative of a `while_loop`; `None` if its step has no derivative list that holds for all values.

    Args:
        body: the step.
        carries: the number of inputs that belong to the carry.
        by: positions of the inputs to differentiate with respect to.
    """
    try:
        split = StepDerivative(body, carries, 0, by)
    except FunctadError:  # the error is raised once values are known
        return None
    gs, sums = [[body.specs[i] for i in each] for each in (split.leaves, split.outer)]
    kept = split.forward.results[carries:]

    def back(*values: Any) -> list[Any]:
        own, totals, rest = part(values, len(gs), len(sums))
        stacked, outer = part(rest, len(kept))
        found, more = part(Closed(split.backward)(*stacked, *outer, *own), len(gs))
        return [*found, *[a + b for a, b in zip(totals, more, strict=True)]]

    specs = [*map(strong_spec, (*gs, *sums)), *kept, *body.specs[carries : len(body.inputs)]]
    backward, captured = close(trace("while_loop", back, specs))
    if captured:
        return None
    places = [*split.leaves, *split.outer]
    return LoopDerivative(split.forward, backward, len(gs), tuple([places.index(i) for i in by]))
