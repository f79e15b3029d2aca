"""`functad.scipy.spatial`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial.distance as plain

import functad
from functad.scipy.spatial import FORMULAS
from functad.testing import check_grads

rng = np.random.default_rng(0)
A, B = rng.random((6, 3)) + 0.1, rng.random((5, 3)) + 0.1


@pytest.mark.parametrize("name", list(FORMULAS))
def test_distances(name: str) -> None:
    from functad import scipy

    distance = scipy.spatial.distance
    for f, args in (
        (lambda s, u, v: s.cdist(u, v, name), (A, B)),
        (lambda s, u: s.pdist(u, name), (A,)),
    ):
        expected = f(plain, *args)
        np.testing.assert_allclose(functad.vjp(lambda *a, f=f: f(distance, *a), *args)[0], expected, rtol=1e-10)
        np.testing.assert_array_equal(f(distance, *args), expected)
        check_grads(lambda *a, f=f: f(distance, *a), list(args), order=1)


def test_vectors_and_forms() -> None:
    from functad import scipy

    distance, u, v, w = scipy.spatial.distance, A[0], A[1], A[2]
    for name in ("braycurtis", "canberra", "cityblock", "correlation", "cosine", "euclidean", "sqeuclidean", "minkowski"):
        check_grads(lambda u, v, w, n=name: getattr(distance, n)(u, v, w=w), [u, v, w], order=1)
        weighted = plain.cdist(A, B, name, w=w)
        np.testing.assert_allclose(functad.vjp(lambda a, n=name: distance.cdist(a, B, n, w=w), A)[0], weighted, rtol=1e-10)
    check_grads(distance.squareform, [rng.random(6)], order=1)
    check_grads(lambda x: distance.squareform(distance.squareform(x)), [rng.random(6)], order=1)
    with pytest.raises(functad.errors.UnsupportedError, match="counts elements"):
        functad.grad(lambda a: np.sum(distance.cdist(a, B, "hamming")))(A)


def test_infinite_order_and_one_column() -> None:
    from functad import scipy

    distance = scipy.spatial.distance
    for options in ({"p": np.inf}, {"p": np.inf, "w": A[2]}, {"p": float("inf"), "w": np.eye(A.shape[1])[0]}):
        for f, args in (
            (lambda s, u, v, o=options: s.cdist(u, v, "minkowski", **o), (A, B)),
            (lambda s, u, o=options: s.pdist(u, "minkowski", **o), (A,)),
        ):
            np.testing.assert_allclose(functad.vjp(lambda *a, f=f: f(distance, *a), *args)[0], f(plain, *args), rtol=1e-10)
            check_grads(lambda *a, f=f: f(distance, *a), list(args), order=1)
    for column in (A[:, :1], A[:, 1:2]):
        expected = plain.pdist(column, "mahalanobis")
        np.testing.assert_allclose(functad.vjp(lambda x: distance.pdist(x, "mahalanobis"), column)[0], expected, rtol=1e-10)
        check_grads(lambda x: distance.pdist(x, "mahalanobis"), [column], order=1)
