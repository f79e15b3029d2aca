"""Calls at the borders of NumPy's rules: values, dtypes and exceptions equal NumPy's in each trace."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import functad

INF = np.inf
X = np.arange(6.0).reshape(2, 3) - 2
ROWS = np.array([True, False])

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def ways(f):
    """Return `f` in an eager trace, listed, batched, compiled and compiled to NumPy."""
    return {
        "eager": lambda *args: functad.vjp(f, *args)[0],
        "listed": lambda *args: functad.make_expressions(f)(*args)(*args),
        "batched": lambda *args: functad.vmap(f)(*[np.stack([a, a]) for a in args])[1],
        "compiled": functad.jit(f),
        "numpy": functad.jit(f, backend="numpy"),
    }


WAYS = ["eager", "listed", "batched", "compiled", "numpy"]

CALLS = {
    "piecewise by rows": lambda x: np.piecewise(x, [x[:, 0] < 0], [lambda v: v * 2, lambda v: -v]),
    "piecewise by known rows": lambda x: np.piecewise(x, [ROWS, ~ROWS], [1.0, lambda v: v * 3]),
    "piecewise of rows that interact": lambda x: np.piecewise(x, [ROWS], [lambda v: v - v.mean(1, keepdims=True), np.sin]),
    "piecewise with one condition": lambda x: np.piecewise(x, ROWS, [lambda v: v * 2]),
    "piecewise with a wrong mask": lambda x: np.piecewise(x, [np.ones(3, bool)], [lambda v: v * 2]),
    "piecewise with a mask that would broadcast": lambda x: np.piecewise(x, [x[:, :1] < 0], [lambda v: v * 2]),
    "piecewise with too many axes": lambda x: np.piecewise(x, [np.ones((2, 3, 1), bool)], [1.0]),
    "piecewise with masks of two shapes": lambda x: np.piecewise(x, [x[:, 0] < 3, x > 2], [1.0, 2.0]),
    "piecewise with a scalar": lambda x: np.piecewise(x, [x[0, 0] < 0], [lambda v: v * 2, 7]),
    "windows of length 0": lambda x: sliding_window_view(x, 0, 1),
    "windows of lengths 0 and 2": lambda x: sliding_window_view(x, (0, 2)),
    "windows of a row": lambda x: sliding_window_view(x[0], 0),
    "two ellipses": lambda x: x[..., ...],
    "two ellipses and an axis": lambda x: x[..., None, ...],
    "two ellipses and a slice": lambda x: x[:, ..., ...],
    "ediff1d of booleans": lambda x: np.ediff1d(x > 0),
    "ediff1d of booleans with an end": lambda x: np.ediff1d(x > 0, to_end=True),
    "lexsort of numbers": lambda x: np.lexsort((x[0, 0], 2.0)),
    "lexsort of one number": lambda x: np.lexsort((x[0, 1],)),
    "lexsort of a vector as keys": lambda x: np.lexsort(x[0]),
    "lexsort of numbers along axis 1": lambda x: np.lexsort((x[0, 0], 2.0), axis=1),
    "lexsort of rows": lambda x: np.lexsort((x[0], x[1])),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", list(CALLS))
def test_call(call, way):
    f = CALLS[call]
    try:
        expected = f(X)
    except (TypeError, ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            ways(f)[way](X)
    else:
        np.testing.assert_array_equal(ways(f)[way](X), expected, strict=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("values", [[-INF, 1, 2, INF], [-INF, 1, 2], [1, 2, 3, INF], [INF, INF, 1, 2], [-INF, INF], [INF]])
def test_quantiles_beside_infinities(values, way):
    x = np.array(values)
    for q in (0.0, 0.25, 0.5, 1.0, [0.1, 0.25, 0.5]):
        f = ways(lambda x, q=q: np.quantile(x, q, method="averaged_inverted_cdf"))[way]
        np.testing.assert_array_equal(f(x), np.quantile(x, q, method="averaged_inverted_cdf"))


def test_gradient_of_a_piecewise_function_of_rows():
    def total(x):
        return np.sum(np.piecewise(x, [x[:, 0] < 0], [lambda v: v**2, np.sin]))

    expected = np.where(X[:, :1] < 0, 2 * X, np.cos(X))
    for gradient in (functad.grad(total), functad.jit(functad.grad(total))):
        np.testing.assert_allclose(gradient(X), expected)
    np.testing.assert_allclose(functad.vmap(functad.grad(total))(np.stack([X, X])), [expected, expected])


OUTS = {
    "einsum": lambda a, out: np.einsum("ij,j->i", a, a[0], out=out),
    "einsum with lists of axes": lambda a, out: np.einsum(a, [0, 1], [0], out=out),
    "einsum with a dtype": lambda a, out: np.einsum("ij,j->i", a, a[0], out=out, dtype=np.float64),
    "dot": lambda a, out: np.dot(a, a[0], out=out),
    "argmax": lambda a, out: np.argmax(a, axis=1, out=out),
    "nanargmin": lambda a, out: np.nanargmin(a, axis=1, out=out),
    "take": lambda a, out: np.take(a[0], [0, 1], out=out),
    "compress": lambda a, out: np.compress([True, True, False], a[0], out=out),
}


@pytest.mark.parametrize("way", ["listed", "batched", "compiled"])
@pytest.mark.parametrize("own", [np.float64, np.int8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.int8, np.complex128])
@pytest.mark.parametrize("name", list(OUTS))
def test_results_and_errors_of_out_with_another_dtype(name, dtype, own, way):
    def f(a, out):
        out = out.copy()
        OUTS[name](a, out)
        return out

    a, out = np.array([[100, 100, 27], [3, 1, 2]], own), np.zeros(2, dtype)
    try:
        expected = f(a, out)
    except (TypeError, ValueError, Warning) as error:  # NumPy 2.5 warns where a later version will raise
        with pytest.raises(type(error)):
            ways(f)[way](a, out)
        return
    if dtype(0).dtype.kind == "i" and own is np.float64 and name in ("take", "compress"):
        with pytest.raises(functad.errors.UnsupportedError):  # the derivative would be lost
            ways(f)[way](a, out)
        return
    np.testing.assert_array_equal(ways(f)[way](a, out), expected, strict=True)
