"""TensorFlow's special functions, segments and positions: values of SciPy and of loops, and slopes by differences."""

import numpy as np
import pytest

import functad
from functad.compat import tf

special = pytest.importorskip("scipy.special")

ONE = {
    "math.bessel_i0": "i0",
    "math.bessel_i0e": "i0e",
    "math.bessel_i1": "i1",
    "math.bessel_i1e": "i1e",
    "math.digamma": "digamma",
    "math.erf": "erf",
    "math.erfc": "erfc",
    "math.erfcinv": "erfcinv",
    "math.erfinv": "erfinv",
    "math.lgamma": "gammaln",
    "math.ndtri": "ndtri",
    "math.special.bessel_j0": "j0",
    "math.special.bessel_j1": "j1",
    "math.special.bessel_k0": "k0",
    "math.special.bessel_k0e": "k0e",
    "math.special.bessel_k1": "k1",
    "math.special.bessel_k1e": "k1e",
    "math.special.bessel_y0": "y0",
    "math.special.bessel_y1": "y1",
    "math.special.dawsn": "dawsn",
    "math.special.expint": "expi",
    "math.special.spence": "spence",
    "math.special.fresnel_sin": lambda x: special.fresnel(x)[0],
    "math.special.fresnel_cos": lambda x: special.fresnel(x)[1],
    "math.log_sigmoid": lambda x: np.log(1 / (1 + np.exp(-x))),
    "math.softsign": lambda x: x / (1 + abs(x)),
    "math.reciprocal_no_nan": lambda x: 1 / x,
    "math.cumulative_logsumexp": lambda x: np.log(np.cumsum(np.exp(x))),
    "math.lbeta": lambda x: np.sum(special.gammaln(x)) - special.gammaln(np.sum(x)),
    "nn.relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "nn.selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    "nn.crelu": lambda x: np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)]),
}


def found_by_name(path):
    function = tf
    for part in path.split("."):
        function = getattr(function, part)
    return function


def check_slopes(function, x, rtol=1e-6):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(function(x))
    h = 1e-6
    for i, slope in enumerate(tape.gradient(y, x).numpy().ravel()):
        step = np.zeros(x.size)
        step[i] = h
        step = step.reshape(x.numpy().shape)
        up, down = (np.sum(function(tf.constant(x.numpy() + s)).numpy()) for s in (step, -step))
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=rtol, atol=1e-8)


@pytest.mark.parametrize("path", ONE)
def test_values_and_slopes(path):
    own, reference = found_by_name(path), ONE[path]
    reference = getattr(special, reference) if isinstance(reference, str) else reference
    x = np.array([0.2, 0.55, 0.7])
    np.testing.assert_allclose(own(tf.constant(x)).numpy(), reference(x), rtol=1e-12)
    check_slopes(own, tf.constant(x))
    assert own(tf.constant(x, tf.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("path", "reference", "first"),
    [
        ("math.igamma", special.gammainc, 1.5),
        ("math.igammac", special.gammaincc, 1.5),
        ("math.xlog1py", special.xlog1py, 1.5),
        ("math.xdivy", lambda x, y: x / y, 1.5),
        ("math.polygamma", special.polygamma, 2.0),
    ],
)
def test_functions_of_two(path, reference, first):
    own, x = found_by_name(path), np.array([0.2, 0.55, 1.7])
    np.testing.assert_allclose(own(first, tf.constant(x)).numpy(), reference(int(first) if "poly" in path else first, x))
    check_slopes(lambda x: own(first, x), tf.constant(x))


def test_other_functions():
    x = np.array([0.2, 0.55, 0.7])
    np.testing.assert_allclose(tf.math.betainc(2.0, 3.0, tf.constant(x)).numpy(), special.betainc(2.0, 3.0, x))
    check_slopes(lambda x: tf.math.betainc(2.0, 3.0, x), tf.constant(x))
    np.testing.assert_allclose(tf.math.zeta(tf.constant([2.0, 3.0]), 1.0).numpy(), special.zeta([2.0, 3.0]), rtol=1e-6)
    assert tf.math.polyval([1.0, 2.0, 3.0], tf.constant(2.0)).numpy() == 11
    assert tf.math.reciprocal_no_nan(tf.constant([0.0, 2.0])).numpy().tolist() == [0, 0.5]
    assert tf.math.xdivy(tf.constant([0.0, 1.0]), tf.constant([0.0, 2.0])).numpy().tolist() == [0, 0.5]
    assert tf.scalar_mul(2.0, tf.constant([1.0, 3.0])).numpy().tolist() == [2, 6]
    assert tf.math.nextafter(tf.constant(1.0), 2.0).numpy() == 1 + np.finfo(np.float32).eps
    assert tf.math.zero_fraction([0.0, 1.0, 0.0, 2.0]).numpy() == 0.5
    assert tf.math.is_non_decreasing([1, 1, 2]).numpy()
    assert not tf.math.is_strictly_increasing([1, 1, 2]).numpy()
    assert tf.math.invert_permutation([2, 0, 1]).numpy().tolist() == [1, 2, 0]
    assert tf.math.in_top_k([1, 0], [[0.1, 0.8, 0.3], [0.1, 0.8, 0.3]], 2).numpy().tolist() == [True, False]
    assert tf.math.confusion_matrix([1, 2, 1], [1, 2, 0]).numpy().tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 1]]
    logits, labels = np.array([-2.0, 0.5]), np.array([1.0, 0.0])
    p = 1 / (1 + np.exp(-logits))
    found = tf.nn.weighted_cross_entropy_with_logits(labels, tf.constant(logits), 3.0)
    np.testing.assert_allclose(found.numpy(), -3.0 * labels * np.log(p) - (1 - labels) * np.log(1 - p))
    mean, variance = tf.nn.weighted_moments(tf.constant([[1.0, 2.0], [3.0, 6.0]]), [0], [[3.0], [1.0]])
    np.testing.assert_allclose([mean.numpy(), variance.numpy()], [[1.5, 3.0], [0.75, 3.0]])
    z, c = np.array([0.0, 1.0, 4.0]), np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(tf.nn.log_poisson_loss(z, tf.constant(c)).numpy(), np.exp(c) - c * z)
    full = np.exp(c) - c * z + np.array([0, 0, 4 * np.log(4.0) - 4 + np.log(8 * np.pi) / 2])
    np.testing.assert_allclose(tf.nn.log_poisson_loss(z, tf.constant(c), True).numpy(), full)
    normal = tf.nn.batch_normalization(tf.constant([1.0, 3.0]), 2.0, 1.0, None, 2.0, 0.0)
    assert normal.numpy().tolist() == [-2, 2]


# Segments and positions


DATA = np.array([[1.0, 5.0], [2.0, -4.0], [-3.0, 0.5], [7.0, 1.5]])


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "mean"])
def test_segments(kind):
    numbers = [0, 0, 2, 2]
    function = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}[kind]
    own = getattr(tf.math, f"segment_{kind}")
    empty = 1.0 if kind == "prod" else 0.0
    expected = [function(DATA[:2], axis=0), [empty, empty], function(DATA[2:], axis=0)]
    np.testing.assert_allclose(own(tf.constant(DATA), numbers).numpy(), expected)
    check_slopes(lambda x: own(x, numbers) ** 2, tf.constant(DATA), 1e-5)
    with pytest.raises(ValueError, match=f"tf.math.unsorted_segment_{kind}"):
        own(DATA, [1, 0, 0, 0])


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "mean", "sqrt_n"])
def test_unsorted_segments(kind):
    numbers = [2, -1, 0, 2]
    own = getattr(tf.math, f"unsorted_segment_{kind}")
    both = DATA[[0, 3]]
    last = {
        "sum": both.sum(0),
        "prod": both.prod(0),
        "max": both.max(0),
        "min": both.min(0),
        "mean": both.sum(0) / 2,
        "sqrt_n": both.sum(0) / 2**0.5,
    }[kind]
    empty = {"prod": 1.0, "max": np.finfo(float).min, "min": np.finfo(float).max}.get(kind, 0.0)
    np.testing.assert_allclose(own(tf.constant(DATA), numbers, 3).numpy(), [DATA[2], [empty, empty], last])
    check_slopes(lambda x: own(x, numbers, 3)[::2] ** 2, tf.constant(DATA), 1e-5)
    several = own(tf.constant(DATA), [[0, 1], [1, 1]], 2)
    np.testing.assert_allclose(several.numpy(), own(tf.constant(DATA.ravel()), [0, 1, 1, 1], 2).numpy())
    with pytest.raises(ValueError, match="a segment has the number 3"):
        own(DATA, [0, 1, 2, 3], 3)


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
