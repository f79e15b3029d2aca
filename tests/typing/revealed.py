"""What type checkers find for the results of transforms; `test_types.py` runs mypy and pyright over this file.

Each `assert_type` is about the result of a call that names an argument of the user's function, so the parameters are kept too.
"""

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import functad

Array = npt.NDArray[np.float64]
W: Array = np.array([1.0, 2.0])


def loss(w: Array, x: float = 2.0) -> float:
    return float(np.sum(w)) * x


def with_text(w: Array, x: float = 2.0) -> tuple[float, str]:
    return loss(w, x), "kept"


def field(w: Array, x: float = 2.0) -> Array:
    return w * x


def untyped(w: Any, x: Any) -> Any:
    return w * x


# Derivatives: arguments chosen by position, by name, several of them; functions of NumPy.

assert_type(functad.grad(loss)(W, x=1.0), Any)
assert_type(functad.grad(loss, argnums=1)(W, x=1.0), Any)
assert_type(functad.grad(loss, (0, 1))(W, x=1.0), Any)
assert_type(functad.grad(loss, [0, 1], allow_int=True)(W, x=1.0), Any)
assert_type(functad.grad(loss, argnames="w")(W, x=1.0), Any)
assert_type(functad.grad(loss, argnames=["w", "x"])(W, x=1.0), Any)
assert_type(functad.grad(with_text, has_aux=True)(W, x=1.0), Any)
assert_type(functad.grad(untyped, argnums=(0, 1))(W, x=1.0), Any)
assert_type(functad.grad(np.sin)(1.0), Any)
assert_type(functad.value_and_grad(loss)(W, x=1.0), tuple[Any, Any])
assert_type(functad.value_and_grad(with_text, argnames=["w"], has_aux=True)(W, x=1.0), tuple[Any, Any])
assert_type(functad.value_and_grad(np.sin)(1.0), tuple[Any, Any])
assert_type(functad.jacobian(field)(W, x=1.0), Any)
assert_type(functad.value_and_jacobian(field)(W, x=1.0), tuple[Any, Any])
assert_type(functad.hessian(loss, argnums=(0, 1))(W, x=1.0), Any)
assert_type(functad.hessian_diagonal(loss, argnums=(0, 1), chunk_size=2)(W, x=1.0), Any)
assert_type(functad.elementwise_grad(field, argnums=(0, 1))(W, x=1.0), Any)
assert_type(functad.value_grad_and_hessian(loss)(W, x=1.0), tuple[Any, Any, Any])
assert_type(functad.laplacian(loss)(W, x=1.0), Any)
assert_type(functad.deriv(loss, n=2, argnames="x")(W, x=1.0), Any)

# Functions that are given the arguments at once.

value, pullback = functad.vjp(loss, W, 2.0)
assert_type(value, float)
assert_type(pullback(1.0), tuple[Array, float])
assert_type(functad.vjp(loss, W)[1](1.0), tuple[Array])
assert_type(functad.vjp(with_text, W, has_aux=True)[2], str)
assert_type(functad.jvp(loss, (W, 2.0), (W, 1.0)), Any)
assert_type(functad.jvp(with_text, (W,), (W,), has_aux=True), Any)
linear = functad.linearize(field, W, 2.0)[1]
assert_type(linear(W, 1.0), Array)
assert_type(linear.transpose(W), tuple[Array, float])
assert_type(functad.linearize(with_text, W, has_aux=True)[2], str)
assert_type(functad.hvp(loss, (W,), (W,)), Any)
assert_type(functad.hvp(with_text, (W,), (W,), has_aux=True), Any)
assert_type(functad.gauss_newton_product(with_text, (W,), (W,), has_aux=True), Any)
assert_type(functad.taylor(loss, (W,), ([W],)), Any)
assert_type(functad.taylor(with_text, (W,), ([W],), has_aux=True), Any)

# Functions that compute what the original does.

assert_type(functad.vmap(field, in_axes=(0, None))(W, x=1.0), Any)
assert_type(functad.checkpoint(loss, policy="contractions")(W, x=1.0), Any)
assert_type(functad.recompute_grad(loss)(W, x=1.0), Any)
assert_type(functad.jit(loss)(W, x=1.0), float)
assert_type(functad.jit(loss, backend="numpy").cache_info().size, int)
assert_type(functad.jit(functad.value_and_grad(loss))(W, x=1.0), tuple[Any, Any])
assert_type(functad.make_expressions(loss)(W, x=1.0), functad.Expressions)
assert_type(functad.adopt(loss)(W, x=1.0), float)


def grown(i: int, state: Array, rate: float) -> Array:
    return state * rate


assert_type(functad.checkpoint_sequence(grown, 10)(state=W, rate=0.5), Array)

# The functional forms of tapes: a seed may be given beside the arguments.

assert_type(functad.gradients_function(loss)(W, x=1.0), list[Any])
assert_type(functad.gradients_function(loss)(W, 1.0, dy=2.0), list[Any])
assert_type(functad.value_and_gradients_function(loss, params=["w"])(W, x=1.0), tuple[Any, list[Any]])
assert_type(functad.implicit_gradients(loss)(W, x=1.0), list[tuple[Any, functad.Variable]])
assert_type(functad.implicit_value_and_gradients(loss)(W, x=1.0), tuple[Any, list[tuple[Any, functad.Variable]]])

# Decorators, with options and without.


@functad.grad
def plain(w: Array, x: float = 2.0) -> float:
    return loss(w, x)


@functad.grad()
def called(w: Array, x: float = 2.0) -> float:
    return loss(w, x)


@functad.value_and_grad(argnums=(0, 1))
def several(w: Array, x: float = 2.0) -> float:
    return loss(w, x)


@functad.grad(argnames=["w"])
def named(w: Array, x: float = 2.0) -> float:
    return loss(w, x)


@functad.hessian(argnums=0, has_aux=True)
def handed(w: Array, x: float = 2.0) -> tuple[float, str]:
    return with_text(w, x)


@functad.vmap(in_axes=(0, None))
@functad.value_grad_and_hessian
def stacked(w: Array, x: float = 2.0) -> float:
    return loss(w, x)


@functad.custom_vjp
def ruled(w: Array, x: float = 2.0) -> float:
    return loss(w, x)


def equation(y: Array, p: Array) -> Array:
    return y - p


@functad.custom_root(equation)
def solver(start: Array, p: Array) -> Array:
    return start + p


assert_type(plain(W, x=1.0), Any)
assert_type(called(W, x=1.0), Any)
assert_type(several(W, x=1.0), tuple[Any, Any])
assert_type(named(W, x=1.0), Any)
assert_type(handed(W, x=1.0), Any)
assert_type(stacked(W, x=1.0), Any)
assert_type(ruled(W, x=1.0), float)
assert_type(solver(start=W, p=W), Array)

# Methods: `self` is bound.


class Spring:
    """Has a method for each kind of transform."""

    stiffness = 3.0

    @functad.grad(argnums=1)
    def force(self, x: float) -> float:
        return self.stiffness * x**2

    @functad.value_and_grad(argnums=(1,))
    def both(self, x: float) -> float:
        return self.stiffness * x**2

    @functad.jit
    def energy(self, x: float) -> float:
        return self.stiffness * x**2

    @functad.custom_vjp(nondiff_argnums=0)
    def ruled(self, x: float) -> float:
        return self.stiffness * x**2

    @functad.gradients_function(params=["x"])
    def slopes(self, x: float) -> float:
        return self.stiffness * x**2

    @functad.sparse_jacobian(argnums=1)
    def matrix(self, x: Array) -> Array:
        return self.stiffness * x**2

    @functad.make_expressions
    def listed(self, x: float) -> float:
        return self.stiffness * x**2


spring = Spring()
assert_type(spring.force(x=1.0), Any)
assert_type(spring.both(x=1.0), tuple[Any, Any])
assert_type(spring.energy(x=1.0), float)
assert_type(spring.ruled(x=1.0), float)
assert_type(spring.slopes(x=1.0), list[Any])
assert_type(spring.matrix(x=W), Any)
assert_type(spring.matrix.plan(x=W).coloring.colors, int)
assert_type(spring.listed(x=1.0), functad.Expressions)

# A Variable converts like an array.

speed = functad.Variable(2.0)
assert_type(speed.shape, tuple[int, ...])
assert_type(np.asarray(speed), "np.ndarray[tuple[Any, ...], np.dtype[Any]]")
assert_type(float(speed), float)
