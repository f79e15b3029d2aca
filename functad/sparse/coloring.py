"""Colourings of sparse matrices: groups of columns or rows that one product computes together.

Two columns may share a colour if no row has an entry in both. One product of the Jacobian with the sum of their unit vectors
then gives both columns. This is a distance-2 colouring of a bipartite graph. The greedy algorithm is linear in the number of
entries, because each row stores the colours of its columns as the bits of one Python integer.

Source: A. H. Gebremedhin, F. Manne, A. Pothen, What color is your Jacobian? Graph coloring for computing derivatives, SIAM
Review 47 (2005); original idea: A. R. Curtis, M. J. D. Powell, J. K. Reid, IMA J. Appl. Math. 13 (1974).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.errors import InputError
from functad.places import here
from functad.sparse.pattern import SparsityPattern
from functad.sparse.sets import Array

MODES = ("auto", "column", "row", "bidirectional")
ORDERINGS = ("auto", "natural", "largest_first", "smallest_last")
_SMALL = 1_000_000
"""Up to this number of pairs of entries in a row, `auto` also tries the most expensive ordering."""


@dataclass(frozen=True, slots=True, eq=False)
class Coloring:
    """A colouring of the columns and rows of a matrix. Its products give all entries.

    Attributes:
        mode: `column`, `row`, `bidirectional` or `star`.
        shape: the shape of the matrix.
        columns: the colour of each column. Columns of one colour are the seed of one forward pass. -1: no product needed.
        rows: the colour of each row. Rows of one colour are the seed of one reverse pass. -1: no product needed.
        by_row: for each entry of the pattern, whether it is read from a reverse pass. In a star colouring: whether it is read
            from its mirror image.
        forward, reverse: the numbers of colours of the columns and of the rows.

    Example:
        >>> color_jacobian(SparsityPattern.of(np.eye(4) + np.eye(4, k=1)))
        Coloring('column', shape=(4, 4), colors=2)
    """

    mode: str
    shape: tuple[int, int]
    columns: Array
    rows: Array
    by_row: Array
    forward: int
    reverse: int

    @property
    def colors(self) -> int:
        """The number of colours, equal to the number of products."""
        return self.forward + self.reverse

    def __repr__(self) -> str:
        return f"Coloring({self.mode!r}, shape={self.shape}, colors={self.colors})"

    def _repr_html_(self) -> str:
        from functad.sparse.pictures import coloring_markup  # noqa: PLC0415 - needed for display only

        return coloring_markup(self)


def color_jacobian(pattern: SparsityPattern, mode: str = "auto", ordering: str = "auto") -> Coloring:
    """Return a colouring of the columns of a pattern, of its rows, or of some of both.

    A bidirectional colouring computes dense rows by reverse passes and the remaining columns by forward passes, or the other
    way round. It pays off if a pattern has both dense rows and dense columns:

        pattern                                                        column   row   bidirectional
        arrowhead, 1000 x 1000                                           1000  1000               3
        band of 5 with two dense rows and columns, 1000 x 1000           1000  1000               9
        optimality conditions with one budget constraint, 501 x 501       501   501               5
        collocation, parameters and an integral condition, 298 x 302      302   298               9
        optimality conditions with sparse constraints, 500 x 500            8     8               8
        bundle adjustment, 1600 x 690                                      12   182              12

    Args:
        pattern: the sparsity pattern of the Jacobian.
        mode: `column`, `row`, `bidirectional`, or `auto` for the fewest colours. `auto` uses both directions only if this saves
            colours, because it costs one more evaluation of the function.
        ordering: the order of the columns in the greedy algorithm: `natural`, `largest_first` (most conflicts first),
            `smallest_last` (repeatedly, the column with fewest remaining conflicts goes last), or `auto`. `auto` tries them
            until the number of colours equals the lower bound, the size of the densest row, and keeps the best.

    Returns:
        The colouring.

    Raises:
        InputError: the mode or the ordering does not exist.

    Example:
        >>> import numpy as np
        >>> arrow = np.eye(9, dtype=bool)
        >>> arrow[0] = arrow[:, 0] = True
        >>> [color_jacobian(SparsityPattern.of(arrow), mode).colors for mode in ("column", "row", "bidirectional")]
        [9, 9, 3]
    """
    check_choice(mode, MODES, "mode")
    check_choice(ordering, ORDERINGS, "ordering")
    best: Coloring | None = None
    transposed = pattern.T if mode != "column" else pattern
    if mode in ("auto", "column"):
        best = _by_columns(pattern, ordering)
    if mode == "row" or (mode == "auto" and best is not None and _longest(transposed) < best.colors):
        other = _coloring("row", pattern, rows=color_columns(transposed, ordering), by_row=True)
        best = other if best is None or other.colors < best.colors else best
    if mode in ("auto", "bidirectional"):
        limit = None if best is None else best.colors
        best = _bidirectional(pattern, transposed, ordering, limit) or best
    return best or _by_columns(pattern, ordering)  # the pattern is empty


def check_choice(value: str, allowed: Iterable[str], name: str) -> None:
    """Raise unless `value` is allowed.

    Raises:
        InputError: `value` is not in `allowed`.
    """
    if value not in allowed:
        raise InputError(f"{name}={value!r}, at {here()}: it must be one of {', '.join(map(repr, allowed))}.")


def _longest(pattern: SparsityPattern) -> int:
    """Return the number of entries of the densest row: a lower bound of the number of column colours."""
    return int(np.diff(pattern.pointers).max(initial=0))


def _by_columns(pattern: SparsityPattern, ordering: str) -> Coloring:
    return _coloring("column", pattern, columns=color_columns(pattern, ordering))


def _coloring(
    mode: str, pattern: SparsityPattern, columns: Array | None = None, rows: Array | None = None, by_row: Any = False
) -> Coloring:
    """Return a colouring; columns or rows that are not given need no product."""
    columns = np.full(pattern.shape[1], -1) if columns is None else columns
    rows = np.full(pattern.shape[0], -1) if rows is None else rows
    return Coloring(mode, pattern.shape, columns, rows, np.full(pattern.nnz, by_row), _count(columns), _count(rows))


def _count(colors: Array) -> int:
    return int(colors.max(initial=-1)) + 1


# One direction


def color_columns(pattern: SparsityPattern, ordering: str = "auto") -> Array:
    """Return a colour for each column, so that columns of one colour share no row; -1 for an empty column."""
    columns, lengths = pattern.T, np.diff(pattern.pointers)
    degrees = np.bincount(pattern.columns, lengths[pattern.rows] - 1, minlength=pattern.shape[1]).astype(np.int64)
    names = ORDERINGS[1:] if int((lengths**2).sum()) <= _SMALL else ORDERINGS[1:-1]

    def conflicts() -> Callable[[int], Iterable[int]]:
        rows, cols = _lists(pattern), _lists(columns)
        return lambda j: itertools.chain.from_iterable([rows(i) for i in cols(j)])

    orders = (_order(name, degrees, conflicts) for name in (names if ordering == "auto" else [ordering]))
    return _fewest((_greedy(columns, order, pattern.shape[0]) for order in orders), _longest(pattern))


def _fewest(attempts: Iterable[Array], bound: int) -> Array:
    """Return the colouring with the fewest colours; stop at the first one that reaches the lower bound."""
    best: Array | None = None
    for found in attempts:
        if best is None or _count(found) < _count(best):
            best = found
        if _count(best) <= bound:
            break
    assert best is not None
    return best


def _lists(pattern: SparsityPattern) -> Callable[[int], list[int]]:
    """Return a function from a row of a pattern to its columns."""
    columns, ends = pattern.columns.tolist(), pattern.pointers.tolist()
    return lambda i: columns[ends[i] : ends[i + 1]]


def _greedy(lists: SparsityPattern, order: list[int], others: int) -> Array:
    """Return a colour for each row of `lists`: in the given order, the lowest colour of no row with a common column."""
    used = [0] * others  # the colours of the rows that use each column, as bits
    neighbours = _lists(lists)
    colors = [-1] * lists.shape[0]
    for i in order:
        own = neighbours(i)
        if not own:
            continue
        taken = 0
        for j in own:
            taken |= used[j]
        free = ~taken & (taken + 1)
        colors[i] = free.bit_length() - 1
        for j in own:
            used[j] |= free
    return np.array(colors, np.int64)


def _order(ordering: str, degrees: Array, neighbours: Callable[[], Callable[[int], Iterable[int]]]) -> list[int]:
    """Return the vertices in an ordering; `neighbours` is called only if the ordering needs it."""
    if ordering == "natural":
        return list(range(len(degrees)))
    if ordering == "largest_first":
        found: list[int] = np.argsort(-degrees, kind="stable").tolist()
        return found
    return _smallest_last(degrees.tolist(), neighbours())


def _smallest_last(degrees: list[int], neighbours: Any) -> list[int]:
    """Return the vertices in smallest-last order, in linear time by buckets of equal degree.

    Each vertex has the fewest neighbours among the vertices before it.

    Source: D. W. Matula, L. L. Beck, Smallest-last ordering and clustering and graph coloring algorithms, J. ACM 30 (1983).
    """
    buckets: list[list[int]] = [[] for _ in range(max(degrees, default=0) + 1)]
    for v, degree in enumerate(degrees):
        buckets[degree].append(v)
    gone = bytearray(len(degrees))
    last: list[int] = []
    lowest = 0
    while len(last) < len(degrees):
        while not buckets[lowest]:
            lowest += 1
        v = buckets[lowest].pop()
        if gone[v] or degrees[v] != lowest:
            continue  # an outdated bucket entry
        gone[v] = 1
        last.append(v)
        for w in neighbours(v):
            if not gone[w]:
                degrees[w] -= 1
                buckets[degrees[w]].append(w)
                lowest = min(lowest, degrees[w])
    return last[::-1]


# Both directions


def _bidirectional(pattern: SparsityPattern, transposed: SparsityPattern, ordering: str, limit: int | None) -> Coloring | None:
    """Return the best colouring that computes the densest rows by reverse and the rest by forward passes, or vice versa.

    Args:
        pattern: the pattern.
        transposed: the transposed pattern.
        ordering: the ordering of the greedy algorithm.
        limit: the result must have fewer colours; `None` for no limit.

    Returns:
        The colouring, or `None` if none has fewer colours than `limit`.
    """
    best: Coloring | None = None
    for one, other, swapped in ((pattern, transposed, False), (transposed, pattern, True)):
        lengths = np.diff(one.pointers)
        for threshold in _thresholds(lengths):
            dense = lengths > threshold
            chosen = dense[one.rows]
            reverse_bound = int(np.bincount(one.columns[chosen], minlength=1).max())
            if limit is not None and threshold + reverse_bound >= limit:
                continue
            lines = _part(other, dense[other.columns])
            rest = _part(one, ~chosen)
            across, along = color_columns(lines, ordering), color_columns(rest, ordering)
            found = _count(across) + _count(along)
            if limit is not None and found >= limit:
                continue
            limit = found
            columns, rows, by_row = (across, along, ~dense[pattern.columns]) if swapped else (along, across, chosen)
            best = _coloring("bidirectional", pattern, columns, rows, by_row)
    return best


def _thresholds(lengths: Array) -> list[int]:
    """Return at most sixteen distinct row lengths; rows with more entries than such a length count as dense."""
    found = np.unique(lengths)
    if len(found) > 16:
        found = found[np.unique(np.linspace(0, len(found) - 1, 16).astype(int))]
    return [int(length) for length in found]


def _part(pattern: SparsityPattern, chosen: Array) -> SparsityPattern:
    return SparsityPattern._sorted(pattern.rows[chosen], pattern.columns[chosen], pattern.shape)


# Symmetric matrices


def color_hessian(pattern: SparsityPattern, ordering: str = "auto") -> Coloring:
    """Return a star colouring of a symmetric pattern: each entry or its mirror image is an element of one product.

    Neighbours have different colours, and every path of four vertices has at least three colours.

    Args:
        pattern: the sparsity pattern of the Hessian; it must be symmetric.
        ordering: as for `color_jacobian`.

    Returns:
        The colouring. Each product is with the sum of the unit vectors of one colour.

    Raises:
        InputError: the pattern is not symmetric, or the ordering does not exist.

    Example:
        >>> import numpy as np
        >>> arrow = np.eye(9, dtype=bool)
        >>> arrow[0] = arrow[:, 0] = True
        >>> color_hessian(SparsityPattern.of(arrow)).colors
        2
    """
    check_choice(ordering, ORDERINGS, "ordering")
    if pattern.shape[0] != pattern.shape[1] or pattern != pattern.T:
        raise InputError(f"the pattern of a Hessian must be symmetric, but {pattern!r}, given at {here()}, is not.")
    degrees, names = np.diff(pattern.pointers), ORDERINGS[1:] if ordering == "auto" else [ordering]
    orders = (_order(name, degrees, lambda: _lists(pattern)) for name in names)
    # The lower bound of a column colouring. A star colouring may need fewer colours; the search then stops at the first one.
    colors = _fewest((_star(pattern, order) for order in orders), _longest(pattern))
    return _coloring("star", pattern, colors, by_row=_read_as_mirror_image(pattern, colors))


def _star(pattern: SparsityPattern, order: list[int]) -> Array:
    """Return a greedy star colouring, in time linear in the number of entries.

    A new vertex `v` must not complete a path of four vertices with two colours. If `v` were an end of the path, a neighbour `w`
    is a leaf of a star with several leaves; `leaf[w]` holds the colours of the hubs of such stars. If `v` were inside the path,
    two neighbours of `v` have one colour; the colours next to these neighbours are forbidden. Sets of colours are bits.

    Source: A. H. Gebremedhin, A. Tarafdar, F. Manne, A. Pothen, New acyclic and star coloring algorithms with application to
    computing Hessians, SIAM J. Sci. Comput. 29 (2007).
    """
    n = pattern.shape[0]
    neighbours = _lists(pattern)
    bits = [0] * n
    once, twice, leaf = [0] * n, [0] * n, [0] * n  # colours next to each vertex once and repeatedly; colours of its hubs
    first: list[dict[int, int]] = [{} for _ in range(n)]
    for v in order:
        own = neighbours(v)
        if not own:
            continue
        taken = once[v]
        for w in own:
            if bits[w]:
                taken |= leaf[w]
                if bits[w] & twice[v]:
                    taken |= once[w]
        bit = ~taken & (taken + 1)
        bits[v] = bit
        for w in own:
            if w == v:
                continue
            if bits[w] & twice[v]:
                leaf[w] |= bit
            if once[w] & bit:
                twice[w] |= bit
                leaf[v] |= bits[w]
                leaf[first[w][bit]] |= bits[w]
            else:
                once[w] |= bit
                first[w][bit] = v
    return np.array([bit.bit_length() - 1 for bit in bits], np.int64)


def _read_as_mirror_image(pattern: SparsityPattern, colors: Array) -> Array:
    """Return a mask of the entries (i, j) to read as (j, i): row i has other entries with the colour of column j."""
    keys = pattern.rows * (_count(colors) + 1) + colors[pattern.columns]
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    mirrored: Array = counts[places.ravel()] > 1
    return mirrored


def values_of(pattern: SparsityPattern, coloring: Coloring, forward: Any, reverse: Any) -> Any:
    """Return the entries of a matrix from its products with the seeds.

    Args:
        pattern: the sparsity pattern.
        coloring: the colouring that made the seeds.
        forward: the products with sums of columns, of shape `(colours, rows)`; `None` if there are none.
        reverse: the products with sums of rows, of shape `(colours, columns)`; `None` if there are none.
    """
    if forward is None and reverse is None:
        return np.zeros(pattern.nnz)
    i, j, mirror = pattern.rows, pattern.columns, coloring.by_row
    if coloring.mode == "star":
        i, j = np.where(mirror, j, i), np.where(mirror, i, j)
        return forward[coloring.columns[j], i]
    if reverse is None:
        return forward[coloring.columns[j], i]
    if forward is None:
        return reverse[coloring.rows[i], j]
    across = reverse[np.where(mirror, coloring.rows[i], 0), j]
    return np.where(mirror, across, forward[np.where(mirror, 0, coloring.columns[j]), i])
