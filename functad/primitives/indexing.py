"""Reading by index, and its transpose: adding pieces at places of an array of zeros.

An index is data where it can be: integers, slices, arrays of integers or booleans stand in the parameter `index` of `getitem`.
Arrays of integers that are Tensors themselves (those of an abstract trace) are arguments of a second primitive, `gather`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, UnsupportedError, here
from functad.expressions.spec import ArraySpec, dtype_of, spec_of, stand_in
from functad.primitives.kinds import general, linear
from functad.primitives.operands import as_operand, is_traced, zeros_for
from functad.primitives.primitive import Primitive

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]
Shape = tuple[int, ...]

_ndarray = np.ndarray
_PLAIN = (int, type(None), type(Ellipsis))
_INVALID = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
)


def get_item(x: Any, index: Any) -> Any:
    """Return `x[index]` for a Tensor, or for an array and an index with Tensors in it."""
    index = plain_index(index)
    return gather(x, index) if holds_tensors(index) else GETITEM(x, index=index)


# What an index is made of


def plain_index(index: Any) -> Any:
    """Return an index with Python integers, slices of such, `None`, `Ellipsis` and arrays in it, and Tensors where it has them.

    Raises:
        AbstractValueError: a mask is an abstract Tensor, so that the shape of the result is unknown.
        IndexError: a Tensor of floats is no index.
    """
    if type(index) is tuple:
        for part in index:
            if type(part) is not int:
                return tuple([_plain_part(part) for part in index])
        return index
    return _plain_part(index)


def _plain_part(part: Any) -> Any:
    kind = type(part)
    if kind is slice:
        start, stop, step = part.start, part.stop, part.step
        if type(start) in _PLAIN and type(stop) in _PLAIN and type(step) in _PLAIN:
            return part
        return slice(*[bound if bound is None else operator.index(bound) for bound in (start, stop, step)])
    if kind in _PLAIN or kind is bool:
        return part
    if kind is _ndarray:
        return bool(part) if part.ndim == 0 and part.dtype == np.bool_ else part
    if isinstance(part, (np.integer, np.bool_)):
        return part.item()
    if kind is list or kind is tuple:
        if {*map(type, part)} == {int}:
            return np.array(part)
        part = as_operand(part)
        if part.size == 0 and part.dtype.kind == "f":
            return part.astype(np.intp)  # NumPy takes an empty list for integers
    if is_traced(part):
        _check_tensor(part)
    elif not hasattr(part, "dtype"):
        if not hasattr(part, "__index__"):
            raise IndexError(_INVALID)
        return operator.index(part)
    return part


def _check_tensor(part: Any) -> None:
    """Raise unless a Tensor can be an index."""
    kind = part.dtype.kind
    if kind == "b":
        raise AbstractValueError(
            f"indexing with a boolean Tensor of which only {part.spec} is known, at {here()}: an abstract trace has no values, "
            f"and the shape of the result depends on them. Use np.where(mask, x, 0), which keeps the shape."
        )
    if kind not in "iu":
        raise IndexError(_INVALID)


def holds_tensors(index: Any) -> bool:
    """Say whether there are Tensors in an index that `plain_index` returned."""
    if type(index) is tuple:
        return any(map(is_traced, index))
    return is_traced(index)


def is_basic(index: Any) -> bool:
    """Say whether an index is made of integers, slices, `newaxis` and `Ellipsis`, so that it reads a view or an element."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is not int and kind is not slice and part is not None and part is not Ellipsis:
            return False
    return True


def _never_repeats(index: Any) -> bool:
    """Say whether an index has no arrays but boolean masks, and so names each element once at most."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is int or kind is slice or part is None or part is Ellipsis or kind is bool:
            continue
        if getattr(part, "dtype", None) != np.bool_:
            return False
    return True


# The shape of what is read


def indexed_shape(shape: Shape, index: Any) -> Shape:
    """Return the shape of `a[index]` for an array of the given shape; arrays in the index may be specs.

    Nothing is allocated. What arrays read comes first unless they stand side by side (NumPy's own rule).
    """
    if is_basic(index):
        return np.shape(stand_in(ArraySpec(shape, np.dtype(np.bool_)))[index])
    dims: list[int] = []
    read: list[tuple[Any, int]] = []
    places: list[int] = []
    place = axis = 0
    for number, part in enumerate(_complete(index, len(shape))):
        if part is None:
            dims.append(1)
        elif type(part) is slice:
            dims.append(len(range(*part.indices(shape[axis]))))
        elif part is not Ellipsis:
            place = place if places else len(dims)
            places.append(number)
            read.append((part, axis))
        axis += _axes_taken(part)
    if places[-1] - places[0] >= len(places):
        place = 0
    found = np.broadcast_shapes(*[_shape_read(part) for part, _ in read])
    for part, axis in read:
        if 0 not in found or dtype_of(part).kind == "b" or np.ndim(part) == 0:  # NumPy lets arrays pass that read nothing
            _check_bounds(part, shape, axis)
    dims[place:place] = found
    return tuple(dims)


def _complete(index: Any, ndim: int) -> list[Any]:
    """Return the parts of an index with a slice for each axis that an ellipsis stands for, or that is not mentioned."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(map(_axes_taken, parts))
    if taken > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed")
    whole: list[Any] = [slice(None)] * (ndim - taken)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = dots[0] if dots else len(parts)
    parts[place : place + 1] = whole or [Ellipsis]  # it separates what is left and right of it even if it stands for no axis
    return parts


def _axes_taken(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return len(part.shape) if hasattr(part, "dtype") and part.dtype == np.bool_ else 1


def _shape_read(part: Any) -> Shape:
    """Return the shape of what an integer, a boolean, or an array of such reads."""
    if isinstance(part, bool):
        return (int(part),)
    if isinstance(part, ArraySpec):
        return part.shape
    if dtype_of(part).kind not in "biu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return (int(np.count_nonzero(part)),) if dtype_of(part).kind == "b" else np.shape(part)


def _check_bounds(part: Any, shape: Shape, axis: int) -> None:
    """Raise NumPy's error if part of an index reaches beyond the array."""
    if isinstance(part, (bool, ArraySpec)):
        return
    if dtype_of(part).kind == "b":
        for i, (n, m) in enumerate(zip(shape[axis:], part.shape, strict=False), axis):
            if m not in (n, 0):
                raise IndexError(
                    f"boolean index did not match indexed array along axis {i}; size of axis is {n} but size of "
                    f"corresponding boolean axis is {m}"
                )
        return
    least, most = np.min(part, initial=0), np.max(part, initial=-1)
    n = shape[axis]
    if least < -n or most >= n:
        raise IndexError(f"index {most if most >= n else least} is out of bounds for axis {axis} with size {n}")


# Adding pieces


def add_at(target: Any, index: Any, piece: Any) -> None:
    """Add a piece to the elements of `target` at an index, in place; repeated elements are added to repeatedly."""
    if type(index) is int or is_basic(index):
        view = target[index]
        if type(view) is _ndarray:
            view += piece  # `target[index] += piece` would then write the view onto itself
        else:
            target[index] = view + piece
    elif _never_repeats(index):
        target[index] += piece
    else:
        _add_repeatedly(target, index, piece)


def _add_repeatedly(target: Any, index: Any, piece: Any) -> None:
    """`np.add.at`, whose fast way is that of one array of integers on one axis: 2 ns an element instead of 10.

    Larger pieces are brought to that case: rows of a matrix, and whatever is not small beside the target.
    """
    size = np.size(piece)
    if type(index) is tuple and len(index) == 1:
        index = index[0]
    if target.ndim == 1 or size < 64 or type(target) is not _ndarray or not target.flags.c_contiguous:
        np.add.at(target, index, piece)
        return
    if type(index) is _ndarray:
        n, row = len(target), target.size // max(len(target), 1)
        rows = index.astype(np.intp)
        places = np.where(rows < 0, rows + n, rows)[..., None] * row + np.arange(row)
    elif target.size <= 4 * size:
        places = np.arange(target.size).reshape(target.shape)[index]
    else:
        np.add.at(target, index, piece)
        return
    np.add.at(target.reshape(-1), places.reshape(-1), piece.reshape(-1))


# Reading at places that are known while tracing


def _getitem(a: Any, *, index: Any) -> Any:
    return a[index]


def _getitem_spec(a: Any, *, index: Any) -> ArraySpec:
    spec = spec_of(a)
    if spec.weak:
        raise TypeError(f"a Python {type(spec.dtype.type().item()).__name__} cannot be indexed")
    return ArraySpec(indexed_shape(spec.shape, index), spec.dtype)


def _getitem_samples(array: Any) -> Calls:
    """Return reads by every kind of index and their mixtures; `[1, -1, 1]` reads an element twice."""
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


GETITEM = linear(
    get_item,
    lambda g, index, a_shape, a_dtype: scatter(g, indices=(index,), shape=a_shape, dtype=a_dtype),
    compute=_getitem,
    spec=_getitem_spec,
    samples=_getitem_samples,
    name="getitem",
    gather=True,
    internal=True,
    doc="d(x[i]) = dx[i]; the cotangents of an element that is read repeatedly add up",
)


def scatter(*pieces: Any, indices: tuple[Any, ...], shape: Shape, dtype: Any) -> Any:
    """Return zeros of a shape and dtype to which each piece has been added at its index."""
    return SCATTER(*pieces, indices=indices, shape=shape, dtype=dtype)


def _scatter(*pieces: Any, indices: tuple[Any, ...], shape: Shape, dtype: Any) -> Any:
    total = zeros_for(shape, dtype, pieces[0])
    for index, piece in zip(indices, pieces, strict=True):
        add_at(total, index, piece)
    return total


def _scatter_spec(*pieces: Any, indices: tuple[Any, ...], shape: Shape, dtype: Any) -> ArraySpec:
    return ArraySpec(shape, dtype)


def _scatter_samples(array: Any) -> Calls:
    dtype = array().dtype
    overlapping = (slice(0, 2), np.array([2, 2, 0]), np.array([True, False, True]))
    return [
        ((array(), array(2)), {"indices": (0, slice(1, 3)), "shape": (3,), "dtype": dtype}),
        ((array(2), array(3), array(2)), {"indices": overlapping, "shape": (3,), "dtype": dtype}),
        ((array(2, 2),), {"indices": ((slice(None), np.array([1, 1])),), "shape": (2, 3), "dtype": dtype}),
        ((array(),), {"indices": ((),), "shape": (), "dtype": dtype}),
    ]


SCATTER = linear(
    scatter,
    lambda g, indices: [g[index] for index in indices],
    compute=_scatter,
    spec=_scatter_spec,
    samples=_scatter_samples,
    internal=True,
    doc="zeros to which pieces are added; the transpose of reading by index",
)


# Reading at places that are Tensors

Template = tuple[int | str | None, ...]
"""An index as hashable data: `"i"` stands for the next array, `"1:3"` for a slice, `"..."` for an ellipsis."""


def gather(a: Any, index: Any) -> Any:
    """Return `a[index]`, where some of the arrays in the index are Tensors of integers."""
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
    return GATHER(as_operand(a), *arrays, template=tuple(template))


def _fill(template: Template, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index that a template stands for."""
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


def _gather(a: Any, /, *indices: Any, template: Template) -> Any:
    return a[_fill(template, indices)]


def _gather_spec(a: Any, *indices: Any, template: Template) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec(indexed_shape(spec.shape, _fill(template, tuple(map(spec_of, indices)))), spec.dtype)


def _gather_samples(array: Any) -> Calls:
    repeated = np.array([1, -1, 1])
    return [
        ((array(3), repeated), {"template": ("i",)}),
        ((array(2, 3, 2), np.array([[1], [0]]), np.array([0, 1, 1])), {"template": ("i", "::-1", None, "i")}),
        ((array(2, 3), np.array(1)), {"template": ("...", "i", 0)}),
    ]


GATHER: Primitive = general(
    gather,
    lambda g, rest, template, a_shape, a_dtype: ADD_PIECE(g, *rest, template=template, shape=a_shape, dtype=a_dtype),
    *[None] * 64,  # NumPy has at most 64 axes, and so many arrays at most in an index
    compute=_gather,
    spec=_gather_spec,
    samples=_gather_samples,
    jvps=(lambda t, rest, template: GATHER(t, *rest, template=template),),
    internal=True,
    doc="as getitem, with arrays of integers as arguments",
)


def add_piece(piece: Any, index: Any, shape: Shape, dtype: Any) -> Any:
    """Return zeros of a shape and dtype to which a piece has been added at an index."""
    return scatter(piece, indices=(index,), shape=shape, dtype=dtype)


def _add_piece(g: Any, /, *indices: Any, template: Template, shape: Shape, dtype: Any) -> Any:
    return _scatter(g, indices=(_fill(template, indices),), shape=shape, dtype=dtype)


def _add_piece_spec(g: Any, *indices: Any, template: Template, shape: Shape, dtype: Any) -> ArraySpec:
    return ArraySpec(shape, dtype)


ADD_PIECE: Primitive = general(
    add_piece,
    lambda g, rest, template: GATHER(g, *rest, template=template),
    *[None] * 64,
    compute=_add_piece,
    spec=_add_piece_spec,
    samples=lambda array: [((array(3), np.array([1, -1, 1])), {"template": ("i",), "shape": (3,), "dtype": array().dtype})],
    jvps=(lambda t, rest, params: ADD_PIECE(t, *rest, **params),),
    internal=True,
    doc="the transpose of gather",
)
