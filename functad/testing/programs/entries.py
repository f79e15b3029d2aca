"""Random lines generated from the registry, so that new entries take part automatically.

Lines of the family `registry` are the sample calls of all entries, with program values in place of the inputs. Elementwise
functions are called on values of any shapes that broadcast.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, Entry, Primitive
from functad.testing.programs.drafts import Draft, Impossible, Text, broadcasts, line, literal
from functad.testing.sample_calls import InputSource, is_constant
from functad.trees.structure import flatten


class _Recording(InputSource):
    """An input source that records the interval of each array."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.ranges: dict[int, tuple[Any, float, float]] = {}

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Any:
        made = super().__call__(*shape, low=low, high=high)
        self.ranges[id(made)] = (made, low, high)
        return made


@cache
def _paths() -> dict[Any, str]:
    """Return the source name of each registered function; it loads all families, so that earlier programs have no effect."""
    vocabulary.complete()
    found = {}
    for prefix, module in (("np.fft", np.fft), ("np.linalg", np.linalg), ("np", np)):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and value in ENTRIES:
                found[value] = f"{prefix}.{name}"
    return found


@cache
def _sampled() -> list[tuple[str, Entry, list[Any], Any, dict[int, tuple[Any, float, float]]]]:
    """Return sample calls of all entries with a differentiable result: name, entry, leaves, structure, intervals.

    Refused functions are skipped, because drawing a line runs it with plain NumPy: `np.save` would write a file.
    """
    result, paths = [], _paths()
    for entry in ENTRIES.values():
        if entry.function not in paths or is_constant(entry) or entry.status == "refused" or entry.samples is None:
            continue
        recording = _Recording()
        # Constants in a program are plain arrays, so like= would dispatch nothing.
        sampled = [call for call in entry.samples(recording) if "like" not in call[1]]
        result += [(paths[entry.function], entry, *flatten(call), recording.ranges) for call in sampled]
    return result


@cache
def _elementwise() -> list[tuple[str, list[tuple[float, float]]]]:
    """Return the elementwise functions, with the interval of each argument."""
    result, paths = [], _paths()
    for entry in ENTRIES.values():
        if not isinstance(entry, Primitive) or entry.kind != "elementwise" or entry.function not in paths:
            continue
        ranges = _ranges(entry)
        if len(ranges) == len(entry.names):
            result.append((paths[entry.function], ranges))
    return sorted(result)


def _ranges(entry: Entry) -> list[tuple[float, float]]:
    """Return the intervals of the first sample's arguments; an empty list if an argument is not drawn directly."""
    recording = _Recording()
    args, kwargs = next(iter(entry.samples(recording)))  # type: ignore[misc]
    known = [recording.ranges.get(id(arg)) for arg in args]
    return [] if kwargs or None in known else [row[1:] for row in known if row is not None]


@line("registry")
def registry(d: Draft) -> str:
    """Return a sample call of any entry."""
    path, entry, leaves, structure, ranges = d.one(_sampled())
    changed: list[Any] = []
    for leaf in leaves:
        inexact = isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind == "f"
        changed.append(Text(_input(d, leaf, ranges)) if inexact else Text(literal(leaf)))
    read = [name for name in d.names if any(re.search(rf"\b{name}\b", part) for part in changed)]
    if not read or (entry.value_dependent and any(map(d.ties, read))):
        raise Impossible  # equal elements may differ nearby
    d.value_dependent |= entry.value_dependent
    args, kwargs = structure.unflatten(changed)
    if "mean" in kwargs and not any(name in literal(arg) for name in d.names for arg in args):
        raise Impossible  # NumPy does not check mean= for Tensors
    parts = [*map(literal, args), *[f"{key}={literal(value)}" for key, value in kwargs.items()]]
    return f"{path}({', '.join(parts)})"


def _input(d: Draft, leaf: Any, ranges: dict[int, tuple[Any, float, float]]) -> str:
    """Return an expression for an input of a sample: any value from its interval, or values near a computed input."""
    if id(leaf) in ranges:
        _, low, high = ranges[id(leaf)]
        shaped = d.shaped(d.operand(), np.shape(leaf))
        return d.within(shaped, low, high)
    return f"({literal(leaf)} + 0.05 * np.sin({d.shaped(d.operand(), np.shape(leaf))}))"


@line("elementwise")
def elementwise(d: Draft) -> str:
    """Return a call of any elementwise function on values that broadcast."""
    path, ranges = d.one(_elementwise())
    names = [d.operand()]
    for _ in ranges[1:]:
        names.append(d.operand(lambda value: broadcasts(value, d.space[names[0]])))
    return f"{path}({', '.join(d.within(name, *span) for name, span in zip(names, ranges, strict=True))})"
