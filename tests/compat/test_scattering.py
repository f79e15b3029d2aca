"""TensorFlow's scattered parts, `map_fn`, masks and positions: values of loops, and slopes by differences."""

import numpy as np
import pytest

import functad
from functad.compat import tf


def check_slopes(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(function(x))
    h = 1e-6
    for i, slope in enumerate(tape.gradient(y, x).numpy().ravel()):
        step = np.zeros(x.size)
        step[i] = h
        step = step.reshape(x.numpy().shape)
        up, down = (np.sum(function(tf.constant(x.numpy() + s)).numpy()) for s in (step, -step))
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-6, atol=1e-8)


def test_scattered_parts():
    places, parts = [[2], [0], [2]], tf.constant([1.0, 2.0, 4.0])
    assert tf.scatter_nd(places, parts, [4]).numpy().tolist() == [2, 0, 5, 0]
    check_slopes(lambda x: tf.scatter_nd(places, x, [4]) ** 2, tf.constant(np.array([1.0, 2.0, 4.0])))
    rows = tf.scatter_nd([[1, 0]], [[5.0, 6.0]], [2, 2, 2]).numpy()
    assert rows.tolist() == [[[0, 0], [0, 0]], [[5, 6], [0, 0]]]
    x = tf.constant([10.0, 20.0, 30.0])
    assert tf.tensor_scatter_nd_add(x, [[0], [0]], [1.0, 2.0]).numpy().tolist() == [13, 20, 30]
    assert tf.tensor_scatter_nd_sub(x, [[2]], [1.0]).numpy().tolist() == [10, 20, 29]
    assert tf.tensor_scatter_nd_update(x, [[2], [0]], [1.0, 2.0]).numpy().tolist() == [2, 20, 1]
    with tf.GradientTape() as tape:
        tape.watch([x, parts])
        y = tf.reduce_sum(tf.tensor_scatter_nd_update(x, [[2], [0], [1]], parts)[:2] ** 2)
    at_x, at_parts = tape.gradient(y, [x, parts])
    assert at_x.numpy().tolist() == [0, 0, 0]
    assert at_parts.numpy().tolist() == [0, 4, 8]
    with pytest.raises(IndexError, match="outside of the shape"):
        tf.scatter_nd([[4]], [1.0], [4])


def test_what_stands_for_segments():
    numbers, rows = np.array([2, 0, 2, 1]), np.arange(8.0).reshape(4, 2)
    check_slopes(lambda x: tf.scatter_nd(np.expand_dims(numbers, -1), x, [3, 2]) ** 2, tf.constant(rows))
    expected = [rows[numbers == i].sum(0) for i in range(3)]
    assert np.array_equal(tf.scatter_nd(np.expand_dims(numbers, -1), rows, [3, 2]).numpy(), expected)
    check_slopes(lambda x: np.add.reduceat(x, [0, 1, 3]) ** 2, tf.constant(rows))


@pytest.mark.parametrize("name", ["erf", "gammaln", "digamma", "i0e", "xlogy", "gammainc"])
def test_special_functions_of_scipy_act_on_tensors(name):
    special = pytest.importorskip("scipy.special")
    function = getattr(special, name)
    x = np.array([0.2, 0.55, 1.7])
    first = () if function.nin == 1 else (1.5,)
    np.testing.assert_allclose(function(*first, tf.constant(x)).numpy(), function(*first, x), rtol=1e-12)
    check_slopes(lambda x: function(*first, x), tf.constant(x))


def test_functions_of_each_part():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.map_fn(tf.reduce_prod, x)
    assert y.numpy().tolist() == [2, 12]
    assert tape.gradient(y, x).numpy().tolist() == [[2, 1], [4, 3]]
    total, pair = tf.map_fn(lambda t: (t[0] + t[1], {"a": t[0]}), (x, x), fn_output_signature=None)
    assert total.numpy().tolist() == [[2, 4], [6, 8]]
    assert pair["a"].numpy().tolist() == x.numpy().tolist()
    assert tf.vectorized_map(lambda row: row[0], x).numpy().tolist() == [1, 3]
    with pytest.raises(ValueError, match="parts"):
        tf.map_fn(lambda t: t[0], (x, x[:1]))


def test_masks_and_ranges():
    a = tf.constant([1.0, -2.0, 3.0])
    assert (a > 0).numpy().tolist() == [True, False, True]
    assert (~((a > 0) & (a < 2)) | (a == 1)).numpy().all()
    assert a[a > 0].numpy().tolist() == [1, 3]
    assert a[tf.newaxis].shape == (1, 3)
    values, places = tf.nn.top_k(a, 2)
    assert tf.nn.top_k(a, 2).values.numpy().tolist() == values.numpy().tolist() == [3, 1]
    assert tf.nn.top_k(a, 2).indices.numpy().tolist() == places.numpy().tolist() == [2, 0]
    for limits, dtype in (((3.0,), tf.float32), ((3,), tf.int32), ((0, 1, 0.25), tf.float32), ((np.int64(3),), tf.int64)):
        assert tf.range(*limits).dtype == dtype
    assert tf.range(3, dtype=tf.float64).dtype == tf.float64
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = a[a > 0] * 2
    assert tape.gradient(y, a).numpy().tolist() == [2, 0, 2]
    assert functad.grad(lambda x: np.sum(x[functad.constant([True, False])] ** 2))(np.array([3.0, 4.0])).tolist() == [6, 0]
