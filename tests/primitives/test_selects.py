"""What gives exact zeros as cotangents says so: the rules of what was computed before are then guarded against `0 * inf`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import functad
from functad.expressions.records import inputs_of, results_of
from functad.primitives.entry import Primitive
from functad.testing.sample_calls import Call, calls, every_entry, is_constant, label
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import Recorded, new_input
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.walks.cotangents import Scattered
from functad.transforms.walks.reverse import walk_back

PRIMITIVES = [entry for entry in every_entry() if isinstance(entry, Primitive) and not is_constant(entry) and not entry.lists]

EXCUSED = {
    "prod": "the zeros come from a factor that is zero: beside one that is infinite the product itself is NaN",
    "cumprod": "the zeros come from a factor that is zero: beside one that is infinite the product itself is NaN",
    "var": "of one element: the deviation of an infinite one from its own mean is NaN",
    "functad.primitives.reductions.statistics.centred": "of one element: infinity less itself is NaN",
}
"""Primitives of which exact zeros need no guard, and why."""


class _Seen:
    """Notes shapes and dtypes of the cotangents that come to the records of a walk."""

    def __init__(self) -> None:
        self.specs: dict[int, list[Any]] = {}

    def before(self, index: int, record: Any, given: Sequence[Any]) -> None:
        self.specs[index] = [None if g is None else (np.shape(g), np.result_type(g)) for g in given]

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """See nothing."""


def _zeros_in_cotangents(entry: Primitive, call: Call) -> bool:
    """Say whether cotangents without a zero become some with zeros in a record of a primitive."""
    rng = np.random.default_rng(3)
    recorder = ReverseRecorder("test", call.smooth)
    outs = call.smooth(*[new_input(Tensor, recorder, value) for value in call.primals])
    made = [out for out in outs if isinstance(out, Recorded) and out.recorder is recorder]
    cotangents = [None] * max([recorder.inputs, *[out.slot + 1 for out in made]])
    for out in made:
        cotangents[out.slot] = _without_zeros(rng, np.shape(out.below), out.dtype)
    seen = _Seen()
    walk_back(recorder.equations, cotangents, recorder.inputs, consume=False, guard=False, observer=seen)
    for index, specs in seen.specs.items():
        record = recorder.equations[index]
        if record[0].primitive is not entry:
            continue
        alone: list[Any] = [None] * index + [record]
        found: list[Any] = [None] * (index + 1)
        for slot, spec in zip(results_of(record, index), specs, strict=True):
            found[slot] = None if spec is None else _without_zeros(rng, *spec)
        walk_back(alone, found, 0, consume=False, guard=False)
        gs = [g.total() if type(g) is Scattered else g for g in (found[slot] for slot in inputs_of(record))]
        if any(g is not None and np.any(np.asarray(g) == 0) for g in gs):
            return True
    return False


def _without_zeros(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.kind == "c" else 0)
    return np.asarray(values, dtype)[()]


@pytest.mark.parametrize("entry", PRIMITIVES, ids=label)
@pytest.mark.filterwarnings("ignore")
def test_entry_that_gives_exact_zeros_selects(entry: Primitive) -> None:
    full = [
        call
        for call in calls(entry, np.float64)
        if call.primals and all(map(np.size, call.leaves)) and all(map(np.size, call.arrays(*call.primals)))
    ]
    with np.errstate(all="ignore"):
        gives = any(_zeros_in_cotangents(entry, call) for call in full)
    if label(entry) in EXCUSED:
        assert gives, "it gives no zeros, and needs no excuse"
        assert not entry.selects
    else:
        assert entry.selects or not gives, f"{label(entry)} gives cotangents of exactly zero: it needs selects=True"


def _write(y: Any) -> Any:
    y[0] = 1.0
    return y


def _place(y: Any) -> Any:
    y[np.array([0])] = 1.0
    return y


HIDING = {
    "write": _write,
    "place": _place,
    "read by index": lambda y: y[np.array([1, 2])],
    "diagonal": lambda y: np.einsum("ii->i", np.stack([y[::-1], y, y])),
    "cropping": lambda y: np.fft.fft(y[::-1], n=2).real,
    "heaviside": lambda y: np.heaviside(np.array([1.0, 0.0, 0.0]), y),
    "remainder": lambda y: np.remainder(0.5, y),
    "fmod": lambda y: np.fmod(0.5, y),
}


@pytest.mark.parametrize("name", HIDING)
def test_infinity_that_does_not_reach_the_result(name: str) -> None:
    factors = np.array([np.inf, 1.0, 4.0])

    def f(x: Any) -> Any:
        return np.sum(HIDING[name](x * factors))

    with np.errstate(all="ignore"):
        assert functad.grad(f)(np.array([2.0, 3.0, 5.0]))[0] == 0.0
