"""Arranging and indexing as native code: what jit gives with the backend `llvm` is what functad gives without jit."""

import re

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import functad
from functad import jit, scan, value_and_grad, vmap

pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(5, 6))
Y = RANDOM.normal(size=(5, 3))
Z = RANDOM.normal(size=(3, 4, 5))
PLACES = np.array([4, 0, -1, 2, 0])
COLUMNS = np.array([[1], [-6], [3], [5], [0]])


def check(f, *args, native=True):
    """Compare a compiled function with the function itself, and say whether native code computes all of it."""
    compiled = jit(f, backend="llvm")
    expected, found = functad.tree_leaves(f(*args)), functad.tree_leaves(compiled(*args))
    assert len(expected) == len(found)
    single = any(np.asarray(a).dtype == np.float32 for a in functad.tree_leaves(args))  # sums of them, in another order
    for a, b in zip(expected, found, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        close = 2e-5 if single or np.asarray(a).dtype == np.float32 else 1e-12
        np.testing.assert_allclose(b, a, rtol=close, atol=close)
        np.testing.assert_array_equal(np.signbit(b), np.signbit(a))
    run = compiled.lower(*args).source().rpartition("def run(")[2]
    usual = re.compile(r"\s*(v[\w, ]*= native_\d+\(|del |return |if .*v\d+.*:$)|$")  # `if` looks for a NaN
    others = [line for line in run.splitlines()[1:] if not usual.match(line)]
    assert not (native and others)


def joined(x, y):
    return (
        np.concatenate([np.sin(x), y * 2.0, x[:, :1]], 1),
        np.concatenate([x[0], y[0]]) * 2.0,
        np.stack([np.sin(x), np.cos(x), x], -1),
        np.stack([x[0], x[0]]).sum(0),
        np.stack([x.sum(), y[0, 0] * x[1, 1], 1.0]),
        np.block([[x, y], [y[:2], x[:2]]]),
        np.concatenate([y.ravel(), np.arange(3), x[0] > 0.0]),
        np.stack([np.concatenate([y[0], np.sin(x[0])]), np.pad(y[1], (2, 4))], 1),
        np.stack([both := np.concatenate([x, y], 1), both, np.pad(both[:, :5], ((0, 0), (0, 4)))]),
    )


def repeated(x, y):
    return (
        np.pad(np.sin(x), ((1, 2), (0, 3))),
        np.pad(y, 2, mode="edge") * 2.0,
        np.pad(y[0], 1, constant_values=2.0),
        np.tile(x * 2.0, (2, 3)),
        np.tile(y[0], 2) + x[0],
        np.repeat(x, 3, 1),
        np.repeat(y, [1, 0, 2, 1, 1], 0) * 3.0,
        np.repeat(y[0, :2], 2),
        np.roll(x * y[:, :1], 2, 1),
        np.roll(x, (2, -1), (0, 1)) - x,
        np.roll(y[1], 1) - y[1],
    )


def turned(x, z):
    return (
        np.flip(x, 1) * x,
        x[::-1, ::-2] + 1.0,
        np.rot90(x) * 2.0,
        np.tril(x) - np.triu(x * x, 1),
        np.diag(x[0]) + np.diag(x[1, :5], 1),
        np.diagonal(z, 1, 1, 2) * 2.0,
        np.trace(x),
        np.einsum("aba->ba", np.sin(z)[:, :, :3]) * 2.0,
        np.einsum("abc->c", z),
        np.einsum("aab->b", z[:, :3]),
        np.moveaxis(np.exp(z), 0, 2) * 2.0,
        np.swapaxes(z, 0, 1)[1:] + 1.0,
        x[:, None, 0] * np.squeeze(z[:, :1]).sum(),
        np.real(x) + np.imag(x),
        sliding_window_view(x, 3, 1) * 2.0,
        sliding_window_view(np.sin(x), (2, 3)).sum((2, 3)),
        sliding_window_view(z, (2, 2), (1, 2)),
        np.stack([z[2, ::-1, i] for i in (4, 2, 0)], 1) * 2.0,
        np.stack([x[i : i + 2, None, 3 - i] for i in range(4)], -1) + 1.0,
        np.stack([x[1], x[1], x[1]], 1) - 1.0,
    )


def indexed(x, z):
    return (
        x[:, [1, 3, 1]] * 2.0,
        x[[0, 2], [1, -1]] - 1.0,
        np.sin(z)[1, [0, 3, 0], 1:4],
        z[[2, 0], :, [1, 4]] * 2.0,
        z[..., np.array([[0, 1], [2, 1]])],
        x[np.array([True, False, True, True, False])],
        np.take(x, [2, 0], 1) + 1.0,
        np.take(z, 7),
        np.take_along_axis(x, COLUMNS, 1) * 2.0,
        np.sin(x)[:, np.arange(4)[:, None] + np.arange(3)],
    )


def written(x, y):
    a, b = x * 1.0, np.sin(y)
    a[0] = y[0, 0]
    a[1:3, 2:5] = b[:2]
    a[[3, 4], [1, 1]] = 7.0
    a.T[5, 1:3] += b[0, :2]
    np.add.at(a, (np.array([0, 0, 2]), 3), y[0])
    b[np.array([True, False, True, False, False])] = 0.5
    small = y[0] * 2.0
    small[1] = x[0, 0]
    np.put_along_axis(a, COLUMNS, 3.0, 1)
    np.fill_diagonal(a, 0.25)
    return a, b, small


def scanned(x, y):
    return (
        np.cumsum(x, 1),
        np.cumsum(x, 0) * np.cumprod(x, 0),
        np.cumprod(y),
        np.cumsum(x > 0.0, 1),
        np.argmax(x, 1) + np.argmin(x, 1),
        np.argmax(np.sin(y)),
        np.var(x, 1, ddof=1) + np.std(x * 2.0),
        np.count_nonzero(x > 0.0, 0),
        np.diff(x, 2, 0) * 2.0,
        np.cross(np.sin(y), y[:1] * x[:, :3]),
        np.cross(y[0], y[1]),
    )


FUNCTIONS = [(joined, (X, Y)), (repeated, (X, Y)), (turned, (X, Z)), (indexed, (X, Z)), (scanned, (X, Y))]


@pytest.mark.parametrize(("f", "args"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values(f, args, dtype):
    args = [a.astype(dtype) for a in args]
    args[0] = np.repeat(args[0], 2, -1)[..., ::2]  # not contiguous
    check(f, *args)


def test_integers():
    x, y = (np.round(a * 10).astype(np.int64) for a in (X, Y))
    check(lambda x, y: (np.concatenate([x, y], 1), np.pad(x, 1), x[:, [1, 1]], np.cumsum(x, 0), np.argmax(x, 0)), x, y)
    check(lambda x: (np.concatenate([x, x]), np.flip(x, 0), np.roll(x, 2, 1), np.argmax(x), x[PLACES]), x > 0, native=False)


@pytest.mark.parametrize(("f", "args"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_gradients(f, args):
    def total(*own):
        return sum(np.sum(np.sin(leaf) * (1 + n)) for n, leaf in enumerate(functad.tree_leaves(f(*own))))

    check(value_and_grad(total, argnums=(0, 1)), *args)


def test_diagonals_are_written_into_parts_of_a_result():
    def f(x, y):
        gradient = functad.grad(lambda a, y: np.sum(np.einsum("ii->i", a) * y))
        return np.stack([gradient(x, y), gradient(x, np.sin(y))], -1)

    check(f, X[:, :5], X[:, 5])


def test_writes_and_their_gradients():
    check(written, X, Y)
    check(value_and_grad(lambda x, y: sum(np.sum(np.sin(a)) for a in written(x, y)), argnums=(0, 1)), X, Y)


def _assigned(plan):
    """Return a function that reads and writes elements and slices of an array as `plan` says."""

    def assigned(x):
        a = np.sin(x)
        for target, sources in plan:
            a[target] = sum(a[source] * (k + 0.5) for k, source in enumerate(sources))
        return a

    return assigned


@pytest.mark.parametrize("seed", range(8))
def test_elements_are_read_again_after_writes_in_place(seed):
    rng = np.random.default_rng(seed)
    shape = [(12,), (5, 6)][seed % 2]

    def place():
        ends = [int(rng.integers(n)) for n in shape]
        if seed % 3 == 0 or rng.random() < 0.5:
            return tuple(ends)
        half = slice(0, shape[-1] // 2) if rng.random() < 0.5 else slice(shape[-1] // 2, None)
        return (*ends[:-1], half)

    def alike(target):
        sliced = isinstance(target[-1], slice)
        return [source for source in (place() for _ in range(20)) if sliced or not isinstance(source[-1], slice)]

    targets = [place() for _ in range(15)]
    f = _assigned([(target, alike(target)[:2]) for target in targets])
    x = rng.normal(size=shape)
    np.testing.assert_allclose(jit(f, backend="llvm")(x), f(x), rtol=1e-12)
    gradient = functad.grad(lambda x: np.sum(f(x) ** 2))
    np.testing.assert_allclose(jit(gradient, backend="llvm")(x), gradient(x), rtol=1e-10)


def test_writes_of_elements_are_native():
    def filled(x):
        out = np.zeros_like(x, shape=40)
        for i in range(40):
            out[i] = x[i % 7] * x[(3 * i) % 7]
        return out

    x = np.linspace(1.0, 2.0, 7)
    compiled = jit(filled, backend="llvm").lower(x)
    assert "compute(" not in compiled.source()
    np.testing.assert_array_equal(jit(filled, backend="llvm")(x), filled(x))


def test_places_that_are_arguments():
    def f(x, y, i, j):
        a = x * 1.0
        a[i, 1] = y[:, 0]
        a[i, 2] += 1.0
        return np.sum(np.sin(x)[i] * x) + np.sum(np.take_along_axis(x, j, 1)) + np.sum(a**2 * x) + np.sum(x[:, i])

    check(value_and_grad(f, argnums=(0, 1)), X, Y, PLACES, COLUMNS)
    check(value_and_grad(f, argnums=(0, 1)), X, Y, PLACES.astype(np.int32), COLUMNS)


def test_places_out_of_bounds():
    f = jit(lambda x, i: np.sum(np.sin(x[i]) * 2.0), backend="llvm")
    for places in (np.array([0, 5]), np.array([-6, 1])):
        with pytest.raises(IndexError, match=f"index {places[abs(places).argmax()]} is out of bounds for axis 0 with size 5"):
            f(X, places)
    nowhere = np.zeros((0, 2), np.int64)
    check(lambda x: x[nowhere], X, native=False)
    np.testing.assert_allclose(f(X, np.array([4, -5])), np.sum(np.sin(X[[4, 0]]) * 2.0))
    add = jit(functad.grad(lambda x, i: np.sum(x[:, i] ** 2)), backend="llvm")
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        add(X, np.array([1, 9]))


def test_choices():
    choices = np.arange(12.0).reshape(3, 4)
    i = np.array([0, 2, 1, 2])
    for mode in ("raise", "wrap", "clip"):
        check(value_and_grad(lambda c, i, mode=mode: np.sum(np.sin(np.choose(i, list(c), mode=mode)))), choices, i)
    wild = np.array([0, 7, -2, 2])
    check(lambda c, i: (np.choose(i, list(c), mode="wrap"), np.choose(i, list(c), mode="clip")), choices, wild)
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        jit(lambda c, i: np.choose(i, list(c)), backend="llvm")(choices, wild)


def test_arrangements_in_loops():
    """Bodies of loops are native only if everything in them is."""

    def step(carry, row):
        x, state = carry
        both = np.concatenate([x[1:], row[:2]])
        gates = np.stack([np.tanh(both), both * state[:7]])
        state = np.pad(gates[0], (1, 0)) + np.roll(state, 1)
        return (gates.reshape(-1)[:6], state), np.flip(both)[[0, 2]]

    def f(x, state, rows):
        (x, state), out = scan(step, (x, state), rows)
        return np.sum(x * x) + np.sum(np.sin(state)) + np.sum(out**2)

    check(value_and_grad(f, argnums=(0, 1, 2)), X[0], np.linspace(0.0, 1.0, 8), Y)
    check(vmap(lambda row, i: row[i] * row[::-1]), X, PLACES)


def test_expensive_values_are_computed_once():
    """Overlapping parts of a value that takes long are read from memory."""

    def f(x):
        wave = np.sin(np.exp(x))
        return wave[2:] - 2.0 * wave[1:-1] + wave[:-2]

    x = np.linspace(0.0, 1.0, 5000)
    check(f, x)
    assert "a loop over 5000" in jit(f, backend="llvm").lower(x).source()


@pytest.mark.parametrize("size", [12, 40, 4000])
def test_rare_arguments_are_added_once(size):
    """A block with an angle beyond the quick formula is computed twice; pieces that overlap are added to the result once."""

    def f(x):
        return np.sum(np.sin(x[1:]) + 2.0 * np.sin(x[:-1])) + np.sum(np.sin(x[::3]))

    x = np.linspace(0.1, 2.0, size)
    x[[1, size // 2]] = 1e12, -3e11
    check(value_and_grad(f), x)


@pytest.mark.parametrize("function", [np.argmax, np.argmin])
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 4), (200,)])
def test_positions_of_truth_values(function, shape):
    x = np.random.default_rng(0).normal(size=shape)
    any_bytes = np.resize(np.array([0, 2, 255, 1, 0], np.uint8), shape).view(bool)
    for axis in (None, 0, -1):
        f = functad.jit(lambda x, t, axis=axis: function(x > t, axis=axis), backend="llvm")
        assert "np.arg" not in f.lower(x, 0.0).source()
        for t in (0.0, 9.0, -9.0, 1.0):
            assert np.array_equal(f(x, t), function(x > t, axis=axis))
        g = functad.jit(lambda m, axis=axis: function(m, axis=axis), backend="llvm")
        assert np.array_equal(g(any_bytes), function(any_bytes, axis=axis))
