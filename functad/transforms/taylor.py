"""Taylor mode: truncated power series pushed forward through a function.

A Tensor of such a trace has a value and the higher coefficients of its power series in a scalar t. Linear calls act on each
coefficient, products convolve the coefficients, and quotients use a recurrence. The series of every other primitive follows
from its JVP rule: `y = f(x(t))` has the derivative `y' = J(x(t)) x'(t)`. The coefficient of order k of `y` is the coefficient
of order k - 1 of the right side, divided by k. The right side is the JVP rule, applied to series that are one term shorter
(Griewank and Walther, Evaluating Derivatives, 2008, section 13.2). No primitive needs a series rule of its own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from functad.errors import InputError, StructureError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import call_of, here, name_of
from functad.primitives.entry import Plan, Primitive
from functad.tracing.concrete import forward_fits
from functad.tracing.ownership import own_results
from functad.tracing.trace import Recorded, Recorder, alike, value_of
from functad.tracing.views import clone, note_if_view
from functad.transforms.boundary import (
    Inputs,
    check_like,
    checked_leaves,
    described,
    own_aux,
    split_aux,
    traced,
    undifferentiable,
    wrap_inputs,
)
from functad.transforms.forward import fit, push_record
from functad.transforms.linear import is_linear
from functad.transforms.reverse import zero_tangent
from functad.transforms.transform import Selection, transform
from functad.trees import flatten

P = ParamSpec("P")
R = TypeVar("R")
Coefficients = list[Any]
"""The coefficients of a series from order 1 on; `None` means zero."""


class SeriesRecorder(Recorder):
    """A trace on concrete values with power series as Tensors. The records are the coefficients from order 1 on.

    Attributes:
        order: the order of the truncation.
    """

    pushes = True
    sees_inside = True

    def __init__(self, transform: str, function: object, order: int) -> None:
        super().__init__(transform, function)
        self.order = order

    def results(self, primitive: Primitive, out: Any, coefficients: Coefficients) -> Any:
        """Return the Tensor of a result, or the Tensors of several results, with tuples as `coefficients`."""
        if not primitive.multiple:
            return self.append(coefficients, out)
        columns = list(zip(*coefficients, strict=True)) or [()] * len(out)
        return alike(out, [self.append(list(column), value) for value, column in zip(out, columns, strict=True)])

    def buffer(self, value: Any) -> Any:
        """Return a Tensor with the array `value` and zero coefficients, for writes in place."""
        return self.append([None] * self.order, value)

    def coefficients(self, value: Any, order: int) -> Coefficients:
        """Return the coefficients of a Tensor from order 1 to `order`; zeros for other values."""
        if isinstance(value, Recorded) and value.recorder is self:
            found: Coefficients = self.records[value.slot][:order]
            return found
        return [None] * order

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call on power series."""
        own = [isinstance(a, Recorded) and a.recorder is self for a in arrays]
        values = [a.below if mine else clone(a) if isinstance(a, Recorded) else a for a, mine in zip(arrays, own, strict=True)]
        out = primitive(*values, **params)
        active = tuple([i for i, mine in enumerate(own) if mine and (primitive.joint or primitive.differentiable(i))])
        if not active or out is NotImplemented:
            return out
        order = min(len(self.records[arrays[i].slot]) for i in active)
        plan = primitive.forward_plan(active) or primitive.reverse_plan(active)
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
        active: positions of the arguments with a series.
        out: the value of the result.
        plan: the JVP rules, or VJP rules for transposition if there are no JVP rules.
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
        """Return the coefficients of the result from order 1 to `order`; tuples if there are several results."""
        if not order:
            return []
        if is_linear(self.plan) and self.plan.push is not None:
            return self._linear(order)
        if self.primitive.ufunc is np.multiply or self.primitive.kind == "multilinear":
            return self._product(order)
        if self.primitive.ufunc is np.divide:
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
        return push_record(self.plan, ts, saved, forward_fits(self.primitive, self.values, self.active, self.out))

    def _product(self, order: int) -> Coefficients:
        """Return the convolution: `c_k` is the sum of all products of coefficients with total order k."""
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
        """Return the solution c of `c b = a`: `c_k = (a_k - sum_j b_j c_(k-j)) / b_0`."""
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
        """Return the coefficients from the JVP rule, applied to series that are one term shorter."""
        recorder = self.recorder
        values, slopes = list(self.values), []
        for i in self.active:
            own = recorder.coefficients(self.arrays[i], order)
            values[i] = recorder.append(own[: order - 1], self.values[i])
            rising = [None if c is None else c * (k + 1.0) for k, c in enumerate(own)]
            first = zero_tangent(self.values[i]) if rising[0] is None else rising[0]
            slopes.append(recorder.append(rising[1:], first))
        out = self.out
        if "out" in self.plan.names:
            out = recorder.results(self.primitive, out, self.coefficients(order - 1))
        found = self._pushed(slopes, self.plan.save(values, out, self.params))
        if not self.primitive.multiple:
            return self._integrated(found, order)
        return list(zip(*[self._integrated(part, order) for part in found], strict=True))

    def _integrated(self, slope: Any, order: int) -> Coefficients:
        """Return the coefficients, from order 1 on, of the series with derivative `slope`."""
        if not isinstance(slope, Recorded) or slope.recorder is not self.recorder:
            return [slope, *[None] * (order - 1)]
        terms = [slope.below, *self.recorder.coefficients(slope, order - 1)]
        return [None if term is None else term if k == 0 else term / (k + 1.0) for k, term in enumerate(terms)]


def _factors(series: Sequence[Sequence[Any]], k: int) -> list[list[Any]]:
    """Return the factors of all nonzero products of coefficients with total order k."""
    found = []
    for orders in itertools.product(range(k + 1), repeat=len(series) - 1):
        last = k - sum(orders)
        if last >= 0:
            factors = [terms[j] for terms, j in zip(series, (*orders, last), strict=True)]
            if all(factor is not None for factor in factors):
                found.append(factors)
    return found


def taylor(
    f: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int | None = None,
    has_aux: bool = False,
) -> Any:
    """Return the Taylor coefficients of `f` along a path: `f(x(t)) = c_0 + c_1 t + c_2 t^2 + ...`.

    The path is `x(t) = x_0 + x_1 t + x_2 t^2 + ...`. A straight line through `x_0` has the single coefficient `x_1`. `f` runs
    once, on concrete values. The cost of products grows with the square of the order.

    Args:
        f: a function of NumPy code.
        primals: the tuple of the arguments `x_0` of `f`: floating-point arrays, numbers or pytrees of them.
        series: for each argument, the sequence of coefficients `x_1, x_2, ...` of its path. Each coefficient has the structure
            and shapes of the argument.
        order: the order of the last coefficient. By default, the order of the longest path.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is returned unchanged.

    Returns:
        The list `[c_0, c_1, ..., c_order]`, or `(list, aux)`. Each coefficient has the structure and shapes of the result of
        `f`. The k-th derivative with respect to t at 0 is `k! c_k`.

    Raises:
        InputError: an argument cannot be differentiated, or the order is not positive.
        StructureError: the coefficients do not match the argument.

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
    """Return the list of coefficients as `taylor`, and with `has_aux` the auxiliary result, in a tuple."""
    if not isinstance(primals, (tuple, list)) or not isinstance(series, (tuple, list)) or len(primals) != len(series):
        raise InputError(
            f"{call_of(transform, f)}: primals is the tuple of all arguments, series that of the sequences of their "
            f"coefficients; write {transform}(f, (x,), ([x1, x2],)) for one."
        )
    order = max(map(len, series), default=0) if order is None else order
    if not hasattr(order, "__index__") or order < 1:
        raise InputError(f"{call_of(transform, f)}: the order is {order!r}; it must be an integer, at least 1.")
    recorder = SeriesRecorder(transform, f, order)
    selection = Selection(transform, f, range(len(primals)))
    inputs = wrap_inputs(recorder, selection, tuple(primals), {})
    _set_paths(recorder, inputs, series)
    out, aux = split_aux(traced(recorder, f, inputs.args, {}), has_aux, selection)
    leaves, structure = checked_leaves(out, transform, f)
    columns = [_terms(recorder, leaf) for leaf in leaves]
    given = flatten((list(primals), list(series)))[0]
    terms = own_results([column[k] for k in range(order + 1) for column in columns], given)
    found = [structure.unflatten(terms[k * len(columns) : (k + 1) * len(columns)]) for k in range(order + 1)]
    return (found, own_aux(aux, recorder, [*given, *terms])) if has_aux else (found,)


def _set_paths(recorder: SeriesRecorder, inputs: Inputs, series: Sequence[Sequence[Any]]) -> None:
    """Set the coefficients of the inputs of a trace."""
    slot = 0
    for i, (structure, path) in enumerate(zip(inputs.structures, series, strict=True)):
        if not isinstance(path, (tuple, list)):
            raise StructureError(f"series[{i}] is a {type(path).__name__}, not a list of coefficients, at {here()}.")
        leaves = inputs.primals[slot : slot + structure.leaves]
        terms = [
            check_like(term, structure, leaves, f"series[{i}][{k}]", "argument")
            for k, term in enumerate(path[: recorder.order])
        ]
        missing = [None] * (recorder.order - len(terms))
        for j in range(len(leaves)):
            recorder.records[slot + j] = [*[term[j] for term in terms], *missing]
        slot += len(leaves)


def _terms(recorder: SeriesRecorder, leaf: Any) -> list[Any]:
    """Return the value of a result and its coefficients; zeros for `None`."""
    own = isinstance(leaf, Recorded) and leaf.recorder is recorder
    value = leaf.below if own else leaf
    spec = (shape_of(value), dtype_of(value) if dtype_of(value).kind in "fc" else np.dtype(np.float64))
    return [value, *[zero_tangent(value) if c is None else fit(c, spec) for c in recorder.coefficients(leaf, recorder.order)]]


@transform
def deriv(
    f: Callable[P, R], n: int = 1, argnums: int = 0, argnames: str | None = None, has_aux: bool = False
) -> Callable[P, R]:
    """Return a function that computes the n-th derivative of `f` with respect to one number: `d^n f(x) / dx^n`.

    The derivative comes from a Taylor series. Its cost grows far slower with n than the cost of nested gradients.

    Args:
        f: a function of NumPy code that returns an array or a pytree of arrays. Without `f`, the transform returns a decorator.
        n: the order of the derivative; 0 gives the value.
        argnums: position of the argument to differentiate with respect to, a number or an array of shape `()`.
        argnames: name of this argument. If given, the default of `argnums` does not apply.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is returned unchanged.

    Returns:
        A function with the signature of `f` that returns the derivative, or `(derivative, aux)`. The derivative has the
        structure, shapes and dtypes of the result of `f`.

    Raises:
        InputError: the argument is not one number, or n is negative.
        OutputError: the result of `f` is not a pytree of arrays.

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
        dtype = dtype_of(value_of(x))
        power = _power_of_step(int(n), dtype)
        terms, *aux = coefficients("deriv", along, (x,), ([dtype.type(2.0**power)],), n, has_aux=has_aux)
        leaves, structure = flatten(terms[n])
        result = structure.unflatten([leaf * (math.factorial(n) / 2 ** (power * n)) for leaf in leaves])
        return (result, *aux) if aux else result

    return derived


def _power_of_step(n: int, dtype: np.dtype[Any]) -> int:
    """Return the power of two by which `deriv` scales the path, so that neither `n!` nor the coefficients overflow.

    The path `x + h t` has the coefficients `h^k f^(k) / k!`. With `h^n` near the square root of `n!`, the coefficients of `exp`
    do not underflow, and those of `1 / x` do not overflow. `n! / h^n` stays below the square root of the largest number of the
    dtype. Multiplication by a power of two is exact.
    """
    bits = math.log2(math.factorial(n))
    return max(round(bits / (2 * n)), math.ceil((bits - np.finfo(dtype).maxexp / 2) / n))


def _check_number(x: Any, key: int | str, f: Callable[..., Any]) -> None:
    """Raise `InputError` unless an argument is one differentiable number."""
    where = f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]"
    reason = undifferentiable(x)
    if reason is None and shape_of(x) != ():
        reason = "Use elementwise_grad for functions of arrays that act on each element, or taylor along a path."
    if reason is not None:
        raise InputError(f"{call_of('deriv', f)}: {where} is {described(x)}, and should be one number. {reason}")
