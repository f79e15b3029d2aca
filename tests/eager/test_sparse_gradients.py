"""`tape.gradient(..., sparse=True)`: rows of a table in place of an array of its size."""

import tracemalloc

import numpy as np
import pytest

import functad
from functad import GradientTape, RowSlices
from functad.compat import tf
from functad.testing import central_difference

TABLE = np.random.default_rng(0).normal(size=(6, 2))
IDS = np.array([[1, -1], [1, 4]])


def asked(f, table=TABLE, seed=None, **options):
    """Return the gradient of a function of a Variable, and that by `functad.grad`."""
    v = functad.Variable(table)
    with GradientTape() as tape:
        y = f(v)
    return tape.gradient(y, v, seed, sparse=True, **options)


READS = {
    "rows": lambda t: np.sum(np.sin(t[IDS])),
    "one row": lambda t: np.sum(np.sin(t[2])),
    "one row from the end": lambda t: np.sum(np.sin(t[-1])),
    "take": lambda t: np.sum(np.sin(np.take(t, IDS, axis=0))),
    "take of a number": lambda t: np.sum(np.sin(np.take(t, 3, axis=0))),
    "take, wrapped": lambda t: np.sum(np.sin(np.take(t, [7, -8], axis=0, mode="wrap"))),
    "several": lambda t: np.sum(t[IDS[0]] * np.take(t, IDS[1], axis=0)) + t[0][1] ** 3,
    "small integers": lambda t: np.sum(t[IDS.astype(np.int8)] ** 2) + np.sum(t[np.array([5, 5], np.uint8)] ** 3),
    "none": lambda t: np.sum(t[[]]) + np.sum(t[1] ** 2),
    "list": lambda t: np.sum(t[[1, 2, 1]] ** 2),
}


@pytest.mark.parametrize("name", READS)
def test_rows_that_were_read(name):
    f = READS[name]
    g = asked(f)
    assert type(g) is RowSlices
    assert isinstance(g.values, functad.Tensor)
    assert g.shape == TABLE.shape
    assert len(g.indices) < 8
    direction = np.random.default_rng(1).normal(size=TABLE.shape)
    expected = central_difference(lambda x: [f(x)], [TABLE], [direction])[0]
    assert np.sum(g.numpy() * direction) == pytest.approx(expected, rel=1e-8)
    assert np.array_equal(g.numpy(), functad.grad(f)(TABLE))


OTHERWISE = {
    "whole before": lambda t: np.sum(t**2) + np.sum(t[IDS] ** 3),
    "whole after": lambda t: np.sum(t[IDS] ** 3) + np.sum(t**2),
    "whole between": lambda t: np.sum(t[1] ** 3) + np.sum(t**2) + np.sum(t[IDS] ** 4),
    "whole twice": lambda t: np.sum(t + t) + np.sum(t[IDS] ** 3),
    "whole, by a sum": lambda t: np.sum(t) + np.sum(t[IDS] ** 3) + np.sum(t),
    "slice": lambda t: np.sum(t[1:3] ** 2),
    "slice after rows": lambda t: np.sum(t[1:3] ** 2) + np.sum(t[IDS] ** 3),
    "rows after a slice": lambda t: np.sum(t[IDS] ** 3) + np.sum(t[1:3] ** 2),
    "mask": lambda t: np.sum(t[np.arange(6) > 2] ** 2),
    "column": lambda t: np.sum(t[:, 1] ** 2),
    "elements": lambda t: np.sum(t[[0, 1], [1, 1]] ** 2) + t[0, 1],
    "other axis": lambda t: np.sum(np.take(t, [0, 0], axis=1) ** 2),
    "new axis": lambda t: np.sum(t[None] ** 2),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_table_that_is_used_otherwise_has_a_dense_gradient(name):
    f = OTHERWISE[name]
    g = asked(f)
    assert isinstance(g, functad.Tensor)
    assert np.allclose(g.numpy(), functad.grad(f)(TABLE), rtol=1e-14)


def test_the_same_without_asking():
    v = functad.Variable(TABLE)
    with GradientTape() as tape:
        y = np.sum(v[IDS] ** 2)
    assert isinstance(tape.gradient(y, v), functad.Tensor)


def test_several_sources_in_a_structure():
    a, b, c, unused = (functad.Variable(i * TABLE) for i in range(1, 5))
    with GradientTape() as tape:
        y = np.sum(a[1] * b[2]) + np.sum(c**2)
    g = tape.gradient(y, {"rows": [a, b], "dense": c, "none": unused}, sparse=True)
    assert [type(part) for part in g["rows"]] == [RowSlices, RowSlices]
    assert np.array_equal(g["rows"][0].numpy()[1], 2 * TABLE[2])
    assert np.array_equal(g["dense"].numpy(), 6 * TABLE)
    assert g["none"] is None


def test_watched_constants_and_results():
    x = functad.constant(TABLE)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        z = 2.0 * x
        y = np.sum(x[IDS] ** 2)
        w = np.sum(z[IDS] ** 2)
    assert type(tape.gradient(y, x, sparse=True)) is RowSlices
    assert isinstance(tape.gradient(w, x, sparse=True), functad.Tensor)
    assert isinstance(tape.gradient(w, z, sparse=True), functad.Tensor)  # a result
    assert np.allclose(tape.gradient(y, x, sparse=True).numpy(), tape.gradient(y, x).numpy())
    assert np.array_equal(tape.gradient([y, x], x, sparse=True).numpy(), tape.gradient([y, x], x).numpy())
    assert np.array_equal(tape.gradient(x, x, sparse=True).numpy(), np.ones((6, 2)))


def test_a_result_between_tables():
    rows, others = functad.Variable(TABLE), functad.Variable(TABLE)
    with GradientTape() as tape:
        z = np.sin(rows[IDS])
        y = np.sum(z * others[1])
    found = tape.gradient(y, [rows, z, others], sparse=True)
    assert [type(g) for g in found] == [RowSlices, functad.Tensor, RowSlices]
    expected = functad.grad(lambda a, b: np.sum(np.sin(a[IDS]) * b[1]), argnums=(0, 1))(TABLE, TABLE)
    assert np.allclose(found[0].numpy(), expected[0])
    assert np.allclose(found[2].numpy(), expected[1])


def test_seeds_are_not_shared():
    seed = np.ones((2, 2, 2))
    g = asked(lambda t: t[IDS], seed=seed)
    seed[:] = 7
    assert np.array_equal(g.numpy(), asked(lambda t: t[IDS], seed=np.ones((2, 2, 2))).numpy())


def test_a_variable_that_was_assigned_to_in_between():
    v = functad.Variable(TABLE)
    with GradientTape() as tape:
        y = np.sum(v[IDS] ** 2)
        v.assign(2 * TABLE)
        y = y + np.sum(v[2] ** 2)
    g = tape.gradient(y, v, sparse=True)
    assert type(g) is RowSlices
    expected = functad.grad(lambda a, b: np.sum(a[IDS] ** 2) + np.sum(b[2] ** 2), argnums=(0, 1))(TABLE, 2 * TABLE)
    assert np.allclose(g.numpy(), sum(expected))


def test_types():
    g = asked(lambda t: np.sum(t[IDS] * 2.0), TABLE.astype(np.float32))
    assert g.dtype == np.float32
    table = TABLE * (1 + 2j)
    for conj in (True, False):
        g = asked(lambda t: np.sum(np.abs(t[IDS]) ** 2 + np.real(t[IDS] ** 2)), table, conj=conj)
        plain = functad.grad(lambda t: np.sum(np.abs(t[IDS]) ** 2 + np.real(t[IDS] ** 2)))(table)
        assert np.allclose(g.numpy(), np.conj(plain) if conj else plain)
    vector = asked(lambda t: np.sum(t[[1, 1, 2]] ** 2), np.arange(4.0))
    assert np.array_equal(vector.numpy(), [0, 4, 4, 0])


def test_second_derivatives():
    def f(t):
        return np.sum(np.sin(t[IDS]) ** 2)

    v = functad.Variable(TABLE)
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = f(v)
        g = inner.gradient(y, v, sparse=True)
        penalty = np.sum(g.values**3)
    found = outer.gradient(penalty, v, sparse=True)
    assert type(found) is RowSlices

    def slope(t):
        pieces = functad.grad(lambda rows: np.sum(np.sin(rows) ** 2))(t[IDS])
        return np.sum(pieces**3)

    assert np.allclose(found.numpy(), functad.grad(slope)(TABLE))


def test_with_guarded_zeros():
    def f(t):
        rows = t[IDS]
        return np.sum(np.where(rows > 0, np.sqrt(rows), 0.0))

    table = np.abs(TABLE)
    table[1] = 0.0
    assert np.array_equal(asked(f, table).numpy(), functad.grad(f)(table))


def test_inside_grad_and_vmap():
    def f(scale):
        g = asked(lambda t: np.sum(scale * t[IDS] ** 3))
        return np.sum(g.dense() ** 2)

    assert functad.grad(f)(2.0) == pytest.approx((f(2.0 + 1e-6) - f(2.0 - 1e-6)) / 2e-6, rel=1e-7)
    scales = np.array([1.0, 2.0])
    assert np.allclose(functad.vmap(f)(scales), [f(scale) for scale in scales])


def test_rows_that_a_batch_of_positions_reads():
    def f(i):
        g = asked(lambda t: np.sum(t[i] ** 2))
        return np.sum((g.dense() if isinstance(g, RowSlices) else g) ** 3)

    assert np.allclose(functad.vmap(f)(np.array([1, 3])), [f(1), f(3)])


def test_debug_nans_gives_dense_gradients():
    with functad.debug_nans():
        g = asked(READS["rows"])
    assert np.array_equal(np.asarray(g), functad.grad(READS["rows"])(TABLE))


def test_options():
    v = functad.Variable(TABLE)
    with GradientTape() as tape:
        y = np.sum(v[IDS] ** 2)
    with pytest.raises(ValueError, match=r"sparse is 'rows', at .*test_sparse_gradients.py"):
        tape.gradient(y, v, sparse="rows")
    other = functad.Variable(TABLE)
    g, nothing = tape.gradient(y, [v, other], unconnected_gradients="zero", sparse=True)
    assert type(g) is RowSlices
    assert np.array_equal(nothing.numpy(), np.zeros((6, 2)))


@pytest.mark.parametrize("read", [tf.gather, tf.nn.embedding_lookup])
def test_the_tape_of_tensorflows_names(read):
    v = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(read(v, IDS % 6) ** 2)
    g = tape.gradient(y, v, sparse=True)
    assert type(g) is RowSlices
    assert isinstance(g.values, tf.Tensor)
    assert np.array_equal(g.numpy(), functad.grad(lambda t: np.sum(t[IDS] ** 2))(TABLE))


def test_a_large_table_is_never_made_again():
    """A dense gradient of the table would take 64 MB, and updating it as much again."""
    v = functad.Variable(np.zeros((1_000_000, 8)))
    ids = np.random.default_rng(0).integers(0, 1_000_000, 100)
    with GradientTape() as tape:
        y = np.sum((v[ids] - 1.0) ** 2) + np.sum(np.take(v, ids[:10], axis=0))
    tracemalloc.start()
    g = 0.5 * tape.gradient(y, v, sparse=True) + 0.0 * RowSlices([0], np.zeros((1, 8)), v.shape)
    peak = tracemalloc.get_traced_memory()[1]
    v.assign_sub(g)
    updating = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000
    assert updating < 70_000_000  # the new value of the Variable alone
    assert len(g.indices) == 111


# Assigning


def test_rows_are_added_to_variables():
    v = functad.Variable(TABLE, name="table")
    g = RowSlices([1, 1, 3], np.arange(6.0).reshape(3, 2), TABLE.shape)
    before = v.read_value()
    assert v.assign_sub(g) is v
    assert np.allclose(v.numpy(), TABLE - g.dense())
    assert np.array_equal(before.numpy(), TABLE)
    assert v.assign_add(g, read_value=False) is None
    assert np.allclose(v.numpy(), TABLE)
    v.assign(g)
    assert np.array_equal(v.numpy(), g.dense())


def test_rows_that_do_not_fit_a_variable():
    v = functad.Variable(TABLE, name="table")
    with pytest.raises(ValueError, match=r"assign_sub of a value of shape \(7, 2\) to the Variable 'table'"):
        v.assign_sub(RowSlices([1], np.ones((1, 2)), (7, 2)))
    with pytest.raises(TypeError, match="would lose information"):
        v.assign_add(RowSlices([1], np.ones((1, 2), complex), TABLE.shape))
    assert np.array_equal(v.numpy(), TABLE)
