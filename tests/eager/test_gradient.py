"""`tape.gradient`: structures, seeds, dtypes, `None` and zeros, conventions."""

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import GradientTape
from functad.testing import central_difference
from tests.eager.taped import gradient, recorded, taped


class Pair(NamedTuple):
    left: Any
    right: Any


# Structures


def test_result_has_the_structure_of_the_sources():
    tape, y, (a, b, c) = taped(lambda a, b, c: a * b * c, 1.0, 2.0, 3.0, persistent=True)
    found = tape.gradient(y, {"z": [a, (b,)], "p": Pair(c, a), "o": OrderedDict(k=b)})
    assert list(found) == ["z", "p", "o"]
    assert type(found["z"]) is list
    assert type(found["z"][1]) is tuple
    assert type(found["p"]) is Pair
    assert type(found["o"]) is OrderedDict
    assert float(found["z"][0]) == float(found["p"].right) == 6
    assert float(found["z"][1][0]) == float(found["o"]["k"]) == 3
    assert float(found["p"].left) == 2
    assert tape.gradient(y, []) == []
    assert tape.gradient(y, ()) == ()
    assert tape.gradient(y, {}) == {}
    assert [float(g) for g in tape.gradient(y, [a, a])] == [6, 6]


def test_targets_of_any_structure_are_summed():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x * x, x**3
    assert float(tape.gradient({"a": y, "b": [z, {"c": y}]}, x)) == 6 + 27 + 6
    assert float(tape.gradient([y, y], x)) == 12
    assert tape.gradient([], x) is None
    assert tape.gradient({}, [x]) == [None]
    assert float(tape.gradient(Pair(y, z), x)) == 33


def test_constants_and_integers_among_targets_add_nothing():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        n = x.astype(int)
    assert isinstance(n, np.int64)
    assert float(tape.gradient([y, functad.constant(5.0), n, functad.Variable(2), functad.constant(True)], x)) == 6
    assert tape.gradient([functad.constant(5.0), n], x) is None


def test_vectors_are_summed():
    g = gradient(lambda q: q * q, [1.0, 2.0])
    assert np.array_equal(g.numpy(), [2, 4])


def test_results_are_tensors_that_are_nobody_elses():
    tape, y, (q,) = taped(lambda q: q + 1.0, [1.0, 2.0], persistent=True)
    g = tape.gradient(y, q)
    assert type(g) is functad.Tensor
    a = g.numpy()
    a[:] = 7
    assert np.array_equal(g.numpy(), [1, 1])
    assert np.array_equal(tape.gradient(y, q).numpy(), [1, 1])
    h, k = tape.gradient([y, y], [q, q])
    h += 1.0
    assert np.array_equal(k.numpy(), [2, 2])


# Targets that are sources


def test_target_that_is_the_source_gives_the_seed():
    x, q = functad.constant(3.0), functad.constant([1.0, 2.0])
    v, n = functad.Variable(4.0), functad.constant(2)
    tape, y = recorded(lambda: x * x, x, persistent=True)
    assert float(tape.gradient(x, x)) == 1
    assert float(tape.gradient([x, y], x)) == 7
    assert np.array_equal(tape.gradient(q, q).numpy(), [1, 1])
    assert np.array_equal(tape.gradient(q, q, np.array([3.0, 4.0])).numpy(), [3, 4])
    one = tape.gradient(n, n)
    assert one.numpy() == 1
    assert one.dtype == n.dtype
    assert float(tape.gradient(v, v)) == 1
    assert float(tape.gradient(y, y)) == 1


def test_variable_that_is_followed_as_target_and_source():
    v = functad.Variable(3.0)
    with GradientTape(persistent=True) as tape:
        y = v * v
    assert float(tape.gradient(v, v)) == 1
    assert float(tape.gradient([v, y], v)) == 7


# Intermediate sources


def test_intermediate_results_can_be_sources():
    x = functad.constant(2.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
        w = z * x
    assert [float(g) for g in tape.gradient(w, [x, y, z])] == [5 * 2.0**4, 2 * 4 * 2, 2]
    assert float(tape.gradient(z, y)) == 8
    assert tape.gradient(y, z) is None
    assert tape.gradient([y, x], [w]) == [None]


def test_watching_an_intermediate_does_not_connect_its_ancestors():
    x = functad.constant(2.0)
    with GradientTape(persistent=True) as tape:
        y = x * x
        tape.watch(y)
        z = y * y
    assert float(tape.gradient(z, y)) == 8
    assert tape.gradient(z, x) is None


def test_several_results_of_one_operation():
    q = functad.constant([3.0, 1.0, 2.0, 5.0])
    with GradientTape(persistent=True) as tape:
        tape.watch(q)
        a, b = np.split(q * q, 2)
        y = np.sum(a * b)
    assert np.array_equal(tape.gradient(y, a).numpy(), [4, 25])
    assert np.array_equal(tape.gradient(y, b).numpy(), [9, 1])
    assert np.array_equal(tape.gradient(y, q).numpy(), [2 * 3 * 4, 2 * 25, 2 * 2 * 9, 2 * 5])


# Seeds


def quadratic():
    """Return a persistent tape, a source and three targets."""
    q = functad.constant([1.0, 2.0])
    with GradientTape(persistent=True) as tape:
        tape.watch(q)
        y, s = q * q, np.sum(q**3)
        n = q.astype(int)
    return tape, q, y, s, n


@pytest.mark.parametrize(
    "seed",
    [
        functad.constant([3.0, 5.0]),
        np.array([3.0, 5.0]),
        np.array([3, 5]),
        np.array([3, 5], np.float32),
        functad.Variable([3.0, 5.0]),
    ],
    ids=["tensor", "array", "integers", "float32", "variable"],
)
def test_seed_of_a_vector(seed):
    tape, q, y, _, _ = quadratic()
    assert np.array_equal(tape.gradient(y, q, output_gradients=seed).numpy(), [6, 20])
    assert np.array_equal(tape.gradient([y], q, output_gradients=[seed]).numpy(), [6, 20])


def test_seeds_are_flattened_like_the_targets():
    tape, q, y, s, n = quadratic()
    found = tape.gradient({"b": s, "a": y}, q, {"a": np.array([1.0, 0.0]), "b": 10.0})
    assert np.array_equal(found.numpy(), [2 + 30, 120])
    found = tape.gradient([n, s], q, [np.array([1.0, 1.0]), 2.0])
    assert np.array_equal(found.numpy(), [6, 24])


def test_no_seed_stands_for_ones():
    tape, q, y, s, _ = quadratic()
    assert np.array_equal(tape.gradient(y, q, []).numpy(), [2, 4])
    assert np.array_equal(tape.gradient([y, s], q, [None, 10.0]).numpy(), [32, 124])
    assert np.array_equal(tape.gradient([y, s], q, [np.array([1.0, 0.0]), None]).numpy(), [5, 12])


@pytest.mark.parametrize("seed", [2.0, np.ones(3), np.ones((2, 1)), functad.constant(2.0)])
def test_seed_of_another_shape_is_refused(seed):
    tape, q, y, _, _ = quadratic()
    with pytest.raises(ValueError, match=r"the output gradient for target has shape .*target has shape \(2,\)"):
        tape.gradient(y, q, seed)


@pytest.mark.parametrize(
    "seed", ["ab", object(), np.array(["a", "b"]), np.array([1, 2], "M8[D]"), np.array([1.0, 2.0], object)]
)
def test_seed_without_numbers_is_refused(seed):
    tape, q, y, _, _ = quadratic()
    with pytest.raises(TypeError, match=r"the output gradient for target is a .* at .*: give numbers"):
        tape.gradient(y, q, seed)
    assert np.array_equal(tape.gradient(y, q).numpy(), [2, 4])


def test_seed_is_cast_to_the_dtype_of_the_target():
    x = functad.constant(3.0, dtype=np.float32)
    tape, y = recorded(lambda: x * x, x)
    g = tape.gradient(y, x, np.float64(2.0))
    assert g.dtype == np.float32
    assert float(g) == 12


def test_seeds_are_differentiable():
    x, s = functad.constant(3.0), functad.constant(5.0)
    with GradientTape() as outer:
        outer.watch([x, s])
        inner, y = recorded(lambda: x**3, x)
        g = inner.gradient(y, x, output_gradients=s * s)
    assert [float(h) for h in outer.gradient(g, [x, s])] == [25 * 18, 10 * 27]


# None and zeros

CONNECTED = {
    "times-zero": lambda x: x * 0.0,
    "difference": lambda x: x - x,
    "where": lambda x: np.where(np.array([True, True]), np.ones(2), x),
    "element": lambda x: x[0] * 0 + x[:0].sum(),
    "sign": lambda x: np.sign(x),
    "power-zero": lambda x: (x + 1) ** 0,
    "clip": lambda x: np.clip(x, 10.0, 20.0),
}
UNCONNECTED = {
    "integer-cast": lambda x: x.astype(int),
    "comparison": lambda x: x > 1.0,
    "floor": np.floor,
    "round": np.round,
    "rint": np.rint,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "floor-divide": lambda x: x // 2.0,
    "argmax": np.argmax,
    "ones-like": lambda x: np.ones_like(x) * functad.constant(2.0),
    "shape": lambda x: functad.constant(x.shape[0] * 1.0),
    "stop-gradient": lambda x: functad.stop_gradient(x) * 2.0,
    "constant": lambda x: functad.constant(4.0),
    "numpy": lambda x: functad.constant(x.numpy()) * 2.0,
}


@pytest.mark.parametrize("case", CONNECTED)
def test_path_with_zero_derivative_gives_zeros(case):
    g = gradient(CONNECTED[case], [1.5, 2.5])
    assert np.array_equal(g.numpy(), [0, 0])


@pytest.mark.parametrize("case", UNCONNECTED)
def test_no_path_gives_none_or_zeros_if_these_are_asked_for(case):
    x = functad.constant([1.5, 2.5], dtype=np.float32)
    tape, y = recorded(lambda: UNCONNECTED[case](x), x, persistent=True)
    assert isinstance(y, functad.Tensor) == (y.dtype.kind == "f")  # what indexes and counts is plain
    assert tape.gradient(y, x) is None
    for option in ("zero", functad.UnconnectedGradients.ZERO):
        zeros = tape.gradient(y, x, unconnected_gradients=option)
        assert type(zeros) is functad.Tensor
        assert zeros.dtype == np.float32
        assert np.array_equal(zeros.numpy(), [0, 0])
    for option in ("none", functad.UnconnectedGradients.NONE):
        assert tape.gradient(y, x, unconnected_gradients=option) is None


@pytest.mark.parametrize("f", [lambda x: x.astype(int) * 2.0, lambda x: (x > 1.0) * 2.0, lambda x: np.argsort(x) / 2])
def test_floats_made_of_counts_are_plain_and_refused_as_targets(f):
    tape, y, (x,) = taped(f, [1.5, 2.5])
    with pytest.raises(TypeError, match=r"target is a ndarray.* by a comparison or a cast to integers"):
        tape.gradient(y, x)


def test_remainder_has_a_rule():
    g, h = gradient(lambda a, b: a % b, 7.5, 2.0)
    assert float(g) == 1
    assert float(h) == pytest.approx(central_difference(lambda b: [7.5 % b], [2.0], [1.0])[0])
    assert [float(g) for g in gradient(np.mod, 7.5, 2.0)] == [float(g), float(h)]


def test_unused_elements_have_zero_gradient():
    assert np.array_equal(gradient(lambda q: q[1], [1.0, 2.0, 3.0]).numpy(), [0, 1, 0])


def test_zeros_for_variables_and_integers():
    v, n = functad.Variable(np.ones((2, 3), np.float32)), functad.constant([1, 2])
    tape, y, _ = taped(lambda x: x * x, 3.0)
    g, h = tape.gradient(y, [v, n], unconnected_gradients="zero")
    assert (g.shape, g.dtype) == ((2, 3), np.float32)
    assert (h.shape, h.dtype) == ((2,), n.dtype)
    assert not g.numpy().any()
    assert not h.numpy().any()


# Dtypes


@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("other", [np.float16, np.float32, np.float64, np.int64])
def test_gradient_has_the_dtype_of_its_source(source, other):
    factor = np.array([2, 3], other)
    g = gradient(lambda x: np.sum(x * factor, dtype=np.float64), np.array([1, 1], source))
    assert g.dtype == source
    assert np.array_equal(g.numpy(), [2, 3])
    x, y = functad.constant(np.array([1.0], source)), functad.constant(np.array([2.0], np.float64))
    tape, z = recorded(lambda: x * y, [x, y])
    assert [found.dtype for found in tape.gradient(z, [x, y])] == [source, np.float64]


def test_numbers_are_float64_by_default_and_float32_is_kept():
    assert functad.constant(1.0).dtype == functad.Variable(1.0).dtype == np.float64
    x = functad.constant([1.0], dtype=np.float32)
    assert (x * 2.0 + 1).dtype == np.float32
    assert np.sin(x).dtype == np.float32


def test_complex_gradient_is_the_conjugate_of_the_derivative():
    z = 1 + 2j
    assert gradient(lambda z: z * z, z).numpy() == 2 - 4j
    assert np.allclose(gradient(np.abs, 3 + 4j).numpy(), 0.6 + 0.8j)
    assert np.allclose(gradient(lambda z: np.exp(z) * z, z).numpy(), np.conj(np.exp(z) * (z + 1)))
    assert functad.grad(lambda z: np.real(z * z))(z) == np.conj(gradient(lambda z: np.real(z * z), z).numpy())


def test_complex_gradient_points_uphill():
    def f(re, im):
        return abs(np.sin(re + 1j * im)) ** 2

    step = 1e-6
    by_re = (f(0.3 + step, 0.4) - f(0.3 - step, 0.4)) / (2 * step)
    by_im = (f(0.3, 0.4 + step) - f(0.3, 0.4 - step)) / (2 * step)
    g = gradient(lambda z: np.abs(np.sin(z)) ** 2, 0.3 + 0.4j).numpy()
    assert np.allclose(g, by_re + 1j * by_im)


def test_complex_seed_and_real_source():
    tape, z, (x,) = taped(lambda x: x * (1 + 3j), 2.0, persistent=True)
    assert tape.gradient(z, x).dtype == np.float64
    assert float(tape.gradient(z, x)) == 1
    assert float(tape.gradient(z, x, 1j)) == pytest.approx(3)
