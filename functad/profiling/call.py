"""A repeatable call for measurements: each run gets copies of the arguments, and user state is restored."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.jit import Jitted
from functad.eager.variable import MAKER, Given, Variable, reading, standing_in
from functad.errors import InputError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number
from functad.places import name_of
from functad.primitives.operands import innermost
from functad.process import setting
from functad.tracing.ownership import hold_input
from functad.tracing.trace import Recorded, Recorder
from functad.transforms.boundary import checked_leaves, split_aux, undifferentiable
from functad.transforms.reverse import seeded
from functad.transforms.transform import ArgNames, ArgNums, Selection
from functad.trees.structure import Structure, flatten


class Part(NamedTuple):
    """One argument of a call.

    Attributes:
        key: the position or the name of the argument.
        leaves: the leaves of the argument.
        structure: the structure of the argument.
        reasons: the reason why a leaf is not differentiated, or `None` for a differentiated leaf; one per leaf.
    """

    key: int | str
    leaves: list[Any]
    structure: Structure
    reasons: list[str | None]

    @property
    def path(self) -> str:
        """The path of the argument in messages."""
        return f"args[{self.key}]" if isinstance(self.key, int) else f"kwargs[{self.key!r}]"


class Call:
    """A function with arguments and the selection of inputs to differentiate with respect to.

    Without `argnums` and `argnames`, the inputs are the trainable Variables that the function reads, or its first argument if
    it reads none. Integers and leaves that are no numbers are accepted and not differentiated.

    Args:
        transform: the name of the user's call, for messages.
        f: the function; a compiled function is replaced by the function that it was made from.
        args, kwargs: its arguments.
        argnums, argnames, has_aux: as for `explain`.

    Attributes:
        function: the uncompiled function.
        name: the name of the function.
        jitted: the given function if it is compiled, else `None`.
        parts: the arguments.
        variables: the Variables to differentiate with respect to.

    Raises:
        InputError: there is nothing to differentiate.
    """

    def __init__(
        self,
        transform: str,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: ArgNums | None = None,
        argnames: ArgNames | None = None,
        has_aux: bool = False,
    ) -> None:
        self.function, self.jitted = uncompiled(f)
        self.selection = Selection(transform, self.function, 0 if argnums is None else argnums, argnames)
        self.name = name_of(self.function)
        self.has_aux = has_aux
        self.args, self.kwargs = args, kwargs
        given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        self.parts = [Part(key, *flatten(value), []) for key, value in given]
        self.variables: list[Variable] = []
        met = _Met()
        self._state: list[Callable[[], None]] = []
        with quiet(), self.undisturbed(), setting(MAKER, met), reading() as read:
            self.bound()()
        self._state = [given.variable.putting_back() for given in met.values()]
        self.variables = [variable for variable in read if variable.trainable and id(variable) in met]
        chosen = argnums is not None or argnames is not None or not self.variables
        keys = self.selection.keys(args, kwargs) if chosen and (args or kwargs or argnums is not None) else ()
        for part in self.parts:
            selected = part.key in keys
            part.reasons.extend([undifferentiable(leaf) if selected else "It was not selected." for leaf in part.leaves])
        self.keys = tuple(keys)
        if not self.inputs():
            raise InputError(
                f"{self.selection.call}: there is nothing to differentiate. Pass floats, choose arguments by argnums or "
                f"argnames, or let the function read trainable Variables."
            )

    def inputs(self) -> list[tuple[str, Any]]:
        """Return path and value of the differentiated inputs: leaves of arguments first, then Variables."""
        found = [
            (path, leaf)
            for part in self.parts
            for path, leaf, reason in zip(part.structure.paths(part.path), part.leaves, part.reasons, strict=True)
            if reason is None
        ]
        return found + [(f"the Variable {v.name!r}", v.copied()) for v in self.variables]

    def integers(self) -> tuple[int, ...]:
        """Return the positions of Python integers and truth values, which a compiled function can take as static."""
        return tuple([i for i, a in enumerate(self.args) if type(a) in PYTHON_SCALARS and dtype_of(a).kind in "biu"])

    def copies(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with copies of all arrays."""
        args, kwargs, _ = self._made(None, None)
        return tuple(args), kwargs

    def bound(self, make: Callable[[Any], Any] | None = None, values: Mapping[int, Any] | None = None) -> Callable[[], Any]:
        """Return the call for one run as a function without arguments; it holds copies of all arrays.

        Args:
            make: maps each differentiated value to its replacement. Default: arguments and Variables stay as they are.
            values: replacements of input values, by the number of the input.
        """
        args, kwargs, number = self._made(make, values)
        given = []
        for variable in self.variables:
            if make is not None or (values and number in values):
                value = values[number] if values and number in values else variable.copied()
                given.append((variable, value if make is None else make(value)))
            number += 1

        def run() -> Any:
            with standing_in(given):
                out = self.function(*args, **kwargs)
            return split_aux(out, self.has_aux, self.selection)[0]

        return run

    def _made(
        self, make: Callable[[Any], Any] | None, values: Mapping[int, Any] | None
    ) -> tuple[list[Any], dict[str, Any], int]:
        """Return the arguments for one run and the number of inputs among them."""
        known: dict[int, Any] = {}
        args: list[Any] = list(self.args)
        kwargs = dict(self.kwargs)
        number = 0
        for part in self.parts:
            made = []
            for leaf, reason in zip(part.leaves, part.reasons or [""] * len(part.leaves), strict=True):
                if reason is not None:
                    made.append(_fresh(leaf, known))
                    continue
                value = values[number] if values and number in values else _fresh(leaf, known)
                made.append(value if make is None else make(value))
                number += 1
            whole = part.structure.unflatten(made)
            if isinstance(part.key, int):
                args[part.key] = whole
            else:
                kwargs[part.key] = whole
        return args, kwargs, number

    def entered(self, recorder: Recorder, values: Mapping[int, Any] | None = None) -> Callable[[], Any]:
        """Return the call for one run in a trace; the differentiated values, or `values`, become inputs of the trace."""
        return self.bound(lambda value: recorder.enter(hold_input(value, recorder)), values)

    def finished(self, recorder: Recorder, out: Any) -> tuple[list[Any], list[Any]]:
        """Return the leaves of a result as plain values, and the cotangents for the start of a backward pass: ones."""
        leaves, _ = checked_leaves(out, self.selection.transform, self.function)
        own = [isinstance(leaf, Recorded) and leaf.recorder is recorder for leaf in leaves]
        slots = [leaf.slot if mine else None for leaf, mine in zip(leaves, own, strict=True)]
        values = [innermost(leaf) for leaf in leaves]
        ones = [np.ones_like(value)[()] if dtype_of(value).kind in "fc" else None for value in values]
        return values, seeded(recorder, slots, ones)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Return a context that restores Variables and the random states of NumPy and Python at its end."""
        numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002 - the user's function may draw from it
        try:
            yield
        finally:
            np.random.set_state(numpys)  # noqa: NPY002
            random.setstate(pythons)
            for put_back in self._state:
                put_back()


class _Changing(Given):
    """A stand-in for a Variable in a run that must not change the Variable."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The current value."""
        return self._value

    def change(self, value: Any) -> None:
        """Set a new value."""
        self._value, self._latest = value, None


class _Met(dict[int, _Changing]):
    """Stand-ins for the Variables of a run, by identity; a call with a Variable returns its stand-in."""

    def __call__(self, variable: Variable) -> _Changing:
        """Return the stand-in of a Variable; create it at the first call."""
        if id(variable) not in self:
            self[id(variable)] = _Changing(variable, variable.held, ())
        return self[id(variable)]


@contextmanager
def quiet() -> Iterator[None]:
    """Return a context that silences warnings of NumPy and Python; the user's own calls give these warnings.

    An interrupt during the restoration triggers a second restoration, as in `functad.process.setting`.
    """
    errors, filters = np.geterr(), warnings.catch_warnings()
    filters.__enter__()

    def restore() -> None:
        np.seterr(**errors)
        filters.__exit__(None, None, None)

    try:
        try:
            warnings.simplefilter("ignore")
            np.seterr(all="ignore")
            yield
        finally:
            restore()
    except BaseException:
        restore()
        raise


def uncompiled(f: Any) -> tuple[Any, Any]:
    """Return the function inside a compiled one, and the compiled one; `f` and `None` if `f` is not compiled."""
    inner = getattr(f, "__func__", f)
    if not isinstance(inner, Jitted):
        return f, None
    own = uncompiled(inner.given[0])[0]
    return (own if inner is f else MethodType(own, f.__self__)), f


def _fresh(leaf: Any, known: dict[int, Any]) -> Any:
    """Return a copy of an array or random generator, one copy per object; return any other leaf unchanged."""
    if type(leaf) in PYTHON_SCALARS:
        return leaf
    if isinstance(leaf, (np.random.Generator, np.random.RandomState, random.Random)):
        return known.setdefault(id(leaf), copy.deepcopy(leaf))
    if is_array_or_number(leaf) and not issubclass(type(leaf), (Recorded, np.generic)) and hasattr(leaf, "copy"):
        if id(leaf) not in known:
            known[id(leaf)] = leaf.copy("K") if issubclass(type(leaf), np.ndarray) else leaf.copy()
        return known[id(leaf)]
    return leaf
