"""`sparse_jacobian` and `sparse_hessian`: all entries from a few products with sums of unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, cast, overload

import numpy as np

from functad.errors import InputError
from functad.expressions.spec import dtype_of, inexact, shape_of
from functad.forks import cached_property
from functad.places import here, name_of
from functad.sparse.check import compare
from functad.sparse.coloring import (
    MODES,
    ORDERINGS,
    Coloring,
    check_choice,
    color_hessian,
    color_jacobian,
    values_of,
)
from functad.sparse.pattern import SparsityPattern
from functad.sparse.patterns import hessian_pattern, jacobian_pattern
from functad.sparse.sets import Array
from functad.tracing.traces.base import Recorder
from functad.tracing.traces.concrete import ConcreteRecorder, ForwardRecorder, ReverseRecorder
from functad.transforms.calling.arguments import check_result, check_slope, enter, own_aux, split_aux, traced, value_of
from functad.transforms.calling.seeds import chunks, in_batch, joined, size_of
from functad.transforms.calling.selection import ArgNames, ArgNums, Selection
from functad.transforms.calling.transform import Transformed, transform
from functad.transforms.grad import gradient_function
from functad.transforms.pullbacks import Pullback
from functad.transforms.walks.forward import push_through
from functad.trees.structure import flatten

P = ParamSpec("P")
Q = ParamSpec("Q")

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

    def __repr__(self) -> str:
        from functad.sparse.pictures import saved_text  # noqa: PLC0415 - programs that show nothing need none of it

        return f"SparsePlan: {self.coloring!r}\n{saved_text(self.coloring)}\n{self.sparsity!r}"

    def _repr_html_(self) -> str:
        from functad.sparse.pictures import plan_markup  # noqa: PLC0415 - as above

        return plan_markup(self.sparsity, self.coloring)


class SparseFunction(Protocol[P]):
    """A function that returns a sparse derivative; `plan`, called with the same arguments, returns how."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return the derivative."""

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> SparsePlan:
        """Return pattern and colouring."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> SparseFunction[P]: ...
    @overload
    def __get__(self: SparseFunction[Concatenate[Any, Q]], instance: object, owner: Any = None) -> SparseFunction[Q]: ...


class SparseTransform(Protocol[Q]):
    """A transform that makes functions which return a sparse derivative."""

    @overload
    def __call__(self, f: Callable[P, Any], /, *args: Q.args, **kwargs: Q.kwargs) -> SparseFunction[P]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, Any]], SparseFunction[P]]: ...


def _sparse(make: Callable[Concatenate[Callable[..., Any], Q], Any]) -> SparseTransform[Q]:
    return cast("SparseTransform[Q]", transform(make))


class _Sparse(Transformed):
    """A function that returns a sparse derivative. Bound as a method, it has a bound `plan`."""

    plan: Callable[..., SparsePlan]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound: Any = functools.partial(self, instance)
        bound.plan = functools.partial(self.plan, instance)
        return bound


class _Products:
    """Products with the Jacobian of a function at one point: the function is run once for each direction that is asked for.

    Several products are computed at once, by one walk over Tensors that stand for all of them.

    Attributes:
        leaves: the selected arguments.
        aux: what the function returned beside the value, when it has been run.
    """

    def __init__(self, selection: Selection, f: Callable[..., Any], args: Any, kwargs: Any, *, has_aux: bool) -> None:
        self.f = f
        self.selection = selection
        self.args, self.kwargs = args, kwargs
        self.has_aux = has_aux
        self.aux: Any = None
        trees = [args[key] if isinstance(key, int) else kwargs[key] for key in selection.keys(args, kwargs)]
        self.leaves = [value_of(leaf) for tree in trees for leaf in flatten(tree)[0]]

    def _trace(self, kind: type[ConcreteRecorder]) -> tuple[Recorder, Any, Any]:
        recorder = kind(self.selection.transform, self.f)
        inputs = enter(recorder, self.selection, self.args, self.kwargs)
        out, aux = split_aux(traced(recorder, self.f, inputs.args, inputs.kwargs), self.has_aux, self.selection)
        self.aux = own_aux(aux, recorder, inputs.primals) if self.has_aux else None
        leaves, structure = flatten(out)
        for leaf, path in zip(leaves, structure.paths("result"), strict=True):
            check_result(leaf, path, self.selection.transform, self.f)
            check_slope(leaf, path, self.selection)
            if dtype_of(leaf).kind == "c":
                raise InputError(
                    f"{self.selection.transform} of {name_of(self.f)}, called at {here()}: {path} is complex. Return the real "
                    f"and the imaginary parts as two arrays."
                )
        return recorder, inputs, out

    @cached_property
    def _pushed(self) -> tuple[Recorder, list[Any]]:
        """The forward trace, and the leaves of the result."""
        recorder, _, out = self._trace(ForwardRecorder)
        return recorder, flatten(out)[0]

    @cached_property
    def _pulled(self) -> Pullback:
        """The reverse trace."""
        recorder, inputs, out = self._trace(ReverseRecorder)
        return Pullback(recorder, inputs, out, self.selection)

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

        def one(seed: Any) -> list[Any]:
            """Return the tangents of the results for those of the inputs, or vice versa the cotangents; `None` for zero."""
            parts, start = [], 0
            for leaf in near:
                part = seed[start : start + size_of(leaf)].reshape(shape_of(leaf))
                parts.append(part if inexact(leaf) == np.float64 else part.astype(inexact(leaf)))
                start += size_of(leaf)
            if forward:
                return push_through(self._pushed[0], parts, far)
            return self._pulled.leaves([p if dtype_of(leaf).kind == "f" else None for p, leaf in zip(parts, near, strict=True)])

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


@_sparse
def sparse_jacobian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    sparsity: Any = None,
    mode: str = "auto",
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> SparseFunction[P]:
    """Return a function that gives the Jacobian of `f` as a sparse matrix.

    Columns that have no row in common are computed by one forward pass, rows that have no column in common by one reverse pass:
    a banded Jacobian takes as many as it has bands, whatever its size.

    Args:
        f: a function of NumPy code that returns an array, or a tree of arrays; without it a decorator is returned.
        argnums: position, or positions, of the arguments to differentiate: arrays, numbers, or trees of them, of real floats.
        argnames: name, or names, of arguments to differentiate; they take the place of the default `argnums=0`.
        has_aux: `f` returns a pair `(value, aux)`, of which `aux` is handed through.
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
        entries of the pattern are stored. With `has_aux` it returns `(matrix, aux)`. Called with the
        same arguments, its attribute `plan` returns pattern and colouring.

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
    selection = Selection("sparse_jacobian", f, argnums, argnames)
    return _Sparse.of(sparse_jacobian_function(selection, has_aux, sparsity, mode, coloring, check))


def sparse_jacobian_function(
    selection: Selection,
    has_aux: bool = False,
    sparsity: Any = None,
    mode: str = "auto",
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> Any:
    """Make the function of `sparse_jacobian`, under the name of the transform that the user called."""
    check_choice(mode, MODES, "mode")
    color = functools.partial(color_jacobian, mode=mode)
    return _function(selection, selection.function, jacobian_pattern, color, sparsity, coloring, has_aux=has_aux, check=check)


def _function(
    selection: Selection,
    f: Callable[..., Any],
    find: Callable[..., SparsityPattern],
    color: Callable[..., Coloring],
    sparsity: Any,
    coloring: str | Coloring,
    *,
    has_aux: bool,
    check: bool,
) -> Any:
    """Make the function that returns a sparse derivative.

    Args:
        selection: by what the user differentiates.
        f: the function whose Jacobian is computed.
        find: finds where that can be other than zero.
        color: colours a pattern, with an ordering.
        sparsity: the pattern that the user gave.
        coloring: the ordering, or the colouring that the user gave.
        has_aux: `f` returns a pair.
        check: compare a product.
    """
    given = None if sparsity is None else SparsityPattern.of(sparsity)
    if isinstance(coloring, str):
        check_choice(coloring, ORDERINGS, "coloring")
    last: SparsePlan | None = None

    def plan(*args: Any, **kwargs: Any) -> SparsePlan:
        nonlocal last
        kept, found = last, given if given is not None else find(selection, args, kwargs, has_aux=has_aux)
        if kept is None or (kept.sparsity is not found and kept.sparsity != found):
            kept = last = SparsePlan(found, colored(found))
        return kept

    def colored(pattern: SparsityPattern) -> Coloring:
        if isinstance(coloring, str):
            return color(pattern, ordering=coloring)
        if coloring.shape != pattern.shape or len(coloring.by_row) != pattern.nnz:
            raise InputError(f"{coloring!r}, used at {here()}, was not made for {repr(pattern).partition(chr(10))[0]}.")
        return coloring

    @functools.wraps(selection.function)
    def entries(*args: Any, **kwargs: Any) -> Any:
        found, colors = plan(*args, **kwargs)
        products = _Products(selection, f, args, kwargs, has_aux=has_aux)
        one_way = colors.mode != "row"
        shape = products.shape(forward=one_way)
        if found.shape != shape:
            raise InputError(
                f"{selection.transform} of {name_of(selection.function)}, called at {here()}: the pattern that was given has "
                f"shape {found.shape}, but the matrix has shape {shape}."
            )
        forward = products.compressed(colors.columns, colors.forward, forward=True)
        reverse = products.compressed(colors.rows, colors.reverse, forward=False)
        values = values_of(found, colors, forward, reverse)
        if check:
            compare(found, values, products, forward=one_way)
        matrix = found.with_values(values)
        return (matrix, products.aux) if has_aux else matrix

    entries.plan = plan  # type: ignore[attr-defined]
    return entries


@_sparse
def sparse_hessian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    sparsity: Any = None,
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> SparseFunction[P]:
    """Return a function that gives the Hessian of `f` as a sparse matrix.

    The products are those of the Hessian with the sums of a star colouring, each a forward pass over one recorded gradient.
    Each entry is read from one of them, or its mirror image is.

    Args:
        f: a function of NumPy code that returns one number; without it a decorator is returned.
        argnums, argnames, has_aux, check: as for `sparse_jacobian`.
        sparsity: where the Hessian can be other than zero, as for `sparse_jacobian`, by `hessian_sparsity` for one; the pattern
            must be symmetric. Without it the pattern is found anew at each call.
        coloring: the order in which the greedy colouring takes the columns, or the `Coloring` of another plan for the same
            pattern.

    Returns:
        A function with the signature of `f` that returns a matrix as that of `sparse_jacobian` does, with a row and a column
        for each element of the selected arguments; all of it is stored, not one triangle. It has an attribute `plan` too.
        With `has_aux` it returns `(matrix, aux)`.

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
    selection = Selection("sparse_hessian", f, argnums, argnames)
    return _Sparse.of(sparse_hessian_function(selection, has_aux, sparsity, coloring, check))


def sparse_hessian_function(
    selection: Selection,
    has_aux: bool = False,
    sparsity: Any = None,
    coloring: str | Coloring = "auto",
    check: bool = False,
) -> Any:
    """Make the function of `sparse_hessian`, under the name of the transform that the user called."""
    f = gradient_function(selection, has_aux)
    return _function(selection, f, hessian_pattern, color_hessian, sparsity, coloring, has_aux=has_aux, check=check)
