"""Trees that are put together by one expression."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.trees.builder import builder
from functad.trees.structure import flatten


class Pair(NamedTuple):
    """Two values."""

    first: Any
    second: Any


TREES = [
    1,
    (),
    (1,),
    [1, (2, None), []],
    {"a": 1, 3: [2, {}], "it's": (4,)},
    {(1, 2): 1, 2.5: 2},
    Pair(1, [2]),
    (1, collections.OrderedDict(a=2)),
    [collections.defaultdict(list, {"x": 1}), 2],
    tuple(range(300)),
]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_trees_are_put_together_again(tree: Any) -> None:
    leaves, structure = flatten(tree)
    made = builder(structure)(*leaves)
    assert made == tree
    assert type(made) is type(tree)
    assert flatten(made)[1] == structure


@pytest.mark.parametrize("backend", ["numpy", None])
def test_compiled_functions_give_new_trees_in_each_call(backend: Any) -> None:
    def f(x: Any) -> Any:
        return {"a": [x + 1, (x * 2,)], "b": Pair(np.sum(x), None)}

    compiled = functad.jit(f, backend=backend)
    for _ in range(3):
        out = compiled(np.ones(2))
        assert out["a"][0].tolist() == [2, 2]
        assert out["a"][1][0].tolist() == [2, 2]
        assert out["b"] == Pair(2.0, None)
        assert type(out["b"].first) is np.float64
        out["a"].clear()


def test_what_puts_results_together_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("functad.compilation.lists.builder", lambda structure: made.append(structure) or builder(structure))
    doubled = functad.jit(lambda pair, n: (pair[0] * n, pair[1] + n), backend="numpy", static_argnums=1)
    for _ in range(3):
        assert doubled((2.0, 3.0), 4) == (8.0, 7.0)
    assert len(made) == 1
