"""Rules that are made of operators alone compute with arrays of the array API standard as they are."""

from __future__ import annotations

import numpy as np
import pytest

from functad.primitives.entry import ENTRIES
from functad.primitives.kinds import names_read
from functad.testing import calls

xp = pytest.importorskip("array_api_strict", reason="array-api-strict is in the extra `test`")

OF_OPERATORS = [
    *[(function, i) for function in (np.add, np.subtract, np.multiply) for i in (0, 1)],
    *[
        (function, 0)
        for function in (np.negative, np.positive, np.square, np.tanh, np.deg2rad, np.rad2deg, np.remainder, np.fmod)
    ],
]


@pytest.mark.parametrize(("function", "position"), OF_OPERATORS, ids=lambda v: getattr(v, "__name__", v))
def test_rules_of_operators_compute_with_arrays_of_the_standard(function, position):
    entry = ENTRIES[function]
    call = next(call for call in calls(entry, np.float64) if all(x.shape == (3,) for x in call.primals))
    g, out, rule = np.array([0.3, -2.0, 1.0]), call.value, entry.vjps[position]

    def pulled(convert):
        values = dict(zip(entry.names, call.primals, strict=False)) | {"out": out}
        return rule(convert(g), *[convert(values[name]) for name in names_read(rule)])

    found = pulled(xp.asarray)
    assert type(found) is type(xp.asarray(g))
    np.testing.assert_array_equal(np.from_dlpack(found), pulled(np.asarray))
