"""Samples of `scipy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tests.scipy.samples.sample import Sample, call, use

RNG = np.random.default_rng(0)
G = RNG.normal(size=(3, 3)) + 4 * np.eye(3)
S, P = G + G.T, G @ G.T
B, V = RNG.normal(size=(3, 2)), RNG.normal(size=3)
C = G + 1j * RNG.normal(size=(3, 3))
BANDS = RNG.normal(size=(3, 4)) + np.array([[0.0], [6.0], [0.0]])
HALF = np.array([[6.0, 7.0, 8.0, 9.0], [1.0, -1.0, 0.5, 0.0]])
COLUMN, W = np.array([4.0, 1.0, 0.5]), RNG.normal(size=4)
Q, R = np.linalg.qr(G)


def _riccati(*more: Any) -> Sample:
    """Return the sample of a Riccati equation, whose matrices are kept symmetric."""
    return use(lambda f, a, b, q, r, *more: f(a, b, q + q.T, r + r.T, *more, balanced=not more), G, B, P, np.eye(2), *more)


DECOMPOSITIONS: dict[str, Sample | list[Sample]] = {
    "cholesky": [call(P), call(P, lower=True)],
    "cho_factor": use(lambda f, a: f(a)[0], P),
    "cho_solve": use(lambda f, c, b: f((c, False), b), scipy.linalg.cholesky(P), V),
    "cholesky_banded": call(HALF, lower=True),
    "cho_solve_banded": use(lambda f, c, b: f((c, True), b), scipy.linalg.cholesky_banded(HALF, lower=True), W),
    "lu": [call(G[[2, 0, 1]]), call(C, permute_l=True)],
    "lu_factor": use(lambda f, a: f(a)[0], G[[2, 0, 1]]),
    "lu_solve": use(lambda f, lu, b: f((lu, np.arange(3)), b), scipy.linalg.lu_factor(G)[0], V),
    "qr": [call(G), call(B, mode="economic"), call(B, mode="r")],
    "rq": call(G),
    "qr_multiply": call(G, B.T),
    "svd": [use(lambda f, a: f(a), G), call(B, full_matrices=False)],
    "svdvals": call(B),
    "polar": call(G),
    "eig": use(lambda f, a: f(a)[0], G - G.T),
    "eig(left=True)": call(S, left=True),
    "eig(b)": use(lambda f, a, b: f(a, b), S, P),
    "eigvals": call(G),
    "eigh": [call(S), use(lambda f, a, b: f(a, b), S, P)],
    "eigvalsh": call(S),
    "eig_banded": call(HALF, lower=True),
    "eigvals_banded": call(HALF, lower=True),
    "eigh_tridiagonal": call(COLUMN, V[:2]),
    "eigvalsh_tridiagonal": call(COLUMN, V[:2]),
    "schur": [call(P @ S), use(lambda f, a: f(a, sort="lhp")[:2], P @ S)],
    "schur(complex)": call(G - G.T),
    "rsf2csf": call(*scipy.linalg.schur(G)),
    "hessenberg": call(G),
    "qz": call(S, P),
    "ordqz": call(S, P),
    "ldl": call(S),
    "cdf2rdf": use(lambda f, a: f(*np.linalg.eig(a)), G - G.T),
    "cossin": use(lambda f, x: f(x, 1, 1), Q),
    "qr_delete": use(lambda f, q, r: f(q, r, 1), Q, R),
    "qr_insert": use(lambda f, q, r, u: f(q, r, u, 1), Q, R, V),
    "qr_update": call(Q, R, V, V[::-1]),
    "matrix_balance": call(G),
    "null_space": call(B.T),
    "orth": call(B),
}
SYSTEMS: dict[str, Sample | list[Sample]] = {
    "solve": [call(G, V), *[call(P, B, assume_a=kind) for kind in ("sym", "pos", "upper triangular", "tridiagonal")]],
    "inv": call(G),
    "pinv": call(B),
    "pinvh": call(S),
    "det": call(G),
    "lstsq": use(lambda f, a, b: f(a, b)[:2], B, V),
    "norm": [call(B), *[call(B, ord=kind) for kind in (1, 2, np.inf, "nuc")], call(V, ord=3)],
    "solve_triangular": [call(G, V), call(G, B, lower=True, trans=1)],
    "solve_banded": use(lambda f, a, b: f((1, 1), a, b), BANDS, W),
    "solveh_banded": call(HALF, W, lower=True),
    "solve_toeplitz": [call(COLUMN, V), use(lambda f, c, r, b: f((c, r), b), COLUMN, V, B)],
    "solve_circulant": call(COLUMN, V),
    "matmul_toeplitz": use(lambda f, c, r, b: f((c, r), b), COLUMN, V, B),
    "solve_sylvester": call(G, P[:2, :2], B),
    **{name: call(G, S) for name in ("solve_continuous_lyapunov", "solve_lyapunov")},
    "solve_discrete_lyapunov": call(G / 7, S),
    **{
        name: [_riccati(), _riccati(np.eye(3) + np.diag([0.1, 0.2], 1), B / 20)]
        for name in ("solve_continuous_are", "solve_discrete_are")
    },
    "orthogonal_procrustes": call(G, S),
    "subspace_angles": call(G[:, :1], B),
    "clarkson_woodruff_transform": use(lambda f, a: f(a, 2, 0), B),
}
FUNCTIONS: dict[str, Sample | list[Sample]] = {
    "expm": [call(G / 3), call(C / 3), call(np.stack((G, -P)) / 5)],
    "expm_frechet": call(G / 3, S),
    "expm_cond": call(G / 3),
    "logm": [call(P), call(C)],
    "sqrtm": [call(P), call(C)],
    "signm": call(G - 4 * np.eye(3)),
    "funm": use(lambda f, a: f(a, np.sin), G),
    "fractional_matrix_power": use(lambda f, a, t: f(a, t), P, 0.3),
    **{name: call(G / 5) for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")},
}
SPECIAL: dict[str, Sample | list[Sample]] = {
    "toeplitz": [call(COLUMN), call(COLUMN, V)],
    "hankel": [call(COLUMN), call(COLUMN, W)],
    **{name: call(COLUMN) for name in ("circulant", "companion", "fiedler", "fiedler_companion")},
    "convolution_matrix": use(lambda f, a: f(a, 5), COLUMN),
    "leslie": call(COLUMN, V[:2]),
    "block_diag": call(G, B),
    "khatri_rao": call(G, P),
    "diagsvd": use(lambda f, s: f(s, 3, 4), COLUMN),
    **{name: call(4) for name in ("dft", "hadamard", "helmert", "hilbert", "invhilbert", "pascal", "invpascal")},
    "bandwidth": call(G),
    "issymmetric": call(S),
    "ishermitian": call(S),
    "find_best_blas_type": use(lambda f: f((G,))[:2]),
    "get_blas_funcs": use(lambda f: f("axpy", (V,)).typecode),
    "get_lapack_funcs": use(lambda f: f("gesv", (G,)).typecode),
}

SAMPLES = {**DECOMPOSITIONS, **SYSTEMS, **FUNCTIONS, **SPECIAL}
