"""Tapes, accumulators, expression lists and the other transforms inside the body of `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import grad, vmap

XS = np.random.default_rng(1).normal(size=(3, 4))


def _loss(x: Any) -> Any:
    return (np.tanh(x) ** 2 * x).sum()


def _forward_accumulator(x: Any) -> Any:
    with functad.ForwardAccumulator(x, np.ones(4)) as accumulator:
        y = _loss(x)
    return accumulator.jvp(y)


def _nested_tapes(x: Any) -> Any:
    with functad.GradientTape() as outer:
        outer.watch(x)
        with functad.GradientTape() as inner:
            inner.watch(x)
            y = _loss(x)
        slope = inner.gradient(y, x)
    return outer.jacobian(slope, x)


def _persistent_tape(x: Any) -> Any:
    with functad.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = _loss(x)
        z = y**2
    return tape.gradient(z, x) + tape.gradient(y, x)


def _variable_in_the_body(x: Any) -> Any:
    w = functad.Variable(np.arange(4.0))
    with functad.GradientTape() as tape:
        y = (w * np.sin(x) * w).sum()
    return tape.gradient(y, w)


BODIES: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (_forward_accumulator, lambda x: grad(_loss)(x).sum()),
    (_nested_tapes, functad.jacobian(grad(_loss))),
    (_persistent_tape, lambda x: grad(lambda x: _loss(x) ** 2 + _loss(x))(x)),
    (_variable_in_the_body, lambda x: 2 * np.arange(4.0) * np.sin(x)),
    (grad(functad.recompute_grad(_loss)), grad(_loss)),
    (lambda x: functad.make_expressions(_loss)(x)(x), _loss),
    (lambda x: grad(functad.make_expressions(_loss)(x))(x), grad(_loss)),
    (lambda x: x + functad.eval_shape(_loss, x).ndim, lambda x: x),
    (
        lambda x: functad.jacobian(lambda y: np.sort(y) * x)(x),
        functad.jacobian(lambda y: np.sort(y) * functad.stop_gradient(y)),
    ),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_inside_of_vmap(number: int) -> None:
    body, expected = BODIES[number]
    np.testing.assert_allclose(vmap(body)(XS), [expected(x) for x in XS], rtol=1e-12, atol=1e-14)


def test_strict_derivatives_and_debug_nans_leave_values_alone() -> None:
    expected = [grad(np.linalg.norm)(x) for x in XS]
    with functad.strict_derivatives():
        np.testing.assert_allclose(vmap(grad(np.linalg.norm))(XS), expected)
    with functad.debug_nans():
        np.testing.assert_allclose(vmap(grad(np.linalg.norm))(XS), expected)


def test_texts_show_one_example() -> None:
    shown: list[str] = []
    vmap(lambda x: shown.append(repr(x)) or x)(XS)
    assert shown == ["Tensor(float64[4])"]


def test_graph_around_a_batch_leaves_its_tensors_alone() -> None:
    def f(x: Any) -> Any:
        with functad.GradientTape() as tape:
            tape.watch(x)
            y = x.copy()
        g = tape.gradient(y, x, output_gradients=np.cos(y))
        return np.sum(np.sin(y) * g)

    xs = np.linspace(0.1, 0.6, 6).reshape(3, 2)
    outside = vmap(grad(f))(xs)
    with functad.graph():
        inside = vmap(grad(f))(xs)
        assert functad.make_expressions(f)(xs[0])
    assert np.allclose(inside, outside)
    assert np.allclose(outside, np.cos(2 * xs))


def test_outer_tape_cannot_watch_what_stands_for_many() -> None:
    def f(x: Any) -> Any:
        tape.watch(x)
        return np.sin(x)

    with functad.GradientTape() as tape:
        for trace in (vmap(f), functad.make_expressions(f)):
            with pytest.raises(functad.errors.SourceError, match=r"watch\(\) of a Tensor of .*within the function"):
                trace(np.ones(2))
