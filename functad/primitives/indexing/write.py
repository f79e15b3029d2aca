"""Writes into an array as pure functions: they return the array with elements replaced or added to.

`t[i] = v` records `write(t, v)`, and the Tensor then holds the result. A write to a view records a write to the owner of the
memory; `path` lists the operations that read the view from the owner.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import RESHAPE, TRANSPOSE, Calls
from functad.primitives.batching import Params, Values, Which, batch_call, padded, spread_out
from functad.primitives.elementwise.conversion import copy_alike
from functad.primitives.elementwise.selection import kept
from functad.primitives.entry import Composite, Primitive
from functad.primitives.indexing.index_map import add_at, indexed_shape, never_repeats
from functad.primitives.indexing.read import GETITEM, batch_axis, get_item
from functad.primitives.kinds import linear
from functad.primitives.operands import is_traced


class Step(NamedTuple):
    """One operation of the path from an array to a view of it.

    Attributes:
        primitive: the operation; its result is a view of its argument.
        params: the parameters of the operation.
        number: the index of the result, if the operation has several.
        writeable: `True` if NumPy allows writes into the view.
        copied: `True` if reads from the view are copies, as with `t.flat`.
    """

    primitive: Any
    params: dict[str, Any]
    number: int | None = None
    writeable: bool = True
    copied: bool = False

    def read(self, a: Any) -> Any:
        """Return the view of an array or a Tensor. For an array, NumPy computes a `Composite`, which functad would copy."""
        plain = type(self.primitive) is Composite and not is_traced(a)
        out = (self.primitive.function if plain else self.primitive)(a, **self.params)
        return out if self.number is None else out[self.number]

    def spec(self, a: ArraySpec) -> ArraySpec:
        """Return the shape and dtype of the view."""
        out: Any = self.primitive.spec(a, **self.params)
        return out if self.number is None else out[self.number]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        inside = " ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"{self.primitive.name} {inside}" + ("" if self.number is None else f" {self.number}")


Path = tuple[Step, ...]


def part(a: Any, path: Path) -> Any:
    """Return the view of an array or a Tensor at the end of a path."""
    for step in path:
        a = step.read(a)
    return a


_PARTS = ("real", "imag")  # names, so that the primitives need not be loaded


def without_real_imag(path: Path) -> Path:
    """Return the steps of a path without real and imaginary parts, for an array of positions or masks."""
    return tuple([step for step in path if step.primitive.name not in _PARTS])


def as_cotangent(piece: Any, path: Path) -> Any:
    """Return the cotangent of a written value, from the piece that `path` reads from the cotangent of the array.

    A written imaginary part has the cotangent `-Im(g)`, because `Re(g (x + i y)) = Re(g) x - Im(g) y`.
    """
    return -piece if any(step.primitive.name == "imag" for step in path) else piece


def cotangent_of_written(view: Any, index: Any) -> Any:
    """Return the cotangent of a value written at `index`. For a repeated index, only the last write gets the cotangent."""
    if index is Ellipsis:
        return view
    piece = get_item(view, index)
    if never_repeats(index):
        return piece
    last = np.empty(shape_of(view), np.intp)
    turns = np.arange(last[index].size).reshape(last[index].shape)
    last[index] = turns
    won = last[index] == turns
    return piece if won.all() else kept(piece, won)


def put(target: Any, path: Path, index: Any, v: Any, *, adds: bool) -> None:
    """Write `v` into a view of an array or a Tensor in place, or add it; repeated indices accumulate."""
    if is_traced(target):
        type(target).__functad_put__(target, path, index, v, adds)
        return
    view = part(target, path)
    if path and not np.may_share_memory(view, target):
        _put_by_position(target, path, index, v, adds)  # the path returns a copy for this memory layout
    elif adds:
        add_at(view, index, v)
    else:
        view[index] = v


def _put_by_position(target: Any, path: Path, index: Any, v: Any, adds: bool) -> None:
    places = part(np.arange(target.size).reshape(target.shape), without_real_imag(path))[index]
    chosen = flat = target.reshape(-1)
    for step in path:
        chosen = getattr(chosen, step.primitive.name) if step.primitive.name in _PARTS else chosen
    if adds:
        add_at(chosen, places, v)
    else:
        chosen[places] = v
    if not np.may_share_memory(flat, target):
        target[...] = flat.reshape(target.shape)


def written_spec(*arrays: Any, path: Path, index: Any) -> ArraySpec:
    """Return the shape and dtype of an array after a write. The arrays in the index may be specs.

    Raises:
        ValueError: the written value does not broadcast to the shape at the index.
    """
    a, v = arrays
    whole = spec_of(a)
    spec = whole
    for step in path:
        spec = step.spec(spec)
    place, given = indexed_shape(spec.shape, index), shape_of(v)
    extra = max(0, len(given) - len(place))
    if any(n != 1 for n in given[:extra]) or any(
        n not in (1, m) for n, m in zip(given[extra:], place[len(place) - len(given) + extra :], strict=True)
    ):
        raise ValueError(f"could not broadcast input array from shape {given} into shape {place}")
    return ArraySpec(whole.shape, whole.dtype)


def write_into_copy(*arrays: Any, path: Path, index: Any, adds: bool = False) -> Any:
    """Return a copy of an array, with the elements at an index of one of its views replaced or added to."""
    a, v = arrays
    out = copy_alike(a) if type(a) is np.ndarray and 0 not in a.strides else np.copy(a)  # a broadcast axis gets its own memory
    put(out, path, index, _without_zeros(v, path), adds=adds)
    return out


def _without_zeros(v: Any, path: Path) -> Any:
    """Return a complex zero tangent as real if it is written into a real or imaginary part, to avoid a NumPy warning."""
    return v.real if len(without_real_imag(path)) < len(path) and dtype_of(v).kind == "c" and not np.any(v) else v


def _samples(array: Any) -> Calls:
    """Return writes of scalars, arrays and broadcast values, at every kind of index, directly and through views."""
    column = Step(GETITEM, {"index": (slice(None), 1)})
    turned = Step(TRANSPOSE, {"axes": (1, 0)})
    flat = Step(RESHAPE, {"shape": (6,)})
    return [
        ((array(3), array()), {"path": (), "index": 1}),
        ((array(3), array(2)), {"path": (), "index": slice(1, None)}),
        ((array(3), array()), {"path": (), "index": Ellipsis}),
        ((array(2, 3), array(3)), {"path": (), "index": 0}),
        ((array(2, 3), array(1)), {"path": (), "index": (slice(None), np.array([0, 2]))}),
        ((array(3), array(2)), {"path": (), "index": np.array([True, False, True])}),
        ((array(3), array(2)), {"path": (), "index": np.array([2, 0])}),
        ((array(2, 3), array(2)), {"path": (column,), "index": Ellipsis}),
        ((array(2, 3), array(2)), {"path": (turned,), "index": 2}),
        ((array(2, 3), array()), {"path": (flat,), "index": 4}),
        ((array(2, 3), array(2)), {"path": (turned, flat), "index": slice(3, 5)}),
        ((array(), array()), {"path": (), "index": ()}),
        ((array(0), array()), {"path": (), "index": slice(None)}),
    ]


def _write_samples(array: Any) -> Calls:
    return [
        *_samples(array),
        ((array(3), array(1, 2)), {"path": (), "index": np.array([2, 0])}),
        ((array(3), array(4)), {"path": (), "index": np.array([2, 0, 2, -1])}),
        ((array(2, 3), array(2, 1)), {"path": (), "index": (slice(None), np.array([2, 0, 2]))}),
    ]


def _add_samples(array: Any) -> Calls:
    return [*_samples(array), ((array(3), array(3)), {"path": (), "index": np.array([2, 0, 2])})]


def write(a: Any, v: Any, /, *, path: Path, index: Any) -> Any:
    """Return a copy of `a`, with the elements at an index of a view of `a` replaced by `v`."""
    return WRITE(a, v, path=path, index=index)


def add(a: Any, v: Any, /, *, path: Path, index: Any) -> Any:
    """Return a copy of `a`, with `v` added to the elements at an index of a view of `a`."""
    return ADD_TO(a, v, path=path, index=index)


def _write_vjp(g: Any, path: Path, index: Any, shapes: Any) -> tuple[Any, Any]:
    view = part(g, path)
    piece = as_cotangent(cotangent_of_written(view, index), path)
    return WRITE(g, dtype_of(view).type(0), path=path, index=index), squeezed(piece, shapes[1])


def _add_vjp(g: Any, path: Path, index: Any, shapes: Any) -> tuple[Any, Any]:
    return g, squeezed(as_cotangent(get_item(part(g, path), index), path), shapes[1])


def squeezed(piece: Any, shape: tuple[int, ...]) -> Any:
    """Return a cotangent with as many axes as the written value, which may have more leading axes of length 1."""
    own = shape_of(piece)
    return piece.reshape((1,) * (len(shape) - len(own)) + own) if len(shape) > len(own) else piece


class ForAll:
    """The operation of a step, applied to all examples of a batch or of nested batches.

    Attributes:
        primitive: the operation on one example; its result is a view of its argument.
        sizes: the batch sizes, the outermost first.
    """

    def __init__(self, primitive: Any, size: int) -> None:
        nested = isinstance(primitive, ForAll)
        self.primitive = primitive.primitive if nested else primitive
        self.sizes = (size, *primitive.sizes) if nested else (size,)
        self.name = primitive.name

    def __call__(self, a: Any, **params: Any) -> Any:
        """Return the views of all examples."""
        out = batch_call(self.primitive, math.prod(self.sizes), (self._moved(a, len(self.sizes)),), (True,), params)
        return tuple([self._moved(one, 1) for one in out]) if self.primitive.multiple else self._moved(out, 1)

    def _moved(self, a: Any, ndim: int) -> Any:
        """Return an array with its first `ndim` axes merged into one, or for `ndim` 1 its first axis split by `sizes`."""
        if len(self.sizes) == 1:
            return a
        front = self.sizes if ndim == 1 else (math.prod(self.sizes),)
        return a.reshape((*front, *shape_of(a)[ndim:]))

    def spec(self, a: ArraySpec, **params: Any) -> Any:
        """Return the shape and dtype of the views."""
        out: Any = self.primitive.spec(ArraySpec(a.shape[len(self.sizes) :], a.dtype), **params)
        if self.primitive.multiple:
            return tuple([ArraySpec((*self.sizes, *one.shape), one.dtype) for one in out])
        return ArraySpec((*self.sizes, *out.shape), out.dtype)


def batched_write(size: int, a: Any, v: Any, v_batched: bool, path: Path, index: Any) -> tuple[Any, Path, Any]:
    """Return the value, the path and the index of the write to a whole batch, from the write to one example.

    Args:
        size: the number of examples.
        a: the array to write to, with the batch axis in front.
        v: the value, with the batch axis in front if `v_batched`.
        v_batched: `True` if the value is batched.
        path: the path from the array of one example to the view.
        index: the index into the view of one example.
    """
    spec = ArraySpec(shape_of(a)[1:], dtype_of(a))
    for step in path:
        spec = step.spec(spec)
    place = indexed_shape(spec.shape, index)
    shape = shape_of(v)[v_batched:]
    if len(shape) > len(place):  # NumPy ignores leading axes of length 1
        v = v.reshape((*shape_of(v)[:v_batched], *shape[len(shape) - len(place) :]))
    everywhere = tuple([step._replace(primitive=ForAll(step.primitive, size)) for step in path])
    whole = (slice(None), *(index if type(index) is tuple else (index,)))
    axis = batch_axis((size, *spec.shape), whole)
    if axis and (v_batched or shape):  # NumPy puts the axes of the index arrays before the batch axis
        v = np.moveaxis(padded(v if v_batched else v[None], len(place)), 0, axis)
    elif v_batched:
        v = padded(v, len(place))
    return v, everywhere, whole


def _batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    a, v = values
    a = spread_out(a, batched[0], size)
    v, path, index = batched_write(size, a, v, batched[1], **params)
    return primitive(a, v, path=path, index=index)


def _enter(function: Any, vjp: Any, samples: Any, doc: str, *, adds: bool) -> Primitive:
    return linear(
        function,
        vjp,
        compute=lambda *arrays, path, index: write_into_copy(*arrays, path=path, index=index, adds=adds),
        spec=written_spec,
        samples=samples,
        internal=True,
        doc=doc,
        broadcasts=True,
        writes=True,
        adds=adds,
        batch=_batch,
        ordered=True,
        dependence="write",
        exact=not adds,
    )


WRITE = _enter(
    write, _write_vjp, _write_samples, "linear in both arguments; the cotangent of what was replaced is zero", adds=False
)
ADD_TO = _enter(add, _add_vjp, _add_samples, "linear in both arguments", adds=True)


def is_alone(values: list[Any], place: int) -> bool:
    """Return `True` if `values[place]` has no other reference, so it may be overwritten in place."""
    return _references(values, place) == _ALONE


def _references(values: list[Any], place: int) -> int:
    value, values[place] = values[place], None
    count = sys.getrefcount(value)
    values[place] = value
    return count


# The result of `_references` for a value without other references. The count depends on the Python version.
_ALONE = _references([np.zeros(1)], 0)
