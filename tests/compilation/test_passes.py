"""Lists made shorter: what is computed while compiling, what is not computed twice, and what loops keep to themselves."""

import itertools

import numpy as np
import pytest

import functad
from functad.compilation.passes import DUMP, PASSES, after_each_pass, simplified
from functad.expressions.expressions import Constant, evaluate
from functad.testing import calls, every_entry
from tests.entries import is_constant, label

X = np.array([0.5, -1.0, 1.5])
ROWS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)


def short(f, *args, **options):
    return simplified(functad.make_expressions(f)(*args), **options)


def names(expressions):
    return [e.primitive.name for e in expressions.equations]


def test_what_depends_on_constants_alone_is_computed_once():
    table = np.arange(6.0).reshape(2, 3)
    found = short(lambda x: x @ np.cos(functad.stop_gradient(np.zeros((2, 3), like=x)) + table).T, X)
    assert names(found) == ["matmul"]
    assert np.array_equal(found(X)[0], X @ np.cos(table).T)


def test_constants_that_would_be_large_are_computed_in_each_run():
    found = short(lambda x: x + np.broadcast_to(np.zeros((), like=x) + 2.0, (300, 300, 3)), X)
    constants = [s.value for e in found.equations for s in e.inputs if isinstance(s, Constant)]
    assert sum(np.asarray(value).nbytes for value in constants) <= 2**16


def test_a_constant_computation_that_raises_raises_where_it_runs():
    found = short(lambda x: x + np.linalg.inv(np.zeros((3, 3), like=x)), X)
    assert "inv" in names(found)
    with pytest.raises(np.linalg.LinAlgError):
        evaluate(found, [X])


def test_arrays_of_one_number_become_that_number():
    x, half = np.linspace(-1.0, 1.0, 1200), np.full(1200, 0.5)
    [equation] = short(lambda x: x * half, x).equations
    assert [s.value for s in equation.inputs if isinstance(s, Constant)] == [0.5]
    [equation] = short(lambda x: x * np.full(3, 0.5), X).equations  # a small array is as good
    assert [s.value.tolist() for s in equation.inputs if isinstance(s, Constant)] == [[0.5] * 3]
    matrix = np.ones((1200, 2))
    assert np.array_equal(short(lambda x: x @ matrix, x)(x)[0], x @ matrix)  # of matrices it would be something else
    rows = np.full((2, 1200), 0.5)
    assert np.array_equal(short(lambda x: x + rows, x)(x)[0], x + rows)  # it gives the result its shape


def test_exact_lists_change_no_bit():
    def f(x):
        return np.sum((x / 3.0 * 7.0 + 0.0) ** 3 * np.sin(x))

    x = np.concatenate([np.random.default_rng(0).normal(size=1000), [-0.0, 0.0]])
    gradient = functad.grad(f)
    assert functad.jit(gradient, exact=True)(x).tobytes() == gradient(x).tobytes()
    assert functad.grad(functad.jit(f, exact=True))(x).tobytes() == gradient(x).tobytes()
    assert np.allclose(functad.jit(gradient)(x), gradient(x), rtol=1e-13)
    assert len(short(gradient, x, exact=True).equations) > len(short(gradient, x).equations)


def decay(x, rows):
    """Carry a sum; one carry and one result lead nowhere."""

    def step(state, row):
        total, unused, count = state
        rate = np.exp(-np.sum(x**2))  # the same in all steps
        after = total * rate + np.tanh(row * x)
        return (after, unused * row, count + 1), (np.sum(after), row * 2.0)

    (total, _, _), (sums, _) = functad.scan(step, (np.zeros(3), np.ones(3), 0), rows)
    return np.sum(total) + np.sum(sums**2)


def scans(expressions):
    return [e for e in expressions.equations if e.primitive.name == "scan"]


def test_scans_compute_what_is_shared_once_and_what_nobody_reads_never():
    before = functad.make_expressions(decay)(X, ROWS)
    after = simplified(before).check()
    [old], [new] = scans(before), scans(after)
    assert (old.params["carries"], new.params["carries"]) == (3, 1)
    assert len(new.outputs) == 2
    assert "exp" in names(after)
    assert "exp" not in names(new.params["body"])
    assert np.allclose(after(X, ROWS)[0], decay(X, ROWS), rtol=1e-13)


def nested(x, rows):
    def outer(total, row):
        def inner(state, _):
            return state * np.cos(x) + np.sin(x * 2.0) * row, None

        state, _ = functad.scan(inner, total, None, length=3)
        return state, np.sum(state)

    return np.sum(functad.scan(outer, np.zeros(3), rows, reverse=True)[1] ** 2)


def branching(x, rows):
    def step(state, row):
        return functad.cond(np.sum(state) > 0, lambda s: s * x + x * 1.0, lambda s: s - (-row), state), None

    return np.sum(functad.scan(step, x, rows)[0])


def looping(x, rows):
    return np.sum(functad.while_loop(lambda s: np.sum(s**2) < 50.0, lambda s: s * (1.5 * 1.0) - (-x * x), x) * rows)


def stepping(x, rows):
    return np.sum(functad.fori_loop(0, 5, lambda i, s: s * np.cos(x) + i * rows[0], x))


def empty(x, rows):
    return np.sum(functad.scan(lambda s, row: (s * np.exp(x) + row, s), x, rows[:0])[0])


def same_twice(x, rows):
    total, (a, b) = functad.scan(lambda s, row: (s + row * x, (s, s)), x, rows)
    return np.sum(total) + np.sum(a * b)


def recurrent(x, rows):
    """Carry a state; inputs, results and the sums that the derivative takes need no step of their own."""
    w, u, v = np.outer(x, x), np.outer(np.sin(x), x), np.outer(x, np.cos(x))

    def step(h, row):
        h = np.tanh(row @ w + h @ u + x)
        return h, np.log(np.sum(np.exp(h @ v), axis=-1))

    h, losses = functad.scan(step, np.zeros(3), rows, reverse=True)
    return np.sum(losses) + np.sum(h)


def recurrent_batch(x, rows):
    w, u = np.outer(x, x), np.outer(np.sin(x), x)
    batch = np.stack([rows, 2 * rows], axis=1)
    h, ys = functad.scan(lambda h, row: (np.tanh(row @ w + h @ u), h * row), np.zeros((2, 3)), batch)
    return np.sum(h * h) + np.sum(ys**2)


def without_carry(x, rows):
    return np.sum(functad.scan(lambda carry, row: (carry, np.sin(row) * x), 0.0, rows)[1] ** 2)


def mapped(x, rows):
    return np.sum(functad.map(lambda row: np.linalg.solve(np.outer(row, row) + np.eye(3), x), rows) ** 2)


def lorenz(s, p):
    x, y, z = s
    return np.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[-1] * z])


def euler(x, rows):
    s = x
    for row in rows:
        s = s + 0.01 * lorenz(s + 0.005 * lorenz(s, row), row)
    return np.sum(s * s)


def euler_scan(x, rows):
    return np.sum(functad.scan(lambda s, row: (s + 0.01 * lorenz(s, row), s), x, rows)[1] ** 2)


LOOPS = [
    euler,
    euler_scan,
    recurrent,
    recurrent_batch,
    without_carry,
    mapped,
    decay,
    nested,
    branching,
    looping,
    stepping,
    empty,
    same_twice,
]


@pytest.mark.parametrize("f", LOOPS)
@pytest.mark.parametrize("exact", [False, True])
def test_loops_compute_what_they_did(f, exact):
    def both(x, rows):
        return functad.value_and_grad(f, argnums=(0, 1))(x, rows)

    short(both, X, ROWS, exact=exact).check()
    value, gradients = functad.value_and_grad(f, argnums=(0, 1))(X, ROWS)
    for compiled in (functad.jit(both, exact=exact), functad.value_and_grad(functad.jit(f, exact=exact), argnums=(0, 1))):
        found, grads = compiled(X, ROWS)
        assert np.allclose(found, value, rtol=1e-12)
        for own, expected in zip(grads, gradients, strict=True):
            assert own.dtype == expected.dtype
            assert np.allclose(own, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "f", [recurrent, recurrent_batch, without_carry, decay, nested, branching, stepping, empty, same_twice]
)
def test_simplified_loops_have_every_derivative(f):
    def along(x):
        return functad.jit(f)(x, ROWS)

    t = np.array([1.0, -2.0, 0.5])
    expected = functad.jvp(lambda x: f(x, ROWS), (X,), (t,))[1]
    assert np.allclose(functad.jvp(along, (X,), (t,))[1], expected, rtol=1e-11)
    assert np.allclose(functad.hessian(along)(X), functad.hessian(lambda x: f(x, ROWS))(X), rtol=1e-9, atol=1e-10)
    batch = np.stack([X, 2 * X])
    assert np.allclose(functad.vmap(along)(batch), [f(x, ROWS) for x in batch], rtol=1e-12)


def test_steps_of_scans_do_what_they_must():
    """Products with rows, what only results need, and sums over all steps are computed for all steps at once."""
    found = scans(short(functad.grad(recurrent), X, ROWS))
    assert [names(e.params["body"]).count("matmul") for e in found] == [1, 1]
    assert not {"exp", "log", "outer_product"} & {name for e in found for name in names(e.params["body"])}
    [exact, _] = scans(short(functad.grad(recurrent), X, ROWS, exact=True))
    assert names(exact.params["body"]).count("matmul") == 3
    assert not scans(short(without_carry, X, ROWS))


def test_short_vectors_in_single_precision():
    single = X.astype(np.float32), ROWS.astype(np.float32)
    assert functad.jit(functad.grad(euler))(*single).dtype == np.float32
    assert np.allclose(functad.jit(functad.grad(euler))(*single), functad.grad(euler)(*single), rtol=1e-5)


def test_vectors_that_are_used_whole_stay_whole():
    def f(x):
        return np.sum(np.tanh(np.stack([x[0], x[1] * 2.0, x[2]]) @ np.ones((3, 3))))

    assert names(short(f, X)).count("stack") == 1
    assert names(short(lambda x: np.exp(x * 2.0 + 1.0)[0], X))[:2] == ["multiply", "add"]


def test_large_values_of_all_steps_are_not_held_at_once():
    def f(x):
        return functad.scan(lambda carry, row: (carry + np.sum(np.sin(row * x)), None), 0.0, np.arange(1000.0)[:, None, None])[
            0
        ]

    x = np.ones((100, 100))
    [equation] = scans(short(f, x))
    assert "sin" in names(equation.params["body"])


def test_weak_numbers_stay_weak():
    found = short(lambda x, y: (x * 1.0 + 0.0) * y, 2.0, np.ones(2, np.float32))
    assert found(2.0, np.ones(2, np.float32))[0].dtype == np.float32


def test_zero_wins_over_infinity_in_simplified_lists():
    def f(x):
        return np.sum(np.where(x > 0, x * np.log(x) * 2.0, 0.0))

    x = np.array([-1.0, 0.0, 2.0])
    with np.errstate(all="ignore"):
        assert np.array_equal(functad.jit(functad.grad(f))(x), functad.grad(f)(x))


ENTRIES = [e for e in every_entry() if e.samples is not None and e.status != "refused" and not is_constant(e)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_every_function_of_constants_computes_what_it_did(entry):
    """One argument of two is an array of one number: what is put in its place must have its shape, where that matters."""
    for call in itertools.islice((c for c in calls(entry, np.float64) if len(c.primals) > 1), 1):
        for place, number in zip(range(len(call.primals)), itertools.cycle((1.0, 0.0)), strict=False):
            fixed = np.full_like(call.primals[place], number)
            others = [p for i, p in enumerate(call.primals) if i != place]

            def f(*own, place=place, fixed=fixed, call=call):
                return call.smooth(*own[:place], fixed, *own[place:])

            try:
                before = functad.make_expressions(lambda *own, f=f: functad.vjp(f, *own)[1](f(*own)))(*others)
                expected = evaluate(before, others)
            except (
                functad.errors.FunctadError,
                ValueError,
                ArithmeticError,
                np.linalg.LinAlgError,
            ):  # it may not be defined there
                continue
            found = evaluate(simplified(before), others)
            for a, b in zip(found, expected, strict=True):
                scale = np.max(np.abs(b), initial=1.0, where=np.isfinite(b))
                assert np.allclose(a, b, rtol=1e-11, atol=1e-12 * scale, equal_nan=True), (call, place, number)
                assert (np.shape(a), a.dtype) == (np.shape(b), b.dtype)


@pytest.mark.parametrize("zero", [0, np.int64(0), False, 0.0, -0.0], ids=repr)
def test_a_sum_with_zero_keeps_the_sign_of_a_zero(zero):
    x = np.array([-0.0, 0.0, 1.0])
    for f in (lambda x: x + zero, lambda x: zero + x, lambda x: x - zero):
        assert functad.jit(f, exact=True)(x).tobytes() == f(x).tobytes()


def _unrolled(x):
    y = x
    for i in range(40):
        y = np.sin(y) * 0.5 + x * np.cos(y) - y / (i + 2.0)
    return np.sum(y)


def _scanned(x):
    def step(c, row):
        return c * np.sum(np.sin(x)) + row * 1.0, np.exp(c)

    return functad.scan(step, x, np.stack([x, x * 2.0, x * x]))


def _filled(x):
    y = np.zeros((2, 3), like=x)
    y[0], y[1] = x * 2.0, np.stack([x[0], x[1] * x[2], x[2]])
    return np.sum(y @ y.T)


def _factor(x):
    m = np.outer(x, x) + 3.0 * np.eye(3)
    return np.sum(np.log(np.diagonal(np.linalg.cholesky(m)))) + x @ np.linalg.solve(m, x)


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"fused": True}], ids=["quick", "exact", "fused"])
@pytest.mark.parametrize("f", [_unrolled, _scanned, _filled, _factor], ids=lambda f: f.__name__)
def test_each_pass_keeps_the_results_and_a_well_formed_list(f, options):
    def total(x):
        return sum(np.sum(leaf) for leaf in functad.tree_leaves(f(x)))

    for g in (total, functad.grad(total)):
        before = functad.make_expressions(g)(X)
        seen = []

        def look(name, own, before=before, seen=seen):
            seen.append(name)
            if own.results == before.results:  # no list within a loop
                np.testing.assert_allclose(evaluate(own.check(), [X]), evaluate(before, [X]), rtol=1e-12)

        with after_each_pass(look):
            simplified(before, **options)
        assert seen[0] == "before all passes"
        assert len(seen) > 1
        assert set(seen) <= {"before all passes", *(each.name for each in PASSES)}


def test_lists_are_printed_after_each_pass(monkeypatch, capsys):
    f = functad.jit(lambda x: np.sum((x + x) * 0.5 - np.sin(x * 1.0)), backend="numpy")
    monkeypatch.setenv(DUMP, "pass")
    with after_each_pass(None):
        f(X)
    shown = capsys.readouterr().err
    first, *others = shown.split("-- ")[1:]
    assert first.startswith("before all passes\n{ lambda x:float64[3].")
    assert any(other.startswith("rewrite: fold constants") for other in others)
    assert f.lower(X).dump() == shown.rstrip("\n")
    monkeypatch.setenv(DUMP, "")
    f(ROWS)
    assert capsys.readouterr().err == ""
