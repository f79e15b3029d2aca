"""`jacobian` and `batch_jacobian` of tapes."""

import numpy as np
import pytest

import functad
from functad import GradientTape
from tests.differences import numerical_jacobian
from tests.eager.taped import recorded, taped


def test_shape_is_that_of_the_target_and_of_the_source(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=4)

    def f(a, b):
        return np.outer(np.sin(a @ np.ones(3)), b * b)

    tape, y, (x, z) = taped(f, a, b)
    found = tape.jacobian(y, {"a": x, "b": [z]})
    assert found["a"].shape == (2, 4, 2, 3)
    assert np.allclose(found["a"].numpy(), numerical_jacobian(lambda a: f(a, b), a), atol=1e-8)
    assert np.allclose(found["b"][0].numpy(), numerical_jacobian(lambda b: f(a, b), b), atol=1e-8)


def test_scalars():
    tape, y, (x,) = taped(lambda x: x**3, 3.0)
    j = tape.jacobian(y, x)
    assert j.shape == ()
    assert float(j) == 27


def test_jacobian_spends_the_tape():
    tape, y, (x,) = taped(lambda x: x * x, [1.0, 2.0])
    assert np.array_equal(tape.jacobian(y, x).numpy(), [[2, 0], [0, 4]])
    with pytest.raises(RuntimeError):
        tape.jacobian(y, x)


def test_unconnected_sources():
    tape, y, (x, z) = taped(lambda x, z: x * x, [1.0, 2.0], [[1.0]], persistent=True)
    n = functad.constant([1, 2, 3])
    assert tape.jacobian(y, z) is None
    found = tape.jacobian(y, [z, n, x], unconnected_gradients="zero")
    assert [j.shape for j in found] == [(2, 1, 1), (2, 3), (2, 2)]
    assert found[1].dtype == n.dtype
    assert not found[0].numpy().any()


def test_empty_target():
    tape, y, (x,) = taped(lambda x: x[:0] * 2, [1.0, 2.0])
    assert tape.jacobian(y, x).shape == (0, 2)


def test_partly_connected_rows():
    tape, y, (x, z) = taped(lambda x, z: np.stack([x[0], z[1] ** 2]), [1.0, 2.0], [3.0, 5.0])
    by_x, by_z = tape.jacobian(y, [x, z])
    assert np.array_equal(by_x.numpy(), [[1, 0], [0, 0]])
    assert np.array_equal(by_z.numpy(), [[0, 0], [0, 10]])


def test_gathers_of_variables_are_dense():
    v = functad.Variable([1.0, 2.0, 3.0])
    with GradientTape() as tape:
        y = v[np.array([2, 0, 2])] ** 2
    assert np.array_equal(tape.jacobian(y, v).numpy(), [[0, 0, 6], [2, 0, 0], [0, 0, 6]])


def test_jacobian_inside_another_tape_is_differentiable():
    q = functad.constant([1.0, 2.0])
    with GradientTape() as outer:
        outer.watch(q)
        inner, y = recorded(lambda: np.sum(q) * q**2, q)
        j = inner.jacobian(y, q)
    expected = numerical_jacobian(lambda q: numerical_jacobian(lambda r: np.sum(r) * r**2, q), [1.0, 2.0])
    assert np.allclose(outer.jacobian(j, q).numpy(), expected, atol=1e-4)


def test_hessian_from_one_persistent_tape(monkeypatch):
    monkeypatch.setattr(GradientTape, "_warned", True)
    q = functad.constant([1.0, 2.0])
    with GradientTape(persistent=True) as tape:
        tape.watch(q)
        g = tape.gradient(np.prod(q) * q[0], q)
    assert np.allclose(tape.jacobian(g, q).numpy(), [[4, 2], [2, 0]])


def test_dtype_and_convention():
    tape, y, (x,) = taped(lambda x: x * np.float64(3), np.array([1.0], np.float32))
    assert tape.jacobian(y, x).dtype == np.float32
    tape, y, (z,) = taped(lambda z: z * z, [1 + 2j])
    assert np.array_equal(tape.jacobian(y, z).numpy(), [[2 - 4j]])
    assert np.array_equal(np.conj(functad.jacobian(lambda z: z * z, holomorphic=True)(np.array([1 + 2j]))), [[2 - 4j]])


def test_options_without_meaning_are_checked():
    tape, y, (x,) = taped(lambda x: x * x, [1.0, 2.0], persistent=True)
    plain = tape.jacobian(y, x).numpy()
    assert np.array_equal(tape.jacobian(y, x, "none", 1, False).numpy(), plain)
    assert np.array_equal(tape.jacobian(y, x, parallel_iterations=3, experimental_use_pfor=True).numpy(), plain)
    with pytest.raises(ValueError, match="parallel_iterations"):
        tape.jacobian(y, x, parallel_iterations=0)
    with pytest.raises(ValueError, match="parallel_iterations"):
        tape.jacobian(y, x, parallel_iterations="all")
    with pytest.raises(ValueError, match="experimental_use_pfor"):
        tape.jacobian(y, x, experimental_use_pfor="always")


# By rows


def test_rows_have_their_own_jacobians(rng):
    values = rng.normal(size=(4, 3))

    def f(x):
        return np.stack([np.sin(x).sum(1), (x**2).prod(1)], axis=1)

    tape, y, (x,) = taped(f, values)
    found = tape.batch_jacobian(y, x)
    assert found.shape == (4, 2, 3)
    for i in range(4):
        assert np.allclose(found.numpy()[i], numerical_jacobian(lambda row: f(row[None])[0], values[i]), atol=1e-8)


def test_rows_of_a_variable_and_of_several_axes(rng):
    v = functad.Variable(rng.normal(size=(3, 2, 2)))
    with GradientTape() as tape:
        y = (v @ v)[:, 0]
    found = tape.batch_jacobian(y, v)
    assert found.shape == (3, 2, 2, 2)
    assert np.allclose(found.numpy()[1], numerical_jacobian(lambda a: (a @ a)[0], v.numpy()[1]), atol=1e-8)


@pytest.mark.parametrize(
    ("target", "source"),
    [(lambda x: x[:, 0], [[1.0, 2.0]]), (lambda x: np.ones((1, 2)) * x, [2.0, 3.0]), (lambda x: x[:1], [[1.0], [2.0]])],
)
def test_shapes_that_have_no_rows_in_common(target, source):
    tape, y, (x,) = taped(target, source)
    with pytest.raises(ValueError, match="both need at least two axes, the first ones equally long"):
        tape.batch_jacobian(y, x)
    assert tape.gradient(y, x) is not None


def test_rows_that_depend_on_others():
    tape, y, (x,) = taped(lambda x: np.cumsum(x, 0), [[1.0], [2.0]], persistent=True)
    assert np.array_equal(tape.batch_jacobian(y, x).numpy(), [[[2]], [[1]]])  # summed over the batch, as in TensorFlow
    with pytest.raises(ValueError, match="row 1 of the target depends on other rows"):
        tape.batch_jacobian(y, x, check=True)
    tape, y, (x,) = taped(lambda x: x**2, [[1.0], [2.0]])
    assert np.array_equal(tape.batch_jacobian(y, x, check=True).numpy(), [[[2]], [[4]]])
    with pytest.raises(RuntimeError):
        tape.gradient(y, x)


def test_unconnected_and_empty_batches():
    tape, y, (x, z) = taped(lambda x, z: x**2, [[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]], persistent=True)
    assert tape.batch_jacobian(y, z).shape == (2, 1, 2)
    assert not tape.batch_jacobian(y, z).numpy().any()
    assert tape.batch_jacobian(y, z, "none") is None
    tape, y, (x,) = taped(lambda x: x * 2, np.ones((0, 3)))
    assert tape.batch_jacobian(y, x).shape == (0, 3, 3)
    with pytest.raises(ValueError, match="unconnected"):
        taped(lambda x: x, [[1.0]])[0].batch_jacobian(y, x, "maybe")


def test_rows_at_higher_order():
    x = functad.constant([[1.0, 2.0], [3.0, 4.0]])
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: x**3, x)
        j = inner.batch_jacobian(y, x)
    h = outer.batch_jacobian(j, x).numpy()
    assert h.shape == (2, 2, 2, 2)
    assert [h[b, i, i, i] for b in range(2) for i in range(2)] == [6, 12, 18, 24]
    assert h.sum() == 60
