"""`functad.map_blocks`: derivatives in blocks are those of the whole arrays, and one pass reads every chunk once."""

from collections import Counter

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, InputError, OutputError
from functad.testing import check_grads

dask = pytest.importorskip("dask", reason="dask is in the extra `test`")
da = pytest.importorskip("dask.array", reason="dask is in the extra `test`")

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(22, 3)), RNG.normal(size=3)
Y = np.sign(RNG.normal(size=(22, 1)))
P = {"a": RNG.normal(size=(3, 4)), "b": RNG.normal(size=4)}


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(tree, rows=5):
    """Return arrays in chunks of some rows, of which the last has fewer."""
    return functad.tree_map(lambda a: da.from_array(a, chunks=(min(rows, len(a)), *a.shape[1:])), tree)


def same(found, expected):
    leaves, expected = functad.tree_leaves(found), functad.tree_leaves(expected)
    assert [type(leaf) for leaf in leaves] == [da.Array] * len(expected)
    for a, b in zip(dask.compute(*leaves), expected, strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def plain(f, *args, drop_axis=(), new_axis=(), **kwargs):
    """Call a function of blocks with whole arrays."""
    return f(*args, **kwargs)


def number(X, y, w):
    return np.sum(np.logaddexp(0, -y[:, 0] * (X @ w)))


def rows(X, w):
    return np.tanh(X @ w)


def scaled(X, w):
    return np.sin(X * w) + X.sum(axis=0)[None] * 0


def network(X, p):
    return np.sum(np.tanh(X @ p["a"] + p["b"]) ** 2)


def powers(X, w):
    return (X * w)[:, :, None] ** np.arange(1.0, 3.0)


# Each is called with map_blocks or what stands for it, an array in blocks, and what is whole.
LOSSES = {
    "a number for each block": (lambda call, X, y, w: np.log(np.sum(call(number, X, y, w))), W),
    "rows": (lambda call, X, y, w: np.sum(call(rows, X, w, drop_axis=1) ** 2), W),
    "blocks": (lambda call, X, y, w: np.sum(call(scaled, X, w) ** 3), W),
    "a tree": (lambda call, X, y, p: np.sum(call(network, X, p)), P),
    "by name": (lambda call, X, y, w: np.sum(call(rows, X, drop_axis=1, w=w)), W),
    "new axis": (lambda call, X, y, w: np.sum(np.cos(call(powers, X, w, new_axis=2))), W),
    "one in another": (lambda call, X, y, w: np.sum(call(scaled, call(scaled, X, w), w)), W),
}


def of(name, call, y):
    """Return a loss of what is whole and of the array in blocks, and the former."""
    loss, whole = LOSSES[name]
    return lambda whole, X: loss(call, X, y, whole), whole


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_those_of_whole_arrays(name):
    f, w = of(name, functad.map_blocks, lazy(Y))
    g, _ = of(name, plain, Y)
    for argnums in (0, 1, (0, 1)):
        same(functad.value_and_grad(f, argnums)(w, lazy(X)), functad.value_and_grad(g, argnums)(w, X))
    same(functad.grad(f)(lazy(w), lazy(X)), functad.grad(g)(w, X))
    ts = functad.tree_map(np.cos, w)
    same(functad.jvp(f, (w, lazy(X)), (ts, lazy(X))), functad.jvp(g, (w, X), (ts, X)))
    same(functad.hvp(f, (w, lazy(X)), (ts, lazy(X))), functad.hvp(g, (w, X), (ts, X)))
    same(functad.hvp(lambda w: f(w, lazy(X)), (w,), (ts,)), functad.hvp(lambda w: g(w, X), (w,), (ts,)))
    several = functad.tree_map(lambda a: np.stack([a, 2 * a]), w)
    same(functad.vmap(functad.grad(f), (0, None))(several, lazy(X)), functad.vmap(functad.grad(g), (0, None))(several, X))


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_those_of_differences(name):
    f, w = of(name, functad.map_blocks, lazy(Y))
    leaves, structure = functad.tree_flatten(w)

    def computed(*leaves):
        return functad.compute(f(structure.unflatten(leaves), lazy(X)))

    slope = functad.compute(functad.grad(lambda w: f(w, lazy(X)))(w))
    step = 1e-6
    for i, leaf in enumerate(leaves):
        direction = np.cos(np.arange(leaf.size)).reshape(leaf.shape)
        ahead, behind = (computed(*leaves[:i], leaf + h * direction, *leaves[i + 1 :]) for h in (step, -step))
        expected = np.sum(functad.tree_leaves(slope)[i] * direction)
        np.testing.assert_allclose((ahead - behind) / (2 * step), expected, rtol=1e-6, atol=1e-7)


def test_threads_compute_the_same():
    f, w = of("a number for each block", functad.map_blocks, lazy(Y))
    g, _ = of("a number for each block", plain, Y)
    for transform in (functad.value_and_grad, functad.hessian):
        with dask.config.set(scheduler="threads"):
            same(transform(lambda w: f(w, lazy(X)))(w), transform(lambda w: g(w, X))(w))


def test_jacobians_and_batches_of_blocks():
    f = lambda w: functad.map_blocks(rows, lazy(X), w, drop_axis=1)  # noqa: E731 - one function of several ways
    for jacobian in (functad.jacobian, functad.jacfwd):
        same(jacobian(f)(W), functad.jacobian(lambda w: rows(X, w))(W))
    batch = np.stack([X, 2 * X])
    found = functad.vmap(lambda X: functad.map_blocks(rows, X, W, drop_axis=1))(da.from_array(batch, chunks=(1, 5, 3)))
    same(found, np.stack([rows(X, W), rows(2 * X, W)]))


def test_arrays_of_length_one_and_of_fewer_axes_are_given_to_several_blocks():
    for other in (RNG.normal(size=(1, 3)), RNG.normal(size=3)):
        for argnums in (0, 1, (0, 1)):
            found = functad.grad(lambda X, c: np.sum(functad.map_blocks(scaled, X, c) ** 3), argnums)
            expected = functad.grad(lambda X, c: np.sum(scaled(X, c) ** 3), argnums)
            same(found(lazy(X), da.from_array(other, chunks=-1)), expected(X, other))


def test_one_pass_reads_every_chunk_once_and_runs_the_function_once():
    reads, runs = Counter(), []

    def read(block_info=None):
        (i, _) = block_info[None]["chunk-location"]
        reads[i] += 1
        return X[5 * i : 5 * i + 5]

    data = da.map_blocks(read, chunks=((5, 5, 5, 5), (3,)), dtype=float, meta=np.empty((0, 0)))

    def part(X, w):
        runs.append(type(w))
        return np.sum(np.tanh(X @ w))

    value, gradient = functad.value_and_grad(lambda w: np.sum(functad.map_blocks(part, data, w, chunks=(1, 1), dtype=float)))(W)
    assert not reads
    assert not runs
    functad.compute(value, gradient)
    assert reads == dict.fromkeys(range(4), 1)
    assert runs == [functad.Tensor] * 4
    reads.clear()
    functad.compute(functad.value_and_grad(lambda w: np.sum(functad.map_blocks(rows, data, w, drop_axis=1)))(W))
    assert reads == dict.fromkeys(range(4), 1)


def test_without_arrays_in_chunks_the_function_is_called():
    assert functad.map_blocks(number, X, Y, W) == number(X, Y, W)
    check_grads(lambda w: functad.map_blocks(number, X, Y, w), (W,))


def test_branches_on_values_take_a_call_with_ones_or_the_chunks():
    def f(X, w):
        return np.sum(X @ w) if X[0, 0] > 0 else np.sum(X * 2.0 @ w)

    blocks = [X[i : i + 5] for i in range(0, 22, 5)]
    expected = functad.value_and_grad(lambda w: sum(f(block, w) for block in blocks))(W)
    for options in ({}, {"chunks": (1, 1), "dtype": float}):
        found = functad.value_and_grad(lambda w, own=options: np.sum(functad.map_blocks(f, lazy(X), w, **own)))(W)
        same(found, expected)


def test_dtypes_are_kept():
    single = functad.grad(lambda w: np.sum(functad.map_blocks(rows, lazy(X.astype(np.float32)), w, drop_axis=1)))
    assert single(W.astype(np.float32)).dtype == np.float32
    assert functad.compute(single(W.astype(np.float32))).dtype == np.float32


def test_blocks_cannot_be_written_to():
    def f(X, w):
        X[0] = 0.0
        return X @ w

    with pytest.raises(ValueError, match="read-only"):
        functad.map_blocks(f, lazy(X), W, drop_axis=1, chunks=(5,), dtype=float).compute()


def test_what_does_not_fit_raises_with_the_cure():
    with pytest.raises(InputError, match=rf"map_blocks of number, called at {__file__}.*y\[:, None\]"):
        functad.map_blocks(number, lazy(X), lazy(Y[:, 0]), W)
    with pytest.raises(InputError, match=r"axis 0, which is dropped, has 5 blocks"):
        functad.map_blocks(rows, lazy(X), W, drop_axis=0)
    with pytest.raises(OutputError, match=r"shape \(5,\), but 2 axes are asked for.*drop_axis"):
        functad.map_blocks(rows, lazy(X), W)
    with pytest.raises(InputError, match=r"chunks has 1 entries for a result of 2 axes"):
        functad.map_blocks(scaled, lazy(X), W, chunks=(5,), dtype=float)
    with pytest.raises(OutputError, match="returned a str"):
        functad.map_blocks(lambda X: "text", lazy(X))
    with pytest.raises(ConversionError, match="constant in a graph of Dask"):
        functad.grad(lambda w: np.sum(w) + np.sum(functad.map_blocks(lambda X: X @ w, lazy(X), drop_axis=1)))(W)
