"""Indexing, iteration and assignment: `t[i]`, `for v in t`, `t[i] = v`, `t += v`, `np.add.at(t, i, v)`, `out=t`.

Python code often loops over the elements of an array. In an open concrete trace, reading has a fast path that skips NumPy's
dispatch and `dispatch`: 1 us instead of 3 us per element.

The records stay pure: a write is recorded as an operation, and the Tensor then takes over its result. `t += v` usually records
the sum only, and `t` takes it over; if `t` is a view, the sum is written to the root. The array itself is written in place
while it has no other reference, so a loop that fills it takes time linear in the number of writes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from operator import is_
from types import CodeType
from typing import Any

import numpy as np

from functad.errors import AssignmentError, ConversionError, UnsupportedError
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, is_array, shape_of, type_of
from functad.places import here, user_place
from functad.primitives.arranging.reshape import RESHAPE
from functad.primitives.elementwise.conversion import COPY, astype, copy_alike
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.indexing.index_map import (
    OTHER,
    PART,
    WIDENS,
    holds_tensors,
    indexed_shape,
    is_basic,
    plain_index,
    way_of_reading,
)
from functad.primitives.indexing.read import GATHER, GETITEM, AtPlaces, taken_apart
from functad.primitives.indexing.write import ADD_TO, WRITE, Path, part
from functad.primitives.operands import as_operand, innermost, is_number, numpy_values, read
from functad.primitives.ufunc_methods import METHODS
from functad.tracing.conversions import asker
from functad.tracing.foreign import check_shape, fix_for, lacked
from functad.tracing.ownership import hold, map_arrays
from functad.tracing.trace import Recorded, Recorder, dispatch, escaped, record_in_graph, resolve
from functad.tracing.views import (
    clone,
    in_c_order,
    lie_alike,
    make_stale,
    memory_of,
    note_view,
    note_view_at,
    origin_of,
    shares,
)

_getframe = sys._getframe
_float64 = np.float64
_ndarray = np.ndarray
_PLAN = GETITEM.reverse_plan((0,))


def _widened(x: Any, index: Any) -> Any:
    """Return `x[index]` for an index that only adds axes: a reshape, whose VJP rule does not scatter."""
    return dispatch(RESHAPE, (x,), {"shape": indexed_shape(x.shape, index)})


class Reading:
    """Indexing and iteration."""

    __slots__ = ()

    def __getitem__(self: Any, index: Any) -> Any:
        way = PART
        if type(index) is not int:
            way = way_of_reading(index)
            if way is OTHER:
                if isinstance(index, Recorded) and (selection := _selection(self, index)) is not None:
                    return selection
                index = plain_index(index, self)
                if index is None or (way_of_reading(index) is WIDENS and (index or self.shape)):
                    return _widened(self, index)
                if type(index) is not slice and holds_tensors(index):
                    template, arrays = taken_apart(index)
                    out = GATHER(self, *arrays, template=template)
                    note_view_at(self, out, template, arrays)
                    return out
            elif way is WIDENS and (index or self.shape):  # `t[()]` of shape `()` is a number, not a view
                return _widened(self, index)
        recorder = self.recorder
        if not recorder.fast:
            return GETITEM(self, index=index)
        value = self.below
        try:
            out = value[index]
        except NotImplementedError as error:
            raise lacked("an index of a Tensor", type(value), error) from error
        frame = _getframe(1)
        is_view = type(out) is not _float64 and shares(out, value)
        kept = index
        if type(out) is not _float64 and not is_view:  # the user may later overwrite a mask or an array of integers
            if type(out) is not _ndarray:
                check_shape(out)
            kept = hold(index, recorder) if type(index) is _ndarray else map_arrays(lambda a: hold(a, recorder), index)
        record = (_PLAN, self.slot, (kept, value.shape, value.dtype), None)
        tensor = recorder.append(record, out, frame.f_code, frame.f_lasti, type(self))
        if is_view:
            note_view(self, tensor, GETITEM, {"index": index})
        return tensor

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a Tensor of shape ()")
        frame = _getframe(1)
        return _elements(self, frame.f_code, frame.f_lasti)


def _selection(x: Any, mask: Any) -> Any:
    """Return the selection `x[mask]` for a mask without a value; `None` for any other index."""
    shape, ndim = mask.shape, len(mask.shape)
    if mask.dtype.kind != "b" or not mask.size or x.shape[:ndim] != shape or not isinstance(innermost(mask), ArraySpec):
        return None
    if not ndim:
        return None
    return import_module("functad.eager.selection").Selection(clone(x), clone(mask), user_place())


def _elements(t: Any, code: CodeType, instruction: int) -> Iterator[Any]:
    """Yield `t[0], t[1], ...`, recorded at the given line."""
    for i in range(t.shape[0]):
        element = t[i]
        if isinstance(element, Recorded):
            element.code, element.instruction = code, instruction
        yield element


def write(tensor: Any, index: Any, v: Any, *, adds: bool = False) -> None:
    """Replace or add to elements of a Tensor, as NumPy does with an array; views change too.

    Raises:
        ConversionError: the Tensor holds integers, so that a derivative would be lost.
        ValueError: the Tensor is a read-only view, or `v` does not fit.
    """
    tensor.current()
    written = not adds and isinstance(v, Recorded) and _is_part(v, tensor, index)
    if isinstance(index, Recorded):
        index = resolve(index)
        if isinstance(index, Recorded) and dtype_of(index).kind == "b" and not adds:
            index, v = _at_mask(tensor, index, v)
    v = v if written else _operand(v)
    index = index if index is Ellipsis else plain_index(index, tensor)
    root, path = origin_of(tensor)
    if root.recorder.closed:
        raise escaped(root, "assignment")
    if root.recorder.forbids_writes(root):
        raise UnsupportedError(
            f"a Tensor that no tape records, or that a tape watches, cannot be assigned to, at {here()}. Assign to a copy "
            f"inside the tape (t = t.copy()), make a new array (np.where, np.concatenate), or use a Variable: v[i].assign(...)."
        )
    _unlock(root)
    _check(tensor, root, root if written else v)
    if written:
        return
    if path or type(index) is not int:
        _write_through(root, path, index, v, adds)
    else:  # the usual case
        _write(root, path, index, v, ADD_TO if adds else WRITE)


def _is_part(v: Any, tensor: Any, index: Any) -> bool:
    """Return `True` if `v` is the view `tensor[index]`, as in the assignment that Python makes at the end of `t[i] += x`."""
    (root, path), (own, steps) = origin_of(tensor), origin_of(v)
    if own is not root or len(steps) != len(path) + 1 or not all(map(is_, path, steps)) or not is_basic(index):
        return False
    step = steps[-1]
    return step.primitive is GETITEM and not step.copied and bool(step.params["index"] == index)


def _write_through(root: Any, path: Path, index: Any, v: Any, adds: bool) -> None:
    """Write at an index of the view at the end of a path; steps of the path may have Tensors as indices."""
    cut = next((k for k, step in enumerate(path) if type(step.primitive) is AtPlaces), None)
    if cut is not None:
        piece = COPY(part(clone(root), path[: cut + 1]))
        _write_through(piece, path[cut + 1 :], index, v, adds)
        step = path[cut].primitive
        _place_at(root, path[:cut], step.template, step.arrays, piece, False)
    elif holds_tensors(index):
        _place_at(root, path, *taken_apart(index), v, adds)
    else:
        _write(root, path, index, v, ADD_TO if adds else WRITE)


def put_through(target: Any, path: Path, index: Any, v: Any, adds: bool) -> None:
    """Write into a Tensor at an index of one of its views, without the checks of `write`."""
    target.current()
    root, own = origin_of(target)
    _write_through(root, (*own, *path), index, v, adds)


def _at_mask(tensor: Any, mask: Any, v: Any) -> tuple[Any, Any]:
    """Return index and value of the write `tensor[mask] = v`.

    If the number of places does not matter, all elements are written: `v` or the old element. This is so if each place gets the
    same value, and for a selection by the same mask.
    """
    shape, ndim = shape_of(tensor), len(shape_of(mask))
    whole = getattr(type(v), "__functad_whole__", None)
    found = None if whole is None else whole(v, mask)
    v = _operand(v) if found is None else found
    fits = len(shape_of(v)) <= len(shape) - ndim if found is None else len(shape_of(v)) == len(shape)
    if shape[:ndim] != shape_of(mask) or not fits:
        return mask, v
    return Ellipsis, np.where(mask.reshape(shape_of(mask) + (1,) * (len(shape) - ndim)), v, tensor)


def _operand(v: Any) -> Any:
    v = as_operand(read(v))
    if isinstance(v, Recorded):
        v.current()  # type: ignore[attr-defined]
        if v.recorder.inactive:
            record_in_graph([v])
        return v
    if type(v) not in PLAIN:
        v = numpy_values(v, "assignment")
    return v if issubclass(type(v), (np.generic, int, float, complex)) else np.array(v)  # the user cannot overwrite the copy


def _place_at(root: Any, path: Path, template: Any, arrays: Sequence[Any], v: Any, adds: bool) -> None:
    """Write at indices that are Tensors."""
    from functad.primitives.indexing.place import PLACE, PLACE_ADD  # noqa: PLC0415 - rarely needed

    new = dispatch(PLACE_ADD if adds else PLACE, (clone(root), v, *arrays), {"path": path, "template": template})
    root.recorder.written = new.recorder.written = True
    take_over(root, new)


def _unlock(root: Any) -> None:
    """Replace the read-only value of an input by a writeable copy."""
    tensor = root
    while isinstance(tensor.below, Recorded):
        tensor = tensor.below
    value = tensor.below
    if type(value) is _ndarray and not value.flags.writeable and tensor.slot < tensor.recorder.inputs:
        make_stale(root)
        own = copy_alike(value)
        tensor.below = own if own.flags.writeable else np.copy(value)


def _check(tensor: Any, root: Any, v: Any) -> None:
    tensor.current()
    inner = innermost(tensor)
    locked = any(not step.writeable for step in origin_of(tensor)[1])
    if locked or (type(inner) is _ndarray and not inner.flags.writeable):
        raise AssignmentError(f"assignment destination is read-only, at {here()}. Write into a copy: t = t.copy()")
    if type(inner) is not _ndarray and is_number(inner):
        if not asker().endswith("array_api_extra._lib._at"):  # `xpx.at(t, mask).set(v)` writes to numbers
            raise TypeError(f"'{type_of(inner).__name__}' object does not support item assignment")
        take_over(root, clone(root)[None].reshape(()))  # a writeable array of shape ()
    elif not issubclass(type(inner), (_ndarray, ArraySpec)):
        fix = f", at {here()}. {fix_for(type(inner))}" if is_array(inner) else ""
        raise TypeError(f"'{type(inner).__name__}' object does not support item assignment{fix}")
    if not _keeps_derivative(v, root):
        raise ConversionError(
            f"assignment of a {dtype_of(v)} Tensor into one of {dtype_of(root)}, at {here()}, would lose its derivative. "
            f"Make the array with dtype=float."
        )


def _keeps_derivative(v: Any, root: Any) -> bool:
    """Return `False` if a cast of `v` to the dtype of `root` would lose the derivative of a Tensor."""
    return not (isinstance(v, Recorded) and dtype_of(v).kind in "fc" and dtype_of(root).kind in "biu")


def _write(root: Any, path: Path, index: Any, v: Any, primitive: Primitive) -> None:
    if isinstance(v, Recorded) and v.recorder.serial > root.recorder.serial:
        _promote(root, v.recorder)
    root.recorder.written = True
    take_over(root, root.recorder.write(primitive, root, v, {"path": path, "index": index}))


def take_over(tensor: Any, new: Any) -> None:
    """Replace the value, the recorder and the slot of a Tensor with the value, the recorder and the slot of a new Tensor."""
    make_stale(tensor)
    tensor.below, tensor.recorder, tensor.slot = new.below, new.recorder, new.slot
    tensor.code, tensor.instruction = new.code, new.instruction


def _promote(root: Any, recorder: Recorder) -> None:
    """Move a Tensor as a constant into an inner trace, before a write of a Tensor of the inner trace."""
    memory_of(root).ordered = in_c_order(root)
    take_over(root, recorder.buffer(clone(root)))


def buffer_after(model: Any, value: Any) -> Any:
    """Return the result of `np.zeros_like(model)` or a similar function as a buffer with the memory order of `model`."""
    model.current()
    unknown = value.ndim > 1 and isinstance(innermost(model), ArraySpec) and not in_c_order(model)
    if unknown and model.recorder.has_values:
        return buffer_like(model, buffer_after(model.below, value))
    out = buffer_like(model, value)
    if unknown and out is value and not model.recorder.closed and not model.recorder.inactive:
        out = model.recorder.buffer(value)  # integers too, since a plain array would count as C-ordered
    if unknown and out is not value:
        memory_of(out).ordered = False
    return out


def buffer_like(tensor: Any, value: Any) -> Any:
    """Return a constant as a Tensor of the trace of `tensor`; integers and booleans unchanged."""
    tensor.current()
    if value.dtype.kind not in "fc" or tensor.recorder.closed or (tensor.recorder.inactive and not record_in_graph([tensor])):
        return value
    return tensor.recorder.buffer(value)


def _reduced_by(call: Callable[..., Any]) -> np.ufunc | None:
    """Return the ufunc of a reduction or a scan; `None` for all other functions."""
    owner = getattr(call, "__self__", None)
    if isinstance(owner, np.ufunc):
        return owner if call.__name__ in ("reduce", "accumulate", "reduceat") else None
    entry = ENTRIES.get(call)
    return None if entry is None else entry.reduces


def _with_dtype(
    call: Callable[..., Any], ufunc: np.ufunc, args: Any, keywords: dict[str, Any], out: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the arguments of a reduction with the `dtype` that NumPy uses for a given `out`.

    Without `dtype=`, NumPy selects the loop of the ufunc by the dtypes of `out` and of the array.

    Raises:
        TypeError: the ufunc has no loop for these dtypes.
    """
    is_method = getattr(call, "__self__", None) is ufunc
    front = partial(METHODS[call.__name__], ufunc) if is_method else ENTRIES[call].front
    signature = inspect.signature(front)
    given = signature.bind(*args, **keywords)
    if "dtype" not in signature.parameters or given.arguments.get("dtype") is not None:
        return args, keywords
    array = as_operand(next(iter(given.arguments.values())))
    first, _, dtype = ufunc.resolve_dtypes((dtype_of(out), dtype_of(array), None))
    if first == dtype:
        given.arguments["dtype"] = dtype
    return given.args, given.kwargs


def _in_common_dtype(args: Any, keywords: dict[str, Any], out: Any) -> dict[str, Any]:
    """Return the keywords of `np.einsum` with the `dtype` that NumPy uses for a given `out`: the common dtype of all arrays.

    Raises:
        TypeError: the results cannot be cast to the dtype of `out`.
    """
    if keywords.get("dtype") is None:
        operands = [as_operand(a) for a in args if not isinstance(a, (str, list, tuple)) and a is not Ellipsis]
        keywords = keywords | {"dtype": np.result_type(*map(dtype_of, operands), dtype_of(out))}
    dtype, own, casting = np.dtype(keywords["dtype"]), dtype_of(out), keywords.get("casting", "safe")
    if not (np.can_cast(dtype, own, casting) and np.can_cast(own, dtype, casting)):  # it adds to `out`
        raise TypeError(f"einsum cannot cast between {dtype} and {own}, the dtype of out=, by the rule {casting!r}")
    return keywords


def _check_dtype(name: str, out: Any, result: Any) -> None:
    """Write one element of a function's result to one of `out`'s dtype: NumPy raises or warns if it does not take that dtype.

    These functions have rules of their own, and the rules differ between versions of NumPy: up to 2.4, `np.take` copied `out`
    to the dtype of its result first.

    Raises:
        TypeError: NumPy's error.
        ValueError: NumPy's error.
    """
    if name in _WRITE_ONE:
        _WRITE_ONE[name](np.zeros(1, dtype_of(result)), np.zeros((), dtype_of(out)))


_WRITE_ONE: dict[str, Callable[[Any, Any], object]] = {
    **dict.fromkeys(("argmax", "argmin", "nanargmax", "nanargmin"), lambda value, out: np.argmax(value, out=out)),
    **dict.fromkeys(("take", "compress"), lambda value, out: np.take(value, 0, out=out)),
    "dot": lambda value, out: np.dot(value, value, out=out),
}
_SCANS = frozenset({"accumulate", "cumprod", "cumsum", "nancumprod", "nancumsum"})


def into(call: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function with a Tensor, or a tuple with Tensors, as `out=`; return `out`, with results in place of `None`.

    Raises:
        ConversionError: `out=` has both Tensors and plain arrays.
    """
    outs = kwargs["out"]
    keywords = {key: value for key, value in kwargs.items() if key != "out"}
    several = outs if isinstance(outs, tuple) else (outs,)
    where = keywords.pop("where", True) if isinstance(call, np.ufunc) else True  # in reductions it masks the argument
    ufunc = _reduced_by(call)
    if ufunc is not None and isinstance(several[0], Recorded):
        args, keywords = _with_dtype(call, ufunc, args, keywords, several[0])
    name = getattr(call, "__name__", "")
    if call is np.einsum and isinstance(several[0], Recorded):
        keywords = _in_common_dtype(args, keywords, several[0])
    found = call(*args, **keywords)
    results = found if isinstance(found, tuple) else (found,)
    for out, result in zip(several, results, strict=True):
        if isinstance(out, Recorded):
            _check_dtype(name, out, result)
            if name in _SCANS and shape_of(out) != shape_of(result):
                raise AssignmentError(
                    f"out= of shape {shape_of(out)} for a result of shape {shape_of(result)}, at {here()}: NumPy would fill a "
                    f"part of it. Give an array of the shape of the result."
                )
            kept: Any = out
            chosen = result if where is True else np.where(where, result, kept)
            casting = kwargs.get("casting", "same_kind")
            if name in _WRITE_ONE and dtype_of(result).kind in "iu":
                casting = "unsafe"
            if ufunc is not None and dtype_of(out).kind in "biu":  # NumPy's reductions write integers without a casting rule
                casting = "unsafe"
                chosen = astype(as_operand(chosen), dtype_of(out), copy=False) if _keeps_derivative(chosen, out) else chosen
            overwrite(out, chosen, casting)
        elif out is not None:
            raise ConversionError(f"out= with both Tensors and plain arrays, at {here()}, would lose derivatives.")
    given = tuple([result if out is None else out for out, result in zip(several, results, strict=True)])
    return given if len(given) > 1 else given[0]


def with_out_keyword(front: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a front with a positional `out` moved to the keywords."""
    if "out" in kwargs:
        return args, kwargs
    place = list(inspect.signature(front).parameters).index("out")
    return (*args[:place], None, *args[place + 1 :]), kwargs | {"out": args[place]}


def overwrite(tensor: Any, result: Any, casting: Any = "same_kind") -> Any:
    """Replace all elements of a Tensor by a result, as `out=` does; return the Tensor.

    Raises:
        ValueError: the result cannot be broadcast to the shape of the Tensor.
        UnsupportedError: the result cannot be cast to the dtype of the Tensor.
    """
    shape, given = shape_of(tensor), shape_of(result)
    if len(given) > len(shape) or np.broadcast_shapes(given, shape) != shape:
        raise ValueError(f"non-broadcastable output operand with shape {shape} doesn't match the broadcast shape {given}")
    dtype, own = dtype_of(tensor), dtype_of(result)
    if not np.can_cast(own, dtype, casting):
        raise UnsupportedError(
            f"A result of {own!r} cannot be written to a Tensor of {dtype!r} with casting={casting!r}, at {here()}. "
            f"Write x = x / y in place of x /= y, or np.divide(x, y, out=x, casting='unsafe')."
        )
    root, path = origin_of(tensor)
    fresh = isinstance(result, Recorded) and getattr(result, "origin", None) is None and result is not tensor
    same = fresh and shape and not path and result.recorder is root.recorder and given == shape and own == dtype
    if same and (len(shape) == 1 or lie_alike(root, result)):
        _unlock(root)
        _check(tensor, root, result)
        root.recorder.written = True
        take_over(root, result)
    else:
        write(tensor, Ellipsis, result)
    return tensor


def _is_immutable(tensor: Any) -> bool:
    """Return `True` if the value of a Tensor is a scalar or an array of another library, which may be immutable."""
    return is_number(tensor) or not issubclass(type(innermost(tensor)), (_ndarray, ArraySpec))


def _in_place(symbol: str) -> Callable[[Any, Any], Any]:
    name = f"__{symbol}__"

    def method(self: Any, other: Any) -> Any:
        result = getattr(self, name)(other)
        if result is NotImplemented or self.recorder.reassigns or _is_immutable(self):
            return result
        return overwrite(self, result)

    method.__name__ = f"__i{symbol}__"
    return method


class Writing:
    """Assignment, in-place operators and in-place methods."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        write(self, index, value)

    def fill(self, value: Any) -> None:
        """Set all elements to a value; do nothing for a number, as in NumPy."""
        if not is_number(self):
            write(self, Ellipsis, value)

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        """Sort in place, with the arguments of `np.sort`."""
        overwrite(self, np.sort(self, axis, kind, order, stable=stable))  # type: ignore[call-overload]

    def partition(self, kth: Any, axis: int = -1, kind: Any = "introselect", order: Any = None) -> None:
        """Partition in place, with the arguments of `np.partition`."""
        overwrite(self, np.partition(self, kth, axis, kind, order))  # type: ignore[call-overload]

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """As `np.put`."""
        np.put(self, indices, values, mode)  # type: ignore[arg-type]


for _symbol in (
    "add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor",
):  # fmt: skip
    setattr(Writing, f"__i{_symbol}__", _in_place(_symbol))
