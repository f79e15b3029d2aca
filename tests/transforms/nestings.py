"""What the machine of `test_nesting_machine.py` nests: programs, transforms of them, and what each should give by numbers.

All are functions of three numbers that return three, so that any fits into any. A transform is written twice: by functad, and
by differences or calls of the function that it is given. That function is functad's in both, and was compared with numbers when
it was made itself, so a long nest is no less certain than a short one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import functad
from functad.testing import central_difference

Function = Callable[[Any], Any]

X = np.array([0.4, -0.7, 1.1])
V = np.array([0.5, 1.0, -0.8])
W = np.array([1.0, -0.3, 0.6])
A = np.array([[0.4, -0.9, 0.2], [0.7, 0.1, -0.5], [-0.3, 0.6, 0.8]])
SCALES = np.array([0.5, 1.0, -0.3])
AGREEMENT = 1e-6
"""Differences of two steps must agree as well as this, relative to the size of numbers, to say anything."""


def plain(value: Any) -> Any:
    """Return an array of what the TensorFlow-style layer returns as a Tensor."""
    return value.numpy() if isinstance(value, functad.Tensor) else value


def total(f: Function) -> Function:
    """Return the sum of a function, with weights, so that its gradient is not symmetric by accident."""
    return lambda x: np.sum(W * f(x))


# Programs


def written(x: Any) -> Any:
    """Write into parts of a copy, and through a view of it."""
    y = x * 1.0
    y[1:] *= x[:-1]
    tail = y[::-1]
    tail[0] += np.sin(x[1])
    return y


def looped(x: Any) -> Any:
    """Read one element at a time."""
    y = x
    for i in range(3):
        y = y * 0.8 + np.cos(x[i])
    return y


@functad.adopt
def adopted(x: Any) -> Any:
    """Fill a plain array, and call Python's `math`."""
    out = np.zeros(3)
    for i in range(3):
        out[i] = math.tanh(x[i]) + 0.5 * out[i - 1]
    return out


def branching(x: Any) -> Any:
    """Ask for a value."""
    return x * 0.7 if float(functad.stop_gradient(np.sum(x))) < 50.0 else -x


PROGRAMS: dict[str, Function] = {
    "sine": lambda x: np.sin(A @ x),
    "bell": lambda x: x[::-1] * np.exp(-0.5 * np.sum(x * x)),
    "parts": lambda x: np.concatenate([x[:1] ** 2, x[1:] * x[0]]),
    "written": written,
    "looped": looped,
    "adopted": adopted,
    "branching": branching,
    "softmax": lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))),
    "selected": lambda x: np.where(x > 0.1, np.sqrt(np.abs(x) + 1.0), x * x),
    "sorted": lambda x: np.sort(x) * A[0] + np.cumsum(x),
    "solved": lambda x: np.linalg.solve(np.eye(3) * 2.0 + np.outer(np.sin(x), A[1]) * 0.3, x),
    "norm": lambda x: x / np.sqrt(1.0 + np.linalg.norm(x) ** 2),
    "fourier": lambda x: np.fft.irfft(np.fft.rfft(x) * np.array([0.5, 1.0 + 0.3j]), 3),
    "einsum": lambda x: np.einsum("ij,j,i->i", A, np.tanh(x), x),
    "taken": lambda x: x[[2, 0, 0]] + np.stack([x[0], x[1] * x[2], np.mean(x)]),
    "logarithm": lambda x: np.log1p(x * x) - np.arctan(x),
}
VALUE_DEPENDENT = {"branching"}


# Transforms


def batched(f: Function) -> Function:
    """Return what `vmap` gives for three multiples of a point, in one array."""
    return lambda x: functad.vmap(lambda s: f(s * x), out_axes=1)(SCALES) @ W


def by_rows(f: Function) -> Function:
    return lambda x: W @ functad.vmap(f)(SCALES[:, None] * x)


def zeros_for_none(slope: Any) -> Any:
    """Return a derivative; what does not depend on the argument has none."""
    return np.zeros(3) if slope is None else slope


def of_value(tape: Any, value: Any, t: Any) -> Any:
    """Return the gradient that a tape gives; zeros of a value that does not depend on the source, and may be no Tensor."""
    if not isinstance(value, functad.Tensor):
        return np.zeros(3)
    return tape.gradient(value, t, unconnected_gradients="zero")


def taped(f: Function) -> Function:
    def gradient(x: Any) -> Any:
        with functad.GradientTape() as tape:
            t = functad.constant(x) if isinstance(x, np.ndarray) else x
            tape.watch(t)
            value = total(f)(t)
        return of_value(tape, value, t)

    return gradient


def taped_inside(f: Function) -> Function:
    """Ask a persistent tape while it records, and go on."""

    def gradient(x: Any) -> Any:
        with functad.GradientTape(persistent=True) as tape, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # it says that memory grows
            t = functad.constant(x) if isinstance(x, np.ndarray) else x
            tape.watch(t)
            inner = of_value(tape, total(f)(t), t)
            outer = np.sum(t * t)
        return inner + tape.gradient(outer, t) * 0.0

    return gradient


def implicit(f: Function) -> Function:
    def gradient(x: Any) -> Any:
        variable = functad.Variable(np.zeros(3), name="shift")
        pairs = functad.implicit_gradients(lambda: total(f)(x + variable) + 0.0 * np.sum(variable))()
        return next(slope for slope, other in pairs if other is variable)

    return gradient


def accumulated(f: Function) -> Function:
    def pushed(x: Any) -> Any:
        t = functad.constant(x) if isinstance(x, np.ndarray) else x
        with functad.ForwardAccumulator(t, V) as accumulator:
            out = f(t)
        return zeros_for_none(accumulator.jvp(out) if isinstance(out, functad.Tensor) else None)

    return pushed


def listed(f: Function) -> Function:
    return lambda x: functad.make_expressions(f)(X)(x)


def own_vjp(f: Function) -> Function:
    """Return a function with a VJP rule of its own."""

    @functad.custom_vjp
    def ruled(x: Any) -> Any:
        return f(x)

    ruled.defvjp(lambda x: (f(x), x), lambda x, g: functad.vjp(f, x)[1](g))
    return ruled


def own_jvp(f: Function) -> Function:
    """Return a function with a JVP rule of its own."""

    @functad.custom_jvp
    def ruled(x: Any) -> Any:
        return f(x)

    ruled.defjvp(lambda primals, tangents: functad.jvp(f, primals, tangents))
    return ruled


def own_gradient(f: Function) -> Function:
    """Return a function with a rule of its own, as TensorFlow has them."""

    @functad.custom_gradient
    def ruled(x: Any) -> Any:
        value, pullback = functad.vjp(f, x)
        return value, lambda g: pullback(g)[0]

    return ruled


@functad.custom_root(lambda y, p: y - 0.3 * np.sin(y) - p)
def root(start: Any, p: Any) -> Any:
    """Return the root by iteration, which is not differentiated."""
    for _ in range(60):
        start = p + 0.3 * np.sin(start)
    return start


def iterated(f: Function) -> Function:
    """Return what `root` finds, by an iteration that is differentiated."""

    def found(x: Any) -> Any:
        p = f(x)
        y = p
        for _ in range(60):
            y = p + 0.3 * np.sin(y)
        return y

    return found


def scanned(f: Function) -> Function:
    """Return two steps of a recurrence, and what each gives."""

    def steps(x: Any) -> Any:
        last, each = functad.scan(lambda c, a: (0.5 * (c + a * f(c)), c), x, np.array([0.3, -0.2]))
        return last + np.sum(each, axis=0)

    return steps


def unrolled(f: Function) -> Function:
    def steps(x: Any) -> Any:
        first = 0.5 * (x + 0.3 * f(x))
        return 0.5 * (first - 0.2 * f(first)) + x + first

    return steps


def whiled(f: Function) -> Function:
    """Return steps that a condition on the values ends."""

    def steps(x: Any) -> Any:
        start = (x, 0.0)
        return functad.while_loop(lambda c: c[1] < 1.5, lambda c: (c[0] + 0.1 * f(c[0]), c[1] + 1.0), start)[0]

    return steps


def two_steps(f: Function) -> Function:
    def steps(x: Any) -> Any:
        first = x + 0.1 * f(x)
        return first + 0.1 * f(first)

    return steps


def ended_by_values(f: Function) -> Function:
    """Return steps as many as a traced value says: examples of a batch take different numbers of them."""

    def steps(x: Any) -> Any:
        start = (x, np.sum(x * x))
        return functad.while_loop(lambda c: c[1] > 0.5, lambda c: (c[0] * 0.9 + 0.05 * f(c[0]), c[1] * 0.4), start)[0]

    return steps


def ended_by_python(f: Function) -> Function:
    def steps(x: Any) -> Any:
        y, left = x, float(np.sum(x * x))
        while left > 0.5:
            y, left = y * 0.9 + 0.05 * f(y), left * 0.4
        return y

    return steps


def sequence(f: Function) -> Function:
    """Return three steps of which only some are kept."""
    return lambda x: functad.checkpoint_sequence(lambda i, c: 0.5 * c + 0.1 * f(c), 3, snapshots=1)(x)


def three_steps(f: Function) -> Function:
    def steps(x: Any) -> Any:
        for _ in range(3):
            x = 0.5 * x + 0.1 * f(x)
        return x

    return steps


class Transform(NamedTuple):
    """A transform, and what it should give.

    Attributes:
        by_functad: from a function to a function.
        by_numbers: the same without the transform; `slope`, `pulled` and `second` below stand for differences.
        order: how many derivatives it takes.
        cost: how often it calls the function, about.
    """

    by_functad: Callable[[Function], Function]
    by_numbers: Any
    order: int = 0
    cost: int = 1


slope, pulled, second, second_diagonal, series = "slope", "pulled", "second", "second diagonal", "series"


def same(f: Function) -> Function:
    return f


TRANSFORMS: dict[str, Transform] = {
    "grad": Transform(lambda f: functad.grad(total(f)), pulled, 1, 3),
    "value_and_grad": Transform(lambda f: lambda x: functad.value_and_grad(total(f))(x)[1], pulled, 1, 3),
    "vjp": Transform(lambda f: lambda x: functad.vjp(f, x)[1](W)[0], pulled, 1, 3),
    "jvp": Transform(lambda f: lambda x: functad.jvp(f, (x,), (V,))[1], slope, 1, 3),
    "linearize": Transform(lambda f: lambda x: functad.linearize(f, x)[1](V), slope, 1, 4),
    "transposed": Transform(lambda f: lambda x: functad.linearize(f, x)[1].transpose(W)[0], pulled, 1, 4),
    "jacfwd": Transform(lambda f: lambda x: functad.jacfwd(f)(x) @ V, slope, 1, 4),
    "jacrev": Transform(lambda f: lambda x: W @ functad.jacrev(f)(x), pulled, 1, 4),
    "chunks": Transform(lambda f: lambda x: functad.jacobian(f, chunk_size=2)(x) @ V, slope, 1, 4),
    "hessian": Transform(lambda f: lambda x: functad.hessian(total(f))(x) @ V, second, 2, 9),
    "hvp": Transform(lambda f: lambda x: functad.hvp(total(f), (x,), (V,)), second, 2, 6),
    "hessian_diagonal": Transform(lambda f: functad.hessian_diagonal(total(f)), second_diagonal, 2, 9),
    "taylor": Transform(lambda f: lambda x: functad.taylor(f, (x,), ([V],), order=2)[2], series, 2, 6),
    "vmap": Transform(batched, lambda f: lambda x: np.stack([f(s * x) for s in SCALES], 1) @ W, 0, 3),
    "rows": Transform(by_rows, lambda f: lambda x: W @ np.stack([f(s * x) for s in SCALES]), 0, 3),
    "make_expressions": Transform(listed, same, 0, 2),
    "jit": Transform(lambda f: functad.jit(f, backend="numpy"), same, 0, 2),
    "jit llvm": Transform(lambda f: functad.jit(f, backend="llvm"), same, 0, 2),
    "jit of grad": Transform(lambda f: functad.jit(functad.grad(total(f)), backend="llvm"), pulled, 1, 4),
    "cond": Transform(lambda f: lambda x: functad.cond(np.sum(x) < 99.0, f, lambda x: -f(x), x), same, 0, 2),
    "switch": Transform(lambda f: lambda x: functad.switch(1, [lambda x: -x, f], x), same, 0, 2),
    "scan": Transform(scanned, unrolled, 0, 2),
    "while_loop": Transform(whiled, two_steps, 0, 2),
    "while_loop by values": Transform(ended_by_values, ended_by_python, 0, 3),
    "fori_loop": Transform(lambda f: lambda x: functad.fori_loop(0, 2, lambda i, c: c + 0.1 * f(c), x), two_steps, 0, 2),
    "map": Transform(
        lambda f: lambda x: W[:2] @ functad.map(lambda s: f(s * x), SCALES[1:]),
        lambda f: lambda x: W[0] * f(SCALES[1] * x) + W[1] * f(SCALES[2] * x),
        0,
        2,
    ),
    "checkpoint": Transform(functad.checkpoint, same, 0, 2),
    "checkpoint policy": Transform(lambda f: functad.checkpoint(f, policy="contractions"), same, 0, 2),
    "checkpoint_sequence": Transform(sequence, three_steps, 0, 4),
    "recompute_grad": Transform(functad.recompute_grad, same, 0, 2),
    "custom_vjp": Transform(own_vjp, same, 0, 2),
    "custom_jvp": Transform(own_jvp, same, 0, 2),
    "custom_gradient": Transform(own_gradient, same, 0, 2),
    "custom_root": Transform(lambda f: lambda x: root(np.zeros(3), f(x)), iterated, 0, 2),
    "GradientTape": Transform(taped, pulled, 1, 3),
    "tape while it records": Transform(taped_inside, pulled, 1, 4),
    "gradients_function": Transform(
        lambda f: lambda x: zeros_for_none(functad.gradients_function(total(f))(x)[0]), pulled, 1, 3
    ),
    "implicit_gradients": Transform(implicit, pulled, 1, 3),
    "ForwardAccumulator": Transform(accumulated, slope, 1, 3),
    "adopt": Transform(lambda f: functad.adopt(lambda x: f(x)), same),
    "eval_shape": Transform(lambda f: lambda x: f(x) + np.zeros(functad.eval_shape(f, x).shape), same, 0, 2),
    "ravel": Transform(lambda f: lambda x: f(functad.ravel({"a": x[:1], "b": x[1:]})[0]), same),
    "tree": Transform(lambda f: lambda x: functad.tree_map(f, [x])[0], same),
}


class Measured(NamedTuple):
    """What numbers say: the value, and how far it may be off."""

    value: Any
    doubt: Any


def differences(f: Function, x: Any, v: Any) -> Measured:
    """Return the derivative of a function in a direction by central differences with two steps."""
    long, short = (plain(central_difference(lambda y: [plain(f(y))], [x], [v], step)[0]) for step in (2.0**-12, 2.0**-14))
    return Measured(short, np.abs(long - short))


def expected(by_numbers: Any, f: Function, x: Any) -> Measured:
    """Return what a transform of a function should give at a point."""
    if by_numbers == slope:
        return differences(f, x, V)
    if by_numbers == pulled:
        rows = [differences(f, x, e) for e in np.eye(3)]
        return Measured(np.stack([m.value for m in rows]) @ W, np.stack([m.doubt for m in rows]) @ np.abs(W))
    if by_numbers == second:
        return differences(functad.grad(total(f)), x, V)
    if by_numbers == second_diagonal:
        rows = [differences(functad.grad(total(f)), x, e) for e in np.eye(3)]
        return Measured(np.stack([m.value[i] for i, m in enumerate(rows)]), np.stack([m.doubt[i] for i, m in enumerate(rows)]))
    if by_numbers == series:
        found = differences(lambda y: functad.jvp(f, (y,), (V,))[1], x, V)
        return Measured(found.value / 2, found.doubt / 2)
    value = plain(by_numbers(f)(x))
    return Measured(value, np.zeros(np.shape(value)))
