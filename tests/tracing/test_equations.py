"""Traces without values: repeated operations share specs, constants and shape rules."""

import numpy as np

import functad
from functad.expressions.expressions import Constant
from functad.primitives.batching import with_forms
from functad.tracing.views import in_c_order


def test_repeated_operations_share_specs_and_shape_rules(monkeypatch):
    asked = []

    def noted(primitive, *rest):
        asked.append(primitive.name)
        return with_forms(primitive, *rest)

    monkeypatch.setattr("functad.tracing.equations.with_forms", noted)

    def steps(x):
        for _ in range(20):
            x = np.stack([x[1], 0.5 * np.sin(x[0])])
        return x

    expressions = functad.make_expressions(steps)(np.ones(2))
    assert len(expressions.equations) == 100
    assert sorted(asked) == ["getitem", "getitem", "multiply", "sin", "stack"]
    assert len({id(spec) for spec in expressions.specs}) == 2
    assert len({id(s) for e in expressions.equations for s in e.inputs if type(s) is Constant}) == 2
    assert np.array_equal(expressions(np.ones(2)), steps(np.ones(2)))
    expressions.check()


def test_repeated_operations_keep_the_signs_of_zeros_and_the_types_of_numbers():
    def both(x):
        return [x * 0.0, x * -0.0, x * 0.0, x + 1, x + 1.0, x + True, 1.0 - x, x - 1.0, x * x, x * 2.0, 2.0 * x]

    for x in (np.float32(3.0), 3.0, 3, np.ones(2, np.int64), np.ones((2, 2), np.float32)):
        expressions = functad.make_expressions(lambda x: both(x) + both(x))(x)
        for found, wanted in zip(expressions(x), both(x) + both(x), strict=True):
            assert type(found) is type(wanted)
            assert (np.asarray(found).dtype, np.shape(found)) == (np.asarray(wanted).dtype, np.shape(wanted))
            assert np.array_equal(found, wanted)
            assert np.array_equal(np.signbit(found), np.signbit(wanted))


def test_repeated_operations_on_transposed_arrays_have_no_known_order():
    def f(x):
        first = np.exp(x)
        second = np.exp(x.T)
        third = np.exp(x)
        return [in_c_order(first), in_c_order(second), in_c_order(third)]

    found = []
    functad.make_expressions(lambda x: found.append(f(x)) or x)(np.ones((3, 3)))
    assert found == [[True, False, True]]
