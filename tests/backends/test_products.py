"""Products in machine code: calls of BLAS, and loops without it."""

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite")

from functad.backends.native.products import blas


def test_without_a_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops compute large products too where NumPy's BLAS is not found."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(60, 70)), rng.normal(size=(70, 90))
    assert blas.routines() is not None
    compiled = functad.jit(np.matmul, backend="llvm")
    assert "functad.blas.dgemm" in compiled.lower(a, b).compile().program.text
    monkeypatch.setattr("functad.backends.native.products.rows.routines", lambda: None)
    compiled = functad.jit(lambda a, b: np.matmul(a, b), backend="llvm")
    assert "functad.blas" not in compiled.lower(a, b).compile().program.text
    np.testing.assert_allclose(compiled(a, b), a @ b, rtol=1e-12, atol=1e-12)
