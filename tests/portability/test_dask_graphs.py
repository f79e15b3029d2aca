"""Tensors in the graphs of Dask: as constants there they would lose their derivative, so a graph that holds one raises."""

import functools

import numpy as np
import pytest

import functad
from functad.errors import ConversionError

dask = pytest.importorskip("dask", reason="dask is in the extra `test`")
da = pytest.importorskip("dask.array", reason="dask is in the extra `test`")

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(20, 3)), RNG.normal(size=3)
EMPTY = np.empty(0)


class Model:
    """An object whose method is called with blocks."""

    def __init__(self, w):
        self.w = w

    def __call__(self, block):
        return block @ self.w

    predict = __call__


def blocks(w, X, **options):
    """Call a function that has a Tensor in its closure."""
    return X.map_blocks(lambda block: block @ w, drop_axis=1, dtype=float, **options)


def computed(twice, X):
    return in_rows(lambda b: b @ twice, X)


def in_rows(f, X):
    return X.map_blocks(f, drop_axis=1, dtype=float, meta=EMPTY)


MADE = {
    "map_blocks": blocks,
    "with a meta": lambda w, X: blocks(w, X, meta=EMPTY),
    "argument": lambda w, X: X.map_blocks(lambda b, w=None: b @ w, w=w, drop_axis=1, dtype=float, meta=EMPTY),
    "default": lambda w, X: in_rows(lambda b, w=w: b @ w, X),
    "partial": lambda w, X: in_rows(functools.partial(lambda w, b: b @ w, w), X),
    "in a container": lambda w, X: in_rows(lambda b, p={"w": [w]}: b @ p["w"][0], X),
    "object": lambda w, X: in_rows(Model(w), X),
    "method": lambda w, X: in_rows(Model(w).predict, X),
    "what was computed": lambda w, X: computed(2 * w, X),
    "blockwise": lambda w, X: da.blockwise(lambda b: b[0] @ w, "i", X, "ij", dtype=float, meta=EMPTY),
    "reduction": lambda w, X: da.reduction(
        X, lambda b, axis, keepdims: np.sum(b * w, axis, keepdims=keepdims), np.sum, dtype=float, meta=np.empty((0, 0))
    ),
    "computed at once": lambda w, X: blocks(w, X, meta=EMPTY).compute(),
}
NAMED = {
    "map_blocks": lambda w, X: blocks(w, X, meta=EMPTY, name="named"),
    "delayed": lambda w, X: da.from_delayed(dask.delayed(lambda X: X @ w)(X), (20,), float),
    "method": lambda w, X: da.from_delayed(dask.delayed(Model(w).predict)(X), (20,), float),
    "argument": lambda w, X: da.from_delayed(dask.delayed(lambda X, w: X @ w)(X, w), (20,), float),
    "beneath": lambda w, X: np.exp(np.sin(da.from_delayed(dask.delayed(lambda X: X @ w)(X), (20,), float))),
}


def loss_of(made):
    """Return a loss of which a part has a Tensor in a graph; by the other part alone, the gradient would be `2 w`."""
    return lambda w: np.sum(w**2) + np.sum(made(w, da.from_array(X, chunks=(5, 3))))


@pytest.mark.parametrize("name", MADE)
def test_what_dask_makes_a_token_of_raises_when_the_graph_is_made(name):
    with pytest.raises(
        ConversionError, match=rf"constant in a graph of Dask, at {__file__}:\d+, .*functad\.map_blocks"
    ) as found:
        functad.grad(loss_of(MADE[name]))(W)
    assert any(entry.name in ("map_blocks", "blockwise") for entry in found.traceback)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("transform", [functad.grad, functad.jacfwd, functad.hessian], ids=lambda f: f.__name__)
def test_what_has_a_name_already_raises_when_the_function_returns(name, transform):
    with pytest.raises(ConversionError, match=r"constant in a graph of Dask, in a task.*functad\.map_blocks"):
        transform(loss_of(NAMED[name]))(W)


def test_tapes_raise_too():
    w = functad.constant(W)

    def recorded():
        with functad.GradientTape() as tape:
            tape.watch(w)
            loss_of(blocks)(w)

    with pytest.raises(ConversionError, match="constant in a graph of Dask, at"):
        recorded()
    with functad.GradientTape() as tape:
        tape.watch(w)
        value = loss_of(NAMED["delayed"])(w)
    with pytest.raises(ConversionError, match=r"constant in a graph of Dask, in a task of <lambda>"):
        tape.gradient(value, w)


def test_values_that_nothing_follows_are_constants():
    def loss(w):
        fixed = functad.stop_gradient(w)
        return np.sum(np.exp(w)) + np.sum(blocks(fixed, da.from_array(X, chunks=(5, 3))))

    value, gradient = functad.compute(functad.value_and_grad(loss)(W))
    np.testing.assert_allclose(gradient, np.exp(W), rtol=1e-12)
    np.testing.assert_allclose(value, np.exp(W).sum() + (X @ W).sum(), rtol=1e-12)
