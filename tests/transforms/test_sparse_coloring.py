"""Colourings: every entry can be read from its product, and known matrices take the known number of colours."""

import numpy as np
import pytest

from functad import SparsityPattern
from functad.errors import InputError
from functad.sparse.coloring import MODES, ORDERINGS, color_columns, color_hessian, color_jacobian, values_of

scipy_optimize = pytest.importorskip("scipy.optimize", reason="the oracle is SciPy's grouping of columns")


def drawn(rng):
    """Return a random pattern; some have a dense row or column, or empty ones."""
    m, n = rng.integers(1, 14, 2)
    dense = rng.random((m, n)) < rng.choice([0.1, 0.3, 0.6])
    if rng.random() < 0.5:
        dense[rng.integers(m)] = True
    if rng.random() < 0.5:
        dense[:, rng.integers(n)] = True
    return dense


def band(n, width):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= width


def arrowhead(n, width=1):
    arrow = np.eye(n, dtype=bool)
    arrow[:width] = arrow[:, :width] = True
    return arrow


def seeds(colors, count):
    found = np.zeros((len(colors), count))
    used = np.flatnonzero(colors >= 0)
    found[used, colors[used]] = 1
    return found


def recovers(matrix, pattern, coloring):
    """Check that the entries read from products with the seeds are those of the matrix."""
    forward = (matrix @ seeds(coloring.columns, coloring.forward)).T if coloring.forward else None
    reverse = seeds(coloring.rows, coloring.reverse).T @ matrix if coloring.reverse else None
    values = values_of(pattern, coloring, forward, reverse) if pattern.nnz else np.zeros(0)
    np.testing.assert_allclose(values, matrix[pattern.rows, pattern.columns])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_every_entry_is_recovered(mode, ordering):
    rng = np.random.default_rng(0)
    for _ in range(120):
        dense = drawn(rng)
        pattern = SparsityPattern.of(dense)
        coloring = color_jacobian(pattern, mode, ordering)
        recovers(np.where(dense, rng.uniform(1, 2, dense.shape), 0), pattern, coloring)
        densest = dense.sum(1).max() if mode == "column" else dense.sum(0).max() if mode == "row" else 0
        assert densest <= coloring.colors <= sum(dense.shape)


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_every_entry_of_a_hessian_is_recovered(ordering):
    rng = np.random.default_rng(1)
    for _ in range(200):
        dense = drawn(rng)
        size = min(dense.shape)
        dense = dense[:size, :size] | dense[:size, :size].T
        if rng.random() < 0.5:
            dense |= np.eye(size, dtype=bool)
        matrix = np.where(dense, rng.uniform(1, 2, dense.shape), 0)
        pattern = SparsityPattern.of(dense)
        coloring = color_hessian(pattern, ordering)
        recovers(matrix + matrix.T, pattern, coloring)
        no_two_colored_paths(dense, coloring.columns)


def no_two_colored_paths(dense, colors):
    """Check the definition of a star colouring, path by path."""
    edges = dense & ~np.eye(len(dense), dtype=bool)
    same = np.equal.outer(colors, colors)
    assert not (edges & same).any()
    twins = same & ~np.eye(len(dense), dtype=bool)
    for v, w in np.argwhere(edges):  # paths u - v - w - x with the colours of u and w, and of v and x, equal
        assert not ((edges[v] & twins[w]).any() and (edges[w] & twins[v]).any())


def test_natural_ordering_is_that_of_curtis_powell_and_reid():
    """SciPy groups columns in their order too, group by group, which gives the colours of the greedy algorithm."""
    group_columns = scipy_optimize._numdiff.group_columns
    rng = np.random.default_rng(2)
    for _ in range(100):
        dense = drawn(rng)
        dense = dense[:, dense.any(0)]  # an empty column needs no colour here
        if dense.size:
            expected = group_columns(dense, order=np.arange(dense.shape[1]))
            np.testing.assert_array_equal(color_columns(SparsityPattern.of(dense), "natural"), expected)


@pytest.mark.parametrize("width", [0, 1, 2, 5])
def test_bands(width):
    pattern = SparsityPattern.of(band(60, width))
    assert color_jacobian(pattern).colors == 2 * width + 1
    assert color_jacobian(pattern).mode == "column"
    assert color_hessian(pattern).colors <= 2 * width + 1
    wide = SparsityPattern.of(band(60, width)[:, 30:40])
    assert color_jacobian(wide).colors == min(2 * width + 1, 10)


def test_arrowheads_take_both_directions():
    for width in (1, 2, 4):
        pattern = SparsityPattern.of(arrowhead(40, width))
        found = color_jacobian(pattern)
        assert (found.mode, found.colors) == ("bidirectional", 2 * width + 1)
        assert color_jacobian(pattern, "column").colors == color_jacobian(pattern, "row").colors == 40
        assert color_hessian(pattern).colors == width + 1


def test_dense_rows_and_columns_beside_a_band_take_both_directions():
    dense = band(60, 2)
    dense[[0, -1]] = dense[:, [0, -1]] = True
    colors = [color_jacobian(SparsityPattern.of(dense), mode).colors for mode in ("column", "row", "bidirectional", "auto")]
    assert colors == [60, 60, 9, 9]


def test_fewer_rows_than_columns_go_backwards():
    pattern = SparsityPattern.of(np.repeat(np.eye(3, dtype=bool), 5, 1))
    coloring = color_jacobian(pattern)
    assert (coloring.mode, coloring.colors, coloring.reverse) == ("row", 1, 1)
    assert repr(coloring) == "Coloring('row', shape=(3, 15), colors=1)"


def test_orderings_differ_where_the_order_matters():
    """A crown: two rows of vertices, joined unless they are opposite. In the worst order the greedy algorithm needs n."""
    n = 6
    pairs = [(i, n + j) for i in range(n) for j in range(n) if i != j]
    rows = np.repeat(np.arange(len(pairs)), 2)
    worst = np.arange(2 * n).reshape(2, n).T.ravel()  # u0 v0 u1 v1 ...
    place = np.argsort(worst)
    pattern = SparsityPattern(rows, place[np.array(pairs).ravel()], (len(pairs), 2 * n))
    assert color_jacobian(pattern, "column", "natural").colors == n
    assert color_jacobian(pattern, "column", "smallest_last").colors == 2
    assert color_jacobian(pattern, "column").colors == 2


def test_empty_patterns():
    for shape in ((0, 0), (3, 0), (0, 3), (2, 3)):
        pattern = SparsityPattern([], [], shape)
        assert [color_jacobian(pattern, mode).colors for mode in MODES] == [0] * len(MODES)
    assert color_hessian(SparsityPattern([], [], (3, 3))).colors == 0


def test_errors():
    pattern = SparsityPattern.of(np.eye(3))
    with pytest.raises(InputError, match=r"mode='both', at .*test_sparse_coloring.*'bidirectional'"):
        color_jacobian(pattern, "both")
    with pytest.raises(InputError, match=r"ordering='random'"):
        color_jacobian(pattern, ordering="random")
    with pytest.raises(InputError, match="ordering='random'"):
        color_hessian(pattern, "random")
    with pytest.raises(InputError, match=r"the pattern of a Hessian must be symmetric, but SparsityPattern\(shape=\(3, 3\)"):
        color_hessian(SparsityPattern([0], [1], (3, 3)))
