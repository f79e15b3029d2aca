"""`grad`, `value_and_grad` and `vjp`: arguments, trees, dtypes, errors, nesting."""

import dataclasses
import inspect
from collections import namedtuple

import numpy as np
import pytest

import functad
from functad import errors
from tests.differences import numerical_jacobian


def bowl(x):
    """A function of an array with curvature everywhere."""
    return np.sum(np.sin(x) * x + np.exp(-x * x))


class TestArguments:
    def test_value_and_gradient_agree_with_differences(self):
        x = np.array([0.3, -1.2, 2.0])
        value, gradient = functad.value_and_grad(bowl)(x)
        assert value == bowl(x)
        np.testing.assert_allclose(gradient, numerical_jacobian(bowl, x), rtol=1e-7, atol=1e-8)

    def test_argnums(self):
        def f(x, y, z):
            return x * y + np.sin(y) * z

        assert functad.grad(f, argnums=1)(2.0, 0.5, 3.0) == pytest.approx(numerical_jacobian(lambda y: f(2.0, y, 3.0), 0.5))
        by_x, by_z = functad.grad(f, argnums=(0, 2))(2.0, 0.5, 3.0)
        assert by_x == 0.5
        assert by_z == pytest.approx(np.sin(0.5))
        assert functad.grad(f, argnums=-1)(2.0, 0.5, 3.0) == by_z
        assert functad.grad(f, argnums=[0])(2.0, 0.5, 3.0) == (0.5,)

    def test_argnames_by_keyword_and_by_position(self):
        def f(x, y, *, z=1.0):
            return x * y * z

        assert functad.grad(f, argnames="z")(2.0, 3.0, z=5.0) == 6.0
        assert functad.grad(f, argnames="y")(2.0, 3.0, z=5.0) == 10.0
        assert functad.grad(f, argnames=("y", "z"))(2.0, 3.0, z=5.0) == {"y": 10.0, "z": 6.0}
        assert functad.grad(f, argnums=(0,), argnames=("z",))(2.0, 3.0, z=5.0) == ((15.0,), {"z": 6.0})

    def test_missing_arguments_are_named(self):
        with pytest.raises(errors.InputError, match=r"argument 3.*2 positional.*\[input\]"):
            functad.grad(lambda x, y: x * y, argnums=3)(1.0, 2.0)
        with pytest.raises(errors.InputError, match=r"'w'.*none of that name"):
            functad.grad(lambda x: x, argnames="w")(1.0)

    def test_has_aux(self):
        def f(x):
            return np.sum(x * x), {"twice": 2 * x, "text": "kept"}

        x = np.array([1.0, 2.0])
        (value, aux), gradient = functad.value_and_grad(f, has_aux=True)(x)
        assert value == 5.0
        np.testing.assert_array_equal(aux["twice"], [2.0, 4.0])
        assert type(aux["twice"]) is np.ndarray
        assert aux["text"] == "kept"
        np.testing.assert_array_equal(gradient, [2.0, 4.0])
        gradient, aux = functad.grad(f, has_aux=True)(x)
        np.testing.assert_array_equal(gradient, [2.0, 4.0])
        with pytest.raises(errors.OutputError, match="pair"):
            functad.grad(lambda x: x, has_aux=True)(1.0)

    def test_decorator_with_and_without_parentheses(self):
        @functad.grad
        def first(x):
            """First."""
            return x**3

        @functad.grad(argnums=1)
        def second(x: float, y: float = 2.0) -> float:
            """Second."""
            return x * y**2

        assert first(2.0) == 12.0
        assert second(3.0, 2.0) == 12.0
        assert (first.__name__, first.__doc__) == ("first", "First.")
        assert second.__name__ == "second"
        assert str(inspect.signature(second)).startswith("(x: ")
        assert list(inspect.signature(second).parameters) == ["x", "y"]
        for transform in (functad.value_and_grad, functad.jacobian):
            assert transform(argnums=0)(np.sin)(0.0) is not None

    def test_functions_without_signature(self):
        assert functad.grad(np.sin)(0.0) == 1.0
        assert functad.grad(np.multiply, argnums=1)(3.0, 2.0) == 3.0

    def test_methods_partials_and_callable_objects(self):
        from functools import partial

        class Model:
            weight = 3.0

            def __call__(self, x):
                return self.weight * x * x

            @functad.grad(argnums=1)
            def slope(self, x):
                return self.weight * x * x

        assert functad.grad(Model())(2.0) == 12.0
        assert Model().slope(2.0) == 12.0
        assert functad.grad(partial(np.power, 2.0))(3.0) == pytest.approx(8 * np.log(2))

    def test_no_function(self):
        with pytest.raises(errors.InputError, match="needs a function, not a float"):
            functad.grad(3.0)


class TestTrees:
    def test_nested_containers(self):
        Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - this kind too

        @dataclasses.dataclass
        class Layer:
            w: np.ndarray
            b: float

        tree = {"layers": [Layer(np.ones(2), 2.0), Layer(np.full(2, 3.0), 1.0)], "pair": Pair(1.0, None), "none": None}

        def f(tree):
            total = tree["pair"].left * 2
            for layer in tree["layers"]:
                total = total + np.sum(layer.w * layer.w) * layer.b
            return total

        gradient = functad.grad(f)(tree)
        assert set(gradient) == {"layers", "pair", "none"}
        assert gradient["none"] is None
        assert gradient["pair"] == Pair(2.0, None)
        np.testing.assert_array_equal(gradient["layers"][0].w, [4.0, 4.0])
        assert gradient["layers"][1].b == 18.0

    def test_registered_class(self):
        class Interval:
            def __init__(self, low, high):
                self.low, self.high = low, high

        functad.register_tree(Interval, lambda i: ((i.low, i.high), None), lambda _, c: Interval(*c))
        gradient = functad.grad(lambda i: (i.high - i.low) ** 2)(Interval(1.0, 4.0))
        assert (gradient.low, gradient.high) == (-6.0, 6.0)

    def test_paths_of_bad_leaves(self):
        with pytest.raises(errors.InputError, match=r"args\[0\]\['w'\]\[2\] is a str"):
            functad.grad(lambda p: 0.0)({"w": [1.0, 2.0, "three"]})
        with pytest.raises(errors.InputError, match=r"kwargs\['p'\]\[1\] is int"):
            functad.grad(lambda p: 0.0, argnames="p")(p=(1.0, 2))


class TestTypes:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
    def test_gradient_has_the_dtype_of_the_input(self, dtype):
        x = np.array([0.5, 1.5], dtype)
        gradient = functad.grad(lambda x: np.sum(np.sin(x) * 2.0 / 3 + x**2))(x)
        assert gradient.dtype == dtype
        value, gradient = functad.value_and_grad(lambda x: np.sum(x * np.ones(2)))(x)
        assert value.dtype == np.float64
        assert gradient.dtype == dtype

    def test_python_scalars_are_weak(self):
        weights = np.array([1.0, 2.0], np.float32)
        seen = []

        def f(s):
            out = s * 2 * weights
            seen.append(out.dtype)
            return np.sum(out)

        value, gradient = functad.value_and_grad(f)(1.5)
        assert seen == [np.float32]
        assert value.dtype == np.float32
        assert gradient.dtype == np.float64
        assert gradient == 6.0

    def test_gradient_is_writable_and_not_shared(self):
        x, y = np.ones(3), np.ones(3)
        by_x, by_y = functad.grad(lambda x, y: np.sum(x + y), argnums=(0, 1))(x, y)
        by_x *= 2
        np.testing.assert_array_equal(by_y, np.ones(3))
        seed = np.ones(3)
        (back,) = functad.vjp(lambda x: x + 0.0, x)[1](seed)
        back[0] = 7.0
        np.testing.assert_array_equal(seed, np.ones(3))

    def test_unused_input_gives_zeros(self):
        _, by_y = functad.grad(lambda x, y: np.sum(x), argnums=(0, 1))(np.ones(2), {"a": np.ones((2, 2), np.float32)})
        assert by_y["a"].dtype == np.float32
        np.testing.assert_array_equal(by_y["a"], np.zeros((2, 2)))
        assert functad.grad(lambda x: 3.0)(1.0) == 0.0

    def test_an_argument_without_leaves(self):
        by_x, by_nothing, by_empty = functad.grad(lambda x, n, e: np.sum(x * x), argnums=(0, 1, 2))(np.ones(2), None, {})
        np.testing.assert_array_equal(by_x, [2.0, 2.0])
        assert by_nothing is None
        assert by_empty == {}

    def test_a_number_read_by_index_and_used_elsewhere(self):
        assert functad.grad(lambda a: a * 2 + a[None].sum() * 3)(np.float64(1.3)) == 5.0
        assert functad.grad(lambda a: a[None].sum() * 3 + a * 2)(np.float64(1.3)) == 5.0

    def test_a_result_among_several_is_the_last(self):
        a = np.array([[2.0, 1.0], [0.5, 3.0]])
        _, pullback = functad.vjp(lambda a: np.linalg.slogdet(a)[1], a)
        np.testing.assert_allclose(pullback(1.0)[0], np.linalg.inv(a).T)

    def test_identity(self):
        assert functad.grad(lambda x: x)(2.0) == 1.0

    def test_complex(self):
        z = 1.0 + 2.0j
        du_dx = numerical_jacobian(lambda x: abs((x + 2.0j) ** 2), 1.0)
        du_dy = numerical_jacobian(lambda y: abs((1.0 + 1j * y) ** 2), 2.0)
        assert functad.grad(lambda z: abs(z**2))(z) == pytest.approx(du_dx - 1j * du_dy)
        assert functad.grad(np.exp, holomorphic=True)(z) == pytest.approx(np.exp(z))
        assert functad.grad(lambda x: (x * 1j * x * 1j).real)(3.0) == pytest.approx(-6.0)


class TestErrors:
    def test_non_scalar(self):
        with pytest.raises(errors.NonScalarError, match=r"returned float64\[3\].*jacobian or vjp.*\[non-scalar\]") as caught:
            functad.grad(lambda x: x * 2)(np.ones(3))
        assert "test_gradient.py" in str(caught.value)
        with pytest.raises(errors.NonScalarError, match="returned a str"):
            functad.grad(lambda x: "text")(1.0)
        with pytest.raises(errors.NonScalarError, match="has_aux"):
            functad.grad(lambda x: (x, x))(1.0)
        with pytest.raises(errors.NonScalarError, match="holomorphic=True"):
            functad.grad(lambda x: x * 1j)(1.0)
        with pytest.raises(errors.NonScalarError, match="Leave holomorphic out"):
            functad.grad(lambda z: abs(z), holomorphic=True)(1.0 + 1j)

    @pytest.mark.parametrize("value", [1, np.arange(3), True, np.int32(4)])
    def test_integers(self, value):
        with pytest.raises(errors.InputError, match=r"Integers have no derivative: pass a float.*\[input\]"):
            functad.grad(lambda x: np.sum(x * 1.0))(value)

    def test_allow_int(self):
        by_x, by_n = functad.grad(lambda x, n: np.sum(x * n), argnums=(0, 1), allow_int=True)(np.ones(2), np.array([2, 3]))
        np.testing.assert_array_equal(by_x, [2.0, 3.0])
        np.testing.assert_array_equal(by_n, [0.0, 0.0])

    def test_holomorphic_needs_complex(self):
        with pytest.raises(errors.InputError, match="holomorphic=True asks for complex"):
            functad.grad(lambda z: z, holomorphic=True)(1.0)

    def test_an_error_in_the_function_passes_through(self):
        def f(x):
            raise ZeroDivisionError("mine")

        with pytest.raises(ZeroDivisionError, match="mine"):
            functad.grad(f)(1.0)


class TestEscapedTensors:
    def test_use_after_the_end(self):
        kept = []

        def leaky(x):
            kept.append(x * 2)
            return x

        functad.grad(leaky)(1.0)
        for use in (lambda t: t + 1, lambda t: np.sin(t), lambda t: 2 * t, lambda t: t > 0, float, bool, lambda t: t[None]):
            with pytest.raises(errors.EscapedTensorError) as caught:
                use(kept[0])
            message = str(caught.value)
            assert "grad of" in message
            assert "leaky" in message
            assert "test_gradient.py:" in message
            line = inspect.getsourcelines(leaky)[1] + 1
            assert f"test_gradient.py:{line}." in message

    def test_under_a_new_trace(self):
        kept = []
        functad.make_expressions(lambda x: kept.append(x) or x)(1.0)
        with pytest.raises(errors.EscapedTensorError, match="make_expressions"):
            functad.grad(lambda x: x * kept[0])(1.0)

    def test_can_be_shown(self):
        kept = []
        functad.grad(lambda x: kept.append(x) or x)(1.5)
        assert "1.5" in repr(kept[0])


class TestNesting:
    def test_no_perturbation_confusion(self):
        assert functad.grad(lambda x: x * functad.grad(lambda y: x + y)(2.0))(1.0) == 1.0

    def test_third_derivative(self):
        third = functad.grad(functad.grad(functad.grad(lambda x: np.sin(x) * x**3)))
        second = functad.grad(functad.grad(lambda x: np.sin(x) * x**3))
        assert third(0.7) == pytest.approx(numerical_jacobian(second, 0.7), rel=1e-7)

    def test_gradient_penalty(self):
        def penalty(x):
            return np.sum(functad.grad(bowl)(x) ** 2)

        x = np.array([0.3, -1.2, 2.0])
        np.testing.assert_allclose(functad.grad(penalty)(x), numerical_jacobian(penalty, x), rtol=1e-6)

    def test_closure_over_an_outer_tensor(self):
        def outer(x):
            inner = functad.grad(lambda y: np.sum(x * y * y))
            return np.sum(inner(x) * x)

        x = np.array([1.0, 2.0])
        np.testing.assert_allclose(functad.grad(outer)(x), numerical_jacobian(outer, x), rtol=1e-6)

    def test_four_levels_mixed(self):
        def f(a, b):
            return np.sin(a * b) * a

        def mixed(a):
            return functad.grad(lambda b: functad.grad(f, argnums=0)(a, b))(a)

        assert functad.grad(mixed)(0.8) == pytest.approx(numerical_jacobian(mixed, 0.8), rel=1e-7)


class TestVjp:
    def test_pullback_many_times(self):
        x, y = np.array([1.0, 2.0]), np.array([[3.0], [4.0]])
        value, pullback = functad.vjp(lambda x, y: {"p": x * y, "s": np.sin(x)}, x, y)
        np.testing.assert_array_equal(value["p"], x * y)
        seeds = {"p": np.ones((2, 2)), "s": np.zeros(2)}
        for _ in range(2):
            by_x, by_y = pullback(seeds)
            np.testing.assert_array_equal(by_x, [7.0, 7.0])
            np.testing.assert_array_equal(by_y, [[3.0], [3.0]])

    def test_has_aux(self):
        value, pullback, aux = functad.vjp(lambda x: (x * x, x + 1), 3.0, has_aux=True)
        assert (value, aux) == (9.0, 4.0)
        assert pullback(1.0) == (6.0,)

    def test_seeds_are_checked(self):
        _, pullback = functad.vjp(lambda x: {"a": x}, np.ones(3))
        with pytest.raises(errors.StructureError, match="g should be a dict with keys"):
            pullback(np.ones(3))
        with pytest.raises(errors.StructureError, match=r"g\['a'\] is float64\[2\], but the value.*float64\[3\]"):
            pullback({"a": np.ones(2)})
        with pytest.raises(errors.StructureError, match="complex"):
            pullback({"a": np.ones(3) * 1j})

    def test_result_must_be_arrays(self):
        with pytest.raises(errors.OutputError, match=r"result\[1\] is a str"):
            functad.vjp(lambda x: (x, "s"), 1.0)

    def test_pullback_is_differentiable(self):
        def f(x):
            _, pullback = functad.vjp(np.sin, x)
            return pullback(x)[0]

        assert functad.grad(f)(0.5) == pytest.approx(numerical_jacobian(f, 0.5), rel=1e-7)


def test_stop_gradient():
    assert functad.grad(lambda x: functad.stop_gradient(x) * x)(3.0) == 3.0
    assert functad.grad(functad.grad(lambda x: functad.stop_gradient(x) * x))(3.0) == 0.0
    tree = functad.stop_gradient({"a": 1.0, "b": [np.ones(2)]})
    assert tree["a"] == 1.0
    assert functad.jvp(lambda x: functad.stop_gradient(x * x), (2.0,), (1.0,))[1] == 0.0
    expressions = functad.make_expressions(lambda x: functad.stop_gradient(x) * x)(3.0)
    assert functad.grad(expressions)(3.0) == 3.0


def test_a_million_operations():
    def f(x):
        for _ in range(500_000):
            x = x * 0.999999 + 1e-7
        return x

    assert functad.grad(f)(1.0) == pytest.approx(0.999999**500_000, rel=1e-9)


CENTRED = {
    "one shift for all columns": lambda a, m, x: a @ (x - m[:, None]),
    "one shift for all rows": lambda a, m, x: (x.T - m) @ a.T,
    "batches": lambda a, m, x: np.stack([a, 2 * a]) @ (x - m[:, None]),
    "one matrix, batches of points": lambda a, m, x: (np.stack([x.T, -x.T]) + m) @ a.T,
    "both operands of the shift": lambda a, m, x: a @ (a[0, 0] * x[:, :1] * np.ones(4) - m[:, None]),
    "the shifted is used again": lambda a, m, x: a @ (c := x - m[:, None]) + np.sum(c**2),
    "a product of the shifted with itself": lambda a, m, x: (c := x[:, :3] + m[:, None]) @ c + a[0, 0],
    "both shifted": lambda a, m, x: (a - m) @ (x - m[:, None]),
    "a shift of both axes": lambda a, m, x: a @ (x - m[0]),
    "single precision": lambda a, m, x: a @ (np.ones((3, 4), np.float32) - m[:, None].astype(np.float32)),
}


@pytest.mark.parametrize("name", CENTRED)
def test_products_with_what_was_shifted(name, rng):
    """The sum over the points is taken before the product where that is the same, and only there."""
    a, m, x = rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=(3, 4))
    f = CENTRED[name]
    weights = rng.normal(size=np.shape(f(a, m, x)))

    def loss(a, m):
        return np.sum(weights * f(a, m, x))

    def change(h):
        return (loss(a + h * da, m + h * dm) - loss(a - h * da, m - h * dm)) / (2 * h)

    da, dm = rng.normal(size=a.shape), rng.normal(size=m.shape)
    ga, gm = functad.grad(loss, argnums=(0, 1))(a, m)
    h = 1e-3 if name == "single precision" else 1e-5
    assert np.isclose(np.sum(ga * da) + np.sum(gm * dm), change(h), rtol=1e-3 if name == "single precision" else 1e-7)
