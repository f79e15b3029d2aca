"""Compiled functions of Dask arrays: lazy results of one task for each chunk and stage, with the values of NumPy."""

from __future__ import annotations

import os
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest

import functad
from functad.backends.native import step
from functad.chunks import partition
from functad.chunks.tasks import Combination, ListTask, window
from functad.errors import AbstractValueError, UnsupportedError
from functad.testing import calls, every_entry
from tests.differences import random_like
from tests.entries import is_constant

dask = pytest.importorskip("dask", reason="dask is in the extra `test`")
da = pytest.importorskip("dask.array", reason="dask is in the extra `test`")

from tests.portability.chunked_rows import counted_chunks, in_chunks  # noqa: E402 - it needs Dask

RNG = np.random.default_rng(0)
ROWS = 6
N = 20
X, W = RNG.normal(size=(N, 3)), RNG.normal(size=3)
Y = (RNG.random(N) > 0.5) * 1.0
LABELS = RNG.integers(0, 4, size=N)
NETWORK = {"a": RNG.normal(size=(3, 4)), "b": RNG.normal(size=4), "c": RNG.normal(size=4)}
MIXTURE = {"means": RNG.normal(size=(2, 3)), "weights": np.array([0.1, -0.2])}


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(array, rows=ROWS):
    return in_chunks(array, rows)


def counted(array):
    return counted_chunks(array, ROWS)


def same(found, expected, rtol=1e-11):
    """Compare trees of lazy results with values."""
    leaves, expected = functad.tree_leaves(found), functad.tree_leaves(expected)
    assert [type(leaf) for leaf in leaves] == [da.Array] * len(expected)
    for leaf, a, b in zip(leaves, dask.compute(*leaves), expected, strict=True):
        assert (leaf.shape, leaf.dtype) == (np.shape(b), np.asarray(b).dtype)
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol / 10)


def fallbacks(f, *args):
    """Return which operations do not follow chunk by chunk."""
    lines = [line for line in f.lower(*args).source().splitlines() if line.startswith("# By ")]
    return [line.partition(": ")[2].partition(",")[0] for line in lines]


def logistic(w, X, y):
    z = X @ w
    return np.mean(np.logaddexp(0, z) - y * z)


def network(p, X, y):
    return np.mean((np.tanh(X @ p["a"] + p["b"]) @ p["c"] - y) ** 2)


def mixture(p, X):
    distances = np.sum((X[:, None] - p["means"]) ** 2, axis=-1)
    logits = p["weights"] - np.log(np.sum(np.exp(p["weights"]))) - 0.5 * distances
    top = np.max(logits, axis=1, keepdims=True)
    return -np.mean(top[:, 0] + np.log(np.sum(np.exp(logits - top), axis=1)))


def log_sum_exp(w, X):
    return np.log(np.sum(np.exp(X @ w)))


def standardised(w, X, y):
    Z = (X - X.mean(0)) / X.std(0)
    return np.sum((Z @ w - y) ** 2) + np.linalg.norm(w)


def classes(p, X, labels):
    logits = X @ p
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    chances = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(chances[np.arange(len(labels)), labels])


def embedded(table, labels, y):
    return np.sum((np.sum(np.tanh(table[labels]), axis=1) - y) ** 2)


LOSSES = {
    "logistic": (logistic, (W, X, Y)),
    "network": (network, (NETWORK, X, Y)),
    "mixture": (mixture, (MIXTURE, X)),
    "log-sum-exp": (log_sum_exp, (W, X)),
    "standardised": (standardised, (W, X, Y)),
    "classes": (classes, (RNG.normal(size=(3, 4)), X, LABELS)),
    "embedded": (embedded, (RNG.normal(size=(4, 2)), LABELS, Y)),
}


def lazily(args, rows=ROWS):
    """Return arguments with all arrays of `N` rows in chunks."""
    return functad.tree_map(lambda a: chunked(a, rows) if np.shape(a)[:1] == (N,) else a, args)


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_follow_chunk_by_chunk(name, backend):
    loss, args = LOSSES[name]
    step = functad.jit(functad.value_and_grad(loss), backend=backend)
    assert fallbacks(step, *lazily(args)) == []
    expected = functad.value_and_grad(loss)(*args)
    same(step(*lazily(args)), expected)
    same(step(*lazily(args, 7)), expected)  # chunks of other lengths are another compilation
    assert step.cache_info().size == 2
    assert "chunks" in step.explain_recompile()


@pytest.mark.parametrize("way", ["argument", "captured", "parameters too"])
@pytest.mark.parametrize("name", ["logistic", "standardised"])
def test_every_chunk_is_read_once(name, way):
    loss, (w, _, y) = LOSSES[name]
    rows, reads = counted(X)
    if way == "captured":
        found = functad.jit(functad.value_and_grad(lambda w: loss(w, rows, chunked(y))))(w)
    else:
        own = da.asarray(w) if way == "parameters too" else w
        found = functad.jit(functad.value_and_grad(loss))(own, rows, chunked(y))
    assert not reads
    same(found, functad.value_and_grad(loss)(w, X, y))
    assert reads == dict.fromkeys(range(0, N, ROWS), 1)


@pytest.mark.parametrize(("name", "stages", "once"), [("logistic", 1, 1), ("log-sum-exp", 2, 1), ("mixture", 1, 2)])
def test_there_is_one_task_for_each_chunk_and_stage(name, stages, once, monkeypatch):
    loss, args = LOSSES[name]
    ran = Counter()
    call = ListTask.__call__

    def noted(self, *arguments):
        ran["chunk" if any(self.template.alongs) else "once"] += 1
        return call(self, *arguments)

    monkeypatch.setattr(ListTask, "__call__", noted)
    functad.compute(functad.jit(functad.value_and_grad(loss))(*lazily(args)))
    assert ran == {"chunk": 4 * stages, "once": once}


def test_results_have_the_same_digits_for_the_same_chunks():
    step = functad.jit(functad.value_and_grad(network))
    first, second = [functad.compute(step(*lazily((NETWORK, X, Y)))) for _ in range(2)]
    with dask.config.set(scheduler="threads"):
        third = functad.compute(step(*lazily((NETWORK, X, Y))))
    for a, b, c in zip(*map(functad.tree_leaves, (first, second, third)), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_single_precision_stays_single():
    loss, args = LOSSES["network"]
    given = functad.tree_map(lambda a: a.astype(np.float32), args)
    found = functad.jit(functad.value_and_grad(loss))(*lazily(given))
    same(found, functad.value_and_grad(loss)(*given), rtol=1e-5)


COMPOSED = {
    "hvp": functad.jit(lambda w, X, y: functad.hvp(lambda w: np.sum((X @ w - y) ** 2), (w,), (np.ones(3),))),
    "jvp": functad.jit(lambda w, X, y: functad.jvp(lambda w: logistic(w, X, y), (w,), (np.ones(3),))),
    "hessian": functad.jit(functad.hessian(logistic)),
    "jacobian": functad.jit(functad.jacobian(lambda w, X, y: np.tanh(X @ w) - y)),
    "of each row": functad.jit(functad.vmap(functad.grad(lambda w, x, t: (np.tanh(x @ w) - t) ** 2), in_axes=(None, 0, 0))),
    "by the rows": functad.jit(functad.grad(logistic, (1, 2))),
    "grad of jit": functad.value_and_grad(functad.jit(logistic)),
    "grad of jit of two stages": functad.grad(functad.jit(lambda w, X, y: log_sum_exp(w, X * y[:, None]))),
    "hessian of jit": functad.hessian(functad.jit(logistic)),
    "vmap of jit": functad.vmap(functad.jit(lambda w, x, t: np.tanh(x @ w) - t), in_axes=(None, 0, 0)),
    "jit of jit": functad.jit(functad.grad(functad.jit(lambda w, X, y: functad.jit(logistic)(w, X, y) * 2))),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_transforms_compose(name):
    f = COMPOSED[name]
    same(f(W, chunked(X), chunked(Y)), f(W, X, Y))
    if hasattr(f, "lower"):
        assert fallbacks(f, W, chunked(X), chunked(Y)) == []


def test_normal_equations_are_added_over_chunks():
    @functad.jit
    def normal_equations(w, X, y):
        residuals, slope = functad.value_and_jacobian(lambda w: np.tanh(X @ w) - y)(w)
        return slope.T @ slope, slope.T @ residuals

    same(normal_equations(W, chunked(X), chunked(Y)), normal_equations(W, X, Y))
    assert fallbacks(normal_equations, W, chunked(X), chunked(Y)) == []


BY_ROWS = {
    "sort": lambda w, X: np.sort(X * w, axis=1)[:, 0],
    "cumsum": lambda w, X: np.cumsum(X * w, axis=1),
    "concatenate": lambda w, X: np.concatenate([X, X * w, np.broadcast_to(w, X.shape)], axis=1),
    "stack": lambda w, X: np.stack([X @ w, np.sin(X @ w)], axis=1),
    "einsum": lambda w, X: np.einsum("ij,ik,k->j", X, X, w),
    "solve": lambda w, X: np.linalg.solve(X[:, :, None] * w + 9 * np.eye(3), X[:, :, None]),
    "det": lambda w, X: np.linalg.det(X[:, :, None] * w + 9 * np.eye(3)),
    "norm": lambda w, X: np.linalg.norm(X - w),
    "norms": lambda w, X: np.linalg.norm(X - w, axis=1),
    "max": lambda w, X: np.max(X * w, axis=0),
    "var": lambda w, X: np.var(X * w, axis=0, ddof=1),
    "float16 mean": lambda w, X: np.mean((X * w).astype(np.float16)).astype(float),
    "any": lambda w, X: np.any(X > 2, axis=0) * w,
    "ravel": lambda w, X: np.tanh((X * w).ravel()),
    "many axes": lambda w, X: (X[:, :, None] * w).reshape(-1, 3, 3, 1).transpose(1, 0, 3, 2),
    "transposed": lambda w, X: np.tanh(X.T * w[:, None]) @ X,
    "where": lambda w, X: np.where(X > 0, X * w, w),
    "argmax": lambda w, X: (X * w)[np.arange(len(X)), np.argmax(X, axis=1)],
    "ones": lambda w, X: np.ones(len(X)) @ X * w,
    "numbers of rows": lambda w, X: np.arange(len(X)) * (X @ w),
    "outer": lambda w, X: np.outer(X @ w, w),
    "vmap": lambda w, X: functad.vmap(lambda x: np.tanh(x @ w) * np.max(x * w))(X),
    "choice": lambda w, X: functad.cond(w[0] > 0, lambda z: z * 2, lambda z: np.zeros(N), X @ w),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_operations_that_follow_chunk_by_chunk(name):
    step = functad.jit(functad.value_and_grad(lambda w, X: np.sum(np.sin(BY_ROWS[name](w, X)))))
    same(step(W, chunked(X)), functad.value_and_grad(lambda w, X: np.sum(np.sin(BY_ROWS[name](w, X))))(W, X))
    assert fallbacks(step, W, chunked(X)) == []


OVER_ROWS = {
    "sort": (lambda w, X: np.sort(X * w, axis=0)[:5], "argsort"),
    "cumsum": (lambda w, X: np.cumsum(X @ w), "cumsum"),
    "slice": (lambda w, X: (X @ w)[3:12], "getitem"),
    "difference": (lambda w, X: np.diff(X @ w), "diff"),
    "concatenate": (lambda w, X: np.concatenate([w[None], X]) * w, "concatenate"),
    "all pairs": (lambda w, X: np.exp(-((X * w) @ X.T)), "matmul"),
    "median": (lambda w, X: np.median(X @ w), "positions_of_ranks"),
    "product": (lambda w, X: np.prod(1 + 0.1 * X @ w), "exclusive_product"),
    "scan": (lambda w, X: functad.scan(lambda c, x: (np.tanh(c + x @ w), c), 0.0, X)[1], "scan"),
    "write": (lambda w, X: np.flip(X * w, axis=0) * X, "flip"),
}


DASK_LACKS = {"sort", "median"}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("name", OVER_ROWS)
def test_what_does_not_follow_falls_back_for_that_operation_alone(name, large, monkeypatch):
    f, fallback = OVER_ROWS[name]
    if large:
        monkeypatch.setattr(partition, "LARGE", 0)
    step = functad.jit(functad.value_and_grad(lambda w, X: np.sum(np.sin(f(w, X)))))
    rows, reads = counted(X)
    if large and name in DASK_LACKS:
        with pytest.raises(UnsupportedError, match=r"at .*too large for one task, and Dask cannot compute it"):
            step(W, rows)
        return
    found = step(W, rows)
    assert not reads
    assert fallback in fallbacks(step, W, rows)
    same(found, functad.value_and_grad(lambda w, X: np.sum(np.sin(f(w, X))))(W, X))
    assert set(reads.values()) == {1}


def test_chunks_along_several_axes_and_of_other_lengths():
    step = functad.jit(functad.value_and_grad(logistic))
    expected = functad.value_and_grad(logistic)(W, X, Y)
    same(step(W, da.from_array(X, chunks=(6, 2)), da.from_array(Y, chunks=5)), expected)
    same(step(da.from_array(W, chunks=2), da.from_array(X, chunks=(6, 1)), Y), expected)  # labels of NumPy
    same(step(W, da.from_array(X, chunks=(N, 1)), chunked(Y)), expected)
    same(step(W, da.from_array(X, chunks=-1), da.from_array(Y, chunks=-1)), expected)  # nothing is in chunks


def test_results_may_be_chunks_numbers_and_arguments():
    @functad.jit
    def several(w, X):
        return {"rows": X @ w, "total": np.sum(X), "w": w, "X": X, "one": np.ones(2), "doubled": 2 * w}

    found = several(W, chunked(X))
    assert found["rows"].chunks == ((6, 6, 6, 2),)
    same(found, {"rows": X @ W, "total": np.sum(X), "w": W, "X": X, "one": np.ones(2), "doubled": 2 * W})


def test_equal_calls_have_equal_names():
    step, rows, y = functad.jit(functad.grad(logistic)), chunked(X), chunked(Y)
    assert step(W, rows, y).name == step(W, rows, y).name
    assert step(W, rows, y).name != step(2 * W, rows, y).name
    assert functad.jit(functad.grad(logistic), backend="numpy")(W, rows, y).name != step(W, rows, y).name


def test_variables_are_read_and_assigned():
    weights, calls = functad.Variable(W), functad.Variable(0.0)

    @functad.jit
    def step(X, y):
        calls.assign_add(1.0)
        return logistic(weights, X, y)

    value = functad.compute(step(chunked(X), chunked(Y)))
    np.testing.assert_allclose(value, logistic(W, X, Y), rtol=1e-12)
    assert float(calls) == 1.0


def test_source_says_what_each_task_runs():
    step = functad.jit(functad.value_and_grad(logistic), backend="numpy")
    text = step.lower(W, chunked(X), chunked(Y)).source()
    assert text.startswith("# 4 chunks of 2 to 6 rows.\n")
    assert "# For each chunk: Of all chunks these are combined: add, add." in text
    assert "float64[6,3]" in text
    assert "def run(" in text


def test_unknown_lengths_and_other_blocks_raise_with_the_cure():
    rows = chunked(X)
    with pytest.raises(UnsupportedError, match=r"at .*test_dask_jit.*compute_chunk_sizes\(\).*np\.where\(mask, x, 0\.0\)"):
        functad.jit(lambda X: np.sum(X))(rows[rows[:, 0] > 0])
    known = rows[rows[:, 0] > 0].compute_chunk_sizes()
    same(functad.jit(lambda X: np.sum(np.max(X, axis=0)))(known), np.sum(np.max(X[X[:, 0] > 0], axis=0)))
    sparse = pytest.importorskip("sparse", reason="sparse is in the extra `test`")
    with pytest.raises(UnsupportedError, match=r"chunks are sparse.*Leave jit out"):
        functad.jit(lambda X: np.sum(X))(rows.map_blocks(sparse.COO))


def test_tasks_are_pickled_without_what_they_have_compiled():
    step = functad.jit(functad.value_and_grad(logistic))
    with dask.config.set(scheduler="processes", num_workers=1):
        value, slope = functad.compute(step(W, chunked(X), chunked(Y)))
    expected = functad.value_and_grad(logistic)(W, X, Y)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-12)


def test_parts_are_combined_in_order_and_left_as_they_are():
    parts = [(np.full(2, 10.0**i), i) for i in range(5)]
    total = pickle.loads(pickle.dumps(Combination([np.add, np.maximum], inside=False)))(parts)
    np.testing.assert_array_equal(total[0], np.full(2, 11111.0))
    assert total[1] == 4
    np.testing.assert_array_equal(parts[0][0], [1.0, 1.0])


EVERY = int(os.environ.get("FUNCTAD_EVERY_ENTRY", "0")) or 16
ENTRIES = [
    entry
    for entry in every_entry()
    if not (is_constant(entry) or entry.status == "refused" or entry.in_place)
    and not getattr(entry.function, "__module__", "").startswith("functad.scipy.")
]
NAMED = {
    "einsum",
    "dot",
    "matmul",
    "reshape",
    "getitem",
    "gather",
    "add_piece",
    "scatter",
    "transpose",
    "take",
    "outer",
    "where",
}


@pytest.mark.parametrize(
    "entry", [e for i, e in enumerate(ENTRIES) if i % EVERY == 0 or e.name in NAMED], ids=lambda entry: entry.name
)
def test_entries_and_their_derivatives_are_those_of_numpy(entry):
    for call in [call for call in calls(entry, np.float64) if call.primals and call.smooth(*call.primals)][:3]:
        primals = list(map(np.asarray, call.primals))
        if not any(x.shape and x.shape[0] > 1 for x in primals):
            continue
        gs = [np.asarray(random_like(y, np.random.default_rng(0))) for y in call.smooth(*primals)]

        def both(*xs, f=call.smooth, gs=gs):
            outs, pull = functad.vjp(f, *xs)
            return tuple(outs), pull(tuple(gs))

        compiled = functad.jit(both, backend="numpy")
        try:
            expected = compiled(*primals)
        except AbstractValueError:  # what depends on values is compiled for no kind of arrays
            continue
        lazy = [da.from_array(x, chunks=tuple([max(1, (n + 1) // 2) for n in x.shape])) for x in primals]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = dask.compute(*functad.tree_leaves(compiled(*lazy)))
        for a, b in zip(found, functad.tree_leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=str(call))


def test_a_lazy_number_is_an_argument_in_chunks():
    total = da.ones(6, chunks=2).sum()
    found = functad.jit(lambda s: s * 2.0)(total)
    assert hasattr(found, "dask")
    assert float(found.compute()) == 12.0


def test_columns_of_chunks_are_read_in_place(monkeypatch):
    data = np.asfortranarray(RNG.normal(size=(60_000, 4))).copy()
    copies = []
    fitted = step.fitted
    monkeypatch.setattr(step, "fitted", lambda a, *own: copies.append(a) or fitted(a, *own))
    for columns, labels in [(slice(None, -1), -1), (slice(1, None), 0), (slice(1, 3), 3)]:
        with dask.config.set({"array.slicing.split-large-chunks": False}):
            table = da.from_array(data, chunks=(20_000, 4))

        def loss(w, x, y):
            return np.mean((np.tanh(x @ w) - y) ** 2)

        w = RNG.normal(size=data[:, columns].shape[1])
        gradient = functad.jit(functad.value_and_grad(loss), backend="llvm")
        expected = functad.value_and_grad(loss)(w, data[:, columns], data[:, labels])
        same(gradient(w, table[:, columns], table[:, labels]), expected, rtol=1e-9)
    assert not [a.shape for a in copies if a.nbytes > 1000]


def test_windows_lie_in_the_memory_of_their_arrays():
    data = RNG.normal(size=(30_000, 5))
    for part, columns in [
        (data[:, 1:4], (1, 4)),
        (data[100:, :3], (0, 3)),
        (data[:, 2], 2),
        (data[7:20_000, 4:], (4, 5)),
    ]:
        whole, found = window(part)
        assert found.columns == columns
        assert np.shares_memory(whole, data)
        np.testing.assert_array_equal(whole[found.selection], part)
    steps = [data[::2, :4], data[:, ::2]]
    for part in steps:
        assert window(part) is None or np.array_equal(window(part)[0][window(part)[1].selection], part)
    for part in (
        data,
        data[:, :2].copy(),
        data.T,
        data[::-1, :2],
        np.broadcast_to(data[0], (9_000, 5)),
        data[:90, :2],
        data[:, :0],
    ):
        assert window(part) is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.abs(np.fft.fft(x, axis=0))),
        lambda x: np.sum(x[np.arange(N), LABELS % 3] ** 2),
        lambda x: (x := x * 1.0).__setitem__((slice(None), 0), 1.0) or np.sum(x * x),
        lambda x: np.sum(np.interp(x, np.array([0.0, 1.0]), np.array([1.0, 3.0]))),
    ],
)
def test_errors_of_eager_operations_name_jit(f):
    with pytest.raises((UnsupportedError, TypeError), match=r"functad\.jit"):
        functad.grad(f)(chunked(X))
    same(functad.jit(functad.grad(f))(chunked(X)), functad.grad(f)(X))
