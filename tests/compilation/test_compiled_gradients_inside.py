"""Compiled derivatives inside other transforms and compiled functions equal eager ones where the quick pass gives NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

X = np.array([0.0, 1.0, -1.0])
WEIGHTS = np.array([2.0, 3.0, 5.0])

Compile = Callable[..., Any]


def entropies(x: Any) -> Any:
    return np.where(x > 0, x * np.log(x), 0.0)


def entropy(x: Any) -> Any:
    return np.sum(entropies(x))


gradient = functad.grad(entropy)
slope = functad.grad(entropies)
"""The derivative for a number."""


def along(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: functad.jvp(f, (x,), (np.ones_like(x),))


def weighted(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return functad.value_and_grad(lambda x: np.sum(f(x) * WEIGHTS))


def batched(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: functad.vmap(f)(np.stack([x, 2 * x]))


def linearized(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def both(x: Any) -> Any:
        value, linear = functad.linearize(f, x)
        return value, linear(WEIGHTS)

    return both


def scanned(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: functad.scan(lambda c, _: (c * 0.5 + f(x), c), np.zeros(3), None, length=2)


def listed(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: functad.make_expressions(f)(x)(x)


CASES: dict[str, Callable[[Compile], Callable[[Any], Any]]] = {
    "vmap": lambda c: functad.vmap(c(slope)),
    "vmap of vmap": lambda c: batched(functad.vmap(c(slope))),
    "vmap of a gradient": lambda c: batched(c(gradient)),
    "jit": lambda c: c(lambda x: c(gradient)(x) * 1),
    "jit twice": lambda c: c(lambda x: c(lambda y: c(gradient)(y) * 2)(x) + 1),
    "jit of vmap": lambda c: c(functad.vmap(c(slope))),
    "vmap of jit of jit": lambda c: batched(c(lambda x: c(gradient)(x) * 1)),
    "value_and_grad": lambda c: c(lambda x: c(functad.value_and_grad(entropy))(x)),
    "vmap of value_and_grad": lambda c: batched(c(functad.value_and_grad(entropy))),
    "jvp inside": lambda c: c(lambda x: c(along(entropies))(x)),
    "hessian inside": lambda c: c(lambda x: c(functad.hessian(entropy))(x) + 1),
    "vmap of a hessian": lambda c: batched(c(functad.hessian(entropy))),
    "hessian": lambda c: functad.hessian(c(entropy)),
    "forward jacobian": lambda c: functad.jacobian(c(gradient), mode="forward"),
    "reverse jacobian": lambda c: functad.jacobian(c(gradient), mode="reverse"),
    "jit of a jacobian": lambda c: c(functad.jacobian(c(gradient), mode="reverse")),
    "jvp": lambda c: along(c(gradient)),
    "jit of jvp": lambda c: c(along(c(gradient))),
    "jit of jvp of vmap": lambda c: c(along(functad.vmap(c(slope)))),
    "value and gradient of a gradient": lambda c: weighted(c(gradient)),
    "jit of value and gradient": lambda c: c(weighted(c(gradient))),
    "vmap of value and gradient": lambda c: batched(weighted(c(gradient))),
    "value and gradient of vmap": lambda c: weighted(functad.vmap(c(slope))),
    "jit of value and gradient of vmap": lambda c: c(weighted(functad.vmap(c(slope)))),
    "checkpoint": lambda c: weighted(functad.checkpoint(c(gradient))),
    "jit of checkpoint": lambda c: c(weighted(functad.checkpoint(c(gradient)))),
    "linearize": lambda c: linearized(c(gradient)),
    "jit of linearize": lambda c: c(linearized(c(gradient))),
    "jit of scan": lambda c: c(scanned(c(gradient))),
    "list": lambda c: listed(c(gradient)),
    "list of a gradient": lambda c: listed(functad.grad(c(entropy))),
    "list of jvp": lambda c: listed(along(c(entropies))),
    "hidden": lambda c: c(lambda x: np.where(np.isnan(c(gradient)(x)), 5.0, x)),
    "gradient of hidden": lambda c: functad.grad(lambda x: np.sum(np.where(np.isnan(c(gradient)(x)), 5.0, x * x))),
}


ON_XLA = ("vmap", "jit", "jit of vmap", "value_and_grad", "jit of value and gradient", "vmap of a hessian", "list")
"""The cases that are tested with XLA too, which takes a second for each."""


def need(backend: str) -> None:
    for module in {"llvm": ("llvmlite",), "xla": ("jax",)}.get(backend, ()):
        pytest.importorskip(module, reason="the extra of the backend")


def check_close(found: Any, expected: Any) -> None:
    def close(a: Any, b: Any) -> None:
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)

    assert not any(np.isnan(leaf).any() for leaf in functad.tree_leaves(expected))
    functad.tree_map(close, found, expected)


@pytest.mark.parametrize(
    ("backend", "name"), [*[(b, name) for b in ("numpy", "llvm") for name in CASES], *[("xla", name) for name in ON_XLA]]
)
def test_a_compiled_derivative_inside_equals_the_eager_one(backend, name):
    need(backend)
    found = CASES[name](lambda f: functad.jit(f, backend=backend))(X)
    check_close(found, CASES[name](lambda f: f)(X))


def closing_gradient(c: Compile) -> Callable[[Any, Any], Any]:
    """Return a function whose compiled gradient closes over two arguments of the same shape."""

    def f(a: Any, b: Any) -> Any:
        def scaled(x: Any) -> Any:
            return np.sum(np.where(x > 0, a * x * np.log(x) / b, 0.0))

        return np.sum(c(lambda x: functad.grad(scaled)(x))(X) * WEIGHTS)

    return f


def closing_pullback(c: Compile) -> Callable[[Any, Any], Any]:
    def f(a: Any, b: Any) -> Any:
        pull = lambda x: functad.vjp(lambda y: np.where(x > 0, y * np.log(x) / b, 0.0), x)[1](a)[0]  # noqa: E731
        return np.sum(c(pull)(X + 1 - X) * WEIGHTS) + np.sum(c(pull)(X * 2) * WEIGHTS)

    return f


OUTER: dict[str, Callable[[Callable[[Any, Any], Any], Compile], Callable[[Any, Any], Any]]] = {
    "gradient": lambda f, c: functad.value_and_grad(f, argnums=(0, 1)),
    "jvp": lambda f, c: lambda a, b: functad.jvp(f, (a, b), (b, a)),
    "hessian": lambda f, c: functad.hessian(f, argnums=(0, 1)),
    "vmap": lambda f, c: lambda a, b: functad.vmap(f)(np.stack([a, b]), np.stack([b, b])),
    "jit of a gradient": lambda f, c: c(functad.value_and_grad(f, argnums=(0, 1))),
    "jit of jvp": lambda f, c: c(lambda a, b: functad.jvp(f, (a, b), (b, a))),
    "jit of vmap": lambda f, c: c(lambda a, b: functad.vmap(f)(np.stack([a, b]), np.stack([b, b]))),
    "list": lambda f, c: lambda a, b: functad.make_expressions(f)(a, b)(a, b),
}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("inner", [closing_gradient, closing_pullback])
@pytest.mark.parametrize("name", OUTER)
def test_a_compiled_derivative_that_closes_over_tensors_equals_the_eager_one(name, inner, backend):
    need(backend)

    def compiled(f: Callable[..., Any]) -> Any:
        return functad.jit(f, backend=backend)

    a, b = np.array([2.0, 3.0, 4.0]), np.array([5.0, 7.0, 8.0])
    found = OUTER[name](inner(compiled), compiled)(a, b)
    check_close(found, OUTER[name](inner(lambda f: f), lambda f: f)(a, b))
