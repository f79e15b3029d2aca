"""Programs as they are written for TensorFlow: nothing but their imports names functad."""

import numpy as np
import pytest

import functad
from functad.compat import tf, tfe
from tests.differences import numerical_jacobian


def test_linear_regression_with_a_tape():
    tf.random.set_seed(1)
    true_w, true_b = 3.0, 2.0
    x = tf.random.normal(shape=[200])
    y = x * true_w + true_b + 0.1 * tf.random.normal(shape=[200])
    w, b = tf.Variable(5.0, name="w"), tf.Variable(0.0, name="b")

    def loss():
        return tf.reduce_mean(tf.square(w * x + b - y))

    losses = []
    for _ in range(60):
        with tf.GradientTape() as tape:
            current = loss()
        dw, db = tape.gradient(current, [w, b])
        w.assign_sub(0.1 * dw)
        b.assign_sub(0.1 * db)
        losses.append(current.numpy())
    ones = np.stack([x.numpy(), np.ones(200)], 1)
    best = np.linalg.lstsq(ones, y.numpy(), rcond=None)[0]
    np.testing.assert_allclose([w.numpy(), b.numpy()], best, atol=1e-4)
    assert losses[-1] < 0.02 < losses[0]
    assert w.dtype == tf.float32
    assert w.name == "w:0"


def test_a_step_of_maml_learns_from_the_second_derivative():
    def task_loss(theta, x, y):
        return tf.reduce_mean((tf.tanh(x * theta[0] + theta[1]) - y) ** 2)

    x, y = tf.constant([0.1, 0.5, -0.4], tf.float64), tf.constant([0.3, 0.7, -0.2], tf.float64)
    theta = tf.Variable([0.2, -0.1], dtype=tf.float64)

    def meta_gradient():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = task_loss(theta, x, y)
            fast = theta - 0.5 * inner.gradient(loss, theta)
            meta = task_loss(fast, x + 0.1, y)
        return outer.gradient(meta, theta)

    def meta(values):
        def inner(t):
            return np.mean((np.tanh(x.numpy() * t[0] + t[1]) - y.numpy()) ** 2)

        slope = numerical_jacobian(inner, values)
        fast = values - 0.5 * slope
        return np.mean((np.tanh((x.numpy() + 0.1) * fast[0] + fast[1]) - y.numpy()) ** 2)

    at = theta.numpy()
    expected = numerical_jacobian(meta, at)
    np.testing.assert_allclose(meta_gradient().numpy(), expected, rtol=1e-5)


def rosenbrock(x):
    return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def hessian_of_rosenbrock(x):
    """By central differences of the gradient in complex steps."""

    def gradient(x):
        f = lambda z: np.sum(100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2)  # noqa: E731
        return np.array([f(x + 1e-30j * e).imag / 1e-30 for e in np.eye(x.size)])

    return numerical_jacobian(gradient, x)


def test_product_of_a_hessian_with_a_vector_by_nested_tapes():
    x, v = tf.constant([0.5, -0.3, 1.2], dtype=tf.float64), tf.constant([1.0, 2.0, -1.0], dtype=tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = rosenbrock(x)
        grads = inner.gradient(y, x)
        product = tf.reduce_sum(grads * tf.stop_gradient(v))
    hvp = outer.gradient(product, x)
    np.testing.assert_allclose(hvp.numpy(), hessian_of_rosenbrock(x.numpy()) @ v.numpy(), rtol=1e-6)


def test_product_of_a_hessian_with_a_vector_forward_over_reverse():
    x, v = tf.constant([0.5, -0.3, 1.2], dtype=tf.float64), tf.constant([1.0, 2.0, -1.0], dtype=tf.float64)
    with tf.autodiff.ForwardAccumulator(x, v) as accumulator:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = rosenbrock(x)
        grads = tape.gradient(y, x)
    hvp = accumulator.jvp(grads)
    assert hvp.shape.as_list() == [3]
    np.testing.assert_allclose(hvp.numpy(), hessian_of_rosenbrock(x.numpy()) @ v.numpy(), rtol=1e-6)


def test_hessian_by_a_jacobian_of_a_gradient():
    x = tf.Variable([0.5, -0.3, 1.2], dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = rosenbrock(x)
        g = inner.gradient(y, x)
    h = outer.jacobian(g, x, experimental_use_pfor=False)
    np.testing.assert_allclose(h.numpy(), hessian_of_rosenbrock(x.numpy()), rtol=1e-6, atol=1e-5)


def test_gradient_penalty_of_a_critic():
    rng = np.random.default_rng(0)
    w1, w2 = tf.Variable(rng.normal(size=(3, 4)), name="w1"), tf.Variable(rng.normal(size=(4, 1)), name="w2")
    real, fake = tf.constant(rng.normal(size=(5, 3))), tf.constant(rng.normal(size=(5, 3)))

    def critic(x):
        return tf.matmul(tf.tanh(tf.matmul(x, w1)), w2)

    def penalty():
        mixed = 0.3 * real + 0.7 * fake
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            scores = critic(mixed)
        slopes = tape.gradient(scores, mixed)
        norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1))
        return tf.reduce_mean((norms - 1.0) ** 2)

    with tf.GradientTape() as tape:
        loss = penalty()
    g1, g2 = tape.gradient(loss, [w1, w2])
    d1, d2 = rng.normal(size=(3, 4)), rng.normal(size=(4, 1))
    slope = np.sum(g1.numpy() * d1) + np.sum(g2.numpy() * d2)

    def moved(step):
        keep = w1.numpy(), w2.numpy()
        w1.assign_add(step * d1)
        w2.assign_add(step * d2)
        value = float(penalty())
        w1.assign(keep[0])
        w2.assign(keep[1])
        return value

    np.testing.assert_allclose(slope, (moved(1e-5) - moved(-1e-5)) / 2e-5, rtol=1e-6)


def test_custom_gradient_of_log1pexp():
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)

        def grad(upstream):
            return upstream * (1 - 1 / (1 + e))

        return tf.math.log(1 + e), grad

    x = tf.constant(100.0, dtype=tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = log1pexp(x)
    assert tape.gradient(y, x).numpy() == 1.0


def test_custom_gradient_that_clips():
    @tf.custom_gradient
    def clip_gradients(y):
        def backward(dy):
            return tf.clip_by_norm(dy, 0.5)

        return y, backward

    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        output = clip_gradients(v * v)
    assert tape.gradient(output, v).numpy() == 2.0  # not 4: half as much is let through


def test_jacobian_and_batch_jacobian():
    rng = np.random.default_rng(0)
    w = tf.constant(rng.normal(size=(3, 2)))
    x = tf.constant(rng.normal(size=(4, 3)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        y = tf.sin(tf.matmul(x, w))
    full = tape.jacobian(y, w)
    rows = tape.batch_jacobian(y, x)
    assert full.shape == [4, 2, 3, 2]
    assert rows.shape.as_list() == [4, 2, 3]
    h = 1e-30
    for i in range(3):
        for j in range(2):
            step = np.zeros((3, 2), complex)
            step[i, j] = 1j * h
            expected = np.sin(x.numpy() @ (w.numpy() + step)).imag / h
            np.testing.assert_allclose(full.numpy()[..., i, j], expected, rtol=1e-12)
    np.testing.assert_allclose(rows.numpy(), np.einsum("bjbk->bjk", tape.jacobian(y, x).numpy()), rtol=1e-12)


def test_implicit_gradients_train_as_in_the_first_eager_interface():
    tf.enable_eager_execution()
    xs, ys = tf.constant([0.0, 1.0, 2.0, 3.0]), tf.constant([1.0, 3.0, 5.0, 7.0])

    class Line:
        def __init__(self):
            self.slope = tfe.Variable(0.0, name="slope")
            self.offset = tfe.Variable(0.0, name="offset")

        def predict(self, x):
            return self.slope * x + self.offset

    def loss(model, x, y):
        return tf.reduce_mean(tf.square(model.predict(x) - y))

    model, step = Line(), tfe.implicit_value_and_gradients(loss)
    for _ in range(300):
        value, pairs = step(model, xs, ys)
        for gradient, variable in pairs:
            variable.assign_sub(gradient * 0.1)
    assert [variable.name for _, variable in pairs] == ["slope:0", "offset:0"]
    assert value.numpy() < 1e-6
    np.testing.assert_allclose([model.slope.numpy(), model.offset.numpy()], [2, 1], atol=1e-3)


def test_softmax_regression_with_one_hot_labels():
    rng = np.random.default_rng(0)
    centres = np.array([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])
    labels = rng.integers(3, size=150)
    points = (centres[labels] + rng.normal(scale=0.5, size=(150, 2))).astype(np.float32)
    w, b = tf.Variable(tf.zeros([2, 3])), tf.Variable(tf.zeros([3]))

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            logits = x @ w + b
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(y, 3), logits=logits))
        for g, v in zip(tape.gradient(loss, [w, b]), [w, b], strict=True):
            v.assign_sub(0.5 * g)
        return loss

    losses = [float(train_step(tf.constant(points), labels)) for _ in range(100)]
    found = tf.argmax(points @ w + b, axis=1)
    assert losses[0] == pytest.approx(np.log(3), rel=1e-6)
    assert tf.reduce_mean(tf.cast(tf.equal(found, labels), tf.float32)) > 0.95
    assert losses[-1] < 0.2


def test_variational_gradient_by_reparametrisation():
    """The mean of z^2 for z = mu + sigma e has the derivatives 2 mu and 2 sigma."""
    tf.random.set_seed(0)
    mu, rho = tf.Variable(0.7), tf.Variable(0.1)
    with tf.GradientTape() as tape:
        z = tf.random.normal([100_000], mean=mu, stddev=tf.exp(rho))
        objective = tf.reduce_mean(tf.square(z))
    d_mu, d_rho = tape.gradient(objective, [mu, rho])
    np.testing.assert_allclose([d_mu, d_rho], [1.4, 2 * np.exp(0.2)], rtol=0.02)


def test_gradients_in_a_graph():
    with tf.Graph().as_default():
        a = tf.constant(0.0)
        b = 2 * a
        total = [g.numpy() for g in tf.gradients(a + b, [a, b])]
        partial = [g.numpy() for g in tf.gradients(a + b, [a, b], stop_gradients=[a, b])]
        x = tf.constant([1.0, 2.0])
        (hessian,) = tf.hessians(tf.reduce_sum(x**3), x)
        added = tf.AggregationMethod.ADD_N
        by_position = tf.gradients(a + b, [a, x], tf.constant(10.0), "slopes", False, added, [b], tf.UnconnectedGradients.ZERO)
    assert (total, partial) == ([3.0, 1.0], [1.0, 1.0])
    assert [g.numpy().tolist() for g in by_position] == [10.0, [0.0, 0.0]]
    assert all(isinstance(g, tf.Tensor) for g in by_position)
    np.testing.assert_array_equal(hessian.numpy(), [[6, 0], [0, 12]])


def test_the_functional_transforms_take_functions_written_with_tf():
    def f(x):
        return tf.reduce_sum(tf.nn.l2_loss(tf.tanh(x)) + tf.reduce_logsumexp(x))

    x = np.array([0.3, -0.7])
    g = functad.grad(f)(x)
    expected = [(float(f(x + 1e-6 * e)) - float(f(x - 1e-6 * e))) / 2e-6 for e in np.eye(2)]
    assert type(g) is np.ndarray
    np.testing.assert_allclose(g, expected, rtol=1e-7)


@pytest.mark.parametrize(
    "f",
    [
        lambda logits, label: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits),
        lambda logits, label: tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(label[None], logits[None]),
        lambda logits, label: tf.gather(logits, label),
        lambda logits, label: tf.reduce_sum(tf.one_hot(label, 5) * logits),
    ],
    ids=["sparse-cross-entropy", "keras-loss", "gather", "one-hot"],
)
def test_labels_of_single_examples(f, rng):
    logits, labels = rng.normal(size=(4, 5)), np.array([0, 3, 1, 4])
    each = [np.asarray(f(a, b)) for a, b in zip(logits, labels, strict=True)]
    np.testing.assert_allclose(functad.vmap(f)(logits, labels), each, rtol=1e-6)
    slope = functad.grad(f)
    slopes = [slope(a, b) for a, b in zip(logits, labels, strict=True)]
    np.testing.assert_allclose(functad.vmap(slope)(logits, labels), slopes, rtol=1e-6, atol=1e-7)


def test_recompute_grad_and_grad_pass_through():
    v = tf.Variable(0.5)
    block = tf.recompute_grad(lambda x: tf.sin(x) * v)
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = block(x)
    gx, gv = tape.gradient(y, [x, v])
    np.testing.assert_allclose([gx, gv], [0.5 * np.cos(2.0), np.sin(2.0)], rtol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.grad_pass_through(tf.round)(x * 1.3)
    assert (y.numpy(), tape.gradient(y, x).numpy()) == (3.0, np.float32(1.3))


def test_loops_and_branches():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, tf.constant(1.0)))
        z = tf.cond(y > 5.0, lambda: y * 2, lambda: y)
    assert (z.numpy(), tape.gradient(z, x).numpy()) == (16.0, 24.0)
