"""Linearity analysis of an expression list: equation by equation, including the lists inside loops and calls.

A function traced without values cannot branch on them, so the analysis is valid for all arguments. Each value of the list is
fixed, linear in the arguments, or nonlinear. Nonlinear operations are allowed if no result depends on them. Solvers and code
that cannot be traced are assumed to be linear; `functad.testing.check_rules(f, *args, linear=True)` tests this numerically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from functad.errors import AbstractValueError, NotLinearError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.places import call_of, here
from functad.primitives.entry import Primitive
from functad.primitives.plan import Plan
from functad.transforms.lists import trace

FIXED, LINEAR = "fixed", "linear"
"""The states of a value: independent of the arguments, or linear in them. The state of a nonlinear value is a `Bend`."""


class Bend(NamedTuple):
    """A nonlinear operation.

    Attributes:
        name: the name of its primitive.
        slot: the slot of its result in the outermost list.
    """

    name: str
    slot: int


State = str | Bend


def linear_list(transform: str, function: Callable[..., Any], f: Callable[..., Any], args: Sequence[Any]) -> Expressions:
    """Return the expression list of a function that is jointly linear in all its arguments.

    Args:
        transform: the name of the transform, for messages.
        function: the function of the user that `f` calls, for messages.
        f: the function.
        args: the arguments; only shapes and dtypes matter.

    Raises:
        NotLinearError: `f` is not linear.
    """
    asked = f"{call_of(transform, function)}:"
    try:
        expressions = trace(transform, f, args, function=function)
    except AbstractValueError as error:
        what = str(error).removesuffix(f" [{error.code}]")
        raise NotLinearError(f"{asked} what it gives depends on a value of its arguments. {what}") from error
    states = _results_of(expressions, [LINEAR] * len(expressions.inputs), None)
    bend = next((state for state in states if isinstance(state, Bend)), None)
    if bend is None:
        return expressions
    raise NotLinearError(
        f"{asked} {bend.name} is not linear in what it is given, at {_line(transform, f, args, bend)}. Use vjp(f, x) for the "
        f"transpose of the derivative at a point."
    )


def _line(transform: str, f: Callable[..., Any], args: Sequence[Any], bend: Bend) -> str:
    """Return `file:line` of an operation, from a second trace with lines."""
    from functad.transforms.source_lines import noted_lines  # noqa: PLC0415 - only errors need it

    with noted_lines():
        equations = trace(transform, f, args).equations
    found = [e.place.where for e in equations if e.place is not None and bend.slot in e.outputs]
    return "".join(found) or here()  # without a line of the user if `f` itself is a function of NumPy


def _results_of(expressions: Expressions, inputs: Sequence[State], slot: int | None) -> list[State]:
    """Return the states of the results of a list.

    Args:
        expressions: the list.
        inputs: the states of its inputs.
        slot: the slot, in the outermost list, of the equation that holds this list; `None` for the outermost list.
    """
    known: dict[int, State] = dict(enumerate(inputs))
    for equation in expressions.equations:
        given = [FIXED if isinstance(source, Constant) else known[source] for source in equation.inputs]
        found = _through(equation, given, equation.outputs[-1] if slot is None else slot)
        known.update(zip(equation.outputs, found, strict=True))
    return [FIXED if isinstance(source, Constant) else known[source] for source in expressions.outputs]


def _through(equation: Equation, given: list[State], slot: int) -> Sequence[State]:
    """Return the states of the results of an equation."""
    primitive, count = equation.primitive, len(equation.outputs)
    if all(state is FIXED for state in given):
        return [FIXED] * count
    if primitive.lists:
        return _THROUGH[primitive.lists](equation, given, slot)
    if primitive.inner is not None:
        return _results_of(primitive.inner, given, slot)
    bend = next((state for state in given if isinstance(state, Bend)), None)
    if bend is not None:
        return [bend] * count
    moving = tuple([i for i, state in enumerate(given) if state is LINEAR])
    opaque = primitive.samples is None and primitive.linear_by is None  # a solver, or code that cannot be traced
    passes = opaque or is_linear_in(primitive, moving, equation.params)
    return [LINEAR if passes else Bend(primitive.name, slot)] * count


def is_linear_in(primitive: Primitive, moving: tuple[int, ...], params: Any) -> bool:
    """Return `True` if a primitive is jointly linear in the arguments at positions `moving`, according to its entry."""
    if primitive.linear_by is not None:
        return all(i in primitive.linear_by(params) for i in moving)
    if primitive.kind == "constant" or not (primitive.joint or all(map(primitive.differentiable, moving))):
        return False
    return not primitive.partial and is_linear(primitive.reverse_plan(moving))


def is_linear(plan: Plan) -> bool:
    """Return `True` if a call is jointly linear in its active inputs: its rules read neither these nor the result."""
    primitive = plan.primitive
    if primitive.kind == "linear":
        return True
    own = {primitive.names[i] for i in plan.active if i < len(primitive.names)} | {"out", "arrays", *primitive.derived}
    own |= {"rest"} if max(plan.active) > 0 else set()
    return own.isdisjoint(plan.names)


def _in_branches(equation: Equation, given: list[State], slot: int) -> Sequence[State]:
    """Return the states of the results of a `cond` or `switch`; the first input selects the branch."""
    if given[0] is not FIXED:
        return [Bend(equation.primitive.name, slot)] * len(equation.outputs)
    found = [_results_of(branch, given[1:], slot) for branch in equation.params["branches"]]
    return [_joined(column) for column in zip(*found, strict=True)]


def _in_rows(equation: Equation, given: list[State], slot: int) -> Sequence[State]:
    """Return the states of the results of a scan: repeat its body until the states of the carries stop changing."""
    count = equation.params["carries"]
    carries = given[:count]
    while True:  # in each iteration the state of another carry may change
        found = _results_of(equation.params["body"], [*carries, *given[count:]], slot)
        before, carries = carries, [_joined(pair) for pair in zip(carries, found, strict=False)]
        if carries == before:
            return [*carries, *found[count:]]


def _in_turns(equation: Equation, given: list[State], slot: int) -> Sequence[State]:
    """Return the states of the results of a loop; the condition must not depend on the arguments."""
    carries = _in_rows(equation, given, slot)
    test = _results_of(equation.params["cond"], [*carries, *given[len(carries) :]], slot)
    return carries if test[0] is FIXED else [Bend(equation.primitive.name, slot)] * len(carries)


_THROUGH = {"branches": _in_branches, "scan": _in_rows, "loop": _in_turns}


def _joined(states: Sequence[State]) -> State:
    """Return the state of a value with several possible states: a `Bend` if there is one, else `LINEAR` before `FIXED`."""
    bend = next((state for state in states if isinstance(state, Bend)), None)
    return bend or (LINEAR if LINEAR in states else FIXED)
