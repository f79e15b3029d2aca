"""Equations of lists that are made to be looked at know the line of the user's code that they come from."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import functad
from functad.expressions.records import OBSERVERS


def layer(w, x):
    return np.tanh(x @ w)


def network(ws, x):
    for w in ws:
        x = layer(w, x)
    return x


def loss(ws, x):
    return np.mean(network(ws, x) ** 2)


WEIGHTS = [np.ones((3, 4)), np.ones((4, 2))]
X = np.ones((5, 3))


def lines(expressions, phase="forward"):
    return [(e.primitive.name, e.place.text) for e in expressions.equations if e.place.phase == phase]


def test_an_equation_knows_file_line_and_function():
    list_ = functad.make_expressions(loss)(WEIGHTS, X)
    assert [e.place.function for e in list_.equations] == ["layer"] * 4 + ["loss"] * 2
    assert {e.place.text for e in list_.equations[:4]} == {"return np.tanh(x @ w)"}
    assert list_.equations[-1].place.text == "return np.mean(network(ws, x) ** 2)"
    file, _, line = list_.equations[0].place.where.rpartition(":")
    assert file == __file__
    assert int(line) == layer.__code__.co_firstlineno + 1


def test_two_calls_of_a_function_are_told_apart_and_one_is_one():
    numbers = [e.place.call for e in functad.make_expressions(network)(WEIGHTS, X).equations]
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]


def test_equations_of_a_backward_walk_belong_to_the_line_whose_derivative_they_are():
    gradient = functad.make_expressions(functad.grad(loss))(WEIGHTS, X)
    forward = {(e.place.function, e.place.call) for e in gradient.equations if e.place.phase == "forward"}
    backward = [e for e in gradient.equations if e.place.phase == "backward"]
    assert {(e.place.function, e.place.call) for e in backward} == forward
    assert backward[-1].place.call == gradient.equations[0].place.call  # the first layer is pulled back last
    assert len(backward) + len(lines(gradient)) == len(gradient.equations)


def test_equations_of_a_forward_walk_are_tangents():
    def f(x):
        return np.sin(x) * x

    pushed = functad.make_expressions(lambda x: functad.jvp(f, (x,), (1.0,)))(2.0)
    assert [name for name, _ in lines(pushed)] == ["sin", "multiply"]
    assert {text for _, text in lines(pushed, "tangent")} == {"return np.sin(x) * x"}


SCALE = functad.Variable(np.ones(3), name="scale")


def squares(x):
    return x * x


def waves(x):
    y = squares(x)
    return np.sum(np.sin(y))


def by_tape(x):
    source = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(source)
        value = waves(source)
    return tape.gradient(value, source)


def by_variable(x):
    with functad.GradientTape() as tape:
        y = squares(SCALE * x)
        value = np.sum(np.sin(y))
    return tape.gradient(value, SCALE)


def by_two_tapes(x):
    source = functad.constant(x)
    with functad.GradientTape() as outer:
        outer.watch(source)
        with functad.GradientTape() as inner:
            inner.watch(source)
            value = waves(source)
        slope = np.sum(inner.gradient(value, source))
    return outer.gradient(slope, source)


def by_two_transforms(x):
    return functad.grad(lambda y: np.sum(functad.grad(waves)(y)))(x)


def by_accumulator(x):
    source = functad.constant(x)
    with functad.ForwardAccumulator((source, SCALE), (np.ones(3), np.ones(3))) as accumulator:
        y = squares(source)
        z = np.sin(y) * SCALE
    return accumulator.jvp(z)


def by_gradient_of_a_gradient_in_a_tape(x):
    source = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(source)
        value = np.sum(functad.grad(waves)(source) * source)
    return tape.gradient(value, source)


@pytest.mark.parametrize("f", [by_tape, functad.gradients_function(waves)], ids=["tape", "gradients_function"])
def test_equations_of_tapes_belong_to_the_line_whose_derivative_they_are(f):
    expressions = functad.make_expressions(f)(X[0])
    expected = functad.make_expressions(functad.grad(waves))(X[0])
    assert lines(expressions, "backward") == lines(expected, "backward")
    functions = [[e.place.function for e in own.equations if e.place.phase == "backward"] for own in (expressions, expected)]
    assert functions[0] == functions[1]


def test_equations_of_tapes_by_variables():
    found = lines(functad.make_expressions(by_variable)(X[0]), "backward")
    assert {text for _, text in found} == {"return x * x", "y = squares(SCALE * x)", "value = np.sum(np.sin(y))"}


def test_a_decomposition_in_a_tape_has_its_line():
    def f(x):
        source = functad.constant(x)
        with functad.GradientTape() as tape:
            tape.watch(source)
            a = source * 2.0
            values, vectors = np.linalg.eigh(a)
            value = np.sum(values) + np.sum(vectors)
        return tape.gradient(value, source)

    found = lines(functad.make_expressions(f)(np.eye(3)), "backward")
    assert {text for _, text in found} == {"values, vectors = np.linalg.eigh(a)", "a = source * 2.0"}


def test_second_derivatives_by_tapes_keep_the_lines():
    found = lines(functad.make_expressions(by_two_tapes)(X[0]), "backward")
    expected = lines(functad.make_expressions(by_two_transforms)(X[0]), "backward")
    assert {text for _, text in found} == {text for _, text in expected} - {""} >= {"return x * x", "return np.sum(np.sin(y))"}
    mixed = lines(functad.make_expressions(by_gradient_of_a_gradient_in_a_tape)(X[0]), "backward")
    own = "value = np.sum(functad.grad(waves)(source) * source)"
    assert {text for _, text in mixed} == {"return x * x", "return np.sum(np.sin(y))", own}


def test_tangents_of_accumulators_and_of_jvp_belong_to_their_lines():
    found = lines(functad.make_expressions(by_accumulator)(X[0]), "tangent")
    assert {text for name, text in found if name == "cos"} == {"z = np.sin(y) * SCALE"}
    assert found[0][1] == "return x * x"
    assert {text for _, text in found} == {"return x * x", "z = np.sin(y) * SCALE"}
    pushed = lines(functad.make_expressions(lambda x: functad.jvp(waves, (x,), (x,))[1])(X[0]), "tangent")
    assert pushed[0][1] == "return x * x"
    assert ("cos", "return np.sum(np.sin(y))") in pushed


def test_a_tape_that_is_open_for_long_keeps_the_lines():
    def long(x):
        source = functad.constant(x)
        with functad.GradientTape() as tape:
            tape.watch(source)
            for _ in range(100):
                np.cos(source)  # which nobody needs
            value = waves(source)
        return tape.gradient(value, source)

    expected = lines(functad.make_expressions(functad.grad(waves))(X[0]), "backward")
    assert lines(functad.make_expressions(long)(X[0]), "backward") == expected


def test_second_derivatives_keep_the_lines():
    def cube(x):
        y = x**3
        return np.sum(np.sin(y))

    listed = functad.make_expressions(functad.grad(lambda x: np.sum(functad.grad(cube)(x))))(np.ones(2))
    texts = {e.place.text for e in listed.equations if e.place.function.endswith("cube")}
    assert texts == {"y = x**3", "return np.sum(np.sin(y))"}


def test_bodies_of_loops_and_their_derivatives_know_their_lines():
    def run(w, xs):
        def step(h, x):
            h = np.tanh(w * h + x)
            return h, h

        return np.sum(functad.scan(step, 0.0, xs)[1])

    gradient = functad.make_expressions(functad.grad(run))(0.5, np.ones(4))
    params = functad.tree_leaves([list(e.params.values()) for e in gradient.equations])
    bodies = [inner for inner in params if isinstance(inner, functad.Expressions)]
    found = [e for body in bodies for e in body.equations if e.place.function.endswith("step")]
    assert len(bodies) == 2
    assert {e.place.phase for e in found} == {"forward", "backward"}
    assert {e.place.text for e in found} == {"h = np.tanh(w * h + x)"}


def test_a_list_that_is_traced_again_keeps_the_lines_of_the_first_time():
    first = functad.make_expressions(loss)(WEIGHTS, X)
    again = functad.make_expressions(first)(WEIGHTS, X)
    assert [e.place.text for e in again.equations] == [e.place.text for e in first.equations]
    derived = functad.make_expressions(functad.grad(first))(WEIGHTS, X)
    assert {text for _, text in lines(derived, "backward")} == {e.place.text for e in first.equations}


def test_the_rule_of_a_user_has_lines_of_its_own_below_those_of_the_call():
    @functad.custom_vjp
    def square(x):
        return x * x

    def pull(kept, g):
        return (g * 2.0 * kept,)

    square.defvjp(lambda x: (x * x, x), pull)
    derived = functad.make_expressions(functad.grad(lambda x: np.sum(square(x))))(np.ones(2))
    own = [e for e in derived.equations if e.place.text == "return (g * 2.0 * kept,)"]
    assert [e.primitive.name for e in own] == ["multiply"]
    assert {e.place.phase for e in own} == {"backward"}


def test_places_survive_pickling_and_copies():
    listed = functad.make_expressions(loss)(WEIGHTS, X)
    for other in (pickle.loads(pickle.dumps(listed)), copy.deepcopy(listed)):
        assert [e.place.where for e in other.equations] == [e.place.where for e in listed.equations]
        assert [e.place.call for e in other.equations] == [e.place.call for e in listed.equations]


def test_other_observers_change_no_lines():
    expected = functad.make_expressions(functad.grad(loss))(WEIGHTS, X)
    with functad.debug_nans():
        listed = functad.make_expressions(functad.grad(loss))(WEIGHTS, X)
    assert set(lines(listed, "backward")) == set(lines(expected, "backward"))


def test_an_error_in_a_derivative_changes_no_later_lines():
    @functad.custom_vjp
    def failing(x):
        return x * 1.0

    def pull(kept, g):
        raise KeyError

    failing.defvjp(lambda x: (x * 1.0, x), pull)

    def f(x):
        with pytest.raises(KeyError) as raised:
            functad.grad(lambda v: np.sum(failing(v)))(x)
        return np.cos(x), raised  # the traceback is alive

    listed = functad.make_expressions(lambda x: f(x)[0])(1.0)
    assert (listed.equations[-1].place.phase, listed.equations[-1].place.text) == (
        "forward",
        "return np.cos(x), raised  # the traceback is alive",
    )


def test_nothing_is_held_when_the_list_is_made(small_heap):
    class Held:
        pass

    refs = []

    def f(x):
        held = Held()
        refs.append(weakref.ref(held))
        return np.sin(x)

    def fails(x):
        held = Held()
        refs.append(weakref.ref(held))
        y = np.sin(x)
        raise KeyError(y.shape)

    gc.disable()
    try:
        listed = functad.make_expressions(f)(1.0)
        with pytest.raises(KeyError):
            functad.make_expressions(fails)(1.0)
    finally:
        gc.enable()
    gc.collect()
    assert len(listed.equations) == 1
    assert [ref() for ref in refs] == [None, None]
    assert OBSERVERS.get() == ()


def test_lists_that_nobody_looks_at_have_no_places():
    seen = []

    @functad.primitive
    def noted(x):
        seen.append(OBSERVERS.get())
        return np.sin(x)

    assert functad.jit(lambda x: np.sin(x) * 2.0)(1.0) == np.sin(1.0) * 2.0
    noted(1.0)
    assert seen == [()]


def test_lists_with_and_without_places_print_and_digest_alike():
    placed = functad.make_expressions(loss)(WEIGHTS, X)
    stripped = placed.replace(equations=tuple([type(e)(e.primitive, e.inputs, e.params, e.outputs) for e in placed.equations]))
    assert all(e.place is None for e in stripped.equations)
    assert repr(stripped) == repr(placed)
    assert functad.digest(stripped) == functad.digest(placed)
