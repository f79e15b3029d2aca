"""Optimisers and gradients that are `RowSlices`: the same steps as with dense gradients."""

import numpy as np
import pytest

import functad
from functad import RowSlices, errors
from functad.optimizers import SGD, Adagrad, Adam, AdamW, RMSprop

TABLE = np.random.default_rng(0).normal(size=(6, 2))
G = RowSlices([1, 4, 1], np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), TABLE.shape)
OPTIMIZERS = {
    "SGD": lambda: SGD(0.1),
    "schedule": lambda: SGD(lambda step: 0.1 / (1 + step)),
    "momentum": lambda: SGD(0.1, momentum=0.9),
    "decay": lambda: SGD(0.1, weight_decay=0.1),
    "clipped": lambda: SGD(0.1, clipnorm=1.0),
    "clipped together": lambda: SGD(0.1, global_clipnorm=1.0),
    "Adam": lambda: Adam(0.1),
    "AdamW": lambda: AdamW(0.1),
    "RMSprop": lambda: RMSprop(0.1),
    "Adagrad": lambda: Adagrad(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_dense_gradient(name):
    pairs = []
    for g in (G, G.dense()):
        v, b, optimizer = functad.Variable(TABLE), functad.Variable([1.0, 2.0]), OPTIMIZERS[name]()
        for i in range(3):
            optimizer.apply_gradients([(g * (i + 1), v), (np.array([0.5, 0.25]), b)])
        assert optimizer.iterations == 3
        pairs.append([v.numpy(), b.numpy()])
    for found, expected in zip(*pairs, strict=True):
        assert np.allclose(found, expected, rtol=1e-14)
    assert not np.array_equal(pairs[0][0][1], TABLE[1])


def test_plain_descent_makes_no_whole_gradient(monkeypatch):
    v, optimizer = functad.Variable(TABLE), SGD(0.1)
    optimizer.build([v])
    for name in ("dense", "numpy"):
        monkeypatch.delattr(RowSlices, name)
    optimizer.apply_gradients([(G, v)])
    expected = TABLE.copy()
    np.subtract.at(expected, G.indices, 0.1 * G.values)
    assert np.array_equal(v.numpy(), expected)


def test_gradients_of_a_tape():
    table, weight = functad.Variable(TABLE), functad.Variable(np.ones(2))
    optimizer, losses = SGD(0.05), []
    for _ in range(60):
        with functad.GradientTape() as tape:
            loss = np.mean((table[[0, 3, 3]] @ weight - np.array([1.0, 2.0, 3.0])) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [table, weight], sparse=True), [table, weight], strict=True))
        losses.append(float(loss))
    assert losses[-1] < 0.18 < losses[0]  # the best is 1/6: one row is to be 2 and 3
    assert np.array_equal(table.numpy()[[1, 2, 4, 5]], TABLE[[1, 2, 4, 5]])


def test_rows_in_single_precision():
    v, optimizer = functad.Variable(TABLE.astype(np.float32)), SGD(0.1)
    optimizer.apply_gradients([(G, v)])
    assert v.dtype == np.float32
    assert np.allclose(v.numpy(), TABLE - 0.1 * G.dense(), rtol=1e-5)


@pytest.mark.parametrize(
    ("g", "error", "said"),
    [
        (RowSlices([1], np.ones((1, 2)), (7, 2)), errors.StructureError, "one shape"),
        (RowSlices([1], np.ones((1, 2), complex), (6, 2)), errors.InputError, "real part"),
    ],
)
def test_rows_that_do_not_fit_move_nothing(g, error, said):
    v, b, optimizer = functad.Variable(TABLE), functad.Variable([1.0, 2.0]), SGD(0.1)
    with pytest.raises(error, match=said):
        optimizer.apply_gradients([(np.ones(2), b), (g, v)])
    assert np.array_equal(v.numpy(), TABLE)
    assert np.array_equal(b.numpy(), [1, 2])
    assert optimizer.iterations == 0
