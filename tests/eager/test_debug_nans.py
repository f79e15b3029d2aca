"""`debug_nans` on tapes, the functional forms, graphs and accumulators: where the NaN was born that reached a result."""

import gc
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import GradientTape
from functad.errors import NotFiniteError

LINES = Path(__file__).read_text().splitlines()


@pytest.fixture(autouse=True)
def _silence():
    with np.errstate(all="ignore"):
        yield


def line(mark):
    return next(number for number, text in enumerate(LINES, 1) if text.endswith(f"# {mark}"))


def message(call, *args, infinities=False):
    """Return the message that a call raises under `debug_nans`."""
    with functad.debug_nans(infinities=infinities), pytest.raises(NotFiniteError) as raised:
        call(*args)
    return str(raised.value)


def assert_born(text, operation, mark):
    found = re.search(r"was born in (.*?) at ([^ ]*?):(\d+): ", text)
    assert found, text
    assert found[1] == operation, text
    assert Path(found[2]) == Path(__file__)
    assert int(found[3]) == line(mark), text


def gradient(f, *values, **options):
    """Ask a tape for the gradients of a function of watched constants."""
    xs = [functad.constant(value) for value in values]
    with GradientTape(**options) as tape:
        tape.watch(xs)
        y = f(*xs)
    return tape.gradient(y, xs)  # asked here


@pytest.mark.parametrize("persistent", [False, True])
def test_forward(persistent):
    def f(x):
        y = np.log(np.sin(x) - 2)  # log of a negative number
        return np.sum(y * 3)

    text = message(lambda: gradient(f, np.array([0.0, 1.0]), persistent=persistent))
    assert_born(text, "log", "log of a negative number")
    assert text.startswith(
        f"The target, asked of a GradientTape at {__file__}:{line('asked here')}, is nan. It was born in log"
    )
    assert "x = float64[2] (-2 to -1.15853, -2 at [0])" in text


@functad.strict_derivatives()  # zero times infinity is NaN
def test_backward():
    def f(x):
        return np.sqrt(x * x)  # root at zero

    text = message(gradient, f, 0.0)
    assert_born(text, "the derivative of multiply", "root at zero")
    assert "The infinity of its cotangent was born in the derivative of sqrt at " in text
    assert text.startswith(f"The gradient, asked of a GradientTape at {__file__}:{line('asked here')}, is nan.")


@functad.strict_derivatives()  # zero times infinity is NaN
def test_variables_are_named():
    w, b = functad.Variable([1.0, 0.0], name="w"), functad.Variable(2.0, name="b")

    def step():
        with GradientTape() as tape:
            loss = np.sum(np.sqrt(w * w) * b)  # root of a square
        return tape.gradient(loss, {"w": w, "b": b})

    text = message(step)
    assert_born(text, "the derivative of multiply", "root of a square")
    assert text.startswith("The gradient by the Variable 'w', asked of a GradientTape at ")
    assert "nan in 1 of 2 elements, first at [1]" in text
    w.assign([np.nan, 1.0])
    assert "It is in the Variable 'w' already." in message(step)


def test_constant_and_watched_tensor():
    weights = np.array([1.0, np.nan])
    text = message(gradient, lambda x: np.sum(x * weights), np.ones(2))
    assert "as a constant, one that does not depend on anything that the tape follows" in text
    assert "It is in a Tensor that was given to the tape already." in message(gradient, lambda x: np.sum(x), np.array([np.nan]))


def test_output_gradients():
    def run():
        x = functad.constant([1.0, 2.0])
        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x, output_gradients=[np.array([np.nan, 1.0])])

    assert "It was handed in with the cotangent that the tape was given." in message(run)


@functad.strict_derivatives()  # zero times infinity is NaN
def test_of_the_functional_forms():
    def f(x):
        return np.sum(np.sqrt(x * x))  # in a function

    w = functad.Variable(0.0, name="scale")
    calls = [
        lambda: functad.gradients_function(f)(np.zeros(2)),
        lambda: functad.value_and_gradients_function(f)(np.zeros(2)),
        lambda: functad.make_vjp(f)(np.zeros(2))[1](),
        lambda: functad.implicit_gradients(lambda: f(w))(),
        lambda: functad.implicit_value_and_gradients(lambda: f(w))(),
    ]
    for call in calls:
        text = message(call)
        assert_born(text, "the derivative of multiply", "in a function")
    assert text.startswith("The gradient by the Variable 'scale'")


@functad.strict_derivatives()  # zero times infinity is NaN
def test_of_a_graph():
    def run():
        with functad.graph():
            x = functad.constant(0.0)
            y = np.sqrt(x * x)  # in a graph
            return functad.gradients(y, x)

    text = message(run)
    assert_born(text, "the derivative of multiply", "in a graph")
    assert "asked of graph at" in text


def test_jacobian_and_intermediate_sources():
    x = functad.constant([1.0, 0.0])

    def run(of_square):
        with GradientTape() as tape:
            tape.watch(x)
            square = x * x  # a square
            y = np.sqrt(square)  # behind a source
        return tape.jacobian(y, square if of_square else x)

    assert_born(message(functad.strict_derivatives()(run), False), "the derivative of sqrt", "behind a source")
    assert_born(message(run, True, infinities=True), "the derivative of sqrt", "behind a source")
    with functad.debug_nans():  # an infinity is none
        assert np.array_equal(run(True), [[0.5, 0.0], [0.0, np.inf]])


def test_second_order_names_the_operation_whose_derivative_it_is():
    def run():
        x = functad.constant(0.0)
        with GradientTape() as outer:
            outer.watch(x)
            with GradientTape() as inner:
                inner.watch(x)
                y = x**1.5  # one and a half
            g = inner.gradient(y, x)
        return outer.gradient(g, x)

    text = message(run, infinities=True)
    assert text.startswith("The gradient, asked of a GradientTape")
    assert "in the derivative of power at " in text
    assert f":{line('one and a half')}" in text


@functad.strict_derivatives()  # zero times infinity is NaN
def test_gradient_inside_its_own_tape(monkeypatch):
    monkeypatch.setattr(GradientTape, "_warned", True)

    def run():
        x = functad.constant(0.0)
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = np.sqrt(x * x)  # in its own tape
            tape.gradient(y, x)

    assert_born(message(run), "the derivative of multiply", "in its own tape")


def unselected(x):
    return np.sum(np.where(x > 0, np.log(x), 0.0))


def index_past(x):
    return np.sqrt(x * x)[1]


@pytest.mark.parametrize("f", [unselected, index_past])
def test_silent_where_nothing_reaches_the_result(f):
    values = np.array([0.0, 2.0])
    with functad.debug_nans():
        found = gradient(f, values)[0].numpy()
        functional = functad.gradients_function(f)(values)[0].numpy()
    assert np.array_equal(found, functad.grad(f)(values))
    assert np.array_equal(functional, found)


def test_inner_results_are_left_to_the_outer_one():
    x = functad.constant([0.0, 2.0])

    def run(k):
        with GradientTape() as outer:
            outer.watch(x)
            with GradientTape() as inner:
                inner.watch(x)
                y = np.sum(np.sqrt(x * x))  # inner
            y = inner.gradient(y, x)[k] * x[1]
        return outer.gradient(y, x)

    with functad.debug_nans():
        assert np.array_equal(run(1), [0.0, 1.0])
    assert_born(message(functad.strict_derivatives()(run), 0), "multiply, in the derivative of multiply", "inner")

    def f(x):
        return functad.gradients_function(lambda x: np.sum(np.sqrt(x * x)))(x)[0][1] * x[1]

    with functad.debug_nans():
        assert np.array_equal(functad.grad(f)(np.array([0.0, 2.0])), [0.0, 1.0])
        assert np.array_equal(functad.gradients_function(f)(np.array([0.0, 2.0]))[0], [0.0, 1.0])
        assert np.array_equal(
            functad.gradients_function(lambda x: functad.grad(lambda x: np.sum(np.sqrt(x * x)))(x)[1] * x[1])(
                np.array([0.0, 2.0])
            )[0],
            [0.0, 1.0],
        )


def test_infinities_on_demand():
    with functad.debug_nans():
        assert gradient(np.sqrt, 0.0)[0] == np.inf
    assert "is infinity. It was born in the derivative of sqrt" in message(gradient, np.sqrt, 0.0, infinities=True)


def test_written_arrays():
    def f(x):
        y = x * 2.0
        y[1:] = np.log(x[1:] - 5.0)  # written
        return y

    assert_born(message(gradient, lambda x: np.sum(f(x)), np.arange(3.0)), "log", "written")
    with functad.debug_nans():
        assert np.array_equal(gradient(lambda x: f(x)[0], np.arange(3.0))[0], [2.0, 0.0, 0.0])


def test_custom_gradient():
    @functad.custom_gradient
    def bad(x):
        return x * 2.0, lambda dy: dy * np.nan

    def f(x):
        return bad(np.sin(x))  # own rule

    text = message(gradient, f, 1.0)
    assert_born(text, "the derivative of bad", "own rule")


def test_forward_accumulator():
    def run(f, x, asked=lambda y: y):
        x = functad.constant(x)
        with functad.ForwardAccumulator(x, np.ones(x.shape)) as accumulator:
            y = f(x)
        return accumulator.jvp(asked(y))

    def roots(x):
        return np.sqrt(x) - np.sqrt(x)  # tangents

    text = message(run, roots, np.array([1.0, 0.0]))
    assert_born(text, "the derivative of subtract", "tangents")
    assert_born(text[text.index("The infinity") :], "the derivative of sqrt", "tangents")
    assert text.startswith("The tangent, asked of a ForwardAccumulator at ")

    def logs(x):
        return np.log(x)  # forward log

    assert_born(message(run, logs, -1.0), "log", "forward log")
    with functad.debug_nans():
        assert np.array_equal(run(lambda x: roots(x)[0] * 2.0, np.array([1.0, 0.0])), 0.0)
        assert np.allclose(run(np.sin, np.array([1.0, 0.0])), np.cos([1.0, 0.0]))


def test_forward_over_reverse():
    def run(power):
        x = functad.constant(0.0)
        with functad.ForwardAccumulator(x, 1.0) as accumulator:
            with GradientTape() as tape:
                tape.watch(x)
                y = x**power
            g = tape.gradient(y, x)
        return accumulator.jvp(g)

    with functad.debug_nans():
        assert float(run(3.0)) == 0
    assert "in the derivative of power at" in message(run, 1.5, infinities=True)


@functad.strict_derivatives()  # zero times infinity is NaN
def test_a_tape_opened_before_is_not_looked_into_but_those_inside_it_are():
    x = functad.constant(0.0)
    with GradientTape() as outer:
        outer.watch(x)
        y = np.sqrt(x * x)
        with functad.debug_nans():
            with GradientTape(persistent=True) as inner:
                inner.watch(x)
                z = x * x
            assert inner.gradient(z, x) == 0
            u = y + z * 2.0
    assert np.isnan(float(outer.gradient(u, x)))


def test_results_are_those_without_it():
    def f(x, z):
        parts = np.split(np.sin(x) * z, 2)
        return sum(np.sum(part**2) for part in parts) + x[0] * np.max(x)

    values = np.array([0.5, -1.0, 2.0, 0.3]), 1.5
    plain = gradient(f, *values)
    with functad.debug_nans():
        watched = gradient(f, *values)
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))


@functad.strict_derivatives()  # zero times infinity is NaN
def test_the_tape_can_be_asked_again_and_lets_go():
    class Held:
        pass

    held = Held()

    @functad.custom_gradient
    def f(x):
        return x * 2.0, lambda dy, held=held: dy * 2.0

    x = functad.constant([0.0, 2.0])
    with functad.debug_nans():
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = np.sqrt(f(x) ** 2)
        with pytest.raises(NotFiniteError):
            tape.gradient(y, x)
        with pytest.raises(NotFiniteError):
            tape.gradient(y, x)
    held = weakref.ref(held)
    del f, tape, y
    gc.collect()
    assert held() is None
