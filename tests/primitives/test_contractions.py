"""The letters of contractions: the primitives against `np.einsum` with their letters, and the roles of axes."""

from __future__ import annotations

import numpy as np
import pytest

from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import terms_of
from functad.primitives.linalg.products import DOT, MATMUL, OUTER, SUM_OF_PRODUCTS

SHAPES = [
    (MATMUL, (3,), (3,)), (MATMUL, (2, 3), (3,)), (MATMUL, (3,), (3, 2)), (MATMUL, (5, 1, 2, 3), (4, 3, 2)),
    (MATMUL, (3,), (4, 3, 2)), (DOT, (), (3, 2)), (DOT, (2, 3), ()), (DOT, (3,), (3,)), (DOT, (4, 2, 3), (5, 3, 2)),
    (DOT, (2, 3), (3,)), (OUTER, (3,), (2,)), (SUM_OF_PRODUCTS, (4, 3), (3,)), (SUM_OF_PRODUCTS, (2, 1, 3), (4, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("primitive", "a", "b"), SHAPES)
def test_the_letters_give_the_product(primitive, a, b):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a), rng.normal(size=b)
    found = contraction_of(primitive, {}, [x.ndim, y.ndim])
    assert found is not None
    expected = primitive(x, y)
    assert np.allclose(np.einsum(f"{','.join(found.terms)}->{found.result}", x, y), expected)
    sizes = found.sizes([a, b])
    assert tuple([sizes[letter] for letter in found.result]) == np.shape(expected)


def test_roles_and_lengths_of_axes():
    found = terms_of("bij,bjk->bik")
    assert {letter: found.role(letter) for letter in "bijk"} == {"b": "batch", "i": "row", "j": "depth", "k": "column"}
    letters, sizes = found.compact([(5, 2, 1), (5, 1, 3)])
    assert letters == (("bi ", "b k"), "bik")
    assert sizes == {"b": 5, "i": 2, "k": 3}
    assert [letters.length(role, sizes) for role in ("batch", "row", "depth", "column")] == [5, 2, 1, 3]


@pytest.mark.parametrize(
    ("subscripts", "matrix", "diagonals"),
    [
        ("ij,jk->ik", True, False),
        ("ij,j->i", False, False),
        ("iij,jk->ik", False, True),
        ("ij,jk->k", False, False),
        ("ai,aj->", False, False),
    ],
)
def test_matrix_products_have_rows_columns_and_summed_axes(subscripts, matrix, diagonals):
    found = terms_of(subscripts)
    assert (found.is_matrix_product, found.has_diagonals) == (matrix, diagonals)
