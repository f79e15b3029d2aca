"""Control flow as functions: what they compute, what they refuse, and how they stand in an expression list."""

import math
import re
from functools import partial

import numpy as np
import pytest

import functad
from functad import errors
from tests.work import work

F32 = np.float32
LAMBDA = r"<lambda>"


def ways(f):
    """Return `f` computed directly, as an expression list, and batched."""

    def listed(*args):
        return functad.make_expressions(f)(*args).check()(*args)

    def batched(*args):
        whole = functad.vmap(f)(*[np.stack([arg, arg]) for arg in args])
        return functad.tree_map(lambda leaf: leaf[1], whole)

    return {"direct": f, "listed": listed, "batched": batched}


each_way = pytest.mark.parametrize("way", ["direct", "listed", "batched"])


# Values


@each_way
def test_cond_takes_one_branch(way):
    f = ways(lambda x: functad.cond(np.sum(x) > 0, lambda x, y: {"a": x * y}, lambda x, y: {"a": x - y}, x, 2.0))[way]
    np.testing.assert_array_equal(f(np.array([1.0, 2.0]))["a"], [2.0, 4.0])
    np.testing.assert_array_equal(f(np.array([-1.0, -2.0]))["a"], [-3.0, -4.0])


def test_cond_with_a_known_predicate_calls_no_other_function():
    def never(x):
        raise AssertionError

    assert functad.cond(True, np.negative, never, 2.0) == -2.0
    assert functad.grad(lambda x: functad.cond(x < 0, never, np.square, x))(3.0) == 6.0
    assert functad.make_expressions(lambda x: functad.cond(False, never, np.square, x))(3.0)(3.0) == 9.0
    assert functad.vmap(lambda x: functad.cond(1, np.square, never, x))(np.array([3.0])) == 9.0


@each_way
@pytest.mark.parametrize("index", [-3, 0, 1, 2, 7])
def test_switch_takes_the_nearest_index_that_there_is(way, index):
    branches = [lambda x: x + 1, lambda x: x * 10, lambda x: 0.5]
    f = ways(lambda i, x: functad.switch(i, branches, x))[way]
    assert f(np.int64(index), np.float64(3.0)) == [4.0, 30.0, 0.5][min(max(index, 0), 2)]


@each_way
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_while_loop(way, steps):
    f = ways(
        lambda n, x: functad.while_loop(lambda s: s["i"] < n, lambda s: {"i": s["i"] + 1, "x": s["x"] * 2}, {"i": 0, "x": x})
    )
    found = f[way](np.int64(steps), np.array([1.0, 3.0]))
    assert found["i"] == steps
    np.testing.assert_array_equal(found["x"], np.array([1.0, 3.0]) * 2**steps)


@each_way
@pytest.mark.parametrize(("lower", "upper"), [(0, 4), (2, 5), (-2, 1), (3, 3), (4, 1)])
def test_fori_loop_counts_like_range(way, lower, upper):
    expected = 1.0
    for i in range(lower, upper):
        expected = expected * 3 + i
    for bounds in ("known", "given"):
        if bounds == "known":
            f = ways(lambda x: functad.fori_loop(lower, upper, lambda i, y: y * 3 + i, x))[way]
            assert f(np.float64(1.0)) == expected
        else:
            f = ways(lambda a, b, x: functad.fori_loop(a, b, lambda i, y: y * 3 + i, x))[way]
            assert f(np.int64(lower), np.int64(upper), np.float64(1.0)) == expected


@each_way
@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (np.uint8(250), 300),
        (np.int8(120), np.int64(130)),
        (np.int8(-3), np.uint64(2)),
        (257, np.int8(5)),
        (-2, np.uint8(3)),
        (np.uint8(1), np.uint8(0)),
    ],
)
def test_fori_loop_counts_beyond_the_dtypes_of_its_bounds(way, lower, upper):
    expected = sum(range(int(lower), int(upper)))

    def total(a, b):
        return functad.fori_loop(a, b, lambda i, y: y + i, np.int64(0))

    assert ways(total)[way](lower, upper) == expected
    assert ways(lambda a: total(a, upper))[way](np.asarray(lower)[()]) == expected
    assert ways(lambda b: total(lower, b))[way](np.asarray(upper)[()]) == expected
    assert functad.jit(total)(lower, upper) == expected
    assert functad.vmap(total)(np.array([lower]), np.array([upper])) == [expected]


def test_steps_that_need_values_run_without_rows():
    def positive(x):
        return x if np.sum(x) > 0 else -x

    for rows in (np.zeros((0, 3)), np.zeros(0, F32)):
        for found in (functad.map(positive, rows), functad.grad(lambda x: np.sum(functad.map(positive, x)))(rows)):
            np.testing.assert_array_equal(found, rows, strict=True)

    def step(c, x):
        return (c + x, (math.sin(x), c)) if x > 0 else (c, (0.0, c))

    carry, (sines, carries) = functad.scan(step, np.float64(2.0), np.zeros(0))
    assert carry == 2
    assert sines.shape == carries.shape == (0,)
    assert functad.grad(lambda c: functad.scan(step, c, np.zeros(0))[0])(2.0) == 1


def test_error_of_a_step_without_rows_names_the_reason_and_the_fix():
    def refusing(x):
        if np.sum(x) > 0:
            raise ValueError("positive!")
        return x

    with pytest.raises(
        errors.ControlFlowError, match=r"map of .*refusing, called at .*: there are no rows, so .* Return the empty"
    ):
        functad.map(refusing, np.zeros((0, 3)))
    with pytest.raises(errors.AbstractValueError, match=r"map of .*refusing traces without values"):
        functad.jit(lambda x: functad.map(refusing, x))(np.zeros((2, 3)))


@each_way
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan(way, reverse, length):
    def f(h, xs, k):
        return functad.scan(lambda c, x: ((c[0] * x["a"], c[1] + x["b"]), {"y": c[1] * x["a"]}), (h, k), xs, reverse=reverse)

    rng = np.random.default_rng(0)
    xs = {"a": rng.normal(size=length), "b": rng.normal(size=(length, 2))}
    c, ys = (1.5, np.ones(2)), [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        ys[i] = c[1] * xs["a"][i]
        c = c[0] * xs["a"][i], c[1] + xs["b"][i]
    g = ways(lambda h, a, b, k: f(h, {"a": a, "b": b}, k))[way]
    (first, second), found = g(np.float64(1.5), xs["a"], xs["b"], np.ones(2))
    np.testing.assert_allclose(first, c[0], rtol=1e-15)
    np.testing.assert_allclose(second, c[1], rtol=1e-15)
    assert found["y"].shape == (length, 2)
    np.testing.assert_allclose(found["y"], np.array(ys).reshape(length, 2), rtol=1e-15)


@each_way
def test_scan_without_rows_and_without_results(way):
    f = ways(lambda x: functad.scan(lambda c, _: (c * x, None), 1.0, length=3))[way]
    carry, ys = f(np.float64(2.0))
    assert carry == 8.0
    assert ys is None


@each_way
def test_map_stacks_what_rows_give(way):
    f = ways(lambda a, b: functad.map(lambda row: {"s": row["a"] @ row["a"] + row["b"], "t": (row["b"],)}, {"a": a, "b": b}))
    found = f[way](np.arange(6.0).reshape(3, 2), np.arange(3.0))
    np.testing.assert_array_equal(found["s"], [1.0, 14.0, 43.0])
    np.testing.assert_array_equal(found["t"][0], np.arange(3.0))


@each_way
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_cumulative(way, length, reverse):
    """The product of affine maps is associative and not commutative."""

    def compose(f, g):
        return g[0] * f[0], g[0] * f[1] + g[1]

    rng = np.random.default_rng(length)
    a, b = rng.normal(size=(2, length)), rng.normal(size=(2, length))
    f = ways(lambda a, b: functad.associative_scan(compose, (a, b), reverse=reverse, axis=1))[way]
    order = list(range(length))[:: -1 if reverse else 1]
    expected = np.zeros((2, 2, length))
    so_far = None
    for i in order:
        own = a[:, i], b[:, i]
        so_far = own if so_far is None else compose(so_far, own)
        expected[0, :, i], expected[1, :, i] = so_far
    np.testing.assert_allclose(np.array(f(a, b)), expected, rtol=1e-12, atol=1e-14)


def test_associative_scan_calls_its_function_logarithmically_often():
    calls = []

    def add(x, y):
        calls.append(x.shape)
        return x + y

    np.testing.assert_allclose(functad.associative_scan(add, np.ones(1000)), np.arange(1, 1001))
    assert len(calls) <= 2 * np.log2(1000)


# Python numbers as carry


@each_way
def test_python_numbers_take_the_dtype_of_the_body(way):
    f = ways(lambda xs: functad.scan(lambda c, x: ((c[0] + x, c[1] + 1), c[0]), (0, 0), xs))[way]
    (total, count), before = f(np.ones(3, F32))
    assert total.dtype == before.dtype == np.float32
    assert (total, count) == (3.0, 3)
    np.testing.assert_array_equal(before, [0.0, 1.0, 2.0])


@each_way
def test_python_numbers_for_an_array_are_brought_to_its_dtype(way):
    f = ways(lambda x: functad.while_loop(lambda c: c[0] > 1, lambda c: (0, c[1] + c[0]), (x, x)))[way]
    first, second = f(F32(2.0))
    assert first.dtype == second.dtype == np.float32
    assert (first, second) == (0.0, 4.0)


def test_branches_may_return_python_numbers():
    f = ways(lambda x: functad.cond(x > 0, lambda: 1, lambda: F32(0.5)))
    assert f["listed"](F32(1.0)) == f["batched"](F32(1.0)) == 1.0
    assert f["listed"](F32(1.0)).dtype == f["batched"](F32(1.0)).dtype == np.float32


# What is refused


def _message(error, *parts):
    return ".*".join([*map(re.escape, parts), rf"\[{error.code}\]"])


REFUSED = {
    "another structure": (
        lambda x: functad.scan(lambda c, _: ({"h": c["h"], "k": x}, None), {"h": x}, length=2),
        ["scan of", "carry should be a dict with keys ['h'], not a dict with keys ['h', 'k']"],
    ),
    "another shape": (
        lambda x: functad.while_loop(lambda c: c["h"][0][0] < 9, lambda c: {"h": [c["h"][0][:1]]}, {"h": [x]}),
        ["while_loop of", "carry['h'][0] is float32[2] at first and float32[1] later", "begin with one of shape (1,)"],
    ),
    "another dtype": (
        lambda x: functad.fori_loop(0, 2, lambda i, c: (c[0].astype(float), c[1]), (x, x)),
        ["fori_loop of", "carry[0] is float32[2] at first and float64[2] later", "Return .astype('float32') of it"],
    ),
    "a number becomes an array": (
        lambda x: functad.fori_loop(0, 2, lambda i, c: c + x, 0.0),
        ["carry is float[] at first and float32[2] later", "begin with one of shape (2,)"],
    ),
    "an integer becomes a float": (
        lambda x: functad.fori_loop(0, 2, lambda i, c: c + 0.5, np.int64(1)),
        ["carry is int64[] at first and float", "later"],
    ),
    "no pair": (lambda x: functad.scan(lambda c, r: c, 0.0, x), ["scan of", "must return a pair (carry, y)"]),
    "no array": (lambda x: functad.scan(lambda c, r: (c, "a"), 0.0, x), ["y is a str, not an array or a number"]),
    "no array to begin with": (lambda x: functad.scan(lambda c, r: (c, r), {"a": "s"}, x), ["carry['a'] is a str"]),
    "lengths": (lambda x: functad.scan(lambda c, r: (c, c), 0.0, (x, x[:1])), ["xs[0] has 2 rows, but xs[1] has 1 rows"]),
    "length": (lambda x: functad.scan(lambda c, r: (c, c), 0.0, x, 3), ["length is 3, but xs has 2 rows"]),
    "negative length": (lambda x: functad.scan(lambda c, r: (c, c), x, length=-1), ["scan of", "length is -1"]),
    "no length": (lambda x: functad.scan(lambda c, r: (c, c), x), ["the number of steps must be given: length="]),
    "no rows": (lambda x: functad.map(np.sin, x[0]), ["map of sin", "xs is float32[], which has no rows"]),
    "predicate of a shape": (lambda x: functad.cond(x > 0, np.sin, np.cos, x), ["cond, called", "not bool[2]", "np.where"]),
    "condition of a shape": (lambda x: functad.while_loop(lambda c: c > 0, np.sin, x), ["must return a bool", "not bool[2]"]),
    "condition that is no number": (lambda x: functad.while_loop(lambda c: "yes", np.sin, x), ["must return a bool", "a str"]),
    "index that is no integer": (lambda x: functad.switch(1.5, [np.sin], x), ["index must be an integer", "not float[]"]),
    "no branches": (lambda x: functad.switch(0, [], x), ["at least one branch"]),
    "bound that is no integer": (lambda x: functad.fori_loop(0, 2.0, np.add, x), ["upper must be an integer", "not float[]"]),
    "axis": (
        lambda x: functad.associative_scan(np.add, x, axis=1),
        ["associative_scan of add", "float32[2], which has no axis 1"],
    ),
    "different axes": (lambda x: functad.associative_scan(np.add, (x, x[:1])), ["different lengths along axis 0: [1, 2]"]),
    "what it was not given": (
        lambda x: functad.associative_scan(lambda a, b: (a, b), x),
        ["must return what it is given", "result should be a leaf, not a tuple of 2"],
    ),
}


@pytest.mark.parametrize("mode", ["direct", "listed", "batched", "grad", "jvp"])
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_place(case, mode):
    f, parts = REFUSED[case]
    x = np.ones(2, F32)
    total = lambda x: np.sum(functad.tree_map(np.sum, f(x)))  # noqa: E731
    call = {
        "direct": partial(f, x),
        "listed": partial(functad.make_expressions(f), x),
        "batched": partial(functad.vmap(f), np.stack([x, x])),
        "grad": partial(functad.grad(total), x),
        "jvp": partial(functad.jvp, f, (x,), (x,)),
    }[mode]
    with pytest.raises(errors.ControlFlowError, match=_message(errors.ControlFlowError, f"{__file__}:", *parts[1:])) as caught:
        call()
    assert parts[0] in str(caught.value)


DISAGREEING = {
    "structure": (lambda x: functad.cond(x > 0, lambda x: x, lambda x: (x, x), x), "result should be a tuple of 2, not a leaf"),
    "shape": (
        lambda x: functad.switch((x > 0).astype(int), [np.sin, lambda x: x * np.ones(3)], x),
        "float64[] at first and float64[3]",
    ),
    "dtype": (
        lambda x: functad.cond(x > 0, lambda x: x.astype(F32), lambda x: x, x),
        "result is float64[] at first and float32[] later",
    ),
}


@pytest.mark.parametrize("case", DISAGREEING)
def test_branches_must_agree_where_all_are_computed(case):
    f, text = DISAGREEING[case]
    for call in (partial(functad.make_expressions(f), np.float64(1.0)), partial(functad.vmap(f), np.ones(2))):
        with pytest.raises(errors.ControlFlowError, match=re.escape(text)):
            call()


def test_results_must_agree_from_step_to_step():
    with pytest.raises(errors.ControlFlowError, match=r"y is float64\[1\] at first and float64\[2\] later"):
        functad.scan(lambda c, _: (c + 1, np.ones(c)), 1, length=3)


# Writing in place


@pytest.mark.parametrize("mode", ["direct", "listed", "batched", "jvp", "vjp"])
def test_bodies_may_write_into_what_they_are_given(mode):
    def step(c, x):
        c += x
        x *= 0
        return c, c

    def f(a, xs):
        return functad.scan(step, a, xs)

    a, xs = np.zeros(2), np.ones((3, 2))
    carry, ys = {
        "direct": lambda: f(a, xs),
        "listed": lambda: functad.make_expressions(f)(a, xs)(a, xs),
        "batched": lambda: functad.tree_map(lambda leaf: leaf[0], functad.vmap(f)(a[None], xs[None])),
        "jvp": lambda: functad.jvp(f, (a, xs), (a, xs))[0],
        "vjp": lambda: functad.vjp(f, a, xs)[0],
    }[mode]()
    np.testing.assert_array_equal(carry, [3.0, 3.0])
    np.testing.assert_array_equal(ys, [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    np.testing.assert_array_equal(a, np.zeros(2))
    np.testing.assert_array_equal(xs, np.ones((3, 2)))


def test_finished_examples_stay_what_they_are_when_the_body_writes_in_place():
    def body(c):
        c += 1.0
        return c

    def f(n, a):
        return functad.while_loop(lambda c: c[0] < n, body, a)

    np.testing.assert_array_equal(functad.vmap(f)(np.array([0.0, 2.0, 4.0]), np.zeros((3, 2)))[:, 1], [0.0, 2.0, 4.0])


def test_a_branch_that_writes_leaves_the_operands_of_the_other():
    def writing(x):
        x *= 100
        return x

    f = functad.vmap(lambda x: functad.cond(x[0] > 0, lambda x: x + 1, writing, x))
    np.testing.assert_array_equal(f(np.array([[1.0], [-1.0]])), [[2.0], [-100.0]])


# What was not selected


POISONED = {
    "cond": lambda x: functad.cond(x > 0, lambda x: x * np.log(x), lambda x: x * 0.0 + 1.0, x),
    "cond with closures": lambda x: functad.cond(x > 0, lambda: x * np.log(x), lambda: x * 0.0),
    "switch": lambda x: functad.switch(np.sign(x).astype(int) + 1, [lambda x: x, lambda x: x, lambda x: x * np.log(x)], x),
    "while_loop": lambda x: functad.while_loop(
        lambda s: s[1] < 3 * (x > 0), lambda s: (s[0] * np.sqrt(s[0]), s[1] + 1), (x, 0)
    )[0],
}


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("case", POISONED)
def test_what_is_not_selected_does_not_poison(case):
    f, g = POISONED[case], functad.grad(POISONED[case])
    xs = np.array([0.5, 2.0, -1.0, 0.0])
    expected = np.array([g(x) for x in xs])
    second = np.array([functad.grad(g)(x) for x in xs])
    assert np.isfinite(expected).all()
    assert np.isfinite(second).all()
    total = functad.grad(lambda xs: np.sum(functad.vmap(f)(xs)))
    for found in (
        functad.vmap(g)(xs),
        total(xs),
        functad.make_expressions(functad.vmap(g))(xs)(xs),
        functad.make_expressions(total)(xs)(xs),
        functad.vmap(functad.make_expressions(g)(1.0))(xs),
        functad.jvp(functad.vmap(f), (xs,), (np.ones(4),))[1],
        np.array([functad.make_expressions(g)(1.0)(x) for x in xs]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(functad.vmap(functad.grad(g))(xs), second, rtol=1e-12)
    np.testing.assert_allclose(functad.make_expressions(functad.vmap(functad.grad(g)))(xs)(xs), second, rtol=1e-12)


def test_computing_all_branches_gives_no_warnings():
    f = functad.vmap(lambda x: functad.cond(x > 0, np.log, lambda x: x, x))
    np.testing.assert_array_equal(f(np.array([1.0, 0.0])), [0.0, 0.0])


# Expression lists


def test_loops_are_one_equation_and_print_their_bodies():
    def root(a):
        return functad.while_loop(lambda x: x * x > a, lambda x: (x + a / x) / 2, 10.0)

    expressions = functad.make_expressions(root)(2.0).check()
    lines = [
        "{ lambda a:float[].",
        "  b:float[] = while_loop[carries=1] 10.0 a",
        "    cond: { lambda x:float[] outer[0]:float[].",
        "      a:float[] = multiply x x",
        "      b:bool[] = greater a outer[0]",
        "      return b }",
        "    body: { lambda x:float[] outer[0]:float[].",
        "      a:float[] = divide outer[0] x",
        "      b:float[] = add x a",
        "      c:float[] = divide b 2",
        "      return c }",
        "  return b }",
    ]
    assert repr(expressions).splitlines() == lines
    assert expressions(2.0) == root(2.0)


def test_the_gradient_of_a_scan_is_a_scan_backwards_that_keeps_what_its_rules_read():
    def f(w, xs):
        return functad.scan(lambda c, x: (c * w, np.sin(x)), 1.0, xs)[0]

    expressions = functad.make_expressions(functad.grad(f))(2.0, np.ones(3)).check()
    forward, backward = [e for e in expressions.equations if e.primitive.name == "scan"]
    assert (forward.params["reverse"], backward.params["reverse"]) == (False, True)
    kept = forward.outputs[2:]  # behind the carry and the results
    assert [repr(expressions.specs[slot]) for slot in kept] == ["float64[3]"]  # the carries; the cosines are not needed
    assert set(kept) <= set(backward.inputs)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: functad.cond(x > 0, np.sin, np.cos, x),
        lambda x: functad.switch(np.int64(1) + (x > 0), [np.sin, np.cos], x),
        lambda x: functad.while_loop(lambda c: c < 9, lambda c: c * 2, x),
        lambda x: functad.fori_loop(0, 100, lambda i, c: np.sin(c), x),
        lambda x: functad.scan(lambda c, _: (np.sin(c), c), x, length=100)[0],
        lambda x: functad.scan(lambda c, _: (c * x, None), 1.0, length=100)[0],
        lambda x: functad.scan(lambda c, _: (c * x, c), 1.0, length=100, reverse=True)[0],
        lambda x: functad.fori_loop(0, 100, lambda i, c: c * x, 1.0),
        lambda x: functad.map(lambda row: row * x, np.ones(100)).sum(),
    ],
)
def test_the_length_of_a_list_does_not_depend_on_the_number_of_steps(f):
    for transform, most in ((lambda f: f, 5), (functad.grad, 20), (lambda f: lambda x: functad.jvp(f, (x,), (x,)), 20)):
        assert len(functad.make_expressions(transform(f))(1.0).check().equations) <= most


def test_check_looks_into_bodies():
    expressions = functad.make_expressions(lambda x: functad.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0)
    (equation,) = expressions.equations
    body = equation.params["body"]
    wrong = type(body)(
        body.inputs, body.equations[::-1], body.outputs, body.specs[::-1], body.input_structure, body.output_structure
    )
    changed = type(equation)(equation.primitive, equation.inputs, {**equation.params, "body": wrong}, equation.outputs)
    broken = type(expressions)(
        expressions.inputs,
        (changed,),
        expressions.outputs,
        expressions.specs,
        expressions.input_structure,
        expressions.output_structure,
    )
    with pytest.raises(errors.CheckError):
        broken.check()


def test_what_bodies_use_from_outside_becomes_an_input_once():
    def f(w, b):
        return functad.cond(np.sum(w) > b, lambda x: x @ w + np.sum(w) * b, lambda x: x @ w - b, np.ones(2))

    expressions = functad.make_expressions(f)(np.ones(2), 1.0).check()
    cond = expressions.equations[-1]
    assert cond.primitive.name == "cond"
    assert len(cond.inputs) == 5  # predicate, operand, w, b, and the product, which no operand is part of
    assert [body.inputs for body in cond.params["branches"]] == [("x", "outer[0]", "outer[1]", "outer[2]")] * 2
    for w in (np.ones(2), -np.ones(2)):
        np.testing.assert_allclose(expressions(w, 1.0), f(w, 1.0))


def test_a_loop_meets_a_trace_without_values_on_its_way():
    """The first steps see only numbers; then what the body uses from outside decides."""

    def f(x):
        return functad.grad(lambda w: functad.while_loop(lambda c: c < 40, lambda c: c * w, 1.0))(x)

    assert functad.make_expressions(f)(2.0).check()(3.0) == f(3.0) == 4 * 27.0


def test_variables_are_followed_through_loops():
    v = functad.Variable(2.0)
    with functad.GradientTape() as tape:
        y = functad.scan(lambda c, x: (c * v + x, None), v, np.ones(3))[0]
    # v^4 + v^2 + v + 1
    assert tape.gradient(y, v).numpy() == 4 * 8.0 + 4.0 + 1.0


# Cost


@pytest.mark.parametrize("listed", [False, True])
def test_the_backward_pass_of_a_scan_takes_linear_work_and_memory(listed):
    w = np.full((4, 4), 0.1)

    def loss(h, xs):
        h, ys = functad.scan(lambda h, x: (np.tanh(w @ h + x), h), h, xs)
        return np.sum(h) + np.sum(ys * ys)

    def cost(n):
        args = np.zeros(4), np.ones((n, 4))
        g = functad.grad(loss, (0, 1))
        return work(partial(functad.make_expressions(g)(*args) if listed else g, *args))

    few, many = cost(250), cost(2000)
    assert many.calls < 9 * few.calls
    assert many.allocated < 12 * few.allocated
    assert many.peak < 12 * few.peak
    if listed:
        assert many.peak / 2000 < 1000  # bytes a step: xs, ys, two stacked vectors, their cotangents


def _with_loops_of_nothing(x):
    y = np.sin(x)
    functad.scan(lambda c, row: ((), None), (), x)
    functad.while_loop(lambda c: False, lambda c: c, ())
    functad.cond(x[0] > 0, lambda x: (), lambda x: (), x)
    return np.sum(y * 2.0)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_loops_without_results_in_lists(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    x = np.array([0.3, 0.6])
    jit = partial(functad.jit, backend=backend)
    for gradient in (functad.grad(_with_loops_of_nothing), functad.make_expressions(functad.grad(_with_loops_of_nothing))(x)):
        np.testing.assert_allclose(gradient(x), 2.0 * np.cos(x))
    np.testing.assert_allclose(jit(functad.grad(_with_loops_of_nothing))(x), 2.0 * np.cos(x))
    np.testing.assert_allclose(functad.grad(jit(_with_loops_of_nothing))(x), 2.0 * np.cos(x))
    np.testing.assert_allclose(jit(functad.hessian(_with_loops_of_nothing))(x), -2.0 * np.diag(np.sin(x)))


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_the_second_pullback_of_a_compiled_loop_whose_start_is_constant(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")

    def loop(x, z):
        start = 0, (np.zeros(2), np.zeros(1))
        return functad.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, (np.cos(x), z * 2.0)), start)[1]

    x, z = np.array([1.0, 2.0]), np.array([1.0])
    values, pull = functad.vjp(functad.jit(loop, backend=backend), x, z)
    zeros = functad.tree_map(np.zeros_like, values)
    found = functad.vjp(lambda *gs: pull(gs), *zeros)[1]((x, z))
    np.testing.assert_allclose(found[0], -np.sin(x) * x)
    np.testing.assert_allclose(found[1], 2.0 * z)


@pytest.mark.parametrize("length", [2.0, "2", -1])
def test_a_length_that_is_no_count_is_refused(length):
    with pytest.raises(functad.errors.ControlFlowError, match=r"test_control\.py.*length is"):
        functad.scan(lambda carry, x: (carry, carry), 0.0, None, length=length)
