"""Modules: how Variables and modules are found, names and name scopes, freezing."""

from __future__ import annotations

import collections
import copy
import dataclasses
import pickle
import threading
from typing import NamedTuple

import numpy as np
import pytest

import functad
from functad import Module, Variable, nn


def named(found):
    return [v.name for v in found]


class Box(Module):
    def __init__(self, **attributes):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


# What is found, and in which order


def test_own_variables_by_attribute_name_then_those_of_modules():
    inner = Box(z=Variable(1.0, name="inner.z"), a=Variable(1.0, name="inner.a"))
    deep = Box(a=Variable(1.0, name="deep.a"))
    other = Box(b=Variable(1.0, name="other.b"), deep=deep)
    outer = Box(y=Variable(1.0, name="y"), b=other, c=inner, x=Variable(1.0, name="x"))
    assert named(outer.variables) == ["x", "y", "other.b", "deep.a", "inner.a", "inner.z"]
    assert outer.submodules == (other, inner, deep)
    assert type(outer.variables) is type(outer.submodules) is tuple


def test_containers_are_looked_into():
    class Pair(NamedTuple):
        second: Variable
        first: Variable

    @dataclasses.dataclass
    class Record:
        w: object
        b: object

    v = [Variable(float(i), name=str(i)) for i in range(9)]
    box = Box(
        d={"b": v[1], "a": [v[0], {"deep": (v[8],)}]},
        e=collections.OrderedDict([("z", v[3]), ("y", v[2])]),
        f=Pair(v[4], v[5]),
        g=Record(w=v[7], b=v[6]),
    )
    assert named(box.variables) == ["0", "8", "1", "2", "3", "4", "5", "6", "7"]
    assert list(functad.values_of(box)) == [
        *("d/a/0", "d/a/1/deep/0", "d/b", "e/y", "e/z"),
        *("f/second", "f/first", "g/b", "g/w"),
    ]


def test_private_attributes_are_found_and_sets_are_not():
    class Private(Module):
        def __init__(self):
            self.__hidden = Variable(1.0)
            self._w = Variable(2.0)
            self.kept = {1, 2}
            self.modules = frozenset([Box(a=Variable(3.0))])

    assert list(functad.values_of(Private())) == ["_Private__hidden", "_w"]


def test_each_object_once_and_cycles_are_fine():
    v = Variable(1.0)
    a, b = Box(v=v), Box(w=v)
    a.other, b.other, a.self, a.again = b, a, a, [b, v]
    a.loop = [a.again]
    a.loop.append(a.loop)
    assert len(a.variables) == 1
    assert a.submodules == (b,)
    assert b.submodules == (a,)


def test_chain_of_modules_of_any_length():
    last = Box(v=Variable(1.0))
    for _ in range(3000):
        last = Box(next=last)
    assert len(last.variables) == 1
    assert len(last.submodules) == 3000


def test_keys_that_cannot_be_sorted_are_taken_in_their_order():
    box = Box(d={"b": Variable(1.0), 1: Variable(2.0)})
    assert list(functad.values_of(box)) == ["d/b", "d/1"]


def test_works_without_super_init_except_for_the_name():
    class Bare(Module):
        def __init__(self):
            self.v = Variable(1.0, name="v")

    bare = Bare()
    assert named(bare.variables) == ["v"]
    assert bare.submodules == ()
    assert "v     float64  ()" in repr(bare)
    bare.trainable = False
    assert bare.trainable_variables == ()
    for ask in (lambda: bare.name, lambda: bare.name_scope):
        with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) first in Bare.__init__"):
            ask()


def test_trainable_and_other_variables():
    box = Box(a=Variable(1.0), count=Variable(3), mean=Variable(1.0, trainable=False))
    assert box.trainable_variables == (box.a,)
    assert [v is w for v, w in zip(box.non_trainable_variables, (box.count, box.mean), strict=True)] == [True, True]


# Names


@pytest.mark.parametrize(
    ("cls", "name"),
    [("Model", "model"), ("ResNet50", "res_net50"), ("MLP", "mlp"), ("MyHTTPLayer", "my_http_layer"), ("_Own", "_own")],
)
def test_name_is_the_class_in_snake_case(cls, name):
    assert type(cls, (Module,), {})().name == name


def test_name_must_be_an_identifier():
    assert Module(name="mine").name == "mine"
    for wrong in ("a b", "", "1st", "a/b"):
        with pytest.raises(ValueError, match="cannot be the name of a module"):
            Module(name=wrong)


def test_name_must_be_a_string():
    with pytest.raises(TypeError, match=r"name of a Sequential is a Dense.* one list"):
        functad.nn.Sequential([functad.nn.Dense(1)], functad.nn.Dense(2))


def test_names_of_variables_carry_the_scope():
    class Layer(Module):
        @Module.with_name_scope
        def build(self):
            """Make the Variable."""
            self.w = Variable(1.0, name="w")

    class Model(Module):
        def __init__(self):
            super().__init__(name="top")
            with self.name_scope as scope:
                assert scope == "top"
                self.v = Variable(1.0)
                self.layer = Layer()
            self.free = Layer()

    model = Model()
    model.layer.build()
    model.free.build()
    assert (model.v.name, model.layer.w.name, model.free.w.name) == ("top/Variable", "top/layer/w", "layer/w")
    assert Layer.build.__doc__ == "Make the Variable."
    with model.layer.name_scope:
        again = pickle.loads(pickle.dumps(model.v))
        assert (again.name, copy.copy(model.v).name) == ("top/Variable", "top/Variable")


def test_scope_ends_with_an_error_and_belongs_to_its_thread():
    module = Module(name="m")
    seen = []

    def fail():
        thread = threading.Thread(target=lambda: seen.append(Variable(1.0, name="v").name))
        thread.start()
        thread.join()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), module.name_scope:
        fail()
    assert seen == ["v"]
    assert Variable(1.0, name="v").name == "v"


# Freezing


def test_frozen_module_is_followed_by_no_tape():
    model = nn.Sequential([nn.Dense(3, "tanh", inputs=2, rng=0), nn.Dense(1, inputs=3, rng=1)])
    first = model.layers[0]
    first.trainable = False
    with functad.GradientTape() as tape:
        y = np.sum(model(np.ones((4, 2))))
    assert not first.trainable
    assert model.trainable
    assert named(model.trainable_variables) == named(tape.watched_variables()[::-1]) == ["dense/bias", "dense/kernel"]
    assert all(v is w for v, w in zip(model.non_trainable_variables, first.variables, strict=True))
    grads = tape.gradient(y, model.variables)
    assert [g is None for g in grads] == [True, True, False, False]
    with functad.GradientTape() as tape:
        tape.watch(first.kernel)
        y = np.sum(model(np.ones((4, 2))))
    assert tape.gradient(y, first.kernel).shape == (2, 3)


def test_freezing_takes_effect_within_a_tape_that_has_read_the_variable():
    box = Box(v=Variable(3.0))
    with functad.GradientTape() as tape:
        a = box.v * 1.0
        box.trainable = False
        b = box.v * box.v
    assert float(tape.gradient([a, b], box.v)) == 1.0
    assert functad.implicit_gradients(lambda: Box(w=Variable(1.0)).w * box.v)()[0][1] is not box.v


def test_unfreezing_leaves_what_was_never_trainable():
    box = Box(a=Variable(1.0), mean=Variable(1.0, trainable=False), sub=[Box(b=Variable(1.0))])
    box.trainable = False
    assert box.trainable_variables == ()
    assert not box.sub[0].trainable
    box.trainable = True
    assert box.trainable_variables == (box.a, box.sub[0].b)
    assert box.sub[0].trainable


def test_what_is_put_into_a_frozen_module_is_frozen():
    layer = nn.Dense(2)
    layer.trainable = False
    with functad.GradientTape() as tape:
        layer(np.ones((1, 3)))
    assert tape.watched_variables() == ()
    assert layer.trainable_variables == ()
    layer.extra = Box(v=Variable(1.0))
    assert layer.extra.v.trainable is False


def test_trainable_of_a_variable_is_read_only():
    with pytest.raises(AttributeError):
        Variable(1.0).trainable = False


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_independent_share_what_was_shared_and_stay_frozen(again):
    dense = nn.Dense(2, inputs=2, rng=0)
    model = nn.Sequential([dense, dense])
    model.trainable = False
    other = again(model)
    assert other.layers[0] is other.layers[1]
    assert len(other.variables) == 2
    assert not other.trainable
    other.trainable = True
    assert len(other.trainable_variables) == 2
    other.layers[0].bias.assign([5.0, 6.0])
    assert dense.bias.numpy().tolist() == [0.0, 0.0]
    assert np.array_equal(other.layers[0].kernel.numpy(), dense.kernel.numpy())
    assert other.layers[0].kernel.name == "dense/kernel"


# What is printed


def test_repr_lists_variables_and_says_which_are_not_trained():
    model = Box(layers=[nn.Dense(3, inputs=2)], mean=Variable(np.zeros(3, np.float32), trainable=False))
    model.layers[0].trainable = False
    assert repr(model).splitlines() == [
        "Box with 3 Variables of 12 numbers, 84 B, 0 trainable",
        "  path             dtype    shape   numbers  bytes",
        "  mean             float32  (3,)          3   12 B  not trainable",
        "  layers/0/bias    float64  (3,)          3   24 B  frozen",
        "  layers/0/kernel  float64  (2, 3)        6   48 B  frozen",
    ]
    assert repr(Box()) == "Box without Variables"
    assert repr(Box(v=Variable([1.0]))).startswith("Box with 1 Variable of 1 number, 8 B\n")
