"""Classes that JAX and optree were told are containers.

Neither is needed to run the tests: modules that stand for them check the way always, the libraries themselves where they are.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import functad
from functad import trees

ROOT = Path(__file__).parents[1]


class Interval:
    def __init__(self, low, high, closed=True):
        self.low, self.high, self.closed = low, high, closed


class Treedef:
    """Of one level: that of a class, or of a leaf."""

    def __init__(self, kind, data, num_leaves):
        self.kind, self.data, self.num_leaves = kind, data, num_leaves

    def __eq__(self, other):
        return (self.kind, self.data) == (other.kind, other.data)

    def __hash__(self):
        return hash((self.kind, self.data))


@pytest.fixture
def known(monkeypatch):
    """What functad knows of classes, which a test may add to."""
    monkeypatch.setattr(trees, "_REGISTERED", dict(trees._REGISTERED))


@pytest.fixture
def tree_util(monkeypatch, known):
    """A module with the functions of `jax.tree_util` that are asked, and a registry of `Interval`."""
    module = types.ModuleType("jax.tree_util")

    def tree_flatten(tree, is_leaf):
        assert not is_leaf(tree)
        if type(tree) is not Interval:
            return [tree], Treedef(None, None, 1)
        assert is_leaf(tree.low)
        return [tree.low, tree.high], Treedef(Interval, tree.closed, 2)

    def tree_flatten_with_path(tree, is_leaf):
        children, treedef = tree_flatten(tree, is_leaf)
        return [((f".{name}",), child) for name, child in zip(("low", "high"), children, strict=True)], treedef

    module.tree_flatten, module.tree_flatten_with_path = tree_flatten, tree_flatten_with_path
    module.treedef_is_leaf = lambda treedef: treedef.kind is None
    module.tree_unflatten = lambda treedef, leaves: treedef.kind(*leaves, treedef.data)
    monkeypatch.setitem(sys.modules, "jax.tree_util", module)
    return module


def check_interval(paths):
    leaves, structure = functad.tree_flatten([Interval(1.0, {"a": 2.0}, closed=False)])
    assert leaves == [1.0, 2.0]
    assert structure.paths("t") == paths
    again = structure.unflatten([3.0, 4.0])[0]
    assert (type(again), again.low, again.high, again.closed) == (Interval, 3.0, {"a": 4.0}, False)
    assert functad.tree_flatten([again])[1] == structure
    assert functad.tree_flatten([Interval(1.0, {"a": 2.0})])[1] != structure
    gradient = functad.grad(lambda i: i.low * i.high)(Interval(2.0, 3.0))
    assert (gradient.low, gradient.high) == (3.0, 2.0)


def test_class_that_jax_knows(tree_util):
    check_interval(["t[0].low", "t[0].high['a']"])
    array = np.ones(2, int)
    assert functad.tree_flatten([array, "text", np.int8(1)])[0] == [array, "text", 1]


def test_names_that_jax_cannot_give(tree_util, monkeypatch):
    def refuse(*_):
        raise ValueError("no numbers")

    monkeypatch.setattr(tree_util, "tree_flatten_with_path", refuse)
    assert functad.tree_flatten(Interval(1.0, 2.0))[1].paths("t") == ["t.children[0]", "t.children[1]"]


def test_own_registration_comes_first(tree_util):
    functad.register_tree(Interval, lambda i: ([i.low], (i.high, i.closed)), lambda data, c: Interval(*c, *data))
    assert functad.tree_flatten(Interval(1.0, 2.0))[0] == [1.0]


def test_library_that_is_being_imported_is_left_alone(known, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax.tree_util", types.ModuleType("jax.tree_util"))
    monkeypatch.setitem(sys.modules, "optree", types.ModuleType("optree"))
    interval = Interval(1.0, 2.0)
    assert functad.tree_flatten(interval)[0] == [interval]


@pytest.mark.parametrize("namespace", ["", "mine"])
def test_class_that_optree_knows(known, monkeypatch, namespace):
    module, registry = types.ModuleType("optree"), types.ModuleType("optree.registry")
    module.PyTreeKind = types.SimpleNamespace(CUSTOM=object(), DEQUE=object())
    entry = types.SimpleNamespace(
        kind=module.PyTreeKind.CUSTOM,
        flatten_func=lambda i: ((part for part in (i.low, i.high)), i.closed, ("low", "high")),
        unflatten_func=lambda data, children: Interval(*children, data),
    )
    module.register_pytree_node = types.SimpleNamespace(get={Interval: entry}.get if not namespace else {}.get)
    registry._NODETYPE_REGISTRY = {(namespace, Interval): entry} if namespace else {Interval: entry}
    monkeypatch.setitem(sys.modules, "optree", module)
    monkeypatch.setitem(sys.modules, "optree.registry", registry)
    check_interval(["t[0].children[0]", "t[0].children[1]['a']"])


JAX = """
import dataclasses
import functad
import numpy as np

@dataclasses.dataclass
class Early:
    weight: float
    name: str = "early"

assert functad.tree_flatten(Early(1.0))[0] == [1.0, "early"]
import jax

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    name: str = dataclasses.field(metadata={"static": True}, default="w")

@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b
    def tree_flatten(self):
        return (self.a, self.b), "data"
    @classmethod
    def tree_unflatten(cls, data, children):
        assert data == "data"
        return cls(*children)

jax.tree_util.register_dataclass(Early, ["weight"], ["name"])
Point = __import__("collections").namedtuple("Point", "x y")
tree = {"l": Layer([1.0, 2.0], "q"), "p": Pair(None, 3.0), "e": Early(4.0), "n": Point(5.0, 6.0), "j": jax.numpy.ones(2)}
leaves, structure = functad.tree_flatten(tree)
assert len(leaves) == 7 and leaves[0] == 4.0 and leaves[2:] == [1.0, 2.0, 5.0, 6.0, 3.0], leaves
print(*structure.paths("t"))
again = structure.unflatten(leaves)
assert again["l"] == tree["l"] and again["p"].b == 3.0 and again["p"].a is None and again["e"] == tree["e"]
assert functad.tree_flatten(again)[1] == structure and hash(functad.tree_flatten(again)[1]) == hash(structure)
gradient = functad.grad(lambda t: np.sum(t["l"].weight[0] ** 2) * t["p"].b)({"l": Layer([2.0, 1.0]), "p": Pair(None, 3.0)})
assert gradient["l"].weight[0] == 12.0 and gradient["p"].b == 4.0 and gradient["l"].name == "w"
"""

OPTREE = """
import functad
import optree

@optree.dataclasses.dataclass(namespace="mine")
class Layer:
    weight: object
    name: str = optree.dataclasses.field(pytree_node=False, default="w")

class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

optree.register_pytree_node(Pair, lambda p: ((p.a, p.b), "data"), lambda data, c: Pair(*c), namespace="other")
from collections import deque
tree = {"l": Layer([1.0, 2.0], "q"), "p": Pair(None, 3.0), "d": deque([1])}
leaves, structure = functad.tree_flatten(tree)
assert leaves == [deque([1]), 1.0, 2.0, 3.0], leaves
again = structure.unflatten(leaves)
assert again["l"] == tree["l"] and again["p"].b == 3.0 and again["p"].a is None
print(*structure.paths("t"))
"""


def run_beside(library, code):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed; a module that stands for it is tested above")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_beside_jax():
    assert run_beside("jax", JAX) == [
        "t['e'].weight",
        "t['j']",
        "t['l'].weight[0]",
        "t['l'].weight[1]",
        "t['n'].x",
        "t['n'].y",
        "t['p'].children[1]",
    ]


def test_beside_optree():
    names = ["t['d']", "t['l'].children[0][0]", "t['l'].children[0][1]", "t['p'].children[1]"]
    assert run_beside("optree", OPTREE) == names


def test_neither_is_imported():
    code = "import sys, functad; functad.tree_map(abs, [object()][:0] + [1.0]); functad.tree_leaves(object())"
    code += "; print([name for name in ('jax', 'optree', 'attr', 'attrs') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout == "[]\n"
