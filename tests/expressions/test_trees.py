"""Expression lists of functions whose arguments and results are containers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.errors import StructureError


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Layer:
    weight: Any
    bias: Any = None


def test_inputs_are_named_by_their_paths() -> None:
    expressions = functad.make_expressions(lambda p, x, *rest, scale: (p["b"], p["a"][1], x.left, rest, scale))(
        {"b": 1.0, "a": [1.0, 2.0]}, Pair(3.0, Layer(4.0)), 5.0, scale={"s": 6.0}
    )
    assert expressions.inputs == ("p['a'][0]", "p['a'][1]", "p['b']", "x.left", "x.right.weight", "args[2]", "scale['s']")


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: {"z": a, "y": [b]},
        lambda a, b: OrderedDict(z=a, y=b),
        lambda a, b: (a, [b, None]),
        lambda a, b: Pair(a, Layer(b)),
        lambda a, b: [a, a, b],
    ],
    ids=["dict", "OrderedDict", "tuple", "namedtuple and dataclass", "repeated leaf"],
)
def test_result_has_the_structure_of_the_function(make: Any) -> None:
    x, y = np.arange(3.0), np.array(2.0)

    def f(t: Any) -> Any:
        return make(t.left * t.right, np.sin(t.right))

    expected = f(Pair(x, y))
    found = functad.make_expressions(f)(Pair(x, y)).check()(Pair(x, y))
    assert type(found) is type(expected)
    leaves, structure = functad.tree_flatten(found)
    wanted, same = functad.tree_flatten(expected)
    assert structure == same
    assert all(np.array_equal(a, b) for a, b in zip(leaves, wanted, strict=True))


def test_arguments_of_another_structure_are_refused() -> None:
    expressions = functad.make_expressions(lambda p: p["w"] * 2.0)({"w": 1.0})
    with pytest.raises(StructureError, match=r"\(args, kwargs\)\[0\]\[0\] should be a dict with keys \['w'\]"):
        expressions({"v": 1.0})


def test_shapes_of_a_tree() -> None:
    shapes = functad.eval_shape(lambda p: Layer(p["w"] @ p["w"], [p["w"].sum()]), {"w": np.ones((2, 2), np.float32)})
    assert isinstance(shapes, Layer)
    assert str(shapes.weight) == "float32[2,2]"
    assert [str(spec) for spec in shapes.bias] == ["float32[]"]


def test_nothing_in_nothing_out() -> None:
    expressions = functad.make_expressions(lambda p: {"none": p, "list": []})(None)
    assert expressions.inputs == ()
    assert expressions(None) == {"none": None, "list": []}
