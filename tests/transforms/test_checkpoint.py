"""`checkpoint`: derivatives those of the function itself, less memory, and what is computed again."""

import functools

import numpy as np
import pytest

import functad
from functad import errors, tree_flatten
from functad.rules.checkpoint import Segment
from functad.testing import check_grads, check_primitive, draw_program
from tests.work import peak_memory

X, W = np.arange(9.0).reshape(3, 3) / 9 - 0.4, np.cos(np.arange(9.0)).reshape(3, 3)
POLICIES = [None, "contractions", ["h"], ("h", "unused"), pytest.param(lambda equation: True, id="every equation")]


def block(x, w):
    """Take branches, write in place, and return a tree."""
    h = np.tanh(x @ w)
    if np.sum(h) > 0:
        h = h * 2
    h = functad.checkpoint_name(np.sin(h @ w), "h")
    row = h[1]
    h[0] = row * 2
    row *= 3
    return {"a": np.exp(-h), "b": [np.where(h > 0, h, 0.1 * h), x], "constant": 3}


def loss(f):
    def total(x, w):
        out = f(x, w)
        return np.sum(out["a"] ** 2) + np.sum(out["b"][0] * out["b"][1]) + out["constant"]

    return total


# Derivatives


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_derivatives_are_those_of_the_function(policy):
    c = loss(functad.checkpoint(block, policy=policy))
    assert c(X, W) == loss(block)(X, W)
    for found, expected in zip(functad.grad(c, (0, 1))(X, W), functad.grad(loss(block), (0, 1))(X, W), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    check_grads(c, [X, W], order=2)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_nested_checkpoints_and_third_order(policy):
    def f(x):
        inner = functad.checkpoint(lambda x: np.sin(x) * x, policy=policy)
        return functad.checkpoint(lambda x: inner(np.exp(inner(x))) @ x, policy=policy)(x)

    check_grads(f, [np.array([0.3, 0.8])], order=3)


def test_closures_have_their_derivatives():
    def f(x, w):
        return np.sum(functad.checkpoint(lambda x: np.sin(x @ w) @ w)(x * 1.0))

    np.testing.assert_allclose(
        functad.grad(f, 1)(X, W), functad.grad(lambda x, w: np.sum(np.sin(x @ w) @ w), 1)(X, W), rtol=1e-13
    )
    check_grads(f, [X, W], order=2)

    def across(y):  # the closure belongs to an outer trace
        return functad.grad(lambda x: functad.checkpoint(lambda x: x**2 * y**3)(x))(2.0)

    assert functad.grad(across)(3.0) == 108
    assert functad.jvp(across, (3.0,), (1.0,))[1] == 108


def test_closures_of_a_batch_are_told_apart():
    """All Tensors of `vmap` that operations made have the same slot."""

    def f(x, wrap):
        a, b = np.sin(x), np.exp(x)
        return wrap(lambda y: y * a / b)(x)

    own, expected = [functad.vmap(lambda x, wrap=wrap: f(x, wrap))(X[0]) for wrap in (functad.checkpoint, lambda g: g)]
    np.testing.assert_allclose(own, expected, rtol=1e-14)


def test_result_that_is_a_closure_or_a_constant():
    def f(x, y):
        a, b, c = functad.checkpoint(lambda x: (x * 2, y * 5, 7.0))(x)
        return a + b + c

    assert functad.grad(f, (0, 1))(1.0, 1.0) == (2, 5)
    assert functad.grad(lambda y: functad.checkpoint(lambda x: y * 5)(y))(1.0) == 5


def test_tapes_and_variables():
    v, u = functad.Variable(W), functad.Variable(X)
    with functad.GradientTape() as tape:
        y = np.sum(functad.checkpoint(lambda x: np.sin(x @ v))(u))
    expected = functad.grad(lambda x, w: np.sum(np.sin(x @ w)), (0, 1))(X, W)
    for found, e in zip(tape.gradient(y, [u, v]), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), e)
    with functad.GradientTape() as outer:
        with functad.GradientTape() as tape:
            y = np.sum(functad.checkpoint(lambda x: np.sin(x @ v))(u))
        slope = np.sum(tape.gradient(y, u))
    expected = functad.grad(lambda w: np.sum(functad.grad(lambda x: np.sum(np.sin(x @ w)))(X)))(W)
    np.testing.assert_allclose(outer.gradient(slope, v).numpy(), expected)


def test_abstract_traces_have_one_equation():
    expressions = functad.make_expressions(functad.checkpoint(lambda x: np.sin(x @ W)))(X).check()
    assert [e.primitive.name for e in expressions.equations] == ["checkpoint"]
    np.testing.assert_allclose(expressions(X), np.sin(X @ W))
    np.testing.assert_allclose(
        functad.grad(lambda x: np.sum(expressions(x)))(X), functad.grad(lambda x: np.sum(np.sin(x @ W)))(X)
    )


def test_random_numbers_and_branches_are_those_of_the_first_run():
    runs = []
    rng = np.random.default_rng(0)

    @functad.checkpoint
    def f(x):
        mask = rng.random(3) > 0.5
        runs.append(mask)
        return np.sum(mask * np.sin(x))

    found = functad.grad(f)(np.ones(3))
    assert len(runs) == 1
    np.testing.assert_array_equal(found, runs[0] * np.cos(np.ones(3)))


def test_constants_overwritten_later_do_not_change_the_gradient():
    c = np.array([2.0, 3.0])

    def f(x):
        y = functad.checkpoint(lambda x: np.sin(x) * c)(x)
        c[:] = 0
        return np.sum(y)

    np.testing.assert_array_equal(functad.grad(f)(np.zeros(2)), [2, 3])


BUFFER = np.zeros(2)


def _own_buffer(x):
    kept = np.zeros(2)
    kept[0] = 2.0
    y = x * kept
    kept[1] = 7.0
    return np.sum(y * x) + np.sum(kept * x)


def _buffer_of_the_caller(x):
    BUFFER[...] = 3.0
    y = x * BUFFER
    BUFFER[0] += 1.0
    return np.sum(y * np.sin(x)) + np.sum(BUFFER * x)


@pytest.mark.parametrize("transform", [functad.checkpoint, functad.recompute_grad, functad.checkpoint(policy="contractions")])
@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (_own_buffer, lambda x: [4 * x[0] + 2, 7]),
        (_buffer_of_the_caller, lambda x: 3 * np.sin(x) + 3 * x * np.cos(x) + [4, 3]),
    ],
)
def test_functions_may_write_into_arrays_of_their_own(f, slope, transform):
    x, again = np.array([1.0, 2.0]), transform(f)
    expected = slope(x)
    np.testing.assert_allclose(functad.grad(again)(x), expected)
    np.testing.assert_allclose(functad.hessian(again)(x), functad.hessian(f)(x))
    np.testing.assert_allclose(functad.vmap(functad.grad(again))(np.stack([x, 2 * x]))[0], expected)
    np.testing.assert_allclose(functad.jit(functad.grad(again))(x), expected)
    c = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(c)
        y = again(c)
    np.testing.assert_allclose(tape.gradient(y, c), expected)


def test_tensor_that_escapes_raises():
    kept = []
    with pytest.raises(errors.EscapedTensorError):
        functad.grad(lambda x: functad.checkpoint(lambda x: (kept.append(x * 2), x)[1])(x) + kept[0])(1.0)


def test_policy_is_checked():
    for policy in ("everything", [1], 3):
        with pytest.raises(errors.InputError, match="is no policy"):
            functad.checkpoint(np.sin, policy=policy)
    with pytest.raises(errors.InputError, match="needs a function"):
        functad.checkpoint(3)
    with pytest.raises(errors.OutputError, match="result is a str"):
        functad.grad(functad.checkpoint(lambda x: "x"))(1.0)


def test_without_tensors_it_is_the_function_and_keeps_its_names():
    c = functad.checkpoint(policy="contractions")(block)
    assert (c.__name__, c.__doc__) == ("block", block.__doc__)
    np.testing.assert_array_equal(c(X, W)["a"], block(X, W)["a"])


def test_random_programs():
    """Programs of many operations, half of which write in place."""

    def total(f):
        def run(*args):
            leaves = tree_flatten(f(*args))[0]
            return sum([np.sum(np.abs(leaf) ** 2) for leaf in leaves if leaf.dtype.kind in "fc"], 0.0)

        return run

    for seed in range(40):
        rng = np.random.default_rng(seed)
        program = draw_program(lambda n, rng=rng: int(rng.integers(n)), mutation=bool(seed % 2))
        places = tuple(range(len(program.inputs)))
        expected = tree_flatten(functad.grad(total(program), places)(*program.inputs))[0]
        for policy in (None, "contractions", lambda equation: True):
            c = functad.checkpoint(program, policy=policy)
            found = tree_flatten(functad.grad(total(c), places)(*program.inputs))[0]
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=f"seed {seed}")


def test_name_of_a_value_is_a_complete_primitive():
    [equation] = functad.make_expressions(lambda x: functad.checkpoint_name(x, "h"))(X).equations
    check_primitive(equation.primitive)


# What is computed again


def recomputed(policy):
    """Return the names of the operations that the backward pass of a function computes again."""
    seen = []

    def f(x):
        h = functad.checkpoint_name(np.tanh(x @ W), "h")
        return np.cos(h @ W)

    def watching(self, known, original=Segment._computed):
        found = original(self, known)
        seen.extend(e.primitive.name for e, computed in zip(self.expressions.equations, found, strict=True) if computed)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "_computed", watching)
        functad.grad(lambda x: np.sum(functad.checkpoint(f, policy=policy)(x)))(X)
    return seen


def test_policies_say_what_is_computed_again():
    """Neither is what no rule reads: here the cosine, whose sine is wanted."""
    assert recomputed(None) == ["matmul", "tanh", "checkpoint_name", "matmul"]
    assert recomputed("contractions") == ["tanh"]
    assert recomputed(["h"]) == ["matmul"]
    assert recomputed(lambda equation: True) == []


# Memory


BIG = np.linspace(0.1, 1.0, 20_000)


def peak(run):
    """Return the peak of memory while something runs, in arrays of the size of `BIG`."""
    return peak_memory(run) / BIG.nbytes


def deep(wrap, count=40):
    def f(x):
        for _ in range(count):
            x = wrap(lambda x: np.sin(np.cos(np.sin(np.exp(-x * x)))))(x)
        return np.sum(x)

    return f


def test_peak_memory_falls_in_reverse_and_forward_mode():
    for run in (lambda f: functad.grad(f)(BIG), lambda f: functad.jvp(f, (BIG,), (BIG,))):
        plain, checkpointed = peak(lambda run=run: run(deep(lambda f: f))), peak(lambda run=run: run(deep(functad.checkpoint)))
        assert checkpointed < 0.4 * plain


def test_peak_memory_falls_on_a_tape():
    def by_tape(f):
        with functad.GradientTape() as tape:
            x = functad.constant(BIG)
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    assert peak(lambda: by_tape(deep(functad.checkpoint))) < 0.4 * peak(lambda: by_tape(deep(lambda f: f)))


def test_policy_keeps_what_it_says():
    def f(x):
        return np.exp(functad.checkpoint_name(np.sin(np.cos(x)), "h"))

    def chain(policy):
        c = functad.checkpoint(f, policy=policy)
        return peak(lambda: functad.grad(lambda x: np.sum(functools.reduce(lambda x, _: c(x), range(30), x)))(BIG))

    nothing, named = chain(None), chain(["h"])
    assert nothing + 25 < named < nothing + 35


def _writes(x):
    x += 1.0
    return np.sum(x * x)


@pytest.mark.parametrize(
    "transformed",
    [
        functad.checkpoint(_writes),
        functad.recompute_grad(_writes),
        functad.custom_gradient(lambda x: (_writes(x), lambda g: g * x)),
        functad.grad_pass_through(_writes),
    ],
    ids=["checkpoint", "recompute_grad", "custom_gradient", "grad_pass_through"],
)
def test_a_function_that_writes_into_its_argument_leaves_the_array_of_the_caller_alone(transformed):
    x = np.arange(6.0).reshape(2, 3).T
    assert float(transformed(x)) == 91.0
    assert np.array_equal(x, np.arange(6.0).reshape(2, 3).T)


def test_arrays_in_trees_and_keywords_of_a_checkpoint_are_copied():
    @functad.checkpoint
    def f(tree, *, y):
        tree["w"] *= 2.0
        y[0] = 5.0
        return tree["w"], y

    w, y = np.ones(2), np.zeros(2)
    out = f({"w": w}, y=y)
    assert [part.tolist() for part in (*out, w, y)] == [[2.0, 2.0], [5.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
