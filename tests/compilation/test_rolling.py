"""Unrolled loops are found and rolled: the list with loops computes what the one without does, bit for bit."""

import numpy as np
import pytest

import functad
from functad.backends.numpy_source import NumpyProgram
from functad.compilation.rolling.rolled import rolled
from functad.compilation.rolling.runs import Run, runs
from functad.expressions.expressions import evaluate

RNG = np.random.default_rng(0)


def lorenz(s):
    x, y, z = s[0], s[1], s[2]
    return np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])


def runge_kutta(s):
    h = 0.01
    for _ in range(20):
        k1 = lorenz(s)
        k2 = lorenz(s + h / 2 * k1)
        k3 = lorenz(s + h / 2 * k2)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + lorenz(s + h * k3))
    return np.sum(s)


def number_chain(x):
    for _ in range(100):
        x = np.sin(x) * 1.0001 + 0.1
    return x


def recurrent(w, u, xs):
    h = np.zeros((2, 3))
    for t in range(len(xs)):
        h = np.tanh(h @ w.T + xs[t] @ u.T)
    return np.sum(h * h)


def newton(a):
    x = a
    for _ in range(40):
        x = x - (x * x * x - a) / (3 * x * x)
    return np.sum(x)


def path(x, k):
    xs = [x]
    for _ in range(50):
        x = x + 0.01 * np.stack([x[1], -k * x[0]])
        xs.append(x)
    return np.sum(np.stack(xs) ** 2)


def single_results(x, k):
    xs = [x]
    for _ in range(120):
        x = x + 0.01 * np.stack([x[1], -k * x[0]])
        xs.append(x)
    return xs[-1].sum() + xs[10].sum() + xs[50].sum() + np.sum(np.stack(xs[20:30], axis=-1) ** 2)


def constants_of_steps(x):
    for t in range(90):
        x = np.tanh(x * (1 + t * 0.01)) + t * (t % 3 == 0)
    return np.sum(x)


def filled_array(x):
    xs = functad.numpy.zeros((60, 2), like=x)
    for t in range(60):
        x = x + 0.01 * np.stack([x[1], -x[0]])
        xs[t] = x
    return np.sum(xs**2)


def filled_by_element(x):
    xs = functad.numpy.zeros((2, 61), like=x)
    xs[0, 0], xs[1, 0] = x[0], x[1]
    for t in range(60):
        xs[0, t + 1] = xs[0, t] + 0.01 * xs[1, t]
        xs[1, t + 1] = xs[1, t] - 0.01 * xs[0, t]
    return np.sum(xs**2)


def two_steps_back(x, v):
    a, b = x, x + 0.01 * v
    for _ in range(70):
        a, b = b, 2 * b - a - 0.0001 * np.sin(b)
    return np.sum(b)


def rows_backward(w, xs):
    total = 0.0
    for i in reversed(range(len(xs))):
        total = total + 1 / (1 + np.exp(-(xs[i] @ w))) * xs[i, 1]
    return total


def columns(w, xs):
    for i in range(len(xs.T)):
        w = np.sin(w * xs[:, i]) + w * xs[1, i] + float(i)
    return np.sum(w)


def shared_weights(w, xs):
    h, out = w[0], 0.0
    for t in range(len(xs)):
        h = np.tanh(h * w[1] + xs[t] * w[2])
        out = out + np.log(1 + np.sum(np.exp(h * w[0] + w[3])))
    return out


def weak_number(x, s):
    total = 0
    for t in range(100):
        s = s * 0.9 + 1
        total = total + t
        x = np.sin(x * s) + total
    return np.sum(x)


def changes_half_way(x):
    for t in range(250):
        x = np.sin(x) * 1.5 + 0.1 if t < 120 else np.cos(x) * 1.5 + x
    return np.sum(x)


SAMPLES = {
    runge_kutta: (np.array([1.0, 2.0, 3.0]),),
    number_chain: (0.5,),
    recurrent: (RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2)), RNG.normal(size=(60, 2, 2))),
    newton: (np.array([2.0, 3.0]),),
    path: (np.array([1.0, 0.0]), 2.0),
    single_results: (np.array([1.0, 0.0]), 2.0),
    constants_of_steps: (np.linspace(0, 1, 3),),
    filled_array: (np.array([1.0, 0.0]),),
    filled_by_element: (np.array([1.0, 0.0]),),
    two_steps_back: (np.array([1.0, 0.3]), np.array([0.0, 1.0])),
    rows_backward: (RNG.normal(size=3), RNG.normal(size=(40, 3))),
    columns: (RNG.normal(size=3), RNG.normal(size=(3, 60))),
    shared_weights: (RNG.normal(size=(4, 3)), RNG.normal(size=(40, 3))),
    weak_number: (np.linspace(0, 1, 3), 2),
    changes_half_way: (np.linspace(0, 1, 3),),
}


def loops(expressions):
    return [e for e in expressions.equations if e.primitive.name == "scan"]


def assert_same(given, expected):
    for a, b in zip(given, expected, strict=True):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("f", SAMPLES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_rolled_list_computes_the_same_values(f, dtype):
    args = [a.astype(dtype) if isinstance(a, np.ndarray) else a for a in SAMPLES[f]]
    expressions = functad.make_expressions(f)(*args)
    found = rolled(expressions).check()
    assert loops(found)
    assert 6 * len(found.equations) < len(expressions.equations)
    assert_same(evaluate(found, args), evaluate(expressions, args))
    assert_same(NumpyProgram(found, exact=True)(args), NumpyProgram(expressions, exact=True)(args))


@pytest.mark.parametrize("f", SAMPLES, ids=lambda f: f.__name__)
def test_a_rolled_list_computes_the_same_derivatives(f):
    args = SAMPLES[f]
    argnums = tuple(i for i, a in enumerate(args) if not isinstance(a, int))
    expressions = functad.make_expressions(functad.value_and_grad(f, argnums=argnums))(*args)
    found = rolled(expressions).check()
    assert len(loops(found)) >= 2
    assert 3 * len(found.equations) < len(expressions.equations)
    assert_same(evaluate(found, args), evaluate(expressions, args))
    assert_same(NumpyProgram(found, exact=True)(args), NumpyProgram(expressions, exact=True)(args))


@pytest.mark.parametrize("f", [runge_kutta, path, filled_array, shared_weights], ids=lambda f: f.__name__)
def test_derivatives_of_a_rolled_function_are_those_of_the_function(f):
    args = SAMPLES[f]
    value, slope = functad.value_and_grad(functad.jit(f))(*args)
    expected, eager = functad.value_and_grad(f)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(slope, eager, rtol=1e-11)


def test_what_does_not_repeat_stays_as_it_is():
    def f(x):
        for i in range(300):
            x = (np.sin, np.cos, np.tanh, np.exp)[(i * i + i // 3) % 4](x * 0.1) if i % 7 else x + x * i
        return x

    expressions = functad.make_expressions(f)(0.5)
    assert rolled(expressions) is expressions
    short = functad.make_expressions(lambda x: x + x)(0.5)
    assert rolled(short) is short


def test_a_repeated_kind_of_operation_that_is_wired_otherwise_each_time_is_no_loop():
    def f(x):
        values = [x]
        for i in range(300):
            values.append(np.sin(values[(i * 7919) % len(values)]))
        return sum(values[-5:])

    expressions = functad.make_expressions(f)(np.ones(2))
    assert_same(evaluate(rolled(expressions), [np.ones(2)]), evaluate(expressions, [np.ones(2)]))


def test_the_structures_of_arguments_and_results_stay():
    def f(state, *, scale):
        x = state["x"]
        for _ in range(100):
            x = np.sin(x) * scale + 1
        return {"x": x, "first": state["x"]}

    given = {"x": np.ones(2)}
    expressions = functad.make_expressions(f)(given, scale=0.5)
    found = rolled(expressions)
    assert len(found.equations) < 5
    assert_same(found(given, scale=0.5).values(), expressions(given, scale=0.5).values())


def test_what_all_steps_compute_alike_is_computed_once():
    def f(x, w):
        for _ in range(100):
            x = np.sin(x) * np.exp(w) + np.exp(w)[0]
        return x

    found = rolled(functad.make_expressions(f)(np.ones(2), np.ones(2)))
    [loop] = loops(found)
    assert "exp" not in [e.primitive.name for e in loop.params["body"].equations]


def test_an_array_that_was_written_to_in_two_ways_is_read_as_each_has_it():
    def f(x):
        zeros = functad.numpy.zeros(3, like=x)
        a, b = zeros.copy(), zeros.copy()
        for i in range(100):
            a[i % 3] = x * 2
            b[i % 3] = a[(i + 1) % 3] + x
            x = np.sin(x + b[i % 3] - a[i % 3])
        return a, b, x

    expressions = functad.make_expressions(f)(0.5)
    assert_same(evaluate(rolled(expressions), [0.5]), evaluate(expressions, [0.5]))


def test_elements_of_a_row_are_rows():
    def f(w, xs):
        for i in range(80):
            w = np.sin(w) * xs[0][i]
        return w

    args = np.ones(3), np.linspace(0.5, 1.5, 80)[None]
    expressions = functad.make_expressions(f)(*args)
    found = rolled(expressions)
    assert loops(found)[0].params["rows"] == 1
    assert_same(evaluate(found, args), evaluate(expressions, args))


def test_runs_are_found_with_their_shortest_period():
    word = [1, 2, 1, 3]
    labels = np.array([7, 8, 9, *word * 20, 1, 2, 4, 4])
    assert runs(labels, 16)[0] == Run(3, 3 + 4 * 20 + 2, 4)
    assert runs(np.arange(1000), 16) == []
    assert runs(np.zeros(100, int), 16) == [Run(0, 100, 1)]


def test_runs_within_runs_are_found():
    inner = [1] * 30 + [2, 3]
    found = runs(np.array(inner * 20), 16)
    assert found[0] == Run(0, 32 * 20, 32)
    assert Run(0, 30, 1) in found


def test_a_whole_array_of_zeros_is_written_to():
    def f(x):
        zeros = functad.numpy.zeros(2, like=x)
        zeros[:] = x
        return np.sum(zeros * x)

    assert functad.jit(f)(np.array([1.0, 2.0])) == 5.0


@pytest.mark.parametrize("reverse", [False, True])
def test_the_source_of_a_scan_is_a_loop(reverse):
    def f(c, xs, w):
        def step(c, x):
            state, count = c
            return (np.tanh(state * x[0] + w), count + 1), (state, x[1] * 2.0, count)

        return functad.scan(step, (c, 0), xs, reverse=reverse)

    args = np.ones(2), (np.arange(6.0).reshape(3, 2), np.arange(3.0)), 0.5
    compiled = functad.jit(f, backend="numpy")
    assert "for v" in compiled.lower(*args).source()
    (state, count), ys = compiled(*args)
    (expected, steps), eager = f(*args)
    assert count == steps == 3
    assert_same([state, *ys], [expected, *eager])


@pytest.mark.parametrize("length", [0, 1, 4])
def test_a_scan_without_rows_is_a_loop(length):
    def f(x):
        return functad.scan(lambda c, _: (c * 2, (c, x)), x, length=length)

    x = np.arange(6.0).reshape(2, 3).T
    carry, ys = functad.jit(f, backend="numpy")(x)
    expected, eager = f(x)
    assert_same([carry, *ys], [expected, *eager])
    assert not any(np.shares_memory(a, b) for a in (carry, *ys) for b in (x, carry, *ys) if a is not b)
