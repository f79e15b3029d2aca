"""`gradients_function`, `implicit_gradients` and `make_vjp`: parameters, seeds, results, nesting."""

import functools

import numpy as np
import pytest

import functad
from functad import (
    GradientTape,
    gradients_function,
    implicit_gradients,
    implicit_value_and_gradients,
    make_vjp,
    value_and_gradients_function,
)
from tests.eager.taped import floats


def cubic(x, y):
    return x * x * x * y - x * y * y


# gradients_function: which parameters


def test_all_positional_parameters_by_default():
    assert floats(gradients_function(cubic)(2.0, 3.0)) == [27, -4]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (["y"], [-4]),
        ([1], [-4]),
        (["y", "x"], [-4, 27]),
        ([1, 0], [-4, 27]),
        (["x", "x"], [27, 27]),
        ([0, 0, 1], [27, 27, -4]),
        ([-1], [-4]),
        ([], []),
        ("y", [-4]),
        (0, [27]),
        (("x",), [27]),
    ],
)
def test_params_choose(params, expected):
    assert floats(gradients_function(cubic, params)(2.0, 3.0)) == expected


def test_params_that_do_not_exist():
    with pytest.raises(ValueError, match="mix names and positions"):
        gradients_function(cubic, ["x", 1])
    with pytest.raises(ValueError, match=r"no parameter 'z'.*it has x, y"):
        gradients_function(cubic, ["z"])
    for position in (2, -3):
        with pytest.raises(IndexError, match=f"parameter {position}"):
            gradients_function(cubic, [position])(2.0, 3.0)


def test_parameters_with_defaults():
    def f(x, y=3.0):
        return x * y

    assert floats(gradients_function(f)(2.0, 5.0)) == [5, 2]
    assert floats(gradients_function(f)(2.0)) == [3]  # contrib.eager raised IndexError
    with pytest.raises(IndexError, match="'y'"):
        gradients_function(f, ["y"])(2.0)


@pytest.mark.parametrize(
    "form", [gradients_function, value_and_gradients_function, make_vjp, implicit_gradients, implicit_value_and_gradients]
)
def test_what_is_no_function_is_refused_at_once(form):
    with pytest.raises(TypeError, match=f"^{form.__name__} needs a function, not a Tensor"):
        form(functad.constant(3.0))


def test_params_must_be_names_or_positions():
    for params in ([1.5], [None], [("x",)]):
        with pytest.raises(TypeError, match="params of cubic hold"):
            gradients_function(cubic, params)


def test_arguments_given_by_name_are_no_parameters_to_differentiate_by():
    def f(x, y=3.0):
        return x * y

    with pytest.raises(ValueError, match=r"f, called at .* with keywords only"):
        gradients_function(f)(x=2.0, y=3.0)
    with pytest.raises(IndexError, match=r"'y'.* given by name is a constant"):
        gradients_function(f, ["y"])(2.0, y=3.0)
    assert floats(gradients_function(f)(2.0, y=5.0)) == [5]
    assert gradients_function(lambda: 1.0)() == []


def test_variadic_functions():
    assert floats(gradients_function(lambda *args: args[0] * args[1] ** 2)(2.0, 3.0)) == [9, 12]
    assert floats(gradients_function(lambda x, *rest: x * rest[0])(2.0, 3.0)) == [3]
    assert floats(gradients_function(lambda *args: args[0] * args[1], [1])(2.0, 3.0)) == [2]


def test_methods_callables_and_functions_without_signature():
    class Model:
        def loss(self, x, y):
            return x * y * y

        def __call__(self, x):
            return x**3

        @classmethod
        def made(cls, x):
            return x**2

    assert floats(gradients_function(Model().loss)(2.0, 3.0)) == [9, 12]
    assert floats(gradients_function(Model().loss, ["y"])(2.0, 3.0)) == [12]
    assert floats(gradients_function(Model())(2.0)) == [12]
    assert floats(gradients_function(Model.made)(2.0)) == [4]
    assert floats(gradients_function(np.sin)(0.0)) == [1]
    assert floats(gradients_function(functools.partial(cubic, y=3.0))(2.0)) == [27]


# Arguments


def test_differentiated_arguments_become_tensors_and_others_stay():
    seen = []

    def f(x, flag, options):
        seen.extend([type(x), flag, options])
        return x * 2 if flag else x

    options = {"a": object()}
    assert floats(gradients_function(f, ["x"])(1.0, True, options)) == [2]
    assert seen[0] is functad.Tensor
    assert seen[1] is True
    assert seen[2] is options


@pytest.mark.parametrize(
    "value", [[1.0, 2.0], np.array([1.0, 2.0]), functad.constant([1.0, 2.0]), functad.Variable([1.0, 2.0])]
)
def test_kinds_of_arguments(value):
    (g,) = gradients_function(lambda q: np.sum(q**3))(value)
    assert isinstance(g, functad.Tensor)
    assert np.array_equal(g.numpy(), [3, 12])


def test_dtypes_of_arguments():
    single, n = np.array([1.0], np.float32), 2
    g, h = gradients_function(lambda x, n: x * n)(single, n)
    assert g.dtype == np.float32
    assert h is None
    assert gradients_function(lambda x: x * x)(2.0)[0].dtype == np.float64


def test_trees_of_arguments():
    (found,) = gradients_function(lambda w: np.sum(w["a"] * w["b"][0]))({"a": np.ones(2), "b": [3.0]})
    assert np.array_equal(found["a"].numpy(), [3, 3])
    assert float(found["b"][0]) == 2


def test_one_tensor_for_two_parameters_is_two():
    x = functad.constant(3.0)
    assert floats(gradients_function(lambda a, b: a * a * b)(x, x)) == [18, 9]


def test_keywords_are_constants():
    def f(x, *, scale=1.0):
        return x * scale

    assert floats(gradients_function(f)(2.0, scale=5.0)) == [5]


def test_array_of_the_caller_stays_as_it_was():
    a = np.array([1.0, 2.0])
    gradients_function(lambda q: np.sum(q * q))(a)
    a[0] = 5.0
    assert a.flags.writeable


# Seeds and results


def test_seed():
    def f(x):
        return {"b": x * x, "a": x**3}

    assert floats(gradients_function(f)(2.0, dy={"a": 10.0, "b": 1.0})) == [124]
    assert floats(gradients_function(f)(2.0)) == [16]
    assert floats(gradients_function(lambda x: x * x)(2.0, dy=3.0)) == [12]
    with pytest.raises(ValueError, match="1 seeds for 2 targets"):
        gradients_function(f)(2.0, dy=[1.0])


def test_results_of_all_kinds():
    with pytest.raises(ValueError, match="returned None"):
        gradients_function(lambda x: None)(1.0)
    assert gradients_function(lambda x, y: 5.0)(1.0, 2.0) == [None, None]
    assert gradients_function(lambda x: functad.constant(2.0))(1.0) == [None]
    assert floats(gradients_function(lambda x: x)(3.0)) == [1]
    assert floats(gradients_function(lambda x: (x, [x * x]))(3.0)) == [7]


def test_value_keeps_its_structure():
    value, found = value_and_gradients_function(lambda x: {"y": x * x, "n": 2})(3.0)
    assert float(value["y"]) == 9
    assert isinstance(value["n"], functad.Tensor)
    assert value["n"].numpy() == 2
    assert floats(found) == [6]


def test_captured_variables_are_constants():
    v = functad.Variable(5.0)
    assert floats(gradients_function(lambda x: x * v)(2.0)) == [5]


def test_decorators_keep_names():
    @gradients_function
    def slope(x):
        """Return a square."""
        return x * x

    assert slope.__name__ == "slope"
    assert slope.__doc__ == "Return a square."
    assert floats(slope(3.0)) == [6]
    for decorator in (value_and_gradients_function, implicit_gradients, implicit_value_and_gradients, make_vjp):
        assert decorator(cubic).__name__ == "cubic"


def test_decorators_take_parameters():
    @gradients_function(params=["y"])
    def slope(x, y):
        """Return a product."""
        return x * y * y

    assert (slope.__name__, slope.__doc__, floats(slope(2.0, 3.0))) == ("slope", "Return a product.", [12])
    value, gradients = value_and_gradients_function(params=[0])(cubic)(2.0, 3.0)
    assert (float(value), floats(gradients)) == (6, [27])
    value, vjp = make_vjp(params="y", persistent=False)(cubic)(2.0, 3.0)
    assert floats(vjp()) == [-4]
    with pytest.raises(RuntimeError, match="already"):
        vjp()


def test_decorated_methods_leave_out_the_object():
    class Model:
        def __init__(self):
            self.w = functad.Variable(2.0, name="w")

        @gradients_function
        def slope(self, x):
            return self.w * x * x

        @value_and_gradients_function(params=["x"])
        def both(self, x, y):
            return self.w * x * y

        @make_vjp
        def pull(self, x, y):
            return self.w * x * y

        @implicit_gradients
        def weights(self, x):
            return self.w * x * x

        @implicit_value_and_gradients
        def all_weights(self, x):
            return self.w * x * x

        @classmethod
        @gradients_function
        def power(cls, x):
            return x**3

    model = Model()
    assert floats(model.slope(3.0)) == [12]
    assert floats(model.both(3.0, 5.0)[1]) == [10]
    assert floats(model.pull(3.0, 5.0)[1]()) == [10, 6]
    assert [(float(g), v.name) for g, v in model.weights(3.0)] == [(9, "w")]
    assert float(model.all_weights(3.0)[1][0][0]) == 9
    assert floats(Model.power(2.0)) == [12]


def test_nesting_gives_higher_order():
    first = gradients_function(cubic)
    second = gradients_function(lambda x, y: first(x, y)[0])
    assert floats(second(2.0, 3.0)) == [36, 6]
    third = gradients_function(lambda x: second(x, 3.0)[0])
    assert floats(third(2.0)) == [18]


def test_outer_tape_records_the_gradients():
    x = functad.constant(2.0)
    with GradientTape() as tape:
        tape.watch(x)
        value, (g, _) = value_and_gradients_function(cubic)(x, 3.0)
        z = g * value
    assert float(tape.gradient(z, x)) == pytest.approx(36 * 6 + 27 * 27)


# make_vjp


def test_vjp_can_be_used_again():
    value, vjp = make_vjp(cubic)(2.0, 3.0)
    assert float(value) == 24 - 18
    assert floats(vjp()) == [27, -4]
    assert floats(vjp(2.0)) == [54, -8]
    assert floats(vjp(dy=functad.constant(2.0))) == [54, -8]
    assert floats(make_vjp(cubic, ["y"])(2.0, 3.0)[1]()) == [-4]


def test_vjp_that_is_not_persistent_gives_one_answer():
    _, vjp = make_vjp(cubic, persistent=False)(2.0, 3.0)
    assert floats(vjp()) == [27, -4]
    with pytest.raises(RuntimeError, match="has given its gradient"):
        vjp()


def test_vjp_takes_keywords():
    assert floats(make_vjp(cubic, ["x"])(2.0, y=3.0)[1]()) == [27]


def test_vjp_of_structures():
    value, vjp = make_vjp(lambda x: (x * x, x**3))(2.0)
    assert [float(v) for v in value] == [4, 8]
    assert floats(vjp((1.0, 10.0))) == [4 + 120]


# implicit_gradients


def test_pairs_in_order_of_creation():
    a, b, c = (functad.Variable(float(i), name=n) for i, n in ((2, "a"), (3, "b"), (5, "c")))
    value, pairs = implicit_value_and_gradients(lambda x, scale: scale * c * a * x + b * 0)(7.0, scale=1.0)
    assert float(value) == 70
    assert [type(pair) for pair in pairs] == [tuple] * 3
    assert pairs[0][1] is a
    assert [v.name for _, v in pairs] == ["a", "b", "c"]
    assert floats(g for g, _ in pairs) == [35, 0, 14]
    assert floats(g for g, _ in implicit_gradients(lambda: a * b)()) == [3, 2]


def test_which_variables():
    used, unused = functad.Variable(2.0, name="used"), functad.Variable(3.0, name="unused")
    fixed, whole = functad.Variable(4.0, trainable=False), functad.Variable(4)

    def f():
        made = functad.Variable(10.0, name="made")
        unused.read_value()
        return used * used * fixed * whole + made * made

    pairs = implicit_gradients(f)()
    assert [v.name for _, v in pairs] == ["used", "unused", "made"]
    assert floats(g for g, _ in pairs) == [64, None, 20]


def test_functions_that_read_nothing_or_return_nothing():
    v = functad.Variable(2.0)
    with pytest.raises(ValueError, match="reads no trainable Variable"):
        implicit_gradients(lambda x: x * 2.0)(functad.constant(1.0))
    with pytest.raises(ValueError, match="returned None"):
        implicit_gradients(lambda: None if v > 1 else v)()


def test_results_are_summed_and_gathers_are_dense():
    v = functad.Variable([1.0, 2.0, 3.0])
    ((g, _),) = implicit_gradients(lambda: {"a": v[np.array([0, 0])], "b": v * 2})()
    assert np.array_equal(g.numpy(), [4, 2, 2])


def test_implicit_gradients_nest():
    v = functad.Variable(3.0)
    first = implicit_gradients(lambda: v**3)
    second = implicit_gradients(lambda: first()[0][0])
    third = implicit_gradients(lambda: second()[0][0])
    assert floats(f()[0][0] for f in (first, second, third)) == [27, 18, 6]


def test_dy_is_not_special_to_implicit_gradients():
    v = functad.Variable(3.0)
    assert floats(g for g, _ in implicit_gradients(lambda dy: v * dy)(dy=5.0)) == [5]
