"""`sparse_jacobian` and `sparse_hessian`: all entries from a few products with sums of unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, ParamSpec, Protocol, cast, overload

import numpy as np

from functad.errors import InputError, SparsityError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here, name_of
from functad.primitives.operands import concrete
from functad.tracing.recorder import FORWARD, REVERSE, Recorder
from functad.transforms.arguments import ArgNums, Selection, check_result, enter, plain, traced
from functad.transforms.forward import push_through
from functad.transforms.gradient import Pullback, grad
from functad.transforms.seeds import chunks, in_batch, inexact, joined, size_of
from functad.transforms.sparse_coloring import (
    MODES,
    ORDERINGS,
    Coloring,
    check_choice,
    color_hessian,
    color_jacobian,
    values_of,
)
from functad.transforms.sparse_patterns import hessian_pattern, jacobian_pattern
from functad.transforms.sparse_sets import Array
from functad.transforms.sparsity import SparsityPattern
from functad.trees import flatten

P = ParamSpec("P")

_VALUES = 32
"""A walk holds that many values as large as the argument, about: seeds of 2^17 elements together are as fast as more."""

_FEW = 8
"""Fewer colours than this are pushed or pulled one after the other: at once would take as long (20 colours: half as long)."""


class SparsePlan(NamedTuple):
    """How a sparse derivative is computed.

    Attributes:
        sparsity: where it can be other than zero.
        coloring: which products give its entries; `coloring.colors` is their number.
    """

    sparsity: SparsityPattern
    coloring: Coloring


class SparseFunction(Protocol[P]):
    """A function that returns a sparse derivative; `plan`, called with the same arguments, returns how."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return the derivative."""

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> SparsePlan:
        """Return pattern and colouring."""


class _Products:
    """Products with the Jacobian of a function at one point: the function is run once for each direction that is asked for.

    Several products are computed at once, by one walk over Tensors that stand for all of them.

    Attributes:
        leaves: the selected arguments.
    """

    def __init__(self, transform: str, f: Callable[..., Any], argnums: ArgNums, args: Any, kwargs: Any) -> None:
        self.f = f
        self.selection = Selection(transform, f, argnums, None)
        self.args, self.kwargs = args, kwargs
        trees = [args[key] if isinstance(key, int) else kwargs[key] for key in self.selection.keys(args, kwargs)]
        self.leaves = [plain(leaf) for tree in trees for leaf in flatten(tree)[0]]

    def _trace(self, mode: str) -> tuple[Recorder, Any, Any]:
        recorder = Recorder(mode, self.selection.transform, self.f)
        inputs = enter(recorder, self.selection, self.args, self.kwargs)
        out = traced(recorder, self.f, inputs.args, inputs.kwargs)
        leaves, structure = flatten(out)
        for leaf, path in zip(leaves, structure.paths("result"), strict=True):
            check_result(leaf, path, self.selection.transform, self.f)
            if dtype_of(leaf).kind == "c":
                raise InputError(
                    f"{self.selection.transform} of {name_of(self.f)}, called at {here()}: {path} is complex. Return the real "
                    f"and the imaginary parts as two arrays."
                )
        return recorder, inputs, out

    @cached_property
    def _pushed(self) -> tuple[Recorder, list[Any]]:
        """The forward trace, and the leaves of the result."""
        recorder, _, out = self._trace(FORWARD)
        return recorder, flatten(out)[0]

    @cached_property
    def _pulled(self) -> Pullback:
        """The reverse trace."""
        recorder, inputs, out = self._trace(REVERSE)
        return Pullback(recorder, inputs, out, self.selection)

    def _forward(self, seeds: list[Any]) -> list[Any]:
        """Return the tangents of the results for those of the inputs, `None` for zero."""
        recorder, leaves = self._pushed
        return push_through(recorder, seeds, leaves)

    def _reverse(self, seeds: list[Any]) -> list[Any]:
        """Return the cotangents of the inputs for those of the results, `None` for zero."""
        floats = [dtype_of(value).kind == "f" for value in self._pulled.values]
        return self._pulled.leaves([seed if mine else None for seed, mine in zip(seeds, floats, strict=True)])

    def _ends(self, *, forward: bool) -> tuple[list[Any], list[Any]]:
        """Return the arrays that the seeds of a direction are like, and those that what comes out is like."""
        return (self.leaves, self._pushed[1]) if forward else (self._pulled.values, self.leaves)

    def shape(self, *, forward: bool) -> tuple[int, int]:
        """Return the shape of the Jacobian, as the trace of a direction tells it."""
        near, far = (sum(map(size_of, ends)) for ends in self._ends(forward=forward))
        return (far, near) if forward else (near, far)

    def of(self, seeds: Array, *, forward: bool) -> Any:
        """Return the products with vectors, which are the rows of `seeds`, as the rows of a matrix."""
        near, far = self._ends(forward=forward)
        walk = self._forward if forward else self._reverse

        def one(seed: Any) -> list[Any]:
            parts, start = [], 0
            for leaf in near:
                part = seed[start : start + size_of(leaf)].reshape(shape_of(leaf))
                parts.append(part if inexact(leaf) == np.float64 else part.astype(inexact(leaf)))
                start += size_of(leaf)
            return walk(parts)

        found = in_batch(self.selection.transform, self.f, seeds, one)
        columns = [
            np.zeros((len(seeds), size_of(leaf)), inexact(leaf))
            if array is None
            else array.reshape((len(seeds), size_of(leaf)))
            for array, leaf in zip(found, far, strict=True)
        ]
        return columns[0] if len(columns) == 1 else np.concatenate([np.zeros((len(seeds), 0), np.float16), *columns], 1)

    def compressed(self, colors: Array, count: int, *, forward: bool) -> Any:
        """Return the products with the sum of the unit vectors of each colour; `None` if there are none.

        Args:
            colors: the colour of each column, or of each row.
            count: the number of colours.
            forward: whether these are columns.
        """
        if not count:
            return None
        parts = []
        for part in chunks(count, 1 if count < _FEW else None, max(self.shape(forward=forward)) * _VALUES):
            chosen = np.flatnonzero((colors >= part.start) & (colors < part.stop))
            seeds = np.zeros((part.stop - part.start, len(colors)))
            seeds[colors[chosen] - part.start, chosen] = 1
            parts.append(self.of(seeds, forward=forward))
        return joined(parts)


class _Kept:
    """The last plan of a function, which is taken again as long as the pattern stays."""

    def __init__(self, color: Callable[[SparsityPattern], Coloring]) -> None:
        self.color = color
        self.last: SparsePlan | None = None

    def of(self, pattern: SparsityPattern) -> SparsePlan:
        """Return the plan for a pattern."""
        last = self.last
        if last is None or (last.sparsity is not pattern and last.sparsity != pattern):
            self.last = last = SparsePlan(pattern, self.color(pattern))
        return last


def _given(sparsity: Any, coloring: str | Coloring, color: Callable[[SparsityPattern, str], Coloring]) -> Any:
    """Return the pattern that the user gave, if there is one, and the function that colours a pattern.

    Raises:
        InputError: the colouring does not belong to the pattern.
    """
    pattern = None if sparsity is None else SparsityPattern.of(sparsity)
    if isinstance(coloring, str):
        check_choice(coloring, ORDERINGS, "coloring")
        return pattern, lambda found: color(found, coloring)

    def own(found: SparsityPattern) -> Coloring:
        if coloring.shape != found.shape or len(coloring.by_row) != found.nnz:
            raise InputError(f"{coloring!r}, used at {here()}, was not made for {repr(found).partition(chr(10))[0]}.")
        return coloring

    return pattern, own


@overload
def sparse_jacobian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    sparsity: Any = None,
    mode: str = "auto",
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> SparseFunction[P]: ...
@overload
def sparse_jacobian(
    f: None = None,
    argnums: ArgNums = 0,
    sparsity: Any = None,
    mode: str = "auto",
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> Callable[[Callable[P, Any]], SparseFunction[P]]: ...
def sparse_jacobian(
    f: Callable[..., Any] | None = None,
    argnums: ArgNums = 0,
    sparsity: Any = None,
    mode: str = "auto",
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> Any:
    """Return a function that gives the Jacobian of `f` as a sparse matrix.

    Columns that have no row in common are computed by one forward pass, rows that have no column in common by one reverse pass:
    a banded Jacobian takes as many as it has bands, whatever its size.

    Args:
        f: a function of NumPy code that returns an array, or a tree of arrays; without it a decorator is returned.
        argnums: position, or positions, of the arguments to differentiate: arrays, numbers, or trees of them, of real floats.
        sparsity: where the Jacobian can be other than zero: a `SparsityPattern` (see `jacobian_sparsity`), a matrix of
            `scipy.sparse`, or a dense one. Without it the pattern is found anew at each call, as branches of `f` may change it;
            that takes a few times as long as `f`.
        mode: `column` for forward passes, `row` for reverse passes, `bidirectional` for both, `auto` for the fewest.
        coloring: the order in which the greedy colouring takes the columns (`auto`, `natural`, `largest_first`,
            `smallest_last`), or the `Coloring` of another plan for the same pattern.
        check: compare a product with a random vector with one pass more, and raise if they differ: the pattern was wrong.

    Returns:
        A function with the signature of `f` that returns a `scipy.sparse.csr_array`, or a `Coordinates` without SciPy, and
        where the entries are Tensors of an outer transform. It has a row for each element of the result and a column for
        each element of the selected arguments: arrays are raveled in C order, those of a tree lie one behind the other. All
        entries of the pattern are stored. Called with the same arguments, its attribute `plan` returns pattern and colouring.

    Raises:
        InputError: an argument cannot be differentiated, or the pattern has another shape than the Jacobian.
        SparsityError: with `check=True`, an entry of the matrix is wrong.

    Example:
        >>> import numpy as np
        >>> def f(x):
        ...     return np.sin(x[1:]) * x[:-1]
        >>> jacobian = sparse_jacobian(f)
        >>> x = np.linspace(0, 1, 10_001)
        >>> jacobian(x).shape
        (10000, 10001)
        >>> jacobian.plan(x).coloring.colors
        2
    """
    if f is None:
        return functools.partial(sparse_jacobian, argnums=argnums, sparsity=sparsity, mode=mode, coloring=coloring, check=check)
    check_choice(mode, MODES, "mode")
    pattern, color = _given(sparsity, coloring, lambda found, ordering: color_jacobian(found, mode, ordering))
    kept = _Kept(color)

    def plan(*args: Any, **kwargs: Any) -> SparsePlan:
        return kept.of(pattern or jacobian_pattern("sparse_jacobian", f, args, kwargs, argnums))

    @functools.wraps(f)
    def entries(*args: Any, **kwargs: Any) -> Any:
        found, colors = plan(*args, **kwargs)
        products = _Products("sparse_jacobian", f, argnums, args, kwargs)
        one_way = colors.mode != "row"
        _check_shape(found, products.shape(forward=one_way), products.selection)
        forward = products.compressed(colors.columns, colors.forward, forward=True)
        reverse = products.compressed(colors.rows, colors.reverse, forward=False)
        values = values_of(found, colors, forward, reverse)
        if check:
            compare(found, values, products, forward=one_way)
        return found.with_values(values)

    entries.plan = plan  # type: ignore[attr-defined]
    return cast("SparseFunction[...]", entries)


@overload
def sparse_hessian(
    f: Callable[P, Any], argnums: ArgNums = 0, sparsity: Any = None, coloring: str | Coloring = "auto", check: bool = False
) -> SparseFunction[P]: ...
@overload
def sparse_hessian(
    f: None = None, argnums: ArgNums = 0, sparsity: Any = None, coloring: str | Coloring = "auto", check: bool = False
) -> Callable[[Callable[P, Any]], SparseFunction[P]]: ...
def sparse_hessian(
    f: Callable[..., Any] | None = None,
    argnums: ArgNums = 0,
    sparsity: Any = None,
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> Any:
    """Return a function that gives the Hessian of `f` as a sparse matrix.

    The products are those of the Hessian with the sums of a star colouring, each a forward pass over one recorded gradient.
    Each entry is read from one of them, or its mirror image is.

    Args:
        f: a function of NumPy code that returns one number; without it a decorator is returned.
        argnums: as for `sparse_jacobian`.
        sparsity: likewise, with `hessian_sparsity`; the pattern must be symmetric.
        coloring: as for `sparse_jacobian`.
        check: as for `sparse_jacobian`.

    Returns:
        A function with the signature of `f` that returns a matrix as that of `sparse_jacobian` does, with a row and a column
        for each element of the selected arguments; all of it is stored, not one triangle. It has an attribute `plan` too.

    Raises:
        NonScalarError: `f` returned something else than one number.
        InputError: an argument cannot be differentiated, or the pattern has another shape, or is not symmetric.
        SparsityError: with `check=True`, an entry of the matrix is wrong.

    Example:
        >>> import numpy as np
        >>> def rosenbrock(x):
        ...     return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        >>> hessian = sparse_hessian(rosenbrock)
        >>> hessian.plan(np.ones(1000)).coloring
        Coloring('star', shape=(1000, 1000), colors=3)
        >>> hessian(np.ones(3)).toarray()
        array([[ 802., -400.,    0.],
               [-400., 1002., -400.],
               [   0., -400.,  200.]])
    """
    if f is None:
        return functools.partial(sparse_hessian, argnums=argnums, sparsity=sparsity, coloring=coloring, check=check)
    pattern, color = _given(sparsity, coloring, color_hessian)
    kept = _Kept(color)
    gradient = grad(f, argnums)

    def plan(*args: Any, **kwargs: Any) -> SparsePlan:
        return kept.of(pattern or hessian_pattern("sparse_hessian", f, args, kwargs, argnums))

    @functools.wraps(f)
    def entries(*args: Any, **kwargs: Any) -> Any:
        found, colors = plan(*args, **kwargs)
        products = _Products("sparse_hessian", gradient, argnums, args, kwargs)
        _check_shape(found, products.shape(forward=True), products.selection)
        values = values_of(found, colors, products.compressed(colors.columns, colors.forward, forward=True), None)
        if check:
            compare(found, values, products, forward=True)
        return found.with_values(values)

    entries.plan = plan  # type: ignore[attr-defined]
    return cast("SparseFunction[...]", entries)


def _check_shape(pattern: SparsityPattern, shape: tuple[int, int], selection: Selection) -> None:
    if pattern.shape != shape:
        raise InputError(
            f"{selection.transform} of {name_of(selection.function)}, called at {here()}: the pattern that was given has shape "
            f"{pattern.shape}, but the matrix has shape {shape}."
        )


def compare(pattern: SparsityPattern, values: Any, products: _Products, *, forward: bool) -> None:
    """Compare the product of a matrix with a random vector with one that was computed without the pattern.

    Raises:
        SparsityError: they differ; the message names an entry.
    """
    entries = np.asarray(concrete(values, "check=True"))
    i, j = (pattern.rows, pattern.columns) if forward else (pattern.columns, pattern.rows)
    length, others = (pattern.shape if forward else pattern.shape[::-1])[::-1]
    vector = np.random.default_rng(0).uniform(0.5, 1.5, length)
    expected = np.asarray(concrete(products.of(vector[None], forward=forward)[0], "check=True"), np.float64)
    found = np.bincount(i, entries * vector[j], minlength=others)
    size = np.bincount(i, np.abs(entries * vector[j]), minlength=others) + np.abs(expected)
    wrong = _far(found, expected, size, entries.dtype)
    if not wrong.any():
        return
    line = int(np.argmax(wrong))
    unit = np.zeros(others)
    unit[line] = 1
    true = np.asarray(concrete(products.of(unit[None], forward=not forward)[0], "check=True"), np.float64)
    own, stored = np.zeros(length), np.zeros(length, bool)
    own[j[i == line]], stored[j[i == line]] = entries[i == line], True
    with np.errstate(invalid="ignore"):
        error = np.nan_to_num(np.abs(own - true), nan=np.inf)
    lacking = np.where(stored, 0, error)  # what spoils entries that are there too, so it is named first
    place = int(np.argmax(lacking if lacking.any() else error))
    row, column = (line, place) if forward else (place, line)
    why = f"but the matrix has {own[place]:.6g}" if stored[place] else "which the pattern has no place for"
    raise SparsityError(
        f"{products.selection.transform} of {name_of(products.f)}, called at {here()}: entry ({row}, {column}) is "
        f"{true[place]:.6g}, {why}. {int(wrong.sum())} of {others} {'rows' if forward else 'columns'} are wrong. The pattern "
        f"was made for another function or another branch of it: leave sparsity= out, or pass that of jacobian_sparsity or "
        f"hessian_sparsity at this point.",
        row,
        column,
    )


def _far(found: Array, expected: Array, size: Array, dtype: Any) -> Array:
    """Return where two results differ by more than roundings do."""
    with np.errstate(invalid="ignore"):
        close = np.abs(found - expected) <= float(np.finfo(dtype).eps) ** 0.75 * size
    far: Array = ~(close | (np.isnan(found) & np.isnan(expected)) | (found == expected))
    return far


__all__ = ["SparseFunction", "SparsePlan", "sparse_hessian", "sparse_jacobian"]
