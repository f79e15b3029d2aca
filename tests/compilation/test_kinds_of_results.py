"""Compiled functions give Tensors, Variables, arrays and numbers of Python where eager ones do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from tests.compilation.test_backends import BACKENDS as INSTALLED

BACKENDS = [name for name in INSTALLED if name != "xla"]  # the backend `xla` returns arrays of JAX

SCALE = functad.Variable(1.5, name="scale")
CONSTANT = functad.constant(1.5)


def energy(t: Any) -> Any:
    """Return a number."""
    return np.sum(np.sin(t) * t)


def curve(t: Any) -> Any:
    """Return as many numbers as are given."""
    return np.sin(t) * t


def told(t: Any) -> Any:
    """Return a number, and what is beside it."""
    return energy(t), {"mask": t > 1, "whole": t, "flag": True, "count": 3, "floor": np.floor(t), "place": np.argmax(t)}


@functad.custom_vjp
def ruled(t: Any) -> Any:
    """Compute a sine with a rule of its own."""
    return np.sin(t)


ruled.defvjp(lambda t: (np.sin(t), t), lambda t, g: (g * np.cos(t),))


@functad.custom_gradient
def doubled(t: Any) -> Any:
    """Double a value, with a rule as TensorFlow has them."""
    return t * 2.0, lambda dy: dy * 2.0


def taped(t: Any) -> Any:
    """Return what a tape gives."""
    source = functad.constant(t)
    with functad.GradientTape(persistent=True) as tape:
        tape.watch(source)
        value = source * source
    return tape.gradient(value, source), tape.jacobian(value, source), value


def accumulated(t: Any) -> Any:
    """Return what a forward accumulator gives."""
    source = functad.constant(t)
    with functad.ForwardAccumulator(source, np.ones(np.shape(t))) as accumulator:
        value = source * 2.0
    return value, accumulator.jvp(value)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "operations": lambda t: (np.sum(t), t * 2, -t, np.maximum(t, 0), np.zeros_like(t), functad.stop_gradient(t), t > 1),
    "itself": lambda t: {"a": t, "b": (t, t)},
    "told": told,
    "grad": functad.grad(energy),
    "value_and_grad": functad.value_and_grad(energy),
    "grad with aux": functad.grad(told, has_aux=True),
    "value_and_grad with aux": functad.value_and_grad(told, has_aux=True),
    "value_and_grad of two": lambda t: functad.value_and_grad(lambda a, b: np.sum(a * b), argnums=(0, 1))(t, t),
    "jacobian": functad.jacobian(curve),
    "jacobian with aux": functad.jacobian(lambda t: (curve(t), told(t)[1]), has_aux=True),
    "jacfwd": functad.jacfwd(curve),
    "hessian": functad.hessian(energy),
    "hvp": lambda t: functad.hvp(energy, (t,), (t,)),
    "jvp": lambda t: functad.jvp(curve, (t,), (np.ones(np.shape(t)),)),
    "vjp": lambda t: functad.vjp(curve, t)[1](np.ones(np.shape(t))),
    "linearize": lambda t: functad.linearize(curve, t)[1](np.ones(np.shape(t))),
    "vmap": lambda t: functad.vmap(functad.grad(np.sin))(np.atleast_1d(t)),
    "checkpoint": functad.checkpoint(curve),
    "grad of checkpoint": functad.grad(functad.checkpoint(energy)),
    "jit": functad.jit(curve),
    "grad of jit": functad.grad(functad.jit(energy)),
    "beside a gradient": lambda t: (functad.grad(energy)(t), np.sin(t), functad.grad(energy)(t) * t),
    "cond": lambda t: functad.cond(np.sum(t) > 0, lambda a: a * 2, lambda a: a, t),
    "scan": lambda t: functad.scan(lambda c, _: (c * 2, c), t, None, length=2),
    "custom_vjp": ruled,
    "custom_gradient": doubled,
    "tape": taped,
    "accumulator": accumulated,
    "gradients_function": lambda t: functad.gradients_function(energy)(t),
    "closed over": lambda t: (CONSTANT * t, SCALE * t, SCALE * 2, SCALE, functad.grad(lambda u: np.sum(u * SCALE))(t)),
}

ARGUMENTS: dict[str, Callable[[], Any]] = {
    "array": lambda: np.array([0.5, 1.5]),
    "number": lambda: np.float64(1.5),
    "Variable": lambda: functad.Variable([0.5, 1.5]),
    "Variable of a number": lambda: functad.Variable(1.5),
    "constant": lambda: functad.constant([0.5, 1.5]),
    "constant number": lambda: functad.constant(1.5),
}


def kinds(tree: Any) -> list[type]:
    """Return the types of the leaves."""
    return list(map(type, functad.tree_leaves(tree)))


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_are_those_of_eager_calls(name: str, argument: str) -> None:
    f, make = FUNCTIONS[name], ARGUMENTS[argument]
    eager = kinds(f(make()))
    for backend in BACKENDS:
        compiled = functad.jit(f, backend=backend)
        assert [kinds(compiled(make())) for _ in range(2)] == [eager, eager], backend


def test_a_variable_that_is_returned_is_the_variable() -> None:
    v = functad.Variable([1.0, 2.0])

    @functad.jit
    def doubled(w: functad.Variable) -> Any:
        w.assign(w * 2)
        return w, w * 1.0

    same, value = doubled(v)
    assert same is v
    np.testing.assert_array_equal(v.numpy(), [2.0, 4.0])
    np.testing.assert_array_equal(value.numpy(), [2.0, 4.0])


HANDED_ON: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "constants": (lambda t: (t * 2, True, 2, 2.5, 1j), (np.ones(2),)),
    "nothing else": (lambda t: False, (np.ones(2),)),
    "arguments": (lambda t, b, n: {"t": t * 2, "b": b, "n": n}, (np.ones(2), True, 3)),
    "aux": (functad.value_and_grad(lambda t, b: (np.sum(t), (b, True)), has_aux=True), (np.ones(2), False)),
    "carried": (lambda t, b: functad.scan(lambda c, r: ((c[0] + r, c[1]), r), (0.0, b), t)[0][1], (np.ones(2), True)),
    "within": (functad.jit(lambda t, b: (t * 2, b)), (np.ones(2), True)),
}


@pytest.mark.parametrize("backend", INSTALLED)
@pytest.mark.parametrize("name", HANDED_ON)
def test_numbers_of_python_that_are_handed_on_stay_what_they_are(name: str, backend: str) -> None:
    f, args = HANDED_ON[name]
    compiled = functad.jit(f, backend=backend)
    for _ in range(2):
        for ours, eager in zip(functad.tree_leaves(compiled(*args)), functad.tree_leaves(f(*args)), strict=True):
            if type(eager) in (bool, int, float, complex):
                assert type(ours) is type(eager)
                assert ours == eager


COUNTING: list[Callable[..., Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.invert, abs),
    *(operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.and_, operator.or_, operator.xor, operator.lt),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("operation", COUNTING, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
def test_truth_values_of_python_are_counted(operation: Callable[..., Any], backend: str) -> None:
    unary = operation in (operator.neg, operator.pos, operator.invert, abs)
    f = (lambda a, b: operation(a)) if unary else (lambda a, b: operation(a, b))
    compiled = functad.jit(f, backend=backend)
    for a in (True, False):
        eager, ours = f(a, True), compiled(a, True)
        assert type(ours) is type(eager)
        assert ours == eager


def first(x: Any) -> Any:
    return x[0, ...]


LOOPS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: functad.fori_loop(0, 1, lambda i, c: c + i, first(x)),
    "loop in a loop": lambda x: functad.fori_loop(0, 1, lambda i, c: functad.fori_loop(0, 1, lambda j, e: e + c, c), x.min()),
    "choice": lambda x: functad.fori_loop(0, 3, lambda i, c: np.where(c > 0, c, -c), first(x)),
    "larger of two": lambda x: np.maximum(functad.fori_loop(0, 1, lambda i, c: c * i, first(x)), 0.0),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("value", [1.5, 0.0, np.nan])
@pytest.mark.parametrize("name", LOOPS)
def test_derivatives_of_shape_zero_are_numbers(name: str, value: float, backend: str) -> None:
    """A NaN lets the careful pass compute the derivatives."""
    x = np.array([value, value])

    def derivatives(x: Any) -> Any:
        pulled = functad.grad(lambda n: LOOPS[name](n * np.ones(2)))(functad.stop_gradient(x).sum())
        return functad.jvp(LOOPS[name], (x,), (np.ones(2),)), pulled

    found, expected = functad.jit(derivatives, backend=backend)(x), derivatives(x)
    for a, b in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
        assert type(a) is type(b)
        assert np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_imaginary_parts_of_real_numbers_are_writable(backend: str) -> None:
    for f in (np.imag, lambda x: np.imag(np.sin(x)), functad.vmap(lambda x: np.imag(np.sin(x)))):
        found = functad.jit(f, backend=backend)(np.ones((2, 2)))
        found += 1
        assert found.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_of_functions_that_are_not_compiled_have_memory_of_their_own(backend: str) -> None:
    found = functad.jit(lambda x: np.broadcast_arrays(x, np.arange(3))[0], backend=backend)(2**64)
    assert found.flags.writeable
    assert 0 not in found.strides
