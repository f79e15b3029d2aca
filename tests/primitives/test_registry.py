"""The generated tests: every check of every entry of the registry."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from functad.primitives.entry import ENTRIES
from functad.testing import InputSource, check_primitive, every_entry
from tests.entries import label

ALL = [entry for entry in every_entry() if not getattr(entry, "effect", False)]
"""All entries but prints, whose result is a token; `tests/compilation/test_debug_print.py` has their tests."""


@pytest.mark.parametrize("entry", ALL, ids=label)
def test_entry(entry: Any) -> None:
    """Value, derivatives of first and second order in both modes, shapes, dtypes: see `functad.testing.primitive_checks`."""
    check_primitive(entry)


FUNCTIONS = """
    sum mean prod max min amax amin ptp average var std cumsum cumprod any all argmax argmin argsort nonzero count_nonzero
    reshape transpose moveaxis swapaxes expand_dims squeeze broadcast_to atleast_1d atleast_2d atleast_3d ravel copy
    concatenate stack vstack hstack dstack column_stack append block split array_split hsplit vsplit dsplit
    tile repeat roll flip fliplr flipud rot90 pad diag diagonal trace take take_along_axis where select choose clip
    dot vdot inner outer tensordot einsum kron real imag angle conj shape ndim size zeros_like ones_like full_like empty_like
    cumulative_sum cumulative_prod matvec vecmat vecdot
""".split()  # noqa: SIM905 (a table reads better than a hundred quoted names)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_there(name: str) -> None:
    if name in ("cumulative_sum", "cumulative_prod", "matvec", "vecmat", "vecdot") and not hasattr(np, name):
        return  # added in NumPy 2.1 and 2.2
    assert getattr(np, name) in ENTRIES


@pytest.mark.parametrize("name", sorted(name for name, value in vars(np).items() if isinstance(value, np.ufunc)))
def test_ufunc_is_there(name: str) -> None:
    assert getattr(np, name) in ENTRIES


def test_names_are_unique() -> None:
    names = sorted(map(label, ENTRIES.values()))
    assert [a for a, b in itertools.pairwise(names) if a == b] == []


def test_functad_does_not_import_its_checks() -> None:
    code = "import sys, functad; sys.exit(any(name.startswith('functad.testing') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_inputs_are_separated_and_equal_in_every_dtype() -> None:
    for low, high in ((-2.0, 2.0), (0.5, 2.0), (-0.8, 0.8)):
        double, single = InputSource(np.float64), InputSource(np.float32)
        values = double(10, 10, low=low, high=high)
        assert np.array_equal(values, single(10, 10, low=low, high=high))
        assert low < values.min() < values.max() < high
        flat = np.sort(values.ravel())
        assert np.diff(flat).min() > (high - low) / 1001
        assert np.abs(2 * flat - np.round(2 * flat)).min() > (high - low) / 1001
    z = InputSource(np.complex128)(100)
    assert np.abs(z.imag).min() >= 0.09
    assert np.abs(z.imag).max() <= 0.51
    assert InputSource(np.complex64)().dtype == np.complex64


def test_full_interval_takes_closer_inputs() -> None:
    values = np.sort(InputSource(np.float32)(3000, low=0.5, high=0.9))
    assert 0.5 < values[0] < values[-1] < 0.9
    assert np.diff(values).min() > 0
