"""`map_blocks`: applies NumPy code to each block of chunked arrays, with derivatives in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.chunks.block_calls import BlockCall, Form, own_index
from functad.chunks.compute import is_lazy
from functad.errors import AbstractValueError, ConversionError, InputError, OutputError, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, is_array, shape_of, spec_of, stand_in
from functad.places import here, name_of
from functad.primitives.operands import all_examples
from functad.tracing.trace import value_of
from functad.transforms.leaves import replaced
from functad.transforms.lists import trace
from functad.trees import Structure, flatten


def map_blocks(
    f: Callable[..., Any],
    *args: Any,
    chunks: Sequence[Any] | None = None,
    drop_axis: int | Sequence[int] = (),
    new_axis: int | Sequence[int] = (),
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    """Call a function for each block of chunked arrays and assemble the results, like `da.map_blocks` but differentiable.

    `f` is differentiated in each block separately. Cotangents and tangents of chunked arrays have the same chunks. The gradient
    with respect to a whole argument is the sum over blocks. If `f` returns one number for each block, such as a part of a loss,
    one task computes value and gradient and reads the blocks once. Any other `f` runs again for its gradient, in a task of its
    own, without residuals.

    Arrays are aligned by their last axes, as in NumPy and `da.map_blocks`. Along a common axis they have the same chunks or
    length 1: pass labels `y` for rows `X` as `y[:, None]`.

    Args:
        f: a function of blocks (read-only NumPy arrays) that returns an array or a number. A function defined in a script is
            sent to the workers of a cluster by value. `f` may be jitted.
        args: Dask arrays, and Tensors of them, are passed to `f` in blocks. Every block receives all other arguments whole:
            numbers, NumPy arrays, and containers with the Dask arrays in them. Without an array in blocks the result is
            `f(*args, **kwargs)`.
        chunks: for each axis of the result, the block length or lengths. By default a trace of `f` finds them, or a call with
            ones if `f` reads values.
        drop_axis: axes that the result lacks; each must have one block.
        new_axis: axes of the result that the arrays lack; each has one block.
        dtype: the dtype of the result; found like `chunks`. With both given, `f` first runs when the result is computed.
        kwargs: passed to `f` by name, whole.

    Returns:
        A lazy array. One number for each block gives one element for each block, with as many axes as the arrays.

    Raises:
        InputError: the chunks do not match, or a dropped axis has several blocks.
        OutputError: `f` returned neither an array nor a number, or a result with other axes than requested.

    Example:
        >>> import numpy as np, dask.array as da, functad
        >>> X = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(2, 2))
        >>> y = da.from_array(np.ones(6), chunks=2)
        >>> def loss(X, y, w):
        ...     return np.sum((X @ w - y[:, 0]) ** 2)
        >>> total = lambda w: np.sum(functad.map_blocks(loss, X, y[:, None], w))
        >>> value, gradient = functad.compute(functad.value_and_grad(total)(np.array([1.0, 0.0])))
        >>> float(value), gradient
        (166.0, array([380., 428.]))
        >>> functad.compute(functad.hvp(total, (np.zeros(2),), (np.array([1.0, 0.0]),)))
        array([440., 500.])
    """
    leaves, structure, in_blocks = _taken((args, kwargs))
    if not in_blocks:
        return f(*args, **kwargs)
    places = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
    flat = _OfBlocks(f, structure, tuple(places), replaced(leaves, places, [None] * len(places)))
    arrays = [leaves[i] for i in places]
    grid, forms = _grid(f, arrays, [i in in_blocks for i in places])
    flat.ndim = len(grid)
    output = _Output(flat, arrays, grid, forms).form(chunks, _axes(drop_axis), _axes(new_axis), dtype)
    return BlockCall(f, flat, grid, forms, [output])(arrays)[0]


class _OfBlocks:
    """The function of the blocks of all arrays among the arguments.

    Attributes:
        f: the function of the user.
        structure: the pytree structure of its arguments.
        places: the positions of the arrays among the leaves.
        others: the leaves, with `None` for arrays.
        ndim: the number of grid axes; a number result gets as many axes.
    """

    def __init__(self, f: Callable[..., Any], structure: Structure, places: tuple[int, ...], others: list[Any]) -> None:
        self.f = f
        self.structure = structure
        self.places = places
        self.others = others
        self.ndim = 0

    def __call__(self, *blocks: Any) -> list[Any]:
        args, kwargs = self.structure.unflatten(replaced(self.others, self.places, blocks))
        out = value_of(self.f(*args, **kwargs))
        if not is_array(out) and not isinstance(out, (int, float, complex)):
            raise OutputError(
                f"map_blocks of {name_of(self.f)}: it returned a {type(out).__name__}, and must return an array or a number."
            )
        return [out if shape_of(out) else np.reshape(out, (1,) * self.ndim)]


def _taken(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[list[Any], Structure, set[int]]:
    """Return the leaves of the arguments, their structure, and the positions of the leaves passed in blocks."""
    given, structure = flatten(arguments)
    in_blocks, position = set(), 0
    for arg in arguments[0]:
        own, _ = flatten(arg)
        if len(own) == 1 and own[0] is arg and is_lazy(all_examples(value_of(arg))) and shape_of(value_of(arg)):
            in_blocks.add(position)
        position += len(own)
    return list(map(value_of, given)), structure, in_blocks


def _axes(given: int | Sequence[int]) -> list[int]:
    return [given] if isinstance(given, int) else list(given)


def _grid(
    f: Callable[..., Any], arrays: Sequence[Any], in_blocks: Sequence[bool]
) -> tuple[tuple[tuple[int, ...], ...], list[Form | None]]:
    """Return the block lengths of each grid axis and the form of each array (`None` for a whole array).

    Raises:
        InputError: two arrays have different chunks along an axis.
    """
    ndim = max([len(shape_of(a)) for a, blocks in zip(arrays, in_blocks, strict=True) if blocks])
    grid: list[tuple[int, ...]] = [(1,)] * ndim
    forms: list[Form | None] = []
    for a, blocks in zip(arrays, in_blocks, strict=True):
        if not blocks:
            forms.append(None)
            continue
        own = len(shape_of(a))
        sizes = tuple(all_examples(a).chunks[-own:])  # batch axes come first
        form = Form(tuple(range(ndim - own, ndim)), sizes, dtype_of(a))
        forms.append(form)
        for i, chunk in zip(form.indices, sizes, strict=True):
            if chunk != (1,) and grid[i] not in ((1,), chunk):
                raise InputError(
                    f"map_blocks of {name_of(f)}, called at {here()}: axis {i - ndim} of an array of shape {shape_of(a)} has "
                    f"chunks of other lengths than that of another one. Arrays are laid on one another by their last axes: "
                    f"give a column y[:, None] for labels y beside rows, use a.rechunk(...), or give by name what each block "
                    f"needs whole."
                )
            grid[i] = chunk if grid[i] == (1,) else grid[i]
    return tuple(grid), forms


class _Output:
    """The layout of the result of a function of blocks.

    Args:
        flat: the function.
        arrays: its arguments.
        grid: the block lengths of each axis.
        forms: the forms of the arrays.
    """

    def __init__(self, flat: _OfBlocks, arrays: Sequence[Any], grid: Sequence[tuple[int, ...]], forms: Sequence[Any]) -> None:
        self.flat = flat
        self.arrays = arrays
        self.grid = grid
        self.forms = forms
        self.known: dict[tuple[int, ...], ArraySpec] = {}

    def form(self, chunks: Sequence[Any] | None, drop: list[int], new: list[int], dtype: Any) -> Form:
        """Return the form of the result.

        Raises:
            InputError: a dropped axis has several blocks, or `chunks` has the wrong number of entries.
            OutputError: the result has other axes than requested.
        """
        called = f"map_blocks of {name_of(self.flat.f)}, called at {here()}"
        ndim = len(self.grid)
        drop = [axis % ndim for axis in drop]
        for axis in drop:
            if len(self.grid[axis]) > 1:
                raise InputError(
                    f"{called}: axis {axis}, which is dropped, has {len(self.grid[axis])} blocks. Rechunk it to one."
                )
        indices = [i for i in range(ndim) if i not in drop]
        for axis in sorted([axis % (len(indices) + len(new)) for axis in new]):
            indices.insert(axis, own_index(axis))
        if chunks is not None and dtype is not None:
            return self._given(called, indices, chunks, np.dtype(dtype))
        first = self._block(tuple([sizes[0] for sizes in self.grid]))
        if first.shape == (1,) * ndim and not drop and not new:
            indices = list(range(ndim))
        elif len(first.shape) != len(indices):
            raise OutputError(
                f"{called}: a block of the result has the shape {first.shape}, but {len(indices)} axes are asked for. Say "
                f"which axes of the arrays the result does not have by drop_axis, and which are new by new_axis."
            )
        if chunks is not None:
            return self._given(called, indices, chunks, first.dtype)
        sizes = [self._sizes(axis, i, first) for axis, i in enumerate(indices)]
        return Form(tuple(indices), tuple(sizes), first.dtype if dtype is None else np.dtype(dtype))

    def _given(self, called: str, indices: list[int], chunks: Sequence[Any], dtype: Any) -> Form:
        if len(chunks) != len(indices):
            raise InputError(f"{called}: chunks has {len(chunks)} entries for a result of {len(indices)} axes.")
        count = [len(self.grid[i]) if i >= 0 else 1 for i in indices]
        sizes = [(given,) * n if isinstance(given, int) else tuple(given) for given, n in zip(chunks, count, strict=True)]
        return Form(tuple(indices), tuple(sizes), dtype)

    def _sizes(self, axis: int, index: int, first: ArraySpec) -> tuple[int, ...]:
        """Return the block lengths of the result along an axis."""
        if index < 0:
            return (first.shape[axis],)
        place = [sizes[0] for sizes in self.grid]
        return tuple([self._block((*place[:index], n, *place[index + 1 :])).shape[axis] for n in self.grid[index]])

    def _block(self, sizes: tuple[int, ...]) -> ArraySpec:
        """Return the shape and dtype of the result for given block lengths."""
        if sizes not in self.known:
            self.known[sizes] = self._result_of(sizes)
        return self.known[sizes]

    def _result_of(self, sizes: tuple[int, ...]) -> ArraySpec:
        specs = []
        for a, form in zip(self.arrays, self.forms, strict=True):
            shape = shape_of(a)
            if form is not None:
                shape = tuple([1 if own == (1,) else sizes[i] for i, own in zip(form.indices, form.sizes, strict=True)])
            specs.append(ArraySpec(shape, dtype_of(a)))
        try:
            (result,) = trace("map_blocks", self.flat, specs).results
        except (AbstractValueError, ConversionError, UnsupportedError):
            with np.errstate(all="ignore"):
                (found,) = self.flat(*map(stand_in, specs))
            return spec_of(found)
        return result
