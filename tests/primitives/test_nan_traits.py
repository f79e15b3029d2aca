"""The traits `passes_nan` and `plain` of all entries, compared with the functions on NaN, infinities and zeros."""

from typing import Any

import numpy as np
import pytest

from functad.primitives import vocabulary
from functad.primitives.entry import ENTRIES, INTERNAL, Primitive

vocabulary.complete()
vocabulary.complete_scipy()
SPECIAL = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])
PRIMITIVES = {p.name: p for p in [*ENTRIES.values(), *INTERNAL] if isinstance(p, Primitive) and p.kind == "elementwise"}
PASSING = sorted(name for name, p in PRIMITIVES.items() if p.passes_nan and p.reads_all)
PLAIN = sorted(name for name, p in PRIMITIVES.items() if p.plain is not None)


def arguments(primitive: Primitive) -> list[Any]:
    """Return arrays that combine all special values, one for each argument."""
    return list(np.meshgrid(*[SPECIAL] * len(primitive.names), indexing="ij"))


def test_there_are_such_entries() -> None:
    assert {"add", "multiply", "exp", "arctan2"} <= set(PASSING)
    assert {"product", "quotient", "kept"} <= set(PLAIN)


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
