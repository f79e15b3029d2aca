"""Block calls: a function applied to each block of chunked arrays, as one operation with cotangents and tangents in blocks.

A call has one index for each axis of its grid of blocks. Arrays in blocks carry some of these indices, in order. Arrays that
every block receives whole carry none. An axis with any other index, such as a batch axis, lies in one chunk. Pullback and
pushforward are block calls too, so derivatives of all orders and all nested transforms reduce to block calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from functad.chunks.compute import is_lazy
from functad.expressions.spec import ArraySpec, dtype_of, is_inexact, shape_of
from functad.primitives.safe import product
from functad.process import setting
from functad.rules.call import Rules, apply
from functad.tracing.ownership import TRUST
from functad.tracing.trace import Recorded
from functad.transforms.forward import with_zeros
from functad.transforms.leaves import pulled, pulled_with_results, push_leaves, replaced
from functad.transforms.vmap import vmap

Flat = Callable[..., Sequence[Any]]
"""A function from arrays to a sequence of arrays."""


class Form(NamedTuple):
    """The layout of an array in the grid of blocks.

    Attributes:
        indices: the index of each axis.
        sizes: the chunk lengths of each axis.
        dtype: the dtype of the elements.
    """

    indices: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return tuple(map(sum, self.sizes))


_APART = 10**6


def own_index(position: int) -> int:
    """Return an index for an axis outside the grid; such an axis lies in one chunk."""
    return -1 - position


class BlockCall:
    """A function that is called for each block.

    Attributes:
        function: the function of the user, for messages.
        flat: the function from the blocks of all arrays to the blocks of all results.
        grid: the block lengths of each axis; 1 for an axis without a length.
        inputs: the form of each array; `None` if every block receives the array whole.
        outputs: the form of each result.
    """

    def __init__(
        self,
        function: Any,
        flat: Flat,
        grid: tuple[tuple[int, ...], ...],
        inputs: Sequence[Form | None],
        outputs: Sequence[Form],
    ) -> None:
        self.function = function
        self.flat = flat
        self.grid = grid
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def __call__(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results; traced Tensors among the arrays make the call one recorded operation."""
        wanted = tuple([i for i, a in enumerate(arrays) if isinstance(a, Recorded) and is_inexact(a)])
        return apply(_Differentiated(self, wanted).rules(), arrays)

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results as lazy arrays."""
        da: Any = import_module("dask.array")
        every, given = tuple(range(len(self.grid))), []
        for a, form in zip(arrays, self.inputs, strict=True):
            if form is not None:
                lazy = a if is_lazy(a) else da.asarray(a)
                given += [lazy if lazy.chunks == form.sizes else lazy.rechunk(form.sizes), form.indices]
            elif is_lazy(a) and a.ndim:
                given += [a.rechunk(a.shape), tuple([own_index(_APART + 100 * len(given) + axis) for axis in range(a.ndim)])]
            else:
                given += [a, () if is_lazy(a) else None]
        sizes = {i: tuple([1] * len(blocks)) for i, blocks in enumerate(self.grid)}
        options = {"align_arrays": False, "dtype": object, "meta": np.empty((0,) * len(every), object)}
        parts = da.blockwise(_InBlock(self.flat), every, *given, adjust_chunks=sizes, **options)
        return tuple([self._result(da, parts, every, k) for k in range(len(self.outputs))])

    def _result(self, da: Any, parts: Any, every: tuple[int, ...], k: int) -> Any:
        """Return result `k`, taken from the tuples that the blocks return."""
        form = self.outputs[k]
        indices = form.indices
        by_index = dict(zip(indices, form.sizes, strict=True))
        return da.blockwise(
            _Result(k),
            indices,
            parts,
            every,
            new_axes={i: sizes for i, sizes in by_index.items() if i not in every},
            adjust_chunks={i: sizes for i, sizes in by_index.items() if i in every},
            align_arrays=False,
            dtype=form.dtype,
            meta=np.empty((0,) * len(indices), form.dtype),
        )

    def specs(self) -> tuple[ArraySpec, ...]:
        """Return the shapes and dtypes of the results."""
        return tuple([ArraySpec(form.shape, np.dtype(form.dtype)) for form in self.outputs])

    def has_numbers(self) -> bool:
        """Return `True` if the call has one result with one real number for each block."""
        (form, *others) = self.outputs
        ones = all(set(sizes) == {1} for sizes in form.sizes)
        return not others and ones and form.indices == tuple(range(len(self.grid))) and np.dtype(form.dtype).kind == "f"

    def pulled(self, arrays: Sequence[Any], wanted: tuple[int, ...], *, at_once: bool) -> BlockCall:
        """Return the call that computes, for each block, the cotangents of some arrays.

        Args:
            arrays: the arguments of this call.
            wanted: the positions of the arrays to differentiate with respect to.
            at_once: if `True`, the new call returns the result and the cotangents for an output cotangent of 1. Otherwise it
                takes the cotangents of all results after its arrays.
        """
        forms = [self._part_of(i, arrays[i]) for i in wanted]
        leading = [len(form.indices) - len(shape_of(arrays[i])) for i, form in zip(wanted, forms, strict=True)]
        if at_once:
            one = np.ones((1,) * len(self.grid), self.outputs[0].dtype)
            fused = _ValueAndPull(self.flat, len(arrays), wanted, leading, one)
            return BlockCall(self.function, fused, self.grid, self.inputs, (*self.outputs, *forms))
        pull = _Pull(self.flat, len(arrays), wanted, leading)
        return BlockCall(self.function, pull, self.grid, (*self.inputs, *self.outputs), forms)

    def _part_of(self, position: int, array: Any) -> Form:
        """Return the form of the cotangents that all blocks compute for one array: side by side in the grid."""
        form, every = self.inputs[position], range(len(self.grid))
        if form is None:
            shape = shape_of(array)
            own = tuple(map(own_index, range(len(shape))))
            return Form((*every, *own), (*self._ones(every), *[(n,) for n in shape]), dtype_of(array))
        missing = [i for i in every if i not in form.indices]
        repeated = self._repeated(form)
        sizes = [self._ones([i])[0] if i in repeated else own for i, own in zip(form.indices, form.sizes, strict=True)]
        return Form((*missing, *form.indices), (*self._ones(missing), *sizes), form.dtype)

    def _repeated(self, form: Form) -> list[int]:
        """Return the indices along which several blocks receive the same block of an array, since its length there is 1."""
        return [i for i, own in zip(form.indices, form.sizes, strict=True) if i >= 0 and len(self.grid[i]) > len(own)]

    def _ones(self, indices: Sequence[int]) -> list[tuple[int, ...]]:
        return [(1,) * len(self.grid[i]) for i in indices]

    def summed(self, part: Any, position: int, shape: tuple[int, ...]) -> Any:
        """Return the cotangent of an array from `part`, the cotangents of all blocks."""
        form, grid = self.inputs[position], len(self.grid)
        if form is None:
            return np.sum(part, axis=tuple(range(grid))) if grid else part
        missing = grid - sum([i >= 0 for i in form.indices])
        same = tuple([missing + form.indices.index(i) for i in self._repeated(form)])
        part = np.sum(part, axis=same, keepdims=True) if same else part
        return np.sum(part, axis=tuple(range(missing))) if missing else part


class _Differentiated:
    """A block call with its rules.

    Attributes:
        call: the block call.
        wanted: the positions of the arrays to differentiate with respect to.
    """

    def __init__(self, call: BlockCall, wanted: tuple[int, ...]) -> None:
        self.call = call
        self.wanted = wanted
        # One task computes a number and its gradient. For arrays in blocks, the gradient would be as large as the arrays.
        self.at_once = call.has_numbers() and all(call.inputs[i] is None for i in wanted)

    def rules(self) -> Rules:
        """Return the rules of the call."""
        own = self.value, self.forward, self.backward, self.push, self.batch, self.spec
        return Rules(self.call.function, *own, name="map_blocks", loops=True)

    def value(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the results."""
        return self.call.value(*arrays)

    def spec(self, *specs: ArraySpec) -> tuple[ArraySpec, ...]:
        """Return the shapes and dtypes of the results."""
        return self.call.specs()

    def forward(self, *arrays: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the results and the residuals: the arrays, or the cotangents for an output cotangent of 1."""
        if not self.at_once:
            return self.call(arrays), (arrays, None)
        out, *parts = self.call.pulled(arrays, self.wanted, at_once=True)(arrays)
        return (out,), (arrays, tuple(parts))

    def backward(self, kept: Any, gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arrays."""
        arrays, parts = kept
        if parts is None:
            parts = self.call.pulled(arrays, self.wanted, at_once=False)([*arrays, *gs])
        else:
            (g,) = gs
            parts = [product(g[(..., *[None] * (len(shape_of(p)) - len(shape_of(g))))], p) for p in parts]
        found = [self.call.summed(p, i, shape_of(arrays[i])) for p, i in zip(parts, self.wanted, strict=True)]
        return replaced([None] * len(arrays), self.wanted, found)

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        call = self.call
        moving = tuple([i for i, t in enumerate(ts) if t is not None and is_inexact(arrays[i])])
        inputs = (*call.inputs, *[call.inputs[i] for i in moving])
        pushed = BlockCall(call.function, _Push(call.flat, len(arrays), moving), call.grid, inputs, call.outputs)
        return list(pushed([*arrays, *[ts[i] for i in moving]]))

    def batch(self, size: int, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
        """Return the results of all batch examples; the batch axis lies in one chunk."""
        call, taken = self.call, [i for form in (*self.call.inputs, *self.call.outputs) if form for i in form.indices]
        own = min([-1000, *taken]) - 1

        def with_axis(form: Form) -> Form:
            return Form((own, *form.indices), ((size,), *form.sizes), form.dtype)

        inputs = [form and with_axis(form) if flag else form for form, flag in zip(call.inputs, batched, strict=True)]
        every = _Every(call.flat, tuple([0 if flag else None for flag in batched]), size)
        return BlockCall(call.function, every, call.grid, inputs, list(map(with_axis, call.outputs)))(values)


class _InBlock:
    """A function of blocks as Dask calls it. Blocks are read-only, so that checks for modified arrays can be skipped."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat

    def __call__(self, *blocks: Any) -> tuple[Any, ...]:
        with setting(TRUST, True):
            return tuple(self.flat(*map(_read_only, blocks)))


class _Result:
    """Take one result from the results of a block."""

    def __init__(self, position: int) -> None:
        self.position = position

    def __call__(self, results: Any) -> Any:
        return _single(results)[self.position]


def _single(block: Any) -> Any:
    """Unwrap a block from the lists that Dask adds, one for each axis that the result lacks."""
    while type(block) is list:
        (block,) = block
    return block


def _read_only(block: Any) -> Any:
    """Return a block as a read-only array."""
    block = _single(block)
    if type(block) is np.ndarray and block.flags.writeable:
        block = block.view()
        block.flags.writeable = False
    return block


class _Pull:
    """The pullback of a function of blocks: takes blocks and output cotangents, returns the cotangents of some blocks.

    Attributes:
        flat: the function of blocks.
        count: the number of its blocks.
        wanted: the positions of the blocks to differentiate with respect to.
        leading: for each of these, the number of grid axes that its array lacks.
    """

    def __init__(self, flat: Flat, count: int, wanted: tuple[int, ...], leading: Sequence[int]) -> None:
        self.flat = flat
        self.count = count
        self.wanted = wanted
        self.leading = leading

    def __call__(self, *given: Any) -> list[Any]:
        return self._placed(given, pulled(self.flat, given[: self.count], given[self.count :], self.wanted))

    def _placed(self, arrays: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Return the cotangents (zeros for `None`) with length-1 axes for the grid axes that their arrays lack."""
        every = with_zeros(found, [arrays[i] for i in self.wanted])
        return [np.reshape(ct, (1,) * n + shape_of(ct)) for ct, n in zip(every, self.leading, strict=True)]


class _ValueAndPull(_Pull):
    """The function that returns the result and the cotangents of some blocks for an output cotangent of 1."""

    def __init__(self, flat: Flat, count: int, wanted: tuple[int, ...], leading: Sequence[int], one: Any) -> None:
        super().__init__(flat, count, wanted, leading)
        self.one = one

    def __call__(self, *arrays: Any) -> list[Any]:
        outs, found = pulled_with_results(self.flat, arrays, self.wanted, [self.one])
        return [*outs, *self._placed(arrays, found)]


class _Push:
    """The pushforward of a function of blocks: takes blocks and tangents of some blocks, returns the output tangents."""

    def __init__(self, flat: Flat, count: int, moving: tuple[int, ...]) -> None:
        self.flat = flat
        self.count = count
        self.moving = moving

    def __call__(self, *given: Any) -> list[Any]:
        ts = replaced([None] * self.count, self.moving, given[self.count :])
        return push_leaves(self.flat, given[: self.count], ts)


class _Every:
    """The function of blocks for all examples of a batch."""

    def __init__(self, flat: Flat, axes: tuple[int | None, ...], size: int) -> None:
        self.flat = flat
        self.axes = axes
        self.size = size

    def __call__(self, *arrays: Any) -> list[Any]:
        return list(vmap(lambda *own: list(self.flat(*own)), in_axes=self.axes, axis_size=self.size)(*arrays))
