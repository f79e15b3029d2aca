"""`tf.nest`, as measured on TensorFlow."""

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

from functad.compat.tf import nest


class Point(NamedTuple):
    x: Any
    y: Any


def another_point():
    class Point(NamedTuple):
        x: Any
        y: Any

    return Point(3, 4)


def test_flatten():
    assert nest.flatten({"b": [1, (2, 3)], "a": Point(4, None)}) == [4, None, 1, 2, 3]
    assert nest.flatten(OrderedDict([("b", 1), ("a", 2)])) == [2, 1]
    assert nest.flatten(range(3)) == [0, 1, 2]
    assert nest.flatten("text") == ["text"]
    assert nest.flatten({1, 2}) == [{1, 2}]
    array = np.ones(2)
    assert nest.flatten(array)[0] is array
    assert nest.flatten([]) == []
    assert nest.is_nested(range(2))
    assert not nest.is_nested(None)
    with pytest.raises(TypeError, match="sortable"):
        nest.flatten({1: 0, "a": 1})


@pytest.mark.parametrize(
    "structure",
    [
        {"b": [1, (2, 3)], "a": Point(4, None)},
        OrderedDict([("b", 1), ("a", 2)]),
        defaultdict(list, {"b": 1, "a": (2,)}),
        [[], (), {}],
        7,
    ],
)
def test_pack_restores_types_and_keys(structure):
    packed = nest.pack_sequence_as(structure, nest.flatten(structure))
    assert packed == structure
    assert type(packed) is type(structure)
    if isinstance(structure, dict):
        assert list(packed) == list(structure)


def test_pack_refuses():
    with pytest.raises(ValueError, match="3 elements, and the structure 2"):
        nest.pack_sequence_as([1, 2], [1, 2, 3])
    with pytest.raises(TypeError, match="flat_sequence is a int"):
        nest.pack_sequence_as(1, 1)
    with pytest.raises(ValueError, match="the structure 1"):
        nest.pack_sequence_as("leaf", [])


def test_map_structure():
    assert nest.map_structure(lambda a, b: a + b, {"x": [1]}, {"x": [2]}) == {"x": [3]}
    assert nest.map_structure(lambda x: x, range(2)) == [0, 1]
    assert nest.map_structure(lambda a, b: (a, b), [1, 2], (3, 4), check_types=False) == [(1, 3), (2, 4)]
    assert nest.map_structure(lambda a, b: a + b, OrderedDict(b=1, a=2), {"a": 10, "b": 20}) == {"b": 21, "a": 12}
    with pytest.raises(ValueError, match="of 1 and a list of 2"):
        nest.map_structure(max, [1], [1, 2])
    with pytest.raises(TypeError, match="not the same type"):
        nest.map_structure(max, [1], (1,))
    with pytest.raises(TypeError, match="first argument is the function"):
        nest.map_structure([1], [1])
    with pytest.raises(ValueError, match="without a structure"):
        nest.map_structure(max)


def test_assert_same_structure():
    nest.assert_same_structure([1, (2,)], [3, (4,)])
    nest.assert_same_structure({"a": 1}, OrderedDict(a=2))
    nest.assert_same_structure(Point(1, 2), another_point())
    with pytest.raises(TypeError):
        nest.assert_same_structure(Point(1, 2), (1, 2))
    with pytest.raises(ValueError, match="one of them is a leaf"):
        nest.assert_same_structure([1, [2]], [1, 2])
    with pytest.raises(ValueError, match="keys"):
        nest.assert_same_structure({"a": 1}, {"b": 1})
    nest.assert_same_structure([1, (2,)], (3, [4]), check_types=False)
    with pytest.raises(ValueError, match="of 1 and a tuple of 2"):
        nest.assert_same_structure([1], (1, 2), check_types=False)
