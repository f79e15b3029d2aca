"""SciPy is adopted while the tests of a file run, as it is for good in a program that takes a name from `functad.scipy`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functad
from functad.adoption.scipy_functions import VALUE_OBSERVERS


@pytest.fixture(autouse=True, scope="module")
def adopted_scipy() -> Iterator[None]:
    """Adopt SciPy for the tests of a file."""
    with functad.adopt("scipy"):
        yield


@pytest.fixture(autouse=True)
def formulas_have_the_values_of_scipy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare the value of each formula with SciPy's value, which a result gets in its place.

    `VALUES_WITHIN` of a test file has the relative tolerances of tests in which SciPy's own values are less exact.
    """
    within = getattr(request.module, "VALUES_WITHIN", {}).get(request.node.originalname, 1e-6)

    def compare(value: Any, formula: Any) -> None:
        value, formula = np.broadcast_arrays(value, formula)
        finite = np.isfinite(value) & (np.isfinite(formula) | (value != 0))  # where it is 0, its cotangent is 0 too
        np.testing.assert_allclose(formula[finite], value[finite], rtol=within, atol=1e-9, err_msg="formula, SciPy's value")

    VALUE_OBSERVERS.append(compare)
    yield
    VALUE_OBSERVERS.remove(compare)
