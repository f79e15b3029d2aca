"""`graph`, `gradients` and `hessians`: looking back from results."""

import numpy as np
import pytest

import functad
from functad import AggregationMethod, errors, gradients, graph, hessians
from tests.differences import numerical_jacobian


def test_nothing_has_to_be_watched():
    with graph():
        x = functad.constant(3.0)
        v = functad.Variable(2.0, trainable=False)
        a = x * x
        y = a * v
        found = gradients(y, [x, a, v])
    assert [float(g) for g in found] == [12, 2, 9]


def test_constants_made_before_the_scope():
    x = functad.constant([1.0, 2.0])
    with graph():
        (g,) = gradients(np.sum(np.sin(x)), x)
    assert np.allclose(g.numpy(), np.cos([1.0, 2.0]))


def test_gradients_after_the_scope():
    with graph():
        x = functad.constant(3.0)
        y = x**3
    (g,) = gradients(y, x)
    assert float(g) == 27


def test_scope_may_be_entered_again():
    scope = graph()
    with scope:
        x = functad.constant(3.0)
        y = x * x
    with scope:
        z = y * x
        (g,) = gradients(z, x)
    assert float(g) == 27


def test_outside_a_scope():
    x = functad.constant(3.0)
    with pytest.raises(errors.TapeError, match=r"with functad.graph\(\)"):
        gradients(x * x, x)


def test_a_list_always_comes_back():
    with graph():
        x, z = functad.constant(3.0), functad.constant(5.0)
        y = x * x
        assert isinstance(gradients(y, x), list)
        assert len(gradients(y, (x, z))) == 2
        assert gradients(y, []) == []
        assert gradients([], x) == [None]
        assert [g.numpy() for g in gradients([y, y * x], [x])] == [33]
        assert gradients(x, [x])[0].numpy() == 1
        assert [None if g is None else g.numpy() for g in gradients(y, [z, x])] == [None, 6]
        assert gradients(y, z, unconnected_gradients="zero")[0].numpy() == 0


@pytest.mark.parametrize("bad", [{"x": 1}, None, 3.0])
def test_what_is_no_list_of_tensors(bad):
    with graph():
        x = functad.constant(3.0)
        y = x * x
        bad = {"x": x} if isinstance(bad, dict) else bad
        with pytest.raises(TypeError):
            gradients(y, bad)
        with pytest.raises(TypeError):
            gradients(bad, x)


def test_integers():
    with graph():
        n, x = functad.constant(3), functad.constant(2.0)
        y = x * n
        assert gradients(n, x) == [None]
        assert gradients(y, n) == [None]
        assert gradients(n, n)[0].numpy() == 1


def test_seeds():
    with graph():
        q = functad.constant([1.0, 2.0])
        y, s = q * q, np.sum(q**3)
        assert np.array_equal(gradients(y, q, grad_ys=np.array([1.0, 10.0]))[0].numpy(), [2, 40])
        assert np.array_equal(gradients([y, s], q, grad_ys=[None, 2.0])[0].numpy(), [2 + 6, 4 + 24])
        with pytest.raises(ValueError, match="1 seeds for 2"):
            gradients([y, s], q, grad_ys=[None])
        with pytest.raises(ValueError, match="shape"):
            gradients(y, q, grad_ys=[np.ones(3)])
        z = functad.constant(1j) * q[0]
        with pytest.raises(TypeError, match="grad_ys"):
            gradients(z, q)
        assert np.allclose(gradients(z, q, grad_ys=[1j])[0].numpy(), [1, 0])


def test_stop_gradients():
    with graph():
        a = functad.constant(0.0)
        b = 2 * a
        total = gradients(a + b, [a, b])
        partial = gradients(a + b, [a, b], stop_gradients=[a, b])
        one = gradients(a + b, [a, b], stop_gradients=b)
        both = gradients(b * b + a, a, stop_gradients=[])
    assert [float(g) for g in total] == [3, 1]
    assert [float(g) for g in partial] == [1, 1]
    assert [float(g) for g in one] == [1, 1]
    assert float(both[0]) == 1


def test_cut_variable():
    with graph():
        v = functad.Variable(3.0)
        w = v * v
        found = gradients(w * v, [v, w], stop_gradients=w)
    assert [float(g) for g in found] == [9, 3]


@pytest.mark.parametrize(
    "method",
    [
        None,
        AggregationMethod.ADD_N,
        AggregationMethod.DEFAULT,
        AggregationMethod.EXPERIMENTAL_TREE,
        AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
    ],
)
def test_options_without_meaning(method):
    with graph():
        x = functad.constant(3.0)
        found = gradients(x * x, x, name="slope", gate_gradients=True, aggregation_method=method)
    assert float(found[0]) == 6
    with graph(), pytest.raises(ValueError, match="aggregation_method"):
        gradients(x * x, x, aggregation_method=7)
    with graph(), pytest.raises(ValueError, match="unconnected_gradients"):
        gradients(x * x, x, unconnected_gradients="one")
    with graph():
        y = np.sum(x**3)
        (hessian,) = functad.hessians(y, x, gate_gradients=True, aggregation_method=method, name="curvature")
        assert hessian.numpy() == 18
        for f in (gradients, functad.hessians):
            for wrong in ({"gate_gradients": 5}, {"gate_gradients": "yes"}, {"name": 3}, {"aggregation_method": "tree"}):
                with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
                    f(y, x, **wrong)
    with graph(), pytest.raises(TypeError, match="colocate"):
        gradients(x * x, x, colocate_gradients_with_ops=True)


def test_arguments_by_position():
    with graph():
        a, other = functad.constant(1.0), functad.constant(5.0)
        b = 2 * a
        found = gradients(a + b, [a, other], [10.0], [b], "zero", AggregationMethod.ADD_N, True)
        assert [float(g) for g in found] == [10, 0]
        assert gradients(a + b, other, None, None, "none") == [None]
        with pytest.raises(TypeError, match="positional"):
            gradients(a + b, a, None, None, "none", None, False, "slope")


def test_higher_orders():
    with graph():
        x = functad.constant(3.0)
        y = x**4
        found = []
        for _ in range(3):
            (y,) = gradients(y, x)
            found.append(y)
    assert [float(g) for g in found] == [108, 108, 72]


def test_hessians():
    with graph():
        x, z = functad.constant([1.0, 2.0]), functad.constant(3.0)
        unused, linear = functad.constant(1.0), functad.constant([1.0, 1.0])
        y = np.prod(x) ** 2 * z**3 + np.sum(linear)
        found = hessians(y, [x, z, unused, linear])
        (alone,) = hessians([y], x)

    def f(x):
        return np.prod(x) ** 2 * 27

    gradient = functad.grad(f)
    expected = numerical_jacobian(gradient, np.array([1.0, 2.0]))
    assert np.allclose(found[0].numpy(), expected, rtol=1e-7)
    assert np.array_equal(found[0].numpy(), alone.numpy())
    assert float(found[1]) == pytest.approx(4 * 6 * 3)
    assert found[2] is None
    assert np.array_equal(found[3].numpy(), np.zeros((2, 2)))


def test_variables_in_a_scope():
    v = functad.Variable(3.0)
    with graph():
        y = v * v
        v.assign(10.0)
        z = y + v * v
        (g,) = gradients(z, v)
    assert float(g) == 26


def test_scope_inside_grad_and_grad_inside_a_scope():
    def slope(a):
        with graph():
            x = functad.constant(2.0)
            (g,) = gradients(a * x**3, x)
        return g * a

    assert functad.grad(slope)(3.0) == pytest.approx(2 * 3 * 12)
    with graph():
        x = functad.constant(2.0)
        inner = functad.grad(lambda a: np.sin(a) * x**2)(0.0)
        (g,) = gradients(inner, x)
    assert float(g) == 4


def test_argument_of_an_enclosing_transform_is_no_source():
    def f(x):
        with graph():
            return gradients(np.sin(x * 1.0), [x])[0]

    x = np.array([0.1, 0.2])
    for call in (functad.vjp, functad.make_expressions(f), functad.vmap(f)):
        with pytest.raises(errors.SourceError, match=r"of (vjp|make_expressions|vmap) of .*before the graph.*constant\(x\)"):
            call(f, x) if call is functad.vjp else call(x)

    def cured(x):
        with graph():
            x = functad.constant(x)
            return gradients(np.sin(x * 1.0), [x])[0]

    value, pull = functad.vjp(cured, x)
    assert np.allclose(value, np.cos(x))
    assert np.allclose(pull(np.ones(2))[0], -np.sin(x))
    assert np.allclose(functad.vmap(cured)(x), np.cos(x))


@pytest.mark.filterwarnings("ignore:a gradient is taken inside its own persistent tape")
def test_function_under_a_transform_inside_a_scope_needs_its_own():
    v = functad.Variable(2.0)
    for scope in (graph(), functad.GradientTape(persistent=True)):

        def slope(x, scope=scope):
            return gradients(np.sin(x * v), v)[0] if isinstance(scope, graph) else scope.gradient(np.sin(x * v), v)

        with scope:
            for trace in (
                functad.grad(slope),
                functad.make_expressions(slope),
                lambda x, f=slope: functad.vmap(f)(np.array([x])),
            ):
                with pytest.raises(errors.SourceError, match=r"Open a tape or graph within the function"):
                    trace(0.3)

            def own(x):
                with functad.GradientTape() as tape:
                    y = np.sin(x * v)
                return tape.gradient(y, v)

            numeric = [np.cos((x + h) * 2) * (x + h) for x in (0.3,) for h in (1e-6, -1e-6)]
            assert np.isclose(functad.grad(own)(0.3), (numeric[0] - numeric[1]) / 2e-6)
            assert functad.vmap(own)(np.array([0.1, 0.2])).shape == (2,)


def test_tangent_of_a_function_under_a_transform_inside_an_accumulator():
    v = functad.constant(2.0)
    accumulator = functad.ForwardAccumulator(v, functad.constant(1.0))
    with accumulator, pytest.raises(errors.SourceError, match="within the function"):
        functad.grad(lambda x: accumulator.jvp(np.sin(x * v)))(0.3)


def test_constants_first_used_by_cond_or_as_the_value_of_an_assignment():
    with functad.graph():
        x, values = functad.constant([1.0, 2.0]), functad.constant([3.0, 4.0])
        y = functad.cond(True, lambda x: x * 1.0, lambda x: x * 2.0, x)
        buffer = np.zeros_like(y)
        buffer[:] = values
        found = functad.gradients(np.sum(y * buffer), [x, values])
    assert [g.numpy().tolist() for g in found] == [[3.0, 4.0], [1.0, 2.0]]
