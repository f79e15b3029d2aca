"""What an index is made of, what shape it reads, and adding pieces at the places it names: the parts that know no primitive."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError
from functad.expressions.spec import ArraySpec, dtype_of, stand_in
from functad.places import here
from functad.primitives.operands import as_operand, has_array_api_alone, innermost, is_traced, numpy_values

Shape = tuple[int, ...]

_ndarray = np.ndarray
_PLAIN = (int, type(None), type(Ellipsis))
_WHOLE = slice(None)
_INVALID = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
)


class FloatIndexError(ConversionError, IndexError):
    """A Tensor of floats was used as an index of another."""


# What an index is made of


def plain_index(index: Any) -> Any:
    """Return an index with Python integers, slices of such, `None`, `Ellipsis` and arrays in it, and Tensors where it has them.

    Raises:
        AbstractValueError: a mask is an abstract Tensor, so that the shape of the result is unknown.
        FloatIndexError: a Tensor of floats is no index.
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
        try:
            return slice(*[bound if bound is None else operator.index(bound) for bound in (start, stop, step)])
        except AbstractValueError:
            raise AbstractValueError(
                f"a slice whose bounds are Tensors without known values, at {here()}: so its length is not known either. "
                f"x[i + np.arange(n)] reads, or is written to at, n places from i on."
            ) from None
    if kind in _PLAIN or kind is bool:
        return part
    if kind is _ndarray:
        return bool(part) if part.ndim == 0 and part.dtype == np.bool_ else part
    if issubclass(type(part), (np.integer, np.bool_)):
        return part.item()
    if kind is list or kind is tuple:
        if {*map(type, part)} == {int}:
            return np.array(part)
        part = as_operand(part)
        if part.size == 0 and part.dtype.kind == "f":
            return part.astype(np.intp)  # NumPy takes an empty list for integers
    if is_traced(part):
        return _tensor_part(part)
    if has_array_api_alone(kind):
        return _plain_part(numpy_values(part, "indexing"))
    if hasattr(part, "dtype") and hasattr(part, "__array_function__"):
        return part  # an array of another library, as the values are then
    if hasattr(part, "__index__") and not hasattr(part, "__array__"):
        return operator.index(part)
    return _places_in(part)


def _places_in(part: Any) -> Any:
    """Return a range, an index of pandas, or whatever else becomes an array, as the array that NumPy makes of it."""
    try:
        places = np.asarray(part)
    except (TypeError, ValueError):
        raise IndexError(_INVALID) from None
    if places.size == 0 and places.ndim and places.dtype.kind == "f":
        return places.astype(np.intp)
    if places.dtype.kind not in "biu":
        raise IndexError(_INVALID)
    return _plain_part(places)


def _tensor_part(part: Any) -> Any:
    """Return a Tensor that can be an index; the value of a mask, of which there is no derivative, if it is known.

    Raises:
        AbstractValueError: the value of a mask is not known.
        FloatIndexError: it is a Tensor of floats.
    """
    kind = part.dtype.kind
    if kind == "b" and not isinstance(inner := innermost(part), ArraySpec):
        return _plain_part(inner)
    if kind == "b":
        raise AbstractValueError(
            f"indexing with a boolean Tensor of which only {part.spec} is known, at {here()}: an abstract trace has no values, "
            f"and the shape of the result depends on them. Use np.where(mask, x, 0), which keeps the shape."
        )
    if kind not in "iu":
        raise FloatIndexError(
            f"{_INVALID}, and a Tensor of {part.dtype} is none, at {here()}: an index has no derivative. "
            f"Use functad.stop_gradient(t).astype(int), or np.interp to read between places."
        )
    return part


PART, PLACES, WIDENS, OTHER = "part", "places", "widens", "other"


def way_of_reading(index: Any) -> str:
    """Return how an index reads: a `PART` by integers and slices of such, at `PLACES` that arrays give, or all that `WIDENS`.

    `OTHER` is any other one, which may still be as simple when `plain_index` has seen to it.
    """
    if type(index) is not tuple:
        return OTHER
    found = WIDENS
    for part in index:
        if part is None:
            continue
        kind = type(part)
        if kind is slice:
            if part.start is None and part.stop is None and part.step is None:
                continue
            if type(part.start) not in _PLAIN or type(part.stop) not in _PLAIN or type(part.step) not in _PLAIN:
                return OTHER
            found = PART if found is WIDENS else found
        elif kind is int:
            found = PART if found is WIDENS else found
        elif kind is _ndarray and part.ndim:
            found = PLACES
        elif part is not Ellipsis:
            return OTHER
    return found


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


def never_repeats(index: Any) -> bool:
    """Say whether an index has no arrays but boolean masks, and so names each element once at most."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is int or kind is slice or part is None or part is Ellipsis or kind is bool:
            continue
        if getattr(part, "dtype", None) != np.bool_:
            return False
    return True


# The shape of what is read


def shape_widened(shape: Shape, index: tuple[Any, ...]) -> Shape | None:
    """Return the shape of `a[index]` if the index only adds axes, as `a[:, None]` does, so that all is read: a reshape."""
    dims: list[int] = []
    axis = 0
    for number, part in enumerate(index):
        if part is None:
            dims.append(1)
            continue
        if part is Ellipsis:
            stop = len(shape) - sum(type(later) is slice for later in index[number + 1 :])
        elif type(part) is slice and part == _WHOLE:
            stop = axis + 1
        else:
            return None
        dims.extend(shape[axis:stop])
        axis = stop
    if axis > len(shape):
        return None  # too many indices; NumPy says so
    return (*dims, *shape[axis:])


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
    if not np.size(part):
        return
    least, most = np.min(part), np.max(part)
    n = shape[axis]
    if least < -n or most >= n:
        raise IndexError(f"index {most if most >= n else least} is out of bounds for axis {axis} with size {n}")


def array_axes(index: Any, ndim: int) -> tuple[int, int, bool]:
    """Return where the axes lie that the arrays in an index make, in what it reads from an array with so many axes.

    Returns:
        The first of these axes, how many there are, and whether they come first because the arrays do not stand side by side.
    """
    place = before = 0
    places: list[int] = []
    shapes: list[Shape] = []
    for number, part in enumerate(_complete(index, ndim)):
        if part is None or type(part) is slice:
            before += 1
        elif part is not Ellipsis:
            place = place if places else before
            places.append(number)
            shapes.append((1,) * len(_shape_read(part)))
    separate = bool(places) and places[-1] - places[0] >= len(places)
    return 0 if separate else place, max(map(len, shapes), default=0), separate


# Adding pieces


def add_at(target: Any, index: Any, piece: Any) -> None:
    """Add a piece to the elements of `target` at an index, in place; repeated elements are added to repeatedly."""
    if type(index) is int or is_basic(index):
        view = target[index]
        if type(view) is _ndarray:
            view += piece  # `target[index] += piece` would then write the view onto itself
        else:
            target[index] = view + piece
    elif never_repeats(index):
        target[index] += piece
    else:
        _add_repeatedly(target, index, piece)


_MANY = 1024
"""From so many elements on it is worth while to tell where each of them lies, see `_add_repeatedly`."""


def _add_repeatedly(target: Any, index: Any, piece: Any) -> None:
    """`np.add.at`, whose fast way is that of one array of integers on one axis: 4 ns an element instead of 10 to 25.

    Larger pieces are brought to that case, if the places can be told without more work than that saves: that takes 20 us.
    """
    parts = index if type(index) is tuple else (index,)
    if type(target) is not _ndarray:
        np.add.at(target, index, piece)
        return
    if np.size(piece) >= _MANY and target.ndim > 1 and target.flags.c_contiguous:
        places = _places(target, parts, np.size(piece))
        if places is not None:
            if np.shape(piece) != places.shape:
                piece = np.broadcast_to(piece, places.shape)
            np.add.at(target.reshape(-1), places.reshape(-1), piece.reshape(-1))
            return
    one = len(parts) == 1
    shape = (*parts[0].shape, *target.shape[1:]) if one and parts[0].dtype.kind in "iu" else target[index].shape
    # NumPy 2.4 reads beyond the end of a piece that it broadcasts along a vector: np.add.at(np.zeros(3), [[0], [1]], [1.0])
    if np.shape(piece) != shape and np.ndim(piece) <= len(shape):
        piece = np.broadcast_to(piece, shape)
    np.add.at(target, parts[0] if one else index, piece)


def _places(target: Any, parts: tuple[Any, ...], size: int) -> Any:
    """Return where in memory an index reads, counted in elements; `None` if that takes long to find out."""
    places: Any = 0
    for part, n in zip(parts, target.shape, strict=False):
        if type(part) is not int and (type(part) is not _ndarray or part.dtype.kind not in "iu"):
            if target.size <= 4 * size:
                return np.arange(target.size).reshape(target.shape)[parts]
            return None
        if type(part) is _ndarray:
            part = part.astype(np.intp)
            part[part < 0] += n
        places = places * n + (part if type(part) is _ndarray or part >= 0 else part + n)
    rest = target.shape[len(parts) :]
    if not rest:
        return places
    row = math.prod(rest)
    return (places[..., None] * row + np.arange(row)).reshape((*np.shape(places), *rest))
