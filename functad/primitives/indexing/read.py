"""Reads by index, and their transpose: addition of pieces to an array of zeros.

An index with known values is the parameter `index` of `getitem`: integers, slices, arrays of integers or booleans. Index
arrays that are Tensors, for example in an abstract trace, are arguments of a second primitive, `gather`.

NumPy needs the integer values of an index, and a batched Tensor has no single value. A plain array that is indexed with a
batched Tensor therefore raises an error that states the fix. The arrays that `vmap` and control flow pass to a function become
`IndexableArray`s, and accept the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import Params, Values, Which, everywhere, padded, spread_out
from functad.primitives.entry import ENTRIES, PULL_READ, Primitive
from functad.primitives.indexing.index_map import (
    IndexMap,
    Shape,
    add_at,
    holds_tensors,
    indexed_shape,
    is_basic,
    plain_index,
)
from functad.primitives.kinds import general, linear
from functad.primitives.operands import as_operand, is_traced, zeros_for
from functad.process import context_variable
from functad.trees import flatten


def get_item(x: Any, index: Any) -> Any:
    """Return `x[index]` for a Tensor, or for an array and an index that contains Tensors."""
    index = plain_index(index, x)
    return gather(x, index) if holds_tensors(index) else GETITEM(x, index=index)


def as_number(a: Any) -> Any:
    """Return an array of shape () as a number, like most NumPy functions. Other values are returned unchanged."""
    return a if shape_of(a) else get_item(a, ())


# Indices with known values


def _getitem_spec(a: Any, *, index: Any) -> ArraySpec:
    spec = spec_of(a)
    if spec.weak:
        raise TypeError(f"a Python {type(spec.dtype.type().item()).__name__} cannot be indexed")
    return ArraySpec(indexed_shape(spec.shape, index), spec.dtype)


def _getitem_samples(array: Any) -> Calls:
    """Return reads with every kind of index and combinations of them; `[1, -1, 1]` reads an element twice."""
    repeated, column = np.array([1, -1, 1]), np.array([[0], [1]])
    indices: list[tuple[Shape, Any]] = [
        ((3,), 1),
        ((3,), -1),
        ((5,), slice(None, None, -2)),
        ((3,), slice(2, 2)),
        ((), ()),
        ((), None),
        ((), (None, Ellipsis)),
        ((2, 3), (1, 2)),
        ((2, 3), (slice(None), None, 1)),
        ((2, 3), (Ellipsis, slice(0, 2))),
        ((0, 2), (slice(None), 1)),
        ((3,), repeated),
        ((3,), np.array(2)),
        ((3,), np.zeros((0, 2), np.intp)),
        ((3, 2), repeated),
        ((2, 3), (column, repeated)),
        ((2, 3, 2), (slice(None), repeated, 0)),
        ((2, 3, 2), (1, slice(None), np.array([1, 0, 1]))),
        ((2, 3, 2), (Ellipsis, None, np.array([1, 0, 1]))),
        ((3,), np.array([True, False, True])),
        ((2, 3), np.array([[True, False, True], [False, False, True]])),
        ((2, 3), (slice(None), np.array([False, True, True]))),
        ((2, 3), (np.array([True, True]), np.array([2, 0]))),
        ((3,), True),
    ]
    return [((array(*shape),), {"index": index}) for shape, index in indices]


def _behind(index: Any) -> tuple[Any, ...]:
    """Return the index into a batch that applies `index` to each example."""
    return (slice(None), *(index if type(index) is tuple else (index,)))


def batch_axis(shape: Shape, index: Any) -> int:
    """Return the batch axis of the result of an index that reads the first axis of a batch of the given shape as a whole."""
    return 0 if is_basic(index) else IndexMap.of(shape, index).along(0) or 0


def _getitem_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Index each example. If the index arrays are not adjacent, their axes come first and the batch axis is moved."""
    (a,), index = values, _behind(params["index"])
    out = primitive(a, index=index)
    axis = batch_axis(shape_of(a), index)
    return np.moveaxis(out, axis, 0) if axis else out


def _is_array(params: Params) -> bool:
    """Return `True` if the index contains an ellipsis: a result of shape `()` is then an array, not a number."""
    index = params["index"]
    return any(part is Ellipsis for part in index) if type(index) is tuple else index is Ellipsis


GETITEM = linear(
    get_item,
    lambda g, index, a_shape, a_dtype: scatter(g, indices=(index,), shape=a_shape, dtype=a_dtype),
    compute=lambda a, *, index: a[index],
    spec=_getitem_spec,
    samples=_getitem_samples,
    name="getitem",
    special=PULL_READ,
    internal=True,
    doc="d(x[i]) = dx[i]; the cotangents of an element that is read repeatedly add up",
    views=lambda params: "always" if is_basic(params["index"]) else "",
    jvps=(lambda t, index, a_shape, a_dtype: t[index],),
    batch=_getitem_batch,
    zero_d=_is_array,
    dependence="moved",
)


def scatter(*pieces: Any, indices: tuple[Any, ...], shape: Shape, dtype: Any) -> Any:
    """Return zeros of the shape and dtype, with each piece added at its index."""
    return SCATTER(*pieces, indices=indices, shape=shape, dtype=dtype)


def _given_spec(*arrays: Any, shape: Shape, dtype: Any, **params: Any) -> ArraySpec:
    return ArraySpec(shape, dtype)


def _scatter(*pieces: Any, indices: tuple[Any, ...], shape: Shape, dtype: Any) -> Any:
    total = zeros_for(shape, dtype, pieces[0])
    for index, piece in zip(indices, pieces, strict=True):
        add_at(total, index, piece)
    return total


def _scatter_samples(array: Any) -> Calls:
    dtype = array().dtype
    overlapping = (slice(0, 2), np.array([2, 2, 0]), np.array([True, False, True]))
    return [
        ((array(), array(2)), {"indices": (0, slice(1, 3)), "shape": (3,), "dtype": dtype}),
        ((array(2), array(3), array(2)), {"indices": overlapping, "shape": (3,), "dtype": dtype}),
        ((array(2, 2),), {"indices": ((slice(None), np.array([1, 1])),), "shape": (2, 3), "dtype": dtype}),
        ((array(),), {"indices": ((),), "shape": (), "dtype": dtype}),
    ]


def _scatter_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    indices, shape = tuple(map(_behind, params["indices"])), (size, *params["shape"])
    pieces = []
    for piece, index in zip(everywhere(values, batched, size), indices, strict=True):
        axis = batch_axis(shape, index)
        pieces.append(np.moveaxis(piece, 0, axis) if axis else piece)
    return primitive(*pieces, indices=indices, shape=shape, dtype=params["dtype"])


SCATTER = linear(
    scatter,
    lambda g, indices: [g[index] for index in indices],
    compute=_scatter,
    spec=_given_spec,
    samples=_scatter_samples,
    internal=True,
    doc="zeros to which pieces are added; the transpose of reading by index",
    batch=_scatter_batch,
    fresh=True,
    dependence="scatter",
)


# Indices that are Tensors

Template = tuple[int | str | None, ...]
"""An index as hashable data: `"i"` is the next index array, `"1:3"` a slice, `"..."` an ellipsis."""


def gather(a: Any, index: Any) -> Any:
    """Return `a[index]` for an index that contains Tensors of integers."""
    template, arrays = taken_apart(index)
    return GATHER(as_operand(a), *arrays, template=template)


def taken_apart(index: Any) -> tuple[Template, list[Any]]:
    """Split an index into its template and its arrays. Masks become integer arrays.

    Raises:
        UnsupportedError: the index contains a single boolean.
    """
    template: list[int | str | None] = []
    arrays: list[Any] = []
    for part in index if type(index) is tuple else (index,):
        if part is None or type(part) is int:
            template.append(part)
        elif part is Ellipsis:
            template.append("...")
        elif type(part) is slice:
            bounds = ["" if bound is None else str(bound) for bound in (part.start, part.stop, part.step)]
            template.append(":".join(bounds).removesuffix(":"))
        elif dtype_of(part).kind != "b":
            template.append("i")
            arrays.append(part)
        elif np.ndim(part) == 0:
            raise UnsupportedError(f"an index with both a Tensor and {part!r} in it, at {here()}. Use None instead of True.")
        else:
            template.extend("i" * part.ndim)
            arrays.extend(part.nonzero())
    return tuple(template), arrays


def fill(template: Template, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index of a template and its arrays."""
    remaining = iter(arrays)
    index: list[Any] = []
    for part in template:
        if part == "i":
            index.append(next(remaining))
        elif part == "...":
            index.append(Ellipsis)
        elif isinstance(part, str):
            index.append(slice(*[int(bound) if bound else None for bound in part.split(":")]))
        else:
            index.append(part)
    return tuple(index)


def add_piece(piece: Any, index: Any, shape: Shape, dtype: Any) -> Any:
    """Return zeros of the shape and dtype, with `piece` added at an index."""
    return scatter(piece, indices=(index,), shape=shape, dtype=dtype)


class BatchedIndex:
    """The index into a batch for an index with arrays that may be batched.

    Attributes:
        indices, template: the index into the array, with the batch axis in front if the array is batched.
        to_front: moves the axes of a read result, so that the batch axis is in front.
        back: moves the axes of a piece to be added at the index; the inverse of `to_front`.
    """

    def __init__(
        self, size: int, arrays: Sequence[Any], batched: Sequence[bool], template: Template, shape: Shape, *, whole: bool
    ) -> None:
        examples = tuple([ArraySpec(shape_of(v)[b:], dtype_of(v)) for v, b in zip(arrays, batched, strict=True)])
        self.indices, self.template = tuple(arrays), template
        if not any(batched):
            self.template = (":", *template)
            self.moves: tuple[Any, Any] = (batch_axis((size, *shape), fill(self.template, examples)), 0)
            return
        *_, first, count = IndexMap.of(shape, fill(template, examples))
        self.indices = tuple([padded(v, count) if b else v for v, b in zip(arrays, batched, strict=True)])
        if not whole:
            self.moves = (first, 0)
            return
        self.template = ("i", *template)
        self.indices = (np.arange(size).reshape(size, *(1,) * count), *self.indices)
        self.moves = (tuple(range(1, 1 + count)), tuple(range(1 + first, 1 + first + count)))

    def to_front(self, out: Any) -> Any:
        """Move the batch axis of a result to the front."""
        return np.moveaxis(out, *self.moves)

    def back(self, piece: Any) -> Any:
        """Return a piece, given with the batch axis in front, with its axes in the order of the index."""
        return np.moveaxis(piece, *self.moves[::-1])


def _gather_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    (a, *arrays), template = values, params["template"]
    index = BatchedIndex(size, arrays, batched[1:], template, shape_of(a)[batched[0] :], whole=batched[0])
    return index.to_front(primitive(a, *index.indices, template=index.template))


GATHER: Primitive = general(
    gather,
    lambda g, rest, template, a_shape, a_dtype: ADD_PIECE(g, *rest, template=template, shape=a_shape, dtype=a_dtype),
    *[None] * 64,  # NumPy allows at most 64 axes, and therefore at most 64 index arrays
    compute=lambda a, /, *indices, template: a[fill(template, indices)],
    spec=lambda a, *indices, template: ArraySpec(
        indexed_shape(shape_of(a), fill(template, tuple(map(spec_of, indices)))), dtype_of(a)
    ),
    samples=lambda array: [
        ((array(3), np.array([1, -1, 1])), {"template": ("i",)}),
        ((array(2, 3, 2), np.array([[1], [0]]), np.array([0, 1, 1])), {"template": ("i", "::-1", None, "i")}),
        ((array(2, 3), np.array(1)), {"template": ("...", "i", 0)}),
    ],
    jvps=(lambda t, rest, template: GATHER(t, *rest, template=template),),
    internal=True,
    doc="as getitem, with arrays of integers as arguments",
    batch=_gather_batch,
    raises=lambda specs, params: (range(1, len(specs)), (specs[0].shape, params["template"])),
    curvature="none",
    dependence="moved",
    passes_nan=(0,),
    reads_all=False,
)


class AtPlaces:
    """A step of a path to a view with integer Tensors in the index: `t[i]` and `t[i, 1:]` are views of `t`.

    A write through such a step records the integers as arguments, because Tensors cannot be parameters of a write.

    Attributes:
        template, arrays: the parts of the index, as returned by `taken_apart`.
    """

    name = "gather"
    multiple = False
    views = "always"

    def __init__(self, template: Template, arrays: Sequence[Any]) -> None:
        self.template = template
        self.arrays = tuple(arrays)

    def __call__(self, a: Any) -> Any:
        """Return the view of a Tensor. For an array, return the view at 0: all integers give the same memory layout."""
        if is_traced(a):
            return GATHER(a, *self.arrays, template=self.template)
        return a[fill(self.template, (0,) * len(self.arrays))]

    def spec(self, a: ArraySpec) -> ArraySpec:
        """Return the shape and dtype of the view."""
        return GATHER.spec(a, *map(spec_of, self.arrays), template=self.template)  # type: ignore[no-any-return]


def _add_piece_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    (piece, *arrays), shape = values, params["shape"]
    index = BatchedIndex(size, arrays, batched[1:], params["template"], shape, whole=True)
    piece = index.back(spread_out(piece, batched[0], size))
    return primitive(piece, *index.indices, template=index.template, shape=(size, *shape), dtype=params["dtype"])


ADD_PIECE: Primitive = general(
    add_piece,
    lambda g, rest, template: GATHER(g, *rest, template=template),
    *[None] * 64,
    compute=lambda g, /, *indices, template, **params: _scatter(g, indices=(fill(template, indices),), **params),
    spec=_given_spec,
    samples=lambda array: [((array(3), np.array([1, -1, 1])), {"template": ("i",), "shape": (3,), "dtype": array().dtype})],
    jvps=(lambda t, rest, params: ADD_PIECE(t, *rest, **params),),
    internal=True,
    doc="the transpose of gather",
    batch=_add_piece_batch,
    raises=lambda specs, params: (range(1, len(specs)), (params["shape"], params["template"])),
    curvature="none",
    dependence="piece",
    passes_nan=(0,),
    reads_all=False,
)


# Plain arrays that are indexed with Tensors

WITHIN_BATCH: ContextVar[bool] = context_variable("within_batch", default=False)
"""`True` while a function runs under `vmap`, at any depth. Only there can the values of index Tensors be unknown."""


class IndexableArray(np.ndarray[Any, Any]):
    """An array that accepts Tensors as indices, and as function arguments on which NumPy does not dispatch.

    Traces never keep an `IndexableArray`, and transforms never return one: `as_plain` converts it back.
    """

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int and _holds_tensors(index):
            return gather(as_plain(self), plain_index(index, self))
        return super().__getitem__(index)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """Return the result of `np.take`."""
        return np.take(self, indices, axis, out, mode)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        tensor = next((leaf for leaf in leaves if is_traced(leaf)), None)
        args, kwargs = structure.unflatten(list(map(as_plain, leaves)))
        writes = function in ENTRIES and ENTRIES[function].in_place  # raises an error if it would write a Tensor
        if tensor is None or writes:
            return indexable(function(*args, **kwargs))
        types = {type(tensor)} | {kind for kind in types if kind is not IndexableArray}
        return tensor.__array_function__(function, types, args, kwargs)


def as_plain(value: Any) -> Any:
    """Return an `IndexableArray` as a plain view. Other values are returned unchanged."""
    return value.view(np.ndarray) if type(value) is IndexableArray else value


def indexable(value: Any) -> Any:
    """Return an array as an `IndexableArray` view. Other values and arrays of shape () are returned unchanged."""
    return value.view(IndexableArray) if type(value) is np.ndarray and value.ndim else value


def handed(leaves: Sequence[Any]) -> Sequence[Any]:
    """Return the leaves that control flow passes to a function. Under `vmap`, arrays become `IndexableArray`s."""
    return [indexable(leaf) for leaf in leaves] if WITHIN_BATCH.get() else leaves


def _holds_tensors(index: Any) -> bool:
    return any(map(is_traced, index)) if type(index) is list else holds_tensors(index)
