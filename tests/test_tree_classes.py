"""Classes as containers: registered, with static fields, with methods, and what they refuse."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import functad
from functad import tree_flatten
from functad.errors import RegistrationError, StructureError


@dataclass
class Layer:
    weight: Any
    activation: Any = functad.static_field(default="tanh")
    bias: Any = None
    width: int = field(default=3, metadata={"static": True})


@dataclass(frozen=True, slots=True)
class Frozen:
    inner: Any
    name: str = functad.static_field(default="frozen", repr=False)


@functad.register_tree
class WithMethods:
    def __init__(self, low: Any, high: Any, closed: bool) -> None:
        self.low, self.high, self.closed = low, high, closed

    def tree_flatten(self) -> Any:
        return (part for part in (self.low, self.high)), self.closed

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Any:
        return cls(*children, data)


@functad.register_tree
class WithOtherMethods:
    def __init__(self, low: Any, high: Any, closed: bool) -> None:
        self.low, self.high, self.closed = low, high, closed

    def __tree_flatten__(self) -> Any:
        return (self.low,), (self.high, self.closed), ("low",)

    @classmethod
    def __tree_unflatten__(cls, data: Any, children: Any) -> Any:
        return cls(*children, *data)


@functad.register_tree(static="name")
@dataclass
class Named:
    weight: Any
    name: str = "w"


def test_static_fields_are_no_leaves_and_come_back():
    layer = Layer([1.0, 2.0], np.tanh, 3.0, 7)
    leaves, structure = tree_flatten(layer)
    assert leaves == [1.0, 2.0, 3.0]
    assert structure.paths("t") == ["t.weight[0]", "t.weight[1]", "t.bias"]
    assert structure.unflatten(leaves) == layer
    assert hash(structure) == hash(tree_flatten(layer)[1])


@pytest.mark.parametrize(
    ("tree", "leaves"),
    [
        (Frozen(1.0, "other"), [1.0]),
        (WithMethods(1.0, [2.0], closed=True), [1.0, 2.0]),
        (WithOtherMethods(1.0, 2.0, closed=True), [1.0]),
        (Named({"a": 1.0}, "v"), [1.0]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_each_kind_of_class_comes_back(tree, leaves):
    found, structure = tree_flatten(tree)
    assert found == leaves
    again = structure.unflatten([2 * leaf for leaf in leaves])
    assert type(again) is type(tree)
    assert tree_flatten(again) == ([2 * leaf for leaf in leaves], structure)


def test_class_of_attrs():
    attrs = pytest.importorskip("attrs", reason="attrs is not installed")

    @functad.register_tree(static=["name"])
    @attrs.define(frozen=True)
    class Attrs:
        weight: Any
        name: str = "w"
        size: int = attrs.field(default=2, metadata={"static": True})

    tree = Attrs([1.0], "v", 5)
    leaves, structure = tree_flatten(tree)
    assert (leaves, structure.paths("t")) == ([1.0], ["t.weight[0]"])
    assert structure.unflatten([2.0]) == Attrs([2.0], "v", 5)


def test_fields_name_the_paths():
    tree = {"a": Frozen([1.0]), "n": Named(2.0), "m": WithMethods(3.0, 4.0, closed=False)}
    assert tree_flatten(tree)[1].paths("t") == ["t['a'].inner[0]", "t['m'].children[0]", "t['m'].children[1]", "t['n'].weight"]


def test_static_values_are_part_of_the_structure():
    with pytest.raises(
        StructureError, match=r"others\[0\] should be a Layer with activation='tanh', width=3, not a Layer with "
    ):
        functad.tree_map(lambda a, b: a, Layer(1.0), Layer(1.0, "relu"))
    with pytest.raises(StructureError, match=r"should be a WithMethods with True, not a WithMethods with False"):
        functad.tree_map(lambda a, b: a, WithMethods(1.0, 2.0, closed=True), WithMethods(1.0, 2.0, closed=False))


def test_gradient_by_a_class_with_static_fields():
    layer = Layer(np.array([0.3, -0.2]), np.tanh, 0.5)
    gradient = functad.grad(lambda p: np.sum(p.activation(p.weight) * p.width) + p.bias**2)(layer)
    np.testing.assert_allclose(gradient.weight, 3 / np.cosh([0.3, -0.2]) ** 2, rtol=1e-14)
    assert (gradient.activation, gradient.bias, gradient.width) == (np.tanh, 1.0, 3)
    tangent = functad.jvp(lambda p: p.weight * p.bias, (layer,), (gradient,))[1]
    np.testing.assert_allclose(tangent, gradient.weight * 0.5 + layer.weight * 1.0, rtol=1e-14)


@pytest.mark.parametrize("value", [np.ones(2), [1, 2], {"a": 1}], ids=["array", "list", "dict"])
def test_static_field_that_cannot_be_compared_is_refused(value):
    with pytest.raises(RegistrationError, match=r"static field 'activation' of Layer holds a \w+.*test_tree_classes.py:\d+"):
        tree_flatten(Layer(1.0, value))


def test_tensor_in_a_static_field_is_refused():
    with pytest.raises(RegistrationError, match="static field 'activation' of Layer holds a Tensor"):
        functad.grad(lambda x: functad.tree_map(np.sum, Layer(x, x)).weight)(1.0)


def test_numpy_number_may_be_static():
    assert tree_flatten(Layer(1.0, np.float64(2.0))) == tree_flatten(Layer(1.0, np.float64(2.0)))


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: functad.register_tree(type("Plain", (), {})), "Plain does not say which parts it has, at .*@dataclass"),
        (lambda: functad.register_tree(3), "3 is none"),
        (lambda: functad.register_tree(type("Plain", (), {}), lambda t: ((), None)), "needs flatten and unflatten"),
        (lambda: functad.register_tree(Named, len, len, static=["name"]), "leave static= out"),
        (lambda: functad.register_tree(Named, static=["nam"]), r"Named has no field 'nam', at .*\['weight', 'name'\]"),
        (lambda: functad.register_tree(static=["a"])(WithMethods), "WithMethods does not say"),
    ],
)
def test_what_cannot_be_registered(register, message):
    with pytest.raises(RegistrationError, match=message):
        register()


def test_decorators_in_the_wrong_order_are_told():
    with pytest.raises(RegistrationError, match=r"write @functad\.register_tree above @dataclass"):

        @dataclass
        @functad.register_tree
        class Wrong:
            weight: Any


def test_static_field_hands_its_options_on():
    made = dataclasses.fields(Frozen)[1]
    assert (made.default, made.repr, dict(made.metadata)) == ("frozen", False, {"static": True})

    @dataclass
    class WithMetadata:
        a: Any = functad.static_field(default_factory=tuple, metadata={"unit": "m"})

    assert dict(dataclasses.fields(WithMetadata)[0].metadata) == {"unit": "m", "static": True}
    assert tree_flatten(WithMetadata())[0] == []


def test_flatten_and_unflatten_by_name():
    tree = {"a": (1.0, None), "b": [2.0]}
    leaves, structure = functad.tree_flatten(tree)
    assert leaves == functad.tree_leaves(tree) == [1.0, 2.0]
    assert structure == functad.tree_structure({"a": (0, None), "b": [0]})
    assert functad.tree_unflatten(structure, iter("xy")) == {"a": ("x", None), "b": ["y"]}
    for wrong in ([], [1], [1, 2, 3]):
        with pytest.raises(StructureError, match=f"got {len(wrong)} leaves for .*, which has 2"):
            functad.tree_unflatten(structure, wrong)


def test_is_leaf_stops_at_containers_and_none():
    tree = {"a": (1.0, None), "b": [2.0]}

    def is_leaf(part):
        return part is None or isinstance(part, list)

    assert functad.tree_leaves(tree, is_leaf) == [1.0, None, [2.0]]
    assert functad.tree_map(lambda part: part is None, tree, is_leaf=is_leaf) == {"a": (False, True), "b": False}
    assert functad.tree_leaves(tree, is_leaf=lambda part: True) == [tree]
    other = {"a": (3.0, 4.0), "b": None}
    assert functad.tree_map(lambda a, b: b, tree, other, is_leaf=is_leaf) == other
    with pytest.raises(StructureError, match=r"others\[0\]\['b'\] should be a leaf, not a tuple of 1"):
        functad.tree_map(lambda a, b: b, tree, {"a": (3.0, 4.0), "b": (1,)}, is_leaf=is_leaf)


def test_structure_can_be_pickled():
    structure = functad.tree_structure({"w": Named(1.0, "v"), "a": [1.0]})
    assert repr(structure) == "dict(['a']: list([0]: *), ['w']: Named(.weight: *))"
    assert pickle.loads(pickle.dumps(functad.tree_structure([1.0, (2.0,)]))) == functad.tree_structure([1.0, (2.0,)])
