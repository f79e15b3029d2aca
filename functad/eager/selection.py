"""`Selection`: `x[mask]` in a trace that has no value of the mask, so that the number of its elements is unknown.

A selection keeps the whole array and the mask. Elementwise functions are applied to the whole array, and reductions read it
with `where=mask`, so that the list is valid for every mask. `y[mask] = v` with a selection `v` by the same mask is
`np.where(mask, v, y)`. For anything else the elements are gathered: `jit` then guards their number, and other traces raise an
error.

Elements that are not selected must cause no warning and no NaN. Before the first elementwise function, the first selected
element, as a constant, replaces all of them: each function then computes with values that it also meets in NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functad.eager.variable import TensorLike
from functad.errors import AbstractValueError
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.immutable import exact_key
from functad.places import here, line_of
from functad.primitives.indexing.read import get_item
from functad.primitives.operands import is_weak, read
from functad.process import setting
from functad.tracing.equations import ASKED_AT
from functad.tracing.trace import Recorded
from functad.transforms.grad import stop_gradient

_NUMBERS = (np.generic, int, float, complex)

_ELEMENTWISE: dict[Any, tuple[int, ...]] = {
    np.where: (0, 1, 2),
    np.clip: (0, 1, 2),
    np.isclose: (0, 1),
    np.full_like: (0, 1),
    np.searchsorted: (1,),
    np.polyval: (1,),
    **dict.fromkeys(
        (np.round, np.real, np.imag, np.angle, np.nan_to_num, np.sinc, np.copy, np.zeros_like, np.ones_like, np.interp), (0,)
    ),
}
"""Functions that are not ufuncs and treat each element alone, with the positions of their operands."""

_LOWEST = {np.max: (-np.inf, np.iinfo, "min"), np.min: (np.inf, np.iinfo, "max")}
_ROUNDING = frozenset({np.sum, np.prod, np.mean, np.var, np.std})
"""Reductions whose last digits depend on the order of the elements."""

_TRUTHS = frozenset({np.any, np.all})
_REDUCTIONS = frozenset({*_ROUNDING, *_TRUTHS, *_LOWEST})
_BY_UFUNC = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_DEPTH = 16
"""The number of equations behind one another that are compared to find equal masks."""


class Selection(TensorLike):
    """The elements of an array at which a mask without a value is true.

    Args:
        array: the whole array.
        mask: the mask, a Tensor with the shape of the first axes of the array.
        place: the user's line.
        filled: `True` if the elements that are not selected are values of selected ones.
    """

    __slots__ = ("_array", "_filled", "_mask", "_place", "_tensor")

    def __init__(self, array: Any, mask: Any, place: tuple[CodeType | None, int], filled: bool = False) -> None:
        self._array = array
        self._mask = mask
        self._place = place
        self._filled = filled
        self._tensor: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type of arrays: a selection is no number."""
        return np.ndarray

    def __functad_read__(self) -> Any:
        """Return the elements as a Tensor of their number, which is guarded.

        Raises:
            AbstractValueError: the trace cannot guard it.
        """
        if self._tensor is None:
            with self._asked():
                self._tensor = get_item(self._array, self._mask)
        return self._tensor

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Give guards, and the error of a trace without guards, the line that selects the elements."""
        try:
            with setting(ASKED_AT, self._place):
                yield
        except AbstractValueError as error:
            raise AbstractValueError(str(error).replace(f"at {here()}", f"at {line_of(*self._place)}")) from None

    def __repr__(self) -> str:
        return f"Tensor({spec_of(self._array)} at a mask)" if self._tensor is None else repr(self._tensor)

    def __functad_mask__(self) -> Any:
        """Return the Tensor on which the number of elements depends."""
        return self._mask

    def __functad_whole__(self, mask: Any) -> Any:
        """Return the whole array if `mask` is the mask of the selection; otherwise `None`."""
        return self._array if self._tensor is None and _same(self._mask, mask) else None

    # The parts

    def _full(self) -> Any:
        """The whole array, with a selected element at all other places."""
        if not self._filled:
            shape, ndim = shape_of(self._array), len(shape_of(self._mask))
            rows = self._array if ndim == 1 else self._array.reshape((self._mask.size, *shape[ndim:]))
            first = stop_gradient(get_item(rows, np.argmax(self._mask)))
            self._array, self._filled = np.where(_aligned(self._mask, self._array), self._array, first), True
        return self._array

    def _made(self, out: Any) -> Any:
        """Return the selection of a result, or of each of several, at the same places."""
        if issubclass(type(out), tuple):
            return tuple(map(self._made, out))
        return Selection(out, self._mask, self._place, filled=True)

    def _count(self) -> Any:
        return np.count_nonzero(self._mask)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out: Any = NotImplemented
        if method == "__call__" and ufunc.signature is None and not kwargs.keys() & {"out", "where"}:
            out = _mapped(partial(ufunc, **kwargs) if kwargs else ufunc, inputs)
        elif method == "__call__" and ufunc is np.matmul and not kwargs:
            out = _product(*inputs)
        elif method == "reduce" and ufunc in _BY_UFUNC and inputs[0] is self:
            out = _reduced(_BY_UFUNC[ufunc], *inputs, **{"axis": 0, **kwargs})
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs) if out is NotImplemented else out

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        out: Any = NotImplemented
        if function in _ELEMENTWISE:
            out = _mapped(partial(function, **kwargs) if kwargs else function, args, _ELEMENTWISE[function])
        elif function in _REDUCTIONS:
            out = _reduced(function, *args, **kwargs)
        elif function in (np.dot, np.inner) and not kwargs:
            out = _product(*args)
        elif function is np.count_nonzero and args == (self,) and not kwargs and self._tensor is None:
            out = np.count_nonzero(_aligned(self._mask, self._array) & (self._array != 0))
        elif function is np.linalg.norm and args == (self,) and not kwargs and self.ndim == 1 and not self._is_exact():
            out = np.linalg.norm(np.where(self._mask, self._array, 0))
        elif function in (np.shape, np.size, np.ndim) and args == (self,) and not kwargs:
            return getattr(self, function.__name__)
        return super().__array_function__(function, types, args, kwargs) if out is NotImplemented else out

    def _is_exact(self) -> bool:
        """Return `True` if results must be equal to NumPy's bit for bit, or the elements are gathered already."""
        value = self._mask
        while isinstance(value, Recorded):
            if getattr(value.recorder, "exact", False):
                return True
            value = getattr(value.below, "array", value.below)
        return self._tensor is not None

    # Attributes and methods of arrays

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return dtype_of(self._array)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return 1 + len(shape_of(self._array)) - len(shape_of(self._mask))

    @property
    def shape(self) -> tuple[Any, ...]:
        """Lengths of the axes. The first is a `Count`."""
        if self._tensor is not None:
            return self._tensor.shape  # type: ignore[no-any-return]
        return (Count(self), *shape_of(self._array)[len(shape_of(self._mask)) :])

    @property
    def size(self) -> Any:
        """Number of elements: a `Count` if there is one axis."""
        return Count(self) if self._tensor is None and self.ndim == 1 else self.__functad_read__().size

    @property
    def T(self) -> Any:  # noqa: N802 - the name in NumPy
        """The transpose."""
        return self if self.ndim == 1 else self.__functad_read__().T

    @property
    def real(self) -> Any:
        """The real parts."""
        return np.real(self) if self.dtype.kind == "c" else self  # a view

    @property
    def imag(self) -> Any:
        """The imaginary parts."""
        return np.imag(self)

    def __len__(self) -> int:
        return operator.index(Count(self))

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """As `ndarray.astype`."""
        out = _mapped(lambda array: array.astype(dtype, *args, **kwargs), (self,))
        return self.__functad_read__().astype(dtype, *args, **kwargs) if out is NotImplemented else out

    def copy(self, order: str = "C") -> Any:
        """As `ndarray.copy`."""
        return np.copy(self)

    def __getitem__(self, index: Any) -> Any:
        if self._takes(index):
            return Selection(self._array, self._mask & index._array, self._place)
        parts = index if type(index) is tuple and self._tensor is None else ()
        if len(parts) > 1 and _is_all(parts[0]) and all(type(part) is int or _is_all(part) for part in parts):
            return self._made(self._full()[(slice(None),) * self._mask.ndim + parts[1:]])
        return self.__functad_read__()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._takes(index):
            mask = self._mask & index._array
            written = None
            if type(value) is Selection and value.dtype == self.dtype:
                written = value.__functad_whole__(mask)
            elif type(value) in (float, int) and self.dtype.kind == "f":
                written = value
            if written is not None:
                self._array, self._filled = np.where(_aligned(mask, self._array), written, self._array), False
                return
        self.__functad_read__()[index] = value

    def _takes(self, index: Any) -> bool:
        """Return `True` if an index is a selection of truth values that is a mask for the elements of this one."""
        if type(index) is not Selection or self._tensor is not None or index._tensor is not None:
            return False
        return index.dtype.kind == "b" and index.ndim == 1 and _same(self._mask, index._mask)


def _is_all(part: Any) -> bool:
    return type(part) is slice and part == slice(None)


def _aligned(mask: Any, array: Any) -> Any:
    """Return a mask with axes of length 1 for the further axes of an array."""
    shape = shape_of(mask)
    rest = len(shape_of(array)) - len(shape)
    return mask.reshape((*shape, *(1,) * rest)) if rest else mask


def _same(a: Any, b: Any) -> bool:
    """Return `True` if two masks are known to have equal values."""
    if a is b:
        return True
    if not (isinstance(a, Recorded) and isinstance(b, Recorded)):
        return type(a) is type(b) is np.ndarray and np.array_equal(a, b)
    if a.recorder is not b.recorder or shape_of(a) != shape_of(b):
        return False
    below, other = a.below, b.below
    if hasattr(below, "array") and hasattr(other, "array"):  # a batch
        return _same(below.array, other.array)
    if not issubclass(type(below), ArraySpec):
        return _same(below, other)
    return _same_slot(a.recorder.records, a.slot, b.slot, _DEPTH)


def _same_slot(records: Sequence[Any], a: Any, b: Any, depth: int) -> bool:
    """Return `True` if the equations of two slots compute the same."""
    if a == b:
        return True
    one, other = records[a], records[b]
    if depth == 0 or type(one) is not Equation or type(other) is not Equation or len(one.outputs) > 1:
        return False
    if one.primitive is not other.primitive or len(one.inputs) != len(other.inputs) or one.primitive.effect:
        return False
    try:
        if _key(one.params) != _key(other.params):
            return False
    except TypeError:
        return False
    for x, y in zip(one.inputs, other.inputs, strict=True):
        if isinstance(x, Constant) or isinstance(y, Constant):
            if not (isinstance(x, Constant) and isinstance(y, Constant) and _same_constant(x.value, y.value)):
                return False
        elif not _same_slot(records, x, y, depth - 1):
            return False
    return True


def _key(params: Mapping[str, Any]) -> Any:
    return (*params, *map(exact_key, params.values()))


def _same_constant(x: Any, y: Any) -> bool:
    if isinstance(x, Recorded) or type(x) is not type(y):
        return isinstance(x, Recorded) and isinstance(y, Recorded) and x.recorder is y.recorder and x.slot == y.slot
    return x is y or bool(np.shape(x) == np.shape(y) and dtype_of(x) == dtype_of(y) and np.array_equal(x, y))


def _mapped(function: Callable[..., Any], args: Sequence[Any], places: Sequence[int] | None = None) -> Any:
    """Return the selection of an elementwise function; `NotImplemented` if it needs the number of elements.

    Args:
        function: the function.
        args: its arguments.
        places: the positions of its operands; `None` if all arguments are.
    """
    operands = [i for i in range(len(args)) if places is None or i in places]
    chosen = [args[i] for i in operands if type(args[i]) is Selection]
    if not chosen or len(chosen) < sum(type(a) is Selection for a in args):
        return NotImplemented
    first, ndim = chosen[0], chosen[0].ndim
    if any(a._tensor is not None or a.ndim != ndim or not _same(first._mask, a._mask) for a in chosen):
        return NotImplemented
    given = list(args)
    for i in operands:
        a = args[i]
        if type(a) is Selection:
            continue
        a = given[i] = read(a)
        if not (a is None or isinstance(a, Recorded) or type(a) is np.ndarray or issubclass(type(a), _NUMBERS)):
            return NotImplemented
        if a is not None and len(shape_of(a)) >= ndim:
            return NotImplemented
    for i in operands:
        if type(args[i]) is Selection:
            given[i] = args[i]._full()
    return first._made(function(*given))


def _reduced(function: Any, a: Any, axis: Any = None, *rest: Any, keepdims: Any = False, **kwargs: Any) -> Any:
    """Return a reduction of a selection; `NotImplemented` if it needs the number of elements."""
    if type(a) is not Selection or a._tensor is not None or rest or kwargs.keys() - {"dtype", "ddof"}:
        return NotImplemented
    if keepdims not in (False, True) or (kwargs.get("dtype") is not None and function in _LOWEST):
        return NotImplemented
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    array, outer = a._array, len(shape_of(a._mask))
    axes = tuple(range(a.ndim)) if axis is None else normalize_axis_tuple(axis, a.ndim)
    kind = a.dtype.kind
    if 0 not in axes:
        own = tuple([i + outer - 1 for i in axes])
        return a._made(function(a._full(), axis=own if type(axis) is tuple else own[0], keepdims=keepdims, **kwargs))
    if (keepdims and outer > 1) or (a._is_exact() and function in _ROUNDING and (kind in "fc" or function is not np.sum)):
        return NotImplemented
    if function in _LOWEST:
        if kind not in "iuf" or not Count(a):  # NumPy raises for no elements
            return NotImplemented
        lowest, limits, name = _LOWEST[function]
        kwargs["initial"] = lowest if kind == "f" else getattr(limits(a.dtype), name)
    places = (*range(outer), *[i + outer - 1 for i in axes if i])
    if len(places) == len(shape_of(array)):
        return function(array, keepdims=keepdims, where=_aligned(a._mask, array), **kwargs)
    return function(array, axis=places, keepdims=keepdims, where=_aligned(a._mask, array), **kwargs)


def _product(a: Any, b: Any) -> Any:
    """Return a product of selections; `NotImplemented` if it needs the number of elements."""
    if type(a) is Selection and a._is_exact():
        return NotImplemented
    if type(a) is type(b) is Selection and a.ndim == b.ndim == 1 and not b._is_exact():
        product = _mapped(np.multiply, (a, b))
        if product is NotImplemented:
            return NotImplemented
        return np.any(product) if product.dtype.kind == "b" else np.sum(product, dtype=product.dtype)
    if type(a) is Selection and type(b) is not Selection and a.ndim == 2 and len(shape_of(a._mask)) == 1:
        other = read(b)
        if (isinstance(other, Recorded) or type(other) is np.ndarray) and len(shape_of(other)) in (1, 2):
            return a._made(a._full() @ other)
    return NotImplemented


# Operators


def _operator(name: str, function: Callable[..., Any], flipped: bool) -> Callable[..., Any]:
    general = getattr(TensorLike, name)

    def method(self: Any, *others: Any) -> Any:
        operands = (*others, self) if flipped else (self, *others)
        out = _product(*operands) if function is operator.matmul else _mapped(function, operands)
        return general(self, *others) if out is NotImplemented else out

    method.__name__ = name
    return method


def _in_place(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        out = NotImplemented if function is operator.matmul else _mapped(function, (self, other))
        if out is NotImplemented or out.dtype != self.dtype or shape_of(out._array) != shape_of(self._array):
            self._tensor = getattr(self.__functad_read__(), name)(other if type(other) is not Selection else read(other))
        else:
            self._array, self._filled = out._array, True
        return self

    method.__name__ = name
    return method


_SYMBOLS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
for _name, _function in _SYMBOLS.items():
    setattr(Selection, f"__{_name}__", _operator(f"__{_name}__", _function, False))
    setattr(Selection, f"__r{_name}__", _operator(f"__r{_name}__", _function, True))
    setattr(Selection, f"__i{_name}__", _in_place(f"__i{_name}__", _function))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"):
    setattr(Selection, f"__{_name}__", _operator(f"__{_name}__", getattr(operator, _name), False))


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"As `np.{name}`."
    return method


for _name in ("all", "any", "clip", "dot", "max", "mean", "min", "prod", "round", "std", "sum", "var"):
    setattr(Selection, _name, _method(_name))


class Count(TensorLike):
    """The number of elements of a selection, as an integer of Python.

    A comparison gives a guarded truth value. A quotient or product with a Tensor of float64 depends on the number and guards
    nothing. For all other uses the number is guarded.
    """

    __slots__ = ("_number", "_of")

    def __init__(self, of: Selection) -> None:
        self._of = of
        self._number: int | None = None

    def __functad_read__(self) -> Any:
        """Return the number, which is guarded."""
        if self._number is None:
            with self._of._asked():
                self._number = operator.index(self._of._count())
        return self._number

    def __functad_mask__(self) -> Any:
        """Return the Tensor on which the number depends."""
        return self._of.__functad_mask__()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(read, inputs), **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute '{name}'")
        return getattr(self.__functad_read__(), name)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.__functad_read__())


def _of_number(name: str) -> Callable[..., Any]:
    """Return a method of `Count` that calls the method of an integer."""
    function = getattr(int, name)

    def method(self: Any, *others: Any) -> Any:
        return function(self.__functad_read__(), *map(read, others))

    method.__name__ = name
    return method


def _of_count(name: str, function: Callable[[Any, Any], Any], compares: bool) -> Callable[..., Any]:
    """Return a method of `Count` that computes with the number as a Tensor if the result has the same type."""
    general = _of_number(name)

    def method(self: Any, other: Any) -> Any:
        if self._number is None and (type(other) is int if compares else _is_float64(other)):
            count = self._of._count()
            if not compares:
                return function(count, other)
            with self._of._asked():
                return bool(function(count, other))
        if not compares and isinstance(other, Recorded):
            return function(self.__functad_read__(), other)
        return general(self, other)

    method.__name__ = name
    return method


def _is_float64(value: Any) -> bool:
    return isinstance(value, Recorded) and dtype_of(value) == np.float64 and not is_weak(value)


for _name in (
    "abs", "add", "and", "bool", "ceil", "divmod", "float", "floor", "floordiv", "format", "index", "int", "invert", "lshift",
    "mod", "neg", "or", "pos", "pow", "radd", "rand", "rdivmod", "repr", "rfloordiv", "rlshift", "rmod", "ror", "round", "rpow",
    "rrshift", "rshift", "rsub", "rxor", "str", "sub", "trunc", "xor",
):  # fmt: skip
    setattr(Count, f"__{_name}__", _of_number(f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Count, f"__{_name}__", _of_count(f"__{_name}__", getattr(operator, _name), compares=True))
for _name in ("mul", "rmul", "truediv", "rtruediv"):
    _function = _SYMBOLS[_name.removeprefix("r") if _name != "rmul" else "mul"]
    if _name.startswith("r"):
        _function = partial(lambda own, count, other: own(other, count), _function)
    setattr(Count, f"__{_name}__", _of_count(f"__{_name}__", _function, compares=False))
setattr(Count, "__bool__", lambda self: self != 0)  # noqa: B010 - as above
