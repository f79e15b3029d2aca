"""Names of functions in messages: LAPACK and BLAS routines and the functions of SciPy that call them."""

import pytest

from functad.primitives.linalg.routines import ROUTINES


def test_routines_and_functions_are_there():
    linalg = pytest.importorskip("scipy.linalg")
    for routine, name in ROUTINES.items():
        assert any(hasattr(module, letter + routine) for letter in "dz" for module in (linalg.lapack, linalg.blas)), routine
        assert hasattr(linalg, name)
