"""Values of Tensors and of other arguments that a user gives.

| function | value |
|---|---|
| `Tensor.current` | the value one level lower; `below` is the same unless the Tensor is a stale view |
| `unwrap` | a tree with the Tensors of one trace replaced by their values one level lower |
| `value_of` | an argument of the user: a Tensor of a trace that records now, or a plain value |
| `resolve` (in `traces.base`) | `value_of` for a Tensor |
| `innermost` (in `primitives.operands`) | the plain value; in a batch or a trace without values the spec |
| `known_values` (in `primitives.operands`) | plain values; `None` if one is in a batch or a trace without values |
| `concrete` (in `primitives.operands`) | the plain value; an error in a batch or a trace without values |
| `all_examples` (in `primitives.operands`) | the plain value, in a batch of all examples; in a trace without values the spec |
"""

from __future__ import annotations

from typing import Any

from functad.expressions.spec import PLAIN
from functad.primitives.indexing.indexable import as_plain
from functad.primitives.operands import read
from functad.tracing.traces.base import Recorded, Recorder, resolve
from functad.tracing.writing import recorded_now
from functad.trees.structure import flatten


def value_of(leaf: Any) -> Any:
    """Return the value of a leaf: read a Variable, and unwrap a Tensor of an inactive tape."""
    if type(leaf) in PLAIN:
        return leaf
    return resolve(noted(leaf if isinstance(leaf, Recorded) else read(as_plain(leaf))))


def operand_of(leaf: Any) -> Any:
    """Return the value of an operand like `value_of`, but keep a constant of a compiled function."""
    value = value_of(leaf)
    return read(leaf) if isinstance(value, Recorded) and value.recorder.plain else value


def noted(value: Any) -> Any:
    """Return an argument, and report it to an open `graph`, which also records transforms of constants."""
    if isinstance(value, Recorded) and value.recorder.inactive:
        recorded_now([value])
    return value


def unwrap(tree: Any, recorder: Recorder) -> Any:
    """Return a tree with the Tensors of a trace replaced by their values."""
    if isinstance(tree, Recorded):
        return tree.below if tree.recorder is recorder else tree
    leaves, structure = flatten(tree)
    return structure.unflatten([v.below if isinstance(v, Recorded) and v.recorder is recorder else v for v in leaves])
