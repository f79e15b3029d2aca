"""Containers: how they flatten, how they are put together again, and how a place in them is named."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import register_tree, tree_flatten, tree_map
from functad.errors import InputError, StructureError
from functad.trees import LEAF, Structure


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Layer:
    weight: Any
    bias: Any


@dataclass(frozen=True)
class Frozen:
    inner: Any


class Interval:
    """A class that knows nothing of trees."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high


class Bound(Interval):
    """A subclass, which is not registered."""


def _put_together(data: str, children: Sequence[Any]) -> Interval:
    assert data == "closed"
    return Interval(*children)


register_tree(Interval, lambda i: ((i.low, i.high), "closed"), _put_together)

Old = namedtuple("Old", "a b")  # noqa: PYI024 (the class without annotations is what is tested)

TREES: list[tuple[Any, list[Any], list[str]]] = [
    (1.5, [1.5], ["t"]),
    (None, [], []),
    ((), [], []),
    ([], [], []),
    ({}, [], []),
    ([1, 2], [1, 2], ["t[0]", "t[1]"]),
    ((1, [2, (3,)]), [1, 2, 3], ["t[0]", "t[1][0]", "t[1][1][0]"]),
    ({"b": 1, "a": 2}, [2, 1], ["t['a']", "t['b']"]),
    ({2: 1, "a": 2}, [1, 2], ["t[2]", "t['a']"]),
    (OrderedDict(b=1, a=2), [1, 2], ["t['b']", "t['a']"]),
    (defaultdict(list, x=1), [1], ["t['x']"]),
    (Point(1, {"k": 2}), [1, 2], ["t.x", "t.y['k']"]),
    (Old(1, 2), [1, 2], ["t.a", "t.b"]),
    (Layer(1, None), [1], ["t.weight"]),
    (Layer([1, 2], Frozen(3)), [1, 2, 3], ["t.weight[0]", "t.weight[1]", "t.bias.inner"]),
    ([None, 1, None], [1], ["t[1]"]),
]


@pytest.mark.parametrize(("tree", "leaves", "paths"), TREES, ids=lambda v: None)
def test_flatten_and_back(tree: Any, leaves: list[Any], paths: list[str]) -> None:
    found, structure = tree_flatten(tree)
    assert found == leaves
    assert structure.leaves == len(leaves)
    assert structure.paths("t") == paths
    again = structure.unflatten(found)
    assert again == tree
    assert type(again) is type(tree)
    assert tree_flatten(again)[1] == structure
    assert hash(tree_flatten(again)[1]) == hash(structure)


def test_array_and_string_are_leaves() -> None:
    a = np.ones(3)
    leaves, structure = tree_flatten({"a": a, "name": "w"})
    assert leaves[0] is a
    assert leaves[1] == "w"
    assert structure.children == (LEAF, LEAF)


def test_registered_class() -> None:
    leaves, structure = tree_flatten([Interval(1, [2])])
    assert leaves == [1, 2]
    again = structure.unflatten([3, 4])
    assert isinstance(again[0], Interval)
    assert (again[0].low, again[0].high) == (3, [4])
    assert structure.paths("t") == ["t[0].children[0]", "t[0].children[1][0]"]


def test_subclass_of_a_registered_class_is_a_leaf() -> None:
    bound = Bound(1, 2)
    assert tree_flatten(bound) == ([bound], LEAF)


def test_dataclass_type_is_a_leaf() -> None:
    assert tree_flatten(Layer) == ([Layer], LEAF)


def test_frozen_dataclass_is_rebuilt_without_its_init() -> None:
    assert tree_map(lambda v: v + 1, Frozen([1, 2])) == Frozen([2, 3])


def test_default_factory_is_kept() -> None:
    again = tree_map(lambda v: -v, defaultdict(list, a=1))
    assert again == {"a": -1}
    assert again["missing"] == []


def test_order_of_insertion_does_not_matter() -> None:
    assert tree_flatten({"a": 1, "b": 2}) == tree_flatten({"b": 2, "a": 1})


def test_keys_without_an_order_keep_their_places() -> None:
    assert tree_flatten({np.float64(1.0): 1, (1, 2): 2, "a": 3})[0] == [1, 2, 3]


@pytest.mark.parametrize(
    ("expected", "found", "message"),
    [
        ({"a": 1}, {"b": 1}, r"t should be a dict with keys \['a'\], not a dict with keys \['b'\]"),
        ([1, [2, 3]], [1, [2]], r"t\[1\] should be a list of 2, not a list of 1"),
        ([1, 2], (1, 2), r"t should be a list of 2, not a tuple of 2"),
        ({"w": [1, {"k": 2}]}, {"w": [1, {"k": None}]}, r"t\['w'\]\[1\]\['k'\] should be a leaf, not None"),
        (Layer(1, 2), Layer(1, [2]), r"t\.bias should be a leaf, not a list of 1"),
        (Point(1, None), Point(1, 2), r"t\.y should be None, not a leaf"),
    ],
)
def test_difference_is_named(expected: Any, found: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        tree_flatten(expected)[1].flatten_like(found, "t")


def test_tree_map_of_several_trees() -> None:
    assert tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)}) == {"x": 11, "y": (22,)}
    with pytest.raises(StructureError, match=r"others\[0\]\['y'\] should be a tuple of 1"):
        tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20, 30)})


def test_arguments_in_the_wrong_order_are_told() -> None:
    with pytest.raises(InputError, match=r"tree_map needs a function, not a dict, at .*tree_map\(f, tree\)"):
        tree_map({"a": 1}, lambda leaf: leaf)  # type: ignore[arg-type]
    with pytest.raises(StructureError, match=r"tree_unflatten, called at .*got a list for the structure"):
        functad.tree_unflatten([1, 2], functad.tree_structure([1, 2]))  # type: ignore[arg-type]


def test_structure_shows_its_places() -> None:
    assert repr(tree_flatten({"a": [1, None]})[1]) == "dict(['a']: list([0]: *, [1]: NoneType()))"
    assert repr(Structure(None, None, (), 1)) == "*"


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: {"a": a, "b": [b]},
        lambda a, b: [a, (b,)],
        lambda a, b: Point(a, b),
        lambda a, b: Layer(weight=a, bias=Frozen(b)),
        lambda a, b: Interval(a, {"deep": (None, b)}),
    ],
)
def test_gradient_has_the_structure_of_the_argument(make: Any) -> None:
    """The gradient of `sum(a^2) + 3 b` in every kind of container."""
    tree = make(np.array([1.0, 2.0]), 5.0)

    def f(t: Any) -> Any:
        a, b = tree_flatten(t)[0]
        return np.sum(a * a) + 3 * b

    gradient = functad.grad(f)(tree)
    leaves, structure = tree_flatten(gradient)
    assert structure == tree_flatten(tree)[1]
    assert np.array_equal(leaves[0], [2.0, 4.0])
    assert leaves[1] == 3.0


def test_bad_leaf_is_named_by_its_path() -> None:
    with pytest.raises(functad.errors.InputError, match=r"args\[0\]\['w'\]\[2\]"):
        functad.grad(lambda t: t["w"][0])({"w": [1.0, 2.0, "three"]})


# Compiled builders

BUILT = [
    1,
    (),
    (1,),
    [1, (2, None), []],
    {"a": 1, 3: [2, {}], "it's": (4,)},
    {(1, 2): 1, 2.5: 2},
    Point(1, [2]),
    (1, OrderedDict(a=2)),
    [defaultdict(list, {"x": 1}), 2],
    tuple(range(300)),
]


@pytest.mark.parametrize("tree", BUILT, ids=range(len(BUILT)))
def test_trees_are_put_together_again(tree: Any) -> None:
    leaves, structure = tree_flatten(tree)
    made = structure.builder()(*leaves)
    assert made == tree
    assert type(made) is type(tree)
    assert tree_flatten(made)[1] == structure


@pytest.mark.parametrize("backend", ["numpy", None])
def test_compiled_functions_give_new_trees_in_each_call(backend: Any) -> None:
    def f(x: Any) -> Any:
        return {"a": [x + 1, (x * 2,)], "b": Point(np.sum(x), None)}

    compiled = functad.jit(f, backend=backend)
    for _ in range(3):
        out = compiled(np.ones(2))
        assert out["a"][0].tolist() == [2, 2]
        assert out["a"][1][0].tolist() == [2, 2]
        assert out["b"] == Point(2.0, None)
        assert type(out["b"].x) is np.float64
        out["a"].clear()


def test_what_puts_results_together_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    builder = Structure.builder
    monkeypatch.setattr(Structure, "builder", lambda structure: made.append(structure) or builder(structure))
    doubled = functad.jit(lambda pair, n: (pair[0] * n, pair[1] + n), backend="numpy", static_argnums=1)
    for _ in range(3):
        assert doubled((2.0, 3.0), 4) == (8.0, 7.0)
    assert len(made) == 1
