"""`odeint`: the solution of an ordinary differential equation by SciPy, with derivatives in both modes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, InputError, StructureError, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of, strong_spec
from functad.implicit.initial_value import METHODS, Problem
from functad.implicit.linear_solve import Leaves, inexact
from functad.places import here, name_of
from functad.primitives.operands import as_operand, innermost
from functad.tracing.ownership import lend, lend_read_only
from functad.tracing.trace import Recorded, value_of
from functad.transforms.leaves import replaced
from functad.transforms.lists import Closed, close, trace
from functad.trees import LEAF, Structure, flatten


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    method: str = "RK45",
    rtol: float = 1e-8,
    atol: Any = 1e-8,
    first_step: float | None = None,
    max_step: float = np.inf,
) -> Any:
    """Return the solution of `dy/dt = f(y, t, *args)`, `y(t[0]) = y0`, at the times `t`.

    `scipy.integrate.solve_ivp` (extra `scipy`) computes the solution. It is differentiable in `y0`, `t` and `args`: reverse
    mode solves the adjoint equation backward, forward mode solves the variational equation. `f` is NumPy code. Captured Tensors
    of outer transforms get derivatives too, unless `f` branches on values.

    Args:
        f: `f(y, t, *args)`, which returns a pytree like `y0`.
        y0: the state at `t[0]`: an array, a number or a pytree of them. A list of numbers is an array.
        t: the times, strictly increasing or decreasing, of shape `(n,)`.
        args: parameters: arrays or pytrees of them.
        method: the method of `solve_ivp`: `RK45`, `RK23`, `DOP853`; for stiff equations `BDF`, `Radau` or `LSODA`, which
            receive the exact Jacobian of `f`.
        rtol: the relative tolerance of a step, also for derivatives.
        atol: the absolute tolerance: a number, or a pytree like `y0` of numbers and arrays with one tolerance per component.
            Derivatives of a component use its tolerance; all other quantities use the smallest.
        first_step: the size of the first step. `None`: chosen by the method.
        max_step: the largest step.

    Returns:
        A pytree like `y0`, each leaf with a leading time axis: `y[i]` is the state at `t[i]`.

    Raises:
        ImplicitError: the solver did not reach the last time.
        InputError: `t` is not a vector of ordered times, or another argument is invalid.
        StructureError: `f` does not return a pytree like `y0`.
        UnsupportedError: a third derivative, such as `grad` of `grad` of `grad`, differentiates the backward pass twice.
        MissingPackageError: SciPy is not installed.

    Second derivatives integrate the state and its tangent forward, and only adjoints backward. They are therefore stable for
    stiff equations, in every mixture of modes. Higher derivatives may differentiate the backward pass at most once, as in
    `grad` of `jvp` of `jvp`.

    Example:
        >>> import numpy as np, functad
        >>> def decay(y, t, rate):
        ...     return -rate * y
        >>> t = np.array([0.0, 1.0, 2.0])
        >>> functad.odeint(decay, 1.0, t, 0.5).round(6)
        array([1.      , 0.606531, 0.367879])
        >>> float(functad.grad(lambda rate: functad.odeint(decay, 1.0, t, rate)[-1])(0.5).round(5))
        -0.73576
    """
    first = {} if first_step is None else {"first_step": first_step}
    _check_settings(f, method, {"rtol": rtol, "max_step": max_step, **first})
    if type(y0) is list and all(type(y) is not list and shape_of(value_of(y)) == () for y in flatten(y0)[0]):
        y0 = as_operand(y0)
    given, structure = flatten(y0)
    ys = [inexact(value_of(leaf), "y0", f) for leaf in given]
    absolute = _tolerances(atol, structure, ys)
    options = {"rtol": rtol, "atol": absolute, "first_step": first_step, "max_step": max_step}
    times = inexact(value_of(as_operand(t)), "t", f)
    if len(shape_of(times)) != 1 or not shape_of(times)[0] or dtype_of(times).kind == "c":
        raise InputError(f"odeint of {name_of(f)}, at {here()}: t is {spec_of(times)}; it must be a vector of times.")
    leaves, of_args = flatten(args)
    ps = [value_of(leaf) for leaf in leaves]
    specs = tuple([strong_spec(leaf) for leaf in ys])

    closed, captured = _captures(f, _Slopes(f, structure, of_args, specs), [*ys, times[0], *ps])
    problem = Problem(name_of(f), closed, specs, shape_of(times)[0], method, options)
    return structure.unflatten(problem.trajectory(ys, times, [*ps, *captured]))


class _Slopes:
    """The right-hand side as a function of leaves: state, time, parameters.

    Attributes:
        f: the function of the user.
        structure, specs: the structure and the specs of the state.
        of_args: the structure of the parameters.
    """

    def __init__(self, f: Callable[..., Any], structure: Structure, of_args: Structure, specs: Sequence[ArraySpec]) -> None:
        self.f, self.structure, self.of_args, self.specs = f, structure, of_args, specs

    def __call__(self, *values: Any) -> list[Any]:
        """Return the time derivatives of the state leaves."""
        count, structure = len(self.specs), self.structure
        state = structure.unflatten([lend(value) for value in values[:count]])  # f may write to its state
        slopes = self.f(state, values[count], *self.of_args.unflatten([lend_read_only(value) for value in values[count + 1 :]]))
        if structure is LEAF:
            slopes = as_operand(slopes)
        leaves = structure.flatten_like(slopes, "f(y, t)")
        return [_slope(leaf, spec, self.f) for leaf, spec in zip(leaves, self.specs, strict=True)]


def _captures(f: Callable[..., Any], flat: Callable[..., list[Any]], leaves: Leaves) -> tuple[Any, Leaves]:
    """Return the right-hand side and its captured Tensors, which become parameters.

    Raises:
        UnsupportedError: `f` captures Tensors and branches on values, so the Tensors cannot be found.
    """
    values = [innermost(leaf) for leaf in leaves]
    known = not any(isinstance(value, ArraySpec) for value in values)
    if known and not any(isinstance(slope, Recorded) for slope in flat(*values)):
        return flat, ()
    numeric = [
        i for i, value in enumerate(values) if issubclass(type(value), (ArraySpec, np.ndarray, np.generic, int, float, complex))
    ]

    try:
        of_numbers = lambda *given: flat(*replaced(values, numeric, given))  # noqa: E731
        closed = Closed(*close(trace("odeint", of_numbers, [strong_spec(values[i]) for i in numeric], function=f)))
    except AbstractValueError as error:
        if not known:
            return flat, ()  # the trace of a captured Tensor has ended when `f` runs, which raises
        raise UnsupportedError(
            f"odeint: {name_of(f)} uses a Tensor that is no argument, at {here()}, and branches on values, so its derivative "
            f"cannot be followed. Pass it to odeint among the args."
        ) from error
    if not closed.captured:
        return flat, ()

    return functools.partial(_with_captured, closed, numeric, len(leaves)), closed.captured


def _with_captured(closed: Callable[..., list[Any]], numeric: Sequence[int], count: int, *given: Any) -> list[Any]:
    """Evaluate the right-hand side for `count` leaves, followed by the captured values."""
    return closed(*[given[i] for i in numeric], *given[count:])


def _slope(slope: Any, spec: ArraySpec, f: Callable[..., Any]) -> Any:
    """Return the time derivative of a state leaf, cast to the dtype of the leaf."""
    slope = as_operand(slope)
    own = spec_of(slope)
    if own.shape != spec.shape:
        raise StructureError(f"odeint of {name_of(f)}, at {here()}: it returned {own} for a state that is {spec}.")
    if own.dtype.kind == "c" and spec.dtype.kind != "c":
        raise InputError(f"odeint of {name_of(f)}, at {here()}: it returned complex numbers for a real state; make y0 complex.")
    if own.weak:
        return slope * spec.dtype.type(1)
    return slope if own.dtype == spec.dtype else slope.astype(spec.dtype)


def _tolerances(atol: Any, structure: Structure, ys: Leaves) -> Any:
    """Return the absolute tolerance: a number, or a tuple with a number or an array for each leaf of the state.

    Raises:
        InputError: a tolerance is not positive, or does not fit the state.
        StructureError: `atol` is a pytree with another structure than the state.
    """
    single = np.isscalar(atol) and not isinstance(atol, str)
    tree = as_operand(atol) if structure is LEAF else atol  # for a single array a list of numbers is an array, not a pytree
    leaves = [atol] if single else [as_operand(a) for a in structure.flatten_like(tree, "atol")]
    for a, y in zip(leaves, ys, strict=False):
        shape = () if single else shape_of(y)
        fits = not isinstance(a, Recorded) and np.asarray(a).dtype.kind in "iuf" and np.shape(a) in ((), shape)
        if not fits or not np.all(np.asarray(a) > 0):
            raise InputError(
                f"odeint with atol={atol!r}, at {here()}: it is a positive number, or a tree like y0 with a positive number, "
                f"or an array of its shape, for each leaf."
            )
    return float(atol) if single else tuple([np.asarray(a, float) for a in leaves])


def _check_settings(f: Any, method: str, numbers: Mapping[str, Any]) -> None:
    if not callable(f):
        raise InputError(f"odeint needs a function f(y, t, *args), not a {type(f).__name__}, at {here()}.")
    if method not in METHODS:
        raise InputError(f"odeint with method={method!r}, at {here()}: choose one of {', '.join(METHODS)}.")
    for name, value in numbers.items():
        if isinstance(value, Recorded) or np.ndim(value) or not value > 0:
            raise InputError(f"odeint with {name}={value!r}, at {here()}: it is a positive number.")
