"""A file as users write them, with annotations: the public functions in their typical forms, strict and without ignores.

`test_types.py` runs mypy and pyright over it, both strict, and then the file itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import functad
from functad import nn, optimizers
from functad.testing import check_grads

Array = npt.NDArray[np.float64]
Params = dict[str, Array]
Number = np.floating[Any]

rng = np.random.default_rng(0)
points: Array = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
x: Array = np.array([0.0, 1.0, 3.0])


# Derivatives


def energy(x: Array, stiffness: float = 2.0) -> float:
    stretch = x[1:] - x[:-1]
    return np.sum(stiffness * stretch**2) / 2


def residuals(x: Array) -> Array:
    return np.tanh(x) - x[::-1]


def total_of_squares(x: Array) -> float:
    return np.sum(x**2)


slope: Array = functad.grad(energy)(x)
value, (by_x, by_stiffness) = functad.value_and_grad(energy, argnums=(0, 1))(x, 2.0)
print(f"{value:.2f}", by_x.shape, float(by_stiffness))
by_name = functad.grad(energy, argnames=["stiffness"])(x, stiffness=2.0)
print(by_name["stiffness"])
print(functad.jacobian(functad.grad(energy))(x), functad.make_expressions(energy)(x))
residual, matrix = functad.value_and_jacobian(residuals)(x)
print(residual.shape, matrix.T @ matrix, functad.jacfwd(residuals)(x), functad.jacrev(residuals)(x))
value, gradient, curvature = functad.value_grad_and_hessian(energy)(x)
print(curvature @ gradient, functad.hessian(energy, chunk_size=2)(x))
product: Array = functad.hvp(energy, (x,), (np.ones(3),))
print(product, functad.gauss_newton_product(residuals, (x,), (x,)), functad.hessian_diagonal(energy)(x))
print(float(functad.laplacian(energy)(x)), float(functad.divergence(residuals)(x)), functad.elementwise_grad(np.arctan)(x))

out, pullback = functad.vjp(residuals, x)
(cotangent,) = pullback(np.ones_like(out))
out, tangent = functad.jvp(residuals, (x,), (np.ones(3),))
print(cotangent.shape, tangent @ cotangent)
out, linear = functad.linearize(residuals, x)
print(linear(np.ones(3)) + out, linear.transpose(out)[0], functad.linear_transpose(np.cumsum, x)(x))


def height(speed: float, time: float) -> float:
    return speed * time - 4.905 * time**2


@functad.deriv(n=2, argnames="time")
def acceleration(speed: float, time: float) -> float:
    return speed * time - 4.905 * time**2


print(acceleration(20.0, 1.0) + 1.0, [float(c) for c in functad.taylor(np.exp, (0.0,), ([1.0],), order=3)])


@functad.grad(has_aux=True)
def with_parts(x: Array) -> tuple[float, dict[str, float]]:
    return energy(x), {"first": float(functad.stop_gradient(x)[0])}


slope, parts = with_parts(x)
print(parts["first"] + 1.0)


def distance(p: Array, q: Array) -> Any:
    return np.sqrt(np.sum((p - q) ** 2))


every_pair = functad.vmap(functad.vmap(distance, in_axes=(None, 0)), in_axes=(0, None))
print(every_pair(points, points), functad.vmap(functad.grad(distance), in_axes=(None, 0))(np.ones(2), points).shape)

sparse = functad.sparse_jacobian(residuals)
print(sparse(x).nnz, sparse.plan(x).coloring.colors, functad.jacobian_sparsity(residuals, x).shape)
print(functad.sparse_hessian(energy)(x).toarray(), functad.hessian_sparsity(energy, x).toarray())
print(functad.eval_shape(residuals, functad.ArraySpec((3,), np.dtype(float))).shape, functad.explain(energy, x))

# Compilation


@functad.jit(static_argnames="order")
def moment(x: Array, scale: float, order: int = 2) -> Number:
    return np.mean((x / scale) ** order)


print(moment(x, 2.0, order=4) * 2, moment.cache_info().size, moment.explain_recompile(), len(moment.lower(x, 2.0).source()))
print(functad.to_source(functad.grad(total_of_squares), x))
listed = functad.make_expressions(functad.grad(energy))(x)
with tempfile.TemporaryDirectory() as folder:
    functad.save_expressions(listed, Path(folder, "slope.functad"))
    print(functad.digest(functad.load_expressions(Path(folder, "slope.functad"))), listed(x))

# Rules of one's own, and loops


@functad.custom_vjp
def log1pexp(x: Array) -> Array:
    return np.log1p(np.exp(x))


def forward(x: Array) -> tuple[Array, Array]:
    return log1pexp(x), 1 / (1 + np.exp(-x))


def backward(kept: Array, g: Array) -> tuple[Array]:
    return (g * kept,)


log1pexp.defvjp(forward, backward)


@functad.custom_jvp
def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


@softplus.defjvp
def softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return softplus(x), t / (1 + np.exp(-x))


@functad.checkpoint(policy="contractions")
def block(x: Array) -> Array:
    hidden: Array = functad.checkpoint_name(np.tanh(x), "hidden")
    return hidden + softplus(x)


def total(x: Array) -> Any:
    return np.sum(log1pexp(x) * block(x))


check_grads(total, (x,))


def step(carry: Array, row: Array) -> tuple[Array, float]:
    return np.tanh(carry + row), np.sum(carry)


def rolled(x: Array) -> Array:
    last, each = functad.scan(step, np.zeros(2), points * x[1])
    last = functad.fori_loop(0, 3, lambda i, c: c * 0.5, last)
    chosen: Array = functad.cond(np.sum(last) > 0, np.sin, np.cos, last)
    sums: Array = np.sum(each, keepdims=True)
    return chosen + sums


def square_root(a: float) -> float:
    def more(x: float) -> bool:
        return abs(x * x - a) > 1e-12 * a

    def newton(x: float) -> float:
        return (x + a / x) / 2

    root: float = functad.while_loop(more, newton, a)
    return root


print(functad.jacobian(rolled)(x).shape, float(functad.grad(square_root)(4.0)))


def euler(i: int, y: Array, rate: float) -> Array:
    return y + 0.1 * rate * y


decay = functad.checkpoint_sequence(euler, 10, snapshots=3)
print(decay(x, 0.5) + 1.0)


def equation(z: Array, w: Array) -> Array:
    return z - np.tanh(0.3 * z + w)


@functad.custom_root(equation)
def rest(z: Array, w: Array) -> Array:
    for _ in range(100):
        z = np.tanh(0.3 * z + w)
    return z


def at_rest(w: Array) -> Any:
    return np.sum(rest(np.zeros(3), w) ** 2)


print(functad.grad(at_rest)(x).shape)

# Tapes, Variables and models

start, speed = functad.Variable(0.0, name="start"), functad.Variable(0.0, name="speed")
hours, metres = np.array([1.0, 2.0, 3.0]), np.array([3.1, 4.9, 7.2])


def error() -> Any:
    return np.mean((start + speed * hours - metres) ** 2)


for _ in range(3):
    with functad.GradientTape() as tape:
        loss = error()
    by_start, by_speed = tape.gradient(loss, [start, speed])
    start.assign_sub(0.1 * by_start)
    speed.assign_sub(0.1 * by_speed, read_value=False)
for by_variable, variable in functad.implicit_gradients(error)():
    print(variable.name, by_variable.numpy())
velocity = functad.gradients_function(height, params=["time"])
print(velocity(20.0, 1.0)[0].numpy(), velocity(20.0, 1.0, dy=2.0))


class Classifier(functad.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Dense(4, activation=nn.tanh, rng=0)
        self.out = nn.Dense(2, rng=1)

    def __call__(self, x: Any) -> Any:
        return self.out(self.hidden(x))


model, adam = Classifier(), optimizers.Adam(0.02)
labels = np.array([0, 1, 1])
with functad.GradientTape() as tape:
    per_point: Array = nn.softmax_cross_entropy(model(points), labels)
    loss = np.mean(per_point)
adam.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
values = functad.values_of(model)


def cross_entropy(values: Mapping[str, Any]) -> Number:
    each: Array = nn.softmax_cross_entropy(functad.functional_call(model, values, points), labels)
    return np.mean(each)


slopes: dict[str, Array] = functad.grad(cross_entropy)(values)
print({name: found.shape for name, found in slopes.items()})


def fit_loss(params: Params) -> Number:
    return np.mean((points @ params["w"] + params["b"]) ** 2)


rule = optimizers.chain(optimizers.clip_by_global_norm(1.0), optimizers.adam(0.1))
params: Params = {"w": np.ones(2), "b": np.ones(1)}
state = rule.init(params)
for _ in range(3):
    updates, state = rule.update(functad.grad(fit_loss)(params), state, params)
    params = optimizers.apply_updates(params, updates)
best = functad.optimize.minimize(fit_loss, params, method="L-BFGS-B")
print(best.x["w"].shape, float(best.fun))

# Containers and other people's code

flat, unravel = functad.ravel(params)
leaves, structure = functad.tree_flatten(params)
doubled: Params = functad.tree_map(np.add, params, unravel(flat))
print(doubled["w"], functad.tree_unflatten(structure, leaves), functad.tree_structure(params) == structure)


@functad.adopt
def cumulative(x: Array) -> Array:
    made = np.zeros(len(x))
    for i in range(len(x)):
        made[i] = made[i - 1] + np.exp(x[i])
    return made


def last_of(x: Array) -> float:
    last: float = cumulative(x)[-1]
    return last


with functad.strict_derivatives(), functad.debug_nans():
    print(functad.grad(last_of)(x))
