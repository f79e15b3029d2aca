"""`Tensor`: an array value that records the NumPy operations on it.

NumPy dispatches to a Tensor through `__array_ufunc__` and `__array_function__`. Python's operators and the methods of arrays
call the recorder directly. Conversions that would silently lose the derivative, such as `float(t)` or `np.array([t])`, raise.

`isinstance` treats a Tensor as its value, so that library code takes its usual branch: `isinstance(t, np.ndarray)` reads
`t.__class__`, which returns the type of the value. Abstract base classes, `match` and `functools.singledispatch` read it too.
`type(t)` is `Tensor`, and `isinstance(t, Tensor)` is true, since Python tests `type(t)` first. NumPy's C code uses `type` and
sees a Tensor. functad's own tests for arrays and numbers use `type` too.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, spec_of, type_of
from functad.places import here
from functad.primitives import vocabulary
from functad.primitives.elementwise.elementary import ROUND_NUMBER
from functad.primitives.entry import ENTRIES, Composite, Primitive
from functad.primitives.operands import (
    TensorAsOutError,
    as_operand,
    concrete,
    converted,
    converted_inside,
    first_tensor,
    foreign_rules_of,
    is_traced,
    is_weak,
    read,
    refuse_foreign,
    strong,
)
from functad.primitives.ufunc_methods import METHODS, call_with_keywords
from functad.primitives.vocabulary import shown_name
from functad.tracing import conversions
from functad.tracing.concrete import idle
from functad.tracing.foreign import OURS, answer_to_function, answer_to_ufunc, refuse_in_token
from functad.tracing.indexing import Reading, Writing, buffer_after, buffer_like, into, put_through, with_out_keyword, write
from functad.tracing.methods import ArrayMemory, ArrayMethods, not_assigned
from functad.tracing.operators import BINARY, SHORT, UNARY, Operators, binary, unary
from functad.tracing.trace import Recorded, Recorder, dispatch, escaped, resolve
from functad.tracing.views import c_ordered, note_read_only, refresh
from functad.trees import LEAF_KINDS

_KNOWN = (Recorded, np.ndarray, np.generic, int, float, complex, list, tuple)

_INT64 = range(-(2**63), 2**63)

_SEE_TENSOR = ("xarray.", "pandas.", "dask.", "sparse.", "scipy.sparse.", "jax._src.numpy.array_methods", "json.", "fractions")
"""Modules that see the class `Tensor` as `t.__class__`. All other modules see the class of the value.

xarray, pandas, Dask, both kinds of sparse arrays and the operators of JAX convert NumPy's types to plain arrays. They leave
other types to the protocols of NumPy and Python. json shows the type of an object that it cannot serialize. A `Fraction`
compares a float by its digits, and leaves the comparison with other types to the other operand.
"""

_SIZED = ("__len__", "__iter__", "__contains__", "__hash__")


class TensorType(type):
    """The metaclass of `Tensor`: it hides container methods, which numbers lack, from abstract base classes.

    `isinstance(t, Sized)` also tests `type(t)`: it searches `__mro__` for `__len__`, and `None` there means absent.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return (_Hidden, *type.mro(cls))


_Hidden = type("_Hidden", (), dict.fromkeys(_SIZED))


class _UnsizedError(TypeError, AttributeError):
    """The error for the length of a number: `len(t)` raises a `TypeError`, and `hasattr(t, "__len__")` is false."""


class TypeTests:
    """The attributes that type tests read."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self: Any) -> type:
        """The type of the value; in a trace without values `ndarray`, or a NumPy scalar type for shape `()`."""
        asking = sys._getframe(1)
        module = asking.f_globals.get("__name__", "")
        if module.startswith("polars."):  # its operators convert the other operand and never return `NotImplemented`
            self._plain("Conversion to an array")
        if module.startswith(_SEE_TENSOR) and not module.startswith("scipy.sparse.linalg."):
            name = asking.f_code.co_qualname
            if name == "JSONEncoder.default":  # it is about to raise
                self._plain("JSON")
            if name != "Fraction.__new__":  # it reads the digits of Python and NumPy floats
                return type(self)
        value = self
        while issubclass(type(value), Recorded):
            held = value.below
            value = value.origin[0] if held is None else held  # a stale view has the type of its root
        return type_of(value)

    @property
    def __pandas_priority__(self: Any) -> int:
        """The rank of a Tensor among the operands of pandas.

        An operator of pandas returns `NotImplemented` if the other operand has a higher rank. The in-place operators of pandas
        do not handle that result, so `s += t` raises here.
        """
        asking = sys._getframe(2)
        if asking.f_code.co_name == "_inplace_method" and asking.f_globals.get("__name__", "").startswith("pandas."):
            self._plain("Conversion to an array")
        return 10_000

    @property
    def __len__(self: Any) -> Callable[[], int]:
        """The method that `len` calls; raises for shape `()`."""
        if not self.shape:
            raise _UnsizedError("len() of a Tensor of shape ()")
        return lambda: self.shape[0]


class Tensor(TypeTests, Operators, Reading, Writing, ArrayMethods, ArrayMemory, Recorded, metaclass=TensorType):
    """A traced array value; a transform passes Tensors to its function in place of the arguments.

    A Tensor has the attributes, operators and methods of an array. Transforms create Tensors; users do not.

    Example:
        >>> import numpy as np, functad
        >>> def f(x):
        ...     print(type(x).__name__, x.shape, x.dtype)
        ...     return np.sum(x * x)
        >>> functad.grad(f)(np.array([1.0, 2.0]))
        Tensor (2,) float64
        array([2., 4.])
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    __functad_dispatch__ = staticmethod(dispatch)
    __functad_write__ = staticmethod(write)
    __functad_into__ = staticmethod(into)
    __functad_view__ = staticmethod(note_read_only)
    __functad_buffer__ = staticmethod(buffer_after)
    __functad_c_ordered__ = c_ordered
    __functad_put__ = staticmethod(put_through)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__":
            if ufunc in UNARY:
                return UNARY[ufunc](self, 2)
            if len(inputs) == 1:
                return _call_unary(ufunc, self)
        first = self
        if type(self.below) not in _STRONG and getattr(self.below, "weak", True) and all(map(is_weak, inputs)):
            if any(type(value) is int and value not in _INT64 for value in inputs):
                ufunc(*[type_of(spec_of(value))(1) if is_traced(value) else value for value in inputs])  # NumPy may raise
            inputs = tuple([strong(value) if is_traced(value) else np.asarray(value)[()] for value in inputs])
            first = next(filter(is_traced, inputs))
        if (type(inputs[0]) is complex or type(inputs[-1]) is complex) and dtype_of(self) == np.float64:
            # Python's operators would return a Python number.
            inputs = tuple([np.complex128(value) if type(value) is complex else value for value in inputs])
        if not kwargs and method == "__call__":
            short = BINARY.get(ufunc) or _binary_path(ufunc)
            if short is not None:
                x, y = inputs
                out = short[0](x, y, depth=2) if x is first else short[1](y, x, depth=2)
                if out is not NotImplemented:
                    return out
        if not all(isinstance(value, _KNOWN) for value in inputs):
            inputs = tuple([converted(value, f"np.{ufunc.__name__}") for value in inputs])
            answer = answer_to_ufunc(_KNOWN, self, ufunc, method, inputs, kwargs)
            if answer is not OURS:
                return answer
        if any(isinstance(out, Recorded) for out in kwargs.get("out", ())):
            return into(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)
        if method == "__call__":
            entry = _entry_of(ufunc)
            refuse_foreign(entry.name, *inputs)
            if kwargs:
                return call_with_keywords(entry, inputs, kwargs)
            return entry.front(*map(as_operand, inputs))
        handler = METHODS.get(method)
        if handler is None:
            raise UnsupportedError(f"np.{ufunc.__name__}.{method} has no derivative rule, at {here()}.")
        return handler(ufunc, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in SHORT and args:
            out = SHORT[function](*args, **kwargs) if kwargs or len(args) > 1 else SHORT[function](args[0])
            if out is not NotImplemented:
                return out
        if len(args) > 1 or kwargs or type(args[0]) in _LISTS:
            args, kwargs = _converted_inside(function, args, kwargs)
        if not _USUAL.issuperset(types):
            for kind in types:
                if (reason := foreign_rules_of(kind)) is not None:
                    raise UnsupportedError(f"{shown_name(function)} of a Tensor and a {kind.__name__}, at {here()}. {reason}")
            answer = answer_to_function(_KNOWN, self, function, types, args, kwargs)
            if answer is not OURS:
                return answer
        if kwargs and isinstance(kwargs.get("out"), Recorded):
            return into(function, args, kwargs)
        entry = ENTRIES.get(function) or _entry_of(function)
        if kwargs and type(kwargs.get("out")) is np.ndarray and entry.kind == "constant":
            values = {key: concrete(value, entry.name) for key, value in kwargs.items()}
            return function(*[concrete(arg, entry.name) for arg in args], **values)  # no derivative is lost
        if kwargs and isinstance(entry, Primitive) and getattr(entry.front, "__func__", None) is Primitive.__call__:
            args, kwargs = _in_places(entry, args, kwargs)
        try:
            out = entry.front(*args, **kwargs)
        except TensorAsOutError:
            return into(function, *with_out_keyword(entry.front, args, kwargs))
        return buffer_like(self, out) if entry.creates and type(out) is np.ndarray else out

    def current(self) -> Any:
        """Return the value one level lower; a stale view is refreshed first."""
        if self.below is None:
            refresh(self)
        return self.below

    @property
    def spec(self) -> ArraySpec:
        """Shape, dtype and weakness of the value."""
        return spec_of(self.current())

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        if (value := self.below) is None:
            value = self.current()
        return () if type(value) in PYTHON_SCALARS else value.shape

    @shape.setter
    def shape(self, value: Any) -> NoReturn:
        raise not_assigned("shape", value, "t = t.reshape(shape)")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        if (value := self.below) is None:
            value = self.current()
        kind = type(value)
        return PYTHON_SCALARS[kind] if kind in PYTHON_SCALARS else value.dtype

    @dtype.setter
    def dtype(self, value: Any) -> NoReturn:
        raise not_assigned("dtype", value, "t = t.astype(dtype)")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.spec.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __round__(self, ndigits: int | None = None) -> Any:
        if is_weak(self):
            return ROUND_NUMBER(self, decimals=ndigits)
        return np.round(self, 0 if ndigits is None else ndigits)

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __bool__(self) -> bool:
        return bool(self._concrete("bool"))

    def __repr__(self) -> str:
        from functad.tracing.shown import tensor_text  # noqa: PLC0415 - needed for display only

        return tensor_text(self)

    def _repr_html_(self) -> str:
        from functad.tracing.shown import tensor_markup  # noqa: PLC0415 - as above

        return tensor_markup(self)

    def __format__(self, spec: str) -> str:
        value = self.current()
        return format(value, spec) if not isinstance(value, ArraySpec) else repr(self)

    def _concrete(self, wanted: str) -> Any:
        """Return the value if it is known and the trace is open."""
        self.current()
        if self.recorder.closed:
            raise escaped(self, wanted)
        value = resolve(self)
        if value is not self:
            return value._concrete(wanted) if isinstance(value, Tensor) else value
        return self.recorder.concrete_value(self, wanted)

    def _plain(self, wanted: str) -> Any:
        """Return the plain value of a constant; raise `ConversionError` if a derivative would be lost."""
        self.current()
        value = resolve(self)
        if not isinstance(value, Tensor):
            return value
        below = value._concrete(wanted)
        if value.recorder.is_constant(value):
            return below._plain(wanted) if isinstance(below, Tensor) else below
        raise conversions.refusal(wanted)

    def numpy(self) -> Any:
        """Return the value as a new array or a number; a tape does not record operations on it.

        Raises:
            ConversionError: the Tensor belongs to a transform such as `grad`, and its derivative would be lost.
        """
        self.current()
        value = self.recorder.value_outside(self)
        return np.copy(value._plain("numpy()") if isinstance(value, Tensor) else value)[()]

    def __float__(self) -> float:
        if conversions.formatting() and self.recorder.has_values:
            return float(self.current())
        if conversions.is_asked_first(sys._getframe(1)):
            raise conversions.AskedError
        return float(self._plain("float()"))

    def __complex__(self) -> complex:
        return complex(self._plain("complex()"))

    def __int__(self) -> int:
        if conversions.formatting() and self.recorder.has_values:
            return int(self.current())
        if "__functad_adopted__" in sys._getframe(1).f_globals:  # the derivative of an integer is zero
            return int(concrete(self, "int()"))
        return int(self._plain("int()"))

    __trunc__ = __int__  # `math.trunc`

    def __index__(self) -> int:
        if self.dtype.kind in "iu":
            return int(self._concrete("index").__index__())
        return operator.index(self._plain("Use as an integer"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        refuse_in_token(self)
        return idle_tensor, (np.copy(self._plain("Pickling"))[()],)

    def item(self, *args: int) -> Any:
        """Return an element of a constant as a Python number; adopted code gets a Tensor of shape `()`.

        Args:
            args: the position, as for the method of arrays; none for an array of one element.

        Returns:
            A Python number.

        Raises:
            ConversionError: the Tensor belongs to a transform such as `grad`, and its derivative would be lost.
        """
        if "__functad_adopted__" in sys._getframe(1).f_globals and self.dtype.kind in "fc":
            flat = self.reshape(-1)
            return self[args].reshape(()) if len(args) > 1 else flat[args[0]] if args else flat.reshape(())
        return self._plain("item()").item(*args)

    def as_integer_ratio(self) -> Any:
        """Return a constant as a fraction; raise `ConversionError` if a derivative would be lost."""
        return self._plain("as_integer_ratio()").as_integer_ratio()

    def hex(self) -> Any:
        """Return a constant as hexadecimal digits; raise `ConversionError` if a derivative would be lost."""
        return self._plain("hex()").hex()

    def is_integer(self) -> bool:
        """Return `True` if the number is an integer, as `float.is_integer`."""
        return bool(self._concrete("is_integer()").is_integer())

    def tolist(self) -> Any:
        """Return the elements of a constant as Python numbers; adopted code gets lists of Tensors."""
        if "__functad_adopted__" in sys._getframe(1).f_globals and self.dtype.kind in "fc":
            return _listed(self)
        return self._plain("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if conversions.is_asked_first(sys._getframe(1)):
            raise conversions.AskedError
        if conversions.asks_for("numpy.testing"):
            return np.asarray(self._concrete("array"), dtype)
        if conversions.multiplying_sparse() and isinstance(resolve(self), Tensor):
            return np.empty((), object)  # SciPy then leaves the product to the other operand
        return np.array(self._plain("Conversion to an array"), dtype, copy=copy)


def _listed(tensor: Any) -> Any:
    """Return the elements of a Tensor as nested lists of Tensors of shape `()`."""
    return list(map(_listed, tensor)) if tensor.shape else tensor


LEAF_KINDS.add(Tensor)
Recorder.tensor_class = Tensor
_FLOAT32 = np.dtype(np.float32)
_USUAL = frozenset({Tensor, np.ndarray})
_STRONG = frozenset({np.ndarray, np.float64, np.float32})
_LISTS = frozenset({list, tuple})
_PLAIN = frozenset({Tensor, np.ndarray, np.float64, float, int, bool, str, type(None)})
"""The types of nearly all arguments; they need no conversion."""


def _converted_inside(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of a NumPy function with foreign arrays and lists of Tensors converted."""
    if _PLAIN.issuperset(map(type, args)) and _PLAIN.issuperset(map(type, kwargs.values())):
        return args, kwargs
    name = shown_name(function)
    args = tuple([_converted(function, i, converted_inside(value, name)) for i, value in enumerate(args)])
    return args, {key: _converted(function, key, converted_inside(value, name)) for key, value in kwargs.items()}


def _converted(function: Any, parameter: int | str, value: Any) -> Any:
    """Return a (nested) list of Tensors as one Tensor if the parameter takes an array; other values unchanged.

    Lists of integers stay unchanged, since they may be shapes.
    """
    if type(value) not in _LISTS or (tensor := first_tensor(value)) is None:
        return value
    entry = vocabulary.find(function)
    if entry is None or not entry.takes_array(parameter) or read(tensor).dtype.kind not in "fc":
        return value
    return as_operand(value)


def _in_places(primitive: Primitive, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a primitive with array keywords moved to their positions."""
    left = dict(kwargs)
    for name in _array_names(primitive)[len(args) :]:
        if name not in left:
            break
        args = (*args, left.pop(name))
    return args, left


@functools.cache
def _array_names(primitive: Primitive) -> tuple[str, ...]:
    """Return the names of the leading parameters of a NumPy function that are arrays or have no default."""
    parameters = list(inspect.signature(primitive.function).parameters.values())
    first = itertools.takewhile(
        lambda place: place[0] < len(primitive.names) or place[1].default is place[1].empty, enumerate(parameters)
    )
    return tuple([parameter.name for _, parameter in first])


def idle_tensor(value: Any) -> Tensor:
    """Return a copy of a value as a Tensor outside all traces."""
    return idle(Tensor, np.copy(value)[()])  # type: ignore[no-any-return]


def _call_unary(ufunc: np.ufunc, x: Tensor) -> Any:
    """Call a ufunc of one argument that has no fast path, and add the fast path if the ufunc is elementwise."""
    entry = _entry_of(ufunc)
    if not isinstance(entry, Primitive) or entry.kind != "elementwise" or not entry.differentiable(0):
        return entry.front(x if getattr(entry, "compute", ufunc) is ufunc else strong(x))
    return entry.front(x) if entry.reverse_plan((0,)).push is None else unary(entry)(x, 3)


def _binary_path(ufunc: np.ufunc) -> Any:
    """Add and return the fast path of a ufunc of two arguments; `None` if it cannot have one."""
    entry = ENTRIES.get(ufunc)
    if not isinstance(entry, Primitive) or entry.kind != "elementwise" or len(entry.names) != 2 or entry.partial:
        return None
    if not entry.differentiable(0) or not entry.differentiable(1) or entry.reverse_plan((0, 1)).push is None:
        return None
    return binary(entry) if _keeps_dtype(ufunc) else None


def _keeps_dtype(ufunc: np.ufunc) -> bool:
    """Return `True` if a ufunc returns float32 for two float32 arrays; `float_power`, for example, returns float64."""
    try:
        return bool(ufunc.resolve_dtypes((_FLOAT32, _FLOAT32, None))[2] == _FLOAT32)
    except TypeError:
        return False


def _entry_of(function: Any) -> Primitive | Composite:
    """Return the entry of a NumPy function.

    Raises:
        UnsupportedError: there is none.
    """
    entry = vocabulary.find(function)
    if entry is None:
        raise UnsupportedError(
            f"{shown_name(function)} has no derivative rule, at {here()}. {conversions.instead_of(function)}"
        )
    return entry  # type: ignore[return-value]
