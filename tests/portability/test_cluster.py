"""Functions on their way to the workers of a cluster: what transforms return, lists, models, and a worker that dies."""

import os
import pickle
import signal
import sys
import time

import numpy as np
import pytest

import functad
from functad import nn, optimizers

cloudpickle = pytest.importorskip("cloudpickle", reason="Dask, which is an extra, brings it")
distributed = pytest.importorskip("distributed", reason="Dask is an extra")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), np.sign(RNG.normal(size=40))
W = RNG.normal(size=3)


@pytest.fixture(scope="module")
def client():
    """Two processes with one thread each, for all tests of this file."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def make_loss():
    """Return a function that no module holds, which is therefore sent by value."""

    def loss(w, X, y):
        return np.mean(np.log1p(np.exp(-y * (X @ w))))

    return loss


@functad.custom_vjp
def ruled(x):
    return np.sin(x)


ruled.defvjp(lambda x: (ruled(x), np.cos(x)), lambda kept, g: (g * kept,))

LOSS = make_loss()
SENT = {
    "grad": functad.grad(LOSS),
    "value_and_grad": functad.value_and_grad(LOSS),
    "of each example": functad.vmap(functad.grad(LOSS), in_axes=(None, 0, 0)),
    "hessian": functad.hessian(LOSS),
    "jacfwd": functad.jacfwd(LOSS),
    "checkpoint": functad.grad(functad.checkpoint(LOSS)),
    "hvp": lambda w, X, y: functad.hvp(LOSS, (w, X, y), (w, X, y)),
    "list": functad.make_expressions(functad.grad(LOSS))(W, X, Y),
    "rule": functad.grad(lambda w, X, y: np.sum(ruled(X @ w) * y)),
}


def assert_same(found, expected):
    leaves, structure = functad.tree_flatten(found)
    others, own = functad.tree_flatten(expected)
    assert structure == own
    for a, b in zip(leaves, others, strict=True):
        np.testing.assert_array_equal(a, b)


def test_functions_of_transforms_run_on_workers(client):
    futures = {name: client.submit(f, W, X, Y) for name, f in SENT.items()}
    for name, future in futures.items():
        assert_same(future.result(), SENT[name](W, X, Y))


@pytest.mark.parametrize("options", [{}, {"pure": False}], ids=["with a token", "without"])
def test_tensors_are_not_sent(client, options):
    """By the workers they would be computed with, and their derivatives lost."""

    def submitted(w):
        return np.sum(w**2) + client.submit(lambda X: np.sum(X @ w), X, **options).result()

    def mapped(w):
        return np.sum(w**2) + sum(client.gather(client.map(lambda x, w: x @ w, list(X), [w] * len(X), **options)))

    for f in (submitted, mapped):
        with pytest.raises(functad.errors.ConversionError, match=rf"constant in a graph of Dask, at {__file__}"):
            functad.grad(f)(W)


def test_jitted_functions_are_compiled_where_they_arrive(client):
    slope = functad.jit(functad.grad(LOSS), backend="numpy")
    here = slope(W, X, Y)

    def there(slope, *args):
        before = slope.cache_info()
        return before, slope(*args), slope.cache_info()

    before, found, after = client.submit(there, slope, W, X, Y).result()
    assert (before.size, after.size, after.misses) == (0, 1, 1)
    np.testing.assert_allclose(found, here, rtol=1e-14)


def test_what_a_program_defines_in_main_arrives(client, monkeypatch):
    """A worker has another `__main__`, so names there mean nothing to it."""
    main = __import__("__main__")
    source = """
import numpy as np, functad

@functad.grad
def slope(x):
    return np.sum(x**2)

@functad.custom_jvp
def steep(x):
    return np.sin(x)

steep.defjvps(lambda t, out, x: 100 * t)
cube = functad.primitive(lambda x: x**3, lambda g, x: g * 3 * x**2, kind="elementwise", name="cube")
halved = functad.grad(functad.numerical_primitive(lambda x: x / 2))
both = functad.vmap(functad.grad(lambda x: steep(x) + cube(x)))
plain = functad.grad(np.prod)
"""
    names = {"__name__": "__main__"}
    exec(source, names)
    for name in ("slope", "steep", "cube", "halved", "both", "plain"):
        monkeypatch.setattr(main, name, names[name], raising=False)
    assert pickle.loads(pickle.dumps(names["both"])) is names["both"]  # pickle itself goes by names
    for name in ("slope", "both", "plain"):
        assert_same(client.submit(names[name], W).result(), names[name](W))
    assert_same(client.submit(names["halved"], 3.0).result(), names["halved"](3.0))
    assert client.submit(functad.make_expressions(names["cube"])(W), W).result() == pytest.approx(W**3)


def test_modules_that_are_sent_by_value_are_not_named(monkeypatch):
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "slope", functad.grad(make_loss()), raising=False)
    assert b"slope" in cloudpickle.dumps(module.slope)
    cloudpickle.register_pickle_by_value(module)
    try:
        assert b"slope" not in cloudpickle.dumps(module.slope)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_primitives_that_no_module_holds_are_entered_again():
    cube = functad.primitive(lambda x: x**3, lambda g, x: g * 3 * x**2, kind="elementwise", name="cube")
    other = pickle.loads(cloudpickle.dumps(cube))
    assert other is not cube
    assert float(functad.grad(functad.grad(other))(2.0)) == 12.0
    differences = pickle.loads(cloudpickle.dumps(functad.numerical_primitive(lambda x: x**3, step=1e-3)))
    assert float(functad.grad(differences)(2.0)) == pytest.approx(12.0, abs=1e-5)


def test_models_optimisers_and_their_states(client):
    model = nn.Sequential([nn.Dense(4, "tanh", inputs=3, rng=0), nn.Dense(1, inputs=4, rng=1)])
    optimizer, rule = optimizers.Adam(0.1), optimizers.adam(0.1)

    def step(model, optimizer):  # Dask sends one apart from the other
        with functad.GradientTape() as tape:
            value = np.mean((model(X)[:, 0] - Y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables, strict=True))
        return model, optimizer

    found = pair = model, optimizer
    for _ in range(2):  # there and back, twice
        found = client.submit(step, *found, pure=False).result()
    values = [functad.values_of(found[0]) for found in (found, step(*step(*pair)))]
    assert_same(*values)
    params = {"w": W}
    state = rule.init(params)
    there = client.submit(rule.update, {"w": W**2}, state, params).result()
    assert_same(there, rule.update({"w": W**2}, state, params))
    assert_same(client.submit(rule.update, {"w": W}, there[1], params).result(), rule.update({"w": W}, there[1], params))


def chunk_gradient(slope, seed, seconds):
    """Return the gradient of one chunk, which is made where it is needed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    time.sleep(seconds)
    return slope(np.full(3, 0.1), X, np.sign(rng.normal(size=50)))


def test_the_gradient_is_the_same_when_a_worker_dies(client):
    """Dask computes again what was lost. The sum is taken in one order, so all digits agree."""
    slope, n = functad.value_and_grad(LOSS), 16
    expected = [chunk_gradient(slope, seed, 0.0) for seed in range(n)]

    def total(parts):
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    client.wait_for_workers(2)
    futures = client.map(chunk_gradient, [slope] * n, range(n), [0.1] * n, pure=False)
    first = next(iter(distributed.as_completed(futures)))
    victim = client.submit(os.getpid, workers=list(client.who_has([first])[first.key]), priority=10, pure=False).result()
    os.kill(victim, signal.SIGKILL)
    found = client.submit(total, futures).result(timeout=600)
    assert victim not in client.run(os.getpid).values()
    assert_same(found, total(expected))


def test_a_gradient_around_arrays_in_chunks_is_one_graph_on_the_cluster(client):
    da = pytest.importorskip("dask.array", reason="dask is in the extra `dask`")
    rows = np.random.default_rng(0).normal(size=(40, 3))
    labels = (rows[:, 0] > 0) * 1.0

    def loss(w, X, y):
        z = X @ w
        return np.mean(np.logaddexp(0, z) - y * z) + np.sqrt(np.sum(w**2))

    step = functad.value_and_grad(loss)
    value, gradient = functad.compute(step(np.ones(3), da.from_array(rows, chunks=(10, 3)), da.from_array(labels, chunks=10)))
    expected = step(np.ones(3), rows, labels)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


def loss_of_block(X, y, w):
    return np.sum(np.log1p(np.exp(-y[:, 0] * (X @ w))))


def test_functions_of_blocks_run_on_the_cluster(client):
    da = pytest.importorskip("dask.array", reason="dask is in the extra `dask`")
    rows, labels = da.from_array(X, chunks=(10, 3)), da.from_array(Y[:, None], chunks=(10, 1))
    local = make_loss()
    for f in (loss_of_block, lambda X, y, w: local(w, X, y[:, 0])):
        blocks = [(X[i : i + 10], Y[i : i + 10, None]) for i in range(0, 40, 10)]
        found = functad.value_and_grad(lambda w, f=f: np.sum(functad.map_blocks(f, rows, labels, w)))(W)
        expected = functad.value_and_grad(lambda w, f=f, blocks=blocks: sum(f(*block, w) for block in blocks))(W)
        for a, b in zip(functad.compute(found), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        found = functad.hvp(lambda w, f=f: np.sum(functad.map_blocks(f, rows, labels, w)), (W,), (W,))
        expected = functad.hvp(lambda w, f=f, blocks=blocks: sum(f(*block, w) for block in blocks), (W,), (W,))
        np.testing.assert_allclose(functad.compute(found), expected, rtol=1e-12)


def test_a_compiled_gradient_of_arrays_in_chunks_runs_on_the_cluster(client):
    da = pytest.importorskip("dask.array", reason="dask is in the extra `dask`")
    rows = np.random.default_rng(0).normal(size=(40, 3))
    labels = (rows[:, 0] > 0) * 1.0

    def loss(w, X, y):
        z = X @ w
        return np.log(np.mean(np.exp(np.logaddexp(0, z) - y * z)))

    step = functad.jit(functad.value_and_grad(loss))
    given = np.ones(3), da.from_array(rows, chunks=(12, 3)), da.from_array(labels, chunks=12)
    value, gradient = functad.compute(step(*given))
    expected = functad.value_and_grad(loss)(np.ones(3), rows, labels)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)
    assert_same(functad.compute(step(*given)), (value, gradient))
