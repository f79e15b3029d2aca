"""What TensorFlow 2.21 answers, measured there: dtypes, names, paths without a derivative, derivatives at edges."""

import copy
import pickle

import numpy as np
import pytest

import functad
from functad.compat import tf


def gradient(f, *points, **kwargs):
    """Return the derivatives by constants, as plain values; one alone."""
    sources = [tf.constant(point) for point in points]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        y = f(*sources)
    found = [None if g is None else g.numpy() for g in tape.gradient(y, sources, **kwargs)]
    return found[0] if len(found) == 1 else found


# Dtypes


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3.0, tf.float32),
        (3, tf.int32),
        (True, tf.bool),
        (1j, tf.complex128),
        ([1, 2.0], tf.float32),
        ([[1], [2]], tf.int32),
        ([], tf.float32),
        (2**40, tf.int64),
        (np.float64(3), tf.float64),
        (np.arange(3), tf.int64),
        ([np.float64(1), np.float64(2)], tf.float64),
        (np.ones(2, np.float16), tf.float16),
    ],
)
def test_dtype_of_a_constant(value, dtype):
    assert tf.constant(value).dtype == dtype
    assert tf.convert_to_tensor(value).dtype == dtype
    assert tf.Variable(value).dtype == dtype


def test_dtype_objects():
    assert (tf.float32.name, tf.float32.as_numpy_dtype, repr(tf.int64)) == ("float32", np.float32, "tf.int64")
    assert tf.float32 == np.float32 == tf.as_dtype("float32")
    assert np.dtype("float32") == tf.float32 != tf.float64
    assert tf.float32 != "no dtype"
    assert len({tf.float32, tf.as_dtype(np.float32), tf.float64}) == 2
    kinds = [(d.is_floating, d.is_integer, d.is_complex, d.is_bool) for d in (tf.half, tf.uint8, tf.complex64, tf.bool)]
    np.testing.assert_array_equal(kinds, np.eye(4))
    assert (tf.complex128.real_dtype, tf.float32.base_dtype, tf.double.size) == (tf.float64, tf.float32, 8)
    assert (tf.int32.max, tf.int8.min) == (2**31 - 1, -128)
    assert tf.constant([1, 2], dtype=tf.float64).numpy().dtype == np.zeros(1, tf.float64).dtype
    assert functad.constant([1.0], dtype=tf.float32).dtype == tf.float32


def test_shapes():
    x = tf.zeros([2, 3])
    assert x.shape.as_list() == x.get_shape().as_list() == (x * 2 + 1).shape.as_list() == [2, 3]
    assert x.shape == (2, 3) == tuple(x.shape)
    assert x.shape == [2, 3] != (3, 2)
    assert np.sin(x).shape.rank == x.shape.ndims == 2
    assert (x.shape.num_elements(), x.shape[1:].as_list(), str(x.shape)) == (6, [3], "(2, 3)")
    assert repr(x.shape + [4]) == "TensorShape([2, 3, 4])"  # noqa: RUF005 (shapes are added so in TensorFlow)
    assert x.shape.is_compatible_with([None, 3])
    assert x.shape.is_compatible_with(None)
    assert x.shape.is_fully_defined()
    with pytest.raises(ValueError, match="not compatible"):
        x.shape.assert_is_compatible_with([3, None])
    with pytest.raises(ValueError, match="unknown rank"):
        tf.TensorShape(None)
    v = tf.Variable([[1.0]])
    with tf.GradientTape() as tape:
        y = v * v
    assert tape.gradient(y, v).shape.as_list() == y.shape.as_list() == v.get_shape().as_list() == [1, 1]
    assert hash(x.shape) == hash((2, 3))
    assert pickle.loads(pickle.dumps(x)).shape.as_list() == copy.deepcopy(x).shape.as_list() == [2, 3]


def test_results_stay_float32_and_integers_of_their_type():
    x = tf.constant([1.0, 2.0])
    for y in (x * 2.0, 2 - x, x**2, x / 3, np.sin(x), tf.add(x, [1.0, 2.0]), tf.add(x, np.ones(2)), tf.maximum(x, 0.5)):
        assert y.dtype == tf.float32
    n = tf.constant([1, 2])
    for f in (tf.reduce_sum, tf.reduce_prod, tf.reduce_max, tf.cumsum, tf.math.cumprod, tf.reduce_mean):
        assert f(n).dtype == tf.int32
    assert tf.reduce_mean(n).numpy() == 1
    assert tf.divide(n, n).dtype == tf.float64
    assert tf.stack([x[0], 1.0, 2]).dtype == tf.convert_to_tensor([x[0], 1]).dtype == tf.float32
    assert tf.zeros(2).dtype == tf.random.normal([2]).dtype == tf.eye(2).dtype == tf.one_hot([0], 2).dtype == tf.float32


def test_functions_of_plain_values_give_tensors():
    for y in (tf.sin(1.0), tf.add(1.0, np.float32(2)), tf.reduce_sum([1.0, 2.0]), tf.argmax([1.0, 2.0]), tf.equal(1, 2)):
        assert isinstance(y, tf.Tensor)
        assert tf.is_tensor(y)
    assert not tf.is_tensor(np.ones(2))
    x = tf.constant(1.0)
    assert tf.convert_to_tensor(x) is x
    assert tf.identity(x) is not x
    with pytest.raises(TypeError, match="no array of numbers"):
        tf.constant("text")


# Variables


def test_variable():
    v = tf.Variable(3.0)
    assert (v.name, v.dtype.name, v.trainable) == ("Variable:0", "float32", True)
    assert tf.Variable(1.0, name="w").name == "w:0"
    assert tf.Variable(lambda: 3.0).dtype == tf.float32
    assert tf.Variable(np.ones(2)).dtype == tf.float64
    assert tf.Variable([1, 2], dtype=tf.float64).dtype == tf.float64
    assert tf.Variable(1.0, constraint=abs).constraint is abs
    with pytest.raises(ValueError, match="initial value"):
        tf.Variable()
    with pytest.raises(ValueError, match="not compatible"):
        tf.Variable([1.0], shape=(2,))
    other = tf.Variable(v)
    other.assign(5.0)
    assert (v.numpy(), v.value().numpy(), v.initialized_value().numpy(), v.read_value().numpy()) == (3.0, 3.0, 3.0, 3.0)
    with pytest.raises(TypeError, match=r"assign_add|new Tensor"):
        v += 1.0
    with pytest.raises(AttributeError):
        v.trainable = False


def test_variable_assignments():
    v = tf.Variable([1.0, 2.0])
    assert v.assign(np.array([3.0, 4.0])) is v
    assert v.assign_add([1.0, 1.0], False, None, False) is None
    assert v.assign_sub(np.ones(2), read_value=True) is v
    assert v.dtype == tf.float32
    assert v.numpy().tolist() == [3.0, 4.0]
    v[0].assign(9.0)
    assert v.numpy().tolist() == [9.0, 4.0]
    with pytest.raises(ValueError, match="shape"):
        v.assign(1.0)
    with pytest.raises(TypeError, match="item assignment"):
        v[0] = 1.0
    with pytest.raises(TypeError):
        tf.Variable(1).assign(2.5)


def test_each_read_of_a_variable_records_its_own_value():
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        a = v * v
        v.assign(10.0)
        y = a + v * v
    assert tape.gradient(y, v).numpy() == 26.0


def test_variable_rows_are_scattered():
    v = tf.Variable([1.0, 2.0, 3.0])
    rows = tf.IndexedSlices(values=[10.0, 20.0, 30.0], indices=[0, 2, 0], dense_shape=[3])
    assert v.scatter_add(rows) is v
    assert v.numpy().tolist() == [41.0, 2.0, 23.0]
    assert v.scatter_sub(rows).numpy().tolist() == [1.0, 2.0, 3.0]
    assert v.scatter_update(tf.IndexedSlices([7.0], [1])).numpy().tolist() == [1.0, 7.0, 3.0]
    m = tf.Variable(tf.zeros([2, 2]))
    m.scatter_nd_add([[0, 1], [0, 1]], [1.0, 2.0])
    m.scatter_nd_update([[1]], [[5.0, 6.0]])
    assert m.scatter_nd_sub([[1, 1]], [1.0]).numpy().tolist() == [[0, 3], [5, 5]]
    assert m.dtype == tf.float32


def test_variable_is_copied_and_referred_to():
    v = tf.Variable([1.0], name="w", trainable=False)
    for other in (copy.copy(v), copy.deepcopy([v])[0], pickle.loads(pickle.dumps(v))):
        assert type(other) is tf.Variable
        assert (other.name, other.trainable, other.dtype, other.numpy()) == ("w:0", False, tf.float32, [1.0])
    assert {v.ref(): 1}[v.ref()] == 1
    assert v.ref().deref() is v
    assert v.ref() != tf.Variable(1.0).ref()
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)


# No path, and zero


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32),
        lambda x: tf.cast(x > 1.0, tf.float32),
        tf.floor,
        tf.round,
        tf.math.ceil,
        lambda x: x // 2.0,
        lambda x: tf.cast(tf.argmax(tf.stack([x, x])), tf.float32),
        tf.ones_like,
        lambda x: tf.cast(tf.size(x), tf.float32),
        tf.stop_gradient,
    ],
)
def test_no_path_is_none(f):
    assert gradient(f, 3.0) is None
    assert gradient(f, 3.0, unconnected_gradients=tf.UnconnectedGradients.ZERO) == np.float32(0)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x * 0.0, 0.0),
        (lambda x: x - x, 0.0),
        (lambda x: tf.where(x > 9.0, x, 1.0), 0.0),
        (tf.sign, 0.0),
        (lambda x: tf.math.mod(x, 2.0), 1.0),
        (lambda x: x, 1.0),
    ],
)
def test_path_with_a_derivative(f, expected):
    found = gradient(f, 3.0)
    assert found == expected
    assert found.dtype == np.float32


# At edges


@pytest.mark.parametrize(
    ("f", "point", "expected"),
    [
        (tf.abs, 0.0, 0.0),
        (tf.sign, 0.0, 0.0),
        (lambda q: q**1.0, 0.0, 1.0),
        (lambda q: q**2.0, 0.0, 0.0),
        (tf.reduce_max, [1.0, 3.0, 3.0], [0, 0.5, 0.5]),
        (tf.reduce_min, [1.0, 1.0, 3.0], [0.5, 0.5, 0]),
        (lambda q: tf.clip_by_value(q, 0.0, 1.0), [0.0, 0.5, 1.0, 2.0], [1, 1, 1, 0]),
        (lambda q: tf.where(q > 0, tf.sqrt(q), 0.0), [0.0, 4.0], [0, 0.25]),
        (tf.reduce_prod, [0.0, 2.0, 3.0], [6, 0, 0]),
        (lambda q: tf.math.cumprod(q)[-1], [0.0, 2.0, 3.0], [6, 0, 0]),
        (lambda q: tf.math.divide_no_nan(q, tf.zeros_like(q)), [1.0, 2.0], [0, 0]),
        (tf.reduce_logsumexp, [1000.0, 1000.0], [0.5, 0.5]),
        (lambda q: tf.nn.sigmoid_cross_entropy_with_logits(labels=[0.0, 1.0], logits=q), [0.0, 0.0], [0.5, -0.5]),
        (lambda q: tf.gather(q, [1, 1]), [5.0, 7.0, 9.0], [0, 2, 0]),
    ],
)
def test_derivative_at_edges(f, point, expected):
    found = gradient(f, point)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


def test_ties_of_maximum_and_minimum_go_to_the_first():
    assert gradient(tf.maximum, 2.0, 2.0) == [1.0, 0.0]
    assert gradient(tf.minimum, 2.0, 2.0) == [1.0, 0.0]
    for f in (tf.maximum, tf.minimum):
        assert np.isnan([f(np.nan, 1.0), f(1.0, np.nan)]).all()


def test_complex_gradients_are_conjugates():
    assert gradient(lambda z: z * z, 1 + 2j) == 2 - 4j
    np.testing.assert_allclose(gradient(tf.abs, 3 + 4j), 0.6 + 0.8j)
    assert gradient(lambda a, b: tf.math.real(tf.complex(a, b) * (2 + 3j)), 1.0, 1.0) == [2.0, -3.0]


# The tape and the accumulator


def test_second_order():
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        g = inner.gradient(y, x)
    assert outer.gradient(g, x).numpy() == 18.0


def test_targets_and_seeds():
    x = tf.constant(3.0)
    q = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, q])
        y, r = x * x, q * q
    assert tape.gradient([x, y], x).numpy() == 7.0
    assert tape.gradient(r, q, output_gradients=tf.constant([2.0, 3.0])).numpy().tolist() == [4.0, 12.0]
    assert tape.gradient(y, {"a": x, "b": [q]}, unconnected_gradients="zero")["b"][0].numpy().tolist() == [0.0, 0.0]
    assert tape.gradient(y, []) == []
    assert tape.jacobian(r, q, parallel_iterations=1).numpy().tolist() == [[2, 0], [0, 4]]


def test_reset_forgets():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        a = x * x
        tape.reset()
        tape.watch(x)
        y = a + x**3
    assert tape.gradient(y, x).numpy() == 27.0


def test_stopped_tape_does_not_record():
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        with tape.stop_recording():
            a = v * v
        y = a * v
    assert tape.gradient(y, v).numpy() == 4.0


def test_accumulators_nest():
    x = tf.constant(3.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as outer:
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as inner:
            y = x**3
        first = inner.jvp(y)
    assert (first.numpy(), outer.jvp(first).numpy()) == (27.0, 18.0)
    assert outer.jvp(tf.constant(1.0)) is None
    assert outer.jvp(tf.constant(1.0), tf.UnconnectedGradients.ZERO).numpy() == 0.0


# Slices, random numbers, checks


def test_slices_become_dense():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 1]))
    assert tape.gradient(y, table).numpy().tolist() == [[0, 0], [2, 2]]
    slices = tf.IndexedSlices(tf.constant([1.0, 2.0]), [1, 1], (3,))
    assert tf.convert_to_tensor(slices).numpy().tolist() == [0, 3, 0]
    assert tf.add(-slices, 1.0).numpy().tolist() == [1, -2, 1]
    with pytest.raises(ValueError, match="dense_shape"):
        tf.convert_to_tensor(tf.IndexedSlices([1.0], [0]))
    with pytest.raises(IndexError, match="axis of length 2"):
        tf.gather(table, [-1])


def test_random_numbers():
    tf.random.set_seed(3)
    first = tf.random.normal([1000], 5.0, 2.0), tf.random.uniform([1000], -1, 1), tf.random.truncated_normal([1000])
    tf.random.set_seed(3)
    again = tf.random.normal([1000], 5.0, 2.0), tf.random.uniform([1000], -1, 1), tf.random.truncated_normal([1000])
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose([np.mean(first[0]), np.std(first[0])], [5, 2], atol=0.2)
    assert -1 <= np.min(first[1]) < -0.9 < 0.9 < np.max(first[1]) < 1
    assert 1.8 < np.max(np.abs(first[2])) <= 2
    whole = tf.random.uniform([100], maxval=3, dtype=tf.int32)
    assert (set(whole.tolist()), whole.dtype) == ({0, 1, 2}, tf.int32)
    with pytest.raises(ValueError, match="maxval"):
        tf.random.uniform([2], dtype=tf.int32)
    assert sorted(tf.random.shuffle(tf.range(5)).tolist()) == [0, 1, 2, 3, 4]
    kept = tf.nn.dropout(tf.ones([1000]), rate=0.5)
    assert (set(kept.tolist()), kept.dtype) == ({0.0, 2.0}, tf.float32)
    np.testing.assert_array_equal(tf.random.normal([3], seed=1), tf.random.normal([3], seed=1))
    g = tf.random.Generator.from_seed(1)
    assert g.normal([2]).dtype == g.uniform([2]).dtype == tf.random.get_global_generator().normal([1]).dtype == tf.float32
    other = tf.random.Generator.from_non_deterministic_state()
    assert other.normal([4]).tolist() != other.normal([4]).tolist()


def test_checks():
    tf.debugging.assert_near([1.0, 2.0], [1.0, 2.0 + 1e-6])
    tf.debugging.assert_equal([1], [1])
    tf.debugging.assert_less(1, 2)
    assert tf.debugging.check_numerics(tf.constant(1.0), "x").numpy() == tf.debugging.assert_all_finite(1.0, "x") == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"wrong result: .* is not near"):
        tf.debugging.assert_near(1.0, 1.1, message="wrong result")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not greater than"):
        tf.debugging.assert_greater([1, 2], [1, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"the loss: .*test_semantics.py"):
        tf.debugging.check_numerics(tf.constant([1.0, np.inf]), "the loss")


def test_losses_are_reduced():
    truth, found = [[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [3.0, 1.0]]
    assert tf.keras.losses.MeanSquaredError()(truth, found).numpy() == 1.25
    assert tf.keras.losses.MeanSquaredError(reduction="sum")(truth, found).numpy() == 2.5
    assert tf.keras.losses.MeanSquaredError(reduction="none")(truth, found).numpy().tolist() == [0.5, 2.0]
    assert tf.keras.losses.MeanAbsoluteError()(truth, found, sample_weight=[1.0, 0.0]).numpy() == 0.25
    logits = tf.constant([[0.0, 0.0]])
    for loss, labels in (
        (tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), [1]),
        (tf.keras.losses.CategoricalCrossentropy(from_logits=True), [[0.0, 1.0]]),
        (tf.keras.losses.BinaryCrossentropy(from_logits=True), [[0.0, 1.0]]),
    ):
        np.testing.assert_allclose(loss(labels, logits), np.log(2), rtol=1e-6)
    with pytest.raises(ValueError, match="reduction"):
        tf.keras.losses.MeanSquaredError(reduction="mean")


def test_initializers():
    tf.random.set_seed(0)
    initializers = tf.keras.initializers
    assert initializers.Zeros()([2]).tolist() == [0, 0]
    assert initializers.get("ones")([2], tf.float64).dtype == tf.float64
    assert initializers.Constant(3.0)([2]).tolist() == [3, 3]
    assert 0.03 < np.std(initializers.RandomNormal(stddev=0.05)([1000])) < 0.07
    assert 0.9 < np.max(initializers.GlorotUniform()([2, 4, 100])) * np.sqrt(104 / 6) <= 1
    with pytest.raises(ValueError, match="no initializer 'zzz'"):
        initializers.get("zzz")


def test_names_without_effect():
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    def f(x):
        return x * 2

    with tf.device("/CPU:0"), tf.name_scope("scope") as scope:
        assert scope == "scope"
    assert tf.function(f) is f
    assert f(3) == 6
    assert tf.executing_eagerly()
    assert "shape=(2,)" in repr(tf.TensorSpec([2]))
    with pytest.raises(AttributeError, match="only a scope"):
        tf.Graph().finalize()


def test_uniform_numbers_stay_below_the_upper_end():
    numbers = tf.random.uniform([50_000], dtype=tf.float16, seed=1).numpy()
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0


def test_map_fn_of_a_number_raises():
    with pytest.raises(ValueError, match="needs a first axis"):
        tf.map_fn(lambda x: x, tf.constant(1.0))
