"""`Rules`: the functions that compute, differentiate and batch a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from functad.errors import CustomRuleError
from functad.expressions.expressions import Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, inexact, is_array, shape_of
from functad.places import here, name_of
from functad.primitives.operands import zeros_for
from functad.transforms.leaves import replaced
from functad.trees.structure import Structure, flatten

_FIXED = (*PYTHON_SCALARS, str, bytes, type, np.dtype)
"""Types of residuals, besides arrays, that are equal for all examples."""


class Rules(NamedTuple):
    """The functions that compute and differentiate a function of arrays.

    Attributes:
        function: the function, for messages.
        value: `value(*arrays)` returns a tuple of results.
        forward: `forward(*arrays)` returns the results and the residuals of `backward`. Set both or neither.
        backward: `backward(kept, gs)` returns a cotangent or `None` for each array. `None`: reverse mode transposes `push`.
        push: `push(primals, tangents)` returns the tangents of the results. `None`: forward mode transposes `backward`.
        batch: `batch(size, values, batched)` returns the results with the batch axis in front. `None`: apply `vmap`.
        spec: `spec(*specs)` returns the specs of the results. `None`: use an abstract trace.
        name: the name in printed lists.
        loops: `True` if the function accepts no Tensors. Without a batch rule, a batch is a loop.
        by_user: `True` if the rules are user functions, which may modify residuals and results.
        inner: the expression list that `value` evaluates, if its derivatives are the derivatives of the list.
        of_jax: `value` as a function that JAX can trace, or `None`.
        inlines: `True` if `value` accepts Tensors, and records its operations in a trace without values.
    """

    function: Any
    value: Callable[..., tuple[Any, ...]]
    forward: Callable[..., tuple[tuple[Any, ...], Any]] | None = None
    backward: Callable[..., Sequence[Any]] | None = None
    push: Callable[..., Sequence[Any]] | None = None
    batch: Callable[..., Any] | None = None
    spec: Callable[..., tuple[ArraySpec, ...]] | None = None
    name: str = "call"
    loops: bool = False
    by_user: bool = False
    inner: Expressions | None = None
    of_jax: Callable[..., Sequence[Any]] | None = None
    inlines: bool = False

    def of_batch(self, size: int, batched: tuple[bool, ...]) -> Rules:
        """Return the rules of the function for `size` examples. Arrays with `True` in `batched` have this axis in front."""
        every = _Every(self, size, batched)
        return self._replace(
            value=every.value,
            forward=None if self.forward is None else every.forward,
            backward=None if self.backward is None else every.backward,
            push=None if self.push is None else every.push,
            batch=None,
            spec=None,
            inner=None,
            of_jax=None,
        )


_PART = object()


@dataclass(frozen=True)
class _Given:
    """A residual that is the argument at a position."""

    position: int


@dataclass(frozen=True)
class _Kept:
    """The residuals of all examples.

    Attributes:
        arrays: the arguments.
        parts: the residuals that are arrays, with the batch axis in front.
        leaves: the leaves of the residuals of one example: `_PART` for an array, `_Given` for an argument, which is not
            repeated for each example, else the leaf. `None`: a leaf may differ between examples, so the backward rule runs the
            forward rule again.
        structure: the structure of the leaves.
    """

    is_tree_leaf = True
    arrays: Sequence[Any]
    parts: Sequence[Any] = ()
    leaves: Sequence[Any] | None = None
    structure: Structure | None = None

    def of_one(self, arrays: Sequence[Any], parts: Sequence[Any]) -> Any:
        """Return the residuals of one example."""
        assert self.leaves is not None
        assert self.structure is not None
        given = iter(parts)
        return self.structure.unflatten(
            [
                next(given) if leaf is _PART else arrays[leaf.position] if isinstance(leaf, _Given) else leaf
                for leaf in self.leaves
            ]
        )


class _Every:
    """The rules of one example, mapped over a batch."""

    def __init__(self, rules: Rules, size: int, batched: tuple[bool, ...]) -> None:
        self.rules = rules
        self.size = size
        self.batched = batched
        self.axes = [0 if flag else None for flag in batched]

    def _map(self, one: Callable[..., Any], axes: Sequence[Any], *lists: Sequence[Any]) -> list[Any]:
        """Map `one(*lists)` over the axes of the arrays in the lists; the batch axis of results is in front."""
        from functad.transforms.vmap import vmap  # noqa: PLC0415 - circular import; vmap is loaded when this runs

        flat = [a for part in lists for a in part]
        lengths = [len(part) for part in lists]

        def of_all(*given: Any) -> list[Any]:
            remaining = iter(given)
            return list(one(*[[next(remaining) for _ in range(length)] for length in lengths]))

        of_all.__qualname__ = name_of(self.rules.function)  # messages show the name of the user function
        return list(vmap(of_all, in_axes=tuple(axes), axis_size=self.size)(*flat)) if flat else list(of_all())

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results of all examples."""
        rules = self.rules
        if rules.batch is not None:
            return tuple(rules.batch(self.size, arrays, self.batched))
        return tuple(self._map(lambda own: rules.value(*own), self.axes, arrays))

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results and the residuals of all examples."""
        rules = self.rules
        found: list[Any] = []

        def one(own: Sequence[Any]) -> list[Any]:
            assert rules.forward is not None
            outs, kept = rules.forward(*own)
            leaves, structure = flatten(kept)
            places = {id(a): i for i, a in enumerate(own)}
            fixed = [_Given(places[id(leaf)]) if id(leaf) in places else _PART if is_array(leaf) else leaf for leaf in leaves]
            parts = [leaf for leaf, mark in zip(leaves, fixed, strict=True) if mark is _PART]
            known = all(mark is _PART or isinstance(mark, (_Given, *_FIXED)) for mark in fixed)
            found[:] = [len(outs), fixed if known else None, structure]
            return [*outs, *parts] if known else list(outs)

        results = self._map(one, self.axes, arrays)
        count, leaves, structure = found
        return tuple(results[:count]), _Kept(arrays, results[count:], leaves, structure)

    def backward(self, kept: _Kept, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments. Cotangents without a batch axis are summed over the examples."""
        rules, arrays = self.rules, kept.arrays
        shapes = [shape_of(a)[1:] if flag else shape_of(a) for a, flag in zip(arrays, self.batched, strict=True)]
        dtypes = list(map(inexact, arrays))

        def one(given: Sequence[Any], parts: Sequence[Any], own: Sequence[Any]) -> list[Any]:
            assert rules.forward is not None
            assert rules.backward is not None
            of_one = rules.forward(*given)[1] if kept.leaves is None else kept.of_one(given, parts)
            cts = rules.backward(of_one, own)
            like = next((ct for ct in cts if ct is not None), 0.0)
            rows = zip(cts, shapes, dtypes, strict=True)
            return [zeros_for(shape, dtype, like) if ct is None else ct for ct, shape, dtype in rows]

        found = self._map(one, [*self.axes, *[0] * (len(kept.parts) + len(gs))], arrays, kept.parts, gs)
        return [ct if flag else ct.sum(0) for ct, flag in zip(found, self.batched, strict=True)]

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        rules = self.rules
        places = [i for i, t in enumerate(ts) if t is not None]
        axes = [*self.axes, *[self.axes[i] for i in places]]

        def one(own: Sequence[Any], parts: Sequence[Any]) -> list[Any]:
            assert rules.push is not None
            return list(rules.push(own, replaced([None] * len(own), places, parts)))

        return self._map(one, axes, arrays, [ts[i] for i in places])


def of_all_examples(outs: Sequence[Any], flags: Sequence[bool], size: int, gave: Sequence[str]) -> tuple[Any, ...]:
    """Return the results of a batch rule, all with the batch axis in front.

    Args:
        outs: the results.
        flags: for each result, `True` if it has the axis.
        size: the length of the axis.
        gave: for messages, the rule and the result, such as `the batch rule of f: value has`.

    Raises:
        CustomRuleError: the axis of a result is missing or has another length.
    """
    for out, flag, what in zip(outs, flags, gave, strict=True):
        if flag and (not shape_of(out) or shape_of(out)[0] != size):
            raise CustomRuleError(
                f"{what} shape {shape_of(out)}, but its first axis should be the batch of {size}, at {here()}."
            )
    return tuple([a if flag else np.broadcast_to(a, (size, *shape_of(a))) for a, flag in zip(outs, flags, strict=True)])
