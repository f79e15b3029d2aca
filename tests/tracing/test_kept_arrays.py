"""Every entry of the registry: what a record keeps of an array of the user stays what it was when the call was made.

Each sample call is differentiated by one of its inputs, by all of them, and by none but the first; then everything else that it
was given is overwritten in place: other operands, indices, masks, conditions, whatever stands among the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad import tree_flatten
from functad.testing import Call, calls, every_entry
from tests.entries import is_constant, label
from tests.values import dtype_of, is_array

ENTRIES = [entry for entry in every_entry() if not is_constant(entry) and entry.status != "refused"]


def _total(out: Any) -> Any:
    """Return a number that depends on all inexact numbers of a result, on each in its own way."""
    total = 0.0
    for leaf in tree_flatten(out)[0]:
        if is_array(leaf) and dtype_of(leaf).kind == "f":
            weights = np.cos(np.arange(float(np.size(leaf)))).reshape(np.shape(leaf))
            total = total + np.sum(leaf * leaf * weights)
    return total


def _garble(a: Any) -> None:
    a[...] = ~a if a.dtype == bool else 0 if a.dtype.kind in "iu" else 7


def _function(call: Call, positions: list[int], overwrites: bool) -> Callable[..., Any]:
    """Return the sum of the results of a call, as a function of the leaves at some positions."""

    def f(*values: Any) -> Any:
        leaves = [leaf.copy() if issubclass(type(leaf), np.ndarray) else leaf for leaf in call.leaves]
        own = [leaf for i, leaf in enumerate(leaves) if issubclass(type(leaf), np.ndarray) and i not in positions]
        for i, value in zip(positions, values, strict=True):
            leaves[i] = value
        total = _total(Call(call.entry, call.number, leaves, call.structure, []).result())
        if overwrites:
            for a in own:
                _garble(a)
        return total

    return f


def _by_tape(f: Any, given: tuple[Any, ...]) -> Any:
    tensors = tuple(map(functad.constant, given))
    with functad.GradientTape() as tape:
        tape.watch(tensors)
        y = f(*tensors)
    return functad.tree_map(np.asarray, tape.gradient(y, tensors))


def _by_list(f: Any, given: tuple[Any, ...]) -> Any:
    return functad.make_expressions(f)(*given)(*given)


ROUTES: dict[str, Any] = {
    "grad": lambda f, given: functad.grad(f, tuple(range(len(given))))(*given),
    "jvp": lambda f, given: functad.jvp(f, given, tuple([np.ones_like(a) for a in given])),
    "tape": _by_tape,
    "checkpoint": lambda f, given: functad.grad(functad.checkpoint(f), tuple(range(len(given))))(*given),
    "list": _by_list,
}


def _derivative(route: str, f: Any, given: tuple[Any, ...]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return route, ROUTES[route](f, given)
    except Exception as error:  # noqa: BLE001 - whatever is refused must be refused in both cases
        return type(error)


def _others(call: Call) -> list[tuple[int, ...]]:
    """Return positions of inputs to differentiate by, such that arrays are left that can be overwritten: one, and all."""
    arrays = {i for i, leaf in enumerate(call.leaves) if issubclass(type(leaf), np.ndarray)}
    own = [i for i in call.positions if type(call.leaves[i]) in (np.ndarray, np.float64)]
    return [positions for positions in dict.fromkeys([*zip(own), tuple(own)]) if positions and arrays - {*positions}]


SAMPLES = [(entry, found) for entry in ENTRIES if (found := [call for call in calls(entry, np.float64) if _others(call)][:8])]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("entry", "samples"), SAMPLES, ids=[label(entry) for entry, _ in SAMPLES])
def test_what_a_record_keeps_may_be_overwritten(entry: Any, samples: list[Call], route: str) -> None:
    for call in samples:
        for positions in _others(call):
            given = tuple([call.leaves[i] for i in positions])
            expected = _derivative(route, _function(call, list(positions), overwrites=False), given)
            found = _derivative(route, _function(call, list(positions), overwrites=True), given)
            assert repr(found) == repr(expected), str(call)
