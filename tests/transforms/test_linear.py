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


B = np.array([[2.0, 1.0], [0.5, 3.0]])
X = np.array([1.0, 2.0])
LINEAR_BY_ENTRY = {
    "solve": lambda b: np.linalg.solve(B, b),
    "lstsq": lambda b: np.linalg.lstsq(np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]]), np.concatenate([b, b[:1]]))[0],
    "custom_linear_solve": lambda b: functad.custom_linear_solve(lambda x: B @ x, b),
    "cumprod linearised": functad.linearize(np.cumprod, X)[1],
    "prod linearised": functad.linearize(np.prod, X)[1],
    "sort linearised": functad.linearize(np.sort, X)[1],
    "einsum": lambda b: np.einsum("ij,j->i", B, b),
    "tensordot": lambda b: np.tensordot(B, b, 1),
    "scan": lambda b: functad.scan(lambda c, r: (c * 2 + r, c), 0.0, b)[1],
    "fori_loop": lambda b: functad.fori_loop(0, 3, lambda i, c: B @ c, b),
    "while_loop": lambda b: functad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (0, b))[1],
    "cond": lambda b: functad.cond(X[0] > 0, lambda b: b * 2, lambda b: b * b, b),
    "checkpoint": functad.checkpoint(lambda b: 2 * b),
    "gradient of a square": functad.grad(lambda y: 0.5 * y @ B @ y),
    "jvp": lambda t: functad.jvp(lambda x: np.exp(x) * x, (X,), (t,))[1],
    "vjp": lambda g: functad.vjp(lambda x: np.sqrt(x) * x, X)[1](g)[0],
    "ones_like": lambda b: np.ones_like(b) * b / len(b),
}


@pytest.mark.parametrize("name", LINEAR_BY_ENTRY)
def test_functions_linear_in_one_argument_are_transposed(name):
    f = LINEAR_BY_ENTRY[name]
    v, g = RNG.normal(size=2), RNG.normal(size=np.shape(f(X)))
    np.testing.assert_allclose(np.sum(functad.linear_transpose(f, X)(g)[0] * v), np.sum(g * f(v)), atol=1e-12)


VALUE_DEPENDENT = {
    "where": lambda x: np.where(x > 0, x, 2 * x),
    "sort": np.sort,
    "partition": lambda x: np.partition(x, 1),
    "median": np.median,
    "quantile": lambda x: np.quantile(x, 0.3),
    "round": np.round,
    "floor": np.floor,
    "floor_divide": lambda x: x // 2,
    "sign": np.sign,
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "boolean index": lambda x: x[x > 0],
    "boolean factor": lambda x: (x > 0) * x,
    "argsort": lambda x: x[np.argsort(x)],
    "argmax": lambda x: x[np.argmax(x)],
    "nonzero": lambda x: x[np.nonzero(x)],
    "searchsorted": lambda x: x[np.searchsorted(np.array([0.0, 1.0]), x)],
    "cast": lambda x: x.astype(int) * 1.0,
    "int": lambda x: x * int(x[0]),
    "float": lambda x: float(x[0]) * x,
    "if": lambda x: x * 2 if x[0] > 0 else x,
    "cond": lambda x: functad.cond(x[0] > 0, lambda b: b * 2, lambda b: b * 3, x),
    "while_loop": lambda x: functad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] * 2 + 1, c[1] * 2.0), (x[0], x))[1],
    "scan": lambda x: functad.scan(lambda c, r: (c * r, c), x[0], x)[1],
    "checkpoint": functad.checkpoint(lambda x: np.where(x > 0, x, 2 * x)),
    "remainder": lambda x: x % 1,
    "fmod": lambda x: np.fmod(x, 1.0),
    "unwrap": np.unwrap,
    "modf": lambda x: np.modf(x)[0],
    "nextafter": lambda x: np.nextafter(x, 3.0),
    "stop_gradient": functad.stop_gradient,
    "matrix of a system": lambda x: np.linalg.solve(B * x, X),
}


@pytest.mark.parametrize("name", VALUE_DEPENDENT)
def test_what_depends_on_values_is_refused(name):
    with pytest.raises(functad.errors.NotLinearError, match=r"not linear in what it is given, at .*:\d+|depends on a value"):
        functad.linear_transpose(VALUE_DEPENDENT[name], np.zeros(2))


def test_custom_rules_are_looked_into_and_foreign_code_is_taken_as_linear():
    @functad.custom_vjp
    def bent(x):
        return np.where(x > 0, x, 2 * x)

    bent.defvjp(lambda x: (bent(x), None), lambda kept, g: (g,))
    foreign = functad.primitive(lambda x: np.asarray(x, dtype=np.float64).cumsum(), lambda g: g[::-1].cumsum()[::-1])
    with pytest.raises(functad.errors.NotLinearError, match="greater is not linear"):
        functad.linear_transpose(bent, np.zeros(2))
    np.testing.assert_array_equal(functad.linear_transpose(foreign, np.zeros(2))(X)[0], [3.0, 2.0])
    numerical = functad.numerical_primitive(lambda x: np.asarray(x).cumsum())
    np.testing.assert_allclose(functad.linear_transpose(numerical, np.zeros(2))(X)[0], [3.0, 2.0])


def test_operations_that_bend_are_no_harm_if_no_result_needs_them():
    def f(x):
        np.linalg.inv(np.diag(x))
        assert np.sin(x).shape == (2,)
        return 3 * x

    np.testing.assert_array_equal(functad.linear_transpose(f, np.zeros(2))(X)[0], 3 * X)


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


@pytest.mark.parametrize("constant", [3, True, 2.5, np.int64(3), np.arange(3)])
def test_linearize_has_zero_tangents_for_results_that_are_constants(constant):
    value, linear = functad.linearize(lambda x: (2.0 * x, constant), 1.0)
    assert value[1] is constant or np.array_equal(value[1], constant)
    tangent, zero = linear(1.5)
    assert tangent == 3.0
    np.testing.assert_array_equal(zero, np.zeros(np.shape(constant)))


def test_infinite_factors_are_linear():
    transposed = functad.linear_transpose(lambda x: x * np.array([1.0, np.inf]), np.ones(2))
    assert transposed(np.ones(2))[0].tolist() == [1.0, np.inf]
    with pytest.raises(functad.errors.NotLinearError, match="a constant is added"):
        functad.linear_transpose(lambda x: x + 1.0, np.ones(2))
