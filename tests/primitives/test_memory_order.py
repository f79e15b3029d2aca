"""Results lie in memory as NumPy's do, whatever order the arguments lie in: what is a view of a result depends on it.

Generated for every entry of the registry. Where values are known, strides and shared memory are those of NumPy's own function;
where they are not, what a trace claims to know is so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import FunctadError
from functad.primitives.entry import ENTRIES
from functad.testing import Call, calls, every_entry
from functad.tracing.views import may_be_view, memory_model, origin_of
from tests.entries import label
from tests.values import dtype_of, innermost

PUBLIC = [
    entry
    for entry in every_entry()
    if ENTRIES.get(entry.function) is entry and entry.status in ("primitive", "composite") and not entry.in_place
]


def _turned(a: Any) -> Any:
    """Return an array whose last axis lies first."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, -1, 0)), 0, -1)


def _with_gaps(a: Any) -> Any:
    out = np.zeros([2 * n for n in a.shape], a.dtype)[(slice(None, None, 2),) * a.ndim]
    out[...] = a
    return out


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "backwards": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "gaps": _with_gaps,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "turned": _turned,
}

# Read-only views, whose elements functad puts into memory of their own in the same order; what is written to the array is seen.
READ_ONLY = {"diagonal", "diag", "numpy.linalg.diagonal", "numpy.lib.stride_tricks.sliding_window_view"}
# NumPy goes over elements that share their memory in an order of its own, or a copy of an axis of length 1 has other strides.
OTHERS = {("vecdot", "mixed"), *[(name, "broadcast") for name in ("geomspace", "hfft", "nanmean", "nanvar")]}


def _laid(primals: list[Any], layout: str) -> list[Any]:
    names = ["Fortran", "C"] if layout == "mixed" else [layout]
    return [LAYOUTS[names[i % len(names)]](a) if np.ndim(a) else a for i, a in enumerate(primals)]


def _strides(a: Any) -> Any:
    """Return the strides of axes longer than 1; `None` for a number."""
    a = innermost(a)
    return [stride for stride, n in zip(a.strides, a.shape, strict=True) if n > 1] if isinstance(a, np.ndarray) else None


def _is_view(a: Any, p: Any) -> bool:
    if isinstance(a, functad.Tensor):
        return origin_of(a)[0] is p and p.shape != ()
    return isinstance(a, np.ndarray) and isinstance(p, np.ndarray) and np.shares_memory(a, p)


def _facts(call: Call, primals: Any) -> list[Any]:
    """Return what is compared of each result that can have a derivative and has elements."""
    results = [a for a in call.arrays(*primals) if dtype_of(a).kind in "fc" and 0 not in np.shape(a)]
    copied = label(call.entry) in READ_ONLY
    return [(_strides(np.empty_like(innermost(a)) if copied else a), [_is_view(a, p) for p in primals]) for a in results]


def _expected(call: Call, primals: list[Any]) -> Any:
    """Return what NumPy gives; `None` if it refuses arguments whose elements are equal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _facts(call, primals)
        except (ValueError, np.linalg.LinAlgError):
            return None


@pytest.mark.parametrize("entry", PUBLIC, ids=label)
def test_where_values_are_known(entry: Any) -> None:
    for dtype in (np.float64, np.complex128) if entry.complex else (np.float64,):
        for call in calls(entry, dtype):
            for layout in (*LAYOUTS, "mixed"):
                primals = _laid(call.primals, layout)
                expected = _expected(call, primals)
                if expected is None or (entry.name, layout) in OTHERS:
                    continue
                found: list[Any] = []
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        functad.vjp(lambda *ps, call=call, found=found: found.append(_facts(call, ps)) or (), *primals)
                    except FunctadError:
                        continue
                assert found == [expected], f"{call} {layout}"


def _examples(a: Any) -> Any:
    """Return a batch of two examples that lie in memory as an array does."""
    axes = sorted(range(np.ndim(a)), key=lambda axis: -a.strides[axis])
    return np.moveaxis(np.stack([np.transpose(a, axes)] * 2), range(1, np.ndim(a) + 1), [1 + axis for axis in axes])


@pytest.mark.parametrize("layout", ["C", "Fortran"])
@pytest.mark.parametrize("trace", ["list", "batch"])
@pytest.mark.parametrize("entry", PUBLIC, ids=label)
def test_where_values_are_not_known_nothing_wrong_is_claimed(entry: Any, trace: str, layout: str) -> None:
    for call in calls(entry, np.float64):
        if entry.value_dependent or not call.primals or any(0 in np.shape(p) for p in call.primals):
            continue
        if layout != "C" and not any(np.ndim(p) > 1 for p in call.primals):
            continue
        laid = _laid(call.primals, layout)

        def look(*primals: Any, call: Call = call, laid: list[Any] = laid) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = call.arrays(*laid)
                found = call.arrays(*primals)
            for a, known in zip(found, expected, strict=True):
                if not isinstance(a, functad.Tensor) or 0 in a.shape:
                    continue
                model = memory_model(a)
                assert model is None or _strides(np.asarray(model)) == _strides(np.asarray(known)), f"{call}: {model!r}"
                for p, given in zip(primals, laid, strict=True):
                    unknown = may_be_view(a) or (layout != "C" and may_be_view(origin_of(a)[0]))
                    assert unknown or _is_view(a, p) == _is_view(known, given), f"{call}: view"
            return ()

        try:
            if trace == "list":
                functad.make_expressions(look)(*laid)
            else:
                functad.vmap(look)(*map(_examples, laid))
        except FunctadError:
            continue
