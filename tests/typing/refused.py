"""Calls that type checkers are to refuse: each line with the comment `wrong`, and no other; see `test_types.py`."""

import numpy as np
import numpy.typing as npt

import functad

Array = npt.NDArray[np.float64]
W: Array = np.array([1.0, 2.0])


def loss(w: Array, x: float = 2.0) -> float:
    return float(np.sum(w)) * x


def step(i: int, state: Array) -> Array:
    return state * i


class Spring:
    """Has methods."""

    @functad.grad(argnums=1)
    def force(self, x: float) -> float:
        return x**2

    @functad.jit
    def energy(self, x: float) -> float:
        return x**2

    @functad.custom_jvp
    def ruled(self, x: float) -> float:
        return x**2

    @functad.sparse_jacobian
    def matrix(self, x: Array) -> Array:
        return x**2


spring = Spring()

functad.grad(loss)("text")  # wrong
functad.grad(loss)(W, y=1.0)  # wrong
functad.grad(loss)()  # wrong
functad.grad(loss, argnums=(0, 1))("text")  # wrong
functad.grad(loss, argnames=["w"])(W, 1.0, 2.0)  # wrong
functad.grad(loss, argnums="w")  # wrong
functad.grad(loss, nonsense=True)  # wrong
functad.grad(loss, chunk_size=2)  # wrong
functad.grad(2.0)  # wrong
functad.value_and_grad(loss)(W, "text")  # wrong
functad.value_and_grad(loss)(W).lower()  # wrong
functad.jacobian(loss, mode="sideways")  # wrong
functad.hessian(loss)(W, "text")  # wrong
functad.vmap(loss)(W, "text")  # wrong
functad.jit(loss)(W, "text")  # wrong
functad.jit(loss).lower("text")  # wrong
functad.checkpoint(loss)(W, "text")  # wrong
functad.make_expressions(loss)(W, "text")  # wrong
functad.gradients_function(loss, nonsense=True)  # wrong
functad.implicit_gradients(loss)(W, "text")  # wrong
functad.custom_vjp(loss)(W, "text")  # wrong
functad.vjp(loss, W, "text")  # wrong
functad.vjp(loss, W, 1.0, 2.0)  # wrong
functad.vjp(loss, W)[1]()  # wrong
functad.linearize(loss, "text")  # wrong
functad.jvp(loss, W)  # wrong
functad.checkpoint_sequence(step, 3)("text")  # wrong
spring.force("text")  # wrong
spring.force(1.0, 2.0)  # wrong
spring.energy("text")  # wrong
spring.ruled("text")  # wrong
spring.matrix("text")  # wrong
spring.matrix.plan("text")  # wrong
