"""Second and third derivatives of `while_loop` are loops of native code, in any order of the modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import grad, hessian, jacfwd, jacrev, jvp, vmap

pytest.importorskip("llvmlite")

MATRIX = np.random.default_rng(0).normal(size=(3, 3)) * 0.4
X = np.array([0.5, 1.0, 1.5])


def loop(x: Any, y: Any, w: Any) -> Any:
    def step(c: Any) -> Any:
        return c[0] + 1, np.sin(w @ c[1]) * y + c[1] * 0.3

    return np.sum(functad.while_loop(lambda c: c[0] < 5, step, (0, x * x))[1])


def until(x: Any) -> Any:
    return np.sum(functad.while_loop(lambda c: np.sum(c) < 50.0, lambda c: c * np.sqrt(x + 1.5), x))


PROGRAMS: dict[str, Callable[..., Any]] = {
    "hessian": hessian(loop, argnums=(0, 1)),
    "forward over reverse, by what is constant": lambda x, y, w: jvp(lambda a: grad(loop, argnums=1)(a, 2.0, w), (x,), (x,)),
    "in the direction of an argument": lambda x, y, w: jvp(lambda a: grad(loop, argnums=1)(x, a, w), (y,), (y,)),
    "by what is inside and outside": lambda x, y, w: jvp(grad(lambda a: loop(a, np.sum(a), w)), (x,), (x,)),
    "reverse over reverse": grad(
        lambda x, y, w: np.sum(grad(loop, argnums=2)(x, y, w) ** 2) + grad(loop, argnums=1)(x, y, w), argnums=(0, 1, 2)
    ),
    "reverse over forward": lambda x, y, w: jacrev(lambda a: jacfwd(loop)(x, a, w))(y),
    "of one value given twice": lambda x, y, w: jvp(
        lambda a: functad.jit(grad(lambda b, c, d: loop(b, c, w * d), argnums=1))(x, a, a), (y,), (1.0,)
    ),
    "batches of gradients": lambda x, y, w: vmap(grad(loop, argnums=(0, 1, 2)), in_axes=(0, None, None))(
        np.stack([x, 2 * x]), y, w
    ),
    "batches of Hessians, after other numbers of steps": lambda x, y, w: vmap(hessian(until))(np.stack([x, 10 * x])),
    "gradient of batches of gradients": grad(
        lambda x, y, w: np.sum(vmap(grad(loop), in_axes=(None, 0, None))(x, np.stack([y, y**2]), w) ** 2), argnums=(0, 1, 2)
    ),
    "third": lambda x, y, w: grad(grad(lambda a: grad(loop, argnums=1)(x, a, w)))(y),
}


CAREFUL = {"reverse over reverse"}
"""Programs in which a loop may hide a NaN of an inner gradient. Compiled code always computes their careful list, in which
products of matrices skip exact zeros, and loops with such products run in Python."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_higher_order_are_native_loops(name: str) -> None:
    f = PROGRAMS[name]
    compiled = functad.jit(f, backend="llvm")
    for found, expected in zip(
        functad.tree_leaves(compiled(X, 0.7, MATRIX)), functad.tree_leaves(f(X, 0.7, MATRIX)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    if name in CAREFUL:
        return
    assert "while_loop_vjp" not in compiled.lower(X, 0.7, MATRIX).source().split("def run")[1]
    assert "native_2" not in compiled.lower(X, 0.7, MATRIX).source()
