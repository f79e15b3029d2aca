"""Layers and activations: values against mpmath, derivatives against differences, huge and infinite arguments, precision."""

from __future__ import annotations

import sys

import mpmath
import numpy as np
import pytest

import functad
from functad import nn
from functad.errors import MissingPackageError
from functad.testing import check_grads

HUGE = (1e300, -1e300, -np.inf, 1e5, -1e5, 750.0, -750.0, 40.0, -40.0, 0.0)


def exact_gelu(x):
    return nn.gelu(x, approximate=False)


def elu_of_two(x):
    return nn.elu(x, alpha=2.0)


ELEMENTWISE = {
    nn.relu: lambda x: max(x, 0),
    nn.elu: lambda x: x if x > 0 else mpmath.expm1(x),
    elu_of_two: lambda x: x if x > 0 else 2 * mpmath.expm1(x),
    nn.softplus: lambda x: mpmath.log1p(mpmath.exp(x)),
    nn.sigmoid: lambda x: 1 / (1 + mpmath.exp(-x)),
    nn.tanh: mpmath.tanh,
    nn.gelu: lambda x: x / (1 + mpmath.exp(-mpmath.sqrt(8 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))),
    exact_gelu: lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
}
ALONG_AN_AXIS = (nn.softmax, nn.log_softmax)
elementwise = pytest.mark.parametrize("f", list(ELEMENTWISE), ids=lambda f: f.__name__)
every = pytest.mark.parametrize("f", [*ELEMENTWISE, *ALONG_AN_AXIS], ids=lambda f: f.__name__)


# Activations


@elementwise
def test_values_agree_with_many_digits(f):
    x = np.concatenate([np.linspace(-30.0, 30.0, 61), np.linspace(-2.0, 2.0, 41)])
    with mpmath.workdps(60):
        expected = [float(ELEMENTWISE[f](mpmath.mpf(float(v)))) for v in x]
    # The exponent of the tails of gelu is large, so that its rounding shows.
    np.testing.assert_allclose(f(x), expected, rtol=1e-13 if "gelu" not in f.__name__ else 1e-10, atol=1e-300)


@every
def test_derivatives_agree_with_differences(f, rng):
    check_grads(f, (rng.normal(size=(3, 4)) * 3,), order=3)


@pytest.mark.parametrize("f", ALONG_AN_AXIS, ids=lambda f: f.__name__)
def test_other_axes(f, rng):
    x = rng.normal(size=(3, 4))
    np.testing.assert_array_equal(f(x, axis=0), f(x.T).T)
    check_grads(lambda x: f(x, axis=0), (x,), order=2)


@elementwise
@pytest.mark.parametrize("v", [*HUGE, np.inf])
def test_all_is_finite_for_huge_arguments_and_infinities(f, v):
    derivative = functad.grad(f)
    second = functad.grad(derivative)
    at_the_limit = {1e300: 1.0, 1e5: 1.0, 750.0: 1.0, np.inf: 1.0} if f not in (nn.sigmoid, nn.tanh) else {}
    with np.errstate(all="raise", under="ignore"):
        value = f(np.array([v]))
        first = derivative(v)
    assert not np.isnan(value).any()
    assert np.isfinite(first)
    assert np.isfinite(second(v))
    assert np.isfinite(functad.jvp(derivative, (v,), (1.0,))[1])
    if abs(v) > 700:
        assert first == at_the_limit.get(v, 0.0)
        assert second(v) == 0.0


@elementwise
def test_nan_stays_nan(f):
    with np.errstate(invalid="ignore"):  # np.logaddexp warns of NaN
        assert np.isnan(f(np.array([np.nan, 1.0]))).tolist() == [True, False]


def test_derivatives_at_zero():
    at_zero = {f: float(functad.grad(f)(0.0)) for f in ELEMENTWISE}
    expected = {nn.relu: 0, nn.elu: 1, elu_of_two: 2, nn.softplus: 0.5, nn.sigmoid: 0.25, nn.tanh: 1, nn.gelu: 0.5}
    assert at_zero == expected | {exact_gelu: 0.5}


@pytest.mark.parametrize("f", ALONG_AN_AXIS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("v", HUGE)
def test_masks_and_huge_numbers_along_an_axis(f, v):
    """The probabilities of a masked entry are 0, its logarithm is -inf; nobody else is disturbed."""
    x = np.array([[v, 1.0, 2.0], [0.5, -0.5, 0.0]])

    def total(x):
        out = f(x)
        return np.sum(out[:, 1:] ** 2 if f is nn.log_softmax else out**2)

    with np.errstate(all="raise", under="ignore", over="ignore" if v == 1e300 else "raise"):
        assert not np.isnan(f(x)).any()
        if abs(v) < 1e100 or v < 0:
            first = functad.grad(total)(x)
            assert np.isfinite(first).all()
            assert np.isfinite(functad.jvp(functad.grad(total), (x,), (np.ones_like(x),))[1]).all()
            if v < -700 and f is nn.softmax:
                assert first[0, 0] == 0.0
                alone = functad.grad(lambda row: np.sum(nn.softmax(row) ** 2))(x[0, 1:])
                np.testing.assert_allclose(first[0, 1:], alone, rtol=1e-13)


@every
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_precision_is_kept_in_value_and_derivatives(f, dtype):
    x = np.array([[-1.0, 0.5, 2.0]], dtype)
    gradient = functad.grad(lambda x: np.sum(f(x) ** 2))
    assert f(x).dtype == gradient(x).dtype == dtype
    assert functad.grad(lambda x: np.sum(gradient(x) ** 2))(x).dtype == dtype
    np.testing.assert_allclose(f(x), f(x.astype(np.float64)), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


@every
def test_arrays_lists_integers_tensors_and_variables(f):
    x = [[1.0, -2.0]]
    expected = f(np.array(x))
    assert type(expected) is np.ndarray
    assert np.array_equal(f(x), expected)
    assert np.array_equal(f(np.array([[1, -2]])), expected)
    for given in (functad.constant(x), functad.Variable(x)):
        assert isinstance(f(given), functad.Tensor)
        assert np.array_equal(f(given).numpy(), expected)
    v = functad.Variable(x)
    with functad.GradientTape() as tape:
        y = np.sum(f(v) ** 2)
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), functad.grad(lambda x: np.sum(f(x) ** 2))(np.array(x)))


@elementwise
def test_numbers_give_numbers(f):
    assert isinstance(f(2.0), np.float64)
    assert isinstance(f(2), np.float64)
    assert isinstance(f(np.float32(2.0)), np.float32)


def test_exact_gelu_needs_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(MissingPackageError, match=r"needs SciPy: pip install 'functad\[scipy\]'"):
        exact_gelu(1.0)
    assert abs(nn.gelu(1.0) - 0.841345) < 5e-4


# The loss


def test_cross_entropy_agrees_with_its_definition(rng):
    logits, labels = rng.normal(size=(2, 3, 5)), rng.integers(5, size=(2, 3))
    expected = [
        -np.log(np.exp(row)[i] / np.exp(row).sum()) for row, i in zip(logits.reshape(6, 5), labels.ravel(), strict=True)
    ]
    np.testing.assert_allclose(nn.softmax_cross_entropy(logits, labels).ravel(), expected, rtol=1e-13)
    check_grads(lambda logits: nn.softmax_cross_entropy(logits, labels), (logits,), order=2)
    assert nn.softmax_cross_entropy(logits.astype(np.float32), labels).dtype == np.float32
    assert nn.softmax_cross_entropy(functad.Variable(logits), functad.constant(labels)).shape == (2, 3)


def test_cross_entropy_with_huge_and_masked_logits():
    logits = np.array([[1e5, 0.0, -np.inf], [0.0, 1e5, -np.inf]])
    value, gradient = functad.value_and_grad(lambda x: np.sum(nn.softmax_cross_entropy(x, [0, 0])))(logits)
    assert value == 1e5
    assert gradient.tolist() == [[0.0, 0.0, 0.0], [-1.0, 1.0, 0.0]]


def test_cross_entropy_with_labels_of_single_examples(rng):
    logits, labels = rng.normal(size=(4, 2, 5)), rng.integers(5, size=(4, 2))
    for f in (nn.softmax_cross_entropy, lambda a, b: np.mean(nn.softmax_cross_entropy(a, b))):
        each = [f(a, b) for a, b in zip(logits, labels, strict=True)]
        np.testing.assert_allclose(functad.vmap(f)(logits, labels), each, rtol=1e-13)
        np.testing.assert_allclose(
            functad.vmap(f, in_axes=(None, 0))(logits[0], labels), [f(logits[0], b) for b in labels], rtol=1e-13
        )
    slope = functad.grad(lambda a, b: np.sum(nn.softmax_cross_entropy(a, b)))
    slopes = [slope(a, b) for a, b in zip(logits, labels, strict=True)]
    np.testing.assert_allclose(functad.vmap(slope)(logits, labels), slopes, rtol=1e-13, atol=1e-15)
    expressions = functad.make_expressions(nn.softmax_cross_entropy)(logits, labels)
    np.testing.assert_allclose(expressions(logits, labels), nn.softmax_cross_entropy(logits, labels), rtol=1e-13)
    assert functad.vmap(nn.softmax_cross_entropy)(logits[0], labels[:2, 0]).shape == (2,)
    with pytest.raises(ValueError, match="labels from 0 to 5 and 5 classes"):
        functad.vmap(nn.softmax_cross_entropy)(logits[:, 0], np.array([0, 1, 2, 5]))


@pytest.mark.parametrize(
    ("logits", "labels", "error", "text"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), TypeError, r"np.argmax\(labels, axis=-1\)"),
        (np.ones((2, 3)), [0, 1, 2], ValueError, r"shape \(2, 3\) with labels of shape \(3,\)"),
        (1.0, 0, ValueError, "one label for each row"),
        (np.ones((2, 3)), [0, 3], ValueError, "labels from 0 to 3 and 3 classes"),
        (np.ones((2, 3)), [-1, 0], ValueError, "labels from -1 to 0"),
    ],
)
def test_cross_entropy_refuses_what_does_not_fit(logits, labels, error, text):
    with pytest.raises(error, match=text):
        nn.softmax_cross_entropy(logits, labels)


# Layers


def test_dense_computes_what_it_says():
    layer = nn.Dense(2, np.tanh, inputs=3, rng=0)
    layer.bias.assign([0.5, -0.5])
    x = np.linspace(-1, 1, 24).reshape(2, 4, 3)
    np.testing.assert_allclose(layer(x).numpy(), np.tanh(x @ layer.kernel.numpy() + [0.5, -0.5]), rtol=1e-14)
    assert layer(x[0, 0]).shape == (2,)
    assert nn.Dense(2, use_bias=False, inputs=3).bias is None


def test_gradients_of_a_dense_layer_have_the_shapes_of_its_variables():
    layer = nn.Dense(2)
    with functad.GradientTape() as tape:
        y = np.sum(layer(np.ones((3, 4))))
    assert [g.shape for g in tape.gradient(y, [layer.kernel, layer.bias])] == [(4, 2), (2,)]
    assert [v.name for v in layer.variables] == ["dense/bias", "dense/kernel"]


@pytest.mark.parametrize(
    ("first", "dtype", "expected"),
    [
        (np.ones((1, 2), np.float32), None, np.float32),
        (np.ones((1, 2)), None, np.float64),
        (np.ones((1, 2), int), None, np.float64),
        ([[1, 2]], None, np.float64),
        (np.ones((1, 2)), np.float32, np.float32),
        (np.ones((1, 2), np.complex64), None, np.complex64),
    ],
)
def test_precision_is_that_of_the_first_input(first, dtype, expected):
    layer = nn.Dense(2, dtype=dtype)
    layer(first)
    assert {v.dtype for v in layer.variables} == {np.dtype(expected)}


def test_equal_seeds_give_equal_kernels_and_one_generator_different_ones():
    kernels = [nn.Dense(3, inputs=4, rng=7).kernel.numpy() for _ in range(2)]
    assert np.array_equal(*kernels)
    rng = np.random.default_rng(7)
    shared = [nn.Dense(3, inputs=4, rng=rng).kernel.numpy() for _ in range(2)]
    assert np.array_equal(shared[0], kernels[0])
    assert not np.array_equal(*shared)


def test_kernel_is_glorot_uniform_and_bias_zero():
    layer = nn.Dense(300, inputs=200, rng=0)
    kernel = layer.kernel.numpy()
    limit = np.sqrt(6 / 500)
    assert np.abs(kernel).max() <= limit
    assert abs(kernel.std() - limit / np.sqrt(3)) < 0.01 * limit
    assert not layer.bias.numpy().any()
    given = nn.Dense(2, inputs=3, kernel=lambda rng, shape: np.full(shape, 0.5))
    assert (given.kernel.numpy() == 0.5).all()


def test_activation_by_name():
    assert nn.Dense(1, "relu").activation is nn.relu
    assert nn.Dense(1, "log_softmax").activation is nn.log_softmax
    with pytest.raises(ValueError, match=r"'Relu' is no activation.* relu, elu"):
        nn.Dense(1, "Relu")


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="at least one unit"):
        nn.Dense(0)
    with pytest.raises(ValueError, match="at least one input"):
        nn.Dense(2, inputs=0)
    for wrong in ({"units": 2.5}, {"units": "2"}, {"units": 2, "inputs": 1.0}):
        with pytest.raises(TypeError, match="must be an integer"):
            nn.Dense(**wrong)
    with pytest.raises(TypeError, match="activation 3"):
        nn.Dense(2, 3)
    assert nn.Dense(np.int64(2), inputs=np.int32(3)).kernel.shape == (3, 2)
    layer = nn.Dense(2, name="last")
    with pytest.raises(ValueError, match=r"last got inputs of shape \(\).*needs \(\.\.\., inputs\)"):
        layer(1.0)
    layer(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"last got inputs of shape \(1, 4\).*needs \(\.\.\., 3\)"):
        layer(np.ones((1, 4)))
    with pytest.raises(TypeError, match=r"layers\[1\] of a Sequential is 3"):
        nn.Sequential([layer, 3])


def test_sequential_of_layers_and_functions():
    model = nn.Sequential([nn.Dense(4, inputs=2, rng=0), np.tanh, nn.Dense(1, inputs=4, rng=1), lambda y: y[:, 0]], name="net")
    x = np.ones((3, 2))
    first, _, last, _ = model.layers
    np.testing.assert_allclose(model(x).numpy(), last(np.tanh(first(x))).numpy()[:, 0])
    assert model.name == "net"
    assert len(model.variables) == 4


def test_layer_built_under_a_transform_has_plain_variables():
    layer = nn.Dense(1, rng=0)
    gradient = functad.grad(lambda x: np.sum(layer(x)))(np.ones((2, 3)))
    np.testing.assert_array_equal(gradient, np.repeat(layer.kernel.numpy().T, 2, axis=0))


def test_input_may_be_a_variable():
    x = functad.Variable(np.ones((1, 3), np.float32))
    layer = nn.Dense(2, rng=0)
    with functad.GradientTape() as tape:
        y = np.sum(layer(x))
    assert tape.gradient(y, x).dtype == layer.kernel.dtype == np.float32


# All of it together


def test_a_model_learns_the_digits():
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is in the extra `examples`")
    digits = datasets.load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    training, held_out = order[:1400], order[1400:]
    model = nn.Sequential([nn.Dense(32, "relu", rng=rng), nn.Dense(10, rng=rng)])
    for _ in range(150):
        batch = rng.choice(training, 128)
        with functad.GradientTape() as tape:
            loss = np.mean(nn.softmax_cross_entropy(model(images[batch]), labels[batch]))
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.5 * gradient)
    found = np.argmax(model(images[held_out]), axis=-1)
    assert np.mean(found == labels[held_out]) > 0.92
    assert {v.dtype for v in model.variables} == {np.dtype(np.float32)}
