"""Accumulations in `scatter` equations: sums over the steps of a loop, and rows that the steps compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.rolling.labels import positions, taken_apart
from functad.compilation.rolling.places import SHORTEST, Places, stretch
from functad.compilation.rolling.wiring import LEAST, Block
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.primitives.indexing.index_map import is_basic


class Sum(NamedTuple):
    """A sum that the steps of a loop accumulate in order.

    Attributes:
        before: slots added before the loop, starting from zero.
        results: the results of each step that are added, in this order.
        spec: the spec of the sum.
        block: the loop.
        after: slots added after the loop.
    """

    before: tuple[int, ...]
    results: tuple[int, ...]
    spec: ArraySpec
    block: Block
    after: tuple[int, ...]


class Part(NamedTuple):
    """A contribution to an array at one index: a sum, rows to gather, or a single value."""

    index: Any
    what: Sum | list[int] | int


def parts_of(places: Places, equation: Equation) -> list[Part] | None:
    """Return a `scatter` as few parts; `None` if the parts would change the order of the additions."""
    inputs = [s for s in equation.inputs if type(s) is int]
    if len(inputs) < len(equation.inputs) or not all(map(is_basic, equation.params["indices"])):
        return None
    specs = places.labelled.expressions.specs
    shape, dtype = equation.params["shape"], equation.params["dtype"]
    every = np.broadcast_to(np.zeros((), dtype), shape)
    pieces: dict[Any, list[int]] = {}
    for i, index in enumerate(equation.params["indices"]):
        pieces.setdefault(taken_apart(index), []).append(i)
    found: list[Part] = []
    rest: list[int] = []
    for own in pieces.values():
        sources = [equation.inputs[i] for i in own]
        index = equation.params["indices"][own[0]]
        total = _sum(places, sources, ArraySpec(every[index].shape, dtype)) if len(own) >= LEAST else None
        if total is not None:
            found.append(Part(index, total))
        else:
            rest += own
    found += _rows(places, equation, sorted(rest))
    same = all(specs[s] == ArraySpec(every[i].shape, dtype) for s, i in zip(inputs, equation.params["indices"], strict=True))
    return found if same and _apart(found, shape) else None


def _sum(places: Places, sources: Sequence[Any], spec: ArraySpec) -> Sum | None:
    """Return the sum of values that mostly come from one loop, or `None`."""
    owners = places.owner[np.array(sources)]
    middle = owners[len(owners) // 2]
    inside = np.flatnonzero(owners == middle)
    if middle < 0 or inside[-1] - inside[0] + 1 != len(inside):
        return None
    block = places.blocks[middle]
    start, stop = int(inside[0]), int(inside[-1]) + 1
    steps = (np.array(sources[start:stop]) - block.base).reshape(block.count, -1) if len(inside) % block.count == 0 else None
    if steps is None or (steps - steps[0] != block.width * np.arange(block.count)[:, None]).any():
        return None
    results = tuple((steps[0]).tolist())
    if max(results) >= block.width or any(s >= block.base for s in sources[:start]):
        return None
    return Sum(tuple(sources[:start]), results, spec, block, tuple(sources[stop:]))


def _rows(places: Places, equation: Equation, numbers: Sequence[int]) -> list[Part]:
    """Return pieces as rows to gather where their indices are an arithmetic sequence, else as single values."""
    groups: dict[Any, list[int]] = {}
    for i in numbers:
        origin = places.origin(equation.inputs[i])  # type: ignore[arg-type]
        template = taken_apart(equation.params["indices"][i])[0]
        groups.setdefault((None if origin is None else origin.key, template), []).append(i)
    found = []
    for own in groups.values():
        start = 0
        while start < len(own):
            stop = _sequence(equation, own, start)
            found.append(_part(equation, own[start:stop]))
            start = stop
    return found


def _sequence(equation: Equation, numbers: Sequence[int], start: int) -> int:
    """Return the end of the arithmetic sequence of indices that begins at `start`; `start + 1` if it is too short."""
    indices, shape = equation.params["indices"], equation.params["shape"]
    last, stop, step = positions(indices[numbers[start]], shape), start + 1, None
    while stop < len(numbers):
        at = positions(indices[numbers[stop]], shape)
        change = [b - a for a, b in zip(last, at, strict=True)]
        if change != (step or change) or sum(d != 0 for d in change) != 1:
            break
        last, step, stop = at, change, stop + 1
    return stop if stop - start >= SHORTEST else start + 1


def _part(equation: Equation, numbers: Sequence[int]) -> Part:
    indices, shape = equation.params["indices"], equation.params["shape"]
    if len(numbers) == 1:
        return Part(indices[numbers[0]], equation.inputs[numbers[0]])  # type: ignore[arg-type]
    sources: Any = [equation.inputs[i] for i in numbers]
    index, axis, backward = stretch([indices[numbers[i]] for i in (0, 1, -1)], shape)
    return Part((index, axis), sources[::-1] if backward else sources)


def _apart(parts: Sequence[Part], shape: tuple[int, ...]) -> bool:
    """Return `True` if parts can be added in any order: each element gets at most two values, or one sum."""
    if len(parts) < 2:
        return True
    terms = np.zeros(shape, np.int64)
    for part in parts:
        index = part.index[0] if isinstance(part.what, list) else part.index
        terms[index] += 4 if isinstance(part.what, Sum) else 1
    return not ((terms > 2) & (terms != 4)).any()
