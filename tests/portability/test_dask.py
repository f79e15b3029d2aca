"""Arrays of Dask, as inputs and as constants: values and derivatives are lazy, and one `compute` reads every chunk once."""

from __future__ import annotations

import os
import re
import warnings

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, UnsupportedError
from functad.testing import calls, every_entry
from tests.differences import random_like
from tests.entries import is_constant

dask = pytest.importorskip("dask", reason="dask is in the extra `test`")
da = pytest.importorskip("dask.array", reason="dask is in the extra `test`")

from tests.portability.chunked_rows import counted_chunks, in_chunks  # noqa: E402 - it needs Dask

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(20, 3)), RNG.normal(size=3)
Y = (RNG.random(20) > 0.5) * 1.0
ROWS = 5


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(array):
    return in_chunks(array, ROWS)


def counted(array):
    return counted_chunks(array, ROWS)


def logistic(w, X, y):
    z = X @ w
    return np.mean(np.logaddexp(0, z) - y * z)


def network(p, X, y):
    return np.mean((np.tanh(X @ p["a"] + p["b"]) @ p["c"] - y) ** 2)


P = {"a": RNG.normal(size=(3, 4)), "b": RNG.normal(size=4), "c": RNG.normal(size=4)}


def same(found, expected):
    """Compare trees of lazy results with values."""
    leaves, expected = functad.tree_leaves(found), functad.tree_leaves(expected)
    assert [type(leaf) for leaf in leaves] == [da.Array] * len(expected)
    for a, b in zip(dask.compute(*leaves), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("loss", "parameters"), [(logistic, W), (network, P)], ids=["logistic", "network"])
@pytest.mark.parametrize("way", ["argument", "captured", "parameters too"])
def test_value_and_gradient_are_lazy_and_read_every_chunk_once(loss, parameters, way):
    rows, reads = counted(X)
    y = chunked(Y)
    if way == "captured":
        found = functad.value_and_grad(lambda p: loss(p, rows, y))(parameters)
    else:
        given = functad.tree_map(da.asarray, parameters) if way == "parameters too" else parameters
        found = functad.value_and_grad(loss)(given, rows, y)
    assert not reads
    same(found, functad.value_and_grad(loss)(parameters, X, Y))
    assert reads == dict.fromkeys(range(0, 20, ROWS), 1)


OPERATIONS = {
    "X @ t": lambda t, X: X @ t,
    "t @ X": lambda t, X: t @ X.T,
    "t * X": lambda t, X: t * X,
    "X - t": lambda t, X: X - t,
    "np.matmul": lambda t, X: np.matmul(X, t),
    "np.dot": lambda t, X: np.dot(X, t),
    "np.add": lambda t, X: np.add(t, X),
    "np.arctan2": lambda t, X: np.arctan2(t, X),
    "np.maximum": lambda t, X: np.maximum(t, X),
    "np.where": lambda t, X: np.where(X > 0, t, X),
    "np.concatenate": lambda t, X: np.concatenate([t[None], X]) ** 2,
    "np.einsum": lambda t, X: np.einsum("ij,j->i", X, t),
    "np.sqrt": lambda t, X: np.sqrt(np.abs(X @ t)),
    "norm": lambda t, X: np.linalg.norm(X - t),
    "max": lambda t, X: np.max(X * t, axis=0),
    "var": lambda t, X: np.var(X * t),
    "prod": lambda t, X: np.prod(X * t, axis=1),
    "slice": lambda t, X: (X @ t)[3:12],
    "logsumexp": lambda t, X: np.log(np.sum(np.exp(X @ t))),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_a_tensor_and_a_dask_array(name):
    def loss(t, X):
        return np.sum(np.sin(OPERATIONS[name](t, X)))

    for argnums in (0, 1):
        found = functad.grad(loss, argnums)(W, chunked(X))
        same(found, functad.grad(loss, argnums)(W, X))


def test_second_derivatives_are_lazy():
    y = chunked(Y)
    rows, reads = counted(X)
    for product in (
        lambda X, y: functad.hvp(lambda w: logistic(w, X, y), (W,), (np.ones(3),)),
        lambda X, y: functad.jvp(lambda w: logistic(w, X, y), (W,), (np.ones(3),)),
        lambda X, y: functad.hessian(lambda w: logistic(w, X, y))(W),
        lambda X, y: functad.jacobian(lambda w: np.tanh(X @ w))(W),
        lambda X, y: functad.jacfwd(lambda w: np.tanh(X @ w))(W),
    ):
        reads.clear()
        found = product(rows, y)
        assert not reads
        same(found, product(X, Y))
        assert reads == dict.fromkeys(range(0, 20, ROWS), 1)


REDUCED = {
    "sum": lambda w, X: np.sum(np.sin(X * w)),
    "mean": lambda w, X: np.mean(np.sin(X @ w)),
    "along an axis": lambda w, X: np.sum(np.sum(X * w, axis=1) ** 2),
    "mean along the other": lambda w, X: np.sum(np.mean(np.sin(X * w), axis=0) ** 2),
    "kept axes": lambda w, X: np.sum(np.exp(X * w - np.sum(X * w, axis=1, keepdims=True))),
}


@pytest.mark.parametrize("name", REDUCED)
def test_cotangents_of_sums_lie_in_the_chunks_of_what_was_summed(name):
    """Where they lie in one chunk, Dask cuts it up by two tasks for each of the others."""
    for transform in (functad.grad, lambda f, *_: lambda w, X: functad.hvp(lambda w: f(w, X), (w,), (w,))):
        found = transform(REDUCED[name])(W, chunked(X))
        assert not [layer for layer in found.__dask_graph__().layers if layer.startswith("rechunk")]
        same(found, transform(REDUCED[name])(W, X))
    same(functad.grad(REDUCED[name], 1)(W, chunked(X)), functad.grad(REDUCED[name], 1)(W, X))
    assert functad.grad(REDUCED[name], 1)(W, chunked(X)).chunks == chunked(X).chunks


def test_compute_reads_every_chunk_once_and_leaves_others_alone():
    rows, reads = counted(X)
    tree = functad.value_and_grad(logistic)(W, rows, chunked(Y))
    (value, gradient), other = functad.compute(tree, {"name": "a", "array": W})
    assert reads == dict.fromkeys(range(0, 20, ROWS), 1)
    assert other["array"] is W
    assert other["name"] == "a"
    expected, slope = functad.value_and_grad(logistic)(W, X, Y)
    assert type(value) is np.float64
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    with pytest.raises(ConversionError, match="compute"):
        functad.grad(lambda w: functad.compute(np.sum(rows @ w)))(W)


def test_constants_and_compiled_code_convert_nothing():
    rows, reads = counted(X)
    same(functad.grad(lambda w: np.sum(functad.constant(rows) @ w))(W), X.sum(0))
    reads.clear()
    same(functad.jit(functad.grad(lambda w: np.sum(np.tanh(rows @ w))))(W), functad.grad(lambda w: np.sum(np.tanh(X @ w)))(W))
    assert set(reads.values()) == {1}


def test_batches_and_normal_equations_stay_in_chunks():
    rows, reads = counted(X)
    y = chunked(Y)

    def one(w, x, t):
        return (np.tanh(x @ w) - t) ** 2

    gradients = functad.vmap(functad.grad(one), in_axes=(None, 0, 0))
    found = gradients(W, rows, y)
    assert found.chunks[0] == rows.chunks[0]
    same(found, gradients(W, X, Y))

    def normal_equations(X, y):
        residuals, slope = functad.value_and_jacobian(lambda w: np.tanh(X @ w) - y)(W)
        return slope.T @ slope, slope.T @ residuals

    reads.clear()
    same(normal_equations(rows, y), normal_equations(X, Y))
    assert reads == dict.fromkeys(range(0, 20, ROWS), 1)


@pytest.mark.parametrize("method", ["L-BFGS-B", "Newton-CG"])
def test_minimize_passes_over_the_data_once_for_value_and_gradient(method):
    pytest.importorskip("scipy", reason="SciPy is in the extra `scipy`")
    rows, reads = counted(X)
    y = chunked(Y)
    expected = functad.optimize.minimize(lambda w: logistic(w, X, Y) + np.sum(w**2), W, method=method)
    found = functad.optimize.minimize(lambda w: logistic(w, rows, y) + np.sum(w**2), W, method=method)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-9)
    passes = set(reads.values())
    assert len(passes) == 1
    assert passes == {found.nfev} or method == "Newton-CG"  # which needs products with the Hessian too


@pytest.mark.parametrize(
    "f", [lambda X, w: X[X[:, 0] > 0] @ w, lambda X, w: (X @ w)[X[:, 0] > 0]], ids=["of a constant", "of a Tensor"]
)
def test_lengths_that_depend_on_data_raise_with_the_cure(f):
    rows, reads = counted(X)
    with pytest.raises(UnsupportedError, match=r"shape \(nan,\), at .*compute_chunk_sizes\(\).*np\.where\(mask, x, 0\.0\)"):
        functad.grad(lambda w: np.sum(f(rows, w)))(W)
    assert not reads
    known = rows[rows[:, 0] > 0].compute_chunk_sizes()
    same(functad.grad(lambda w: np.sum(np.tanh(known @ w)))(W), functad.grad(lambda w: np.sum(np.tanh(X[X[:, 0] > 0] @ w)))(W))


EVERY = int(os.environ.get("FUNCTAD_EVERY_ENTRY", "0")) or 12
NAMED = {"einsum", "cumprod", "recurrence", "exclusive_product", "spread", "prod", "sum", "matmul"}
ENTRIES = [entry for entry in every_entry() if not is_constant(entry) and entry.status != "refused" and not entry.in_place]
CHOSEN = [entry for i, entry in enumerate(ENTRIES) if i % EVERY == 0 or entry.name in NAMED]


@pytest.mark.parametrize("entry", CHOSEN, ids=lambda entry: entry.name)
def test_derivatives_of_an_entry_are_right_or_an_error(entry):
    """What Dask lacks raises; nothing gives other numbers than NumPy's."""
    if getattr(entry.function, "__module__", "").startswith("functad.scipy."):
        return  # compiled functions of SciPy compute these, from arrays of NumPy
    for call in [call for call in calls(entry, np.float64) if call.primals and call.smooth(*call.primals)][:2]:
        gs = [np.asarray(random_like(y, np.random.default_rng(0))) for y in call.smooth(*call.primals)]
        expected = functad.vjp(call.smooth, *call.primals)[1](tuple(gs))
        lazy = [da.from_array(x, chunks=tuple(max(1, (n + 1) // 2) for n in x.shape)) for x in map(np.asarray, call.primals)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", FutureWarning)  # by which Dask says that it converts
                found = dask.compute(*functad.vjp(call.smooth, *lazy)[1](tuple(map(da.asarray, gs))))
        except REFUSALS:
            continue
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=str(call))


REFUSALS = (UnsupportedError, TypeError, ValueError, AttributeError, NotImplementedError, FutureWarning, ArithmeticError)
LOST = {
    "method": lambda t, X: X.dot(t).sum(),
    "function": lambda t, X: da.sum(X @ t),
    "from_array": lambda t, X: da.from_array(t).sum(),
}


@pytest.mark.parametrize("name", LOST)
def test_tensors_are_no_constants_of_a_graph(name):
    with pytest.raises(ConversionError, match=rf"graph of Dask, at {__file__}"):
        functad.grad(lambda t: LOST[name](t, chunked(X)))(W)


SQUARE = RNG.normal(size=(6, 6))
SQUARE = SQUARE @ SQUARE.T + np.eye(6)
FACTORED = {
    "solve": (lambda A, b: np.sum(np.linalg.solve(A, b) ** 2), SQUARE, (3, 3)),
    "inv": (lambda A, b: np.sum(np.linalg.inv(A) @ b), SQUARE, (3, 3)),
    "cholesky": (lambda A, b: np.sum((np.linalg.cholesky(A) @ b) ** 2), SQUARE, (3, 3)),
    "r of qr": (lambda A, b: np.sum((np.linalg.qr(A)[1] ** 2) @ b[:3]), X, (ROWS, 3)),
    "q of qr": (lambda A, b: np.sum(np.linalg.qr(A)[0] ** 2 @ b[:3]), X, (ROWS, 3)),
    "norm": (lambda A, b: np.linalg.norm(A) + np.sum(np.linalg.norm(A, axis=1)), X, (ROWS, 3)),
}


@pytest.mark.parametrize("name", FACTORED)
def test_linear_algebra_in_chunks(name):
    f, A, chunks = FACTORED[name]
    b = np.arange(1.0, 7.0)
    lazy = da.from_array(A, chunks=chunks)
    same(functad.value_and_grad(f)(lazy, b), functad.value_and_grad(f)(A, b))


def test_weighted_means_are_not_computed_in_passing():
    rows, reads = counted(X)
    weights = np.abs(rows[:, 0])
    found = functad.grad(lambda X: np.sum(np.average(X, axis=0, weights=weights) ** 2))(rows)
    assert not reads
    same(found, functad.grad(lambda a: np.sum(np.average(a, axis=0, weights=np.abs(X[:, 0])) ** 2))(X))


LACKING = {
    "svd": (lambda A: np.sum(np.linalg.svd(A, compute_uv=False)), "np.linalg.svd"),
    "all of svd": (lambda A: np.sum(np.linalg.svd(A)[1]), "np.linalg.svd"),
    "lstsq": (
        lambda A: np.sum(np.linalg.lstsq(A, np.ones(len(X)), rcond=None)[0]),
        "`np.linalg.lstsq(A, np.ones(len(X)), rcond=None)`",
    ),
    "norm": (lambda A: np.linalg.norm(A, 2), "`np.linalg.norm(A, 2)`"),
    "quantile": (lambda A: np.quantile(A, 0.3), "`np.quantile(A, 0.3)`"),
    "median": (lambda A: np.sum(np.median(A, axis=0)), "`np.median(A, axis=0)`"),
}


@pytest.mark.parametrize("name", LACKING)
def test_options_that_dask_lacks_raise_with_their_place(name):
    f, called = LACKING[name]
    place = f"{__file__}:{f.__code__.co_firstlineno}"
    told = rf"^{re.escape(called)}.* of dask\.array\.core\.Array, at {place}: this library does not support it"
    with pytest.raises(UnsupportedError, match=rf"{told}.*Compile it: functad\.jit\(functad\.grad\(f\)\)"):
        functad.grad(f)(chunked(X))
    same(functad.jit(functad.grad(f))(chunked(X)), functad.grad(f)(X))  # the cure


def test_the_cure_of_least_squares():
    y = np.arange(20.0)
    found = functad.grad(lambda A: np.sum(np.linalg.solve(A.T @ A, A.T @ y) ** 2))(da.from_array(X, chunks=(5, 3)))
    same(found, functad.grad(lambda A: np.sum(np.linalg.lstsq(A, y, rcond=None)[0] ** 2))(X))


def test_rules_that_need_what_dask_lacks_raise_and_convert_nothing():
    """The value is Dask's own; the rule would convert all chunks, with a warning."""
    rows, reads = counted(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            UnsupportedError, match=r"^the derivative of np\.linalg\.svd of dask\.array\.core\.Array, at .*does not support it"
        ):
            functad.grad(lambda A: np.sum(np.linalg.svd(A, full_matrices=False)[1] ** 3))(rows)
    assert not reads


def test_what_dask_lacks_raises_with_its_name_and_reads_nothing():
    rows, reads = counted(X)
    for f, name in ((np.sort, "np.argsort"), (lambda X: np.linalg.slogdet(X[:3])[1], "slogdet")):
        with pytest.raises(UnsupportedError, match=rf"{name}.* of dask\.array\.core\.Array, at {__file__}"):
            functad.grad(lambda X, f=f: np.sum(f(X)))(rows)
    assert not reads
