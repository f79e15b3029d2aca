"""Whoever observes a walk sees each record that something comes to once, in the order of the walk, and changes nothing."""

import numpy as np

from functad.expressions.records import Observer, observing
from functad.tracing.concrete import ForwardRecorder, ReverseRecorder
from functad.transforms.forward import push_forward
from functad.transforms.reverse import pull_back

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
