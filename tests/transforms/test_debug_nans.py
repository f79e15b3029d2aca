"""`debug_nans`: the operation, the arguments and the line where a NaN was born, and silence about those that reach nothing."""

import asyncio
import gc
import threading
from functools import partial

import numpy as np
import pytest

import functad
from functad.errors import FunctadError, NotFiniteError
from tests.transforms import births
from tests.transforms.births import message

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
assert_born = partial(births.assert_born, __file__)
line = partial(births.line, __file__)


# Born in the function


def test_forward():
    def f(x):
        y = np.sin(x)
        z = np.log(y - 2)  # log of a negative number
        return np.sum(z * 3)

    text = message(functad.grad(f), np.array([0.0, 1.0]))
    assert_born(text, "log", "log of a negative number")
    assert "The value, in grad of test_forward.f, called at " in text
    assert "is nan" in text
    assert "x = float64[2] (-2 to -1.15853, -2 at [0])" in text
    assert "the result = float64[2] (2 not finite, nan at [0])" in text
    assert "np.where(mask, x, 1.0)" in text
    assert text.endswith("[not-finite]")


def test_from_infinities():
    def f(x):
        y = np.log(x)  # minus infinity
        return np.sum(y - y)  # infinity minus infinity

    text = message(functad.grad(f), np.array([1.0, 0.0]))
    assert_born(text, "subtract", "infinity minus infinity")
    assert "-inf at [1]" in text
    assert_born(text[text.index("The infinity among") :], "log", "minus infinity")


def test_the_element_decides():
    """Of two operations with a NaN in them, the one is named whose NaN is read."""

    def f(x):
        logs = np.log(x)
        roots = np.sqrt(x - 5)  # root of a negative number
        return np.stack([logs, roots])[1, 2] + 0.0 * np.sum(x)

    text = message(functad.grad(f), np.array([-1.0, 2.0, 3.0]))
    assert_born(text, "sqrt", "root of a negative number")
    assert "3 not finite" in text


def test_the_branch_decides():
    def f(x):
        return np.sum(np.where(x > 0, np.log(x), np.arcsin(x)))  # both branches

    text = message(functad.grad(f), np.array([2.0, -3.0]))
    assert_born(text, "arcsin", "both branches")
    assert "-3 at [1]" in text


def test_composite_is_named():
    def f(x):
        return np.mean(np.std(x, axis=0, ddof=3))  # too many degrees of freedom

    text = message(functad.grad(f), np.ones((2, 2)))
    assert_born(text, "std (by var)", "too many degrees of freedom")
    assert "ddof = 3" in text


def test_after_several_results():
    def f(a):
        s = np.linalg.svd(a @ a.T)[1]
        return np.sum(s) + np.log(s[0] * 0 - 1)  # log after svd

    assert_born(message(functad.grad(f), np.array([[1.0, 2.0], [3.0, 4.5]])), "log", "log after svd")


def test_constant():
    weights = np.array([1.0, np.nan])

    def f(x):
        return np.sum(x * weights)  # constant

    text = message(functad.grad(f), np.ones(2))
    assert f"was given to multiply at {__file__}:{line('constant')} as a constant" in text
    assert "nan at [1]" in text


def test_argument():
    text = message(functad.grad(lambda x, y: np.sum(x * y), argnums=(0, 1)), np.ones(2), np.array([1.0, np.nan]))
    assert "is in input 1 of the function already" in text


# Born in a derivative


@functad.strict_derivatives()  # zero times infinity is NaN
def test_backward():
    def f(x):
        y = x * x  # product of zeros
        return np.sqrt(y)  # root at zero

    text = message(functad.grad(f), 0.0)
    assert "The derivative, in grad of test_backward.f" in text
    assert_born(text, "the derivative of multiply", "product of zeros")
    assert "x = 0, y = 0; the result = 0; its cotangent = inf" in text
    assert_born(text[text.index("The infinity of its cotangent") :], "the derivative of sqrt", "root at zero")


@functad.strict_derivatives()  # zero times infinity is NaN
def test_backward_of_arrays_names_the_element():
    def f(x):
        return np.sum(np.sqrt(x * x))  # roots

    text = message(functad.grad(f), np.array([3.0, 0.0]))
    assert_born(text, "the derivative of multiply", "roots")
    assert "nan in 1 of 2 elements, first at [1]" in text
    assert "inf" in text


@functad.strict_derivatives()  # zero times infinity is NaN
def test_value_and_grad():
    def f(x):
        return np.sqrt(x * x)  # with the value

    assert_born(message(functad.value_and_grad(f), 0.0), "the derivative of multiply", "with the value")
    with_aux = functad.value_and_grad(lambda x: (f(x), "aux"), has_aux=True)
    assert_born(message(with_aux, 0.0), "the derivative of multiply", "with the value")


def test_jacobian():
    def f(x):
        return np.sqrt(x) - np.sqrt(x)  # rows

    text = message(functad.jacobian(f), np.array([1.0, 0.0]))
    assert "The derivative, in jacobian of test_jacobian.f" in text
    assert "It is a sum of infinities of both signs, of which one was born in the derivative of sqrt" in text
    assert_born(text, "the derivative of sqrt", "rows")


def test_value_of_vjp():
    text = message(lambda: functad.vjp(lambda x: x + np.log(x - 1), 0.0))  # at once
    assert "The value, in vjp" in text
    assert_born(text, "log", "at once")


def test_pullback_called_after_the_block():
    with functad.debug_nans():
        pullback = functad.vjp(lambda x: np.sqrt(x) - np.sqrt(x), 0.0)[1]  # pullback
    with pytest.raises(NotFiniteError) as raised:
        pullback(1.0)
    assert_born(str(raised.value), "the derivative of sqrt", "pullback")


def test_forward_mode():
    def f(x):
        return np.sqrt(x) - np.sqrt(x)  # tangents

    text = message(lambda: functad.jvp(f, (0.0,), (1.0,)))
    assert "The tangent, in jvp of" in text
    assert_born(text, "the derivative of subtract", "tangents")
    assert "its tangent = inf" in text
    assert_born(text[text.index("The infinity") :], "the derivative of sqrt", "tangents")


def test_forward_mode_value():
    def f(x):
        return np.log(x)  # pushed

    text = message(lambda: functad.jvp(f, (-1.0,), (1.0,)))
    assert "The value, in jvp of" in text
    assert_born(text, "log", "pushed")


def test_seed():
    text = message(lambda: functad.vjp(lambda x: x + 1, 0.0)[1](np.nan))
    assert "was handed in with the cotangent that the transform was given" in text
    text = message(lambda: functad.jvp(lambda x: x + 1, (0.0,), (np.nan,)))
    assert "was handed in with the tangent that the transform was given" in text


# Nested transforms


@functad.strict_derivatives()  # zero times infinity is NaN
def test_second_order_names_the_operation_whose_derivative_it_is():
    def f(x):
        y = x * x  # inner product
        return np.sqrt(y)  # inner root

    text = message(functad.grad(functad.grad(f)), 0.0)
    assert f"multiply, in the derivative of multiply at {__file__}:{line('inner product')}" in text
    assert f"in the derivative of sqrt at {__file__}:{line('inner root')}" in text


def test_inner_transforms_leave_it_to_the_outer_one():
    def slope(x):
        return functad.grad(lambda y: np.sqrt(y) - np.sqrt(y))(x)

    with functad.debug_nans():
        assert functad.grad(lambda x: np.where(x > 0, slope(x), 2 * x))(0.0) == 2.0
        assert functad.jvp(lambda x: np.where(x > 0, slope(x), 2 * x), (0.0,), (1.0,))[1] == 2.0
        with pytest.raises(NotFiniteError):
            slope(0.0)


@functad.strict_derivatives()  # zero times infinity is NaN
def test_forward_over_reverse():
    def f(x):
        return np.sum(np.sqrt(x * x))  # both modes

    x = np.array([0.0, 1.0])
    text = message(lambda: functad.jvp(functad.grad(f), (x,), (x,)))
    assert "in the derivative of" in text
    assert f":{line('both modes')}" in text


# What is no error


SILENT = [
    ("where", lambda x: np.sum(np.where(x > 0, np.log(x), 0.0))),
    ("index", lambda x: np.log(x)[1]),
    ("nansum", lambda x: np.nansum(np.log(x - 0.5))),
    ("mask", lambda x: np.sum(np.sqrt(x)[np.array([False, True])])),
    ("unused", lambda x: (np.log(-x), np.sum(x * x))[1]),
    ("fmax", lambda x: np.sum(np.fmax(np.log(x - 0.5), 0.0))),
    ("branch on a value", lambda x: np.sum(x) if np.isnan(np.log(-x)).any() else x[0]),
]


@pytest.mark.parametrize("row", SILENT, ids=lambda row: row[0])
def test_silent_where_nothing_reaches_the_result(row):
    f, x = row[1], np.array([0.0, 2.0])
    plain = functad.value_and_grad(f)(x), functad.jvp(f, (x,), (np.ones(2),)), functad.jacobian(functad.grad(f))(x)
    with functad.debug_nans():
        watched = functad.value_and_grad(f)(x), functad.jvp(f, (x,), (np.ones(2),)), functad.jacobian(functad.grad(f))(x)
    for a, b in zip((*plain[0], *plain[1], plain[2]), (*watched[0], *watched[1], watched[2]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_infinities_are_errors_on_demand():
    with functad.debug_nans():
        assert functad.grad(np.sqrt)(0.0) == np.inf
        assert functad.value_and_grad(np.log)(0.0)[0] == -np.inf

    def f(x):
        return np.sqrt(x)  # infinite derivative

    text = message(functad.grad(f), 0.0, infinities=True)
    assert_born(text, "the derivative of sqrt", "infinite derivative")
    assert "is infinity" in text
    text = message(lambda: functad.jvp(lambda x: np.sqrt(x), (0.0,), (1.0,)), infinities=True)
    assert "the derivative of sqrt" in text


# Watching changes nothing


def program(w):
    h = w["x"]
    total = 0.0
    for row in h:
        total += np.sum(np.tanh(row @ w["a"]) ** 2)
    u, s = np.linalg.svd(w["a"])[:2]
    a, b = np.split(np.concatenate([h, h * 2]), 2)
    return total + np.sum(np.sort(s)) + np.max(u * u) + np.sum(a[..., 0] * b[:, 1]) + np.einsum("ij,ij->", a, b) * h[0, 0]


def test_same_results():
    rng = np.random.default_rng(0)
    w = {"x": rng.normal(size=(3, 2)), "a": rng.normal(size=(2, 2))}
    t = {"x": rng.normal(size=(3, 2)), "a": rng.normal(size=(2, 2))}
    value, gradient = functad.value_and_grad(program)(w)
    pushed = functad.jvp(program, (w,), (t,))[1]
    bent = functad.grad(lambda w: np.sum(functad.grad(program)(w)["a"] ** 2))(w)
    with functad.debug_nans():
        watched, found = functad.value_and_grad(program)(w)
        assert watched == pytest.approx(value)
        for key, expected in gradient.items():
            np.testing.assert_allclose(found[key], expected, rtol=1e-12)
        assert functad.jvp(program, (w,), (t,))[1] == pytest.approx(pushed)
        again = functad.grad(lambda w: np.sum(functad.grad(program)(w)["a"] ** 2))(w)
        for key, expected in bent.items():
            np.testing.assert_allclose(again[key], expected, rtol=1e-10)


def test_abstract_traces_pass():
    with functad.debug_nans():
        expressions = functad.make_expressions(functad.grad(lambda x: np.sum(np.log(x))))(np.zeros(2))
        assert functad.eval_shape(functad.grad(np.sqrt), 1.0).shape == ()
    np.testing.assert_array_equal(expressions(np.array([1.0, 2.0])), [1.0, 0.5])


def test_under_strict_derivatives():
    def f(x):
        return np.where(x > 0, np.sqrt(x), 0.0)  # strictly

    with functad.strict_derivatives():
        text = message(functad.grad(f), 0.0)
    assert_born(text, "the derivative of sqrt", "strictly")
    assert "its cotangent = 0" in text


# The setting


@functad.strict_derivatives()  # zero times infinity is NaN
def test_decorates():
    @functad.debug_nans()
    def slope(x):
        return functad.grad(lambda x: np.sqrt(x * x))(x)

    for _ in range(2):
        with pytest.raises(NotFiniteError):
            slope(0.0)
    assert np.isnan(functad.grad(lambda x: np.sqrt(x * x))(0.0))


def test_ends_with_the_block():
    with pytest.raises(NotFiniteError), functad.debug_nans():
        functad.grad(lambda x: np.log(x - 1))(0.0)
    assert functad.value_and_grad(lambda x: np.log(x - 1))(0.0)[1] == -1


def test_threads_and_coroutines_do_not_meet():
    def slope():
        return functad.grad(lambda x: np.sqrt(x) - np.sqrt(x))(0.0)

    found = []

    def work():
        with np.errstate(all="ignore"):
            found.append(slope())

    async def watched(entered, left):
        with functad.debug_nans():
            entered.set()
            await left.wait()
            with pytest.raises(NotFiniteError):
                slope()

    async def both():
        entered, left = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(watched(entered, left))
        await entered.wait()
        result = slope()
        left.set()
        await task
        return result

    with functad.debug_nans():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert np.isnan(found[0])
    assert np.isnan(asyncio.run(both()))


def test_error_is_catalogued():
    assert issubclass(NotFiniteError, FunctadError)
    assert issubclass(NotFiniteError, FloatingPointError)
    assert NotFiniteError.code == "not-finite"


@functad.strict_derivatives()  # zero times infinity is NaN
def test_long_loops():
    """Contributions that are finite are not kept: reading an array element by element takes no memory to speak of."""
    n = 2000

    def f(x):
        total = 0.0
        for v in x:
            total = total + v * v
        return np.sqrt(total)  # after the loop

    text = message(functad.grad(f), np.zeros(n))
    assert f"the derivative of sqrt at {__file__}:{line('after the loop')}" in text


# Batches


@pytest.mark.parametrize("big", [3, 5000])
def test_batches(big):
    x = np.linspace(0.5, 2.0, big)

    def f(x):
        return np.where(x > 1, np.log(x - 1), x)

    expected = functad.vmap(f)(x), functad.vmap(functad.grad(f), chunk_size=2)(x[:4])
    with functad.debug_nans(), np.errstate(all="ignore"):
        found = functad.vmap(f)(x), functad.vmap(functad.grad(f), chunk_size=2)(x[:4])
        same, whole, flag = functad.vmap(lambda x, n: (x, n + 1, x > n))(x, np.arange(big))
        doubled = functad.vmap(lambda x: functad.while_loop(lambda c: c < 4, lambda c: c * 2, x))(x)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.shares_memory(same, x)
    assert same.flags.writeable
    assert (same == x).all()
    assert (whole == np.arange(big) + 1).all()
    assert flag.dtype == bool
    assert doubled.min() >= 4


@pytest.mark.parametrize(
    ("call", "born"),
    [
        (lambda x: functad.vmap(lambda x: np.log(x))(x), "in log at"),
        (lambda x: functad.vmap(lambda x: np.log(x), chunk_size=2)(x), "in log at"),
        (
            lambda x: functad.vmap(functad.grad(lambda x: np.sqrt(x * x)))(x * x[1]),
            "in multiply, in the derivative of multiply at",
        ),
        (lambda x: functad.vmap(functad.vmap(lambda x: np.log(x)))(x[None]), "in log at"),
        (lambda x: functad.vmap(lambda x, n: np.log(x) * n)(x, np.arange(3)), "in log at"),
    ],
)
@functad.strict_derivatives()  # zero times infinity is NaN
def test_nans_of_batches(call, born):
    message = r"in vmap of \S+, called at \S+test_debug_nans.py:\d+, is nan"
    with functad.debug_nans(), np.errstate(all="ignore"), pytest.raises(NotFiniteError, match=message) as found:
        call(np.array([-1.0, 0.0, 2.0]))
    assert f"It was born {born}" in str(found.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: functad.vmap(functad.grad(f))(x[:, None]),
        lambda f, x: functad.vmap(functad.grad(f), chunk_size=1)(x[:, None]),
        lambda f, x: functad.vmap(functad.vmap(functad.grad(f)))(x[:, None, None]),
        lambda f, x: functad.hessian(f)(x),
        lambda f, x: functad.hvp(f, (x,), (x,)),
        lambda f, x: functad.make_expressions(f)(x)(x),
        lambda f, x: functad.grad(functad.make_expressions(f)(x))(x),
        lambda f, x: functad.vmap(functad.make_expressions(f)(x[:1]))(x[:, None]),
    ],
)
def test_values_that_no_transform_around_returns(call):
    x = np.array([0.0, 1.0])

    def f(x):
        return np.sum(np.log(x) * 0.0)  # -inf * 0; the derivative is finite

    with np.errstate(all="ignore"):
        call(f, x)
        with functad.debug_nans(), pytest.raises(NotFiniteError, match="It was born in multiply at"):
            call(f, x)


def test_a_value_that_the_function_does_not_choose_is_no_error():
    def f(x):
        slope = functad.grad(lambda x: np.log(x) * 0.0)(x)
        return np.where(x > 0, slope, x)

    with functad.debug_nans(), np.errstate(all="ignore"):
        assert functad.grad(f)(0.0) == 1.0


@pytest.mark.usefixtures("small_heap")
def test_a_monitor_is_in_no_cycle():
    def call():
        with functad.debug_nans():
            functad.grad(lambda x: np.sum(np.sin(x) * x))(np.arange(3.0))
            functad.vmap(functad.grad(np.sin))(np.arange(3.0))
            functad.jvp(np.sin, (1.0,), (1.0,))

    call()
    gc.collect()
    gc.disable()
    try:
        call()
        assert gc.collect() == 0
    finally:
        gc.enable()
