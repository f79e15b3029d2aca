"""`functad.scipy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functad.scipy import linalg
from functad.testing import check_grads

A = np.array([[4.0, 1.0], [1.0, 3.0]])


def test_cholesky() -> None:
    for lower in (False, True):

        def f(s: Any, lower: bool = lower) -> Any:
            return linalg.cholesky(A * s + np.eye(2), lower=lower)

        check_grads(f, [1.3])
        np.testing.assert_array_equal(linalg.cholesky(A, lower=lower), scipy.linalg.cholesky(A, lower=lower))


def test_files_of_the_package_do_not_hide_the_parts_of_scipy() -> None:
    import functad.scipy.linalg
    import functad.scipy.linalg as part

    assert part is functad.scipy.linalg is linalg
    assert linalg.block_diag(1.0, 2.0).shape == (2, 2)
