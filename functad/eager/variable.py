"""Variables: named values that change by assignment. A tape follows a Variable from its first read.

`ACTIVE` holds the active recorders of tapes. Tapes set it at start and stop, and a Variable looks it up at each read.
`TensorLike` is the base class of Variables and their parts, which act like the Tensor that is read from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from functad.errors import AbstractValueError, AssignmentError, InputError, UnconnectedWarning
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, name_of, warn
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.operands import array_api_advice, foreign_rules, has_array_api_alone, read
from functad.process import context_variable, setting
from functad.tracing.batch import Batched
from functad.tracing.concrete import ConcreteRecorder, idle
from functad.tracing.conversions import passes_on
from functad.tracing.operators import BINARY, UNARY
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, resolve
from functad.tracing.views import clone
from functad.transforms.row_slices import RowSlices, whole

ACTIVE: ContextVar[tuple[Any, ...]] = context_variable("active", default=())
"""The recorders that record now in this thread or coroutine, in the order of their serial numbers."""

_stamps = itertools.count(1)


class Stamp:
    """A number that changes when a tape starts, stops or watches a value; it invalidates the cached reads of Variables."""

    current = 0

    @classmethod
    def renew(cls) -> None:
        """Change the number."""
        cls.current = next(_stamps)


def refuse_foreign_rules(value: Any, call: str) -> None:
    """Raise `InputError` for an array subclass with rules of its own, or a list that holds one: a mask would be lost."""
    if type(value) in (list, tuple):
        if not set(map(type, value)) <= _PLAIN_KINDS:
            for part in value:
                refuse_foreign_rules(part, call)
    elif type(value) is not np.ndarray and issubclass(type(value), np.ndarray) and (reason := foreign_rules(value)):
        raise InputError(f"{call} of a {type(value).__name__}, at {here()}. {reason}")


def refuse_foreign(value: Any, call: str) -> None:
    """Raise `InputError` as `refuse_foreign_rules`, and for an array without a protocol of NumPy, such as an array of JAX."""
    refuse_foreign_rules(value, call)
    if has_array_api_alone(type(value)):
        raise InputError(f"{call} of a {type(value).__name__}, at {here()}. {array_api_advice(type(value))}")


def _read_inside(value: Any) -> Any:
    """Read a value, and all values in nested lists, tuples and dicts."""
    if isinstance(value, list):
        return [_read_inside(part) for part in value]
    if type(value) is tuple:
        return tuple([_read_inside(part) for part in value])
    if type(value) is dict:
        return {key: _read_inside(part) for key, part in value.items()}
    return read(value)


def _operator(name: str) -> Callable[..., Any]:
    """Return an operator method that reads the Tensor and applies its operator; the recorded line is the caller's."""
    operator = getattr(Tensor, name)
    depth = {"depth": 2} if "depth" in getattr(operator, "__code__", read.__code__).co_varnames else {}
    forward = getattr(Tensor, f"__{name[3:]}", None) if name.startswith("__r") and depth else None

    def method(self: Any, *others: Any) -> Any:
        if not others:
            return operator(self.__functad_read__(), **depth)
        other = others[0] if type(others[0]) in _PLAIN_KINDS else read(others[0])
        if forward is not None and type(other) is Tensor:  # the fast path is a method of the first operand
            return forward(other, self.__functad_read__(), **depth)
        return operator(self.__functad_read__(), other, *others[1:], **depth)

    method.__name__ = name
    return method


def _delegated(name: str) -> Callable[..., Any]:
    """Return a method that calls the method of the Tensor."""
    method = getattr(Tensor, name)

    def delegate(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self.__functad_read__(), *args, **kwargs)

    passes_on(delegate.__code__)
    delegate.__name__, delegate.__doc__ = name, method.__doc__
    return delegate


_PLAIN_KINDS = frozenset({np.ndarray, np.float64, float, int, Tensor})


class TensorLike:
    """Operators, NumPy's protocols and array attributes, all delegated to the Tensor that `__functad_read__` returns."""

    __slots__ = ("__weakref__",)
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]  # equality is elementwise, as for arrays

    def __functad_read__(self) -> Tensor:
        raise TypeError(f"{type(self).__name__} cannot be read")  # every subclass overrides this method

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and list not in map(type, inputs):
            values = [value if type(value) in _PLAIN_KINDS else read(value) for value in inputs]
            if len(values) == 1:
                unary = UNARY.get(ufunc)
                if unary is not None:
                    return unary(values[0], 2)
            else:
                short = BINARY.get(ufunc)
                if short is not None:
                    x, y = values
                    return short[0](x, y, depth=2) if type(x) is Tensor else short[1](y, x, depth=2)
            return self.__functad_read__().__array_ufunc__(ufunc, method, *values)
        return getattr(ufunc, method)(*map(_read_inside, inputs), **_read_inside(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_read_inside(args), **_read_inside(kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.__functad_read__(), name)

    def __len__(self) -> int:
        return len(self.__functad_read__())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__functad_read__())

    if TYPE_CHECKING:  # a loop below makes these methods, which checkers of types do not see

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...


_CONVERSIONS = ["array", "array_namespace", "bool", "complex", "float", "format", "index", "int"]
_UNARY = ["neg", "pos", "abs", "invert", "round"]
_COMPARISONS = ["contains", "lt", "le", "gt", "ge", "eq", "ne"]
_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "divmod", "and", "or", "xor", "lshift", "rshift"]

for _name in (*_UNARY, *_COMPARISONS, *_BINARY, *("r" + _name for _name in _BINARY)):
    setattr(TensorLike, f"__{_name}__", _operator(f"__{_name}__"))
for _name in _CONVERSIONS:
    setattr(TensorLike, f"__{_name}__", _delegated(f"__{_name}__"))


def note_assigned(value: Any, method: str) -> None:
    """Tell the recorders of a Tensor that its value is assigned to a Variable."""
    while isinstance(value, Recorded):
        value.recorder.assigned(value, method)
        value = value.below


def followers(value: Any) -> Any:
    """Return weak references to the open traces that follow a value, and the user's line; `None` without such traces."""
    found = []
    while isinstance(value, Recorded):
        recorder = value.recorder
        follows = isinstance(recorder, ConcreteRecorder) or not recorder.has_values
        follows = follows and recorder.transform != "explain"  # it lists the assignment itself
        if follows and not (recorder.closed or recorder.inactive):
            found.append(ref(recorder))
        value = value.below
    return (found, here()) if found else None


def plain_of(value: Any, call: str) -> Any:
    """Return the plain value of a value that is assigned; raise `AbstractValueError` if it has none, or one per example."""
    value = resolve(value)
    while isinstance(value, Recorded):
        recorder, value = value.recorder, value.current()  # type: ignore[attr-defined]
        if isinstance(value, Batched):
            raise AbstractValueError(
                f"{call}, at {here()}, of a value that stands for all examples in {recorder.transform} of "
                f"{name_of(recorder.function)}: a Variable holds one. Return the value from the function, and assign what "
                f"comes back: v.assign(np.mean(out, axis=0)). For a Variable of each example's own, use functional_call."
            )
        if isinstance(value, ArraySpec):
            raise AbstractValueError(
                f"{call}, at {here()}, of a Tensor without a value, {value}: an abstract trace has none. Return the Tensor "
                f"from the function, and assign the result."
            )
    return value


_created = itertools.count()

_READ: ContextVar[list[Any] | None] = context_variable("read", default=None)

SCOPE: ContextVar[str] = context_variable("scope", default="")
"""The prefix of the names of new Variables, such as `model/dense`."""

GIVEN: ContextVar[dict[int, Given]] = context_variable("given", default={})
"""By identity of the Variable, the values that replace values of Variables in this thread or coroutine."""


MAKER: ContextVar[Callable[[Variable], Given] | None] = context_variable("maker", default=None)
"""The function that makes a `Given` for a Variable without one: an abstract trace turns the Variable into an input."""


class Given:
    """A temporary value of a Variable, and its cached read.

    Tapes that are already open treat the value as independent of the Variable. Tapes opened later follow it as they follow
    the Variable.
    """

    __slots__ = ("_besides", "_latest", "_value", "variable")

    def __init__(self, variable: Variable, value: Any, besides: Sequence[Any]) -> None:
        self.variable = variable
        self._value = value
        self._besides = besides
        self._latest: Any = None


@contextmanager
def standing_in(values: Iterable[tuple[Variable, Any]]) -> Iterator[None]:
    """Return a context in which each Variable has the given value; no other code may hold the arrays."""
    open_tapes = tuple([tape for recorder in ACTIVE.get() for tape in recorder.tapes])
    given = {id(variable): Given(variable, value, open_tapes) for variable, value in values}
    with setting(GIVEN, GIVEN.get() | given):
        yield


@contextmanager
def reading() -> Iterator[list[Any]]:
    """Return a context that yields the list of the Variables read in it, each once."""
    found: list[Any] = []
    with setting(_READ, found):
        yield found


class Variable(TensorLike):
    """A named value that changes by assignment. Tapes and the implicit gradient functions differentiate with respect to it.

    A Variable acts like a Tensor of its present value. Earlier results keep the old value after an assignment.

    Args:
        initial: an array, a number, a nested list of numbers, a Tensor, another Variable, or a function without arguments that
            returns one of these. The value is copied.
        trainable: tapes follow the Variable without `watch`. `None` means `True` for floating-point and complex numbers, else
            `False`.
        name: the name in messages, after the name scopes of modules. Default: `Variable`.
        dtype: the dtype. Default: the dtype of the initial value.

    Raises:
        TypeError: a trainable Variable has integers, or the initial value is not numeric.
        ValueError: there is no initial value.

    Example:
        >>> import numpy as np, functad
        >>> v = functad.Variable([1.0, 2.0], name="v")
        >>> (v * 3).numpy()
        array([3., 6.])
        >>> v.assign_add([1.0, 1.0]).numpy()
        array([2., 3.])
    """

    __slots__ = ("__dict__",)
    _frozen = False
    _besides = ()
    _cut: Any = None

    def __init__(self, initial: Any, trainable: bool | None = None, name: str | None = None, dtype: Any = None) -> None:
        value = initial() if callable(initial) and not isinstance(initial, TensorLike) else initial
        if value is None:
            raise ValueError(f"a Variable needs an initial value, at {here()}: Variable(np.zeros(shape)).")
        value = read(value)
        refuse_foreign(value, "Variable()")
        array = np.array(plain_of(value, "Variable()"), dtype)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"a Variable of {array.dtype}, at {here()}, cannot be: pass numbers.")
        inexact = array.dtype.kind in "fc"
        if trainable and not inexact:
            raise InputError(
                f"a trainable Variable of {array.dtype}, at {here()}: integers have no derivative. Pass floats, "
                f"dtype=float, or trainable=False."
            )
        self._trainable = inexact if trainable is None else bool(trainable)
        scope = SCOPE.get()
        self.name = (f"{scope}/" if scope else "") + ("Variable" if name is None else name)
        self.number = next(_created)
        self._value: Any
        self._spec = (array.shape, array.dtype)
        note_assigned(value, "Variable()")
        self._set(array, followers(value))

    @property
    def trainable(self) -> bool:
        """Whether tapes follow the Variable without `watch`. `Module.trainable` can turn this off temporarily."""
        return self._trainable and not self._frozen

    def freeze(self, frozen: bool) -> None:
        """Make the Variable not trainable, or restore its own setting. Called by `Module.trainable`."""
        if frozen != self._frozen:
            self._frozen = frozen
            Stamp.renew()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self._spec[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the value."""
        given = GIVEN.get()
        return dtype_of(given[id(self)]._value) if id(self) in given else self._spec[1]

    @property
    def held(self) -> Any:
        """The present value, read-only. Each assignment makes a new object."""
        return self._value

    def _set(self, value: Any, cut: Any) -> None:
        """Set a value that no other code holds; `cut` is the result of `followers` for it."""
        if type(value) is np.ndarray:
            value = value[()]
            if type(value) is np.ndarray:
                value.setflags(write=False)
        self._value = value  # the value changes in this one step
        self._cut = cut
        self._latest: Any = None  # stamp, recorders, value and Tensor of the last read; one tuple, for other threads

    def putting_back(self) -> Callable[[], None]:
        """Return a function that restores the present value, and the note that its assignment cuts a derivative."""
        value, cut = self._value, self._cut

        def put_back() -> None:
            self._value, self._cut, self._latest = value, cut, None  # a new read warns of the cut

        return put_back

    def _given(self) -> Given | None:
        """Return the temporary value of the Variable, or `None`."""
        given, make = GIVEN.get(), MAKER.get()
        if given and id(self) in given:
            return given[id(self)]
        return None if make is None else make(self)

    def __functad_read__(self) -> Tensor:
        active = ACTIVE.get()
        found = _READ.get()
        if found is not None and not any(other is self for other in found):
            found.append(self)
        holder: Any = self._given() or self
        stamp, latest, value = Stamp.current, holder._latest, holder._value
        if latest is not None and latest[0] == stamp and latest[1] == active and latest[2] is value:
            return latest[3]  # type: ignore[no-any-return]
        if self._cut is not None and holder is self:
            self._warn_of_cut()
        tensor: Any = clone(value) if isinstance(value, Recorded) else idle(Tensor, value)
        for recorder in active:
            recorder.take(self, tensor, holder._besides)
        holder._latest = stamp, active, value, tensor
        return tensor  # type: ignore[no-any-return]

    def read_value(self) -> Any:
        """Return a copy of the present value as a Tensor. Later assignments do not change the copy."""
        return COPY(self.__functad_read__())

    value = read_value

    def _warn_of_cut(self) -> None:
        """Warn if the value is a copy of a Tensor that a trace still follows: the assignment cuts its derivative."""
        followers, place = self._cut
        following = [r.transform for weak in followers if (r := weak()) is not None and not (r.closed or r.inactive)]
        if following:
            warn(
                UnconnectedWarning(
                    f"the Variable {self.name!r}, read at {here()}, holds a copy, made at {place}, of a value that "
                    f"{following[-1]} follows: no derivative flows through an assignment. Use the value itself, or "
                    f"functional_call; or assign functad.stop_gradient(value), which says that this is meant."
                )
            )
        else:
            self._cut = None

    def numpy(self) -> Any:
        """Return a copy of the present value as an array or number. Tapes note that the value left the trace."""
        return self.__functad_read__().numpy() if ACTIVE.get() else self.copied()

    def copied(self) -> Any:
        """Return a copy of the present value as `numpy` does, without a note in tapes."""
        return self.__functad_read__().numpy() if id(self) in GIVEN.get() else np.copy(self._value)[()]

    def assign(self, value: Any, *, read_value: bool = True) -> Variable | None:
        """Replace the value. No derivative flows through an assignment.

        If a trace, such as `grad` or an open tape, still follows the assigned value when the Variable is read, the read gives
        an `UnconnectedWarning`.

        Args:
            value: a value with the shape of the Variable and a dtype that can be cast to the dtype of the Variable.
            read_value: return the Variable, so that calls can be chained.

        Returns:
            The Variable, or `None` with `read_value=False`.

        Raises:
            ValueError: the shape differs.
            TypeError: floats would become integers, or complex numbers real.
            RuntimeError: `functional_call` gave the Variable a value.
        """
        return self._change(whole(value), "assign", _replaced, read_value)

    def assign_add(self, delta: Any, *, read_value: bool = True) -> Variable | None:
        """Add to the value, as `assign` does, also with its errors.

        Args:
            delta: the increment: a value as for `assign`, or `RowSlices` of such a value.
            read_value: return the Variable, so that calls can be chained.

        Returns:
            The Variable, or `None` with `read_value=False`.
        """
        return self._change(delta, "assign_add", np.add, read_value)

    def assign_sub(self, delta: Any, *, read_value: bool = True) -> Variable | None:
        """Subtract from the value, as `assign` does, also with its errors.

        Args:
            delta, read_value: as for `assign_add`.

        Returns:
            The Variable, or `None` with `read_value=False`.
        """
        return self._change(delta, "assign_sub", np.subtract, read_value)

    def _change(self, delta: Any, method: str, change: Any, read_value: bool) -> Variable | None:
        """Change the value, or some of its rows; a row that is given twice changes twice."""
        given, call = read(delta.values if isinstance(delta, RowSlices) else delta), f"{method} to the Variable {self.name!r}"
        if MAKER.get() is not None and id(self) not in GIVEN.get():  # the value is a Tensor
            value, holder = read(whole(delta)), self._given()
            self._check_fit(shape_of(value), dtype_of(value), method, call)
            new = change(read(self), value if isinstance(value, Recorded) else np.asarray(value))
            holder.change(new if dtype_of(new) == self.dtype else new.astype(self.dtype))  # type: ignore[union-attr]
            return self if read_value else None
        plain = self._plain(given, method, call)
        self._check_fit(delta.shape if isinstance(delta, RowSlices) else plain.shape, plain.dtype, method, call)
        plain = plain.astype(self.dtype, copy=False)
        if isinstance(delta, RowSlices):
            changed = np.array(self._value)
            change.at(changed, delta.indices, plain)
        else:
            changed = change(self._value, plain)
        self._set(changed, followers(given) or (None if change is _replaced else self._cut))
        return self if read_value else None

    def _plain(self, value: Any, method: str, call: str) -> Any:
        """Return a copy of a value to assign as a plain array."""
        if id(self) in GIVEN.get():
            raise RuntimeError(
                f"{method} to the Variable {self.name!r}, at {here()}, which functional_call has given a value, would be lost. "
                f"Leave it out of the values, so that the Variable itself changes, or return the new value from the call."
            )
        note_assigned(value, method)
        refuse_foreign_rules(value, call)
        return np.array(plain_of(value, call))

    def _check_fit(self, shape: tuple[int, ...] | None, dtype: np.dtype[Any], method: str, call: str) -> None:
        """Raise an error for a value of another shape, unless it is `None`, or of a dtype that would lose information."""
        if shape is not None and shape != self.shape:
            raise AssignmentError(
                f"{method} of a value of shape {shape} to the Variable {self.name!r} of shape {self.shape}, at {here()}: "
                f"the shapes must be equal. Use np.broadcast_to(value, v.shape) if it is to be repeated."
            )
        if not np.can_cast(dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"{call} of {self.dtype}, at {here()}, of a value of {dtype}, would lose information. "
                f"Cast it first: value.astype(v.dtype)."
            )

    def __getitem__(self, index: Any) -> VariablePart:
        return VariablePart(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(f"a Variable does not support item assignment, at {here()}: write v[i].assign(value).")

    def __repr__(self) -> str:
        from functad.eager.shown import variable_text  # noqa: PLC0415 - only displays need it

        return variable_text(self.name, GIVEN.get().get(id(self), self)._value)

    def _repr_html_(self) -> str:
        from functad.eager.shown import variable_markup  # noqa: PLC0415 - as above

        return variable_markup(self, GIVEN.get().get(id(self), self)._value)

    def __copy__(self) -> Variable:
        make, arguments, state = self.__reduce__()
        copy: Variable = make(*arguments)
        copy.__dict__.update(state)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return Variable, (self.copied(), self._trainable), {"name": self.name, "_frozen": self._frozen}


def _replaced(old: Any, new: Any) -> Any:
    """Return the new value, for `assign`."""
    return new


def _refuse_in_place(symbol: str, method: str) -> Callable[[Any, Any], Any]:
    def refuse(self: Any, other: Any) -> Any:
        raise TypeError(
            f"`v {symbol} x` on the Variable {self.name!r}, at {here()}, could mean an assignment or a new Tensor. "
            f"Write {method} for the one, y = v {symbol[:-1]} x for the other."
        )

    return refuse


for _name, _symbol in (
    *(("add", "+="), ("sub", "-="), ("mul", "*="), ("truediv", "/="), ("floordiv", "//="), ("mod", "%="), ("pow", "**=")),
    *(("matmul", "@="), ("and", "&="), ("or", "|="), ("xor", "^="), ("lshift", "<<="), ("rshift", ">>=")),
):
    _method = f"v.assign_{_name}(x)" if _name in ("add", "sub") else f"v.assign(v {_symbol[:-1]} x)"
    setattr(Variable, f"__i{_name}__", _refuse_in_place(_symbol, _method))


class VariablePart(TensorLike):
    """`v[i]`: the elements as a Tensor, with methods that assign to them."""

    __slots__ = ("_index", "_tensor", "_variable")

    def __init__(self, variable: Variable, index: Any) -> None:
        self._variable = variable
        self._index = read(index)
        self._tensor = variable.__functad_read__()[self._index]

    def __functad_read__(self) -> Tensor:
        return self._tensor  # type: ignore[no-any-return]

    def __getitem__(self, index: Any) -> Any:
        return self._tensor[read(index)]

    def __repr__(self) -> str:
        return repr(self._tensor)

    def _repr_html_(self) -> str:
        return self._tensor._repr_html_()  # type: ignore[no-any-return]

    def _assign(self, value: Any, change: Callable[[Any, Any], Any]) -> Variable:
        variable, value = self._variable, read(value)
        call = f"assign to a part of the Variable {variable.name!r}"
        index, part = plain_of(self._index, call), variable._plain(value, "assign", call)
        variable._check_fit(None, part.dtype, "assign", call)
        array = np.array(variable.held)
        old = array[index]
        try:
            array[index] = change(old, np.broadcast_to(part, np.shape(old)))
        except ValueError:
            raise AssignmentError(
                f"{call}, at {here()}, of a value of shape {part.shape}: the part has shape {np.shape(old)}."
            ) from None
        variable._set(array, followers(value) or variable._cut)
        return variable

    def assign(self, value: Any) -> Variable:
        """Replace these elements of the Variable, and return the Variable."""
        return self._assign(value, _replaced)

    def assign_add(self, delta: Any) -> Variable:
        """Add to these elements of the Variable, and return the Variable."""
        return self._assign(delta, np.add)

    def assign_sub(self, delta: Any) -> Variable:
        """Subtract from these elements of the Variable, and return the Variable."""
        return self._assign(delta, np.subtract)
