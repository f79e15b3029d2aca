"""The traits of all entries, compared with their functions on samples, and on NaN, infinities and zeros."""

from typing import Any

import numpy as np
import pytest

from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, INTERNAL, Primitive
from functad.testing.sample_calls import calls

vocabulary.complete()
vocabulary.complete_scipy()
SPECIAL = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])
EVERY = {p.name: p for p in [*INTERNAL, *ENTRIES.values()] if isinstance(p, Primitive)}
PRIMITIVES = {name: p for name, p in EVERY.items() if p.kind == "elementwise"}
PASSING = sorted(name for name, p in PRIMITIVES.items() if p.passes_nan and p.reads_all)
PLAIN = sorted(name for name, p in PRIMITIVES.items() if p.plain is not None)
BY_UFUNC = sorted(name for name, p in PRIMITIVES.items() if p.ufunc is not None and p.ufunc is not p.function)
FRESH = sorted(name for name, p in EVERY.items() if p.fresh and p.ufunc is None)
SCALAR = sorted(name for name, p in EVERY.items() if p.zero_d is False and p.ufunc is None)


def arguments(primitive: Primitive) -> list[Any]:
    """Return arrays that combine all special values, one for each argument."""
    return list(np.meshgrid(*[SPECIAL] * len(primitive.names), indexing="ij"))


def test_there_are_such_entries() -> None:
    assert {"add", "multiply", "exp", "arctan2"} <= set(PASSING)
    assert {"product", "quotient", "kept"} <= set(PLAIN)
    assert BY_UFUNC == ["product", "quotient"]
    assert {"sum", "mean", "scatter"} <= set(FRESH)
    assert {"sum", "mean", "any", "dot"} <= set(SCALAR)


@pytest.mark.parametrize("name", PASSING)
def test_nan_passes(name: str) -> None:
    primitive = PRIMITIVES[name]
    for position in primitive.passes_nan:
        values = arguments(primitive)
        values[position] = np.full_like(values[position], np.nan)
        if name == "mended":
            values[0] = values[0] * values[1]  # its first argument was computed from the second
        with np.errstate(all="ignore"):
            out = primitive.compute(*values)
        for result in out if primitive.multiple else (out,):
            hidden = ~np.isnan(result)
            if primitive.plain is not None:  # an exact zero in another argument wins; the plain function passes the NaN
                hidden &= ~np.any([v == 0 for v in values], axis=0)
            assert not np.any(hidden), (position, [v[hidden] for v in values])


@pytest.mark.parametrize("name", PLAIN)
def test_plain_functions_agree_where_no_nan_occurs(name: str) -> None:
    primitive = PRIMITIVES[name]
    values = arguments(primitive)
    if name in ("kept", "dropped"):
        values[1] = values[1] > 0
    with np.errstate(all="ignore"):
        found, expected = primitive.plain(*values), primitive.compute(*values)
    known = ~np.isnan(found)
    assert np.any(known)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-15, atol=0)


@pytest.mark.parametrize("name", BY_UFUNC)
def test_ufuncs_agree_where_no_nan_occurs(name: str) -> None:
    primitive = PRIMITIVES[name]
    values = arguments(primitive)
    with np.errstate(all="ignore"):
        found, expected = primitive.ufunc(*values), primitive.compute(*values)
    known = ~np.isnan(found)
    np.testing.assert_array_equal(found[known], expected[known])


def results(primitive: Primitive) -> list[tuple[list[Any], list[Any]]]:
    """Return the arguments and the results of the sample calls of a primitive, with numbers as arrays of shape `()` too."""
    found = []
    for call in calls(primitive, np.float64):
        for leaves in (call.leaves, [np.asarray(leaf) if isinstance(leaf, np.floating) else leaf for leaf in call.leaves]):
            args, kwargs = call.structure.unflatten(leaves)
            with np.errstate(all="ignore"):
                out = primitive.front(*args, **kwargs)
            found.append((leaves, list(out) if primitive.multiple else [out]))
    return found


@pytest.mark.parametrize("name", FRESH)
def test_results_share_no_memory_with_arguments(name: str) -> None:
    for leaves, found in results(EVERY[name]):
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        assert not any(isinstance(out, np.ndarray) and np.may_share_memory(out, a) for out in found for a in arrays)


@pytest.mark.parametrize("name", SCALAR)
def test_results_of_shape_0_are_scalars(name: str) -> None:
    for _, found in results(EVERY[name]):
        assert not any(type(out) is np.ndarray and not out.shape for out in found)
