"""`sparse_jacobian` and `sparse_hessian`: all entries from few products with sums of unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, cast, overload

import numpy as np

from functad.errors import InputError
from functad.expressions.spec import dtype_of, inexact, shape_of
from functad.places import here, name_of
from functad.process import cached_property
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
from functad.tracing.concrete import ConcreteRecorder, ForwardRecorder, ReverseRecorder
from functad.tracing.trace import Recorder, value_of
from functad.transforms.boundary import check_result, check_slope, own_aux, split_aux, traced, wrap_inputs
from functad.transforms.forward import push_through
from functad.transforms.grad import Pullback, gradient_function
from functad.transforms.jacobian import chunks, in_batch, size_of
from functad.transforms.transform import ArgNames, ArgNums, Selection, Transformed, transform
from functad.trees import flatten

P = ParamSpec("P")
Q = ParamSpec("Q")

_VALUES = 32
"""A pass holds about this number of values as large as the argument. More than 2^17 seed elements at once are no faster."""

_FEW = 8
"""Fewer colours than this are processed one by one: a batch would take as long (with 20 colours: half as long)."""


class SparsePlan(NamedTuple):
    """The pattern and the colouring of a sparse derivative.

    Attributes:
        sparsity: the sparsity pattern.
        coloring: the colouring; `coloring.colors` is the number of products.
    """

    sparsity: SparsityPattern
    coloring: Coloring

    def __repr__(self) -> str:
        from functad.sparse.pictures import saved_text  # noqa: PLC0415 - needed for display only

        return f"SparsePlan: {self.coloring!r}\n{saved_text(self.coloring)}\n{self.sparsity!r}"

    def _repr_html_(self) -> str:
        from functad.sparse.pictures import plan_markup  # noqa: PLC0415 - as above

        return plan_markup(self.sparsity, self.coloring)


class SparseFunction(Protocol[P]):
    """A function that returns a sparse derivative. `plan`, called with the same arguments, returns its `SparsePlan`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Return the derivative."""

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> SparsePlan:
        """Return the pattern and the colouring."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> SparseFunction[P]: ...
    @overload
    def __get__(self: SparseFunction[Concatenate[Any, Q]], instance: object, owner: Any = None) -> SparseFunction[Q]: ...


class SparseTransform(Protocol[Q]):
    """A transform that returns a `SparseFunction`."""

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
    """Products with the Jacobian of a function at one point. The function runs once per direction (forward, reverse).

    Several products are computed at once, by one pass over batched Tensors.

    Attributes:
        leaves: the selected arguments.
        aux: the auxiliary result of the function, after it has run.
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
        inputs = wrap_inputs(recorder, self.selection, self.args, self.kwargs)
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
        """The forward trace and the leaves of the result."""
        recorder, _, out = self._trace(ForwardRecorder)
        return recorder, flatten(out)[0]

    @cached_property
    def _pulled(self) -> Pullback:
        """The reverse trace as a pullback."""
        recorder, inputs, out = self._trace(ReverseRecorder)
        return Pullback(recorder, inputs, out, self.selection)

    def _ends(self, *, forward: bool) -> tuple[list[Any], list[Any]]:
        """Return the arrays that fix the shapes of the seeds and of the products of a direction."""
        return (self.leaves, self._pushed[1]) if forward else (self._pulled.values, self.leaves)

    def shape(self, *, forward: bool) -> tuple[int, int]:
        """Return the shape of the Jacobian, from the trace of a direction."""
        near, far = (sum(map(size_of, ends)) for ends in self._ends(forward=forward))
        return (far, near) if forward else (near, far)

    def of(self, seeds: Array, *, forward: bool) -> Any:
        """Return the products with the rows of `seeds`, as the rows of a matrix."""
        near, far = self._ends(forward=forward)

        def one(seed: Any) -> list[Any]:
            """Return the tangents of the results, or the cotangents of the inputs; `None` means zero."""
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
        """Return the products with the sum of the unit vectors of each colour, or `None` if there are no colours.

        Args:
            colors: the colour of each column or row.
            count: the number of colours.
            forward: whether `colors` are colours of columns.
        """
        if not count:
            return None
        parts = []
        for part in chunks(count, 1 if count < _FEW else None, max(self.shape(forward=forward)) * _VALUES):
            chosen = np.flatnonzero((colors >= part.start) & (colors < part.stop))
            seeds = np.zeros((part.stop - part.start, len(colors)))
            seeds[colors[chosen] - part.start, chosen] = 1
            parts.append(self.of(seeds, forward=forward))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
    """Return a function that computes the Jacobian of `f` as a sparse matrix.

    One forward pass computes columns that share no row. One reverse pass computes rows that share no column. A banded Jacobian
    takes as many passes as it has bands, for every size.

    Args:
        f: a function of NumPy code that returns an array, or a pytree of arrays. Without `f`, the transform returns a
            decorator.
        argnums: position, or positions, of the arguments to differentiate with respect to: real floating-point arrays, numbers,
            or pytrees of them.
        argnames: name, or names, of these arguments. If given, the default of `argnums` does not apply.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is returned unchanged.
        sparsity: the sparsity pattern of the Jacobian: a `SparsityPattern` (see `jacobian_sparsity`), a matrix of
            `scipy.sparse`, or a dense matrix. Default: the pattern is computed at each call, because branches of `f` may change
            it; this takes a few times as long as `f`.
        mode: `column` for forward passes, `row` for reverse passes, `bidirectional` for both, `auto` for the fewest passes.
        coloring: the order of the columns in the greedy colouring (`auto`, `natural`, `largest_first`, `smallest_last`), or the
            `Coloring` of another plan for the same pattern.
        check: compare one product with a random vector with a product computed without the pattern, and raise if they differ.

    Returns:
        A function with the signature of `f` that returns a `scipy.sparse.csr_array`, or a `Coordinates` without SciPy or if the
        entries are Tensors of an outer transform. The matrix has a row for each element of the result and a column for each
        element of the selected arguments. Arrays are raveled in C order; the leaves of a pytree are concatenated. All entries
        of the pattern are stored. With `has_aux` the function returns `(matrix, aux)`. Its attribute `plan`, called with the
        same arguments, returns the pattern and the colouring.

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
    """Return the function of `sparse_jacobian`, under the transform name of `selection`."""
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
    """Return the function that computes a sparse derivative.

    Args:
        selection: the arguments to differentiate with respect to.
        f: the function to compute the Jacobian of.
        find: computes the pattern of this Jacobian.
        color: colours a pattern with an ordering.
        sparsity: the pattern given by the user.
        coloring: the ordering, or the colouring given by the user.
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
    """Return a function that computes the Hessian of `f` as a sparse matrix.

    Each product is a forward pass over one recorded gradient; its seed is the sum of the unit vectors of one colour of a star
    colouring. Each entry, or its mirror image, is read from one product.

    Args:
        f: a function of NumPy code that returns one number. Without `f`, the transform returns a decorator.
        argnums, argnames, has_aux, check: as for `sparse_jacobian`.
        sparsity: the sparsity pattern of the Hessian (see `hessian_sparsity`), in the forms of `sparse_jacobian`; it must be
            symmetric. Default: the pattern is computed at each call.
        coloring: the order of the columns in the greedy colouring, or the `Coloring` of another plan for the same pattern.

    Returns:
        A function with the signature of `f` that returns a matrix as for `sparse_jacobian`, with a row and a column for each
        element of the selected arguments. Both triangles are stored. With `has_aux` the function returns `(matrix, aux)`. It
        also has an attribute `plan`.

    Raises:
        NonScalarError: the result of `f` is not one number.
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
    """Return the function of `sparse_hessian`, under the transform name of `selection`."""
    f = gradient_function(selection, has_aux)
    return _function(selection, f, hessian_pattern, color_hessian, sparsity, coloring, has_aux=has_aux, check=check)
