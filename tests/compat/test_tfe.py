"""`functad.compat.tfe`: the names and numbers of `tensorflow.contrib.eager`, as measured on TensorFlow 1.15."""

import numpy as np
import pytest

from functad.compat import tf, tfe


def f(x, y):
    return x * x * x * y - x * y * y


def numbers(gradients):
    return [None if g is None else g.numpy() for g in gradients]


def test_gradients_function():
    assert numbers(tfe.gradients_function(f)(2.0, 3.0)) == [27.0, -4.0]
    assert numbers(tfe.gradients_function(f, ["y"])(2.0, 3.0)) == [-4.0]
    assert numbers(tfe.gradients_function(f, [1, 0, 1])(2.0, 3.0)) == [-4.0, 27.0, -4.0]
    assert tfe.gradients_function(f).__name__ == "f"


def test_second_order_by_nesting():
    first = tfe.gradients_function(f)
    assert numbers(tfe.gradients_function(lambda x, y: first(x, y)[0])(2.0, 3.0)) == [36.0, 6.0]


def test_python_floats_become_float32():
    (g,) = tfe.gradients_function(lambda x: x * x)(3.0)
    assert g.dtype == tf.float32
    (g,) = tfe.gradients_function(lambda x: tf.reduce_sum(x * x))([1.0, 2.0])
    assert (g.dtype, g.numpy().tolist()) == (tf.float32, [2.0, 4.0])
    (g,) = tfe.gradients_function(lambda x: tf.reduce_sum(x * x))(np.ones(2))
    assert g.dtype == tf.float64
    value, (g,) = tfe.value_and_gradients_function(lambda x: 3.0)(1.0)
    assert (value.dtype, g) == (tf.float32, None)


def test_the_other_arguments_are_untouched():
    seen = []

    def g(x, flag, label):
        seen.append((flag, label))
        return x * 2.0

    assert numbers(tfe.gradients_function(g, ["x"])(1.0, True, "text")) == [2.0]
    assert seen == [(True, "text")]


def test_integers_have_no_gradient():
    assert numbers(tfe.gradients_function(lambda x, n: x * tf.cast(n, tf.float32))(2.0, 3)) == [3.0, None]


def test_errors():
    with pytest.raises(ValueError, match="mix names and positions"):
        tfe.gradients_function(f, ["x", 1])
    with pytest.raises(ValueError, match="no parameter 'z'"):
        tfe.gradients_function(f, ["z"])
    with pytest.raises(IndexError, match="2 positional arguments"):
        tfe.gradients_function(f, [5])(1.0, 2.0)
    with pytest.raises(ValueError, match=r"returned None"):
        tfe.gradients_function(lambda x: None)(1.0)


def test_seed():
    assert numbers(tfe.gradients_function(lambda x: x * x)(3.0, dy=10.0)) == [60.0]


def test_value_and_gradients_keep_the_structure_of_the_value():
    value, gradients = tfe.value_and_gradients_function(lambda x: {"a": x * x, "b": [x]})(3.0)
    assert (value["a"].numpy(), value["b"][0].numpy(), numbers(gradients)) == (9.0, 3.0, [7.0])


def test_make_vjp():
    value, vjp = tfe.make_vjp(lambda x: x * x)(3.0)
    assert (value.numpy(), numbers(vjp()), numbers(vjp(tf.constant(10.0)))) == (9.0, [6.0], [60.0])


def test_implicit_gradients():
    v = tfe.Variable(3.0, name="v")
    w = tfe.Variable(2.0, name="w")
    frozen = tfe.Variable(5.0, trainable=False)

    def loss(x, scale):
        w.read_value()
        return w * 0.0 + v * v * x * scale * frozen

    pairs = tfe.implicit_gradients(loss)(1.0, scale=2.0)
    assert [(g.numpy(), variable.name) for g, variable in pairs] == [(60.0, "v:0"), (0.0, "w:0")]
    assert pairs[0][1] is v
    value, pairs = tfe.implicit_value_and_gradients(lambda: v * v)()
    assert (value.numpy(), pairs[0][0].numpy(), value.shape.as_list()) == (9.0, 6.0, [])
    with pytest.raises(ValueError, match="no trainable Variable"):
        tfe.implicit_gradients(lambda x: x)(1.0)


def test_implicit_gradients_nest():
    v = tfe.Variable(3.0)
    inner = tfe.implicit_gradients(lambda: v * v * v)
    ((g, _),) = tfe.implicit_gradients(lambda: inner()[0][0])()
    assert g.numpy() == 18.0


def test_the_names_that_are_shared():
    assert tfe.Variable is tf.Variable
    assert tfe.custom_gradient is tf.custom_gradient
    assert tfe.executing_eagerly()
    assert tfe.enable_eager_execution() is None
    assert tfe.num_gpus() == 0


def test_decorators_take_parameters():
    @tfe.gradients_function(params=["y"])
    def f(x, y):
        return x * y * y

    assert [g.numpy() for g in f(2.0, 3.0)] == [12]
    assert tfe.value_and_gradients_function(params=[0])(lambda x: x * x)(3.0)[1][0].numpy() == 6
    assert tfe.make_vjp(persistent=True)(lambda x: x * x)(3.0)[1](2.0)[0].numpy() == 12
