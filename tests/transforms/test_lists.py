"""Functions recorded as closed lists: captured Tensors become inputs, and what no output needs is dropped."""

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError
from functad.expressions.spec import spec_of
from functad.tracing.equations import NoValueError, PointRecorder
from functad.tracing.trace import Recorded
from functad.transforms.leaves import Linearized, pull_leaves, push_leaves
from functad.transforms.lists import Closed, close, make_list, trace

X = np.array([0.5, -1.5])


def closed_at(f, values):
    """Return a function as a closed list made at a point."""
    recorder = PointRecorder("test", f)
    expressions, results = make_list(recorder, f, values)
    return Closed(*close(expressions), list(map(recorder.value_of, results)))


def closed_anywhere(f, specs):
    """Return a function as a closed list made without values."""
    return Closed(*close(trace("test", f, specs)))


def both(f, values):
    """Return a function as a list made at a point, and as one made without values."""
    return closed_at(f, values), closed_anywhere(f, [spec_of(value) for value in values])


def test_lists_compute_what_the_function_does():
    def f(x, y):
        z = np.sin(x) * y
        z[0] = 3.0 * y
        view = z[1:]
        view += 1.0
        return [z, np.sum(x), 2.0]

    for closed in both(f, [X, 2.0]):
        expected = f(X.copy(), 2.0)
        for found, value in zip(closed(X, 2.0), expected, strict=True):
            np.testing.assert_array_equal(found, value)
        assert [spec.shape for spec in closed.expressions.results] == [(2,), (), ()]
        closed.expressions.check()
        assert not closed.captured


def test_captured_tensors_become_inputs_once():
    seen = []

    def outer(c, d):
        def f(x):
            return [x * c + d * c, c]

        for closed in both(f, [X]):
            assert all(isinstance(t, Recorded) for t in closed.captured)
            seen.append(len(closed.expressions.inputs))
            closed.expressions.check()
            out = closed(X, *closed.captured)
            for found, value in zip(out, f(X), strict=True):
                np.testing.assert_array_equal(functad.stop_gradient(found), functad.stop_gradient(value))
        return np.sum(out[0]) + out[1] ** 2

    expected = functad.grad(lambda c, d: np.sum(X * c + d * c) + c**2, (0, 1))(2.0, 3.0)
    assert functad.grad(outer, (0, 1))(2.0, 3.0) == expected
    assert set(seen) == {3}  # x, d * c and c


def test_only_lists_made_at_a_point_may_branch_on_values():
    def f(x):
        return [x * 2 if x[0] > 0 else x * 3]

    np.testing.assert_array_equal(closed_at(f, [X])(X)[0], 2 * X)
    with pytest.raises(AbstractValueError):
        closed_anywhere(f, [spec_of(X)])


def test_captured_tensors_without_values_cannot_be_in_a_list_made_at_a_point():
    def outer(c):
        return closed_at(lambda x: [x * c], [X]).values[0]

    with pytest.raises(NoValueError, match="without a value"):
        functad.make_expressions(outer)(1.0)


def test_what_no_output_needs_is_dropped():
    def f(x):
        np.exp(x)
        return [np.sin(x)]

    for closed in both(f, [X]):
        assert [equation.primitive.name for equation in closed.expressions.equations] == ["sin"]


def test_arrays_of_the_user_are_copied():
    weights = np.array([1.0, 2.0])
    lists = both(lambda x: [weights * x], [X])
    weights[:] = 0.0
    for closed in lists:
        np.testing.assert_array_equal(closed(X)[0], [0.5, -3.0])


def test_linearized_runs_the_function_once():
    runs = []

    def f(x, y):
        runs.append(1)
        return [np.sin(x) * y, np.zeros(3), y**2]

    push = Linearized(f, [X, 2.0])
    for t in (np.ones(2), X):
        expected = functad.jvp(lambda x, y: [np.sin(x) * y, y**2], (X, 2.0), (t, 0.5))[1]
        moved, still, square = push([t, 0.5])
        np.testing.assert_allclose(moved, expected[0])
        np.testing.assert_allclose(square, expected[1])
        np.testing.assert_array_equal(still, np.zeros(3))
    assert len(runs) == 1


def test_leaves_that_are_no_floats_have_zero_derivatives():
    def f(x, n, y):
        return [x**n * y]

    ct_x, ct_n, ct_y = pull_leaves(f, [X, 2, 3.0], [np.ones(2)])
    np.testing.assert_allclose(ct_x, 6 * X)
    np.testing.assert_allclose(ct_y, np.sum(X**2))
    assert ct_n == 0
    np.testing.assert_allclose(push_leaves(f, [X, 2, 3.0], [None, None, 1.0])[0], X**2)
