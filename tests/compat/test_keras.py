"""`tf.Module`, `tf.keras` and `tf.train`: code as it is written for TensorFlow trains with them."""

import numpy as np
import pytest
from functad.compat.tf.keras import layers

from functad import Module, nn, optimizers
from functad.compat import tf, tfe
from functad.compat.tf import keras

A = np.array([[0.3, -1.2, 2.1], [1.7, 0.4, -0.6]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", np.maximum(A, 0)),
        ("sigmoid", 1 / (1 + np.exp(-A))),
        ("softmax", np.exp(A) / np.exp(A).sum(-1, keepdims=True)),
        ("log_softmax", A - np.log(np.exp(A).sum(-1, keepdims=True))),
        ("softplus", np.log(1 + np.exp(A))),
        ("elu", np.where(A > 0, A, np.exp(A) - 1)),
        ("silu", A / (1 + np.exp(-A))),
        ("swish", A / (1 + np.exp(-A))),
    ],
)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_activation(name, expected, dtype):
    x = tf.constant(A, dtype)
    for f in (getattr(tf.nn, name), getattr(keras.activations, name), keras.activations.get(name)):
        assert f(x).dtype == dtype
        np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert getattr(tf.nn, name)([1.0]).dtype == tf.float32


def test_gelu_is_exact_unless_it_is_to_be_approximate():
    from scipy.special import ndtr

    np.testing.assert_allclose(tf.nn.gelu(A).numpy(), A * ndtr(A), rtol=1e-12)
    np.testing.assert_allclose(tf.nn.gelu(A, approximate=True).numpy(), A * ndtr(A), atol=1e-3)


def test_other_names_of_activations():
    assert tf.sigmoid(0.0).numpy() == tf.math.sigmoid(0.0).numpy() == 0.5
    assert tf.math.softplus(0.0).numpy() == np.float32(np.log(2))
    np.testing.assert_array_equal(tf.nn.softmax(A, axis=0).numpy().sum(0), [1, 1, 1])
    assert keras.activations.get(None)(3.0).numpy() == 3.0
    with pytest.raises(ValueError, match="no activation 'zzz'"):
        keras.activations.get("zzz")


def test_module_finds_variables():
    class Linear(tf.Module):
        def __init__(self):
            super().__init__(name="linear")
            self.w = tf.Variable(tf.random.normal([3, 1]), name="w")
            self.b = tf.Variable(tf.zeros([1]), name="b")

        def __call__(self, x):
            return tf.matmul(x, self.w) + self.b

    model = Linear()
    assert isinstance(model, Module)
    assert model.trainable_variables == (model.b, model.w)
    x = tf.ones([4, 3])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x))
    db, dw = tape.gradient(loss, model.trainable_variables)
    assert (db.numpy().tolist(), dw.numpy().tolist()) == ([4.0], [[4.0]] * 3)


def test_dense():
    layer = layers.Dense(2)
    x = tf.ones([3, 4])
    with tf.GradientTape() as tape:
        y = layer(x)
    gradients = tape.gradient(y, layer.trainable_variables)
    assert [g.shape.as_list() for g in gradients] == [[4, 2], [2]]
    assert [v.dtype.name for v in layer.weights] == ["float32"] * 2
    assert layer(np.ones((3, 4))).dtype == tf.float32
    assert layer.count_params() == 10
    assert not layer.non_trainable_weights
    assert isinstance(layer, nn.Dense)


def test_dense_takes_the_arguments_of_keras():
    layer = layers.Dense(2, "relu", True, "ones", keras.initializers.Constant(-3.0), input_shape=(2,), dtype="float64")
    kernel, bias = layer.get_weights()
    assert (kernel.tolist(), bias.tolist(), kernel.dtype) == ([[1, 1], [1, 1]], [-3, -3], np.float64)
    assert layer([[1.0, 1.0], [2.0, 2.0]]).numpy().tolist() == [[0, 0], [1, 1]]
    layer.set_weights([2 * kernel, bias])
    assert layer([[1.0, 1.0]]).numpy().tolist() == [[1, 1]]
    assert len(layers.Dense(1, activation=tf.tanh, use_bias=False, input_dim=3).weights) == 1


def test_seed_gives_the_same_layer_again():
    kernels = []
    for _ in range(2):
        tf.random.set_seed(4)
        kernels.append(layers.Dense(3, input_dim=2).get_weights()[0])
    np.testing.assert_array_equal(*kernels)
    assert np.abs(kernels[0]).max() <= np.sqrt(6 / 5)


def test_own_layer_and_model():
    class Scaling(layers.Layer):
        def build(self, input_shape):
            self.scale = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="scale")
            self.count = self.add_weight(initializer="zeros", trainable=False)

        def call(self, inputs, training=False):
            return inputs * self.scale if training else inputs

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.scaling = Scaling()
            self.flatten = layers.Flatten()
            self.activate = layers.Activation("relu")
            self.out = layers.Dense(1)

        def call(self, x, training=False):
            return self.out(self.activate(self.flatten(self.scaling(x, training=training))))

    net = Net()
    assert net(tf.ones([5, 2, 3]), training=True).shape.as_list() == [5, 1]
    assert [v.shape.as_list() for v in net.trainable_variables] == [[3], [6, 1], [1]]
    assert len(net.variables) == 4
    assert [v.name for v in net.scaling.trainable_variables] == ["scale:0"]


def digits():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int64)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.Adam(learning_rate=0.05),
        lambda: keras.optimizers.SGD(learning_rate=0.5, momentum=0.9, nesterov=True),
        lambda: tf.optimizers.RMSprop(0.02),
    ],
)
def test_sequential_learns_what_no_line_separates(optimizer):
    tf.random.set_seed(0)
    x, y = digits()
    model = keras.Sequential([layers.Dense(16, activation="tanh", input_shape=(2,))])
    model.add(layers.Dense(2))
    optimizer, loss_object = optimizer(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = []
    for _ in range(120):
        with tf.GradientTape() as tape:
            loss = loss_object(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        losses.append(float(loss))
    accuracy = np.mean(tf.argmax(model(x), axis=1).numpy() == y)
    assert losses[0] > 0.5
    assert accuracy > 0.93
    assert all(v.dtype == tf.float32 for v in model.variables)


def test_optimisers_are_those_of_functad():
    assert keras.optimizers.SGD is tf.optimizers.SGD is optimizers.SGD
    assert keras.optimizers.Adam is optimizers.Adam


@pytest.mark.parametrize(
    "optimizer",
    [tf.train.GradientDescentOptimizer(0.1), tf.train.MomentumOptimizer(0.05, 0.5), tf.train.AdamOptimizer(0.1)],
)
def test_optimisers_of_the_first_interface(optimizer):
    w = tfe.Variable(4.0, name="w")
    step = tfe.implicit_gradients(lambda: tf.square(w - 1.0))
    for _ in range(300):
        optimizer.apply_gradients(step())
    assert abs(w.numpy() - 1.0) < 1e-2


def test_missing_layer_says_what_to_write():
    with pytest.raises(AttributeError, match=r"tf\.keras\.layers\.Dropout.*rng\.random"):
        layers.Dropout(0.5)
    with pytest.raises(AttributeError, match="without it"):
        keras.Input((3,))
