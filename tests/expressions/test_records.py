"""Questions about a list of records, the same for those of a concrete trace and for equations."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.expressions.records import (
    Observer,
    inputs_of,
    last_readers,
    mark_needed,
    mark_reached,
    marks_at,
    observing,
    results_of,
)
from functad.tracing.concrete import ForwardRecorder, ReverseRecorder
from functad.transforms.forward import push_forward
from functad.transforms.reverse import pull_back


def several(x, y):
    """Two inputs, an operation with several results, one of which is used, and one that nothing reads."""
    logarithm = np.linalg.slogdet(x)[1]
    np.sin(y)
    return np.sum(logarithm * y)


def recorded(cls):
    recorder = cls("test", several)
    several(*[recorder.enter(a) for a in (np.diag([1.0, 2.0]), np.array([3.0, 4.0]))])
    return recorder.records


def at(marks):
    return [slot for slot, mark in enumerate(marks) if mark]


@pytest.mark.parametrize("cls", [ReverseRecorder, ForwardRecorder])
def test_records_of_a_concrete_trace(cls):
    records = recorded(cls)  # x, y, (sign, logarithm), sin, multiply, sum
    assert [None if r is None else list(inputs_of(r)) for r in records] == [None, None, None, [0], [1], [3, 1], [5]]
    assert [list(results_of(r, i)) for i, r in enumerate(records) if r is not None] == [[2, 3], [4], [5], [6]]
    assert last_readers(records, (6,)) == {0: 3, 1: 5, 3: 5, 5: 6, 6: 7}
    assert at(mark_needed(marks_at([6], 7), records)) == [0, 1, 3, 5, 6]
    assert at(mark_reached(marks_at([0], 7), records)) == [0, 2, 3, 5, 6]
    assert at(mark_reached(marks_at([1], 7), records, 0, 5)) == [1, 4]


def test_equations():
    made = functad.make_expressions(several)(np.eye(2), np.ones(2))
    records, count = made.equations, len(made.specs)
    assert [list(inputs_of(e)) for e in records] == [[0], [1], [3, 1], [5]]
    assert [list(results_of(e, i)) for i, e in enumerate(records)] == [[2, 3], [4], [5], [6]]
    assert last_readers(records, made.outputs) == {0: 0, 1: 2, 3: 2, 5: 3, 6: 4}
    assert at(mark_needed(marks_at(made.outputs, count), records)) == [0, 1, 3, 5, 6]
    assert at(mark_reached(marks_at([1], count), records)) == [1, 4, 5, 6]


def test_constants_are_no_slots():
    made = functad.make_expressions(lambda x: (x * 2.0, 1.0))(np.ones(2))
    assert inputs_of(made.equations[0]) == [0]
    assert last_readers(made.equations, made.outputs) == {0: 0, 1: 1}
    assert at(marks_at(made.outputs, 2)) == [1]


def test_what_is_read_may_be_narrowed():
    records = recorded(ReverseRecorder)
    needed = mark_needed(marks_at([6], 7), records, lambda record, index: () if index == 5 else inputs_of(record))
    assert at(needed) == [5, 6]


# Observers see each record once, in the order of the pass, and change nothing

X = np.array([0.5, 1.0, 2.0])


class Passed(Observer):
    def __init__(self):
        self.names = []
        self.open = None

    def before(self, index, record, given):
        assert self.open is None
        assert any(g is not None for g in given())
        self.open = index

    def after(self, index, record, found):
        assert self.open == index
        self.open = None
        self.names.append(record[0].primitive.name)


def f(x):
    np.cos(x)  # nothing comes to it from the result
    y = np.where(x > 0.7, np.sin(x) * x, x[0])
    return np.sum(y)


def traced(cls):
    recorder = cls("a test", f)
    out = f(recorder.enter(X))
    return recorder.records, out.slot


def pulled(observer=None):
    equations, slot = traced(ReverseRecorder)
    cotangents = [None] * (slot + 1)
    cotangents[slot] = 1.0
    with observing(observer or Observer()):
        return pull_back(equations, cotangents, 1, consume=False)


def pushed(observer=None):
    equations, slot = traced(ForwardRecorder)
    with observing(observer or Observer()):
        return push_forward(equations, [np.ones(3)], (slot,))[slot]


def test_backward():
    passed = Passed()
    assert np.array_equal(pulled(passed)[0], pulled()[0])
    assert passed.names == ["sum", "where", "getitem", "multiply", "sin"]


def test_forward():
    passed = Passed()
    assert np.array_equal(pushed(passed), pushed())
    assert passed.names == ["cos", "sin", "multiply", "getitem", "where", "sum"]


def test_where_nothing_is_passed():
    passed = Passed()
    equations, slot = traced(ReverseRecorder)
    with observing(passed):
        assert pull_back(equations, [None] * (slot + 1), 1, consume=False) == [None]
    assert passed.names == []
