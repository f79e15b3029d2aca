"""Samples of `scipy.sparse.linalg`."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse

from tests.scipy.samples.sample import Sample, call, use

DENSE = np.array([[5.0, 1.0, 0.0, 0.0], [1.0, 6.0, -1.0, 0.0], [0.0, -1.0, 7.0, 2.0], [0.0, 0.0, 2.0, 8.0]])
A = scipy.sparse.csc_array(DENSE)
SKEW = scipy.sparse.csc_array(DENSE + np.diag([0.5, 0.5, 0.5], 1))
LOWER = scipy.sparse.csr_array(np.tril(DENSE))
BAND = scipy.sparse.diags_array([[0.5] * 11, [0.2] * 12, [-0.3] * 11], offsets=[-1, 0, 1]).tocsc()
B = np.array([1.0, -2.0, 0.5, 3.0])
TIGHT = {"rtol": 1e-12}

SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: use(lambda f, b: f(A, b, **TIGHT)[0], B) for name in ("cg", "minres")},
    **{
        name: use(lambda f, b: f(SKEW, b, **TIGHT)[0], B)
        for name in ("cgs", "bicg", "bicgstab", "gmres", "lgmres", "qmr", "gcrotmk", "tfqmr")
    },
    "lsqr": use(lambda f, b: f(SKEW[:, :2], b, atol=1e-14, btol=1e-14)[0], B),
    "lsmr": use(lambda f, b: f(SKEW[:, :2], b, atol=1e-14, btol=1e-14)[0], B),
    "spsolve": use(lambda f, b: f(SKEW, b), B),
    "spsolve_triangular": use(lambda f, b: f(LOWER, b), B),
    "factorized": use(lambda f, b: f(SKEW)(b), B),
    "splu": [use(lambda f, b, trans=trans: f(SKEW).solve(b, trans), B) for trans in "NTH"],
    "spilu": use(lambda f, b: f(SKEW).solve(b), B),
    "SuperLU": use(lambda kind: kind.__name__),
    "aslinearoperator": [use(lambda f, b: f(SKEW) @ b, B), use(lambda f, a, b: f(a) @ b, DENSE, B)],
    "LinearOperator": use(lambda kind, a, b: kind((4, 4), matvec=lambda v: a @ v, dtype=float) @ b, DENSE, B),
    "LaplacianNd": use(lambda kind, b: kind((4,), dtype=float) @ b, B),
    "expm_multiply": use(lambda f, b: f(SKEW, b), B),
    "funm_multiply_krylov": use(lambda f, b: f(scipy.linalg.expm, BAND, b), np.arange(1.0, 13.0)),
    "expm": [use(lambda f: f(SKEW).toarray()), call(DENSE / 5)],
    "inv": [use(lambda f: f(SKEW).toarray())],
    "matrix_power": [use(lambda f: f(SKEW, 2).toarray()), use(lambda f, a: f(a, 2), DENSE)],
    "norm": use(lambda f: f(SKEW)),
    "onenormest": use(lambda f: f(SKEW)),
    "is_sptriangular": use(lambda f: f(SKEW)),
    "spbandwidth": use(lambda f: f(SKEW)),
    "use_solver": use(lambda f: f()),
    **{name: use(lambda f, a: f(a, 1, v0=np.ones(4)), DENSE) for name in ("eigs", "eigsh", "svds")},
    "lobpcg": use(lambda f, a: f(a, np.eye(4)[:, :1])[0], DENSE),
}
