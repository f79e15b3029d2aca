"""Methods of ufuncs, and their keywords, differentiate as the ufuncs do."""

import numpy as np
import pytest

import functad
import functad.numpy as fnp
from functad.testing import check_grads

X = np.array([[0.7, -1.2, 1.9], [0.4, 2.2, -0.6]])
Y = np.array([1.3, 0.8])
MASK = np.array([[True, False, True], [False, True, True]])


def _at(x):
    out = fnp.zeros(3)
    np.add.at(out, [0, 2, 0], x[0] * x[1])
    return out


def _out(x):
    out = fnp.zeros(3)
    np.multiply(x[0], x[1], out=out)
    return out


METHODS = {
    "add.reduce": (lambda x: np.add.reduce(x**2, axis=1), lambda x: (x**2).sum(axis=1)),
    "multiply.reduce": (lambda x: np.multiply.reduce(x, axis=None, keepdims=True), lambda x: x.prod(keepdims=True)),
    "maximum.reduce": (lambda x: np.maximum.reduce(x, axis=0), lambda x: x.max(axis=0)),
    "reduce where": (lambda x: np.add.reduce(x**3, axis=1, where=MASK, initial=2.0), lambda x: (x**3 * MASK).sum(axis=1) + 2),
    "add.accumulate": (lambda x: np.add.accumulate(x**2, axis=1), lambda x: np.cumsum(x**2, axis=1)),
    "multiply.accumulate": (lambda x: np.multiply.accumulate(x, axis=1), lambda x: np.cumprod(x, axis=1)),
    "add.reduceat": (lambda x: np.add.reduceat(x**2, [0, 1]), lambda x: x**2),
    "multiply.reduceat": (lambda x: np.multiply.reduceat(x[0], [0, 2]), lambda x: np.array([x[0, 0] * x[0, 1], x[0, 2]])),
    "multiply.outer": (lambda x: np.multiply.outer(x, Y), lambda x: x[..., None] * Y),
    "subtract.outer": (lambda x: np.subtract.outer(x[0], x[1]) ** 2, lambda x: (x[0][:, None] - x[1]) ** 2),
    "add.at": (_at, lambda x: np.array([x[0, 0] * x[1, 0] + x[0, 2] * x[1, 2], 0.0, x[0, 1] * x[1, 1]])),
    "out": (_out, lambda x: x[0] * x[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_derivatives(name):
    f, written_out = METHODS[name]
    np.testing.assert_allclose(f(X), written_out(X), rtol=1e-13)
    assert functad.eval_shape(f, X).shape == f(X).shape
    check_grads(f, [X], order=2)
