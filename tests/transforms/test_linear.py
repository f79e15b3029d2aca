"""`linearize` and `linear_transpose` against `jvp` and `vjp`, and that what is not linear is refused."""

import numpy as np
import pytest

import functad

RNG = np.random.default_rng(5)
A = RNG.normal(size=(3, 4))


def test_linearize_runs_the_function_once():
    calls = []

    def f(p, y):
        calls.append(0)
        return {"out": np.tanh(A @ p["w"]) * y, "sum": np.sum(p["w"]) * p["c"]}

    p, y = {"w": RNG.normal(size=4), "c": 2.0}, RNG.normal(size=3)
    value, linear = functad.linearize(f, p, y)
    for _ in range(3):
        tp, ty = {"w": RNG.normal(size=4), "c": RNG.normal()}, RNG.normal(size=3)
        found = linear(tp, ty)
        g = {"out": RNG.normal(size=3), "sum": 1.5}
        pulled = linear.transpose(g)
        assert len(calls) == 1
        out, expected = functad.jvp(f, (p, y), (tp, ty))
        np.testing.assert_allclose(found["out"], expected["out"])
        np.testing.assert_allclose(found["sum"], expected["sum"])
        np.testing.assert_allclose(value["out"], out["out"])
        expected = functad.vjp(f, p, y)[1](g)
        np.testing.assert_allclose(pulled[0]["w"], expected[0]["w"])
        np.testing.assert_allclose(pulled[1], expected[1])
        calls.clear()
        calls.append(0)


def test_a_linear_function_shows_what_it_takes_and_gives():
    def both(p, y):
        return {"out": p["w"] * y, "n": 3}

    linear = functad.linearize(both, {"w": np.ones(4), "c": 2.0}, 1.5)[1]
    assert repr(linear).endswith("both: {'c': float[], 'w': float64[4]}, float[] -> {'n': int[], 'out': float64[4]}>")


def test_linearize_aux_constants_and_overwritten_arguments():
    x = np.array([1.0, 2.0])
    value, linear, aux = functad.linearize(lambda x: ((x**2, 3.0), "aux"), x, has_aux=True)
    x[:] = 100.0
    assert aux == "aux"
    np.testing.assert_array_equal(linear(np.ones(2))[0], [2.0, 4.0])
    assert linear(np.ones(2))[1] == 0.0
    np.testing.assert_array_equal(value[0], [1.0, 4.0])
    with pytest.raises(functad.errors.StructureError, match="linear function of 1 arguments was called with 2"):
        linear(x, x)
    with pytest.raises(functad.errors.StructureError, match=r"tangents\[0\] is float64\[3\]"):
        linear(np.ones(3))


def test_linearize_in_other_transforms():
    x = RNG.normal(size=4)
    _, linear = functad.linearize(lambda x: np.sin(A @ x), x)
    jacobian = functad.jacobian(lambda x: np.sin(A @ x))(x)
    np.testing.assert_allclose(functad.vmap(linear, out_axes=1)(np.eye(4)), jacobian)
    np.testing.assert_allclose(functad.vmap(linear.transpose)(np.eye(3))[0], jacobian)
    t = RNG.normal(size=4)
    np.testing.assert_allclose(functad.grad(lambda t: np.sum(linear(t) ** 2))(t), 2 * jacobian.T @ (jacobian @ t))
    slope = functad.grad(lambda x: functad.linearize(lambda x: np.sum(np.exp(x)), x)[1](t))(x)
    np.testing.assert_allclose(slope, np.exp(x) * t)


LINEAR = {
    "matrix": lambda x: A @ x,
    "sums": lambda x: np.cumsum(x)[::-1] - 3 * np.mean(x),
    "arranged": lambda x: np.concatenate([x.reshape(2, 2).T.ravel(), x[1:3]]),
    "written": lambda x: _written(x),
    "fourier": lambda x: np.fft.rfft(x).real,
    "masked": lambda x: np.where(np.array([True, False, True, True]), x, 0.0) / 2.0,
}


def _written(x):
    out = np.zeros_like(x)
    out[1:] = 2 * x[:-1]
    out[0] += x[3]
    return out


@pytest.mark.parametrize("name", LINEAR)
def test_linear_transpose(name):
    f = LINEAR[name]
    transpose = functad.linear_transpose(f, functad.ArraySpec((4,), np.dtype(float)))
    matrix = np.stack([f(e) for e in np.eye(4)], -1)
    g = RNG.normal(size=len(matrix))
    np.testing.assert_allclose(transpose(g)[0], g @ matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: x * x, "multiply"),
        (np.sin, "sin"),
        (lambda x: np.maximum(x, 0.0), "maximum"),
        (lambda x: x @ x, "matmul"),
        (lambda x: 1.0 / x, "divide"),
    ],
)
def test_what_is_not_linear_is_refused(f, name):
    with pytest.raises(functad.errors.NotLinearError, match=f"{name} is not linear"):
        functad.linear_transpose(f, np.ones(3))


def test_an_added_constant_is_refused():
    with pytest.raises(functad.errors.NotLinearError, match="a constant is added"):
        functad.linear_transpose(lambda x: x + 1.0, np.ones(3))
