"""Derivatives of high order along a path: truncated power series pushed through a function.

A Tensor of such a trace has a value and the further coefficients of its power series in one number t. Calls that are linear
in what they are given act on each coefficient, products convolve them, quotients are a recurrence. Everything else follows from
its JVP rule: `y = f(x(t))` has `y' = J(x(t)) x'(t)`, so the coefficients of order k of y are those of order k - 1 of the right
side, over k, and the right side is the rule itself, run on series that are one term shorter (Griewank and Walther, Evaluating
Derivatives, 2008, section 13.2). So every primitive has a series rule without one being written.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from functad.errors import InputError, StructureError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import call_of, here, name_of
from functad.primitives.elementwise.arithmetic import DIVIDE, MULTIPLY
from functad.primitives.entry import Primitive
from functad.primitives.kinds import forward_plan
from functad.primitives.plan import Plan
from functad.primitives.safe import PRODUCT, QUOTIENT
from functad.tracing.fitting import forward_specs
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import Recorded, Recorder, alike, bare
from functad.tracing.views import clone, note_if_view
from functad.transforms.calling.arguments import (
    check_like,
    checked_leaves,
    described,
    held_primal,
    own_aux,
    split_aux,
    traced,
    undifferentiable,
    value_of,
)
from functad.transforms.calling.results import own_results
from functad.transforms.calling.selection import Selection
from functad.transforms.calling.transform import transform
from functad.transforms.linearity import is_linear
from functad.transforms.walks.cotangents import zero_tangent
from functad.transforms.walks.forward import fit, push_record
from functad.trees.structure import flatten

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
Coefficients = list[Any]
"""What a series has beside its value, from order 1 on; `None` is zero."""


class SeriesRecorder(Recorder):
    """A trace on concrete values whose Tensors carry power series.

    Attributes:
        order: the highest order that is kept.
        series: by slot, the coefficients from order 1 on.
    """

    pushes = True
    sees_inside = True

    def __init__(self, transform: str, function: object, order: int) -> None:
        super().__init__(transform, function)
        self.order = order
        self.series: list[Coefficients] = []

    def tensor(self, value: Any, coefficients: Coefficients) -> Tensor:
        """Return the Tensor of a power series."""
        self.series.append(coefficients)
        return bare(Tensor, self, value, len(self.series) - 1)  # type: ignore[no-any-return]

    def results(self, primitive: Primitive, out: Any, coefficients: Coefficients) -> Any:
        """Return the Tensor of what a primitive gave, or those of several results, whose coefficients stand in tuples."""
        if not primitive.multiple:
            return self.tensor(out, coefficients)
        columns = list(zip(*coefficients, strict=True)) or [()] * len(out)
        return alike(out, [self.tensor(value, list(column)) for value, column in zip(out, columns, strict=True)])

    def buffer(self, value: Any) -> Tensor:
        """Return a new array as a Tensor, into which others can be written."""
        return self.tensor(value, [None] * self.order)

    def coefficients(self, value: Any, order: int) -> Coefficients:
        """Return the coefficients of a Tensor from order 1 up to an order; those of anything else are zero."""
        if isinstance(value, Recorded) and value.recorder is self:
            return self.series[value.slot][:order]
        return [None] * order

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call on power series."""
        own = [isinstance(a, Recorded) and a.recorder is self for a in arrays]
        values = [a.below if mine else clone(a) if isinstance(a, Recorded) else a for a, mine in zip(arrays, own, strict=True)]
        out = primitive(*values, **params)
        active = tuple([i for i, mine in enumerate(own) if mine and (primitive.joint or primitive.differentiable(i))])
        if not active or out is NotImplemented:
            return out
        order = min(len(self.series[arrays[i].slot]) for i in active)
        plan = forward_plan(primitive, active) or primitive.reverse_plan(active)
        call = _Call(self, primitive, arrays, values, active, params, out, plan)
        made = self.results(primitive, out, call.coefficients(order))
        if primitive.views and not primitive.multiple:
            note_if_view(arrays[0], made, values[0], out, primitive, params)
        return made


class _Call(NamedTuple):
    """One call of a primitive on power series.

    Attributes:
        arrays: the arguments: Tensors of this trace, and others.
        values: the arguments one level lower.
        active: positions of those with a series.
        out: the value of the result.
        plan: the rules that give its tangent, or the VJP rules if these are to be transposed.
    """

    recorder: SeriesRecorder
    primitive: Primitive
    arrays: Sequence[Any]
    values: Sequence[Any]
    active: tuple[int, ...]
    params: dict[str, Any]
    out: Any
    plan: Plan

    def coefficients(self, order: int) -> Coefficients:
        """Return the coefficients of the result from order 1 up to an order; tuples if there are several results."""
        if not order:
            return []
        if is_linear(self.plan) and self.plan.push is not None:
            return self._linear(order)
        if self.primitive in (MULTIPLY, PRODUCT) or self.primitive.kind == "multilinear":
            return self._product(order)
        if self.primitive in (DIVIDE, QUOTIENT):
            return self._quotient(order)
        return self._by_rule(order)

    def _linear(self, order: int) -> Coefficients:
        saved = self.plan.save(self.values, self.out, self.params)
        columns = [self.recorder.coefficients(self.arrays[i], order) for i in self.active]
        return [self._pushed(list(ts), saved) for ts in zip(*columns, strict=True)]

    def _pushed(self, ts: list[Any], saved: Any) -> Any:
        outs = self.out if self.primitive.multiple else (self.out,)
        if all(t is None for t in ts):
            return (None,) * len(outs) if self.primitive.multiple else None
        return push_record(self.plan, ts, saved, forward_specs(self.primitive, self.values, self.active, self.out))

    def _product(self, order: int) -> Coefficients:
        """Convolve: `c_k` is the sum of the products of coefficients whose orders add up to k."""
        series = [
            [value, *(self.recorder.coefficients(a, order) if i in self.active else [None] * order)]
            for i, (a, value) in enumerate(zip(self.arrays, self.values, strict=True))
        ]
        result = []
        for k in range(1, order + 1):
            terms = [self.primitive(*factors, **self.params) for factors in _factors(series, k)]
            result.append(functools.reduce(lambda a, b: a + b, terms) if terms else None)
        return result

    def _quotient(self, order: int) -> Coefficients:
        """Solve `c b = a` for c: `c_k = (a_k - sum_j b_j c_(k-j)) / b_0`."""
        tops, bottoms = [
            self.recorder.coefficients(a, order) if i in self.active else [None] * order for i, a in enumerate(self.arrays)
        ]
        found = [self.out]
        for k in range(1, order + 1):
            total = tops[k - 1]
            for j in range(1, k + 1):
                if bottoms[j - 1] is not None and found[k - j] is not None:
                    part = bottoms[j - 1] * found[k - j]
                    total = -part if total is None else total - part
            found.append(None if total is None else self.primitive(total, self.values[1], **self.params))
        return found[1:]

    def _by_rule(self, order: int) -> Coefficients:
        """Run the JVP rule on series that are one term shorter."""
        recorder = self.recorder
        values, slopes = list(self.values), []
        for i in self.active:
            own = recorder.coefficients(self.arrays[i], order)
            values[i] = recorder.tensor(self.values[i], own[: order - 1])
            rising = [None if c is None else c * (k + 1.0) for k, c in enumerate(own)]
            first = zero_tangent(self.values[i]) if rising[0] is None else rising[0]
            slopes.append(recorder.tensor(first, rising[1:]))
        out = self.out
        if "out" in self.plan.names:
            out = recorder.results(self.primitive, out, self.coefficients(order - 1))
        found = self._pushed(slopes, self.plan.save(values, out, self.params))
        if not self.primitive.multiple:
            return self._integrated(found, order)
        return list(zip(*[self._integrated(part, order) for part in found], strict=True))

    def _integrated(self, slope: Any, order: int) -> Coefficients:
        """Return the coefficients from order 1 on of a series with the given derivative."""
        if not isinstance(slope, Recorded) or slope.recorder is not self.recorder:
            return [slope, *[None] * (order - 1)]
        terms = [slope.below, *self.recorder.coefficients(slope, order - 1)]
        return [None if term is None else term if k == 0 else term / (k + 1.0) for k, term in enumerate(terms)]


def _factors(series: Sequence[Sequence[Any]], k: int) -> list[list[Any]]:
    """Return the factors, none of which is zero, of all products whose orders add up to k."""
    found = []
    for orders in itertools.product(range(k + 1), repeat=len(series) - 1):
        last = k - sum(orders)
        if last >= 0:
            factors = [terms[j] for terms, j in zip(series, (*orders, last), strict=True)]
            if all(factor is not None for factor in factors):
                found.append(factors)
    return found


@overload
def taylor(
    f: Callable[..., R],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int | None = None,
    has_aux: Literal[False] = False,
) -> list[R]: ...
@overload
def taylor(
    f: Callable[..., tuple[R, A]],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int | None = None,
    *,
    has_aux: Literal[True],
) -> tuple[list[R], A]: ...
def taylor(
    f: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int | None = None,
    has_aux: bool = False,
) -> Any:
    """Return the Taylor coefficients of `f` along a path: `f(x(t)) = c_0 + c_1 t + c_2 t^2 + ...`.

    The path is `x(t) = x_0 + x_1 t + x_2 t^2 + ...`; a straight line through `x_0` has the one coefficient `x_1`. The function
    is run once, on concrete values; the cost of products grows with the square of the order.

    Args:
        f: a function of NumPy code.
        primals: the tuple of its arguments `x_0`: floating-point arrays, numbers or trees of them.
        series: for each argument the sequence of coefficients `x_1, x_2, ...` of its path, each like the argument.
        order: the order of the last coefficient wanted; by default that of the longest path.
        has_aux: `f` returns a pair `(value, aux)`, of which `aux` is handed through.

    Returns:
        The list `[c_0, c_1, ..., c_order]`, each like the result of `f`; or `(list, aux)`. The k-th derivative by t at 0 is
        `k! c_k`.

    Raises:
        InputError: an argument cannot be differentiated, or the order is not positive.
        StructureError: coefficients do not match the argument.

    Example:
        >>> import numpy as np
        >>> [round(float(c), 4) for c in taylor(np.exp, (0.0,), ([1.0],), order=4)]
        [1.0, 1.0, 0.5, 0.1667, 0.0417]
    """
    found, *aux = coefficients("taylor", f, primals, series, order, has_aux=has_aux)
    return (found, *aux) if has_aux else found


def coefficients(
    transform: str,
    f: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int | None = None,
    *,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the list that `taylor` does, and with `has_aux` what `f` returned beside, under the name of another transform."""
    if not isinstance(primals, (tuple, list)) or not isinstance(series, (tuple, list)) or len(primals) != len(series):
        raise InputError(
            f"{call_of(transform, f)}: primals is the tuple of all arguments, series that of the sequences of their "
            f"coefficients; write {transform}(f, (x,), ([x1, x2],)) for one."
        )
    order = max(map(len, series), default=0) if order is None else order
    if not hasattr(order, "__index__") or order < 1:
        raise InputError(f"{call_of(transform, f)}: the order is {order!r}; it must be an integer, at least 1.")
    recorder = SeriesRecorder(transform, f, order)
    args = [_entered(recorder, f, i, primal, path) for i, (primal, path) in enumerate(zip(primals, series, strict=True))]
    recorder.inputs = len(recorder.series)
    out, aux = split_aux(traced(recorder, f, args, {}), has_aux, Selection(transform, f, 0, None))
    leaves, structure = checked_leaves(out, transform, f)
    columns = [_terms(recorder, leaf, order) for leaf in leaves]
    given = flatten((list(primals), list(series)))[0]
    terms = own_results([column[k] for k in range(order + 1) for column in columns], given)
    found = [structure.unflatten(terms[k * len(columns) : (k + 1) * len(columns)]) for k in range(order + 1)]
    return (found, own_aux(aux, recorder, [*given, *terms])) if has_aux else (found,)


def _entered(recorder: SeriesRecorder, f: Callable[..., Any], position: int, primal: Any, path: Sequence[Any]) -> Any:
    """Return an argument with Tensors of power series in place of its leaves."""
    leaves, structure = flatten(primal)
    leaves = [value_of(leaf) for leaf in leaves]
    for leaf, place in zip(leaves, structure.paths(f"primals[{position}]"), strict=True):
        reason = undifferentiable(leaf)
        if reason is not None:
            raise InputError(f"{call_of(recorder.transform, f)}: {place} is {described(leaf)}. {reason}")
    if not isinstance(path, (tuple, list)):
        raise StructureError(f"series[{position}] is a {type(path).__name__}, not a list of coefficients, at {here()}.")
    terms = [
        check_like(term, structure, leaves, f"series[{position}][{k}]", "argument")
        for k, term in enumerate(path[: recorder.order])
    ]
    missing = [None] * (recorder.order - len(terms))
    columns = zip(*terms, strict=True) if terms else [()] * len(leaves)
    held = [held_primal(leaf, recorder) for leaf in leaves]
    return structure.unflatten([recorder.tensor(leaf, [*column, *missing]) for leaf, column in zip(held, columns, strict=True)])


def _terms(recorder: SeriesRecorder, leaf: Any, order: int) -> list[Any]:
    own = isinstance(leaf, Recorded) and leaf.recorder is recorder
    value = leaf.below if own else leaf
    spec = (shape_of(value), dtype_of(value) if dtype_of(value).kind in "fc" else np.dtype(np.float64))
    return [value, *[zero_tangent(value) if c is None else fit(c, spec) for c in recorder.coefficients(leaf, order)]]


@transform
def deriv(
    f: Callable[P, R], n: int = 1, argnums: int = 0, argnames: str | None = None, has_aux: bool = False
) -> Callable[P, R]:
    """Return a function that gives the n-th derivative of a function of one number: `d^n f(x) / dx^n`.

    It is found from a Taylor series, whose cost grows far slower with n than that of nested gradients.

    Args:
        f: a function of NumPy code, one of whose arguments is a real number; it may return arrays or trees. Without it a
            decorator is returned.
        n: the order; 0 gives the value.
        argnums: position of the argument to differentiate, of shape `()`.
        argnames: its name; it takes the place of the default `argnums=0`.
        has_aux: `f` returns a pair `(value, aux)`, of which `aux` is handed through.

    Returns:
        A function with the signature of `f`; its result has structure, shapes and dtypes of that of `f`, or is
        `(derivative, aux)`.

    Raises:
        InputError: the argument is not one number, or n is negative.
        OutputError: `f` returned something that is no tree of arrays.

    Example:
        >>> import numpy as np
        >>> deriv(np.exp, 5)(0.0), float(deriv(lambda x: x**3, 2)(2.0))
        (np.float64(1.0), 12.0)
        >>> @deriv(n=2, argnames="time")
        ... def acceleration(speed, time):
        ...     return speed * time - 4.905 * time**2
        >>> float(acceleration(20.0, 1.0))
        -9.81
    """
    selection = Selection("deriv", f, argnums, argnames)
    if not selection.single:
        raise InputError(f"deriv of {name_of(f)}, at {here()}: one argument can be differentiated, by argnums or by argnames.")
    if not hasattr(n, "__index__") or n < 0:
        raise InputError(f"deriv of {name_of(f)}, at {here()}: the order is {n!r}; it must be an integer, and not negative.")

    @functools.wraps(f)
    def derived(*args: P.args, **kwargs: P.kwargs) -> Any:
        (key,) = selection.keys(args, kwargs)
        given: dict[int | str, Any] = dict(enumerate(args))
        given.update(kwargs)
        if n == 0:
            return f(*args, **kwargs)
        _check_number(value_of(given[key]), key, f)

        def along(x: Any) -> Any:
            own = {**given, key: x}
            return f(*[own[i] for i in range(len(args))], **{name: own[name] for name in kwargs})

        functools.update_wrapper(along, f)
        x = given[key]
        terms, *aux = coefficients("deriv", along, (x,), ([dtype_of(value_of(x)).type(1)],), n, has_aux=has_aux)
        leaves, structure = flatten(terms[n])
        result = structure.unflatten([leaf * float(math.factorial(n)) for leaf in leaves])
        return (result, *aux) if aux else result

    return derived


def _check_number(x: Any, key: int | str, f: Callable[..., Any]) -> None:
    """Raise unless an argument is one number that can be differentiated."""
    where = f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]"
    reason = undifferentiable(x)
    if reason is None and shape_of(x) != ():
        reason = "Use elementwise_grad for functions of arrays that act on each element, or taylor along a path."
    if reason is not None:
        raise InputError(f"{call_of('deriv', f)}: {where} is {described(x)}, and should be one number. {reason}")
