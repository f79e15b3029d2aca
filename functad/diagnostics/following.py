"""The trace of `explain`, which also records operations without derivative.

`Follower` records the operations between an argument and the result during one run of the function. It has its own Tensor
class.

Under `grad` a comparison, a rounding or `stop_gradient` returns a plain value, and the trace ends there. `Follower` returns a
constant Tensor instead, so that it records the further dependence on the arguments. A constant Tensor behaves like its plain
value: it decides branches, indexes arrays, and converts to an array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.spec import dtype_of
from functad.places import here
from functad.primitives.entry import INTERNAL, Primitive
from functad.primitives.operands import innermost
from functad.primitives.vocabulary import shown_name
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, Recorder
from functad.tracing.views import note_if_view
from functad.trees.structure import flatten

_NUMBERS = (bool, int, float, complex)
_USES = {
    "bool": "decides a branch",
    "index": "is used as an integer",
    "Use as an integer": "is used as an integer",
    "array": "becomes a plain array",
    "Conversion to an array": "becomes a plain array",
    **dict.fromkeys(("assign", "assign_add", "assign_sub", "Variable()"), "is assigned to a Variable"),
}
_EQUALITIES = frozenset({"np.array_equal", "np.array_equiv", "np.allclose", "np.isclose", "np.equal"})


class Step(NamedTuple):
    """One operation of a followed trace.

    Attributes:
        text: the operation and its line.
        parents: the slots of all its Tensor arguments.
        active: the slots of the arguments with a derivative.
    """

    text: str
    parents: tuple[int, ...]
    active: tuple[int, ...]


class Follower(ReverseRecorder):
    """A reverse trace that also records operations without derivative.

    Attributes:
        steps: by slot, the operation that made it.
        uses: the values that left the trace: slot, text with the line, and `True` if `grad` would raise there.
        equal: the comparisons for equality that were true, which may be a look-up in a cache: text with the line, and the slots
            of the compared values.
    """

    sees_inside = True

    def __init__(self, function: object) -> None:
        super().__init__("explain", function)
        self.fast, self.monitor = False, None  # the fast paths would bypass `process`
        self.steps: list[Step] = []
        self.uses: list[tuple[int, str, bool]] = []
        self.equal: list[tuple[str, tuple[int, ...]]] = []

    def enter(self, value: Any) -> Any:
        """Add an input and return its Tensor."""
        slot = self.inputs
        self.steps.append(Step("input", (), (slot,)))
        return super().enter(value)

    def lowered(self, primitive: Primitive, arrays: tuple[Any, ...]) -> tuple[Sequence[Any], tuple[int, ...], bool]:
        """Return the arguments one level lower; constant Tensors are not among the differentiated positions."""
        values, active, nested = super().lowered(primitive, arrays)
        return values, tuple([i for i in active if arrays[i].alive]), nested

    def record(self, *call: Any) -> Any:
        """Record a computed call and its step."""
        primitive, arrays, _, active, params, _ = call
        made = super().record(*call)
        step = self.step(primitive, arrays, params, tuple([arrays[i].slot for i in active]))
        self.steps.extend([step] * (len(self.records) - len(self.steps)))
        return made

    def underived(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
        """Return a result without derivative as constant Tensors."""
        if out is NotImplemented:
            return out
        step = self.step(primitive, arrays, params)
        self.compare(_described(primitive, params), step, out)
        counts = isinstance(primitive.function, np.ufunc) or primitive in INTERNAL
        result = self.constant(out, step, numbers=counts)
        if primitive.views and step.parents and isinstance(result, Followed):
            # a buffer is a constant until the first write, and may have views too
            note_if_view(arrays[0], result, arrays[0].below, out, primitive, params)
        return result

    write = Recorder.write  # an operation like others; nothing is written in place

    def step(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], active: tuple[int, ...] = ()) -> Step:
        """Return the step of a call."""
        parents = tuple([a.slot for a in arrays if isinstance(a, Recorded) and a.recorder is self])
        return Step(f"{_described(primitive, params)} at {here()}", parents, active)

    def assigned(self, tensor: Any, what: str) -> None:
        """Note that the value of a Tensor is assigned to a Variable."""
        tensor._note(what)

    def compare(self, name: str, step: Step, out: Any) -> None:
        """Note a comparison for equality that is true everywhere; ignore other operations."""
        if name in _EQUALITIES and np.all(innermost(out)):
            self.equal.append((step.text, step.parents))

    def buffer(self, value: Any) -> Any:
        """Return a new array as a constant Tensor, so that Tensors can be written into it."""
        return self.constant(value, Step(f"a new array at {here()}", (), ()))

    def constant(self, out: Any, step: Step, *, numbers: bool = False) -> Any:
        """Return a result, or each element of a tuple or list, as a constant Tensor.

        Args:
            out: the result of an operation. A shape, a dtype or another object that is not an array is returned unchanged.
            step: the operation.
            numbers: convert Python numbers too; otherwise they count as lengths and stay unchanged.
        """
        if isinstance(out, (tuple, list)):
            parts = [self.constant(part, step) for part in out]
            return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
        is_array = issubclass(type(out), (np.ndarray, np.generic, Recorded)) and dtype_of(out).kind in "biufc"
        if not is_array and not (numbers and issubclass(type(out), _NUMBERS)):
            return out
        self.steps.append(step)
        return self.append(None, out)


class Followed(Tensor):
    """A Tensor of a `Follower`: alive, or constant, as its value would be under `grad`."""

    __slots__ = ()

    @property
    def alive(self) -> bool:
        """Whether the value would be a Tensor under `grad`."""
        self.renew()
        return bool(self.recorder.steps[self.slot].active)  # type: ignore[attr-defined]

    def _note(self, wanted: str, *, refused: bool = False) -> None:
        text = f"{_USES.get(wanted, f'is converted by {wanted}')} at {here()}"
        self.recorder.uses.append((self.slot, text, refused))  # type: ignore[attr-defined]

    def _concrete(self, wanted: str) -> Any:
        value = super()._concrete(wanted)
        self._note(wanted)
        return value

    def _plain(self, wanted: str) -> Any:
        """Return the converted value, and note the conversion."""
        value = Tensor._concrete(self, wanted)
        convert: Any = {
            "float()": float,
            "complex()": complex,
            "int()": int,
            "Conversion to an array": np.asarray,
            "tolist()": np.asarray,
            "Use as an integer": operator.index,
            "Pickling": np.asarray,
            "numpy()": np.copy,
        }
        self._note(wanted, refused=self.alive)
        return convert[wanted](value)

    def item(self, *args: int) -> Any:
        """Return the element as a Python number, and note the conversion."""
        return np.asarray(self._plain("Conversion to an array")).item(*args)

    def __hash__(self) -> int:
        return super().__hash__() if self.alive else hash(self._concrete("hash()"))

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_plain_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.alive or any(isinstance(leaf, Followed) and leaf.alive for leaf in flatten(value)[0]):
            super().__setitem__(_plain_index(index), value)
        else:
            self.below[_plain_index(index)] = value

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only arrays have, if the Tensor is constant."""
        if name.startswith("__") or self.alive:
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        return getattr(self._concrete(f".{name}"), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        called = getattr(ufunc, method)
        if _all_constant((inputs, kwargs)):
            return self._call(called, f"np.{ufunc.__name__}", inputs, kwargs)
        if method == "__call__" and not kwargs:
            kwargs = {"order": "K"}  # the fast path without keywords supports the class Tensor only
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _all_constant((args, kwargs)):
            return self._call(function, shown_name(function), args, kwargs)
        return super().__array_function__(function, types, args, kwargs)

    def _call(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Call a function with constant Tensors only, and return its result as constant Tensors."""
        leaves, structure = flatten((args, kwargs))
        parents = tuple([leaf.slot for leaf in leaves if isinstance(leaf, Followed)])
        args, kwargs = structure.unflatten([leaf.below if isinstance(leaf, Followed) else leaf for leaf in leaves])
        out, step = function(*args, **kwargs), Step(f"{name} at {here()}", parents, ())
        follower: Any = next(leaf for leaf in leaves if isinstance(leaf, Followed)).recorder  # `self` may be a stale view
        follower.compare(name, step, out)
        return follower.constant(out, step)


Follower.tensor_class = Followed


def _all_constant(tree: Any) -> bool:
    """Return `True` if a pytree holds Tensors, all constant and of one `Follower`.

    It holds none if NumPy dispatched the call for `like=`, or for an iterator that may yield Tensors.
    """
    tensors = [leaf for leaf in flatten(tree)[0] if isinstance(leaf, Recorded)]
    constant = [isinstance(t, Followed) and not t.alive for t in tensors]  # `alive` refreshes a stale view
    return all(constant) and len({id(t.recorder) for t in tensors}) == 1


def _plain_index(index: Any) -> Any:
    """Return an index with plain values in place of constant Tensors."""
    if isinstance(index, (tuple, list)):
        return type(index)([_plain_index(part) for part in index])
    if isinstance(index, slice):
        return slice(*[_plain_index(part) for part in (index.start, index.stop, index.step)])
    return index._concrete("index") if isinstance(index, Followed) and not index.alive else index


def _described(primitive: Primitive, params: dict[str, Any]) -> str:
    if primitive.name == "astype_integer":
        return f"astype({params['dtype']})"
    if "[approximate=" in primitive.name:  # numerical_primitive puts its method into the name
        return primitive.name
    if primitive in INTERNAL:
        return f"np.{primitive.name}" if hasattr(np, primitive.name) else primitive.name
    return shown_name(primitive.function)
