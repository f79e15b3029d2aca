"""`jvp`, `linearize` and `linear_transpose`: derivatives as linear functions, and transposes of linear functions.

The linearity analysis goes through an expression list equation by equation, including the lists inside loops and calls. A
function traced without values cannot branch on them, so the analysis is valid for all arguments. Each value of the list is
fixed, linear in the arguments, or nonlinear. Nonlinear operations are allowed if no result depends on them. Solvers and code
that cannot be traced are assumed to be linear; `functad.testing.check_rules(f, *args, linear=True)` tests this numerically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, TypeVarTuple, cast, overload

import numpy as np

from functad.errors import AbstractValueError, InputError, NotLinearError, StructureError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, inexact, is_inexact, shape_of
from functad.places import call_of, here, name_of
from functad.primitives.entry import Plan, Primitive
from functad.primitives.operands import innermost, zeros_for
from functad.tracing.concrete import ForwardRecorder, ReverseRecorder
from functad.tracing.ownership import hold_input, own_results, unrecorded
from functad.tracing.trace import unwrap
from functad.transforms.boundary import (
    check_tangents,
    checked_leaves,
    scalar_derivative,
    split_aux,
    traced,
    undifferentiable,
    wrap_inputs,
)
from functad.transforms.forward import Pushforward, push_through, with_zeros
from functad.transforms.grad import Pullback, pulled_back
from functad.transforms.lists import extract, noted_lines, trace
from functad.transforms.transform import Selection
from functad.trees import flatten, tree_map

R = TypeVar("R")
A = TypeVar("A")
Args = TypeVarTuple("Args")


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return the value of `f` and its tangent: `(f(x), J(x) t)`.

    Args:
        f: a function of NumPy code.
        primals: the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        tangents: one tangent per argument, with the structure, shapes and dtypes of the argument.
        has_aux: `f` returns a pair `(value, aux)`.

    Returns:
        `(value, tangent)`, or `(value, tangent, aux)`. The tangent has the structure, shapes and dtypes of the value.

    Raises:
        InputError: an argument cannot be differentiated.
        StructureError: the tangents do not match the arguments.

    Example:
        >>> import numpy as np
        >>> value, tangent = jvp(np.sin, (np.array([0.0, 1.0]),), (np.array([1.0, 2.0]),))
        >>> tangent.round(4)
        array([1.    , 1.0806])
    """
    return pushed_along("jvp", f, primals, tangents, has_aux=has_aux)


def check_counts(transform: str, f: Callable[..., Any], primals: Any, tangents: Any) -> None:
    """Raise an error unless primals and tangents are tuples or lists of the same length."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise InputError(
            f"{call_of(transform, f)}: primals and tangents are the tuples of all arguments; write {transform}(f, (x,), (t,)) "
            f"for one."
        )
    if len(primals) != len(tangents):
        raise StructureError(f"{call_of(transform, f)}: {len(primals)} primals but {len(tangents)} tangents.")


def pushed_along(
    transform: str, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> Any:
    """Return the value, the tangent and, with `has_aux`, the auxiliary result of a function."""
    check_counts(transform, f, primals, tangents)
    selection = Selection(transform, f, range(len(primals)))
    recorder = ForwardRecorder(transform, f)
    inputs = wrap_inputs(recorder, selection, tuple(primals), {})
    given = [hold_input(t, recorder) for t in check_tangents(inputs, tangents)]
    out, aux = split_aux(traced(recorder, f, inputs.args, {}), has_aux, selection)
    leaves, structure = checked_leaves(out, transform, f)
    found = push_through(recorder, given, leaves)
    values = [unwrap(leaf, recorder) for leaf in leaves]
    found = [
        t if t is None or is_inexact(value) else None for t, value in zip(found, values, strict=True)
    ]  # some rules return zeros for integers
    zeros = [scalar_derivative(t) for t in with_zeros(found, values)]
    rest, form = flatten(unwrap(aux, recorder)) if has_aux else ([], structure)
    known = [*inputs.primals, *given, *unrecorded(recorder, [*leaves, *flatten(aux)[0]] if has_aux else leaves)]
    owned, count = own_results([*values, *zeros, *rest], known), len(values)
    result = structure.unflatten(owned[:count]), structure.unflatten(owned[count : 2 * count])
    return (*result, form.unflatten(owned[2 * count :])) if has_aux else result


def pushforward(pull: Any) -> Pushforward:
    """Return the transpose of a `Pullback`, or of an object with the same attributes."""
    zeros = [zeros_for(shape_of(v), inexact(v), innermost(v)) for v in pull.values]
    return Pushforward(pull.transform, pull.function, zeros, pull.leaves)


class LinearFunction(Pullback, Generic[R, *Args]):
    """The derivative of a function at a point: `linear(*tangents)` is `J t`, and `linear.transpose(g)` is `g^T J`.

    `functad.linearize` returns it. Both may be called repeatedly, also with Tensors, under `vmap` and in other traces.

    Example:
        >>> linear = linearize(lambda x: x**2, np.array([1.0, 2.0]))[1]
        >>> linear
        <derivative of <lambda>: float64[2] -> float64[2]>
        >>> linear(np.array([1.0, 1.0])), linear.transpose(np.array([1.0, 10.0]))
        (array([2., 4.]), (array([ 2., 40.]),))
    """

    arguments = "*tangents"
    _push: Pushforward | None = None

    def __repr__(self) -> str:
        return f"<derivative of {name_of(self.function)}: {self.signature()}>"

    def __call__(self, *tangents: Any) -> R:
        """Return `J t`.

        Args:
            tangents: one tangent per primal, with the structure, shapes and dtypes of the primal.

        Returns:
            The tangent of the value, with the structure, shapes and dtypes of the value.

        Raises:
            StructureError: the tangents do not match the primals.
        """
        count = len(self.inputs.structures)
        if len(tangents) != count:
            raise StructureError(f"a linear function of {count} arguments was called with {len(tangents)}, at {here()}.")
        given = check_tangents(self.inputs, tangents)
        if self._push is None:
            self._push = pushforward(self)
        results = with_zeros(self._push(given), self.values)
        return cast("R", self.structure.unflatten(own_results(results, given)))

    def transpose(self, g: Any) -> tuple[*Args]:
        """Return `g^T J`.

        Args:
            g: a cotangent, with the structure, shapes and dtypes of the value.

        Returns:
            A tuple with one cotangent per primal, with the structure, shapes and dtypes of the primal.

        Raises:
            StructureError: `g` does not match the value.
        """
        return cast("tuple[*Args]", super().__call__(g))


@overload
def linearize(
    f: Callable[[*Args], tuple[R, A]], /, *primals: *Args, has_aux: Literal[True]
) -> tuple[R, LinearFunction[R, *Args], A]: ...
@overload
def linearize(
    f: Callable[[*Args], R], /, *primals: *Args, has_aux: Literal[False] = False
) -> tuple[R, LinearFunction[R, *Args]]: ...
@overload
def linearize(f: Callable[..., Any], /, *primals: Any, has_aux: bool) -> Any: ...
def linearize(  # type: ignore[misc] # mypy does not see that Any takes each of several types
    f: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> Any:
    """Return the value of `f` and its derivative at this point as a reusable linear function: `t -> J(x) t`.

    Args:
        f: a function of NumPy code, which runs once.
        primals: the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        has_aux: `f` returns a pair `(value, aux)`.

    Returns:
        `(value, linear)`, or `(value, linear, aux)`. `linear(*tangents)` takes one tangent per argument and returns the tangent
        of the value. `linear.transpose(g)` takes a cotangent of the value and returns a tuple with one cotangent per argument.

    Raises:
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> value, linear = linearize(lambda x: x**2, np.array([1.0, 2.0]))
        >>> linear(np.array([1.0, 1.0])), linear(np.array([0.0, 3.0]))
        (array([2., 4.]), array([ 0., 12.]))
        >>> linear.transpose(np.array([1.0, 10.0]))
        (array([ 2., 40.]),)
    """
    return pulled_back("linearize", f, primals, has_aux=has_aux, kind=LinearFunction)


def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a linear function: `g -> g^T A` for `f(x) = A x`.

    Args:
        f: a function of NumPy code that is jointly linear in all its arguments. Solvers and code that cannot be traced are
            assumed to be linear; `functad.testing.check_rules(f, *primals, linear=True)` tests this numerically.
        primals: arrays, numbers, `ArraySpec`s or pytrees of them. Only shapes and dtypes matter.

    Returns:
        A function that takes the cotangent of the result and returns a tuple with one cotangent per argument.

    Raises:
        NotLinearError: `f` is not linear; the message names the operation.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> transpose = linear_transpose(lambda x: np.cumsum(2 * x), np.zeros(3))
        >>> transpose(np.array([1.0, 0.0, 1.0]))
        (array([4., 2., 2.]),)
    """
    selection = Selection("linear_transpose", f, range(len(primals)))
    at_zero = tuple([tree_map(_zeros, primal) for primal in primals])
    recorder = ReverseRecorder("linear_transpose", f)
    recorder.lasting = True
    inputs = wrap_inputs(recorder, selection, at_zero, {})
    expressions = linear_list("linear_transpose", f, f, at_zero)
    structures = {name: getattr(expressions, name) for name in ("input_structure", "output_structure")}
    expressions = extract(expressions).replace(**structures)  # without dead code
    with np.errstate(all="ignore"):  # values that the derivative does not need may be infinite at zero
        out = traced(recorder, expressions, inputs.args, {})
    pull = Pullback(recorder, inputs, out, selection)
    for value, path in zip(pull.values, pull.structure.paths("result"), strict=True):
        value = innermost(value)
        if not isinstance(value, ArraySpec) and np.any((value != 0) & (value == value)):  # zero times infinity is NaN
            raise NotLinearError(
                f"{selection.call}: {path} is not zero where all arguments are, so a constant is added. Take it out, or use "
                f"vjp."
            )
    return pull


def _zeros(leaf: Any) -> Any:
    if isinstance(leaf, ArraySpec):
        return np.zeros(leaf.shape, leaf.dtype)[()]
    if undifferentiable(leaf) is not None:
        return leaf  # `wrap_inputs` raises for this leaf
    return zeros_for(shape_of(leaf), inexact(leaf), leaf)[()]


# Linearity analysis

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
        reason = str(error).removesuffix(f" [{error.code}]")
        raise NotLinearError(f"{asked} the result depends on a value of the arguments. {reason}") from error
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
